//! Products of uniform polynomials by the binary polynomials of a GLWE key: exact, for key generation and encryption.
//!
//! Modulo p by NTT. Modulo 2^64 the uniform factor is cut into signed halves of 32 bits: a product of a half by a binary
//! polynomial stays below 2^31·N ≤ 2^47, and the f64 FFT errs by some 2^-51 of that, far below the 1/2 that rounding
//! to the nearest integer forgives. Cost: 4 transforms a polynomial.

use super::lwe::fill_noise;
use crate::Result;
use crate::math::Modulus;
use crate::math::fft::FftPlan;
use crate::math::ntt::NttPlan;
use crate::math::random::NoiseStream;
use crate::math::round::nearest;
use crate::math::simd::Level;
use crate::params::Noise;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The polynomials S_1 … S_k of a GLWE key, transformed. Wiped when dropped.
pub(crate) struct BinaryPolynomials {
    n: usize,
    transformed: Transformed,
}

enum Transformed {
    Fourier(Arc<FftPlan>, Zeroizing<Vec<f64>>),
    Ntt(&'static NttPlan, Zeroizing<Vec<u64>>),
}

impl BinaryPolynomials {
    /// Prepares k polynomials of `n` bits, one a word.
    pub fn new(modulus: Modulus, n: usize, bits: &[u64]) -> Result<Self> {
        let transformed = match modulus {
            Modulus::Native => {
                let plan = FftPlan::get(n, Level::best())?;
                let mut s = Zeroizing::new(bits.iter().map(|b| *b as f64).collect::<Vec<f64>>());
                s.chunks_exact_mut(n).for_each(|s| plan.forward(s));
                Transformed::Fourier(plan, s)
            }
            Modulus::Goldilocks => {
                let plan = NttPlan::get(n)?;
                let mut s = Zeroizing::new(bits.to_vec());
                s.chunks_exact_mut(n).for_each(|s| plan.forward(Level::best(), s));
                Transformed::Ntt(plan, s)
            }
        };
        Ok(BinaryPolynomials { n, transformed })
    }

    /// `body = Σ A_j·S_j + e`: the body of an encryption of zero under the mask A_1 … A_k.
    pub fn encrypt_zero(
        &self,
        mask: &[u64],
        stream: &mut NoiseStream,
        noise: Noise,
        body: &mut [u64],
    ) {
        let mut errors = Zeroizing::new(vec![0i64; self.n]);
        fill_noise(stream, noise, Modulus::LOG2, &mut errors);
        self.multiply(mask, body);
        let q = match self.transformed {
            Transformed::Fourier(..) => Modulus::Native,
            Transformed::Ntt(..) => Modulus::Goldilocks,
        };
        for (b, e) in body.iter_mut().zip(errors.iter()) {
            *b = q.add(*b, q.from_signed(*e));
        }
    }

    /// `out = Σ A_j·S_j`.
    fn multiply(&self, mask: &[u64], out: &mut [u64]) {
        match &self.transformed {
            Transformed::Fourier(plan, secret) => {
                out.fill(0);
                for shift in [0, 32] {
                    self.add_half(plan, secret, mask, shift, out);
                }
            }
            Transformed::Ntt(plan, secret) => {
                out.fill(0);
                let mut a = vec![0u64; self.n];
                for (mask, s) in mask.chunks_exact(self.n).zip(secret.chunks_exact(self.n)) {
                    a.copy_from_slice(mask);
                    plan.forward(Level::best(), &mut a);
                    plan.multiply_add(Level::best(), out, &a, s);
                }
                plan.inverse(Level::best(), out);
            }
        }
    }

    /// Adds 2^shift times the product of one signed half of the mask.
    fn add_half(&self, plan: &FftPlan, secret: &[f64], mask: &[u64], shift: u32, out: &mut [u64]) {
        let mut half = vec![0f64; self.n];
        let mut sum = Zeroizing::new(vec![0f64; self.n]);
        for (mask, s) in mask.chunks_exact(self.n).zip(secret.chunks_exact(self.n)) {
            for (h, a) in half.iter_mut().zip(mask) {
                // The upper half takes the carry that makes the lower one signed.
                let a = a.wrapping_add(1 << 31);
                *h = if shift == 0 {
                    (a as u32 as f64) - 2f64.powi(31)
                } else {
                    (a >> 32) as i32 as f64
                };
            }
            plan.forward(&mut half);
            plan.multiply_accumulate(&mut sum, &half, s);
        }
        plan.inverse(&mut sum);
        let scale = 2.0 / self.n as f64;
        for (o, x) in out.iter_mut().zip(sum.iter()) {
            *o = o.wrapping_add((nearest(x * scale) as i64 as u64) << shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
    use crate::math::sampling::{binary, uniform};

    /// Against the definition, at the sizes between which the FFT's error grows.
    #[test]
    fn products_are_exact() {
        for (q, n, k) in
            [(Modulus::Native, 256, 3), (Modulus::Native, 2048, 1), (Modulus::Goldilocks, 512, 2)]
        {
            let mut mask = vec![0; k * n];
            uniform(&mut MaskStream::new(&PublicSeed([1; 32]), Domain::Test, 0), q, &mut mask);
            mask[..4].copy_from_slice(&[q.neg(1), 0, 1 << 31, q.neg(1 << 31)]);
            let mut bits = vec![0; k * n];
            binary(
                &mut NoiseStream::new(&SecretSeed::from_bytes(&mut [2; 32]), Domain::Test, 0),
                &mut bits,
            );
            let mut got = vec![0; n];
            BinaryPolynomials::new(q, n, &bits).unwrap().multiply(&mask, &mut got);
            let mut wanted = vec![0u64; n];
            for (at, bit) in bits.iter().enumerate().filter(|b| *b.1 == 1) {
                for (j, a) in mask[at / n * n..][..n].iter().enumerate() {
                    let to = at % n + j;
                    let w = &mut wanted[to % n];
                    *w = if to < n { q.add(*w, a * bit) } else { q.sub(*w, *a) };
                }
            }
            assert!(got == wanted, "{q:?} {n}");
        }
    }
}
