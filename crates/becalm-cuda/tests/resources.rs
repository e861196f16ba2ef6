//! What the compiler reports of the kernels: registers, spills, shared memory. Skipped, saying so, where there is no nvcc.

use becalm_cuda::compile::{ARCHITECTURES, compile, nvcc, step_instructions};
use becalm_cuda::launch::{Launch, Path};
use becalm_cuda::{RINGS, Ring};
use std::path::PathBuf;

fn out(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Threads of a block of each rotation, which are what its registers are counted for.
fn rotations(ring: &Ring) -> Vec<Launch> {
    [Path::Cluster, Path::Block, Path::Pair]
        .iter()
        .filter_map(|p| Launch::rotate(ring, *p, 4))
        .collect()
}

fn check(nvcc: &std::path::Path, ring: &Ring, architecture: &becalm_cuda::compile::Architecture) {
    let cubin = out(&format!("{}.{}.cubin", ring.name(), architecture.name));
    let what = format!("{} {}", ring.name(), architecture.name);
    let report =
        compile(nvcc, ring, architecture.name, &cubin).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(report.len() >= 12, "{what}: {} kernels", report.len());
    for (kernel, found) in &report {
        // Shared memory is given by the launch; a stack would be an array that left the registers.
        assert_eq!((found.spills, found.shared), (0, 0), "{what} {kernel}");
        assert_eq!(found.stack, 0, "{what} {kernel}");
    }
    for launch in rotations(ring) {
        let Some(found) = report.get(launch.kernel) else {
            assert!(launch.cluster > 1 && !architecture.clusters, "{what}: no {}", launch.kernel);
            continue;
        };
        let of_block = found.registers.next_multiple_of(8) * launch.block;
        assert!(of_block <= 65536, "{what} {}: {of_block} registers a block", launch.kernel);
        assert!(launch.shared <= 227 << 10, "{what} {}: {} bytes", launch.kernel, launch.shared);
    }
}

#[test]
fn kernels_stay_in_registers() {
    let Some(nvcc) = nvcc() else {
        println!("skipped: no nvcc here; `make cuda` installs it");
        return;
    };
    let full = std::env::var_os("BECALM_FULL").is_some();
    let (rings, architectures) =
        if full { (RINGS, ARCHITECTURES) } else { (&RINGS[..2], &ARCHITECTURES[1..2]) };
    for ring in rings {
        architectures.iter().for_each(|architecture| check(&nvcc, ring, architecture));
    }
}

/// The figures of docs/performance/cuda.md: instructions of one step of the rotation in a cluster, 4 bits, multi-bit.
#[test]
fn a_step_has_the_instructions_that_the_page_says() {
    let Some(nvcc) = nvcc() else {
        println!("skipped: no nvcc here; `make cuda` installs it");
        return;
    };
    let cubin = out("step.sm_90a.cubin");
    compile(&nvcc, &RINGS[1], "sm_90a", &cubin).unwrap();
    let Some(counts) = step_instructions(&nvcc, &cubin, "becalm_rotate_cluster") else {
        println!("skipped: no cuobjdump here; `make cuda` installs it");
        return;
    };
    let of = |names: &[&str]| names.iter().filter_map(|n| counts.get(*n)).sum::<usize>();
    let all: usize = counts.values().sum();
    println!("{all} instructions: {counts:?}");
    assert!(of(&["DFMA", "DADD", "DMUL"]) > 500, "{counts:?}");
    assert_eq!(of(&["LDL", "STL"]), 0, "{counts:?}");
}
