//! The FFT term of the blind rotation, alone: one external product by f64 FFT less the exact one, for uniform keys and
//! operands. The fit that the formulas use is an upper one for this transform; here is by how much.
//!
//! F is the error of the phase, one sample for each external product. Beside it stand the errors of the coefficients,
//! times the 1 + kN/2 by which white ones enter the phase; they nearly are. `-- --nocapture` prints the figures.

mod statistics;

use becalm::bootstrap::tfhe::Shape;
use becalm::bootstrap::tfhe::blind_rotate::FourierBootstrapKey;
use becalm::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
use becalm::math::sampling::{binary, uniform};
use becalm::math::simd::Level;
use becalm::math::{Modulus, exact, gadget};
use becalm::params::TfheParams;
use becalm::tfhe::noise::BlindRotation;
use statistics::sets::{difference, full};
use statistics::{Interval, Moments, average, until_accepted};

const Q: Modulus = Modulus::Native;

/// Between these parts of the fit the error lies, at every level and set.
const PART: Interval = Interval { low: 0.55, high: 1.0 };

/// One GGSW and one GLWE, uniform, and their exact external product.
struct Sample {
    ggsw: Vec<u64>,
    glwe: Vec<u64>,
    product: Vec<u64>,
}

impl Sample {
    fn new(shape: Shape, stream: &mut MaskStream) -> Self {
        let (n, columns) = (shape.polynomial_size, shape.glwe_dimension + 1);
        let mut ggsw = vec![0; shape.ggsw_len()];
        let mut glwe = vec![0; shape.glwe_len()];
        uniform(stream, Q, &mut ggsw);
        uniform(stream, Q, &mut glwe);
        // Doubles hold these exactly and none is a tie, so that there is one decomposition: with a key that encrypts
        // nothing, another one would be another product.
        glwe.iter_mut().for_each(|x| *x = *x >> 12 << 12 | 1 << 11);
        let mut product = vec![0; shape.glwe_len()];
        let mut digits = vec![0; n * shape.gadget.level as usize];
        for (r, operand) in glwe.chunks_exact(n).enumerate() {
            gadget::decompose_slice(Q, shape.gadget, operand, &mut digits);
            for (level, digits) in digits.chunks_exact(n).enumerate() {
                let row = &ggsw[(level * columns + r) * columns * n..][..columns * n];
                for (sum, key) in product.chunks_exact_mut(n).zip(row.chunks_exact(n)) {
                    exact::multiply_add(Q, sum, digits, key).unwrap();
                }
            }
        }
        Sample { ggsw, glwe, product }
    }

    /// Errors of the coefficients of the k+1 polynomials at one level, torus units.
    fn errors(&self, shape: Shape, level: Level) -> Vec<f64> {
        let fill = |_: usize, out: &mut [u64]| out.copy_from_slice(&self.ggsw);
        let key = FourierBootstrapKey::new(shape, level, fill).unwrap();
        let mut product = vec![0; shape.glwe_len()];
        let mut scratch = key.scratch(1).unwrap();
        key.external_product_add(&mut product, &self.glwe, 0, &mut scratch).unwrap();
        product.iter().zip(&self.product).map(|(a, b)| difference(Q, *a, *b)).collect()
    }
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
fn measure(shape: Shape, fit: f64, samples: usize) -> Vec<(f64, Moments)> {
    let mut masks = MaskStream::new(&PublicSeed::from_system().unwrap(), Domain::Test, 0);
    let mut secrets = NoiseStream::new(&SecretSeed::from_system().unwrap(), Domain::Test, 0);
    let mut all = vec![(vec![], vec![]); Level::available().len()];
    for _ in 0..samples {
        let sample = Sample::new(shape, &mut masks);
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
    // One step of the rotation: F itself.
    let p = TfheParams { lwe_dimension: 1, ..TfheParams::named(name).unwrap().clone() };
    let fit = BlindRotation::of(&p).classic().fft;
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
    until_accepted(|| measure(Shape::of(&p), fit, samples), accept);
}

#[test]
fn the_fit_bounds_the_fft_error_from_above() {
    ["tfhe_2_2", "tfhe_1_1", "paper_n500"].iter().for_each(|name| check(name, 4096));
    if full() {
        ["tfhe_boolean", "toy_3_3", "tfhe_3_3"].iter().for_each(|name| check(name, 4096));
        check("paper_n800", 512);
    }
}
