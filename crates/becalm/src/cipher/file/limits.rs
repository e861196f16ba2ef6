//! Limits on the cost of reading: one rule for files and texts of every format.
//!
//! A reader takes at most [`EXPANSION`] bytes of memory for each byte that it reads, so a file that is too long raises an error before
//! any of it is read. A number that a file announces (wires, gates) raises one before anything is allocated for it, unless
//! the length of the file pays for the number or the number is below [`FREE`].

use super::{Trust, bad_but};
use crate::{Error, Result};
use std::fmt;

/// Bytes of memory that one byte of a file or text may take, at most. Tests measure this for every format.
const EXPANSION: u64 = 64;
/// Bytes of memory that reading may take beside, however short the text is.
const BASE: usize = 4 << 20;
/// The number that any file may announce, however short it is.
const FREE: usize = 1 << 14;

/// The memory and time that the reader of a file or text may spend. The defaults are right for files of strangers.
///
/// ```
/// use becalm::cipher::file::Limits;
/// use becalm::program::circuit::Circuit;
///
/// let patient = Limits { memory: 4 << 30, ..Limits::default() };
/// let refused = Circuit::load("nowhere.txt", patient).unwrap_err();
/// assert_eq!(refused.kind(), "io");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory, at most. A reader takes at most 64 for each byte of a file, so a file of more than `memory`/64 bytes raises
    /// an error. Yosys, which reads Verilog, gets the same limit.
    pub memory: u64,
    /// Seconds of processor time for Yosys, at most, which has ten times that by the clock, and a minute at least. Every other reader takes a time that is linear in the length of the file.
    pub seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { memory: Trust::default().limit, seconds: 60 }
    }
}

impl From<Trust> for Limits {
    fn from(trust: Trust) -> Self {
        Limits { memory: trust.limit, ..Limits::default() }
    }
}

impl Limits {
    /// The longest file that may be read.
    pub(crate) fn length(self) -> u64 {
        self.memory / EXPANSION
    }
}

/// Bytes of memory that reading a text of `bytes` may take.
pub(crate) fn readable(bytes: usize) -> usize {
    bytes.saturating_mul(EXPANSION as usize).saturating_add(BASE)
}

/// The number of things that a text of `bytes` may announce.
pub(crate) fn payable(bytes: usize) -> usize {
    FREE.max(bytes)
}

/// The longest file or text, and the limit that its user knows.
#[derive(Clone, Copy)]
pub(crate) struct Most {
    pub(super) bytes: u64,
    limit: u64,
}

impl From<u64> for Most {
    fn from(limit: u64) -> Self {
        Most { bytes: limit, limit }
    }
}

impl From<Limits> for Most {
    fn from(limits: Limits) -> Self {
        Most { bytes: limits.length(), limit: limits.memory }
    }
}

impl fmt::Display for Most {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} bytes", self.bytes)?;
        match self.bytes == self.limit {
            true => Ok(()),
            // A reader takes this much memory for each byte.
            false => write!(f, ", a {EXPANSION}th of the limit of {}", self.limit),
        }
    }
}

/// Refuses more bytes than the caller has room for.
pub(crate) fn require_limit(total: u64, limit: impl Into<Most>) -> Result<()> {
    let most = limit.into();
    if total <= most.bytes {
        return Ok(());
    }
    Err(too_long(most.to_string(), total))
}

/// The error of a file or text of more bytes than are wanted.
pub(super) fn too_long(wanted: String, total: u64) -> Error {
    let remedy = "split it, or raise the limit if you trust the file";
    bad_but(wanted, format!("{total} bytes"), remedy).above_limit()
}
