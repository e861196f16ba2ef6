//! Negacyclic number-theoretic transform: exact products of polynomials modulo X^N + 1 and p = 2^64 − 2^32 + 1.
//!
//! Forward: the values of a polynomial at the N roots ψ^(2i+1) of X^N + 1, ψ merged into the twiddles; product: point by
//! point; inverse: back, divided by N. Words in and out are reduced, so all [`Level`]s agree bit for bit.
//! Two is a root of unity of order 192: the first layers (5 of 11 at N = 2048) and the inside of every later radix-8
//! butterfly multiply by shifts; ψ is chosen so that ψ^(N/32) = 8.
//! Order of the values: that of the binary tree (X^S − c splits into X^(S/2) − √c, then + √c), except that from N = 128
//! on each aligned block of 8×8 values is transposed. Nothing outside this module may depend on it.
//! Cost: N·(7/8·⌊(log2 N − 3)/3⌋) products modulo p. Source of the shifts: Emmart and Weems 2011.

mod kernels;
mod lanes;

use super::Modulus;
use super::simd::Level;
use crate::{Error, Result};
use std::sync::OnceLock;

/// A root of unity of order 2^32 modulo p whose 2^26-th power is 8: 7^(5·(p−1)/2^32).
const ROOT: u64 = 0xE2AF_7063_5744_FD26;

/// The tables for one N.
#[derive(Debug)]
pub struct NttPlan {
    /// N.
    size: usize,
    /// How many layers come before the passes, with powers of two as twiddles: 1 to 5.
    top: u32,
    /// Three layers each.
    passes: Vec<Pass>,
}

/// Twiddles of a pass over `nodes` nodes: row j − 1, entry b is w_b^j·2^64 modulo p, j = 1 ..= 7 (Montgomery form).
#[derive(Debug)]
struct Pass {
    nodes: usize,
    forward: Vec<u64>,
    inverse: Vec<u64>,
}

impl NttPlan {
    /// log2 of the sizes there are.
    const LOG_SIZES: std::ops::RangeInclusive<u32> = 4..=16;
    /// The smallest N whose last pass works on tiles of 8×8 words, hence with vectors.
    const SMALLEST_TILED: usize = 128;

    /// The plan for polynomials of `size` coefficients, made at the first call.
    ///
    /// # Errors
    /// `BadInput` when `size` is not a power of two in 16 ..= 65536.
    pub fn get(size: usize) -> Result<&'static NttPlan> {
        static PLANS: [OnceLock<NttPlan>; 13] = [const { OnceLock::new() }; 13];
        let log = size.trailing_zeros();
        if !size.is_power_of_two() || !Self::LOG_SIZES.contains(&log) {
            return Err(Error::bad_input(
                "number-theoretic transform",
                "a power of two in 16 ..= 65536",
                format!("{size} coefficients"),
                "choose another polynomial size",
            ));
        }
        let place = (log - Self::LOG_SIZES.start()) as usize;
        Ok(PLANS[place].get_or_init(|| NttPlan::new(size)))
    }

    fn new(size: usize) -> NttPlan {
        let log = size.trailing_zeros();
        let count = match log {
            4..=6 => 1,
            7..=8 => 2,
            _ => (log - 3) / 3,
        };
        let top = log - 3 * count;
        let passes = (0..count).map(|i| Pass::new(size, top + 3 * i)).collect();
        NttPlan { size, top, passes }
    }

    /// N.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Replaces the N coefficients in `data`, reduced or not, by their transform, reduced. Panics unless `data` has N
    /// words, as the other methods do for all their slices.
    pub fn forward(&self, level: Level, data: &mut [u64]) {
        entry::forward(self.usable(level), self, data);
    }

    /// The inverse of [`forward`](Self::forward), from reduced values to reduced coefficients.
    pub fn inverse(&self, level: Level, data: &mut [u64]) {
        entry::inverse(self.usable(level), self, data);
    }

    /// `a ← a·b`, value by value, all reduced.
    pub fn multiply(&self, level: Level, a: &mut [u64], b: &[u64]) {
        assert!(a.len() == self.size && b.len() == self.size, "N values each");
        entry::multiply(self.usable(level), a, b);
    }

    /// `sum ← sum + a·b`, value by value, all reduced.
    pub fn multiply_add(&self, level: Level, sum: &mut [u64], a: &[u64], b: &[u64]) {
        assert!(
            sum.len() == self.size && a.len() == self.size && b.len() == self.size,
            "N values each"
        );
        entry::multiply_add(self.usable(level), sum, a, b);
    }

    /// `out ← Σ_r a_r·b_r`, value by value, all reduced, where a_r is `a[r·N..][..N]` and b_r is `b[r·stride..][..N]`, for
    /// the R = `a.len()`/N >= 1 rows: one reduction for all products of a value.
    pub fn dot(&self, level: Level, out: &mut [u64], a: &[u64], b: &[u64], stride: usize) {
        assert!(out.len() == self.size, "N values");
        entry::dot(self.usable(level), out, a, b, stride);
    }

    /// The best level not above `level` that there is, and that has vectors no longer than the last pass of this N.
    fn usable(&self, level: Level) -> Level {
        if self.size < Self::SMALLEST_TILED {
            return Level::Portable;
        }
        Level::available().iter().copied().filter(|&l| l <= level).max().unwrap_or(Level::Portable)
    }
}

