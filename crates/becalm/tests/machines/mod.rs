//! The machines that the conformance tests compare with the reference: a new one adds a line to [`backends`], and to [`runs_all`] if it
//! leaves instructions out.

mod toy;

use becalm::backend::processor::Machine;
use becalm::backend::{Backend, Cpu, Cuda, Processor, Several};
use becalm::math::simd::Level;
use becalm::params::TfheParams;
use becalm_emulator::Emulated;
use std::sync::Arc;

/// Whether a machine also runs ciphertexts with slots and tables that are encrypted.
#[allow(dead_code)] // Only the tests of TFHE ask.
pub fn runs_all(backend: &dyn Backend, params: &TfheParams) -> bool {
    match backend.info().name {
        "processor" => false,
        "cuda" => Cuda::runs(params).is_ok(),
        _ => backend.tfhe().is_some(),
    }
}

/// Every machine, by name.
pub fn backends() -> Vec<(String, Box<dyn Backend>)> {
    let mut all: Vec<(String, Box<dyn Backend>)> = vec![];
    for &level in Level::available() {
        for threads in [1, 2] {
            let cpu = Cpu::with_instructions(threads, level).unwrap();
            all.push((format!("cpu {} {threads}", level.name()), Box::new(cpu)));
        }
    }
    all.push(("toy".to_string(), Box::new(toy::Toy::new())));
    let two: Vec<Box<dyn Backend>> =
        vec![Box::new(Cpu::new(1).unwrap()), Box::new(toy::Toy::new())];
    all.push(("a CPU and a toy".to_string(), Box::new(Several::new(two).unwrap())));
    let machine = Machine { lanes: 4, ..Machine::default() };
    all.push(("processor".to_string(), Box::new(Processor { machine })));
    // One GPU, one without clusters, one that computes with residues, and three that share the work; threads and streams in any order.
    let gpu = |seed| Emulated::new(seed);
    let old = gpu(1).with(|info| (info.capability, info.shared) = ((8, 0), 163 << 10));
    let slow_doubles = gpu(5).with(|info| (info.capability, info.shared) = ((12, 0), 99 << 10));
    for (name, gpus) in [
        ("one GPU", vec![gpu(0)]),
        ("an old GPU", vec![old]),
        ("a GPU of slow doubles", vec![slow_doubles]),
        ("three GPUs", vec![gpu(2), gpu(3), gpu(4)]),
    ] {
        let devices = gpus.into_iter().map(|gpu| Arc::new(gpu) as _).collect();
        all.push((name.to_string(), Box::new(Cuda::with_devices(devices).unwrap())));
    }
    all
}
