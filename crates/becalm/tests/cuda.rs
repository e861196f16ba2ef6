//! The backend for GPUs on emulated ones: what it refuses and how it says so, what several devices do, what runs again.
#![cfg(feature = "cuda")]

use becalm::Error;
use becalm::backend::{Backend, Cuda, Evaluator, by_name};
use becalm::cipher::{EvaluationKey, SecretKey};
use becalm::params::TfheParams;
use becalm::program::{Need, Program};
use becalm::tfhe::Table;
use becalm_emulator::Emulated;
use std::sync::Arc;

fn keys(name: &str) -> (SecretKey, EvaluationKey) {
    let secret = SecretKey::generate(TfheParams::named(name).unwrap(), true).unwrap();
    let evaluation = secret.evaluation_key().unwrap();
    (secret, evaluation)
}

fn cuda(devices: &[Arc<Emulated>]) -> Cuda {
    Cuda::with_devices(devices.iter().map(|d| d.clone() as _).collect()).unwrap()
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
    for (name, what) in [("toy_3_3_extended", "extended rotation"), ("tfhe_4_4", "coefficients")] {
        let Ok(params) = TfheParams::named(name) else { continue };
        refused(Cuda::runs(params), "wrong_params", what);
        if params.kind == becalm::params::Kind::Toy {
            let secret = SecretKey::generate(params, true).unwrap();
            let keys = secret.evaluation_key().unwrap();
            refused(Evaluator::new(&backend, &keys), "wrong_params", "256 to 2048");
        }
    }
    refused(Cuda::with_devices(vec![]), "device", "at least one GPU");
}

/// The sets that the page names.
#[test]
fn the_page_says_which_sets_run() {
    let page = include_str!("../../../docs/performance/cuda.md");
    for name in ["tfhe_boolean…", "tfhe_1_1…", "tfhe_2_2…", "fast_…", "paper_n500", "paper_n800"]
    {
        assert!(page.contains(name), "{name}");
    }
    for p in TfheParams::all() {
        let begins = |beginnings: &[&str]| beginnings.iter().any(|b| p.name.starts_with(b));
        let runs = Cuda::runs(p).is_ok();
        if begins(&["tfhe_boolean", "tfhe_1_1", "tfhe_2_2", "fast_", "paper_n500"]) {
            assert!(runs || p.name.ends_with("_extended"), "{}: {:?}", p.name, Cuda::runs(p));
        }
        if begins(&["tfhe_3", "tfhe_4", "tfhe_5", "paper_n800"]) || p.polynomial_size > 2048 {
            assert!(!runs, "{} runs", p.name);
        }
    }
}

#[test]
fn without_a_gpu_auto_is_the_cpu() {
    let (secret, keys) = keys("toy_1_1");
    let gpu = match by_name("cuda") {
        Ok(_) => true,
        Err(e) => {
            assert!(matches!(&e, Error::Device(_) | Error::Unsupported(_)), "{e}");
            assert!(e.detail().remedy.contains("device=\"cpu\""), "{e}");
            false
        }
    };
    let evaluator = Evaluator::new(by_name("auto").unwrap().as_ref(), &keys).unwrap();
    assert!(gpu || evaluator.info().name == "cpu");
    let table = Table::from_fn(secret.params(), |m| m).unwrap();
    let result = evaluator.bootstrap(&secret.encrypt(&[1, 0]).unwrap(), &table).unwrap();
    assert_eq!(secret.decrypt(&result).unwrap(), [1, 0]);
}

