//! The passes of the transform, generic over [`Lanes`].
//!
//! A *node* of the tree is a ring of polynomials modulo X^S − c with its S coefficients in place; a pass splits it into eight of
//! S/8. Where c is a power of two (the first layers) all twiddles are shifts, known at compile time. Else one product
//! x_j·w^j, w^8 = c', turns the node into X^8 − 1, whose twiddles are again shifts: 7/8 of a product for three layers.

use super::lanes::Lanes;
use super::{NttPlan, Pass};

/// Splits Y^8 − 2^e, where `low` holds x_0..x_3 (words) and `high` holds x_4..x_7 already times 2^(e/2) (residues), into
/// its eight roots, in the order of the binary tree: words.
#[inline(always)]
fn split8<V: Lanes>(low: [V; 4], high: [V; 4], e: u32) -> [V; 8] {
    let ((a0, a4), (a1, a5)) = (low[0].butterfly(high[0]), low[1].butterfly(high[1]));
    let ((a2, a6), (a3, a7)) = (low[2].butterfly(high[2]), low[3].butterfly(high[3]));
    let (b0, b2) = a0.butterfly(a2.times_two_to(e / 4));
    let (b1, b3) = a1.butterfly(a3.times_two_to(e / 4));
    let (b4, b6) = a4.butterfly(a6.times_two_to(e / 4 + 48));
    let (b5, b7) = a5.butterfly(a7.times_two_to(e / 4 + 48));
    let (c0, c1) = b0.butterfly(b1.times_two_to(e / 8));
    let (c2, c3) = b2.butterfly(b3.times_two_to(e / 8 + 48));
    let (c4, c5) = b4.butterfly(b5.times_two_to(e / 8 + 24));
    let (c6, c7) = b6.butterfly(b7.times_two_to(e / 8 + 72));
    [c0, c1, c2, c3, c4, c5, c6, c7]
}

/// One butterfly of the way back: (a + b, (a − b)·2^−e), of a word and a residue: two words.
#[inline(always)]
fn merge2<V: Lanes>(a: V, b: V, e: u32) -> (V, V) {
    let (sum, difference) = a.butterfly(b);
    (sum, if e == 0 { difference } else { difference.over_two_to(e) })
}

/// The inverse of [`split8`], times 8: from residues to words, the last four still to be divided by 2^(e/2).
#[inline(always)]
fn merge8<V: Lanes>(c: [V; 8], e: u32) -> [V; 8] {
    let (b0, b1) = merge2(c[0], c[1], e / 8);
    let (b2, b3) = merge2(c[2], c[3], e / 8 + 48);
    let (b4, b5) = merge2(c[4], c[5], e / 8 + 24);
    let (b6, b7) = merge2(c[6], c[7], e / 8 + 72);
    let (a0, a2) = merge2(b0, b2.reduce(), e / 4);
    let (a1, a3) = merge2(b1, b3, e / 4);
    let (a4, a6) = merge2(b4, b6.reduce(), e / 4 + 48);
    let (a5, a7) = merge2(b5, b7, e / 4 + 48);
    let ((x0, x4), (x1, x5)) = (a0.butterfly(a4.reduce()), a1.butterfly(a5.reduce()));
    let ((x2, x6), (x3, x7)) = (a2.butterfly(a6), a3.butterfly(a7));
    [x0, x1, x2, x3, x4, x5, x6, x7]
}

/// Eight vectors, `stride` words apart.
///
/// # Safety
/// As [`Lanes::load`] for each.
#[inline(always)]
unsafe fn load8<V: Lanes>(from: *const u64, stride: usize) -> [V; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut x = [V::load(from); 8];
        for (j, x) in x.iter_mut().enumerate().skip(1) {
            *x = V::load(from.add(j * stride));
        }
        x
    }
}

/// Writes eight vectors, `stride` words apart.
///
/// # Safety
/// As [`Lanes::store`] for each.
#[inline(always)]
unsafe fn store8<V: Lanes>(x: [V; 8], to: *mut u64, stride: usize) {
    for (j, x) in x.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { x.store(to.add(j * stride)) }
    }
}

