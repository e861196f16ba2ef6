//! `becalm bench --device cuda` on an emulated GPU: all that it measures and reports, in small; and programs of CKKS there.

mod harness;

use becalm::backend::{Backend, Cuda, Info, Loaded, Runs, Session, Tfhe, TfheSetup};
use becalm::params::TfheParams;
use becalm::program::{Op, Program, Reg, Walk};
use becalm::{Progress, Result};
use becalm_cli::gpu::{Measurements, Report, clock, conclude, measure, saving, tell};
use becalm_emulator::{Emulated, Recordings, driver_folder};
use harness::Folder;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// These sets, without an end.
fn plan(sets: &[&str], bootstraps: usize, batch: usize, repetitions: usize) -> Measurements {
    let sets = sets.iter().map(ToString::to_string).collect();
    let until = Duration::MAX;
    Measurements { sets, bootstraps, batch, repetitions, allow_insecure: true, until, clock }
}

/// Keeps nothing while it grows.
fn forget(_: &Report) -> anyhow::Result<()> {
    Ok(())
}

/// Every microbenchmark runs and is told of; what it measures of an emulated GPU means nothing.
#[test]
fn what_the_design_rests_on_is_measured() {
    let gpu = Cuda::with_devices(vec![Arc::new(Emulated::new(0)) as _]).unwrap();
    let micro = gpu.micro(3).unwrap();
    assert_eq!(micro.failed, [""; 0]);
    let found = &micro.figures;
    assert!(found.iter().all(|f| f.value.is_finite() && f.value > 0.0), "{found:?}");
    for what in ["cluster of 8", "shared memory", "waits for another", "tensor", "KB", "recording"]
    {
        assert!(found.iter().any(|f| f.what.contains(what)), "{what}: {found:?}");
    }
    let path = std::env::temp_dir().join(format!("becalm-micro-{}.json", std::process::id()));
    tell("emulator", &micro, Some(&path)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json.as_array().unwrap().len(), found.len());
    // A wave that the device does not record is a remark, and the others stay.
    let plain = Emulated::new(0).without(Recordings::End);
    let some = Cuda::with_devices(vec![Arc::new(plain) as _]).unwrap().micro(3).unwrap();
    assert_eq!((some.figures.len(), some.failed.len()), (found.len() - 1, 1));
    assert!(tell("emulator", &some, None).unwrap_err().to_string().contains("told to fail"));
    let desktop = Emulated::new(0).with(|info| info.capability = (12, 0));
    let refusal = Cuda::with_devices(vec![Arc::new(desktop) as _]).unwrap().micro(3).unwrap_err();
    assert_eq!(refusal.kind(), "unsupported");
}

/// A device that records nothing is measured all the same, and its times say so.
#[test]
fn what_is_not_recorded_is_said() {
    let remarks = |gpu: Emulated| -> Vec<Option<String>> {
        let gpu = Cuda::with_devices(vec![Arc::new(gpu) as _]).unwrap();
        let plan = plan(&["toy_1_1_multi_bit_2"], 8, 8, 2);
        let mut found = measure(&gpu, &plan, &mut forget).unwrap();
        let set = found.sets.remove(0);
        assert_eq!(set.failed, None);
        set.rows.into_iter().map(|row| row.remark).collect()
    };
    assert!(remarks(Emulated::new(0)).iter().all(Option::is_none));
    let found = remarks(Emulated::new(0).without(Recordings::End));
    assert!(found.iter().flatten().any(|why| why.contains("told to fail")), "{found:?}");
}

#[test]
fn a_gpu_is_checked_then_measured() {
    let gpu = Cuda::with_devices(vec![Arc::new(Emulated::new(0)) as _]).unwrap();
    let plan = plan(&["toy_1_1_multi_bit_2", "toy_boolean", "tfhe_4_4"], 300, 4, 3);
    let found = measure(&gpu, &plan, &mut forget).unwrap().with_micro(gpu.micro(3));
    let path = std::env::temp_dir().join(format!("becalm-gpu-{}.json", std::process::id()));
    conclude(&found, Some(&path)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["device"].as_str(), Some("emulator"));
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
    assert!(sets[2]["refused"].as_str().unwrap().contains("65536"), "{}", sets[2]);
    // The command names its own flags.
    assert!(sets[2]["refused"].as_str().unwrap().contains("--device cpu"), "{}", sets[2]);
    assert_eq!(sets[0]["failed"], serde_json::Value::Null);
    assert_eq!(json["unfinished"], serde_json::Value::Null);
    assert!(json["micro"].as_array().unwrap().len() > 8 && json["times"].is_string(), "{json}");
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

    fn tfhe(&self) -> Option<&dyn Runs<Tfhe>> {
        Some(self)
    }
}

