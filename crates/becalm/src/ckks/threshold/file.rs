//! Files of shares of a key, and of parts of a decryption, in the container of all files (docs/files.md).

use super::super::Context;
use super::super::file::number;
use super::{
    KeyShare, PartialDecryption, Set, Split, all_words_of_shares, bit, members, parts,
    words_of_shares,
};
use crate::Result;
use crate::cipher::file::{
    Data, Draft, Dtype, Header, Kind, Reader, Trust, bad, hex, read_file, require_limit, unhex,
};
use crate::cipher::{Budget, MOST_PARTIES};
use crate::math::buffer::or_refused;
use crate::math::random::SecretSeed;
use std::path::Path;
use zeroize::Zeroizing;

/// The word for a key that the parties made together.
const TOGETHER: &str = "together";
/// Bytes of a seed.
const SEED: usize = 32;

impl KeyShare {
    /// The file of a share, in memory, wiped when dropped.
    ///
    /// # Errors
    /// `WrongParams` for a share of another set.
    pub fn to_bytes(&self, context: &Context) -> Result<Zeroizing<Vec<u8>>> {
        let [seeds, last] = self.tensors(context)?;
        Ok(Zeroizing::new(self.draft(context, &seeds, &last)?.to_bytes()?))
    }

    /// Writes a share to a file that only its owner can read.
    ///
    /// # Errors
    /// `WrongParams` for a share of another set, `Io` when writing fails, and for another secret at `path`.
    pub fn save(&self, context: &Context, path: impl AsRef<Path>) -> Result<()> {
        let [seeds, last] = self.tensors(context)?;
        self.draft(context, &seeds, &last)?.save(path.as_ref(), true)
    }

