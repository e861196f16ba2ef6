//! Lets a plain `cargo build` link the extension on macOS, where the symbols of Python are there at run time alone.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
