//! Circuits that are long or ambiguous, as a user compiles them, and a description of a program.
#![cfg(unix)]

mod harness;

use becalm::cipher::Encoding;
use becalm::params::TfheParams;
use becalm::program::Program;
use becalm::tfhe::Table;
use harness::Folder;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

impl Folder {
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// A tool of this name that writes down its arguments and fails.
    fn fake(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        let log = self.0.join("log");
        self.write(name, &format!("#!/bin/sh\necho \"$@\" >> {}\nexit 1\n", log.display()));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Runs the command with a tool for ABC that fails.
    fn run_with_fake(&self, line: &str) -> Output {
        self.command(line).env("BECALM_ABC", self.fake("abc")).output().unwrap()
    }
}

/// AND gates, each of which reads the one before.
fn chain(gates: usize) -> String {
    let mut text = format!("{gates} {}\n1 64\n1 1\n", gates + 64);
    for i in 0..gates {
        let last = if i == 0 { 0 } else { i + 63 };
        text += &format!("2 1 {last} {} {} AND\n", i % 63 + 1, i + 64);
    }
    text
}

/// The scripts of ABC whose time grows with the square of a chain's length do not run on long chains.
#[test]
fn long_chains_are_not_given_to_slow_scripts() {
    let slow = |gates: usize| {
        let folder = Folder::new("chain");
        folder.write("chain.txt", &chain(gates));
        let out = folder.run_with_fake("circuit cost chain.txt");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let log = std::fs::read_to_string(folder.0.join("log")).unwrap();
        let work = |line: &str| line.matches("if -").count() + line.matches("; dch").count();
        assert!(log.contains("b; rw; b"), "{log}");
        log.lines().map(work).sum::<usize>()
    };
    // Short chains get them all, and long ones none.
    assert!(slow(500) > 6);
    assert_eq!(slow(10_000), 0);
}

/// Whatever the limit of addresses is, the command costs a circuit or says that memory ends.
#[cfg(target_os = "linux")]
#[test]
fn memory_that_ends_is_an_error() {
    let folder = Folder::new("within");
    folder.write("small.txt", &chain(300));
    // A text of some hundred kilobytes: reading it may take some tens of megabytes.
    folder.write("long.txt", &chain(20_000));
    for (file, steps, least) in [("small.txt", 12, 400_000), ("long.txt", 6, 1_000_000)] {
        let mut codes = vec![];
        for step in 1..=steps {
            let kilobytes = 64_000 + (least - 64_000) / steps * step;
            let line = format!("ulimit -v {kilobytes}; exec \"$0\" circuit cost {file}");
            let mut shell = Command::new("sh");
            shell.current_dir(&folder.0).env("BECALM_ABC", "").env("RAYON_NUM_THREADS", "2");
            shell.args(["-c", &line, env!("CARGO_BIN_EXE_becalm")]);
            let out = shell.output().unwrap();
            let says = String::from_utf8_lossy(&out.stderr);
            let code = out.status.code();
            assert!(matches!(code, Some(0 | 5)), "{file} {kilobytes}: {:?} {says}", out.status);
            assert!(code == Some(0) || says.contains("not enough memory"), "{says}");
            codes.push(code);
        }
        assert_eq!((codes[0], codes[steps - 1]), (Some(5), Some(0)), "{file} {codes:?}");
    }
}

/// A circuit of 16 inputs whose function is its first input, and which no form of its tables tells: a product of sums, and the same
/// product as a table of its 128 terms.
fn hidden() -> String {
    let inputs: String = (0..16).map(|i| format!(" x{i}")).collect();
    let sum = |i: usize| format!(".names x{} x{} s{i}\n1- 1\n-1 1\n", 2 * i + 1, 2 * i + 2);
    let sums: String = (0..7).map(sum).collect();
    let term = |row: usize| -> String {
        (0..7).map(|i| if row >> i & 1 == 1 { "1-" } else { "-1" }).collect::<String>() + " 1\n"
    };
    let (terms, pairs): (String, String) =
        ((0..128).map(term).collect(), (1..15).map(|i| format!(" x{i}")).collect());
    let product = ".names s0 s1 s2 s3 s4 s5 s6 a\n1111111 1\n";
    let output = ".names x0 a b y\n10- 1\n1-1 1\n.end\n";
    format!(
        ".model m\n.inputs{inputs}\n.outputs y\n{sums}{product}.names{pairs} b\n{terms}{output}"
    )
}

/// A compilation asks ABC for few proofs, however many of its circuits would be better than its own.
#[test]
fn a_compilation_asks_for_few_proofs() {
    let folder = Folder::new("proofs");
    folder.write("hidden.blif", &hidden());
    // A tool that finds the function, and proves nothing.
    let inputs: String = (0..16).map(|i| format!(" i{i}")).collect();
    let text = format!(".model m\\n.inputs{inputs}\\n.outputs o0\\n.names i0 o0\\n1 1\\n.end\\n");
    let script = format!("for i in 0 1 2 3 4; do printf '{text}' > $i.blif; done\nexit 0");
    let path = folder.fake("abc");
    let fake = std::fs::read_to_string(&path).unwrap().replace("exit 1", &script);
    folder.write("clever", &fake);
    let clever = folder.0.join("clever");
    std::fs::set_permissions(&clever, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_becalm"));
    command.current_dir(&folder.0).env("BECALM_ABC", &clever);
    let out = command.args(["circuit", "cost", "hidden.blif"]).output().unwrap();
    let says = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(says.contains("not proved equal"), "{says}");
    let log = std::fs::read_to_string(folder.0.join("log")).unwrap();
    let proofs = log.lines().filter(|line| line.contains("cec")).count();
    assert!((1..=2).contains(&proofs), "{proofs} proofs");
}

/// A table of 60 inputs and thousands of rows is more than ABC restructures and proves in its time: it is compiled without.
#[test]
fn a_large_table_is_compiled_without_abc() {
    let folder = Folder::new("table");
    let inputs: String = (0..60).map(|i| format!(" x{i}")).collect();
    let mut state = 1u64;
    let mut row = |_| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let bits: String = (0..60).map(|i| if state >> i & 1 == 1 { '1' } else { '0' }).collect();
        format!("{bits} 1\n")
    };
    let rows: String = (0..2000).map(&mut row).collect();
    let text = format!(".inputs{inputs}\n.outputs y\n.names{inputs} y\n{rows}.end\n");
    folder.write("table.blif", &text);
    let out = folder.run_with_fake("circuit cost table.blif");
    let says = String::from_utf8_lossy(&out.stdout);
    assert!(says.contains("without ABC, because the circuit has"), "{says}");
    assert!(!folder.0.join("log").exists());
}

/// Loops are errors that name the tables of the loop, with the file and the line.
#[test]
fn loops_are_named() {
    let folder = Folder::new("loops");
    let blif = |tables: &str| format!(".inputs x\n.outputs o\n{tables}\n.end\n");
    for (tables, line, names) in [
        (".names o o\n0 1", 3, "`o`, which depends on itself"),
        (".names a x o\n11 1\n.names o x a\n11 1", 3, "`o`, `a`, which depend on each other"),
        (
            ".names b o\n1 1\n.names x c b\n11 1\n.names b d\n0 1\n.names d x c\n1- 1",
            5,
            "`b`, `c`, `d`, which depend on each other",
        ),
    ] {
        folder.write("loop.blif", &blif(tables));
        let out = folder.run_with_fake("circuit cost loop.blif");
        let says = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(3), "{says}");
        let place = format!("without a loop in line {line} of loop.blif, got {names}; take out");
        assert!(says.contains(&place), "{tables}: {says}");
    }
    // Bristol Fashion has no loops: a gate reads what was written before it.
    for gates in ["2 1 2 1 2 AND\n", "2 1 3 1 2 AND\n2 1 2 0 3 AND\n"] {
        let count = gates.lines().count();
        folder.write("loop.txt", &format!("{count} {}\n2 1 1\n1 1\n{gates}", count + 2));
        let out = folder.run_with_fake("circuit cost loop.txt");
        let says = String::from_utf8_lossy(&out.stderr);
        assert!(says.contains("before it is read in line 4 of loop.txt"), "{says}");
    }
}

