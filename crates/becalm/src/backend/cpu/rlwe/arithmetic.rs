//! Arithmetic on ciphertexts that needs no key: sums, levels, rescaling.
//!
//! A ciphertext decrypts to m while |s·m| stays below half of the modulus that is decrypted; beyond, it wraps, and only
//! the owner of the key could tell. So [`Chain::largest`] is the bound of a level, and public numbers, a scale or
//! plaintext values, raise an error where they alone exceed it.

use super::residues::add_to_values;
use super::sum::{Sum, empty, truncate};
use crate::cipher::Rlwe;
use crate::ckks::{Chain, Context, same_scale};
use crate::math::complex::Complex;
use crate::math::parallel::*;
use crate::{Error, Result};
use std::borrow::Cow;
use std::sync::Arc;

/// The same values at a lower level, at the scale of that level.
///
/// # Errors
/// `BadInput` for a level above that of the ciphertext.
pub(super) fn level_down(context: &Context, x: &Rlwe, level: usize) -> Result<Rlwe> {
    context.check_set("level down", x.params)?;
    if level > x.level {
        let (wanted, got) = (format!("a level of at most {}", x.level), level.to_string());
        let remedy = "bootstrap to get levels back";
        return Err(Error::bad_input("level down", wanted, got, remedy));
    }
    let scale = context.scale(level)?;
    if level == x.level || same_scale(x.scale, scale) {
        return Ok(truncate(context, x, level));
    }
    let x = truncate(context, x, level + 1);
    let mut sum = Sum::new(context, &x, level + 1, scale * context.step(level + 1));
    sum.add_multiple(context, &x, 1.0);
    Ok(sum.rescale(context, &x))
}

/// The same values one level lower, the scale divided by q of the level. Products rescale by themselves; this is for what
/// has a scale far above that of its level, s²: at s the scale left is about 1, and the error says that nothing is.
///
/// # Errors
/// `BadInput` at level 0, `WrongParams` for a ciphertext of another set.
pub(super) fn rescale(context: &Context, x: &Rlwe) -> Result<Rlwe> {
    context.check_set("rescale", x.params)?;
    level_below(context, "rescale", x)?;
    let mut sum = Sum::new(context, x, x.level, x.scale);
    sum.add_multiple(context, x, 1.0);
    Ok(sum.rescale(context, x))
}

/// Refuses two ciphertexts of different sets, keys or slots.
fn check_together(context: &Context, op: &'static str, a: &Rlwe, b: &Rlwe) -> Result<()> {
    context.check_set(op, a.params)?;
    context.check_set(op, b.params)?;
    if a.key != b.key {
        let remedy = "encrypt both with one key";
        return Err(Error::wrong_key(op, format!("key {}", a.key), b.key.to_string(), remedy));
    }
    if a.slots != b.slots {
        let wanted = format!("{} slots", a.slots);
        return Err(Error::bad_input(
            op,
            wanted,
            b.slots.to_string(),
            "encrypt vectors of one length",
        ));
    }
    Ok(())
}

/// Two ciphertexts at the lower of their levels.
pub(super) fn aligned<'a>(
    context: &Context,
    op: &'static str,
    a: &'a Rlwe,
    b: &'a Rlwe,
) -> Result<[Cow<'a, Rlwe>; 2]> {
    check_together(context, op, a, b)?;
    let level = a.level.min(b.level);
    Ok([down(context, a, level)?, down(context, b, level)?])
}

/// [`level_down`] where the level is another.
pub(in crate::backend) fn down<'a>(
    context: &Context,
    x: &'a Rlwe,
    level: usize,
) -> Result<Cow<'a, Rlwe>> {
    match x.level == level {
        true => Ok(Cow::Borrowed(x)),
        false => level_down(context, x, level).map(Cow::Owned),
    }
}

fn sum_of(context: &Context, op: &'static str, a: &Rlwe, b: &Rlwe, subtract: bool) -> Result<Rlwe> {
    let [a, b] = aligned(context, op, a, b)?;
    check_same_scale(op, a.scale, b.scale)?;
    let (ring, n, words) =
        (context.ring(), context.params().degree(), context.words_of(a.level, 0));
    let mut out = empty(&a);
    out.parts = [0, 1].map(|k| {
        let (x, y) = (a.parts[k].par_chunks(n), b.parts[k].par_chunks(n));
        let mut part = ring.scratch(a.parts[k].len());
        part.par_chunks_mut(n).zip(x.zip(y)).enumerate().for_each(|(i, (out, (x, y)))| {
            match subtract {
                true => ring.difference(words[i], out, x, y),
                false => ring.sum(words[i], out, x, y),
            }
        });
        Arc::new(part)
    });
    Ok(out)
}

