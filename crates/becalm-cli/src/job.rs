//! `becalm job`: a large batch as a folder that workers on several machines share.

use crate::files::{TrustArgs, record};
use crate::output::Force;
use crate::output::read;
use crate::report::{self, duration, facts};
use crate::signals::unless_stopped;
use anyhow::{Result, bail};
use becalm::cipher::{EvaluationKey, Lwe, SlotKey};
use becalm::job::{Event, Parts, Status, Worker};
use becalm::words::counted;
use clap::Subcommand;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make the folder of a job.
    Make(MakeArgs),
    /// Compute chunks of a job until all are done. Any number of workers may do so at once. The command resumes a job as well: later
    /// workers go on where earlier ones stopped or died.
    Work(WorkArgs),
    /// Tell how far a job is.
    Status(StatusArgs),
    /// Write the results in order.
    Collect(CollectArgs),
    /// Compute a part of the finished chunks again; exit status 1 if a result differs.
    Verify(VerifyArgs),
}

#[derive(clap::Args)]
struct MakeArgs {
    /// The folder, which must not exist, or an address in an object store, such as s3://bucket/job.
    job: PathBuf,
    /// The evaluation key; for a program of CKKS the evaluation keys of a server.
    #[arg(long, default_value = "evaluation.becalm")]
    evaluation: PathBuf,
    /// A lookup table, one entry for each value.
    #[arg(long, value_delimiter = ',', value_parser = report::value, allow_hyphen_values = true, required_unless_present = "program")]
    table: Vec<u64>,
    /// A program of TFHE or CKKS instead of a table.
    #[arg(long, conflicts_with = "table")]
    program: Option<PathBuf>,
    /// Keys between the slots of a common-mask set, as for `becalm eval`.
    #[arg(long = "slot-key")]
    slot_keys: Vec<PathBuf>,
    /// Lanes of a chunk: by default about five seconds of a core for TFHE, and one lane for CKKS.
    #[arg(long, value_parser = report::some)]
    chunk: Option<usize>,
    /// The part of the chunks that a second worker computes too. With 1 every result needs two workers that agree.
    #[arg(long, default_value_t = 0.0, value_parser = report::fraction)]
    verify: f64,
    /// Ciphertexts, one file for each input. A file of TFHE holds all lanes. For CKKS give the files of the first lane, then those of
    /// the second, and so on.
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Machine {
    /// The machine that computes.
    #[arg(long, default_value = "auto", value_parser = report::Device)]
    device: String,
    /// Threads of the CPU; 0 for all cores.
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

#[derive(clap::Args)]
struct WorkArgs {
    /// The folder, or the address in an object store.
    job: PathBuf,
    #[command(flatten)]
    machine: Machine,
    /// Seconds after which the claim of a worker that gives no sign of life is taken over.
    #[arg(long, default_value_t = 60.0, value_parser = report::positive)]
    lease: f64,
    /// Seconds without a step after which the computation counts as hanging, and its chunk goes to another worker.
    #[arg(long, default_value_t = 600.0, value_parser = report::positive)]
    patience: f64,
    /// End after one chunk.
    #[arg(long)]
    once: bool,
    /// The name of this worker in the records: by default the machine's and the number of the process.
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    trust: TrustArgs,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct StatusArgs {
    /// The folder, or the address in an object store.
    job: PathBuf,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct CollectArgs {
    /// The folder, or the address in an object store.
    job: PathBuf,
    /// Where the results go, one file for each output; for several lanes of CKKS those of the first lane come first.
    #[arg(short, long, required = true)]
    out: Vec<PathBuf>,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    trust: TrustArgs,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct VerifyArgs {
    /// The folder, or the address in an object store.
    job: PathBuf,
    /// The part of the finished chunks, drawn at random; at least one is computed.
    #[arg(long, default_value_t = 0.01, value_parser = report::positive)]
    share: f64,
    /// Leave workers with wrong results out: they get no more chunks, and others compute theirs again.
    #[arg(long)]
    leave_out: bool,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    trust: TrustArgs,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    match &args.verb {
        Verb::Make(args) => make(args),
        Verb::Work(args) => work(args),
        Verb::Status(args) => status(args),
        Verb::Collect(args) => collect(args),
        Verb::Verify(args) => verify(args),
    }
}

/// The file of the program: as given, or recorded for a table.
fn program(args: &MakeArgs) -> Result<Vec<u8>> {
    let trust = args.trust.trust();
    if let Some(path) = &args.program {
        return Ok(trust.read_bytes(path)?);
    }
    let keys = read(&args.evaluation, |path| EvaluationKey::load(path, trust))?;
    let load = |path: &PathBuf| read(path, |path| Lwe::load(path, trust));
    let inputs = args.inputs.iter().map(load).collect::<Result<Vec<Lwe>>>()?;
    let kind = |path: &PathBuf| Ok(read(path, |path| SlotKey::load(path, trust))?.kind());
    let between = args.slot_keys.iter().map(kind).collect::<Result<Vec<_>>>()?;
    Ok(record(&keys, &inputs, &between, &args.table)?.to_bytes()?)
}

fn make(args: &MakeArgs) -> Result<()> {
    let parts = Parts {
        program: program(args)?,
        keys: args.evaluation.clone(),
        slot_keys: args.slot_keys.clone(),
        inputs: args.inputs.clone(),
        chunk: args.chunk,
        verify: args.verify,
        trust: args.trust.trust(),
    };
    let job = becalm_serve::make_at(&parts, &args.job)?;
    let time = job.time(args.trust.trust())?;
    let equal = if job.exact() { "everywhere" } else { "on one class of machine" };
    if args.json {
        return report::json(&json!({
            "job": args.job, "set": job.set(), "lanes": job.lanes(), "chunk": job.chunk(),
            "chunks": job.chunks(), "results": job.results(), "results_equal": equal, "time": time,
        }));
    }
    let mut rows = vec![
        ("job", args.job.display().to_string()),
        ("parameter set", job.set().to_string()),
        ("lanes", job.lanes().to_string()),
        ("chunks", format!("{} of {}", job.chunks(), counted(job.chunk(), "lane"))),
    ];
    rows.extend(time.map(|time| ("work", format!("about {} of a core", duration(time.seconds)))));
    rows.push(("results equal", equal.to_string()));
    report::print(&facts(&rows))
}

/// The name of the machine, where the system tells, and the number of the process.
fn usual_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |c: &char| c.is_ascii_alphanumeric() || "-._".contains(*c);
    let host: String = host.chars().filter(plain).take(40).collect();
    format!("{}-{}", if host.is_empty() { "worker" } else { &host }, std::process::id())
}

/// The message of a step of a worker, if it has one.
fn told(event: &Event) -> Option<String> {
    Some(match event {
        Event::Waiting => "waiting for chunks that others have claimed".to_string(),
        Event::TakenOver(chunk) => {
            format!("chunk {chunk}: taken over from a worker that gave no sign of life")
        }
        Event::Finished(chunk) => format!("chunk {chunk}: done"),
        Event::Checked(chunk) => format!("chunk {chunk}: checked"),
        Event::Failed { chunk, error } => format!("chunk {chunk}: FAILED: {error}"),
        Event::Dropped(chunk) => format!("chunk {chunk}: another worker was first"),
        Event::Differs { chunk, other } => {
            format!("chunk {chunk}: DIFFERS from the results of {other}")
        }
        // A claim goes without saying. A later version of the library may tell of more.
        _ => return None,
    })
}

fn work(args: &WorkArgs) -> Result<()> {
    let job = becalm_serve::open_at(&args.job)?;
    let machine = job.machine(&args.machine.device, args.machine.threads)?;
    let worker = Worker {
        lease: Duration::from_secs_f64(args.lease),
        patience: Duration::from_secs_f64(args.patience),
        once: args.once,
        trust: args.trust.trust(),
        ..Worker::new(args.name.clone().unwrap_or_else(usual_name))
    };
    let mut waiting = false;
    let tell = &mut |event: &Event| {
        // Told once, however often the worker looks.
        if waiting && matches!(event, Event::Waiting) {
            return;
        }
        let Some(line) = told(event) else { return };
        waiting = matches!(event, Event::Waiting);
        report::say(&format!("becalm: {}: {line}", worker.name));
    };
    let worked = job.work(machine.as_ref(), &worker, &unless_stopped, tell)?;
    let Status { chunks, done, .. } = job.status()?;
    if args.json {
        report::json(&json!({
            "worker": worker.name, "finished": worked.finished, "lanes": worked.lanes,
            "taken_over": worked.taken_over, "dropped": worked.dropped, "differing": worked.differing,
            "checked": worked.checked, "failed": worked.failed, "job_done": done == chunks,
        }))?;
    } else {
        let (own, lanes) = (counted(worked.finished, "chunk"), counted(worked.lanes, "lane"));
        let state = match done == chunks {
            true => "the job is done: `becalm job collect` writes its results".into(),
            false => format!("{done} of {} of the job are done", counted(chunks, "chunk")),
        };
        report::print(&format!("{}: {own} finished, {lanes}; {state}", worker.name))?;
    }
    if let Some((chunk, other)) = worked.differing.first() {
        bail!(
            "chunk {chunk}: the results of {other} differ; `becalm job status` tells who was left out"
        );
    }
    if let Some((chunk, error)) = worked.failed.first() {
        let more = worked.failed.len() - 1;
        let more =
            if more > 0 { format!(", and {} more", counted(more, "chunk")) } else { String::new() };
        bail!("chunk {chunk} failed{more}: {error}");
    }
    Ok(())
}

fn status(args: &StatusArgs) -> Result<()> {
    let status = becalm_serve::open_at(&args.job)?.status()?;
    if args.json {
        return report::json(&status);
    }
    let Status { chunks, done, claimed, left, damaged, .. } = &status;
    let mut rows = vec![
        ("done", format!("{done} of {}", counted(*chunks, "chunk"))),
        ("claimed", claimed.to_string()),
        ("left", left.to_string()),
    ];
    let names: Vec<String> = damaged.iter().map(ToString::to_string).collect();
    rows.extend((!names.is_empty()).then(|| ("damaged", format!("chunks {}", names.join(", ")))));
    let failed = |(n, f): (&usize, &becalm::job::Failure)| {
        ("failed", format!("chunk {n}, {} on {}: {}", counted(f.times, "time"), f.worker, f.error))
    };
    rows.extend(status.failed.iter().map(failed));
    rows.extend(
        (status.checks > 0)
            .then(|| ("checked", format!("{} of {}", status.checked, status.checks))),
    );
    let names: Vec<String> = status.disputed.iter().map(ToString::to_string).collect();
    rows.extend((!names.is_empty()).then(|| ("DISPUTED", format!("chunks {}", names.join(", ")))));
    rows.extend(
        status
            .left_out
            .iter()
            .map(|(name, n)| ("left out", format!("{name}, for wrong results of chunk {n}"))),
    );
    // Records have milliseconds.
    let each = |s: f64| if s < 1e-3 { "less than 1 ms".to_string() } else { duration(s) };
    rows.extend(status.seconds_per_chunk.map(|s| ("a chunk takes", each(s))));
    rows.extend(
        status
            .seconds_per_chunk
            .map(|s| ("all chunks", format!("{} of a worker", duration(s * *chunks as f64)))),
    );
    rows.extend(status.lanes_per_second.map(|r| ("rate", format!("{r:.1} lanes a second"))));
    rows.extend(status.seconds_left.map(|s| ("time left", duration(s))));
    rows.extend(status.workers.iter().map(|(name, n)| ("worker", format!("{name}: {n} done"))));
    rows.extend(status.claims.iter().map(|(n, name)| ("claim", format!("chunk {n} by {name}"))));
    report::print(&facts(&rows))
}

fn collect(args: &CollectArgs) -> Result<()> {
    let job = becalm_serve::open_at(&args.job)?;
    args.out.iter().try_for_each(|path| crate::files::require_place(path, args.force))?;
    job.collect(&args.out, args.force.allowed(), args.trust.trust())?;
    if args.json {
        return report::json(&json!({ "out": args.out, "lanes": job.lanes() }));
    }
    let names: Vec<String> = args.out.iter().map(|path| path.display().to_string()).collect();
    report::print(&format!("{}: {}", names.join(", "), counted(job.lanes(), "lane")))
}

fn verify(args: &VerifyArgs) -> Result<()> {
    let job = becalm_serve::open_at(&args.job)?;
    let machine = job.machine(&args.machine.device, args.machine.threads)?;
    let found = job.verify(
        machine.as_ref(),
        args.share,
        args.leave_out,
        args.trust.trust(),
        &unless_stopped,
    )?;
    if args.json {
        report::json(&found)?;
    } else {
        let mut rows = vec![("equal", counted(found.equal, "chunk"))];
        rows.extend((found.incomparable > 0).then(|| {
            (
                "not compared",
                format!("{}, of another class of machine", counted(found.incomparable, "chunk")),
            )
        }));
        rows.extend(
            found
                .differing
                .iter()
                .map(|d| ("DIFFERS", format!("chunk {}, from worker {}", d.chunk, d.worker))),
        );
        report::print(&facts(&rows))?;
    }
    match found.differing.first() {
        None => Ok(()),
        Some(first) => {
            bail!("worker {} returned wrong results of chunk {}", first.worker, first.chunk)
        }
    }
}
