//! Programs of TFHE: a few instructions over registers of LWE and GLWE ciphertexts, held as data.
//!
//! A register holds one ciphertext for each *lane* of a batch. Cost, needed keys, ranges and noise come from walking the
//! program before it runs ([`Program::follow`], [`Program::cost`]); it does not depend on the machine.

mod build;
mod check;
mod clear;
mod cost;
mod file;
mod gates;
mod noise;
mod slots;

pub use cost::Cost;
pub use gates::Gate;
pub use noise::Followed;

use super::Reg;
use super::graph::{Graph, Operation, WaveKind, names};
use crate::cipher::{Encoding, KeyRole, RowSums};
use crate::params::TfheParams;
use crate::tfhe::{Output, Table};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The type of a register, for each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RegType {
    /// An LWE ciphertext under one of the keys; behind a common mask it holds a message for each slot of the set.
    Lwe(KeyRole),
    /// A GLWE ciphertext: an encrypted lookup table.
    Glwe,
}

/// The facts of a register that are known before anything runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegInfo {
    /// Its type.
    pub ty: RegType,
    /// Where its values lie.
    pub encoding: Encoding,
    /// Least and greatest value.
    pub range: (i64, i64),
}

/// Where a bootstrap's table comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableRef {
    /// One of the program's own tables, for every slot.
    Clear(u32),
    /// A register that holds an encrypted one, and the outputs to extract.
    Encrypted(Reg, Vec<Output>),
    /// One of the program's own tables for each slot of a common-mask set.
    Slots(Vec<u32>),
}

/// An instruction. Files know them by their order: new ones come last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Op {
    /// `dst = Σ coefficient·src + constant` on LWE ciphertexts under one key; the constant is a torus element.
    MulAdd {
        /// Result.
        dst: Reg,
        /// Coefficients and sources; each source once.
        terms: Vec<(i64, Reg)>,
        /// Added to every body.
        constant: u64,
    },
    /// From the big key to the small one.
    KeySwitch {
        /// Result, under the small key.
        dst: Reg,
        /// Source, under the big key.
        src: Reg,
    },
    /// Modulus switch, blind rotation of a table, and one extraction for each output of the table.
    Bootstrap {
        /// Results, under the big key, one for each output of the table.
        dst: Vec<Reg>,
        /// Source, under the small key.
        src: Reg,
        /// The table that is rotated.
        table: TableRef,
    },
    /// `dst = src + constants`, a torus element for each slot.
    AddSlots {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
        /// Added to the bodies, in the order of the slots.
        constants: Vec<u64>,
    },
    /// One slot of a common-mask ciphertext as a plain one: its mask and one of its bodies. Free.
    Extract {
        /// Result, under the slot's key.
        dst: Reg,
        /// Source, under the big keys.
        src: Reg,
        /// Which slot.
        slot: u32,
    },
    /// Plain ciphertexts under the key of slot 0 as one of a message each, by a key switch.
    Pack {
        /// Result, under the big keys.
        dst: Reg,
        /// One source for each slot.
        srcs: Vec<Reg>,
    },
    /// A linear map between the slots that the server does not learn: slot j becomes Σ_t M_(j,t)·slot t.
    SlotMap {
        /// Result, under the big keys.
        dst: Reg,
        /// Source, under the big keys.
        src: Reg,
        /// Which map of the evaluation key.
        map: u32,
        /// Bounds on the rows of the map.
        sums: RowSums,
    },
}

/// A part of the evaluation key that an instruction reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Need {
    /// The key-switching key, big to small.
    KeySwitch,
    /// The bootstrapping key.
    Bootstrap,
    /// The key that packs plain ciphertexts behind a common mask.
    Pack,
    /// One of the keys of private maps between slots.
    SlotMap(u32),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::KeySwitch => f.write_str("the key switch"),
            Need::Bootstrap => f.write_str("the bootstrap"),
            Need::Pack => f.write_str("packing"),
            Need::SlotMap(map) => write!(f, "the map {map} between slots"),
        }
    }
}

impl fmt::Display for RegType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegType::Lwe(role) => write!(f, "a ciphertext under {role}"),
            RegType::Glwe => f.write_str("an encrypted table"),
        }
    }
}

