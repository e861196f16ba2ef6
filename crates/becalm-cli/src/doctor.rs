//! `becalm doctor`: a description of this machine, and a check of its arithmetic.

use crate::report::{self, facts};
use anyhow::{Result, bail};
use becalm::Error;
use becalm::backend::{Cpu, Evaluator, gpus, images, nvrtc};
use becalm::cipher::SecretKey;
use becalm::math::memory::available_memory;
use becalm::math::simd::Level;
use becalm::params::{Kind, TfheParams};
use becalm::tfhe::Table;
use becalm::words::megabytes;
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(clap::Args)]
pub struct Args {
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    processor: Option<String>,
    threads: usize,
    instructions: Vec<&'static str>,
    instructions_used: &'static str,
    memory_bytes: Option<u64>,
    huge_pages: Option<String>,
    /// One line each, or why there is none.
    gpus: Vec<String>,
    /// Code for GPUs in this build, with its bytes.
    kernels: Vec<(&'static str, usize)>,
    /// The compiler of other code, if it is there.
    nvrtc: Option<String>,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Check {
    what: String,
    ok: bool,
    /// The check did not run: `detail` says why.
    refused: bool,
    detail: String,
}

/// Looks and checks.
pub fn run(args: &Args) -> Result<()> {
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        processor: first_value("/proc/cpuinfo", "model name"),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        instructions: Level::available().iter().map(|l| l.name()).collect(),
        instructions_used: Level::best().name(),
        memory_bytes: available_memory().map(|bytes| bytes as u64),
        huge_pages: std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .ok()
            .map(|s| s.trim().to_string()),
        gpus: gpus().unwrap_or_else(|e| vec![format!("none: {}", e.detail().got)]),
        kernels: images().collect(),
        nvrtc: nvrtc(),
        checks: vec![],
    };
    // The checks take seconds: people see the rest before them.
    if !args.json {
        print(&report)?;
    }
    report.checks = checks()?;
    if args.json {
        report::json(&report)?;
    } else {
        for c in &report.checks {
            let mark = if c.ok { "✓" } else { "✗" };
            report::print(&format!("  {mark} {}: {}", c.what, c.detail))?;
        }
    }
    if report.checks.iter().any(|c| !c.ok && !c.refused) {
        bail!("a check failed: results on this machine cannot be trusted");
    }
    if report.checks.iter().any(|c| c.refused) {
        bail!("a check was refused, and says nothing of this machine");
    }
    Ok(())
}

/// The number of rings with kernels, their GPUs, and the size.
fn kernels(images: &[(&'static str, usize)]) -> String {
    let parts = || images.iter().filter_map(|(name, _)| name.split_once('.'));
    let rings: BTreeSet<&str> = parts().map(|(ring, _)| ring).collect();
    let kinds: BTreeSet<&str> = parts().filter_map(|(_, kind)| kind.split('.').next()).collect();
    match images.iter().map(|(_, bytes)| bytes).sum() {
        0 => "none in this build".to_string(),
        bytes => {
            let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
            format!("{} of {} rings for {kinds}, {}", images.len(), rings.len(), megabytes(bytes))
        }
    }
}

fn first_value(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// A small bootstrap at every instruction level, for every toy set.
fn checks() -> Result<Vec<Check>> {
    let toys = TfheParams::all().iter().filter(|p| p.kind == Kind::Toy);
    let pairs: Vec<_> =
        toys.flat_map(|p| Level::available().iter().map(move |l| (p, *l))).collect();
    let (all, bar) = (pairs.len(), report::bar("checks", pairs.len()));
    let mut checks = vec![];
    for (params, level) in pairs {
        if report::follow(&bar)(checks.len(), all).is_break() {
            return Err(Error::stopped("doctor", "start it again").into());
        }
        let what = format!("bootstrap {} with {}", params.name, level.name());
        checks.push(match bootstraps_right(params, level) {
            Ok(true) => Check { what, ok: true, refused: false, detail: "right".into() },
            Ok(false) => Check { what, ok: false, refused: false, detail: "wrong result".into() },
            Err(e) => {
                let refused = matches!(e, Error::Memory(_) | Error::Unsupported(_));
                Check { what, ok: false, refused, detail: e.to_string() }
            }
        });
    }
    bar.finish_and_clear();
    Ok(checks)
}

fn bootstraps_right(params: &TfheParams, level: Level) -> becalm::Result<bool> {
    let p = params.plaintext_modulus();
    let secret = SecretKey::generate(params, true)?;
    let evaluator = Evaluator::new(&Cpu::with_instructions(0, level)?, &secret.evaluation_key()?)?;
    let values: Vec<u64> = (0..p).collect();
    let table = Table::from_fn(params, |m| p - 1 - m)?;
    let results = secret.decrypt(&evaluator.bootstrap(&secret.encrypt(&values)?, &table)?)?;
    Ok(results.iter().zip(&values).all(|(r, m)| *r == p - 1 - m))
}

fn print(r: &Report) -> Result<()> {
    let unknown = || "unknown".to_string();
    report::print(&facts(&[
        ("becalm", r.version.to_string()),
        ("processor", r.processor.clone().unwrap_or_else(unknown)),
        ("threads", r.threads.to_string()),
        ("instructions", format!("{} (used: {})", r.instructions.join(", "), r.instructions_used)),
        ("free memory", r.memory_bytes.map_or_else(unknown, |b| megabytes(b as usize))),
        ("huge pages", r.huge_pages.clone().unwrap_or_else(unknown)),
        ("GPUs", r.gpus.join("; ")),
        ("GPU kernels", kernels(&r.kernels)),
        ("NVRTC", r.nvrtc.clone().unwrap_or_else(|| "none".into())),
    ]))
}
