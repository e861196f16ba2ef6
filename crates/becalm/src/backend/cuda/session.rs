//! A program on a device: everything in the order of its stream 0, bundles ahead on stream 1.

use super::keys::{DeviceKeys, require};
use super::layout::{Builder, Places, Step, places};
use super::memory::{Block, Recording};
use super::tiling::{
    Ahead, Chunks, How, Leaves, Tiling, Tuning, ahead, bundle_bytes, slices, tiling,
};
use super::{launch, no_kernel, refused};
use crate::backend::registers::not_loaded;
use crate::backend::{Info, Loaded, Session};
use crate::params::{ModulusSwitch, TfheParams};
use crate::program::{Need, Operation, Program, Reg, Walk, WaveKind};
use crate::{Error, Progress, Result};
use becalm_cuda::launch::{BATCH_JOBS, Launch, TILES, UNIT_JOBS};
use becalm_cuda::{Argument, Device, Ring};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sessions of one device have the same streams, and the launches that one records must be its own: they ask the device by turns.
pub(super) type Turn = Arc<Mutex<()>>;

/// Waits until no other session asks.
pub(super) fn taken(turn: &Turn) -> MutexGuard<'_, ()> {
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keys on a device, and a program.
pub(super) struct CudaSession {
    pub info: Info,
    pub device: Arc<dyn Device>,
    /// Until it is dropped.
    pub keys: Option<DeviceKeys>,
    pub params: Arc<TfheParams>,
    pub ring: Ring,
    pub tuning: Tuning,
    pub turn: Turn,
    pub running: Option<Running>,
    /// Why a wave was not recorded or replayed, the first time.
    pub unrecorded: Option<String>,
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

/// A loaded program.
pub(super) struct Running {
    // Before the memory that they know.
    waves: Vec<Wave>,
    loaded: Loaded,
    alive: Vec<bool>,
    tiling: Tiling,
    places: Places,
    space: Block,
    lists: Block,
    scratch: Block,
    steps: Vec<Vec<Step>>,
}

/// Where a bootstrap's intermediate values lie.
struct Scratch {
    exponents: u64,
    /// Exponents of 16 bits and flags, where bundles are made ahead.
    packed: u64,
    flags: u64,
    flag_count: u32,
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
        let all: Vec<String> = recording.into_iter().chain(self.device.remark()).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn splits_waves(&self) -> bool {
        true
    }

