//! Links the kernels that `bench/gpu_peer.py` has compiled, and what they need, so that the program asks for nothing but the
//! driver and glibc.

fn main() {
    let folder = std::env::var("PEER_LIBRARIES").expect("run bench/gpu_peer.py");
    println!("cargo:rerun-if-env-changed=PEER_LIBRARIES");
    println!("cargo:rerun-if-changed={folder}/libpeer_kernels.a");
    println!("cargo:rustc-link-search=native={folder}");
    for library in ["peer_kernels", "cudart_static", "stdc++"] {
        println!("cargo:rustc-link-lib=static:-bundle={library}");
    }
    for library in ["dl", "rt", "pthread"] {
        println!("cargo:rustc-link-lib={library}");
    }
}
