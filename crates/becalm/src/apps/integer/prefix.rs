//! Carries by parallel prefix, for the shortest path: 4 deep for 64 bits, in waves of about 30 bootstraps.
//!
//! A run of digits makes a carry (1), passes one on (0) or stops it (−1). These states of up to four runs merge by the sign of
//! 8x₃ + 4x₂ + 2x₁ + x₀, one bootstrap on the whole torus: first those of single digits, then those of runs of 4, 16, … digits,
//! until at most eight runs are left. One level on, the carries into the first five runs are known, and so are the states of all
//! that lies between the fifth run and any digit above. For a digit d, the state p of what lies below it and the carry c into that,
//! 4d + (p + 1) + c tells everything: it is carried where p + 1 + c ≥ 2.
//!
//! The lowest digit's sum less 3 is above 0 if it is carried. That needs no bootstrap, but takes two of the four places.

use super::sign::Ask;
use super::{Type, Word};
use crate::Result;
use crate::apps::circuit::{Circuit, NORM2, Sum};

/// Runs whose states are merged at once, and in how many the last level may leave the digits: twice as many.
const MERGED: usize = 4;

/// The meaning of a sum over a run of digits.
#[derive(Clone)]
enum Says {
    /// −weight, 0 or weight: the state.
    State(i64),
    /// The carry out of the run and all below it.
    Carry,
    /// It is above 0 if the lowest digit is carried. The other sum is that carry.
    Lowest(Sum),
}

/// A run of digits.
#[derive(Clone)]
struct Run {
    sum: Sum,
    says: Says,
}

impl Run {
    /// The state times a weight.
    fn times(&self, weight: i64) -> Sum {
        match self.says {
            Says::State(own) => self.sum.times(weight / own),
            Says::Carry => self.sum.times(2 * weight).plus(-weight),
            Says::Lowest(_) => self.sum.times(weight),
        }
    }
}

/// Digits, and for each place the run that begins there; the lowest digit has places 0 and 1.
type Leaves = (Vec<Sum>, Vec<Option<Run>>);

