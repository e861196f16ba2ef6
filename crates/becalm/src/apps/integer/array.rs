//! Lists of words: order, extremes, prefixes, membership; each records one program.
//!
//! A comparator of a sorting network asks once whether a > b and then takes two bootstraps for each digit. Both shares of a
//! digit, the one that stays and the one that moves, come from one rotation. The smaller and the greater word are sums of two
//! such shares. Networks are Batcher's merge exchange (Knuth, The Art of Computer Programming, 5.2.2 M): for n words about
//! n·log²n/4 comparators, log n·(log n + 1)/2 deep. Indices travel as further digits below the value's, so that equal
//! values keep their order.

use super::arithmetic::pack;
use super::{Type, Word};
use crate::apps::circuit::{Aim, Circuit, Sum};
use crate::{Error, Result};

/// A chosen digit enters the next comparator without a bootstrap if its noise is at most that of this number of bootstraps.
const KEPT: i64 = 2;

/// An operation on a list of words, by its name.
pub struct ListOperation {
    /// Its name: `"sort"`.
    pub name: &'static str,
    record: fn(&mut Circuit, &[Word]) -> Result<Vec<Word>>,
}

/// Every operation that takes any number of words.
///
/// `dot` takes two lists of one length, one after the other; `matmul` a list of words, then clear rows of that length, and
/// gives a dot product for each; `index` an array and the index behind it; `isin` a word and the list that it may be in;
/// `clip` a word, the least and the greatest value; `pow` a word and a clear exponent.
pub const LIST_OPERATIONS: &[ListOperation] = &[
    list("sum", |c, w| one(c.total(w))),
    list("parity", |c, w| one(c.sum(w))),
    list("any", |c, w| one(c.any(w))),
    list("all", |c, w| one(c.all(w))),
    list("min", |c, w| one(c.least(w))),
    list("max", |c, w| one(c.greatest(w))),
    list("prod", |c, w| one(c.product(w))),
    list("argmin", |c, w| one(c.arg_least(w))),
    list("argmax", |c, w| one(c.arg_greatest(w))),
    list("sort", |c, w| c.sort(w)),
    list("argsort", |c, w| c.argsort(w)),
    list("cumsum", |c, w| c.running_sums(w)),
    list("cumprod", |c, w| c.scan(w, |c, a, b| c.mul(a, b))),
    list("cummin", |c, w| c.scan(w, |c, a, b| c.min(a, b))),
    list("cummax", |c, w| c.scan(w, |c, a, b| c.max(a, b))),
    list("dot", |c, w| {
        let (a, b) = w.split_at(w.len() / 2);
        one(c.dot(a, b))
    }),
    list("matmul", |c, w| c.dots(w)),
    list("index", |c, w| {
        let (array, at) = w.split_at(w.len().saturating_sub(1));
        one(c.index(array, at.first().ok_or_else(|| none("index"))?))
    }),
    list("isin", |c, w| {
        let (x, set) = w.split_first().ok_or_else(|| none("isin"))?;
        one(c.is_in(x, set))
    }),
    list("clip", |c, w| match w {
        [x, low, high] => {
            let above = c.max(x, low)?;
            one(c.min(&above, high))
        }
        _ => Err(others("clip", "a word, the least and the greatest value", w)),
    }),
    list("sign", |c, w| match w {
        [x] => one(c.sign(x)),
        _ => Err(others("sign", "one word", w)),
    }),
    list("pow", |c, w| match w {
        [x, exponent] => one(c.pow(x, clear_number(exponent)?)),
        _ => Err(others("pow", "a word and an exponent", w)),
    }),
];

const fn list(
    name: &'static str,
    record: fn(&mut Circuit, &[Word]) -> Result<Vec<Word>>,
) -> ListOperation {
    ListOperation { name, record }
}

fn one(word: Result<Word>) -> Result<Vec<Word>> {
    Ok(vec![word?])
}

