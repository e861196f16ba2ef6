//! A clear table at an encrypted index: runs of digits of the result together, each by the cheaper of two ways.
//!
//! - A table of a sum of digits, and of few values that are looked up before (`decompose`): comparisons, popcounts, remainders.
//! - The index is split in two halves, rows and columns. One bootstrap of a constant polynomial gives a flag e_r ∈ {0, ½} of the torus
//!   for each row T_r, exactly one of them ½. A table that is odd under half a turn gives ±(T_r − T_0) of the column plus that flag, and
//!   Σ_{r≠0} ±(T_r − T_0) + Σ_{r≠0} (T_r − T_0) + 2·T_0 = 2·T,
//!   where all but the first sum is a function of the column. Entries are in half units, so that 2·T is T. Equal rows are one,
//!   and 16 rows of 16 values take 17 bootstraps for two digits together, and one more for each digit.

use super::arithmetic::pack;
use super::decompose::{Function, Search, SumTable, kinds};
use super::element::{MAX_ENTRIES, require_unsigned};
use super::{Clear, Type, Word};
use crate::apps::circuit::{Circuit, Entry, ROOM, Sum, xor};
use crate::{Error, Result};

/// Most digits of the result that are looked up together.
const TOGETHER: usize = 4;

/// The values of a digit of the result, or of several, by the index.
type Entries<'a> = &'a dyn Fn(usize) -> i64;

/// An index, cut into a row and a column of at most two digits each.
#[derive(Clone)]
struct Split {
    row: Vec<usize>,
    column: Vec<usize>,
}

/// A way to look a function up.
enum Way {
    /// A table of a sum, and the value of each kind.
    Sum { plan: SumTable, values: Vec<i64> },
    /// The different rows, and the kind of each row.
    Rows { split: Split, kinds: Vec<usize>, rows: Vec<Vec<i64>> },
}

/// A run of digits, and how they are looked up.
struct Run {
    digits: usize,
    cost: usize,
    way: Way,
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

/// The split with the fewest different rows.
fn by_rows(x: Type, f: Entries) -> Option<(Split, Vec<usize>, Vec<Vec<i64>>)> {
    let cut = |split: Split| {
        let (high, low) = (places(x, &split.row), places(x, &split.column));
        let row = |h: &usize| low.iter().map(|l| f(h + l)).collect::<Vec<i64>>();
        let (kinds, rows) = kinds(&high.iter().map(row).collect::<Vec<_>>());
        (split, kinds, rows)
    };
    Split::all(x.digits()).into_iter().map(cut).min_by_key(|(_, _, rows)| rows.len())
}

impl Run {
    /// The cheaper way for some digits of the result, if there is one.
    fn of(plans: &mut Search, x: Type, digits: &[Entries]) -> Option<Run> {
        let value = |at: usize| digits.iter().map(|d| d(at)).collect::<Vec<i64>>();
        let (function, tuples) = Function::of(x, value);
        // Of 4 values each.
        let values: Vec<i64> =
            tuples.iter().map(|t| t.iter().rev().fold(0, |v, d| 4 * v + d)).collect();
        let distinct = different(&tuples, digits.len());
        let digits_of = digits.len();
        let by_sum = function.constant().is_none().then(|| plans.of(&function, distinct)).flatten();
        let way = |cost, way| Run { digits: digits_of, cost, way };
        let by_sum = by_sum.map(|plan| {
            let copied = digits_of == 1 && plan.is_copy(&values);
            let cost = if copied { 0 } else { plan.cost(distinct) };
            way(cost, Way::Sum { plan, values: values.clone() })
        });
        if function.constant().is_some() {
            let plan = SumTable::nothing();
            return Some(way(0, Way::Sum { plan, values }));
        }
        let by_rows = (digits_of <= 2 && x.digits() > 2).then(|| {
            let whole = |at: usize| digits.iter().rev().fold(0, |v, d| 4 * v + d(at));
            let (split, kinds, rows) = by_rows(x, &whole)?;
            Some(way(rows.len() + digits_of, Way::Rows { split, kinds, rows }))
        });
        [by_sum, by_rows.flatten()].into_iter().flatten().min_by_key(|run| run.cost)
    }
}

/// How many of some digits are different functions that are not constant.
fn different(tuples: &[Vec<i64>], digits: usize) -> usize {
    let column = |d: usize| tuples.iter().map(|t| t[d]).collect::<Vec<i64>>();
    let columns: Vec<Vec<i64>> = (0..digits).map(column).collect();
    let open = columns.into_iter().filter(|c| c.iter().any(|v| *v != c[0]));
    kinds(&open.collect::<Vec<_>>()).1.len()
}

/// The runs that take the fewest bootstraps together, in order.
fn runs(x: Type, digits: &[Entries]) -> Vec<Run> {
    let (mut plans, mut best): (Search, Vec<Option<(usize, Run)>>) = Default::default();
    // From the last digit: the cost of what follows is known.
    for from in (0..digits.len()).rev() {
        let whole = |run: Run, best: &[Option<(usize, Run)>]| {
            let after = digits.len() - from - run.digits;
            let rest = if after == 0 { 0 } else { best[after - 1].as_ref()?.0 };
            Some((run.cost + rest, run))
        };
        let most = TOGETHER.min(digits.len() - from);
        let run = |count| Run::of(&mut plans, x, &digits[from..from + count]);
        let all = (1..=most).filter_map(run);
        let found = all.filter_map(|run| whole(run, &best)).min_by_key(|(cost, _)| *cost);
        best.push(found);
    }
    let mut chosen = vec![];
    while let Some(Some((_, run))) = best.pop() {
        (1..run.digits).for_each(|_| drop(best.pop()));
        chosen.push(run);
    }
    chosen
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
        let all: Vec<_> = (0..ty.digits()).map(|k| move |at: usize| entry(at, k)).collect();
        let all: Vec<Entries> = all.iter().map(|f| f as Entries).collect();
        let mut digits = vec![];
        for run in runs(x.ty, &all) {
            digits.extend(self.run(x, run)?);
        }
        Ok(Word { ty, digits })
    }

