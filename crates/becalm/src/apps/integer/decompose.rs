//! Functions of a few digits as tables of sums: which digits and which values, looked up before, are added, and what the sum says.
//!
//! A sum tells a function if equal sums have equal values. Where no sum of digits does, some digits are looked up first, for
//! which of a few kinds they are: all values of a kind go with the same function of the other digits. If the kinds of one part only
//! count for some kinds of the other part, they are looked up once more together. Source: Curtis 1962 ("A new approach to the
//! design of switching circuits"), for sums in place of bits.

use super::Type;
use crate::apps::circuit::ROOM;
use std::collections::HashMap;

/// Most kinds of a function: a sum tells no more.
const KINDS: usize = ROOM as usize;

/// Most that the weights of digits may add up to, alone and beside looked up values: digits may be related, so that their
/// deviations add up.
const ALONE: i64 = 5;
const BESIDE: i64 = 4;

/// How many places are tried for values before a search ends.
const TRIES: usize = 4000;

/// The kind that a sum says, by its value.
type Said = [u8; KINDS];

/// The kind of a value that the sum never has.
const NONE: u8 = u8::MAX;

/// Digits by their place, and how many values each takes.
type Digits = Vec<(usize, usize)>;

/// A function of some digits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Function {
    digits: Digits,
    /// Its kind for all values of the digits, the first counting fastest.
    kinds: Vec<usize>,
    count: usize,
}

/// A table of a sum.
#[derive(Clone)]
pub(super) struct SumTable {
    /// Σ weight·digit.
    pub terms: Vec<(usize, i64)>,
    /// Functions that are looked up first, and the value of each of their kinds, which is added.
    pub parts: Vec<(SumTable, Vec<i64>)>,
    /// The least value of the sum.
    low: i64,
    said: Said,
    /// How many values the sum has.
    width: i64,
}

/// A number for each item, the same for equal items, and the different items in order.
pub(super) fn kinds<T: PartialEq + Clone>(items: &[T]) -> (Vec<usize>, Vec<T>) {
    let mut found: Vec<T> = vec![];
    let number = |item: &T| {
        found.iter().position(|f| f == item).unwrap_or_else(|| {
            found.push(item.clone());
            found.len() - 1
        })
    };
    (items.iter().map(number).collect(), found)
}

/// How many tables of so many values one bootstrap takes, if one value takes at most 16.
pub(super) fn shared(width: i64) -> usize {
    (0..3).rev().map(|k| 1 << k).find(|t| *t as i64 * width <= ROOM).unwrap_or(1)
}

impl Function {
    /// A function of the digits of a type, and its value of each kind.
    pub fn of<T: PartialEq + Clone>(x: Type, f: impl Fn(usize) -> T) -> (Function, Vec<T>) {
        let all: Vec<T> = (0..1usize << x.bits()).map(f).collect();
        let (numbers, values) = kinds(&all);
        let digits = (0..x.digits()).map(|d| (d, x.mask(d) as usize + 1)).collect();
        (Function::new(digits, numbers).needed(), values)
    }

    fn new(digits: Digits, kinds: Vec<usize>) -> Function {
        let count = kinds.iter().max().map_or(0, |k| k + 1);
        Function { digits, kinds, count }
    }

    /// The values of the digits at a place of `kinds`.
    fn at(&self, place: usize) -> impl Iterator<Item = usize> {
        self.digits.iter().scan(place, |rest, (_, size)| {
            let value = *rest % size;
            *rest /= size;
            Some(value)
        })
    }

    /// The function of only those digits on which it depends.
    fn needed(&self) -> Function {
        let mut now = self.clone();
        let mut i = 0;
        while i < now.digits.len() {
            let (_, columns, rows) = now.matrix(1 << i);
            match rows.iter().all(|row| *row == rows[0]) {
                true => {
                    now = Function { digits: columns, kinds: rows[0].clone(), count: now.count }
                }
                false => i += 1,
            }
        }
        now
    }

