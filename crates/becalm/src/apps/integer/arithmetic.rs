//! Sums: carries, addition and subtraction, sums of many, selection, bitwise operations.
//!
//! A digit sum with its carry stays below 8, so one rotation of two tables gives digit and carry: n bootstraps for n
//! digits, one after another. By parallel prefix (`prefix`) it takes about 3n.

use super::{Type, Word};
use crate::Result;
use crate::apps::circuit::{Aim, Circuit, NORM2, ROOM, Sum};
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

/// One constant in front, which costs the first table nothing.
fn one_constant(column: &mut VecDeque<Sum>) {
    let (clear, rest): (VecDeque<Sum>, _) = column.drain(..).partition(|s| s.terms.is_empty());
    *column = rest;
    if !clear.is_empty() {
        column.push_front(Sum::of(&clear));
    }
}

impl Circuit<'_> {
    /// Digits 0 ..= 3 from digit sums of at most 6 and a carry of at most 1 into the first; also the carry out, if it is
    /// wanted. Sums come in the shape of `ty`.
    pub(super) fn propagate(
        &mut self,
        ty: Type,
        sums: &[Sum],
        carry: Sum,
        out: bool,
    ) -> Result<(Word, Sum)> {
        if self.aim() == Aim::Depth && sums.len() > 4 {
            return self.propagate_deep(ty, sums, &carry, out);
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

    /// The value of columns of digits: Σ 4^k · Σ column k, modulo 2^bits. Chunks of a column that reach 15 become a digit
    /// and a carry of at most 3 or 4: column after column, or on the shortest path some of all columns at once.
    pub(super) fn columns(&mut self, ty: Type, columns: Vec<Vec<Sum>>) -> Result<Word> {
        let mut queues: Vec<VecDeque<Sum>> = columns.into_iter().map(VecDeque::from).collect();
        queues.resize(ty.digits(), VecDeque::new());
        for queue in &mut queues {
            one_constant(queue);
        }
        let sums = match self.aim() {
            Aim::Work => self.column_by_column(ty, queues)?,
            Aim::Depth => self.all_columns(ty, queues)?,
        };
        Ok(self.propagate(ty, &sums, Sum::clear(0), false)?.0)
    }

    /// The sum of a column, if it may stay as it is until carries are propagated.
    fn loose(&self, column: &VecDeque<Sum>) -> Option<Sum> {
        // Every item of a long queue is at least 1 at its largest.
        let short = column.len() <= LOOSE as usize + 1;
        let total = short.then(|| Sum::of(column))?;
        (total.high <= LOOSE && self.norm2(&total) < NORM2).then_some(total)
    }

    fn column_by_column(&mut self, ty: Type, mut queues: Vec<VecDeque<Sum>>) -> Result<Vec<Sum>> {
        let mut sums = vec![];
        for k in 0..queues.len() {
            one_constant(&mut queues[k]);
            loop {
                if let Some(total) = self.loose(&queues[k]) {
                    sums.push(total);
                    break;
                }
                let (digit, carry) = self.chunked(ty, k, &mut queues[k])?;
                // One noisy item is taken first, so that it does not stay until the end.
                match self.norm2(&digit) > 1 {
                    true => queues[k].push_front(digit),
                    false => queues[k].push_back(digit),
                }
                queues.iter_mut().skip(k + 1).take(1).for_each(|next| next.extend(carry.clone()));
            }
        }
        Ok(sums)
    }

    /// In rounds: every chunk of every column becomes a digit and a carry of the next round.
    fn all_columns(&mut self, ty: Type, mut queues: Vec<VecDeque<Sum>>) -> Result<Vec<Sum>> {
        loop {
            let totals: Vec<Option<Sum>> = queues.iter().map(|q| self.loose(q)).collect();
            if let Some(sums) = totals.into_iter().collect() {
                return Ok(sums);
            }
            let mut next = vec![VecDeque::new(); queues.len() + 1];
            for (k, queue) in queues.iter_mut().enumerate() {
                while self.loose(queue).is_none() {
                    let (digit, carry) = self.chunked(ty, k, queue)?;
                    next[k].push_back(digit);
                    next[k + 1].extend(carry);
                }
                next[k].extend(queue.drain(..));
            }
            next.truncate(queues.len());
            next.iter_mut().for_each(one_constant);
            queues = next;
        }
    }

    /// The digit and the carry of a chunk of column `k`. The digit may be v − 4·carry, noisier but for nothing.
    fn chunked(
        &mut self,
        ty: Type,
        k: usize,
        queue: &mut VecDeque<Sum>,
    ) -> Result<(Sum, Option<Sum>)> {
        let mask = ty.mask(k);
        let (chunk, taken) = self.chunk(queue);
        let (digit, carry) = (|v| split(v, mask).0, |v| split(v, mask).1);
        if k + 1 == ty.digits() || (taken == 1 && chunk.high <= mask) {
            return Ok((self.map(&chunk, digit)?, None));
        }
        if self.norm2(&chunk) + 16 + 4 <= NORM2 && chunk.high > 7 {
            let carry = self.map(&chunk, carry)?;
            return Ok(((&chunk - &carry.times(mask + 1)).within(0, mask), Some(carry)));
        }
        let mut both = self.lookup(&chunk, &[&digit, &carry])?;
        Ok((both.remove(0), both.pop()))
    }

    /// a + b modulo 2^bits.
    ///
    /// # Errors
    /// [`Error::BadInput`](crate::Error::BadInput) for operands of different types; so all operations of two words.
    pub fn add(&mut self, a: &Word, b: &Word) -> Result<Word> {
        Ok(self.add_carry(a, b, false)?.0)
    }

    /// a + b modulo 2^bits, and the carry out of the last digit if it is wanted.
    pub(super) fn add_carry(&mut self, a: &Word, b: &Word, out: bool) -> Result<(Word, Sum)> {
        a.require_like(b, "add")?;
        let sums: Vec<Sum> = a.digits.iter().zip(&b.digits).map(|(x, y)| x + y).collect();
        self.propagate(a.ty, &sums, Sum::clear(0), out)
    }

    /// a − b modulo 2^bits.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn sub(&mut self, a: &Word, b: &Word) -> Result<Word> {
        Ok(self.sub_carry(a, b, false)?.0)
    }

    /// a − b modulo 2^bits as a + !b + 1, and the carry if it is wanted: 1 if a ≥ b without sign.
    pub(super) fn sub_carry(&mut self, a: &Word, b: &Word, out: bool) -> Result<(Word, Sum)> {
        a.require_like(b, "sub")?;
        let complement = self.not(b);
        let sums: Vec<Sum> = a.digits.iter().zip(&complement.digits).map(|(x, y)| x + y).collect();
        self.propagate(a.ty, &sums, Sum::clear(1), out)
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
        Ok(self.propagate(a.ty, &sums, when.clone(), false)?.0)
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

    /// `if c { a } else { b }`, two bootstraps for each digit: a turns to one of four places on the torus where c is 1, beside
    /// which b does not count, and to 0 elsewhere, where b is read.
    ///
    /// # Errors
    /// As [`Circuit::add`]; if `c` is not a bool.
    pub fn select(&mut self, c: &Word, a: &Word, b: &Word) -> Result<Word> {
        a.require_like(b, "select")?;
        let when = c.truth("select")?.clone();
        if let Some(c) = when.constant() {
            return self.fresh(if c == 0 { b } else { a });
        }
        // Places 4, 8, 20 and 24 of 32: those half a torus apart have digits that add up to 3.
        let place = |v: i64| if v >= 4 { [4, 8, 24, 20][v as usize & 3] } else { 0 };
        // Twice a digit less 3.
        let entries = [-3, -1, 1, 3, -3, -3, -3, -3, -1, -1, -1, -1, 0, 0, 0, 0];
        let mut digits = vec![];
        for (x, y) in a.digits.iter().zip(&b.digits) {
            let placed = self.map(&(x + &when.times(4)), place)?;
            let sum = (&placed + y).within(0, 2 * ROOM - 1);
            let high = x.high.max(y.high);
            digits.push(self.circle(&sum, &entries, &[(0, 3, 0, high)])?.remove(0));
        }
        Ok(Word { ty: a.ty, digits })
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
