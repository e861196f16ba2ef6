//! Between vectors of complex numbers and polynomials: slot j is the value at ζ^(5^j), ζ = e^(πi/N).
//!
//! A vector of n < N/2 values stands N/(2n) times in the slots, which makes a polynomial in X^(N/(2n)).
//! The transform is in doubles: relative error about 2^-50.

use super::Context;
use super::context::Eighth;
use crate::math::complex::Complex;
use crate::math::fft::FftPlan;
use crate::math::parallel::*;
use crate::math::rns::{Ring, Scratch, TILE, centred, mul, pow};
use crate::math::round::{nearest, without_subnormals};
use zeroize::{Zeroize, Zeroizing};

/// `x` modulo p, nearest to zero, for an integer `x` of any size.
pub(crate) fn residue(x: f64, p: u64) -> f64 {
    let (bits, exponent) = (x.abs().to_bits(), ((x.abs().to_bits() >> 52) as i32 - 1075).max(0));
    let magnitude = if exponent == 0 {
        x.abs() as u64 % p
    } else {
        let mantissa = (bits & ((1 << 52) - 1)) | 1 << 52;
        mul(mantissa % p, pow(2, exponent as u64, p), p)
    };
    if x < 0.0 { -centred(magnitude, p) } else { centred(magnitude, p) }
}

/// Log2 of the bound on numbers that the vectorised rounding takes.
const ROUNDED_BITS: i32 = 70;

/// Whether the vectors' way of rounding does for these. Not for secret ones: what is done then takes its time by their size.
fn small(coefficients: &[f64]) -> bool {
    let largest = coefficients.iter().fold(0.0, |most, c| f64::max(most, c.abs()));
    largest < 2f64.powi(ROUNDED_BITS)
}

/// Coefficients, rounded, modulo word `i` of a ring, as values.
fn transformed(ring: &Ring, i: usize, (coefficients, small): (&[f64], bool), limb: &mut [f64]) {
    if small {
        ring.round(i, limb, coefficients);
    } else {
        let p = ring.word(i).p;
        let limb = limb.iter_mut().zip(coefficients);
        limb.for_each(|(x, c)| *x = residue(c.round_ties_even(), p));
    }
    ring.forward(i, limb);
}

/// The real coefficients of the polynomial that has `values`, a power of two of them, in its slots, again and again, times
/// `scale`; not rounded.
fn embedded(plan: &FftPlan, slots: &[(usize, usize)], values: &[Complex], scale: f64) -> Vec<f64> {
    let mut data = vec![0.0; 2 * slots.len()];
    for ((re, im), v) in slots.iter().zip(values.iter().cycle()) {
        (data[*re], data[*im]) = (without_subnormals(v.re), without_subnormals(v.im));
    }
    plan.inverse(&mut data);
    let factor = scale / slots.len() as f64;
    data.iter_mut().for_each(|x| *x *= factor);
    data
}

/// Log2 of the bound on the coefficients of a message to encrypt.
pub(crate) const MESSAGE_BITS: i32 = 2 * ROUNDED_BITS - 1;

/// Writes zeros over decrypted values.
pub(super) fn wipe(values: &mut [Complex]) {
    for v in values {
        v.re.zeroize();
        v.im.zeroize();
    }
}

impl Context {
    /// The N real coefficients of the polynomial that has `values` in its slots, times `scale`; not rounded.
    pub(crate) fn coefficients(&self, values: &[Complex], scale: f64) -> Vec<f64> {
        embedded(self.fft(), self.slots(), values, scale)
    }

    /// The values in all N/2 slots of a polynomial with real coefficients, divided by `scale`.
    pub(crate) fn values(&self, coefficients: Vec<f64>, scale: f64) -> Vec<Complex> {
        let mut coefficients = Zeroizing::new(coefficients);
        self.fft().forward(&mut coefficients);
        // Not by a division, which takes its time by what is divided on some processors.
        let unit = 1.0 / scale;
        let value = |(re, im): &(usize, usize)| {
            Complex::new(coefficients[*re] * unit, coefficients[*im] * unit)
        };
        self.slots().iter().map(value).collect()
    }

    /// Coefficients, rounded, as values modulo the given words: a limb each.
    pub(crate) fn limbs(&self, coefficients: &[f64], words: &[usize]) -> Scratch {
        let (ring, n) = (self.ring(), coefficients.len());
        let (mut out, coefficients) =
            (ring.scratch(words.len() * n), (coefficients, small(coefficients)));
        let limbs = out.par_chunks_mut(n).zip(words);
        limbs.for_each(|(limb, i)| transformed(ring, *i, coefficients, limb));
        out
    }

