//! Bootstraps at reduced size with measured precision; the full size where `BECALM_FULL=1`.

use super::*;
use crate::cipher::Rlwe;
use crate::ckks::{Context, Evaluator};
use crate::math::complex::Complex;
use crate::params::CkksParams;

/// Mean and least bits of the absolute error.
fn bits(got: &[Complex], wanted: &[Complex]) -> (f64, f64) {
    let errors: Vec<f64> = got.iter().zip(wanted).map(|(a, b)| (*a - *b).abs()).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    (-mean.log2(), -errors.iter().copied().fold(0.0, f64::max).log2())
}

/// Numbers of pseudo-random appearance in −1 .. 1.
fn fraction(j: usize, k: f64) -> f64 {
    let x = (j as f64 + 1.0) * k;
    2.0 * (x - x.floor()) - 1.0
}

fn measure(set: &str, mean_bits: f64, worst_bits: f64) {
    let context = Context::new(CkksParams::named(set).unwrap(), true).unwrap();
    let regular = Regular::new(&context, 8).unwrap();
    let secret = context.secret_key().unwrap();
    let keys = context.keys(&secret, &regular.needs()).unwrap();
    let evaluator = Evaluator::new(&context, &keys).unwrap();
    let (n, top) = (context.params().slots(), context.params().levels);
    let complex = |j: usize| Complex::new(fraction(j, 0.618_034), fraction(j, 0.414_214)) * 0.7;
    let ramp = |j: usize| Complex::from(2.0 * j as f64 / n as f64 - 1.0);
    for (name, slots, level) in [("complex", n, 0), ("ramp", n, top), ("sparse", 64, 2)] {
        let value = |j| if name == "ramp" { ramp(j) } else { complex(j) };
        let m: Vec<Complex> = (0..slots).map(value).collect();
        let x = context.encrypt(&m, level, &secret).unwrap();
        let y: Rlwe = regular.run(&evaluator, &x).unwrap();
        assert_eq!((y.level(), y.slots()), (top, slots));
        assert!((y.scale() / context.scale(top).unwrap() - 1.0).abs() < 1e-9);
        let (mean, worst) = bits(&context.decrypt(&y, &secret).unwrap(), &m);
        println!("{set}, {name} of {slots}: {mean:.2} bits in the mean, {worst:.2} at the worst");
        // Few slots make few and large coefficients, which the sine bends: (2π·0.07/2^8)²/6 = 2^-21.
        let less = if name == "sparse" { 4.0 } else { 0.0 };
        assert!(mean > mean_bits - less && worst > worst_bits - less, "{set}, {name}");
        // What comes out can be computed with.
        let square = evaluator.square(&y).unwrap();
        let squares: Vec<Complex> = m.iter().map(|v| *v * *v).collect();
        assert!(
            bits(&context.decrypt(&square, &secret).unwrap(), &squares).0 > mean_bits - less - 2.0
        );
    }
}

#[test]
fn a_regular_bootstrap_keeps_the_values() {
    measure("ckks_toy_12", 24.0, 22.0);
}

#[test]
fn a_regular_bootstrap_of_full_size_keeps_the_values() {
    if std::env::var_os("BECALM_FULL").is_none() {
        println!("skipped: N = 65536 takes 6 GB; set BECALM_FULL=1");
        return;
    }
    measure("ckks_regular", 23.0, 20.0);
}

#[test]
fn keys_that_do_not_suffice_are_named() {
    let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
    assert_eq!(Regular::new(&context, 3).err().map(|e| e.kind()), Some("bad_input"));
    let regular = Regular::new(&context, 8).unwrap();
    let secret = context.secret_key().unwrap();
    let mut needs = regular.needs();
    needs.bootstrap = false;
    let keys = context.keys(&secret, &needs).unwrap();
    let evaluator = Evaluator::new(&context, &keys).unwrap();
    let x = context.encrypt(&[Complex::from(0.5)], 0, &secret).unwrap();
    assert_eq!(regular.run(&evaluator, &x).err().map(|e| e.kind()), Some("wrong_key"));
}
