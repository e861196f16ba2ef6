//! Workers of a service: threads that take its jobs.

use crate::board::Entry;
use crate::state::State;
use becalm::job::{Event, Worker};
use becalm::{Progress, Result};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// How often an idle worker looks for a job.
const LOOK: Duration = Duration::from_millis(50);

/// Works until the service ends.
pub(crate) fn work(state: &Arc<State>, index: usize) {
    while !state.stop.load(Ordering::Relaxed) {
        let Some(entry) = state.board.next() else {
            thread::sleep(LOOK);
            continue;
        };
        let name = format!("{}-{index}", state.name);
        // A worker outlives a fault of what it computes.
        let worked = catch_unwind(AssertUnwindSafe(|| at(state, &entry, &name)));
        let trouble = match worked {
            Ok(Ok(()) | Err(becalm::Error::Interrupted(_))) => None,
            Ok(Err(e)) => Some(e.to_string().replace(&state.root_text, "")),
            Err(_) => Some("an internal error; please report it".to_string()),
        };
        if let Some(error) = &trouble {
            (state.tell)(&format!("job {}: {error}", entry.id));
        }
        entry.worked(&name, trouble);
        // The chunks that are left now are for others, or have failed.
        if !entry.is_complete() {
            entry.rest();
        }
        entry.workers.fetch_sub(1, Ordering::Relaxed);
    }
}

fn at(state: &Arc<State>, entry: &Arc<Entry>, name: &str) -> Result<()> {
    let machine = entry.job.machine(&state.device, state.threads)?;
    let worker = Worker { lease: state.lease, trust: state.trust, ..Worker::new(name) };
    let progress: Progress =
        &|_, _| match state.stop.load(Ordering::Relaxed) || entry.removed.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
    let tell = &mut |event: &Event| match event {
        Event::Finished(_) => {
            state.metrics.finished.fetch_add(1, Ordering::Relaxed);
        }
        Event::Failed { chunk, error } => {
            state.metrics.failed.fetch_add(1, Ordering::Relaxed);
            (state.tell)(&format!("job {}, chunk {chunk}: {error}", entry.id));
        }
        _ => {}
    };
    entry.job.work(machine.as_ref(), &worker, progress, tell)?;
    Ok(())
}
