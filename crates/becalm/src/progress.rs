//! How long work tells how far it is, and how it is stopped: one form for keys, programs, jobs, searches and measurements.

use crate::{Error, Result};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Told how many of how many steps are done: by any thread, and as often as the work can stop. `Break` ends the work with
/// [`Error::Interrupted`].
pub type Progress<'a> = &'a (dyn Fn(usize, usize) -> ControlFlow<()> + Sync);

/// For work that nobody follows or stops.
pub const UNWATCHED: Progress<'static> = &|_, _| ControlFlow::Continue(());

/// Tells that `done` of `all` steps are done. Errors call the work `op`.
///
/// # Errors
/// [`Error::Interrupted`] if the work is to stop.
pub(crate) fn tell(op: &'static str, progress: Progress, done: usize, all: usize) -> Result<()> {
    match progress(done, all) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::stopped(op, "start it again")),
    }
}

/// Steps that several threads do, out of a number that may turn out otherwise.
pub(crate) struct Steps<'a> {
    op: &'static str,
    progress: Progress<'a>,
    done: AtomicUsize,
    all: AtomicUsize,
}

impl<'a> Steps<'a> {
    /// No step is done of as many as are expected.
    pub(crate) fn new(op: &'static str, progress: Progress<'a>, all: usize) -> Self {
        Steps { op, progress, done: AtomicUsize::new(0), all: AtomicUsize::new(all) }
    }

    /// Expects so many steps more from now on.
    pub(crate) fn expect_more(&self, steps: usize) {
        self.all.store(self.done.load(Ordering::Relaxed) + steps, Ordering::Relaxed);
    }

    /// Tells that so many more steps are done.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the work is to stop.
    pub(crate) fn add(&self, steps: usize) -> Result<()> {
        self.done.fetch_add(steps, Ordering::Relaxed);
        tell(self.op, &|_, _| self.now(), 0, 0)
    }

    /// Tells how far the work is, and whether it is to go on.
    pub(crate) fn now(&self) -> ControlFlow<()> {
        let all = self.all.load(Ordering::Relaxed).max(1);
        (self.progress)(self.done.load(Ordering::Relaxed).min(all), all)
    }
}
