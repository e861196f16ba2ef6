//! Digits times one block of rows of a key: `sums[panel][ct][column] += Σ_row digits[ct][row]·key[row][column]`.
//!
//! A panel is the 8 or 16 columns of 32-bit words that fill a vector. A word is two signed 16-bit planes, lo + 2^16·hi,
//! so that one instruction multiplies two rows at a time and adds to 32-bit sums; these are exact for one block and
//! then move to 64 bits. Panel layout: `[pair of rows][plane][column][row of the pair]`, so it is read once, in order,
//! for all ciphertexts.
//! Requires rows·max|digit| < 2^16 and rows a multiple of 8.
//! Cost: rows·columns/16 multiply-add instructions of 512 bits a ciphertext and word (VNNI).

use crate::math::simd::Level;

/// Ciphertexts whose sums stay in registers together.
const TILE: usize = 6;
/// How far ahead the key is fetched, in elements: 8 KiB, a panel.
const DISTANCE: usize = 4096;

/// The instructions of this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX-512 with the multiply-add of 16-bit pairs in one instruction.
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl Path {
    /// The fastest path of a level that this processor has.
    pub(super) fn of(level: Level) -> Path {
        #[cfg(target_arch = "x86_64")]
        if Level::available().contains(&level) {
            return match level {
                Level::Portable => Path::Portable,
                Level::Avx2 => Path::Avx2,
                Level::Avx512 if is_x86_feature_detected!("avx512vnni") => Path::Vnni,
                Level::Avx512 => Path::Avx512,
            };
        }
        let _ = level;
        Path::Portable
    }

    /// Columns of a panel.
    pub(super) fn columns(self) -> usize {
        match self {
            Path::Portable => Portable::COLUMNS,
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => 8,
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 | Path::Vnni => 16,
        }
    }
}

/// Adds the products of a block. Shapes: `key` panels × rows × 2 columns, `digits` batch × rows, `sums` panels × batch ×
/// columns.
pub(super) fn multiply(path: Path, rows: usize, key: &[i16], digits: &[i16], sums: &mut [i64]) {
    let (row, batch) = (2 * path.columns(), digits.len() / rows);
    let panels = key.len() / (rows * row);
    assert!(rows.is_multiple_of(8), "rows come in eights");
    assert_eq!(key.len(), panels * rows * row);
    assert_eq!(digits.len(), batch * rows);
    assert_eq!(sums.len(), panels * batch * row / 2);
    // SAFETY: the slices have the shapes that the kernels walk, and a path other than the portable one is only made
    // by `Path::of` where the processor has its instructions.
    unsafe {
        match path {
            Path::Portable => panels_of::<Portable>(rows, key, digits, sums),
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => x86::avx2(rows, key, digits, sums),
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => x86::avx512(rows, key, digits, sums),
            #[cfg(target_arch = "x86_64")]
            Path::Vnni => x86::vnni(rows, key, digits, sums),
        }
    }
}

