//! The backend for GPUs on emulated ones: its errors, several devices, and runs after a failure.
#![cfg(feature = "cuda")]

use becalm::Error;
use becalm::UNWATCHED;
use becalm::backend::{
    Auto, Backend, Cpu, Cuda, Evaluator, Keys, Runs, Session, Tfhe, TfheSetup, by_name, for_params,
};
use becalm::cipher::{EvaluationKey, SecretKey};
use becalm::params::TfheParams;
use becalm::program::{Need, Operation, Program};
use becalm::tfhe::Table;
use becalm_cuda::launch::Launch;
use becalm_cuda::{Argument, Device, Fault, TEST_RINGS};
use becalm_emulator::{Emulated, Recordings};
use std::sync::Arc;

fn keys(name: &str) -> (SecretKey, EvaluationKey) {
    let secret = SecretKey::generate(TfheParams::named(name).unwrap(), true).unwrap();
    let evaluation = secret.evaluation_key().unwrap();
    (secret, evaluation)
}

fn cuda(devices: &[Arc<Emulated>]) -> Cuda {
    Cuda::with_devices(devices.iter().map(|d| d.clone() as _).collect()).unwrap()
}

/// Opens keys of TFHE.
fn open(machine: &dyn Runs<Tfhe>, setup: TfheSetup) -> becalm::Result<Box<dyn Session>> {
    machine.open(setup)
}

fn emulated(seed: u64) -> Arc<Emulated> {
    Arc::new(Emulated::new(seed))
}

/// The kind of a refusal, which must say what to do.
fn refused<T>(result: becalm::Result<T>, kind: &str, what: &str) {
    let Err(e) = result else { panic!("not refused: {what}") };
    assert!(e.kind() == kind && e.to_string().contains(what), "{e}");
    assert!(!e.detail().remedy.is_empty());
}

#[test]
fn what_gpus_cannot_run_is_refused_by_name() {
    let backend = cuda(&[emulated(0)]);
    assert!(backend.is_far() && !Cpu::new(1).unwrap().is_far());
    for (name, what) in [("toy_3_3_extended", "extended rotation"), ("tfhe_4_4", "coefficients")] {
        let params = TfheParams::named(name).unwrap();
        refused(Cuda::runs(params), "wrong_params", what);
        if params.kind == becalm::params::Kind::Toy {
            let secret = SecretKey::generate(params, true).unwrap();
            let keys = secret.evaluation_key().unwrap();
            refused(Evaluator::new(&backend, &keys), "wrong_params", "256 to 16384");
        }
    }
    refused(Cuda::with_devices(vec![]), "device", "at least one GPU");
}

#[test]
fn without_a_gpu_auto_is_the_cpu() {
    let ((secret, keys), cpu) = (keys("toy_1_1"), Cpu::new(0).unwrap());
    let gpu = match by_name("cuda", &cpu) {
        Ok(_) => true,
        Err(e) => {
            assert!(matches!(&e, Error::Device(_) | Error::Unsupported(_)), "{e}");
            assert!(e.detail().cpu_can && e.detail().remedy.contains("on the CPU"), "{e}");
            false
        }
    };
    let evaluator = Evaluator::new(by_name("auto", &cpu).unwrap().as_ref(), &keys).unwrap();
    assert!(gpu || evaluator.info().name == "cpu");
    let table = Table::from_fn(secret.params(), |m| m).unwrap();
    let result = evaluator.bootstrap(&secret.encrypt(&[1, 0]).unwrap(), &table).unwrap();
    assert_eq!(secret.decrypt(&result).unwrap(), [1, 0]);
}

