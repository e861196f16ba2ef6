//! From a program to the processor's instructions.
//!
//! Bootstraps come in the order of their waves, those whose arguments are ready first going first. Whatever a chunk of them
//! needs (loads, sums, key switches) is emitted one chunk ahead, so that a machine that works in order switches the keys of
//! one batch while it rotates the one before. A slot is used again only when a machine with two batches of each kind in
//! flight cannot be reading it any more: nothing waits for a name.

use super::isa::{Instruction, Slot};
use super::{Op, Program, Reg, TableRef, WaveKind};
use crate::cipher::KeyRole;
use crate::params::Rotation;
use crate::program::RegType;
use crate::{Error, Result};
use std::collections::{HashMap, VecDeque};

/// Byte addresses in the machine's memory. Ciphertexts and tables lie one after another, 8 bytes a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The arguments, in order, the lanes of one after another.
    pub inputs: u64,
    /// The results, in order, the lanes of one after another.
    pub outputs: u64,
    /// The program's tables, N words each.
    pub tables: u64,
    /// The key-switching key.
    pub key_switch: u64,
    /// The bootstrapping key.
    pub bootstrap: u64,
}

/// A program as instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lowered {
    /// The instructions, `halt` last.
    pub code: Vec<Instruction>,
    /// For each wave of the program how many instructions it takes until all of its results are in their slots.
    pub waves: Vec<usize>,
    /// The slot of each output of the program, lane after lane.
    pub outputs: Vec<Slot>,
    /// Slots that are used: 0 and up.
    pub slots: usize,
}

/// Slots come in runs: the results of one bootstrap.
struct Slots {
    lanes: usize,
    at: HashMap<Reg, Vec<Slot>>,
    /// For each length the runs that are free again, oldest first, and the bootstraps and key switches emitted by then.
    free: HashMap<usize, VecDeque<(u16, [usize; 2])>>,
    /// For each slot in use, its run: the first slot. For each run: its length, and how many are in use.
    run: HashMap<u16, u16>,
    runs: HashMap<u16, (usize, usize)>,
    /// Never used from here on.
    fresh: usize,
    /// Bootstraps and key switches emitted so far.
    emitted: [usize; 2],
    /// How many of a kind may be in flight.
    window: usize,
}

impl Slots {
    /// A slot for each lane of some registers, those of a lane one after another.
    fn take(&mut self, regs: &[Reg]) -> Result<()> {
        for _ in 0..self.lanes {
            let first = self.run(regs.len())?;
            self.runs.insert(first, (regs.len(), regs.len()));
            for (slot, reg) in (first..).zip(regs) {
                self.run.insert(slot, first);
                self.at.entry(*reg).or_default().push(Slot(slot));
            }
        }
        Ok(())
    }

    /// The first slot of a run: one that is long out of use, or a fresh one, or any.
    fn run(&mut self, length: usize) -> Result<u16> {
        let free = self.free.entry(length).or_default();
        let room = self.fresh + length <= 1 << 16;
        let aged = free.front().is_some_and(|(_, at)| {
            at.iter().zip(&self.emitted).all(|(then, now)| then + self.window <= *now)
        });
        match free.front().filter(|_| aged || !room).copied() {
            Some((first, _)) => {
                free.pop_front();
                Ok(first)
            }
            None if room => {
                self.fresh += length;
                Ok((self.fresh - length) as u16)
            }
            None => {
                let wanted = format!("{length} of 65536 slots");
                Err(Error::memory("lower", wanted, "all taken", "run fewer lanes at once"))
            }
        }
    }

    fn give_back(&mut self, reg: Reg) {
        for slot in self.at.remove(&reg).unwrap_or_default() {
            let Some(first) = self.run.remove(&slot.0) else { continue };
            if let Some((length, used)) = self.runs.get_mut(&first) {
                *used -= 1;
                if *used == 0 {
                    self.free.entry(*length).or_default().push_back((first, self.emitted));
                }
            }
        }
    }
}

/// The order in which instructions are emitted.
struct Order<'a> {
    program: &'a Program,
    /// The instruction that writes each register.
    writer: HashMap<Reg, usize>,
    done: Vec<bool>,
    /// For each register, how many bootstraps were emitted when it was ready.
    ready: Vec<usize>,
    order: Vec<usize>,
}

