//! A program on devices: each with its share, everything in the order of its stream 0, bundles ahead on stream 1.
//!
//! With at least as many lanes as devices each device has its own lanes and never hears of the others. With fewer, every
//! device holds all registers, runs its part of each wide wave, and the results are passed on through the host.

use super::keys::{DeviceKeys, require};
use super::layout::{Builder, Places, Share, Step, places, register_bytes};
use super::memory::{Block, Recording};
use super::plan::{Plan, Tuning, bundle_bytes, plan, slices};
use super::{launch, no_kernel, refused};
use crate::backend::registers::{check_read, check_write};
use crate::backend::{Info, Loaded, Session};
use crate::cipher::Ciphertext;
use crate::math::parallel::*;
use crate::params::{ModulusSwitch, TfheParams};
use crate::program::{Need, Operation, Program, Reg, Walk, WaveKind};
use crate::{Error, Result};
use becalm_cuda::launch::Launch;
use becalm_cuda::{Argument, Device, Ring};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sessions of one backend have the same streams, and what one records must be its own: they ask the devices by turns.
pub(super) type Turn = Arc<Mutex<()>>;

/// Waits until no other session asks.
pub(super) fn taken(turn: &Turn) -> MutexGuard<'_, ()> {
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keys on devices, and a program.
pub(super) struct CudaSession {
    pub info: Info,
    pub devices: Vec<Arc<dyn Device>>,
    pub keys: Vec<DeviceKeys>,
    pub params: Arc<TfheParams>,
    pub ring: Ring,
    pub tuning: Tuning,
    pub turn: Turn,
    pub running: Option<Running>,
    /// Why a wave was not recorded or replayed, the first time.
    pub unrecorded: Option<String>,
}

/// A loaded program.
pub(super) struct Running {
    loaded: Loaded,
    alive: Vec<bool>,
    seats: Vec<Seat>,
    /// For each wave and position, which seat runs it; empty where every seat has its own lanes.
    owners: Vec<Vec<usize>>,
}

/// How a wave was put on a device so far. Kernels are loaded as they are launched for the first time, and most programs run
/// once: a wave that comes again is recorded, and then replayed.
enum Wave {
    New,
    Known,
    Recorded(Recording),
    /// A wave that could not be recorded or replayed is launched from then on, and not recorded again.
    Plain,
}

/// A program's share on one device.
struct Seat {
    // Before the memory that they know.
    waves: Vec<Wave>,
    lanes: Range<usize>,
    plan: Plan,
    places: Places,
    space: Block,
    lists: Block,
    scratch: Block,
    steps: Vec<Vec<Step>>,
}

/// Where a bootstrap's intermediate values lie.
struct Scratch {
    exponents: u64,
    accumulators: u64,
    bundles: [u64; 2],
    end: u64,
}

impl Session for CudaSession {
    fn info(&self) -> Option<Info> {
        Some(self.info.clone())
    }

    /// The driver's state does not pass to a child.
    fn survives_fork(&self) -> bool {
        false
    }

