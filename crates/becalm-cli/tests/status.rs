//! The exit status of the command.

mod harness;

use harness::Folder;
use std::path::Path;
use std::process::{Command, Output};

fn run_in(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_becalm"));
    command.current_dir(folder).args(line.split(' ')).output().unwrap()
}

fn run(line: &str) -> Output {
    run_in(&std::env::temp_dir(), line)
}

/// Scripts tell errors apart by the exit status, as `--help` says.
#[test]
fn the_exit_status_tells_the_kind_of_an_error() {
    for (status, line) in [
        (0, "params tfhe_2_2"),
        (2, "params --nonsense"),
        (3, "params nonsense"),
        (3, "run --params toy_2_2"),
        (2, "run --params toy_2_2 --allow-insecure --device abacus"),
        (3, "run --params toy_2_2 --allow-insecure --device processor"),
        (3, "run --params ckks_toy_12 --allow-insecure --device processor"),
        (0, "run --params toy_1_1 --allow-insecure --device reference --json"),
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
            assert!(says.contains("none.becalm"), "{line} names no file: {says}");
        }
    }
    let help = String::from_utf8(run("--help").stdout).unwrap();
    assert!(help.contains("Exit status") && help.contains("130 for Ctrl-C"), "{help}");
}

/// The status is that of the error where nobody can read the message.
#[cfg(target_os = "linux")]
#[test]
fn an_error_that_nobody_reads_keeps_its_status() {
    for (status, line) in [(2, ""), (3, "keygen --params nope"), (3, "run --params toy_2_2")] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_becalm"));
        let done = command.args(line.split_whitespace()).stderr(full).status().unwrap();
        assert_eq!(done.code(), Some(status), "{line}");
    }
}

/// A file that is not there is named in one way, whoever wanted it. The free space is no remedy.
#[test]
fn a_file_that_is_missing_is_named() {
    let folder = Folder::new("missing");
    folder.succeed("function exp -o program.becalm");
    std::fs::write(folder.0.join("x.becalm"), "anything").unwrap();
    for line in [
        "circuit cost none",
        "function exp --evaluation none",
        "serve served --tokens none",
        "encrypt --secret none --values 1 -o y.becalm",
        "decrypt none",
        "inspect none",
        "eval x.becalm --program program.becalm --evaluation none -o y.becalm --allow-insecure",
    ] {
        let says = folder.refuse_with(4, line);
        let wanted =
            "wanted to read none, got No such file or directory (os error 2); check the name";
        assert!(says.trim_end().ends_with(wanted), "{line}: {says}");
    }
}

/// An AND of nine bits, which no single rotation of `tfhe_2_2` looks up.
fn chain() -> String {
    let gate = |i| format!("2 1 {} {} {} AND\n", if i == 0 { 0 } else { i + 8 }, i + 1, i + 9);
    format!("8 17\n1 9\n1 1\n{}", (0..8).map(gate).collect::<String>())
}

/// Of a server that is no server of CKKS.
const SERVER: &str = "wanted evaluation keys of CKKS, of the set ckks_toy_12, got an evaluation key of TFHE, of the set toy_2_2; \
        give the evaluation keys that were made beside a secret key of this set";
/// Of a file that becalm did not write.
const NOTHING: &str = "run.sh: bad file: load: wanted a file of becalm, got another file; give a file that becalm wrote";
/// Of a ciphertext of CKKS in place of one of TFHE.
const OF_CKKS: &str = "got a ciphertext of CKKS, of the set ckks_toy_12; give ciphertexts of TFHE";

/// Commands, the file that is of another kind, and words of their messages.
const OTHER_KINDS: &[(&str, &str, &str)] = &[
    ("eval v.becalm --program exp.becalm -o y", "evaluation.becalm", SERVER),
    (
        "eval x.becalm --program exp.becalm --evaluation ckks_server -o y",
        "x.becalm",
        "wanted a ciphertext of CKKS, got ciphertexts of TFHE, of the set toy_2_2; give a ciphertext of CKKS",
    ),
    (
        "decrypt v.becalm",
        "secret.becalm",
        "wanted a secret key of CKKS, got a secret key of TFHE, of the set toy_2_2; give a secret key of CKKS",
    ),
    (
        "decrypt x.becalm --secret ckks",
        "ckks",
        "got a secret key of CKKS, of the set ckks_toy_12; give a secret key of TFHE",
    ),
    ("eval v.becalm --table 1 -o y", "v.becalm", OF_CKKS),
    (
        "encrypt --secret ckks_server --values 0.5 -o y",
        "ckks_server",
        "got evaluation keys of CKKS",
    ),
    (
        "encrypt --packed --values 1 -o y",
        "secret.becalm",
        "got a secret key of TFHE, of the set toy_2_2",
    ),
    ("threshold split --threshold 2 -o a -o b", "secret.becalm", "got a secret key of TFHE"),
    ("decrypt run.sh", "run.sh", NOTHING),
    ("eval run.sh --table 1 -o y", "run.sh", NOTHING),
];

