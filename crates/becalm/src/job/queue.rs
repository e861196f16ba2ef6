//! The chunks of a job as workers are given them: first those without results, then those that a second worker should compute too.

use super::check::voter;
use super::claim::{Claim, Kept, Watch};
use super::disk;
use super::folder::Job;
use super::manifest::{Failed, sealed};
use super::place::RECORD;
use super::worker::Worker;
use crate::Result;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

/// Chunks of others that a worker tries in a row before it asks which ones are taken.
const MISSES: usize = 8;
/// Characters of an error that a note on a failure keeps.
const MAX_TEXT: usize = 400;

/// A chunk that a worker has claimed. A thread renews the claim. Dropped, the chunk is given back.
pub struct Loan {
    pub(super) chunk: usize,
    pub(super) check: bool,
    pub(super) worker: String,
    pub(super) began: Instant,
    taken_over: bool,
    kept: Kept,
}

impl Loan {
    /// The chunk.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Whether it was taken from a worker that gave no sign of life.
    pub fn taken_over(&self) -> bool {
        self.taken_over
    }

    /// Notes that the work goes on. A worker that makes no step for its patience loses the chunk.
    pub fn step(&self) {
        self.kept.step();
    }
}

/// The next step of a worker.
#[non_exhaustive]
pub enum Next {
    /// A chunk is to be computed.
    Chunk(Loan),
    /// Others have claimed all that is left.
    Wait,
    /// Nothing is left for this worker.
    End,
}

/// The chunks of a job, for one worker or for several that one process leads.
pub struct Queue {
    job: Job,
    /// The rest of this pass over the chunks without results.
    pending: VecDeque<usize>,
    watch: Watch,
    /// Chunks with whole records: who made them, in which class.
    whole: BTreeMap<usize, (String, String)>,
    /// Chunks that failed, and on which worker.
    failed: BTreeSet<(usize, String)>,
}

impl Queue {
    /// The chunks of a job.
    pub fn new(job: Job) -> Queue {
        Queue {
            job,
            pending: VecDeque::new(),
            watch: Watch::default(),
            whole: BTreeMap::new(),
            failed: BTreeSet::new(),
        }
    }

    /// The next chunk for a worker whose results are of a class of arithmetic.
    ///
    /// # Errors
    /// `BadInput` for a worker with a name, lease or patience that cannot be, and for one that returned wrong results;
    /// `Io` for errors of the operating system.
    pub fn next(&mut self, worker: &Worker, class: &str) -> Result<Next> {
        worker.check()?;
        self.job.require_honest(&worker.name)?;
        // The rest of the last pass, and then a whole one, which looks at the claims of others too.
        for skip in [true, false] {
            if let Some(loan) = self.rest(worker, skip)? {
                return Ok(Next::Chunk(loan));
            }
            self.refill()?;
        }
        let (loan, busy) = self.check(worker, class)?;
        if let Some(loan) = loan {
            return Ok(Next::Chunk(loan));
        }
        let mine = |chunk: &usize| !self.failed.contains(&(*chunk, worker.name.clone()));
        match busy || self.pending.iter().any(mine) {
            true => Ok(Next::Wait),
            false => Ok(Next::End),
        }
    }

    /// Whether every chunk has results and checks.
    ///
    /// # Errors
    /// `Io` for a folder that cannot be read.
    pub fn is_complete(&mut self) -> Result<bool> {
        self.refill()?;
        Ok(self.pending.is_empty() && self.job.checks()?.complete(&self.job))
    }

    /// Notes that a chunk failed on its worker, which is not given it again.
    ///
    /// # Errors
    /// `Io` for errors of the operating system.
    pub fn fail(&mut self, loan: Loan, error: &str) -> Result<()> {
        let chunk = loan.chunk;
        let name = format!("faults/{}-{}", super::folder::chunk_name(chunk), disk::nonce()?);
        let error: String = error.chars().take(MAX_TEXT).collect();
        let note = Failed { chunk, worker: loan.worker.clone(), error };
        self.failed.insert((chunk, note.worker.clone()));
        self.job.place.put(&name, &sealed(&note)?)
    }

