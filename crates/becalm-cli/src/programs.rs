//! Programs of CKKS in files, as `becalm eval` runs them.

use crate::ckks::prepared;
use crate::files::EvalArgs;
use crate::output::{Force, read};
use crate::report;
use crate::signals::unless_stopped;
use crate::status::usage;
use anyhow::{Context as _, Result};
use becalm::Error;
use becalm::backend::{Backend, Ckks, CkksSetup, Cpu, Evaluator, for_params};
use becalm::bootstrap::ckks::KeyPlan;
use becalm::cipher::file::{Part, Trust, inspect};
use becalm::cipher::{Integers, Rlwe};
use becalm::ckks::Context;
use becalm::params::CkksParams;
use becalm::program::rlwe::CkksProgram;
use becalm::words::{counted, megabytes};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A program of CKKS, and the files that it is to run on.
pub struct Job<'a> {
    pub program: CkksProgram,
    pub keys: &'a Path,
    pub device: &'a str,
    /// The files of the first lane, one for each argument, then those of the next.
    pub inputs: &'a [PathBuf],
    /// The files of the first lane, one for each result, then those of the next.
    pub out: &'a [PathBuf],
    pub force: Force,
    pub trust: Trust,
    pub json: bool,
}

/// Runs a program of a file, or tables, with keys of CKKS.
pub fn eval(args: &EvalArgs) -> Result<()> {
    if !args.slot_keys.is_empty() {
        let of = args.program.as_ref().unwrap_or(&args.evaluation);
        usage!("{} is of CKKS; leave --slot-key out", of.display());
    }
    let trust = args.trust.trust();
    let program = match &args.program {
        Some(path) => read(path, |path| CkksProgram::load(path, trust))?,
        None => tables(&args.evaluation, &args.inputs, &args.table)?,
    };
    on_lanes(&Job {
        program,
        keys: &args.evaluation,
        device: &args.device,
        inputs: &args.inputs,
        out: &args.out,
        force: args.force,
        trust,
        json: args.json,
    })
}

/// Runs the program on every lane and writes the results, all of them or none.
pub fn on_lanes(job: &Job) -> Result<()> {
    let program = &job.program;
    let (takes, gives) = (program.inputs().len(), program.outputs().len());
    if takes == 0 || gives == 0 {
        let got = format!("{} and {}", counted(takes, "input"), counted(gives, "output"));
        let (wanted, remedy) = ("a program with inputs and outputs", "record it with one of each");
        return Err(Error::bad_input("eval", wanted, got, remedy).into());
    }
    if !job.inputs.len().is_multiple_of(takes) {
        let wanted = format!("a file for each of {} of every lane", counted(takes, "input"));
        let got = counted(job.inputs.len(), "file");
        return Err(Error::bad_input("eval", wanted, got, "give one for each input").into());
    }
    let lanes = job.inputs.len() / takes;
    if job.out.len() != lanes * gives {
        let (outputs, of) = (counted(gives, "output"), counted(lanes, "lane"));
        let wanted = format!("a file for each of {outputs} on each of {of}");
        let got = format!("{} named with --out", counted(job.out.len(), "file"));
        return Err(Error::bad_input("eval", wanted, got, "name one for each output").into());
    }
    let machine = for_params::<Ckks>(job.device, &Cpu::new(0)?, program.params())?;
    tell(job, &run(job, machine.as_ref(), &Arc::new(program.clone()), takes)?)
}

/// The program of tables for the keys of a file: one table after another, of as many entries as the integers of the inputs want.
fn tables(keys: &Path, inputs: &[PathBuf], entries: &[u64]) -> Result<CkksProgram> {
    let found = inputs.first().map(|path| read(path, inspect)).transpose()?;
    let Some(Integers { bits, .. }) = found.and_then(|found| found.integers) else {
        let got = inputs.first().map_or(String::new(), |path| path.display().to_string());
        let remedy = "encrypt with --packed, or give a program instead of a table";
        return Err(Error::bad_input("eval", "packed integers", got, remedy).into());
    };
    // A claim of the file, which is checked when it is loaded.
    let count = 1usize << bits.min(16);
    let all: Vec<Vec<u64>> = entries.chunks(count).map(<[u64]>::to_vec).collect();
    Ok(read(keys, KeyPlan::noted)?.tables(bits, &all)?)
}

