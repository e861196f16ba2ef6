//! Polynomials modulo X^N + 1 and a product of primes, as residues: a limb of N doubles for each prime below 2^50.
//!
//! Residues are signed integers bounded by their prime. A product modulo p takes five operations with fused
//! multiply-add, on every processor with AVX2, where a product of 64-bit integers takes a dozen.

mod convert;
mod eight;
mod ntt;
mod pack;
mod pointwise;
mod pool;
mod prime;
#[cfg(test)]
mod short;

pub(crate) use convert::{Converter, Prepared};
pub(crate) use ntt::{Word, centred, constants};
pub(crate) use pack::{Uniform, width};
pub(crate) use pointwise::{First, TILE};
pub(crate) use pool::Scratch;
pub(crate) use prime::{inverse, mul, nearest, pow, root_of_unity};

use super::simd::Level;
use crate::{Error, Result};
use pool::Pool;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The work done so far, in limbs of N values. Time follows from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Transforms, either way.
    pub transforms: u64,
    /// Products in conversions between words.
    pub conversions: u64,
    /// Products of values.
    pub products: u64,
}

/// N, the primes with their transforms, and memory that is used again.
pub struct Ring {
    size: usize,
    level: Level,
    words: Vec<Word>,
    pool: Arc<Pool>,
    /// For every odd e, at (e − 1)/2, where the value at ψ^e stands.
    places: Vec<u32>,
    exponents: Vec<u32>,
    /// As in [`Work`]; products in values, not limbs.
    work: [AtomicU64; 3],
}

impl Ring {
    /// The ring of degree `size` = N, a power of two in 256 ..= 131072, with distinct primes below 2^50 that are 1
    /// modulo 2N.
    ///
    /// # Errors
    /// `BadInput` for another degree or other primes, `Unsupported` for a level that the processor does not have.
    pub(crate) fn new(size: usize, primes: &[u64], level: Level) -> Result<Ring> {
        let op = "make a ring";
        if !size.is_power_of_two() || !(128..=1 << 17).contains(&size) {
            let wanted = "a degree that is a power of two in 128 ..= 131072";
            return Err(Error::bad_input(op, wanted, size.to_string(), "choose another degree"));
        }
        let fits = |p: &&u64| **p < 1 << 50 && **p % (2 * size as u64) == 1 && prime::is_prime(**p);
        let mut distinct: Vec<u64> = primes.iter().filter(fits).copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() != primes.len() {
            let wanted = format!("distinct primes below 2^50, 1 modulo {}", 2 * size);
            return Err(Error::bad_input(op, wanted, format!("{primes:?}"), "choose other primes"));
        }
        if !Level::available().contains(&level) {
            let wanted = "instructions of this processor";
            return Err(Error::unsupported(op, wanted, level.name(), "use Level::best()"));
        }
        let words = primes.iter().map(|p| Word::new(*p, size)).collect();
        let exponents = ntt::exponents(size);
        let mut places = vec![0; size];
        exponents.iter().enumerate().for_each(|(i, e)| places[*e as usize / 2] = i as u32);
        Ok(Ring {
            size,
            level,
            words,
            pool: Arc::default(),
            places,
            exponents,
            work: Default::default(),
        })
    }

    /// Bytes of the tables of a ring with `primes` primes, and those that making them takes besides.
    pub(crate) fn table_bytes(size: usize, primes: usize) -> usize {
        ntt::table_bytes(size, primes) + 2 * size * size_of::<u32>() + size * size_of::<f64>()
    }

    /// N.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The vectors in use.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The work done so far.
    pub fn work(&self) -> Work {
        let [transforms, conversions, products] =
            [0, 1, 2].map(|i| self.work[i].load(Ordering::Relaxed));
        Work { transforms, conversions, products: products / self.size as u64 }
    }

    fn count(&self, what: usize, much: usize) {
        self.work[what].fetch_add(much as u64, Ordering::Relaxed);
    }

    /// Number `i` of the primes, with its tables.
    pub(crate) fn word(&self, i: usize) -> &Word {
        &self.words[i]
    }

    /// Memory for `len` doubles of arbitrary content, given back when dropped.
    pub(crate) fn scratch(&self, len: usize) -> Scratch {
        Pool::take(&self.pool, len)
    }

    /// Bytes of memory that is kept to be used again.
    pub(crate) fn kept(&self) -> usize {
        self.pool.kept()
    }

    /// The most bytes that were in use at a time since this was asked before, and those that are now.
    #[cfg(test)]
    pub(crate) fn most(&self) -> [usize; 2] {
        self.pool.most()
    }

    /// Coefficients of word `i` to values.
    pub(crate) fn forward(&self, i: usize, limb: &mut [f64]) {
        self.count(0, 1);
        self.words[i].forward(self.level, limb);
    }

