//! The folder of a service: for each name its files by their digests, the requests for its jobs, and the folders of the jobs.

use crate::board::Entry;
use crate::request::{MAX_REQUEST, Request};
use becalm::cipher::file::{Limits, Trust, replace};
use becalm::job::{Digest, Job, Parts};
use becalm::{Error, Result};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Parts of the folder of a name.
const PARTS: [&str; 4] = ["files", "incoming", "jobs", "requests"];

pub(crate) fn io_error(path: &Path, e: &io::Error) -> Error {
    Error::unwritable("serve", path, e)
}

/// The folder of a name.
pub(crate) struct Area {
    pub(crate) name: String,
    folder: PathBuf,
    /// Bytes that uploads have announced.
    announced: AtomicU64,
    uploads: AtomicU64,
}

/// Room for an upload, and the place of its file until it is whole. Dropped, both are given back.
pub(crate) struct Upload<'a> {
    area: &'a Area,
    bytes: u64,
    pub(crate) path: PathBuf,
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        self.area.announced.fetch_sub(self.bytes, Ordering::Relaxed);
        // A whole one has its name already.
        let _ = fs::remove_file(&self.path);
    }
}

impl Area {
    /// Opens the folder of a name, and removes what a service that was killed has left.
    pub(crate) fn open(root: &Path, name: &str) -> Result<Area> {
        let folder = root.join(name);
        for part in PARTS {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(|e| io_error(&path, &e))?;
        }
        let (announced, uploads) = (AtomicU64::new(0), AtomicU64::new(0));
        let area = Area { name: name.into(), folder, announced, uploads };
        for (part, prefix) in [("incoming", ""), ("jobs", ".")] {
            for (path, _) in area.list(part, prefix)? {
                let removed =
                    if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(|e| io_error(&path, &e))?;
            }
        }
        Ok(area)
    }

    /// Entries of a part whose names begin with a prefix.
    fn list(&self, part: &str, prefix: &str) -> Result<Vec<(PathBuf, fs::Metadata)>> {
        let path = self.folder.join(part);
        let refused = |e: io::Error| Error::unreadable("serve", &path, &e);
        let mut found = vec![];
        for entry in fs::read_dir(&path).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                // It may have been removed since.
                found.extend(entry.metadata().ok().map(|data| (entry.path(), data)));
            }
        }
        Ok(found)
    }

    pub(crate) fn file(&self, digest: Digest) -> PathBuf {
        self.folder.join("files").join(format!("{digest}.becalm"))
    }

    pub(crate) fn has(&self, digest: Digest) -> bool {
        self.file(digest).is_file()
    }

    /// Makes room for an upload; the bytes in use if there is none.
    pub(crate) fn announce(
        &self,
        bytes: u64,
        most: u64,
    ) -> Result<std::result::Result<Upload<'_>, u64>> {
        let stored: u64 = self.list("files", "")?.iter().map(|(_, data)| data.len()).sum();
        let announced = self.announced.fetch_add(bytes, Ordering::Relaxed);
        let number = self.uploads.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join("incoming").join(number.to_string());
        let upload = Upload { area: self, bytes, path };
        let used = stored.saturating_add(announced);
        Ok(if used.saturating_add(bytes) > most { Err(used) } else { Ok(upload) })
    }

    /// Gives a whole upload its name.
    pub(crate) fn keep(&self, upload: &Upload<'_>, digest: Digest) -> Result<()> {
        let to = self.file(digest);
        fs::rename(&upload.path, &to).map_err(|e| io_error(&to, &e))?;
        self.sync("files")
    }

    /// Writes the names of a part to the disk.
    fn sync(&self, part: &str) -> Result<()> {
        let path = self.folder.join(part);
        if cfg!(unix) {
            let synced = File::open(&path).and_then(|folder| folder.sync_all());
            synced.map_err(|e| io_error(&path, &e))?;
        }
        Ok(())
    }

    /// A stored file of at most `limit` bytes.
    pub(crate) fn read(&self, digest: Digest, limit: u64) -> Result<Vec<u8>> {
        let (path, mut bytes) = (self.file(digest), vec![]);
        let read = File::open(&path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
        read.map_err(|e| Error::unreadable("serve", &path, &e))?;
        if bytes.len() as u64 > limit {
            let wanted = format!("a file of at most {limit} bytes");
            return Err(Error::bad_file("serve", wanted, "a longer one", "keep your own copy"));
        }
        Ok(bytes)
    }

    /// Removes a file; whether it was there.
    pub(crate) fn remove(&self, digest: Digest) -> Result<bool> {
        let path = self.file(digest);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(io_error(&path, &e)),
        }
    }

    fn request(&self, id: Digest) -> PathBuf {
        self.folder.join("requests").join(format!("{id}.json"))
    }

    fn job(&self, id: Digest) -> PathBuf {
        self.folder.join("jobs").join(id.to_string())
    }

    /// Makes the folder of a job. It is on the disk when this returns, and so is the request.
    pub(crate) fn make(
        &self,
        id: Digest,
        text: &[u8],
        request: &Request,
        trust: Trust,
    ) -> Result<Entry> {
        let files = |digests: &[Digest]| digests.iter().map(|digest| self.file(*digest)).collect();
        let parts = Parts {
            program: trust.read_bytes(self.file(request.program))?,
            keys: self.file(request.keys),
            slot_keys: files(&request.slot_keys),
            inputs: files(&request.inputs),
            chunk: request.chunk,
            verify: request.verify,
            trust,
        };
        // A request without a job does no harm: the client sends it again.
        let path = self.request(id);
        replace(&path, false, |file| file.write_all(text).map_err(|e| io_error(&path, &e)))?;
        let job = parts.make(self.job(id))?;
        Ok(Entry::new(&self.name, id, job, request.clone()))
    }

    /// Removes inputs that a job has taken.
    pub(crate) fn release(&self, request: &Request) {
        for digest in &request.inputs {
            // If one cannot be removed now, its owner can do so.
            let _ = self.remove(*digest);
        }
    }

    /// Removes the folder of a job and its request.
    pub(crate) fn remove_job(&self, id: Digest) -> Result<()> {
        let (from, to) = (self.job(id), self.folder.join("jobs").join(format!(".gone-{id}")));
        fs::rename(&from, &to).map_err(|e| io_error(&from, &e))?;
        // The next start removes what stays of it.
        let _ = fs::remove_dir_all(&to);
        let _ = fs::remove_file(self.request(id));
        Ok(())
    }

    /// The jobs of the folder, oldest first. A damaged one is told of and left alone.
    pub(crate) fn jobs(&self, tell: &dyn Fn(&str)) -> Result<Vec<(SystemTime, Entry)>> {
        let mut found = vec![];
        for (path, data) in self.list("jobs", "")? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("").to_string();
            let Ok(id) = Digest::try_from(name) else { continue };
            let request = Limits { memory: 64 * MAX_REQUEST, ..Limits::default() }
                .read_bytes(self.request(id))
                .and_then(|bytes| Request::parse(&bytes));
            match (Job::open(&path), request) {
                (Ok(job), Ok(request)) => {
                    let made = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.push((made, Entry::new(&self.name, id, job, request)));
                }
                (Err(e), _) | (_, Err(e)) => tell(&format!("{}: {e}", path.display())),
            }
        }
        Ok(found)
    }
}
