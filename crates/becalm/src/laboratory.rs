//! The noise of every step of a bootstrap, measured against its formula.
//!
//! One program with all registers put out gives one sample of each step, its phase under the secret key before and after;
//! only public calls are used, so that any set can be measured. The modulus switch shows in a table that keeps all
//! coefficients apart, out − in = e_ms + e_br; the rotation alone in a constant table. A sample is x, its formula's
//! variance V and mean μ, and z = (x − μ)/√V should be standard normal. A failure probability of 2^-128 is nowhere to be
//! seen; [`inflate`] makes the same set noisy enough for failures to be counted, and [`failures`] counts them.

use crate::backend::{Cpu, Evaluator};
use crate::cipher::{Encoding, Lwe, SecretKey};
use crate::math::statistics::{Interval, Moments, clopper_pearson, normal_quantile};
use crate::params::{Kind, ModulusSwitch, Noise, Order, TfheParams};
use crate::program::{Program, Reg};
use crate::progress::tell;
use crate::tfhe::Table;
use crate::tfhe::noise::{self, NoiseReport};
use crate::{Error, Progress, Result};
use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Keys, two or more for [`measure`]: intervals are over keys.
    pub keys: usize,
    /// Ciphertexts under each.
    pub per_key: usize,
}

impl Effort {
    fn require(self, keys: usize, wanted: &str) -> Result<()> {
        if self.keys >= keys && self.per_key > 0 {
            return Ok(());
        }
        let got = format!("{} keys, {} ciphertexts", self.keys, self.per_key);
        Err(Error::bad_input("measure noise", wanted, got, "measure more"))
    }
}

/// Samples of one step.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// The step that adds the noise: `"key switch"`.
    pub name: &'static str,
    /// Variance by formula, torus units.
    pub formula: f64,
    /// Least variance that the formula allows: its FFT term is an upper bound, of which at least 0.55 is there.
    pub least: f64,
    /// Mean by formula, torus units.
    pub mean: f64,
    /// The measured moments about that mean.
    pub measured: Moments,
    /// (sample − mean)/√formula, in ascending order.
    pub normalised: Vec<f64>,
}

/// How many samples lie beyond some standard deviations.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Tail {
    /// |z| is beyond this.
    pub beyond: f64,
    /// Samples seen there.
    pub seen: usize,
    /// The number that the normal law expects: erfc(z/√2) of all.
    pub expected: f64,
    /// 99 % interval of the probability.
    pub interval: Interval,
}

/// Least part of the FFT term that is there (`tests/fft_noise.rs`).
const FFT_LEAST: f64 = 0.55;

impl Step {
    /// Whether the formula lies in the 99 % interval of the mean square; one right formula in a hundred does not.
    pub fn agrees(&self) -> bool {
        let interval = self.measured.variance_interval;
        interval.low <= self.formula && interval.high >= self.least
    }

    /// Counts in `bins` bins of equal width from −`reach` to `reach` standard deviations.
    pub fn histogram(&self, reach: f64, bins: usize) -> Vec<usize> {
        let mut counts = vec![0; bins];
        for z in &self.normalised {
            let at = ((z + reach) / (2.0 * reach) * bins as f64).floor();
            if (0.0..bins as f64).contains(&at) {
                counts[at as usize] += 1;
            }
        }
        counts
    }

    /// Quantiles of the normal law beside those of the samples: (z_i, sample_i) for i = 1 … count.
    pub fn quantiles(&self, count: usize) -> Vec<(f64, f64)> {
        let all = &self.normalised;
        let of = |i: usize| {
            let p = (i as f64 + 0.5) / count as f64;
            let z = if p < 0.5 { -normal_quantile(p) } else { normal_quantile(1.0 - p) };
            (z, all[((p * all.len() as f64) as usize).min(all.len() - 1)])
        };
        if all.is_empty() { vec![] } else { (0..count).map(of).collect() }
    }