/// 32-bit sums of the columns of a panel, or their pairs of 16-bit factors.
trait Columns: Copy {
    const COLUMNS: usize;
    /// Whether a `dot` waits long for the one before, so that small tiles need several sums.
    const SLOW_CHAIN: bool;
    unsafe fn zero() -> Self;
    unsafe fn load(pairs: *const i16) -> Self;
    /// One pair in all columns.
    unsafe fn broadcast(pair: *const i16) -> Self;
    /// self + x_0·y_0 + x_1·y_1 in each column.
    unsafe fn dot(self, x: Self, y: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn store(self, sums: *mut i32);
    #[inline(always)]
    unsafe fn prefetch(_: *const i16) {}
}

/// # Safety
/// The shapes of [`multiply`], and the instructions of `V`.
#[inline(always)]
unsafe fn panels_of<V: Columns>(rows: usize, key: &[i16], digits: &[i16], sums: &mut [i64]) {
    let batch = digits.len() / rows;
    let tiles = batch.div_ceil(TILE);
    for (p, panel) in key.chunks_exact(rows * 2 * V::COLUMNS).enumerate() {
        let panel = panel.as_ptr();
        let mut first = 0;
        for t in 0..tiles {
            let next = batch * (t + 1) / tiles;
            // SAFETY: ciphertexts first..next of panel p lie inside both slices.
            unsafe {
                let digits = digits.as_ptr().add(first * rows);
                let sums = sums.as_mut_ptr().add((p * batch + first) * V::COLUMNS);
                // Where the key is read once, the processor's own prefetching is better.
                if tiles > 1 {
                    tile_of::<V, true>(next - first, rows, panel, digits, sums);
                } else {
                    tile_of::<V, false>(next - first, rows, panel, digits, sums);
                }
            }
            first = next;
        }
    }
}

/// # Safety
/// As for [`tile`], with T = `count` from 1 to 6.
#[inline(always)]
unsafe fn tile_of<V: Columns, const AHEAD: bool>(
    count: usize,
    rows: usize,
    panel: *const i16,
    digits: *const i16,
    sums: *mut i64,
) {
    // SAFETY: passed on.
    unsafe {
        match (count, V::SLOW_CHAIN) {
            (1, true) => tile::<V, 1, 4, AHEAD>(rows, panel, digits, sums),
            (1, false) => tile::<V, 1, 1, AHEAD>(rows, panel, digits, sums),
            (2, true) => tile::<V, 2, 2, AHEAD>(rows, panel, digits, sums),
            (2, false) => tile::<V, 2, 1, AHEAD>(rows, panel, digits, sums),
            (3, _) => tile::<V, 3, 1, AHEAD>(rows, panel, digits, sums),
            (4, _) => tile::<V, 4, 1, AHEAD>(rows, panel, digits, sums),
            (5, _) => tile::<V, 5, 1, AHEAD>(rows, panel, digits, sums),
            _ => tile::<V, TILE, 1, AHEAD>(rows, panel, digits, sums),
        }
    }
}

/// `T` ciphertexts times one panel, in `U` sums each that are added at the end.
///
/// # Safety
/// The panel has rows × 2 columns elements, `digits` T × rows, `sums` T × columns; rows is a multiple of 2·U.
#[inline(always)]
unsafe fn tile<V: Columns, const T: usize, const U: usize, const AHEAD: bool>(
    rows: usize,
    panel: *const i16,
    digits: *const i16,
    sums: *mut i64,
) {
    let plane = 2 * V::COLUMNS;
    // SAFETY: all offsets stay inside the shapes above; a prefetch may point anywhere.
    unsafe {
        let mut lo = [[V::zero(); T]; U];
        let mut hi = [[V::zero(); T]; U];
        for row in (0..rows).step_by(2 * U) {
            for u in 0..U {
                let row = row + 2 * u;
                let pair = panel.add(row * plane);
                if AHEAD {
                    V::prefetch(pair.wrapping_add(DISTANCE));
                }
                let (key_lo, key_hi) = (V::load(pair), V::load(pair.add(plane)));
                for t in 0..T {
                    let d = V::broadcast(digits.add(t * rows + row));
                    lo[u][t] = lo[u][t].dot(key_lo, d);
                    hi[u][t] = hi[u][t].dot(key_hi, d);
                }
            }
        }
        for t in 0..T {
            let (mut low, mut high) = (lo[0][t], hi[0][t]);
            for u in 1..U {
                (low, high) = (low.add(lo[u][t]), high.add(hi[u][t]));
            }
            let (mut lows, mut highs) = ([0; MOST_COLUMNS], [0; MOST_COLUMNS]);
            low.store(lows.as_mut_ptr());
            high.store(highs.as_mut_ptr());
            for (c, (l, h)) in lows.into_iter().zip(highs).enumerate().take(V::COLUMNS) {
                *sums.add(t * V::COLUMNS + c) += l as i64 + ((h as i64) << 16);
            }
        }
    }
}

/// The most columns of a panel.
const MOST_COLUMNS: usize = 16;

#[derive(Clone, Copy)]
struct Portable([i32; 8]);

impl Columns for Portable {
    const COLUMNS: usize = 8;
    const SLOW_CHAIN: bool = false;
    #[inline(always)]
    unsafe fn zero() -> Self {
        Portable([0; 8])
    }
    #[inline(always)]
    unsafe fn load(pairs: *const i16) -> Self {
        // SAFETY: the caller gives a pair for each column.
        Portable(unsafe { pairs.cast::<[i32; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn broadcast(pair: *const i16) -> Self {
        // SAFETY: the caller gives a pair.
        Portable([unsafe { pair.cast::<i32>().read_unaligned() }; 8])
    }
    #[inline(always)]
    unsafe fn dot(mut self, x: Self, y: Self) -> Self {
        for ((sum, x), y) in self.0.iter_mut().zip(x.0).zip(y.0) {
            *sum += (x as i16 as i32) * (y as i16 as i32) + (x >> 16) * (y >> 16);
        }
        self
    }
    #[inline(always)]
    unsafe fn add(mut self, other: Self) -> Self {
        for (sum, x) in self.0.iter_mut().zip(other.0) {
            *sum += x;
        }
        self
    }
    #[inline(always)]
    unsafe fn store(self, sums: *mut i32) {
        // SAFETY: the caller gives room for all columns.
        unsafe { sums.cast::<[i32; 8]>().write_unaligned(self.0) }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Columns, panels_of};
    use std::arch::x86_64::*;

    /// A vector of columns, and the entry function for it.
    macro_rules! level {
        ($entry:ident, $features:literal, $name:ident($inner:ty), columns $columns:literal, slow chain $slow:literal,
         $zero:ident $load:ident $set:ident $add:ident $store:ident,
         |$sum:ident, $x:ident, $y:ident| $dot:expr) => {
            #[derive(Clone, Copy)]
            struct $name($inner);

            impl Columns for $name {
                const COLUMNS: usize = $columns;
                const SLOW_CHAIN: bool = $slow;
                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: only the entry below comes here, and it has the instructions. So for all methods.
                    $name(unsafe { $zero() })
                }
                #[inline(always)]
                unsafe fn load(pairs: *const i16) -> Self {
                    // SAFETY: the caller gives a pair for each column.
                    $name(unsafe { $load(pairs.cast()) })
                }
                #[inline(always)]
                unsafe fn broadcast(pair: *const i16) -> Self {
                    // SAFETY: the caller gives a pair.
                    $name(unsafe { $set(pair.cast::<i32>().read_unaligned()) })
                }
                #[inline(always)]
                unsafe fn dot(self, x: Self, y: Self) -> Self {
                    let ($sum, $x, $y) = (self.0, x.0, y.0);
                    // SAFETY: arithmetic in registers.
                    $name(unsafe { $dot })
                }
                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: arithmetic in registers.
                    $name(unsafe { $add(self.0, other.0) })
                }
                #[inline(always)]
                unsafe fn store(self, sums: *mut i32) {
                    // SAFETY: the caller gives room for all columns.
                    unsafe { $store(sums.cast(), self.0) }
                }
                #[inline(always)]
                unsafe fn prefetch(pair: *const i16) {
                    // SAFETY: a prefetch reads nothing.
                    unsafe {
                        _mm_prefetch::<_MM_HINT_T1>(pair.cast());
                        if $columns == 16 {
                            _mm_prefetch::<_MM_HINT_T1>(pair.wrapping_add(32).cast());
                        }
                    }
                }
            }

            /// # Safety
            /// The shapes of [`super::multiply`], and a processor with these features.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $entry(
                rows: usize,
                key: &[i16],
                digits: &[i16],
                sums: &mut [i64],
            ) {
                // SAFETY: passed on.
                unsafe { panels_of::<$name>(rows, key, digits, sums) }
            }
        };
    }

    level!(
        avx2, "avx2", Ymm(__m256i), columns 8, slow chain false,
        _mm256_setzero_si256 _mm256_loadu_si256 _mm256_set1_epi32 _mm256_add_epi32 _mm256_storeu_si256,
        |sum, x, y| _mm256_add_epi32(sum, _mm256_madd_epi16(x, y))
    );
    level!(
        avx512, "avx512f,avx512bw", Zmm(__m512i), columns 16, slow chain false,
        _mm512_setzero_si512 _mm512_loadu_si512 _mm512_set1_epi32 _mm512_add_epi32 _mm512_storeu_si512,
        |sum, x, y| _mm512_add_epi32(sum, _mm512_madd_epi16(x, y))
    );
    level!(
        vnni, "avx512f,avx512bw,avx512vnni", ZmmVnni(__m512i), columns 16, slow chain true,
        _mm512_setzero_si512 _mm512_loadu_si512 _mm512_set1_epi32 _mm512_add_epi32 _mm512_storeu_si512,
        |sum, x, y| dpwssd(sum, x, y)
    );

    /// `_mm512_dpwssd_epi32`, which the compiler would take apart into two instructions where it fears the latency.
    ///
    /// # Safety
    /// The processor must have AVX-512 VNNI.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn dpwssd(mut sum: __m512i, x: __m512i, y: __m512i) -> __m512i {
        // SAFETY: one instruction on registers.
        unsafe {
            std::arch::asm!(
                "vpdpwssd {sum}, {x}, {y}",
                sum = inout(zmm_reg) sum,
                x = in(zmm_reg) x,
                y = in(zmm_reg) y,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        sum
    }
}
