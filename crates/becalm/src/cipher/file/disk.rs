//! Reads whole files within a limit, and turns the operating system's refusals into errors.

use super::header::{Header, LENGTH};
use super::limits::{Limits, Most, require_limit, too_long};
use super::read::PIECE;
use super::{Trust, bad_but, foreign};
use crate::math::buffer::reserved;
use crate::progress::tell;
use crate::{Error, Progress, Result, UNWATCHED};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use zeroize::Zeroizing;

/// Opens a file for reading; its length. Pipes, devices and directories have none and raise an error.
pub(super) fn open(path: &Path) -> Result<(File, u64)> {
    let refused = |e| Error::unreadable("load", path, &e);
    // Checked before the file is opened: opening a pipe would wait for its writer.
    let found = fs::metadata(path).map_err(refused)?;
    if !found.is_file() {
        let (what, remedy) = match found.is_dir() {
            true => ("a folder", "name a file in it"),
            false => ("a pipe or a device", "copy the data to a file first"),
        };
        let got = format!("{}, which is {what}", path.display());
        return Err(bad_but("a regular file", got, remedy).naming_file());
    }
    let file = File::open(path).map_err(refused)?;
    let bytes = file.metadata().map_err(refused)?.len();
    Ok((file, bytes))
}

/// The header of a file, its first bytes and its length.
pub(super) fn read_head(path: &Path) -> Result<(File, Vec<u8>, u64)> {
    let (mut file, total) = open(path)?;
    let mut read =
        |bytes: &mut [u8]| file.read_exact(bytes).map_err(|e| Error::unreadable("load", path, &e));
    let mut head = vec![0; LENGTH];
    let mut first = [0; LENGTH];
    if total < LENGTH as u64 {
        return Err(foreign(format!("{total} bytes")));
    }
    read(&mut first)?;
    head.resize(LENGTH + Header::length(first, total)?, 0);
    head[..LENGTH].copy_from_slice(&first);
    read(&mut head[LENGTH..])?;
    Ok((file, head, total))
}

/// The header of a file of any size, and its length.
///
/// # Errors
/// [`Error::Io`]; [`Error::BadFile`] for a header that is none.
pub(crate) fn read_header(path: &Path) -> Result<(Header, u64)> {
    let (_, head, bytes) = read_head(path)?;
    Ok((Header::parse(&head, bytes)?, bytes))
}

/// A whole file, once `check` has accepted its header; wiped when dropped.
///
/// # Errors
/// [`Error::Io`]; [`Error::BadFile`] for bytes that are not a header, or a file above `limit` bytes; the errors of `check`.
pub(crate) fn read_file(
    path: &Path,
    limit: impl Into<Most>,
    check: impl FnOnce(&Header) -> Result<()>,
) -> Result<Zeroizing<Vec<u8>>> {
    read_file_with(path, limit, check, UNWATCHED)
}

/// [`read_file`]; `progress` is told how far it is, and can stop it.
///
/// # Errors
/// As [`read_file`], and [`Error::Interrupted`].
pub(crate) fn read_file_with(
    path: &Path,
    limit: impl Into<Most>,
    check: impl FnOnce(&Header) -> Result<()>,
    progress: Progress,
) -> Result<Zeroizing<Vec<u8>>> {
    let (mut file, head, total) = read_head(path)?;
    require_limit(total, limit)?;
    check(&Header::parse(&head, total)?)?;
    let length = usize::try_from(total).unwrap_or(usize::MAX);
    // Never more than there is room for: a growing vector leaves copies behind.
    let mut bytes = Zeroizing::new(reserved("load", length)?);
    bytes.extend(head);
    while bytes.len() < length {
        let at = bytes.len();
        tell("load", progress, at, length)?;
        bytes.resize(length.min(at + PIECE), 0);
        file.read_exact(&mut bytes[at..]).map_err(|e| Error::unreadable("load", path, &e))?;
    }
    Ok(bytes)
}

impl Limits {
    /// Reads a whole file that must be text.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::BadFile`] for a folder, pipe or device, a file of more than `memory`/64 bytes, an empty one, and
    /// one that is not text. Each names the path.
    pub fn read_text(self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        let mut bytes = self.read_bytes(path)?;
        // Editors of Windows mark UTF-8 so.
        if bytes.starts_with(b"\xEF\xBB\xBF") {
            bytes.drain(..3);
        }
        let text = String::from_utf8(bytes).ok();
        text.filter(|text| !text.contains('\0')).ok_or_else(|| {
            let remedy = "give a text: UTF-8 without zero bytes";
            bad_but("a text", format!("{}, which holds other bytes", path.display()), remedy)
                .naming_file()
        })
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// As [`Limits::read_text`], but for any contents.
    pub fn read_bytes(self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        read_all(path.as_ref(), self.into())
    }
}

impl Trust {
    /// Reads a whole file of at most `limit` bytes, for a reader that checks the rest.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::BadFile`] for a folder, pipe or device, a longer file and an empty one. Each names the path.
    pub fn read_bytes(self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        read_all(path.as_ref(), self.limit.into())
    }
}

fn read_all(path: &Path, most: Most) -> Result<Vec<u8>> {
    let (file, length) = open(path)?;
    if length > most.bytes {
        let wanted = format!("{most}, in {}", path.display());
        return Err(too_long(wanted, length).naming_file());
    }
    let mut bytes = vec![];
    // The limit holds for a file that grows while it is read, too.
    file.take(length).read_to_end(&mut bytes).map_err(|e| Error::unreadable("load", path, &e))?;
    if bytes.is_empty() {
        let remedy = "check that it was written to the end";
        let got = format!("{}, empty", path.display());
        return Err(bad_but("a file with contents", got, remedy));
    }
    Ok(bytes)
}

/// That a file cannot be written.
pub(crate) fn write_error(path: &Path, e: &io::Error) -> Error {
    Error::unwritable("save", path, e)
}