/// A file of another kind is named, with its kind and its set in words, whoever reads it. Nothing of a file that becalm did not write
/// is shown.
#[test]
fn a_file_of_another_kind_is_named_in_words() {
    let folder = Folder::new("kinds");
    for line in [
        "keygen --params toy_2_2 --allow-insecure",
        "encrypt --values 1.0,2e0 -o x.becalm --allow-insecure",
        "keygen --params ckks_toy_12 --allow-insecure --secret ckks --evaluation ckks_server",
        "encrypt --secret ckks --values 1,2 -o v.becalm --allow-insecure",
        "function exp --params ckks_toy_12 --allow-insecure -o exp.becalm",
    ] {
        folder.succeed(line);
    }
    std::fs::write(folder.0.join("run.sh"), "R() { echo private; }\n").unwrap();
    for (line, name, says) in OTHER_KINDS {
        let said = folder.refuse_with(4, &format!("{line} --allow-insecure"));
        assert!(
            said.starts_with(&format!("becalm: {name}: ")) && said.contains(says),
            "{line}: {said}"
        );
        assert!(!said.contains("echo") && !said.contains("becalm.rlwe"), "{line}: {said}");
    }
    let said = folder.refuse_with(4, "inspect run.sh");
    assert!(said.contains(NOTHING) && !said.contains("R()"), "{said}");
    let job = "job make job v.becalm --program exp.becalm --allow-insecure";
    let said = folder.refuse_with(3, job);
    assert!(
        said.contains("wanted evaluation keys of CKKS, got an evaluation key of TFHE"),
        "{said}"
    );
}

/// Commands, their exit status, and words of their messages.
const REMEDIES: &[(i32, &str, &str)] = &[
    (
        3,
        "encrypt --secret ckks --values 1 -o y --allow-insecure",
        "say --packed for integers in tables, or --vector",
    ),
    (3, "encrypt --secret ckks --packed --values 16 -o y --allow-insecure", "split larger"),
    (
        3,
        "encrypt --secret ckks --packed --bits 3 --values 8 -o y --allow-insecure",
        "use more bits",
    ),
    (
        3,
        "eval x.becalm --table 1,2,3 -o y --allow-insecure",
        "wanted a table of 16 entries for values from 0 to 15, got a table of 3 entries",
    ),
    (
        3,
        "function argmax --size 4 --gap 2",
        "argmax: wanted a gap of at least 6.0e-8 and below 1, got 2;",
    ),
    (3, "function compare --gap 0", "compare: wanted a gap"),
    (3, "function sort --size 0", "got 0; choose a size in that range"),
    (3, "function sort --size 5", "fill the vector"),
    (3, "function inverse --domain=-1,1", "two ends a < b, above 0, got (-1, 1)"),
    (3, "function sqrt --domain=-1,1", "two ends a < b, from 0 up"),
    (3, "function Exp", "did you mean `exp`?"),
    (3, "function exp --bits -3", "exp: wanted from 1 to 40 bits, got -3"),
    (2, "estimate --n 3", "give a set with --params, or an instance with --n, --log-q and"),
    (
        3,
        "encrypt --secret ckks --vector --values=0,0.5,-1 --slots 3 -o y --allow-insecure",
        "got 3; 4 are enough for 3 values",
    ),
    (
        3,
        "encrypt --secret ckks --vector --values=0,0.5,-1 --slots 2 -o y --allow-insecure",
        "wanted at most 2 values, one for each slot, got 3;",
    ),
    (
        3,
        "circuit run and.txt --inputs -5,1",
        "got `-5`; give --inputs a decimal number such as 200",
    ),
    (
        3,
        "circuit cost chain.txt --goal 1",
        "wanted bootstraps one after another: at most 1, got 2,",
    ),
    (
        2,
        "serve served --tokens tokens --listen localhost",
        "such as 127.0.0.1:8443 or localhost:8443",
    ),
    (2, "serve served --tokens tokens --workers -1", "invalid value '-1'"),
    (2, "serve served --tokens tokens --limit 0", "invalid value '0'"),
    (4, "encrypt --secret none --values 1 --slots 4 -o y", "wanted to read none"),
    (2, "encrypt --values=0.5 -o y --allow-insecure", "value 1 is not"),
    (2, "keygen --secret a --evaluation ./a", "./a is named twice"),
    (4, "keygen --secret none/a --evaluation b", "got none/a, in no such folder; make the folder"),
    (4, "keygen --params ckks_n12 --secret a --evaluation /dev/null", "got /dev/null, which is"),
    (4, "encrypt --values 1 -o - --allow-insecure", "name a file"),
    (
        4,
        "threshold split --secret ckks --threshold 1 -o secret.becalm --force",
        "which holds a key",
    ),
    (
        3,
        "function sigmoid --params ckks_toy_12 --level 1 --allow-insecure -o f",
        "or turn on auto,",
    ),
    (3, "function largest --size 8 --params ckks_n12 --slots 4 -o f", "of 8 slots or more, got 4"),
    (3, "function exp --params ckks_toy_12 --slots 5 --allow-insecure -o f", "function: wanted"),
];

