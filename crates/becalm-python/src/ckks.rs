//! CKKS: a context, secret and public keys, ciphertexts.
//!
//! Vectors travel as little-endian doubles in pairs, real and imaginary part: numpy's `complex128`.

use crate::call::{detached, guarded, raise, supervised};
use crate::ciphertext::{flat, trust};
use crate::ckks_evaluate::{CkksKeys, CkksPlaintext};
use crate::ckks_keys::{CkksPublicKey, CkksSecretKey};
use crate::ckks_machine::{Call, Plain};
use crate::ckks_record::on_both;
use becalm::backend::Cpu;
use becalm::cipher::{Account, KeyForm, PackedRlwe, Rlwe};
use becalm::ckks::Context;
use becalm::math::buffer::or_refused;
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, Kind};
use becalm::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;

/// A context and the threads that it computes with.
pub struct Machine {
    pub(crate) context: Arc<Context>,
    pub(crate) cpu: Cpu,
    /// Whether ciphertexts are packed when nothing computes with them.
    compact: bool,
}

pub(crate) type Shared = Arc<Machine>;

/// The fields of [`CkksContext::describe`].
type Claims = (bool, u32, usize, f64, usize, f64, f64, &'static str);

/// Work of milliseconds on the threads of the machine, with the interpreter free.
pub(crate) fn brief<T: Send>(
    py: Python<'_>,
    on: &Shared,
    work: impl FnOnce(&Context) -> Result<T> + Send,
) -> PyResult<T> {
    detached(py, || on.cpu.install(|| or_refused("becalm", || work(&on.context))))
}

pub(crate) fn values(bytes: &[u8]) -> Vec<Complex> {
    let (pairs, _) = bytes.as_chunks::<16>();
    let real = |b: &[u8]| b.try_into().map_or(f64::NAN, f64::from_le_bytes);
    pairs.iter().map(|p| Complex::new(real(&p[..8]), real(&p[8..]))).collect()
}

pub(crate) fn bytes_of<'py>(py: Python<'py>, values: &[Complex]) -> PyResult<Bound<'py, PyBytes>> {
    let field = |v: &Complex| {
        let mut both = [0; 16];
        both[..8].copy_from_slice(&v.re.to_le_bytes());
        both[8..].copy_from_slice(&v.im.to_le_bytes());
        both
    };
    flat(py, values.iter().map(field))
}

/// A CKKS parameter set made ready.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksContext(pub(crate) Shared);

#[pymethods]
impl CkksContext {
    /// Makes the set of a name ready; 0 threads means all. Ciphertexts of a `compact` one are packed when nothing computes with them.
    #[new]
    #[pyo3(signature = (name, allow_insecure, threads, compact=false))]
    fn new(
        py: Python<'_>,
        name: &str,
        allow_insecure: bool,
        threads: usize,
        compact: bool,
    ) -> PyResult<Self> {
        supervised(py, None, |_| {
            let params = CkksParams::named(name)?;
            let cpu = Cpu::new(threads)?;
            let context = Arc::new(cpu.install(|| Context::new(params, allow_insecure))?);
            Ok(CkksContext(Arc::new(Machine { context, cpu, compact })))
        })
    }

