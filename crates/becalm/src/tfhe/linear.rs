//! Linear operations on batches, lane by lane: no key, no bootstrap.
//!
//! Noise is added as standard deviations, not variances: right for any correlation between the operands, `x + x`
//! included. Programs ([`crate::program`]) follow correlations and are tighter.

use crate::cipher::Lwe;
use crate::math::Modulus;
use crate::math::buffer::reserved;
use crate::{Error, Result};

impl Lwe {
    /// `self + other`.
    ///
    /// # Errors
    /// [`Error::BadInput`] for batches of different length or encoding, [`Error::WrongKey`], [`Error::WrongParams`].
    pub fn add(&self, other: &Lwe) -> Result<Lwe> {
        self.combine(other, "add", 1, Modulus::add)
    }

    /// `self − other`.
    ///
    /// # Errors
    /// As [`Lwe::add`].
    pub fn sub(&self, other: &Lwe) -> Result<Lwe> {
        self.combine(other, "sub", -1, Modulus::sub)
    }

    /// `factor · self`.
    ///
    /// # Errors
    /// [`Error::BadInput`] if values could leave 64 bits.
    pub fn scale(&self, factor: i64) -> Result<Lwe> {
        let q = self.params.modulus;
        let f = q.from_signed(factor);
        let ends = (self.range.0.checked_mul(factor), self.range.1.checked_mul(factor));
        let (Some(a), Some(b)) = ends else {
            return Err(Error::bad_input(
                "scale",
                "a product within 64 bits",
                format!("{factor} times {:?}", self.range),
                "use a smaller factor",
            ));
        };
        let noise = self.noise * (factor as f64).powi(2);
        let mut data = reserved("scale", self.data.len())?;
        data.extend(self.data.iter().map(|w| q.mul(*w, f)));
        Ok(Lwe {
            data,
            noise,
            range: (a.min(b), a.max(b)),
            independent: false,
            ..self.empty_like()
        })
    }

    /// `−self`.
    ///
    /// # Errors
    /// As [`Lwe::scale`].
    pub fn negate(&self) -> Result<Lwe> {
        self.scale(-1)
    }

    /// `self + value`, one value for the whole batch.
    ///
    /// # Errors
    /// [`Error::BadInput`] if values could leave 64 bits.
    pub fn add_constant(&self, value: i64) -> Result<Lwe> {
        self.add_constants(&vec![value; self.slots()])
    }

    /// `self + values[slot]` in each slot, the same for the whole batch.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another number of constants than slots, or if values could leave 64 bits.
    pub fn add_constants(&self, values: &[i64]) -> Result<Lwe> {
        let (slots, width) = (self.slots(), self.width());
        let ends = values.iter().min().zip(values.iter().max()).filter(|_| values.len() == slots);
        let Some((least, most)) = ends else {
            let remedy = "give one constant for each slot";
            let wanted = format!("{slots} constants");
            return Err(Error::bad_input("add_constant", wanted, values.len().to_string(), remedy));
        };
        let ends = (self.range.0.checked_add(*least), self.range.1.checked_add(*most));
        let (Some(a), Some(b)) = ends else {
            return Err(Error::bad_input(
                "add_constant",
                "a sum within 64 bits",
                format!("constants from {least} to {most}"),
                "use smaller constants",
            ));
        };
        let q = self.params.modulus;
        let torus: Vec<u64> = values.iter().map(|v| self.encoding.encode(q, *v)).collect();
        let mut sum = self.copied("add_constant")?;
        for ct in sum.data.chunks_exact_mut(width) {
            for (body, torus) in ct[width - slots..].iter_mut().zip(&torus) {
                *body = q.add(*body, *torus);
            }
        }
        sum.range = (a, b);
        sum.independent = false;
        Ok(sum)
    }

    fn combine(
        &self,
        other: &Lwe,
        op: &'static str,
        sign: i64,
        f: impl Fn(Modulus, u64, u64) -> u64,
    ) -> Result<Lwe> {
        self.require_like(other, op)?;
        if self.len() != other.len() {
            return Err(Error::bad_input(
                op,
                format!("{} ciphertexts", self.len()),
                other.len().to_string(),
                "use batches of one length",
            ));
        }
        let q = self.params.modulus;
        let mut data = reserved(op, self.data.len())?;
        data.extend(self.data.iter().zip(&other.data).map(|(a, b)| f(q, *a, *b)));
        let (a, b) = if sign > 0 {
            other.range
        } else {
            (other.range.1.saturating_neg(), other.range.0.saturating_neg())
        };
        let range = (self.range.0.saturating_add(a), self.range.1.saturating_add(b));
        let noise = (self.noise.sqrt() + other.noise.sqrt()).powi(2);
        Ok(Lwe { data, noise, range, independent: false, ..self.empty_like() })
    }
}
