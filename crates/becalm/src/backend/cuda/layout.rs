//! A program laid out on one device, once: where registers lie while they are alive, and what each wave launches on which
//! addresses. Running a wave is then to put its launches on a stream.
//!
//! Registers are one space; places of those that are not read any more are used again. Kernels read and write registers
//! where they lie, through lists of addresses; nothing is gathered but the inputs of key switches between slots.

use super::memory::{Lists, Space};
use crate::params::TfheParams;
use crate::program::{Need, Op, Operation, Program, Reg, TableRef, Walk, WaveKind};
use becalm_cuda::launch::{Extraction, GRID, LinearOp, LinearTerm};
use std::collections::BTreeMap;

/// Operations of one launch at most: blocks in the second dimension of a grid.
const OPERATIONS: usize = GRID[1] as usize;

/// One item of work that a wave puts on a stream. Bytes are places in the lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Operations that do not wait for each other, the largest of `words` words.
    Linear { ops: u64, terms: u64, count: u32, words: u64 },
    /// `jobs` key switches by one key.
    KeySwitch { need: Need, inputs: u64, outputs: u64, jobs: u32 },
    /// `jobs` bootstraps at once.
    Bootstrap { inputs: u64, tables: u64, extractions: u64, count: u32, jobs: u32 },
}

/// The place of every register, and the buffers beside them.
pub(super) struct Places {
    /// Byte of each register; nothing for one that is never written.
    pub registers: Vec<u64>,
    /// Byte of the inputs of each wave's key switches between slots.
    assembled: Vec<u64>,
    /// Bytes of all.
    pub bytes: u64,
}

/// Bytes of a register.
pub(super) fn register_bytes(program: &Program, reg: Reg, lanes: usize) -> u64 {
    (program.width(reg) * lanes * 8) as u64
}

/// Words of the input of a key switch between slots.
fn assembled_width(params: &TfheParams, op: &Op) -> usize {
    let big = params.big_dimension();
    match op {
        Op::Pack { .. } => params.slots * (big + 1),
        Op::SlotMap { .. } => big + 2 * params.slots,
        _ => 0,
    }
}

/// Places for the registers of a program.
pub(super) fn places(program: &Program, walk: &Walk, lanes: usize) -> Places {
    let mut space = Space::default();
    let mut registers = vec![0; program.registers()];
    let bytes = |reg: &Reg| register_bytes(program, *reg, lanes);
    for reg in program.inputs() {
        registers[reg.0 as usize] = space.take(bytes(reg));
    }
    let mut assembled = vec![0; walk.waves.len()];
    for (w, wave) in walk.waves.iter().enumerate() {
        let ops = || wave.ops.iter().map(|i| &program.ops()[*i]);
        let elsewhere = wave.elsewhere.iter().map(|i| &program.ops()[*i]);
        for reg in ops().chain(elsewhere).flat_map(Op::results) {
            registers[reg.0 as usize] = space.take(bytes(reg));
        }
        let width: usize = ops().map(|op| assembled_width(program.params(), op)).sum();
        assembled[w] = space.take((width * lanes * 8) as u64);
        // Nothing that the wave reads is given back before all that it writes has its place.
        space.give(assembled[w], (width * lanes * 8) as u64);
        for reg in &walk.dead_after[w] {
            space.give(registers[reg.0 as usize], bytes(reg));
        }
    }
    Places { registers, assembled, bytes: space.peak() }
}

/// Builds the lists of a program. Registers are bytes of their space until the lists are placed.
pub(super) struct Builder<'a> {
    program: &'a Program,
    walk: &'a Walk,
    places: &'a Places,
    /// Lanes of every register.
    lanes: usize,
    /// Bootstraps, and key switches by each key, at once.
    tile: u32,
    switches: &'a BTreeMap<Need, u32>,
    lists: Lists,
    /// Where the polynomials of tables lie in the lists.
    tables: BTreeMap<u32, u64>,
}

impl<'a> Builder<'a> {
    /// Of `lanes` ciphertexts in a register, `tile` bootstraps at once and so many key switches by each key.
    pub fn new(
        program: &'a Program,
        walk: &'a Walk,
        places: &'a Places,
        lanes: usize,
        tile: u32,
        switches: &'a BTreeMap<Need, u32>,
    ) -> Self {
        let (lists, tables) = (Lists::default(), BTreeMap::new());
        Builder { program, walk, places, lanes, tile, switches, lists, tables }
    }

