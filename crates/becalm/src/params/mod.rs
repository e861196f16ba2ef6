//! Parameter sets: rows of one table, and what is claimed of them.
//!
//! A set is chosen by need ([`find`]) or by name ([`TfheParams::named`]); its claims (security, failure probability)
//! are recomputed by tests, never trusted. A set that arrives from outside passes [`TfheParams::validate`] (shape) and
//! [`TfheParams::require_secure`] (128 bits by the estimator, whatever the set says of itself).

mod ckks;
mod lookup;
mod table;

pub use ckks::{CkksBootstrap, CkksParams, NOISE_STD};
pub use lookup::{Need, find};

use crate::math::Modulus;
pub use crate::math::gadget::Gadget;
use crate::security::{self, Attack, Instance, Search, Secret, estimate};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// How noise is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Noise {
    /// Rounded Gaussian of standard deviation `std`, as a fraction of the torus.
    Gaussian {
        /// Standard deviation, torus units (q = 1).
        std: f64,
    },
    /// Uniform over the integers −2^b ..= 2^b, the two ends with half weight, in units of the modulus it is added to.
    TUniform {
        /// log2 of the bound.
        bound_log2: u32,
    },
}

impl Noise {
    /// Variance in torus units when added to elements modulo `2^modulus_log2`.
    /// TUniform(b): (2^(2b+1) + 1)/6 grid units squared.
    pub fn variance(&self, modulus_log2: u32) -> f64 {
        match *self {
            Noise::Gaussian { std } => std * std,
            Noise::TUniform { bound_log2 } => {
                ((2.0 * f64::from(bound_log2) + 1.0).exp2() + 1.0) / 6.0
                    * (-2.0 * f64::from(modulus_log2)).exp2()
            }
        }
    }
}

/// Which of the two linear steps comes first, hence which key user ciphertexts are under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Key switch, then bootstrap: ciphertexts rest under the big key (dimension k·N).
    KsPbs,
    /// Bootstrap, then key switch: ciphertexts rest under the small key (dimension n).
    PbsKs,
}

/// How a mask is rounded to Z_2N before the blind rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModulusSwitch {
    /// Round to nearest.
    Plain,
    /// Round the mask to nearest; move the body by half the sum of the mask's rounding errors (rounded − exact) and down
    /// by half a cell, then round it to nearest. The mean over the binary key is compensated, the variance halves, and
    /// the body's own rounding moves no phase across the edge of a table's box.
    Centered,
}

/// What a parameter set may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// At least 128 bits of security; runs without further words.
    Standard,
    /// A set of a paper, below 128 bits; refused unless insecure parameters are allowed by name.
    Comparison,
    /// Small and insecure, for tests and explanations; refused unless insecure parameters are allowed by name.
    Toy,
}

/// A TFHE parameter set. All variances and standard deviations are in torus units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TfheParams {
    /// Name, unique in the table: `"tfhe_2_2"`.
    pub name: Cow<'static, str>,
    /// What it may be used for.
    pub kind: Kind,
    /// What ciphertexts are computed modulo.
    pub modulus: Modulus,
    /// n: dimension of the small LWE key.
    pub lwe_dimension: usize,
    /// Noise of ciphertexts under the small key (the key-switching key), in units of 2^`ks_modulus_log2` if TUniform.
    pub lwe_noise: Noise,
    /// k: number of mask polynomials.
    pub glwe_dimension: usize,
    /// N: degree of the ring, a power of two.
    pub polynomial_size: usize,
    /// Noise of ciphertexts under the big key (bootstrapping key, fresh ciphertexts).
    pub glwe_noise: Noise,
    /// Gadget of the bootstrapping key.
    pub pbs: Gadget,
    /// Gadget of the key-switching key.
    pub ks: Gadget,
    /// log2 of the modulus after the key switch: 64, or 32 for a key of half the size. 64 stands for q itself.
    pub ks_modulus_log2: u32,
    /// Message modulus: how many values a message takes.
    pub message_modulus: u64,
    /// Carry modulus: room above the message for linear operations; a table sees message·carry values.
    pub carry_modulus: u64,
    /// ν: the largest 2-norm of a linear combination of fresh bootstrap outputs that may enter the next bootstrap.
    pub max_norm2: f64,
    /// Rounding to Z_2N.
    pub modulus_switch: ModulusSwitch,
    /// Order of key switch and bootstrap.
    pub order: Order,
    /// Claim: bits of security, the least over the attacks considered and over both keys.
    pub security_bits: f64,
    /// Where `security_bits` comes from.
    pub security_source: Cow<'static, str>,
    /// Claim: log2 of the probability that one bootstrap at the noise bound fails.
    pub log2_pfail: f64,
    /// Where the set comes from.
    pub source: Cow<'static, str>,
}

