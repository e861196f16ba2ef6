//! The rotation by groups of GGSW: one external product by `Σ_j (X^(e_j) − 1)·GGSW_j`, the bundle, for each group.
//!
//! At most one GGSW of a group encrypts 1, so the product turns the accumulator by that one's exponent. The bundle is
//! made where it is used, value by value in the Fourier domain: at the point e^(iπ(4u+1)/N) the monomial X^e is
//! e^(iπe(4u+1)/N), and as the points of a leaf are those of a coset, X^e there is one number for the leaf times one for
//! the lane times one for the vector: three small tables, no gather. The key streams once, in order, for a whole tile.
//! Cost of a step beside its (k+1)(ℓ+1) transforms, in complex products a value: m·(rows·columns + 2) for the bundle and
//! rows·columns to multiply by it; or, digits first, m·columns·(rows + 1) + 2m: less where rows > m, and taken where there
//! are more rows than registers. Source: Zhou et al. 2018, Bourse et al. 2018 (bundles); Lee et al. 2023 (hoisting).

// Iterator adaptors and their closures would not be inlined into the kernels.
#![allow(clippy::needless_range_loop)]

use super::kernel;
use super::layout::{Layout, PAD};
use super::nodes;
use crate::math::fft::butterfly::{self, Complex, Fetch, fetch_steps};
use crate::math::fft::passes;
use crate::math::fft::roots;
#[cfg(target_arch = "x86_64")]
use crate::math::fft::vector::{Avx2, Avx512};
use crate::math::fft::vector::{Portable, Round, Vector};
use crate::math::simd::prefetch;

/// How groups of one size are multiplied by: sizes, and roots of unity.
#[derive(Clone)]
pub(super) struct Groups {
    /// m: GGSW ciphertexts of a group.
    pub(super) size: usize,
    /// Lanes of a vector.
    lanes: usize,
    /// Columns of a GGSW that are computed together: all or one.
    together: usize,
    /// 4u + 1 of the first point of each leaf.
    first: Vec<u32>,
    /// e^(iπx/N) for x in 0..2N, real and imaginary part.
    roots: std::sync::Arc<Vec<f64>>,
    /// e^(2πi·x·lane/lanes²) for x in 0..lanes²: a vector of real parts, one of imaginary parts.
    lane_roots: Vec<f64>,
    /// e^(2πi·x·w/lanes) for x in 0..lanes and vectors w in 0..lanes.
    vector_roots: Vec<f64>,
}

impl Groups {
    pub(super) fn new(layout: &Layout, size: usize) -> Self {
        let plan = &layout.plan;
        let cells = 2 * plan.size();
        let lanes = ((plan.size() / plan.leaves()) as f64 / 2.0).sqrt() as usize;
        let points = lanes * lanes;
        let roots = roots(plan.size());
        let root = |x: usize| [roots[x % cells * 2], roots[x % cells * 2 + 1]];
        let mut lane_roots = Vec::with_capacity(points * 2 * lanes);
        for x in 0..points {
            for part in 0..2 {
                lane_roots.extend((0..lanes).map(|lane| root(x * lane * (cells / points))[part]));
            }
        }
        let vector_roots =
            (0..points).flat_map(|i| root(i / lanes * (i % lanes) * (cells / lanes)));
        Groups {
            size,
            lanes,
            together: if layout.columns == 2 && layout.rows == 2 { 2 } else { 1 },
            first: plan.exponents().iter().step_by(points).map(|u| 4 * u + 1).collect(),
            vector_roots: vector_roots.collect(),
            lane_roots,
            roots: std::sync::Arc::new(roots),
        }
    }

    /// Doubles that the rotation of a tile needs behind the arena of the layout.
    pub(super) fn extra_len(&self, layout: &Layout, tile: usize) -> usize {
        self.work(layout, tile)
    }

    /// Where behind the arena the work rows of ciphertext `c` of the tile are: after a leaf's factors and columns.
    fn work(&self, layout: &Layout, c: usize) -> usize {
        (self.size + layout.columns) * layout.leaf + c * (layout.rows * layout.row_stride + PAD)
    }

