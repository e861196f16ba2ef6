//! `becalm bench --device cuda`: a GPU, in this order: whether every bootstrap is right, whether its noise is that of the
//! formula, and only then how fast it is. What fails in either has no times, nor has a set of which a timed batch is wrong.
//!
//! Times are from the launch of a program on ciphertexts that are already on the device to results of sixteen lanes at most on
//! the host. These copies, one after the other, are part of the time.

use crate::bench::{Case, cases};
use crate::report::{self, table};
use anyhow::{Result, bail};
use becalm::backend::{Backend, Evaluator, Figure, Session, batch_of};
use becalm::cipher::{Ciphertext, Encoding, Lwe, SecretKey};
use becalm::params::{Kind, TfheParams};
use becalm::program::Need;
use becalm::tfhe::{Table, noise};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

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

/// What `becalm bench` calls the CPU.
pub(crate) const FLAG: &str = "--device cpu";

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Parameter sets.
    pub sets: Vec<String>,
    /// Bootstraps that are decrypted, each set.
    pub bootstraps: usize,
    /// Largest batch; all powers of two up to it.
    pub batch: usize,
    /// Times that one bootstrap alone is measured; larger batches fewer.
    pub repetitions: usize,
    /// Allow toy sets too.
    pub allow_insecure: bool,
}

/// What was found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Of becalm.
    pub version: &'static str,
    /// Of the backend.
    pub backend: &'static str,
    /// The GPUs.
    pub device: String,
    /// Bytes that were free on the smallest of them.
    pub memory_bytes: u64,
    /// One for each set.
    pub sets: Vec<Set>,
}

/// A parameter set.
#[derive(Debug, Default, Serialize)]
pub struct Set {
    /// Its name.
    pub params: String,
    /// Why it was not measured: it does not run on GPUs.
    pub refused: Option<String>,
    /// What went wrong. There are no times then.
    pub failed: Option<String>,
    /// Bootstraps decrypted, and how many of them were wrong.
    pub bootstraps: usize,
    /// These.
    pub wrong: usize,
    /// log2 of the standard deviation of the results' noise, and the formula's.
    pub noise_log2: f64,
    /// This.
    pub formula_log2: f64,
    /// Whether the formula lies within what so many samples allow.
    pub noise_agrees: bool,
    /// Seconds from the evaluation key on the host to the device ready.
    pub open_seconds: f64,
    /// Bytes that opening the evaluation key takes on each device: the key, and room to convert it, given back afterwards.
    pub key_bytes: u64,
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
    /// Of how many runs.
    pub runs: usize,
    /// Microseconds.
    pub median_us: f64,
    /// Microseconds.
    pub p99_us: f64,
    /// Ciphertexts a second, by the median.
    pub per_second: f64,
}

/// Measures every set.
///
/// # Errors
/// A set of no such name, or below 128 bits, before anything is measured. A refused or failed set is part of the report.
pub fn measure(backend: &dyn Backend, plan: &Plan) -> Result<Report> {
    let info = backend.info();
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        backend: info.name,
        device: info.description,
        memory_bytes: info.memory,
        sets: vec![],
    };
    let sets = plan.sets.iter().map(|name| -> Result<(&TfheParams, bool)> {
        let params = TfheParams::named(name)?;
        let allowed = plan.allow_insecure || params.kind == Kind::Comparison;
        params.require_secure(allowed)?;
        Ok((params, allowed))
    });
    let sets: Vec<(&TfheParams, bool)> = sets.collect::<Result<_>>()?;
    for (params, allowed) in sets {
        let mut set = Set { params: params.name.to_string(), ..Set::default() };
        match becalm::backend::Cuda::runs(params) {
            Err(e) => set.refused = Some(report::spoken(&e.to_string(), FLAG)),
            Ok(()) => {
                if let Err(e) = of_set(backend, params, allowed, plan, &mut set) {
                    set.failed = Some(report::spoken(&format!("{e:#}"), FLAG));
                    set.rows.clear();
                }
            }
        }
        report.sets.push(set);
    }
    Ok(report)
}

