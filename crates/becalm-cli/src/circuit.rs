//! `becalm circuit compile | run | cost`: boolean circuits in Bristol Fashion, BLIF or Verilog on encrypted bits; and
//! `assemble | disassemble`, the processor's instructions as text and as a binary.

use crate::files::TrustArgs;
use crate::number::{Number, both, hexadecimal, highest};
use crate::output::{self, Force};
use crate::report::{self, facts, print};
use crate::signals::unless_stopped;
use crate::status::usage;
use anyhow::{Context, Result, bail};
use becalm::Error;
use becalm::backend::processor::{Machine, Report, Unit};
use becalm::backend::{Cpu, Evaluator, Processor, Runs, Tfhe, by_name};
use becalm::cipher::file::Limits;
use becalm::cipher::{Ciphertext, Encoding, SecretKey};
use becalm::params::TfheParams;
use becalm::program::Program;
use becalm::program::circuit::{Circuit, Compiled, Goal, Port};
use becalm::program::isa::{MAGIC, assemble, decode, disassemble, encode};
use becalm::words::counted;
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Compile a circuit to a program that `becalm eval --program` runs.
    Compile(CompileArgs),
    /// Make keys, encrypt, run a circuit, decrypt, and check against its evaluation on plaintext bits.
    Run(RunArgs),
    /// Print the cost of a circuit, or of a program in a file of becalm's.
    Cost(CostArgs),
    /// Make the processor's binary of its instructions as text.
    Assemble(AssembleArgs),
    /// Print the instructions of a binary of the processor.
    Disassemble {
        /// The binary.
        binary: PathBuf,
        /// Report as JSON: the lines of the text.
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct AssembleArgs {
    /// The text: an instruction a line.
    text: PathBuf,
    /// Where the binary goes.
    #[arg(short, long)]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

#[derive(clap::Args)]
struct CircuitArgs {
    /// The circuit, in Bristol Fashion or BLIF, or in Verilog (*.v, *.sv) where Yosys is installed.
    circuit: PathBuf,
    /// Which parameter set (see `becalm params`); tfhe_2_2, for the processor tfhe_2_2_p.
    #[arg(long)]
    params: Option<String>,
    /// The figure to minimise: `depth`, the bootstraps one after another (the default), or `bootstraps`, all of them. A number
    /// n minimises all of them while at most n come one after another.
    #[arg(long, value_parser = goal)]
    goal: Option<Goal>,
    /// The module of a Verilog file that is compiled, where several are contained in no other.
    #[arg(long, value_name = "NAME")]
    top: Option<String>,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Limits on the cost of reading a circuit.
#[derive(clap::Args)]
struct LimitArgs {
    /// Memory in bytes that reading the file may take (1 GiB by default). A file longer than a 64th of it is an error.
    #[arg(long)]
    limit: Option<u64>,
    /// Processor time in seconds that Yosys, which reads Verilog, may take (60 by default).
    #[arg(long)]
    seconds: Option<u64>,
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            memory: self.limit.unwrap_or(usual.memory),
            seconds: self.seconds.unwrap_or(usual.seconds),
        }
    }
}

impl CircuitArgs {
    /// Refuses options that apply to circuits alone.
    fn require_unused(&self) -> Result<()> {
        let given = [
            ("--params", self.params.is_some()),
            ("--goal", self.goal.is_some()),
            ("--top", self.top.is_some()),
        ];
        if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
            let file = self.circuit.display();
            usage!("{file} is compiled, for one set: leave {flag} out, or give the circuit");
        }
        Ok(())
    }
}

