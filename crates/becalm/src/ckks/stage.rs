//! Factors of the transform between coefficients and slots, by their formula: entries are computed on demand.
//!
//! The transform is log2 n layers of butterflies on a bit-reversed vector: (u, v) → (u + ξv, u − ξv), ξ = e^(2πi·5^j/4L) at
//! position j in blocks of L. A stage is the product of consecutive layers, or the inverse of it. Each layer changes one bit of an
//! index, so an entry (row a, column c) is one path through the layers: a product of twiddles where a and c differ in bits of the
//! stage alone, and zero elsewhere. A program with stages is thus a few numbers, not some hundred megabytes of entries.
//! Source: Cheon–Han–Hhan 2018, Han–Hhan–Cheon 2019.

use crate::Result;
use crate::cipher::file::bad;
use crate::math::complex::Complex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Gives the next list of so many numbers.
pub(crate) type Next<'a> = dyn FnMut(usize) -> Result<Vec<Complex>> + 'a;

/// Refuses a list that should be read from elsewhere.
pub(super) fn require_hollow(list: &[Complex]) -> Result<()> {
    match list.len() {
        0 => Ok(()),
        more => Err(bad("numbers of matrices in `data` alone", format!("{more} in `graph`"))),
    }
}

/// Factors of rows or of columns, one for each.
pub(super) type Weights = Option<Arc<[Complex]>>;

/// A stage, rotated on either side, scaled, repeated and weighted, in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Stage {
    /// n, slots of the transform.
    size: usize,
    /// log2 of the halves of its blocks.
    halves: Range<u32>,
    inverse: bool,
    /// The argument is rotated to the left by so much before.
    on: usize,
    /// The result is rotated to the left by so much.
    then: usize,
    factor: f64,
    /// Slots that it stands repeated in.
    slots: usize,
    rows: Weights,
    columns: Weights,
}

impl Stage {
    /// The layers of blocks of 2^(i + 1) slots for i in `halves`, or their inverse, of a transform of `size` slots.
    pub(super) fn new(size: usize, halves: Range<u32>, inverse: bool) -> Stage {
        let (on, then, slots, factor) = (0, 0, size, 1.0);
        Stage { size, halves, inverse, on, then, factor, slots, rows: None, columns: None }
    }

    /// Whether a stage from outside could have been made here, for a map of `slots` slots.
    pub(super) fn is_valid(&self, slots: usize) -> bool {
        let size = self.size.is_power_of_two() && (1..=self.slots).contains(&self.size);
        let layers =
            self.halves.start < self.halves.end && self.halves.end <= self.size.trailing_zeros();
        let turned = self.on < self.size && self.then < self.size;
        let finite = |w: &Arc<[Complex]>| w.iter().all(|x| x.re.is_finite() && x.im.is_finite());
        let mut weights = self.rows.iter().chain(&self.columns);
        let weights = weights.all(|w| w.len() == self.slots && finite(w));
        self.slots == slots && size && layers && turned && weights && self.factor.is_finite()
    }

    /// Whether nothing has been done behind the rotations that a rotation could not be put before.
    fn is_bare(&self) -> bool {
        self.slots == self.size && !self.is_weighted()
    }

    fn is_weighted(&self) -> bool {
        self.rows.is_some() || self.columns.is_some()
    }

    /// The stage that gives the same from an argument that was rotated to the left by `by`; none where the formula has no place for it.
    pub(super) fn on_rotated(&self, by: i64) -> Option<Stage> {
        let on = (self.on as i64 + by).rem_euclid(self.size as i64) as usize;
        self.is_bare().then(|| Stage { on, ..self.clone() })
    }

    /// This stage, then a rotation to the left by `by`; none where the formula has no place for it.
    pub(super) fn then_rotated(&self, by: i64) -> Option<Stage> {
        let then = (self.then as i64 + by).rem_euclid(self.size as i64) as usize;
        self.is_bare().then(|| Stage { then, ..self.clone() })
    }

    /// Every entry times `factor`.
    pub(super) fn scaled(self, factor: f64) -> Stage {
        Stage { factor: self.factor * factor, ..self }
    }

    /// The same map of vectors that stand repeated in `slots` slots; none where the formula has no place for it.
    pub(super) fn repeated(&self, slots: usize) -> Option<Stage> {
        (!self.is_weighted()).then(|| Stage { slots, ..self.clone() })
    }

    /// Every row times a factor; none where it has factors already.
    pub(super) fn with_rows(&self, factor: &impl Fn(usize) -> Complex) -> Option<Stage> {
        let rows = Some((0..self.slots).map(factor).collect());
        (!self.is_weighted()).then(|| Stage { rows, ..self.clone() })
    }

    /// Every column times a factor; none where it has factors already.
    pub(super) fn with_columns(&self, factor: &impl Fn(usize) -> Complex) -> Option<Stage> {
        let columns = Some((0..self.slots).map(factor).collect());
        (!self.is_weighted()).then(|| Stage { columns, ..self.clone() })
    }

