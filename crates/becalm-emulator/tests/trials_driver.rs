//! The kernels of `emulator/trials.cuh` through the calls of the emulated `libcuda`: launches, captures, and what a function must be
//! told before. Each test here is run once more in a separate process for each seed.

use becalm_cuda::TEST_RINGS;
use becalm_emulator as _;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::process::Command;

unsafe extern "C" {
    fn cuInit(flags: c_uint) -> c_int;
    fn cuDevicePrimaryCtxRetain(context: *mut u64, device: c_int) -> c_int;
    fn cuCtxSetCurrent(context: u64) -> c_int;
    fn cuMemAlloc_v2(at: *mut u64, bytes: usize) -> c_int;
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: u64) -> c_int;
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: u64) -> c_int;
    fn cuModuleLoadData(module: *mut u64, image: *const c_void) -> c_int;
    fn cuModuleGetFunction(function: *mut u64, module: u64, name: *const c_char) -> c_int;
    fn cuFuncSetAttribute(function: u64, what: c_int, value: c_int) -> c_int;
    fn cuStreamCreate(stream: *mut u64, flags: c_uint) -> c_int;
    fn cuStreamSynchronize(stream: u64) -> c_int;
    fn cuEventCreate(event: *mut u64, flags: c_uint) -> c_int;
    fn cuEventRecord(event: u64, stream: u64) -> c_int;
    fn cuStreamWaitEvent(stream: u64, event: u64, flags: c_uint) -> c_int;
    fn cuStreamBeginCapture_v2(stream: u64, mode: c_uint) -> c_int;
    fn cuStreamEndCapture(stream: u64, graph: *mut u64) -> c_int;
    fn cuGraphInstantiateWithFlags(executable: *mut u64, graph: u64, flags: u64) -> c_int;
    fn cuGraphLaunch(executable: u64, stream: u64) -> c_int;
    fn cuLaunchKernelEx(
        config: *const Config,
        function: u64,
        parameters: *const *const c_void,
        extra: *const c_void,
    ) -> c_int;
}

/// `CUlaunchAttribute` and `CUlaunchConfig`.
#[repr(C)]
struct Attribute {
    what: c_uint,
    pad: c_uint,
    value: [c_uint; 16],
}

#[repr(C)]
struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: u64,
    attributes: *const Attribute,
    count: c_uint,
}

/// Threads of a block of the channels.
const SLOT: usize = 64;
/// Attributes of a function.
const SHARED: c_int = 8;
const CARVEOUT: c_int = 9;
const LARGE: c_int = 14;

