//! Files of ciphertexts.
//!
//! The noise that a file claims cannot be measured without the secret key. A variance below that of a fresh
//! encryption, which no honest ciphertext but a trivial one has, is raised to it; a claim above is taken as it is, so
//! a liar can make only its own results wrong.

use super::header::{key_text, role_text, stored_range};
use super::read::{PIECE, Reader};
use super::write::{Data, Draft};
use super::{Dtype, Header, Kind, Part, Trust, bad, disk, require_limit};
use crate::cipher::{Encoding, Glwe, KeyRole, Lwe, Output};
use crate::math::Modulus;
use crate::math::buffer::{reserved, zeroed};
use crate::math::memory::require_memory;
use crate::math::random::PublicSeed;
use crate::params::TfheParams;
use crate::progress::tell;
use crate::{Error, Progress, Result, UNWATCHED};
use std::borrow::Borrow;
use std::path::Path;
use std::slice::from_ref;

/// Words in a row of the outputs of an encrypted table.
const OUTPUT: usize = 5;

/// Bytes of the tensor `seed`: of the seed, and of the place of the first ciphertext among those drawn from it.
const SEED: usize = 36;

/// Ciphertexts whose masks are drawn between two looks at whether the work is to stop.
const TELL: usize = 256;

impl Lwe {
    /// The file in memory.
    ///
    /// # Errors
    /// [`Error::WrongParams`](crate::Error::WrongParams) for a set that could not be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.file(false, UNWATCHED)?.to_bytes()
    }

    /// The file to be written, or made in memory: of [`Lwe::to_bytes`] or, `seeded`, of [`Lwe::to_bytes_seeded`]. `progress` can stop
    /// the look whether a seed stands for the masks.
    ///
    /// # Errors
    /// As both, and [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn file(&self, seeded: bool, progress: Progress) -> Result<Draft<'_>> {
        Lwe::draft(Kind::Lwe, from_ref(self), seeded, progress)
    }

    /// [`Lwe::to_bytes`] with one seed in place of all masks: a file of one word for each message. Readers draw the masks
    /// again.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for anything but a fresh encryption or a part of one, in its order.
    pub fn to_bytes_seeded(&self) -> Result<Vec<u8>> {
        self.file(true, UNWATCHED)?.to_bytes()
    }

    /// Writes the batch to a file.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io); then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.file(false, UNWATCHED)?.save(path.as_ref(), false)
    }

    /// The file that [`Lwe::save`] writes, as a part of [`replace_all`](super::replace_all), which can refuse to overwrite.
    ///
    /// # Errors
    /// [`Error::WrongParams`](crate::Error::WrongParams) for a set that could not be read again.
    pub fn part(&self, path: impl AsRef<Path>) -> Result<Part<'_>> {
        Ok(self.file(false, UNWATCHED)?.part(path.as_ref(), false))
    }

    /// [`Lwe::save`] in the form of [`Lwe::to_bytes_seeded`].
    ///
    /// # Errors
    /// As both.
    pub fn save_seeded(&self, path: impl AsRef<Path>) -> Result<()> {
        self.file(true, UNWATCHED)?.save(path.as_ref(), false)
    }

    /// A batch from a file in memory.
    ///
    /// # Errors
    /// [`Error::BadFile`](crate::Error::BadFile), [`Error::BadInput`](crate::Error::BadInput),
    /// [`Error::WrongParams`](crate::Error::WrongParams) or [`Error::Insecure`](crate::Error::Insecure) for anything
    /// but a batch that [`Lwe::save`] or [`Lwe::save_seeded`] wrote, of at most `trust.limit` bytes.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        Lwe::from_bytes_with(bytes, trust, UNWATCHED)
    }

    /// [`Lwe::from_bytes`]; `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`Lwe::from_bytes`], and [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn from_bytes_with(bytes: &[u8], trust: Trust, progress: Progress) -> Result<Self> {
        Ok(Lwe::array_from_bytes(bytes, trust, progress)?.0)
    }

    /// [`Lwe::from_bytes_with`], with the shape that [`Draft::shaped`] gave the file; else one axis.
    ///
    /// # Errors
    /// As [`Lwe::from_bytes_with`].
    pub fn array_from_bytes(
        bytes: &[u8],
        trust: Trust,
        progress: Progress,
    ) -> Result<(Self, Vec<usize>)> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::Lwe)?;
        let shape = file.header().shape(Lwe::rows(file.header()))?;
        Ok((Lwe::read(&file, trust, progress)?, shape))
    }

    /// Reads a batch from a file.
    ///
    /// # Errors
    /// As [`Lwe::from_bytes`], and [`Error::Io`](crate::Error::Io).
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        Lwe::load_with(path, trust, UNWATCHED)
    }

    /// [`Lwe::load`]; `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`Lwe::load`], and [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn load_with(path: impl AsRef<Path>, trust: Trust, progress: Progress) -> Result<Self> {
        Ok(Lwe::load_array(path, trust, progress)?.0)
    }

    /// [`Lwe::load_with`], with the shape as [`Lwe::array_from_bytes`].
    ///
    /// # Errors
    /// As [`Lwe::load_with`].
    pub fn load_array(
        path: impl AsRef<Path>,
        trust: Trust,
        progress: Progress,
    ) -> Result<(Self, Vec<usize>)> {
        let check = |header: &Header| {
            header.require(Kind::Lwe)?;
            header.shape(Lwe::rows(header))?;
            Lwe::claims(header, trust).map(drop)
        };
        let bytes = disk::read_file_with(path.as_ref(), trust.limit, check, progress)?;
        Lwe::array_from_bytes(&bytes, trust, progress)
    }

    /// The ciphertexts of a file, by its header.
    pub(crate) fn rows(header: &Header) -> usize {
        header.rows("words").max(header.rows("bodies")) as usize
    }

    /// The batch of a file whose header was checked.
    pub(crate) fn read(file: &Reader, trust: Trust, progress: Progress) -> Result<Self> {
        let whole = Lwe::read_parts(file, trust, 1, progress)?.pop();
        whole.ok_or_else(|| bad("one batch", "none"))
    }

    /// [`Lwe::read`] in equal parts, each a batch of its own: no more memory than for one.
    pub(crate) fn read_parts(
        file: &Reader,
        trust: Trust,
        parts: usize,
        progress: Progress,
    ) -> Result<Vec<Self>> {
        let empty = Lwe::claims(file.header(), trust)?;
        file.verify_with(progress)?;
        let from = match file.bytes("seed").split_last_chunk::<4>() {
            None => None,
            Some((seed, first)) => {
                let seed = seed.first_chunk::<32>();
                let seed = PublicSeed(*seed.ok_or_else(|| bad("a seed of 32 bytes", "none"))?);
                Some((seed, u32::from_le_bytes(*first)))
            }
        };
        let (name, stored) = match from {
            None => ("words", empty.width()),
            Some(_) => ("bodies", empty.slots()),
        };
        let bytes = file.bytes(name);
        let rows = bytes.len() / 8 / stored;
        if from.is_some_and(|f| f.1.checked_add(rows.try_into().unwrap_or(u32::MAX)).is_none()) {
            return Err(bad("at most 2^32 ciphertexts of a seed", "more"));
        }
        if !rows.is_multiple_of(parts) {
            return Err(bad(format!("ciphertexts by {parts}"), rows.to_string()));
        }
        require_memory("load", rows.saturating_mul(8 * empty.width()))?;
        let each = rows / parts;
        let part = |i: usize| {
            let mut batch = empty.empty_like();
            // No sum is larger than that of all rows.
            batch.seed = from.map(|(seed, first)| (seed, first + (i * each) as u32));
            let own = &bytes[i * each * stored * 8..(i + 1) * each * stored * 8];
            batch.fill(own, progress)?;
            Ok(batch)
        };
        (0..parts).map(part).collect()
    }

    /// Fills an empty batch with its words, or with bodies and the masks of its seed.
    fn fill(&mut self, bytes: &[u8], progress: Progress) -> Result<()> {
        let (words, _) = bytes.as_chunks::<8>();
        let Some((seed, first)) = self.seed else {
            let mut data: Vec<u64> = reserved("load", words.len())?;
            for piece in words.chunks(PIECE / 8) {
                tell("load", progress, data.len(), words.len())?;
                let at = data.len();
                data.extend(piece.iter().map(|w| u64::from_le_bytes(*w)));
                require_reduced(&self.params, &data[at..])?;
            }
            self.data = data;
            return Ok(());
        };
        let (width, slots) = (self.width(), self.slots());
        let rows = words.len() / slots;
        let mut data = zeroed("load", rows * width)?;
        let all = (first..).zip(data.chunks_exact_mut(width)).zip(words.chunks_exact(slots));
        for (i, ((place, row), bodies)) in all.enumerate() {
            if i % TELL == 0 {
                tell("load", progress, i, rows)?;
            }
            let (mask, to) = row.split_at_mut(width - slots);
            for (to, word) in to.iter_mut().zip(bodies) {
                *to = u64::from_le_bytes(*word);
            }
            require_reduced(&self.params, to)?;
            self.draw_mask(&seed, place, mask);
        }
        self.data = data;
        Ok(())
    }

    /// Whether these are the ciphertexts of the seed of `all`, in their order: a wrong seed would be a batch of noise.
    fn are_drawn<B: Borrow<Lwe>>(all: &Lwe, parts: &[B], progress: Progress) -> Result<bool> {
        let Some((seed, first)) = all.seed else { return Ok(false) };
        let (width, length) = (all.width(), all.width() - all.slots());
        let rows = parts.iter().flat_map(|part| part.borrow().data.chunks_exact(width));
        let mut mask = vec![0; length];
        for (i, row) in rows.enumerate() {
            if i % TELL == 0 {
                tell("save", progress, i, i + 1)?;
            }
            let place = u32::try_from(i).ok().and_then(|i| first.checked_add(i));
            let Some(place) = place else { return Ok(false) };
            all.draw_mask(&seed, place, &mut mask);
            if mask != row[..length] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A file of this kind with the words of batches of one kind, one after another; or, `seeded`, with their bodies and their seed.
    pub(crate) fn draft<'a, B: Borrow<Lwe>>(
        kind: Kind,
        parts: &'a [B],
        seeded: bool,
        progress: Progress,
    ) -> Result<Draft<'a>> {
        let all = Lwe::together(parts)?;
        let (lo, hi) = stored_range(all.encoding, all.range);
        let draft = Draft::new(kind, &all.params)?
            .note("key", key_text(all.key))
            .note("role", role_text(all.role))
            .note("encoding", encoding_text(all.encoding))
            .note("range", format!("[{lo},{hi}]"))
            .note("noise", noise_text(all.noise));
        let rows = parts.iter().map(|part| part.borrow().len()).sum::<usize>();
        let draft = draft.of_elements(rows);
        let (width, slots) = (all.width(), all.slots());
        if !seeded {
            let words = parts.iter().map(|part| &part.borrow().data[..]).collect();
            return Ok(draft.tensor("words", &[rows as u64, width as u64], Data::Pieces(words)));
        }
        let drawn = Lwe::are_drawn(&all, parts, progress)?;
        let Some((PublicSeed(key), first)) = all.seed.filter(|_| drawn) else {
            return Err(Error::unsupported(
                "save",
                "ciphertexts as they were encrypted, in their order",
                "results, or ciphertexts of several encryptions",
                "save without a seed",
            ));
        };
        let mut bodies = reserved("save", rows.saturating_mul(slots))?;
        for row in parts.iter().flat_map(|part| part.borrow().data.chunks_exact(width)) {
            bodies.extend_from_slice(&row[width - slots..]);
        }
        let seed = [&key[..], &first.to_le_bytes()].concat();
        Ok(draft.tensor("bodies", &[rows as u64, slots as u64], Data::Made(bodies)).tensor(
            "seed",
            &[SEED as u64],
            Data::MadeBytes(seed),
        ))
    }

    /// The batch that a header describes, without its words.
    pub(crate) fn claims(header: &Header, trust: Trust) -> Result<Lwe> {
        let params = header.params(trust)?;
        let (role, encoding) = (header.role()?, header.encoding()?);
        let unknown = |e: Error| bad(&e.detail().wanted, &e.detail().got);
        let width = role.checked(&params).map_err(unknown)?.width(&params) as u64;
        if header.tensors.contains_key("seed") {
            let (rows, slots) = (header.rows("bodies"), role.bodies(&params) as u64);
            header.expect(&[
                ("bodies", Dtype::U64, &[rows, slots]),
                ("seed", Dtype::U8, &[SEED as u64]),
            ])?;
            // The only file that grows when it is read: by its masks.
            require_limit(rows.saturating_mul(8 * width), trust.limit)?;
        } else {
            header.expect(&[("words", Dtype::U64, &[header.rows("words"), width])])?;
        }
        Ok(Lwe {
            key: header.key()?,
            role,
            encoding,
            range: header.message_range(encoding)?,
            noise: header.noise()?.max(fresh_variance(&params, role)),
            // Two files may hold relatives.
            independent: false,
            seed: None,
            data: Vec::new(),
            params,
        })
    }
}

