//! GPUs that are not there: [`becalm_cuda`]'s kernels on the CPU, the same sources compiled by the C++ compiler of the machine
//! against `emulator/emulator.h`, behind the same [`Device`] as the driver.
//!
//! Work that is put on a stream waits there until the host waits for it, and then streams are served in an order drawn at
//! random: a missing order between two streams shows. Kernels run one after another, and beside each other where one waits
//! for what another does. Memory comes full of 0xA5, addresses are checked against
//! what was allocated, launches against what a driver allows, and a device can be told to lose its contact, to refuse one
//! launch, or to be small.
//!
//! Its `cdylib` is the same behind the calls of `libcuda` and of NVRTC ([`driver_folder`]).
#![deny(missing_docs)]

mod driver;
mod libcuda;
mod nvrtc;
mod pool;
mod serve;

use becalm_cuda::launch::Launch;
use becalm_cuda::{Argument, Device, DeviceInfo, Fault, Kernels, STREAMS};
use pool::{Outcome, Pool};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::c_void;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Puts `libcuda` and NVRTC into a folder: links to this crate's `cdylib`, which lies where cargo builds tests. A process with
/// this folder first in `LD_LIBRARY_PATH` and in `BECALM_NVRTC` has an emulated GPU behind the driver's own calls.
///
/// # Errors
/// If there is no such library, or no such folder can be made.
pub fn driver_folder(folder: &Path) -> std::io::Result<()> {
    let program = std::env::current_exe()?;
    let name = concat!("lib", env!("CARGO_CRATE_NAME"), ".so");
    // Tests lie beside it, programs above.
    let places =
        program.parent().into_iter().flat_map(|p| [p.join(name), p.join("deps").join(name)]);
    let library = places.into_iter().find(|place| place.exists());
    let library = library.ok_or_else(|| std::io::Error::other(format!("no {name}")))?;
    std::fs::create_dir_all(folder)?;
    for name in ["libcuda.so", "libnvrtc.so.13", "libnvrtc-builtins.so.13.9999"] {
        match std::os::unix::fs::symlink(&library, folder.join(name)) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Runs a kernel: `arguments` are pointers to each argument, as the driver takes them; `seed` 0 runs threads in
/// order, else draws their order.
///
/// # Errors
/// The name that the emulator does not have, or what no driver would take.
///
/// # Safety
/// Arguments are those of the kernel, in number and type, and its pointers are valid for what it reads and writes.
pub unsafe fn run(
    kernels: &Kernels,
    launch: &Launch,
    seed: u64,
    arguments: &mut [*mut c_void],
) -> Result<(), String> {
    launch.check(&Emulated::new(0).info)?;
    let mut pool = Pool::default();
    // SAFETY: promised by the caller; the arguments stay until this returns.
    unsafe { pool.begin(kernels, launch, seed, arguments.to_vec(), 0)? };
    match pool.go() {
        Outcome::Done | Outcome::Ended(_) => Ok(()),
        Outcome::Stuck(why) | Outcome::Failed(why) => Err(format!("{}: {why}", launch.kernel)),
    }
}

/// Something that waits on a stream.
#[derive(Clone)]
enum Task {
    Launch(Kernels, Launch, Vec<Argument>),
    Upload(u64, Vec<u8>),
    /// So many bytes to the device from an address of the host, which are read when their turn comes; and back.
    Read(u64, usize, usize),
    Write(usize, u64, usize),
    /// Waits until a number of tasks of another stream are done.
    After(usize, u64),
}

/// A copy between the host's memory, by its address, and the device's.
pub(crate) enum HostCopy {
    ToDevice { to: u64, from: usize, bytes: usize },
    ToHost { to: usize, from: u64, bytes: usize },
}

#[derive(Default)]
struct State {
    /// Bytes of each allocation by address, and its memory.
    memory: BTreeMap<u64, (u64, Vec<[u64; 32]>)>,
    used: u64,
    /// The device's streams, and behind them those of replayed recordings.
    streams: Vec<Stream>,
    /// Launches that have begun, and why none of them can go on.
    pool: Pool,
    stuck: Option<String>,
    /// The recording: tasks in the order in which they were put, with their streams.
    recording: Option<Vec<(usize, Task)>>,
    /// Whether something was asked meanwhile that cannot be recorded.
    spoilt: Option<&'static str>,
    recordings: BTreeMap<u64, Vec<(usize, Task)>>,
    /// Kernels that were launched: the driver may have to load another, which a recording cannot hold.
    kernels: HashSet<(Kernels, &'static str)>,
    random: u64,
    allocations: u64,
    put: u64,
    launches: u64,
    begun: u64,
    replays: u64,
    copied: u64,
}

/// A stream's waiting tasks, and how many tasks were put on it and done.
#[derive(Default)]
struct Stream {
    waiting: VecDeque<Task>,
    /// The arguments of its launch that has begun.
    running: Option<Vec<Argument>>,
    put: u64,
    done: u64,
}

/// The steps of a recording that a device can be told to refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recordings {
    /// That it begins.
    Begin,
    /// That it ends.
    End,
    /// That it is replayed this number of times and once more.
    Replay(u64),
}

/// A device of the emulator.
pub struct Emulated {
    info: DeviceInfo,
    /// Launches after which the device is lost.
    life: u64,
    /// Which launch fails as it is put, counted from 1; 0 for none.
    refused: u64,
    unrecorded: Option<Recordings>,
    state: Mutex<State>,
}

impl Emulated {
    /// A small device of compute capability 9.0. `seed` draws the order of streams and threads; 0: threads in order.
    pub fn new(seed: u64) -> Self {
        let info = DeviceInfo {
            name: "emulator".to_string(),
            capability: (9, 0),
            multiprocessors: 4,
            shared: 227 << 10,
            memory: 1 << 32,
            cache: 4 << 20,
        };
        Emulated {
            info,
            life: u64::MAX,
            refused: 0,
            unrecorded: None,
            state: Mutex::new(State {
                random: seed,
                streams: (0..STREAMS).map(|_| Stream::default()).collect(),
                ..State::default()
            }),
        }
    }

    /// The same with another description.
    pub fn with(mut self, change: impl FnOnce(&mut DeviceInfo)) -> Self {
        change(&mut self.info);
        self
    }

    /// The same, lost after `launches` launches.
    pub fn mortal(mut self, launches: u64) -> Self {
        self.life = launches;
        self
    }

    /// The same, which refuses the launch of this number, counted from 1, when it is put, and none other.
    pub fn refusing(mut self, launch: u64) -> Self {
        self.refused = launch;
        self
    }

    /// The same, which refuses this of every recording.
    pub fn without(mut self, what: Recordings) -> Self {
        self.unrecorded = Some(what);
        self
    }

    /// Pieces of memory that were ever given out.
    pub fn allocations(&self) -> u64 {
        self.state().allocations
    }

    /// Launches that were put, refused ones among them.
    pub fn put(&self) -> u64 {
        self.state().put
    }

    /// Launches so far, and bytes copied to the device.
    pub fn work(&self) -> (u64, u64) {
        let state = self.state();
        (state.launches, state.copied)
    }

    /// Whether a kernel of this name was launched.
    pub fn has_launched(&self, kernel: &str) -> bool {
        self.state().kernels.iter().any(|(_, name)| *name == kernel)
    }

    /// Recordings that were asked for, refused ones among them.
    pub fn begun(&self) -> u64 {
        self.state().begun
    }

    /// Recordings that were replayed, and those that are kept.
    pub fn recordings(&self) -> (u64, usize) {
        let state = self.state();
        (state.replays, state.recordings.len())
    }

    /// Refuses what it was told to refuse of recordings.
    fn told(&self, what: Recordings) -> Result<(), Fault> {
        match self.unrecorded == Some(what) {
            true => Err(Fault::Failed("a recording was told to fail".to_string())),
            false => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a copy from or to the host's memory on a stream. It is made when the host waits for it, or at any time before: whoever
    /// uses the host's side meanwhile finds something else there than it wants.
    pub(crate) fn copy(&self, stream: usize, copy: HostCopy) -> Result<(), Fault> {
        let mut state = self.state();
        state.live("a copy")?;
        let task = match copy {
            HostCopy::ToDevice { to, from, bytes } => {
                state.find(to, bytes as u64)?;
                state.copied += bytes as u64;
                Task::Read(to, from, bytes)
            }
            HostCopy::ToHost { to, from, bytes } => {
                state.find(from, bytes as u64)?;
                Task::Write(to, from, bytes)
            }
        };
        state.push(stream, task);
        // Late as a rule, so that a use that comes too early shows.
        if state.draw() % 8 == 1 {
            self.step(&mut state)?;
        }
        Ok(())
    }

    /// How many tasks were put on a stream.
    pub(crate) fn mark(&self, stream: usize) -> u64 {
        self.state().streams[stream].put
    }

    /// Waits for the first `count` tasks of a stream, and for no others but by chance.
    pub(crate) fn reach(&self, stream: usize, count: u64) -> Result<(), Fault> {
        let mut state = self.state();
        state.live("a wait")?;
        self.serve(&mut state, Some((stream, count)))
    }

    /// Tasks put on `stream` from now on wait for the first `count` tasks of `after`; in a recording for all that were put.
    pub(crate) fn follow_mark(&self, stream: usize, after: usize, count: u64) {
        self.state().push(stream, Task::After(after, count));
    }
}

impl State {
    /// splitmix64, or always 0.
    fn draw(&mut self) -> u64 {
        if self.random == 0 {
            return 0;
        }
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 29)
    }

    /// The memory behind an address, from there on.
    fn find(&mut self, at: u64, bytes: u64) -> Result<*mut u8, Fault> {
        let found = self.memory.range_mut(..=at).next_back();
        match found {
            Some((start, (size, memory))) if at + bytes <= start + *size => {
                // SAFETY: the offset is below the size of this memory.
                Ok(unsafe { memory.as_mut_ptr().cast::<u8>().add((at - start) as usize) })
            }
            _ => Err(Fault::Failed(format!("{bytes} bytes at {at:#x} are not allocated"))),
        }
    }

    fn place(&mut self, to: u64, bytes: &[u8]) -> Result<(), Fault> {
        let at = self.find(to, bytes.len() as u64)?;
        // SAFETY: `find` has checked that the bytes lie in one allocation, which no other thread touches now.
        unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn push(&mut self, stream: usize, task: Task) {
        match &mut self.recording {
            Some(tasks) => tasks.push((stream, task)),
            None => {
                self.streams[stream].put += 1;
                self.streams[stream].waiting.push_back(task);
            }
        }
    }

    /// Tasks put on a stream from now on wait for the tasks that another one has now.
    fn order(&mut self, stream: usize, after: usize) {
        let count = self.streams[after].put;
        self.push(stream, Task::After(after, count));
    }

    /// Refuses what a recording cannot hold, which spoils it.
    fn live(&mut self, what: &'static str) -> Result<(), Fault> {
        if self.recording.is_none() {
            return Ok(());
        }
        self.spoilt = Some(what);
        Err(Fault::Failed(format!("{what} while launches are recorded")))
    }
}

impl Device for Emulated {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory(&self) -> Result<u64, Fault> {
        Ok(self.info.memory.saturating_sub(self.state().used))
    }

    fn prepare(&self, kernels: &Kernels) -> Result<(), Fault> {
        let known = Kernels::ahead().chain(Kernels::of_tests()).any(|k| k == *kernels);
        let (got, remedy) = ("none in the emulator".into(), "add them to its tests'".into());
        if known { Ok(()) } else { Err(Fault::NoKernels { name: kernels.name(), got, remedy }) }
    }

    fn allocate(&self, bytes: u64) -> Result<u64, Fault> {
        let mut state = self.state();
        state.live("memory")?;
        let size = bytes.next_multiple_of(256).max(256);
        if state.used + size > self.info.memory {
            return Err(Fault::Memory(bytes));
        }
        let memory = vec![[0xA5A5_A5A5_A5A5_A5A5u64; 32]; (size / 256) as usize];
        let at = memory.as_ptr() as u64;
        state.memory.insert(at, (bytes.max(1), memory));
        state.allocations += 1;
        state.used += size;
        Ok(at)
    }

    unsafe fn release(&self, at: u64) {
        let mut state = self.state();
        _ = state.live("memory given back");
        // A device that is lost frees too.
        _ = self.serve(&mut state, None);
        if let Some((size, _)) = state.memory.remove(&at) {
            state.used -= size.next_multiple_of(256).max(256);
        }
    }

    unsafe fn upload(&self, to: u64, from: &[u8]) -> Result<(), Fault> {
        let mut state = self.state();
        state.live("a copy")?;
        state.find(to, from.len() as u64)?;
        state.copied += from.len() as u64;
        state.push(0, Task::Upload(to, from.to_vec()));
        Ok(())
    }

    unsafe fn download(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), Fault> {
        let mut state = self.state();
        state.live("a copy")?;
        self.serve(&mut state, None)?;
        for (from, to) in pieces {
            let at = state.find(*from, to.len() as u64)?;
            // SAFETY: `find` has checked that the bytes lie in one allocation; the lock keeps others away.
            unsafe { at.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
        }
        Ok(())
    }

    unsafe fn launch(
        &self,
        stream: usize,
        kernels: &Kernels,
        launch: &Launch,
        arguments: &[Argument],
    ) -> Result<(), Fault> {
        let mut state = self.state();
        state.put += 1;
        let refused = launch.check(&self.info).err();
        let told = (state.put == self.refused).then(|| "a launch was told to fail".to_string());
        if let Some(why) = refused.or(told) {
            // A call that the driver refuses spoils a capture.
            if state.recording.is_some() {
                state.spoilt = Some("a launch that was refused");
            }
            return Err(Fault::Failed(why));
        }
        if state.kernels.insert((*kernels, launch.kernel)) {
            state.live("the first launch of a kernel")?;
        }
        state.push(stream, Task::Launch(*kernels, *launch, arguments.to_vec()));
        Ok(())
    }

    fn follow(&self, stream: usize, after: usize) -> Result<(), Fault> {
        let mut state = self.state();
        state.order(stream, after);
        Ok(())
    }

    fn wait(&self) -> Result<(), Fault> {
        let mut state = self.state();
        state.live("a wait")?;
        self.serve(&mut state, None)
    }

    fn record(&self) -> Result<(), Fault> {
        let mut state = self.state();
        state.begun += 1;
        state.live("another recording")?;
        self.told(Recordings::Begin)?;
        state.recording = Some(vec![]);
        (1..STREAMS).for_each(|s| state.order(s, 0));
        Ok(())
    }

    fn recorded(&self) -> Result<u64, Fault> {
        let mut state = self.state();
        (1..STREAMS).for_each(|s| state.order(0, s));
        let Some(tasks) = state.recording.take() else {
            return Err(Fault::Failed("the end of a recording that never began".to_string()));
        };
        let spoilt = state.spoilt.take();
        self.told(Recordings::End)?;
        if let Some(what) = spoilt {
            return Err(Fault::Failed(format!("{what} while launches were recorded")));
        }
        let number = state.recordings.keys().next_back().map_or(1, |last| last + 1);
        state.recordings.insert(number, tasks);
        Ok(number)
    }

    unsafe fn replay(&self, recording: u64) -> Result<(), Fault> {
        let mut state = self.state();
        state.live("a replay")?;
        let Some(tasks) = state.recordings.get(&recording).cloned() else {
            return Err(Fault::Failed(format!("no recording {recording}")));
        };
        self.told(Recordings::Replay(state.replays))?;
        state.replays += 1;
        // A graph has its own streams beside stream 0, in no order with those of the device.
        let own = state.streams.len();
        state.streams.extend((1..STREAMS).map(|_| Stream::default()));
        let place = |stream: usize| if stream == 0 { 0 } else { own + stream - 1 };
        for (stream, task) in tasks {
            match task {
                Task::After(after, _) => state.order(place(stream), place(after)),
                task => state.push(place(stream), task),
            }
        }
        Ok(())
    }

    unsafe fn forget(&self, recording: u64) {
        self.state().recordings.remove(&recording);
    }
}
