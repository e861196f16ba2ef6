//! A clear table at an encrypted index: each digit of the result, or two of them together, by the cheapest of three ways.
//!
//! - A digit that depends on at most two digits of the index takes one bootstrap.
//! - The index is split in two halves, rows and columns. If there are few kinds of rows and of columns, one bootstrap gives the
//!   kind of the row, a second that of the column, and a third the result: popcounts, sums, comparisons.
//! - One bootstrap of a constant polynomial gives a flag e_r ∈ {0, ½} of the torus for each row T_r, exactly one of them ½. A
//!   table that is odd under half a turn gives ±(T_r − T_0) of the column plus that flag, and
//!   Σ_{r≠0} ±(T_r − T_0) + Σ_{r≠0} (T_r − T_0) + 2·T_0 = 2·T,
//!   where all but the first sum is a function of the column. Entries are in half units, so that 2·T is T. Equal rows are one,
//!   and 16 rows of 16 values take 17 bootstraps for two digits together, and one more for each digit.

use super::arithmetic::pack;
use super::element::{MAX_ENTRIES, require_unsigned};
use super::{Clear, Type, Word};
use crate::apps::circuit::{Circuit, Entry, ROOM, Sum, xor};
use crate::{Error, Result};

/// An index, cut into a row and a column of at most two digits each.
#[derive(Clone)]
struct Split {
    row: Vec<usize>,
    column: Vec<usize>,
}

/// A split, and the way to look a function up with it.
struct Chosen {
    /// Bootstraps before the digits are separated.
    cost: usize,
    split: Split,
    way: Way,
}

enum Way {
    /// The kinds of rows and of columns. A row's kind times `factor`, plus the column's, is the place of the value.
    Kinds { rows: Vec<i64>, columns: Vec<i64>, factor: i64, values: Vec<i64> },
    /// The different rows, and the kind of each row.
    Rows { kinds: Vec<usize>, rows: Vec<Vec<i64>> },
}

impl Split {
    /// All splits of `digits` digits.
    fn all(digits: usize) -> Vec<Split> {
        let halves = (1usize..1 << digits).map(|set| {
            let (row, column) = (0..digits).partition(|d| set >> d & 1 == 1);
            Split { row, column }
        });
        halves.filter(|s| s.row.len() <= 2 && s.column.len() <= 2).collect()
    }
}

/// The values that some digits take together, and the part of the index that they stand for.
fn places(x: Type, digits: &[usize]) -> Vec<usize> {
    let mut all = vec![0];
    for digit in digits.iter().rev() {
        let below = all.clone();
        // One after another, the first digit the least significant.
        all = below
            .iter()
            .flat_map(|high| (0..=x.mask(*digit) as usize).map(move |v| high + (v << (2 * digit))))
            .collect();
    }
    all
}

/// A number for each item, the same for equal items, and the different items in order.
fn kinds<T: PartialEq + Clone>(items: &[T]) -> (Vec<usize>, Vec<T>) {
    let mut found: Vec<T> = vec![];
    let number = |item: &T| {
        found.iter().position(|f| f == item).unwrap_or_else(|| {
            found.push(item.clone());
            found.len() - 1
        })
    };
    (items.iter().map(number).collect(), found)
}

