//! The jobs of a service as its process sees them. The folders are the truth: the board is made of them at the start.

use crate::request::Request;
use becalm::job::{Digest, Failure, Job, Queue, Status};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A worker leaves a job alone for this time after it could do nothing for it.
const REST: Duration = Duration::from_secs(10);

/// A job.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) id: Digest,
    pub(crate) job: Job,
    /// The request, without its inputs.
    pub(crate) request: Request,
    queue: Mutex<Queue>,
    complete: AtomicBool,
    /// Workers of this process that are at it.
    pub(crate) workers: AtomicUsize,
    rest: Mutex<Option<Instant>>,
    /// Why workers of this process cannot work on the job, if they cannot.
    stopped: Mutex<Option<Failure>>,
    /// Whether a client has removed it.
    pub(crate) removed: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked left no half-made change here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    pub(crate) fn new(name: &str, id: Digest, job: Job, request: Request) -> Entry {
        Entry {
            name: name.into(),
            id,
            request: Request { inputs: vec![], ..request },
            queue: Mutex::new(Queue::new(job.clone())),
            job,
            complete: AtomicBool::new(false),
            workers: AtomicUsize::new(0),
            rest: Mutex::new(None),
            stopped: Mutex::new(None),
            removed: AtomicBool::new(false),
        }
    }

    /// Whether all results are there. Results that are damaged later are computed again once somebody reads them.
    pub(crate) fn is_complete(&self) -> bool {
        let complete = locked(&self.queue).is_complete();
        // A folder that cannot be read now is looked at again.
        let complete = complete.unwrap_or(self.complete.load(Ordering::Relaxed));
        self.complete.store(complete, Ordering::Relaxed);
        complete
    }

    /// Notes that results are missing.
    pub(crate) fn reopen(&self) {
        self.complete.store(false, Ordering::Relaxed);
    }

    /// Lets workers do other jobs first.
    pub(crate) fn rest(&self) {
        *locked(&self.rest) = Some(Instant::now() + REST);
    }

    /// Notes whether a worker could work on the job, and if not why.
    pub(crate) fn worked(&self, worker: &str, trouble: Option<String>) {
        let mut stopped = locked(&self.stopped);
        let times = stopped.as_ref().map_or(0, |failure| failure.times);
        *stopped = trouble.map(|error| Failure::new(times + 1, worker, error));
    }

    /// The state of the job. Chunks that wait for workers of this process have failed if these cannot work on it.
    pub(crate) fn status(&self) -> becalm::Result<Status> {
        let stopped = locked(&self.stopped).clone();
        match stopped {
            Some(failure) => self.job.status_of_stopped(&failure),
            None => self.job.status(),
        }
    }

    /// Whether a chunk has no results and nobody is at it, because workers of this process cannot work on the job.
    pub(crate) fn fails(&self, chunk: usize) -> becalm::Result<bool> {
        let stopped = locked(&self.stopped).clone();
        let status = stopped.map(|failure| self.job.status_of_stopped(&failure)).transpose()?;
        Ok(status.is_some_and(|status| status.failed.contains_key(&chunk)))
    }

    fn is_due(&self) -> bool {
        let resting = locked(&self.rest).is_some_and(|until| Instant::now() < until);
        !resting && !self.complete.load(Ordering::Relaxed) && !self.removed.load(Ordering::Relaxed)
    }
}

/// Jobs that are not finished, those that are, those of the first that workers cannot work on, and workers that have a job.
pub(crate) struct Figures {
    pub(crate) unfinished: u64,
    pub(crate) finished: u64,
    pub(crate) stopped: u64,
    pub(crate) workers: u64,
}

/// The jobs, oldest first.
#[derive(Default)]
pub(crate) struct Board(Mutex<Vec<Arc<Entry>>>);

impl Board {
    pub(crate) fn add(&self, entry: Entry) -> Arc<Entry> {
        let entry = Arc::new(entry);
        locked(&self.0).push(entry.clone());
        entry
    }

    pub(crate) fn find(&self, name: &str, id: Digest) -> Option<Arc<Entry>> {
        locked(&self.0).iter().find(|e| e.name == name && e.id == id).cloned()
    }

    pub(crate) fn of(&self, name: &str) -> Vec<Arc<Entry>> {
        locked(&self.0).iter().filter(|e| e.name == name).cloned().collect()
    }

    pub(crate) fn remove(&self, entry: &Arc<Entry>) {
        locked(&self.0).retain(|e| !Arc::ptr_eq(e, entry));
    }

    /// A job for a worker: that with the fewest workers, and of those the oldest. It counts the worker.
    pub(crate) fn next(&self) -> Option<Arc<Entry>> {
        let jobs = locked(&self.0);
        let due = jobs.iter().filter(|e| e.is_due());
        let found = due.min_by_key(|e| e.workers.load(Ordering::Relaxed))?.clone();
        found.workers.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    /// The numbers of jobs and workers now.
    pub(crate) fn figures(&self) -> Figures {
        let jobs: Vec<Arc<Entry>> = locked(&self.0).clone();
        let (finished, unfinished): (Vec<_>, Vec<_>) = jobs.iter().partition(|e| e.is_complete());
        let stopped = unfinished.iter().filter(|e| locked(&e.stopped).is_some()).count();
        Figures {
            unfinished: unfinished.len() as u64,
            finished: finished.len() as u64,
            stopped: stopped as u64,
            workers: jobs.iter().map(|e| e.workers.load(Ordering::Relaxed) as u64).sum(),
        }
    }
}
