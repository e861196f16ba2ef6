//! Encryption under the secret or a public key, and decryption.
//!
//! (b + m, a) with b = e − a·s; public: (v·b + e_0 + m, v·a + e_1), v ternary.

use super::Context;
use crate::cipher::{CkksPublicKey, CkksSecretKey, KeyId, Rlwe};
use crate::math::complex::Complex;
use crate::math::random::{Domain, NoiseStream, SecretSeed};
use crate::math::rns::Scratch;
use crate::math::sampling;
use crate::params::NOISE_STD;
use crate::{Error, Result};
use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

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
        let parts = self.zero(secret, level, Domain::Ciphertext)?;
        let n = self.params().degree() as f64;
        self.sealed(message, parts, values.len(), level, secret.id, NOISE_STD * n.sqrt())
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
        let (words, n) = (self.words_of(level, 0), self.params().degree());
        let mut stream = NoiseStream::new(&SecretSeed::from_system()?, Domain::PublicKey, 1);
        let mut mask = Zeroizing::new(vec![0; n]);
        sampling::ternary(&mut stream, &mut mask);
        let mask = Zeroizing::new(mask.iter().map(|x| *x as f64).collect::<Vec<_>>());
        let mask = self.secret_limbs(&mask, &words);
        let parts = [0, 1].map(|k| {
            let mut part = self.limbs(&self.noise(&mut stream), &words);
            let limbs = part.par_chunks_mut(n).zip(mask.par_chunks(n)).enumerate();
            limbs.for_each(|(i, (x, v))| {
                self.ring().mul_add(words[i], x, v, &key.parts[k][i * n..][..n]);
            });
            part
        });
        // e·v + e_0 + e_1·s: variance (1 + 2·2N/3)·σ² a coefficient.
        let n = n as f64;
        let error = NOISE_STD * (n * (1.0 + 4.0 / 3.0 * n)).sqrt();
        self.sealed(message, parts, values.len(), level, key.id, error)
    }

    fn message(&self, values: &[Complex], level: usize) -> Result<Zeroizing<Vec<f64>>> {
        self.check_values("encrypt", values)?;
        let scale = self.scale(level)?;
        let coefficients = Zeroizing::new(self.coefficients(values, scale));
        let modulus: f64 = (0..=level.min(3)).map(|i| self.step(i)).product();
        match coefficients.iter().map(|x| x.abs()).fold(0.0, f64::max) {
            largest if largest < modulus / 4.0 => Ok(coefficients),
            largest => Err(Error::bad_input(
                "encrypt",
                format!("values whose encoding stays below 2^{:.0}", (modulus / 4.0).log2()),
                format!("2^{:.1}", largest.log2()),
                "scale the values down, or encrypt at a higher level",
            )),
        }
    }

    fn sealed(
        &self,
        message: Zeroizing<Vec<f64>>,
        mut parts: [Scratch; 2],
        slots: usize,
        level: usize,
        key: KeyId,
        error: f64,
    ) -> Result<Rlwe> {
        let (words, n) = (self.words_of(level, 0), self.params().degree());
        let mut limbs = self.limbs(&message, &words);
        let pairs = parts[0].par_chunks_mut(n).zip(limbs.par_chunks(n)).enumerate();
        pairs.for_each(|(i, (x, m))| self.ring().add(words[i], x, m));
        // It goes back to the pool of everybody's buffers.
        limbs.zeroize();
        let scale = self.scale(level)?;
        let params = self.params().name;
        Ok(Rlwe { params, key, level, scale, slots, error: error / scale, parts })
    }

    /// Decrypts to the values in the slots. The error of CKKS depends on the secret: do not publish what this returns
    /// (Li–Micciancio 2021).
    ///
    /// # Errors
    /// `WrongParams` for another set, `WrongKey` for another key.
    pub fn decrypt(&self, ciphertext: &Rlwe, secret: &CkksSecretKey) -> Result<Vec<Complex>> {
        self.check_set("decrypt", ciphertext.params)?;
        self.check_set("decrypt", secret.params)?;
        if ciphertext.key != secret.id {
            let (wanted, got) = (format!("key {}", ciphertext.key), secret.id.to_string());
            return Err(Error::wrong_key(
                "decrypt",
                wanted,
                got,
                "use the key it was encrypted with",
            ));
        }
        let n = self.params().degree();
        let mut words = self.words_of(ciphertext.level, 0);
        words.truncate(3);
        let s = self.secret_limbs(&secret.coefficients, &words);
        let mut phase = self.ring().scratch(words.len() * n);
        phase.par_chunks_mut(n).enumerate().for_each(|(i, x)| {
            x.copy_from_slice(&ciphertext.parts[0][i * n..][..n]);
            self.ring().mul_add(words[i], x, &ciphertext.parts[1][i * n..][..n], &s[i * n..][..n]);
        });
        let mut values = self.values(self.integers(&phase, ciphertext.level), ciphertext.scale);
        phase.zeroize();
        values.truncate(ciphertext.slots);
        Ok(values)
    }
}
