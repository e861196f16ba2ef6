//! The failure probability against its formula, where it is large enough to count, and the tail that the formula assumes.
//!
//! Each trial is the whole pipeline at the noise bound ν: two bootstraps, a combination of them (3·x + 4·y, 2-norm 5, or
//! x + 2·y where the key switch comes last and is multiplied too), and a bootstrap in the set's order. The table has so many values, and the bootstrapping key so much noise, that a decision fails in 8 % of
//! the trials; how often it does must agree with the formulas, by the 99 % interval of Clopper and Pearson.
//! Small probabilities cannot be counted. That they follow the same formula is as good as the normal law of what is
//! decided: its distribution, its tail counts and its largest value are compared with the normal law of the formula's variance.
//! By default keys are short; with BECALM_FULL=1 the sets are whole. `-- --nocapture` prints the figures.

mod full;
mod statistics;

use becalm::backend::{Cpu, Evaluator};
use becalm::cipher::{Encoding, SecretKey};
use becalm::params::{ModulusSwitch, Noise, Order, TfheParams};
use becalm::program::{Program, Reg};
use becalm::tfhe::Table;
use becalm::tfhe::noise::{self, BlindRotation, NoiseReport};
use full::full;
use statistics::sets::{changed, exponents, set};
use statistics::{
    clopper_pearson, kolmogorov, kolmogorov_critical, largest_interval, normal_cdf, until_accepted,
};
use std::sync::Arc;

/// Bits of the small key in a short run.
const SHORT: usize = 32;
const KEYS: usize = 32;
const TRIALS_PER_KEY: usize = 128;
/// Values that enter, with a margin of 1/8.
const IN: u64 = 2;

/// The probability of failure that is aimed at.
const AIM: f64 = 0.08;

/// The factors of two bootstrap outputs in the decision.
fn coefficients(order: Order) -> [i64; 2] {
    match order {
        Order::KsPbs => [3, 4],
        Order::PbsKs => [1, 2],
    }
}

/// The set with a table of P values and a noise of the bootstrapping key such that decisions fail with probability
/// [`AIM`]; P is the largest power of two for which key and modulus switch alone leave a third of the variance free.
fn failing(p: TfheParams, kind: ModulusSwitch) -> (TfheParams, u64) {
    let mut p = changed(p, if kind == ModulusSwitch::Plain { "plain" } else { "centred" }, |p| {
        p.modulus_switch = kind;
        p.max_norm2 = coefficients(p.order).iter().map(|c| (c * c) as f64).sum::<f64>().sqrt();
        p.glwe_noise = Noise::Gaussian { std: 0.0 };
    });
    let silent = NoiseReport::of(&p).total;
    let wanted = |values: u64| {
        let deviations = statistics::normal_quantile(AIM / 2.0);
        (0.25 / values as f64 / deviations).powi(2)
    };
    let values = (3..).map(|i| 1u64 << i).take_while(|v| wanted(*v) > 1.5 * silent).last().unwrap();
    let unit = BlindRotation { key_variance: 1.0, ..BlindRotation::of(&p) };
    let variance =
        (wanted(values) - silent) / p.max_norm2.powi(2) / unit.classic().external_product;
    p.glwe_noise = Noise::Gaussian { std: variance.sqrt() };
    (p, values)
}

/// The probability that a decision fails. Plain rounding moves a phase by up to half a cell either way, and the boxes
/// are half-open: the upper border lies half a cell nearer than the lower one.
fn predicted(p: &TfheParams, values: u64) -> f64 {
    let (v, margin) = (NoiseReport::of(p).total, 0.25 / values as f64);
    let cell = 0.5 / p.table_size() as f64;
    match p.modulus_switch {
        ModulusSwitch::Centered | ModulusSwitch::Companion { .. } => {
            noise::log2_pfail(v, values).exp2()
        }
        ModulusSwitch::Plain => {
            let std = (v - cell * cell / 12.0).sqrt();
            normal_cdf(-(margin - cell / 2.0) / std) + normal_cdf(-(margin + cell / 2.0) / std)
        }
    }
}

/// The two arguments, their bootstraps into `values` values, and Σ coefficient·bootstrap.
fn combination(p: &Arc<TfheParams>, values: u64, coefficients: &[i64]) -> (Program, Reg, u64) {
    let (small, large) = (Encoding::padded(IN).unwrap(), Encoding::padded(values).unwrap());
    let step = (values - 1) / (IN - 1) / coefficients.iter().sum::<i64>() as u64;
    let spread: Vec<u64> = (0..IN).map(|m| m * step).collect();
    let table = Table::with(p, small, large, &spread).unwrap();
    let mut program = Program::new(p.clone());
    let term = |c: &i64| {
        let x = program.input(small);
        (*c, program.lookup(x, &table).unwrap())
    };
    let terms: Vec<(i64, Reg)> = coefficients.iter().map(term).collect();
    let sum = program.linear(&terms, 0).unwrap();
    (program, sum, step)
}

