//! The reduction modulo 1 as a sine: t = I + x with |x| small → sin(2πt) = sin(2πx).
//!
//! sin 2πt = cos 2π(t − 1/4). An even polynomial of u = (t − 1/4)/(K + 1/2) approximates cos(2π(t − 1/4)/2^r) where t can
//! be, within `width` of the integers of −K ..= K only; then r times y → 2y² − 1. In T_k(2u² − 1) it has half the degree.
//! An arcsine, y + y³/6, may follow: it takes the relative error (2πx)²/6 of the sine down to 3(2πx)⁴/40.
//! The coefficients of the cosine make the mean square error least over the I that a sparse secret of weight h gives, variance
//! (h + 1)/12, with a floor under the weight of the rare ones: an I of probability π is met with an error of about
//! 2^-40/√π. Where each I meets a slot of its own, as with SlotsToCoeffs first, rare ones weigh more. That only integers matter is due to Han–Ki 2020; the weights are own.

use crate::ckks::{Chain, Chebyshev};
use crate::params::CkksBootstrap;
use std::f64::consts::TAU;

/// Sample points about each integer.
const SAMPLES: usize = 9;
/// Least weight, where the most probable integer has about 1/2.
const FLOOR: f64 = 1.0 / (1 << 20) as f64;
/// Integers of smaller probability have no part in the greatest error: at N = 2^16 one ciphertext in 2^20 has one of them.
const RAREST: f64 = 1.0 / (1u64 << 36) as f64;

/// The divisor of t − 1/4 in u.
pub(super) fn span(b: &CkksBootstrap) -> f64 {
    b.range as f64 + 0.5
}

/// The probability of I under a secret of weight h, by the normal distribution.
fn probability(i: i64, weight: usize) -> f64 {
    let variance = (weight + 1) as f64 / 12.0;
    (-(i * i) as f64 / (2.0 * variance)).exp() / (TAU * variance).sqrt()
}

/// An approximation of sin 2πt near integers plus `centers`, and its error.
pub(super) struct Sine {
    /// c_k of Σ c_k·T_k(2u² − 1) ≈ cos(2π·span·u/2^r).
    pub(super) cosine: Chebyshev,
    /// Square mean over the I that a sparse secret gives.
    pub(super) error: f64,
    /// The greatest over all I but the rarest, of which one ciphertext in 2^20 has one.
    pub(super) greatest: f64,
    /// The factor of an error of 2u² − 1, square mean over the same.
    pub(super) slope: f64,
    /// The factor of an error of u, square mean over the centers.
    pub(super) tangent: f64,
}

/// |d sin 2πt / d(2u² − 1)| = 2π·span²·|sin 2πx|/4|x| at x = t − 1/4 = span·u: large where u is near 0.
fn slope(b: &CkksBootstrap, x: f64) -> f64 {
    let sinc = if x.abs() < 1e-9 { TAU } else { (TAU * x).sin().abs() / x.abs() };
    TAU * span(b).powi(2) / 4.0 * sinc
}

/// The greatest of [`slope`]: at x = 0.
pub(super) fn greatest_slope(b: &CkksBootstrap) -> f64 {
    slope(b, 0.0)
}

impl Sine {
    /// For t within `width` of I + c, for every I in −K ..= K and c of `centers`.
    pub(super) fn new(b: &CkksBootstrap, centers: &[f64], width: f64) -> Sine {
        let (range, terms) = (b.range as i64, b.degree / 2 + 1);
        let (mut rows, mut weights) = (vec![], vec![]);
        let power = if b.slots_first { 0.3 } else { 0.5 };
        for (i, center) in (-range..=range).flat_map(|i| centers.iter().map(move |c| (i, c))) {
            for j in 0..SAMPLES {
                let offset = width * (TAU * (2 * j + 1) as f64 / (4 * SAMPLES) as f64).cos();
                let x = i as f64 + center + offset - 0.25;
                let v = 2.0 * (x / span(b)).powi(2) - 1.0;
                let mut row = vec![1.0, v];
                (2..terms).for_each(|k| row.push(2.0 * v * row[k - 1] - row[k - 2]));
                row.push((TAU * x / (b.doublings as f64).exp2()).cos());
                rows.push(row);
                weights.push(probability(i, b.ephemeral_weight).powf(power).max(FLOOR));
            }
        }
        let cosine = Chebyshev(least_squares(&rows, &weights));
        let mut sine = Sine { cosine, error: 0.0, greatest: 0.0, slope: 0.0, tangent: 0.0 };
        (sine.error, _) = sine.measured(b, centers, width, 0.0);
        (_, sine.greatest) = sine.measured(b, centers, width, RAREST);
        let all = (-range..=range).flat_map(|i| centers.iter().map(move |c| (i, c)));
        let square = |(i, c): (i64, &f64)| {
            let share = probability(i, b.ephemeral_weight) / centers.len() as f64;
            slope(b, i as f64 + c - 0.25).powi(2) * share
        };
        sine.slope = all.map(square).sum::<f64>().sqrt();
        let squares = centers.iter().map(|c| (TAU * c).cos().powi(2)).sum::<f64>();
        sine.tangent = TAU * span(b) * (squares / centers.len() as f64).sqrt();
        sine
    }

