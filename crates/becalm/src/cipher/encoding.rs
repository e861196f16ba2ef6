//! How integers lie on the torus: value m at m/(2p) below a padding bit, or at m/p without one.
//!
//! A lookup table needs the padding bit to be 0 (its polynomial is negacyclic), so values that enter one must be in
//! 0..p. Whether they are is decided by interval arithmetic on the program, never by looking at data.

use crate::math::Modulus;
use crate::math::round::reduced_once;
use crate::params::TfheParams;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The largest number of values an encoding may have: more would leave no room for noise in 64 bits.
const MAX_VALUES: u64 = 1 << 32;

/// Where messages lie on the torus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Encoding {
    /// p: how many values there are, 0..p. Any number from 1 up, not only powers of two.
    pub values: u64,
    /// True if a zero bit stands above the value: m lies at m/(2p), and lookup tables apply.
    pub padding: bool,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let padding = if self.padding { "below a padding bit" } else { "over the whole torus" };
        write!(f, "{} values {padding}", self.values)
    }
}

impl Encoding {
    /// The encoding of a parameter set: message·carry values below a padding bit.
    pub fn of(params: &TfheParams) -> Self {
        Encoding { values: params.plaintext_modulus(), padding: true }
    }

    /// `values` values below a padding bit.
    ///
    /// # Errors
    /// [`Error::BadInput`] if `values` is 0 or above 2^32.
    pub fn padded(values: u64) -> Result<Self> {
        Encoding { values, padding: true }.checked()
    }

    /// `values` values over the whole torus: addition wraps modulo `values`, but lookup tables do not apply.
    ///
    /// # Errors
    /// [`Error::BadInput`] if `values` is 0 or above 2^32.
    pub fn cyclic(values: u64) -> Result<Self> {
        Encoding { values, padding: false }.checked()
    }

    /// The encoding itself if it is one.
    ///
    /// # Errors
    /// [`Error::BadInput`] if there are no values, or more than 2^32.
    pub fn checked(self) -> Result<Self> {
        if (1..=MAX_VALUES).contains(&self.values) {
            return Ok(self);
        }
        Err(Error::bad_input(
            "encode",
            format!("1 to {MAX_VALUES} values"),
            self.values.to_string(),
            "choose a message modulus in that range",
        ))
    }

    /// In how many parts the torus is cut: 2p with padding, p without.
    pub fn parts(self) -> u64 {
        // Never 0, so that an encoding that was not checked cannot divide by it.
        let parts = if self.padding { self.values.saturating_mul(2) } else { self.values };
        parts.clamp(1, 2 * MAX_VALUES)
    }

    /// The torus element of an integer, reduced modulo the number of parts first.
    pub fn encode(self, modulus: Modulus, value: i64) -> u64 {
        modulus.fraction(value.rem_euclid(self.parts() as i64) as u64, self.parts())
    }

    /// Writes the torus elements of values below the number of parts, in time that does not depend on the values. It fills as much
    /// of `out` as there are values: the caller decides where secrets lie, and wipes them.
    pub fn encode_secret(self, modulus: Modulus, values: &[u64], out: &mut [u64]) {
        let step = modulus.step(self.parts());
        out.iter_mut().zip(values).for_each(|(x, v)| *x = modulus.multiple(step, *v));
    }

    /// The value whose torus element is nearest to `phase`, in time that does not depend on it; an overflow into the
    /// padding bit is dropped.
    pub fn decode(self, modulus: Modulus, phase: u64) -> u64 {
        let parts = self.parts();
        // 0 ..= parts, where the last is the first again.
        let nearest = ((modulus.to_torus(phase) as u128 * parts as u128 + (1 << 63)) >> 64) as u64;
        reduced_once(reduced_once(nearest, parts), self.values)
    }

    /// The distance from a value to the border of its cell, torus units: 1/(4p) with padding, 1/(2p) without. A phase
    /// error below it decodes right.
    pub fn margin(self) -> f64 {
        0.5 / self.parts() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn decode_inverts_encode_under_any_error_below_the_margin(
            values in 1u64..5000, padding: bool, pick: u64, error in -0.99f64..0.99, p: bool,
        ) {
            let modulus = if p { Modulus::Goldilocks } else { Modulus::Native };
            let e = Encoding { values, padding };
            let m = pick % values;
            let noise = modulus.from_signed((error * e.margin() * 2f64.powi(64)) as i64);
            let phase = modulus.add(e.encode(modulus, m as i64), noise);
            prop_assert_eq!(e.decode(modulus, phase), m);
        }
    }

    #[test]
    fn an_error_above_the_margin_decodes_wrong() {
        let e = Encoding::padded(16).unwrap();
        let step = (e.margin() * 2f64.powi(64)) as u64;
        assert_eq!(
            e.decode(Modulus::Native, e.encode(Modulus::Native, 5).wrapping_add(step + 4)),
            6
        );
    }

    #[test]
    fn an_encoding_without_values_is_refused() {
        assert!(matches!(Encoding::padded(0), Err(Error::BadInput(_))));
        assert!(matches!(Encoding::cyclic(1 << 33), Err(Error::BadInput(_))));
    }
}