    /// The lists, and the steps of every wave.
    pub fn build(mut self) -> (Lists, Vec<Vec<Step>>) {
        let walk = self.walk;
        let steps = walk.waves.iter().enumerate().map(|(w, wave)| {
            let ops: Vec<&Op> = wave.ops.iter().map(|i| &self.program.ops()[*i]).collect();
            match wave.kind {
                WaveKind::Linear => self.linear(&ops),
                WaveKind::KeySwitch => self.key_switches(&ops),
                WaveKind::Slots => self.between_slots(w, &ops),
                WaveKind::Bootstrap => self.bootstraps(&ops),
                // No instruction of TFHE is in such a wave.
                WaveKind::Rlwe => vec![],
            }
        });
        let steps = steps.collect();
        (self.lists, steps)
    }

    /// The byte of a lane of a register.
    fn lane(&self, reg: Reg, lane: usize) -> u64 {
        let width = self.program.width(reg) * 8;
        self.places.registers[reg.0 as usize] + (lane * width) as u64
    }

    /// Appends addresses in the space of registers.
    fn push_places(&mut self, places: Vec<u64>) -> u64 {
        let count = places.len();
        let at = self.lists.push(places);
        self.lists.relocate_registers(at, 1, count);
        at
    }

    /// Linear instructions in order: those that wait for each other in separate launches.
    fn linear(&mut self, ops: &[&Op]) -> Vec<Step> {
        let mut depth: BTreeMap<Reg, usize> = BTreeMap::new();
        let mut levels: Vec<Vec<&Op>> = vec![];
        for op in ops {
            let sources = op.sources();
            let level = sources.iter().filter_map(|r| depth.get(r)).max().map_or(0, |l| l + 1);
            op.results().iter().for_each(|r| _ = depth.insert(*r, level));
            levels.resize(levels.len().max(level + 1), vec![]);
            levels[level].push(op);
        }
        let mut steps = vec![];
        for level in levels {
            let mut batch = Batch::default();
            for op in level {
                self.linear_op(op, &mut batch);
            }
            steps.extend(self.launches(batch));
        }
        steps
    }

    fn linear_op(&mut self, op: &Op, batch: &mut Batch) {
        let (dst, constants) = match op {
            Op::MulAdd { dst, constant: 0, .. } | Op::Extract { dst, .. } => (*dst, vec![]),
            Op::MulAdd { dst, constant, .. } => (*dst, vec![*constant; self.program.bodies(*dst)]),
            Op::AddSlots { dst, constants, .. } => (*dst, constants.clone()),
            // Waves of another kind.
            Op::KeySwitch { .. } | Op::Bootstrap { .. } | Op::Pack { .. } | Op::SlotMap { .. } => {
                return;
            }
        };
        let q = self.program.params().modulus;
        let terms: Vec<(u64, Reg)> = match op {
            Op::MulAdd { terms, .. } => {
                terms.iter().map(|(f, r)| (q.from_signed(*f), *r)).collect()
            }
            _ => op.sources().iter().map(|r| (1, *r)).collect(),
        };
        let width = self.program.width(dst) as u32;
        let shape = LinearOp {
            dst: self.lane(dst, 0),
            rows: self.lanes as u32,
            width,
            bodies: self.program.bodies(dst) as u32,
            dst_stride: width,
            src_stride: terms.first().map_or(width, |t| self.program.width(t.1) as u32),
            body_shift: if let Op::Extract { slot, .. } = op { *slot } else { 0 },
            ..LinearOp::default()
        };
        let terms = terms.iter().map(|(factor, r)| (self.lane(*r, 0), *factor));
        let terms: Vec<(u64, u64)> = terms.collect();
        let constants = (!constants.is_empty()).then(|| self.lists.push(constants));
        batch.push(shape, constants, terms);
    }

