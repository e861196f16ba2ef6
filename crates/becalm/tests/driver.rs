//! The driver's side of the backend for GPUs, on a driver that is not there: `becalm-emulator` as `libcuda` and as NVRTC, found as
//! the real ones are found. Each test here is run once more in a process of its own that finds them.
#![cfg(all(feature = "cuda", target_os = "linux"))]

use becalm::Error;
use becalm::backend::{Cuda, Evaluator, gpus, nvrtc};
use becalm::cipher::{Encoding, EvaluationKey, Lwe, SecretKey};
use becalm::params::TfheParams;
use becalm::program::Program;
use becalm::tfhe::Table;
use becalm_emulator::{Emulated, driver_folder};
use libloading::Library;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// Runs a test of this file where the driver is the emulator.
fn with_the_driver(test: &str) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("driver");
    driver_folder(&folder).unwrap();
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", &folder)
        .env("BECALM_NVRTC", &folder)
        .env("BECALM_CACHE", folder.join("cache"))
        .env("BECALM_EMULATOR_FOLDER", &folder)
        .output()
        .unwrap();
    let said = [done.stdout, done.stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
    assert!(done.status.success() && said[0].contains("1 passed"), "{}\n{}", said[0], said[1]);
}

#[test]
fn the_drivers_side_computes_what_the_emulator_does() {
    with_the_driver("computes");
}

#[test]
fn whatever_call_fails_nothing_is_left_in_the_driver() {
    with_the_driver("leaks_nothing");
}

/// What the emulated driver says of itself.
struct Watch(Library);

impl Watch {
    fn new() -> Self {
        let folder = PathBuf::from(std::env::var_os("BECALM_EMULATOR_FOLDER").unwrap());
        // SAFETY: the library of the emulator, which the driver's side loads too.
        Watch(unsafe { Library::new(folder.join("libcuda.so")) }.unwrap())
    }

    /// Calls of the driver that might have failed since `fail`.
    fn calls(&self) -> u64 {
        // SAFETY: the function of this name has this type.
        unsafe { self.0.get::<extern "C" fn() -> u64>(b"becalm_driver_calls\0").unwrap()() }
    }

    /// Fails the call of this number, counted from now.
    fn fail(&self, number: u64, code: i32) {
        // SAFETY: the function of this name has this type.
        unsafe {
            self.0.get::<extern "C" fn(u64, i32)>(b"becalm_driver_fail\0").unwrap()(number, code)
        }
    }

    /// Contexts, streams, events, modules, memory, graphs, executable graphs, captures.
    fn alive(&self) -> [u64; 8] {
        let mut alive = [0; 8];
        // SAFETY: the function of this name has this type, and writes eight numbers.
        unsafe {
            let ask = self.0.get::<unsafe extern "C" fn(*mut u64)>(b"becalm_driver_alive\0");
            ask.unwrap()(alive.as_mut_ptr());
        }
        alive
    }
}

/// A key, and a program of one lookup on an input.
struct Work {
    secret: SecretKey,
    keys: EvaluationKey,
    program: Arc<Program>,
    input: Lwe,
}

impl Work {
    fn new(name: &str) -> Self {
        let secret = SecretKey::generate(TfheParams::named(name).unwrap(), true).unwrap();
        let keys = secret.evaluation_key().unwrap();
        let mut program = Program::new(secret.params().clone());
        let x = program.input(Encoding::of(secret.params()));
        let table = Table::from_fn(secret.params(), |m| (m + 1) % 2).unwrap();
        let y = program.lookup(x, &table).unwrap();
        program.output(y).unwrap();
        // So many that a bootstrap has launches enough to be recorded.
        let input = secret.encrypt(&[1, 0, 1, 0, 1]).unwrap();
        Work { secret, keys, program: Arc::new(program), input }
    }

    /// The results of some runs.
    fn on(&self, cuda: &Cuda, runs: usize) -> becalm::Result<Vec<Vec<u64>>> {
        let evaluator = Evaluator::new(cuda, &self.keys)?;
        let run = |_| -> becalm::Result<Vec<u64>> {
            let found = evaluator.evaluate(&self.program, &[self.input.clone().into()])?;
            assert_eq!(self.secret.decrypt(&found[0]).unwrap(), [0, 1, 0, 1, 0]);
            Ok(found[0].words().to_vec())
        };
        (0..runs).map(run).collect()
    }
}

/// The kernels by NVRTC, launches by the driver's own lists of arguments, captures, replays: the words of the emulator.
#[test]
#[ignore = "run by the test above"]
fn computes() {
    let watch = Watch::new();
    assert!(gpus().unwrap()[0].starts_with("emulator: compute capability 9.0, 4 multiprocessors"));
    assert!(nvrtc().unwrap().contains("13.9999"));
    for name in ["toy_1_1", "toy_1_1_multi_bit_2", "toy_1_1_p"] {
        let params = TfheParams::named(name).unwrap();
        let work = Work::new(name);
        let emulated = Cuda::with_devices(vec![Arc::new(Emulated::new(0)) as _]).unwrap();
        let wanted = work.on(&emulated, 1).unwrap().remove(0);
        Cuda::require(params).unwrap();
        assert_eq!(watch.alive()[0], 1, "what was asked is kept for whoever opens it");
        let found = work.on(&Cuda::new().unwrap(), 4).unwrap();
        assert!(found.iter().all(|words| *words == wanted), "{name}");
        assert_eq!(watch.alive(), [0; 8], "{name}");
    }
    // What was opened to be asked, and refused.
    let large = TfheParams::named("toy_3_3_extended").unwrap();
    assert_eq!(Cuda::require(large).unwrap_err().kind(), "wrong_params");
    drop(Cuda::new());
    assert_eq!(watch.alive(), [0; 8]);
}

/// Every call of the driver fails once, in three ways: a typed error or the right result, and nothing is left.
#[test]
#[ignore = "run by the test above"]
fn leaks_nothing() {
    let watch = Watch::new();
    let work = Work::new("toy_1_1_multi_bit_2");
    // As they are, recorded, replayed.
    let all = || -> becalm::Result<()> {
        Cuda::require(work.secret.params())?;
        work.on(&Cuda::new()?, 3).map(drop)
    };
    watch.fail(0, 0);
    all().unwrap();
    assert_eq!(watch.alive(), [0; 8]);
    let (calls, mut refused) = (watch.calls(), 0);
    assert!(calls > 100, "{calls}");
    for number in 1..=calls {
        // An invalid value, no memory, a launch that failed.
        let code = [1, 2, 719][number as usize % 3];
        watch.fail(number, code);
        if let Err(e) = all() {
            let typed = matches!(e, Error::Device(_) | Error::Memory(_) | Error::Unsupported(_));
            assert!(typed && !e.detail().remedy.is_empty(), "call {number}: {e}");
            refused += 1;
        }
        watch.fail(0, 0);
        // What was kept open for the next.
        drop(Cuda::new());
        assert_eq!(watch.alive(), [0; 8], "after call {number} of {calls}");
    }
    assert!(refused > calls / 2, "{refused} of {calls} were errors");
}
