//! From ciphertexts to ciphertexts, written once for both families: keys on a machine, checks, lanes, waves and progress.
//!
//! An evaluator makes every check before the first instruction runs. It takes the facts of a result, such as its noise, from the
//! program and never from the machine. A single operation is a program of one instruction.

mod keyring;
mod lwe;
mod opened;
mod rlwe;

pub use keyring::Keyring;
pub use lwe::batch_of;
pub(crate) use lwe::require_fit;

use super::{Backend, Ckks, Fallback, Family, Info, Keys, Tfhe};
use crate::program::{Reg, Walk};
use crate::{Progress, Result, UNWATCHED};
use opened::Opened;
use std::sync::Arc;

/// A program for a machine: with its constants in the machine's form where it was prepared.
#[derive(Debug)]
pub struct Prepared<F: Family = Ckks> {
    program: Arc<F::Program>,
    /// Of a program that was prepared.
    walk: Option<Arc<Walk>>,
}

impl<F: Family> Clone for Prepared<F> {
    fn clone(&self) -> Prepared<F> {
        Prepared { program: self.program.clone(), walk: self.walk.clone() }
    }
}

/// The machine makes the constants when it loads the program, and keeps them until it loads another.
impl<F: Family> From<&Arc<F::Program>> for Prepared<F> {
    fn from(program: &Arc<F::Program>) -> Prepared<F> {
        Prepared { program: program.clone(), walk: None }
    }
}

impl<F: Family> From<&Prepared<F>> for Prepared<F> {
    fn from(prepared: &Prepared<F>) -> Prepared<F> {
        prepared.clone()
    }
}

/// A family, as evaluators see it: its ciphertexts, and the checks before a run.
pub trait Evaluate: Family {
    /// The facts of the keys that an evaluator keeps.
    type Facts: Send + Sync;
    /// An argument of a program: a batch of TFHE, a ciphertext of CKKS.
    type Argument<'a>;
    /// A result.
    type Output;

