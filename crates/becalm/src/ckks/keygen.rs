//! Keys of CKKS: secret, public, and what a server needs, made for declared needs.

use super::Context;
use crate::cipher::{CkksKeys, CkksPublicKey, CkksSecretKey, KeyId, SwitchKey};
use crate::math::buffer::{Buffer, require_memory};
use crate::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
use crate::math::rns::{Scratch, centred, mul};
use crate::math::sampling;
use crate::params::NOISE_STD;
use crate::{Error, Result};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use zeroize::Zeroizing;

/// What a server is to do, hence which keys it gets besides that of multiplication.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Rotations by these numbers of slots.
    pub rotations: BTreeSet<i64>,
    /// Complex conjugation.
    pub conjugate: bool,
    /// The switch to the ephemeral secret and back, for a bootstrap.
    pub bootstrap: bool,
}

impl Needs {
    /// What two programs need together.
    pub fn union(mut self, other: &Needs) -> Needs {
        self.rotations.extend(&other.rotations);
        self.conjugate |= other.conjugate;
        self.bootstrap |= other.bootstrap;
        self
    }
}

/// g such that X → X^g rotates the slots to the left by `by`: 5^`by` modulo 2N.
pub fn power_of_rotation(by: i64, degree: usize) -> usize {
    let exponent = by.rem_euclid(degree as i64 / 2);
    (0..exponent).fold(1, |g, _| g * 5 % (2 * degree))
}

impl Context {
    /// A fresh secret key.
    ///
    /// # Errors
    /// `Io` when the system has no randomness.
    pub fn secret_key(&self) -> Result<CkksSecretKey> {
        let seed = SecretSeed::from_system()?;
        let mut id = [0; 16];
        id.copy_from_slice(&PublicSeed::from_system()?.0[..16]);
        let coefficients = self.ternary(&seed, None);
        Ok(CkksSecretKey { params: self.params().name, id: KeyId(id), coefficients })
    }

    fn ternary(&self, seed: &SecretSeed, weight: Option<usize>) -> Vec<f64> {
        let mut stream = NoiseStream::new(seed, Domain::Secret, 0);
        let mut x = Zeroizing::new(vec![0; self.params().degree()]);
        match weight {
            None => sampling::ternary(&mut stream, &mut x),
            Some(weight) => sampling::sparse_ternary(&mut stream, weight, &mut x),
        }
        x.iter().map(|x| *x as f64).collect()
    }

    /// N coefficients of fresh noise.
    pub(crate) fn noise(&self, stream: &mut NoiseStream) -> Zeroizing<Vec<f64>> {
        let mut e = Zeroizing::new(vec![0; self.params().degree()]);
        sampling::gaussian(stream, NOISE_STD, &mut e);
        Zeroizing::new(e.iter().map(|e| *e as f64).collect())
    }

    /// Values of a secret polynomial modulo words, wiped when dropped.
    pub(crate) fn secret_limbs(
        &self,
        coefficients: &[f64],
        words: &[usize],
    ) -> Zeroizing<Vec<f64>> {
        let n = coefficients.len();
        let mut out = Zeroizing::new(vec![0.0; words.len() * n]);
        out.par_chunks_mut(n).zip(words).for_each(|(limb, i)| {
            limb.copy_from_slice(coefficients);
            self.ring().forward(*i, limb);
        });
        out
    }

    /// Uniform residues modulo word `i`: the low bits of a word of the stream, drawn again until they are below p.
    pub(crate) fn uniform(&self, stream: &mut MaskStream, i: usize, out: &mut [f64]) {
        let p = self.ring().word(i).p;
        let mask = p.next_power_of_two() - 1;
        let (mut words, mut left) = ([0; 256], 0);
        for x in out {
            *x = loop {
                if left == 0 {
                    stream.fill_u64(&mut words);
                    left = words.len();
                }
                left -= 1;
                let candidate = words[words.len() - 1 - left] & mask;
                if candidate < p {
                    break centred(candidate, p);
                }
            };
        }
    }

    /// A key for encryption by anyone, at the highest level of the user.
    ///
    /// # Errors
    /// `WrongParams` for a secret of another set, `Io` when the system has no randomness.
    pub fn public_key(&self, secret: &CkksSecretKey) -> Result<CkksPublicKey> {
        self.check_set("make a public key", secret.params)?;
        let parts = self.zero(secret, self.params().levels, Domain::PublicKey)?;
        Ok(CkksPublicKey { params: self.params().name, id: secret.id, parts })
    }

