//! `becalm bench ckks --device cuda`: bootstraps and single instructions of CKKS on a GPU. Every result is decrypted and compared with
//! the precision that its formulas promise; a wrong one has no time.
//!
//! Times are of launches on ciphertexts that are on the device; the whole call, with its copies, stands beside.

use crate::ckks::{Job, TOLERANCE, bits, bootstrap_of, disc, message, plan, prepared};
use crate::output;
use crate::report::{self, median, table};
use anyhow::{Result, bail};
use becalm::backend::{Backend, Ckks, CkksSetup, Cpu, Evaluator, Loaded, Session};
use becalm::bootstrap::ckks::KeyPlan;
use becalm::cipher::{CkksKeys, CkksSecretKey, KeyForm, Rlwe};
use becalm::ckks::{Context, Needs};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::Reg;
use becalm::program::rlwe::CkksProgram;
use becalm::words::megabytes;
use becalm::{Progress, UNWATCHED};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Sets with their bootstraps: kind, values and slots (of sparse ones).
type Of = (&'static str, &'static [(&'static str, &'static str)]);

/// The sets of `becalm bench ckks`, at full size and as toys.
const SETS: [&[Of]; 2] = [
    &[
        ("ckks_regular", REGULAR),
        ("ckks_slots_first", FIRST),
        ("ckks_14_levels", LONG),
        ("ckks_17_levels", LONG),
        ("ckks_precise", LONG),
    ],
    &[("ckks_toy_12", REGULAR), ("ckks_toy_slots_first", FIRST)],
];
const REGULAR: &[(&str, &str)] =
    &[("regular", "complex"), ("regular", "real"), ("regular", "merged"), ("sparse", "complex")];
const FIRST: &[(&str, &str)] =
    &[("slots_first", "complex"), ("slots_first", "real"), ("sign", "complex"), ("sign", "real")];
const LONG: &[(&str, &str)] = &[("regular", "complex")];

/// Ciphertexts of a batch, as lanes that go together.
const BATCH: usize = 4;

/// A bootstrap or an instruction.
#[derive(Serialize)]
struct Row {
    case: String,
    params: &'static str,
    security_bits: f64,
    keys: String,
    /// Runs of which the times are medians.
    runs: usize,
    /// Ciphertexts that were computed by one call, as lanes of the program.
    batch: usize,
    /// Of each, on ciphertexts that are on the device.
    device_ms: f64,
    /// With both copies.
    call_ms: f64,
    /// Ciphertexts, on the device.
    per_second: f64,
    level_before: usize,
    level_after: usize,
    bits_mean: f64,
    bits_worst: f64,
    bits_formula: f64,
    key_bytes: usize,
    matrix_bytes: usize,
    /// Seconds to make the keys, and to bring them and the matrices onto the device.
    keygen_seconds: f64,
    load_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

/// A report, written after each row.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    device: String,
    tune: String,
    rows: Vec<Row>,
}

/// The measurements to make.
pub struct Measurements<'a> {
    /// Sets; all of them if none are named.
    pub sets: &'a [String],
    /// The largest batch.
    pub batch: usize,
    /// Toys, and few repetitions.
    pub quick: bool,
    /// Size of the keys.
    pub keys: &'a str,
    /// Whether no further set begins.
    pub over: &'a dyn Fn() -> bool,
    /// Where the report goes; standard output if that is `-`.
    pub json: Option<&'a Path>,
}

/// Measures and reports.
///
/// # Errors
/// For a result that is not as precise as the formulas say; errors of the machine.
pub fn measure(machine: &dyn Backend, wanted: &Measurements) -> Result<()> {
    let tune = std::env::var("BECALM_CUDA_TUNE").unwrap_or_default();
    let device = machine.info().description;
    let mut report = Report { version: env!("CARGO_PKG_VERSION"), device, tune, rows: vec![] };
    let named = |set: &&Of| wanted.sets.is_empty() || wanted.sets.iter().any(|own| own == set.0);
    let sets = SETS[usize::from(wanted.quick)];
    for (name, kinds) in sets.iter().filter(named) {
        if (wanted.over)() {
            break;
        }
        of_set(machine, wanted, CkksParams::named(name)?, kinds, &mut report)?;
    }
    match wanted.json {
        Some(path) if path.as_os_str() == "-" => report::json(&report)?,
        _ => print(&report.rows)?,
    }
    match report.rows.iter().find_map(|row| row.failed.as_ref()) {
        Some(why) => bail!("{why}"),
        None => Ok(()),
    }
}

