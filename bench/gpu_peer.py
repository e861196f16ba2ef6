#!/usr/bin/env python3
"""The peer on a GPU: crate tfhe with feature gpu, as one program to run beside ours.

    make cuda                                   # nvcc, into .venv
    python3 bench/gpu_peer.py target/gpu-peer   # writes a project there and builds it (long)
    target/gpu-peer/peer 8192                   # on the GPU: 4 bits, multi-bit 4; JSON

The program decrypts every result. It is to need the driver and nothing else: CUDA's run time and
C++'s library are linked in. The crate's build wants cmake 3.24 and a C++ compiler. Proven so far:
that the crates are fetched and the sources patched; it was not built.
"""

import glob
import os
import pathlib
import shutil
import subprocess
import sys

MANIFEST = """\
[package]
name = "peer"
version = "0.0.0"
edition = "2021"

[workspace]

[dependencies]
tfhe = { version = "=1.8.2", default-features = false, features = ["gpu", "shortint"] }

[patch.crates-io]
tfhe-cuda-backend = { path = "tfhe-cuda-backend" }

[profile.release]
strip = true
"""

BACKEND = "tfhe-cuda-backend-0.16.0"

MAIN = r"""
use std::time::Instant;
use tfhe::core_crypto::gpu::glwe_ciphertext_list::CudaGlweCiphertextList;
use tfhe::core_crypto::gpu::lwe_ciphertext_list::CudaLweCiphertextList;
use tfhe::core_crypto::gpu::lwe_multi_bit_bootstrap_key::CudaLweMultiBitBootstrapKey;
use tfhe::core_crypto::gpu::vec::{CudaVec, GpuIndex};
use tfhe::core_crypto::gpu::{
    cuda_multi_bit_programmable_bootstrap_lwe_ciphertext as bootstrap, CudaStreams,
};
use tfhe::core_crypto::prelude::*;

// The set of tfhe_2_2_multi_bit_4: N = 2048, n = 920, base 2^22, one level, groups of four.
fn main() {
    let largest: usize = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(8192);
    let streams = CudaStreams::new_single_gpu(GpuIndex::new(0));
    let modulus = CiphertextModulus::<u64>::new_native();
    let (n, glwe, size) = (LweDimension(920), GlweDimension(1), PolynomialSize(2048));
    let (lwe_noise, glwe_noise) =
        (DynamicDistribution::new_t_uniform(45), DynamicDistribution::new_t_uniform(17));
    let mut seeder = new_seeder();
    let mut secret = SecretRandomGenerator::<DefaultRandomGenerator>::new(seeder.seed());
    let mut noise =
        EncryptionRandomGenerator::<DefaultRandomGenerator>::new(seeder.seed(), seeder.as_mut());
    let small = allocate_and_generate_new_binary_lwe_secret_key::<u64, _>(n, &mut secret);
    let big = allocate_and_generate_new_binary_glwe_secret_key::<u64, _>(glwe, size, &mut secret);
    let mut key = LweMultiBitBootstrapKey::new(
        0u64, glwe.to_glwe_size(), size, DecompositionBaseLog(22), DecompositionLevelCount(1), n,
        LweBskGroupingFactor(4), modulus,
    );
    par_generate_lwe_multi_bit_bootstrap_key(&small, &big, &mut key, glwe_noise, &mut noise);
    let began = Instant::now();
    let key = CudaLweMultiBitBootstrapKey::from_lwe_multi_bit_bootstrap_key(&key, &streams);
    let upload = began.elapsed().as_secs_f64();
    let big = big.into_lwe_secret_key();
    let delta = 1u64 << 59;
    let f = |m: u64| m * m % 16;
    let glwe = glwe.to_glwe_size();
    let table = generate_programmable_bootstrap_glwe_lut(size, glwe, 16, modulus, delta, f);
    let table = CudaGlweCiphertextList::from_glwe_ciphertext(&table, &streams);
    println!("{{\"peer\": \"tfhe 1.8.2 gpu\", \"upload_seconds\": {upload:.3}, \"pbs\": [");
    let mut batch = 1;
    while batch <= largest {
        let count = LweCiphertextCount(batch);
        let mut inputs = LweCiphertextList::new(0u64, n.to_lwe_size(), count, modulus);
        let messages: Vec<u64> = (0..batch as u64).map(|i| i % 16 * delta).collect();
        let messages = PlaintextList::from_container(messages);
        encrypt_lwe_ciphertext_list(&small, &mut inputs, &messages, lwe_noise, &mut noise);
        let inputs = CudaLweCiphertextList::from_lwe_ciphertext_list(&inputs, &streams);
        let mut out = CudaLweCiphertextList::new(big.lwe_dimension(), count, modulus, &streams);
        let all: Vec<u64> = (0..batch as u64).collect();
        let index = |words: &[u64]| {
            let mut on_gpu = unsafe { CudaVec::<u64>::new_async(batch, &streams, 0) };
            unsafe { on_gpu.copy_from_cpu_async(words, &streams, 0) };
            streams.synchronize();
            on_gpu
        };
        let (first, positions) = (index(&vec![0; batch]), index(&all));
        let runs = (1000 / batch).clamp(5, 1000);
        let mut micros = vec![];
        for run in 0..=runs {
            let began = Instant::now();
            bootstrap(&inputs, &mut out, &table, &first, &positions, &positions, &key, &streams);
            streams.synchronize();
            if run > 0 {
                micros.push(began.elapsed().as_secs_f64() * 1e6);
            }
        }
        micros.sort_by(f64::total_cmp);
        let results = out.to_lwe_ciphertext_list(&streams);
        let wrong = results.iter().enumerate().filter(|(i, ct)| {
            let phase = decrypt_lwe_ciphertext(&big, ct).0;
            (phase.wrapping_add(delta / 2) / delta) % 16 != f(*i as u64 % 16)
        });
        let (wrong, median) = (wrong.count(), micros[runs / 2]);
        let end = if batch * 2 > largest { "" } else { "," };
        println!(
            "{{\"batch\": {batch}, \"runs\": {runs}, \"wrong\": {wrong}, \
             \"median_us\": {median:.1}, \"p99_us\": {:.1}, \"per_second\": {:.0}}}{end}",
            micros[runs * 99 / 100], batch as f64 / median * 1e6
        );
        batch *= 2;
    }
    println!("]}}");
}
"""


