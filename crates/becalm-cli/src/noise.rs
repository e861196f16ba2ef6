//! `becalm noise`: the noise of every step of a set's bootstrap, measured against its formula.

mod plot;

use crate::output::{self, Force};
use crate::report::{self, bar, follow, table};
use anyhow::Result;
use becalm::laboratory::{Effort, Failures, Step, failures, inflate, measure};
use becalm::params::TfheParams;
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// The parameter set; insecure ones too, because nothing secret is encrypted.
    #[arg(long, default_value = "tfhe_2_2")]
    params: String,
    /// Keys: intervals are over keys.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=4096))]
    keys: u16,
    /// Ciphertexts under each key.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    samples: u16,
    /// Bits of the small key, fewer than the set's for a short measurement.
    #[arg(long, value_name = "N")]
    short: Option<usize>,
    /// Also inflate the noise until failures can be counted, and count them.
    #[arg(long)]
    failures: bool,
    /// Where to draw histograms and quantiles.
    #[arg(long, value_name = "OUT.svg")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Report as JSON, samples included.
    #[arg(long)]
    json: bool,
}

/// Measures, reports and draws.
pub fn run(args: &Args) -> Result<()> {
    args.plot.iter().try_for_each(|path| args.force.require_result(path))?;
    let mut params = TfheParams::named(&args.params)?.clone();
    if let Some(n) = args.short {
        params.lwe_dimension = n;
        params.validate()?;
    }
    let effort = Effort { keys: args.keys.into(), per_key: args.samples.into() };
    let progress = bar("measuring", effort.keys);
    let steps = measure(&params, effort, &follow(&progress))?;
    progress.finish_and_clear();
    let counted = args.failures.then(|| count(&params, effort)).transpose()?;
    if let Some(path) = &args.plot {
        output::write(path, plot::svg(&params, &steps).as_bytes())?;
    }
    if args.json {
        return report::json(&json!({
            "params": params.name,
            "lwe_dimension": params.lwe_dimension,
            "steps": steps,
            "tails": steps.iter().map(Step::tail).collect::<Vec<_>>(),
            "failures": counted,
        }));
    }
    print(&params, &steps, counted)
}

fn count(params: &TfheParams, effort: Effort) -> Result<Failures> {
    let progress = bar("counting", effort.keys);
    let counted = failures(&inflate(params)?, effort, &follow(&progress))?;
    progress.finish_and_clear();
    Ok(counted)
}

fn print(params: &TfheParams, steps: &[Step], counted: Option<Failures>) -> Result<()> {
    report::print(&format!(
        "{}, n = {}; standard deviations in fractions of the torus, intervals of 99 %\n",
        params.name, params.lwe_dimension
    ))?;
    let head = [
        "step",
        "formula",
        "measured",
        "ratio of variances",
        "mean",
        "samples",
        "beyond 2, 3 σ (normal)",
    ];
    let row = |s: &Step| {
        let log2 = |v: f64| format!("2^{:.3}", v.log2() / 2.0);
        let tail: Vec<String> = s
            .tail()
            .iter()
            .filter(|t| [2.0, 3.0].contains(&t.beyond))
            .map(|t| format!("{} ({:.1})", t.seen, t.expected))
            .collect();
        let m = s.measured;
        vec![
            s.name.to_string(),
            log2(s.formula),
            log2(m.variance),
            format!(
                "{:.3} ({})",
                m.variance / s.formula,
                m.variance_interval.scale(1.0 / s.formula)
            ),
            format!("{:+.3} σ", (m.mean - s.mean) / s.formula.sqrt()),
            m.samples.to_string(),
            tail.join(", "),
        ]
    };
    report::print(&table(&head, &steps.iter().map(row).collect::<Vec<_>>()))?;
    if let Some(f) = counted {
        report::print(&format!(
            "\nnoise inflated: {} failures of {}, {:.4} ({}), formula {:.4}",
            f.seen,
            f.trials,
            f.seen as f64 / f.trials as f64,
            f.interval,
            f.formula
        ))?;
    }
    Ok(())
}
