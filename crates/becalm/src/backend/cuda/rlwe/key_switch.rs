//! Hybrid key switching on a device: as `backend/cpu/rlwe/key_switch.rs`, in launches over all limbs.

use super::keys::DeviceKey;
use super::tape::{Conversions, Kind, Limbs, Tape, Then};
use crate::math::rns::centred;
use becalm_cuda::Argument;
use becalm_cuda::launch::Launch;
use becalm_cuda::rns::{Job, KeyLimb, NO_DIGIT};
use std::ops::Range;

/// The digits of some polynomials, lifted to all words of their level and the special words.
pub(super) struct Digits {
    pub level: usize,
    pub special: usize,
    /// How many polynomials.
    pub polynomials: usize,
    /// The polynomials: each digit is known in its own words.
    pub values: Limbs,
    /// [polynomial][digit][word of the level, then special][N].
    pub lifted: Limbs,
    pub count: usize,
    /// Limbs from one digit to the next.
    pub step: u32,
    /// For each digit the words of the level that are its own.
    own: Vec<Range<usize>>,
}

/// Polynomials that are added to products with a key: limbs from `count` on are zero.
#[derive(Clone)]
pub(super) struct Own {
    /// The parts of the first ciphertext; their stride leads to those of the next.
    pub parts: [Option<Limbs>; 2],
    pub count: usize,
    /// Whether they are multiplied by P.
    pub raised: bool,
}

