//! Plaintext linear maps by their diagonals, and how their rotations are cut into steps ([`linear`](super::linear)).

use super::Chain;
use super::stage::{Next, Stage, require_hollow};
use crate::math::complex::Complex;
use crate::math::parallel::*;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::OnceLock;

type Diagonals = BTreeMap<usize, Vec<Complex>>;

/// A linear map of n slots by its diagonals: `y_a = Σ_k diagonal_k[a]·x_(a+k)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    slots: usize,
    /// All entries where there is no stage, and none of them where there is one.
    diagonals: Diagonals,
    /// A stage computes its entries when they are asked for.
    stage: Option<Stage>,
    /// The result of [`Matrix::widest_lines`].
    #[serde(skip)]
    lines: Lines,
}

/// Sums that are computed when they are first wanted. They follow from the entries, and so are equal where these are.
#[derive(Debug, Clone, Default)]
struct Lines(OnceLock<(f64, f64)>);

impl PartialEq for Lines {
    fn eq(&self, _: &Lines) -> bool {
        true
    }
}

/// How a machine holds a diagonal that is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// All of its values.
    Full,
    /// An eighth of its values, which repeat.
    Tiled,
    /// The coefficients from which an eighth of its values are made whenever they are used.
    Short,
}

/// Most diagonals of which an eighth of the values are kept. More of them take gigabytes, as coefficients some hundredths of that, and
/// then less time to encode than to write.
const MANY: usize = 64;

/// A matrix ready to be read, diagonal by diagonal.
pub(crate) struct Reader<'a> {
    matrix: &'a Matrix,
    twiddles: Vec<Vec<Complex>>,
}

impl Reader<'_> {
    /// The entries of diagonal `k`, which is one of [`Matrix::rotations`].
    pub(crate) fn diagonal(&self, k: usize) -> Cow<'_, [Complex]> {
        match &self.matrix.stage {
            None => self.matrix.diagonals.get(&k).map_or(Cow::default(), |d| Cow::Borrowed(d)),
            Some(stage) => Cow::Owned(stage.diagonal(k, &self.twiddles)),
        }
    }
}

impl Matrix {
    /// Refuses a matrix from outside that could not have been made here, or that is for more than `most` slots.
    pub(crate) fn validate(&self, most: usize) -> Result<()> {
        let finite = |d: &Vec<Complex>| d.iter().all(|x| x.re.is_finite() && x.im.is_finite());
        let mut diagonals = self.diagonals.iter();
        let fine = match &self.stage {
            Some(stage) => self.diagonals.is_empty() && stage.is_valid(self.slots),
            None => diagonals.all(|(k, d)| *k < self.slots && d.len() == self.slots && finite(d)),
        };
        if fine && self.slots.is_power_of_two() && self.slots <= most {
            return Ok(());
        }
        let wanted = "diagonals of as many finite entries as slots, or a stage of the transform";
        Err(Error::bad_input("matrix", wanted, "another map", "record the matrix again"))
    }

    /// The matrix without its numbers, which `take` gets list after list.
    pub(crate) fn hollow(&self, take: &mut dyn FnMut(&[Complex])) -> Matrix {
        let emptied = self.diagonals.iter().map(|(k, entries)| {
            take(entries);
            (*k, vec![])
        });
        let diagonals = emptied.collect();
        let stage = self.stage.as_ref().map(|stage| stage.hollow(take));
        Matrix { diagonals, stage, ..Matrix::zero(self.slots) }
    }

    /// Puts back what [`Matrix::hollow`] took.
    pub(crate) fn fill(&mut self, next: &mut Next) -> Result<()> {
        for entries in self.diagonals.values_mut() {
            require_hollow(entries)?;
            *entries = next(self.slots)?;
        }
        self.stage.as_mut().map_or(Ok(()), |stage| stage.fill(next))
    }

    /// The map with no diagonals.
    pub fn zero(slots: usize) -> Matrix {
        Matrix { slots, diagonals: BTreeMap::new(), stage: None, lines: Lines::default() }
    }

    /// The product of the layers of blocks of 2^(i + 1) slots, i in `halves`, of the transform from coefficients in bit-reversed order
    /// to `slots` slots, or the inverse of it. Its entries are computed when they are needed.
    pub(crate) fn stage(slots: usize, halves: Range<u32>, inverse: bool) -> Matrix {
        Matrix { stage: Some(Stage::new(slots, halves, inverse)), ..Matrix::zero(slots) }
    }

    /// The stage that this is, changed by what keeps it one.
    fn changed(&self, change: impl FnOnce(&Stage) -> Option<Stage>) -> Option<Matrix> {
        let stage = change(self.stage.as_ref()?)?;
        Some(Matrix { stage: Some(stage.clone()), ..Matrix::zero(stage.slots()) })
    }

