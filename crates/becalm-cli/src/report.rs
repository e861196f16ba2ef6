//! Figures as a table for people or as JSON for programs, and progress bars.

use crate::signals::unless_stopped;
use crate::status::usage;
use anyhow::Result;
use becalm::backend::{Evaluate, Evaluator, Fallback, Info, names, require_name};
use becalm::cipher::{EvaluationKey, SecretKey};
use becalm::words::{megabytes, shown};
use becalm::{Error, Missing};
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;

/// The value of `--device`: the library has the names, and refuses others.
#[derive(Clone)]
pub(crate) struct Device;

impl TypedValueParser for Device {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        option: Option<&Arg>,
        value: &OsStr,
    ) -> std::result::Result<String, clap::Error> {
        let read = |name: &str| require_name(name).map(|()| name.to_string());
        read.parse_ref(command, option, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue>>> {
        Some(Box::new(names().map(PossibleValue::new)))
    }
}

/// Prints lines to standard output; a reader that has gone away is not an error. Names of others have no power over the terminal.
pub fn print(text: &str) -> Result<()> {
    printed(writeln!(std::io::stdout(), "{}", lines(text)))
}

/// A text whose lines are [`shown`], one by one.
fn lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| shown(line.into())).collect();
    lines.join("\n")
}

/// Writes what standard output still holds, as [`print()`] does.
pub fn flush() -> Result<()> {
    printed(std::io::stdout().flush())
}

/// The result of printing to standard output: a reader that has gone away is not an error.
///
/// # Errors
/// That it could not be written.
pub fn printed(done: std::io::Result<()>) -> Result<()> {
    match done {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::unwritable("print", Path::new("standard output"), &e).into())
        }
        _ => Ok(()),
    }
}

/// Writes a message to standard error. Where nobody can read it, the work that it tells of goes on.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", lines(text));
}

/// Prints a value as JSON.
///
/// # Errors
/// When standard output cannot be written.
pub fn json(value: &impl Serialize) -> Result<()> {
    print(&serde_json::to_string_pretty(value)?)
}

/// Refuses a file in a folder that is not there: before the measurement that it is for.
///
/// # Errors
/// That.
pub fn require_folder(file: Option<&Path>) -> Result<()> {
    let folder = file.and_then(Path::parent).filter(|folder| *folder != Path::new(""));
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => {
            let got = format!("no folder {}", folder.display());
            Err(Error::io("--json", "a folder that exists", got, "make it first").into())
        }
        None => Ok(()),
    }
}

/// A number from 1 on.
///
/// # Errors
/// For others, in the words of the command line.
pub fn some(text: &str) -> std::result::Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "wanted a number from 1 up".to_string())
}

/// A number from 0 to 1.
pub fn fraction(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err("give a number from 0 to 1".into()),
    }
}

/// A number of seconds: above 0, and at most a million.
///
/// # Errors
/// For any other number, in the words of the command line.
pub fn positive(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|n: &f64| *n > 0.0 && *n <= 1e6);
    number.ok_or_else(|| "wanted a number above 0, at most a million".to_string())
}

/// An error, and the command or option of its remedy: the CPU, where that can do what a machine did not; a limit; keys of a program.
pub fn refusal(error: &anyhow::Error) -> String {
    let detail = error.downcast_ref::<Error>().map(Error::detail);
    let option = match detail {
        Some(d) if d.cpu_can => " (--device cpu)".into(),
        Some(d) if d.over_limit => " (--limit, where the command has it)".into(),
        Some(d) if matches!(d.missing, Some(Missing::Key(_))) => {
            " (becalm keygen --program FILE)".into()
        }
        _ => String::new(),
    };
    format!("{error:#}{option}")
}

/// Says why a GPU that is there was not taken.
pub fn tell_fallback<F: Evaluate>(evaluator: &Evaluator<F>) {
    if let Some(Fallback { why, gpu: true }) = evaluator.fallback() {
        say(&format!("becalm: computed on the CPU, not the GPU: {why}"));
    }
}

/// Whether a cell of a table is a number, with its unit or without, or empty.
fn is_number(cell: &str) -> bool {
    let digits = cell.trim_start_matches(['−', '-', '+']);
    let after = digits.trim_start_matches(|c: char| c.is_ascii_digit() || ".,".contains(c));
    let unit = after.trim_start_matches('^');
    cell.is_empty() || cell == "—" || after.len() < digits.len() && !unit.starts_with(['/', '('])
}

/// Rows under a head, columns as wide as they need; numbers to the right.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let wide = |s: &str| s.chars().count();
    let mut widths: Vec<usize> = head.iter().map(|h| wide(h)).collect();
    for row in rows {
        for (w, cell) in widths.iter_mut().zip(row) {
            *w = (*w).max(wide(cell));
        }
    }
    // A column has one side: the right one if all that stands in it are numbers.
    let right = |i: usize| rows.iter().filter_map(|row| row.get(i)).all(|cell| is_number(cell));
    let sides: Vec<bool> = (0..widths.len()).map(right).collect();
    let line = |cells: Vec<&str>, head: bool| {
        let pad = |((c, w), right): ((&str, &usize), &bool)| {
            let space = " ".repeat(w.saturating_sub(wide(c)));
            if *right && !head { format!("{space}{c}") } else { format!("{c}{space}") }
        };
        let cells: Vec<String> = cells.into_iter().zip(&widths).zip(&sides).map(pad).collect();
        cells.join("  ").trim_end().to_string()
    };
    let mut lines = vec![line(head.to_vec(), true)];
    lines.push(widths.iter().map(|w| "─".repeat(*w)).collect::<Vec<_>>().join("  "));
    lines.extend(rows.iter().map(|r| line(r.iter().map(String::as_str).collect(), false)));
    lines.join("\n")
}

