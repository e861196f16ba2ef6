//! CKKS on the command line: `becalm run --scheme ckks` and `becalm bench ckks`, every result checked.

mod job;

pub use job::Job;

use crate::report::{self, facts, median, peak_memory, table};
use crate::signals::unless_stopped;
use anyhow::{Result, bail};
use becalm::Error;
use becalm::backend::{Backend, Ckks, CkksSetup, Cpu, Evaluator, Prepared, for_params};
use becalm::bootstrap::ckks::{Fit, KeyPlan, Kind as Bootstrap, Offer, Values, set_for};
use becalm::cipher::{CkksKeys, CkksSecretKey, KeyForm, Rlwe};
use becalm::ckks::{Context, Needs};
use becalm::math::complex::Complex;
use becalm::math::memory::available_memory;
use becalm::params::{CkksParams, Kind, USUAL_CKKS};
use becalm::program::rlwe::CkksProgram;
use becalm::words::{counted, megabytes};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// By how many bits results may miss the precision of the formulas before they are wrong: the mean, and the worst slot.
pub(crate) const TOLERANCE: (f64, f64) = (2.0, 5.0);

/// A bootstrap and its results.
#[derive(Serialize)]
pub struct Report {
    scheme: &'static str,
    params: &'static str,
    kind: String,
    iterations: usize,
    values: String,
    key_size: String,
    log2_degree: u32,
    slots: usize,
    stage_count: usize,
    security_bits: f64,
    security_source: &'static str,
    device: String,
    stored_key_bytes: usize,
    key_bytes: usize,
    expanded_key_bytes: usize,
    matrix_bytes: usize,
    keygen_seconds: f64,
    prepare_seconds: f64,
    encrypt_seconds: f64,
    bootstrap_seconds: f64,
    decrypt_seconds: f64,
    multiply_seconds: f64,
    level_before: usize,
    level_after: usize,
    level_after_product: usize,
    fresh_bits_mean: f64,
    bits_mean: f64,
    bits_worst: f64,
    bits_formula: f64,
    product_bits_mean: f64,
    peak_memory_bytes: Option<u64>,
    checked: usize,
    right: bool,
}

/// The machine of a job by name, and the threads of the CPU.
#[derive(Clone, Copy)]
pub struct On<'a> {
    pub device: &'a str,
    pub threads: usize,
}

/// Runs one bootstrap and prints it, or returns it alone for `json`. If no set is named, it takes the standard set. If that does not fit the
/// memory and `full` is not set, it takes a smaller one.
pub fn run(
    job: &Job,
    name: Option<&str>,
    full: bool,
    insecure: bool,
    on: On,
    json: bool,
) -> Result<Report> {
    let (plan, why) = choose(job, name, full)?;
    let params = plan.chain().params();
    // The user did not ask for a toy by name.
    params.require_secure(insecure || name.is_none())?;
    if let (Some(why), false) = (&why, json) {
        report::print(why)?;
    }
    let cpu = Cpu::new(on.threads)?;
    let machine = for_params::<Ckks>(on.device, &cpu, params)?;
    let full = full && name.is_none();
    let made = cpu
        .install(|| bootstrapped(&plan, machine.as_ref(), 1, json))
        .map_err(|e| remedied(e, &plan, full))?;
    if !json {
        print(&made)?;
    }
    Ok(made)
}

/// Refuses results whose error exceeds that of the formulas.
///
/// # Errors
/// For these.
pub fn require_right(r: &Report) -> Result<()> {
    if r.right {
        return Ok(());
    }
    let (mean, worst, formula) = (r.bits_mean, r.bits_worst, r.bits_formula);
    bail!(
        "{} {}: {mean:.1} bits in the mean and {worst:.1} at the worst, where the formulas say {formula:.1}",
        r.params,
        r.kind
    );
}

