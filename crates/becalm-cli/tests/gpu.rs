//! `becalm bench --device cuda` on an emulated GPU: all that it measures and reports, in small.

use becalm::Result;
use becalm::backend::{Backend, Cuda, Info, Loaded, Session};
use becalm::cipher::{Ciphertext, EvaluationKey};
use becalm::params::TfheParams;
use becalm::program::{Need, Op, Program, Reg, Walk};
use becalm_cli::gpu::{Plan, conclude, measure, tell};
use becalm_emulator::Emulated;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Every microbenchmark runs and is told of; what it measures of an emulated GPU means nothing.
#[test]
fn what_the_design_rests_on_is_measured() {
    let gpu = Cuda::with_devices(vec![Arc::new(Emulated::new(0)) as _]).unwrap();
    let found = gpu.micro(3).unwrap();
    assert!(found.iter().all(|f| f.value.is_finite() && f.value > 0.0), "{found:?}");
    for what in ["cluster of 8", "shared memory", "waits for another", "tensor", "KB", "recording"]
    {
        assert!(found.iter().any(|f| f.what.contains(what)), "{what}: {found:?}");
    }
    let path = std::env::temp_dir().join(format!("becalm-micro-{}.json", std::process::id()));
    tell("emulator", &found, Some(&path)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json.as_array().unwrap().len(), found.len());
    let desktop = Emulated::new(0).with(|info| info.capability = (12, 0));
    let refusal = Cuda::with_devices(vec![Arc::new(desktop) as _]).unwrap().micro(3).unwrap_err();
    assert_eq!(refusal.kind(), "unsupported");
}

#[test]
fn a_gpu_is_checked_then_measured() {
    let gpu = Cuda::with_devices(vec![Arc::new(Emulated::new(0)) as _]).unwrap();
    let plan = Plan {
        sets: ["toy_1_1_multi_bit_2", "toy_boolean", "paper_n800"].map(String::from).to_vec(),
        bootstraps: 300,
        batch: 4,
        repetitions: 3,
        allow_insecure: true,
    };
    let found = measure(&gpu, &plan).unwrap();
    let path = std::env::temp_dir().join(format!("becalm-gpu-{}.json", std::process::id()));
    conclude(&found, Some(&path)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (json["backend"].as_str(), json["device"].as_str()),
        (Some("cuda"), Some("emulator"))
    );
    let sets = json["sets"].as_array().unwrap();
    for set in &sets[..2] {
        assert_eq!((set["bootstraps"].as_u64(), set["wrong"].as_u64()), (Some(300), Some(0)));
        assert_eq!(set["noise_agrees"].as_bool(), Some(true), "{set}");
        let rows = set["rows"].as_array().unwrap();
        assert!(rows.iter().all(|r| r["median_us"].as_f64() <= r["p99_us"].as_f64()));
        for case in ["ks_pbs", "pbs"] {
            // A set that switches keys last has one case.
            let batches = rows.iter().filter(|r| r["case"] == case).map(|r| r["batch"].as_u64());
            let batches: Vec<u64> = batches.flatten().collect();
            let whole = case == "ks_pbs" || set["params"] == "toy_1_1_multi_bit_2";
            assert_eq!(batches, if whole { vec![1, 2, 4] } else { vec![] }, "{case}: {set}");
        }
    }
    assert!(sets[2]["refused"].as_str().unwrap().contains("16384"), "{}", sets[2]);
    // The command names its own flags.
    assert!(sets[2]["refused"].as_str().unwrap().contains("--device cpu"), "{}", sets[2]);
    assert_eq!(sets[0]["failed"], serde_json::Value::Null);
}

/// A GPU that computes something else: what is read of it is not what it should be.
struct Lying {
    gpu: Cuda,
    lie: fn(&mut [u64], usize),
}

struct LyingSession {
    session: Box<dyn Session>,
    lie: fn(&mut [u64], usize),
    width: usize,
}

impl Backend for Lying {
    fn info(&self) -> Info {
        self.gpu.info()
    }

    fn supports(&self, op: &Op, params: &TfheParams) -> bool {
        self.gpu.supports(op, params)
    }

    fn open(&self, keys: &EvaluationKey, needs: &BTreeSet<Need>) -> Result<Box<dyn Session>> {
        let (session, width) = (self.gpu.open(keys, needs)?, keys.params().big_dimension() + 1);
        Ok(Box::new(LyingSession { session, lie: self.lie, width }))
    }
}

impl Session for LyingSession {
    fn load(&mut self, p: Arc<Program>, walk: Arc<Walk>, lanes: usize) -> Result<Loaded> {
        self.session.load(p, walk, lanes)
    }

