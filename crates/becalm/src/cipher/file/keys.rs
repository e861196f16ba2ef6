//! Files of secret keys and of evaluation keys.

use super::header::key_text;
use super::read::Reader;
use super::write::{Data, Draft};
use super::{Dtype, Header, Kind, Part, Trust, bad, disk, map};
use crate::Result;
use crate::cipher::{EvaluationKey, KeyId, SecretKey, Words, check_structure};
use crate::math::random::PublicSeed;
use crate::params::TfheParams;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

impl SecretKey {
    /// The file in memory; wiped when dropped.
    ///
    /// # Errors
    /// [`Error::WrongParams`](crate::Error::WrongParams) for a set that could not be read again.
    pub fn to_bytes(&self) -> Result<Zeroizing<Vec<u8>>> {
        Ok(Zeroizing::new(self.draft()?.to_bytes()?))
    }

    /// Writes the key to a file that only its owner may read (mode 0600). It is not encrypted.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), for another secret key at `path` too; then there is no new file and an old one is as it was.
    /// [`replace_all`](super::replace_all) with [`SecretKey::part`] overwrites one.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.draft()?.save(path.as_ref(), true)
    }

    /// The file that [`SecretKey::save`] writes, as a part of [`replace_all`](super::replace_all), which puts it in place together
    /// with the keys made from it.
    ///
    /// # Errors
    /// [`Error::WrongParams`](crate::Error::WrongParams) for a set that could not be read again.
    pub fn part(&self, path: impl AsRef<Path>) -> Result<Part<'_>> {
        Ok(self.draft()?.part(path.as_ref(), true))
    }

    /// A key from a file in memory.
    ///
    /// # Errors
    /// [`Error::BadFile`](crate::Error::BadFile), [`Error::WrongParams`](crate::Error::WrongParams) or
    /// [`Error::Insecure`](crate::Error::Insecure) for anything but a key that [`SecretKey::save`] wrote.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        let file = Reader::open(bytes, Kind::SecretKey)?;
        let (params, id) = secret_claims(file.header(), trust)?;
        file.verify()?;
        // The key wipes its words if they are refused.
        let mut key = SecretKey { params, id, small: vec![], big: vec![] };
        (key.small, key.big) = (file.words("small")?, file.words("big")?);
        let bits = key.small.iter().chain(&key.big).fold(0, |all, w| all | w);
        if bits > 1 {
            return Err(bad("secret words of 0 or 1", "others"));
        }
        check_structure(&key.params, &key.small, &key.big)
            .map_err(|(wanted, got)| bad(wanted, got))?;
        Ok(key)
    }

    /// Reads a key from a file, and wipes the bytes that it read.
    ///
    /// # Errors
    /// As [`SecretKey::from_bytes`], and [`Error::Io`](crate::Error::Io).
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        let check = |header: &Header| secret_claims(header, trust).map(drop);
        let bytes = disk::read_file(path.as_ref(), u64::MAX, check)?;
        SecretKey::from_bytes(&bytes, trust)
    }

    fn draft(&self) -> Result<Draft<'_>> {
        let shape = |words: &[u64]| [words.len() as u64];
        Ok(Draft::new(Kind::SecretKey, &self.params)?
            .note("key", key_text(self.id))
            .tensor("big", &shape(&self.big), Data::Words(&self.big))
            .tensor("small", &shape(&self.small), Data::Words(&self.small)))
    }
}

fn secret_claims(header: &Header, trust: Trust) -> Result<(Arc<TfheParams>, KeyId)> {
    header.require(Kind::SecretKey)?;
    let p = header.params(trust)?;
    header.expect(&[
        ("small", Dtype::U64, &[(p.slots * p.lwe_dimension) as u64]),
        ("big", Dtype::U64, &[(p.slots * p.big_dimension()) as u64]),
    ])?;
    Ok((p, header.key()?))
}

