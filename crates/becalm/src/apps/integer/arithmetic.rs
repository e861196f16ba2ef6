//! Sums: carries, addition and subtraction, sums of many, selection, bitwise operations.
//!
//! A digit sum with its carry stays below 8, so one rotation of two tables gives digit and carry: n bootstraps for n
//! digits, one after another. By parallel prefix (Sklansky in groups of four, states none < propagate < generate merged by
//! the sign of 4x₂ + 2x₁ + x₀) it takes about 3n, ⌈n/8⌉ + 5 deep.

use super::{Type, Word};
use crate::Result;
use crate::apps::circuit::{Aim, Circuit, NORM2, Sum};
use std::collections::VecDeque;

/// Most that digit sums may reach before carries are propagated.
const LOOSE: i64 = 6;

/// 4·high + low for two digits.
pub(super) fn pack(high: &Sum, low: &Sum) -> Sum {
    &high.times(4) + low
}

/// Digit and carry of a digit that holds 0 ..= `mask`.
fn split(v: i64, mask: i64) -> (i64, i64) {
    (v & mask, v >> (mask + 1).trailing_zeros())
}

impl Circuit {
    /// Digits 0 ..= 3 from digit sums of at most 6 and a carry of at most 1 into the first; also the carry out. Sums come in
    /// the shape of `ty`.
    pub(super) fn propagate(&mut self, ty: Type, sums: &[Sum], carry: Sum) -> Result<(Word, Sum)> {
        if self.aim() == Aim::Depth && sums.len() > 4 {
            return self.propagate_deep(ty, sums, carry);
        }
        let (mut digits, mut carry) = (vec![], carry);
        for (i, sum) in sums.iter().enumerate() {
            let mask = ty.mask(i);
            let both: [&dyn Fn(i64) -> i64; 2] = [&|v| split(v, mask).0, &|v| split(v, mask).1];
            let mut out = self.lookup(&(sum + &carry), &both)?;
            carry = out.remove(1);
            digits.push(out.remove(0));
        }
        Ok((Word { ty, digits }, carry))
    }

    /// [`Circuit::propagate`] by parallel prefix.
    fn propagate_deep(&mut self, ty: Type, sums: &[Sum], carry: Sum) -> Result<(Word, Sum)> {
        let n = sums.len();
        let (mut digits, mut states) = (vec![], vec![]);
        for (i, sum) in sums.iter().enumerate() {
            let mask = ty.mask(i);
            let first = i64::from(i == 0);
            let sum = if i == 0 { sum + &carry } else { sum.clone() };
            // The first digit knows its carry, so it never propagates.
            let state = move |v: i64| match (v > mask, v == mask && first == 0) {
                (true, _) => 2,
                (_, true) => 1,
                _ => 0,
            };
            let scale = 4 - 3 * first;
            let both: [&dyn Fn(i64) -> i64; 2] = [&|v| scale * (v & mask), &state];
            let mut out = self.lookup(&sum, &both)?;
            states.push(out.remove(1));
            digits.push(out.remove(0));
        }
        let mut carries = vec![Sum::clear(0)];
        let mut prefixes = vec![];
        for group in states.chunks(4) {
            prefixes.push(self.group_prefixes(group)?);
        }
        for pair in prefixes.chunks(2) {
            let carry = carries.last().cloned().unwrap_or(Sum::clear(0)).times(2);
            let mut weighted = carry;
            for (k, group) in pair.iter().enumerate() {
                let scale = 2 << k;
                weighted = &weighted + &group[group.len() - 1].times(scale);
                carries.push(self.map(&weighted, |v| i64::from(v >= 2 * scale))?);
            }
        }
        let mut out = vec![];
        for (i, digit) in digits.iter().enumerate() {
            let mask = ty.mask(i);
            let known = match i % 4 {
                0 => carries[i / 4].times(2),
                j => &prefixes[i / 4][j - 1] + &carries[i / 4],
            };
            let high = known.high.min(3);
            let known = known.within(0, high);
            let done = |v: i64| ((v >> 2) + i64::from(v & 3 >= 2)) & mask;
            let first = i == 0;
            out.push(if first { digit.clone() } else { self.map(&(digit + &known), done)? });
        }
        Ok((Word { ty, digits: out }, carries[n.div_ceil(4)].clone()))
    }

    /// States of the digits of a group together with all below them in it.
    fn group_prefixes(&mut self, states: &[Sum]) -> Result<Vec<Sum>> {
        let mut out: Vec<Sum> = vec![];
        for i in 0..states.len() {
            let low = if i == 3 { out[2].clone() } else { states[0].clone() };
            let (sum, middle) = match i {
                0 => (low, 1),
                2 => (&(&states[2].times(4) + &states[1].times(2)) + &low, 7),
                _ => (&states[i].times(2) + &low, 3),
            };
            let sign = |v: i64| 1 + (v - middle).signum();
            out.push(if i == 0 { sum } else { self.map(&sum, sign)? });
        }
        Ok(out)
    }

