//! Files and folders of a job: written to the disk before they get their names, read within limits.

use super::digest::Digest;
use crate::cipher::file::write_error;
use crate::math::random::PublicSeed;
use crate::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A random number of the operating system.
pub(super) fn random() -> Result<Digest> {
    Ok(Digest(PublicSeed::from_system()?.0))
}

/// A name that no other worker has.
pub(super) fn nonce() -> Result<String> {
    Ok(random()?.to_string()[..16].to_string())
}

/// A random number below `n`, or 0: unbiased to within 2^-40 for as many chunks as there can be.
pub(super) fn draw(n: usize) -> Result<usize> {
    let bytes = random()?.0;
    let word = bytes.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
    Ok((word % n.max(1) as u64) as usize)
}

fn read_error(path: &Path, e: &io::Error) -> Error {
    let wanted = format!("to read {}", path.display());
    Error::io(
        "job",
        wanted,
        e.to_string(),
        "check that the folder is a whole job, and what may be read there",
    )
    .naming_file()
}

/// The contents of a file of at most `limit` bytes.
pub(super) fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let refused = |e| read_error(path, &e);
    // Asked before it is opened: opening a pipe would wait for its writer.
    if !fs::metadata(path).map_err(refused)?.is_file() {
        return Err(Error::bad_file(
            "job",
            "a regular file",
            path.display().to_string(),
            "copy the job again",
        )
        .naming_file());
    }
    let mut bytes = vec![];
    let read =
        File::open(path).map_err(refused)?.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(refused)?;
    if bytes.len() as u64 > limit {
        let wanted = format!("at most {limit} bytes in {}", path.display());
        let remedy = "make the job with smaller chunks, or raise the limit if you trust the job";
        return Err(Error::bad_file("job", wanted, "more", remedy).naming_file());
    }
    Ok(bytes)
}

/// The digest of a file of any size.
pub(super) fn digest(path: &Path) -> Result<Digest> {
    let refused = |e| read_error(path, &e);
    if !fs::metadata(path).map_err(refused)?.is_file() {
        return Err(Error::bad_file(
            "job",
            "a regular file",
            path.display().to_string(),
            "copy the job again",
        )
        .naming_file());
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path).map_err(refused)?).map_err(refused)?;
    Ok(Digest(*hasher.finalize().as_bytes()))
}

/// Writes a new file to the disk.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let refused = |e| write_error(path, &e);
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(refused)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(refused)
}

/// Copies a file, and writes the copy to the disk.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = fs::copy(from, to).and_then(|_| File::open(to)?.sync_all());
    copied.map_err(|e| write_error(to, &e))
}

/// Writes a new file that is whole as soon as it has its name.
pub(super) fn place(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = path.with_file_name(format!(".tmp-{}", nonce()?));
    let placed = write(&beside, bytes)
        .and_then(|()| fs::rename(&beside, path).map_err(|e| write_error(path, &e)));
    if placed.is_err() {
        // The disk may be full. If it cannot be removed, a worker removes it at the end.
        let _ = fs::remove_file(&beside);
    }
    path.parent().into_iter().for_each(keep_names);
    placed
}

/// The names in a folder.
pub(super) fn names(folder: &Path) -> Result<Vec<String>> {
    let names = fs::read_dir(folder).and_then(|entries| {
        let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().into_string().ok());
        entries.filter_map(|entry| name(entry).transpose()).collect()
    });
    names.map_err(|e| read_error(folder, &e))
}

pub(super) fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(|e| write_error(path, &e))
}

/// Writes the names in a folder to the disk. Some file systems refuse.
pub(super) fn keep_names(folder: &Path) {
    #[cfg(unix)]
    let _ = File::open(folder).and_then(|f| f.sync_all());
    #[cfg(not(unix))]
    let _ = folder;
}

/// A folder that is removed when dropped, unless it got its name.
pub(super) struct Draft(pub(super) PathBuf);

impl Draft {
    pub(super) fn new(path: PathBuf) -> Result<Draft> {
        make_folder(&path)?;
        Ok(Draft(path))
    }

    /// Gives the folder its name. A folder with contents of that name stays as it is.
    pub(super) fn place(&self, to: &Path) -> io::Result<()> {
        keep_names(&self.0);
        fs::rename(&self.0, to)?;
        if let Some(folder) = to.parent() {
            keep_names(folder);
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Most often it was renamed and is gone. If it cannot be removed, nothing can be done.
        let _ = fs::remove_dir_all(&self.0);
    }
}
