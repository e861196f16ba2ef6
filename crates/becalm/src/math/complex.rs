//! Complex numbers in doubles.

use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;
use std::ops::{Add, Mul, Neg, Sub};
use zeroize::DefaultIsZeroes;

/// Relative error of values that doubles have encoded, and of the scales that are kept in them.
pub(crate) const DOUBLES: f64 = 1.0 / (1u64 << 50) as f64;

/// A complex number.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Complex {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

impl DefaultIsZeroes for Complex {}

impl Complex {
    /// `re + i·im`.
    pub const fn new(re: f64, im: f64) -> Self {
        Complex { re, im }
    }
    /// e^(2πi·`numerator`/`denominator`).
    pub fn root(numerator: usize, denominator: usize) -> Self {
        let (sin, cos) = (TAU * (numerator % denominator) as f64 / denominator as f64).sin_cos();
        Complex::new(cos, sin)
    }
    /// The complex conjugate.
    pub fn conj(self) -> Self {
        Complex::new(self.re, -self.im)
    }
    /// The absolute value.
    pub fn abs(self) -> f64 {
        self.re.hypot(self.im)
    }
}

impl From<f64> for Complex {
    fn from(re: f64) -> Self {
        Complex::new(re, 0.0)
    }
}

impl Add for Complex {
    type Output = Self;
    fn add(self, b: Self) -> Self {
        Complex::new(self.re + b.re, self.im + b.im)
    }
}

impl Sub for Complex {
    type Output = Self;
    fn sub(self, b: Self) -> Self {
        Complex::new(self.re - b.re, self.im - b.im)
    }
}

impl Neg for Complex {
    type Output = Self;
    fn neg(self) -> Self {
        Complex::new(-self.re, -self.im)
    }
}

impl Mul for Complex {
    type Output = Self;
    fn mul(self, b: Self) -> Self {
        Complex::new(self.re * b.re - self.im * b.im, self.re * b.im + self.im * b.re)
    }
}

impl Mul<f64> for Complex {
    type Output = Self;
    fn mul(self, b: f64) -> Self {
        Complex::new(self.re * b, self.im * b)
    }
}
