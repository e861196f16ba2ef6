//! Files of encrypted integers: the container of a batch of LWE ciphertexts, digit after digit, and the type. Fresh
//! encryptions can be written with one seed in place of all masks: one word for each digit instead of dimension + 1.

use super::{Integers, Type};
use crate::cipher::Lwe;
use crate::cipher::file::{Header, Kind, Reader, Seeded, Trust, bad, read_file, require_limit};
use crate::{Error, Result};
use std::path::Path;

impl Integers {
    /// The file in memory; `seeded` as [`Lwe::to_bytes_seeded`].
    ///
    /// # Errors
    /// As [`Lwe::to_bytes`] and [`Lwe::to_bytes_seeded`].
    pub fn to_bytes(&self, seeded: bool) -> Result<Vec<u8>> {
        let batch = self.to_batch()?;
        let short = short(&batch, seeded)?;
        let draft = batch.draft(Kind::Integers, short.as_ref())?;
        draft.note("type", self.ty().to_string()).to_bytes()
    }

    /// Writes the integers to a file; `seeded` as [`Lwe::save_seeded`].
    ///
    /// # Errors
    /// As [`Lwe::save`] and [`Lwe::save_seeded`].
    pub fn save(&self, path: impl AsRef<Path>, seeded: bool) -> Result<()> {
        let batch = self.to_batch()?;
        let short = short(&batch, seeded)?;
        let draft = batch.draft(Kind::Integers, short.as_ref())?;
        draft.note("type", self.ty().to_string()).save(path.as_ref(), false)
    }

    /// Integers from a file in memory.
    ///
    /// # Errors
    /// As [`Lwe::from_bytes`]; [`Error::BadFile`] for words that are not digits of the type.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::Integers)?;
        let ty = claims(file.header(), trust)?;
        let refused = |e: Error| bad(&e.detail().wanted, &e.detail().got);
        Integers::from_batch(ty, &Lwe::read(&file, trust)?).map_err(refused)
    }

    /// Reads integers from a file.
    ///
    /// # Errors
    /// As [`Integers::from_bytes`], and [`Error::Io`].
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        let check = |header: &Header| claims(header, trust).map(drop);
        let bytes = read_file(path.as_ref(), trust.limit, check)?;
        Integers::from_bytes(&bytes, trust)
    }
}

fn short(batch: &Lwe, seeded: bool) -> Result<Option<Seeded>> {
    seeded.then(|| batch.seeded()).transpose()
}

/// The type that a header names, in the one spelling that it has; all else is as for a batch.
fn claims(header: &Header, trust: Trust) -> Result<Type> {
    header.require(Kind::Integers)?;
    Lwe::claims(header, trust)?;
    let name = header.entry("type")?;
    match name.parse::<Type>() {
        Ok(ty) if ty.to_string() == name => Ok(ty),
        _ => Err(bad("a type of integers", format!("{name:.16}"))),
    }
}