/// `a + b`, at the lower of the two levels.
///
/// # Errors
/// `WrongKey`, `WrongParams`, `BadInput` for ciphertexts that do not go together.
pub(super) fn add(context: &Context, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
    sum_of(context, "add", a, b, false)
}

/// `a − b`, at the lower of the two levels.
///
/// # Errors
/// As [`add`].
pub(super) fn subtract(context: &Context, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
    sum_of(context, "subtract", a, b, true)
}

/// `−a`.
pub(super) fn negate(a: &Rlwe) -> Rlwe {
    let mut out = a.clone();
    let parts = out.parts.iter_mut().map(Arc::make_mut);
    parts.for_each(|p| p.par_iter_mut().for_each(|x| *x = -*x));
    out
}

/// `a·c` for a real number, rescaled: one level lower.
///
/// # Errors
/// `BadInput` at level 0 or for a number that is not finite.
pub(super) fn multiply_constant(context: &Context, a: &Rlwe, c: f64) -> Result<Rlwe> {
    let level = level_below(context, "multiply", a)?;
    let scale = context.scale(level)?;
    check_constant(context, "multiply", a, c, (level, scale))?;
    let mut sum = Sum::new(context, a, a.level, scale * context.step(a.level));
    sum.add_multiple(context, a, c);
    Ok(sum.rescale(context, a))
}

/// Σ c·x of ciphertexts above `level`, at its scale.
///
/// # Errors
/// As [`multiply_constant`]; `BadInput` for no terms.
pub(super) fn weighted_sum(
    context: &Context,
    terms: &[(&Rlwe, f64)],
    level: usize,
) -> Result<Rlwe> {
    let op = "weighted sum";
    let Some((first, _)) = terms.first() else {
        return Err(Error::bad_input(op, "one term or more", "none", "pass some terms"));
    };
    let scale = context.scale(level)?;
    let mut sum = Sum::new(context, first, level + 1, scale * context.step(level + 1));
    for (x, c) in terms {
        check_together(context, op, first, x)?;
        check_constant(context, op, x, *c, (level, scale))?;
        sum.add_multiple(context, x, *c);
    }
    Ok(sum.rescale(context, first))
}

/// `a + c` in every slot.
pub(super) fn add_constant(context: &Context, a: &mut Rlwe, c: f64) {
    let (level, first) = (a.level, Arc::make_mut(&mut a.parts[0]));
    add_to_values(context, &mut first[..], level, c * a.scale);
}

/// `i·a`: a product with X^(N/2), exact and without a level.
///
/// # Errors
/// `WrongParams` for a ciphertext of another set.
pub(super) fn multiply_i(context: &Context, a: &Rlwe) -> Result<Rlwe> {
    context.check_set("multiply by i", a.params)?;
    let (n, mut out) = (context.params().degree(), empty(a));
    out.parts = [0, 1].map(|k| {
        let mut part = context.ring().scratch(a.parts[k].len());
        part.par_chunks_mut(n).zip(a.parts[k].par_chunks(n)).enumerate().for_each(|(i, (x, y))| {
            let i = context.word_of(a.level, i);
            context.ring().mul(i, x, y, &context.ring().imaginary(i));
        });
        Arc::new(part)
    });
    Ok(out)
}

/// Refuses a factor that is not finite, or that the product, of a level and a scale, has no room for.
fn check_constant(
    context: &Context,
    op: &'static str,
    x: &Rlwe,
    c: f64,
    (level, scale): (usize, f64),
) -> Result<()> {
    context.check_set(op, x.params)?;
    context.check_values(op, &[Complex::from(c)])?;
    context.check_room(op, c.abs(), level, scale)
}

/// Refuses a scale at which not even 1 has room: it is public, and says nothing of the values.
pub(super) fn check_scale(chain: &Chain, op: &'static str, level: usize, scale: f64) -> Result<()> {
    let most = chain.room(level);
    if (1.0..most).contains(&scale) {
        return Ok(());
    }
    let wanted = format!("a scale below 2^{:.0} at level {level}", most.log2());
    let remedy = "use ciphertexts at the scale of their level: `level_down` brings them there";
    Err(Error::bad_input(op, wanted, format!("2^{:.1}", scale.log2()), remedy))
}

/// Refuses terms whose scales differ.
pub(super) fn check_same_scale(op: &'static str, a: f64, b: f64) -> Result<()> {
    if same_scale(a, b) {
        return Ok(());
    }
    let (wanted, got) = (format!("scale 2^{:.6}", a.log2()), format!("2^{:.6}", b.log2()));
    Err(Error::bad_input(op, wanted, got, "bring both to the scale of their level"))
}

/// The level below that of a ciphertext.
pub(super) fn level_below(chain: &Chain, op: &'static str, a: &Rlwe) -> Result<usize> {
    chain.require_level(op, 1, a.level, "")?;
    Ok(a.level - 1)
}
