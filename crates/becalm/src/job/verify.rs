//! Computes a share of the finished chunks again.

use super::digest::Digest;
use super::disk;
use super::folder::Job;
use super::run::Runner;
use crate::backend::Backend;
use crate::cipher::file::Trust;
use crate::{Error, Progress, Result};
use serde::Serialize;

/// A result that a machine of the same class does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The chunk.
    pub chunk: usize,
    /// The worker that computed it.
    pub worker: String,
    /// The results that differ.
    pub results: Vec<usize>,
}

/// The outcome of [`Job::verify`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verified {
    /// Chunks with the same results.
    pub equal: usize,
    /// Chunks with others.
    pub differing: Vec<Difference>,
    /// Chunks of another class of arithmetic, which cannot be compared bit for bit.
    pub incomparable: usize,
}

impl Job {
    /// Computes a share of the finished chunks again, drawn at random and at least one, and compares digests. Chunks on which workers
    /// do not agree are always among them. The files of results must have the digests of their records. `leave_out` leaves out the
    /// workers that returned other results: see [`Job::leave_out`]. `progress` is told how many are compared.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a share that is not above 0 and at most 1, or while nothing is finished; [`Error::BadFile`] naming a file
    /// that is damaged; as [`Job::work`].
    pub fn verify(
        &self,
        machine: &dyn Backend,
        share: f64,
        leave_out: bool,
        trust: Trust,
        progress: Progress,
    ) -> Result<Verified> {
        if !(share > 0.0 && share <= 1.0) {
            return Err(Error::bad_input(
                "verify",
                "a share above 0 and at most 1",
                share.to_string(),
                "0.01 is one chunk in a hundred",
            ));
        }
        let mut chunks: Vec<usize> = self.finished()?.into_iter().collect();
        if chunks.is_empty() {
            return Err(Error::bad_input(
                "verify",
                "finished chunks",
                "none",
                "let a worker finish some first",
            ));
        }
        let runner = Runner::open(self, machine, trust, progress)?;
        let disputed = self.checks()?.disputed();
        let (mut first, mut rest): (Vec<_>, Vec<_>) =
            chunks.drain(..).partition(|chunk| disputed.contains(chunk));
        let drawn = ((share * (first.len() + rest.len()) as f64).ceil() as usize).max(1);
        while first.len() < drawn && !rest.is_empty() {
            let at = disk::draw(rest.len())?;
            first.push(rest.swap_remove(at));
        }
        let mut verified = Verified::default();
        for (i, chunk) in first.iter().enumerate() {
            let progress: Progress = &|_, _| progress(i, first.len());
            self.verify_chunk(*chunk, &runner, trust, progress, &mut verified)?;
        }
        for found in verified.differing.iter().filter(|_| leave_out) {
            self.leave_out(&found.worker, found.chunk)?;
        }
        Ok(verified)
    }

    fn verify_chunk(
        &self,
        chunk: usize,
        runner: &Runner,
        trust: Trust,
        progress: Progress,
        verified: &mut Verified,
    ) -> Result<()> {
        let done = self.done(chunk)?;
        (0..done.results.len()).try_for_each(|i| self.result(&done, i, trust.limit).map(drop))?;
        let made = runner.run(&self.inputs(chunk, trust.limit)?, progress)?;
        if done.class != runner.class() {
            verified.incomparable += 1;
            return Ok(());
        }
        let right: Vec<Digest> = made.iter().map(|bytes| Digest::of(bytes)).collect();
        verified.equal += usize::from(done.results == right);
        for (worker, results) in self.contradicted(chunk, &right)? {
            verified.differing.push(Difference { chunk, worker, results });
        }
        Ok(())
    }
}
