//! A program of CKKS as users record it: operators on vectors of any levels, functions, and bootstraps where levels run out.

use super::{Bootstraps, Function};
use crate::bootstrap::ckks::KeyPlan;
use crate::ckks::Chain;
use crate::program::Reg;
use crate::program::rlwe::{CkksProgram, Operator, RlweInfo};
use crate::{Error, Result};
use std::sync::Arc;

/// A program that is being recorded, what is known of the values of its arguments, and the bootstraps that it may insert. Each call records all
/// that it does, or nothing where it fails.
#[derive(Clone)]
pub struct Recording {
    program: Arc<CkksProgram>,
    /// Whether each argument is real.
    real: Vec<bool>,
    bootstraps: Option<Bootstraps>,
    auto: bool,
}

impl Recording {
    /// An empty program for the set of a chain.
    ///
    /// ```
    /// use becalm::apps::real::Recording;
    /// use becalm::bootstrap::ckks::{KeyPlan, Wish};
    /// use becalm::params::CkksParams;
    /// use becalm::program::rlwe::Operator;
    ///
    /// let plan = KeyPlan::new(CkksParams::named("ckks_toy_12")?, &Wish::default())?;
    /// let mut recording = Recording::new(plan.chain());
    /// recording.bootstrap_by(&plan, true)?;
    /// let x = recording.input(1, 2048, true)?;
    /// let y = recording.apply(&Operator::Power(4), &[x])?[0];
    /// recording.output(y)?;
    /// assert_eq!((recording.program().bootstraps(), recording.is_real(y)), (1, true));
    /// # Ok::<(), becalm::Error>(())
    /// ```
    pub fn new(chain: &Chain) -> Recording {
        Recording::of(CkksProgram::new(chain))
    }

    /// A program that was recorded before, as one from a file: nothing is known of the values of its arguments.
    pub fn of(program: CkksProgram) -> Recording {
        let real = vec![false; program.inputs().len()];
        Recording { program: Arc::new(program), real, bootstraps: None, auto: false }
    }

    /// The program as it stands.
    pub fn program(&self) -> &Arc<CkksProgram> {
        &self.program
    }

    /// Lets functions that ask for it bootstrap by keys of this plan, unless they do by others already; with `auto` every operator and function
    /// bootstraps arguments that lack its levels.
    ///
    /// # Errors
    /// As [`Bootstraps::new`].
    pub fn bootstrap_by(&mut self, plan: &KeyPlan, auto: bool) -> Result<()> {
        if self.bootstraps.is_none() {
            let mut made = Bootstraps::new(plan.clone())?;
            self.real.iter().for_each(|real| made.argument(*real));
            self.bootstraps = Some(made);
        }
        self.auto |= auto;
        Ok(())
    }

    /// A new argument; `real` says that its values are.
    ///
    /// # Errors
    /// As [`CkksProgram::input`].
    pub fn input(&mut self, level: usize, slots: usize, real: bool) -> Result<Reg> {
        let made = Arc::make_mut(&mut self.program).input(level, slots)?;
        self.argument(real);
        Ok(made)
    }

    /// A new argument like ciphertexts that are at hand, one for each lane: at the lowest of their levels, and at the scale of that one.
    ///
    /// # Errors
    /// `BadInput` for no lanes; as [`CkksProgram::input_as`].
    pub fn input_like(&mut self, lanes: &[RlweInfo], real: bool) -> Result<Reg> {
        let Some(lowest) = lanes.iter().min_by_key(|lane| lane.level) else {
            let remedy = "pass a ciphertext for each lane";
            return Err(Error::bad_input("input", "one lane or more", "none", remedy));
        };
        let made = Arc::make_mut(&mut self.program).input_as(*lowest)?;
        self.argument(real);
        Ok(made)
    }

    /// A new argument of integers.
    ///
    /// # Errors
    /// As [`CkksProgram::input_integers`].
    pub fn input_integers(&mut self, bits: u32) -> Result<Reg> {
        let made = Arc::make_mut(&mut self.program).input_integers(bits)?;
        self.argument(true);
        Ok(made)
    }

    /// Notes of the next argument whether it is real.
    fn argument(&mut self, real: bool) {
        self.real.push(real);
        if let Some(bootstraps) = &mut self.bootstraps {
            bootstraps.argument(real);
        }
    }

    /// Marks a result.
    ///
    /// # Errors
    /// As [`CkksProgram::output`].
    pub fn output(&mut self, reg: Reg) -> Result<()> {
        Arc::make_mut(&mut self.program).output(reg)
    }

    /// Whether all values of a register are known to be real.
    pub fn is_real(&self, reg: Reg) -> bool {
        let known = self.program.known_real(&self.real);
        known.is_ok_and(|known| known.get(reg.0 as usize).is_some_and(|real| *real))
    }

    /// Records an operator: its results.
    ///
    /// # Errors
    /// As [`Operator::record`], and as [`Bootstraps::lifted`] where it bootstraps.
    pub fn apply(&mut self, operator: &Operator, args: &[Reg]) -> Result<Vec<Reg>> {
        let auto = self.auto;
        self.wholly(|program, bootstraps| match bootstraps.filter(|_| auto) {
            None => operator.record(program, args),
            Some(bootstraps) => bootstraps.apply(program, operator, args),
        })
    }

    /// Records a function: its results. It may bootstrap where it is asked to, or every call does.
    ///
    /// # Errors
    /// As [`Function::record`]; `BadInput` for vectors that are not known to be real where the function is an approximation.
    pub fn evaluate(&mut self, function: &Function, args: &[Reg], auto: bool) -> Result<Vec<Reg>> {
        if function.domain().is_some() && !args.iter().all(|reg| self.is_real(*reg)) {
            let remedy = "use real values, or read the ciphertext as real";
            let refused = Error::bad_input("record", "values known to be real", "others", remedy);
            return Err(refused.of(function.name().to_owned()));
        }
        let auto = auto || self.auto;
        self.wholly(|program, bootstraps| {
            function.record(program, bootstraps.filter(|_| auto), args)
        })
    }

    /// Records another program, such as a bootstrap, on these registers: its results.
    ///
    /// # Errors
    /// As [`CkksProgram::append`]; `BadInput` for registers that are not known to be real, where a bootstrap takes real ones.
    pub fn append(&mut self, other: &CkksProgram, args: &[Reg]) -> Result<Vec<Reg>> {
        let known: Vec<bool> = args.iter().map(|reg| self.is_real(*reg)).collect();
        self.wholly(|program, _| {
            let made = program.append(other, args)?;
            other.real(&known)?;
            Ok(made)
        })
    }

    fn wholly<T>(
        &mut self,
        work: impl FnOnce(&mut CkksProgram, Option<&mut Bootstraps>) -> Result<T>,
    ) -> Result<T> {
        let (before, own) = (self.bootstraps.clone(), self.bootstraps.as_mut());
        let made = Arc::make_mut(&mut self.program).wholly(|program| work(program, own));
        if made.is_err() {
            // It forgets the bootstraps that are gone with the rest.
            self.bootstraps = before;
        }
        made
    }
}