    /// Launches of a batch of operations.
    fn launches(&mut self, batch: Batch) -> Vec<Step> {
        let terms = self.lists.push(batch.terms.iter().flat_map(LinearTerm::words));
        self.lists.relocate_registers(terms, 2, batch.terms.len());
        let mut steps = vec![];
        for ops in batch.ops.chunks(OPERATIONS) {
            let at = self.lists.push(ops.iter().flat_map(|(op, _)| op.words()));
            self.lists.relocate_registers(at, 6, ops.len());
            for (i, (_, constants)) in ops.iter().enumerate() {
                if constants.is_some() {
                    self.lists.relocate(at + 48 * i as u64 + 8);
                }
            }
            let words = ops.iter().map(|(op, _)| u64::from(op.rows) * u64::from(op.width)).max();
            let (count, words) = (ops.len() as u32, words.unwrap_or(0));
            steps.push(Step::Linear { ops: at, terms, count, words });
        }
        steps
    }

    fn key_switches(&mut self, ops: &[&Op]) -> Vec<Step> {
        let lanes = self.lanes;
        let of = |regs: Vec<Reg>| -> Vec<u64> {
            regs.iter().flat_map(|r| (0..lanes).map(|l| self.lane(*r, l))).collect()
        };
        let inputs = of(ops.iter().map(|op| op.sources()[0]).collect());
        let outputs = of(ops.iter().map(|op| op.results()[0]).collect());
        self.switch(Need::KeySwitch, &inputs, &outputs)
    }

    /// Key switches by one key.
    fn switch(&mut self, need: Need, inputs: &[u64], outputs: &[u64]) -> Vec<Step> {
        let most = self.switches.get(&need).map_or(1, |most| *most as usize);
        let parts = inputs.chunks(most).zip(outputs.chunks(most));
        let steps = parts.map(|(inputs, outputs)| {
            let jobs = inputs.len() as u32;
            let inputs = self.push_places(inputs.to_vec());
            let outputs = self.push_places(outputs.to_vec());
            Step::KeySwitch { need, inputs, outputs, jobs }
        });
        steps.collect()
    }

    /// Packing and maps: inputs are put together first, then each has its own key.
    fn between_slots(&mut self, w: usize, ops: &[&Op]) -> Vec<Step> {
        let params = self.program.params().clone();
        let (lanes, big, slots) = (self.lanes, params.big_dimension() as u32, params.slots as u32);
        let mut at = self.places.assembled[w];
        let (mut batch, mut switches) = (Batch::default(), vec![]);
        for op in ops {
            let width = assembled_width(&params, op) as u32;
            let mut copy = |to: u32, from: Option<u64>, words: u32, src_stride: u32| {
                let shape = LinearOp {
                    dst: at + u64::from(to) * 8,
                    rows: lanes as u32,
                    width: words,
                    dst_stride: width,
                    src_stride,
                    ..LinearOp::default()
                };
                batch.push(shape, None, from.into_iter().map(|from| (from, 1)).collect());
            };
            for (t, src) in op.sources().iter().enumerate() {
                let (t, src) = (t as u32, self.lane(*src, 0));
                if let Op::SlotMap { .. } = op {
                    copy(0, Some(src), big + slots, big + slots);
                    copy(big + slots, None, slots, 0);
                } else {
                    copy(t * big, Some(src), big, big + 1);
                    copy(slots * big + t, Some(src + u64::from(big) * 8), 1, big + 1);
                }
            }
            let inputs: Vec<u64> =
                (0..lanes).map(|l| at + l as u64 * u64::from(width) * 8).collect();
            let outputs: Vec<u64> = (0..lanes).map(|l| self.lane(op.results()[0], l)).collect();
            if let Some(need) = op.need() {
                switches.extend(self.switch(need, &inputs, &outputs));
            }
            at += lanes as u64 * u64::from(width) * 8;
        }
        let mut steps = self.launches(batch);
        steps.extend(switches);
        steps
    }

    fn bootstraps(&mut self, ops: &[&Op]) -> Vec<Step> {
        let lanes = self.lanes;
        let items: Vec<(&Op, usize)> =
            ops.iter().flat_map(|op| (0..lanes).map(move |lane| (*op, lane))).collect();
        let tiles = items.chunks(self.tile.max(1) as usize);
        tiles.map(|tile| self.tile(tile)).collect()
    }

