//! The header of a file of evaluation keys, what it claims, and the digest of all bytes that pass.

use super::Chain;
use crate::cipher::file::{bad_but, read_header};
use crate::cipher::{KeyId, Purpose};
use crate::math::random::PublicSeed;
use crate::params::{CkksParams, NOISE_STD};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, Read, Seek, Write};
use std::path::Path;

pub(super) const MAGIC: &[u8; 16] = b"becalm ckks 0003";
/// The magic line of files whose header ends before the row.
const WITHOUT_ROW: &[u8; 16] = b"becalm ckks 0002";
/// No header is longer.
pub(super) const LONGEST_HEADER: u32 = 1 << 16;
/// Bytes of the digest.
pub(super) const DIGEST: u64 = 32;
/// No note is longer.
pub(super) const LONGEST_NOTE: usize = 4096;

#[derive(Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) set: String,
    pub(crate) key: KeyId,
    /// Purpose, tier, level, and seed of the masks of each.
    pub(crate) switches: Vec<(Purpose, u32, u32, PublicSeed)>,
    /// All fields of the set as JSON; an older file has none.
    pub(crate) row: Option<String>,
}

impl Header {
    /// Whether the keys are those of a set with these numbers.
    pub(crate) fn is_of(&self, set: &CkksParams) -> bool {
        match &self.row {
            Some(row) => serde_json::from_str(row).is_ok_and(|row| set.is_row(&row)),
            // All keys of a set had one noise then. Nothing else in the sets has changed.
            None => {
                let noise = set.bootstrap.map_or(NOISE_STD, |b| b.ephemeral_noise_std);
                set.name == self.set && noise == NOISE_STD
            }
        }
    }
}

/// The claims of a file of evaluation keys.
pub(crate) struct Claims {
    pub(crate) header: Header,
    pub(crate) note: String,
    /// Length of the file.
    pub(crate) bytes: u64,
    /// That which the header asks for, if the set is known here.
    pub(crate) whole: Option<u64>,
}

/// Whether a file of these first bytes is one of evaluation keys.
pub(crate) fn is_keys(head: &[u8]) -> bool {
    [MAGIC, WITHOUT_ROW].iter().any(|magic| head.starts_with(*magic))
}

/// A file that begins as evaluation keys do; none for another kind of file.
fn claimed_keys(path: &Path) -> Result<Option<File>> {
    let mut file = File::open(path).map_err(unreadable(path))?;
    let mut magic = [0; MAGIC.len()];
    if file.read_exact(&mut magic).is_err() || !is_keys(&magic) {
        return Ok(None);
    }
    file.rewind().map_err(unreadable(path))?;
    Ok(Some(file))
}

/// The claims of a file of evaluation keys; none for another kind of file.
pub(crate) fn claims(path: &Path) -> Result<Option<Claims>> {
    let Some(file) = claimed_keys(path)? else { return Ok(None) };
    let bytes = file.metadata().map_err(unreadable(path))?.len();
    let mut input = Hashed { inner: BufReader::new(file), digest: blake3::Hasher::new() };
    let (header, note, at) = input.header()?;
    let keys: Vec<_> = header.switches.iter().map(|(p, _, l, _)| (*p, *l as usize)).collect();
    let bodies = CkksParams::named(&header.set)
        .and_then(Chain::new)
        .ok()
        .and_then(|c| c.stored_length(&keys));
    let whole = bodies.map(|bodies| at + bodies + DIGEST);
    Ok(Some(Claims { header, note, bytes, whole }))
}

/// A file to be read from the front, and its length if it has one: a pipe has none.
pub(super) fn opened(path: &Path) -> Result<(BufReader<File>, Option<u64>)> {
    let file = File::open(path).map_err(unreadable(path))?;
    let found = file.metadata().map_err(unreadable(path))?;
    Ok((BufReader::with_capacity(1 << 20, file), found.is_file().then_some(found.len())))
}

/// The error of a file that cannot be read.
pub(super) fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |e| Error::unreadable("load", path, &e)
}

/// Refuses another kind of file by its kind. A pipe is read only once: its first bytes are looked at then.
pub(super) fn require_keys(set: &CkksParams, path: &Path) -> Result<()> {
    if !path.is_file() || claimed_keys(path)?.is_some() {
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

pub(super) fn broken(got: impl Into<String>) -> Error {
    Error::bad_file(
        "read keys",
        "evaluation keys of CKKS, whole and unaltered",
        got,
        "copy the file again",
    )
}

/// Reads or writes, and keeps the digest of the bytes that passed.
pub(super) struct Hashed<T> {
    pub(super) inner: T,
    pub(super) digest: blake3::Hasher,
}

impl<T: Write> Hashed<T> {
    pub(super) fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.digest.update(bytes);
        self.inner.write_all(bytes)
    }
}

pub(super) fn unwritten(e: std::io::Error) -> Error {
    Error::io("write keys", "to write", e.to_string(), "free space, or choose another place")
}

impl<T: Read> Hashed<T> {
    pub(super) fn take(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.inner.read_exact(bytes).map_err(|e| broken(e.to_string()))?;
        self.digest.update(bytes);
        Ok(())
    }

    /// The header, after the magic line and its length; the note; and the place behind both.
    pub(super) fn header(&mut self) -> Result<(Header, String, u64)> {
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
                (Header { set, key, switches, row: None }, note)
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
    pub(super) fn finish(mut self) -> Result<()> {
        let (wanted, mut digest) = (*self.digest.finalize().as_bytes(), [0; 32]);
        self.take(&mut digest)?;
        if wanted == digest { Ok(()) } else { Err(broken("a digest that does not match")) }
    }
}
