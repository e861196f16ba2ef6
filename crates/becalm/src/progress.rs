//! How long work tells how far it is, and how it is stopped: one form for keys, programs, jobs, searches and measurements.

use crate::{Error, Result};
use std::ops::ControlFlow;

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
        ControlFlow::Break(()) => {
            Err(Error::interrupted(op, "to finish", "a request to stop", "start it again"))
        }
    }
}
