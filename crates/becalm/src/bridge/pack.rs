//! From TFHE to CKKS: up to N ciphertexts of TFHE become the packed integers of one ciphertext.
//!
//! 1. modulus switch: both parts of each LWE ciphertext to q', a prime of nearly a word, rounded;
//! 2. ring packing in r rings of degree n under S ([`merge`](super::merge)): coefficient i of ring j is the ciphertext of the place that has coefficient
//!    i·r + j. Interleaved, the rings are one ciphertext of degree N under S(X^r);
//! 3. modulus switch to q_0, rounded, and ring switch from S(X^r) to s, under a key modulo q_0·P.
//!
//! A value m of `parts` = f·2^b parts of the torus is multiplied by f before: then it is m/2^b.
//!
//! The variance of the error that this adds, in units of q_0, to f² times that of the ciphertexts, with V_1 and V_2 those of the merges:
//!   V = V_1 + V_2 + V_3 + V_4,  V_3 = (1 + d/2)/12/q_0²,  V_4 = N·(σ² + 1/12)/(12·P²) + (1 + 2N/3)/12/q_0²
//! where V_3 is the rounding to q_0 under S, and V_4 that of the ring switch.
//!
//! Security: the keys of the merges are n·ℓ·log2 n samples of LWE of dimension d under S, with noise of at least the set's own bootstrapping key
//! relative to its modulus, of what S itself says: the claim of the set holds for them, as for that key, if it may encrypt its own
//! secret. The key of the ring switch is a ciphertext of CKKS modulo q_0·P, far below the modulus that the claim of its set is about. Whoever has s reads S from it.

use super::merge::{Merging, Rows, Shape};
use super::switch::{MODULUS, RingSwitch, rounding};
use super::{PackingKey, base, require_sets, spread, stride};
use crate::cipher::{
    Account, CkksSecretKey, Integers, KeyId, KeyRole, Lwe, Rlwe, SecretKey, Standing, TAIL,
};
use crate::ckks::{Chain, Context};
use crate::math::parallel::*;
use crate::math::random::PublicSeed;
use crate::math::rns::{Scratch, nearest as nearest_prime};
use crate::math::round::nearest;
use crate::params::{CkksParams, NOISE_STD, TfheParams};
use crate::{Error, Result};
use std::sync::Arc;

/// Bits of P: the noise of the key is far below the rounding to q_0.
const SPECIAL_BITS: f64 = 48.0;

/// The numbers of a key between two sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Numbers {
    /// q_0 and P.
    pub(super) primes: [u64; 2],
    pub(super) shape: Shape,
}

impl Numbers {
    /// Those of two sets.
    ///
    /// # Errors
    /// `WrongParams` for sets that no bridge joins.
    pub(super) fn of(op: &'static str, params: &TfheParams, chain: &Chain) -> Result<Numbers> {
        let q0 = base(op, chain, params)?;
        let step = 2 * chain.params().degree() as u64;
        let special = nearest_prime(SPECIAL_BITS.exp2(), step, &[q0]);
        let found = special.zip(Shape::of(params));
        let (special, shape) = found.ok_or_else(|| {
            let (wanted, got) = ("a set whose noise leaves room", format!("`{}`", params.name));
            Error::wrong_params(op, wanted, got, "use a set of the table")
        })?;
        Ok(Numbers { primes: [q0, special], shape })
    }
}