impl Glwe {
    /// The file in memory.
    ///
    /// # Errors
    /// [`Error::WrongParams`](crate::Error::WrongParams) for a set that could not be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let outputs = output_words(&self.outputs);
        self.draft(&outputs)?.to_bytes()
    }

    /// Writes the ciphertext to a file.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io); then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let outputs = output_words(&self.outputs);
        self.draft(&outputs)?.save(path.as_ref(), false)
    }

    /// A ciphertext from a file in memory.
    ///
    /// # Errors
    /// As [`Lwe::from_bytes`].
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        require_limit(bytes.len() as u64, trust.limit)?;
        let file = Reader::open(bytes, Kind::Glwe)?;
        let empty = glwe_claims(file.header(), trust)?;
        file.verify()?;
        let outputs = outputs_of(&file.words("outputs")?)?;
        let data = file.words("words")?;
        require_reduced(&empty.params, &data)?;
        let glwe = Glwe { outputs, data, ..empty };
        let refused = |e: Error| bad(&e.detail().wanted, &e.detail().got);
        glwe.check_metadata().map_err(refused)?;
        Ok(glwe)
    }

    /// Reads a ciphertext from a file.
    ///
    /// # Errors
    /// As [`Lwe::load`].
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        let check = |header: &Header| glwe_claims(header, trust).map(drop);
        let bytes = disk::read_file(path.as_ref(), trust.limit, check)?;
        Glwe::from_bytes(&bytes, trust)
    }

    fn draft<'a>(&'a self, outputs: &'a [u64]) -> Result<Draft<'a>> {
        Ok(Draft::new(Kind::Glwe, &self.params)?
            .note("key", key_text(self.key))
            .note("encoding", encoding_text(self.input))
            .note("range", format!("[0,{}]", self.limit))
            .note("noise", noise_text(self.noise))
            .tensor("outputs", &[self.outputs.len() as u64, OUTPUT as u64], Data::Words(outputs))
            .tensor("words", &glwe_shape(&self.params), Data::Words(&self.data)))
    }
}

