//! Files of what users keep: ciphertexts, secret and public keys of CKKS, in the container of all files (docs/files.md).
//!
//! A polynomial is packed as on the wire: residues 0 ≤ x < p of ⌈log2 p⌉ bits, word after word. The parameter set stands in
//! the file and must be that of the context, number for number; level, scale and error are checked against it. An error below that
//! of a fresh encryption is raised to it: one that is too small would have too little noise added to what is shared.

use super::{Chain, Context};
use crate::cipher::file::{
    Data, Draft, Dtype, Header, Kind, Output, Part, Reader, Trust, bad, hex, read_file,
    require_limit, write_error,
};
use crate::cipher::{
    Account, CkksPublicKey, CkksSecretKey, Integers, KeyId, MOST_PARTIES, PackedRlwe, Rlwe,
    Standing, product_bound,
};
use crate::math::buffer::or_refused;
use crate::math::parallel::*;
use crate::math::rns::Scratch;
use crate::params::{CkksParams, NOISE_STD};
use crate::{Error, Result};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

impl Context {
    /// The file of a ciphertext, in memory.
    ///
    /// # Errors
    /// `WrongParams` for a ciphertext of another set.
    pub fn ciphertext_to_bytes(&self, x: &Rlwe) -> Result<Vec<u8>> {
        self.noted_ciphertext_to_bytes(x, None)
    }

    /// [`Context::ciphertext_to_bytes`] with a note whether all values are known to be real, where the caller can tell.
    ///
    /// # Errors
    /// As there.
    pub fn noted_ciphertext_to_bytes(&self, x: &Rlwe, real: Option<bool>) -> Result<Vec<u8>> {
        let parts = self.packed_pair(x.params, [&x.parts[0], &x.parts[1]], x.level)?;
        self.ciphertext_draft(x, real, &parts)?.to_bytes()
    }

    /// Writes a ciphertext to a file: about 50 bits for each of 64 in memory.
    ///
    /// # Errors
    /// `WrongParams` for a ciphertext of another set, `Io` when writing fails; then there is no new file and an old one is
    /// as it was.
    pub fn save_ciphertext(&self, x: &Rlwe, path: impl AsRef<Path>) -> Result<()> {
        self.save_noted_ciphertext(x, None, path)
    }

    /// [`Context::save_ciphertext`] with a note whether all values are known to be real, where the caller can tell.
    ///
    /// # Errors
    /// As there.
    pub fn save_noted_ciphertext(
        &self,
        x: &Rlwe,
        real: Option<bool>,
        path: impl AsRef<Path>,
    ) -> Result<()> {
        let parts = self.packed_pair(x.params, [&x.parts[0], &x.parts[1]], x.level)?;
        self.ciphertext_draft(x, real, &parts)?.save(path.as_ref(), false)
    }

    /// Bytes of a ciphertext of this set at `level` in a file, but for the header.
    pub fn stored_ciphertext_bytes(&self, level: usize) -> usize {
        2 * self.part_bytes(level)
    }

    /// A ciphertext from a file in memory.
    ///
    /// # Errors
    /// `BadFile` or `WrongParams` for anything but a ciphertext of this set that becalm wrote, of at most `trust.limit`
    /// bytes.
    pub fn ciphertext_from_bytes(&self, bytes: &[u8], trust: Trust) -> Result<Rlwe> {
        Ok(self.noted_ciphertext_from_bytes(bytes, trust)?.0)
    }

