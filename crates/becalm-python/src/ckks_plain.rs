//! CKKS: plaintexts and matrices, which stand beside ciphertexts.

use crate::call::{detached, guarded};
use crate::ckks_machine::{CkksMachine, Plain, Shared, brief, bytes_of, prepared, values, watched};
use becalm::Error;
use becalm::backend::Prepared;
use becalm::ckks::Matrix;
use becalm::math::complex::Complex;
use becalm::program::rlwe::{CkksProgram as Program, Operator, Plaintext as Beside};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// A vector of plaintext numbers, encoded at a level.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksPlaintext {
    on: Shared,
    plain: Arc<Plain>,
    values: Vec<Complex>,
}

impl CkksPlaintext {
    /// The values beside a vector, which comes down to their level.
    fn beside(&self) -> Beside {
        Beside { values: self.values.clone(), level: Some(self.plain.level()) }
    }
}

/// An operand beside a vector: an encoded plaintext, a number for all slots, or values as bytes.
#[derive(FromPyObject)]
pub(crate) enum Given<'py> {
    Encoded(Bound<'py, CkksPlaintext>),
    Number(f64),
    Values(PyBackedBytes),
}

impl Given<'_> {
    pub(crate) fn beside(&self) -> Beside {
        match self {
            Given::Encoded(plain) => plain.get().beside(),
            Given::Number(number) => (*number).into(),
            Given::Values(data) => values(data).into(),
        }
    }

    pub(crate) fn encoded(&self) -> Option<Arc<Plain>> {
        match self {
            Given::Encoded(plain) => Some(plain.get().plain.clone()),
            _ => None,
        }
    }
}

#[pymethods]
impl CkksPlaintext {
    /// Encodes values at a level.
    #[new]
    fn new(py: Python<'_>, machine: &CkksMachine, data: &[u8], level: usize) -> PyResult<Self> {
        let values = values(data);
        let plain = Arc::new(brief(py, &machine.0, |c| Plain::new(c, &values, level))?);
        Ok(CkksPlaintext { on: machine.0.clone(), plain, values })
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

    /// Whether all values are real.
    #[getter]
    fn real(&self) -> bool {
        self.values.iter().all(|v| v.im == 0.0)
    }

    /// The values, rounded as they were.
    fn decode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes_of(py, &brief(py, &self.on, |c| self.plain.decode(c))?)
    }
}

/// A matrix by its diagonals, gathered around a rotation of the result.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksMatrix {
    matrix: Arc<Matrix>,
    by: i64,
    baby: usize,
}

impl CkksMatrix {
    /// The matrix times the slots.
    pub(crate) fn operator(&self) -> Operator {
        Operator::Linear { matrix: self.matrix.clone(), baby: self.baby, by: self.by }
    }
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
    fn encode(&self, py: Python<'_>, machine: &CkksMachine, level: usize) -> PyResult<CkksMap> {
        let on = &machine.0;
        let ready = watched(py, on, None, |step| {
            let mut program = Program::new(&on.context);
            let x = program.input(level, self.matrix.slots())?;
            let made = self.operator().record(&mut program, &[x])?;
            made.into_iter().try_for_each(|y| program.output(y))?;
            prepared(on, &Arc::new(program), usize::MAX, step)
        })?;
        Ok(CkksMap(ready))
    }
}

/// A product with a matrix as a program, with the matrix encoded.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksMap(pub(crate) Prepared);

#[pymethods]
impl CkksMap {
    /// Bytes of the encoded diagonals.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }
}