    /// The digits of a set and the others, and the kinds by the values of these and those.
    fn matrix(&self, set: usize) -> (Digits, Digits, Vec<Vec<usize>>) {
        let inside = |i: usize| set >> i & 1 == 1;
        let part = |wanted: bool| -> Digits {
            let all = self.digits.iter().enumerate();
            all.filter(|(i, _)| inside(*i) == wanted).map(|(_, d)| *d).collect()
        };
        let (row, column) = (part(true), part(false));
        let size = |digits: &[(usize, usize)]| digits.iter().map(|d| d.1).product::<usize>();
        let mut all = vec![vec![0; size(&column)]; size(&row)];
        for (place, kind) in self.kinds.iter().enumerate() {
            let (mut at, mut unit) = ([0, 0], [1, 1]);
            for (i, value) in self.at(place).enumerate() {
                let which = usize::from(!inside(i));
                at[which] += value * unit[which];
                unit[which] *= self.digits[i].1;
            }
            all[at[0]][at[1]] = *kind;
        }
        (row, column, all)
    }

    /// The kind where every digit is 0, if the function does not depend on any.
    pub fn constant(&self) -> Option<usize> {
        self.digits.is_empty().then(|| self.kinds[0])
    }
}

/// How far Σ weight·digit may be below 0.
fn below(digits: &[(usize, usize)], weights: &[i64]) -> i64 {
    let each = digits.iter().zip(weights).map(|((_, size), w)| (-w).max(0) * (*size as i64 - 1));
    each.sum()
}

/// The values of Σ weight·digit, from 0, for all values of some digits, one after another.
fn positions(digits: &[(usize, usize)], weights: &[i64]) -> impl Iterator<Item = i64> {
    let count = digits.iter().map(|d| d.1).product::<usize>();
    let low = below(digits, weights);
    (0..count).map(move |mut place| {
        let mut sum = low;
        for ((_, size), w) in digits.iter().zip(weights) {
            sum += w * (place % size) as i64;
            place /= size;
        }
        sum
    })
}

