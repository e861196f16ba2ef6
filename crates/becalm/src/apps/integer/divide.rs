//! Division with remainder by the schoolbook: base 4, most significant digit first.
//!
//! Each digit of the quotient takes two steps, R ← R − 2D if R ≥ 2D, then R ← R − D if R ≥ D: a ripple of digits and
//! borrow, and a choice T + (1 − c)(R − T), both one bootstrap for each digit of R, which grows by one digit a place: about
//! 2n² bootstraps in all. Nothing is shifted but the window. R keeps no more digits than a divisor that is known, which leaves about
//! 4n bootstraps for each of these. A power of two shifts. Division by zero leaves a quotient of ones and a as remainder.

use super::{Type, Word};
use crate::Result;
use crate::apps::circuit::{Aim, Circuit, Sum};

/// Digits of a run whose flags are added: 130 digits are 11 runs, and a table takes 15.
const RUN: usize = 12;

impl Circuit<'_> {
    /// ⌊a / b⌋ and a mod b, of words without sign; signed ones are divided towards zero and the remainder has the sign of
    /// a. If b = 0 the remainder is a and the quotient is all ones, negated if a is negative.
    ///
    /// # Errors
    /// As [`Circuit::add`].
    pub fn div_rem(&mut self, a: &Word, b: &Word) -> Result<(Word, Word)> {
        a.require_like(b, "div")?;
        if !a.ty.signed() {
            return self.div_rem_unsigned(a, b);
        }
        let (sa, sb) = (self.sign_bit(a)?, self.sign_bit(b)?);
        let (x, y) = (self.neg_if(a, &sa)?, self.neg_if(b, &sb)?);
        let (q, r) = self.div_rem_unsigned(&x, &y)?;
        let differ = self.map(&(&sa + &sb), |v| i64::from(v == 1))?;
        Ok((self.neg_if(&q, &differ)?, self.neg_if(&r, &sa)?))
    }

    /// The quotient of [`Circuit::div_rem`].
    ///
    /// # Errors
    /// As there.
    pub fn div(&mut self, a: &Word, b: &Word) -> Result<Word> {
        Ok(self.div_rem(a, b)?.0)
    }

    /// The remainder of [`Circuit::div_rem`].
    ///
    /// # Errors
    /// As there.
    pub fn rem(&mut self, a: &Word, b: &Word) -> Result<Word> {
        Ok(self.div_rem(a, b)?.1)
    }

    fn div_rem_unsigned(&mut self, a: &Word, b: &Word) -> Result<(Word, Word)> {
        let n = a.digits.len();
        if let Some(places) = b.power_of_two() {
            // Magnitudes of signed words are divided here too: zeros follow, whatever the type.
            let bits = u64::from(a.ty.bits());
            let quotient = self.rewire(a, a.ty, |at| Some(at + places).filter(|at| *at < bits))?;
            let rest = self.rewire(a, a.ty, |at| (at < places).then_some(at))?;
            return Ok((quotient, rest));
        }
        // The rest is below the divisor.
        let most = b.constants().and_then(|digits| digits.iter().rposition(|d| *d != 0));
        // Two bits wider, also where no type is.
        let bits = u64::from(b.ty.bits());
        let wide = Type::Uint(2 * n as u32 + 2);
        let twice = self.rewire(b, wide, |at| (at < bits).then_some(at))?;
        let twice = self.shift(super::Shift::Left, &twice, 1)?;
        let above = [self.any_above(&twice)?, self.any_above(b)?];
        let mut quotient = vec![Sum::clear(0); n];
        let mut rest: Vec<Sum> = vec![];
        for j in (0..n).rev() {
            rest.insert(0, a.digits[j].clone());
            let mut bits = vec![];
            for (divisor, above, weight) in [(&twice, &above[0], 2), (b, &above[1], 1)] {
                let len = rest.len();
                // The mask bounds this digit of the quotient: the highest of an odd width has one bit.
                if weight > a.ty.mask(j) {
                    continue;
                }
                bits.push(self.reduce(&mut rest, &divisor.digits, &above[len], weight)?);
            }
            quotient[j] = self.map(&Sum::of(&bits), |v| v)?;
            rest.truncate(most.map_or(n, |top| top + 1));
        }
        rest.resize(n, Sum::clear(0));
        let (q, r) = (Word { ty: a.ty, digits: quotient }, Word { ty: a.ty, digits: rest });
        Ok((q, self.fresh(&r)?))
    }

    /// For every place, 1 if a digit from there up is not zero.
    fn any_above(&mut self, a: &Word) -> Result<Vec<Sum>> {
        if self.aim() == Aim::Depth {
            return self.any_above_deep(a);
        }
        let mut flags = vec![Sum::clear(0); a.digits.len() + 1];
        for i in (0..a.digits.len()).rev() {
            let seen = &a.digits[i] + &flags[i + 1].times(4);
            flags[i] = self.map(&seen, |v| i64::from(v != 0))?;
        }
        Ok(flags)
    }

    /// [`Circuit::any_above`], 3 deep: flags of digits, of runs of them, and of runs with all runs above.
    fn any_above_deep(&mut self, a: &Word) -> Result<Vec<Sum>> {
        let some = |v: i64| i64::from(v != 0);
        let digits = a.digits.iter().map(|d| self.map(d, some)).collect::<Result<Vec<_>>>()?;
        let mut flags = vec![];
        for run in digits.chunks(RUN) {
            for i in 0..run.len() {
                flags.push(self.map(&Sum::of(&run[i..]), some)?);
            }
        }
        let begins: Vec<Sum> = flags.iter().step_by(RUN).cloned().collect();
        for (i, flag) in flags.iter_mut().enumerate() {
            let above = Sum::of(&begins[i / RUN + 1..]);
            *flag = self.map(&(&*flag + &above), some)?;
        }
        flags.push(Sum::clear(0));
        Ok(flags)
    }

    /// R ← R − D where R ≥ D; `weight` if so, else 0. `above` is 1 if D has digits that R has not.
    fn reduce(
        &mut self,
        rest: &mut [Sum],
        divisor: &[Sum],
        above: &Sum,
        weight: i64,
    ) -> Result<Sum> {
        let sums: Vec<Sum> = rest.iter().zip(divisor).map(|(r, d)| &r.plus(3) - d).collect();
        let ty = Type::Uint(2 * rest.len() as u32);
        let (less, carry) = self.propagate(ty, &sums, Sum::clear(1), true)?;
        // R ≥ D if nothing is borrowed and D ends where R does.
        let both = &carry + &above.times(2);
        let keep = |v: i64| 7 * i64::from(v != 1);
        let taken = |v: i64| weight * i64::from(v == 1);
        let mut out = self.lookup(&both, &[&keep, &taken])?;
        let taken = out.remove(1);
        for (r, t) in rest.iter_mut().zip(&less.digits) {
            *r = self.choose(&out[0], r, t)?;
        }
        Ok(taken)
    }
}
