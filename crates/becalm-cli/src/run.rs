//! `becalm run`: the main job of both schemes, from keys to checked results, with every figure that it claims.

use crate::apps;
use crate::ckks;
use crate::levelled;
use crate::packed;
use crate::report::{self, facts, keygen, milliseconds, peak_memory};
use crate::status::usage;
use anyhow::{Result, bail};
use becalm::backend::{Backend, Ckks, Cpu, Evaluator, Tfhe, for_params};
use becalm::cipher::{Encoding, Lwe, SecretKey};
use becalm::params::{CkksParams, TfheParams};
use becalm::tfhe::noise::NoiseReport;
use becalm::tfhe::{Table, noise};
use becalm::words::megabytes;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// The name that stands for the usual CKKS set of a kind, as in Python.
const USUAL: &str = "ckks";

/// Bootstraps whose noise is measured: the 99 % interval of a variance is then ±16 %.
const NOISE_SAMPLES: usize = 512;

#[derive(clap::Args)]
pub struct Args {
    /// The scheme to run. Without it `--params` and the other options decide; both schemes run if nothing decides.
    #[arg(long, value_parser = ["tfhe", "ckks", "both"])]
    scheme: Option<String>,
    /// The parameter set (see `becalm params`). Without it, tfhe_2_2, or the usual CKKS set of the kind; `ckks` names that set too.
    #[arg(long)]
    params: Option<String>,
    /// Values to bootstrap, each below the set's number of values; by default every value once. A set of CKKS with tables takes them too.
    #[arg(long, value_delimiter = ',', value_parser = report::value, allow_hyphen_values = true)]
    values: Vec<u64>,
    /// The lookup table, one entry for each value; by default m² + 1 modulo the number of values.
    #[arg(long, value_delimiter = ',', value_parser = report::value, allow_hyphen_values = true)]
    table: Vec<u64>,
    /// Run an application instead: integers of 64 bits; or AES-128, of one block and of data that arrives encrypted.
    #[arg(long, value_parser = ["uint64", "aes"], conflicts_with_all = ["values", "table"])]
    app: Option<String>,
    /// The machine that computes; auto is a GPU if there is one that can.
    #[arg(long, default_value = "cpu", value_parser = report::Device)]
    device: String,
    /// Threads; 0 for all.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Allow toy and comparison sets below 128 bits.
    #[arg(long)]
    allow_insecure: bool,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
    /// CKKS: at N = 2^16 with the keys asked for, even if memory is short.
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    ckks: ckks::Job,
}

/// The findings of a run.
#[derive(Serialize)]
struct Report {
    scheme: String,
    params: String,
    device: String,
    security_bits: f64,
    security_source: String,
    log2_pfail: f64,
    bootstrap_key_bytes: u64,
    key_switch_key_bytes: u64,
    stored_key_bytes: usize,
    keygen_seconds: f64,
    expand_seconds: f64,
    single_seconds: f64,
    batch: usize,
    slots: usize,
    log2_pfail_any_slot: f64,
    batch_seconds_per_ciphertext: f64,
    noise_log2_std_measured: f64,
    noise_log2_std_formula: f64,
    noise_variance_ratio: f64,
    noise_interval_99: (f64, f64),
    peak_memory_bytes: Option<u64>,
    values: Vec<u64>,
    results: Vec<u64>,
    checked: usize,
    wrong: usize,
}

/// Runs the main job.
pub fn run(args: &Args) -> Result<()> {
    let [tfhe, ckks] = schemes(args)?;
    if let Some(app) = &args.app {
        let params = allowed(args)?;
        let on = machines(args, params)?;
        return apps::run(app, params, &on, args.allow_insecure, args.json);
    }
    if let Some(params) = without_bootstrap(args).filter(|_| ckks) {
        if args.full {
            usage!(
                "--full is N = 2^16, and `{}` has another N: leave one of them out",
                params.name
            );
        }
        params.require_secure(args.allow_insecure)?;
        let cpu = Cpu::new(args.threads)?;
        let machine = for_params::<Ckks>(&args.device, &cpu, params)?;
        return levelled::run(params, &args.ckks, &cpu, machine.as_ref(), args.json);
    }
    if let Some(params) = with_tables(args).filter(|_| ckks) {
        if args.ckks.is_given() || args.full {
            usage!("`{}` looks integers up: leave the options of CKKS out", params.name);
        }
        params.require_secure(args.allow_insecure)?;
        let on = ckks::On { device: &args.device, threads: args.threads };
        return packed::run(params, (&args.table, &args.values), on, args.json);
    }
    let tfhe = tfhe.then(|| bootstraps(args, allowed(args)?)).transpose()?;
    let ckks = ckks.then(|| run_ckks(args, tfhe.is_some())).transpose()?;
    match (&tfhe, &ckks) {
        _ if !args.json => {}
        (Some(tfhe), Some(ckks)) => report::json(&json!({"tfhe": tfhe, "ckks": ckks}))?,
        _ => {
            tfhe.as_ref().map(report::json).transpose()?;
            ckks.as_ref().map(report::json).transpose()?;
        }
    }
    if let Some(r) = tfhe.filter(|r| r.wrong > 0) {
        bail!("{} of {} results are wrong", r.wrong, r.checked);
    }
    ckks.as_ref().map_or(Ok(()), ckks::require_right)
}

