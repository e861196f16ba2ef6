//! Exact products in `Z_q[X]/(X^N + 1)` of a polynomial with small signed coefficients and any other: the definition
//! that faster products are compared with.
//!
//! Modulo p one number-theoretic transform does it. Modulo 2^64 the second factor is cut into pieces of w bits,
//! a = Σ_i 2^(wi)·a_i. For |d| <= D a coefficient of d·a_i is an integer of absolute value at most N·D·(2^w − 1). The largest
//! w for which that is below p/2 makes it known from its residue modulo p, and the pieces are added up modulo 2^64. For
//! N <= 2^16 and D <= 2^31 that is w >= 16. Cost: one transform of N, and two for each piece.

use super::ntt::NttPlan;
use super::simd::Level;
use super::{Modulus, modulus};
use crate::{Error, Result};

/// The largest absolute value of a coefficient of the small factor.
pub const MAX_SMALL: u64 = 1 << 31;

/// `sum ← sum + small·a`, all of N coefficients, `sum` and `a` reduced modulo q.
///
/// # Errors
/// `BadInput` when N is not a power of two in 16 ..= 65536, when the lengths differ or when a coefficient of `small`
/// exceeds [`MAX_SMALL`] in absolute value.
pub fn multiply_add(modulus: Modulus, sum: &mut [u64], small: &[i64], a: &[u64]) -> Result<()> {
    let plan = NttPlan::get(sum.len())?;
    check(sum.len(), small, a)?;
    let mut values: Vec<u64> = small.iter().map(|&d| Modulus::Goldilocks.from_signed(d)).collect();
    plan.forward(Level::best(), &mut values);
    let product = |mut b: Vec<u64>| {
        plan.forward(Level::best(), &mut b);
        plan.multiply(Level::best(), &mut b, &values);
        plan.inverse(Level::best(), &mut b);
        b
    };
    match modulus {
        Modulus::Goldilocks => {
            for (sum, x) in sum.iter_mut().zip(product(a.to_vec())) {
                *sum = modulus.add(*sum, x);
            }
        }
        Modulus::Native => {
            let width = piece(small);
            for shift in (0..64).step_by(width as usize) {
                let piece = a.iter().map(|&a| (a >> shift) & ((1 << width) - 1)).collect();
                for (sum, x) in sum.iter_mut().zip(product(piece)) {
                    let integer = Modulus::Goldilocks.to_signed(x);
                    *sum = sum.wrapping_add((integer as u64) << shift);
                }
            }
        }
    }
    Ok(())
}

/// Bits of a piece: products of `small` and a polynomial of so many bits are known from their residues modulo p.
fn piece(small: &[i64]) -> u32 {
    let largest = small.iter().fold(1, |most, d| d.unsigned_abs().max(most));
    let terms = small.len() as u128 * u128::from(largest);
    (u128::from(modulus::GOLDILOCKS / 2) / terms + 1).ilog2()
}

/// `sum ← sum + small·a` by the N² products of the definition: X^i·X^j = −X^(i+j−N) when i + j >= N. Any lengths that are
/// equal, any coefficients; `sum` and `a` reduced.
pub fn schoolbook_add(modulus: Modulus, sum: &mut [u64], small: &[i64], a: &[u64]) {
    assert!(small.len() == sum.len() && a.len() == sum.len(), "equal lengths");
    for (i, &d) in small.iter().enumerate() {
        let d = modulus.from_signed(d);
        let (wrapped, straight) = sum.split_at_mut(i);
        let (low, high) = a.split_at(straight.len());
        for (sum, &a) in straight.iter_mut().zip(low) {
            *sum = modulus.add(*sum, modulus.mul(d, a));
        }
        for (sum, &a) in wrapped.iter_mut().zip(high) {
            *sum = modulus.sub(*sum, modulus.mul(d, a));
        }
    }
}

