//! Dual hybrid attack of the MATZOV report (2022, Theorem 7.6): of n coordinates, ζ are enumerated, t go under a
//! Fourier transform modulo p, and the n − ζ − t left are killed by short dual vectors of a lattice with m samples.
//!
//! * length of the vectors: λ = σ_e^(m/D)·(σ_s·q)^(k/D)·√(4/3)·√(β/2πe)·δ^(D−β), k = n − ζ − t, D = m + k;
//! * vectors needed: N = e^(4(πλ/q)²)·e^(t(πσ_s/p)²/3)·(ζ·H(σ_s) + t·ln p + ln 2);
//! * gates: T_sample(β, D, N) + c·(2a/√e)^ζ·2^(ζH)·(1024·t·p^(t+1) + 640·N).
//!
//! The reference takes m = n samples as the report does; the strict search takes as many as are best.
use super::instance::Lwe;
use super::reduction::{
    MAX_BLOCK, MIN_BLOCK, bkz, log2_delta, log2_sum, short_vectors, short_vectors_at_least,
};
use super::search::{bisect, early_abort, local_minimum};
use super::{CEILING_BITS, Candidate, Search};
use std::f64::consts::{E, LN_2, LOG2_E, PI};
use std::ops::RangeInclusive;

/// Gates of one multiplication and of one table update (MATZOV 2022, pp. 38, 39).
const MULTIPLICATION: f64 = 1024.0;
const TABLE_UPDATE: f64 = 640.0;

/// No greater modulus is tried: for so wide a secret the rest of the model does not hold either.
const MAX_MODULUS: u32 = 1 << 30;

pub fn cost(lwe: &Lwe, search: Search) -> Candidate {
    let attack = DualHybrid::new(lwe);
    if attack.is_hopeless() {
        return Candidate::default();
    }
    match search {
        Search::Reference => attack.reference(),
        Search::Strict => attack.strict(),
    }
}

/// The quantities that depend on the distributions alone.
struct DualHybrid<'a> {
    lwe: &'a Lwe,
    /// Entropy H of a coordinate of the secret, in bits, by a Gaussian of the same width.
    entropy: f64,
    /// log2 of the enumeration's growth per coordinate, (2a/√e)·2^H.
    growth: f64,
    /// log2 of the constant c.
    constant: f64,
    /// log2 of the widths of the secret, and of the noise relative to q.
    log2_secret: f64,
    log2_noise: f64,
}

impl<'a> DualHybrid<'a> {
    fn new(lwe: &'a Lwe) -> Self {
        let variance = lwe.secret_std * lwe.secret_std;
        let alpha = PI * PI * variance;
        let entropy = (0.5 + 0.5 * (2.0 * PI * variance).ln() - alpha.tanh().ln()) / LN_2;
        let log2_a = 8.0 * alpha * (-2.0 * alpha).exp() * alpha.tanh() * LOG2_E;
        let constant = -(-(-0.5 / variance).exp_m1()).log2();
        let growth = 1.0 + log2_a - 0.5 * LOG2_E + entropy;
        let log2_noise = lwe.log2_noise - lwe.log2_q;
        Self { lwe, entropy, growth, constant, log2_secret: lwe.secret_std.log2(), log2_noise }
    }

    /// Steps of 10 in ζ and t, a walk over β, each loop left at the first rise.
    fn reference(&self) -> Candidate {
        let n = self.lwe.n;
        let mut irrelevant = false;
        let over_p = early_abort(2..u32::MAX, 1, |p| {
            if irrelevant {
                return None;
            }
            let found = early_abort(0..n, 10, |zeta| {
                early_abort(0..n - zeta, 10, |t| {
                    let split = self.split(zeta, t, Moduli::one(p));
                    local_minimum((MIN_BLOCK, MAX_BLOCK), 1, |beta, _| {
                        self.cost(split, beta, 2 * n - zeta - t)
                    })
                })
            });
            // Without a Fourier transform p does not matter.
            irrelevant = p > 2 && found.is_some_and(|c| c.t == 0);
            found
        });
        over_p.unwrap_or_default()
    }

    /// Every (ζ, t, p, β) that could beat the best so far, until no greater p can.
    fn strict(&self) -> Candidate {
        let reference = self.reference();
        let mut best = Candidate { bits: reference.bits.min(CEILING_BITS), ..reference };
        let (mut first, mut last) = (2, 2);
        while last < MAX_MODULUS {
            best = self.scan_moduli(first, last, best);
            (first, last) = (last + 1, 2 * last + 1);
            if self.scan(Moduli { first, last: f64::INFINITY }, 1, best).bits >= best.bits {
                break;
            }
        }
        if best.beta == 0 { best } else { self.polish(best) }
    }