    /// Names of all sets, the default first.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        CkksParams::all().iter().map(|p| p.name).collect()
    }

    /// The facts of a set: whether it is a standard one, log2 of its degree, levels, log2 of its scale, stages of its bootstrap, log2
    /// of its modulus, bits of security and where they come from.
    #[staticmethod]
    fn describe(name: &str) -> PyResult<Claims> {
        guarded(|| {
            let p = CkksParams::named(name).map_err(raise)?;
            let stages = p.bootstrap.map_or(0, |b| b.stage_count);
            let (size, bits, standard) =
                (p.log2_degree, p.log2_modulus(), p.kind == Kind::Standard);
            let claim = (p.security_bits, p.security_source);
            Ok((standard, size, p.levels, p.scale_bits, stages, bits, claim.0, claim.1))
        })
    }

    /// Name of the set.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.context.params().name
    }

    /// Draws a secret key from the system's randomness.
    fn secret_key(&self, py: Python<'_>) -> PyResult<CkksSecretKey> {
        let key = brief(py, &self.0, |c| c.secret_key())?;
        Ok(CkksSecretKey(self.0.clone(), Arc::new(key)))
    }

    /// Reads a secret key.
    fn load_secret_key(&self, py: Python<'_>, path: PathBuf) -> PyResult<CkksSecretKey> {
        let key = brief(py, &self.0, |c| c.load_secret_key(&path, trust(true, None)))?;
        Ok(CkksSecretKey(self.0.clone(), Arc::new(key)))
    }

    /// A secret key from the bytes of its file.
    fn secret_key_from_bytes(&self, py: Python<'_>, file: &[u8]) -> PyResult<CkksSecretKey> {
        let key = brief(py, &self.0, |c| c.secret_key_from_bytes(file, trust(true, None)))?;
        Ok(CkksSecretKey(self.0.clone(), Arc::new(key)))
    }

    /// Reads a public key of at most `limit` bytes.
    fn load_public_key(
        &self,
        py: Python<'_>,
        path: PathBuf,
        limit: Option<u64>,
    ) -> PyResult<CkksPublicKey> {
        let key = brief(py, &self.0, |c| c.load_public_key(&path, trust(true, limit)))?;
        let id = key.id().to_string();
        Ok(CkksPublicKey(self.0.clone(), key, id))
    }

    /// A public key from the bytes of its file.
    fn public_key_from_bytes(
        &self,
        py: Python<'_>,
        file: &[u8],
        limit: Option<u64>,
    ) -> PyResult<CkksPublicKey> {
        let key = brief(py, &self.0, |c| c.public_key_from_bytes(file, trust(true, limit)))?;
        let id = key.id().to_string();
        Ok(CkksPublicKey(self.0.clone(), key, id))
    }

    /// Reads evaluation keys, in a form (see `keys`); or, `stored`, leaves them in their file until they are used.
    #[pyo3(signature = (path, stored=false, form="ready"))]
    fn load_keys(
        &self,
        py: Python<'_>,
        path: PathBuf,
        stored: bool,
        form: &str,
    ) -> PyResult<CkksKeys> {
        let (context, form) = (&self.0.context, form_named(form).map_err(raise)?);
        let keys = supervised(py, None, |watch| {
            let load = || match stored {
                true => context.open_keys(&path),
                false => context.load_keys_with(&path, form, |done, all| watch.step(done, all)),
            };
            self.0.cpu.install(|| or_refused("load", load))
        })?;
        Ok(CkksKeys(self.0.clone(), Arc::new(keys)))
    }

    /// Reads a ciphertext of at most `limit` bytes.
    fn load_ciphertext(
        &self,
        py: Python<'_>,
        path: PathBuf,
        limit: Option<u64>,
    ) -> PyResult<CkksCiphertext> {
        CkksCiphertext::made(py, &self.0, |c| c.load_ciphertext(&path, trust(true, limit)))
    }

    /// A ciphertext from the bytes of its file.
    fn ciphertext_from_bytes(
        &self,
        py: Python<'_>,
        file: &[u8],
        limit: Option<u64>,
    ) -> PyResult<CkksCiphertext> {
        CkksCiphertext::made(py, &self.0, |c| c.ciphertext_from_bytes(file, trust(true, limit)))
    }
}

pub(crate) fn form_named(name: &str) -> Result<KeyForm> {
    match name {
        "ready" => Ok(KeyForm::Ready),
        "packed" => Ok(KeyForm::Packed),
        "seeded" => Ok(KeyForm::Seeded),
        other => {
            let wanted = "ready, packed or seeded keys";
            Err(Error::bad_input("keygen", wanted, other, "choose one of these"))
        }
    }
}

