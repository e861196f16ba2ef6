//! The bridge between CKKS and TFHE: packed integers become ciphertexts of TFHE, and ciphertexts of TFHE become packed integers.
//!
//! An integer of b bits is the coefficient m·q_0/2^b of a polynomial of degree N under the secret s. S is the big key of a TFHE set, of dimension
//! d = kN', read as a polynomial of degree n, the next power of two, and r = N/n: coefficient i·r + j of a ciphertext under S(X^r) is coefficient i of one
//! of r ciphertexts under S. `unpack.rs` and `pack.rs` have the steps, the errors and the security of the two directions.
//!
//! The message stays m/2^b on the torus: [`Encoding::cyclic`](crate::cipher::Encoding::cyclic) of 2^b values. An integer below 2^(b−1) leaves its
//! highest bit 0, the padding bit of [`Encoding::padded`](crate::cipher::Encoding::padded), so that tables of TFHE apply.

use crate::cipher::KeyId;
use crate::ckks::{Chain, Context};
use crate::params::{CkksParams, Kind, Order, TfheParams};
use crate::{Error, Result};
use merge::Merging;
use std::fmt;
use std::sync::Arc;
use switch::RingSwitch;
use zeroize::Zeroizing;

mod file;
mod merge;
mod pack;
mod switch;
mod unpack;

/// Turns packed integers under one key of CKKS into ciphertexts under the big key of a TFHE set. It is public: a server has it.
pub struct BridgeKey {
    from: (&'static CkksParams, KeyId),
    params: Arc<TfheParams>,
    to: KeyId,
    /// From s to S(X^r), modulo q'·P.
    switch: RingSwitch,
}

/// Turns ciphertexts under the big key of a TFHE set into packed integers under one key of CKKS. It is public: a server has it.
pub struct PackingKey {
    from: (Arc<TfheParams>, KeyId),
    chain: Chain,
    to: KeyId,
    /// Under S, modulo q'.
    merging: Merging,
    /// From S(X^r) to s, modulo q_0·P.
    switch: RingSwitch,
}

impl fmt::Debug for BridgeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((set, from), to) = (self.from, self.to);
        write!(f, "BridgeKey({}, key {from}, to {}, key {to})", set.name, self.params.name)
    }
}

impl fmt::Debug for PackingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((set, from), to) = (&self.from, self.to);
        write!(f, "PackingKey({}, key {from}, to {}, key {to})", set.name, self.params().name)
    }
}

/// Refuses a secret key of CKKS of another set than the context's, and a TFHE set that is weaker than a standard set of CKKS should be: one
/// of the two keys protects the other.
fn require_sets(
    op: &'static str,
    context: &Context,
    ckks: &'static str,
    tfhe: &TfheParams,
) -> Result<()> {
    context.check_set(op, ckks)?;
    tfhe.require_secure(context.params().kind != Kind::Standard)
}

/// q_0 of a set of CKKS that a bridge joins with a set of TFHE.
///
/// # Errors
/// `WrongParams` for sets that no bridge joins.
fn base(op: &'static str, chain: &Chain, params: &TfheParams) -> Result<u64> {
    let set = chain.params();
    chain.check_integers(op, 1)?;
    check_params(op, params, set.degree())?;
    let [word] = chain.words_of(0, 0)[..] else {
        let wanted = "a set whose level 0 has one word";
        return Err(Error::wrong_params(op, wanted, set.name, "use `ckks_table_4`"));
    };
    Ok(chain.primes()[word])
}

/// Refuses sets whose ciphertexts are not those of one polynomial under the big key.
fn check_params(op: &'static str, params: &TfheParams, degree: usize) -> Result<()> {
    let remedy = "use another set of TFHE, such as `tfhe_2_2`";
    let refused = |wanted: String, got: String| Err(Error::wrong_params(op, wanted, got, remedy));
    if params.slots > 1 {
        return refused("a set without a common mask".into(), format!("`{}`", params.name));
    }
    if params.order != Order::KsPbs {
        let wanted = "a set whose ciphertexts rest under the big key";
        return refused(wanted.into(), format!("`{}`", params.name));
    }
    if params.big_dimension() > degree {
        let got = format!("{} in `{}`", params.big_dimension(), params.name);
        return refused(format!("a dimension of at most {degree}"), got);
    }
    Ok(())
}

/// r: coefficients of S(X^r) between two of S.
fn stride(params: &TfheParams, degree: usize) -> usize {
    degree / params.big_dimension().next_power_of_two()
}

/// S(X^r) of the bits of S.
fn spread(bits: &[u64], degree: usize) -> Zeroizing<Vec<f64>> {
    let stride = degree / bits.len().next_power_of_two();
    let mut secret = Zeroizing::new(vec![0.0; degree]);
    secret.iter_mut().step_by(stride).zip(bits).for_each(|(x, bit)| *x = *bit as f64);
    secret
}
