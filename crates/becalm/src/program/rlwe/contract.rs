//! The account of integers that come from slots or from a table, and of slots that come from integers: no account can follow the steps between,
//! because they are on coefficients and on slots in turn.

use crate::cipher::{Account, PRODUCT_TAIL, Standing, TAIL};
use crate::program::graph::unlike_recorded;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most by which a bit may be off before it is cleaned: 3x² + 2x³ leaves 2^-6 of it.
const MOST_OFF: f64 = 1.0 / 16.0;

/// How the error of a result follows from the error of the argument. Errors of integers are in units of q_0, those of slots in units of 1.
///
/// An error e of the argument puts a number off by at most y = `slope`·|e| + `inside`: the result itself, or each bit of it where bits are
/// cleaned. The cleaning x ↦ 3x² − 2x³ leaves 3y² + 2y³.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The form of the result.
    pub(crate) gives: Gives,
    /// Upper bound on the results.
    pub(crate) values: f64,
    /// The steepest slope of that number as a function of the argument.
    pub(crate) slope: f64,
    /// Most by which the steps, or the caller, put that number off.
    pub(crate) inside: f64,
    /// The root of the mean square of that, at most.
    pub(crate) mean: f64,
    /// The sum of the weights that cleaned bits have in the result; none where nothing is cleaned.
    pub(crate) cleaned: Option<f64>,
    /// Error of the result that the steps behind add, standard deviation.
    pub(crate) noise: f64,
}

/// The form of the results of a contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Gives {
    /// Integers of so many bits, as many as were looked up.
    Integers(u32),
    /// Integers of so many bits from slots, this many of them.
    Packed(u32, usize),
    /// Real numbers in slots.
    Slots,
}

impl Gives {
    /// The bits of integers.
    pub(super) fn bits(self) -> Option<u32> {
        match self {
            Gives::Integers(bits) | Gives::Packed(bits, _) => Some(bits),
            Gives::Slots => None,
        }
    }
}

impl Contract {
    /// By how much the number is off at most before it is cleaned.
    fn off(&self, error: f64) -> f64 {
        self.slope * error + self.inside
    }

    /// The account of the results.
    pub(super) fn account(&self, from: Account) -> Account {
        let left = |y: f64| match self.cleaned {
            Some(weight) => (3.0 + 2.0 * y) * y * y * weight,
            None => y,
        };
        let tail = if self.gives == Gives::Slots { PRODUCT_TAIL } else { TAIL };
        let worst = left(self.off(from.worst)) + tail * self.noise;
        // The mean square of y² is at most three times the square of that of y, for Gaussian errors.
        let spread = if self.cleaned.is_some() { 3f64.sqrt() } else { 1.0 };
        let error = left(self.slope * from.error + self.mean) * spread;
        let error = error.hypot(self.noise).min(worst);
        Account { values: self.values, error, worst, ..from }.but(Standing::REFRESHED)
    }

    /// Refuses arguments whose error the steps may not take: one that a table does not clean, or that turns a number into another integer.
    pub(super) fn require(&self, from: Account) -> Result<()> {
        match (self.cleaned, self.gives) {
            (Some(_), _) if self.off(from.worst) <= MOST_OFF => Ok(()),
            (Some(_), _) => {
                let most = (MOST_OFF - self.inside) / self.slope;
                let wanted =
                    format!("integers with an error of at most 2^{:.1} of q_0", most.log2());
                let got = format!("2^{:.1}", from.worst.log2());
                let remedy = "look up sooner: fewer sums and smaller multiples between two tables";
                Err(Error::too_noisy("look up", wanted, got, remedy))
            }
            (None, Gives::Packed(bits, _)) => {
                let away = self.account(from).worst * f64::from(bits).exp2();
                if away < 0.5 {
                    return Ok(());
                }
                let wanted = "numbers less than 0.5 away from integers, their error included";
                let remedy = "pack sooner, after fewer products, or state a smaller distance";
                Err(Error::too_noisy("pack", wanted, format!("up to {away:.2}"), remedy))
            }
            _ => Ok(()),
        }
    }

    /// Refuses numbers that no recorder writes.
    pub(super) fn validate(&self) -> Result<()> {
        let positive = [self.values, self.slope, self.noise, self.cleaned.unwrap_or(1.0)];
        let fine = positive.iter().all(|x| x.is_finite() && *x > 0.0)
            && [self.inside, self.mean].iter().all(|x| x.is_finite() && *x >= 0.0);
        match fine {
            true => Ok(()),
            false => Err(unlike_recorded("a contract of a table without a meaning")),
        }
    }
}
