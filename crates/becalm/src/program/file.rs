//! Files of programs: the parameter set in the header, everything else in [postcard](https://postcard.jamesmunns.com) as
//! one tensor of bytes. A program from a file is recorded again before anybody may run it.

use crate::cipher::file::{
    Data, Draft, Dtype, Header, Kind, Limits, Reader, Trust, bad, read_file, require_limit,
};
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use zeroize::Zeroizing;

/// The one tensor.
const TENSOR: &str = "program";

fn body(parts: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(parts).map_err(|e| bad("a program that can be written", e.to_string()))
}

fn filled<'a>(draft: Draft<'a>, body: &'a [u8]) -> Draft<'a> {
    draft.tensor(TENSOR, &[body.len() as u64], Data::Bytes(body))
}

/// The file of a program in memory.
pub(super) fn to_bytes(draft: Draft<'_>, parts: &impl Serialize) -> Result<Vec<u8>> {
    filled(draft, &body(parts)?).to_bytes()
}

/// Writes the file of a program.
pub(super) fn save(draft: Draft<'_>, parts: &impl Serialize, path: &Path) -> Result<()> {
    filled(draft, &body(parts)?).save(path, false)
}

/// Checks a header for [`read`]: the kind, one tensor, and the parameter set that `set` finds.
fn claims<S>(header: &Header, kind: Kind, set: impl Fn(&Header) -> Result<S>) -> Result<S> {
    header.require(kind)?;
    header.expect(&[(TENSOR, Dtype::U8, &[header.rows(TENSOR)])])?;
    set(header)
}

/// The parameter set and the parts of a program, at most `trust.limit`/64 bytes; the checksum is verified, the parts are not.
pub(super) fn read<S, T: DeserializeOwned>(
    bytes: &[u8],
    trust: Trust,
    kind: Kind,
    set: impl Fn(&Header) -> Result<S>,
) -> Result<(S, T)> {
    require_limit(bytes.len() as u64, Limits::from(trust))?;
    let file = Reader::open(bytes, kind)?;
    let set = claims(file.header(), kind, set)?;
    file.verify()?;
    let (parts, rest): (T, _) = postcard::take_from_bytes(file.bytes(TENSOR))
        .map_err(|e| bad("a program in postcard", e.to_string()))?;
    match rest.is_empty() {
        true => Ok((set, parts)),
        false => Err(bad("nothing after the program", format!("{} bytes", rest.len()))),
    }
}

/// The bytes of a file whose header [`read`] accepts.
pub(super) fn load<S>(
    path: &Path,
    trust: Trust,
    kind: Kind,
    set: impl Fn(&Header) -> Result<S>,
) -> Result<Zeroizing<Vec<u8>>> {
    let check = |header: &Header| claims(header, kind, &set).map(drop);
    read_file(path, Limits::from(trust), check)
}

/// A refusal of the recorder is a fault of the file.
pub(super) fn refused(e: Error) -> Error {
    match e {
        Error::BadInput(why) => Error::BadFile(why),
        other => other,
    }
}