/// The set of CKKS that is asked for, if it has no bootstrap.
fn without_bootstrap(args: &Args) -> Option<&'static CkksParams> {
    let params = CkksParams::named(args.params.as_deref()?).ok()?;
    params.bootstrap.is_none().then_some(params)
}

/// The set of CKKS that is asked for, if it looks integers up in tables.
fn with_tables(args: &Args) -> Option<&'static CkksParams> {
    packed::set(args.params.as_deref()?)
}

/// The threads that make keys, and the machine that computes.
fn machines(args: &Args, params: &TfheParams) -> Result<(Cpu, Arc<dyn Backend>)> {
    let cpu = Cpu::new(args.threads)?;
    let machine = for_params::<Tfhe>(&args.device, &cpu, params)?;
    Ok((cpu, machine))
}

/// The set of TFHE.
fn allowed(args: &Args) -> Result<&'static TfheParams> {
    let params = TfheParams::named(args.params.as_deref().unwrap_or("tfhe_2_2"))?;
    params.require_secure(args.allow_insecure)?;
    Ok(params)
}

fn run_ckks(args: &Args, after: bool) -> Result<ckks::Report> {
    if after && !args.json {
        report::print("")?;
    }
    let (name, full) = (args.params.as_deref().filter(|name| *name != USUAL), args.full);
    let on = ckks::On { device: &args.device, threads: args.threads };
    ckks::run(&args.ckks, name, full, args.allow_insecure, on, args.json)
}

/// Whether TFHE is to run, and CKKS: as asked, or by the other options.
fn schemes(args: &Args) -> Result<[bool; 2]> {
    let looks_up = !args.values.is_empty() || !args.table.is_empty();
    let of_tfhe = args.app.is_some() || looks_up && with_tables(args).is_none();
    let of_ckks = args.ckks.is_given() || args.full;
    // At full size in every mode.
    let only_full = of_ckks && !args.ckks.is_given();
    let named = args.params.as_deref();
    let named = named.map(|name| name == USUAL || CkksParams::named(name).is_ok());
    let asked = match (args.scheme.as_deref(), named) {
        (Some("tfhe"), _) => [true, false],
        (Some("ckks"), _) => [false, true],
        (None, Some(ckks)) => [!ckks, ckks],
        (None, None) if args.app.is_some() => [true, false],
        (None, None) if of_tfhe != of_ckks && !only_full => [of_tfhe, !of_tfhe],
        _ => [true, true],
    };
    match asked {
        [true, true] if args.params.is_some() || args.app.is_some() => {
            usage!("--params and --app belong to one scheme: choose --scheme tfhe or --scheme ckks")
        }
        [true, false] if of_ckks => usage!(
            "--kind, --keys, --slots, --stage-count, --iterations, --of, --compact and --full are for CKKS: leave them out, or use --scheme ckks"
        ),
        [false, true] if of_tfhe => {
            usage!(
                "--values and --table are for TFHE and sets with tables, --app for TFHE: leave them out, or use --scheme tfhe"
            )
        }
        _ => Ok(asked),
    }
}

fn bootstraps(args: &Args, params: &TfheParams) -> Result<Report> {
    let encoding = Encoding::of(params);
    let (entries, values) = job(args, encoding)?;
    let table = Table::new(params, &entries)?;
    let (cpu, machine) = machines(args, params)?;
    if !args.json {
        announce(params)?;
    }
    let started = Instant::now();
    let secret = SecretKey::generate(params, args.allow_insecure)?;
    let keys = cpu.install(|| keygen(&secret))?;
    let keygen_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let evaluator = Evaluator::new(machine.as_ref(), &keys)?;
    let expand_seconds = started.elapsed().as_secs_f64();
    let given = secret.encrypt_as(&values, encoding, entries.len() as u64)?;
    let results = secret.decrypt(&bootstrap(&evaluator, &given, &table, "given values")?)?;
    let wrong_given = wrong(&values, &results, &entries);
    if !args.json {
        show(&values, &results, &entries)?;
    }
    let measured = measure(&secret, &evaluator, &table, &entries)?;
    let formula = noise::bootstrap_output(params);
    let report = Report {
        scheme: "tfhe".into(),
        params: params.name.to_string(),
        device: report::machine(&evaluator.info()),
        security_bits: params.security_bits,
        security_source: params.security_source.to_string(),
        log2_pfail: params.log2_pfail,
        bootstrap_key_bytes: params.bootstrap_key_bytes(),
        key_switch_key_bytes: params.key_switch_key_bytes(),
        stored_key_bytes: keys.seeded_bytes(),
        keygen_seconds,
        expand_seconds,
        single_seconds: measured.single,
        batch: measured.batch,
        slots: params.slots,
        log2_pfail_any_slot: NoiseReport::of(params).log2_pfail_of_any_slot(),
        batch_seconds_per_ciphertext: measured.per_ciphertext,
        noise_log2_std_measured: measured.variance.sqrt().log2(),
        noise_log2_std_formula: formula.sqrt().log2(),
        noise_variance_ratio: measured.variance / formula,
        noise_interval_99: interval(measured.samples),
        peak_memory_bytes: peak_memory(),
        checked: values.len() + measured.samples,
        values,
        results,
        wrong: wrong_given + measured.wrong,
    };
    if !args.json {
        print(&report)?;
    }
    Ok(report)
}

