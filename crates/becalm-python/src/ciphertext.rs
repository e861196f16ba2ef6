//! Batches of ciphertexts, flat: shapes are Python's.

use crate::call::{detached, guarded, raise, sized};
use crate::params::Params;
use becalm::Progress;
use becalm::cipher;
use becalm::cipher::file::{Draft, Trust};
use becalm::words::megabytes;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::{Path, PathBuf};

/// Little-endian 64-bit words; a rest of fewer than eight bytes is none.
pub fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|w| u64::from_le_bytes(*w)).collect()
}

/// The bytes of words, for numpy.
pub fn bytes<'py>(py: Python<'py>, words: &[u64]) -> PyResult<Bound<'py, PyBytes>> {
    flat(py, words.iter().map(|w| w.to_le_bytes()))
}

/// Fields of `N` bytes, one after another, written where Python keeps them: no copy is left unwiped.
pub fn flat<'py, const N: usize>(
    py: Python<'py>,
    fields: impl ExactSizeIterator<Item = [u8; N]>,
) -> PyResult<Bound<'py, PyBytes>> {
    let length = N * fields.len();
    let write = |out: &mut [u8]| {
        out.chunks_exact_mut(N).zip(fields).for_each(|(to, field)| to.copy_from_slice(&field));
        Ok(())
    };
    PyBytes::new_with(py, length, write)
}

/// The trust in a file: insecure sets only if the caller allows them, batches of at most `limit` bytes.
pub fn trust(allow_insecure: bool, limit: Option<u64>) -> Trust {
    let default = Trust::default();
    Trust { allow_insecure, limit: limit.unwrap_or(default.limit) }
}

/// An object of TFHE from a file on the disk or in memory, which `from` reads as far as it is trusted.
pub fn read<T: Send>(
    py: Python<'_>,
    allow_insecure: bool,
    limit: Option<u64>,
    from: impl FnOnce(Trust) -> becalm::Result<T> + Send,
) -> PyResult<T> {
    detached(py, || from(trust(allow_insecure, limit)))
}

/// [`read`] of ciphertexts in a file of any length, by Ctrl-C stopped.
pub fn loaded<T: Send>(
    py: Python<'_>,
    path: &Path,
    allow_insecure: bool,
    limit: Option<u64>,
    from: impl FnOnce(Trust, Progress) -> becalm::Result<T> + Send,
) -> PyResult<T> {
    let bytes = std::fs::metadata(path).map_or(0, |found| found.len() as usize);
    sized(py, bytes, |progress| from(trust(allow_insecure, limit), progress))
}

/// [`loaded`] of a file in memory.
pub fn parsed<T: Send>(
    py: Python<'_>,
    file: &[u8],
    allow_insecure: bool,
    limit: Option<u64>,
    from: impl FnOnce(&[u8], Trust, Progress) -> becalm::Result<T> + Send,
) -> PyResult<T> {
    sized(py, file.len(), |progress| from(file, trust(allow_insecure, limit), progress))
}

/// Writes the file of ciphertexts of so many bytes.
pub fn saved<'a>(
    py: Python<'_>,
    path: &Path,
    bytes: usize,
    draft: impl FnOnce(Progress) -> becalm::Result<Draft<'a>> + Send,
) -> PyResult<()> {
    sized(py, bytes, |progress| draft(progress)?.save_with(path, progress))
}

/// The file of ciphertexts of so many bytes, written where Python keeps it.
pub fn drafted<'py, 'a>(
    py: Python<'py>,
    bytes: usize,
    draft: impl FnOnce(Progress) -> becalm::Result<Draft<'a>> + Send,
) -> PyResult<Bound<'py, PyBytes>> {
    let draft = sized(py, bytes, draft)?;
    let sealed = sized(py, bytes, |progress| draft.seal(progress))?;
    held(py, sealed.len(), |memory| sized(py, bytes, |progress| sealed.fill(memory, progress)))
}