#[test]
fn too_little_memory_is_said_before() {
    let (_, keys) = keys("toy_1_1");
    let needs = Need::all_of(&keys);
    let bytes = Cuda::key_memory(&keys, &needs).unwrap().total();
    let small = Arc::new(Emulated::new(0).with(|info| info.memory = bytes - 1));
    refused(
        open(&cuda(std::slice::from_ref(&small)), TfheSetup::new(&keys, &needs)),
        "memory",
        "B free",
    );
    assert_eq!(small.work(), (0, 0), "something was sent before");
    // Room for the key but not for a large batch.
    let large = Arc::new(Emulated::new(0).with(|info| info.memory = 2 * bytes));
    let mut session = open(&cuda(&[large]), TfheSetup::new(&keys, &needs)).unwrap();
    let mut program = Program::new(keys.params().clone());
    let x = program.input(becalm::cipher::Encoding::of(keys.params()));
    let y = program.linear(&[(2, x)], 0).unwrap();
    program.output(y).unwrap();
    let walk = Arc::new(program.walk());
    let lanes = (bytes / 1000) as usize;
    refused(session.load(Arc::new(program), walk, lanes, UNWATCHED), "memory", "B free");
}

/// A program of one lookup.
fn lookup(params: &Arc<TfheParams>, f: impl Fn(u64) -> u64) -> Arc<Program> {
    let mut program = Program::new(params.clone());
    let x = program.input(becalm::cipher::Encoding::of(params));
    let y = program.lookup(x, &Table::from_fn(params, f).unwrap()).unwrap();
    program.output(y).unwrap();
    Arc::new(program)
}

/// Lists of addresses count too, before registers are allocated.
#[test]
fn all_that_a_program_takes_is_asked_for_at_once() {
    let (_, keys) = keys("toy_1_1");
    let (program, needs) = (lookup(keys.params(), |m| m), Need::all_of(&keys));
    let walk = Arc::new(program.walk());
    let lanes = 40;
    let of = || Arc::new(Emulated::new(0).with(|info| info.memory = 16 << 20));
    let roomy = of();
    let mut session =
        open(&cuda(std::slice::from_ref(&roomy)), TfheSetup::new(&keys, &needs)).unwrap();
    let before = roomy.free_memory().unwrap();
    session.load(program.clone(), walk.clone(), lanes, UNWATCHED).unwrap();
    let (key, all) = (roomy.info().memory - before, before - roomy.free_memory().unwrap());
    // Allocations are counted in units of 256 bytes, and the last of three is one unit too large. The rest of the memory is taken away
    // afterwards.
    let small = of();
    let mut session =
        open(&cuda(std::slice::from_ref(&small)), TfheSetup::new(&keys, &needs)).unwrap();
    let away = small.info().memory - key - (all - 256);
    small.allocate(away).unwrap();
    let pieces = small.allocations();
    refused(session.load(program.clone(), walk.clone(), lanes, UNWATCHED), "memory", "B free");
    assert_eq!(small.allocations(), pieces, "something was allocated before");
    session.load(program, walk, lanes / 2, UNWATCHED).unwrap();
}

