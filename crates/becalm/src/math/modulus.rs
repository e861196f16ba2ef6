//! The two moduli of the library and the torus that both stand for.
//!
//! An element `a` modulo `q` stands for the torus element `a/q` in [0, 1). CPU and GPU compute modulo 2^64, where
//! additions are free; the processor computes modulo the prime p = 2^64 − 2^32 + 1 ("Goldilocks"), where products of
//! polynomials are exact by number-theoretic transform. Elements are always reduced: `0 <= a < q`.

use serde::{Deserialize, Serialize};

/// The prime 2^64 − 2^32 + 1.
pub const GOLDILOCKS: u64 = 0xFFFF_FFFF_0000_0001;

/// What ciphertexts of a parameter set are computed modulo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Modulus {
    /// 2^64: wrapping integer arithmetic; polynomial products by f64 FFT.
    Native,
    /// p = 2^64 − 2^32 + 1: polynomial products exact by NTT.
    Goldilocks,
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
                if carry || s >= GOLDILOCKS { s.wrapping_sub(GOLDILOCKS) } else { s }
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
                if borrow { d.wrapping_add(GOLDILOCKS) } else { d }
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
            Modulus::Goldilocks => {
                if x < 0 {
                    GOLDILOCKS.wrapping_sub(x.unsigned_abs())
                } else {
                    x as u64
                }
            }
        }
    }

    /// The representative of least absolute value, in −q/2 ..= q/2.
    #[inline(always)]
    pub fn to_signed(self, a: u64) -> i64 {
        match self {
            Modulus::Native => a as i64,
            Modulus::Goldilocks => {
                if a > GOLDILOCKS / 2 {
                    a.wrapping_sub(GOLDILOCKS) as i64
                } else {
                    a as i64
                }
            }
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
            Modulus::Goldilocks => {
                if a >= GOLDILOCKS {
                    a - GOLDILOCKS
                } else {
                    a
                }
            }
        }
    }
}

/// A 128-bit product modulo p, by 2^64 ≡ 2^32 − 1 and 2^96 ≡ −1.
#[inline(always)]
pub fn reduce128(x: u128) -> u64 {
    let (lo, hi) = (x as u64, (x >> 64) as u64);
    let (hi_hi, hi_lo) = (hi >> 32, hi & 0xFFFF_FFFF);
    let (mut t, borrow) = lo.overflowing_sub(hi_hi);
    if borrow {
        t = t.wrapping_sub(0xFFFF_FFFF); // + p modulo 2^64
    }
    let (s, carry) = t.overflowing_add(hi_lo * 0xFFFF_FFFF);
    let r = if carry { s.wrapping_add(0xFFFF_FFFF) } else { s };
    if r >= GOLDILOCKS { r - GOLDILOCKS } else { r }
}
