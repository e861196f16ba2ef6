//! Keys on a machine, for whoever runs programs there: one session, its machine, and its waves with progress.

use super::{Fallback, Info, Loaded, Session};
use crate::program::Family;
use crate::{Error, Result};
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Called between waves with how many of how many steps are done; `Break` stops the run with
/// [`Error::Interrupted`](crate::Error::Interrupted).
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize) -> ControlFlow<()>;

/// A session that threads share.
pub(super) struct Opened<F: Family> {
    /// The machine, and why it is not a GPU; it may change when a program is loaded.
    machine: Mutex<(Info, Option<Fallback>)>,
    session: Mutex<Box<dyn Session<F>>>,
    /// The process that opened it.
    home: u32,
}

/// How many of how many steps of a run are done.
pub(super) struct Steps<'a> {
    /// What errors call the run.
    op: &'static str,
    done: usize,
    all: usize,
    progress: Progress<'a>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(op: &'static str, all: usize, progress: Progress<'a>) -> Steps<'a> {
        Steps { op, done: 0, all, progress }
    }

    /// Counts a step, and asks whether to go on.
    fn next(&mut self) -> Result<()> {
        self.done += 1;
        let Steps { done, all, .. } = *self;
        match (self.progress)(done, all) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::interrupted(
                self.op,
                "to finish",
                format!("a stop after {done} of {all} steps"),
                "run it again; the arguments are unchanged",
            )),
        }
    }
}

impl<F: Family> Opened<F> {
    /// A session of a machine that says `info` of itself.
    pub(super) fn new(session: Box<dyn Session<F>>, info: Info) -> Opened<F> {
        let machine = (session.info().unwrap_or(info), session.fallback());
        let (machine, session) = (Mutex::new(machine), Mutex::new(session));
        Opened { machine, session, home: std::process::id() }
    }

    /// The machine, and why it is not a GPU.
    pub(super) fn machine(&self) -> MutexGuard<'_, (Info, Option<Fallback>)> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine's side, refused in a forked child if it does not compute there. A panic inside a session leaves nothing that a
    /// fresh `load` does not reset.
    pub(super) fn session(&self) -> Result<MutexGuard<'_, Box<dyn Session<F>>>> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if self.home == std::process::id() || session.survives_fork() {
            return Ok(session);
        }
        let (wanted, got) = ("the process that opened the keys on the GPU", "a forked child");
        let remedy =
            "start workers with multiprocessing's \"spawn\" method and load the keys there";
        Err(Error::unsupported("evaluate", wanted, got, remedy))
    }

    /// Loads a program, and notes which machine runs it.
    pub(super) fn load(
        &self,
        session: &mut dyn Session<F>,
        whole: &Loaded<F>,
        lanes: usize,
    ) -> Result<Loaded<F>> {
        let loaded = session.load(whole.program.clone(), whole.walk.clone(), lanes)?;
        if let Some(info) = session.info() {
            *self.machine() = (info, session.fallback());
        }
        Ok(loaded)
    }
}

/// Runs all waves of a loaded program.
pub(super) fn run_waves<F: Family>(
    session: &mut dyn Session<F>,
    loaded: &Loaded<F>,
    waves: usize,
    steps: &mut Steps,
) -> Result<()> {
    (0..waves).try_for_each(|w| {
        session.run(loaded, w..w + 1)?;
        steps.next()
    })
}
