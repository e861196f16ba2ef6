//! From a program to the processor's instructions.
//!
//! Bootstraps come in the order of their waves, those whose arguments are ready first going first. The needs of a chunk of
//! them (loads, sums, key switches) are emitted one chunk ahead, so that a machine that works in order switches the keys of
//! one batch while it rotates the one before. A slot is used again only when a machine with two batches of each kind in
//! flight cannot be reading it any more: nothing waits for a name. When slots run out, such slots are used all the same, and
//! then registers are spilled: those whose next use is furthest are stored, and loaded again before it (Belady 1966).

use super::isa::{Instruction, Slot};
use super::{Op, Operation, Program, Reg, TableRef, WaveKind};
use crate::cipher::KeyRole;
use crate::params::Rotation;
use crate::program::RegType;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap, VecDeque};

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
    /// The ciphertexts that are stored because slots ran out; [`Lowered::spilled`] says how many bytes.
    pub spill: u64,
    /// How many slots there are, [`Layout::MOST_SLOTS`] at most.
    pub slots: usize,
}

impl Layout {
    /// As many as instructions can name.
    pub const MOST_SLOTS: usize = 1 << 16;
}

/// A program as instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lowered {
    /// The instructions, `halt` last.
    pub code: Vec<Instruction>,
    /// For each wave of the program how many instructions it takes until all of its results are in their slots.
    pub waves: Vec<usize>,
    /// Slots that are used: 0 and up.
    pub slots: usize,
    /// Bytes from [`Layout::spill`] on that are used.
    pub spilled: u64,
}

/// A register on a lane: the content of a slot.
type Value = (Reg, usize);

/// Slots come in runs: the results of one bootstrap.
struct Slots {
    at: HashMap<Value, Slot>,
    /// For each length the runs that are free again, oldest first, and the bootstraps and key switches emitted by then.
    free: HashMap<usize, VecDeque<(u16, [usize; 2])>>,
    /// For each slot in use, its run (the first slot) and whose it is.
    run: HashMap<u16, (u16, Value)>,
    /// All runs: first slot, length, how many are in use.
    runs: BTreeMap<u16, (usize, usize)>,
    /// Never used from here on.
    fresh: usize,
    /// How many there are.
    limit: usize,
    /// Bootstraps and key switches emitted so far.
    emitted: [usize; 2],
    /// How many of a kind may be in flight.
    window: usize,
}

impl Slots {
    /// A slot for some values, one after another; false if there is no room.
    fn take(&mut self, values: &[Value]) -> bool {
        let Some(first) = self.run(values.len()) else { return false };
        self.runs.insert(first, (values.len(), values.len()));
        for (slot, value) in (first..).zip(values) {
            self.run.insert(slot, (first, *value));
            self.at.insert(*value, Slot(slot));
        }
        true
    }

    /// The first slot of a run: one that is long out of use, or a fresh one, or any.
    fn run(&mut self, length: usize) -> Option<u16> {
        let free = self.free.entry(length).or_default();
        let room = self.fresh + length <= self.limit;
        let aged = free.front().is_some_and(|(_, at)| {
            at.iter().zip(&self.emitted).all(|(then, now)| then + self.window <= *now)
        });
        if aged || !room {
            return free.pop_front().map(|(first, _)| first);
        }
        self.fresh += length;
        Some((self.fresh - length) as u16)
    }

    fn give_back(&mut self, value: Value) {
        let run = self.at.remove(&value).and_then(|slot| self.run.remove(&slot.0));
        if let Some((first, (length, used))) =
            run.and_then(|(f, _)| Some((f, self.runs.get_mut(&f)?)))
        {
            *used -= 1;
            if *used == 0 {
                self.free.entry(*length).or_default().push_back((first, self.emitted));
            }
        }
    }

