//! CUDA kernels of becalm: their sources, the rings that they are compiled for, the tables that they read and the shapes of
//! their launches. No arithmetic, no CUDA library: what calls them is the backend `cuda` of the library.
//!
//! With the feature `emulator` the same kernels run on the CPU, which is how the tests prove them.
#![deny(missing_docs)]

pub mod compile;
#[cfg(feature = "emulator")]
pub mod emulator;
pub mod launch;
mod rings;
mod tables;

pub use rings::{Arithmetic, RINGS, Ring, TEST_RINGS};
pub use tables::table;
