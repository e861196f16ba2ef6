//! The passes between the root and the leaves, as the second sweep of a rotation runs them: depth first, each as soon as
//! it is possible, so that a block stays in the first-level cache.

// Iterator adaptors and their closures would not be inlined into the kernels.
#![allow(clippy::needless_range_loop)]

use super::layout::Layout;
use crate::math::fft::passes::{self, node_stride};
use crate::math::fft::vector::Vector;

/// A pass below the root, as the second sweep needs it: all divisions by powers of two are shifts, because a node of the
/// last pass is only a few dozen cycles of work.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    radix: usize,
    /// log2 of the number of leaves below a node.
    below: u32,
    /// Complex coefficients in a segment of a node.
    points: usize,
    twiddles: *const f64,
}

/// The passes below the root, and their number.
#[inline(always)]
pub(super) fn inner_passes(layout: &Layout) -> ([Pass; MAX_PASSES], usize) {
    let plan = &*layout.plan;
    let none = Pass { radix: 1, below: 0, points: 0, twiddles: std::ptr::null() };
    let mut passes = [none; MAX_PASSES];
    let mut below = layout.segment_leaves;
    let count = plan.radices().len() - 1;
    for depth in 1..=count {
        let radix = plan.radices()[depth];
        passes[depth - 1] = Pass {
            radix,
            below: below.trailing_zeros(),
            points: below * layout.leaf / 2 / radix,
            twiddles: plan.twiddles(depth).as_ptr(),
        };
        below /= radix;
    }
    (passes, count)
}

/// Enough for N = 65536 on four lanes: 2^11 leaves, 4·4·4·4·8.
pub(super) const MAX_PASSES: usize = 8;

/// The passes below the root that `leaf`, at `at` in the first row, is the first one to need.
#[inline(always)]
pub(super) unsafe fn forward_nodes<V: Vector>(
    layout: &Layout,
    passes: &[Pass],
    leaf: usize,
    at: *mut f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        for pass in passes {
            if leaf & ((1 << pass.below) - 1) == 0 {
                for row in 0..layout.rows {
                    node::<V, false>(pass, leaf, at.add(row * layout.row_stride));
                }
            }
        }
    }
}

/// The inverse passes below the root for which `leaf` is the last one missing.
#[inline(always)]
pub(super) unsafe fn inverse_nodes<V: Vector>(
    layout: &Layout,
    passes: &[Pass],
    leaf: usize,
    at: *mut f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        for pass in passes.iter().rev() {
            let last = (1 << pass.below) - 1;
            if leaf & last == last {
                let at = at.sub(last * layout.leaf);
                for column in 0..layout.columns {
                    node::<V, true>(pass, leaf, at.add(column * layout.row_stride));
                }
            }
        }
    }
}

/// One pass over the node at `at`, which has `leaf` below it.
#[inline(always)]
unsafe fn node<V: Vector, const INVERSE: bool>(pass: &Pass, leaf: usize, at: *mut f64) {
    // SAFETY: promised by the caller.
    unsafe {
        let Pass { radix, points, .. } = *pass;
        let tw = pass.twiddles.add((leaf >> pass.below) * node_stride::<V>(radix));
        if INVERSE {
            passes::inverse::<V>(radix, at, 2 * points, points, tw);
        } else {
            passes::forward::<V>(radix, at, 2 * points, points, tw);
        }
    }
}
