//! Evaluation keys as bytes: seeds and bodies, no masks.
//!
//! A magic line, the length of a header (u32, little endian) and the header (postcard): set, key, for each switch key
//! what it is for, the level that it is for and the seed of its masks, and the row of the set; behind it, to the end of that
//! length, a note of their maker. Then the bodies: limb after limb, each residue 0 ≤ x < p in
//! ⌈log2 p⌉ bits, least significant first. Last the BLAKE3 digest of all before. Half of the memory and less: the masks
//! are drawn again, 50-bit residues take 50 bits and not 64.

use super::Context;
use super::file::UNREDUCED;
use crate::cipher::file::key_header::{
    DIGEST, Hashed, KeyHeader, LONGEST_HEADER, LONGEST_NOTE, MAGIC, broken, opened, require_keys,
    unreadable, unwritten,
};
use crate::cipher::file::write_error;
use crate::cipher::{
    CkksKeys, Held, KeyFile, KeyForm, KeyId, Packed, Purpose, StoredKey, SwitchKey,
};
use crate::error::in_words;
use crate::math::buffer::{or_refused, reserved};
use crate::math::memory::require_memory;
use crate::math::parallel::*;
use crate::math::random::PublicSeed;
use crate::math::rns::Scratch;
use crate::progress::tell;
use crate::{Error, Progress, Result, UNWATCHED};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

impl Context {
    /// Writes keys: about three eighths of their size in memory.
    ///
    /// # Errors
    /// `WrongParams` for keys of another set, `Io` when writing fails.
    pub fn write_keys(&self, keys: &CkksKeys, out: impl Write) -> Result<()> {
        self.write_noted_keys(keys, "", out)
    }

    /// [`Context::write_keys`] with a note of their purpose for the reader ([`inspect`](crate::cipher::file::inspect)).
    ///
    /// # Errors
    /// As [`Context::write_keys`]; `BadInput` for a note of more than 4096 bytes, and for more keys than a reader takes.
    pub fn write_noted_keys(&self, keys: &CkksKeys, note: &str, out: impl Write) -> Result<()> {
        self.put_keys(keys, note, out, unwritten)
    }

    /// [`Context::write_noted_keys`] into the file at `path`, which errors name.
    ///
    /// # Errors
    /// As [`Context::write_noted_keys`].
    pub fn write_keys_at(
        &self,
        path: &Path,
        keys: &CkksKeys,
        note: &str,
        out: impl Write,
    ) -> Result<()> {
        self.put_keys(keys, note, out, |e| write_error(path, &e))
    }

    fn put_keys(
        &self,
        keys: &CkksKeys,
        note: &str,
        out: impl Write,
        unwritten: impl Fn(std::io::Error) -> Error,
    ) -> Result<()> {
        let header = self.header_of(keys, note)?;
        let mut out = Hashed { inner: out, digest: blake3::Hasher::new() };
        out.put(MAGIC).map_err(&unwritten)?;
        out.put(&(header.len() as u32).to_le_bytes()).map_err(&unwritten)?;
        out.put(&header).map_err(&unwritten)?;
        for key in keys.switches.values() {
            match key {
                Held::Ready(key) => {
                    self.packed_limbs(key, &key.bodies)
                        .iter()
                        .try_for_each(|limb| out.put(limb))
                        .map_err(&unwritten)?;
                }
                Held::Stored(key) => {
                    let (row, _) = self.row_bytes(key.level, key.special);
                    for j in 0..self.digits(key.level).len() {
                        out.put(&key.read(j * row, row)?).map_err(&unwritten)?;
                    }
                }
            }
        }
        let digest = *out.digest.finalize().as_bytes();
        out.put(&digest).map_err(&unwritten)?;
        out.inner.flush().map_err(unwritten)
    }

