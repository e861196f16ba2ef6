//! The place of a job. A reader finds a file whole or not at all. Of two workers that claim or commit the same chunk, one succeeds.

use super::digest::Digest;
use crate::{Error, Result};
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// The place of a job: a folder, or what another crate has, such as an object store. Names are relative, with `/` between their parts,
/// and becalm makes them itself.
///
/// Methods block, and any number of processes call them at once. An error names what it is about and holds no credentials.
pub trait Place: fmt::Debug + Send + Sync {
    /// A name for people: a path or an address. The empty name is the job.
    fn path(&self, name: &str) -> PathBuf;

    /// The contents of a file of at most `limit` bytes; none if there is none.
    ///
    /// # Errors
    /// [`Error::BadFile`] for a longer one, and [`Error::Io`].
    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>>;

    /// As [`Place::read`] for a file that was put there with a digest: the program, keys, inputs and results. The digest is a part of its
    /// name, as two writers may bring different contents, and nobody has compared it with the contents.
    ///
    /// # Errors
    /// As [`Place::read`].
    fn content(&self, name: &str, digest: Digest, limit: u64) -> Result<Option<Vec<u8>>>;

    /// The digest that such a file has now, of any size; none if there is none.
    ///
    /// # Errors
    /// As [`Place::read`].
    fn digest(&self, name: &str, digest: Digest) -> Result<Option<Digest>>;

    /// Such a file of any size, on this machine.
    ///
    /// # Errors
    /// As [`Place::read`], and for one that is not there.
    fn local(&self, name: &str, digest: Digest) -> Result<Local>;

    /// Whether there is a file.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn exists(&self, name: &str) -> Result<bool>;

    /// The names of the files in a folder.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn names(&self, folder: &str) -> Result<Vec<String>>;

    /// Puts a file there, or another in its place.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn put(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn remove(&self, name: &str) -> Result<()>;

    /// Makes a file that was not there, and holds it; none if there is one.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn claim(&self, name: &str, bytes: &[u8]) -> Result<Option<Box<dyn Held>>>;

    /// Removes a claim if its bytes are those that were seen; whether it is gone.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn free(&self, name: &str, seen: &[u8]) -> Result<bool>;

    /// Puts files and their record into a new folder, all or nothing; false if there is such a folder.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn commit(
        &self,
        folder: &str,
        files: &[(String, Digest, &[u8])],
        record: &[u8],
    ) -> Result<bool>;

    /// The names of the folders in a folder that were committed.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn committed(&self, folder: &str) -> Result<Vec<String>>;

    /// Whether a folder was committed.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn is_committed(&self, folder: &str) -> Result<bool>;

    /// Takes a committed folder away, unless it is `good` by now: another worker may have replaced it. `good` is told the name under
    /// which it can be read. Whether it was taken away.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn withdraw(&self, folder: &str, good: &dyn Fn(&str) -> bool) -> Result<bool>;

    /// Removes from folders what writers that were killed have left, once the job is done.
    fn tidy(&self, folders: &[&str]);

    /// A new folder of this machine, in which a job is made for [`Place::take`].
    ///
    /// # Errors
    /// [`Error::Io`], above all for a job that is there already.
    fn draft(&self) -> Result<PathBuf>;

    /// Takes a job that was made in a folder, all of it or nothing: these files, and at last [`MANIFEST`].
    ///
    /// # Errors
    /// [`Error::Io`], above all for a job that is there already.
    fn take(&self, folder: &Path, files: &[(String, Digest)]) -> Result<()>;
}

/// The name of the manifest, which a place takes last.
pub const MANIFEST: &str = "job.json";
/// The name of the record in a committed folder.
pub const RECORD: &str = "done.json";

/// Bytes of the longest claim.
pub(super) const MAX_CLAIM: u64 = 4096;

/// A claim of this process.
pub trait Held: Send {
    /// Writes other bytes of the same length, unless the claim is another worker's by now.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn renew(&mut self, bytes: &[u8]) -> Result<()>;

    /// Removes the claim, unless it is another worker's by now. A claim that cannot be removed becomes stale.
    fn release(&mut self);
}

/// A file of this machine. A copy is removed when dropped.
#[derive(Debug)]
pub struct Local {
    path: PathBuf,
    copy: bool,
}

impl Local {
    /// The file itself.
    pub fn new(path: PathBuf) -> Local {
        Local { path, copy: false }
    }

    /// A copy of it.
    pub fn copy(path: PathBuf) -> Local {
        Local { path, copy: true }
    }
}

impl Deref for Local {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for Local {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if self.copy {
            // Nothing can be done if it fails: the system clears its folder of temporary files.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The bytes of a file that a job cannot do without.
pub(super) fn found<T>(place: &dyn Place, name: &str, read: Result<Option<T>>) -> Result<T> {
    read?.ok_or_else(|| {
        let wanted = format!("to read {}", place.path(name).display());
        let remedy = "check that it is a whole job, and what may be read there";
        Error::io("job", wanted, "nothing there", remedy).naming_file()
    })
}
