//! CKKS: what a server computes with. Evaluation keys, and what is in the clear beside ciphertexts: plaintexts and matrices.

use crate::call::{Watched, detached, guarded, raise, supervised};
use crate::ckks::{CkksCiphertext, CkksContext, Shared, brief, bytes_of, form_named, values};
use crate::ckks_session::CkksProgram;
use becalm::backend::{CkksEvaluator, LinearMap, Plain, Shares};
use becalm::cipher::file::{Output, replace};
use becalm::ckks::{Chebyshev, Context, Matrix};
use becalm::math::buffer::or_refused;
use becalm::{Error, Result, cipher};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;

/// Evaluation keys; no secret is in them.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksKeys(pub(crate) Shared, pub(crate) Arc<cipher::CkksKeys>);

impl CkksKeys {
    fn make(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&CkksEvaluator<'_>) -> Result<cipher::Rlwe> + Send,
    ) -> PyResult<CkksCiphertext> {
        CkksCiphertext::made(py, &self.0, |c| work(&CkksEvaluator::new(c, &self.1)?))
    }

    /// Work of seconds, which Ctrl-C stops.
    fn long_work<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&CkksEvaluator<'_>) -> Result<T> + Send,
    ) -> PyResult<T> {
        supervised(py, None, |watch| {
            let go_on = || watch.step(0, 0);
            let work = || work(&CkksEvaluator::new(&self.0.context, &self.1)?.asking(&go_on));
            self.0.cpu.install(|| or_refused("becalm", work))
        })
    }

    fn long(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&CkksEvaluator<'_>) -> Result<cipher::Rlwe> + Send,
    ) -> PyResult<CkksCiphertext> {
        self.long_work(py, |e| CkksCiphertext::kept(&self.0, work(e)?))
    }
}

#[pymethods]
impl CkksKeys {
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
        let form = form_named(form).map_err(raise)?;
        guarded(|| Ok(self.0.context.bytes_as(&self.1, form)))
    }

    /// Of `budget` bytes for these keys and the matrices of a bootstrap, those for matrices and those for keys.
    fn shares(&self, program: &CkksProgram, budget: usize) -> PyResult<(usize, usize)> {
        let of = || Shares::of(&self.0.context, &program.0, &self.1, budget).map_err(raise);
        guarded(of).map(|s| (s.matrices, s.keys))
    }

    /// The same keys, of which as many are ready as fit so many bytes.
    fn ready(&self, py: Python<'_>, budget: usize) -> PyResult<Self> {
        let ready = || self.0.context.ready_keys(&self.1, budget);
        let keys = supervised(py, None, |_| self.0.cpu.install(ready))?;
        Ok(CkksKeys(self.0.clone(), Arc::new(keys)))
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
        self.make(py, |e| e.multiply(&*a.open()?, &*b.open()?))
    }

    /// Σ a·b, relinearized and rescaled once.
    fn dot(
        &self,
        py: Python<'_>,
        a: Vec<Bound<'_, CkksCiphertext>>,
        b: Vec<Bound<'_, CkksCiphertext>>,
    ) -> PyResult<CkksCiphertext> {
        let [a, b] = [&a, &b].map(|x| x.iter().map(Bound::get).collect::<Vec<_>>());
        let open = |x: &[&CkksCiphertext]| x.iter().map(|x| x.open()).collect::<Result<Vec<_>>>();
        self.long(py, |e| {
            let (a, b) = (open(&a)?, open(&b)?);
            e.dot(&a.iter().zip(&b).map(|(a, b)| (a.as_ref(), b.as_ref())).collect::<Vec<_>>())
        })
    }

    /// Slots rotated to the left.
    fn rotate(&self, py: Python<'_>, x: &CkksCiphertext, by: i64) -> PyResult<CkksCiphertext> {
        self.make(py, |e| e.rotate(&*x.open()?, by))
    }

    /// Slots rotated to the left by each of these, from one decomposition.
    fn rotate_many(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        by: Vec<i64>,
    ) -> PyResult<Vec<CkksCiphertext>> {
        self.long_work(py, |e| {
            let made = e.rotate_many(&*x.open()?, &by)?;
            made.into_iter().map(|x| CkksCiphertext::kept(&self.0, x)).collect()
        })
    }

    /// In each slot the sum of `size` slots from it on.
    fn sum(&self, py: Python<'_>, x: &CkksCiphertext, size: usize) -> PyResult<CkksCiphertext> {
        self.long(py, |e| e.sum(&*x.open()?, size))
    }

    /// Refuses keys without these rotations at a level.
    fn require_rotations(&self, py: Python<'_>, by: Vec<i64>, level: usize) -> PyResult<()> {
        brief(py, &self.0, |c| CkksEvaluator::new(c, &self.1)?.require_rotations(by, level))
    }

    /// A matrix times the slots, one level lower.
    fn linear(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        map: &CkksMap,
    ) -> PyResult<CkksCiphertext> {
        self.long(py, |e| e.rotate(&e.linear(&*x.open()?, &map.map)?, map.by))
    }

    /// Σ c_i·T_i of the slots, at the scale of the level that is left.
    fn polynomial(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        coefficients: Vec<f64>,
    ) -> PyResult<CkksCiphertext> {
        let p = Chebyshev(coefficients);
        self.long(py, |e| {
            let scale = e.context().scale(x.level().saturating_sub(p.depth()))?;
            e.polynomial(&*x.open()?, &p, scale)
        })
    }

    /// The complex conjugate of every slot.
    fn conjugate(&self, py: Python<'_>, x: &CkksCiphertext) -> PyResult<CkksCiphertext> {
        self.make(py, |e| e.conjugate(&*x.open()?))
    }

    /// Writes a file, with a note for whoever reads it.
    #[pyo3(signature = (path, note=""))]
    fn save(&self, py: Python<'_>, path: PathBuf, note: &str) -> PyResult<()> {
        supervised(py, None, |watch| {
            let write = |file: &mut Output| {
                let out = BufWriter::new(Watched(file, watch));
                self.0.context.write_noted_keys(&self.1, note, out)
            };
            self.0.cpu.install(|| replace(&path, false, write))
        })
    }
}

