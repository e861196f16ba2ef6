//! Files of the keys of the bridge: the seed of the masks, and the bodies with as many bits as their primes have.

use super::pack::Numbers;
use super::switch::body_bytes;
use super::unpack::primes;
use super::{BridgeKey, PackingKey};
use crate::Result;
use crate::cipher::KeyId;
use crate::cipher::file::{
    Data, Draft, Dtype, Header, Kind, Reader, Trust, bad, hex, read_file, require_limit, unhex,
};
use crate::ckks::Chain;
use crate::math::random::PublicSeed;
use crate::params::TfheParams;
use std::path::Path;
use std::sync::Arc;

impl BridgeKey {
    /// The file in memory.
    ///
    /// # Errors
    /// `WrongParams` for a set of TFHE that could not be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.draft(&self.switch.packed())?.to_bytes()
    }

    /// Writes the key to a file.
    ///
    /// # Errors
    /// `Io`; then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.draft(&self.switch.packed())?.save(path.as_ref(), false)
    }

    /// A key from a file in memory.
    ///
    /// # Errors
    /// `BadFile`, `WrongParams` or `Insecure` for anything but a key that [`BridgeKey::save`] wrote.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<BridgeKey> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::BridgeKey)?;
        let (sets, primes) = unpacking(file.header(), trust)?;
        file.verify()?;
        let (from, to, made) = (sets.many, (&sets.params, sets.one), (primes, seed(&file)?));
        let mut key = BridgeKey::masked(&sets.chain, from, to, made)?;
        key.switch.unpack(file.bytes("bodies"))?;
        Ok(key)
    }

    /// Reads a key from a file.
    ///
    /// # Errors
    /// As [`BridgeKey::from_bytes`], and `Io`.
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<BridgeKey> {
        let check = |header: &Header| unpacking(header, trust).map(drop);
        BridgeKey::from_bytes(&read_file(path.as_ref(), trust.limit, check)?, trust)
    }

    fn draft<'a>(&'a self, packed: &'a [u8]) -> Result<Draft<'a>> {
        let (set, from) = self.from;
        Ok(Draft::new(Kind::BridgeKey, &self.params)?
            .note("key", hex(&self.to.0))
            .note("moduli", moduli_text(&self.switch.primes()))
            .note("source", Chain::new(set)?.row()?)
            .note("source_key", hex(&from.0))
            .tensor("bodies", &[packed.len() as u64], Data::Bytes(packed))
            .tensor("seed", &[32], Data::Bytes(&self.switch.seed.0)))
    }
}

impl PackingKey {
    /// The file in memory.
    ///
    /// # Errors
    /// `WrongParams` for a set of TFHE that could not be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.draft(&self.packed())?.to_bytes()
    }

    /// Writes the key to a file.
    ///
    /// # Errors
    /// `Io`; then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.draft(&self.packed())?.save(path.as_ref(), false)
    }

    /// A key from a file in memory.
    ///
    /// # Errors
    /// `BadFile`, `WrongParams` or `Insecure` for anything but a key that [`PackingKey::save`] wrote.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<PackingKey> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::PackingKey)?;
        let (sets, numbers) = packing(file.header(), trust)?;
        file.verify()?;
        let (from, made) = ((&sets.params, sets.one), (numbers, seed(&file)?));
        let mut key = PackingKey::masked(from, &sets.chain, sets.many, made)?;
        key.switch.unpack(file.bytes("bodies"))?;
        key.merging.unpack(file.bytes("merges"))?;
        Ok(key)
    }

    /// Reads a key from a file.
    ///
    /// # Errors
    /// As [`PackingKey::from_bytes`], and `Io`.
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<PackingKey> {
        let check = |header: &Header| packing(header, trust).map(drop);
        PackingKey::from_bytes(&read_file(path.as_ref(), trust.limit, check)?, trust)
    }

    /// The bodies of the ring switch and of the merges, packed.
    fn packed(&self) -> [Vec<u8>; 2] {
        [self.switch.packed(), self.merging.bodies()]
    }

    fn draft<'a>(&'a self, [bodies, merges]: &'a [Vec<u8>; 2]) -> Result<Draft<'a>> {
        let ((params, from), shape) = (&self.from, self.merging.shape);
        let numbers = Numbers { primes: self.switch.primes(), shape };
        Ok(Draft::new(Kind::PackingKey, params)?
            .note("key", hex(&from.0))
            .note("moduli", numbers_text(numbers))
            .note("target", self.chain.row()?)
            .note("target_key", hex(&self.to.0))
            .tensor("bodies", &[bodies.len() as u64], Data::Bytes(bodies))
            .tensor("merges", &[merges.len() as u64], Data::Bytes(merges))
            .tensor("seed", &[32], Data::Bytes(&self.switch.seed.0)))
    }
}

