//! CKKS: ciphertexts, and the operations that need no key.

use crate::call::{guarded, raise};
use crate::ciphertext::trust;
use crate::ckks_machine::{Call, CkksMachine, Kept, Plain, Shared, Vector, brief};
use crate::ckks_plain::Given;
use becalm::cipher::{Account, Rlwe, Standing};
use becalm::ckks::Context;
use becalm::program::rlwe::{Operator, Plaintext as Beside};
use becalm::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;

/// Integers of 8 bytes each.
pub(crate) fn integers(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect()
}

/// The facts of a ciphertext, in whichever form it is kept.
macro_rules! on_kept {
    ($x:expr, $what:ident) => {
        match &$x.0.kept {
            Kept::Ready(x) => x.$what(),
            Kept::Packed(x) => x.$what(),
        }
    };
}

/// A vector of complex numbers, encrypted.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksCiphertext(pub(crate) Vector);

impl CkksCiphertext {
    /// The ciphertext that brief work makes, and whether all its values are known to be real.
    pub(crate) fn made(
        py: Python<'_>,
        on: &Shared,
        work: impl FnOnce(&Context) -> Result<(Rlwe, bool)> + Send,
    ) -> PyResult<Self> {
        Vector::made(py, on, work).map(CkksCiphertext)
    }

    /// A ciphertext that was read, and what is known of its values.
    fn noted(
        py: Python<'_>,
        on: &Shared,
        read: impl FnOnce(&Context) -> Result<(Rlwe, Option<bool>)> + Send,
    ) -> PyResult<(Self, Option<bool>)> {
        let mut real = None;
        let read = |context: &Context| {
            let (x, known) = read(context)?;
            real = known;
            Ok((x, known == Some(true)))
        };
        let made = CkksCiphertext::made(py, on, read)?;
        Ok((made, real))
    }

    fn make(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Context, &Rlwe) -> Result<Rlwe> + Send,
    ) -> PyResult<Self> {
        let real = self.0.real;
        CkksCiphertext::made(py, &self.0.on, |c| Ok((work(c, &*self.0.open()?)?, real)))
    }

    /// A call that needs no key.
    fn with<'a>(&'a self, inputs: &'a [&'a Vector], plain: Option<Arc<Plain>>) -> Call<'a> {
        Call { on: &self.0.on, keys: None, inputs, plain, long: false }
    }

    /// An operator on this vector and values.
    fn beside(
        &self,
        py: Python<'_>,
        given: &Given<'_>,
        operator: impl FnOnce(Beside) -> Operator,
    ) -> PyResult<Self> {
        let operator = operator(given.beside());
        self.with(&[&self.0], given.encoded()).one(py, &operator).map(CkksCiphertext)
    }
}

#[pymethods]
impl CkksCiphertext {
    /// Reads a ciphertext of at most `limit` bytes, and whether its values are real, if the file says so.
    #[staticmethod]
    fn load(
        py: Python<'_>,
        on: &CkksMachine,
        path: PathBuf,
        limit: Option<u64>,
    ) -> PyResult<(Self, Option<bool>)> {
        CkksCiphertext::noted(py, &on.0, |c| c.load_noted_ciphertext(&path, trust(true, limit)))
    }

