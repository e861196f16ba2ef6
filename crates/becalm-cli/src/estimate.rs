//! `becalm estimate`: how hard an LWE instance or a parameter set is, attack by attack.

use crate::report::{self, table};
use crate::status::usage;
use anyhow::Result;
use becalm::params::{CkksParams, TfheParams};
use becalm::security::{Attack, Instance, Report, Search, Secret, estimate};

#[derive(clap::Args)]
pub struct Args {
    /// Both keys of a parameter set of TFHE or CKKS, instead of an instance.
    #[arg(long, conflicts_with_all = ["n", "log_q", "noise_std", "secret", "targets"])]
    params: Option<String>,
    /// Dimension of the secret.
    #[arg(long)]
    n: Option<u32>,
    /// log2 of the modulus.
    #[arg(long)]
    log_q: Option<f64>,
    /// Distribution of the secret: binary, ternary, sparse:WEIGHT or gaussian:STD.
    #[arg(long, default_value = "binary")]
    secret: String,
    /// Standard deviation of the noise, in units of 1 in Z_q.
    #[arg(long)]
    noise_std: Option<f64>,
    /// Secrets that one reduced basis serves: N for samples over Z[X]/(X^N + 1), 1 for plain LWE.
    #[arg(long, default_value_t = 1)]
    targets: u32,
    /// Scan the whole range of every attack's parameters, and find minima that the usual search misses.
    #[arg(long)]
    strict: bool,
    /// Also the attacks that guess part of the secret; slow for dense secrets, which they do not threaten.
    #[arg(long)]
    all: bool,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

/// Estimates and reports.
pub fn run(args: &Args) -> Result<()> {
    let search = if args.strict { Search::Strict } else { Search::Reference };
    let reports = instances(args)?
        .iter()
        .map(|i| {
            estimate(i, if args.all { &Attack::ALL } else { Attack::for_secret(i.secret) }, search)
        })
        .collect::<becalm::Result<Vec<Report>>>()?;
    if args.json {
        return match &reports[..] {
            [one] => report::json(one),
            both => report::json(&both),
        };
    }
    reports.iter().try_for_each(print)
}

fn instances(args: &Args) -> Result<Vec<Instance>> {
    if let Some(name) = &args.params {
        if let Some(set) = CkksParams::all().iter().find(|p| p.name == name) {
            return Ok(set.instances());
        }
        return Ok(TfheParams::named(name)?.instances().to_vec());
    }
    let (Some(n), Some(log2_q), Some(noise_std)) = (args.n, args.log_q, args.noise_std) else {
        usage!(
            "nothing to estimate: give a set with --params, or an instance with --n, --log-q and --noise-std"
        );
    };
    let secret = secret(&args.secret)?;
    Ok(vec![Instance { n, log2_q, secret, noise_std, targets: args.targets }])
}

/// A distribution as `--secret` takes it.
fn written(secret: Secret) -> String {
    match secret {
        Secret::Binary => "binary".into(),
        Secret::Ternary => "ternary".into(),
        Secret::Sparse { weight } => format!("sparse:{weight}"),
        Secret::Gaussian { std } => format!("gaussian:{std}"),
    }
}

fn secret(text: &str) -> Result<Secret> {
    fn refused<T>(text: &str) -> Result<T> {
        usage!("--secret takes binary, ternary, sparse:WEIGHT or gaussian:STD, not {text}")
    }
    Ok(match text.split_once(':') {
        None if text == "binary" => Secret::Binary,
        None if text == "ternary" => Secret::Ternary,
        Some(("sparse", weight)) => {
            Secret::Sparse { weight: weight.parse().or_else(|_| refused(text))? }
        }
        Some(("gaussian", std)) => {
            Secret::Gaussian { std: std.parse().or_else(|_| refused(text))? }
        }
        _ => refused(text)?,
    })
}

fn print(r: &Report) -> Result<()> {
    let i = &r.instance;
    report::print(&format!(
        "n = {}, q = 2^{}, noise 2^{:.3}, {} secret, {} search: {:.2} bits",
        i.n,
        i.log2_q,
        i.noise_std.log2(),
        written(i.secret),
        format!("{:?}", r.search).to_lowercase(),
        r.bits()
    ))?;
    let cell = |v: Option<u32>| v.map_or(String::new(), |v| v.to_string());
    let rows: Vec<Vec<String>> = r
        .estimates
        .iter()
        .map(|e| {
            let mut row = vec![e.attack.name().to_string(), format!("{:.2}", e.bits)];
            row.extend([e.beta, e.d, e.eta, e.zeta, e.t].map(cell));
            row
        })
        .collect();
    report::print(&table(&["attack", "bits", "β", "d", "η", "ζ", "t"], &rows))
}