/// The plan of the keys, and a word where these are not those of the standard set that were asked for.
fn choose(job: &Job, name: Option<&str>, full: bool) -> Result<(KeyPlan, Option<String>)> {
    let wish = job.wish()?;
    let set =
        name.map_or_else(|| set_for(&wish.kinds, None, wish.iterations), CkksParams::named)?;
    let plan = KeyPlan::new(set, &wish)?;
    let fit = match name.is_some() || full {
        true => Fit::AsAsked,
        false => plan.fit(available_memory(), job.keys.is_none())?,
    };
    let (taken, params) = match &fit {
        Fit::AsAsked => return Ok((plan, None)),
        Fit::Instead(offer) => (offer.wish(&wish), offer.set.unwrap_or(set)),
        Fit::Toy(toy) => (wish, *toy),
    };
    let chosen = KeyPlan::new(params, &taken)?;
    let why = format!(
        "N = 2^{} with {} keys takes {}, more than is free: N = 2^{} with {} {}keys instead{} (--full insists)",
        set.log2_degree,
        size(&plan),
        megabytes(plan.price()?.peak()),
        params.log2_degree,
        size(&chosen),
        match taken.form {
            None | Some(KeyForm::Ready) => String::new(),
            Some(form) => format!("{} ", form.name()),
        },
        if params.kind == Kind::Standard { "" } else { ", which protects nothing" },
    );
    Ok((chosen, Some(why)))
}

/// The size of the keys of a bootstrap.
fn size(plan: &KeyPlan) -> &'static str {
    plan.wish().size.unwrap_or_default()
}

/// An error with the flags that help, where it is one of memory.
fn remedied(error: anyhow::Error, plan: &KeyPlan, full: bool) -> anyhow::Error {
    let otherwise = match full {
        true => "leave --full out, which takes what fits; or free memory",
        false => "free memory",
    };
    match error.downcast::<Error>() {
        Ok(error) => plan.remedied(error, available_memory(), flags, otherwise).into(),
        Err(error) => error,
    }
}

/// An offer as flags.
fn flags(offer: &Offer) -> Option<String> {
    let set = offer.set.map(|set| format!("--params {}", set.name));
    let size = offer.size.map(|size| format!("--keys {size}"));
    let form = offer.form.map(|form| match form {
        KeyForm::Seeded => "--compact=seeded".to_string(),
        _ => "--compact".to_string(),
    });
    let stages = offer.stages.map(|stages| format!("--stage-count {stages}"));
    let all: Vec<String> = [set, stages, size, form].into_iter().flatten().collect();
    // The command has no way to leave keys in their file.
    (!offer.stored).then(|| all.join(" "))
}

/// The keys of a job, by the set that it runs on.
pub fn plan(params: &'static CkksParams, job: &Job) -> becalm::Result<KeyPlan> {
    KeyPlan::new(params, &job.wish()?)
}

/// The bootstrap of a job.
pub fn bootstrap_of(plan: &KeyPlan) -> becalm::Result<&CkksProgram> {
    plan.programs().next().map(|(_, program)| program).ok_or_else(|| {
        let (wanted, got) = ("a set with a bootstrap", plan.chain().params().name);
        Error::wrong_params("run", wanted, got, format!("use `{USUAL_CKKS}`"))
    })
}

/// Values within the range of the usual bootstrap of a plan: signs, which suit a precise one too, or points of a disc or of −1 ..= 1.
pub(crate) fn message(plan: &KeyPlan) -> Vec<Complex> {
    let slots = plan.slots();
    let kind = plan.programs().next().map(|(kind, _)| kind);
    let signs = |j: usize| match values(plan) {
        Values::Complex if kind == Some(Bootstrap::Sign) => {
            Complex::new(sign_of(j), sign_of(j / 2))
        }
        _ => Complex::from(sign_of(j)),
    };
    match (kind, values(plan)) {
        (Some(Bootstrap::Sign | Bootstrap::Precise), _) => (0..slots).map(signs).collect(),
        (_, Values::Complex) => disc(slots),
        _ => (0..slots).map(|j| Complex::from(ramp(j, slots))).collect(),
    }
}

/// The kind of values that a plan is for.
fn values(plan: &KeyPlan) -> Values {
    plan.wish().values.unwrap_or_default()
}

/// So many points of a disc.
pub(crate) fn disc(slots: usize) -> Vec<Complex> {
    let point = |j: usize| {
        let turn = Complex::root(j * 7 % slots, slots);
        Complex::new(ramp(j, slots) * turn.re, ramp(j, slots) * turn.im)
    };
    (0..slots).map(point).collect()
}

