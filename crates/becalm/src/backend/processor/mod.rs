//! The TFHE processor of `rtl/`, as a machine with the same results and the same clocks.
//!
//! A program is lowered to instructions for all lanes at once and encoded; the machine runs the binary. Ciphertexts rest in slots.
//! Arithmetic is the library's, modulo p, where every machine agrees bit for bit; clocks come from a model of fetch,
//! decoder, queues and units ([`Machine::simulate`]) that `rtl/run.py processor` holds against the RTL.
//! Cost: the arithmetic of the CPU backend, and for the clocks of a batch size once n·batch steps.

mod clocks;
mod report;
mod units;

pub use report::{Job, Report, Span, Unit};

use super::registers::not_loaded;
use super::{Backend, Info, Loaded, Runs, Session, Tfhe, TfheSetup};
use crate::bootstrap::tfhe::Shape;
use crate::bootstrap::tfhe::classic::{BootstrapKey, sample_extract};
use crate::cipher::KeyRole;
use crate::math::Modulus;
use crate::math::memory::available_memory;
use crate::math::parallel::*;
use crate::math::simd::Level;
use crate::params::{Kind, Rotation, TfheParams};
use crate::program::isa::{Instruction, Slot, decode, encode};
use crate::program::{Layout, Lowered, Need, Op, Pace, Program, Reg, TableRef, Walk};
use crate::tfhe::key_switch::{KeySwitchKey, KeySwitchScratch, KeySwitchShape};
use crate::{Error, Progress, Result};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// The parameters of the RTL that are not those of a set, and the memory it sees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// T: coefficients a clock.
    pub lanes: usize,
    /// Ciphertexts that take turns in a unit.
    pub batch: usize,
    /// Clocks from a request to its first beat, on every channel.
    pub latency: u64,
    /// Clocks from the last word of a write to its answer.
    pub write_latency: u64,
    /// Beats of a row of the key-switching key (ℓ·T words).
    pub switch_beats: usize,
    /// Beats of a row of the bootstrapping key (ℓ·(k + 1)·T words).
    pub bootstrap_beats: usize,
    /// Slots for ciphertexts: as many as instructions can name, or fewer.
    pub slots: usize,
    /// The clock that times are given for, assumed: no synthesis tool has confirmed it.
    pub megahertz: f64,
}

impl Default for Machine {
    /// Eight coefficients a clock in batches of four, at 450 MHz, the clock that the paper of the design reports for that width.
    fn default() -> Self {
        Machine {
            lanes: 8,
            batch: 4,
            latency: 100,
            write_latency: 50,
            switch_beats: 2,
            bootstrap_beats: 2,
            slots: Layout::MOST_SLOTS,
            megahertz: 450.0,
        }
    }
}

impl Machine {
    /// The machine for T coefficients a clock, with the clock that the paper of the design reports for it and a batch that
    /// keeps its pipeline full.
    ///
    /// # Errors
    /// [`Error::BadInput`] for other widths than 2, 4, 8, 16 and 32.
    pub fn with_lanes(lanes: usize) -> Result<Self> {
        let (megahertz, batch) = match lanes {
            2 => (575.0, 4),
            4 => (525.0, 4),
            8 => (450.0, 4),
            16 => (400.0, 6),
            32 => (325.0, 8),
            other => {
                let wanted = "2, 4, 8, 16 or 32 coefficients a clock";
                return Err(Error::bad_input("processor", wanted, other.to_string(), "choose one"));
            }
        };
        Ok(Machine { lanes, batch, megahertz, ..Machine::default() })
    }

    /// Bytes from one slot to the next.
    pub fn stride(&self, p: &TfheParams) -> u64 {
        let words = p.big_dimension().max(p.lwe_dimension) + self.lanes;
        8 * words.next_power_of_two() as u64
    }

    /// Clocks, occupancy and traffic of a program of the machine.
    ///
    /// # Errors
    /// [`Error::BadInput`] for instructions that have no binary; [`Error::Unsupported`] for bootstraps of more than four
    /// results or with an encrypted table, which the RTL refuses, and for a set that it cannot have.
    pub fn simulate(&self, p: &TfheParams, code: &[Instruction]) -> Result<Report> {
        self.check(p)?;
        clocks::run(self, p, code)
    }

