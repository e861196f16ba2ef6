//! Residues modulo p = 2^64 − 2^32 + 1, one per lane of a vector register.
//!
//! A lane is a *word* (any u64, one of the at most two representatives) or a *residue* (a word <= p). Sums and
//! differences of a word and a residue are words again, with at most one correction by ε = 2^32 − 1 ≡ 2^64; products
//! are residues. Everything is composed of a dozen primitive operations, so that each instruction set states only
//! these. Source of the reductions: 2^64 ≡ ε, 2^96 ≡ −1; Pornin 2022, "EcGFp5", for Montgomery's.

use super::super::modulus::GOLDILOCKS;
use std::hint::select_unpredictable;

/// ε = 2^32 − 1 ≡ 2^64 modulo p; −p modulo 2^64.
const EPSILON: u64 = 0xFFFF_FFFF;

/// A vector of `LANES` words. The arithmetic is wrapping where nothing else is said.
///
/// Rule of safety: values of an implementing type are made only inside functions entered after checking that the
/// processor has the instructions; this is what the blocks marked "rule of the trait" rely on.
pub(super) trait Lanes: Copy {
    /// Words in a vector.
    const LANES: usize;
    /// One truth value per lane.
    type Mask: Copy;

    /// Reads `LANES` words.
    ///
    /// # Safety
    /// `from` is readable for `LANES` words, and the processor has the instructions.
    unsafe fn load(from: *const u64) -> Self;
    /// Writes `LANES` words.
    ///
    /// # Safety
    /// `to` is writable for `LANES` words.
    unsafe fn store(self, to: *mut u64);
    /// Transposes a matrix of 8×8 words.
    ///
    /// # Safety
    /// `from` and `to` are readable and writable for 64 words and equal or disjoint; the processor has the instructions.
    unsafe fn transpose(from: *const u64, to: *mut u64);
    /// The same word in every lane.
    fn splat(x: u64) -> Self;
    /// Sum.
    fn add(self, b: Self) -> Self;
    /// Difference.
    fn sub(self, b: Self) -> Self;
    /// Shift to the left by `n` in 0..64.
    fn left(self, n: u32) -> Self;
    /// Logical shift to the right by `n` in 0..64.
    fn right(self, n: u32) -> Self;
    /// Product of the low halves.
    fn mul_low(self, b: Self) -> Self;
    /// The low half of `self` under the low half of `high`.
    fn join(self, high: Self) -> Self;
    /// `self < b`, unsigned.
    fn less(self, b: Self) -> Self::Mask;
    /// `self + b` where `mask` is true.
    fn add_if(self, mask: Self::Mask, b: Self) -> Self;
    /// `self − b` where `mask` is true.
    fn sub_if(self, mask: Self::Mask, b: Self) -> Self;

    /// The 128-bit product as (high, low).
    #[inline(always)]
    fn mul_wide(self, b: Self) -> (Self, Self) {
        let (a1, b1) = (self.right(32), b.right(32));
        let low = self.mul_low(b);
        // Neither sum overflows: (2^32 − 1)² + 2^32 − 1 < 2^64.
        let cross = a1.mul_low(b).add(low.right(32));
        let middle = self.mul_low(b1).add(cross.join(Self::splat(0)));
        let high = a1.mul_low(b1).add(cross.right(32)).add(middle.right(32));
        (high, Self::low_word(self, b, low, middle))
    }

    /// The low word of the product, given `low` and `middle` of [`mul_wide`](Self::mul_wide).
    #[inline(always)]
    fn low_word(_a: Self, _b: Self, low: Self, middle: Self) -> Self {
        low.join(middle)
    }

    /// The sum and the difference of a word and a residue: words.
    #[inline(always)]
    fn butterfly(self, b: Self) -> (Self, Self) {
        (self.add_mod(b), self.sub_mod(b))
    }

    /// The sum of a word and a residue. 2^64 ≡ ε; the correction cannot carry, because a + b <= 2^65 − 1 − 2^32.
    #[inline(always)]
    fn add_mod(self, b: Self) -> Self {
        let sum = self.add(b);
        sum.add_if(sum.less(self), Self::splat(EPSILON))
    }

    /// `self − b`, plus p where that is negative: a word where `b` is a residue; a residue, and reduced, where the
    /// difference is known to lie in −p..p.
    #[inline(always)]
    fn sub_mod(self, b: Self) -> Self {
        let difference = self.sub(b);
        difference.sub_if(self.less(b), Self::splat(EPSILON))
    }

