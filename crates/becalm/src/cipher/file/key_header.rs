//! The header of a file of evaluation keys of CKKS, and the digest of all bytes that pass.

use super::{bad_but, read_header};
use crate::cipher::{KeyId, Purpose};
use crate::error::in_words;
use crate::math::random::PublicSeed;
use crate::params::{CkksParams, NOISE_STD};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

pub(crate) const MAGIC: &[u8; 16] = b"becalm ckks 0003";
/// The magic line of files whose header ends before the row.
const WITHOUT_ROW: &[u8; 16] = b"becalm ckks 0002";
/// No header is longer.
pub(crate) const LONGEST_HEADER: u32 = 1 << 16;
/// Bytes of the digest.
pub(crate) const DIGEST: u64 = 32;
/// No note is longer.
pub(crate) const LONGEST_NOTE: usize = 4096;

#[derive(Serialize, Deserialize)]
pub(crate) struct KeyHeader {
    pub(crate) set: String,
    pub(crate) key: KeyId,
    /// Purpose, tier, level, and seed of the masks of each.
    pub(crate) switches: Vec<(Purpose, u32, u32, PublicSeed)>,
    /// All fields of the set as JSON; an older file has none.
    pub(crate) row: Option<String>,
}

impl KeyHeader {
    /// Whether the keys are those of a set with these numbers.
    pub(crate) fn is_of(&self, set: &CkksParams) -> bool {
        match &self.row {
            Some(row) => serde_json::from_str(row).is_ok_and(|row| set.unlike(&row).is_empty()),
            // All keys of a set had one noise then. Nothing else in the sets has changed.
            None => {
                let noise = set.bootstrap.map_or(NOISE_STD, |b| b.ephemeral_noise_std);
                set.name == self.set && noise == NOISE_STD
            }
        }
    }
}

/// Whether a file of these first bytes is one of evaluation keys.
pub(crate) fn is_keys(head: &[u8]) -> bool {
    [MAGIC, WITHOUT_ROW].iter().any(|magic| head.starts_with(*magic))
}

/// Whether a file begins as evaluation keys do.
pub(crate) fn holds_keys(path: &Path) -> Result<bool> {
    let mut file = File::open(path).map_err(unreadable(path))?;
    let mut magic = [0; MAGIC.len()];
    Ok(file.read_exact(&mut magic).is_ok() && is_keys(&magic))
}

/// The header of a file of evaluation keys, its note, and the place behind both.
pub(crate) fn read_key_header(path: &Path) -> Result<(KeyHeader, String, u64)> {
    let file = File::open(path).map_err(unreadable(path))?;
    Hashed { inner: BufReader::new(file), digest: blake3::Hasher::new() }.header()
}

/// A file to be read from the front, and its length if it has one: a pipe has none.
pub(crate) fn opened(path: &Path) -> Result<(BufReader<File>, Option<u64>)> {
    let file = File::open(path).map_err(unreadable(path))?;
    let found = file.metadata().map_err(unreadable(path))?;
    Ok((BufReader::with_capacity(1 << 20, file), found.is_file().then_some(found.len())))
}

/// The error of a file that cannot be read.
pub(crate) fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |e| Error::unreadable("load", path, &e)
}

/// Refuses another kind of file by its kind. A pipe is read only once: its first bytes are looked at then.
pub(crate) fn require_keys(set: &CkksParams, path: &Path) -> Result<()> {
    if !path.is_file() || holds_keys(path)? {
        return Ok(());
    }
    let wanted = format!("evaluation keys of CKKS, of the set {}", set.name);
    let described = read_header(path).and_then(|(header, _)| header.described());
    let got = described.unwrap_or_else(|_| "another file".into());
    Err(bad_but(
        wanted,
        got,
        "give the evaluation keys that were made beside a secret key of this set",
    ))
}

pub(crate) fn broken(got: impl Into<String>) -> Error {
    Error::bad_file(
        "read keys",
        "evaluation keys of CKKS, whole and unaltered",
        got,
        "copy the file again",
    )
}

/// Reads or writes, and keeps the digest of the bytes that passed.
pub(crate) struct Hashed<T> {
    pub(crate) inner: T,
    pub(crate) digest: blake3::Hasher,
}

impl<T: Write> Hashed<T> {
    pub(crate) fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.digest.update(bytes);
        self.inner.write_all(bytes)
    }
}

pub(crate) fn unwritten(e: std::io::Error) -> Error {
    Error::io("write keys", "to write", e.to_string(), "free space, or choose another place")
}

impl<T: Read> Hashed<T> {
    pub(crate) fn take(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.inner.read_exact(bytes).map_err(|e| broken(in_words(&e)))?;
        self.digest.update(bytes);
        Ok(())
    }

    /// The header, after the magic line and its length; the note; and the place behind both.
    pub(crate) fn header(&mut self) -> Result<(KeyHeader, String, u64)> {
        let (mut magic, mut length) = ([0; MAGIC.len()], [0; 4]);
        self.take(&mut magic)?;
        self.take(&mut length)?;
        let length = u32::from_le_bytes(length);
        if !is_keys(&magic) {
            let (wanted, remedy) = ("evaluation keys of CKKS", "give evaluation keys of CKKS");
            return Err(bad_but(wanted, "another file", remedy));
        }
        if length > LONGEST_HEADER {
            return Err(broken(format!("a header of {length} bytes")));
        }
        let mut header = vec![0; length as usize];
        self.take(&mut header)?;
        let read = match &magic == MAGIC {
            true => postcard::take_from_bytes(&header),
            false => postcard::take_from_bytes(&header).map(|((set, key, switches), note)| {
                (KeyHeader { set, key, switches, row: None }, note)
            }),
        };
        let (header, note) = read.map_err(|e| broken(e.to_string()))?;
        if note.len() > LONGEST_NOTE {
            return Err(broken(format!("a note of {} bytes", note.len())));
        }
        let note = String::from_utf8(note.to_vec()).map_err(|e| broken(e.to_string()))?;
        Ok((header, note, (MAGIC.len() + 4) as u64 + u64::from(length)))
    }

    /// Refuses bytes that do not end with the digest of all before.
    pub(crate) fn finish(mut self) -> Result<()> {
        let (wanted, mut digest) = (*self.digest.finalize().as_bytes(), [0; 32]);
        self.take(&mut digest)?;
        if wanted == digest { Ok(()) } else { Err(broken("a digest that does not match")) }
    }
}
