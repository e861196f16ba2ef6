//! From CKKS to TFHE: each packed integer of a ciphertext becomes a TFHE ciphertext of its own.
//!
//! 1. modulus switch: both parts to q' < q_0, rounded;
//! 2. ring switch from s to S(X^r), under a key modulo q'·P;
//! 3. extraction: the integer of a place is a coefficient ([`Integers::coefficient`]). Coefficient i·r + j of the result is coefficient i of one
//!    of r ciphertexts of degree n under S, and so an LWE ciphertext under the big key, whose words are brought from q' to the modulus of the set.
//!
//! The variance of the error that this adds, in torus units, with binary S and ternary s:
//!   V = (V_1 + V_2 + V_3)/q'²,  V_1 = (1 + 2N/3)/12,  V_2 = N·q'²/12·(σ² + 1/12)/P²,  V_3 = (1 + d/2)/12
//! where V_1 is the rounding of step 1 under s, V_2 the noise of the key, and V_3 the rounding of the division by P under S.
//!
//! Security: the key is N samples of LWE of dimension d under S with noise σ modulo q'·P. σ/(q'·P) is the noise of the set's own
//! bootstrapping key over 2^64, so the claim of the set holds for it. Whoever has S reads s from the key, so s is no safer than S from then on.
//! q' makes V_1 and V_2 as small as they can be together, but is no prime below 16N.
//!
//! Source: extraction is that of Chillotti–Gama–Georgieva–Izabachène 2016 (ia.cr/2016/870).

use super::switch::{MODULUS, RingSwitch, rounding};
use super::{BridgeKey, base, require_sets, spread, stride};
use crate::cipher::{
    CkksSecretKey, Encoding, Integers, KeyId, KeyRole, Lwe, Rlwe, SecretKey, TAIL,
};
use crate::ckks::{Chain, Context};
use crate::math::Modulus;
use crate::math::buffer::zeroed;
use crate::math::memory::require_memory_or;
use crate::math::parallel::*;
use crate::math::random::PublicSeed;
use crate::math::rns::nearest as nearest_prime;
use crate::math::round::nearest;
use crate::params::{CkksParams, NOISE_STD, TfheParams};
use crate::tfhe::noise::require_decodable;
use crate::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// The word of the ring that is q_0, behind q' and P.
const FROM: usize = 2;
/// Bits of the largest q': rounding to it is far below the noise of any bootstrap.
const MOST_BITS: f64 = 32.0;
/// Bits of the largest P, well below those of a word.
const MOST_SPECIAL_BITS: f64 = 48.0;

/// q', P and q_0 of the bridge between two sets.
///
/// # Errors
/// `WrongParams` for sets that no bridge joins.
pub(super) fn primes(op: &'static str, chain: &Chain, params: &TfheParams) -> Result<[u64; 3]> {
    let (q0, degree) = (base(op, chain, params)?, chain.params().degree());
    let [q, p] = moduli(degree, params.glwe_variance().sqrt(), q0).ok_or_else(|| {
        let got = format!("`{}`", params.name);
        let wanted = "a set whose noise leaves room for two primes";
        Error::wrong_params(op, wanted, got, "use a set of the table")
    })?;
    Ok([q, p, q0])
}

/// q' and P for a ring of degree `degree` and the noise of a set, in torus units.
fn moduli(degree: usize, noise: f64, taken: u64) -> Option<[u64; 2]> {
    let (n, step) = (degree as f64, 2 * degree as u64);
    let least = 8.0 * step as f64;
    // V_1 = V_2 there, for σ/P = noise·q'.
    let best = (12.0 * rounding(2.0 * n / 3.0) / n).sqrt().sqrt() / noise.sqrt();
    // A set from a file may have any noise; a search for a prime beyond a word would not end.
    if !(noise > 0.0 && best.is_finite()) {
        return None;
    }
    let q = nearest_prime(best.clamp(least, MOST_BITS.exp2()), step, &[taken])?;
    // The noise is at least twice that of CKKS: much more than the rounding of it to integers.
    let special = (2.0 * NOISE_STD / (noise * q as f64)).max(least);
    if special > MOST_SPECIAL_BITS.exp2() {
        return None;
    }
    let p = nearest_prime(special, step, &[taken, q])?;
    // V_2 grows with q', and σ/P = noise·q' whichever of the two it is.
    Some([q.min(p), q.max(p)])
}

