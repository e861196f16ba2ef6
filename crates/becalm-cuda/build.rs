//! Embeds the cubins and PTX of the folder `$BECALM_CUBINS`, which `make cuda` fills; none without it.

use std::fmt::Write;
use std::path::PathBuf;

fn folder() -> Option<PathBuf> {
    std::env::var_os("BECALM_CUBINS").filter(|name| !name.is_empty()).map(PathBuf::from)
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=BECALM_CUBINS");
    let mut list = String::from("&[\n");
    if let Some(folder) = folder() {
        println!("cargo:rerun-if-changed={}", folder.display());
        let files = std::fs::read_dir(&folder).expect("BECALM_CUBINS names a folder");
        let mut files: Vec<PathBuf> = files.flatten().map(|f| f.path()).collect();
        let kinds = ["cubin", "ptx", "sources"];
        files.retain(|f| f.extension().is_some_and(|e| kinds.iter().any(|kind| e == *kind)));
        files.sort();
        for file in files {
            let name = file.file_name().unwrap_or_default();
            let _ = writeln!(list, "    ({name:?}, include_bytes!({file:?})),");
        }
    }
    list.push(']');
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    std::fs::write(out.join("images.rs"), list).expect("a writable OUT_DIR");
}