    /// [`Machine::simulate`] for a program on `lanes` ciphertexts in each register.
    ///
    /// # Errors
    /// As there, and as [`Program::lower`].
    pub fn cost(&self, program: &Program, lanes: usize) -> Result<Report> {
        let lowered = self.lower(program, lanes)?;
        self.simulate(program.params(), &lowered.code)
    }

    /// The instructions that run a program on `lanes` ciphertexts in each register, with the addresses of the model's memory.
    ///
    /// # Errors
    /// As [`Machine::cost`].
    pub fn code(&self, program: &Program, lanes: usize) -> Result<Vec<Instruction>> {
        self.check(program.params())?;
        Ok(self.lower(program, lanes)?.code)
    }

    /// Clocks of a full batch of bootstraps, and of one of key switches, alone: from taking the batch to the answer of the
    /// last write.
    ///
    /// # Errors
    /// [`Error::WrongParams`] for a set that the machine cannot have.
    pub fn batch_clocks(&self, p: &TfheParams) -> Result<(u64, u64)> {
        self.check(p)?;
        let (s, count) = (units::Sizes::of(self, p), self.batch as u64);
        let last = |first: u64, rows: u64| first + count * rows - 1 + self.write_latency;
        let bootstrap = last(units::bootstrap(self, p, count), s.big);
        Ok((bootstrap, last(units::key_switch(self, p, count), s.small)))
    }

    fn lower(&self, program: &Program, lanes: usize) -> Result<Lowered> {
        // A terabyte for each part: the model keeps only what is written.
        let [inputs, outputs, tables, key_switch, bootstrap, spill] =
            [INPUTS, OUTPUTS, TABLES, 4 << 40, 5 << 40, 6 << 40];
        let slots = self.slots;
        let layout = Layout { inputs, outputs, tables, key_switch, bootstrap, spill, slots };
        program.lower(&layout, lanes, self.batch)
    }

    /// Whether the machine runs a program, asked before keys are made.
    ///
    /// # Errors
    /// [`Error::WrongParams`] for a set that it cannot have, with those that it can; [`Error::Unsupported`] for an instruction
    /// that it lacks, and for bootstraps of more than four results or with an encrypted table.
    pub fn require(&self, program: &Program) -> Result<()> {
        self.check(program.params())?;
        for op in program.ops() {
            match op {
                Op::MulAdd { .. } | Op::KeySwitch { .. } => {}
                Op::Bootstrap { dst, table, .. } => {
                    require_bootstrap(dst.len(), !matches!(table, TableRef::Clear(_)))?;
                }
                _ => {
                    let (wanted, got) = ("sums, key switches and bootstraps", "another one");
                    let remedy = "use the CPU backend";
                    return Err(Error::unsupported("processor", wanted, got, remedy));
                }
            }
        }
        Ok(())
    }

    fn check(&self, p: &TfheParams) -> Result<()> {
        if self.fits(p) {
            return Ok(());
        }
        let toy = p.kind == Kind::Toy;
        let like = |set: &&TfheParams| match set.kind {
            Kind::Toy => toy,
            Kind::Standard => !toy,
            _ => false,
        };
        let sets = TfheParams::all().iter().filter(like).filter(|set| self.fits(set));
        let names: Vec<&str> = sets.map(|set| &*set.name).collect();
        let remedy = format!("choose one of the sets with suffix _p that do: {}", names.join(", "));
        let wanted = format!("a classic set modulo p with N of {} or more", 16 * self.lanes);
        Err(Error::wrong_params("processor", wanted, p.name.to_string(), remedy))
    }

    fn fits(&self, p: &TfheParams) -> bool {
        let classic = p.rotation == Rotation::Classic && p.slots == 1 && !p.shared_key;
        let fits = p.modulus == Modulus::Goldilocks && p.polynomial_size >= 16 * self.lanes;
        classic && fits && p.ks_modulus_log2 == 64 && self.batch > 0
    }
}

