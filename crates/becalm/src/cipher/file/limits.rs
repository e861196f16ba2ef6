//! What reading may cost: one rule for files and texts of every format.
//!
//! A reader takes at most [`EXPANSION`] bytes of memory for each byte that it reads, so a file is refused by its length before
//! any of it is read. A number that a file announces (wires, gates) is refused before anything is allocated for it, unless
//! the length of the file pays for it or it is below [`FREE`].

use super::disk::{io_error, open};
use super::{Trust, bad_but};
use crate::Result;
use std::io::Read;
use std::path::Path;

/// Most bytes of memory for a byte of a file or text; tests measure it for every format.
const EXPANSION: u64 = 64;
/// What any file may announce, however short it is.
const FREE: usize = 1 << 14;
/// What to do about a limit.
const RAISE: &str = "split it, or raise the limit if you trust the file (`Trust::limit` or `Limits::memory`, \
    `limit=` in Python, `--limit` of the command)";

/// What the reader of a file or text may spend. The defaults are right for files of strangers.
///
/// ```
/// use becalm::cipher::file::Limits;
/// use becalm::program::circuit::Circuit;
///
/// let patient = Limits { memory: 4 << 30, ..Limits::default() };
/// assert!(Circuit::load("nowhere.txt", patient).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of memory. A reader takes at most 64 for each byte of a file, so a file of more than `memory`/64 bytes is
    /// refused. Yosys, which reads Verilog, gets as much.
    pub memory: u64,
    /// Most seconds of processor time for Yosys. Every other reader takes a time that is linear in the length of the file.
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

    /// A whole file that must be text.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io); [`Error::BadFile`](crate::Error::BadFile) for a folder, pipe or device, a file of more than `memory`/64 bytes, an empty one, and
    /// one that is not text. Each names the path.
    pub fn read_text(self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        let text = String::from_utf8(self.read_bytes(path)?).ok();
        text.filter(|text| !text.contains('\0')).ok_or_else(|| {
            let remedy = "give a text: UTF-8 without zero bytes";
            bad_but("a text", format!("{}, which holds other bytes", path.display()), remedy)
        })
    }

    /// A whole file.
    ///
    /// # Errors
    /// As [`Limits::read_text`], but for any contents.
    pub fn read_bytes(self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let (file, length) = open(path)?;
        let most = self.length();
        if length > most {
            let wanted = format!("at most {most} bytes in {}", path.display());
            return Err(bad_but(wanted, format!("{length} bytes"), RAISE));
        }
        let mut bytes = vec![];
        // A file that grows while it is read is no longer than its limit either.
        file.take(length)
            .read_to_end(&mut bytes)
            .map_err(|e| io_error("load", format!("to read {}", path.display()), &e))?;
        if bytes.is_empty() {
            let remedy = "check that it was written to the end";
            return Err(bad_but(
                "a file with contents",
                format!("{}, empty", path.display()),
                remedy,
            ));
        }
        Ok(bytes)
    }
}

/// How many things a text of so many bytes may announce.
pub(crate) fn payable(bytes: usize) -> usize {
    FREE.max(bytes)
}

/// Refuses more bytes than the caller is ready to hold.
pub(crate) fn require_limit(total: u64, limit: u64) -> Result<()> {
    if total <= limit {
        return Ok(());
    }
    Err(bad_but(format!("at most {limit} bytes"), format!("{total} bytes"), RAISE))
}