    fn load(
        &mut self,
        program: Arc<Program>,
        walk: Arc<Walk>,
        lanes: usize,
        _progress: Progress,
    ) -> Result<Loaded> {
        let key = self.keys()?;
        for need in program.needs() {
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
        let loaded: Loaded = Loaded { program, walk, lanes };
        let turn = self.turn.clone();
        let _turn = taken(&turn);
        // A program that is run again keeps its places.
        let again = |r: &Running| {
            let same = Arc::ptr_eq(&r.loaded.program, &loaded.program) && r.loaded.lanes == lanes;
            same && r.loaded.walk.waves == loaded.walk.waves
        };
        let running = match self.running.take().filter(again) {
            Some(r) => Running { loaded: loaded.clone(), alive: vec![false; r.alive.len()], ..r },
            None => self.lay_out(loaded.clone())?,
        };
        self.running = Some(running);
        Ok(loaded)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[u64]) -> Result<()> {
        let _turn = taken(&self.turn);
        let running = self.running.as_mut().ok_or_else(not_loaded)?;
        running.loaded.check_write(at, lane, words.len())?;
        // Until all of it is there.
        running.alive[at.0 as usize] = false;
        let place = running.place(at, lane);
        running.space.upload("write", place, bytemuck::cast_slice(words))?;
        running.alive[at.0 as usize] = true;
        Ok(())
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<u64>> {
        Ok(self.read_many(&[at], lanes)?.remove(0))
    }

    /// Waits once.
    fn read_many(&self, at: &[Reg], lanes: Range<usize>) -> Result<Vec<Vec<u64>>> {
        let _turn = taken(&self.turn);
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        for reg in at {
            let alive = running.alive.get(reg.0 as usize).copied().unwrap_or(false);
            running.loaded.check_read(*reg, alive, &lanes)?;
        }
        let width = |reg: &Reg| running.loaded.program.width(*reg);
        let mut words: Vec<Vec<u64>> =
            at.iter().map(|reg| vec![0; lanes.len() * width(reg)]).collect();
        let mut pieces: Vec<(u64, &mut [u8])> = at
            .iter()
            .zip(&mut words)
            .map(|(reg, words)| (running.place(*reg, lanes.start), bytemuck::cast_slice_mut(words)))
            .collect();
        running.space.download("read", &mut pieces)?;
        Ok(words)
    }

    fn run(&mut self, waves: Range<usize>, _progress: Progress) -> Result<()> {
        let turn = self.turn.clone();
        let _turn = taken(&turn);
        let loaded = self.running.as_ref().ok_or_else(not_loaded)?.loaded.clone();
        loaded.check_waves(&waves)?;
        waves.into_iter().try_for_each(|w| self.run_wave(&loaded, w))
    }

    fn wait(&self) -> Result<()> {
        let _turn = taken(&self.turn);
        self.device.wait().map_err(|f| refused("run", self.device.as_ref(), f))
    }
}

impl Drop for CudaSession {
    fn drop(&mut self) {
        let turn = self.turn.clone();
        let _turn = taken(&turn);
        self.running = None;
        self.keys = None;
    }
}

impl Running {
    /// The byte of a lane of a register in the space of registers.
    fn place(&self, at: Reg, lane: usize) -> u64 {
        let width = self.loaded.program.width(at);
        self.places.registers[at.0 as usize] + (8 * lane * width) as u64
    }

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
    /// One wave. Its results are alive when all of it was put on the device, and not before.
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
        self.again(w)?;
        let running = self.running.as_mut().ok_or_else(not_loaded)?;
        made.iter().for_each(|r| running.alive[r.0 as usize] = true);
        for reg in &loaded.walk.dead_after[w] {
            running.alive[reg.0 as usize] = false;
        }
        Ok(())
    }

    fn keys(&self) -> Result<&DeviceKeys> {
        self.keys.as_ref().ok_or_else(not_loaded)
    }

    /// Steps of a rotation.
    fn groups(&self) -> u32 {
        (self.params.lwe_dimension / self.params.rotation.group_bits()) as u32
    }

    /// Lays a program down on the device.
    fn lay_out(&self, loaded: Loaded) -> Result<Running> {
        let (program, walk, lanes) = (&*loaded.program, &*loaded.walk, loaded.lanes);
        let waves = walk.waves.iter().filter(|wave| wave.kind == WaveKind::Bootstrap);
        let bootstraps = waves.map(|wave| wave.ops.len()).max().unwrap_or(0);
        let device = &self.device;
        let jobs = (bootstraps * lanes).max(1) as u32;
        let tiling = tiling(device.info(), &self.ring, jobs, self.groups(), &self.tuning)
            .ok_or_else(|| no_kernel("load", device.as_ref(), &self.ring))?;
        let places = places(program, walk, lanes);
        let scratch = if bootstraps == 0 { 0 } else { self.scratch(0, &tiling).end };
        // Before the lists, which take as long to build as the batch is large.
        require("load", device.as_ref(), places.bytes + scratch)?;
        let (lists, steps) = Builder::new(program, walk, &places, lanes, tiling.tile).build();
        require("load", device.as_ref(), places.bytes + scratch + lists.bytes())?;
        let space = Block::new(device, "load", places.bytes)?;
        let scratch = Block::new(device, "load", scratch)?;
        let lists = lists.place(device, "load", space.at())?;
        let waves = steps.iter().map(|_| Wave::New).collect();
        let alive = vec![false; program.registers()];
        Ok(Running { waves, loaded, alive, tiling, places, space, lists, scratch, steps })
    }

    /// Places in the scratch memory at an address.
    fn scratch(&self, at: u64, tiling: &Tiling) -> Scratch {
        let p = &self.params;
        let place = |at: u64, bytes: usize| at + (bytes as u64).next_multiple_of(256);
        let tile = tiling.tile as usize;
        let packed = place(at, tile * (p.ggsw_count() + p.slots) * 4);
        let (first_bytes, second_bytes, flag_count) = self.room(tiling);
        let streamed = tiling.how == How::Ahead;
        // A unit that is not full reads on.
        let rows = if streamed { self.groups() * self.stride(tiling.tile) + UNIT_JOBS } else { 0 };
        let flags = place(packed, rows as usize * 32);
        let accumulators = place(flags, flag_count as usize * 4);
        let first = place(accumulators, self.ring.accumulator_bytes(tile as u64) as usize);
        let second = place(first, first_bytes);
        let end = place(second, second_bytes);
        let bundles = [first, second];
        Scratch { exponents: at, packed, flags, flag_count, accumulators, bundles, end }
    }

    /// Jobs from one step to the next in the exponents of 16 bits.
    fn stride(&self, jobs: u32) -> u32 {
        jobs.next_multiple_of(UNIT_JOBS)
    }

    /// Bytes of the two rooms for bundles of a tile, and how many flags it has.
    fn room(&self, tiling: &Tiling) -> (usize, usize, u32) {
        let bundle = bundle_bytes(&self.ring) as usize;
        let groups = self.groups();
        match tiling.how {
            How::Chunks(_) if self.ring.group_ggsws == 0 => (0, 0, 0),
            How::Chunks(Chunks { chunk, .. }) => {
                let bytes = (tiling.tile * chunk) as usize * bundle;
                (bytes, bytes, 0)
            }
            How::Ahead => {
                // A wave's last tile may be smaller, and rotated in another way.
                let each = |jobs: u32| match ahead(self.device.info(), jobs, &self.tuning) {
                    Ahead::Batch { slots, .. } => {
                        let units = jobs.div_ceil(UNIT_JOBS);
                        ((slots * UNIT_JOBS) as usize * bundle, 2 * units * groups)
                    }
                    Ahead::Leaves(Leaves { together, .. }) => {
                        let all = (together.min(jobs) * groups) as usize * bundle;
                        let units = together.div_ceil(UNIT_JOBS);
                        (all, jobs.div_ceil(together) * units * groups * 4)
                    }
                };
                let all = (1..=tiling.tile).map(each);
                let (bytes, flags) = all.fold((0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1)));
                (bytes, 0, flags)
            }
        }
    }

