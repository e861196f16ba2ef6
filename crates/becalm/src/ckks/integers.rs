//! Integers as coefficients: m of b bits is m·q_0/2^b at level 0, so that sums modulo 2^b are sums of ciphertexts. Which coefficient holds the
//! integer of a place, [`Integers::coefficient`] says.
//!
//! Decryption rounds to the nearest integer. It is exact as long as the error of each coefficient stays below q_0/2^(b+1).

use super::Context;
use crate::cipher::{
    Account, CkksPublicKey, CkksSecretKey, Integers, KeyId, PRODUCT_TAIL, Rlwe, Standing, TAIL,
};
use crate::math::buffer::or_refused;
use crate::math::complex::Complex;
use crate::math::random::Domain;
use crate::math::rns::Scratch;
use crate::math::round::nearest;
use crate::params::NOISE_STD;
use crate::{Error, Result};
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

impl Context {
    /// Encrypts integers below 2^`bits`, at most N, under the secret key.
    ///
    /// # Errors
    /// `WrongParams` for a set without tables and for a key of another set; `BadInput` for other bits than the tables of the set take, no
    /// values or too many, and for a value that is too large; `Io` when the system has no randomness.
    ///
    /// ```
    /// use becalm::ckks::Context;
    /// use becalm::params::CkksParams;
    ///
    /// let context = Context::new(CkksParams::named("ckks_toy_table_4")?, true)?;
    /// let secret = context.secret_key()?;
    /// let x = context.encrypt_integers(&[3, 1, 4, 15], 4, &secret)?;
    /// assert_eq!(context.decrypt_integers(&x, &secret)?, [3, 1, 4, 15]);
    /// # Ok::<(), becalm::Error>(())
    /// ```
    pub fn encrypt_integers(
        &self,
        values: &[u64],
        bits: u32,
        secret: &CkksSecretKey,
    ) -> Result<Rlwe> {
        self.check_set("encrypt", secret.params)?;
        let message = self.integer_message("encrypt", values, bits)?;
        let sealed = || self.sealed(secret, 0, Domain::Ciphertext, Some(&message));
        let parts = or_refused("encrypt", sealed)?;
        let error = NOISE_STD / self.step(0);
        self.of_integers(parts, (values.len(), bits), secret.id, (error, TAIL * error))
    }

    /// As [`Context::encrypt_integers`], with a public key.
    ///
    /// # Errors
    /// As there.
    pub fn encrypt_integers_public(
        &self,
        values: &[u64],
        bits: u32,
        key: &CkksPublicKey,
    ) -> Result<Rlwe> {
        self.check_set("encrypt", key.params)?;
        let message = self.integer_message("encrypt", values, bits)?;
        let parts = or_refused("encrypt", || self.masked(&message, 0, key))?;
        let error = self.public_noise(key) / self.step(0);
        let made = (error, PRODUCT_TAIL * error);
        Ok(self.of_integers(parts, (values.len(), bits), key.id, made)?.by(key))
    }

    /// Integers that everybody may know as a ciphertext under a key, to be added to others: it hides nothing.
    ///
    /// # Errors
    /// As [`Context::encrypt_integers`].
    pub fn public_integers(&self, values: &[u64], bits: u32, key: KeyId) -> Result<Rlwe> {
        let message = self.integer_message("add", values, bits)?;
        let words = self.words_of(0, 0);
        let make = || {
            let mut none = self.ring().scratch(words.len() * message.len());
            none.fill(0.0);
            Ok([self.limbs(&message, &words), none])
        };
        let parts = or_refused("add", make)?;
        // Half a unit of q_0, from rounding.
        let error = 0.5 / self.step(0);
        self.of_integers(parts, (values.len(), bits), key, (error, error))
    }

    /// Integers that everybody may know, to be added to encrypted ones of so many bits: values modulo the words of level 0. A single one
    /// stands for all places.
    pub(crate) fn plain_integers(&self, values: &[Complex], bits: u32) -> Scratch {
        let unit = self.step(0) / f64::from(1u32 << bits);
        let mut message = vec![0.0; self.params().degree()];
        match values {
            [one] => message.fill(one.re * unit),
            several => place(&mut message, several.iter().map(|v| v.re * unit)),
        }
        self.limbs(&message, &self.words_of(0, 0))
    }

