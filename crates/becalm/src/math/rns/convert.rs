//! From the residues modulo the primes d_i of D = Π d_i to those modulo other primes m_j, of the number nearest zero.
//!
//! x = Σ_i y_i·(D/d_i) − v·D with y_i = x·(D/d_i)^-1 mod d_i and v = round(Σ y_i/d_i), the sum in doubles: exact but
//! for x within 2^-45 of ±D/2, where it may be off by one D, which key switching and rescaling bear.
//! Source: Halevi–Polyakov–Shoup 2018, §2.

use super::eight::{Eight, leveled};
use super::ntt::{Modulo, Word, centred};
use super::{Ring, Scratch, prime};
use crate::math::parallel::*;
use crate::math::simd::{Level, prefetch};

/// Coefficients whose residues lie together: rows that are a power of two apart would push each other out of the cache.
const CHUNK: usize = 256;
/// Magic number of lazy sums below 2^101; low parts of this many products, 2^49 each, gather below 2^53.
const MAGIC: f64 = 1.5 * ((1u128 << 102) as f64);
const TERMS: usize = 14;

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
    /// Products between two reductions.
    terms: usize,
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
        // |y_i| ≤ d_i/2, and factors are below 2^49.
        let largest = d.iter().max().map_or(1.0, |p| *p as f64 / 2.0);
        let terms = ((f64::exp2(101.0 - 49.0) / largest) as usize).clamp(1, TERMS);
        let all: f64 = d.iter().map(|p| *p as f64 / 2.0).sum();
        let terms = if all < f64::exp2(101.0 - 49.0) { TERMS } else { terms };
        Converter { from, to, cofactors, factors, product: negated, terms }
    }

    /// (D/d_i)^-1 mod d_i of each source.
    pub(crate) fn cofactors(&self) -> &[f64] {
        &self.cofactors
    }

    /// 1/d_i of each source.
    pub(crate) fn inverses(&self, ring: &Ring) -> Vec<f64> {
        self.from.iter().map(|i| ring.word(*i).inverse).collect()
    }

    /// D/d_i of each source and −D modulo target number `t`.
    pub(crate) fn target(&self, t: usize) -> (&[f64], f64) {
        let rows = self.from.len();
        (&self.factors[t * rows..][..rows], self.product[t])
    }

    /// Products between two reductions.
    pub(crate) fn terms(&self) -> usize {
        self.terms
    }

    /// The part of a conversion that all targets share: y_i and v, chunk by chunk. `source` has a limb of coefficients for each word
    /// of `from`.
    pub(crate) fn prepare(&self, ring: &Ring, source: &[f64]) -> Prepared {
        let (n, rows, level) = (ring.size(), self.from.len(), ring.level());
        assert_eq!(source.len(), rows * n, "a limb for each word");
        let chunk = CHUNK.min(n);
        let words: Vec<&Word> = self.from.iter().map(|i| ring.word(*i)).collect();
        let mut rows_of = ring.scratch((rows + 1) * n);
        rows_of.par_chunks_mut((rows + 1) * chunk).enumerate().for_each(|(at, out)| {
            prepare(level, &words, out, source, &self.cofactors, at * chunk);
        });
        Prepared { rows: rows_of }
    }

    /// Coefficients modulo the targets from number `first` on, a limb of `out` each.
    pub(crate) fn finish(&self, ring: &Ring, prepared: &Prepared, first: usize, out: &mut [f64]) {
        let (n, rows, level) = (ring.size(), self.from.len(), ring.level());
        let (chunk, count) = (CHUNK.min(n), out.len() / n);
        ring.count(1, rows * count);
        assert!(first + count <= self.to.len() && out.len() == count * n, "limbs");
        for (part, limbs) in out.chunks_mut(ABREAST * n).enumerate() {
            let first = first + part * ABREAST;
            let words: Vec<&Word> =
                self.to[first..].iter().take(limbs.len() / n).map(|i| ring.word(*i)).collect();
            let factors = &self.factors[first * rows..][..words.len() * rows];
            let products = &self.product[first..][..words.len()];
            for (at, source) in prepared.rows.chunks((rows + 1) * chunk).enumerate() {
                let at = [at * chunk, self.terms];
                combine(level, &words, limbs, source, (factors, products), at);
            }
        }
    }
}

