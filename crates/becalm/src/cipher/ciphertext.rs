//! Batches of ciphertexts. A batch is the unit: one ciphertext is a batch of one.

use super::{Encoding, KeyId, KeyRole};
use crate::math::buffer::reserved;
use crate::math::random::{Domain, MaskStream, PublicSeed};
use crate::math::sampling::uniform;
use crate::params::TfheParams;
use crate::progress::tell;
use crate::{Error, Progress, Result, UNWATCHED};
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Ciphertexts that are copied before work can stop.
const TELL: usize = 1024;

/// A batch of LWE ciphertexts: `len` rows (a_1 … a_d, b_1 … b_w) with phases b_j − ⟨a, s_j⟩. Sets with a common mask have
/// w > 1 bodies, each under its own key; all others one.
#[derive(Clone)]
pub struct Lwe {
    pub(crate) params: Arc<TfheParams>,
    pub(crate) key: KeyId,
    pub(crate) role: KeyRole,
    pub(crate) encoding: Encoding,
    /// Least and greatest value that any of the messages may have, as the public operations imply.
    pub(crate) range: (i64, i64),
    /// Variance of the phase error, torus units; the worst of the batch.
    pub(crate) noise: f64,
    /// Straight from encryption or a bootstrap: its noise is independent of every batch that is not a copy.
    pub(crate) independent: bool,
    /// Where the masks come from, of a fresh encryption: the seed, and the place of the first ciphertext among all that were
    /// drawn from it. A matter of files: one seed stands for all masks.
    pub(crate) seed: Option<(PublicSeed, u32)>,
    pub(crate) data: Vec<u64>,
}

/// One result that is taken from a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Which coefficient of the rotated polynomial is extracted.
    pub index: usize,
    /// Where its values lie.
    pub encoding: Encoding,
    /// Least and greatest value that it may have.
    pub range: (i64, i64),
}

/// One GLWE ciphertext (A_1 … A_k, B) under the big key, phase B − Σ A_i·S_i; as an encrypted lookup table. Its entries are
/// secret; what it may be asked and what comes out is public.
#[derive(Clone)]
pub struct Glwe {
    pub(crate) params: Arc<TfheParams>,
    pub(crate) key: KeyId,
    /// The encoding of the values looked up; below a padding bit.
    pub(crate) input: Encoding,
    /// Values 0 ..= limit may be looked up.
    pub(crate) limit: i64,
    /// The outputs, one ciphertext for each.
    pub(crate) outputs: Vec<Output>,
    /// Variance of the phase error of a coefficient, torus units.
    pub(crate) noise: f64,
    pub(crate) data: Vec<u64>,
}

/// Anything that a register of a program can hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ciphertext {
    /// LWE ciphertexts.
    Lwe(Lwe),
    /// An encrypted lookup table.
    Glwe(Glwe),
}

impl Lwe {
    /// Number of ciphertexts in the batch.
    pub fn len(&self) -> usize {
        self.data.len() / self.width()
    }

    /// True if the batch holds nothing.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Words in one ciphertext: the dimension of the mask plus one for each message.
    pub fn width(&self) -> usize {
        self.role.width(&self.params)
    }

    /// Messages in one ciphertext.
    pub fn slots(&self) -> usize {
        self.role.bodies(&self.params)
    }

    /// The parameter set.
    pub fn params(&self) -> &Arc<TfheParams> {
        &self.params
    }

    /// Identity of the secret key.
    pub fn key_id(&self) -> KeyId {
        self.key
    }

    /// Which secret key of the set.
    pub fn role(&self) -> KeyRole {
        self.role
    }

    /// Where messages lie.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Least and greatest value that any of the messages may have.
    pub fn range(&self) -> (i64, i64) {
        self.range
    }

    /// Variance of the phase error in torus units, by the noise formulas.
    pub fn noise_variance(&self) -> f64 {
        self.noise
    }

    /// The words, one ciphertext after another.
    pub fn words(&self) -> &[u64] {
        &self.data
    }

    /// Bytes that the batch takes.
    pub fn bytes(&self) -> usize {
        self.data.len() * 8
    }

    /// Draws the mask of the ciphertext at `place` among all of a seed.
    pub(crate) fn draw_mask(&self, seed: &PublicSeed, place: u32, mask: &mut [u64]) {
        let mut stream = MaskStream::new(seed, Domain::Ciphertext, place);
        uniform(&mut stream, self.params.modulus, mask);
    }

    /// The ciphertexts of a part of the batch.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the range ends past the batch.
    pub fn slice(&self, lanes: std::ops::Range<usize>) -> Result<Lwe> {
        self.slice_with(lanes, UNWATCHED)
    }

