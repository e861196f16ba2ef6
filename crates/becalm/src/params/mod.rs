//! Parameter sets: rows of one table, and what is claimed of them.
//!
//! A set is chosen by need ([`find`]) or by name ([`TfheParams::named`]); its claims (security, failure probability)
//! are recomputed by tests, never trusted. A set that arrives from outside passes [`TfheParams::validate`] (shape) and
//! [`TfheParams::require_secure`] (128 bits by the estimator, independent of the set's own claim).

mod artifact;
mod ckks;
mod companion;
mod fast;
mod lookup;
mod table;
mod validate;

pub use artifact::ArtifactSet;
pub use ckks::{CkksBootstrap, CkksParams, NOISE_STD, USUAL_CKKS};
pub use companion::{RoundingLaw, rounding_law};
pub(crate) use lookup::near;
pub use lookup::{Need, Scheme, find};

use crate::math::Modulus;
pub use crate::math::gadget::Gadget;
use crate::security::{self, Instance, Secret};
use crate::words::megabytes;
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
    /// Centred, for [`Rotation::Extended`]: each coefficient of the mask goes not to the nearest exponent but to a multiple of
    /// 2^t for which 2^(η − t) + `weight`·error² (in cells) is least, so that more accumulators stay where they are.
    Companion {
        /// η, that of the rotation.
        coarsest_log2: u32,
        /// External products that a cell² of error is worth.
        weight: u32,
    },
}

/// How the blind rotation walks over the small key, which also says how that key is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Rotation {
    /// One key bit a step: n external products, n GGSW.
    #[default]
    Classic,
    /// `grouping` key bits a step: n/g external products by a bundle of 2^g − 1 GGSW, one for each non-empty subset.
    MultiBit {
        /// g, a divisor of n.
        grouping: u32,
    },
    /// The small key is made of blocks of `size` bits, at most one of which is 1: n/size external products by a bundle of
    /// `size` GGSW. A separate assumption: the fast family.
    Block {
        /// Bits in a block, a divisor of n.
        size: u32,
    },
    /// One key bit a step on a table of 2^`factor_log2`·N coefficients in as many accumulators of N.
    Extended {
        /// η = log2 of the number of accumulators.
        factor_log2: u32,
    },
}

impl Rotation {
    /// Bits of the small key that one step of the rotation takes: g, b, or 1.
    pub fn group_bits(self) -> usize {
        match self {
            Rotation::MultiBit { grouping: size } | Rotation::Block { size } => {
                size.max(1) as usize
            }
            Rotation::Classic | Rotation::Extended { .. } => 1,
        }
    }

    /// How far the sizes of two rotations are apart.
    fn unlike(self, other: Rotation) -> usize {
        let size = |rotation| match rotation {
            Rotation::Extended { factor_log2 } => factor_log2 as usize,
            other => other.group_bits(),
        };
        size(self).abs_diff(size(other))
    }

    /// GGSW ciphertexts that one step multiplies by: one for each thing that the bits of a group may be, other than all
    /// zero. 2^g − 1, b, or 1.
    pub fn group_ggsws(self) -> usize {
        match self {
            Rotation::MultiBit { grouping } => (1 << grouping.clamp(1, 16)) - 1,
            _ => self.group_bits(),
        }
    }

    /// Probability that a bit of the small key is 1: 1/(b + 1) in blocks, else 1/2.
    pub fn key_density(self) -> f64 {
        match self {
            Rotation::Block { size } => 1.0 / (f64::from(size) + 1.0),
            _ => 0.5,
        }
    }
}

/// The use that a parameter set is meant for.
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
    /// The use that it is meant for.
    pub kind: Kind,
    /// The modulus of the ciphertexts.
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
    /// How the blind rotation walks over the small key.
    #[serde(default)]
    pub rotation: Rotation,
    /// w: messages in one ciphertext, each under its own key behind one common mask; 1 for plain ciphertexts.
    #[serde(default = "one")]
    pub slots: usize,
    /// Whether the small key is the beginning of the big one, so that the key switch leaves those coefficients alone. An
    /// assumption of its own: the fast family.
    #[serde(default)]
    pub shared_key: bool,
    /// Claim: bits of security, the least over the attacks considered and over both keys.
    pub security_bits: f64,
    /// Where `security_bits` comes from.
    pub security_source: Cow<'static, str>,
    /// Claim: log2 of the probability that one bootstrap at the noise bound fails.
    pub log2_pfail: f64,
    /// Where the set comes from.
    pub source: Cow<'static, str>,
}

/// A digest of all that keys and ciphertexts depend on: equal for equal arithmetic, whatever the set is called and
/// whatever is claimed of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ParamsId(pub [u8; 16]);

