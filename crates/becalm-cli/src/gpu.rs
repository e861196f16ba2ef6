//! `becalm bench --device cuda` measures a GPU. Each set is checked first: every bootstrap is decrypted, and the noise is compared with
//! the formula. Then the set is timed. The microbenchmarks that the kernels' design rests on come last. A set with a wrong result has no
//! times. Noise beyond the formula is a remark beside the times, with both figures.
//!
//! The report is written after every row, and nothing begins when the time is up: a run that is cut leaves a report.

mod check;
pub mod ckks;

use crate::cases::{Case, cases};
use crate::output;
use crate::report::{self, table};
use anyhow::{Result, bail};
use becalm::UNWATCHED;
use becalm::backend::{Backend, Evaluator, Figure, Micro, Session, Tfhe, TfheSetup, batch_of};
use becalm::cipher::{Encoding, Lwe, SecretKey};
use becalm::math::statistics::Moments;
use becalm::params::{Kind, TfheParams};
use becalm::program::{Need, Op, Reg};
use becalm::tfhe::{Table, noise};
use check::{apart, error_of, exceeds, spread};
use serde::Serialize;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Booleans and four bits, TUniform and Gaussian, multi-bit and classic, and the sets of the processor's paper.
pub const SETS: &[&str] = &[
    "tfhe_2_2_multi_bit_4",
    "tfhe_2_2_multi_bit_4_gaussian",
    "tfhe_1_1_multi_bit_4",
    "tfhe_1_1_multi_bit_4_gaussian",
    "tfhe_2_2",
    "tfhe_2_2_gaussian",
    "tfhe_1_1",
    "tfhe_1_1_gaussian",
    "paper_n500",
    "paper_n800",
];

/// The measurements to make.
#[derive(Debug, Clone)]
pub struct Measurements {
    /// Parameter sets.
    pub sets: Vec<String>,
    /// Bootstraps that are decrypted, each set.
    pub bootstraps: usize,
    /// Largest batch, beside all powers of two below it.
    pub batch: usize,
    /// Times that one bootstrap alone is measured; larger batches fewer.
    pub repetitions: usize,
    /// Allow toy sets too.
    pub allow_insecure: bool,
    /// When nothing more is begun, by the clock.
    pub until: Duration,
    /// The clock.
    pub clock: Clock,
}

/// The time since some moment that is the same for all calls.
pub type Clock = fn() -> Duration;

/// The time since the first call.
pub fn clock() -> Duration {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed()
}

impl Measurements {
    fn is_over(&self) -> bool {
        (self.clock)() >= self.until
    }
}

/// The interval that a time measures.
const TIMES: &str = "from the launch of a program on ciphertexts that are on the device until the device is done; no copies";
/// The remark on measurements that were not begun.
const OVER: &str = "the time was up (--minutes)";

/// The findings.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of becalm.
    pub version: &'static str,
    /// The GPUs.
    pub device: String,
    /// Bytes that were free on the smallest of them.
    pub memory_bytes: u64,
    /// `$BECALM_CUDA_TUNE`.
    pub tune: String,
    /// The interval that the times below measure.
    pub times: &'static str,
    /// The measurements that are missing because the time was up.
    pub unfinished: Option<String>,
    /// The microbenchmarks that the kernels' design rests on, if asked for.
    pub micro: Vec<MicroRow>,
    /// The microbenchmarks that failed.
    pub micro_failed: Vec<String>,
    /// One for each set.
    pub sets: Vec<Set>,
}

/// A microbenchmark.
#[derive(Debug, Serialize)]
pub struct MicroRow {
    what: String,
    value: f64,
    unit: &'static str,
    expected_of_an_h100: &'static str,
}

impl From<&Figure> for MicroRow {
    fn from(Figure { what, value, unit, expected }: &Figure) -> Self {
        let (what, expected_of_an_h100) = (what.clone(), *expected);
        MicroRow { what, value: *value, unit, expected_of_an_h100 }
    }
}

impl Report {
    /// The report of a machine on which nothing was measured yet.
    pub fn of(backend: &dyn Backend) -> Self {
        let info = backend.info();
        Report {
            version: env!("CARGO_PKG_VERSION"),
            device: info.description,
            memory_bytes: info.memory,
            tune: std::env::var("BECALM_CUDA_TUNE").unwrap_or_default(),
            times: TIMES,
            unfinished: None,
            micro: vec![],
            micro_failed: vec![],
            sets: vec![],
        }
    }

