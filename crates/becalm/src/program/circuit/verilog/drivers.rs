//! Errors of some warnings of Yosys: signals that nothing drives, that two sources drive, and that depend on themselves.

use super::super::looped;
use super::refused;
use super::source::{Token, at_line};
use crate::{Error, Result};
use std::path::Path;

/// Refuses what the check of Yosys says about the sources of signals.
///
/// # Errors
/// [`Error::BadInput`](crate::Error::BadInput) with the signals, and the line of the file at `path` where the text has their names.
pub(super) fn check(said: &str, tokens: &[Token], path: &Path) -> Result<()> {
    // Two sources of a signal close loops that the text does not have.
    let mut rest = said.lines().skip_while(|l| !l.contains("multiple conflicting drivers"));
    if let Some(line) = rest.next() {
        // `    port Y[0] of cell $not$input.sv:5$2 ($not)`
        let mut sources = rest.take_while(|line| line.starts_with("    "));
        let place = sources.find_map(|line| number(line.split_once("$input.sv:")?.1));
        let name = signal(line).map(|name| format!("two for {name}"));
        let wanted = "one source for every signal";
        return Err(named(wanted, name.as_deref(), place, path, "assign each bit once"));
    }
    if let Some((line, names)) = cycle(said) {
        let (wanted, remedy) =
            ("a circuit without a loop", "take out a signal that depends on itself");
        let line = line.map_or(String::new(), |line| format!(" in line {line}"));
        let wanted = format!("{wanted}{line} of {}", path.display());
        return Err(Error::bad_input("circuit", wanted, looped(&names), remedy));
    }
    if let Some(line) = said.lines().find(|l| l.contains("is used but has no driver")) {
        let remedy = "assign every bit of every signal that is read, and of every output";
        let name = signal(line);
        let place = name.as_deref().and_then(|name| line_of(name, tokens));
        return Err(named("a source for every signal", name.as_deref(), place, path, remedy));
    }
    Ok(())
}

/// A refusal of a signal, with what is known of its name and its line.
fn named(wanted: &str, name: Option<&str>, line: Option<usize>, path: &Path, way: &str) -> Error {
    let name = name.unwrap_or("an expression");
    match line {
        Some(line) => at_line(wanted, line, path, name, way),
        None => refused(wanted, format!("`{name}`"), path, way),
    }
}

/// The first line of the text that has a signal's name, without its instances and its bits.
fn line_of(signal: &str, tokens: &[Token]) -> Option<usize> {
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

/// The first loop that the check names: the line of one of its operations, and its signals.
fn cycle(said: &str) -> Option<(Option<usize>, Vec<&str>)> {
    let mut rest = said.lines().skip_while(|line| !line.contains("found logic loop"));
    rest.next()?;
    let (mut at, mut names) = (None, vec![]);
    for line in rest.take_while(|line| line.starts_with("    ")).map(str::trim) {
        if let Some(wire) = line.strip_prefix("wire \\") {
            names.extend(wire.split_whitespace().next());
        }
        at = at.or(line.split_once("source: input.sv:").and_then(|(_, place)| number(place)));
    }
    Some((at, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_named_by_its_signals_and_a_line() {
        let said = "Checking module m...\nWarning: found logic loop in module m:\n    \
            cell $or$input.sv:4$2 ($or) source: input.sv:4.12-4.17\n      A[0] --> Y[0]\n    \
            wire \\b source: input.sv:2.6-2.7\n    wire \\u.i source: input.sv:1.1-1.2\nFound 1.\n";
        assert_eq!(cycle(said), Some((Some(4), vec!["b", "u.i"])));
        assert_eq!(cycle("Checking module m...\nFound and reported 0 problems.\n"), None);
        let error = check(said, &[], Path::new("mine.v")).unwrap_err().to_string();
        assert!(
            error.contains("in line 4 of mine.v, got") && error.contains("`b`, `u.i`"),
            "{error}"
        );
    }

    #[test]
    fn a_signal_is_named_as_the_text_names_it() {
        let tokens = [Token { line: 3, text: "y" }];
        let check = |said: &str| check(said, &tokens, Path::new("mine.v")).unwrap_err().to_string();
        let error = check("Warning: Wire m.\\y [7] is used but has no driver.\n");
        assert!(error.contains("in line 3 of mine.v, got `y[7]`;"), "{error}");
        assert!(!error.contains("Warning"), "{error}");
        let conflict = "Warning: multiple conflicting drivers for m.";
        let cell = "    port Y[0] of cell $not$input.sv:5$2 ($not)\n";
        let error = check(&format!("{conflict}\\u.y [0]:\n{cell}"));
        assert!(error.contains("in line 5 of mine.v, got `two for u.y[0]`;"), "{error}");
        let error = check(&format!("{conflict}$not$input.sv:5$2_Y:\n"));
        assert!(error.contains("in mine.v, got `an expression`;"), "{error}");
    }
}
