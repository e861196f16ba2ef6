//! Files of keys between the slots of a common-mask set.

use super::header::{key_text, slot_kind_text};
use super::read::Reader;
use super::write::{Data, Draft};
use super::{Dtype, Header, Kind, Part, Trust, bad, disk};
use crate::Result;
use crate::cipher::{SlotKey, SlotKeyKind, Words, slot_gadget};
use crate::math::random::PublicSeed;
use crate::params::TfheParams;
use std::path::Path;
use std::sync::Arc;

impl SlotKey {
    /// The file in memory.
    ///
    /// # Errors
    /// `WrongParams` for a set that could not be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.draft()?.to_bytes()
    }

    /// Writes the key to a file: bodies and a seed.
    ///
    /// # Errors
    /// `Io`; then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.draft()?.save(path.as_ref(), false)
    }

    /// The file that [`SlotKey::save`] writes, as a part of [`replace_all`](super::replace_all), which puts it in place together
    /// with its secret key.
    ///
    /// # Errors
    /// `WrongParams` for a set that could not be read again.
    pub fn part(&self, path: impl AsRef<Path>) -> Result<Part<'_>> {
        Ok(self.draft()?.part(path.as_ref(), false))
    }

    /// A key from a file in memory.
    ///
    /// # Errors
    /// `BadFile`, `WrongParams` or `Insecure` for anything but a key that [`SlotKey::save`]
    /// wrote.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        let file = Reader::open(bytes, Kind::SlotKey)?;
        let empty = claims(file.header(), trust)?;
        file.verify()?;
        let seed = file.bytes("seed").first_chunk::<32>();
        let seed = PublicSeed(*seed.ok_or_else(|| bad("a seed of 32 bytes", "none"))?);
        let words = file.words("words")?;
        if !words.iter().all(|w| empty.params.modulus.is_reduced(*w)) {
            return Err(bad("elements of the modulus of the set", "other words"));
        }
        Ok(SlotKey { seed, words: Words::Owned(Arc::new(words)), ..empty })
    }

    /// Reads a key from a file.
    ///
    /// # Errors
    /// As [`SlotKey::from_bytes`], and `Io`.
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        let check = |header: &Header| claims(header, trust).map(drop);
        let bytes = disk::read_file(path.as_ref(), u64::MAX, check)?;
        SlotKey::from_bytes(&bytes, trust)
    }

    fn draft(&self) -> Result<Draft<'_>> {
        Ok(Draft::new(Kind::SlotKey, &self.params)?
            .note("key", key_text(self.id))
            .note("slots", slot_kind_text(self.kind))
            .tensor("seed", &[32], Data::Bytes(&self.seed.0))
            .tensor("words", &shape(self.kind, &self.params), Data::Words(&self.words)))
    }
}

/// The key that a header describes, without its words.
fn claims(header: &Header, trust: Trust) -> Result<SlotKey> {
    header.require(Kind::SlotKey)?;
    let params = header.params(trust)?;
    if params.slots == 1 {
        return Err(bad("a common-mask set", format!("`{:.64}`", params.name)));
    }
    let kind = header.slot_kind()?;
    header.expect(&[("seed", Dtype::U8, &[32]), ("words", Dtype::U64, &shape(kind, &params))])?;
    let words = Words::Owned(Arc::new(Vec::new()));
    Ok(SlotKey { id: header.key()?, kind, seed: PublicSeed([0; 32]), words, params })
}

/// `[rows, ℓ, w]`.
fn shape(kind: SlotKeyKind, p: &TfheParams) -> [u64; 3] {
    [kind.rows(p) as u64, slot_gadget(p).level.into(), p.slots as u64]
}