    /// [`Context::ciphertext_from_bytes`], and whether all values are real, if the file says so: a claim of whoever wrote it.
    ///
    /// # Errors
    /// As there.
    pub fn noted_ciphertext_from_bytes(
        &self,
        bytes: &[u8],
        trust: Trust,
    ) -> Result<(Rlwe, Option<bool>)> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::Rlwe)?;
        let (empty, real) = self.ciphertext_claims(file.header())?;
        file.verify()?;
        let parts = self.unpacked_pair(&file, empty.level)?.map(Arc::new);
        Ok((Rlwe { parts, ..empty }, real))
    }

    /// Reads a ciphertext from a file.
    ///
    /// # Errors
    /// As [`Context::ciphertext_from_bytes`], and `Io`.
    pub fn load_ciphertext(&self, path: impl AsRef<Path>, trust: Trust) -> Result<Rlwe> {
        Ok(self.load_noted_ciphertext(path, trust)?.0)
    }

    /// [`Context::load_ciphertext`], and whether all values are real, if the file says so: a claim of whoever wrote it.
    ///
    /// # Errors
    /// As there.
    pub fn load_noted_ciphertext(
        &self,
        path: impl AsRef<Path>,
        trust: Trust,
    ) -> Result<(Rlwe, Option<bool>)> {
        let check = |header: &Header| self.ciphertext_claims(header).map(drop);
        let bytes = read_file(path.as_ref(), trust.limit, check)?;
        self.noted_ciphertext_from_bytes(&bytes, trust)
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
    /// `WrongParams` for a key of another set, `Io` when writing fails, and for another secret key at `path`:
    /// [`replace_all`](crate::cipher::file::replace_all) with [`Context::secret_key_part`] overwrites one.
    pub fn save_secret_key(&self, secret: &CkksSecretKey, path: impl AsRef<Path>) -> Result<()> {
        let digits = self.digits_of(secret)?;
        self.secret_draft(secret, &digits)?.save(path.as_ref(), true)
    }

    /// The file that [`Context::save_secret_key`] writes, to be put in place with that of the keys made from it
    /// ([`replace_all`](crate::cipher::file::replace_all)).
    ///
    /// # Errors
    /// `WrongParams` for a key of another set.
    pub fn secret_key_part(
        &self,
        secret: &CkksSecretKey,
        path: impl AsRef<Path>,
    ) -> Result<Part<'static>> {
        let (bytes, path) = (self.secret_key_to_bytes(secret)?, path.as_ref().to_path_buf());
        let to = path.clone();
        let write = move |out: &mut Output| out.write_all(&bytes).map_err(|e| write_error(&to, &e));
        Ok(Part::new(path, true, write))
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
            return Err(bad("coefficients of -1, 0 or 1", "another one"));
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

    /// The file of a public key, in memory.
    ///
    /// # Errors
    /// `WrongParams` for a key of another set.
    pub fn public_key_to_bytes(&self, key: &CkksPublicKey) -> Result<Vec<u8>> {
        let parts =
            self.packed_pair(key.params, [&key.parts[0], &key.parts[1]], self.params().levels)?;
        self.public_draft(key, &parts)?.to_bytes()
    }

    /// Writes a public key to a file, as large as a fresh ciphertext.
    ///
    /// # Errors
    /// `WrongParams` for a key of another set, `Io` when writing fails.
    pub fn save_public_key(&self, key: &CkksPublicKey, path: impl AsRef<Path>) -> Result<()> {
        let parts =
            self.packed_pair(key.params, [&key.parts[0], &key.parts[1]], self.params().levels)?;
        self.public_draft(key, &parts)?.save(path.as_ref(), false)
    }

    /// A public key from a file in memory. A file cannot prove whose key it is: take it from its owner.
    ///
    /// # Errors
    /// `BadFile` or `WrongParams` for anything but a public key of this set that becalm wrote, of at most `trust.limit` bytes.
    pub fn public_key_from_bytes(&self, bytes: &[u8], trust: Trust) -> Result<CkksPublicKey> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::CkksPublicKey)?;
        let (id, parties) = self.public_claims(file.header())?;
        file.verify()?;
        let parts = self.unpacked_pair(&file, self.params().levels)?;
        Ok(CkksPublicKey { params: self.params().name, id, parties, foreign: true, parts })
    }

    /// Reads a public key from a file.
    ///
    /// # Errors
    /// As [`Context::public_key_from_bytes`], and `Io`.
    pub fn load_public_key(&self, path: impl AsRef<Path>, trust: Trust) -> Result<CkksPublicKey> {
        let check = |header: &Header| self.public_claims(header).map(drop);
        let bytes = read_file(path.as_ref(), trust.limit, check)?;
        self.public_key_from_bytes(&bytes, trust)
    }

    fn public_draft<'a>(&self, key: &CkksPublicKey, parts: &'a [Vec<u8>; 2]) -> Result<Draft<'a>> {
        let draft = Draft::of(Kind::CkksPublicKey, self.row()?).note("key", hex(&key.id.0));
        Ok(with_pair(with_makers(draft, key.parties), parts))
    }

    /// The identity of the key, and how many parties made it.
    fn public_claims(&self, header: &Header) -> Result<(KeyId, usize)> {
        header.require(Kind::CkksPublicKey)?;
        self.require_row(header)?;
        self.expect_pair(header, self.params().levels)?;
        Ok((header.key()?, makers(header)?))
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

    /// Bytes of a packed polynomial at `level`.
    fn part_bytes(&self, level: usize) -> usize {
        let words = self.words_of(level.min(self.params().top_level()), 0);
        words.into_iter().map(|i| self.limb_bytes(i)).sum()
    }

    /// Both polynomials of a pair at `level`, packed.
    fn packed_pair(
        &self,
        set: &'static str,
        parts: [&[f64]; 2],
        level: usize,
    ) -> Result<[Vec<u8>; 2]> {
        self.check_set("save", set)?;
        let words = self.words_of(level.min(self.params().top_level()), 0);
        Ok(parts.map(|part| {
            let limbs = words.par_iter().zip(part.par_chunks(self.params().degree()));
            let packed = limbs.map(|(i, limb)| self.ring().packed(*i, limb));
            packed.collect::<Vec<_>>().concat()
        }))
    }

    /// A limb from its bytes, which are as many.
    ///
    /// # Errors
    /// `BadFile` for a residue that is not below its prime.
    pub(crate) fn unpack(&self, word: usize, bytes: &[u8], limb: &mut [f64]) -> Result<()> {
        match self.ring().unpack(word, bytes, limb) {
            true => Ok(()),
            false => Err(bad("residues below their primes", UNREDUCED)),
        }
    }

    /// A polynomial at a level of these words from its bytes, which are as many.
    pub(crate) fn unpacked(&self, words: &[usize], bytes: &[u8]) -> Result<Scratch> {
        let n = self.params().degree();
        let mut part = self.ring().scratch(words.len() * n);
        let (mut pieces, mut rest) = (vec![], bytes);
        for i in words {
            let (own, behind) = rest.split_at(self.limb_bytes(*i));
            pieces.push(own);
            rest = behind;
        }
        let limbs = part.par_chunks_mut(n).zip(pieces).zip(words);
        limbs.try_for_each(|((limb, own), i)| self.unpack(*i, own, limb))?;
        Ok(part)
    }

    /// The ciphertext at rest: in memory a quarter to a third smaller.
    ///
    /// # Errors
    /// `WrongParams` for a ciphertext of another set.
    pub fn pack(&self, x: &Rlwe) -> Result<PackedRlwe> {
        let parts = self.packed_pair(x.params, [&x.parts[0], &x.parts[1]], x.level)?;
        let head = Rlwe { parts: [0, 0].map(|len| Arc::new(self.ring().scratch(len))), ..*x };
        Ok(PackedRlwe { head, parts })
    }

    /// The ciphertext as it is computed with.
    ///
    /// # Errors
    /// `WrongParams` for a ciphertext of another set, `Memory` where it does not fit.
    pub fn unpack_ciphertext(&self, x: &PackedRlwe) -> Result<Rlwe> {
        self.check_set("unpack", x.head.params)?;
        let words = self.words_of(x.head.level, 0);
        or_refused("unpack", || {
            let [a, b] = x.parts.each_ref().map(|part| self.unpacked(&words, part));
            Ok(Rlwe { parts: [Arc::new(a?), Arc::new(b?)], ..x.head })
        })
    }

    /// A pair at `level` from a file whose header was checked.
    fn unpacked_pair(&self, file: &Reader, level: usize) -> Result<[Scratch; 2]> {
        let words = self.words_of(level, 0);
        let kind = file.header().kind()?.words();
        let of = |e: Error| match e {
            Error::BadFile(d) => bad(format!("{kind}, whole and unaltered"), d.got),
            other => other,
        };
        let [a, b] = PAIR.map(|name| self.unpacked(&words, file.bytes(name)).map_err(of));
        Ok([a?, b?])
    }

    /// Refuses a header that has not just a pair at `level`.
    fn expect_pair(&self, header: &Header, level: usize) -> Result<()> {
        let bytes = [self.part_bytes(level) as u64];
        header.expect(&PAIR.map(|name| (name, Dtype::U8, &bytes[..])))
    }

    fn ciphertext_draft<'a>(
        &self,
        x: &Rlwe,
        real: Option<bool>,
        parts: &'a [Vec<u8>; 2],
    ) -> Result<Draft<'a>> {
        let draft = Draft::of(Kind::Rlwe, self.row()?)
            .note("key", hex(&x.key.0))
            .note("level", x.level.to_string())
            .note("scale", format!("{:e}", x.scale))
            .note("slots", x.slots.to_string())
            .note("error", finite(x.account.error))
            .note("worst", finite(x.account.worst))
            .note("bound", finite(x.account.values));
        let draft = with_makers(draft, x.account.parties);
        let draft = match x.integers {
            Some(Integers { bits, count }) => {
                draft.note("integer_bits", bits.to_string()).note("count", count.to_string())
            }
            None => draft,
        };
        let draft = match real {
            Some(real) => draft.note("values", VALUES[usize::from(real)]),
            None => draft,
        };
        Ok(with_pair(draft, parts))
    }

    /// The ciphertext that a header describes, without its polynomials, and whether it is said to be real.
    fn ciphertext_claims(&self, header: &Header) -> Result<(Rlwe, Option<bool>)> {
        header.require(Kind::Rlwe)?;
        self.require_row(header)?;
        let level = number::<usize>(header, "level", |l| *l <= self.params().top_level())?;
        let slots = number::<usize>(header, "slots", |n| {
            n.is_power_of_two() && *n <= self.params().slots()
        })?;
        // A larger one has no room for any value.
        let scale = real(header, "scale", 1.0, self.room(level))?;
        self.expect_pair(header, level)?;
        let parts = [0, 0].map(|len| Arc::new(self.ring().scratch(len)));
        let (params, key) = (self.params().name, header.key()?);
        let integers = self.stated_integers(header, level, scale)?;
        let unit = if integers.is_some() { self.step(0) } else { scale };
        let account = self.stated_account(header, unit, integers.is_some())?;
        Ok((Rlwe { params, key, level, scale, slots, account, integers, parts }, values(header)?))
    }

    /// The integers that a header states, of a ciphertext like an encryption of integers.
    fn stated_integers(
        &self,
        header: &Header,
        level: usize,
        scale: f64,
    ) -> Result<Option<Integers>> {
        if !header.has("integer_bits") {
            return Ok(None);
        }
        let bits =
            number::<u32>(header, "integer_bits", |b| self.check_integers("load", *b).is_ok())?;
        let count = number::<usize>(header, "count", |c| (1..=self.params().degree()).contains(c))?;
        if level != 0 || !super::same_scale(scale, self.scale(0)?) {
            let got = format!("level {level}, scale 2^{:.1}", scale.log2());
            return Err(bad("integers at level 0 and its scale", got));
        }
        Ok(Some(Integers { bits, count }))
    }

    /// The account that a file states: sharing believes none of it. Files had the error alone before.
    fn stated_account(&self, header: &Header, unit: f64, coefficients: bool) -> Result<Account> {
        let terms = if coefficients { 1.0 } else { self.params().degree() as f64 };
        let fresh = NOISE_STD * terms.sqrt() / unit;
        let error = real(header, "error", 0.0, f64::MAX)?.max(fresh);
        let or = |name: &str, missing: f64| match header.has(name) {
            true => real(header, name, 0.0, f64::MAX),
            false => Ok(missing),
        };
        let worst = or("worst", product_bound(error))?.max(error);
        let account = Account::new(or("bound", 1.0)?, error, worst, Standing::CLAIMED);
        Ok(Account { parties: makers(header)?, ..account })
    }
}

