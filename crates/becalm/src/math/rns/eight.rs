//! Eight doubles computed on together, whatever the level: one register of AVX-512, two of AVX2, an array elsewhere.
//!
//! The width is the same everywhere so that the order of transformed values is too: they are stored in keys.
//! A value of a vector type exists only inside a function that has its instructions (making one is `unsafe`), hence
//! the arithmetic itself is safe.

use crate::math::round::{fused, nearest};

/// Eight doubles.
pub(crate) trait Eight: Copy {
    /// Whether 24 of them fit the registers.
    const MANY: bool;
    /// # Safety
    /// The processor has the instructions of this type.
    unsafe fn splat(x: f64) -> Self;
    /// # Safety
    /// As `splat`, and `p` is valid for reading eight doubles.
    unsafe fn load(p: *const f64) -> Self;
    /// # Safety
    /// `p` is valid for writing eight doubles.
    unsafe fn store(self, p: *mut f64);
    /// `self + b`.
    fn add(self, b: Self) -> Self;
    /// `self − b`.
    fn sub(self, b: Self) -> Self;
    /// `self·b`.
    fn mul(self, b: Self) -> Self;
    /// `self·b + c`, rounded once.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// `self·b − c`, rounded once.
    fn mul_sub(self, b: Self, c: Self) -> Self;
    /// `c − self·b`, rounded once.
    fn neg_mul_add(self, b: Self, c: Self) -> Self;
    /// The nearest integer, ties to even.
    fn round(self) -> Self;
    /// The larger of both.
    fn max(self, b: Self) -> Self;
    /// The transpose of the matrix with these rows.
    fn transpose(rows: [Self; 8]) -> [Self; 8];
    /// The eight fields of a group.
    /// # Safety
    /// As `splat`, and `p` is valid for reading 64 bytes.
    unsafe fn fields(p: *const u8, fields: &Fields) -> Self;
    /// Eight fields behind each other, the inverse of [`Eight::fields`]: of integers x, those below 0 with `p` added.
    /// # Safety
    /// As `splat`; `x` is valid for reading eight, `out` for writing 64 bytes, of which those behind the fields have no meaning.
    #[inline(always)]
    unsafe fn pack(x: *const f64, p: f64, out: *mut u8, fields: &Fields) {
        // The last bits of a field go out with the next one if they share a byte.
        let (mut held, mut at) = (0, 0);
        for k in 0..8 {
            // SAFETY: promised by the caller; the last field is in the eight bytes from at most 7·50/8 on.
            unsafe {
                let x = *x.add(k);
                let x = if x < 0.0 { x + p } else { x };
                let here = held | ((x + INTEGER).to_bits() & fields.mask) << fields.bits[k];
                out.add(at).cast::<u64>().write_unaligned(here.to_le());
                let next = (k + 1) * fields.width / 8;
                held = here >> (8 * (next - at));
                at = next;
            }
        }
    }
    /// The low bits (`mask`, below 2^52) of eight words: those below `p`, in order, go to `out`; how many they are.
    /// # Safety
    /// As `splat`; `words` is valid for reading eight, `out` for writing eight, of which the last have no meaning.
    unsafe fn keep_below(words: *const u64, mask: u64, p: f64, out: *mut f64) -> usize;
}

/// Where eight fields of `width` bits stand that follow each other, the least significant first: each in the 64 bits that
/// begin at a multiple of 16 (15 + 49 or 14 + 50 bits at most).
// Some fields are for the instructions of x86-64 alone.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) struct Fields {
    /// For each 16 bits of eight words, which of the group's they are.
    halves: [u16; 32],
    /// How far a field is from the lowest of its bits.
    shifts: [u64; 8],
    mask: u64,
    width: usize,
    /// For each two fields the byte in which the first begins.
    pairs: [usize; 4],
    /// For each two fields, which bytes from there on are theirs: eight for each.
    places: [[u8; 16]; 4],
    /// How far a field is from the lowest bit of its first byte.
    bits: [u64; 8],
    /// For each 64 bits of the group, the first field that has some of them, and how far it goes to the right, the next two to the left.
    whole: [[u64; 8]; 4],
}

/// The double 2^52 has no fraction: its low bits are an integer's.
const INTEGER: f64 = 4_503_599_627_370_496.0;

