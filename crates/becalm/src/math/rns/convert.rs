//! From the residues modulo the primes d_i of D = Π d_i to those modulo other primes m_j, of the number nearest zero.
//!
//! x = Σ_i y_i·(D/d_i) − v·D with y_i = x·(D/d_i)^-1 mod d_i and v = round(Σ y_i/d_i), the sum in doubles: exact but
//! for x within 2^-45 of ±D/2, where it may be off by one D, which key switching and rescaling bear.
//! Source: Halevi–Polyakov–Shoup 2018, §2.

use super::eight::{Eight, leveled};
use super::ntt::{Modulo, Word, centred};
use super::{Ring, prime};
use crate::math::simd::Level;
use rayon::prelude::*;

/// Coefficients converted at a time: all of their residues stay in the second cache.
const CHUNK: usize = 1024;
/// Products that are summed between two reductions.
const TERMS: usize = 7;

/// The constants of one conversion.
pub(crate) struct Converter {
    /// Indices of the d_i.
    from: Vec<usize>,
    /// Indices of the m_j.
    to: Vec<usize>,
    /// (D/d_i)^-1 mod d_i.
    cofactors: Vec<f64>,
    /// D/d_i mod m_j: row j.
    factors: Vec<f64>,
    /// −D mod m_j.
    product: Vec<f64>,
}

/// The product of all but one of `factors` modulo p.
fn product(factors: &[u64], but: Option<usize>, p: u64) -> u64 {
    let others = factors.iter().enumerate().filter(|(i, _)| Some(*i) != but);
    others.fold(1, |a, (_, f)| prime::mul(a, f % p, p))
}

impl Converter {
    /// From words `from` of the ring to words `to`.
    pub(crate) fn new(ring: &Ring, from: Vec<usize>, to: Vec<usize>) -> Converter {
        let d: Vec<u64> = from.iter().map(|i| ring.word(*i).p).collect();
        let cofactor =
            |(i, p): (usize, &u64)| centred(prime::inverse(product(&d, Some(i), *p), *p), *p);
        let cofactors = d.iter().enumerate().map(cofactor).collect();
        let (mut factors, mut negated) = (vec![], vec![]);
        for p in to.iter().map(|j| ring.word(*j).p) {
            factors.extend((0..d.len()).map(|i| centred(product(&d, Some(i), p), p)));
            negated.push(-centred(product(&d, None, p), p));
        }
        Converter { from, to, cofactors, factors, product: negated }
    }

    /// Words converted to.
    pub(crate) fn targets(&self) -> &[usize] {
        &self.to
    }

    /// `source`: one limb of coefficients per word of `from`, spoilt; `out`: one per word of `to`.
    pub(crate) fn convert(&self, ring: &Ring, source: &mut [f64], out: &mut [f64]) {
        let (n, level) = (ring.size(), ring.level());
        assert!(source.len() == self.from.len() * n && out.len() == self.to.len() * n, "limbs");
        let mut quotient = ring.scratch(n);
        source.par_chunks_mut(n).zip(&self.from).zip(&self.cofactors).for_each(|((x, i), c)| {
            super::pointwise::scale(level, ring.word(*i), x, *c);
        });
        let words: Vec<&Word> = self.from.iter().map(|i| ring.word(*i)).collect();
        quotients(level, &words, source, &mut quotient);
        let each = self.to.len().div_ceil(rayon::current_num_threads()).max(1);
        out.par_chunks_mut(each * n).enumerate().for_each(|(part, out)| {
            for at in (0..n).step_by(CHUNK.min(n)) {
                for (k, limb) in out.chunks_exact_mut(n).enumerate() {
                    let j = part * each + k;
                    let row = &self.factors[j * self.from.len()..][..self.from.len()];
                    let constants = (row, self.product[j]);
                    let word = ring.word(self.to[j]);
                    let out = &mut limb[at..at + CHUNK.min(n)];
                    combine(level, word, out, source, &quotient, constants, at);
                }
            }
        });
    }
}

leveled! { fn quotients(words: &[&Word], source: &[f64], out: &mut [f64]) = quotients_all }
leveled! {
    fn combine(
        word: &Word,
        out: &mut [f64],
        source: &[f64],
        quotient: &[f64],
        constants: (&[f64], f64),
        at: usize,
    ) = combine_all
}

/// `out ← round(Σ_i y_i/d_i)`.
#[inline(always)]
unsafe fn quotients_all<V: Eight>(words: &[&Word], source: &[f64], out: &mut [f64]) {
    assert_eq!(source.len(), words.len() * out.len(), "a limb for each word");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        for j in (0..out.len()).step_by(8) {
            let mut sum = V::splat(0.0);
            for (i, word) in words.iter().enumerate() {
                let y = V::load(source.as_ptr().add(i * out.len() + j));
                sum = sum.add(y.mul(V::splat(word.inverse)));
            }
            sum.round().store(out.as_mut_ptr().add(j));
        }
    }
}

/// `out ← Σ_i y_i·c_i + v·c`, for the coefficients from `at` on.
#[inline(always)]
unsafe fn combine_all<V: Eight>(
    word: &Word,
    out: &mut [f64],
    source: &[f64],
    quotient: &[f64],
    (factors, product): (&[f64], f64),
    at: usize,
) {
    let n = quotient.len();
    assert!(source.len() == n * factors.len() && at + out.len() <= n, "a limb for each factor");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        let k = Modulo::<V>::new(word);
        for j in (0..out.len()).step_by(8) {
            let v = V::load(quotient.as_ptr().add(at + j));
            let mut sum = k.mul(v, V::splat(product));
            for (i, c) in factors.iter().enumerate() {
                if i % TERMS == TERMS - 1 {
                    sum = k.reduce(sum);
                }
                let y = V::load(source.as_ptr().add(i * n + at + j));
                sum = sum.add(k.mul(y, V::splat(*c)));
            }
            k.reduce(sum).store(out.as_mut_ptr().add(j));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number below D/2 in absolute value keeps its value; the boundary is met from both sides.
    #[test]
    fn small_numbers_keep_their_value() {
        let n = 128;
        let mut primes: Vec<u64> = vec![];
        for bits in [30.0, 30.0, 48.0, 50.0, 28.0] {
            primes.push(prime::nearest(f64::exp2(bits), 256, &primes).unwrap());
        }
        for &level in Level::available() {
            let ring = Ring::new(n, &primes, level).unwrap();
            let converter = Converter::new(&ring, vec![0, 1], vec![2, 3, 4]);
            let d = (primes[0] * primes[1]) as i64;
            let numbers: Vec<i64> = (0..n as i64)
                .map(|i| match i % 4 {
                    0 => i - 64,
                    1 => d / 2 - 100_000 * (i + 1),
                    2 => -(d / 2) + 100_000 * (i + 1),
                    _ => (d / 97) * (i - 64) / 2,
                })
                .collect();
            let limb = |p: u64| {
                let centre = move |x: &i64| centred(x.rem_euclid(p as i64) as u64, p);
                numbers.iter().map(centre).collect::<Vec<f64>>()
            };
            let mut source = [limb(primes[0]), limb(primes[1])].concat();
            let mut out = vec![0.0; 3 * n];
            converter.convert(&ring, &mut source, &mut out);
            for (limb, p) in out.chunks(n).zip(&primes[2..]) {
                for (x, wanted) in limb.iter().zip(&numbers) {
                    let p = *p as i64;
                    assert_eq!((*x as i64).rem_euclid(p), wanted.rem_euclid(p));
                }
            }
        }
    }
}