    fn tile(&mut self, items: &[(&Op, usize)]) -> Step {
        let params = self.program.params().clone();
        let (mut inputs, mut extractions, mut tables) = (vec![], vec![], vec![]);
        for (job, (op, lane)) in items.iter().enumerate() {
            let Op::Bootstrap { src, table, dst } = op else { continue };
            inputs.push(self.lane(*src, *lane));
            for column in 0..params.glwe_dimension + params.slots {
                tables.push(self.polynomial(table, column, *lane));
            }
            let outputs = self.program.outputs_of(table);
            for (dst, output) in dst.iter().zip(&*outputs) {
                let (out, index) = (self.lane(*dst, *lane), output.index as u32);
                extractions.push(Extraction { out, job: job as u32, index });
            }
        }
        let (jobs, count) = (inputs.len() as u32, extractions.len() as u32);
        let inputs = self.push_places(inputs);
        let at = self.lists.push(tables.iter().map(|column| column.byte()));
        for (i, column) in tables.iter().enumerate() {
            let place = at + 8 * i as u64;
            match column {
                Column::Zeros => {}
                Column::Listed(_) => self.lists.relocate(place),
                Column::Register(_) => self.lists.relocate_registers(place, 1, 1),
            }
        }
        let extractions = self.lists.push(extractions.iter().flat_map(Extraction::words));
        self.lists.relocate_registers(extractions, 2, count as usize);
        Step::Bootstrap { inputs, tables: at, extractions, count, jobs }
    }

    /// Where a column of a table lies.
    fn polynomial(&mut self, table: &TableRef, column: usize, lane: usize) -> Column {
        let params = self.program.params();
        let slot = column.checked_sub(params.glwe_dimension);
        let index = match (table, slot) {
            (TableRef::Encrypted(reg, _), _) => {
                let byte = (column * params.polynomial_size * 8) as u64;
                return Column::Register(self.lane(*reg, lane) + byte);
            }
            (TableRef::Clear(t), Some(_)) => Some(*t),
            (TableRef::Slots(all), Some(slot)) => all.get(slot).copied(),
            _ => None,
        };
        let Some(index) = index else { return Column::Zeros };
        if let Some(at) = self.tables.get(&index) {
            return Column::Listed(*at);
        }
        let Some(table) = self.program.tables().get(index as usize) else { return Column::Zeros };
        let at = self.lists.push(table.polynomial().iter().copied());
        self.tables.insert(index, at);
        Column::Listed(at)
    }
}

/// A polynomial of a table: none, or a byte of the lists or of the space of registers.
enum Column {
    Zeros,
    Listed(u64),
    Register(u64),
}

impl Column {
    /// The bytes in the list before the column is placed.
    fn byte(&self) -> u64 {
        match self {
            Column::Zeros => 0,
            Column::Listed(byte) | Column::Register(byte) => *byte,
        }
    }
}

/// Linear operations of one launch: each with the byte of its constants in the lists.
#[derive(Default)]
struct Batch {
    ops: Vec<(LinearOp, Option<u64>)>,
    terms: Vec<LinearTerm>,
}

impl Batch {
    fn push(&mut self, op: LinearOp, constants: Option<u64>, terms: Vec<(u64, u64)>) {
        let (first_term, count) = (self.terms.len() as u32, terms.len() as u32);
        let op = LinearOp { first_term, terms: count, constants: constants.unwrap_or(0), ..op };
        self.ops.push((op, constants));
        self.terms.extend(terms.into_iter().map(|(src, factor)| LinearTerm { src, factor }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::Encoding;
    use std::sync::Arc;

    /// A batch of more key switches than the digits have room for becomes several launches.
    #[test]
    fn key_switches_are_cut_where_their_room_ends() {
        let params = Arc::new(TfheParams::named("toy_1_1").unwrap().clone());
        let mut program = Program::new(params.clone());
        let x = program.input(Encoding::of(&params));
        let y = program.key_switch(x).unwrap();
        program.output(y).unwrap();
        let walk = program.walk();
        let lanes = 2 * 64 + 3;
        let switches = BTreeMap::from([(Need::KeySwitch, 64)]);
        let places = places(&program, &walk, lanes);
        let (lists, steps) = Builder::new(&program, &walk, &places, lanes, 1, &switches).build();
        let jobs = steps.iter().flatten().map(|step| match step {
            Step::KeySwitch { jobs, .. } => *jobs,
            other => panic!("{other:?}"),
        });
        let jobs: Vec<u32> = jobs.collect();
        assert_eq!(jobs, [64, 64, 3]);
        // An address for the input and one for the output of each.
        assert_eq!(lists.bytes(), lanes as u64 * 16);
    }
}