/// The results of every lane, as files and as lines to print.
fn run(
    job: &Job,
    machine: &dyn Backend,
    program: &Arc<CkksProgram>,
    takes: usize,
) -> Result<Vec<Value>> {
    let context = Arc::new(Context::new(program.params(), job.trust.allow_insecure)?);
    let load =
        |path: &Path| context.load_keys_with(path, KeyPlan::form_noted(path), &unless_stopped);
    let keys = read(job.keys, load)?;
    let evaluator = Evaluator::new(machine, CkksSetup::new(&context, &Arc::new(keys)))?;
    evaluator.require(program)?;
    let lanes: Vec<&[PathBuf]> = job.inputs.chunks(takes).collect();
    let take = |lane: usize| -> becalm::Result<Vec<Rlwe>> {
        lanes[lane].iter().map(|path| context.load_ciphertext(path, job.trust)).collect()
    };
    // Files that do not fit are refused before anything takes long.
    let mut real = vec![];
    for paths in &lanes {
        let load =
            |path: &PathBuf| read(path, |path| context.load_noted_ciphertext(path, job.trust));
        let (given, said): (Vec<Rlwe>, Vec<Option<bool>>) =
            paths.iter().map(load).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let names = || paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        evaluator.check(program, &given.iter().collect::<Vec<_>>()).with_context(names)?;
        real.push(program.said_real(&said)?);
    }
    let ready = prepared(machine, &context, program)?;
    let bar = report::bar("steps", 1);
    // Results go to the disk as they come, without names, and get them when all are there.
    let (mut files, mut rows) = (job.force.files(), vec![]);
    let give = |lane: usize, results: Vec<Rlwe>| {
        let out = job.out.iter().skip(lane * results.len());
        for ((path, x), real) in out.zip(&results).zip(&real[lane]) {
            let bytes = context.noted_ciphertext_to_bytes(x, *real)?;
            rows.push(described(x, path, bytes.len()));
            files.write(Part::new(path, false, move |file| {
                let failed = |e: std::io::Error| {
                    Error::io("save", "room for the file", e.to_string(), "free some")
                };
                file.write_all(&bytes).map_err(failed)
            }))?;
        }
        Ok(())
    };
    evaluator.run_each(&ready, lanes.len(), take, give, &report::follow(&bar))?;
    bar.finish_and_clear();
    report::tell_fallback(&evaluator);
    files.place()?;
    Ok(rows)
}

/// The facts of a result and its file.
fn described(x: &Rlwe, out: &Path, bytes: usize) -> Value {
    let (level, slots, scale, error) = (x.level(), x.slots(), x.scale(), x.error());
    let mut facts = json!({ "level": level, "slots": slots, "scale": scale, "error": error, "out": out, "bytes": bytes });
    if let Some(Integers { bits, count }) = x.integers() {
        facts["bits"] = json!(bits);
        facts["integers"] = json!(count);
    }
    facts
}

fn tell(job: &Job, results: &[Value]) -> Result<()> {
    if job.json {
        return report::json(&results);
    }
    for (path, x) in job.out.iter().zip(results) {
        let number = |name: &str| x[name].as_f64().unwrap_or(f64::NAN);
        let what = match x["integers"].as_u64() {
            Some(count) => format!("{count} integers of {} bits", x["bits"]),
            None => format!("{} values at level {}", x["slots"], x["level"]),
        };
        report::print(&format!(
            "{}: {what}, error 2^{:.1}, {}",
            path.display(),
            number("error").log2(),
            megabytes(number("bytes") as usize)
        ))?;
    }
    Ok(())
}

/// The context of the set that a file of CKKS names, which should be `wanted`.
pub fn context_of(path: &Path, wanted: &str, trust: Trust) -> Result<Context> {
    let found = read(path, inspect)?;
    if !found.kind.of_ckks() {
        return read(path, |_| {
            let got = format!("{}, of the set {}", found.kind.words(), found.params);
            Err(Error::bad_file("load", wanted, got, format!("give {wanted}")))
        });
    }
    Ok(Context::new(CkksParams::named(&found.params)?, trust.allow_insecure)?)
}
