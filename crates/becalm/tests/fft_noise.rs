//! The FFT term of the blind rotation, alone: one external product by f64 FFT less the exact one, for uniform keys and
//! operands. The fit that the formulas use is an upper one for this transform; here is by how much.
//!
//! F is the error of the phase, one sample for each external product. Beside it stand the errors of the coefficients,
//! times the 1 + kN/2 by which white ones enter the phase; they nearly are. `-- --nocapture` prints the figures.

mod full;
mod statistics;

use becalm::bootstrap::tfhe::Shape;
use becalm::bootstrap::tfhe::blind_rotate::{FourierBootstrapKey, Job};
use becalm::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
use becalm::math::sampling::{binary, uniform};
use becalm::math::simd::Level;
use becalm::math::{Modulus, exact, gadget};
use becalm::params::{Rotation, TfheParams};
use becalm::tfhe::noise::BlindRotation;
use full::full;
use statistics::sets::difference;
use statistics::{Interval, Moments, average, until_accepted};

const Q: Modulus = Modulus::Native;

/// Between these parts of the fit the error lies, at every level and set.
const PART: Interval = Interval { low: 0.55, high: 1.0 };

/// GGSW ciphertexts with an exponent each, and one GLWE, uniform, and the exact result: of one external product, or of one
/// step by the group.
struct Sample {
    ggsws: Vec<Vec<u64>>,
    /// None for the external product.
    exponents: Option<Vec<u32>>,
    glwe: Vec<u64>,
    result: Vec<u64>,
}

impl Sample {
    fn new(shape: Shape, rotation: Rotation, stream: &mut MaskStream) -> Self {
        let (n, columns) = (shape.polynomial_size, shape.glwe_dimension + 1);
        let mut ggsws = vec![vec![0; shape.ggsw_len()]; rotation.group_ggsws()];
        let mut glwe = vec![0; shape.glwe_len()];
        ggsws.iter_mut().for_each(|ggsw| uniform(stream, Q, ggsw));
        uniform(stream, Q, &mut glwe);
        // Doubles hold these exactly and none is a tie, so that there is one decomposition: with a key that encrypts
        // nothing, another one would be another product.
        glwe.iter_mut().for_each(|x| *x = *x >> 12 << 12 | 1 << 11);
        let mut words = vec![0; ggsws.len()];
        uniform(stream, Q, &mut words);
        let exponents: Vec<u32> = words.iter().map(|x| *x as u32 % (2 * n as u32)).collect();
        let exponents = (rotation != Rotation::Classic).then_some(exponents);
        let factor = match &exponents {
            None => ggsws[0].clone(),
            Some(exponents) => bundle(n, &ggsws, exponents),
        };
        let mut result = vec![0; shape.glwe_len()];
        let mut digits = vec![0; n * shape.gadget.level as usize];
        for (r, operand) in glwe.chunks_exact(n).enumerate() {
            gadget::decompose_slice(Q, shape.gadget, operand, &mut digits);
            for (level, digits) in digits.chunks_exact(n).enumerate() {
                let row = &factor[(level * columns + r) * columns * n..][..columns * n];
                for (sum, key) in result.chunks_exact_mut(n).zip(row.chunks_exact(n)) {
                    exact::multiply_add(Q, sum, digits, key).unwrap();
                }
            }
        }
        if exponents.is_some() {
            let mut digits = vec![0; shape.gadget.level as usize];
            for (sum, x) in result.iter_mut().zip(&glwe) {
                gadget::decompose(Q, shape.gadget, *x, &mut digits);
                *sum = Q.add(*sum, gadget::recompose(Q, shape.gadget, &digits));
            }
        }
        Sample { ggsws, exponents, glwe, result }
    }

    /// Errors of the coefficients of the k+1 polynomials at one level, torus units.
    fn errors(&self, shape: Shape, level: Level) -> Vec<f64> {
        let fill = |i: usize, out: &mut [u64]| out.copy_from_slice(&self.ggsws[i]);
        let shape = Shape { ggsw_count: self.ggsws.len(), ..shape };
        let result = match &self.exponents {
            None => {
                let key = FourierBootstrapKey::new(shape, level, fill).unwrap();
                let mut product = vec![0; shape.glwe_len()];
                let mut scratch = key.scratch(1).unwrap();
                key.external_product_add(&mut product, &self.glwe, 0, &mut scratch).unwrap();
                product
            }
            Some(exponents) => {
                let size = exponents.len();
                let key = FourierBootstrapKey::grouped(shape, size, level, fill).unwrap();
                let mut acc = self.glwe.clone();
                let exponents = &[&exponents[..], &[0]].concat()[..];
                let mut job = [Job { glwe: &mut acc, exponents }];
                key.rotate(&mut job, &mut key.scratch(1).unwrap()).unwrap();
                acc
            }
        };
        result.iter().zip(&self.result).map(|(a, b)| difference(Q, *a, *b)).collect()
    }
}

