//! A parameter set made ready to compute: the primes under its chain, their transforms, the digits of key switching.
//!
//! Primes are chosen from the top level down so that the scale of a product after rescaling, s²/q_i, comes back to what
//! the chain says: a deviation of one level is undone by the prime of the next instead of doubling at each. Scales are
//! kept exactly (to 2^-48), never assumed.
//!
//! The chain has tiers: the levels of the user and of SlotsToCoeffs, those of EvalMod, those of CoeffsToSlots. Each
//! has words of its own, of which a level has the first few: at the lowest level of a tier as few as hold the whole
//! modulus. A rescale to the tier below changes all words, and keys of a tier serve no other; the modulus of a key is
//! that of a level, whatever its words.

use crate::cipher::Purpose;
use crate::math::buffer::require_memory_or;
use crate::math::fft::Plan;
use crate::math::parallel::*;
use crate::math::rns::{Converter, Ring, TILE, Work, inverse, mul, nearest, width};
use crate::math::simd::Level;
use crate::params::CkksParams;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The largest prime, bits.
const WORD_BITS: f64 = 50.0;
/// What a digit may have more than P in CoeffsToSlots, bits: noise of 2^14.7 is little there, at scales of 2^64 and more.
const HIGHEST_EXCESS: f64 = 6.0;

/// Bytes of the transform between slots and coefficients and of the places of the slots, for each coefficient, at the most.
const PLACES: usize = 128;

/// Conversions by the words that they lead from and to.
type Converters = BTreeMap<(Vec<usize>, Vec<usize>), Arc<Converter>>;

/// A CKKS parameter set made ready.
pub struct Context {
    params: &'static CkksParams,
    ring: Ring,
    /// Words at each level.
    counts: Vec<usize>,
    tiers: Vec<Tier>,
    /// q_i.
    steps: Vec<f64>,
    /// Scale of a fresh ciphertext at each level of the user.
    scales: Vec<f64>,
    /// Words of all tiers; special words follow.
    chain: usize,
    special: usize,
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
    pub(super) fft: Arc<Plan>,
    pub(super) slots: Vec<(usize, usize)>,
    pub(super) order: Vec<Vec<u32>>,
}

/// Levels with words of their own.
struct Tier {
    levels: Range<usize>,
    /// Index of the first word.
    first: usize,
    /// The digits of key switching: ranges of the tier's words.
    digits: Vec<Range<usize>>,
}

/// The primes of a chain: words that each level adds to those of its tier, from the bottom up, then special words.
fn primes(params: &CkksParams) -> Option<(Vec<Vec<u64>>, Vec<u64>)> {
    let (bits, step) = (params.chain(), 2 * params.degree() as u64);
    let (mut taken, mut levels) = (vec![], vec![vec![]; bits.len()]);
    let mut below = 0.0;
    for tier in params.tiers() {
        let mut deviation = 0.0;
        let mut modulus = 0.0;
        for i in tier.clone().rev() {
            // A run of equal steps begins at the exact scale, as the user's levels do; level 0 keeps its bits.
            let first = i == params.levels || bits.get(i + 1).is_none_or(|b| *b != bits[i]);
            if i == 0 || first && i != 1 {
                deviation = 0.0;
            }
            let whole = if i == tier.start { below } else { 0.0 };
            let target = bits[i] + 2.0 * deviation + whole;
            let words = ((bits[i] + whole) / WORD_BITS).ceil() as usize;
            let mut left = target;
            for k in 0..words {
                let p = nearest((left / (words - k) as f64).exp2(), step, &taken)?;
                left -= (p as f64).log2();
                taken.push(p);
                levels[i].push(p);
            }
            deviation = 2.0 * deviation - (target - left - whole - bits[i]);
            modulus += target - left;
        }
        below = modulus;
    }
    let words = (params.special_bits / WORD_BITS).ceil() as usize;
    let special = (params.special_bits / words as f64).exp2();
    for _ in 0..words {
        taken.push(nearest(special, step, &taken)?);
    }
    let special = taken.split_off(taken.len() - words);
    Some((levels, special))
}

/// Π `up` / Π `down`, both of which may be beyond the range of a double.
fn ratio(up: &[u64], down: &[u64]) -> f64 {
    let (mut out, mut down) = (1.0, down.iter());
    for p in up {
        out *= *p as f64;
        if out > 2f64.powi(500) {
            out = down.by_ref().take(8).fold(out, |out, q| out / *q as f64);
        }
    }
    down.fold(out, |out, q| out / *q as f64)
}

