//! A circuit in all forms, and the choice between them by the pace of a machine.

use super::Recorded;
use crate::apps::Aim;
use crate::program::Pace;
use crate::{Progress, Result};
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Records a circuit for an aim. Who watches it can stop it.
type Recorder = dyn Fn(Aim, Progress) -> Result<Recorded> + Send + Sync;

/// A circuit for each [`Aim`], recorded when it is first wanted.
///
/// ```
/// # use becalm::apps::{Aim, integer::{Forms, Operation, Type}};
/// # use becalm::{UNWATCHED, params::TfheParams, program::Pace};
/// # use std::sync::Arc;
/// # fn main() -> becalm::Result<()> {
/// let params = Arc::new(TfheParams::named("toy_2_2")?.clone());
/// let (add, ty) = (Operation::named("add")?, Type::Uint(64));
/// let forms = Forms::new(move |aim, _| add.circuit(params.clone(), aim, &[ty, ty]));
/// let depth = |pace: &Pace, lanes| Ok::<_, becalm::Error>(forms.quickest(pace, lanes, UNWATCHED)?.program().depth());
/// // A machine that takes each bootstrap by itself, and one that takes 30 in the time of one: `Evaluator::info` says which.
/// assert_eq!(depth(&Pace::default(), 1)?, 32);
/// let wide = Pace::new([(1, 1000), (30, 1100)]);
/// assert_eq!((depth(&wide, 1)?, depth(&wide, 30)?), (4, 32));
/// # Ok(())
/// # }
/// ```
pub struct Forms {
    record: Box<Recorder>,
    work: OnceLock<Recorded>,
    depth: OnceLock<Recorded>,
    chosen: Mutex<HashMap<(Pace, usize), Aim>>,
}

impl Forms {
    /// The forms that `record` makes: the same function for each aim. It passes on who can stop it.
    pub fn new(
        record: impl Fn(Aim, Progress) -> Result<Recorded> + Send + Sync + 'static,
    ) -> Forms {
        let (work, depth) = (OnceLock::new(), OnceLock::new());
        Forms { record: Box::new(record), work, depth, chosen: Mutex::default() }
    }

    /// The form of an aim.
    ///
    /// # Errors
    /// Errors of the recorder, which `progress` can stop.
    pub fn of(&self, aim: Aim, progress: Progress) -> Result<&Recorded> {
        let place = match aim {
            Aim::Work => &self.work,
            Aim::Depth => &self.depth,
        };
        match place.get() {
            Some(found) => Ok(found),
            None => {
                let made = (self.record)(aim, progress)?;
                Ok(place.get_or_init(|| made))
            }
        }
    }

    /// The form that takes the least time at a pace on so many lanes: the one with the fewest bootstraps where only their number counts.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn quickest(&self, pace: &Pace, lanes: usize, progress: Progress) -> Result<&Recorded> {
        let work = self.of(Aim::Work, progress)?;
        if pace.is_work() {
            return Ok(work);
        }
        let key = (pace.clone(), lanes);
        let chosen = || self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = chosen().get(&key).copied();
        if let Some(aim) = known {
            return self.of(aim, progress);
        }
        let time = |form: &Recorded| form.program().waves_at(pace, lanes).1;
        let quicker = time(self.of(Aim::Depth, progress)?) < time(work);
        let aim = if quicker { Aim::Depth } else { Aim::Work };
        chosen().insert(key, aim);
        self.of(aim, progress)
    }
}

impl std::fmt::Debug for Forms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forms").finish_non_exhaustive()
    }
}