/// Each message names the cause in the words of whoever typed the command, and a remedy that works.
#[test]
fn a_message_names_the_cause_and_a_remedy_that_works() {
    let folder = Folder::new("remedies");
    for line in [
        "keygen --params toy_2_2 --allow-insecure",
        "encrypt --values 1,2 -o x.becalm --allow-insecure",
        "keygen --params ckks_toy_table_4 --allow-insecure --secret ckks --evaluation ckks_server",
    ] {
        folder.succeed(line);
    }
    std::fs::write(folder.0.join("and.txt"), "1 3\n2 1 1\n1 1\n2 1 0 1 2 AND\n").unwrap();
    std::fs::write(folder.0.join("chain.txt"), chain()).unwrap();
    for (status, line, says) in REMEDIES {
        let said = folder.refuse_with(*status, line);
        assert!(said.contains(says), "{line}: {said}");
    }
}

/// Wrong commands, and their exit status: a wrong command line, what does not fit, or a file.
const WRONG: &[(u8, &str)] = &[
    (2, ""),
    (2, "run --nonsense"),
    (2, "run --values x"),
    (3, "run --values 99"),
    (3, "run --table 1,2 --values 3"),
    (2, "run --params ckks_regular --values 1"),
    (2, "run --app uint64 --params ckks_regular"),
    (2, "run --app uint64 --values 1"),
    (3, "run --app uint64 --params tfhe_1_1"),
    (3, "run --app aes --params tfhe_1_1"),
    (2, "run --scheme both --params tfhe_2_2"),
    (2, "run --params tfhe_2_2 --kind sparse"),
    (3, "run --params toy_2_2 --allow-insecure --threads 1000000"),
    (3, "run --params ckks_toy_12 --allow-insecure --threads 1000000"),
    (3, "run --params ckks_toy_12 --allow-insecure --threads 1000000 --device processor"),
    (3, "run --params ckks_toy_12 --allow-insecure --threads 2 --device processor"),
    (2, "bench --device processor"),
    (2, "bench --device reference"),
    (2, "bench --device abacus"),
    (2, "bench --device auto"),
    (2, "bench ckks --device tpu"),
    (2, "bench ckks --params ckks_toy_12"),
    (2, "bench ckks --tables nonsense"),
    (2, "bench --tables"),
    (2, "bench --micro"),
    (3, "bench --params nonsense"),
    (3, "bench --params toy_2_2"),
    (4, "bench --quick --json none/rows.json"),
    (2, "estimate"),
    (2, "estimate --n 3"),
    (2, "estimate --n 3 --log-q 10 --noise-std 1 --secret foo"),
    (2, "estimate --n 3 --log-q 10 --noise-std 1 --secret sparse:x"),
    (2, "estimate --n 3 --log-q 10 --noise-std 1 --secret gaussian:"),
    (3, "estimate --params nonsense"),
    (2, "params --security"),
    (2, "params --search --rotation foo"),
    (2, "params --search --rotation multi-bit:x"),
    (3, "noise --params nonsense"),
    (2, "keygen --secret key --evaluation key"),
    (2, "eval --evaluation e.becalm x --out x"),
    (2, "eval --evaluation e.becalm x --out y"),
    (4, "eval --evaluation none.becalm --table 0,1 x --out y"),
    (4, "encrypt --secret none.becalm --values 77003 --out x.becalm"),
    (3, "circuit run and.txt --inputs 1"),
    (3, "circuit run and.txt --inputs 1,2"),
    (3, "circuit run and.txt --inputs 1,x"),
    (3, "circuit run and.txt --inputs 1,1,1"),
    (3, "circuit cost broken.txt"),
    (3, "circuit cost and.txt --params nonsense"),
    (3, "circuit cost and.txt --top m"),
    (2, "circuit cost and.txt --goal 0"),
    (2, "circuit cost and.txt --width 4"),
    (2, "circuit cost and.txt --code x.bin"),
    (2, "circuit run and.txt --inputs 1,1 --device cpu --trace x"),
    (4, "circuit cost folder"),
    (4, "circuit cost none.txt"),
    (4, "circuit assemble folder --out x"),
    (4, "circuit disassemble and.txt"),
    (4, "circuit compile and.txt --out folder/none/x"),
    (4, "inspect and.txt"),
    (4, "decrypt --secret and.txt and.txt"),
    (4, "job status none"),
];

