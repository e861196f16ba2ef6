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
    /// Computes a share of the finished chunks again, drawn at random and at least one, and compares digests. The files of their results
    /// must have the digests of their records. `progress` is told how many are compared.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a share that is not above 0 and at most 1, or while nothing is finished; [`Error::BadFile`] naming a file
    /// that is damaged; as [`Job::work`].
    pub fn verify(
        &self,
        machine: &dyn Backend,
        share: f64,
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
        let mut chunks: Vec<usize> = self.chunks_in("out")?.into_iter().collect();
        if chunks.is_empty() {
            return Err(Error::bad_input(
                "verify",
                "finished chunks",
                "none",
                "let a worker finish some first",
            ));
        }
        let runner = Runner::open(self, machine, trust, progress)?;
        let drawn = ((share * chunks.len() as f64).ceil() as usize).clamp(1, chunks.len());
        let mut verified = Verified::default();
        for i in 0..drawn {
            let at = i + draw(chunks.len() - i)?;
            chunks.swap(i, at);
            let progress: Progress = &|_, _| progress(i, drawn);
            self.verify_chunk(chunks[i], &runner, trust, progress, &mut verified)?;
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
        let made = self.results_of(chunk, runner, trust, progress)?;
        if done.class != runner.class() {
            verified.incomparable += 1;
            return Ok(());
        }
        let differs =
            |(i, bytes): (usize, &Vec<u8>)| (done.results[i] != Digest::of(bytes)).then_some(i);
        let results: Vec<usize> = made.iter().enumerate().filter_map(differs).collect();
        match results.is_empty() {
            true => verified.equal += 1,
            false => verified.differing.push(Difference { chunk, worker: done.worker, results }),
        }
        Ok(())
    }
}

/// A random number below `n`: unbiased to within 2^-40 for as many chunks as there can be.
fn draw(n: usize) -> Result<usize> {
    let bytes = disk::random()?.0;
    let word = bytes.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
    Ok((word % n.max(1) as u64) as usize)
}
