//! Compiles all kernels for every architecture, and to PTX, into a folder: `becalm-cubins FOLDER [REPORT]`.
//!
//! Prints the compiler's report on the rotations and the instructions of one step, and writes all of it as JSON.

use becalm_cuda::Kernels;
use becalm_cuda::compile::{
    ARCHITECTURES, Resources, compile, compiler, fingerprint, is_image, nvcc, step_instructions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "target/cuda".to_string()));
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let nvcc = nvcc().ok_or("no nvcc: `make cuda` installs it into .venv")?;
    let compiler = compiler(&nvcc)?;
    // Written last: an incomplete folder then matches no sources.
    let marker = folder.join("kernels.sources");
    remove(&marker)?;
    println!(
        "| kernels of | architecture | kernel | registers | spilled bytes | instructions a step |"
    );
    println!("|---|---|---|---|---|---|");
    let names = |kernels: &Kernels| {
        let names = ARCHITECTURES.iter().filter(|a| a.runs(kernels)).map(|a| a.name);
        names.chain(["compute_90"]).collect::<Vec<_>>()
    };
    let all: Vec<(Kernels, &str)> = Kernels::ahead()
        .flat_map(|kernels| names(&kernels).into_iter().map(move |name| (kernels, name)))
        .collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![vec![]; all.len()]));
    std::thread::scope(|scope| {
        let work = || -> Result<(), String> {
            while let Some((i, (kernels, name))) =
                Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, *all.get(i)?)))
            {
                let rows = one(&nvcc, &folder, &kernels, name)?;
                found.lock().map_err(|e| e.to_string())?[i] = rows;
            }
            Ok(())
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|w| w.join().map_err(|_| "a thread died".to_string())?)
    })?;
    let rows = found.into_inner().map_err(|e| e.to_string())?.concat();
    let made: BTreeSet<PathBuf> =
        all.iter().map(|(kernels, name)| image(&folder, kernels, name)).collect();
    for file in std::fs::read_dir(&folder).map_err(|e| e.to_string())?.flatten() {
        let (path, name) = (file.path(), file.file_name());
        if name.to_str().is_some_and(is_image) && !made.contains(&path) {
            // Of kernels that were removed.
            remove(&path)?;
        }
    }
    // A build that embeds these files compares it with its own sources.
    let sources = format!("{:016x}", fingerprint(&compiler));
    std::fs::write(&marker, format!("{sources} {compiler}")).map_err(|e| e.to_string())?;
    if let Some(path) = arguments.next() {
        let text = format!(
            "{{\n\"compiler\": \"{compiler}\",\n\"sources\": \"{sources}\",\n\"kernels\": [\n{}\n]\n}}\n",
            rows.join(",\n")
        );
        std::fs::write(path, text).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {e}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The file of the code of kernels for an architecture.
fn image(folder: &Path, kernels: &Kernels, name: &str) -> PathBuf {
    let kind = if name.starts_with("sm_") { "cubin" } else { "ptx" };
    folder.join(format!("{}.{name}.{kind}", kernels.name()))
}

/// Compiles kernels for one architecture; their rows.
fn one(nvcc: &Path, folder: &Path, kernels: &Kernels, name: &str) -> Result<Vec<String>, String> {
    let out = image(folder, kernels, name);
    let report = compile(nvcc, kernels, name, &out)?;
    let exact = matches!(kernels, Kernels::Lwe(ring) if ring.is_exact());
    let mut rows = vec![];
    for (kernel, found) in &report {
        // In doubles the longest loop of a bundle is not that of its products, which the formulas count.
        let bundle = kernel.contains("bundle_many") && exact;
        // Nor is it a step where warps have different work: the loops in which they wait are longer.
        let alike = ["rotate_cluster", "rotate_block", "rotate_pair", "bundle_tensor"];
        let step = match alike.iter().any(|name| kernel.ends_with(name)) || bundle {
            true => step_instructions(nvcc, &out, kernel).unwrap_or_default(),
            false => BTreeMap::new(),
        };
        if !step.is_empty() {
            println!("{}", line(&kernels.name(), name, kernel, found, &step));
        }
        rows.push(row(&kernels.name(), name, kernel, found, &step));
    }
    Ok(rows)
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
        kernel.trim_start_matches("becalm_"),
        found.registers,
        found.spills,
        step.values().sum::<usize>(),
        of(&["DFMA", "DADD", "DMUL", "DMMA"]),
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
