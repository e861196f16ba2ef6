//! becalm beside its peers: both in one process, interleaved, every output checked. Not published.
//!
//! `cargo run -p becalm-bench --release -- tfhe` is the front end; the peers' halves are a library so that the
//! interoperation test can use them too.

pub mod cases;
pub mod integers;
pub mod ours;
pub mod peer_tfhe;
pub mod rows;
pub mod variants;
