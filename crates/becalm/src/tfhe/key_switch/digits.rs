//! Signed gadget digits of mask elements, as 16-bit factors.
//!
//! c, the representative of least absolute value, is rounded to r = ⌊c/2^(64−Bℓ)⌉ and r = Σ_l d_l·B^(ℓ−l) with balanced
//! digits in [−B/2, B/2), from the least significant; the most significant takes what remains (at most +B/2).

use super::kernel::Path;
use crate::math::Modulus;
use crate::math::gadget::Gadget;

/// Elements decomposed together.
const LANES: usize = 8;

/// How elements become digits.
#[derive(Clone, Copy)]
pub(super) struct Digits {
    gadget: Gadget,
    modulus: Modulus,
}

impl Digits {
    pub(super) fn new(gadget: Gadget, modulus: Modulus) -> Self {
        Digits { gadget, modulus }
    }

    /// Digits of `elements`: ℓ × padded, level 1 first, padded = `elements.len()` up to a multiple of 8 with zeros.
    pub(super) fn decompose(self, path: Path, elements: &[u64], digits: &mut [i16]) {
        match path {
            Path::Portable => self.all(elements, digits),
            // SAFETY: a path is only made where the processor has its instructions.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => unsafe { self.all_avx2(elements, digits) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 | Path::Vnni => unsafe { self.all_avx512(elements, digits) },
        }
    }

    /// # Safety
    /// The processor must have AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn all_avx2(self, elements: &[u64], digits: &mut [i16]) {
        self.all(elements, digits)
    }

    /// # Safety
    /// The processor must have AVX-512 F, DQ, BW and VL.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
    unsafe fn all_avx512(self, elements: &[u64], digits: &mut [i16]) {
        self.all(elements, digits)
    }

    #[inline(always)]
    fn all(self, elements: &[u64], digits: &mut [i16]) {
        let padded = digits.len() / self.gadget.level as usize;
        let (whole, rest) = elements.as_chunks::<LANES>();
        for (i, eight) in whole.iter().enumerate() {
            self.eight(eight, padded, &mut digits[i * LANES..]);
        }
        if !rest.is_empty() {
            let mut eight = [0; LANES];
            eight[..rest.len()].copy_from_slice(rest);
            self.eight(&eight, padded, &mut digits[whole.len() * LANES..]);
        }
    }

    /// Eight elements; digits of a level go to `digits[level·padded..][..8]`.
    #[inline(always)]
    fn eight(self, elements: &[u64; LANES], padded: usize, digits: &mut [i16]) {
        let Gadget { base_log, level } = self.gadget;
        let dropped = 64 - base_log * level;
        let mut state = [0i64; LANES];
        for (state, a) in state.iter_mut().zip(elements) {
            let c = self.modulus.to_signed(*a);
            // Twice a half shift: the half bit without a shift of 64 or −1 when nothing is dropped.
            let half = ((c as u64) << 1 >> dropped) & (dropped != 0) as u64 & 1;
            *state = (c >> dropped) + half as i64;
        }
        for l in (1..level as usize).rev() {
            let out = &mut digits[l * padded..l * padded + LANES];
            for (d, state) in out.iter_mut().zip(&mut state) {
                *d = ((*state as i16) << (16 - base_log)) >> (16 - base_log);
                // A negative digit borrows one from the level above.
                *state = (*state >> base_log) + ((*state >> (base_log - 1)) & 1);
            }
        }
        for (d, state) in digits[..LANES].iter_mut().zip(state) {
            *d = state as i16;
        }
    }
}
