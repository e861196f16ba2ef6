//! Linear maps of the slots: y = Σ_k diagonal_k ⊙ rotate(x, k).
//!
//! Rotations are k = (n_1·j + i)·stride, i < n_1, j < n_2 (baby steps, giant steps). One decomposition of x serves all
//! baby steps, which stay modulo Q·P; giant steps follow Horner's rule with a single key,
//! y = (…(u_(n_2−1)) rotated by n_1·stride + u_(n_2−2))…, u_j = Σ_i diagonal_ij ⊙ x_i; the last division by P takes the
//! rescale with it. Keys: n_1 − 1 baby rotations and one giant; key switches: n_1 + n_2 − 2.
//! Diagonals of period d in the slots are polynomials in X^(N/2d), whose values repeat: one vector of eight for each tile
//! of 64 is all that is kept of them if N/2d ≥ 8. Source: Halevi–Shoup 2018 (baby and giant steps), Bossuat et al. 2021
//! (double hoisting); the rule of Horner for the giant steps costs no more than a key for each.

use super::key_switch::Raised;
use super::{Context, Evaluator, power_of_rotation};
use crate::cipher::Rlwe;
use crate::math::complex::Complex;
use crate::math::rns::{Scratch, TILE};
use crate::{Error, Result};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A linear map of n slots by its diagonals: y_a = Σ_k diagonal_k[a]·x_(a+k).
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    slots: usize,
    diagonals: BTreeMap<usize, Vec<Complex>>,
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

    /// Baby steps that are used, and giant steps, with `baby` baby steps.
    pub fn steps(&self, baby: usize) -> (usize, usize) {
        let (stride, most) = (self.stride(), self.rotations().max().unwrap_or(0));
        let babies: BTreeSet<usize> = self.rotations().map(|k| k / stride % baby.max(1)).collect();
        (babies.len(), most / stride / baby.max(1) + 1)
    }

    /// The rotations that need keys with `baby` baby steps: [`LinearMap::rotations`] before anything is encoded.
    pub fn keys(&self, baby: usize) -> BTreeSet<i64> {
        let (stride, baby) = (self.stride(), baby.max(1));
        let babies = self.rotations().map(|k| k / stride % baby * stride);
        let giant = (self.steps(baby).1 > 1).then_some(baby * stride);
        babies.chain(giant).filter(|k| *k > 0).map(|k| k as i64).collect()
    }

    fn stride(&self) -> usize {
        self.rotations().fold(0, gcd).max(1)
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

    /// Numbers of the diagonals there are.
    pub fn rotations(&self) -> impl Iterator<Item = usize> + '_ {
        self.diagonals.keys().copied()
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

/// The values of an encoded diagonal in each limb.
enum Diagonal {
    Full(Scratch),
    /// A vector of eight for each tile.
    Tiled(Scratch),
}

/// A [`Matrix`] encoded at a level, with its division into baby and giant steps.
pub struct LinearMap {
    /// Name of the set that it was encoded for.
    params: &'static str,
    level: usize,
    count: usize,
    stride: usize,
    baby: usize,
    giant: usize,
    scale: f64,
    /// (j, i) → diagonal (n_1·j + i)·stride, rotated to the right by n_1·j·stride.
    diagonals: BTreeMap<(usize, usize), Diagonal>,
}

impl LinearMap {
    /// Encodes `matrix` for ciphertexts at `level`, with `baby` = n_1 baby steps (a power of two is best) and entries at
    /// scale `scale`.
    ///
    /// # Errors
    /// `BadInput` for a matrix of other than N/2 slots or with no diagonals, or a level of 0.
    pub fn new(
        context: &Context,
        matrix: &Matrix,
        level: usize,
        baby: usize,
        scale: f64,
    ) -> Result<LinearMap> {
        let op = "encode a linear map";
        let most = matrix.rotations().max();
        let (Some(most), true) = (most, matrix.slots == context.params().slots()) else {
            let wanted = format!("diagonals of {} slots", context.params().slots());
            let got = format!("{} of {}", matrix.diagonals.len(), matrix.slots);
            return Err(Error::bad_input(
                op,
                wanted,
                got,
                "repeat a map of fewer slots along the slots",
            ));
        };
        if level == 0 || level > context.params().top_level() || baby == 0 {
            let wanted = format!(
                "a level in 1 ..= {}, one baby step at least",
                context.params().top_level()
            );
            return Err(Error::bad_input(
                op,
                wanted,
                format!("{level}, {baby}"),
                "choose another level",
            ));
        }
        let stride = matrix.rotations().fold(0, gcd).max(1);
        let (n, count) = (matrix.slots, context.words(level));
        let encode = |(k, diagonal): (&usize, &Vec<Complex>)| {
            let (j, i) = (k / stride / baby, k / stride % baby);
            let back = n - j * baby * stride % n;
            let moved: Vec<Complex> = (0..n).map(|a| diagonal[(a + back) % n]).collect();
            ((j, i), Diagonal::new(context, &moved, scale, count))
        };
        let diagonals = matrix.diagonals.iter().map(encode).collect();
        let giant = most / stride / baby + 1;
        let params = context.params().name;
        Ok(LinearMap { params, level, count, stride, baby, giant, scale, diagonals })
    }

    /// The rotations that it needs keys for.
    pub fn rotations(&self) -> BTreeSet<i64> {
        let babies = self.diagonals.keys().map(|(_, i)| i * self.stride);
        let giant = (self.giant > 1).then_some(self.baby * self.stride);
        babies.chain(giant).filter(|k| *k > 0).map(|k| k as i64).collect()
    }

    /// Bytes of the encoded diagonals.
    pub fn bytes(&self) -> usize {
        let len = |d: &Diagonal| match d {
            Diagonal::Full(x) | Diagonal::Tiled(x) => x.len() * 8,
        };
        self.diagonals.values().map(len).sum()
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Diagonal {
    fn new(context: &Context, values: &[Complex], scale: f64, count: usize) -> Diagonal {
        let near = |a: Complex, b: Complex| (a - b).abs() <= 1e-13 * (a.abs() + b.abs());
        let repeats = |d: usize| (d..values.len()).all(|i| near(values[i], values[i - d]));
        let tiled = repeats(values.len() / 8);
        let full = context.plain(values, scale, count, context.special());
        if !tiled {
            return Diagonal::Full(full);
        }
        let mut kept = context.ring().scratch(full.len() / 8);
        kept.chunks_mut(8)
            .zip(full.chunks(TILE))
            .for_each(|(x, tile)| x.copy_from_slice(&tile[..8]));
        Diagonal::Tiled(kept)
    }
}

impl Evaluator<'_> {
    /// The map applied to the slots: one level lower, scale s·(scale of the map)/q.
    ///
    /// # Errors
    /// `BadInput` below the level of the map, `WrongParams` for a map of another set, `WrongKey` naming a missing rotation.
    pub fn linear(&self, x: &Rlwe, map: &LinearMap) -> Result<Rlwe> {
        self.check("apply a linear map", x)?;
        self.context().check_set("apply a linear map", map.params)?;
        if x.level < map.level {
            let (wanted, got) = (format!("level {} or above", map.level), x.level.to_string());
            return Err(Error::bad_input(
                "apply a linear map",
                wanted,
                got,
                "encode the map at a lower level",
            ));
        }
        let (context, count) = (self.context(), map.count);
        let babies = self.babies(x, map)?;
        let mut sum: Option<Raised> = None;
        for j in (0..map.giant).rev() {
            let terms = self.weighted(&babies, map, j);
            sum = Some(match sum {
                None => terms,
                Some(sum) => {
                    let mut turned = self.turned(sum, map.baby * map.stride)?;
                    for (x, y) in turned.parts.iter_mut().zip(&terms.parts) {
                        self.add_limbs(x, y, count);
                    }
                    turned
                }
            });
        }
        // A map has one giant step at least.
        let Some(sum) = sum else { return Ok(x.clone()) };
        let keep = context.words(map.level - 1);
        let parts = [0, 1].map(|k| context.divide(&sum.parts[k], count, keep, context.special()));
        let scale = x.scale * map.scale / context.step(map.level);
        let mut out = context.ciphertext(x, map.level - 1, scale, parts);
        out.error = x.error.hypot(context.rounding(scale));
        Ok(out)
    }

    /// x rotated by i·stride, modulo Q·P, for every i that a diagonal needs.
    fn babies(&self, x: &Rlwe, map: &LinearMap) -> Result<BTreeMap<usize, Raised>> {
        let (context, count) = (self.context(), map.count);
        let (n, special) = (context.params().degree(), context.special());
        let steps: BTreeSet<usize> = map.diagonals.keys().map(|(_, i)| *i).collect();
        let digits = context.decompose(&x.parts[1], count, special);
        let baby = |i: usize| {
            if i == 0 {
                let parts = [0, 1].map(|k| {
                    let mut part = context.ring().scratch((count + special) * n);
                    part.fill(0.0);
                    context.add_raised(&mut part, &x.parts[k][..count * n], count);
                    part
                });
                return Ok((i, Raised { count, parts }));
            }
            let power = power_of_rotation((i * map.stride) as i64, n);
            let key = self.galois_key("apply a linear map", power)?;
            let mut raised = context.inner_product(&digits, key);
            context.add_raised(&mut raised.parts[0], &x.parts[0][..count * n], count);
            let permutation = context.permutation(power);
            let parts = [0, 1].map(|k| context.permute(&raised.parts[k], &permutation));
            Ok((i, Raised { count, parts }))
        };
        steps.into_iter().map(baby).collect()
    }

    /// u_j = Σ_i diagonal_ij ⊙ x_i.
    fn weighted(&self, babies: &BTreeMap<usize, Raised>, map: &LinearMap, j: usize) -> Raised {
        let (context, count) = (self.context(), map.count);
        let (ring, n) = (context.ring(), context.params().degree());
        let row = map.diagonals.range((j, 0)..(j + 1, 0));
        let terms: Vec<(&Raised, &Diagonal)> =
            row.filter_map(|((_, i), d)| Some((babies.get(i)?, d))).collect();
        let parts = [0, 1].map(|k| {
            let mut out = ring.scratch((count + context.special()) * n);
            out.par_chunks_mut(n).enumerate().for_each(|(i, sum)| {
                let (mut full, mut tiled) = (vec![], vec![]);
                for (x, diagonal) in &terms {
                    let x = &x.parts[k][i * n..][..n];
                    match diagonal {
                        Diagonal::Full(d) => full.push((x, &d[i * n..][..n])),
                        Diagonal::Tiled(d) => tiled.push((x, &d[i * n / 8..][..n / 8])),
                    }
                }
                let word = context.word_of(i, count);
                let (a, b): (Vec<_>, Vec<_>) = tiled.into_iter().unzip();
                ring.dot_tiled(word, sum, &a, &b);
                if !full.is_empty() {
                    let (a, b): (Vec<_>, Vec<_>) = full.into_iter().unzip();
                    let mut rest = ring.scratch(n);
                    ring.dot(word, &mut rest, &a, &b);
                    ring.add(word, sum, &rest);
                }
            });
            out
        });
        Raised { count, parts }
    }

    /// A sum modulo Q·P rotated by `by`.
    fn turned(&self, sum: Raised, by: usize) -> Result<Raised> {
        let (context, count) = (self.context(), sum.count);
        let power = power_of_rotation(by as i64, context.params().degree());
        let key = self.galois_key("apply a linear map", power)?;
        let linear = context.divide(&sum.parts[1], count, count, context.special());
        let mut raised =
            context.inner_product(&context.decompose(&linear, count, key.special), key);
        self.add_limbs(&mut raised.parts[0], &sum.parts[0], count);
        let permutation = context.permutation(power);
        let parts = [0, 1].map(|k| context.permute(&raised.parts[k], &permutation));
        Ok(Raised { count, parts })
    }

    fn add_limbs(&self, x: &mut [f64], y: &[f64], count: usize) {
        let (context, n) = (self.context(), self.context().params().degree());
        x.par_chunks_mut(n).zip(y.par_chunks(n)).enumerate().for_each(|(i, (x, y))| {
            context.ring().add(context.word_of(i, count), x, y);
        });
    }
}
