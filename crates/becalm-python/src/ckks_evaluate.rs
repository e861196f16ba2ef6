//! CKKS: what a server computes with. Evaluation keys, and what is in the clear beside ciphertexts: plaintexts and matrices.

use crate::call::{Watched, detached, guarded, raise, supervised};
use crate::ckks::{CkksCiphertext, CkksContext, Shared, brief, bytes_of, form_named, values};
use crate::ckks_machine::{Call, Plain, Shares, prepared, require_rotations, watched};
use crate::ckks_program::CkksProgram;
use crate::ckks_record::{dot, linear, on_both, polynomial, rotations};
use becalm::backend::Prepared;
use becalm::cipher::file::{Output, replace};
use becalm::ckks::Matrix;
use becalm::math::complex::Complex;
use becalm::program::Reg;
use becalm::program::rlwe::CkksProgram as Program;
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
    /// A call with these keys.
    fn with<'a>(&'a self, inputs: &'a [&'a CkksCiphertext], long: bool) -> Call<'a> {
        Call { on: &self.0, keys: Some(&self.1), inputs, plain: None, long }
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
        let of = || Shares::of(&self.0.context, &program.now(), &self.1, budget).map_err(raise);
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
        self.with(&[a, b], false)
            .one(py, "multiply", |p, r| on_both(p, r, |p, a, b| p.multiply(a, b)))
    }

    /// Σ a·b, relinearized and rescaled once.
    fn dot(
        &self,
        py: Python<'_>,
        a: Vec<Bound<'_, CkksCiphertext>>,
        b: Vec<Bound<'_, CkksCiphertext>>,
    ) -> PyResult<CkksCiphertext> {
        let all: Vec<&CkksCiphertext> = a.iter().chain(&b).map(Bound::get).collect();
        self.with(&all, true).one(py, "dot", dot)
    }

    /// Slots rotated to the left.
    fn rotate(&self, py: Python<'_>, x: &CkksCiphertext, by: i64) -> PyResult<CkksCiphertext> {
        self.with(&[x], false).one(py, "rotate", |p, r| p.rotate(r[0], by))
    }

    /// Slots rotated to the left by each of these, from one decomposition.
    fn rotate_many(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        by: Vec<i64>,
    ) -> PyResult<Vec<CkksCiphertext>> {
        self.with(&[x], true).all(py, "rotate", |p, r| rotations(p, r[0], &by))
    }

    /// In each slot the sum of `size` slots from it on.
    fn sum(&self, py: Python<'_>, x: &CkksCiphertext, size: usize) -> PyResult<CkksCiphertext> {
        self.with(&[x], true).one(py, "sum", |p, r| p.sum(r[0], size))
    }

    /// Refuses keys without these rotations at a level: before a matrix is encoded, which takes time.
    fn require_rotations(&self, py: Python<'_>, by: Vec<i64>, level: usize) -> PyResult<()> {
        brief(py, &self.0, |_| require_rotations(&self.0, &self.1, &by, level))
    }

    /// A matrix times the slots, one level lower.
    fn linear(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        map: &CkksMap,
    ) -> PyResult<CkksCiphertext> {
        let mut made = self.with(&[x], true).ready(py, &map.0)?;
        Ok(made.remove(0))
    }

    /// Σ c_i·T_i of the slots, at the scale of the level that is left.
    fn polynomial(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        coefficients: Vec<f64>,
    ) -> PyResult<CkksCiphertext> {
        self.with(&[x], true).one(py, "polynomial", |p, r| polynomial(p, r[0], coefficients))
    }

    /// The complex conjugate of every slot.
    fn conjugate(&self, py: Python<'_>, x: &CkksCiphertext) -> PyResult<CkksCiphertext> {
        self.with(&[x], false).one(py, "conjugate", |p, r| p.conjugate(r[0]))
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
pub struct CkksPlaintext {
    on: Shared,
    plain: Arc<Plain>,
    values: Vec<Complex>,
}

impl CkksPlaintext {
    pub(crate) fn encoded(&self) -> &Arc<Plain> {
        &self.plain
    }

    /// The values that were encoded.
    pub(crate) fn values(&self) -> &[Complex] {
        &self.values
    }

    /// A register at the level of the plaintext or below.
    pub(crate) fn lowered(&self, p: &mut Program, x: Reg) -> Result<Reg> {
        match p.info(x).is_some_and(|info| info.level > self.plain.level()) {
            true => p.level_down(x, self.plain.level()),
            false => Ok(x),
        }
    }
}

#[pymethods]
impl CkksPlaintext {
    /// Encodes values at a level.
    #[new]
    fn new(py: Python<'_>, context: &CkksContext, data: &[u8], level: usize) -> PyResult<Self> {
        let values = values(data);
        let plain = Arc::new(brief(py, &context.0, |c| c.encode(&values, level))?);
        Ok(CkksPlaintext { on: context.0.clone(), plain, values })
    }

    /// Name of the parameter set.
    #[getter]
    fn params(&self) -> &'static str {
        self.plain.params()
    }

    /// The level that it was encoded at.
    #[getter]
    fn level(&self) -> usize {
        self.plain.level()
    }

    /// The scale: the factor of the values.
    #[getter]
    fn scale(&self) -> f64 {
        self.plain.scale()
    }

    /// Number of values.
    #[getter]
    fn slots(&self) -> usize {
        self.plain.slots()
    }

    /// Bytes in memory.
    #[getter]
    fn nbytes(&self) -> usize {
        self.plain.bytes()
    }

    /// The values, rounded as they were.
    fn decode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes_of(py, &brief(py, &self.on, |c| c.decode(&self.plain))?)
    }
}

/// A matrix by its diagonals, gathered around a rotation of what it gives.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksMatrix {
    pub(crate) matrix: Arc<Matrix>,
    pub(crate) by: i64,
    pub(crate) baby: usize,
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
            Ok(CkksMatrix { matrix: Arc::new(matrix), by, baby })
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
        let on = &context.0;
        let ready = watched(py, on, None, |watch| {
            let mut program = Program::new(&on.context);
            let x = program.input(level, self.matrix.slots())?;
            let y = linear(&mut program, x, self)?;
            program.output(y)?;
            prepared(on, &Arc::new(program), usize::MAX, watch)
        })?;
        Ok(CkksMap(ready))
    }
}

/// A product with a matrix as a program, with the matrix encoded.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksMap(Prepared);

#[pymethods]
impl CkksMap {
    /// Bytes of the encoded diagonals.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }
}