impl Fields {
    /// `width` is at most 50.
    pub(crate) fn new(width: usize) -> Fields {
        assert!((1..=50).contains(&width), "fields of at most 50 bits");
        Fields {
            halves: std::array::from_fn(|i| (i / 4 * width / 16 + i % 4) as u16),
            shifts: std::array::from_fn(|i| (i * width % 16) as u64),
            mask: (1 << width) - 1,
            width,
            pairs: std::array::from_fn(|i| 2 * i * width / 8),
            places: std::array::from_fn(|i| {
                let from = [0, (2 * i * width % 8 + width) / 8];
                std::array::from_fn(|b| (from[b / 8] + b % 8) as u8)
            }),
            bits: std::array::from_fn(|i| (i * width % 8) as u64),
            whole: std::array::from_fn(|of| {
                let right = |q: usize| 64 * q % width;
                std::array::from_fn(|q| match of {
                    0 => (64 * q / width) as u64,
                    1 => right(q) as u64,
                    _ => ((of - 1) * width - right(q)) as u64,
                })
            }),
        }
    }

    /// # Safety
    /// `p` is valid for reading 64 bytes.
    #[inline(always)]
    unsafe fn words(&self, p: *const u8) -> [u64; 8] {
        std::array::from_fn(|i| {
            let at = 2 * self.halves[4 * i] as usize;
            // SAFETY: eight bytes from at most 2·⌊7·50/16⌋ = 42 on.
            u64::from_le(unsafe { p.add(at).cast::<u64>().read_unaligned() })
        })
    }
}

/// Eight doubles in plain Rust.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f64; 8]);

macro_rules! each {
    (|$($x:ident),+| $e:expr) => {{
        let mut out = [0.0; 8];
        let mut i = 0;
        while i < 8 {
            $(let $x = $x.0[i];)+
            out[i] = $e;
            i += 1;
        }
        Portable(out)
    }};
}