impl Chain {
    /// The set, all of its fields as JSON: as it stands in files.
    pub(crate) fn row(&self) -> Result<String> {
        serde_json::to_string(self.params())
            .map_err(|e| bad("a parameter set that can be written", e.to_string()))
    }

    /// The chain of the set that a header names.
    ///
    /// # Errors
    /// `WrongParams` for a set that is not known here, or not with these numbers; `Insecure` for a toy unless it is allowed.
    pub(crate) fn of_header(header: &Header, trust: Trust) -> Result<Chain> {
        Chain::of_entry(header, "params", trust)
    }

    /// [`Chain::of_header`] of the set that an entry of the metadata describes.
    pub(crate) fn of_entry(header: &Header, entry: &str, trust: Trust) -> Result<Chain> {
        let text = header.entry(entry)?;
        let params = CkksParams::named(&name_in(text))?;
        params.require_secure(trust.allow_insecure)?;
        let chain = Chain::new(params)?;
        chain.require_same(text)?;
        Ok(chain)
    }

    pub(super) fn require_row(&self, header: &Header) -> Result<()> {
        self.require_same(header.entry("params")?)
    }

    fn require_same(&self, text: &str) -> Result<()> {
        let own = self.params().name;
        let row = serde_json::from_str(text)
            .map_err(|_| bad("a parameter set as JSON", "text that is none"))?;
        let (unlike, name) = (self.params().unlike(&row), name_in(text));
        if unlike.is_empty() {
            return Ok(());
        }
        let (got, remedy) = match name == own {
            true => (
                format!("`{name}` with other values of {}", unlike.join(", ")),
                "read it with the becalm that wrote it; if that is this one, the file is damaged",
            ),
            false => (format!("`{name}`"), "read it with a context of its set"),
        };
        Err(Error::wrong_params("load", format!("`{own}`"), got, remedy))
    }
}