/// A launch that the driver refuses leaves registers that cannot be read, and the wave can be run again; one that it refuses
/// while launches are recorded leaves a wave that is launched as it was before.
#[test]
fn a_refused_launch_leaves_no_result() {
    let (secret, keys) = keys("toy_1_1_multi_bit_2");
    let (program, needs) = (lookup(keys.params(), |m| 3 - m), Need::all_of(&keys));
    // So many that a bootstrap has launches enough to be recorded.
    let input = secret.encrypt(&[1, 2, 3, 0, 1]).unwrap();
    let walk = Arc::new(program.walk());
    let out = program.outputs()[0];
    // As it is, then recorded, then replayed.
    let run = |gpu: Arc<Emulated>| {
        let mut session =
            open(&cuda(std::slice::from_ref(&gpu)), TfheSetup::new(&keys, &needs)).unwrap();
        let (opened, mut failures, mut words, mut recorded) = (gpu.put(), 0, vec![], vec![]);
        for _ in 0..3 {
            session.load(program.clone(), walk.clone(), 5, UNWATCHED).unwrap();
            session.write(program.inputs()[0], 0, input.words()).unwrap();
            for (w, wave) in walk.waves.iter().enumerate() {
                let (before, begun) = (gpu.put(), gpu.begun());
                if let Err(e) = session.run(w..w + 1, UNWATCHED) {
                    assert_eq!(e.kind(), "device", "{e}");
                    failures += 1;
                    let ops = wave.ops.iter().map(|i| &program.ops()[*i]);
                    for reg in ops.flat_map(|op| op.results()) {
                        refused(session.read(*reg, 0..1), "bad_input", "");
                    }
                    session.run(w..w + 1, UNWATCHED).unwrap();
                }
                if gpu.begun() > begun {
                    recorded.push(before + 1..gpu.put() + 1);
                }
            }
            words.push(session.read(out, 0..5).unwrap());
        }
        assert!(words.windows(2).all(|w| w[0] == w[1]));
        (opened..gpu.put(), recorded, failures, words.remove(0))
    };
    let (all, recorded, failures, wanted) = run(emulated(0));
    // The key switches and the bootstraps.
    assert!(failures == 0 && recorded.len() == 2);
    assert!(recorded[1].end - recorded[1].start >= 8);
    for launch in all.start + 1..=all.end {
        let (_, _, failures, words) = run(Arc::new(Emulated::new(0).refusing(launch)));
        let wanted_failures = i32::from(!recorded.iter().any(|wave| wave.contains(&launch)));
        assert!(failures == wanted_failures && words == wanted, "launch {launch} of {all:?}");
    }
}

/// A device that records nothing, or what it has recorded cannot replay, has the launches: the same words, and no second try.
#[test]
fn what_cannot_be_recorded_is_launched() {
    let (secret, keys) = keys("toy_1_1_multi_bit_2");
    let program = lookup(keys.params(), |m| 3 - m);
    let ct = secret.encrypt(&[1, 2, 3, 0, 1]).unwrap().into();
    let words = |gpu: &Arc<Emulated>| -> Vec<Vec<u64>> {
        let evaluator = Evaluator::new(&cuda(std::slice::from_ref(gpu)), &keys).unwrap();
        let run = |_| {
            let results = evaluator.run(&program, std::slice::from_ref(&ct)).unwrap();
            assert_eq!(secret.decrypt(&results[0]).unwrap(), [2, 1, 0, 3, 2]);
            results[0].words().to_vec()
        };
        let words = (0..5).map(run).collect();
        // Given up at once.
        assert_eq!(gpu.recordings().1, 2 * usize::from(gpu.recordings().0 == 8));
        words
    };
    let healthy = emulated(0);
    let wanted = words(&healthy);
    // A wave of key switches and one of bootstraps.
    assert_eq!((healthy.begun(), healthy.recordings()), (2, (8, 0)));
    for (what, replays) in [
        (Recordings::Begin, 0),
        (Recordings::End, 0),
        (Recordings::Replay(0), 0),
        (Recordings::Replay(2), 2),
    ] {
        for seed in [0, 7] {
            let gpu = Arc::new(Emulated::new(seed).without(what));
            assert!(words(&gpu) == wanted, "{what:?}");
            assert_eq!((gpu.begun(), gpu.recordings()), (2, (replays, 0)), "{what:?}");
        }
    }
}

/// The emulator refuses work as a driver does: when it is put on a stream.
#[test]
fn launches_have_limits() {
    let gpu = Emulated::new(0);
    let kernels = &TEST_RINGS[0].into();
    gpu.prepare(kernels).unwrap();
    let good = Launch::load_table(1);
    let shared = gpu.info().shared + 1;
    for bad in [
        Launch { grid: [1, 65536, 1], ..good },
        Launch { grid: [1, 1, 65536], ..good },
        Launch { grid: [1 << 31, 1, 1], ..good },
        Launch { grid: [0, 1, 1], ..good },
        Launch { block: 1056, ..good },
        Launch { cluster: 17, grid: [17, 1, 1], ..good },
        Launch { cluster: 2, ..good },
        Launch { shared, ..good },
    ] {
        // SAFETY: nothing of it is run.
        let found = unsafe { gpu.launch(0, kernels, &bad, &[Argument::U32(0)]) };
        assert!(matches!(found, Err(Fault::Failed(_))), "{bad:?}");
    }
    gpu.wait().unwrap();
    assert_eq!(gpu.work().0, 0);
}

