//! Threshold decryption of CKKS, for Python.

use crate::ciphertext::trust;
use crate::ckks::CkksCiphertext;
use crate::ckks_machine::{CkksMachine, Shared, brief, bytes_of};
use becalm::ckks::{KeyShare, PartialDecryption};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// A party's share of a secret key.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksKeyShare(pub(crate) Shared, pub(crate) KeyShare);

#[pymethods]
impl CkksKeyShare {
    /// Reads a share.
    #[staticmethod]
    fn load(py: Python<'_>, on: &CkksMachine, path: PathBuf) -> PyResult<Self> {
        let share = brief(py, &on.0, |c| KeyShare::load(c, &path, trust(true, None)))?;
        Ok(CkksKeyShare(on.0.clone(), share))
    }

    /// A share from the bytes of its file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, on: &CkksMachine, file: &[u8]) -> PyResult<Self> {
        let share = brief(py, &on.0, |c| KeyShare::from_bytes(c, file, trust(true, None)))?;
        Ok(CkksKeyShare(on.0.clone(), share))
    }

    /// Identity of the secret key, in hexadecimal digits.
    #[getter]
    fn key_id(&self) -> String {
        self.1.key_id().to_string()
    }

    /// Number of the party, from 1.
    #[getter]
    fn party(&self) -> usize {
        self.1.party()
    }

    /// How many parties have shares.
    #[getter]
    fn parties(&self) -> usize {
        self.1.parties()
    }

    /// How many of them decrypt together.
    #[getter]
    fn threshold(&self) -> usize {
        self.1.threshold()
    }

    /// The spent part of the budget for partial decryptions.
    #[getter]
    fn spent(&self) -> f64 {
        self.1.spent()
    }

    /// Bits that a partial decryption can have.
    fn bits_to_decrypt_partially(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        queries: u64,
    ) -> PyResult<f64> {
        brief(py, &self.0, |c| self.1.bits_to_decrypt_partially(c, &*x.0.open()?, queries))
    }

    /// This party's part of a decryption.
    fn decrypt_partially(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        quorum: Vec<usize>,
        precision_bits: f64,
        queries: u64,
    ) -> PyResult<CkksPartialDecryption> {
        let part = brief(py, &self.0, |c| {
            self.1.decrypt_partially(c, &*x.0.open()?, &quorum, precision_bits, queries)
        })?;
        Ok(CkksPartialDecryption(self.0.clone(), part))
    }

    /// Writes a file that only its owner can read.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        brief(py, &self.0, |c| self.1.save(c, &path))
    }

    /// The bytes of its file. Python wipes no memory: the caller has to guard them.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &brief(py, &self.0, |c| self.1.to_bytes(c))?))
    }
}

/// A party's part of a decryption.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksPartialDecryption(Shared, PartialDecryption);

#[pymethods]
impl CkksPartialDecryption {
    /// Reads a part of at most `limit` bytes.
    #[staticmethod]
    fn load(py: Python<'_>, on: &CkksMachine, path: PathBuf, limit: Option<u64>) -> PyResult<Self> {
        let part = brief(py, &on.0, |c| PartialDecryption::load(c, &path, trust(true, limit)))?;
        Ok(CkksPartialDecryption(on.0.clone(), part))
    }

    /// A part from the bytes of its file.
    #[staticmethod]
    fn from_bytes(
        py: Python<'_>,
        on: &CkksMachine,
        file: &[u8],
        limit: Option<u64>,
    ) -> PyResult<Self> {
        let part =
            brief(py, &on.0, |c| PartialDecryption::from_bytes(c, file, trust(true, limit)))?;
        Ok(CkksPartialDecryption(on.0.clone(), part))
    }

    /// Identity of the secret key, in hexadecimal digits.
    #[getter]
    fn key_id(&self) -> String {
        self.1.key_id().to_string()
    }

    /// Number of the party that gave it.
    #[getter]
    fn party(&self) -> usize {
        self.1.party()
    }

    /// Numbers of all parties whose parts are needed.
    #[getter]
    fn quorum(&self) -> Vec<usize> {
        self.1.quorum()
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        brief(py, &self.0, |c| self.1.save(c, &path))
    }

    /// The bytes of its file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &brief(py, &self.0, |c| self.1.to_bytes(c))?))
    }
}

/// The values of a ciphertext from the parts of a whole quorum.
#[pyfunction]
pub fn ckks_combine<'py>(
    py: Python<'py>,
    x: &CkksCiphertext,
    parts: Vec<PyRef<'py, CkksPartialDecryption>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let parts: Vec<PartialDecryption> = parts.iter().map(|part| part.1.clone()).collect();
    bytes_of(py, &brief(py, &x.0.on, |c| PartialDecryption::combine(c, &*x.0.open()?, &parts))?)
}
