//! The folder of a job: its names, which are made here and never read from a file, and its records.

use super::digest::Digest;
use super::disk;
use super::manifest::{Done, Manifest, Scheme, is_name, unsealed};
use crate::backend::{Backend, Ckks, Cpu, by_name, for_params};
use crate::params::CkksParams;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the longest record of a finished chunk.
const MAX_DONE: u64 = 64 << 20;

/// A job: a folder that any number of workers share, on one machine or on several. See the [module](super).
#[derive(Debug, Clone)]
pub struct Job {
    pub(super) folder: PathBuf,
    pub(super) manifest: Arc<Manifest>,
}

/// The name of a chunk.
pub(super) fn chunk_name(chunk: usize) -> String {
    format!("{chunk:06}")
}

/// The name of a file of ciphertexts.
pub(super) fn file_name(index: usize) -> String {
    format!("{index:06}.becalm")
}

pub(super) fn keys_name(digest: Digest) -> String {
    format!("keys-{digest}.becalm")
}

pub(super) const MANIFEST: &str = "job.json";
pub(super) const PROGRAM: &str = "program.becalm";
pub(super) const DONE: &str = "done.json";

impl Job {
    /// Opens the folder of a job.
    ///
    /// # Errors
    /// [`Error::Io`] for a folder that is not there; [`Error::BadFile`] for a damaged manifest.
    pub fn open(folder: impl AsRef<Path>) -> Result<Job> {
        let folder = folder.as_ref().to_path_buf();
        let manifest = Arc::new(Manifest::read(&folder.join(MANIFEST))?);
        Ok(Job { folder, manifest })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.manifest.scheme
    }

    /// The name of the parameter set.
    pub fn set(&self) -> &str {
        &self.manifest.set
    }

    /// How many times the program runs.
    pub fn lanes(&self) -> usize {
        self.manifest.lanes
    }