/// The bytes of a file that `file` makes, for Python.
pub fn file_bytes<'py, B: AsRef<[u8]> + Send>(
    py: Python<'py>,
    file: impl FnOnce() -> becalm::Result<B> + Send,
) -> PyResult<Bound<'py, PyBytes>> {
    let file = detached(py, file)?;
    let bytes = file.as_ref();
    held(py, bytes.len(), |memory| {
        py.detach(|| memory.copy_from_slice(bytes));
        Ok(())
    })
}

/// Memory of Python's, once it is filled.
fn held(
    py: Python<'_>,
    length: usize,
    fill: impl FnOnce(&mut [u8]) -> PyResult<()>,
) -> PyResult<Bound<'_, PyBytes>> {
    PyBytes::new_with(py, length, fill).map_err(|e| match e.is_instance_of::<PyMemoryError>(py) {
        false => e,
        true => {
            let (got, remedy) = ("a refusal of the system", "use a smaller batch, or free memory");
            raise(becalm::Error::memory("save", megabytes(length), got, remedy))
        }
    })
}

/// A flat batch of LWE ciphertexts.
#[pyclass(frozen, module = "becalm._native")]
#[derive(Clone)]
pub struct Lwe(pub cipher::Lwe);

#[pymethods]
impl Lwe {
    fn __len__(&self) -> usize {
        self.0.len()
    }

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

    /// Messages in one ciphertext.
    #[getter]
    fn slots(&self) -> usize {
        self.0.slots()
    }

    /// Under the key of which slot of a common-mask set, for plain ciphertexts of one message.
    #[getter]
    fn slot(&self) -> Option<u32> {
        match self.0.role() {
            cipher::KeyRole::Slot(slot) => Some(slot),
            _ => None,
        }
    }

    /// How many values the encoding has, and whether a padding bit stands above them.
    #[getter]
    fn encoding(&self) -> (u64, bool) {
        let e = self.0.encoding();
        (e.values, e.padding)
    }

    /// Least and greatest value that any message may have.
    #[getter]
    fn range(&self) -> (i64, i64) {
        self.0.range()
    }

    /// Variance of the phase error, torus units.
    #[getter]
    fn noise_variance(&self) -> f64 {
        self.0.noise_variance()
    }

    /// Bytes of the batch.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }

    /// The words, one ciphertext after another, as little-endian bytes.
    fn words<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes(py, self.0.words())
    }

    /// `self + other`, lane by lane.
    fn add(&self, py: Python<'_>, other: &Lwe) -> PyResult<Self> {
        detached(py, || self.0.add(&other.0)).map(Lwe)
    }

    /// `self − other`, lane by lane.
    fn sub(&self, py: Python<'_>, other: &Lwe) -> PyResult<Self> {
        detached(py, || self.0.sub(&other.0)).map(Lwe)
    }

    /// `factor · self`.
    fn scale(&self, py: Python<'_>, factor: i64) -> PyResult<Self> {
        detached(py, || self.0.scale(factor)).map(Lwe)
    }

    /// `self + value` in every lane.
    fn add_constant(&self, py: Python<'_>, value: i64) -> PyResult<Self> {
        detached(py, || self.0.add_constant(value)).map(Lwe)
    }

    /// Public values in the shape of ciphertexts like these.
    fn trivial(&self, py: Python<'_>, values: &[u8]) -> PyResult<Self> {
        let values = words(values);
        detached(py, || cipher::Lwe::trivial(&self.0, &values)).map(Lwe)
    }

    /// The lanes of these indices, in their order, repeated where they repeat.
    fn select(&self, py: Python<'_>, lanes: &[u8]) -> PyResult<Self> {
        let lanes = words(lanes);
        let one = 8 * self.0.width();
        sized(py, one.saturating_mul(lanes.len()), |p| self.0.gather_with(&lanes, p)).map(Lwe)
    }

    /// Batches of one kind as one.
    #[staticmethod]
    fn concat(py: Python<'_>, batches: Vec<Bound<'_, Lwe>>) -> PyResult<Self> {
        let batches: Vec<&cipher::Lwe> = batches.iter().map(|b| &b.get().0).collect();
        detached(py, || cipher::Lwe::concat(&batches)).map(Lwe)
    }

    /// Writes the file of an array of this shape; `seeded` with one seed in place of all masks.
    fn save(&self, py: Python<'_>, path: PathBuf, shape: Vec<usize>, seeded: bool) -> PyResult<()> {
        let draft = |progress: Progress| self.0.file(seeded, progress)?.shaped(&shape);
        saved(py, &path, self.0.bytes(), draft)
    }

    /// Reads a file: a batch and the shape of its array.
    #[staticmethod]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        allow_insecure: bool,
        limit: Option<u64>,
    ) -> PyResult<(Self, Vec<usize>)> {
        let load = |trust, progress: Progress| cipher::Lwe::load_array(&path, trust, progress);
        loaded(py, &path, allow_insecure, limit, load).map(|(lwe, shape)| (Lwe(lwe), shape))
    }

    /// The file in memory, as for [`Lwe::save`].
    fn to_bytes<'py>(
        &self,
        py: Python<'py>,
        shape: Vec<usize>,
        seeded: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let draft = |progress: Progress| self.0.file(seeded, progress)?.shaped(&shape);
        drafted(py, self.0.bytes(), draft)
    }

    /// [`Lwe::load`] from a file in memory.
    #[staticmethod]
    fn from_bytes(
        py: Python<'_>,
        file: &[u8],
        allow_insecure: bool,
        limit: Option<u64>,
    ) -> PyResult<(Self, Vec<usize>)> {
        let found = parsed(py, file, allow_insecure, limit, cipher::Lwe::array_from_bytes);
        found.map(|(lwe, shape)| (Lwe(lwe), shape))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Index, number of values, padding, least and greatest value of a result of a table.
pub type Output = (usize, u64, bool, i64, i64);

/// An encrypted lookup table.
#[pyclass(frozen, module = "becalm._native")]
#[derive(Clone)]
pub struct Glwe(pub cipher::Glwe);

#[pymethods]
impl Glwe {
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

    /// How many values the input's encoding has.
    #[getter]
    fn values(&self) -> u64 {
        self.0.input().values
    }

    /// The greatest value that may be looked up.
    #[getter]
    fn limit(&self) -> i64 {
        self.0.limit()
    }

    /// The outputs of a lookup.
    #[getter]
    fn outputs(&self) -> Vec<Output> {
        let row = |o: &cipher::Output| {
            (o.index, o.encoding.values, o.encoding.padding, o.range.0, o.range.1)
        };
        self.0.outputs().iter().map(row).collect()
    }

    /// Variance of the phase error, torus units.
    #[getter]
    fn noise_variance(&self) -> f64 {
        self.0.noise_variance()
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.0.save(&path))
    }

    /// Reads a file.
    #[staticmethod]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        allow_insecure: bool,
        limit: Option<u64>,
    ) -> PyResult<Self> {
        read(py, allow_insecure, limit, |trust| cipher::Glwe::load(&path, trust)).map(Glwe)
    }

    /// The file in memory.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        file_bytes(py, || self.0.to_bytes())
    }

    /// A ciphertext from a file in memory.
    #[staticmethod]
    fn from_bytes(
        py: Python<'_>,
        file: &[u8],
        allow_insecure: bool,
        limit: Option<u64>,
    ) -> PyResult<Self> {
        read(py, allow_insecure, limit, |trust| cipher::Glwe::from_bytes(file, trust)).map(Glwe)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A value of Python that should be a batch or a table.
pub fn ciphertext(value: &Bound<'_, PyAny>) -> PyResult<cipher::Ciphertext> {
    if let Ok(x) = value.cast::<Lwe>() {
        return guarded(|| x.get().0.copied("run").map(Into::into).map_err(raise));
    }
    if let Ok(x) = value.cast::<Glwe>() {
        return Ok(x.get().0.clone().into());
    }
    let got = value.get_type().name()?.to_string();
    guarded(|| {
        Err(raise(becalm::Error::bad_input("run", "ciphertexts", got, "encrypt the value first")))
    })
}