    /// A share from a file in memory. It has spent nothing yet.
    ///
    /// # Errors
    /// `BadFile` or `WrongParams` for anything but a share of a key of this set that becalm wrote.
    pub fn from_bytes(context: &Context, bytes: &[u8], trust: Trust) -> Result<KeyShare> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::CkksKeyShare)?;
        let (empty, sets) = KeyShare::claims(context, file.header())?;
        file.verify()?;
        let mut seeds = Vec::with_capacity(sets.len());
        for (set, seed) in sets.iter().zip(file.bytes("seeds").as_chunks::<SEED>().0) {
            let mut seed = Zeroizing::new(*seed);
            seeds.push((*set, SecretSeed::from_bytes(&mut seed)));
        }
        let packed = file.bytes("last");
        let last = (!packed.is_empty()).then(|| last_of(context, packed)).transpose()?;
        Ok(KeyShare { seeds, last, ..empty })
    }

    /// Reads a share from a file. It has spent nothing yet.
    ///
    /// # Errors
    /// As [`KeyShare::from_bytes`], and `Io`.
    pub fn load(context: &Context, path: impl AsRef<Path>, trust: Trust) -> Result<KeyShare> {
        let check = |header: &Header| KeyShare::claims(context, header).map(drop);
        let bytes = Zeroizing::new(read_file(path.as_ref(), trust.limit, check)?);
        KeyShare::from_bytes(context, &bytes, trust)
    }

    /// The seeds, and the packed last part.
    pub(super) fn tensors(&self, context: &Context) -> Result<[Zeroizing<Vec<u8>>; 2]> {
        context.check_set("save", self.params)?;
        let (words, n) = (all_words_of_shares(context), context.params().degree());
        let mut seeds = Zeroizing::new(Vec::with_capacity(self.seeds.len() * SEED));
        self.seeds.iter().for_each(|(_, seed)| seeds.extend_from_slice(seed.bytes()));
        let bytes = words.iter().map(|word| context.limb_bytes(*word)).sum();
        let mut last = Zeroizing::new(Vec::with_capacity(bytes));
        for (limb, word) in self.last.iter().flat_map(|x| x.chunks(n)).zip(&words) {
            last.extend_from_slice(&Zeroizing::new(context.ring().packed(*word, limb)));
        }
        Ok([seeds, last])
    }

    pub(super) fn draft<'a>(
        &self,
        context: &Context,
        seeds: &'a [u8],
        last: &'a [u8],
    ) -> Result<Draft<'a>> {
        let draft = Draft::of(Kind::CkksKeyShare, context.row()?)
            .note("key", hex(&self.key.0))
            .note("split", hex(&self.split.0))
            .note("parties", self.parties.to_string())
            .note("threshold", self.threshold.to_string())
            .note("party", self.party.to_string());
        let draft = if self.together { draft.note("made", TOGETHER) } else { draft };
        let tensors = [("last", last), ("seeds", seeds)].into_iter();
        let held = tensors.filter(|(_, bytes)| !bytes.is_empty());
        Ok(held.fold(draft, |draft, (name, bytes)| {
            draft.tensor(name, &[bytes.len() as u64], Data::Bytes(bytes))
        }))
    }

    /// The share that a header describes, without its parts, and the sets of its seeds.
    fn claims(context: &Context, header: &Header) -> Result<(KeyShare, Vec<Set>)> {
        header.require(Kind::CkksKeyShare)?;
        context.require_row(header)?;
        let parties = number(header, "parties", |n| *n <= MOST_PARTIES)?;
        let threshold = number(header, "threshold", |t| *t <= parties)?;
        let party = number(header, "party", |p| (1..=parties).contains(p))?;
        let all = parts(parties, threshold);
        let all = all.ok_or_else(|| bad("a share of a key that can be split so", "another one"))?;
        let own = |set: &Set| set & bit(party) == 0;
        let together = header.has("made");
        if together && header.entry("made")? != TOGETHER {
            return Err(bad("a key that was made together", "one that was made in another way"));
        }
        let whole = together && threshold == parties;
        let has_last = whole || all.last().is_some_and(own);
        let mut sets = all;
        sets.pop();
        sets.retain(own);
        let sets = match (whole, together) {
            (true, _) => vec![],
            (_, true) => sets.repeat(parties),
            _ => sets,
        };
        let bytes: usize =
            all_words_of_shares(context).iter().map(|i| context.limb_bytes(*i)).sum();
        let lengths = [("last", if has_last { bytes } else { 0 }), ("seeds", sets.len() * SEED)];
        let lengths = lengths.map(|(name, bytes)| (name, [bytes as u64]));
        let held = lengths.iter().filter(|(_, bytes)| bytes[0] > 0);
        let tensors: Vec<_> = held.map(|(name, bytes)| (*name, Dtype::U8, &bytes[..])).collect();
        header.expect(&tensors)?;
        let (params, key, split) = (context.params().name, header.key()?, split_in(header)?);
        let (seeds, last, budget) = (vec![], None, Budget::default());
        let empty = KeyShare {
            params,
            key,
            split,
            parties,
            threshold,
            party,
            seeds,
            last,
            together,
            budget,
        };
        Ok((empty, sets))
    }
}

impl PartialDecryption {
    /// The file of a part of a decryption, in memory.
    ///
    /// # Errors
    /// `WrongParams` for a part of another set.
    pub fn to_bytes(&self, context: &Context) -> Result<Vec<u8>> {
        self.draft(context)?.to_bytes()
    }

    /// Writes a part of a decryption to a file.
    ///
    /// # Errors
    /// `WrongParams` for a part of another set, `Io` when writing fails.
    pub fn save(&self, context: &Context, path: impl AsRef<Path>) -> Result<()> {
        self.draft(context)?.save(path.as_ref(), false)
    }

