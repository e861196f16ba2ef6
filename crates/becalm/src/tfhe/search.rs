//! The cheapest parameter set for a need.
//!
//! Minimises [`TfheParams::cost`] over k, N, n, both gadgets and, for extended rotations, the weight of companion rounding,
//! under log2 p_fail (the formulas of [`super::noise`]) and a security level. At a level each dimension has a least noise,
//! log2 σ(n) ≈ a − n/40: a [`NoiseCurve`], estimated at a few dimensions and interpolated; the set that wins is then
//! estimated itself, and n moved until it holds. For given shapes V_br and V_ms are affine in n and V_ks in σ(n)², and so is
//! the cost in n: the search is over sums of three tables. Seconds, nearly all of them in the estimates.

use super::noise::{self, NoiseReport};
use crate::math::Modulus;
use crate::math::parallel::*;
use crate::params::{
    Gadget, Kind, ModulusSwitch, Noise, Order, Rotation, TfheParams, rounding_law,
};
use crate::progress::tell;
use crate::security::{self, Attack, Instance, Search, Secret, estimate};
use crate::{Error, Progress, Result};
use std::borrow::Cow;

/// Which noise counts as secure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoiseCurve {
    /// [`crate::security`] with this search.
    Estimated(Search),
    /// The lines that tfhe-rs publishes for 132 bits, for comparisons with its sets: q²·σ² = 2^4 + 2^(5.3147 − 0.04978n)·q²,
    /// TUniform bound ⌈log2 q + 4.1007 − 0.025168n⌉.
    Published132,
}

/// The needs of a search. Keys of blocks are searched apart from the big key; the rows of the fast family, whose small key is a
/// part of the big one, are made by hand.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// log2 of the values of a table, message and carry together.
    pub bits: u32,
    /// log2 of the failure probability of a bootstrap, at most.
    pub log2_pfail: f64,
    /// Bits of security of both keys, at least.
    pub security_bits: f64,
    /// By which estimate.
    pub curve: NoiseCurve,
    /// How the blind rotation walks.
    pub rotation: Rotation,
    /// Messages in a ciphertext.
    pub slots: usize,
    /// Gaussian noise instead of TUniform.
    pub gaussian: bool,
    /// The modulus of the ciphertexts.
    pub modulus: Modulus,
    /// 32 or 64.
    pub ks_modulus_log2: u32,
    /// ν; `None`: the combination of two outputs that fills the carry, ⌊(p − 1)/(message − 1)⌋.
    pub norm2: Option<f64>,
}

impl Default for Goal {
    /// The goal that `tfhe_2_2` answers.
    fn default() -> Self {
        Goal {
            bits: 4,
            log2_pfail: -128.0,
            security_bits: 132.0,
            curve: NoiseCurve::Estimated(Search::Reference),
            rotation: Rotation::Classic,
            slots: 1,
            gaussian: false,
            modulus: Modulus::Native,
            ks_modulus_log2: 32,
            norm2: None,
        }
    }
}

/// Dimensions that are searched for the small key.
const DIMENSIONS: std::ops::RangeInclusive<usize> = 450..=1600;
/// Dimensions at which a curve is estimated.
const GRID: [usize; 13] = [450, 520, 590, 660, 730, 800, 870, 940, 1010, 1080, 1200, 1600, 2048];
/// log2 of the least noise in grid units: 4.
const FLOOR_LOG2: f64 = 2.0;
/// How far n is moved to make the found set hold.
const MOVES: usize = 40;

impl Goal {
    /// The family's name, as the table has it.
    fn name(&self, message_bits: u32) -> String {
        let values = format!("{message_bits}_{}", self.bits.saturating_sub(message_bits));
        match (self.rotation, self.slots) {
            (Rotation::Block { .. }, _) => format!("fast_{values}_found"),
            (_, 0..=1) => format!("tfhe_{values}_found"),
            (_, slots) => format!("cm_{values}_w{slots}_found"),
        }
    }

