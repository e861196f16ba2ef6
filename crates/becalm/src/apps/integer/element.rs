//! The element of an array at an encrypted index: one flag for each place that a pair of index digits can name, and the sum of
//! the elements that the flags let through.

use super::Word;
use super::arithmetic::pack;
use crate::apps::circuit::{Circuit, Sum};
use crate::{Error, Result};

/// Most entries of a table.
pub(super) const MAX_ENTRIES: usize = 256;

impl Circuit<'_> {
    /// Flags, one for each value below `count`: `weight` where the index has this value, else 0.
    fn one_hot(&mut self, index: &Word, count: usize, weight: i64) -> Result<Vec<Sum>> {
        let low = pack(&index.digit(1), &index.digit(0));
        // A longer index names places past the end, which no flag stands for.
        if count <= 16 && index.digits.len() <= 2 {
            let flag = |i| self.map(&low, |v| weight * i64::from(v == i));
            return (0..count as i64).map(flag).collect();
        }
        let high = pack(&index.digit(3), &index.digit(2));
        let mut flags = vec![];
        for i in 0..count as i64 {
            let (l, h) = (
                self.map(&low, |v| i64::from(v == i % 16))?,
                self.map(&high, |v| i64::from(v == i / 16))?,
            );
            flags.push(self.map(&(&l + &h), |v| weight * i64::from(v == 2))?);
        }
        Ok(flags)
    }

    /// The element of `array` at an encrypted index; 0 past its end. At most 256 elements, an index of at most 8 bits.
    ///
    /// # Errors
    /// [`Error::BadInput`] for an empty or longer array, a longer or signed index, or elements of different types.
    pub fn index(&mut self, array: &[Word], index: &Word) -> Result<Word> {
        let Some(first) = array.first() else {
            return Err(Error::bad_input("index", "at least one element", "none", "pass an array"));
        };
        array.iter().try_for_each(|w| first.require_like(w, "index"))?;
        require_unsigned(index)?;
        if array.len() > MAX_ENTRIES || index.ty.bits() > 8 {
            return Err(Error::bad_input(
                "index",
                format!("at most {MAX_ENTRIES} elements and an index of at most 8 bits"),
                format!("{} and {}", array.len(), index.ty),
                "cast the index, or select between halves",
            ));
        }
        let flags = self.one_hot(index, array.len(), 4)?;
        let mut digits = vec![];
        for k in 0..first.digits.len() {
            let mut terms = vec![];
            for (flag, word) in flags.iter().zip(array) {
                let gated = flag + &word.digits[k];
                terms.push(self.map(&gated, |v| (v - 4).max(0))?);
            }
            digits.push(self.only(terms, first.ty.mask(k))?);
        }
        Ok(Word { ty: first.ty, digits })
    }

    /// The sum of values of which at most one is not 0, bootstrapped.
    fn only(&mut self, mut terms: Vec<Sum>, mask: i64) -> Result<Sum> {
        loop {
            let mut fewer = vec![];
            for group in terms.chunks(25) {
                fewer.push(self.map(&Sum::of(group).within(0, mask), |v| v)?);
            }
            match &fewer[..] {
                [one] => return Ok(one.clone()),
                _ => terms = fewer,
            }
        }
    }
}

/// Refuses a signed index: a negative one would name no place.
pub(super) fn require_unsigned(index: &Word) -> Result<()> {
    match index.ty.signed() {
        true => {
            let got = index.ty.to_string();
            Err(Error::bad_input("index", "an unsigned index", got, "cast it to uintN"))
        }
        false => Ok(()),
    }
}
