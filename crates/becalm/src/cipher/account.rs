//! The account of a CKKS ciphertext: bounds on its values and on their error.
//!
//! An account follows from public facts alone: the noise of encryption, declared bounds on values, and the instructions of the programs
//! that ran since. A program computes the accounts of its results (`program/rlwe/account.rs`); no machine does.

use crate::{Error, Result};

/// Fewest bits of a value that a claim leaves before it is worth a warning.
const LEAST_BITS: f64 = 6.0;

/// Standard deviations that a Gaussian error of a coefficient stays within, but for 2^-144 of all: none of 2^16 with probability 2^-128.
pub(crate) const TAIL: f64 = 14.0;
/// The same for an error of a slot that was multiplied by a secret or by the noise of a key. Its tail is that of a product of two Gaussians:
/// P(|xy| > t) ≈ √(πt)·e^(-2t).
pub(crate) const PRODUCT_TAIL: f64 = 52.0;

/// How an account came about, and thus who may rely on it. A result has the least of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// A file, a bootstrap or a lookup states it.
    Claimed,
    /// The level may have no room for its values, which may have wrapped.
    Wrapped,
    /// It was computed here, but with keys from a file, which cannot prove who made them.
    Foreign,
    /// It was computed here, from encryption on, but a polynomial is bounded for values in its domain alone.
    Polynomial,
    /// It was computed here, but with a smaller bound on values that whoever computes stated.
    Stated,
    /// It was computed here, of values beyond the bound of their encryption.
    Exceeded,
    /// It was computed here, of values that were compared with their bound when they were encrypted.
    Bounded,
}

/// The instruction of a program that multiplied the claimed error most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    /// Its name.
    pub op: &'static str,
    /// Its number in the program that ran, from 0.
    pub at: usize,
    /// log2 of the claimed error behind it over the largest one before.
    pub bits: f64,
}

/// Bounds on the slots of a ciphertext: on the absolute values, and on the absolute error of each.
///
/// They hold for every message within the bound on values. A ciphertext of values beyond that bound may have a larger error. Only an
/// account that is [`Standing::Bounded`] is a ground to share a decryption on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Account {
    /// Upper bound on the absolute value of a slot, without its error.
    pub values: f64,
    /// Upper bound on the root of the mean square error of the slots, as the noise formulas have it.
    pub error: f64,
    /// Upper bound on the absolute error of a slot, but for a probability of about 2^-50 a slot.
    pub worst: f64,
    /// Who may rely on it.
    pub standing: Standing,
    /// The instruction that lost most precision so far, if any lost some.
    pub loss: Option<Loss>,
    /// How many parties made the key together; 1 for a key that has an owner. The key is the sum of their secrets, and each adds noise to
    /// evaluation keys.
    pub parties: usize,
}

impl Account {
    /// An account that knows nothing.
    pub const UNKNOWN: Account = Account {
        values: f64::INFINITY,
        error: f64::INFINITY,
        worst: f64::INFINITY,
        standing: Standing::Claimed,
        loss: None,
        parties: 1,
    };

    /// That of a ciphertext that was computed with keys from a file.
    pub(crate) fn foreign(self) -> Account {
        Account { standing: self.standing.min(Standing::Foreign), ..self }
    }

    /// Bounds of this standing.
    pub(crate) fn new(values: f64, error: f64, worst: f64, standing: Standing) -> Account {
        Account { values, error, worst, standing, loss: None, parties: 1 }
    }

    /// A public number or vector of numbers, and the errors of its encoding.
    pub(crate) fn public(values: f64, error: f64, worst: f64) -> Account {
        Account::new(values, error, worst, Standing::Bounded)
    }

    /// Bits that the claim leaves of a value as large as the bound, or of 1 where the bound is smaller.
    pub fn bits(&self) -> f64 {
        (self.values.max(1.0) / self.error).log2()
    }

    /// Whether the claim leaves so few bits of a value that a result may be noise.
    pub fn is_doubtful(&self) -> bool {
        self.bits().is_nan() || self.bits() < LEAST_BITS
    }

    /// Refuses an account that [leaves too few bits](Account::is_doubtful).
    ///
    /// # Errors
    /// `TooNoisy` with the bits that are left and the instruction that lost most of them.
    pub fn require_precise(&self, op: &'static str) -> Result<()> {
        if !self.is_doubtful() {
            return Ok(());
        }
        let wanted = format!("a result with {LEAST_BITS} bits or more by its claim");
        let remedy = "lose less precision before, or tell a smaller bound on values: a claim may be far above the error";
        Err(Error::too_noisy(op, wanted, self.doubt(), remedy))
    }

    /// The precision that is left, and the instruction that lost most, in words.
    pub fn doubt(&self) -> String {
        let left = self.left();
        match self.loss {
            Some(Loss { op, at, bits }) if bits.is_finite() => {
                format!("{left}; the most, {bits:.1} bits, were lost in instruction {at}, {op}")
            }
            Some(Loss { op, at, .. }) => format!("{left}; all were lost in instruction {at}, {op}"),
            None => left,
        }
    }

    /// The precision that is left, in words.
    pub fn left(&self) -> String {
        match self.bits() {
            bits if bits >= 0.0 => format!("{bits:.1} bits"),
            _ => "no bits".to_string(),
        }
    }

    /// Behind an instruction, with its loss if that is the largest so far; `before` is the largest claimed error of what it read.
    pub(crate) fn behind(self, op: &'static str, at: usize, before: f64) -> Account {
        let bits = (self.error / before).log2();
        let loss = (bits > self.loss.map_or(0.0, |l| l.bits)).then_some(Loss { op, at, bits });
        Account { loss: loss.or(self.loss), ..self }
    }

    /// The sum or the difference, whatever the terms have in common.
    pub(crate) fn plus(self, other: Account) -> Account {
        Account {
            values: self.values + other.values,
            error: self.error + other.error,
            worst: self.worst + other.worst,
            ..self.with(&other)
        }
    }

    /// The product.
    pub(crate) fn times(self, other: Account) -> Account {
        let (a, b) = (self, other);
        Account {
            values: a.values * b.values,
            error: a.values * b.error + (b.values + b.worst) * a.error,
            worst: a.values * b.worst + (b.values + b.worst) * a.worst,
            ..self.with(&other)
        }
    }

    /// Every value times `by`, exactly.
    pub(crate) fn scaled(self, by: f64) -> Account {
        let Account { values, error, worst, .. } = self;
        Account { values: by * values, error: by * error, worst: by * worst, ..self }
    }

    /// With an error that is independent: its standard deviation and its bound.
    pub(crate) fn blurred(self, (error, worst): (f64, f64)) -> Account {
        Account { error: self.error.hypot(error), worst: self.worst + worst, ..self }
    }

    /// The standing, the loss and the key of both.
    fn with(&self, other: &Account) -> Account {
        let loss = match (self.loss, other.loss) {
            (Some(a), Some(b)) => Some(if b.bits > a.bits { b } else { a }),
            (a, b) => a.or(b),
        };
        let (standing, parties) =
            (self.standing.min(other.standing), self.parties.max(other.parties));
        Account { standing, loss, parties, ..*self }
    }
}
