//! `becalm run --scheme ckks` of a set without a bootstrap: products from the highest level to level 0, and a rotation.

use crate::ckks::{Job, TOLERANCE, announce, bits, disc, timed};
use crate::report::{self, facts, median, peak_memory, table};
use anyhow::{Result, bail};
use becalm::Error;
use becalm::backend::{Backend, CkksSetup, Cpu, Evaluator};
use becalm::ckks::{Context, Needs};
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, USUAL_CKKS};
use becalm::words::{counted, megabytes};
use serde::Serialize;
use std::sync::Arc;

/// The measurements at a level.
#[derive(Serialize)]
struct Row {
    what: String,
    level: usize,
    bits_mean: f64,
    bits_worst: f64,
    /// The precision that the ciphertext claims.
    bits_claimed: f64,
}

impl Row {
    fn right(&self) -> bool {
        self.bits_mean > self.bits_claimed - TOLERANCE.0
            && self.bits_worst > self.bits_claimed - TOLERANCE.1
    }
}

#[derive(Serialize)]
struct Report {
    scheme: &'static str,
    params: &'static str,
    log2_degree: u32,
    slots: usize,
    levels: usize,
    security_bits: f64,
    security_source: &'static str,
    device: String,
    stored_key_bytes: usize,
    key_bytes: usize,
    keygen_seconds: f64,
    encrypt_seconds: f64,
    decrypt_seconds: f64,
    multiply_seconds: f64,
    rotate_seconds: f64,
    steps: Vec<Row>,
    peak_memory_bytes: Option<u64>,
    checked: usize,
    right: bool,
}

/// Multiplies down the chain and shows it.
///
/// # Errors
/// `BadInput` for options of a bootstrap; a result that is wrong.
pub fn run(
    params: &'static CkksParams,
    job: &Job,
    cpu: &Cpu,
    machine: &dyn Backend,
    json: bool,
) -> Result<()> {
    if job.is_given() {
        let (wanted, got) = ("a set with a bootstrap", format!("`{}`", params.name));
        let flags = "--kind, --keys, --slots, --stage-count, --iterations, --of and --compact";
        let remedy = format!("leave out {flags}, which are for bootstraps; or use `{USUAL_CKKS}`");
        return Err(Error::wrong_params("run", wanted, got, remedy).into());
    }
    let made = cpu.install(|| multiplied(params, machine, json))?;
    if json {
        report::json(&made)?;
    } else {
        print(&made)?;
    }
    match made.steps.iter().find(|s| !s.right()) {
        None => Ok(()),
        Some(s) => bail!(
            "{} {}: {:.1} bits in the mean and {:.1} at the worst, where {:.1} are claimed",
            made.params,
            s.what,
            s.bits_mean,
            s.bits_worst,
            s.bits_claimed
        ),
    }
}

fn multiplied(params: &'static CkksParams, machine: &dyn Backend, quiet: bool) -> Result<Report> {
    let (slots, top) = (params.slots(), params.levels);
    let context = Arc::new(Context::new(params, true)?);
    let needs = Needs::default().rotate([1], top);
    let (stored, memory) = (context.stored_key_bytes(&needs), context.key_bytes(&needs));
    if !quiet {
        announce(params, slots, 1, [stored, memory, memory])?;
    }
    let secret = context.secret_key()?;
    let (keys, keygen_seconds) = timed(|| Ok(context.keys(&secret, &needs)?))?;
    let keys = Arc::new(keys);
    let evaluator = Evaluator::new(machine, CkksSetup::new(&context, &keys))?;
    let m = disc(slots);
    let (x, encrypt_seconds) = timed(|| Ok(context.encrypt(&m, top, &secret)?))?;
    let (got, decrypt_seconds) = timed(|| Ok(context.decrypt(&x, &secret)?))?;
    let row = |what: String, level, got: &[Complex], wanted: &[Complex], error: f64| {
        let (bits_mean, bits_worst) = bits(got, wanted.iter());
        Row { what, level, bits_mean, bits_worst, bits_claimed: -error.log2() }
    };
    let mut steps = vec![row("encrypted".into(), top, &got, &m, x.error())];
    let (turned, rotate_seconds) = timed(|| Ok(evaluator.rotate(&x, 1)?))?;
    let moved: Vec<Complex> = (0..slots).map(|j| m[(j + 1) % slots]).collect();
    let got = context.decrypt(&turned, &secret)?;
    steps.push(row("rotated by 1".into(), top, &got, &moved, turned.error()));
    let (mut power, mut wanted, mut seconds) = (x.clone(), m.clone(), vec![]);
    for k in 2..=top + 1 {
        let (next, each) = timed(|| Ok(evaluator.multiply(&power, &x)?))?;
        seconds.push(each);
        power = next;
        wanted.iter_mut().zip(&m).for_each(|(w, m)| *w = *w * *m);
        let got = context.decrypt(&power, &secret)?;
        steps.push(row(format!("power {k}"), power.level(), &got, &wanted, power.error()));
    }
    Ok(Report {
        scheme: "ckks",
        params: params.name,
        log2_degree: params.log2_degree,
        slots,
        levels: top,
        security_bits: params.security_bits,
        security_source: params.security_source,
        device: report::machine(&evaluator.info()),
        stored_key_bytes: stored,
        key_bytes: keys.bytes(),
        keygen_seconds,
        encrypt_seconds,
        decrypt_seconds,
        multiply_seconds: median(seconds),
        rotate_seconds,
        checked: slots * steps.len(),
        right: steps.iter().all(Row::right),
        steps,
        peak_memory_bytes: peak_memory(),
    })
}

fn print(r: &Report) -> Result<()> {
    let cells = |s: &Row| {
        let bits = [s.bits_mean, s.bits_worst, s.bits_claimed].map(|b| format!("{b:.1}"));
        [vec![s.what.clone(), s.level.to_string()], bits.to_vec()].concat()
    };
    let steps: Vec<Vec<String>> = r.steps.iter().map(cells).collect();
    let seconds = |s: f64| format!("{s:.4} s");
    let keys = format!(
        "{} stored, {} in memory, made in {}",
        megabytes(r.stored_key_bytes),
        megabytes(r.key_bytes),
        seconds(r.keygen_seconds)
    );
    let mut rows = vec![
        ("parameter set", format!("{}, N = 2^{}, no bootstrap", r.params, r.log2_degree)),
        ("device", r.device.clone()),
        ("security", format!("{:.1} bits ({})", r.security_bits, r.security_source)),
        (
            "encrypt, decrypt",
            format!("{}, {}", seconds(r.encrypt_seconds), seconds(r.decrypt_seconds)),
        ),
        ("product", format!("{}, relinearized and rescaled", seconds(r.multiply_seconds))),
        ("rotation", seconds(r.rotate_seconds)),
        ("keys", keys),
    ];
    if let Some(bytes) = r.peak_memory_bytes {
        rows.push(("peak memory", megabytes(bytes as usize)));
    }
    let verdict = if r.right { "all right" } else { "WRONG" };
    rows.push(("results", format!("{} checked, {verdict}", counted(r.checked, "value"))));
    let head = ["", "level", "bits, mean", "worst", "claimed"];
    report::print(&format!("\n{}\n\n{}", table(&head, &steps), facts(&rows)))
}