/// The simulated processor, where it is the device.
#[derive(clap::Args)]
struct ProcessorArgs {
    /// Coefficients that the processor takes a clock: 2, 4, 8 (the default), 16 or 32.
    #[arg(long)]
    width: Option<usize>,
    /// Where the processor's timeline goes, in Chrome's trace format; a microsecond of the viewer is a clock.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Where the processor's instructions go: text, or the binary if the name ends in `.bin`.
    #[arg(long)]
    code: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

impl ProcessorArgs {
    /// Refuses options that would have no effect, and files that exist.
    fn require(&self, processor: bool) -> Result<()> {
        let given = [
            ("--width", self.width.is_some()),
            ("--trace", self.trace.is_some()),
            ("--code", self.code.is_some()),
        ];
        for (flag, given) in given {
            if given && !processor {
                usage!("{flag} applies to the simulated processor; add --device processor");
            }
        }
        let mut files = self.trace.iter().chain(&self.code);
        files.try_for_each(|path| self.force.require_result(path))
    }
}

#[derive(clap::Args)]
struct CostArgs {
    #[command(flatten)]
    circuit: CircuitArgs,
    /// With `processor`, also clocks and occupancy of that machine.
    #[arg(long, value_parser = ["processor"])]
    device: Option<String>,
    #[command(flatten)]
    processor: ProcessorArgs,
    /// Accept a file's program for a set below 128 bits. A circuit does not need this option: the command encrypts nothing.
    #[arg(long)]
    allow_insecure: bool,
}

#[derive(clap::Args)]
struct CompileArgs {
    #[command(flatten)]
    circuit: CircuitArgs,
    /// The machine that it is for: with `processor` the set is tfhe_2_2_p unless --params says otherwise.
    #[arg(long, value_parser = report::Device)]
    device: Option<String>,
    /// Where the program goes.
    #[arg(short, long)]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

#[derive(clap::Args)]
struct RunArgs {
    #[command(flatten)]
    circuit: CircuitArgs,
    /// The values of the input ports, with commas between them: decimal (200), hexadecimal (0xc8) or binary (0b11001000); bit 0 is the port's first wire.
    #[arg(long, value_delimiter = ',', required = true, allow_hyphen_values = true)]
    inputs: Vec<String>,
    /// The machine that computes.
    #[arg(long, default_value = "auto", value_parser = report::Device)]
    device: String,
    #[command(flatten)]
    processor: ProcessorArgs,
    /// Allow toy and comparison sets below 128 bits.
    #[arg(long)]
    allow_insecure: bool,
}

/// Runs a verb of the family.
pub fn run(args: &Args) -> Result<()> {
    match &args.verb {
        Verb::Compile(a) => {
            a.force.require_result(&a.out)?;
            let (circuit, compiled) = compile(&a.circuit, a.device.as_deref())?;
            output::write(&a.out, &compiled.program.to_bytes()?)?;
            cost(&a.circuit, &circuit, &compiled, None)
        }
        Verb::Cost(a) => {
            a.processor.require(a.device.is_some())?;
            let clocks = |program: &Program| {
                a.device.as_ref().map(|_| simulate(&a.processor, program)).transpose()
            };
            if is_program(&a.circuit.circuit)? {
                a.circuit.require_unused()?;
                let program = Program::load(
                    &a.circuit.circuit,
                    TrustArgs::of(a.allow_insecure, a.circuit.limits.limit).trust(),
                )?;
                return tell_cost(&a.circuit, vec![], json!({}), &program, clocks(&program)?);
            }
            let (circuit, compiled) = compile(&a.circuit, a.device.as_deref())?;
            let clocks = clocks(&compiled.program)?;
            cost(&a.circuit, &circuit, &compiled, clocks)
        }
        Verb::Run(a) => evaluate(a),
        Verb::Assemble(a) => {
            let named = || a.text.display().to_string();
            a.force.require_result(&a.out)?;
            if begins(&a.text, 8)? == MAGIC.to_le_bytes() {
                let way = "`becalm circuit disassemble` prints it as text";
                return Err(other(&a.text, "the instructions as text", "a binary already", way));
            }
            let code = assemble(&Limits::default().read_text(&a.text)?).with_context(named)?;
            let binary = encode(&code).with_context(named)?;
            output::write(&a.out, &binary)
        }
        Verb::Disassemble { binary, json } => {
            let named = || binary.display().to_string();
            if begins(binary, 8)? != MAGIC.to_le_bytes() {
                let (wanted, way) = (
                    "a binary of the processor",
                    "name a file that begins with becalm01; `becalm circuit assemble` makes one from text",
                );
                return Err(other(binary, wanted, "another file", way));
            }
            let bytes = Limits::default().read_bytes(binary)?;
            let text = disassemble(&decode(&bytes).with_context(named)?);
            if *json {
                report::json(&text.lines().collect::<Vec<_>>())
            } else {
                print(text.trim_end())
            }
        }
    }
}

fn goal(text: &str) -> std::result::Result<Goal, String> {
    match text {
        "depth" => Ok(Goal::Depth),
        "bootstraps" => Ok(Goal::Bootstraps),
        number => {
            let wanted =
                "wanted depth, bootstraps, or how many may come one after another, 1 or more";
            let least = number.parse().ok().filter(|n| *n > 0);
            least.map(Goal::Within).ok_or_else(|| wanted.into())
        }
    }
}

/// The error of a file that is another than the command reads.
fn other(path: &Path, wanted: &str, what: &str, way: &str) -> anyhow::Error {
    Error::bad_file("circuit", wanted, format!("{}, which is {what}", path.display()), way).into()
}

/// The first bytes of a file.
fn begins(path: &Path, count: u64) -> Result<Vec<u8>> {
    if path.is_dir() {
        return Err(other(path, "a file", "a folder", "name a file in it"));
    }
    // Opening a pipe would wait for its writer.
    if path.exists() && !path.is_file() {
        let way = "copy the data to a file first";
        return Err(other(path, "a file", "a pipe or a device", way));
    }
    let mut head = vec![];
    let unreadable = |e| becalm::Error::unreadable("circuit", path, &e);
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(count).read_to_end(&mut head).map_err(unreadable)?;
    Ok(head)
}

/// A file of becalm's begins with the length of its header in eight bytes, and `{`. A binary of the processor begins
/// with its own magic word, and raises an error.
fn is_program(path: &Path) -> Result<bool> {
    let head = begins(path, 9)?;
    if head.starts_with(&MAGIC.to_le_bytes()) {
        let way = "`becalm circuit disassemble` prints it; give the circuit or program that it was made of";
        return Err(other(path, "a circuit or a program", "a binary of the processor", way));
    }
    // No header is so long that its length is a text.
    Ok(matches!(head[..], [.., 0, 0, b'{']))
}

fn read(args: &CircuitArgs) -> Result<Circuit> {
    let path = &args.circuit;
    if is_program(path)? {
        let way = "`becalm circuit cost` takes programs, the other commands a circuit";
        return Err(other(path, "a circuit", "a file of becalm's", way));
    }
    Ok(Circuit::load_with(path, args.top.as_deref(), args.limits.limits(), &unless_stopped)?)
}

fn compile(args: &CircuitArgs, device: Option<&str>) -> Result<(Circuit, Compiled)> {
    let circuit = read(args)?;
    let compiled = compiled(args, &circuit, device)?;
    Ok((circuit, compiled))
}

fn compiled(args: &CircuitArgs, circuit: &Circuit, device: Option<&str>) -> Result<Compiled> {
    let processor = (device == Some("processor")).then(Processor::default);
    let own = if processor.is_some() { "tfhe_2_2_p" } else { "tfhe_2_2" };
    let params = TfheParams::named(args.params.as_deref().unwrap_or(own))?;
    // A set that the machine does not run is refused before the circuit is compiled for it.
    processor.iter().try_for_each(|p| p.accepts(params))?;
    let (params, goal) = (Arc::new(params.clone()), args.goal.unwrap_or(Goal::Depth));
    let bar = report::bar("compile", 1);
    let compiled = circuit.compile_with(&params, goal, &report::follow(&bar));
    bar.finish_and_clear();
    let compiled = compiled?;
    processor.iter().try_for_each(|p| p.machine.require(&compiled.program))?;
    Ok(compiled)
}

/// The cost of a program on the processor. Writes its timeline and its instructions where the options say.
fn simulate(args: &ProcessorArgs, program: &Program) -> Result<Report> {
    let machine = Machine::with_lanes(args.width.unwrap_or(8))?;
    let clocks = machine.cost(program, 1)?;
    if let Some(path) = &args.code {
        let code = machine.code(program, 1)?;
        let binary = path.extension().is_some_and(|e| e == "bin");
        let bytes = if binary { encode(&code)? } else { disassemble(&code).into_bytes() };
        output::write(path, &bytes)?;
    }
    if let Some(path) = &args.trace {
        output::write(path, clocks.trace().as_bytes())?;
    }
    Ok(clocks)
}

/// The processor's lines of a report.
fn machine(clocks: &Report) -> Vec<(&'static str, String)> {
    let percent = |part: u64| format!("{:.1} %", 100.0 * part as f64 / clocks.clocks as f64);
    let share = |unit| percent(clocks.busy(unit));
    let waits = percent(clocks.waiting(Unit::Linear));
    let linear = format!("{} busy, waits for results {waits}", share(Unit::Linear));
    let (bootstraps, batches) = clocks.work(Unit::Bootstrap);
    let hidden = 100.0 * hidden(clocks);
    let traffic = clocks
        .bytes
        .iter()
        .filter(|b| b.1 > 0)
        .map(|(name, bytes)| format!("{name} {:.2}", *bytes as f64 / clocks.seconds() / 1e9));
    vec![
        ("clocks", clocks.clocks.to_string()),
        (
            "time",
            format!("{} at {} MHz (assumed)", report::duration(clocks.seconds()), clocks.megahertz),
        ),
        (
            "bootstrap unit",
            format!("{} busy, {bootstraps} in {batches} batches", share(Unit::Bootstrap)),
        ),
        ("key switch unit", format!("{} busy, {hidden:.1} % of it hidden", share(Unit::KeySwitch))),
        ("linear unit", linear),
        ("GB/s", traffic.collect::<Vec<_>>().join(", ")),
    ]
}

/// The part of the key switches' clocks in which bootstraps run too.
fn hidden(clocks: &Report) -> f64 {
    let all = clocks.busy(Unit::KeySwitch).max(1);
    clocks.both(Unit::KeySwitch, Unit::Bootstrap) as f64 / all as f64
}

fn machine_json(clocks: &Report) -> serde_json::Value {
    let busy = |unit| clocks.busy(unit) as f64 / clocks.clocks as f64;
    let bytes: serde_json::Map<_, _> =
        clocks.bytes.iter().map(|(name, bytes)| (name.to_string(), json!(bytes))).collect();
    json!({
        "clocks": clocks.clocks, "megahertz": clocks.megahertz, "seconds": clocks.seconds(),
        "batches": clocks.work(Unit::Bootstrap).1, "bootstrap_busy": busy(Unit::Bootstrap),
        "key_switch_busy": busy(Unit::KeySwitch), "key_switch_hidden": hidden(clocks),
        "linear_busy": busy(Unit::Linear),
        "linear_waiting": clocks.waiting(Unit::Linear) as f64 / clocks.clocks as f64,
        "bytes": bytes,
    })
}

fn cost(
    args: &CircuitArgs,
    circuit: &Circuit,
    compiled: &Compiled,
    clocks: Option<Report>,
) -> Result<()> {
    let (and, xor) = circuit.gates();
    let ports = |all: &[Port]| {
        all.iter().map(|p| format!("{}[{}]", p.name, p.width())).collect::<Vec<_>>().join(" ")
    };
    let mut lines = vec![
        ("inputs", ports(circuit.inputs())),
        ("outputs", ports(circuit.outputs())),
        ("gates", format!("{and} AND, {xor} XOR")),
    ];
    let rewriting = &compiled.rewriting;
    lines.extend(rewriting.remark.iter().map(|remark| ("remark", remark.clone())));
    let facts =
        json!({ "and": and, "xor": xor, "abc": rewriting.tool, "remark": rewriting.remark });
    tell_cost(args, lines, facts, &compiled.program, clocks)
}

/// Reports the facts of a circuit, then the cost of its program.
fn tell_cost(
    args: &CircuitArgs,
    mut lines: Vec<(&'static str, String)>,
    mut all: serde_json::Value,
    program: &Program,
    clocks: Option<Report>,
) -> Result<()> {
    let cost = program.cost();
    if args.json {
        let figures = [cost.bootstraps, cost.depth, cost.waves, cost.key_switches, cost.linear];
        let names = ["bootstraps", "depth", "waves", "key_switches", "linear"];
        for (name, figure) in names.iter().zip(figures) {
            all[*name] = json!(figure);
        }
        all["params"] = json!(program.params().name);
        all["bytes_per_lane"] = json!(cost.bytes_per_lane);
        if let Some(clocks) = &clocks {
            all["processor"] = machine_json(clocks);
        }
        return report::json(&all);
    }
    lines.push(("bootstraps", format!("{}, {} one after another", cost.bootstraps, cost.depth)));
    lines.push(("waves", cost.waves.to_string()));
    lines.extend(clocks.iter().flat_map(machine));
    print(&facts(&lines))
}

/// The bits of the input ports.
fn bits(ports: &[Port], values: &[String]) -> Result<Vec<u64>> {
    if ports.len() != values.len() {
        let wanted = format!("a value for each of {}", counted(ports.len(), "input"));
        let (got, way) = (counted(values.len(), "value"), "give --inputs one for each input port");
        return Err(Error::bad_input("circuit run", wanted, got, way).into());
    }
    let mut bits = vec![];
    for (port, value) in ports.iter().zip(values.iter().map(|value| value.trim())) {
        let (name, width) = (&port.name, port.width());
        let Some(number) = Number::parse(value) else {
            let got = if value.is_empty() { "nothing".into() } else { format!("`{value}`") };
            let wanted = format!("a number for {name}, which has {}", counted(width, "bit"));
            let way = "give --inputs a decimal number such as 200, a hexadecimal one such as 0xc8, or a binary one such as 0b11001000";
            return Err(Error::bad_input("circuit run", wanted, got, way).into());
        };
        match number.bits(width) {
            Some(these) => bits.extend(these),
            None => {
                let bits = counted(width, "bit");
                let wanted = format!("0 to {} for {name}, which has {bits}", highest(width));
                let got = format!("{value}, read as {}", number.base());
                let way = "give --inputs a number that fits";
                return Err(Error::bad_input("circuit run", wanted, got, way).into());
            }
        }
    }
    Ok(bits)
}

fn evaluate(args: &RunArgs) -> Result<()> {
    args.processor.require(args.device == "processor")?;
    // All checks come before the circuit is compiled and keys are made, which take long.
    let on = by_name(&args.device, &Cpu::new(0)?)?;
    let circuit = read(&args.circuit)?;
    let bits = bits(circuit.inputs(), &args.inputs)?;
    let compiled = compiled(&args.circuit, &circuit, Some(&args.device))?;
    let params = compiled.program.params();
    params.require_secure(args.allow_insecure)?;
    let wanted: Vec<u64> = circuit.evaluate(&bits)?.iter().map(|w| w & 1).collect();
    on.runs::<Tfhe>()?.accepts(params)?;
    let simulated = args.device == "processor";
    let clocks = simulated.then(|| simulate(&args.processor, &compiled.program)).transpose()?;
    let secret = SecretKey::generate(params, args.allow_insecure)?;
    let keys = report::keygen(&secret)?;
    let evaluator = Evaluator::new(on.as_ref(), &keys)?;
    let encoding = Encoding::of(params);
    let encrypt = |bit: &u64| Ok(Ciphertext::Lwe(secret.encrypt_as(&[*bit], encoding, 2)?));
    let inputs = bits.iter().map(encrypt).collect::<becalm::Result<Vec<Ciphertext>>>()?;
    let (program, cost) = (Arc::new(compiled.program.clone()), compiled.program.cost());
    let started = Instant::now();
    let results = evaluator.run(&program, &inputs)?;
    let seconds = started.elapsed().as_secs_f64();
    crate::report::tell_fallback(&evaluator);
    let got = results.iter().map(|x| secret.decrypt(x)).collect::<becalm::Result<Vec<_>>>()?;
    let got = got.concat();
    let mut rest = &got[..];
    let mut outputs = vec![];
    for port in circuit.outputs() {
        let (these, others) = rest.split_at(port.width());
        outputs.push((port.name.clone(), these));
        rest = others;
    }
    let wrong = got.iter().zip(&wanted).filter(|(a, b)| a != b).count();
    if args.circuit.json {
        let outputs: serde_json::Map<_, _> =
            outputs.into_iter().map(|(name, bits)| (name, json!(hexadecimal(bits)))).collect();
        let mut all = json!({
            "params": params.name, "outputs": outputs, "wrong_bits": wrong,
            "bootstraps": cost.bootstraps, "depth": cost.depth, "seconds": seconds,
        });
        if let Some(clocks) = &clocks {
            all["processor"] = machine_json(clocks);
        }
        report::json(&all)?;
    } else {
        let mut lines: Vec<(&str, String)> =
            outputs.iter().map(|(name, bits)| (&name[..], both(bits))).collect();
        lines.push(("bootstraps", format!("{} in {seconds:.2} s", cost.bootstraps)));
        if let Some(clocks) = &clocks {
            lines.extend(machine(clocks).iter().map(|(name, value)| (*name, value.clone())));
        }
        print(&facts(&lines))?;
    }
    if wrong > 0 {
        bail!("{} of {} differ from the unencrypted circuit", wrong, counted(got.len(), "bit"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_around_values_do_not_count() {
        let circuit = Circuit::parse("1 5\n2 2 2\n1 1\n2 1 0 1 4 AND\n").unwrap();
        let values = ["2", " 0b1\t"].map(String::from);
        assert_eq!(bits(circuit.inputs(), &values).unwrap(), [0, 1, 1, 0]);
        for wrong in [" ", "1 0", "- 1"] {
            let refused = bits(circuit.inputs(), &["2", wrong].map(String::from)).unwrap_err();
            let refused = refused.downcast::<Error>().unwrap();
            assert_eq!(refused.kind(), "bad_input", "{wrong}");
            assert!(refused.detail().wanted.starts_with("a number for "), "{wrong}: {refused}");
        }
    }
}
