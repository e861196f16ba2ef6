//! The vector kernels of the blind rotation: the three sweeps of a step, and the rotations that they make up.

// Iterator adaptors and their closures would not be inlined into the kernels.
#![allow(clippy::needless_range_loop)]

use super::layout::Layout;
use super::nodes::{forward_nodes, inner_passes, inverse_nodes};
use crate::bootstrap::tfhe::extended::{Move, Source};
use crate::math::fft::butterfly::{self, Complex, Fetch, fetch_steps};
use crate::math::fft::passes::{self, leaf_stride};
#[cfg(target_arch = "x86_64")]
use crate::math::fft::vector::{Avx2, Avx512};
use crate::math::fft::vector::{Portable, Round, Vector};
use crate::math::gadget::Gadget;
use crate::math::simd::prefetch;

passes::entry! {
    /// First sweep: the work rows become the first pass of the digits of `X^shift·source − minus`.
    /// # Safety
    /// `level` is available and the plan's; `source` and `minus` are accumulators, `work` the work rows; `shift < 2N`.
    decompose => decompose_kernel(layout: &Layout, source: *mut f64, minus: *const f64, shift: usize, work: *mut f64)
}

passes::entry! {
    /// Second sweep: the work rows are replaced by their product with a GGSW, but for the last inverse pass. `fetch`: ask
    /// for the GGSW that follows.
    /// # Safety
    /// As [`decompose`]; `ggsw` is valid for one GGSW, `digits` for a leaf per row.
    multiply => multiply_kernel(layout: &Layout, ggsw: *const f64, work: *mut f64, digits: *mut f64, fetch: bool)
}

passes::entry! {
    /// Third sweep: `acc += last pass of the columns`, reduced to [−1/2, 1/2].
    /// # Safety
    /// As [`decompose`].
    accumulate => accumulate_kernel(layout: &Layout, work: *const f64, acc: *mut f64)
}

/// All steps of the rotation of the accumulators in the arena, one per mask.
///
/// # Safety
/// `key` is valid for one GGSW per exponent of each mask, `arena` for the accumulators; exponents are below 2N.
pub(super) unsafe fn rotate(layout: &Layout, key: *const f64, masks: &[&[u32]], arena: *mut f64) {
    // SAFETY: promised by the caller; a plan exists only for an available level.
    unsafe {
        let level = layout.plan.level();
        let (work, digits) = (arena.add(layout.work()), arena.add(layout.digits()));
        for i in 0..masks.first().map_or(0, |mask| mask.len()) {
            let ggsw = key.add(i * layout.ggsw);
            for (c, mask) in masks.iter().enumerate() {
                // The mask is public, so a rotation by nothing may be left out.
                if mask[i] != 0 {
                    let acc = arena.add(layout.accumulator(c).start);
                    decompose(level, layout, acc, acc, mask[i] as usize, work);
                    multiply(level, layout, ggsw, work, digits, c == 0);
                    accumulate(level, layout, work, acc);
                }
            }
        }
    }
}

/// The moves of a rotation with several accumulators; the operand holds what is put by.
///
/// # Safety
/// `key` is valid for one GGSW per key bit of a move, `arena` for the accumulators; shifts are below 2N.
pub(super) unsafe fn walk(layout: &Layout, key: *const f64, moves: &[Move], arena: *mut f64) {
    // SAFETY: promised by the caller; a plan exists only for an available level. The operand and the accumulators do not
    // overlap.
    unsafe {
        let level = layout.plan.level();
        let (work, digits) = (arena.add(layout.work()), arena.add(layout.digits()));
        let kept = arena.add(layout.operand().start);
        for m in moves {
            let target = arena.add(layout.accumulator(m.target).start);
            if m.first && m.source != Source::Accumulator(m.target) {
                std::ptr::copy_nonoverlapping(target, kept, layout.accumulator_len());
            }
            let source = match m.source {
                Source::Accumulator(j) => arena.add(layout.accumulator(j).start),
                Source::Kept => kept,
            };
            decompose(level, layout, source, target, m.shift, work);
            multiply(level, layout, key.add(m.key * layout.ggsw), work, digits, m.first);
            accumulate(level, layout, work, target);
        }
    }
}