    /// Counts beyond 1, 2, … standard deviations, as far as a sample is expected.
    pub fn tail(&self) -> Vec<Tail> {
        let count = self.normalised.len();
        let of = |half: u32| {
            let beyond = f64::from(half) / 2.0;
            let seen = self.normalised.iter().filter(|z| z.abs() > beyond).count();
            let expected = noise::log2_erfc(beyond / 2f64.sqrt()).exp2() * count as f64;
            Tail { beyond, seen, expected, interval: clopper_pearson(seen, count) }
        };
        (2..16).map(of).take_while(|t| t.expected >= 0.5).collect()
    }
}

/// Errors of each step under each key, torus units.
type Samples = Vec<Vec<Vec<f64>>>;

/// Names of the steps in the order of [`measure`].
const STEPS: [&str; 6] = [
    "fresh ciphertext",
    "linear combination",
    "key switch",
    "modulus switch",
    "blind rotation",
    "bootstrap output",
];

/// A set that claims nothing, so that all of its noise may be used.
fn unclaimed(p: &TfheParams) -> TfheParams {
    let name = Cow::Owned(format!("{}_measured", p.name).chars().take(64).collect());
    TfheParams { name, kind: Kind::Toy, log2_pfail: 0.0, ..p.clone() }
}

/// The measured program: its outputs and its tables.
struct Setup {
    program: Arc<Program>,
    each: Encoding,
    middle: u64,
}

/// Registers out: 3·x, the key switch's result, the identity of all coefficients, a constant, the constant at rest.
fn setup(p: &Arc<TfheParams>) -> Result<Setup> {
    let each = Encoding::padded(p.table_size() as u64)?;
    let middle = each.values / 2;
    let all: Vec<u64> = (0..each.values).collect();
    let identity = Table::with(p, each, each, &all)?;
    let constant = Table::with(p, each, each, &vec![middle; all.len()])?;
    let mut program = Program::new(p.clone());
    let x = program.input(each);
    let sum = program.linear(&[(3, x)], 0)?;
    let rotate = |program: &mut Program, small: Reg| -> Result<[Reg; 2]> {
        Ok([program.bootstrap(small, &identity)?[0], program.bootstrap(small, &constant)?[0]])
    };
    let outputs = match p.order {
        Order::KsPbs => {
            let small = program.key_switch(x)?;
            let [staircase, flat] = rotate(&mut program, small)?;
            [sum, small, staircase, flat, flat]
        }
        Order::PbsKs => {
            let [staircase, flat] = rotate(&mut program, x)?;
            let rested = program.key_switch(flat)?;
            [sum, rested, staircase, flat, rested]
        }
    };
    outputs.iter().try_for_each(|r| program.output(*r))?;
    Ok(Setup { program: Arc::new(program), each, middle })
}

/// Samples of every step under one key.
fn sample(p: &Arc<TfheParams>, setup: &Setup, count: usize) -> Result<Vec<Vec<f64>>> {
    let secret = SecretKey::generate(p, true)?;
    let keys = secret.evaluation_key()?;
    let evaluator = Evaluator::new(&Cpu::new(0)?, &keys)?;
    let each = setup.each;
    // Away from the ends, where a wrong entry is one of the other sign.
    let values: Vec<u64> =
        (0..count as u64).map(|i| each.values / 4 + i * 37 % (each.values / 2)).collect();
    let input = secret.encrypt_as(&values, each, each.values)?;
    let outputs = evaluator.run(&setup.program, &[input.clone().into()])?;
    let [sum, switched, staircase, flat, rested] = &outputs[..] else {
        return Err(Error::bad_input("measure noise", "five registers", "others", "report this"));
    };
    let q = p.modulus;
    let phases = |ct: &Lwe| secret.phases(ct);
    let minus = |a: &[u64], b: &[u64]| -> Vec<f64> {
        let torus = |(a, b): (&u64, &u64)| q.to_signed(q.sub(*a, *b)) as f64 * 2f64.powi(-64);
        a.iter().zip(b).map(torus).collect()
    };
    let clean: Vec<u64> = values.iter().map(|v| each.encode(q, *v as i64)).collect();
    let tripled: Vec<u64> = clean.iter().map(|c| q.mul(q.from_signed(3), *c)).collect();
    let constant = vec![each.encode(q, setup.middle as i64); clean.len()];
    let fresh = phases(&input)?;
    let (before, looked_up) = match p.order {
        Order::KsPbs => (fresh.clone(), phases(switched)?),
        Order::PbsKs => (phases(flat)?, fresh.clone()),
    };
    Ok(vec![
        minus(&fresh, &clean),
        minus(&phases(sum)?, &tripled),
        minus(&phases(switched)?, &before),
        minus(&phases(staircase)?, &looked_up),
        minus(&phases(flat)?, &constant),
        minus(&phases(rested)?, &constant),
    ])
}