impl Eight for Portable {
    const MANY: bool = false;
    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        Portable([x; 8])
    }
    #[inline(always)]
    unsafe fn load(p: *const f64) -> Self {
        // SAFETY: promised by the caller.
        Portable(unsafe { p.cast::<[f64; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f64) {
        // SAFETY: promised by the caller.
        unsafe { p.cast::<[f64; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        let a = self;
        each!(|a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        let a = self;
        each!(|a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        let a = self;
        each!(|a, b| a * b)
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        let a = self;
        each!(|a, b, c| fused(a, b, c))
    }
    #[inline(always)]
    fn mul_sub(self, b: Self, c: Self) -> Self {
        let a = self;
        each!(|a, b, c| fused(a, b, -c))
    }
    #[inline(always)]
    fn neg_mul_add(self, b: Self, c: Self) -> Self {
        let a = self;
        each!(|a, b, c| fused(-a, b, c))
    }
    #[inline(always)]
    fn round(self) -> Self {
        let a = self;
        each!(|a| nearest(a))
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        let a = self;
        each!(|a, b| a.max(b))
    }
    #[inline(always)]
    fn transpose(rows: [Self; 8]) -> [Self; 8] {
        let mut out = rows;
        for (i, row) in rows.iter().enumerate() {
            for (j, x) in row.0.iter().enumerate() {
                out[j].0[i] = *x;
            }
        }
        out
    }
    #[inline(always)]
    unsafe fn fields(p: *const u8, fields: &Fields) -> Self {
        // SAFETY: promised by the caller.
        let words = unsafe { fields.words(p) };
        Portable(std::array::from_fn(|i| {
            (words[i] >> fields.shifts[i] & fields.mask) as i64 as f64
        }))
    }
    #[inline(always)]
    unsafe fn keep_below(words: *const u64, mask: u64, p: f64, out: *mut f64) -> usize {
        let mut kept = 0;
        for i in 0..8 {
            // SAFETY: promised by the caller; not more are kept than looked at.
            unsafe {
                let x = (*words.add(i) & mask) as i64 as f64;
                *out.add(kept) = x;
                kept += usize::from(x < p);
            }
        }
        kept
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Eight, Fields, INTEGER};
    use std::arch::x86_64::*;

    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

    /// Eight doubles in two registers of AVX2.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2(__m256d, __m256d);

    /// Eight doubles in one register of AVX-512.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512(__m512d);

    macro_rules! both {
        ($op:ident; $($x:ident),+) => {
            // SAFETY: values of this type exist only where the processor has its instructions.
            unsafe { Avx2($op($($x.0),+), $op($($x.1),+)) }
        };
    }
    macro_rules! wide {
        ($op:ident; $($x:ident),+) => {
            // SAFETY: values of this type exist only where the processor has its instructions.
            unsafe { Avx512($op($($x.0),+)) }
        };
    }
    macro_rules! arithmetic {
        ($apply:ident; $add:ident $sub:ident $mul:ident $mul_add:ident $mul_sub:ident $neg_mul_add:ident) => {
            #[inline(always)]
            fn add(self, b: Self) -> Self {
                $apply!($add; self, b)
            }
            #[inline(always)]
            fn sub(self, b: Self) -> Self {
                $apply!($sub; self, b)
            }
            #[inline(always)]
            fn mul(self, b: Self) -> Self {
                $apply!($mul; self, b)
            }
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                $apply!($mul_add; self, b, c)
            }
            #[inline(always)]
            fn mul_sub(self, b: Self, c: Self) -> Self {
                $apply!($mul_sub; self, b, c)
            }
            #[inline(always)]
            fn neg_mul_add(self, b: Self, c: Self) -> Self {
                $apply!($neg_mul_add; self, b, c)
            }
        };
    }

    impl Eight for Avx2 {
        const MANY: bool = false;
        #[inline(always)]
        unsafe fn splat(x: f64) -> Self {
            // SAFETY: promised by the caller.
            unsafe { Avx2(_mm256_set1_pd(x), _mm256_set1_pd(x)) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f64) -> Self {
            // SAFETY: promised by the caller.
            unsafe { Avx2(_mm256_loadu_pd(p), _mm256_loadu_pd(p.add(4))) }
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f64) {
            // SAFETY: promised by the caller.
            unsafe {
                _mm256_storeu_pd(p, self.0);
                _mm256_storeu_pd(p.add(4), self.1);
            }
        }
        #[inline(always)]
        fn max(self, b: Self) -> Self {
            both!(_mm256_max_pd; self, b)
        }
        #[inline(always)]
        unsafe fn fields(p: *const u8, fields: &Fields) -> Self {
            // SAFETY: promised by the caller.
            unsafe {
                let mask = _mm256_set1_epi64x(fields.mask as i64);
                // Two fields are in the sixteen bytes from that of the first on: at most 7 + 2·50 bits.
                let four = |i: usize| {
                    let pair = |i: usize| _mm_loadu_si128(p.add(fields.pairs[i]).cast());
                    let x =
                        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(pair(i)), pair(i + 1));
                    let places = _mm256_loadu_si256(fields.places.as_ptr().add(i).cast());
                    let bits = _mm256_loadu_si256(fields.bits.as_ptr().add(2 * i).cast());
                    let x = _mm256_srlv_epi64(_mm256_shuffle_epi8(x, places), bits);
                    double(_mm256_and_si256(x, mask))
                };
                Avx2(four(0), four(2))
            }
        }
        #[inline(always)]
        unsafe fn keep_below(words: *const u64, mask: u64, p: f64, out: *mut f64) -> usize {
            // SAFETY: promised by the caller; the second four go behind what is kept of the first.
            unsafe {
                let (mask, p) = (_mm256_set1_epi64x(mask as i64), _mm256_set1_pd(p));
                let four = |i: usize, kept: usize| {
                    let x = _mm256_and_si256(_mm256_loadu_si256(words.add(i).cast()), mask);
                    let x = double(x);
                    let below = _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_LT_OQ>(x, p)) as usize;
                    let places = _mm256_loadu_si256(FRONT[below & 15].as_ptr().cast());
                    let x = _mm256_permutevar8x32_epi32(_mm256_castpd_si256(x), places);
                    _mm256_storeu_pd(out.add(kept), _mm256_castsi256_pd(x));
                    kept + below.count_ones() as usize
                };
                four(4, four(0, 0))
            }
        }
        arithmetic!(both; _mm256_add_pd _mm256_sub_pd _mm256_mul_pd _mm256_fmadd_pd _mm256_fmsub_pd _mm256_fnmadd_pd);
        #[inline(always)]
        fn round(self) -> Self {
            // SAFETY: values of this type exist only where the processor has its instructions.
            unsafe { Avx2(_mm256_round_pd::<NEAREST>(self.0), _mm256_round_pd::<NEAREST>(self.1)) }
        }
        #[inline(always)]
        fn transpose(rows: [Self; 8]) -> [Self; 8] {
            let mut out = rows;
            for i in [0, 4] {
                let low = four([rows[i].0, rows[i + 1].0, rows[i + 2].0, rows[i + 3].0]);
                let high = four([rows[i].1, rows[i + 1].1, rows[i + 2].1, rows[i + 3].1]);
                for j in 0..4 {
                    if i == 0 {
                        (out[j].0, out[j + 4].0) = (low[j], high[j]);
                    } else {
                        (out[j].1, out[j + 4].1) = (low[j], high[j]);
                    }
                }
            }
            out
        }
    }

    /// For each set of four lanes, the halves of these lanes in order, then any.
    const FRONT: [[i32; 8]; 16] = {
        let (mut out, mut set) = ([[0; 8]; 16], 0);
        while set < 16 {
            let (mut lane, mut kept) = (0, 0);
            while lane < 4 {
                if set >> lane & 1 == 1 {
                    out[set][2 * kept] = 2 * lane;
                    out[set][2 * kept + 1] = 2 * lane + 1;
                    kept += 1;
                }
                lane += 1;
            }
            set += 1;
        }
        out
    };

    /// Integers below 2^52 as doubles.
    #[inline(always)]
    fn double(x: __m256i) -> __m256d {
        // SAFETY: the argument exists, hence the instructions.
        unsafe {
            let two52 = _mm256_set1_pd(INTEGER);
            let x = _mm256_or_si256(x, _mm256_castpd_si256(two52));
            _mm256_sub_pd(_mm256_castsi256_pd(x), two52)
        }
    }

    /// Integers below 2^52 as doubles.
    #[inline(always)]
    fn double_wide(x: __m512i) -> __m512d {
        // SAFETY: the argument exists, hence the instructions.
        unsafe {
            let two52 = _mm512_set1_pd(INTEGER);
            let x = _mm512_or_si512(x, _mm512_castpd_si512(two52));
            _mm512_sub_pd(_mm512_castsi512_pd(x), two52)
        }
    }

    #[inline(always)]
    fn four(r: [__m256d; 4]) -> [__m256d; 4] {
        // SAFETY: the rows exist, hence the instructions.
        unsafe {
            let (a, b) = (_mm256_unpacklo_pd(r[0], r[1]), _mm256_unpackhi_pd(r[0], r[1]));
            let (c, d) = (_mm256_unpacklo_pd(r[2], r[3]), _mm256_unpackhi_pd(r[2], r[3]));
            [
                _mm256_permute2f128_pd::<0x20>(a, c),
                _mm256_permute2f128_pd::<0x20>(b, d),
                _mm256_permute2f128_pd::<0x31>(a, c),
                _mm256_permute2f128_pd::<0x31>(b, d),
            ]
        }
    }

    impl Eight for Avx512 {
        const MANY: bool = true;
        #[inline(always)]
        unsafe fn splat(x: f64) -> Self {
            // SAFETY: promised by the caller.
            Avx512(unsafe { _mm512_set1_pd(x) })
        }
        #[inline(always)]
        unsafe fn load(p: *const f64) -> Self {
            // SAFETY: promised by the caller.
            Avx512(unsafe { _mm512_loadu_pd(p) })
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f64) {
            // SAFETY: promised by the caller.
            unsafe { _mm512_storeu_pd(p, self.0) }
        }
        #[inline(always)]
        fn max(self, b: Self) -> Self {
            wide!(_mm512_max_pd; self, b)
        }
        #[inline(always)]
        unsafe fn fields(p: *const u8, fields: &Fields) -> Self {
            // SAFETY: promised by the caller.
            unsafe {
                let halves = _mm512_loadu_si512(fields.halves.as_ptr().cast());
                let shifts = _mm512_loadu_si512(fields.shifts.as_ptr().cast());
                let x = _mm512_permutexvar_epi16(halves, _mm512_loadu_si512(p.cast()));
                let (mask, two52) =
                    (_mm512_set1_epi64(fields.mask as i64), _mm512_set1_pd(INTEGER));
                let x = _mm512_srlv_epi64(x, shifts);
                // x and mask, or 2^52.
                let x = _mm512_ternarylogic_epi64::<0xEA>(x, mask, _mm512_castpd_si512(two52));
                Avx512(_mm512_sub_pd(_mm512_castsi512_pd(x), two52))
            }
        }
        #[inline(always)]
        unsafe fn pack(x: *const f64, p: f64, out: *mut u8, fields: &Fields) {
            // SAFETY: promised by the caller; a shift by 64 or more leaves nothing, a field beyond the eighth is behind all of them.
            unsafe {
                let (x, zero) = (_mm512_loadu_pd(x), _mm512_setzero_pd());
                let below = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(x, zero);
                let x = _mm512_mask_add_pd(x, below, x, _mm512_set1_pd(p));
                let x = _mm512_castpd_si512(_mm512_add_pd(x, _mm512_set1_pd(INTEGER)));
                let x = _mm512_and_si512(x, _mm512_set1_epi64(fields.mask as i64));
                let row = |of: usize| _mm512_loadu_si512(fields.whole[of].as_ptr().cast());
                let from = |k| {
                    let places = _mm512_add_epi64(row(0), _mm512_set1_epi64(k));
                    _mm512_permutexvar_epi64(places, x)
                };
                let mut all = _mm512_srlv_epi64(from(0), row(1));
                all = _mm512_or_si512(all, _mm512_sllv_epi64(from(1), row(2)));
                all = _mm512_or_si512(all, _mm512_sllv_epi64(from(2), row(3)));
                // Of short fields more than three may meet in 64 bits.
                for k in 3..63 / fields.width + 2 {
                    let more = _mm512_set1_epi64(((k - 2) * fields.width) as i64);
                    let left = _mm512_add_epi64(row(3), more);
                    all = _mm512_or_si512(all, _mm512_sllv_epi64(from(k as i64), left));
                }
                _mm512_storeu_si512(out.cast(), all);
            }
        }
        #[inline(always)]
        unsafe fn keep_below(words: *const u64, mask: u64, p: f64, out: *mut f64) -> usize {
            // SAFETY: promised by the caller.
            unsafe {
                let words = _mm512_loadu_si512(words.cast());
                let x = double_wide(_mm512_and_si512(words, _mm512_set1_epi64(mask as i64)));
                let below = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(x, _mm512_set1_pd(p));
                _mm512_storeu_pd(out, _mm512_maskz_compress_pd(below, x));
                below.count_ones() as usize
            }
        }
        arithmetic!(wide; _mm512_add_pd _mm512_sub_pd _mm512_mul_pd _mm512_fmadd_pd _mm512_fmsub_pd _mm512_fnmadd_pd);
        #[inline(always)]
        fn round(self) -> Self {
            // SAFETY: values of this type exist only where the processor has its instructions.
            Avx512(unsafe { _mm512_roundscale_pd::<NEAREST>(self.0) })
        }
        #[inline(always)]
        fn transpose(rows: [Self; 8]) -> [Self; 8] {
            let mut out = rows;
            // SAFETY: values of this type exist only where the processor has its instructions.
            unsafe {
                for odd in [0, 1] {
                    let mut pair = [rows[0].0; 4];
                    for i in 0..4 {
                        let (a, b) = (rows[2 * i].0, rows[2 * i + 1].0);
                        pair[i] = if odd == 0 {
                            _mm512_unpacklo_pd(a, b)
                        } else {
                            _mm512_unpackhi_pd(a, b)
                        };
                    }
                    let low = _mm512_shuffle_f64x2::<0x88>(pair[0], pair[1]);
                    let high = _mm512_shuffle_f64x2::<0x88>(pair[2], pair[3]);
                    out[odd].0 = _mm512_shuffle_f64x2::<0x88>(low, high);
                    out[odd + 4].0 = _mm512_shuffle_f64x2::<0xDD>(low, high);
                    let low = _mm512_shuffle_f64x2::<0xDD>(pair[0], pair[1]);
                    let high = _mm512_shuffle_f64x2::<0xDD>(pair[2], pair[3]);
                    out[odd + 2].0 = _mm512_shuffle_f64x2::<0x88>(low, high);
                    out[odd + 6].0 = _mm512_shuffle_f64x2::<0xDD>(low, high);
                }
            }
            out
        }
    }
}

/// Defines `fn name(level, arguments)` that runs `body::<V>(arguments)` with the vectors of `level`, which the
/// processor must have.
macro_rules! leveled {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),* $(,)?) = $body:ident) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        pub(crate) fn $name(level: Level, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                unsafe fn avx2($($arg: $ty),*) {
                    // SAFETY: the instructions are enabled.
                    unsafe { $body::<$crate::math::rns::eight::Avx2>($($arg),*) }
                }
                #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
                unsafe fn avx512($($arg: $ty),*) {
                    // SAFETY: the instructions are enabled.
                    unsafe { $body::<$crate::math::rns::eight::Avx512>($($arg),*) }
                }
                match level {
                    // SAFETY: a ring exists only for a level of this processor.
                    Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    Level::Avx2 => return unsafe { avx2($($arg),*) },
                    Level::Portable => (),
                }
            }
            let _ = level;
            // SAFETY: plain Rust.
            unsafe { $body::<$crate::math::rns::eight::Portable>($($arg),*) }
        }
    };
}
pub(crate) use leveled;
