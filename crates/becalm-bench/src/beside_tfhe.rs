//! The modes beside the crate `tfhe`: one process, by turns.

use anyhow::{Context, Result, ensure};
use becalm::math::memory::available_memory;
use becalm::math::simd::Level;
use becalm::params::TfheParams;
use becalm_bench::cases::{self, Case};
use becalm_bench::rows::{Clock, Effort, Row, interleave, table, write_json};
use becalm_bench::{integers, ours, peer_tfhe, variants};
use clap::builder::TypedValueParser;
use std::path::PathBuf;
use std::rc::Rc;

#[derive(clap::Args)]
pub struct VariantOptions {
    /// Also the cases that take gigabytes.
    #[arg(long)]
    all: bool,
    /// A few seconds per case.
    #[arg(long)]
    quick: bool,
    /// Only the cases whose name matches; * stands for any characters.
    #[arg(long, value_name = "GLOB", default_value = "*")]
    case: String,
    /// Where to write the rows.
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct Options {
    /// A few seconds per case.
    #[arg(long)]
    quick: bool,
    /// Only the cases whose name matches; * stands for any characters.
    #[arg(long, value_name = "GLOB", default_value = "*")]
    case: String,
    /// Ciphertexts per run of the batch cases.
    #[arg(long, default_value_t = cases::BATCH, value_parser = clap::value_parser!(u16).range(2..).map(usize::from))]
    batch: usize,
    /// Where to write the rows.
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
    /// Run with huge pages for malloc, for both sides: restarts itself with glibc's tunable set.
    #[arg(long)]
    huge: bool,
}

/// The environment variable by which glibc's malloc is told to ask for huge pages, and its value.
const TUNABLES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// Whether a large allocation comes on huge pages, by trying.
fn huge_pages() -> bool {
    const BYTES: usize = 64 << 20;
    let touched = std::hint::black_box(vec![1u8; BYTES]);
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    drop(touched);
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.is_some_and(|kib| kib << 10 >= BYTES / 2)
}

/// Replaces this process by the same command with huge pages for malloc: glibc reads its tunables at the start only.
/// glibc 2.36 compares the kernel's answer with an unterminated string, so that the tunable takes effect by chance:
/// hence some tries, counted in the environment.
fn restart_with_huge_pages() -> Result<()> {
    use std::os::unix::process::CommandExt;
    const TRIES: &str = "BECALM_BENCH_HUGE_TRIES";
    let tries: u32 = std::env::var(TRIES).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    ensure!(
        tries < 50,
        "no huge pages after {tries} tries; is transparent_hugepage set to madvise or always?"
    );
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        .args(std::env::args_os().skip(1))
        .env(TUNABLES.0, TUNABLES.1)
        .env(TRIES, (tries + 1).to_string());
    Err(command.exec().into())
}

/// Keys of the last parameter set on both sides, for the next case.
#[derive(Default)]
struct Kept {
    ours: Option<Rc<ours::Ours>>,
    peer: Option<Rc<peer_tfhe::Peer>>,
}

fn compare(case: &Case, effort: Effort, kept: &mut Kept, huge_pages: bool) -> Result<Row> {
    let params = TfheParams::named(case.params)?;
    let ours = ours::prepare(case.work, params, &mut kept.ours)?;
    let peer = peer_tfhe::prepare(case.work, params, &mut kept.peer)?;
    let (peer_params, peer_log2_pfail) = match peer.params == params.name {
        true => (None, None),
        false => (Some(peer.params.clone()), Some(peer.log2_pfail)),
    };
    let times = interleave(&mut [ours, peer], Clock::Cpu, effort)?;
    let (ours, peer) = (times[0], times[1]);
    Ok(Row {
        case: case.name.into(),
        backend: "cpu".into(),
        ours_ms: Some(ours.median_ms),
        peer: "tfhe".into(),
        peer_version: peer_tfhe::VERSION.into(),
        peer_ms: Some(peer.median_ms),
        ratio: Some(peer.median_ms / ours.median_ms),
        params: params.name.to_string(),
        security_bits: params.security_bits,
        log2_pfail: params.log2_pfail,
        peer_params,
        peer_log2_pfail,
        batch: case.work.batch(),
        threads: 1,
        clock: Clock::Cpu,
        simd: Level::best().name().into(),
        peer_simd: if cfg!(feature = "peer-avx512") { "avx512" } else { "avx2" }.into(),
        huge_pages,
        bootstraps: None,
        peer_bootstraps: None,
        ours: Some(ours),
        peer_times: Some(peer),
    })
}

fn effort(quick: bool) -> Effort {
    if quick { Effort::QUICK } else { Effort::FULL }
}

/// The bootstraps beyond the classic one.
pub fn compare_variants(options: &VariantOptions) -> Result<()> {
    let mut cases = variants::cases();
    cases.retain(|case| (options.all || !case.large) && cases::matches(&options.case, &case.name));
    ensure!(!cases.is_empty(), "no case matches {} (large ones need --all)", options.case);
    let mut rows = Vec::new();
    for case in &cases {
        let (needed, free) = (case.memory(), available_memory().unwrap_or(usize::MAX) as u64);
        if needed > free {
            eprintln!("{} left out: it takes {needed} bytes, {free} are free", case.name);
            continue;
        }
        eprintln!("{} …", case.name);
        let row = case.measure(effort(options.quick));
        rows.push(row.with_context(|| format!("case {}", case.name))?);
        if let Some(path) = &options.json {
            write_json(&rows, path)?;
        }
    }
    print!("{}", variants::table(&rows));
    Ok(())
}

/// The cases of the peer, or those of integers.
pub fn beside_peer(options: &Options, integers: bool) -> Result<()> {
    let huge = huge_pages();
    if options.huge && !huge {
        restart_with_huge_pages()?;
    }
    if integers {
        let save = |rows: &[Row]| options.json.as_ref().map_or(Ok(()), |p| write_json(rows, p));
        let rows = integers::run(&options.case, options.quick, huge, save)?;
        ensure!(!rows.is_empty(), "no case matches {}", options.case);
        print!("{}", table(&rows));
        return Ok(());
    }
    let chosen: Vec<_> =
        cases::TFHE.iter().filter(|case| cases::matches(&options.case, case.name)).collect();
    ensure!(!chosen.is_empty(), "no case matches {}", options.case);
    let effort = effort(options.quick);
    let mut kept = Kept::default();
    let mut rows = Vec::new();
    for &case in chosen {
        let case = Case { work: case.work.with_batch(options.batch), ..case };
        eprintln!("{} …", case.name);
        rows.push(
            compare(&case, effort, &mut kept, huge)
                .with_context(|| format!("case {}", case.name))?,
        );
        // Written after every case, so that an interrupted run leaves what it measured.
        if let Some(path) = &options.json {
            write_json(&rows, path)?;
        }
    }
    print!("{}", table(&rows));
    Ok(())
}
