//! This processor: [`Cpu`] runs programs of TFHE (`lwe`) and of CKKS (`rlwe`).

mod linear;
mod lwe;
mod rlwe;

pub use lwe::Cpu;
pub use rlwe::{MemoryBudget, Plain};
