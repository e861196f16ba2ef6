//! How hard a set of LWE parameters is: log2 of the gates of the best known lattice attacks.
//!
//! The cost of lattice reduction is the MATZOV model with classical gates ([`reduction`](self)); the attacks are
//! primal uSVP, BDD, dual, dual hybrid (MATZOV), primal hybrid, and primal hybrid with meet-in-the-middle, all with
//! as many samples as they want. Two searches run over the parameters of an attack: [`Search::Reference`] walks
//! where the public lattice estimator (github.com/malb/lattice-estimator, commit 27a581b) walks and reproduces its
//! figures; [`Search::Strict`] scans, finds the optima which that walk misses, and is never above it. Claims are
//! made on the strict figure.
//!
//! Source: formulas of Albrecht–Player–Scott 2015, Albrecht–Göpfert–Virdia–Wunderer 2017, Bai–Galbraith 2014,
//! Howgrave-Graham 2007, Son–Cheon 2019, Guo–Johansson 2021, MATZOV 2022. Details: `docs/security.md`.
mod dual;
mod dual_hybrid;
mod hybrid;
mod instance;
mod matzov;
mod prob;
mod reduction;
mod search;
mod usvp;

pub use instance::{Instance, Secret};

use crate::{Error, Result};
use dual_hybrid::Solver;
use instance::Lwe;
use serde::Serialize;

/// Security beyond this many bits is not told apart: an attack that costs more, or that does not apply, is
/// reported at exactly this figure.
pub const CEILING_BITS: f64 = 512.0;

/// An attack on LWE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Attack {
    /// Embedding, then reduction until the secret is the shortest vector (Albrecht et al. 2017).
    Usvp,
    /// Reduction, then one closest-vector call in the last dimensions (Liu–Nguyen 2013).
    Bdd,
    /// Distinguishing with one short dual vector per sample (Micciancio–Regev 2009).
    Dual,
    /// Dual attack with enumeration and a discrete Fourier transform over part of the secret (MATZOV 2022).
    DualHybrid,
    /// Dual attack, then every value of a part of the secret (Espitau–Joux–Kharchenko 2020).
    DualGuessHybrid,
    /// Dual attack, then a part of the secret by meet-in-the-middle (Cheon–Hhan–Hong–Son 2019).
    DualMitmHybrid,
    /// Guessing part of the secret, then [`Attack::Bdd`] on the rest (Albrecht–Curtis–Wunderer 2019).
    BddHybrid,
    /// Guessing by meet-in-the-middle, then nearest plane (Howgrave-Graham 2007, Son–Cheon 2019).
    BddMitmHybrid,
}

impl Attack {
    /// Every attack.
    pub const ALL: [Attack; 8] = [
        Attack::Usvp,
        Attack::Bdd,
        Attack::Dual,
        Attack::DualHybrid,
        Attack::DualGuessHybrid,
        Attack::DualMitmHybrid,
        Attack::BddHybrid,
        Attack::BddMitmHybrid,
    ];

    /// The attacks that decide for secrets without structure to guess (binary, ternary, Gaussian): the hybrids
    /// with guessing do not beat these there, and take a hundred times longer to estimate.
    pub const DENSE: [Attack; 4] = [Attack::Usvp, Attack::Bdd, Attack::Dual, Attack::DualHybrid];

    /// The attacks that decide for `secret`: [`Attack::ALL`] for sparse ones, [`Attack::DENSE`] for the others.
    pub fn for_secret(secret: Secret) -> &'static [Attack] {
        match secret {
            Secret::Sparse { .. } => &Self::ALL,
            _ => &Self::DENSE,
        }
    }

    /// The name in reports and in the oracle table: `"usvp"`, `"bdd"`, `"dual"`, `"dual_hybrid"`,
    /// `"dual_guess_hybrid"`, `"dual_mitm_hybrid"`, `"bdd_hybrid"`, `"bdd_mitm_hybrid"`.
    pub fn name(self) -> &'static str {
        match self {
            Attack::Usvp => "usvp",
            Attack::Bdd => "bdd",
            Attack::Dual => "dual",
            Attack::DualHybrid => "dual_hybrid",
            Attack::DualGuessHybrid => "dual_guess_hybrid",
            Attack::DualMitmHybrid => "dual_mitm_hybrid",
            Attack::BddHybrid => "bdd_hybrid",
            Attack::BddMitmHybrid => "bdd_mitm_hybrid",
        }
    }
}

/// How the parameters of an attack are optimised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Search {
    /// The walk of the public lattice estimator; gives its figures, missed optima included.
    Reference,
    /// Scans of whole ranges; at or below the reference. Security claims are made on this.
    Strict,
}

/// The cost of one attack, and its parameters. A parameter that the attack does not have is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Estimate {
    /// The attack.
    pub attack: Attack,
    /// log2 of the classical gates it needs; [`CEILING_BITS`] stands for that much or more.
    pub bits: f64,
    /// Block size β of the reduction.
    pub beta: Option<u32>,
    /// Dimension d of the reduced lattice.
    pub d: Option<u32>,
    /// Dimension η of the closest-vector call.
    pub eta: Option<u32>,
    /// Number ζ of guessed coordinates.
    pub zeta: Option<u32>,
    /// Greatest weight of a guess.
    pub weight: Option<u32>,
    /// Number t of coordinates under the Fourier transform.
    pub t: Option<u32>,
    /// Modulus p of the Fourier transform.
    pub p: Option<u32>,
    /// Secrets that are tried with one reduced basis, of [`Instance::targets`].
    pub targets: Option<u32>,
}

