//! Bounds of a CKKS ciphertext that somebody states: whoever computes (`within`), or the owner of the key, who vouches.

use super::{Rlwe, Standing};
use crate::words::number;
use crate::{Error, Result};

impl Rlwe {
    /// The same ciphertext with another bound on the absolute values of its slots, which whoever computes knows: a mean of numbers of at
    /// most 1, for example. Claims of errors depend on it. Sharing does not rely on it, unless the owner of the key
    /// [vouches](Rlwe::vouched) for it.
    ///
    /// # Errors
    /// `BadInput` for a bound that is not in 2^-60 ..= 2^60.
    pub fn within(self, bound: f64) -> Result<Rlwe> {
        self.bounded("within", bound)
    }

    /// [`Rlwe::within`] for the operation `op`, which errors name.
    pub(crate) fn bounded(mut self, op: &'static str, bound: f64) -> Result<Rlwe> {
        let most = 60f64.exp2();
        if !(most.recip()..=most).contains(&bound) {
            let (wanted, remedy) = ("a bound of 2^-60 to 2^60", "state the largest absolute value");
            return Err(Error::bad_input(op, wanted, number(bound), remedy));
        }
        if bound < self.account.values {
            self.account = self.account.but(Standing::STATED);
        }
        self.account.values = bound;
        Ok(self)
    }

    /// The same ciphertext with bounds that the owner of the key vouches for: on the absolute value of every slot, and on its error.
    ///
    /// Of a ciphertext from a file the owner must know the scale as well: [`Rlwe::vouched_like`] compares it.
    ///
    /// The owner computes the bounds: from what was encrypted and from the computation, or by running the same computation on own
    /// encryptions of zeros and taking the [`Rlwe::account`] of the result. No statement of the server may enter them.
    ///
    /// A bound that is left out stays as it is. Without any the owner says that the evaluation keys and the public key of the computation
    /// are the owner's own, and nothing else. Reasons not to rely on the account that a call does not speak of remain.
    ///
    /// # Errors
    /// `BadInput` for a bound on values outside of 2^-60 ..= 2^60 or on errors outside of 2^-200 ..= 2^60.
    pub fn vouched(
        mut self,
        values: impl Into<Option<f64>>,
        worst: impl Into<Option<f64>>,
    ) -> Result<Rlwe> {
        self.account = self.account.vouched(values.into(), worst.into())?;
        Ok(self)
    }

    /// The same ciphertext with the account of `dry`, the result of the same computation on the owner's encryptions of zeros.
    ///
    /// # Errors
    /// As [`Rlwe::require_like`] and [`Rlwe::vouched`]; `BadInput` where nobody can rely on the account of `dry`: behind a bootstrap
    /// or a polynomial, for example, until the owner vouches for it.
    pub fn vouched_like(mut self, dry: &Rlwe) -> Result<Rlwe> {
        self.require_like(dry)?;
        if dry.account.standing != Standing::BOUNDED {
            let wanted = "a result of the same computation whose own account is vouched for";
            let got = format!("one {}", dry.account.standing.reasons());
            let remedy = "vouch for both of its bounds first, with `vouched`";
            return Err(Error::bad_input("vouch", wanted, got, remedy));
        }
        self.account = dry.account;
        Ok(self)
    }

    /// Refuses a ciphertext that is not the result of a computation of which the owner has another result. Level, scale and slots of a
    /// file may be lies, and with a wrong scale the noise of sharing is too small.
    ///
    /// # Errors
    /// `BadInput` if set, key, level, scale or slots differ.
    pub fn require_like(&self, dry: &Rlwe) -> Result<()> {
        let facts = |x: &Rlwe| (x.params, x.key, x.level, x.scale.to_bits(), x.slots);
        if facts(self) == facts(dry) {
            return Ok(());
        }
        let told = |x: &Rlwe| {
            let Rlwe { params, key, level, slots, .. } = x;
            let scale = x.scale.log2();
            format!("one of `{params}`, key {key}, level {level}, scale 2^{scale}, {slots} slots")
        };
        let (wanted, got) = (told(dry), told(self));
        let remedy = "do not share it: it is not the result of the same computation";
        Err(Error::bad_input("vouch", wanted, got, remedy))
    }
}
