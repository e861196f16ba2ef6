//! The TFHE scheme: encode, encrypt, linear operations, key switch, noise.

mod encrypt;
pub mod key_switch;
mod keygen;
mod linear;
mod lwe;
pub mod modulus_switch;
pub mod noise;
mod polynomial;
pub mod search;
mod slots;
mod table;

pub(crate) use encrypt::require_plain;

pub use crate::cipher::Output;
pub use table::Table;
