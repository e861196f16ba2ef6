//! Functions of real numbers for CKKS: each is a [`Function`], which says its levels and its error before it runs, and records
//! itself into a program.
//!
//! ```
//! use becalm::apps::real::inverse;
//! use becalm::ckks::Chain;
//! use becalm::params::CkksParams;
//! use becalm::program::rlwe::CkksProgram;
//!
//! let inverse = inverse([0.25, 1.0], 20.0)?;
//! assert!(inverse.error() < 2f64.powi(-20));
//! let mut program = CkksProgram::new(&Chain::new(CkksParams::named("ckks_regular")?)?);
//! let x = program.input(inverse.levels(), 32768)?;
//! let y = inverse.record(&mut program, None, &[x])?;
//! assert_eq!(program.info(y[0]).map(|y| y.level), Some(0));
//! # Ok::<(), becalm::Error>(())
//! ```

mod bootstraps;
mod fit;
mod formula;
mod functions;
mod named;
mod order;
mod record;
mod recording;
mod sign;
mod slots;

pub use bootstraps::Bootstraps;
pub use fit::Aim;
pub use functions::{absolute, approximate, exp, inverse, inverse_sqrt, sigmoid, sign, sqrt, tanh};
pub use named::{Asked, Named};
pub use order::{argmax, compare, largest, maximum, minimum, smallest, sort};
pub use recording::Recording;
pub use slots::{concatenate, matrix_product, matrix_vector, mean, placed, replicate, sum};

use crate::Result;
use crate::bootstrap::ckks::KeyPlan;
use crate::program::Reg;
use crate::program::rlwe::CkksProgram;
use formula::Formula;

/// A function of vectors of real numbers, slot by slot or between slots.
#[derive(Debug, Clone)]
pub struct Function {
    name: String,
    formula: Formula,
    domain: Option<[f64; 2]>,
    gap: Option<f64>,
    error: f64,
    period: usize,
}

impl Function {
    /// A function of one value on a domain, with its largest absolute error there.
    fn of_one(name: &str, formula: Formula, domain: [f64; 2], error: f64) -> Function {
        Function { name: name.into(), formula, domain: Some(domain), gap: None, error, period: 1 }
    }

    /// A function that is right for values this far apart.
    fn beyond(self, gap: f64) -> Function {
        Function { gap: Some(gap), ..self }
    }

    /// A function of blocks of so many slots.
    fn of_blocks(self, period: usize) -> Function {
        Function { period, ..self }
    }

    /// A function that is exact but for the errors of ciphertexts.
    fn exact(name: &str, formula: Formula, period: usize) -> Function {
        Function { name: name.into(), formula, domain: None, gap: None, error: 0.0, period }
    }

    /// The same function by another name, which its errors have.
    pub fn named(self, name: impl Into<String>) -> Function {
        Function { name: name.into(), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of vectors that it takes.
    pub fn arguments(&self) -> usize {
        self.formula.arguments()
    }

    /// The values that it is made for; none if it takes all.
    pub fn domain(&self) -> Option<[f64; 2]> {
        self.domain
    }

    /// The least distance between values that it tells apart; none if there is none.
    pub fn gap(&self) -> Option<f64> {
        self.gap
    }

    /// The largest absolute error on the domain, for values without one: that of ciphertexts comes on top.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// Levels from the arguments to the results; bootstraps divide them.
    pub fn levels(&self) -> usize {
        self.formula.levels()
    }

    /// Products of two ciphertexts.
    pub fn products(&self) -> usize {
        self.formula.products()
    }

    /// Slots of a block: a vector has a multiple of them, and each block has results of its own.
    pub fn period(&self) -> usize {
        self.period
    }

    /// The rotations that it needs keys for, in vectors of so many slots.
    pub fn rotations(&self, slots: usize) -> Vec<i64> {
        self.formula.rotations(slots)
    }

    /// The results for plain numbers, all vectors of one length: a multiple of [`Function::period`].
    pub fn clear(&self, arguments: &[Vec<f64>]) -> Vec<Vec<f64>> {
        self.formula.clear(arguments)
    }

    /// Bootstraps that it takes on real vectors at these levels, with the keys of a plan.
    ///
    /// # Errors
    /// As [`Function::record`] and [`Bootstraps::new`].
    pub fn bootstraps(&self, plan: &KeyPlan, levels: &[usize], slots: usize) -> Result<usize> {
        let mut program = CkksProgram::new(plan.chain());
        let mut bootstraps = Bootstraps::new(plan.clone())?;
        let arguments = levels.iter().map(|level| program.input(*level, slots));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        arguments.iter().for_each(|_| bootstraps.argument(true));
        self.record(&mut program, Some(&mut bootstraps), &arguments)?;
        Ok(program.bootstraps())
    }

    /// Records it on registers, which are real: its results. With bootstraps it lifts registers where levels run out.
    ///
    /// # Errors
    /// `BadInput` for another number of registers, vectors of fewer slots than a block, and missing levels without bootstraps; then
    /// nothing is recorded. They have the name of the function.
    pub fn record(
        &self,
        program: &mut CkksProgram,
        bootstraps: Option<&mut Bootstraps>,
        arguments: &[Reg],
    ) -> Result<Vec<Reg>> {
        program.function(&self.name, |program| {
            self.formula.record(self.error == 0.0, self.period, program, bootstraps, arguments)
        })
    }
}
