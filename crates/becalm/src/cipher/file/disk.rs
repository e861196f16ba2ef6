//! The operating system's side: whole files read with a limit, and written all or not at all.

use super::bad_but;
use super::header::{Header, LENGTH};
use super::limits::require_limit;
use crate::math::random::PublicSeed;
use crate::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// A refusal of the operating system.
pub(super) fn io_error(op: &'static str, wanted: impl Into<String>, e: &io::Error) -> Error {
    Error::io(
        op,
        wanted,
        e.to_string(),
        "check that the path exists, what may be read and written there, and the free space",
    )
}

/// Opens a file for reading; its length. Pipes, devices and directories have none and are refused.
pub(super) fn open(path: &Path) -> Result<(File, u64)> {
    let refused = |e| io_error("load", format!("to read {}", path.display()), &e);
    // Before opening: to open a pipe is to wait for it.
    if !fs::metadata(path).map_err(refused)?.is_file() {
        return Err(bad_but(
            "a regular file",
            format!("{}", path.display()),
            "copy the data to a file first",
        ));
    }
    let file = File::open(path).map_err(refused)?;
    let bytes = file.metadata().map_err(refused)?.len();
    Ok((file, bytes))
}

/// The header of a file, its first bytes and its length.
pub(super) fn read_head(path: &Path) -> Result<(File, Vec<u8>, u64)> {
    let (mut file, total) = open(path)?;
    let mut read = |bytes: &mut [u8]| {
        file.read_exact(bytes)
            .map_err(|e| io_error("load", format!("to read {}", path.display()), &e))
    };
    let mut head = vec![0; LENGTH];
    let mut first = [0; LENGTH];
    if total < LENGTH as u64 {
        return Err(bad_but(
            "a file of becalm",
            format!("{total} bytes"),
            "pass a file that becalm wrote",
        ));
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
/// [`Error::Io`]; [`Error::BadFile`] for a header that is none, or a file above `limit` bytes; what `check` refuses.
pub(crate) fn read_file(
    path: &Path,
    limit: u64,
    check: impl FnOnce(&Header) -> Result<()>,
) -> Result<Zeroizing<Vec<u8>>> {
    let (mut file, head, total) = read_head(path)?;
    require_limit(total, limit)?;
    check(&Header::parse(&head, total)?)?;
    let length = usize::try_from(total).unwrap_or(usize::MAX);
    let mut bytes = Zeroizing::new(Vec::new());
    if bytes.try_reserve_exact(length).is_err() {
        return Err(Error::memory(
            "load",
            format!("{total} bytes"),
            "less memory",
            "split the batch",
        ));
    }
    bytes.extend(head);
    let read = bytes.len();
    bytes.resize(length, 0);
    file.read_exact(&mut bytes[read..])
        .map_err(|e| io_error("load", format!("to read {}", path.display()), &e))?;
    Ok(bytes)
}

/// A file that is removed unless it got its name.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Nothing can be done if it cannot be removed, and most often it was renamed.
        let _ = fs::remove_file(&self.0);
    }
}

/// That a file cannot be written.
pub(crate) fn write_error(path: &Path, e: &io::Error) -> Error {
    io_error("save", format!("to write {}", path.display()), e)
}

/// Puts a new file at `path` in one step: who reads the path finds the old file or the new one, never a part. A private one
/// can be read by its owner only.
///
/// # Errors
/// Those of `write`; [`Error::Io`] for what the operating system refuses, and for a device, a pipe or a socket at `path`.
pub fn replace<E: From<Error>>(
    path: &Path,
    private: bool,
    write: impl FnOnce(&mut File) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let refused = |e| write_error(path, &e);
    if path.file_name().is_none() {
        return Err(refused(io::ErrorKind::InvalidFilename.into()).into());
    }
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        // The name is given to another file: of a device nothing would be left.
        let wanted = format!("{} to be a file or a new name", path.display());
        let got = "a device, a pipe or a socket";
        return Err(Error::io("save", wanted, got, "save under the name of a file").into());
    }
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let tag = super::hex(&PublicSeed::from_system()?.0[..8]);
    let draft = folder.join(format!(".becalm-{tag}.tmp"));
    let mut file = create(&draft, private).map_err(refused)?;
    let draft = Unfinished(draft);
    write(&mut file)?;
    file.sync_all().map_err(refused)?;
    drop(file);
    fs::rename(&draft.0, path).map_err(refused)?;
    // The name itself survives a power cut only once the folder is written; some file systems cannot be asked to.
    #[cfg(unix)]
    let _ = File::open(folder).and_then(|f| f.sync_all());
    Ok(())
}

/// A new file, never one that is there; a private one is its owner's alone from the first moment.
fn create(path: &Path, private: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if private {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    #[cfg(not(unix))]
    let _ = private;
    options.open(path)
}