/// The tiers, the number of words of each level and what a rescale from it divides by.
fn tiers(params: &CkksParams, levels: &[Vec<u64>]) -> (Vec<Tier>, Vec<usize>, Vec<f64>) {
    let (mut tiers, mut counts, mut steps) = (vec![], vec![], vec![]);
    let (mut all, mut below) = (vec![], vec![]);
    for levels_of in params.tiers() {
        let first = all.len();
        for i in levels_of.clone() {
            let down = if i == levels_of.start { &below[..] } else { &[] };
            steps.push(ratio(&levels[i], down));
            all.extend(&levels[i]);
            counts.push(all.len() - first);
        }
        below = all[first..].to_vec();
        let excess = if levels_of.start > params.levels && levels_of.end == levels.len() {
            HIGHEST_EXCESS
        } else {
            0.0
        };
        let digits = digits(&below, params.special_bits + excess);
        tiers.push(Tier { levels: levels_of, first, digits });
    }
    (tiers, counts, steps)
}

/// Bytes of evaluation keys as stored, by what each is for and at which level, without a context; none for what the set has not.
pub(super) fn stored_length(params: &CkksParams, keys: &[(Purpose, usize)]) -> Option<u64> {
    let (levels, special) = primes(params)?;
    let (tiers, counts, _) = tiers(params, &levels);
    let words = levels.concat();
    let bits = |words: &[u64]| words.iter().map(|p| u64::from(width(*p))).sum::<u64>();
    let one = |(purpose, level): &(Purpose, usize)| {
        let count = *counts.get(*level)?;
        let tier = tiers.iter().rfind(|t| t.levels.start <= *level)?;
        let digits = tier.digits.iter().take_while(|d| d.start < count).count();
        let special = match (purpose, params.bootstrap) {
            (Purpose::ToEphemeral, Some(b)) => special.get(..b.ephemeral_words)?,
            _ => &special[..],
        };
        let row = bits(&words[tier.first..][..count]) + bits(special);
        Some(digits as u64 * row * params.degree() as u64 / 8)
    };
    keys.iter().map(one).sum()
}

impl Context {
    /// Bytes that [`Context::new`] takes for a set, about: most of them the tables of the transform of each word.
    pub fn table_bytes(params: &CkksParams) -> usize {
        let words = primes(params).map_or(0, |(levels, special)| {
            levels.iter().map(Vec::len).sum::<usize>() + special.len()
        });
        Ring::table_bytes(params.degree(), words) + PLACES * params.degree()
    }

