//! CKKS: recorded bootstraps and the sessions that run them.

use crate::call::{guarded, raise, supervised};
use crate::ckks::{CkksCiphertext, Shared, values};
use crate::ckks_evaluate::CkksKeys;
use crate::keys::CkksNeeds;
use becalm::backend::{CkksMaps, CkksSession as Session};
use becalm::ckks::{Chain, Evaluator, LinearMap};
use becalm::program::rlwe::CkksProgram as Program;
use becalm::{Error, cipher};
use pyo3::prelude::*;
use std::sync::Arc;

fn interrupted(op: &'static str) -> Error {
    Error::interrupted(op, "to go on", "a request to stop", "call it again")
}

/// A recorded bootstrap.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksProgram(pub(crate) Arc<Program>);

#[pymethods]
impl CkksProgram {
    /// The keys that it needs.
    fn needs(&self) -> CkksNeeds {
        CkksNeeds(self.0.needs())
    }

    /// Level and slots of each argument.
    #[getter]
    fn inputs(&self) -> Vec<(usize, usize)> {
        let info = self.0.inputs().iter().filter_map(|r| self.0.info(*r));
        info.map(|i| (i.level, i.slots)).collect()
    }

    /// Level of the results.
    #[getter]
    fn level(&self) -> usize {
        self.0.outputs().first().and_then(|r| self.0.info(*r)).map_or(0, |i| i.level)
    }

    /// Standard deviation of the error that it adds to a slot, by the formulas.
    #[getter]
    fn error(&self) -> Option<f64> {
        self.0.error()
    }

    /// Instructions, key switches, transforms and products that it takes, and bytes of its registers.
    fn cost(&self) -> (usize, usize, usize, usize, usize) {
        let c = self.0.cost();
        (self.0.ops().len(), c.key_switches, c.transforms, c.products, c.bytes)
    }

    /// Refuses values that the approximations are not made for.
    fn check_values(&self, data: &[u8]) -> PyResult<()> {
        let data = values(data);
        guarded(|| self.0.check_values(&data).map_err(raise))
    }
}

/// A bootstrap made ready for keys: its matrices encoded.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksSession {
    on: Shared,
    keys: Arc<cipher::CkksKeys>,
    program: Arc<Program>,
    maps: CkksMaps,
}

impl CkksSession {
    /// Bytes of the matrices of a program, encoded.
    pub(crate) fn matrix_bytes(chain: &Chain, program: &CkksProgram) -> usize {
        Session::matrix_bytes(chain, &program.0)
    }
}

#[pymethods]
impl CkksSession {
    /// Checks that the keys suffice and encodes the matrices, or those of them that fit so many bytes.
    #[new]
    #[pyo3(signature = (keys, program, budget=None))]
    fn new(
        py: Python<'_>,
        keys: &CkksKeys,
        program: &CkksProgram,
        budget: Option<usize>,
    ) -> PyResult<Self> {
        let (on, keys, program) = (keys.0.clone(), keys.1.clone(), program.0.clone());
        let budget = budget.unwrap_or(usize::MAX);
        let maps = supervised(py, None, |watch| {
            on.cpu.install(|| {
                let evaluator = Evaluator::new(&on.context, &keys)?;
                let go_on = |done, all| watch.step(done, all);
                Ok(Session::within_with(evaluator, &program, budget, go_on)?.maps())
            })
        })?;
        Ok(CkksSession { on, keys, program, maps })
    }

    /// Bytes of the encoded matrices.
    #[getter]
    fn nbytes(&self) -> usize {
        self.maps.iter().flatten().map(LinearMap::bytes).sum()
    }

    /// Runs on ciphertexts; calls `progress(done, total)` meanwhile.
    #[pyo3(signature = (inputs, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        inputs: Vec<Bound<'_, CkksCiphertext>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<CkksCiphertext>> {
        let inputs: Vec<&CkksCiphertext> = inputs.iter().map(Bound::get).collect();
        let total = self.program.ops().len();
        supervised(py, progress, |watch| {
            self.on.cpu.install(|| {
                let opened = inputs.iter().map(|x| x.open()).collect::<becalm::Result<Vec<_>>>()?;
                let evaluator = Evaluator::new(&self.on.context, &self.keys)?;
                let session = Session::resume(evaluator, &self.program, self.maps.clone())?;
                let given: Vec<&cipher::Rlwe> = opened.iter().map(Arc::as_ref).collect();
                let made = session.run_with(&given, |done, _| match watch.step(done, total) {
                    true => Ok(()),
                    false => Err(interrupted("bootstrap")),
                })?;
                made.into_iter().map(|x| CkksCiphertext::kept(&self.on, x)).collect()
            })
        })
    }
}