/// Results of a bootstrap, at most: the RTL refuses more.
const MANY: usize = 4;

fn require_bootstrap(results: usize, encrypted: bool) -> Result<()> {
    if results <= MANY && !encrypted {
        return Ok(());
    }
    let table = if encrypted { "an encrypted table" } else { "a plaintext table" };
    let wanted = format!("bootstraps of plaintext tables and of at most {MANY} results");
    let got = format!("{table} and {results} results");
    let remedy = "use the CPU backend, or a set of fewer values";
    Err(Error::unsupported("processor", wanted, got, remedy))
}

/// Where arguments, results and tables begin.
const INPUTS: u64 = 1 << 40;
const OUTPUTS: u64 = 2 << 40;
const TABLES: u64 = 3 << 40;

/// The processor as a backend.
#[derive(Debug, Default)]
pub struct Processor {
    /// The machine that is built.
    pub machine: Machine,
}

impl Backend for Processor {
    fn info(&self) -> Info {
        let Machine { lanes, batch, .. } = self.machine;
        Info {
            name: "processor",
            description: format!("simulated, {lanes} coefficients a clock, batches of {batch}"),
            memory: available_memory().unwrap_or(0) as u64,
            best_batch: batch,
            pace: Pace::default(),
        }
    }

    fn tfhe(&self) -> Option<&dyn Runs<Tfhe>> {
        Some(self)
    }
}

impl Runs<Tfhe> for Processor {
    fn supports(&self, op: &Op, params: &TfheParams) -> bool {
        let known = match op {
            Op::MulAdd { .. } | Op::KeySwitch { .. } => true,
            Op::Bootstrap { table, .. } => matches!(table, TableRef::Clear(_)),
            _ => false,
        };
        known && self.machine.check(params).is_ok()
    }

    fn accepts(&self, params: &TfheParams) -> Result<()> {
        self.machine.check(params)
    }

    fn open(&self, TfheSetup { keys, needs }: TfheSetup) -> Result<Box<dyn Session>> {
        let params = keys.params().clone();
        self.machine.check(&params)?;
        let has = |need| needs.contains(&need);
        let bootstrap = has(Need::Bootstrap).then(|| BootstrapKey::new(&keys, Level::best()));
        let fill = |i: usize, out: &mut [u64]| keys.expand_key_switch(i, out);
        let key_switch = has(Need::KeySwitch)
            .then(|| KeySwitchKey::new(KeySwitchShape::of(&params), Level::best(), fill));
        Ok(Box::new(ProcessorSession {
            machine: self.machine,
            params,
            bootstrap: bootstrap.transpose()?,
            key_switch: key_switch.transpose()?,
            running: None,
        }))
    }
}

struct ProcessorSession {
    machine: Machine,
    params: Arc<TfheParams>,
    bootstrap: Option<BootstrapKey>,
    key_switch: Option<KeySwitchKey>,
    running: Option<Running>,
}

/// A program in the machine.
struct Running {
    loaded: Loaded,
    lowered: Lowered,
    /// The program that the binary holds.
    code: Vec<Instruction>,
    next: usize,
    slots: Vec<Vec<u64>>,
    /// Ciphertexts at byte addresses.
    memory: HashMap<u64, Vec<u64>>,
}