impl Circuit<'_> {
    /// [`Circuit::propagate`] on the shortest path.
    pub(super) fn propagate_deep(
        &mut self,
        ty: Type,
        sums: &[Sum],
        carry: &Sum,
        out: bool,
    ) -> Result<(Word, Sum)> {
        let n = sums.len();
        let (digits, mut runs) = self.leaves(ty, sums, carry, out)?;
        // Of all that lies between a digit and the begin of its run.
        let mut below: Vec<Option<Run>> = vec![None; n];
        let mut size = 1;
        while n > 2 * MERGED * size {
            let next = MERGED * size;
            let last = n <= 2 * MERGED * next;
            for (i, lower) in below.iter_mut().enumerate().skip(1) {
                let at = (i + 1) / next;
                let place = if last { at.saturating_sub(MERGED) } else { at % MERGED };
                let between = &runs[MERGED * at..(i + 1) / size];
                *lower = self.merged(between, lower.as_ref(), 1 << place)?;
            }
            let count = if out { n / next + 1 } else { n / next };
            let each = (0..count).map(|at| {
                let end = runs.len().min(MERGED * (at + 1));
                self.merged(&runs[MERGED * at..end], None, 1 << (at % MERGED))
            });
            runs = each.collect::<Result<_>>()?;
            size = next;
        }
        let known = (0..=MERGED.min(n / size)).map(|at| self.merged(&runs[..at], None, 1));
        let known = known.collect::<Result<Vec<_>>>()?;
        let mut done = vec![digits[0].clone()];
        for (i, digit) in digits.iter().enumerate().skip(1) {
            let at = (i + 1) / size;
            let state = match at {
                0..=MERGED => below[i].clone(),
                _ => self.merged(&runs[MERGED..at], below[i].as_ref(), 1)?,
            };
            let carried = carried(state.as_ref(), known[at.min(MERGED)].as_ref());
            let mask = ty.mask(i);
            let finish = |v: i64| ((v >> 2) + i64::from(v & 3 >= 2)) & mask;
            done.push(self.map(&(digit + &carried), finish)?);
        }
        let carry = if out { self.carry_out(&runs, known.last())? } else { Sum::clear(0) };
        Ok((Word { ty, digits: done }, carry))
    }

    /// The digits without what is carried into them, all but the lowest times 4, and the states of each.
    fn leaves(&mut self, ty: Type, sums: &[Sum], carry: &Sum, out: bool) -> Result<Leaves> {
        let first = &sums[0] + carry;
        let mask = ty.mask(0);
        let both: [&dyn Fn(i64) -> i64; 2] = [&|v| v & mask, &|v| i64::from(v > mask)];
        let mut parts = self.lookup(&first, &both)?;
        let bit = parts.remove(1);
        // Beside it stand at most 2 more variances.
        let lowest = match self.norm2(&first) + 2 <= NORM2 {
            true => Run { sum: first.plus(-mask), says: Says::Lowest(bit) },
            false => Run { sum: bit, says: Says::Carry },
        };
        let (mut digits, mut runs) = (parts, vec![Some(lowest), None]);
        for (i, sum) in sums.iter().enumerate().skip(1) {
            let (mask, weight) = (ty.mask(i), 1 << ((i + 1) % MERGED));
            let digit = |v: i64| 4 * (v & mask);
            if i + 1 == sums.len() && !out {
                digits.push(self.map(sum, digit)?);
                break;
            }
            let both: [&dyn Fn(i64) -> i64; 2] = [&digit, &|v| weight * (v - mask).signum()];
            let mut parts = self.lookup(sum, &both)?;
            runs.push(Some(Run { sum: parts.remove(1), says: Says::State(weight) }));
            digits.push(parts.remove(0));
        }
        Ok((digits, runs))
    }

    /// Up to four runs, the lowest first, as one whose state comes times `weight`; none if there are none.
    fn merged(
        &mut self,
        runs: &[Option<Run>],
        above: Option<&Run>,
        weight: i64,
    ) -> Result<Option<Run>> {
        let places = runs.iter().map(Option::as_ref).chain([above]).enumerate();
        let all: Vec<(usize, &Run)> = places.filter_map(|(k, run)| Some((k, run?))).collect();
        let first = match all[..] {
            [] => return Ok(None),
            [(_, Run { says: Says::Lowest(bit), .. })] => {
                return Ok(Some(Run { sum: bit.clone(), says: Says::Carry }));
            }
            [(_, only)] => return Ok(Some(only.clone())),
            [(_, first), ..] => first,
        };
        let (ask, says) = match first.says {
            Says::State(_) => (Ask::Sign(weight), Says::State(weight)),
            _ => (Ask::Greater, Says::Carry),
        };
        let weighted: Vec<Sum> = all.iter().map(|(k, run)| run.times(1 << k)).collect();
        let sum = self.sign_of(&Sum::of(&weighted), ask)?;
        Ok(Some(Run { sum, says }))
    }

    /// The carry out of all runs of the last level, by the carry into the fifth where there are so many.
    fn carry_out(&mut self, runs: &[Option<Run>], fifth: Option<&Option<Run>>) -> Result<Sum> {
        let out = match runs {
            [_, _, _, _, upper @ ..] if !upper.is_empty() => {
                let (four, rest) = upper.split_at(upper.len().min(MERGED));
                let four = self.merged(four, None, 2)?;
                let ninth = rest.first().cloned().flatten();
                self.merged(&[fifth.cloned().flatten(), four, ninth], None, 1)?
            }
            all => self.merged(all, None, 1)?,
        };
        Ok(out.map_or(Sum::clear(0), |run| run.sum))
    }
}

/// At least 2 if a digit is carried into, of at most 3.
fn carried(state: Option<&Run>, known: Option<&Run>) -> Sum {
    match (state, known) {
        (Some(state), Some(known)) => (&state.times(1).plus(1) + &known.sum).within(0, 3),
        (Some(only), None) | (None, Some(only)) => only.sum.times(2),
        (None, None) => Sum::clear(0),
    }
}
