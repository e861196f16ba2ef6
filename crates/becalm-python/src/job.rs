//! Jobs: folders of chunks that workers share.

use crate::call::{detached, guarded, supervised};
use crate::ciphertext::trust;
use becalm::backend::Backend;
use becalm::job::{self, Event, Loan, Next, Parts, Queue, Worker};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A panic while a lock was held became an exception; what it protects is still whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn bytes(py: Python<'_>, files: Vec<Vec<u8>>) -> Vec<Py<PyBytes>> {
    files.iter().map(|file| PyBytes::new(py, file).unbind()).collect()
}

/// A job, and its chunks as the workers that this process leads see them.
#[pyclass(frozen, module = "becalm._native")]
pub struct Job {
    job: job::Job,
    queue: Mutex<Queue>,
}

impl From<job::Job> for Job {
    fn from(job: job::Job) -> Job {
        Job { queue: Mutex::new(Queue::new(job.clone())), job }
    }
}

#[pymethods]
impl Job {
    /// Makes the folder of a job.
    #[staticmethod]
    #[pyo3(signature = (folder, program, keys, inputs, chunk, verify, allow_insecure))]
    #[allow(clippy::too_many_arguments)]
    fn make(
        py: Python<'_>,
        folder: PathBuf,
        program: Vec<u8>,
        keys: PathBuf,
        inputs: Vec<PathBuf>,
        chunk: Option<usize>,
        verify: f64,
        allow_insecure: bool,
    ) -> PyResult<Job> {
        let trust = trust(allow_insecure, None);
        let parts = Parts { program, keys, slot_keys: vec![], inputs, chunk, verify, trust };
        supervised(py, None, |_| parts.make(&folder)).map(Job::from)
    }

    /// Opens the folder of a job.
    #[staticmethod]
    fn open(py: Python<'_>, folder: PathBuf) -> PyResult<Job> {
        detached(py, || job::Job::open(&folder)).map(Job::from)
    }

    /// `(scheme, set, lanes, chunk, chunks, results, exact)`.
    fn facts(&self) -> (&'static str, String, usize, usize, usize, usize, bool) {
        let job = &self.job;
        let scheme = match job.scheme() {
            job::Scheme::Tfhe => "tfhe",
            job::Scheme::Ckks => "ckks",
        };
        let set = job.set().to_string();
        (scheme, set, job.lanes(), job.chunk(), job.chunks(), job.results(), job.exact())
    }

    /// The state of the job as JSON.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        let status = detached(py, || self.job.status())?;
        serde_json::to_string(&status)
            .map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))
    }

    /// A chunk for a worker, and whether nothing is left for it.
    fn lend(
        &self,
        py: Python<'_>,
        worker: &str,
        class_: &str,
        lease: f64,
        patience: f64,
    ) -> PyResult<(Option<JobLoan>, bool)> {
        let seconds = |s: f64| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX);
        let worker = Worker {
            lease: seconds(lease),
            patience: seconds(patience),
            ..Worker::new(worker.to_string())
        };
        let next = detached(py, || locked(&self.queue).next(&worker, class_))?;
        Ok(match next {
            Next::Chunk(loan) => {
                (Some(JobLoan { chunk: loan.chunk(), loan: Mutex::new(Some(loan)) }), false)
            }
            Next::End => (None, true),
            _ => (None, false),
        })
    }

    /// The inputs of a chunk.
    fn inputs(&self, py: Python<'_>, chunk: usize) -> PyResult<Vec<Py<PyBytes>>> {
        Ok(bytes(py, detached(py, || self.job.inputs(chunk, trust(true, None).limit))?))
    }

    /// Hands the results of a loan in; what came of it.
    fn finish(
        &self,
        py: Python<'_>,
        loan: &JobLoan,
        class_: &str,
        results: Vec<Vec<u8>>,
    ) -> PyResult<&'static str> {
        let Some(loan) = locked(&loan.loan).take() else { return Ok("given back") };
        let event = detached(py, || self.job.finish(loan, class_, &results))?;
        Ok(match event {
            Event::Finished(_) => "finished",
            Event::Checked(_) => "checked",
            Event::Differs { .. } => "differs",
            _ => "dropped",
        })
    }

    /// Notes that a loan failed.
    fn fail(&self, py: Python<'_>, loan: &JobLoan, error: &str) -> PyResult<()> {
        let Some(loan) = locked(&loan.loan).take() else { return Ok(()) };
        detached(py, || locked(&self.queue).fail(loan, error))
    }

    /// The results of a chunk; none while it has none.
    fn results(&self, py: Python<'_>, chunk: usize) -> PyResult<Option<Vec<Py<PyBytes>>>> {
        let limit = trust(true, None).limit;
        let read = detached(py, || match self.job.is_settled(chunk)? {
            true => self.job.results_of(chunk, limit),
            false => Ok(None),
        })?;
        Ok(read.map(|files| bytes(py, files)))
    }

    /// Whether every chunk has results and checks.
    fn is_complete(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || locked(&self.queue).is_complete())
    }
}

/// A chunk that a worker has claimed.
#[pyclass(frozen, module = "becalm._native")]
pub struct JobLoan {
    #[pyo3(get)]
    chunk: usize,
    loan: Mutex<Option<Loan>>,
}

#[pymethods]
impl JobLoan {
    /// Notes that the work goes on.
    fn step(&self) {
        if let Some(loan) = &*locked(&self.loan) {
            loan.step();
        }
    }

    /// Gives the chunk back.
    fn give_back(&self, py: Python<'_>) -> PyResult<()> {
        guarded(|| {
            py.detach(|| drop(locked(&self.loan).take()));
            Ok(())
        })
    }
}

/// The program and the keys of a job on a machine.
#[pyclass(frozen, module = "becalm._native")]
pub struct JobRunner(job::Runner);

#[pymethods]
impl JobRunner {
    /// Opens the keys and the program in a folder.
    #[new]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        device: &str,
        threads: usize,
        allow_insecure: bool,
    ) -> PyResult<JobRunner> {
        supervised(py, None, |watch| {
            let job = job::Job::open(&folder)?;
            let step = &|done, all| watch.step(done, all);
            let machine: Arc<dyn Backend> = job.machine(device, threads)?;
            job::Runner::open(&job, machine.as_ref(), trust(allow_insecure, None), step)
        })
        .map(JobRunner)
    }

    /// The class of arithmetic.
    fn class_of_results(&self) -> PyResult<String> {
        guarded(|| Ok(self.0.class()))
    }

    /// The results of a chunk, from its inputs.
    fn run(&self, py: Python<'_>, inputs: Vec<Vec<u8>>) -> PyResult<Vec<Py<PyBytes>>> {
        let made =
            supervised(py, None, |watch| self.0.run(&inputs, &|done, all| watch.step(done, all)));
        Ok(bytes(py, made?))
    }
}

/// Seconds of a core for a program, in its file, on so many lanes; none for one of CKKS.
#[pyfunction]
pub fn job_seconds(py: Python<'_>, program: Vec<u8>, lanes: usize) -> PyResult<Option<f64>> {
    detached(py, || job::expected_seconds(&program, lanes, trust(true, None)))
}
