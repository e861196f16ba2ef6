//! Noise of ciphertexts that share a history: the walk's figures, and measurements.

use becalm::backend::{Cpu, Evaluator};
use becalm::cipher::{Encoding, SecretKey};
use becalm::params::TfheParams;
use becalm::program::{Program, Reg};
use becalm::tfhe::{Table, noise::NoiseReport};
use becalm::{Error, program::Gate};
use std::sync::Arc;

fn program() -> (Program, Reg) {
    let params = TfheParams::named("toy_2_2").unwrap();
    let mut p = Program::new(Arc::new(params.clone()));
    let x = p.input(Encoding::of(params));
    (p, x)
}

/// Variance of the sum of two registers, as it is followed; the argument is free of noise.
fn sum(record: impl FnOnce(&mut Program, Reg) -> [Reg; 2]) -> f64 {
    let (mut p, x) = program();
    let [a, b] = record(&mut p, x);
    let s = p.linear(&[(1, a), (1, b)], 0).unwrap();
    p.follow(&[0.0]).unwrap().noise[s.0 as usize]
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}

#[test]
fn the_same_step_twice_is_the_same_noise() {
    let set = NoiseReport::of(TfheParams::named("toy_2_2").unwrap());
    let (v_br, v_ks) = (set.blind_rotation.total(), set.key_switch);
    let switches = sum(|p, x| [0, 0].map(|_| p.key_switch(x).unwrap()));
    assert!(close(switches, 4.0 * v_ks), "{switches}");
    let table = Table::from_fn(TfheParams::named("toy_2_2").unwrap(), |m| m / 2).unwrap();
    let equal = sum(|p, x| [0, 0].map(|_| p.lookup(x, &table).unwrap()));
    assert!(close(equal, 4.0 * v_br), "{equal}");
    let other = Table::from_fn(TfheParams::named("toy_2_2").unwrap(), |m| m / 4).unwrap();
    let different = sum(|p, x| [p.lookup(x, &table).unwrap(), p.lookup(x, &other).unwrap()]);
    assert!(close(different, 2.0 * v_br), "{different}");
}

/// A batch as two arguments, and a result computed twice: measured as walked, as the mean over several keys, for a part of the noise
/// is the same for all results of a key.
#[test]
fn copies_as_arguments_add_as_deviations() {
    const KEYS: usize = 16;
    let measured = (0..KEYS).map(|_| doubled_noise()).sum::<f64>() / KEYS as f64;
    println!("measured {measured:.3} of what the walk says, {KEYS} keys");
    // 8192 samples: 99 % within 4 %, and keys differ; half of it would be what independent results have.
    assert!((measured - 1.0).abs() < 0.25, "{measured}");
}

/// The measured variance of a bootstrap's results added to themselves, computed twice, over that of the walk; one key.
fn doubled_noise() -> f64 {
    let params = TfheParams::named("toy_2_2").unwrap();
    let secret = SecretKey::generate(params, true).unwrap();
    let keys = secret.evaluation_key().unwrap();
    let evaluator = Evaluator::new(&Cpu::new(0).unwrap(), &keys).unwrap();
    let encoding = Encoding::of(params);
    let values: Vec<u64> = (0..512).map(|i| i % 8).collect();
    let x = secret.encrypt_as(&values, encoding, 8).unwrap();
    let table = Table::from_fn(params, |m| m % 8).unwrap();
    let (once, again) =
        (evaluator.bootstrap(&x, &table).unwrap(), evaluator.bootstrap(&x, &table).unwrap());
    let mut p = Program::new(secret.params().clone());
    let (a, b) = (p.input_like(&once), p.input_like(&again));
    let s = p.linear(&[(1, a), (1, b)], 0).unwrap();
    p.output(s).unwrap();
    let total =
        evaluator.run(&Arc::new(p), &[once.clone().into(), again.into()]).unwrap().remove(0);
    assert!(close(total.noise_variance(), 4.0 * once.noise_variance()));
    let doubled: Vec<u64> = values.iter().map(|v| 2 * v).collect();
    let errors = secret.errors(&total, &doubled).unwrap();
    errors.iter().map(|e| e * e).sum::<f64>() / 512.0 / total.noise_variance()
}

#[test]
fn results_too_noisy_to_read_are_refused() {
    let params = TfheParams::named("toy_2_2").unwrap();
    let secret = SecretKey::generate(params, true).unwrap();
    let evaluator =
        Evaluator::new(&Cpu::new(0).unwrap(), &secret.evaluation_key().unwrap()).unwrap();
    let x = secret.encrypt_as(&[1], Encoding::of(params), 2).unwrap();
    let y = evaluator.gate(Gate::Or, &x, &x).unwrap();
    assert_eq!(secret.decrypt(&y).unwrap(), [1]);
    let loud = y.scale(5000).unwrap();
    assert!(matches!(secret.decrypt(&loud), Err(Error::TooNoisy(_))));
    assert!(secret.phases(&loud).is_ok());
}

#[test]
fn a_second_value_at_the_base_is_refused() {
    let (mut p, x) = program();
    let refused = p.lookup2(x, x, 4, |a, b| a & b);
    assert!(matches!(refused, Err(Error::BadInput(_))), "{refused:?}");
}