/// A ciphertext as it is kept.
#[derive(Clone)]
enum Kept {
    Ready(Arc<Rlwe>),
    Packed(Arc<PackedRlwe>),
}

/// The facts of a ciphertext, in whichever form it is kept.
macro_rules! on_kept {
    ($x:expr, $what:ident) => {
        match &$x.1 {
            Kept::Ready(x) => x.$what(),
            Kept::Packed(x) => x.$what(),
        }
    };
}

/// A vector of complex numbers, encrypted.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksCiphertext(Shared, Kept);

impl CkksCiphertext {
    /// A result, packed where the machine is compact.
    pub(crate) fn kept(on: &Shared, x: Rlwe) -> Result<Self> {
        let kept = match on.compact {
            true => Kept::Packed(Arc::new(on.context.pack(&x)?)),
            false => Kept::Ready(Arc::new(x)),
        };
        Ok(CkksCiphertext(on.clone(), kept))
    }

    /// The ciphertext that brief work makes.
    pub(crate) fn made(
        py: Python<'_>,
        on: &Shared,
        work: impl FnOnce(&Context) -> Result<Rlwe> + Send,
    ) -> PyResult<Self> {
        brief(py, on, |context| CkksCiphertext::kept(on, work(context)?))
    }

    fn make(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Context, &Rlwe) -> Result<Rlwe> + Send,
    ) -> PyResult<Self> {
        CkksCiphertext::made(py, &self.0, |context| work(context, &*self.open()?))
    }

    /// The ciphertext as it is computed with.
    pub(crate) fn open(&self) -> Result<Arc<Rlwe>> {
        match &self.1 {
            Kept::Ready(x) => Ok(x.clone()),
            Kept::Packed(x) => Ok(Arc::new(self.0.context.unpack_ciphertext(x)?)),
        }
    }

    /// A call that needs no key.
    fn with<'a>(&'a self, inputs: &'a [&'a Self], plain: Option<&'a Arc<Plain>>) -> Call<'a> {
        Call { on: &self.0, keys: None, inputs, plain, long: false }
    }
}

