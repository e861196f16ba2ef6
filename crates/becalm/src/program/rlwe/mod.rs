//! Programs of CKKS: instructions over registers that know their level, scale and slots.
//!
//! Recording settles the level and the scale of every result: a missing level or scales that differ are errors before any
//! arithmetic. Matrices stand in the program unencrypted, with their division into baby and giant steps, so that the keys
//! ([`CkksProgram::needs`]) and the cost ([`CkksProgram::cost`]) are known before anything is encoded. The machine decides
//! on hoisting, lazy rescaling and the form of a diagonal.

mod account;
mod append;
mod check;
mod contract;
mod cost;
mod file;
mod functions;
mod operator;
mod polynomial;
mod power;
mod record;
mod require;
mod results;
mod steps;
mod values;

pub use contract::Contract;
pub(crate) use contract::Gives;
pub use cost::CkksCost;
pub use operator::{Operator, Plaintext};
pub(crate) use power::levels_of_power;

use super::Reg;
use super::graph::{Graph, Operation, WaveKind, names};
use crate::ckks::{Chain, Chebyshev, Matrix, Needs, sum_rotations};
use crate::math::complex::Complex;
use crate::params::CkksParams;
use functions::Functions;
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use std::sync::Arc;

/// The facts of a register that are known before anything runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RlweInfo {
    /// Level.
    pub level: usize,
    /// The factor that values are multiplied by.
    pub scale: f64,
    /// Period of the values along the N/2 slots.
    pub slots: usize,
    /// Bits of the integers that the coefficients are; none where slots hold values. Files have those of the arguments alone.
    #[serde(skip)]
    pub integers: Option<u32>,
}

/// An instruction. The levels and scales are those of the registers ([`Graph::info`]). Files know instructions by their
/// order: new ones come last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CkksOp {
    /// A linear map of the slots, rescaled: one level.
    Linear {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
        /// Which of [`CkksProgram::maps`].
        map: u32,
    },
    /// A polynomial of every slot, which lies in [−1, 1]: ⌈log2(degree + 1)⌉ levels.
    Polynomial {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
        /// Which of [`CkksProgram::polynomials`].
        polynomial: u32,
    },
    /// 2x² − 1: one level.
    DoubleAngle {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
    },
    /// From level 0 to the level of `dst` by way of the ephemeral secret: m/q_0 becomes m/q_0 + I, I a polynomial of small integers.
    RaiseModulus {
        /// Result; its scale is a multiple of q_0, the scale of 1.
        dst: Reg,
        /// Source, at level 0.
        src: Reg,
    },
    /// Σ of the rotations by multiples of the period of `dst`: N/2 slots, or those of `src`, become periodic.
    Trace {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
    },
    /// a·b, rescaled: one level.
    Multiply {
        /// Result.
        dst: Reg,
        /// A factor.
        a: Reg,
        /// The other.
        b: Reg,
    },
    /// i·x, exact.
    MultiplyI {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
    },
    /// The complex conjugate of every slot.
    Conjugate {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
    },
    /// Slots rotated to the left.
    Rotate {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
        /// By how many.
        by: i64,
    },
    /// a + b.
    Add {
        /// Result.
        dst: Reg,
        /// A term.
        a: Reg,
        /// The other.
        b: Reg,
    },
    /// a − b.
    Subtract {
        /// Result.
        dst: Reg,
        /// A term.
        a: Reg,
        /// The register that is subtracted.
        b: Reg,
    },
    /// x + c in every slot.
    AddConstant {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
        /// c.
        constant: f64,
    },
    /// Σ a·b, relinearized and rescaled once: one level.
    Dot {
        /// Result.
        dst: Reg,
        /// Factors.
        pairs: Vec<(Reg, Reg)>,
    },
    /// −x.
    Negate {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
    },
    /// In slot i the sum of slots i to i + size − 1, counted around.
    Sum {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
        /// How many slots, a power of two.
        size: usize,
    },
    /// x·c, rescaled: one level.
    MultiplyConstant {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
        /// c.
        constant: f64,
    },
    /// x + values, slot by slot, or integer by integer.
    AddPlain {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
        /// Which of [`CkksProgram::plaintexts`].
        plaintext: u32,
    },
    /// x·values, slot by slot, rescaled: one level.
    MultiplyPlain {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
        /// Which of [`CkksProgram::plaintexts`].
        plaintext: u32,
    },
    /// The same values at a lower level, at the scale of that level.
    LevelDown {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
    },
    /// The same values one level lower, at the scale that is left.
    Rescale {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
    },
    /// Every value times the quotient of the two scales, by reading it at that of `dst`: free.
    Reinterpret {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
    },
    /// The same values as a vector of more slots, in which they repeat: free.
    Repeat {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
    },
    /// A result of a bootstrap, with as many slots as the bootstrapped registers have and the bootstrap's account of the error: free.
    Refreshed {
        /// Result.
        dst: Reg,
        /// Source.
        src: Reg,
        /// The registers that were bootstrapped.
        from: Vec<Reg>,
        /// The error that the bootstrap adds, and the values that it takes. They are boxed: every instruction takes the room of the longest.
        limits: Box<Limits>,
    },
    /// Σ c·x, rescaled once: one level below the lowest of the terms.
    WeightedSum {
        /// Result.
        dst: Reg,
        /// Each x and its c.
        terms: Vec<(Reg, f64)>,
    },
    /// Integers of a table or of slots, or slots of integers, with the account that the steps before have by contract: free.
    Tabulate {
        /// Result.
        dst: Reg,
        /// Source; at level 0 where it gives integers.
        src: Reg,
        /// The integers that were looked up, or the slots that were packed.
        from: Reg,
        /// The effect of the steps.
        contract: Box<Contract>,
    },
}

