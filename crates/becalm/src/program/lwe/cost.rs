//! The cost of a program, and what its registers take.

use super::{Need, Program, Reg, RegType};
use crate::program::graph::Wave;

/// The cost of a program on one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Blind rotations; behind a common mask each serves all slots.
    pub bootstraps: usize,
    /// Key switches, packing and maps between slots included.
    pub key_switches: usize,
    /// Linear combinations.
    pub linear: usize,
    /// Waves.
    pub waves: usize,
    /// Bootstraps on the longest path.
    pub depth: usize,
    /// Most bytes of registers alive at once, for one lane.
    pub bytes_per_lane: usize,
}

impl Program {
    /// The cost of the program on one lane.
    pub fn cost(&self) -> Cost {
        self.count(&self.waves())
    }

    /// The cost on one lane in these waves.
    pub(crate) fn count(&self, waves: &[Wave]) -> Cost {
        let count =
            |is: &dyn Fn(Option<Need>) -> bool| self.ops.iter().filter(|op| is(op.need())).count();
        Cost {
            bootstraps: count(&|need| need == Some(Need::Bootstrap)),
            key_switches: count(&|need| need.is_some_and(|need| need != Need::Bootstrap)),
            linear: count(&|need| need.is_none()),
            waves: waves.len(),
            depth: self.depth(),
            bytes_per_lane: self.peak_bytes(waves, |reg| self.bytes(reg), |_| 0),
        }
    }

    /// Words that a register takes on one lane.
    pub(crate) fn width(&self, reg: Reg) -> usize {
        match self.regs[reg.0 as usize].ty {
            RegType::Lwe(role) => role.width(&self.params),
            RegType::Glwe => (self.params.glwe_dimension + 1) * self.params.table_size(),
        }
    }

    /// Bodies behind the mask of a register.
    pub(crate) fn bodies(&self, reg: Reg) -> usize {
        match self.regs[reg.0 as usize].ty {
            RegType::Lwe(role) => role.bodies(&self.params),
            RegType::Glwe => 1,
        }
    }

    fn bytes(&self, reg: Reg) -> usize {
        self.width(reg) * 8
    }
}