    fn remark(&self) -> Option<String> {
        let recording = self.unrecorded.as_ref();
        let recording = recording.map(|why| format!("a wave is not recorded as a graph: {why}"));
        let devices = self.devices.iter().filter_map(|d| d.remark());
        let mut all: Vec<String> = recording.into_iter().chain(devices).collect();
        all.dedup();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn load(&mut self, program: Arc<Program>, walk: Arc<Walk>, lanes: usize) -> Result<Loaded> {
        for need in program.needs() {
            let key = &self.keys[0];
            let there = match need {
                Need::Bootstrap => key.bootstrap.is_some(),
                other => key.switches.contains_key(&other),
            };
            if !there {
                return Err(Error::unsupported(
                    "load",
                    format!("{need} opened"),
                    "a session without it",
                    "open the session with Program::needs",
                ));
            }
        }
        let loaded = Loaded { program, walk, lanes };
        let turn = self.turn.clone();
        let _turn = taken(&turn);
        // A program that is run again keeps its places.
        let again = |r: &Running| {
            Arc::ptr_eq(&r.loaded.program, &loaded.program) && r.loaded.lanes == lanes
        };
        let running = match self.running.take().filter(again) {
            Some(r) => Running { loaded: loaded.clone(), alive: vec![false; r.alive.len()], ..r },
            None => self.lay_out(loaded.clone())?,
        };
        self.running = Some(running);
        Ok(loaded)
    }

    fn write(&mut self, at: Reg, lane: usize, ct: &Ciphertext) -> Result<()> {
        let _turn = taken(&self.turn);
        let running = self.running.as_mut().ok_or_else(not_loaded)?;
        let words = check_write(&running.loaded, at, lane, ct)?;
        let width = running.loaded.program.width(at);
        let wanted = lane..lane + words.len() / width;
        for seat in &running.seats {
            let here = wanted.start.max(seat.lanes.start)..wanted.end.min(seat.lanes.end);
            if here.is_empty() {
                continue;
            }
            // Until all of it is there.
            running.alive[at.0 as usize] = false;
            let words = &words[(here.start - lane) * width..(here.end - lane) * width];
            let byte = (here.start - seat.lanes.start) * width * 8;
            let place = seat.places.registers[at.0 as usize] + byte as u64;
            seat.space.upload("write", place, bytemuck::cast_slice(words))?;
        }
        running.alive[at.0 as usize] = true;
        Ok(())
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<u64>> {
        let _turn = taken(&self.turn);
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let alive = running.alive.get(at.0 as usize).copied().unwrap_or(false);
        check_read(&running.loaded, at, alive, &lanes)?;
        let width = running.loaded.program.width(at);
        let mut words = vec![0u64; lanes.len() * width];
        let (mut rest, mut parts) = (words.as_mut_slice(), vec![]);
        // Seats have lanes in their order; without separate lanes the first has all.
        for seat in &running.seats {
            let here = lanes.start.max(seat.lanes.start)..lanes.end.min(seat.lanes.end);
            let count = here.len() * width;
            if count == 0 || rest.is_empty() {
                continue;
            }
            let (now, later) = std::mem::take(&mut rest).split_at_mut(count);
            let byte = (here.start - seat.lanes.start) * width * 8;
            let place = seat.places.registers[at.0 as usize] + byte as u64;
            parts.push((seat, vec![(place, bytemuck::cast_slice_mut(now))]));
            rest = later;
        }
        fetch("read", parts)?;
        Ok(words)
    }

    fn run(&mut self, loaded: &Loaded, waves: Range<usize>) -> Result<()> {
        let turn = self.turn.clone();
        let _turn = taken(&turn);
        waves.into_iter().try_for_each(|w| self.run_wave(loaded, w))
    }

    fn wait(&self) -> Result<()> {
        let _turn = taken(&self.turn);
        let wait = |d: &Arc<dyn Device>| d.wait().map_err(|f| refused("run", d.as_ref(), f));
        self.devices.iter().try_for_each(wait)
    }
}

impl Drop for CudaSession {
    fn drop(&mut self) {
        let turn = self.turn.clone();
        let _turn = taken(&turn);
        self.running = None;
        self.keys.clear();
    }
}

impl Running {
    fn require_alive(&self, regs: &[Reg]) -> Result<()> {
        match regs.iter().find(|r| !self.alive[r.0 as usize]) {
            None => Ok(()),
            Some(r) => Err(Error::bad_input(
                "run",
                "every input written and waves run in order",
                format!("register {} empty", r.0),
                "write the inputs, then run the waves from the first",
            )),
        }
    }
}

impl CudaSession {
    /// One wave on every device. Its results are alive when all of it was put on them, and not before.
    fn run_wave(&mut self, loaded: &Loaded, w: usize) -> Result<()> {
        let ops = loaded.walk.waves[w].ops.iter().map(|i| &loaded.program.ops()[*i]);
        let running = self.running.as_mut().ok_or_else(not_loaded)?;
        let mut made: BTreeSet<Reg> = BTreeSet::new();
        for op in ops {
            let before: Vec<Reg> = op.sources().into_iter().filter(|r| !made.contains(r)).collect();
            running.require_alive(&before)?;
            made.extend(op.results());
        }
        made.iter().for_each(|r| running.alive[r.0 as usize] = false);
        for s in 0..running.seats.len() {
            self.again(s, w)?;
        }
        self.pass_on(w)?;
        let running = self.running.as_mut().ok_or_else(not_loaded)?;
        made.iter().for_each(|r| running.alive[r.0 as usize] = true);
        for reg in &loaded.walk.dead_after[w] {
            running.alive[reg.0 as usize] = false;
        }
        Ok(())
    }

    /// Steps of a rotation.
    fn groups(&self) -> u32 {
        (self.params.lwe_dimension / self.params.rotation.group_bits()) as u32
    }

    /// Shares a program out and lays it down on every device.
    fn lay_out(&self, loaded: Loaded) -> Result<Running> {
        let (count, lanes) = (self.devices.len(), loaded.lanes);
        let apart = lanes >= count;
        let seats = if apart { count.min(lanes.max(1)) } else { count };
        let owners = if apart { vec![] } else { self.owners(&loaded) };
        let widest = |kind: WaveKind| {
            let waves = loaded.walk.waves.iter().filter(|wave| wave.kind == kind);
            waves.map(|wave| wave.ops.len()).max().unwrap_or(0)
        };
        let bootstraps = widest(WaveKind::Bootstrap);
        let mut laid = vec![];
        for s in 0..seats {
            let here = if apart { lanes * s / seats..lanes * (s + 1) / seats } else { 0..lanes };
            laid.push(self.seat(&loaded, s, here, bootstraps, &owners)?);
        }
        let alive = vec![false; loaded.program.registers()];
        Ok(Running { loaded, alive, seats: laid, owners })
    }

    /// Which device runs which instruction of each wave: as many devices as the wave fills.
    fn owners(&self, loaded: &Loaded) -> Vec<Vec<usize>> {
        let of = |wave: &crate::program::Wave| {
            let (count, jobs) = (wave.ops.len(), wave.ops.len() * loaded.lanes);
            let room = (self.info.best_batch / self.devices.len() / 4).max(1);
            let used = jobs.div_ceil(room).clamp(1, self.devices.len()).min(count.max(1));
            (0..count).map(|i| i * used / count).collect()
        };
        loaded.walk.waves.iter().map(of).collect()
    }

    fn seat(
        &self,
        loaded: &Loaded,
        s: usize,
        lanes: Range<usize>,
        bootstraps: usize,
        owners: &[Vec<usize>],
    ) -> Result<Seat> {
        let device = &self.devices[s];
        let jobs = (bootstraps * lanes.len()).max(1) as u32;
        let plan = plan(device.info(), &self.ring, jobs, self.groups(), &self.tuning)
            .ok_or_else(|| no_kernel("load", device.as_ref(), &self.ring))?;
        let (program, walk) = (&*loaded.program, &*loaded.walk);
        let places = places(program, walk, lanes.len());
        let scratch = if bootstraps == 0 { 0 } else { self.scratch(0, &plan).end };
        // Before the lists, which take as long to build as the batch is large.
        require("load", device.as_ref(), places.bytes + scratch)?;
        let mine = |w: usize, i: usize| owners.get(w).is_none_or(|owners| owners[i] == s);
        let share = Share { lanes: lanes.len(), mine: &mine, tile: plan.tile };
        let (lists, steps) = Builder::new(program, walk, &places, share).build();
        require("load", device.as_ref(), places.bytes + scratch + lists.bytes())?;
        let space = Block::new(device, "load", places.bytes)?;
        let scratch = Block::new(device, "load", scratch)?;
        let lists = lists.place(device, "load", space.at())?;
        let waves = steps.iter().map(|_| Wave::New).collect();
        Ok(Seat { waves, lanes, plan, places, space, lists, scratch, steps })
    }

    /// Places in the scratch memory at an address.
    fn scratch(&self, at: u64, plan: &Plan) -> Scratch {
        let p = &self.params;
        let place = |at: u64, bytes: usize| at + (bytes as u64).next_multiple_of(256);
        let tile = plan.tile as usize;
        let accumulators = place(at, tile * (p.ggsw_count() + p.slots) * 4);
        let first = place(accumulators, self.ring.accumulator_bytes(tile as u64) as usize);
        let chunk = match self.ring.group_ggsws {
            0 => 0,
            _ => tile * plan.chunk as usize * bundle_bytes(&self.ring) as usize,
        };
        let second = place(first, chunk);
        let end = place(second, chunk);
        Scratch { exponents: at, accumulators, bundles: [first, second], end }
    }

    /// Puts a wave on a seat's device, as one launch if it has many and came before. A recording saves time and no more: a
    /// device that refuses one has the launches of it, which say what is wrong if the device is.
    fn again(&mut self, s: usize, w: usize) -> Result<()> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let seat = &running.seats[s];
        let few = self.launches(seat, w) < self.tuning.recorded;
        let now = match &seat.waves[w] {
            Wave::Recorded(recording) => match recording.replay("run") {
                Ok(()) => return Ok(()),
                Err(e) => Err(e),
            },
            Wave::Known => self.recorded(s, w).map(Wave::Recorded),
            Wave::New if !few => {
                self.wave(s, w)?;
                Ok(Wave::Known)
            }
            Wave::New | Wave::Plain => return self.wave(s, w),
        };
        let now = now.unwrap_or_else(|e| {
            self.unrecorded.get_or_insert_with(|| e.to_string());
            Wave::Plain
        });
        let plain = matches!(now, Wave::Plain);
        if let Some(running) = &mut self.running {
            running.seats[s].waves[w] = now;
        }
        if plain { self.wave(s, w) } else { Ok(()) }
    }

    /// A wave of a seat, recorded and replayed once.
    fn recorded(&self, s: usize, w: usize) -> Result<Recording> {
        let recording = Recording::of(&self.devices[s], "run", || self.wave(s, w))?;
        recording.replay("run")?;
        Ok(recording)
    }

    /// Launches of a wave on a seat's device.
    fn launches(&self, seat: &Seat, w: usize) -> u32 {
        let of = |step: &Step| match step {
            Step::Linear { .. } => 1,
            Step::KeySwitch { .. } => 2,
            Step::Bootstrap { .. } if self.ring.group_ggsws == 0 => 4,
            Step::Bootstrap { .. } => 3 + 2 * self.groups().div_ceil(seat.plan.chunk),
        };
        seat.steps[w].iter().map(of).sum()
    }

    /// Puts a wave on a seat's device.
    fn wave(&self, s: usize, w: usize) -> Result<()> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let seat = &running.seats[s];
        let device = self.devices[s].as_ref();
        let lists = seat.lists.at();
        let at = |byte: u64| Argument::Address(lists + byte);
        for step in &seat.steps[w] {
            match step {
                Step::Linear { ops, terms, count, words } => {
                    let shape = Launch::linear(*count, *words);
                    let arguments = [at(*ops), at(*terms)];
                    // SAFETY: the lists hold `count` operations on registers of this seat.
                    unsafe { launch("run", device, 0, &self.ring, &shape, &arguments)? };
                }
                Step::KeySwitch { need, inputs, outputs, jobs } => {
                    let key = self.keys[s].switches.get(need).ok_or_else(not_loaded)?;
                    let (inputs, outputs) = (at(*inputs), at(*outputs));
                    let shape = Argument::KeySwitch(key.shape);
                    let start = Launch::key_switch_start(*jobs);
                    let slices = slices(device.info(), &key.shape, *jobs);
                    let add = Launch::key_switch(&key.shape, *jobs, slices);
                    let words = Argument::Address(key.words.at());
                    let all = [outputs, inputs, words, shape, Argument::U32(*jobs)];
                    // SAFETY: `jobs` addresses in each list, of ciphertexts of the key's shape.
                    unsafe {
                        launch("run", device, 0, &self.ring, &start, &[outputs, inputs, shape])?;
                        launch("run", device, 0, &self.ring, &add, &all)?;
                    }
                }
                Step::Bootstrap { .. } => self.tile(s, seat, step)?,
            }
        }
        Ok(())
    }

