//! A worker: claims chunks, computes them, and puts the results in place by one rename.

use super::claim::{Claim, Watch};
use super::digest::Digest;
use super::disk::{self, Draft};
use super::folder::{DONE, Job, file_name};
use super::manifest::{Done, is_name, sealed};
use super::run::Runner;
use crate::backend::Backend;
use crate::cipher::file::{Trust, write_error};
use crate::{Error, Progress, Result};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time between two looks at a job whose other chunks are all claimed.
const LOOK: Duration = Duration::from_millis(500);
const LEASE: Duration = Duration::from_secs(60);

/// How a worker works.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Its name, in claims and in the records of results.
    pub name: String,
    /// The time after which the claim of another worker is stale if it has not changed: by this worker's clock, and not before the
    /// time that the other worker asked for. It rewrites its own claims four times as often.
    pub lease: Duration,
    /// Whether to end after one chunk.
    pub once: bool,
    /// The sets and sizes that are accepted.
    pub trust: Trust,
}

impl Worker {
    /// A worker with a lease of 60 seconds that works until every chunk is done.
    pub fn new(name: impl Into<String>) -> Worker {
        Worker { name: name.into(), lease: LEASE, once: false, trust: Trust::default() }
    }

    fn check(&self) -> Result<()> {
        let plain = is_name(&self.name) && !self.name.contains(['"', '\\']);
        if !plain {
            let wanted = "a name of 1 to 64 printable characters without quotes";
            return Err(Error::bad_input(
                "work",
                wanted,
                self.name.escape_default().to_string(),
                "name the worker otherwise",
            ));
        }
        if self.lease < Duration::from_millis(10) || self.lease > Duration::from_secs(24 * 3600) {
            let got = format!("{:?}", self.lease);
            return Err(Error::bad_input(
                "work",
                "a lease of 10 milliseconds to a day",
                got,
                "choose another lease",
            ));
        }
        Ok(())
    }
}

/// A step of a worker, as [`Job::work`] tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It claimed a chunk.
    Claimed(usize),
    /// It found the claim of a worker that does not answer, and moved it away.
    TakenOver(usize),
    /// Its results are in place.
    Finished(usize),
    /// Another worker had finished the chunk before. Its results stay, and these were dropped.
    Dropped(usize),
    /// As [`Event::Dropped`], but the results differ though they are of one class of arithmetic.
    Differs {
        /// The chunk.
        chunk: usize,
        /// The worker whose results stay.
        other: String,
    },
    /// Others have claimed all that is left.
    Waiting,
}

/// The work of one worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Worked {
    /// Chunks whose results this worker put in place.
    pub finished: usize,
    /// Lanes of these.
    pub lanes: usize,
    /// Stale claims that it moved away.
    pub taken_over: usize,
    /// Chunks that it computed after others had.
    pub dropped: usize,
    /// Chunks among them whose results differ, and the worker whose results stay.
    pub differing: Vec<(usize, String)>,
}

