//! Every primitive's noise against its formula: variance and mean over 4096 samples or more, each formula inside the 99 %
//! interval of what is measured.
//!
//! One rotation gives one sample of each step: key switch, modulus switch and blind rotation are read off the registers of
//! one program with the secret key. The coefficients of one rotation are not used as samples: what rounding leaves in
//! the mask meets the key in all of them, and half of that is common to neighbours, as the key's mean is 1/2.
//! By default keys are short (n = 64) and all else is that of the set; with BECALM_FULL=1 the sets are whole.
//! `cargo test --release --test noise_measured -- --nocapture` prints the figures.

mod statistics;

use becalm::backend::{Cpu, Evaluator};
use becalm::cipher::{Encoding, EvaluationKey, KeyRole, Lwe, SecretKey};
use becalm::math::Modulus;
use becalm::math::simd::Level;
use becalm::params::{Kind, ModulusSwitch, Noise, Order, TfheParams};
use becalm::program::Program;
use becalm::tfhe::Table;
use becalm::tfhe::modulus_switch::modulus_switch;
use becalm::tfhe::noise::{self, NoiseReport};
use statistics::{Moments, until_accepted};
use std::borrow::Cow;
use std::sync::Arc;

const KEYS: usize = 64;
const SAMPLES_PER_KEY: usize = 64;

/// A set as these tests use it: of kind toy, claiming nothing, and with a key of 64 bits unless the run is a full one.
fn set(name: &str) -> TfheParams {
    let whole = TfheParams::named(name).unwrap();
    let n = if statistics::full() { whole.lwe_dimension } else { 64 };
    TfheParams { kind: Kind::Toy, lwe_dimension: n, log2_pfail: 0.0, ..whole.clone() }
}

/// The same set by another name, changed.
fn changed(name: &str, suffix: &str, change: impl FnOnce(&mut TfheParams)) -> TfheParams {
    let mut p = set(name);
    p.name = Cow::Owned(format!("{name}_{suffix}"));
    change(&mut p);
    p
}

/// Samples of every step, a group for each key, in torus units; the modulus switch in cells of 1/2N.
#[derive(Default)]
struct Steps {
    key_switch: Vec<Vec<f64>>,
    modulus_switch: Vec<Vec<f64>>,
    blind_rotation: Vec<Vec<f64>>,
}

/// The program key switch + bootstrap (in the set's order) of the table that keeps every one of the N values apart, with
/// all registers put out.
fn program(p: &Arc<TfheParams>) -> (Arc<Program>, Table) {
    let each = Encoding::padded(p.polynomial_size as u64).unwrap();
    let values: Vec<u64> = (0..each.values).collect();
    let table = Table::with(p, each, each, &values).unwrap();
    let mut program = Program::new(p.clone());
    let x = program.input(each);
    let (small, big, switched) = match p.order {
        Order::KsPbs => {
            let small = program.key_switch(x).unwrap();
            (small, program.bootstrap(small, &table).unwrap()[0], small)
        }
        Order::PbsKs => {
            let big = program.bootstrap(x, &table).unwrap()[0];
            (x, big, program.key_switch(big).unwrap())
        }
    };
    for r in [small, big, switched] {
        program.output(r).unwrap();
    }
    (Arc::new(program), table)
}

/// `b − Σ a_i·s_i` of the exponents that the blind rotation gets, in 0..2N.
fn exponent(p: &TfheParams, ct: &[u64], secret: &[u64]) -> usize {
    let mut exponents = vec![0; ct.len()];
    let n = p.lwe_dimension;
    modulus_switch(p.modulus_switch, p.modulus, p.polynomial_size, n, ct, &mut exponents).unwrap();
    let sum: i64 = exponents.iter().zip(secret).map(|(a, s)| i64::from(*a) * *s as i64).sum();
    (i64::from(exponents[n]) - sum).rem_euclid(2 * p.polynomial_size as i64) as usize
}

/// `a − b` in torus units, −1/2 ..= 1/2.
fn difference(q: Modulus, a: u64, b: u64) -> f64 {
    q.to_signed(q.sub(a, b)) as f64 * 2f64.powi(-64)
}

