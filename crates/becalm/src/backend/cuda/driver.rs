//! The driver: [`Device`] by `libcuda`, which is loaded when a GPU is asked for and not before.
//!
//! A device is its primary context and [`STREAMS`] streams. Memory is plain (`cuMemAlloc`), copies go through page-locked memory
//! in the order of stream 0 ([`super::staging`]), clusters are an attribute of the launch. The driver of the tests computes with the
//! emulator.

use super::handles::{Event, Executable, Function, Graph, Module, PrimaryContext, Stream};
use super::images;
use super::staging::Staging;
use super::tiling::Tuning;
use crate::Error;
use becalm_cuda::launch::{CLUSTER, Launch};
use becalm_cuda::{Argument, Device, DeviceInfo, Fault, Kernels, STREAMS};
use cudarc::driver::result::{self, DriverError, device, event, graph, module, stream};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared memory that every kernel may ask for, in bytes.
const SHARED: u32 = 48 << 10;

/// A GPU behind the driver. Handles go before the context that they are in.
struct Gpu {
    info: DeviceInfo,
    modules: Mutex<HashMap<Kernels, Module>>,
    copies: Mutex<Copies>,
    events: [Event; STREAMS],
    streams: [Stream; STREAMS],
    context: PrimaryContext,
}

/// How copies are made: found out by the first.
enum Copies {
    /// Through page-locked memory of this size in bytes, if the system gives it.
    New(usize),
    Staged(Staging),
    /// From and to the caller's memory, waiting for each; why.
    Waiting(String),
}

// SAFETY: handles of the driver may be used from any thread that has made the context current, as every call here does.
unsafe impl Send for Gpu {}
// SAFETY: as above; the driver locks what calls share, and sessions ask by turns, so that a recording holds one's launches only.
unsafe impl Sync for Gpu {}

/// The GPUs of this machine in words, one line each.
///
/// # Errors
/// [`Error::Device`] without a GPU or a driver of CUDA 13.
pub fn gpus() -> crate::Result<Vec<String>> {
    let mut lines = vec![];
    for device in found()? {
        let info = describe(device).map_err(|e| failed(&e))?;
        let (major, minor) = info.capability;
        let usable = if usable(&info) { "" } else { ", too old for becalm" };
        let gigabytes = info.memory as f64 / 1e9;
        lines.push(format!(
            "{}: compute capability {major}.{minor}, {} multiprocessors, {gigabytes:.1} GB{usable}",
            info.name, info.multiprocessors
        ));
    }
    Ok(lines)
}

/// GPUs that were opened to be asked, for whoever opens them next: they are not to be opened twice.
static KEPT: Mutex<Vec<Arc<dyn Device>>> = Mutex::new(vec![]);

/// Keeps GPUs open for the next [`open`].
pub(super) fn keep(devices: Vec<Arc<dyn Device>>) {
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = devices;
}

/// Every GPU that the kernels run on.
///
/// # Errors
/// [`Error::Device`] without a GPU or a driver of CUDA 13; [`Error::Unsupported`] if all GPUs are too old.
pub(super) fn open() -> crate::Result<Vec<Arc<dyn Device>>> {
    let kept = std::mem::take(&mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner));
    // One that was lost meanwhile is opened anew.
    if !kept.is_empty() && kept.iter().all(|device| device.wait().is_ok()) {
        return Ok(kept);
    }
    drop(kept);
    let tuning = Tuning::from_environment()?;
    let open = |(device, info)| -> crate::Result<Arc<dyn Device>> {
        Ok(Arc::new(Gpu::new(device, info, &tuning).map_err(|e| failed(&e))?))
    };
    good()?.into_iter().map(open).collect()
}

/// Whether there is no driver, or a driver and no GPU.
pub(super) fn absent() -> bool {
    match version() {
        None => true,
        // A library that is not a driver would panic on further calls.
        Some(0) => false,
        Some(_) => count().is_ok_and(|count| count == 0),
    }
}

