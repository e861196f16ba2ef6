//! Sums, products and levels of ciphertexts on a device: as `backend/cpu/rlwe/{arithmetic,sum}.rs`. Programs were checked when they were
//! recorded, so nothing is checked here.

use super::key_switch::Own;
use super::keys::DeviceKey;
use super::tape::{Kind, Limbs, Tape};
use crate::ckks::encode::residue;
use crate::ckks::same_scale;
use crate::math::rns::centred;
use becalm_cuda::Argument;
use becalm_cuda::launch::Launch;
use becalm_cuda::rns::{Pair, Term, UPPER_NEGATIVE};

/// A ciphertext of each lane in a device's memory: both parts of the first, then those of the next, at a level or above.
#[derive(Clone)]
pub(super) struct Cipher {
    pub level: usize,
    pub scale: f64,
    pub parts: Limbs,
}

/// The factor of a term.
pub(super) enum Factor {
    One,
    /// An integer.
    Integer(f64),
    /// The numbers at an address, one for each limb.
    Residues(u64),
    /// A polynomial, value by value.
    Values(Limbs),
    /// √−1: a product with X^(N/2).
    Imaginary,
}

/// Terms at one level and scale, before relinearization and rescaling.
pub(super) struct Sum {
    pub level: usize,
    pub scale: f64,
    terms: Vec<([Option<Limbs>; 2], Factor)>,
    pairs: Vec<(Limbs, Limbs, f64)>,
    /// The integer that is added to every value.
    constant: f64,
}

fn both(x: &Limbs) -> [Option<Limbs>; 2] {
    [Some(x.of_lanes(0)), Some(x.of_lanes(1))]
}

impl Sum {
    /// Nothing yet.
    pub fn new(level: usize, scale: f64) -> Sum {
        Sum { level, scale, terms: vec![], pairs: vec![], constant: 0.0 }
    }

    /// Adds both parts times a factor.
    pub fn add(&mut self, x: &Cipher, factor: Factor) {
        self.terms.push((both(&x.parts), factor));
    }

    /// Adds a polynomial to the first part.
    pub fn add_values(&mut self, values: Limbs) {
        self.terms.push(([Some(values), None], Factor::One));
    }

    /// Adds c·x, for x at this level or above.
    pub fn add_multiple(&mut self, tape: &mut Tape, x: &Cipher, c: f64) {
        let x = tape.lowered(x, self.level);
        let factor = (c * self.scale / x.scale).round();
        self.add(&x, Factor::Integer(factor));
    }

    /// Adds c to every slot.
    pub fn add_constant(&mut self, c: f64) {
        self.constant += (c * self.scale).round();
    }

    /// Adds a·b, both at this level or above. Twice if `twice`.
    pub fn add_product(&mut self, tape: &mut Tape, a: &Cipher, b: &Cipher, twice: bool) {
        let [a, b] = [a, b].map(|x| tape.lowered(x, self.level));
        self.pairs.push((a.parts, b.parts, if twice { 2.0 } else { 1.0 }));
    }

    /// The parts, and the quadratic part behind them if there are products.
    pub fn evaluated(&self, tape: &mut Tape, kind: Kind) -> Limbs {
        let polynomials = tape.lanes * self.polynomials();
        let out = tape.take(kind, polynomials, tape.context.words(self.level));
        Sum::evaluate(std::slice::from_ref(self), tape, &out);
        out
    }

    /// Polynomials of the result of a lane.
    fn polynomials(&self) -> usize {
        if self.pairs.is_empty() { 2 } else { 3 }
    }

    /// The facts that sums of one launch have in common.
    fn shape(&self) -> (usize, usize, usize, u64) {
        (self.level, self.terms.len(), self.pairs.len(), self.constant.to_bits())
    }

