//! The claims of a file of any kind, without its contents. None of them is secret, and only the form of the file was checked.

use super::header::{Dtype, Header, LENGTH, set_name};
use super::key_header::{holds_keys, is_keys, read_key_header};
use super::read::Reader;
use super::{Kind, Trust, bad, bad_but, disk, foreign};
use crate::cipher::{Encoding, Integers, KeyId, KeyRole, Purpose, SlotKeyKind};
use crate::params::{CkksParams, TfheParams};
use crate::{Error, Result};
use std::path::Path;
use std::str::FromStr;

/// The claims of a file about itself: those that its kind has.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Description {
    /// The kind of its contents.
    pub kind: Kind,
    /// Name of its parameter set.
    pub params: String,
    /// True if the table has this set under this name; the claims that count are then the table's.
    pub in_table: bool,
    /// Identity of the secret key; programs have none.
    pub key: Option<KeyId>,
    /// Which key of the set, for LWE ciphertexts.
    pub role: Option<KeyRole>,
    /// Where messages lie, for LWE ciphertexts; where the values looked up lie, for encrypted tables.
    pub encoding: Option<Encoding>,
    /// Least and greatest message, or value looked up.
    pub range: Option<(i64, i64)>,
    /// Variance of the phase error in torus units, for ciphertexts of TFHE.
    pub noise: Option<f64>,
    /// The work of a key between slots of a common mask.
    pub does: Option<SlotKeyKind>,
    /// Multiplications that are left, for a ciphertext of CKKS.
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
    /// The round of a party's message.
    pub round: Option<usize>,
    /// The note of the maker of evaluation keys of CKKS ([`Context::write_noted_keys`](crate::ckks::Context::write_noted_keys)).
    pub note: String,
    /// The tensors of a file of TFHE.
    pub tensors: Vec<TensorShape>,
    /// Length of the file. [`ckks::whole_bytes`](crate::ckks::whole_bytes) tells the length that it should have.
    pub bytes: u64,
    /// Purpose and highest level of each evaluation key of CKKS; a key appears once for each tier of the chain that it serves.
    pub(crate) keys: Vec<(Purpose, usize)>,
    /// The place where these keys begin.
    pub(crate) header_bytes: u64,
}

impl Description {
    fn new(kind: Kind, params: String, in_table: bool, bytes: u64) -> Self {
        Description {
            kind,
            params,
            in_table,
            key: None,
            role: None,
            encoding: None,
            range: None,
            noise: None,
            does: None,
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
            round: None,
            note: String::new(),
            tensors: vec![],
            bytes,
            keys: vec![],
            header_bytes: 0,
        }
    }

    /// Refuses anything but evaluation keys of CKKS.
    ///
    /// # Errors
    /// `BadFile` that names the kind.
    pub fn of_ckks_keys(self) -> Result<Self> {
        let wanted = Kind::CkksEvaluationKeys.words();
        match self.kind {
            Kind::CkksEvaluationKeys => Ok(self),
            other => Err(bad_but(wanted, other.words(), "name the keys that the server has")),
        }
    }

    /// The purpose of each evaluation key of CKKS in words, and its highest level.
    pub fn switches(&self) -> Vec<(String, usize)> {
        let degree = CkksParams::named(&self.params).map_or(0, CkksParams::degree);
        self.keys.iter().map(|(purpose, level)| (purpose.words(degree), *level)).collect()
    }
}

/// Name and size of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorShape {
    /// Its name.
    pub name: String,
    /// `"U64"`, `"F64"` or `"U8"`.
    pub dtype: &'static str,
    /// Its dimensions.
    pub shape: Vec<u64>,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Reads the header of a file of any kind and size, and returns its claims. The checksum is not computed.
///
/// # Errors
/// `Io`; `BadFile`, `BadInput` or `WrongParams` if becalm would not read it.
pub fn inspect(path: impl AsRef<Path>) -> Result<Description> {
    let path = path.as_ref();
    let (file, bytes) = disk::open(path)?;
    drop(file);
    if holds_keys(path)? {
        return of_keys(path, bytes);
    }
    let (header, bytes) = disk::read_header(path)?;
    let kind = header.kind()?;
    let key = header.has("key").then(|| header.key()).transpose()?;
    let found = match kind.of_ckks() {
        true => of_ckks(&header, kind, bytes)?,
        false => of_tfhe(&header, kind, bytes)?,
    };
    Ok(Description { key, ..found })
}

/// Reads a whole file in a safetensors container, up to the limit of `trust`, and compares it with its checksum.
///
/// # Errors
/// `Io`; `BadFile` for contents that were altered, or a file above the limit; `Memory`.
pub fn verify(path: impl AsRef<Path>, trust: Trust) -> Result<()> {
    let bytes = disk::read_file(path.as_ref(), trust.limit, |_| Ok(()))?;
    Reader::of(&bytes)?.verify()
}

fn of_tfhe(header: &Header, kind: Kind, bytes: u64) -> Result<Description> {
    let params = header.claimed_params()?;
    let known = TfheParams::all().iter().find(|t| t.name == params.name);
    let in_table = known.is_some_and(|t| t.id() == params.id());
    let encoding = header.has("encoding").then(|| header.encoding()).transpose()?;
    Ok(Description {
        role: header.has("role").then(|| header.role()).transpose()?,
        encoding,
        range: encoding.map(|e| header.message_range(e)).transpose()?,
        noise: header.has("noise").then(|| header.noise()).transpose()?,
        does: header.has("slots").then(|| header.slot_kind()).transpose()?,
        tensors: shapes(header),
        ..Description::new(kind, params.name.to_string(), in_table, bytes)
    })
}

