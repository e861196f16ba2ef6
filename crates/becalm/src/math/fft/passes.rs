//! The passes of the transform over memory, and the whole transform of one polynomial.
//!
//! Data are blocked: `LANES` real parts, then `LANES` imaginary parts. A node's polynomial of `points` coefficients lies
//! in one piece except at the root, whose segments may be `stride` apart (callers pad them so that they do not fall on
//! the same cache sets).

// Iterator adaptors and their closures would not be inlined into the kernels.
#![allow(clippy::needless_range_loop)]

use super::FftPlan;
use super::butterfly::{self, Complex, Fetch};
use super::twofold::Twofold;
#[cfg(target_arch = "x86_64")]
use super::vector::{Avx2, Avx512};
use super::vector::{Portable, Vector};

/// Defines the entry of a kernel: one function per level with its instructions enabled, and the choice among them.
macro_rules! entry {
    ($(#[$doc:meta])* $name:ident => $kernel:ident($($arg:ident: $type:ty),*)) => {
        $(#[$doc])*
        pub(crate) unsafe fn $name(level: $crate::math::simd::Level, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2($($arg: $type),*) {
                // SAFETY: promised by the caller, and the instructions are enabled here.
                unsafe { $kernel::<Avx2>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
            unsafe fn avx512($($arg: $type),*) {
                // SAFETY: as above.
                unsafe { $kernel::<Avx512>($($arg),*) }
            }
            // SAFETY: promised by the caller; `Level` names instructions that the processor has.
            unsafe {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    $crate::math::simd::Level::Avx2 => avx2($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::math::simd::Level::Avx512 => avx512($($arg),*),
                    _ => $kernel::<Portable>($($arg),*),
                }
            }
        }
    };
}
pub(crate) use entry;

entry! {
    /// The transform of one folded polynomial, in place.
    /// # Safety
    /// `plan` is for `level`, `level` is available, `data` is valid for N doubles.
    forward_all => forward_kernel(plan: &FftPlan, data: *mut f64)
}

entry! {
    /// The transform of one folded polynomial in twice the precision, in place.
    /// # Safety
    /// As [`forward_all`], and the low parts follow the high ones `twofold::OFFSET` later.
    forward_twofold => forward_twofold_kernel(plan: &FftPlan, data: *mut f64)
}

entry! {
    /// The inverse transform, times N/2, of one folded polynomial, in place.
    /// # Safety
    /// As [`forward_all`].
    inverse_all => inverse_kernel(plan: &FftPlan, data: *mut f64)
}

entry! {
    /// `acc += a·b` on transforms of `len` doubles.
    /// # Safety
    /// `level` is available, `len` is a multiple of 16 and the three pointers are valid for `len` doubles.
    multiply_accumulate => multiply_accumulate_kernel(len: usize, acc: *mut f64, a: *const f64, b: *const f64)
}

/// One forward pass over a node: `radix` segments of `points` coefficients each, `stride` doubles apart, in place.
///
/// # Safety
/// `data` is valid for the segments, `tw` for the node's twiddles; `points` is a multiple of `LANES`.
#[inline(always)]
pub(crate) unsafe fn forward<V: Vector>(
    radix: usize,
    data: *mut f64,
    stride: usize,
    points: usize,
    tw: *const f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        match radix {
            2 => forward_radix::<V, 2>(data, stride, points, tw),
            4 => forward_radix::<V, 4>(data, stride, points, tw),
            _ => forward_radix::<V, 8>(data, stride, points, tw),
        }
    }
}

/// One inverse pass over a node.
///
/// # Safety
/// As [`forward`].
#[inline(always)]
pub(crate) unsafe fn inverse<V: Vector>(
    radix: usize,
    data: *mut f64,
    stride: usize,
    points: usize,
    tw: *const f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        match radix {
            2 => inverse_radix::<V, 2>(data, stride, points, tw),
            4 => inverse_radix::<V, 4>(data, stride, points, tw),
            _ => inverse_radix::<V, 8>(data, stride, points, tw),
        }
    }
}

#[inline(always)]
unsafe fn forward_radix<V: Vector, const R: usize>(
    data: *mut f64,
    stride: usize,
    points: usize,
    tw: *const f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        for j in (0..points).step_by(V::LANES) {
            let at = data.add(2 * j);
            let mut x = [Complex::<V>::zero(); R];
            for m in 0..R {
                x[m] = Complex::load(at.add(m * stride));
            }
            butterfly::forward::<V, R>(&mut x, tw);
            for m in 0..R {
                x[m].store(at.add(m * stride));
            }
        }
    }
}

#[inline(always)]
unsafe fn inverse_radix<V: Vector, const R: usize>(
    data: *mut f64,
    stride: usize,
    points: usize,
    tw: *const f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        for j in (0..points).step_by(V::LANES) {
            let at = data.add(2 * j);
            let mut x = [Complex::<V>::zero(); R];
            for m in 0..R {
                x[m] = Complex::load(at.add(m * stride));
            }
            butterfly::inverse::<V, R>(&mut x, tw);
            for m in 0..R {
                x[m].store(at.add(m * stride));
            }
        }
    }
}

