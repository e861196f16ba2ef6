//! Compiles every ring for every architecture, and to PTX, into a folder: `becalm-cubins FOLDER [REPORT]`.
//!
//! Prints what the compiler says of the rotations and the instructions of one step, and writes all of it as JSON.

use becalm_cuda::RINGS;
use becalm_cuda::compile::{
    ARCHITECTURES, Resources, compile, fingerprint, nvcc, step_instructions,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "target/cuda".to_string()));
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let nvcc = nvcc().ok_or("no nvcc: `make cuda` installs it into .venv")?;
    let mut rows = Vec::new();
    println!("| ring | architecture | kernel | registers | spilled bytes | instructions a step |");
    println!("|---|---|---|---|---|---|");
    for ring in RINGS {
        let names = ARCHITECTURES.iter().filter(|a| a.runs(ring)).map(|a| a.name);
        for architecture in names.chain(["compute_90"]) {
            let kind = if architecture.starts_with("sm_") { "cubin" } else { "ptx" };
            let out = folder.join(format!("{}.{architecture}.{kind}", ring.name()));
            let report = compile(&nvcc, ring, architecture, &out)?;
            for (kernel, found) in &report {
                let step = match kernel.contains("rotate") {
                    true => step_instructions(&nvcc, &out, kernel).unwrap_or_default(),
                    false => BTreeMap::new(),
                };
                if !step.is_empty() {
                    println!("{}", line(&ring.name(), architecture, kernel, found, &step));
                }
                rows.push(row(&ring.name(), architecture, kernel, found, &step));
            }
        }
    }
    // A build that embeds these files compares it with its own sources.
    let sources = format!("{:016x}", fingerprint());
    std::fs::write(folder.join("kernels.sources"), &sources).map_err(|e| e.to_string())?;
    if let Some(path) = arguments.next() {
        let text = format!(
            "{{\n\"compiler\": \"nvcc 13.0.88\",\n\"sources\": \"{sources}\",\n\"kernels\": [\n{}\n]\n}}\n",
            rows.join(",\n")
        );
        std::fs::write(path, text).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// A row of the table: instructions by what they use.
fn line(
    ring: &str,
    architecture: &str,
    kernel: &str,
    found: &Resources,
    step: &BTreeMap<String, usize>,
) -> String {
    let of = |names: &[&str]| names.iter().filter_map(|n| step.get(*n)).sum::<usize>();
    format!(
        "| {ring} | {architecture} | {} | {} | {} | {}: {} FP64, {} shared, {} global, {} barriers |",
        kernel.trim_start_matches("becalm_rotate_"),
        found.registers,
        found.spills,
        step.values().sum::<usize>(),
        of(&["DFMA", "DADD", "DMUL"]),
        of(&["LDS", "STS", "LD"]),
        of(&["LDG"]),
        of(&["BAR", "WARPSYNC", "UCGABAR_ARV"]),
    )
}

/// A kernel of the report.
fn row(
    ring: &str,
    architecture: &str,
    kernel: &str,
    found: &Resources,
    step: &BTreeMap<String, usize>,
) -> String {
    let step: Vec<String> =
        step.iter().map(|(name, count)| format!("\"{name}\": {count}")).collect();
    let Resources { registers, stack, spills, shared } = found;
    format!(
        "{{\"ring\": \"{ring}\", \"architecture\": \"{architecture}\", \"kernel\": \"{kernel}\", \
         \"registers\": {registers}, \"stack\": {stack}, \"spills\": {spills}, \"shared\": {shared}, \
         \"step\": {{{}}}}}",
        step.join(", ")
    )
}
