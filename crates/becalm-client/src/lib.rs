//! The client half of becalm for wasm32: keys, encryption, decryption and programs in a web page or in Node.
//!
//! JavaScript sees numbers alone. Each function takes numbers of [objects] and returns the number of a new one, or the
//! negative number of an object whose bytes are an error as JSON. An argument that holds bytes is taken: it is wiped and gone after
//! the call. A key stays until [`release`](objects::release).
//!
//! Nothing here sends anything anywhere. The caller decides which bytes travel; `npm/index.js` has names that say which are secret.
//!
//! Built for another machine, this crate carries the [package](PACKAGE) that pages import, and its [module](WASM) for wasm32 where
//! `make client` made one before.

mod arguments;
pub mod ckks;
pub mod objects;
mod owner;
mod page;
pub mod tfhe;

use objects::{Object, answer};

/// The JavaScript of the package `becalm-client`.
pub const PACKAGE: &str = include_str!("../npm/index.js");

include!(concat!(env!("OUT_DIR"), "/wasm.rs"));

/// The BLAKE3 digest of a file, under which a service stores it, in hexadecimal digits.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn digest(file: u32) -> i32 {
    answer(|| Ok(Object::text(&blake3::hash(&objects::bytes(file)?).to_hex())))
}

/// The version of this package.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn version() -> i32 {
    answer(|| Ok(Object::text(env!("CARGO_PKG_VERSION"))))
}