    /// Decrypts to the integers nearest the coefficients.
    ///
    /// # Errors
    /// `WrongParams` for another set, `WrongKey` for another key, `BadInput` for a ciphertext of values in slots, `TooNoisy` where errors may
    /// turn integers into others. The refusals depend on public facts alone.
    pub fn decrypt_integers(&self, x: &Rlwe, secret: &CkksSecretKey) -> Result<Vec<u64>> {
        self.check_key(x, secret)?;
        let Some(Integers { bits, count }) = x.integers else {
            let remedy = "decrypt values in slots with `decrypt`";
            return Err(Error::bad_input("decrypt", "integers", "values in slots", remedy));
        };
        Integers::require_exact("decrypt", bits, x.account)?;
        let mut phase = self.phase(x, secret);
        let coefficients = Zeroizing::new(self.integers(&phase, x.level));
        phase.zeroize();
        let (unit, mask) = (f64::from(1u32 << bits) / self.step(0), (1i64 << bits) - 1);
        let round = |c: &f64| (nearest(c * unit) as i64 & mask) as u64;
        let n = coefficients.len();
        Ok((0..count).map(|i| round(&coefficients[Integers::coefficient(i, n)])).collect())
    }

    /// The error of the coefficients of integers, in units of q_0: the root of the mean square, and the greatest. For tests.
    #[doc(hidden)]
    pub fn integer_errors(&self, x: &Rlwe, secret: &CkksSecretKey) -> (f64, f64) {
        let unit = f64::from(1u32 << x.integers.map_or(0, |own| own.bits));
        let phase = self.integers(&self.phase(x, secret), x.level);
        let error = |c: &f64| (c * unit / self.step(0) - nearest(c * unit / self.step(0))) / unit;
        let square = phase.iter().map(|c| error(c).powi(2)).sum::<f64>() / phase.len() as f64;
        (square.sqrt(), phase.iter().map(|c| error(c).abs()).fold(0.0, f64::max))
    }

    /// The coefficients of integers.
    fn integer_message(
        &self,
        op: &'static str,
        values: &[u64],
        bits: u32,
    ) -> Result<Zeroizing<Vec<f64>>> {
        self.check_integers(op, bits)?;
        let n = self.params().degree();
        if values.is_empty() || values.len() > n {
            let (wanted, got) = (format!("1 to {n} integers"), values.len().to_string());
            return Err(Error::bad_input(op, wanted, got, "use several ciphertexts"));
        }
        // No time depends on which value is too large.
        if values.iter().fold(0, |all, v| all | v >> bits) != 0 {
            let wanted = format!("integers below {}", 1u64 << bits);
            let remedy = match self.check_integers(op, bits + 1) {
                Ok(()) => "use more bits",
                Err(_) => "split larger integers into digits",
            };
            return Err(Error::bad_input(op, wanted, "a larger one", remedy));
        }
        let unit = self.step(0) / f64::from(1u32 << bits);
        let mut message = Zeroizing::new(vec![0.0; n]);
        place(&mut message, values.iter().map(|v| *v as f64 * unit));
        Ok(message)
    }

    fn of_integers(
        &self,
        parts: [Scratch; 2],
        (count, bits): (usize, u32),
        key: KeyId,
        (error, worst): (f64, f64),
    ) -> Result<Rlwe> {
        let (params, level, scale) = (self.params().name, 0, self.scale(0)?);
        let account = Account::new(1.0, error, worst, Standing::BOUNDED);
        let (slots, integers) = (self.params().slots(), Some(Integers { bits, count }));
        let parts = parts.map(Arc::new);
        Ok(Rlwe { params, key, level, scale, slots, account, integers, parts })
    }
}

/// Puts numbers at the coefficients of the first places.
fn place(message: &mut [f64], numbers: impl Iterator<Item = f64>) {
    let n = message.len();
    numbers.enumerate().for_each(|(i, x)| message[Integers::coefficient(i, n)] = x);
}