    /// The header of a file of keys, with its note.
    fn header_of(&self, keys: &CkksKeys, note: &str) -> Result<Vec<u8>> {
        self.check_set("write keys", keys.params)?;
        if note.len() > LONGEST_NOTE {
            let (wanted, got) = (format!("a note of {LONGEST_NOTE} bytes"), note.len().to_string());
            return Err(Error::bad_input("write keys", wanted, got, "say less"));
        }
        let all = &keys.switches;
        let switches = all.iter().map(|((p, t), key)| match key {
            Held::Ready(k) => (*p, *t as u32, k.level as u32, k.seed),
            Held::Stored(k) => (*p, *t as u32, k.level as u32, k.seed),
        });
        let switches = switches.collect();
        let (set, row) = (keys.params.to_string(), Some(self.row()?));
        let header = KeyHeader { set, key: keys.id, switches, row };
        let mut header = postcard::to_stdvec(&header).map_err(|e| broken(e.to_string()))?;
        header.extend(note.as_bytes());
        if header.len() > LONGEST_HEADER as usize {
            let wanted = format!("a header of {LONGEST_HEADER} bytes");
            let remedy = "make keys for fewer rotations";
            return Err(Error::bad_input("write keys", wanted, header.len().to_string(), remedy));
        }
        Ok(header)
    }

    /// The same keys; of those that are packed or in a file as many are made ready as fit `bytes` with those that are ready,
    /// so that using them takes less time.
    ///
    /// # Errors
    /// `WrongParams` for keys of another set, `Memory` where they do not fit, `Io` and `BadFile` when reading fails.
    pub fn ready_keys(&self, keys: &CkksKeys, bytes: usize) -> Result<CkksKeys> {
        self.check_set("make keys ready", keys.params)?;
        let mut out = keys.clone();
        let mut left = bytes.saturating_sub(keys.bytes());
        for ((purpose, _), held) in &mut out.switches {
            let Held::Stored(key) = held else { continue };
            let size = self.ready_size(*purpose, key.level);
            if size <= left {
                left -= size;
                *held = Held::Ready(Arc::new(self.expand(*purpose, key, key.level, true)?));
            }
        }
        Ok(out)
    }

    /// Reads keys that [`Context::write_keys`] wrote, and draws their masks.
    ///
    /// # Errors
    /// `BadFile` for another kind of file or an altered one, `WrongParams` for another set, `Memory` where they do not fit.
    pub fn read_keys(&self, input: impl Read) -> Result<CkksKeys> {
        self.keys_of(input, None, KeyForm::Ready, UNWATCHED)
    }

    /// [`Context::read_keys`] of a file.
    ///
    /// # Errors
    /// As [`Context::read_keys`], and `Io`.
    pub fn load_keys(&self, path: impl AsRef<Path>) -> Result<CkksKeys> {
        self.load_keys_with(path, KeyForm::Ready, UNWATCHED)
    }

    /// [`Context::load_keys`] in a form. `progress` is told how many keys were read and how many there are.
    ///
    /// # Errors
    /// As [`Context::load_keys`]; `Interrupted` when stopped.
    pub fn load_keys_with(
        &self,
        path: impl AsRef<Path>,
        form: KeyForm,
        progress: Progress,
    ) -> Result<CkksKeys> {
        require_keys(self.params(), path.as_ref())?;
        let (file, length) = opened(path.as_ref())?;
        self.keys_of(file, length, form, progress)
    }

    /// Keys of a file of `length` bytes, if that is known, in a form.
    fn keys_of(
        &self,
        input: impl Read,
        length: Option<u64>,
        form: KeyForm,
        progress: Progress,
    ) -> Result<CkksKeys> {
        let mut input = Hashed { inner: input, digest: blake3::Hasher::new() };
        let (header, at) = self.read_header(&mut input)?;
        self.check_length(&header, at, length)?;
        let size = |(purpose, tier, level, _): &(Purpose, u32, u32, PublicSeed)| {
            self.held_size((*purpose, *tier as usize), *level as usize, form)
        };
        require_memory("read keys", header.switches.iter().map(size).sum())?;
        let (mut switches, count) = (BTreeMap::new(), header.switches.len());
        for (purpose, tier, level, seed) in header.switches {
            tell("read keys", progress, switches.len(), count)?;
            let which = (purpose, tier as usize);
            let held = match form.of(which) {
                KeyForm::Seeded => {
                    let key = self.read_packed(purpose, level as usize, seed, &mut input)?;
                    Held::Stored(Arc::new(key))
                }
                form => {
                    let key = self.read_switch(purpose, level as usize, seed, &mut input)?;
                    self.held(key, form)
                }
            };
            switches.insert(which, held);
        }
        input.finish()?;
        self.whole(header.key, switches)
    }