/// (variance, least variance, mean) of each of [`STEPS`] by formula.
fn expected(p: &TfheParams) -> [(f64, f64, f64); 6] {
    let r = NoiseReport::of(p);
    let exact = |v: f64| (v, v, 0.0);
    let cell = 0.5 / p.table_size() as f64;
    let rotation = r.blind_rotation.total();
    // The first step multiplies a table whose mask is still empty: a part of the key noise of one step is missing, and with
    // groups, which round the accumulator itself, its rounding. They also count that step's FFT error many times: a bound
    // that a smooth table need not reach.
    let steps = p.lwe_dimension as f64 / p.rotation.group_bits() as f64;
    let (rounding, fft) = if p.rotation.group_bits() > 1 {
        let fft = FFT_LEAST * steps / (steps + p.polynomial_size as f64 / 24.0);
        (r.blind_rotation.decomposition, fft)
    } else {
        (0.0, FFT_LEAST)
    };
    let spared = (r.blind_rotation.external_product + rounding) / steps;
    let least = rotation - (1.0 - fft) * r.blind_rotation.fft - spared;
    // The body is cut off, or rounded, to its cell.
    let (body, mean) = match p.modulus_switch {
        ModulusSwitch::Plain => (0.0, 0.0),
        _ => (cell * cell / 12.0, -0.5 * cell),
    };
    let switched = r.modulus_switch + body;
    let rested = if p.order == Order::PbsKs { r.key_switch } else { 0.0 };
    [
        exact(r.fresh),
        exact(9.0 * r.fresh),
        exact(r.key_switch),
        (switched + rotation, switched + least, mean),
        (rotation, least, 0.0),
        (rotation + rested, least + rested, 0.0),
    ]
}

/// Measures every step of a set. Its security and its claims do not matter. `progress(done, of)` may stop it.
///
/// # Errors
/// [`Error::BadInput`] for fewer than two keys or no ciphertexts; [`Error::Interrupted`] if `progress` stops it; what key
/// generation and evaluation refuse.
pub fn measure(params: &TfheParams, effort: Effort, progress: Progress) -> Result<Vec<Step>> {
    effort.require(2, "two keys or more, one ciphertext or more")?;
    let p = Arc::new(unclaimed(params));
    let setup = setup(&p)?;
    let mut all: Samples = vec![Vec::new(); STEPS.len()];
    for key in 0..effort.keys {
        tell("measure noise", progress, key, effort.keys)?;
        let samples = sample(&p, &setup, effort.per_key.next_multiple_of(p.slots))?;
        all.iter_mut().zip(samples).for_each(|(all, one)| all.push(one));
    }
    let steps = STEPS.iter().zip(all).zip(expected(&p));
    Ok(steps
        .map(|((name, groups), (formula, least, mean))| {
            let z = |x: &f64| (x - mean) / formula.sqrt();
            let mut normalised: Vec<f64> = groups.iter().flatten().map(z).collect();
            normalised.sort_by(f64::total_cmp);
            let measured = Moments::of(&groups, mean);
            Step { name, formula, least, mean, measured, normalised }
        })
        .collect())
}

/// A set whose lookups fail often enough to be counted.
#[derive(Debug, Clone)]
pub struct Inflated {
    /// The set, with so noisy a bootstrapping key.
    pub params: TfheParams,
    /// Values that a table tells apart.
    pub values: u64,
    /// The probability of failure by formula.
    pub formula: f64,
}

/// The probability of failure that is aimed at.
const AIM: f64 = 0.08;

