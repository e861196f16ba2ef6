//! The slow machine that defines what every instruction gives: exact arithmetic, one ciphertext at a time.

mod lwe;
mod polynomial;
mod rlwe;

pub use lwe::Reference;
