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

use crate::cipher::Rlwe;
use rlwe::{CkksOp, CkksProgram, CkksWalk};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::ops::Deref;

/// A family of instructions, as machines see it: the programs that they load, and the words in their registers.
pub trait Family: Debug + Clone + Copy + Send + Sync + 'static {
    /// An instruction.
    type Op: Operation;
    /// A recorded program.
    type Program: Deref<Target = Graph<Self::Op>> + Debug + Send + Sync;
    /// The facts of a program that are known before it runs.
    type Walk: Debug + Clone + Send + Sync;
    /// The unit that is written to and read from a register: a u64 of TFHE, whose words are ciphertexts by the walk; a ciphertext of CKKS.
    type Word: Debug + Clone + Send + Sync;

    /// Words in one lane of a register that the program has.
    fn width(program: &Self::Program, reg: Reg) -> usize;
    /// The instructions in waves.
    fn waves(walk: &Self::Walk) -> &[Wave];
    /// For each wave, the registers that nobody reads after it.
    fn dead_after(walk: &Self::Walk) -> &[Vec<Reg>];
    /// The same facts with the instructions in other waves.
    fn with_waves(walk: &Self::Walk, waves: Vec<Wave>) -> Self::Walk;
}

/// The instructions of TFHE: [`Op`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tfhe;

/// The instructions of CKKS: [`rlwe::CkksOp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ckks;

impl Family for Tfhe {
    type Op = Op;
    type Program = Program;
    type Walk = Walk;
    type Word = u64;

    fn width(program: &Program, reg: Reg) -> usize {
        program.width(reg)
    }

    fn waves(walk: &Walk) -> &[Wave] {
        &walk.waves
    }

    fn dead_after(walk: &Walk) -> &[Vec<Reg>] {
        &walk.dead_after
    }

    fn with_waves(walk: &Walk, waves: Vec<Wave>) -> Walk {
        Walk { waves, ..walk.clone() }
    }
}

impl Family for Ckks {
    type Op = CkksOp;
    type Program = CkksProgram;
    type Walk = CkksWalk;
    type Word = Rlwe;

    fn width(_program: &CkksProgram, _reg: Reg) -> usize {
        1
    }

    fn waves(walk: &CkksWalk) -> &[Wave] {
        &walk.waves
    }

    fn dead_after(walk: &CkksWalk) -> &[Vec<Reg>] {
        &walk.dead_after
    }

    fn with_waves(walk: &CkksWalk, waves: Vec<Wave>) -> CkksWalk {
        CkksWalk { waves, ..walk.clone() }
    }
}

/// The name of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reg(pub u32);
