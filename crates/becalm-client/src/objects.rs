//! The objects that JavaScript holds by their numbers: bytes, which are wiped when they go, and keys.

use crate::owner::Owner;
use becalm::cipher::SecretKey;
use becalm::{Error, Result};
use serde_json::json;
use std::cell::RefCell;
use std::rc::Rc;
use zeroize::Zeroizing;

/// An object behind a number.
pub(crate) enum Object {
    /// Bytes, in memory that JavaScript may read and write.
    Bytes(Zeroizing<Vec<u8>>),
    /// A secret key of TFHE.
    Tfhe(Rc<SecretKey>),
    /// A secret key of CKKS.
    Ckks(Rc<Owner>),
}

impl Object {
    pub(crate) fn text(text: &str) -> Object {
        Object::from(text.as_bytes().to_vec())
    }

    /// Numbers, each in 8 bytes, little endian.
    pub(crate) fn floats(all: &[f64]) -> Object {
        // Allocated at its final length: a growing vector leaves copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(8 * all.len()));
        all.iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        Object::Bytes(bytes)
    }

    /// Integers, each in 8 bytes, little endian.
    pub(crate) fn integers(all: &[u64]) -> Object {
        let mut bytes = Zeroizing::new(Vec::with_capacity(8 * all.len()));
        all.iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
        Object::Bytes(bytes)
    }

    /// Files one after another, each after its length in 8 bytes, as a service sends the results of a chunk.
    pub(crate) fn files(all: &[Vec<u8>]) -> Object {
        let mut bytes = Vec::with_capacity(all.iter().map(|file| 8 + file.len()).sum());
        for file in all {
            bytes.extend((file.len() as u64).to_le_bytes());
            bytes.extend(file);
        }
        Object::from(bytes)
    }
}

impl From<Vec<u8>> for Object {
    fn from(bytes: Vec<u8>) -> Object {
        Object::Bytes(Zeroizing::new(bytes))
    }
}

thread_local! {
    static OBJECTS: RefCell<Vec<Option<Object>>> = const { RefCell::new(vec![]) };
}

/// Keeps an object. Its number is at least 1.
fn keep(object: Object) -> u32 {
    OBJECTS.with_borrow_mut(|all| {
        let free = all.iter().position(Option::is_none).unwrap_or(all.len());
        if free == all.len() {
            all.push(None);
        }
        all[free] = Some(object);
        free as u32 + 1
    })
}

fn unknown(wanted: &str) -> Error {
    Error::bad_input(
        "client",
        wanted,
        "another number",
        "use each object once, and no released one",
    )
}

/// Takes bytes out of the table.
pub(crate) fn bytes(number: u32) -> Result<Zeroizing<Vec<u8>>> {
    OBJECTS.with_borrow_mut(|all| {
        let place = all.get_mut((number as usize).wrapping_sub(1));
        match place.and_then(Option::take) {
            Some(Object::Bytes(bytes)) => Ok(bytes),
            Some(other) => {
                all[number as usize - 1] = Some(other);
                Err(unknown("the number of bytes"))
            }
            None => Err(unknown("the number of bytes")),
        }
    })
}

/// A secret key of TFHE, which stays in the table.
pub(crate) fn tfhe(number: u32) -> Result<Rc<SecretKey>> {
    OBJECTS.with_borrow(|all| match all.get((number as usize).wrapping_sub(1)) {
        Some(Some(Object::Tfhe(key))) => Ok(key.clone()),
        _ => Err(unknown("the number of a secret key of TFHE")),
    })
}

/// A secret key of CKKS, which stays in the table.
pub(crate) fn ckks(number: u32) -> Result<Rc<Owner>> {
    OBJECTS.with_borrow(|all| match all.get((number as usize).wrapping_sub(1)) {
        Some(Some(Object::Ckks(key))) => Ok(key.clone()),
        _ => Err(unknown("the number of a secret key of CKKS")),
    })
}

/// The number of a result, or the negative number of an error as JSON.
pub(crate) fn answer(work: impl FnOnce() -> Result<Object>) -> i32 {
    match work() {
        Ok(object) => keep(object) as i32,
        Err(error) => {
            let d = error.detail();
            let fault = json!({
                "kind": error.kind(), "op": d.op, "wanted": d.wanted, "got": d.got, "remedy": d.remedy,
            });
            -(keep(Object::text(&fault.to_string())) as i32)
        }
    }
}

/// New bytes of this length, to be filled by the caller.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn buffer(length: u32) -> i32 {
    answer(|| {
        let mut bytes = Vec::new();
        let length = length as usize;
        bytes.try_reserve_exact(length).map_err(|e| {
            let (wanted, remedy) = (format!("{length} bytes"), "close other pages");
            Error::memory("client", wanted, e.to_string(), remedy)
        })?;
        bytes.resize(length, 0);
        Ok(Object::from(bytes))
    })
}

fn place(number: u32) -> (usize, usize) {
    OBJECTS.with_borrow(|all| match all.get((number as usize).wrapping_sub(1)) {
        Some(Some(Object::Bytes(bytes))) => (bytes.as_ptr() as usize, bytes.len()),
        _ => (0, 0),
    })
}

/// Where bytes begin in memory; 0 for other objects.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn address(number: u32) -> usize {
    place(number).0
}

/// How many bytes there are; 0 for other objects.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn length(number: u32) -> usize {
    place(number).1
}

/// Wipes and frees an object. A number without one is left alone.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn release(number: u32) {
    let gone = OBJECTS.with_borrow_mut(|all| {
        all.get_mut((number as usize).wrapping_sub(1)).and_then(Option::take)
    });
    drop(gone);
}

/// The number of a new object, for tests.
#[cfg(test)]
pub(crate) fn give(object: Object) -> u32 {
    keep(object)
}

/// The error behind a negative number.
#[cfg(test)]
pub(crate) fn said(number: i32) -> serde_json::Value {
    assert!(number < 0, "no error");
    serde_json::from_slice(&bytes(number.unsigned_abs()).unwrap()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a result.
    fn text(number: u32) -> String {
        String::from_utf8(bytes(number).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn bytes_are_taken_once_and_numbers_are_used_again() {
        let (a, b) = (keep(Object::text("a")), keep(Object::text("b")));
        assert_eq!((text(a).as_str(), length(b)), ("a", 1));
        assert_eq!(bytes(a).err().map(|e| e.kind()), Some("bad_input"));
        assert_eq!(keep(Object::text("c")), a);
        release(b);
        assert_eq!((address(b), length(b), length(0), length(u32::MAX)), (0, 0, 0, 0));
    }

    #[test]
    fn an_error_is_json_under_a_negative_number() {
        let fault = said(answer(|| tfhe(7).map(Object::Tfhe)));
        assert_eq!(fault["kind"], "bad_input");
        assert!(fault["remedy"].as_str().unwrap().contains("released"), "{fault}");
    }
}
