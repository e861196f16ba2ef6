//! The keys of the bridge between CKKS and TFHE.

use crate::call::{detached, supervised};
use crate::ciphertext::{Lwe, file_bytes, read};
use crate::ckks::CkksCiphertext;
use crate::ckks_keys::CkksSecretKey;
use crate::ckks_machine::{CkksMachine, brief};
use crate::keys::SecretKey;
use crate::params::Params;
use becalm::bridge;
use becalm::params::{CkksParams, Kind, TfheParams};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// Whether both sets have at least 128 bits.
fn secure(many: &CkksParams, one: &TfheParams) -> bool {
    many.kind == Kind::Standard && one.kind == Kind::Standard
}

/// Turns packed integers of CKKS into ciphertexts of TFHE.
#[pyclass(frozen, module = "becalm._native")]
pub struct BridgeKey(bridge::BridgeKey);

#[pymethods]
impl BridgeKey {
    /// The key from one secret key to another.
    #[staticmethod]
    fn make(py: Python<'_>, source: &CkksSecretKey, to: &SecretKey) -> PyResult<Self> {
        let to = &to.0;
        brief(py, &source.0, |c| bridge::BridgeKey::new(c, &source.1, to)).map(BridgeKey)
    }

    /// The set of the integers that it takes, and the identity of their key.
    #[getter]
    fn source(&self) -> (&'static str, String) {
        let (set, key) = self.0.source();
        (set.name, key.to_string())
    }

    /// The set of the ciphertexts that it gives.
    #[getter]
    fn params(&self) -> Params {
        Params(self.0.params().clone())
    }

    /// Identity of the key of these ciphertexts.
    #[getter]
    fn key_id(&self) -> String {
        self.0.key_id().to_string()
    }

    /// Whether both sets have at least 128 bits.
    #[getter]
    fn secure(&self) -> bool {
        secure(self.0.source().0, self.0.params())
    }

    /// Bytes in memory.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }

    /// The variance that it adds, in torus units.
    #[getter]
    fn noise(&self) -> f64 {
        self.0.noise_variance()
    }

    /// The integers from `start` to `stop`, which are less than `below` where that is given.
    fn unpack(
        &self,
        py: Python<'_>,
        x: &CkksCiphertext,
        start: usize,
        stop: usize,
        below: Option<u64>,
    ) -> PyResult<Lwe> {
        let work = || self.0.unpack(&*x.0.open()?, start..stop, below);
        supervised(py, None, |_| x.0.on.cpu.install(work)).map(Lwe)
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.0.save(&path))
    }

    /// Reads a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, allow_insecure: bool) -> PyResult<Self> {
        read(py, allow_insecure, None, |trust| bridge::BridgeKey::load(&path, trust)).map(BridgeKey)
    }

    /// The file in memory.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        file_bytes(py, || self.0.to_bytes())
    }

    /// A key from a file in memory.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: &[u8], allow_insecure: bool) -> PyResult<Self> {
        let from = |trust| bridge::BridgeKey::from_bytes(file, trust);
        read(py, allow_insecure, None, from).map(BridgeKey)
    }
}

/// Turns ciphertexts of TFHE into packed integers of CKKS.
#[pyclass(frozen, module = "becalm._native")]
pub struct PackingKey(bridge::PackingKey);

#[pymethods]
impl PackingKey {
    /// The key from one secret key to another.
    #[staticmethod]
    fn make(py: Python<'_>, source: &SecretKey, to: &CkksSecretKey) -> PyResult<Self> {
        let from = &source.0;
        brief(py, &to.0, |c| bridge::PackingKey::new(c, from, &to.1)).map(PackingKey)
    }

    /// The set of the ciphertexts that it takes, and the identity of their key.
    #[getter]
    fn source(&self) -> (String, String) {
        let (set, key) = self.0.source();
        (set.name.to_string(), key.to_string())
    }

    /// Name of the set of the integers that it gives.
    #[getter]
    fn params(&self) -> &'static str {
        self.0.params().name
    }

    /// How many integers a ciphertext holds.
    #[getter]
    fn integers(&self) -> usize {
        self.0.params().degree()
    }

    /// Identity of the key of these integers.
    #[getter]
    fn key_id(&self) -> String {
        self.0.key_id().to_string()
    }

    /// Whether both sets have at least 128 bits.
    #[getter]
    fn secure(&self) -> bool {
        secure(self.0.params(), self.0.source().0)
    }

    /// Bytes in memory.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }

    /// The variance that it adds, in torus units.
    #[getter]
    fn noise(&self) -> f64 {
        self.0.noise_variance()
    }

    /// The ciphertexts of these lanes as integers of so many bits, on a machine of their set.
    fn pack(
        &self,
        py: Python<'_>,
        on: &CkksMachine,
        x: &Lwe,
        lanes: (usize, usize),
        bits: u32,
    ) -> PyResult<CkksCiphertext> {
        CkksCiphertext::made(py, &on.0, |_| {
            let whole = lanes == (0, x.0.len());
            let part = if whole { None } else { Some(x.0.slice(lanes.0..lanes.1)?) };
            Ok((self.0.pack(part.as_ref().unwrap_or(&x.0), bits)?, true))
        })
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.0.save(&path))
    }

    /// Reads a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, allow_insecure: bool) -> PyResult<Self> {
        let from = |trust| bridge::PackingKey::load(&path, trust);
        read(py, allow_insecure, None, from).map(PackingKey)
    }

    /// The file in memory.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        file_bytes(py, || self.0.to_bytes())
    }

    /// A key from a file in memory.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: &[u8], allow_insecure: bool) -> PyResult<Self> {
        let from = |trust| bridge::PackingKey::from_bytes(file, trust);
        read(py, allow_insecure, None, from).map(PackingKey)
    }
}
