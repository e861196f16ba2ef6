//! Files of what users keep: ciphertexts and secret keys of CKKS, in the container of all files (docs/files.md).
//!
//! A polynomial is packed as on the wire: residues 0 ≤ x < p of ⌈log2 p⌉ bits, word after word. The parameter set stands in
//! the file and must be that of the context, number for number; level, scale and error are checked against it. An error below that
//! of a fresh encryption is raised to it: one that is too small would have too little noise added to what is shared.

use super::Context;
use crate::cipher::file::{
    Data, Draft, Dtype, Header, Kind, Reader, Trust, bad, hex, read_file, require_limit,
};
use crate::cipher::{CkksSecretKey, KeyId, Rlwe};
use crate::params::NOISE_STD;
use crate::{Error, Result};
use std::path::Path;
use zeroize::Zeroizing;

impl Context {
    /// The file of a ciphertext, in memory.
    ///
    /// # Errors
    /// `WrongParams` for a ciphertext of another set.
    pub fn ciphertext_to_bytes(&self, x: &Rlwe) -> Result<Vec<u8>> {
        let parts = self.parts_of(x)?;
        self.ciphertext_draft(x, &parts)?.to_bytes()
    }

    /// Writes a ciphertext to a file: about 50 bits for each of 64 in memory.
    ///
    /// # Errors
    /// `WrongParams` for a ciphertext of another set, `Io` when writing fails; then there is no new file and an old one is
    /// as it was.
    pub fn save_ciphertext(&self, x: &Rlwe, path: impl AsRef<Path>) -> Result<()> {
        let parts = self.parts_of(x)?;
        self.ciphertext_draft(x, &parts)?.save(path.as_ref(), false)
    }

    /// Bytes of a ciphertext of this set in a file, but for the header.
    pub fn stored_ciphertext_bytes(&self, x: &Rlwe) -> usize {
        let words = self.words_of(x.level.min(self.params().top_level()), 0);
        2 * words.into_iter().map(|i| self.limb_bytes(i)).sum::<usize>()
    }

