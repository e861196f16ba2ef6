//! GPUs that are not there: [`becalm_cuda`]'s kernels on the CPU, the same sources compiled by the C++ compiler of the machine
//! against `emulator/emulator.h`, behind the same [`Device`] as the driver.
//!
//! Work that is put on a stream waits there until somebody waits for it, and then streams are served in an order drawn at
//! random: an order between two streams that nobody asked for shows. Memory comes full of 0xA5, addresses are checked against
//! what was allocated, and a device can be told to lose its contact, or to be small.
#![deny(missing_docs)]

use becalm_cuda::launch::Launch;
use becalm_cuda::{Argument, Device, DeviceInfo, Fault, Ring, STREAMS};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

unsafe extern "C" {
    fn becalm_emulator_run(
        ring: *const c_char,
        kernel: *const c_char,
        grid: *const c_uint,
        block: c_uint,
        cluster: c_uint,
        shared: usize,
        seed: u64,
        arguments: *mut *mut c_void,
    ) -> c_int;
}

/// Runs a kernel of a ring: `arguments` are pointers to each argument, as the driver takes them; `seed` 0 runs threads in
/// order, else draws their order.
///
/// # Errors
/// The name that the emulator does not have.
///
/// # Safety
/// Arguments are those of the kernel, in number and type, and its pointers are valid for what it reads and writes.
pub unsafe fn run(
    ring: &Ring,
    launch: &Launch,
    seed: u64,
    arguments: &mut [*mut c_void],
) -> Result<(), String> {
    let (name, kernel) = (CString::new(ring.name()), CString::new(launch.kernel));
    let (Ok(name), Ok(kernel)) = (name, kernel) else {
        return Err("a name with a zero byte".to_string());
    };
    // SAFETY: strings end in 0, the grid has three numbers; the rest is promised by the caller.
    let code = unsafe {
        becalm_emulator_run(
            name.as_ptr(),
            kernel.as_ptr(),
            launch.grid.as_ptr(),
            launch.block,
            launch.cluster,
            launch.shared as usize,
            seed,
            arguments.as_mut_ptr(),
        )
    };
    match code {
        0 => Ok(()),
        1 => Err(format!("no ring {} in the emulator", ring.name())),
        _ => Err(format!("no kernel {} for the ring {}", launch.kernel, ring.name())),
    }
}

/// Something that waits on a stream.
enum Task {
    Launch(Ring, Launch, Vec<Argument>),
    Upload(u64, Vec<u8>),
    /// Waits until so many tasks of another stream are done.
    After(usize, u64),
}

#[derive(Default)]
struct State {
    /// Bytes of each allocation by address, and its memory.
    memory: BTreeMap<u64, (u64, Vec<[u64; 32]>)>,
    used: u64,
    waiting: [VecDeque<Task>; STREAMS],
    /// Tasks that were put on each stream, and those done.
    put: [u64; STREAMS],
    done: [u64; STREAMS],
    random: u64,
    launches: u64,
    copied: u64,
}

/// A device of the emulator.
pub struct Emulated {
    info: DeviceInfo,
    /// Launches after which the device is lost.
    life: u64,
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
            state: Mutex::new(State { random: seed, ..State::default() }),
        }
    }

    /// The same with another description.
    pub fn with(mut self, change: impl FnOnce(&mut DeviceInfo)) -> Self {
        change(&mut self.info);
        self
    }

    /// The same, lost after so many launches.
    pub fn mortal(mut self, launches: u64) -> Self {
        self.life = launches;
        self
    }

    /// Launches so far, and bytes copied to the device.
    pub fn work(&self) -> (u64, u64) {
        let state = self.state();
        (state.launches, state.copied)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs what waits, streams in any order.
    fn serve(&self, state: &mut State) -> Result<(), Fault> {
        loop {
            let ready = |s: &usize| match state.waiting[*s].front() {
                Some(Task::After(other, count)) => state.done[*other] >= *count,
                Some(_) => true,
                None => false,
            };
            let ready: Vec<usize> = (0..STREAMS).filter(ready).collect();
            if ready.is_empty() {
                let stuck = state.waiting.iter().any(|w| !w.is_empty());
                let why = "streams that wait for each other".to_string();
                return if stuck { Err(Fault::Failed(why)) } else { Ok(()) };
            }
            let draw = state.draw();
            let stream = ready[draw as usize % ready.len()];
            match state.waiting[stream].pop_front() {
                Some(Task::Launch(ring, launch, arguments)) => {
                    self.run(state, &ring, &launch, &arguments)?
                }
                Some(Task::Upload(to, bytes)) => state.place(to, &bytes)?,
                _ => {}
            }
            state.done[stream] += 1;
        }
    }

    fn run(
        &self,
        state: &mut State,
        ring: &Ring,
        launch: &Launch,
        arguments: &[Argument],
    ) -> Result<(), Fault> {
        state.launches += 1;
        if state.launches > self.life {
            return Err(Fault::Lost("the emulated device was told to go".to_string()));
        }
        if launch.shared > self.info.shared || (launch.cluster > 1 && !self.info.clusters()) {
            return Err(Fault::Failed(format!("{launch:?} on {:?}", self.info)));
        }
        for argument in arguments {
            if let Argument::Address(at) = argument {
                state.find(*at, 1)?;
            }
        }
        let seed = if state.random == 0 { 0 } else { state.draw() | 1 };
        let mut pointers: Vec<*mut c_void> = arguments.iter().map(pointer).collect();
        // SAFETY: the caller of `launch` promised that arguments are the kernel's and its addresses valid.
        unsafe { run(ring, launch, seed, &mut pointers) }.map_err(Fault::Failed)
    }
}