    /// Neighbouring runs of `length` slots or more, chosen such that what lies in them is used as late as can be, and the
    /// values that do. `next` says when a value is used next, nothing if it must stay.
    fn victims(
        &mut self,
        length: usize,
        next: impl Fn(Value) -> Option<usize>,
    ) -> Option<(Vec<u16>, Vec<Value>)> {
        if self.fresh < self.limit {
            self.runs.insert(self.fresh as u16, (self.limit - self.fresh, 0));
            self.fresh = self.limit;
        }
        let score = |first: u16, length: usize| {
            let all = (first..=first + (length - 1) as u16).filter_map(|s| self.run.get(&s));
            all.map(|(_, value)| next(*value)).try_fold(usize::MAX, |a, b| Some(a.min(b?)))
        };
        let runs: Vec<(u16, usize, Option<usize>)> =
            self.runs.iter().map(|(first, (n, _))| (*first, *n, score(*first, *n))).collect();
        let mut best: Option<(usize, std::ops::Range<usize>)> = None;
        for from in 0..runs.len() {
            let (mut total, mut worst) = (0, usize::MAX);
            for (to, (_, n, score)) in runs.iter().enumerate().skip(from) {
                let Some(score) = score else { break };
                (total, worst) = (total + n, worst.min(*score));
                if total >= length {
                    if best.as_ref().is_none_or(|(score, _)| worst > *score) {
                        best = Some((worst, from..to + 1));
                    }
                    break;
                }
            }
        }
        let (_, range) = best?;
        let chosen: Vec<u16> = runs[range.clone()].iter().map(|r| r.0).collect();
        let slots = runs[range].iter().flat_map(|(first, n, _)| *first..=*first + (*n - 1) as u16);
        let values: Vec<Value> = slots.filter_map(|s| self.run.get(&s)).map(|r| r.1).collect();
        Some((chosen, values))
    }

    /// Makes one run of `length` and one of the rest of free neighbours.
    fn join(&mut self, runs: &[u16], length: usize) {
        let mut total = 0;
        for first in runs {
            let Some((n, _)) = self.runs.remove(first) else { continue };
            self.free.entry(n).or_default().retain(|f| f.0 != *first);
            total += n;
        }
        let parts = [(runs[0], length), (runs[0].wrapping_add(length as u16), total - length)];
        for (first, n) in parts.into_iter().filter(|p| p.1 > 0) {
            self.runs.insert(first, (n, 0));
            self.free.entry(n).or_default().push_front((first, self.emitted));
        }
    }
}

/// The order in which instructions are emitted: an operation on a lane each.
struct Order<'a> {
    program: &'a Program,
    lanes: usize,
    /// The instruction that writes each register.
    writer: HashMap<Reg, usize>,
    /// For each operation and lane.
    done: Vec<bool>,
    /// For each register and lane, how many bootstraps were emitted when it was ready.
    ready: Vec<usize>,
    order: Vec<(usize, usize)>,
}

impl Order<'_> {
    /// Emits an instruction after all that it needs.
    fn emit(&mut self, (op, lane): (usize, usize)) {
        let mut stack = vec![op];
        while let Some(op) = stack.pop() {
            let sources = self.program.ops[op].sources();
            let missing: Vec<usize> = sources
                .iter()
                .filter_map(|r| self.writer.get(r).copied())
                .filter(|i| !self.done[*i * self.lanes + lane])
                .collect();
            if self.done[op * self.lanes + lane] {
                continue;
            }
            if missing.is_empty() {
                self.done[op * self.lanes + lane] = true;
                self.order.push((op, lane));
            } else {
                stack.push(op);
                stack.extend(missing.into_iter().rev());
            }
        }
    }

    fn emit_needs(&mut self, (op, lane): (usize, usize)) {
        for reg in self.program.ops[op].sources() {
            if let Some(writer) = self.writer.get(&reg).copied() {
                self.emit((writer, lane));
            }
        }
    }

    /// How many bootstraps were emitted when the arguments of an operation were ready.
    fn when(&self, (op, lane): (usize, usize)) -> usize {
        let ready = |r: &Reg| self.ready[r.0 as usize * self.lanes + lane];
        self.program.ops[op].sources().iter().map(ready).max().unwrap_or(0)
    }

    fn set(&mut self, (op, lane): (usize, usize), when: usize) {
        for reg in self.program.ops[op].results() {
            self.ready[reg.0 as usize * self.lanes + lane] = when;
        }
    }

    fn all(
        program: &Program,
        waves: &[super::Wave],
        lanes: usize,
        batch: usize,
    ) -> Vec<(usize, usize)> {
        let mut writer = HashMap::new();
        for (i, op) in program.ops.iter().enumerate() {
            writer.extend(op.results().iter().map(|r| (*r, i)));
        }
        let done = vec![false; program.ops.len() * lanes];
        let ready = vec![0; program.regs.len() * lanes];
        let mut order = Order { program, lanes, writer, done, ready, order: vec![] };
        let mut bootstraps = 0;
        for wave in waves {
            let mut ops: Vec<(usize, usize)> =
                wave.ops.iter().flat_map(|op| (0..lanes).map(move |lane| (*op, lane))).collect();
            if wave.kind != WaveKind::Bootstrap {
                for op in ops {
                    order.set(op, order.when(op));
                }
                continue;
            }
            ops.sort_by_key(|op| order.when(*op));
            let chunks: Vec<&[(usize, usize)]> = ops.chunks(batch).collect();
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
                    order.set(*op, bootstraps);
                }
            }
        }
        let rest = (0..program.ops.len()).flat_map(|op| (0..lanes).map(move |lane| (op, lane)));
        rest.for_each(|op| order.emit(op));
        order.order
    }
}

