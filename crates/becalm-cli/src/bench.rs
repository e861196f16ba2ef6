//! `becalm bench`: this machine, becalm alone. The peers stand beside it in `becalm-bench`.
//!
//! Every timed output is decrypted and checked.

use crate::cases::{Case, cases};
use crate::output::{self, Force};
use crate::report::{self, median, table};
use crate::signals::unless_stopped;
use crate::status::usage;
use crate::{ckks, gpu, tables};
use anyhow::{Result, bail};
use becalm::backend::{Backend, Cpu, Cuda, Evaluator};
use becalm::cipher::{Ciphertext, Lwe, SecretKey};
use becalm::params::TfheParams;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// Which scheme.
    #[arg(default_value = "tfhe", value_parser = ["tfhe", "ckks"])]
    scheme: String,
    /// TFHE: parameter sets; tfhe_1_1 and tfhe_2_2 by default, on a GPU all that GPUs run.
    #[arg(long, value_delimiter = ',')]
    params: Vec<String>,
    /// The machine to measure.
    #[arg(long, default_value = "cpu", value_parser = ["cpu", "cuda"])]
    device: String,
    /// On a GPU: bootstraps that are decrypted before anything is timed.
    #[arg(long, default_value_t = 10_000, value_parser = report::some)]
    bootstraps: usize,
    /// On a GPU: the largest batch.
    #[arg(long, default_value_t = 8192, value_parser = report::some)]
    batch: usize,
    /// On a GPU: only the microbenchmarks: barriers, arithmetic, caches, launches.
    #[arg(long)]
    micro: bool,
    /// On a GPU: minutes after which no further set or batch begins; the report holds the measurements until then.
    #[arg(long, default_value_t = 8.0, value_parser = report::positive)]
    minutes: f64,
    /// Threads; 0 for all.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Fewer repetitions.
    #[arg(long)]
    quick: bool,
    /// CKKS: the tables of the DESILO document on CKKS bootstrapping, or those whose titles contain a text, row by row on 1
    /// and 2 threads beside its own figures.
    #[arg(long, value_name = "TITLE", num_args = 0..=1, default_missing_value = "")]
    tables: Option<String>,
    /// Allow toy and comparison sets below 128 bits.
    #[arg(long)]
    allow_insecure: bool,
    /// Write the rows as JSON into this file; `-`, or nothing, for standard output.
    #[arg(long, num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// One measured case.
#[derive(Serialize)]
struct Row {
    case: String,
    device: String,
    ms: f64,
    params: String,
    security_bits: f64,
    log2_pfail: f64,
}

/// Refuses options that do not apply.
fn check(args: &Args) -> Result<()> {
    if args.tables.is_some() && args.scheme != "ckks" {
        usage!("--tables belongs to `becalm bench ckks`");
    }
    if args.tables.is_some() && args.device != "cpu" {
        usage!("--tables measures the CPU alone: leave --device {} out", args.device);
    }
    if args.micro && (args.scheme == "ckks" || args.device != "cuda") {
        usage!("--micro measures GPUs: use `becalm bench --device cuda --micro`");
    }
    if args.scheme == "ckks" && args.device == "cpu" && !args.params.is_empty() {
        usage!(
            "`becalm bench ckks` has a set for each kind of bootstrap: leave --params {} out; --quick takes the toys, and \
             `becalm run --scheme ckks --params` measures one set",
            args.params.join(",")
        );
    }
    Ok(())
}

