//! Plaintexts beside ciphertexts: sums and products.

use super::arithmetic::level_below;
use super::sum::Sum;
use crate::backend::encoded::{Plain, largest};
use crate::cipher::Rlwe;
use crate::ckks::Context;
use crate::math::complex::Complex;
use crate::math::parallel::*;
use crate::math::rns::Scratch;
use crate::{Error, Result};
use std::sync::Arc;

/// The values of an operand, and their encodings where there are some.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    values: &'a [Complex],
    plain: Option<&'a Plain>,
}

impl<'a, T: AsRef<[Complex]>> From<&'a T> for Operand<'a> {
    fn from(values: &'a T) -> Self {
        Operand { values: values.as_ref(), plain: None }
    }
}

impl<'a> From<&'a Plain> for Operand<'a> {
    fn from(plain: &'a Plain) -> Self {
        Operand { values: &plain.values, plain: Some(plain) }
    }
}

impl Operand<'_> {
    fn limbs(&self, context: &Context, op: &'static str, at: (usize, f64)) -> Result<Arc<Scratch>> {
        let (level, scale) = at;
        match self.plain {
            Some(plain) => plain.limbs(context, op, at),
            None => Ok(Arc::new(context.plain(self.values, scale, level, 0))),
        }
    }
}

/// `a + values`, slot by slot.
///
/// # Errors
/// `BadInput` for values that cannot be encoded or another number of them than slots, `WrongParams` for a plaintext of another set.
pub(super) fn add<'a>(
    context: &Context,
    a: &Rlwe,
    operand: impl Into<Operand<'a>>,
) -> Result<Rlwe> {
    let (op, operand, at) = ("add", operand.into(), (a.level, a.scale));
    check(context, op, a, operand.values, at)?;
    Ok(plus(context, a, &operand.limbs(context, op, at)?))
}

/// `a` + integers of so many bits, place by place.
pub(super) fn add_integers(context: &Context, a: &Rlwe, values: &[Complex], bits: u32) -> Rlwe {
    plus(context, a, &context.plain_integers(values, bits))
}

fn plus(context: &Context, a: &Rlwe, limbs: &[f64]) -> Rlwe {
    let (n, mut out) = (context.params().degree(), a.clone());
    let first = Arc::make_mut(&mut out.parts[0]);
    let limbs = first.par_chunks_mut(n).zip(limbs.par_chunks(n)).enumerate();
    limbs.for_each(|(i, (x, y))| context.ring().add(context.word_of(a.level, i), x, y));
    out
}

/// `a·values`, slot by slot, rescaled: one level lower, at the scale of that level.
///
/// # Errors
/// `BadInput` at level 0; as [`add`].
pub(super) fn multiply<'a>(
    context: &Context,
    a: &Rlwe,
    operand: impl Into<Operand<'a>>,
) -> Result<Rlwe> {
    let (op, operand) = ("multiply", operand.into());
    let level = level_below(context, op, a)?;
    let scale = context.scale(level)?;
    check(context, op, a, operand.values, (level, scale))?;
    let scale = scale * context.step(a.level);
    let limbs = operand.limbs(context, op, (a.level, scale / a.scale))?;
    let (n, mut sum) = (context.params().degree(), Sum::new(context, a, a.level, scale));
    for (x, y) in sum.parts.iter_mut().zip(&a.parts) {
        let limbs = x.par_chunks_mut(n).zip(y.par_chunks(n)).zip(limbs.par_chunks(n));
        limbs.enumerate().for_each(|(i, ((x, y), p))| {
            context.ring().mul(context.word_of(a.level, i), x, y, p);
        });
    }
    Ok(sum.rescale(context, a))
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
    if [a.slots, 1].contains(&values.len()) {
        return Ok(());
    }
    let wanted = format!("{} values, or one for all slots", a.slots);
    let remedy = "pad the values to the slots";
    Err(Error::bad_input(op, wanted, values.len().to_string(), remedy))
}
