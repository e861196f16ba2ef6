//! A worker: claims chunks, computes them, and puts the results in place by one rename.

use super::digest::Digest;
use super::folder::{Job, file_name};
use super::manifest::{Done, is_name, sealed};
use super::queue::{Loan, Next, Queue};
use super::run::Runner;
use super::worker::Worker;
use crate::backend::Backend;
use crate::{Error, Progress, Result};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time between two looks at a job whose other chunks are all claimed.
const LOOK: Duration = Duration::from_millis(500);

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
    /// It computed what another worker had finished, and the results are equal.
    Checked(usize),
    /// It could not compute a chunk: the inputs are damaged. The other chunks go on.
    Failed {
        /// The chunk.
        chunk: usize,
        /// The error.
        error: String,
    },
    /// As [`Event::Checked`], but the results differ though they are of one class of arithmetic. Once most workers agree, the others
    /// are left out.
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
    /// Chunks of others that it computed too, with equal results.
    pub checked: usize,
    /// Chunks that it could not compute, and what is wrong.
    pub failed: Vec<(usize, String)>,
    /// Chunks of others that it computed too, with other results, and these workers.
    pub differing: Vec<(usize, String)>,
}

impl Job {
    /// Works on the job until nothing is left for this worker: every chunk is done and checked, or failed here. `tell` hears of every
    /// step. `progress` is told before chunks and between instructions how many chunks this worker has finished, of all; when it stops
    /// the work, the chunk is given back. A chunk with damaged inputs is noted, and the other chunks go on.
    ///
    /// # Errors
    /// [`Error::BadFile`] naming a key or program that is damaged; [`Error::Unsupported`] for a job of another version of becalm;
    /// [`Error::BadInput`] for a worker with a name or times that cannot be, or that returned wrong results; [`Error::Interrupted`] when
    /// stopped; errors of the machine and of the operating system. The chunk is given back.
    pub fn work(
        &self,
        machine: &dyn Backend,
        worker: &Worker,
        progress: Progress,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<Worked> {
        worker.check()?;
        let (mut worked, mut queue) = (Worked::default(), Queue::new(self.clone()));
        if queue.is_complete()? {
            self.tidy();
            return Ok(worked);
        }
        self.require_honest(&worker.name)?;
        let runner = Runner::open(self, machine, worker.trust, progress)?;
        loop {
            let finished = worked.finished;
            let progress: Progress = &|_, _| progress(finished, self.chunks());
            stop_unless(progress)?;
            let loan = match queue.next(worker, &runner.class())? {
                Next::Chunk(loan) => loan,
                Next::Wait => {
                    tell(&Event::Waiting);
                    wait((worker.lease / 4).min(LOOK), progress)?;
                    continue;
                }
                Next::End => break,
            };
            if loan.taken_over() {
                worked.taken_over += 1;
                tell(&Event::TakenOver(loan.chunk));
            }
            tell(&Event::Claimed(loan.chunk));
            let event = self.compute(loan, &runner, worker, &mut queue, progress)?;
            self.count(&event, &mut worked);
            tell(&event);
            if worker.once {
                return Ok(worked);
            }
        }
        if queue.is_complete()? {
            self.tidy();
        }
        Ok(worked)
    }

    fn count(&self, event: &Event, worked: &mut Worked) {
        match event {
            Event::Finished(chunk) => {
                worked.finished += 1;
                worked.lanes += self.manifest.lanes_of(*chunk);
            }
            Event::Checked(_) => worked.checked += 1,
            Event::Dropped(_) => worked.dropped += 1,
            Event::Differs { chunk, other } => worked.differing.push((*chunk, other.clone())),
            Event::Failed { chunk, error } => worked.failed.push((*chunk, error.clone())),
            _ => {}
        }
    }

    /// Computes a chunk and hands its results in.
    fn compute(
        &self,
        loan: Loan,
        runner: &Runner,
        worker: &Worker,
        queue: &mut Queue,
        progress: Progress,
    ) -> Result<Event> {
        let limit = worker.trust.limit;
        let progress: Progress = &|done, all| {
            loan.step();
            progress(done, all)
        };
        let made = self.inputs(loan.chunk, limit).map(|inputs| runner.run(&inputs, progress));
        match made {
            Ok(Ok(made)) => self.finish(loan, &runner.class(), &made),
            // The chunk is at fault, and not this worker.
            Ok(Err(e @ Error::BadFile(_))) | Err(e) => {
                let (chunk, error) = (loan.chunk, e.to_string());
                queue.fail(loan, &error)?;
                Ok(Event::Failed { chunk, error })
            }
            Ok(Err(e)) => Err(e),
        }
    }

    /// Puts the results of a chunk in place, or compares them with those that are. `class` is the class of arithmetic of the worker.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another number of results, and for a worker that returned wrong ones before; [`Error::Io`] for errors of
    /// the operating system. The chunk is given back.
    pub fn finish(&self, loan: Loan, class: &str, made: &[Vec<u8>]) -> Result<Event> {
        let chunk = loan.chunk;
        self.require_honest(&loan.worker)?;
        let files = self.manifest.files_of(chunk, self.results());
        if made.len() != files || !is_name(class) {
            let (wanted, got) = (format!("{files} results and a class"), made.len().to_string());
            return Err(Error::bad_input("job", wanted, got, "return what the program computes"));
        }
        let done = Done {
            job: self.manifest.job,
            chunk,
            worker: loan.worker.clone(),
            milliseconds: u64::try_from(loan.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            class: class.into(),
            results: made.iter().map(|bytes| Digest::of(bytes)).collect(),
        };
        match loan.check {
            true => self.compare(&done, Event::Checked(chunk)),
            false => self.commit(&done, made),
        }
    }

    /// Compares results with those that are in place; `equal` if they agree.
    fn compare(&self, done: &Done, equal: Event) -> Result<Event> {
        let chunk = done.chunk;
        let there = match self.done(chunk) {
            Ok(there) => there,
            // They are damaged, or were moved away.
            Err(_) if self.mend(chunk)? || !self.is_done(chunk)? => {
                return Ok(Event::Dropped(chunk));
            }
            Err(e) => return Err(e),
        };
        if there.class != done.class || there.worker == done.worker {
            return Ok(Event::Dropped(chunk));
        }
        match self.vote(&there, done)? {
            true => Ok(Event::Differs { chunk, other: there.worker }),
            false => Ok(equal),
        }
    }

    /// Puts results in place. Results that are there stay, unless they are damaged.
    fn commit(&self, done: &Done, made: &[Vec<u8>]) -> Result<Event> {
        let (chunk, folder, record) = (done.chunk, self.out(done.chunk), sealed(done)?);
        let named = made.iter().zip(&done.results).enumerate();
        let files: Vec<(String, Digest, &[u8])> =
            named.map(|(i, (bytes, digest))| (file_name(i), *digest, bytes.as_slice())).collect();
        let put = || self.place.commit(&folder, &files, &record);
        let placed = put()? || (self.mend(chunk)? && put()?);
        if !placed {
            return self.compare(done, Event::Dropped(chunk));
        }
        self.forget("faults", chunk);
        Ok(Event::Finished(chunk))
    }

    /// Removes what workers that were killed have left, once nothing is to be done.
    fn tidy(&self) {
        self.place.tidy(&["out", "checks", "faults", "left-out"]);
        for name in self.place.names("claims").unwrap_or_default() {
            // Another worker may remove it at the same time.
            let _ = self.place.remove(&format!("claims/{name}"));
        }
    }
}

fn stop_unless(progress: Progress) -> Result<()> {
    // The worker's own counts take the place of these.
    if progress(0, 0).is_continue() {
        return Ok(());
    }
    let remedy = "start a worker again: it goes on with the chunks that are left";
    Err(Error::stopped("work", remedy))
}

fn wait(time: Duration, progress: Progress) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < time {
        stop_unless(progress)?;
        thread::sleep(Duration::from_millis(20).min(time));
    }
    Ok(())
}