    /// The same from the bytes of its file.
    #[staticmethod]
    fn from_bytes(
        py: Python<'_>,
        on: &CkksMachine,
        file: &[u8],
        limit: Option<u64>,
    ) -> PyResult<(Self, Option<bool>)> {
        let trust = trust(true, limit);
        CkksCiphertext::noted(py, &on.0, |c| c.noted_ciphertext_from_bytes(file, trust))
    }

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
        self.0.on.context.stored_ciphertext_bytes(self.level())
    }

    /// Upper bounds on the values, the root mean square of their errors and each error, and whether sharing may rely on them.
    #[getter]
    fn account(&self) -> (f64, f64, f64, bool) {
        let Account { values, error, worst, standing, .. } = on_kept!(self, account);
        let room = self.0.on.context.largest_at(self.level(), self.scale());
        (values, error, worst, standing == Standing::BOUNDED && values + worst <= room)
    }

    /// Whether the account was computed here, and no file states it.
    #[getter]
    fn computed(&self) -> bool {
        !on_kept!(self, account).standing.has(Standing::CLAIMED)
    }

    /// The bits that the claim leaves, in words, if these are so few that a result may be noise.
    #[getter]
    fn doubt(&self) -> Option<String> {
        let account = on_kept!(self, account);
        account.is_doubtful().then(|| account.left())
    }

    /// Whether a value exceeded the bound of its encryption, so that no claim holds.
    #[getter]
    fn exceeds(&self) -> bool {
        on_kept!(self, account).standing.has(Standing::EXCEEDED)
    }

    /// The instruction that lost most precision so far: the bits, its name, and its number in the program that ran.
    #[getter]
    fn loss(&self) -> Option<(f64, &'static str, usize)> {
        on_kept!(self, account).loss.map(|loss| (loss.bits, loss.op, loss.at))
    }

    /// Refuses a ciphertext whose claim leaves too few bits.
    fn require_precise(&self) -> PyResult<()> {
        guarded(|| on_kept!(self, account).require_precise("result").map_err(raise))
    }

    /// The same ciphertext with another bound on its values.
    fn within(&self, py: Python<'_>, bound: f64) -> PyResult<Self> {
        self.make(py, move |_, x| x.clone().within(bound))
    }

    /// The same ciphertext with bounds that the owner of the key vouches for; with `like`, those of that which are not given.
    #[pyo3(signature = (values=None, worst=None, like=None))]
    fn vouched(
        &self,
        py: Python<'_>,
        values: Option<f64>,
        worst: Option<f64>,
        like: Option<&CkksCiphertext>,
    ) -> PyResult<Self> {
        let like = like.map(|like| like.0.clone());
        self.make(py, move |_, x| match like {
            Some(like) => {
                let x = x.clone().vouched_like(&*like.open()?)?;
                let Account { values: v, worst: w, .. } = x.account();
                x.vouched(values.unwrap_or(v), worst.unwrap_or(w))
            }
            None => x.clone().vouched(values, worst),
        })
    }

    /// Bits that can be shared if `queries` decryptions are shared in all.
    fn bits_to_share(&self, py: Python<'_>, queries: u64) -> PyResult<f64> {
        brief(py, &self.0.on, |c| c.bits_to_share(&*self.0.open()?, queries))
    }

    /// The largest absolute value of a slot that its level has room for.
    #[getter]
    fn largest(&self) -> f64 {
        self.0.on.context.largest_at(self.level(), self.scale())
    }

    /// The same ciphertext, computed with by the threads of another context of its set.
    #[pyo3(name = "on")]
    fn attached(&self, py: Python<'_>, on: &CkksMachine) -> PyResult<Self> {
        let (own, other) = (on_kept!(self, params), on.0.context.params().name);
        if own == other && self.0.on.compact == on.0.compact {
            return Ok(CkksCiphertext(Vector { on: on.0.clone(), ..self.0.clone() }));
        }
        if own == other {
            let own = |_: &Context| Ok((self.0.open()?.as_ref().clone(), self.0.real));
            return CkksCiphertext::made(py, &on.0, own);
        }
        let (wanted, remedy) = (format!("a ciphertext of `{other}`"), "use one set throughout");
        Err(raise(Error::wrong_params("attach", wanted, format!("`{own}`"), remedy)))
    }

    /// `self + other`.
    fn add(&self, py: Python<'_>, other: &CkksCiphertext) -> PyResult<Self> {
        self.with(&[&self.0, &other.0], None).one(py, &Operator::Add).map(CkksCiphertext)
    }

    /// `self − other`.
    fn subtract(&self, py: Python<'_>, other: &CkksCiphertext) -> PyResult<Self> {
        self.with(&[&self.0, &other.0], None).one(py, &Operator::Subtract).map(CkksCiphertext)
    }

    /// `−self`.
    fn negate(&self, py: Python<'_>) -> PyResult<Self> {
        self.with(&[&self.0], None).one(py, &Operator::Negate).map(CkksCiphertext)
    }

    /// `self + values`; of encoded values at the lower of the two levels.
    fn add_plain(&self, py: Python<'_>, values: Given<'_>) -> PyResult<Self> {
        self.beside(py, &values, Operator::AddPlain)
    }

    /// `self − values`.
    fn subtract_plain(&self, py: Python<'_>, values: Given<'_>) -> PyResult<Self> {
        self.beside(py, &values, Operator::SubtractPlain)
    }

    /// `values − self`.
    fn subtract_from_plain(&self, py: Python<'_>, values: Given<'_>) -> PyResult<Self> {
        self.beside(py, &values, Operator::SubtractFromPlain)
    }

    /// `self · values`, one level lower.
    fn multiply_plain(&self, py: Python<'_>, values: Given<'_>) -> PyResult<Self> {
        self.beside(py, &values, Operator::MultiplyPlain)
    }

    /// The bits and the count of the integers that its coefficients are; none of values in slots.
    #[getter]
    fn integers(&self) -> Option<(u32, usize)> {
        on_kept!(self, integers).map(|own| (own.bits, own.count))
    }

    /// `self · factor` for an integer, by sums.
    fn multiple(&self, py: Python<'_>, factor: i64) -> PyResult<Self> {
        self.with(&[&self.0], None).one(py, &Operator::Multiple(factor)).map(CkksCiphertext)
    }

    /// Integers that everybody knows, 8 bytes each, as a ciphertext that hides nothing, to be added to this one of integers.
    fn public(&self, py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let (key, data) = (on_kept!(self, key_id), integers(data));
        let bits = on_kept!(self, integers).map_or(0, |own| own.bits);
        let public = |c: &Context| Ok((c.public_integers(&data, bits, key)?, true));
        CkksCiphertext::made(py, &self.0.on, public)
    }

    /// `i · self`, exact.
    fn multiply_i(&self, py: Python<'_>) -> PyResult<Self> {
        self.with(&[&self.0], None).one(py, &Operator::MultiplyI).map(CkksCiphertext)
    }

    /// The same values at a lower level.
    fn level_down(&self, py: Python<'_>, level: usize) -> PyResult<Self> {
        self.with(&[&self.0], None).one(py, &Operator::LevelDown(level)).map(CkksCiphertext)
    }

    /// Whether all values are known to be real.
    #[getter]
    fn real(&self) -> bool {
        self.0.real
    }

    /// The same ciphertext, of whose values the caller says that they are real.
    fn as_real(&self) -> Self {
        CkksCiphertext(Vector { real: true, ..self.0.clone() })
    }

    /// Writes a file, which says whether all values are known to be real.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let real = Some(self.0.real);
        let save = |c: &Context| c.save_noted_ciphertext(&*self.0.open()?, real, &path);
        brief(py, &self.0.on, save)
    }

    /// The bytes of a file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let real = Some(self.0.real);
        let write = |c: &Context| c.noted_ciphertext_to_bytes(&*self.0.open()?, real);
        Ok(PyBytes::new(py, &brief(py, &self.0.on, write)?))
    }
}
