//! The folder of a job: its names, which are made here and never read from a file, and its records.

use super::digest::Digest;
use super::disk::{self, Folder};
use super::manifest::{Done, Manifest, Scheme, is_name, unsealed};
use super::place::{self, Local, Place, RECORD};
use crate::backend::{Backend, Ckks, Cpu, by_name, for_params};
use crate::params::CkksParams;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the longest record of a finished chunk.
const MAX_DONE: u64 = 64 << 20;

/// A job: a folder that any number of workers share, on one machine or on several, or another [`Place`]. See the [module](super).
#[derive(Debug, Clone)]
pub struct Job {
    folder: PathBuf,
    pub(super) place: Arc<dyn Place>,
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

pub(super) const PROGRAM: &str = "program.becalm";

impl Job {
    /// Opens the folder of a job.
    ///
    /// # Errors
    /// [`Error::Io`] for a folder that is not there; [`Error::BadFile`] for a damaged manifest.
    pub fn open(folder: impl AsRef<Path>) -> Result<Job> {
        Job::open_at(Arc::new(Folder(folder.as_ref().to_path_buf())))
    }

    /// Opens the job in a place.
    ///
    /// # Errors
    /// As [`Job::open`].
    pub fn open_at(place: Arc<dyn Place>) -> Result<Job> {
        let manifest = Manifest::read(place.as_ref())?;
        Ok(Job::new(place, manifest))
    }

    pub(super) fn new(place: Arc<dyn Place>, manifest: Manifest) -> Job {
        Job { folder: place.path(""), place, manifest: Arc::new(manifest) }
    }

    /// The folder, or the address of another place.
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

    pub(super) fn out(&self, chunk: usize) -> String {
        format!("out/{}", chunk_name(chunk))
    }

    pub(super) fn claim(&self, chunk: usize) -> String {
        format!("claims/{}", chunk_name(chunk))
    }

    pub(super) fn is_done(&self, chunk: usize) -> Result<bool> {
        self.place.is_committed(&self.out(chunk))
    }

    /// Chunks with results.
    pub(super) fn finished(&self) -> Result<BTreeSet<usize>> {
        Ok(self.numbered(&self.place.committed("out")?))
    }

    /// Chunks with a claim.
    pub(super) fn claimed(&self) -> Result<BTreeSet<usize>> {
        Ok(self.numbered(&self.place.names("claims")?))
    }

    fn numbered(&self, names: &[String]) -> BTreeSet<usize> {
        names.iter().filter_map(|name| self.chunk_of(name)).collect()
    }

    /// The chunk of a name.
    fn chunk_of(&self, name: &str) -> Option<usize> {
        let chunk = name.parse().ok().filter(|n| *n < self.chunks())?;
        (chunk_name(chunk) == name).then_some(chunk)
    }

    /// The notes on chunks in a folder of the job: each chunk has any number, of which the names begin with its own.
    pub(super) fn notes_in(&self, name: &str) -> Result<BTreeMap<usize, Vec<String>>> {
        let mut notes = BTreeMap::<usize, Vec<String>>::new();
        for name in self.place.names(name)? {
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
            let _ = self.place.remove(&format!("{folder}/{name}"));
        }
    }

    /// The record of a finished chunk.
    pub(super) fn done(&self, chunk: usize) -> Result<Done> {
        self.record(&format!("{}/{RECORD}", self.out(chunk)), chunk)
    }

    /// A record of the results of a chunk: of the worker that made them, or of one that checked them.
    pub(super) fn record(&self, name: &str, chunk: usize) -> Result<Done> {
        let refused = |e: Error| match e {
            Error::BadFile(d) => Error::bad_file("job", d.wanted, d.got, again(chunk)),
            Error::Io(d) => Error::io("job", d.wanted, d.got, again(chunk)),
            other => other,
        };
        let done: Done = unsealed(self.place.as_ref(), name, MAX_DONE).map_err(refused)?;
        let files = self.manifest.files_of(chunk, self.results());
        let fits = (done.job, done.chunk, done.results.len()) == (self.manifest.job, chunk, files);
        if !fits || !is_name(&done.worker) || !is_name(&done.class) {
            let wanted = format!("the record of chunk {chunk} of this job");
            let error = Error::bad_file("job", wanted, "that of another", again(chunk));
            return Err(error.at(&self.place.path(name)));
        }
        Ok(done)
    }