impl EvaluationKey {
    /// The file in memory.
    ///
    /// # Errors
    /// [`Error::WrongParams`](crate::Error::WrongParams) for a set that could not be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.draft()?.to_bytes()
    }

    /// Writes the key to a file: bodies and a seed, about half the expanded size.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io); then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.draft()?.save(path.as_ref(), false)
    }

    /// The file that [`EvaluationKey::save`] writes, as a part of [`replace_all`](super::replace_all), which puts it in place
    /// together with its secret key.
    ///
    /// # Errors
    /// [`Error::WrongParams`](crate::Error::WrongParams) for a set that could not be read again.
    pub fn part(&self, path: impl AsRef<Path>) -> Result<Part<'_>> {
        Ok(self.draft()?.part(path.as_ref(), false))
    }

    /// A key from a file in memory, copied.
    ///
    /// # Errors
    /// [`Error::BadFile`](crate::Error::BadFile), [`Error::WrongParams`](crate::Error::WrongParams) or
    /// [`Error::Insecure`](crate::Error::Insecure) for anything but a key that [`EvaluationKey::save`] wrote.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        let file = Reader::open(bytes, Kind::EvaluationKey)?;
        let words = |name: &str| Ok(Words::Owned(Arc::new(file.words(name)?)));
        evaluation_key(&file, trust, words)
    }

    /// Maps a file: nothing is copied, every process that loads it shares its pages, and it may be larger than
    /// memory. All of it is read once for the checksum. The file must not be changed in place while the key is in use
    /// (results would be wrong; a shortened file kills the process). Replacing it, as [`EvaluationKey::save`] does, is
    /// safe.
    ///
    /// # Errors
    /// As [`EvaluationKey::from_bytes`], and [`Error::Io`](crate::Error::Io).
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        let map = Arc::new(map::map(path.as_ref())?);
        if cfg!(target_endian = "big") {
            return EvaluationKey::from_bytes(&map, trust);
        }
        let file = Reader::open(&map, Kind::EvaluationKey)?;
        let words = |name: &str| Ok(Words::Mapped(map.clone(), file.place(name)));
        evaluation_key(&file, trust, words)
    }

    fn draft(&self) -> Result<Draft<'_>> {
        let shape = Shape::of(&self.params);
        Ok(Draft::new(Kind::EvaluationKey, &self.params)?
            .note("key", key_text(self.id))
            .tensor("bootstrap", &shape.bootstrap, Data::Words(&self.bootstrap))
            .tensor("key_switch", &shape.key_switch, Data::Words(&self.key_switch))
            .tensor("seed", &[32], Data::Bytes(&self.seed.0)))
    }
}

/// Shapes of the tensors of an evaluation key.
struct Shape {
    /// `[GGSW, ℓ, k + 1, N]`, or `[GGSW, ℓ, k + w, w, N]` with w slots.
    bootstrap: Vec<u64>,
    /// `[k·N, ℓ]`, or `[k·N, ℓ, w]`, without the coefficients of a shared key.
    key_switch: Vec<u64>,
}

impl Shape {
    fn of(p: &TfheParams) -> Self {
        let (count, rows) = (p.ggsw_count() as u64, (p.glwe_dimension + p.slots) as u64);
        // A single slot is not a dimension.
        let slots = (p.slots > 1).then_some(p.slots as u64);
        let ks = [p.switched_dimension() as u64, p.ks.level.into()];
        Shape {
            bootstrap: [count, p.pbs.level.into(), rows]
                .into_iter()
                .chain(slots)
                .chain([p.polynomial_size as u64])
                .collect(),
            key_switch: ks.into_iter().chain(slots).collect(),
        }
    }
}

/// Checks all that the file claims, then all that it holds.
fn evaluation_key(
    file: &Reader,
    trust: Trust,
    words: impl Fn(&str) -> Result<Words>,
) -> Result<EvaluationKey> {
    let header = file.header();
    let params = header.params(trust)?;
    let id = header.key()?;
    let shape = Shape::of(&params);
    header.expect(&[
        ("bootstrap", Dtype::U64, &shape.bootstrap),
        ("key_switch", Dtype::U64, &shape.key_switch),
        ("seed", Dtype::U8, &[32]),
    ])?;
    file.verify()?;
    let seed = file.bytes("seed").first_chunk::<32>();
    let key = EvaluationKey {
        id,
        seed: PublicSeed(*seed.ok_or_else(|| bad("a seed of 32 bytes", "none"))?),
        bootstrap: words("bootstrap")?,
        key_switch: words("key_switch")?,
        slot_keys: Vec::new(),
        params,
    };
    check_words(&key)?;
    Ok(key)
}

/// Words that are not elements of their modulus would make exact arithmetic silently wrong.
fn check_words(key: &EvaluationKey) -> Result<()> {
    let p = &key.params;
    let aligned = Shape::of(p).bootstrap.iter().product::<u64>() == key.bootstrap.len() as u64
        && Shape::of(p).key_switch.iter().product::<u64>() == key.key_switch.len() as u64;
    if !aligned {
        return Err(bad("aligned words", "others"));
    }
    let reduced = |w: &u64| p.modulus.is_reduced(*w);
    // Modulo 2^32 they are multiples of 2^32 modulo 2^64.
    let switched = |w: &u64| reduced(w) && (p.ks_modulus_log2 == 64 || w << 32 == 0);
    if key.bootstrap.iter().all(reduced) && key.key_switch.iter().all(switched) {
        return Ok(());
    }
    Err(bad("elements of the moduli of the set", "other words"))
}