/// A set with the keys of all its bootstraps.
struct World<'a> {
    machine: &'a dyn Backend,
    context: Arc<Context>,
    secret: CkksSecretKey,
    keys: Arc<CkksKeys>,
    keygen: f64,
    runs: usize,
    size: String,
}

fn of_set(
    machine: &dyn Backend,
    wanted: &Measurements,
    params: &'static CkksParams,
    kinds: &[(&str, &str)],
    report: &mut Report,
) -> Result<()> {
    let planned =
        |(kind, of): &(&str, &str)| Ok(plan(params, &Job::of(kind, wanted.keys, None, None, of))?);
    let plans: Vec<KeyPlan> = kinds.iter().map(planned).collect::<Result<_>>()?;
    let context = Arc::new(Context::new(params, true)?);
    let instructions = instructions(&context)?;
    let mut needs = Needs::default();
    for plan in &plans {
        needs = needs.union(&bootstrap_of(plan)?.needs());
    }
    for (_, program, _) in &instructions {
        needs = needs.union(&program.needs());
    }
    let secret = context.secret_key()?;
    let began = Instant::now();
    let keys = Arc::new(context.keys_with(&secret, &needs, KeyForm::Ready, None, UNWATCHED)?);
    let keygen = began.elapsed().as_secs_f64();
    let (runs, size) = (if wanted.quick { 3 } else { 20 }, wanted.keys.to_string());
    let world = World { machine, context, secret, keys, keygen, runs, size };
    for (plan, (kind, of)) in plans.iter().zip(kinds) {
        let program = Arc::new(bootstrap_of(plan)?.clone());
        for batch in [1, BATCH].into_iter().filter(|batch| *batch <= wanted.batch) {
            let m = message(plan);
            let row = world.row(format!("{kind} {of}"), &program, (&m, batch), None)?;
            add(report, row, wanted)?;
        }
        if (wanted.over)() {
            return Ok(());
        }
    }
    for (case, program, last) in instructions {
        let m = disc(params.slots());
        add(report, world.row(case, &Arc::new(program), (&m, 1), Some(last))?, wanted)?;
    }
    Ok(())
}

fn add(report: &mut Report, row: Row, wanted: &Measurements) -> Result<()> {
    report.rows.push(row);
    if let Some(path) = wanted.json.filter(|path| path.as_os_str() != "-") {
        output::write(path, serde_json::to_string_pretty(&report)?.as_bytes())?;
    }
    Ok(())
}

/// Single instructions, timed alone behind those that make their arguments: at the highest level of a bootstrap and of the user.
fn instructions(context: &Context) -> Result<Vec<(String, CkksProgram, Reg)>> {
    let (params, mut all) = (context.params(), vec![]);
    for (where_, level) in [("top", params.top_level()), ("user", params.levels)] {
        for what in ["rotate", "multiply", "conjugate"] {
            let mut p = CkksProgram::new(context);
            let x = match level > params.levels {
                true => {
                    let x = p.input(0, params.slots())?;
                    p.raise_modulus(x, level, 1.0)?
                }
                false => p.input(level, params.slots())?,
            };
            let y = match what {
                "rotate" => p.rotate(x, 1)?,
                "conjugate" => p.conjugate(x)?,
                _ => p.multiply(x, x)?,
            };
            p.output(x)?;
            p.output(y)?;
            all.push((format!("{what}, level {level} ({where_})"), p, y));
        }
    }
    Ok(all)
}