/// Values of argument `a` in trial i.
fn argument(a: usize, trials: usize) -> Vec<u64> {
    (0..trials as u64).map(|i| if a == 0 { i % IN } else { i / IN % IN }).collect()
}

/// Failures in [`KEYS`]·[`TRIALS_PER_KEY`] trials.
fn failures(p: &TfheParams, values: u64) -> usize {
    let few = Encoding::padded(4).unwrap();
    let p = Arc::new(p.clone());
    let (mut program, sum, step) = combination(&p, values, &coefficients(p.order));
    // Neighbours differ modulo 4, and so does what lies beyond either end.
    let low_bits: Vec<u64> = (0..values).map(|y| y % 4).collect();
    let table = Table::with(&p, Encoding::padded(values).unwrap(), few, &low_bits).unwrap();
    let result = program.lookup(sum, &table).unwrap();
    program.output(result).unwrap();
    let program = Arc::new(program);
    let arguments = [argument(0, TRIALS_PER_KEY), argument(1, TRIALS_PER_KEY)];
    let [a, b] = coefficients(p.order).map(|c| c as u64);
    let wanted = |(x, y): (&u64, &u64)| (a * x + b * y) * step % 4;
    let wanted: Vec<u64> = arguments[0].iter().zip(&arguments[1]).map(wanted).collect();
    let run = |_| {
        let secret = SecretKey::generate(&p, true).unwrap();
        let keys = secret.evaluation_key().unwrap();
        let evaluator = Evaluator::new(&Cpu::new(0).unwrap(), &keys).unwrap();
        let encrypt =
            |v: &Vec<u64>| secret.encrypt_as(v, Encoding::padded(IN).unwrap(), IN).unwrap().into();
        let inputs: Vec<_> = arguments.iter().map(encrypt).collect();
        let got = secret.decrypt(&evaluator.run(&program, &inputs).unwrap()[0]).unwrap();
        got.iter().zip(&wanted).filter(|(a, b)| a != b).count()
    };
    (0..KEYS).map(run).sum()
}

/// The noise that a program follows agrees with the formula: the sum is at the set's bound, and its bootstrap the worst of the three.
fn check_followed(p: &TfheParams, values: u64) {
    let (mut program, sum, _) = combination(&Arc::new(p.clone()), values, &coefficients(p.order));
    let table = Table::with(
        p,
        Encoding::padded(values).unwrap(),
        Encoding::padded(4).unwrap(),
        &vec![0; values as usize],
    );
    let result = program.lookup(sum, &table.unwrap()).unwrap();
    program.output(result).unwrap();
    let fresh = NoiseReport::of(p).fresh;
    let followed = program.follow(&[fresh, fresh]).unwrap().log2_pfail - 3f64.log2();
    let formula = noise::log2_pfail(NoiseReport::of(p).total, values);
    assert!(
        (followed - formula).abs() < 1e-6,
        "{}: followed 2^{followed}, formula 2^{formula}",
        p.name
    );
}

fn check(name: &str, kinds: &[ModulusSwitch]) {
    for &kind in kinds {
        let (p, values) = failing(set(name, SHORT), kind);
        check_followed(&p, values);
        let (expected, trials) = (predicted(&p, values), KEYS * TRIALS_PER_KEY);
        assert!(expected * trials as f64 > 200.0, "{}: {expected} is too rare to count", p.name);
        let accept = |seen: &usize| {
            let interval = clopper_pearson(*seen, trials);
            let line = format!(
                "{:32} n={} P={values}: {seen} failures of {trials}, {:.4} ({interval}), formula {expected:.4}",
                p.name,
                p.lwe_dimension,
                *seen as f64 / trials as f64
            );
            println!("{line}");
            if interval.contains(expected) { Ok(()) } else { Err(line) }
        };
        until_accepted(|| failures(&p, values), accept);
    }
}

const BOTH: [ModulusSwitch; 2] = [ModulusSwitch::Centered, ModulusSwitch::Plain];

/// Both orders, both moduli, both moduli of the key switch, centred and plain rounding. Modulo p each order has one rounding: with
/// BECALM_FULL=1 it has both.
#[test]
fn failures_key_switch_first() {
    check("tfhe_1_1", &BOTH);
}

#[test]
fn failures_key_switch_first_modulo_p() {
    check("tfhe_1_1_p", if full() { &BOTH } else { &BOTH[..1] });
}

#[test]
fn failures_key_switch_last() {
    check("tfhe_boolean", &BOTH);
}

#[test]
fn failures_key_switch_last_modulo_p() {
    check("tfhe_boolean_p", if full() { &BOTH } else { &BOTH[1..] });
}

