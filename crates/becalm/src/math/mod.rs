//! Arithmetic that knows no ciphertext: the torus and its moduli, gadgets, transforms, randomness.

pub mod buffer;
pub mod complex;
pub mod exact;
pub mod fft;
pub mod gadget;
pub mod memory;
pub mod modulus;
pub mod ntt;
pub(crate) mod parallel;
pub mod random;
pub(crate) mod rns;
pub(crate) mod round;
pub mod sampling;
pub mod simd;
pub mod statistics;
pub mod threads;

pub use modulus::Modulus;
