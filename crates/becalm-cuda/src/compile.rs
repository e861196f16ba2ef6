//! The kernels by nvcc: cubins for each architecture, what the compiler reports of each kernel, and the instructions of a
//! step of the rotation.
//!
//! nvcc is found at `$NVCC`, in `.venv` where `make cuda` installs it, in `$CUDA_HOME/bin`, or on the path; without it nothing
//! here runs and the rest of the crate does not miss it.

use crate::kernels::Kernels;
use crate::rings::Arithmetic;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sources by name; the first is compiled, the others are its headers.
pub const SOURCES: &[(&str, &str)] = &[
    ("kernels.cu", include_str!("../kernels/kernels.cu")),
    ("kernels.cuh", include_str!("../kernels/kernels.cuh")),
    ("batch.cuh", include_str!("../kernels/batch.cuh")),
    ("bundle.cuh", include_str!("../kernels/bundle.cuh")),
    ("complex.cuh", include_str!("../kernels/complex.cuh")),
    ("convert.cuh", include_str!("../kernels/convert.cuh")),
    ("device.cuh", include_str!("../kernels/device.cuh")),
    ("goldilocks.cuh", include_str!("../kernels/goldilocks.cuh")),
    ("key_switch.cuh", include_str!("../kernels/key_switch.cuh")),
    ("leaves.cuh", include_str!("../kernels/leaves.cuh")),
    ("linear.cuh", include_str!("../kernels/linear.cuh")),
    ("micro.cuh", include_str!("../kernels/micro.cuh")),
    ("modulus_switch.cuh", include_str!("../kernels/modulus_switch.cuh")),
    ("rns/baby.cuh", include_str!("../kernels/rns/baby.cuh")),
    ("rns/convert.cuh", include_str!("../kernels/rns/convert.cuh")),
    ("rns/kernels.cuh", include_str!("../kernels/rns/kernels.cuh")),
    ("rns/key.cuh", include_str!("../kernels/rns/key.cuh")),
    ("rns/sum.cuh", include_str!("../kernels/rns/sum.cuh")),
    ("rns/transform.cuh", include_str!("../kernels/rns/transform.cuh")),
    ("rns/word.cuh", include_str!("../kernels/rns/word.cuh")),
    ("rotate.cuh", include_str!("../kernels/rotate.cuh")),
    ("shape.cuh", include_str!("../kernels/shape.cuh")),
    ("streams.cuh", include_str!("../kernels/streams.cuh")),
    ("transform.cuh", include_str!("../kernels/transform.cuh")),
];

/// A GPU architecture that cubins are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Architecture {
    /// `sm_90a`, …
    pub name: &'static str,
    /// Major and minor compute capability.
    pub capability: (u32, u32),
    /// Whether blocks form clusters.
    pub clusters: bool,
    /// Bytes of shared memory that a block may have.
    pub shared: u32,
}

/// A100, H100 and H200, B200, RTX 50: each with its own code.
pub const ARCHITECTURES: &[Architecture] = &[
    Architecture { name: "sm_80", capability: (8, 0), clusters: false, shared: 163 << 10 },
    Architecture { name: "sm_90a", capability: (9, 0), clusters: true, shared: 227 << 10 },
    Architecture { name: "sm_100a", capability: (10, 0), clusters: true, shared: 227 << 10 },
    Architecture { name: "sm_120a", capability: (12, 0), clusters: true, shared: 99 << 10 },
];

impl Architecture {
    /// Whether kernels are compiled for it. Of a ring: exact transforms of words modulo 2^64 where doubles are slow, and 8.0, whose
    /// code runs on 8.6 and 8.9; transforms in doubles where these are fast. CKKS runs everywhere.
    pub fn runs(&self, kernels: &Kernels) -> bool {
        let Kernels::Lwe(ring) = kernels else { return true };
        match ring.arithmetic {
            Arithmetic::Double => self.capability < (12, 0),
            Arithmetic::Exact => [(8, 0), (12, 0)].contains(&self.capability),
            Arithmetic::Prime => true,
        }
    }
}

/// The report of ptxas on one kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resources {
    /// 32-bit registers of a thread.
    pub registers: u32,
    /// Bytes of stack of a thread.
    pub stack: u32,
    /// Bytes of registers written to memory and read back, in the code.
    pub spills: u32,
    /// Bytes of shared memory that the kernel has beside that of the launch.
    pub shared: u32,
}

/// Options of nvcc for all kernels. Contraction is off: the sources write each fused operation out, so that results are those of the emulator bit
/// for bit.
const OPTIONS: [&str; 4] = ["-std=c++17", "--fmad=false", "-Xptxas", "-v"];

