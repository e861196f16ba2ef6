//! The claims of a file of CKKS, without its contents and without a context. Nothing here is secret, and nothing but its form
//! was checked: whether level, scale and words are those of the set is for the [`Context`](super::Context) that loads it.

use super::key_header::{Claims, claims};
use super::power_of_rotation;
use super::threshold::quorum;
use crate::cipher::file::{Header, bad, read_header, set_name};
use crate::cipher::{CkksKeys, Integers, KeyId, Purpose};
use crate::math::random::PublicSeed;
use crate::params::CkksParams;
use crate::{MissingKey, MissingPurpose, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::str::FromStr;

/// The claims of a file of CKKS.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Description {
    /// The kind of its contents: `"becalm.rlwe"`, `"becalm.ckks_secret_key"`, `"becalm.ckks_public_key"`, `"becalm.ckks_program"`, `"becalm.ckks_key_share"`, `"becalm.ckks_partial_decryption"` or `"becalm.ckks_evaluation_keys"`.
    pub kind: &'static str,
    /// Name of its parameter set.
    pub params: String,
    /// True if the table has this set under this name.
    pub in_table: bool,
    /// Identity of the secret key; programs have none.
    pub key: Option<KeyId>,
    /// Multiplications that are left, for a ciphertext.
    pub level: Option<usize>,
    /// The scale: the factor of its values.
    pub scale: Option<f64>,
    /// Number of its values.
    pub slots: Option<usize>,
    /// Standard deviation of their error.
    pub error: Option<f64>,
    /// The integers of a ciphertext of these, whose slots hold no values.
    pub integers: Option<Integers>,
    /// Whether a ciphertext's values are `"real"` or `"complex"`, if its file says so.
    pub values: Option<String>,
    /// Number of the party that a share of a key or a part of a decryption is of.
    pub party: Option<usize>,
    /// How many parties have shares of the key.
    pub parties: Option<usize>,
    /// How many of them decrypt together.
    pub threshold: Option<usize>,
    /// Numbers of the parties whose parts make a decryption.
    pub quorum: Option<Vec<usize>>,
    /// The purpose of each evaluation key and its highest level; a key appears once for each tier of the chain that it serves.
    pub switches: Vec<(String, usize)>,
    /// The note of the maker of the keys ([`Context::write_noted_keys`](super::Context::write_noted_keys)).
    pub note: String,
    /// Length of the file.
    pub bytes: u64,
    /// Length that it says it has, where its set is known: another one is that of a file that was cut, or continued.
    pub whole_bytes: Option<u64>,
}

/// Reads the header of a file of any size and returns its claims; none for a file that is not of CKKS.
///
/// # Errors
/// `Io`; `BadFile` for a header of CKKS that becalm would not read.
pub fn inspect(path: impl AsRef<Path>) -> Result<Option<Description>> {
    let path = path.as_ref();
    if let Some(Claims { header, note, bytes, whole }) = claims(path)? {
        let set = CkksParams::named(&header.set).ok();
        let degree = set.map_or(0, CkksParams::degree);
        let switch = |(purpose, _, level, _): &(Purpose, u32, u32, PublicSeed)| {
            (named(*purpose, degree), *level as usize)
        };
        return Ok(Some(Description {
            kind: "becalm.ckks_evaluation_keys",
            params: header.set.chars().take(32).collect(),
            in_table: set.is_some_and(|set| header.is_of(set)),
            key: Some(header.key),
            level: None,
            scale: None,
            slots: None,
            error: None,
            integers: None,
            values: None,
            party: None,
            parties: None,
            threshold: None,
            quorum: None,
            switches: header.switches.iter().map(switch).collect(),
            note,
            bytes,
            whole_bytes: whole,
        }));
    }
    let Ok((header, bytes)) = read_header(path) else { return Ok(None) };
    let kind = header.kind()?;
    if !kind.of_ckks() {
        return Ok(None);
    }
    let row = header.row()?;
    let params = set_name(&row);
    Ok(Some(Description {
        kind: kind.name(),
        in_table: CkksParams::named(&params).is_ok_and(|set| set.is_row(&row)),
        params,
        key: header.metadata.contains_key("key").then(|| header.key()).transpose()?,
        level: claim(&header, "level")?,
        scale: claim(&header, "scale")?,
        slots: claim(&header, "slots")?,
        error: claim(&header, "error")?,
        integers: integers(&header)?,
        values: header.metadata.get("values").map(|text| text.chars().take(32).collect()),
        party: claim(&header, "party")?,
        parties: claim(&header, "parties")?,
        threshold: claim(&header, "threshold")?,
        quorum: header.metadata.get("quorum").map(|text| quorum(text)).transpose()?,
        switches: vec![],
        note: String::new(),
        bytes,
        // That is part of its form.
        whole_bytes: Some(bytes),
    }))
}

/// Packed integers: how many and of how many bits.
fn integers(header: &Header) -> Result<Option<Integers>> {
    let (bits, count) = (claim(header, "integer_bits")?, claim(header, "count")?);
    Ok(bits.zip(count).map(|(bits, count)| Integers { bits, count }))
}

/// An entry that keys do not have.
fn claim<T: FromStr>(header: &Header, name: &str) -> Result<Option<T>> {
    let Some(text) = header.metadata.get(name) else { return Ok(None) };
    let read = text.parse().map_err(|_| bad(format!("a number as {name}"), format!("{text:.32}")));
    read.map(Some)
}

/// The purposes of keys, each once for all tiers: a few of them, and how many there are.
pub(crate) fn held(keys: &CkksKeys, degree: usize) -> String {
    const FEW: usize = 8;
    let purposes: BTreeSet<Purpose> = keys.switches.keys().map(|(purpose, _)| *purpose).collect();
    let few: Vec<String> = purposes.iter().take(FEW).map(|p| named(*p, degree)).collect();
    let more = if purposes.len() > FEW {
        format!(" and {} more", purposes.len() - FEW)
    } else {
        String::new()
    };
    format!("keys for {}{more}", few.join(", "))
}

/// The number of slots that X → X^`g` rotates by to the left.
fn rotation(g: u32, degree: usize) -> Option<usize> {
    let next = |power: &usize| Some(power * power_of_rotation(1, degree) % (2 * degree));
    let powers = std::iter::successors(Some(1), next).take(degree / 2);
    powers.enumerate().find(|(_, power)| *power == g as usize).map(|(by, _)| by)
}

/// A key that is missing up to a level.
pub(crate) fn missing(purpose: Purpose, level: usize, degree: usize) -> MissingKey {
    let purpose = match purpose {
        Purpose::Multiply => MissingPurpose::Multiply,
        Purpose::Galois(g) => {
            rotation(g, degree).map_or(MissingPurpose::Conjugate, MissingPurpose::Rotate)
        }
        Purpose::ToEphemeral | Purpose::FromEphemeral => MissingPurpose::Bootstrap,
    };
    MissingKey { purpose, level }
}

/// The purpose of a key, in words.
pub(crate) fn named(purpose: Purpose, degree: usize) -> String {
    match purpose {
        Purpose::Multiply => "products".into(),
        Purpose::Galois(g) if g as usize + 1 == 2 * degree => "conjugation".into(),
        Purpose::Galois(g) => match rotation(g, degree) {
            Some(by) => format!("rotation by {by}"),
            None => format!("X -> X^{g}"),
        },
        Purpose::ToEphemeral => "to the ephemeral secret".into(),
        Purpose::FromEphemeral => "from the ephemeral secret".into(),
    }
}
