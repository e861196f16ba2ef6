//! Rewriting by ABC, where it is installed: several of its scripts restructure a circuit, and map it to tables of three and of
//! four inputs, whose structure is a good start too. All of it comes back as BLIF, and nothing is believed: what computes
//! something else is found out by evaluation, and the circuit that is taken is compared by ABC's own `cec`, a separate run.
//!
//! The first of these that starts is used: the command in `BECALM_ABC` (none, if that is empty), `yosys-abc`, `berkeley-abc`,
//! `abc`, and the one that the Python package `pyosys` brings. Source: Brayton, Mishchenko 2010 ("ABC: an academic
//! industrial-strength verification tool").

use super::blif::{Build, Tables};
use super::verilog::{Folder, ended, limited, pythons};
use super::{Circuit, Node, Port, Wire, blif};
use crate::cipher::file::Limits;
use crate::math::parallel::*;
use crate::{Progress, Result, UNWATCHED};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Seconds of processor time that one compilation may spend in ABC: a share for each script and for each proof.
const BUDGET: u64 = 250;
/// Processor seconds of a script.
const SCRIPT: u64 = 10;
/// Processor seconds of a script for a small circuit, which shares a process or belongs to a further round.
const SHORT: u64 = 1;
/// Those that it gets alone where it fails in company.
const ALONE: u64 = 5;
/// Scripts that share a process.
const TOGETHER: usize = 5;
/// Netlists of Verilog beside the one that a file has.
const OTHERS: usize = 2;
/// Further rounds of all and of near candidates for a goal, those more with the other netlists of Verilog, and circuits that go through each.
pub(super) const ROUNDS: usize = 3;
pub(super) const MORE: usize = 2;
pub(super) const SEEDS: usize = 2;
/// Goals of one compilation that have their rounds: the shortest path, and its own.
const GOALS: usize = 2;
/// Processor seconds of a proof.
const PROOF: u64 = 15;
/// Proofs of one compilation. A cover whose circuit has none is left out.
const PROOFS: usize = 2;
/// Proofs more, for covers of circuits that are far from the one that came: they leave the others what these have.
const FAR_PROOFS: usize = 1;
const _: () = {
    let scripts = (SCRIPTS.len() + AGAIN) as u64;
    let proofs = (PROOFS + FAR_PROOFS) as u64 * PROOF;
    // Both other netlists go through what a round has.
    let rounds = ((OTHERS + GOALS * (2 * ROUNDS + MORE) * SEEDS) * FURTHER) as u64 * SHORT;
    assert!(scripts * SCRIPT + proofs <= BUDGET);
    assert!(scripts * (SHORT + ALONE) + rounds + proofs <= BUDGET);
};
/// How long the clock may run for one compilation. Processor time decides before this, unless ABC waits for something.
const PATIENCE: Duration = Duration::from_secs(600);
/// Gates of a circuit that ABC gets at all: it would restructure more of them, but seldom prove the result in time.
pub(super) const PROVABLE: usize = 1 << 16;
/// Gates of a circuit for which only the quick scripts are run.
const LARGE: usize = 12_000;
/// Gates times levels for which careful scripts are run: `dch` and `mfs2` take time in that product, seconds for this one.
const CAREFUL: usize = 1 << 22;
/// The same for further rounds and for scripts that share a process, of which each takes a second at most.
const SMALL: usize = 1 << 18;
/// The same for mappings, of which `if` takes seconds here. A circuit above that is a long chain, which they do not shorten.
const MAPPED: usize = 1 << 26;
/// Levels of a circuit that ABC gets at all: it recurs as deep as that, and its stack overflows on longer chains.
const DEEPEST: usize = 1 << 15;

const NAMES: &str =
    "alias b balance; alias rw rewrite; alias rf refactor; alias rs resub; alias st strash";
const RESYN: &str = "b; rw; rf; b; rw; rw -z; b; rf -z; rw -z; b";