    /// Modulus switch, tables, rotation, extraction of one tile.
    fn tile(&self, s: usize, seat: &Seat, step: &Step) -> Result<()> {
        let Step::Bootstrap { inputs, tables, extractions, count, jobs } = step else {
            return Ok(());
        };
        let (device, ring, p) = (self.devices[s].as_ref(), &self.ring, &self.params);
        let scratch = self.scratch(seat.scratch.at(), &seat.plan);
        let at = |byte: u64| Argument::Address(seat.lists.at() + byte);
        let (exponents, acc) =
            (Argument::Address(scratch.exponents), Argument::Address(scratch.accumulators));
        let centered = u32::from(p.modulus_switch == ModulusSwitch::Centered);
        let (dimension, width) = (p.lwe_dimension as u32, (p.ggsw_count() + p.slots) as u32);
        let switch = [exponents, at(*inputs), Argument::U32(dimension), Argument::U32(centered)];
        let load = [acc, at(*tables), exponents, Argument::U32(width)];
        // SAFETY: `jobs` addresses of small ciphertexts and of columns of tables; scratch holds a tile.
        unsafe {
            launch("run", device, 0, ring, &Launch::modulus_switch(*jobs), &switch)?;
            launch("run", device, 0, ring, &Launch::load_table(*jobs), &load)?;
        }
        self.rotate(s, seat, &scratch, *jobs)?;
        let extract = Launch::sample_extract(*count);
        // SAFETY: `count` extractions of these accumulators into registers of this seat.
        unsafe { launch("run", device, 0, ring, &extract, &[at(*extractions), acc]) }
    }