impl Chosen {
    /// The cheaper of the two ways with a split.
    fn of(x: Type, split: Split, f: &dyn Fn(usize) -> i64) -> Chosen {
        let (high, low) = (places(x, &split.row), places(x, &split.column));
        let row = |h: &usize| low.iter().map(|l| f(h + l)).collect::<Vec<i64>>();
        let column = |l: &usize| high.iter().map(|h| f(h + l)).collect::<Vec<i64>>();
        let (of_row, rows) = kinds(&high.iter().map(row).collect::<Vec<_>>());
        let turned: Vec<_> = low.iter().map(column).collect();
        let (of_column, columns) = kinds(&turned);
        let (most, wide) = (rows.len() as i64, columns.len() as i64);
        let sum = |factor: i64| {
            let mut known = [None; ROOM as usize];
            for (r, c) in (0..most).flat_map(|r| (0..wide).map(move |c| (r, c))) {
                // The first row of a kind of columns is that of all of them.
                let value = columns[c as usize][of_row.iter().position(|k| *k as i64 == r)?];
                let at = known.get_mut((factor * r + c) as usize)?;
                if *at.get_or_insert(value) != value {
                    return None;
                }
            }
            Some((factor, known.map(|value| value.unwrap_or(0)).to_vec()))
        };
        match (1..=ROOM).find_map(sum) {
            Some((factor, values)) => {
                let numbers = |of: Vec<usize>| of.into_iter().map(|k| k as i64).collect();
                let (rows, columns) = (numbers(of_row), numbers(of_column));
                Chosen { cost: 2, split, way: Way::Kinds { rows, columns, factor, values } }
            }
            None => Chosen { cost: rows.len(), split, way: Way::Rows { kinds: of_row, rows } },
        }
    }
}

