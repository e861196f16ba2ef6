//! Keys and their files.

use crate::call::{detached, guarded, raise, supervised};
use crate::ciphertext::{Glwe, Lwe, bytes, trust, words};
use crate::params::Params;
use crate::program::Table;
use becalm::cipher::{self, Encoding, file};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;

/// The secret keys of one user.
#[pyclass(frozen, module = "becalm._native")]
pub struct SecretKey(pub Arc<cipher::SecretKey>);

#[pymethods]
impl SecretKey {
    /// Draws a key from the system's randomness.
    #[staticmethod]
    fn generate(py: Python<'_>, params: &Params, allow_insecure: bool) -> PyResult<Self> {
        detached(py, || cipher::SecretKey::generate(&params.0, allow_insecure))
            .map(|k| SecretKey(Arc::new(k)))
    }

    /// The parameter set.
    #[getter]
    fn params(&self) -> Params {
        Params(self.0.params().clone())
    }

    /// Identity of the key, in hexadecimal digits.
    #[getter]
    fn key_id(&self) -> String {
        self.0.id().to_string()
    }

    /// Encrypts little-endian 64-bit values, each below `below`, in an encoding of `values` values.
    fn encrypt(
        &self,
        py: Python<'_>,
        data: &[u8],
        values: u64,
        padding: bool,
        below: u64,
    ) -> PyResult<Lwe> {
        let data = words(data);
        detached(py, || self.0.encrypt_as(&data, Encoding { values, padding }, below)).map(Lwe)
    }

    /// Decrypts to little-endian 64-bit values.
    fn decrypt<'py>(&self, py: Python<'py>, x: &Lwe) -> PyResult<Bound<'py, PyBytes>> {
        Ok(bytes(py, &detached(py, || self.0.decrypt(&x.0))?))
    }

    /// Messages with their noise, as little-endian 64-bit torus elements.
    fn phases<'py>(&self, py: Python<'py>, x: &Lwe) -> PyResult<Bound<'py, PyBytes>> {
        Ok(bytes(py, &detached(py, || self.0.phases(&x.0))?))
    }

    /// Encrypts a lookup table.
    fn encrypt_table(&self, py: Python<'_>, table: &Table) -> PyResult<Glwe> {
        detached(py, || self.0.encrypt_table(&table.0)).map(Glwe)
    }

    /// Makes the evaluation key; calls `progress(done, total)` meanwhile.
    #[pyo3(signature = (progress=None))]
    fn evaluation_key(
        &self,
        py: Python<'_>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<EvaluationKey> {
        let key = supervised(py, progress, |watch| {
            self.0.evaluation_key_with(&|done, of| watch.step(done, of))
        })?;
        Ok(EvaluationKey(key))
    }

    /// Writes a file that only its owner can read.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.0.save(&path))
    }

    /// Reads a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, allow_insecure: bool) -> PyResult<Self> {
        let key = detached(py, || cipher::SecretKey::load(&path, trust(allow_insecure, None)))?;
        Ok(SecretKey(Arc::new(key)))
    }
}

/// What a server needs to bootstrap; holds no secret.
#[pyclass(frozen, module = "becalm._native")]
pub struct EvaluationKey(pub cipher::EvaluationKey);

#[pymethods]
impl EvaluationKey {
    /// The parameter set.
    #[getter]
    fn params(&self) -> Params {
        Params(self.0.params().clone())
    }

    /// Identity of the secret key, in hexadecimal digits.
    #[getter]
    fn key_id(&self) -> String {
        self.0.key_id().to_string()
    }

    /// Bytes as stored.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.seeded_bytes()
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.0.save(&path))
    }

    /// Maps a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, allow_insecure: bool) -> PyResult<Self> {
        detached(py, || cipher::EvaluationKey::load(&path, trust(allow_insecure, None)))
            .map(EvaluationKey)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// What kind of file this is: `becalm.lwe`, `becalm.secret_key`, …
#[pyfunction]
pub fn kind_of_file(path: PathBuf) -> PyResult<&'static str> {
    guarded(|| Ok(file::inspect(&path).map_err(raise)?.kind.name()))
}
