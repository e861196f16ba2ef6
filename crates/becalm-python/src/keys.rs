//! Keys and their files.

use crate::call::{detached, guarded, raise, supervised};
use crate::ciphertext::{Glwe, Lwe, bytes, file_bytes, read, words};
use crate::params::Params;
use crate::program::Table;
use becalm::cipher::file::Description;
use becalm::cipher::{self, Encoding, file};
use becalm::ckks::Needs;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use zeroize::Zeroizing;

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
        let data = Zeroizing::new(words(data));
        let encoding = Encoding { values, padding };
        let lwe = supervised(py, None, |watch| {
            let progress = |done, all| watch.step(done, all);
            self.0.encrypt_as_with(&data, encoding, below, &progress)
        });
        lwe.map(Lwe)
    }

    /// Encrypts little-endian 64-bit values as plain ciphertexts under the key of one slot.
    fn encrypt_slot(&self, py: Python<'_>, slot: u32, data: &[u8], below: u64) -> PyResult<Lwe> {
        let data = Zeroizing::new(words(data));
        detached(py, || self.0.encrypt_slot(slot, &data, below)).map(Lwe)
    }

    /// Makes the key that packs plain ciphertexts under the key of slot 0.
    fn pack_key(&self, py: Python<'_>) -> PyResult<SlotKey> {
        detached(py, || self.0.pack_key()).map(SlotKey)
    }

    /// Makes the key of a private linear map between slots.
    fn slot_map_key(&self, py: Python<'_>, rows: Vec<Vec<i64>>) -> PyResult<SlotKey> {
        detached(py, || self.0.slot_map_key(&rows)).map(SlotKey)
    }

    /// Decrypts to little-endian 64-bit values.
    fn decrypt<'py>(&self, py: Python<'py>, x: &Lwe) -> PyResult<Bound<'py, PyBytes>> {
        bytes(py, &Zeroizing::new(detached(py, || self.0.decrypt(&x.0))?))
    }

    /// Messages with their noise, as little-endian 64-bit torus elements.
    fn phases<'py>(&self, py: Python<'py>, x: &Lwe) -> PyResult<Bound<'py, PyBytes>> {
        bytes(py, &Zeroizing::new(detached(py, || self.0.phases(&x.0))?))
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
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        detached(py, || match overwrite {
            true => file::replace_all(vec![self.0.part(&path)?], true),
            false => self.0.save(&path),
        })
    }

    /// Writes this key and an evaluation key made from it: both files or none.
    fn save_with(
        &self,
        py: Python<'_>,
        key: &EvaluationKey,
        paths: (PathBuf, PathBuf),
        overwrite: bool,
    ) -> PyResult<()> {
        detached(py, || {
            let parts = vec![self.0.part(paths.0)?, key.0.part(paths.1)?];
            file::replace_all(parts, overwrite)
        })
    }

    /// Reads a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, allow_insecure: bool) -> PyResult<Self> {
        let key = read(py, allow_insecure, None, |trust| cipher::SecretKey::load(&path, trust))?;
        Ok(SecretKey(Arc::new(key)))
    }

    /// The file in memory. Python wipes no memory: the caller has to guard these bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        file_bytes(py, || self.0.to_bytes())
    }

    /// A key from a file in memory.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: &[u8], allow_insecure: bool) -> PyResult<Self> {
        let from = |trust| cipher::SecretKey::from_bytes(file, trust);
        Ok(SecretKey(Arc::new(read(py, allow_insecure, None, from)?)))
    }
}

/// The key that a server bootstraps with. It holds no secret.
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

    /// This key and one between slots.
    fn with_slot_key(&self, py: Python<'_>, key: &SlotKey) -> PyResult<Self> {
        detached(py, || self.0.clone().with_slot_key(key.0.clone())).map(EvaluationKey)
    }

    /// Public sums of the rows of each private map between slots.
    fn slot_maps(&self) -> Vec<(u64, u64)> {
        self.0.slot_maps().filter_map(sums).collect()
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.0.save(&path))
    }

    /// Maps a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, allow_insecure: bool) -> PyResult<Self> {
        let from = |trust| cipher::EvaluationKey::load(&path, trust);
        read(py, allow_insecure, None, from).map(EvaluationKey)
    }

    /// The file in memory.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        file_bytes(py, || self.0.to_bytes())
    }

    /// A key from a file in memory, copied.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: &[u8], allow_insecure: bool) -> PyResult<Self> {
        let from = |trust| cipher::EvaluationKey::from_bytes(file, trust);
        read(py, allow_insecure, None, from).map(EvaluationKey)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A key between the slots of a common-mask set.
#[pyclass(frozen, module = "becalm._native")]
pub struct SlotKey(pub cipher::SlotKey);

