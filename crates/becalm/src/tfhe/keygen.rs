//! Key generation, and the expansion of seeded keys.
//!
//! GGSW i of the bootstrapping key encrypts a bit of the small key under the big one, or says whether a group of its bits
//! has a certain value ([`ggsw_message`]). Row (l, r) is an encryption of zero
//! plus m_i·q/B^l on column r. Adding to mask column r < k changes the phase by −m_i·q/B^l·S_r, so that row is written
//! with a seeded mask and a body moved by that instead: only bodies are stored. Row (i, l) of the key-switching key
//! encrypts bit i of the big key (of those after a shared beginning) times q/B^l under the small one. Behind a common mask
//! each row has w bodies, body j for the bits of slot j under S_j; row k + j carries the bit of slot j in body j alone.
//! Source: Chillotti et al. 2020 (TFHE), Def. 3.8 and Alg. 2; common mask: Bergerat et al. 2025 (TCHES 2025/4), CM-GGSW.

use super::lwe::{fill_noise, inner_product};
use super::noise::check_claim;
use super::polynomial::BinaryPolynomials;
use crate::cipher::{EvaluationKey, KeyId, SecretKey, Words, check_structure};
use crate::math::Modulus;
use crate::math::buffer::zeroed;
use crate::math::parallel::*;
use crate::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
use crate::math::sampling::{binary, blocks, uniform};
use crate::params::{Rotation, TfheParams};
use crate::{Error, Progress, Result, UNWATCHED};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use zeroize::Zeroizing;

/// The message of GGSW `i` of the bootstrapping key. Classic and in blocks: key bit i. Multi-bit: whether the bits of group
/// ⌊i/(2^g − 1)⌋ are those of the number i mod (2^g − 1) + 1, the lowest first: a product of bits and their complements.
fn ggsw_message(rotation: Rotation, small: &[u64], i: usize) -> u64 {
    let (bits, values) = (rotation.group_bits(), rotation.group_ggsws());
    if bits == values {
        return small[i];
    }
    let (group, value) = (&small[i / values * bits..][..bits], i % values + 1);
    group.iter().enumerate().fold(1, |m, (t, s)| m * if value >> t & 1 == 1 { *s } else { 1 - s })
}

impl SecretKey {
    /// Draws a secret key from the operating system's randomness.
    ///
    /// # Errors
    /// [`Error::Insecure`] for a set below 128 bits unless `allow_insecure`; [`Error::WrongParams`] for a set that is none;
    /// [`Error::Io`] if the system gives no randomness.
    ///
    /// ```
    /// # use becalm::{cipher::SecretKey, params::TfheParams};
    /// let key = SecretKey::generate(TfheParams::named("tfhe_2_2")?, false)?;
    /// let ct = key.encrypt(&[3, 1, 2])?;
    /// assert_eq!(key.decrypt(&ct)?, [3, 1, 2]);
    /// # Ok::<(), becalm::Error>(())
    /// ```
    pub fn generate(params: &TfheParams, allow_insecure: bool) -> Result<Self> {
        params.validate()?;
        params.require_secure(allow_insecure)?;
        if !allow_insecure {
            check_claim(params)?;
        }
        // The id is drawn apart from the key: it is public and must reveal nothing about the key.
        let name = PublicSeed::from_system()?;
        let mut id = [0; 16];
        id.copy_from_slice(&name.0[..16]);
        let seed = SecretSeed::from_system()?;
        let mut small = vec![0; params.slots * params.lwe_dimension];
        let mut big = vec![0; params.slots * params.big_dimension()];
        let mut stream = NoiseStream::new(&seed, Domain::Secret, 0);
        match params.rotation {
            Rotation::Block { size } => blocks(&mut stream, size as usize, &mut small),
            _ => binary(&mut stream, &mut small),
        }
        binary(&mut NoiseStream::new(&seed, Domain::Secret, 1), &mut big);
        let shared = params.shared_dimension();
        let slots = small.chunks_exact(params.lwe_dimension);
        for (small, big) in slots.zip(big.chunks_exact_mut(params.big_dimension())) {
            big[..shared].copy_from_slice(&small[..shared]);
        }
        Ok(SecretKey { params: Arc::new(params.clone()), id: KeyId(id), small, big })
    }

