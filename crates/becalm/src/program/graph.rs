//! The graph of a program, written once for both families of instructions: registers that are assigned once,
//! instructions in an order in which they can run, waves, liveness and the most memory alive.

use super::Reg;
use super::constants::Constants;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;

/// Most instructions, registers and tables of a program that is read from a file.
pub(super) const MAX_ITEMS: usize = 1 << 24;

/// The error for a program from outside that the recorder would not write.
pub(super) fn unlike_recorded(got: &str) -> Error {
    let wanted = "a program as the recorder writes it";
    Error::bad_input("program", wanted, got, "record the program again with this version")
}

/// An instruction of one of the families.
pub trait Operation: Clone + PartialEq + Debug {
    /// The facts of a register that are known before anything runs.
    type Info: Copy + PartialEq + Debug;
    /// Registers that the instruction reads.
    fn sources(&self) -> Vec<Reg>;
    /// Registers that the instruction writes.
    fn results(&self) -> &[Reg];
    /// The kind of wave that the instruction belongs to.
    fn kind(&self) -> WaveKind;
    /// Whether the instruction counts towards the depth of a program: a bootstrap.
    fn deep(&self) -> bool;
    /// Whether an instruction of a [`WaveKind::Rlwe`] belongs to the wave of the one before it.
    fn joins(&self, _before: &Self) -> bool {
        false
    }
}

/// `name` and `NAMES` of an enum of instructions, from one list: a variant that is missing there does not compile.
macro_rules! names {
    ($($variant:ident => $name:literal,)*) => {
        /// The names of all instructions, in the order of the variants.
        pub const NAMES: &[&str] = &[$($name),*];

        /// The name of the instruction for people.
        pub fn name(&self) -> &'static str {
            match self {
                $(Self::$variant { .. } => $name,)*
            }
        }
    };
}
pub(super) use names;

/// The kind that all instructions of a wave share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WaveKind {
    /// `MulAdd`, `AddSlots` and `Extract`, in order.
    Linear,
    /// `KeySwitch`, independent.
    KeySwitch,
    /// `Pack` and `SlotMap`, independent: key switches, each by its own key.
    Slots,
    /// `Bootstrap`, independent.
    Bootstrap,
    /// One instruction of CKKS, or rotations of one source. It fills a machine alone, and its registers are so large that the recorded
    /// order, which frees them early, beats running independent instructions together.
    Rlwe,
}

impl WaveKind {
    /// Whether several machines may run parts of such a wave: its instructions do not wait for each other, and each takes longer than
    /// to pass its result on.
    pub fn divides(self) -> bool {
        matches!(self, WaveKind::KeySwitch | WaveKind::Slots | WaveKind::Bootstrap)
    }
}

/// Instructions that a backend may run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wave {
    /// The kind of its instructions.
    pub kind: WaveKind,
    /// Positions in [`Graph::ops`].
    pub ops: Vec<usize>,
    /// Positions of instructions that another machine runs: their results are written to the registers after the wave.
    pub elsewhere: Vec<usize>,
}

/// The way of a machine through a program.
#[derive(Debug, Clone)]
pub struct Walk {
    /// The instructions in waves.
    pub waves: Vec<Wave>,
    /// For each wave, the registers that are not read after it.
    pub dead_after: Vec<Vec<Reg>>,
    /// The constants in the form of a machine that prepared them; any other machine, or none, makes its own.
    pub constants: Option<Constants>,
}

impl Walk {
    /// The same registers and constants, with the instructions in other waves.
    #[must_use]
    pub fn with_waves(&self, waves: Vec<Wave>) -> Walk {
        Walk { waves, ..self.clone() }
    }

    /// The same way, with constants that a machine prepared.
    #[must_use]
    pub fn with_constants(self, constants: Option<Constants>) -> Walk {
        Walk { constants, ..self }
    }

    /// The instructions of the widest wave, one at least.
    pub(crate) fn width(&self) -> usize {
        self.waves.iter().map(|wave| wave.ops.len()).max().unwrap_or(1).max(1)
    }
}

/// A step of recording a program.
pub(super) enum Recorded<'a, O> {
    /// A new argument.
    Input(Reg),
    /// An instruction.
    Op(&'a O),
}

/// Instructions over registers; every register is assigned before it is read, and only once.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph<O: Operation> {
    pub(super) regs: Vec<O::Info>,
    pub(super) ops: Vec<O>,
    pub(super) inputs: Vec<Reg>,
    pub(super) outputs: Vec<Reg>,
}

impl<O: Operation> Default for Graph<O> {
    fn default() -> Self {
        Graph { regs: vec![], ops: vec![], inputs: vec![], outputs: vec![] }
    }
}

impl<O: Operation> Graph<O> {
    /// The instructions, in an order in which they can run.
    pub fn ops(&self) -> &[O] {
        &self.ops
    }

    /// Registers that the caller fills, in the order of the arguments.
    pub fn inputs(&self) -> &[Reg] {
        &self.inputs
    }

    /// Registers that the caller gets back, in order.
    pub fn outputs(&self) -> &[Reg] {
        &self.outputs
    }

    /// Number of registers.
    pub fn registers(&self) -> usize {
        self.regs.len()
    }

    /// The facts of a register; `None` if the program has no such register.
    pub fn info(&self, reg: Reg) -> Option<&O::Info> {
        self.regs.get(reg.0 as usize)
    }

    /// [`Graph::info`], or an error for the caller of a recorder.
    pub(super) fn known(&self, reg: Reg) -> Result<O::Info> {
        self.info(reg).copied().ok_or_else(|| {
            Error::bad_input(
                "program",
                format!("a register below {}", self.regs.len()),
                reg.0.to_string(),
                "use registers that this program returned",
            )
        })
    }

