//! The state of an emulated driver behind the calls of [`crate::libcuda`]: one device, and handles as the driver gives them out.
//!
//! It is stricter than a driver where that finds mistakes: a call without a context, a handle that was destroyed, a stream
//! that was not forked into a capture or not joined to it is an error. It counts what is alive, and fails one call when told to.

use crate::Emulated;
use becalm_cuda::{Fault, Ring};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex, PoisonError};

pub(crate) const INVALID_VALUE: c_int = 1;
pub(crate) const OUT_OF_MEMORY: c_int = 2;
pub(crate) const NO_DEVICE: c_int = 100;
pub(crate) const INVALID_IMAGE: c_int = 200;
pub(crate) const INVALID_CONTEXT: c_int = 201;
pub(crate) const INVALID_HANDLE: c_int = 400;
pub(crate) const NOT_FOUND: c_int = 500;
pub(crate) const LAUNCH_FAILED: c_int = 719;
pub(crate) const CAPTURE_UNSUPPORTED: c_int = 900;
pub(crate) const CAPTURE_UNJOINED: c_int = 904;

/// Bytes of shared memory that a launch may have without an attribute of its function.
pub(crate) const SHARED: u32 = 48 << 10;
/// Page-locked memory that there is at once.
pub(crate) const HOST: usize = 1 << 30;

/// What stands in a kernel's parameter list: a for an address, i for 32 bits, l for 64, k for the shape of a key switch.
pub(crate) const KERNELS: &[(&str, &str)] = &[
    ("becalm_load_table", "aaai"),
    ("becalm_sample_extract", "aa"),
    ("becalm_rotate_cluster", "aalaiiia"),
    ("becalm_rotate_block", "aalaiiia"),
    ("becalm_rotate_pair", "aalaiiia"),
    ("becalm_bundle_one", "aaaiia"),
    ("becalm_bundle_many", "aaaiia"),
    ("becalm_bundle_tensor", "aaaiia"),
    ("becalm_key_switch_start", "aak"),
    ("becalm_key_switch_32", "aaaki"),
    ("becalm_key_switch_64", "aaaki"),
    ("becalm_modulus_switch", "aaii"),
    ("becalm_linear", "aa"),
    ("becalm_to_fourier", "aala"),
    ("becalm_micro_fp64", "aaii"),
    ("becalm_micro_read", "aaaii"),
    ("becalm_micro_barrier", "ai"),
    ("becalm_micro_remote", "aai"),
];

/// What a handle stands for.
pub(crate) enum Handle {
    Stream(usize),
    /// The stream on which it was recorded last, and how many tasks were put on that.
    Event(Option<(usize, u64)>),
    Module(Ring),
    /// Of a module, and bytes of shared memory that it may have.
    Function(u64, &'static (&'static str, &'static str), u32),
    Graph(u64),
    /// Whose recording it is.
    Executable(u64),
    Memory,
    /// Of the host, page-locked.
    Host(#[expect(dead_code, reason = "kept until it is given back")] Vec<[u64; 8]>),
}

/// A capture of stream 0: whether another stream was forked, and has something that is not joined.
#[derive(Default)]
pub(crate) struct Capture {
    pub forked: bool,
    pub apart: bool,
}

/// A driver of one device.
pub(crate) struct Driver {
    pub device: Emulated,
    pub contexts: u64,
    pub handles: HashMap<u64, Handle>,
    /// Streams that were made since there was none.
    pub streams: usize,
    next: u64,
    pub capture: Option<Capture>,
    calls: u64,
    failing: (u64, c_int),
    /// Calls that waited for a stream or an event, and whether those for events return at once.
    pub waits: u64,
    pub hasty: bool,
}

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| {
    let seed = std::env::var("BECALM_EMULATOR_SEED").ok().and_then(|s| s.parse().ok());
    Mutex::new(Driver {
        device: Emulated::new(seed.unwrap_or(0)),
        contexts: 0,
        handles: HashMap::new(),
        streams: 0,
        next: 0x1000,
        capture: None,
        calls: 0,
        failing: (0, 0),
        waits: 0,
        hasty: false,
    })
});

thread_local! {
    pub(crate) static CURRENT: Cell<bool> = const { Cell::new(false) };
}

pub(crate) type Done<T> = Result<T, c_int>;

/// A call that may be told to fail.
pub(crate) fn call(body: impl FnOnce(&mut Driver) -> Done<()>) -> c_int {
    let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    driver.calls += 1;
    if driver.calls == driver.failing.0 {
        return driver.failing.1;
    }
    body(&mut driver).err().unwrap_or(0)
}

/// A call that gives something back, which never fails by being told to.
pub(crate) fn give(body: impl FnOnce(&mut Driver) -> Done<()>) -> c_int {
    let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    body(&mut driver).err().unwrap_or(0)
}

pub(crate) fn code(fault: Fault) -> c_int {
    match fault {
        Fault::Memory(_) => OUT_OF_MEMORY,
        Fault::NoKernels(..) => INVALID_IMAGE,
        Fault::Lost(why) => told(LAUNCH_FAILED, &why),
        Fault::Failed(why) => told(INVALID_VALUE, &why),
    }
}

/// A driver has codes alone; whoever looks for a mistake wants more.
pub(crate) fn told(code: c_int, why: &str) -> c_int {
    eprintln!("emulated driver: {why}");
    code
}

impl Driver {
    /// Refuses a call of a thread that has no context.
    pub fn entered(&self) -> Done<()> {
        if CURRENT.get() && self.contexts > 0 { Ok(()) } else { Err(INVALID_CONTEXT) }
    }

    pub fn add(&mut self, handle: Handle) -> u64 {
        self.next += 0x10;
        self.handles.insert(self.next, handle);
        self.next
    }

    pub fn stream(&self, handle: u64) -> Done<usize> {
        match self.handles.get(&handle) {
            Some(Handle::Stream(stream)) => Ok(*stream),
            _ => Err(INVALID_HANDLE),
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

    /// What is put on a stream while another captures: a part of the capture if it was forked into it.
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
                Handle::Stream(_) => 1,
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
    let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    (driver.calls, driver.failing) = (0, (number, code));
}

/// Calls so far that might have failed.
#[unsafe(no_mangle)]
extern "C" fn becalm_driver_calls() -> u64 {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner).calls
}

/// Calls that waited so far.
#[unsafe(no_mangle)]
extern "C" fn becalm_driver_waits() -> u64 {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner).waits
}

/// From now on, or no longer, who waits for an event goes on at once: as one does who forgets to wait.
#[unsafe(no_mangle)]
extern "C" fn becalm_driver_hasty(on: c_int) {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner).hasty = on != 0;
}

/// Contexts, streams, events, modules, memory, graphs, executable graphs that are alive, whether something is captured, and
/// page-locked memory of the host.
#[unsafe(no_mangle)]
unsafe extern "C" fn becalm_driver_alive(out: *mut u64) {
    let alive = DRIVER.lock().unwrap_or_else(PoisonError::into_inner).alive();
    // SAFETY: room for nine numbers is promised.
    unsafe { out.copy_from_nonoverlapping(alive.as_ptr(), alive.len()) };
}
