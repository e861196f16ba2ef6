//! Makes the folder of a job: checks that program, keys and inputs go together, and divides the inputs into chunks.

use super::digest::Digest;
use super::disk::{self, Draft, Folder};
use super::folder::{Job, PROGRAM, chunk_name, file_name, keys_name};
use super::manifest::{MAX_FILES, MAX_MANIFEST, Manifest, Scheme, sealed};
use super::place::{MANIFEST, Place};
use super::time::lane_seconds;
use crate::backend::require_fit;
use crate::cipher::file::{Kind, Trust, kind_of, kind_of_head, write_error};
use crate::cipher::{Ciphertext, EvaluationKey, Lwe, SlotKey};
use crate::ckks::Context;
use crate::math::modulus::Modulus;
use crate::program::rlwe::{CkksOp, CkksProgram};
use crate::program::{Cost, Program};
use crate::{Error, Result};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Seconds of a core for a chunk where the caller does not say.
const CHUNK: f64 = 5.0;
/// Equal instructions that a chunk should have at once, so that threads are busy.
const WIDTH: usize = 64;

/// The parts of a job that is to be made. See [`Parts::make`].
#[derive(Debug, Clone)]
pub struct Parts {
    /// The file of a program of TFHE or CKKS, in memory.
    pub program: Vec<u8>,
    /// The file of the evaluation keys.
    pub keys: PathBuf,
    /// Files of keys between slots, in the order in which the program names its maps.
    pub slot_keys: Vec<PathBuf>,
    /// Files of the arguments. One of TFHE holds all lanes; for CKKS the files of the first lane come first, then those of the second.
    pub inputs: Vec<PathBuf>,
    /// Lanes of a chunk. `None` lets becalm choose: about five seconds of a core for TFHE, one lane for CKKS.
    pub chunk: Option<usize>,
    /// The share of the chunks that a second worker computes too, from 0 to 1. With 1, results count once two workers agree.
    pub verify: f64,
    /// The sets and sizes that are accepted.
    pub trust: Trust,
}

/// The first bytes of a file that [`admit`] wants to see, or all of a shorter one.
pub const HEAD: usize = 8 + (1 << 16);

/// The kind of a file of `total` bytes, from its first ones, if some job can take it. So a service refuses a secret before it keeps a
/// byte of it.
///
/// # Errors
/// [`Error::BadInput`] for a file of another kind, among them all that hold secrets; [`Error::BadFile`] for bytes that becalm did not
/// write.
pub fn admit(head: &[u8], total: u64) -> Result<Kind> {
    let kind = kind_of_head(head, total)?;
    let taken = [
        Kind::Program,
        Kind::CkksProgram,
        Kind::EvaluationKey,
        Kind::CkksEvaluationKeys,
        Kind::SlotKey,
        Kind::Lwe,
        Kind::Rlwe,
    ];
    match taken.contains(&kind) {
        true => Ok(kind),
        false => Err(refused("the file", "a program, evaluation keys or ciphertexts", kind)),
    }
}

/// Refuses a file of another kind, above all one with a secret: workers must not see it.
fn require(place: impl Display, wanted: Kind, got: Kind) -> Result<()> {
    if got == wanted { Ok(()) } else { Err(refused(place, wanted.words(), got)) }
}

fn refused(place: impl Display, wanted: &str, got: Kind) -> Error {
    let remedy = match got.is_secret() {
        true => "keep that file secret: no worker may read it",
        false => "give the other kind; `becalm inspect` tells the kind of a file",
    };
    Error::bad_input("job", wanted, format!("{}, in {place}", got.words()), remedy)
}

impl Parts {
    /// Makes the job in a new folder. Everything is written beside it first: a folder of this name is a whole job, or is not there.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a file of another kind, among them all that hold secrets, and for arguments or chunks that do not fit;
    /// the errors of their readers; as [`Evaluator::run`](crate::backend::Evaluator::run) before it computes; [`Error::Io`] for a folder
    /// that exists, and errors of the operating system.
    pub fn make(&self, folder: impl AsRef<Path>) -> Result<Job> {
        self.make_at(Arc::new(Folder(folder.as_ref().to_path_buf())))
    }

