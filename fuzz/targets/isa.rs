#![no_main]

#[path = "../../crates/becalm/tests/harness/mod.rs"]
mod harness;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    harness::fuzz_isa(bytes);
});
