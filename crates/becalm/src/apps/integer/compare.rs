//! Comparisons: the sign of Σ 4^i·(aᵢ − bᵢ) is the sign of its highest digit that is not zero.
//!
//! Signs merge by the sign of weighted sums, 2x + s for a digit difference and a sign below it, 8s₃ + 4s₂ + 2s₁ + s₀ for
//! four signs: odd functions of −15 ..= 15, which fill the torus without a padding bit. For n digits about n + n/6 + 1
//! bootstraps, 3 + log₄(n/8) deep. Equality: all differences are zero (`zero`).

use super::arithmetic::pack;
use super::sign::Ask;
use super::{MAX_BITS, Type, Word};
use crate::apps::circuit::{Circuit, Sum};
use crate::{Error, Result};

impl Circuit<'_> {
    /// 1 if a > b, with their sign.
    pub(super) fn greater(&mut self, a: &Word, b: &Word) -> Result<Sum> {
        a.require_like(b, "compare")?;
        let mut n = a.digits.len();
        // Highest first: what a sign is made of, x of weight 2 and a digit below it, or the signed digits alone.
        let mut leaves: Vec<(Option<Sum>, Sum)> = vec![];
        if a.ty.signed() {
            n -= 1;
            let half = (a.ty.mask(n) + 1) / 2;
            let packed = pack(&a.digits[n], &b.digits[n]);
            // The highest bit counts negative: move it to the other end.
            let order = |d: i64| d ^ half;
            leaves.push((None, self.map(&packed, |v| order(v >> 2) - order(v & 3))?));
        }
        let mut differences: Vec<Sum> =
            a.digits[..n].iter().zip(&b.digits[..n]).map(|(x, y)| x - y).collect();
        while let Some(high) = differences.pop() {
            leaves.push(match differences.pop() {
                Some(low) => (Some(high), low),
                None => (None, high),
            });
        }
        let mut level = leaves;
        loop {
            let (count, mut signs) = (level.len(), vec![]);
            for (i, (high, low)) in level.into_iter().enumerate() {
                let sum = match high {
                    Some(high) => &high.times(2) + &self.sign_of(&low, Ask::Sign(1))?,
                    None => low,
                };
                let weight = 1 << ((count - 1 - i) % 4);
                let ask = if count == 1 { Ask::Greater } else { Ask::Sign(weight) };
                signs.push(self.sign_of(&sum, ask)?);
            }
            if count == 1 {
                return Ok(signs.remove(0));
            }
            // Groups of four from the lowest up, so that weights end at 1.
            level = signs.rchunks(4).rev().map(|g| (None, Sum::of(g))).collect();
        }
    }

    /// a > b.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn gt(&mut self, a: &Word, b: &Word) -> Result<Word> {
        Ok(Word::bool(self.greater(a, b)?))
    }

    /// a ≤ b.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn le(&mut self, a: &Word, b: &Word) -> Result<Word> {
        let greater = self.gt(a, b)?;
        Ok(self.not(&greater))
    }

    /// a = b.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn eq(&mut self, a: &Word, b: &Word) -> Result<Word> {
        a.require_like(b, "compare")?;
        let differences: Vec<Sum> = a.digits.iter().zip(&b.digits).map(|(x, y)| x - y).collect();
        Ok(Word::bool(self.all_zero(&differences)?))
    }

    /// a ≠ b.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn ne(&mut self, a: &Word, b: &Word) -> Result<Word> {
        let equal = self.eq(a, b)?;
        Ok(self.not(&equal))
    }

    /// The smaller of a and b.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn min(&mut self, a: &Word, b: &Word) -> Result<Word> {
        let greater = self.gt(a, b)?;
        self.select(&greater, b, a)
    }

    /// The greater of a and b.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn max(&mut self, a: &Word, b: &Word) -> Result<Word> {
        let greater = self.gt(a, b)?;
        self.select(&greater, a, b)
    }

    /// a + b modulo 2^bits, and whether it left the type.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn overflowing_add(&mut self, a: &Word, b: &Word) -> Result<(Word, Word)> {
        let (sum, carry) = self.add_carry(a, b, !a.ty.signed())?;
        let left = if a.ty.signed() { self.sign_overflow(a, b, &sum, false)? } else { carry };
        Ok((sum, Word::bool(left)))
    }

    /// a − b modulo 2^bits, and whether it left the type.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn overflowing_sub(&mut self, a: &Word, b: &Word) -> Result<(Word, Word)> {
        let (difference, carry) = self.sub_carry(a, b, !a.ty.signed())?;
        let left = if a.ty.signed() {
            self.sign_overflow(a, b, &difference, true)?
        } else {
            (-&carry).plus(1)
        };
        Ok((difference, Word::bool(left)))
    }

    /// Whether the sign of the result is wrong: operands of one sign (or two, of a difference) and a result of another.
    fn sign_overflow(&mut self, a: &Word, b: &Word, r: &Word, differ: bool) -> Result<Sum> {
        let (a, b, r) = (self.sign_bit(a)?, self.sign_bit(b)?, self.sign_bit(r)?);
        let bits = Sum::of(&[a.times(4), b.times(2), r]).within(0, 7);
        self.map(&bits, |v| {
            let (a, b, r) = (v >> 2, v >> 1 & 1, v & 1);
            i64::from(((a != b) == differ) && r != a)
        })
    }

    /// a · b modulo 2^bits, and whether it left the type: by the product of twice the width, whose upper half is then not all
    /// zeros, or not all the sign.
    ///
    /// # Errors
    /// As [`Circuit::add`]; [`Error::BadInput`] above 128 bits.
    pub fn overflowing_mul(&mut self, a: &Word, b: &Word) -> Result<(Word, Word)> {
        a.require_like(b, "mul")?;
        let (bits, signed) = (a.ty.bits(), a.ty.signed());
        if 2 * bits > MAX_BITS {
            return Err(Error::bad_input(
                "overflowing_mul",
                format!("integers of at most {} bits", MAX_BITS / 2),
                a.ty.to_string(),
                "cast them, or compare with the greatest factor: x > max // y",
            ));
        }
        let wide = if signed { Type::Int(2 * bits) } else { Type::Uint(2 * bits) };
        let (x, y) = (self.cast(a, wide)?, self.cast(b, wide)?);
        let mut low = self.mul(&x, &y)?;
        let mut above = low.digits.split_off(bits.div_ceil(2) as usize);
        let last = low.digits.len() - 1;
        if bits % 2 == 1 {
            // The digit in the middle has a bit of both halves.
            let wrong = |v: i64| if signed { i64::from(v == 1 || v == 2) } else { v >> 1 };
            let mut both = self.lookup(&low.digits[last], &[&|v| v & 1, &wrong])?;
            above.push(both.remove(1));
            low.digits[last] = both.remove(0);
        }
        low.ty = a.ty;
        if signed {
            let half = (a.ty.mask(last) + 1) / 2;
            let fill = self.map(&low.digits[last], |d| 3 * (d / half))?;
            let whole = bits as usize / 2 + bits as usize % 2;
            let upper = wide.digits() - whole;
            above[..upper].iter_mut().for_each(|d| *d = &*d - &fill);
        }
        let inside = self.all_zero(&above)?;
        Ok((low, Word::bool((-&inside).plus(1))))
    }
}
