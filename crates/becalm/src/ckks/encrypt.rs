//! Encryption under the secret or a public key, and decryption.
//!
//! (b + m, a) with b = e − a·s; public: (v·b + e_0 + m, v·a + e_1), v ternary.

use super::Context;
use super::encode::{MESSAGE_BITS, wipe};
use super::flood;
use crate::cipher::{
    Account, CkksPublicKey, CkksSecretKey, KeyId, Rlwe, Standing, fresh_bound, product_bound,
};
use crate::math::buffer::or_refused;
use crate::math::complex::{Complex, DOUBLES};
use crate::math::parallel::*;
use crate::math::random::{Domain, NoiseStream, SecretSeed};
use crate::math::rns::Scratch;
use crate::math::sampling;
use crate::params::NOISE_STD;
use crate::{Error, Result};
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// How much larger the noise of one key may be than that of the mean of all. Its deviation is 1.4 % at N = 2^12, and less in larger rings.
const SINGLE_KEY: f64 = 1.1;

/// Whether all values are within a bound. No branch and no time depends on them before the answer.
fn fits(values: &[Complex], bound: f64) -> bool {
    // Squares of tiny numbers would be subnormal, which takes processors longer.
    let square = |x: f64| (x / bound).abs().max(2f64.powi(-100)).powi(2);
    let largest = values.iter().map(|v| square(v.re) + square(v.im)).fold(0.0, f64::max);
    largest <= 1.0 + 2f64.powi(-40)
}

impl Rlwe {
    /// An own encryption of these values with their bound.
    fn declared(self, values: &[Complex], bound: f64) -> Result<Rlwe> {
        let mut x = self.bounded("encrypt", bound)?;
        if !fits(values, bound) {
            let wanted = format!("values of absolute value {bound} at most");
            let remedy = "state a larger bound, or scale the values down";
            return Err(Error::bad_input("encrypt", wanted, "a larger one", remedy));
        }
        let encoded = DOUBLES * bound;
        let account = x.account.blurred((encoded, fresh_bound(encoded)));
        x.account = Account { standing: Standing::BOUNDED, ..account };
        Ok(x)
    }

    /// An encryption with a public key, whose maker a file cannot prove.
    pub(super) fn by(mut self, key: &CkksPublicKey) -> Rlwe {
        self.account.parties = key.parties;
        if key.foreign {
            self.account = self.account.but(Standing::FOREIGN);
        }
        self
    }
}

impl Context {
    /// Encrypts a power of two of values, at most N/2, at `level` (at most the set's `levels`) under the secret key.
    /// Values of absolute value up to about 1 keep the precision that the set claims.
    ///
    /// # Errors
    /// `BadInput` for values or a level that cannot be, `WrongParams` for a key of another set, `Io` when the system has
    /// no randomness.
    pub fn encrypt(
        &self,
        values: &[Complex],
        level: usize,
        secret: &CkksSecretKey,
    ) -> Result<Rlwe> {
        self.check_set("encrypt", secret.params)?;
        let message = self.message(values, level)?;
        let sealed = || self.sealed(secret, level, Domain::Ciphertext, Some(&message));
        let parts = or_refused("encrypt", sealed)?;
        let error = NOISE_STD * (self.params().degree() as f64).sqrt() / self.scale(level)?;
        self.fresh(parts, values, level, secret.id, (error, fresh_bound(error)))
    }

    /// [`Context::encrypt`] of values of absolute value at most `bound`, on which the claims of errors of all results depend. The bound
    /// is public: it stands in the file of the ciphertext.
    ///
    /// # Errors
    /// As [`Context::encrypt`] and [`Rlwe::within`]; `BadInput` for a larger value.
    pub fn encrypt_within(
        &self,
        values: &[Complex],
        bound: f64,
        level: usize,
        secret: &CkksSecretKey,
    ) -> Result<Rlwe> {
        self.encrypt(values, level, secret)?.declared(values, bound)
    }

    /// As [`Context::encrypt`], with a public key.
    ///
    /// # Errors
    /// As [`Context::encrypt`].
    pub fn encrypt_public(
        &self,
        values: &[Complex],
        level: usize,
        key: &CkksPublicKey,
    ) -> Result<Rlwe> {
        self.check_set("encrypt", key.params)?;
        let message = self.message(values, level)?;
        let parts = or_refused("encrypt", || self.masked(&message, level, key))?;
        let unit = (self.params().degree() as f64).sqrt() / self.scale(level)?;
        let error = self.public_noise(key) * unit;
        let made = (error, product_bound(error));
        Ok(self.fresh(parts, values, level, key.id, made)?.by(key))
    }

