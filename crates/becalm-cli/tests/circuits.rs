//! Circuits that are long or ambiguous, as a user compiles them.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("becalm-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

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

    fn run(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_becalm"));
        command.current_dir(&self.0).env("BECALM_ABC", self.fake("abc"));
        command.args(line.split_whitespace()).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
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
        let out = folder.run("circuit cost chain.txt");
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
