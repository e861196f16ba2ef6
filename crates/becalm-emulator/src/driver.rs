//! The state of an emulated driver behind the calls of [`crate::libcuda`]: devices, and handles as the driver gives them out.
//!
//! It is stricter than a driver where that finds mistakes: a call without a context, a handle that was destroyed or that is of
//! another device, a stream that was not forked into a capture or not joined to it is an error. It counts what is alive, and
//! fails one call when told to.
//!
//! `$BECALM_EMULATOR_DRIVER` makes it another machine's: `version=12080` (what `cuDriverGetVersion` says; 13000 without),
//! `devices=2` (one without; with none `cuInit` fails as a driver does), `init=999` (what `cuInit` says), `capability=8.0,7.5` of
//! each device (9.0 without), `memory=1048576` (bytes of each device; 4 GiB without), `module=209` (the error for every
//! module).

use crate::Emulated;
use becalm_cuda::launch::CLUSTER;
use becalm_cuda::{Fault, Kernels};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

pub(crate) const INVALID_VALUE: c_int = 1;
pub(crate) const OUT_OF_MEMORY: c_int = 2;
pub(crate) const NO_DEVICE: c_int = 100;
pub(crate) const INVALID_DEVICE: c_int = 101;
pub(crate) const INVALID_IMAGE: c_int = 200;
pub(crate) const INVALID_CONTEXT: c_int = 201;
pub(crate) const INVALID_HANDLE: c_int = 400;
pub(crate) const NOT_FOUND: c_int = 500;
pub(crate) const LAUNCH_FAILED: c_int = 719;
pub(crate) const CAPTURE_UNSUPPORTED: c_int = 900;
pub(crate) const CAPTURE_UNJOINED: c_int = 904;

/// Bytes of shared memory that a launch may have without an attribute of its function.
pub(crate) const SHARED: u32 = 48 << 10;
/// Priorities of streams, the least and the greatest, as an H100 has them.
pub(crate) const PRIORITIES: (c_int, c_int) = (0, -5);
/// Page-locked memory available at once.
pub(crate) const HOST: usize = 1 << 30;

/// The parameters of a kernel: a for an address, i for 32 bits, l for 64, k for the shape of a key switch.
pub(crate) const KERNELS: &[(&str, &str)] = &[
    ("becalm_load_table", "aaai"),
    ("becalm_sample_extract", "aa"),
    ("becalm_rotate_cluster", "aalaiiia"),
    ("becalm_rotate_block", "aalaiiia"),
    ("becalm_rotate_pair", "aalaiiia"),
    ("becalm_bundle_one", "aaaiia"),
    ("becalm_bundle_many", "aaaiia"),
    ("becalm_bundle_tensor", "aaaiia"),
    ("becalm_rotate_leaves_16", "aaaialaia"),
    ("becalm_rotate_leaves_4", "aaaialaia"),
    ("becalm_bundle_stream", "aaaaia"),
    ("becalm_key_switch_start", "aaaki"),
    ("becalm_key_switch_32", "aaakii"),
    ("becalm_key_switch_64", "aaakii"),
    ("becalm_modulus_switch", "aaiiaiai"),
    ("becalm_rotate_batch", "aaaaaiiiia"),
    ("becalm_bundle_ahead", "alaaaiiia"),
    ("becalm_linear", "aa"),
    ("becalm_to_fourier", "aala"),
    ("becalm_ntt_rows", "aaaalli"),
    ("becalm_intt_rows", "aaaall"),
    ("becalm_convert", "aaaaaaalli"),
    ("becalm_key_product", "aaaaiaaaaaaiiiiiilll"),
    ("becalm_key_baby", "aaaaaaiiiiiiiii"),
    ("becalm_key_baby_8", "aaaaaaiiiiiiiii"),
    ("becalm_sum", "aaaaiaiaail"),
    ("becalm_micro_fp64", "aaii"),
    ("becalm_micro_read", "aaaii"),
    ("becalm_micro_barrier", "ai"),
    ("becalm_micro_remote", "aai"),
    // The emulator's alone, for its tests.
    ("becalm_try_all_to_all", "ai"),
    ("becalm_try_produce", "aaai"),
    ("becalm_try_consume", "aaai"),
];

