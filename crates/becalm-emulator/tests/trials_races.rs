//! The kernels of `emulator/trials.cuh` under the race detector: none as they are, and for each wait that is left out a race, or a
//! kernel that makes a mistake or does not end.

use becalm_cuda::TEST_RINGS;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kernels with races when a wait is left out, by the wait's number (`planted` in the kernels); with `!` a mistake.
const FOUND: [&str; 14] = [
    "",
    "ring",
    "!ring",
    "!ring ring",
    "ring",
    "!all_to_all all_to_all",
    "!all_to_all all_to_all",
    "exchange",
    "!exchange exchange",
    "channel",
    "channel",
    "channel",
    "channel",
    "chain",
];

fn call(command: &mut Command) {
    let done = command.output().expect("a C++ compiler");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn build() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let emulator = here.join("emulator");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (object, program) = (folder.join("trials.o"), folder.join("trials"));
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_string());
    let mut command = Command::new(&compiler);
    command.arg("-std=c++17").arg(format!("-DBECALM_PLANTS={}", FOUND.len() - 1));
    command.arg("-I").arg(&emulator).arg("-I").arg(here.join("../becalm-cuda/kernels"));
    command.args(TEST_RINGS[0].macros().map(|(name, value)| format!("-D{name}={value}")));
    let mut kernels = Command::new(&compiler);
    // Not linked to the sanitizer's library: the calls before accesses are those of `races.cpp`.
    kernels.args(command.get_args()).args(["-O1", "-fsanitize=thread", "-c"]);
    call(kernels.arg(emulator.join("every_trial.cpp")).arg("-o").arg(&object));
    command.arg("-O3").arg(&object);
    let sources = ["asynchronous.cpp", "emulator.cpp", "races.cpp"];
    command.args(sources.map(|source| emulator.join(source)));
    call(command.arg("-o").arg(&program));
    program
}

#[test]
fn waits_are_enough_and_each_is_needed() {
    let done = Command::new(build()).output().expect("a program that starts");
    let text = String::from_utf8_lossy(&done.stdout);
    let log = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{text}{log}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), FOUND.len(), "{text}{log}");
    for (plant, (line, wanted)) in lines.iter().zip(FOUND).enumerate() {
        let words = line.split_whitespace().skip(1);
        let names: Vec<&str> = words.take_while(|word| word.parse::<u64>().is_err()).collect();
        assert_eq!(names.join(" "), wanted, "without wait {plant}: {line}\n{log}");
    }
}
