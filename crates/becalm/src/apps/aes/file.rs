//! Files of encrypted bytes and of encrypted AES keys: the container of a batch of bits, eight for each byte, lowest first, and
//! which of the two they are. Fresh encryptions can be written with one seed in place of all masks.

use super::{BLOCK, bit_encoding};
use crate::cipher::Lwe;
use crate::cipher::file::{Draft, Header, Kind, Reader, Trust, bad, read_file_with, require_limit};
use crate::{Error, Progress, Result, UNWATCHED};
use std::path::Path;
use std::slice::from_ref;

/// The content of a file of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Content {
    /// Bytes.
    Bytes,
    /// A key of AES-128.
    Key,
}

impl Content {
    /// The word that names it in a file.
    pub fn name(self) -> &'static str {
        match self {
            Content::Bytes => "bytes",
            Content::Key => "aes128_key",
        }
    }

    /// The bits, if they can be that: whole bytes, 16 of them for a key.
    ///
    /// # Errors
    /// [`Error::BadInput`] for other batches.
    pub fn checked(self, bits: &Lwe) -> Result<&Lwe> {
        let wanted = match self {
            Content::Bytes => "bits of whole bytes, each at 0 or half a torus".to_string(),
            Content::Key => format!("a key of {BLOCK} bytes, bit by bit"),
        };
        let whole = bits.len().is_multiple_of(8);
        let key = self == Content::Bytes || bits.len() == 8 * BLOCK;
        let (low, high) = bits.range();
        if bits.encoding() == bit_encoding() && whole && key && low >= 0 && high <= 1 {
            return Ok(bits);
        }
        let got = match bits.encoding() == bit_encoding() && whole {
            true => format!("{} bytes", bits.len() / 8),
            false => format!("{bits:?}"),
        };
        Err(Error::bad_input("aes", wanted, got, "pass what encrypt_bytes made"))
    }

    /// The file in memory; `seeded` as [`Lwe::to_bytes_seeded`].
    ///
    /// # Errors
    /// As [`Content::checked`], [`Lwe::to_bytes`] and [`Lwe::to_bytes_seeded`].
    pub fn to_bytes(self, bits: &Lwe, seeded: bool) -> Result<Vec<u8>> {
        self.file(bits, seeded, UNWATCHED)?.to_bytes()
    }

    /// The file of bits, to be written or made in memory; the rest as [`Lwe::file`].
    ///
    /// # Errors
    /// As [`Content::checked`] and [`Lwe::file`].
    pub fn file<'a>(self, bits: &'a Lwe, seeded: bool, progress: Progress) -> Result<Draft<'a>> {
        let bits = from_ref(self.checked(bits)?);
        let draft = Lwe::draft(Kind::Bits, bits, seeded, progress)?;
        Ok(draft.note("content", self.name()))
    }

    /// Writes bits to a file; `seeded` as [`Lwe::save_seeded`]. Nothing secret stands in it.
    ///
    /// # Errors
    /// As [`Content::checked`], [`Lwe::save`] and [`Lwe::save_seeded`].
    pub fn save(self, bits: &Lwe, path: impl AsRef<Path>, seeded: bool) -> Result<()> {
        self.file(bits, seeded, UNWATCHED)?.save_with(path, UNWATCHED)
    }

    /// Bits from a file in memory, and their kind.
    ///
    /// # Errors
    /// As [`Lwe::from_bytes`]; [`Error::BadFile`] for a batch that does not match its kind.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<(Content, Lwe)> {
        Content::from_bytes_with(bytes, trust, UNWATCHED)
    }

    /// [`Content::from_bytes`]; `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`Content::from_bytes`], and [`Error::Interrupted`].
    pub fn from_bytes_with(
        bytes: &[u8],
        trust: Trust,
        progress: Progress,
    ) -> Result<(Content, Lwe)> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::Bits)?;
        let content = claims(file.header(), trust)?;
        let bits = Lwe::read(&file, trust, progress)?;
        let refused = |e: Error| bad(&e.detail().wanted, &e.detail().got);
        content.checked(&bits).map_err(refused)?;
        Ok((content, bits))
    }

    /// Reads bits from a file.
    ///
    /// # Errors
    /// As [`Content::from_bytes`], and [`Error::Io`].
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<(Content, Lwe)> {
        Content::load_with(path, trust, UNWATCHED)
    }

    /// [`Content::load`]; `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`Content::load`], and [`Error::Interrupted`].
    pub fn load_with(
        path: impl AsRef<Path>,
        trust: Trust,
        progress: Progress,
    ) -> Result<(Content, Lwe)> {
        let check = |header: &Header| claims(header, trust).map(drop);
        let bytes = read_file_with(path.as_ref(), trust.limit, check, progress)?;
        Content::from_bytes_with(&bytes, trust, progress)
    }
}

/// The content that a header names; all else is checked as for a batch.
fn claims(header: &Header, trust: Trust) -> Result<Content> {
    header.require(Kind::Bits)?;
    Lwe::claims(header, trust)?;
    let name = header.entry("content")?;
    let known = [Content::Bytes, Content::Key].into_iter().find(|c| c.name() == name);
    known.ok_or_else(|| bad("bytes or aes128_key", format!("{name:.16}")))
}
