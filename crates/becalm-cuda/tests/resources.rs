//! The compiler's report of the kernels: registers, spills, shared memory, instructions of a step. `report.json` is the one that
//! `make cuda` wrote for these sources; where nvcc is, some of it is compiled anew and must say the same.

#[path = "../../becalm/tests/full/mod.rs"]
mod full;

use becalm_cuda::compile::{
    ARCHITECTURES, Architecture, compile, compiler, fingerprint, nvcc, step_instructions,
};
use becalm_cuda::launch::{self, Launch};
use becalm_cuda::{Arithmetic, Kernels, RINGS, Ring};
use full::full;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

fn report() -> Value {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("report.json");
    let text = std::fs::read_to_string(file).expect("report.json");
    serde_json::from_str(&text).expect("JSON")
}

/// The rows of some kernels for an architecture.
fn rows<'a>(report: &'a Value, kernels: impl Into<Kernels>, architecture: &str) -> Vec<&'a Value> {
    let (all, name) = (report["kernels"].as_array().expect("kernels"), kernels.into().name());
    let here = |k: &&Value| k["ring"] == name.as_str() && k["architecture"] == architecture;
    all.iter().filter(here).collect()
}

fn number(kernel: &Value, what: &str) -> u32 {
    kernel[what].as_u64().expect("a number") as u32
}

/// Rotations that a device of this architecture can be asked for.
fn rotations(ring: &Ring, architecture: &Architecture) -> Vec<Launch> {
    [launch::Path::Cluster, launch::Path::Block, launch::Path::Pair]
        .iter()
        .filter_map(|p| Launch::rotate(ring, *p, 4))
        .filter(|l| (l.cluster == 1 || architecture.clusters) && l.shared <= architecture.shared)
        .collect()
}

/// Bytes that may leave a thread's registers: none on the H100, for which the kernels are written, in the rings of four bits
/// and wherever a cluster rotates a column that it holds. The threads of one that it does not have 64 registers each.
fn allowed_spills(ring: &Ring, architecture: &str, kernel: &str) -> u32 {
    let of_block = ["becalm_rotate_block", "becalm_rotate_pair"].contains(&kernel);
    let headline = RINGS[..2].contains(ring) || !of_block;
    match architecture {
        // A hundred bytes, none of them in the loop over monomials.
        _ if kernel == "becalm_bundle_ahead" => 256,
        _ if ring.is_far() && kernel == "becalm_rotate_cluster" => 2048,
        "sm_90a" if headline && !ring.is_exact() => 0,
        // A polynomial of residues.
        _ => 128,
    }
}

#[test]
fn the_report_is_of_these_sources() {
    let report = report();
    let compiler = report["compiler"].as_str().expect("a compiler");
    let remedy = "run `make cuda` and commit crates/becalm-cuda/report.json";
    assert_eq!(report["sources"], format!("{:016x}", fingerprint(compiler)).as_str(), "{remedy}");
    // By the compiler that `make cuda` installs.
    let pinned = include_str!("../requirements.txt").lines();
    let pinned = pinned.filter_map(|line| line.strip_prefix("nvidia-cuda-nvcc==")).next();
    assert_eq!(Some(compiler), pinned.map(|v| format!("nvcc {v}")).as_deref(), "{remedy}");
}

/// The kernels that every ring has on every GPU; some rings add nothing but rotations.
const EVERYWHERE: &[&str] = &[
    "load_table",
    "sample_extract",
    "key_switch_start",
    "key_switch_32",
    "key_switch_64",
    "modulus_switch",
    "linear",
    "to_fourier",
];

#[test]
fn kernels_fit_every_gpu() {
    let report = report();
    for ring in RINGS {
        for architecture in ARCHITECTURES.iter().filter(|a| a.runs(&ring.into())) {
            let what = format!("{} {}", ring.name(), architecture.name);
            let found = rows(&report, ring, architecture.name);
            for name in EVERYWHERE {
                let there = found.iter().any(|k| k["kernel"] == format!("becalm_{name}").as_str());
                assert!(there, "{what}: no {name}");
            }
            for kernel in &found {
                let name = kernel["kernel"].as_str().expect("a name");
                let most = allowed_spills(ring, architecture.name, name);
                let what = format!("{what} {name}");
                assert!(number(kernel, "spills") <= most, "{what} spills");
                assert!(number(kernel, "stack") <= most, "{what} has a stack");
                // Shared memory is given by the launch.
                assert_eq!(number(kernel, "shared"), 0, "{what}");
            }
            for launch in rotations(ring, architecture) {
                let kernel = found.iter().find(|k| k["kernel"] == launch.kernel);
                let kernel = kernel.unwrap_or_else(|| panic!("{what}: no {}", launch.kernel));
                let of_block = number(kernel, "registers").next_multiple_of(8) * launch.block;
                assert!(of_block <= 65536, "{what} {}: {of_block} registers", launch.kernel);
            }
        }
    }
}

/// The kernels of transforms of CKKS, three blocks of which are on a multiprocessor.
const TRANSFORMS: [&str; 2] = ["becalm_ntt_rows", "becalm_intt_rows"];