    /// Ready to be read, diagonal by diagonal.
    pub(crate) fn reader(&self) -> Reader<'_> {
        let twiddles = self.stage.as_ref().map(Stage::twiddles).unwrap_or_default();
        Reader { matrix: self, twiddles }
    }

    /// Something of every diagonal, in order.
    fn each<T: Send>(&self, of: impl Fn(usize, &[Complex]) -> T + Sync) -> Vec<T> {
        let (reader, all) = (self.reader(), Vec::from_iter(self.rotations()));
        all.into_par_iter().map(|k| of(k, &reader.diagonal(k))).collect()
    }

    /// All entries.
    fn diagonals(&self) -> Diagonals {
        self.each(|k, d| (k, d.to_vec())).into_iter().collect()
    }

    /// All entries, to be changed.
    fn given(&mut self) -> &mut Diagonals {
        self.lines = Lines::default();
        if self.stage.is_some() {
            self.diagonals = self.diagonals();
            self.stage = None;
        }
        &mut self.diagonals
    }

    /// The entries of diagonal `k` modulo the number of slots, zero at first.
    pub fn diagonal(&mut self, k: i64) -> &mut [Complex] {
        let (k, n) = (k.rem_euclid(self.slots.max(1) as i64) as usize, self.slots);
        self.given().entry(k).or_insert_with(|| vec![Complex::default(); n])
    }

    /// Whether all entries are known to be real. Those of a transform are not.
    pub(crate) fn is_real(&self) -> bool {
        self.stage.is_none() && self.diagonals.values().flatten().all(|x| x.im == 0.0)
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

    /// Its cost with `baby` baby steps: a decomposition counts for four products with keys, and a key for one.
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

    /// A map and a number: this map is the new one followed by a rotation to the left by the number. The diagonals of a wide band go around;
    /// in the new map they begin at 0, which takes fewer steps. The number is 0 where that saves nothing.
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
        let repeated = || {
            let longer = |d: &[Complex]| d.iter().copied().cycle().take(slots).collect();
            let diagonals = self.each(|k, d| (k, longer(d))).into_iter().collect();
            Matrix { diagonals, ..Matrix::zero(slots) }
        };
        self.changed(|s| s.repeated(slots)).unwrap_or_else(repeated)
    }

    /// Every row times a factor.
    pub fn with_rows(mut self, factor: impl Fn(usize) -> Complex) -> Matrix {
        if let Some(stage) = self.changed(|s| s.with_rows(&factor)) {
            return stage;
        }
        for diagonal in self.given().values_mut() {
            diagonal.iter_mut().enumerate().for_each(|(a, x)| *x = *x * factor(a));
        }
        self
    }

    /// Every column times a factor: the map after a product slot by slot.
    pub fn with_columns(mut self, factor: impl Fn(usize) -> Complex) -> Matrix {
        if let Some(stage) = self.changed(|s| s.with_columns(&factor)) {
            return stage;
        }
        let n = self.slots.max(1);
        for (k, diagonal) in self.given() {
            diagonal.iter_mut().enumerate().for_each(|(a, x)| *x = *x * factor((a + k) % n));
        }
        self
    }

    /// Whether it has so many diagonals that those which repeat are held as coefficients.
    pub(crate) fn has_many(&self) -> bool {
        self.rotations().count() > MANY
    }

    /// How each diagonal is held in a ring of `slots`.
    pub(crate) fn forms(&self, slots: usize) -> Vec<(usize, Form)> {
        let short = if self.has_many() { Form::Short } else { Form::Tiled };
        let form = |tiled: bool| if tiled { short } else { Form::Full };
        match self.period() {
            Some(period) => {
                let tiled = period.min(self.slots) <= (slots / 8).max(1);
                self.rotations().map(|k| (k, form(tiled || self.slots <= slots / 8))).collect()
            }
            None => self.each(|k, d| (k, form(tiled(d, slots)))),
        }
    }

    /// Bytes that it takes when it is encoded at `level`.
    pub fn encoded_bytes(&self, chain: &Chain, level: usize) -> usize {
        let limbs = (chain.words(level) + chain.special()) * chain.params().degree();
        let slots = chain.params().slots();
        let bytes = |(_, form): &(usize, Form)| match form {
            Form::Full => 8 * limbs,
            Form::Tiled => limbs,
            Form::Short => 16 * self.slots.min(slots / 8),
        };
        self.forms(slots).iter().map(bytes).sum()
    }

    /// How many diagonals' worth of coefficients are rounded where it is encoded for `slots`: those of values of a period are a
    /// polynomial in a power of X.
    pub(crate) fn encoded(&self, slots: usize) -> f64 {
        let values: usize = match self.period() {
            Some(period) => self.rotations().count() * period,
            None => self.each(|_, d| period(d)).into_iter().sum(),
        };
        values as f64 / slots as f64
    }

    /// The slots after which all diagonals repeat, where the formula of the entries tells.
    fn period(&self) -> Option<usize> {
        self.stage.as_ref().and_then(Stage::period)
    }

    /// Numbers of the diagonals there are, in order.
    pub fn rotations(&self) -> impl Iterator<Item = usize> + use<> {
        let all: Vec<usize> = match &self.stage {
            None => self.diagonals.keys().copied().collect(),
            Some(stage) => stage.rotations().into_iter().collect(),
        };
        all.into_iter()
    }

    /// By how much it lengthens what is independent from slot to slot: the root of the mean over the rows of Σ|entry|².
    pub(crate) fn gain(&self) -> f64 {
        if let Some(stage) = &self.stage {
            return stage.gain();
        }
        let squares = |d: &[Complex]| d.iter().map(|x| x.re * x.re + x.im * x.im).sum::<f64>();
        let squares: f64 = self.each(|_, d| squares(d)).into_iter().sum();
        (squares / self.slots as f64).sqrt()
    }

    /// The largest absolute value of an entry.
    pub fn largest(&self) -> f64 {
        if let Some(stage) = &self.stage {
            return stage.largest();
        }
        let most = |d: &[Complex]| d.iter().map(|x| x.abs()).fold(0.0, f64::max);
        self.each(|_, d| most(d)).into_iter().fold(0.0, f64::max)
    }

    /// The map applied to a plaintext vector, which stands repeated if it has fewer values than there are slots.
    pub fn apply(&self, x: &[Complex]) -> Vec<Complex> {
        let (mut out, reader) = (vec![Complex::default(); self.slots], self.reader());
        for k in self.rotations() {
            let turned = x.iter().cycle().skip(k);
            let terms = reader.diagonal(k);
            out.iter_mut().zip(terms.iter()).zip(turned).for_each(|((y, a), x)| *y = *y + *a * *x);
        }
        out
    }

    /// How much longer it makes a vector, at most: the root of the largest sum of a row times that of a column, in absolute values
    /// (Schur's test).
    pub fn norm(&self) -> f64 {
        let (row, column) = self.widest_lines();
        (row * column).sqrt()
    }

    /// The largest sums of absolute values, of a row and of a column. The first is by how much the map enlarges the largest absolute
    /// value, at most.
    pub(crate) fn widest_lines(&self) -> (f64, f64) {
        *self.lines.0.get_or_init(|| self.summed_lines())
    }

    fn summed_lines(&self) -> (f64, f64) {
        if let Some(sum) = self.stage.as_ref().and_then(Stage::line) {
            return (sum, sum);
        }
        let (mut rows, mut columns) = (vec![0.0; self.slots], vec![0.0; self.slots]);
        let reader = self.reader();
        for k in self.rotations() {
            for (a, x) in reader.diagonal(k).iter().enumerate() {
                let size = x.abs();
                rows[a] += size;
                columns[(a + k) % self.slots] += size;
            }
        }
        let most = |sums: &[f64]| sums.iter().copied().fold(0.0, f64::max);
        (most(&rows), most(&columns))
    }

    /// First `first`, then this.
    pub fn after(&self, first: &Matrix) -> Matrix {
        let (mut out, first) = (Matrix::zero(self.slots), first.diagonals());
        for (k, a) in self.diagonals() {
            for (l, b) in &first {
                let terms = a.iter().zip(b.iter().cycle().skip(k));
                let sum = out.diagonal((k + l) as i64);
                sum.iter_mut().zip(terms).for_each(|(x, (a, b))| *x = *x + *a * *b);
            }
        }
        out
    }

    /// Every entry times `factor`.
    pub fn scaled(mut self, factor: f64) -> Matrix {
        if let Some(stage) = self.stage {
            return Matrix { stage: Some(stage.scaled(factor)), ..Matrix::zero(self.slots) };
        }
        self.given().values_mut().flatten().for_each(|x| *x = *x * factor);
        self
    }

    /// This map, then a rotation to the left by `by`.
    pub fn then_rotated(&self, by: i64) -> Matrix {
        if let Some(stage) = self.changed(|s| s.then_rotated(by)) {
            return stage;
        }
        let (n, mut out) = (self.slots, Matrix::zero(self.slots));
        for (k, diagonal) in self.diagonals() {
            let moved = out.diagonal(k as i64 + by);
            let from = by.rem_euclid(n as i64) as usize;
            moved.iter_mut().enumerate().for_each(|(i, x)| *x = diagonal[(i + from) % n]);
        }
        out
    }

    /// The map that gives the same from an input that was rotated to the left by `by` before.
    pub fn on_rotated(&self, by: i64) -> Matrix {
        if let Some(stage) = self.changed(|s| s.on_rotated(by)) {
            return stage;
        }
        let mut out = Matrix::zero(self.slots);
        for (k, diagonal) in self.diagonals() {
            out.diagonal(k as i64 - by).copy_from_slice(&diagonal);
        }
        out
    }
}

/// How the rotations of a matrix are cut: ((j·middle + l)·baby + i)·stride, i < baby, l < middle, j < giant. A machine
/// decomposes once for each middle and for each further giant step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// The greatest common divisor of all rotations.
    pub stride: usize,
    /// n_1, baby steps.
    pub baby: usize,
    /// The number of baby steps that occur, without 0.
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