    /// Values of word `i` to coefficients.
    pub(crate) fn backward(&self, i: usize, limb: &mut [f64]) {
        self.count(0, 1);
        self.words[i].backward(self.level, limb);
    }

    /// For X → X^`power` (odd): value i of the image is value `permutation[i]` of the polynomial. Blocks of 64 or any
    /// larger power of two, at multiples of their length, come from such blocks: their place says e modulo a power of two.
    pub(crate) fn permutation(&self, power: usize) -> Vec<u32> {
        let place = |e: &u32| self.places[(*e as usize * power % (2 * self.size)) / 2];
        self.exponents.iter().map(place).collect()
    }

    /// The values of X^(N/2), modulo word `i`: ±√−1.
    pub(crate) fn imaginary(&self, i: usize) -> Vec<f64> {
        let root = centred(self.words[i].imaginary, self.words[i].p);
        let sign = |e: &u32| if e % 4 == 1 { root } else { -root };
        self.exponents.iter().map(sign).collect()
    }
}

macro_rules! on_words {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) $(counts $count:expr)?;)+) => {
        impl Ring {$(
            $(#[$doc])*
            #[inline]
            pub(crate) fn $name(&self, i: usize, $($arg: $ty),*) {
                $(self.count(2, $count);)?
                pointwise::$name(self.level, &self.words[i], $($arg),*);
            }
        )+}
    };
}
on_words! {
    /// `a ← a + b` modulo word `i`, as all below.
    add(a: &mut [f64], b: &[f64]);
    /// `a ← a − b`.
    sub(a: &mut [f64], b: &[f64]);
    /// `out ← a + b`.
    sum(out: &mut [f64], a: &[f64], b: &[f64]);
    /// `out ← a − b`.
    difference(out: &mut [f64], a: &[f64], b: &[f64]);
    /// `out ← a·b`.
    mul(out: &mut [f64], a: &[f64], b: &[f64]);
    /// `out ← out + a·b`.
    mul_add(out: &mut [f64], a: &[f64], b: &[f64]);
    /// `a ← c·a`, |c| ≤ p/2.
    scale(a: &mut [f64], c: f64);
    /// `out ← out − a·b`.
    mul_sub(out: &mut [f64], a: &[f64], b: &[f64]);
    /// `out ← a` rounded to integers and brought near zero, from |a| < 2^70.
    round(out: &mut [f64], a: &[f64]);
    /// `out ← out + a`, rounded as in [`Ring::round`].
    add_rounded(out: &mut [f64], a: &[f64]);
    /// `out ← out + c·a`, |c| ≤ p/2.
    scale_add(out: &mut [f64], a: &[f64], c: f64);
    /// `a ← c·(a − b)`, |c| ≤ p/2.
    sub_scale(a: &mut [f64], b: &[f64], c: f64);
    /// `out ← rest/unit` rounded to integers, `rest ← rest − unit·out`, for a unit that is a power of two.
    digit(out: &mut [f64], rest: &mut [f64], unit: f64);
    /// Near zero, from |a| < 2^51.
    reduce(a: &mut [f64]);
    /// `out[k] ← first[k] + Σ a·b[k]` for both k.
    dot_pair(out: [&mut [f64]; 2], a: &[&[f64]], b: [&[&[f64]]; 2], first: [First; 2])
        counts 2 * a.len() * out[0].len();
    /// [`Ring::dot_pair`] where the first of the factors are packed, each from its first byte on.
    dot_packed(
        out: [&mut [f64]; 2],
        a: &[&[f64]],
        packed: &[&[u8]],
        b: &[&[f64]],
        first: [First; 2]
    ) counts 2 * a.len() * out[0].len();
    /// [`Ring::dot_pair`] where all of the factors are packed.
    dot_packed_pair(
        out: [&mut [f64]; 2],
        a: &[&[f64]],
        packed: [&[&[u8]]; 2],
        first: [First; 2]
    ) counts 2 * a.len() * out[0].len();
    /// `out ← out + f·(a_0 + a_1·s)·(b_0 + b_1·s)`, the coefficients of 1, s, s²; f is 1 or 2.
    tensor(out: [&mut [f64]; 3], a: [&[f64]; 2], b: [&[f64]; 2], f: f64) counts 4 * a[0].len();
    /// `a_i ← a_i + b_(places i)`, places modulo the length, a power of two.
    add_permuted(a: &mut [f64], b: &[f64], places: &[u32]);
    /// `out ← first + Σ a·b` where each b repeats one vector of eight in each [`TILE`].
    dot_tiled(out: &mut [f64], a: &[&[f64]], b: &[&[f64]], first: First) counts a.len() * out.len();
}
