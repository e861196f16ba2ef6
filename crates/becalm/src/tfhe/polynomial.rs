//! Products of uniform polynomials by a binary secret one: exact, for key generation and encryption.

use super::encrypt::fill_noise;
use crate::Result;
use crate::math::Modulus;
use crate::math::random::NoiseStream;
use crate::params::Noise;
use zeroize::Zeroizing;

/// The polynomials S_1 … S_k of a GLWE key, ready to multiply.
pub(crate) struct BinaryPolynomials<'a> {
    modulus: Modulus,
    n: usize,
    bits: &'a [u64],
}

impl<'a> BinaryPolynomials<'a> {
    /// Prepares k polynomials of `n` bits.
    pub fn new(modulus: Modulus, n: usize, bits: &'a [u64]) -> Result<Self> {
        Ok(BinaryPolynomials { modulus, n, bits })
    }

    /// `body = Σ A_j·S_j + e`: the body of an encryption of zero under the mask A_1 … A_k.
    pub fn encrypt_zero(&self, mask: &[u64], stream: &mut NoiseStream, noise: Noise, body: &mut [u64]) {
        let q = self.modulus;
        let mut errors = Zeroizing::new(vec![0i64; self.n]);
        fill_noise(stream, noise, Modulus::LOG2, &mut errors);
        for (b, e) in body.iter_mut().zip(errors.iter()) {
            *b = q.from_signed(*e);
        }
        for (a, s) in mask.chunks_exact(self.n).zip(self.bits.chunks_exact(self.n)) {
            for (i, bit) in s.iter().enumerate() {
                for (j, x) in a.iter().enumerate() {
                    let at = (i + j) % self.n;
                    body[at] = if i + j < self.n { q.add(body[at], x * bit) } else { q.sub(body[at], x * bit) };
                }
            }
        }
    }
}