impl Runs<Tfhe> for Lying {
    fn accepts(&self, params: &TfheParams) -> Result<()> {
        Runs::<Tfhe>::accepts(&self.gpu, params)
    }

    fn supports(&self, op: &Op, params: &TfheParams) -> bool {
        Runs::<Tfhe>::supports(&self.gpu, op, params)
    }

    fn open(&self, setup: TfheSetup) -> Result<Box<dyn Session>> {
        let width = setup.keys.params().big_dimension() + 1;
        let session = self.gpu.open(setup)?;
        Ok(Box::new(LyingSession { session, lie: self.lie, width }))
    }
}

impl Session for LyingSession {
    fn load(
        &mut self,
        p: Arc<Program>,
        walk: Arc<Walk>,
        lanes: usize,
        progress: Progress,
    ) -> Result<Loaded> {
        self.session.load(p, walk, lanes, progress)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[u64]) -> Result<()> {
        self.session.write(at, lane, words)
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<u64>> {
        let mut words = self.session.read(at, lanes.clone())?;
        if words.len() == lanes.len() * self.width {
            words.chunks_exact_mut(self.width).for_each(|ct| (self.lie)(ct, lanes.len()));
        }
        Ok(words)
    }

    fn run(&mut self, waves: Range<usize>, progress: Progress) -> Result<()> {
        self.session.run(waves, progress)
    }
}

/// A set with any failure has no times; the others have times, and the command fails.
#[test]
fn what_is_wrong_has_no_times() {
    // Two messages further: the uppermost bit alone is padding.
    let wrong: fn(&mut [u64], usize) = |ct, _| ct[ct.len() - 1] ^= 1 << 62;
    // Only the kernels for two at once.
    let late: fn(&mut [u64], usize) = |ct, lanes| ct[ct.len() - 1] ^= u64::from(lanes == 2) << 62;
    for (lie, why) in [(wrong, "64 of 64"), (late, "of a batch of 2: 2 wrong")] {
        let gpu = Cuda::with_devices(vec![Arc::new(Emulated::new(0)) as _]).unwrap();
        let plan = plan(&["toy_1_1"], 64, 4, 1);
        let found = measure(&Lying { gpu, lie }, &plan, &mut forget).unwrap();
        let set = &found.sets[0];
        assert!(set.rows.is_empty(), "{set:?}");
        assert!(set.failed.as_ref().is_some_and(|e| e.contains(why)), "{set:?}");
        let refusal = conclude(&found, None).unwrap_err().to_string();
        assert!(refusal.contains("toy_1_1") && refusal.contains(why), "{refusal}");
    }
}

/// Noise beyond the formula is a remark of the set and of a large batch, with both figures. The times stay, and the command succeeds.
#[test]
fn noisy_but_right_results_keep_their_times() {
    // The noise is a sixteenth of the distance of two messages: every result is right, and much too noisy.
    let noisy: fn(&mut [u64], usize) = |ct, _| {
        let body = ct.len() - 1;
        ct[body] = ct[body].wrapping_add(1 << 57);
    };
    let gpu = Cuda::with_devices(vec![Arc::new(Emulated::new(0)) as _]).unwrap();
    let plan = plan(&["toy_1_1"], 64, 256, 1);
    let found = measure(&Lying { gpu, lie: noisy }, &plan, &mut forget).unwrap();
    let set = &found.sets[0];
    assert!(set.failed.is_none() && set.wrong == 0 && !set.noise_agrees, "{set:?}");
    let said = set.remark.as_ref().unwrap();
    assert!(said.contains("2^-7.0") && said.contains("every result is right"), "{said}");
    let large = set.rows.iter().filter(|row| row.batch == 256 && row.case != "ks");
    let said: Vec<&String> = large.filter_map(|row| row.remark.as_ref()).collect();
    assert!(!said.is_empty() && said.iter().all(|r| r.contains("of a batch of 256")), "{said:?}");
    assert!(set.rows.iter().all(|row| row.median_us > 0.0) && set.rows.len() >= 9, "{set:?}");
    conclude(&found, None).unwrap();
    let json = serde_json::to_value(&found).unwrap();
    assert!(json["sets"][0]["remark"].is_string(), "{json}");
}

/// A GPU that is lost in one set: the others are reported, and the command fails; so it does when nothing was measured.
#[test]
fn a_set_that_fails_leaves_the_others() {
    let measured = |gpu: Emulated, sets: [&str; 2]| {
        let gpu = Cuda::with_devices(vec![Arc::new(gpu) as _]).unwrap();
        measure(&gpu, &plan(&sets, 8, 1, 1), &mut forget)
    };
    let found = measured(Emulated::new(0).mortal(20), ["toy_1_1", "toy_1_1_multi_bit_2"]).unwrap();
    let failed = found.sets.iter().filter(|set| set.failed.is_some()).count();
    assert!(failed >= 1 && found.sets.len() == 2, "{found:?}");
    assert!(conclude(&found, None).unwrap_err().to_string().contains("told to go"));
    let none = measured(Emulated::new(0), ["tfhe_3_3_extended", "tfhe_4_4"]).unwrap();
    assert!(conclude(&none, None).unwrap_err().to_string().contains("nothing was measured"));
    // GPUs without clusters refuse some sets that others rotate. That is not a failure.
    let small = Emulated::new(0).with(|info| (info.capability, info.shared) = ((8, 0), 163 << 10));
    let found = measured(small, ["toy_1_1", "paper_n800"]).unwrap();
    let [first, second] = &found.sets[..] else { panic!("{found:?}") };
    assert!(first.failed.is_none() && first.bootstraps > 0, "{first:?}");
    assert!(second.failed.is_none() && second.refused.is_some(), "{second:?}");
    conclude(&found, None).unwrap();
    // An unknown name is reported before anything is measured.
    let unknown = measured(Emulated::new(0), ["toy_1_1", "toy_9_9"]).unwrap_err();
    let kind = unknown.downcast_ref::<becalm::Error>().map(|e| e.kind());
    assert!(kind == Some("wrong_params") && unknown.to_string().contains("`toy_9_9`"), "{unknown}");
}

/// A machine whose clock is moved by what is asked of it.
struct Slow(Cuda);

static TIME: AtomicU64 = AtomicU64::new(0);

/// Microseconds of what is asked.
fn takes(micros: u64) {
    TIME.fetch_add(micros, Ordering::Relaxed);
}

fn slow_clock() -> Duration {
    Duration::from_micros(TIME.load(Ordering::Relaxed))
}

impl Backend for Slow {
    fn info(&self) -> Info {
        self.0.info()
    }