/// A vector of numbers in the clear, encoded at a level.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksPlaintext(Shared, Plain);

impl CkksPlaintext {
    fn make(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        work: impl FnOnce(&Context) -> Result<cipher::Rlwe> + Send,
    ) -> PyResult<CkksCiphertext> {
        CkksCiphertext::made(py, x.on(), work)
    }
}

#[pymethods]
impl CkksPlaintext {
    /// Encodes values at a level.
    #[new]
    fn new(py: Python<'_>, context: &CkksContext, data: &[u8], level: usize) -> PyResult<Self> {
        let plain = brief(py, &context.0, |c| c.encode(&values(data), level))?;
        Ok(CkksPlaintext(context.0.clone(), plain))
    }

    /// Name of the parameter set.
    #[getter]
    fn params(&self) -> &'static str {
        self.1.params()
    }

    /// The level that it was encoded at.
    #[getter]
    fn level(&self) -> usize {
        self.1.level()
    }

    /// The scale: the factor of the values.
    #[getter]
    fn scale(&self) -> f64 {
        self.1.scale()
    }

    /// Number of values.
    #[getter]
    fn slots(&self) -> usize {
        self.1.slots()
    }

    /// Bytes in memory.
    #[getter]
    fn nbytes(&self) -> usize {
        self.1.bytes()
    }

    /// The values, rounded as they were.
    fn decode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes_of(py, &brief(py, &self.0, |c| c.decode(&self.1))?)
    }

    /// `x + self`.
    fn add(&self, py: Python<'_>, x: &CkksCiphertext) -> PyResult<CkksCiphertext> {
        self.make(py, x, |c| c.add_encoded(&*x.open()?, &self.1))
    }

    /// `x · self`, one level lower.
    fn multiply(&self, py: Python<'_>, x: &CkksCiphertext) -> PyResult<CkksCiphertext> {
        self.make(py, x, |c| c.multiply_encoded(&*x.open()?, &self.1))
    }
}

/// A matrix by its diagonals, gathered around a rotation of what it gives.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksMatrix {
    matrix: Matrix,
    by: i64,
    baby: usize,
}

#[pymethods]
impl CkksMatrix {
    /// Diagonals of `slots` values each, by their numbers.
    #[new]
    #[pyo3(signature = (slots, diagonals, baby=None))]
    fn new(
        py: Python<'_>,
        slots: usize,
        diagonals: Vec<(i64, PyBackedBytes)>,
        baby: Option<usize>,
    ) -> PyResult<Self> {
        detached(py, || {
            let mut matrix = Matrix::zero(slots);
            for (k, data) in &diagonals {
                let (given, diagonal) = (values(data), matrix.diagonal(*k));
                if given.len() != diagonal.len() {
                    let (wanted, got) = (format!("{slots} values"), given.len().to_string());
                    let remedy = "fill the diagonal with zeros";
                    return Err(Error::bad_input("matrix", wanted, got, remedy));
                }
                diagonal.copy_from_slice(&given);
            }
            let (matrix, by) = matrix.gathered();
            let baby = baby.unwrap_or_else(|| matrix.balanced());
            Ok(CkksMatrix { matrix, by, baby })
        })
    }

    /// Number of diagonals.
    #[getter]
    fn diagonals(&self) -> usize {
        self.matrix.rotations().count()
    }

    /// Number of baby steps.
    #[getter]
    fn baby(&self) -> usize {
        self.baby
    }

    /// The rotations that it needs.
    #[getter]
    fn rotations(&self) -> PyResult<Vec<i64>> {
        guarded(|| {
            let mut all = self.matrix.keys(self.baby);
            all.extend((self.by != 0).then_some(self.by));
            Ok(all.into_iter().collect())
        })
    }

    /// Encodes it for ciphertexts at a level.
    fn encode(&self, py: Python<'_>, context: &CkksContext, level: usize) -> PyResult<CkksMap> {
        let map = supervised(py, None, |watch| {
            let (context, cpu) = (&context.0.context, &context.0.cpu);
            let (matrix, go_on) = (&self.matrix, |done, all| watch.step(done, all));
            cpu.install(|| {
                let scale = context.scale(level)?;
                LinearMap::new_with(context, matrix, level, self.baby, scale, &go_on)
            })
        })?;
        Ok(CkksMap { map, by: self.by })
    }
}

/// A matrix encoded at a level.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksMap {
    map: LinearMap,
    by: i64,
}

#[pymethods]
impl CkksMap {
    /// Bytes of the encoded diagonals.
    #[getter]
    fn nbytes(&self) -> usize {
        self.map.bytes()
    }
}