    /// Lanes of a chunk; the last may have fewer.
    pub fn chunk(&self) -> usize {
        self.manifest.chunk
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> usize {
        self.manifest.chunks()
    }

    /// How many results the program has.
    pub fn results(&self) -> usize {
        self.manifest.results
    }

    /// Whether results are equal on every machine, bit for bit. If not, they are equal on machines of one class.
    pub fn exact(&self) -> bool {
        self.manifest.exact
    }

    /// The machine of a name for this job, with a number of threads, 0 for all.
    ///
    /// # Errors
    /// As [`by_name`]; [`Error::WrongParams`] for a machine that does not run the set of CKKS.
    pub fn machine(&self, name: &str, threads: usize) -> Result<Arc<dyn Backend>> {
        let cpu = Cpu::new(threads)?;
        match self.scheme() {
            Scheme::Tfhe => by_name(name, &cpu),
            Scheme::Ckks => for_params::<Ckks>(name, &cpu, CkksParams::named(self.set())?),
        }
    }

    pub(super) fn out(&self, chunk: usize) -> PathBuf {
        self.folder.join("out").join(chunk_name(chunk))
    }

    pub(super) fn claim(&self, chunk: usize) -> PathBuf {
        self.folder.join("claims").join(chunk_name(chunk))
    }

    pub(super) fn input(&self, chunk: usize, index: usize) -> PathBuf {
        self.folder.join("in").join(chunk_name(chunk)).join(file_name(index))
    }

    pub(super) fn is_done(&self, chunk: usize) -> bool {
        self.out(chunk).is_dir()
    }

    /// The chunk of a name.
    fn chunk_of(&self, name: &str) -> Option<usize> {
        let chunk = name.parse().ok().filter(|n| *n < self.chunks())?;
        (chunk_name(chunk) == name).then_some(chunk)
    }

    /// The chunks with an entry in a folder of the job.
    pub(super) fn chunks_in(&self, name: &str) -> Result<BTreeSet<usize>> {
        let names = disk::names(&self.folder.join(name))?;
        Ok(names.iter().filter_map(|name| self.chunk_of(name)).collect())
    }

    /// The notes on chunks in a folder of the job: each chunk has any number, of which the names begin with its own.
    pub(super) fn notes_in(&self, name: &str) -> Result<BTreeMap<usize, Vec<String>>> {
        let mut notes = BTreeMap::<usize, Vec<String>>::new();
        for name in disk::names(&self.folder.join(name))? {
            if let Some(chunk) = name.split_once('-').and_then(|(chunk, _)| self.chunk_of(chunk)) {
                notes.entry(chunk).or_default().push(name);
            }
        }
        Ok(notes)
    }

    /// Removes the notes on a chunk.
    pub(super) fn forget(&self, folder: &str, chunk: usize) {
        let notes = self.notes_in(folder).ok().and_then(|mut notes| notes.remove(&chunk));
        for name in notes.unwrap_or_default() {
            // Another worker may remove it at the same time.
            let _ = std::fs::remove_file(self.folder.join(folder).join(name));
        }
    }

    /// The record of a finished chunk.
    pub(super) fn done(&self, chunk: usize) -> Result<Done> {
        self.record(&self.out(chunk).join(DONE), chunk)
    }

    /// A record of the results of a chunk: of the worker that made them, or of one that checked them.
    pub(super) fn record(&self, path: &Path, chunk: usize) -> Result<Done> {
        let refused = |e: Error| match e {
            Error::BadFile(d) => Error::bad_file("job", d.wanted, d.got, again(chunk)),
            Error::Io(d) => Error::io("job", d.wanted, d.got, again(chunk)),
            other => other,
        };
        let done: Done = unsealed(path, MAX_DONE).map_err(refused)?;
        let files = self.manifest.files_of(chunk, self.results());
        let fits = (done.job, done.chunk, done.results.len()) == (self.manifest.job, chunk, files);
        if !fits || !is_name(&done.worker) || !is_name(&done.class) {
            let wanted = format!("the record of chunk {chunk} of this job");
            return Err(Error::bad_file("job", wanted, "that of another", again(chunk)).at(path));
        }
        Ok(done)
    }

    /// A result of a finished chunk, which must have its digest.
    pub(super) fn result(&self, done: &Done, index: usize, limit: u64) -> Result<Vec<u8>> {
        let path = self.out(done.chunk).join(file_name(index));
        let again = again(done.chunk);
        let bytes = disk::read(&path, limit);
        let bytes = bytes.map_err(|e| {
            Error::io("job", e.detail().wanted.clone(), e.detail().got.clone(), &again)
        })?;
        if done.results.get(index) != Some(&Digest::of(&bytes)) {
            return Err(altered(&path, &again));
        }
        Ok(bytes)
    }

    /// The inputs of a chunk, which must have their digests.
    ///
    /// # Errors
    /// [`Error::BadFile`] and [`Error::Io`] naming a file that is damaged or cannot be read.
    pub fn inputs(&self, chunk: usize, limit: u64) -> Result<Vec<Vec<u8>>> {
        let files = self.manifest.inputs.get(chunk).map_or(0, Vec::len);
        (0..files).map(|i| self.checked_input(chunk, i, limit)).collect()
    }

    /// The results of a finished chunk; none while it has none. Damaged ones are moved away, so that a worker computes them again.
    ///
    /// # Errors
    /// [`Error::Io`] for a file that cannot be read.
    pub fn results_of(&self, chunk: usize, limit: u64) -> Result<Option<Vec<Vec<u8>>>> {
        if !self.is_done(chunk) {
            return Ok(None);
        }
        let read = self.done(chunk).and_then(|done| {
            (0..done.results.len()).map(|i| self.result(&done, i, limit)).collect::<Result<_>>()
        });
        match read {
            Ok(results) => Ok(Some(results)),
            Err(_) if self.mend(chunk)? || !self.is_done(chunk) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// An input of a chunk, which must have its digest.
    fn checked_input(&self, chunk: usize, index: usize, limit: u64) -> Result<Vec<u8>> {
        let path = self.input(chunk, index);
        let bytes = disk::read(&path, limit)?;
        if self.manifest.inputs[chunk].get(index) != Some(&Digest::of(&bytes)) {
            return Err(altered(&path, MADE_AGAIN));
        }
        Ok(bytes)
    }

    /// A file of any size in the folder, which must have a digest.
    pub(super) fn checked(&self, name: &str, wanted: Digest) -> Result<PathBuf> {
        let path = self.folder.join(name);
        if disk::digest(&path)? != wanted {
            return Err(altered(&path, MADE_AGAIN));
        }
        Ok(path)
    }
}

const MADE_AGAIN: &str = "copy it again from where the job was made, or make the job again";

/// The remedy for a chunk whose results are damaged.
fn again(chunk: usize) -> String {
    format!("run `becalm job work` again: it computes chunk {chunk} once more")
}

fn altered(path: &Path, remedy: &str) -> Error {
    let wanted = format!("{} with the digest of its record", path.display());
    Error::bad_file("job", wanted, "a file that was cut or altered", remedy)
}