    /// An encryption of zero at `level`: b = e − a·s.
    pub(crate) fn zero(
        &self,
        secret: &CkksSecretKey,
        level: usize,
        domain: Domain,
    ) -> Result<[Scratch; 2]> {
        let (count, n) = (self.words(level), self.params().degree());
        let words = self.words_of(count, 0);
        let s = self.secret_limbs(&secret.coefficients, &words);
        let mut noise = NoiseStream::new(&SecretSeed::from_system()?, domain, 0);
        let mut b = self.limbs(&self.noise(&mut noise), &words);
        let mut a = self.ring().scratch(count * n);
        let seed = PublicSeed::from_system()?;
        a.par_chunks_mut(n).zip(b.par_chunks_mut(n)).enumerate().for_each(|(i, (a, b))| {
            self.uniform(&mut MaskStream::new(&seed, domain, i as u32), i, a);
            let mut product = Zeroizing::new(vec![0.0; n]);
            self.ring().mul(i, &mut product, a, &s[i * n..][..n]);
            self.ring().sub(i, b, &product);
        });
        Ok([b, a])
    }

    /// Bytes in memory of the keys for `needs`, exactly: N doubles for two polynomials of every digit and word of Q·P.
    pub fn key_bytes(&self, needs: &Needs) -> usize {
        let one = |count: usize, special: usize| {
            let digits = self.digits().iter().take_while(|d| d.start < count).count();
            digits * (count + special) * self.params().degree() * 16
        };
        let rotations = self.powers(needs).len();
        let whole = one(self.words(self.params().top_level()), self.special());
        let ephemeral = match (needs.bootstrap, self.params().bootstrap) {
            (true, Some(b)) => whole + one(self.words(0), b.ephemeral_words),
            _ => 0,
        };
        (1 + rotations) * whole + ephemeral
    }

    /// The g of X → X^g for rotations and conjugation.
    pub(super) fn powers(&self, needs: &Needs) -> BTreeSet<usize> {
        let n = self.params().degree();
        let mut powers: BTreeSet<usize> =
            needs.rotations.iter().map(|k| power_of_rotation(*k, n)).collect();
        powers.extend(needs.conjugate.then_some(2 * n - 1));
        powers.remove(&1);
        powers
    }

    /// The keys that a server needs.
    ///
    /// # Errors
    /// `WrongParams` for a secret of another set or a set without bootstrap that needs one, `Memory` where the keys do
    /// not fit, `Io` when the system has no randomness.
    pub fn keys(&self, secret: &CkksSecretKey, needs: &Needs) -> Result<CkksKeys> {
        self.keys_with(secret, needs, None, |_, _| true)
    }

    /// [`Context::keys`], less those that are `known` already, which are shared and not made again. `go_on` is told how many
    /// keys there are and will be in all; its `false` stops the work.
    ///
    /// # Errors
    /// As [`Context::keys`]; `WrongKey` where the known keys are those of another secret, `Interrupted` when stopped.
    pub fn keys_with(
        &self,
        secret: &CkksSecretKey,
        needs: &Needs,
        known: Option<&CkksKeys>,
        mut go_on: impl FnMut(usize, usize) -> bool,
    ) -> Result<CkksKeys> {
        let op = "make keys";
        self.check_set(op, secret.params)?;
        self.check_needs(op, secret, needs, known)?;
        let held = known.map_or(0, CkksKeys::bytes);
        require_memory(op, self.key_bytes(needs).saturating_sub(held))?;
        let powers = self.powers(needs);
        let (mut done, all) = (0, powers.len() + 1 + 2 * usize::from(needs.bootstrap));
        let mut step = || {
            done += 1;
            let stopped = || Error::interrupted(op, "to go on", "a request to stop", "start again");
            if go_on(done, all) { Ok(()) } else { Err(stopped()) }
        };
        let (n, count) = (self.params().degree(), self.words(self.params().top_level()));
        let words = self.words_of(count, self.special());
        let s = self.secret_limbs(&secret.coefficients, &words);
        let relinearize = match known {
            Some(known) => known.relinearize.clone(),
            None => {
                let mut square = Zeroizing::new(vec![0.0; s.len()]);
                square.par_chunks_mut(n).zip(&words).enumerate().for_each(|(at, (x, i))| {
                    self.ring().mul(*i, x, &s[at * n..][..n], &s[at * n..][..n]);
                });
                Arc::new(self.switch_key(&square, &s, count, self.special())?)
            }
        };
        step()?;
        let mut galois = known.map(|k| k.galois.clone()).unwrap_or_default();
        for g in powers {
            if let Entry::Vacant(place) = galois.entry(g) {
                place.insert(Arc::new(self.galois_key_of(&s, g, count)?));
            }
            step()?;
        }
        let mut ephemeral = known.and_then(|k| k.ephemeral.clone());
        if let (true, None, Some(b)) = (needs.bootstrap, &ephemeral, self.params().bootstrap) {
            let weight = Some(b.ephemeral_weight);
            let sparse = Zeroizing::new(self.ternary(&SecretSeed::from_system()?, weight));
            let sparse = self.secret_limbs(&sparse, &words);
            let to = self.switch_key(&s, &sparse, self.words(0), b.ephemeral_words)?;
            step()?;
            let from = self.switch_key(&sparse, &s, count, self.special())?;
            step()?;
            ephemeral = Some(Arc::new([to, from]));
        }
        Ok(CkksKeys { params: self.params().name, id: secret.id, relinearize, galois, ephemeral })
    }

