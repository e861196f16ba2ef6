//! Compiles the kernels of every ring for this machine's CPU, and a list of them.

use becalm_cuda::{RINGS, Ring, TEST_RINGS};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Where the kernels are.
const KERNELS: &str = "../becalm-cuda/kernels";

fn main() {
    for folder in [KERNELS, "emulator", "build.rs"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let all: Vec<_> = RINGS.iter().chain(TEST_RINGS).collect();
    let (mut declared, mut listed) = (String::new(), String::new());
    for ring in &all {
        let name = function(ring);
        let _ = writeln!(declared, "extern \"C\" Ring {name};");
        let _ = writeln!(listed, "  {{\"{}\", {name}}},", ring.name());
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for some in all.chunks(all.len().div_ceil(threads)) {
            let out = &out;
            scope.spawn(move || some.iter().for_each(|ring| compile(ring, out)));
        }
    });
    let registry = out.join("registry.inc");
    let text = format!("{declared}static const Entry ENTRIES[] = {{\n{listed}}};\n");
    std::fs::write(registry, text).expect("a writable OUT_DIR");
    compiler()
        .include(&out)
        .file("emulator/asynchronous.cpp")
        .file("emulator/emulator.cpp")
        .file("emulator/registry.cpp")
        .compile("becalm_emulator");
}

/// The program that runs the kernels of a ring.
fn function(ring: &Ring) -> String {
    format!("becalm_ring_{}", ring.name())
}

fn compile(ring: &Ring, out: &Path) {
    let name = function(ring);
    let mut build = compiler();
    for (key, value) in ring.macros() {
        build.define(key, value.to_string().as_str());
    }
    if *ring == TEST_RINGS[0] {
        // The kernels of the emulator's own tests.
        build.define("BECALM_TRIALS", None);
    }
    build.define("BECALM_RING", name.as_str()).file("emulator/ring.cpp");
    // Objects of one source would overwrite each other.
    build.out_dir(out.join(ring.name())).compile(&name);
}

/// C++17, without contraction to fused operations, so that results are those of the GPU bit for bit.
fn compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).debug(false).flag("-ffp-contract=off");
    build.include("emulator").include(KERNELS);
    // A fiber may go on in another thread, so the place of a thread's variables is not to be kept over a switch.
    build.flag("-ftls-model=initial-exec");
    // No ring uses all of the arithmetic.
    build.flag("-Wno-unused-function");
    #[cfg(target_arch = "x86_64")]
    if std::env::var("HOST") == std::env::var("TARGET") && is_x86_feature_detected!("fma") {
        build.flag("-mfma").flag("-mavx2");
    }
    build
}