    /// A set with everything but n, N, k, gadgets and noise.
    fn template(&self) -> TfheParams {
        let message_bits = self.bits.div_ceil(2).max(1);
        let (message, all) = (1u64 << message_bits, 1u64 << self.bits.max(1));
        let norm2 = self.norm2.unwrap_or(((all - 1) / (message - 1)) as f64);
        TfheParams {
            name: Cow::Owned(self.name(message_bits)),
            kind: Kind::Standard,
            modulus: self.modulus,
            lwe_dimension: 720,
            lwe_noise: Noise::Gaussian { std: 0.0 },
            glwe_dimension: 1,
            polynomial_size: 2048,
            glwe_noise: Noise::Gaussian { std: 0.0 },
            pbs: Gadget { base_log: 1, level: 1 },
            ks: Gadget { base_log: 1, level: 1 },
            ks_modulus_log2: self.ks_modulus_log2,
            message_modulus: message,
            carry_modulus: all / message,
            max_norm2: norm2,
            modulus_switch: ModulusSwitch::Centered,
            order: Order::KsPbs,
            rotation: self.rotation,
            slots: self.slots,
            shared_key: false,
            security_bits: 0.0,
            security_source: Cow::Borrowed("becalm params --search"),
            log2_pfail: 0.0,
            source: Cow::Borrowed("becalm params --search"),
        }
    }

    /// The number that n must be a multiple of.
    fn step(&self) -> usize {
        self.rotation.group_bits()
    }

    /// Noise as this goal draws it, of at least 2^`log2_std` of the torus.
    fn noise(&self, log2_std: f64, modulus_log2: u32) -> Noise {
        let q = f64::from(modulus_log2);
        let log2_std = log2_std.max(FLOOR_LOG2 - q);
        if self.gaussian {
            return Noise::Gaussian { std: log2_std.exp2() };
        }
        // σ = 2^b·√(1/3) grid units.
        Noise::TUniform { bound_log2: (log2_std + q + 3f64.log2() / 2.0 - 1e-9).ceil() as u32 }
    }
}

/// The least noise by dimension.
struct Curve<'a> {
    goal: &'a Goal,
    /// log2 σ at [`GRID`]; empty for published lines.
    points: Vec<f64>,
}

impl<'a> Curve<'a> {
    fn new(goal: &'a Goal, secret: Secret) -> Result<Self> {
        let points = match goal.curve {
            NoiseCurve::Published132 => Ok(vec![]),
            NoiseCurve::Estimated(search) => GRID
                .par_iter()
                .map(|n| least_log2_std(*n, secret, goal.security_bits, search))
                .collect(),
        };
        Ok(Curve { goal, points: points? })
    }

    fn noise(&self, n: usize, modulus_log2: u32) -> Noise {
        let (n, q) = (n as f64, f64::from(modulus_log2));
        if self.points.is_empty() {
            if self.goal.gaussian {
                let line = (5.31469187675068 - 0.0497829131652661 * n).exp2();
                return Noise::Gaussian { std: (line + (4.0 - 2.0 * q).exp2()).sqrt() };
            }
            let line = (4.10067100000001 - 0.025167785 * n + q).ceil().max(3.0);
            return Noise::TUniform { bound_log2: line as u32 };
        }
        let right = GRID.partition_point(|g| (*g as f64) < n).clamp(1, GRID.len() - 1);
        let (x, y) = ((right - 1, right), |i: usize| (GRID[i] as f64, self.points[i]));
        let ((x0, y0), (x1, y1)) = (y(x.0), y(x.1));
        self.goal.noise(y0 + (n - x0) / (x1 - x0) * (y1 - y0), modulus_log2)
    }
}

/// log2 of the least σ (torus units) for which `secret` of dimension n has `bits`: by halving around the known line.
fn least_log2_std(n: usize, secret: Secret, bits: f64, search: Search) -> Result<f64> {
    const LOG2_Q: f64 = 64.0;
    let line = 2.78 - 0.025126 * n as f64 + (bits - 132.0) * 0.2;
    let (mut low, mut high) = ((line - 2.5).max(1.0 - LOG2_Q), line + 2.5);
    while high - low > 0.002 {
        let middle = (low + high) / 2.0;
        let noise_std = (middle + LOG2_Q).exp2();
        let instance = Instance { n: n as u32, log2_q: LOG2_Q, secret, noise_std, targets: 1 };
        let found = estimate(&instance, Attack::for_secret(secret), search)?.bits();
        if found >= bits { high = middle } else { low = middle }
    }
    Ok(high)
}

