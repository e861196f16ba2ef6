//! becalm beside its peers: by turns, every output checked. Not published.
//!
//! With the crate `tfhe` both sides are in one process; the peers of [`ckks`] are separate processes. `cargo run -p becalm-bench --release -- tfhe` is the front end; the peers' halves are a library so that the
//! interoperation test can use them too.

pub mod cases;
pub mod ckks;
#[cfg(feature = "tfhe")]
pub mod integers;
#[cfg(feature = "tfhe")]
pub mod ours;
#[cfg(feature = "tfhe")]
pub mod peer_tfhe;
pub mod rows;
pub mod tables;
#[cfg(feature = "tfhe")]
pub mod variants;