impl Operation for CkksOp {
    type Info = RlweInfo;

    fn sources(&self) -> Vec<Reg> {
        match self {
            CkksOp::Multiply { a, b, .. }
            | CkksOp::Add { a, b, .. }
            | CkksOp::Subtract { a, b, .. } => vec![*a, *b],
            CkksOp::Dot { pairs, .. } => pairs.iter().flat_map(|(a, b)| [*a, *b]).collect(),
            CkksOp::Linear { src, .. }
            | CkksOp::Polynomial { src, .. }
            | CkksOp::DoubleAngle { src, .. }
            | CkksOp::RaiseModulus { src, .. }
            | CkksOp::Trace { src, .. }
            | CkksOp::MultiplyI { src, .. }
            | CkksOp::Conjugate { src, .. }
            | CkksOp::Rotate { src, .. }
            | CkksOp::AddConstant { src, .. }
            | CkksOp::Rescale { src, .. }
            | CkksOp::Reinterpret { src, .. }
            | CkksOp::Negate { src, .. }
            | CkksOp::Sum { src, .. }
            | CkksOp::MultiplyConstant { src, .. }
            | CkksOp::AddPlain { src, .. }
            | CkksOp::MultiplyPlain { src, .. }
            | CkksOp::Repeat { src, .. }
            | CkksOp::LevelDown { src, .. } => vec![*src],
            CkksOp::Refreshed { src, from, .. } => [&[*src], &from[..]].concat(),
            CkksOp::WeightedSum { terms, .. } => terms.iter().map(|(x, _)| *x).collect(),
            CkksOp::Tabulate { src, from, .. } => vec![*src, *from],
        }
    }

    fn results(&self) -> &[Reg] {
        let dst = match self {
            CkksOp::Linear { dst, .. }
            | CkksOp::Polynomial { dst, .. }
            | CkksOp::DoubleAngle { dst, .. }
            | CkksOp::RaiseModulus { dst, .. }
            | CkksOp::Trace { dst, .. }
            | CkksOp::Multiply { dst, .. }
            | CkksOp::MultiplyI { dst, .. }
            | CkksOp::Conjugate { dst, .. }
            | CkksOp::Rotate { dst, .. }
            | CkksOp::Add { dst, .. }
            | CkksOp::Subtract { dst, .. }
            | CkksOp::AddConstant { dst, .. }
            | CkksOp::Rescale { dst, .. }
            | CkksOp::Reinterpret { dst, .. }
            | CkksOp::Dot { dst, .. }
            | CkksOp::Negate { dst, .. }
            | CkksOp::Sum { dst, .. }
            | CkksOp::MultiplyConstant { dst, .. }
            | CkksOp::AddPlain { dst, .. }
            | CkksOp::MultiplyPlain { dst, .. }
            | CkksOp::Repeat { dst, .. }
            | CkksOp::Refreshed { dst, .. }
            | CkksOp::WeightedSum { dst, .. }
            | CkksOp::Tabulate { dst, .. }
            | CkksOp::LevelDown { dst, .. } => dst,
        };
        std::slice::from_ref(dst)
    }

    fn kind(&self) -> WaveKind {
        WaveKind::Rlwe
    }

