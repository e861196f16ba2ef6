//! Files of the parties of a collective key, and of their messages, in the container of all files (docs/files.md).

use super::super::Context;
use super::super::file::number;
use super::super::threshold::parts;
use super::{Agreement, MOST_KEYS, Party, PartyMessage, bytes_of_words, keys_text};
use crate::Result;
use crate::cipher::file::{
    Data, Draft, Dtype, Header, Kind, Reader, Trust, bad, hex, read_file, require_limit, unhex,
};
use crate::cipher::{MOST_PARTIES, Purpose};
use crate::math::buffer::or_refused;
use crate::math::parallel::*;
use crate::math::random::{PublicSeed, SecretSeed};
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

impl Party {
    /// The file of a party, in memory, wiped when dropped.
    ///
    /// # Errors
    /// `WrongParams` for a party of another set.
    pub fn to_bytes(&self, context: &Context) -> Result<Zeroizing<Vec<u8>>> {
        Ok(Zeroizing::new(self.draft(context)?.to_bytes()?))
    }

    /// Writes a party to a file that only its owner can read.
    ///
    /// # Errors
    /// `WrongParams` for a party of another set, `Io` when writing fails, and for another secret at `path`.
    pub fn save(&self, context: &Context, path: impl AsRef<Path>) -> Result<()> {
        self.draft(context)?.save(path.as_ref(), true)
    }

    /// A party from a file in memory.
    ///
    /// # Errors
    /// `BadFile` or `WrongParams` for anything but a party of this set that becalm wrote.
    pub fn from_bytes(context: &Context, bytes: &[u8], trust: Trust) -> Result<Party> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::CkksParty)?;
        let (agreement, party) = Party::claims(context, file.header())?;
        file.verify()?;
        let mut seed = Zeroizing::new([0; 32]);
        seed.copy_from_slice(file.bytes("secret"));
        Ok(Party { agreement, party, seed: SecretSeed::from_bytes(&mut seed) })
    }

    /// Reads a party from a file.
    ///
    /// # Errors
    /// As [`Party::from_bytes`], and `Io`.
    pub fn load(context: &Context, path: impl AsRef<Path>, trust: Trust) -> Result<Party> {
        let check = |header: &Header| Party::claims(context, header).map(drop);
        let bytes = Zeroizing::new(read_file(path.as_ref(), trust.limit, check)?);
        Party::from_bytes(context, &bytes, trust)
    }

    fn draft(&self, context: &Context) -> Result<Draft<'_>> {
        let draft = self.agreement.draft(context, Kind::CkksParty, self.party)?;
        Ok(draft.tensor("secret", &[32], Data::Bytes(self.seed.bytes())))
    }

    fn claims(context: &Context, header: &Header) -> Result<(Agreement, usize)> {
        header.require(Kind::CkksParty)?;
        header.expect(&[("secret", Dtype::U8, &[32])])?;
        Agreement::claims(context, header)
    }
}

impl PartyMessage {
    /// The file of a message, in memory.
    ///
    /// # Errors
    /// `WrongParams` for a message of another set.
    pub fn to_bytes(&self, context: &Context) -> Result<Vec<u8>> {
        self.draft(context)?.to_bytes()
    }

    /// Writes a message to a file.
    ///
    /// # Errors
    /// `WrongParams` for a message of another set, `Io` when writing fails.
    pub fn save(&self, context: &Context, path: impl AsRef<Path>) -> Result<()> {
        self.draft(context)?.save(path.as_ref(), false)
    }