/// What keys and ciphertexts depend on, as one number: equal for equal arithmetic, whatever the set is called and
/// whatever is claimed of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ParamsId(pub [u8; 16]);

impl fmt::Display for ParamsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// What a standard set has at least.
const SECURE_BITS: f64 = 128.0;
/// Least n of a standard set: below, the cost models of the attacks say little.
const LEAST_DIMENSION: usize = 450;
/// Least noise of a standard set, grid units: 4, less rounding. Below, samples begin to be equations whatever n is.
const LEAST_NOISE: f64 = 3.99;
/// Largest k·N of a set that is taken from outside.
const MAX_BIG_DIMENSION: usize = 1 << 17;
/// Largest n of a set that is taken from outside.
const MAX_LWE_DIMENSION: usize = 1 << 14;

impl TfheParams {
    /// The set of this name, exactly as in the table.
    ///
    /// # Errors
    /// `wrong_params` naming the nearest names when there is none.
    pub fn named(name: &str) -> Result<&'static TfheParams> {
        lookup::named(name)
    }

    /// Every set of the table, the default (`tfhe_2_2`) first.
    pub fn all() -> &'static [TfheParams] {
        &table::TABLE
    }

    /// k·N, the dimension of ciphertexts under the big key.
    pub fn big_dimension(&self) -> usize {
        self.glwe_dimension.saturating_mul(self.polynomial_size)
    }

    /// Dimension of ciphertexts at rest: k·N if the key switch comes first, n if it comes last.
    pub fn ciphertext_dimension(&self) -> usize {
        match self.order {
            Order::KsPbs => self.big_dimension(),
            Order::PbsKs => self.lwe_dimension,
        }
    }

    /// message·carry: how many values a lookup table has.
    pub fn plaintext_modulus(&self) -> u64 {
        self.message_modulus.saturating_mul(self.carry_modulus)
    }

    /// Variance of one coefficient of noise under the small key, torus units.
    pub fn lwe_variance(&self) -> f64 {
        self.lwe_noise.variance(self.ks_modulus_log2)
    }

    /// Variance of one coefficient of noise under the big key, torus units.
    pub fn glwe_variance(&self) -> f64 {
        self.glwe_noise.variance(Modulus::LOG2)
    }

    /// What an attacker on the set's public material has to solve: the small key, then the big one as an LWE key of
    /// dimension k·N.
    pub fn instances(&self) -> [Instance; 2] {
        let instance = |n: usize, log2_q: u32, variance: f64| Instance {
            n: n as u32,
            log2_q: f64::from(log2_q),
            secret: Secret::Binary,
            noise_std: variance.sqrt() * f64::from(log2_q).exp2(),
        };
        [
            instance(self.lwe_dimension, self.ks_modulus_log2, self.lwe_variance()),
            instance(self.big_dimension(), Modulus::LOG2, self.glwe_variance()),
        ]
    }

    /// Bytes of the bootstrapping key as a bootstrap reads it, transformed: n·ℓ·(k+1)²·N words of 64 bits.
    pub fn bootstrap_key_bytes(&self) -> u64 {
        product([self.seeded_bootstrap_key_bytes() as usize, self.glwe_dimension.saturating_add(1)])
    }

    /// Bytes of the key-switching key as a key switch reads it: k·N·ℓ·(n+1) words of 64 or 32 bits.
    pub fn key_switch_key_bytes(&self) -> u64 {
        let word = self.ks_modulus_log2 as usize / 8;
        let rows = product([self.big_dimension(), self.ks.level as usize]) as usize;
        product([rows, self.lwe_dimension.saturating_add(1), word])
    }

    /// Bytes of the bodies of the bootstrapping key, all that is stored when the masks are drawn again from a seed:
    /// n·ℓ·(k+1)·N words of 64 bits.
    pub fn seeded_bootstrap_key_bytes(&self) -> u64 {
        let rows =
            product([self.pbs.level as usize, self.glwe_dimension.saturating_add(1)]) as usize;
        product([self.lwe_dimension, rows, self.polynomial_size, 8])
    }

    /// Bytes of the bodies of the key-switching key: k·N·ℓ words of 64 or 32 bits.
    pub fn seeded_key_switch_key_bytes(&self) -> u64 {
        product([self.big_dimension(), self.ks.level as usize, 8])
    }

    /// Bytes of the two secret keys as stored, a word for each bit.
    pub fn secret_key_bytes(&self) -> u64 {
        product([self.lwe_dimension.saturating_add(self.big_dimension()), 8])
    }

    /// Bytes of one ciphertext at rest: mask and body, 64-bit words.
    pub fn ciphertext_bytes(&self) -> u64 {
        product([self.ciphertext_dimension(), 8]).saturating_add(8)
    }

    /// Multiply-adds of one key switch and one bootstrap, the order by which [`find`] ranks sets:
    /// n·((k+1)(ℓ+1)·2M·log2 M + (k+1)²ℓ·4M) + k·N·ℓ_ks·n, M = N/2, with half weight on the key switch modulo 2^32.
    pub fn cost(&self) -> f64 {
        let (n, k1) = (self.lwe_dimension as f64, self.glwe_dimension as f64 + 1.0);
        let (m, level) = (self.polynomial_size as f64 / 2.0, f64::from(self.pbs.level));
        let transforms = k1 * (level + 1.0) * 2.0 * m * m.log2();
        let products = k1 * k1 * level * 4.0 * m;
        let ks_weight = f64::from(self.ks_modulus_log2) / 64.0;
        n * (transforms
            + products
            + self.big_dimension() as f64 * f64::from(self.ks.level) * ks_weight)
    }

    /// Digest of what keys and ciphertexts depend on: every field but the name, the kind, the claims and their sources.
    pub fn id(&self) -> ParamsId {
        let row = (
            (
                self.modulus,
                self.lwe_dimension,
                self.lwe_noise,
                self.glwe_dimension,
                self.polynomial_size,
                self.glwe_noise,
            ),
            (self.pbs, self.ks, self.ks_modulus_log2, self.message_modulus, self.carry_modulus),
            (self.max_norm2, self.modulus_switch, self.order),
        );
        // Plain numbers and unit variants always serialise; the digest of nothing would be no set's.
        let bytes = postcard::to_stdvec(&row).unwrap_or_default();
        let mut id = [0; 16];
        id.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
        ParamsId(id)
    }

    /// Bits of security, estimated here and now: the least of usvp, bdd, dual and dual hybrid over both keys by the
    /// strict search. Some 30 ms.
    ///
    /// # Errors
    /// `bad_input` if a key is no LWE instance (noise of 0, say).
    pub fn estimated_bits(&self) -> Result<f64> {
        let mut least = security::CEILING_BITS;
        for instance in self.instances() {
            least = least.min(estimate(&instance, &Attack::DENSE, Search::Strict)?.bits());
        }
        Ok(least)
    }

    /// Refuses a set below 128 bits unless `allow_insecure`. A set passes if it is of kind [`Kind::Standard`] and either
    /// stands in the table, whose claims tests estimate, or is estimated now: a file cannot talk its way through.
    ///
    /// # Errors
    /// `insecure`, naming a standard set to use instead.
    pub fn require_secure(&self, allow_insecure: bool) -> Result<()> {
        if allow_insecure || (self.kind == Kind::Standard && lookup::is_row(self)) {
            return Ok(());
        }
        let got = match self.kind {
            Kind::Toy => "a toy for tests".to_string(),
            Kind::Comparison => format!("a comparison set of {:.1} bits", self.security_bits),
            Kind::Standard if self.validate().is_err() || self.lwe_dimension < LEAST_DIMENSION => {
                format!("of dimension n = {}", self.lwe_dimension)
            }
            Kind::Standard if self.instances().iter().any(|i| i.noise_std < LEAST_NOISE) => {
                "with noise below four grid units".to_string()
            }
            Kind::Standard => match self.estimated_bits() {
                Ok(bits) if bits >= SECURE_BITS && self.security_bits <= bits => return Ok(()),
                Ok(bits) => {
                    format!("which has {bits:.1} bits and claims {:.1}", self.security_bits)
                }
                Err(e) => format!("which cannot be estimated ({})", e.detail().got),
            },
        };
        let instead = lookup::instead_of(self);
        Err(Error::insecure(
            "use parameters",
            "a set of at least 128 bits",
            format!("`{}`, {got}", self.name),
            format!("use `{instead}`, or allow insecure parameters if nothing secret is encrypted"),
        ))
    }

    /// Checks that the set can be computed with at all: every field in its range. For sets from outside, before any
    /// memory is asked for. Says nothing of security or failure probability.
    ///
    /// # Errors
    /// `wrong_params` naming the field.
    pub fn validate(&self) -> Result<()> {
        self.validate_text()?;
        self.validate_shape()?;
        self.validate_noise()?;
        self.validate_values()
    }

    fn validate_text(&self) -> Result<()> {
        let name_ok =
            (1..=64).contains(&self.name.len()) && self.name.bytes().all(|b| b.is_ascii_graphic());
        check(name_ok, "a name of 1 to 64 visible ASCII characters", || {
            format!("{} bytes", self.name.len())
        })?;
        let longest = self.source.len().max(self.security_source.len());
        check(longest <= 256, "sources of at most 256 bytes", || format!("{longest} bytes"))
    }

    fn validate_shape(&self) -> Result<()> {
        let (n, k, degree) = (self.lwe_dimension, self.glwe_dimension, self.polynomial_size);
        check((1..=MAX_LWE_DIMENSION).contains(&n), "n in 1..=16384", || format!("n = {n}"))?;
        check((1..=16).contains(&k), "k in 1..=16", || format!("k = {k}"))?;
        let degree_ok = degree.is_power_of_two() && (256..=1 << 16).contains(&degree);
        check(degree_ok, "N a power of two in 256..=65536", || format!("N = {degree}"))?;
        check(k * degree <= MAX_BIG_DIMENSION, "k·N at most 131072", || {
            format!("k·N = {}", k * degree)
        })?;
        let switched = self.ks_modulus_log2;
        let word_ok = switched == 64
            || switched == 32 && self.modulus == Modulus::Native && self.order == Order::KsPbs;
        let wanted =
            "a key switch modulo q, or modulo 2^32 where q = 2^64 and the key switch comes first";
        check(word_ok, wanted, || format!("2^{switched}"))?;
        for (name, g, log2) in [("pbs", self.pbs, 64), ("ks", self.ks, switched)] {
            // Digits fit an i32, and the last multiple of q/B^l is at least one grid unit with room to round.
            let digits_ok = (1..=31).contains(&g.base_log) && (1..=63).contains(&g.level);
            let wanted = format!(
                "{name} gadget: base_log in 1..=31, level at least 1, base_log·level below {log2}"
            );
            check(digits_ok && g.base_log * g.level < log2, &wanted, || {
                format!("{} x {}", g.base_log, g.level)
            })?;
        }
        Ok(())
    }

    fn validate_noise(&self) -> Result<()> {
        for (key, noise, log2) in [
            ("small", self.lwe_noise, self.ks_modulus_log2),
            ("big", self.glwe_noise, Modulus::LOG2),
        ] {
            let noise_ok = match noise {
                Noise::Gaussian { std } => (0.0..=0.03125).contains(&std),
                Noise::TUniform { bound_log2 } => bound_log2 <= log2 - 5,
            };
            check(
                noise_ok,
                &format!("noise of the {key} key of at most 1/32 of the torus"),
                || format!("{noise:?}"),
            )?;
        }
        Ok(())
    }

    fn validate_values(&self) -> Result<()> {
        let (message, carry) = (self.message_modulus, self.carry_modulus);
        let powers = message.is_power_of_two() && carry.is_power_of_two();
        check(powers, "message and carry moduli that are powers of two", || {
            format!("{message} and {carry}")
        })?;
        // Both are at most 2^63, so the product fits 128 bits. Two coefficients a value at least: a box has two halves.
        let product = u128::from(message) * u128::from(carry);
        let fits = message >= 2 && product * 2 <= self.polynomial_size as u128;
        check(fits, "a message modulus of 2 or more and message·carry at most N/2", || {
            format!("{message}·{carry}")
        })?;
        let norm_ok = (1.0..=1048576.0).contains(&self.max_norm2);
        check(norm_ok, "max_norm2 in 1..=2^20", || format!("{}", self.max_norm2))?;
        let claims_ok =
            (0.0..=1e6).contains(&self.security_bits) && (-1e6..=0.0).contains(&self.log2_pfail);
        let got = || format!("{} bits, 2^{}", self.security_bits, self.log2_pfail);
        check(claims_ok, "finite claims: security_bits >= 0 and log2_pfail <= 0", got)
    }
}

/// A product of sizes that stays at the largest where a set from outside would overflow it.
fn product<const K: usize>(factors: [usize; K]) -> u64 {
    factors.iter().fold(1, |a, b| u64::saturating_mul(a, *b as u64))
}

/// `Ok` if `ok`, else a `wrong_params` error.
fn check(ok: bool, wanted: &str, got: impl FnOnce() -> String) -> Result<()> {
    if ok {
        return Ok(());
    }
    Err(Error::wrong_params(
        "validate parameters",
        wanted,
        got(),
        "use a set of the table, or correct the field",
    ))
}