/// The set with tables of enough values, and a bootstrapping key of enough noise, that a lookup at the noise bound fails
/// with a probability of 0.08: the largest power of two for which the other steps leave a third of the variance free.
///
/// # Errors
/// [`Error::Unsupported`] where rounding is plain, or no number of values leaves room.
pub fn inflate(params: &TfheParams) -> Result<Inflated> {
    let mut p = TfheParams { glwe_noise: Noise::Gaussian { std: 0.0 }, ..unclaimed(params) };
    let silent = NoiseReport::of(&p).total;
    let wanted = |values: u64| (0.25 / values as f64 / normal_quantile(AIM / 2.0)).powi(2);
    let largest = (p.table_size() as u64 / 2).ilog2();
    let fitting = (3..=largest).map(|i| 1u64 << i).take_while(|v| wanted(*v) > 1.5 * silent).last();
    let centred = p.modulus_switch != ModulusSwitch::Plain;
    let Some(values) = fitting.filter(|_| centred) else {
        return Err(Error::unsupported(
            "inflate noise",
            "a centred set whose modulus switch leaves room for more",
            p.name.to_string(),
            "measure the steps alone",
        ));
    };
    // V is affine in the key's variance.
    let unit = TfheParams { glwe_noise: Noise::Gaussian { std: 2f64.powi(-30) }, ..p.clone() };
    let slope = (NoiseReport::of(&unit).total - silent) * 2f64.powi(60);
    p.glwe_noise = Noise::Gaussian { std: ((wanted(values) - silent) / slope).sqrt() };
    let formula = noise::log2_pfail(NoiseReport::of(&p).total, values).exp2();
    Ok(Inflated { params: p, values, formula })
}

/// The counts.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Failures {
    /// Wrong results.
    pub seen: usize,
    /// Lookups.
    pub trials: usize,
    /// 99 % interval of the probability.
    pub interval: Interval,
    /// The probability by formula.
    pub formula: f64,
}

/// Counts failures of lookups at the noise bound: two bootstrap outputs, a combination of them of 2-norm ν rounded down to
/// integers, and a lookup of that.
///
/// # Errors
/// As [`measure`].
pub fn failures(inflated: &Inflated, effort: Effort, progress: Progress) -> Result<Failures> {
    effort.require(1, "one key or more, one ciphertext or more")?;
    let coefficients = combination(inflated.params.max_norm2);
    let norm = coefficients.iter().map(|c| (c * c) as f64).sum::<f64>().sqrt();
    let p = Arc::new(TfheParams { max_norm2: norm, ..inflated.params.clone() });
    let count = effort.per_key.next_multiple_of(p.slots);
    let (program, wanted, arguments) = trial(&p, inflated.values, &coefficients, count)?;
    let mut seen = 0;
    for key in 0..effort.keys {
        tell("measure noise", progress, key, effort.keys)?;
        let secret = SecretKey::generate(&p, true)?;
        let evaluator = Evaluator::new(&Cpu::new(0)?, &secret.evaluation_key()?)?;
        let two = Encoding::padded(2)?;
        let inputs = arguments
            .iter()
            .map(|values| Ok(secret.encrypt_as(values, two, 2)?.into()))
            .collect::<Result<Vec<_>>>()?;
        let got = secret.decrypt(&evaluator.run(&program, &inputs)?[0])?;
        seen += got.iter().zip(&wanted).filter(|(a, b)| a != b).count();
    }
    let trials = effort.keys * count;
    let formula = noise::log2_pfail(NoiseReport::of(&p).total, inflated.values).exp2();
    Ok(Failures { seen, trials, interval: clopper_pearson(seen, trials), formula })
}

/// Two integers of 2-norm at most ν, near it: (⌊0.6ν⌋, the rest).
fn combination(norm2: f64) -> [i64; 2] {
    let first = (0.6 * norm2).floor().max(1.0);
    let second = (norm2 * norm2 - first * first).max(0.0).sqrt().floor();
    [first as i64, second as i64]
}