/// Measures and reports.
pub fn run(args: &Args) -> Result<()> {
    check(args)?;
    report::require_folder(args.json.as_deref())?;
    args.json.iter().try_for_each(|path| args.force.require_result(path))?;
    if let Some(wanted) = &args.tables {
        return tables::run(wanted, args.quick, args.json.as_deref());
    }
    if args.scheme == "ckks" && args.device == "cuda" {
        let until = gpu::clock() + Duration::from_secs_f64(args.minutes * 60.0);
        let over = || gpu::clock() >= until;
        let (sets, batch, quick, json) =
            (&args.params, args.batch, args.quick, args.json.as_deref());
        let (keys, over) = ("medium", &over);
        let wanted = gpu::ckks::Measurements { sets, batch, quick, keys, over, json };
        return gpu::ckks::measure(&Cuda::new()?, &wanted);
    }
    if args.scheme == "ckks" {
        return ckks::bench(args.quick, args.threads, args.json.as_deref());
    }
    if args.device == "cuda" {
        return on_gpu(args);
    }
    let cpu = Cpu::new(args.threads)?;
    let mut rows = Vec::new();
    for name in &sets(args, &["tfhe_1_1", "tfhe_2_2"]) {
        let params = TfheParams::named(name)?;
        params.require_secure(args.allow_insecure)?;
        measure(params, &cpu, args, &mut rows)?;
    }
    match &args.json {
        Some(path) if path.as_os_str() == "-" => return report::json(&rows),
        Some(path) => output::write(path, serde_json::to_string_pretty(&rows)?.as_bytes())?,
        None => {}
    }
    let cells = |r: &Row| {
        let pfail = format!("{:.1}", r.log2_pfail);
        vec![
            r.case.clone(),
            format!("{:.3}", r.ms),
            r.device.clone(),
            format!("{:.1}", r.security_bits),
            pfail,
        ]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    report::print(&table(&["case", "ms", "device", "security", "log2 p_fail"], &rows))
}

/// The sets that were named, or others.
fn sets(args: &Args, default: &[&str]) -> Vec<String> {
    match args.params[..] {
        [] => default.iter().map(ToString::to_string).collect(),
        _ => args.params.clone(),
    }
}

/// Bootstraps on a GPU, and the figures that their design rests on.
fn on_gpu(args: &Args) -> Result<()> {
    let until = gpu::clock() + Duration::from_secs_f64(args.minutes * 60.0);
    let machine = Cuda::new()?;
    let micro = || machine.micro(if args.quick { 1000 } else { 100_000 });
    if args.micro {
        return gpu::tell(&machine.info().description, &micro()?, args.json.as_deref());
    }
    let plan = gpu::Measurements {
        sets: sets(args, gpu::SETS),
        bootstraps: args.bootstraps,
        batch: args.batch,
        repetitions: if args.quick { 20 } else { 1000 },
        allow_insecure: args.allow_insecure,
        until,
        clock: gpu::clock,
    };
    let found = gpu::measure(&machine, &plan, &mut gpu::saving(args.json.as_deref()))?;
    // Seconds of any size; last, because they say the least about the product.
    gpu::conclude(&found.with_micro(micro()), args.json.as_deref())
}

fn measure(params: &TfheParams, cpu: &Cpu, args: &Args, rows: &mut Vec<Row>) -> Result<()> {
    let device = format!("cpu ({})", cpu.info().description);
    let mut push = |case: String, ms: f64| {
        rows.push(Row {
            case: format!("{case} {}", params.name),
            device: device.clone(),
            ms,
            params: params.name.to_string(),
            security_bits: params.security_bits,
            log2_pfail: params.log2_pfail,
        });
    };
    let secret = SecretKey::generate(params, args.allow_insecure)?;
    let started = Instant::now();
    let keys = cpu.install(|| secret.evaluation_key())?;
    push("keygen".into(), started.elapsed().as_secs_f64() * 1e3);
    let started = Instant::now();
    let evaluator = Evaluator::new(cpu, &keys)?;
    push("expand keys".into(), started.elapsed().as_secs_f64() * 1e3);
    let heavy = params.polynomial_size > 4096;
    let (reps, batch) = match (args.quick, heavy) {
        (true, true) => (1, 2),
        (true, false) => (5, 16),
        (false, true) => (3, 8),
        (false, false) => (25, 64),
    };
    for case in cases(&secret, &keys, &evaluator, batch)? {
        let one = case.input.slice(0..1)?;
        let latency = time(&secret, &evaluator, &case, one, reps)?;
        let together = time(&secret, &evaluator, &case, case.input.clone(), (reps / 5).max(1))?;
        push(format!("{} latency", case.name), latency * 1e3);
        push(format!("{} batch {batch}", case.name), together * 1e3 / batch as f64);
    }
    Ok(())
}

fn time(
    secret: &SecretKey,
    evaluator: &Evaluator,
    case: &Case,
    input: Lwe,
    reps: usize,
) -> Result<f64> {
    let input = [Ciphertext::from(input)];
    let mut seconds = Vec::with_capacity(reps);
    for _ in 0..reps {
        let started = Instant::now();
        let results = evaluator.run_with(&case.program, &input, &unless_stopped)?;
        seconds.push(started.elapsed().as_secs_f64());
        let values = secret.decrypt(&results[0])?;
        if values[..] != case.wanted[..values.len()] {
            bail!("{}: a result is wrong", case.name);
        }
    }
    Ok(median(seconds))
}