    /// Keys of a file that [`Context::write_keys`] wrote, which stay there: each is read, and its masks are drawn, when it is
    /// used. The file is read once, to check it. It must not be changed afterwards: its use raises an error where length or time of
    /// change tell that it was, but a writer of the file can hide that.
    ///
    /// # Errors
    /// As [`Context::read_keys`], and `Io`.
    pub fn open_keys(&self, path: impl AsRef<Path>) -> Result<CkksKeys> {
        let path = path.as_ref();
        require_keys(self.params(), path)?;
        let file = File::open(path).map_err(unreadable(path))?;
        let length = file.metadata().map_err(unreadable(path))?.len();
        let again = file.try_clone().map_err(unreadable(path))?;
        let file = Arc::new(KeyFile::new(file).map_err(unreadable(path))?);
        let mut input = Hashed { inner: BufReader::new(again), digest: blake3::Hasher::new() };
        let (header, mut at) = self.read_header(&mut input)?;
        self.check_length(&header, at, Some(length))?;
        let mut switches = BTreeMap::new();
        let mut row = vec![];
        for (purpose, tier, level, seed) in header.switches {
            let (tier, level) = (tier as usize, level as usize);
            let (_, special) = self.key_shape(purpose, level);
            let bodies = Packed::File(file.clone(), at);
            let key = StoredKey { level, special, seed, bodies, masks: None };
            switches.insert((purpose, tier), Held::Stored(Arc::new(key)));
            let words = self.words_of(level, special);
            row.resize(self.row_bytes(level, special).0, 0);
            for _ in self.digits(level) {
                input.take(&mut row)?;
                // Looked at here, used later: only whether they are reduced counts.
                or_refused("read keys", || self.unpacked(&words, &row).map(drop))
                    .map_err(of_keys)?;
                at += row.len() as u64;
            }
        }
        input.finish()?;
        self.whole(header.key, switches)
    }

    /// The header of keys of this set, and the place behind it.
    fn read_header(&self, input: &mut Hashed<impl Read>) -> Result<(KeyHeader, u64)> {
        let (header, _, at) = input.header()?;
        let (name, wanted) = (self.params().name, format!("keys of `{}`", self.params().name));
        if header.set != name {
            let got = format!("`{:.32}`", header.set);
            return Err(Error::wrong_params("read keys", wanted, got, "use one set throughout"));
        }
        if !header.is_of(self.params()) {
            let wanted = format!("{wanted} with the numbers that the set has here");
            let got = "keys of a set that had others";
            return Err(Error::wrong_params("read keys", wanted, got, "make the keys again"));
        }
        Ok((header, at))
    }

