//! How calls cross the boundary: errors become exceptions, panics too, and long work is watched by the calling thread.

use becalm::math::threads::working;
use becalm::{Missing, MissingPurpose, Progress, UNWATCHED};
use pyo3::prelude::*;
use std::any::Any;
use std::io::Write;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// From so many bytes on work takes long enough to be watched.
const LONG: usize = 1 << 23;

/// How often signals and progress are served while long work runs.
const SERVE_EVERY: Duration = Duration::from_millis(50);

/// The exception of an error: one class for each kind, in `becalm.errors`.
pub fn raise(error: becalm::Error) -> PyErr {
    let class = match error.kind() {
        "bad_input" => "BadInput",
        "wrong_key" => "WrongKey",
        "wrong_params" => "WrongParams",
        "insecure" => "Insecure",
        "too_noisy" => "TooNoisy",
        "memory" => "OutOfMemory",
        "bad_file" => "BadFile",
        "io" => "IoError",
        "device" => "DeviceError",
        "unsupported" => "Unsupported",
        "interrupted" => "Interrupted",
        _ => "Error",
    };
    let d = error.detail();
    let option = match class {
        _ if d.cpu_can => " (device=\"cpu\")",
        _ if d.over_limit => " (limit=)",
        "Insecure" => " (allow_insecure=True)",
        _ => "",
    };
    let made = exception(class, &d.op, &d.wanted, &d.got, &format!("{}{option}", d.remedy));
    let Some(missing) = d.missing else { return made };
    Python::attach(|py| {
        match told(py, missing).and_then(|missing| made.value(py).setattr("missing", missing)) {
            Ok(()) => made,
            Err(e) => e,
        }
    })
}

/// The missing key or levels as an object of Python.
fn told(py: Python<'_>, missing: Missing) -> PyResult<Bound<'_, PyAny>> {
    let errors = py.import("becalm.errors")?;
    let key = match missing {
        Missing::Key(key) => key,
        Missing::Levels(levels) => {
            return errors.getattr("MissingLevels")?.call1((levels.needed, levels.left));
        }
        _ => return Ok(py.None().into_bound(py)),
    };
    let (purpose, by) = match key.purpose {
        MissingPurpose::Multiply => ("multiplication", None),
        MissingPurpose::Conjugate => ("conjugation", None),
        MissingPurpose::Rotate(by) => ("rotation", Some(by)),
        MissingPurpose::Bootstrap => ("bootstrap", None),
    };
    errors.getattr("MissingKey")?.call1((purpose, by, key.level))
}

fn exception(class: &str, op: &str, wanted: &str, got: &str, remedy: &str) -> PyErr {
    Python::attach(|py| {
        let made = py
            .import("becalm.errors")
            .and_then(|m| m.getattr(class))
            .and_then(|c| c.call1((op, wanted, got, remedy)));
        made.map_or_else(|e| e, PyErr::from_value)
    })
}

/// The exception for a panic, which is a defect of becalm for any arguments.
fn defect(panic: Box<dyn Any + Send>) -> PyErr {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic".into());
    exception(
        "Error",
        "becalm",
        "to keep its promises",
        &format!("an internal error ({text})"),
        "please report it with the call that led to it",
    )
}

/// Runs a short call; a panic becomes `becalm.Error`.
pub fn guarded<T>(call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|p| Err(defect(p)))
}

/// Runs a call of the library that takes milliseconds, with the interpreter free.
pub fn detached<T: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> becalm::Result<T> + Send,
) -> PyResult<T> {
    guarded(|| py.detach(|| working("becalm", call)).map_err(raise))
}

/// Work on so many bytes, with the interpreter free: [`supervised`] where it takes long, else [`detached`].
pub fn sized<T: Send>(
    py: Python<'_>,
    bytes: usize,
    work: impl FnOnce(Progress) -> becalm::Result<T> + Send,
) -> PyResult<T> {
    match bytes < LONG {
        true => detached(py, || work(UNWATCHED)),
        false => supervised(py, None, |watch| work(&|done, all| watch.step(done, all))),
    }
}

/// The state that the worker and the thread that watches it share.
#[derive(Default)]
pub struct Watch {
    stop: AtomicBool,
    done: AtomicUsize,
    total: AtomicUsize,
}

impl Watch {
    /// Notes progress, and says whether the work is to go on.
    pub fn step(&self, done: usize, total: usize) -> ControlFlow<()> {
        self.total.store(total, Ordering::Relaxed);
        self.done.fetch_max(done, Ordering::Relaxed);
        match self.stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Serves signals and calls the callback until it has asked to stop. An exception of either stops the work.
    fn serve(&self, py: Python<'_>, progress: Option<&Py<PyAny>>) -> PyResult<()> {
        py.check_signals()?;
        let (total, stopped) =
            (self.total.load(Ordering::Relaxed), self.stop.load(Ordering::Relaxed));
        let (Some(progress), true) = (progress, total > 0 && !stopped) else {
            return Ok(());
        };
        let answer = progress.call1(py, (self.done.load(Ordering::Relaxed), total))?;
        // False of numpy, too.
        if answer.bind(py).extract::<bool>().is_ok_and(|goes_on| !goes_on) {
            self.stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Writes until it is to stop.
pub struct Watched<'a, W>(pub W, pub &'a Watch);

impl<W: Write> Write for Watched<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.1.step(0, 0) {
            ControlFlow::Continue(()) => self.0.write(bytes),
            // `Interrupted` is tried again.
            ControlFlow::Break(()) => Err(std::io::Error::other("a request to stop")),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Runs long work on a separate thread with the interpreter free. The calling thread meanwhile serves signals and calls
/// `progress(done, total)`, which stops the work by returning `False` or raising.
pub fn supervised<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&Arc<Watch>) -> becalm::Result<T> + Send,
) -> PyResult<T> {
    let (watch, progress) = (Arc::new(Watch::default()), progress.as_ref());
    let (watch, mut raised) = (&watch, None);
    let outcome = py.detach(|| {
        std::thread::scope(|scope| {
            let (send, receive) = channel();
            let run = move || {
                // The receiver waits until something is sent, so sending cannot fail.
                let _ =
                    send.send(catch_unwind(AssertUnwindSafe(|| working("becalm", || work(watch)))));
            };
            let worker = std::thread::Builder::new().name("becalm".into());
            if let Err(e) = worker.spawn_scoped(scope, run) {
                let remedy = "close other programs or raise the limit of threads";
                return Ok(Err(becalm::Error::memory("becalm", "a thread", e.to_string(), remedy)));
            }
            loop {
                match receive.recv_timeout(SERVE_EVERY) {
                    Ok(outcome) => return outcome,
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Box::new("a lost thread") as _);
                    }
                    Err(RecvTimeoutError::Timeout) if raised.is_none() => {
                        raised = Python::attach(|py| watch.serve(py, progress)).err();
                        watch.stop.fetch_or(raised.is_some(), Ordering::Relaxed);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        })
    });
    if let Some(e) = raised {
        return Err(e);
    }
    let value = outcome.map_err(defect)?.map_err(raise)?;
    watch.serve(py, progress)?;
    Ok(value)
}