    /// Rotations of one source share a decomposition.
    fn joins(&self, before: &Self) -> bool {
        match (self, before) {
            (CkksOp::Rotate { src, .. }, CkksOp::Rotate { src: shared, .. }) => src == shared,
            _ => false,
        }
    }

    fn deep(&self) -> bool {
        matches!(self, CkksOp::RaiseModulus { .. })
    }
}

impl CkksOp {
    /// The register that the instruction writes.
    pub fn result(&self) -> Reg {
        self.results()[0]
    }

    names! {
        Linear => "linear",
        Polynomial => "polynomial",
        DoubleAngle => "double angle",
        RaiseModulus => "raise modulus",
        Trace => "trace",
        Multiply => "multiply",
        MultiplyI => "multiply by i",
        Conjugate => "conjugate",
        Rotate => "rotate",
        Add => "add",
        Subtract => "subtract",
        AddConstant => "add constant",
        Dot => "dot product",
        Negate => "negate",
        Sum => "sum",
        MultiplyConstant => "multiply by a constant",
        AddPlain => "add a plaintext",
        MultiplyPlain => "multiply by a plaintext",
        LevelDown => "level down",
        Rescale => "rescale",
        Reinterpret => "reinterpret",
        Repeat => "repeat",
        Refreshed => "refreshed",
        WeightedSum => "weighted sum",
        Tabulate => "look up",
    }
}

/// A matrix of a program and how a machine is to apply it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MapSpec {
    /// The map, of the slots of the result or fewer.
    pub matrix: Arc<Matrix>,
    /// Level of the source.
    pub level: usize,
    /// Baby steps.
    pub baby: usize,
    /// Scale of the entries.
    pub scale: f64,
}

impl PartialEq for MapSpec {
    /// A matrix may have millions of entries, and most often it is shared.
    fn eq(&self, other: &MapSpec) -> bool {
        let how = |x: &MapSpec| (x.level, x.baby, x.scale);
        let same = || Arc::ptr_eq(&self.matrix, &other.matrix) || self.matrix == other.matrix;
        how(self) == how(other) && same()
    }
}

/// A [`Graph`] of CKKS instructions for one parameter set, with the matrices and polynomials that they apply.
///
/// It is recorded by calls that append an instruction and return the register of its result; the functions of
/// [`bootstrap::ckks`](crate::bootstrap::ckks) return such programs.
#[derive(Debug, Clone, PartialEq)]
pub struct CkksProgram {
    chain: Arc<Chain>,
    graph: Graph<CkksOp>,
    maps: Vec<MapSpec>,
    polynomials: Vec<Chebyshev>,
    /// Values of as many slots as the ciphertexts that they meet, or one for all slots. Beside integers, those of the first places, or one for
    /// all places.
    plaintexts: Vec<Vec<Complex>>,
    limits: Limits,
    functions: Functions,
}

impl Deref for CkksProgram {
    type Target = Graph<CkksOp>;

    fn deref(&self) -> &Graph<CkksOp> {
        &self.graph
    }
}

/// The conditions on the values of an argument under which the program's approximations hold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The largest allowed coefficient of the message, or slot if `slots` is set, in units of the scale.
    pub(crate) most: f64,
    /// Values that slots must be near, if not all are allowed: ±this.
    pub(crate) near: Option<f64>,
    /// Whether only real values come back.
    pub(crate) real: bool,
    /// Whether the limit is one on slots.
    pub(crate) slots: bool,
    /// The error that a bootstrap adds: its contract. No account can follow its steps, because they are on coefficients.
    pub(crate) error: Option<Added>,
}

/// The error that a bootstrap adds to a slot, for every message within its bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Added {
    /// Standard deviation of the part that no message changes.
    pub(crate) noise: f64,
    /// The largest error of the approximated sine in a slot where the lift has added a rare multiple of q_0.
    pub(crate) rare: f64,
    /// The largest error of the sine in a slot of a message of size 1. If values are signs: in a slot at a distance of 1 from its sign.
    pub(crate) bend: f64,
    /// The bend grows with this power of the size of the message.
    pub(crate) power: i32,
    /// A second iteration, which bootstraps the error of the first.
    pub(crate) again: Option<Again>,
}

/// A second iteration of a bootstrap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Again {
    /// How many times as large the error of the first is bootstrapped.
    pub(crate) times: f64,
    /// Standard deviation of the error that both iterations leave besides: that of rounding at the scale of the message.
    pub(crate) rounded: f64,
}

