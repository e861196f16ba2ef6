//! Dual attacks that guess: dual vectors take n − ζ coordinates of the secret out. LWE of ζ coordinates with larger noise
//! is left. It is solved by trying every secret (Espitau–Joux–Kharchenko 2020) or with a table of half of the
//! coordinates (Cheon–Hhan–Hong–Son 2019). For a secret of fixed weight h, the attack supposes that the ζ coordinates
//! hold exactly w non-zero ones. That has hypergeometric probability, and the run is repeated until it holds.
//!
//! Where the same dual vectors serve several secrets ([`Instance::targets`](super::Instance)), k ≤ 1/p of them are tried
//! in a run: k times as many secrets to try, √k times as long with a table, a chance of k·p.
use super::dual::Reduced;
use super::instance::Lwe;
use super::prob::{log2_binomial, repetitions};
use super::reduction::{MAX_BLOCK, MIN_BLOCK, bkz, log2_sum, short_vectors};
use super::search::{local_minimum, refine};
use super::{CEILING_BITS, Candidate, Search};
use std::f64::consts::{LN_2, LOG2_E, PI};

/// The search for the guessed part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Solver {
    /// Tries every value.
    Exhaustive,
    /// Keeps a table of the values of one half.
    MeetInTheMiddle,
}

/// Probability that noise lies within twice its Gaussian width, the tolerance of the table: 1 − 2·e^(−4π).
const LOG2_TAIL: f64 = -1.006_237_813_740_866_5e-5;
/// Probability that the secret is among those tried. Its square is 0.99: the other factor is for telling it apart.
const LN_SHARE: f64 = 0.5 * 0.010_050_335_853_501_45;

pub fn cost(lwe: &Lwe, solver: Solver, search: Search) -> Candidate {
    if lwe.values.is_infinite() {
        return Candidate::default();
    }
    let found = reference(lwe, solver);
    match search {
        Search::Reference => found,
        Search::Strict => {
            let start = Candidate { bits: found.bits.min(CEILING_BITS), ..found };
            refine(lwe.n, start, |zeta, best| scan(lwe, solver, zeta, best))
        }
    }
}

/// The guessed part of the secret: ζ coordinates, `weight` of them not 0 if the weight of the whole secret is fixed.
struct Guess {
    zeta: u32,
    weight: u32,
    /// The number of ones among these.
    plus: u32,
    /// Non-zero values of a coordinate.
    values: f64,
    fixed: bool,
    /// log2 of the number of such parts, and of the probability that the secret has such a part.
    log2_size: f64,
    log2_hit: f64,
    reduced: Reduced,
}

/// log2 of the number of vectors of n coordinates with `plus` of 1 and `minus` of −1.
fn log2_signed(n: u32, plus: u32, minus: u32) -> f64 {
    let [n, plus, minus] = [n, plus, minus].map(f64::from);
    log2_binomial(n, plus) + log2_binomial(n - plus, minus)
}

/// a·b/c to the nearest integer, halves down.
fn proportion(a: u32, b: u32, c: u32) -> u32 {
    let [a, b, c] = [a, b, c].map(u64::from);
    ((2 * a * b + c - 1) / (2 * c)) as u32
}

impl Guess {
    fn new(lwe: &Lwe, zeta: u32, weight: u32) -> Self {
        let rest = lwe.n - zeta;
        let Some(plus) = lwe.fixed_signs else {
            let log2_size = f64::from(zeta) * (lwe.values + 1.0).log2();
            let reduced = Reduced::new(lwe, rest, lwe.secret_std);
            let (values, fixed, log2_hit) = (lwe.values, false, 0.0);
            return Self { zeta, weight: 0, plus: 0, values, fixed, log2_size, log2_hit, reduced };
        };
        // Signs are split in proportion.
        let share = proportion(weight, plus, lwe.weight);
        let left = f64::from(lwe.weight - weight) / f64::from(rest);
        let minus = lwe.weight - plus;
        let mean =
            (f64::from(plus - share) - f64::from(minus - (weight - share))) / f64::from(rest);
        let [n, h, z, w] = [lwe.n, lwe.weight, zeta, weight].map(f64::from);
        Self {
            zeta,
            weight,
            plus: share,
            values: lwe.values,
            fixed: true,
            log2_size: log2_signed(zeta, share, weight - share),
            log2_hit: log2_binomial(n - h, z - w) + log2_binomial(h, w) - log2_binomial(n, z),
            reduced: Reduced::new(lwe, rest, (left - mean * mean).max(0.0).sqrt()),
        }
    }

    /// log2 of the gates to find the part among 2^`log2_targets` times as many under noise σ', and log2 of the samples.
    fn solve(&self, solver: Solver, noise: f64, log2_targets: f64) -> (f64, f64) {
        let spread = 4.0 * PI * PI * noise * noise;
        match solver {
            Solver::Exhaustive if spread > 1e4 => (f64::INFINITY, 0.0),
            Solver::Exhaustive => {
                let size = (self.log2_size - LN_SHARE * LOG2_E).max(0.0) + log2_targets;
                let samples = 3.0 + spread * LOG2_E + (size * LN_2 - LN_SHARE.ln()).log2();
                (1.0 + size + samples, samples)
            }
            Solver::MeetInTheMiddle => self.meet(noise, log2_targets),
        }
    }