/// The table's entries and the values to look up.
fn job(args: &Args, encoding: Encoding) -> Result<(Vec<u64>, Vec<u64>)> {
    let or = |given: &[u64], default: &dyn Fn() -> Vec<u64>| {
        if given.is_empty() { default() } else { given.to_vec() }
    };
    let p = encoding.values;
    let entries = or(&args.table, &|| (0..p).map(|m| (m * m + 1) % p).collect());
    let values = or(&args.values, &|| (0..entries.len() as u64).collect());
    if let Some(v) = values.iter().find(|v| **v >= entries.len() as u64) {
        let n = entries.len();
        let (wanted, got) = (format!("values below {n}, the entries of the table"), v.to_string());
        let remedy = format!("leave it out, or give --table an entry for each value below {p}");
        return Err(becalm::Error::bad_input("run", wanted, got, remedy).into());
    }
    Ok((entries, values))
}

fn announce(p: &TfheParams) -> Result<()> {
    let expanded = p.bootstrap_key_bytes() + p.key_switch_key_bytes();
    report::print(&format!(
        "{}: {:.1} bits of security, failure probability 2^{:.1} per bootstrap, {} values{}\nkeys to make: {} stored, {} in memory",
        p.name,
        p.security_bits,
        p.log2_pfail,
        p.plaintext_modulus(),
        if p.slots > 1 { format!(" in each of {} slots", p.slots) } else { String::new() },
        megabytes((p.seeded_bootstrap_key_bytes() + p.seeded_key_switch_key_bytes()) as usize),
        megabytes(expanded as usize),
    ))
}

fn bootstrap(evaluator: &Evaluator, x: &Lwe, table: &Table, what: &str) -> Result<Lwe> {
    let bar = report::bar(what, x.len());
    let y = evaluator.bootstrap_with(x, table, &report::follow(&bar))?;
    bar.finish_and_clear();
    Ok(y)
}

fn wrong(values: &[u64], results: &[u64], entries: &[u64]) -> usize {
    let right = |(m, r): (&u64, &u64)| entries.get(*m as usize) == Some(r);
    values.iter().zip(results).filter(|pair| !right(*pair)).count()
}

fn show(values: &[u64], results: &[u64], entries: &[u64]) -> Result<()> {
    let line = |name: &str, of: &mut dyn Iterator<Item = u64>| {
        let cells: Vec<String> = of.take(16).map(|v| format!("{v:>4}")).collect();
        format!("  {name:9}{}{}", cells.join(""), if values.len() > 16 { " …" } else { "" })
    };
    report::print(&line("value", &mut values.iter().copied()))?;
    report::print(&line("table", &mut values.iter().map(|v| entries[*v as usize])))?;
    report::print(&line("decrypted", &mut results.iter().copied()))
}

struct Measured {
    single: f64,
    /// Ciphertexts.
    batch: usize,
    /// Messages in them.
    samples: usize,
    per_ciphertext: f64,
    variance: f64,
    wrong: usize,
}

