//! A program on a device: everything in the order of its stream 0, bundles ahead on stream 1.

use super::keys::require;
use super::layout::{Builder, Step, places};
use super::memory::{Block, Recording};
use super::state::{CudaSession, Running, Wave, taken};
use super::tiling::{slices, switches_at_once, tiling};
use super::{launch, no_kernel, refused};
use crate::backend::registers::not_loaded;
use crate::backend::{Info, Loaded, Session};
use crate::program::{Need, Operation, Program, Reg, Walk, WaveKind};
use crate::{Error, Progress, Result};
use becalm_cuda::Argument;
use becalm_cuda::launch::Launch;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

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
        let switches = self.switches(program)?;
        // Digits lie where a bootstrap's values do: neither is needed when the other is.
        let digits = self.digits(walk, lanes, &switches)?;
        let scratch = if bootstraps == 0 { 0 } else { self.scratch(0, &tiling).end }.max(digits);
        // Before the lists, which take as long to build as the batch is large.
        require("load", device.as_ref(), places.bytes + scratch)?;
        let (lists, steps) =
            Builder::new(program, walk, &places, lanes, tiling.tile, &switches).build();
        require("load", device.as_ref(), places.bytes + scratch + lists.bytes())?;
        let space = Block::new(device, "load", places.bytes)?;
        let scratch = Block::new(device, "load", scratch)?;
        let lists = lists.place(device, "load", space.at())?;
        let waves = steps.iter().map(|_| Wave::New).collect();
        let alive = vec![false; program.registers()];
        Ok(Running { waves, loaded, alive, tiling, places, space, lists, scratch, steps })
    }

    /// How many key switches of a program are one launch, by each key.
    fn switches(&self, program: &Program) -> Result<BTreeMap<Need, u32>> {
        let matrices = &self.keys()?.switches;
        let needs = program.needs().into_iter();
        let found = needs.filter_map(|need| Some((need, matrices.get(&need)?)));
        Ok(found.map(|(need, key)| (need, switches_at_once(&key.shape))).collect())
    }

    /// Bytes of the digits of a program's key switches at once.
    fn digits(&self, walk: &Walk, lanes: usize, switches: &BTreeMap<Need, u32>) -> Result<u64> {
        let matrices = &self.keys()?.switches;
        let waves = walk.waves.iter().filter(|wave| wave.kind != WaveKind::Bootstrap);
        let most = (waves.map(|wave| wave.ops.len()).max().unwrap_or(0) * lanes) as u64;
        let bytes = switches.iter().filter_map(|(need, at_once)| {
            let jobs = most.min(u64::from(*at_once)) as u32;
            Some(matrices.get(need)?.shape.digit_bytes(jobs))
        });
        Ok(bytes.max().unwrap_or(0))
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
            Step::Bootstrap { jobs, .. } => self.bootstrap_launches(running.tiling.how, *jobs),
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
                    unsafe { launch("run", device, 0, self.ring, &shape, &arguments)? };
                }
                Step::KeySwitch { need, inputs, outputs, jobs } => {
                    let key = self.keys()?.switches.get(need).ok_or_else(not_loaded)?;
                    let (inputs, outputs) = (at(*inputs), at(*outputs));
                    let shape = Argument::KeySwitch(key.shape);
                    let start = Launch::key_switch_start(&key.shape, *jobs);
                    let slices = slices(device.info(), &key.shape, *jobs, &self.tuning);
                    let add = Launch::key_switch(&key.shape, *jobs, slices);
                    let bytes = Argument::Address(key.bytes.at());
                    let digits = Argument::Address(running.scratch.at());
                    let (jobs, slices) = (Argument::U32(*jobs), Argument::U32(slices));
                    // SAFETY: `jobs` addresses in each list, of ciphertexts of the key's shape; scratch holds their digits.
                    unsafe {
                        let all = [outputs, inputs, digits, shape, jobs];
                        launch("run", device, 0, self.ring, &start, &all)?;
                        let all = [outputs, digits, bytes, shape, jobs, slices];
                        launch("run", device, 0, self.ring, &add, &all)?;
                    }
                }
                Step::Bootstrap { .. } => self.tile(running, step)?,
            }
        }
        Ok(())
    }
}
