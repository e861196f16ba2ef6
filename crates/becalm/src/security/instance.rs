//! The LWE instance under attack: n, q, the distribution of the secret and of the noise, samples without limit.
use super::prob::log2_binomial;
use crate::{Error, Result};
use serde::Serialize;
use std::f64::consts::PI;

/// Distribution of the secret of an LWE instance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Secret {
    /// Coordinates uniform in {0, 1}.
    Binary,
    /// Coordinates uniform in {−1, 0, 1}.
    Ternary,
    /// Exactly `weight` coordinates ±1, half of each sign, the others 0.
    Sparse {
        /// Number of non-zero coordinates, 1 ..= n.
        weight: u32,
    },
    /// Coordinates of a discrete Gaussian.
    Gaussian {
        /// Standard deviation, in units of 1.
        std: f64,
    },
}

impl Secret {
    /// log2 of the number of secrets of dimension `n` (for a Gaussian, of those that occur: its entropy).
    pub fn entropy(self, n: u32) -> f64 {
        let dimension = f64::from(n);
        match self {
            Secret::Binary => dimension,
            Secret::Ternary => dimension * 3f64.log2(),
            Secret::Sparse { weight } => {
                let weight = f64::from(weight.min(n));
                log2_binomial(dimension, weight) + log2_binomial(weight, (weight / 2.0).floor())
            }
            Secret::Gaussian { std } => {
                dimension * (std * (2.0 * PI * std::f64::consts::E).sqrt()).log2().max(0.0)
            }
        }
    }
}

/// An LWE instance with as many samples as the attacker wants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Instance {
    /// Dimension of the secret, 1 ..= 2^20.
    pub n: u32,
    /// log2 of the modulus q, at least 1.
    pub log2_q: f64,
    /// Distribution of the secret.
    pub secret: Secret,
    /// Standard deviation of the noise in units of 1 in Z_q (not of q): above 0, below q.
    pub noise_std: f64,
    /// Secrets that one reduced basis serves, 1 ..= 2^20: 1 for plain LWE; N over `Z[X]/(X^N + 1)`, where the samples
    /// of s, times X^i, are samples of X^i·s with the same matrix; times the number of secrets that share a mask. The
    /// attacks that guess gain from them: any one of these secrets may suit the guess.
    pub targets: u32,
}

/// A valid instance in normal form (the secret no wider than the noise), with what the attacks ask of it.
#[derive(Debug, Clone, Copy)]
pub struct Lwe {
    pub n: u32,
    pub log2_q: f64,
    /// log2 of the standard deviation of the noise.
    pub log2_noise: f64,
    /// Standard deviation of a coordinate of the secret.
    pub secret_std: f64,
    /// Number of non-zero coordinates of the secret (the expected one where it varies).
    pub weight: u32,
    /// Number of possible values of a non-zero coordinate.
    pub values: f64,
    /// Number of ones in a secret of fixed weight; its other non-zero coordinates are −1.
    pub fixed_signs: Option<u32>,
    /// log2 of the factor that scales the secret up to the width of the noise (Bai–Galbraith 2014).
    pub log2_scale: f64,
    /// log2 of the number of secrets that one reduced basis serves.
    pub log2_targets: f64,
}

const MAX_DIMENSION: u32 = 1 << 20;
const MAX_TARGETS: u32 = 1 << 20;

impl Lwe {
    pub fn new(instance: &Instance) -> Result<Self> {
        let Instance { n, log2_q, secret, noise_std, targets } = *instance;
        check((1..=MAX_DIMENSION).contains(&n), "1 <= n <= 2^20", n)?;
        check(log2_q.is_finite() && log2_q >= 1.0, "a finite log2_q >= 1", log2_q)?;
        check(noise_std.is_finite() && noise_std > 0.0, "a finite noise_std > 0", noise_std)?;
        let log2_noise = noise_std.log2();
        check((1..=MAX_TARGETS).contains(&targets), "1 <= targets <= 2^20", targets)?;
        check(log2_noise < log2_q, "noise_std < q, in units of 1 in Z_q", noise_std)?;
        let (secret_std, density, values) = match secret {
            Secret::Binary => (0.5, 0.5, 1.0),
            Secret::Ternary => ((2.0f64 / 3.0).sqrt(), 2.0 / 3.0, 2.0),
            Secret::Sparse { weight } => {
                check((1..=n).contains(&weight), "a secret of weight 1 <= h <= n", weight)?;
                let (density, mean) =
                    (f64::from(weight) / f64::from(n), f64::from(weight % 2) / f64::from(n));
                ((density - mean * mean).sqrt(), density, 2.0)
            }
            Secret::Gaussian { std } => {
                check(std.is_finite() && std > 0.0, "a finite secret std > 0", std)?;
                gaussian(std)
            }
        };
        // With unlimited samples the secret can be exchanged for a part of the noise (normal form).
        let wide = secret_std > noise_std;
        let (secret_std, density, values) =
            if wide { gaussian(noise_std) } else { (secret_std, density, values) };
        check(
            secret_std > 0.0,
            "a secret that is not constant",
            format!("{secret:?} for n = {n}"),
        )?;
        let weight = (f64::from(n) * density).round_ties_even() as u32;
        let fixed_signs = match secret {
            Secret::Sparse { weight } if !wide => Some(weight / 2),
            _ => None,
        };
        let log2_scale = log2_noise - secret_std.log2();
        let log2_targets = f64::from(targets).log2();
        let normal = Self {
            n,
            log2_q,
            log2_noise,
            secret_std,
            weight,
            values,
            fixed_signs,
            log2_scale,
            log2_targets,
        };
        Ok(normal)
    }
}

/// Standard deviation, share of non-zero coordinates (approximate, for std not far below 1) and number of values
/// of a discrete Gaussian.
fn gaussian(std: f64) -> (f64, f64, f64) {
    (std, (1.0 - 1.0 / (std * (2.0 * PI).sqrt())).max(0.0), f64::INFINITY)
}

fn check(holds: bool, wanted: &str, got: impl std::fmt::Display) -> Result<()> {
    let remedy = "describe the LWE instance with n, log2 of q, the secret and the noise";
    if holds { Ok(()) } else { Err(Error::bad_input("estimate", wanted, got.to_string(), remedy)) }
}