/// How many doubles the twiddles of one node of `radix` take.
#[inline(always)]
pub(crate) const fn node_stride<V: Vector>(radix: usize) -> usize {
    (radix - 1) * 2 * V::COPIES
}

/// How many doubles the twiddles of one leaf take.
#[inline(always)]
pub(crate) const fn leaf_stride<V: Vector>() -> usize {
    (butterfly::leaf_head(V::LANES, V::COPIES) + (V::LANES - 1) * 2 * V::LANES).next_multiple_of(8)
}

#[inline(always)]
unsafe fn forward_kernel<V: Vector>(plan: &FftPlan, data: *mut f64) {
    // SAFETY: promised by the caller: the plan's tables are for `V`, and the nodes tile `data`.
    unsafe {
        let mut points = plan.size() / 2;
        for (depth, &radix) in plan.radices().iter().enumerate() {
            let tw = plan.twiddles(depth).as_ptr();
            let nodes = plan.size() / 2 / points;
            points /= radix;
            for node in 0..nodes {
                let at = data.add(node * 2 * points * radix);
                forward::<V>(radix, at, 2 * points, points, tw.add(node * node_stride::<V>(radix)));
            }
        }
        let tw = plan.twiddles(plan.radices().len()).as_ptr();
        for leaf in 0..plan.leaves() {
            let at = data.add(leaf * 2 * V::LANES * V::LANES);
            let y =
                butterfly::leaf_forward::<V, 0>(at, tw.add(leaf * leaf_stride::<V>()), Fetch(at));
            for m in 0..V::LANES {
                y[m].store(at.add(m * 2 * V::LANES));
            }
        }
    }
}

#[inline(always)]
unsafe fn forward_twofold_kernel<V: Vector>(plan: &FftPlan, data: *mut f64) {
    // SAFETY: promised by the caller.
    unsafe { forward_kernel::<Twofold<V>>(plan, data) }
}

#[inline(always)]
unsafe fn inverse_kernel<V: Vector>(plan: &FftPlan, data: *mut f64) {
    // SAFETY: promised by the caller: the plan's tables are for `V`, and the nodes tile `data`.
    unsafe {
        let tw = plan.twiddles(plan.radices().len()).as_ptr();
        for leaf in 0..plan.leaves() {
            let at = data.add(leaf * 2 * V::LANES * V::LANES);
            let mut y = [Complex::<V>::zero(); 8];
            for m in 0..V::LANES {
                y[m] = Complex::load(at.add(m * 2 * V::LANES));
            }
            butterfly::leaf_inverse::<V, 0>(y, at, tw.add(leaf * leaf_stride::<V>()), Fetch(at));
        }
        let mut points = V::LANES * V::LANES;
        for (depth, &radix) in plan.radices().iter().enumerate().rev() {
            let tw = plan.twiddles(depth).as_ptr();
            let nodes = plan.size() / 2 / (points * radix);
            for node in 0..nodes {
                let at = data.add(node * 2 * points * radix);
                inverse::<V>(radix, at, 2 * points, points, tw.add(node * node_stride::<V>(radix)));
            }
            points *= radix;
        }
    }
}

#[inline(always)]
unsafe fn multiply_accumulate_kernel<V: Vector>(
    len: usize,
    acc: *mut f64,
    a: *const f64,
    b: *const f64,
) {
    // SAFETY: promised by the caller.
    unsafe {
        for at in (0..len).step_by(2 * V::LANES) {
            let sum = Complex::<V>::load(a.add(at))
                .mul_acc(Complex::load(b.add(at)), Complex::load(acc.add(at)));
            sum.store(acc.add(at));
        }
    }
}