fn of_set(
    backend: &dyn Backend,
    params: &TfheParams,
    allowed: bool,
    plan: &Plan,
    set: &mut Set,
) -> Result<()> {
    let secret = SecretKey::generate(params, allowed)?;
    let keys = secret.evaluation_key()?;
    let needs = Need::all_of(&keys);
    set.key_bytes = becalm::backend::Cuda::key_bytes(&keys, &needs)?;
    let began = Instant::now();
    let evaluator = Evaluator::new(backend, &keys)?;
    set.open_seconds = began.elapsed().as_secs_f64();
    correct(&secret, &evaluator, plan.bootstraps, set)?;
    if set.wrong > 0 || !set.noise_agrees {
        // Nothing that computes wrongly is fast.
        bail!(
            "{} of {} bootstraps wrong, noise 2^{:.2}, formula 2^{:.2}",
            set.wrong,
            set.bootstraps,
            set.noise_log2,
            set.formula_log2
        );
    }
    let largest = plan.batch.max(1);
    let cases = cases(&secret, &keys, &evaluator, largest)?;
    drop(evaluator);
    let mut session = backend.open(&keys, &needs)?;
    for case in &cases {
        for batch in (0..).map(|log| 1 << log).take_while(|b| *b <= largest) {
            let runs = (plan.repetitions / batch).clamp(plan.repetitions.min(5), plan.repetitions);
            set.rows.push(timed(session.as_mut(), &secret, case, batch, runs)?);
        }
    }
    Ok(())
}

/// Every message many times, decrypted, and their noise beside the formula's.
fn correct(
    secret: &SecretKey,
    evaluator: &Evaluator,
    bootstraps: usize,
    set: &mut Set,
) -> Result<()> {
    let params = secret.params().clone();
    let encoding = Encoding::of(&params);
    let p = encoding.values;
    let square = Table::from_fn(&params, |m| m * m % p)?;
    let (mut sum, mut left) = (0.0, bootstraps);
    while left > 0 {
        let values: Vec<u64> =
            (0..left.min(1024) as u64).map(|i| (i * 7 + left as u64) % p).collect();
        let results = evaluator.bootstrap(&secret.encrypt(&values)?, &square)?;
        let (found, phases) = (secret.decrypt(&results)?, secret.phases(&results)?);
        for ((m, found), phase) in values.iter().zip(found).zip(phases) {
            let wanted = m * m % p;
            set.wrong += usize::from(found != wanted);
            let error = phase.wrapping_sub(encoding.encode(params.modulus, wanted as i64)) as i64;
            sum += (error as f64 / 2f64.powi(64)).powi(2);
        }
        set.bootstraps += values.len();
        left -= values.len();
    }
    let formula = noise::bootstrap_output(&params);
    let measured = sum / set.bootstraps.max(1) as f64;
    (set.noise_log2, set.formula_log2) = (measured.log2() / 2.0, formula.log2() / 2.0);
    // Five standard deviations of a sum of squares; a part of the formula is an upper bound.
    let spread = 5.0 * (2.0 / set.bootstraps.max(1) as f64).sqrt();
    set.noise_agrees = measured <= formula * (1.0 + spread) && measured >= formula * (0.5 - spread);
    Ok(())
}