    /// [`Sum::evaluated`] in a given place, of some sums one after another: by one launch if they are of one shape.
    fn evaluate(all: &[Sum], tape: &mut Tape, out: &Limbs) {
        let Some(first) = all.first() else { return };
        if all.iter().any(|sum| sum.shape() != first.shape()) {
            let (one, others) = all.split_at(1);
            Sum::evaluate(one, tape, out);
            let next = out.part((tape.lanes * first.polynomials()) as u64);
            return Sum::evaluate(others, tape, &next);
        }
        let context = tape.context;
        let words = context.words_of(first.level, 0);
        let primes: Vec<u64> = words.iter().map(|i| context.ring().word(*i).p).collect();
        let constants = match first.constant {
            0.0 => 0,
            c => tape.numbers(primes.iter().map(|p| residue(c, *p))),
        };
        let (mut terms, mut pairs) = (vec![], vec![]);
        for sum in all {
            let factors = sum.factors(tape, &words, &primes);
            for lane in 0..tape.lanes as u64 {
                terms.extend(sum.terms_of(&factors, lane).flat_map(|term| term.words()));
                pairs.extend(sum.pairs_of(lane).flat_map(|pair| pair.words()));
            }
        }
        let [terms, pairs] = [terms, pairs].map(|words| Argument::Address(tape.own(words)));
        let square = if first.pairs.is_empty() { 0 } else { out.part(2).at };
        let number = |x: usize| Argument::U32(x as u32);
        let arguments = [
            Argument::Address(out.at),
            Argument::Address(out.part(1).at),
            Argument::Address(square),
            terms,
            number(first.terms.len()),
            pairs,
            number(first.pairs.len()),
            Argument::Address(constants),
            tape.tables.words(),
            number(words[0]),
            Argument::U64(first.polynomials() as u64 * out.stride),
        ];
        let sums = (all.len() * tape.lanes) as u32;
        let launch = Launch::sum_values(tape.log2_n(), words.len() as u32, sums);
        tape.launch(launch, arguments);
    }

    /// The factor of each term, in the records of a launch.
    fn factors(&self, tape: &mut Tape, words: &[usize], primes: &[u64]) -> Vec<Term> {
        let context = tape.context;
        let imaginary = |i: &usize| {
            let word = context.ring().word(*i);
            centred(word.imaginary, word.p)
        };
        let mut number = |factor: &Factor| {
            let (constants, values, flags) = match factor {
                Factor::One => (0, 0, 0),
                Factor::Integer(c) => (tape.numbers(primes.iter().map(|p| residue(*c, *p))), 0, 0),
                Factor::Residues(at) => (*at, 0, 0),
                Factor::Values(values) => (0, values.at, 0),
                Factor::Imaginary => (tape.numbers(words.iter().map(imaginary)), 0, UPPER_NEGATIVE),
            };
            Term { constants, values, flags, ..Term::default() }
        };
        self.terms.iter().map(|(_, factor)| number(factor)).collect()
    }

    /// The terms of a lane.
    fn terms_of(&self, factors: &[Term], lane: u64) -> impl Iterator<Item = Term> {
        self.terms.iter().zip(factors).map(move |((parts, _), factor)| {
            let at = |x: &Option<Limbs>| x.as_ref().map_or(0, |x| x.part(lane).at);
            let [part0, part1] = parts.each_ref().map(at);
            Term { part0, part1, ..*factor }
        })
    }

    /// The products of a lane.
    fn pairs_of(&self, lane: u64) -> impl Iterator<Item = Pair> {
        self.pairs.iter().map(move |(a, b, factor)| {
            let at = |x: &Limbs, k: u64| x.part(2 * lane + k).at;
            let [a0, a1, b0, b1] = [at(a, 0), at(a, 1), at(b, 0), at(b, 1)];
            Pair { a0, a1, b0, b1, factor: *factor, unused: 0 }
        })
    }

    /// The sum as it is, without products.
    pub fn kept(self, tape: &mut Tape) -> Cipher {
        let parts = self.evaluated(tape, Kind::Ciphertext);
        Cipher { level: self.level, scale: self.scale, parts }
    }

    /// The sum rescaled, if it has no products.
    pub fn rescale(self, tape: &mut Tape) -> Cipher {
        let parts = self.evaluated(tape, Kind::Work);
        let steps = [self.level, self.level - 1, 0];
        let parts = tape.divide(&parts, 2 * tape.lanes, steps, Kind::Ciphertext);
        self.stamped(tape, parts)
    }

    /// The sum relinearized and rescaled.
    pub fn finish(self, tape: &mut Tape, key: &DeviceKey) -> Cipher {
        Sum::finish_all(vec![self], tape, key).remove(0)
    }