    /// The stage without its weights, which `take` gets one list after the other.
    pub(super) fn hollow(&self, take: &mut dyn FnMut(&[Complex])) -> Stage {
        let mut emptied = |weights: &Weights| {
            weights.as_deref().map(|weights| {
                take(weights);
                Arc::default()
            })
        };
        let (rows, columns) = (emptied(&self.rows), emptied(&self.columns));
        Stage { rows, columns, ..self.clone() }
    }

    /// Puts back what [`Stage::hollow`] took.
    pub(super) fn fill(&mut self, next: &mut Next) -> Result<()> {
        for weights in [&mut self.rows, &mut self.columns].into_iter().flatten() {
            require_hollow(weights)?;
            *weights = next(self.slots)?.into();
        }
        Ok(())
    }

    /// Number of slots that it maps.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// Numbers of its diagonals: sums of 0 and ± half a block for every layer.
    pub(super) fn rotations(&self) -> BTreeSet<usize> {
        let turned = (self.size - self.on + self.then) % self.size;
        self.halves.clone().fold(BTreeSet::from([turned]), |all, i| {
            let steps = [0, 1 << i, self.size - (1 << i)];
            all.iter().flat_map(|k| steps.map(|s| (k + s) % self.size)).collect()
        })
    }

    /// The slots after which every diagonal repeats; none where weights decide.
    pub(super) fn period(&self) -> Option<usize> {
        (!self.is_weighted()).then_some(1 << self.halves.end)
    }

    /// Absolute value of the entries that are not zero, weights apart.
    fn size_of_entries(&self) -> f64 {
        let layers = self.halves.len() as i32;
        self.factor.abs() * if self.inverse { 0.5f64.powi(layers) } else { 1.0 }
    }

    /// The root of the mean over the rows of Σ|entry|²: each row and each column has 2^layers entries.
    pub(super) fn gain(&self) -> f64 {
        let weights = self.rows.iter().chain(&self.columns).flat_map(|w| w.iter());
        let squares: f64 = weights.map(|x| x.re * x.re + x.im * x.im).sum();
        let mean = if self.is_weighted() { squares / self.slots as f64 } else { 1.0 };
        self.size_of_entries() * ((1 << self.halves.len()) as f64 * mean).sqrt()
    }

    /// The sum of the absolute values of a row, and of a column; none where weights decide.
    pub(super) fn line(&self) -> Option<f64> {
        let entries = (1u64 << self.halves.len()) as f64;
        (!self.is_weighted()).then(|| self.size_of_entries() * entries)
    }

    /// The largest absolute value of an entry.
    pub(super) fn largest(&self) -> f64 {
        let weights = self.rows.iter().chain(&self.columns).flat_map(|w| w.iter());
        let most = weights.map(|x| x.abs()).fold(0.0, f64::max);
        self.size_of_entries() * if self.is_weighted() { most } else { 1.0 }
    }

    /// The twiddles of every layer, from which entries are computed.
    pub(super) fn twiddles(&self) -> Vec<Vec<Complex>> {
        let layer = |i: u32| {
            let (half, turn) = (1 << i, 8 << i);
            let powers = std::iter::successors(Some(1), |g| Some(g * 5 % turn));
            powers.take(half).map(|g| Complex::root(g, turn)).collect()
        };
        self.halves.clone().map(layer).collect()
    }

    /// The entries of diagonal `k`, by the stage's own twiddles.
    pub(super) fn diagonal(&self, k: usize, twiddles: &[Vec<Complex>]) -> Vec<Complex> {
        let n = self.size;
        let own = (k + self.on + n - self.then) % n;
        let entry = |i: usize| {
            let a = (i + self.then) % n;
            self.entry(a, (a + own) % n, twiddles)
        };
        let period: Vec<Complex> = (0..1 << self.halves.end).map(entry).collect();
        let mut all: Vec<Complex> = period.iter().copied().cycle().take(self.slots).collect();
        if let Some(rows) = &self.rows {
            all.iter_mut().zip(rows.iter()).for_each(|(x, w)| *x = *x * *w);
        }
        if let Some(columns) = &self.columns {
            let turned = columns.iter().cycle().skip(k);
            all.iter_mut().zip(turned).for_each(|(x, w)| *x = *x * *w);
        }
        all
    }