/// A program on a batch that lies on the device; fails if a result of the last run is wrong.
fn timed(
    session: &mut dyn Session,
    secret: &SecretKey,
    case: &Case,
    batch: usize,
    runs: usize,
) -> Result<Row> {
    let input: Lwe = case.input.slice(0..batch.min(case.input.len()))?;
    let walk = Arc::new(case.program.walk(&[input.noise_variance()])?);
    let waves = walk.waves.len();
    let loaded = session.load(case.program.clone(), walk, input.len())?;
    let (at, out) = (case.program.inputs()[0], case.program.outputs()[0]);
    let lanes = input.len();
    let input = Ciphertext::from(input);
    let mut micros = Vec::with_capacity(runs);
    // A lane of every GPU, of sixteen at most: only what is read was waited for.
    let settle = |session: &dyn Session, at| {
        let some = (0..lanes.min(16)).map(|k| k * lanes / lanes.min(16));
        some.into_iter().try_for_each(|lane| session.read(at, lane..lane + 1).map(drop))
    };
    for run in 0..=runs {
        session.write(at, 0, &input)?;
        settle(session, at)?;
        let began = Instant::now();
        session.run(&loaded, 0..waves)?;
        settle(session, out)?;
        // The first run warms up.
        if run > 0 {
            micros.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    micros.sort_by(f64::total_cmp);
    if micros.is_empty() {
        bail!("nothing to measure for {}", case.name);
    }
    let results = batch_of(&loaded, case.input.key_id(), out, session.read(out, 0..lanes)?)?;
    right(secret, case, &results)?;
    let median = micros[micros.len() / 2];
    let p99 = micros[(micros.len() * 99 / 100).min(micros.len() - 1)];
    let per_second = batch as f64 / median * 1e6;
    Ok(Row { case: case.name, batch, runs, median_us: median, p99_us: p99, per_second })
}

/// Ciphertexts from which the noise of a batch tells something.
const MANY: usize = 256;

/// Every result of a timed batch, decrypted; and its noise, of many.
fn right(secret: &SecretKey, case: &Case, results: &Lwe) -> Result<()> {
    let (lanes, encoding) = (results.len(), results.encoding());
    let phases = secret.phases(results)?;
    let q = secret.params().modulus;
    let (mut wrong, mut sum) = (0, 0.0);
    for (phase, wanted) in phases.iter().zip(&case.wanted) {
        wrong += usize::from(encoding.decode(q, *phase) != *wanted);
        let error = phase.wrapping_sub(encoding.encode(q, *wanted as i64)) as i64;
        sum += (error as f64 / 2f64.powi(64)).powi(2);
    }
    let (measured, formula) = (sum / lanes as f64, results.noise_variance());
    // As in `correct`; the formula is that of the worst of a batch.
    let noisy = lanes >= MANY && measured > formula * (1.0 + 5.0 * (2.0 / lanes as f64).sqrt());
    if wrong > 0 || noisy {
        bail!(
            "{} of a batch of {lanes}: {wrong} wrong, noise 2^{:.2}, formula 2^{:.2}",
            case.name,
            measured.log2() / 2.0,
            formula.log2() / 2.0
        );
    }
    Ok(())
}

/// Writes and prints; fails if something was wrong, or nothing was measured.
///
/// # Errors
/// When the file cannot be written, a set failed, or GPUs run none.
pub fn conclude(found: &Report, json: Option<&Path>) -> Result<()> {
    match json {
        Some(path) if path.as_os_str() == "-" => report::json(found)?,
        Some(path) => std::fs::write(path, serde_json::to_string_pretty(found)? + "\n")?,
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
    if found.sets.iter().all(|set| set.refused.is_some()) {
        bail!("nothing was measured: GPUs run none of these sets");
    }
    Ok(())
}

/// Writes and prints what `Cuda::micro` found.
///
/// # Errors
/// When the file cannot be written.
pub fn tell(device: &str, found: &[Figure], json: Option<&Path>) -> Result<()> {
    #[derive(Serialize)]
    struct Row<'a> {
        device: &'a str,
        what: &'a str,
        value: f64,
        unit: &'a str,
        expected_of_an_h100: &'a str,
    }
    let rows: Vec<Row> = found
        .iter()
        .map(|Figure { what, value, unit, expected }| Row {
            device,
            what,
            value: *value,
            unit,
            expected_of_an_h100: expected,
        })
        .collect();
    match json {
        Some(path) if path.as_os_str() == "-" => return report::json(&rows),
        Some(path) => std::fs::write(path, serde_json::to_string_pretty(&rows)? + "\n")?,
        None => {}
    }
    let cells = |f: &Figure| {
        vec![f.what.clone(), format!("{:.2}", f.value), f.unit.into(), f.expected.into()]
    };
    let rows: Vec<Vec<String>> = found.iter().map(cells).collect();
    report::print(device)?;
    report::print(&table(&["what", "measured", "unit", "expected of an H100"], &rows))
}

fn print(found: &Report) -> Result<()> {
    report::print(&format!("{} ({})", found.device, found.backend))?;
    for set in &found.sets {
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
            report::megabytes(set.key_bytes as usize),
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
    }
    Ok(())
}