    /// A ciphertext from a file in memory.
    ///
    /// # Errors
    /// `BadFile` or `WrongParams` for anything but a ciphertext of this set that becalm wrote, of at most `trust.limit`
    /// bytes.
    pub fn ciphertext_from_bytes(&self, bytes: &[u8], trust: Trust) -> Result<Rlwe> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::Rlwe)?;
        let empty = self.ciphertext_claims(file.header())?;
        file.verify()?;
        let mut x = empty;
        let (words, n) = (self.words_of(x.level, 0), self.params().degree());
        for (k, name) in ["c0", "c1"].into_iter().enumerate() {
            let (mut bytes, mut part) = (file.bytes(name), self.ring().scratch(words.len() * n));
            for (i, limb) in words.iter().zip(part.chunks_mut(n)) {
                let (own, rest) = bytes.split_at(self.limb_bytes(*i));
                self.unpack(*i, own, limb)?;
                bytes = rest;
            }
            x.parts[k] = part;
        }
        Ok(x)
    }

    /// Reads a ciphertext from a file.
    ///
    /// # Errors
    /// As [`Context::ciphertext_from_bytes`], and `Io`.
    pub fn load_ciphertext(&self, path: impl AsRef<Path>, trust: Trust) -> Result<Rlwe> {
        let check = |header: &Header| self.ciphertext_claims(header).map(drop);
        let bytes = read_file(path.as_ref(), trust.limit, check)?;
        self.ciphertext_from_bytes(&bytes, trust)
    }

    /// The file of a secret key, in memory, wiped when dropped.
    ///
    /// # Errors
    /// `WrongParams` for a key of another set.
    pub fn secret_key_to_bytes(&self, secret: &CkksSecretKey) -> Result<Zeroizing<Vec<u8>>> {
        let digits = self.digits_of(secret)?;
        Ok(Zeroizing::new(self.secret_draft(secret, &digits)?.to_bytes()?))
    }

    /// Writes a secret key to a file that only its owner can read.
    ///
    /// # Errors
    /// `WrongParams` for a key of another set, `Io` when writing fails.
    pub fn save_secret_key(&self, secret: &CkksSecretKey, path: impl AsRef<Path>) -> Result<()> {
        let digits = self.digits_of(secret)?;
        self.secret_draft(secret, &digits)?.save(path.as_ref(), true)
    }

    /// A secret key from a file in memory.
    ///
    /// # Errors
    /// `BadFile` or `WrongParams` for anything but a secret key of this set that becalm wrote.
    pub fn secret_key_from_bytes(&self, bytes: &[u8], trust: Trust) -> Result<CkksSecretKey> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::CkksSecretKey)?;
        let id = self.secret_claims(file.header())?;
        file.verify()?;
        let mut coefficients = Zeroizing::new(Vec::with_capacity(self.params().degree()));
        for byte in file.bytes("secret") {
            coefficients.extend((0..4).map(|i| f64::from(byte >> (2 * i) & 3) - 1.0));
        }
        if coefficients.iter().any(|x| *x > 1.0) {
            return Err(bad("coefficients of −1, 0 or 1", "another one"));
        }
        let coefficients = std::mem::take(&mut *coefficients);
        Ok(CkksSecretKey::new(self.params().name, id, coefficients))
    }

    /// Reads a secret key from a file.
    ///
    /// # Errors
    /// As [`Context::secret_key_from_bytes`], and `Io`.
    pub fn load_secret_key(&self, path: impl AsRef<Path>, trust: Trust) -> Result<CkksSecretKey> {
        let check = |header: &Header| self.secret_claims(header).map(drop);
        let bytes = read_file(path.as_ref(), trust.limit, check)?;
        self.secret_key_from_bytes(&bytes, trust)
    }

    /// The set, all of its fields as JSON.
    fn row(&self) -> Result<String> {
        serde_json::to_string(self.params())
            .map_err(|e| bad("a parameter set that can be written", e.to_string()))
    }

    /// Two bits for each coefficient, plus one.
    fn digits_of(&self, secret: &CkksSecretKey) -> Result<Zeroizing<Vec<u8>>> {
        self.check_set("save", secret.params)?;
        let digit = |(i, x): (usize, &f64)| ((x + 1.0) as u8) << (2 * i);
        let byte = |four: &[f64]| four.iter().enumerate().map(digit).fold(0, |a, b| a | b);
        Ok(Zeroizing::new(secret.coefficients.chunks(4).map(byte).collect()))
    }

    fn secret_draft<'a>(&self, secret: &CkksSecretKey, digits: &'a [u8]) -> Result<Draft<'a>> {
        Ok(Draft::of(Kind::CkksSecretKey, self.row()?).note("key", hex(&secret.id.0)).tensor(
            "secret",
            &[digits.len() as u64],
            Data::Bytes(digits),
        ))
    }

    fn secret_claims(&self, header: &Header) -> Result<KeyId> {
        header.require(Kind::CkksSecretKey)?;
        self.require_row(header)?;
        header.expect(&[("secret", Dtype::U8, &[self.params().degree() as u64 / 4])])?;
        header.key()
    }

    /// Both polynomials, packed.
    fn parts_of(&self, x: &Rlwe) -> Result<[Vec<u8>; 2]> {
        self.check_set("save", x.params)?;
        let n = self.params().degree();
        Ok([0, 1].map(|k| {
            let words = self.words_of(x.level.min(self.params().top_level()), 0);
            let limbs = words.into_iter().zip(x.parts[k].chunks(n));
            limbs.flat_map(|(i, limb)| self.ring().packed(i, limb)).collect()
        }))
    }

    fn ciphertext_draft<'a>(&self, x: &Rlwe, [c0, c1]: &'a [Vec<u8>; 2]) -> Result<Draft<'a>> {
        let shape = [c0.len() as u64];
        Ok(Draft::of(Kind::Rlwe, self.row()?)
            .note("key", hex(&x.key.0))
            .note("level", x.level.to_string())
            .note("scale", format!("{:e}", x.scale))
            .note("slots", x.slots.to_string())
            .note("error", format!("{:e}", x.error))
            .tensor("c0", &shape, Data::Bytes(c0))
            .tensor("c1", &shape, Data::Bytes(c1)))
    }

    /// The ciphertext that a header describes, without its polynomials.
    fn ciphertext_claims(&self, header: &Header) -> Result<Rlwe> {
        header.require(Kind::Rlwe)?;
        self.require_row(header)?;
        let level = number::<usize>(header, "level", |l| *l <= self.params().top_level())?;
        let slots = number::<usize>(header, "slots", |n| {
            n.is_power_of_two() && *n <= self.params().slots()
        })?;
        // A larger one has no room for any value.
        let scale = real(header, "scale", 1.0, self.room(level))?;
        let error = real(header, "error", 0.0, f64::MAX)?;
        let n = self.params().degree();
        let words = self.words_of(level, 0);
        let bytes = [words.iter().map(|i| self.limb_bytes(*i) as u64).sum::<u64>()];
        header.expect(&[("c0", Dtype::U8, &bytes), ("c1", Dtype::U8, &bytes)])?;
        let fresh = NOISE_STD * (n as f64).sqrt() / scale;
        let parts = [self.ring().scratch(0), self.ring().scratch(0)];
        let (params, key) = (self.params().name, header.key()?);
        Ok(Rlwe { params, key, level, scale, slots, error: error.max(fresh), parts })
    }

    fn require_row(&self, header: &Header) -> Result<()> {
        let (wanted, got) = (self.row()?, header.entry("params")?);
        if wanted == got {
            return Ok(());
        }
        let name = |row: &str| {
            let row: Option<serde_json::Value> = serde_json::from_str(row).ok();
            let name = row.as_ref().and_then(|r| r.get("name")).and_then(|n| n.as_str());
            name.map_or("a set without a name".to_string(), |n| n.chars().take(32).collect())
        };
        let remedy = "read it with a context of its set, and with the becalm that wrote it";
        let wanted = format!("`{}` as it is here", self.params().name);
        Err(Error::wrong_params("load", wanted, format!("`{}`", name(got)), remedy))
    }
}