/// Limbs of one conversion that are made together.
const ABREAST: usize = 4;

/// Residues of coefficients made ready for conversion.
pub(crate) struct Prepared {
    /// For each chunk the rows y_i and then v.
    rows: Scratch,
}

leveled! {
    prepare(words: &[&Word], out: &mut [f64], source: &[f64], cofactors: &[f64], at: usize) = prepare_all
}
leveled! {
    combine(
        words: &[&Word],
        out: &mut [f64],
        source: &[f64],
        constants: (&[f64], &[f64]),
        at: [usize; 2],
    ) = combine_all
}

/// Rows `y_i` = cofactor·source_i and `v` = round(Σ y_i/d_i), of the coefficients from `at` on.
#[inline(always)]
unsafe fn prepare_all<V: Eight>(
    words: &[&Word],
    out: &mut [f64],
    source: &[f64],
    cofactors: &[f64],
    at: usize,
) {
    let (rows, chunk) = (words.len(), out.len() / (words.len() + 1));
    let n = source.len() / rows.max(1);
    assert!(source.len() == rows * n && cofactors.len() == rows, "a limb for each word");
    assert!(out.len() == (rows + 1) * chunk && chunk.is_multiple_of(8), "whole vectors");
    assert!(at + chunk <= n, "coefficients that there are");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        let out = out.as_mut_ptr();
        let quotient = out.add(rows * chunk);
        for j in (0..chunk).step_by(8) {
            V::splat(0.0).store(quotient.add(j));
        }
        for (i, word) in words.iter().enumerate() {
            let (k, c) = (Modulo::<V>::new(word), V::splat(cofactors[i]));
            let inverse = V::splat(word.inverse);
            for j in (0..chunk).step_by(8) {
                let y = k.reduce(k.mul(V::load(source.as_ptr().add(i * n + at + j)), c));
                y.store(out.add(i * chunk + j));
                V::load(quotient.add(j)).add(y.mul(inverse)).store(quotient.add(j));
            }
        }
        for j in (0..chunk).step_by(8) {
            V::load(quotient.add(j)).round().store(quotient.add(j));
        }
    }
}

/// `out_t ← Σ_i y_i·c_ti + v·c_t` for one chunk, the coefficients from `at` on, with `terms` products between two reductions.
#[inline(always)]
unsafe fn combine_all<V: Eight>(
    words: &[&Word],
    out: &mut [f64],
    source: &[f64],
    (factors, products): (&[f64], &[f64]),
    [at, terms]: [usize; 2],
) {
    let rows = factors.len() / words.len().max(1);
    let (n, chunk) = (out.len() / words.len().max(1), source.len() / (rows + 1));
    assert!(factors.len() == rows * words.len() && products.len() == words.len(), "constants");
    assert!(source.len() == (rows + 1) * chunk && chunk.is_multiple_of(8), "whole vectors");
    assert!(out.len() == n * words.len() && at + chunk <= n, "limbs");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        let (out, source) = (out.as_mut_ptr().add(at), source.as_ptr());
        let (factors, products) = (factors.as_ptr(), products.as_ptr());
        let (mut t, size) = (0, [n, chunk, rows, terms]);
        while t < words.len() {
            let (out, f, p) = (out.add(t * n), factors.add(t * rows), products.add(t));
            if V::MANY && t + 4 <= words.len() {
                combine_some::<V, 4>(&words[t..], out, source, f, p, size);
                t += 4;
            } else if t + 2 <= words.len() {
                combine_some::<V, 2>(&words[t..], out, source, f, p, size);
                t += 2;
            } else {
                combine_some::<V, 1>(&words[t..], out, source, f, p, size);
                t += 1;
            }
        }
    }
}

