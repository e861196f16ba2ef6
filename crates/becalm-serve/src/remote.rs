//! Jobs that a service has: how a client makes them, and what it asks of them.

use crate::GoOn;
use crate::answer::Fault;
use crate::client::{Client, Got, Sent};
use crate::request::Request;
use becalm::job::{Digest, Parts, Scheme};
use becalm::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Seconds that a request waits for results.
const WAIT: usize = 20;

/// A job of a service, as it is for its client.
#[derive(Debug, Clone)]
pub struct RemoteJob {
    client: Client,
    facts: Facts,
}

/// The facts of a job, as they travel.
#[derive(Debug, Clone, Deserialize)]
struct Facts {
    id: Digest,
    scheme: Scheme,
    set: String,
    lanes: usize,
    chunk: usize,
    chunks: usize,
    results: usize,
    exact: bool,
    complete: bool,
    program: Digest,
    note: String,
}

fn strange(got: impl Into<String>) -> Error {
    Error::bad_file("serve", "an answer of becalm serve", got, "use a service of this version")
}

impl Client {
    /// Makes a job of its parts, and sends the files that the service does not have. The service keeps `note` with the job. A job that is
    /// there already is that job.
    ///
    /// # Errors
    /// As [`Parts::make`], in the words of the service; [`Error::Io`] for a service that does not
    /// answer for a minute; [`Error::Interrupted`] when stopped.
    pub fn make(&self, parts: &Parts, note: &str) -> Result<RemoteJob> {
        let mut files = HashMap::new();
        let mut known = |path: &PathBuf| {
            let digest = digest_of(path)?;
            files.insert(digest, path.clone());
            Ok(digest)
        };
        let keys = known(&parts.keys)?;
        let slot_keys = parts.slot_keys.iter().map(&mut known).collect::<Result<_>>()?;
        let inputs = parts.inputs.iter().map(&mut known).collect::<Result<_>>()?;
        let program = Digest::of(&parts.program);
        let (chunk, verify, note) = (parts.chunk, parts.verify, note.to_string());
        let request = Request { program, keys, slot_keys, inputs, chunk, verify, note };
        let text = request.to_bytes()?;
        let place = format!("/v1/jobs/{}", Digest::of(&text));
        // Another client may remove files in between, so some may be missing again.
        loop {
            let got = self.send("PUT", &place, Sent::Bytes(&text))?;
            if got.status != 409 {
                return RemoteJob::of(self, got);
            }
            let missing = serde_json::from_slice::<Fault>(&got.body).map(|fault| fault.missing);
            let missing =
                missing.ok().filter(|missing| !missing.is_empty()).ok_or_else(|| got.error())?;
            for digest in missing {
                let sent = match files.get(&digest) {
                    Some(path) => Sent::File(path),
                    None if digest == program => Sent::Bytes(&parts.program),
                    None => return Err(got.error()),
                };
                let stored = self.send("PUT", &format!("/v1/files/{digest}"), sent)?;
                if stored.status >= 300 {
                    return Err(stored.error());
                }
            }
        }
    }

    /// A job that is there, by its name.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a job that the service does not have; as [`Client::make`].
    pub fn open(&self, id: &str) -> Result<RemoteJob> {
        let Ok(id) = Digest::try_from(id.to_string()) else {
            let remedy = "pass the 64 hexadecimal digits that the job is named by";
            return Err(Error::bad_input("serve", "the name of a job", "another text", remedy));
        };
        RemoteJob::of(self, self.send("GET", &format!("/v1/jobs/{id}"), Sent::Nothing)?)
    }
}

fn digest_of(path: &Path) -> Result<Digest> {
    let refused = |e: io::Error| Error::unreadable("serve", path, &e);
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path).map_err(refused)?).map_err(refused)?;
    Ok(Digest(*hasher.finalize().as_bytes()))
}

impl RemoteJob {
    /// The job that an answer describes.
    pub(crate) fn of(client: &Client, got: Got) -> Result<RemoteJob> {
        if got.status >= 300 {
            return Err(got.error());
        }
        let read = serde_json::from_slice(&got.body);
        let facts: Facts = read.map_err(|e| strange(e.to_string()))?;
        Ok(RemoteJob { client: client.clone(), facts })
    }

