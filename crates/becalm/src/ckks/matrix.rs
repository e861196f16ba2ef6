//! Linear maps in the clear, by their diagonals, and how their rotations are cut into steps ([`linear`](super::linear)).

use crate::math::complex::Complex;
use crate::math::parallel::*;
use std::collections::{BTreeMap, BTreeSet};

/// A linear map of n slots by its diagonals: `y_a = Σ_k diagonal_k[a]·x_(a+k)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    pub(super) slots: usize,
    pub(super) diagonals: BTreeMap<usize, Vec<Complex>>,
}

impl Matrix {
    /// The map with no diagonals.
    pub fn zero(slots: usize) -> Matrix {
        Matrix { slots, diagonals: BTreeMap::new() }
    }

    /// The entries of diagonal `k` modulo the number of slots, zero at first.
    pub fn diagonal(&mut self, k: i64) -> &mut [Complex] {
        let (k, n) = (k.rem_euclid(self.slots.max(1) as i64) as usize, self.slots);
        self.diagonals.entry(k).or_insert_with(|| vec![Complex::default(); n])
    }

    /// Number of slots that it maps.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// How it is cut with `baby` baby steps.
    pub fn steps(&self, baby: usize) -> Steps {
        let (baby, stride) = (baby.max(1), self.rotations().fold(0, gcd).max(1));
        let giants = self.rotations().max().unwrap_or(0) / stride / baby + 1;
        // Fewest decompositions, then fewest middle steps: a power of two, so that rotations by powers of two suffice where
        // stride and baby steps are such.
        let middles = (1..=giants).filter(|m| m.is_power_of_two());
        let middle = middles.min_by_key(|m| (m + giants.div_ceil(*m), *m)).unwrap_or(1);
        let babies = self.rotations().map(|k| k / stride % baby).filter(|i| *i > 0);
        let babies = babies.collect::<BTreeSet<usize>>().len();
        Steps { stride, baby, babies, middle, giant: giants.div_ceil(middle) }
    }

    /// The rotations that need keys with `baby` baby steps.
    pub fn keys(&self, baby: usize) -> BTreeSet<i64> {
        let Steps { stride, baby, middle, giant, .. } = self.steps(baby);
        let babies = self.rotations().map(|k| k / stride % baby * stride);
        let onward = (middle > 1).then_some(baby * stride);
        let giant = (giant > 1).then_some(middle * baby * stride);
        babies.chain(onward).chain(giant).filter(|k| *k > 0).map(|k| k as i64).collect()
    }

    /// What it takes with `baby` baby steps: a decomposition counts for four products with keys, and a key for one.
    fn taken(&self, baby: usize) -> usize {
        let Steps { babies, middle, giant, .. } = self.steps(baby);
        4 * (middle + giant - 1) + babies * middle + giant + babies
    }

    /// The number of baby steps that takes the least by count, few keys among it: 4 or 8 for some hundred diagonals in a row, for a few
    /// diagonals anywhere so many that all are baby steps.
    pub fn balanced(&self) -> usize {
        let powers = (0..usize::BITS - 2).map(|k| 1 << k);
        let powers = powers.take_while(|baby| *baby < 2 * self.slots.max(1));
        powers.min_by_key(|baby| self.taken(*baby)).unwrap_or(1)
    }

    /// A map and a number: the map, then a rotation to the left by the number, is the same as this one. Many diagonals that go around, as
    /// those of a wide band do, begin at 0 in the new one, which takes fewer steps; the number is 0 where it would not.
    pub fn gathered(self) -> (Matrix, i64) {
        let all: Vec<usize> = self.rotations().collect();
        let next = all.iter().skip(1).copied().chain(all.first().map(|k| k + self.slots));
        // Behind the widest gap.
        let widest = all.iter().zip(next).max_by_key(|(k, next)| next - *k);
        let first = widest.map_or(0, |(_, next)| (next % self.slots) as i64);
        let moved = self.then_rotated(-first);
        // Besides, the rotation: a decomposition, a product, a key.
        match first != 0 && moved.taken(moved.balanced()) + 6 < self.taken(self.balanced()) {
            true => (moved, first),
            false => (self, 0),
        }
    }

    /// The same map of vectors that stand repeated in `slots` slots, a multiple of its own.
    pub fn repeated(&self, slots: usize) -> Matrix {
        let diagonal =
            |(k, d): (&usize, &Vec<Complex>)| (*k, d.iter().copied().cycle().take(slots).collect());
        Matrix { slots, diagonals: self.diagonals.iter().map(diagonal).collect() }
    }

    /// Every row times a factor.
    pub fn with_rows(mut self, factor: impl Fn(usize) -> Complex) -> Matrix {
        for diagonal in self.diagonals.values_mut() {
            diagonal.iter_mut().enumerate().for_each(|(a, x)| *x = *x * factor(a));
        }
        self
    }

    /// Every column times a factor: the map after a product slot by slot.
    pub fn with_columns(mut self, factor: impl Fn(usize) -> Complex) -> Matrix {
        let n = self.slots.max(1);
        for (k, diagonal) in &mut self.diagonals {
            diagonal.iter_mut().enumerate().for_each(|(a, x)| *x = *x * factor((a + k) % n));
        }
        self
    }

    /// Which diagonals repeat after an eighth of so many slots.
    pub(super) fn forms(&self, slots: usize) -> Vec<(usize, bool)> {
        self.diagonals.par_iter().map(|(k, d)| (*k, tiled(d, slots))).collect()
    }

