//! Programs, which a backend runs: a few instructions over registers, held as data.
//!
//! A register is assigned once and has a type fixed when the program is built. Both families of instructions, [`Op`] for
//! TFHE and [`rlwe::CkksOp`] for CKKS, share one [`Graph`].

pub mod circuit;
mod constants;
mod file;
pub mod graph;
pub mod isa;
mod lower;
mod lwe;
mod pace;
pub mod rlwe;

pub use constants::Constants;
pub use graph::{Graph, Operation, Walk, Wave, WaveKind};
pub use lower::{Layout, Lowered};
pub use lwe::{Cost, Followed, Gate, Need, Op, Program, RegInfo, RegType, TableRef};
pub use pace::Pace;

use serde::{Deserialize, Serialize};

/// The name of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reg(pub u32);