/// Σ_j (X^e_j − 1)·GGSW_j.
fn bundle(n: usize, ggsws: &[Vec<u64>], exponents: &[u32]) -> Vec<u64> {
    let mut sum = vec![0u64; ggsws[0].len()];
    for (ggsw, &e) in ggsws.iter().zip(exponents) {
        for (sum, a) in sum.chunks_exact_mut(n).zip(ggsw.chunks_exact(n)) {
            for (i, x) in a.iter().enumerate() {
                let to = (i + e as usize) % (2 * n);
                let turned = if to < n { *x } else { x.wrapping_neg() };
                sum[to % n] = sum[to % n].wrapping_add(turned);
                sum[i] = sum[i].wrapping_sub(*x);
            }
        }
    }
    sum
}

/// Coefficient 0 of e_B − Σ e_A·S for fresh binary S.
fn phase(errors: &[f64], n: usize, stream: &mut NoiseStream) -> f64 {
    let (masks, body) = errors.split_at(errors.len() - n);
    let mut secret = vec![0; n];
    masks.chunks_exact(n).fold(body[0], |phase, e| {
        binary(stream, &mut secret);
        let wrapped: f64 = (1..n).map(|j| e[n - j] * secret[j] as f64).sum();
        phase - e[0] * secret[0] as f64 + wrapped
    })
}

/// For each level: mean square of coefficients times 1 + kN/2, and the moments of phases, both as multiples of the fit.
fn measure(shape: Shape, rotation: Rotation, fit: f64, samples: usize) -> Vec<(f64, Moments)> {
    let mut masks = MaskStream::new(&PublicSeed::from_system().unwrap(), Domain::Test, 0);
    let mut secrets = NoiseStream::new(&SecretSeed::from_system().unwrap(), Domain::Test, 0);
    let mut all = vec![(vec![], vec![]); Level::available().len()];
    for _ in 0..samples {
        let sample = Sample::new(shape, rotation, &mut masks);
        for (level, (squares, phases)) in Level::available().iter().zip(&mut all) {
            let errors = sample.errors(shape, *level);
            squares.push(average(errors.iter().map(|e| e * e)));
            phases.push(phase(&errors, shape.polynomial_size, &mut secrets) / fit.sqrt());
        }
    }
    let terms = 1.0 + (shape.glwe_dimension * shape.polynomial_size) as f64 / 2.0;
    let summary = |(squares, phases): (Vec<f64>, Vec<f64>)| {
        (average(squares.into_iter()) * terms / fit, Moments::independent(&phases))
    };
    all.into_iter().map(summary).collect()
}

fn check(name: &str, samples: usize) {
    let p = TfheParams::named(name).unwrap();
    // One step of the rotation: F itself.
    let p = TfheParams { lwe_dimension: p.rotation.group_bits(), ..p.clone() };
    let mut fit = BlindRotation::of(&p).noise(p.rotation).fft;
    if p.rotation != Rotation::Classic {
        // The operand is uniform, no smooth table, whose first step would count 1 + N/24 times.
        fit /= 1.0 + p.polynomial_size as f64 / 24.0;
    }
    let accept = |all: &Vec<(f64, Moments)>| {
        for (level, (white, m)) in Level::available().iter().zip(all) {
            let line = format!(
                "{name} {}: {white:.3} of the fit in coefficients, {:.3} ({}) in phases, mean {:+.3} σ",
                level.name(),
                m.variance,
                m.variance_interval,
                m.mean / m.variance.sqrt(),
            );
            println!("{line}");
            let phases = m.variance_interval;
            let bounded = phases.low <= PART.high && phases.high >= PART.low;
            if !PART.contains(*white) || !bounded || !m.mean_interval.contains(0.0) {
                return Err(line);
            }
        }
        Ok(())
    };
    until_accepted(|| measure(Shape::of(&p), p.rotation, fit, samples), accept);
}

/// Groups multiply the classic error by 2m, m GGSW each.
#[test]
fn the_fit_bounds_the_error_of_a_bundle() {
    ["tfhe_2_2_multi_bit_2", "tfhe_1_1_multi_bit_3"].iter().for_each(|name| check(name, 256));
    if full() {
        ["tfhe_2_2_multi_bit_3", "tfhe_2_2_multi_bit_4", "tfhe_2_2_multi_bit_5", "fast_2_2"]
            .iter()
            .for_each(|name| check(name, 1024));
    }
}

#[test]
fn the_fit_bounds_the_fft_error_from_above() {
    ["tfhe_2_2", "tfhe_1_1", "paper_n500"].iter().for_each(|name| check(name, 4096));
    if full() {
        ["tfhe_boolean", "toy_3_3", "tfhe_3_3"].iter().for_each(|name| check(name, 4096));
        check("paper_n800", 512);
    }
}