/// The ciphertext that a header describes, without its words.
fn glwe_claims(header: &Header, trust: Trust) -> Result<Glwe> {
    header.require(Kind::Glwe)?;
    let params = header.params(trust)?;
    let count = header.rows("outputs").min(params.table_size() as u64);
    let outputs = [count, OUTPUT as u64];
    header.expect(&[
        ("outputs", Dtype::U64, &outputs),
        ("words", Dtype::U64, &glwe_shape(&params)),
    ])?;
    let input = header.encoding()?;
    let (least, limit) = header.message_range(input)?;
    if least != 0 {
        return Err(bad("a table from the value 0 on", least.to_string()));
    }
    Ok(Glwe {
        key: header.key()?,
        input,
        limit,
        outputs: Vec::new(),
        noise: header.noise()?.max(fresh_variance(&params, KeyRole::Big)),
        data: Vec::new(),
        params,
    })
}

/// `[k + 1, N]`, or `[2^η·(k + 1), N]` of an extended rotation.
fn glwe_shape(p: &TfheParams) -> [u64; 2] {
    [(p.glwe_dimension as u64 + 1) * p.accumulators() as u64, p.polynomial_size as u64]
}

/// Index, number of values, padding, least and greatest value of each output; none of them is negative.
fn output_words(outputs: &[Output]) -> Vec<u64> {
    let row = |o: &Output| {
        let (values, padding) = (o.encoding.values, o.encoding.padding as u64);
        [o.index as u64, values, padding, o.range.0 as u64, o.range.1 as u64]
    };
    outputs.iter().flat_map(row).collect()
}

