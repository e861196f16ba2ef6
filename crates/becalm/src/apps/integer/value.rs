//! Values outside circuits: 256-bit clear integers and batches of encrypted ones.

use super::Type;
use crate::apps::circuit::require_tables;
use crate::cipher::{Encoding, KeyId, Lwe, SecretKey};
use crate::math::buffer::reserved;
use crate::math::memory::require_memory;
use crate::params::TfheParams;
use crate::program::Program;
use crate::{Error, Progress, Result, UNWATCHED};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use zeroize::{DefaultIsZeroes, Zeroizing};

/// A clear integer: 256 bits of two's complement, least significant word first, and whether a value with the highest bit
/// set is negative.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Clear {
    words: [u64; 4],
    signed: bool,
}

impl DefaultIsZeroes for Clear {}

impl Clear {
    /// From 32 bytes, least significant first.
    pub fn from_bytes(bytes: [u8; 32], signed: bool) -> Self {
        let mut words = [0; 4];
        for (w, b) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *w = b.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
        }
        Clear { words, signed }
    }

    /// 32 bytes, least significant first.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (b, w) in bytes.chunks_exact_mut(8).zip(self.words) {
            b.copy_from_slice(&w.to_le_bytes());
        }
        bytes
    }

    /// The low 128 bits.
    pub fn low(self) -> u128 {
        u128::from(self.words[1]) << 64 | u128::from(self.words[0])
    }

    /// The low 128 bits as two's complement.
    pub fn low_signed(self) -> i128 {
        self.low() as i128
    }

    fn bit(self, at: u32) -> u64 {
        match self.words.get(at as usize / 64) {
            Some(w) => w >> (at % 64) & 1,
            None => self.sign(),
        }
    }

    /// 1 for a negative value.
    fn sign(self) -> u64 {
        (self.words[3] >> 63) & u64::from(self.signed)
    }

    /// Digits of base 4, least significant first.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the type cannot hold the value; the value is not told.
    pub(super) fn digits(self, ty: Type) -> Result<Zeroizing<Vec<u64>>> {
        let bits = ty.bits();
        // The bits above the type must be the sign. In a signed type the highest bit is the sign too.
        let from = if ty.signed() { bits - 1 } else { bits };
        let wrong = (from..257).fold(0, |w, i| w | (self.bit(i) ^ self.sign()))
            | (self.sign() & u64::from(!ty.signed()));
        if wrong != 0 {
            return Err(Error::bad_input(
                "integer",
                format!("values of {ty}, {}", ty.range()),
                "one outside its range",
                "choose a wider type, or reduce the value",
            ));
        }
        let bit = |i: u32| if i < bits { self.bit(i) } else { 0 };
        let digits = (0..ty.digits() as u32).map(|d| bit(2 * d) + 2 * bit(2 * d + 1));
        Ok(Zeroizing::new(digits.collect()))
    }

    /// From digits of base 4; the sign is extended.
    pub(super) fn from_digits(ty: Type, digits: &[u64]) -> Self {
        let mut words = [0u64; 4];
        for (i, d) in digits.iter().enumerate() {
            // A ciphertext from elsewhere may decrypt to any digit. The result stays within the type all the same.
            words[i / 32] |= (d & ty.mask(i) as u64) << (2 * (i % 32));
        }
        let top = ty.bits() - 1;
        let negative = ty.signed() && words[top as usize / 64] >> (top % 64) & 1 == 1;
        for i in ty.bits()..256 {
            words[i as usize / 64] |= u64::from(negative) << (i % 64);
        }
        Clear { words, signed: ty.signed() }
    }
}

impl From<u128> for Clear {
    fn from(x: u128) -> Self {
        Clear { words: [x as u64, (x >> 64) as u64, 0, 0], signed: false }
    }
}

impl From<u64> for Clear {
    fn from(x: u64) -> Self {
        Clear::from(u128::from(x))
    }
}

impl From<bool> for Clear {
    fn from(x: bool) -> Self {
        Clear::from(u128::from(x))
    }
}

impl From<i128> for Clear {
    fn from(x: i128) -> Self {
        let fill = (x >> 127) as u64;
        Clear { words: [x as u64, (x >> 64) as u64, fill, fill], signed: true }
    }
}

impl From<i64> for Clear {
    fn from(x: i64) -> Self {
        Clear::from(i128::from(x))
    }
}

impl fmt::Debug for Clear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.words;
        write!(f, "0x{d:016x}_{c:016x}_{b:016x}_{a:016x}")
    }
}

/// A batch of encrypted integers of one type: a batch of ciphertexts for each digit of base 4, least significant first.
#[derive(Debug, Clone)]
pub struct Integers {
    ty: Type,
    digits: Vec<Lwe>,
}

