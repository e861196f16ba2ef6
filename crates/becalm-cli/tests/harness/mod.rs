//! A folder in which tests run the `becalm` command as a user does.
#![allow(dead_code)] // Each test file uses its part.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The table of [`Folder::with_table`].
pub const TABLE: &str = "1,2,5,10,1,10,5,2,1,2,5,10,1,10,5,2";

/// A separate folder for each test, removed afterwards.
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty folder. No two tests of a file have the same name.
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("becalm-cli-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Keys, so many ciphertexts in `x.becalm`, and in `whole.becalm` what `becalm eval` makes of them with [`TABLE`].
    pub fn with_table(name: &str, lanes: usize) -> Folder {
        let f = Folder::new(name);
        f.succeed("keygen --params toy_2_2 --allow-insecure");
        let values: Vec<String> = (0..lanes).map(|i| (i % 16).to_string()).collect();
        f.succeed(&format!("encrypt --values {} -o x.becalm --allow-insecure", values.join(",")));
        f.succeed(&format!(
            "eval x.becalm --table {TABLE} -o whole.becalm --allow-insecure --device cpu"
        ));
        f
    }

    /// The command with these arguments, which have no spaces.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_becalm"));
        command.current_dir(&self.0).args(line.split_whitespace());
        command
    }

    pub fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// The standard output of a command that succeeds.
    pub fn succeed(&self, line: &str) -> String {
        let out = self.run(line);
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    pub fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.succeed(line)).unwrap()
    }

    /// The message of an error with this exit status.
    pub fn refuse_with(&self, status: i32, line: &str) -> String {
        let out = self.run(line);
        let says = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(status), "{line}: {says}");
        says
    }

    /// The message of an error of any kind.
    pub fn refuse(&self, line: &str) -> String {
        let out = self.run(line);
        assert!(matches!(out.status.code(), Some(2..=6)), "{line}: {:?}", out.status);
        String::from_utf8(out.stderr).unwrap()
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
