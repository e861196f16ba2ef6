//! Reading a file that is in memory or mapped.

use super::header::{Header, LENGTH};
use super::{Kind, bad, foreign, hex};
use crate::math::buffer::reserved;
use crate::progress::tell;
use crate::{Progress, Result, UNWATCHED};
use std::ops::Range;
use zeroize::Zeroize;

/// Bytes between two looks at whether the work is to stop.
pub(super) const PIECE: usize = 1 << 20;

/// A file whose header was checked; its checksum is [`Reader::verify`]'s matter.
pub(crate) struct Reader<'a> {
    header: Header,
    data: &'a [u8],
    /// Where the tensors begin.
    start: usize,
}

impl<'a> Reader<'a> {
    /// Reads the header of a file of this kind.
    ///
    /// # Errors
    /// [`Error::BadFile`](crate::Error::BadFile) for a file that is cut, of another kind or version, or spelt otherwise
    /// than becalm spells it.
    pub(crate) fn open(bytes: &'a [u8], kind: Kind) -> Result<Self> {
        let file = Reader::of(bytes)?;
        file.header.require(kind)?;
        Ok(file)
    }

    /// Reads the header of a file of any kind.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self> {
        let total = bytes.len() as u64;
        let first = bytes.first_chunk::<LENGTH>();
        let first = first.ok_or_else(|| foreign(format!("{total} bytes")))?;
        let start = LENGTH + Header::length(*first, total)?;
        let (head, data) = bytes.split_at(start);
        let header = Header::parse(head, total)?;
        Ok(Reader { header, data, start })
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Refuses a file of which any bit has changed since it was written.
    pub(crate) fn verify(&self) -> Result<()> {
        self.verify_with(UNWATCHED)
    }

    /// [`Reader::verify`]; `progress` is told how far it is, and can stop it.
    pub(crate) fn verify_with(&self, progress: Progress) -> Result<()> {
        let mut hasher = self.header.hasher()?;
        for (i, piece) in self.data.chunks(PIECE).enumerate() {
            tell("load", progress, i * PIECE, self.data.len())?;
            hasher.update(piece);
        }
        let sum = hex(hasher.finalize().as_bytes());
        hasher.zeroize();
        let claimed = self.header.checksum()?;
        if sum == claimed {
            return Ok(());
        }
        // Not the sum itself: it is a function of the contents, which may be secret.
        Err(bad("contents that match the checksum", "contents that were altered"))
    }

    /// Bytes of a tensor.
    pub(crate) fn bytes(&self, name: &str) -> &'a [u8] {
        self.data.get(self.header.range(name)).unwrap_or(&[])
    }

    /// Words of a tensor.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory) where they do not fit.
    pub(crate) fn words(&self, name: &str) -> Result<Vec<u64>> {
        let (bytes, _) = self.bytes(name).as_chunks::<8>();
        let mut words = reserved("load", bytes.len())?;
        words.extend(bytes.iter().map(|w| u64::from_le_bytes(*w)));
        Ok(words)
    }

    /// Bytes of a tensor, counted from the beginning of the file.
    pub(super) fn place(&self, name: &str) -> Range<usize> {
        let range = self.header.range(name);
        self.start + range.start..self.start + range.end
    }
}
