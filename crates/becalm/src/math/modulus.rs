//! The two moduli of the library and the torus that both stand for.
//!
//! An element `a` modulo `q` stands for the torus element `a/q` in [0, 1). CPU and GPU compute modulo 2^64, where
//! additions are free; the processor computes modulo the prime p = 2^64 − 2^32 + 1 ("Goldilocks"), where products of
//! polynomials are exact by number-theoretic transform. Elements are always reduced: `0 <= a < q`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The prime 2^64 − 2^32 + 1.
pub const GOLDILOCKS: u64 = 0xFFFF_FFFF_0000_0001;

/// The modulus of the ciphertexts of a parameter set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Modulus {
    /// 2^64: wrapping integer arithmetic; polynomial products by f64 FFT.
    Native,
    /// p = 2^64 − 2^32 + 1: polynomial products exact by NTT.
    Goldilocks,
}

impl fmt::Display for Modulus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Modulus::Native => "2^64",
            Modulus::Goldilocks => "p",
        })
    }
}

impl Modulus {
    /// log2 of the modulus (64 for both, to within 2^-32).
    pub const LOG2: u32 = 64;

    /// `a + b`.
    #[inline(always)]
    pub fn add(self, a: u64, b: u64) -> u64 {
        match self {
            Modulus::Native => a.wrapping_add(b),
            Modulus::Goldilocks => {
                let (s, carry) = a.overflowing_add(b);
                s.wrapping_sub(GOLDILOCKS & mask(carry | (s >= GOLDILOCKS)))
            }
        }
    }

    /// `a − b`.
    #[inline(always)]
    pub fn sub(self, a: u64, b: u64) -> u64 {
        match self {
            Modulus::Native => a.wrapping_sub(b),
            Modulus::Goldilocks => {
                let (d, borrow) = a.overflowing_sub(b);
                d.wrapping_add(GOLDILOCKS & mask(borrow))
            }
        }
    }

    /// `−a`.
    #[inline(always)]
    pub fn neg(self, a: u64) -> u64 {
        self.sub(0, a)
    }

    /// `a · b`.
    #[inline(always)]
    pub fn mul(self, a: u64, b: u64) -> u64 {
        match self {
            Modulus::Native => a.wrapping_mul(b),
            Modulus::Goldilocks => reduce128(a as u128 * b as u128),
        }
    }

    /// The residue of a signed integer.
    #[inline(always)]
    pub fn from_signed(self, x: i64) -> u64 {
        match self {
            Modulus::Native => x as u64,
            // |x| <= 2^63 < p, so one addition of p suffices.
            Modulus::Goldilocks => (x as u64).wrapping_add(GOLDILOCKS & mask(x < 0)),
        }
    }

    /// The representative of least absolute value, in −q/2 ..= q/2.
    #[inline(always)]
    pub fn to_signed(self, a: u64) -> i64 {
        match self {
            Modulus::Native => a as i64,
            Modulus::Goldilocks => a.wrapping_sub(GOLDILOCKS & mask(a > GOLDILOCKS / 2)) as i64,
        }
    }

    /// `a·2^64/q` to within two units: the same torus element on the 2^64 grid. The identity modulo 2^64; modulo p one
    /// shift and one addition, because 2^64/p = 1 + 2^-32 to within 2^-63. Never overflows.
    #[inline(always)]
    pub fn to_torus(self, a: u64) -> u64 {
        match self {
            Modulus::Native => a,
            Modulus::Goldilocks => a + (a >> 32),
        }
    }

    /// The integer nearest to `num·q/den`, reduced: how messages are placed on the torus. `den` must not be 0.
    #[inline]
    pub fn fraction(self, num: u64, den: u64) -> u64 {
        let q = match self {
            Modulus::Native => 1u128 << 64,
            Modulus::Goldilocks => GOLDILOCKS as u128,
        };
        let (den, num) = (den as u128, (num % den) as u128);
        // num < den < 2^64, so num·q + den/2 < 2^128.
        let x = (num * q + den / 2) / den;
        if x >= q { (x - q) as u64 } else { x as u64 }
    }