/// The circuits that a script is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    /// Its time grows with the gates.
    Linear,
    /// Its time grows with gates times levels.
    Mapping,
    /// Its time grows faster than that.
    Careful,
    /// It begins with the function of all inputs, so these must be few.
    Flat,
}

/// The scripts after `strash`, and whether they start from the other form of the circuit too: mappings do.
const SCRIPTS: [(&str, Growth, bool); 12] = [
    ("if -K 3", Growth::Mapping, true),
    ("if -K 4", Growth::Mapping, true),
    ("b; rw; b", Growth::Linear, false),
    (RESYN, Growth::Careful, false),
    ("dch; if -K 3; mfs2", Growth::Careful, true),
    ("dch; if -K 4; mfs2; st; dch; if -K 4", Growth::Careful, true),
    ("AREA; st; AREA; st; AREA", Growth::Careful, true),
    ("if -g -K 6 -C 8; st; b", Growth::Careful, false),
    ("RESYN; dch; if -g -K 6 -C 8; st; dch; if -g -K 6 -C 8; st; b", Growth::Careful, false),
    (
        "b -l; rs -K 6 -l; rw -l; rs -K 6 -N 2 -l; rf -l; rs -K 8 -l; b -l; rs -K 8 -N 2 -l; rw -l; rs -K 10 -l; \
         rw -z -l; rs -K 10 -N 2 -l; b -l; rs -K 12 -l; rf -z -l; rs -K 12 -N 2 -l; rw -z -l; b -l",
        Growth::Careful,
        false,
    ),
    ("FLAT; sop -C 4000; fx; st; dch; if -K 3; mfs2", Growth::Flat, false),
    ("FLAT; dsd; muxes; st; dch; if -K 3; mfs2", Growth::Flat, false),
];

/// The commands that names in scripts stand for.
const PARTS: [(&str, &str); 3] =
    [("RESYN", RESYN), ("AREA", "dch; if -a -K 4; mfs2"), ("FLAT", "collapse -B NODES")];

/// Names of commands that lead far from the structure of a circuit.
const FAR: [&str; 2] = ["AREA", "FLAT"];

/// How many of them start from the other form too.
const AGAIN: usize = counted(false);
/// How many of these are careful: they make further rounds.
const FURTHER: usize = counted(true);

const fn counted(careful: bool) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < SCRIPTS.len() {
        count += (SCRIPTS[at].2 && (!careful || matches!(SCRIPTS[at].1, Growth::Careful))) as usize;
        at += 1;
    }
    count
}
/// Input bits of circuits whose functions are flattened. ABC takes long to find out that the diagrams of more are too large.
const FLAT: usize = 32;
/// Nodes of a decision diagram for each gate of the circuit. ABC gives a flat form up that has more.
const FLATTENED: usize = 5;
/// Input bits whose functions are flattened whatever their gates are: a diagram has at most as many nodes as values.
const ALWAYS: usize = 12;
/// Bytes of that form. More take ABC longer than it has.
const ROWS: usize = 1 << 20;

/// The scripts that a circuit of so many gates, levels and input bits is worth, and whether each starts from another form too.
/// Counts decide, not a clock: a result must not depend on how busy the machine is.
fn affordable(gates: usize, levels: usize, inputs: usize) -> Vec<(&'static str, bool)> {
    let work = gates.saturating_mul(levels);
    let pays = |growth| match growth {
        Growth::Linear => levels <= DEEPEST && gates <= PROVABLE,
        Growth::Mapping => gates <= PROVABLE && work <= MAPPED,
        Growth::Careful => gates <= LARGE && work <= CAREFUL,
        Growth::Flat => inputs <= FLAT && gates <= LARGE && work <= CAREFUL,
    };
    let chosen = SCRIPTS.iter().filter(|(_, growth, _)| pays(*growth));
    chosen.map(|(script, _, again)| (*script, *again)).collect()
}

/// How to find the ABC of `pyosys`.
const PYTHON: &str = "import importlib.util, pathlib\n\
    print(pathlib.Path(importlib.util.find_spec('pyosys').origin).parent / 'yosys-abc')";

