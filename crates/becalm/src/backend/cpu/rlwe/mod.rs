//! Arithmetic of CKKS on this processor: [`CkksEvaluator`] has the keys and computes, [`CkksSession`] runs programs on it.
//!
//! Polynomials are values at the roots of unity in the order of this processor's transforms, a vector of doubles for each prime.

mod arithmetic;
mod evaluate;
mod key_switch;
mod linear;
mod machine;
mod plain;
mod polynomial;
mod session;
mod sum;
mod work;

pub use evaluate::CkksEvaluator;
pub use linear::LinearMap;
pub(super) use machine::open;
pub use plain::Plain;
pub use session::{CkksMaps, CkksSession, Shares};

#[cfg(test)]
mod tests;
