//! The terms of the noise formulas, measured on the operations themselves: signed decomposition with binary keys in both
//! moduli, and rounding to Z_2N.

use becalm::math::Modulus;
use becalm::params::{Gadget, ModulusSwitch, Rotation};
use becalm::tfhe::noise::{self, BlindRotation};

/// SplitMix64: enough for statistics, the same in every run.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn element(&mut self, q: Modulus) -> u64 {
        q.reduce(self.word())
    }

    fn bit(&mut self) -> f64 {
        (self.word() >> 63) as f64
    }
}

/// Balanced digits, least significant first, and the error of rounding to the gadget in torus units.
fn decompose(a: u64, q: Modulus, gadget: Gadget) -> (Vec<i64>, f64) {
    let shift = 64 - gadget.base_log * gadget.level;
    let c = i128::from(q.to_signed(a));
    let rounded = (c + (1 << (shift - 1))) >> shift;
    let base = 1i128 << gadget.base_log;
    let mut rest = rounded;
    let mut digits = Vec::new();
    for _ in 1..gadget.level {
        let digit = (rest + base / 2).rem_euclid(base) - base / 2;
        digits.push(digit as i64);
        rest = (rest - digit) / base;
    }
    digits.push(rest as i64);
    (digits, ((rounded << shift) - c) as f64 * 2f64.powi(-64))
}

fn mean(samples: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = samples.len() as f64;
    samples.sum::<f64>() / count
}

#[track_caller]
fn assert_close(found: f64, expected: f64, tolerance: f64) {
    let ratio = found / expected;
    assert!((ratio - 1.0).abs() < tolerance, "{found:e} is {ratio} times {expected:e}");
}

/// 200 000 samples: the mean of squares is within 1 % by more than five standard errors, whatever the term.
const SAMPLES: usize = 200_000;

#[test]
fn digits_and_rounding_have_the_formulas_moments() {
    let mut random = Random(1);
    for q in [Modulus::Native, Modulus::Goldilocks] {
        for (base_log, level) in [(1, 12), (4, 4), (3, 5), (23, 1), (10, 2), (15, 2), (6, 5)] {
            let gadget = Gadget { base_log, level };
            let mut squares = vec![0.0; level as usize];
            let mut rounding = 0.0;
            for _ in 0..SAMPLES {
                let (digits, error) = decompose(random.element(q), q, gadget);
                for (square, digit) in squares.iter_mut().zip(&digits) {
                    *square += (digit * digit) as f64 / SAMPLES as f64;
                }
                rounding += (error * random.bit()).powi(2) / SAMPLES as f64;
            }
            // A key switch of one coefficient with key variance 1 is E[d²]·ℓ; with a silent key, rounding alone.
            let one = noise::key_switch(1, 1.0, gadget, 64);
            let silent = noise::key_switch(1, 0.0, gadget, 64);
            for square in &squares {
                assert_close(*square, (one - silent) / f64::from(level), 0.01);
            }
            assert_close(rounding, silent, 0.01);
        }
    }
}

#[test]
fn rounding_in_an_external_product_has_the_formulas_moment() {
    let mut random = Random(2);
    let gadget = Gadget { base_log: 7, level: 2 };
    let (k, degree) = (2, 16);
    let q = Modulus::Goldilocks;
    let rotation = BlindRotation {
        lwe_dimension: 1,
        glwe_dimension: k,
        bodies: 1,
        polynomial_size: degree,
        gadget,
        key_variance: 0.0,
        modulus: q,
    };
    let squares = (0..SAMPLES).map(|_| {
        // One coefficient of the phase: the body's error and kN mask errors where the key is one.
        let mut error = || decompose(random.element(q), q, gadget).1;
        let errors: Vec<f64> = (0..=k * degree).map(|_| error()).collect();
        let phase = errors[0] - errors[1..].iter().map(|e| e * random.bit()).sum::<f64>();
        phase * phase
    });
    let one = mean(squares.collect::<Vec<_>>().into_iter());
    // A multi-bit step always multiplies; a classic one where its key bit is one.
    assert_close(one, rotation.grouped(Rotation::MultiBit { grouping: 2 }).total() * 2.0, 0.02);
    assert_close(one / 2.0, rotation.classic().total(), 0.02);
}

/// The phase after rounding to Z_2N less the phase before, in cells, for a random ciphertext. Centred: before the body is
/// cut off, which moves no phase across a multiple of a cell. Companion rounding has its own definition here: the best of all
/// integers near.
fn switched(random: &mut Random, n: usize, log2_cells: u32, kind: ModulusSwitch) -> f64 {
    let shift = 64 - log2_cells;
    let cell = f64::from(shift).exp2();
    let (mut phase, mut half_sum) = (0.0, 0.0);
    for _ in 0..n {
        let a = u128::from(random.word());
        let rounded = (a + (1 << (shift - 1))) >> shift << shift;
        let mut error = (rounded as i128 - a as i128) as f64 / cell;
        if let ModulusSwitch::Companion { coarsest_log2, weight } = kind {
            let nearest = (rounded >> shift) as i64;
            let cost = |m: i64| {
                let work = 1u64 << (coarsest_log2 - m.trailing_zeros().min(coarsest_log2));
                work as f64 + f64::from(weight) * (error + (m - nearest) as f64).powi(2)
            };
            let best = (nearest - 8..=nearest + 8).min_by(|a, b| cost(*a).total_cmp(&cost(*b)));
            error += (best.unwrap() - nearest) as f64;
        }
        phase -= error * random.bit();
        half_sum += error / 2.0;
    }
    match kind {
        ModulusSwitch::Plain => phase + random.word() as f64 / 2f64.powi(64) - 0.5,
        _ => phase + half_sum,
    }
}

#[test]
fn modulus_switch_has_the_formulas_variance() {
    let (n, degree, log2_cells, samples) = (200, 512, 10, 20_000);
    let mut random = Random(3);
    let companion = |weight| ModulusSwitch::Companion { coarsest_log2: 3, weight };
    for kind in [ModulusSwitch::Plain, ModulusSwitch::Centered, companion(40), companion(5)] {
        let errors: Vec<f64> =
            (0..samples).map(|_| switched(&mut random, n, log2_cells, kind)).collect();
        let bias = mean(errors.iter().copied());
        let square = mean(errors.iter().map(|e| e * e));
        assert!(bias.abs() < 4.0 * (square / samples as f64).sqrt(), "{kind:?}: bias of {bias}");
        // The standard error of a variance of 20 000 samples is 1 %.
        let expected = noise::modulus_switch(n, degree, (Rotation::Classic, kind), 64);
        assert_close(square / (2.0 * degree as f64).powi(2), expected, 0.04);
    }
}
