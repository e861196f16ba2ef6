//! **becalm** makes noisy ciphertexts calm again: bootstrapping of fully homomorphic encryption.
//!
//! The layers, each importing only what stands left of it:
//! *math → security → params → cipher → {tfhe, ckks} → program → bootstrap → {apps, backend} → {bridge, job, laboratory}*.
#![deny(missing_docs)]

pub mod apps;
pub mod backend;
pub mod bootstrap;
pub mod bridge;
pub mod cipher;
pub mod ckks;
mod error;
pub mod job;
pub mod laboratory;
pub mod math;
pub mod params;
pub mod program;
mod progress;
pub mod security;
pub mod tfhe;
pub mod words;

pub use error::{Detail, Error, Missing, MissingKey, MissingLevels, MissingPurpose, Result};
pub use progress::{Progress, UNWATCHED};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/tutorial.md")]
struct Tutorial;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/ckks.md")]
struct Ckks;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/parameters.md")]
struct Parameters;
