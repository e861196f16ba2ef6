//! CKKS: evaluation keys, what a server computes with them, and programs made ready for them.

use crate::call::{Watched, guarded, raise, supervised};
use crate::ckks::CkksCiphertext;
use crate::ckks_machine::{
    Call, CkksMachine, Shared, Vector, brief, prepared, require, require_rotations, run_lanes,
    watched,
};
use crate::ckks_plain::{CkksMap, Given};
use crate::ckks_program::CkksProgram;
use becalm::backend::Prepared;
use becalm::cipher;
use becalm::cipher::file::{Output, replace};
use becalm::ckks::Chebyshev;
use becalm::math::buffer::or_refused;
use becalm::program::rlwe::Operator;
use pyo3::prelude::*;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;

/// Evaluation keys; no secret is in them.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksKeys(pub(crate) Shared, pub(crate) Arc<cipher::CkksKeys>);

impl CkksKeys {
    /// A call with these keys.
    fn with<'a>(&'a self, inputs: &'a [&'a Vector], long: bool) -> Call<'a> {
        Call { on: &self.0, keys: Some(&self.1), inputs, plain: None, long }
    }
}

#[pymethods]
impl CkksKeys {
    /// Reads evaluation keys, in a form (see `keys`); or, `stored`, leaves them in their file until they are used.
    #[pyo3(signature = (on, path, stored=false, form="ready"))]
    #[staticmethod]
    fn load(
        py: Python<'_>,
        on: &CkksMachine,
        path: PathBuf,
        stored: bool,
        form: &str,
    ) -> PyResult<Self> {
        let (context, form) = (&on.0.context, cipher::KeyForm::named(form).map_err(raise)?);
        let keys = supervised(py, None, |watch| {
            let load = || match stored {
                true => context.open_keys(&path),
                false => context.load_keys_with(&path, form, &|done, all| watch.step(done, all)),
            };
            on.0.cpu.install(|| or_refused("load", load))
        })?;
        Ok(CkksKeys(on.0.clone(), Arc::new(keys)))
    }

    /// Identity of the secret key, in hexadecimal digits.
    #[getter]
    fn key_id(&self) -> String {
        self.1.key_id().to_string()
    }

    /// Bytes in memory.
    #[getter]
    fn nbytes(&self) -> usize {
        self.1.bytes()
    }

    /// Bytes in a file, but for the header.
    #[getter]
    fn stored_nbytes(&self) -> usize {
        self.0.context.stored_bytes(&self.1)
    }

    /// Bytes in memory if they were held in a form.
    fn bytes_as(&self, form: &str) -> PyResult<usize> {
        let form = cipher::KeyForm::named(form).map_err(raise)?;
        guarded(|| Ok(self.0.context.bytes_as(&self.1, form)))
    }

    /// These keys and others of the same secret.
    fn union(&self, other: &CkksKeys) -> PyResult<Self> {
        guarded(|| self.1.union(&other.1).map_err(raise))
            .map(|keys| CkksKeys(self.0.clone(), Arc::new(keys)))
    }

    /// `a · b`, relinearized and rescaled.
    fn multiply(
        &self,
        py: Python<'_>,
        a: &CkksCiphertext,
        b: &CkksCiphertext,
    ) -> PyResult<CkksCiphertext> {
        self.with(&[&a.0, &b.0], false).one(py, &Operator::Multiply).map(CkksCiphertext)
    }

    /// Σ a·b, relinearized and rescaled once.
    fn dot(
        &self,
        py: Python<'_>,
        a: Vec<Bound<'_, CkksCiphertext>>,
        b: Vec<Bound<'_, CkksCiphertext>>,
    ) -> PyResult<CkksCiphertext> {
        let all: Vec<&Vector> = a.iter().chain(&b).map(|x| &x.get().0).collect();
        self.with(&all, true).one(py, &Operator::Dot).map(CkksCiphertext)
    }

    /// x^exponent, in one program.
    fn power(&self, py: Python<'_>, x: &CkksCiphertext, exponent: u64) -> PyResult<CkksCiphertext> {
        self.with(&[&x.0], true).one(py, &Operator::Power(exponent)).map(CkksCiphertext)
    }

    /// Slots rotated to the left.
    fn rotate(&self, py: Python<'_>, x: &CkksCiphertext, by: i64) -> PyResult<CkksCiphertext> {
        self.with(&[&x.0], false).one(py, &Operator::Rotate(vec![by])).map(CkksCiphertext)
    }

    /// Slots rotated to the left by each of these, from one decomposition.
    fn rotate_many(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        by: Vec<i64>,
    ) -> PyResult<Vec<CkksCiphertext>> {
        let made = self.with(&[&x.0], true).all(py, &Operator::Rotate(by))?;
        Ok(made.into_iter().map(CkksCiphertext).collect())
    }

    /// In each slot the sum of `size` slots from it on.
    fn sum(&self, py: Python<'_>, x: &CkksCiphertext, size: usize) -> PyResult<CkksCiphertext> {
        self.with(&[&x.0], true).one(py, &Operator::Sum(size)).map(CkksCiphertext)
    }

    /// Refuses keys without these rotations at a level: before a matrix is encoded, which takes time.
    fn require_rotations(&self, py: Python<'_>, by: Vec<i64>, level: usize) -> PyResult<()> {
        brief(py, &self.0, |_| require_rotations(&self.0, &self.1, &by, level))
    }