    /// How many diagonals' worth of coefficients are rounded where it is encoded for so many slots: those of values of a period are a
    /// polynomial in a power of X.
    pub(crate) fn encoded(&self, slots: usize) -> f64 {
        let share = |d: &Vec<Complex>| period(d) as f64 / slots as f64;
        self.diagonals.values().map(share).sum()
    }

    /// Numbers of the diagonals there are.
    pub fn rotations(&self) -> impl Iterator<Item = usize> + '_ {
        self.diagonals.keys().copied()
    }

    /// By how much it lengthens what is independent from slot to slot: the root of the mean over the rows of Σ|entry|².
    pub(crate) fn gain(&self) -> f64 {
        let squares = self.diagonals.values().flatten().map(|x| x.re * x.re + x.im * x.im);
        (squares.sum::<f64>() / self.slots as f64).sqrt()
    }

    /// The largest absolute value of an entry.
    pub fn largest(&self) -> f64 {
        let entries = self.diagonals.values().flatten();
        entries.map(|x| x.abs()).fold(0.0, f64::max)
    }

    /// The map applied to a vector in the clear, which stands repeated if it has fewer values than there are slots.
    pub fn apply(&self, x: &[Complex]) -> Vec<Complex> {
        let mut out = vec![Complex::default(); self.slots];
        for (k, diagonal) in &self.diagonals {
            let turned = x.iter().cycle().skip(*k);
            out.iter_mut().zip(diagonal).zip(turned).for_each(|((y, a), x)| *y = *y + *a * *x);
        }
        out
    }

    /// How much longer it makes a vector, at most: the root of the largest sum of a row times that of a column, in absolute values
    /// (Schur's test).
    pub fn norm(&self) -> f64 {
        let (row, column) = self.widest_lines();
        (row * column).sqrt()
    }

    /// By how much it enlarges the largest absolute value, at most: the largest sum of a row, in absolute values.
    pub(crate) fn widest(&self) -> f64 {
        self.widest_lines().0
    }

    /// The largest sums of absolute values, of a row and of a column.
    fn widest_lines(&self) -> (f64, f64) {
        let (mut rows, mut columns) = (vec![0.0; self.slots], vec![0.0; self.slots]);
        for (k, diagonal) in &self.diagonals {
            for (a, x) in diagonal.iter().enumerate() {
                rows[a] += x.abs();
                columns[(a + k) % self.slots] += x.abs();
            }
        }
        let most = |sums: &[f64]| sums.iter().copied().fold(0.0, f64::max);
        (most(&rows), most(&columns))
    }

    /// First `first`, then this.
    pub fn after(&self, first: &Matrix) -> Matrix {
        let mut out = Matrix::zero(self.slots);
        for (k, a) in &self.diagonals {
            for (l, b) in &first.diagonals {
                let terms = a.iter().zip(b.iter().cycle().skip(*k));
                let sum = out.diagonal((k + l) as i64);
                sum.iter_mut().zip(terms).for_each(|(x, (a, b))| *x = *x + *a * *b);
            }
        }
        out
    }

    /// Every entry times `factor`.
    pub fn scaled(mut self, factor: f64) -> Matrix {
        self.diagonals.values_mut().flatten().for_each(|x| *x = *x * factor);
        self
    }

    /// This map, then a rotation to the left by `by`.
    pub fn then_rotated(&self, by: i64) -> Matrix {
        let (n, mut out) = (self.slots, Matrix::zero(self.slots));
        for (k, diagonal) in &self.diagonals {
            let moved = out.diagonal(*k as i64 + by);
            let from = by.rem_euclid(n as i64) as usize;
            moved.iter_mut().enumerate().for_each(|(i, x)| *x = diagonal[(i + from) % n]);
        }
        out
    }

    /// The map that gives the same from an input that was rotated to the left by `by` before.
    pub fn on_rotated(&self, by: i64) -> Matrix {
        let mut out = Matrix::zero(self.slots);
        for (k, diagonal) in &self.diagonals {
            out.diagonal(*k as i64 - by).copy_from_slice(diagonal);
        }
        out
    }
}

/// How the rotations of a matrix are cut: ((j·middle + l)·baby + i)·stride, i < baby, l < middle, j < giant. A machine
/// decomposes once for each middle and for each further giant step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// What divides all rotations.
    pub stride: usize,
    /// n_1, baby steps.
    pub baby: usize,
    /// Those of them, 0 apart, that occur.
    pub babies: usize,
    /// m, middle steps.
    pub middle: usize,
    /// n_2, giant steps.
    pub giant: usize,
}

impl Steps {
    /// Whether middle steps go by twos, which share a reading of the baby steps' keys while the lifted digits of the first wait
    /// in memory. With a single baby key that moves as many bytes as it saves.
    pub(crate) fn in_pairs(&self) -> bool {
        self.middle > 1 && self.babies > 1
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether values repeat after `period` of them.
fn repeat(values: &[Complex], period: usize) -> bool {
    let size = |a: Complex| a.re.abs() + a.im.abs();
    let near = |a: Complex, b: Complex| size(a - b) <= 1e-13 * (size(a) + size(b));
    (period..values.len()).all(|i| near(values[i], values[i - period]))
}

/// Whether values, which stand repeated in `slots` slots, repeat after an eighth of them.
fn tiled(values: &[Complex], slots: usize) -> bool {
    repeat(values, (slots / 8).max(1))
}

/// The least power of two of values, which are as many as one, after which they repeat.
fn period(values: &[Complex]) -> usize {
    let mut period = values.len();
    while period > 1 && repeat(&values[..period], period / 2) {
        period /= 2;
    }
    period
}
