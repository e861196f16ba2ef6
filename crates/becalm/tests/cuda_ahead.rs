//! Bundles that are made ahead of the rotation, on emulated GPUs: every way to rotate a batch gives the same words, and the right ones.
#![cfg(feature = "cuda")]

use becalm::backend::{Cuda, Evaluator};
use becalm::cipher::{EvaluationKey, SecretKey};
use becalm::params::TfheParams;
use becalm::tfhe::Table;
use becalm_emulator::Emulated;
use std::sync::Arc;

/// Three steps of the standard ring.
fn keys() -> (SecretKey, EvaluationKey) {
    let standard = TfheParams::named("tfhe_2_2_multi_bit_4").unwrap();
    let params = TfheParams { lwe_dimension: 12, ..standard.clone() };
    let secret = SecretKey::generate(&params, true).unwrap();
    let evaluation = secret.evaluation_key().unwrap();
    (secret, evaluation)
}

/// A GPU of so many multiprocessors, which decide how many ciphertexts take which way.
fn gpu(multiprocessors: u32, seed: u64) -> Arc<Emulated> {
    Arc::new(Emulated::new(seed).with(|info| info.multiprocessors = multiprocessors))
}

#[test]
fn every_way_gives_the_same_words() {
    let (secret, keys) = keys();
    let table = Table::from_fn(keys.params(), |m| (3 * m + 1) % 16).unwrap();
    for jobs in [1u64, 3, 21] {
        let values: Vec<u64> = (0..jobs).map(|i| i * 5 % 16).collect();
        let wanted: Vec<u64> = values.iter().map(|m| (3 * m + 1) % 16).collect();
        let x = secret.encrypt(&values).unwrap();
        let on = &|multiprocessors: u32, seed: u64, kernel: &str| {
            let device = gpu(multiprocessors, seed);
            let backend = Cuda::with_devices(vec![device.clone() as _]).unwrap();
            let evaluator = Evaluator::new(&backend, &keys).unwrap();
            let y = evaluator.bootstrap(&x, &table).unwrap();
            let what = format!("{jobs} on {multiprocessors}, {kernel}");
            assert_eq!(secret.decrypt(&y).unwrap(), wanted, "{what}");
            if jobs == 21 {
                assert!(device.has_launched(kernel), "{what}");
            }
            y.words().to_vec()
        };
        // Clusters of 16 for all; of 4; one batch; two batches and three by clusters; three batches. An emulator takes one core.
        let ways = [
            (500, 0, "becalm_rotate_leaves_16"),
            (100, 7, "becalm_rotate_leaves_4"),
            (78, 0, "becalm_rotate_batch"),
            (18, 3, "becalm_rotate_batch"),
            (16, 0, "becalm_rotate_batch"),
        ];
        let words = std::thread::scope(|scope| {
            let begun =
                ways.map(|(size, seed, kernel)| scope.spawn(move || on(size, seed, kernel)));
            begun.map(|work| work.join().expect("the right values"))
        });
        for (found, way) in words.iter().zip(ways) {
            assert!(*found == words[0], "{jobs}, {way:?}: other words");
        }
    }
}

/// A GPU that makes bundles ahead beside one that cannot: both take the key for chunks.
#[test]
fn devices_of_two_kinds_share_a_key() {
    let (secret, keys) = keys();
    let table = Table::from_fn(keys.params(), |m| (3 * m + 1) % 16).unwrap();
    let older = Emulated::new(0).with(|info| {
        info.multiprocessors = 20;
        info.capability = (8, 0);
        info.shared = 163 << 10;
    });
    let backend = Cuda::with_devices(vec![gpu(20, 0) as _, Arc::new(older) as _]).unwrap();
    let evaluator = Evaluator::new(&backend, &keys).unwrap();
    let y = evaluator.bootstrap(&secret.encrypt(&[3, 9, 14]).unwrap(), &table).unwrap();
    assert_eq!(secret.decrypt(&y).unwrap(), [10, 12, 11]);
}

/// For a machine with a GPU: a ciphertext's words are the emulator's, in a batch of any size.
#[test]
#[ignore = "wants a GPU: cargo test --release -p becalm --test cuda_ahead -- --ignored"]
fn a_gpu_gives_the_emulators_words_in_every_batch() {
    let params = TfheParams::named("tfhe_2_2_multi_bit_4").unwrap();
    let secret = SecretKey::generate(params, true).unwrap();
    let keys = secret.evaluation_key().unwrap();
    let table = Table::from_fn(params, |m| (3 * m + 1) % 16).unwrap();
    let values: Vec<u64> = (0..300).map(|i| i * 5 % 16).collect();
    let x = secret.encrypt(&values).unwrap();
    let emulator = Cuda::with_devices(vec![gpu(500, 0) as _]).unwrap();
    let of = |backend: &Cuda, range: std::ops::Range<usize>| {
        let evaluator = Evaluator::new(backend, &keys).unwrap();
        let y = evaluator.bootstrap(&x.slice(range).unwrap(), &table).unwrap();
        (secret.decrypt(&y).unwrap(), y.words().to_vec())
    };
    let gpu = Cuda::new().unwrap();
    let (_, all) = of(&gpu, 0..300);
    let (_, first) = of(&emulator, 0..1);
    let differ = first.iter().zip(&all).filter(|(a, b)| a != b).count();
    println!("{differ} of {} words are not the emulator's", first.len());
    let mut wrong = differ;
    for jobs in
        [1, 2, 3, 7, 8, 15, 16, 17, 30, 31, 33, 47, 62, 64, 65, 100, 128, 180, 181, 256, 299]
    {
        let (got, words) = of(&gpu, 0..jobs);
        let bad = got.iter().zip(&values).filter(|(got, m)| **got != (3 * **m + 1) % 16).count();
        let other = words.iter().zip(&all).filter(|(a, b)| a != b).count();
        println!("batch of {jobs}: {bad} wrong, {other} of {} words differ", words.len());
        wrong += bad + other;
    }
    assert_eq!(wrong, 0);
}

/// The sets that the page names.
#[test]
fn the_page_says_which_sets_run() {
    let page = include_str!("../../../docs/performance/cuda.md");
    for name in [
        "tfhe_boolean…",
        "tfhe_1_1…",
        "tfhe_2_2…",
        "tfhe_3_3…",
        "fast_…",
        "paper_n500",
        "paper_n800",
    ] {
        assert!(page.contains(name), "{name}");
    }
    for p in TfheParams::all() {
        let begins = |beginnings: &[&str]| beginnings.iter().any(|b| p.name.starts_with(b));
        let runs = Cuda::runs(p).is_ok();
        if begins(&["tfhe_boolean", "tfhe_1_1", "tfhe_2_2", "tfhe_3_3", "fast_", "paper_"]) {
            assert!(runs || p.name.contains("_extended"), "{}: {:?}", p.name, Cuda::runs(p));
        }
        if begins(&["tfhe_4", "tfhe_5"]) || p.polynomial_size > 16384 {
            assert!(!runs, "{} runs", p.name);
        }
    }
}