    /// The facts of these keys.
    ///
    /// # Errors
    /// `WrongParams` for keys that do not go together.
    fn facts(setup: &Self::Setup) -> Result<Self::Facts>;
    /// As [`Evaluator::require`].
    ///
    /// # Errors
    /// As there.
    fn require(facts: &Self::Facts, program: &Self::Program) -> Result<()>;
    /// As [`Evaluator::check`].
    ///
    /// # Errors
    /// As there.
    fn check(
        facts: &Self::Facts,
        program: &Self::Program,
        inputs: &[Self::Argument<'_>],
    ) -> Result<()>;
    /// As [`Evaluator::run_with`].
    ///
    /// # Errors
    /// As there.
    fn run(
        on: &Evaluator<Self>,
        program: Prepared<Self>,
        inputs: &[Self::Argument<'_>],
        progress: Progress,
    ) -> Result<Vec<Self::Output>>;
    /// Records a program of arguments like `inputs`.
    ///
    /// # Errors
    /// Those of `record`.
    fn recorded(
        facts: &Self::Facts,
        inputs: &[&Self::Output],
        record: impl FnOnce(&mut Self::Program, &[Reg]) -> Result<Vec<Reg>>,
    ) -> Result<Arc<Self::Program>>;
    /// A result as the argument of another program.
    fn argument(x: &Self::Output) -> Self::Argument<'_>;
}

/// Keys on a machine: the server's side. It runs programs of the family of the keys.
///
/// ```
/// use becalm::backend::{CkksSetup, Cpu, Evaluator};
/// use becalm::ckks::Context;
/// use becalm::math::complex::Complex;
/// use becalm::params::CkksParams;
/// use becalm::program::rlwe::CkksProgram;
/// use std::sync::Arc;
///
/// # fn main() -> becalm::Result<()> {
/// // A toy set: `true` allows an insecure one.
/// let context = Arc::new(Context::new(CkksParams::named("ckks_toy_12")?, true)?);
/// let mut program = CkksProgram::new(&context);
/// let x = program.input(2, 4)?;
/// let square = program.multiply(x, x)?;
/// program.output(square)?;
/// let secret = context.secret_key()?;
/// let keys = Arc::new(context.keys(&secret, &program.needs())?);
/// let evaluator = Evaluator::new(&Cpu::new(0)?, CkksSetup::new(&context, &keys))?;
/// let x = context.encrypt(&[0.5, -0.5, 0.25, 1.0].map(Complex::from), 2, &secret)?;
/// let y = evaluator.run(&Arc::new(program), &[&x])?;
/// assert!((context.decrypt(&y[0], &secret)?[2].re - 0.0625).abs() < 1e-6);
/// // A single operation is recorded on the spot.
/// let z = evaluator.call(&[&x], |program, r| program.multiply(r[0], r[0]))?;
/// assert!((context.decrypt(&z, &secret)?[2].re - 0.0625).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
pub struct Evaluator<F: Evaluate = Tfhe> {
    facts: F::Facts,
    opened: Opened<F>,
}

impl<F: Evaluate> Evaluator<F> {
    /// Opens keys on a machine: all parts of an evaluation key of TFHE, or the keys of a [`TfheSetup`](super::TfheSetup) or
    /// [`CkksSetup`](super::CkksSetup).
    ///
    /// # Errors
    /// As [`Runs::open`](super::Runs::open); `Unsupported` for a machine that does not run the family.
    pub fn new(backend: &dyn Backend, keys: impl Keys<Family = F>) -> Result<Self> {
        let setup = keys.setup();
        let facts = F::facts(&setup)?;
        let session = backend.runs::<F>()?.open(setup)?;
        Ok(Evaluator { facts, opened: Opened::new(session, backend) })
    }

    /// The machine.
    pub fn info(&self) -> Info {
        self.opened.machine().0.clone()
    }

    /// Whether its keys are on a device, so that to open them anew takes as long as to bring them there.
    fn is_far(&self) -> bool {
        !self.opened.runs_at_once()
    }

    /// Why the machine is not a GPU, where [`by_name`](super::by_name) was asked for `"auto"`.
    pub fn fallback(&self) -> Option<Fallback> {
        self.opened.machine().1.clone()
    }

    /// Runs a program on one argument for each input. Batches of TFHE have one length, and an encrypted table serves every lane.
    /// Ciphertexts of CKKS are at the levels of the inputs or above; a program that runs again keeps its matrices, and one that is
    /// [`Prepared`] keeps them while others run.
    ///
    /// # Errors
    /// `WrongParams`, `WrongKey` and `BadInput` for arguments that do not fit the program; `WrongKey` naming a key that is missing;
    /// `TooNoisy` for arguments that are too noisy for it; `Memory` where there is too little; errors of the machine.
    pub fn run(
        &self,
        program: impl Into<Prepared<F>>,
        inputs: &[F::Argument<'_>],
    ) -> Result<Vec<F::Output>> {
        self.run_with(program, inputs, UNWATCHED)
    }

    /// [`Evaluator::run`] that reports progress and can be stopped: between waves, and within the long instructions of CKKS.
    ///
    /// # Errors
    /// As there; `Interrupted` when stopped.
    pub fn run_with(
        &self,
        program: impl Into<Prepared<F>>,
        inputs: &[F::Argument<'_>],
        progress: Progress,
    ) -> Result<Vec<F::Output>> {
        F::run(self, program.into(), inputs, progress)
    }

    /// Records a program on arguments like `inputs` and runs it on them: its result.
    ///
    /// # Errors
    /// The errors of `record`; as [`Evaluator::run`].
    pub fn call(
        &self,
        inputs: &[&F::Output],
        record: impl FnOnce(&mut F::Program, &[Reg]) -> Result<Reg>,
    ) -> Result<F::Output> {
        // The program has one result.
        Ok(self.call_many(inputs, |program, r| Ok(vec![record(program, r)?]))?.remove(0))
    }

    /// [`Evaluator::call`] for any number of results.
    ///
    /// # Errors
    /// As there.
    pub fn call_many(
        &self,
        inputs: &[&F::Output],
        record: impl FnOnce(&mut F::Program, &[Reg]) -> Result<Vec<Reg>>,
    ) -> Result<Vec<F::Output>> {
        let program = F::recorded(&self.facts, inputs, record)?;
        let inputs: Vec<F::Argument<'_>> = inputs.iter().map(|x| F::argument(x)).collect();
        self.run(&program, &inputs)
    }

    /// Refuses keys that do not suffice for a program: before its matrices are encoded, which takes time.
    ///
    /// # Errors
    /// `WrongKey` naming the missing key; `WrongParams` for a program of another set.
    pub fn require(&self, program: &F::Program) -> Result<()> {
        F::require(&self.facts, program)
    }

    /// Refuses keys and arguments that a program does not take: before its matrices are encoded, which takes time.
    ///
    /// # Errors
    /// As [`Evaluator::run`] before it computes.
    pub fn check(&self, program: &F::Program, inputs: &[F::Argument<'_>]) -> Result<()> {
        F::check(&self.facts, program, inputs)
    }
}