impl fmt::Display for RegInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.range;
        write!(f, "{}, {low} to {high} of {}", self.ty, self.encoding)
    }
}

impl Op {
    names! {
        MulAdd => "MulAdd",
        KeySwitch => "KeySwitch",
        Bootstrap => "Bootstrap",
        AddSlots => "AddSlots",
        Extract => "Extract",
        Pack => "Pack",
        SlotMap => "SlotMap",
    }

    /// The part of the key that the instruction reads, if any.
    pub fn need(&self) -> Option<Need> {
        match self {
            Op::MulAdd { .. } | Op::AddSlots { .. } | Op::Extract { .. } => None,
            Op::Pack { .. } => Some(Need::Pack),
            Op::SlotMap { map, .. } => Some(Need::SlotMap(*map)),
            Op::KeySwitch { .. } => Some(Need::KeySwitch),
            Op::Bootstrap { .. } => Some(Need::Bootstrap),
        }
    }
}

impl Operation for Op {
    type Info = RegInfo;

    fn sources(&self) -> Vec<Reg> {
        match self {
            Op::MulAdd { terms, .. } => terms.iter().map(|t| t.1).collect(),
            Op::KeySwitch { src, .. }
            | Op::AddSlots { src, .. }
            | Op::Extract { src, .. }
            | Op::SlotMap { src, .. } => vec![*src],
            Op::Pack { srcs, .. } => srcs.clone(),
            Op::Bootstrap { src, table: TableRef::Encrypted(glwe, _), .. } => vec![*src, *glwe],
            Op::Bootstrap { src, .. } => vec![*src],
        }
    }

    fn results(&self) -> &[Reg] {
        match self {
            Op::Bootstrap { dst, .. } => dst,
            Op::MulAdd { dst, .. }
            | Op::KeySwitch { dst, .. }
            | Op::AddSlots { dst, .. }
            | Op::Extract { dst, .. }
            | Op::Pack { dst, .. }
            | Op::SlotMap { dst, .. } => std::slice::from_ref(dst),
        }
    }

    fn kind(&self) -> WaveKind {
        match self {
            Op::MulAdd { .. } | Op::AddSlots { .. } | Op::Extract { .. } => WaveKind::Linear,
            Op::Pack { .. } | Op::SlotMap { .. } => WaveKind::Slots,
            Op::KeySwitch { .. } => WaveKind::KeySwitch,
            Op::Bootstrap { .. } => WaveKind::Bootstrap,
        }
    }

    fn deep(&self) -> bool {
        matches!(self, Op::Bootstrap { .. })
    }
}

/// A [`Graph`] of instructions for one parameter set, and the lookup tables that they rotate.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    pub(crate) params: Arc<TfheParams>,
    pub(crate) graph: Graph<Op>,
    pub(crate) tables: Vec<Table>,
}

impl Deref for Program {
    type Target = Graph<Op>;

    fn deref(&self) -> &Graph<Op> {
        &self.graph
    }
}

impl Program {
    /// The parameter set.
    pub fn params(&self) -> &Arc<TfheParams> {
        &self.params
    }

    /// The program's own lookup tables.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The parts of the evaluation key that the program reads.
    pub fn needs(&self) -> std::collections::BTreeSet<Need> {
        self.ops.iter().filter_map(Op::need).collect()
    }

    /// The outputs that a bootstrap extracts.
    pub(crate) fn outputs_of<'a>(&'a self, table: &'a TableRef) -> Cow<'a, [Output]> {
        let of = |t: &u32| self.tables.get(*t as usize).map_or(&[][..], |t| &t.outputs);
        match table {
            TableRef::Clear(t) => Cow::Borrowed(of(t)),
            TableRef::Encrypted(_, outputs) => Cow::Borrowed(outputs),
            TableRef::Slots(tables) => Cow::Owned(slots::outputs(tables.iter().map(of))),
        }
    }

    /// The polynomial that a slot is looked up in; `None` if it is encrypted.
    pub(crate) fn polynomial(&self, table: &TableRef, slot: usize) -> Option<&[u64]> {
        let t = match table {
            TableRef::Clear(t) => *t,
            TableRef::Slots(tables) => *tables.get(slot)?,
            TableRef::Encrypted(..) => return None,
        };
        self.tables.get(t as usize).map(Table::polynomial)
    }
}