    fn write(&mut self, at: Reg, lane: usize, ct: &Ciphertext) -> Result<()> {
        self.session.write(at, lane, ct)
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<u64>> {
        let mut words = self.session.read(at, lanes.clone())?;
        if words.len() == lanes.len() * self.width {
            words.chunks_exact_mut(self.width).for_each(|ct| (self.lie)(ct, lanes.len()));
        }
        Ok(words)
    }

    fn run(&mut self, loaded: &Loaded, waves: Range<usize>) -> Result<()> {
        self.session.run(loaded, waves)
    }
}

/// Whatever is wrong of a set, it has no times, the others have, and the command fails.
#[test]
fn what_is_wrong_has_no_times() {
    // Two messages further: the uppermost bit alone is padding.
    let wrong: fn(&mut [u64], usize) = |ct, _| ct[ct.len() - 1] ^= 1 << 62;
    // A sixteenth of the distance of two messages: right, and much too noisy.
    let noisy: fn(&mut [u64], usize) = |ct, _| {
        let body = ct.len() - 1;
        ct[body] = ct[body].wrapping_add(1 << 57);
    };
    // Only the kernels for two at once.
    let late: fn(&mut [u64], usize) = |ct, lanes| ct[ct.len() - 1] ^= u64::from(lanes == 2) << 62;
    for (lie, why) in [(wrong, "64 of 64"), (noisy, "0 of 64"), (late, "of a batch of 2: 2 wrong")]
    {
        let gpu = Cuda::with_devices(vec![Arc::new(Emulated::new(0)) as _]).unwrap();
        let plan = Plan {
            sets: vec!["toy_1_1".into()],
            bootstraps: 64,
            batch: 4,
            repetitions: 1,
            allow_insecure: true,
        };
        let found = measure(&Lying { gpu, lie }, &plan).unwrap();
        let set = &found.sets[0];
        assert!(set.rows.is_empty(), "{set:?}");
        assert!(set.failed.as_ref().is_some_and(|e| e.contains(why)), "{set:?}");
        let refusal = conclude(&found, None).unwrap_err().to_string();
        assert!(refusal.contains("toy_1_1") && refusal.contains(why), "{refusal}");
    }
}

/// A GPU that is lost in one set: the others are reported, and the command fails; so it does when nothing was measured.
#[test]
fn a_set_that_fails_leaves_the_others() {
    let measured = |gpu: Emulated, sets: [&str; 2]| {
        let gpu = Cuda::with_devices(vec![Arc::new(gpu) as _]).unwrap();
        let sets = sets.map(String::from).to_vec();
        let plan = Plan { sets, bootstraps: 8, batch: 1, repetitions: 1, allow_insecure: true };
        measure(&gpu, &plan)
    };
    let found = measured(Emulated::new(0).mortal(20), ["toy_1_1", "toy_1_1_multi_bit_2"]).unwrap();
    let failed = found.sets.iter().filter(|set| set.failed.is_some()).count();
    assert!(failed >= 1 && found.sets.len() == 2, "{found:?}");
    assert!(conclude(&found, None).unwrap_err().to_string().contains("told to go"));
    let none = measured(Emulated::new(0), ["paper_n800", "tfhe_4_4"]).unwrap();
    assert!(conclude(&none, None).unwrap_err().to_string().contains("nothing was measured"));
    // A name that is none is said before anything is measured.
    assert!(measured(Emulated::new(0), ["toy_1_1", "toy_9_9"]).is_err());
}

/// The command as a user without a GPU has it.
#[test]
fn the_command_says_what_it_lacks() {
    let becalm = |arguments: &[&str]| {
        let done =
            std::process::Command::new(env!("CARGO_BIN_EXE_becalm")).args(arguments).output();
        let done = done.unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    if Cuda::new().is_err() {
        for more in [&["--json", "-"][..], &["--micro"]] {
            let (status, said) = becalm(&[&["bench", "--device", "cuda"], more].concat());
            assert!(status == Some(1) && said.contains("--device cpu"), "{said}");
            assert!(said.starts_with("becalm: ") && !said.contains("device=\"cpu\""), "{said}");
        }
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../becalm/circuits/adder8.txt");
        let circuit = ["circuit", "run", file, "--inputs", "c8,64", "--backend", "cuda"];
        let (status, said) = becalm(&circuit);
        assert!(status == Some(1) && said.contains("--backend cpu"), "{said}");
    }
    let (status, said) = becalm(&["bench", "ckks", "--device", "cuda"]);
    assert!(status == Some(1) && said.contains("CKKS runs on the CPU"), "{said}");
    for wrong in [["--bootstraps", "0"], ["--batch", "0"], ["--device", "cuda:1"]] {
        assert_eq!(becalm(&[&["bench"], &wrong[..]].concat()).0, Some(2), "{wrong:?}");
    }
    let (status, said) = becalm(&["bench", "--json", "no/such/folder/out.json"]);
    assert!(status == Some(1) && said.contains("no/such/folder"), "{said}");
}