    /// A message from a file in memory. A file cannot prove whose message it is: take it from the party.
    ///
    /// # Errors
    /// `BadFile` or `WrongParams` for anything but a message for a key of this set that becalm wrote, of at most `trust.limit` bytes.
    pub fn from_bytes(context: &Context, bytes: &[u8], trust: Trust) -> Result<PartyMessage> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::CkksMessage)?;
        let empty = PartyMessage::claims(context, file.header())?;
        file.verify()?;
        let residues = file.bytes("residues").to_vec();
        let rows = empty.agreement.rows(context, empty.round());
        or_refused("load", || {
            rows.par_iter().try_for_each(|row| {
                let bytes = bytes_of_words(context, &row.words);
                context.unpacked(&row.words, &residues[row.at..row.at + bytes]).map(drop)
            })
        })?;
        Ok(PartyMessage { residues: Arc::new(residues), ..empty })
    }

    /// Reads a message from a file.
    ///
    /// # Errors
    /// As [`PartyMessage::from_bytes`], and `Io`.
    pub fn load(context: &Context, path: impl AsRef<Path>, trust: Trust) -> Result<PartyMessage> {
        let check = |header: &Header| PartyMessage::claims(context, header).map(drop);
        let bytes = read_file(path.as_ref(), trust.limit, check)?;
        PartyMessage::from_bytes(context, &bytes, trust)
    }

    pub(super) fn draft(&self, context: &Context) -> Result<Draft<'_>> {
        let PartyMessage { agreement, party, answers, residues } = self;
        let draft = agreement.draft(context, Kind::CkksMessage, *party)?;
        let draft = draft.note("round", self.round().to_string());
        let draft = match answers {
            Some(answers) => draft.note("answers", hex(answers)),
            None => draft,
        };
        Ok(draft.tensor("residues", &[residues.len() as u64], Data::Bytes(residues)))
    }

    /// The message that a header describes, without its residues.
    fn claims(context: &Context, header: &Header) -> Result<PartyMessage> {
        header.require(Kind::CkksMessage)?;
        let (agreement, party) = Agreement::claims(context, header)?;
        let round = number(header, "round", |round: &usize| (1..=2).contains(round))?;
        let answers = match (round, header.has("answers")) {
            (1, false) => None,
            (2, true) => Some(unhex(header.entry("answers")?).ok_or_else(|| {
                bad("a digest of 64 hexadecimal digits in `answers`", "something else")
            })?),
            _ => return Err(bad("a digest of first messages in a second one alone", "another")),
        };
        let rows = agreement.rows(context, round);
        let bytes: usize = rows.iter().map(|row| bytes_of_words(context, &row.words)).sum();
        header.expect(&[("residues", Dtype::U8, &[bytes as u64])])?;
        Ok(PartyMessage { agreement, party, answers, residues: Arc::new(vec![]) })
    }
}

impl Agreement {
    /// A file with the facts that were agreed on, and the number of a party.
    fn draft(&self, context: &Context, kind: Kind, party: usize) -> Result<Draft<'static>> {
        context.check_set("save", self.params)?;
        Ok(Draft::of(kind, context.row()?)
            .note("keys", keys_text(&self.keys)?)
            .note("parties", self.parties.to_string())
            .note("party", party.to_string())
            .note("seed", hex(&self.seed.0))
            .note("threshold", self.threshold.to_string()))
    }

    /// The agreement that a header states, and the number of the party.
    fn claims(context: &Context, header: &Header) -> Result<(Agreement, usize)> {
        context.require_row(header)?;
        let parties = number(header, "parties", |n| *n <= MOST_PARTIES)?;
        let threshold = number(header, "threshold", |t| *t <= parties)?;
        if parts(parties, threshold).is_none() {
            return Err(bad("parties that a key can be split among", "others"));
        }
        let party = number(header, "party", |p| (1..=parties).contains(p))?;
        let seed = unhex(header.entry("seed")?).map(PublicSeed);
        let seed = seed.ok_or_else(|| bad("a seed of 64 hexadecimal digits", "something else"))?;
        let keys = agreed_keys(context, header.entry("keys")?)?;
        Ok((Agreement::of(context, parties, threshold, seed, keys)?, party))
    }
}

/// The keys of an agreement from their text: in order, each once, for levels of the user, that of products at the highest of these
/// among them.
fn agreed_keys(context: &Context, text: &str) -> Result<Vec<(Purpose, usize)>> {
    let (top, degree) = (context.params().levels, context.params().degree());
    let broken = || bad("the keys of an agreement", "something else");
    let keys: Vec<(Purpose, usize)> = serde_json::from_str(text).map_err(|_| broken())?;
    let fits = |(purpose, level): &(Purpose, usize)| match purpose {
        Purpose::Multiply => *level == top,
        Purpose::Galois(g) => {
            *level <= top && g % 2 == 1 && (3..2 * degree).contains(&(*g as usize))
        }
        Purpose::ToEphemeral | Purpose::FromEphemeral => false,
    };
    let ordered = keys.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let whole = keys.first().is_some_and(|(purpose, _)| *purpose == Purpose::Multiply);
    let all = keys.iter().all(fits) && keys.len() <= MOST_KEYS;
    if ordered && whole && all && keys_text(&keys)? == text {
        return Ok(keys);
    }
    Err(broken())
}