    /// Sums of one shape relinearized and rescaled together: they share a reading of the key, and launches.
    pub fn finish_all(all: Vec<Sum>, tape: &mut Tape, key: &DeviceKey) -> Vec<Cipher> {
        let Some(first) = all.first() else { return vec![] };
        let (level, products) = (first.level, !first.pairs.is_empty());
        let (count, lanes) = (tape.context.words(level), tape.lanes);
        let parts = tape.take(Kind::Work, all.len() * lanes * first.polynomials(), count);
        Sum::evaluate(&all, tape, &parts);
        let special = if products { key.special } else { 0 };
        let raised = match products {
            true => {
                let every = 3 * parts.stride;
                let square = parts.part(2).every(every);
                let digits = tape.decompose(&square, all.len() * lanes, level, special);
                let own = [0, 1].map(|k| Some(parts.part(k).every(every)));
                let own = Own { parts: own, count, raised: true };
                tape.key_product(&digits, key, &own, 1, None)
            }
            false => parts.clone(),
        };
        drop(parts);
        let steps = [level, level - 1, special];
        let made = tape.divide(&raised, 2 * all.len() * lanes, steps, Kind::Ciphertext);
        let each = all.iter().enumerate();
        each.map(|(i, sum)| sum.stamped(tape, made.part((2 * i * lanes) as u64))).collect()
    }

    fn stamped(&self, tape: &Tape, parts: Limbs) -> Cipher {
        let scale = self.scale / tape.context.step(self.level);
        Cipher { level: self.level - 1, scale, parts }
    }
}

impl Tape<'_> {
    /// The same values at `level`, which is not above that of `x`, at the same scale.
    pub fn truncate(&mut self, x: &Cipher, level: usize) -> Cipher {
        let lowest = self.context.tier_of(x.level).start.max(level);
        let x = Cipher { level: lowest, ..x.clone() };
        if lowest == level {
            return x;
        }
        let step = self.context.step(lowest);
        let mut sum = Sum::new(lowest, x.scale * step.round());
        sum.add_multiple(self, &x, 1.0);
        let x = Cipher { scale: x.scale, ..sum.rescale(self) };
        self.truncate(&x, level)
    }

    /// [`Tape::truncate`] where the words are others.
    pub fn lowered(&mut self, x: &Cipher, level: usize) -> Cipher {
        match self.context.tier_of(level).contains(&x.level) {
            true => x.clone(),
            false => self.truncate(x, level),
        }
    }

    /// The same values at a lower level, at the scale `scale` of that level.
    pub fn level_down(&mut self, x: &Cipher, level: usize, scale: f64) -> Cipher {
        if level == x.level || same_scale(x.scale, scale) {
            return self.truncate(x, level);
        }
        let x = self.truncate(x, level + 1);
        let mut sum = Sum::new(level + 1, scale * self.context.step(level + 1));
        sum.add_multiple(self, &x, 1.0);
        sum.rescale(self)
    }

    /// [`Tape::level_down`] to the scale of the level, where the level is another.
    pub fn down(&mut self, x: &Cipher, level: usize) -> Cipher {
        match self.context.scales().get(level) {
            Some(scale) if x.level != level => self.level_down(x, level, *scale),
            _ => x.clone(),
        }
    }

    /// Two ciphertexts at the lower of their levels.
    pub fn aligned(&mut self, a: &Cipher, b: &Cipher) -> [Cipher; 2] {
        let level = a.level.min(b.level);
        [self.down(a, level), self.down(b, level)]
    }

    /// The same values one level lower, the scale divided by the step.
    pub fn rescale(&mut self, x: &Cipher) -> Cipher {
        let mut sum = Sum::new(x.level, x.scale);
        sum.add(x, Factor::One);
        sum.rescale(self)
    }

    /// x times a factor, at its level and scale.
    pub fn times(&mut self, x: &Cipher, factor: Factor) -> Cipher {
        let mut sum = Sum::new(x.level, x.scale);
        sum.add(x, factor);
        sum.kept(self)
    }

    /// a + b, or a − b, at the lower of the two levels.
    pub fn add(&mut self, a: &Cipher, b: &Cipher, sign: f64) -> Cipher {
        let [a, b] = self.aligned(a, b);
        let mut sum = Sum::new(a.level, a.scale);
        sum.add(&a, Factor::One);
        let factor = if sign < 0.0 { Factor::Integer(-1.0) } else { Factor::One };
        sum.add(&b, factor);
        sum.kept(self)
    }
}