    /// A secret key from bits made elsewhere (another library, a test vector), one bit a word.
    ///
    /// # Errors
    /// [`Error::BadInput`] for wrong lengths or words other than 0 and 1, and as [`SecretKey::generate`].
    pub fn from_bits(
        params: &TfheParams,
        allow_insecure: bool,
        small: &[u64],
        big: &[u64],
    ) -> Result<Self> {
        let mut key = SecretKey::generate(params, allow_insecure)?;
        if small.len() != key.small.len()
            || big.len() != key.big.len()
            || small.iter().chain(big).any(|b| *b > 1)
        {
            return Err(Error::bad_input(
                "from_bits",
                format!("{} and {} bits", key.small.len(), key.big.len()),
                format!("{} and {} words", small.len(), big.len()),
                "give one word of 0 or 1 for each bit",
            ));
        }
        check_structure(params, small, big).map_err(|(wanted, got)| {
            Error::bad_input(
                "from_bits",
                wanted,
                got,
                "use the bits of a key that was drawn for this set",
            )
        })?;
        key.small.copy_from_slice(small);
        key.big.copy_from_slice(big);
        Ok(key)
    }

    /// Makes the evaluation key.
    ///
    /// # Errors
    /// [`Error::Io`] if the system gives no randomness; [`Error::Memory`] if the key does not fit.
    pub fn evaluation_key(&self) -> Result<EvaluationKey> {
        self.evaluation_key_with(UNWATCHED)
    }

    /// [`SecretKey::evaluation_key`] that reports progress and can be stopped.
    ///
    /// # Errors
    /// As there, and [`Error::Interrupted`].
    pub fn evaluation_key_with(&self, progress: Progress) -> Result<EvaluationKey> {
        let p = &*self.params;
        let (seed, noise) = (PublicSeed::from_system()?, SecretSeed::from_system()?);
        let slots = self.big.chunks_exact(p.big_dimension());
        let secrets: Vec<BinaryPolynomials> = slots
            .map(|big| BinaryPolynomials::new(p.modulus, p.polynomial_size, big))
            .collect::<Result<_>>()?;
        let rows = p.pbs.level as usize * (p.glwe_dimension + p.slots);
        let (ggsw_body, ks_body) =
            (rows * p.slots * p.polynomial_size, p.ks.level as usize * p.slots);
        let mut bootstrap = zeroed("keygen", p.ggsw_count() * ggsw_body)?;
        let mut key_switch = zeroed("keygen", p.switched_dimension() * ks_body)?;
        let total = p.ggsw_count() + p.switched_dimension();
        let (done, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        let step = || {
            let go_on = !ended.load(Ordering::Relaxed)
                && progress(done.fetch_add(1, Ordering::Relaxed) + 1, total).is_continue();
            ended.fetch_or(!go_on, Ordering::Relaxed);
            go_on
        };
        bootstrap.par_chunks_exact_mut(ggsw_body).enumerate().for_each(|(i, out)| {
            if step() {
                self.ggsw_bodies(&secrets, &seed, &noise, i, out);
            }
        });
        key_switch.par_chunks_exact_mut(ks_body).enumerate().for_each(|(i, out)| {
            if step() {
                self.key_switch_bodies(&seed, &noise, i, out);
            }
        });
        if ended.into_inner() {
            return Err(Error::stopped("keygen", "start it again; nothing was kept"));
        }
        Ok(EvaluationKey {
            params: self.params.clone(),
            id: self.id,
            seed,
            bootstrap: Words::Owned(Arc::new(bootstrap)),
            key_switch: Words::Owned(Arc::new(key_switch)),
            slot_keys: Vec::new(),
        })
    }

    fn ggsw_bodies(
        &self,
        secrets: &[BinaryPolynomials],
        seed: &PublicSeed,
        noise: &SecretSeed,
        i: usize,
        out: &mut [u64],
    ) {
        let p = &*self.params;
        let (n, k, q) = (p.polynomial_size, p.glwe_dimension, p.modulus);
        let mut masks = MaskStream::new(seed, Domain::Bootstrap, i as u32);
        let mut noise = NoiseStream::new(noise, Domain::Bootstrap, i as u32);
        let mut mask = vec![0u64; k * n];
        let smalls = self.small.chunks_exact(p.lwe_dimension);
        let messages = smalls.map(|small| ggsw_message(p.rotation, small, i));
        let messages = Zeroizing::new(messages.collect::<Vec<u64>>());
        for (row, bodies) in out.chunks_exact_mut(p.slots * n).enumerate() {
            let (level, r) = (row / (k + p.slots) + 1, row % (k + p.slots));
            uniform(&mut masks, q, &mut mask);
            for (slot, (secret, body)) in secrets.iter().zip(bodies.chunks_exact_mut(n)).enumerate()
            {
                let scaled = messages[slot] << (Modulus::LOG2 - level as u32 * p.pbs.base_log);
                secret.encrypt_zero(&mask, &mut noise, p.glwe_noise, body);
                if r == k + slot {
                    body[0] = q.add(body[0], scaled);
                } else if r < k {
                    let secret = &self.big[slot * p.big_dimension() + r * n..][..n];
                    for (b, s) in body.iter_mut().zip(secret) {
                        *b = q.sub(*b, scaled * s);
                    }
                }
            }
        }
    }

    fn key_switch_bodies(&self, seed: &PublicSeed, noise: &SecretSeed, i: usize, out: &mut [u64]) {
        let p = &*self.params;
        let mut masks = KeySwitchMasks::new(p, seed, i);
        let mut stream = NoiseStream::new(noise, Domain::KeySwitch, i as u32);
        let mut errors = Zeroizing::new(vec![0i64; out.len()]);
        fill_noise(&mut stream, p.lwe_noise, p.ks_modulus_log2, &mut errors);
        let mut mask = vec![0u64; p.lwe_dimension];
        let q = p.modulus;
        let rows = out.chunks_exact_mut(p.slots).zip(errors.chunks_exact(p.slots));
        for (l, (bodies, errors)) in rows.enumerate() {
            masks.fill(&mut mask);
            let unit = 1 << (Modulus::LOG2 - (l as u32 + 1) * p.ks.base_log);
            let smalls = self.small.chunks_exact(p.lwe_dimension);
            for (slot, ((body, e), small)) in bodies.iter_mut().zip(errors).zip(smalls).enumerate()
            {
                let scaled = self.big[slot * p.big_dimension() + p.shared_dimension() + i] * unit;
                let error = q.from_signed(e << (Modulus::LOG2 - p.ks_modulus_log2));
                *body = q.add(q.add(inner_product(q, &mask, small), scaled), error);
            }
        }
    }
}

/// Masks of row i of the key-switching key: torus elements, multiples of 2^32 when the key lives modulo 2^32.
struct KeySwitchMasks {
    modulus: Modulus,
    kept: u64,
    stream: MaskStream,
}

impl KeySwitchMasks {
    fn new(p: &TfheParams, seed: &PublicSeed, i: usize) -> Self {
        let stream = MaskStream::new(seed, Domain::KeySwitch, i as u32);
        let kept = u64::MAX << (Modulus::LOG2 - p.ks_modulus_log2);
        KeySwitchMasks { modulus: p.modulus, kept, stream }
    }

