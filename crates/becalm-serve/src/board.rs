//! The jobs of a service as its process sees them. The folders are the truth: the board is made of them at the start.

use crate::request::Request;
use becalm::job::{Digest, Job, Queue};
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

    fn is_due(&self) -> bool {
        let resting = locked(&self.rest).is_some_and(|until| Instant::now() < until);
        !resting && !self.complete.load(Ordering::Relaxed) && !self.removed.load(Ordering::Relaxed)
    }
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

    /// Jobs that are not finished, jobs that are, and workers that have one.
    pub(crate) fn figures(&self) -> (u64, u64, u64) {
        let jobs: Vec<Arc<Entry>> = locked(&self.0).clone();
        let finished = jobs.iter().filter(|e| e.is_complete()).count() as u64;
        let workers: usize = jobs.iter().map(|e| e.workers.load(Ordering::Relaxed)).sum();
        (jobs.len() as u64 - finished, finished, workers as u64)
    }
}