impl Circuit<'_> {
    /// The entry of a clear table at an encrypted value of at most 8 bits; 0 past its end. A table of up to 16 entries takes one
    /// bootstrap for each digit of the result. One of up to 256 takes at most 17 for two digits, one more for each digit, and two
    /// for all.
    ///
    /// # Errors
    /// As [`Circuit::index`].
    pub fn table(&mut self, x: &Word, ty: Type, entries: &[Clear]) -> Result<Word> {
        let words = entries.iter().map(|e| Word::clear(ty, *e)).collect::<Result<Vec<_>>>()?;
        require_unsigned(x)?;
        if words.is_empty() {
            return Err(Error::bad_input("table", "at least one entry", "none", "pass a table"));
        }
        if words.len() > MAX_ENTRIES || x.ty.bits() > 8 {
            return Err(Error::bad_input(
                "table",
                format!("at most {MAX_ENTRIES} entries and an index of at most 8 bits"),
                format!("{} and {}", words.len(), x.ty),
                "cast the index, or select between halves",
            ));
        }
        let entry = |at: usize, k: usize| {
            let digit = words.get(at).and_then(|w| w.digits[k].constant());
            digit.unwrap_or(0)
        };
        let mut digits = vec![];
        while digits.len() < ty.digits() {
            let k = digits.len();
            let one = |at: usize| entry(at, k);
            let next = |at: usize| if k + 1 < ty.digits() { entry(at, k + 1) } else { 0 };
            if let Some(direct) = self.direct(x, &one)? {
                digits.push(direct);
                continue;
            }
            let alone = cheapest(x.ty, &one);
            // The next digit goes with it, unless that digit has a cheaper way.
            if support(x.ty, &next).len() > 2 {
                let pair = cheapest(x.ty, &|at| one(at) + 4 * next(at));
                if pair.cost < alone.cost + cheapest(x.ty, &next).cost {
                    digits.extend(self.chosen(x, pair, &[&|v| v & 3, &|v| v >> 2])?);
                    continue;
                }
            }
            digits.extend(self.chosen(x, alone, &[&|v| v])?);
        }
        Ok(Word { ty, digits })
    }

    /// A function of at most two digits of the index.
    fn direct(&mut self, x: &Word, f: &dyn Fn(usize) -> i64) -> Result<Option<Sum>> {
        let value = |d: &[usize], v: i64| {
            let digit = |(i, d): (usize, &usize)| (v as usize >> (2 * i) & 3) << (2 * d);
            f(d.iter().enumerate().map(digit).sum())
        };
        let used = support(x.ty, f);
        Ok(match used[..] {
            [] => Some(Sum::clear(f(0))),
            [a] => Some(self.map(&x.digits[a], |v| value(&used, v))?),
            [a, b] => {
                let both = pack(&x.digits[b], &x.digits[a]);
                Some(self.map(&both, |v| value(&used, v))?)
            }
            _ => None,
        })
    }

    /// The digits of a value that is looked up in a chosen way.
    fn chosen(&mut self, x: &Word, chosen: Chosen, digits: &[Entry]) -> Result<Vec<Sum>> {
        let Chosen { split, way, .. } = chosen;
        let packed = |digits: &[usize]| match digits {
            [a, b] => pack(&x.digits[*b], &x.digits[*a]),
            _ => x.digits[digits[0]].clone(),
        };
        let (row, column) = (packed(&split.row), packed(&split.column));
        match way {
            Way::Kinds { rows, columns, factor, values } => {
                let at = |list: &[i64], v: i64| list.get(v as usize).copied().unwrap_or(0);
                let row = self.map(&row, |v| factor * at(&rows, v))?;
                let column = self.map(&column, |v| at(&columns, v))?;
                let sum = &row + &column;
                let value = |v: i64| at(&values, v);
                let part = |d: &Entry| -> Vec<i64> { (0..ROOM).map(|v| d(value(v))).collect() };
                let tables: Vec<Vec<i64>> = digits.iter().map(part).collect();
                let functions: Vec<_> = tables.iter().map(|t| move |v: i64| at(t, v)).collect();
                let parts: Vec<Entry> = functions.iter().map(|f| f as Entry).collect();
                self.lookup(&sum, &parts)
            }
            Way::Rows { kinds, rows } => {
                let value = self.rows(&row, &column, &kinds, &rows)?;
                digits.iter().map(|d| self.map(&value, d)).collect()
            }
        }
    }

    /// Σ ±(T_r − T_0) and the function of the column that completes it.
    fn rows(&mut self, row: &Sum, column: &Sum, kinds: &[usize], rows: &[Vec<i64>]) -> Result<Sum> {
        // Flags of row ≥ t, at 0 or half a torus.
        let outputs: Vec<_> = (1..ROOM).map(|t| ((ROOM - t) as usize, ROOM, 0, ROOM)).collect();
        let thresholds = self.circle(row, &[-ROOM; ROOM as usize], &outputs)?;
        let list = |f: &dyn Fn(usize) -> i64| {
            let mut all = [0; ROOM as usize];
            (0..rows[0].len()).for_each(|c| all[c] = f(c));
            all
        };
        let mut terms = vec![];
        for (kind, values) in rows.iter().enumerate().skip(1) {
            let here = |t: usize| kinds[t] == kind;
            let changes = (1..kinds.len()).filter(|t| here(*t) != here(t - 1));
            let start = Sum::clear(ROOM * i64::from(here(0)));
            let flag = xor(changes.map(|t| &thresholds[t - 1]).chain([&start]));
            let v = (column + &flag).within(0, 2 * ROOM - 1);
            let entries = list(&|c| rows[0][c] - values[c]);
            terms.extend(self.circle(&v, &entries, &[(0, 0, -ROOM, ROOM)])?);
        }
        let rest = list(&|c| {
            let all: i64 =
                rows[1..].iter().map(|r| r[c] - rows[0][c]).sum::<i64>() + 2 * rows[0][c];
            // Half units of the torus, of which there are 64.
            (all + 2 * ROOM).rem_euclid(4 * ROOM) - 2 * ROOM
        });
        terms.extend(self.circle(
            &column.clone().within(0, ROOM - 1),
            &rest,
            &[(0, 0, -ROOM, ROOM)],
        )?);
        let most = rows.iter().flatten().max().copied().unwrap_or(0);
        Ok(Sum::of(&terms).within(0, most))
    }
}

/// The digits of the index that a function depends on.
fn support(x: Type, f: &dyn Fn(usize) -> i64) -> Vec<usize> {
    let size = 1usize << x.bits();
    let matters = |d: &usize| (0..size).any(|at| f(at) != f(at & !(3 << (2 * d))));
    (0..x.digits()).filter(matters).collect()
}

/// The cheapest split, of an index of three digits or four.
fn cheapest(x: Type, f: &dyn Fn(usize) -> i64) -> Chosen {
    let (column, row) = (0..x.digits()).partition(|d| *d < 2);
    let first = Chosen::of(x, Split { row, column }, f);
    let others = Split::all(x.digits()).into_iter().map(|split| Chosen::of(x, split, f));
    others.fold(first, |best, c| if c.cost < best.cost { c } else { best })
}