/// A first pass of one layer, X^S + 1 into X^(S/2) ∓ 2^48, or of two, into X^(S/4) − 2^24, 2^120, 2^72, 2^168.
#[inline(always)]
fn split_root<V: Lanes>(data: &mut [u64], layers: u32) {
    let stride = data.len() >> layers;
    let data = data.as_mut_ptr();
    for c in (0..stride).step_by(V::LANES) {
        // SAFETY: `stride` is a multiple of LANES, so that every vector lies within its part of `data`.
        unsafe {
            let at = data.add(c);
            if layers == 1 {
                let (a, b) = V::load(at).butterfly(V::load(at.add(stride)).times_two_to(48));
                a.store(at);
                b.store(at.add(stride));
            } else {
                let (x0, x1) = (V::load(at), V::load(at.add(stride)));
                let (x2, x3) = (V::load(at.add(2 * stride)), V::load(at.add(3 * stride)));
                let (a0, a2) = x0.butterfly(x2.times_two_to(48));
                let (a1, a3) = x1.butterfly(x3.times_two_to(48));
                let (b0, b1) = a0.butterfly(a1.times_two_to(24));
                let (b2, b3) = a2.butterfly(a3.times_two_to(72));
                b0.store(at);
                b1.store(at.add(stride));
                b2.store(at.add(2 * stride));
                b3.store(at.add(3 * stride));
            }
        }
    }
}

/// The inverse of [`split_root`], from residues, divided by 2^`scale`: reduced.
#[inline(always)]
fn merge_root<V: Lanes>(data: &mut [u64], layers: u32, scale: u32) {
    let stride = data.len() >> layers;
    let data = data.as_mut_ptr();
    for c in (0..stride).step_by(V::LANES) {
        // SAFETY: `stride` is a multiple of LANES, so that every vector lies within its part of `data`.
        unsafe {
            let at = data.add(c);
            if layers == 1 {
                let (a, b) = merge2(V::load(at), V::load(at.add(stride)), 48);
                a.halve(scale).store(at);
                b.halve(scale).store(at.add(stride));
            } else {
                let (b0, b1) = (V::load(at), V::load(at.add(stride)));
                let (b2, b3) = (V::load(at.add(2 * stride)), V::load(at.add(3 * stride)));
                let ((a0, a1), (a2, a3)) = (merge2(b0, b1, 24), merge2(b2, b3, 72));
                let ((x0, x2), (x1, x3)) = (merge2(a0, a2.reduce(), 48), merge2(a1, a3, 48));
                x0.halve(scale).store(at);
                x1.halve(scale).store(at.add(stride));
                x2.halve(scale).store(at.add(2 * stride));
                x3.halve(scale).store(at.add(3 * stride));
            }
        }
    }
}

/// Splits the node X^S − 2^e into eight.
#[inline(always)]
fn split_power_of_two<V: Lanes>(node: &mut [u64], e: u32) {
    let stride = node.len() / 8;
    let node = node.as_mut_ptr();
    for c in (0..stride).step_by(V::LANES) {
        // SAFETY: `stride` is a multiple of LANES, so that every vector lies within its eighth of `node`.
        unsafe {
            let [x0, x1, x2, x3, x4, x5, x6, x7] = load8::<V>(node.add(c), stride);
            let (x4, x5) = (x4.times_two_to(e / 2), x5.times_two_to(e / 2));
            let (x6, x7) = (x6.times_two_to(e / 2), x7.times_two_to(e / 2));
            store8(split8([x0, x1, x2, x3], [x4, x5, x6, x7], e), node.add(c), stride);
        }
    }
}

