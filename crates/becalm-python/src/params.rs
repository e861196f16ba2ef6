//! Parameter sets.

use crate::call::{guarded, raise};
use becalm::math::Modulus;
use becalm::params::{Kind, ModulusSwitch, Need, Noise, Order, Scheme, TfheParams, find};
use becalm::tfhe::noise::NoiseReport;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// A parameter set: dimensions, and the claims about them. Get one by `becalm.params`.
///
/// Variances and standard deviations are in fractions of the torus.
#[pyclass(frozen, module = "becalm", eq)]
#[derive(PartialEq)]
pub struct Params(pub Arc<TfheParams>);

#[pymethods]
impl Params {
    /// The set of a name.
    #[staticmethod]
    fn named(name: &str) -> PyResult<Self> {
        guarded(|| Ok(TfheParams::named(name).map_err(raise)?.into()))
    }

    /// Every set, the default first.
    #[staticmethod]
    fn all() -> Vec<Self> {
        TfheParams::all().iter().map(Params::from).collect()
    }

    /// The cheapest standard set that meets a need.
    #[staticmethod]
    fn find(bits: u32, log2_pfail: f64, modulus: &str, norm2: f64, slots: usize) -> PyResult<Self> {
        let modulus = match modulus {
            "2^64" => Modulus::Native,
            "p" => Modulus::Goldilocks,
            other => {
                let remedy = "choose the modulus of the machine: CPU and GPU 2^64, processor p";
                return Err(raise(becalm::Error::bad_input(
                    "params",
                    "modulus 2^64 or p",
                    other,
                    remedy,
                )));
            }
        };
        let need = Need { bits, log2_pfail, modulus, norm2, slots, ..Need::default() };
        guarded(|| Ok(find(&need).map_err(raise)?.into()))
    }

    /// Refuses a set below 128 bits unless `allow_insecure`.
    fn require_secure(&self, allow_insecure: bool) -> PyResult<()> {
        guarded(|| self.0.require_secure(allow_insecure).map_err(raise))
    }

    /// Refuses an evaluation key that does not fit `free` bytes.
    fn require_keys(&self, free: usize) -> PyResult<()> {
        guarded(|| self.0.require_keys("keygen", Some(free)).map_err(raise))
    }