/// A GPU that computes with residues, and that converts keys to residues by a launch.
fn desktop() -> Emulated {
    Emulated::new(0).with(|info| (info.capability, info.shared) = ((12, 0), 99 << 10))
}

fn auto(gpu: Emulated) -> Auto {
    Auto::with(Ok(Box::new(cuda(&[Arc::new(gpu)])))).unwrap()
}

/// The CPU takes over where a GPU lacks something, and says so.
#[test]
fn auto_takes_the_cpu_for_what_a_gpu_lacks_and_says_why() {
    let (secret, keys) = keys("toy_1_1");
    let table = Table::from_fn(secret.params(), |m| (m + 1) % 4).unwrap();
    let ct = secret.encrypt(&[1, 3]).unwrap();
    let bytes = Cuda::key_memory(&keys, &Need::all_of(&keys)).unwrap().total();
    let works = |backend: &Auto, name: &str, why: Option<(&str, bool)>| {
        let evaluator = Evaluator::new(backend, &keys).unwrap();
        let result = evaluator.bootstrap(&ct, &table).unwrap();
        assert_eq!(secret.decrypt(&result).unwrap(), [2, 0]);
        assert_eq!(evaluator.info().name, name);
        let found = evaluator.fallback();
        let fits = found.as_ref().map(|f| why.is_some_and(|w| f.why.contains(w.0) && f.gpu == w.1));
        assert_eq!(fits, why.map(|_| true), "{found:?}");
    };
    works(&auto(Emulated::new(0)), "cuda", None);
    let none = Error::device("cuda", "a GPU", "a driver without a GPU", "buy one");
    works(&Auto::with(Err(none)).unwrap(), "cpu", Some(("without a GPU", false)));
    let old = Error::unsupported("cuda", "8.0", "Tesla (7.0)", "buy one");
    works(&Auto::with(Err(old)).unwrap(), "cpu", Some(("Tesla (7.0) (buy one)", true)));
    // Too small for the key; for the key and not for a batch, which is known when a program is loaded.
    let small = |memory| {
        auto(Emulated::new(0).with(|info| (info.memory, info.multiprocessors) = (memory, 64)))
    };
    works(&small(bytes / 2), "cpu", Some(("B free", true)));
    let evaluator = Evaluator::new(&small(bytes + 4096), &keys).unwrap();
    assert_eq!((evaluator.info().name, evaluator.fallback()), ("cuda", None));
    let many: Vec<u64> = (0..512).map(|i| i % 4).collect();
    let result = evaluator.bootstrap(&secret.encrypt(&many).unwrap(), &table).unwrap();
    let wanted: Vec<u64> = many.iter().map(|m| (m + 1) % 4).collect();
    assert_eq!((secret.decrypt(&result).unwrap(), evaluator.info().name), (wanted, "cpu"));
    assert!(evaluator.fallback().is_some_and(|f| f.gpu && f.why.contains("B free")));
    let large = SecretKey::generate(TfheParams::named("toy_3_3_extended").unwrap(), true).unwrap();
    let large = large.evaluation_key().unwrap();
    let evaluator = Evaluator::new(&auto(Emulated::new(0)), &large).unwrap();
    assert!(evaluator.fallback().is_some_and(|f| f.gpu && f.why.contains("extended")));
}