const INSTALL: &str =
    "without ABC, which restructures logic: `pip install pyosys`, or name it in BECALM_ABC";

/// The rewriting of a circuit before the cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewriting {
    /// The command of ABC, if it was found.
    pub tool: Option<String>,
    /// Circuits of its that were left out because they do not compute the same, or because it did not prove it.
    pub wrong: usize,
    /// A remark for the user: how to install it, or that it failed.
    pub remark: Option<String>,
}

/// The command of ABC; found once, but for what the environment names.
fn command() -> Option<String> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    match std::env::var("BECALM_ABC") {
        Ok(own) => (!own.is_empty()).then_some(own),
        Err(_) => FOUND.get_or_init(search).clone(),
    }
}

fn search() -> Option<String> {
    let folder = Folder::new().ok()?;
    let starts = |c: &str| Budget::new().run(c, "version", SCRIPT, &folder, UNWATCHED).is_some();
    let named = ["yosys-abc", "berkeley-abc", "abc"].into_iter().map(String::from);
    let packaged = pythons().into_iter().filter_map(|python| {
        let said = Command::new(python).args(["-c", PYTHON]).output().ok()?;
        said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim().to_string())
    });
    named.chain(packaged).find(|c| starts(c))
}

/// The rest of the time that one compilation may spend in ABC.
pub(super) struct Budget {
    until: Instant,
    proofs: usize,
    far_proofs: usize,
}

impl Budget {
    pub fn new() -> Self {
        let until = Instant::now() + PATIENCE;
        Budget { until, proofs: PROOFS, far_proofs: FAR_PROOFS }
    }

    /// The output of ABC for some commands; none if it does not start, fails, takes too long, or is to stop.
    fn run(
        &self,
        command: &str,
        script: &str,
        seconds: u64,
        folder: &Folder,
        progress: Progress,
    ) -> Option<String> {
        // Under the limits of Yosys, and without what a file `abc.rc` says, which ABC looks for in the folder above too.
        let mut abc = limited(command, Limits { seconds, ..Limits::default() });
        let abc = abc.args(["-s", "-q", script]).current_dir(folder.path("")).stdin(Stdio::null());
        let log = folder.path("log");
        let quiet = || Stdio::null();
        let out = std::fs::File::create(&log).map_or_else(|_| quiet(), Stdio::from);
        let status = ended(abc.stdout(out).stderr(quiet()), self.until, progress).ok()??;
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        status.success().then_some(said)
    }

    /// Whether ABC proves that two circuits, one perhaps far from the other, are one function. Further questions than the budget has
    /// are not proved.
    pub fn proved(&mut self, a: &Circuit, b: &Circuit, far: bool, progress: Progress) -> bool {
        let left = if far { &mut self.far_proofs } else { &mut self.proofs };
        let Some(tool) = command().filter(|_| *left > 0) else { return false };
        *left -= 1;
        let compared = || -> Result<bool> {
            let folder = Folder::new()?;
            folder.write("a.blif", a.blif().as_bytes())?;
            folder.write("b.blif", b.blif().as_bytes())?;
            let said = self
                .run(&tool, "cec -n a.blif b.blif", PROOF, &folder, progress)
                .unwrap_or_default();
            Ok(said.contains("Networks are equivalent"))
        };
        compared().unwrap_or(false)
    }
}

/// The report on a circuit that ABC does not get.
pub(super) fn unused() -> Rewriting {
    Rewriting { tool: command(), wrong: 0, remark: None }
}

/// A circuit of ABC's, its tables, and whether it is far from the circuit that it was made of.
pub(super) type Rewritten = (Circuit, Tables, bool);

