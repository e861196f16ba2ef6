//! A program of CKKS on a device: recorded as launches when it is loaded, which are put on stream 0 wave after wave.

use super::super::keys::require;
use super::super::memory::{Block, Recording};
use super::super::state::{Turn, taken};
use super::super::{launch, refused};
use super::keys::{DeviceMap, Keys, Plains};
use super::recorder::{Place, Recorder};
use super::tables::Tables;
use super::tape::{Bases, Lists, Sizes, Step, Tape};
use crate::backend::cpu::rlwe::down;
use crate::backend::encoded::{Encoded, Plain};
use crate::backend::registers::not_loaded;
use crate::backend::{Ckks, CkksSetup, Info, Loaded, Session};
use crate::cipher::{Account, Purpose, Rlwe};
use crate::ckks::Context;
use crate::math::buffer::or_refused;
use crate::math::threads::Threads;
use crate::program::rlwe::{CkksProgram, MapSpec, RlweInfo};
use crate::program::{Operation, Reg, Walk};
use crate::progress::tell;
use crate::{Error, Progress, Result};
use becalm_cuda::{Device, Kernels};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// Keys on a device, and a program.
pub(super) struct CudaRlweSession {
    pub info: Info,
    pub device: Arc<dyn Device>,
    /// Lanes that go together at most.
    pub group: usize,
    pub turn: Turn,
    /// For work of the processor while the device is held.
    pub pool: Arc<Threads>,
    pub context: Arc<Context>,
    pub on: CkksSetup,
    /// Until it is dropped, as everything on the device.
    pub kept: Option<Kept>,
    pub running: Option<Running>,
    /// The same program for another number of lanes, as the last lanes of a batch are fewer.
    pub waiting: Option<Running>,
    /// Why a wave was not recorded or replayed, the first time.
    pub unrecorded: Option<String>,
}

/// A program recorded for a group of lanes: by wave its launches, and by register its place.
struct Recorded {
    sizes: Sizes,
    steps: Vec<Vec<Step>>,
    places: Vec<Option<Place>>,
    lists: Lists,
}

/// The groups of a number of lanes, and what each takes.
struct LaneGroups {
    /// Lanes of each group: the last may have fewer.
    groups: Vec<usize>,
    /// By lanes of a group.
    sizes: BTreeMap<usize, Sizes>,
}

impl LaneGroups {
    /// Groups of so many lanes; `record` says what one takes, and adds to the lists that groups share.
    fn of(
        lanes: usize,
        group: usize,
        mut record: impl FnMut(usize, Lists) -> Result<(Sizes, Lists)>,
    ) -> Result<LaneGroups> {
        let groups: Vec<usize> =
            (0..lanes).step_by(group).map(|from| group.min(lanes - from)).collect();
        let (mut lists, mut sizes) = (Lists::default(), BTreeMap::new());
        // In the order of the groups, so that shared lists lie as they will.
        for lanes in &groups {
            if !sizes.contains_key(lanes) {
                let (size, more) = record(*lanes, lists)?;
                sizes.insert(*lanes, size);
                lists = more;
            }
        }
        Ok(LaneGroups { groups, sizes })
    }

    /// The memory that all of them take: they work in the same place, by turns.
    fn all(&self) -> Sizes {
        let each = || self.groups.iter().map(|lanes| &self.sizes[lanes]);
        let largest = |of: fn(&Sizes) -> u64| each().map(of).max().unwrap_or(0);
        Sizes {
            ciphertexts: each().map(|s| s.ciphertexts).sum(),
            work: largest(|s| s.work),
            shared: largest(|s| s.shared),
            own: each().map(|s| s.own).sum(),
        }
    }
}

/// Constants of a session on its device.
pub(super) struct Kept {
    pub tables: Arc<Tables>,
    pub keys: Keys,
    /// The matrices of the last program that has any.
    pub maps: (Vec<MapSpec>, Vec<DeviceMap>),
}

/// How some waves were put on the device before: waves that come again are recorded, and then replayed.
enum Before {
    Once,
    Recorded(Recording),
    /// Waves that could not be recorded or replayed.
    Plain,
}