/// After an error of a GPU nothing computes elsewhere in silence.
#[test]
fn auto_hides_no_defect() {
    let (secret, keys) = keys("toy_1_1");
    let table = Table::from_fn(secret.params(), |m| m).unwrap();
    let ct = secret.encrypt(&[1]).unwrap();
    let tune = Error::bad_input("BECALM_CUDA_TUNE", "chunk=N", "chunk=x", "write it so");
    refused(Auto::with(Err(tune)).map(drop), "bad_input", "chunk=N");
    refused(Evaluator::new(&auto(desktop().mortal(0)), &keys), "device", "told to go");
    refused(Evaluator::new(&auto(desktop().refusing(1)), &keys), "device", "told to fail");
    let healthy = emulated(0);
    Evaluator::new(&cuda(std::slice::from_ref(&healthy)), &keys).unwrap();
    let (opened, _) = healthy.work();
    let evaluator = Evaluator::new(&auto(Emulated::new(0).mortal(opened)), &keys).unwrap();
    refused(evaluator.bootstrap(&ct, &table), "device", "told to go");
    let missing = [Need::SlotMap(0)].into_iter().collect();
    refused(open(&auto(Emulated::new(0)), TfheSetup::new(&keys, &missing)), "wrong_key", "");
}

/// Before keys are made, and without opening anything.
#[test]
fn machines_are_asked_for_before_keys_are_made() {
    let params = |name: &str| TfheParams::named(name).unwrap();
    let cpu = Cpu::new(1).unwrap();
    let asked = |name| for_params::<Tfhe>(name, &cpu, params("toy_1_1")).map(drop);
    for name in ["auto", "cpu", "reference"] {
        asked(name).unwrap();
    }
    for name in ["cuda:1", "gpu"] {
        refused(asked(name), "bad_input", "CUDA_VISIBLE_DEVICES");
        refused(by_name(name, &cpu).map(drop), "bad_input", "CUDA_VISIBLE_DEVICES");
    }
    refused(asked("abacus"), "bad_input", "reference or auto");
    refused(asked("processor"), "wrong_params", "");
    let gpu = cuda(&[emulated(0)]);
    Runs::<Tfhe>::accepts(&gpu, params("toy_1_1")).unwrap();
    refused(Runs::<Tfhe>::accepts(&gpu, params("toy_3_3_extended")), "wrong_params", "extended");
    // A GPU may lack shared memory, code or room for the key.
    let old = Emulated::new(0).with(|info| (info.capability, info.shared) = ((8, 0), 163 << 10));
    refused(
        Runs::<Tfhe>::accepts(&cuda(&[Arc::new(old)]), params("cm_2_2_w4")),
        "unsupported",
        "clusters",
    );
    let mut unknown = params("toy_1_1").clone();
    unknown.pbs.base_log = 19;
    refused(Runs::<Tfhe>::accepts(&gpu, &unknown), "unsupported", "kernels of n8_k2_w1_b19");
    for name in ["toy_1_1", "toy_1_1_multi_bit_2", "toy_cm_1_1_w2", "toy_1_1_p"] {
        let (_, keys) = keys(name);
        let all = [Need::KeySwitch, Need::Bootstrap].into_iter().collect();
        let bytes = Cuda::key_memory(&keys, &all).unwrap().total();
        let of = |memory| Arc::new(Emulated::new(0).with(|info| info.memory = memory));
        let (small, enough) = (of(bytes - 1), of(bytes));
        refused(
            Runs::<Tfhe>::accepts(&cuda(std::slice::from_ref(&small)), params(name)),
            "memory",
            "B free",
        );
        Runs::<Tfhe>::accepts(&cuda(&[enough]), params(name)).unwrap();
        assert_eq!((small.work(), small.allocations()), ((0, 0), 0), "something was sent");
    }
    match (by_name("cuda", &cpu), asked("cuda")) {
        (Ok(_), made) => made.unwrap(),
        (Err(_), made) => {
            let refused = made.unwrap_err();
            assert!(["device", "unsupported"].contains(&refused.kind()), "{refused}");
        }
    }
}