    /// As [`Context::encrypt_within`], with a public key.
    ///
    /// # Errors
    /// As [`Context::encrypt_within`].
    pub fn encrypt_public_within(
        &self,
        values: &[Complex],
        bound: f64,
        level: usize,
        key: &CkksPublicKey,
    ) -> Result<Rlwe> {
        Ok(self.encrypt_public(values, level, key)?.declared(values, bound)?.by(key))
    }

    /// Standard deviation of the noise of a coefficient that a public key encrypted, e·v + e_0 + e_1·s: e and s are sums of as many as there
    /// were parties. Of a key that parties made it is an upper bound.
    pub(super) fn public_noise(&self, key: &CkksPublicKey) -> f64 {
        let (n, parties) = (self.params().degree() as f64, key.parties as f64);
        let margin = if key.parties == 1 { 1.0 } else { SINGLE_KEY };
        margin * NOISE_STD * (1.0 + 4.0 / 3.0 * n * parties).sqrt()
    }

    /// A message behind a random multiple of a public key.
    pub(super) fn masked(
        &self,
        message: &[f64],
        level: usize,
        key: &CkksPublicKey,
    ) -> Result<[Scratch; 2]> {
        let (words, n) = (self.words_of(level, 0), self.params().degree());
        let mut stream = NoiseStream::new(&SecretSeed::from_system()?, Domain::PublicKey, 1);
        let mut mask = Zeroizing::new(vec![0; n]);
        sampling::ternary(&mut stream, &mut mask);
        let mask = Zeroizing::new(mask.iter().map(|x| *x as f64).collect::<Vec<_>>());
        let mask = self.secret_limbs(&mask, &words);
        let parts = [0, 1].map(|k| {
            let noise = self.noise(&mut stream);
            let mut part = match k {
                0 => self.noisy_limbs(message, &noise, &words),
                _ => self.limbs(&noise, &words),
            };
            let limbs = part.par_chunks_mut(n).zip(mask.par_chunks(n)).enumerate();
            limbs.for_each(|(i, (x, v))| {
                self.ring().mul_add(words[i], x, v, &key.parts[k][i * n..][..n]);
            });
            part
        });
        Ok(parts)
    }

    /// The coefficients of a message. The error that a ciphertext claims is public, so no part of it may depend on them.
    fn message(&self, values: &[Complex], level: usize) -> Result<Zeroizing<Vec<f64>>> {
        let (op, most) = ("encrypt", self.params().levels);
        self.check_values(op, values)?;
        if level > most {
            let remedy = "choose one of these; the levels above belong to bootstraps";
            let wanted = format!("a level from 0 to {most}");
            return Err(Error::bad_input(op, wanted, level.to_string(), remedy));
        }
        let coefficients = Zeroizing::new(self.coefficients(values, self.scale(level)?));
        let largest = coefficients.iter().map(|x| x.abs()).fold(0.0, f64::max);
        let room = self.room(level).min(2f64.powi(MESSAGE_BITS));
        if largest < room {
            return Ok(coefficients);
        }
        let wanted = format!("values whose encoding stays below 2^{:.0}", room.log2());
        let got = "a larger one".to_string();
        let remedy = "scale the values down, or encrypt at a higher level";
        Err(Error::bad_input(op, wanted, got, remedy))
    }

    /// A ciphertext of `values` whose noise has a standard deviation and an upper bound.
    fn fresh(
        &self,
        parts: [Scratch; 2],
        values: &[Complex],
        level: usize,
        key: KeyId,
        (error, most): (f64, f64),
    ) -> Result<Rlwe> {
        let (scale, params, slots) = (self.scale(level)?, self.params().name, values.len());
        let rounded = fresh_bound(self.encoding(scale, 1.0));
        let standing = match fits(values, 1.0) {
            true => Standing::BOUNDED,
            false => Standing::EXCEEDED,
        };
        let account = Account::new(1.0, error.hypot(DOUBLES), most.hypot(rounded), standing);
        let parts = parts.map(Arc::new);
        let integers = None;
        Ok(Rlwe { params, key, level, scale, slots, account, integers, parts })
    }