    /// The best of `best` and all points with p from `first` to `last`: the range is halved until it is ruled out
    /// or, to 1/64, a single modulus.
    fn scan_moduli(&self, first: u32, last: u32, best: Candidate) -> Candidate {
        if last - first <= first / 64 {
            // A coarse pass first: the full one drops more the better the best so far.
            let best = self.scan(Moduli::one(first), 8, best);
            return self.scan(Moduli::one(first), 1, best);
        }
        if self.scan(Moduli { first, last: f64::from(last) }, 1, best).bits >= best.bits {
            return best;
        }
        let middle = first.midpoint(last);
        let best = self.scan_moduli(first, middle, best);
        self.scan_moduli(middle + 1, last, best)
    }

    /// The best of `best` and all points with these moduli, by branch and bound: the parts of the cost which do
    /// not depend on the parameter at hand bound it from below. For more than one modulus, minus infinity unless
    /// that bound rules out every point.
    fn scan(&self, moduli: Moduli, step: usize, mut best: Candidate) -> Candidate {
        let n = self.lwe.n;
        // Without a Fourier transform one modulus is as good as another.
        let least = u32::from(moduli.first > 2);
        for zeta in (0..n).step_by(step) {
            if self.split(zeta, 0, moduli).log2_guess(0.0) >= best.bits {
                break;
            }
            let mut highest = MIN_BLOCK;
            for t in (least..n - zeta).step_by(step) {
                let split = self.split(zeta, t, moduli);
                if split.log2_guess(0.0) >= best.bits {
                    break;
                }
                while highest < MAX_BLOCK
                    && bkz(highest + 1, split.unknowns.max(highest + 2)) < best.bits
                {
                    highest += 1;
                }
                best = self.scan_blocks(split, highest, best);
            }
        }
        best
    }

    /// The best of `best` and all points with this split and β ≤ `highest`. A smaller block gives longer vectors,
    /// as do fewer dimensions: both of which more are needed.
    fn scan_blocks(&self, split: Split, highest: u32, mut best: Candidate) -> Candidate {
        let (mut beta, mut low) = (highest, 0);
        while beta >= MIN_BLOCK {
            let shortest = self.shortest_dimension(split, beta);
            let fewest = self.log2_vectors(split, beta, shortest);
            let guess = split.log2_guess(fewest);
            if guess >= best.bits {
                break;
            }
            let is_affordable =
                |d: u32| split.log2_guess(self.log2_vectors(split, beta, d)) < best.bits;
            if low == 0 {
                // Dimensions that are too few for the largest block are too few for the others.
                low = bisect((split.unknowns, shortest), shortest / 16, is_affordable).0;
            }
            let may_win = |floor: u32| {
                let sampling = short_vectors_at_least(beta, floor..=shortest, fewest);
                log2_sum(sampling, guess) < best.bits
            };
            let mut floor = low.max(beta + 1);
            if may_win(floor) {
                floor = floor.max(bisect((floor, shortest), 1, is_affordable).0);
                if may_win(floor) {
                    best = self.scan_dimensions((split, beta), floor..=shortest, 256, best);
                }
            }
            beta -= 1;
            if bkz(beta, low.max(beta + 1)) >= best.bits {
                // The last block whose reduction alone is not too expensive.
                let is_cheap = |step: u32| {
                    bkz(beta.saturating_sub(step), low.max(beta.saturating_sub(step) + 1))
                        < best.bits
                };
                beta -= bisect((0, (beta + 1).saturating_sub(MIN_BLOCK)), 1, is_cheap).1;
            }
        }
        best
    }

    /// The best of `best` and these dimensions: 32 of them, and `most` of them if one of the 32 comes close. (The
    /// cost jumps by 0.3 bit where the sieve grows by a dimension.)
    fn scan_dimensions(
        &self,
        (split, beta): (Split, u32),
        range: RangeInclusive<u32>,
        most: u32,
        best: Candidate,
    ) -> Candidate {
        let count = range.end().saturating_sub(*range.start());
        let scan = |parts: u32| {
            let dimensions = range.clone().step_by((count / parts) as usize + 1);
            dimensions.fold(Candidate::default(), |b, d| b.or(self.cost(split, beta, d)))
        };
        if scan(32).bits > best.bits + 0.4 {
            return best;
        }
        let found = scan(most);
        if split.is_bound && found.bits < best.bits {
            return Candidate { bits: f64::NEG_INFINITY, ..best };
        }
        best.or(found)
    }

    /// Every dimension, around the best of a scan.
    fn polish(&self, best: Candidate) -> Candidate {
        let around = |x: u32, least: u32| x.saturating_sub(1).max(least)..=x + 1;
        let mut polished = best;
        for zeta in around(best.zeta, 0) {
            for t in around(best.t, 0).filter(|t| zeta + t < self.lwe.n) {
                let split = self.split(zeta, t, Moduli::one(best.p));
                for beta in around(best.beta, MIN_BLOCK) {
                    let range = split.unknowns.max(beta + 1)..=self.shortest_dimension(split, beta);
                    polished = self.scan_dimensions((split, beta), range, 4096, polished);
                }
            }
        }
        polished
    }

