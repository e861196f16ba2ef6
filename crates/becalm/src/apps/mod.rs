//! Applications, recorded as programs: encrypted integers, AES, and functions of real numbers. An application knows circuits, never machines: what
//! it records runs on every backend.

pub mod aes;
mod circuit;
pub mod integer;
pub mod real;

pub use circuit::{Aim, Arguments, Circuit};

/// The bits of a byte, the lowest first.
fn bits(byte: u8) -> [u64; 8] {
    std::array::from_fn(|i| u64::from(byte >> i & 1))
}
