//! The driver's side of the backend for GPUs, on a driver that is not there: `becalm-emulator` as `libcuda` and as NVRTC, found as
//! the real ones are found. Each test here is run once more in a separate process that finds them.
#![cfg(all(feature = "cuda", target_os = "linux"))]

use becalm::Error;
use becalm::UNWATCHED;
use becalm::backend::{
    Backend, Cpu, Cuda, Evaluator, Keys, Runs, Session, Tfhe, TfheSetup, by_name, for_params, gpus,
    nvrtc,
};
use becalm::cipher::{Encoding, EvaluationKey, Lwe, SecretKey};
use becalm::params::TfheParams;
use becalm::program::{Need, Program};
use becalm::tfhe::Table;
use becalm_emulator::{Emulated, driver_folder};
use libloading::Library;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Asks for a machine before keys are made.
fn require(name: &str, params: &TfheParams) -> becalm::Result<()> {
    for_params::<Tfhe>(name, &Cpu::new(0)?, params)?.keep_open();
    Ok(())
}

/// A folder of these tests.
fn folder_of(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a test of this file where the driver is the emulator, with some more variables.
fn with_the_driver(test: &str, variables: &[(&str, &str)]) {
    with_libraries(&folder_of("driver"), test, variables);
}

/// The same where the driver is what a folder has of that name.
fn with_libraries(libraries: &Path, test: &str, variables: &[(&str, &str)]) {
    let folder = folder_of("driver");
    driver_folder(&folder).unwrap();
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", libraries)
        .env("BECALM_NVRTC", &folder)
        .env("BECALM_CACHE", folder.join("cache"))
        .env("BECALM_EMULATOR_FOLDER", &folder)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = [done.stdout, done.stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
    assert!(done.status.success() && said[0].contains("1 passed"), "{}\n{}", said[0], said[1]);
}

#[test]
fn the_drivers_side_computes_what_the_emulator_does() {
    for seed in ["0", "7"] {
        with_the_driver("computes", &[("BECALM_EMULATOR_SEED", seed)]);
    }
}

#[test]
fn whatever_call_fails_nothing_is_left_in_the_driver() {
    with_the_driver("leaks_nothing", &[]);
}

#[test]
fn copies_go_through_memory_that_is_not_used_too_early() {
    for seed in ["0", "7"] {
        let small = [("BECALM_CUDA_TUNE", "staging=1"), ("BECALM_EMULATOR_SEED", seed)];
        with_the_driver("stages", &small);
    }
}

#[test]
fn without_page_locked_memory_copies_are_waited_for() {
    for tune in ["staging=0", "staging=4095"] {
        with_the_driver("does_without", &[("BECALM_CUDA_TUNE", tune)]);
    }
}

/// The lack of each machine: the kind of error, its wanted, got and remedy, and whether there is a GPU or a driver that a person might
/// mend.
const REFUSALS: &[(&str, [&str; 5])] = &[
    (
        "version=12080",
        ["device", "CUDA 13.0, 580 or later", "it is for CUDA 12.8", "update", "true"],
    ),
    (
        "version=12080 devices=0",
        ["device", "580 or later", "it is for CUDA 12.8", "update", "false"],
    ),
    ("devices=0", ["device", "a GPU", "a driver without a GPU", "CUDA_VISIBLE_DEVICES", "false"]),
    (
        "devices=0 init=0",
        ["device", "a GPU", "a driver without a GPU", "CUDA_VISIBLE_DEVICES", "false"],
    ),
    ("init=999", ["device", "a GPU", "a driver that says", "nvidia-smi", "true"]),
    ("capability=7.5", ["unsupported", "8.0 or later", "emulator (7.5)", "such a GPU", "true"]),
    (
        "version=13020 module=209",
        [
            "unsupported",
            "for compute capability 9.0",
            "a driver for CUDA 13.2 that refuses",
            "update",
            "true",
        ],
    ),
];

#[test]
fn each_machine_without_a_gpu_that_computes_says_what_it_lacks() {
    for (machine, expected) in REFUSALS {
        let expected = expected.join("|");
        let variables = [("BECALM_EMULATOR_DRIVER", *machine), ("EXPECTED", &expected)];
        with_the_driver("refuses", &variables);
    }
    // Files with the driver's names that are not libraries, and a library that is not a driver, before those of the system.
    let none = "device|a GPU|no driver|install the driver|false";
    let other = "device|a GPU|does not tell its version|install the driver|true";
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.split_whitespace().find(|word| word.contains("/libc.so.6")).unwrap();
    for (name, expected) in [("no-driver", none), ("other", other)] {
        let folder = folder_of(name);
        _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        for file in names_of_the_driver() {
            match expected == none {
                true => std::fs::write(folder.join(file), "no library").unwrap(),
                false => std::os::unix::fs::symlink(libc, folder.join(file)).unwrap(),
            }
        }
        with_libraries(&folder, "refuses", &[("EXPECTED", expected)]);
    }
}

/// Names under which `cudarc` looks for the driver.
fn names_of_the_driver() -> Vec<String> {
    let bare = ["libcuda.so", "libnvcuda.so"];
    let with = |end: &str| bare.map(|name| format!("{name}{end}"));
    let of_width = |end: &str| ["cuda64", "nvcuda64"].map(|name| format!("lib{name}{end}.so"));
    let versions = ["", ".1", ".9", ".10", ".11", ".12", ".13"].map(with);
    let widths = ["", "_13", "_130", "_130_0", "_130_0_0", "_9", "_10", "_11", "_12"].map(of_width);
    versions.into_iter().chain(widths).flatten().collect()
}

#[test]
fn several_devices_of_a_driver_share_lanes_and_waves() {
    for seed in ["0", "7"] {
        let two = [("BECALM_EMULATOR_DRIVER", "devices=2"), ("BECALM_EMULATOR_SEED", seed)];
        with_the_driver("shares", &two);
    }
    with_the_driver("leaves_out", &[("BECALM_EMULATOR_DRIVER", "devices=2 capability=7.5,9.0")]);
}

#[test]
fn rotations_go_before_bundles() {
    with_the_driver("ranks", &[("EXPECTED", "-5 0")]);
    with_the_driver("ranks", &[("BECALM_CUDA_TUNE", "priorities=0"), ("EXPECTED", "0 0")]);
}

#[test]
fn kernels_with_much_shared_memory_ask_for_it() {
    with_the_driver("asks_for_memory", &[]);
}

/// The reports of the emulated driver.
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

    /// Calls that waited for the device so far.
    fn waits(&self) -> u64 {
        // SAFETY: the function of this name has this type.
        unsafe { self.0.get::<extern "C" fn() -> u64>(b"becalm_driver_waits\0").unwrap()() }
    }

    /// Whether who waits for an event goes on at once.
    fn hasty(&self, on: bool) {
        // SAFETY: the function of this name has this type.
        unsafe {
            self.0.get::<extern "C" fn(i32)>(b"becalm_driver_hasty\0").unwrap()(i32::from(on))
        }
    }

    /// Launches of a device so far.
    fn launches(&self, device: i32) -> u64 {
        // SAFETY: the function of this name has this type.
        unsafe {
            self.0.get::<extern "C" fn(i32) -> u64>(b"becalm_driver_launches\0").unwrap()(device)
        }
    }

    /// The priority of the stream on which a kernel was put last, and the flags of the last graph.
    fn rank(&self, kernel: &str) -> (i32, u64) {
        let kernel = CString::new(kernel).unwrap();
        // SAFETY: the functions of these names have these types; the name ends in 0.
        unsafe {
            let rank =
                self.0.get::<unsafe extern "C" fn(*const i8) -> i32>(b"becalm_driver_priority\0");
            let graph = self.0.get::<extern "C" fn() -> u64>(b"becalm_driver_graph\0");
            (rank.unwrap()(kernel.as_ptr().cast()), graph.unwrap()())
        }
    }

    /// Contexts, streams, events, modules, memory, graphs, executable graphs, captures, page-locked memory.
    fn alive(&self) -> [u64; 9] {
        let mut alive = [0; 9];
        // SAFETY: the function of this name has this type, and writes nine numbers.
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

    /// The words of one run in a session, or what a wrong one decrypts to.
    fn run(&self, session: &mut dyn Session, watch: &Watch, hasty: bool) -> Vec<u64> {
        let walk = Arc::new(self.program.walk());
        session.load(self.program.clone(), walk.clone(), 5, UNWATCHED).unwrap();
        let before = watch.waits();
        session.write(self.program.inputs()[0], 0, self.input.words()).unwrap();
        session.run(0..walk.waves.len(), UNWATCHED).unwrap();
        assert_eq!(watch.waits(), before, "the host waited for a write or a run");
        watch.hasty(hasty);
        let words = session.read(self.program.outputs()[0], 0..5).unwrap();
        watch.hasty(false);
        assert_eq!(watch.waits(), before + 1, "a read waits once");
        session.wait().unwrap();
        words
    }

    /// The results of some runs.
    fn on(&self, cuda: &Cuda, runs: usize) -> becalm::Result<Vec<Vec<u64>>> {
        let evaluator = Evaluator::new(cuda, &self.keys)?;
        let run = |_| -> becalm::Result<Vec<u64>> {
            let found = evaluator.run(&self.program, &[self.input.clone().into()])?;
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
        require("cuda", params).unwrap();
        assert_eq!(watch.alive()[0], 1, "the GPU that was asked is kept for its opening");
        let found = work.on(&Cuda::new().unwrap(), 4).unwrap();
        assert!(found.iter().all(|words| *words == wanted), "{name}");
        assert_eq!(watch.alive(), [0; 9], "{name}");
    }
    // A device that was opened to be asked, and refused.
    let large = TfheParams::named("toy_3_3_extended").unwrap();
    assert_eq!(require("cuda", large).unwrap_err().kind(), "wrong_params");
    drop(Cuda::new());
    assert_eq!(watch.alive(), [0; 9]);
}

/// A key that is larger than the memory it goes through, writes that are not waited for, reads that wait once. Whoever does not wait
/// for an event, before staging memory is used again or read, computes something else: the emulated driver copies late.
#[test]
#[ignore = "run by a test above"]
fn stages() {
    let watch = Watch::new();
    let work = Work::new("toy_1_1_multi_bit_2");
    let needs = Need::all_of(&work.keys);
    assert!(Cuda::key_memory(&work.keys, &needs).unwrap().key > 2 << 20);
    let emulated = Cuda::with_devices(vec![Arc::new(Emulated::new(0)) as _]).unwrap();
    let wanted = work.on(&emulated, 1).unwrap().remove(0);
    let cuda = Cuda::new().unwrap();
    let mut session = cuda.open(TfheSetup::new(&work.keys, &needs)).unwrap();
    assert_eq!((watch.alive()[8], session.remark()), (1, None));
    // A result that is taken before it has come.
    assert!(work.run(session.as_mut(), &watch, true) != wanted, "a read too early was not found");
    // As it is, recorded, replayed, and once more.
    for _ in 0..4 {
        assert!(work.run(session.as_mut(), &watch, false) == wanted);
    }
    drop(session);
    // A key that is overwritten while it is on its way.
    watch.hasty(true);
    let mut session = cuda.open(TfheSetup::new(&work.keys, &needs)).unwrap();
    watch.hasty(false);
    assert!(work.run(session.as_mut(), &watch, false) != wanted, "a write too early was not found");
    drop((session, cuda));
    assert_eq!(watch.alive(), [0; 9]);
}

/// No page-locked memory, because there is too little or because it is not wanted: the same words, and a remark.
#[test]
#[ignore = "run by a test above"]
fn does_without() {
    let watch = Watch::new();
    let work = Work::new("toy_1_1");
    let emulated = Cuda::with_devices(vec![Arc::new(Emulated::new(0)) as _]).unwrap();
    let wanted = work.on(&emulated, 1).unwrap().remove(0);
    let cuda = Cuda::new().unwrap();
    let setup: TfheSetup = (&work.keys).setup();
    let session: Box<dyn Session> = cuda.open(setup).unwrap();
    let remark = session.remark().unwrap();
    assert!(
        remark.contains("page-locked")
            && remark.contains("staging=0") != remark.contains("4095 MB"),
        "{remark}"
    );
    drop(session);
    assert!(work.on(&cuda, 3).unwrap().iter().all(|words| *words == wanted));
    drop(cuda);
    assert_eq!(watch.alive(), [0; 9]);
}

/// A machine is refused as `EXPECTED` says, before keys are made and under `"auto"`.
#[test]
#[ignore = "run by a test above"]
fn refuses() {
    let expected = std::env::var("EXPECTED").unwrap();
    let expected: Vec<&str> = expected.split('|').collect();
    let [kind, wanted, got, remedy, gpu] = expected[..] else { panic!("{expected:?}") };
    let params = TfheParams::named("toy_1_1").unwrap();
    let all = [
        require("cuda", params),
        Cuda::new().and_then(|cuda| Runs::<Tfhe>::accepts(&cuda, params)),
    ];
    let listed = match (gpus(), kind) {
        (Ok(lines), "unsupported") => {
            assert_eq!(lines[0].contains("too old for becalm"), lines[0].contains("7.5"));
            Ok(())
        }
        (found, _) => found.map(drop),
    };
    let listed = Some(listed).filter(|_| kind != "unsupported");
    for refusal in all.into_iter().chain(listed) {
        let e = refusal.unwrap_err();
        let said = e.detail();
        assert!(e.kind() == kind && said.wanted.contains(wanted) && said.got.contains(got), "{e}");
        assert!(
            said.remedy.contains(remedy) && said.cpu_can && said.remedy.contains("the CPU"),
            "{e}"
        );
    }
    let work = Work::new("toy_1_1");
    let evaluator =
        Evaluator::new(by_name("auto", &Cpu::new(0).unwrap()).unwrap().as_ref(), &work.keys)
            .unwrap();
    let fallback = evaluator.fallback().unwrap();
    assert!(evaluator.info().name == "cpu" && fallback.why.contains(got), "{fallback:?}");
    assert_eq!(fallback.gpu, gpu == "true", "{fallback:?}");
    // The error tells users who can act how to do so.
    assert_eq!(fallback.why.contains(remedy), fallback.gpu, "{fallback:?}");
    let found = evaluator.run(&work.program, &[work.input.clone().into()]).unwrap();
    assert_eq!(work.secret.decrypt(&found[0]).unwrap(), [0, 1, 0, 1, 0]);
    drop(evaluator);
    if std::env::var_os("BECALM_EMULATOR_DRIVER").is_some() {
        assert_eq!(Watch::new().alive(), [0; 9]);
    }
}

/// Lanes cut in two, and a wave of one lane whose instructions are: what the CPU says of it, and the words of one device.
#[test]
#[ignore = "run by a test above"]
fn shares() {
    let watch = Watch::new();
    assert_eq!(gpus().unwrap().len(), 2);
    let work = Work::new("toy_1_1_multi_bit_2");
    let params = work.secret.params();
    let mut wide = Program::new(params.clone());
    let table = Table::from_fn(params, |m| 3 - m).unwrap();
    let inputs: Vec<_> = (0..6).map(|_| wide.input(Encoding::of(params))).collect();
    for x in &inputs {
        let y = wide.lookup(*x, &table).unwrap();
        let z = wide.lookup(y, &table).unwrap();
        wide.output(z).unwrap();
    }
    let single = |m: u64| work.secret.encrypt(&[m]).unwrap().into();
    let singles: Vec<_> = (0..6).map(|i| single(i % 4)).collect();
    let cases =
        [(work.program.clone(), vec![work.input.clone().into()]), (Arc::new(wide), singles)];
    let emulated = Cuda::with_devices(vec![Arc::new(Emulated::new(0)) as _]).unwrap();
    let on = |backend: &dyn Backend, case: usize| {
        let (program, inputs) = &cases[case];
        let evaluator = Evaluator::new(backend, &work.keys).unwrap();
        let before = [0, 1].map(|device| watch.launches(device));
        let found = evaluator.run(program, inputs).unwrap();
        let launches = [0, 1].map(|device| watch.launches(device) - before[device as usize]);
        let words: Vec<Vec<u64>> = found.iter().map(|ct| ct.words().to_vec()).collect();
        let clear: Vec<_> = found.iter().map(|ct| work.secret.decrypt(ct).unwrap()).collect();
        (clear, words, launches)
    };
    for case in 0..cases.len() {
        let cuda = Cuda::new().unwrap();
        assert_eq!(watch.alive()[0], 2, "two contexts");
        let (clear, words, launches) = on(&cuda, case);
        assert!(words == on(&emulated, case).1, "other words than those of one device");
        assert_eq!(clear, on(&Cpu::new(1).unwrap(), case).0);
        // Both: switch and rotate.
        assert!(launches.iter().all(|count| *count > 5), "{launches:?}");
        drop(cuda);
        assert_eq!(watch.alive(), [0; 9]);
    }
}

/// A column of this ring takes more than half of a multiprocessor's memory: the emulated driver refuses a launch of a function that
/// was not told so.
#[test]
#[ignore = "run by a test above"]
fn asks_for_memory() {
    let mut params = TfheParams::named("paper_n800").unwrap().clone();
    params.lwe_dimension = 4;
    let secret = SecretKey::generate(&params, true).unwrap();
    let keys = secret.evaluation_key().unwrap();
    let table = Table::from_fn(&params, |m| (5 * m + 3) % 16).unwrap();
    let cuda = Cuda::new().unwrap();
    let evaluator = Evaluator::new(&cuda, &keys).unwrap();
    let found = evaluator.bootstrap(&secret.encrypt(&[0, 7, 15]).unwrap(), &table).unwrap();
    assert_eq!(secret.decrypt(&found).unwrap(), [3, 6, 14]);
}

/// A GPU that is too old is left where it is, and the other computes.
#[test]
#[ignore = "run by a test above"]
fn leaves_out() {
    let watch = Watch::new();
    let lines = gpus().unwrap();
    assert!(lines[0].ends_with("too old for becalm") && lines[1].contains("capability 9.0"));
    let work = Work::new("toy_1_1");
    let cuda = Cuda::new().unwrap();
    work.on(&cuda, 1).unwrap();
    assert!(watch.launches(0) == 0 && watch.launches(1) > 0);
    drop(cuda);
    assert_eq!(watch.alive(), [0; 9]);
}

/// The stream of the rotations has the greater priority (the lesser number), that of the bundles the least; in graphs too.
#[test]
#[ignore = "run by a test above"]
fn ranks() {
    let watch = Watch::new();
    let work = Work::new("toy_1_1_multi_bit_2");
    let cuda = Cuda::new().unwrap();
    // As it is, recorded, replayed.
    for runs in [1, 3] {
        work.on(&cuda, runs).unwrap();
        let [rotation, bundles] =
            ["becalm_rotate_pair", "becalm_bundle_many"].map(|kernel| watch.rank(kernel));
        let found = format!("{} {}", rotation.0, bundles.0);
        assert_eq!(found, std::env::var("EXPECTED").unwrap());
        // CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.
        assert_eq!(rotation.1, if runs == 1 { 0 } else { 8 });
    }
    drop(cuda);
    assert_eq!(watch.alive(), [0; 9]);
}

/// Every call of the driver fails once, in three ways: a typed error or the right result, and nothing is left.
#[test]
#[ignore = "run by the test above"]
fn leaks_nothing() {
    let watch = Watch::new();
    let work = Work::new("toy_1_1_multi_bit_2");
    // As they are, recorded, replayed.
    let all = || -> becalm::Result<()> {
        require("cuda", work.secret.params())?;
        work.on(&Cuda::new()?, 3).map(drop)
    };
    watch.fail(0, 0);
    all().unwrap();
    assert_eq!(watch.alive(), [0; 9]);
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
        // The device that was kept open for the next call.
        drop(Cuda::new());
        assert_eq!(watch.alive(), [0; 9], "after call {number} of {calls}");
    }
    assert!(refused > calls / 2, "{refused} of {calls} were errors");
}