    /// [`Lwe::slice`]; `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`Lwe::slice`], and [`Error::Interrupted`].
    pub fn slice_with(&self, lanes: std::ops::Range<usize>, progress: Progress) -> Result<Lwe> {
        if lanes.start > lanes.end || lanes.end > self.len() {
            return Err(self.outside(format!("{lanes:?}")));
        }
        let width = self.width();
        let words = &self.data[lanes.start * width..lanes.end * width];
        let mut data = reserved("slice", words.len())?;
        for (i, part) in words.chunks(TELL * width).enumerate() {
            tell("slice", progress, i * TELL, lanes.len())?;
            data.extend_from_slice(part);
        }
        Ok(Lwe { data, seed: self.seed_from(lanes.start), ..self.empty_like() })
    }

    /// The ciphertexts of these places, in their order, repeated where they repeat.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a place past the batch; [`Error::Memory`] where they do not fit.
    pub fn gather(&self, lanes: &[u64]) -> Result<Lwe> {
        self.gather_with(lanes, UNWATCHED)
    }

    /// [`Lwe::gather`]; `progress` is told how far it is, and can stop it.
    ///
    /// # Errors
    /// As [`Lwe::gather`], and [`Error::Interrupted`].
    pub fn gather_with(&self, lanes: &[u64], progress: Progress) -> Result<Lwe> {
        if let Some(lane) = lanes.iter().find(|lane| **lane >= self.len() as u64) {
            return Err(self.outside(lane.to_string()));
        }
        let width = self.width();
        let mut data = reserved("index", lanes.len().saturating_mul(width))?;
        let follows = |a: &u64, b: &u64| a + 1 == *b;
        for (i, part) in lanes.chunks(TELL).enumerate() {
            tell("index", progress, i * TELL, lanes.len())?;
            // Neighbours are copied as one.
            for run in part.chunk_by(follows) {
                let from = run[0] as usize;
                data.extend_from_slice(&self.data[from * width..(from + run.len()) * width]);
            }
        }
        let one = lanes.windows(2).all(|pair| follows(&pair[0], &pair[1]));
        let from = lanes.first().map_or(0, |lane| *lane as usize);
        let seed = if one { self.seed_from(from) } else { None };
        Ok(Lwe { data, seed, ..self.empty_like() })
    }

    fn outside(&self, got: String) -> Error {
        let wanted = format!("lanes within 0..{}", self.len());
        Error::bad_input("slice", wanted, got, "ask for ciphertexts that the batch has")
    }

    /// Where the masks of the ciphertexts from `lane` on come from.
    fn seed_from(&self, lane: usize) -> Option<(PublicSeed, u32)> {
        self.seed.and_then(|s| Some((s.0, s.1.checked_add(lane.try_into().ok()?)?)))
    }

    /// A batch of the same kind with nothing in it.
    pub(crate) fn empty_like(&self) -> Lwe {
        Lwe { params: self.params.clone(), data: Vec::new(), seed: None, ..*self }
    }

    /// The same batch again, for the call `op`.
    ///
    /// # Errors
    /// [`Error::Memory`] where it does not fit.
    pub fn copied(&self, op: &'static str) -> Result<Lwe> {
        let mut data = reserved(op, self.data.len())?;
        data.extend_from_slice(&self.data);
        Ok(Lwe { data, seed: self.seed, ..self.empty_like() })
    }

    /// Batches of the same kind as one; the noise is that of the worst, the range covers all.
    ///
    /// # Errors
    /// [`Error::BadInput`] if there is no batch; as [`Lwe::require_like`].
    pub fn concat<B: Borrow<Lwe>>(batches: &[B]) -> Result<Lwe> {
        let mut all = Lwe::together(batches)?;
        all.data = reserved("concat", batches.iter().map(|b| b.borrow().data.len()).sum())?;
        batches.iter().for_each(|b| all.data.extend_from_slice(&b.borrow().data));
        Ok(all)
    }

    /// [`Lwe::concat`] without the words.
    pub(crate) fn together<B: Borrow<Lwe>>(batches: &[B]) -> Result<Lwe> {
        let mut left = batches.iter().map(Borrow::borrow);
        let Some(first) = left.next() else {
            return Err(Error::bad_input("concat", "at least one batch", "none", "pass a batch"));
        };
        let (mut all, mut lanes) = (Lwe { seed: first.seed, ..first.empty_like() }, first.len());
        for b in left {
            first.require_like(b, "concat")?;
            // Parts of one encryption in their order are that encryption.
            let next = |s: (PublicSeed, u32)| Some((s.0, s.1.checked_add(lanes.try_into().ok()?)?));
            all.seed = all.seed.filter(|s| b.seed.is_some() && next(*s) == b.seed);
            lanes += b.len();
            all.noise = all.noise.max(b.noise);
            all.independent &= b.independent;
            all.range = (all.range.0.min(b.range.0), all.range.1.max(b.range.1));
        }
        Ok(all)
    }

