//! Evaluators of several keys on one machine.

use super::{Evaluator, Prepared};
use crate::backend::{Backend, Ckks, CkksSetup, Fallback, Info};
use crate::cipher::CkksKeys;
use crate::ckks::Chain;
use crate::program::rlwe::CkksProgram;
use crate::{Progress, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keys, and their evaluator on a device.
type Far = (Arc<CkksKeys>, Arc<Evaluator<Ckks>>);

/// A machine for calls that bring their keys. Keys on a device stay there for the next call; on a CPU they are where they were.
pub struct Keyring {
    backend: Arc<dyn Backend>,
    chain: Arc<Chain>,
    /// Those of the last call first.
    far: Mutex<Vec<Far>>,
    /// The machine of the last run, and why it is not a GPU; before the first, the machine that will be tried first.
    last: Mutex<(Info, Option<Fallback>)>,
    runs: AtomicUsize,
}

impl Keyring {
    /// Sets of keys that stay on a device.
    const FAR: usize = 2;

    /// For keys of the set of this chain.
    pub fn new(backend: Arc<dyn Backend>, chain: &Arc<Chain>) -> Keyring {
        let last = Mutex::new((backend.info(), None));
        let (far, runs) = (Mutex::default(), AtomicUsize::default());
        Keyring { backend, chain: chain.clone(), far, last, runs }
    }

    /// These keys on the machine. An empty set of keys shares the evaluator of other keys of the same secret key.
    ///
    /// # Errors
    /// As [`Evaluator::new`].
    pub fn evaluator(&self, keys: &Arc<CkksKeys>) -> Result<Arc<Evaluator<Ckks>>> {
        let serves = |own: &Arc<CkksKeys>| {
            Arc::ptr_eq(own, keys) || keys.is_empty() && own.key_id() == keys.key_id()
        };
        {
            let mut far = self.far();
            if let Some(at) = far.iter().position(|(own, _)| serves(own)) {
                far[..=at].rotate_right(1);
                return Ok(far[0].1.clone());
            }
        }
        // Not within the lock: it may take seconds.
        let setup = CkksSetup::new(&self.chain, keys);
        let opened = Arc::new(Evaluator::new(self.backend.as_ref(), setup)?);
        if opened.is_far() {
            let mut far = self.far();
            far.insert(0, (keys.clone(), opened.clone()));
            far.truncate(Self::FAR);
        }
        Ok(opened)
    }

    /// Runs with these keys, and notes on which machine.
    ///
    /// # Errors
    /// As [`Keyring::evaluator`], and those of `run`.
    pub fn run<T>(
        &self,
        keys: &Arc<CkksKeys>,
        run: impl FnOnce(&Evaluator<Ckks>) -> Result<T>,
    ) -> Result<T> {
        let on = self.evaluator(keys)?;
        self.runs.fetch_add(1, Ordering::Relaxed);
        let made = run(&on)?;
        *self.last() = (on.info(), on.fallback());
        Ok(made)
    }

    /// How many times [`Keyring::run`] ran something.
    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }

    /// [`Prepared::new`] for this machine.
    ///
    /// # Errors
    /// As there.
    pub fn prepared(
        &self,
        program: &Arc<CkksProgram>,
        bytes: usize,
        progress: Progress,
    ) -> Result<Prepared> {
        Prepared::new(self.backend.as_ref(), &self.chain, program, bytes, progress)
    }

    /// The machine of the last run, and why it is not a GPU; before the first, the machine that will be tried first.
    pub fn machine(&self) -> (Info, Option<Fallback>) {
        self.last().clone()
    }

    fn far(&self) -> MutexGuard<'_, Vec<Far>> {
        self.far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> MutexGuard<'_, (Info, Option<Fallback>)> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
