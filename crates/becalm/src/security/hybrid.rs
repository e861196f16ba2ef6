//! Primal attacks that end in a closest-vector problem, with or without guessing part of the secret.
//!
//! Guess ζ coordinates (all vectors up to some weight), reduce a basis of the rest with BKZ-β once, and decode every
//! guess: by one SVP call in the last η dimensions and nearest plane before them (Liu–Nguyen 2013;
//! Albrecht–Curtis–Wunderer 2019), or by nearest plane alone for √|S| guesses that meet in the middle
//! (Howgrave-Graham 2007, Son–Cheon 2019). Gates: (BKZ-β + |S|^(1 or ½)·decode)·⌈ln 0.01/ln(1 − p)⌉ with p the
//! probability that the secret is among the guesses and that decoding succeeds. ζ = 0 is the BDD attack.
//!
//! Where one basis serves several secrets ([`Instance::targets`](super::Instance): X^i·s for all i, in a ring), the attack
//! tries k ≤ 1/p of them with it. It makes k·|S| guesses, and one is right with probability k·p.
use super::instance::Lwe;
use super::prob::{GuessSet, Profile, guess_sets, repetitions};
use super::reduction::{
    MAX_BLOCK, MAX_PROJECTION, MIN_BLOCK, bkz, log2_ball, log2_delta, log2_sum,
};
use super::search::{bounded_minimum, local_minimum, refine};
use super::{CEILING_BITS, Candidate, Search, usvp};
use std::cell::OnceCell;
use std::collections::HashMap;

/// How a guess is decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decoder {
    /// A closest-vector call per guess.
    ClosestVector,
    /// Nearest plane, for the square root of the number of guesses.
    MeetInTheMiddle,
}

/// One reduced basis, ready to decode guesses.
struct Attempt {
    decoder: Decoder,
    beta: u32,
    d: u32,
    eta: u32,
    zeta: u32,
    /// log2 of the gates of the reduction, and of decoding one guess.
    reduction: f64,
    decoding: f64,
    profile: Profile,
    /// log2 of the number of secrets that the basis serves.
    log2_targets: f64,
    /// log2 of the probability that the right guess is decoded; computed when needed.
    success: OnceCell<f64>,
}

impl Attempt {
    /// The attempt with ζ guesses in dimension `d` (by default the dimension of the shortest vectors); none where the
    /// reduction cannot reveal the noise.
    fn new(lwe: &Lwe, decoder: Decoder, beta: u32, zeta: u32, d: Option<u32>) -> Option<Self> {
        let (unknowns, delta) = (f64::from(lwe.n - zeta), log2_delta(beta));
        let square = unknowns * (lwe.log2_q - lwe.log2_scale).max(0.0) / delta;
        let d = d.unwrap_or((square.sqrt().ceil() as u32).max(beta));
        if d < beta {
            return None;
        }
        let dim = f64::from(d);
        let root_volume = ((dim - unknowns) * lwe.log2_q + unknowns * lwe.log2_scale) / dim;
        let first = 2.0 * ((dim - 1.0) * delta + root_volume - lwe.log2_noise);
        let profile = Profile { first, slope: 4.0 * delta, len: d };
        let (eta, decoding, len) = match decoder {
            Decoder::MeetInTheMiddle => (2, 2.0 * dim.log2(), d),
            Decoder::ClosestVector => {
                let eta = 1 + hidden_dimension(d, root_volume - lwe.log2_noise, delta);
                if eta > d {
                    return None;
                }
                let lift = 2.0 * f64::from((d - eta).max(1)).log2();
                (eta, log2_sum(bkz(eta + 1, eta + 1), lift), d - eta)
            }
        };
        let profile = Profile { len, ..profile };
        let reduction = bkz(beta, d);
        Some(Self {
            decoder,
            beta,
            d,
            eta,
            zeta,
            reduction,
            decoding,
            profile,
            log2_targets: lwe.log2_targets,
            success: OnceCell::new(),
        })
    }

    /// log2 of the gates of one run with these guesses of 2^`log2_targets` secrets. Each secret is decoded at least
    /// once.
    fn once(&self, guesses: GuessSet, log2_targets: f64) -> f64 {
        let guesses = log2_targets + guesses.log2_size;
        let decoded = match self.decoder {
            Decoder::MeetInTheMiddle => (0.5 * guesses).max(log2_targets),
            Decoder::ClosestVector => guesses,
        };
        log2_sum(self.reduction, self.decoding + decoded)
    }

    /// log2 of the number of runs if one target suits with probability 2^`log2_hit` and each run tries all of them.
    fn runs(&self, log2_hit: f64) -> f64 {
        repetitions((log2_hit + self.log2_targets).min(0.0))
    }