    /// Refuses keys that do not suffice for a program.
    fn require(&self, py: Python<'_>, program: &CkksProgram) -> PyResult<()> {
        let program = program.now();
        brief(py, &self.0, |_| require(&self.0, &self.1, &program))
    }

    /// The sum of a·b over all slots, in every slot.
    fn inner(
        &self,
        py: Python<'_>,
        a: &CkksCiphertext,
        b: &CkksCiphertext,
    ) -> PyResult<CkksCiphertext> {
        self.with(&[&a.0, &b.0], true).one(py, &Operator::Inner).map(CkksCiphertext)
    }

    /// The same of a vector and values.
    fn inner_plain(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        values: Given<'_>,
    ) -> PyResult<CkksCiphertext> {
        let (inputs, operator) = ([&x.0], Operator::InnerPlain(values.beside()));
        let call = Call { plain: values.encoded(), ..self.with(&inputs, true) };
        call.one(py, &operator).map(CkksCiphertext)
    }

    /// A matrix times the slots of each ciphertext, one level lower.
    fn matmul(
        &self,
        py: Python<'_>,
        xs: Vec<Bound<'_, CkksCiphertext>>,
        map: &CkksMap,
    ) -> PyResult<Vec<CkksCiphertext>> {
        let lanes: Vec<Vec<&Vector>> = xs.iter().map(|x| vec![&x.get().0]).collect();
        let made = run_lanes(py, &self.0, &self.1, &map.0, &lanes, None)?;
        Ok(made.into_iter().flatten().map(CkksCiphertext).collect())
    }

    /// Σ c_i·T_i(factor·x + offset) of the slots, at the scale of the level that is left.
    #[pyo3(signature = (x, coefficients, factor=1.0, offset=0.0))]
    fn polynomial(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        coefficients: Vec<f64>,
        factor: f64,
        offset: f64,
    ) -> PyResult<CkksCiphertext> {
        let p = Chebyshev(coefficients);
        self.with(&[&x.0], true)
            .one(py, &Operator::Polynomial { p, factor, offset })
            .map(CkksCiphertext)
    }

    /// The complex conjugate of every slot.
    fn conjugate(&self, py: Python<'_>, x: &CkksCiphertext) -> PyResult<CkksCiphertext> {
        self.with(&[&x.0], false).one(py, &Operator::Conjugate).map(CkksCiphertext)
    }

    /// Writes a file, with a note for the reader.
    #[pyo3(signature = (path, note=""))]
    fn save(&self, py: Python<'_>, path: PathBuf, note: &str) -> PyResult<()> {
        supervised(py, None, |watch| {
            let write = |file: &mut Output| {
                let out = BufWriter::new(Watched(file, watch));
                self.0.context.write_keys_at(&path, &self.1, note, out)
            };
            self.0.cpu.install(|| replace(&path, false, write))
        })
    }
}

/// A program prepared for keys: checked, with encoded matrices.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksPrepared {
    on: Shared,
    keys: Arc<cipher::CkksKeys>,
    ready: Prepared,
}

#[pymethods]
impl CkksPrepared {
    /// Checks that the keys suffice and encodes the matrices, or those of them that fit `budget` bytes.
    #[new]
    #[pyo3(signature = (keys, program, budget=None))]
    fn new(
        py: Python<'_>,
        keys: &CkksKeys,
        program: &CkksProgram,
        budget: Option<usize>,
    ) -> PyResult<Self> {
        let (on, keys, program) = (keys.0.clone(), keys.1.clone(), program.now());
        let budget = budget.unwrap_or(usize::MAX);
        let ready = watched(py, &on, None, |step| {
            require(&on, &keys, &program)?;
            prepared(&on, &program, budget, step)
        })?;
        Ok(CkksPrepared { on, keys, ready })
    }

    /// Another program with the matrices of this one, as it stands now; none where it has others.
    fn again(&self, program: &CkksProgram) -> PyResult<Option<CkksPrepared>> {
        let program = program.now();
        let Some(ready) = self.ready.again(&program) else { return Ok(None) };
        require(&self.on, &self.keys, &program).map_err(raise)?;
        Ok(Some(CkksPrepared { on: self.on.clone(), keys: self.keys.clone(), ready }))
    }

    /// Whether it runs a program as that one stands now.
    fn runs(&self, program: &CkksProgram) -> bool {
        Arc::ptr_eq(self.ready.program(), &program.now())
    }

    /// Bytes of the encoded matrices.
    #[getter]
    fn nbytes(&self) -> usize {
        self.ready.bytes()
    }

    /// Runs on lanes, each of a ciphertext for each argument; calls `progress(done, total)` meanwhile.
    #[pyo3(signature = (lanes, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        lanes: Vec<Vec<Bound<'_, CkksCiphertext>>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<Vec<CkksCiphertext>>> {
        let lanes: Vec<Vec<&Vector>> =
            lanes.iter().map(|lane| lane.iter().map(|x| &x.get().0).collect()).collect();
        let made = run_lanes(py, &self.on, &self.keys, &self.ready, &lanes, progress)?;
        Ok(made.into_iter().map(|lane| lane.into_iter().map(CkksCiphertext).collect()).collect())
    }
}