impl fmt::Display for ParamsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// The security of a standard set, at least.
const SECURE_BITS: f64 = 128.0;
/// Least n of a standard set: below, the cost models of the attacks say little.
const LEAST_DIMENSION: usize = 450;
/// Least noise of a standard set, grid units: 4, less rounding. Below, samples begin to be equations whatever n is.
const LEAST_NOISE: f64 = 3.99;

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

    /// GGSW ciphertexts of the bootstrapping key: n, or one for each value other than 0 of each group of key bits.
    pub fn ggsw_count(&self) -> usize {
        let groups = self.lwe_dimension / self.rotation.group_bits();
        groups.saturating_mul(self.rotation.group_ggsws())
    }

    /// Coefficients of the big key that a key switch leaves as they are: n where the small key is its beginning, or 0.
    pub fn shared_dimension(&self) -> usize {
        if self.shared_key { self.lwe_dimension.min(self.big_dimension()) } else { 0 }
    }

    /// Coefficients of the big key that a key switch replaces, for each of which its key has ℓ rows.
    pub fn switched_dimension(&self) -> usize {
        self.big_dimension() - self.shared_dimension()
    }

    /// Whether the set rests on an assumption that standard keys do not need: a small key made of blocks, or shared with
    /// the big one. Such sets are of the fast family and are never chosen unless asked for.
    pub fn is_fast(&self) -> bool {
        self.assumption().is_some()
    }

    /// The assumption of a set of the fast family beyond LWE with uniform binary keys, in words; `None` for standard keys.
    pub fn assumption(&self) -> Option<&'static str> {
        match (self.rotation, self.shared_key) {
            (Rotation::Block { .. }, true) => {
                Some("fast family: a small key of blocks that is the beginning of the big key")
            }
            (Rotation::Block { .. }, false) => Some("fast family: a small key of blocks"),
            (_, true) => Some("fast family: a small key that is the beginning of the big key"),
            _ => None,
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

    /// The problems of an attacker on the set's public material: the small key, then the big one as an LWE key of
    /// dimension k·N.
    ///
    /// A key of blocks of b bits stands as a sparse ternary one of no more entropy, log2(b + 1)/b bits a coefficient:
    /// there is less to guess in that, and it is shorter, than in the key itself. A big key that begins with a small one
    /// of blocks stands as if all of it were made of blocks. `docs/bootstrap/fast.md` has the reasons.
    ///
    /// One reduced basis serves the keys of all slots, which share a mask, and all N rotations of a big one.
    pub fn instances(&self) -> [Instance; 2] {
        let instance = |n: usize, ring: usize, blocks: bool, log2_q: u32, variance: f64| Instance {
            n: n as u32,
            targets: ring.saturating_mul(self.slots).min(u32::MAX as usize) as u32,
            log2_q: f64::from(log2_q),
            secret: match self.rotation {
                Rotation::Block { size } if blocks => {
                    Secret::Sparse { weight: fast::proxy_weight(n, size) }
                }
                _ => Secret::Binary,
            },
            noise_std: variance.sqrt() * f64::from(log2_q).exp2(),
        };
        let (small, big) = (self.lwe_dimension, self.big_dimension());
        [
            instance(small, 1, true, self.ks_modulus_log2, self.lwe_variance()),
            instance(
                big,
                self.polynomial_size,
                self.shared_key,
                Modulus::LOG2,
                self.glwe_variance(),
            ),
        ]
    }

    /// k + w: polynomials of a GLWE ciphertext, masks and bodies.
    fn columns(&self) -> usize {
        self.glwe_dimension.saturating_add(self.slots)
    }

    /// Bytes of the bootstrapping key as a bootstrap reads it, transformed: ℓ·(k+w)²·N words of 64 bits for each GGSW
    /// ciphertext.
    pub fn bootstrap_key_bytes(&self) -> u64 {
        let rows = product([self.pbs.level as usize, self.columns()]) as usize;
        product([self.ggsw_count(), rows, self.columns(), self.polynomial_size, 8])
    }

    /// Bytes of the key-switching key as a key switch reads it: ℓ·(n+w) words of 64 or 32 bits for each of k·N
    /// coefficients, less those that are shared.
    pub fn key_switch_key_bytes(&self) -> u64 {
        let word = self.ks_modulus_log2 as usize / 8;
        let rows = product([self.switched_dimension(), self.ks.level as usize]) as usize;
        product([rows, self.lwe_dimension.saturating_add(self.slots), word])
    }

    /// Bytes of the bodies of the bootstrapping key, all that is stored when the masks are drawn again from a seed:
    /// ℓ·(k+w)·w·N words of 64 bits for each GGSW ciphertext.
    pub fn seeded_bootstrap_key_bytes(&self) -> u64 {
        let rows = product([self.pbs.level as usize, self.columns()]) as usize;
        product([self.ggsw_count(), rows, self.slots, self.polynomial_size, 8])
    }

    /// Bytes of the bodies of the key-switching key: ℓ·w words for each of k·N coefficients, less those that are shared.
    pub fn seeded_key_switch_key_bytes(&self) -> u64 {
        product([self.switched_dimension(), self.ks.level as usize, self.slots, 8])
    }

    /// Bytes of the secret keys as stored, a word for each bit: two keys a slot.
    pub fn secret_key_bytes(&self) -> u64 {
        product([self.lwe_dimension.saturating_add(self.big_dimension()), self.slots, 8])
    }

    /// Bytes of one ciphertext at rest: the mask and a body for each slot, 64-bit words.
    pub fn ciphertext_bytes(&self) -> u64 {
        product([self.ciphertext_dimension().saturating_add(self.slots), 8])
    }

    /// Multiply-adds of one key switch and one bootstrap, the order by which [`find`] ranks sets. With c = k + w, M = N/2:
    /// an external product takes c(ℓ+1)·2M·log2 M + c²ℓ·4M, a bundle of m GGSW m·c²ℓ·4M; a rotation takes n external
    /// products (classic), n/g of them with their bundles (multi-bit, block), or n·[`RoundingLaw::products`] (extended).
    /// The key switch takes ℓ_ks·(n + w) for each of k·N coefficients that are not shared, half of that modulo 2^32.
    pub fn cost(&self) -> f64 {
        let (n, slots) = (self.lwe_dimension as f64, self.slots as f64);
        let columns = self.glwe_dimension as f64 + slots;
        let (m, level) = (self.polynomial_size as f64 / 2.0, f64::from(self.pbs.level));
        let bundle = columns * columns * level * 4.0 * m;
        let product = columns * (level + 1.0) * 2.0 * m * m.log2() + bundle;
        let rotation = match self.rotation {
            Rotation::Classic => n * product,
            Rotation::Extended { .. } => n * self.rounding().products * product,
            Rotation::MultiBit { .. } | Rotation::Block { .. } => {
                let steps = n / self.rotation.group_bits() as f64;
                steps * (product + self.rotation.group_ggsws() as f64 * bundle)
            }
        };
        let rows = self.switched_dimension() as f64 * f64::from(self.ks.level);
        let weight = f64::from(self.ks_modulus_log2) / 64.0;
        rotation + rows * weight * (n + slots)
    }

    /// Coefficients of a lookup table: N, or 2^η·N in 2^η accumulators. The modulus switch goes to twice as many cells.
    pub fn table_size(&self) -> usize {
        self.polynomial_size.saturating_mul(self.accumulators())
    }

    /// Accumulators of a blind rotation: 2^η for [`Rotation::Extended`], else 1.
    pub fn accumulators(&self) -> usize {
        match self.rotation {
            Rotation::Extended { factor_log2 } => 1 << factor_log2.min(usize::BITS - 1),
            _ => 1,
        }
    }

    /// How masks are rounded for a rotation with several accumulators: the cost and the error.
    pub fn rounding(&self) -> RoundingLaw {
        let weight = match self.modulus_switch {
            ModulusSwitch::Companion { weight, .. } => Some(weight),
            _ => None,
        };
        rounding_law(self.accumulators().ilog2(), weight)
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
        let mut bytes = postcard::to_stdvec(&row).unwrap_or_default();
        // Absent where nothing differs from the classic bootstrap, so that ids from before there were others hold.
        let variant = (self.rotation, self.slots, self.shared_key);
        if variant != (Rotation::Classic, 1, false) {
            bytes.extend(postcard::to_stdvec(&variant).unwrap_or_default());
        }
        let mut id = [0; 16];
        id.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
        ParamsId(id)
    }

    /// Bits of security, estimated here and now: the least over both keys of usvp, bdd, dual and dual hybrid (and, for
    /// keys of blocks, the four attacks with guessing) by the strict search. Some 30 ms; seconds for keys of blocks.
    ///
    /// # Errors
    /// `bad_input` if a key is not an LWE instance (noise of 0, say).
    pub fn estimated_bits(&self) -> Result<f64> {
        security::least_bits(&self.instances())
    }

    /// Refuses an evaluation key that does not fit `free` bytes: as it is made, and in the form that computes.
    ///
    /// # Errors
    /// `Memory`.
    pub fn require_keys(&self, op: &'static str, free: Option<usize>) -> Result<()> {
        let made = [self.seeded_bootstrap_key_bytes(), self.seeded_key_switch_key_bytes()];
        let ready = [self.bootstrap_key_bytes(), self.key_switch_key_bytes()];
        let wanted = made.into_iter().chain(ready).fold(0, u64::saturating_add);
        let Some(free) = free.filter(|free| wanted > *free as u64) else { return Ok(()) };
        let remedy = "choose a smaller set, or make the keys on another machine";
        let wanted = megabytes(usize::try_from(wanted).unwrap_or(usize::MAX));
        Err(Error::memory(op, wanted, format!("{} free", megabytes(free)), remedy))
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
}

/// Slots of a set that does not speak of them.
fn one() -> usize {
    1
}

/// A product of sizes that stays at the largest where a set from outside would overflow it.
fn product<const K: usize>(factors: [usize; K]) -> u64 {
    factors.iter().fold(1, |a, b| u64::saturating_mul(a, *b as u64))
}
