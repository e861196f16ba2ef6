//! The exit status of the command.

use std::process::{Command, Output};

fn run(line: &str) -> Output {
    let folder = std::env::temp_dir();
    let command = Command::new(env!("CARGO_BIN_EXE_becalm"))
        .current_dir(folder)
        .args(line.split(' '))
        .output();
    command.unwrap()
}

/// Scripts tell errors apart by the exit status, as `--help` says.
#[test]
fn the_exit_status_tells_the_kind_of_an_error() {
    for (status, line) in [
        (0, "params tfhe_2_2"),
        (2, "params --nonsense"),
        (3, "params nonsense"),
        (3, "run --params toy_2_2"),
        (2, "run --params toy_2_2 --allow-insecure --backend abacus"),
        (3, "run --params toy_2_2 --allow-insecure --backend processor"),
        (3, "run --params ckks_toy_12 --allow-insecure --backend processor"),
        (0, "run --params toy_1_1 --allow-insecure --backend reference --json"),
        (0, "run --params ckks_toy_iterated --iterations 2 --allow-insecure --json"),
        (3, "run --params ckks_toy_12 --iterations 2 --allow-insecure"),
        (4, "circuit cost none.becalm"),
        (4, "decrypt --secret none.becalm none.becalm"),
        (4, "eval --evaluation none.becalm --table 0,1 none.becalm --out out.becalm"),
    ] {
        let out = run(line);
        let says = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{line}: {says}");
        if status == 4 {
            assert!(says.contains("none.becalm: "), "{line} names no file: {says}");
        }
    }
    let help = String::from_utf8(run("--help").stdout).unwrap();
    assert!(help.contains("Exit status") && help.contains("130 for Ctrl-C"), "{help}");
}