/// The devices that the kernels run on, one at least.
fn good() -> crate::Result<Vec<(sys::CUdevice, DeviceInfo)>> {
    let (mut good, mut old) = (vec![], vec![]);
    for device in found()? {
        let info = describe(device).map_err(|e| failed(&e))?;
        if usable(&info) {
            good.push((device, info));
        } else {
            old.push(format!("{} ({}.{})", info.name, info.capability.0, info.capability.1));
        }
    }
    if good.is_empty() {
        return Err(Error::unsupported(
            "cuda",
            "a GPU of compute capability 8.0 or later",
            old.join(", "),
            "use such a GPU, or compute on the CPU",
        )
        .or_cpu());
    }
    Ok(good)
}

fn usable(info: &DeviceInfo) -> bool {
    info.capability >= (8, 0)
}

/// CUDA 13.0, as the driver counts: an older one takes no code of the compilers that becalm's kernels are made with.
const NEEDED: i32 = 13000;

/// Which CUDA the driver is for, 13010 for 13.1; 0 for a library that does not say so, nothing without one.
fn version() -> Option<i32> {
    // SAFETY: loads a library by its name; asked before any other call, which would panic without it.
    if !unsafe { sys::is_culib_present() } {
        return None;
    }
    type Ask = unsafe extern "C" fn(*mut i32) -> i32;
    let mut version = 0;
    // SAFETY: the library is there; the call of this name has this type in every driver, and writes a number.
    let told = unsafe {
        sys::culib().get::<Ask>(b"cuDriverGetVersion\0").is_ok_and(|ask| ask(&mut version) == 0)
    };
    Some(if told { version } else { 0 })
}

/// 13010 as `CUDA 13.1`.
fn cuda(version: i32) -> String {
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}

/// How many devices the driver has; one without any says so in either of two ways.
fn count() -> Result<i32, DriverError> {
    match result::init() {
        Ok(()) => device::get_count(),
        Err(e) if e.0 == sys::cudaError_enum::CUDA_ERROR_NO_DEVICE => Ok(0),
        Err(e) => Err(e),
    }
}

/// The devices of the driver, one at least.
fn found() -> crate::Result<Vec<sys::CUdevice>> {
    let refused = |wanted: &str, got: &str, remedy: &str| {
        let remedy = format!("{remedy}, or compute on the CPU");
        Err(Error::device("cuda", wanted, got, remedy).or_cpu())
    };
    let none = |got: &str, remedy: &str| refused("a GPU with NVIDIA's driver", got, remedy);
    match version() {
        None => {
            let remedy = "install the driver, 580 or later";
            return none("no driver (libcuda.so.1) on this machine", remedy);
        }
        Some(0) => {
            let got = "a library libcuda that does not tell its version";
            return none(got, "install the driver anew, 580 or later");
        }
        Some(old) if old < NEEDED => {
            let wanted = format!("NVIDIA's driver for {}, 580 or later", cuda(NEEDED));
            let got = format!("a driver that is too old: it is for {}", cuda(old));
            return refused(&wanted, &got, "update the driver");
        }
        Some(_) => {}
    }
    match count() {
        Err(e) => none(&format!("a driver that says {e}"), "see whether nvidia-smi works"),
        Ok(0) => none("a driver without a GPU", "see CUDA_VISIBLE_DEVICES and nvidia-smi"),
        Ok(count) => (0..count).map(|i| device::get(i).map_err(|e| failed(&e))).collect(),
    }
}