/// Positive and negative sums of the rows of a map; none for packing.
fn sums(key: &cipher::SlotKey) -> Option<(u64, u64)> {
    match key.kind() {
        cipher::SlotKeyKind::Map(sums) => Some((sums.positive, sums.negative)),
        cipher::SlotKeyKind::Pack => None,
    }
}

#[pymethods]
impl SlotKey {
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

    /// Largest positive and negative sums of the rows of a map; `None` for packing.
    #[getter]
    fn sums(&self) -> Option<(u64, u64)> {
        sums(&self.0)
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.0.save(&path))
    }

    /// Reads a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, allow_insecure: bool) -> PyResult<Self> {
        read(py, allow_insecure, None, |trust| cipher::SlotKey::load(&path, trust)).map(SlotKey)
    }

    /// The file in memory.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        file_bytes(py, || self.0.to_bytes())
    }

    /// A key from a file in memory.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, file: &[u8], allow_insecure: bool) -> PyResult<Self> {
        let from = |trust| cipher::SlotKey::from_bytes(file, trust);
        read(py, allow_insecure, None, from).map(SlotKey)
    }
}

/// Bytes that keys may take: [`available_memory`], or no limit where the system does not tell.
#[pyfunction]
pub fn free_memory() -> usize {
    becalm::math::memory::available_memory().unwrap_or(usize::MAX)
}

/// Bytes that the system can still give without swapping, where it tells.
#[pyfunction]
pub fn available_memory() -> Option<usize> {
    becalm::math::memory::available_memory()
}

/// The kind of a file, `becalm.lwe`, `becalm.secret_key`, …, and the name of its parameter set.
#[pyfunction]
pub fn kind_of_file(path: PathBuf) -> PyResult<(&'static str, String)> {
    guarded(|| {
        let found = file::inspect(&path).map_err(raise)?;
        Ok((found.kind.name(), found.params))
    })
}

/// [`kind_of_file`] for a file in memory.
#[pyfunction]
pub fn kind_of_bytes(file: &[u8]) -> PyResult<(&'static str, String)> {
    guarded(|| {
        let (kind, params) = file::kind_of(file).map_err(raise)?;
        Ok((kind.name(), params))
    })
}

/// The parameter set of a file of evaluation keys of CKKS, and the note in it.
#[pyfunction]
pub fn ckks_keys_of_file(path: PathBuf) -> PyResult<(String, String)> {
    guarded(|| {
        let found = file::inspect(&path).and_then(Description::of_ckks_keys).map_err(raise)?;
        Ok((found.params, found.note))
    })
}

/// The purposes of keys, each up to a level.
#[pyclass(frozen, eq, module = "becalm._native")]
#[derive(PartialEq)]
pub struct CkksNeeds(pub Needs);

/// The arguments of [`CkksNeeds::new`].
type NeedsArgs = (BTreeMap<i64, BTreeSet<usize>>, Option<usize>, usize, Option<usize>, usize);

#[pymethods]
impl CkksNeeds {
    /// Rotations and the levels of each, the levels of conjugation, products and bootstraps, and the slots of the longest vector.
    #[new]
    #[pyo3(signature = (rotations, conjugate=None, multiply=0, bootstrap=None, slots=0))]
    fn new(
        rotations: BTreeMap<i64, BTreeSet<usize>>,
        conjugate: Option<usize>,
        multiply: usize,
        bootstrap: Option<usize>,
        slots: usize,
    ) -> Self {
        CkksNeeds(Needs { rotations, conjugate, multiply, bootstrap, slots })
    }

    /// The arguments that make it again, for `pickle`.
    fn __getnewargs__(&self) -> NeedsArgs {
        let Needs { rotations, conjugate, multiply, bootstrap, slots } = self.0.clone();
        (rotations, conjugate, multiply, bootstrap, slots)
    }

    /// The needs of both.
    fn union(&self, other: &CkksNeeds) -> Self {
        CkksNeeds(self.0.clone().union(&other.0))
    }

    /// Up to which level conjugation is needed, if it is.
    #[getter]
    fn conjugate(&self) -> Option<usize> {
        self.0.conjugate
    }

    /// Up to which level products are needed; 0 if they are not.
    #[getter]
    fn multiply(&self) -> usize {
        self.0.multiply
    }

    /// The level that a bootstrap raises to, if there is one.
    #[getter]
    fn bootstrap(&self) -> Option<usize> {
        self.0.bootstrap
    }

    /// Slots of the longest vector; 0 for any.
    #[getter]
    fn slots(&self) -> usize {
        self.0.slots
    }

    /// The rotations.
    #[getter]
    fn rotations(&self) -> Vec<i64> {
        self.0.rotations.keys().copied().collect()
    }
}