/// A number that changes with the code that is compiled (not with its comments), with the list of kernels, with what the compiler is
/// told, and with the compiler, which is named as by [`compiler`]: images and a report belong to it.
pub fn fingerprint(compiler: &str) -> u64 {
    // FNV-1a.
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    let code = SOURCES.iter().flat_map(|(_, text)| text.lines());
    let code = code.flat_map(|line| line.split("//").next().unwrap_or("").split_whitespace());
    let names = Kernels::ahead().map(|kernels| kernels.name()).collect::<String>();
    let parts = code.chain([&*names]).chain(OPTIONS).chain([compiler]);
    parts.flat_map(str::bytes).fold(0xCBF2_9CE4_8422_2325, mix)
}

/// The compiler by name and version: `nvcc 13.0.88`.
///
/// # Errors
/// If it does not start, or says no version.
pub fn compiler(nvcc: &Path) -> Result<String, String> {
    let done = Command::new(nvcc).arg("--version").output();
    let done = done.map_err(|e| format!("{}: {e}", nvcc.display()))?;
    version(&String::from_utf8_lossy(&done.stdout))
        .ok_or_else(|| format!("{} --version tells no version", nvcc.display()))
}

/// `Cuda compilation tools, release 13.0, V13.0.88` → `nvcc 13.0.88`.
fn version(text: &str) -> Option<String> {
    let words =
        text.lines().filter(|line| line.contains("release")).flat_map(str::split_whitespace);
    let numbers = words.filter_map(|word| word.strip_prefix('V'));
    let mut numbers = numbers.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    numbers.next().map(|number| format!("nvcc {number}"))
}

/// nvcc, if the machine has it.
pub fn nvcc() -> Option<PathBuf> {
    let works = |path: &PathBuf| {
        Command::new(path).arg("--version").output().is_ok_and(|done| done.status.success())
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut places: Vec<PathBuf> =
        std::env::var_os("NVCC").map(PathBuf::from).into_iter().collect();
    let pythons = std::fs::read_dir(root.join(".venv/lib")).into_iter().flatten().flatten();
    places.extend(pythons.map(|p| p.path().join("site-packages/nvidia/cu13/bin/nvcc")));
    places.extend(std::env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin/nvcc")));
    places.push(PathBuf::from("nvcc"));
    places.into_iter().find(works)
}

/// Compiles kernels to `cubin`, or for "compute_90" and the like to PTX.
///
/// # Errors
/// The compiler's messages.
pub fn compile(
    nvcc: &Path,
    kernels: &Kernels,
    architecture: &str,
    out: &Path,
) -> Result<BTreeMap<String, Resources>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let virtual_name = architecture.replace("sm_", "compute_");
    let mut command = Command::new(nvcc);
    command.args(OPTIONS);
    if architecture.starts_with("sm_") {
        command.arg("-cubin").arg(format!("-gencode=arch={virtual_name},code={architecture}"));
    } else {
        command.arg("-ptx").arg(format!("-arch={virtual_name}"));
    }
    command.args(kernels.macros().into_iter().map(|(name, value)| format!("-D{name}={value}")));
    let done = command
        .arg("-I")
        .arg(&folder)
        .arg(folder.join("kernels.cu"))
        .arg("-o")
        .arg(out)
        .output()
        .map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.success() { Ok(report(&text)) } else { Err(text) }
}

/// Whether a file has the name of an image of some kernels, of some that there are or that there were: `n11_…_15.sm_90a.cubin`.
pub fn is_image(name: &str) -> bool {
    let parts: Vec<&str> = name.split('.').collect();
    let &[kernels, architecture, kind] = &parts[..] else { return false };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let for_it = |begins: &str| {
        let rest = architecture.strip_prefix(begins);
        rest.is_some_and(|rest| number(rest.trim_end_matches('a')))
    };
    Kernels::is_name(kernels)
        && (kind == "cubin" && for_it("sm_") || kind == "ptx" && for_it("compute_"))
}

/// The report of ptxas, by kernel.
fn report(text: &str) -> BTreeMap<String, Resources> {
    let mut all: BTreeMap<String, Resources> = BTreeMap::new();
    let mut kernel = String::new();
    for line in text.lines() {
        if let Some(name) = line.split('\'').nth(1).filter(|_| line.contains("Compiling entry")) {
            kernel = name.to_string();
        }
        let found = all.entry(kernel.clone()).or_default();
        // "N bytes stack frame, N bytes spill stores", "Used N registers, …, N bytes smem": the number before each.
        let before = |what: &str| {
            let words: Vec<&str> = line[..line.find(what)?].split_whitespace().collect();
            words.last()?.parse::<u32>().ok()
        };
        found.registers += before(" registers").unwrap_or(0);
        found.stack += before(" bytes stack frame").unwrap_or(0);
        found.spills += before(" bytes spill stores").unwrap_or(0);
        found.spills += before(" bytes spill loads").unwrap_or(0);
        found.shared += before(" bytes smem").unwrap_or(0);
    }
    all.remove("");
    all
}

/// The instructions of the longest loop of a kernel in a cubin, by the first part of their names (`DFMA`, `LDS`, …): a step of
/// the rotation. `None` if there is no disassembler beside nvcc or on the path.
pub fn step_instructions(
    nvcc: &Path,
    cubin: &Path,
    kernel: &str,
) -> Option<BTreeMap<String, usize>> {
    let folder = nvcc.parent()?;
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&paths));
    let paths = std::env::join_paths(paths).ok()?;
    let name = if folder.join("cuobjdump").exists() {
        folder.join("cuobjdump")
    } else {
        "cuobjdump".into()
    };
    let mut command = Command::new(name);
    let done =
        command.env("PATH", paths).args(["-sass", "-fun", kernel]).arg(cubin).output().ok()?;
    done.status.success().then(|| longest_loop(&String::from_utf8_lossy(&done.stdout)))
}