impl Integers {
    /// From batches of digits, as [`Integers::digits`] gives them.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another number of digits than the type has, digits outside their range, or batches that do
    /// not go together.
    pub fn new(ty: Type, digits: Vec<Lwe>) -> Result<Self> {
        Integers::require(ty, &digits)?;
        Ok(Integers { ty, digits })
    }

    /// Refuses batches that are not the digits of a type.
    pub(super) fn require<B: Borrow<Lwe>>(ty: Type, digits: &[B]) -> Result<()> {
        let e = Encoding { values: 16, padding: true };
        let lanes = digits.first().map_or(0, |d| d.borrow().len());
        let fits = |(i, d): (usize, &B)| {
            let (d, (low, high)) = (d.borrow(), d.borrow().range());
            d.encoding() == e && low >= 0 && high <= ty.mask(i) && d.len() == lanes
        };
        if digits.len() != ty.checked()?.digits() || !digits.iter().enumerate().all(fits) {
            let all: Vec<&Lwe> = digits.iter().map(Borrow::borrow).collect();
            return Err(Error::bad_input(
                "integer",
                format!("{} digits of {ty}, each 0 to 3 of 16 values", ty.digits()),
                format!("{all:?}"),
                "pass the digits of one batch, least significant first",
            ));
        }
        let first = digits[0].borrow();
        digits[1..].iter().try_for_each(|d| first.require_like(d.borrow(), "integer"))
    }

    /// Encrypts values.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the type cannot hold one of them; [`Error::WrongParams`] for a set that has no circuits; what
    /// [`SecretKey::encrypt_as`] refuses.
    pub fn encrypt(secret: &SecretKey, ty: Type, values: &[Clear]) -> Result<Self> {
        Integers::encrypt_with(secret, ty, values, UNWATCHED)
    }

    /// [`Integers::encrypt`]; `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`Integers::encrypt`], and [`Error::Interrupted`].
    pub fn encrypt_with(
        secret: &SecretKey,
        ty: Type,
        values: &[Clear],
        progress: Progress,
    ) -> Result<Self> {
        ty.checked()?;
        require_tables("integer", secret.params())?;
        let rows = values.iter().map(|v| v.digits(ty)).collect::<Result<Vec<_>>>()?;
        let encoding = Encoding { values: 16, padding: true };
        // Allocated at its final length: a growing vector leaves copies behind.
        let mut digits = Zeroizing::new(Vec::with_capacity(ty.digits() * rows.len()));
        (0..ty.digits()).for_each(|i| digits.extend(rows.iter().map(|r| r[i])));
        // All digits from one seed, so that it can stand for all masks in a file.
        let all = secret.encrypt_as_with(&digits, encoding, 4, progress)?;
        // Each digit gets a batch of its own.
        require_memory("encrypt", size_of_val(&all.data[..]))?;
        Integers::from_batch_with(ty, &all, progress)
    }

    /// Clear integers in the form of encrypted ones, for `key` of a parameter set: anyone can read them.
    ///
    /// # Errors
    /// As [`Integers::encrypt`].
    pub fn trivial(
        params: &Arc<TfheParams>,
        key: KeyId,
        ty: Type,
        values: &[Clear],
    ) -> Result<Self> {
        ty.checked()?;
        require_tables("integer", params)?;
        let rows = values.iter().map(|v| v.digits(ty)).collect::<Result<Vec<_>>>()?;
        let empty = Lwe {
            params: params.clone(),
            key,
            role: Program::new(params.clone()).resting_role(),
            encoding: Encoding { values: 16, padding: true },
            range: (0, 0),
            noise: 0.0,
            independent: true,
            seed: None,
            data: vec![],
        };
        let digit = |i| Lwe::trivial(&empty, &rows.iter().map(|r| r[i]).collect::<Vec<u64>>());
        Integers::new(ty, (0..ty.digits()).map(digit).collect::<Result<_>>()?)
    }

    /// Decrypts.
    ///
    /// # Errors
    /// As [`SecretKey::decrypt`].
    pub fn decrypt(&self, secret: &SecretKey) -> Result<Vec<Clear>> {
        Integers::decrypt_digits(secret, self.ty, &self.digits)
    }

