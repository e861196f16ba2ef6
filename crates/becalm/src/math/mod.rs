//! Arithmetic that knows no ciphertext: the torus and its moduli, gadgets, transforms, randomness.

pub mod modulus;
pub mod random;
pub mod sampling;
pub mod simd;

pub use modulus::Modulus;