    /// The next chunk of a pass. `skip` leaves out those that others have: among hundreds of workers most have been taken.
    fn rest(&mut self, worker: &Worker, skip: bool) -> Result<Option<Loan>> {
        let mut misses = 0;
        while let Some(chunk) = self.pending.pop_front() {
            let failed = self.failed.contains(&(chunk, worker.name.clone()));
            if !failed && !self.job.is_done(chunk)? {
                let loan = self.claim(chunk, worker, false)?;
                if loan.is_some() && !self.job.is_done(chunk)? {
                    return Ok(loan);
                }
            }
            misses += 1;
            if skip && misses == MISSES {
                misses = 0;
                let (done, claimed) = (self.job.finished()?, self.job.claimed()?);
                self.pending.retain(|chunk| !done.contains(chunk) && !claimed.contains(chunk));
            }
        }
        Ok(None)
    }

    /// Begins a pass. Results that are damaged, or of a worker that was left out, are moved away first.
    fn refill(&mut self) -> Result<()> {
        let mut done = self.job.finished()?;
        self.whole.retain(|chunk, _| done.contains(chunk));
        for chunk in done.clone() {
            if self.whole.contains_key(&chunk) {
                continue;
            }
            match self.job.done(chunk) {
                Ok(record) if self.job.left_out(&record.worker)? => {
                    let other = |folder: &str| {
                        let record = self.job.record(&format!("{folder}/{RECORD}"), chunk);
                        record.is_ok_and(|r| self.job.left_out(&r.worker).is_ok_and(|out| !out))
                    };
                    self.job.set_aside(chunk, &other)?;
                    done.remove(&chunk);
                }
                Ok(record) => {
                    self.whole.insert(chunk, (record.worker, record.class));
                }
                Err(_) if self.job.mend(chunk)? => {
                    done.remove(&chunk);
                }
                // It cannot be read now, perhaps later.
                Err(_) => {}
            }
        }
        self.pending = (0..self.job.chunks()).filter(|chunk| !done.contains(chunk)).collect();
        Ok(())
    }

    /// A chunk that is free, or whose claim is stale.
    fn claim(&mut self, chunk: usize, worker: &Worker, check: bool) -> Result<Option<Loan>> {
        let made = || Claim::new(&self.job, chunk, &worker.name, worker.lease);
        let (mut claim, mut taken_over) = (made()?, false);
        if claim.is_none()
            && (check || !self.job.is_done(chunk)?)
            && self.watch.look(&self.job, chunk, worker.lease)?
        {
            (claim, taken_over) = (made()?, true);
        }
        let Some(claim) = claim else { return Ok(None) };
        let kept = Kept::new(claim, worker.patience)?;
        let (worker, began) = (worker.name.clone(), Instant::now());
        Ok(Some(Loan { chunk, check, worker, began, taken_over, kept }))
    }

    /// A chunk that this worker is to check, and whether others are about to check one that it could.
    fn check(&mut self, worker: &Worker, class: &str) -> Result<(Option<Loan>, bool)> {
        let checks = self.job.checks()?;
        if checks.complete(&self.job) {
            return Ok((None, false));
        }
        let me = voter(&worker.name);
        let could = |chunk: &usize| {
            let maker = self.whole.get(chunk);
            let other = maker.is_some_and(|(name, of)| *name != worker.name && of == class);
            other
                && !checks.by(*chunk, &me)
                && !self.failed.contains(&(*chunk, worker.name.clone()))
        };
        // The checks that settle a difference come first. The others are drawn, so that no worker knows which results are compared.
        let mut chunks: Vec<usize> = checks.disputed().into_iter().filter(could).collect();
        if chunks.is_empty() && checks.checked() < self.job.manifest.checks {
            chunks = self.whole.keys().copied().filter(|c| !checks.has(*c)).filter(could).collect();
            let first = disk::draw(chunks.len())?;
            chunks.rotate_left(first);
        }
        let mut busy = false;
        for chunk in chunks {
            let loan = self.claim(chunk, worker, true)?;
            busy |= loan.is_none();
            if loan.is_some() && !self.job.checks()?.by(chunk, &me) {
                return Ok((loan, busy));
            }
        }
        Ok((None, busy))
    }
}
