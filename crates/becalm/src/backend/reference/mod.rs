//! The slow machine that defines the result of every instruction: exact arithmetic, one ciphertext at a time.

mod lwe;
mod polynomial;
mod rlwe;

pub use lwe::Reference;
