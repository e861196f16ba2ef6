#![no_main]

#[path = "../../crates/becalm/tests/harness/mod.rs"]
mod harness;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|bytes: &[u8]| {
    harness::fuzz_threshold(bytes);
});

// Bytes altered blindly hardly ever have a right header; half of the time the format is respected.
fuzz_mutator!(|buffer: &mut [u8], length: usize, most: usize, seed: u32| {
    match seed % 2 {
        0 => fuzzer_mutate(buffer, length, most),
        _ => harness::mutate_within(&mut buffer[..most], length, seed),
    }
});
