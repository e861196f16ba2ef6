//! Keys of CKKS: secret, public, and what a server needs, made for declared needs.

use super::{Context, Needs};
use crate::cipher::{
    CkksKeys, CkksPublicKey, CkksSecretKey, Held, KeyForm, KeyId, Packed, Purpose, StoredKey,
    SwitchKey,
};
use crate::math::memory::require_memory_or;
use crate::math::parallel::*;
use crate::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
use crate::math::rns::{Scratch, Uniform, centred, mul};
use crate::math::sampling;
use crate::params::NOISE_STD;
use crate::progress::tell;
use crate::{Error, Progress, Result, UNWATCHED};
use std::borrow::Cow;
use std::sync::Arc;
use zeroize::Zeroizing;

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
        Ok(CkksSecretKey::new(self.params().name, KeyId(id), coefficients))
    }

    pub(super) fn ternary(&self, seed: &SecretSeed, weight: Option<usize>) -> Vec<f64> {
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
        self.noise_of(stream, NOISE_STD)
    }

    /// N coefficients of noise of a standard deviation.
    fn noise_of(&self, stream: &mut NoiseStream, std: f64) -> Zeroizing<Vec<f64>> {
        let mut e = Zeroizing::new(vec![0.0; self.params().degree()]);
        sampling::rounded_gaussian(stream, std, &mut e);
        e
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

    /// Values of a secret key modulo the words of `level`, at the least.
    pub(crate) fn secret_values<'a>(
        &self,
        secret: &'a CkksSecretKey,
        level: usize,
    ) -> Cow<'a, Zeroizing<Vec<f64>>> {
        if self.tier_at(level) > 0 {
            return Cow::Owned(self.secret_limbs(&secret.coefficients, &self.words_of(level, 0)));
        }
        if let Some(made) = secret.values.get() {
            return Cow::Borrowed(made);
        }
        // Not inside of the lock: a thread that waits for a part of this may begin another encryption.
        let words = self.words_of(self.tier_of(0).end - 1, 0);
        let made = self.secret_limbs(&secret.coefficients, &words);
        Cow::Borrowed(secret.values.get_or_init(|| made))
    }

    /// Uniform residues modulo word `i`.
    pub(super) fn uniform(&self, mut stream: MaskStream, i: usize, out: &mut [f64]) {
        self.ring().draw(i, |words| stream.fill_u64(words), out);
    }

    /// A key for encryption by anyone, at the highest level of the user.
    ///
    /// # Errors
    /// `WrongParams` for a secret of another set, `Io` when the system has no randomness.
    pub fn public_key(&self, secret: &CkksSecretKey) -> Result<CkksPublicKey> {
        self.check_set("make a public key", secret.params)?;
        let parts = self.sealed(secret, self.params().levels, Domain::PublicKey, None)?;
        Ok(CkksPublicKey {
            params: self.params().name,
            id: secret.id,
            parties: 1,
            foreign: false,
            parts,
        })
    }

    /// An encryption at `level` of a polynomial, or of zero: b = m + e − a·s.
    pub(crate) fn sealed(
        &self,
        secret: &CkksSecretKey,
        level: usize,
        domain: Domain,
        message: Option<&[f64]>,
    ) -> Result<[Scratch; 2]> {
        let (words, n) = (self.words_of(level, 0), self.params().degree());
        let s = self.secret_values(secret, level);
        let noise = self.noise(&mut NoiseStream::new(&SecretSeed::from_system()?, domain, 0));
        let mut b = match message {
            Some(m) => self.noisy_limbs(m, &noise, &words),
            None => self.limbs(&noise, &words),
        };
        let mut a = self.ring().scratch(words.len() * n);
        let seed = PublicSeed::from_system()?;
        a.par_chunks_mut(n).zip(b.par_chunks_mut(n)).enumerate().for_each(|(i, (a, b))| {
            let word = words[i];
            self.uniform(MaskStream::new(&seed, domain, word as u32), word, a);
            self.ring().mul_sub(word, b, a, &s[i * n..][..n]);
        });
        Ok([b, a])
    }

    /// Standard deviation of the noise of the key for a purpose.
    fn key_noise_std(&self, purpose: Purpose) -> f64 {
        match (purpose, self.params().bootstrap) {
            (Purpose::ToEphemeral, Some(b)) => b.ephemeral_noise_std,
            _ => NOISE_STD,
        }
    }

    /// The keys that a server needs.
    ///
    /// # Errors
    /// `WrongParams` for a secret of another set or a set without bootstrap that needs one, `BadInput` for a level that the
    /// set does not have, `Memory` where the keys do not fit, `Io` when the system has no randomness.
    pub fn keys(&self, secret: &CkksSecretKey, needs: &Needs) -> Result<CkksKeys> {
        self.keys_with(secret, needs, KeyForm::Ready, None, UNWATCHED)
    }

    /// [`Context::keys`] in a form, less those that are `known` already for a level as high, which are shared and not made again.
    /// `progress` is told how many keys are made and will be in all.
    ///
    /// # Errors
    /// As [`Context::keys`]; `WrongKey` where the known keys are those of another secret, `Interrupted` when stopped.
    pub fn keys_with(
        &self,
        secret: &CkksSecretKey,
        needs: &Needs,
        form: KeyForm,
        known: Option<&CkksKeys>,
        progress: Progress,
    ) -> Result<CkksKeys> {
        let op = "make keys";
        self.check_set(op, secret.params)?;
        self.check_needs(op, secret, needs, known)?;
        let missing = self.keys_to_make(needs, known);
        let ephemeral = missing.keys().any(|(purpose, _)| *purpose == Purpose::FromEphemeral);
        let remedy = "make keys for fewer rotations (small ones need the fewest), lower levels or fewer slots, or seeded ones";
        require_memory_or(op, self.bytes_of_keys(&missing, form), remedy)?;
        let words: Vec<usize> = (0..self.all_words()).collect();
        let s = self.secret_limbs(&secret.coefficients, &words);
        let sparse = match ephemeral {
            true => self.ephemeral_limbs(&words)?,
            false => Zeroizing::default(),
        };
        let mut switches = known.map(|k| k.switches.clone()).unwrap_or_default();
        for (done, ((purpose, tier), level)) in missing.iter().enumerate() {
            tell(op, progress, done, missing.len())?;
            let (_, special) = self.key_shape(*purpose, *level);
            let std = self.key_noise_std(*purpose);
            let key = match purpose {
                Purpose::Multiply => self.switch_key(&self.squared(&s), &s, *level, special, std),
                Purpose::Galois(g) => self.galois_key_of(&s, *g as usize, *level),
                Purpose::ToEphemeral => self.switch_key(&s, &sparse, *level, special, std),
                Purpose::FromEphemeral => self.switch_key(&sparse, &s, *level, special, std),
            };
            let held = self.held(key?, form.of((*purpose, *tier)));
            switches.insert((*purpose, *tier), held);
        }
        // All are made: it is too late to stop.
        let _ = progress(missing.len(), missing.len());
        let foreign = known.is_some_and(|k| k.foreign);
        Ok(CkksKeys { params: self.params().name, id: secret.id, switches, foreign })
    }

    /// Values of a fresh ephemeral secret, modulo words.
    fn ephemeral_limbs(&self, words: &[usize]) -> Result<Zeroizing<Vec<f64>>> {
        let weight = self.params().bootstrap.map(|b| b.ephemeral_weight);
        let sparse = Zeroizing::new(self.ternary(&SecretSeed::from_system()?, weight));
        Ok(self.secret_limbs(&sparse, words))
    }

    /// Values of the square of a secret.
    fn squared(&self, s: &[f64]) -> Zeroizing<Vec<f64>> {
        let n = self.params().degree();
        let mut square = Zeroizing::new(vec![0.0; s.len()]);
        let limbs = square.par_chunks_mut(n).zip(s.par_chunks(n)).enumerate();
        limbs.for_each(|(i, (x, s))| self.ring().mul(i, x, s, s));
        square
    }

    fn check_needs(
        &self,
        op: &'static str,
        secret: &CkksSecretKey,
        needs: &Needs,
        known: Option<&CkksKeys>,
    ) -> Result<()> {
        if needs.bootstrap.is_some() && self.params().bootstrap.is_none() {
            let (wanted, got) = ("a set with a bootstrap", self.params().name);
            return Err(Error::wrong_params(op, wanted, got, "use a set with a bootstrap"));
        }
        let (own, top) =
            (needs.multiply.max(needs.bootstrap.unwrap_or(0)), self.params().top_level());
        let levels = needs.rotations.values().flatten().copied().chain(needs.conjugate);
        let highest = levels.fold(own, usize::max);
        if highest > top {
            let (wanted, got) = (format!("levels of at most {top}"), highest.to_string());
            return Err(Error::bad_input(op, wanted, got, "no ciphertext has more levels"));
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
    fn galois_key_of(&self, s: &[f64], g: usize, level: usize) -> Result<SwitchKey> {
        self.switch_key(s, &self.image(s, g), level, self.special(), NOISE_STD)
    }

    /// Values of the image of a secret under the inverse of X → X^`g`.
    pub(super) fn image(&self, s: &[f64], g: usize) -> Zeroizing<Vec<f64>> {
        let n = self.params().degree();
        // Not by `permute`: its memory would go back to the pool with the secret in it.
        let permutation = self.permutation(inverse_power(g, n));
        let mut image = Zeroizing::new(vec![0.0; s.len()]);
        for (x, y) in image.chunks_mut(n).zip(s.chunks(n)) {
            x.iter_mut().zip(permutation.iter()).for_each(|(x, i)| *x = y[*i as usize]);
        }
        image
    }

    /// The key from `from` to `to`, both modulo all words, for those of `level` and the first `special` special words.
    fn switch_key(
        &self,
        from: &[f64],
        to: &[f64],
        level: usize,
        special: usize,
        noise_std: f64,
    ) -> Result<SwitchKey> {
        let (ring, n) = (self.ring(), self.params().degree());
        let (words, digits) = (self.words_of(level, special), self.digits(level));
        let (count, limbs) = (self.words(level), words.len());
        let len = digits.len() * limbs * n;
        let (seed, hidden) = (PublicSeed::from_system()?, SecretSeed::from_system()?);
        let (bodies, masks) = (Scratch::apart(len)?, Scratch::apart(len)?);
        let mut key = SwitchKey { level, count, special, seed, bodies, masks };
        self.draw_masks(&mut key);
        for (j, own) in digits.into_iter().enumerate() {
            let mut noise = NoiseStream::new(&hidden, Domain::Evaluation, j as u32);
            let noise = self.noise_of(&mut noise, noise_std);
            let span = j * limbs * n..(j + 1) * limbs * n;
            let bodies = key.bodies[span.clone()].par_chunks_mut(n);
            let masks = key.masks[span].par_chunks(n);
            bodies.zip(masks).enumerate().for_each(|(i, (b, a))| {
                let word = words[i];
                b.copy_from_slice(&noise);
                ring.forward(word, b);
                ring.mul_sub(word, b, a, &to[word * n..][..n]);
                if own.contains(&i) {
                    let p = centred(self.special_product(special, word), ring.word(word).p);
                    ring.scale_add(word, b, &from[word * n..][..n], p);
                }
            });
        }
        Ok(key)
    }

    /// The bodies of a key, or its masks, limb by limb.
    pub(super) fn packed_limbs(&self, key: &SwitchKey, limbs: &[f64]) -> Vec<Vec<u8>> {
        let words = self.words_of(key.level, key.special);
        let limbs = limbs.par_chunks(self.params().degree()).enumerate();
        limbs.map(|(i, limb)| self.ring().packed(words[i % words.len()], limb)).collect()
    }

    /// A key in a form.
    pub(crate) fn held(&self, key: SwitchKey, form: KeyForm) -> Held {
        if form == KeyForm::Ready {
            return Held::Ready(Arc::new(key));
        }
        let SwitchKey { level, special, seed, .. } = key;
        let packed = |limbs| self.packed_limbs(&key, limbs).concat();
        let masks = (form == KeyForm::Packed).then(|| packed(&key.masks));
        let bodies = Packed::Memory(packed(&key.bodies));
        Held::Stored(Arc::new(StoredKey { level, special, seed, bodies, masks }))
    }

    /// The mask of digit `j` modulo word `word`, in blocks of a fixed number of values.
    pub(crate) fn mask_row(
        &self,
        seed: &PublicSeed,
        j: usize,
        word: usize,
        block: usize,
    ) -> Uniform {
        Uniform::new(self.ring(), word, self.mask_stream(seed, j, word), block)
    }

    pub(super) fn mask_stream(&self, seed: &PublicSeed, j: usize, word: usize) -> MaskStream {
        MaskStream::new(seed, Domain::Evaluation, (j * self.all_words() + word) as u32)
    }

    /// The masks of a switch key, from its seed: a stream for each digit and word.
    pub(crate) fn draw_masks(&self, key: &mut SwitchKey) {
        let (n, words) = (self.params().degree(), self.words_of(key.level, key.special));
        let limbs = words.len();
        key.masks.par_chunks_mut(n).enumerate().for_each(|(i, a)| {
            let word = words[i % limbs];
            self.uniform(self.mask_stream(&key.seed, i / limbs, word), word, a);
        });
    }
}

/// The inverse of the odd `g` modulo 2N.
fn inverse_power(g: usize, degree: usize) -> usize {
    // g^(φ/2 − 1): the exponent of the group of units modulo 2N is N/2.
    let modulus = 2 * degree as u64;
    (0..degree / 2 - 1).fold(1, |x, _| mul(x, g as u64, modulus)) as usize
}