    /// Name: `tfhe_2_2`.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// `standard` (at least 128 bits), `comparison` (of a paper) or `toy`.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.kind {
            Kind::Standard => "standard",
            Kind::Comparison => "comparison",
            Kind::Toy => "toy",
        }
    }

    /// The modulus of the ciphertexts: `2^64` or `p` = 2^64 − 2^32 + 1.
    #[getter]
    fn modulus(&self) -> &'static str {
        match self.0.modulus {
            Modulus::Native => "2^64",
            Modulus::Goldilocks => "p",
        }
    }

    /// How many values a table sees: message modulus times carry modulus.
    #[getter]
    fn values(&self) -> u64 {
        self.0.plaintext_modulus()
    }

    /// How many values a message takes.
    #[getter]
    fn message_modulus(&self) -> u64 {
        self.0.message_modulus
    }

    /// Room above the message for sums.
    #[getter]
    fn carry_modulus(&self) -> u64 {
        self.0.carry_modulus
    }

    /// Messages in one ciphertext behind a common mask; 1 for plain sets.
    #[getter]
    fn slots(&self) -> usize {
        self.0.slots
    }

    /// n, the dimension of the small key.
    #[getter]
    fn lwe_dimension(&self) -> usize {
        self.0.lwe_dimension
    }

    /// k, the number of mask polynomials.
    #[getter]
    fn glwe_dimension(&self) -> usize {
        self.0.glwe_dimension
    }

    /// N, the degree of the ring.
    #[getter]
    fn polynomial_size(&self) -> usize {
        self.0.polynomial_size
    }

    /// `(base_log, level)` of the bootstrapping key's gadget.
    #[getter]
    fn pbs_gadget(&self) -> (u32, u32) {
        (self.0.pbs.base_log, self.0.pbs.level)
    }

    /// `(base_log, level)` of the key-switching key's gadget.
    #[getter]
    fn ks_gadget(&self) -> (u32, u32) {
        (self.0.ks.base_log, self.0.ks.level)
    }

    /// log2 of the modulus after the key switch: 64 or 32.
    #[getter]
    fn ks_modulus_log2(&self) -> u32 {
        self.0.ks_modulus_log2
    }

    /// Noise under the small key, in words.
    #[getter]
    fn lwe_noise(&self) -> String {
        noise_in_words(self.0.lwe_noise)
    }

    /// Noise under the big key, in words.
    #[getter]
    fn glwe_noise(&self) -> String {
        noise_in_words(self.0.glwe_noise)
    }

    /// Largest 2-norm of a linear combination of bootstrap outputs that the next bootstrap takes.
    #[getter]
    fn max_norm2(&self) -> f64 {
        self.0.max_norm2
    }

    /// Rounding before the blind rotation: `plain` or `centered`.
    #[getter]
    fn modulus_switch(&self) -> &'static str {
        match self.0.modulus_switch {
            ModulusSwitch::Plain => "plain",
            ModulusSwitch::Centered => "centered",
            ModulusSwitch::Companion { .. } => "companion",
        }
    }

    /// `ks_pbs` (key switch first) or `pbs_ks`.
    #[getter]
    fn order(&self) -> &'static str {
        match self.0.order {
            Order::KsPbs => "ks_pbs",
            Order::PbsKs => "pbs_ks",
        }
    }

    /// Bits of security claimed.
    #[getter]
    fn security_bits(&self) -> f64 {
        self.0.security_bits
    }

    /// Where the claim of security comes from.
    #[getter]
    fn security_source(&self) -> &str {
        &self.0.security_source
    }

    /// log2 of the claimed probability that one bootstrap fails, in one slot.
    #[getter]
    fn log2_pfail(&self) -> f64 {
        self.0.log2_pfail
    }

    /// Where the set comes from.
    #[getter]
    fn source(&self) -> &str {
        &self.0.source
    }

    /// Bytes of the evaluation key as stored and sent.
    #[getter]
    fn stored_key_bytes(&self) -> u64 {
        self.0.seeded_bootstrap_key_bytes().saturating_add(self.0.seeded_key_switch_key_bytes())
    }

    /// Bytes of the bootstrapping key in memory.
    #[getter]
    fn bootstrap_key_bytes(&self) -> u64 {
        self.0.bootstrap_key_bytes()
    }

    /// Bytes of the key-switching key in memory.
    #[getter]
    fn key_switch_key_bytes(&self) -> u64 {
        self.0.key_switch_key_bytes()
    }

    /// Bytes of the secret keys.
    #[getter]
    fn secret_key_bytes(&self) -> u64 {
        self.0.secret_key_bytes()
    }

    /// Bytes of one ciphertext.
    #[getter]
    fn ciphertext_bytes(&self) -> u64 {
        self.0.ciphertext_bytes()
    }

    /// Variances by cause, and the failure probability that follows from them.
    fn noise<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = guarded(|| Ok(NoiseReport::of(&self.0)))?;
        let d = PyDict::new(py);
        d.set_item("fresh", report.fresh)?;
        d.set_item("blind_rotation", report.blind_rotation.total())?;
        d.set_item("fft", report.blind_rotation.fft)?;
        d.set_item("external_product", report.blind_rotation.external_product)?;
        d.set_item("decomposition", report.blind_rotation.decomposition)?;
        d.set_item("key_switch", report.key_switch)?;
        d.set_item("modulus_switch", report.modulus_switch)?;
        d.set_item("norm2", report.norm2)?;
        d.set_item("total", report.total)?;
        d.set_item("log2_pfail", report.log2_pfail)?;
        d.set_item("log2_pfail_any_slot", report.log2_pfail_of_any_slot())?;
        Ok(d)
    }

    /// The noise budget as a small table for people.
    fn noise_report(&self) -> PyResult<String> {
        guarded(|| Ok(NoiseReport::of(&self.0).to_string()))
    }

    /// The HTML that notebooks show.
    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("becalm._html")?.call_method1("of_params", (slf,))?.extract()
    }

    fn __repr__(&self) -> String {
        let p = &self.0;
        format!(
            "<becalm.Params {}: {} values{}, {:.1} bits of security, failure 2^{:.1}, n = {}, k = {}, N = {}, modulo {}{}>",
            p.name,
            p.plaintext_modulus(),
            if p.slots > 1 { format!(" in each of {} slots", p.slots) } else { String::new() },
            p.security_bits,
            p.log2_pfail,
            p.lwe_dimension,
            p.glwe_dimension,
            p.polynomial_size,
            self.modulus(),
            p.assumption().map(|a| format!("; {a}")).unwrap_or_default()
        )
    }

    fn __hash__(&self) -> u64 {
        let id = self.0.id().0;
        id.iter().take(8).fold(0, |h, b| h << 8 | u64::from(*b))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<Params>().getattr("named")?, (self.0.name.to_string(),)))
    }
}

impl From<&TfheParams> for Params {
    fn from(p: &TfheParams) -> Self {
        Params(Arc::new(p.clone()))
    }
}

/// The scheme that the name of a set belongs to: `"tfhe"` or `"ckks"`.
#[pyfunction]
pub fn scheme_of(name: &str) -> &'static str {
    Scheme::of(name).name()
}

fn noise_in_words(noise: Noise) -> String {
    match noise {
        Noise::Gaussian { std } => format!("Gaussian of deviation 2^{:.2}", std.log2()),
        Noise::TUniform { bound_log2 } => format!("TUniform of bound 2^{bound_log2}"),
    }
}
