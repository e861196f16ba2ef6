//! The account of a CKKS ciphertext: bounds on its values and on their error.
//!
//! An account follows from public facts alone: the noise of encryption, declared bounds on values, and the instructions of the programs
//! that ran since. A program computes the accounts of its results (`program/rlwe/account.rs`); no machine does.

use crate::math::complex::DOUBLES;
use crate::words::number;
use crate::{Error, Result};

/// Fewest bits of a value that a claim leaves before it is worth a warning.
const LEAST_BITS: f64 = 6.0;

/// Standard deviations that a Gaussian error of a coefficient stays within, but for 2^-144 of all: none of 2^16 with probability 2^-128.
pub(crate) const TAIL: f64 = 14.0;
/// The same for an error of a slot that was multiplied by a secret or by the noise of a key. Its tail is that of a product of two Gaussians:
/// P(|xy| > t) ≈ √(πt)·e^(-2t).
pub(crate) const PRODUCT_TAIL: f64 = 52.0;

/// Standard deviations of a slot that noise of Gaussian coefficients stays within: a complex Gaussian exceeds t of them with
/// probability e^(-t²), here 2^-66.
const BOUND: f64 = 6.8;
/// The same for a polynomial times the secret or a key's noise. The factor is fixed, and in some slots it is several times as large as
/// in others, so that the tail is that of a product of two Gaussians: P(|xy| > t) = 2t·K₁(2t) ≈ √(πt)·e^(-2t), here 2^-50. For 2^16
/// slots after 16 instructions that is 2^-30 together, the statistical distance that sharing claims.
const PRODUCT_BOUND: f64 = 18.5;
/// The same for a key's noise that is a product itself, as in keys of products that several parties made: the tail is that of a product
/// of three Gaussians, here 2^-50.
const KEY_PRODUCT_BOUND: f64 = 46.0;

/// Upper bound on an error of this standard deviation that depends on no product: fresh noise, and the rounding of values.
pub(crate) fn fresh_bound(deviation: f64) -> f64 {
    BOUND * deviation
}

/// Upper bound on an error of this standard deviation that was multiplied by a secret or by the noise of a key: the rounding of a
/// ciphertext, a key switch, an encryption with a public key.
pub(crate) fn product_bound(deviation: f64) -> f64 {
    PRODUCT_BOUND * deviation
}

/// Upper bound on an error of this standard deviation that was multiplied by the noise of a key of products that parties made together.
pub(crate) fn key_product_bound(deviation: f64) -> f64 {
    KEY_PRODUCT_BOUND * deviation
}

/// The reasons for which nobody may rely on an account, as a set. A result has those of all its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Standing(u8);

/// Each reason, as it follows "an account …" in a message.
const REASONS: [(Standing, &str); 8] = [
    (Standing::CLAIMED, "that a file states"),
    (Standing::FOREIGN, "computed with keys from a file"),
    (
        Standing::REFRESHED,
        "behind a bootstrap or a lookup, which holds only for values in its range",
    ),
    (Standing::POLYNOMIAL, "behind a polynomial, which holds only for values in its domain"),
    (Standing::STATED, "with a bound on values that `within` stated"),
    (Standing::EXCEEDED, "of values beyond the bound that they were encrypted with"),
    (Standing::WRAPPED, "of values that may have been too large for their level"),
    (Standing::INHERITED, "whose error follows from such a bound on values"),
];

impl Standing {
    /// No reason: it was computed here, of values that were compared with their bound when they were encrypted.
    pub const BOUNDED: Standing = Standing(0);
    /// A file states it.
    pub const CLAIMED: Standing = Standing(1);
    /// Keys from a file computed it, and a file cannot prove who made them.
    pub const FOREIGN: Standing = Standing(1 << 1);
    /// A bootstrap or a lookup holds for values in its range alone.
    pub const REFRESHED: Standing = Standing(1 << 2);
    /// A polynomial is bounded for values in its domain alone.
    pub const POLYNOMIAL: Standing = Standing(1 << 3);
    /// Whoever computes stated a smaller bound on values.
    pub const STATED: Standing = Standing(1 << 4);
    /// Values exceeded the bound of their encryption.
    pub const EXCEEDED: Standing = Standing(1 << 5);
    /// The level may have no room for the values, which may have wrapped.
    pub const WRAPPED: Standing = Standing(1 << 6);
    /// The bound on the error follows from a bound on values that may be wrong.
    pub const INHERITED: Standing = Standing(1 << 7);

