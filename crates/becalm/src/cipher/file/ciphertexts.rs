//! Files of ciphertexts.
//!
//! The noise that a file claims cannot be measured without the secret key. A variance below that of a fresh
//! encryption, which no honest ciphertext but a trivial one has, is raised to it; a claim above is taken as it is, so
//! a liar can make its own results wrong and nobody else's.

use super::header::{key_text, role_text, stored_range};
use super::read::Reader;
use super::write::{Data, Draft};
use super::{Dtype, Header, Kind, Trust, bad, disk};
use crate::cipher::{Encoding, Glwe, KeyRole, Lwe, Output};
use crate::math::Modulus;
use crate::params::TfheParams;
use crate::{Error, Result};
use std::path::Path;

/// Words in a row of the outputs of an encrypted table.
const OUTPUT: usize = 5;

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
        Ok(Draft::new(Kind::Lwe, &self.params)?
            .note("key", key_text(self.key))
            .note("role", role_text(self.role))
            .note("encoding", encoding_text(self.encoding))
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
        let outputs = output_words(&self.outputs);
        self.draft(&outputs)?.to_bytes()
    }

    /// Writes the ciphertext to a file.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io); then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let outputs = output_words(&self.outputs);
        self.draft(&outputs)?.save(path.as_ref(), false)
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
        let outputs = outputs_of(&file.words("outputs"))?;
        let data = reduced(&empty.params, file.words("words"))?;
        let glwe = Glwe { outputs, data, ..empty };
        let refused = |e: Error| bad(&e.detail().wanted, &e.detail().got);
        glwe.check_metadata().map_err(refused)?;
        Ok(glwe)
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

    fn draft<'a>(&'a self, outputs: &'a [u64]) -> Result<Draft<'a>> {
        Ok(Draft::new(Kind::Glwe, &self.params)?
            .note("key", key_text(self.key))
            .note("encoding", encoding_text(self.input))
            .note("range", format!("[0,{}]", self.limit))
            .note("noise", noise_text(self.noise))
            .tensor("outputs", &[self.outputs.len() as u64, OUTPUT as u64], Data::Words(outputs))
            .tensor("words", &glwe_shape(&self.params), Data::Words(&self.data)))
    }
}

/// The batch that a header describes, without its words.
fn lwe_claims(header: &Header, trust: Trust) -> Result<Lwe> {
    header.require(Kind::Lwe)?;
    let params = header.params(trust)?;
    let (role, encoding) = (header.role()?, header.encoding()?);
    let unknown = |e: Error| bad(&e.detail().wanted, &e.detail().got);
    let width = role.checked(&params).map_err(unknown)?.width(&params) as u64;
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
    let count = header.rows("outputs").min(params.table_size() as u64);
    let outputs = [count, OUTPUT as u64];
    header.expect(&[
        ("outputs", Dtype::U64, &outputs),
        ("words", Dtype::U64, &glwe_shape(&params)),
    ])?;
    let input = header.encoding()?;
    let (least, limit) = header.message_range(input)?;
    if least != 0 {
        return Err(bad("a table from the value 0 on", least.to_string()));
    }
    Ok(Glwe {
        key: header.key()?,
        input,
        limit,
        outputs: Vec::new(),
        noise: header.noise()?.max(fresh_variance(&params, KeyRole::Big)),
        data: Vec::new(),
        params,
    })
}

/// `[k + 1, N]`, or `[2^η·(k + 1), N]` of an extended rotation.
fn glwe_shape(p: &TfheParams) -> [u64; 2] {
    [(p.glwe_dimension as u64 + 1) * p.accumulators() as u64, p.polynomial_size as u64]
}

/// Index, number of values, padding, least and greatest value of each output; none of them is negative.
fn output_words(outputs: &[Output]) -> Vec<u64> {
    let row = |o: &Output| {
        let (values, padding) = (o.encoding.values, o.encoding.padding as u64);
        [o.index as u64, values, padding, o.range.0 as u64, o.range.1 as u64]
    };
    outputs.iter().flat_map(row).collect()
}

/// Inverse of [`output_words`]; what is too large to be an index or a value becomes one that no output has.
fn outputs_of(words: &[u64]) -> Result<Vec<Output>> {
    let (rows, _) = words.as_chunks::<OUTPUT>();
    let output = |&[index, values, padding, least, greatest]: &[u64; OUTPUT]| {
        if padding > 1 {
            return Err(bad("a padding of 0 or 1", padding.to_string()));
        }
        let encoding = Encoding { values, padding: padding == 1 };
        let signed = |word: u64| i64::try_from(word).unwrap_or(-1);
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        Ok(Output { index, encoding, range: (signed(least), signed(greatest)) })
    };
    rows.iter().map(output).collect()
}

/// Variance of a fresh encryption.
fn fresh_variance(params: &TfheParams, role: KeyRole) -> f64 {
    role.fresh_noise(params).variance(Modulus::LOG2)
}

fn encoding_text(encoding: Encoding) -> String {
    format!(r#"{{"values":{},"padding":{}}}"#, encoding.values, encoding.padding)
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