/// The inverse of [`split_power_of_two`], from residues to residues, divided by 8 or, when not 0, by 2^`scale`.
#[inline(always)]
fn merge_power_of_two<V: Lanes>(node: &mut [u64], e: u32, scale: u32) {
    let stride = node.len() / 8;
    let node = node.as_mut_ptr();
    for c in (0..stride).step_by(V::LANES) {
        // SAFETY: `stride` is a multiple of LANES, so that every vector lies within its eighth of `node`.
        unsafe {
            let mut x = merge8(load8::<V>(node.add(c), stride), e);
            for high in &mut x[4..] {
                *high = high.over_two_to(e / 2);
            }
            for x in &mut x {
                *x = if scale == 0 { x.reduce() } else { x.halve(scale) };
            }
            store8(x, node.add(c), stride);
        }
    }
}

/// Splits node `index` of a pass into eight: words.
#[inline(always)]
fn split_node<V: Lanes>(node: &mut [u64], pass: &Pass, index: usize) {
    let stride = node.len() / 8;
    let node = node.as_mut_ptr();
    let mut w = [V::splat(0); 7];
    for (w, row) in w.iter_mut().zip(pass.forward.chunks_exact(pass.nodes)) {
        *w = V::splat(row[index]);
    }
    for c in (0..stride).step_by(V::LANES) {
        // SAFETY: `stride` is a multiple of LANES, so that every vector lies within its eighth of `node`.
        unsafe {
            let x = load8::<V>(node.add(c), stride);
            store8(twist_and_split(x, w), node.add(c), stride);
        }
    }
}

/// The inverse of [`split_node`], times 8, from residues to residues.
#[inline(always)]
fn merge_node<V: Lanes>(node: &mut [u64], pass: &Pass, index: usize) {
    let stride = node.len() / 8;
    let node = node.as_mut_ptr();
    let mut w = [V::splat(0); 7];
    for (w, row) in w.iter_mut().zip(pass.inverse.chunks_exact(pass.nodes)) {
        *w = V::splat(row[index]);
    }
    for c in (0..stride).step_by(V::LANES) {
        // SAFETY: `stride` is a multiple of LANES, so that every vector lies within its eighth of `node`.
        unsafe {
            let x = load8::<V>(node.add(c), stride);
            store8(merge_and_twist(x, w), node.add(c), stride);
        }
    }
}

/// x_j ← x_j·w^j, then the split of Y^8 − 1.
#[inline(always)]
fn twist_and_split<V: Lanes>(mut x: [V; 8], w: [V; 7]) -> [V; 8] {
    for j in 1..8 {
        x[j] = x[j].mul_montgomery(w[j - 1]);
    }
    split8([x[0], x[1], x[2], x[3]], [x[4], x[5], x[6], x[7]], 0)
}

/// The inverse of [`twist_and_split`], times 8, for w inverse: residues.
#[inline(always)]
fn merge_and_twist<V: Lanes>(x: [V; 8], w: [V; 7]) -> [V; 8] {
    let mut x = merge8(x, 0);
    x[0] = x[0].reduce();
    for j in 1..8 {
        x[j] = x[j].mul_montgomery(w[j - 1]);
    }
    x
}

/// Splits the eight nodes 8·`index`.. of the last pass, eight words each, lanes being nodes: reduced, and left
/// transposed.
#[inline(always)]
fn split_tile<V: Lanes>(tile: &mut [u64], pass: &Pass, index: usize) {
    assert!(
        tile.len() == 64 && pass.forward.len() == 7 * pass.nodes && 8 * index + 8 <= pass.nodes
    );
    let mut t = [0u64; 64];
    // SAFETY: both are 64 words; vectors begin at multiples of LANES in rows of eight words.
    unsafe { V::transpose(tile.as_ptr(), t.as_mut_ptr()) };
    for c in (0..8).step_by(V::LANES) {
        // SAFETY: as above; row j − 1 of the twiddles holds `nodes` >= 8·index + 8 words.
        unsafe {
            let mut w = [V::splat(0); 7];
            for (j, w) in w.iter_mut().enumerate() {
                *w = V::load(pass.forward.as_ptr().add(j * pass.nodes + 8 * index + c));
            }
            let mut y = twist_and_split(load8::<V>(t.as_ptr().add(c), 8), w);
            for y in &mut y {
                *y = y.reduce();
            }
            store8(y, tile.as_mut_ptr().add(c), 8);
        }
    }
}