    /// The entry in row `a` and column `c` of the transform's stage: one factor of each layer, in the order in which they are applied, so
    /// that it is the same double as in the product of the layers.
    fn entry(&self, a: usize, c: usize, twiddles: &[Vec<Complex>]) -> Complex {
        let mask = (1usize << self.halves.end) - (1 << self.halves.start);
        if (a ^ c) & !mask != 0 {
            return Complex::default();
        }
        let factor = |x: Complex, (i, xi): (u32, &Vec<Complex>)| {
            let (half, upper) = (1usize << i, |index: usize| index >> i & 1 == 1);
            match (self.inverse, upper(a), upper(c)) {
                (false, _, false) => x,
                (false, false, true) => x * xi[a % half],
                (false, true, true) => -(x * xi[a % half]),
                (true, false, _) => x * 0.5,
                (true, true, false) => x * xi[c % half].conj() * 0.5,
                (true, true, true) => -(x * xi[c % half].conj() * 0.5),
            }
        };
        let (one, layers) = (Complex::from(1.0), self.halves.clone().zip(twiddles));
        let path =
            if self.inverse { layers.rev().fold(one, factor) } else { layers.fold(one, factor) };
        path * self.factor
    }
}

#[cfg(test)]
mod tests {
    use super::super::Matrix;
    use crate::math::complex::Complex;

    /// The layer of blocks of `block` slots, or its inverse, entry by entry.
    fn layer(slots: usize, block: usize, inverse: bool) -> Matrix {
        let (half, mut matrix) = (block / 2, Matrix::zero(slots));
        let powers = std::iter::successors(Some(1), |g| Some(g * 5 % (4 * block)));
        let twiddles: Vec<Complex> =
            powers.take(half).map(|g| Complex::root(g, 4 * block)).collect();
        let mut set = |k: i64, a: usize, x: Complex| matrix.diagonal(k)[a] = x;
        for a in 0..slots {
            let (upper, xi) = (a % block >= half, twiddles[a % half]);
            match (inverse, upper) {
                (false, false) => (set(0, a, 1.0.into()), set(half as i64, a, xi)),
                (false, true) => (set(-(half as i64), a, 1.0.into()), set(0, a, -xi)),
                (true, false) => (set(0, a, 0.5.into()), set(half as i64, a, 0.5.into())),
                (true, true) => {
                    let back = xi.conj() * 0.5;
                    (set(-(half as i64), a, back), set(0, a, -back))
                }
            };
        }
        matrix
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * (1.0 + b.abs())
    }

    /// All that is said of `found` by its formula is true of the same matrix by its entries.
    fn same(found: &Matrix, wanted: &Matrix, what: &str) {
        assert!(found.rotations().eq(wanted.rotations()), "{what}: rotations");
        assert_eq!(found.slots(), wanted.slots(), "{what}");
        let (ours, theirs) = (found.reader(), wanted.reader());
        for k in wanted.rotations() {
            let (x, y) = (ours.diagonal(k), theirs.diagonal(k));
            assert_eq!(x.len(), y.len(), "{what}: diagonal {k}");
            assert_eq!(x, y, "{what}: diagonal {k}");
        }
        for (f, g) in [
            (found.gain(), wanted.gain()),
            (found.largest(), wanted.largest()),
            (found.norm(), wanted.norm()),
        ] {
            assert!(close(f, g), "{what}: {f}, {g}");
        }
        for slots in [found.slots(), 8 * found.slots()] {
            assert_eq!(found.forms(slots), wanted.forms(slots), "{what}: forms");
            let (f, g) = (found.encoded(slots), wanted.encoded(slots));
            assert!(close(f, g), "{what}: {f}, {g}");
        }
    }

    /// A stage and the product of its layers, whatever is done to both.
    #[test]
    fn a_stage_is_the_product_of_its_layers() {
        let n = 64;
        let first = |slot: usize| Complex::from(if slot == 0 { 0.5 } else { 1.0 });
        let turned = |a: usize| if a < n { 1.0.into() } else { Complex::new(0.0, -1.0) };
        for inverse in [false, true] {
            for halves in [0..1, 0..2, 0..6, 1..3, 2..6, 4..6, 5..6] {
                let mut layers: Vec<u32> = halves.clone().collect();
                if inverse {
                    layers.reverse();
                }
                let layers = layers.iter().map(|i| layer(n, 2 << i, inverse));
                let product = layers.reduce(|first, next| next.after(&first)).unwrap();
                let stage = Matrix::stage(n, halves.clone(), inverse);
                let what = format!("{halves:?}, inverse {inverse}");
                same(&stage, &product, &what);
                let changed = |m: &Matrix| m.on_rotated(-4).then_rotated(24).scaled(-0.3);
                let (stage, product) = (changed(&stage), changed(&product));
                same(&stage, &product, &format!("{what}, rotated"));
                let [x, y] = [&stage, &product].map(|m| m.clone().with_columns(first));
                same(&x, &y, &format!("{what}, columns"));
                let [x, y] = [&stage, &product].map(|m| m.repeated(2 * n).with_rows(turned));
                same(&x, &y, &format!("{what}, rows"));
                let [x, y] = [x, y].map(|m| m.with_columns(first).then_rotated(3));
                same(&x, &y, &format!("{what}, entries"));
            }
        }
    }
}