    fn log2_success(&self) -> f64 {
        *self.success.get_or_init(|| {
            let plane = self.profile.log2_nearest_plane();
            let meets = self.decoder == Decoder::MeetInTheMiddle && self.zeta > 0;
            if meets { plane + self.profile.log2_meeting() } else { plane }
        })
    }

    /// Cost with these guesses; a lower bound where that passes `limit` already.
    fn cost(&self, guesses: GuessSet, limit: f64) -> Candidate {
        let mut bits = self.once(guesses, 0.0) + self.runs(guesses.log2_hit);
        let mut targets = 0.0;
        if bits <= limit {
            let hit = guesses.log2_hit + self.log2_success();
            targets = self.log2_targets.min(-hit).max(0.0);
            bits = self.once(guesses, targets) + repetitions(hit + targets);
        }
        let Self { beta, d, eta, zeta, .. } = *self;
        let (weight, targets) = (guesses.weight, targets.exp2().ceil() as u32);
        Candidate { bits, beta, d, eta, zeta, weight, targets, ..Candidate::default() }
    }
}

/// Greatest dimension k of a projected block in which the noise is not the shortest vector: where the Gaussian
/// heuristic for the block with the noise embedded, (vol_k·σ/V_{k+1})^(1/(k+1)), is below σ√(k+1). 0 if there is
/// none; at most 1754 in lattices beyond [`MAX_PROJECTION`] (a sieve there is past the ceiling anyhow).
/// `log2_root` is log2(vol^(1/d)/σ).
fn hidden_dimension(d: u32, log2_root: f64, delta: f64) -> u32 {
    let is_hidden = |k: u32| {
        let (dim, next) = (f64::from(k), f64::from(k + 1));
        let log2_volume = dim * (log2_root - f64::from(d - k) * delta);
        2.0 * (log2_volume - log2_ball(k + 1)) < next * next.log2()
    };
    let (mut low, mut high) = (20.min(d), if d > MAX_PROJECTION { MAX_BLOCK } else { d });
    if !is_hidden(low) {
        // In the smallest blocks the heuristic wavers: look at each.
        return (1..low).rev().find(|&k| is_hidden(k)).unwrap_or(0);
    }
    if is_hidden(high) {
        return high;
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if is_hidden(middle) { low = middle } else { high = middle }
    }
    low
}

/// The single guess of the BDD attack.
const NO_GUESS: GuessSet = GuessSet { weight: 0, log2_size: 0.0, log2_hit: 0.0 };

/// The BDD attack.
pub fn bdd(lwe: &Lwe, search: Search) -> Candidate {
    let reference = reference_bdd(lwe);
    match search {
        Search::Reference => reference,
        Search::Strict => {
            Scan { lwe, decoder: Decoder::ClosestVector }.scan_blocks(0, capped(reference))
        }
    }
}

/// A walk over β at the dimension of the shortest vectors, then one over the dimension.
fn reference_bdd(lwe: &Lwe) -> Candidate {
    let cost = |beta, d, limit| {
        let attempt = Attempt::new(lwe, Decoder::ClosestVector, beta, 0, d);
        attempt.map_or(Candidate::default(), |a| a.cost(NO_GUESS, limit))
    };
    let found = local_minimum(block_range(lwe), 2, |beta, limit| cost(beta, None, limit))
        .unwrap_or_default();
    if !found.bits.is_finite() || found.d < lwe.n {
        return found;
    }
    local_minimum((lwe.n, found.d + 1), 1, |d, limit| cost(found.beta, Some(d), limit))
        .unwrap_or(found)
}

/// Block sizes worth trying: those below the uSVP attack's.
fn block_range(lwe: &Lwe) -> (u32, u32) {
    let embedding = usvp::reference(lwe);
    let highest = if embedding.bits.is_finite() { embedding.beta } else { MAX_BLOCK };
    (MIN_BLOCK, highest + 2)
}

/// A hybrid attack.
pub fn cost(lwe: &Lwe, decoder: Decoder, search: Search) -> Candidate {
    let found = reference(lwe, decoder);
    match (search, decoder) {
        (Search::Reference, _) => found,
        (Search::Strict, Decoder::MeetInTheMiddle) => {
            Scan { lwe, decoder }.scan_guesses(capped(found))
        }
        // Without guesses this is the BDD attack.
        (Search::Strict, Decoder::ClosestVector) => {
            Scan { lwe, decoder }.scan_guesses(found.or(bdd(lwe, search)))
        }
    }
}

fn capped(found: Candidate) -> Candidate {
    Candidate { bits: found.bits.min(CEILING_BITS), ..found }
}

/// The strict search: all points that bounds on their cost do not rule out.
struct Scan<'a> {
    lwe: &'a Lwe,
    decoder: Decoder,
}