/// Reading puts this in the place of a residue that is not below its prime.
pub(super) const UNREDUCED: &str = "a residue that is not reduced";

/// The name in the row of a set.
pub(super) fn name_in(row: &str) -> String {
    let row: Option<serde_json::Value> = serde_json::from_str(row).ok();
    let name = row.as_ref().and_then(|r| r.get("name")).and_then(|n| n.as_str());
    name.map_or("a set without a name".to_string(), |n| n.chars().take(32).collect())
}

/// The two polynomials of a ciphertext or of a public key.
const PAIR: [&str; 2] = ["c0", "c1"];

/// The words of the entry that says whether all values are real.
const VALUES: [&str; 2] = ["complex", "real"];

/// A bound as it is written: the largest number stands for an unknown one.
fn finite(bound: f64) -> String {
    format!("{:e}", if bound == f64::INFINITY { f64::MAX } else { bound })
}

/// Whether a header says that all values are real; none where it says nothing.
fn values(header: &Header) -> Result<Option<bool>> {
    let Some(text) = header.metadata.get("values") else { return Ok(None) };
    let found = VALUES.iter().position(|word| word == text).map(|at| at == 1);
    let found = found.ok_or_else(|| bad("complex or real values", format!("{text:.32}")))?;
    Ok(Some(found))
}

