//! Embeds the module for wasm32 that `$BECALM_CLIENT` names, which `make client` builds; none without it.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=BECALM_CLIENT");
    let file = std::env::var_os("BECALM_CLIENT").filter(|name| !name.is_empty()).map(PathBuf::from);
    // A page cannot carry itself.
    let page = std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm");
    let value = match file {
        Some(file) if !page => {
            println!("cargo:rerun-if-changed={}", file.display());
            format!("Some(include_bytes!({file:?}))")
        }
        _ => "None".into(),
    };
    let text = format!(
        "/// The module for wasm32, if this crate was built with one.\npub const WASM: Option<&[u8]> = {value};\n"
    );
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    std::fs::write(out.join("wasm.rs"), text).expect("a writable OUT_DIR");
}
