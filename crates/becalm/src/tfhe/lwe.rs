//! The two secret parts of an LWE body: the inner product of mask and key, and the error.

use crate::math::Modulus;
use crate::math::modulus::reduce128;
use crate::math::random::NoiseStream;
use crate::math::sampling;
use crate::params::Noise;

/// Draws errors in units of 2^-`modulus_log2`.
pub(crate) fn fill_noise(
    stream: &mut NoiseStream,
    noise: Noise,
    modulus_log2: u32,
    out: &mut [i64],
) {
    match noise {
        Noise::TUniform { bound_log2 } => sampling::t_uniform(stream, bound_log2, out),
        Noise::Gaussian { std } => {
            sampling::gaussian(stream, std * 2f64.powi(modulus_log2 as i32), out)
        }
    }
}

/// ⟨a, s⟩ for a binary `s`, without a branch on it. Reads as many words of `a` as `s` has.
pub(crate) fn inner_product(q: Modulus, a: &[u64], s: &[u64]) -> u64 {
    match q {
        Modulus::Native => {
            a.iter().zip(s).fold(0, |sum: u64, (a, s)| sum.wrapping_add(a.wrapping_mul(*s)))
        }
        Modulus::Goldilocks => {
            // Fewer than 2^64 terms below 2^64: the sum fits 128 bits.
            let sum = a.iter().zip(s).fold(0u128, |sum, (a, s)| sum + (a * s) as u128);
            reduce128(sum)
        }
    }
}