    /// Makes the job in a place, which takes it once it is whole.
    ///
    /// # Errors
    /// As [`Parts::make`].
    pub fn make_at(&self, place: Arc<dyn Place>) -> Result<Job> {
        let (scheme, set) = self.kinds()?;
        let draft = Draft(place.draft()?);
        ["in", "claims", "out", "checks", "faults", "left-out"]
            .iter()
            .try_for_each(|name| disk::make_folder(&draft.0.join(name)))?;
        let mut manifest = Manifest::new(scheme, &set)?;
        self.keep(&draft.0, &mut manifest)?;
        match scheme {
            Scheme::Tfhe => self.tfhe(&draft.0, &mut manifest)?,
            Scheme::Ckks => self.ckks(&draft.0, &mut manifest)?,
        }
        manifest.check()?;
        let text = sealed(&manifest)?;
        if text.len() as u64 > MAX_MANIFEST {
            return Err(too_many(manifest.inputs.len()));
        }
        disk::write(&draft.0.join(MANIFEST), &text)?;
        place.take(&draft.0, &files_of(&manifest))?;
        Ok(Job::new(place, manifest))
    }

    /// The scheme and the set, once every file is of its kind.
    fn kinds(&self) -> Result<(Scheme, String)> {
        let (kind_of_program, set) = kind_of(&self.program)?;
        let (scheme, keys, input) = match kind_of_program {
            Kind::CkksProgram => (Scheme::Ckks, Kind::CkksEvaluationKeys, Kind::Rlwe),
            other => {
                require("the program", Kind::Program, other)?;
                (Scheme::Tfhe, Kind::EvaluationKey, Kind::Lwe)
            }
        };
        let all = |paths: &[PathBuf], wanted: Kind| {
            paths.iter().try_for_each(|path| {
                require(path.display(), wanted, Kind::of(path).map_err(|e| e.at(path))?)
            })
        };
        all(std::slice::from_ref(&self.keys), keys)?;
        all(&self.slot_keys, Kind::SlotKey)?;
        all(&self.inputs, input)?;
        if scheme == Scheme::Ckks && !self.slot_keys.is_empty() {
            let got = format!("{} for a program of CKKS", self.slot_keys.len());
            return Err(Error::bad_input("job", "no keys between slots", got, "leave them out"));
        }
        Ok((scheme, set))
    }

    /// Copies program and keys into the folder.
    fn keep(&self, folder: &Path, manifest: &mut Manifest) -> Result<()> {
        disk::write(&folder.join(PROGRAM), &self.program)?;
        manifest.program = Digest::of(&self.program);
        let keep = |path: &PathBuf| {
            let copy = folder.join("keys");
            disk::copy(path, &copy)?;
            let digest = disk::digest(&copy)?;
            let to = folder.join(keys_name(digest));
            std::fs::rename(&copy, &to).map_err(|e| write_error(&to, &e))?;
            Ok(digest)
        };
        manifest.keys = keep(&self.keys)?;
        manifest.slot_keys = self.slot_keys.iter().map(keep).collect::<Result<_>>()?;
        Ok(())
    }

    fn tfhe(&self, folder: &Path, manifest: &mut Manifest) -> Result<()> {
        let program = Program::from_bytes(&self.program, self.trust)?;
        let path = folder.join(keys_name(manifest.keys));
        let mut keys = EvaluationKey::load(path, self.trust).map_err(|e| e.at(&self.keys))?;
        for path in &self.slot_keys {
            keys = keys.with_slot_key(SlotKey::load(path, self.trust).map_err(|e| e.at(path))?)?;
        }
        let read = |path: &PathBuf| Lwe::load(path, self.trust).map_err(|e| e.at(path));
        let inputs = self.inputs.iter().map(read).collect::<Result<Vec<Lwe>>>()?;
        let given: Vec<Ciphertext> = inputs.iter().map(|x| x.clone().into()).collect();
        let lanes = require_fit(&keys, &program, &given)?;
        drop(given);
        manifest.exact = program.params().modulus == Modulus::Goldilocks;
        (manifest.arguments, manifest.results) = (inputs.len(), program.outputs().len());
        self.divide(manifest, lanes, usual_chunk(&program))?;
        for chunk in 0..manifest.chunks() {
            let from = chunk * manifest.chunk;
            let part = from..from + manifest.lanes_of(chunk);
            let files = inputs.iter().map(|x| x.slice(part.clone())?.to_bytes());
            manifest.inputs.push(written(folder, chunk, files)?);
        }
        Ok(())
    }

