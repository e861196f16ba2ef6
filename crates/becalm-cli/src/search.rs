//! `becalm params --search`: the cheapest set for a need, as a row of the parameter table.

use crate::report::{self, bar, follow};
use anyhow::Result;
use becalm::math::Modulus;
use becalm::params::{ModulusSwitch, Noise, Rotation, TfheParams};
use becalm::security::Search;
use becalm::tfhe::noise::NoiseReport;
use becalm::tfhe::search::{Goal, NoiseCurve, search};

#[derive(clap::Args)]
#[group(id = "search_args")]
pub struct Args {
    /// Search for the cheapest set instead.
    #[arg(long, conflicts_with = "name")]
    pub search: bool,
    /// log2 of the values of a table, message and carry together.
    #[arg(long, default_value_t = 4, requires = "search")]
    bits: u32,
    /// log2 of the failure probability of a bootstrap, at most.
    #[arg(long, default_value_t = -128.0, allow_hyphen_values = true, requires = "search")]
    log2_pfail: f64,
    /// With --search: bits of security of both keys, at least (132). With --paper: estimate the security of each set, by the
    /// reference and by the strict search.
    #[arg(long, num_args = 0..=1, value_name = "BITS")]
    pub security: Option<Option<f64>>,
    /// How the blind rotation walks: classic, multi-bit:G, block:B or extended:E for 2^E accumulators.
    #[arg(long, default_value = "classic", value_parser = rotation, requires = "search")]
    rotation: Rotation,
    /// Messages in a ciphertext.
    #[arg(long, default_value_t = 1, requires = "search")]
    slots: usize,
    /// How noise is drawn: tuniform or gaussian.
    #[arg(long, default_value = "tuniform", value_parser = ["tuniform", "gaussian"], requires = "search")]
    noise: String,
    /// log2 of the modulus after the key switch: 32 or 64.
    #[arg(long, default_value_t = 32, requires = "search")]
    ks_modulus: u32,
    /// The modulus of the ciphertexts: 2^64 or p.
    #[arg(long, default_value = "2^64", value_parser = ["2^64", "p"], requires = "search")]
    modulus: String,
    /// 2-norm of the linear combinations that may enter a bootstrap; if left out, the combinations that fill the carry.
    #[arg(long, requires = "search")]
    norm2: Option<f64>,
    /// The measure of security: the usual search of the estimator, the strict one, or the 132-bit lines that tfhe-rs publishes.
    #[arg(long, default_value = "usual", value_parser = ["usual", "strict", "published"], requires = "search")]
    curve: String,
}

fn rotation(text: &str) -> std::result::Result<Rotation, String> {
    let (kind, number) = text.split_once(':').unwrap_or((text, ""));
    let wrong = || format!("wanted classic, multi-bit:G, block:B or extended:E, not {text}");
    Ok(match kind {
        "classic" if number.is_empty() => Rotation::Classic,
        "multi-bit" => Rotation::MultiBit { grouping: number.parse().map_err(|_| wrong())? },
        "block" => Rotation::Block { size: number.parse().map_err(|_| wrong())? },
        "extended" => Rotation::Extended { factor_log2: number.parse().map_err(|_| wrong())? },
        _ => return Err(wrong()),
    })
}

/// Searches and prints the row.
pub fn run(args: &Args, as_json: bool) -> Result<()> {
    let goal = Goal {
        bits: args.bits,
        log2_pfail: args.log2_pfail,
        security_bits: args.security.flatten().unwrap_or(132.0),
        curve: match args.curve.as_str() {
            "usual" => NoiseCurve::Estimated(Search::Reference),
            "strict" => NoiseCurve::Estimated(Search::Strict),
            _ => NoiseCurve::Published132,
        },
        rotation: args.rotation,
        slots: args.slots,
        gaussian: args.noise == "gaussian",
        modulus: if args.modulus == "p" { Modulus::Goldilocks } else { Modulus::Native },
        ks_modulus_log2: args.ks_modulus,
        norm2: args.norm2,
    };
    let progress = bar("searching", 1);
    let found = search(&goal, &follow(&progress))?;
    progress.finish_and_clear();
    if as_json {
        return report::json(&found);
    }
    report::print(&row(&found))?;
    let keys = found.bootstrap_key_bytes() + found.key_switch_key_bytes();
    report::print(&format!(
        "// {:.1} million multiply-adds, keys of {} in memory\n\n{}",
        found.cost() / 1e6,
        becalm::words::megabytes(keys as usize),
        NoiseReport::of(&found)
    ))
}

/// The set as a block of `params/table`.
fn row(p: &TfheParams) -> String {
    let noise = |n: Noise| match n {
        Noise::Gaussian { std } => format!("gauss({std:e})"),
        Noise::TUniform { bound_log2 } => format!("tu({bound_log2})"),
    };
    let switch = match p.modulus_switch {
        ModulusSwitch::Companion { coarsest_log2, weight } => {
            format!(
                "ModulusSwitch::Companion {{ coarsest_log2: {coarsest_log2}, weight: {weight} }}"
            )
        }
        other => format!("ModulusSwitch::{other:?}"),
    };
    let family = p.assumption().unwrap_or("standard keys");
    let lines = [
        format!("// {family}; security_bits by the strict search"),
        format!("const {}: Row = Row {{", p.name.to_uppercase()),
        format!("    name: {:?},", p.name),
        format!("    kind: Kind::{:?},", p.kind),
        format!("    modulus: Modulus::{:?},", p.modulus),
        format!("    order: Order::{:?},", p.order),
        format!("    lwe: ({}, {}),", p.lwe_dimension, noise(p.lwe_noise)),
        format!(
            "    glwe: ({}, {}, {}),",
            p.glwe_dimension,
            p.polynomial_size,
            noise(p.glwe_noise)
        ),
        format!("    pbs: ({}, {}),", p.pbs.base_log, p.pbs.level),
        format!("    ks: ({}, {}),", p.ks.base_log, p.ks.level),
        format!("    ks_modulus_log2: {},", p.ks_modulus_log2),
        format!("    values: ({}, {}),", p.message_modulus, p.carry_modulus),
        format!("    max_norm2: {:?},", p.max_norm2),
        format!("    modulus_switch: {switch},"),
        format!("    rotation: Rotation::{:?},", p.rotation),
        format!("    slots: {},", p.slots),
        format!("    shared_key: {},", p.shared_key),
        format!("    security_bits: {:?},", p.security_bits),
        "    security_source: FULL_SCAN,".into(),
        format!("    log2_pfail: {:?},", p.log2_pfail),
        "    source: \"becalm params --search\",".into(),
        "};".into(),
    ];
    lines.join("\n")
}
