//! Programs, which a backend runs: a few instructions over registers, held as data.
//!
//! A register is assigned once and has a type fixed when the program is built. Both families of instructions, [`Op`] for
//! TFHE and [`rlwe::CkksOp`] for CKKS, share one [`Graph`].

pub mod circuit;
mod file;
pub mod graph;
pub mod isa;
mod lower;
mod lwe;
pub mod rlwe;

pub use graph::{Graph, Operation, Wave, WaveKind};
pub use lower::{Layout, Lowered};
pub use lwe::{Cost, Gate, Need, Op, Program, RegInfo, RegType, TableRef, Walk};

use crate::cipher::{Ciphertext, Rlwe};
use rlwe::{CkksProgram, CkksWalk};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// A family of instructions, as machines see it: the program type, and the types that registers take and give.
pub trait Family: Debug + Clone + Copy + Send + Sync + 'static {
    /// A recorded program.
    type Program: Debug + Send + Sync;
    /// The facts of a program that are known before it runs.
    type Walk: Debug + Send + Sync;
    /// The type that a lane of a register takes.
    type Argument: Debug + Send + Sync;
    /// The type that it gives: words of u64 for TFHE, which are ciphertexts by the walk; ciphertexts for CKKS.
    type Word: Send + Sync;
}

/// The instructions of TFHE: [`Op`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tfhe;

/// The instructions of CKKS: [`rlwe::CkksOp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ckks;

impl Family for Tfhe {
    type Program = Program;
    type Walk = Walk;
    type Argument = Ciphertext;
    type Word = u64;
}

impl Family for Ckks {
    type Program = CkksProgram;
    type Walk = CkksWalk;
    type Argument = Rlwe;
    type Word = Rlwe;
}

/// The name of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reg(pub u32);
