//! Plaintext operands. Encoded once, a [`Plain`] is added and multiplied any number of times.
//!
//! Its scale is that of its level, s_l, which serves both: a sum wants the scale of the ciphertext, and a product, rescaled, has
//! s_l²/q_l, which is the scale of level l − 1.

use super::arithmetic::{check_same_scale, check_scale, level_below, level_down};
use super::residues::divide;
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
    /// Encodes a power of two of values, at most N/2, for ciphertexts at `level` of as many slots; a single one stands for all
    /// slots. The scale is that of the level.
    ///
    /// # Errors
    /// `BadInput` for values or a level that cannot be, and for values that the level has no room for; `Memory` where it ends.
    pub fn new(context: &Context, values: &[Complex], level: usize) -> Result<Plain> {
        let (op, most) = ("encode", context.params().levels);
        if level > most {
            let remedy = "choose one of these; the levels above belong to bootstraps";
            let wanted = format!("a level from 0 to {most}");
            return Err(Error::bad_input(op, wanted, level.to_string(), remedy));
        }
        context.check_values(op, values)?;
        let scale = context.scale(level)?;
        context.check_room(op, largest(values), level, scale)?;
        or_refused(op, || Ok(Plain::of(context, values, level, scale)))
    }

    /// The encoded values, with their rounding.
    ///
    /// # Errors
    /// `WrongParams` for one of another set.
    pub fn decode(&self, context: &Context) -> Result<Vec<Complex>> {
        context.check_set("decode", self.params)?;
        let mut values = context.values(context.integers(&self.limbs, self.level), self.scale);
        values.truncate(self.slots);
        Ok(values)
    }

    fn of(context: &Context, values: &[Complex], level: usize, scale: f64) -> Plain {
        let (params, slots, largest) = (context.params().name, values.len(), largest(values));
        Plain {
            params,
            level,
            scale,
            slots,
            largest,
            limbs: context.plain(values, scale, level, 0),
        }
    }

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

    /// The same values at `level`, which is not above its own.
    fn at(&self, context: &Context, level: usize) -> Result<Cow<'_, Plain>> {
        if self.level == level {
            return Ok(Cow::Borrowed(self));
        }
        let (n, from, scale) = (context.params().degree(), level + 1, context.scale(level)?);
        let factor = (scale * context.step(from) / self.scale).round();
        let mut limbs = context.ring().scratch(context.words(from) * n);
        // All levels of the user are of one tier: these are the first words of it.
        limbs.par_chunks_mut(n).zip(self.limbs.par_chunks(n)).enumerate().for_each(
            |(i, (x, y))| {
                let i = context.word_of(from, i);
                x.copy_from_slice(y);
                context.ring().scale(i, x, residue(factor, context.ring().word(i).p));
            },
        );
        let limbs = divide(context, &limbs, from, level, 0);
        Ok(Cow::Owned(Plain { level, scale, limbs, ..*self }))
    }

    /// Refuses a plaintext of another set, or that does not fit the slots.
    #[cfg(feature = "cuda")]
    pub(in crate::backend) fn check(
        &self,
        context: &Context,
        op: &'static str,
        slots: usize,
    ) -> Result<()> {
        context.check_set(op, self.params)?;
        check_count(op, slots, self.slots)
    }

    /// The limbs of the same values at `level`, which is not above its own.
    #[cfg(feature = "cuda")]
    pub(in crate::backend) fn limbs_at(&self, context: &Context, level: usize) -> Result<Scratch> {
        Ok(self.at(context, level)?.into_owned().limbs)
    }
}

/// `a + values`, slot by slot.
///
/// # Errors
/// `BadInput` for values that cannot be encoded.
pub(super) fn add_plain(context: &Context, a: &Rlwe, values: &[Complex]) -> Result<Rlwe> {
    check(context, "add", a, values, (a.level, a.scale))?;
    add_encoded(context, a, &Plain::of(context, values, a.level, a.scale))
}

