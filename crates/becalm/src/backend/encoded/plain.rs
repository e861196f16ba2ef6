//! Plaintexts. Encoded once, a [`Plain`] is added and multiplied any number of times.
//!
//! Its scale is that of its level, s_l, which serves both: a sum wants the scale of the ciphertext, and a product, rescaled, has
//! s_l²/q_l, which is the scale of level l − 1. Where a ciphertext is at another level or scale, the values are encoded for it, so that
//! the result has the same words whether they were encoded before or not.

use crate::ckks::Context;
use crate::math::buffer::or_refused;
use crate::math::complex::Complex;
use crate::math::rns::Scratch;
use crate::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Limbs of a plaintext, and the level and scale that they are for.
#[derive(Clone)]
struct Encoding {
    level: usize,
    scale: f64,
    limbs: Arc<Scratch>,
}

impl Encoding {
    fn of(context: &Context, values: &[Complex], level: usize, scale: f64) -> Encoding {
        Encoding { level, scale, limbs: Arc::new(context.plain(values, scale, level, 0)) }
    }

    fn is_for(&self, level: usize, scale: f64) -> bool {
        (self.level, self.scale) == (level, scale)
    }
}

/// A plaintext: a vector of numbers, encoded at a level.
pub struct Plain {
    params: &'static str,
    pub(in crate::backend) values: Vec<Complex>,
    own: Encoding,
    /// The encoding for the last ciphertext of another level or scale.
    other: Mutex<Option<Encoding>>,
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
        or_refused(op, || {
            let own = Encoding::of(context, values, level, scale);
            let (params, values) = (context.params().name, values.to_vec());
            Ok(Plain { params, values, own, other: Mutex::default() })
        })
    }

    /// The encoded values, with their rounding.
    ///
    /// # Errors
    /// `WrongParams` for one of another set.
    pub fn decode(&self, context: &Context) -> Result<Vec<Complex>> {
        context.check_set("decode", self.params)?;
        let Encoding { level, scale, limbs } = &self.own;
        let mut values = context.values(context.integers(limbs, *level), *scale);
        values.truncate(self.values.len());
        Ok(values)
    }

    /// Name of the parameter set.
    pub fn params(&self) -> &'static str {
        self.params
    }

    /// The level that it was encoded at.
    pub fn level(&self) -> usize {
        self.own.level
    }

    /// The scale: values were multiplied by it before they were rounded to integers.
    pub fn scale(&self) -> f64 {
        self.own.scale
    }

    /// Number of values; one stands for all slots.
    pub fn slots(&self) -> usize {
        self.values.len()
    }

    /// Bytes in memory. A ciphertext of another level or scale adds an encoding for it, of which one is kept.
    pub fn bytes(&self) -> usize {
        let other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        let limbs = other.iter().chain([&self.own]).map(|encoding| encoding.limbs.len());
        limbs.sum::<usize>() * 8 + size_of_val(&*self.values)
    }

    /// The limbs for a ciphertext of a level, at a scale.
    ///
    /// # Errors
    /// `WrongParams` for a plaintext of another set.
    pub(in crate::backend) fn limbs(
        &self,
        context: &Context,
        op: &'static str,
        (level, scale): (usize, f64),
    ) -> Result<Arc<Scratch>> {
        context.check_set(op, self.params)?;
        if self.own.is_for(level, scale) {
            return Ok(self.own.limbs.clone());
        }
        let mut other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = other.take().filter(|encoding| encoding.is_for(level, scale));
        let new = || Encoding::of(context, &self.values, level, scale);
        Ok(other.insert(kept.unwrap_or_else(new)).limbs.clone())
    }
}

/// The largest absolute value.
pub(in crate::backend) fn largest(values: &[Complex]) -> f64 {
    values.iter().map(|v| v.abs()).fold(0.0, f64::max)
}