/// Times bootstraps one by one and in a batch, and measures the noise of the batch's results.
fn measure(
    secret: &SecretKey,
    evaluator: &Evaluator,
    table: &Table,
    entries: &[u64],
) -> Result<Measured> {
    let params = secret.params();
    // Large sets take seconds a bootstrap: fewer samples there.
    let samples = if params.polynomial_size > 4096 { 16 } else { NOISE_SAMPLES };
    let p = entries.len() as u64;
    let values: Vec<u64> = (0..samples as u64).map(|i| i % p).collect();
    let x = secret.encrypt_as(&values, Encoding::of(params), p)?;
    let batch = x.len();
    let singles = (0..9.min(batch)).map(|i| {
        let one = x.slice(i..i + 1)?;
        let started = Instant::now();
        evaluator.bootstrap(&one, table)?;
        Ok(started.elapsed().as_secs_f64())
    });
    let single = report::median(singles.collect::<Result<Vec<f64>>>()?);
    let started = Instant::now();
    let y = bootstrap(evaluator, &x, table, "batch")?;
    let per_ciphertext = started.elapsed().as_secs_f64() / batch as f64;
    let results = secret.decrypt(&y)?;
    let errors =
        secret.errors(&y, &values.iter().map(|m| entries[*m as usize]).collect::<Vec<_>>())?;
    let variance = errors.iter().map(|e| e * e).sum::<f64>() / samples as f64;
    Ok(Measured {
        single,
        batch,
        samples,
        per_ciphertext,
        variance,
        wrong: wrong(&values, &results, entries),
    })
}

/// Where the ratio of a measured variance to the true one lies with probability 99 %: χ²_n/n by Wilson and Hilferty.
fn interval(samples: usize) -> (f64, f64) {
    let n = samples as f64;
    let at = |z: f64| (1.0 - 2.0 / (9.0 * n) + z * (2.0 / (9.0 * n)).sqrt()).powi(3);
    (at(-2.5758), at(2.5758))
}

fn failure(r: &Report) -> String {
    match r.slots {
        1 => format!("2^{:.1} per bootstrap", r.log2_pfail),
        w => format!(
            "2^{:.1} per bootstrap and slot, 2^{:.1} for any of {w} slots",
            r.log2_pfail, r.log2_pfail_any_slot
        ),
    }
}

/// The cost of a message in a ciphertext with several slots.
fn each_message(r: &Report) -> String {
    let each = milliseconds(r.batch_seconds_per_ciphertext / r.slots as f64);
    if r.slots > 1 { format!("; {each} per message, {} slots", r.slots) } else { String::new() }
}

fn print(r: &Report) -> Result<()> {
    let (low, high) = r.noise_interval_99;
    let mut rows = vec![
        ("parameter set", r.params.clone()),
        ("device", r.device.clone()),
        ("security", format!("{:.1} bits ({})", r.security_bits, r.security_source)),
        ("failure probability", failure(r)),
        ("bootstrapping key", megabytes(r.bootstrap_key_bytes as usize)),
        ("key-switching key", megabytes(r.key_switch_key_bytes as usize)),
        ("keys as stored", megabytes(r.stored_key_bytes)),
        (
            "key generation",
            format!("{:.2} s, then {:.2} s to expand", r.keygen_seconds, r.expand_seconds),
        ),
        ("one bootstrap", format!("{} with key switch", milliseconds(r.single_seconds))),
        (
            "in a batch",
            format!(
                "{} per ciphertext, batch of {}{}",
                milliseconds(r.batch_seconds_per_ciphertext),
                r.batch,
                each_message(r)
            ),
        ),
        (
            "noise measured",
            format!("2^{:.2} (standard deviation, torus)", r.noise_log2_std_measured),
        ),
        (
            "noise formula",
            format!(
                "2^{:.2}; variance ratio {:.3}, 99 % interval {low:.2} to {high:.2}",
                r.noise_log2_std_formula, r.noise_variance_ratio
            ),
        ),
    ];
    if let Some(bytes) = r.peak_memory_bytes {
        rows.push(("peak memory", megabytes(bytes as usize)));
    }
    let verdict = if r.wrong == 0 { "all right".to_string() } else { format!("{} WRONG", r.wrong) };
    rows.push(("results", format!("{} checked, {verdict}", r.checked)));
    report::print(&format!("\n{}", facts(&rows)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_scheme_is_that_of_what_is_given() {
        let of = |line: &str| {
            let words = std::iter::once("run").chain(line.split_whitespace());
            schemes(&Line::try_parse_from(words).unwrap().args).ok()
        };
        let [both, tfhe, ckks] = [[true, true], [true, false], [false, true]].map(Some);
        for (line, wanted) in [
            ("", both),
            ("--full", both),
            ("--json --threads 1", both),
            ("--scheme both --values 3,1,2", both),
            ("--values 3 --kind sparse", both),
            ("--values 3 --full", both),
            ("--scheme tfhe", tfhe),
            ("--values 3,1,2", tfhe),
            ("--app aes", tfhe),
            ("--params toy_1_1", tfhe),
            ("--params no_such_set", tfhe),
            ("--kind slots_first --full", ckks),
            ("--keys medium", ckks),
            ("--params ckks_regular", ckks),
            ("--params ckks_regular --values 1", None),
            ("--params ckks_table_4 --values 1 --table 2", ckks),
            ("--app aes --kind slots_first", None),
        ] {
            assert_eq!(of(line), wanted, "{line}");
        }
    }
}