#[test]
fn a_lost_gpu_is_a_typed_error() {
    let (secret, keys) = keys("toy_1_1");
    let table = Table::from_fn(secret.params(), |m| m).unwrap();
    let ct = secret.encrypt(&[1, 2]).unwrap();
    // Lost while the key is converted, and at some launch of the bootstrap.
    refused(Evaluator::new(&cuda(&[Arc::new(desktop().mortal(0))]), &keys), "device", "told");
    let healthy = emulated(0);
    let evaluator = Evaluator::new(&cuda(std::slice::from_ref(&healthy)), &keys).unwrap();
    let (opened, _) = healthy.work();
    evaluator.bootstrap(&ct, &table).unwrap();
    let (all, _) = healthy.work();
    for life in opened..all {
        let mortal = Arc::new(Emulated::new(0).mortal(life));
        let evaluator = Evaluator::new(&cuda(&[mortal]), &keys).unwrap();
        refused(evaluator.bootstrap(&ct, &table), "device", "told to go");
        // And it stays lost.
        refused(evaluator.bootstrap(&ct, &table), "device", "told to go");
    }
}

#[test]
fn a_gpu_without_clusters_refuses_what_only_a_cluster_holds() {
    let mut params = TfheParams::named("cm_2_2_w4").unwrap().clone();
    params.lwe_dimension = 4;
    let keys = SecretKey::generate(&params, true).unwrap().evaluation_key().unwrap();
    let old = Emulated::new(0).with(|info| (info.capability, info.shared) = ((8, 0), 163 << 10));
    let result = open(&cuda(&[Arc::new(old)]), (&keys).setup());
    refused(result, "unsupported", "clusters");
}

/// The ring of `paper_n800`, of which a block does not hold a column: more ciphertexts than clusters, in any order of threads.
#[test]
fn columns_larger_than_shared_memory_rotate() {
    let mut params = TfheParams::named("paper_n800").unwrap().clone();
    params.lwe_dimension = 4;
    let secret = SecretKey::generate(&params, true).unwrap();
    let keys = secret.evaluation_key().unwrap();
    let table = Table::from_fn(&params, |m| (5 * m + 3) % 16).unwrap();
    let values = [0, 7, 15, 8, 1];
    let wanted = values.map(|m| (5 * m + 3) % 16);
    let gpu = Evaluator::new(&cuda(&[emulated(3)]), &keys).unwrap();
    let found = gpu.bootstrap(&secret.encrypt(&values).unwrap(), &table).unwrap();
    assert_eq!(secret.decrypt(&found).unwrap(), wanted);
    // Neither without clusters nor with less shared memory than a transform takes.
    for (capability, shared) in [((8, 0), 163 << 10), ((9, 0), 99 << 10)] {
        let small =
            Emulated::new(0).with(|info| (info.capability, info.shared) = (capability, shared));
        let refusal = open(&cuda(&[Arc::new(small)]), (&keys).setup());
        refused(refusal, "unsupported", "shared memory");
    }
}

