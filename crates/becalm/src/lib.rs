//! **becalm** makes noisy ciphertexts calm again: bootstrapping of fully homomorphic encryption.
//!
//! The layers, each importing only what stands left of it:
//! *math → security → params → cipher → {tfhe, ckks} → program → bootstrap → {apps, backend}*.
#![deny(missing_docs)]

mod error;
pub mod math;
pub mod params;

pub use error::{Detail, Error, Result};