fn check(size: usize, small: &[i64], a: &[u64]) -> Result<()> {
    const OP: &str = "exact product";
    if small.len() != size || a.len() != size {
        let got = format!("{}, {} and {size}", small.len(), a.len());
        return Err(Error::bad_input(
            OP,
            "three polynomials of equal size",
            got,
            "check the lengths",
        ));
    }
    match small.iter().find(|d| d.unsigned_abs() > MAX_SMALL) {
        None => Ok(()),
        Some(d) => Err(Error::bad_input(
            OP,
            "digits of absolute value at most 2^31",
            format!("a digit of {} bits", 64 - d.unsigned_abs().leading_zeros()),
            "use a gadget of base 2^32 or less",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOTH: [Modulus; 2] = [Modulus::Native, Modulus::Goldilocks];

    #[test]
    fn schoolbook_by_hand() {
        // (1 − 2X)·(3 + 5·X³) = 3 − 6X + 5X³ + 10 modulo X⁴ + 1.
        for q in BOTH {
            let mut sum = [1, 0, 0, 0];
            schoolbook_add(q, &mut sum, &[1, -2, 0, 0], &[3, 0, 0, 5]);
            assert_eq!(sum, [14, q.from_signed(-6), 0, 5]);
        }
    }

    #[test]
    fn worst_case_is_exact() {
        for size in [16usize, 2048, 65536] {
            // Digits around the powers of two, where pieces become narrower.
            let digits =
                [1i64, 2, 3, 255, 256, 257, (1 << 23) - 1, 1 << 23, (1 << 31) - 1, 1 << 31];
            let signed = digits.into_iter().flat_map(|d| [(d, u64::MAX), (-d, u64::MAX)]);
            for (d, a) in signed.chain([(1 << 31, 0xFFFF)]) {
                let mut sum = vec![0; size];
                multiply_add(Modulus::Native, &mut sum, &vec![d; size], &vec![a; size]).unwrap();
                // Coefficient k collects k + 1 products with + and N − 1 − k with −.
                for k in [0, 1, size / 2, size - 1] {
                    let terms = (2 * k as u64 + 2).wrapping_sub(size as u64);
                    let expected = (d as u64).wrapping_mul(a).wrapping_mul(terms);
                    assert_eq!(sum[k], expected, "N = {size}, X^{k}");
                }
            }
        }
    }

    #[test]
    fn refusals() {
        let mut sum = vec![0; 16];
        let mut refused = |small: &[i64], a: &[u64]| {
            let result = multiply_add(Modulus::Native, &mut sum, small, a);
            assert_eq!(result.unwrap_err().kind(), "bad_input");
        };
        refused(&[0; 8], &[0; 16]);
        refused(&[0; 16], &[0; 17]);
        refused(&[(1 << 31) + 1; 16], &[0; 16]);
        refused(&[i64::MIN; 16], &[0; 16]);
        let result = multiply_add(Modulus::Native, &mut [0; 24], &[0; 24], &[0; 24]);
        assert_eq!(result.unwrap_err().kind(), "bad_input");
    }

    fn factors(size: usize) -> impl Strategy<Value = (Vec<i64>, Vec<u64>)> {
        let digit =
            prop_oneof![-(1i64 << 31)..=1 << 31, Just(1 << 31), Just(-(1 << 31)), -4i64..=4];
        let word = prop_oneof![any::<u64>(), Just(u64::MAX), Just(0), Just(1 << 63)];
        (prop::collection::vec(digit, size), prop::collection::vec(word, size))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn fast_is_schoolbook((small, a) in prop_oneof![factors(16), factors(64), factors(256), factors(1024)]) {
            for q in BOTH {
                let a: Vec<u64> = a.iter().map(|&x| q.reduce(x)).collect();
                let (mut fast, mut slow) = (a.clone(), a.clone());
                multiply_add(q, &mut fast, &small, &a).unwrap();
                schoolbook_add(q, &mut slow, &small, &a);
                prop_assert_eq!(fast, slow);
            }
        }
    }
}
