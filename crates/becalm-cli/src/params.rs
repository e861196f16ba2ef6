//! `becalm params`: the table of parameter sets, one set with its noise budget, or a search for one.

use crate::report::{self, facts, table};
use crate::search;
use crate::status::usage;
use anyhow::Result;
use becalm::params::{CkksParams, Kind, TfheParams};
use becalm::tfhe::noise::NoiseReport;
use becalm::words::megabytes;
use serde_json::{Value, json};

#[derive(clap::Args)]
pub struct Args {
    /// One set, with its noise budget or, of CKKS, its levels and the size of its keys; the sets of a family (`ckks`); without a name, all sets.
    name: Option<String>,
    /// The sets of the artifact of "Sharing the Mask" (TCHES 2025/4) instead, per slot and for all slots.
    #[arg(long, conflicts_with_all = ["name", "search"])]
    paper: bool,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    search: search::Args,
}

/// Lists the sets, describes one or searches for one.
pub fn run(args: &Args) -> Result<()> {
    if args.search.security.is_some() && !args.search.search && !args.paper {
        usage!(
            "--security belongs to --search or --paper; `becalm estimate --params NAME` estimates a set"
        );
    }
    if args.search.search {
        return search::run(&args.search, args.json);
    }
    if args.paper {
        return crate::paper::run(args.search.security.is_some(), args.json);
    }
    match &args.name {
        Some(name) => match CkksParams::all().iter().find(|p| p.name == name) {
            Some(set) => crate::params_ckks::describe(set, args.json),
            None if Sets::of(name).is_some() => list(Sets::of(name), args.json),
            None => describe(TfheParams::named(name)?, args.json),
        },
        None => list(None, args.json),
    }
}

/// The sets of a family, `ckks` or `tfhe_2`, whose names begin with it.
struct Sets {
    tfhe: Vec<&'static TfheParams>,
    ckks: Vec<&'static CkksParams>,
}

impl Sets {
    fn all() -> Sets {
        Sets { tfhe: TfheParams::all().iter().collect(), ckks: CkksParams::all().iter().collect() }
    }

    /// None for a name that is not of a family.
    fn of(family: &str) -> Option<Sets> {
        let is_set = TfheParams::all().iter().any(|p| p.name == family);
        let of = |name: &str| name.strip_prefix(family).is_some_and(|rest| rest.starts_with('_'));
        let mut sets = Sets::all();
        sets.tfhe.retain(|p| of(&p.name));
        sets.ckks.retain(|p| of(p.name));
        let none = is_set || sets.tfhe.is_empty() && sets.ckks.is_empty();
        if none { None } else { Some(sets) }
    }
}

fn as_json(p: &TfheParams) -> Result<Value> {
    let mut value = serde_json::to_value(p)?;
    value["scheme"] = json!("tfhe");
    value["bootstrap_key_bytes"] = json!(p.bootstrap_key_bytes());
    value["key_switch_key_bytes"] = json!(p.key_switch_key_bytes());
    value["stored_key_bytes"] =
        json!(p.seeded_bootstrap_key_bytes() + p.seeded_key_switch_key_bytes());
    value["ciphertext_bytes"] = json!(p.ciphertext_bytes());
    Ok(value)
}

fn list(family: Option<Sets>, as_text_json: bool) -> Result<()> {
    let sets = family.unwrap_or_else(Sets::all);
    if as_text_json {
        let tfhe = sets.tfhe.iter().map(|p| as_json(p));
        let all = tfhe.chain(sets.ckks.iter().map(|p| crate::params_ckks::as_json(p)));
        return report::json(&all.collect::<Result<Vec<_>>>()?);
    }
    if !sets.tfhe.is_empty() {
        list_tfhe(&sets.tfhe)?;
    }
    if !sets.ckks.is_empty() {
        crate::params_ckks::list(&sets.ckks)?;
    }
    if sets.tfhe.iter().any(|p| p.kind != Kind::Standard)
        || sets.ckks.iter().any(|p| p.kind != Kind::Standard)
    {
        report::print("\ncomparison and toy sets are insecure and run only with --allow-insecure")?;
    }
    Ok(())
}

fn list_tfhe(sets: &[&TfheParams]) -> Result<()> {
    let head = [
        "set",
        "kind",
        "values",
        "slots",
        "modulus",
        "n",
        "k",
        "N",
        "security",
        "log2 p_fail",
        "keys stored",
        "in memory",
    ];
    let row = |p: &TfheParams| {
        vec![
            p.name.to_string(),
            format!("{:?}", p.kind).to_lowercase(),
            p.plaintext_modulus().to_string(),
            p.slots.to_string(),
            p.modulus.to_string(),
            p.lwe_dimension.to_string(),
            p.glwe_dimension.to_string(),
            p.polynomial_size.to_string(),
            format!("{:.1}", p.security_bits),
            format!("{:.1}", p.log2_pfail),
            megabytes((p.seeded_bootstrap_key_bytes() + p.seeded_key_switch_key_bytes()) as usize),
            megabytes((p.bootstrap_key_bytes() + p.key_switch_key_bytes()) as usize),
        ]
    };
    let rows: Vec<Vec<String>> = sets.iter().map(|p| row(p)).collect();
    report::print("TFHE: integers and their tables\n")?;
    report::print(&table(&head, &rows))
}

fn describe(p: &TfheParams, as_text_json: bool) -> Result<()> {
    if as_text_json {
        let mut value = as_json(p)?;
        let noise = NoiseReport::of(p);
        value["noise_variance"] = json!(noise);
        return report::json(&value);
    }
    let noise = NoiseReport::of(p);
    report::print(&facts(&[
        ("set", format!("{} ({:?}, {})", p.name, p.kind, p.source)),
        ("security", format!("{:.2} bits ({})", p.security_bits, p.security_source)),
        (
            "failure probability",
            format!("2^{:.3} claimed, 2^{:.3} by formula", p.log2_pfail, noise.log2_pfail),
        ),
        ("values", format!("{} messages × {} carries", p.message_modulus, p.carry_modulus)),
        ("slots", format!("{} in a ciphertext", p.slots)),
        (
            "dimensions",
            format!(
                "n = {}, k = {}, N = {}, modulo {}",
                p.lwe_dimension, p.glwe_dimension, p.polynomial_size, p.modulus
            ),
        ),
        ("key", p.assumption().unwrap_or("uniform binary, both keys independent").to_string()),
        ("rotation", format!("{:?}", p.rotation)),
        ("bootstrap gadget", format!("B = 2^{}, ℓ = {}", p.pbs.base_log, p.pbs.level)),
        (
            "key switch gadget",
            format!("B = 2^{}, ℓ = {}, modulo 2^{}", p.ks.base_log, p.ks.level, p.ks_modulus_log2),
        ),
        (
            "keys",
            format!(
                "{} stored",
                megabytes(
                    (p.seeded_bootstrap_key_bytes() + p.seeded_key_switch_key_bytes()) as usize
                )
            ),
        ),
    ]))?;
    report::print(&format!("\n{noise}"))
}