    /// The reduced representative of a word.
    #[inline(always)]
    fn reduce(self) -> Self {
        self.add_if(Self::splat(GOLDILOCKS - 1).less(self), Self::splat(EPSILON))
    }

    /// `self`·b/2^64 of a word and a reduced residue: reduced (Montgomery).
    #[inline(always)]
    fn mul_montgomery(self, b: Self) -> Self {
        let (high, low) = self.mul_wide(b);
        let a = low.add(low.left(32));
        let m = a.sub(a.right(32)).sub_if(a.less(low), Self::splat(1));
        high.sub_mod(m)
    }

    /// The reduced representative of high·2^64 + low, `high` and `low` being words.
    #[inline(always)]
    fn reduce_wide(high: Self, low: Self) -> Self {
        let upper = low.sub_mod(high.right(32)); // 2^96 ≡ −1
        upper.add_mod(high.mul_low(Self::splat(EPSILON))).reduce()
    }

    /// Words or residues (P, M) with P − M ≡ `self`·2^e and P − M, M − P in −p..=p, for `e` in 1..96.
    #[inline(always)]
    fn power_of_two(self, e: u32) -> (Self, Self) {
        let epsilon = Self::splat(EPSILON);
        if e >= 64 {
            // x = h·2^s + l with s = 96 − e: x·2^e ≡ l·2^e − h, and l·2^e = l·2^(32−s)·2^64.
            let low = self.left(e - 64);
            return (low.mul_low(epsilon), self.right(96 - e));
        }
        // x·2^e = l + m·2^64 + h·2^96 with l < 2^64, m < 2^32: ≡ l − (p − m·ε) − h.
        let m = self.right(64 - e).mul_low(epsilon);
        let low = self.left(e);
        let low = if e > 32 { low.sub_mod(self.right(96 - e)) } else { low };
        (low, Self::splat(GOLDILOCKS).sub(m))
    }

    /// `self`·2^e for `e` in 0..96: a residue.
    #[inline(always)]
    fn times_two_to(self, e: u32) -> Self {
        if e == 0 {
            return self.reduce();
        }
        let (plus, minus) = self.power_of_two(e);
        plus.sub_mod(minus)
    }

    /// `self`·2^−e for `e` in 1..=32: reduced. The exponent may be chosen at run time.
    #[inline(always)]
    fn halve(self, e: u32) -> Self {
        // x = h·2^e + l: x·2^−e = h + l·2^(32−e)·2^−32 and 2^−32 ≡ −2^64 ≡ −ε.
        let low = self.left(32 - e).mul_low(Self::splat(EPSILON));
        self.right(e).sub_mod(low)
    }

    /// `self`·2^−e for `e` in 0..96: a residue.
    #[inline(always)]
    fn over_two_to(self, e: u32) -> Self {
        if e == 0 {
            return self.reduce();
        }
        let (minus, plus) = self.power_of_two(96 - e);
        plus.sub_mod(minus)
    }
}