/// The inverse of [`split_tile`], times 8: residues.
#[inline(always)]
fn merge_tile<V: Lanes>(tile: &mut [u64], pass: &Pass, index: usize) {
    assert!(
        tile.len() == 64 && pass.inverse.len() == 7 * pass.nodes && 8 * index + 8 <= pass.nodes
    );
    let mut t = [0u64; 64];
    for c in (0..8).step_by(V::LANES) {
        // SAFETY: 64 words; vectors begin at multiples of LANES in rows of eight words; row j − 1 of the twiddles holds
        // `nodes` >= 8·index + 8 words.
        unsafe {
            let mut w = [V::splat(0); 7];
            for (j, w) in w.iter_mut().enumerate() {
                *w = V::load(pass.inverse.as_ptr().add(j * pass.nodes + 8 * index + c));
            }
            let x = merge_and_twist(load8::<V>(tile.as_ptr().add(c), 8), w);
            store8(x, t.as_mut_ptr().add(c), 8);
        }
    }
    // SAFETY: both are 64 words.
    unsafe { V::transpose(t.as_ptr(), tile.as_mut_ptr()) };
}

/// The transform of `data`, N words: reduced.
#[inline(always)]
pub(super) fn forward<V: Lanes>(plan: &NttPlan, data: &mut [u64]) {
    assert!(data.len() == plan.size && (V::LANES == 1 || plan.size >= NttPlan::SMALLEST_TILED));
    match plan.top {
        1 | 2 => split_root::<V>(data, plan.top),
        3 => split_power_of_two::<V>(data, 96),
        4 => {
            split_root::<V>(data, 1);
            let (a, b) = data.split_at_mut(plan.size / 2);
            split_power_of_two::<V>(a, 48);
            split_power_of_two::<V>(b, 144);
        }
        _ => {
            split_root::<V>(data, 2);
            let (ab, cd) = data.split_at_mut(plan.size / 2);
            let ((a, b), (c, d)) = (ab.split_at_mut(plan.size / 4), cd.split_at_mut(plan.size / 4));
            split_power_of_two::<V>(a, 24);
            split_power_of_two::<V>(b, 120);
            split_power_of_two::<V>(c, 72);
            split_power_of_two::<V>(d, 168);
        }
    }
    // Node by node, so that what follows stays in the first-level cache.
    let part = plan.size >> plan.top;
    for (i, part_data) in data.chunks_exact_mut(part).enumerate() {
        for pass in &plan.passes {
            let node = plan.size / pass.nodes;
            let first = i * (part / node);
            if node == 8 && plan.size >= NttPlan::SMALLEST_TILED {
                for (b, tile) in part_data.chunks_exact_mut(64).enumerate() {
                    split_tile::<V>(tile, pass, first / 8 + b);
                }
            } else {
                for (b, node) in part_data.chunks_exact_mut(node).enumerate() {
                    split_node::<V>(node, pass, first + b);
                }
            }
        }
    }
    if plan.size < NttPlan::SMALLEST_TILED {
        for x in data {
            *x = x.reduce();
        }
    }
}

