//! A parameter set made ready to compute: the primes under its chain, their transforms, the digits of key switching.
//!
//! Primes are chosen from the top level down so that the scale of a product after rescaling, s²/q_i, comes back to what
//! the chain says: a deviation of one level is undone by the prime of the next instead of doubling at each. Scales are
//! kept exactly (to 2^-52), never assumed.

use crate::math::fft::Plan;
use crate::math::rns::{Converter, Ring, TILE, Work, inverse, mul, nearest};
use crate::math::simd::Level;
use crate::params::CkksParams;
use crate::{Error, Result};
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The largest prime, bits.
const WORD_BITS: f64 = 50.0;

/// Conversions by the words that they lead from and to.
type Converters = BTreeMap<(Vec<usize>, Vec<usize>), Arc<Converter>>;

/// A CKKS parameter set made ready.
pub struct Context {
    params: &'static CkksParams,
    ring: Ring,
    /// Words of the chain at each level.
    counts: Vec<usize>,
    /// q_i.
    steps: Vec<f64>,
    /// Scale of a fresh ciphertext at each level of the user.
    scales: Vec<f64>,
    /// Words of the chain; special words follow.
    chain: usize,
    special: usize,
    digits: Vec<Range<usize>>,
    fft: Arc<Plan>,
    /// For slot j, the positions of its real and imaginary part in a transform.
    slots: Vec<(usize, usize)>,
    converters: Mutex<Converters>,
    permutations: Mutex<BTreeMap<usize, Arc<Vec<u32>>>>,
    eighth: OnceLock<Eighth>,
}

/// The ring of polynomials in X^8, and for each word where its values stand in the vectors of eight of the tiles.
pub(super) struct Eighth {
    pub(super) ring: Ring,
    pub(super) order: Vec<Vec<u32>>,
}

/// The primes of a chain: words of each level from the bottom up, then special words.
fn primes(params: &CkksParams) -> Option<(Vec<Vec<u64>>, Vec<u64>)> {
    let (bits, step) = (params.chain(), 2 * params.degree() as u64);
    let (mut taken, mut levels) = (vec![], vec![vec![]; bits.len()]);
    let mut deviation = 0.0;
    for i in (0..bits.len()).rev() {
        // A run of equal steps begins at the exact scale, as the user's levels do; level 0 keeps its bits.
        let first = i == params.levels || bits.get(i + 1).is_none_or(|b| *b != bits[i]);
        if i == 0 || first && i != 1 {
            deviation = 0.0;
        }
        let target = bits[i] + 2.0 * deviation;
        let words = (bits[i] / WORD_BITS).ceil() as usize;
        let mut left = target;
        for k in 0..words {
            let p = nearest((left / (words - k) as f64).exp2(), step, &taken)?;
            left -= (p as f64).log2();
            taken.push(p);
            levels[i].push(p);
        }
        deviation = 2.0 * deviation - (target - left - bits[i]);
    }
    let words = (params.special_bits / WORD_BITS).ceil() as usize;
    let special = (params.special_bits / words as f64).exp2();
    for _ in 0..words {
        taken.push(nearest(special, step, &taken)?);
    }
    let special = taken.split_off(taken.len() - words);
    Some((levels, special))
}

