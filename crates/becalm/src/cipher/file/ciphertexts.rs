//! Files of ciphertexts.
//!
//! The noise that a file claims cannot be measured without the secret key. A variance below that of a fresh
//! encryption, which no honest ciphertext but a trivial one has, is raised to it; a claim above is taken as it is, so
//! a liar can make its own results wrong and nobody else's.

use super::header::{key_text, role_text, stored_range};
use super::read::Reader;
use super::write::{Data, Draft};
use super::{Dtype, Header, Kind, Trust, bad, disk};
use crate::Result;
use crate::cipher::{Glwe, KeyRole, Lwe};
use crate::math::Modulus;
use crate::params::TfheParams;
use std::path::Path;

impl Lwe {
    /// The file in memory.
    ///
    /// # Errors
    /// [`Error::WrongParams`](crate::Error::WrongParams) for a set that could not be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.draft()?.to_bytes()
    }

    /// Writes the batch to a file.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io); then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.draft()?.save(path.as_ref(), false)
    }

    /// A batch from a file in memory.
    ///
    /// # Errors
    /// [`Error::BadFile`](crate::Error::BadFile), [`Error::BadInput`](crate::Error::BadInput),
    /// [`Error::WrongParams`](crate::Error::WrongParams) or [`Error::Insecure`](crate::Error::Insecure) for anything
    /// but a batch that [`Lwe::save`] wrote, of at most `trust.limit` bytes.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        disk::require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::Lwe)?;
        let empty = lwe_claims(file.header(), trust)?;
        file.verify()?;
        let data = reduced(&empty.params, file.words("words"))?;
        Ok(Lwe { data, ..empty })
    }

    /// Reads a batch from a file.
    ///
    /// # Errors
    /// As [`Lwe::from_bytes`], and [`Error::Io`](crate::Error::Io).
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        let check = |header: &Header| lwe_claims(header, trust).map(drop);
        let bytes = disk::read_file(path.as_ref(), trust.limit, check)?;
        Lwe::from_bytes(&bytes, trust)
    }

    fn draft(&self) -> Result<Draft<'_>> {
        let (lo, hi) = stored_range(self.encoding, self.range);
        let encoding = self.encoding;
        let encoding =
            format!(r#"{{"values":{},"padding":{}}}"#, encoding.values, encoding.padding);
        Ok(Draft::new(Kind::Lwe, &self.params)?
            .note("key", key_text(self.key))
            .note("role", role_text(self.role))
            .note("encoding", encoding)
            .note("range", format!("[{lo},{hi}]"))
            .note("noise", noise_text(self.noise))
            .tensor("words", &[self.len() as u64, self.width() as u64], Data::Words(&self.data)))
    }
}

impl Glwe {
    /// The file in memory.
    ///
    /// # Errors
    /// [`Error::WrongParams`](crate::Error::WrongParams) for a set that could not be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.draft()?.to_bytes()
    }

    /// Writes the ciphertext to a file.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io); then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.draft()?.save(path.as_ref(), false)
    }

    /// A ciphertext from a file in memory.
    ///
    /// # Errors
    /// As [`Lwe::from_bytes`].
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        disk::require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::Glwe)?;
        let empty = glwe_claims(file.header(), trust)?;
        file.verify()?;
        let data = reduced(&empty.params, file.words("words"))?;
        Ok(Glwe { data, ..empty })
    }

    /// Reads a ciphertext from a file.
    ///
    /// # Errors
    /// As [`Lwe::load`].
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        let check = |header: &Header| glwe_claims(header, trust).map(drop);
        let bytes = disk::read_file(path.as_ref(), trust.limit, check)?;
        Glwe::from_bytes(&bytes, trust)
    }

    fn draft(&self) -> Result<Draft<'_>> {
        Ok(Draft::new(Kind::Glwe, &self.params)?
            .note("key", key_text(self.key))
            .note("noise", noise_text(self.noise))
            .tensor("words", &glwe_shape(&self.params), Data::Words(&self.data)))
    }
}

/// The batch that a header describes, without its words.
fn lwe_claims(header: &Header, trust: Trust) -> Result<Lwe> {
    header.require(Kind::Lwe)?;
    let params = header.params(trust)?;
    let (role, encoding) = (header.role()?, header.encoding()?);
    let width = role.dimension(&params) as u64 + 1;
    header.expect(&[("words", Dtype::U64, &[header.rows("words"), width])])?;
    Ok(Lwe {
        key: header.key()?,
        role,
        encoding,
        range: header.message_range(encoding)?,
        noise: header.noise()?.max(fresh_variance(&params, role)),
        // Two files may hold relatives.
        independent: false,
        data: Vec::new(),
        params,
    })
}

/// The ciphertext that a header describes, without its words.
fn glwe_claims(header: &Header, trust: Trust) -> Result<Glwe> {
    header.require(Kind::Glwe)?;
    let params = header.params(trust)?;
    header.expect(&[("words", Dtype::U64, &glwe_shape(&params))])?;
    Ok(Glwe {
        key: header.key()?,
        noise: header.noise()?.max(fresh_variance(&params, KeyRole::Big)),
        data: Vec::new(),
        params,
    })
}

/// `[k + 1, N]`.
fn glwe_shape(p: &TfheParams) -> [u64; 2] {
    [p.glwe_dimension as u64 + 1, p.polynomial_size as u64]
}

/// Variance of a fresh encryption.
fn fresh_variance(params: &TfheParams, role: KeyRole) -> f64 {
    role.fresh_noise(params).variance(Modulus::LOG2)
}

/// A variance above 1, twelve times that of a uniform phase, says no more than 1 does.
fn noise_text(variance: f64) -> String {
    format!("{:e}", if variance <= 1.0 { variance } else { 1.0 })
}

fn reduced(params: &TfheParams, words: Vec<u64>) -> Result<Vec<u64>> {
    if words.iter().all(|w| params.modulus.is_reduced(*w)) {
        return Ok(words);
    }
    Err(bad("words below the modulus", "larger ones"))
}