/// [`combine_all`] for T targets: limbs of `n` values, rows of `chunk`.
#[inline(always)]
unsafe fn combine_some<V: Eight, const T: usize>(
    words: &[&Word],
    out: *mut f64,
    source: *const f64,
    factors: *const f64,
    products: *const f64,
    [n, chunk, rows, terms]: [usize; 4],
) {
    // SAFETY: promised by the caller.
    unsafe {
        let magic = V::splat(MAGIC);
        let mut k = [Modulo::<V>::new(words[0]); T];
        for t in 0..T {
            k[t] = Modulo::<V>::new(words[t]).with_magic(magic);
        }
        for j in (0..chunk).step_by(8) {
            // The next chunk lies behind this one; rows are too short for the processor to see them coming.
            for i in 0..=rows {
                prefetch(source.wrapping_add((rows + 1 + i) * chunk + j));
            }
            let v = V::load(source.add(rows * chunk + j));
            let mut sums = [k[0].lazy(v); T];
            for t in 0..T {
                sums[t] = k[t].lazy(k[t].mul(v, V::splat(*products.add(t))));
            }
            let mut start = 0;
            loop {
                let end = rows.min(start + terms);
                for i in start..end {
                    let y = V::load(source.add(i * chunk + j));
                    for t in 0..T {
                        sums[t] = k[t].gather(sums[t], y, V::splat(*factors.add(t * rows + i)));
                    }
                }
                for t in 0..T {
                    sums[t] = k[t].lazy(k[t].settle(sums[t]));
                }
                start = end;
                if end == rows {
                    break;
                }
            }
            for t in 0..T {
                k[t].settled(sums[t]).store(out.add(t * n + j));
            }
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
            let source = [limb(primes[0]), limb(primes[1])].concat();
            let mut out = vec![0.0; 3 * n];
            let prepared = converter.prepare(&ring, &source);
            converter.finish(&ring, &prepared, 0, &mut out[..2 * n]);
            converter.finish(&ring, &prepared, 2, &mut out[2 * n..]);
            for (limb, p) in out.chunks(n).zip(&primes[2..]) {
                for (x, wanted) in limb.iter().zip(&numbers) {
                    let p = *p as i64;
                    assert_eq!((*x as i64).rem_euclid(p), wanted.rem_euclid(p));
                }
            }
        }
    }

    /// The formula holds for all residues, whatever the sizes of the primes and how often sums are reduced.
    #[test]
    fn conversions_are_those_of_the_formula() {
        let n = 256;
        let sets = [vec![50.0; 15], vec![49.0; 9], vec![28.0; 15], vec![50.0, 43.0, 32.0, 20.0]];
        for bits in sets {
            let mut primes: Vec<u64> = vec![];
            for bits in bits.iter().chain(&[50.0, 49.5, 43.0, 32.0, 28.0, 20.0, 50.0]) {
                primes.push(prime::nearest(f64::exp2(*bits), 2 * n as u64, &primes).unwrap());
            }
            let (d, m) = primes.split_at(bits.len());
            let value = |i: usize, p: u64| match i % 7 {
                0 => p as f64,
                1 => -(p as f64),
                _ => centred((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) % p, p),
            };
            let limb = |(i, p): (usize, &u64)| (0..n).map(|j| value(i * n + j, *p)).collect();
            let source: Vec<Vec<f64>> = d.iter().enumerate().map(limb).collect();
            for &level in Level::available() {
                let ring = Ring::new(n, &primes, level).unwrap();
                let all: Vec<usize> = (0..primes.len()).collect();
                let converter =
                    Converter::new(&ring, all[..d.len()].to_vec(), all[d.len()..].to_vec());
                let prepared = converter.prepare(&ring, &source.concat());
                let mut out = vec![0.0; m.len() * n];
                converter.finish(&ring, &prepared, 0, &mut out);
                for j in 0..n {
                    let (mut v, mut y) = (0.0, vec![]);
                    for (i, p) in d.iter().enumerate() {
                        let inverse = prime::inverse(product(d, Some(i), *p), *p);
                        let x = (source[i][j] as i64).rem_euclid(*p as i64) as u64;
                        y.push(centred(prime::mul(x, inverse, *p), *p));
                        v += y[i] * (1.0 / *p as f64);
                    }
                    y.push(-f64::round_ties_even(v));
                    for (k, p) in m.iter().enumerate() {
                        let residue = |x: f64| (x as i64).rem_euclid(*p as i64) as u64;
                        let term = |(i, y): (usize, &f64)| {
                            let but = Some(i).filter(|i| *i < d.len());
                            prime::mul(residue(*y), product(d, but, *p), *p)
                        };
                        let sum: u64 = y.iter().enumerate().map(term).sum();
                        let got = out[k * n + j];
                        assert_eq!(residue(got), sum % p, "{bits:?} to {p}, {level:?}");
                        assert!(got.abs() <= *p as f64 / 2.0 + 1.0);
                    }
                }
            }
        }
    }
}