fn describe(device: sys::CUdevice) -> Result<DeviceInfo, DriverError> {
    // SAFETY: the device came from the driver.
    let attribute = |what| unsafe { device::get_attribute(device, what) };
    let number = |what| attribute(what).map(|x| x.max(0) as u32);
    Ok(DeviceInfo {
        name: device::get_name(device)?,
        capability: (
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        // SAFETY: the device came from the driver.
        memory: unsafe { device::total_mem(device)? } as u64,
        cache: u64::from(number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
    })
}

fn failed(e: &DriverError) -> Error {
    let remedy = "see whether nvidia-smi works, or compute on the CPU";
    Error::device("cuda", "the driver to answer", e.to_string(), remedy).or_cpu()
}

/// The meaning of a driver error: some codes say that nothing more runs in this process.
fn fault(e: DriverError) -> Fault {
    use sys::cudaError_enum as Code;
    match e.0 {
        Code::CUDA_ERROR_ILLEGAL_ADDRESS
        | Code::CUDA_ERROR_LAUNCH_FAILED
        | Code::CUDA_ERROR_LAUNCH_TIMEOUT
        | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | Code::CUDA_ERROR_MISALIGNED_ADDRESS
        | Code::CUDA_ERROR_HARDWARE_STACK_ERROR
        | Code::CUDA_ERROR_ECC_UNCORRECTABLE
        | Code::CUDA_ERROR_CONTAINED
        | Code::CUDA_ERROR_EXTERNAL_DEVICE
        | Code::CUDA_ERROR_NVLINK_UNCORRECTABLE
        | Code::CUDA_ERROR_DEVICE_UNAVAILABLE
        | Code::CUDA_ERROR_CONTEXT_IS_DESTROYED
        | Code::CUDA_ERROR_DEINITIALIZED
        | Code::CUDA_ERROR_NO_DEVICE
        | Code::CUDA_ERROR_ASSERT
        | Code::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | Code::CUDA_ERROR_INVALID_PC
        | Code::CUDA_ERROR_UNKNOWN => Fault::Lost(e.to_string()),
        _ => Fault::Failed(e.to_string()),
    }
}

impl Gpu {
    fn new(device: sys::CUdevice, info: DeviceInfo, tuning: &Tuning) -> Result<Self, DriverError> {
        let context = PrimaryContext::retain(device)?;
        // Bundles of the next chunk have time; the rotation, and the host that waits for it, have none.
        let streams = match tuning.priorities {
            0 => [Stream::new()?, Stream::new()?],
            _ => Stream::by_rank()?,
        };
        let events = [Event::new()?, Event::new()?];
        let copies = Copies::New(tuning.staging as usize * (1 << 20));
        let (modules, copies) = (Mutex::default(), Mutex::new(copies));
        Ok(Gpu { info, modules, copies, events, streams, context })
    }

    /// How copies are made, with this device's context that of this thread. Without page-locked memory nothing fails.
    fn copies(&self) -> Result<MutexGuard<'_, Copies>, Fault> {
        self.enter()?;
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Copies::New(bytes) = *copies {
            *copies = match (bytes > 0).then(|| Staging::new(bytes).map_err(fault)) {
                Some(Ok(staging)) => Copies::Staged(staging),
                Some(Err(Fault::Failed(why))) => {
                    Copies::Waiting(format!("{} MB: {why}", bytes >> 20))
                }
                Some(Err(lost)) => return Err(lost),
                None => Copies::Waiting("BECALM_CUDA_TUNE has staging=0".to_string()),
            };
        }
        Ok(copies)
    }

    /// Makes the context that of this thread.
    fn enter(&self) -> Result<(), Fault> {
        self.context.enter().map_err(fault)
    }

    fn function(&self, kernels: &Kernels, launch: &Launch) -> Result<sys::CUfunction, Fault> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Module { module, functions }) = modules.get_mut(kernels) else {
            return Err(Fault::Failed(format!("{} was not prepared", kernels.name())));
        };
        let known = match functions.get(launch.kernel) {
            Some(known) => *known,
            None => {
                let name = CString::new(launch.kernel).map_err(|e| Fault::Failed(e.to_string()))?;
                // SAFETY: the module is loaded and never unloaded while `self` lives.
                let found = unsafe { module::get_function(*module, name) }.map_err(fault)?;
                Function { function: found, shared: SHARED, large: false }
            }
        };
        let told = known.told(launch).map_err(fault)?;
        functions.insert(launch.kernel, told);
        Ok(told.function)
    }
}

