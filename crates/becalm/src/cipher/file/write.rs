//! Writing a file: metadata and tensors, hashed in one pass and written in a second.

use super::header::{Dtype, Header, Tensor, byte_length, shape_text, shape_words};
use super::place::{self, Output, Part};
use super::secret::require_no_other;
use super::{Kind, VERSION, disk, hex};
use crate::math::buffer::reserved;
use crate::math::memory::require_memory;
use crate::params::TfheParams;
use crate::progress::tell;
use crate::{Error, Progress, Result, UNWATCHED};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use zeroize::{Zeroize, Zeroizing};

/// Words turned into bytes at a time.
const CHUNK: usize = 1 << 13;

/// The contents of a tensor.
#[derive(Clone)]
pub(crate) enum Data<'a> {
    /// Words, written little endian.
    Words(&'a [u64]),
    /// Words that are made for the file.
    Made(Vec<u64>),
    /// Words in pieces, one after another.
    Pieces(Vec<&'a [u64]>),
    /// Doubles, each by its bits, written little endian.
    Doubles(&'a [u64]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Bytes that are made for the file.
    MadeBytes(Vec<u8>),
}

impl Data<'_> {
    fn dtype(&self) -> Dtype {
        match self {
            Data::Words(_) | Data::Made(_) | Data::Pieces(_) => Dtype::U64,
            Data::Doubles(_) => Dtype::F64,
            Data::Bytes(_) | Data::MadeBytes(_) => Dtype::U8,
        }
    }

    /// Hands all bytes over, a part at a time; wipes what it used.
    fn each(&self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Data::Bytes(bytes) => bytes.chunks(8 * CHUNK).try_for_each(take),
            Data::MadeBytes(bytes) => bytes.chunks(8 * CHUNK).try_for_each(take),
            Data::Words(words) | Data::Doubles(words) => each_word(words, &mut take),
            Data::Made(words) => each_word(words, &mut take),
            Data::Pieces(all) => all.iter().try_for_each(|words| each_word(words, &mut take)),
        }
    }
}

fn each_word(words: &[u64], take: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut bytes = Zeroizing::new(vec![0u8; 8 * CHUNK.min(words.len())]);
    for part in words.chunks(CHUNK) {
        for (b, w) in bytes.chunks_exact_mut(8).zip(part) {
            b.copy_from_slice(&w.to_le_bytes());
        }
        take(&bytes[..8 * part.len()])?;
    }
    Ok(())
}