impl Session for ProcessorSession {
    fn load(
        &mut self,
        program: Arc<Program>,
        walk: Arc<Walk>,
        lanes: usize,
        _progress: Progress,
    ) -> Result<Loaded> {
        for need in program.needs() {
            let there = match need {
                Need::Bootstrap => self.bootstrap.is_some(),
                Need::KeySwitch => self.key_switch.is_some(),
                _ => false,
            };
            if !there {
                let wanted = format!("{need:?} opened");
                let remedy = "open the session with Program::needs";
                return Err(Error::unsupported("load", wanted, "a session without it", remedy));
            }
        }
        let lowered = self.machine.lower(&program, lanes)?;
        let code = decode(&encode(&lowered.code)?)?;
        let (slots, loaded) = (vec![vec![]; lowered.slots], Loaded { program, walk, lanes });
        let memory = HashMap::new();
        self.running =
            Some(Running { loaded: loaded.clone(), lowered, code, next: 0, slots, memory });
        Ok(loaded)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[u64]) -> Result<()> {
        let running = self.running.as_mut().ok_or_else(not_loaded)?;
        let (program, lanes) = (&running.loaded.program, running.loaded.lanes);
        running.loaded.check_write(at, lane, words.len())?;
        let Some(base) = argument(program, lanes, at, lane) else {
            let got = format!("register {}", at.0);
            return Err(Error::bad_input("write", "an input", got, "write inputs"));
        };
        let width = program.width(at);
        for (i, words) in words.chunks_exact(width).enumerate() {
            running.memory.insert(base + 8 * (i * width) as u64, words.to_vec());
        }
        Ok(())
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<u64>> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let (program, all) = (&running.loaded.program, running.loaded.lanes);
        let base = place(program.outputs(), program, all, at).filter(|_| lanes.end <= all);
        let Some(base) = base else {
            let got = format!("{lanes:?} of register {}", at.0);
            return Err(Error::bad_input("read", "lanes of an output", got, "read outputs"));
        };
        let mut out = vec![];
        for lane in lanes {
            let offset = base + (8 * lane * program.width(at)) as u64;
            // A result that is an argument needs no instruction, hence no wave.
            let untouched = || running.memory.get(&argument(program, all, at, lane)?);
            let words = running.memory.get(&(OUTPUTS + offset)).or_else(untouched);
            out.extend_from_slice(words.ok_or_else(unwritten)?);
        }
        Ok(out)
    }

    fn run(&mut self, waves: Range<usize>, _progress: Progress) -> Result<()> {
        let running = self.running.as_mut().ok_or_else(not_loaded)?;
        running.loaded.check_waves(&waves)?;
        let Some(last) = waves.end.checked_sub(1) else {
            return Ok(());
        };
        // With the last wave also the stores, and loads for them.
        let all = waves.end == running.loaded.walk.waves.len();
        let until = if all { running.code.len() } else { running.lowered.waves[last] };
        let mut running = self.running.take().ok_or_else(not_loaded)?;
        let result = self.execute(&mut running, until);
        self.running = Some(running);
        result
    }
}

impl ProcessorSession {
    /// Instructions one after another, runs of bootstraps and of key switches in parallel: within a run the lowering never
    /// writes what another one reads, but a run ends where one would.
    fn execute(&self, running: &mut Running, until: usize) -> Result<()> {
        while running.next < until {
            let rest = &running.code[running.next..until];
            let same =
                |i: &&Instruction| std::mem::discriminant(*i) == std::mem::discriminant(&rest[0]);
            let mut written = BTreeSet::new();
            let apart = |i: &&Instruction| match i {
                Instruction::KeySwitch { dst, src, .. }
                | Instruction::Bootstrap { dst, src, .. } => {
                    let free = !written.contains(src);
                    written.insert(*dst);
                    free
                }
                _ => false,
            };
            let count = rest.iter().take_while(same).take_while(apart).count().max(1);
            let run = rest[..count].to_vec();
            match &run[0] {
                Instruction::KeySwitch { .. } => self.key_switches(running, &run)?,
                Instruction::Bootstrap { .. } => self.bootstraps(running, &run)?,
                one => self.simple(running, one)?,
            }
            running.next += count;
        }
        Ok(())
    }