    /// A new register, which an instruction is about to write.
    pub(super) fn fresh(&mut self, info: O::Info) -> Reg {
        self.regs.push(info);
        Reg(self.regs.len() as u32 - 1)
    }

    /// A new register, which the caller fills.
    pub(super) fn input(&mut self, info: O::Info) -> Reg {
        let reg = self.fresh(info);
        self.inputs.push(reg);
        reg
    }

    /// Makes a register a result of the program.
    pub(super) fn output(&mut self, reg: Reg) -> Result<()> {
        self.known(reg)?;
        self.outputs.push(reg);
        Ok(())
    }

    /// Hands over arguments and instructions in the order in which they were recorded.
    ///
    /// # Errors
    /// `BadInput` for more than 2^24 registers or instructions, and the errors of `each`.
    pub(super) fn replay(&self, mut each: impl FnMut(Recorded<O>) -> Result<()>) -> Result<()> {
        if self.ops.len().max(self.regs.len()) > MAX_ITEMS {
            return Err(unlike_recorded("more than 2^24 items"));
        }
        let mut inputs = self.inputs.iter().peekable();
        for op in &self.ops {
            let next = op.results().first();
            while let Some(reg) = inputs.next_if(|r| next.is_none_or(|next| *r < next)) {
                each(Recorded::Input(*reg))?;
            }
            each(Recorded::Op(op))?;
        }
        inputs.try_for_each(|reg| each(Recorded::Input(*reg)))
    }

    /// Bootstraps on the longest path.
    pub fn depth(&self) -> usize {
        let mut at = vec![0; self.regs.len()];
        for op in &self.ops {
            let before = op.sources().iter().map(|r| at[r.0 as usize]).max().unwrap_or(0);
            for r in op.results() {
                at[r.0 as usize] = before + usize::from(op.deep());
            }
        }
        at.into_iter().max().unwrap_or(0)
    }

    /// Instructions grouped by bootstraps on the path, then key switches on the path, then kind; those of CKKS in their order.
    pub fn waves(&self) -> Vec<Wave> {
        self.grouped(|_, earliest| earliest)
    }

    /// The waves where `place` says how many waves of bootstraps come before the one of an instruction, which can run after
    /// the given number of them.
    pub(super) fn grouped(&self, place: impl Fn(usize, usize) -> usize) -> Vec<Wave> {
        let mut first = 0;
        let mut at = vec![(0usize, 0usize); self.regs.len()];
        let mut groups: BTreeMap<(usize, usize, WaveKind), Vec<usize>> = BTreeMap::new();
        for (i, op) in self.ops.iter().enumerate() {
            let kind = op.kind();
            let (d, s) = op.sources().iter().map(|r| at[r.0 as usize]).max().unwrap_or((0, 0));
            let (key, result) = match kind {
                WaveKind::Linear => ((d, s, kind), (d, s)),
                WaveKind::KeySwitch | WaveKind::Slots => ((d, s, kind), (d, s + 1)),
                WaveKind::Bootstrap => {
                    let d = place(i, d);
                    ((d, usize::MAX, kind), (d + 1, 0))
                }
                WaveKind::Rlwe => {
                    if i == 0 || !op.joins(&self.ops[i - 1]) {
                        first = i;
                    }
                    ((0, first, kind), (0, i))
                }
            };
            for r in op.results() {
                at[r.0 as usize] = result;
            }
            groups.entry(key).or_default().push(i);
        }
        let wave = |((_, _, kind), ops)| Wave { kind, ops, elsewhere: vec![] };
        groups.into_iter().map(wave).collect()
    }

    /// For each register the last instruction that reads it: 0 if none does, `usize::MAX` for a result of the program.
    pub(super) fn last_reads(&self) -> Vec<usize> {
        let mut last = vec![0; self.regs.len()];
        for (i, op) in self.ops.iter().enumerate() {
            op.sources().iter().for_each(|r| last[r.0 as usize] = i);
        }
        self.outputs.iter().for_each(|r| last[r.0 as usize] = usize::MAX);
        last
    }

    /// The way of a machine, in [`Graph::waves`].
    pub fn walk(&self) -> Walk {
        self.along(self.waves())
    }

    /// The way of a machine in these waves.
    pub(super) fn along(&self, waves: Vec<Wave>) -> Walk {
        Walk { dead_after: self.dead_after(&waves), waves, constants: None }
    }

    /// For each wave the registers that are not read after it.
    pub fn dead_after(&self, waves: &[Wave]) -> Vec<Vec<Reg>> {
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

    /// Most bytes at once: of registers alive, each as `bytes` says, and of what the instructions of a wave take besides.
    pub fn peak_bytes(
        &self,
        waves: &[Wave],
        bytes: impl Fn(Reg) -> usize,
        besides: impl Fn(&O) -> usize,
    ) -> usize {
        let mut alive: usize = self.inputs.iter().map(|r| bytes(*r)).sum();
        let mut most = alive;
        for (wave, dead) in waves.iter().zip(self.dead_after(waves)) {
            let ops = || wave.ops.iter().map(|&i| &self.ops[i]);
            alive += ops().flat_map(O::results).map(|r| bytes(*r)).sum::<usize>();
            let each = ops().map(&besides);
            // Those of CKKS run one after another.
            let work = match wave.kind {
                WaveKind::Rlwe => each.max().unwrap_or(0),
                _ => each.sum(),
            };
            most = most.max(alive + work);
            alive -= dead.iter().map(|r| bytes(*r)).sum::<usize>();
        }
        most
    }
}
