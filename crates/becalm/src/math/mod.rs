//! Arithmetic that knows no ciphertext: the torus and its moduli, gadgets, transforms, randomness.

pub mod modulus;
pub mod simd;

pub use modulus::Modulus;