fn ramp(j: usize, slots: usize) -> f64 {
    2.0 * j as f64 / slots as f64 - 1.0
}

fn sign_of(j: usize) -> f64 {
    if j * 7 % 5 < 2 { -1.0 } else { 1.0 }
}

pub(crate) fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let started = Instant::now();
    Ok((work()?, started.elapsed().as_secs_f64()))
}

/// The evaluation keys, with a progress bar.
pub fn keys(
    context: &Context,
    secret: &CkksSecretKey,
    needs: &Needs,
    form: KeyForm,
) -> Result<CkksKeys> {
    let bar = report::bar("keys", 1);
    let keys = context.keys_with(secret, needs, form, None, &report::follow(&bar))?;
    bar.finish_and_clear();
    Ok(keys)
}

fn refresh(evaluator: &Evaluator<Ckks>, ready: &Prepared, inputs: &[&Rlwe]) -> Result<Vec<Rlwe>> {
    let bar = report::bar("bootstrap", 1);
    let mut outputs = evaluator.run_lanes(ready, &[inputs], &report::follow(&bar))?;
    bar.finish_and_clear();
    Ok(outputs.remove(0))
}

/// Mean and worst of the errors, in bits.
pub(crate) fn bits<'a>(got: &[Complex], wanted: impl Iterator<Item = &'a Complex>) -> (f64, f64) {
    let errors: Vec<f64> = got.iter().zip(wanted).map(|(a, b)| (*a - *b).abs()).collect();
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    (-mean.log2(), -errors.iter().copied().fold(0.0, f64::max).log2())
}

/// The values before and after, and the time of each step.
pub struct Measured {
    encrypt: f64,
    /// Seconds, the median.
    pub bootstrap: f64,
    decrypt: f64,
    multiply: f64,
    fresh: (f64, f64),
    /// Bits after the bootstrap, mean and worst.
    pub after: (f64, f64),
    product: (f64, f64),
    /// Before and after it, and after the product.
    pub levels: [usize; 3],
    values: usize,
}

/// A program with all its matrices encoded.
pub fn prepared(
    machine: &dyn Backend,
    context: &Arc<Context>,
    program: &Arc<CkksProgram>,
) -> Result<Prepared> {
    Ok(Prepared::new(machine, context, program, usize::MAX, &unless_stopped)?)
}

/// Encryption, `runs` bootstraps of which the median is told, decryption, and a product after it.
pub fn measured(
    context: &Context,
    secret: &CkksSecretKey,
    evaluator: &Evaluator<Ckks>,
    ready: &Prepared,
    m: &[Complex],
    runs: usize,
) -> Result<Measured> {
    let program = ready.program();
    program.check_values(m)?;
    let level = program.inputs().first().and_then(|r| program.info(*r)).map_or(0, |i| i.level);
    let (x, encrypt) = timed(|| Ok(context.encrypt(m, level, secret)?))?;
    let fresh = bits(&context.decrypt(&x, secret)?, m.iter());
    let inputs = vec![&x; program.inputs().len()];
    let (mut seconds, mut outputs) = (vec![], vec![]);
    for _ in 0..runs.max(1) {
        let (made, each) = timed(|| refresh(evaluator, ready, &inputs))?;
        outputs = made;
        seconds.push(each);
    }
    let (_, decrypt) = timed(|| Ok(context.decrypt(&outputs[0], secret)?))?;
    let errors = outputs.iter().map(|y| Ok(bits(&context.decrypt(y, secret)?, m.iter())));
    let errors = errors.collect::<Result<Vec<_>>>()?;
    let least = |of: fn(&(f64, f64)) -> f64| errors.iter().map(of).fold(f64::INFINITY, f64::min);
    let (square, multiply) = timed(|| Ok(evaluator.square(&outputs[0])?))?;
    let squares: Vec<Complex> = m.iter().map(|v| *v * *v).collect();
    Ok(Measured {
        encrypt,
        bootstrap: median(seconds),
        decrypt,
        multiply,
        fresh,
        after: (least(|e| e.0), least(|e| e.1)),
        product: bits(&context.decrypt(&square, secret)?, squares.iter()),
        levels: [x.level(), outputs[0].level(), square.level()],
        values: m.len() * outputs.len(),
    })
}