    /// A group in coefficient form to the order of the kernel: leaf, vector, columns, GGSW, column, row, value.
    /// `fill(j, out)` writes GGSW j.
    pub(super) fn transform(
        &self,
        layout: &Layout,
        fill: impl Fn(usize, &mut [u64]),
        coefficients: &mut [u64],
        work: &mut [f64],
        out: &mut [f64],
    ) {
        let (columns, rows, vector) = (layout.columns, layout.rows, 2 * self.lanes);
        for j in 0..self.size {
            fill(j, coefficients);
            layout.transform_rows(coefficients, work, |row, column, values| {
                let blocks = column / self.together * self.size + j;
                let place = (blocks * self.together + column % self.together) * rows + row;
                let places = columns * rows * self.size;
                for (i, values) in values.chunks_exact(vector).enumerate() {
                    let at = (i * places + place) * vector;
                    out[at..at + vector].copy_from_slice(values);
                }
            });
        }
    }
}

passes::entry! {
    /// First sweep: the accumulator loses what its digits do not hold, and the work rows become the first pass of them.
    /// # Safety
    /// As [`kernel::decompose`], for one accumulator.
    round => round_kernel(layout: &Layout, acc: *mut f64, work: *mut f64)
}

passes::entry! {
    /// Second sweep of a tile: work rows are replaced by their product with the bundle, but for the last inverse pass.
    /// # Safety
    /// As [`kernel::multiply`]; `key` is valid for one group, `at` for where its exponents stand in every mask, and what
    /// `extra` points to for [`Groups::extra_len`].
    multiply => multiply_kernel(groups: &Groups, layout: &Layout, key: *const f64, masks: &[&[u32]], at: usize, extra: *mut f64)
}

/// All steps of the rotation of the accumulators in the arena, one per mask. `tile`: what the arena is made for.
///
/// # Safety
/// As [`kernel::rotate`], with [`Groups::extra_len`] behind the arena; masks hold a multiple of the group's size.
pub(super) unsafe fn rotate(
    groups: &Groups,
    layout: &Layout,
    key: *const f64,
    masks: &[&[u32]],
    (arena, tile): (*mut f64, usize),
) {
    // SAFETY: promised by the caller; a plan exists only for an available level.
    unsafe {
        let level = layout.plan.level();
        let extra = arena.add(layout.arena_len(tile));
        let work = |c: usize| extra.add(groups.work(layout, c));
        for step in 0..masks.first().map_or(0, |mask| mask.len()) / groups.size {
            for c in 0..masks.len() {
                round(level, layout, arena.add(layout.accumulator(c).start), work(c));
            }
            let (key, at) = (key.add(step * groups.size * layout.ggsw), step * groups.size);
            multiply(level, groups, layout, key, masks, at, extra);
            for c in 0..masks.len() {
                let acc = arena.add(layout.accumulator(c).start);
                kernel::accumulate(level, layout, work(c), acc);
            }
        }
    }
}

#[inline(always)]
unsafe fn round_kernel<V: Round>(layout: &Layout, acc: *mut f64, work: *mut f64) {
    // SAFETY: promised by the caller.
    unsafe {
        for p in 0..layout.columns {
            let (acc, out) =
                (acc.add(p * layout.polynomial_stride()), work.add(p * layout.row_stride));
            match (layout.plan.radices()[0], layout.gadget.level == 1) {
                (2, _) => round_radix::<V, 2, false>(layout, acc, out),
                (_, true) => round_radix::<V, 4, true>(layout, acc, out),
                (_, false) => round_radix::<V, 4, false>(layout, acc, out),
            }
        }
    }
}

#[inline(always)]
unsafe fn round_radix<V: Round, const R: usize, const ONE: bool>(
    layout: &Layout,
    acc: *mut f64,
    out: *mut f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let points = layout.plan.size() / 2 / R;
        let bits = layout.gadget.base_log * layout.gadget.level;
        let unit = V::splat((1u64 << bits) as f64);
        let step = V::splat(1.0 / (1u64 << bits) as f64);
        for j in (0..points).step_by(V::LANES) {
            let mut state = [Complex::<V>::zero(); R];
            for x in 0..2 * R {
                let at = acc.add(x * points + j);
                let r = (V::load(at) * unit).round();
                (r * step).store(at);
                if x < R { state[x].re = r } else { state[x - R].im = r }
            }
            kernel::digit_rows::<V, R, ONE>(layout, state, out.add(2 * j));
        }
    }
}