    fn ckks(&self, folder: &Path, manifest: &mut Manifest) -> Result<()> {
        let program = CkksProgram::from_bytes(&self.program, self.trust)?;
        let context = Context::new(program.params(), self.trust.allow_insecure)?;
        let path = folder.join(keys_name(manifest.keys));
        let keys = context.open_keys(path).map_err(|e| e.at(&self.keys))?;
        program.require(&keys)?;
        let takes = program.inputs().len();
        if takes == 0 || !self.inputs.len().is_multiple_of(takes) {
            let wanted = format!("a file for each of {takes} arguments of every lane");
            let got = format!("{} files", self.inputs.len());
            return Err(Error::bad_input("job", wanted, got, "give all files of every lane"));
        }
        manifest.exact = !program.ops().iter().any(|op| matches!(op, CkksOp::Linear { .. }));
        (manifest.arguments, manifest.results) = (takes, program.outputs().len());
        self.divide(manifest, self.inputs.len() / takes, 1)?;
        for (chunk, paths) in self.inputs.chunks(takes * manifest.chunk).enumerate() {
            let mut files = vec![];
            for lane in paths.chunks(takes) {
                let mut given = vec![];
                for path in lane {
                    let bytes = disk::read(path, self.trust.limit)?;
                    given.push(
                        context
                            .ciphertext_from_bytes(&bytes, self.trust)
                            .map_err(|e| e.at(path))?,
                    );
                    files.push(bytes);
                }
                program.require_inputs(keys.id, &given.iter().collect::<Vec<_>>())?;
            }
            manifest.inputs.push(written(folder, chunk, files.into_iter().map(Ok))?);
        }
        Ok(())
    }

    /// Notes the lanes and the chunks.
    fn divide(&self, manifest: &mut Manifest, lanes: usize, usual: usize) -> Result<()> {
        if lanes == 0 || manifest.arguments == 0 || manifest.results == 0 {
            let got = format!(
                "{lanes} lanes, {} arguments, {} results",
                manifest.arguments, manifest.results
            );
            return Err(Error::bad_input(
                "job",
                "at least one of each",
                got,
                "give a batch with ciphertexts",
            ));
        }
        if !(0.0..=1.0).contains(&self.verify) {
            let remedy = "0.01 is one chunk in a hundred, and 1 is every chunk";
            let got = self.verify.to_string();
            return Err(Error::bad_input("job", "a share of checks from 0 to 1", got, remedy));
        }
        let chunk = self.chunk.unwrap_or(usual);
        if chunk == 0 {
            return Err(Error::bad_input(
                "job",
                "chunks of at least one lane",
                "0",
                "leave the size out, or give one",
            ));
        }
        (manifest.lanes, manifest.chunk) = (lanes, chunk.min(lanes));
        manifest.checks = (self.verify * manifest.chunks() as f64).ceil() as usize;
        let files =
            (0..2).map(|chunk| manifest.files_of(chunk, manifest.arguments)).max().unwrap_or(1);
        if manifest.chunks().saturating_mul(files) > MAX_FILES {
            return Err(too_many(manifest.chunks()));
        }
        Ok(())
    }
}

/// The files of a job beside its manifest.
fn files_of(manifest: &Manifest) -> Vec<(String, Digest)> {
    let keys = std::iter::once(&manifest.keys).chain(&manifest.slot_keys);
    let keys = keys.map(|digest| (keys_name(*digest), *digest));
    let each = manifest.inputs.iter().enumerate().flat_map(|(chunk, digests)| {
        let name = move |i: usize| format!("in/{}/{}", chunk_name(chunk), file_name(i));
        digests.iter().enumerate().map(move |(i, digest)| (name(i), *digest))
    });
    std::iter::once((PROGRAM.to_string(), manifest.program)).chain(keys).chain(each).collect()
}

fn too_many(chunks: usize) -> Error {
    let wanted = format!("at most {MAX_FILES} files of inputs");
    Error::bad_input(
        "job",
        wanted,
        format!("those of {chunks} chunks"),
        "make larger chunks, or several jobs",
    )
}

/// Lanes of a chunk of about five seconds on a core.
fn usual_chunk(program: &Program) -> usize {
    let cost = program.cost();
    let cost = Cost { bootstraps: cost.bootstraps.max(1), ..cost };
    let lane = lane_seconds(&cost, program.params().cost());
    ((CHUNK / lane) as usize).max(WIDTH.div_ceil(program.walk().width()))
}

/// Writes the inputs of a chunk; their digests.
fn written(
    folder: &Path,
    chunk: usize,
    files: impl Iterator<Item = Result<Vec<u8>>>,
) -> Result<Vec<Digest>> {
    let place = folder.join("in").join(chunk_name(chunk));
    disk::make_folder(&place)?;
    let mut digests = vec![];
    for (i, bytes) in files.enumerate() {
        let bytes = bytes?;
        disk::write(&place.join(file_name(i)), &bytes)?;
        digests.push(Digest::of(&bytes));
    }
    disk::keep_names(&place);
    Ok(digests)
}