#[test]
fn inspect_says_what_a_program_of_tfhe_needs_and_costs() {
    let f = Folder::new("inspect-program");
    let params = Arc::new(TfheParams::named("toy_2_2").unwrap().clone());
    let mut program = Program::new(params.clone());
    let x = program.input(Encoding::of(&params));
    let squares: Vec<u64> = (0..16).map(|m| m * m % 16).collect();
    let square = program.lookup(x, &Table::new(&params, &squares).unwrap()).unwrap();
    program.output(square).unwrap();
    program.save(f.0.join("p")).unwrap();
    let told = f.json("inspect p --json")["program"].clone();
    assert_eq!(told["cost"]["instructions"], program.ops().len());
    assert_eq!((&told["cost"]["bootstraps"], &told["cost"]["depth"]), (&1.into(), &1.into()));
    let needs = serde_json::json!({
        "bootstrap": true, "key_switch": true, "pack": false, "slot_maps": [],
    });
    assert_eq!(told["needs"], needs);
    assert_eq!(told["inputs"][0]["range"], serde_json::json!([0, 15]));
    let says = f.succeed("inspect p");
    for words in ["0 to 15 of 16 values", "the key of the bootstrap", "1 bootstrap, 1 in a row"] {
        assert!(says.contains(words), "{says}");
    }
    assert!(says.contains("recorded again"), "{says}");
    // A name that no set has is one of another version, unless the file was altered.
    let mut bytes = std::fs::read(f.0.join("p")).unwrap();
    let at = bytes.windows(7).position(|name| name == b"toy_2_2").unwrap();
    bytes[at + 6] = b'7';
    std::fs::write(f.0.join("damaged"), bytes).unwrap();
    let refused = f.refuse("inspect damaged");
    assert!(refused.contains("contents that were altered"), "{refused}");
}

/// Names in files of others neither colour the terminal nor forge a line of a log, in reports and in errors.
#[test]
fn names_of_others_have_no_power_over_a_terminal() {
    let f = Folder::new("names");
    let name = "y\u{1b}[31mRED\u{202e}";
    f.write(
        "good.blif",
        &format!(".model m\n.inputs a b\n.outputs {name}\n.names a b {name}\n11 1\n.end\n"),
    );
    f.write("bad.blif", &format!(".model m\n.inputs a b\n.outputs {name}\n.end\n"));
    let said = f.succeed("circuit cost good.blif");
    let refused = f.refuse("circuit cost bad.blif");
    for text in [said, refused] {
        assert!(
            !text.contains(['\u{1b}', '\u{202e}']) && text.contains(r"y\u{1b}[31mRED\u{202e}"),
            "{text:?}"
        );
    }
}