impl Context {
    /// Makes the set ready, on the best instructions of this processor: primes, tables, some tens of megabytes.
    ///
    /// # Errors
    /// `Insecure` for a toy set unless `allow_insecure`; `WrongParams` where there are too few primes.
    pub fn new(params: &'static CkksParams, allow_insecure: bool) -> Result<Context> {
        params.require_secure(allow_insecure)?;
        let (levels, special) = primes(params).ok_or_else(|| {
            let wanted = "enough primes of the sizes of the chain";
            Error::wrong_params("make a CKKS context", wanted, params.name, "use larger steps")
        })?;
        let steps = levels.iter().map(|w| w.iter().map(|p| *p as f64).product()).collect();
        let counts: Vec<usize> =
            (0..levels.len()).map(|i| levels[..=i].iter().map(Vec::len).sum()).collect();
        let words = [levels.concat(), special.clone()].concat();
        let digits = digits(&words[..words.len() - special.len()], params.special_bits);
        let ring = Ring::new(params.degree(), &words, Level::best())?;
        let fft = Plan::get(params.degree(), Level::best())?;
        let mut places = vec![0; params.slots()];
        fft.exponents().iter().enumerate().for_each(|(i, u)| places[*u as usize] = i);
        let mut power = 1;
        let slots = (0..params.slots()).map(|_| {
            let at = fft.position(places[power / 4]);
            power = power * 5 % (2 * params.degree());
            at
        });
        let slots = slots.collect();
        let mut context = Context {
            params,
            ring,
            counts,
            steps,
            scales: vec![],
            chain: words.len() - special.len(),
            special: special.len(),
            digits,
            fft,
            slots,
            converters: Mutex::default(),
            permutations: Mutex::default(),
            eighth: OnceLock::new(),
        };
        context.scales = context.user_scales();
        Ok(context)
    }

    /// s at the top of the user's levels, then s²/q from level to level.
    fn user_scales(&self) -> Vec<f64> {
        let mut scales = vec![self.params.scale_bits.exp2(); self.params.levels + 1];
        for i in (0..self.params.levels).rev() {
            scales[i] = scales[i + 1] * scales[i + 1] / self.steps[i + 1];
        }
        scales
    }

    /// The parameter set.
    pub fn params(&self) -> &'static CkksParams {
        self.params
    }

    /// What has been computed in this context so far.
    pub fn work(&self) -> Work {
        self.ring.work()
    }

    /// The ring.
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The scale of ciphertexts of the user at `level`, what products and bootstraps come back to.
    ///
    /// # Errors
    /// `BadInput` for a level above the user's.
    pub fn scale(&self, level: usize) -> Result<f64> {
        self.scales.get(level).copied().ok_or_else(|| {
            let wanted = format!("a level of at most {}", self.params.levels);
            Error::bad_input(
                "scale",
                wanted,
                level.to_string(),
                "the levels above are a bootstrap's",
            )
        })
    }

    /// The scale of every level of the user.
    pub(crate) fn scales(&self) -> &[f64] {
        &self.scales
    }

    /// Words of the chain at `level`.
    pub(crate) fn words(&self, level: usize) -> usize {
        self.counts[level]
    }

    /// q_`level`: what a rescale from this level divides by.
    pub(crate) fn step(&self, level: usize) -> f64 {
        self.steps[level]
    }

    /// Index of limb `i` of a polynomial with `count` words of the chain and special words behind them.
    pub(crate) fn word_of(&self, i: usize, count: usize) -> usize {
        if i < count { i } else { self.chain + i - count }
    }

    /// Number of special words.
    pub(crate) fn special(&self) -> usize {
        self.special
    }

    /// The digits of key switching: ranges of words of the chain.
    pub(crate) fn digits(&self) -> &[Range<usize>] {
        &self.digits
    }

    /// The transform between slots and coefficients.
    pub(crate) fn fft(&self) -> &Plan {
        &self.fft
    }

    /// Positions of slot j in a transform.
    pub(crate) fn slots(&self) -> &[(usize, usize)] {
        &self.slots
    }

    /// The product of the first `special` special words modulo word `i`.
    pub(crate) fn special_product(&self, special: usize, i: usize) -> u64 {
        let p = self.ring.word(i).p;
        let word = |k: usize| self.ring.word(self.chain + k).p % p;
        (0..special).fold(1, |a, k| mul(a, word(k), p))
    }

    /// The inverse of the product of words `from` modulo word `i`.
    pub(crate) fn inverse_product(&self, from: &[usize], i: usize) -> u64 {
        let p = self.ring.word(i).p;
        inverse(from.iter().fold(1, |a, k| mul(a, self.ring.word(*k).p % p, p)), p)
    }

    /// The conversion between words, made once.
    pub(crate) fn converter(&self, from: Vec<usize>, to: Vec<usize>) -> Arc<Converter> {
        let mut made = self.converters.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (from, to);
        if let Some(converter) = made.get(&key) {
            return converter.clone();
        }
        let converter = Arc::new(Converter::new(&self.ring, key.0.clone(), key.1.clone()));
        made.insert(key, converter.clone());
        converter
    }

    /// The ring of polynomials in X^8, made once; none where it is too small.
    pub(super) fn eighth(&self) -> Option<&Eighth> {
        if let Some(made) = self.eighth.get() {
            return Some(made);
        }
        let (n, words) = (self.params.degree(), self.chain + self.special);
        let primes: Vec<u64> = (0..words).map(|i| self.ring.word(i).p).collect();
        let ring = Ring::new(n / 8, &primes, Level::best()).ok()?;
        let order = (0..words).into_par_iter().map(|i| {
            // X^8 there and X here take the same values, each once.
            let (mut there, mut here) = (self.ring.scratch(n), ring.scratch(n / 8));
            there.fill(0.0);
            here.fill(0.0);
            (there[8], here[1]) = (1.0, 1.0);
            self.ring.forward(i, &mut there);
            self.ring.reduce(i, &mut there);
            ring.forward(i, &mut here);
            ring.reduce(i, &mut here);
            let exact = |x: &f64| (*x as i64).rem_euclid(primes[i] as i64);
            let places: HashMap<i64, u32> =
                here.iter().enumerate().map(|(k, x)| (exact(x), k as u32)).collect();
            let kept = there.chunks(TILE).flat_map(|tile| &tile[..8]);
            kept.map(|x| places.get(&exact(x)).copied()).collect::<Option<Vec<u32>>>()
        });
        let order = order.collect::<Option<Vec<_>>>()?;
        Some(self.eighth.get_or_init(|| Eighth { ring, order }))
    }

    /// The permutation of values that X → X^`power` is, made once.
    pub(crate) fn permutation(&self, power: usize) -> Arc<Vec<u32>> {
        let mut made = self.permutations.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(power).or_insert_with(|| Arc::new(self.ring.permutation(power))).clone()
    }
}