impl Function {
    /// The same, which was told all that a launch needs.
    fn told(mut self, launch: &Launch) -> Result<Self, DriverError> {
        use sys::CUfunction_attribute as Told;
        // SAFETY: the function was just found, or before in the same module.
        let tell = |what, value| unsafe {
            result::function::set_function_attribute(self.function, what, value)
        };
        // No more is allowed than is asked for: all that a device has may be too much beside a kernel's own memory.
        if launch.shared > self.shared {
            let most = Told::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            tell(most, launch.shared as i32)?;
            // As much of a multiprocessor as it has: a driver may else leave it the cache that it had, and fewer blocks fit.
            tell(Told::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100)?;
            self.shared = launch.shared;
        }
        if launch.cluster > CLUSTER && !self.large {
            tell(Told::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
            self.large = true;
        }
        Ok(self)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The fields destroy objects of this context, of which none is in use any more. A lost device returns an error.
        _ = self.enter();
        for stream in &self.streams {
            _ = stream.wait();
        }
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

impl Device for Gpu {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory(&self) -> Result<u64, Fault> {
        self.enter()?;
        result::mem_get_info().map(|(free, _)| free as u64).map_err(fault)
    }

    fn prepare(&self, kernels: &Kernels) -> Result<(), Fault> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if modules.contains_key(kernels) {
            return Ok(());
        }
        let code = images::code(kernels, self.info.capability)?;
        self.enter()?;
        // SAFETY: `images::code` gives cubins that a compiler made or whose hash is right, and ends PTX in 0.
        let module = unsafe { Module::load(&code) }.map_err(|e| {
            if e.0 == sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY {
                return Fault::Memory(code.len() as u64);
            }
            match fault(e) {
                lost @ Fault::Lost(_) => lost,
                _ => {
                    let of = cuda(version().unwrap_or(0));
                    let got = format!("a driver for {of} that refuses them: {e}");
                    let remedy = "update the driver; if it is the latest, report this with the output of `becalm doctor`; \
                                  meanwhile compute on the CPU";
                    Fault::NoKernels { name: kernels.name(), got, remedy: remedy.to_string() }
                }
            }
        })?;
        modules.insert(*kernels, module);
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<u64, Fault> {
        self.enter()?;
        // SAFETY: at least a byte; given back by `release`.
        let made = unsafe { result::malloc_sync(bytes.max(1) as usize) };
        made.map_err(|e| match e.0 {
            sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY => Fault::Memory(bytes),
            _ => fault(e),
        })
    }

    unsafe fn release(&self, at: u64) {
        if self.enter().is_ok() {
            // SAFETY: promised by the caller. The driver waits for running work; a lost device has freed all.
            _ = unsafe { result::free_sync(at) };
        }
    }

    unsafe fn upload(&self, to: u64, from: &[u8]) -> Result<(), Fault> {
        let mut copies = self.copies()?;
        let stream = &self.streams[0];
        if let Copies::Staged(staging) = &mut *copies {
            // SAFETY: promised by the caller; copies are on this stream alone.
            return unsafe { staging.upload(stream, to, from) }.map_err(fault);
        }
        // SAFETY: promised by the caller; `from` outlives the copy, for which the next call waits: that pageable memory is read
        // before a copy returns is not promised any more.
        unsafe { result::memcpy_htod_async(to, from, stream.0) }.map_err(fault)?;
        stream.wait().map_err(fault)
    }

    unsafe fn download(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), Fault> {
        let mut copies = self.copies()?;
        let stream = &self.streams[0];
        if let Copies::Staged(staging) = &mut *copies {
            // SAFETY: promised by the caller; copies are on this stream alone.
            return unsafe { staging.download(stream, pieces) }.map_err(fault);
        }
        let put = pieces.iter_mut().try_for_each(|(from, to)| {
            // SAFETY: promised by the caller; all `to` outlive the copies, for which the next call waits.
            unsafe { result::memcpy_dtoh_async(to, *from, stream.0) }
        });
        // Also for the copies before one that was refused.
        let waited = stream.wait();
        put.and(waited).map_err(fault)
    }

    fn remark(&self) -> Option<String> {
        match &*self.copies.lock().unwrap_or_else(PoisonError::into_inner) {
            Copies::Waiting(why) => Some(format!("copies without page-locked memory ({why})")),
            Copies::New(_) | Copies::Staged(_) => None,
        }
    }

    unsafe fn launch(
        &self,
        stream: usize,
        kernels: &Kernels,
        launch: &Launch,
        arguments: &[Argument],
    ) -> Result<(), Fault> {
        self.enter()?;
        let function = self.function(kernels, launch)?;
        let mut pointers: Vec<*mut c_void> = arguments.iter().map(pointer).collect();
        // SAFETY: all zeros is a value of this type.
        let mut attributes: [sys::CUlaunchAttribute; 1] = unsafe { std::mem::zeroed() };
        // A launch has one of the two at most: `Launch::check`.
        if launch.at_once {
            attributes[0].id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
            attributes[0].value.cooperative = 1;
        } else {
            let cluster = &mut attributes[0];
            cluster.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            cluster.value.clusterDim.x = launch.cluster;
            cluster.value.clusterDim.y = 1;
            cluster.value.clusterDim.z = 1;
        }
        let config = sys::CUlaunchConfig {
            gridDimX: launch.grid[0],
            gridDimY: launch.grid[1],
            gridDimZ: launch.grid[2],
            blockDimX: launch.block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.shared,
            hStream: self.streams[stream].0,
            attrs: attributes.as_mut_ptr(),
            numAttrs: u32::from(launch.cluster > 1 || launch.at_once),
        };
        let none = std::ptr::null_mut();
        // SAFETY: function and stream are of this context; pointers are to arguments, which the call copies; the rest is
        // promised by the caller.
        unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), none) }
            .result()
            .map_err(fault)
    }

