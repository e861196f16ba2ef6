//! Compiles all kernels for this machine's CPU, and a list of them.

use becalm_cuda::{Kernels, TEST_RINGS};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Where the kernels are.
const SOURCES: &str = "../becalm-cuda/kernels";

fn main() {
    for folder in [SOURCES, "emulator", "build.rs"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    // Clippy links nothing, and the kernels take minutes.
    println!("cargo:rerun-if-env-changed=RUSTC_WORKSPACE_WRAPPER");
    if std::env::var("RUSTC_WORKSPACE_WRAPPER").is_ok_and(|name| name.contains("clippy")) {
        return;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let all: Vec<_> = Kernels::ahead().chain(Kernels::of_tests()).collect();
    let (mut declared, mut listed) = (String::new(), String::new());
    for kernels in &all {
        let name = function(kernels);
        let _ = writeln!(declared, "extern \"C\" Kernels {name};");
        let _ = writeln!(listed, "  {{\"{}\", {name}}},", kernels.name());
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for some in all.chunks(all.len().div_ceil(threads)) {
            let out = &out;
            scope.spawn(move || some.iter().for_each(|kernels| compile(kernels, out)));
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

/// The function that finds a kernel by its name.
fn function(kernels: &Kernels) -> String {
    format!("becalm_kernels_{}", kernels.name())
}

fn compile(kernels: &Kernels, out: &Path) {
    let name = function(kernels);
    let mut build = compiler();
    for (key, value) in kernels.macros() {
        build.define(key, value.to_string().as_str());
    }
    if *kernels == TEST_RINGS[0].into() {
        // The kernels of the emulator's own tests.
        build.define("BECALM_TRIALS", None);
    }
    let file = match kernels {
        Kernels::Lwe(_) => "emulator/ring.cpp",
        Kernels::Rns { .. } => "emulator/rns.cpp",
    };
    build.define("BECALM_FIND", name.as_str()).file(file);
    // Objects of one source would overwrite each other.
    build.out_dir(out.join(kernels.name())).compile(&name);
}

/// C++17, without contraction to fused operations, so that results are those of the GPU bit for bit.
fn compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).debug(false).flag("-ffp-contract=off");
    build.include("emulator").include(SOURCES);
    // A fiber may go on in another thread, so the place of a thread's variables is not to be kept over a switch.
    build.flag("-ftls-model=initial-exec");
    // No kernels use all of the arithmetic.
    build.flag("-Wno-unused-function");
    #[cfg(target_arch = "x86_64")]
    if std::env::var("HOST") == std::env::var("TARGET") && is_x86_feature_detected!("fma") {
        build.flag("-mfma").flag("-mavx2");
    }
    build
}
