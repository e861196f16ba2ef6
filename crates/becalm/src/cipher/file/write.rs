//! Writing a file: metadata and tensors, hashed in one pass and written in a second.

use super::header::{Dtype, Header, Tensor, byte_length};
use super::place::{self, Output, Part};
use super::secret::require_no_other;
use super::{Kind, VERSION, disk, hex};
use crate::params::TfheParams;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use zeroize::{Zeroize, Zeroizing};

/// Words turned into bytes at a time.
const CHUNK: usize = 1 << 13;

/// The remedy for an error that writing to memory does not raise.
const NEVER: &str = "report this to becalm: memory takes every byte";

/// The contents of a tensor.
#[derive(Clone, Copy)]
pub(crate) enum Data<'a> {
    /// Words, written little endian.
    Words(&'a [u64]),
    /// Doubles, each by its bits, written little endian.
    Doubles(&'a [u64]),
    /// Bytes.
    Bytes(&'a [u8]),
}

impl Data<'_> {
    fn dtype(self) -> Dtype {
        match self {
            Data::Words(_) => Dtype::U64,
            Data::Doubles(_) => Dtype::F64,
            Data::Bytes(_) => Dtype::U8,
        }
    }

    /// Hands all bytes over, a part at a time; wipes what it used.
    fn each(self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let words = match self {
            Data::Bytes(bytes) => return take(bytes),
            Data::Words(words) | Data::Doubles(words) => words,
        };
        let mut bytes = Zeroizing::new(vec![0u8; 8 * CHUNK.min(words.len())]);
        for part in words.chunks(CHUNK) {
            for (b, w) in bytes.chunks_exact_mut(8).zip(part) {
                b.copy_from_slice(&w.to_le_bytes());
            }
            take(&bytes[..8 * part.len()])?;
        }
        Ok(())
    }
}

/// A file that is about to be written.
pub(crate) struct Draft<'a> {
    header: Header,
    tensors: BTreeMap<&'static str, Data<'a>>,
}

impl<'a> Draft<'a> {
    /// A file without tensors.
    ///
    /// # Errors
    /// [`Error::WrongParams`] for a set that could not be read again.
    pub(crate) fn new(kind: Kind, params: &TfheParams) -> Result<Self> {
        params.validate()?;
        let row = serde_json::to_string(params).map_err(|e| {
            Error::wrong_params(
                "save",
                "a parameter set of numbers",
                e.to_string(),
                "use a set of the table",
            )
        })?;
        Ok(Draft::of(kind, row))
    }

    /// A file without tensors, of a set that is given as it is to stand there.
    pub(crate) fn of(kind: Kind, params: String) -> Self {
        let draft = Draft {
            header: Header { metadata: BTreeMap::new(), tensors: BTreeMap::new() },
            tensors: BTreeMap::new(),
        };
        draft
            .note("format", kind.name())
            .note("version", VERSION.to_string())
            .note("params", params)
    }

    /// Adds an entry to the metadata.
    pub(crate) fn note(mut self, name: &str, value: impl Into<String>) -> Self {
        self.header.metadata.insert(name.into(), value.into());
        self
    }

    /// Adds a tensor.
    pub(crate) fn tensor(mut self, name: &'static str, shape: &[u64], data: Data<'a>) -> Self {
        let tensor = Tensor { data_offsets: (0, 0), dtype: data.dtype(), shape: shape.to_vec() };
        self.header.tensors.insert(name.into(), tensor);
        self.tensors.insert(name, data);
        self
    }

    /// Places the tensors and computes the checksum.
    fn finish(&self) -> Result<Header> {
        let mut header = self.header.clone();
        let mut end = 0;
        for t in header.tensors.values_mut() {
            // The tensors are in memory, so their lengths are no larger than it.
            let bytes = byte_length(t.dtype, &t.shape).unwrap_or(0);
            t.data_offsets = (end, end + bytes);
            end += bytes;
        }
        let mut hasher = header.hasher()?;
        for data in self.tensors.values() {
            data.each(|bytes| hasher.write_all(bytes))
                .map_err(|e| Error::io("save", "a checksum", e.to_string(), NEVER))?;
        }
        let sum = hex(hasher.finalize().as_bytes());
        hasher.zeroize();
        header.metadata.insert("checksum".into(), sum);
        Ok(header)
    }

    /// The file in memory, in one allocation.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        let header = self.finish()?;
        let head = header.encode()?;
        let data = header.tensors.values().map(|t| t.data_offsets.1).max();
        let mut bytes = Vec::with_capacity(head.len() + data.unwrap_or(0) as usize);
        bytes.extend(head);
        for data in self.tensors.values() {
            data.each(|part| bytes.write_all(part))
                .map_err(|e| Error::io("save", "memory", e.to_string(), NEVER))?;
        }
        Ok(bytes)
    }

    /// Writes the file at `path`: all of it or nothing. A private one can be read by its owner only, and replaces no other secret.
    pub(crate) fn save(&self, path: &Path, private: bool) -> Result<()> {
        if private {
            require_no_other(path, &self.finish()?)?;
        }
        place::replace(path, private, |file| self.write(path, file))
    }

    /// The work of [`Draft::save`] as a part of [`replace_all`](super::replace_all).
    pub(crate) fn part(self, path: &Path, private: bool) -> Part<'a> {
        let to = path.to_path_buf();
        Part::new(path, private, move |file| self.write(&to, file))
    }

    fn write(&self, path: &Path, file: &mut Output) -> Result<()> {
        let head = self.finish()?.encode()?;
        let mut tensors = self.tensors.values();
        file.write_all(&head)
            .and_then(|()| tensors.try_for_each(|data| data.each(|part| file.write_all(part))))
            .map_err(|e| disk::write_error(path, &e))
    }
}