/// Inverse of [`output_words`]; a word too large for an index or a value becomes one that no output has.
fn outputs_of(words: &[u64]) -> Result<Vec<Output>> {
    let (rows, _) = words.as_chunks::<OUTPUT>();
    let output = |&[index, values, padding, least, greatest]: &[u64; OUTPUT]| {
        if padding > 1 {
            return Err(bad("a padding of 0 or 1", padding.to_string()));
        }
        let encoding = Encoding { values, padding: padding == 1 };
        let signed = |word: u64| i64::try_from(word).unwrap_or(-1);
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        Ok(Output { index, encoding, range: (signed(least), signed(greatest)) })
    };
    rows.iter().map(output).collect()
}

/// Variance of a fresh encryption.
fn fresh_variance(params: &TfheParams, role: KeyRole) -> f64 {
    role.fresh_noise(params).variance(Modulus::LOG2)
}

fn encoding_text(encoding: Encoding) -> String {
    format!(r#"{{"values":{},"padding":{}}}"#, encoding.values, encoding.padding)
}

/// A variance above 1, twelve times that of a uniform phase, says no more than 1 does.
fn noise_text(variance: f64) -> String {
    format!("{:e}", if variance <= 1.0 { variance } else { 1.0 })
}

fn require_reduced(params: &TfheParams, words: &[u64]) -> Result<()> {
    match words.iter().all(|w| params.modulus.is_reduced(*w)) {
        true => Ok(()),
        false => Err(bad("words below the modulus", "larger ones")),
    }
}
