//! A few doubles computed on together: one trait, and an implementation per level of `math::simd::Level`.
//!
//! Kernels are generic over [`Vector`] and `#[inline(always)]` down to an entry function that enables the level's
//! instructions. A value of a vector type exists only inside such a function (making one is `unsafe`), hence the
//! arithmetic itself is safe.

use std::ops::{Add, Mul, Sub};

/// `LANES` doubles.
pub(crate) trait Vector:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// Number of doubles: 4 or 8.
    const LANES: usize;
    /// How often each scalar twiddle stands in memory: once where an instruction can broadcast its memory operand,
    /// `LANES` times elsewhere.
    const COPIES: usize;
    /// # Safety
    /// The processor has the instructions of this type.
    unsafe fn splat(x: f64) -> Self;
    /// # Safety
    /// As `splat`, and `p` is valid for reading `LANES` doubles.
    unsafe fn load(p: *const f64) -> Self;
    /// # Safety
    /// `p` is valid for writing `LANES` doubles.
    unsafe fn store(self, p: *mut f64);
    /// `self·b + c`.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// `self·b − c`.
    fn mul_sub(self, b: Self, c: Self) -> Self;
    /// `c − self·b`.
    fn neg_mul_add(self, b: Self, c: Self) -> Self;
    /// The exact `self·b − product` where `product` is the rounded `self·b`.
    #[inline(always)]
    fn product_error(self, b: Self, product: Self) -> Self {
        self.mul_sub(b, product)
    }
    /// √(1/2) in every lane.
    /// # Safety
    /// As `splat`.
    #[inline(always)]
    unsafe fn half_root() -> Self {
        // SAFETY: promised by the caller.
        unsafe { Self::splat(std::f64::consts::FRAC_1_SQRT_2) }
    }
    /// Columns 0, 2, … or 1, 3, … of the square matrix whose rows are the first `LANES` vectors; the rest is arbitrary.
    fn columns(x: [Self; 8], odd: bool) -> [Self; 4];

    /// A scalar twiddle in every lane.
    /// # Safety
    /// As `load`, for `COPIES` doubles.
    #[inline(always)]
    unsafe fn twiddle(p: *const f64) -> Self {
        // SAFETY: promised by the caller.
        unsafe { if Self::COPIES == 1 { Self::splat(*p) } else { Self::load(p) } }
    }
}

/// Vectors that can be rounded.
pub(crate) trait Round: Vector {
    /// The nearest integer, ties to even.
    fn round(self) -> Self;
    /// The greatest integer not above.
    fn floor(self) -> Self;
}

/// Four doubles in plain Rust.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f64; 4]);

macro_rules! portable {
    (|$($x:ident),+| $e:expr) => {{
        let mut out = [0.0; 4];
        let mut i = 0;
        while i < 4 {
            $(let $x = $x.0[i];)+
            out[i] = $e;
            i += 1;
        }
        Portable(out)
    }};
}

macro_rules! operators {
    ($type:ident: $($trait:ident $name:ident ($a:ident, $b:ident) $e:expr);+ $(;)?) => {$(
        impl $trait for $type {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                // SAFETY: values of this type exist only where the processor has its instructions.
                #[allow(unused_unsafe)]
                unsafe { $e }
            }
        }
    )+};
}
operators! { Portable: Add add (a, b) portable!(|a, b| a + b); Sub sub (a, b) portable!(|a, b| a - b); Mul mul (a, b) portable!(|a, b| a * b) }

