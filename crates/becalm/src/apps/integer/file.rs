//! Files of encrypted integers: the container of a batch of LWE ciphertexts, digit after digit, and the type. Fresh
//! encryptions can be written with one seed in place of all masks: one word for each digit instead of dimension + 1.

use super::{Integers, Type};
use crate::cipher::Lwe;
use crate::cipher::file::{Draft, Header, Kind, Reader, Trust, bad, read_file_with, require_limit};
use crate::{Error, Progress, Result, UNWATCHED};
use std::borrow::Borrow;
use std::path::Path;

impl Integers {
    /// The file in memory; `seeded` as [`Lwe::to_bytes_seeded`].
    ///
    /// # Errors
    /// As [`Lwe::to_bytes`] and [`Lwe::to_bytes_seeded`].
    pub fn to_bytes(&self, seeded: bool) -> Result<Vec<u8>> {
        Integers::file(self.ty(), self.digits(), seeded, UNWATCHED)?.to_bytes()
    }

    /// The file of integers of these digits, to be written or made in memory; `seeded` as [`Lwe::to_bytes_seeded`]. `progress` can
    /// stop the look whether a seed stands for the masks.
    ///
    /// # Errors
    /// As [`Integers::new`] and [`Lwe::file`].
    pub fn file<'a, B: Borrow<Lwe>>(
        ty: Type,
        digits: &'a [B],
        seeded: bool,
        progress: Progress,
    ) -> Result<Draft<'a>> {
        Integers::require(ty, digits)?;
        let draft = Lwe::draft(Kind::Integers, digits, seeded, progress)?;
        let count = digits.first().map_or(0, |d| d.borrow().len());
        Ok(draft.note("type", ty.to_string()).of_elements(count))
    }

    /// Writes the integers to a file; `seeded` as [`Lwe::save_seeded`].
    ///
    /// # Errors
    /// As [`Lwe::save`] and [`Lwe::save_seeded`].
    pub fn save(&self, path: impl AsRef<Path>, seeded: bool) -> Result<()> {
        Integers::file(self.ty(), self.digits(), seeded, UNWATCHED)?.save_with(path, UNWATCHED)
    }

    /// Integers from a file in memory.
    ///
    /// # Errors
    /// As [`Lwe::from_bytes`]; [`Error::BadFile`] for words that are not digits of the type.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        Integers::from_bytes_with(bytes, trust, UNWATCHED)
    }

    /// [`Integers::from_bytes`]; `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`Integers::from_bytes`], and [`Error::Interrupted`].
    pub fn from_bytes_with(bytes: &[u8], trust: Trust, progress: Progress) -> Result<Self> {
        Ok(Integers::array_from_bytes(bytes, trust, progress)?.0)
    }

    /// [`Integers::from_bytes_with`], with the shape as [`Lwe::array_from_bytes`].
    ///
    /// # Errors
    /// As [`Integers::from_bytes_with`].
    pub fn array_from_bytes(
        bytes: &[u8],
        trust: Trust,
        progress: Progress,
    ) -> Result<(Self, Vec<usize>)> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::Integers)?;
        let (ty, shape) = claims(file.header(), trust)?;
        let refused = |e: Error| bad(&e.detail().wanted, &e.detail().got);
        let digits = Lwe::read_parts(&file, trust, ty.digits(), progress)?;
        Ok((Integers::of_parts(ty, digits).map_err(refused)?, shape))
    }

    /// Reads integers from a file.
    ///
    /// # Errors
    /// As [`Integers::from_bytes`], and [`Error::Io`].
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        Integers::load_with(path, trust, UNWATCHED)
    }

    /// [`Integers::load`]; `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`Integers::load`], and [`Error::Interrupted`].
    pub fn load_with(path: impl AsRef<Path>, trust: Trust, progress: Progress) -> Result<Self> {
        Ok(Integers::load_array(path, trust, progress)?.0)
    }

    /// [`Integers::load_with`], with the shape as [`Lwe::array_from_bytes`].
    ///
    /// # Errors
    /// As [`Integers::load_with`].
    pub fn load_array(
        path: impl AsRef<Path>,
        trust: Trust,
        progress: Progress,
    ) -> Result<(Self, Vec<usize>)> {
        let check = |header: &Header| claims(header, trust).map(drop);
        let bytes = read_file_with(path.as_ref(), trust.limit, check, progress)?;
        Integers::array_from_bytes(&bytes, trust, progress)
    }
}

/// The type that a header names, in the one spelling that it has, and the shape; all else is as for a batch.
fn claims(header: &Header, trust: Trust) -> Result<(Type, Vec<usize>)> {
    header.require(Kind::Integers)?;
    Lwe::claims(header, trust)?;
    let name = header.entry("type")?;
    match name.parse::<Type>() {
        Ok(ty) if ty.to_string() == name => {
            Ok((ty, header.shape(Lwe::rows(header) / ty.digits())?))
        }
        _ => Err(bad("a type of integers", format!("{name:.16}"))),
    }
}
