//! The CKKS scheme: approximate arithmetic on vectors of complex numbers.
//!
//! A [`Chain`] is the moduli and scales of a parameter set, and plans: levels, scales, sizes of keys. A [`Context`] adds
//! transforms and tables: it encodes, encrypts and makes keys. Computation with ciphertexts is left to a machine:
//! [`Evaluator`](crate::backend::Evaluator).

mod chain;
mod chebyshev;
mod collective;
mod context;
pub(crate) mod encode;
mod encrypt;
mod file;
mod flood;
mod integers;
mod keygen;
mod matrix;
mod needs;
mod stage;
mod threshold;
mod wire;

pub use chain::Chain;
pub(crate) use chain::same_scale;
pub(crate) use chebyshev::CHEBYSHEV_LEAF;
pub use chebyshev::Chebyshev;
pub use collective::{Agreement, Party, PartyMessage};
pub use context::Context;
pub(crate) use encode::Short;
pub use flood::STATISTICAL_BITS;
pub(crate) use matrix::Form;
pub use matrix::{Matrix, Steps};
pub use needs::{Needs, power_of_rotation, sum_rotations, whole_bytes};
pub use threshold::{KeyShare, PartialDecryption};

pub use crate::math::rns::Work;