impl Scan<'_> {
    fn scan_guesses(&self, best: Candidate) -> Candidate {
        refine(self.lwe.n, best, |zeta, best| self.scan_blocks(zeta, best))
    }

    /// The best of `best` and all block sizes and guess sets with ζ guesses.
    fn scan_blocks(&self, zeta: u32, mut best: Candidate) -> Candidate {
        let unknowns = self.lwe.n - zeta;
        let share = if self.decoder == Decoder::MeetInTheMiddle { 0.5 } else { 1.0 };
        let sets = guess_sets(self.lwe.n, self.lwe.weight, zeta, self.lwe.values);
        let sets: Vec<_> = sets.take_while(|g| share * g.log2_size < best.bits).collect();
        let affordable = |beta: &u32| bkz(*beta, unknowns.max(beta + 1)) < best.bits;
        let highest = (MIN_BLOCK..MAX_BLOCK).take_while(affordable).last().unwrap_or(0);
        let mut log2_ceiling = 0.0;
        let mut close = Vec::new();
        for beta in (MIN_BLOCK..=highest).rev() {
            let Some(attempt) = Attempt::new(self.lwe, self.decoder, beta, zeta, None) else {
                break;
            };
            // Less reduction never makes decoding cheaper.
            if attempt.decoding + attempt.runs(log2_ceiling) >= best.bits {
                break;
            }
            // Smaller sets miss the secret too often for this reduction, greater ones take too long to decode.
            let spare = best.bits - attempt.reduction;
            let from = sets.partition_point(|g| attempt.runs(g.log2_hit + log2_ceiling) > spare);
            let to = sets.partition_point(|g| attempt.decoding + share * g.log2_size < best.bits);
            for &guesses in sets.get(from..to).unwrap_or_default() {
                let runs = attempt.runs(guesses.log2_hit + log2_ceiling);
                if attempt.once(guesses, 0.0) + runs >= best.bits + MARGIN {
                    continue;
                }
                let found = attempt.cost(guesses, f64::INFINITY);
                best = best.or(found);
                close.push((found, guesses));
                if self.decoder == Decoder::MeetInTheMiddle {
                    // Nor does it make nearest plane likelier to succeed.
                    log2_ceiling = attempt.log2_success().min(0.0);
                }
            }
        }
        close.retain(|(found, _)| found.bits < best.bits + MARGIN);
        close.sort_by(|(a, _), (b, _)| a.bits.total_cmp(&b.bits));
        close
            .iter()
            .take(8)
            .fold(best, |best, &(found, guesses)| self.scan_dimensions(found, guesses, best))
    }

    /// The best of `best` and the same attack in fewer dimensions, down to where that costs more again.
    fn scan_dimensions(
        &self,
        found: Candidate,
        guesses: GuessSet,
        mut best: Candidate,
    ) -> Candidate {
        let least = (self.lwe.n - found.zeta + 1).max(found.beta);
        let step = (found.d.saturating_sub(least) / 1024 + 1) as usize;
        for d in (least..found.d).rev().step_by(step) {
            let attempt = Attempt::new(self.lwe, self.decoder, found.beta, found.zeta, Some(d));
            let Some(fewer) = attempt.map(|a| a.cost(guesses, f64::INFINITY)) else {
                break;
            };
            if fewer.bits > found.bits + 2.0 * MARGIN {
                break;
            }
            best = best.or(fewer);
        }
        best
    }
}

/// How far above the best a point may be for its dimension to be tuned; tuning gains less.
const MARGIN: f64 = 0.1;

/// Brent's method over ζ between the least and the greatest that work, then three neighbours on either side.
fn reference(lwe: &Lwe, decoder: Decoder) -> Candidate {
    let blocks = block_range(lwe);
    let mut known = HashMap::new();
    let mut at =
        |zeta: u32| *known.entry(zeta).or_insert_with(|| best_at(lwe, decoder, zeta, blocks));
    let (least, at_least) = feasible_end(0, lwe.n - 1, &mut at);
    let (greatest, at_greatest) = feasible_end(lwe.n - 1, 0, &mut at);
    let zeta = bounded_minimum(f64::from(least), f64::from(greatest), |x| {
        at(x.round_ties_even() as u32).bits
    }) as u32;
    let neighbours = zeta.saturating_sub(3)..=(zeta + 3).min(lwe.n);
    let found = neighbours.fold(at(zeta), |best, z| best.or(at(z)));
    found.or(at_least).or(at_greatest)
}

/// The number of guesses nearest to `end` at which the attack works, towards `other`, by bisection, and the last
/// cost seen.
fn feasible_end(end: u32, other: u32, at: &mut impl FnMut(u32) -> Candidate) -> (u32, Candidate) {
    let mut cost = at(end);
    if cost.bits.is_finite() {
        return (end, cost);
    }
    let (mut low, mut high) = (end.min(other), end.max(other));
    while high - low > 1 {
        let middle = low.midpoint(high);
        cost = at(middle);
        if cost.bits.is_finite() == (end < other) { high = middle } else { low = middle }
    }
    (low, cost)
}

