//! Programs of CKKS in files: `becalm eval` runs them, and `becalm inspect` shows their cost.

use crate::ckks::prepared;
use crate::output::{Force, read};
use crate::report::{self, counted, megabytes};
use crate::signals::unless_stopped;
use anyhow::{Result, bail};
use becalm::Error;
use becalm::backend::{Backend, CkksSetup, Cpu, Evaluator, for_ckks};
use becalm::bootstrap::ckks::{KeyPlan, Wish};
use becalm::cipher::file::{Part, Trust};
use becalm::cipher::{Integers, KeyForm, Rlwe};
use becalm::ckks::Context;
use becalm::params::CkksParams;
use becalm::program::Reg;
use becalm::program::rlwe::{CkksProgram, RlweInfo};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A program of CKKS, and the files that it is to run on.
pub struct Job<'a> {
    pub program: CkksProgram,
    pub keys: &'a Path,
    pub backend: &'a str,
    /// The files of the first lane, one for each argument, then those of the next.
    pub inputs: &'a [PathBuf],
    /// The files of the first lane, one for each result, then those of the next.
    pub out: &'a [PathBuf],
    pub force: Force,
    pub trust: Trust,
    pub json: bool,
}

/// The kind of a file of CKKS; none for one that is not of CKKS, or not there.
pub fn kind(path: &Path) -> Option<&'static str> {
    let found = path.is_file().then(|| becalm::ckks::inspect(path));
    found?.ok()?.map(|found| found.kind)
}

/// Runs the program on every lane and writes the results, all of them or none.
pub fn eval(job: &Job) -> Result<()> {
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
    let machine = for_ckks(job.backend, &Cpu::new(0)?, program.params())?;
    tell(job, &run(job, machine.as_ref(), &Arc::new(program.clone()), takes)?)
}

/// The program of tables for the keys of a file: one table after another, of as many entries as the integers of the inputs want.
pub fn tables(keys: &Path, inputs: &[PathBuf], entries: &[u64]) -> Result<CkksProgram> {
    let found = |path: &Path| read(path, becalm::ckks::inspect);
    let integers = inputs.first().map(|path| found(path)).transpose()?.flatten();
    let Some(Integers { bits, .. }) = integers.and_then(|found| found.integers) else {
        let got = inputs.first().map_or(String::new(), |path| path.display().to_string());
        let remedy = "encrypt with --packed, or give a program instead of a table";
        return Err(Error::bad_input("eval", "packed integers", got, remedy).into());
    };
    // A claim of the file, which is checked when it is loaded.
    let count = 1usize << bits.min(16);
    let all: Vec<Vec<u64>> = entries.chunks(count).map(<[u64]>::to_vec).collect();
    let Some(found) = found(keys)? else { bail!("{} holds no keys of CKKS", keys.display()) };
    let plan = KeyPlan::new(CkksParams::named(&found.params)?, &Wish::noted(&found.note)?)?;
    Ok(plan.tables(bits, &all)?)
}

/// The results of every lane, as files and as lines to print.
fn run(
    job: &Job,
    machine: &dyn Backend,
    program: &Arc<CkksProgram>,
    takes: usize,
) -> Result<Vec<Value>> {
    let context = Arc::new(Context::new(program.params(), job.trust.allow_insecure)?);
    let load = |path| context.load_keys_with(path, KeyForm::Ready, &unless_stopped);
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
        evaluator.check(program, &given.iter().collect::<Vec<_>>())?;
        // A file that says nothing is taken at the word of the caller.
        let made =
            program.real(&said.iter().map(|real| *real != Some(false)).collect::<Vec<_>>())?;
        let known = said.iter().all(Option::is_some);
        real.push(made.into_iter().map(|real| known.then_some(real)).collect::<Vec<_>>());
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

/// The inputs, needs and cost of a program, as rows for people.
pub fn rows(program: &CkksProgram) -> Vec<(&'static str, String)> {
    let (cost, needs) = (program.cost(), program.needs());
    let info = |regs: &[Reg]| {
        let each = regs.iter().filter_map(|r| program.info(*r));
        let text = |x: &RlweInfo| {
            format!("level {}, scale 2^{:.2}, {} values", x.level, x.scale.log2(), x.slots)
        };
        each.map(text).collect::<Vec<String>>()
    };
    let mut rows: Vec<(&str, String)> = vec![];
    rows.extend(info(program.inputs()).into_iter().map(|text| ("input", text)));
    rows.extend(info(program.outputs()).into_iter().map(|text| ("output", text)));
    rows.push(("instructions", program.ops().len().to_string()));
    let turns: Vec<String> = needs.rotations.keys().take(16).map(i64::to_string).collect();
    let more = if needs.rotations.len() > turns.len() { ", …" } else { "" };
    let by =
        if turns.is_empty() { String::new() } else { format!(" by {}{more}", turns.join(", ")) };
    rows.push(("needs", format!("{}{by}", counted(needs.rotations.len(), "rotation"))));
    let levels = [
        ("the key of products", (needs.multiply > 0).then_some(needs.multiply)),
        ("the key of conjugation", needs.conjugate),
        ("the keys of a bootstrap", needs.bootstrap),
    ];
    for (what, level) in levels {
        rows.extend(level.map(|level| ("needs", format!("{what}, up to level {level}"))));
    }
    rows.push(("cost", counted(program.bootstraps(), "bootstrap")));
    rows.push(("cost", format!("{} key switches", cost.key_switches)));
    rows.push(("cost", format!("{} products of ciphertexts", cost.products)));
    rows.push(("cost", format!("about {} transforms", cost.transforms)));
    rows.push(("memory", format!("{} of ciphertexts for each lane", megabytes(cost.bytes))));
    rows
}

/// The same as JSON.
pub fn value(program: &CkksProgram) -> Value {
    let (cost, needs) = (program.cost(), program.needs());
    let info = |regs: &[Reg]| -> Vec<Value> {
        let each = regs.iter().filter_map(|r| program.info(*r));
        each.map(|x| json!({ "level": x.level, "scale": x.scale, "slots": x.slots })).collect()
    };
    json!({
        "inputs": info(program.inputs()), "outputs": info(program.outputs()),
        "needs": {
            "rotations": needs.rotations.keys().collect::<Vec<_>>(), "multiply": needs.multiply,
            "conjugate": needs.conjugate, "bootstrap": needs.bootstrap,
        },
        "cost": {
            "instructions": program.ops().len(), "bootstraps": program.bootstraps(),
            "key_switches": cost.key_switches, "products": cost.products,
            "transforms": cost.transforms, "diagonals": cost.diagonals, "bytes_per_lane": cost.bytes,
        },
    })
}