/// A program, laid down.
pub(super) struct Running {
    // Before the memory that they know.
    before: HashMap<Range<usize>, Before>,
    loaded: Loaded<Ckks>,
    /// By wave: the launches of all lanes.
    steps: Vec<Vec<Step>>,
    /// Lanes of a group, which share launches; the last may be fewer.
    group: usize,
    /// By group and register: of the first lane.
    places: Vec<Vec<Option<Place>>>,
    alive: Vec<bool>,
    ciphertexts: Block,
    _work: Block,
    _lists: Block,
    _plains: Plains,
}

impl Session<Ckks> for CudaRlweSession {
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

    fn load(
        &mut self,
        program: Arc<CkksProgram>,
        walk: Arc<Walk>,
        lanes: usize,
        progress: Progress,
    ) -> Result<Loaded<Ckks>> {
        self.context.check_set(program.op(), program.params().name)?;
        program.require(&self.on.keys)?;
        let loaded = Loaded { program, walk, lanes };
        let turn = self.turn.clone();
        let _turn = taken(&turn);
        // A program that is run again keeps its places.
        let again = |r: &Running| {
            let same = Arc::ptr_eq(&r.loaded.program, &loaded.program) && r.loaded.lanes == lanes;
            let constants = |walk: &Walk| {
                Encoded::carried(walk, &loaded.program).map(|made| Arc::as_ptr(&made))
            };
            same && constants(&r.loaded.walk) == constants(&loaded.walk)
        };
        if !self.running.as_ref().is_some_and(again) {
            std::mem::swap(&mut self.running, &mut self.waiting);
        }
        let running = match self.running.take_if(|r| again(r)) {
            Some(r) => Running { loaded: loaded.clone(), alive: vec![false; r.alive.len()], ..r },
            None => {
                self.running = None;
                let program = &loaded.program;
                self.waiting.take_if(|r| !Arc::ptr_eq(&r.loaded.program, program));
                let pool = self.pool.clone();
                let op = loaded.program.op();
                pool.apart(|| or_refused(op, || self.laid_out(&loaded, progress)))?
            }
        };
        self.running = Some(running);
        Ok(loaded)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[Rlwe]) -> Result<()> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let lanes = running.loaded.check_write(at, lane, words.len())?;
        let RlweInfo { level, .. } = *running.loaded.program.reg(at);
        let given: Vec<&Rlwe> = words.iter().collect();
        self.context.check_keys("write", self.on.keys.id, &given)?;
        let down = |ct: &Rlwe| Ok(down(&self.context, ct, level)?.into_owned());
        let lowered = |ct: &Rlwe| match ct.level == level {
            true => Ok(ct.clone()),
            false => self.pool.apart(|| or_refused("write", || down(ct))),
        };
        let words = words.iter().map(lowered).collect::<Result<Vec<_>>>()?;
        let _turn = taken(&self.turn);
        let running = self.running.as_mut().ok_or_else(not_loaded)?;
        running.alive[at.0 as usize] = false;
        for (lane, x) in lanes.zip(words) {
            let place = running.place(at, lane)?;
            let len = place.limbs * self.context.params().degree();
            for (k, part) in x.parts.iter().enumerate() {
                let from = place.at + 8 * k as u64 * place.stride - running.ciphertexts.at();
                running.ciphertexts.upload("write", from, bytemuck::cast_slice(&part[..len]))?;
            }
        }
        running.alive[at.0 as usize] = true;
        Ok(())
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<Rlwe>> {
        Ok(self.read_many(&[at], lanes)?.remove(0))
    }