    /// A part of a decryption from a file in memory. A file cannot prove whose part it is: take it from the party.
    ///
    /// # Errors
    /// `BadFile` or `WrongParams` for anything but a part of a decryption of this set that becalm wrote.
    pub fn from_bytes(context: &Context, bytes: &[u8], trust: Trust) -> Result<PartialDecryption> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::CkksPartial)?;
        let empty = PartialDecryption::claims(context, file.header())?;
        file.verify()?;
        let residues = file.bytes("residues").to_vec();
        let words = words_of_shares(context, "load", empty.level)?;
        or_refused("load", || context.unpacked(&words, &residues).map(drop))?;
        Ok(PartialDecryption { residues, ..empty })
    }

    /// Reads a part of a decryption from a file.
    ///
    /// # Errors
    /// As [`PartialDecryption::from_bytes`], and `Io`.
    pub fn load(
        context: &Context,
        path: impl AsRef<Path>,
        trust: Trust,
    ) -> Result<PartialDecryption> {
        let check = |header: &Header| PartialDecryption::claims(context, header).map(drop);
        let bytes = read_file(path.as_ref(), trust.limit, check)?;
        PartialDecryption::from_bytes(context, &bytes, trust)
    }

    pub(super) fn draft(&self, context: &Context) -> Result<Draft<'_>> {
        context.check_set("save", self.params)?;
        let length = [self.residues.len() as u64];
        let draft = Draft::of(Kind::CkksPartial, context.row()?)
            .note("key", hex(&self.key.0))
            .note("split", hex(&self.split.0))
            .note("party", self.party.to_string())
            .note("quorum", listed(self.quorum))
            .note("level", self.level.to_string())
            .note("ciphertext", hex(&self.of));
        Ok(draft.tensor("residues", &length, Data::Bytes(&self.residues)))
    }

    /// The part that a header describes, without its residues.
    fn claims(context: &Context, header: &Header) -> Result<PartialDecryption> {
        header.require(Kind::CkksPartial)?;
        context.require_row(header)?;
        let level = number(header, "level", |l| *l < context.tier_of(0).end)?;
        let quorum = set_in(header.entry("quorum")?)?;
        let party = number(header, "party", |p| members(quorum).any(|member| member == *p))?;
        let of = unhex(header.entry("ciphertext")?);
        let of = of.ok_or_else(|| bad("a digest of 64 hexadecimal digits", "something else"))?;
        let words = words_of_shares(context, "load", level)?;
        let bytes: usize = words.iter().map(|i| context.limb_bytes(*i)).sum();
        header.expect(&[("residues", Dtype::U8, &[bytes as u64])])?;
        let (params, key, split) = (context.params().name, header.key()?, split_in(header)?);
        let residues = vec![];
        Ok(PartialDecryption { params, key, split, party, quorum, level, of, residues })
    }
}

/// The last r_A, not by memory of the pool, which goes back to it unwiped.
fn last_of(context: &Context, packed: &[u8]) -> Result<Zeroizing<Vec<f64>>> {
    let (words, n) = (all_words_of_shares(context), context.params().degree());
    let (mut last, mut rest) = (Zeroizing::new(vec![0.0; words.len() * n]), packed);
    for (limb, word) in last.chunks_mut(n).zip(&words) {
        let (own, behind) = rest.split_at(context.limb_bytes(*word));
        context.unpack(*word, own, limb)?;
        rest = behind;
    }
    Ok(last)
}

fn split_in(header: &Header) -> Result<Split> {
    let id = unhex(header.entry("split")?).map(Split);
    id.ok_or_else(|| bad("the id of a splitting, 32 hexadecimal digits", "something else"))
}

/// The parties of a quorum, as they stand in a file.
fn listed(set: Set) -> String {
    members(set).map(|party| party.to_string()).collect::<Vec<_>>().join(" ")
}

/// The inverse of [`listed`], of quorums that there can be.
fn set_in(text: &str) -> Result<Set> {
    let found = read_set(text);
    found.ok_or_else(|| bad("a quorum of 2 to 32 parties", "something else"))
}

fn read_set(text: &str) -> Option<Set> {
    let party = |word: &str| word.parse().ok().filter(|p| (1..=MOST_PARTIES).contains(p));
    let words = text.split(' ').take(MOST_PARTIES + 1);
    let set = words.map(party).try_fold(0, |set, party| party.map(|party| set | bit(party)))?;
    (set.count_ones() >= 2 && listed(set) == text).then_some(set)
}