#[test]
fn too_little_memory_is_said_before() {
    let (_, keys) = keys("toy_1_1");
    let needs = Need::all_of(&keys);
    let bytes = Cuda::key_bytes(&keys, &needs).unwrap();
    let small = Arc::new(Emulated::new(0).with(|info| info.memory = bytes - 1));
    refused(cuda(std::slice::from_ref(&small)).open(&keys, &needs), "memory", "GB free");
    assert_eq!(small.work(), (0, 0), "something was sent before");
    // Room for the key but not for a large batch.
    let large = Arc::new(Emulated::new(0).with(|info| info.memory = 2 * bytes));
    let mut session = cuda(&[large]).open(&keys, &needs).unwrap();
    let mut program = Program::new(keys.params().clone());
    let x = program.input(becalm::cipher::Encoding::of(keys.params()));
    let y = program.linear(&[(2, x)], 0).unwrap();
    program.output(y).unwrap();
    let walk = Arc::new(program.walk(&[0.0]).unwrap());
    let lanes = (bytes / 1000) as usize;
    refused(session.load(Arc::new(program), walk, lanes), "memory", "GB free");
}

#[test]
fn a_lost_gpu_is_a_typed_error() {
    let (secret, keys) = keys("toy_1_1");
    let table = Table::from_fn(secret.params(), |m| m).unwrap();
    let ct = secret.encrypt(&[1, 2]).unwrap();
    // Lost while the key is converted, and at some launch of the bootstrap.
    refused(
        Evaluator::new(&cuda(&[Arc::new(Emulated::new(0).mortal(0))]), &keys),
        "device",
        "told",
    );
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
    let result = cuda(&[Arc::new(old)]).open(&keys, &Need::all_of(&keys));
    refused(result, "unsupported", "clusters");
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
        let wanted = one.evaluate(&program, &cts).unwrap();
        for (v, ct) in values.iter().zip(&wanted).take(1) {
            let clear: Vec<u64> = v.iter().map(|m| 3 - (m + 1) % 4).collect();
            assert_eq!(secret.decrypt(ct).unwrap(), clear);
        }
        let gpus = [emulated(5), emulated(6), emulated(7)];
        let three = Evaluator::new(&cuda(&gpus), &keys).unwrap();
        let sent: Vec<_> = gpus.iter().map(|g| g.work()).collect();
        for _ in 0..2 {
            let got = three.evaluate(&program, &cts).unwrap();
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
                let got = evaluator.evaluate(&program, std::slice::from_ref(&ct)).unwrap();
                let words = got[0].words().to_vec();
                let wanted = first.get_or_insert_with(|| words.clone());
                assert!(words == *wanted, "{lanes} lanes, seed {seed}, run {run}");
                // Waves of a key switch are too few launches; the first bootstrap is launched as it is.
                assert_eq!(gpu.recordings(), (run, usize::from(run > 0)), "{lanes} lanes");
            }
            assert_eq!(gpu.has_launched("becalm_bundle_tensor"), lanes == 32);
            let clear: Vec<u64> = values.iter().map(|m| (3 * m + 1) % 4).collect();
            let result = evaluator.evaluate(&program, std::slice::from_ref(&ct)).unwrap();
            assert_eq!(secret.decrypt(&result[0]).unwrap(), clear);
            drop(evaluator);
            assert_eq!(gpu.recordings().1, 0, "a recording is left");
        }
    }
}

/// What a recording cannot hold is refused while it is made.
#[test]
fn recordings_hold_launches_alone() {
    use becalm_cuda::Device;
    let gpu = Emulated::new(0);
    let at = gpu.allocate(256).unwrap();
    gpu.record().unwrap();
    gpu.follow(1, 0).unwrap();
    let one = gpu.recorded().unwrap();
    gpu.record().unwrap();
    assert!(gpu.record().is_err() && gpu.allocate(256).is_err() && gpu.wait().is_err());
    assert!(gpu.recorded().is_err());
    // SAFETY: the place is allocated; what is refused does nothing.
    unsafe {
        gpu.record().unwrap();
        assert!(gpu.upload(0, at, &[1]).is_err() && gpu.download(0, at, &mut [0]).is_err());
        assert!(gpu.replay(one).is_err() && gpu.recorded().is_err());
        assert!(gpu.replay(one + 7).is_err());
        gpu.replay(one).unwrap();
        gpu.forget(one);
        assert!(gpu.replay(one).is_err());
    }
    assert!(gpu.recorded().is_err());
    gpu.wait().unwrap();
}