    /// With the results of `Cuda::micro`, or the reason why there are none.
    pub fn with_micro(mut self, found: becalm::Result<Micro>) -> Self {
        match found {
            Ok(found) => {
                self.micro = found.figures.iter().map(MicroRow::from).collect();
                self.micro_failed = found.failed;
            }
            Err(e) => self.micro_failed = vec![report::refusal(&e.into())],
        }
        self
    }
}

/// A parameter set.
#[derive(Debug, Default, Serialize)]
pub struct Set {
    /// Its name.
    pub params: String,
    /// Why it was not measured: it does not run on GPUs.
    pub refused: Option<String>,
    /// The error, if there was one. There are no times then.
    pub failed: Option<String>,
    /// Bootstraps decrypted, and how many of them were wrong.
    pub bootstraps: usize,
    /// These.
    pub wrong: usize,
    /// log2 of the standard deviation of the results' noise, and the formula's.
    pub noise_log2: f64,
    /// This.
    pub formula_log2: f64,
    /// Whether the formula lies within the interval of this number of samples.
    pub noise_agrees: bool,
    /// Both figures where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// Seconds from the evaluation key on the host to the device ready.
    pub open_seconds: f64,
    /// Bytes of the opened evaluation key on each device.
    pub key_bytes: u64,
    /// Bytes of room to convert it, given back before anything runs.
    pub conversion_bytes: u64,
    /// Times, of batches whose results were all decrypted afterwards and right.
    pub rows: Vec<Row>,
}