impl CkksProgram {
    /// The parameter set.
    pub fn params(&self) -> &'static CkksParams {
        self.chain.params()
    }

    /// The program's matrices.
    pub fn maps(&self) -> &[MapSpec] {
        &self.maps
    }

    /// The program's polynomials.
    pub fn polynomials(&self) -> &[Chebyshev] {
        &self.polynomials
    }

    /// The program's plaintexts: values for every slot, or one for all.
    pub fn plaintexts(&self) -> &[Vec<Complex>] {
        &self.plaintexts
    }

    /// The error that a bootstrap adds to a slot, an upper bound on the root of the mean square for every message of absolute values of
    /// at most 1, or as near to signs as it allows; none for a program other than a bootstrap.
    pub fn error(&self) -> Option<f64> {
        let added = self.limits.error?;
        Some(match self.limits.near {
            Some(near) => added.noise + added.bend * near * near,
            None => self.limits.added(added, 1.0).0,
        })
    }

    /// The part of [`CkksProgram::error`] that no message changes: a standard deviation.
    pub fn noise(&self) -> Option<f64> {
        let noise = |added: Added| match added.again {
            Some(again) => (added.noise / again.times).hypot(again.rounded),
            None => added.noise,
        };
        self.limits.error.map(noise)
    }

    /// Bootstraps within it, or 1 for one alone.
    pub fn bootstraps(&self) -> usize {
        self.ops.iter().filter(|op| op.deep()).count()
    }

    /// The keys that it needs, each up to the highest level at which it is used, and the slots of its arguments.
    pub fn needs(&self) -> Needs {
        let slots = self.inputs.iter().map(|r| self.reg(*r).slots).max().unwrap_or(0);
        let own = Needs { slots, ..Needs::default() };
        self.ops.iter().fold(own, |needs, op| needs.union(&self.needs_of(op)))
    }

    /// Whether an instruction needs a key.
    pub(crate) fn switches_keys(&self) -> bool {
        self.ops.iter().any(|op| self.needs_of(op) != Needs::default())
    }

    /// The keys that an instruction needs.
    pub(crate) fn needs_of(&self, op: &CkksOp) -> Needs {
        let mut needs = Needs::default();
        let level = op.sources().iter().map(|r| self.reg(*r).level).max().unwrap_or(0);
        match op {
            CkksOp::Linear { map, .. } => {
                let map = &self.maps[*map as usize];
                needs = needs.rotate(map.matrix.keys(map.baby), map.level);
            }
            CkksOp::Trace { dst, src } => {
                needs = needs.rotate(self.traced(*dst, *src).map(|k| k as i64), level);
            }
            CkksOp::Rotate { src, by, .. } => {
                needs = needs.rotate([by.rem_euclid(self.reg(*src).slots as i64)], level);
            }
            CkksOp::Conjugate { .. } => needs.conjugate = Some(level),
            CkksOp::RaiseModulus { dst, .. } => needs.bootstrap = Some(self.reg(*dst).level),
            CkksOp::Sum { size, .. } => needs = needs.rotate(sum_rotations(*size), level),
            CkksOp::Multiply { .. }
            | CkksOp::Dot { .. }
            | CkksOp::Polynomial { .. }
            | CkksOp::DoubleAngle { .. } => needs.multiply = level,
            CkksOp::MultiplyI { .. }
            | CkksOp::Add { .. }
            | CkksOp::Subtract { .. }
            | CkksOp::AddConstant { .. }
            | CkksOp::Negate { .. }
            | CkksOp::MultiplyConstant { .. }
            | CkksOp::AddPlain { .. }
            | CkksOp::MultiplyPlain { .. }
            | CkksOp::LevelDown { .. }
            | CkksOp::Rescale { .. }
            | CkksOp::Reinterpret { .. }
            | CkksOp::Repeat { .. }
            | CkksOp::Refreshed { .. }
            | CkksOp::WeightedSum { .. }
            | CkksOp::Tabulate { .. } => {}
        }
        needs.rotations.remove(&0);
        needs
    }

    /// The rotations of a trace, in order.
    pub(crate) fn traced(&self, dst: Reg, src: Reg) -> impl Iterator<Item = usize> + use<> {
        let (from, to) = (self.reg(src).slots, self.reg(dst).slots);
        (0..from.ilog2() - to.ilog2()).map(move |i| to << i)
    }

    /// The register's facts; registers are made by the recorder alone.
    pub(crate) fn reg(&self, reg: Reg) -> &RlweInfo {
        &self.regs[reg.0 as usize]
    }
}