/// `at[0] + at[1]·x`.
#[derive(Clone, Copy)]
struct Affine([f64; 2]);

impl Affine {
    /// Through the values at two points.
    fn through(x: [f64; 2], y: [f64; 2]) -> Self {
        let slope = (y[1] - y[0]) / (x[1] - x[0]);
        Affine([y[0] - slope * x[0], slope])
    }

    fn at(self, x: f64) -> f64 {
        self.0[0] + self.0[1] * x
    }
}

/// A shape of the rotation: its variance at the table and its cost, by n.
struct Turn {
    params: TfheParams,
    variance: Affine,
    cost: Affine,
}

/// A gadget of the key switch: its variance, by the noise variance of its key, and its cost, by n.
struct Switch {
    gadget: Gadget,
    variance: Affine,
    cost: Affine,
}

const TWO_DIMENSIONS: [f64; 2] = [720.0, 1440.0];

fn turn(mut params: TfheParams) -> Turn {
    params.ks.level = 0;
    let at = |n: f64| TfheParams { lwe_dimension: n as usize, ..params.clone() };
    let variance = |n: f64| {
        let r = NoiseReport::of(&at(n));
        params.max_norm2.powi(2) * r.blind_rotation.total() + r.modulus_switch
    };
    Turn {
        variance: Affine::through(TWO_DIMENSIONS, TWO_DIMENSIONS.map(variance)),
        cost: Affine::through(TWO_DIMENSIONS, TWO_DIMENSIONS.map(|n| at(n).cost())),
        params,
    }
}

/// Every shape of the rotation for k and N: the best base for each level, every rounding.
fn turns(goal: &Goal, k: usize, degree: usize, noise: Noise) -> Vec<Turn> {
    let base = TfheParams {
        glwe_dimension: k,
        polynomial_size: degree,
        glwe_noise: noise,
        ..goal.template()
    };
    let weights = match goal.rotation {
        Rotation::Extended { factor_log2 } => companion_weights(factor_log2),
        _ => vec![None],
    };
    let mut all = Vec::new();
    for level in 1..=5 {
        let gadgets = (2..=30).map(|base_log| Gadget { base_log, level });
        // The FFT kernel has room for no more.
        let gadgets = gadgets.filter(|g| g.base_log * g.level <= 52);
        let noisy = |g: &Gadget| {
            NoiseReport::of(&TfheParams { pbs: *g, ..base.clone() }).blind_rotation.total()
        };
        let Some(pbs) = gadgets.min_by(|a, b| noisy(a).total_cmp(&noisy(b))) else { continue };
        for switch in &weights {
            let modulus_switch = switch.unwrap_or(ModulusSwitch::Centered);
            all.push(turn(TfheParams { pbs, modulus_switch, ..base.clone() }));
        }
    }
    all
}

/// Roundings to try: to nearest, and weights a twentieth apart.
fn companion_weights(coarsest_log2: u32) -> Vec<Option<ModulusSwitch>> {
    let mut all = vec![None];
    let mut weight = 1u32;
    let nearest = rounding_law(coarsest_log2, None).products;
    while weight < 4096 && rounding_law(coarsest_log2, Some(weight)).products < 0.995 * nearest {
        all.push(Some(ModulusSwitch::Companion { coarsest_log2, weight }));
        weight = (weight + 1).max(weight * 21 / 20);
    }
    all
}

