//! The manifest of a job and other small records: JSON in one spelling with a checksum at its end, so that any change is found.

use super::digest::Digest;
use super::disk;
use super::place::{self, MANIFEST, Place};
pub use crate::params::Scheme;
use crate::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;
const FORMAT: &str = "becalm.job";
/// Bytes of the longest manifest.
pub(super) const MAX_MANIFEST: u64 = 64 << 20;
/// Digests of inputs that a manifest has room for.
pub(super) const MAX_FILES: usize = 800_000;
const MAX_CHUNKS: usize = 1_000_000;
/// 2^40, or as many as an address of 32 bits counts.
const MAX_LANES: usize = match 1usize.checked_shl(40) {
    Some(lanes) => lanes,
    None => usize::MAX,
};
const MAX_ARGUMENTS: usize = 1 << 16;
const MAX_NAME: usize = 64;

/// The facts of a job, in the order of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) becalm: String,
    /// A random number that the records of results repeat.
    pub(super) job: Digest,
    pub(super) scheme: Scheme,
    pub(super) set: String,
    /// Whether results are equal on every machine.
    pub(super) exact: bool,
    pub(super) lanes: usize,
    pub(super) chunk: usize,
    pub(super) arguments: usize,
    pub(super) results: usize,
    /// How many chunks a second worker computes too.
    pub(super) checks: usize,
    pub(super) program: Digest,
    pub(super) keys: Digest,
    pub(super) slot_keys: Vec<Digest>,
    /// Digests of the files of each chunk.
    pub(super) inputs: Vec<Vec<Digest>>,
}

fn bad(wanted: impl Into<String>, got: impl Into<String>) -> Error {
    Error::bad_file(
        "job",
        wanted,
        got,
        "copy the file again from where it was made, or make the job again",
    )
}

/// Whether a name from outside is short and printable.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= MAX_NAME && !text.chars().any(char::is_control)
}

impl Manifest {
    /// One without contents, for a program of this set.
    pub(super) fn new(scheme: Scheme, set: &str) -> Result<Manifest> {
        let zero = Digest([0; 32]);
        Ok(Manifest {
            format: FORMAT.into(),
            version: VERSION,
            becalm: env!("CARGO_PKG_VERSION").into(),
            job: disk::random()?,
            scheme,
            set: set.into(),
            exact: false,
            lanes: 0,
            chunk: 0,
            arguments: 0,
            results: 0,
            checks: 0,
            program: zero,
            keys: zero,
            slot_keys: vec![],
            inputs: vec![],
        })
    }

    pub(super) fn read(place: &dyn Place) -> Result<Manifest> {
        let manifest: Manifest = unsealed(place, MANIFEST, MAX_MANIFEST)?;
        manifest.check().map_err(|e| e.at(&place.path(MANIFEST)))?;
        Ok(manifest)
    }

    /// How many chunks there are.
    pub(super) fn chunks(&self) -> usize {
        self.lanes.div_ceil(self.chunk.max(1))
    }

    /// How many lanes a chunk has.
    pub(super) fn lanes_of(&self, chunk: usize) -> usize {
        let from = chunk.saturating_mul(self.chunk).min(self.lanes);
        self.chunk.min(self.lanes - from)
    }

    /// How many files a chunk has for so many arguments or results: TFHE keeps all lanes in one.
    pub(super) fn files_of(&self, chunk: usize, each: usize) -> usize {
        match self.scheme {
            Scheme::Tfhe => each,
            Scheme::Ckks => each.saturating_mul(self.lanes_of(chunk)),
        }
    }

