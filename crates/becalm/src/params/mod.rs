//! Parameter sets: rows of one table, and what is claimed of them.
//!
//! A set is chosen by need ([`find`](crate::params)) or by name; its claims (security, failure probability) are
//! recomputed by tests, never trusted.

use crate::math::Modulus;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

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
                (2f64.powi(2 * bound_log2 as i32 + 1) + 1.0) / 6.0 * 2f64.powi(-2 * modulus_log2 as i32)
            }
        }
    }
}

/// A gadget: digits of `base_log` bits, `level` of them, from the most significant end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gadget {
    /// log2 of the base B.
    pub base_log: u32,
    /// Number of digits ℓ.
    pub level: u32,
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
    /// Round to nearest and move the body by half the sum of the mask's rounding errors: the mean over the binary key is
    /// compensated and the variance halves.
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

impl TfheParams {
    /// k·N, the dimension of ciphertexts under the big key.
    pub fn big_dimension(&self) -> usize {
        self.glwe_dimension * self.polynomial_size
    }

    /// message·carry: how many values a lookup table has.
    pub fn plaintext_modulus(&self) -> u64 {
        self.message_modulus * self.carry_modulus
    }
}
