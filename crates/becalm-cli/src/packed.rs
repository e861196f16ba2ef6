//! Packed integers of CKKS: `becalm encrypt | decrypt` with files between them, and `becalm run` of a set with tables.

use crate::ckks::{On, keys as make_keys, prepared, timed};
use crate::files::{DecryptArgs, EncryptArgs};
use crate::output::{file, read};
use crate::programs::context_of;
use crate::report::{self, Given, facts, median, milliseconds, peak_memory};
use crate::threshold::{self, SECRET};
use anyhow::{Result, bail};
use becalm::backend::{Backend, Ckks, CkksSetup, Cpu, Evaluator, for_params};
use becalm::bootstrap::ckks::{KeyPlan, Wish};
use becalm::ckks::Context;
use becalm::math::memory::available_memory;
use becalm::params::CkksParams;
use becalm::program::rlwe::CkksProgram;
use becalm::words::{counted, megabytes};
use serde_json::{Value, json};
use std::sync::Arc;

/// Runs of `becalm run`, of which the median is told.
const RUNS: usize = 3;

/// The set of this name, if it has tables of integers.
pub fn set(name: &str) -> Option<&'static CkksParams> {
    CkksParams::named(name).ok().filter(|set| bits_of(set) > 0)
}

/// Most bits of an integer of a set.
pub(crate) fn bits_of(params: &CkksParams) -> u32 {
    params.bootstrap.map_or(0, |own| own.table_bits)
}

/// Encrypts packed integers.
pub fn encrypt(args: &EncryptArgs) -> Result<()> {
    let context = context_of(&args.secret, SECRET, args.trust.trust())?;
    let secret = read(&args.secret, |path| context.load_secret_key(path, args.trust.trust()))?;
    let bits = args.bits.unwrap_or_else(|| bits_of(context.params()).max(1));
    let x = context.encrypt_integers(&Given::integers(&args.values)?, bits, &secret)?;
    let bytes = context.ciphertext_to_bytes(&x)?;
    let (count, size) = (args.values.len(), bytes.len());
    args.force.save(vec![file(&args.out, false, bytes)])?;
    if args.json {
        return report::json(
            &json!({ "out": args.out, "integers": count, "bits": bits, "bytes": size }),
        );
    }
    let what = format!("{} of {bits} bits", counted(count, "integer"));
    report::print(&format!("{}: {what}, {}", args.out.display(), megabytes(size)))
}

