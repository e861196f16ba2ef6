//! Walking a program before it runs: waves, cost, memory and noise.
//!
//! A *wave* is a run of instructions of one kind that do not wait for each other (linear ones may, and run in order).
//! How noise is followed: [`noise`].

use super::noise::{self, Followed};
use super::{Need, Program, Reg, RegType};
use crate::program::graph::Wave;
use crate::program::pace::Pace;
use crate::{Error, Result};

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

/// The facts of a program that are known before it runs.
#[derive(Debug, Clone)]
pub struct Walk {
    /// Noise variance of each register, torus units.
    pub noise: Vec<f64>,
    /// log2 of the probability that any bootstrap of one lane fails (union bound); −∞ without bootstraps.
    pub log2_pfail: f64,
    /// For each output, whether its noise is independent of the arguments and of the other outputs.
    pub independent: Vec<bool>,
    /// The instructions in waves.
    pub waves: Vec<Wave>,
    /// For each wave, the registers that are not read after it.
    pub dead_after: Vec<Vec<Reg>>,
    /// Its cost.
    pub cost: Cost,
}

impl Program {
    /// Waves, cost and noise for independent arguments of the given noise variances (torus units, one for each input).
    ///
    /// # Errors
    /// [`Error::BadInput`] for the wrong number of variances; [`Error::TooNoisy`] if a bootstrap would fail more often
    /// than the parameter set claims.
    pub fn walk(&self, input_noise: &[f64]) -> Result<Walk> {
        self.walk_related(input_noise, &vec![false; input_noise.len()])
    }

    /// [`Program::walk`] where some arguments may be related to each other: the same ciphertexts twice, or sums that
    /// share a term.
    ///
    /// # Errors
    /// As [`Program::walk`].
    pub fn walk_related(&self, input_noise: &[f64], related: &[bool]) -> Result<Walk> {
        if input_noise.len() != self.inputs.len() || related.len() != self.inputs.len() {
            return Err(Error::bad_input(
                "walk",
                format!("{} noise variances", self.inputs.len()),
                input_noise.len().to_string(),
                "give one for each input",
            ));
        }
        let followed = noise::follow(self, input_noise, related)?;
        let waves = self.waves();
        let dead_after = self.dead_after(&waves);
        let cost = self.count(&waves);
        let Followed { noise, log2_pfail, independent } = followed;
        Ok(Walk { noise, log2_pfail, independent, waves, dead_after, cost })
    }

    /// A walk with the waves that take the least time at a pace on so many lanes.
    #[must_use]
    pub fn arranged(&self, walk: Walk, pace: &Pace, lanes: usize) -> Walk {
        if pace.is_work() {
            return walk;
        }
        let waves = self.waves_at(pace, lanes).0;
        let dead_after = self.dead_after(&waves);
        let cost = self.count(&waves);
        Walk { waves, dead_after, cost, ..walk }
    }

    /// The cost of the program on one lane.
    pub fn cost(&self) -> Cost {
        self.count(&self.waves())
    }

    fn count(&self, waves: &[Wave]) -> Cost {
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