/// A whole number as it is written here, without sign or leading zeros, that `fits`.
fn number<T>(header: &Header, name: &str, fits: impl Fn(&T) -> bool) -> Result<T>
where
    T: std::str::FromStr + ToString,
{
    let text = header.entry(name)?;
    let read = text.parse().ok().filter(|x: &T| x.to_string() == text && fits(x));
    read.ok_or_else(|| bad(format!("a {name} that the set has"), format!("{text:.32}")))
}

/// A finite number of `least` to `most`, as it is written here.
fn real(header: &Header, name: &str, least: f64, most: f64) -> Result<f64> {
    let text = header.entry(name)?;
    let fits = |x: &f64| (least..=most).contains(x) && format!("{x:e}") == text;
    let read = text.parse().ok().filter(fits);
    read.ok_or_else(|| bad(format!("a {name} of {least} to {most:e}"), format!("{text:.32}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::complex::Complex;
    use crate::params::CkksParams;

    fn toy(name: &str) -> Context {
        Context::new(CkksParams::named(name).unwrap(), true).unwrap()
    }

    /// Ciphertexts and keys come back as they were, and the file is a fifth smaller than what is in memory.
    #[test]
    fn ciphertexts_and_secret_keys_come_back() {
        let context = toy("ckks_toy_12");
        let secret = context.secret_key().unwrap();
        let m: Vec<Complex> = (0..8).map(|j| Complex::new(j as f64 / 8.0, -0.5)).collect();
        let x = context.encrypt(&m, 4, &secret).unwrap();
        let bytes = context.ciphertext_to_bytes(&x).unwrap();
        assert!((bytes.len() as f64) < 0.8 * x.bytes() as f64, "{} of {}", bytes.len(), x.bytes());
        let y = context.ciphertext_from_bytes(&bytes, Trust::default()).unwrap();
        assert_eq!((y.level, y.scale, y.slots, y.error), (x.level, x.scale, x.slots, x.error));
        assert_eq!(context.ciphertext_to_bytes(&y).unwrap(), bytes, "equal contents, equal files");
        let key = context.secret_key_to_bytes(&secret).unwrap();
        let back = context.secret_key_from_bytes(&key, Trust::default()).unwrap();
        assert!(back.id == secret.id && back.coefficients == secret.coefficients);
        let [a, b] = [&secret, &back].map(|s| context.decrypt(&y, s).unwrap());
        assert_eq!(a, b);
        assert_eq!(context.decrypt(&x, &secret).unwrap(), a);
    }

    /// Every altered byte is found, and so are files of another kind, set or length.
    #[test]
    fn damaged_and_foreign_files_are_refused() {
        let context = toy("ckks_toy_12");
        let secret = context.secret_key().unwrap();
        let x = context.encrypt(&[Complex::from(0.5)], 0, &secret).unwrap();
        let mut bytes = context.ciphertext_to_bytes(&x).unwrap();
        let key = context.secret_key_to_bytes(&secret).unwrap();
        let kind = |bytes: &[u8]| {
            context.ciphertext_from_bytes(bytes, Trust::default()).err().map(|e| e.kind())
        };
        for at in (0..bytes.len()).step_by(97) {
            bytes[at] ^= 4;
            let found = kind(&bytes);
            assert!(matches!(found, Some("bad_file" | "wrong_params")), "byte {at}: {found:?}");
            bytes[at] ^= 4;
        }
        for length in [0, 7, 8, 100, bytes.len() - 1] {
            assert_eq!(kind(&bytes[..length]), Some("bad_file"), "{length} bytes");
        }
        assert_eq!(kind(&key), Some("bad_file"), "a secret key is no ciphertext");
        let small = Trust { limit: 1000, ..Trust::default() };
        let long = context.ciphertext_from_bytes(&bytes, small).err().map(|e| e.kind());
        assert_eq!(long, Some("bad_file"), "the limit");
        let other = toy("ckks_toy_precise");
        let foreign = other.ciphertext_from_bytes(&bytes, Trust::default()).err();
        assert_eq!(foreign.map(|e| e.kind()), Some("wrong_params"));
        let foreign = other.secret_key_from_bytes(&key, Trust::default()).err();
        assert_eq!(foreign.map(|e| e.kind()), Some("wrong_params"));
        assert_eq!(kind(&bytes), None);
    }

    /// A file can be made whose checksum is right; what it claims is checked all the same.
    #[test]
    fn claims_are_checked_against_the_set() {
        let context = toy("ckks_toy_12");
        let secret = context.secret_key().unwrap();
        let x = context.encrypt(&[Complex::from(0.5)], 0, &secret).unwrap();
        let forged = |change: &dyn Fn(&mut Rlwe)| {
            let mut y = x.clone();
            change(&mut y);
            let bytes = context.ciphertext_to_bytes(&y).unwrap();
            context.ciphertext_from_bytes(&bytes, Trust::default())
        };
        let changes: [&dyn Fn(&mut Rlwe); 8] = [
            &|y| y.level = 1,
            &|y| y.level = 99,
            &|y| y.slots = 3,
            &|y| y.slots = 4096,
            &|y| y.scale = 0.0,
            &|y| y.scale = f64::INFINITY,
            &|y| y.scale = 1.01 * context.room(0),
            &|y| y.error = f64::NAN,
        ];
        for (i, change) in changes.iter().enumerate() {
            assert_eq!(forged(change).err().map(|e| e.kind()), Some("bad_file"), "change {i}");
        }
        let modest = forged(&|y| y.error = 0.0).unwrap();
        // All of it but what doubles lose of the message.
        assert!(modest.error > 0.99 * x.error, "the error of a fresh encryption at the least");
    }
}