    /// Every step of a tile. While a chunk rotates on stream 0 the bundles of the next are made on stream 1.
    fn rotate(&self, s: usize, seat: &Seat, scratch: &Scratch, jobs: u32) -> Result<()> {
        let (device, ring) = (self.devices[s].as_ref(), &self.ring);
        let key = self.keys[s].bootstrap.as_ref().ok_or_else(not_loaded)?.at();
        let fail = |f| refused("run", device, f);
        let roots = Argument::Address(self.keys[s].roots.at());
        let width = (self.params.ggsw_count() + self.params.slots) as u32;
        let (groups, chunk) = (self.groups(), seat.plan.chunk);
        let steps = |first: u32| chunk.min(groups - first);
        let grouped = ring.group_ggsws > 0;
        let shape = Launch::rotate(ring, seat.plan.path, jobs)
            .ok_or_else(|| no_kernel("run", device, ring))?;
        if grouped {
            device.follow(1, 0).map_err(fail)?;
            self.bundles(s, seat, scratch, jobs, 0)?;
        }
        for c in 0..groups.div_ceil(chunk) {
            let first = c * chunk;
            let (at, stride) = match grouped {
                true => (
                    scratch.bundles[c as usize % 2],
                    u64::from(steps(first)) * bundle_bytes(ring) / u64::from(ring.point_bytes()),
                ),
                false => (key + u64::from(first) * bundle_bytes(ring), 0),
            };
            if grouped {
                // Stream 1 waits for the rotation before this one, whose bundles it will overwrite, not for this one.
                device.follow(1, 0).map_err(fail)?;
                device.follow(0, 1).map_err(fail)?;
            }
            let arguments = [
                Argument::Address(scratch.accumulators),
                Argument::Address(at),
                Argument::U64(stride),
                self.exponents(scratch, first),
                Argument::U32(width),
                Argument::U32(steps(first)),
                Argument::U32(jobs),
                roots,
            ];
            // SAFETY: accumulators and exponents of `jobs`, the GGSW or bundles of these steps.
            unsafe { launch("run", device, 0, ring, &shape, &arguments)? };
            if grouped && (c + 1) * chunk < groups {
                self.bundles(s, seat, scratch, jobs, c + 1)?;
            }
        }
        Ok(())
    }