/// The folder that the wrong commands are run in.
fn folder() -> Folder {
    let folder = Folder::new("wrong");
    std::fs::create_dir_all(folder.0.join("folder")).unwrap();
    std::fs::write(folder.0.join("and.txt"), "1 3\n2 1 1\n1 1\n2 1 0 1 2 AND\n").unwrap();
    std::fs::write(folder.0.join("broken.txt"), "1 3\n2 1 1\n1 1\n2 1 0 7 2 AND\n").unwrap();
    folder
}

/// Status 1 is for wrong results alone. No message has the words of Rust, or of Python, or the values that were to be encrypted.
#[test]
fn a_wrong_command_has_the_status_of_its_kind_and_plain_words() {
    let folder = folder();
    for (status, line) in WRONG {
        let out = run_in(&folder.0, line);
        let says = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some((*status).into()), "{line}: {says}");
        assert!(!says.trim().is_empty(), "{line}");
        let words = [
            "Some(",
            "None",
            "Ok(",
            "Err(",
            "\\\"",
            " { ",
            "::",
            "panicked",
            "RUST_BACKTRACE",
            "keygen(",
            "device=",
            "Detail",
            "invalid digit",
            "77003",
        ];
        for word in words {
            assert!(!says.contains(word), "{line} says {word}: {says}");
        }
    }
}

/// The remedy of an application for a set that is too small names a set that it takes.
#[test]
fn a_set_that_is_too_small_for_an_application_has_a_remedy() {
    for app in ["uint64", "aes"] {
        let out = run(&format!("run --app {app} --params tfhe_1_1"));
        let says = String::from_utf8(out.stderr).unwrap();
        assert!(says.contains("use `tfhe_2_2` or a larger set"), "{says}");
    }
}

/// Threads are those of the machine that runs CKKS; other machines of this command run it, or say that they do not.
#[test]
fn the_threads_of_ckks_are_those_of_its_machine() {
    let ckks = "run --params ckks_toy_12 --allow-insecure --json --threads 1 --device";
    for device in ["cpu", "auto"] {
        let out = run(&format!("{ckks} {device}"));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let said: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let machine = said["device"].as_str().unwrap();
        assert!(machine.starts_with("cuda") || machine.contains("1 thread"), "{machine}");
    }
    let said = run(&format!("{ckks} processor"));
    assert_eq!(said.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&said.stderr).contains("wanted a machine that runs CKKS"));
}

/// Every option `--device` refuses a name with the words of the library, before anything is read.
#[test]
fn an_unknown_device_is_refused_with_all_names() {
    let lines =
        ["run", "eval x -o y", "circuit run c --inputs 1", "circuit compile c -o p", "demo"];
    let lines = lines.iter().chain(&["serve f --tokens t", "job work f", "job verify f"]);
    for line in lines {
        let said = |name: &str| {
            let out = run(&format!("{line} --device {name}"));
            assert_eq!(out.status.code(), Some(2), "{line}");
            String::from_utf8_lossy(&out.stderr).into_owned()
        };
        let (tpu, second) = (said("tpu"), said("cuda:1"));
        assert!(becalm::backend::names().all(|name| tpu.contains(name)), "{line}: {tpu}");
        assert!(tpu.contains("choose one of these"), "{line}: {tpu}");
        assert!(second.contains("CUDA_VISIBLE_DEVICES=1"), "{line}: {second}");
    }
}

/// The file that cannot be decrypted is named: one under another key, and one that is no key.
#[test]
fn a_file_that_cannot_be_decrypted_is_named() {
    let folder = Folder::new("decrypt");
    let keys = "keygen --params toy_1_1 --allow-insecure";
    for line in [
        keys,
        &format!("{keys} --secret other.becalm --evaluation e.becalm"),
        "encrypt --values 3,1 -o x.becalm --allow-insecure",
    ] {
        folder.succeed(line);
    }
    for secret in ["other.becalm", "x.becalm"] {
        let says = folder.refuse(&format!("decrypt x.becalm --secret {secret} --allow-insecure"));
        assert!(says.contains("x.becalm"), "{says}");
    }
}