    fn check_needs(
        &self,
        op: &'static str,
        secret: &CkksSecretKey,
        needs: &Needs,
        known: Option<&CkksKeys>,
    ) -> Result<()> {
        if needs.bootstrap && self.params().bootstrap.is_none() {
            let (wanted, got) = ("a set with a bootstrap", self.params().name);
            return Err(Error::wrong_params(op, wanted, got, "use a set with a bootstrap"));
        }
        let Some(known) = known else { return Ok(()) };
        self.check_set(op, known.params)?;
        if known.id == secret.id {
            return Ok(());
        }
        let (wanted, got) = (format!("keys of key {}", secret.id), known.id.to_string());
        Err(Error::wrong_key(op, wanted, got, "add to keys of the same secret key"))
    }

    /// The key of X → X^`g`.
    fn galois_key_of(&self, s: &[f64], g: usize, count: usize) -> Result<SwitchKey> {
        let n = self.params().degree();
        // Not by `permute`: its memory would go back to the pool with the secret in it.
        let permutation = self.permutation(inverse_power(g, n));
        let mut target = Zeroizing::new(vec![0.0; s.len()]);
        for (x, y) in target.chunks_mut(n).zip(s.chunks(n)) {
            x.iter_mut().zip(permutation.iter()).for_each(|(x, i)| *x = y[*i as usize]);
        }
        self.switch_key(s, &target, count, self.special())
    }

    /// The key from `from` to `to`, both modulo the whole chain and the special words, for the first `count` words and the
    /// first `special` special words.
    fn switch_key(
        &self,
        from: &[f64],
        to: &[f64],
        count: usize,
        special: usize,
    ) -> Result<SwitchKey> {
        let (ring, n) = (self.ring(), self.params().degree());
        let chain = self.words(self.params().top_level());
        let limbs = count + special;
        let digits = self.digits().iter().take_while(|d| d.start < count).count();
        let (bodies, masks) = (Buffer::new(digits * limbs * n)?, Buffer::new(digits * limbs * n)?);
        let (seed, hidden) = (PublicSeed::from_system()?, SecretSeed::from_system()?);
        let mut key = SwitchKey { count, special, seed, bodies, masks };
        self.draw_masks(&mut key);
        for j in 0..digits {
            let mut noise = NoiseStream::new(&hidden, Domain::Evaluation, j as u32);
            let noise = self.noise(&mut noise);
            let span = j * limbs * n..(j + 1) * limbs * n;
            let bodies = key.bodies.as_mut_slice()[span.clone()].par_chunks_mut(n);
            let masks = key.masks.as_slice()[span].par_chunks(n);
            bodies.zip(masks).enumerate().for_each(|(i, (b, a))| {
                let word = self.word_of(i, count);
                let at = if i < count { i } else { chain + i - count };
                b.copy_from_slice(&noise);
                ring.forward(word, b);
                let mut product = Zeroizing::new(vec![0.0; n]);
                ring.mul(word, &mut product, a, &to[at * n..][..n]);
                ring.sub(word, b, &product);
                if self.digits()[j].contains(&word) {
                    let p = centred(self.special_product(special, word), ring.word(word).p);
                    ring.scale_add(word, b, &from[at * n..][..n], p);
                }
            });
        }
        Ok(key)
    }

    /// The masks of a switch key, from its seed: a stream for each digit and word.
    pub(crate) fn draw_masks(&self, key: &mut SwitchKey) {
        let (n, limbs) = (self.params().degree(), key.count + key.special);
        let all = self.words(self.params().top_level()) + self.special();
        key.masks.as_mut_slice().par_chunks_mut(n).enumerate().for_each(|(i, a)| {
            let word = self.word_of(i % limbs, key.count);
            let index = (i / limbs * all + word) as u32;
            self.uniform(&mut MaskStream::new(&key.seed, Domain::Evaluation, index), word, a);
        });
    }

    /// Refuses what belongs to another set.
    pub(crate) fn check_set(&self, op: &'static str, name: &'static str) -> Result<()> {
        if name == self.params().name {
            return Ok(());
        }
        let wanted = format!("what was made with `{}`", self.params().name);
        Err(Error::wrong_params(op, wanted, format!("`{name}`"), "use one set throughout"))
    }
}

/// The inverse of the odd `g` modulo 2N.
fn inverse_power(g: usize, degree: usize) -> usize {
    // g^(φ/2 − 1): the exponent of the group of units modulo 2N is N/2.
    let modulus = 2 * degree as u64;
    (0..degree / 2 - 1).fold(1, |x, _| mul(x, g as u64, modulus)) as usize
}