    /// Refuses numbers that contradict each other or exceed a limit.
    pub(super) fn check(&self) -> Result<()> {
        if self.format != FORMAT || self.version != VERSION {
            return Err(Error::bad_file(
                "job",
                format!("{FORMAT}, version {VERSION}"),
                format!("{:.32}, version {}", self.format, self.version),
                "read it with the becalm that made it, or a newer one",
            ));
        }
        let within = |name: &str, number: usize, most: usize| match number {
            n if (1..=most).contains(&n) => Ok(()),
            n => Err(bad(format!("{name} from 1 to {most}"), n.to_string())),
        };
        within("lanes", self.lanes, MAX_LANES)?;
        within("a chunk", self.chunk, self.lanes)?;
        within("a number of chunks", self.chunks(), MAX_CHUNKS)?;
        within("arguments", self.arguments, MAX_ARGUMENTS)?;
        within("results", self.results, MAX_ARGUMENTS)?;
        if self.checks > self.chunks() {
            let wanted = format!("checks of at most {} chunks", self.chunks());
            return Err(bad(wanted, self.checks.to_string()));
        }
        if !is_name(&self.set) || !is_name(&self.becalm) {
            return Err(bad(format!("names of at most {MAX_NAME} characters"), "others"));
        }
        if self.scheme == Scheme::Ckks && !self.slot_keys.is_empty() {
            return Err(bad("no keys between slots for CKKS", self.slot_keys.len().to_string()));
        }
        let files =
            |(i, files): (usize, &Vec<Digest>)| files.len() == self.files_of(i, self.arguments);
        if self.inputs.len() != self.chunks() || !self.inputs.iter().enumerate().all(files) {
            let wanted = format!("the inputs of {} chunks", self.chunks());
            return Err(bad(wanted, format!("those of {}, or of other sizes", self.inputs.len())));
        }
        Ok(())
    }
}

/// The record of a finished chunk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    pub(super) job: Digest,
    pub(super) chunk: usize,
    pub(super) worker: String,
    pub(super) milliseconds: u64,
    /// The class of arithmetic: results of one class are equal, bit for bit.
    pub(super) class: String,
    pub(super) results: Vec<Digest>,
}

/// A failure of a chunk on a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failed {
    pub(super) chunk: usize,
    pub(super) worker: String,
    pub(super) error: String,
}

/// A worker that returned wrong results of a chunk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LeftOut {
    pub(super) worker: String,
    pub(super) chunk: usize,
}

const BEFORE: &str = ",\"checksum\":\"";
const AFTER: &str = "\"}\n";

/// A record as it stands in a file.
pub(super) fn sealed(record: &impl Serialize) -> Result<Vec<u8>> {
    let body = spelt(record)?;
    let open = body.strip_suffix('}').unwrap_or(&body);
    Ok(format!("{open}{BEFORE}{}{AFTER}", Digest::of(body.as_bytes())).into_bytes())
}

fn spelt(record: &impl Serialize) -> Result<String> {
    serde_json::to_string(record).map_err(|e| bad("a record that can be written", e.to_string()))
}

/// The record in a file of at most `limit` bytes.
///
/// # Errors
/// [`Error::Io`]; [`Error::BadFile`] for a file of which any bit has changed.
pub(super) fn unsealed<T: Serialize + DeserializeOwned>(
    place: &dyn Place,
    name: &str,
    limit: u64,
) -> Result<T> {
    let path = &place.path(name);
    let altered =
        || bad("a record that matches its checksum", "one that was cut or altered").at(path);
    let bytes = place::found(place, name, place.read(name, limit))?;
    let text = String::from_utf8(bytes).map_err(|_| altered())?;
    let (open, sum) =
        text.strip_suffix(AFTER).and_then(|t| t.rsplit_once(BEFORE)).ok_or_else(altered)?;
    let body = format!("{open}}}");
    if Digest::of(body.as_bytes()).to_string() != sum {
        return Err(altered());
    }
    let wrong = |e: serde_json::Error| bad("a record of this version", e.to_string()).at(path);
    let record: T = serde_json::from_str(&body).map_err(wrong)?;
    if spelt(&record)? != body {
        return Err(bad("a record in its one spelling", "another spelling").at(path));
    }
    Ok(record)
}
