//! Files of programs: the parameter set in the header, the program in [postcard](https://postcard.jamesmunns.com). A program
//! from a file is recorded again before anybody may run it.
//!
//! There are two forms. In one, the tensor `program` holds everything. In the other, the long lists of numbers stand apart:
//! the tensor `graph` holds the rest, and `data` holds the numbers, list after list. Postcard takes more memory when read
//! than it has bytes, so it may take a 64th of the limit. Numbers take their own size.

use crate::cipher::file::{
    Data, Draft, Dtype, Header, Kind, Limits, Reader, Trust, bad, read_file, require_limit,
};
use crate::math::memory::require_memory;
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use zeroize::Zeroizing;

/// The tensor that holds everything.
const WHOLE: &str = "program";
/// The tensor of what is not in `data`.
const GRAPH: &str = "graph";
/// The tensor of the long lists of numbers.
const DATA: &str = "data";

/// The contents of a file that is about to be written.
pub(super) struct Written {
    body: Vec<u8>,
    numbers: Option<Vec<u64>>,
}

impl Written {
    /// All in postcard.
    pub(super) fn whole(parts: &impl Serialize) -> Result<Written> {
        let body = postcard::to_stdvec(parts);
        let body = body.map_err(|e| bad("a program that can be written", e.to_string()))?;
        Ok(Written { body, numbers: None })
    }

    /// `parts` in postcard, and the numbers that are not in it.
    pub(super) fn apart(parts: &impl Serialize, numbers: Vec<u64>) -> Result<Written> {
        Ok(Written { numbers: Some(numbers), ..Written::whole(parts)? })
    }

    fn filled<'a>(&'a self, draft: Draft<'a>) -> Draft<'a> {
        let body = |name| (name, [self.body.len() as u64], Data::Bytes(&self.body));
        let (name, shape, data) = body(if self.numbers.is_some() { GRAPH } else { WHOLE });
        let draft = draft.tensor(name, &shape, data);
        match &self.numbers {
            Some(own) => draft.tensor(DATA, &[own.len() as u64], Data::Doubles(own)),
            None => draft,
        }
    }

    /// The file in memory.
    pub(super) fn to_bytes(&self, draft: Draft<'_>) -> Result<Vec<u8>> {
        self.filled(draft).to_bytes()
    }

    /// Writes the file.
    pub(super) fn save(&self, draft: Draft<'_>, path: &Path) -> Result<()> {
        self.filled(draft).save(path, false)
    }
}

/// Whether the numbers of a file stand apart.
fn is_apart(header: &Header) -> bool {
    header.tensors.contains_key(GRAPH)
}

/// Checks a header for [`Opened::new`]: the kind, the tensors, the length of what is in postcard, and the parameter set that
/// `set` finds.
fn claims<S>(
    header: &Header,
    trust: Trust,
    kind: Kind,
    set: impl Fn(&Header) -> Result<S>,
) -> Result<S> {
    header.require(kind)?;
    // Programs of TFHE have one form.
    let apart = kind == Kind::CkksProgram && is_apart(header);
    let (body, numbers) = (if apart { GRAPH } else { WHOLE }, header.rows(DATA));
    let length = header.rows(body);
    let tensors = [(body, Dtype::U8, &[length][..]), (DATA, Dtype::F64, &[numbers])];
    header.expect(if apart { &tensors } else { &tensors[..1] })?;
    require_limit(length, Limits::from(trust))?;
    set(header)
}

/// A file whose header and checksum are right.
pub(super) struct Opened<'a> {
    file: Reader<'a>,
}

impl<'a> Opened<'a> {
    /// The parameter set, and the file for its contents.
    pub(super) fn new<S>(
        bytes: &'a [u8],
        trust: Trust,
        kind: Kind,
        set: impl Fn(&Header) -> Result<S>,
    ) -> Result<(S, Opened<'a>)> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, kind)?;
        let set = claims(file.header(), trust, kind, set)?;
        file.verify()?;
        Ok((set, Opened { file }))
    }

    /// The parts in postcard. Only their spelling is checked: numbers in their shortest form, and maps in order.
    pub(super) fn parts<T: Serialize + DeserializeOwned>(&self) -> Result<T> {
        let body = if is_apart(self.file.header()) { GRAPH } else { WHOLE };
        let body = self.file.bytes(body);
        let (parts, rest): (T, _) = postcard::take_from_bytes(body)
            .map_err(|e| bad("a program in postcard", e.to_string()))?;
        if !rest.is_empty() {
            return Err(bad("nothing after the program", format!("{} bytes", rest.len())));
        }
        match Written::whole(&parts)?.body == body {
            true => Ok(parts),
            false => Err(bad("a program as it is written", "another spelling of one")),
        }
    }

    /// The numbers that are not in postcard; none if all are.
    pub(super) fn numbers(&self) -> Result<Option<Numbers<'a>>> {
        if !is_apart(self.file.header()) {
            return Ok(None);
        }
        let (left, _) = self.file.bytes(DATA).as_chunks::<8>();
        require_memory("load", size_of_val(left))?;
        Ok(Some(Numbers { left }))
    }
}

/// The numbers of a file that were not taken yet, in their order.
pub(super) struct Numbers<'a> {
    left: &'a [[u8; 8]],
}

impl Numbers<'_> {
    /// The next ones.
    pub(super) fn take(&mut self, count: usize) -> Result<Vec<f64>> {
        let Some((taken, left)) = self.left.split_at_checked(count) else {
            let wanted = format!("a list of {count} numbers");
            return Err(bad(wanted, format!("the last {} of the file", self.left.len())));
        };
        self.left = left;
        Ok(taken.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }

    /// Refuses numbers that belong to no list.
    pub(super) fn finish(self) -> Result<()> {
        match self.left.len() {
            0 => Ok(()),
            more => Err(bad("nothing after the last list", format!("{more} numbers"))),
        }
    }
}

/// The bytes of a file whose header [`Opened::new`] accepts.
pub(super) fn load<S>(
    path: &Path,
    trust: Trust,
    kind: Kind,
    set: impl Fn(&Header) -> Result<S>,
) -> Result<Zeroizing<Vec<u8>>> {
    let check = |header: &Header| claims(header, trust, kind, &set).map(drop);
    read_file(path, trust.limit, check)
}

/// A refusal of the recorder is a fault of the file.
pub(super) fn refused(e: Error) -> Error {
    match e {
        Error::BadInput(why) => Error::BadFile(why),
        other => other,
    }
}