    /// Where the exponents of a group are.
    fn exponents(&self, scratch: &Scratch, group: u32) -> Argument {
        let values = group * self.ring.group_ggsws.max(1);
        Argument::Address(scratch.exponents + u64::from(values) * 4)
    }

    /// The bundles of chunk `c`, on stream 1.
    fn bundles(&self, s: usize, seat: &Seat, scratch: &Scratch, jobs: u32, c: u32) -> Result<()> {
        let (device, ring) = (self.devices[s].as_ref(), &self.ring);
        let (first, slot) = (c * seat.plan.chunk, scratch.bundles[c as usize % 2]);
        let key = self.keys[s].bootstrap.as_ref().ok_or_else(not_loaded)?.at();
        let key = key + u64::from(first * ring.group_ggsws) * bundle_bytes(ring);
        let arguments = [
            Argument::Address(slot),
            Argument::Address(key),
            self.exponents(scratch, first),
            Argument::U32((self.params.ggsw_count() + self.params.slots) as u32),
            Argument::U32(jobs),
            Argument::Address(self.keys[s].roots.at()),
        ];
        let groups = seat.plan.chunk.min(self.groups() - first);
        let tensor = seat.plan.tensor.then(|| Launch::bundle_tensor(ring, groups, jobs)).flatten();
        let shape = tensor.unwrap_or_else(|| Launch::bundle(ring, groups, jobs));
        // SAFETY: the GGSW of these groups, and room for a bundle of each job and group; stream 1 follows stream 0.
        unsafe { launch("run", device, 1, ring, &shape, &arguments) }
    }