/// Decrypts a ciphertext of CKKS: its integers, or the values of its slots.
pub fn decrypt(args: &DecryptArgs) -> Result<()> {
    let trust = args.trust.trust();
    // The ciphertext says which key is wanted.
    let context = context_of(&args.input, "a ciphertext of CKKS", args.trust.trust())?;
    let secret = read(&args.secret, |path| context.load_secret_key(path, trust))?;
    let (x, real) = read(&args.input, |path| context.load_noted_ciphertext(path, trust))?;
    if x.integers().is_none() {
        return threshold::show(&context.decrypt(&x, &secret)?, real == Some(true), args.json);
    }
    let values = context.decrypt_integers(&x, &secret)?;
    if args.json {
        return report::json(&values);
    }
    report::print(&values.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
}

/// `becalm run` of a set with tables: looks values up, checks every one and reports. Without values those of a whole ciphertext.
pub fn run(
    params: &'static CkksParams,
    (entries, values): (&[u64], &[u64]),
    on: On,
    json: bool,
) -> Result<()> {
    let bits = bits_of(params);
    let p = 1u64 << bits;
    let or = |given: &[u64], usual: Vec<u64>| if given.is_empty() { usual } else { given.to_vec() };
    let entries = or(entries, (0..p).map(|m| (m * m + 1) % p).collect());
    let values = or(values, (0..params.degree() as u64).map(|i| i * 7 % p).collect());
    let plan = KeyPlan::new(params, &Wish::default())?;
    let program = Arc::new(plan.tables(bits, std::slice::from_ref(&entries))?);
    // The command has no flags for other keys of a table.
    plan.require("run", available_memory(), |_| None, "use a smaller set, or free memory")?;
    let cpu = Cpu::new(on.threads)?;
    let machine = for_params::<Ckks>(on.device, &cpu, params)?;
    let made = cpu.install(|| looked_up(&plan, &program, machine.as_ref(), &values))?;
    let wanted: Vec<u64> = values.iter().map(|v| entries[*v as usize]).collect();
    let wrong = made.results.iter().zip(&wanted).filter(|(a, b)| a != b).count();
    let report = json!({
        "scheme": "ckks", "params": params.name, "kind": "table", "bits": bits,
        "security_bits": params.security_bits, "security_source": params.security_source,
        "device": made.device, "integers": values.len(), "table": entries,
        "stored_key_bytes": plan.price()?.stored, "keygen_seconds": made.keygen,
        "prepare_seconds": made.prepare, "encrypt_seconds": made.encrypt,
        "lookup_seconds": made.lookup, "decrypt_seconds": made.decrypt,
        "seconds_per_integer": made.lookup / values.len() as f64,
        "error": made.error, "peak_memory_bytes": peak_memory(),
        "checked": values.len(), "wrong": wrong,
    });
    if json {
        report::json(&report)?
    } else {
        print(params, &report)?
    }
    if wrong > 0 {
        bail!("{wrong} of {} results are wrong", values.len());
    }
    Ok(())
}

/// The results of a table, and the seconds of each step.
struct LookedUp {
    device: String,
    keygen: f64,
    prepare: f64,
    encrypt: f64,
    lookup: f64,
    decrypt: f64,
    /// Bound on the error of a result, in units of q_0.
    error: f64,
    results: Vec<u64>,
}

fn looked_up(
    plan: &KeyPlan,
    program: &Arc<CkksProgram>,
    machine: &dyn Backend,
    values: &[u64],
) -> Result<LookedUp> {
    let params = plan.chain().params();
    let context = Arc::new(Context::new(params, true)?);
    let secret = context.secret_key()?;
    let (x, encrypt) = timed(|| Ok(context.encrypt_integers(values, bits_of(params), &secret)?))?;
    let (keys, keygen) = timed(|| make_keys(&context, &secret, &plan.needs(), plan.form()))?;
    let evaluator = Evaluator::new(machine, CkksSetup::new(&context, &Arc::new(keys)))?;
    let (ready, prepare) = timed(|| prepared(machine, &context, program))?;
    let (mut seconds, mut y) = (vec![], x.clone());
    for _ in 0..RUNS {
        let (made, each) = timed(|| Ok(evaluator.run(&ready, &[&x])?))?;
        seconds.push(each);
        y = made.into_iter().next().unwrap_or(y);
    }
    let (results, decrypt) = timed(|| Ok(context.decrypt_integers(&y, &secret)?))?;
    let (device, error) = (report::machine(&evaluator.info()), y.account().worst);
    let lookup = median(seconds);
    Ok(LookedUp { device, keygen, prepare, encrypt, lookup, decrypt, error, results })
}

fn print(params: &CkksParams, r: &Value) -> Result<()> {
    let number = |name: &str| r[name].as_f64().unwrap_or(f64::NAN);
    let seconds = |name: &str| report::duration(number(name));
    let integers = format!("{} of {} bits", r["integers"], r["bits"]);
    let verdict = match r["wrong"].as_u64() {
        Some(0) => "all right".to_string(),
        _ => format!("{} WRONG", r["wrong"]),
    };
    let mut rows = vec![
        ("parameter set", format!("{}, N = 2^{}", params.name, params.log2_degree)),
        ("device", r["device"].as_str().unwrap_or_default().to_string()),
        ("security", format!("{:.1} bits ({})", params.security_bits, params.security_source)),
        ("failure probability", "below 2^-128 for a whole ciphertext".into()),
        ("keys as stored", megabytes(number("stored_key_bytes") as usize)),
        ("key generation", seconds("keygen_seconds")),
        ("integers", integers),
        (
            "encrypt, decrypt",
            format!("{}, {}", seconds("encrypt_seconds"), seconds("decrypt_seconds")),
        ),
        ("matrices", format!("encoded once in {}", seconds("prepare_seconds"))),
        (
            "one table",
            format!(
                "{}, {} for each integer",
                seconds("lookup_seconds"),
                milliseconds(number("seconds_per_integer"))
            ),
        ),
        ("error", format!("at most 2^{:.1} of q_0", number("error").log2())),
    ];
    if let Some(bytes) = r["peak_memory_bytes"].as_u64() {
        rows.push(("peak memory", megabytes(bytes as usize)));
    }
    rows.push(("results", format!("{} checked, {verdict}", r["checked"])));
    report::print(&facts(&rows))
}
