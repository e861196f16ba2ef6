//! Evaluation keys as bytes: seeds and bodies, no masks.
//!
//! A magic line, the length of a header (u32, little endian) and the header (postcard): set, key, and for each switch key
//! what it is for, the level that it is for and the seed of its masks. Then the bodies: limb after limb, each residue 0 ≤ x < p in
//! ⌈log2 p⌉ bits, least significant first. Last the BLAKE3 digest of all before. Half of the memory and less: the masks
//! are drawn again, 50-bit residues take 50 bits and not 64.

use super::{Context, Needs};
use crate::cipher::{CkksKeys, KeyId, Purpose, SwitchKey};
use crate::math::buffer::{Buffer, require_memory};
use crate::math::random::PublicSeed;
use crate::math::rns::centred;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;

const MAGIC: &[u8; 16] = b"becalm ckks 0002";
/// No header is longer.
const LONGEST_HEADER: u32 = 1 << 16;

#[derive(Serialize, Deserialize)]
struct Header {
    set: String,
    key: KeyId,
    /// What for, in which tier, the level that it is for, seed of the masks.
    switches: Vec<(Purpose, u32, u32, PublicSeed)>,
}

fn broken(got: impl Into<String>) -> Error {
    Error::bad_file(
        "read keys",
        "evaluation keys of CKKS, whole and unaltered",
        got,
        "copy the file again",
    )
}

/// Reads or writes and keeps the digest of what passed.
struct Hashed<T> {
    inner: T,
    digest: blake3::Hasher,
}

impl<T: Write> Hashed<T> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.digest.update(bytes);
        self.inner.write_all(bytes).map_err(|e| {
            let remedy = "free space, or choose another place";
            Error::io("write keys", "to write", e.to_string(), remedy)
        })
    }
}

impl<T: Read> Hashed<T> {
    fn take(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.inner.read_exact(bytes).map_err(|e| broken(e.to_string()))?;
        self.digest.update(bytes);
        Ok(())
    }
}

/// Bits of a residue modulo p.
pub(super) fn width(p: u64) -> u32 {
    u64::BITS - (p - 1).leading_zeros()
}

pub(super) fn packed(limb: &[f64], p: u64) -> Vec<u8> {
    let (mut out, mut held, mut bits) = (Vec::with_capacity(limb.len() * 7), 0u128, 0);
    for x in limb {
        let residue = (*x as i64).rem_euclid(p as i64) as u128;
        held |= residue << bits;
        bits += width(p);
        while bits >= 8 {
            out.push(held as u8);
            held >>= 8;
            bits -= 8;
        }
    }
    out
}

pub(super) fn unpacked(bytes: &[u8], p: u64, limb: &mut [f64]) -> Result<()> {
    let (mut bytes, mut held, mut bits) = (bytes.iter(), 0u128, 0);
    for x in limb {
        while bits < width(p) {
            held |= u128::from(*bytes.next().unwrap_or(&0)) << bits;
            bits += 8;
        }
        let residue = held as u64 & ((1 << width(p)) - 1);
        if residue >= p {
            return Err(broken("a residue that is not reduced"));
        }
        held >>= width(p);
        bits -= width(p);
        *x = centred(residue, p);
    }
    Ok(())
}

impl Context {
    /// Bytes of the keys for `needs` as [`Context::write_keys`] writes them, but for the header.
    pub fn stored_key_bytes(&self, needs: &Needs) -> usize {
        let one = |((purpose, _), level): (&(Purpose, usize), &usize)| {
            let (_, special) = self.key_shape(*purpose, *level);
            let words = self.words_of(*level, special);
            let bits = words.iter().map(|i| width(self.ring().word(*i).p) as usize).sum::<usize>();
            self.digits(*level).len() * bits * self.params().degree() / 8
        };
        self.key_plan(needs).iter().map(one).sum()
    }