impl Vector for Portable {
    const LANES: usize = 4;
    const COPIES: usize = 1;
    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        Portable([x; 4])
    }
    #[inline(always)]
    unsafe fn load(p: *const f64) -> Self {
        // SAFETY: promised by the caller.
        Portable(unsafe { p.cast::<[f64; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f64) {
        // SAFETY: promised by the caller.
        unsafe { p.cast::<[f64; 4]>().write_unaligned(self.0) }
    }
    // Not fused: without the instruction a fused multiply-add is a slow library call.
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        self * b + c
    }
    #[inline(always)]
    fn mul_sub(self, b: Self, c: Self) -> Self {
        self * b - c
    }
    #[inline(always)]
    fn neg_mul_add(self, b: Self, c: Self) -> Self {
        c - self * b
    }
    #[inline(always)]
    fn product_error(self, b: Self, product: Self) -> Self {
        let x = self;
        portable!(|x, b, product| x.mul_add(b, -product))
    }
    #[inline(always)]
    fn columns(x: [Self; 8], odd: bool) -> [Self; 4] {
        let c = usize::from(odd);
        let column = |c: usize| Portable([x[0].0[c], x[1].0[c], x[2].0[c], x[3].0[c]]);
        [column(c), column(c + 2), x[0], x[0]]
    }
}

impl Round for Portable {
    #[inline(always)]
    fn round(self) -> Self {
        // Adding and taking away 1.5·2^52 rounds whatever is below 2^51, and all larger arguments are integers here.
        const MAGIC: f64 = 1.5 * (1u64 << 52) as f64;
        let x = self;
        portable!(|x| if x.abs() < (1u64 << 51) as f64 {
            (x + MAGIC) - MAGIC
        } else {
            x.round_ties_even()
        })
    }
    #[inline(always)]
    fn floor(self) -> Self {
        let (x, r) = (self, self.round());
        portable!(|x, r| if r > x { r - 1.0 } else { r })
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use std::arch::x86_64::*;

    /// Four doubles by AVX2 and FMA.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2(pub(crate) __m256d);

    /// Eight doubles by AVX-512 F, DQ, BW, VL.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512(pub(crate) __m512d);

    operators! { Avx2: Add add (a, b) Avx2(_mm256_add_pd(a.0, b.0)); Sub sub (a, b) Avx2(_mm256_sub_pd(a.0, b.0)); Mul mul (a, b) Avx2(_mm256_mul_pd(a.0, b.0)) }
    operators! { Avx512: Add add (a, b) Avx512(_mm512_add_pd(a.0, b.0)); Sub sub (a, b) Avx512(_mm512_sub_pd(a.0, b.0)); Mul mul (a, b) Avx512(_mm512_mul_pd(a.0, b.0)) }

    impl Vector for Avx2 {
        const LANES: usize = 4;
        const COPIES: usize = 4;
        #[inline(always)]
        unsafe fn splat(x: f64) -> Self {
            // SAFETY: promised by the caller.
            Avx2(unsafe { _mm256_set1_pd(x) })
        }
        #[inline(always)]
        unsafe fn load(p: *const f64) -> Self {
            // SAFETY: promised by the caller.
            Avx2(unsafe { _mm256_loadu_pd(p) })
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f64) {
            // SAFETY: promised by the caller.
            unsafe { _mm256_storeu_pd(p, self.0) }
        }
        #[inline(always)]
        fn mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: values of this type exist only where the processor has its instructions.
            Avx2(unsafe { _mm256_fmadd_pd(self.0, b.0, c.0) })
        }
        #[inline(always)]
        fn mul_sub(self, b: Self, c: Self) -> Self {
            // SAFETY: as above.
            Avx2(unsafe { _mm256_fmsub_pd(self.0, b.0, c.0) })
        }
        #[inline(always)]
        fn neg_mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: as above.
            Avx2(unsafe { _mm256_fnmadd_pd(self.0, b.0, c.0) })
        }
        #[inline(always)]
        fn columns(x: [Self; 8], odd: bool) -> [Self; 4] {
            // SAFETY: as above.
            unsafe {
                let (a, b) = if odd {
                    (_mm256_unpackhi_pd(x[0].0, x[1].0), _mm256_unpackhi_pd(x[2].0, x[3].0))
                } else {
                    (_mm256_unpacklo_pd(x[0].0, x[1].0), _mm256_unpacklo_pd(x[2].0, x[3].0))
                };
                [
                    Avx2(_mm256_permute2f128_pd::<0x20>(a, b)),
                    Avx2(_mm256_permute2f128_pd::<0x31>(a, b)),
                    x[0],
                    x[0],
                ]
            }
        }
    }

    impl Round for Avx2 {
        #[inline(always)]
        fn round(self) -> Self {
            // SAFETY: as above.
            Avx2(unsafe {
                _mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)
            })
        }
        #[inline(always)]
        fn floor(self) -> Self {
            // SAFETY: as above.
            Avx2(unsafe { _mm256_floor_pd(self.0) })
        }
    }

    impl Vector for Avx512 {
        const LANES: usize = 8;
        const COPIES: usize = 1;
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
        fn mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: values of this type exist only where the processor has its instructions.
            Avx512(unsafe { _mm512_fmadd_pd(self.0, b.0, c.0) })
        }
        #[inline(always)]
        fn mul_sub(self, b: Self, c: Self) -> Self {
            // SAFETY: as above.
            Avx512(unsafe { _mm512_fmsub_pd(self.0, b.0, c.0) })
        }
        #[inline(always)]
        fn neg_mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: as above.
            Avx512(unsafe { _mm512_fnmadd_pd(self.0, b.0, c.0) })
        }
        #[inline(always)]
        fn columns(x: [Self; 8], odd: bool) -> [Self; 4] {
            // SAFETY: as above.
            unsafe {
                let (mut a, mut b) = ([x[0]; 4], [x[0]; 4]);
                for i in 0..4 {
                    let (p, q) = (x[2 * i].0, x[2 * i + 1].0);
                    a[i] = Avx512(if odd {
                        _mm512_unpackhi_pd(p, q)
                    } else {
                        _mm512_unpacklo_pd(p, q)
                    });
                }
                // Lanes of 128 bits: b[0], b[1] get columns {0, 4}, {2, 6} (and one more if odd) of rows 0..4, the others
                // those of rows 4..8.
                for i in [0, 2] {
                    b[i] = Avx512(_mm512_shuffle_f64x2::<0x88>(a[i].0, a[i + 1].0));
                    b[i + 1] = Avx512(_mm512_shuffle_f64x2::<0xDD>(a[i].0, a[i + 1].0));
                }
                [
                    Avx512(_mm512_shuffle_f64x2::<0x88>(b[0].0, b[2].0)),
                    Avx512(_mm512_shuffle_f64x2::<0x88>(b[1].0, b[3].0)),
                    Avx512(_mm512_shuffle_f64x2::<0xDD>(b[0].0, b[2].0)),
                    Avx512(_mm512_shuffle_f64x2::<0xDD>(b[1].0, b[3].0)),
                ]
            }
        }
    }

    impl Round for Avx512 {
        #[inline(always)]
        fn round(self) -> Self {
            // SAFETY: as above.
            Avx512(unsafe {
                _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)
            })
        }
        #[inline(always)]
        fn floor(self) -> Self {
            // SAFETY: as above.
            Avx512(unsafe {
                _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0)
            })
        }
    }
}
