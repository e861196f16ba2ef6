//! Signed gadget decomposition: a ≈ Σ_l d_l·q/B^l with small digits, the reason why key switching and external
//! products add little noise.
//!
//! The representative c of least absolute value is rounded to the nearest multiple of 2^(64−βℓ) (β = log2 B; a half
//! goes up) and the quotient r is written in balanced digits from the least significant one, d in [−B/2, B/2); the most
//! significant digit takes what remains and may be +B/2. Invariant: |c − Σ_l d_l·2^(64−βl)| <= 2^(63−βℓ), for both
//! moduli, because q/B^l stands for 2^(64−βl) in both. Cost: three operations a digit. Source: Chillotti et al. 2020,
//! "TFHE", Alg. 1, with rounding instead of truncation.

use crate::math::Modulus;
use serde::{Deserialize, Serialize};

/// A gadget: digits of `base_log` bits, `level` of them, from the most significant end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gadget {
    /// log2 of the base B.
    pub base_log: u32,
    /// Number of digits ℓ.
    pub level: u32,
}

impl Gadget {
    /// The factor of digit `l`, q/B^l = 2^(64 − `base_log`·l), for l = 1 (most significant) ..= `level`.
    #[inline(always)]
    pub fn scale(self, l: u32) -> u64 {
        debug_assert!((1..=self.level).contains(&l));
        1 << (64 - self.base_log * l)
    }

    /// True when digits exist: 1 <= `base_log`, 1 <= `level`, `base_log`·`level` <= 63.
    pub fn is_valid(self) -> bool {
        let bits = self.base_log as u64 * self.level as u64;
        (1..=63).contains(&bits)
    }

    /// log2 of the unit of the last digit: 64 − `base_log`·`level`.
    #[inline(always)]
    fn dropped_bits(self) -> u32 {
        64 - self.base_log * self.level
    }
}

/// The integer nearest to c/2^(64−βℓ), c being the representative of `a` of least absolute value; in
/// −2^(βℓ−1) ..= 2^(βℓ−1).
#[inline(always)]
pub fn round(modulus: Modulus, gadget: Gadget, a: u64) -> i64 {
    let (c, dropped) = (modulus.to_signed(a), gadget.dropped_bits());
    // floor(c/2^s + 1/2) without the sum c + 2^(s−1), which could overflow.
    (c >> dropped) + ((c >> (dropped - 1)) & 1)
}

/// Takes the least significant balanced digit, in [−B/2, B/2), off `rest`.
#[inline(always)]
pub fn take_digit(rest: &mut i64, base_log: u32) -> i64 {
    let unused = 64 - base_log;
    let digit = (*rest << unused) >> unused;
    *rest = (*rest >> base_log) + ((*rest >> (base_log - 1)) & 1);
    digit
}

/// The `level` digits of `a`, most significant first. `digits.len()` must be `gadget.level`.
#[inline(always)]
pub fn decompose(modulus: Modulus, gadget: Gadget, a: u64, digits: &mut [i64]) {
    assert_eq!(digits.len(), gadget.level as usize, "one place for each digit");
    let mut rest = round(modulus, gadget, a);
    if let [top, others @ ..] = digits {
        for digit in others.iter_mut().rev() {
            *digit = take_digit(&mut rest, gadget.base_log);
        }
        *top = rest;
    }
}

/// The digits of every element of `a`, level-major: `digits[(l − 1)·a.len() + i]` is digit l of `a[i]`.
/// `digits.len()` must be `gadget.level · a.len()`.
#[inline(always)]
pub fn decompose_slice(modulus: Modulus, gadget: Gadget, a: &[u64], digits: &mut [i64]) {
    assert_eq!(digits.len(), gadget.level as usize * a.len(), "one place for each digit");
    // The place of the most significant digits holds what remains.
    let (rests, others) = digits.split_at_mut(a.len());
    for (rest, &a) in rests.iter_mut().zip(a) {
        *rest = round(modulus, gadget, a);
    }
    for row in others.chunks_exact_mut(a.len().max(1)).rev() {
        for (digit, rest) in row.iter_mut().zip(rests.iter_mut()) {
            *digit = take_digit(rest, gadget.base_log);
        }
    }
}