impl Tape<'_> {
    /// 1/N modulo a word, times `factor`.
    fn unscaled(&self, word: usize, factor: f64) -> f64 {
        let p = self.context.ring().word(word).p;
        let factor = factor.rem_euclid(p as f64) as u64;
        let inverse = crate::math::rns::inverse(self.degree(), p);
        centred(crate::math::rns::mul(factor, inverse, p), p)
    }

    /// A transform of limb `at` of its polynomial modulo a word, to the same place.
    fn job(word: usize, at: usize) -> Job {
        let (word, at) = (word as u32, at as u32);
        Job { word, from: at, to: at, other: at, factor: 1.0, unused: 0 }
    }

    /// Cuts `polynomials` at `level` into digits, for a key with `special` special words.
    pub fn decompose(
        &mut self,
        values: &Limbs,
        polynomials: usize,
        level: usize,
        special: usize,
    ) -> Digits {
        let context = self.context;
        let words = context.words_of(level, special);
        let (count, all, own) = (context.words(level), words.len(), context.digits(level));
        let between = self.take(Kind::Work, polynomials, count);
        let lifted = self.take(Kind::Work, polynomials, own.len() * all);
        let mut conversions = Conversions::default();
        for (j, digit) in own.iter().enumerate() {
            let from = words[digit.clone()].to_vec();
            let converter = context.converter(from.clone(), words.clone());
            let source = |(i, cofactor): (usize, &f64)| {
                let factor = self.unscaled(words[i], *cofactor);
                Job { factor, ..Self::job(words[i], i) }
            };
            let sources = digit.clone().zip(converter.cofactors()).map(source);
            let target = |i: usize| {
                let (factors, quotient) = converter.target(i);
                let job = Self::job(words[i], j * all + i);
                (job, factors.to_vec(), quotient)
            };
            let targets = (0..all).filter(|i| !digit.contains(i)).map(target);
            let inverses = converter.inverses(context.ring());
            conversions.push(sources, &inverses, converter.terms(), targets);
        }
        self.convert([values, &between, &lifted], conversions, polynomials, Then::Nothing);
        let (values, count, step) = (values.clone(), own.len(), all as u32);
        Digits { level, special, polynomials, values, lifted, count, step, own }
    }

    /// Integers that are each of their digits at `level`, known in all its words and the special ones.
    pub fn small_digits(&self, values: &Limbs, level: usize, special: usize) -> Digits {
        let (own, values, lifted) = (vec![], values.clone(), values.clone());
        let (polynomials, count) = (self.lanes, self.context.digits(level).len());
        Digits { level, special, polynomials, values, lifted, count, step: 0, own }
    }

    /// The record of each limb of a product with a key; own polynomials are multiplied by P if `raised`.
    pub fn key_limbs(&mut self, digits: &Digits, raised: bool) -> Argument {
        let (context, level) = (self.context, digits.level);
        let count = context.words(level);
        let record = |(i, word): (usize, usize)| {
            let p = context.ring().word(word).p;
            let factor = centred(context.special_product(digits.special, word), p);
            let digit = digits.own.iter().position(|own| own.contains(&i));
            KeyLimb {
                word: word as u32,
                special: u32::from(i >= count),
                digit: digit.map_or(NO_DIGIT, |j| j as u32),
                factor: if raised { factor } else { 1.0 },
                ..KeyLimb::default()
            }
        };
        let words = context.words_of(level, digits.special);
        let limbs = words.into_iter().enumerate().map(record);
        Argument::Address(self.shared(limbs.flat_map(|limb| limb.words()).collect()))
    }

    /// Σ_j digit_j·(b_j, a_j) + own of each polynomial, and its image under X → X^`power`; added to `base` if there is one, in its place.
    pub fn key_product(
        &mut self,
        digits: &Digits,
        key: &DeviceKey,
        own: &Own,
        power: usize,
        base: Option<&Limbs>,
    ) -> Limbs {
        let all = self.context.words(digits.level) + digits.special;
        let out =
            base.cloned().unwrap_or_else(|| self.take(Kind::Work, 2 * digits.polynomials, all));
        let limbs = self.key_limbs(digits, own.raised);
        let of = |limbs: &Option<Limbs>| Argument::Address(limbs.as_ref().map_or(0, |x| x.at));
        let number = |x: usize| Argument::U32(x as u32);
        let arguments = [
            Argument::Address(out.at),
            Argument::Address(base.map_or(0, |x| x.at)),
            of(&own.parts[0]),
            of(&own.parts[1]),
            number(own.count),
            Argument::Address(digits.lifted.at),
            Argument::Address(digits.values.at),
            limbs,
            self.tables.words(),
            Argument::Address(key.bodies()),
            Argument::Address(key.masks()),
            number(key.count + key.special),
            number(digits.count),
            Argument::U32(digits.step),
            number(all),
            number(power),
            number(digits.polynomials),
            Argument::U64(own.parts.iter().flatten().next().map_or(0, |x| x.stride)),
            Argument::U64(digits.values.stride),
            Argument::U64(digits.lifted.stride),
        ];
        let polynomials = digits.polynomials as u32;
        let launch = Launch::key_product(self.log2_n(), all as u32, polynomials);
        self.launch(launch, arguments);
        out
    }

    /// Divides `count` polynomials at `level` with `special` special words by these and by the steps down to level `to`, and rounds. Words
    /// of `to` that `level` has not, all of them in another tier, count as a factor before: there the number is zero.
    pub fn divide(
        &mut self,
        x: &Limbs,
        count: usize,
        [level, to, special]: [usize; 3],
        kind: Kind,
    ) -> Limbs {
        let context = self.context;
        let (words, into) = (context.words_of(level, special), context.words_of(to, 0));
        let keep = if context.tier_of(level).contains(&to) { into.len() } else { 0 };
        let from = words[keep..].to_vec();
        let converter = context.converter(from.clone(), into.clone());
        let between = self.take(Kind::Work, count, from.len());
        let before = |(i, cofactor): (usize, &f64)| {
            let (word, p) = (from[i], context.ring().word(from[i]).p);
            let whole = if keep == 0 { context.product(&into, word) } else { 1 };
            let cofactor = cofactor.rem_euclid(p as f64) as u64;
            let factor = self.unscaled(word, crate::math::rns::mul(whole, cofactor, p) as f64);
            Job { from: (keep + i) as u32, factor, ..Self::job(word, i) }
        };
        // −1/P, for the lifted number less the limb.
        let target = |(i, word): (usize, &usize)| {
            let p = context.ring().word(*word).p;
            let factor = -centred(context.inverse_product(&from, *word), p);
            let (factors, quotient) = converter.target(i);
            let job = Job { factor, ..Self::job(*word, i) };
            (job, factors.to_vec(), quotient)
        };
        let sources = converter.cofactors().iter().enumerate().map(before);
        let inverses = converter.inverses(context.ring());
        let targets = into.iter().enumerate().map(target);
        let mut conversions = Conversions::default();
        conversions.push(sources, &inverses, converter.terms(), targets);
        let out = self.take(kind, count, into.len());
        let then = if keep == 0 { Then::Scale } else { Then::Subtract(x) };
        self.convert([x, &between, &out], conversions, count, then);
        out
    }

    /// `count` polynomials at level 0 at `level` and in `special` special words: their residues modulo q_0 nearest zero times the integer
    /// `factor`.
    pub fn lift(
        &mut self,
        x: &Limbs,
        count: usize,
        [level, special]: [usize; 2],
        factor: f64,
    ) -> Limbs {
        let context = self.context;
        let (words, base) = (context.words_of(level, special), context.ring().word(0));
        let between = self.take(Kind::Work, count, 1);
        let source = Job { factor: self.unscaled(0, 1.0), ..Self::job(0, 0) };
        let out = self.take(Kind::Work, count, words.len());
        let target = |(i, word): (usize, &usize)| {
            let p = context.ring().word(*word).p;
            let c = crate::ckks::encode::residue(factor, p);
            let whole = crate::math::rns::mul(c.rem_euclid(p as f64) as u64, base.p % p, p);
            let job = Self::job(*word, i);
            (job, vec![c], -centred(whole, p))
        };
        let targets = words.iter().enumerate().map(target);
        let mut conversions = Conversions::default();
        conversions.push([source], &[base.inverse], 1, targets);
        self.convert([x, &between, &out], conversions, count, Then::Nothing);
        out
    }
}