    /// Copies the results of one device in a wave to the others.
    fn pass_on(&self, w: usize) -> Result<()> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let Some(owners) = running.owners.get(w) else { return Ok(()) };
        let (program, wave) = (&running.loaded.program, &running.loaded.walk.waves[w]);
        if wave.kind == WaveKind::Linear {
            return Ok(());
        }
        let mut results = vec![];
        for (i, owner) in wave.ops.iter().zip(owners) {
            for reg in program.ops()[*i].results() {
                let bytes = register_bytes(program, *reg, running.loaded.lanes) as usize;
                results.push((*owner, *reg, vec![0u8; bytes]));
            }
        }
        let place = |seat: &Seat, reg: Reg| seat.places.registers[reg.0 as usize];
        let mut parts: Vec<_> = running.seats.iter().map(|seat| (seat, vec![])).collect();
        for (owner, reg, bytes) in &mut results {
            let (seat, pieces) = &mut parts[*owner];
            pieces.push((place(seat, *reg), bytes.as_mut_slice()));
        }
        parts.retain(|(_, pieces)| !pieces.is_empty());
        fetch("run", parts)?;
        for (owner, reg, bytes) in &results {
            for (_, seat) in running.seats.iter().enumerate().filter(|(s, _)| s != owner) {
                seat.space.upload("run", place(seat, *reg), bytes)?;
            }
        }
        Ok(())
    }
}

/// Bytes in the space of a seat, and where they go.
type Pieces<'a> = Vec<(u64, &'a mut [u8])>;

/// Copies from registers of some seats, each with its pieces, from all devices at once.
fn fetch(op: &'static str, mut parts: Vec<(&Seat, Pieces)>) -> Result<()> {
    match parts.as_mut_slice() {
        [(seat, pieces)] => seat.space.download(op, pieces),
        parts => parts.par_iter_mut().try_for_each(|(seat, p)| seat.space.download(op, p)),
    }
}

fn not_loaded() -> Error {
    Error::bad_input("run", "a loaded program", "none", "call load first")
}