/// Cuts words into ranges of at most `bits`.
fn digits(words: &[u64], bits: f64) -> Vec<Range<usize>> {
    let (mut out, mut start, mut sum) = (vec![], 0, 0.0);
    for (i, p) in words.iter().enumerate() {
        let log2 = (*p as f64).log2();
        if sum + log2 > bits {
            out.push(start..i);
            (start, sum) = (i, 0.0);
        }
        sum += log2;
    }
    out.push(start..words.len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Along every run of equal steps the scale of repeated squares stays within 2 % of the chain's.
    #[test]
    fn scales_come_back() {
        for params in CkksParams::all() {
            let context = Context::new(params, true).unwrap();
            let bits = params.chain();
            assert!((context.scale(0).unwrap().log2() - params.base_scale_bits).abs() < 1e-2);
            let (mut scale, mut last) = (0.0, 0.0);
            for i in (1..bits.len()).rev() {
                if bits[i] != last || i == params.levels {
                    (scale, last) = (bits[i], bits[i]);
                }
                scale = 2.0 * scale - context.step(i).log2();
                assert!(
                    i == 1 || (scale - bits[i]).abs() < 2e-2,
                    "{} level {i}: {scale}",
                    params.name
                );
            }
            let largest = |d: &Range<usize>| {
                d.clone().map(|i| (context.ring.word(i).p as f64).log2()).sum::<f64>()
            };
            let special: f64 = largest(&(context.chain..context.chain + context.special));
            assert!(context.digits.iter().all(|d| largest(d) <= special + 0.1));
            let total: f64 = context.steps.iter().map(|q| q.log2()).sum::<f64>() + special;
            assert!(total <= params.log2_modulus() + 0.1, "{total} bits");
        }
    }
}
