//! Keys on a machine, for the evaluators that run programs there: one session, its machine, and its lanes and
//! waves with progress.

use crate::backend::{Backend, Fallback, Family, Info, Loaded, Others, Session};
use crate::error::RUN;
use crate::progress::tell;
use crate::{Error, Progress, Result};
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Sessions of one key that threads share: as many as run at once where the machine has [others](Session::others), else one that they
/// take by turns.
pub(super) struct Opened<F: Family> {
    /// The machine, and why it is not a GPU; it may change when a program is loaded.
    machine: Mutex<(Info, Option<Fallback>)>,
    others: Option<Others<F>>,
    sessions: Mutex<Sessions<F>>,
    returned: Condvar,
    /// The process that opened it.
    home: u32,
}

struct Sessions<F: Family> {
    idle: Option<Box<dyn Session<F>>>,
    /// The threads that have one.
    busy: Vec<ThreadId>,
}

/// A session while a thread uses it.
pub(super) struct Taken<'a, F: Family> {
    of: &'a Opened<F>,
    session: Option<Box<dyn Session<F>>>,
}

/// There is a session until it is dropped.
impl<F: Family> Deref for Taken<'_, F> {
    type Target = dyn Session<F>;

    fn deref(&self) -> &Self::Target {
        self.session.as_deref().expect("a session that is taken")
    }
}

impl<F: Family> DerefMut for Taken<'_, F> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.session.as_deref_mut().expect("a session that is taken")
    }
}

impl<F: Family> Drop for Taken<'_, F> {
    fn drop(&mut self) {
        let Some(mut session) = self.session.take() else { return };
        session.clear();
        let mut sessions = self.of.sessions();
        let own = thread::current().id();
        if let Some(at) = sessions.busy.iter().position(|id| *id == own) {
            sessions.busy.swap_remove(at);
        }
        sessions.idle.get_or_insert(session);
        self.of.returned.notify_one();
    }
}

impl<F: Family> Opened<F> {
    /// A session of a machine.
    pub(super) fn new(session: Box<dyn Session<F>>, backend: &dyn Backend) -> Opened<F> {
        let machine = (session.info().unwrap_or_else(|| backend.info()), session.fallback());
        let (machine, others) = (Mutex::new(machine), session.others());
        let sessions = Mutex::new(Sessions { idle: Some(session), busy: vec![] });
        Opened { machine, others, sessions, returned: Condvar::new(), home: std::process::id() }
    }

    /// Whether threads have sessions of their own, which take nothing to open.
    pub(super) fn runs_at_once(&self) -> bool {
        self.others.is_some()
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions<F>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine, and why it is not a GPU.
    pub(super) fn machine(&self) -> MutexGuard<'_, (Info, Option<Fallback>)> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine's side, refused in a forked child if it does not compute there. A panic inside a session leaves nothing that a
    /// fresh `load` does not reset.
    ///
    /// A thread of a pool that waits for the machine may begin another piece of its pool's work, and ask for a session again. Where
    /// there is only one session, it would wait for itself: the call returns an error.
    pub(super) fn session(&self) -> Result<Taken<'_, F>> {
        let (mut sessions, own) = (self.sessions(), thread::current().id());
        let session = loop {
            match (sessions.idle.take(), &self.others) {
                (Some(session), _) => break session,
                (None, Some(others)) => break others(),
                (None, None) if sessions.busy.contains(&own) => {
                    let (wanted, got) = ("a session of the machine", "one that this thread uses");
                    let remedy = "run the lanes of one call, or call from threads of your own instead of a rayon pool";
                    return Err(Error::unsupported(RUN, wanted, got, remedy));
                }
                (None, None) => {
                    let waited = self.returned.wait(sessions);
                    sessions = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        sessions.busy.push(own);
        drop(sessions);
        let taken = Taken { of: self, session: Some(session) };
        if self.home == std::process::id() || taken.survives_fork() {
            return Ok(taken);
        }
        let (wanted, got) = ("the process that opened the keys on the GPU", "a forked child");
        let remedy =
            "start workers with multiprocessing's \"spawn\" method and load the keys there";
        Err(Error::unsupported(RUN, wanted, got, remedy))
    }

    /// Runs a program on all lanes of `whole`, `at_once` of them in memory, or fewer where those do not fit it. `put` writes the arguments of
    /// some lanes, and `take` gets the results of the same lanes: for each output, their words. Errors
    /// call the run `op`.
    pub(super) fn run<A>(
        &self,
        op: &'static str,
        whole: &Loaded<F>,
        mut at_once: usize,
        mut put: impl FnMut(&mut dyn Session<F>, Range<usize>) -> Result<A>,
        mut take: impl FnMut(Range<usize>, A, Vec<Vec<F::Word>>) -> Result<()>,
        progress: Progress,
    ) -> Result<()> {
        let (lanes, waves) = (whole.lanes, whole.walk.waves.len());
        let mut session = self.session()?;
        loop {
            match self.load(&mut *session, whole, at_once, &|_, _| progress(0, waves)) {
                Err(Error::Memory(_)) if at_once > 1 => at_once = at_once.div_ceil(2),
                other => break other?,
            }
        }
        let (mut done, all) = (0, lanes.div_ceil(at_once) * waves);
        for from in (0..lanes).step_by(at_once) {
            let part = from..lanes.min(from + at_once);
            if from > 0 {
                self.load(&mut *session, whole, part.len(), &|_, _| progress(done, all))?;
            }
            let arguments = put(&mut *session, part.clone())?;
            for w in 0..waves {
                session.run(w..w + 1, &|_, _| progress(done, all))?;
                done += 1;
                tell(op, progress, done, all)?;
            }
            let made = session.read_many(whole.program.outputs(), 0..part.len())?;
            take(part, arguments, made)?;
        }
        Ok(())
    }

    /// Loads a program, and notes which machine runs it.
    fn load(
        &self,
        session: &mut dyn Session<F>,
        whole: &Loaded<F>,
        lanes: usize,
        progress: Progress,
    ) -> Result<()> {
        session.load(whole.program.clone(), whole.walk.clone(), lanes, progress)?;
        if let Some(info) = session.info() {
            *self.machine() = (info, session.fallback());
        }
        Ok(())
    }
}