#[pymethods]
impl CkksCiphertext {
    /// Name of the parameter set.
    #[getter]
    fn params(&self) -> &'static str {
        on_kept!(self, params)
    }

    /// Identity of the secret key, in hexadecimal digits.
    #[getter]
    fn key_id(&self) -> String {
        on_kept!(self, key_id).to_string()
    }

    /// Multiplications that are left.
    #[getter]
    pub(crate) fn level(&self) -> usize {
        on_kept!(self, level)
    }

    /// The scale: the factor of the values.
    #[getter]
    fn scale(&self) -> f64 {
        on_kept!(self, scale)
    }

    /// Number of values.
    #[getter]
    fn slots(&self) -> usize {
        on_kept!(self, slots)
    }

    /// Estimated standard deviation of the error of a slot.
    #[getter]
    fn error(&self) -> f64 {
        on_kept!(self, error)
    }

    /// Bytes in memory.
    #[getter]
    fn nbytes(&self) -> usize {
        on_kept!(self, bytes)
    }

    /// Bytes in a file, but for the header.
    #[getter]
    fn stored_nbytes(&self) -> usize {
        self.0.context.stored_ciphertext_bytes(self.level())
    }

    /// Upper bounds on the values and their error that sharing relies on; infinite where unknown.
    #[getter]
    fn account(&self) -> (f64, f64) {
        let Account { values, error } = on_kept!(self, account);
        (values, error)
    }

    /// The same ciphertext with bounds that the owner of the key vouches for.
    fn vouched(&self, py: Python<'_>, values: f64, error: f64) -> PyResult<Self> {
        self.make(py, |_, x| x.clone().vouched(Account { values, error }))
    }

    /// Bits that can be shared if `queries` decryptions are shared in all.
    fn bits_to_share(&self, py: Python<'_>, queries: u64) -> PyResult<f64> {
        brief(py, &self.0, |c| c.bits_to_share(&*self.open()?, queries))
    }

    /// The largest absolute value of a slot that its level has room for.
    #[getter]
    fn largest(&self, py: Python<'_>) -> PyResult<f64> {
        brief(py, &self.0, |c| Ok(c.largest(&*self.open()?)))
    }

    /// The same ciphertext, computed with by the threads of another context of its set.
    #[pyo3(name = "on")]
    fn attached(&self, py: Python<'_>, context: &CkksContext) -> PyResult<Self> {
        let (own, other) = (on_kept!(self, params), context.name());
        if own == other && self.0.compact == context.0.compact {
            return Ok(CkksCiphertext(context.0.clone(), self.1.clone()));
        }
        if own == other {
            return CkksCiphertext::made(py, &context.0, |_| Ok(self.open()?.as_ref().clone()));
        }
        let (wanted, remedy) = (format!("a ciphertext of `{other}`"), "use one set throughout");
        Err(raise(Error::wrong_params("attach", wanted, format!("`{own}`"), remedy)))
    }

    /// `self + other`.
    fn add(&self, py: Python<'_>, other: &CkksCiphertext) -> PyResult<Self> {
        self.with(&[self, other], None).one(py, "add", |p, r| on_both(p, r, |p, a, b| p.add(a, b)))
    }

    /// `self − other`.
    fn subtract(&self, py: Python<'_>, other: &CkksCiphertext) -> PyResult<Self> {
        self.with(&[self, other], None)
            .one(py, "subtract", |p, r| on_both(p, r, |p, a, b| p.subtract(a, b)))
    }

    /// `−self`.
    fn negate(&self, py: Python<'_>) -> PyResult<Self> {
        self.with(&[self], None).one(py, "negate", |p, r| p.negate(r[0]))
    }

    /// `self + values`.
    fn add_plain(&self, py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let data = values(data);
        self.with(&[self], None).one(py, "add", |p, r| p.add_plain(r[0], &data))
    }

    /// `self · values`, one level lower.
    fn multiply_plain(&self, py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let data = values(data);
        self.with(&[self], None).one(py, "multiply", |p, r| p.multiply_plain(r[0], &data))
    }

    /// `self + plain`, at the lower of the two levels.
    fn add_encoded(&self, py: Python<'_>, plain: &CkksPlaintext) -> PyResult<Self> {
        let args = [self];
        let call = self.with(&args, Some(plain.encoded()));
        call.one(py, "add", |p, r| {
            plain.lowered(p, r[0]).and_then(|x| p.add_plain(x, plain.values()))
        })
    }

    /// `self · plain`, one level below the lower of the two.
    fn multiply_encoded(&self, py: Python<'_>, plain: &CkksPlaintext) -> PyResult<Self> {
        let args = [self];
        let call = self.with(&args, Some(plain.encoded()));
        call.one(py, "multiply", |p, r| {
            plain.lowered(p, r[0]).and_then(|x| p.multiply_plain(x, plain.values()))
        })
    }

    /// `self · factor`, one level lower.
    fn multiply_constant(&self, py: Python<'_>, factor: f64) -> PyResult<Self> {
        self.with(&[self], None).one(py, "multiply", |p, r| p.multiply_constant(r[0], factor))
    }

    /// `i · self`, exact.
    fn multiply_i(&self, py: Python<'_>) -> PyResult<Self> {
        self.with(&[self], None).one(py, "multiply", |p, r| p.multiply_i(r[0]))
    }

    /// The same values at a lower level.
    fn level_down(&self, py: Python<'_>, level: usize) -> PyResult<Self> {
        self.with(&[self], None).one(py, "level_down", |p, r| p.level_down(r[0], level))
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        brief(py, &self.0, |c| c.save_ciphertext(&*self.open()?, &path))
    }

    /// The bytes of a file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &brief(py, &self.0, |c| c.ciphertext_to_bytes(&*self.open()?))?))
    }
}
