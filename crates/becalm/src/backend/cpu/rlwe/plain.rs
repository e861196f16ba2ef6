//! Plaintext operands. Encoded once, a [`Plain`] is added and multiplied any number of times.
//!
//! Its scale is that of its level, s_l, which serves both: a sum wants the scale of the ciphertext, and a product, rescaled, has
//! s_l²/q_l, which is the scale of level l − 1.

use super::sum::Sum;
use crate::cipher::Rlwe;
use crate::ckks::Context;
use crate::ckks::encode::residue;
use crate::math::buffer::or_refused;
use crate::math::complex::Complex;
use crate::math::parallel::*;
use crate::math::rns::Scratch;
use crate::{Error, Result};
use std::borrow::Cow;
use std::sync::Arc;

/// A plaintext: a vector of numbers, encoded at a level.
#[derive(Clone)]
pub struct Plain {
    params: &'static str,
    level: usize,
    scale: f64,
    slots: usize,
    /// Largest absolute value.
    largest: f64,
    limbs: Scratch,
}

impl Plain {
    /// Name of the parameter set.
    pub fn params(&self) -> &'static str {
        self.params
    }

    /// The level that it was encoded at.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The scale: values were multiplied by it before they were rounded to integers.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Number of values; one stands for all slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.limbs.len() * 8
    }
}

impl Context {
    /// Encodes a power of two of values, at most N/2, for ciphertexts at `level` of as many slots; a single one stands for all
    /// slots. The scale is that of the level.
    ///
    /// # Errors
    /// `BadInput` for values or a level that cannot be, and for values that the level has no room for; `Memory` where it ends.
    pub fn encode(&self, values: &[Complex], level: usize) -> Result<Plain> {
        let (op, most) = ("encode", self.params().levels);
        if level > most {
            let remedy = "choose one of these; the levels above belong to bootstraps";
            let wanted = format!("a level from 0 to {most}");
            return Err(Error::bad_input(op, wanted, level.to_string(), remedy));
        }
        self.check_values(op, values)?;
        let scale = self.scale(level)?;
        self.check_room(op, largest(values), level, scale)?;
        or_refused(op, || Ok(self.encoded(values, level, scale)))
    }

    /// The encoded values, with their rounding.
    ///
    /// # Errors
    /// `WrongParams` for one of another set.
    pub fn decode(&self, plain: &Plain) -> Result<Vec<Complex>> {
        self.check_set("decode", plain.params)?;
        let mut values = self.values(self.integers(&plain.limbs, plain.level), plain.scale);
        values.truncate(plain.slots);
        Ok(values)
    }

    fn encoded(&self, values: &[Complex], level: usize, scale: f64) -> Plain {
        let (params, slots, largest) = (self.params().name, values.len(), largest(values));
        Plain { params, level, scale, slots, largest, limbs: self.plain(values, scale, level, 0) }
    }

    /// `a + values`, slot by slot.
    ///
    /// # Errors
    /// `BadInput` for values that cannot be encoded.
    pub(crate) fn add_plain(&self, a: &Rlwe, values: &[Complex]) -> Result<Rlwe> {
        self.check_plain("add", a, values, (a.level, a.scale))?;
        self.add_encoded(a, &self.encoded(values, a.level, a.scale))
    }

    /// `a + plain`, slot by slot, at the lower of the two levels.
    ///
    /// # Errors
    /// `BadInput` for another number of slots or another scale, `WrongParams` for another set.
    pub(crate) fn add_encoded(&self, a: &Rlwe, plain: &Plain) -> Result<Rlwe> {
        let (a, plain) = self.met("add", a, plain)?;
        self.check_same_scale("add", a.scale, plain.scale)?;
        self.check_room("add", plain.largest, a.level, a.scale)?;
        let (n, mut out) = (self.params().degree(), a.into_owned());
        let level = out.level;
        let first = Arc::make_mut(&mut out.parts[0]);
        let limbs = first.par_chunks_mut(n).zip(plain.limbs.par_chunks(n)).enumerate();
        limbs.for_each(|(i, (x, y))| self.ring().add(self.word_of(level, i), x, y));
        Ok(out)
    }

    /// `a·values`, slot by slot, rescaled: one level lower, at the scale of that level.
    ///
    /// # Errors
    /// `BadInput` at level 0 or for values that cannot be encoded.
    pub(crate) fn multiply_plain(&self, a: &Rlwe, values: &[Complex]) -> Result<Rlwe> {
        let level = self.level_below("multiply", a)?;
        let scale = self.scale(level)?;
        self.check_plain("multiply", a, values, (level, scale))?;
        let scale = scale * self.step(a.level);
        self.times(a, &self.encoded(values, a.level, scale / a.scale), scale)
    }