impl Job {
    /// Works on the job until every chunk is done. `tell` hears of every step; `progress` is told how many chunks are done,
    /// before chunks and between instructions; when it stops the work, the chunk is given back.
    ///
    /// # Errors
    /// [`Error::BadFile`] naming a file that is damaged; [`Error::Unsupported`] for a job of another version of becalm;
    /// [`Error::BadInput`] for a worker with a name or a lease that cannot be; [`Error::Interrupted`] when stopped; errors of the machine
    /// and of the operating system. The chunk is given back.
    pub fn work(
        &self,
        machine: &dyn Backend,
        worker: &Worker,
        progress: Progress,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<Worked> {
        worker.check()?;
        let (mut worked, mut watch, mut runner) = (Worked::default(), Watch::default(), None);
        loop {
            let done = self.chunks_in("out")?;
            if done.len() == self.chunks() {
                self.tidy();
                return Ok(worked);
            }
            let progress: Progress = &|_, _| progress(done.len(), self.chunks());
            if runner.is_none() {
                runner = Some(Runner::open(self, machine, worker.trust, progress)?);
            }
            let Some(runner) = &runner else { continue };
            let mut found = false;
            for chunk in (0..self.chunks()).filter(|chunk| !done.contains(chunk)) {
                stop_unless(progress)?;
                let claim = self.free_claim(chunk, worker, &mut watch, &mut worked, tell)?;
                let Some(claim) = claim.filter(|_| !self.is_done(chunk)) else { continue };
                found = true;
                tell(&Event::Claimed(chunk));
                let event = self.compute(chunk, claim, runner, worker, progress)?;
                self.count(&event, &mut worked);
                tell(&event);
                if worker.once {
                    return Ok(worked);
                }
            }
            if !found {
                tell(&Event::Waiting);
                wait((worker.lease / 4).min(LOOK), progress)?;
            }
        }
    }

    /// A claim of a chunk that is free, or whose claim is stale.
    fn free_claim(
        &self,
        chunk: usize,
        worker: &Worker,
        watch: &mut Watch,
        worked: &mut Worked,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<Option<Claim>> {
        let claim = Claim::new(self, chunk, &worker.name, worker.lease)?;
        if claim.is_some() || self.is_done(chunk) || !watch.look(self, chunk, worker.lease)? {
            return Ok(claim);
        }
        let claim = Claim::new(self, chunk, &worker.name, worker.lease)?;
        if claim.is_some() {
            worked.taken_over += 1;
            tell(&Event::TakenOver(chunk));
        }
        Ok(claim)
    }

    fn count(&self, event: &Event, worked: &mut Worked) {
        match event {
            Event::Finished(chunk) => {
                worked.finished += 1;
                worked.lanes += self.manifest.lanes_of(*chunk);
            }
            Event::Dropped(_) => worked.dropped += 1,
            Event::Differs { chunk, other } => {
                worked.dropped += 1;
                worked.differing.push((*chunk, other.clone()));
            }
            _ => {}
        }
    }

    /// Computes a chunk, renewing its claim, and puts the results in place.
    fn compute(
        &self,
        chunk: usize,
        claim: Claim,
        runner: &Runner,
        worker: &Worker,
        progress: Progress,
    ) -> Result<Event> {
        let began = Instant::now();
        renewing(claim, || {
            let made = self.results_of(chunk, runner, worker.trust, progress)?;
            self.commit(chunk, runner, worker, &made, began)
        })
    }

    /// The results of a chunk, computed now.
    pub(super) fn results_of(
        &self,
        chunk: usize,
        runner: &Runner,
        trust: Trust,
        progress: Progress,
    ) -> Result<Vec<Vec<u8>>> {
        let files = self.manifest.inputs[chunk].len();
        let read = (0..files).map(|i| self.checked_input(chunk, i, trust.limit));
        runner.run(&read.collect::<Result<Vec<_>>>()?, progress)
    }

    /// Writes results beside, and renames them. Results that are there stay.
    fn commit(
        &self,
        chunk: usize,
        runner: &Runner,
        worker: &Worker,
        made: &[Vec<u8>],
        began: Instant,
    ) -> Result<Event> {
        let done = Done {
            job: self.manifest.job,
            chunk,
            worker: worker.name.clone(),
            milliseconds: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            class: runner.class(),
            results: made.iter().map(|bytes| Digest::of(bytes)).collect(),
        };
        let to = self.out(chunk);
        match self.put(&to, &done, made) {
            Ok(()) => Ok(Event::Finished(chunk)),
            Err(_) if to.is_dir() => {
                let there = self.done(chunk)?;
                if there.class == done.class && there.results != done.results {
                    return Ok(Event::Differs { chunk, other: there.worker });
                }
                Ok(Event::Dropped(chunk))
            }
            Err(e) => Err(e),
        }
    }

    fn put(&self, to: &Path, done: &Done, made: &[Vec<u8>]) -> Result<()> {
        let beside = to.with_file_name(format!(".tmp-{}", disk::nonce()?));
        let draft = Draft::new(beside)?;
        for (i, bytes) in made.iter().enumerate() {
            disk::write(&draft.0.join(file_name(i)), bytes)?;
        }
        disk::write(&draft.0.join(DONE), &sealed(done)?)?;
        draft.place(to).map_err(|e| write_error(to, &e))
    }

    /// Removes what workers that were killed have left, once nothing is to be done.
    fn tidy(&self) {
        for (folder, prefix) in [("out", ".tmp-"), ("claims", "")] {
            for entry in std::fs::read_dir(self.folder.join(folder)).into_iter().flatten().flatten()
            {
                if entry.file_name().to_string_lossy().starts_with(prefix) {
                    // Another worker may remove it at the same time.
                    let _ = std::fs::remove_file(entry.path())
                        .or_else(|_| std::fs::remove_dir_all(entry.path()));
                }
            }
        }
    }
}

/// Does the work while another thread renews the claim: an instruction may take longer than a lease.
fn renewing<T>(mut claim: Claim, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let every = claim.lease() / 4;
    let (ended, end) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            // A renewal that fails is tried again. If it never succeeds another worker takes the chunk, and no result is lost.
            while end.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let _ = claim.renew();
            }
        });
        let made = work();
        drop(ended);
        made
    })
}

fn stop_unless(progress: Progress) -> Result<()> {
    // The worker's own counts take the place of these.
    if progress(0, 0).is_continue() {
        return Ok(());
    }
    let remedy = "start a worker again: it goes on with the chunks that are left";
    Err(Error::interrupted("work", "to finish the job", "a request to stop", remedy))
}

fn wait(time: Duration, progress: Progress) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < time {
        stop_unless(progress)?;
        thread::sleep(Duration::from_millis(20).min(time));
    }
    Ok(())
}