/// Σ_l d_l·q/B^l: the value of `digits`, most significant first.
pub fn recompose(modulus: Modulus, gadget: Gadget, digits: &[i64]) -> u64 {
    (1..).zip(digits).fold(0, |sum, (l, &digit)| {
        modulus.add(sum, modulus.mul(modulus.from_signed(digit), gadget.scale(l)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::modulus::GOLDILOCKS;
    use proptest::prelude::*;

    fn gadgets() -> impl Strategy<Value = Gadget> {
        (1u32..=63)
            .prop_flat_map(|base_log| (Just(base_log), 1..=63 / base_log))
            .prop_map(|(base_log, level)| Gadget { base_log, level })
    }

    fn check(modulus: Modulus, gadget: Gadget, a: u64) {
        let mut digits = vec![0; gadget.level as usize];
        decompose(modulus, gadget, a, &mut digits);
        let half = 1i64 << (gadget.base_log - 1);
        assert!((-half..=half).contains(&digits[0]), "{a:#x} {gadget:?}: {digits:?}");
        for d in &digits[1..] {
            assert!((-half..half).contains(d), "{a:#x} {gadget:?}: {digits:?}");
        }
        let error = modulus.to_signed(modulus.sub(a, recompose(modulus, gadget, &digits)));
        let bound = 1u64 << (63 - gadget.base_log * gadget.level);
        assert!(error.unsigned_abs() <= bound, "{a:#x} {gadget:?}: error {error}");
        // The definition, in integers that cannot overflow.
        let shift = 64 - gadget.base_log * gadget.level;
        let nearest = (modulus.to_signed(a) as i128 + (1i128 << (shift - 1))) >> shift;
        let value = digits.iter().fold(0i128, |sum, &d| (sum << gadget.base_log) + d as i128);
        assert_eq!(value, nearest, "{a:#x} {gadget:?}");
    }

    #[test]
    fn edges() {
        let (half, p) = (1u64 << 63, GOLDILOCKS);
        let native = [0, 1, half - 1, half, half + 1, u64::MAX - 1, u64::MAX];
        let prime = [0, 1, p / 2 - 1, p / 2, p / 2 + 1, p / 2 + 2, half, p - 2, p - 1];
        for base_log in 1..=63 {
            for level in 1..=63 / base_log {
                let gadget = Gadget { base_log, level };
                native.iter().for_each(|&a| check(Modulus::Native, gadget, a));
                prime.iter().for_each(|&a| check(Modulus::Goldilocks, gadget, a));
            }
        }
    }

    #[test]
    fn known_answers() {
        let gadget = Gadget { base_log: 4, level: 2 };
        let digits = |a: u64| {
            let mut d = [0; 2];
            decompose(Modulus::Native, gadget, a, &mut d);
            d
        };
        assert_eq!(digits(0x3700 << 48), [3, 7]);
        assert_eq!(digits(0x3800 << 48), [4, -8], "the digit 8 becomes −8 and a carry");
        assert_eq!(digits(0x3780 << 48), [4, -8], "a half goes up");
        assert_eq!(digits(0x7fff << 48), [8, 0], "the top digit may be +B/2");
        assert_eq!(digits(0x8000 << 48), [-8, 0]);
        assert_eq!(gadget.scale(1), 1 << 60);
        assert_eq!(gadget.scale(2), 1 << 56);
    }

    proptest! {
        #[test]
        fn small_error_and_digits(a: u64, gadget in gadgets()) {
            check(Modulus::Native, gadget, a);
            check(Modulus::Goldilocks, gadget, a % GOLDILOCKS);
        }

        #[test]
        fn slices_agree_with_scalars(a in prop::collection::vec(any::<u64>(), 0..9), gadget in gadgets()) {
            let level = gadget.level as usize;
            let (mut many, mut one) = (vec![0; level * a.len()], vec![0; level]);
            for modulus in [Modulus::Native, Modulus::Goldilocks] {
                let a: Vec<u64> = a.iter().map(|&x| modulus.reduce(x)).collect();
                decompose_slice(modulus, gadget, &a, &mut many);
                for (i, &x) in a.iter().enumerate() {
                    decompose(modulus, gadget, x, &mut one);
                    for l in 0..level {
                        prop_assert_eq!(many[l * a.len() + i], one[l]);
                    }
                }
            }
        }
    }
}