impl Pass {
    /// The pass over the nodes of depth `depth`.
    fn new(size: usize, depth: u32) -> Pass {
        let nodes = 1usize << depth;
        let order = 2 * size as u64;
        let psi = power(ROOT, (1 << 32) / order);
        // Node b is X^S − ψ^e; its children are X^(S/2) ∓ ψ^(e/2), and −1 = ψ^N.
        let mut exponents = vec![size as u64];
        for _ in 0..depth {
            exponents = exponents.iter().flat_map(|e| [e / 2, e / 2 + size as u64]).collect();
        }
        let table = |sign: fn(u64, u64) -> u64| {
            let mut rows = Vec::with_capacity(7 * nodes);
            for j in 1..8 {
                rows.extend(exponents.iter().map(|e| {
                    let w = power(psi, sign(e / 8 * j, order));
                    Modulus::Goldilocks.mul(w, 0xFFFF_FFFF) // 2^64
                }));
            }
            rows
        };
        let (forward, inverse) =
            (table(|e, order| e % order), table(|e, order| (order - e % order) % order));
        Pass { nodes, forward, inverse }
    }
}

/// `base^exponent` modulo p.
fn power(base: u64, mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = Modulus::Goldilocks.mul(result, square);
        }
        square = Modulus::Goldilocks.mul(square, square);
        exponent >>= 1;
    }
    result
}

/// One function for each kernel, which enters the instructions of a level.
mod entry {
    use super::kernels;
    use super::{Level, NttPlan};

