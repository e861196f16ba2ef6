//! The state of a job, from its folder alone.

use super::claim::worker_of;
use super::folder::Job;
use crate::Result;
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// Chunks whose record of results is damaged. They count as done.
    pub damaged: Vec<usize>,
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
        let done = self.chunks_in("out")?;
        let claimed = self.chunks_in("claims")?;
        let open: Vec<usize> = claimed.difference(&done).copied().collect();
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
        let whole = done.len() - damaged.len();
        let each = (whole > 0).then(|| seconds / whole as f64);
        // A chunk of less than a millisecond would have an infinite rate.
        let rate = each.filter(|_| !open.is_empty()).map(|s| open.len() as f64 / s.max(1e-3));
        let missing = self.chunks() - done.len();
        let name = |chunk: &usize| (*chunk, worker_of(&self.claim(*chunk)).unwrap_or_default());
        Ok(Status {
            chunks: self.chunks(),
            done: done.len(),
            claimed: open.len(),
            left: missing - open.len(),
            damaged,
            lanes: self.lanes(),
            seconds_per_chunk: each,
            lanes_per_second: rate.map(|r| r * self.chunk() as f64),
            seconds_left: rate.map(|r| missing as f64 / r),
            workers,
            claims: open.iter().map(name).collect(),
        })
    }
}