#[test]
fn kernels_of_ckks_fit_every_gpu() {
    let report = report();
    for kernels in Kernels::ahead().filter(|k| matches!(k, Kernels::Rns { .. })) {
        for architecture in ARCHITECTURES {
            let found = rows(&report, kernels, architecture.name);
            let names: Vec<_> = found.iter().filter_map(|k| k["kernel"].as_str()).collect();
            assert!(TRANSFORMS.iter().all(|name| names.contains(name)), "{names:?}");
            for (kernel, name) in found.iter().zip(&names) {
                let what = format!("{} {} {name}", kernels.name(), architecture.name);
                // The H100, for which they are written, keeps all in registers; two of others' are enough.
                let most = if architecture.name == "sm_90a" { 0 } else { 16 };
                assert!(number(kernel, "spills") <= most, "{what} spills");
                assert_eq!(number(kernel, "shared"), 0, "{what}");
                if TRANSFORMS.contains(name) {
                    assert!(number(kernel, "registers") <= 80, "{what}");
                }
            }
        }
    }
}

/// The figures of docs/performance/cuda.md.
#[test]
fn a_step_has_the_instructions_that_the_page_says() {
    let report = report();
    for (ring, kernel, all, fp64) in [
        (&RINGS[1], "becalm_rotate_cluster", 887, 664),
        (&RINGS[1], "becalm_rotate_pair", 956, 664),
        (&RINGS[0], "becalm_rotate_cluster", 1133, 744),
        (&RINGS[0], "becalm_rotate_pair", 1182, 744),
        (&RINGS[1], "becalm_bundle_tensor", 334, 64),
        (&RINGS[2], "becalm_rotate_cluster", 1131, 736),
        (&RINGS[2], "becalm_rotate_block", 1172, 736),
        (&RINGS[3], "becalm_rotate_cluster", 1072, 704),
    ] {
        let found = rows(&report, ring, "sm_90a").into_iter().find(|k| k["kernel"] == kernel);
        let step = found.expect("the kernel")["step"].as_object().expect("a step");
        let of = |names: &[&str]| -> u64 {
            step.iter()
                .filter(|(n, _)| names.contains(&n.as_str()))
                .filter_map(|s| s.1.as_u64())
                .sum()
        };
        let total: u64 = step.values().filter_map(Value::as_u64).sum();
        let counted = (total, of(&["DFMA", "DADD", "DMUL", "DMMA"]), of(&["LDL", "STL"]));
        assert_eq!(counted, (all, fp64, 0), "{} {kernel}", ring.name());
    }
}

/// The images that are compiled anew: one of each family of kernels, bundles and classic steps in doubles, residues modulo 2^64 where
/// doubles are slow, residues modulo p, CKKS; all with `BECALM_FULL=1`.
fn anew() -> Vec<(Kernels, &'static Architecture)> {
    let on = |kernels: Kernels| {
        ARCHITECTURES.iter().filter(move |a| a.runs(&kernels)).map(move |a| (kernels, a))
    };
    let mut all: Vec<_> = Kernels::ahead().flat_map(on).collect();
    if !full() {
        let families = [
            (Arithmetic::Double, true, "sm_90a"),
            (Arithmetic::Double, false, "sm_90a"),
            (Arithmetic::Exact, true, "sm_120a"),
            (Arithmetic::Prime, false, "sm_90a"),
        ];
        let of_family = |(arithmetic, grouped, name)| {
            let fits = |(kernels, a): &&(Kernels, &Architecture)| {
                let of = |ring: &Ring| {
                    ring.arithmetic == arithmetic && (ring.group_ggsws > 0) == grouped
                };
                matches!(kernels, Kernels::Lwe(ring) if of(ring)) && a.name == name
            };
            *all.iter().find(fits).expect("an image of the family")
        };
        let ckks = (Kernels::Rns { log2_n: 16 }, &ARCHITECTURES[1]);
        all = families.map(of_family).into_iter().chain([ckks]).collect();
    }
    all
}

/// Compiles an image and compares all that the compiler and the disassembler say of it.
fn compare(nvcc: &Path, report: &Value, kernels: Kernels, architecture: &str) {
    let image = format!("{}.{architecture}", kernels.name());
    let cubin = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{image}.cubin"));
    let found = compile(nvcc, &kernels, architecture, &cubin).expect("cubins");
    let stored = rows(report, kernels, architecture);
    assert_eq!(stored.len(), found.len(), "{image}: other kernels");
    for kernel in stored {
        let name = kernel["kernel"].as_str().expect("a name");
        let found = found[name];
        let said = ["registers", "stack", "spills", "shared"].map(|what| number(kernel, what));
        let now = [found.registers, found.stack, found.spills, found.shared];
        assert_eq!(said, now, "{image} {name}");
        let step = kernel["step"].as_object().expect("a step");
        if step.is_empty() {
            continue;
        }
        match step_instructions(nvcc, &cubin, name) {
            Some(now) => assert_eq!(&json!(now), &kernel["step"], "{image} {name}: a step"),
            None => {
                panic!("no cuobjdump or nvdisasm for {image} {name}: run `make .venv/.cuda`")
            }
        }
    }
}

/// `make test` runs it where nvcc is installed.
#[test]
#[ignore = "needs nvcc: `make .venv/.cuda` installs it"]
fn the_compiler_still_says_so() {
    let nvcc = nvcc().expect("nvcc: run `make .venv/.cuda`");
    let report = report();
    let (here, wanted) = (compiler(&nvcc).expect("a version"), report["compiler"].as_str());
    assert_eq!(wanted, Some(here.as_str()), "the report is of another compiler: run `make cuda`");
    let (all, next) = (anew(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((kernels, a)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    compare(&nvcc, &report, *kernels, a.name);
                }
            });
        }
    });
}