/// A program on a batch.
#[derive(Debug, Serialize)]
pub struct Row {
    /// `pbs`, `ks` or `ks_pbs`.
    pub case: &'static str,
    /// Ciphertexts.
    pub batch: usize,
    /// Number of runs.
    pub runs: usize,
    /// Microseconds.
    pub median_us: f64,
    /// Microseconds.
    pub p99_us: f64,
    /// Ciphertexts a second, by the median.
    pub per_second: f64,
    /// A refusal of the device that makes it slower: a wave that is not recorded, and why. Also both figures where the noise of
    /// the results is beyond the formula.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// Where a report is written while it grows.
pub type Save<'a> = &'a mut dyn FnMut(&Report) -> Result<()>;

/// Measures every set; the report is saved with each row.
///
/// # Errors
/// A set of no such name, or below 128 bits, or a file that cannot be written, before anything is measured. A refused or failed
/// set is part of the report.
pub fn measure(backend: &dyn Backend, plan: &Measurements, save: Save) -> Result<Report> {
    let sets = plan.sets.iter().map(|name| -> Result<(&TfheParams, bool)> {
        let params = TfheParams::named(name)?;
        let allowed = plan.allow_insecure || params.kind == Kind::Comparison;
        params.require_secure(allowed)?;
        Ok((params, allowed))
    });
    let sets: Vec<(&TfheParams, bool)> = sets.collect::<Result<_>>()?;
    let mut report = Report::of(backend);
    save(&report)?;
    for (params, allowed) in sets {
        let mut set = Set { params: params.name.to_string(), ..Set::default() };
        let refusal = becalm::backend::Cuda::runs(params).err().or_else(|| unfit(backend, params));
        set.refused = refusal.map(|e| report::refusal(&e.into()));
        let wanted = set.refused.is_none();
        report.sets.push(set);
        if wanted && let Err(e) = of_set(backend, params, allowed, plan, &mut report, save) {
            let set = last(&mut report);
            set.failed = Some(report::refusal(&e));
            set.rows.clear();
        }
        _ = save(&report);
    }
    Ok(report)
}

/// Why these GPUs cannot rotate a set that others can; a set whose kernels are missing is another matter.
fn unfit(backend: &dyn Backend, params: &TfheParams) -> Option<becalm::Error> {
    let op = Op::KeySwitch { dst: Reg(1), src: Reg(0) };
    let on = backend.runs::<Tfhe>().ok()?;
    match on.supports(&op, params) {
        true => None,
        false => on.accepts(params).err(),
    }
}

/// The set that is being measured.
fn last(report: &mut Report) -> &mut Set {
    let last = report.sets.len() - 1;
    &mut report.sets[last]
}

/// The powers of two below the largest batch, and it.
fn batches(largest: usize) -> impl Iterator<Item = usize> {
    (0..).map(|log| 1 << log).take_while(move |b| *b < largest).chain([largest])
}

fn of_set(
    backend: &dyn Backend,
    params: &TfheParams,
    allowed: bool,
    plan: &Measurements,
    report: &mut Report,
    save: Save,
) -> Result<()> {
    // One set is measured however little time there is.
    if plan.is_over() && report.sets.iter().any(|set| set.bootstraps > 0) {
        report
            .unfinished
            .get_or_insert_with(|| format!("{} and what follows: {OVER}", params.name));
        return Ok(());
    }
    // Before the keys, which take long.
    backend.runs::<Tfhe>()?.accepts(params)?;
    let secret = SecretKey::generate(params, allowed)?;
    let keys = secret.evaluation_key()?;
    let setup = TfheSetup::new(&keys, &Need::all_of(&keys));
    let memory = becalm::backend::Cuda::key_memory(&keys, &setup.needs)?;
    let set = last(report);
    (set.key_bytes, set.conversion_bytes) = (memory.key, memory.room);
    let began = (plan.clock)();
    let evaluator = Evaluator::new(backend, &keys)?;
    set.open_seconds = ((plan.clock)() - began).as_secs_f64();
    correct(&secret, &evaluator, plan, set)?;
    if set.wrong > 0 {
        // Nothing that computes wrongly is fast.
        bail!(
            "{} of {} bootstraps wrong, noise 2^{:.2}, formula 2^{:.2}",
            set.wrong,
            set.bootstraps,
            set.noise_log2,
            set.formula_log2
        );
    }
    if !set.noise_agrees {
        set.remark = Some(apart("bootstraps", set.noise_log2, set.formula_log2));
    }
    // An error of writing is reported at the end, when the report is written again.
    _ = save(report);
    let largest = plan.batch.max(1);
    let cases = cases(&secret, &keys, &evaluator, largest)?;
    drop(evaluator);
    let mut session = backend.runs::<Tfhe>()?.open(setup)?;
    for case in &cases {
        for batch in batches(largest) {
            if plan.is_over() {
                let from = format!("{}, {} of {batch}, and what follows", params.name, case.name);
                report.unfinished.get_or_insert_with(|| format!("{from}: {OVER}"));
                return Ok(());
            }
            let row = timed(session.as_mut(), &secret, case, batch, plan)?;
            last(report).rows.push(row);
            _ = save(report);
        }
    }
    Ok(())
}

/// Every message many times, decrypted, and their noise beside the formula's.
fn correct(
    secret: &SecretKey,
    evaluator: &Evaluator,
    plan: &Measurements,
    set: &mut Set,
) -> Result<()> {
    let params = secret.params().clone();
    let encoding = Encoding::of(&params);
    let p = encoding.values;
    let square = Table::from_fn(&params, |m| m * m % p)?;
    let (mut errors, mut left) = (vec![], plan.bootstraps);
    while left > 0 {
        let values: Vec<u64> =
            (0..left.min(1024) as u64).map(|i| (i * 7 + left as u64) % p).collect();
        let results = evaluator.bootstrap(&secret.encrypt(&values)?, &square)?;
        let (found, phases) = (secret.decrypt(&results)?, secret.phases(&results)?);
        for ((m, found), phase) in values.iter().zip(found).zip(phases) {
            let wanted = m * m % p;
            set.wrong += usize::from(found != wanted);
            let exact = encoding.encode(params.modulus, wanted as i64);
            errors.push(error_of(phase.wrapping_sub(exact)));
        }
        set.bootstraps += values.len();
        left -= values.len();
    }
    let (noise, formula) = (Moments::independent(&errors), noise::bootstrap_output(&params));
    (set.noise_log2, set.formula_log2) = (noise.variance.log2() / 2.0, formula.log2() / 2.0);
    // A part of the formula is an upper bound.
    let low = noise.variance < formula * (0.5 - spread(&noise));
    set.noise_agrees = !low && !exceeds(&errors, params.slots, formula);
    Ok(())
}

/// Runs that are not counted: the first loads kernels, and the second records the graph that later runs replay.
const WARM: usize = 2;

/// A program on a batch that lies on the device; fails if a result of the last run is wrong.
fn timed(
    session: &mut dyn Session,
    secret: &SecretKey,
    case: &Case,
    batch: usize,
    plan: &Measurements,
) -> Result<Row> {
    let input: Lwe = case.input.slice(0..batch.min(case.input.len()))?;
    let (program, walk) = (&case.program, Arc::new(case.program.walk()));
    let (waves, followed) = (walk.waves.len(), program.follow(&[input.noise_variance()])?);
    session.load(program.clone(), walk, input.len(), UNWATCHED)?;
    let (at, out) = (program.inputs()[0], program.outputs()[0]);
    let lanes = input.len();
    let most = plan.repetitions.max(1);
    let runs = (most / batch).clamp(most.min(5), most);
    let mut micros = Vec::with_capacity(runs);
    for run in 0..runs + WARM {
        session.write(at, 0, input.words())?;
        session.wait()?;
        let began = (plan.clock)();
        session.run(0..waves, UNWATCHED)?;
        session.wait()?;
        let took = (plan.clock)() - began;
        if run >= WARM {
            micros.push(took.as_secs_f64() * 1e6);
        }
        if !micros.is_empty() && plan.is_over() {
            break;
        }
    }
    micros.sort_by(f64::total_cmp);
    let results =
        batch_of(program, &followed, case.input.key_id(), out, session.read(out, 0..lanes)?)?;
    let noisy = right(secret, case, &results)?;
    let (runs, median) = (micros.len(), micros[micros.len() / 2]);
    let p99 = micros[(runs * 99 / 100).min(runs - 1)];
    let per_second = batch as f64 / median * 1e6;
    let remarks: Vec<String> = session.remark().into_iter().chain(noisy).collect();
    let remark = (!remarks.is_empty()).then(|| remarks.join("; "));
    Ok(Row { case: case.name, batch, runs, median_us: median, p99_us: p99, per_second, remark })
}

/// Ciphertexts from which the noise of a batch tells something.
const MANY: usize = 256;

/// Fails if a result of a timed batch is wrong. Returns a remark if the noise of a large batch is beyond the formula.
fn right(secret: &SecretKey, case: &Case, results: &Lwe) -> Result<Option<String>> {
    let (lanes, encoding) = (results.len(), results.encoding());
    let phases = secret.phases(results)?;
    let q = secret.params().modulus;
    let (mut wrong, mut errors) = (0, Vec::with_capacity(lanes));
    for (phase, wanted) in phases.iter().zip(&case.wanted) {
        wrong += usize::from(encoding.decode(q, *phase) != *wanted);
        errors.push(error_of(phase.wrapping_sub(encoding.encode(q, *wanted as i64))));
    }
    // The formula is that of the worst of a batch.
    let (noise, formula) = (Moments::independent(&errors), results.noise_variance());
    let [seen, claimed] = [noise.variance, formula].map(|v| v.log2() / 2.0);
    let what = format!("{} of a batch of {lanes}", case.name);
    if wrong > 0 {
        bail!("{what}: {wrong} wrong, noise 2^{seen:.2}, formula 2^{claimed:.2}");
    }
    let noisy = lanes >= MANY && exceeds(&errors, results.slots(), formula);
    Ok(noisy.then(|| apart(&what, seen, claimed)))
}

/// Writes a report into a file, whole or not at all, whenever it has grown; nothing without a file, or for `-`.
pub fn saving(json: Option<&Path>) -> impl FnMut(&Report) -> Result<()> {
    // A device or a pipe gets the report once, at the end.
    let file = json.filter(|path| path.as_os_str() != "-" && !output::is_stream(path));
    move |found| file.map_or(Ok(()), |path| written(found, path))
}

fn written(found: &Report, path: &Path) -> Result<()> {
    output::write(path, (serde_json::to_string_pretty(found)? + "\n").as_bytes())
}

/// Writes and prints; fails if something was wrong, or nothing was measured.
///
/// # Errors
/// When the file cannot be written, a set failed, or GPUs run none.
pub fn conclude(found: &Report, json: Option<&Path>) -> Result<()> {
    match json {
        Some(path) if path.as_os_str() == "-" => report::json(found)?,
        Some(path) => written(found, path)?,
        None => {}
    }
    if json.is_none_or(|path| path.as_os_str() != "-") {
        print(found)?;
    }
    let failed = found.sets.iter().filter_map(|set| Some((&set.params, set.failed.as_ref()?)));
    let failed: Vec<String> = failed.map(|(name, why)| format!("{name}: {why}")).collect();
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    if found.sets.iter().all(|set| set.bootstraps == 0) {
        let why = found.unfinished.as_deref().unwrap_or("GPUs run none of these sets");
        bail!("nothing was measured: {why}");
    }
    if let Some(what) = &found.unfinished {
        report::say(&format!("becalm: not measured: {what}"));
    }
    Ok(())
}

/// Writes and prints the findings of `Cuda::micro` alone; fails if one of them could not be measured.
///
/// # Errors
/// That, and when the file cannot be written.
pub fn tell(device: &str, found: &Micro, json: Option<&Path>) -> Result<()> {
    #[derive(Serialize)]
    struct Row<'a> {
        device: &'a str,
        #[serde(flatten)]
        row: MicroRow,
    }
    let rows: Vec<Row> =
        found.figures.iter().map(|f| Row { device, row: MicroRow::from(f) }).collect();
    match json {
        Some(path) if path.as_os_str() == "-" => report::json(&rows)?,
        Some(path) => {
            output::write(path, (serde_json::to_string_pretty(&rows)? + "\n").as_bytes())?
        }
        None => {}
    }
    if json.is_none_or(|path| path.as_os_str() != "-") {
        report::print(device)?;
        let rows: Vec<MicroRow> = rows.into_iter().map(|row| row.row).collect();
        report::print(&micro_table(&rows))?;
    }
    if !found.failed.is_empty() {
        bail!("{}", found.failed.join("\n"));
    }
    Ok(())
}

