//! `cargo run -p becalm-bench --release -- tfhe|integers [--quick] [--case GLOB] [--json OUT] [--huge]`,
//! `variants [--all] [--quick] [--case GLOB] [--json OUT]`, and `ckks [--quick] [--case GLOB] [--json OUT] [--threads 1,2]`,
//! which builds in a fraction of the time with `--no-default-features`.

#[cfg(feature = "tfhe")]
mod beside_tfhe;

use anyhow::{Result, ensure};
use becalm_bench::ckks::{self, Options};
use becalm_bench::rows::write_json;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// becalm beside its peers: by turns, every output checked.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// TFHE on one thread beside the crate `tfhe`.
    #[cfg(feature = "tfhe")]
    Tfhe(beside_tfhe::Options),
    /// The bootstraps beyond the classic one, beside the classic sets and the crate `tfhe`.
    #[cfg(feature = "tfhe")]
    Variants(beside_tfhe::VariantOptions),
    /// Integers of 64 bits and AES on all threads beside the crate `tfhe`.
    #[cfg(feature = "tfhe")]
    Integers(beside_tfhe::Options),
    /// CKKS beside Lattigo, Poulpy, OpenFHE and, where it is installed, desilofhe.
    Ckks(CkksOptions),
    /// One of the processes of `ckks`.
    #[command(hide = true)]
    CkksWorker {
        /// The kind of ciphertext to bootstrap.
        kind: String,
        /// In a small ring.
        #[arg(long)]
        toy: bool,
    },
}

#[derive(clap::Args)]
struct CkksOptions {
    /// Small rings that protect nothing, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// Only the cases whose name matches; * stands for any characters.
    #[arg(long, value_name = "GLOB", default_value = "*")]
    case: String,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Vec<u16>,
    /// Measured bootstraps of each side of a case.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Gigabytes that two processes may take together; what does not fit is left out.
    #[arg(long, value_name = "GB", default_value_t = 23.0)]
    memory: f64,
    /// Where to write the rows.
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
}

fn main() -> Result<()> {
    match &Cli::parse().command {
        #[cfg(feature = "tfhe")]
        Command::Tfhe(options) => beside_tfhe::beside_peer(options, false),
        #[cfg(feature = "tfhe")]
        Command::Integers(options) => beside_tfhe::beside_peer(options, true),
        #[cfg(feature = "tfhe")]
        Command::Variants(options) => beside_tfhe::compare_variants(options),
        Command::Ckks(options) => beside_ckks(options),
        Command::CkksWorker { kind, toy } => ckks::ours::serve(kind, *toy),
    }
}

fn beside_ckks(options: &CkksOptions) -> Result<()> {
    let how = Options {
        pattern: options.case.clone(),
        toy: options.quick,
        rounds: usize::from(options.rounds),
        threads: options.threads.iter().map(|t| usize::from(*t)).collect(),
        memory: (options.memory * 1e9) as u64,
    };
    // Written after every case, so that an interrupted run leaves what it measured.
    let save = |rows: &[ckks::Row]| options.json.as_ref().map_or(Ok(()), |p| write_json(rows, p));
    let rows = ckks::run(&how, save)?;
    ensure!(!rows.is_empty(), "no case matches {}", options.case);
    print!("{}", ckks::table(&rows));
    Ok(())
}