/// The same words on one GPU, on three, and again in the same session; few launches, and the key sent once.
#[test]
fn devices_share_lanes_and_waves() {
    let (secret, keys) = keys("toy_1_1_multi_bit_2");
    let params = secret.params();
    let (up, down) = (
        Table::from_fn(params, |m| (m + 1) % 4).unwrap(),
        Table::from_fn(params, |m| 3 - m).unwrap(),
    );
    let mut program = Program::new(params.clone());
    let encoding = becalm::cipher::Encoding::of(params);
    let inputs: Vec<_> = (0..7).map(|_| program.input(encoding)).collect();
    for (i, x) in inputs.iter().enumerate() {
        let y = program.lookup(*x, if i % 2 == 0 { &up } else { &down }).unwrap();
        let z = program.lookup(y, &down).unwrap();
        program.output(z).unwrap();
    }
    let program = Arc::new(program);
    for lanes in [1usize, 2, 8] {
        let values: Vec<Vec<u64>> =
            (0..7).map(|i| (0..lanes as u64).map(|l| (i + 3 * l) % 4).collect()).collect();
        let cts: Vec<_> = values.iter().map(|v| secret.encrypt(v).unwrap().into()).collect();
        let one = Evaluator::new(&cuda(&[emulated(0)]), &keys).unwrap();
        let wanted = one.run(&program, &cts).unwrap();
        for (v, ct) in values.iter().zip(&wanted).take(1) {
            let clear: Vec<u64> = v.iter().map(|m| 3 - (m + 1) % 4).collect();
            assert_eq!(secret.decrypt(ct).unwrap(), clear);
        }
        let gpus = [emulated(5), emulated(6), emulated(7)];
        let three = Evaluator::new(&cuda(&gpus), &keys).unwrap();
        let sent: Vec<_> = gpus.iter().map(|g| g.work()).collect();
        for _ in 0..2 {
            let got = three.run(&program, &cts).unwrap();
            for (got, wanted) in got.iter().zip(&wanted) {
                assert!(got.words() == wanted.words(), "{lanes} lanes");
            }
        }
        for (gpu, before) in gpus.iter().zip(sent).take(lanes.max(2)) {
            let (launches, bytes) = gpu.work();
            assert!(launches > before.0, "{lanes} lanes: a GPU has nothing to do");
            assert!(bytes - before.1 < before.1, "{lanes} lanes: a key was sent twice");
        }
    }
}

/// A wave of many launches that comes again is recorded, then replayed: the same words, and nothing is left behind.
#[test]
fn what_comes_again_is_recorded() {
    let (secret, keys) = keys("toy_1_1_multi_bit_2");
    let params = secret.params();
    let table = Table::from_fn(params, |m| (3 * m + 1) % 4).unwrap();
    let mut program = Program::new(params.clone());
    let x = program.input(becalm::cipher::Encoding::of(params));
    let y = program.lookup(x, &table).unwrap();
    program.output(y).unwrap();
    let program = Arc::new(program);
    // Tensor cores make bundles for 32.
    for lanes in [5u64, 32] {
        let values: Vec<u64> = (0..lanes).map(|l| l % 4).collect();
        let ct = secret.encrypt(&values).unwrap().into();
        for seed in [0, 11] {
            let gpu = emulated(seed);
            let evaluator = Evaluator::new(&cuda(std::slice::from_ref(&gpu)), &keys).unwrap();
            let mut first = None;
            for run in 0..4u64 {
                let got = evaluator.run(&program, std::slice::from_ref(&ct)).unwrap();
                let words = got[0].words().to_vec();
                let wanted = first.get_or_insert_with(|| words.clone());
                assert!(words == *wanted, "{lanes} lanes, seed {seed}, run {run}");
                // Each of the two waves is launched as it is at first.
                let kept = 2 * usize::from(run > 0);
                assert_eq!(gpu.recordings(), (2 * run, kept), "{lanes} lanes");
            }
            assert_eq!(gpu.has_launched("becalm_bundle_tensor"), lanes == 32);
            let clear: Vec<u64> = values.iter().map(|m| (3 * m + 1) % 4).collect();
            let result = evaluator.run(&program, std::slice::from_ref(&ct)).unwrap();
            assert_eq!(secret.decrypt(&result[0]).unwrap(), clear);
            drop(evaluator);
            assert_eq!(gpu.recordings().1, 0, "a recording is left");
        }
    }
}

