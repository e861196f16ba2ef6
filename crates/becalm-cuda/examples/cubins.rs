//! Compiles every ring for every architecture, and to PTX: `cargo run -p becalm-cuda --example cubins -- FOLDER`.
//!
//! Prints for each what the compiler reports of the rotations, and the instructions of one step.

use becalm_cuda::RINGS;
use becalm_cuda::compile::{ARCHITECTURES, compile, nvcc, step_instructions};
use std::path::PathBuf;

fn main() -> Result<(), String> {
    let folder =
        PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "target/cuda".to_string()));
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let nvcc = nvcc().ok_or("no nvcc: `make cuda` installs it into .venv")?;
    println!("| ring | architecture | kernel | registers | spilled bytes | instructions a step |");
    println!("|---|---|---|---|---|---|");
    for ring in RINGS {
        let names = ARCHITECTURES.iter().map(|a| a.name);
        for architecture in names.chain(["compute_90"]) {
            let kind = if architecture.starts_with("sm_") { "cubin" } else { "ptx" };
            let out = folder.join(format!("{}.{architecture}.{kind}", ring.name()));
            let report = compile(&nvcc, ring, architecture, &out)?;
            for (kernel, found) in report.iter().filter(|(name, _)| name.contains("rotate")) {
                let counts = step_instructions(&nvcc, &out, kernel).unwrap_or_default();
                let (all, of) =
                    (counts.values().sum::<usize>(), |n: &str| counts.get(n).unwrap_or(&0));
                let fp64 = of("DFMA") + of("DADD") + of("DMUL");
                let shared = of("LDS") + of("STS") + of("LD");
                println!(
                    "| {} | {architecture} | {} | {} | {} | {all}: {fp64} FP64, {shared} shared, {} global, {} barriers |",
                    ring.name(),
                    kernel.trim_start_matches("becalm_rotate_"),
                    found.registers,
                    found.spills,
                    of("LDG"),
                    of("BAR") + of("WARPSYNC") + of("UCGABAR_ARV"),
                );
            }
        }
    }
    Ok(())
}