    /// Refuses a batch of another parameter set, key, role or encoding.
    ///
    /// # Errors
    /// [`Error::WrongParams`], [`Error::WrongKey`] or [`Error::BadInput`], whichever differs first.
    pub fn require_like(&self, other: &Lwe, op: &'static str) -> Result<()> {
        if self.params != other.params {
            return Err(Error::wrong_params(
                op,
                format!("ciphertexts of {}", self.params.name),
                other.params.name.to_string(),
                "use ciphertexts of one parameter set",
            ));
        }
        if self.key != other.key || self.role != other.role {
            return Err(Error::wrong_key(
                op,
                format!("{} of {}", self.role, self.key),
                format!("{} of {}", other.role, other.key),
                "use ciphertexts under one key",
            ));
        }
        if self.encoding != other.encoding {
            return Err(Error::bad_input(
                op,
                self.encoding.to_string(),
                other.encoding.to_string(),
                "encode both alike, or bootstrap one into the other's encoding",
            ));
        }
        Ok(())
    }
}

impl Glwe {
    /// The parameter set.
    pub fn params(&self) -> &Arc<TfheParams> {
        &self.params
    }

    /// Identity of the secret key.
    pub fn key_id(&self) -> KeyId {
        self.key
    }

    /// The encoding of the values looked up.
    pub fn input(&self) -> Encoding {
        self.input
    }

    /// The greatest value that may be looked up; the least is 0.
    pub fn limit(&self) -> i64 {
        self.limit
    }

    /// The outputs of a lookup.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Variance of the phase error of a coefficient, torus units.
    pub fn noise_variance(&self) -> f64 {
        self.noise
    }

    /// The k+1 polynomials, N words each; for an extended rotation those of each accumulator, one after another.
    pub fn words(&self) -> &[u64] {
        &self.data
    }

    /// Refuses public metadata that no table over padded values has.
    pub(crate) fn check_metadata(&self) -> Result<()> {
        let refuse = |wanted: String, got: String, remedy: &str| {
            Err(Error::bad_input("encrypted table", wanted, got, remedy))
        };
        let (values, n) = (self.input.checked()?.values as i64, self.params.table_size());
        if !self.input.padding {
            return refuse(
                "an input encoding with a padding bit".into(),
                "none".into(),
                "encode with Encoding::padded, or use a plaintext table",
            );
        }
        if !(0..values).contains(&self.limit) {
            return refuse(
                format!("a greatest value looked up from 0 to {}", values - 1),
                self.limit.to_string(),
                "build the table with Table::with",
            );
        }
        if !(1..=n).contains(&self.outputs.len()) {
            return refuse(
                format!("1 to {n} outputs"),
                self.outputs.len().to_string(),
                "extract each coefficient once",
            );
        }
        for o in &self.outputs {
            let values = o.encoding.checked()?.values as i64;
            if o.index >= n || o.range.0 < 0 || o.range.0 > o.range.1 || o.range.1 >= values {
                return refuse(
                    format!("outputs of a coefficient below {n}, in a range of their encoding"),
                    format!("{o:?}"),
                    "build the table with Table::with and Table::extract",
                );
            }
        }
        Ok(())
    }
}

impl Ciphertext {
    /// Identity of the secret key.
    pub fn key_id(&self) -> KeyId {
        match self {
            Ciphertext::Lwe(c) => c.key,
            Ciphertext::Glwe(c) => c.key,
        }
    }

    /// The parameter set.
    pub fn params(&self) -> &Arc<TfheParams> {
        match self {
            Ciphertext::Lwe(c) => &c.params,
            Ciphertext::Glwe(c) => &c.params,
        }
    }
}

impl From<Lwe> for Ciphertext {
    fn from(c: Lwe) -> Self {
        Ciphertext::Lwe(c)
    }
}

impl From<Glwe> for Ciphertext {
    fn from(c: Glwe) -> Self {
        Ciphertext::Glwe(c)
    }
}

impl fmt::Debug for Lwe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = &self.params;
        write!(
            f,
            "Lwe({} × {} values of {}, {:?} key {}, noise 2^{:.2})",
            self.len(),
            self.encoding.values,
            p.name,
            self.role,
            self.key,
            self.noise.sqrt().log2()
        )
    }
}

impl fmt::Debug for Glwe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Glwe(0 to {} of {} values to {} outputs, {}, key {}, noise 2^{:.2})",
            self.limit,
            self.input.values,
            self.outputs.len(),
            self.params.name,
            self.key,
            self.noise.sqrt().log2()
        )
    }
}