/// Every gadget of the key switch from dimension k·N.
fn switches(base: &TfheParams) -> Vec<Switch> {
    let widest = base.ks_modulus_log2 - 1;
    let gadgets = (1..=16).flat_map(|level| (1..=8).map(move |b| Gadget { base_log: b, level }));
    let gadgets = gadgets.filter(|g| g.base_log * g.level <= widest);
    let variances = [1e-12, 2e-12];
    let silent = TfheParams { ks: Gadget { base_log: 1, level: 0 }, ..base.clone() };
    gadgets
        .map(|gadget| {
            let p = TfheParams { ks: gadget, ..base.clone() };
            let variance = |v: f64| {
                let std = v.sqrt();
                NoiseReport::of(&TfheParams { lwe_noise: Noise::Gaussian { std }, ..p.clone() })
                    .key_switch
            };
            let cost = |n: f64| {
                let at = |p: &TfheParams| TfheParams { lwe_dimension: n as usize, ..p.clone() };
                at(&p).cost() - at(&silent).cost()
            };
            Switch {
                gadget,
                variance: Affine::through(variances, variances.map(variance)),
                cost: Affine::through(TWO_DIMENSIONS, TWO_DIMENSIONS.map(cost)),
            }
        })
        .collect()
}

/// (k, N) worth trying: tables with room for two coefficients a value, big keys that are not harder to find than needed.
fn shapes(goal: &Goal) -> Vec<(usize, usize)> {
    let least = 2usize << goal.bits;
    let accumulators = goal.template().accumulators();
    let mut all = Vec::new();
    for degree in (8..=16).map(|log2| 1usize << log2) {
        for k in 1..=8 {
            let big = k * degree;
            let fits = (1024..=1 << 16).contains(&big) && (k == 1 || big <= 4096);
            if fits && degree * accumulators >= least {
                all.push((k, degree));
            }
        }
    }
    all
}

/// Searches. `progress(done, of)` may stop it.
///
/// # Errors
/// [`Error::BadInput`] for a goal that no set has; [`Error::Interrupted`] if `progress` stops it; errors of the estimator.
pub fn search(goal: &Goal, progress: Progress) -> Result<TfheParams> {
    check(goal)?;
    let shapes = shapes(goal);
    let done = |done| tell("search", progress, done, shapes.len() + 2);
    done(0)?;
    let [small, big] = goal.template().instances().map(|i| i.secret);
    let curve = Curve::new(goal, small)?;
    let big = if big == small { None } else { Some(Curve::new(goal, big)?) };
    let big = big.as_ref().unwrap_or(&curve);
    let dimensions: Vec<(usize, Noise)> = DIMENSIONS
        .filter(|n| n.is_multiple_of(goal.step()))
        .map(|n| (n, curve.noise(n, goal.ks_modulus_log2)))
        .collect();
    let limit = largest_variance(goal);
    let mut best: Option<(f64, TfheParams)> = None;
    for (i, &(k, degree)) in shapes.iter().enumerate() {
        done(i + 1)?;
        let turns = turns(goal, k, degree, big.noise(k * degree, Modulus::LOG2));
        let switches = turns.first().map_or(vec![], |t| switches(&t.params));
        for turn in &turns {
            for switch in &switches {
                cheapest(&dimensions, turn, switch, limit, &mut best);
            }
        }
    }
    done(shapes.len() + 1)?;
    let Some((_, found)) = best else {
        return Err(Error::bad_input(
            "search",
            "a goal that some set reaches",
            format!("{goal:?}"),
            "ask for fewer bits, a smaller norm, more failures or more accumulators",
        ));
    };
    settle(goal, found)
}

fn check(goal: &Goal) -> Result<()> {
    let sound = (1..=10).contains(&goal.bits)
        && (-1000.0..=-5.0).contains(&goal.log2_pfail)
        && (64.0..=256.0).contains(&goal.security_bits);
    if !sound {
        return Err(Error::bad_input(
            "search",
            "1 to 10 bits, log2 p_fail from -1000 to -5, 64 to 256 bits of security",
            format!("{} bits, 2^{}, {}", goal.bits, goal.log2_pfail, goal.security_bits),
            "correct the goal",
        ));
    }
    if goal.curve == NoiseCurve::Published132 && matches!(goal.rotation, Rotation::Block { .. }) {
        return Err(Error::bad_input(
            "search",
            "an estimated curve for keys of blocks",
            "the published lines, which are of uniform binary keys",
            "use the usual or the strict search",
        ));
    }
    // Shape, key switch modulus and rotation, at dimensions that every step divides.
    let n = 720usize.next_multiple_of(goal.step());
    let template = goal.template();
    let degree = ((1 << 18) / template.accumulators().max(1)).clamp(256, 1 << 16);
    TfheParams { lwe_dimension: n, polynomial_size: degree, ..template }.validate()
}

