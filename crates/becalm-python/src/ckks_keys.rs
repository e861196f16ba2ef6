//! The keys that encrypt and decrypt CKKS, for Python.

use crate::call::{Watched, raise, supervised};
use crate::ciphertext::{flat, trust};
use crate::ckks::{CkksCiphertext, integers};
use crate::ckks_evaluate::CkksKeys;
use crate::ckks_machine::{CkksMachine, Shared, brief, bytes_of, values};
use crate::ckks_threshold::CkksKeyShare;
use crate::keys::CkksNeeds;
use becalm::cipher;
use becalm::cipher::file::{Output, Part, replace_all};
use becalm::ckks::{Context, KeyShare};
use becalm::math::buffer::or_refused;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The secret key of one user of CKKS.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksSecretKey(pub(crate) Shared, pub(crate) Arc<cipher::CkksSecretKey>);

#[pymethods]
impl CkksSecretKey {
    /// Draws a secret key from the system's randomness.
    #[staticmethod]
    fn generate(py: Python<'_>, on: &CkksMachine) -> PyResult<Self> {
        let key = brief(py, &on.0, |c| c.secret_key())?;
        Ok(CkksSecretKey(on.0.clone(), Arc::new(key)))
    }

    /// Reads a secret key.
    #[staticmethod]
    fn load(py: Python<'_>, on: &CkksMachine, path: PathBuf) -> PyResult<Self> {
        let key = brief(py, &on.0, |c| c.load_secret_key(&path, trust(true, None)))?;
        Ok(CkksSecretKey(on.0.clone(), Arc::new(key)))
    }

    /// A secret key from the bytes of its file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, on: &CkksMachine, file: &[u8]) -> PyResult<Self> {
        let key = brief(py, &on.0, |c| c.secret_key_from_bytes(file, trust(true, None)))?;
        Ok(CkksSecretKey(on.0.clone(), Arc::new(key)))
    }

    /// Identity of the key, in hexadecimal digits.
    #[getter]
    fn key_id(&self) -> String {
        self.1.id().to_string()
    }

    /// Encrypts values at a level, which are at most `bound` where that is given. Whether they are `real` is public.
    #[pyo3(signature = (data, level, real, bound=None))]
    fn encrypt(
        &self,
        py: Python<'_>,
        data: &[u8],
        level: usize,
        real: bool,
        bound: Option<f64>,
    ) -> PyResult<CkksCiphertext> {
        CkksCiphertext::made(py, &self.0, |c| {
            let data = Zeroizing::new(values(data));
            let made = match bound {
                Some(bound) => c.encrypt_within(&data, bound, level, &self.1),
                None => c.encrypt(&data, level, &self.1),
            };
            Ok((made?, real))
        })
    }

    /// Integers that a ciphertext holds.
    #[getter]
    fn integers(&self) -> usize {
        self.0.context.params().degree()
    }

    /// Encrypts integers of so many bits, 8 bytes each.
    fn encrypt_integers(&self, py: Python<'_>, data: &[u8], bits: u32) -> PyResult<CkksCiphertext> {
        let data = Zeroizing::new(integers(data));
        let encrypt = |c: &Context| Ok((c.encrypt_integers(&data, bits, &self.1)?, true));
        CkksCiphertext::made(py, &self.0, encrypt)
    }

    /// Decrypts to integers of 8 bytes each.
    fn decrypt_integers<'py>(
        &self,
        py: Python<'py>,
        x: &CkksCiphertext,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let found = brief(py, &self.0, |c| c.decrypt_integers(&*x.0.open()?, &self.1))?;
        flat(py, Zeroizing::new(found).iter().map(|v| v.to_le_bytes()))
    }

    /// Decrypts to the values in the slots.
    fn decrypt<'py>(&self, py: Python<'py>, x: &CkksCiphertext) -> PyResult<Bound<'py, PyBytes>> {
        let found = brief(py, &self.0, |c| c.decrypt(&*x.0.open()?, &self.1))?;
        bytes_of(py, &Zeroizing::new(found))
    }

    /// Decrypts with noise of 2^-`precision_bits`, fit to be shared.
    fn decrypt_to_share<'py>(
        &self,
        py: Python<'py>,
        x: &CkksCiphertext,
        precision_bits: f64,
        queries: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let share =
            |c: &Context| c.decrypt_to_share(&*x.0.open()?, &self.1, precision_bits, queries);
        bytes_of(py, &Zeroizing::new(brief(py, &self.0, share)?))
    }

    /// Writes this key and evaluation keys made from it, with a note: both files or none.
    fn save_with(
        &self,
        py: Python<'_>,
        keys: &CkksKeys,
        paths: (PathBuf, PathBuf),
        note: &str,
        overwrite: bool,
    ) -> PyResult<()> {
        let context = &self.0.context;
        supervised(py, None, |watch| {
            let secret = context.secret_key_part(&self.1, paths.0)?;
            let path = paths.1.clone();
            let write = |file: &mut Output| {
                let out = BufWriter::new(Watched(file, watch));
                context.write_keys_at(&path, &keys.1, note, out)
            };
            let parts = vec![secret, Part::new(paths.1, false, write)];
            self.0.cpu.install(|| replace_all(parts, overwrite))
        })
    }

    /// The spent part of the budget for shared decryptions.
    #[getter]
    fn spent(&self) -> f64 {
        self.1.spent()
    }

    /// Splits the key among parties, of whom any `threshold` decrypt together.
    fn split(
        &self,
        py: Python<'_>,
        parties: usize,
        threshold: usize,
    ) -> PyResult<Vec<CkksKeyShare>> {
        let shares = brief(py, &self.0, |c| KeyShare::split(c, &self.1, parties, threshold))?;
        Ok(shares.into_iter().map(|share| CkksKeyShare(self.0.clone(), share)).collect())
    }

    /// Makes a key with which anyone encrypts.
    fn public_key(&self, py: Python<'_>) -> PyResult<CkksPublicKey> {
        let key = brief(py, &self.0, |c| c.public_key(&self.1))?;
        Ok(CkksPublicKey(self.0.clone(), key, self.key_id()))
    }

    /// Makes evaluation keys, ready, packed or seeded, except those that are `known`, for a context of the set: this key's own
    /// unless it is given. Calls `progress(done, total)`.
    #[pyo3(signature = (needs, known=None, progress=None, form="ready", on=None))]
    fn keys(
        &self,
        py: Python<'_>,
        needs: &CkksNeeds,
        known: Option<&CkksKeys>,
        progress: Option<Py<PyAny>>,
        form: &str,
        on: Option<&CkksMachine>,
    ) -> PyResult<CkksKeys> {
        let on = on.map_or(&self.0, |context| &context.0).clone();
        let (needs, context, form) =
            (&needs.0, &self.0.context, cipher::KeyForm::named(form).map_err(raise)?);
        let known = known.map(|k| k.1.clone());
        let keys = supervised(py, progress, |watch| {
            let step = &|done, all| watch.step(done, all);
            let make = || context.keys_with(&self.1, needs, form, known.as_deref(), step);
            self.0.cpu.install(|| or_refused("keygen", make))
        })?;
        Ok(CkksKeys(on, Arc::new(keys)))
    }

    /// Writes a file that only its owner can read.
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        brief(py, &self.0, |c| match overwrite {
            true => replace_all(vec![c.secret_key_part(&self.1, &path)?], true),
            false => c.save_secret_key(&self.1, &path),
        })
    }

    /// The bytes of its file. Python wipes no memory: the caller has to guard them.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &brief(py, &self.0, |c| c.secret_key_to_bytes(&self.1))?))
    }
}

