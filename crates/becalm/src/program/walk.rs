//! Walking a program before it runs: waves, cost, memory and noise.
//!
//! A *wave* is a run of instructions of one kind that do not wait for each other (linear ones may, and run in order).
//! How noise is followed: [`noise`].

use super::noise::{self, Followed};
use super::{Need, Op, Program, Reg, RegType};
use crate::{Error, Result};
use std::collections::{BTreeMap, HashSet};

/// The kind that all instructions of a wave share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaveKind {
    /// `MulAdd`, `AddSlots` and `Extract`, in order.
    Linear,
    /// `KeySwitch`, independent.
    KeySwitch,
    /// `Pack` and `SlotMap`, independent: key switches, each by a key of its own.
    Slots,
    /// `Bootstrap`, independent.
    Bootstrap,
}

/// Instructions that a backend may run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wave {
    /// The kind of its instructions.
    pub kind: WaveKind,
    /// Positions in [`Program::ops`].
    pub ops: Vec<usize>,
}

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
    /// For each wave, the registers that nobody reads after it.
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
        let (waves, depth) = self.waves();
        let dead_after = self.dead_after(&waves);
        let cost = self.count(&waves, &dead_after, depth);
        let Followed { noise, log2_pfail, independent } = followed;
        Ok(Walk { noise, log2_pfail, independent, waves, dead_after, cost })
    }

    /// The cost of the program on one lane.
    pub fn cost(&self) -> Cost {
        let (waves, depth) = self.waves();
        let dead_after = self.dead_after(&waves);
        self.count(&waves, &dead_after, depth)
    }

    /// Instructions grouped by bootstraps on the path, then key switches on the path, then kind.
    pub(super) fn waves(&self) -> (Vec<Wave>, usize) {
        let mut at = vec![(0usize, 0usize); self.regs.len()];
        let mut groups: BTreeMap<(usize, usize, WaveKind), Vec<usize>> = BTreeMap::new();
        let mut depth = 0;
        for (i, op) in self.ops.iter().enumerate() {
            let (d, s) = op.sources().iter().map(|r| at[r.0 as usize]).max().unwrap_or((0, 0));
            let (key, result) = match op {
                Op::MulAdd { .. } | Op::AddSlots { .. } | Op::Extract { .. } => {
                    ((d, s, WaveKind::Linear), (d, s))
                }
                Op::Pack { .. } | Op::SlotMap { .. } => ((d, s, WaveKind::Slots), (d, s + 1)),
                Op::KeySwitch { .. } => ((d, s, WaveKind::KeySwitch), (d, s + 1)),
                Op::Bootstrap { .. } => ((d, usize::MAX, WaveKind::Bootstrap), (d + 1, 0)),
            };
            for r in op.results() {
                at[r.0 as usize] = result;
            }
            depth = depth.max(result.0);
            groups.entry(key).or_default().push(i);
        }
        (groups.into_iter().map(|((_, _, kind), ops)| Wave { kind, ops }).collect(), depth)
    }

    fn dead_after(&self, waves: &[Wave]) -> Vec<Vec<Reg>> {
        let mut last = vec![None; self.regs.len()];
        for (w, wave) in waves.iter().enumerate() {
            for &i in &wave.ops {
                for r in self.ops[i].results().iter().copied().chain(self.ops[i].sources()) {
                    last[r.0 as usize] = Some(w);
                }
            }
        }
        let kept: HashSet<Reg> = self.outputs.iter().copied().collect();
        let mut dead = vec![vec![]; waves.len()];
        for (r, w) in last.iter().enumerate() {
            let reg = Reg(r as u32);
            if let (Some(w), false) = (w, kept.contains(&reg)) {
                dead[*w].push(reg);
            }
        }
        dead
    }

    fn count(&self, waves: &[Wave], dead_after: &[Vec<Reg>], depth: usize) -> Cost {
        let count =
            |is: &dyn Fn(Option<Need>) -> bool| self.ops.iter().filter(|op| is(op.need())).count();
        let bytes = |r: &Reg| self.bytes(*r);
        let mut alive: usize = self.inputs.iter().map(bytes).sum();
        let mut most = alive;
        for (wave, dead) in waves.iter().zip(dead_after) {
            alive += wave.ops.iter().flat_map(|&i| self.ops[i].results()).map(bytes).sum::<usize>();
            most = most.max(alive);
            alive -= dead.iter().map(bytes).sum::<usize>();
        }
        Cost {
            bootstraps: count(&|need| need == Some(Need::Bootstrap)),
            key_switches: count(&|need| need.is_some_and(|need| need != Need::Bootstrap)),
            linear: count(&|need| need.is_none()),
            waves: waves.len(),
            depth,
            bytes_per_lane: most,
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