    /// Refuses a ciphertext that is not of this secret key.
    pub(crate) fn check_key(&self, ciphertext: &Rlwe, secret: &CkksSecretKey) -> Result<()> {
        self.check_set("decrypt", ciphertext.params)?;
        self.check_set("decrypt", secret.params)?;
        if ciphertext.key == secret.id {
            return Ok(());
        }
        let (wanted, got) = (format!("key {}", ciphertext.key), secret.id.to_string());
        Err(Error::wrong_key("decrypt", wanted, got, "use the key it was encrypted with"))
    }

    /// Decrypts to the values in the slots. The error of CKKS depends on the secret: do not publish the result
    /// (Li–Micciancio 2021).
    ///
    /// # Errors
    /// `WrongParams` for another set, `WrongKey` for another key, `BadInput` for packed integers, whose slots hold no values.
    pub fn decrypt(&self, ciphertext: &Rlwe, secret: &CkksSecretKey) -> Result<Vec<Complex>> {
        self.check_key(ciphertext, secret)?;
        ciphertext.require_slots("decrypt")?;
        let mut phase = self.phase(ciphertext, secret);
        let mut values = self.values(self.integers(&phase, ciphertext.level), ciphertext.scale);
        phase.zeroize();
        if let Some(rest) = values.get_mut(ciphertext.slots..) {
            wipe(rest);
        }
        values.truncate(ciphertext.slots);
        Ok(values)
    }

    /// Decrypts to values that others may see: with errors of standard deviation 2^-`precision_bits`, which hide the error of the
    /// ciphertext. Each call spends 1/`queries` of the secret key's budget, a refusal because of decrypted values
    /// included, and none is answered beyond. `queries` is the number of decryptions under this key that will be shared in all.
    ///
    /// The secret key counts in memory ([`CkksSecretKey::spent`]). Whoever reads the key from its file again, or has several copies
    /// of it, lets `queries` cover the calls of all of them.
    ///
    /// # Errors
    /// As [`Context::bits_to_share`] and [`Context::decrypt`]; `TooNoisy`, with the bits that are possible, where the noise asked for
    /// is too little to hide anything; `BadInput` for a precision that is not in −60 ..= 60 and for a key that has shared as much as
    /// it may; `Io` when the system has no randomness. All of these are decided on public facts, before anything is decrypted.
    ///
    /// `BadInput` for results that cannot be within the bound that the account states, decided on the results with their
    /// noise: it tells no more than they would have. It means that the account is wrong, so the results are not given.
    pub fn decrypt_to_share(
        &self,
        ciphertext: &Rlwe,
        secret: &CkksSecretKey,
        precision_bits: f64,
        queries: u64,
    ) -> Result<Vec<Complex>> {
        let op = "decrypt_to_share";
        ciphertext.require_slots(op)?;
        let numbers = 2 * ciphertext.slots;
        let most = || self.bits_shown(op, ciphertext, numbers, queries);
        flood::check_precision(op, precision_bits, most)?;
        self.check_key(ciphertext, secret)?;
        let seed = SecretSeed::from_system()?;
        flood::spend(op, &secret.budget, queries)?;
        let mut raw = self.decrypt(ciphertext, secret)?;
        let values = Zeroizing::new(flat(&raw));
        wipe(&mut raw);
        let mut shared = flood::with_noise(&values, &seed, precision_bits);
        let Account { values, worst, .. } = ciphertext.account;
        let most = values + worst + flood::REACH * (-precision_bits).exp2();
        let largest = shared.iter().map(|v| v.abs()).fold(0.0, f64::max);
        if largest <= most {
            return Ok(shared);
        }
        wipe(&mut shared);
        let wanted = format!("results of absolute value {values} at most, as their account says");
        let remedy = "ask how the ciphertext was computed: a bound that was vouched for is wrong";
        Err(Error::bad_input(op, wanted, "a larger one", remedy))
    }

    /// c_0 + c_1·s, modulo at most three words.
    pub(super) fn phase(&self, ciphertext: &Rlwe, secret: &CkksSecretKey) -> Scratch {
        let n = self.params().degree();
        let mut words = self.words_of(ciphertext.level, 0);
        words.truncate(3);
        let s = self.secret_values(secret, ciphertext.level);
        let mut phase = self.ring().scratch(words.len() * n);
        phase.par_chunks_mut(n).enumerate().for_each(|(i, x)| {
            x.copy_from_slice(&ciphertext.parts[0][i * n..][..n]);
            self.ring().mul_add(words[i], x, &ciphertext.parts[1][i * n..][..n], &s[i * n..][..n]);
        });
        phase
    }
}

fn flat(values: &[Complex]) -> Vec<f64> {
    values.iter().flat_map(|v| [v.re, v.im]).collect()
}
