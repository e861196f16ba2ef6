//! The chain of moduli of a parameter set: primes, scales and digits of key switching, from the parameters alone.
//!
//! A chain takes kilobytes and milliseconds. Planning needs no more: levels, scales and the sizes of keys follow from it. A
//! [`Context`](super::Context) adds the tables that computing needs.
//!
//! Primes are chosen from the top level down so that the scale of a product after rescaling, s²/q_i, returns to the scale of the
//! chain: the prime of the next level undoes the deviation of this one, which would double at each level otherwise. Scales are
//! kept exactly (to 2^-48), never assumed.
//!
//! The chain has tiers: the levels of the user and of SlotsToCoeffs, those of EvalMod, those of CoeffsToSlots. Each tier has words
//! of its own, and a level has the first few of them: at the lowest level of a tier as few as hold the whole modulus. A rescale to
//! the tier below changes all words, and keys of a tier serve no other.

use crate::cipher::{KeyId, Rlwe};
use crate::math::complex::{Complex, DOUBLES};
use crate::math::rns::{Ring, nearest};
use crate::params::{CkksBootstrap, CkksParams, NOISE_STD, USUAL_CKKS};
use crate::words::megabytes;
use crate::{Error, Result};
use std::ops::Range;

/// Relative difference of two scales that counts as none.
const SAME_SCALE: f64 = 1e-12;

/// Whether two scales are the same but for the rounding of doubles.
pub(crate) fn same_scale(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() <= SAME_SCALE
}
/// The largest prime, bits.
const WORD_BITS: f64 = 50.0;
/// Bits by which a digit may exceed P in CoeffsToSlots: noise of 2^14.7 is little there, at scales of 2^64 and more.
const HIGHEST_EXCESS: f64 = 6.0;
/// Bytes of the transform between slots and coefficients and of the places of the slots, for each coefficient, at the most.
const PLACES: usize = 128;

/// The chain of moduli of a CKKS parameter set.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    params: &'static CkksParams,
    /// The primes of all tiers, then the special ones.
    primes: Vec<u64>,
    /// Words at each level.
    counts: Vec<usize>,
    tiers: Vec<Tier>,
    /// q_i.
    steps: Vec<f64>,
    /// Scale of a fresh ciphertext at each level of the user.
    scales: Vec<f64>,
    /// Number of special words.
    special: usize,
}

/// Levels with their own words.
#[derive(Debug, Clone, PartialEq)]
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

/// The tiers, the number of words of each level and the divisor of a rescale from it.
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

/// s at the top of the user's levels, then s²/q from level to level.
fn user_scales(params: &CkksParams, steps: &[f64]) -> Vec<f64> {
    let mut scales = vec![params.scale_bits.exp2(); params.levels + 1];
    for i in (0..params.levels).rev() {
        scales[i] = scales[i + 1] * scales[i + 1] / steps[i + 1];
    }
    scales
}

impl Chain {
    /// The chain of a set, without a check of its security: nothing can be computed with it alone.
    ///
    /// # Errors
    /// `WrongParams` where there are too few primes of the sizes of the set.
    pub fn new(params: &'static CkksParams) -> Result<Chain> {
        let (levels, special) = primes(params).ok_or_else(|| {
            let wanted = "enough primes of the sizes of the chain";
            Error::wrong_params("make a chain of moduli", wanted, params.name, "use larger steps")
        })?;
        let (tiers, counts, steps) = tiers(params, &levels);
        let primes = [levels.concat(), special.clone()].concat();
        let scales = user_scales(params, &steps);
        Ok(Chain { params, primes, counts, tiers, steps, scales, special: special.len() })
    }