/// The count would see a tenth more noise at the decision.
#[test]
fn a_tenth_more_noise_is_seen() {
    let (p, values) = failing(set("tfhe_1_1", SHORT), ModulusSwitch::Centered);
    let v = NoiseReport::of(&p);
    let key = p.max_norm2.powi(2) * v.blind_rotation.external_product;
    let factor = 1.0 + 0.21 * v.total / key;
    let planted = changed(p.clone(), "planted", |p| {
        p.glwe_noise = Noise::Gaussian { std: (p.glwe_variance() * factor).sqrt() };
    });
    let seen = clopper_pearson(failures(&planted, values), KEYS * TRIALS_PER_KEY);
    println!("{}: {seen}, formula without it {:.4}", planted.name, predicted(&p, values));
    assert!(!seen.contains(predicted(&p, values)));
}

/// The error of the decision in whole cells of 1/2N: ν·x for a bootstrap output x, as the table sees it.
fn decided(p: &TfheParams, keys: usize, per_key: usize) -> Vec<i64> {
    let p = Arc::new(p.clone());
    let (degree, values) = (p.table_size(), 64);
    let factor = p.max_norm2 as i64;
    let (mut program, sum, step) = combination(&p, values, &[factor]);
    let small = if p.order == Order::KsPbs { program.key_switch(sum).unwrap() } else { sum };
    program.output(small).unwrap();
    let program = Arc::new(program);
    let argument = argument(0, per_key);
    let run = |_| {
        let secret = SecretKey::generate(&p, true).unwrap();
        let keys = secret.evaluation_key().unwrap();
        let evaluator = Evaluator::new(&Cpu::new(0).unwrap(), &keys).unwrap();
        let input = secret.encrypt_as(&argument, Encoding::padded(IN).unwrap(), IN).unwrap();
        let small = evaluator.run(&program, &[input.into()]).unwrap().remove(0);
        let wanted = argument.iter().map(|m| *m as usize * factor as usize * step as usize);
        let pairs: Vec<_> = exponents(&secret, &small).into_iter().zip(wanted).collect();
        let error = |(e, y): (usize, usize)| {
            let from = (e + 2 * degree - y * (degree / values as usize)) % (2 * degree);
            if from < degree { from as i64 } else { from as i64 - 2 * degree as i64 }
        };
        pairs.into_iter().map(error).collect::<Vec<i64>>()
    };
    (0..keys).flat_map(run).collect()
}

/// The normal law of the formula's variance, at every border of a cell, in the tail counts and in the largest value.
fn check_tail(p: &TfheParams, keys: usize, per_key: usize) {
    let sigma = NoiseReport::of(p).total.sqrt() * 2.0 * p.table_size() as f64;
    let accept = |errors: &Vec<i64>| {
        let count = errors.len();
        let distance = kolmogorov(&mut errors.clone(), |k| normal_cdf(k as f64 / sigma));
        // An error is cut off to its cell, so that its size is known to half a cell.
        let largest = errors.iter().map(|e| (*e as f64 + 0.5).abs()).fold(0.0, f64::max) / sigma;
        let (critical, interval) = (kolmogorov_critical(count), largest_interval(count));
        let mut line = format!(
            "{} n={} {count} decisions: distance {distance:.4} (below {critical:.4}), largest {largest:.2} σ ({interval})",
            p.name, p.lwe_dimension
        );
        let half = 0.5 / sigma;
        let mut good =
            distance < critical && largest > interval.low - half && largest < interval.high + half;
        for z in [2.0, 3.0, 4.0] {
            // The cell border next to zσ: −c below and +c above are as far from 0.
            let c = (z * sigma).round() as i64;
            let seen = errors.iter().filter(|e| **e < -c || **e >= c).count();
            let law = 2.0 * normal_cdf(-c as f64 / sigma);
            good &= clopper_pearson(seen, count).contains(law);
            line +=
                &format!("; beyond {:.2} σ {seen} ({:.1})", c as f64 / sigma, law * count as f64);
        }
        println!("{line}");
        if good { Ok(()) } else { Err(line) }
    };
    until_accepted(|| decided(p, keys, per_key), accept);
}

#[test]
fn what_is_decided_has_a_normal_tail() {
    // Digits of a key switch have a mean, half a digit below zero, so that a part of its noise is the same for all decisions of a
    // key: as independent as the interval takes them for are only decisions of many keys. 4096 decisions tell distributions 0.025
    // apart, the 16384 of a full run those 0.013 apart.
    let (keys, per_key) = if full() { (2048, 8) } else { (512, 8) };
    for name in ["tfhe_1_1", "tfhe_boolean_p"] {
        check_tail(&set(name, SHORT), keys, per_key);
    }
    if full() {
        check_tail(&set("tfhe_2_2", SHORT), keys, per_key);
    }
}