    fn follow(&self, stream: usize, after: usize) -> Result<(), Fault> {
        self.enter()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: event and streams are of this context. A wait is for the event's last record before it.
        unsafe {
            event::record(self.events[after].0, self.streams[after].0).map_err(fault)?;
            stream::wait_event(self.streams[stream].0, self.events[after].0, flags).map_err(fault)
        }
    }

    fn wait(&self) -> Result<(), Fault> {
        self.enter()?;
        self.streams.iter().try_for_each(|stream| stream.wait().map_err(fault))
    }

    fn record(&self) -> Result<(), Fault> {
        self.enter()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: a stream of this device.
        unsafe { stream::begin_capture(self.streams[0].0, mode) }.map_err(fault)?;
        let begun = (1..STREAMS).try_for_each(|s| self.follow(s, 0));
        if begun.is_err() {
            // The capture of this stream, which nothing else ends.
            _ = Graph::captured(&self.streams[0]);
        }
        begun
    }

    fn recorded(&self) -> Result<u64, Fault> {
        self.enter()?;
        let joined = (1..STREAMS).try_for_each(|s| self.follow(0, s));
        // This ends the capture, after errors too.
        let graph = Graph::captured(&self.streams[0]).map_err(fault)?;
        joined?;
        let executable = graph.instantiate(&self.streams[0]).map_err(fault)?;
        Ok(executable.into_number())
    }

    unsafe fn replay(&self, recording: u64) -> Result<(), Fault> {
        self.enter()?;
        // SAFETY: it came from `recorded`; the rest is promised by the caller.
        unsafe { graph::launch(recording as sys::CUgraphExec, self.streams[0].0) }.map_err(fault)
    }

    unsafe fn forget(&self, recording: u64) {
        if self.enter().is_ok() {
            // SAFETY: promised by the caller. The driver keeps what still runs.
            drop(unsafe { Executable::of(recording) });
        }
    }
}
