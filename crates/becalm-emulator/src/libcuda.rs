//! The calls of `libcuda` that the library makes, on an emulated device: who loads this crate's `cdylib` by that name has the
//! whole way to a GPU, with the driver's own handles, captures and lists of arguments.

use crate::HostCopy;
use crate::driver::*;
use crate::nvrtc::kernels_of;
use becalm_cuda::key_switch::KeySwitch;
use becalm_cuda::launch::Launch;
use becalm_cuda::{Argument, Device, STREAMS};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Writes a result where the caller wants it.
unsafe fn set<T>(out: *mut T, value: T) -> Done<()> {
    // SAFETY: the driver's calls are given places for what they return.
    unsafe { out.write(value) };
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: as for all of these, the places are the caller's, as the driver's documentation has them.
    ask(|drivers| unsafe { set(version, drivers.version) })
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> c_int {
    ask(|drivers| if drivers.init == 0 { Ok(()) } else { Err(drivers.init) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    // SAFETY: as above.
    ask(|drivers| unsafe { set(count, drivers.count()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    // SAFETY: as above.
    ask_of(ordinal, |_| unsafe { set(device, ordinal) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> c_int {
    ask_of(device, |driver| {
        let text = driver.device.info().name.as_bytes();
        let count = text.len().min((length.max(1) - 1) as usize);
        // SAFETY: room for `length` bytes, of which the last is a 0.
        unsafe {
            name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), count);
            name.add(count).write(0);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, what: c_int, device: c_int) -> c_int {
    ask_of(device, |driver| {
        let info = driver.device.info();
        let found = match what {
            16 => info.multiprocessors,
            38 => info.cache as u32,
            75 => info.capability.0,
            76 => info.capability.1,
            97 => info.shared,
            _ => return Err(told(INVALID_VALUE, &format!("attribute {what} of a device"))),
        };
        // SAFETY: as above.
        unsafe { set(value, found as c_int) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> c_int {
    // SAFETY: as above.
    ask_of(device, |driver| unsafe { set(bytes, driver.device.info().memory as usize) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut u64, device: c_int) -> c_int {
    ask_of(device, |driver| {
        driver.contexts += 1;
        // SAFETY: as above.
        unsafe { set(context, device as u64 + 1) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int {
    give_of(device, |driver| {
        driver.contexts = driver.contexts.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        Ok(())
    })
}

/// Also what leads to giving back, which must not be told to fail.
#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: u64) -> c_int {
    CURRENT.set(context as c_int - 1);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    call(|driver| {
        driver.entered()?;
        let bytes = driver.device.free_memory().map_err(code)?;
        // SAFETY: as above.
        unsafe {
            set(free, bytes as usize)?;
            set(total, driver.device.info().memory as usize)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(at: *mut u64, bytes: usize) -> c_int {
    call(|driver| {
        driver.entered()?;
        let place = driver.device.allocate(bytes as u64).map_err(code)?;
        driver.handles.insert(place, Handle::Memory);
        // SAFETY: as above.
        unsafe { set(at, place) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFree_v2(at: u64) -> c_int {
    give(|driver| {
        driver.entered()?;
        driver.remove(at, |handle| matches!(handle, Handle::Memory))?;
        // SAFETY: it was allocated, and not given back before.
        unsafe { driver.device.release(at) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(at: *mut *mut c_void, bytes: usize, _flags: c_uint) -> c_int {
    call(|driver| {
        driver.entered()?;
        if bytes > HOST {
            return Err(OUT_OF_MEMORY);
        }
        let memory = vec![[0xA5A5_A5A5_A5A5_A5A5u64; 8]; bytes.div_ceil(64)];
        let place = memory.as_ptr().cast_mut();
        driver.handles.insert(place as u64, Handle::Host(memory));
        // SAFETY: as above.
        unsafe { set(at, place.cast()) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(at: *mut c_void) -> c_int {
    give(|driver| {
        driver.entered()?;
        // Waits for every copy from there or to there.
        _ = driver.device.wait();
        driver.remove(at as u64, |handle| matches!(handle, Handle::Host(_))).map(drop)
    })
}

/// The host's bytes are read later, whether they are page-locked or not: a driver does not promise more.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: u64,
) -> c_int {
    call(|driver| {
        driver.entered()?;
        let stream = driver.stream(stream)?;
        let copy = HostCopy::ToDevice { to, from: from as usize, bytes };
        driver.device.copy(stream, copy).map_err(code)
    })
}

/// And written later.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: u64) -> c_int {
    call(|driver| {
        driver.entered()?;
        let stream = driver.stream(stream)?;
        let copy = HostCopy::ToHost { to: to as usize, from, bytes };
        driver.device.copy(stream, copy).map_err(code)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut u64, image: *const c_void) -> c_int {
    call(|driver| {
        driver.entered()?;
        if driver.module != 0 {
            return Err(driver.module);
        }
        // SAFETY: an image is as long as it says.
        let kernels = unsafe { kernels_of(image.cast()) }.ok_or(INVALID_IMAGE)?;
        // SAFETY: as above.
        unsafe { set(module, driver.add(Handle::Module(kernels))) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: u64) -> c_int {
    give(|driver| {
        driver.entered()?;
        driver.remove(module, |handle| matches!(handle, Handle::Module(_)))?;
        driver.handles.retain(|_, h| !matches!(h, Handle::Function(of, ..) if *of == module));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut u64,
    module: u64,
    name: *const c_char,
) -> c_int {
    call(|driver| {
        driver.entered()?;
        let Some(Handle::Module(_)) = driver.handles.get(&module) else {
            return Err(INVALID_HANDLE);
        };
        // SAFETY: a name ends in 0.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| NOT_FOUND)?;
        let kernel = KERNELS.iter().find(|k| k.0 == name).ok_or(NOT_FOUND)?;
        let made = driver.add(Handle::Function(module, kernel, Told::NOTHING));
        // SAFETY: as above.
        unsafe { set(function, made) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(function: u64, what: c_int, value: c_int) -> c_int {
    call(|driver| {
        driver.entered()?;
        let most = driver.device.info().shared;
        match driver.handles.get_mut(&function) {
            Some(Handle::Function(_, _, told)) => told.take(what, value, most),
            _ => Err(INVALID_HANDLE),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> c_int {
    call(|driver| {
        driver.entered()?;
        // SAFETY: as above.
        unsafe {
            set(least, PRIORITIES.0)?;
            set(greatest, PRIORITIES.1)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut u64, flags: c_uint) -> c_int {
    // SAFETY: as above.
    unsafe { cuStreamCreateWithPriority(stream, flags, PRIORITIES.0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreateWithPriority(
    stream: *mut u64,
    flags: c_uint,
    priority: c_int,
) -> c_int {
    call(|driver| {
        driver.entered()?;
        // One that is ordered with the default stream is not wanted, nor a priority that there is not.
        if flags != 1 || !(PRIORITIES.1..=PRIORITIES.0).contains(&priority) {
            return Err(INVALID_VALUE);
        }
        // Those of a second user of the device are the first's: more order than they ask for.
        let number = driver.streams % STREAMS;
        driver.streams += 1;
        // SAFETY: as above.
        unsafe { set(stream, driver.add(Handle::Stream(number, priority))) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: u64) -> c_int {
    give(|driver| {
        driver.entered()?;
        driver.remove(stream, |handle| matches!(handle, Handle::Stream(..)))?;
        let left = driver.handles.values().filter(|h| matches!(h, Handle::Stream(..))).count();
        driver.streams = if left == 0 { 0 } else { driver.streams };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: u64) -> c_int {
    call(|driver| {
        driver.entered()?;
        let stream = driver.stream(stream)?;
        driver.waits += 1;
        let all = driver.device.mark(stream);
        driver.device.reach(stream, all).map_err(code)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut u64, flags: c_uint) -> c_int {
    call(|driver| {
        driver.entered()?;
        if flags != 2 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: as above.
        unsafe { set(event, driver.add(Handle::Event(None))) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: u64) -> c_int {
    give(|driver| {
        driver.entered()?;
        driver.remove(event, |handle| matches!(handle, Handle::Event(_))).map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: u64, stream: u64) -> c_int {
    call(|driver| {
        driver.entered()?;
        let stream = driver.stream(stream)?;
        let now = driver.device.mark(stream);
        match driver.handles.get_mut(&event) {
            Some(Handle::Event(on)) => {
                *on = Some((stream, now));
                Ok(())
            }
            _ => Err(INVALID_HANDLE),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: u64) -> c_int {
    call(|driver| {
        driver.entered()?;
        driver.waits += 1;
        match driver.handles.get(&event) {
            Some(Handle::Event(Some((stream, count)))) if !driver.hasty => {
                driver.device.reach(*stream, *count).map_err(code)
            }
            // One that was never recorded is there.
            Some(Handle::Event(_)) => Ok(()),
            _ => Err(INVALID_HANDLE),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: u64, event: u64, _flags: c_uint) -> c_int {
    call(|driver| {
        driver.entered()?;
        let stream = driver.stream(stream)?;
        let Some(Handle::Event(Some((after, count)))) = driver.handles.get(&event) else {
            return Err(INVALID_HANDLE);
        };
        let (after, count) = (*after, *count);
        if let Some(capture) = &mut driver.capture {
            capture.forked |= after == 0;
            capture.apart &= after == 0;
        }
        driver.device.follow_mark(stream, after, count);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: u64, _mode: c_uint) -> c_int {
    call(|driver| {
        driver.entered()?;
        if driver.stream(stream)? != 0 {
            return Err(INVALID_VALUE);
        }
        driver.device.record().map_err(code)?;
        driver.capture = Some(Capture::default());
        Ok(())
    })
}

/// Ends a capture also where it is told to fail: a driver ends one that it refuses.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(stream: u64, graph: *mut u64) -> c_int {
    let mut ended = Err(INVALID_HANDLE);
    give(|driver| {
        driver.stream(stream)?;
        let capture = driver.capture.take().ok_or(INVALID_VALUE)?;
        ended = driver.device.recorded().map_err(code);
        if capture.apart {
            ended = Err(told(CAPTURE_UNJOINED, "a stream that was not joined to a capture"));
        }
        Ok(())
    });
    call(|driver| {
        let made = driver.add(Handle::Graph(ended?));
        // SAFETY: as above.
        unsafe { set(graph, made) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: u64) -> c_int {
    give(|driver| {
        let found = driver.remove(graph, |handle| matches!(handle, Handle::Graph(_)))?;
        let Handle::Graph(recording) = found else { return Err(INVALID_HANDLE) };
        let used = |h: &Handle| matches!(h, Handle::Executable(of) if *of == recording);
        if !driver.handles.values().any(used) {
            // SAFETY: no executable of it is left.
            unsafe { driver.device.forget(recording) };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: *mut u64,
    graph: u64,
    flags: u64,
) -> c_int {
    call(|driver| {
        driver.entered()?;
        let Some(Handle::Graph(recording)) = driver.handles.get(&graph) else {
            return Err(INVALID_HANDLE);
        };
        // A graph's own priorities are the only ones that it may have.
        if flags & !8 != 0 {
            return Err(INVALID_VALUE);
        }
        let made = Handle::Executable(*recording);
        driver.graph = flags;
        // SAFETY: as above.
        unsafe { set(executable, driver.add(made)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphUpload(executable: u64, stream: u64) -> c_int {
    call(|driver| {
        driver.stream(stream)?;
        match driver.handles.get(&executable) {
            Some(Handle::Executable(_)) => Ok(()),
            _ => Err(INVALID_HANDLE),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(executable: u64, stream: u64) -> c_int {
    call(|driver| {
        driver.entered()?;
        let (Some(Handle::Executable(recording)), 0) =
            (driver.handles.get(&executable), driver.stream(stream)?)
        else {
            return Err(INVALID_HANDLE);
        };
        // SAFETY: promised by the code that recorded it.
        unsafe { driver.device.replay(*recording) }.map_err(code)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(executable: u64) -> c_int {
    give(|driver| {
        let found = driver.remove(executable, |h| matches!(h, Handle::Executable(_)))?;
        if let Handle::Executable(recording) = found {
            // SAFETY: it came from a capture, and its graph was destroyed before.
            unsafe { driver.device.forget(recording) };
        }
        Ok(())
    })
}

/// `CUlaunchConfig` as the driver's header has it.
#[repr(C)]
struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: u64,
    attributes: *const Attribute,
    count: c_uint,
}

/// `CUlaunchAttribute`: what it is, and 64 bytes of value.
#[repr(C)]
struct Attribute {
    what: c_uint,
    _pad: c_uint,
    value: [c_uint; 16],
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernelEx(
    config: *const Config,
    function: u64,
    parameters: *const *const c_void,
    _extra: *const c_void,
) -> c_int {
    call(|driver| {
        driver.entered()?;
        // SAFETY: the caller's configuration, and as many attributes as it says.
        let (config, attributes) = unsafe {
            let config = &*config;
            let count = config.count as usize;
            let none: &[Attribute] = &[];
            let given = || std::slice::from_raw_parts(config.attributes, count);
            (config, if count == 0 { none } else { given() })
        };
        let Some(Handle::Function(module, kernel, known)) = driver.handles.get(&function) else {
            return Err(INVALID_HANDLE);
        };
        let (module, kernel, known) = (*module, *kernel, *known);
        let Some(Handle::Module(kernels)) = driver.handles.get(&module) else {
            return Err(INVALID_HANDLE);
        };
        let (kernels, stream) = (*kernels, driver.stream(config.stream)?);
        let cluster = attributes
            .iter()
            .find(|a| a.what == 4)
            .map_or([1; 3], |a| [a.value[0], a.value[1], a.value[2]]);
        let allowed = known.allows(config.shared, cluster[0]);
        if !allowed || config.block[1..] != [1, 1] || cluster[1..] != [1, 1] {
            return Err(told(INVALID_VALUE, &format!("{} cannot be launched so", kernel.0)));
        }
        let launch = Launch {
            kernel: kernel.0,
            grid: config.grid,
            block: config.block[0],
            cluster: cluster[0],
            shared: config.shared,
            at_once: attributes.iter().any(|a| a.what == 2 && a.value[0] != 0),
        };
        driver.put(stream)?;
        driver.note(config.stream, kernel.0);
        // SAFETY: as many parameters of these sizes as the kernel has.
        let arguments: Vec<Argument> = unsafe {
            kernel
                .1
                .bytes()
                .enumerate()
                .map(|(i, kind)| argument(*parameters.add(i), kind))
                .collect()
        };
        // SAFETY: promised by the caller of the driver.
        unsafe { driver.device.launch(stream, &kernels, &launch, &arguments) }.map_err(code)
    })
}

/// The value behind a parameter of a kind.
unsafe fn argument(at: *const c_void, kind: u8) -> Argument {
    // SAFETY: the caller has put a value of this kind there.
    unsafe {
        match kind {
            b'a' => Argument::Address(at.cast::<u64>().read()),
            b'l' => Argument::U64(at.cast::<u64>().read()),
            b'k' => Argument::KeySwitch(at.cast::<KeySwitch>().read()),
            _ => Argument::U32(at.cast::<u32>().read()),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(_code: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: as above.
    unsafe { text.write(c"CUDA_ERROR_EMULATED".as_ptr()) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(_code: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: as above.
    unsafe { text.write(c"an error of the emulated driver".as_ptr()) };
    0
}