    /// Coefficients of a secret message below 2^[`MESSAGE_BITS`], rounded, plus noise of small integers. The operations do not
    /// depend on them: x = low + 2^70·high, |low| ≤ 2^69, both for every coefficient of any size.
    pub(crate) fn noisy_limbs(
        &self,
        coefficients: &[f64],
        noise: &[f64],
        words: &[usize],
    ) -> Scratch {
        let (ring, n, unit) = (self.ring(), coefficients.len(), 2f64.powi(ROUNDED_BITS));
        let high = coefficients.iter().map(|x| nearest(x * (1.0 / unit)));
        let high = Zeroizing::new(high.collect::<Vec<f64>>());
        let low = coefficients.iter().zip(high.iter()).map(|(x, h)| x - h * unit);
        let low = Zeroizing::new(low.collect::<Vec<f64>>());
        let mut out = ring.scratch(words.len() * n);
        out.par_chunks_mut(n).zip(words).for_each(|(limb, i)| {
            ring.round(*i, limb, &high);
            ring.scale(*i, limb, residue(unit, ring.word(*i).p));
            ring.add_rounded(*i, limb, &low);
            ring.add(*i, limb, noise);
            ring.forward(*i, limb);
        });
        out
    }

    /// The result of [`Context::plain`] for `values` that repeat after an eighth of the slots or sooner, so that the polynomial
    /// is one in X^8: a vector of eight for each tile, of a transform of an eighth of the size.
    pub(crate) fn plain_tiled(
        &self,
        values: &[Complex],
        scale: f64,
        level: usize,
        special: usize,
    ) -> Scratch {
        let (n, words) = (self.params().degree(), self.words_of(level, special));
        let mut out = self.ring().scratch(words.len() * n / 8);
        if let Some(Eighth { ring, fft, slots, order }) = self.eighth() {
            let values = &values[..values.len().min(slots.len())];
            let coefficients = embedded(fft, slots, values, scale);
            let coefficients = (&coefficients[..], small(&coefficients));
            out.par_chunks_mut(n / 8).zip(&words).for_each(|(kept, i)| {
                let mut limb = ring.scratch(n / 8);
                transformed(ring, *i, coefficients, &mut limb);
                kept.iter_mut().zip(&order[*i]).for_each(|(x, k)| *x = limb[*k as usize]);
            });
            return out;
        }
        let whole = self.plain(values, scale, level, special);
        for (x, tile) in out.chunks_mut(8).zip(whole.chunks(TILE)) {
            x.copy_from_slice(&tile[..8]);
        }
        out
    }

    /// `values` at `scale` as a polynomial modulo the words of `level` and `special` special ones.
    pub(crate) fn plain(
        &self,
        values: &[Complex],
        scale: f64,
        level: usize,
        special: usize,
    ) -> Scratch {
        self.limbs(&self.coefficients(values, scale), &self.words_of(level, special))
    }

    /// The coefficients of a polynomial given by limbs of values of the first words of `level`, as numbers nearest to zero.
    /// Mixed radix over at most three words: right for coefficients below half their product.
    pub(crate) fn integers(&self, limbs: &[f64], level: usize) -> Vec<f64> {
        let (ring, n) = (self.ring(), self.params().degree());
        let count = (limbs.len() / n).min(3);
        let mut digits: Vec<Zeroizing<Vec<f64>>> = vec![];
        let word = |i| self.word_of(level, i);
        for i in 0..count {
            let mut x = Zeroizing::new(limbs[i * n..][..n].to_vec());
            let i = word(i);
            ring.backward(i, &mut x);
            for (k, digit) in digits.iter().enumerate() {
                let p = ring.word(i).p;
                let inverse = self.inverse_product(&[word(k)], i);
                ring.sub_scale(i, &mut x, digit, centred(inverse, p));
            }
            ring.reduce(i, &mut x);
            digits.push(x);
        }
        let mut out = vec![0.0; n];
        for (i, digit) in digits.iter().enumerate().rev() {
            let p = ring.word(word(i)).prime;
            out.iter_mut().zip(digit.iter()).for_each(|(x, d)| *x = *x * p + d);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::CkksParams;

    /// Messages of all sizes are encoded by the same steps, and rightly.
    #[test]
    fn large_messages_are_encoded_as_small_ones_are() {
        let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
        let (ring, n) = (context.ring(), context.params().degree());
        let size = |j: usize| 2f64.powi((j % (MESSAGE_BITS as usize + 1)) as i32) * 0.999;
        let message: Vec<f64> =
            (0..n).map(|j| size(j) * if j % 3 == 0 { -1.0 } else { 1.0 }).collect();
        let noise: Vec<f64> = (0..n).map(|j| (j % 9) as f64 - 4.0).collect();
        let words = context.words_of(3, 0);
        let mut limbs = context.noisy_limbs(&message, &noise, &words);
        for (limb, i) in limbs.chunks_mut(n).zip(&words) {
            let p = ring.word(*i).p;
            ring.backward(*i, limb);
            for (j, x) in limb.iter().enumerate() {
                let wanted = residue(message[j].round_ties_even(), p) + noise[j];
                assert_eq!((x - wanted) % p as f64, 0.0, "{} modulo {p}", message[j]);
            }
        }
    }
}
