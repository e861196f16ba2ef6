//! `becalm bench --device cuda` on an emulated GPU: all that it measures and reports, in small.

use becalm::backend::Cuda;
use becalm_cli::gpu::{Plan, conclude, measure, tell};
use becalm_emulator::Emulated;
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
    // What is wrong is said, whatever else is right.
    let mut wrong = found;
    wrong.sets[0].wrong = 1;
    assert!(conclude(&wrong, None).unwrap_err().to_string().contains("1 of 300"));
}
