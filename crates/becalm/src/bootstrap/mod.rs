//! The point of the library: one file, one bootstrap.

pub mod ckks;
pub mod tfhe;