/// The largest variance at the table that the failure probability admits, for one slot of the goal's.
fn largest_variance(goal: &Goal) -> f64 {
    let p = goal.template();
    // All slots fail in union.
    let each = goal.log2_pfail - (goal.slots as f64).log2();
    let (mut low, mut high) = (-120.0, 0.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        let fails = noise::log2_pfail(f64::exp2(middle), p.plaintext_modulus()) > each;
        if fails { high = middle } else { low = middle }
    }
    low.exp2()
}

/// The least n for which a rotation and a key switch hold together, if that costs less than `best`.
fn cheapest(
    dimensions: &[(usize, Noise)],
    turn: &Turn,
    switch: &Switch,
    limit: f64,
    best: &mut Option<(f64, TfheParams)>,
) {
    let modulus_log2 = turn.params.ks_modulus_log2;
    for (n, noise) in dimensions {
        let x = *n as f64;
        let cost = turn.cost.at(x) + switch.cost.at(x);
        if best.as_ref().is_some_and(|b| b.0 <= cost) {
            return;
        }
        let key = switch.variance.at(noise.variance(modulus_log2));
        if turn.variance.at(x) + key <= limit {
            let found = TfheParams {
                lwe_dimension: *n,
                lwe_noise: *noise,
                ks: switch.gadget,
                ..turn.params.clone()
            };
            *best = Some((cost, found));
            return;
        }
    }
}

/// Moves n to the least for which the set itself, not the interpolation, is secure and fails seldom enough, and writes its
/// claims.
fn settle(goal: &Goal, found: TfheParams) -> Result<TfheParams> {
    let step = goal.step();
    let mut p = found;
    if let NoiseCurve::Estimated(search) = goal.curve {
        let start = p.lwe_dimension.saturating_sub(6 * step).max(*DIMENSIONS.start());
        let start = start.next_multiple_of(step);
        let secret = p.instances()[0].secret;
        let attempts = (0..MOVES).map(|i| start + i * step);
        let mut holds = None;
        for n in attempts {
            let mut q = TfheParams { lwe_dimension: n, ..p.clone() };
            if goal.gaussian {
                let least = least_log2_std(n, secret, goal.security_bits, search)?;
                q.lwe_noise = goal.noise(least, goal.ks_modulus_log2);
            }
            if NoiseReport::of(&q).log2_pfail <= goal.log2_pfail
                && bits(&q, search)? >= goal.security_bits - 1e-3
            {
                holds = Some(q);
                break;
            }
        }
        p = holds.ok_or_else(|| {
            Error::bad_input(
                "search",
                format!("a set of {} bits near n = {}", goal.security_bits, p.lwe_dimension),
                "none",
                "ask for a little less security or a few more failures",
            )
        })?;
    }
    // A claim is rounded to what holds: down to a tenth of a bit, up to a thousandth of log2.
    p.security_bits = security::claimed(p.estimated_bits()?);
    p.log2_pfail = (NoiseReport::of(&p).log2_pfail * 1e3).ceil() / 1e3;
    Ok(p)
}

/// Bits of a set by a search of the estimator.
fn bits(p: &TfheParams, search: Search) -> Result<f64> {
    let each = |i: &Instance| Ok(estimate(i, Attack::for_secret(i.secret), search)?.bits());
    let all: Vec<f64> = p.instances().iter().map(each).collect::<Result<_>>()?;
    Ok(all.into_iter().fold(f64::INFINITY, f64::min))
}