/// Emits instructions for every lane.
struct Emitter<'a> {
    program: &'a Program,
    layout: &'a Layout,
    slots: Slots,
    /// The address of a value in memory: arguments and spilled values.
    home: HashMap<Value, u64>,
    /// When each value is read, in order of emission.
    uses: HashMap<Value, Vec<usize>>,
    now: usize,
    spilled: u64,
    code: Vec<Instruction>,
}

impl Emitter<'_> {
    fn small(&self, reg: Reg) -> bool {
        self.program.regs[reg.0 as usize].ty == RegType::Lwe(KeyRole::Small)
    }

    fn bytes(&self, reg: Reg) -> u64 {
        8 * self.program.width(reg) as u64
    }

    /// Slots for some values, one after another; others are spilled for them, but not those that stay.
    fn take(&mut self, values: &[Value], stay: &[Value]) -> Result<()> {
        if self.slots.take(values) {
            return Ok(());
        }
        let now = self.now;
        let next = |value: Value| {
            let later = |uses: &Vec<usize>| uses.get(uses.partition_point(|u| *u <= now)).copied();
            let next = self.uses.get(&value).and_then(later).unwrap_or(usize::MAX - 1);
            (!stay.contains(&value)).then_some(next)
        };
        let Some((runs, victims)) = self.slots.victims(values.len(), next) else {
            let wanted = format!("{} slots at once", values.len() + stay.len());
            let got = format!("{} in all", self.layout.slots);
            let remedy = "choose a machine with more slots, or a circuit with smaller sums";
            return Err(Error::memory("lower", wanted, got, remedy));
        };
        victims.into_iter().for_each(|value| self.spill(value));
        self.slots.join(&runs, values.len());
        self.slots.take(values);
        Ok(())
    }

    /// Stores a value where nothing lies yet; what was loaded lies in memory already.
    fn spill(&mut self, value: Value) {
        if !self.home.contains_key(&value) {
            let address = self.layout.spill + self.spilled;
            let (src, small) = (self.slots.at[&value], self.small(value.0));
            self.code.push(Instruction::Store { src, address, small });
            self.home.insert(value, address);
            self.spilled += self.bytes(value.0);
        }
        self.slots.give_back(value);
    }

    /// Brings a value into a slot if it is not there.
    fn load(&mut self, value: Value, stay: &[Value]) -> Result<()> {
        let Some(address) = self.home.get(&value).copied() else {
            return Ok(());
        };
        if !self.slots.at.contains_key(&value) {
            self.take(&[value], stay)?;
            let (dst, small) = (self.slots.at[&value], self.small(value.0));
            self.code.push(Instruction::Load { dst, address, small });
        }
        Ok(())
    }

    fn op(&mut self, op: &Op, lane: usize) -> Result<()> {
        let on_lane = |regs: &[Reg]| regs.iter().map(|r| (*r, lane)).collect::<Vec<Value>>();
        let sources = on_lane(&op.sources());
        sources.iter().try_for_each(|value| self.load(*value, &sources))?;
        self.take(&on_lane(op.results()), &sources)?;
        let instruction = self.instruction(op, lane)?;
        self.code.push(instruction);
        self.slots.emitted[0] += usize::from(matches!(op, Op::Bootstrap { .. }));
        self.slots.emitted[1] += usize::from(matches!(op, Op::KeySwitch { .. }));
        Ok(())
    }

    fn instruction(&self, op: &Op, lane: usize) -> Result<Instruction> {
        let at = |reg: &Reg| self.slots.at[&(*reg, lane)];
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
                    "plaintext tables",
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
    /// [`Error::Memory`] if one instruction needs more slots than there are; [`Error::Unsupported`] for a set without classic
    /// rotation, and for an encrypted table, which slots do not hold.
    pub fn lower(&self, layout: &Layout, lanes: usize, batch: usize) -> Result<Lowered> {
        let p = &self.params;
        if p.slots > 1 || p.shared_key || p.rotation != Rotation::Classic {
            return Err(Error::unsupported(
                "lower",
                "a set with classic rotation, one slot and no shared key",
                format!("`{}`", p.name),
                "record the program for a classic set",
            ));
        }
        let waves = self.waves();
        let order = Order::all(self, &waves, lanes, batch.max(1));
        let (mut last, mut uses) = (HashMap::new(), HashMap::<Value, Vec<usize>>::new());
        for (now, (op, lane)) in order.iter().enumerate() {
            let op = &self.ops[*op];
            last.extend(op.results().iter().map(|r| ((*r, *lane), now)));
            for r in op.sources() {
                last.insert((r, *lane), now);
                uses.entry((r, *lane)).or_default().push(now);
            }
        }
        let every = |r: &Reg| (0..lanes).map(|lane| (*r, lane)).collect::<Vec<Value>>();
        last.extend(self.outputs.iter().flat_map(every).map(|value| (value, usize::MAX)));
        let (at, free, run, runs) = Default::default();
        let (emitted, window, limit) = ([0, 0], 2 * batch, layout.slots.min(Layout::MOST_SLOTS));
        let slots = Slots { at, free, run, runs, fresh: 0, limit, emitted, window };
        let mut home = HashMap::new();
        let mut address = layout.inputs;
        for value in self.inputs.iter().flat_map(every) {
            home.insert(value, address);
            address += 8 * self.width(value.0) as u64;
        }
        let (now, spilled, code) = (0, 0, vec![]);
        let mut emitter = Emitter { program: self, layout, slots, home, uses, now, spilled, code };
        let mut finished = vec![0; self.ops.len()];
        for (now, (i, lane)) in order.iter().enumerate() {
            let op = &self.ops[*i];
            emitter.now = now;
            emitter.op(op, *lane)?;
            finished[*i] = emitter.code.len();
            let mut touched = op.sources();
            touched.extend(op.results());
            touched.sort_unstable();
            touched.dedup();
            let dead = touched.into_iter().map(|r| (r, *lane)).filter(|value| last[value] == now);
            dead.for_each(|value| emitter.slots.give_back(value));
        }
        let waves = waves.iter().map(|w| w.ops.iter().map(|i| finished[*i]).max().unwrap_or(0));
        let mut waves: Vec<usize> = waves.collect();
        (1..waves.len()).for_each(|w| waves[w] = waves[w].max(waves[w - 1]));
        emitter.now = order.len();
        emitter.store(layout.outputs, lanes)?;
        let Emitter { code, slots, spilled, .. } = emitter;
        Ok(Lowered { code, waves, slots: slots.fresh, spilled })
    }
}

impl Emitter<'_> {
    /// Stores the results, and ends the program.
    fn store(&mut self, mut address: u64, lanes: usize) -> Result<()> {
        let every = |r: &Reg| (0..lanes).map(|lane| (*r, lane)).collect::<Vec<Value>>();
        for value in self.program.outputs.iter().flat_map(every) {
            self.load(value, &[value])?;
            let (src, small) = (self.slots.at[&value], self.small(value.0));
            self.code.push(Instruction::Store { src, address, small });
            address += self.bytes(value.0);
        }
        self.code.push(Instruction::Halt);
        Ok(())
    }
}