fn with_seeds(test: &str) {
    for seed in ["0", "3", "4", "5"] {
        let done = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env("BECALM_EMULATOR_SEED", seed)
            .output()
            .unwrap();
        let said = [done.stdout, done.stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
        assert!(done.status.success() && said[0].contains("1 passed"), "{}{}", said[0], said[1]);
    }
}

#[test]
fn kernels_of_two_streams_wait_for_each_other() {
    with_seeds("channels");
}

#[test]
fn a_function_is_told_what_it_needs() {
    with_seeds("attributes");
}

/// A place for what a call gives.
fn got<T: Default>(call: impl FnOnce(*mut T) -> c_int) -> T {
    let mut value = T::default();
    assert_eq!(call(&mut value), 0);
    value
}

/// A context, two streams and the module of the ring that has these kernels.
struct Bench {
    context: u64,
    streams: [u64; 2],
    module: u64,
}

impl Bench {
    fn new() -> Self {
        let image = CString::new(format!("becalm kernels {}", TEST_RINGS[0].name())).unwrap();
        // SAFETY: the calls of a driver, with places for what they give; the image ends in 0.
        unsafe {
            assert_eq!(cuInit(0), 0);
            let context = got(|out| cuDevicePrimaryCtxRetain(out, 0));
            assert_eq!(cuCtxSetCurrent(context), 0);
            let streams = [0; 2].map(|_| got(|out| cuStreamCreate(out, 1)));
            let module = got(|out| cuModuleLoadData(out, image.as_ptr().cast()));
            Bench { context, streams, module }
        }
    }

    fn function(&self, name: &str) -> u64 {
        let name = CString::new(name).unwrap();
        // SAFETY: as above.
        unsafe { got(|out| cuModuleGetFunction(out, self.module, name.as_ptr())) }
    }

    fn memory(&self, words: usize) -> u64 {
        // SAFETY: as above.
        let at = unsafe { got(|out| cuMemAlloc_v2(out, 8 * words)) };
        self.write(at, &vec![0; words]);
        at
    }

    /// Words on stream 0, which is waited for.
    fn write(&self, at: u64, words: &[u64]) {
        let from = words.as_ptr().cast();
        // SAFETY: `words` outlive the copy.
        unsafe {
            assert_eq!(cuMemcpyHtoDAsync_v2(at, from, 8 * words.len(), self.streams[0]), 0);
            assert_eq!(cuStreamSynchronize(self.streams[0]), 0);
        }
    }

    fn read(&self, at: u64, count: usize) -> Vec<f64> {
        let mut values = vec![0.0; count];
        // SAFETY: `values` outlive the copy.
        unsafe {
            let to = values.as_mut_ptr().cast();
            assert_eq!(cuMemcpyDtoHAsync_v2(to, at, 8 * count, self.streams[0]), 0);
            assert_eq!(cuStreamSynchronize(self.streams[0]), 0);
        }
        values
    }

    /// One stream waits for what is on another.
    fn follow(&self, stream: usize, after: usize) {
        // SAFETY: handles of this context.
        unsafe {
            let event = got(|out| cuEventCreate(out, 2));
            assert_eq!(cuEventRecord(event, self.streams[after]), 0);
            assert_eq!(cuStreamWaitEvent(self.streams[stream], event, 0), 0);
        }
    }

    /// `grid`, `block`, `cluster`, `shared`; arguments are addresses and then a number.
    fn launch(
        &self,
        stream: usize,
        function: u64,
        shape: [u32; 4],
        addresses: &[u64],
        n: u32,
    ) -> c_int {
        let mut attribute = Attribute { what: 4, pad: 0, value: [0; 16] };
        attribute.value[..3].copy_from_slice(&[shape[2], 1, 1]);
        let config = Config {
            grid: [shape[0], 1, 1],
            block: [shape[1], 1, 1],
            shared: shape[3],
            stream: self.streams[stream],
            attributes: &attribute,
            count: 1,
        };
        let mut pointers: Vec<*const c_void> =
            addresses.iter().map(|at| (&raw const *at).cast()).collect();
        pointers.push((&raw const n).cast());
        // SAFETY: each test passes what its kernel takes.
        unsafe { cuLaunchKernelEx(&config, function, pointers.as_ptr(), std::ptr::null()) }
    }
}

/// A channel: its addresses, and what the consumer must find.
struct Channel {
    data: u64,
    slots: u64,
    flags: u64,
    out: u64,
    wanted: Vec<f64>,
}

const COUNT: u32 = 9;

impl Channel {
    fn new(bench: &Bench) -> Self {
        let count = COUNT as usize;
        let input: Vec<f64> = (0..count * SLOT * 2).map(|i| (i * i % 101) as f64).collect();
        let data = bench.memory(input.len());
        bench.write(data, &input.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        let at = |i, thread| 2 * (i * SLOT + thread);
        let sum =
            |thread| (0..count).map(|i| input[at(i, thread)] + input[at(i, thread) + 1]).sum();
        let wanted = (0..SLOT).map(sum).collect();
        let (slots, flags, out) = (bench.memory(2 * SLOT * 2), bench.memory(1), bench.memory(SLOT));
        Channel { data, slots, flags, out, wanted }
    }

    /// The consumer, on stream 0 or 1, before or after which the producer comes.
    fn consume(&self, bench: &Bench, stream: usize) {
        let shape = [1, SLOT as u32, 1, SLOT as u32 * 16 + 8];
        let arguments = [self.out, self.slots, self.flags];
        let function = bench.function("becalm_try_consume");
        assert_eq!(bench.launch(stream, function, shape, &arguments, COUNT), 0);
    }

    fn produce(&self, bench: &Bench, stream: usize) {
        let arguments = [self.slots, self.flags, self.data];
        let function = bench.function("becalm_try_produce");
        assert_eq!(bench.launch(stream, function, [1, SLOT as u32, 1, 0], &arguments, COUNT), 0);
    }
}

#[test]
#[ignore = "run by a test above"]
fn channels() {
    let bench = Bench::new();
    for consumer in 0..2 {
        let channel = Channel::new(&bench);
        channel.consume(&bench, consumer);
        channel.produce(&bench, 1 - consumer);
        bench.follow(0, 1);
        assert_eq!(bench.read(channel.out, SLOT), channel.wanted);
    }
    // The host waits for stream 0 while a kernel on stream 1 waits for what is not put yet.
    let channel = Channel::new(&bench);
    channel.consume(&bench, 1);
    for _ in 0..5 {
        assert_eq!(bench.read(channel.data, 2), [0.0, 1.0]);
    }
    // Another thread goes on with it.
    let rest = || {
        // SAFETY: the context of `bench`.
        assert_eq!(unsafe { cuCtxSetCurrent(bench.context) }, 0);
        channel.produce(&bench, 0);
        bench.follow(0, 1);
        assert_eq!(bench.read(channel.out, SLOT), channel.wanted);
    };
    std::thread::scope(|scope| scope.spawn(rest).join().unwrap());
    // The same captured, and launched several times.
    let channel = Channel::new(&bench);
    // SAFETY: handles of this context.
    let executable = unsafe {
        assert_eq!(cuStreamBeginCapture_v2(bench.streams[0], 1), 0);
        bench.follow(1, 0);
        channel.consume(&bench, 0);
        channel.produce(&bench, 1);
        bench.follow(0, 1);
        let graph = got(|out| cuStreamEndCapture(bench.streams[0], out));
        got(|out| cuGraphInstantiateWithFlags(out, graph, 0))
    };
    for _ in 0..3 {
        bench.write(channel.flags, &[0]);
        bench.write(channel.out, &[0; SLOT]);
        // SAFETY: as above.
        assert_eq!(unsafe { cuGraphLaunch(executable, bench.streams[0]) }, 0);
        assert_eq!(bench.read(channel.out, SLOT), channel.wanted);
    }
    // A consumer alone: not for ever.
    bench.write(channel.flags, &[0]);
    channel.consume(&bench, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { cuStreamSynchronize(bench.streams[0]) }, 719);
}

#[test]
#[ignore = "run by a test above"]
fn attributes() {
    let bench = Bench::new();
    let out = bench.memory(16);
    let function = bench.function("becalm_try_all_to_all");
    // SAFETY: a function of this context.
    let tell = |what, value| unsafe { cuFuncSetAttribute(function, what, value) };
    let launch = |cluster: u32, shared: u32| {
        bench.launch(0, function, [cluster, 32, cluster, shared], &[out], 5)
    };
    // 1: an invalid value.
    assert_eq!((launch(8, 1024), launch(16, 1024)), (0, 1));
    assert_eq!((tell(LARGE, 2), tell(LARGE, 1)), (1, 0));
    assert_eq!((launch(16, 1024), launch(17, 1024)), (0, 1));
    let large = 100 << 10;
    assert_eq!(launch(8, large), 1);
    assert_eq!((tell(SHARED, 1 << 20), tell(SHARED, large as c_int)), (1, 0));
    assert_eq!(launch(8, large), 1, "without a carveout");
    assert_eq!((tell(CARVEOUT, 101), tell(CARVEOUT, 100)), (1, 0));
    assert_eq!((launch(8, large), launch(16, large)), (0, 0));
    assert_eq!((launch(8, large + 1), tell(77, 0)), (1, 1));
    let found = bench.read(out, 16);
    assert!(found.iter().all(|x| *x > 0.0), "{found:?}");
}