/// A key with which anyone encrypts.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksPublicKey(pub(crate) Shared, pub(crate) cipher::CkksPublicKey, pub(crate) String);

#[pymethods]
impl CkksPublicKey {
    /// Reads a public key of at most `limit` bytes.
    #[staticmethod]
    fn load(py: Python<'_>, on: &CkksMachine, path: PathBuf, limit: Option<u64>) -> PyResult<Self> {
        let key = brief(py, &on.0, |c| c.load_public_key(&path, trust(true, limit)))?;
        let id = key.id().to_string();
        Ok(CkksPublicKey(on.0.clone(), key, id))
    }

    /// A public key from the bytes of its file.
    #[staticmethod]
    fn from_bytes(
        py: Python<'_>,
        on: &CkksMachine,
        file: &[u8],
        limit: Option<u64>,
    ) -> PyResult<Self> {
        let key = brief(py, &on.0, |c| c.public_key_from_bytes(file, trust(true, limit)))?;
        let id = key.id().to_string();
        Ok(CkksPublicKey(on.0.clone(), key, id))
    }

    /// Identity of the secret key, in hexadecimal digits.
    #[getter]
    fn key_id(&self) -> &str {
        &self.2
    }

    /// Encrypts values at a level, which are at most `bound` where that is given. Whether they are `real` is public.
    #[pyo3(signature = (data, level, real, bound=None))]
    fn encrypt(
        &self,
        py: Python<'_>,
        data: &[u8],
        level: usize,
        real: bool,
        bound: Option<f64>,
    ) -> PyResult<CkksCiphertext> {
        CkksCiphertext::made(py, &self.0, |c| {
            let data = Zeroizing::new(values(data));
            let made = match bound {
                Some(bound) => c.encrypt_public_within(&data, bound, level, &self.1),
                None => c.encrypt_public(&data, level, &self.1),
            };
            Ok((made?, real))
        })
    }

    /// Integers that a ciphertext holds.
    #[getter]
    fn integers(&self) -> usize {
        self.0.context.params().degree()
    }

    /// Encrypts integers of so many bits, 8 bytes each.
    fn encrypt_integers(&self, py: Python<'_>, data: &[u8], bits: u32) -> PyResult<CkksCiphertext> {
        let data = Zeroizing::new(integers(data));
        let encrypt = |c: &Context| Ok((c.encrypt_integers_public(&data, bits, &self.1)?, true));
        CkksCiphertext::made(py, &self.0, encrypt)
    }

    /// The bytes of its file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &brief(py, &self.0, |c| c.public_key_to_bytes(&self.1))?))
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        brief(py, &self.0, |c| c.save_public_key(&self.1, &path))
    }
}
