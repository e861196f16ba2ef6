//! Hybrid key switching: from c·s to what is encrypted under s', by a key for each digit of the chain.
//!
//! c is cut into its residues modulo the digits D_j of the chain, each lifted to all primes and to the special ones;
//! Σ_j [c]_(D_j)·(b_j, a_j) is an encryption of P·c·s, and is divided by P = Π special primes, |D_j| ≤ P. The lift is to
//! the number nearest zero, so that the error is about √(digits·N/12)·σ·D/P, little beside that of the rounding.
//! Cost at ℓ words, α special, β digits: β(ℓ + α) + 2α + 3ℓ transforms, 2β(ℓ + α) products. A decomposition serves many
//! rotations (hoisting), and a division by P can take the next rescale with it.
//! Source: Han–Ki 2019; Bossuat et al. 2021 (hoisting).

use super::Context;
use crate::cipher::SwitchKey;
use crate::math::rns::{Scratch, centred};
use rayon::prelude::*;

/// The digits of a polynomial, each modulo all words of its level and the special words, as values.
pub(crate) struct Decomposed {
    count: usize,
    special: usize,
    digits: Vec<Scratch>,
}

/// A pair of polynomials modulo `count` words of the chain and special words, divided by P in the end.
#[derive(Clone)]
pub(crate) struct Raised {
    pub(crate) count: usize,
    pub(crate) parts: [Scratch; 2],
}

impl Context {
    /// Cuts a polynomial of `count` words into digits, for a key with `special` special words.
    pub(crate) fn decompose(&self, limbs: &[f64], count: usize, special: usize) -> Decomposed {
        let (ring, n) = (self.ring(), self.params().degree());
        let mut coefficients = ring.scratch(count * n);
        coefficients.copy_from_slice(&limbs[..count * n]);
        coefficients.par_chunks_mut(n).enumerate().for_each(|(i, x)| ring.backward(i, x));
        let digits = self.digits().iter().take_while(|d| d.start < count).map(|digit| {
            let digit = digit.start..digit.end.min(count);
            let own: Vec<usize> = digit.clone().collect();
            let words = self.words_of(count, special);
            let others: Vec<usize> = words.iter().copied().filter(|i| !own.contains(i)).collect();
            let converter = self.converter(own, others);
            let mut lifted = ring.scratch(converter.targets().len() * n);
            converter.convert(ring, &mut coefficients[digit.start * n..digit.end * n], &mut lifted);
            let mut out = ring.scratch(words.len() * n);
            out.par_chunks_mut(n).zip(&words).for_each(|(x, i)| {
                if digit.contains(i) {
                    x.copy_from_slice(&limbs[i * n..][..n]);
                } else if let Some(at) = converter.targets().iter().position(|t| t == i) {
                    x.copy_from_slice(&lifted[at * n..][..n]);
                    ring.forward(*i, x);
                }
            });
            out
        });
        Decomposed { count, special, digits: digits.collect() }
    }

    /// Σ_j digit_j·(b_j, a_j).
    pub(crate) fn inner_product(&self, digits: &Decomposed, key: &SwitchKey) -> Raised {
        let (ring, n, count) = (self.ring(), self.params().degree(), digits.count);
        let limbs = count + digits.special;
        let stored = key.count + key.special;
        let make = |rows: &[f64]| {
            let mut out = ring.scratch(limbs * n);
            out.par_chunks_mut(n).enumerate().for_each(|(i, x)| {
                let at = if i < count { i } else { key.count + i - count };
                let row = |j: usize| &rows[(j * stored + at) * n..][..n];
                let a: Vec<&[f64]> = digits.digits.iter().map(|d| &d[i * n..][..n]).collect();
                let b: Vec<&[f64]> = (0..a.len()).map(row).collect();
                ring.dot(self.word_of(i, count), x, &a, &b);
            });
            out
        };
        Raised { count, parts: [make(key.bodies.as_slice()), make(key.masks.as_slice())] }
    }

    /// `part ← part + P·limbs` in the words of the chain.
    pub(crate) fn add_raised(&self, part: &mut [f64], limbs: &[f64], count: usize) {
        self.add_raised_by(part, limbs, count, self.special());
    }

    /// [`Context::add_raised`] for the product of the first `special` special words.
    pub(crate) fn add_raised_by(
        &self,
        part: &mut [f64],
        limbs: &[f64],
        count: usize,
        special: usize,
    ) {
        let (ring, n) = (self.ring(), self.params().degree());
        part[..count * n].par_chunks_mut(n).zip(limbs.par_chunks(n)).enumerate().for_each(
            |(i, (x, y))| {
                let p = centred(self.special_product(special, i), ring.word(i).p);
                ring.scale_add(i, x, y, p);
            },
        );
    }

    /// Divides a polynomial of `count` words of the chain and `special` special ones by the special words and those from
    /// `keep` on, and rounds.
    pub(crate) fn divide(
        &self,
        limbs: &[f64],
        count: usize,
        keep: usize,
        special: usize,
    ) -> Scratch {
        let (ring, n) = (self.ring(), self.params().degree());
        let words = self.words_of(count, special);
        let from = words[keep..].to_vec();
        let mut source = ring.scratch(from.len() * n);
        source.copy_from_slice(&limbs[keep * n..words.len() * n]);
        source.par_chunks_mut(n).zip(&from).for_each(|(x, i)| ring.backward(*i, x));
        let mut lifted = ring.scratch(keep * n);
        self.converter(from.clone(), (0..keep).collect()).convert(ring, &mut source, &mut lifted);
        let mut out = ring.scratch(keep * n);
        out.par_chunks_mut(n).zip(lifted.par_chunks_mut(n)).enumerate().for_each(|(i, (x, y))| {
            ring.forward(i, y);
            x.copy_from_slice(&limbs[i * n..][..n]);
            ring.sub_scale(i, x, y, centred(self.inverse_product(&from, i), ring.word(i).p));
        });
        out
    }

    /// The image of a polynomial, limb by limb, under the permutation of an automorphism.
    pub(crate) fn permute(&self, limbs: &[f64], permutation: &[u32]) -> Scratch {
        let n = self.params().degree();
        let mut out = self.ring().scratch(limbs.len());
        out.par_chunks_mut(n).zip(limbs.par_chunks(n)).for_each(|(x, y)| {
            for (x, i) in x.iter_mut().zip(permutation) {
                *x = y[*i as usize];
            }
        });
        out
    }
}
