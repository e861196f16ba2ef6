//! Polynomials in the basis of Chebyshev, T_(a+b) = 2·T_a·T_b − T_|a−b|, and what their evaluation takes.
//!
//! p = q·T_k + r with k the largest power of two in p (Paterson–Stockmeyer), down to parts of degree at most three.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The greatest degree that is a plain linear combination of T_i.
pub(crate) const CHEBYSHEV_LEAF: usize = 3;

/// Σ c_i·T_i on [−1, 1].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chebyshev(pub Vec<f64>);

impl Chebyshev {
    /// Refuses a constant, and coefficients that are not finite.
    pub(crate) fn check(&self, op: &'static str) -> Result<()> {
        if let Some(c) = self.0.iter().find(|c| !c.is_finite()) {
            let (got, remedy) = (c.to_string(), "remove NaN and infinities");
            return Err(Error::bad_input(op, "finite coefficients", got, remedy));
        }
        if self.degree() == 0 {
            let remedy = "encrypt a constant, or add it";
            return Err(Error::bad_input(op, "a degree of 1 or more", "a constant", remedy));
        }
        Ok(())
    }

    /// The largest absolute value of its coefficients.
    pub(crate) fn largest(&self) -> f64 {
        self.0.iter().fold(0.0, |most, c| most.max(c.abs()))
    }

    /// From Σ c_i·x^i, the same polynomial.
    pub fn from_powers(powers: &[f64]) -> Chebyshev {
        let mut out = vec![0.0; powers.len()];
        for (i, c) in powers.iter().enumerate().rev() {
            // x·T_0 = T_1, x·T_k = (T_(k+1) + T_(k−1))/2.
            let mut next = vec![0.0; powers.len()];
            for (k, a) in out.iter().enumerate().filter(|(_, a)| **a != 0.0) {
                let half = if k == 0 { 1.0 } else { 0.5 };
                if k + 1 < next.len() {
                    next[k + 1] += half * a;
                }
                if k > 0 {
                    next[k - 1] += half * a;
                }
            }
            next[0] += c;
            out = next;
            debug_assert!(i < powers.len());
        }
        Chebyshev(out)
    }

    /// The value at `x` in [−1, 1], by Clenshaw's recurrence.
    pub fn value(&self, x: f64) -> f64 {
        let (mut a, mut b) = (0.0, 0.0);
        for c in self.0.iter().skip(1).rev() {
            (a, b) = (c + 2.0 * x * a - b, a);
        }
        self.0.first().unwrap_or(&0.0) + x * a - b
    }

    /// The largest i with c_i ≠ 0.
    pub fn degree(&self) -> usize {
        self.0.iter().rposition(|c| *c != 0.0).unwrap_or(0)
    }

    /// Levels that its evaluation consumes.
    pub fn depth(&self) -> usize {
        (self.degree() + 1).next_power_of_two().ilog2() as usize
    }

    /// Products of ciphertexts that its evaluation takes: those of the basis, then one for each division.
    pub fn products(&self) -> usize {
        fn divisions(degree: usize, leaf: usize) -> usize {
            if degree <= leaf {
                return 0;
            }
            let k = 1 << degree.ilog2();
            usize::from(degree > k) + divisions(degree - k, leaf) + divisions(k - 1, leaf)
        }
        let degree = self.degree().max(1);
        let (third, leaf) = if degree > CHEBYSHEV_LEAF { (1, CHEBYSHEV_LEAF) } else { (0, 1) };
        degree.ilog2() as usize + third + divisions(degree, leaf)
    }

    /// q, r with p = q·T_k + r, both of degree below k, for the degree of p below 2k.
    pub(crate) fn divided(&self, k: usize) -> [Chebyshev; 2] {
        let degree = self.degree();
        let mut remainder = self.0[..k].to_vec();
        let mut quotient = vec![0.0; degree - k + 1];
        quotient[0] = self.0[k];
        for i in 1..=degree - k {
            quotient[i] = 2.0 * self.0[k + i];
            remainder[k - i] -= self.0[k + i];
        }
        [Chebyshev(quotient), Chebyshev(remainder)]
    }
}
