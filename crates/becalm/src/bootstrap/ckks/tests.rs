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

/// Bootstraps ciphertexts of several kinds of `set`, which keep (mean, worst) bits: full vectors, and those whose few
/// coefficients are large, so that the sine bends them: 64 values, and one in all slots.
fn measure(set: &str, full: (f64, f64), few: (f64, f64), one: (f64, f64)) {
    let context = Context::new(CkksParams::named(set).unwrap(), true).unwrap();
    let regular = Regular::new(&context, 4).unwrap();
    let secret = context.secret_key().unwrap();
    let keys = context.keys(&secret, &regular.needs()).unwrap();
    let evaluator = Evaluator::new(&context, &keys).unwrap();
    let (n, top) = (context.params().slots(), context.params().levels);
    let complex = |j: usize| Complex::new(fraction(j, 0.618_034), fraction(j, 0.414_214)) * 0.7;
    let ramp = |j: usize| Complex::from(2.0 * j as f64 / n as f64 - 1.0);
    let cases =
        [("complex", n, 0, full), ("ramp", n, top, full), ("few", 64, 2, few), ("one", 1, 1, one)];
    for (name, slots, level, (mean_bits, worst_bits)) in cases {
        let value = |j| match name {
            "ramp" => ramp(j),
            "one" => Complex::from(1.0),
            _ => complex(j),
        };
        let m: Vec<Complex> = (0..slots).map(value).collect();
        let x = context.encrypt(&m, level, &secret).unwrap();
        let y: Rlwe = regular.run(&evaluator, &x).unwrap();
        assert_eq!((y.level(), y.slots()), (top, slots));
        assert!((y.scale() / context.scale(top).unwrap() - 1.0).abs() < 1e-9);
        let (mean, worst) = bits(&context.decrypt(&y, &secret).unwrap(), &m);
        println!("{set}, {name} of {slots}: {mean:.2} bits in the mean, {worst:.2} at the worst");
        assert!(mean > mean_bits && worst > worst_bits, "{set}, {name}");
        // What comes out can be computed with.
        let square = evaluator.square(&y).unwrap();
        let squares: Vec<Complex> = m.iter().map(|v| *v * *v).collect();
        assert!(bits(&context.decrypt(&square, &secret).unwrap(), &squares).0 > mean_bits - 2.0);
    }
}

#[test]
fn a_regular_bootstrap_keeps_the_values() {
    measure("ckks_toy_12", (23.0, 21.0), (20.0, 18.0), (13.0, 13.0));
}

#[test]
fn a_bootstrap_to_14_levels_keeps_the_values() {
    measure("ckks_toy_14_levels", (22.0, 20.0), (20.0, 18.0), (13.0, 13.0));
}

/// With the arcsine even one value in every slot keeps its bits.
#[test]
fn a_precise_bootstrap_keeps_structured_values() {
    measure("ckks_toy_precise", (23.0, 21.0), (23.0, 21.0), (22.0, 22.0));
}

#[test]
fn a_regular_bootstrap_of_full_size_keeps_the_values() {
    if std::env::var_os("BECALM_FULL").is_none() {
        println!("skipped: N = 65536 takes 6 GB; set BECALM_FULL=1");
        return;
    }
    measure("ckks_regular", (22.0, 20.0), (20.0, 18.0), (13.0, 13.0));
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
