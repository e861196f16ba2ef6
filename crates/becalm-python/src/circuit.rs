//! Boolean circuits: read, evaluated on plaintext bits, compiled to programs. Tracing a function is Python's.

use crate::call::{Watch, detached, guarded, raise, supervised};
use crate::params::Params;
use crate::program::Program;
use becalm::cipher::file::Limits;
use becalm::program::circuit::{self, Goal, Port};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// A circuit without memory.
#[pyclass(frozen, module = "becalm._native")]
pub struct Circuit(circuit::Circuit);

fn ports(ports: &[Port]) -> Vec<(String, usize)> {
    ports.iter().map(|p| (p.name.clone(), p.width())).collect()
}

#[pymethods]
impl Circuit {
    /// Reads Bristol Fashion or BLIF.
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str) -> PyResult<Self> {
        detached(py, || circuit::Circuit::parse(text)).map(Circuit)
    }

    /// Reads a file within limits: bytes of memory and, for Verilog, seconds of processor time; and the module `top` of Verilog.
    #[staticmethod]
    #[pyo3(signature = (path, limit, seconds, top=None))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        limit: Option<u64>,
        seconds: Option<u64>,
        top: Option<String>,
    ) -> PyResult<Self> {
        let usual = Limits::default();
        let limits = Limits {
            memory: limit.unwrap_or(usual.memory),
            seconds: seconds.unwrap_or(usual.seconds),
        };
        let read = |watch: &Arc<Watch>| {
            let progress = |done, all| watch.step(done, all);
            circuit::Circuit::load_with(&path, top.as_deref(), limits, &progress)
        };
        supervised(py, None, read).map(Circuit)
    }

    /// Names and widths of the inputs.
    #[getter]
    fn inputs(&self) -> Vec<(String, usize)> {
        ports(self.0.inputs())
    }

    /// Names and widths of the outputs.
    #[getter]
    fn outputs(&self) -> Vec<(String, usize)> {
        ports(self.0.outputs())
    }

    /// Numbers of AND and of XOR gates.
    #[getter]
    fn gates(&self) -> (usize, usize) {
        self.0.gates()
    }

    /// Evaluates the circuit on plaintext bits: a word for each bit, each of its bits an evaluation.
    fn evaluate(&self, bits: Vec<u64>) -> PyResult<Vec<u64>> {
        guarded(|| self.0.evaluate(&bits).map_err(raise))
    }

    /// A program whose arguments and results are the bits, of the fewest bootstraps of which `limit` come one after another;
    /// with 0, of the fewest one after another.
    #[pyo3(signature = (params, limit, progress=None))]
    fn compile(
        &self,
        py: Python<'_>,
        params: &Params,
        limit: Option<u32>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Program> {
        let goal = match limit {
            None => Goal::Bootstraps,
            Some(0) => Goal::Depth,
            Some(most) => Goal::Within(most),
        };
        let compiled = supervised(py, progress, |watch| {
            self.0.compile_with(&params.0, goal, &|done, all| watch.step(done, all))
        })?;
        Ok(Program::of(Arc::new(compiled.program)))
    }
}