    fn simple(&self, running: &mut Running, instruction: &Instruction) -> Result<()> {
        let q = self.params.modulus;
        match instruction {
            Instruction::Load { dst, address, .. } => {
                let words = running.memory.get(address).ok_or_else(unwritten)?;
                running.slots[dst.0 as usize] = words.clone();
            }
            Instruction::Store { src, address, .. } => {
                let words = running.slots[src.0 as usize].clone();
                running.memory.insert(*address, words);
            }
            Instruction::MulAdd { dst, terms, constant, small } => {
                let role = if *small { KeyRole::Small } else { KeyRole::Big };
                let mut sum = vec![0; role.width(&self.params)];
                if let Some(body) = sum.last_mut() {
                    *body = *constant;
                }
                for (c, slot) in terms {
                    let (factor, words) = (q.from_signed(*c), slot_of(running, *slot)?);
                    for (s, x) in sum.iter_mut().zip(words) {
                        *s = q.add(*s, q.mul(*x, factor));
                    }
                }
                running.slots[dst.0 as usize] = sum;
            }
            _ => {}
        }
        Ok(())
    }

    fn key_switches(&self, running: &mut Running, run: &[Instruction]) -> Result<()> {
        let key = self.key_switch.as_ref().ok_or_else(not_loaded)?;
        let pairs = operands(run);
        let mut inputs = vec![];
        for (_, src) in &pairs {
            inputs.extend_from_slice(slot_of(running, *src)?);
        }
        let width = KeyRole::Small.width(&self.params);
        let mut out = vec![0; pairs.len() * width];
        key.apply(&inputs, &mut out, &mut KeySwitchScratch::new())?;
        for ((dst, _), words) in pairs.iter().zip(out.chunks_exact(width)) {
            running.slots[dst.0 as usize] = words.to_vec();
        }
        Ok(())
    }

    fn bootstraps(&self, running: &mut Running, run: &[Instruction]) -> Result<()> {
        let key = self.bootstrap.as_ref().ok_or_else(not_loaded)?;
        let p = &*self.params;
        let (n, glwe) = (p.polynomial_size, Shape::of(p).glwe_len());
        let width = KeyRole::Big.width(p);
        let shared = &*running;
        let results: Vec<Vec<(Slot, Vec<u64>)>> = run
            .par_iter()
            .map(|instruction| {
                let Instruction::Bootstrap { dst, src, table, indices, .. } = instruction else {
                    return Err(not_loaded());
                };
                let table = (table - TABLES) as usize / (8 * n);
                let table = &shared.loaded.program.tables()[table];
                let mut acc = vec![0; glwe];
                acc[glwe - n..].copy_from_slice(table.polynomial());
                key.rotate(&mut acc, &[slot_of(shared, *src)?], &mut key.scratch(1)?)?;
                let results = indices.iter().zip(dst.0..).map(|(index, dst)| {
                    let mut words = vec![0; width];
                    sample_extract(p.modulus, n, &acc, *index as usize, &mut words);
                    (Slot(dst), words)
                });
                Ok(results.collect())
            })
            .collect::<Result<_>>()?;
        for (dst, words) in results.into_iter().flatten() {
            running.slots[dst.0 as usize] = words;
        }
        Ok(())
    }
}

/// Bytes before a register among `all`, each of `lanes` lanes.
fn place(all: &[Reg], program: &Program, lanes: usize, at: Reg) -> Option<u64> {
    let place = all.iter().position(|r| *r == at)?;
    Some(all[..place].iter().map(|r| (8 * program.width(*r) * lanes) as u64).sum())
}

/// Where a lane of an argument lies.
fn argument(program: &Program, lanes: usize, at: Reg, lane: usize) -> Option<u64> {
    let before = place(program.inputs(), program, lanes, at)?;
    Some(INPUTS + before + (8 * lane * program.width(at)) as u64)
}

/// Destination and source.
fn operands(run: &[Instruction]) -> Vec<(Slot, Slot)> {
    let pair = |i: &Instruction| match i {
        Instruction::KeySwitch { dst, src, .. } => Some((*dst, *src)),
        _ => None,
    };
    run.iter().filter_map(pair).collect()
}

fn slot_of(running: &Running, slot: Slot) -> Result<&[u64]> {
    running
        .slots
        .get(slot.0 as usize)
        .filter(|w| !w.is_empty())
        .map(|w| &w[..])
        .ok_or_else(unwritten)
}

fn unwritten() -> Error {
    let remedy = "write the inputs, then run the waves from the first";
    Error::bad_input("run", "every input written and waves run in order", "an empty slot", remedy)
}