    /// The dimension D with the shortest vectors, √(k·log(σ_s·q/σ_e)/log δ).
    fn shortest_dimension(&self, split: Split, beta: u32) -> u32 {
        let square = f64::from(split.unknowns) * (self.log2_secret - self.log2_noise).max(0.0)
            / log2_delta(beta);
        (square.sqrt().ceil() as u32).max(split.unknowns + 1).max(beta + 1)
    }

    fn cost(&self, split: Split, beta: u32, d: u32) -> Candidate {
        let count = self.log2_vectors(split, beta, d);
        let bits = log2_sum(short_vectors(beta, d, count), split.log2_guess(count));
        let Split { zeta, t, p, .. } = split;
        Candidate { bits, beta, d, zeta, t, p, ..Candidate::default() }
    }

    /// log2 of N.
    fn log2_vectors(&self, split: Split, beta: u32, d: u32) -> f64 {
        let [k, b, dim] = [split.unknowns, beta, d].map(f64::from);
        let log2_length = self.log2_noise
            + k / dim * (self.log2_secret - self.log2_noise)
            + 0.5 * (b * (4.0 / 3.0 / (2.0 * PI * E))).log2()
            + (dim - b) * log2_delta(beta);
        4.0 * PI * PI * LOG2_E * (2.0 * log2_length).exp2() + split.log2_guesses
    }

    fn split(&self, zeta: u32, t: u32, moduli: Moduli) -> Split {
        let unknowns = self.lwe.n - zeta - t;
        let [z, k, base] = [zeta, t, moduli.first].map(f64::from);
        let rounding = k / 3.0 * (self.lwe.secret_std * PI / moduli.last).powi(2);
        let log2_guesses = rounding * LOG2_E + (z * self.entropy + k * base.ln() + LN_2).log2();
        let log2_transform = MULTIPLICATION.log2() + k.log2() + (k + 1.0) * base.log2();
        let log2_enumeration = self.constant + z * self.growth;
        let is_bound = base < moduli.last;
        let p = moduli.first;
        Split { zeta, t, p, unknowns, is_bound, log2_guesses, log2_enumeration, log2_transform }
    }

    /// Whether even the strongest reduction within the ceiling, with as many coordinates guessed and transformed
    /// as the ceiling allows, needs too many vectors.
    fn is_hopeless(&self) -> bool {
        let zeta = (CEILING_BITS / self.growth).min(f64::from(self.lwe.n)) as u32;
        let t = (CEILING_BITS as u32).min(self.lwe.n - zeta);
        let split = self.split(zeta, t, Moduli { first: 2, last: f64::INFINITY });
        self.log2_vectors(split, MAX_BLOCK, self.shortest_dimension(split, MAX_BLOCK))
            > CEILING_BITS
    }
}

/// A range of moduli p of the Fourier transform. A cost for several is a lower bound for each of them: the
/// transform of the first, the rounding of the last.
#[derive(Clone, Copy)]
struct Moduli {
    first: u32,
    last: f64,
}

impl Moduli {
    fn one(p: u32) -> Self {
        Self { first: p, last: f64::from(p) }
    }
}

/// The split of the coordinates, and the figures that follow from that alone.
#[derive(Clone, Copy)]
struct Split {
    zeta: u32,
    t: u32,
    p: u32,
    /// Coordinates left to the lattice, k.
    unknowns: u32,
    /// Whether this is a lower bound for several moduli.
    is_bound: bool,
    /// log2 of the factors of N for telling the guesses apart and for rounding the secret modulo p.
    log2_guesses: f64,
    log2_enumeration: f64,
    log2_transform: f64,
}

impl Split {
    /// log2 of the gates of enumeration, Fourier transform and table updates for 2^`count` vectors.
    fn log2_guess(&self, count: f64) -> f64 {
        self.log2_enumeration + log2_sum(self.log2_transform, TABLE_UPDATE.log2() + count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Instance, Secret};
    use super::*;

    /// No point on a grid through the whole space beats the branch and bound.
    #[test]
    fn no_sampled_point_beats_the_strict_search() {
        let cases = [
            (200, 20.0, Secret::Binary, 50.0),
            (150, 14.0, Secret::Ternary, 3.2),
            (160, 16.0, Secret::Gaussian { std: 3.2 }, 3.2),
        ];
        for (n, log2_q, secret, noise_std) in cases {
            let lwe = Lwe::new(&Instance { n, log2_q, secret, noise_std, targets: 1 }).unwrap();
            let attack = DualHybrid::new(&lwe);
            let best = attack.strict();
            assert!(best.bits < attack.reference().bits);
            for p in 2..9 {
                for zeta in (0..30).step_by(3) {
                    for t in 0..30 {
                        let split = attack.split(zeta, t, Moduli::one(p));
                        for beta in (MIN_BLOCK..200).step_by(2) {
                            for d in (split.unknowns.max(beta) + 1..2 * n).step_by(16) {
                                let found = attack.cost(split, beta, d);
                                assert!(found.bits >= best.bits, "{found:?} beats {best:?}");
                            }
                        }
                    }
                }
            }
        }
    }
}