    /// Writes keys: about three eighths of their size in memory.
    ///
    /// # Errors
    /// `WrongParams` for keys of another set, `Io` when writing fails.
    pub fn write_keys(&self, keys: &CkksKeys, out: impl Write) -> Result<()> {
        self.check_set("write keys", keys.params)?;
        let all = &keys.switches;
        let switches = all.iter();
        let switches =
            switches.map(|((p, t), k)| (*p, *t as u32, k.level as u32, k.seed)).collect();
        let header = Header { set: keys.params.to_string(), key: keys.id, switches };
        let header = postcard::to_stdvec(&header).map_err(|e| broken(e.to_string()))?;
        let mut out = Hashed { inner: out, digest: blake3::Hasher::new() };
        out.put(MAGIC)?;
        out.put(&(header.len() as u32).to_le_bytes())?;
        out.put(&header)?;
        let n = self.params().degree();
        for key in all.values() {
            let words = self.words_of(key.level, key.special);
            for (limb, word) in key.bodies.as_slice().chunks(n).zip(words.iter().cycle()) {
                out.put(&packed(limb, self.ring().word(*word).p))?;
            }
        }
        let digest = *out.digest.finalize().as_bytes();
        out.put(&digest)
    }

    /// Reads keys that [`Context::write_keys`] wrote, and draws their masks.
    ///
    /// # Errors
    /// `BadFile` for what is no such file or was altered, `WrongParams` for another set, `Memory` where they do not fit.
    pub fn read_keys(&self, input: impl Read) -> Result<CkksKeys> {
        let mut input = Hashed { inner: input, digest: blake3::Hasher::new() };
        let (mut magic, mut length) = ([0; MAGIC.len()], [0; 4]);
        input.take(&mut magic)?;
        input.take(&mut length)?;
        let length = u32::from_le_bytes(length);
        if &magic != MAGIC || length > LONGEST_HEADER {
            return Err(broken("another kind of file"));
        }
        let mut header = vec![0; length as usize];
        input.take(&mut header)?;
        let header: Header = postcard::from_bytes(&header).map_err(|e| broken(e.to_string()))?;
        if header.set != self.params().name {
            let wanted = format!("keys of `{}`", self.params().name);
            let got = format!("`{}`", header.set);
            return Err(Error::wrong_params("read keys", wanted, got, "use one set throughout"));
        }
        let mut switches = BTreeMap::new();
        for (purpose, tier, level, seed) in header.switches {
            let (tier, level) = (tier as usize, level as usize);
            self.check_claim(purpose, tier, level)?;
            let key = self.read_switch(purpose, level, seed, &mut input)?;
            switches.insert((purpose, tier), Arc::new(key));
        }
        let (wanted, mut digest) = (*input.digest.finalize().as_bytes(), [0; 32]);
        input.take(&mut digest)?;
        if wanted != digest {
            return Err(broken("a digest that does not match"));
        }
        let held = |purpose, tier| switches.contains_key(&(purpose, tier));
        let single = |tier| held(Purpose::ToEphemeral, tier) != held(Purpose::FromEphemeral, tier);
        if !held(Purpose::Multiply, 0) || (0..self.params().tiers().len()).any(single) {
            return Err(broken("keys of which some are missing"));
        }
        Ok(CkksKeys { params: self.params().name, id: header.key, switches })
    }

    /// Refuses a key that claims to be for a level that the set does not have in that tier, or below the user's for products.
    fn check_claim(&self, purpose: Purpose, tier: usize, level: usize) -> Result<()> {
        let tiers = self.params().tiers();
        let fits = tiers.get(tier).is_some_and(|levels| match purpose {
            Purpose::Multiply => levels.contains(&level) && level >= self.params().levels,
            Purpose::ToEphemeral => level == 0,
            Purpose::Galois(_) | Purpose::FromEphemeral => levels.contains(&level),
        });
        if fits { Ok(()) } else { Err(broken(format!("a key for level {level}"))) }
    }

    fn read_switch(
        &self,
        purpose: Purpose,
        level: usize,
        seed: PublicSeed,
        input: &mut Hashed<impl Read>,
    ) -> Result<SwitchKey> {
        let ((count, special), n) = (self.key_shape(purpose, level), self.params().degree());
        let (words, digits) = (self.words_of(level, special), self.digits(level).len());
        let len = digits * (count + special) * n;
        require_memory("read keys", 16 * len)?;
        let (bodies, masks) = (Buffer::new(len)?, Buffer::new(len)?);
        let mut key = SwitchKey { level, count, special, seed, bodies, masks };
        for (limb, word) in key.bodies.as_mut_slice().chunks_mut(n).zip(words.iter().cycle()) {
            let p = self.ring().word(*word).p;
            let mut bytes = vec![0; n * width(p) as usize / 8];
            input.take(&mut bytes)?;
            unpacked(&bytes, p, limb)?;
        }
        self.draw_masks(&mut key);
        Ok(key)
    }
}