impl BridgeKey {
    /// The key from a secret key of CKKS to one of TFHE.
    ///
    /// # Errors
    /// `WrongParams` for a set of CKKS without packed integers, for a secret key of another set than the context's, and for a set of TFHE whose
    /// ciphertexts rest under the small key, have a common mask or a dimension above N; `Insecure` for a set of TFHE below 128 bits, unless the set
    /// of CKKS is a toy; `Io` when the system has no randomness.
    ///
    /// ```
    /// use becalm::backend::{Cpu, Evaluator};
    /// use becalm::bridge::BridgeKey;
    /// use becalm::cipher::{Encoding, SecretKey};
    /// use becalm::ckks::Context;
    /// use becalm::params::{CkksParams, TfheParams};
    /// use becalm::tfhe::Table;
    ///
    /// # fn main() -> becalm::Result<()> {
    /// let context = Context::new(CkksParams::named("ckks_toy_table_4")?, true)?;
    /// let many = context.secret_key()?;
    /// let params = TfheParams::named("tfhe_2_2")?;
    /// let one = SecretKey::generate(params, false)?;
    /// let bridge = BridgeKey::new(&context, &many, &one)?;
    ///
    /// let x = context.encrypt_integers(&[3, 1, 4, 7], 4, &many)?;
    /// // All are below 8, so a table of TFHE can look them up.
    /// let y = bridge.unpack(&x, 1..3, Some(8))?;
    /// let (eight, own) = (Encoding::padded(8)?, Encoding::of(params));
    /// let square = Table::with(params, eight, own, &[0, 1, 4, 9, 0, 9, 4, 1])?;
    /// let server = Evaluator::new(&Cpu::new(0)?, &one.evaluation_key()?)?;
    /// assert_eq!(one.decrypt(&server.bootstrap(&y, &square)?)?, [1, 0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(context: &Context, from: &CkksSecretKey, to: &SecretKey) -> Result<BridgeKey> {
        let op = "make a bridge key";
        // Whoever breaks the TFHE key has the other.
        require_sets(op, context, from.params, to.params())?;
        let made = (primes(op, context, to.params())?, PublicSeed::from_system()?);
        let mut key = BridgeKey::masked(context, from.id(), (to.params(), to.id()), made)?;
        let (std, secret) = (key.std(), spread(to.expose(KeyRole::Big), context.params().degree()));
        key.switch.encrypt(&from.coefficients, &secret, std)?;
        Ok(key)
    }

    /// The key of a seed, without its bodies.
    pub(super) fn masked(
        chain: &Chain,
        from: KeyId,
        (params, to): (&Arc<TfheParams>, KeyId),
        (primes, seed): ([u64; 3], PublicSeed),
    ) -> Result<BridgeKey> {
        let from = (chain.params(), from);
        let switch = RingSwitch::masked(chain.params().degree(), &primes, seed)?;
        Ok(BridgeKey { from, params: params.clone(), to, switch })
    }

    /// σ.
    fn std(&self) -> f64 {
        let [q, p] = self.switch.primes();
        self.params.glwe_variance().sqrt() * q as f64 * p as f64
    }

    /// The set and the key of the integers that it takes.
    pub fn source(&self) -> (&'static CkksParams, KeyId) {
        self.from
    }

    /// The set of the ciphertexts that it gives.
    pub fn params(&self) -> &Arc<TfheParams> {
        &self.params
    }

    /// The key of the ciphertexts that it gives.
    pub fn key_id(&self) -> KeyId {
        self.to
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.switch.bytes()
    }

    /// The variance of the error that it adds to an integer, in torus units.
    pub fn noise_variance(&self) -> f64 {
        let [q, _] = self.switch.primes().map(|p| p as f64);
        let weight = self.params.big_dimension() as f64 / 2.0;
        let rounded = rounding(2.0 * self.switch.ring.size() as f64 / 3.0) / (q * q);
        rounded + self.switch.noise_variance(self.std(), weight)
    }

    /// The integers at `places` of a ciphertext as TFHE ciphertexts, a batch in the same order, each of kN' + 1 words. With `below` the caller
    /// promises that the integers are less, at most half of 2^bits: then tables of TFHE apply.
    ///
    /// The encoding is that of 2^bits values over the whole torus, or of 2^(bits−1) values below a padding bit where `below` is given.
    ///
    /// # Errors
    /// `WrongParams` and `WrongKey` for a ciphertext of another set or key, `BadInput` for values in slots, for places that hold no integers and for
    /// a bound that is 0 or too large, `TooNoisy` where a result would be wrong more often than the set claims, `OutOfMemory` where the batch does not fit.
    pub fn unpack(&self, x: &Rlwe, places: Range<usize>, below: Option<u64>) -> Result<Lwe> {
        let op = "unpack";
        let integers = self.checked(op, x, &places)?;
        let (encoding, below) = encoding(op, integers.bits, below)?;
        // The tail of an account is that of a normal distribution with so many deviations, or shorter.
        let own = x.account().error.max(x.account().worst / TAIL);
        let noise = own * own + self.noise_variance();
        require_decodable(op, &self.params, encoding, noise)?;
        let width = KeyRole::Big.width(&self.params);
        let words = places.len().saturating_mul(width);
        require_memory_or(op, words.saturating_mul(8), "unpack fewer integers at once")?;
        let mut data = zeroed(op, words)?;
        let parts = self.switched(x);
        let (start, modulus) = (places.start, self.params.modulus);
        let n = self.switch.ring.size();
        let stride = stride(&self.params, n);
        data.par_chunks_mut(width).enumerate().for_each(|(i, row)| {
            let place = Integers::coefficient(start + i, n);
            let (mask, body) = row.split_at_mut(width - 1);
            body[0] = parts[0][place];
            // Coefficient `place` of a·S(X^r): S_u meets that of place − r·u, which X^N = −1 negates where it is below 0.
            for (u, word) in mask.iter_mut().enumerate() {
                *word = match place.checked_sub(stride * u) {
                    Some(at) => modulus.neg(parts[1][at]),
                    None => parts[1][place + n - stride * u],
                };
            }
        });
        Ok(Lwe {
            params: self.params.clone(),
            key: self.to,
            role: KeyRole::Big,
            encoding,
            range: (0, below as i64 - 1),
            noise,
            // Results of one ciphertext, or of its sums with others, share its error.
            independent: false,
            seed: None,
            data,
        })
    }

    /// Refuses what cannot be unpacked.
    fn checked(&self, op: &'static str, x: &Rlwe, places: &Range<usize>) -> Result<Integers> {
        let (set, key) = self.from;
        if x.params() != set.name {
            let wanted = format!("integers of `{}`", set.name);
            let remedy = "make a bridge key from the set of the integers";
            return Err(Error::wrong_params(op, wanted, format!("`{}`", x.params()), remedy));
        }
        if x.key_id() != key {
            let wanted = format!("integers under key {key}");
            let remedy = "make a bridge key from the key of the integers";
            return Err(Error::wrong_key(op, wanted, x.key_id().to_string(), remedy));
        }
        let Some(integers) = x.integers() else {
            let remedy = "encrypt packed integers";
            return Err(Error::bad_input(op, "packed integers", "values in slots", remedy));
        };
        Integers::require_exact(op, integers.bits, x.account())?;
        if places.is_empty() || places.end > integers.count {
            let wanted = format!("places of the {} integers", integers.count);
            let got = format!("{} to {}", places.start, places.end);
            return Err(Error::bad_input(op, wanted, got, "choose places that hold integers"));
        }
        Ok(integers)
    }

    /// Both parts of a ciphertext under S(X^r), as words of the TFHE set.
    fn switched(&self, x: &Rlwe) -> [Vec<u64>; 2] {
        let ring = &self.switch.ring;
        let [q0, q] = [FROM, MODULUS].map(|i| ring.word(i).prime);
        let [kept, moved] = [0, 1].map(|part| {
            let mut limb = x.parts[part].to_vec();
            ring.backward(FROM, &mut limb);
            ring.reduce(FROM, &mut limb);
            limb.iter_mut().for_each(|c| *c = nearest(*c * (q / q0)));
            limb
        });
        let word = |c: f64| torus(self.params.modulus, c, q as u64);
        self.switch.apply(&kept, &moved).map(|part| part.into_iter().map(word).collect())
    }
}

/// The word of the torus element c/q, for |c| < q.
fn torus(modulus: Modulus, c: f64, q: u64) -> u64 {
    modulus.fraction((c as i64).rem_euclid(q as i64) as u64, q)
}

/// The encoding of integers of so many bits, and the bound on them.
fn encoding(op: &'static str, bits: u32, below: Option<u64>) -> Result<(Encoding, u64)> {
    let Some(below) = below else {
        return Ok((Encoding::cyclic(1 << bits)?, 1 << bits));
    };
    let most = 1 << (bits - 1);
    if below == 0 || below > most {
        let wanted = format!("a bound from 1 to {most}, which leaves the highest bit 0");
        let remedy = "look the integers up in tables whose entries are less, or give no bound";
        return Err(Error::bad_input(op, wanted, below.to_string(), remedy));
    }
    Ok((Encoding::padded(most)?, below))
}
