//! The account of the results of a table: no account can follow its steps, because they are on coefficients and on slots in turn.

use crate::cipher::{Account, Standing, TAIL};
use crate::program::graph::unlike_recorded;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most by which a bit may be off before it is cleaned: 3x² + 2x³ leaves 2^-6 of it.
const MOST_OFF: f64 = 1.0 / 16.0;

/// How the error of a table's results follows from the error of the integers looked up. Errors of integers are in units of q_0.
///
/// An error e puts each bit of a result off by at most `slope`·|e| + `inside`. The cleaning x ↦ 3x² − 2x³ leaves 3y² + 2y³ of y.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// Bits of the results.
    pub(crate) bits: u32,
    /// The steepest slope of a bit as a function of the integer divided by 2^bits.
    pub(crate) slope: f64,
    /// Most by which the steps before the cleaning put a bit off.
    pub(crate) inside: f64,
    /// Error of a coefficient of the result behind the cleaning, standard deviation.
    pub(crate) noise: f64,
}

impl Contract {
    /// By how much a bit is off at most before it is cleaned.
    fn off(&self, error: f64) -> f64 {
        self.slope * error + self.inside
    }

    /// The account of the results.
    pub(super) fn account(&self, from: Account) -> Account {
        let unit = 1.0 - (-f64::from(self.bits)).exp2();
        let left = |y: f64| (3.0 + 2.0 * y) * y * y * unit;
        let worst = left(self.off(from.worst)) + TAIL * self.noise;
        // The mean square of y² is at most three times the square of that of y, for Gaussian errors.
        let error = (3f64.sqrt() * left(self.off(from.error))).hypot(self.noise).min(worst);
        Account { values: 1.0, error, worst, ..from }.but(Standing::REFRESHED)
    }

    /// Refuses integers whose error a table may not clean.
    pub(super) fn require(&self, from: Account) -> Result<()> {
        if self.off(from.worst) <= MOST_OFF {
            return Ok(());
        }
        let most = (MOST_OFF - self.inside) / self.slope;
        let wanted = format!("integers with an error of at most 2^{:.1} of q_0", most.log2());
        let got = format!("2^{:.1}", from.worst.log2());
        let remedy = "look up sooner: fewer sums and smaller multiples between two tables";
        Err(Error::too_noisy("look up", wanted, got, remedy))
    }

    /// Refuses numbers that no recorder writes.
    pub(super) fn validate(&self) -> Result<()> {
        let numbers = [self.slope, self.inside, self.noise];
        match numbers.iter().all(|x| x.is_finite() && *x > 0.0) {
            true => Ok(()),
            false => Err(unlike_recorded("a contract of a table without a meaning")),
        }
    }
}