/// Names and values, one to a line.
pub fn facts(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|r| r.0.chars().count()).max().unwrap_or(0);
    let line =
        |(k, v): &(&str, String)| format!("  {k}{}  {v}", " ".repeat(width - k.chars().count()));
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A machine for people: `cpu (avx512, 2 threads)`.
pub fn machine(info: &Info) -> String {
    format!("{} ({})", info.name, info.description)
}

/// A progress bar on standard error; it shows itself only to people (not in a pipe).
pub fn bar(what: &str, steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64).with_message(what.to_string());
    let style = "{msg:12} {wide_bar:.cyan/black} {percent:>3} %  {eta} left";
    bar.set_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar
}

/// Moves a bar with the progress of work, which a signal stops.
pub fn follow(bar: &ProgressBar) -> impl Fn(usize, usize) -> ControlFlow<()> + Sync {
    |done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        unless_stopped(done, of)
    }
}

/// Seconds in the unit that suits them: `21.59 s`, `3.565 ms`, `12.345 µs`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => milliseconds(s),
        s => format!("{:.3} µs", s * 1e6),
    }
}

/// Seconds as milliseconds with three digits.
pub fn milliseconds(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3)
}

/// The median of some durations; 0 of none.
pub fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(0.0)
}

/// One value of a list given on the command line: an integer from 0 up, blanks around it allowed.
pub(crate) fn value(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("values are integers from 0 up, not `{text}`"))
}

/// The longest text of values that is read.
const MOST_TEXT: u64 = 64 << 20;

/// A value to encrypt: an integer from 0 up, or another number, which the slots of CKKS alone hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Given {
    Integer(u64),
    Real(f64),
}

impl Given {
    /// From an argument of the command.
    pub(crate) fn parse(text: &str) -> Result<Given, String> {
        let text = text.trim();
        let real = || text.parse().ok().filter(|x: &f64| x.is_finite()).map(Given::Real);
        let found = text.parse().ok().map(Given::Integer).or_else(real);
        found.ok_or_else(|| format!("values are numbers, not `{text}`"))
    }

    /// From a text file; `-` is standard input. Errors tell the place of a value, and not the value.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Given>> {
        let unreadable = |e| Error::unreadable("encrypt", path, &e);
        let mut text = String::new();
        let from: Box<dyn Read> = match path.as_os_str() == "-" {
            true => Box::new(std::io::stdin().lock()),
            false => Box::new(File::open(path).map_err(unreadable)?),
        };
        from.take(MOST_TEXT + 1).read_to_string(&mut text).map_err(unreadable)?;
        let refused = |got: String| {
            let remedy = "write numbers with commas, blanks or line ends between them";
            Error::bad_file("encrypt", format!("numbers in {}", path.display()), got, remedy)
        };
        if text.trim().is_empty() {
            return Err(refused("none".into()).into());
        }
        if text.len() as u64 > MOST_TEXT {
            return Err(
                refused(format!("more than {} of text", megabytes(MOST_TEXT as usize))).into()
            );
        }
        // Between two commas there is a value; behind the last one there need not be.
        let parts = text.trim_end().trim_end_matches(',').split(',');
        let words = parts.flat_map(|part| match part.trim() {
            "" => vec![""],
            part => part.split_whitespace().collect(),
        });
        let one = |(word, at): (&str, usize)| {
            Given::parse(word).map_err(|_| refused(format!("another text as value {at}")))
        };
        let found = words.zip(1..).map(one).collect::<Result<Vec<_>, _>>()?;
        Ok(found)
    }

    pub(crate) fn real(self) -> f64 {
        match self {
            Given::Integer(x) => x as f64,
            Given::Real(x) => x,
        }
    }

    /// All as integers, for a scheme without others.
    pub(crate) fn integers(all: &[Given]) -> anyhow::Result<Vec<u64>> {
        let one = |(at, x): (usize, &Given)| match x {
            Given::Integer(x) => Ok(*x),
            // An integer in another spelling: `1.0` or `1e3`.
            Given::Real(x) if *x >= 0.0 && x.fract() == 0.0 && *x < 2f64.powi(53) => Ok(*x as u64),
            Given::Real(_) => {
                usage!("values are integers from 0 up to 2^64 - 1, and value {at} is not")
            }
        };
        (1..).zip(all).map(one).collect()
    }
}

/// The evaluation key, with a progress bar.
pub fn keygen(secret: &SecretKey) -> Result<EvaluationKey> {
    let bar = bar("keys", 1);
    let keys = secret.evaluation_key_with(&|done, of| {
        if done % 64 == 0 {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        }
        unless_stopped(done, of)
    })?;
    bar.finish_and_clear();
    Ok(keys)
}

/// Most memory that the process ever held, where the system tells.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let text = table(
            &["set", "ms"],
            &[vec!["a".into(), "1.5".into()], vec!["longer".into(), "10.25".into()]],
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "a         1.5");
        assert_eq!(lines[3], "longer  10.25");
    }

    /// A text that begins as a number does not part its column.
    #[test]
    fn a_column_has_one_side() {
        let rows = [["2^64", "-5", "1/x"], ["p", "12.5 ms", "|x|"]];
        let text = table(&["modulus", "y", "f"], &rows.map(|row| row.map(String::from).to_vec()));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "2^64          -5  1/x");
        assert_eq!(lines[3], "p        12.5 ms  |x|");
    }
}
