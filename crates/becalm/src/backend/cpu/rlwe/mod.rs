//! CKKS on this processor: [`session`] runs the instructions of programs, the other files are their arithmetic.
//!
//! Polynomials are values at the roots of unity in the order of this processor's transforms, a vector of doubles for each prime.

mod arithmetic;
mod budget;
mod instructions;
mod key_switch;
mod linear;
mod plain;
mod polynomial;
mod residues;
mod session;
mod sum;
mod work;

#[cfg(feature = "cuda")]
pub(in crate::backend) use arithmetic::down;
pub use budget::MemoryBudget;
#[cfg(feature = "cuda")]
pub(in crate::backend) use residues::permute;

use crate::backend::{Ckks, CkksSetup, Info, Session};
use crate::ckks::Context;
use crate::math::threads::Threads;
use std::sync::Arc;

/// A session for keys, on the threads of `pool`.
pub(super) fn open(
    pool: &Arc<Threads>,
    info: Info,
    context: Context,
    on: CkksSetup,
) -> Box<dyn Session<Ckks>> {
    Box::new(session::RlweSession::new(pool, info, &Arc::new(context), on))
}

#[cfg(test)]
mod tests;
