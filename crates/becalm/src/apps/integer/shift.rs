//! Moving bits: casts, shifts and rotations by clear and by encrypted amounts.
//!
//! By a clear amount each digit costs one bootstrap, or none if whole digits move. By an encrypted amount a stage for each
//! of its bits chooses between moved and not moved, one bootstrap a digit and stage, and one to end with.

use super::arithmetic::pack;
use super::{Type, Word};
use crate::Result;
use crate::apps::circuit::{Circuit, NORM2, Sum};

/// A way to move bits. A shift by the width or more leaves 0, or the sign of a signed integer moved to the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shift {
    /// Towards the high bits.
    Left,
    /// Towards the low bits; signed integers fill with their sign.
    Right,
    /// Towards the high bits and in again.
    RotateLeft,
    /// Towards the low bits and in again.
    RotateRight,
}

impl Shift {
    /// The bit that comes to place `at` of `bits`; none for a zero, `bits` for the sign.
    fn source(self, at: u64, by: u64, bits: u64, signed: bool) -> Option<u64> {
        match self {
            Shift::Left => at.checked_sub(by),
            Shift::Right if at.saturating_add(by) < bits => Some(at + by),
            Shift::Right => signed.then_some(bits - 1),
            Shift::RotateLeft => Some((at + bits - by % bits) % bits),
            Shift::RotateRight => Some((at + by % bits) % bits),
        }
    }
}

impl Circuit<'_> {
    /// The digit whose low and high bit are these bits of a word (none: zero).
    fn gather(&mut self, a: &Word, bits: [Option<u64>; 2]) -> Result<Sum> {
        let [low, high] = bits;
        let digit = |bit: u64| a.digits[bit as usize / 2].clone();
        let pick = |v: i64, bit: Option<u64>| bit.map_or(0, |b| v >> (b % 2) & 1);
        match (low, high) {
            (None, None) => Ok(Sum::clear(0)),
            (Some(l), Some(h)) if l + 1 == h && l % 2 == 0 => Ok(digit(l)),
            (Some(l), None) if l % 2 == 0 && digit(l).high <= 1 => Ok(digit(l)),
            (Some(l), Some(h)) if l / 2 != h / 2 => {
                let packed = pack(&digit(h), &digit(l));
                self.map(&packed, |v| pick(v & 3, low) + 2 * pick(v >> 2, high))
            }
            (Some(one), _) | (None, Some(one)) => {
                self.map(&digit(one), |v| pick(v, low) + 2 * pick(v, high))
            }
        }
    }

    /// The word whose bit `at` is the bit `source(at)` of another (none: zero).
    pub(super) fn rewire(
        &mut self,
        a: &Word,
        ty: Type,
        source: impl Fn(u64) -> Option<u64>,
    ) -> Result<Word> {
        let mut digits = vec![];
        for i in 0..ty.digits() {
            let low = 2 * i as u64;
            let high = if ty.mask(i) == 3 { source(low + 1) } else { None };
            digits.push(self.gather(a, [source(low), high])?);
        }
        Ok(Word { ty, digits })
    }

    /// The value in another type: modulo 2^bits, or extended by zeros or by the sign.
    ///
    /// # Errors
    /// [`Error::BadInput`](crate::Error::BadInput) for a width that no integer has.
    pub fn cast(&mut self, a: &Word, ty: Type) -> Result<Word> {
        let (bits, signed) = (u64::from(a.ty.bits()), a.ty.signed());
        if ty.checked()? == Type::Bool && a.ty != Type::Bool {
            let zero = self.all_zero(&a.digits)?;
            return Ok(Word::bool((-&zero).plus(1)));
        }
        self.rewire(a, ty, |at| if at < bits { Some(at) } else { signed.then_some(bits - 1) })
    }

    /// The word moved by a clear amount.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn shift(&mut self, how: Shift, a: &Word, by: u64) -> Result<Word> {
        let (bits, signed) = (u64::from(a.ty.bits()), a.ty.signed());
        self.rewire(a, a.ty, |at| how.source(at, by, bits, signed))
    }

    /// The word moved by an encrypted amount, an unsigned one.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn shift_by(&mut self, how: Shift, a: &Word, amount: &Word) -> Result<Word> {
        let rotates = matches!(how, Shift::RotateLeft | Shift::RotateRight);
        let bits = amount.ty.bits();
        // Further bits of the amount shift everything out.
        let stages =
            if rotates { bits } else { bits.min(u32::BITS - (a.ty.bits() - 1).leading_zeros()) };
        let (mut now, mut by) = (a.clone(), 1u64);
        for k in 0..stages {
            if k > 0 {
                by = by * 2 % if rotates { u64::from(a.ty.bits()) } else { u64::MAX };
            }
            // A whole turn, as all further bits of the amount are.
            if by == 0 {
                break;
            }
            // Every stage adds a table's noise to each digit, and the next one takes the difference of two of them.
            if now.digits.iter().any(|d| 2 * self.norm2(d) + 3 > NORM2) {
                now = self.fresh(&now)?;
            }
            let digit = amount.digit(k as usize / 2);
            let (low, high) = (|v: i64| 7 * (v & 1), |v: i64| 7 * (v >> 1 & 1));
            let both = self.lookup(&digit, &[&low, &high])?;
            let moved = self.shift(how, &now, by)?;
            let pairs = moved.digits.iter().zip(&now.digits);
            let digits = pairs.map(|(m, n)| self.choose(&both[k as usize % 2], m, n));
            now = Word { ty: a.ty, digits: digits.collect::<Result<_>>()? };
        }
        if stages < bits {
            let out = self.shift(how, a, u64::from(a.ty.bits()))?;
            let spare =
                self.rewire(amount, amount.ty, |at| (at >= u64::from(stages)).then_some(at))?;
            let none = self.all_zero(&spare.digits)?;
            let seven = self.map(&none, |v| 7 * (1 - v))?;
            let pairs = out.digits.iter().zip(&now.digits);
            let digits = pairs.map(|(m, n)| self.choose(&seven, m, n)).collect::<Result<_>>()?;
            now = Word { ty: a.ty, digits };
        }
        self.fresh(&now)
    }
}
