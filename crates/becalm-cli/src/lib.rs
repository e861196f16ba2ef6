//! The `becalm` command as a library, so that the Python wheel carries the very same command.
//!
//! One file for each verb or family of verbs; [`report`] turns figures into a table or into JSON.

mod apps;
mod bench;
mod cases;
mod circuit;
mod ckks;
mod collective;
mod demo;
mod doctor;
mod estimate;
mod files;
mod function;
pub mod gpu;
mod help;
mod inspect;
mod job;
mod levelled;
mod noise;
mod number;
mod output;
mod packed;
mod paper;
mod params;
mod params_ckks;
mod programs;
pub mod report;
mod run;
mod search;
mod serve;
mod signals;
mod status;
mod tables;
mod threshold;
mod vectors;

use becalm::cipher::file::Kind;
use clap::{ArgAction, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use status::usage;
use std::ffi::OsString;
use std::path::Path;

/// Bootstrapping of fully homomorphic encryption.
#[derive(Parser)]
#[command(name = "becalm", version, about, max_term_width = 100, after_help = status::HELP)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make keys, encrypt, bootstrap, decrypt, check every result, and report.
    Run(run::Args),
    /// List the parameter sets and their claims.
    Params(params::Args),
    /// Estimate the security of an LWE instance or of a parameter set.
    Estimate(estimate::Args),
    /// Measure the noise of every step of a bootstrap against its formula.
    Noise(noise::Args),
    /// Make a secret key and an evaluation key.
    Keygen(files::KeygenArgs),
    /// Encrypt values with a secret key, or with a public one of CKKS.
    Encrypt(files::EncryptArgs),
    /// Bootstrap ciphertexts through a table, or run a program of TFHE or CKKS, with an evaluation key.
    Eval(files::EvalArgs),
    /// List functions of real numbers for CKKS, describe one, and write a program that computes it: `becalm keygen --program` makes
    /// keys for it, `becalm encrypt` vectors, and `becalm eval --program` runs it.
    Function(function::Args),
    /// A large batch as a folder that workers on several machines share.
    Job(job::Args),
    /// Offer jobs as a service over HTTP with TLS, limits and metrics.
    Serve(serve::Args),
    /// A page that encrypts and decrypts in the browser, while a server on this machine bootstraps what it cannot read.
    Demo(demo::Args),
    /// Decrypt with a secret key.
    Decrypt(files::DecryptArgs),
    /// Decryption by several parties: split a key of CKKS or make one together, decrypt in parts, combine them.
    Threshold(threshold::Args),
    /// Boolean circuits on encrypted bits: compile them, run them, print their cost.
    Circuit(circuit::Args),
    /// Describe the contents of a file, without its secrets.
    Inspect(inspect::Args),
    /// Measure this machine.
    Bench(bench::Args),
    /// Describe this machine and check its arithmetic.
    Doctor(doctor::Args),
    /// Print the licences of the crates that this command is built from.
    Licences(help::LicencesArgs),
    /// Print a script that completes this command in a shell.
    Completions(help::CompletionsArgs),
    /// Write the manual pages, one for each command.
    Man(help::ManArgs),
}

/// The command. A number after an option may be negative: whether it may be so there, the option says and not the grammar.
fn command() -> Command {
    fn signed(command: Command) -> Command {
        let own = command.mut_args(|arg| match arg.get_action() {
            ArgAction::Set | ArgAction::Append if !arg.is_positional() => {
                arg.allow_negative_numbers(true)
            }
            _ => arg,
        });
        own.mut_subcommands(signed)
    }
    signed(Cli::command())
}

fn keygen(args: &files::KeygenArgs) -> anyhow::Result<()> {
    match vectors::set(args)? {
        Some(params) => vectors::keygen(params, args),
        None => files::keygen(args),
    }
}

/// Whether a file is of CKKS: the half of the command that a verb takes.
fn of_ckks(path: &Path) -> anyhow::Result<bool> {
    Ok(output::read(path, Kind::of)?.of_ckks())
}