    /// The same, which asks whether to go on while it waits.
    pub fn asking(self, go_on: GoOn) -> RemoteJob {
        RemoteJob { client: self.client.asking(go_on), facts: self.facts }
    }

    /// The name of the job: the digest of the request that made it.
    pub fn id(&self) -> String {
        self.facts.id.to_string()
    }

    /// The address of the job.
    pub fn address(&self) -> String {
        format!("{}{}", self.client.address(), self.place())
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.facts.scheme
    }

    /// The name of the parameter set.
    pub fn set(&self) -> &str {
        &self.facts.set
    }

    /// How many times the program runs.
    pub fn lanes(&self) -> usize {
        self.facts.lanes
    }

    /// Lanes of a chunk; the last may have fewer.
    pub fn chunk(&self) -> usize {
        self.facts.chunk
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> usize {
        self.facts.chunks
    }

    /// How many results the program has.
    pub fn results(&self) -> usize {
        self.facts.results
    }

    /// Whether results are equal on every machine, bit for bit.
    pub fn exact(&self) -> bool {
        self.facts.exact
    }

    /// The note of whoever made the job.
    pub fn note(&self) -> &str {
        &self.facts.note
    }

    /// The file of the program.
    ///
    /// # Errors
    /// [`Error::BadInput`] for one that was removed; as [`Client::make`].
    pub fn program(&self) -> Result<Vec<u8>> {
        Ok(self.ask("GET", &format!("/v1/files/{}", self.facts.program))?.body)
    }

    fn place(&self) -> String {
        format!("/v1/jobs/{}", self.facts.id)
    }

    fn ask(&self, method: &str, place: &str) -> Result<Got> {
        let got = self.client.send(method, place, Sent::Nothing)?;
        if got.status < 300 { Ok(got) } else { Err(got.error()) }
    }

    /// Whether every chunk has results and checks.
    ///
    /// # Errors
    /// As [`Client::make`].
    pub fn is_complete(&self) -> Result<bool> {
        Ok(RemoteJob::of(&self.client, self.ask("GET", &self.place())?)?.facts.complete)
    }

    /// The state of the job, as [`Status`](becalm::job::Status) in JSON.
    ///
    /// # Errors
    /// As [`Client::make`].
    pub fn status(&self) -> Result<Value> {
        let got = self.ask("GET", &format!("{}/status", self.place()))?;
        serde_json::from_slice(&got.body).map_err(|e| strange(e.to_string()))
    }

    /// The files of the results of a chunk; none while it has none. It waits so many seconds for them, at most 60.
    ///
    /// # Errors
    /// As [`Client::make`].
    pub fn results_of(&self, chunk: usize, wait: usize) -> Result<Option<Vec<Vec<u8>>>> {
        let got = self.ask("GET", &format!("{}/chunks/{chunk}?wait={wait}", self.place()))?;
        if got.status == 204 {
            return Ok(None);
        }
        let (mut files, mut rest) = (vec![], got.body.as_slice());
        while let Some((length, after)) = rest.split_first_chunk::<8>() {
            let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
            let file = after.get(..length).ok_or_else(|| strange("results that were cut"))?;
            files.push(file.to_vec());
            rest = &after[length..];
        }
        match rest.is_empty() {
            true => Ok(Some(files)),
            false => Err(strange("results that were cut")),
        }
    }

    /// The files of the results of a chunk, however long they take.
    ///
    /// # Errors
    /// [`Error::Device`] for a chunk that fails on workers; as [`Client::make`].
    pub fn wait(&self, chunk: usize) -> Result<Vec<Vec<u8>>> {
        loop {
            if let Some(files) = self.results_of(chunk, WAIT)? {
                return Ok(files);
            }
            let status = self.status()?;
            if let Some(failure) = status["failed"].get(chunk.to_string()) {
                let got = failure["error"].as_str().unwrap_or("a failure").to_string();
                let remedy = "remove the job and make it again, or ask the keeper of the service";
                return Err(Error::device("serve", "the results of a chunk", got, remedy));
            }
        }
    }

    /// Stops the job and removes it with its results.
    ///
    /// # Errors
    /// As [`Client::make`].
    pub fn delete(&self) -> Result<()> {
        self.ask("DELETE", &self.place()).map(drop)
    }
}