/// The estimates of several attacks on one instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The instance.
    pub instance: Instance,
    /// The search that was used.
    pub search: Search,
    /// One estimate per attack, in the order asked for.
    pub estimates: Vec<Estimate>,
}

impl Report {
    /// Bits of security: the least over the attacks, and never more than it takes to try every secret.
    pub fn bits(&self) -> f64 {
        let guess = self.instance.secret.entropy(self.instance.n).min(CEILING_BITS);
        self.estimates.iter().map(|e| e.bits).fold(guess, f64::min)
    }

    /// The estimate of one attack, if it was asked for.
    pub fn get(&self, attack: Attack) -> Option<&Estimate> {
        self.estimates.iter().find(|e| e.attack == attack)
    }
}

/// A point in the parameter space of an attack with its cost; parameters the attack does not have are 0.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    bits: f64,
    beta: u32,
    d: u32,
    eta: u32,
    zeta: u32,
    weight: u32,
    t: u32,
    p: u32,
    targets: u32,
}

impl Default for Candidate {
    fn default() -> Self {
        let bits = f64::INFINITY;
        Self { bits, beta: 0, d: 0, eta: 0, zeta: 0, weight: 0, t: 0, p: 0, targets: 0 }
    }
}

impl Candidate {
    /// The cheaper of the two; this one when they cost the same.
    fn or(self, other: Candidate) -> Candidate {
        if other.bits < self.bits { other } else { self }
    }

    fn report(self, attack: Attack) -> Estimate {
        let found = self.bits < CEILING_BITS;
        let shown = |value: u32, by: &[Attack]| (found && by.contains(&attack)).then_some(value);
        use Attack::{Bdd, BddHybrid, BddMitmHybrid, DualGuessHybrid, DualHybrid, DualMitmHybrid};
        let guessing = [DualGuessHybrid, DualMitmHybrid, BddHybrid, BddMitmHybrid];
        Estimate {
            attack,
            bits: self.bits.min(CEILING_BITS),
            beta: found.then_some(self.beta),
            d: found.then_some(self.d),
            eta: shown(self.eta, &[Bdd, BddHybrid, BddMitmHybrid]),
            zeta: shown(self.zeta, &guessing).or(shown(self.zeta, &[DualHybrid])),
            weight: shown(self.weight, &guessing),
            t: shown(self.t, &[DualHybrid]),
            p: shown(self.p, &[DualHybrid]),
            targets: shown(self.targets, &guessing),
        }
    }
}

/// Bits as they are claimed and shown, everywhere: rounded down to a tenth, never up. A number of tenths stays.
pub fn claimed(bits: f64) -> f64 {
    // A figure of tenths may be a double just below it.
    (bits * 10.0 + 1e-9).floor() / 10.0
}

/// Bits of security of a secret that shows itself in several instances: the least over them, by the strict search for the
/// attacks that matter to each.
///
/// # Errors
/// As [`estimate`].
pub fn least_bits(instances: &[Instance]) -> Result<f64> {
    let bits = |i: &Instance| Ok(estimate(i, Attack::for_secret(i.secret), Search::Strict)?.bits());
    instances.iter().try_fold(CEILING_BITS, |least, i| Ok(least.min(bits(i)?)))
}

/// Estimates the cost of each of `attacks` on `instance`.
///
/// # Errors
/// [`Error::BadInput`] when the instance is not an LWE instance (see [`Instance`]) or `attacks` is empty.
pub fn estimate(instance: &Instance, attacks: &[Attack], search: Search) -> Result<Report> {
    let lwe = Lwe::new(instance)?;
    if attacks.is_empty() {
        return Err(Error::bad_input(
            "estimate",
            "at least one attack",
            "none",
            "pass Attack::for_secret(..)",
        ));
    }
    let run = |attack: &Attack| match attack {
        Attack::Usvp => usvp::cost(&lwe, search),
        Attack::Bdd => hybrid::bdd(&lwe, search),
        Attack::Dual => dual::cost(&lwe, search),
        Attack::DualHybrid => matzov::cost(&lwe, search),
        Attack::DualGuessHybrid => dual_hybrid::cost(&lwe, Solver::Exhaustive, search),
        Attack::DualMitmHybrid => dual_hybrid::cost(&lwe, Solver::MeetInTheMiddle, search),
        Attack::BddHybrid => hybrid::cost(&lwe, hybrid::Decoder::ClosestVector, search),
        Attack::BddMitmHybrid => hybrid::cost(&lwe, hybrid::Decoder::MeetInTheMiddle, search),
    };
    let estimates = attacks.iter().map(|a| run(a).report(*a)).collect();
    Ok(Report { instance: *instance, search, estimates })
}