    /// `a·plain`, slot by slot, rescaled: one level below the lower of the two.
    ///
    /// # Errors
    /// `BadInput` at level 0, for another number of slots or values that the level below has no room for, `WrongParams` for what is
    /// of another set.
    pub(crate) fn multiply_encoded(&self, a: &Rlwe, plain: &Plain) -> Result<Rlwe> {
        let op = "multiply";
        let (a, plain) = self.met(op, a, plain)?;
        let below = self.level_below(op, &a)?;
        self.check_room(op, plain.largest, below, self.scale(below)?)?;
        let scale = a.scale * plain.scale;
        self.check_scale(op, below, scale / self.step(a.level))?;
        self.times(&a, &plain, scale)
    }

    /// The product of two at one level, rescaled; `scale` is that of it before.
    fn times(&self, a: &Rlwe, plain: &Plain, scale: f64) -> Result<Rlwe> {
        let (n, mut sum) = (self.params().degree(), Sum::new(self, a, a.level, scale));
        for (x, y) in sum.parts.iter_mut().zip(&a.parts) {
            let limbs = x.par_chunks_mut(n).zip(y.par_chunks(n)).zip(plain.limbs.par_chunks(n));
            limbs.enumerate().for_each(|(i, ((x, y), p))| {
                self.ring().mul(self.word_of(a.level, i), x, y, p);
            });
        }
        Ok(sum.rescale(self, a))
    }

    /// Both at the lower of their levels.
    fn met<'a>(
        &self,
        op: &'static str,
        a: &'a Rlwe,
        plain: &'a Plain,
    ) -> Result<(Cow<'a, Rlwe>, Cow<'a, Plain>)> {
        self.check_set(op, a.params)?;
        self.check_set(op, plain.params)?;
        check_count(op, a.slots, plain.slots)?;
        match a.level > plain.level {
            true => Ok((Cow::Owned(self.level_down(a, plain.level)?), Cow::Borrowed(plain))),
            false => Ok((Cow::Borrowed(a), self.plain_at(plain, a.level)?)),
        }
    }

    /// The same values at `level`, which is not above that of `plain`.
    fn plain_at<'a>(&self, plain: &'a Plain, level: usize) -> Result<Cow<'a, Plain>> {
        if plain.level == level {
            return Ok(Cow::Borrowed(plain));
        }
        let (n, from, scale) = (self.params().degree(), level + 1, self.scale(level)?);
        let factor = (scale * self.step(from) / plain.scale).round();
        let mut limbs = self.ring().scratch(self.words(from) * n);
        // All levels of the user are of one tier: these are the first words of it.
        limbs.par_chunks_mut(n).zip(plain.limbs.par_chunks(n)).enumerate().for_each(
            |(i, (x, y))| {
                let i = self.word_of(from, i);
                x.copy_from_slice(y);
                self.ring().scale(i, x, residue(factor, self.ring().word(i).p));
            },
        );
        let limbs = self.divide(&limbs, from, level, 0);
        Ok(Cow::Owned(Plain { level, scale, limbs, ..*plain }))
    }

    /// Refuses a plaintext of another set, or that does not fit the slots.
    #[cfg(feature = "cuda")]
    pub(in crate::backend) fn check_encoded(
        &self,
        op: &'static str,
        plain: &Plain,
        slots: usize,
    ) -> Result<()> {
        self.check_set(op, plain.params)?;
        check_count(op, slots, plain.slots)
    }

    /// The limbs of the same values at `level`, which is not above that of `plain`.
    #[cfg(feature = "cuda")]
    pub(in crate::backend) fn limbs_at(&self, plain: &Plain, level: usize) -> Result<Scratch> {
        Ok(self.plain_at(plain, level)?.into_owned().limbs)
    }

    /// Refuses values that do not fit the slots of `a`, or that the result, of a level and a scale, has no room for.
    pub(crate) fn check_plain(
        &self,
        op: &'static str,
        a: &Rlwe,
        values: &[Complex],
        (level, scale): (usize, f64),
    ) -> Result<()> {
        self.check_set(op, a.params)?;
        self.check_values(op, values)?;
        self.check_room(op, largest(values), level, scale)?;
        check_count(op, a.slots, values.len())
    }
}

fn check_count(op: &'static str, slots: usize, values: usize) -> Result<()> {
    if values == slots || values == 1 {
        return Ok(());
    }
    let wanted = format!("{slots} values, or one for all slots");
    Err(Error::bad_input(op, wanted, values.to_string(), "pad the values to the slots"))
}

fn largest(values: &[Complex]) -> f64 {
    values.iter().map(|v| v.abs()).fold(0.0, f64::max)
}