/// A refusal of a GPU is reported under `"auto"` too. Where the CPU computes, there is no report.
#[test]
fn auto_says_what_the_gpu_says() {
    let (secret, keys) = keys("toy_1_1_multi_bit_2");
    let (program, needs) = (lookup(keys.params(), |m| m), Need::all_of(&keys));
    let input = secret.encrypt(&[1, 2, 3, 0, 1]).unwrap();
    let walk = Arc::new(program.walk());
    let remark = |backend: &Auto| {
        let mut session = backend.tfhe().unwrap().open(TfheSetup::new(&keys, &needs)).unwrap();
        for _ in 0..2 {
            session.load(program.clone(), walk.clone(), 5, UNWATCHED).unwrap();
            session.write(program.inputs()[0], 0, input.words()).unwrap();
            session.run(0..walk.waves.len(), UNWATCHED).unwrap();
        }
        session.remark()
    };
    let refusing = Emulated::new(0).without(Recordings::Begin);
    assert!(remark(&auto(refusing)).is_some_and(|why| why.contains("not recorded as a graph")));
    assert_eq!(remark(&auto(Emulated::new(0))), None);
    let none = Error::device("cuda", "a GPU", "a driver without a GPU", "buy one");
    assert_eq!(remark(&Auto::with(Err(none)).unwrap()), None);
}

/// The fault of a device, in its words.
fn failed<T>(result: Result<T, Fault>, what: &str) {
    match result {
        Err(Fault::Failed(why)) => assert!(why.contains(what), "{why}"),
        Err(other) => panic!("{other:?} instead of: {what}"),
        Ok(_) => panic!("not refused: {what}"),
    }
}

/// A recording refuses work that it cannot hold while it is made.
#[test]
fn recordings_hold_launches_alone() {
    let gpu = Emulated::new(0);
    let at = gpu.allocate(256).unwrap();
    gpu.record().unwrap();
    gpu.follow(1, 0).unwrap();
    let one = gpu.recorded().unwrap();
    gpu.record().unwrap();
    failed(gpu.record(), "another recording while launches are recorded");
    failed(gpu.allocate(256), "memory while launches are recorded");
    failed(gpu.wait(), "a wait while launches are recorded");
    failed(gpu.recorded(), "a wait while launches were recorded");
    // SAFETY: the place is allocated; a refused launch does nothing.
    unsafe {
        gpu.record().unwrap();
        failed(gpu.upload(at, &[1]), "a copy while launches are recorded");
        failed(gpu.download(&mut [(at, &mut [0])]), "a copy while launches are recorded");
        failed(gpu.replay(one), "a replay while launches are recorded");
        failed(gpu.recorded(), "a replay while launches were recorded");
        failed(gpu.replay(one + 7), &format!("no recording {}", one + 7));
        gpu.replay(one).unwrap();
        gpu.forget(one);
        failed(gpu.replay(one), &format!("no recording {one}"));
    }
    failed(gpu.recorded(), "never began");
    gpu.wait().unwrap();
}

/// For a machine with a GPU: the words of a bootstrap are those of the emulator, or by how much they are not.
#[test]
#[ignore = "wants a GPU: cargo test --release -p becalm --test cuda -- --ignored"]
fn words_of_a_gpu_are_the_emulators() {
    let mut different = vec![];
    for name in ["tfhe_boolean", "paper_n500", "tfhe_2_2_multi_bit_4"] {
        let (secret, keys) = keys(name);
        let params = secret.params();
        let table = Table::from_fn(params, |m| m).unwrap();
        let input = secret.encrypt(&[1, 0]).unwrap();
        let words = |backend: &Cuda| {
            let evaluator = Evaluator::new(backend, &keys).unwrap();
            evaluator.bootstrap(&input, &table).unwrap().words().to_vec()
        };
        let found = words(&Cuda::new().unwrap());
        let wanted = words(&cuda(&[emulated(0)]));
        let pairs = || found.iter().zip(&wanted);
        let apart = pairs().map(|(a, b)| a.wrapping_sub(*b) as i64).map(i64::unsigned_abs).max();
        let unequal = pairs().filter(|(a, b)| a != b).count();
        let log2 = apart.unwrap_or(0).max(1).ilog2();
        println!("{name}: {unequal} of {} words differ, by 2^{log2} at most", found.len());
        if unequal > 0 {
            different.push(name);
        }
    }
    assert!(different.is_empty(), "words differ in {different:?}");
}
