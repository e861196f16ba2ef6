//! Help for people: the first words of the command, completions for shells, manual pages, and the licences.

use crate::output::{self, Force};
use crate::report;
use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The answer to `becalm` alone.
pub const START: &str = "\
becalm: bootstrapping of fully homomorphic encryption

Three commands to begin with:
  becalm run --values 3,1,2
      Make keys, encrypt, bootstrap, decrypt and check the results.
  becalm doctor
      Describe this machine and check its arithmetic.
  becalm params
      List the parameter sets and their claims.

The same bootstrap step by step, with files between client and server:
  becalm keygen --params tfhe_2_2
  becalm encrypt --values 3,1,2 --out noisy.becalm
  becalm eval noisy.becalm --table 1,2,5,10,1,10,5,2,1,2,5,10,1,10,5,2 --out calm.becalm
  becalm decrypt calm.becalm

`becalm help` lists all commands, and `becalm help run` describes one.";

const NOTICES: &str = include_str!("../THIRD_PARTY.txt");

#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell that is to complete the command.
    shell: Shell,
}

#[derive(clap::Args)]
pub struct ManArgs {
    /// The folder of the pages; it is made if it is missing.
    folder: PathBuf,
    #[command(flatten)]
    force: Force,
}

#[derive(clap::Args)]
pub struct LicencesArgs {
    /// List the crates and their licences as JSON, without the texts.
    #[arg(long)]
    json: bool,
}

/// Prints the script that completes the command in a shell.
pub fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "becalm", &mut script);
    report::print(String::from_utf8(script)?.trim_end())
}

/// Writes one page for each verb, and one for the command.
pub fn man(args: &ManArgs) -> Result<()> {
    let pages = pages(whole())?;
    let paths: Vec<PathBuf> = pages.iter().map(|(name, _)| args.folder.join(name)).collect();
    paths.iter().try_for_each(|path| args.force.require_new(path))?;
    let named = || args.folder.display().to_string();
    std::fs::create_dir_all(&args.folder).with_context(named)?;
    for (path, (_, text)) in paths.iter().zip(&pages) {
        output::write(path, text)?;
    }
    report::print(&format!("{} in {}", becalm::words::counted(pages.len(), "page"), named()))
}

/// The command without its verbs `help`, which have no pages.
fn whole() -> Command {
    let mut all = crate::Cli::command().disable_help_subcommand(true);
    all.build();
    all
}

/// Name and text of the page of a command and of each below it.
fn pages(command: Command) -> Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for verb in command.get_subcommands().cloned() {
        found.extend(pages(verb)?);
    }
    let man = Man::new(command).source(concat!("becalm ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    man.render(&mut text)?;
    found.push((man.get_filename(), text));
    Ok(found)
}

/// Prints the licences of other crates.
pub fn licences(args: &LicencesArgs) -> Result<()> {
    if args.json { report::json(&crates(NOTICES)) } else { report::print(NOTICES.trim_end()) }
}

/// The rows of the table at the head of the notices: name and version, then the licence.
fn crates(notices: &str) -> Vec<Value> {
    let table = notices.split("\n\n").find(|part| part.lines().all(|line| row(line).is_some()));
    table.unwrap_or_default().lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<Value> {
    let (name, rest) = line.split_once(' ')?;
    let (version, licence) = rest.split_once(' ')?;
    let known = version.starts_with(|c: char| c.is_ascii_digit());
    known.then(|| json!({ "name": name, "version": version, "licence": licence.trim() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verbs that print no figures: a script, a list of files, or nothing.
    const WITHOUT: [&str; 3] = ["completions", "man", "assemble"];

    fn leaves(command: &Command) -> Vec<&Command> {
        match command.has_subcommands() {
            true => command.get_subcommands().flat_map(leaves).collect(),
            false => vec![command],
        }
    }

    #[test]
    fn every_verb_with_results_reports_as_json() {
        let all = whole();
        let leaves = leaves(&all);
        assert!(leaves.len() > 16);
        for verb in leaves {
            let json = verb.get_arguments().any(|a| a.get_long() == Some("json"));
            assert_ne!(json, WITHOUT.contains(&verb.get_name()), "{}", verb.get_name());
        }
    }

    #[test]
    fn the_command_is_well_formed() {
        crate::Cli::command().debug_assert();
    }
}