/// `a + plain`, slot by slot, at the lower of the two levels.
///
/// # Errors
/// `BadInput` for another number of slots or another scale, `WrongParams` for another set.
pub(super) fn add_encoded(context: &Context, a: &Rlwe, plain: &Plain) -> Result<Rlwe> {
    let (a, plain) = met(context, "add", a, plain)?;
    check_same_scale("add", a.scale, plain.scale)?;
    context.check_room("add", plain.largest, a.level, a.scale)?;
    let (n, mut out) = (context.params().degree(), a.into_owned());
    let level = out.level;
    let first = Arc::make_mut(&mut out.parts[0]);
    let limbs = first.par_chunks_mut(n).zip(plain.limbs.par_chunks(n)).enumerate();
    limbs.for_each(|(i, (x, y))| context.ring().add(context.word_of(level, i), x, y));
    Ok(out)
}

/// `a·values`, slot by slot, rescaled: one level lower, at the scale of that level.
///
/// # Errors
/// `BadInput` at level 0 or for values that cannot be encoded.
pub(super) fn multiply_plain(context: &Context, a: &Rlwe, values: &[Complex]) -> Result<Rlwe> {
    let level = level_below(context, "multiply", a)?;
    let scale = context.scale(level)?;
    check(context, "multiply", a, values, (level, scale))?;
    let scale = scale * context.step(a.level);
    times(context, a, &Plain::of(context, values, a.level, scale / a.scale), scale)
}

/// `a·plain`, slot by slot, rescaled: one level below the lower of the two.
///
/// # Errors
/// `BadInput` at level 0, for another number of slots or values that the level below has no room for, `WrongParams` for what is
/// of another set.
pub(super) fn multiply_encoded(context: &Context, a: &Rlwe, plain: &Plain) -> Result<Rlwe> {
    let op = "multiply";
    let (a, plain) = met(context, op, a, plain)?;
    let below = level_below(context, op, &a)?;
    context.check_room(op, plain.largest, below, context.scale(below)?)?;
    let scale = a.scale * plain.scale;
    check_scale(context, op, below, scale / context.step(a.level))?;
    times(context, &a, &plain, scale)
}

/// The product of two at one level, rescaled; `scale` is that of it before.
fn times(context: &Context, a: &Rlwe, plain: &Plain, scale: f64) -> Result<Rlwe> {
    let (n, mut sum) = (context.params().degree(), Sum::new(context, a, a.level, scale));
    for (x, y) in sum.parts.iter_mut().zip(&a.parts) {
        let limbs = x.par_chunks_mut(n).zip(y.par_chunks(n)).zip(plain.limbs.par_chunks(n));
        limbs.enumerate().for_each(|(i, ((x, y), p))| {
            context.ring().mul(context.word_of(a.level, i), x, y, p);
        });
    }
    Ok(sum.rescale(context, a))
}

/// Both at the lower of their levels.
fn met<'a>(
    context: &Context,
    op: &'static str,
    a: &'a Rlwe,
    plain: &'a Plain,
) -> Result<(Cow<'a, Rlwe>, Cow<'a, Plain>)> {
    context.check_set(op, a.params)?;
    context.check_set(op, plain.params)?;
    check_count(op, a.slots, plain.slots)?;
    match a.level > plain.level {
        true => Ok((Cow::Owned(level_down(context, a, plain.level)?), Cow::Borrowed(plain))),
        false => Ok((Cow::Borrowed(a), plain.at(context, a.level)?)),
    }
}

/// Refuses values that do not fit the slots of `a`, or that the result, of a level and a scale, has no room for.
fn check(
    context: &Context,
    op: &'static str,
    a: &Rlwe,
    values: &[Complex],
    (level, scale): (usize, f64),
) -> Result<()> {
    context.check_set(op, a.params)?;
    context.check_values(op, values)?;
    context.check_room(op, largest(values), level, scale)?;
    check_count(op, a.slots, values.len())
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
