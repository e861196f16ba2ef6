//! Threads that outlive a fork.
//!
//! A forked child has none of its parent's threads, and a loop that is handed to them would wait for ever. So every parallel loop
//! (`math::parallel`) and every pool ([`Threads`]) asks here first. A process that finds itself a child makes its own threads,
//! once. It recognises itself by its process id: a tenth of a microsecond where a loop begins, nothing within a pool. A lock that
//! another thread held at the fork stays locked in the child: [`working`] refuses such a child.

use crate::words::counted;
use crate::{Error, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The number of threads of a pool that is asked for no number.
pub(crate) fn usual() -> usize {
    let named = std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse().ok());
    let named = named.filter(|n| *n > 0);
    named.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The process id. A web page has none, and never forks.
fn id() -> u32 {
    if cfg!(target_family = "wasm") { 1 } else { std::process::id() }
}

/// A number of threads; in a forked child as many new ones.
pub struct Threads {
    count: usize,
    /// The process that the pool was made in.
    home: u32,
    pool: Arc<ThreadPool>,
    child: Child,
}

impl Threads {
    /// A pool of this number of threads; 0 means all.
    ///
    /// # Errors
    /// `Memory` if the system grants no threads.
    pub fn new(count: usize) -> Result<Self> {
        let pool = ThreadPoolBuilder::new().num_threads(count).build().map_err(|e| {
            let wanted = counted(if count == 0 { usual() } else { count }, "thread");
            let remedy = "ask for fewer threads";
            Error::memory("cpu", wanted, e.to_string(), remedy)
        })?;
        Ok(Threads { count, home: id(), pool: Arc::new(pool), child: Child::new() })
    }

    /// The number of threads.
    pub fn count(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// [`Threads::install`] for a caller who holds a lock: it waits without taking up other work of its own pool, which may want the
    /// lock. Nobody else may use these threads.
    pub(crate) fn apart<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|scope| {
            let done = scope.spawn(|| self.install(work)).join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs work, and the loops within it, on these threads.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match self.home == id() {
            true => self.pool.install(work),
            false => self.child.pool(self.count).install(work),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // A child has no threads to end, and ending them might wait for a lock of the parent's.
        if self.home != id() {
            std::mem::forget(self.pool.clone());
        }
    }
}

/// The threads of a forked child, and its process id.
struct Child(Mutex<Option<(u32, Arc<ThreadPool>)>>);

impl Child {
    const fn new() -> Child {
        Child(Mutex::new(None))
    }

    /// The threads of this process. The lock is never waited for, because its holder may be gone. Where it is taken, the threads are
    /// made for one call.
    fn pool(&self, count: usize) -> Arc<ThreadPool> {
        let kept = self.0.try_lock().ok().and_then(|kept| kept.clone());
        match kept {
            Some((home, pool)) if home == id() => return pool,
            // The threads of a parent cannot be ended here.
            parents => std::mem::forget(parents),
        }
        // Where the system grants no threads, this one works alone.
        let alone = || ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
        let made = ThreadPoolBuilder::new().num_threads(count).build().or_else(|_| alone());
        let pool = Arc::new(made.unwrap_or_else(|_| super::buffer::refuse(0)));
        if let Ok(mut kept) = self.0.try_lock() {
            *kept = Some((id(), pool.clone()));
        }
        pool
    }
}

/// The number of threads of a loop that begins here.
pub(crate) fn current() -> usize {
    rayon::current_num_threads()
}

/// Begins a loop: in the pool that this thread belongs to, else on all threads; in a forked child on the child's own threads.
pub(crate) fn begin<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    /// The process that has the threads of rayon's global pool.
    static HOME: AtomicU32 = AtomicU32::new(0);
    static CHILD: Child = Child::new();
    if rayon::current_thread_index().is_some() {
        return work();
    }
    let mine = id();
    match HOME.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed) {
        Err(home) if home != mine => CHILD.pool(0).install(work),
        _ => work(),
    }
}

/// The process id (upper half), whether the process was forked in the middle of a call, and the number of calls at work in it.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// The bit of [`CALLS`] that says: forked in the middle of a call.
const BROKEN: u64 = 1 << 31;

/// Runs a call of this library in a program that may fork while other threads compute.
///
/// A child that was forked in the middle of another thread's call has the locks of that call, but not the thread that would open
/// them. Such a child refuses every call. A child that was forked while nothing was at work computes as its parent does.
///
/// # Errors
/// As `work`; `Unsupported` in such a child.
///
/// ```
/// let sum = becalm::math::threads::working("add", || Ok(1 + 1))?;
/// assert_eq!(sum, 2);
/// # Ok::<(), becalm::Error>(())
/// ```
pub fn working<R>(op: &'static str, work: impl FnOnce() -> Result<R>) -> Result<R> {
    let mine = u64::from(id()) << 32;
    let enter = |calls: u64| {
        let (home, at_work) = (calls >> 32 << 32, calls << 32 >> 32);
        if home == mine {
            (at_work < BROKEN).then_some(calls + 1)
        } else if at_work == 0 {
            Some(mine | 1)
        } else {
            Some(mine | BROKEN)
        }
    };
    // A broken child notes nothing more.
    _ = CALLS.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter);
    if CALLS.load(Ordering::Acquire) & BROKEN != 0 {
        let wanted = "a process that was not forked in the middle of a call";
        let got = "a child forked while another thread computed";
        let remedy =
            "fork when nothing computes, or start workers with multiprocessing's \"spawn\" method";
        return Err(Error::unsupported(op, wanted, got, remedy));
    }
    let _leave = Leave(mine);
    work()
}

/// Counts a call as done, in the process that it began in.
struct Leave(u64);

impl Drop for Leave {
    fn drop(&mut self) {
        let leave = |calls: u64| {
            let (home, at_work) = (calls >> 32 << 32, calls << 32 >> 32);
            (home == self.0 && (1..BROKEN).contains(&at_work)).then(|| calls - 1)
        };
        _ = CALLS.fetch_update(Ordering::AcqRel, Ordering::Acquire, leave);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of a pool says how many threads it wanted, also where the caller named no number.
    #[test]
    fn a_pool_without_a_number_has_the_usual_one() {
        assert_eq!(Threads::new(0).map(|pool| pool.count()), Ok(usual()));
        assert_eq!(Threads::new(3).map(|pool| pool.count()), Ok(3));
    }
}
