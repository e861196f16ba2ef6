//! What a CKKS program costs, by the formulas of its machine: at ℓ words, α special words and β digits a key switch is
//! β(ℓ + α) + 2α + 3ℓ transforms; a linear map decomposes once for each
//! middle step, and once more for each giant step but the first.

use super::{CkksOp, CkksProgram};
use crate::ckks::{Chain, Steps};
use crate::params::CkksParams;
use crate::program::Reg;

/// What running a program takes.
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
    /// Bytes that a bootstrap of a set takes beside its keys and matrices, about and rather more: known before anything is made.
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

    /// What running the program takes.
    pub fn cost(&self) -> CkksCost {
        let mut cost = CkksCost::default();
        for op in &self.ops {
            let level = op.sources().first().map_or(0, |r| self.reg(*r).level);
            self.count(op, level, &mut cost);
        }
        let last = self.last_uses();
        let (mut alive, mut most) = (0, 0);
        let bytes = |r: Reg| 16 * self.counts[self.reg(r).level] * self.params.degree();
        alive += self.inputs.iter().map(|r| bytes(*r)).sum::<usize>();
        for (i, op) in self.ops.iter().enumerate() {
            alive += bytes(op.result());
            most = most.max(alive);
            alive -= last[i].iter().map(|r| bytes(*r)).sum::<usize>();
        }
        cost.bytes = most;
        cost
    }

    /// For each instruction the registers that nobody reads after it.
    pub(crate) fn last_uses(&self) -> Vec<Vec<Reg>> {
        let mut last = vec![None; self.regs.len()];
        for (i, op) in self.ops.iter().enumerate() {
            op.sources().iter().for_each(|r| last[r.0 as usize] = Some(i));
        }
        let mut dead = vec![vec![]; self.ops.len()];
        for (r, at) in last.iter().enumerate() {
            let reg = Reg(r as u32);
            if let (Some(at), false) = (at, self.outputs.contains(&reg)) {
                dead[*at].push(reg);
            }
        }
        dead
    }

    /// Transforms of a decomposition at `level`.
    fn decomposition(&self, level: usize) -> usize {
        self.digits[level] * (self.counts[level] + self.special)
    }

    fn key_switch(&self, level: usize) -> usize {
        self.decomposition(level) + 2 * self.special + 3 * self.counts[level]
    }

    fn count(&self, op: &CkksOp, level: usize, cost: &mut CkksCost) {
        let single = self.key_switch(level);
        match op {
            CkksOp::Linear { map, .. } => {
                let map = &self.maps[*map as usize];
                let Steps { babies, middle, giant, .. } = map.matrix.steps(map.baby);
                let words = self.counts[level];
                cost.diagonals += map.matrix.rotations().count();
                cost.key_switches += babies * middle + middle + giant - 2;
                cost.transforms += (middle + giant - 1) * self.decomposition(level)
                    + (middle + giant - 2) * (self.special + words)
                    + 2 * (self.special + words);
            }
            CkksOp::Polynomial { polynomial, .. } => {
                let products = self.polynomials[*polynomial as usize].products();
                cost.products += products;
                cost.key_switches += products;
                cost.transforms += products * single;
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
                let level = self.reg(*dst).level;
                cost.key_switches += 2;
                cost.transforms += self.key_switch(level) + self.key_switch(0);
                cost.transforms += 2 * self.counts[level];
            }
            CkksOp::Rescale { .. } => cost.transforms += 2 * self.counts[level],
            CkksOp::MultiplyI { .. }
            | CkksOp::Add { .. }
            | CkksOp::Subtract { .. }
            | CkksOp::AddConstant { .. }
            | CkksOp::Reinterpret { .. } => {}
        }
    }
}