impl World<'_> {
    /// A program on a batch of messages like `m`, of which the instruction that makes `last` alone is timed, or all of it.
    fn row(
        &self,
        case: String,
        program: &Arc<CkksProgram>,
        (m, batch): (&[Complex], usize),
        last: Option<Reg>,
    ) -> Result<Row> {
        let params = self.context.params();
        let setup = || CkksSetup::new(&self.context, &self.keys);
        let ready = prepared(self.machine, &self.context, program)?;
        let level = program.inputs().first().and_then(|r| program.info(*r)).map_or(0, |i| i.level);
        // Each lane has the values in other slots.
        let of = |lane: usize| m.iter().copied().cycle().skip(lane).take(m.len());
        let messages: Vec<Vec<Complex>> = (0..batch).map(|lane| of(lane).collect()).collect();
        let encrypted = |m: &Vec<Complex>| self.context.encrypt(m, level, &self.secret);
        let x: Vec<Rlwe> = messages.iter().map(encrypted).collect::<becalm::Result<_>>()?;
        let inputs: Vec<Vec<&Rlwe>> = x.iter().map(|x| vec![x; program.inputs().len()]).collect();
        let lanes: Vec<&[&Rlwe]> = inputs.iter().map(Vec::as_slice).collect();
        let evaluator = Evaluator::new(self.machine, setup())?;
        let run = || evaluator.run_lanes(&ready, &lanes, UNWATCHED);
        let began = Instant::now();
        let mut outputs = run()?;
        let load_seconds = began.elapsed().as_secs_f64();
        let mut calls = vec![];
        for _ in 0..self.runs {
            let began = Instant::now();
            outputs = run()?;
            calls.push(began.elapsed().as_secs_f64() * 1e3);
        }
        let alone = match batch {
            1 => vec![],
            _ => lanes.iter().map(|lane| evaluator.run(&ready, lane)).collect::<Result<_, _>>()?,
        };
        drop(evaluator);
        let session = self.machine.runs::<Ckks>()?.open(setup())?;
        let device_ms = self.timed(session, program, &ready, &x, last)? / batch as f64;
        let mut row = Row {
            case,
            params: params.name,
            security_bits: params.security_bits,
            keys: self.size.clone(),
            runs: self.runs,
            batch,
            device_ms,
            call_ms: median(calls) / batch as f64,
            per_second: 1e3 / device_ms,
            level_before: level,
            level_after: outputs[0].last().map_or(0, Rlwe::level),
            bits_mean: f64::INFINITY,
            bits_worst: f64::INFINITY,
            bits_formula: 0.0,
            key_bytes: self.keys.bytes(),
            matrix_bytes: ready.bytes(),
            keygen_seconds: self.keygen,
            load_seconds,
            failed: None,
        };
        self.check(&mut row, program, &lanes, &messages, &outputs, &alone)?;
        Ok(row)
    }

    /// Compares every lane with its message or with the CPU, and with what it gives alone; a row that fails has no times.
    fn check(
        &self,
        row: &mut Row,
        program: &Arc<CkksProgram>,
        lanes: &[&[&Rlwe]],
        messages: &[Vec<Complex>],
        outputs: &[Vec<Rlwe>],
        alone: &[Vec<Rlwe>],
    ) -> Result<()> {
        for ((outputs, m), lane) in outputs.iter().zip(messages).zip(lanes) {
            match program.error() {
                Some(error) => self.precise(row, outputs, m, error)?,
                None => self.same(row, outputs, program, lane)?,
            }
        }
        for (lane, alone) in outputs.iter().zip(alone) {
            self.equal(row, lane, alone, "alone")?;
        }
        if row.failed.is_some() {
            (row.device_ms, row.call_ms, row.per_second) = (f64::NAN, f64::NAN, f64::NAN);
        }
        Ok(())
    }

    /// Compares a bootstrap with the precision of its formulas.
    fn precise(&self, row: &mut Row, outputs: &[Rlwe], m: &[Complex], error: f64) -> Result<()> {
        let of = |y: &Rlwe| Ok(bits(&self.context.decrypt(y, &self.secret)?, m.iter()));
        let all = outputs.iter().map(of).collect::<Result<Vec<_>>>()?;
        let least = |k: fn(&(f64, f64)) -> f64| all.iter().map(k).fold(f64::INFINITY, f64::min);
        let (mean, worst, formula) = (least(|b| b.0), least(|b| b.1), -error.log2());
        row.bits_mean = row.bits_mean.min(mean);
        row.bits_worst = row.bits_worst.min(worst);
        row.bits_formula = formula;
        if mean < formula - TOLERANCE.0 || worst < formula - TOLERANCE.1 {
            let (params, case) = (row.params, &row.case);
            row.failed = Some(format!(
                "{params} {case}: {mean:.1} bits, {worst:.1} at the worst, where the formulas say {formula:.1}"
            ));
        }
        Ok(())
    }

    /// Compares words with the CPU's: an instruction has one result on every machine.
    fn same(
        &self,
        row: &mut Row,
        outputs: &[Rlwe],
        program: &Arc<CkksProgram>,
        inputs: &[&Rlwe],
    ) -> Result<()> {
        let cpu = Evaluator::new(&Cpu::new(0)?, CkksSetup::new(&self.context, &self.keys))?;
        (row.bits_mean, row.bits_worst) = (0.0, 0.0);
        self.equal(row, outputs, &cpu.run(program, inputs)?, "on the CPU")
    }

    /// Compares words with those of the same program elsewhere.
    fn equal(&self, row: &mut Row, got: &[Rlwe], wanted: &[Rlwe], where_: &str) -> Result<()> {
        let words =
            |x: &Rlwe| -> Result<_> { Ok(self.context.pack(x)?.parts().map(<[u8]>::to_vec)) };
        for (got, wanted) in got.iter().zip(wanted) {
            if words(got)? != words(wanted)? {
                let (params, case) = (row.params, &row.case);
                row.failed = Some(format!("{params} {case}: other words than {where_}"));
            }
        }
        Ok(())
    }

    /// Milliseconds on the device for all lanes, the median.
    fn timed(
        &self,
        mut session: Box<dyn Session<Ckks>>,
        program: &Arc<CkksProgram>,
        ready: &becalm::backend::Prepared,
        x: &[Rlwe],
        last: Option<Reg>,
    ) -> Result<f64> {
        let walk = ready.walk();
        let progress: Progress = UNWATCHED;
        let Loaded { .. } = session.load(program.clone(), walk.clone(), x.len(), progress)?;
        let all = walk.waves.len();
        let from = if last.is_some() { all - 1 } else { 0 };
        let mut times = vec![];
        for run in 0..self.runs + 3 {
            if run == 0 || from == 0 {
                program.inputs().iter().try_for_each(|reg| session.write(*reg, 0, x))?;
                session.run(0..from, progress)?;
            }
            session.wait()?;
            let began = Instant::now();
            session.run(from..all, progress)?;
            session.wait()?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        // The first runs load kernels and record.
        Ok(median(times.split_off(3)))
    }
}

fn print(rows: &[Row]) -> Result<()> {
    let cells = |r: &Row| {
        vec![
            r.case.clone(),
            r.params.to_string(),
            r.batch.to_string(),
            format!("{:.3}", r.device_ms),
            format!("{:.0}", r.per_second),
            format!("{:.1}", r.call_ms),
            format!("{} to {}", r.level_before, r.level_after),
            if r.bits_formula == 0.0 { String::new() } else { format!("{:.1}", r.bits_mean) },
            if r.bits_formula == 0.0 { String::new() } else { format!("{:.1}", r.bits_worst) },
            megabytes(r.key_bytes),
            megabytes(r.matrix_bytes),
        ]
    };
    let head = [
        "case",
        "set",
        "batch",
        "ms each",
        "a second",
        "with copies",
        "levels",
        "bits",
        "worst",
        "keys",
        "matrices",
    ];
    report::print(&table(&head, &rows.iter().map(cells).collect::<Vec<_>>()))
}
