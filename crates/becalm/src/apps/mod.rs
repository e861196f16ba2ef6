//! Applications, recorded as programs: encrypted integers and AES. An application knows circuits, never machines: what
//! it records runs on every backend.

// aes
mod circuit;
pub mod integer;

pub use circuit::{Aim, Circuit};