/// Where the value of an argument lies.
fn pointer(argument: &Argument) -> *mut c_void {
    match argument {
        Argument::Address(x) | Argument::U64(x) => (&raw const *x).cast_mut().cast(),
        Argument::U32(x) => (&raw const *x).cast_mut().cast(),
        Argument::KeySwitch(x) => (&raw const *x).cast_mut().cast(),
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
        // SAFETY: `find` has checked that the bytes lie in one allocation, which nobody else touches now.
        unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn push(&mut self, stream: usize, task: Task) {
        self.put[stream] += 1;
        self.waiting[stream].push_back(task);
    }
}

impl Device for Emulated {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory(&self) -> Result<u64, Fault> {
        Ok(self.info.memory.saturating_sub(self.state().used))
    }

    fn prepare(&self, ring: &Ring) -> Result<(), Fault> {
        let known = becalm_cuda::RINGS.iter().chain(becalm_cuda::TEST_RINGS).any(|r| r == ring);
        let what = format!("{} in the emulator", ring.name());
        if known { Ok(()) } else { Err(Fault::NoKernels(what, "add it to TEST_RINGS".to_string())) }
    }

    fn allocate(&self, bytes: u64) -> Result<u64, Fault> {
        let mut state = self.state();
        let size = bytes.next_multiple_of(256).max(256);
        if state.used + size > self.info.memory {
            return Err(Fault::Memory(bytes));
        }
        let memory = vec![[0xA5A5_A5A5_A5A5_A5A5u64; 32]; (size / 256) as usize];
        let at = memory.as_ptr() as u64;
        state.memory.insert(at, (bytes.max(1), memory));
        state.used += size;
        Ok(at)
    }

    unsafe fn release(&self, at: u64) {
        let mut state = self.state();
        // A device that is lost frees too.
        if self.serve(&mut state).is_err() {
            state.waiting.iter_mut().for_each(VecDeque::clear);
        }
        if let Some((size, _)) = state.memory.remove(&at) {
            state.used -= size.next_multiple_of(256).max(256);
        }
    }

    unsafe fn upload(&self, stream: usize, to: u64, from: &[u8]) -> Result<(), Fault> {
        let mut state = self.state();
        state.find(to, from.len() as u64)?;
        state.copied += from.len() as u64;
        state.push(stream, Task::Upload(to, from.to_vec()));
        Ok(())
    }

    unsafe fn download(&self, _stream: usize, from: u64, to: &mut [u8]) -> Result<(), Fault> {
        let mut state = self.state();
        self.serve(&mut state)?;
        let at = state.find(from, to.len() as u64)?;
        // SAFETY: `find` has checked that the bytes lie in one allocation; the lock keeps others away.
        unsafe { at.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    unsafe fn launch(
        &self,
        stream: usize,
        ring: &Ring,
        launch: &Launch,
        arguments: &[Argument],
    ) -> Result<(), Fault> {
        self.state().push(stream, Task::Launch(*ring, *launch, arguments.to_vec()));
        Ok(())
    }

    fn follow(&self, stream: usize, after: usize) -> Result<(), Fault> {
        let mut state = self.state();
        let count = state.put[after];
        state.push(stream, Task::After(after, count));
        Ok(())
    }

    fn wait(&self) -> Result<(), Fault> {
        self.serve(&mut self.state())
    }
}