    /// Makes the set ready, on the best instructions of this processor: primes, tables, some tens of megabytes.
    ///
    /// # Errors
    /// `Insecure` for a toy set unless `allow_insecure`; `WrongParams` where there are too few primes; `Memory` where the tables do
    /// not fit.
    pub fn new(params: &'static CkksParams, allow_insecure: bool) -> Result<Context> {
        params.require_secure(allow_insecure)?;
        let remedy = "take a set of a smaller ring (`becalm params` lists them), or free memory";
        require_memory_or("make a CKKS context", Context::table_bytes(params), remedy)?;
        let (levels, special) = primes(params).ok_or_else(|| {
            let wanted = "enough primes of the sizes of the chain";
            Error::wrong_params("make a CKKS context", wanted, params.name, "use larger steps")
        })?;
        let (tiers, counts, steps) = tiers(params, &levels);
        let words = [levels.concat(), special.clone()].concat();
        let ring = Ring::new(params.degree(), &words, Level::best())?;
        let fft = Plan::get(params.degree(), Level::best())?;
        let slots = slots_of(&fft);
        let mut context = Context {
            params,
            ring,
            counts,
            tiers,
            steps,
            scales: vec![],
            chain: words.len() - special.len(),
            special: special.len(),
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

    /// Number of words at `level`.
    pub(crate) fn words(&self, level: usize) -> usize {
        self.counts[level]
    }

    /// q_`level`: what a rescale from this level divides by.
    pub(crate) fn step(&self, level: usize) -> f64 {
        self.steps[level]
    }

    fn tier(&self, level: usize) -> &Tier {
        &self.tiers[self.tier_at(level)]
    }

    /// Which tier `level` is in, from the lowest up.
    pub(crate) fn tier_at(&self, level: usize) -> usize {
        self.tiers.iter().rposition(|t| t.levels.start <= level).unwrap_or(0)
    }

    /// The levels that have words in common with `level`, which are those of keys for it too.
    pub(crate) fn tier_of(&self, level: usize) -> Range<usize> {
        self.tier(level).levels.clone()
    }

    /// Index of limb `i` of a polynomial at `level` with special words behind those of the level.
    pub(crate) fn word_of(&self, level: usize, i: usize) -> usize {
        let count = self.counts[level];
        if i < count { self.tier(level).first + i } else { self.chain + i - count }
    }

    /// Indices of the words of `level` and of the first `special` special words.
    pub(crate) fn words_of(&self, level: usize, special: usize) -> Vec<usize> {
        (0..self.counts[level] + special).map(|i| self.word_of(level, i)).collect()
    }

    /// Number of special words.
    pub(crate) fn special(&self) -> usize {
        self.special
    }

    /// Number of all words, the special ones included.
    pub(crate) fn all_words(&self) -> usize {
        self.chain + self.special
    }

    /// The digits of key switching at `level`: ranges of its words.
    pub(crate) fn digits(&self, level: usize) -> Vec<Range<usize>> {
        let (digits, count) = (&self.tier(level).digits, self.counts[level]);
        let there = digits.iter().take_while(|d| d.start < count);
        there.map(|d| d.start..d.end.min(count)).collect()
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

    /// The product of words `of` modulo word `i`.
    pub(crate) fn product(&self, of: &[usize], i: usize) -> u64 {
        let p = self.ring.word(i).p;
        of.iter().fold(1, |a, k| mul(a, self.ring.word(*k).p % p, p))
    }

    /// The inverse of the product of words `from` modulo word `i`.
    pub(crate) fn inverse_product(&self, from: &[usize], i: usize) -> u64 {
        inverse(self.product(from, i), self.ring.word(i).p)
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
        let fft = Plan::get(n / 8, Level::best()).ok()?;
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
        let slots = slots_of(&fft);
        Some(self.eighth.get_or_init(|| Eighth { ring, fft, slots, order }))
    }

    /// The permutation of values that X → X^`power` is, made once.
    pub(crate) fn permutation(&self, power: usize) -> Arc<Vec<u32>> {
        let mut made = self.permutations.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(power).or_insert_with(|| Arc::new(self.ring.permutation(power))).clone()
    }
}

/// For slot j, the value at ζ^(5^j), the positions of its real and imaginary part in a transform.
fn slots_of(fft: &Plan) -> Vec<(usize, usize)> {
    let mut places = vec![0; fft.size() / 2];
    fft.exponents().iter().enumerate().for_each(|(i, u)| places[*u as usize] = i);
    let mut power = 1;
    let slots = (0..fft.size() / 2).map(|_| {
        let at = fft.position(places[power / 4]);
        power = power * 5 % (2 * fft.size());
        at
    });
    slots.collect()
}

/// Cuts words into ranges of at most `bits`, or of one word where it has more: primes are near the bits of a set, on either side.
fn digits(words: &[u64], bits: f64) -> Vec<Range<usize>> {
    let (mut out, mut start, mut sum) = (vec![], 0, 0.0);
    for (i, p) in words.iter().enumerate() {
        let log2 = (*p as f64).log2();
        if i > start && sum + log2 > bits {
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
            let log2 = |i: usize| (context.ring.word(i).p as f64).log2();
            let special: f64 = (context.chain..context.all_words()).map(log2).sum();
            for tier in &context.tiers {
                let top = tier.levels.end - 1;
                let sum = |d: &Range<usize>| d.clone().map(|i| log2(tier.first + i)).sum::<f64>();
                let excess = if top == params.top_level() { HIGHEST_EXCESS } else { 0.0 };
                assert!(tier.digits.iter().all(|d| sum(d) <= special + excess + 0.1));
                // The modulus of the tier's keys is that of its highest level, and of no key above the claim.
                let modulus = sum(&(0..context.words(top)));
                let steps: f64 = (0..=top).map(|i| context.step(i).log2()).sum();
                let chain: f64 = bits[..=top].iter().sum();
                assert!((modulus - steps).abs() < 1e-6 && (modulus - chain).abs() < 0.1, "{steps}");
                assert!(modulus + special <= params.log2_modulus() + 0.1, "{modulus} bits");
                let first = (bits[..=tier.levels.start].iter().sum::<f64>() / WORD_BITS).ceil();
                if tier.levels.start > 0 {
                    assert_eq!(
                        context.words(tier.levels.start),
                        first as usize,
                        "no word is wasted"
                    );
                }
            }
        }
    }
}