/// The object behind a handle.
pub(crate) enum Handle {
    /// Which of the device's it is, and its priority.
    Stream(usize, c_int),
    /// The stream on which it was recorded last, and how many tasks were put on that.
    Event(Option<(usize, u64)>),
    Module(Kernels),
    /// A function: its module, its name, and what it was told.
    Function(u64, &'static (&'static str, &'static str), Told),
    Graph(u64),
    /// The recording that it replays.
    Executable(u64),
    Memory,
    /// Page-locked memory of the host.
    Host(#[expect(dead_code, reason = "kept until it is given back")] Vec<[u64; 8]>),
}

/// Attributes that a function was given: the bytes of shared memory that it may have, which part of a multiprocessor's memory it wants for
/// that, in percent, and whether its clusters may be larger than those of every GPU.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    pub shared: u32,
    pub carveout: c_int,
    pub large: bool,
}

impl Told {
    pub const NOTHING: Told = Told { shared: SHARED, carveout: -1, large: false };

    /// Takes an attribute of a function of a device with so much shared memory.
    pub fn take(&mut self, what: c_int, value: c_int, most: u32) -> Done<()> {
        match (what, value) {
            (8, 0..) if value as u32 <= most => self.shared = value as u32,
            (9, -1..=100) => self.carveout = value,
            (14, 0..=1) => self.large = value == 1,
            _ => return Err(told(INVALID_VALUE, &format!("attribute {what} of a function"))),
        }
        Ok(())
    }