/// The circuit as ABC rewrites it, also from the rows of its file, and a remark for the user.
pub(super) fn rewritten(
    circuit: &Circuit,
    rows: Option<&str>,
    budget: &Budget,
    progress: Progress,
) -> (Vec<Rewritten>, Rewriting) {
    let mut rewriting = unused();
    let ((and, xor), levels) = (circuit.gates(), circuit.levels());
    let scripts = affordable(and + xor, levels, circuit.inputs.iter().map(Port::width).sum());
    let found = match &rewriting.tool {
        Some(tool) if and + xor > 0 => {
            let gates = circuit.blif();
            let rows = rows.filter(|text| text.len() <= ROWS && *text != gates);
            let own = scripts.iter().map(|(script, _)| (&*gates, *script, false));
            let jobs = own.chain(rows.into_iter().flat_map(|text| mappings(&scripts, text)));
            let alone = if circuit.is_small() { ALONE } else { SCRIPT - SHORT };
            scripted(circuit, tool, (jobs.collect(), alone), budget, progress).unwrap_or_default()
        }
        _ => vec![],
    };
    rewriting.remark = match &rewriting.tool {
        None => Some(INSTALL.into()),
        Some(_) if and + xor > PROVABLE => Some(format!(
            "without ABC, because the circuit has {} gates: a proof of what it gives takes too long",
            and + xor
        )),
        Some(_) if scripts.is_empty() => {
            Some(format!("without ABC, because {levels} gates stand one after another"))
        }
        Some(tool) if found.is_empty() && and + xor > 0 => {
            Some(format!("`{tool}` gave no circuit"))
        }
        _ => None,
    };
    (found, rewriting)
}

/// The scripts that start from another text too.
fn mappings<'a>(
    scripts: &'a [(&'static str, bool)],
    text: &'a str,
) -> impl Iterator<Item = Job<'a>> {
    scripts.iter().filter(|(_, again)| *again).map(move |(script, _)| (text, *script, false))
}

/// The circuits that the careful mappings of ABC make of each of some of one function: none of one that is not small.
pub(super) fn again(
    circuits: &[&Circuit],
    budget: &Budget,
    progress: Progress,
) -> Vec<Vec<Rewritten>> {
    let Some(tool) = command() else { return vec![vec![]; circuits.len()] };
    let made = circuits.par_iter().map(|circuit| {
        if !circuit.is_small() {
            return vec![];
        }
        let text = circuit.blif();
        let some = SCRIPTS.iter().filter(|(_, growth, again)| *again && *growth == Growth::Careful);
        let jobs = some.map(|(script, ..)| (&*text, *script, true)).collect();
        scripted(circuit, &tool, (jobs, 0), budget, progress).unwrap_or_default()
    });
    made.collect()
}

/// A text, what ABC does with it, and whether the result is far from the circuit that it is for.
type Job<'a> = (&'a str, &'a str, bool);

/// Jobs that one process does, of so many seconds each.
struct Batch<'a> {
    jobs: &'a [Job<'a>],
    seconds: u64,
}

/// The circuits that ABC gives for jobs. Those of a small circuit share processes, which take longer to start than to do one: where that fails, as
/// because one takes too long, each runs alone. `alone` are the seconds for that.
fn scripted(
    circuit: &Circuit,
    tool: &str,
    (jobs, alone): (Vec<Job>, u64),
    budget: &Budget,
    progress: Progress,
) -> Result<Vec<Rewritten>> {
    let together = |a: &Job, b: &Job| {
        let flat = |job: &Job| job.1.contains("FLAT");
        circuit.is_small() && std::ptr::eq(a.0, b.0) && !flat(a) && !flat(b)
    };
    let batches: Vec<&[Job]> =
        jobs.chunk_by(together).flat_map(|jobs| jobs.chunks(TOGETHER)).collect();
    let made = batches.into_par_iter().map(|jobs| {
        let run = |jobs, seconds| circuit.batch(tool, Batch { jobs, seconds }, budget, progress);
        let shared = jobs.len() as u64 * SHORT;
        match jobs {
            [_] => run(jobs, alone + SHORT),
            _ => match run(jobs, shared)? {
                found if found.is_empty() && alone > 0 => {
                    let each = jobs.chunks(1).map(|job| run(job, alone));
                    Ok(each.collect::<Result<Vec<_>>>()?.concat())
                }
                found => Ok(found),
            },
        }
    });
    Ok(made.collect::<Result<Vec<Vec<Rewritten>>>>()?.concat())
}