    fn fill(&mut self, mask: &mut [u64]) {
        uniform(&mut self.stream, self.modulus, mask);
        mask.iter_mut().for_each(|w| *w &= self.kept);
    }
}

impl EvaluationKey {
    /// Writes GGSW `i` in coefficient form, `[ℓ][row][column][N]`.
    pub(crate) fn expand_ggsw(&self, i: usize, out: &mut [u64]) {
        let p = &*self.params;
        let (n, k, w) = (p.polynomial_size, p.glwe_dimension, p.slots);
        let size = out.len() / (k + w) * w;
        let bodies = &self.bootstrap[i * size..(i + 1) * size];
        let mut masks = MaskStream::new(&self.seed, Domain::Bootstrap, i as u32);
        for (row, bodies) in out.chunks_exact_mut((k + w) * n).zip(bodies.chunks_exact(w * n)) {
            uniform(&mut masks, p.modulus, &mut row[..k * n]);
            row[k * n..].copy_from_slice(bodies);
        }
    }

    /// Writes rows `(i, 1..=ℓ)` of the key-switching key, `[ℓ][n + w]` torus elements.
    pub(crate) fn expand_key_switch(&self, i: usize, out: &mut [u64]) {
        let p = &*self.params;
        let size = p.ks.level as usize * p.slots;
        let bodies = self.key_switch[i * size..(i + 1) * size].chunks_exact(p.slots);
        let mut masks = KeySwitchMasks::new(p, &self.seed, i);
        for (row, bodies) in out.chunks_exact_mut(p.lwe_dimension + p.slots).zip(bodies) {
            masks.fill(&mut row[..p.lwe_dimension]);
            row[p.lwe_dimension..].copy_from_slice(bodies);
        }
    }

    /// The bootstrapping key in coefficient form, `[GGSW][ℓ][row][column][N]`, for exchange with other libraries.
    pub fn bootstrap_words(&self) -> Vec<u64> {
        let p = &*self.params;
        let size = p.pbs.level as usize * (p.glwe_dimension + p.slots).pow(2) * p.polynomial_size;
        let mut words = vec![0; p.ggsw_count() * size];
        words.par_chunks_exact_mut(size).enumerate().for_each(|(i, out)| self.expand_ggsw(i, out));
        words
    }

    /// The key-switching key in full, `[k·N][ℓ][n + w]` (without the coefficients of a shared key), for exchange with other
    /// libraries. Modulo 2^32 the elements are multiples of 2^32.
    pub fn key_switch_words(&self) -> Vec<u64> {
        let p = &*self.params;
        let size = p.ks.level as usize * (p.lwe_dimension + p.slots);
        let mut words = vec![0; p.switched_dimension() * size];
        words
            .par_chunks_exact_mut(size)
            .enumerate()
            .for_each(|(i, out)| self.expand_key_switch(i, out));
        words
    }
}