    /// The digits of a run.
    fn run(&mut self, x: &Word, run: Run) -> Result<Vec<Sum>> {
        let digit = |d: usize, value: i64| value >> (2 * d) & 3;
        let packed = |digits: &[usize]| match digits {
            [a, b] => pack(&x.digits[*b], &x.digits[*a]),
            _ => x.digits[digits[0]].clone(),
        };
        match run.way {
            Way::Sum { plan, values } => {
                let sum = self.summed(x, &plan)?;
                let list = |d: usize| -> Vec<i64> {
                    (sum.low..=sum.high).map(|v| digit(d, values[plan.kind(v)])).collect()
                };
                // Equal digits once.
                let (which, lists) = kinds(&(0..run.digits).map(list).collect::<Vec<_>>());
                let low = sum.low;
                let functions: Vec<_> =
                    lists.iter().map(|l| move |v: i64| l[(v - low) as usize]).collect();
                let functions: Vec<Entry> = functions.iter().map(|f| f as Entry).collect();
                let found = self.lookup(&sum, &functions)?;
                Ok(which.into_iter().map(|i| found[i].clone()).collect())
            }
            Way::Rows { split, kinds, rows } => {
                let (row, column) = (packed(&split.row), packed(&split.column));
                let value = self.rows(&row, &column, &kinds, &rows)?;
                (0..run.digits).map(|d| self.map(&value, |v| digit(d, v))).collect()
            }
        }
    }

    /// The sum of a table.
    fn summed(&mut self, x: &Word, plan: &SumTable) -> Result<Sum> {
        let mut terms: Vec<Sum> = plan.terms.iter().map(|(d, w)| x.digits[*d].times(*w)).collect();
        for (part, values) in &plan.parts {
            let below = self.summed(x, part)?;
            terms.push(self.map(&below, |v| values[part.kind(v)])?);
        }
        Ok(Sum::of(&terms))
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