    /// Bounds on values that may be wrong.
    const VALUES: Standing = Standing(Self::STATED.0 | Self::EXCEEDED.0 | Self::WRAPPED.0);

    /// The reasons of both.
    pub const fn with(self, other: Standing) -> Standing {
        Standing(self.0 | other.0)
    }

    /// The reasons that the other does not have.
    pub const fn without(self, other: Standing) -> Standing {
        Standing(self.0 & !other.0)
    }

    /// Whether it has one of these reasons.
    pub const fn has(self, any: Standing) -> bool {
        self.0 & any.0 != 0
    }

    /// The reasons in words, as they follow "an account …".
    pub fn reasons(self) -> String {
        let held = REASONS.iter().filter(|(one, _)| self.has(*one)).map(|(_, words)| *words);
        held.collect::<Vec<&str>>().join(", and ")
    }
}

impl std::fmt::Debug for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Standing::BOUNDED => f.write_str("bounded"),
            _ => f.write_str(&self.reasons()),
        }
    }
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
/// account that is [`Standing::BOUNDED`] is a ground to share a decryption on.
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
        standing: Standing::CLAIMED,
        loss: None,
        parties: 1,
    };

    /// The same account with a further reason not to rely on it.
    pub(crate) fn but(self, reason: Standing) -> Account {
        Account { standing: self.standing.with(reason), ..self }
    }

    /// The account that the owner of the key vouches for, with the reasons that this does not speak of. Without a bound the owner says that
    /// the keys of the computation are the owner's own; with one on values, that they are within it; with both, all but the keys.
    ///
    /// # Errors
    /// `BadInput` for a bound on values outside of 2^-60 ..= 2^60 or on errors outside of 2^-200 ..= 2^60.
    pub(crate) fn vouched(self, values: Option<f64>, worst: Option<f64>) -> Result<Account> {
        let (v, w) = (values.unwrap_or(self.values), worst.unwrap_or(self.worst));
        let fits = |least: i32, x| (f64::from(least).exp2()..=60f64.exp2()).contains(&x);
        if !(fits(-60, v) && fits(-200, w)) {
            let wanted = "values within 2^-60 to 2^60, and an error within 2^-200 to 2^60";
            let remedy = "compute both from the inputs and the computation, as `account` does";
            return Err(Error::bad_input(
                "vouch",
                wanted,
                format!("{} and {}", number(v), number(w)),
                remedy,
            ));
        }
        let standing = match (values, worst) {
            (None, None) => self.standing.without(Standing::FOREIGN),
            (Some(_), None) => self.standing.without(Standing::VALUES),
            (None, Some(_)) => self.standing,
            (Some(_), Some(_)) => match self.standing.has(Standing::FOREIGN) {
                true => Standing::FOREIGN,
                false => Standing::BOUNDED,
            },
        };
        let made = Account { values: v, worst: w, error: self.error.min(w), standing, ..self };
        // The error was that of values within the bound of their encryption: larger ones are encoded less precisely.
        let encoded = DOUBLES * v;
        match worst.is_none() && self.standing.has(Standing::EXCEEDED) {
            true => Ok(made.blurred((encoded, TAIL * encoded))),
            false => Ok(made),
        }
    }

    /// Bounds of this standing.
    pub(crate) fn new(values: f64, error: f64, worst: f64, standing: Standing) -> Account {
        Account { values, error, worst, standing, loss: None, parties: 1 }
    }

    /// A public number or vector of numbers, and the errors of its encoding.
    pub(crate) fn public(values: f64, error: f64, worst: f64) -> Account {
        Account::new(values, error, worst, Standing::BOUNDED)
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
        let made = Account {
            values: a.values * b.values,
            error: a.values * b.error + (b.values + b.worst) * a.error,
            worst: a.values * b.worst + (b.values + b.worst) * a.worst,
            ..self.with(&other)
        };
        made.inheriting()
    }

    /// An account whose bound on the error was computed from the bounds on values that its standing tells of.
    pub(crate) fn inheriting(self) -> Account {
        match self.standing.has(Standing::VALUES) {
            true => self.but(Standing::INHERITED),
            false => self,
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
            (self.standing.with(other.standing), self.parties.max(other.parties));
        Account { standing, loss, parties, ..*self }
    }
}