fn encrypt(mut args: files::EncryptArgs) -> anyhow::Result<()> {
    files::require_place(&args.out, args.force)?;
    if let Some(path) = &args.values_from {
        args.values = report::Given::read(path)?;
    }
    if args.public.is_some() {
        return vectors::encrypt(&args);
    }
    match of_ckks(&args.secret)? {
        _ if args.packed => packed::encrypt(&args),
        true => vectors::encrypt(&args),
        false => files::encrypt(&args),
    }
}

fn eval(args: &files::EvalArgs) -> anyhow::Result<()> {
    if let Some(path) = args.out.iter().find(|out| args.inputs.contains(out)) {
        usage!("{} is an input; choose another name for the result", path.display());
    }
    args.out.iter().try_for_each(|path| files::require_place(path, args.force))?;
    if args.program.is_none() && args.table.is_empty() && args.slot_keys.is_empty() {
        usage!("nothing to do: give --table, --program or --slot-key");
    }
    match of_ckks(args.program.as_ref().unwrap_or(&args.evaluation))? {
        true => programs::eval(args),
        false => files::eval(args),
    }
}

fn decrypt(args: &files::DecryptArgs) -> anyhow::Result<()> {
    match of_ckks(&args.input)? {
        true => packed::decrypt(args),
        false => files::decrypt(args),
    }
}

/// Runs the command with the given arguments (the first is its name), and returns its exit status, which `--help` lists.
pub fn main_with<I, T>(args: I) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let _listening = signals::Listening::start();
    let status = run_with(args.into_iter().map(Into::into).collect());
    // The last line may wait for its end, and the limit of file sizes is an error only while its signal is caught.
    match report::flush() {
        Err(e) if status == 0 => unprinted(&e),
        _ => status,
    }
}

/// The exit status where standard output does not take what is printed.
fn unprinted(e: &anyhow::Error) -> u8 {
    report::say(&format!("becalm: {e:#}"));
    status::of(e)
}

/// [`main_with`] for a process that ends with the command. Its signals stay caught to the end, because Rust then tries once more to write
/// what standard output did not take.
pub fn main_of_process() -> u8 {
    std::mem::forget(signals::Listening::start());
    main_with(std::env::args_os())
}

fn run_with(words: Vec<OsString>) -> u8 {
    let parsed = command().try_get_matches_from(&words).and_then(|m| Cli::from_arg_matches(&m));
    let cli = match parsed {
        Ok(cli) => cli,
        // A wrong command line all the same: a script that forgot the verb must not go on.
        Err(_) if words.len() < 2 => {
            report::say(help::START);
            return 2;
        }
        Err(e) => {
            // Help and version come this way too; a closed pipe is not an error.
            let printed = report::printed(e.print());
            return match printed {
                _ if e.use_stderr() => 2,
                Ok(()) => 0,
                Err(e) => unprinted(&e),
            };
        }
    };
    let done = match cli.verb {
        Verb::Run(a) => run::run(&a),
        Verb::Params(a) => params::run(&a),
        Verb::Estimate(a) => estimate::run(&a),
        Verb::Noise(a) => noise::run(&a),
        Verb::Keygen(a) => keygen(&a),
        Verb::Encrypt(a) => encrypt(a),
        Verb::Eval(a) => eval(&a),
        Verb::Function(a) => function::run(&a),
        Verb::Job(a) => job::run(&a),
        Verb::Serve(a) => serve::run(&a),
        Verb::Demo(a) => demo::run(&a),
        Verb::Decrypt(a) => decrypt(&a),
        Verb::Threshold(a) => threshold::run(&a),
        Verb::Circuit(a) => circuit::run(&a),
        Verb::Inspect(a) => inspect::run(&a),
        Verb::Bench(a) => bench::run(&a),
        Verb::Doctor(a) => doctor::run(&a),
        Verb::Licences(a) => help::licences(&a),
        Verb::Completions(a) => help::completions(&a),
        Verb::Man(a) => help::man(&a),
    };
    match done {
        Ok(()) => 0,
        Err(e) => {
            report::say(&format!("becalm: {}", report::refusal(&e)));
            if let Some(becalm::Error::Insecure(_)) = e.downcast_ref() {
                report::say("pass --allow-insecure to allow it");
            }
            status::of(&e)
        }
    }
}