    /// Whether a function that was told this can be launched so. A driver launches one with more shared memory and no wish for
    /// it too, but maybe fewer blocks at once.
    pub fn allows(&self, shared: u32, cluster: u32) -> bool {
        shared <= self.shared
            && (shared <= SHARED || self.carveout == 100)
            && (cluster <= CLUSTER || self.large)
    }
}

/// A capture of stream 0: whether another stream was forked, and has something that is not joined.
#[derive(Default)]
pub(crate) struct Capture {
    pub forked: bool,
    pub apart: bool,
}

/// A device, and what the driver has given out of it.
pub(crate) struct Driver {
    pub device: Emulated,
    pub contexts: u64,
    pub handles: HashMap<u64, Handle>,
    /// Streams that were made since there was none.
    pub streams: usize,
    next: u64,
    pub capture: Option<Capture>,
    /// The priority of the stream on which each kernel was put last, and the flags of the last graph.
    pub priorities: HashMap<&'static str, c_int>,
    pub graph: u64,
    /// Calls that waited for a stream or an event, and whether those for events return at once.
    pub waits: u64,
    pub hasty: bool,
    /// The code that refuses modules; 0 loads them.
    pub module: c_int,
}

/// All devices of the driver.
pub(crate) struct Drivers {
    all: Vec<Driver>,
    pub version: c_int,
    /// The code that `cuInit` returns.
    pub init: c_int,
    calls: u64,
    failing: (u64, c_int),
}

static DRIVERS: LazyLock<Mutex<Drivers>> = LazyLock::new(|| {
    let text = |name| std::env::var(name).unwrap_or_default();
    let seed: u64 = text("BECALM_EMULATOR_SEED").parse().unwrap_or(0);
    Mutex::new(Drivers::new(&text("BECALM_EMULATOR_DRIVER"), seed))
});

thread_local! {
    /// The device whose context is that of this thread; none below 0.
    pub(crate) static CURRENT: Cell<c_int> = const { Cell::new(-1) };
}

pub(crate) type Done<T> = Result<T, c_int>;

fn drivers() -> MutexGuard<'static, Drivers> {
    DRIVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that may be told to fail, of no device.
pub(crate) fn ask(body: impl FnOnce(&mut Drivers) -> Done<()>) -> c_int {
    let mut drivers = drivers();
    drivers.calls += 1;
    if drivers.calls == drivers.failing.0 {
        return drivers.failing.1;
    }
    body(&mut drivers).err().unwrap_or(0)
}

/// The same, of a device.
pub(crate) fn ask_of(device: c_int, body: impl FnOnce(&mut Driver) -> Done<()>) -> c_int {
    ask(|drivers| body(drivers.of(device).ok_or(INVALID_DEVICE)?))
}

/// The same, of the device whose context is that of this thread.
pub(crate) fn call(body: impl FnOnce(&mut Driver) -> Done<()>) -> c_int {
    ask(|drivers| body(drivers.of(CURRENT.get()).ok_or(INVALID_CONTEXT)?))
}

/// A call that gives something of a device back, which never fails by being told to.
pub(crate) fn give_of(device: c_int, body: impl FnOnce(&mut Driver) -> Done<()>) -> c_int {
    match drivers().of(device) {
        Some(driver) => body(driver).err().unwrap_or(0),
        None => INVALID_CONTEXT,
    }
}

/// The same, of the device whose context is that of this thread.
pub(crate) fn give(body: impl FnOnce(&mut Driver) -> Done<()>) -> c_int {
    give_of(CURRENT.get(), body)
}

pub(crate) fn code(fault: Fault) -> c_int {
    match fault {
        Fault::Memory(_) => OUT_OF_MEMORY,
        Fault::NoKernels { .. } => INVALID_IMAGE,
        Fault::Lost(why) => told(LAUNCH_FAILED, &why),
        Fault::Failed(why) => told(INVALID_VALUE, &why),
    }
}

/// A driver has codes alone, too little for debugging.
pub(crate) fn told(code: c_int, why: &str) -> c_int {
    eprintln!("emulated driver: {why}");
    code
}

impl Drivers {
    /// As the words of `$BECALM_EMULATOR_DRIVER` say.
    fn new(words: &str, seed: u64) -> Self {
        let (mut version, mut devices, mut init, mut module) = (13000, 1, None, 0);
        let mut memory = None;
        let mut capabilities: Vec<(u32, u32)> = vec![];
        let number = |text: &str| -> c_int { text.parse().expect("a number of the driver") };
        for word in words.split_whitespace() {
            match word.split_once('=') {
                Some(("version", text)) => version = number(text),
                Some(("devices", text)) => devices = number(text),
                Some(("init", text)) => init = Some(number(text)),
                Some(("module", text)) => module = number(text),
                Some(("memory", text)) => memory = Some(number(text) as u64),
                Some(("capability", text)) => {
                    let of = |one: &str| {
                        let (major, minor) = one.split_once('.').expect("a capability");
                        (number(major) as u32, number(minor) as u32)
                    };
                    capabilities = text.split(',').map(of).collect();
                }
                _ => panic!("BECALM_EMULATOR_DRIVER has {word}"),
            }
        }
        let driver = |i: u64| Driver {
            device: Emulated::new(if seed == 0 { 0 } else { seed + i }).with(|info| {
                info.capability = *capabilities.get(i as usize).unwrap_or(&(9, 0));
                info.memory = memory.unwrap_or(info.memory);
            }),
            contexts: 0,
            handles: HashMap::new(),
            streams: 0,
            // No handle of one device is another's.
            next: 0x1000 + (i << 40),
            capture: None,
            priorities: HashMap::new(),
            graph: 0,
            waits: 0,
            hasty: false,
            module,
        };
        let init = init.unwrap_or(if devices == 0 { NO_DEVICE } else { 0 });
        let all = (0..devices as u64).map(driver).collect();
        Drivers { all, version, init, calls: 0, failing: (0, 0) }
    }

    pub fn count(&self) -> c_int {
        self.all.len() as c_int
    }

    fn of(&mut self, device: c_int) -> Option<&mut Driver> {
        self.all.get_mut(usize::try_from(device).ok()?)
    }
}

impl Driver {
    /// Refuses a call of a thread whose context was given back.
    pub fn entered(&self) -> Done<()> {
        if self.contexts > 0 { Ok(()) } else { Err(INVALID_CONTEXT) }
    }

    pub fn add(&mut self, handle: Handle) -> u64 {
        self.next += 0x10;
        self.handles.insert(self.next, handle);
        self.next
    }

    pub fn stream(&self, handle: u64) -> Done<usize> {
        match self.handles.get(&handle) {
            Some(Handle::Stream(stream, _)) => Ok(*stream),
            _ => Err(INVALID_HANDLE),
        }
    }

