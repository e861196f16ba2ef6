//! Files of ciphertexts.
//!
//! The noise that a file claims cannot be measured without the secret key. A variance below that of a fresh
//! encryption, which no honest ciphertext but a trivial one has, is raised to it; a claim above is taken as it is, so
//! a liar can make only its own results wrong.

use super::header::{key_text, role_text, stored_range};
use super::read::Reader;
use super::write::{Data, Draft};
use super::{Dtype, Header, Kind, Part, Trust, bad, disk, require_limit};
use crate::cipher::{Encoding, Glwe, KeyRole, Lwe, Output};
use crate::math::Modulus;
use crate::math::memory::require_memory;
use crate::math::random::PublicSeed;
use crate::params::TfheParams;
use crate::{Error, Result};
use std::path::Path;

/// Words in a row of the outputs of an encrypted table.
const OUTPUT: usize = 5;

/// Bytes of the tensor `seed`: of the seed, and of the place of the first ciphertext among those drawn from it.
const SEED: usize = 36;

/// A fresh encryption without its masks, which a seed stands for.
pub(crate) struct Seeded {
    bodies: Vec<u64>,
    seed: [u8; SEED],
}

impl Lwe {
    /// The file in memory.
    ///
    /// # Errors
    /// [`Error::WrongParams`](crate::Error::WrongParams) for a set that could not be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.draft(Kind::Lwe, None)?.to_bytes()
    }

    /// [`Lwe::to_bytes`] with one seed in place of all masks: a file of one word for each message. Readers draw the masks
    /// again.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for anything but a fresh encryption or a part of one, in its order.
    pub fn to_bytes_seeded(&self) -> Result<Vec<u8>> {
        let seeded = self.seeded()?;
        self.draft(Kind::Lwe, Some(&seeded))?.to_bytes()
    }

    /// Writes the batch to a file.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io); then there is no new file and an old one is as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.draft(Kind::Lwe, None)?.save(path.as_ref(), false)
    }

    /// The file that [`Lwe::save`] writes, as a part of [`replace_all`](super::replace_all), which can refuse to overwrite.
    ///
    /// # Errors
    /// [`Error::WrongParams`](crate::Error::WrongParams) for a set that could not be read again.
    pub fn part(&self, path: impl AsRef<Path>) -> Result<Part<'_>> {
        Ok(self.draft(Kind::Lwe, None)?.part(path.as_ref(), false))
    }

    /// [`Lwe::save`] in the form of [`Lwe::to_bytes_seeded`].
    ///
    /// # Errors
    /// As both.
    pub fn save_seeded(&self, path: impl AsRef<Path>) -> Result<()> {
        let seeded = self.seeded()?;
        self.draft(Kind::Lwe, Some(&seeded))?.save(path.as_ref(), false)
    }

    /// A batch from a file in memory.
    ///
    /// # Errors
    /// [`Error::BadFile`](crate::Error::BadFile), [`Error::BadInput`](crate::Error::BadInput),
    /// [`Error::WrongParams`](crate::Error::WrongParams) or [`Error::Insecure`](crate::Error::Insecure) for anything
    /// but a batch that [`Lwe::save`] or [`Lwe::save_seeded`] wrote, of at most `trust.limit` bytes.
    pub fn from_bytes(bytes: &[u8], trust: Trust) -> Result<Self> {
        require_limit(bytes.len() as u64, trust.limit)?;
        Lwe::read(&Reader::open(bytes, Kind::Lwe)?, trust)
    }

    /// Reads a batch from a file.
    ///
    /// # Errors
    /// As [`Lwe::from_bytes`], and [`Error::Io`](crate::Error::Io).
    pub fn load(path: impl AsRef<Path>, trust: Trust) -> Result<Self> {
        let check = |header: &Header| {
            header.require(Kind::Lwe)?;
            Lwe::claims(header, trust).map(drop)
        };
        let bytes = disk::read_file(path.as_ref(), trust.limit, check)?;
        Lwe::from_bytes(&bytes, trust)
    }

    /// The batch of a file whose header was checked.
    pub(crate) fn read(file: &Reader, trust: Trust) -> Result<Self> {
        let mut batch = Lwe::claims(file.header(), trust)?;
        file.verify()?;
        let Some((seed, first)) = file.bytes("seed").split_last_chunk::<4>() else {
            require_memory("load", file.bytes("words").len())?;
            batch.data = reduced(&batch.params, file.words("words"))?;
            return Ok(batch);
        };
        let seed = seed.first_chunk::<32>().ok_or_else(|| bad("a seed of 32 bytes", "none"))?;
        let from = (PublicSeed(*seed), u32::from_le_bytes(*first));
        let bodies = reduced(&batch.params, file.words("bodies"))?;
        let (width, slots) = (batch.width(), batch.slots());
        let rows = bodies.len() / slots;
        if from.1.checked_add(u32::try_from(rows).unwrap_or(u32::MAX)).is_none() {
            return Err(bad("at most 2^32 ciphertexts of a seed", "more"));
        }
        require_memory("load", 8 * rows * width)?;
        batch.data = vec![0; rows * width];
        for (row, b) in batch.data.chunks_exact_mut(width).zip(bodies.chunks_exact(slots)) {
            row[width - slots..].copy_from_slice(b);
        }
        batch.draw_masks(from);
        batch.seed = Some(from);
        Ok(batch)
    }

    /// The batch without its masks, if they come from a seed.
    pub(crate) fn seeded(&self) -> Result<Seeded> {
        let (width, slots) = (self.width(), self.slots());
        let from = self.seed.filter(|from| {
            // Drawn again and compared: a wrong seed would be a batch of noise.
            let mut same = self.clone();
            same.draw_masks(*from);
            same.data == self.data
        });
        let Some((PublicSeed(key), first)) = from else {
            return Err(Error::unsupported(
                "save",
                "ciphertexts as they were encrypted, in their order",
                "results, or ciphertexts of several encryptions",
                "save without a seed",
            ));
        };
        let bodies = self.data.chunks_exact(width).flat_map(|row| &row[width - slots..]).copied();
        let mut seed = [0; SEED];
        seed[..32].copy_from_slice(&key);
        seed[32..].copy_from_slice(&first.to_le_bytes());
        Ok(Seeded { bodies: bodies.collect(), seed })
    }

    /// A file of this kind with these words, or their short form.
    pub(crate) fn draft<'a>(&'a self, kind: Kind, seeded: Option<&'a Seeded>) -> Result<Draft<'a>> {
        let (lo, hi) = stored_range(self.encoding, self.range);
        let draft = Draft::new(kind, &self.params)?
            .note("key", key_text(self.key))
            .note("role", role_text(self.role))
            .note("encoding", encoding_text(self.encoding))
            .note("range", format!("[{lo},{hi}]"))
            .note("noise", noise_text(self.noise));
        let rows = self.len() as u64;
        Ok(match seeded {
            None => draft.tensor("words", &[rows, self.width() as u64], Data::Words(&self.data)),
            Some(s) => draft
                .tensor("bodies", &[rows, self.slots() as u64], Data::Words(&s.bodies))
                .tensor("seed", &[SEED as u64], Data::Bytes(&s.seed)),
        })
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
        let outputs = outputs_of(&file.words("outputs"))?;
        let data = reduced(&empty.params, file.words("words"))?;
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

fn reduced(params: &TfheParams, words: Vec<u64>) -> Result<Vec<u64>> {
    if words.iter().all(|w| params.modulus.is_reduced(*w)) {
        return Ok(words);
    }
    Err(bad("words below the modulus", "larger ones"))
}
