//! The layout of what the kernels of the blind rotation work on.
//!
//! Arena: the accumulators of the tile, an operand (zero, or the left factor of an external product), the work rows (one
//! polynomial per row of the GGSW), the transformed digits of one leaf. Work rows are split in the root's segments, each
//! padded so that segments do not fall on the same cache sets.

use crate::math::fft::FftPlan;
use crate::math::gadget::Gadget;
use std::ops::Range;
use std::sync::Arc;

/// Padding after a polynomial and after a segment, in doubles: two cache lines, and room for the sign-flipped repetition
/// of an accumulator's head.
pub(super) const PAD: usize = 16;

/// Sizes and strides, in doubles, of one shape on one level.
#[derive(Clone)]
pub(super) struct Layout {
    pub(super) plan: Arc<FftPlan>,
    pub(super) gadget: Gadget,
    /// k + w
    pub(super) columns: usize,
    /// ℓ(k + w)
    pub(super) rows: usize,
    /// One leaf: lanes² complex values.
    pub(super) leaf: usize,
    /// Leaves below one segment of the root.
    pub(super) segment_leaves: usize,
    /// From a segment of the root to the next.
    pub(super) segment_stride: usize,
    pub(super) row_stride: usize,
    pub(super) ggsw: usize,
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan)
            && self.gadget == other.gadget
            && self.columns == other.columns
    }
}

impl Layout {
    pub(super) fn new(plan: Arc<FftPlan>, columns: usize, gadget: Gadget) -> Layout {
        let rows = columns * gadget.level as usize;
        let (size, root) = (plan.size(), plan.radices()[0]);
        let segment_stride = size / root + PAD;
        Layout {
            gadget,
            columns,
            rows,
            leaf: size / plan.leaves(),
            segment_leaves: plan.leaves() / root,
            segment_stride,
            row_stride: root * segment_stride,
            ggsw: rows * columns * size,
            plan,
        }
    }

    /// Doubles in an accumulator.
    pub(super) fn accumulator_len(&self) -> usize {
        self.columns * self.polynomial_stride()
    }

    /// Where in the arena accumulator `c` of the tile stands.
    pub(super) fn accumulator(&self, c: usize) -> Range<usize> {
        let start = self.operand().end + self.work_len() + c * self.accumulator_len();
        start..start + self.accumulator_len()
    }

    /// Where in the arena the left factor of an external product stands.
    pub(super) fn operand(&self) -> Range<usize> {
        0..self.accumulator_len()
    }

    pub(super) fn arena_len(&self, tile: usize) -> usize {
        self.accumulator(tile).start
    }

    pub(super) fn work(&self) -> usize {
        self.operand().end
    }

    pub(super) fn digits(&self) -> usize {
        self.work() + self.rows * self.row_stride
    }

    fn work_len(&self) -> usize {
        self.rows * self.row_stride + self.rows * self.leaf
    }

    pub(super) fn polynomial_stride(&self) -> usize {
        self.plan.size() + PAD
    }

    /// Accumulator from a GLWE, body j times X^(−exponents[j]), the masks as the first body.
    pub(super) fn load(&self, glwe: &[u64], exponents: &[u32], accumulator: &mut [f64]) {
        let size = self.plan.size();
        let masks = self.columns - exponents.len();
        let exponents = exponents.iter().take(1).cycle().take(masks).chain(exponents);
        let polynomials = accumulator.chunks_exact_mut(self.polynomial_stride());
        for ((out, input), exponent) in polynomials.zip(glwe.chunks_exact(size)).zip(exponents) {
            let exponent = *exponent as usize;
            let sign = if exponent >= size { -1.0 } else { 1.0 };
            let (head, tail) = input.split_at(exponent % size);
            for (out, x) in out.iter_mut().zip(tail) {
                *out = sign * torus(*x);
            }
            for (out, x) in out[tail.len()..].iter_mut().zip(head) {
                *out = -sign * torus(*x);
            }
        }
    }

    /// GLWE from an accumulator.
    pub(super) fn store(&self, accumulator: &[f64], glwe: &mut [u64]) {
        let polynomials = accumulator.chunks_exact(self.polynomial_stride());
        for (input, out) in polynomials.zip(glwe.chunks_exact_mut(self.plan.size())) {
            for (out, x) in out.iter_mut().zip(input) {
                // In units of 2^-63, because 1/2 itself must not overflow.
                *out = ((x * (1u64 << 63) as f64).round_ties_even() as i64 as u64) << 1;
            }
        }
    }

    /// A GGSW in coefficient form to the order of the kernel: leaf, column, row, value. `work` is for
    /// `plan.twofold_len()`.
    pub(super) fn transform_ggsw(&self, coefficients: &[u64], work: &mut [f64], out: &mut [f64]) {
        self.transform_rows(coefficients, work, |row, column, values| {
            for (leaf, values) in values.chunks_exact(self.leaf).enumerate() {
                let at = ((leaf * self.columns + column) * self.rows + row) * self.leaf;
                out[at..at + self.leaf].copy_from_slice(values);
            }
        });
    }

    /// Each polynomial of a GGSW transformed and scaled: `take(row, column, values)`. Keys are transformed in twice the
    /// precision, which takes a third of the FFT noise away.
    pub(super) fn transform_rows(
        &self,
        coefficients: &[u64],
        work: &mut [f64],
        mut take: impl FnMut(usize, usize, &[f64]),
    ) {
        // Digits are integers, the inverse transform has a gain of N/2, and the accumulator is in units of the torus.
        let scale = 2.0 / self.plan.size() as f64;
        for (i, input) in coefficients.chunks_exact(self.plan.size()).enumerate() {
            self.plan.forward_twofold(input, work);
            let values = &mut work[..self.plan.size()];
            values.iter_mut().for_each(|value| *value *= scale);
            take(i / self.columns, i % self.columns, values);
        }
    }
}

fn torus(x: u64) -> f64 {
    const UNIT: f64 = 1.0 / (1u128 << 64) as f64;
    x as i64 as f64 * UNIT
}