/// The two sets of a header, and the keys of each.
struct Sets {
    chain: Chain,
    many: KeyId,
    params: Arc<TfheParams>,
    one: KeyId,
}

impl Sets {
    /// Those of a header that has the set of CKKS in the entry `set`, and the key of it in the entry `key`.
    fn of(header: &Header, [set, key]: [&str; 2], trust: Trust) -> Result<Sets> {
        let (params, one) = (header.params(trust)?, header.key()?);
        let chain = Chain::of_entry(header, set, trust)?;
        let many = unhex(header.entry(key)?).map(KeyId);
        let many =
            many.ok_or_else(|| bad("a key id of 32 hexadecimal digits", "something else"))?;
        Ok(Sets { chain, many, params, one })
    }
}

/// The claims of a bridge key.
fn unpacking(header: &Header, trust: Trust) -> Result<(Sets, [u64; 3])> {
    header.require(Kind::BridgeKey)?;
    let sets = Sets::of(header, ["source", "source_key"], trust)?;
    let primes = primes("load", &sets.chain, &sets.params)?;
    let [q, p, _] = primes;
    require_moduli(header, moduli_text(&[q, p]))?;
    let bytes = body_bytes(sets.chain.params().degree(), [q, p]) as u64;
    header.expect(&[("bodies", Dtype::U8, &[bytes]), ("seed", Dtype::U8, &[32])])?;
    Ok((sets, primes))
}

/// The claims of a packing key.
fn packing(header: &Header, trust: Trust) -> Result<(Sets, Numbers)> {
    header.require(Kind::PackingKey)?;
    let sets = Sets::of(header, ["target", "target_key"], trust)?;
    let numbers = Numbers::of("load", &sets.params, &sets.chain)?;
    require_moduli(header, numbers_text(numbers))?;
    let bodies = body_bytes(sets.chain.params().degree(), numbers.primes) as u64;
    let merges = numbers.shape.body_bytes() as u64;
    header.expect(&[
        ("bodies", Dtype::U8, &[bodies]),
        ("merges", Dtype::U8, &[merges]),
        ("seed", Dtype::U8, &[32]),
    ])?;
    Ok((sets, numbers))
}

fn require_moduli(header: &Header, wanted: String) -> Result<()> {
    match header.entry("moduli")? {
        got if got == wanted => Ok(()),
        got => Err(bad(format!("the moduli {wanted}"), format!("{got:.64}"))),
    }
}

/// Moduli in a header.
fn moduli_text(primes: &[u64]) -> String {
    primes.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// q_0, P and q', and the digits of the merges, in a header.
fn numbers_text(Numbers { primes: [q, p], shape }: Numbers) -> String {
    moduli_text(&[q, p, shape.prime, shape.digits as u64, shape.base_log.into()])
}

fn seed(file: &Reader) -> Result<PublicSeed> {
    let seed = file.bytes("seed").first_chunk::<32>();
    Ok(PublicSeed(*seed.ok_or_else(|| bad("a seed of 32 bytes", "none"))?))
}
