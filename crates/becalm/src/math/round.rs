//! Operations on secret numbers without a branch on their values.
//!
//! This library is compiled for x86-64 without SSE4.1, which has no instruction that rounds. Compilers call a function instead,
//! and it branches on sign and size: the time of CKKS encryption differed by 7 % between messages.

use std::hint::black_box;

/// From this absolute value on every double is an integer.
const INTEGERS: f64 = 4_503_599_627_370_496.0;

/// The nearest integer to a finite number, ties to even.
#[inline(always)]
pub(crate) fn nearest(x: f64) -> f64 {
    // It has an instruction.
    if cfg!(target_family = "wasm") {
        return x.round_ties_even();
    }
    let magic = INTEGERS.copysign(x);
    let rounded = ((x + magic) - magic).copysign(x);
    let large = negative(INTEGERS.to_bits() - 1, x.abs().to_bits());
    f64::from_bits((x.to_bits() & large) | (rounded.to_bits() & !large))
}

/// a·b + c, rounded once.
#[inline(always)]
pub(crate) fn fused(a: f64, b: f64, c: f64) -> f64 {
    // wasm has no such instruction, and its stand-in takes a hundred steps and branches on the numbers.
    if cfg!(target_family = "wasm") { in_parts(a, b, c) } else { a.mul_add(b, c) }
}

/// a·b + c by the exact parts of the product and of the sum: exact where a double holds the result, as in products of residues.
/// Numbers are at most 2^900, and their product is no subnormal one.
/// Source: Dekker 1971, A floating-point technique for extending the available precision, §5.
#[inline(always)]
fn in_parts(a: f64, b: f64, c: f64) -> f64 {
    let halves = |x: f64| {
        let large = x * ((1 << 27) + 1) as f64;
        let high = large - (large - x);
        (high, x - high)
    };
    let (product, (ah, al), (bh, bl)) = (a * b, halves(a), halves(b));
    let below = ((ah * bh - product) + ah * bl + al * bh) + al * bl;
    let sum = product + c;
    let of_c = sum - product;
    let lost = (product - (sum - of_c)) + (c - of_c);
    sum + (lost + below)
}

/// Replaces numbers below 2^-400 by 0, which no encoding distinguishes from them. Their products may be subnormal, and processors
/// take longer for subnormal numbers.
#[inline(always)]
pub(crate) fn without_subnormals(x: f64) -> f64 {
    const LEAST: u64 = 1023 - 400;
    let tiny = negative((x.to_bits() >> 52) & 0x7FF, LEAST);
    f64::from_bits(x.to_bits() & !tiny)
}

/// x − `by` where x ≥ `by`, else x; both are below 2^63. Written as a comparison it became a branch in the loop of a decryption, which
/// then took 5 cycles more or less for each message.
#[inline(always)]
pub(crate) fn reduced_once(x: u64, by: u64) -> u64 {
    x - (by & !negative(x, by))
}

/// A mask of ones where a − b < 0, else of zeros, for a and b below 2^63. The compiler must not see where the mask comes from: it turns
/// a mask that it knows to be a comparison into a selection, and a selection in a loop into a branch.
#[inline(always)]
fn negative(a: u64, b: u64) -> u64 {
    black_box((a.wrapping_sub(b) as i64 >> 63) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_agrees_with_the_standard_library() {
        let some =
            [0.0, 0.3, 0.5, 0.5 - f64::EPSILON / 4.0, 1.5, 2.5, 1e15 + 0.5, 3e15, INTEGERS - 0.5];
        let more = [INTEGERS, INTEGERS + 1.0, 2f64.powi(60), f64::MAX, f64::MIN_POSITIVE, 5e-324];
        let mut x = 1u64;
        let mut drawn = || {
            x = x.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let exponent = 1023 - 4 + (x >> 50) % 70;
            f64::from_bits(exponent << 52 | x & ((1 << 52) - 1))
        };
        let drawn: Vec<f64> = (0..100_000).map(|_| drawn()).collect();
        for x in some.into_iter().chain(more).chain(drawn) {
            for x in [x, -x] {
                assert_eq!(nearest(x).to_bits(), x.round_ties_even().to_bits(), "{x}");
            }
        }
    }

    /// As a product of residues takes it: the low part of the product, the quotient, and the rest.
    #[test]
    fn a_product_in_parts_is_that_of_the_instruction() {
        let (mut x, p) = (1u64, 1_125_899_906_826_241.0);
        let mut residue = || {
            x = x.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (x >> 13) as f64 * 2f64.powi(-51) * p - p / 2.0
        };
        for _ in 0..100_000 {
            let (a, b) = (nearest(residue()), nearest(residue()));
            let high = a * b;
            let quotient = nearest(high / p);
            let magic = 1.5 * INTEGERS;
            for (a, b, c) in [(a, b, -high), (-quotient, p, high), (high, 1.0 / p, magic)] {
                assert_eq!(in_parts(a, b, c), a.mul_add(b, c), "{a} {b} {c}");
            }
        }
    }

    #[test]
    fn a_modulus_is_subtracted_once() {
        for by in [1, 4, 1 << 33] {
            for x in [0, by - 1, by, by + 1, 2 * by - 1, 2 * by] {
                assert_eq!(reduced_once(x, by), if x < by { x } else { x - by });
            }
        }
    }

    #[test]
    fn only_tiny_numbers_become_zero() {
        for x in [1.0, -1.0, 2f64.powi(-400), 1e100, -1e-100] {
            assert_eq!(without_subnormals(x), x);
        }
        for x in [0.0, 5e-324, -f64::MIN_POSITIVE, 2f64.powi(-401)] {
            assert_eq!(without_subnormals(x).to_bits(), 0);
        }
    }
}
