//! Keys that several processes write at once, that exceed the shell's limit of file sizes, or whose writer is killed or stopped.
#![cfg(unix)]

use becalm::cipher::file::{Trust, inspect};
use becalm::cipher::{EvaluationKey, SecretKey};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const KEYGEN: [&str; 5] = ["keygen", "--params", "toy_boolean", "--allow-insecure", "--force"];

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("becalm-keys-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn keygen(folder: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_becalm"));
    command.current_dir(folder).args(KEYGEN).stdout(Stdio::null()).spawn().unwrap()
}

/// Ids of the secret and of the evaluation key.
fn ids(folder: &Path) -> [Option<String>; 2] {
    let id = |name| inspect(folder.join(name)).ok().and_then(|f| f.key).map(|k| k.to_string());
    ["secret.becalm", "evaluation.becalm"].map(id)
}

#[test]
fn keys_made_at_once_belong_together() {
    let folder = folder("at-once");
    for _ in 0..6 {
        let makers: Vec<Child> = (0..8).map(|_| keygen(&folder)).collect();
        for mut maker in makers {
            assert!(maker.wait().unwrap().success());
        }
        let [secret, evaluation] = ids(&folder);
        assert!(secret.is_some());
        assert_eq!(secret, evaluation);
    }
    let secret = SecretKey::load(folder.join("secret.becalm"), Trust::insecure()).unwrap();
    let keys = EvaluationKey::load(folder.join("evaluation.becalm"), Trust::insecure()).unwrap();
    assert_eq!(secret.id(), keys.key_id());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn keys_whose_makers_are_killed_belong_together() {
    let folder = folder("killed");
    assert!(keygen(&folder).wait().unwrap().success());
    for round in 0..10 {
        let mut makers: Vec<Child> = (0..8).map(|_| keygen(&folder)).collect();
        std::thread::sleep(Duration::from_millis(5 * round));
        makers.iter_mut().for_each(|m| m.kill().unwrap());
        for maker in &mut makers {
            maker.wait().unwrap();
        }
        let [secret, evaluation] = ids(&folder);
        assert!(
            secret.is_some() && (evaluation.is_none() || evaluation == secret),
            "round {round}"
        );
    }
    assert!(keygen(&folder).wait().unwrap().success());
    let [secret, evaluation] = ids(&folder);
    assert_eq!(secret, evaluation);
    let left = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name());
    let left: Vec<_> = left.filter(|n| n.to_string_lossy().ends_with(".tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

fn limited(folder: &Path, line: &str) -> Output {
    let command = format!("ulimit -f 8; exec \"$0\" {line}");
    let mut shell = Command::new("sh");
    shell.current_dir(folder).args(["-c", &command, env!("CARGO_BIN_EXE_becalm")]);
    shell.output().unwrap()
}

/// At the limit of eight blocks the command fails with an error that names the limit. No signal ends it, and no part of a file stays.
#[test]
fn a_limit_of_file_sizes_is_an_error() {
    let folder = folder("limit");
    let out = limited(&folder, &KEYGEN.join(" "));
    let says = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(4), "{says}");
    assert!(says.contains("input/output") && says.contains("ulimit -f"), "{says}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    // The command itself writes redirected output, without the library.
    let out = limited(&folder, "params --json > sets.json");
    assert!(out.status.code().is_some(), "ended by a signal: {:?}", out.status);
    // Nothing of a line fits: not when it is printed, and not when the process ends.
    std::fs::write(folder.join("full.txt"), [0; 8 * 1024]).unwrap();
    for line in ["params --json", "params tfhe_2_2", "--help", "--version"] {
        let out = limited(&folder, &format!("{line} >> full.txt"));
        let says = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(4), "{line}: {:?} {says}", out.status);
        assert!(says.contains("standard output") && says.contains("ulimit -f"), "{says}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Sends a signal.
#[cfg(target_os = "linux")]
fn signal(name: &str, to: &Child) {
    let sent = Command::new("kill").args(["-s", name, &to.id().to_string()]).status().unwrap();
    assert!(sent.success(), "SIG{name}");
}

/// Waits until the command has opened a file, or has ended.
#[cfg(target_os = "linux")]
fn opened(child: &mut Child, path: &Path) {
    let folder = format!("/proc/{}/fd", child.id());
    let has = || {
        let links = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        links.filter_map(|link| std::fs::read_link(link.path()).ok()).any(|to| to == path)
    };
    while !has() {
        assert!(child.try_wait().unwrap().is_none(), "the command ended and never waited");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A command that has written both keys, and waits for the right to their names, which the test holds, gets one signal or two. After
/// one it finishes its files. After the second it ends at once. Neither leaves a temporary file, or a part of a key.
#[test]
#[cfg(target_os = "linux")]
fn a_command_that_is_stopped_while_it_writes_leaves_no_temporary_file() {
    let folder = std::fs::canonicalize(folder("stopped")).unwrap();
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(&folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let tag = &blake3::hash(b"evaluation.becalm").to_hex()[..16];
    let lock = folder.join(format!(".becalm-{tag}.lock"));
    for signals in [&["TERM", "INT"][..], &["INT", "TERM"], &["TERM"], &["INT"]] {
        let held = std::fs::File::create(&lock).unwrap();
        held.lock().unwrap();
        let mut maker = keygen(&folder);
        opened(&mut maker, &lock);
        signals.iter().for_each(|name| signal(name, &maker));
        if signals.len() == 1 {
            held.unlock().unwrap();
            maker.wait().unwrap();
            assert_eq!(names(), ["evaluation.becalm", "secret.becalm"], "{signals:?}");
        } else {
            // The kernel may deliver two pending signals in either order.
            let code = maker.wait().unwrap().code();
            assert!(matches!(code, Some(130 | 143)), "{signals:?}: {code:?}");
            assert!(!names().iter().any(|name| name.ends_with(".tmp")), "{:?}", names());
            std::fs::remove_file(&lock).unwrap();
        }
        // Absent, or those of one call.
        let [secret, evaluation] = ids(&folder);
        assert_eq!(secret, evaluation, "{signals:?}");
        assert_eq!(secret.is_some(), folder.join("secret.becalm").exists(), "{signals:?}");
        let keys = EvaluationKey::load(folder.join("evaluation.becalm"), Trust::insecure());
        assert_eq!(keys.is_ok(), evaluation.is_some(), "{signals:?}: a part of a key");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A circuit whose compilation takes many seconds ends with the first signal.
#[test]
#[cfg(target_os = "linux")]
fn a_signal_ends_a_compilation() {
    let folder = folder("compilation");
    // About as many as the limit allows.
    let gates = 200_000;
    let mut text = format!("{gates} {}\n1 2\n1 1\n\n", gates + 2);
    for i in 0..gates {
        text += &format!("2 1 {i} {} {} AND\n", i + 1, i + 2);
    }
    std::fs::write(folder.join("chain.txt"), text).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_becalm"))
        .current_dir(&folder)
        .args(["circuit", "cost", "chain.txt"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // By then it has read the file.
    let mut spent = || {
        assert!(child.try_wait().unwrap().is_none(), "it compiles");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        stat.split_whitespace().nth(13).unwrap().parse::<u64>().unwrap()
    };
    while spent() < 30 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    std::fs::remove_dir_all(folder).unwrap();
}
