//! Arguments of functions: texts and numbers in bytes.

use crate::objects;
use becalm::apps::integer::{Clear, Type};
use becalm::params::TfheParams;
use becalm::{Error, Result};
use std::sync::Arc;
use zeroize::Zeroizing;

fn bad(wanted: &str) -> Error {
    Error::bad_input(
        "client",
        wanted,
        "other bytes",
        "call it by its name in the package becalm-client",
    )
}

/// Text in UTF-8.
pub(crate) fn text(number: u32) -> Result<String> {
    String::from_utf8(objects::bytes(number)?.to_vec()).map_err(|_| bad("a text"))
}

/// Integers, each in 8 bytes.
pub(crate) fn integers(number: u32) -> Result<Zeroizing<Vec<u64>>> {
    let bytes = objects::bytes(number)?;
    let (words, rest) = bytes.as_chunks::<8>();
    match rest {
        [] => Ok(Zeroizing::new(words.iter().map(|word| u64::from_le_bytes(*word)).collect())),
        _ => Err(bad("integers of 8 bytes")),
    }
}

/// Real numbers, each in 8 bytes.
pub(crate) fn floats(number: u32) -> Result<Zeroizing<Vec<f64>>> {
    let all = integers(number)?;
    Ok(Zeroizing::new(all.iter().map(|word| f64::from_bits(*word)).collect()))
}

/// Files, each after its length in 8 bytes.
pub(crate) fn files(number: u32) -> Result<Vec<Zeroizing<Vec<u8>>>> {
    let bytes = objects::bytes(number)?;
    let (mut rest, mut found) = (&bytes[..], vec![]);
    while let Some((length, behind)) = rest.split_first_chunk::<8>() {
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (file, behind) = behind.split_at_checked(length).ok_or_else(|| bad("whole files"))?;
        found.push(Zeroizing::new(file.to_vec()));
        rest = behind;
    }
    if rest.is_empty() { Ok(found) } else { Err(bad("whole files")) }
}

/// The parameter set of a name. No set below 128 bits comes through here.
pub(crate) fn set(number: u32) -> Result<Arc<TfheParams>> {
    let params = TfheParams::named(&text(number)?)?;
    params.require_secure(false)?;
    Ok(Arc::new(params.clone()))
}

/// A type of integers of at most 64 bits, as `uint8`.
pub(crate) fn small_type(number: u32) -> Result<Type> {
    let ty: Type = text(number)?.parse()?;
    if ty.bits() <= 64 {
        return Ok(ty);
    }
    let remedy = "choose a narrower type";
    Err(Error::bad_input("client", "a type of at most 64 bits", ty.to_string(), remedy))
}

/// A value of a type from the low 64 bits of its two's complement.
pub(crate) fn clear(ty: Type, word: u64) -> Clear {
    if ty.signed() { Clear::from(word as i64) } else { Clear::from(word) }
}