impl PackingKey {
    /// The key from a secret key of TFHE to one of CKKS.
    ///
    /// # Errors
    /// As [`BridgeKey::new`](super::BridgeKey::new).
    ///
    /// ```
    /// use becalm::bridge::PackingKey;
    /// use becalm::cipher::{Encoding, SecretKey};
    /// use becalm::ckks::Context;
    /// use becalm::params::{CkksParams, TfheParams};
    ///
    /// # fn main() -> becalm::Result<()> {
    /// let context = Context::new(CkksParams::named("ckks_toy_table_4")?, true)?;
    /// let many = context.secret_key()?;
    /// let one = SecretKey::generate(TfheParams::named("tfhe_2_2")?, false)?;
    /// let key = PackingKey::new(&context, &one, &many)?;
    ///
    /// let x = one.encrypt(&[3, 1, 15])?;
    /// assert_eq!(context.decrypt_integers(&key.pack(&x, 4)?, &many)?, [3, 1, 15]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(context: &Context, from: &SecretKey, to: &CkksSecretKey) -> Result<PackingKey> {
        let op = "make a packing key";
        // Whoever breaks the CKKS key has the other, and the keys of the merges are only as hard to break as the TFHE set.
        require_sets(op, context, to.params, from.params())?;
        let made = (Numbers::of(op, from.params(), context)?, PublicSeed::from_system()?);
        let mut key = PackingKey::masked((from.params(), from.id()), context, to.id(), made)?;
        let bits = from.expose(KeyRole::Big);
        key.merging.encrypt(bits)?;
        let secret = spread(bits, context.params().degree());
        key.switch.encrypt(&secret, &to.coefficients, NOISE_STD)?;
        Ok(key)
    }

    /// The key of a seed, without its bodies.
    pub(super) fn masked(
        (params, from): (&Arc<TfheParams>, KeyId),
        chain: &Chain,
        to: KeyId,
        (numbers, seed): (Numbers, PublicSeed),
    ) -> Result<PackingKey> {
        let merging = Merging::masked(numbers.shape, &seed)?;
        let switch = RingSwitch::masked(chain.params().degree(), &numbers.primes, seed)?;
        Ok(PackingKey { from: (params.clone(), from), chain: chain.clone(), to, merging, switch })
    }

    /// The set and the key of the ciphertexts that it takes.
    pub fn source(&self) -> (&Arc<TfheParams>, KeyId) {
        (&self.from.0, self.from.1)
    }

    /// The set of the integers that it gives.
    pub fn params(&self) -> &'static CkksParams {
        self.chain.params()
    }

    /// The key of the integers that it gives.
    pub fn key_id(&self) -> KeyId {
        self.to
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.switch.bytes() + self.merging.bytes()
    }

    /// The variance of the error that it adds to an integer, in units of q_0.
    pub fn noise_variance(&self) -> f64 {
        let [q, _] = self.switch.primes().map(|p| p as f64);
        let weight = self.from.0.big_dimension() as f64 / 2.0;
        let switched = self.switch.noise_variance(NOISE_STD, self.switch.ring.size() as f64 / 1.5);
        self.merging.shape.noise_variance() + rounding(weight) / (q * q) + switched
    }

    /// A batch of 1 to N ciphertexts as packed integers of so many bits, at level 0 and in the same order.
    ///
    /// A message m becomes m modulo 2^bits. So the encoding must cut the torus in 2^bits parts or a multiple of them: f times as many multiply
    /// the error by f. Messages below a padding bit have to be less than 2^bits.
    ///
    /// # Errors
    /// `WrongParams` and `WrongKey` for ciphertexts of another set or key, `BadInput` for no ciphertexts or more than N, for other bits than the set has tables
    /// of, and for an encoding or messages that do not fit, `TooNoisy` where an integer could be wrong.
    pub fn pack(&self, x: &Lwe, bits: u32) -> Result<Rlwe> {
        let op = "pack";
        let factor = self.checked(op, x, bits)?;
        let noise = (factor * factor) as f64 * x.noise + self.noise_variance();
        // What a batch says of its noise may come from a file.
        let error = noise.sqrt();
        let account = Account::new(1.0, error, TAIL * error, Standing::CLAIMED);
        Integers::require_exact(op, bits, account)?;
        let parts = self.switched(x, factor);
        Ok(Rlwe {
            params: self.params().name,
            key: self.to,
            level: 0,
            scale: self.chain.scale(0)?,
            slots: self.params().slots(),
            account,
            integers: Some(Integers { bits, count: x.len() }),
            parts: parts.map(Arc::new),
        })
    }

    /// Refuses what cannot be packed; f.
    fn checked(&self, op: &'static str, x: &Lwe, bits: u32) -> Result<u64> {
        let (params, key) = (&self.from.0, self.from.1);
        if x.params != *params {
            let wanted = format!("ciphertexts of `{}`", params.name);
            let remedy = "make a packing key from the set of the ciphertexts";
            return Err(Error::wrong_params(op, wanted, format!("`{}`", x.params.name), remedy));
        }
        if x.key != key || x.role != KeyRole::Big {
            let wanted = format!("ciphertexts under the big key {key}");
            let got = format!("key {}", x.key);
            let remedy = "make a packing key from the key of the ciphertexts";
            return Err(Error::wrong_key(op, wanted, got, remedy));
        }
        let most = self.params().degree();
        if x.is_empty() || x.len() > most {
            let (wanted, got) = (format!("1 to {most} ciphertexts"), x.len().to_string());
            return Err(Error::bad_input(op, wanted, got, "pack them in several ciphertexts"));
        }
        self.chain.check_integers(op, bits)?;
        let (parts, all) = (x.encoding.parts(), 1 << bits);
        let remedy = format!("bootstrap them with results of {all} or {} values", all / 2);
        if parts % all != 0 {
            let wanted = format!("an encoding of a multiple of {all} parts of the torus");
            return Err(Error::bad_input(op, wanted, x.encoding.to_string(), remedy));
        }
        let (low, high) = x.range;
        if parts != all && (low < 0 || high >= all as i64) {
            let (wanted, got) =
                (format!("values from 0 to {}", all - 1), format!("{low} to {high}"));
            return Err(Error::bad_input(op, wanted, got, remedy));
        }
        Ok(parts / all)
    }

    /// Both parts under s, as values modulo q_0.
    fn switched(&self, x: &Lwe, factor: u64) -> [Scratch; 2] {
        let (ring, shape) = (&self.switch.ring, self.merging.shape);
        let (n, stride) = (ring.size(), stride(&self.from.0, ring.size()));
        let mut rings = vec![0.0; 2 * n];
        let work = || self.merging.work();
        let rows = Rows {
            words: &x.data,
            width: x.width(),
            modulus: self.from.0.modulus,
            factor,
            first: 0,
            stride,
            all: n,
        };
        let numbered = rings.par_chunks_mut(2 * shape.degree).enumerate();
        numbered.for_each_init(work, |work, (first, out)| {
            self.merging.packed(Rows { first, ..rows }, out, work);
        });
        let ratio = ring.word(MODULUS).prime / shape.prime as f64;
        let [kept, moved] = [0, 1].map(|part| {
            let mut limb = vec![0.0; n];
            for (j, own) in rings.chunks(2 * shape.degree).enumerate() {
                let own = &own[part * shape.degree..][..shape.degree];
                let places = limb.iter_mut().skip(j).step_by(stride);
                places.zip(own).for_each(|(x, c)| *x = nearest(c * ratio));
            }
            limb
        });
        self.switch.apply(&kept, &moved).map(|part| {
            let mut values = ring.scratch(n);
            values.copy_from_slice(&part);
            ring.forward(MODULUS, &mut values);
            values
        })
    }
}