    /// Decrypts integers of these digits.
    ///
    /// # Errors
    /// As [`Integers::new`] and [`Integers::decrypt`].
    pub fn decrypt_digits<B: Borrow<Lwe>>(
        secret: &SecretKey,
        ty: Type,
        digits: &[B],
    ) -> Result<Vec<Clear>> {
        Integers::require(ty, digits)?;
        let lanes = digits.first().map_or(0, |d| d.borrow().len());
        let digits = digits.iter().map(|d| Ok(Zeroizing::new(secret.decrypt(d.borrow())?)));
        let digits = digits.collect::<Result<Vec<_>>>()?;
        let value = |lane: usize| {
            let digits = digits.iter().map(|d| d[lane]);
            Clear::from_digits(ty, &Zeroizing::new(digits.collect::<Vec<u64>>()))
        };
        let mut values = reserved("decrypt", lanes)?;
        values.extend((0..lanes).map(value));
        Ok(values)
    }

    /// Their type.
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// Number of integers.
    pub fn len(&self) -> usize {
        self.digits.first().map_or(0, Lwe::len)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The digits, without the type.
    pub fn into_digits(self) -> Vec<Lwe> {
        self.digits
    }

    /// The digits, least significant first.
    pub fn digits(&self) -> &[Lwe] {
        &self.digits
    }

    /// All digits in one batch, digit after digit: for a file.
    ///
    /// # Errors
    /// As [`Lwe::concat`].
    pub fn to_batch(&self) -> Result<Lwe> {
        Lwe::concat(&self.digits)
    }

    /// From the batch of [`Integers::to_batch`].
    ///
    /// # Errors
    /// As [`Integers::new`]; a batch whose length is not a multiple of the digits.
    pub fn from_batch(ty: Type, batch: &Lwe) -> Result<Self> {
        Integers::from_batch_with(ty, batch, UNWATCHED)
    }

    fn from_batch_with(ty: Type, batch: &Lwe, progress: Progress) -> Result<Self> {
        let n = ty.checked()?.digits();
        if !batch.len().is_multiple_of(n) || batch.range().1 > 3 {
            return Err(Error::bad_input(
                "integer",
                format!("digits 0 to 3, a multiple of {n}"),
                format!("{batch:?}"),
                "pass what to_batch gave, and its type",
            ));
        }
        let lanes = batch.len() / n;
        let digit = |i: usize| batch.slice_with(i * lanes..(i + 1) * lanes, progress);
        Integers::of_parts(ty, (0..n).map(digit).collect::<Result<_>>()?)
    }

    /// From the parts of the batch of [`Integers::to_batch`], a digit each. Digits of the range of all get their own.
    pub(super) fn of_parts(ty: Type, mut digits: Vec<Lwe>) -> Result<Self> {
        for (i, digit) in digits.iter_mut().enumerate().filter(|(_, d)| d.range.1 <= 3) {
            digit.range.1 = digit.range.1.min(ty.mask(i));
        }
        Integers::new(ty, digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::aes::{decrypt_bytes, encrypt_bytes};

    /// A refusal of a decryption depends on public facts alone: refusals of crafted ciphertexts would reveal the key.
    #[test]
    fn every_ciphertext_has_an_answer_and_a_refusal_is_by_public_facts() {
        let params = TfheParams::named("toy_2_2").unwrap();
        let secret = SecretKey::generate(params, true).unwrap();
        let mut state = 1u64;
        let mut garbage = |x: &mut Lwe| {
            for word in &mut x.data {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *word = state ^ state >> 29;
            }
        };
        for ty in [Type::Bool, Type::Uint(7), Type::Uint(8), Type::Int(8), Type::Int(64)] {
            let mut x = Integers::encrypt(&secret, ty, &[Clear::default(); 200]).unwrap();
            x.digits.iter_mut().for_each(&mut garbage);
            for value in x.decrypt(&secret).unwrap() {
                assert!(value.digits(ty).is_ok(), "{ty}");
            }
        }
        let mut bits = encrypt_bytes(&secret, &[0; 100]).unwrap();
        garbage(&mut bits);
        assert_eq!(decrypt_bytes(&secret, &bits).unwrap().len(), 100);
        let refused = |value| {
            let mut x = secret.encrypt(&[value]).unwrap();
            x.noise = 1e-3;
            secret.decrypt(&x).unwrap_err().to_string()
        };
        assert!(refused(0) == refused(3) && refused(0).contains("noise"));
    }

    #[test]
    fn a_long_encryption_can_be_stopped() {
        let params = TfheParams::named("toy_2_2").unwrap();
        let secret = SecretKey::generate(params, true).unwrap();
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let stop =
            |_: usize, _: usize| match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 | 1 => std::ops::ControlFlow::Continue(()),
                _ => std::ops::ControlFlow::Break(()),
            };
        let values = [Clear::default(); 1000];
        let stopped = Integers::encrypt_with(&secret, Type::Uint(8), &values, &stop);
        assert_eq!(stopped.unwrap_err().kind(), "interrupted");
        assert_eq!(asked.into_inner(), 3);
    }
}