/// Whether level, scale and words are those of the set is for the [`Context`](crate::ckks::Context) that loads the file.
fn of_ckks(header: &Header, kind: Kind, bytes: u64) -> Result<Description> {
    let row = header.row()?;
    let params = set_name(&row);
    let in_table = CkksParams::named(&params).is_ok_and(|set| set.unlike(&row).is_empty());
    let (bits, count) = (claim(header, "integer_bits")?, claim(header, "count")?);
    Ok(Description {
        level: claim(header, "level")?,
        scale: claim(header, "scale")?,
        slots: claim(header, "slots")?,
        error: claim(header, "error")?,
        integers: bits.zip(count).map(|(bits, count)| Integers { bits, count }),
        values: header.metadata.get("values").map(|text| text.chars().take(32).collect()),
        party: claim(header, "party")?,
        parties: claim(header, "parties")?,
        threshold: claim(header, "threshold")?,
        round: claim(header, "round")?,
        quorum: header.metadata.get("quorum").map(|text| quorum(text)).transpose()?,
        ..Description::new(kind, params, in_table, bytes)
    })
}

fn of_keys(path: &Path, bytes: u64) -> Result<Description> {
    let (header, note, header_bytes) = read_key_header(path)?;
    let in_table = CkksParams::named(&header.set).is_ok_and(|set| header.is_of(set));
    let params = header.set.chars().take(32).collect();
    Ok(Description {
        key: Some(header.key),
        note,
        keys: header.switches.iter().map(|(p, _, level, _)| (*p, *level as usize)).collect(),
        header_bytes,
        ..Description::new(Kind::CkksEvaluationKeys, params, in_table, bytes)
    })
}

/// An entry that not every kind has.
fn claim<T: FromStr>(header: &Header, name: &str) -> Result<Option<T>> {
    let Some(text) = header.metadata.get(name) else { return Ok(None) };
    let read = text.parse().map_err(|_| bad(format!("a number as {name}"), format!("{text:.32}")));
    read.map(Some)
}

/// The parties of a quorum.
fn quorum(text: &str) -> Result<Vec<usize>> {
    let parties = text.split(' ').map(str::parse).collect::<std::result::Result<Vec<_>, _>>();
    parties.map_err(|_| bad("the numbers of a quorum", format!("{text:.32}")))
}

impl Kind {
    /// The kind of a file of any size; only the form of its header is checked.
    ///
    /// # Errors
    /// `Io`; `BadFile` for a file that becalm did not write.
    pub fn of(path: impl AsRef<Path>) -> Result<Kind> {
        let path = path.as_ref();
        disk::open(path)?;
        match holds_keys(path)? {
            true => Ok(Kind::CkksEvaluationKeys),
            false => disk::read_header(path)?.0.kind(),
        }
    }

    /// Refuses a place that holds a key of another kind than these: nobody who overwrites a file of one kind means a key of another.
    /// Secret keys of both schemes are one kind here, and so are evaluation keys.
    ///
    /// # Errors
    /// [`Error::Io`] that names the path.
    pub fn require_place(path: &Path, kinds: &[Kind]) -> Result<()> {
        // A pipe would wait for its writer.
        let found = path.is_file().then(|| Kind::of(path).ok()).flatten();
        match found
            .is_some_and(|found| found.is_key() && !kinds.iter().any(|kind| kind.is_like(found)))
        {
            true => {
                let got = format!("{}, which holds a key", path.display());
                Err(Error::io("save", "a name for the file", got, "choose another name"))
            }
            false => Ok(()),
        }
    }
}

/// The kind of a file in memory, of either scheme, and the name of its parameter set. Only the form of the header is checked
/// here; the reader of that kind checks the rest.
///
/// # Errors
/// `BadFile` for bytes that becalm did not write as one container.
pub fn kind_of(bytes: &[u8]) -> Result<(Kind, String)> {
    let file = Reader::of(bytes)?;
    Ok((file.header().kind()?, set_name(&file.header().row()?)))
}

/// The kind of a file of `total` bytes, from its first ones: its whole header must be among them.
///
/// # Errors
/// `BadFile` for bytes that becalm did not write.
pub(crate) fn kind_of_head(head: &[u8], total: u64) -> Result<Kind> {
    if is_keys(head) {
        return Ok(Kind::CkksEvaluationKeys);
    }
    let first = head.first_chunk().ok_or_else(|| foreign(format!("{total} bytes")))?;
    let end = LENGTH + Header::length(*first, total)?;
    let header = head.get(..end).ok_or_else(|| bad("a whole header", "a part of one"))?;
    Header::parse(header, total)?.kind()
}

fn shapes(header: &Header) -> Vec<TensorShape> {
    let tensors = header.tensors.iter().map(|(name, t)| TensorShape {
        name: name.clone(),
        dtype: match t.dtype {
            Dtype::U8 => "U8",
            Dtype::U64 => "U64",
            Dtype::F64 => "F64",
        },
        shape: t.shape.clone(),
        bytes: t.data_offsets.1 - t.data_offsets.0,
    });
    tensors.collect()
}