/// As the kernel of [`kernel::multiply`], for every ciphertext of the tile at each leaf.
#[inline(always)]
unsafe fn multiply_kernel<V: Vector>(
    groups: &Groups,
    layout: &Layout,
    key: *const f64,
    masks: &[&[u32]],
    at: usize,
    extra: *mut f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let (passes, count) = nodes::inner_passes(layout);
        let block = groups.size * layout.rows * layout.columns * layout.leaf;
        let leaf_twiddles = layout.plan.twiddles(layout.plan.radices().len()).as_ptr();
        let lines = match V::LANES {
            8 => fetched_by_transform(groups, layout).div_ceil(fetch_steps(V::LANES)),
            _ => 0,
        };
        for leaf in 0..layout.plan.leaves() {
            let in_segment = leaf % layout.segment_leaves;
            let place =
                leaf / layout.segment_leaves * layout.segment_stride + in_segment * layout.leaf;
            let tw = leaf_twiddles.add(leaf * passes::leaf_stride::<V>());
            for c in 0..masks.len() {
                let work = extra.add(groups.work(layout, c) + place);
                nodes::forward_nodes::<V>(layout, &passes[..count], leaf, work);
                let exponents = masks[c].as_ptr().add(at);
                factors::<V>(groups, layout, leaf, exponents, extra);
                let key = key.add(leaf * block);
                match (c, lines) {
                    (1.., _) => leaf_product::<V, 0, 0>(groups, layout, key, work, tw, extra),
                    (0, 1..=2) => leaf_product::<V, 2, 1>(groups, layout, key, work, tw, extra),
                    (0, 3) => leaf_product::<V, 3, 1>(groups, layout, key, work, tw, extra),
                    _ if V::LANES == 8 => {
                        leaf_product::<V, 0, 2>(groups, layout, key, work, tw, extra)
                    }
                    _ => leaf_product::<V, 0, 1>(groups, layout, key, work, tw, extra),
                }
                nodes::inverse_nodes::<V>(layout, &passes[..count], leaf, work);
            }
        }
    }
}

/// X^(e_j) − 1 at the points of a leaf: vector by vector, for each of them all j.
#[inline(always)]
unsafe fn factors<V: Vector>(
    groups: &Groups,
    layout: &Layout,
    leaf: usize,
    exponents: *const u32,
    out: *mut f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let cells = 2 * layout.plan.size();
        let first = *groups.first.as_ptr().add(leaf) as usize;
        let one = V::splat(1.0);
        for j in 0..groups.size {
            let e = *exponents.add(j) as usize;
            let root = groups.roots.as_ptr().add(2 * ((e * first) & (cells - 1)));
            let root = Complex { re: V::splat(*root), im: V::splat(*root.add(1)) };
            let lane = e % (V::LANES * V::LANES) * 2 * V::LANES;
            let at = Complex::<V>::load(groups.lane_roots.as_ptr().add(lane)).mul(root);
            let turns = groups.vector_roots.as_ptr().add(e % V::LANES * 2 * V::LANES);
            for w in 0..V::LANES {
                let (re, im) = (V::splat(*turns.add(2 * w)), V::splat(*turns.add(2 * w + 1)));
                let factor = Complex {
                    re: at.re.mul_sub(re, at.im.mul_add(im, one)),
                    im: at.re.mul_add(im, at.im * re),
                };
                factor.store(out.add((w * groups.size + j) * 2 * V::LANES));
            }
        }
    }
}

/// Cache lines of the next leaf's key that one transform of a leaf asks for where the products ask for one line at each of
/// their vectors, half of the two that it has: the memory is busy for longer then. Keys of large groups are asked for by
/// the products alone: more than three lines at a step of a transform fill the queues.
fn fetched_by_transform(groups: &Groups, layout: &Layout) -> usize {
    let lines = groups.size * layout.rows * layout.columns * layout.leaf / 8;
    (lines / 2).div_ceil(layout.rows + layout.columns)
}