    /// The table: T entries and T look-ups, with enough samples to tell the entries apart.
    fn meet(&self, noise: f64, log2_targets: f64) -> (f64, f64) {
        let tolerance = 8.0 * (2.0 * PI).sqrt() * noise;
        if tolerance >= 1.0 || self.zeta == 0 || self.fixed && self.weight == 0 {
            return (f64::INFINITY, 0.0);
        }
        let (n, share) = (f64::from(self.zeta), 2.0 - tolerance);
        let half = (n / share).round();
        let (log2_table, log2_split) = if self.fixed {
            let h = f64::from(self.weight);
            let even = h * (n.log2() - h.log2() + self.values.log2() + LOG2_E) / share;
            let table = even - 0.5 * h.log2() - h * h * LOG2_E / (2.0 * n * share * share);
            (table, self.log2_split(half as u32))
        } else {
            (half * (self.values + 1.0).log2(), 0.0)
        };
        let samples = (log2_table + log2_table.max(1.0).log2()).round().max(1.0);
        let runs = repetitions(samples * LOG2_TAIL + log2_split);
        ((samples + 0.5 * log2_targets).max(log2_targets) + runs, samples.log2() + runs)
    }

    /// log2 of the probability that `half` of the coordinates hold the likeliest number of each sign.
    fn log2_split(&self, half: u32) -> f64 {
        let (plus, minus) = (self.plus, self.weight - self.plus);
        let weight = proportion(self.weight, half, self.zeta);
        let share = proportion(weight, plus, self.weight);
        let (right, other) = (self.zeta - half, weight - share);
        let halves =
            log2_signed(half, share, other) + log2_signed(right, plus - share, minus - other);
        (halves - log2_signed(self.zeta, plus, minus)).min(0.0)
    }

    /// The attack with this guess, BKZ-β and a number of samples.
    fn cost(&self, lwe: &Lwe, solver: Solver, beta: u32, samples: u32) -> Candidate {
        let targets = lwe.log2_targets.min(-self.log2_hit).max(0.0);
        let (guessing, count) = self.solve(solver, self.reduced.noise(beta, samples), targets);
        let d = self.reduced.n + samples;
        let bits = if guessing.is_finite() && d >= beta {
            let once = log2_sum(guessing, short_vectors(beta, d, count));
            once + repetitions((self.log2_hit + targets).min(0.0))
        } else {
            f64::INFINITY
        };
        let (zeta, weight, targets) = (self.zeta, self.weight, targets.exp2().ceil() as u32);
        Candidate { bits, beta, d, zeta, weight, targets, ..Candidate::default() }
    }
}

/// Weights that ζ coordinates can hold, without the greatest, as in the reference.
fn weights(lwe: &Lwe, zeta: u32) -> (u32, u32) {
    if lwe.fixed_signs.is_none() {
        return (0, 1);
    }
    let least = (lwe.weight + zeta).saturating_sub(lwe.n);
    (least, zeta.min(lwe.weight).max(least + 1))
}

/// Walks over ζ in steps of 8, the weight, and β in steps of 8.
fn reference(lwe: &Lwe, solver: Solver) -> Candidate {
    let at = |guess: &Guess, beta| guess.cost(lwe, solver, beta, guess.reduced.best_samples(beta));
    let at_weight = |zeta, weight| {
        let guess = Guess::new(lwe, zeta, weight);
        local_minimum((MIN_BLOCK, MAX_BLOCK), 8, |beta, _| at(&guess, beta)).unwrap_or_default()
    };
    let at_zeta = |zeta| local_minimum(weights(lwe, zeta), 1, |w, _| at_weight(zeta, w));
    local_minimum((0, lwe.n), 8, |zeta, _| at_zeta(zeta).unwrap_or_default()).unwrap_or_default()
}

/// The best of `best` and of every weight and β with ζ guessed coordinates. Near the best β fewer samples are tried too.
fn scan(lwe: &Lwe, solver: Solver, zeta: u32, mut best: Candidate) -> Candidate {
    let (least, end) = weights(lwe, zeta);
    for weight in least..end {
        let guess = Guess::new(lwe, zeta, weight);
        let share = if solver == Solver::MeetInTheMiddle { 0.5 } else { 1.0 };
        let runs = repetitions((guess.log2_hit + lwe.log2_targets).min(0.0));
        if solver == Solver::Exhaustive && share * guess.log2_size + runs >= best.bits {
            continue;
        }
        let mut close = best;
        for beta in MIN_BLOCK..MAX_BLOCK {
            if bkz(beta, (guess.reduced.n + 1).max(beta)) + runs >= best.bits {
                break;
            }
            close = close.or(guess.cost(lwe, solver, beta, guess.reduced.best_samples(beta)));
        }
        if close.bits < best.bits {
            best = close;
            for samples in (1..close.d - guess.reduced.n).rev().take(1024) {
                best = best.or(guess.cost(lwe, solver, close.beta, samples));
            }
        }
    }
    best
}