/// The number of parties that made a key together stands in files where there are several.
fn with_makers(draft: Draft<'_>, parties: usize) -> Draft<'_> {
    if parties == 1 { draft } else { draft.note("parties", parties.to_string()) }
}

fn makers(header: &Header) -> Result<usize> {
    match header.has("parties") {
        true => number(header, "parties", |n| (2..=MOST_PARTIES).contains(n)),
        false => Ok(1),
    }
}

fn with_pair<'a>(draft: Draft<'a>, parts: &'a [Vec<u8>; 2]) -> Draft<'a> {
    let pair = PAIR.into_iter().zip(parts);
    pair.fold(draft, |draft, (name, part)| {
        draft.tensor(name, &[part.len() as u64], Data::Bytes(part))
    })
}

/// A whole number as it is written here, without sign or leading zeros, that `fits`.
pub(super) fn number<T>(header: &Header, name: &str, fits: impl Fn(&T) -> bool) -> Result<T>
where
    T: std::str::FromStr + ToString,
{
    let text = header.entry(name)?;
    let read = text.parse().ok().filter(|x: &T| x.to_string() == text && fits(x));
    read.ok_or_else(|| bad(format!("{name} as the set has it"), format!("{text:.32}")))
}

/// A finite number of `least` to `most`, as it is written here.
fn real(header: &Header, name: &str, least: f64, most: f64) -> Result<f64> {
    let text = header.entry(name)?;
    let fits = |x: &f64| (least..=most).contains(x) && format!("{x:e}") == text;
    let read = text.parse().ok().filter(fits);
    read.ok_or_else(|| bad(format!("{name} from {least:e} to {most:e}"), format!("{text:.32}")))
}

#[cfg(test)]
mod tests;