/// All weights of some digits, none 0, that add up to at most `most`; the first is above 0.
fn weights(digits: &[(usize, usize)], most: i64) -> Vec<Vec<i64>> {
    let mut all: Vec<Vec<i64>> = vec![vec![]];
    for i in 0..digits.len() {
        let longer = |given: &Vec<i64>| {
            let left = most - given.iter().map(|w| w.abs()).sum::<i64>();
            let first = if i == 0 { 1 } else { -left };
            let next = (first..=left).filter(|w| *w != 0);
            next.map(|w| [&given[..], &[w]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// The kind of row at each of these positions of a sum. Rows at equal positions must agree.
fn profile(
    positions: impl Iterator<Item = i64>,
    row: impl Fn(usize) -> Option<usize>,
) -> Option<Said> {
    let mut said = [NONE; KINDS];
    for (i, position) in positions.enumerate() {
        if let Some(kind) = row(i) {
            let there = said.get_mut(position as usize)?;
            if *there != NONE && usize::from(*there) != kind {
                return None;
            }
            *there = kind as u8;
        }
    }
    Some(said)
}

/// A value for each profile that is added to its positions, so that the sum says both; what it says then, and its width. The
/// narrowest sum is found whose width lets one bootstrap give more outputs.
fn placed(profiles: &[Said], outputs: usize) -> Option<(Vec<i64>, Said, i64)> {
    let span = |said: &Said| said.iter().rposition(|kind| *kind != NONE).unwrap_or(0) as i64;
    let longest = profiles.iter().map(span).max()?;
    let widths = [4, 8, 16].into_iter().filter(|w| *w > longest && (outputs > 1 || *w == ROOM));
    widths.into_iter().find_map(|width| {
        let (mut values, mut left) = (vec![], TRIES);
        let said = place(profiles, width - 1 - longest, [NONE; KINDS], &mut values, &mut left)?;
        Some((values, said, width))
    })
}

fn place(
    profiles: &[Said],
    most: i64,
    said: Said,
    values: &mut Vec<i64>,
    left: &mut usize,
) -> Option<Said> {
    let Some((first, rest)) = profiles.split_first() else { return Some(said) };
    for value in 0..=most {
        *left = left.checked_sub(1)?;
        let mut next = said;
        let known = first.iter().enumerate().filter(|(_, kind)| **kind != NONE);
        let fits = known.into_iter().all(|(i, kind)| {
            let there = &mut next[i + value as usize];
            let fits = *there == NONE || there == kind;
            *there = *kind;
            fits
        });
        if fits {
            values.push(value);
            if let Some(all) = place(rest, most, next, values, left) {
                return Some(all);
            }
            values.pop();
        }
    }
    None
}

impl SumTable {
    /// The table of a constant.
    pub fn nothing() -> SumTable {
        SumTable { terms: vec![], parts: vec![], low: 0, said: [NONE; KINDS], width: 1 }
    }

    /// Whether the sum is one digit, and the values of its kinds are those of the digit.
    pub fn is_copy(&self, values: &[i64]) -> bool {
        let mut said = self.said.iter().enumerate();
        let same = |(v, kind): (usize, &u8)| {
            *kind == NONE || values.get(usize::from(*kind)) == Some(&(v as i64))
        };
        self.parts.is_empty() && matches!(self.terms[..], [(_, 1)]) && said.all(same)
    }

    /// Bootstraps, with so many tables of the sum.
    pub fn cost(&self, outputs: usize) -> usize {
        let before: usize = self.parts.iter().map(|(part, _)| part.cost(1)).sum();
        before + outputs.div_ceil(shared(self.width))
    }

    /// The kind that a value of the sum says; any where it never has this value.
    pub fn kind(&self, value: i64) -> usize {
        let place = usize::try_from(value - self.low).ok();
        let said = place.and_then(|at| self.said.get(at)).filter(|kind| **kind != NONE);
        let any = || self.said.iter().find(|kind| **kind != NONE);
        said.or_else(any).map_or(0, |kind| usize::from(*kind))
    }

    /// A sum of digits alone.
    fn direct(f: &Function, outputs: usize) -> Option<SumTable> {
        let form = |weights: Vec<i64>| {
            let said = profile(positions(&f.digits, &weights), |i| Some(f.kinds[i]))?;
            let width = 1 + positions(&f.digits, &weights).max().unwrap_or(0);
            let low = -below(&f.digits, &weights);
            let terms = f.digits.iter().map(|d| d.0).zip(weights).collect();
            Some(SumTable { terms, parts: vec![], low, said, width })
        };
        let forms = weights(&f.digits, ALONE).into_iter().filter_map(form);
        forms.min_by_key(|p| (p.cost(outputs), p.width))
    }

    /// Two looked up values.
    fn both(
        first: (SumTable, Vec<i64>),
        second: SumTable,
        found: (Vec<i64>, Said, i64),
    ) -> SumTable {
        let (values, said, width) = found;
        SumTable { terms: vec![], parts: vec![first, (second, values)], low: 0, said, width }
    }
}

/// A search for tables of sums, which knows what it has found.
#[derive(Default)]
pub(super) struct Search {
    parts: HashMap<Function, Option<SumTable>>,
}

/// The best table of a function so far.
struct Best<'a> {
    f: &'a Function,
    outputs: usize,
    table: Option<SumTable>,
}

impl Best<'_> {
    fn keep(&mut self, table: SumTable) {
        if self.wants(table.cost(self.outputs)) {
            self.table = Some(table);
        }
    }

    /// Whether a table of this cost is better.
    fn wants(&self, cost: usize) -> bool {
        self.table.as_ref().is_none_or(|best| cost < best.cost(self.outputs))
    }

    /// The least cost of a table with so many bootstraps before its sum.
    fn least(&self, before: usize) -> usize {
        before + self.outputs.div_ceil(shared(2))
    }
}

impl Search {
    /// The sum whose so many tables take the fewest bootstraps, if one is found.
    pub fn of(&mut self, f: &Function, outputs: usize) -> Option<SumTable> {
        self.searched(f, outputs, true)
    }

    /// A table for a part of another one.
    fn part(&mut self, digits: Digits, kinds: Vec<usize>) -> Option<SumTable> {
        let f = Function::new(digits, kinds).needed();
        if let Some(known) = self.parts.get(&f) {
            return known.clone();
        }
        let found = self.searched(&f, 1, false);
        self.parts.insert(f, found.clone());
        found
    }

    fn searched(&mut self, f: &Function, outputs: usize, gates: bool) -> Option<SumTable> {
        if f.count > KINDS {
            return None;
        }
        let mut best = Best { f, outputs, table: SumTable::direct(f, outputs) };
        let sets = 1..(1usize << f.digits.len()).saturating_sub(1);
        for set in sets.clone() {
            if best.wants(best.least(1)) {
                self.split(&mut best, set);
            }
        }
        for set in sets.filter(|_| gates) {
            if best.wants(best.least(2)) {
                self.gated(&mut best, set);
            }
        }
        best.table
    }

    /// The kinds of the digits outside a set, beside the digits of the set or their kinds.
    fn split(&mut self, best: &mut Best, set: usize) -> Option<()> {
        let (row, column, matrix) = best.f.matrix(set);
        let columns: Vec<Vec<usize>> =
            (0..matrix[0].len()).map(|c| matrix.iter().map(|row| row[c]).collect()).collect();
        let (of_column, columns) = kinds(&columns);
        if columns.len() > KINDS {
            return None;
        }
        let part = self.part(column, of_column)?;
        for weights in weights(&row, BESIDE) {
            let profiles: Option<Vec<Said>> = columns
                .iter()
                .map(|c| profile(positions(&row, &weights), |i| Some(c[i])))
                .collect();
            let Some(found) = profiles.and_then(|p| placed(&p, best.outputs)) else { continue };
            let (values, said, width) = found;
            let (low, parts) = (-below(&row, &weights), vec![(part.clone(), values)]);
            let terms = row.iter().map(|d| d.0).zip(weights).collect();
            best.keep(SumTable { terms, parts, low, said, width });
        }
        let (of_row, rows) = kinds(&matrix);
        if rows.len() > KINDS || !best.wants(best.least(2)) {
            return None;
        }
        let other = self.part(row, of_row.clone())?;
        let first = |kind: usize| of_row.iter().position(|k| *k == kind).unwrap_or(0);
        for factor in 1..=(ROOM - 1) / (rows.len() as i64 - 1).max(1) {
            let places = || (0..rows.len() as i64).map(|r| factor * r);
            let profiles: Option<Vec<Said>> =
                columns.iter().map(|c| profile(places(), |r| Some(c[first(r)]))).collect();
            if let Some(found) = profiles.and_then(|p| placed(&p, best.outputs)) {
                best.keep(SumTable::both((other, places().collect()), part, found));
                break;
            }
        }
        Some(())
    }

    /// A table that looks the columns up where they count, beside the kinds of rows.
    fn gated(&mut self, best: &mut Best, set: usize) -> Option<()> {
        let (row, column, matrix) = best.f.matrix(set);
        // Rows that tell the same columns apart, whatever they give for them.
        let labels: Vec<Vec<usize>> = matrix.iter().map(|row| kinds(row).0).collect();
        let alike = kinds(&labels).1.len();
        let (of_row, rows) = kinds(&matrix);
        if alike < 2 || alike == rows.len() || rows.len() > KINDS {
            return None;
        }
        let digits = [row.clone(), column].concat();
        let size = matrix[0].len() * labels.len();
        let gate = |place: usize| labels[place % labels.len()][place / labels.len()];
        let gate = self.part(digits, (0..size).map(gate).collect())?;
        let other = self.part(row, of_row)?;
        let values: Vec<Vec<usize>> = rows.iter().map(|r| kinds(r).1).collect();
        let count = values.iter().map(Vec::len).max()? as i64;
        let profiles: Option<Vec<Said>> =
            values.iter().map(|v| profile(0..count, |label| v.get(label).copied())).collect();
        let found = placed(&profiles?, best.outputs)?;
        best.keep(SumTable::both((gate, (0..count).collect()), other, found));
        Some(())
    }
}