impl Circuit {
    /// The circuits that ABC gives for a batch; none if it fails.
    fn batch(
        &self,
        tool: &str,
        batch: Batch,
        budget: &Budget,
        progress: Progress,
    ) -> Result<Vec<Rewritten>> {
        let folder = Folder::new()?;
        let inputs: usize = self.inputs.iter().map(Port::width).sum();
        let least = if inputs <= ALWAYS { 2 << inputs } else { 0 };
        let nodes = least.max(FLATTENED * (self.gates().0 + self.gates().1)).to_string();
        let named = |s: String, (name, part): &(&str, &str)| s.replace(name, part);
        let mut all = NAMES.to_string();
        for (i, (text, script, _)) in batch.jobs.iter().enumerate() {
            folder.write("in.blif", text.as_bytes())?;
            let script = PARTS.iter().fold(script.to_string(), named).replace("NODES", &nodes);
            all += &format!("; read_blif in.blif; strash; {script}; write_blif {i}.blif");
        }
        if budget.run(tool, &all, batch.seconds, &folder, progress).is_none() {
            return Ok(vec![]);
        }
        let read = |(i, (_, script, far)): (usize, &Job)| {
            let far = *far || FAR.iter().any(|part| script.contains(part));
            let text = std::fs::read_to_string(folder.path(&format!("{i}.blif")));
            let found = text.map_or_else(|_| vec![], |text| self.read_back(&text));
            found.into_iter().map(move |(circuit, tables)| (circuit, tables, far))
        };
        Ok(batch.jobs.iter().enumerate().flat_map(read).collect())
    }

    /// Whether scripts take little time for it.
    pub(super) fn is_small(&self) -> bool {
        let (and, xor) = self.gates();
        (1..=SMALL).contains(&(and + xor).saturating_mul(self.levels()))
    }

    /// Gates on the longest path.
    fn levels(&self) -> usize {
        let mut level = vec![0; self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            if let Node::And(a, b) | Node::Xor(a, b) = node {
                level[i] = 1 + level[a.node()].max(level[b.node()]);
            }
        }
        level.into_iter().max().unwrap_or(0)
    }

    /// The circuit as BLIF, inputs `i0`, `i1`, … and outputs `o0`, `o1`, …
    pub(super) fn blif(&self) -> String {
        let count = |ports: &[Port]| ports.iter().map(Port::width).sum::<usize>();
        let names = |letter: char, count| (0..count).map(|i| format!(" {letter}{i}")).collect();
        let (ins, outs): (String, String) =
            (names('i', count(&self.inputs)), names('o', count(&self.outputs)));
        let mut name: Vec<String> = (0..self.nodes.len()).map(|i| format!("n{i}")).collect();
        let wires = self.inputs.iter().flat_map(|p| &p.wires).enumerate();
        wires.for_each(|(i, w)| name[w.node()] = format!("i{i}"));
        let mut text = format!(".model m\n.inputs{ins}\n.outputs{outs}\n.names n0\n");
        let bit = |w: Wire| if w.negated() { '0' } else { '1' };
        for (i, node) in self.nodes.iter().enumerate() {
            let (Node::And(a, b) | Node::Xor(a, b)) = node else { continue };
            let table = match node {
                Node::And(..) => format!("{}{} 1\n", bit(*a), bit(*b)),
                _ => "01 1\n10 1\n".into(),
            };
            let (a, b) = (&name[a.node()], &name[b.node()]);
            text += &format!(".names {a} {b} {}\n{table}", name[i]);
        }
        for (i, wire) in self.outputs.iter().flat_map(|p| &p.wires).enumerate() {
            text += &format!(".names {} o{i}\n{} 1\n", name[wire.node()], bit(*wire));
        }
        text + ".end\n"
    }