/// `accumulator 0 += operand ⊡ ggsw`; accumulator 1 is zero.
///
/// # Safety
/// As [`rotate`], for one GGSW.
pub(super) unsafe fn external_product(layout: &Layout, ggsw: *const f64, arena: *mut f64) {
    // SAFETY: promised by the caller; a plan exists only for an available level.
    unsafe {
        let level = layout.plan.level();
        let (work, digits) = (arena.add(layout.work()), arena.add(layout.digits()));
        let zero = arena.add(layout.accumulator(1).start);
        decompose(level, layout, arena.add(layout.operand().start), zero, 0, work);
        multiply(level, layout, ggsw, work, digits, false);
        accumulate(level, layout, work, arena.add(layout.accumulator(0).start));
    }
}

#[inline(always)]
unsafe fn decompose_kernel<V: Round>(
    layout: &Layout,
    source: *mut f64,
    minus: *const f64,
    shift: usize,
    work: *mut f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        for p in 0..layout.columns {
            let at = p * layout.polynomial_stride();
            let (source, minus, out) =
                (source.add(at), minus.add(at), work.add(p * layout.row_stride));
            // The rotated reads run over the end by less than a vector; there follows the head with its sign flipped.
            for i in 0..V::LANES {
                *source.add(layout.plan.size() + i) = -*source.add(i);
            }
            match (layout.plan.radices()[0], layout.gadget.level == 1) {
                (2, _) => decompose_radix::<V, 2, false>(layout, source, minus, shift, out),
                (_, true) => decompose_radix::<V, 4, true>(layout, source, minus, shift, out),
                (_, false) => decompose_radix::<V, 4, false>(layout, source, minus, shift, out),
            }
        }
    }
}

/// Where the segments of a rotated polynomial are read, for coefficients before and from the offset of the rotation
/// inside a segment on: position of coefficient 0 of the segment, and sign.
struct Segments {
    position: [[isize; 8]; 2],
    sign: [[f64; 8]; 2],
}

impl Segments {
    /// `count` segments of `points` coefficients, rotated by X^shift.
    #[inline(always)]
    fn new(count: usize, points: usize, shift: usize) -> Segments {
        let mut segments = Segments { position: [[0; 8]; 2], sign: [[0.0; 8]; 2] };
        let (whole, part) = (shift / points, shift % points);
        for window in 0..2 {
            for x in 0..count {
                // Coefficient j of segment x comes from j − shift, modulo X^N = −1.
                let from = (x + 4 * count - whole - (1 - window)) % (2 * count);
                let start = (from % count * points) as isize - part as isize;
                segments.position[window][x] =
                    if window == 0 { start + points as isize } else { start };
                segments.sign[window][x] = if from >= count { -1.0 } else { 1.0 };
            }
        }
        segments
    }
}

#[inline(always)]
unsafe fn decompose_radix<V: Round, const R: usize, const ONE: bool>(
    layout: &Layout,
    source: *const f64,
    minus: *const f64,
    shift: usize,
    out: *mut f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let Gadget { base_log, level } = layout.gadget;
        let points = layout.plan.size() / 2 / R;
        let segments = Segments::new(2 * R, points, shift);
        let unit = V::splat((1u64 << (base_log * level)) as f64);
        let border = (shift % points).next_multiple_of(V::LANES);
        for (window, range) in [0..border, border..points].into_iter().enumerate() {
            for j in range.step_by(V::LANES) {
                let mut state = [Complex::<V>::zero(); R];
                for x in 0..2 * R {
                    let from = source.offset(segments.position[window][x] + j as isize);
                    let c = V::load(from).mul_sub(
                        V::splat(segments.sign[window][x]),
                        V::load(minus.add(x * points + j)),
                    );
                    // The products behind c are so large that c·2^(Bℓ) has some five bits after the point: one value in
                    // 2^5 is a tie. Ties that all went up would be a bias, which N/2 key bits make noise.
                    let r = ((c - c.round()) * unit).round();
                    if x < R { state[x].re = r } else { state[x - R].im = r }
                }
                digit_rows::<V, R, ONE>(layout, state, out.add(2 * j));
            }
        }
    }
}