    /// The value of columns of digits: Σ 4^k · Σ column k, modulo 2^bits. Chunks of a column that reach 15 become a digit
    /// and a carry of at most 3 or 4; a digit may stay v − 4·carry, noisier but for nothing, until its next chunk.
    pub(super) fn columns(&mut self, ty: Type, columns: Vec<Vec<Sum>>) -> Result<Word> {
        let n = ty.digits();
        let mut queues: Vec<VecDeque<Sum>> = columns.into_iter().map(VecDeque::from).collect();
        queues.resize(n, VecDeque::new());
        let mut sums = vec![];
        for k in 0..n {
            let mask = ty.mask(k);
            // One constant in front, which costs the first table nothing.
            let (clear, rest): (VecDeque<Sum>, _) =
                queues[k].drain(..).partition(|s| s.terms.is_empty());
            queues[k] = rest;
            if !clear.is_empty() {
                queues[k].push_front(Sum::of(&clear));
            }
            loop {
                // Every item of a long queue is at least 1 at its largest.
                if queues[k].len() <= LOOSE as usize + 1 {
                    let total = Sum::of(&queues[k]);
                    if total.high <= LOOSE && self.norm2(&total) < NORM2 {
                        sums.push(total);
                        break;
                    }
                }
                let (chunk, taken) = self.chunk(&mut queues[k]);
                let (digit, carry) = (|v| split(v, mask).0, |v| split(v, mask).1);
                if k + 1 == n || (taken == 1 && chunk.high <= mask) {
                    let fresh = self.map(&chunk, digit)?;
                    queues[k].push_back(fresh);
                } else if self.norm2(&chunk) + 16 + 4 <= NORM2 && chunk.high > 7 {
                    let carry = self.map(&chunk, carry)?;
                    queues[k].push_front((&chunk - &carry.times(mask + 1)).within(0, mask));
                    queues[k + 1].push_back(carry);
                } else {
                    let mut both = self.lookup(&chunk, &[&digit, &carry])?;
                    queues[k + 1].push_back(both.remove(1));
                    queues[k].push_back(both.remove(0));
                }
            }
        }
        Ok(self.propagate(ty, &sums, Sum::clear(0))?.0)
    }

    /// a + b modulo 2^bits.
    ///
    /// # Errors
    /// [`Error::BadInput`](crate::Error::BadInput) for operands of different types; so all operations of two words.
    pub fn add(&mut self, a: &Word, b: &Word) -> Result<Word> {
        Ok(self.add_carry(a, b)?.0)
    }

    /// a + b modulo 2^bits, and the carry out of the last digit.
    pub(super) fn add_carry(&mut self, a: &Word, b: &Word) -> Result<(Word, Sum)> {
        a.require_like(b, "add")?;
        let sums: Vec<Sum> = a.digits.iter().zip(&b.digits).map(|(x, y)| x + y).collect();
        self.propagate(a.ty, &sums, Sum::clear(0))
    }