/// Makes keys, and calls [`measured`] with them.
fn bootstrapped(plan: &KeyPlan, machine: &dyn Backend, runs: usize, quiet: bool) -> Result<Report> {
    let (params, needs, slots) = (plan.chain().params(), plan.needs(), plan.slots());
    let program = bootstrap_of(plan)?;
    let (price, expanded) = (plan.price()?, plan.chain().key_bytes(&needs));
    if !quiet {
        let sizes = [price.stored, price.memory, expanded];
        announce(params, slots, needs.rotations.len(), sizes)?;
    }
    plan.require("run", available_memory(), flags, "free memory")?;
    let context = Arc::new(Context::new(params, true)?);
    let secret = context.secret_key()?;
    let (keys, keygen_seconds) = timed(|| keys(&context, &secret, &program.needs(), plan.form()))?;
    let program = Arc::new(program.clone());
    let evaluator = Evaluator::new(machine, CkksSetup::new(&context, &Arc::new(keys)))?;
    let (ready, prepare_seconds) = timed(|| prepared(machine, &context, &program))?;
    let m = measured(&context, &secret, &evaluator, &ready, &message(plan), runs)?;
    let formula = -program.error().unwrap_or(1.0).log2();
    Ok(Report {
        scheme: "ckks",
        params: params.name,
        kind: plan.programs().next().map_or(String::new(), |(kind, _)| kind.name().into()),
        iterations: plan.wish().iterations,
        values: values(plan).name().into(),
        key_size: size(plan).into(),
        log2_degree: params.log2_degree,
        slots,
        stage_count: plan.stage_count().unwrap_or_default(),
        security_bits: params.security_bits,
        security_source: params.security_source,
        device: report::machine(&evaluator.info()),
        stored_key_bytes: price.stored,
        key_bytes: evaluator.keys().bytes(),
        expanded_key_bytes: expanded,
        matrix_bytes: ready.bytes(),
        keygen_seconds,
        prepare_seconds,
        encrypt_seconds: m.encrypt,
        bootstrap_seconds: m.bootstrap,
        decrypt_seconds: m.decrypt,
        multiply_seconds: m.multiply,
        level_before: m.levels[0],
        level_after: m.levels[1],
        level_after_product: m.levels[2],
        fresh_bits_mean: m.fresh.0,
        bits_mean: m.after.0,
        bits_worst: m.after.1,
        bits_formula: formula,
        product_bits_mean: m.product.0,
        peak_memory_bytes: peak_memory(),
        checked: m.values,
        right: m.after.0 > formula - TOLERANCE.0 && m.after.1 > formula - TOLERANCE.1,
    })
}

pub(crate) fn announce(
    p: &CkksParams,
    slots: usize,
    rotations: usize,
    [stored, held, expanded]: [usize; 3],
) -> Result<()> {
    let memory = match held < expanded {
        true => format!("{} in memory instead of {}", megabytes(held), megabytes(expanded)),
        false => format!("{} in memory", megabytes(expanded)),
    };
    let toy = if p.kind == Kind::Standard { "" } else { " (a toy)" };
    report::print(&format!(
        "{}: N = 2^{}, {slots} slots, {:.1} bits of security{toy}\nkeys to make: {}, {} stored, {memory}",
        p.name,
        p.log2_degree,
        p.security_bits,
        counted(rotations, "rotation"),
        megabytes(stored),
    ))
}

/// Levels and precision on the way.
fn levels(r: &Report) -> String {
    let row = |name: &str, level: usize, mean: f64, worst: String| {
        vec![name.to_string(), level.to_string(), format!("{mean:.1}"), worst]
    };
    let rows = [
        row("before the bootstrap", r.level_before, r.fresh_bits_mean, String::new()),
        row("after it", r.level_after, r.bits_mean, format!("{:.1}", r.bits_worst)),
        row("its square", r.level_after_product, r.product_bits_mean, String::new()),
    ];
    table(&["", "level", "bits, mean", "worst"], &rows)
}