    /// Puts a wave on the device, as one launch if it has many and came before. A recording saves time and no more: a
    /// device that refuses one has the launches of it, which say what is wrong if the device is.
    fn again(&mut self, w: usize) -> Result<()> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let few = self.launches(running, w) < self.tuning.recorded;
        let now = match &running.waves[w] {
            Wave::Recorded(recording) => match recording.replay("run") {
                Ok(()) => return Ok(()),
                Err(e) => Err(e),
            },
            Wave::Known => self.recorded(w).map(Wave::Recorded),
            Wave::New if !few => {
                self.wave(w)?;
                Ok(Wave::Known)
            }
            Wave::New | Wave::Plain => return self.wave(w),
        };
        let now = now.unwrap_or_else(|e| {
            self.unrecorded.get_or_insert_with(|| e.to_string());
            Wave::Plain
        });
        let plain = matches!(now, Wave::Plain);
        if let Some(running) = &mut self.running {
            running.waves[w] = now;
        }
        if plain { self.wave(w) } else { Ok(()) }
    }

    /// A wave, recorded and replayed once.
    fn recorded(&self, w: usize) -> Result<Recording> {
        let recording = Recording::of(&self.device, "run", || self.wave(w))?;
        recording.replay("run")?;
        Ok(recording)
    }

    /// Launches of a wave.
    fn launches(&self, running: &Running, w: usize) -> u32 {
        let of = |step: &Step| match step {
            Step::Linear { .. } => 1,
            Step::KeySwitch { .. } => 2,
            Step::Bootstrap { jobs, .. } => match running.tiling.how {
                How::Ahead => match ahead(self.device.info(), *jobs, &self.tuning) {
                    Ahead::Batch { .. } => 4,
                    Ahead::Leaves(Leaves { together, .. }) => 2 + 3 * jobs.div_ceil(together),
                },
                How::Chunks(_) if self.ring.group_ggsws == 0 => 4,
                How::Chunks(Chunks { chunk, .. }) => 3 + 2 * self.groups().div_ceil(chunk),
            },
        };
        running.steps[w].iter().map(of).sum()
    }