/// The best attack with ζ guesses: growing sets of guesses until the cost rises, a walk over β for each.
fn best_at(lwe: &Lwe, decoder: Decoder, zeta: u32, blocks: (u32, u32)) -> Candidate {
    let mut attempts: HashMap<u32, Option<Attempt>> = HashMap::new();
    let mut best = Candidate::default();
    for guesses in guess_sets(lwe.n, lwe.weight, zeta, lwe.values) {
        let found = local_minimum(blocks, 2, |beta, limit| {
            let attempt = attempts
                .entry(beta)
                .or_insert_with(|| Attempt::new(lwe, decoder, beta, zeta, None));
            attempt.as_ref().map_or(Candidate::default(), |a| a.cost(guesses, limit))
        })
        .unwrap_or_default();
        if found.bits > best.bits {
            break;
        }
        best = found;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::{Instance, Secret};
    use super::*;

    fn toy() -> Lwe {
        Lwe::new(&Instance {
            n: 200,
            log2_q: 20.0,
            secret: Secret::Sparse { weight: 20 },
            noise_std: 50.0,
            targets: 1,
        })
        .unwrap()
    }

    /// Bisection finds the same as a look at every block.
    #[test]
    fn hidden_dimension_is_the_first_that_hides_the_noise() {
        for d in [25, 60, 300, 900, 3000] {
            for beta in [40, 100, 250, 400] {
                let delta = log2_delta(beta);
                for tenth in 0..100 {
                    let log2_root = f64::from(d) * delta + f64::from(tenth) * 0.1 - 2.0;
                    let hides = |k: u32| {
                        let log2_volume = f64::from(k) * (log2_root - f64::from(d - k) * delta);
                        let gaussian = 2.0 * (log2_volume - log2_ball(k + 1)) / f64::from(k + 1);
                        gaussian < f64::from(k + 1).log2()
                    };
                    let linear = (1..=d).rev().find(|&k| hides(k)).unwrap_or(0);
                    assert_eq!(hidden_dimension(d, log2_root, delta), linear, "{d} {beta} {tenth}");
                }
            }
        }
    }

    /// No point on a grid through the whole space beats the scan by more than its grid over ζ can lose.
    #[test]
    fn no_sampled_point_beats_the_strict_search() {
        let lwe = toy();
        for decoder in [Decoder::ClosestVector, Decoder::MeetInTheMiddle] {
            let best = cost(&lwe, decoder, Search::Strict);
            assert!(best.bits <= cost(&lwe, decoder, Search::Reference).bits);
            for zeta in 0..lwe.n - 40 {
                for beta in (MIN_BLOCK..200).step_by(3) {
                    let Some(attempt) = Attempt::new(&lwe, decoder, beta, zeta, None) else {
                        continue;
                    };
                    for guesses in guess_sets(lwe.n, lwe.weight, zeta, lwe.values) {
                        let found = attempt.cost(guesses, f64::INFINITY);
                        assert!(
                            found.bits >= best.bits - 0.05,
                            "{decoder:?}: {found:?} beats {best:?}"
                        );
                    }
                }
            }
        }
    }

    /// No other number of targets is better than the chosen one.
    #[test]
    fn as_many_targets_are_tried_as_help() {
        let lwe = Lwe { log2_targets: 10.0, ..toy() };
        for decoder in [Decoder::ClosestVector, Decoder::MeetInTheMiddle] {
            for (zeta, beta) in [(40, 60), (80, 60), (120, 50), (150, 41)] {
                let attempt = Attempt::new(&lwe, decoder, beta, zeta, None).unwrap();
                for guesses in guess_sets(lwe.n, lwe.weight, zeta, lwe.values).take(12) {
                    let found = attempt.cost(guesses, f64::INFINITY);
                    let hit = guesses.log2_hit + attempt.log2_success();
                    let with = |k: f64| attempt.once(guesses, k) + repetitions((hit + k).min(0.0));
                    let least =
                        (0..=1000).map(|k| with(0.01 * f64::from(k))).fold(f64::INFINITY, f64::min);
                    // Where one run suffices, fewer targets may suffice too.
                    assert!(
                        found.bits < least + 0.6,
                        "{decoder:?} {zeta} {beta}: {found:?}, {least}"
                    );
                    assert!(found.bits >= least - 1e-9 || hit + 10.0 > 0.0);
                }
            }
        }
    }

    #[test]
    fn bdd_is_the_hybrid_without_guesses() {
        let lwe = toy();
        let (plain, hybrid) =
            (bdd(&lwe, Search::Strict), cost(&lwe, Decoder::ClosestVector, Search::Strict));
        assert!(hybrid.bits <= plain.bits && plain.zeta == 0);
    }
}