/// Counts the instructions between the target of the backward branch that jumps farthest and that branch.
fn longest_loop(text: &str) -> BTreeMap<String, usize> {
    let mut code: Vec<(u64, &str)> = vec![];
    for line in text.lines() {
        let Some((address, rest)) =
            line.trim_start().strip_prefix("/*").and_then(|l| l.split_once("*/"))
        else {
            continue;
        };
        if let (Ok(address), Some(instruction)) =
            (u64::from_str_radix(address, 16), rest.split(';').next())
        {
            code.push((address, instruction.trim()));
        }
    }
    let backward = code.iter().filter_map(|(at, instruction)| {
        let target =
            instruction.split_whitespace().find_map(|w| w.trim_end_matches(',').strip_prefix("0x"));
        let target =
            u64::from_str_radix(target.filter(|_| instruction.contains("BRA"))?, 16).ok()?;
        (target < *at).then_some((target, *at))
    });
    let (from, to) = backward.max_by_key(|(from, to)| to - from).unwrap_or((1, 0));
    let mut counts = BTreeMap::new();
    for (_, instruction) in code.iter().filter(|(at, _)| (from..=to).contains(at)) {
        // A predicate stands before the name, its kind after a point.
        let name = instruction.split_whitespace().find(|w| !w.starts_with('@')).unwrap_or("");
        *counts.entry(name.split('.').next().unwrap_or("").to_string()).or_insert(0) += 1;
    }
    counts.remove("");
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let text = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_90a'
ptxas info    : Function properties for one
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 72 registers, used 16 barriers, 128 bytes smem
ptxas info    : Compiling entry function 'two' for 'sm_90a'
ptxas info    : Used 9 registers";
        let found = report(text);
        let one = Resources { registers: 72, stack: 16, spills: 12, shared: 128 };
        assert_eq!((found["one"], found["two"].registers, found.len()), (one, 9, 2));
    }

    #[test]
    fn the_compiler_names_itself() {
        let text = "nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Wed_Aug_20_01:58:59_PM_PDT_2025
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0";
        assert_eq!(version(text).as_deref(), Some("nvcc 13.0.88"));
        assert_eq!(version("Volta release"), None);
        assert_ne!(fingerprint("nvcc 13.0.88"), fingerprint("nvcc 13.0.89"));
    }

    /// A folder may hold code of another origin.
    #[test]
    fn images_are_known_by_their_names() {
        for kernels in Kernels::ahead().chain(Kernels::of_tests()) {
            for kind in ["sm_80.cubin", "sm_90a.cubin", "sm_120a.cubin", "compute_90.ptx"] {
                let name = format!("{}.{kind}", kernels.name());
                assert!(is_image(&name), "{name}");
            }
        }
        assert!(is_image("n12_k1_w1_b1_l1_g1_0.sm_70.cubin"));
        let ours = "n11_k1_w1_b22_l1_g4_15";
        for name in [
            "gemm.cubin",
            "gemm.sm_90a.cubin",
            "kernels.sources",
            "a.ptx",
            ".cubin",
            "",
            "rns_n.sm_80.cubin",
        ]
        .map(String::from)
        .into_iter()
        .chain(
            ["cubin", "ptx", "sm_90a", "sm_90a.cubin.bak", "sm_90a.ptx", "sm_.cubin"]
                .map(|kind| format!("{ours}.{kind}")),
        )
        .chain([format!("my_{ours}.sm_90a.cubin"), format!("{ours}_2.sm_90a.cubin")])
        {
            assert!(!is_image(&name), "{name}");
        }
    }

    #[test]
    fn loops_are_found() {
        let text = "
        /*0000*/                   MOV R1, R2 ;
        /*0010*/                   DFMA R4, R4, R6, R8 ;
        /*0020*/              @!P0 LDS.128 R4, [R2+0x10] ;
        /*0030*/               @P1 BRA 0x20 ;
        /*0040*/               @P0 BRA 0x10 ;
        /*0050*/                   BRA 0x50 ;";
        let found = longest_loop(text);
        assert_eq!((found["DFMA"], found["LDS"], found["BRA"], found.len()), (1, 1, 2, 3));
    }
}