    /// The greatest error over all I, however rare.
    pub(super) fn everywhere(&self, b: &CkksBootstrap, centers: &[f64], width: f64) -> f64 {
        self.measured(b, centers, width, 0.0).1
    }

    /// Square mean and greatest error of the sine, between the sample points too, over the I of at least this probability.
    fn measured(&self, b: &CkksBootstrap, centers: &[f64], width: f64, least: f64) -> (f64, f64) {
        let (range, points) = (b.range as i64, 51);
        let (mut square, mut worst) = (0.0, 0f64);
        let all = (-range..=range).filter(|i| probability(*i, b.ephemeral_weight) >= least);
        for (i, center) in all.flat_map(|i| centers.iter().map(move |c| (i, c))) {
            for j in 0..points {
                let t = i as f64 + center + width * (2.0 * j as f64 / (points - 1) as f64 - 1.0);
                let u = (t - 0.25) / span(b);
                let mut y = self.cosine.value(2.0 * u * u - 1.0);
                (0..b.doublings).for_each(|_| y = 2.0 * y * y - 1.0);
                let error = (y - (TAU * t).sin()).abs();
                worst = worst.max(error);
                let share = (points * centers.len()) as f64;
                square += error * error * probability(i, b.ephemeral_weight) / share;
            }
        }
        (square.sqrt(), worst)
    }
}

/// Where the coefficients of messages of a set are, in units of q_0: up to 1.25 times its scale.
pub(super) fn message_width(chain: &Chain) -> f64 {
    let params = chain.params();
    1.25 * (params.base_scale_bits - params.base_bits).exp2()
}

/// By how much the sine bends x at most, for |x| ≤ 1 where 1 is q_0/`ratio`, and the power with which that grows. It holds for slots and for
/// slots of a message of these coefficients c: the sum of |c|³ is at most max |c| times that of c², and both are at most 1.
pub(super) fn bend(b: &CkksBootstrap, ratio: f64) -> (f64, i32) {
    let angle = TAU / ratio;
    match b.arcsine {
        false => (angle.powi(2) / 6.0, 3),
        true => (3.0 * angle.powi(4) / 40.0, 5),
    }
}

/// c that makes Σ w²·error² least: Gram–Schmidt on the weighted columns, the right side as the last of them (Björck).
fn least_squares(rows: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let terms = rows[0].len() - 1;
    let column = |k: usize| rows.iter().zip(weights).map(|(r, w)| r[k] * w).collect::<Vec<f64>>();
    let mut columns: Vec<Vec<f64>> = (0..=terms).map(column).collect();
    let mut r = vec![vec![0.0; terms + 1]; terms];
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    for k in 0..terms {
        let (done, rest) = columns.split_at_mut(k + 1);
        let q = &mut done[k];
        r[k][k] = dot(q, q).sqrt();
        q.iter_mut().for_each(|x| *x /= r[k][k]);
        for (l, column) in rest.iter_mut().enumerate() {
            let part = dot(q, column);
            r[k][k + 1 + l] = part;
            column.iter_mut().zip(q.iter()).for_each(|(x, q)| *x -= part * q);
        }
    }
    let mut c = vec![0.0; terms];
    for k in (0..terms).rev() {
        let known: f64 = (k + 1..terms).map(|l| r[k][l] * c[l]).sum();
        c[k] = (r[k][terms] - known) / r[k][k];
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{CkksParams, Kind};

    /// Between the sample points too, the error is 2^-39 in the square mean, and 2^-20 for the rarest I; for signs, which are
    /// farther from where they should be, less. Degree 48 with two doublings does better.
    #[test]
    fn the_sine_is_approximated_near_integers() {
        let cases = [
            ("regular", "regular", &[0.0][..], 1.25 / 256.0, 39.0, 20.0),
            ("regular", "slots_first", &[0.0], 1.25 / 4096.0, 39.0, 20.0),
            ("regular", "sign", &[-0.25, 0.25], 1.0 / 64.0, 33.0, 18.0),
            ("slots_first", "slots_first", &[0.0], 1.25 / 16384.0, 43.0, 20.0),
            ("slots_first", "sign", &[-0.25, 0.25], 1.0 / 64.0, 39.0, 18.0),
        ];
        for (set, name, centers, width, mean, least) in cases {
            let b = CkksParams::named(&format!("ckks_{set}")).unwrap().bootstrap.unwrap();
            let (square, worst) = Sine::new(&b, centers, width).measured(&b, centers, width, 0.0);
            println!("{set}, {name}: 2^{:.2}, 2^{:.2} at the worst", square.log2(), worst.log2());
            assert!(-square.log2() > mean && -worst.log2() > least, "{name}");
        }
    }

    /// In every standard set the approximation errs less than a step of EvalMod rounds, in the square mean.
    #[test]
    fn no_set_is_limited_by_its_cosine() {
        for params in CkksParams::all().iter().filter(|p| p.kind == Kind::Standard) {
            let Some(b) = params.bootstrap else { continue };
            let sine = Sine::new(&b, &[0.0], 1.25 / 256.0);
            let rounded =
                params.degree() as f64 / 18f64.sqrt() * (-b.eval_mod_bits).exp2() * sine.slope;
            println!("{}: 2^{:.2}, 2^{:.2}", params.name, sine.error.log2(), rounded.log2());
            assert!(sine.error < rounded, "{}", params.name);
        }
    }
}
