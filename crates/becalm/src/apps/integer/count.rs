//! Counting bits: each digit gives its share by a table, and the shares are summed in columns.

use super::{Type, Word};
use crate::apps::circuit::{Circuit, Sum};
use crate::{Error, Result};

/// Which bits are counted, from which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Leading,
    Trailing,
}

/// The type of a count of the bits of a type: just wide enough for all of them.
pub(super) fn count_type(ty: Type) -> Type {
    Type::Uint((u32::BITS - ty.bits().leading_zeros()).max(2))
}

impl Circuit<'_> {
    fn tally(&mut self, ty: Type, shares: Vec<Sum>) -> Result<Word> {
        self.columns(count_type(ty), vec![shares])
    }

    /// How many bits are 1. The result is just wide enough for the count of all bits; so are those below.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn count_ones(&mut self, a: &Word) -> Result<Word> {
        let ones = |d: &Sum| self.map(d, |v| i64::from(v.count_ones()));
        let shares = a.digits.iter().map(ones).collect::<Result<_>>()?;
        self.tally(a.ty, shares)
    }

    /// Whether any of these words, of any types, is not zero; false of none.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn any(&mut self, words: &[Word]) -> Result<Word> {
        let digits: Vec<Sum> = words.iter().flat_map(|w| w.digits.clone()).collect();
        let none = self.all_zero(&digits)?;
        Ok(Word::bool((-&none).plus(1)))
    }

    /// Whether none of these words, of any types, is zero; true of none.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn all(&mut self, words: &[Word]) -> Result<Word> {
        let zero = |w: &Word| match w.ty {
            Type::Bool => Ok((-&w.digits[0]).plus(1)),
            _ => self.all_zero(&w.digits),
        };
        let zeros = words.iter().map(zero).collect::<Result<Vec<_>>>()?;
        Ok(Word::bool(self.all_zero(&zeros)?))
    }

    /// How many of these booleans are true, in an unsigned type just wide enough for all of them.
    ///
    /// # Errors
    /// [`Error::BadInput`] for an empty list, or words that are not booleans.
    pub fn count(&mut self, flags: &[Word]) -> Result<Word> {
        if flags.is_empty() {
            return Err(Error::bad_input("count", "at least one boolean", "none", "pass one"));
        }
        let shares = flags.iter().map(|f| f.truth("count").cloned()).collect::<Result<_>>()?;
        let bits = usize::BITS - flags.len().leading_zeros();
        self.columns(Type::Uint(bits.max(2)), vec![shares])
    }

    /// How many bits are 0 before the first 1.
    pub(super) fn zeros(&mut self, a: &Word, end: End) -> Result<Word> {
        let mut order: Vec<usize> = (0..a.digits.len()).collect();
        if end == End::Leading {
            order.reverse();
        }
        let (mut shares, mut seen) = (vec![], Sum::clear(0));
        for i in order {
            let width = i64::from(64 - (a.ty.mask(i) as u64).leading_zeros());
            let share = |v: i64| match (v, end) {
                (0, _) => width,
                (4.., _) => 0,
                (_, End::Leading) => width - i64::from(64 - v.leading_zeros()),
                (_, End::Trailing) => i64::from(v.trailing_zeros()),
            };
            let mut both =
                self.lookup(&(&a.digits[i] + &seen), &[&|v| 4 * i64::from(v != 0), &share])?;
            shares.push(both.remove(1));
            seen = both.remove(0);
        }
        self.tally(a.ty, shares)
    }

    /// Zeros above the highest 1.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn leading_zeros(&mut self, a: &Word) -> Result<Word> {
        self.zeros(a, End::Leading)
    }

    /// Zeros below the lowest 1.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn trailing_zeros(&mut self, a: &Word) -> Result<Word> {
        self.zeros(a, End::Trailing)
    }

    /// Ones above the highest 0.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn leading_ones(&mut self, a: &Word) -> Result<Word> {
        let flipped = self.not(a);
        self.zeros(&flipped, End::Leading)
    }

    /// Ones below the lowest 0.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn trailing_ones(&mut self, a: &Word) -> Result<Word> {
        let flipped = self.not(a);
        self.zeros(&flipped, End::Trailing)
    }

    /// ⌊log2 a⌋ of the bits without sign; all ones for a = 0.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn ilog2(&mut self, a: &Word) -> Result<Word> {
        let zeros = self.leading_zeros(a)?;
        let most = Word::clear(zeros.ty, u64::from(a.ty.bits() - 1).into())?;
        self.sub(&most, &zeros)
    }
}