    /// A circuit of ABC's with the ports of this one: its tables in the smallest form, and in the rows of ABC, which have other
    /// covers, if these are other gates.
    fn read_back(&self, text: &str) -> Vec<(Circuit, Tables)> {
        let builds = [Build::Smallest, Build::Written].into_iter();
        let mut found: Vec<_> = builds.filter_map(|build| self.like(text, build)).collect();
        found.dedup_by(|a, b| a.0.nodes == b.0.nodes);
        found
    }

    fn like(&self, text: &str, build: Build) -> Option<(Circuit, Tables)> {
        let (mut other, tables) = blif::parse_mapped(text, build).ok()?;
        let named = |from: &[Port], to: &[Port], letter: char| {
            let mut left = from.iter().enumerate();
            let mut wire = |_: &Wire| {
                let (i, port) = left.next()?;
                (port.name == format!("{letter}{i}")).then(|| port.wires.first().copied())?
            };
            let mut port = |p: &Port| {
                let wires = p.wires.iter().map(&mut wire).collect::<Option<_>>()?;
                Some(Port { name: p.name.clone(), wires })
            };
            let ports = to.iter().map(&mut port).collect::<Option<Vec<_>>>()?;
            left.next().is_none().then_some(ports)
        };
        other.inputs = named(&other.inputs, &self.inputs, 'i')?;
        other.outputs = named(&other.outputs, &self.outputs, 'o')?;
        Some((other, tables))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of gates, each of which reads the one before.
    fn chain(gates: usize) -> Circuit {
        let mut circuit = Circuit::empty();
        let mut last = circuit.input();
        for _ in 0..gates {
            let next = circuit.input();
            last = circuit.and(last, next);
        }
        circuit
    }

    #[test]
    fn scripts_of_quadratic_time_are_left_out_for_long_chains() {
        // The work of mappings and careful scripts: gates times levels.
        let work = |gates: usize| {
            let circuit = chain(gates);
            let levels = circuit.levels();
            assert_eq!(levels, gates);
            let scripts = affordable(gates, levels, gates + 1);
            scripts.iter().filter(|s| s.0 != "b; rw; b").count() * gates * levels
        };
        let most = (1..=40_000).step_by(500).map(work).max().unwrap_or(0);
        assert!(most <= 2 * MAPPED.max(4 * CAREFUL), "{most}");
        assert!(affordable(300_000, 300_000, 300_001).is_empty());
        // The result of a script must be proved, which takes long for so many gates.
        assert!(affordable(180_000, 20, 64).is_empty());
        // Nothing changes for the circuits that ABC is good at: AES, and a product of 64 bits.
        assert_eq!(affordable(2_000, 300, FLAT).len(), SCRIPTS.len());
        let flat = SCRIPTS.iter().filter(|s| s.1 == Growth::Flat).count();
        assert_eq!(affordable(2_000, 300, FLAT + 1).len(), SCRIPTS.len() - flat);
        assert_eq!(affordable(36_000, 350, 256).len(), 3);
    }

    /// The scripts take time in gates times levels: a table of many literals must not become one chain.
    #[test]
    fn a_wide_table_has_few_levels() {
        let names: String = (0..2000).map(|i| format!(" x{i}")).collect();
        for (product, value) in [("1", "1"), ("0", "0")] {
            let rows = format!("{} {value}\n", product.repeat(2000));
            let text = format!(".inputs{names}\n.outputs y\n.names{names} y\n{rows}");
            let circuit = Circuit::parse(&text).unwrap();
            assert_eq!(circuit.gates(), (1999, 0));
            assert!(circuit.levels() < 100, "{}", circuit.levels());
        }
        let narrow = names.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
        let text = format!(".inputs {narrow}\n.outputs y\n.names {narrow} y\n111111 1\n");
        assert_eq!(Circuit::parse(&text).unwrap().levels(), 5);
    }
}