/// The program, its results and its arguments.
type Trial = (Arc<Program>, Vec<u64>, [Vec<u64>; 2]);

fn trial(p: &Arc<TfheParams>, values: u64, coefficients: &[i64; 2], count: usize) -> Result<Trial> {
    let (two, four, large) =
        (Encoding::padded(2)?, Encoding::padded(4)?, Encoding::padded(values)?);
    let step = ((values - 1) / coefficients.iter().sum::<i64>().max(1) as u64).max(1);
    let spread = Table::with(p, two, large, &[0, step])?;
    let mut program = Program::new(p.clone());
    let mut terms = Vec::new();
    for c in coefficients {
        let x = program.input(two);
        terms.push((*c, program.lookup(x, &spread)?));
    }
    let sum = program.linear(&terms, 0)?;
    // Neighbours differ modulo 4, and so does what lies beyond either end.
    let low_bits: Vec<u64> = (0..values).map(|y| y % 4).collect();
    let result = program.lookup(sum, &Table::with(p, large, four, &low_bits)?)?;
    program.output(result)?;
    let arguments = [0, 1].map(|a| (0..count as u64).map(|i| i >> a & 1).collect::<Vec<_>>());
    let [a, b] = coefficients.map(|c| c as u64);
    let wanted =
        arguments[0].iter().zip(&arguments[1]).map(|(x, y)| (a * x + b * y) * step % 4).collect();
    Ok((Arc::new(program), wanted, arguments))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNWATCHED;
    use std::ops::ControlFlow;

    const EFFORT: Effort = Effort { keys: 16, per_key: 16 };

    /// Formulas of toys of every rotation that there is, each step: refused only when three measurements miss.
    #[test]
    fn steps_of_toys_agree_with_their_formulas() {
        for name in ["toy_2_2", "toy_3_3_extended", "toy_2_2_extended_pbs_ks_p"] {
            let p = TfheParams::named(name).unwrap();
            let wrong = |only: &[&str]| -> Vec<&'static str> {
                let steps = measure(p, EFFORT, UNWATCHED).unwrap();
                let wrong = steps.iter().filter(|s| !s.agrees() && only.contains(&s.name));
                wrong.map(|s| s.name).collect()
            };
            let left = (0..3)
                .fold(STEPS.to_vec(), |only, _| if only.is_empty() { only } else { wrong(&only) });
            assert!(left.is_empty(), "{name}: {left:?}");
        }
    }

    #[test]
    fn failures_of_an_extended_set_are_as_many_as_the_formula_says() {
        let p = TfheParams::named("toy_3_3_extended").unwrap();
        let inflated = inflate(p).unwrap();
        let agrees = |_| {
            let f = failures(&inflated, Effort { keys: 16, per_key: 64 }, UNWATCHED).unwrap();
            f.interval.contains(f.formula)
        };
        // One right formula in a hundred misses.
        assert!((0..3).any(agrees));
    }

    #[test]
    fn planted_noise_is_seen_and_nonsense_refused() {
        let p = TfheParams::named("toy_3_3_extended").unwrap();
        let none = Effort { keys: 0, per_key: 1 };
        assert_eq!(
            failures(&inflate(p).unwrap(), none, UNWATCHED).unwrap_err().kind(),
            "bad_input"
        );
        let steps = measure(p, EFFORT, UNWATCHED).unwrap();
        let mut planted = steps[4].clone();
        planted.formula /= 2.0;
        planted.least /= 2.0;
        assert!(!planted.agrees());
        assert_eq!(steps[0].histogram(9.0, 18).iter().sum::<usize>(), steps[0].measured.samples);
        let pairs = steps[4].quantiles(9);
        assert!((pairs[4].0).abs() < 1e-9 && pairs.windows(2).all(|w| w[0].1 <= w[1].1));
        let one = measure(p, Effort { keys: 1, per_key: 1 }, UNWATCHED);
        assert_eq!(one.unwrap_err().kind(), "bad_input");
        let stopped = measure(p, EFFORT, &|_, _| ControlFlow::Break(()));
        assert_eq!(stopped.unwrap_err().kind(), "interrupted");
    }
}
