//! The folders in which Yosys and ABC work.

use crate::cipher::file::{Limits, hex};
use crate::math::random::PublicSeed;
use crate::{Error, Result};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that are read of what Yosys said, from the end.
const TAIL: u64 = 64 << 10;
/// The file that is locked as long as the folder is used.
const LOCK: &str = "lock";
/// The age from which a folder without a lock is one that a killed process left, and not one that is being made.
const STALE: Duration = Duration::from_secs(60);

pub(super) fn failed(what: &str, path: &Path, why: &std::io::Error) -> Error {
    let wanted = format!("to {what} {}", path.display());
    let remedy = "check the path, its permissions, the room there and `ulimit -f`";
    Error::io("circuit", wanted, why.to_string(), remedy)
}

/// Makes a folder that only its owner reads.
#[cfg(unix)]
fn private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn private(path: &Path) -> std::io::Result<()> {
    fs::create_dir(path)
}

/// A folder with an unpredictable name, removed when it is no longer needed.
pub(in super::super) struct Folder {
    path: PathBuf,
    /// Locked, until the process ends.
    _lock: File,
}

impl Folder {
    /// A new one. Those that killed processes have left are removed.
    pub fn new() -> Result<Self> {
        let all = std::env::temp_dir();
        sweep(&all);
        let tag = PublicSeed::from_system()?;
        let path = all.join(format!("becalm-{}", hex(&tag.0[..8])));
        private(&path).map_err(|e| failed("create", &path, &e))?;
        let lock = File::create_new(path.join(LOCK)).and_then(|lock| lock.lock().map(|()| lock));
        let lock = lock.map_err(|e| failed("lock", &path, &e))?;
        Ok(Folder { path, _lock: lock })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        fs::write(&path, bytes).map_err(|e| failed("write", &path, &e))
    }

    /// Opens a file for appending, so that two streams share it.
    pub fn create(&self, name: &str) -> Result<File> {
        let path = self.path.join(name);
        let file = File::options().append(true).create(true).open(&path);
        file.map_err(|e| failed("create", &path, &e))
    }

    /// Whether a file in it is as long as the limits allow.
    pub fn is_full(&self, limits: Limits) -> bool {
        let long = |found: fs::DirEntry| found.metadata().is_ok_and(|m| m.len() >= limits.length());
        fs::read_dir(&self.path).is_ok_and(|all| all.flatten().any(long))
    }

    /// The last 64 KiB of a file that Yosys wrote.
    pub fn tail(&self, name: &str) -> Result<String> {
        let path = self.path.join(name);
        let read = |path: &Path| {
            let mut file = File::open(path)?;
            let skipped = file.metadata()?.len().saturating_sub(TAIL);
            file.seek(SeekFrom::Start(skipped))?;
            let mut said = vec![];
            file.take(TAIL).read_to_end(&mut said)?;
            Ok(said)
        };
        let said = read(&path).map_err(|e| failed("read", &path, &e))?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is left to the system's cleaning of its temporary folder.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of processes that were killed: nobody holds their locks.
fn sweep(all: &Path) {
    let ours = |name: &str| {
        let tag = name.strip_prefix("becalm-");
        tag.is_some_and(|tag| tag.len() == 16 && tag.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || !entry.file_name().to_str().is_some_and(ours) {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        let age = lock.metadata().and_then(|m| m.modified()).map(|at| at.elapsed());
        if age.is_ok_and(|age| age.is_ok_and(|age| age > STALE)) && lock.try_lock().is_ok() {
            // A folder of somebody else stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    /// As a process that is killed leaves it: with its files, without a lock.
    fn left(age: Duration) -> PathBuf {
        let folder = Folder::new().unwrap();
        folder.write("input.sv", b"module").unwrap();
        let past = SystemTime::now() - age;
        folder._lock.set_modified(past).unwrap();
        let path = folder.path.clone();
        folder._lock.unlock().unwrap();
        std::mem::forget(folder);
        path
    }

    #[test]
    fn folders_of_killed_processes_are_removed_and_no_others() {
        let (old, young) = (left(2 * STALE), left(Duration::ZERO));
        let used = Folder::new().unwrap();
        used._lock.set_modified(SystemTime::now() - 2 * STALE).unwrap();
        drop(Folder::new().unwrap());
        assert!(!old.exists() && young.exists() && used.path.exists());
        fs::remove_dir_all(young).unwrap();
    }
}