/// The rest of the transform of all rows, the products, and the first part of the inverse transform of all columns.
/// `rest`: the factors, then room for the columns. The key of the next leaf is asked for, `LINES` lines at each step of a
/// transform and `MORE` at each value of the key.
#[inline(always)]
unsafe fn leaf_product<V: Vector, const LINES: usize, const MORE: usize>(
    groups: &Groups,
    layout: &Layout,
    key: *const f64,
    work: *mut f64,
    tw: *const f64,
    rest: *mut f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let block = groups.size * layout.rows * layout.columns * layout.leaf;
        let (share, next) = (8 * fetched_by_transform(groups, layout), key.wrapping_add(block));
        let from = |transform: usize| next.wrapping_add(block / 2 + transform * share);
        for row in 0..layout.rows {
            let at = work.add(row * layout.row_stride);
            let digit = butterfly::leaf_forward::<V, LINES>(at, tw, Fetch(from(row)));
            kernel::store_leaf(&digit, at);
        }
        let sums = rest.add(groups.size * layout.leaf);
        let key = Stream::<MORE> { key, next };
        match (layout.rows, layout.columns) {
            (2, 2) => bundle::<V, 2, 2, MORE>(groups, layout, key, work, rest, sums),
            (3, _) => bundle::<V, 3, 1, MORE>(groups, layout, key, work, rest, sums),
            (4, _) => bundle::<V, 4, 1, MORE>(groups, layout, key, work, rest, sums),
            _ => digits_first::<V, MORE>(groups, layout, key, work, rest, sums),
        }
        for column in 0..layout.columns {
            let sum = kernel::load_leaf::<V>(sums.add(column * layout.leaf));
            let at = work.add(column * layout.row_stride);
            butterfly::leaf_inverse::<V, LINES>(sum, at, tw, Fetch(from(layout.rows + column)));
        }
    }
}

/// A leaf's key being read and the next leaf's being asked for, `LINES` lines a value.
struct Stream<const LINES: usize> {
    key: *const f64,
    next: *const f64,
}

impl<const LINES: usize> Stream<LINES> {
    /// The next value of the key.
    #[inline(always)]
    unsafe fn value<V: Vector>(&mut self) -> Complex<V> {
        // SAFETY: promised by the caller.
        unsafe {
            let value = Complex::load(self.key);
            for _ in 0..LINES {
                prefetch(self.next);
                self.next = self.next.wrapping_add(8);
            }
            self.key = self.key.add(2 * V::LANES);
            value
        }
    }
}

/// For `COLUMNS` columns at a time the bundle, in registers, then its product with the digits.
#[inline(always)]
unsafe fn bundle<V: Vector, const ROWS: usize, const COLUMNS: usize, const LINES: usize>(
    groups: &Groups,
    layout: &Layout,
    mut key: Stream<LINES>,
    digits: *const f64,
    factors: *const f64,
    sums: *mut f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        for w in 0..V::LANES {
            let (vector, factors) = (w * 2 * V::LANES, factors.add(w * groups.size * 2 * V::LANES));
            for columns in 0..layout.columns / COLUMNS {
                let mut sum = [[Complex::<V>::zero(); ROWS]; COLUMNS];
                for j in 0..groups.size {
                    let factor = Complex::<V>::load(factors.add(j * 2 * V::LANES));
                    for column in 0..COLUMNS {
                        for row in 0..ROWS {
                            let value = key.value::<V>();
                            sum[column][row] = value.mul_acc(factor, sum[column][row]);
                        }
                    }
                }
                for column in 0..COLUMNS {
                    let mut product = Complex::<V>::zero();
                    for row in 0..ROWS {
                        let digit = Complex::load(digits.add(row * layout.row_stride + vector));
                        product = sum[column][row].mul_acc(digit, product);
                    }
                    let at = (columns * COLUMNS + column) * layout.leaf + vector;
                    product.store(sums.add(at));
                }
            }
        }
    }
}

/// For each column the product of the digits with each GGSW, times its factor.
#[inline(always)]
unsafe fn digits_first<V: Vector, const LINES: usize>(
    groups: &Groups,
    layout: &Layout,
    mut key: Stream<LINES>,
    digits: *const f64,
    factors: *const f64,
    sums: *mut f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        for w in 0..V::LANES {
            let (vector, factors) = (w * 2 * V::LANES, factors.add(w * groups.size * 2 * V::LANES));
            for column in 0..layout.columns {
                let mut sum = Complex::<V>::zero();
                for j in 0..groups.size {
                    let mut product = Complex::<V>::zero();
                    for row in 0..layout.rows {
                        let digit = Complex::load(digits.add(row * layout.row_stride + vector));
                        product = key.value::<V>().mul_acc(digit, product);
                    }
                    let factor = Complex::load(factors.add(j * 2 * V::LANES));
                    sum = product.mul_acc(factor, sum);
                }
                sum.store(sums.add(column * layout.leaf + vector));
            }
        }
    }
}
