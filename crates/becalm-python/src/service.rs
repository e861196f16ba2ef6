//! Jobs of a service, through its client.

use crate::call::{Watch, supervised};
use crate::ciphertext::trust;
use crate::job::bytes;
use becalm::job::{Parts, Scheme};
use becalm_serve::{Client, GoOn};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;

/// Seconds for which a request waits at the service. The caller looks at other things in between.
const WAIT: usize = 2;

/// A job of a service: the calls of `Job` that a client has.
#[pyclass(frozen, module = "becalm._native")]
pub struct RemoteJob(becalm_serve::RemoteJob);

fn go_on(watch: &Arc<Watch>) -> GoOn {
    let watch = watch.clone();
    Arc::new(move || watch.step(0, 0).is_continue())
}

/// Work of a client, which stops when the caller does.
fn asked<T: Send>(
    py: Python<'_>,
    client: Client,
    work: impl FnOnce(Client) -> becalm::Result<T> + Send,
) -> PyResult<T> {
    supervised(py, None, |watch| work(client.asking(go_on(watch))))
}

impl RemoteJob {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&becalm_serve::RemoteJob) -> becalm::Result<T> + Send,
    ) -> PyResult<T> {
        supervised(py, None, |watch| work(&self.0.clone().asking(go_on(watch))))
    }
}

fn client(address: &str, token: &str, authorities: Option<PathBuf>) -> PyResult<Client> {
    Client::new(address, token, authorities.as_deref()).map_err(crate::call::raise)
}

#[pymethods]
impl RemoteJob {
    /// Makes a job at a service, and sends it the files that it does not have.
    #[staticmethod]
    #[pyo3(signature = (service, program, keys, inputs, chunk, verify, note))]
    #[allow(clippy::too_many_arguments)]
    fn make(
        py: Python<'_>,
        service: (String, String, Option<PathBuf>),
        program: Vec<u8>,
        keys: PathBuf,
        inputs: Vec<PathBuf>,
        chunk: Option<usize>,
        verify: f64,
        note: &str,
    ) -> PyResult<RemoteJob> {
        let (slot_keys, trust) = (vec![], trust(true, None));
        let parts = Parts { program, keys, slot_keys, inputs, chunk, verify, trust };
        let (address, token, authorities) = service;
        let client = client(&address, &token, authorities)?;
        asked(py, client, |client| client.make(&parts, note)).map(RemoteJob)
    }

    /// Opens a job of a service by its name.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        service: (String, String, Option<PathBuf>),
        id: &str,
    ) -> PyResult<RemoteJob> {
        let (address, token, authorities) = service;
        let client = client(&address, &token, authorities)?;
        asked(py, client, |client| client.open(id)).map(RemoteJob)
    }

    /// `(scheme, set, lanes, chunk, chunks, results, exact)`.
    fn facts(&self) -> (&'static str, String, usize, usize, usize, usize, bool) {
        let job = &self.0;
        let scheme = match job.scheme() {
            Scheme::Tfhe => "tfhe",
            Scheme::Ckks => "ckks",
        };
        let set = job.set().to_string();
        (scheme, set, job.lanes(), job.chunk(), job.chunks(), job.results(), job.exact())
    }

    /// The address of the job.
    fn address(&self) -> String {
        self.0.address()
    }

    /// The note of whoever made the job.
    fn note(&self) -> String {
        self.0.note().to_string()
    }

    /// The file of the program.
    fn program(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        Ok(PyBytes::new(py, &self.with(py, |job| job.program())?).unbind())
    }

    /// The state of the job as JSON.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.with(py, |job| job.status())?.to_string())
    }

    /// The results of a chunk; none while it has none.
    fn results(&self, py: Python<'_>, chunk: usize) -> PyResult<Option<Vec<Py<PyBytes>>>> {
        Ok(self.with(py, |job| job.results_of(chunk, WAIT))?.map(|files| bytes(py, files)))
    }

    /// Whether every chunk has results and checks.
    fn is_complete(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |job| job.is_complete())
    }

    /// Stops the job and removes it.
    fn delete(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |job| job.delete())
    }
}