    /// Notes with which priority a kernel is put on a stream.
    pub fn note(&mut self, stream: u64, kernel: &'static str) {
        if let Some(Handle::Stream(_, priority)) = self.handles.get(&stream) {
            self.priorities.insert(kernel, *priority);
        }
    }

    /// Removes a handle that is of this kind.
    pub fn remove(&mut self, handle: u64, kind: impl FnOnce(&Handle) -> bool) -> Done<Handle> {
        match self.handles.remove(&handle) {
            Some(found) if kind(&found) => Ok(found),
            Some(found) => {
                self.handles.insert(handle, found);
                Err(INVALID_HANDLE)
            }
            None => Err(INVALID_HANDLE),
        }
    }

    /// Puts a task on a stream while another one captures. The task belongs to the capture if its stream was forked into it.
    pub fn put(&mut self, stream: usize) -> Done<()> {
        match &mut self.capture {
            Some(capture) if stream > 0 && !capture.forked => {
                Err(told(CAPTURE_UNSUPPORTED, "a stream beside a capture that was not forked"))
            }
            Some(capture) => {
                capture.apart |= stream > 0;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Handles of each kind that are alive, and contexts.
    fn alive(&self) -> [u64; 9] {
        let mut alive = [0; 9];
        alive[0] = self.contexts;
        for handle in self.handles.values() {
            let kind = match handle {
                Handle::Stream(..) => 1,
                Handle::Event(_) => 2,
                Handle::Module(_) => 3,
                Handle::Memory => 4,
                Handle::Graph(_) => 5,
                Handle::Executable(_) => 6,
                Handle::Host(_) => 8,
                // Goes with its module.
                Handle::Function(..) => continue,
            };
            alive[kind] += 1;
        }
        alive[7] = u64::from(self.capture.is_some());
        alive
    }
}

/// Fails the call of this number from now on, counted from 1, with a code; 0 for none. The calls so far begin anew.
#[unsafe(no_mangle)]
extern "C" fn becalm_driver_fail(number: u64, code: c_int) {
    let mut drivers = drivers();
    (drivers.calls, drivers.failing) = (0, (number, code));
}

/// Calls so far that might have failed.
#[unsafe(no_mangle)]
extern "C" fn becalm_driver_calls() -> u64 {
    drivers().calls
}

/// Calls that waited so far.
#[unsafe(no_mangle)]
extern "C" fn becalm_driver_waits() -> u64 {
    drivers().all.iter().map(|driver| driver.waits).sum()
}

/// From now on, or no longer, who waits for an event goes on at once: as one does who forgets to wait.
#[unsafe(no_mangle)]
extern "C" fn becalm_driver_hasty(on: c_int) {
    drivers().all.iter_mut().for_each(|driver| driver.hasty = on != 0);
}

/// Launches of a device so far.
#[unsafe(no_mangle)]
extern "C" fn becalm_driver_launches(device: c_int) -> u64 {
    drivers().of(device).map_or(0, |driver| driver.device.work().0)
}

/// The priority of the stream on which the first device's kernel of this name was put last; 1, which no stream has, if it was
/// not.
#[unsafe(no_mangle)]
unsafe extern "C" fn becalm_driver_priority(kernel: *const c_char) -> c_int {
    // SAFETY: a name that ends in 0 is promised.
    let kernel = unsafe { CStr::from_ptr(kernel) }.to_str().unwrap_or_default();
    drivers().of(0).and_then(|driver| driver.priorities.get(kernel).copied()).unwrap_or(1)
}

/// The flags of the graph that was instantiated last on the first device.
#[unsafe(no_mangle)]
extern "C" fn becalm_driver_graph() -> u64 {
    drivers().of(0).map_or(0, |driver| driver.graph)
}

/// Contexts, streams, events, modules, memory, graphs, executable graphs that are alive, whether something is captured, and
/// page-locked memory of the host, of all devices together.
#[unsafe(no_mangle)]
unsafe extern "C" fn becalm_driver_alive(out: *mut u64) {
    let mut alive = [0; 9];
    for driver in &drivers().all {
        alive.iter_mut().zip(driver.alive()).for_each(|(all, of_one)| *all += of_one);
    }
    // SAFETY: room for nine numbers is promised.
    unsafe { out.copy_from_nonoverlapping(alive.as_ptr(), alive.len()) };
}
