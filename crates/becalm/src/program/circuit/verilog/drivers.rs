//! Errors of some warnings of Yosys: signals that nothing drives, that two sources drive, and that depend on themselves.

use super::super::{looped, quoted};
use super::source::{Token, refused_with};
use super::{MEMORYLESS, memory, refused};
use crate::{Error, Result};
use std::path::Path;

/// Refuses what the check of Yosys says about the sources of signals: before anything is simplified, and after.
///
/// # Errors
/// [`Error::BadInput`](crate::Error::BadInput) with the signals, and the line of the file at `path` where the text has their names.
pub(super) fn check((first, then): (&str, &str), tokens: &[Token], path: &Path) -> Result<()> {
    // Two sources of a signal close loops that the text does not have.
    if let Some(line) = first.lines().find(|l| l.contains("multiple conflicting drivers")) {
        let (wanted, remedy) = ("one source for every signal", "assign each bit once");
        return Err(named(wanted, "two for ", line, tokens, path, remedy));
    }
    if let Some(cycle) = cycle(then) {
        if cycle.kept {
            return Err(refused(
                MEMORYLESS.0,
                memory(cycle.names.first().copied()),
                path,
                MEMORYLESS.1,
            ));
        }
        let (wanted, remedy) =
            ("a circuit without a loop", "take out a signal that depends on itself");
        let line = cycle.line.map_or(String::new(), |line| format!(" in line {line}"));
        let wanted = format!("{wanted}{line} of {}", path.display());
        return Err(Error::bad_input("circuit", wanted, looped(&cycle.names), remedy));
    }
    let open = |l: &&str| l.contains("is used but has no driver");
    if let Some(line) = then.lines().find(open) {
        // Simplification joins a signal with an output that repeats it, and drops what nothing reads.
        let early = |l: &&str| first.contains(l);
        let line = Some(line).filter(early).or_else(|| first.lines().find(open)).unwrap_or(line);
        let remedy = "assign every bit of every signal that is read, and of every output";
        return Err(named("a source for every signal", "", line, tokens, path, remedy));
    }
    Ok(())
}

/// A refusal of the signal of a warning, with the line where the text names it first.
fn named(
    wanted: &str,
    what: &str,
    warning: &str,
    tokens: &[Token],
    path: &Path,
    remedy: &str,
) -> Error {
    let name = signal(warning);
    let got = name.as_ref().map_or("an expression".into(), |name| quoted(name));
    let got = format!("{what}{got}");
    match name.and_then(|name| line_of(&name, tokens)) {
        Some(line) => refused_with(line, wanted, got, path, remedy),
        None => refused(wanted, got, path, remedy),
    }
}

/// The first line of the text that has a signal's name, without its instances and its bits.
pub(super) fn line_of(signal: &str, tokens: &[Token]) -> Option<usize> {
    let name = signal.rsplit('.').next()?.split('[').next()?;
    let found = tokens.iter().find(|token| token.text.trim_start_matches('\\') == name);
    found.map(|token| token.line)
}

/// The number that a text begins with.
fn number(text: &str) -> Option<usize> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The signal of a warning such as `Wire m.\y [7] is used …`: `y[7]`.
fn signal(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(".\\")?;
    let end = [" is used", ":"].iter().filter_map(|end| rest.find(end)).min();
    Some(rest[..end.unwrap_or(rest.len())].split_whitespace().collect())
}

/// Signals that depend on each other.
#[derive(Debug, PartialEq)]
struct Cycle<'a> {
    /// The line of one of the operations between them.
    line: Option<usize>,
    names: Vec<&'a str>,
    /// Whether each does nothing but keep its value in some cases, as a variable of `always_comb` does.
    kept: bool,
}

/// The first loop that the check names.
fn cycle(said: &str) -> Option<Cycle<'_>> {
    let mut rest = said.lines().skip_while(|line| !line.contains("found logic loop"));
    rest.next()?;
    let mut cycle = Cycle { line: None, names: vec![], kept: true };
    for text in rest.take_while(|line| line.starts_with("    ")).map(str::trim) {
        if let Some(wire) = text.strip_prefix("wire \\") {
            cycle.names.extend(wire.split_whitespace().next());
        }
        // Choices that processes make have names of their own.
        cycle.kept &= !text.starts_with("cell ") || text.starts_with("cell $procmux$");
        let place = text.split_once("source: input.sv:").and_then(|(_, place)| number(place));
        cycle.line = cycle.line.or(place);
    }
    Some(cycle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_named_by_its_signals_and_a_line() {
        let said = "Checking module m...\nWarning: found logic loop in module m:\n    \
            cell $2 ($or) source: input.sv:4.12-4.17\n      A[0] --> Y[0]\n    \
            wire \\b source: input.sv:2.6-2.7\n    wire \\u.i source: input.sv:1.1-1.2\nFound 1.\n";
        assert_eq!(cycle(said).map(|c| (c.line, c.names)), Some((Some(4), vec!["b", "u.i"])));
        assert_eq!(cycle("Checking module m...\nFound and reported 0 problems.\n"), None);
        let check =
            |said: &str| check(("", said), &[], Path::new("mine.v")).unwrap_err().to_string();
        let error = check(said);
        assert!(
            error.contains("in line 4 of mine.v, got") && error.contains("`b`, `u.i`"),
            "{error}"
        );
        let error = check(&said.replace("$2 ($or)", "$procmux$1 ($mux)"));
        assert!(error.contains("without memory in mine.v, got memory for `b`"), "{error}");
    }

    #[test]
    fn a_signal_is_named_as_the_text_names_it() {
        let tokens = [Token { line: 3, text: "y" }];
        let check = |first: &str, then: &str| {
            check((first, then), &tokens, Path::new("mine.v")).unwrap_err().to_string()
        };
        let error = check("", "Warning: Wire m.\\y [7] is used but has no driver.\n");
        assert!(error.contains("in line 3 of mine.v, got `y[7]`;"), "{error}");
        assert!(!error.contains("Warning"), "{error}");
        let conflict = "Warning: multiple conflicting drivers for m.";
        let error = check(&format!("{conflict}\\u.y [0]:\n    port Y[0] of cell $1 ($not)\n"), "");
        assert!(error.contains("in line 3 of mine.v, got two for `u.y[0]`;"), "{error}");
        let error = check(&format!("{conflict}$1y:\n"), "");
        assert!(error.contains("in mine.v, got two for an expression;"), "{error}");
        // The output `y` repeats a wire, which nothing drives. Nobody reads `u`.
        let open = |name: &str| format!("Warning: Wire m.\\{name} is used but has no driver.\n");
        let error = check(&open("w"), &open("y"));
        assert!(error.contains("got `w`;"), "{error}");
        let error = check(&(open("u") + &open("y")), &open("y"));
        assert!(error.contains("got `y`;"), "{error}");
    }
}
