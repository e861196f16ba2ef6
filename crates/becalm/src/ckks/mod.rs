//! The CKKS scheme: approximate arithmetic on vectors of complex numbers.
//!
//! A [`Chain`] is the moduli and scales of a parameter set, and plans: levels, scales, sizes of keys. A [`Context`] adds
//! transforms and tables. It encodes, encrypts, makes keys, and does
//! what needs no key; an [`Evaluator`] adds the keys.

mod chain;
mod context;
mod encode;
mod encrypt;
mod evaluate;
mod file;
mod inspect;
mod key_switch;
mod keygen;
mod linear;
mod matrix;
mod needs;
mod plain;
mod polynomial;
mod share;
mod stage;
mod sum;
mod wire;

pub use chain::Chain;
pub(crate) use chain::SAME_SCALE;
pub use context::Context;
pub use evaluate::Evaluator;
pub use inspect::{Description, inspect};
pub use linear::LinearMap;
pub use matrix::{Matrix, Steps};
pub use needs::{Needs, power_of_rotation};
pub use plain::Plain;
pub use polynomial::Chebyshev;
pub use share::STATISTICAL_BITS;
pub use sum::sum_rotations;

pub use crate::math::rns::Work;

#[cfg(test)]
mod tests;
