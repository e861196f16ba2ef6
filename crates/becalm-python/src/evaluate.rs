//! Keys on a machine.

use crate::call::supervised;
use crate::ciphertext::{Lwe, ciphertext};
use crate::keys::EvaluationKey;
use crate::params::Params;
use crate::program::Program;
use becalm::backend::{self, Backend, Cpu, Tfhe, by_name, for_params};
use becalm::math::simd::Level;
use pyo3::prelude::*;
use std::sync::Arc;

/// An evaluation key, expanded on a machine.
#[pyclass(frozen, module = "becalm._native")]
pub struct Evaluator(pub backend::Evaluator);

#[pymethods]
impl Evaluator {
    /// Opens a key on the machine of a name; 0 threads means all. `instructions` restricts the CPU's vectors.
    #[new]
    #[pyo3(signature = (key, device, threads, instructions=None))]
    fn new(
        py: Python<'_>,
        key: &EvaluationKey,
        device: &str,
        threads: usize,
        instructions: Option<&str>,
    ) -> PyResult<Self> {
        supervised(py, None, |_| {
            let machine = machine(device, threads, instructions)?;
            backend::Evaluator::new(machine.as_ref(), &key.0)
        })
        .map(Evaluator)
    }

    /// The parameter set.
    #[getter]
    fn params(&self) -> Params {
        Params(self.0.params().clone())
    }

    /// `(name, description, batch)` of the machine: at `batch` equal instructions it is busy.
    #[getter]
    fn info(&self) -> (&'static str, String, usize) {
        let info = self.0.info();
        (info.name, info.description, info.best_batch)
    }

    /// Why the machine is not a GPU, and whether there is one, where `"auto"` was asked for.
    #[getter]
    fn fallback(&self) -> Option<(String, bool)> {
        self.0.fallback().map(|f| (f.why, f.gpu))
    }

    /// Runs a program on batches for the call `op`; calls `progress(done, total)` meanwhile.
    #[pyo3(signature = (op, program, inputs, progress=None))]
    fn evaluate(
        &self,
        py: Python<'_>,
        op: &str,
        program: &Program,
        inputs: Vec<Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<Lwe>> {
        let program = program.now();
        let inputs = inputs.iter().map(ciphertext).collect::<PyResult<Vec<_>>>()?;
        let results = supervised(py, progress, |watch| {
            let ran = self.0.run_with(&program, &inputs, &|done, of| watch.step(done, of));
            ran.map_err(|e| e.ran_by(op.to_owned()))
        })?;
        Ok(results.into_iter().map(Lwe).collect())
    }
}

/// Refuses a machine that is not there, or does not run a parameter set; for work before it that takes long.
#[pyfunction]
pub fn require_machine(py: Python<'_>, name: &str, params: &Params) -> PyResult<()> {
    // On a number of threads `"auto"` opens no GPU.
    supervised(py, None, |_| {
        for_params::<Tfhe>(name, &Cpu::new(1)?, &params.0)?.keep_open();
        Ok(())
    })
}

fn machine(
    name: &str,
    threads: usize,
    instructions: Option<&str>,
) -> becalm::Result<Arc<dyn Backend>> {
    let Some(wanted) = instructions else {
        return by_name(name, &Cpu::new(threads)?);
    };
    Ok(Arc::new(Cpu::with_instructions(threads, Level::named(wanted)?)?))
}
