//! The claims of a file, without its contents.

use super::header::{Dtype, Header, LENGTH, set_name};
use super::read::Reader;
use super::{Kind, VERSION, bad, disk, foreign, slot_keys};
use crate::cipher::{Encoding, KeyId, KeyRole, SlotKeyKind};
use crate::params::TfheParams;
use crate::{Error, Result};
use std::path::Path;

/// The claims of a file about itself. None of them is secret, and only the form of the file was checked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Description {
    /// The kind of its contents.
    pub kind: Kind,
    /// Version of the format.
    pub version: u32,
    /// Its parameter set, with the claims that the file makes.
    pub params: TfheParams,
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
    /// Variance of the phase error in torus units, for ciphertexts.
    pub noise: Option<f64>,
    /// The work of a key between slots.
    pub slots: Option<SlotKeyKind>,
    /// The tensors.
    pub tensors: Vec<TensorShape>,
    /// Length of the file.
    pub bytes: u64,
}

/// Name and size of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorShape {
    /// Its name.
    pub name: String,
    /// `"U64"` or `"U8"`.
    pub dtype: &'static str,
    /// Its dimensions.
    pub shape: Vec<u64>,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Reads the header of a file, of any size, and returns its claims. The checksum is not computed.
///
/// # Errors
/// [`Error::Io`]; [`Error::Unsupported`] for files of CKKS, which [`ckks::inspect`](crate::ckks::inspect) describes; [`Error::BadFile`], [`Error::BadInput`] or
/// [`Error::WrongParams`] if becalm would not read it.
pub fn inspect(path: impl AsRef<Path>) -> Result<Description> {
    let (header, bytes) = disk::read_header(path.as_ref())?;
    let kind = header.kind()?;
    if kind.of_ckks() {
        let remedy = "use `ckks::inspect`";
        return Err(Error::unsupported("inspect", "a file of TFHE", kind.name(), remedy));
    }
    let params = header.claimed_params()?;
    let known = TfheParams::all().iter().find(|t| t.name == params.name);
    let has = |name: &str| header.metadata.contains_key(name);
    let encoding = has("encoding").then(|| header.encoding()).transpose()?;
    Ok(Description {
        kind,
        version: VERSION,
        in_table: known.is_some_and(|t| t.id() == params.id()),
        params,
        key: has("key").then(|| header.key()).transpose()?,
        role: has("role").then(|| header.role()).transpose()?,
        encoding,
        range: encoding.map(|e| header.message_range(e)).transpose()?,
        noise: has("noise").then(|| header.noise()).transpose()?,
        slots: has("slots").then(|| slot_keys::kind_of(header.entry("slots")?)).transpose()?,
        tensors: shapes(&header),
        bytes,
    })
}

/// The kind of a file in memory, of either scheme, and the name of its parameter set. Only the form of the header is checked
/// here; the reader of that kind checks the rest.
///
/// # Errors
/// [`Error::BadFile`] for bytes that becalm did not write as one container.
pub fn kind_of(bytes: &[u8]) -> Result<(Kind, String)> {
    let file = Reader::of(bytes)?;
    Ok((file.header().kind()?, set_name(&file.header().row()?)))
}

/// The kind of a file of `total` bytes, from its first ones: its whole header must be among them.
///
/// # Errors
/// [`Error::BadFile`] for bytes that becalm did not write.
pub(crate) fn kind_of_head(head: &[u8], total: u64) -> Result<Kind> {
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
        },
        shape: t.shape.clone(),
        bytes: t.data_offsets.1 - t.data_offsets.0,
    });
    tensors.collect()
}