    /// Puts a wave on the device.
    fn wave(&self, w: usize) -> Result<()> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let device = self.device.as_ref();
        let lists = running.lists.at();
        let at = |byte: u64| Argument::Address(lists + byte);
        for step in &running.steps[w] {
            match step {
                Step::Linear { ops, terms, count, words } => {
                    let shape = Launch::linear(*count, *words);
                    let arguments = [at(*ops), at(*terms)];
                    // SAFETY: the lists hold `count` operations on registers of this device.
                    unsafe { launch("run", device, 0, &self.ring, &shape, &arguments)? };
                }
                Step::KeySwitch { need, inputs, outputs, jobs } => {
                    let key = self.keys()?.switches.get(need).ok_or_else(not_loaded)?;
                    let (inputs, outputs) = (at(*inputs), at(*outputs));
                    let shape = Argument::KeySwitch(key.shape);
                    let start = Launch::key_switch_start(*jobs);
                    let slices = slices(device.info(), &key.shape, *jobs, &self.tuning);
                    let add = Launch::key_switch(&key.shape, *jobs, slices);
                    let words = Argument::Address(key.words.at());
                    let all = [outputs, inputs, words, shape, Argument::U32(*jobs)];
                    // SAFETY: `jobs` addresses in each list, of ciphertexts of the key's shape.
                    unsafe {
                        launch("run", device, 0, &self.ring, &start, &[outputs, inputs, shape])?;
                        launch("run", device, 0, &self.ring, &add, &all)?;
                    }
                }
                Step::Bootstrap { .. } => self.tile(running, step)?,
            }
        }
        Ok(())
    }

    /// Modulus switch, tables, rotation, extraction of one tile.
    fn tile(&self, running: &Running, step: &Step) -> Result<()> {
        let Step::Bootstrap { inputs, tables, extractions, count, jobs } = step else {
            return Ok(());
        };
        let (device, ring, p) = (self.device.as_ref(), &self.ring, &self.params);
        let scratch = self.scratch(running.scratch.at(), &running.tiling);
        let at = |byte: u64| Argument::Address(running.lists.at() + byte);
        let (exponents, acc) =
            (Argument::Address(scratch.exponents), Argument::Address(scratch.accumulators));
        let centered = u32::from(p.modulus_switch == ModulusSwitch::Centered);
        let (dimension, width) = (p.lwe_dimension as u32, (p.ggsw_count() + p.slots) as u32);
        let streamed = running.tiling.how == How::Ahead;
        let or_null = |at: u64| Argument::Address(if streamed { at } else { 0 });
        let switch = [
            exponents,
            at(*inputs),
            Argument::U32(dimension),
            Argument::U32(centered),
            // One ciphertext's bundles are made from the exponents as they are.
            Argument::Address(if streamed && *jobs > 1 { scratch.packed } else { 0 }),
            Argument::U32(self.stride(*jobs)),
            or_null(scratch.flags),
            Argument::U32(scratch.flag_count),
        ];
        let load = [acc, at(*tables), exponents, Argument::U32(width)];
        // SAFETY: `jobs` addresses of small ciphertexts and of columns of tables; scratch holds a tile.
        unsafe {
            launch("run", device, 0, ring, &Launch::modulus_switch(*jobs), &switch)?;
        }
        let leaves = match running.tiling.how {
            How::Ahead => Some(ahead(device.info(), *jobs, &self.tuning)),
            How::Chunks(_) => None,
        };
        if let Some(Ahead::Leaves(Leaves { together, .. })) = leaves {
            // Bundles wait for exponents alone.
            self.bundles_ahead(&scratch, *jobs, 0, together)?;
        }
        if !matches!(leaves, Some(Ahead::Leaves(_))) {
            // SAFETY: as above.
            unsafe { launch("run", device, 0, ring, &Launch::load_table(*jobs), &load)? };
        }
        match (running.tiling.how, leaves) {
            (How::Chunks(chunks), _) => self.rotate(chunks, &scratch, *jobs)?,
            (_, Some(Ahead::Batch { makers, slots })) => {
                self.rotate_batch(&scratch, *jobs, makers, slots)?;
            }
            (_, Some(Ahead::Leaves(how))) => {
                self.rotate_leaves(&scratch, running.lists.at() + *tables, *jobs, how)?;
            }
            (How::Ahead, None) => {}
        }
        let extract = Launch::sample_extract(*count);
        // SAFETY: `count` extractions of these accumulators into registers of this device.
        unsafe { launch("run", device, 0, ring, &extract, &[at(*extractions), acc]) }
    }

    /// A part of a tile's ciphertexts, `together` from the `part`-th on: the first, how many, and the byte of their flags.
    fn part(&self, scratch: &Scratch, jobs: u32, part: u32, together: u32) -> (u32, u32, u64) {
        let first = part * together;
        let flags = scratch.flags + self.flags_before(part, together);
        (first, together.min(jobs - first), flags)
    }

    /// Bytes of the flags of the parts before one.
    fn flags_before(&self, part: u32, together: u32) -> u64 {
        u64::from(part * together.div_ceil(UNIT_JOBS) * self.groups() * 4) * 4
    }

    /// Values of a ciphertext's bundles, all steps of it.
    fn bundle_stride(&self) -> u64 {
        u64::from(self.groups()) * bundle_bytes(&self.ring) / u64::from(self.ring.point_bytes())
    }

    /// The bundles of a part of a tile for all steps, on stream 1, behind what is on stream 0.
    fn bundles_ahead(&self, scratch: &Scratch, jobs: u32, part: u32, together: u32) -> Result<()> {
        let (device, ring) = (self.device.as_ref(), &self.ring);
        device.follow(1, 0).map_err(|f| refused("run", device, f))?;
        let (first, here, flags) = self.part(scratch, jobs, part, together);
        let key = self.keys()?.bootstrap.as_ref().ok_or_else(not_loaded)?.at();
        let (bundles, flags) = (Argument::Address(scratch.bundles[0]), Argument::Address(flags));
        let (key, roots) = (Argument::Address(key), Argument::Address(self.keys()?.roots.at()));
        let steps = Argument::U32(self.groups());
        let blocks = TILES.min(device.info().multiprocessors);
        if here == 1 {
            let width = (self.params.ggsw_count() + self.params.slots) as u64;
            let exponents = Argument::Address(scratch.exponents + u64::from(first) * width * 4);
            let arguments = [bundles, flags, key, exponents, steps, roots];
            let shape = Launch::bundle_stream(blocks);
            // SAFETY: the key of every step, exponents of one ciphertext, room for its bundles, flags of all steps.
            return unsafe { launch("run", device, 1, ring, &shape, &arguments) };
        }
        let arguments = [
            bundles,
            Argument::U64(self.bundle_stride()),
            flags,
            key,
            Argument::Address(scratch.packed + u64::from(first) * 32),
            Argument::U32(self.stride(jobs)),
            steps,
            Argument::U32(here),
            roots,
        ];
        // SAFETY: the same of `here` ciphertexts; a unit that is not full reads exponents of others, or behind them.
        unsafe { launch("run", device, 1, ring, &Launch::bundle_ahead(blocks), &arguments) }
    }

    /// All steps by clusters that split leaves, a part of the tile after the other. The bundles of the first part are under way.
    fn rotate_leaves(&self, scratch: &Scratch, tables: u64, jobs: u32, how: Leaves) -> Result<()> {
        let device = self.device.as_ref();
        for part in 0..jobs.div_ceil(how.together) {
            if part > 0 {
                self.bundles_ahead(scratch, jobs, part, how.together)?;
            }
            let (first, here, _) = self.part(scratch, jobs, part, how.together);
            let beside = here.min(how.beside);
            self.clusters(scratch, tables, (first, part), 0..beside, 0, how)?;
            if beside < here {
                // Behind the blocks that make bundles: these have room no sooner.
                self.clusters(scratch, tables, (first, part), beside..here, 1, how)?;
            }
            // What comes next may use the bundles' room again.
            device.follow(0, 1).map_err(|f| refused("run", device, f))?;
        }
        Ok(())
    }

    /// The clusters of some ciphertexts of a part. A thread takes its points of the tables, whose addresses are at `tables`, by itself.
    fn clusters(
        &self,
        scratch: &Scratch,
        tables: u64,
        (first, part): (u32, u32),
        jobs: Range<u32>,
        stream: usize,
        how: Leaves,
    ) -> Result<()> {
        let (device, ring) = (self.device.as_ref(), &self.ring);
        let polynomials = u64::from(ring.columns() * ring.n() * 8);
        let width = (self.params.ggsw_count() + self.params.slots) as u64;
        let job = u64::from(first + jobs.start);
        let bundles = u64::from(jobs.start) * self.bundle_stride() * u64::from(ring.point_bytes());
        // Those that rotate behind the others find every flag up, so theirs may be those of any unit.
        let flags = scratch.flags + self.flags_before(part, how.together);
        let arguments = [
            Argument::Address(scratch.accumulators + job * polynomials),
            Argument::Address(tables + job * u64::from(ring.columns()) * 8),
            Argument::Address(scratch.exponents + job * width * 4),
            Argument::U32(width as u32),
            Argument::Address(scratch.bundles[0] + bundles),
            Argument::U64(self.bundle_stride()),
            Argument::Address(flags),
            Argument::U32(self.groups()),
            Argument::Address(self.keys()?.roots.at()),
        ];
        let shape = Launch::rotate_leaves(jobs.len() as u32, how.blocks);
        // SAFETY: accumulators of these ciphertexts, their tables and exponents, and the bundles that stream 1 makes of them.
        unsafe { launch("run", device, stream, ring, &shape, &arguments) }
    }

    /// All steps of a tile by one launch, whose blocks rotate or make bundles.
    fn rotate_batch(&self, scratch: &Scratch, jobs: u32, makers: u32, slots: u32) -> Result<()> {
        let key = self.keys()?.bootstrap.as_ref().ok_or_else(not_loaded)?.at();
        let rotators = jobs.div_ceil(BATCH_JOBS);
        let arguments = [
            Argument::Address(scratch.accumulators),
            Argument::Address(scratch.bundles[0]),
            Argument::Address(scratch.flags),
            Argument::Address(key),
            Argument::Address(scratch.packed),
            Argument::U32(self.stride(jobs)),
            Argument::U32(self.groups()),
            Argument::U32(jobs),
            Argument::U32(slots),
            Argument::U32(rotators),
            Argument::Address(self.keys()?.roots.at()),
        ];
        let shape = Launch::rotate_batch(rotators, makers);
        // SAFETY: accumulators and exponents of `jobs`, the key of every step, a ring of `slots`, and two flags for each unit and step.
        unsafe { launch("run", self.device.as_ref(), 0, &self.ring, &shape, &arguments) }
    }

    /// Every step of a tile. While a chunk rotates on stream 0 the bundles of the next are made on stream 1.
    fn rotate(&self, tiling: Chunks, scratch: &Scratch, jobs: u32) -> Result<()> {
        let (device, ring) = (self.device.as_ref(), &self.ring);
        let key = self.keys()?.bootstrap.as_ref().ok_or_else(not_loaded)?.at();
        let fail = |f| refused("run", device, f);
        let roots = Argument::Address(self.keys()?.roots.at());
        let width = (self.params.ggsw_count() + self.params.slots) as u32;
        let (groups, chunk) = (self.groups(), tiling.chunk);
        let steps = |first: u32| chunk.min(groups - first);
        let grouped = ring.group_ggsws > 0;
        let shape = Launch::rotate(ring, tiling.path, jobs)
            .ok_or_else(|| no_kernel("run", device, ring))?;
        if grouped {
            device.follow(1, 0).map_err(fail)?;
            self.bundles(tiling, scratch, jobs, 0)?;
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
                self.bundles(tiling, scratch, jobs, c + 1)?;
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
    fn bundles(&self, tiling: Chunks, scratch: &Scratch, jobs: u32, c: u32) -> Result<()> {
        let (device, ring) = (self.device.as_ref(), &self.ring);
        let (first, slot) = (c * tiling.chunk, scratch.bundles[c as usize % 2]);
        let key = self.keys()?.bootstrap.as_ref().ok_or_else(not_loaded)?.at();
        let key = key + u64::from(first * ring.group_ggsws) * bundle_bytes(ring);
        let arguments = [
            Argument::Address(slot),
            Argument::Address(key),
            self.exponents(scratch, first),
            Argument::U32((self.params.ggsw_count() + self.params.slots) as u32),
            Argument::U32(jobs),
            Argument::Address(self.keys()?.roots.at()),
        ];
        let groups = tiling.chunk.min(self.groups() - first);
        let tensor = tiling.tensor.then(|| Launch::bundle_tensor(ring, groups, jobs)).flatten();
        let shape = tensor.unwrap_or_else(|| Launch::bundle(ring, groups, jobs));
        // SAFETY: the GGSW of these groups, and room for a bundle of each job and group; stream 1 follows stream 0.
        unsafe { launch("run", device, 1, ring, &shape, &arguments) }
    }
}