fn micro_table(rows: &[MicroRow]) -> String {
    let cells = |r: &MicroRow| {
        let value = format!("{:.2}", r.value);
        vec![r.what.clone(), value, r.unit.into(), r.expected_of_an_h100.into()]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table(&["what", "measured", "unit", "expected of an H100"], &rows)
}

fn print(found: &Report) -> Result<()> {
    report::print(&found.device)?;
    if !found.micro.is_empty() {
        report::print(&micro_table(&found.micro))?;
    }
    for why in &found.micro_failed {
        report::print(&format!("microbenchmarks: FAILED: {why}"))?;
    }
    let begun = |set: &&Set| set.refused.is_some() || set.failed.is_some() || set.bootstraps > 0;
    for set in found.sets.iter().filter(begun) {
        if let Some(why) = &set.refused {
            report::print(&format!("{}: {why}", set.params))?;
            continue;
        }
        if let Some(why) = &set.failed {
            report::print(&format!("{}: FAILED, no times: {why}", set.params))?;
            continue;
        }
        report::print(&format!(
            "{}: {} of {} wrong, noise 2^{:.2} (formula 2^{:.2}), key {} opened in {:.2} s",
            set.params,
            set.wrong,
            set.bootstraps,
            set.noise_log2,
            set.formula_log2,
            becalm::words::megabytes(set.key_bytes as usize),
            set.open_seconds,
        ))?;
        let cells = |r: &Row| {
            let us = |x: f64| format!("{x:.1}");
            vec![
                r.case.to_string(),
                r.batch.to_string(),
                us(r.median_us),
                us(r.p99_us),
                format!("{:.0}", r.per_second),
            ]
        };
        let rows: Vec<Vec<String>> = set.rows.iter().map(cells).collect();
        report::print(&table(&["case", "batch", "median µs", "p99 µs", "per second"], &rows))?;
        let mut remarks: Vec<&String> = set
            .remark
            .iter()
            .chain(set.rows.iter().filter_map(|row| row.remark.as_ref()))
            .collect();
        remarks.dedup();
        for remark in remarks {
            report::print(&format!("{}: {remark}", set.params))?;
        }
    }
    Ok(())
}