/// A file that is about to be written, or made in memory.
pub struct Draft<'a> {
    header: Header,
    tensors: BTreeMap<&'static str, Data<'a>>,
    /// Elements of the array that it holds.
    elements: usize,
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
            elements: 0,
        };
        draft
            .note("format", kind.name())
            .note("version", VERSION.to_string())
            .note("params", params)
    }

    /// The file as one of an array of this number of elements, on one axis.
    pub(crate) fn of_elements(self, elements: usize) -> Self {
        Draft { elements, ..self }
    }

    /// The file of ciphertexts or integers as one of an array of this shape. A file without it has one axis.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a shape of another number of elements, or of too many axes.
    pub fn shaped(self, shape: &[usize]) -> Result<Self> {
        match shape_text(shape, self.elements) {
            Some(_) if shape.len() == 1 => Ok(self),
            Some(text) => Ok(self.note("shape", text)),
            None => {
                let wanted = format!("{} of {} elements", shape_words(), self.elements);
                let remedy = "reshape the array before it is saved";
                Err(Error::bad_input("save", wanted, format!("{shape:?}"), remedy))
            }
        }
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
    fn finish(&self, progress: Progress) -> Result<Header> {
        let mut header = self.header.clone();
        let mut end = 0;
        for t in header.tensors.values_mut() {
            // The tensors are in memory, so their lengths are no larger than it.
            let bytes = byte_length(t.dtype, &t.shape).unwrap_or(0);
            t.data_offsets = (end, end + bytes);
            end += bytes;
        }
        let mut hasher = header.hasher()?;
        self.each(progress, |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        let sum = hex(hasher.finalize().as_bytes());
        hasher.zeroize();
        header.metadata.insert("checksum".into(), sum);
        Ok(header)
    }

    /// Bytes of all tensors.
    fn data_bytes(&self) -> usize {
        let bytes = |tensor: &Tensor| byte_length(tensor.dtype, &tensor.shape).unwrap_or(0);
        self.header.tensors.values().map(bytes).sum::<u64>() as usize
    }

    /// Hands the bytes of all tensors over, a part at a time.
    fn each(&self, progress: Progress, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (mut done, all) = (0, self.data_bytes());
        self.tensors.values().try_for_each(|data| {
            data.each(|bytes| {
                tell("save", progress, done, all)?;
                done += bytes.len();
                take(bytes)
            })
        })
    }

    /// The file with its checksum, for memory.
    ///
    /// # Errors
    /// [`Error::Memory`] where the file does not fit; [`Error::Interrupted`].
    pub fn seal(&self, progress: Progress) -> Result<Sealed<'_>> {
        require_memory("save", self.data_bytes())?;
        let header = self.finish(progress)?;
        let data = header.tensors.values().map(|t| t.data_offsets.1).max().unwrap_or(0);
        let head = header.encode()?;
        Ok(Sealed { draft: self, len: head.len() + data as usize, head })
    }

    /// The file in memory, in one allocation.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        let sealed = self.seal(UNWATCHED)?;
        let mut bytes: Vec<u8> = reserved("save", sealed.len)?;
        bytes.extend(&sealed.head);
        self.each(UNWATCHED, |part| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Writes the file at `path`: all of it or nothing. A private one can be read by its owner only, and replaces no other secret.
    pub(crate) fn save(&self, path: &Path, private: bool) -> Result<()> {
        if private {
            require_no_other(path, &self.finish(UNWATCHED)?)?;
        }
        place::replace(path, private, |file| self.write(path, file, UNWATCHED))
    }

    /// Writes the file at `path`: all of it or nothing. `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Interrupted`]; then there is no new file and an old one is as it was.
    pub fn save_with(&self, path: impl AsRef<Path>, progress: Progress) -> Result<()> {
        let path = path.as_ref();
        place::replace(path, false, |file| self.write(path, file, progress))
    }

    /// The work of [`Draft::save`] as a part of [`replace_all`](super::replace_all).
    pub(crate) fn part(self, path: &Path, private: bool) -> Part<'a> {
        let to = path.to_path_buf();
        Part::new(path, private, move |file| self.write(&to, file, UNWATCHED))
    }

    fn write(&self, path: &Path, file: &mut Output, progress: Progress) -> Result<()> {
        let head = self.finish(progress)?.encode()?;
        let mut put = |bytes: &[u8]| file.write_all(bytes).map_err(|e| disk::write_error(path, &e));
        put(&head)?;
        self.each(progress, put)
    }
}

/// A file of which all but the tensors' bytes are made.
pub struct Sealed<'a> {
    draft: &'a Draft<'a>,
    head: Vec<u8>,
    len: usize,
}

impl Sealed<'_> {
    /// Bytes of the file.
    #[expect(clippy::len_without_is_empty, reason = "no file is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Writes the file into memory of its length; `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// [`Error::BadInput`] for memory of another length; [`Error::Interrupted`].
    pub fn fill(&self, memory: &mut [u8], progress: Progress) -> Result<()> {
        if memory.len() != self.len {
            let (wanted, got) = (format!("{} bytes", self.len), memory.len().to_string());
            return Err(Error::bad_input("save", wanted, got, "give memory of the file's length"));
        }
        let (head, mut rest) = memory.split_at_mut(self.head.len());
        head.copy_from_slice(&self.head);
        self.draft.each(progress, |part| {
            let (own, behind) = std::mem::take(&mut rest).split_at_mut(part.len());
            own.copy_from_slice(part);
            rest = behind;
            Ok(())
        })
    }
}