impl Order<'_> {
    /// Emits an instruction after all that it needs.
    fn emit(&mut self, op: usize) {
        let mut stack = vec![op];
        while let Some(op) = stack.pop() {
            let sources = self.program.ops[op].sources();
            let missing: Vec<usize> = sources
                .iter()
                .filter_map(|r| self.writer.get(r).copied())
                .filter(|i| !self.done[*i])
                .collect();
            if self.done[op] {
                continue;
            }
            if missing.is_empty() {
                self.done[op] = true;
                self.order.push(op);
            } else {
                stack.push(op);
                stack.extend(missing.into_iter().rev());
            }
        }
    }

    fn emit_needs(&mut self, op: usize) {
        for reg in self.program.ops[op].sources() {
            if let Some(writer) = self.writer.get(&reg).copied() {
                self.emit(writer);
            }
        }
    }

    fn all(program: &Program, waves: &[super::Wave], chunk: usize) -> Vec<usize> {
        let mut writer = HashMap::new();
        for (i, op) in program.ops.iter().enumerate() {
            writer.extend(op.results().iter().map(|r| (*r, i)));
        }
        let done = vec![false; program.ops.len()];
        let ready = vec![0; program.regs.len()];
        let mut order = Order { program, writer, done, ready, order: vec![] };
        let mut bootstraps = 0;
        let at = |ready: &[usize], op: &Op| {
            op.sources().iter().map(|r| ready[r.0 as usize]).max().unwrap_or(0)
        };
        for wave in waves {
            let mut ops = wave.ops.clone();
            if wave.kind != WaveKind::Bootstrap {
                for i in ops {
                    let when = at(&order.ready, &program.ops[i]);
                    program.ops[i].results().iter().for_each(|r| order.ready[r.0 as usize] = when);
                }
                continue;
            }
            ops.sort_by_key(|i| at(&order.ready, &program.ops[*i]));
            let chunks: Vec<&[usize]> = ops.chunks(chunk).collect();
            for (i, ops) in chunks.iter().enumerate() {
                let ahead = if i == 0 {
                    &chunks[..chunks.len().min(2)]
                } else {
                    chunks.get(i + 1..i + 2).unwrap_or(&[])
                };
                ahead.iter().copied().flatten().for_each(|op| order.emit_needs(*op));
                for op in *ops {
                    order.emit(*op);
                    bootstraps += 1;
                    let results = program.ops[*op].results();
                    results.iter().for_each(|r| order.ready[r.0 as usize] = bootstraps);
                }
            }
        }
        (0..program.ops.len()).for_each(|op| order.emit(op));
        order.order
    }
}

/// Emits instructions for every lane.
struct Emitter<'a> {
    program: &'a Program,
    layout: &'a Layout,
    slots: Slots,
    arguments: HashMap<Reg, u64>,
    code: Vec<Instruction>,
}

impl Emitter<'_> {
    fn small(&self, reg: Reg) -> bool {
        self.program.regs[reg.0 as usize].ty == RegType::Lwe(KeyRole::Small)
    }

    /// Brings an argument into slots if it is not there yet.
    fn load(&mut self, reg: Reg) -> Result<()> {
        let Some(address) = self.arguments.get(&reg).copied() else {
            return Ok(());
        };
        if !self.slots.at.contains_key(&reg) {
            self.slots.take(&[reg])?;
            let (width, small) = (8 * self.program.width(reg) as u64, self.small(reg));
            for (lane, dst) in (0..).zip(self.slots.at[&reg].clone()) {
                let address = address + lane * width;
                self.code.push(Instruction::Load { dst, address, small });
            }
        }
        Ok(())
    }

    fn op(&mut self, op: &Op) -> Result<()> {
        op.sources().into_iter().try_for_each(|reg| self.load(reg))?;
        self.slots.take(op.results())?;
        for lane in 0..self.slots.lanes {
            let instruction = self.instruction(op, lane)?;
            self.code.push(instruction);
        }
        self.slots.emitted[0] += usize::from(matches!(op, Op::Bootstrap { .. })) * self.slots.lanes;
        self.slots.emitted[1] += usize::from(matches!(op, Op::KeySwitch { .. })) * self.slots.lanes;
        Ok(())
    }

    fn instruction(&self, op: &Op, lane: usize) -> Result<Instruction> {
        let at = |reg: &Reg| self.slots.at[reg][lane];
        let (program, layout) = (self.program, self.layout);
        Ok(match op {
            Op::MulAdd { dst, terms, constant } => {
                let terms = terms.iter().map(|(c, r)| (*c, at(r))).collect();
                let small = self.small(*dst);
                Instruction::MulAdd { dst: at(dst), terms, constant: *constant, small }
            }
            Op::KeySwitch { dst, src } => {
                Instruction::KeySwitch { dst: at(dst), src: at(src), key: layout.key_switch }
            }
            Op::Bootstrap { dst, src, table: TableRef::Clear(t) } => Instruction::Bootstrap {
                src: at(src),
                dst: at(&dst[0]),
                key: layout.bootstrap,
                table: layout.tables + 8 * u64::from(*t) * program.params.polynomial_size as u64,
                encrypted: false,
                indices: program
                    .outputs_of(&TableRef::Clear(*t))
                    .iter()
                    .map(|o| o.index as u64)
                    .collect(),
            },
            Op::Bootstrap { table: TableRef::Encrypted(..), .. } => {
                return Err(Error::unsupported(
                    "lower",
                    "tables in the clear",
                    "an encrypted one",
                    "give its address in the text of the program",
                ));
            }
            _ => {
                return Err(Error::unsupported(
                    "lower",
                    "ciphertexts of one message",
                    "an instruction on the slots of a common mask",
                    "record the program for a set with one slot",
                ));
            }
        })
    }
}