    /// Waits once.
    fn read_many(&self, at: &[Reg], lanes: Range<usize>) -> Result<Vec<Vec<Rlwe>>> {
        let _turn = taken(&self.turn);
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let mut places = vec![];
        for reg in at {
            let alive = running.alive.get(reg.0 as usize).copied().unwrap_or(false);
            running.loaded.check_read(*reg, alive, &lanes)?;
            for lane in lanes.clone() {
                places.push((*reg, running.place(*reg, lane)?));
            }
        }
        or_refused("read", || {
            let n = self.context.params().degree();
            let scratch = |place: &Place| self.context.ring().scratch(place.limbs * n);
            let mut parts: Vec<_> =
                places.iter().flat_map(|(_, place)| [scratch(place), scratch(place)]).collect();
            let from = |i: usize| {
                let place = places[i / 2].1;
                place.at + 8 * (i as u64 % 2) * place.stride - running.ciphertexts.at()
            };
            let pieces = parts.iter_mut().enumerate();
            let mut pieces: Vec<(u64, &mut [u8])> =
                pieces.map(|(i, x)| (from(i), bytemuck::cast_slice_mut(&mut x[..]))).collect();
            running.ciphertexts.download("read", &mut pieces)?;
            let mut parts = parts.into_iter().map(Arc::new);
            let mut all = vec![];
            for (reg, _) in places {
                let (Some(a), Some(b)) = (parts.next(), parts.next()) else { break };
                all.push(self.ciphertext(running.loaded.program.reg(reg), [a, b]));
            }
            let mut all = all.into_iter();
            Ok(at.iter().map(|_| all.by_ref().take(lanes.len()).collect()).collect())
        })
    }

    fn run(&mut self, waves: Range<usize>, progress: Progress) -> Result<()> {
        let turn = self.turn.clone();
        let _turn = taken(&turn);
        let loaded = self.running.as_ref().ok_or_else(not_loaded)?.loaded.clone();
        loaded.check_waves(&waves)?;
        self.require_alive(&loaded, &waves)?;
        let ops = loaded.program.ops();
        let made = |w: usize| loaded.walk.waves[w].ops.iter().flat_map(|i| ops[*i].results());
        let running = self.running.as_mut().ok_or_else(not_loaded)?;
        waves.clone().flat_map(made).for_each(|r| running.alive[r.0 as usize] = false);
        if let Err(e) = self.again(&waves, progress) {
            // Work that was stopped has taken the place of registers that it needs again.
            let running = self.running.as_mut().ok_or_else(not_loaded)?;
            running.alive.fill(false);
            return Err(e);
        }
        // Results are alive when all was put on the device, and not before.
        let running = self.running.as_mut().ok_or_else(not_loaded)?;
        for w in waves {
            made(w).for_each(|r| running.alive[r.0 as usize] = true);
            let dead = loaded.walk.dead_after[w].iter();
            dead.for_each(|r| running.alive[r.0 as usize] = false);
        }
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        let _turn = taken(&self.turn);
        self.device.wait().map_err(|f| refused("run", self.device.as_ref(), f))
    }
}

impl Drop for CudaRlweSession {
    fn drop(&mut self) {
        let turn = self.turn.clone();
        let _turn = taken(&turn);
        (self.running, self.waiting) = (None, None);
        self.kept = None;
    }
}

impl Running {
    fn place(&self, at: Reg, lane: usize) -> Result<Place> {
        let place = self.places[lane / self.group][at.0 as usize].ok_or_else(not_loaded)?;
        Ok(place.of(lane % self.group))
    }
}

impl CudaRlweSession {
    /// A ciphertext with the facts of its register.
    fn ciphertext(&self, info: &RlweInfo, parts: [Arc<crate::math::rns::Scratch>; 2]) -> Rlwe {
        let (params, key) = (self.context.params().name, self.on.keys.id);
        let RlweInfo { level, scale, slots, .. } = *info;
        let account = Account::UNKNOWN;
        Rlwe { params, key, level, scale, slots, account, integers: None, parts }
    }