fn print(r: &Report) -> Result<()> {
    let seconds = |s: f64| format!("{s:.3} s");
    let compact = r.key_bytes < r.expanded_key_bytes;
    let keys = format!(
        "{} stored, {} in memory{}, made in {}",
        megabytes(r.stored_key_bytes),
        megabytes(r.key_bytes),
        if compact {
            format!(" of {} expanded", megabytes(r.expanded_key_bytes))
        } else {
            String::new()
        },
        seconds(r.keygen_seconds)
    );
    let encryption = format!("{}, {}", seconds(r.encrypt_seconds), seconds(r.decrypt_seconds));
    let matrices =
        format!("{}, encoded in {}", megabytes(r.matrix_bytes), seconds(r.prepare_seconds));
    let mean = format!("2^-{:.2}; 2^-{:.2} by the formulas", r.bits_mean, r.bits_formula);
    let again =
        if r.iterations > 1 { format!(", {} iterations", r.iterations) } else { String::new() };
    let mut rows = vec![
        ("parameter set", format!("{}, N = 2^{}", r.params, r.log2_degree)),
        ("bootstrap", format!("{}{again}, {} values, {} keys", r.kind, r.values, r.key_size)),
        ("device", r.device.clone()),
        ("security", format!("{:.1} bits ({})", r.security_bits, r.security_source)),
        ("mean error", mean),
        ("worst error", format!("2^-{:.2}", r.bits_worst)),
        ("one bootstrap", seconds(r.bootstrap_seconds)),
        ("encrypt, decrypt", encryption),
        ("product", format!("{}, relinearized and rescaled", seconds(r.multiply_seconds))),
        ("keys", keys),
        ("matrices", matrices),
    ];
    if let Some(bytes) = r.peak_memory_bytes {
        rows.push(("peak memory", megabytes(bytes as usize)));
    }
    let verdict = if r.right { "all right" } else { "WRONG" };
    rows.push(("results", format!("{} checked, {verdict}", counted(r.checked, "value"))));
    report::print(&format!("\n{}\n\n{}", levels(r), facts(&rows)))
}

/// Bootstraps of every kind, on the standard sets or, `quick`, on toys.
///
/// # Errors
/// Errors of the bootstrap, and a wrong result.
pub fn bench(quick: bool, threads: usize, json: Option<&std::path::Path>) -> Result<()> {
    let sets = match quick {
        true => ["ckks_toy_12", "ckks_toy_14_levels", "ckks_toy_precise", "ckks_toy_slots_first"],
        false => ["ckks_regular", "ckks_14_levels", "ckks_precise", "ckks_slots_first"],
    };
    let cases = [
        (0, "regular", "complex", "medium"),
        (0, "regular", "real", "medium"),
        (0, "regular", "merged", "medium"),
        (0, "regular", "complex", "small"),
        (0, "regular", "complex", "large"),
        (0, "sparse", "complex", "medium"),
        (1, "regular", "complex", "medium"),
        (2, "regular", "complex", "medium"),
        (3, "slots_first", "real", "medium"),
        (3, "slots_first", "complex", "medium"),
        (3, "sign", "real", "medium"),
    ];
    let cpu = Cpu::new(threads)?;
    let mut rows = vec![];
    for (set, kind, of, keys) in cases {
        let job = Job::of(kind, keys, None, None, of);
        let plan = plan(CkksParams::named(sets[set])?, &job)?;
        let made = cpu.install(|| bootstrapped(&plan, &cpu, if quick { 1 } else { 3 }, true))?;
        require_right(&made)?;
        rows.push(made);
    }
    match json {
        Some(path) if path.as_os_str() == "-" => return report::json(&rows),
        Some(path) => crate::output::write(path, serde_json::to_string_pretty(&rows)?.as_bytes())?,
        None => {}
    }
    let cells = |r: &Report| {
        vec![
            format!("{} {}", r.kind, r.values),
            r.params.to_string(),
            r.key_size.clone(),
            format!("{:.3}", r.bootstrap_seconds),
            r.level_after.to_string(),
            format!("{:.1}", r.bits_mean),
            format!("{:.1}", r.bits_worst),
            megabytes(r.stored_key_bytes),
            megabytes(r.key_bytes),
        ]
    };
    let head = ["case", "set", "keys", "s", "level", "bits", "worst", "stored", "in memory"];
    report::print(&table(&head, &rows.iter().map(cells).collect::<Vec<_>>()))
}