    /// A result of a finished chunk, which must have its digest.
    pub(super) fn result(&self, done: &Done, index: usize, limit: u64) -> Result<Vec<u8>> {
        let name = format!("{}/{}", self.out(done.chunk), file_name(index));
        let again = again(done.chunk);
        let bytes = self.content(&name, done.results.get(index), limit, &again);
        bytes.map_err(|e| match e {
            Error::BadFile(d) => Error::bad_file("job", d.wanted, d.got, &again),
            other => {
                Error::io("job", other.detail().wanted.clone(), other.detail().got.clone(), &again)
            }
        })
    }

    /// A file of inputs or results, which must have its digest.
    fn content(
        &self,
        name: &str,
        digest: Option<&Digest>,
        limit: u64,
        remedy: &str,
    ) -> Result<Vec<u8>> {
        let place = self.place.as_ref();
        let digest = *digest.ok_or_else(|| altered(&place.path(name), remedy))?;
        let bytes = place::found(place, name, place.content(name, digest, limit))?;
        match Digest::of(&bytes) == digest {
            true => Ok(bytes),
            false => Err(altered(&place.path(name), remedy)),
        }
    }

    /// The inputs of a chunk, which must have their digests.
    ///
    /// # Errors
    /// [`Error::BadFile`] and [`Error::Io`] naming a file that is damaged or cannot be read.
    pub fn inputs(&self, chunk: usize, limit: u64) -> Result<Vec<Vec<u8>>> {
        let files = self.manifest.inputs.get(chunk).map_or(0, Vec::len);
        let read = |i: usize| {
            let name = format!("in/{}/{}", chunk_name(chunk), file_name(i));
            self.content(&name, self.manifest.inputs[chunk].get(i), limit, MADE_AGAIN)
        };
        (0..files).map(read).collect()
    }

    /// The results of a finished chunk; none while it has none. Damaged ones are moved away, so that a worker computes them again.
    ///
    /// # Errors
    /// [`Error::Io`] for a file that cannot be read.
    pub fn results_of(&self, chunk: usize, limit: u64) -> Result<Option<Vec<Vec<u8>>>> {
        if !self.is_done(chunk)? {
            return Ok(None);
        }
        let read = self.done(chunk).and_then(|done| {
            (0..done.results.len()).map(|i| self.result(&done, i, limit)).collect::<Result<_>>()
        });
        match read {
            Ok(results) => Ok(Some(results)),
            Err(_) if self.mend(chunk)? || !self.is_done(chunk)? => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Whether results are damaged for certain: not if they can't be read just now.
    fn damaged(&self, folder: &str, chunk: usize) -> bool {
        let record = format!("{folder}/{RECORD}");
        let done = match self.record(&record, chunk) {
            Ok(done) => done,
            Err(e) => {
                return matches!(e, Error::BadFile(_))
                    || matches!(self.place.exists(&record), Ok(false));
            }
        };
        done.results.iter().enumerate().any(|(i, digest)| {
            let found = self.place.digest(&format!("{folder}/{}", file_name(i)), *digest);
            found.is_ok_and(|found| found != Some(*digest))
        })
    }

    /// Moves damaged results away, so that their chunk is computed again; whether there were any.
    pub(super) fn mend(&self, chunk: usize) -> Result<bool> {
        if !self.damaged(&self.out(chunk), chunk) {
            return Ok(false);
        }
        self.set_aside(chunk, &|folder| !self.damaged(folder, chunk))?;
        Ok(true)
    }

    /// Moves results away, so that their chunk is left again. Those that are `good` were made in the meantime, and stay.
    pub(super) fn set_aside(&self, chunk: usize, good: &dyn Fn(&str) -> bool) -> Result<()> {
        if self.place.withdraw(&self.out(chunk), good)? {
            self.forget("checks", chunk);
        }
        Ok(())
    }

    /// A file of any size, which must have a digest.
    pub(super) fn checked(&self, name: &str, wanted: Digest) -> Result<Local> {
        let local = self.place.local(name, wanted)?;
        match disk::digest(&local)? == wanted {
            true => Ok(local),
            false => Err(altered(&self.place.path(name), MADE_AGAIN)),
        }
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