    /// Refuses waves that read registers which nothing has filled.
    fn require_alive(&self, loaded: &Loaded<Ckks>, waves: &Range<usize>) -> Result<()> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let mut alive = running.alive.clone();
        let ops = loaded.program.ops();
        for w in waves.clone() {
            let here = || loaded.walk.waves[w].ops.iter().map(|i| &ops[*i]);
            if let Some(r) = here().flat_map(Operation::sources).find(|r| !alive[r.0 as usize]) {
                return Err(Error::bad_input(
                    "run",
                    "every input written and waves run in order",
                    format!("register {} empty", r.0),
                    "write the inputs, then run the waves from the first",
                ));
            }
            here().flat_map(Operation::results).for_each(|r| alive[r.0 as usize] = true);
            loaded.walk.dead_after[w].iter().for_each(|r| alive[r.0 as usize] = false);
        }
        Ok(())
    }

    /// Puts waves on the device, as one launch if they came before.
    fn again(&mut self, waves: &Range<usize>, progress: Progress) -> Result<()> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let op = running.loaded.program.op();
        let launches: usize = waves.clone().map(|w| running.steps[w].len()).sum();
        let put = || self.put(waves);
        let now = match running.before.get(waves) {
            Some(Before::Recorded(recording)) => {
                tell(op, progress, 0, waves.len())?;
                match recording.replay("run") {
                    Ok(()) => return Ok(()),
                    Err(e) => Err(e),
                }
            }
            Some(Before::Once) if launches > 1 => {
                tell(op, progress, 0, waves.len())?;
                let recording = Recording::of(&self.device, "run", put);
                recording.and_then(|r| r.replay("run").map(|()| Before::Recorded(r)))
            }
            before => {
                let first = before.is_none();
                for (done, w) in waves.clone().enumerate() {
                    tell(op, progress, done, waves.len())?;
                    self.put(&(w..w + 1))?;
                }
                if let Some(running) = self.running.as_mut().filter(|_| first) {
                    running.before.insert(waves.clone(), Before::Once);
                }
                return Ok(());
            }
        };
        let now = now.unwrap_or_else(|e| {
            self.unrecorded.get_or_insert_with(|| e.to_string());
            Before::Plain
        });
        let plain = matches!(now, Before::Plain);
        if let Some(running) = &mut self.running {
            running.before.insert(waves.clone(), now);
        }
        if plain { self.put(waves) } else { Ok(()) }
    }

    /// Puts the launches of waves on the device.
    fn put(&self, waves: &Range<usize>) -> Result<()> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let kernels = kernels(&self.context);
        for Step { launch: shape, arguments } in running.steps[waves.clone()].iter().flatten() {
            // SAFETY: the recorder made them for memory of this program, which lives, and for keys and tables of this session.
            unsafe { launch("run", self.device.as_ref(), 0, kernels, shape, arguments)? };
        }
        Ok(())
    }

    /// Lays a program down; where it does not fit beside what is kept of other numbers of lanes, keys and matrices, without them.
    fn laid_out(&mut self, loaded: &Loaded<Ckks>, progress: Progress) -> Result<Running> {
        match self.lay_out(loaded, progress) {
            Err(Error::Memory(_)) => {}
            other => return other,
        }
        let program = &loaded.program;
        let wanted = self.wanted(program);
        self.waiting = None;
        let kept = self.kept.as_mut().ok_or_else(not_loaded)?;
        kept.keys.keep(|which| wanted.contains(which));
        if program.maps().is_empty() {
            kept.maps = (vec![], vec![]);
        }
        self.lay_out(loaded, progress)
    }

    /// The keys that a program needs.
    fn wanted(&self, program: &CkksProgram) -> BTreeSet<(Purpose, usize)> {
        let needs = program.needs();
        let idle = |p: Purpose| p == Purpose::Multiply && needs.multiply == 0;
        self.context.keys_for(&needs).into_keys().filter(|which| !idle(which.0)).collect()
    }

    /// Brings what a program needs onto the device, and records it for every lane: for as many at once as there is memory for.
    fn lay_out(&mut self, loaded: &Loaded<Ckks>, progress: Progress) -> Result<Running> {
        let Loaded { program, walk, lanes } = loaded;
        let prepared = Encoded::carried(walk, program);
        self.bring(program, prepared.as_deref(), progress)?;
        let plain = prepared.and_then(|made| made.plain.clone());
        let mut plains = Plains::new(&self.device);
        let mut group = self.group.clamp(1, (*lanes).max(1));
        loop {
            match self.grouped(loaded, group, &mut plains, plain.as_ref()) {
                Err(Error::Memory(_)) if self.waiting.is_some() => self.waiting = None,
                Err(Error::Memory(_)) if group > 1 => group = group.div_ceil(2),
                other => return Ok(Running { _plains: plains, ..other? }),
            }
        }
    }

    /// A program recorded for groups of so many lanes.
    fn grouped(
        &self,
        loaded: &Loaded<Ckks>,
        group: usize,
        plains: &mut Plains,
        plain: Option<&Arc<Plain>>,
    ) -> Result<Running> {
        let (program, walk) = (&loaded.program, &loaded.walk);
        let op = program.op();
        let kept = self.kept.as_ref().ok_or_else(not_loaded)?;
        let mut record = |lanes, bases, lists| {
            self.recorded((kept, loaded, plain), lanes, plains, (bases, lists))
        };
        let split = LaneGroups::of(loaded.lanes, group, |lanes, lists| {
            let made = record(lanes, Bases::default(), lists)?;
            Ok((made.sizes, made.lists))
        })?;
        let Sizes { ciphertexts, work, shared, own } = split.all();
        require(op, self.device.as_ref(), ciphertexts + work + shared + own)?;
        let new = |bytes| Block::new(&self.device, op, bytes);
        let (ciphertexts, work, block) = (new(ciphertexts)?, new(work)?, new(shared + own)?);
        let mut steps: Vec<Vec<Step>> = walk.waves.iter().map(|_| vec![]).collect();
        let (mut places, mut lists) = (vec![], Lists::default());
        let (mut first, mut from) = (ciphertexts.at(), shared);
        for lanes in &split.groups {
            let bases = Bases {
                ciphertexts: first,
                work: work.at(),
                shared: block.at(),
                own: block.at() + from,
            };
            let made = record(*lanes, bases, lists)?;
            steps.iter_mut().zip(made.steps).for_each(|(all, one)| all.extend(one));
            places.push(made.places);
            lists = made.lists;
            block.upload(op, from, bytemuck::cast_slice(&lists.own))?;
            first += split.sizes[lanes].ciphertexts;
            from += split.sizes[lanes].own;
        }
        block.upload(op, 0, bytemuck::cast_slice(&lists.shared))?;
        Ok(Running {
            before: HashMap::new(),
            loaded: loaded.clone(),
            steps,
            group,
            places,
            alive: vec![false; program.registers()],
            ciphertexts,
            _work: work,
            _lists: block,
            _plains: Plains::new(&self.device),
        })
    }

    /// Brings keys and matrices onto the device that are not there.
    fn bring(
        &mut self,
        program: &CkksProgram,
        prepared: Option<&Encoded>,
        progress: Progress,
    ) -> Result<()> {
        let (context, op) = (self.context.clone(), program.op());
        let wanted = self.wanted(program);
        let kept = self.kept.as_mut().ok_or_else(not_loaded)?;
        if !program.maps().is_empty() && kept.maps.0 != program.maps() {
            kept.maps = (vec![], vec![]);
        }
        let held = |which| Some((which, self.on.keys.switches.get(&which)?));
        let wanted: Vec<_> = wanted.into_iter().filter_map(held).collect();
        kept.keys.bring(&context, &wanted, op)?;
        if !program.maps().is_empty() && kept.maps.1.is_empty() {
            let (all, count) = (program.maps(), program.maps().len());
            let mut made = vec![];
            for (i, spec) in all.iter().enumerate() {
                let encoded = prepared.and_then(|made| made.maps[i].as_ref());
                let told = |_, _| progress(i, count);
                made.push(DeviceMap::new(&self.device, &context, spec, encoded, &told)?);
            }
            kept.maps = (all.to_vec(), made);
        }
        Ok(())
    }

    /// The launches of a group of lanes, wave by wave, for memory at the bases.
    fn recorded(
        &self,
        (kept, loaded, plain): (&Kept, &Loaded<Ckks>, Option<&Arc<Plain>>),
        lanes: usize,
        plains: &mut Plains,
        memory: (Bases, Lists),
    ) -> Result<Recorded> {
        let tape = Tape::new(&self.context, &kept.tables, lanes, memory);
        let (maps, plain) = (&kept.maps.1, plain.cloned());
        let mut recorder = Recorder::new(tape, &kept.keys, maps, plains, plain, &loaded.program);
        let mut steps = vec![];
        for w in 0..loaded.walk.waves.len() {
            recorder.wave(&loaded.walk, w)?;
            steps.push(std::mem::take(&mut recorder.tape.steps));
        }
        let (places, sizes) = (std::mem::take(&mut recorder.places), recorder.tape.sizes());
        Ok(Recorded { sizes, steps, places, lists: recorder.tape.lists })
    }
}

/// The kernels of a context's ring.
pub(super) fn kernels(context: &Context) -> Kernels {
    Kernels::Rns { log2_n: context.params().log2_degree }
}