/// The inverse of [`forward`], from residues: reduced.
#[inline(always)]
pub(super) fn inverse<V: Lanes>(plan: &NttPlan, data: &mut [u64]) {
    assert!(data.len() == plan.size && (V::LANES == 1 || plan.size >= NttPlan::SMALLEST_TILED));
    let part = plan.size >> plan.top;
    for (i, part_data) in data.chunks_exact_mut(part).enumerate() {
        for pass in plan.passes.iter().rev() {
            let node = plan.size / pass.nodes;
            let first = i * (part / node);
            if node == 8 && plan.size >= NttPlan::SMALLEST_TILED {
                for (b, tile) in part_data.chunks_exact_mut(64).enumerate() {
                    merge_tile::<V>(tile, pass, first / 8 + b);
                }
            } else {
                for (b, node) in part_data.chunks_exact_mut(node).enumerate() {
                    merge_node::<V>(node, pass, first + b);
                }
            }
        }
    }
    let scale = plan.size.trailing_zeros();
    match plan.top {
        1 | 2 => merge_root::<V>(data, plan.top, scale),
        3 => merge_power_of_two::<V>(data, 96, scale),
        4 => {
            let (a, b) = data.split_at_mut(plan.size / 2);
            merge_power_of_two::<V>(a, 48, 0);
            merge_power_of_two::<V>(b, 144, 0);
            merge_root::<V>(data, 1, scale);
        }
        _ => {
            let (ab, cd) = data.split_at_mut(plan.size / 2);
            let ((a, b), (c, d)) = (ab.split_at_mut(plan.size / 4), cd.split_at_mut(plan.size / 4));
            merge_power_of_two::<V>(a, 24, 0);
            merge_power_of_two::<V>(b, 120, 0);
            merge_power_of_two::<V>(c, 72, 0);
            merge_power_of_two::<V>(d, 168, 0);
            merge_root::<V>(data, 2, scale);
        }
    }
}

/// `a ← a·b`, value by value: reduced.
#[inline(always)]
pub(super) fn multiply<V: Lanes>(a: &mut [u64], b: &[u64]) {
    assert!(a.len() == b.len() && a.len().is_multiple_of(V::LANES));
    for c in (0..a.len()).step_by(V::LANES) {
        // SAFETY: both lengths are the same multiple of LANES.
        unsafe {
            let (high, low) = V::load(a.as_ptr().add(c)).mul_wide(V::load(b.as_ptr().add(c)));
            V::reduce_wide(high, low).store(a.as_mut_ptr().add(c));
        }
    }
}

/// `sum ← sum + a·b`, value by value: reduced.
#[inline(always)]
pub(super) fn multiply_add<V: Lanes>(sum: &mut [u64], a: &[u64], b: &[u64]) {
    assert!(sum.len() == a.len() && sum.len() == b.len() && sum.len().is_multiple_of(V::LANES));
    for c in (0..sum.len()).step_by(V::LANES) {
        // SAFETY: all three lengths are the same multiple of LANES.
        unsafe {
            let (high, low) = V::load(a.as_ptr().add(c)).mul_wide(V::load(b.as_ptr().add(c)));
            let sum = sum.as_mut_ptr().add(c);
            V::load(sum).add_mod(V::reduce_wide(high, low)).reduce().store(sum);
        }
    }
}

/// `out[i] ← Σ_r a[r·N + i]·b[r·stride + i]` modulo p, N = `out.len()`: reduced. The products are added in 128 bits,
/// the upper word modulo p, and reduced once.
#[inline(always)]
pub(super) fn dot<V: Lanes>(out: &mut [u64], a: &[u64], b: &[u64], stride: usize) {
    let size = out.len();
    let rows = a.len() / size;
    assert!(
        rows >= 1
            && a.len() == rows * size
            && b.len() >= (rows - 1) * stride + size
            && size.is_multiple_of(V::LANES)
    );
    for c in (0..size).step_by(V::LANES) {
        // SAFETY: `size` is a multiple of LANES, and every row of `a` and of `b` has `size` words.
        unsafe {
            let (mut high, mut low) =
                V::load(a.as_ptr().add(c)).mul_wide(V::load(b.as_ptr().add(c)));
            for r in 1..rows {
                let x = V::load(a.as_ptr().add(r * size + c));
                let (h, l) = x.mul_wide(V::load(b.as_ptr().add(r * stride + c)));
                low = low.add(l);
                // The upper word of a product of reduced words is at most p − 2: a carry leaves it reduced.
                high = high.add_mod(h.add_if(low.less(l), V::splat(1)));
            }
            V::reduce_wide(high, low).store(out.as_mut_ptr().add(c));
        }
    }
}
