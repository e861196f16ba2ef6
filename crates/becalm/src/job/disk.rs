//! A job as a folder: files are written to the disk before they get their names, and read within limits.

use super::digest::Digest;
use super::place::{Held, Local, MAX_CLAIM, Place, RECORD};
use crate::cipher::file::write_error;
use crate::math::random::PublicSeed;
use crate::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
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
        "check that it is a whole job, and what may be read there",
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

/// The folder of a job, which any number of processes share.
#[derive(Debug)]
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    fn at(&self, name: &str) -> PathBuf {
        match name {
            "" => self.0.clone(),
            name => self.0.join(name),
        }
    }

    /// Whether something of that name is certainly not there.
    fn lacks(&self, name: &str) -> bool {
        fs::metadata(self.at(name)).is_err_and(|e| e.kind() == ErrorKind::NotFound)
    }

    fn moved(&self, from: &Path, to: &Path) -> Result<bool> {
        match fs::rename(from, to) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(write_error(from, &e)),
        }
    }

    /// Writes a folder beside, and renames it.
    fn place(&self, to: &Path, files: &[(String, Digest, &[u8])], record: &[u8]) -> Result<()> {
        let draft = Draft::new(to.with_file_name(format!(".tmp-{}", nonce()?)))?;
        for (name, _, bytes) in files {
            write(&draft.0.join(name), bytes)?;
        }
        write(&draft.0.join(RECORD), record)?;
        draft.place(to).map_err(|e| write_error(to, &e))
    }
}

impl Place for Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.at(name)
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        match self.lacks(name) {
            true => Ok(None),
            false => read(&self.at(name), limit).map(Some),
        }
    }

    fn content(&self, name: &str, _: Digest, limit: u64) -> Result<Option<Vec<u8>>> {
        self.read(name, limit)
    }

    fn digest(&self, name: &str, _: Digest) -> Result<Option<Digest>> {
        match self.lacks(name) {
            true => Ok(None),
            false => digest(&self.at(name)).map(Some),
        }
    }

    fn local(&self, name: &str, _: Digest) -> Result<Local> {
        Ok(Local::new(self.at(name)))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.at(name).exists())
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        names(&self.at(folder))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        place(&self.at(name), bytes)
    }

    fn remove(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.at(name)) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(write_error(&self.at(name), &e)),
            _ => Ok(()),
        }
    }

    fn claim(&self, name: &str, bytes: &[u8]) -> Result<Option<Box<dyn Held>>> {
        let path = self.at(name);
        let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(None),
            Err(e) => return Err(write_error(&path, &e)),
        };
        let mut held = HeldFile { path, file, bytes: vec![] };
        if let Err(e) = held.renew(bytes) {
            let _ = fs::remove_file(&held.path);
            return Err(e);
        }
        held.path.parent().into_iter().for_each(keep_names);
        Ok(Some(Box::new(held)))
    }

    /// The claim is moved away. Another worker may have done so and made a new one since: that one is put back.
    fn free(&self, name: &str, seen: &[u8]) -> Result<bool> {
        let path = self.at(name);
        let number = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let aside = path.with_file_name(format!(".stale-{number}-{}", nonce()?));
        if !self.moved(&path, &aside)? {
            return Ok(true);
        }
        let moved = read(&aside, MAX_CLAIM).unwrap_or_default();
        let wrong = moved != seen;
        if wrong {
            // A link does not replace a claim that was made in the meantime.
            let _ = fs::hard_link(&aside, &path);
        }
        let _ = fs::remove_file(&aside);
        Ok(!wrong)
    }

    fn commit(
        &self,
        folder: &str,
        files: &[(String, Digest, &[u8])],
        record: &[u8],
    ) -> Result<bool> {
        let to = self.at(folder);
        match self.place(&to, files, record) {
            Ok(()) => Ok(true),
            Err(_) if to.is_dir() => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn committed(&self, folder: &str) -> Result<Vec<String>> {
        names(&self.at(folder))
    }

    fn is_committed(&self, folder: &str) -> Result<bool> {
        Ok(self.at(folder).is_dir())
    }

    fn withdraw(&self, folder: &str, good: &dyn Fn(&str) -> bool) -> Result<bool> {
        let (parent, name) = folder.rsplit_once('/').unwrap_or(("", folder));
        let aside = format!("{parent}/.aside-{name}-{}", nonce()?);
        let (from, to) = (self.at(folder), self.at(&aside));
        if !self.moved(&from, &to)? {
            return Ok(false);
        }
        if good(&aside) && fs::rename(&to, &from).is_ok() {
            return Ok(false);
        }
        // If it cannot be removed, it stays beside the results and is none of them.
        let _ = fs::remove_dir_all(&to);
        Ok(true)
    }

    fn tidy(&self, folders: &[&str]) {
        for folder in folders {
            for entry in fs::read_dir(self.at(folder)).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().starts_with('.') {
                    // Another worker may remove it at the same time.
                    let _ =
                        fs::remove_file(entry.path()).or_else(|_| fs::remove_dir_all(entry.path()));
                }
            }
        }
    }

    fn draft(&self) -> Result<PathBuf> {
        if self.0.symlink_metadata().is_ok() {
            let got = format!("{}, which exists", self.0.display());
            return Err(Error::io("job", "a new folder", got, "choose another name"));
        }
        let beside = self.0.with_file_name(format!(".becalm-job-{}.tmp", nonce()?));
        make_folder(&beside)?;
        Ok(beside)
    }

    fn take(&self, folder: &Path, _: &[(String, Digest)]) -> Result<()> {
        Draft(folder.to_path_buf()).place(&self.0).map_err(|e| write_error(&self.0, &e))
    }
}

/// The file of a claim. It stays open, so what is written goes to the file that was made, and one that was taken over stays the other
/// worker's.
struct HeldFile {
    path: PathBuf,
    file: File,
    bytes: Vec<u8>,
}

impl Held for HeldFile {
    fn renew(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.rewind().and_then(|()| self.file.write_all(bytes));
        let kept = written.and_then(|()| self.file.sync_data());
        kept.map_err(|e| write_error(&self.path, &e))?;
        self.bytes = bytes.to_vec();
        Ok(())
    }

    fn release(&mut self) {
        if read(&self.path, self.bytes.len() as u64).is_ok_and(|bytes| bytes == self.bytes) {
            // If it cannot be removed, it becomes stale.
            let _ = fs::remove_file(&self.path);
        }
    }
}