/// The refusal of no words.
fn none(op: &'static str) -> Error {
    Error::bad_input(op, "at least one word", "none", "pass one")
}

/// The refusal of another number of words.
fn others(op: &'static str, wanted: &str, words: &[Word]) -> Error {
    Error::bad_input(op, wanted, format!("{} words", words.len()), "pass these words alone")
}

/// The value of a clear word of at most 64 bits.
fn clear_number(word: &Word) -> Result<u64> {
    let digit = |n: u64, d: &Sum| Some(n.checked_mul(4)?.saturating_add(d.constant()? as u64));
    word.digits.iter().rev().try_fold(0, digit).ok_or_else(|| {
        let (wanted, got) = ("a clear exponent below 2^64", "another one");
        Error::bad_input("pow", wanted, got, "multiply, or look the value up in a table")
    })
}

impl ListOperation {
    /// The operation of a name; none if there is none.
    pub fn named(name: &str) -> Option<&'static ListOperation> {
        LIST_OPERATIONS.iter().find(|o| o.name == name)
    }

    /// Records the operation on some words.
    ///
    /// # Errors
    /// [`Error::BadInput`] for too few words, or types that it does not take.
    pub fn record(&self, circuit: &mut Circuit, words: &[Word]) -> Result<Vec<Word>> {
        if words.is_empty() {
            return Err(none(self.name));
        }
        circuit.cheaper(words, &self.record)
    }
}

/// A word in a tournament, and the place that it came from.
#[derive(Clone)]
struct Entrant {
    word: Word,
    place: Vec<Sum>,
}

/// Indices of a list of `count` words: an unsigned type just wide enough.
fn place_type(count: usize) -> Type {
    Type::Uint((usize::BITS - (count - 1).leading_zeros()).max(2))
}

/// The digits of an index.
fn place_digits(at: usize, ty: Type) -> Vec<Sum> {
    (0..ty.digits()).map(|d| Sum::clear((at >> (2 * d) & 3) as i64)).collect()
}

/// Refuses an empty list, and words of different types.
fn alike<'a>(op: &'static str, words: &'a [Word]) -> Result<&'a Word> {
    let first = words.first().ok_or_else(|| none(op))?;
    words.iter().try_for_each(|w| first.require_like(w, op))?;
    Ok(first)
}

/// The comparators of a sorting network for n wires, in an order in which they can be applied.
fn network(n: usize) -> Vec<(usize, usize)> {
    let top = n.next_power_of_two() / 2;
    let (mut pairs, mut p) = (vec![], top);
    while p > 0 {
        let (mut q, mut r, mut d) = (top, 0, p);
        loop {
            pairs.extend((0..n - d).filter(|i| i & p == r).map(|i| (i, i + d)));
            if q == p {
                break;
            }
            (d, q, r) = (q - p, q / 2, p);
        }
        p /= 2;
    }
    pairs
}

