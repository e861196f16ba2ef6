//! The functions that JavaScript hands in: randomness, progress, and a place for long files.

#[cfg(target_family = "wasm")]
mod imports {
    #[link(wasm_import_module = "becalm")]
    unsafe extern "C" {
        /// Fills memory with random bytes; 0 once it has done so.
        pub(super) fn random(bytes: *mut u8, length: usize) -> u32;
        /// Copies bytes behind those of before.
        pub(super) safe fn take(bytes: *const u8, length: usize);
        /// Is told how many steps of how many are done.
        pub(super) safe fn progress(done: usize, all: usize);
    }
}

/// The source of `getrandom` where nothing else is known: `crypto.getRandomValues`.
#[cfg(target_family = "wasm")]
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    bytes: *mut u8,
    length: usize,
) -> Result<(), getrandom::Error> {
    // SAFETY: getrandom gives a place of this length that is ours to write.
    match unsafe { imports::random(bytes, length) } {
        0 => Ok(()),
        _ => Err(getrandom::Error::UNSUPPORTED),
    }
}

/// Hands a piece of a file to the page; elsewhere there is none.
pub(crate) fn take(bytes: &[u8]) {
    #[cfg(target_family = "wasm")]
    imports::take(bytes.as_ptr(), bytes.len());
    #[cfg(not(target_family = "wasm"))]
    let _ = bytes;
}

/// Tells the page how far long work is.
pub(crate) fn progress(done: usize, all: usize) {
    #[cfg(target_family = "wasm")]
    imports::progress(done, all);
    #[cfg(not(target_family = "wasm"))]
    let _ = (done, all);
}
