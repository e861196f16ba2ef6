//! Between vectors of complex numbers and polynomials: slot j is the value at ζ^(5^j), ζ = e^(πi/N).
//!
//! A vector of n < N/2 values stands N/(2n) times in the slots, which makes a polynomial in X^(N/(2n)).
//! The transform is in doubles: relative error about 2^-50.

use super::Context;
use super::context::Eighth;
use crate::math::complex::Complex;
use crate::math::rns::{Ring, Scratch, TILE, centred, mul, pow};
use crate::{Error, Result};
use rayon::prelude::*;
use zeroize::Zeroizing;

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

/// Coefficients, rounded, as values modulo word `i` of a ring.
fn transformed<'a>(
    ring: &Ring,
    i: usize,
    coefficients: impl Iterator<Item = &'a f64>,
    limb: &mut [f64],
) {
    let p = ring.word(i).p;
    for (x, c) in limb.iter_mut().zip(coefficients) {
        *x = c.round_ties_even();
        if x.abs() >= 2f64.powi(70) {
            *x = residue(*x, p);
        }
    }
    ring.reduce(i, limb);
    ring.forward(i, limb);
}

impl Context {
    /// Refuses what cannot be encoded: more values than slots, a number that is no power of two, values that are not
    /// finite.
    pub(crate) fn check_values(&self, op: &'static str, values: &[Complex]) -> Result<()> {
        let (n, most) = (values.len(), self.params().slots());
        if n == 0 || !n.is_power_of_two() || n > most {
            let wanted = format!("a power of two of at most {most} values");
            return Err(Error::bad_input(
                op,
                wanted,
                n.to_string(),
                "pad with zeros, or split the vector",
            ));
        }
        match values.iter().position(|v| !v.re.is_finite() || !v.im.is_finite()) {
            Some(at) => {
                let got = format!("{:?} at position {at}", values[at]);
                Err(Error::bad_input(op, "finite values", got, "remove NaN and infinities"))
            }
            None => Ok(()),
        }
    }

    /// The N real coefficients of the polynomial that has `values` in its slots, times `scale`; not rounded.
    pub(crate) fn coefficients(&self, values: &[Complex], scale: f64) -> Vec<f64> {
        let mut data = vec![0.0; self.params().degree()];
        for (j, (re, im)) in self.slots().iter().enumerate() {
            let v = values[j % values.len()];
            (data[*re], data[*im]) = (v.re, v.im);
        }
        self.fft().inverse(&mut data);
        let factor = scale / self.params().slots() as f64;
        data.iter_mut().for_each(|x| *x *= factor);
        data
    }

    /// The values in all N/2 slots of a polynomial with real coefficients, divided by `scale`.
    pub(crate) fn values(&self, coefficients: Vec<f64>, scale: f64) -> Vec<Complex> {
        let mut coefficients = Zeroizing::new(coefficients);
        self.fft().forward(&mut coefficients);
        let value = |(re, im): &(usize, usize)| {
            Complex::new(coefficients[*re] / scale, coefficients[*im] / scale)
        };
        self.slots().iter().map(value).collect()
    }

    /// Coefficients, rounded, as values modulo the given words: a limb each.
    pub(crate) fn limbs(&self, coefficients: &[f64], words: &[usize]) -> Scratch {
        let (ring, n) = (self.ring(), coefficients.len());
        let mut out = ring.scratch(words.len() * n);
        let limbs = out.par_chunks_mut(n).zip(words);
        limbs.for_each(|(limb, i)| transformed(ring, *i, coefficients.iter(), limb));
        out
    }

    /// What [`Context::plain`] gives, of `values` that repeat after an eighth of the slots or sooner, so that the polynomial
    /// is one in X^8: a vector of eight for each tile, of a transform of an eighth of the size.
    pub(crate) fn plain_tiled(
        &self,
        values: &[Complex],
        scale: f64,
        level: usize,
        special: usize,
    ) -> Scratch {
        let (n, words) = (self.params().degree(), self.words_of(level, special));
        let coefficients = self.coefficients(values, scale);
        let mut out = self.ring().scratch(words.len() * n / 8);
        out.par_chunks_mut(n / 8).zip(&words).for_each(|(kept, i)| match self.eighth() {
            Some(Eighth { ring, order }) => {
                let mut limb = ring.scratch(n / 8);
                transformed(ring, *i, coefficients.iter().step_by(8), &mut limb);
                kept.iter_mut().zip(&order[*i]).for_each(|(x, k)| *x = limb[*k as usize]);
            }
            None => {
                let mut limb = self.ring().scratch(n);
                transformed(self.ring(), *i, coefficients.iter(), &mut limb);
                let tiles = kept.chunks_mut(8).zip(limb.chunks(TILE));
                tiles.for_each(|(x, tile)| x.copy_from_slice(&tile[..8]));
            }
        });
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