    /// a − b modulo 2^bits.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn sub(&mut self, a: &Word, b: &Word) -> Result<Word> {
        Ok(self.sub_carry(a, b)?.0)
    }

    /// a − b modulo 2^bits as a + !b + 1, and the carry: 1 if a ≥ b without sign.
    pub(super) fn sub_carry(&mut self, a: &Word, b: &Word) -> Result<(Word, Sum)> {
        a.require_like(b, "sub")?;
        let complement = self.not(b);
        let sums: Vec<Sum> = a.digits.iter().zip(&complement.digits).map(|(x, y)| x + y).collect();
        self.propagate(a.ty, &sums, Sum::clear(1))
    }

    /// −a modulo 2^bits.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn neg(&mut self, a: &Word) -> Result<Word> {
        let zero = Word { ty: a.ty, digits: vec![Sum::clear(0); a.digits.len()] };
        self.sub(&zero, a)
    }

    /// −a where `when` is 1: (a ^ m) + `when` with m all ones then.
    pub(super) fn neg_if(&mut self, a: &Word, when: &Sum) -> Result<Word> {
        let mut sums = vec![];
        for (i, d) in a.digits.iter().enumerate() {
            let mask = a.ty.mask(i);
            let flip = |v: i64| if v >= 4 { mask - (v - 4) } else { v };
            sums.push(self.map(&(d + &when.times(4)), flip)?);
        }
        Ok(self.propagate(a.ty, &sums, when.clone())?.0)
    }

    /// |a|; of the least value itself, as `wrapping_abs`.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn abs(&mut self, a: &Word) -> Result<Word> {
        if !a.ty.signed() {
            return Ok(a.clone());
        }
        let sign = self.sign_bit(a)?;
        self.neg_if(a, &sign)
    }

    /// The highest bit of a signed word; 0 for others.
    pub(super) fn sign_bit(&mut self, a: &Word) -> Result<Sum> {
        let i = a.digits.len() - 1;
        let half = (a.ty.mask(i) + 1) / 2;
        if a.ty.signed() { self.map(&a.digits[i], |d| d / half) } else { Ok(Sum::clear(0)) }
    }

    /// The sum of words of one type, modulo 2^bits: of booleans whether an odd number is true; [`Circuit::count`] counts them.
    ///
    /// # Errors
    /// [`Error::BadInput`](crate::Error::BadInput) for none, or words of different types.
    pub fn sum(&mut self, words: &[Word]) -> Result<Word> {
        let Some(first) = words.first() else {
            return Err(crate::Error::bad_input("sum", "at least one word", "none", "pass one"));
        };
        words.iter().try_for_each(|w| first.require_like(w, "sum"))?;
        let column = |k: usize| words.iter().map(|w| w.digits[k].clone()).collect();
        self.columns(first.ty, (0..first.digits.len()).map(column).collect())
    }

    /// `if c { a } else { b }`: each digit is b + c·(a − b), two bootstraps.
    ///
    /// # Errors
    /// As [`Circuit::add`]; if `c` is not a bool.
    pub fn select(&mut self, c: &Word, a: &Word, b: &Word) -> Result<Word> {
        a.require_like(b, "select")?;
        let when = c.truth("select")?.clone();
        let seven = self.map(&when, |v| 7 * v)?;
        let digits = a.digits.iter().zip(&b.digits);
        let digits = digits.map(|(x, y)| self.choose(&seven, x, y)).collect::<Result<Vec<_>>>()?;
        self.fresh(&Word { ty: a.ty, digits })
    }

    /// x where `seven` is 7, y where it is 0: y plus one bootstrap, noise of y included.
    pub(super) fn choose(&mut self, seven: &Sum, x: &Sum, y: &Sum) -> Result<Sum> {
        if let Some(c) = seven.constant() {
            return Ok(if c == 0 { y.clone() } else { x.clone() });
        }
        // x − y lies within ±3 when nothing is added, and within 4 to 10 when 7 is.
        let moved = self.map(&(&(x - y) + seven), |v| if v >= 4 { v - 7 } else { 0 })?;
        Ok((y + &moved).within(x.low.min(y.low), x.high.max(y.high)))
    }

    /// The same word with every digit straight from a bootstrap.
    pub(super) fn fresh(&mut self, a: &Word) -> Result<Word> {
        let clean = |d: &Sum| if d.plain() { Ok(d.clone()) } else { self.map(d, |v| v) };
        Ok(Word { ty: a.ty, digits: a.digits.iter().map(clean).collect::<Result<_>>()? })
    }

    /// The same value with every digit from a bootstrap: after operations that only move or flip digits, whose results are
    /// related to their operands, so that long sums of them would be refused.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn refresh(&mut self, a: &Word) -> Result<Word> {
        let digits = a.digits.iter().map(|d| self.refreshed(d)).collect::<Result<_>>()?;
        Ok(Word { ty: a.ty, digits })
    }

    fn bitwise(&mut self, a: &Word, b: &Word, f: impl Fn(i64, i64) -> i64) -> Result<Word> {
        a.require_like(b, "bitwise")?;
        let mut digits = vec![];
        for (x, y) in a.digits.iter().zip(&b.digits) {
            digits.push(match (x.constant(), y.constant()) {
                (Some(c), _) => self.map(y, |v| f(c, v))?,
                (_, Some(c)) => self.map(x, |v| f(v, c))?,
                _ => self.map(&pack(x, y), |v| f(v >> 2, v & 3))?,
            });
        }
        Ok(Word { ty: a.ty, digits })
    }

    /// a & b, one bootstrap for each digit.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn and(&mut self, a: &Word, b: &Word) -> Result<Word> {
        self.bitwise(a, b, |x, y| x & y)
    }

    /// a | b, one bootstrap for each digit.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn or(&mut self, a: &Word, b: &Word) -> Result<Word> {
        self.bitwise(a, b, |x, y| x | y)
    }

    /// a ^ b, one bootstrap for each digit.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn xor(&mut self, a: &Word, b: &Word) -> Result<Word> {
        self.bitwise(a, b, |x, y| x ^ y)
    }

    /// !a, without a bootstrap.
    pub fn not(&mut self, a: &Word) -> Word {
        let flip = |(i, d): (usize, &Sum)| (-d).plus(a.ty.mask(i));
        Word { ty: a.ty, digits: a.digits.iter().enumerate().map(flip).collect() }
    }

    /// Items from the front of a queue that one table can take together, and how many.
    fn chunk(&self, queue: &mut VecDeque<Sum>) -> (Sum, usize) {
        let (mut chunk, mut taken) = (Sum::clear(0), 0);
        let mut skipped = vec![];
        while let Some(item) = queue.pop_front() {
            let more = &chunk + &item;
            if taken == 0 || (more.high - more.low <= 15 && self.norm2(&more) <= NORM2) {
                (chunk, taken) = (more, taken + 1);
            } else {
                skipped.push(item);
            }
            // Full; and a long queue is not walked to its end for the last place.
            let full = chunk.high - chunk.low == 15 || self.norm2(&chunk) >= NORM2;
            if full || skipped.len() == 64 {
                break;
            }
        }
        skipped.into_iter().rev().for_each(|item| queue.push_front(item));
        (chunk, taken)
    }
}