impl Circuit<'_> {
    /// The words in ascending order, by a sorting network.
    ///
    /// # Errors
    /// [`Error::BadInput`] for no words, or words of different types. This holds for all operations on lists.
    ///
    /// ```
    /// # use becalm::apps::{Aim, Circuit, integer::{Clear, Type}};
    /// # use becalm::params::TfheParams;
    /// let params = TfheParams::named("tfhe_2_2")?.clone();
    /// let mut circuit = Circuit::new(params.into(), Aim::Work)?;
    /// let x = (0..3).map(|_| circuit.input(Type::Uint(8))).collect::<Result<Vec<_>, _>>()?;
    /// let sorted = circuit.sort(&x)?;
    /// let recorded = circuit.finish(&x.iter().collect::<Vec<_>>(), &sorted.iter().collect::<Vec<_>>())?;
    /// let clear = recorded.run_unencrypted(&[200u64, 3, 77].map(Clear::from))?;
    /// assert_eq!(clear.iter().map(|v| v.low()).collect::<Vec<_>>(), [3, 77, 200]);
    /// # Ok::<(), becalm::Error>(())
    /// ```
    pub fn sort(&mut self, words: &[Word]) -> Result<Vec<Word>> {
        alike("sort", words)?;
        self.exchanged(words.to_vec())
    }

    /// Where the words stand in ascending order; equal ones in the order of the list.
    ///
    /// # Errors
    /// As [`Circuit::sort`].
    pub fn argsort(&mut self, words: &[Word]) -> Result<Vec<Word>> {
        let (first, place) = (alike("argsort", words)?, place_type(words.len()));
        let below = 2 * place.digits() as u32;
        // This type is wider than any that users have: only its digits and its sign count.
        let ty = match first.ty {
            Type::Int(bits) => Type::Int(bits + below),
            ty => Type::Uint(ty.bits() + below),
        };
        let keyed = |(at, w): (usize, &Word)| {
            let digits = [place_digits(at, place), w.digits.clone()].concat();
            Word { ty, digits }
        };
        let sorted = self.exchanged(words.iter().enumerate().map(keyed).collect())?;
        let places = sorted.into_iter().map(|mut w| {
            w.digits.truncate(place.digits());
            Word { ty: place, digits: w.digits }
        });
        Ok(places.collect())
    }

    fn exchanged(&mut self, mut words: Vec<Word>) -> Result<Vec<Word>> {
        for (i, j) in network(words.len()) {
            (words[i], words[j]) = self.exchange(&words[i], &words[j])?;
        }
        Ok(words)
    }

    /// The smaller and the greater of two words.
    fn exchange(&mut self, a: &Word, b: &Word) -> Result<(Word, Word)> {
        let (mut low, mut high) = (vec![], vec![]);
        if a.ty == Type::Bool {
            // Both bits of their sum from one rotation.
            let count = &a.digits[0] + &b.digits[0];
            let both = self.lookup(&count, &[&|v| i64::from(v == 2), &|v| i64::from(v > 0)])?;
            let mut both = both.into_iter().map(Word::bool);
            return match (both.next(), both.next()) {
                (Some(low), Some(high)) => Ok((low, high)),
                _ => Err(none("sort")),
            };
        }
        let moves = self.greater(a, b)?.times(4);
        for (i, (x, y)) in a.digits.iter().zip(&b.digits).enumerate() {
            if x == y {
                low.push(x.clone());
                high.push(x.clone());
                continue;
            }
            let (stays, leaves) = (|v: i64| v * i64::from(v < 4), |v: i64| (v - 4).max(0));
            let x = self.lookup(&(x + &moves), &[&stays, &leaves])?;
            let y = self.lookup(&(y + &moves), &[&stays, &leaves])?;
            let mask = a.ty.mask(i);
            low.push((&x[0] + &y[1]).within(0, mask));
            high.push((&x[1] + &y[0]).within(0, mask));
        }
        Ok((Word { ty: a.ty, digits: low }, Word { ty: a.ty, digits: high }))
    }

    /// The least of the words.
    ///
    /// # Errors
    /// As [`Circuit::sort`].
    pub fn least(&mut self, words: &[Word]) -> Result<Word> {
        if alike("min", words)?.ty == Type::Bool {
            return self.all(words);
        }
        Ok(self.tournament(words, None, false)?.word)
    }

    /// The greatest of the words.
    ///
    /// # Errors
    /// As [`Circuit::sort`].
    pub fn greatest(&mut self, words: &[Word]) -> Result<Word> {
        if alike("max", words)?.ty == Type::Bool {
            return self.any(words);
        }
        Ok(self.tournament(words, None, true)?.word)
    }

    /// The index of the least word, the first of several, in an unsigned type just wide enough.
    ///
    /// # Errors
    /// As [`Circuit::sort`].
    pub fn arg_least(&mut self, words: &[Word]) -> Result<Word> {
        alike("argmin", words)?;
        let ty = place_type(words.len());
        Ok(Word { ty, digits: self.tournament(words, Some(ty), false)?.place })
    }

    /// The index of the greatest word, the first of several, in an unsigned type just wide enough.
    ///
    /// # Errors
    /// As [`Circuit::sort`].
    pub fn arg_greatest(&mut self, words: &[Word]) -> Result<Word> {
        alike("argmax", words)?;
        let ty = place_type(words.len());
        Ok(Word { ty, digits: self.tournament(words, Some(ty), true)?.place })
    }

    /// The best word, and its place if a type for places is given. Neighbours meet in rounds, so that the first of equal words
    /// wins.
    fn tournament(
        &mut self,
        words: &[Word],
        place: Option<Type>,
        greatest: bool,
    ) -> Result<Entrant> {
        let entrant = |(at, w): (usize, &Word)| {
            let place = place.map(|ty| place_digits(at, ty)).unwrap_or_default();
            Entrant { word: w.clone(), place }
        };
        let mut level: Vec<Entrant> = words.iter().enumerate().map(entrant).collect();
        while level.len() > 1 {
            // The last round computes only the result that was asked for.
            let whole = place.is_none() || level.len() > 2;
            let mut winners = vec![];
            for pair in level.chunks(2) {
                winners.push(match pair {
                    [a, b] => self.winner(a, b, whole, greatest)?,
                    rest => rest[0].clone(),
                });
            }
            level = winners;
        }
        Ok(level.remove(0))
    }

    fn winner(&mut self, a: &Entrant, b: &Entrant, whole: bool, greatest: bool) -> Result<Entrant> {
        let later = match greatest {
            true => self.greater(&b.word, &a.word)?,
            false => self.greater(&a.word, &b.word)?,
        };
        let seven = self.map(&later, |v| 7 * v)?;
        let mut digits = |from: &[Sum], to: &[Sum]| {
            let digit = |(x, y): (&Sum, &Sum)| {
                let chosen = if x == y { x.clone() } else { self.choose(&seven, y, x)? };
                let noisy = self.norm2(&chosen) > KEPT;
                if noisy { self.map(&chosen, |v| v) } else { Ok(chosen) }
            };
            from.iter().zip(to).map(digit).collect::<Result<Vec<_>>>()
        };
        let place = digits(&a.place, &b.place)?;
        let kept = if whole { digits(&a.word.digits, &b.word.digits)? } else { vec![] };
        Ok(Entrant { word: Word { ty: a.word.ty, digits: kept }, place })
    }

    /// The sum of the words; of booleans how many are true.
    fn total(&mut self, words: &[Word]) -> Result<Word> {
        match words.iter().all(|w| w.ty == Type::Bool) {
            true => self.count(words),
            false => self.sum(words),
        }
    }

    /// The product of the words, modulo 2^bits; of booleans whether all are true.
    ///
    /// # Errors
    /// As [`Circuit::sort`].
    pub fn product(&mut self, words: &[Word]) -> Result<Word> {
        if alike("prod", words)?.ty == Type::Bool {
            return self.all(words);
        }
        let mut level = words.to_vec();
        while level.len() > 1 {
            let pairs = level.chunks(2);
            let product = |p: &[Word]| match p {
                [a, b] => self.mul(a, b),
                rest => Ok(rest[0].clone()),
            };
            level = pairs.map(product).collect::<Result<_>>()?;
        }
        Ok(level.remove(0))
    }

    /// a to a clear power, modulo 2^bits, by squares and products.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn pow(&mut self, a: &Word, exponent: u64) -> Result<Word> {
        let (mut result, mut square) = (None, a.clone());
        for bit in 0..u64::BITS - exponent.leading_zeros() {
            if bit > 0 {
                square = self.mul(&square, &square)?;
            }
            if exponent >> bit & 1 == 1 {
                result = Some(match result {
                    None => square.clone(),
                    Some(so_far) => self.mul(&so_far, &square)?,
                });
            }
        }
        result.map_or_else(|| Word::clear(a.ty, 1u64.into()), Ok)
    }

    /// The sums of the first words, of the first two, …, of all, modulo 2^bits; of booleans how many are true, in an unsigned
    /// type just wide enough for all of them.
    ///
    /// # Errors
    /// As [`Circuit::sort`].
    pub fn running_sums(&mut self, words: &[Word]) -> Result<Vec<Word>> {
        if alike("cumsum", words)?.ty != Type::Bool {
            return self.scan(words, |c, a, b| c.add(a, b));
        }
        let ty = Type::Uint((usize::BITS - words.len().leading_zeros()).max(2));
        let counts = words.iter().map(|w| self.cast(w, ty)).collect::<Result<Vec<_>>>()?;
        self.scan(&counts, |c, a, b| c.add(a, b))
    }

    /// The first word, the first two combined, …, all combined: one after the other, or by parallel prefix for
    /// [`Aim::Depth`]. The combination must be associative.
    fn scan(
        &mut self,
        words: &[Word],
        combine: impl Fn(&mut Circuit, &Word, &Word) -> Result<Word>,
    ) -> Result<Vec<Word>> {
        alike("accumulate", words)?;
        let mut out = words.to_vec();
        if self.aim() == Aim::Work {
            for i in 1..out.len() {
                out[i] = combine(self, &out[i - 1], &out[i])?;
            }
            return Ok(out);
        }
        let mut half = 1;
        while half < out.len() {
            for i in (0..out.len()).filter(|i| i & half != 0) {
                let last = (i & !(2 * half - 1)) + half - 1;
                out[i] = combine(self, &out[last], &out[i])?;
            }
            half *= 2;
        }
        Ok(out)
    }

    /// A dot product of the leading words with each of the clear rows behind them.
    fn dots(&mut self, words: &[Word]) -> Result<Vec<Word>> {
        let clear = |w: &Word| w.constants().is_some();
        let inner = words.iter().position(clear).filter(|n| *n > 0);
        let wanted = "encrypted words, then clear rows of that length";
        let inner = inner.ok_or_else(|| others("matmul", wanted, words))?;
        let (x, rows) = words.split_at(inner);
        rows.chunks(inner).map(|row| self.dot(x, row)).collect()
    }

    /// Whether a word equals any of a list.
    ///
    /// # Errors
    /// As [`Circuit::sort`]; an empty list holds nothing.
    pub fn is_in(&mut self, x: &Word, set: &[Word]) -> Result<Word> {
        set.iter().try_for_each(|w| x.require_like(w, "isin"))?;
        let number = |w: &Word| Some(w.digit(1).constant()? << 2 | w.digit(0).constant()?);
        let known: Option<Vec<i64>> = set.iter().map(number).collect();
        match known.filter(|_| x.digits.len() <= 2) {
            // A table of all values of two digits.
            Some(known) => {
                let packed = pack(&x.digit(1), &x.digit(0));
                let found = self.map(&packed, |v| i64::from(known.contains(&v)))?;
                Ok(Word::bool(found))
            }
            None => {
                let equal = set.iter().map(|w| self.eq(x, w)).collect::<Result<Vec<_>>>()?;
                self.any(&equal)
            }
        }
    }

    /// −1, 0 or 1, as the word is below 0, 0 or above, in its own type.
    ///
    /// # Errors
    /// Errors of the recorder.
    pub fn sign(&mut self, a: &Word) -> Result<Word> {
        let some = self.any(std::slice::from_ref(a))?.digits.remove(0);
        let negative = self.sign_bit(a)?;
        // A negative word is not 0: its lowest digit is 1 + 2.
        let lowest = (&some + &negative.times(2)).within(0, a.ty.mask(0));
        let above = |i| negative.times(a.ty.mask(i));
        let digits = (1..a.digits.len()).map(above);
        Ok(Word { ty: a.ty, digits: std::iter::once(lowest).chain(digits).collect() })
    }
}