def toolkit() -> pathlib.Path:
    """The folder of the pip wheels' toolkit that `make cuda` installs."""
    here = pathlib.Path(__file__).resolve().parent.parent
    found = os.environ.get("CUDA_HOME") or next(
        iter(glob.glob(str(here / ".venv/lib/python3*/site-packages/nvidia/cu13"))), None
    )
    if not found or not (pathlib.Path(found) / "bin/nvcc").exists():
        sys.exit("no nvcc: run `make cuda` first, or set CUDA_HOME")
    return pathlib.Path(found)


def backend(folder: pathlib.Path) -> None:
    """The crate's CUDA sources, told which GPU: where there is none it would guess an old one."""
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    found = sorted(home.glob(f"registry/src/*/{BACKEND}"))
    if not found:
        bare = folder / "fetch"
        (bare / "src").mkdir(parents=True, exist_ok=True)
        (bare / "src/lib.rs").touch()
        manifest = "\n".join(MANIFEST.split("[patch.crates-io]")[:1])
        (bare / "Cargo.toml").write_text(manifest, encoding="utf-8")
        subprocess.run(["cargo", "fetch"], cwd=bare, check=True)
        found = sorted(home.glob(f"registry/src/*/{BACKEND}"))
    if not found:
        sys.exit(f"no {BACKEND} in cargo's registry")
    copy = folder / "tfhe-cuda-backend"
    if not copy.exists():
        # With its times: the bindings are made anew, by libclang, if a header is newer.
        shutil.copytree(found[0], copy, copy_function=shutil.copy2)
    lists = copy / "cuda/CMakeLists.txt"
    text = lists.read_text(encoding="utf-8")
    for was, now in (
        ("set(CMAKE_CUDA_ARCHITECTURES 70)", "set(CMAKE_CUDA_ARCHITECTURES 90)"),
        ('set(CUDA_ARCH "700")', 'set(CUDA_ARCH "900")'),
    ):
        if was not in text and now not in text:
            sys.exit(f"{lists} is not as expected: no {was}")
        text = text.replace(was, now)
    lists.write_text(text, encoding="utf-8")


def environment(cuda: pathlib.Path, folder: pathlib.Path) -> dict[str, str]:
    """What lets cmake find that toolkit, and the linker take archives, not shared libraries."""
    libraries = folder / "lib"
    libraries.mkdir(exist_ok=True)
    # A probe of cmake asks for -lcuda.
    stub = libraries / "libcuda.so"
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", str(stub)], check=True)

    def of_compiler(name: str) -> str:
        asked = subprocess.run(
            ["c++", f"-print-file-name={name}"], check=True, capture_output=True, text=True
        )
        return asked.stdout.strip()

    archives = {
        "libcudart.a": str(cuda / "lib/libcudart_static.a"),
        "libcudadevrt.a": str(cuda / "lib/libcudadevrt.a"),
        "libcudart_static.a": str(cuda / "lib/libcudart_static.a"),
        "libstdc++.a": of_compiler("libstdc++.a"),
        "libgomp.a": of_compiler("libgomp.a"),
    }
    for name, target in archives.items():
        link = libraries / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return {
        **os.environ,
        "CUDACXX": str(cuda / "bin/nvcc"),
        "CUDA_PATH": str(cuda),
        "CUDAToolkit_ROOT": str(cuda),
        "LIBRARY_PATH": f"{libraries}:{os.environ.get('LIBRARY_PATH', '')}",
        "RUSTFLAGS": f"-L native={libraries}",
    }


def main() -> None:
    """Writes the project, builds it, and puts the program beside it."""
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/gpu-peer").resolve()
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(MANIFEST, encoding="utf-8")
    (folder / "src/main.rs").write_text(MAIN.lstrip(), encoding="utf-8")
    step = sys.argv[2] if len(sys.argv) > 2 else "build"
    backend(folder)
    subprocess.run(["cargo", "fetch"], cwd=folder, check=True)
    if step == "fetch":
        return
    if not shutil.which("cmake"):
        sys.exit("no cmake: the crate's build needs it")
    variables = environment(toolkit(), folder)
    subprocess.run(["cargo", "build", "--release"], cwd=folder, env=variables, check=True)
    shutil.copy2(folder / "target/release/peer", folder / "peer")
    print(folder / "peer")


if __name__ == "__main__":
    main()