    /// Keys without which there is none, and pairs.
    fn whole(&self, id: KeyId, switches: BTreeMap<(Purpose, usize), Held>) -> Result<CkksKeys> {
        let held = |purpose, tier| switches.contains_key(&(purpose, tier));
        let single = |tier| held(Purpose::ToEphemeral, tier) != held(Purpose::FromEphemeral, tier);
        if !held(Purpose::Multiply, 0) || (0..self.params().tiers().len()).any(single) {
            return Err(broken("keys of which some are missing"));
        }
        Ok(CkksKeys { params: self.params().name, id, switches, foreign: true })
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

    /// Refuses keys that the set does not have, and a file of another length than theirs.
    fn check_length(&self, header: &KeyHeader, at: u64, length: Option<u64>) -> Result<()> {
        let mut wanted = at + DIGEST;
        for (purpose, tier, level, _) in &header.switches {
            self.check_claim(*purpose, *tier as usize, *level as usize)?;
            wanted += self.body_bytes(*purpose, *level as usize) as u64;
        }
        match length.filter(|length| *length != wanted) {
            None => Ok(()),
            Some(length) => {
                let wanted = format!("evaluation keys of CKKS, {wanted} bytes");
                let remedy = "copy the file again";
                Err(Error::bad_file("read keys", wanted, format!("{length} bytes"), remedy))
            }
        }
    }

    /// A key that stays packed, its residues checked.
    fn read_packed(
        &self,
        purpose: Purpose,
        level: usize,
        seed: PublicSeed,
        input: &mut Hashed<impl Read>,
    ) -> Result<StoredKey> {
        let (_, special) = self.key_shape(purpose, level);
        let words = self.words_of(level, special);
        let all = self.body_bytes(purpose, level);
        let mut bodies: Vec<u8> = reserved("read keys", all)?;
        let mut limb = vec![0.0; self.params().degree()];
        for word in words.iter().cycle().take(self.digits(level).len() * words.len()) {
            let at = bodies.len();
            bodies.resize(at + self.limb_bytes(*word), 0);
            input.take(&mut bodies[at..])?;
            self.unpack(*word, &bodies[at..], &mut limb).map_err(of_keys)?;
        }
        Ok(StoredKey { level, special, seed, bodies: Packed::Memory(bodies), masks: None })
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
        let (bodies, masks) = (Scratch::apart(len)?, Scratch::apart(len)?);
        let mut key = SwitchKey { level, count, special, seed, bodies, masks };
        for (limb, word) in key.bodies.chunks_mut(n).zip(words.iter().cycle()) {
            let mut bytes = vec![0; self.limb_bytes(*word)];
            input.take(&mut bytes)?;
            self.unpack(*word, &bytes, limb).map_err(of_keys)?;
        }
        self.draw_masks(&mut key);
        Ok(key)
    }

    /// Limb `at` of digit `j` of the key and the limbs after it, from packed bodies or masks.
    pub(crate) fn packed_limb<'a>(
        &self,
        key: &StoredKey,
        bytes: &'a [u8],
        [j, at]: [usize; 2],
    ) -> &'a [u8] {
        let words = self.words_of(key.level, key.special);
        let size = |words: &[usize]| words.iter().map(|i| self.limb_bytes(*i)).sum::<usize>();
        let from = j * size(&words) + size(&words[..at]);
        &bytes[from..]
    }

    /// A key that was packed, cut to the words that a level of the same tier needs; in separate memory if `lasting`.
    pub(crate) fn expand(
        &self,
        purpose: Purpose,
        stored: &StoredKey,
        level: usize,
        lasting: bool,
    ) -> Result<SwitchKey> {
        let (n, special) = (self.params().degree(), stored.special);
        let (count, _) = self.key_shape(purpose, level);
        let (digits, limbs) = (self.digits(level).len(), count + special);
        let len = digits * limbs * n;
        require_memory("read keys", 16 * len)?;
        // Those of the pool are warm: new pages would take as long as what is written to them.
        let (bodies, masks) = match lasting {
            true => (Scratch::apart(len)?, Scratch::apart(len)?),
            false => (self.ring().scratch(len), self.ring().scratch(len)),
        };
        let mut key = SwitchKey { level, count, special, seed: stored.seed, bodies, masks };
        let (row, chain) = self.row_bytes(stored.level, special);
        let (_, own) = self.row_bytes(level, special);
        let words = self.words_of(level, special);
        for (j, bodies) in key.bodies.chunks_mut(limbs * n).enumerate() {
            let (chain_bytes, special_bytes) =
                (stored.read(j * row, own)?, stored.read(j * row + chain, row - chain)?);
            let mut pieces = vec![];
            for (words, mut rest) in
                [(&words[..count], &chain_bytes[..]), (&words[count..], &special_bytes[..])]
            {
                for i in words {
                    let (piece, behind) = rest.split_at(self.limb_bytes(*i));
                    pieces.push(piece);
                    rest = behind;
                }
            }
            let limbs = bodies.par_chunks_mut(n).zip(pieces).zip(&words);
            limbs.try_for_each(|((x, bytes), i)| self.unpack(*i, bytes, x)).map_err(of_keys)?;
        }
        self.draw_masks(&mut key);
        Ok(key)
    }
}

/// The error of residues, in a file of keys.
fn of_keys(e: Error) -> Error {
    if matches!(e, Error::BadFile(_)) { broken(UNREDUCED) } else { e }
}

impl StoredKey {
    /// Bytes of the packed bodies from `from` on.
    fn read(&self, from: usize, len: usize) -> Result<Cow<'_, [u8]>> {
        let (file, at) = match &self.bodies {
            Packed::Memory(bytes) => return Ok(Cow::Borrowed(&bytes[from..from + len])),
            Packed::File(file, at) => (file, at + from as u64),
        };
        let mut bytes = vec![0; len];
        file.read(at, &mut bytes).map_err(|e| broken(in_words(&e)))?;
        Ok(Cow::Owned(bytes))
    }
}