    /// The parameter set.
    pub fn params(&self) -> &'static CkksParams {
        self.params
    }

    /// The scale of ciphertexts of the user at `level`, to which products and bootstraps return.
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

    /// q_`level`: the divisor of a rescale from this level.
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
        if i < count {
            self.tier(level).first + i
        } else {
            self.primes.len() - self.special + i - count
        }
    }

    /// Indices of the words of `level` and of the first `special` special words.
    pub(crate) fn words_of(&self, level: usize, special: usize) -> Vec<usize> {
        (0..self.counts[level] + special).map(|i| self.word_of(level, i)).collect()
    }

    /// The bound on the coefficients of a message: a quarter of the product of the primes that decryption uses.
    pub(crate) fn room(&self, level: usize) -> f64 {
        let words = self.words_of(level, 0);
        words.iter().take(3).map(|i| self.primes[*i] as f64).product::<f64>() / 4.0
    }

    /// The largest absolute value that a slot of a ciphertext may have: v < q/4s, q the product of the first three words of its
    /// level, of which it is decrypted, or of as many as it has. A mean of that size in absolute value is what is really bounded, and
    /// half of q; the rest is room for the error. Larger values wrap modulo q, and nothing tells: level and scale are public,
    /// values are not. At level 0 of the standard sets it is 2^6, above 2^40 and more.
    pub fn largest(&self, x: &Rlwe) -> f64 {
        self.largest_at(x.level, x.scale)
    }

    /// [`Chain::largest`] of ciphertexts of a level and a scale.
    pub fn largest_at(&self, level: usize, scale: f64) -> f64 {
        self.room(level.min(self.params().top_level())) / scale
    }

    /// Refuses a polynomial for whose scale, or for whose `largest` coefficient at it, the level below has no room.
    pub(crate) fn check_polynomial(
        &self,
        op: &'static str,
        level: usize,
        scale: f64,
        largest: f64,
    ) -> Result<()> {
        let (room, most) = (self.room(level), largest.max(1.0));
        if most * scale < room {
            return Ok(());
        }
        let wanted = format!(
            "coefficients below 2^{:.0} at level {level} and scale 2^{:.1}",
            (room / scale).log2(),
            scale.log2()
        );
        let remedy = "use the scale of the level, and smaller coefficients";
        Err(Error::bad_input(op, wanted, format!("2^{:.1}", most.log2()), remedy))
    }

    /// Number of special words.
    pub(crate) fn special(&self) -> usize {
        self.special
    }

    /// Number of all words, the special ones included.
    pub(crate) fn all_words(&self) -> usize {
        self.primes.len()
    }

    /// The digits of key switching at `level`: ranges of its words.
    pub(crate) fn digits(&self, level: usize) -> Vec<Range<usize>> {
        let (digits, count) = (&self.tier(level).digits, self.counts[level]);
        let there = digits.iter().take_while(|d| d.start < count);
        there.map(|d| d.start..d.end.min(count)).collect()
    }

    /// Whether residues modulo q_0 nearest zero, times `factor`, are below half of every digit at `level`: each of their digits is
    /// they themselves.
    pub(crate) fn is_every_digit(&self, level: usize, factor: f64) -> bool {
        let largest = self.step(0) * factor;
        let size = |digit: Range<usize>| -> f64 {
            digit.map(|i| self.primes[self.word_of(level, i)] as f64).product()
        };
        self.digits(level).into_iter().all(|digit| size(digit) > largest)
    }

    /// Bytes that a [`Context`](super::Context) of this chain takes, about: most of them the tables of the transform of each word.
    pub fn table_bytes(&self) -> usize {
        Ring::table_bytes(self.params.degree(), self.primes.len()) + PLACES * self.params.degree()
    }

    /// Refuses the tables of a context that do not fit `free` bytes, before any of their many pieces is made.
    ///
    /// # Errors
    /// `Memory`, with this remedy.
    pub fn require_tables(
        &self,
        op: &'static str,
        free: Option<usize>,
        remedy: &str,
    ) -> Result<()> {
        let wanted = self.table_bytes();
        let Some(free) = free.filter(|free| wanted > *free) else { return Ok(()) };
        let wanted = format!("{} for the tables of `{}`", megabytes(wanted), self.params.name);
        Err(Error::memory(op, wanted, format!("{} free", megabytes(free)), remedy))
    }

    /// Refuses objects of another set.
    pub(crate) fn check_set(&self, op: &'static str, name: &'static str) -> Result<()> {
        if name == self.params().name {
            return Ok(());
        }
        let wanted = format!("what was made with `{}`", self.params().name);
        Err(Error::wrong_params(op, wanted, format!("`{name}`"), "use one set throughout"))
    }

    /// Refuses ciphertexts of another set or under another key than `key`.
    pub(crate) fn check_keys(&self, op: &'static str, key: KeyId, inputs: &[&Rlwe]) -> Result<()> {
        for x in inputs {
            self.check_set(op, x.params())?;
            if x.key_id() != inputs[0].key_id() {
                let (wanted, got) = (inputs[0].key_id(), x.key_id().to_string());
                let remedy = "encrypt both with one key";
                return Err(Error::wrong_key(op, format!("key {wanted}"), got, remedy));
            }
            if x.key_id() != key {
                let (wanted, got) = (format!("key {key}"), x.key_id().to_string());
                let remedy = "use the evaluation keys of the ciphertext's key";
                return Err(Error::wrong_key(op, wanted, got, remedy));
            }
        }
        Ok(())
    }

    /// Refuses a ciphertext at a level below the one that an operation needs. `purpose` follows the level in the text.
    pub(crate) fn require_level(
        &self,
        op: &'static str,
        needed: usize,
        level: usize,
        purpose: &str,
    ) -> Result<()> {
        if level >= needed {
            return Ok(());
        }
        Err(Error::too_low(op, needed, level, purpose, self.upwards()))
    }

    /// The remedy for a missing level.
    pub(crate) fn upwards(&self) -> String {
        match self.params().bootstrap {
            Some(b) if b.table_bits > 0 => format!(
                "encrypt at a higher level, or turn values into integers before: that takes level {} or above",
                b.stage_count
            ),
            Some(b) if b.slots_first => format!(
                "bootstrap it earlier: the usual bootstrap of this set takes level {} or above",
                b.stage_count
            ),
            Some(_) => "bootstrap it first, or encrypt at a higher level".into(),
            None => {
                format!("encrypt at a higher level, or use a set with a bootstrap: `{USUAL_CKKS}`")
            }
        }
    }

    /// Refuses values that cannot be encoded: more values than slots, a number that is not a power of two, values that are not
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
                // Not the value: its other part may be finite, and secret.
                let nan = values[at].re.is_nan() || values[at].im.is_nan();
                let got = format!("{} at position {at}", if nan { "NaN" } else { "an infinity" });
                Err(Error::bad_input(op, "finite values", got, "remove NaN and infinities"))
            }
            None => Ok(()),
        }
    }

    /// Refuses a set without tables, and integers of more bits than its tables take.
    pub(crate) fn check_integers(&self, op: &'static str, bits: u32) -> Result<()> {
        let most = self.params().bootstrap.map_or(0, |b| b.table_bits);
        if most == 0 {
            let (wanted, remedy) = ("a set with tables of integers", "use `ckks_table_4`");
            return Err(Error::wrong_params(op, wanted, self.params().name, remedy));
        }
        if (1..=most).contains(&bits) {
            return Ok(());
        }
        let remedy = "split larger integers into digits";
        Err(Error::bad_input(op, format!("1 to {most} bits"), bits.to_string(), remedy))
    }

    /// Refuses values of at most `largest` that a level has no room for at a scale.
    pub(crate) fn check_room(
        &self,
        op: &'static str,
        largest: f64,
        level: usize,
        scale: f64,
    ) -> Result<()> {
        let most = self.room(level);
        if largest * scale < most {
            return Ok(());
        }
        let wanted = format!("values below 2^{:.0}", (most / scale).log2());
        let remedy = "scale the values down, or work at a higher level";
        Err(Error::bad_input(op, wanted, format!("2^{:.1}", largest.log2()), remedy))
    }

    /// The primes of all words.
    pub(crate) fn primes(&self) -> &[u64] {
        &self.primes
    }

    /// The modulus of ciphertexts at `level`.
    pub(crate) fn modulus(&self, level: usize) -> f64 {
        self.words_of(level, 0).into_iter().map(|i| self.primes[i] as f64).product()
    }

    /// Standard deviation of a slot from rounding the coefficients of plaintext values of at most `largest` at `scale`, which
    /// doubles have computed.
    pub(crate) fn encoding(&self, scale: f64, largest: f64) -> f64 {
        ((self.params.degree() as f64 / 12.0).sqrt() / scale).hypot(DOUBLES * largest)
    }

    /// Standard deviation of a slot from rounding the two parts of a ciphertext at `scale`.
    pub(crate) fn rounding(&self, scale: f64) -> f64 {
        self.rounding_under(1, scale)
    }

    /// The same under a key that is the sum of the ternary secrets of so many parties.
    pub(crate) fn rounding_under(&self, parties: usize, scale: f64) -> f64 {
        let n = self.params.degree() as f64;
        (n / 12.0 * (1.0 + parties as f64 * 2.0 * n / 3.0)).sqrt() / scale
    }

    /// Standard deviation of a slot from the noise of a key at `scale`: residues of each digit D, uniform, times the key's noise,
    /// over P. Next to [`Chain::rounding`] it is nothing where D is well below P, and four times as much where they are equal.
    pub(crate) fn switching(&self, level: usize, scale: f64) -> f64 {
        self.switching_with(NOISE_STD, level, scale)
    }

    /// [`Chain::switching`] with a key whose noise has this standard deviation.
    pub(crate) fn switching_with(&self, noise_std: f64, level: usize, scale: f64) -> f64 {
        let log2 = |i: usize| (self.primes[self.word_of(level, i)] as f64).log2();
        let (words, special) = (self.words(level), self.special);
        let over: f64 = (words..words + special).map(log2).sum();
        let digits = self.digits(level).into_iter();
        let squares = digits.map(|digit| (2.0 * (digit.map(log2).sum::<f64>() - over)).exp2());
        noise_std * self.params.degree() as f64 * (squares.sum::<f64>() / 12.0).sqrt() / scale
    }

    /// Standard deviation of the noise of a key of products that so many parties made: s·e_0 + u·e_1 + e_2, s and u sums of as many ternary
    /// polynomials, each e of as many of fresh noise ([`collective`](super::collective)).
    pub(crate) fn product_noise(&self, parties: usize) -> f64 {
        let (n, parties) = (self.params.degree() as f64, parties as f64);
        NOISE_STD * (parties * (1.0 + 4.0 / 3.0 * n * parties)).sqrt()
    }

    /// Standard deviation of a slot at level 0 from the noise of the key to the ephemeral secret at `scale`: residues of q_0,
    /// uniform, times the key's noise, over its own special modulus.
    pub(crate) fn encapsulating(&self, b: &CkksBootstrap, scale: f64) -> f64 {
        let log2 = |i: usize| (self.primes[self.word_of(0, i)] as f64).log2();
        let words = self.words(0);
        let (base, over): (f64, f64) =
            ((0..words).map(log2).sum(), (words..words + b.ephemeral_words).map(log2).sum());
        let share = (base - over).exp2();
        b.ephemeral_noise_std * self.params.degree() as f64 * share / 12f64.sqrt() / scale
    }
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
            let chain = Chain::new(params).unwrap();
            let bits = params.chain();
            assert!((chain.scale(0).unwrap().log2() - params.base_scale_bits).abs() < 1e-2);
            let (mut scale, mut last) = (0.0, 0.0);
            for i in (1..bits.len()).rev() {
                if bits[i] != last || i == params.levels {
                    (scale, last) = (bits[i], bits[i]);
                }
                scale = 2.0 * scale - chain.step(i).log2();
                assert!(
                    i == 1 || (scale - bits[i]).abs() < 2e-2,
                    "{} level {i}: {scale}",
                    params.name
                );
            }
            let log2 = |i: usize| (chain.primes[i] as f64).log2();
            let special: f64 =
                (chain.all_words() - chain.special..chain.all_words()).map(log2).sum();
            for tier in &chain.tiers {
                let top = tier.levels.end - 1;
                let sum = |d: &Range<usize>| d.clone().map(|i| log2(tier.first + i)).sum::<f64>();
                let excess = if top == params.top_level() { HIGHEST_EXCESS } else { 0.0 };
                assert!(tier.digits.iter().all(|d| sum(d) <= special + excess + 0.1));
                // The modulus of the tier's keys is that of its highest level, and of no key above the claim.
                let modulus = sum(&(0..chain.words(top)));
                let steps: f64 = (0..=top).map(|i| chain.step(i).log2()).sum();
                let claimed: f64 = bits[..=top].iter().sum();
                assert!(
                    (modulus - steps).abs() < 1e-6 && (modulus - claimed).abs() < 0.1,
                    "{steps}"
                );
                assert!(modulus + special <= params.log2_modulus() + 0.1, "{modulus} bits");
                let first = (bits[..=tier.levels.start].iter().sum::<f64>() / WORD_BITS).ceil();
                if tier.levels.start > 0 {
                    assert_eq!(chain.words(tier.levels.start), first as usize, "no word is wasted");
                }
            }
        }
    }
}