/// The digits of integers, one vector of each of the root's segments, through the first pass to `out` in every work row.
/// Digits from the least significant one, each in [−B/2, B/2); the first takes what remains.
#[inline(always)]
pub(super) unsafe fn digit_rows<V: Round, const R: usize, const ONE: bool>(
    layout: &Layout,
    mut state: [Complex<V>; R],
    out: *mut f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let Gadget { base_log, level } = layout.gadget;
        let tw = layout.plan.twiddles(0).as_ptr();
        let (base, inverse) =
            (V::splat((1u64 << base_log) as f64), V::splat(1.0 / (1u64 << base_log) as f64));
        let half = V::splat(0.5);
        for v in (0..if ONE { 1 } else { level as usize }).rev() {
            let mut x = state;
            if !ONE && v > 0 {
                for m in 0..R {
                    let re = state[m].re.mul_add(inverse, half).floor();
                    let im = state[m].im.mul_add(inverse, half).floor();
                    x[m].re = re.neg_mul_add(base, state[m].re);
                    x[m].im = im.neg_mul_add(base, state[m].im);
                    state[m] = Complex { re, im };
                }
            }
            butterfly::forward::<V, R>(&mut x, tw);
            let row = out.add(v * layout.columns * layout.row_stride);
            for m in 0..R {
                x[m].store(row.add(m * layout.segment_stride));
            }
        }
    }
}

/// For every leaf the remaining forward passes of all rows that become possible, the products with the GGSW,
/// and the inverse passes of all columns that become possible; the columns overwrite the first rows.
#[inline(always)]
unsafe fn multiply_kernel<V: Vector>(
    layout: &Layout,
    ggsw: *const f64,
    work: *mut f64,
    digits: *mut f64,
    fetch: bool,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let plan = &*layout.plan;
        let (passes, count) = inner_passes(layout);
        let leaf_twiddles = plan.twiddles(plan.radices().len()).as_ptr();
        let block = layout.rows * layout.columns * layout.leaf;
        // Fetching evenly beside the transforms keeps the memory busy without ever filling its queues.
        let share = block.div_ceil(8 * (layout.rows + layout.columns));
        let lines = if fetch { share.div_ceil(fetch_steps(V::LANES)) } else { 0 };
        for segment in 0..plan.radices()[0] {
            let work = work.add(segment * layout.segment_stride);
            for in_segment in 0..layout.segment_leaves {
                let leaf = segment * layout.segment_leaves + in_segment;
                let at = work.add(in_segment * layout.leaf);
                forward_nodes::<V>(layout, &passes[..count], leaf, at);
                let (g, tw) =
                    (ggsw.add(leaf * block), leaf_twiddles.add(leaf * leaf_stride::<V>()));
                match lines {
                    0 => leaf_product::<V, 0, false>(layout, g, at, tw, digits, share),
                    1 => leaf_product::<V, 1, false>(layout, g, at, tw, digits, share),
                    2 => leaf_product::<V, 2, false>(layout, g, at, tw, digits, share),
                    3 => leaf_product::<V, 3, false>(layout, g, at, tw, digits, share),
                    _ => leaf_product::<V, 0, true>(layout, g, at, tw, digits, share),
                }
                inverse_nodes::<V>(layout, &passes[..count], leaf, at);
            }
        }
    }
}