    /// `q·2^64/den`, rounded down: multiples of it are [`fraction`](Self::fraction)s without a division, whose time could
    /// tell a secret numerator. `den` must not be 0.
    #[inline]
    pub fn step(self, den: u64) -> u128 {
        match self {
            Modulus::Native => u128::MAX / den as u128,
            Modulus::Goldilocks => ((GOLDILOCKS as u128) << 64) / den as u128,
        }
    }

    /// `num·q/den` to the nearest integer, `step` being [`step`](Self::step) of `den`, for `num < den <= 2^33`. Differs
    /// from [`fraction`](Self::fraction) by one unit at most.
    #[inline(always)]
    pub fn multiple(self, step: u128, num: u64) -> u64 {
        ((step * num as u128 + (1 << 63)) >> 64) as u64
    }

    /// True when `a` is a reduced element.
    #[inline(always)]
    pub fn is_reduced(self, a: u64) -> bool {
        self == Modulus::Native || a < GOLDILOCKS
    }

    /// Reduces an arbitrary word.
    #[inline(always)]
    pub fn reduce(self, a: u64) -> u64 {
        match self {
            Modulus::Native => a,
            Modulus::Goldilocks => a.wrapping_sub(GOLDILOCKS & mask(a >= GOLDILOCKS)),
        }
    }
}

/// All ones if true: corrections by masks, because operands may be secret and branches can be timed.
#[inline(always)]
fn mask(yes: bool) -> u64 {
    0u64.wrapping_sub(yes as u64)
}

/// A 128-bit product modulo p, by 2^64 ≡ 2^32 − 1 and 2^96 ≡ −1.
#[inline(always)]
pub fn reduce128(x: u128) -> u64 {
    let (lo, hi) = (x as u64, (x >> 64) as u64);
    let (hi_hi, hi_lo) = (hi >> 32, hi & 0xFFFF_FFFF);
    let (mut t, borrow) = lo.overflowing_sub(hi_hi);
    t = t.wrapping_sub(0xFFFF_FFFF & mask(borrow)); // + p modulo 2^64
    let (s, carry) = t.overflowing_add(hi_lo * 0xFFFF_FFFF);
    let r = s.wrapping_add(0xFFFF_FFFF & mask(carry));
    r.wrapping_sub(GOLDILOCKS & mask(r >= GOLDILOCKS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn residue() -> impl Strategy<Value = u64> {
        let edges =
            [0, 1, GOLDILOCKS / 2, GOLDILOCKS / 2 + 1, GOLDILOCKS - 1, 0xFFFF_FFFF, 1 << 32];
        prop_oneof![proptest::sample::select(edges.to_vec()), 0..GOLDILOCKS]
    }

    proptest! {
        #[test]
        fn arithmetic_modulo_p_is_that_of_wide_integers(a in residue(), b in residue()) {
            let (q, p) = (Modulus::Goldilocks, GOLDILOCKS as u128);
            let (x, y) = (a as u128, b as u128);
            prop_assert_eq!(q.add(a, b) as u128, (x + y) % p);
            prop_assert_eq!(q.sub(a, b) as u128, (x + p - y) % p);
            prop_assert_eq!(q.mul(a, b) as u128, x * y % p);
            prop_assert_eq!(q.from_signed(q.to_signed(a)), a);
            prop_assert_eq!(q.from_signed(a as i64) as i128, (a as i64 as i128).rem_euclid(p as i128));
        }

        #[test]
        fn multiples_are_fractions(den in 1u64..1 << 33, pick: u64, p: bool) {
            let q = if p { Modulus::Goldilocks } else { Modulus::Native };
            let num = pick % den;
            let difference = q.sub(q.multiple(q.step(den), num), q.fraction(num, den));
            prop_assert!(q.to_signed(difference).abs() <= 1);
        }

        #[test]
        fn lifting_errs_by_two_units_at_most(a in residue()) {
            let exact = ((a as u128) << 64) / GOLDILOCKS as u128;
            prop_assert!((Modulus::Goldilocks.to_torus(a) as i128 - exact as i128).abs() <= 2);
        }
    }
}
