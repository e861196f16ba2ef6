//! Files of bridge keys: the seed of the masks, and the bodies with as many bits as their primes have.

use super::{BridgeKey, SPECIAL, TO};
use crate::Result;
use crate::cipher::KeyId;
use crate::cipher::file::{
    Data, Draft, Dtype, Header, Kind, Reader, Trust, bad, hex, read_file, require_limit, unhex,
};
use crate::ckks::Chain;
use crate::math::random::PublicSeed;
use crate::math::rns::width;
use crate::params::TfheParams;
use std::path::Path;
use std::sync::Arc;

impl BridgeKey {
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
    /// `BadFile`, `WrongParams` or `Insecure` for anything but a key that [`BridgeKey::save`] wrote.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<BridgeKey> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::BridgeKey)?;
        let found = claims(file.header(), trust)?;
        file.verify()?;
        let seed = file.bytes("seed").first_chunk::<32>();
        let seed = PublicSeed(*seed.ok_or_else(|| bad("a seed of 32 bytes", "none"))?);
        let (from, to) = (found.from, (&found.params, found.to));
        let mut key = BridgeKey::masked(&found.chain, from, to, (found.primes, seed))?;
        let n = key.ring.size();
        let mut bytes = file.bytes("bodies");
        let [bodies, _] = &mut key.parts;
        for (limb, word) in bodies.chunks_mut(n).zip([TO, SPECIAL]) {
            let (own, rest) = bytes.split_at(limb_bytes(n, found.primes[word]));
            if !key.ring.unpack(word, own, limb) {
                return Err(bad("residues below their primes", "a residue that is not reduced"));
            }
            bytes = rest;
        }
        Ok(key)
    }

    /// Reads a key from a file.
    ///
    /// # Errors
    /// As [`BridgeKey::from_bytes`], and `Io`.
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<BridgeKey> {
        let check = |header: &Header| claims(header, trust).map(drop);
        let bytes = read_file(path.as_ref(), trust.limit, check)?;
        BridgeKey::from_bytes(&bytes, trust)
    }

    /// The bodies, packed.
    fn packed(&self) -> Vec<u8> {
        let limbs = self.parts[0].chunks(self.ring.size()).zip([TO, SPECIAL]);
        limbs.flat_map(|(limb, word)| self.ring.packed(word, limb)).collect()
    }

    fn draft<'a>(&'a self, packed: &'a [u8]) -> Result<Draft<'a>> {
        let (set, from) = self.from;
        Ok(Draft::new(Kind::BridgeKey, &self.params)?
            .note("key", hex(&self.to.0))
            .note("moduli", moduli_text(self.primes()))
            .note("source", Chain::new(set)?.row()?)
            .note("source_key", hex(&from.0))
            .tensor("bodies", &[packed.len() as u64], Data::Bytes(packed))
            .tensor("seed", &[32], Data::Bytes(&self.seed.0)))
    }
}

/// The claims of a header.
struct Claims {
    chain: Chain,
    from: KeyId,
    params: Arc<TfheParams>,
    to: KeyId,
    primes: [u64; 3],
}

fn claims(header: &Header, trust: Trust) -> Result<Claims> {
    header.require(Kind::BridgeKey)?;
    let (params, to) = (header.params(trust)?, header.key()?);
    let chain = Chain::of_entry(header, "source", trust)?;
    let from = unhex(header.entry("source_key")?).map(KeyId);
    let from = from.ok_or_else(|| bad("a key id of 32 hexadecimal digits", "something else"))?;
    let primes = super::primes("load", &chain, &params)?;
    let (wanted, got) = (moduli_text([primes[TO], primes[SPECIAL]]), header.entry("moduli")?);
    if got != wanted {
        return Err(bad(format!("the moduli {wanted}"), format!("{got:.64}")));
    }
    let n = chain.params().degree();
    let bytes: usize = [TO, SPECIAL].map(|word| limb_bytes(n, primes[word])).iter().sum();
    header.expect(&[("bodies", Dtype::U8, &[bytes as u64]), ("seed", Dtype::U8, &[32])])?;
    Ok(Claims { chain, from, params, to, primes })
}

/// q' and P in a header.
fn moduli_text([q, p]: [u64; 2]) -> String {
    format!("{q} {p}")
}

/// Bytes of the packed residues of a limb.
fn limb_bytes(degree: usize, prime: u64) -> usize {
    degree / 8 * width(prime) as usize
}