impl Program {
    /// The program as instructions that run it on `lanes` ciphertexts in each register, for a machine with batches of `batch`
    /// and memory that is laid out like this.
    ///
    /// # Errors
    /// [`Error::Memory`] if more than 65536 ciphertexts are alive at once; [`Error::Unsupported`] for a set without classic
    /// rotation, and for an encrypted table, which slots do not hold.
    pub fn lower(&self, layout: &Layout, lanes: usize, batch: usize) -> Result<Lowered> {
        let p = &self.params;
        if p.slots > 1 || p.shared_key || p.rotation != Rotation::Classic {
            return Err(Error::unsupported(
                "lower",
                "a set with classic rotation, one slot and keys of their own",
                format!("`{}`", p.name),
                "record the program for a classic set",
            ));
        }
        let (waves, _) = self.waves();
        let order = Order::all(self, &waves, (batch / lanes.max(1)).max(1));
        let mut last = HashMap::new();
        for (now, op) in order.iter().map(|i| &self.ops[*i]).enumerate() {
            last.extend(op.results().iter().map(|r| (*r, now)));
            last.extend(op.sources().into_iter().map(|r| (r, now)));
        }
        last.extend(self.outputs.iter().map(|r| (*r, usize::MAX)));
        let (at, free, run, runs) = Default::default();
        let (emitted, window) = ([0, 0], 2 * batch);
        let slots = Slots { lanes, at, free, run, runs, fresh: 0, emitted, window };
        let mut arguments = HashMap::new();
        let mut address = layout.inputs;
        for reg in &self.inputs {
            arguments.insert(*reg, address);
            address += (8 * self.width(*reg) * lanes) as u64;
        }
        let mut emitter = Emitter { program: self, layout, slots, arguments, code: vec![] };
        let mut finished = vec![0; self.ops.len()];
        for (now, i) in order.iter().enumerate() {
            let op = &self.ops[*i];
            emitter.op(op)?;
            finished[*i] = emitter.code.len();
            let mut touched = op.sources();
            touched.extend(op.results());
            touched.sort_unstable();
            touched.dedup();
            touched.into_iter().filter(|r| last[r] == now).for_each(|r| emitter.slots.give_back(r));
        }
        let waves = waves.iter().map(|w| w.ops.iter().map(|i| finished[*i]).max().unwrap_or(0));
        let mut waves: Vec<usize> = waves.collect();
        (1..waves.len()).for_each(|w| waves[w] = waves[w].max(waves[w - 1]));
        let outputs = emitter.store(layout.outputs)?;
        let Emitter { code, slots, .. } = emitter;
        Ok(Lowered { code, waves, outputs, slots: slots.fresh })
    }
}

impl Emitter<'_> {
    /// Stores the results, and ends the program.
    fn store(&mut self, mut address: u64) -> Result<Vec<Slot>> {
        let mut outputs = vec![];
        for reg in &self.program.outputs {
            self.load(*reg)?;
            let (width, small) = (8 * self.program.width(*reg) as u64, self.small(*reg));
            for src in self.slots.at[reg].clone() {
                self.code.push(Instruction::Store { src, address, small });
                outputs.push(src);
                address += width;
            }
        }
        self.code.push(Instruction::Halt);
        Ok(outputs)
    }
}