    macro_rules! entries {
        ($($name:ident($($arg:ident: $type:ty),*);)*) => {$(
            /// `level` must be available.
            pub(super) fn $name(level: Level, $($arg: $type),*) {
                #[cfg(target_arch = "x86_64")]
                {
                    use super::lanes::{Avx2, Avx512};
                    #[target_feature(enable = "avx2,fma")]
                    fn avx2($($arg: $type),*) {
                        kernels::$name::<Avx2>($($arg),*)
                    }
                    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
                    fn avx512($($arg: $type),*) {
                        kernels::$name::<Avx512>($($arg),*)
                    }
                    match level {
                        Level::Portable => {}
                        // SAFETY: the level is available: the processor has its instructions.
                        Level::Avx2 => return unsafe { avx2($($arg),*) },
                        // SAFETY: the level is available: the processor has its instructions.
                        Level::Avx512 => return unsafe { avx512($($arg),*) },
                    }
                }
                #[cfg(not(target_arch = "x86_64"))]
                let _ = level;
                kernels::$name::<u64>($($arg),*)
            }
        )*};
    }
    entries! {
        forward(plan: &NttPlan, data: &mut [u64]);
        inverse(plan: &NttPlan, data: &mut [u64]);
        multiply(a: &mut [u64], b: &[u64]);
        multiply_add(sum: &mut [u64], a: &[u64], b: &[u64]);
        dot(out: &mut [u64], a: &[u64], b: &[u64], stride: usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::modulus::GOLDILOCKS;
    use proptest::prelude::*;

    const P: Modulus = Modulus::Goldilocks;

    /// A polynomial with many extreme coefficients: splitmix64, every fourth word replaced by an edge.
    fn polynomial(size: usize, seed: u64) -> Vec<u64> {
        let edges = [
            0,
            1,
            0xFFFF_FFFE,
            0xFFFF_FFFF,
            1 << 32,
            GOLDILOCKS - 1,
            GOLDILOCKS - 2,
            GOLDILOCKS / 2,
        ];
        let word = |i: u64| {
            let mut z = (seed << 20).wrapping_add(i).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        let choose = |i| {
            if word(i) >> 62 == 0 { edges[word(i) as usize % 8] } else { P.reduce(word(i)) }
        };
        (0..size as u64).map(choose).collect()
    }

    fn sizes() -> impl Iterator<Item = usize> {
        NttPlan::LOG_SIZES.map(|log| 1 << log)
    }

    #[test]
    fn the_root() {
        assert_eq!(power(ROOT, 1 << 31), GOLDILOCKS - 1);
        assert_eq!(power(ROOT, 1 << 26), 8);
    }

    /// The values, evaluated from their definition at the points that the tables claim.
    #[test]
    fn forward_evaluates_at_the_odd_powers() {
        for size in [16, 32, 64, 128, 256, 512, 1024] {
            let a = polynomial(size, 1);
            let psi = power(ROOT, (1 << 32) / (2 * size as u64));
            let evaluate = |x| a.iter().rev().fold(0, |sum, &c| P.add(P.mul(sum, x), c));
            let mut expected: Vec<u64> =
                (0..size as u64).map(|i| evaluate(power(psi, 2 * i + 1))).collect();
            let mut got = a.clone();
            NttPlan::get(size).unwrap().forward(Level::best(), &mut got);
            expected.sort_unstable();
            got.sort_unstable();
            assert_eq!(got, expected, "N = {size}");
        }
    }

    #[test]
    fn levels_agree_and_inverse_inverts() {
        for size in sizes() {
            let plan = NttPlan::get(size).unwrap();
            let a = polynomial(size, 2);
            let mut portable = a.clone();
            plan.forward(Level::Portable, &mut portable);
            for &level in Level::available() {
                let mut b = a.clone();
                plan.forward(level, &mut b);
                assert!(b == portable, "N = {size}, {level:?}");
                plan.inverse(level, &mut b);
                assert!(b == a, "N = {size}, {level:?}");
            }
        }
    }

    #[test]
    fn extremes_survive() {
        let edges =
            [0, 1, 0xFFFF_FFFF, 1 << 32, GOLDILOCKS - 1, u64::MAX, GOLDILOCKS, GOLDILOCKS + 1];
        for size in [16, 64, 128, 256, 512, 1024, 2048, 4096] {
            let plan = NttPlan::get(size).unwrap();
            for (&x, &y) in edges.iter().flat_map(|x| edges.iter().map(move |y| (x, y))) {
                // Two values in alternating runs of every length a butterfly can see.
                for run in (0..size.trailing_zeros()).map(|r| 1 << r) {
                    let a: Vec<u64> = (0..size).map(|i| if i & run == 0 { x } else { y }).collect();
                    let reduced: Vec<u64> = a.iter().map(|&x| P.reduce(x)).collect();
                    for &level in Level::available() {
                        let mut b = a.clone();
                        plan.forward(level, &mut b);
                        assert!(b.iter().all(|&x| P.is_reduced(x)));
                        plan.inverse(level, &mut b);
                        assert!(b == reduced, "N = {size}, {level:?}, {x:#x} {y:#x} run {run}");
                    }
                }
            }
        }
    }

    #[test]
    fn products_are_negacyclic() {
        for size in sizes() {
            let plan = NttPlan::get(size).unwrap();
            let a = polynomial(size, 3);
            for &level in Level::available() {
                // b = X^5 − 2·X^(N−1): two rotations.
                let mut b = vec![0; size];
                (b[5], b[size - 1]) = (1, GOLDILOCKS - 2);
                let mut c = a.clone();
                plan.forward(level, &mut b);
                plan.forward(level, &mut c);
                plan.multiply(level, &mut c, &b);
                plan.inverse(level, &mut c);
                for i in 0..size {
                    let shifted = if i >= 5 { a[i - 5] } else { P.neg(a[size + i - 5]) };
                    let back = if i + 1 < size { P.neg(a[i + 1]) } else { a[0] };
                    assert_eq!(
                        c[i],
                        P.sub(shifted, P.add(back, back)),
                        "N = {size}, {level:?}, X^{i}"
                    );
                }
            }
        }
    }

    #[test]
    fn dot_is_the_sum_of_products() {
        for size in [16, 128, 256] {
            let plan = NttPlan::get(size).unwrap();
            for rows in 1..=9 {
                let stride = 3 * size;
                let a: Vec<u64> = (0..rows).flat_map(|r| polynomial(size, r)).collect();
                let mut b: Vec<u64> =
                    (0..3 * rows).flat_map(|r| polynomial(size, 100 + r)).collect();
                b[..size / 2].fill(GOLDILOCKS - 1);
                for &level in Level::available() {
                    let (mut out, mut sum) = (vec![1; size], vec![0; size]);
                    plan.dot(level, &mut out, &a, &b, stride);
                    for r in 0..rows as usize {
                        plan.multiply_add(
                            level,
                            &mut sum,
                            &a[r * size..][..size],
                            &b[r * stride..][..size],
                        );
                    }
                    assert_eq!(out, sum, "N = {size}, {rows} rows, {level:?}");
                    let by_hand = (0..rows as usize)
                        .fold(0, |s, r| P.add(s, P.mul(a[r * size + 1], b[r * stride + 1])));
                    assert_eq!(out[1], by_hand);
                }
            }
        }
    }

    #[test]
    fn wrong_sizes_are_refused() {
        for size in [0, 1, 8, 17, 2047, 1 << 17, usize::MAX] {
            assert_eq!(NttPlan::get(size).unwrap_err().kind(), "bad_input", "{size}");
        }
    }

    proptest! {
        #[test]
        fn random_round_trips(a in prop::collection::vec(any::<u64>(), 256)) {
            let plan = NttPlan::get(256).unwrap();
            for &level in Level::available() {
                let mut b = a.clone();
                plan.forward(level, &mut b);
                plan.inverse(level, &mut b);
                prop_assert!(b.iter().zip(&a).all(|(&x, &y)| x == P.reduce(y)));
            }
        }
    }
}
