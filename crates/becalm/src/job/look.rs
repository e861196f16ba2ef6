//! The state of a job, from its folder alone.

use super::claim::worker_of;
use super::folder::Job;
use super::manifest::{Failed, LeftOut, unsealed};
use crate::Result;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the longest note.
const MAX_NOTE: u64 = 4096;

/// The failures of a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Failure {
    /// How often it failed.
    pub times: usize,
    /// The worker on which it failed.
    pub worker: String,
    /// The error there.
    pub error: String,
}

impl Failure {
    /// A failure on a worker.
    pub fn new(times: usize, worker: impl Into<String>, error: impl Into<String>) -> Failure {
        Failure { times, worker: worker.into(), error: error.into() }
    }
}

/// The state of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// All chunks.
    pub chunks: usize,
    /// Chunks with results.
    pub done: usize,
    /// Chunks that a worker has claimed. A worker that was killed leaves its claim.
    pub claimed: usize,
    /// Chunks that nobody has claimed.
    pub left: usize,
    /// Chunks whose record of results is damaged. They count as left: a worker computes them again.
    pub damaged: Vec<usize>,
    /// Chunks without results that failed, and how. Above all their inputs are damaged.
    pub failed: BTreeMap<usize, Failure>,
    /// Chunks that a second worker has computed too.
    pub checked: usize,
    /// Chunks that a second worker is to compute.
    pub checks: usize,
    /// Chunks on which workers do not agree.
    pub disputed: Vec<usize>,
    /// Workers that returned wrong results, and a chunk of which they did. They get no more chunks.
    pub left_out: BTreeMap<String, usize>,
    /// All lanes.
    pub lanes: usize,
    /// The mean time of a chunk; none before the first is done.
    pub seconds_per_chunk: Option<f64>,
    /// Lanes a second at the present number of claims; none while nobody works.
    pub lanes_per_second: Option<f64>,
    /// Seconds until the end at that rate.
    pub seconds_left: Option<f64>,
    /// The number of chunks that each worker has done.
    pub workers: BTreeMap<String, usize>,
    /// Who has claimed which chunk.
    pub claims: BTreeMap<usize, String>,
}

impl Job {
    /// The state of the job. Workers go on meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) for a folder that cannot be read.
    pub fn status(&self) -> Result<Status> {
        let mut done = self.finished()?;
        let claimed = self.claimed()?;
        let (mut damaged, mut workers, mut seconds) = (vec![], BTreeMap::new(), 0.0);
        for chunk in &done {
            match self.done(*chunk) {
                Ok(record) => {
                    *workers.entry(record.worker).or_insert(0) += 1;
                    seconds += record.milliseconds as f64 / 1e3;
                }
                Err(_) => damaged.push(*chunk),
            }
        }
        damaged.iter().for_each(|chunk| {
            done.remove(chunk);
        });
        let open: Vec<usize> = claimed.difference(&done).copied().collect();
        let each = (!done.is_empty()).then(|| seconds / done.len() as f64);
        let checks = self.checks()?;
        // A chunk of less than a millisecond would have an infinite rate.
        let rate = each.filter(|_| !open.is_empty()).map(|s| open.len() as f64 / s.max(1e-3));
        let missing = self.chunks() - done.len();
        let name = |chunk: &usize| (*chunk, worker_of(self, *chunk).unwrap_or_default());
        Ok(Status {
            chunks: self.chunks(),
            done: done.len(),
            claimed: open.len(),
            left: missing - open.len(),
            damaged,
            failed: self.failures(&done)?,
            checked: checks.checked(),
            checks: self.manifest.checks,
            disputed: checks.disputed(),
            left_out: self.named_as_wrong()?,
            lanes: self.lanes(),
            seconds_per_chunk: each,
            lanes_per_second: rate.map(|r| r * self.chunk() as f64),
            seconds_left: rate.map(|r| missing as f64 / r),
            workers,
            claims: open.iter().map(name).collect(),
        })
    }

    /// The state of a job that workers of this process cannot work on: chunks that nobody has done or claimed failed in this way too.
    ///
    /// # Errors
    /// As [`Job::status`].
    pub fn status_of_stopped(&self, failure: &Failure) -> Result<Status> {
        let mut status = self.status()?;
        let done = self.finished()?;
        let free = |chunk: &usize| !done.contains(chunk) && !status.claims.contains_key(chunk);
        let left: Vec<usize> = (0..self.chunks()).filter(free).collect();
        for chunk in left {
            status.failed.entry(chunk).or_insert_with(|| failure.clone());
        }
        Ok(status)
    }

    fn failures(&self, done: &BTreeSet<usize>) -> Result<BTreeMap<usize, Failure>> {
        let mut failures = BTreeMap::new();
        for (chunk, names) in self.notes_in("faults")? {
            let last = names.last().filter(|_| !done.contains(&chunk));
            let Some(last) = last else { continue };
            let note = unsealed(self.place.as_ref(), &format!("faults/{last}"), MAX_NOTE);
            let (worker, error) = match note {
                Ok(Failed { worker, error, .. }) => (worker, error),
                Err(e) => (String::new(), e.to_string()),
            };
            failures.insert(chunk, Failure { times: names.len(), worker, error });
        }
        Ok(failures)
    }

    fn named_as_wrong(&self) -> Result<BTreeMap<String, usize>> {
        let names = self.place.names("left-out")?.into_iter().filter(|name| !name.starts_with('.'));
        let read = |name: String| {
            let note = unsealed(self.place.as_ref(), &format!("left-out/{name}"), MAX_NOTE);
            note.unwrap_or(LeftOut { worker: name, chunk: 0 })
        };
        Ok(names.map(read).map(|note| (note.worker, note.chunk)).collect())
    }
}