/// One word: plain Rust.
impl Lanes for u64 {
    const LANES: usize = 1;
    type Mask = bool;

    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the caller's promise.
        unsafe { *from }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u64) {
        // SAFETY: the caller's promise.
        unsafe { *to = self }
    }
    #[inline(always)]
    unsafe fn transpose(from: *const u64, to: *mut u64) {
        // SAFETY: the caller's promise: 64 words each.
        let m = unsafe { *from.cast::<[[u64; 8]; 8]>() };
        for (i, row) in m.iter().enumerate() {
            for (j, &x) in row.iter().enumerate() {
                // SAFETY: 8j + i < 64.
                unsafe { *to.add(8 * j + i) = x }
            }
        }
    }
    #[inline(always)]
    fn splat(x: u64) -> Self {
        x
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.wrapping_add(b)
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.wrapping_sub(b)
    }
    #[inline(always)]
    fn left(self, n: u32) -> Self {
        self << n
    }
    #[inline(always)]
    fn right(self, n: u32) -> Self {
        self >> n
    }
    #[inline(always)]
    fn mul_low(self, b: Self) -> Self {
        (self & EPSILON) * (b & EPSILON)
    }
    #[inline(always)]
    fn join(self, high: Self) -> Self {
        (self & EPSILON) | (high << 32)
    }
    #[inline(always)]
    fn less(self, b: Self) -> bool {
        self < b
    }
    #[inline(always)]
    fn add_if(self, mask: bool, b: Self) -> Self {
        // A branch would be mispredicted half of the time.
        self.wrapping_add(select_unpredictable(mask, b, 0))
    }
    #[inline(always)]
    fn sub_if(self, mask: bool, b: Self) -> Self {
        self.wrapping_sub(select_unpredictable(mask, b, 0))
    }
    #[inline(always)]
    fn mul_wide(self, b: Self) -> (Self, Self) {
        let product = self as u128 * b as u128;
        ((product >> 64) as u64, product as u64)
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    /// Four words: AVX2.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2(__m256i);

    /// Eight words: AVX-512.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx512(__m512i);

    /// A method without pointers that is one expression of intrinsics.
    macro_rules! op {
        ($vector:ident: $name:ident($($arg:ident: $type:ty),*) -> $out:ty, $body:expr) => {
            #[inline(always)]
            fn $name($($arg: $type),*) -> $out {
                // SAFETY: rule of the trait.
                unsafe { $body }
            }
        };
        ($vector:ident: $name:ident(self $(, $arg:ident: $type:ty)*) -> $out:ty, |$a:ident| $body:expr) => {
            #[inline(always)]
            fn $name(self $(, $arg: $type)*) -> $out {
                let $vector($a) = self;
                // SAFETY: rule of the trait.
                unsafe { $body }
            }
        };
    }

    impl Lanes for Avx2 {
        const LANES: usize = 4;
        type Mask = __m256i;

        #[inline(always)]
        unsafe fn load(from: *const u64) -> Self {
            // SAFETY: the caller's promise.
            Avx2(unsafe { _mm256_loadu_si256(from.cast()) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut u64) {
            // SAFETY: the caller's promise.
            unsafe { _mm256_storeu_si256(to.cast(), self.0) }
        }
        #[inline(always)]
        unsafe fn transpose(from: *const u64, to: *mut u64) {
            // SAFETY: the caller's promise; offsets of four words end at 64 at most. All is read before it is written.
            unsafe {
                let mut quarters = [[_mm256_setzero_si256(); 4]; 4];
                for (q, quarter) in quarters.iter_mut().enumerate() {
                    for (i, row) in quarter.iter_mut().enumerate() {
                        *row =
                            _mm256_loadu_si256(from.add(32 * (q / 2) + 4 * (q % 2) + 8 * i).cast());
                    }
                }
                for (q, m) in quarters.iter().enumerate() {
                    let (a, b) =
                        (_mm256_unpacklo_epi64(m[0], m[1]), _mm256_unpackhi_epi64(m[0], m[1]));
                    let (c, d) =
                        (_mm256_unpacklo_epi64(m[2], m[3]), _mm256_unpackhi_epi64(m[2], m[3]));
                    let to = to.add(32 * (q % 2) + 4 * (q / 2));
                    _mm256_storeu_si256(to.cast(), _mm256_permute2x128_si256::<0x20>(a, c));
                    _mm256_storeu_si256(to.add(8).cast(), _mm256_permute2x128_si256::<0x20>(b, d));
                    _mm256_storeu_si256(to.add(16).cast(), _mm256_permute2x128_si256::<0x31>(a, c));
                    _mm256_storeu_si256(to.add(24).cast(), _mm256_permute2x128_si256::<0x31>(b, d));
                }
            }
        }
        op!(Avx2: splat(x: u64) -> Self, Avx2(_mm256_set1_epi64x(x as i64)));
        op!(Avx2: add(self, b: Self) -> Self, |a| Avx2(_mm256_add_epi64(a, b.0)));
        op!(Avx2: sub(self, b: Self) -> Self, |a| Avx2(_mm256_sub_epi64(a, b.0)));
        op!(Avx2: left(self, n: u32) -> Self, |a| Avx2(_mm256_sll_epi64(a, _mm_cvtsi32_si128(n as i32))));
        op!(Avx2: right(self, n: u32) -> Self, |a| Avx2(_mm256_srl_epi64(a, _mm_cvtsi32_si128(n as i32))));
        op!(Avx2: mul_low(self, b: Self) -> Self, |a| Avx2(_mm256_mul_epu32(a, b.0)));
        op!(Avx2: join(self, high: Self) -> Self, |a| {
            Avx2(_mm256_blend_epi32::<0b1010_1010>(a, _mm256_slli_epi64::<32>(high.0)))
        });
        // There is only a signed comparison: move zero to −2^63.
        op!(Avx2: less(self, b: Self) -> __m256i, |a| {
            let origin = _mm256_set1_epi64x(i64::MIN);
            _mm256_cmpgt_epi64(_mm256_xor_si256(b.0, origin), _mm256_xor_si256(a, origin))
        });
        op!(Avx2: add_if(self, mask: __m256i, b: Self) -> Self, |a| Avx2(_mm256_add_epi64(a, _mm256_and_si256(mask, b.0))));
        op!(Avx2: sub_if(self, mask: __m256i, b: Self) -> Self, |a| Avx2(_mm256_sub_epi64(a, _mm256_and_si256(mask, b.0))));
    }

    impl Lanes for Avx512 {
        const LANES: usize = 8;
        type Mask = __mmask8;

        #[inline(always)]
        fn low_word(a: Self, b: Self, _: Self, _: Self) -> Self {
            // SAFETY: rule of the trait.
            Avx512(unsafe { _mm512_mullo_epi64(a.0, b.0) })
        }
        #[inline(always)]
        unsafe fn load(from: *const u64) -> Self {
            // SAFETY: the caller's promise.
            Avx512(unsafe { _mm512_loadu_si512(from.cast()) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut u64) {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_si512(to.cast(), self.0) }
        }
        #[inline(always)]
        unsafe fn transpose(from: *const u64, to: *mut u64) {
            // SAFETY: the caller's promise; rows of eight words end at 64. All is read before it is written.
            unsafe {
                let mut m = [_mm512_setzero_si512(); 8];
                for (i, row) in m.iter_mut().enumerate() {
                    *row = _mm512_loadu_si512(from.add(8 * i).cast());
                }
                // Exchange bit after bit of the row number with that of the column number.
                let mut t = m;
                for i in 0..4 {
                    t[2 * i] = _mm512_unpacklo_epi64(m[2 * i], m[2 * i + 1]);
                    t[2 * i + 1] = _mm512_unpackhi_epi64(m[2 * i], m[2 * i + 1]);
                }
                let (even, odd) = (
                    _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                    _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15),
                );
                for (i, j) in [(0, 2), (1, 3), (4, 6), (5, 7)] {
                    m[i] = _mm512_permutex2var_epi64(t[i], even, t[j]);
                    m[j] = _mm512_permutex2var_epi64(t[i], odd, t[j]);
                }
                for i in 0..4 {
                    let (a, b) = (m[i], m[i + 4]);
                    _mm512_storeu_si512(
                        to.add(8 * i).cast(),
                        _mm512_shuffle_i64x2::<0b0100_0100>(a, b),
                    );
                    _mm512_storeu_si512(
                        to.add(8 * i + 32).cast(),
                        _mm512_shuffle_i64x2::<0b1110_1110>(a, b),
                    );
                }
            }
        }
        op!(Avx512: splat(x: u64) -> Self, Avx512(_mm512_set1_epi64(x as i64)));
        op!(Avx512: add(self, b: Self) -> Self, |a| Avx512(_mm512_add_epi64(a, b.0)));
        op!(Avx512: sub(self, b: Self) -> Self, |a| Avx512(_mm512_sub_epi64(a, b.0)));
        op!(Avx512: left(self, n: u32) -> Self, |a| Avx512(_mm512_sll_epi64(a, _mm_cvtsi32_si128(n as i32))));
        op!(Avx512: right(self, n: u32) -> Self, |a| Avx512(_mm512_srl_epi64(a, _mm_cvtsi32_si128(n as i32))));
        op!(Avx512: mul_low(self, b: Self) -> Self, |a| Avx512(_mm512_mul_epu32(a, b.0)));
        op!(Avx512: join(self, high: Self) -> Self, |a| {
            Avx512(_mm512_mask_mov_epi32(a, 0b1010_1010_1010_1010, _mm512_slli_epi64::<32>(high.0)))
        });
        op!(Avx512: less(self, b: Self) -> __mmask8, |a| _mm512_cmplt_epu64_mask(a, b.0));
        op!(Avx512: add_if(self, mask: __mmask8, b: Self) -> Self, |a| Avx512(_mm512_mask_add_epi64(a, mask, a, b.0)));
        op!(Avx512: sub_if(self, mask: __mmask8, b: Self) -> Self, |a| Avx512(_mm512_mask_sub_epi64(a, mask, a, b.0)));
    }
}
