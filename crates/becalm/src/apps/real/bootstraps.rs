//! Bootstraps where levels run out: the usual kind of the keys, on a register that lacks the levels of the next instruction.

use crate::bootstrap::ckks::{KeyPlan, Kind, Values};
use crate::program::Reg;
use crate::program::rlwe::{CkksProgram, Operator, levels_of_power};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Inserts bootstraps into one program, each register bootstrapped once at the most.
#[derive(Clone)]
pub struct Bootstraps {
    plan: Arc<KeyPlan>,
    kind: Kind,
    /// Whether each argument of the program is real, in order.
    real: Vec<bool>,
    recorded: BTreeMap<bool, Arc<CkksProgram>>,
    made: BTreeMap<Reg, Reg>,
}

impl Bootstraps {
    /// Bootstraps of the usual kind of these keys.
    ///
    /// # Errors
    /// `WrongKey` for keys without a bootstrap.
    pub fn new(plan: KeyPlan) -> Result<Bootstraps> {
        let Some(kind) = plan.wish().kinds.first().copied() else {
            let (wanted, got) = ("keys of a bootstrap", "keys without");
            let remedy = "make keys with a bootstrap, or of a set that has one";
            return Err(Error::wrong_key("bootstrap", wanted, got, remedy));
        };
        let (recorded, made) = (BTreeMap::new(), BTreeMap::new());
        Ok(Bootstraps { plan: Arc::new(plan), kind, real: vec![], recorded, made })
    }

    /// Says of the next argument of the program whether it is real. Bootstraps of real values take half the time.
    pub fn argument(&mut self, real: bool) {
        self.real.push(real);
    }

    /// The register, or its bootstrap if it has fewer levels than these. The levels left after them suffice for the next bootstrap,
    /// where a bootstrap leaves that many.
    ///
    /// # Errors
    /// `BadInput` if no bootstrap leaves as many levels, or if the register is too low for one.
    pub fn lifted(&mut self, program: &mut CkksProgram, reg: Reg, levels: usize) -> Result<Reg> {
        let level = |p: &CkksProgram, reg| p.info(reg).map_or(0, |info| info.level);
        if levels == 0 || level(program, reg) >= levels + self.floor(program, reg)?.1 {
            return Ok(reg);
        }
        let (top, floor) = self.floor(program, reg)?;
        if top < levels {
            let wanted = format!("instructions of at most {top} levels, which a bootstrap leaves");
            let remedy = "use a lower degree or fewer bits, or a set with more levels";
            return Err(Error::bad_input("bootstrap", wanted, format!("{levels} levels"), remedy));
        }
        if let Some(made) = self.made.get(&reg) {
            return Ok(*made);
        }
        // A bootstrap would leave no more than there is.
        if level(program, reg) >= levels && top < levels + floor {
            return Ok(reg);
        }
        let real = self.is_real(program, reg)?;
        let made = program.append(&*self.recorded(real)?, &[reg])?;
        self.made.insert(reg, made[0]);
        // A bootstrapped register is not bootstrapped again: there is nothing above it.
        self.made.insert(made[0], made[0]);
        Ok(made[0])
    }

    /// Records an operator on these registers, each bootstrapped first if it lacks the levels: its results.
    ///
    /// # Errors
    /// As [`Bootstraps::lifted`] and [`Operator::record`].
    pub fn apply(
        &mut self,
        program: &mut CkksProgram,
        operator: &Operator,
        args: &[Reg],
    ) -> Result<Vec<Reg>> {
        if let (Operator::Power(exponent), [x]) = (operator, args) {
            return Ok(vec![self.power(program, *x, *exponent)?]);
        }
        let lifted = args.iter().map(|reg| self.lifted(program, *reg, operator.levels()));
        let lifted = lifted.collect::<Result<Vec<_>>>()?;
        operator.record(program, &lifted)
    }

    /// x^exponent in every slot. A power of more levels than a bootstrap leaves is a power of a power.
    ///
    /// # Errors
    /// As [`Bootstraps::lifted`] and [`CkksProgram::power`].
    pub fn power(&mut self, program: &mut CkksProgram, x: Reg, exponent: u64) -> Result<Reg> {
        let (levels, most) = (levels_of_power(exponent), self.floor(program, x)?.0);
        let x = self.lifted(program, x, levels.min(most))?;
        if levels <= most || most == 0 {
            return program.power(x, exponent);
        }
        // Squares double the deviation of a scale; the last level brings it back to the scale of its level.
        let step = 1 << (most - 1).max(1);
        let high = self.power(program, x, step)?;
        let low = program.info(high).map_or(0, |info| info.level.saturating_sub(1));
        let high = program.level_down(high, low)?;
        let high = self.power(program, high, exponent / step)?;
        match exponent % step {
            0 => Ok(high),
            rest => {
                let factors = [high, self.power(program, x, rest)?];
                let lifted = factors.map(|reg| self.lifted(program, reg, 1));
                let both = program.aligned(&lifted.into_iter().collect::<Result<Vec<_>>>()?)?;
                program.multiply(both[0], both[1])
            }
        }
    }

    fn is_real(&self, program: &CkksProgram, reg: Reg) -> Result<bool> {
        let mut real = self.real.clone();
        real.resize(program.inputs().len(), false);
        Ok(program.known_real(&real)?.get(reg.0 as usize).copied().unwrap_or(false))
    }

    fn recorded(&mut self, real: bool) -> Result<Arc<CkksProgram>> {
        if !self.recorded.contains_key(&real) {
            let values = if real { Values::Real } else { Values::Complex };
            let made = Arc::new(self.plan.record(self.kind, None, values, None)?);
            self.recorded.insert(real, made);
        }
        Ok(self.recorded[&real].clone())
    }

    /// The levels that a bootstrap of a register leaves, and the level that it takes.
    fn floor(&mut self, program: &CkksProgram, reg: Reg) -> Result<(usize, usize)> {
        let real = self.is_real(program, reg)?;
        let bootstrap = self.recorded(real)?;
        let level = |regs: &[Reg]| {
            regs.first().and_then(|reg| bootstrap.info(*reg)).map_or(0, |info| info.level)
        };
        Ok((level(bootstrap.outputs()), level(bootstrap.inputs())))
    }
}
