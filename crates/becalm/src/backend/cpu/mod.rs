//! This processor: [`Cpu`] runs programs of TFHE (`lwe`), [`CkksSession`] those of CKKS (`rlwe`).

mod lwe;
mod rlwe;

pub use lwe::Cpu;
pub use rlwe::{CkksEvaluator, CkksMaps, CkksSession, LinearMap, Plain, Shares};
