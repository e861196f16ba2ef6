//! CUDA kernels of becalm: their sources, the rings and sizes that they are compiled for, the tables that they read, the shapes of
//! their launches, and what a host needs of a device. No arithmetic, no CUDA library: the caller is the backend `cuda`
//! of the library, through the driver or, in tests, through the crate `becalm-emulator`.
#![deny(missing_docs)]

pub mod compile;
mod device;
mod gpu;
mod images;
mod kernels;
pub mod key_switch;
pub mod launch;
mod rings;
pub mod rns;
mod tables;

pub use compile::SOURCES;
pub use device::{Argument, Device, Fault, STREAMS};
pub use gpu::DeviceInfo;
pub use images::{image, images, options};
pub use kernels::Kernels;
pub use rings::{Arithmetic, RINGS, Ring, TEST_RINGS};
pub use tables::table;
