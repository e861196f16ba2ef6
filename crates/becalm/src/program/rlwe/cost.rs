//! The cost of a CKKS program, by the formulas of its machine: at ℓ words, α special words and β digits a key switch is
//! β(ℓ + α) + 2α + 3ℓ transforms, and 3α + 2ℓ right after the raise, where nothing is decomposed; a linear map decomposes once for each
//! middle step, and once more for each giant step but the first.

use super::{CkksOp, CkksProgram, MapSpec};
use crate::ckks::{Chain, Steps, sum_rotations};
use crate::params::CkksParams;
use crate::program::{Operation, Reg};

/// The cost of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CkksCost {
    /// Key switches, those of products and of linear maps included; at most this many.
    pub key_switches: usize,
    /// Transforms of one word each, about.
    pub transforms: usize,
    /// Products of ciphertexts.
    pub products: usize,
    /// Diagonals of all linear maps, each multiplied once.
    pub diagonals: usize,
    /// Most bytes of registers alive at once.
    pub bytes: usize,
}

/// Bytes that a bootstrap takes beside keys and matrices, for each coefficient of the ring: its ciphertexts, work space and
/// tables, at the most of what was measured at N = 2^16, whose moduli have up to so many bits.
const WORK: (usize, f64) = (22_000, 1745.0);

impl CkksProgram {
    /// An estimate, on the high side, of the bytes that a bootstrap of a set takes beside its keys and matrices. Nothing has to be made for it.
    pub fn work_bytes(params: &CkksParams) -> usize {
        let longer = (params.log2_modulus() / WORK.1).max(1.0);
        (WORK.0 as f64 * longer) as usize * params.degree()
    }

    /// Bytes of its matrices when all are encoded.
    pub fn matrix_bytes(&self, chain: &Chain) -> usize {
        self.maps.iter().map(|m| m.matrix.encoded_bytes(chain, m.level)).sum()
    }

    /// Least bytes of keys and matrices with which it runs: those of its largest instruction, where those of the others are made when
    /// their turn comes.
    pub fn least_bytes(&self, chain: &Chain) -> usize {
        let own = |op: &CkksOp| {
            let map = match op {
                CkksOp::Linear { map, .. } => {
                    let spec = &self.maps[*map as usize];
                    spec.matrix.encoded_bytes(chain, spec.level)
                }
                _ => 0,
            };
            map + chain.key_bytes(&self.needs_of(op))
        };
        self.ops.iter().map(own).max().unwrap_or(0)
    }

    /// The cost of one run of the program.
    pub fn cost(&self) -> CkksCost {
        let mut cost = CkksCost::default();
        for op in &self.ops {
            let level = op.sources().first().map_or(0, |r| self.reg(*r).level);
            self.count(op, level, &mut cost);
        }
        let bytes = |r: Reg| 16 * self.chain.words(self.reg(r).level) * self.params().degree();
        cost.bytes = self.peak_bytes(&self.waves(), bytes, |_| 0);
        cost
    }

    /// Transforms of a decomposition at `level`.
    fn decomposition(&self, level: usize) -> usize {
        self.chain.digits(level).len() * (self.chain.words(level) + self.chain.special())
    }

    fn key_switch(&self, level: usize) -> usize {
        self.decomposition(level) + 2 * self.chain.special() + 3 * self.chain.words(level)
    }

    /// Transforms of raising the modulus.
    fn raising(&self, dst: Reg) -> usize {
        let (info, special) = (self.reg(dst), self.chain.special());
        let (words, factor) =
            (self.chain.words(info.level), (info.scale / self.chain.step(0)).round());
        let back = match self.chain.is_every_digit(info.level, factor) {
            true => special + 2 * (special + words),
            false => self.key_switch(info.level),
        };
        self.key_switch(0) + 2 * words + back
    }

    fn count_linear(&self, map: &MapSpec, level: usize, cost: &mut CkksCost) {
        let Steps { babies, middle, giant, .. } = map.matrix.steps(map.baby);
        let words = self.chain.words(level);
        cost.diagonals += map.matrix.rotations().count();
        cost.key_switches += babies * middle + middle + giant - 2;
        cost.transforms += (middle + giant - 1) * self.decomposition(level)
            + (middle + giant - 2) * (self.chain.special() + words)
            + 2 * (self.chain.special() + words);
    }

    fn count(&self, op: &CkksOp, level: usize, cost: &mut CkksCost) {
        let single = self.key_switch(level);
        match op {
            CkksOp::Linear { map, .. } => {
                self.count_linear(&self.maps[*map as usize], level, cost);
            }
            CkksOp::Polynomial { polynomial, .. } => {
                let products = self.polynomials[*polynomial as usize].products();
                cost.products += products;
                cost.key_switches += products;
                cost.transforms += products * single;
            }
            CkksOp::Dot { pairs, .. } => {
                cost.products += pairs.len();
                cost.key_switches += 1;
                cost.transforms += single;
            }
            CkksOp::DoubleAngle { .. } | CkksOp::Multiply { .. } => {
                cost.products += 1;
                cost.key_switches += 1;
                cost.transforms += single;
            }
            CkksOp::Conjugate { .. } | CkksOp::Rotate { .. } => {
                cost.key_switches += 1;
                cost.transforms += single;
            }
            CkksOp::Trace { dst, src } => {
                let rotations = self.traced(*dst, *src).count();
                cost.key_switches += rotations;
                cost.transforms += rotations * single;
            }
            CkksOp::RaiseModulus { dst, .. } => {
                cost.key_switches += 2;
                cost.transforms += self.raising(*dst);
            }
            CkksOp::Sum { size, .. } => {
                let rotations = sum_rotations(*size).len();
                cost.key_switches += rotations;
                cost.transforms += rotations * single;
            }
            // A division, and the encoding of the values.
            CkksOp::MultiplyPlain { .. } => cost.transforms += 3 * self.chain.words(level),
            CkksOp::AddPlain { .. } => cost.transforms += self.chain.words(level),
            CkksOp::Rescale { .. }
            | CkksOp::MultiplyConstant { .. }
            | CkksOp::WeightedSum { .. }
            | CkksOp::LevelDown { .. } => cost.transforms += 2 * self.chain.words(level),
            CkksOp::MultiplyI { .. }
            | CkksOp::Negate { .. }
            | CkksOp::Add { .. }
            | CkksOp::Subtract { .. }
            | CkksOp::AddConstant { .. }
            | CkksOp::Reinterpret { .. }
            | CkksOp::Repeat { .. }
            | CkksOp::Tabulate { .. }
            | CkksOp::Refreshed { .. } => {}
        }
    }
}
