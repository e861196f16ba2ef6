//! A circuit in all forms, and the choice between them by the pace of a machine and by the arguments.

use super::Recorded;
use crate::apps::{Aim, Arguments, Circuit};
use crate::params::TfheParams;
use crate::program::{Pace, Program};
use crate::{Error, Progress, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Records in an empty circuit.
type Recorder = dyn Fn(Circuit) -> Result<Recorded> + Send + Sync;

/// A circuit for each [`Aim`] and for [`Arguments`] of each kind, recorded when it is first wanted.
///
/// ```
/// # use becalm::apps::{Aim, Arguments, integer::{Forms, Operation, Type}};
/// # use becalm::{UNWATCHED, params::TfheParams, program::Pace};
/// # use std::sync::Arc;
/// # fn main() -> becalm::Result<()> {
/// let params = Arc::new(TfheParams::named("toy_2_2")?.clone());
/// let (add, ty) = (Operation::named("add")?, Type::Uint(64));
/// let forms = Forms::new(params, move |circuit| add.on(circuit, &[ty, ty]));
/// let depth = |pace: &Pace, lanes| {
///     let form = forms.quickest(pace, lanes, Arguments::Any, UNWATCHED)?;
///     Ok::<_, becalm::Error>(form.program().depth())
/// };
/// // A machine that takes each bootstrap by itself, and one that takes 30 in the time of one: `Evaluator::info` says which.
/// assert_eq!(depth(&Pace::default(), 1)?, 32);
/// let wide = Pace::new([(1, 1000), (30, 1100)]);
/// assert_eq!((depth(&wide, 1)?, depth(&wide, 30)?), (4, 32));
/// # Ok(())
/// # }
/// ```
pub struct Forms {
    params: Arc<TfheParams>,
    record: Box<Recorder>,
    made: HashMap<(Aim, Arguments), OnceLock<Recorded>>,
    chosen: Mutex<HashMap<(Pace, usize, Arguments), Aim>>,
}

impl Forms {
    /// The forms that `record` makes: the same function in circuits that differ in aim and arguments.
    pub fn new(
        params: Arc<TfheParams>,
        record: impl Fn(Circuit) -> Result<Recorded> + Send + Sync + 'static,
    ) -> Forms {
        let kinds = [Arguments::Any, Arguments::Independent];
        let all = kinds.into_iter().flat_map(|a| [(Aim::Work, a), (Aim::Depth, a)]);
        let made = all.map(|form| (form, OnceLock::new())).collect();
        Forms { params, record: Box::new(record), made, chosen: Mutex::default() }
    }

    /// The form of an aim.
    ///
    /// # Errors
    /// Errors of the recorder, which `progress` can stop.
    pub fn of(&self, aim: Aim, arguments: Arguments, progress: Progress) -> Result<&Recorded> {
        let place = &self.made[&(aim, arguments)];
        match place.get() {
            Some(found) => Ok(found),
            None => {
                let circuit = Circuit::watched(self.params.clone(), aim, progress)?;
                let made = (self.record)(circuit.with(arguments))?;
                Ok(place.get_or_init(|| made))
            }
        }
    }

    /// The form that takes the least time at a pace on so many lanes: the one with the fewest bootstraps where only their number counts.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn quickest(
        &self,
        pace: &Pace,
        lanes: usize,
        arguments: Arguments,
        progress: Progress,
    ) -> Result<&Recorded> {
        let of = |aim| self.of(aim, arguments, progress);
        let work = of(Aim::Work)?;
        if pace.is_work() {
            return Ok(work);
        }
        let key = (pace.clone(), lanes, arguments);
        let chosen = || self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = chosen().get(&key).copied();
        if let Some(aim) = known {
            return of(aim);
        }
        let time = |form: &Recorded| form.program().waves_at(pace, lanes).1;
        let quicker = time(of(Aim::Depth)?) < time(work);
        let aim = if quicker { Aim::Depth } else { Aim::Work };
        chosen().insert(key, aim);
        of(aim)
    }
}

/// The form for independent arguments, or the one for any where the arguments that there are would be too noisy for it. `takes` is
/// asked whether a program takes them.
///
/// # Errors
/// Errors of `form`.
pub fn fitting<'a>(
    form: impl Fn(Arguments) -> Result<&'a Recorded>,
    takes: impl Fn(&Arc<Program>) -> Result<()>,
) -> Result<&'a Recorded> {
    let found = form(Arguments::Independent)?;
    // Most forms take any, and how arguments are related need not be found out.
    match found.takes_any() || !matches!(takes(found.program()), Err(Error::TooNoisy(_))) {
        true => Ok(found),
        false => form(Arguments::Any),
    }
}

impl std::fmt::Debug for Forms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forms").finish_non_exhaustive()
    }
}
