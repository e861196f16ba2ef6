//! Which vector instructions this run uses: one binary, chosen once at run time.
//!
//! Kernels are written once, generic over a vector type, `#[inline(always)]`, and entered through one
//! `#[target_feature]` function per level.

use crate::{Error, Result};
use std::sync::OnceLock;

/// A set of vector instructions. Ordered: a later level has all that an earlier one has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust, any processor.
    Portable,
    /// AVX2 and FMA (x86-64-v3).
    Avx2,
    /// AVX-512 F, DQ, BW, VL (x86-64-v4).
    Avx512,
}

impl Level {
    /// Every level that this processor can run, slowest first.
    pub fn available() -> &'static [Level] {
        static LEVELS: OnceLock<Vec<Level>> = OnceLock::new();
        LEVELS.get_or_init(|| {
            // Other processors have no more than the first.
            #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut))]
            let mut levels = vec![Level::Portable];
            #[cfg(target_arch = "x86_64")]
            {
                let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
                if avx2 {
                    levels.push(Level::Avx2);
                }
                let wide = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl");
                if avx2 && wide {
                    levels.push(Level::Avx512);
                }
            }
            levels
        })
    }

    /// The level used by default: the best available, or the one named by the environment variable `BECALM_SIMD`
    /// (`portable`, `avx2`, `avx512`) if this processor has it. Backends refuse other names.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| {
            let asked = std::env::var("BECALM_SIMD").ok().and_then(|n| Level::named(&n).ok());
            let levels = Level::available();
            asked.unwrap_or(levels[levels.len() - 1])
        })
    }

    /// The level of a name.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a name that is no level, or that of one which this processor does not have.
    pub fn named(name: &str) -> Result<Level> {
        let all = Level::available();
        let found = all.iter().copied().find(|l| l.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|l| l.name()).collect();
            let wanted = format!("vector instructions of this processor: {}", names.join(", "));
            let remedy = "choose one of these, also in the environment variable BECALM_SIMD";
            Error::unsupported("cpu", wanted, name, remedy)
        })
    }

    /// Refuses a `BECALM_SIMD` that names no level of this processor.
    ///
    /// # Errors
    /// As [`Level::named`].
    pub(crate) fn check_environment() -> Result<()> {
        std::env::var("BECALM_SIMD").map_or(Ok(()), |name| Level::named(&name).map(drop))
    }

    /// The name that `BECALM_SIMD` takes.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }
}

/// Asks for the cache line at `p`, into the second-level cache. Any address will do.
#[inline(always)]
pub(crate) fn prefetch(p: *const f64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, and SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}