    fn tfhe(&self) -> Option<&dyn Runs<Tfhe>> {
        Some(self)
    }
}

impl Runs<Tfhe> for Slow {
    fn accepts(&self, params: &TfheParams) -> Result<()> {
        Runs::<Tfhe>::accepts(&self.0, params)
    }

    fn supports(&self, op: &Op, params: &TfheParams) -> bool {
        Runs::<Tfhe>::supports(&self.0, op, params)
    }

    fn open(&self, setup: TfheSetup) -> Result<Box<dyn Session>> {
        takes(50_000_000);
        Ok(Box::new(SlowSession(self.0.open(setup)?)))
    }
}

struct SlowSession(Box<dyn Session>);

impl Session for SlowSession {
    fn load(
        &mut self,
        p: Arc<Program>,
        walk: Arc<Walk>,
        lanes: usize,
        progress: Progress,
    ) -> Result<Loaded> {
        self.0.load(p, walk, lanes, progress)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[u64]) -> Result<()> {
        takes(1_000_000);
        self.0.write(at, lane, words)
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<u64>> {
        takes(10_000_000);
        self.0.read(at, lanes)
    }

    fn run(&mut self, waves: Range<usize>, progress: Progress) -> Result<()> {
        takes(300);
        self.0.run(waves, progress)
    }

    fn wait(&self) -> Result<()> {
        takes(20);
        self.0.wait()
    }
}

/// Times are of launches and the wait for them, not of copies; and a run that is out of time keeps what it has.
#[test]
fn times_hold_no_copies_and_end_in_time() {
    let slow = || Slow(Cuda::with_devices(vec![Arc::new(Emulated::new(0)) as _]).unwrap());
    let mut wanted =
        Measurements { clock: slow_clock, ..plan(&["toy_1_1", "toy_boolean"], 8, 2, 5) };
    let whole = measure(&slow(), &wanted, &mut forget).unwrap();
    for row in whole.sets.iter().flat_map(|set| &set.rows) {
        assert_eq!((row.median_us, row.p99_us, row.runs), (320.0, 320.0, 5), "{row:?}");
    }
    assert_eq!((whole.sets[0].rows.len(), whole.sets[0].open_seconds), (6, 50.0));
    let (all, room) = (whole.sets[0].key_bytes, whole.sets[0].conversion_bytes);
    // For doubles the host transforms the key, so the device needs no room to convert it.
    assert!(room == 0 && all > 0, "{room} {all}");
    // Four runs of the last row but one are begun: 17 s a row, of which a run takes one and the copy at its end ten.
    let path = std::env::temp_dir().join(format!("becalm-cut-{}.json", std::process::id()));
    let read = || -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
    };
    let began = slow_clock();
    measure(&slow(), &Measurements { sets: vec!["toy_1_1".into()], ..wanted.clone() }, &mut forget)
        .unwrap();
    let of_a_set = slow_clock() - began;
    wanted.until = slow_clock() + of_a_set - Duration::from_secs(2 * 17 - 4);
    let (mut save, mut saved) = (saving(Some(&path)), vec![]);
    let cut = measure(&slow(), &wanted, &mut |found| {
        save(found)?;
        saved.push(read()["sets"].as_array().unwrap().len());
        Ok(())
    });
    let cut = cut.unwrap();
    // A disk that is full meanwhile takes no figures away; a file that can never be written is said before.
    let mut calls = 0;
    let full =
        measure(&slow(), &Measurements { until: Duration::MAX, ..wanted.clone() }, &mut |_| {
            calls += 1;
            if calls == 1 { Ok(()) } else { anyhow::bail!("the disk is full") }
        });
    assert!(full.unwrap().sets.iter().all(|set| set.failed.is_none() && !set.rows.is_empty()));
    let never = measure(&slow(), &wanted, &mut |_| anyhow::bail!("the disk is full"));
    assert_eq!(never.unwrap_err().to_string(), "the disk is full");
    std::fs::remove_file(&path).unwrap();
    assert!(saved.len() > 4 && saved[0] == 0, "{saved:?}");
    let rows: Vec<usize> = cut.sets[0].rows.iter().map(|row| row.runs).collect();
    assert!(rows.len() == 5 && rows[..4] == [5; 4] && (1..5).contains(&rows[4]), "{rows:?}");
    assert!(cut.sets[1].rows.is_empty() && cut.sets[1].failed.is_none());
    assert!(cut.unfinished.as_ref().is_some_and(|why| why.contains("ks_pbs of 2")), "{cut:?}");
    conclude(&cut, None).unwrap();
}

/// The command itself, on a driver that is not there: it finds it as it would find the real one.
#[test]
#[cfg(target_os = "linux")]
fn one_command_measures_a_gpu() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("driver");
    driver_folder(&folder).unwrap();
    let json = folder.join("out.json");
    // The folder outlives a run of the tests.
    let _ = std::fs::remove_file(&json);
    let becalm = |arguments: &[&str]| {
        let done = std::process::Command::new(env!("CARGO_BIN_EXE_becalm"))
            .args(arguments)
            .env("LD_LIBRARY_PATH", &folder)
            .env("BECALM_NVRTC", &folder)
            .env("BECALM_CACHE", folder.join("cache"))
            .output()
            .unwrap();
        let said = [done.stdout, done.stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
        assert!(done.status.success(), "{}\n{}", said[0], said[1]);
        said[0].clone()
    };
    assert!(becalm(&["doctor"]).contains("emulator: compute capability 9.0"));
    let sets = ["--params", "toy_1_1,toy_1_1_multi_bit_2", "--allow-insecure"];
    let much = ["--bootstraps", "40", "--batch", "2", "--quick", "--json", json.to_str().unwrap()];
    let said = becalm(&[&["bench", "--device", "cuda"], &sets[..], &much].concat());
    assert!(said.contains("0 of 40 wrong") && said.contains("a launch of a recording"), "{said}");
    let text = std::fs::read_to_string(&json).unwrap();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    let sets = found["sets"].as_array().unwrap();
    assert!(sets.len() == 2 && sets.iter().all(|set| set["rows"].as_array().unwrap().len() == 6));
    assert!(found["micro"].as_array().unwrap().len() > 8 && found["unfinished"].is_null());
}

/// A program of CKKS has the same bytes on a GPU, and runs on the CPU, which is said, where the GPU has no room for it.
#[test]
#[cfg(target_os = "linux")]
fn ckks_runs_on_the_gpu_or_says_why_not() {
    let f = Folder::new("gpu-ckks");
    let driver = f.0.join("driver");
    driver_folder(&driver).unwrap();
    f.succeed("function exp --params ckks_toy_12 --slots 8 --allow-insecure -o exp");
    f.succeed("keygen --program exp --allow-insecure");
    f.succeed("encrypt --values 0.5,-0.25,1 --slots 8 -o x --allow-insecure");
    let eval = |out: &str, device: &str, gpu: &str| {
        let line = format!("eval x --program exp -o {out} --allow-insecure --device {device}");
        let mut command = f.command(&line);
        command.env("LD_LIBRARY_PATH", &driver).env("BECALM_NVRTC", &driver);
        command.env("BECALM_CACHE", f.0.join("cache")).env("BECALM_EMULATOR_DRIVER", gpu);
        let done = command.output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    assert_eq!(eval("cpu", "cpu", ""), (Some(0), String::new()));
    assert_eq!(eval("cuda", "cuda", ""), (Some(0), String::new()));
    let (status, said) = eval("auto", "auto", "memory=4194304");
    assert!(status == Some(0) && said.contains("on the CPU, not the GPU: wanted"), "{said}");
    assert!(["cuda", "auto"].map(|out| f.read(out)) == ["cpu", "cpu"].map(|out| f.read(out)));
    let (status, said) = eval("none", "cuda", "memory=4194304");
    assert!(status == Some(5) && said.contains("--device cpu"), "{said}");
    // Without a GPU there is nothing to say.
    assert_eq!(eval("alone", "auto", "devices=0"), (Some(0), String::new()));
}

/// The command as a user without a GPU has it.
#[test]
fn the_command_says_what_it_lacks() {
    let becalm = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_becalm"));
        // The driver then shows no GPU, where the machine has one.
        let done = command.args(arguments).env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    for more in [&["--json", "-"][..], &["--micro"]] {
        let (status, said) = becalm(&[&["bench", "--device", "cuda"], more].concat());
        assert!(status == Some(6) && said.contains("--device cpu"), "{said}");
        assert!(said.starts_with("becalm: ") && !said.contains("device=\"cpu\""), "{said}");
    }
    let (status, said) = becalm(&["bench", "ckks", "--device", "cuda"]);
    assert!(status == Some(6) && said.contains("--device cpu"), "{said}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../becalm/circuits/adder8.txt");
    let circuit = ["circuit", "run", file, "--inputs", "200,100", "--device", "cuda"];
    let (status, said) = becalm(&circuit);
    assert!(status == Some(6) && said.contains("--device cpu"), "{said}");
    for wrong in [["--bootstraps", "0"], ["--batch", "0"], ["--device", "cuda:1"]] {
        assert_eq!(becalm(&[&["bench"], &wrong[..]].concat()).0, Some(2), "{wrong:?}");
    }
    let (status, said) = becalm(&["bench", "--json", "no/such/folder/out.json"]);
    assert!(status == Some(4) && said.contains("no/such/folder"), "{said}");
}