/// Runs samples under one key at one level and appends a group to every step.
fn measure_key(steps: &mut Steps, secret: &SecretKey, keys: &EvaluationKey, level: Level) {
    let p = secret.params();
    let (q, cells) = (p.modulus, 2 * p.polynomial_size);
    let (program, table) = program(p);
    let each = table.input();
    let values: Vec<u64> = (0..SAMPLES_PER_KEY as u64).map(|i| i * 37 % each.values).collect();
    let input = secret.encrypt_as(&values, each, each.values).unwrap();
    let cpu = Cpu::with_level(0, level).unwrap();
    let evaluator = Evaluator::new(&cpu, keys).unwrap();
    let outputs = evaluator.evaluate(&program, &[input.clone().into()]).unwrap();
    let [small, big, switched] = &outputs[..] else { panic!("three registers") };
    let phases = |ct: &Lwe| secret.phases(ct).unwrap();
    let before = if p.order == Order::KsPbs { phases(&input) } else { phases(big) };
    let pairs = phases(switched).into_iter().zip(before);
    steps.key_switch.push(pairs.map(|(after, before)| difference(q, after, before)).collect());
    let bits = secret.expose(KeyRole::Small);
    let seen: Vec<usize> =
        small.words().chunks(small.width()).map(|ct| exponent(p, ct, bits)).collect();
    let cell = 2f64.powi(64) / cells as f64;
    let rounding = |(e, phase): (&usize, u64)| {
        q.to_torus(phase).wrapping_neg().wrapping_add((*e as f64 * cell) as u64) as i64 as f64
            / cell
    };
    steps.modulus_switch.push(seen.iter().zip(phases(small)).map(rounding).collect());
    // What the rotation must put out for the exponent that it was given: then its own noise alone is left.
    let wanted = |e: usize| {
        let entry = table.polynomial()[e % p.polynomial_size];
        if e < p.polynomial_size { entry } else { q.neg(entry) }
    };
    let rotated = phases(big).into_iter().zip(&seen);
    steps.blind_rotation.push(rotated.map(|(x, e)| difference(q, x, wanted(*e))).collect());
}

fn measure(p: &TfheParams, levels: &[Level]) -> Vec<Steps> {
    let mut all: Vec<Steps> = levels.iter().map(|_| Steps::default()).collect();
    for _ in 0..KEYS {
        let secret = SecretKey::generate(p, true).unwrap();
        let keys = secret.evaluation_key().unwrap();
        for (steps, level) in all.iter_mut().zip(levels) {
            measure_key(steps, &secret, &keys, *level);
        }
    }
    all
}

/// V_br as these samples should show it. The first step multiplies a table whose mask is still empty, so k/(k+1) of its key
/// noise is missing.
fn blind_rotation(p: &TfheParams) -> f64 {
    let (k, n) = (p.glwe_dimension as f64, p.lwe_dimension as f64);
    let v = NoiseReport::of(p).blind_rotation;
    v.external_product * (1.0 - k / (k + 1.0) / n) + v.fft + v.decomposition
}

#[test]
fn explore() {
    for name in std::env::var("SETS").unwrap_or("tfhe_2_2".into()).split(',') {
        let p = set(name);
        let r = NoiseReport::of(&p);
        let t = std::time::Instant::now();
        let levels =
            if p.modulus == Modulus::Native { Level::available() } else { &[Level::Avx512] };
        for (s, l) in measure(&p, levels).iter().zip(levels) {
            let show = |n: &str, g: &[Vec<f64>], c: f64, v: f64| {
                let m = Moments::of(g, c);
                println!(
                    "{name} {l:?} {n}: ratio {:.4} interval {}, mean/std {:.4} in {}",
                    m.variance / v,
                    m.variance_interval.scale(1.0 / v),
                    (m.mean - c) / v.sqrt(),
                    m.mean_interval.scale(1.0 / v.sqrt())
                );
            };
            show("ks", &s.key_switch, 0.0, r.key_switch);
            let cells = (2.0 * p.polynomial_size as f64).powi(2);
            let (c, add) = if p.modulus_switch == ModulusSwitch::Centered {
                (-0.5, 1.0 / 12.0)
            } else {
                (0.0, 0.0)
            };
            show("ms", &s.modulus_switch, c, r.modulus_switch * cells + add);
            show("br", &s.blind_rotation, 0.0, blind_rotation(&p));
            let all: Vec<f64> = s.blind_rotation.concat();
            let quarter: Vec<f64> = all
                .iter()
                .enumerate()
                .map(|(i, _)| {
                    ((i % 64) as u64 * 37 % p.polynomial_size as u64) as f64
                        / p.polynomial_size as f64
                })
                .collect();
            let lo: Vec<f64> =
                all.iter().zip(&quarter).filter(|(_, q)| **q < 0.5).map(|(x, _)| *x).collect();
            let hi: Vec<f64> =
                all.iter().zip(&quarter).filter(|(_, q)| **q >= 0.5).map(|(x, _)| *x).collect();
            let sd = blind_rotation(&p).sqrt();
            println!(
                "   low half mean {:.4} high half mean {:.4}",
                statistics::average(lo.iter().copied()) / sd,
                statistics::average(hi.iter().copied()) / sd
            );
            println!(
                "   fft share {:.4} dec share {:.4}",
                r.blind_rotation.fft / r.blind_rotation.total(),
                r.blind_rotation.decomposition / r.blind_rotation.total()
            );
        }
        println!("{:?}", t.elapsed());
    }
}