/// `LINES` cache lines of the key that follows are asked for at each step of a transform; or, where that were too many at a
/// time, as many as are read where the key is `STREAMED`.
#[inline(always)]
unsafe fn leaf_product<V: Vector, const LINES: usize, const STREAMED: bool>(
    layout: &Layout,
    g: *const f64,
    at: *mut f64,
    tw: *const f64,
    digits: *mut f64,
    share: usize,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let mut fetched = g.wrapping_add(FETCH_AHEAD);
        let mut digit = [Complex::<V>::zero(); 8];
        for row in 0..layout.rows {
            digit = butterfly::leaf_forward::<V, LINES>(
                at.add(row * layout.row_stride),
                tw,
                Fetch(fetched),
            );
            store_leaf(&digit, digits.add(row * layout.leaf));
            fetched = fetched.wrapping_add(8 * share);
        }
        for column in 0..layout.columns {
            let g = g.add(column * layout.rows * layout.leaf);
            // The last row comes first: for the first column it is still in registers (if they suffice), and reading back
            // a vector of 64 bytes that was just stored is slow.
            let last = (layout.rows - 1) * layout.leaf;
            if column > 0 || V::LANES == 4 {
                digit = load_leaf(digits.add(last));
            }
            let mut sum = digit;
            for m in 0..V::LANES {
                let value = key_value::<V, STREAMED>(g.add(last + m * 2 * V::LANES));
                sum[m] = digit[m].mul(value);
            }
            for row in 0..layout.rows - 1 {
                for m in 0..V::LANES {
                    let i = row * layout.leaf + m * 2 * V::LANES;
                    let value = key_value::<V, STREAMED>(g.add(i));
                    sum[m] = Complex::<V>::load(digits.add(i)).mul_acc(value, sum[m]);
                }
            }
            butterfly::leaf_inverse::<V, LINES>(
                sum,
                at.add(column * layout.row_stride),
                tw,
                Fetch(fetched),
            );
            fetched = fetched.wrapping_add(8 * share);
        }
    }
}

/// A value of the key; `STREAMED` asks for the one that is read so much later.
#[inline(always)]
unsafe fn key_value<V: Vector, const STREAMED: bool>(p: *const f64) -> Complex<V> {
    // SAFETY: promised by the caller.
    unsafe {
        if STREAMED {
            for line in 0..V::LANES.div_ceil(4) {
                prefetch(p.wrapping_add(FETCH_AHEAD + 8 * line));
            }
        }
        Complex::load(p)
    }
}

#[inline(always)]
pub(super) unsafe fn load_leaf<V: Vector>(p: *const f64) -> [Complex<V>; 8] {
    // SAFETY: promised by the caller.
    unsafe {
        let mut y = [Complex::zero(); 8];
        for m in 0..V::LANES {
            y[m] = Complex::load(p.add(m * 2 * V::LANES));
        }
        y
    }
}

#[inline(always)]
pub(super) unsafe fn store_leaf<V: Vector>(y: &[Complex<V>; 8], p: *mut f64) {
    // SAFETY: promised by the caller.
    unsafe {
        for m in 0..V::LANES {
            y[m].store(p.add(m * 2 * V::LANES));
        }
    }
}

/// How far ahead the key is fetched, in doubles: 16 KiB, some two microseconds.
const FETCH_AHEAD: usize = 2048;

#[inline(always)]
unsafe fn accumulate_kernel<V: Round>(layout: &Layout, work: *const f64, acc: *mut f64) {
    // SAFETY: promised by the caller.
    unsafe {
        for p in 0..layout.columns {
            let (row, acc) =
                (work.add(p * layout.row_stride), acc.add(p * layout.polynomial_stride()));
            match layout.plan.radices()[0] {
                2 => accumulate_radix::<V, 2>(layout, row, acc),
                _ => accumulate_radix::<V, 4>(layout, row, acc),
            }
        }
    }
}

#[inline(always)]
unsafe fn accumulate_radix<V: Round, const R: usize>(
    layout: &Layout,
    row: *const f64,
    acc: *mut f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let half = layout.plan.size() / 2;
        let points = half / R;
        let tw = layout.plan.twiddles(0).as_ptr();
        for j in (0..points).step_by(V::LANES) {
            let mut x = [Complex::<V>::zero(); R];
            for m in 0..R {
                x[m] = Complex::load(row.add(m * layout.segment_stride + 2 * j));
            }
            butterfly::plain::<V, R, true>(&mut x);
            for m in 0..R {
                let (re, im) = (acc.add(m * points + j), acc.add(half + m * points + j));
                let mut sum = Complex { re: V::load(re), im: V::load(im) };
                sum = match m {
                    0 => sum.add(x[0]),
                    _ => x[m]
                        .mul_conj_acc(Complex::twiddle(butterfly::scalar_twiddle::<V>(tw, m)), sum),
                };
                (sum.re - sum.re.round()).store(re);
                (sum.im - sum.im.round()).store(im);
            }
        }
    }
}
