//! Errors of some warnings of Yosys: signals that nothing drives, that two sources drive, and that depend on themselves.

use super::super::looped;
use super::source::{Token, at_line};
use super::{refused, shown};
use crate::Result;
use std::path::Path;

/// Refuses what the check of Yosys says about the sources of signals.
///
/// # Errors
/// [`Error::BadInput`](crate::Error::BadInput) with the signals, and the line of the file at `path` where the text has their names.
pub(super) fn check(said: &str, tokens: &[Token], path: &Path) -> Result<()> {
    if let Some((line, names)) = cycle(said) {
        let (wanted, remedy) =
            ("a circuit without a loop", "take out a signal that depends on itself");
        let got = looped(&names);
        return Err(match line {
            Some(line) => refused(&format!("{wanted} in line {line} of"), got, path, remedy),
            None => refused(wanted, got, path, remedy),
        });
    }
    let warned = |what: &str| said.lines().find(|l| l.contains(what));
    let undriven = warned("is used but has no driver");
    let (line, wanted, remedy) = match (undriven, warned("multiple conflicting drivers")) {
        (Some(line), _) => (
            line,
            "a source for every signal",
            "assign every bit of every signal that is read, and of every output",
        ),
        (None, Some(line)) => (line, "one source for every signal", "assign each bit once"),
        (None, None) => return Ok(()),
    };
    let Some(signal) = signal(line) else {
        return Err(refused(wanted, shown(line), path, remedy));
    };
    // The part after the instances, without its bits.
    let name = signal.rsplit('.').next().unwrap_or(&signal);
    let name = name.split('[').next().unwrap_or(name);
    match tokens.iter().find(|token| token.text.trim_start_matches('\\') == name) {
        Some(token) => Err(at_line(wanted, token.line, path, &signal, remedy)),
        None => Err(refused(wanted, format!("`{signal}`"), path, remedy)),
    }
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
        let place = line.split_once("source: input.sv:").map(|(_, place)| place);
        at = at.or(place.and_then(|p| p.split(['.', '-']).next()?.parse().ok()));
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
        assert!(error.contains("in line 4 of") && error.contains("`b`, `u.i`"), "{error}");
    }

    #[test]
    fn a_signal_is_named_as_the_text_names_it() {
        let tokens = [Token { line: 3, text: "y" }];
        let check = |said| check(said, &tokens, Path::new("mine.v")).unwrap_err().to_string();
        let error = check("Warning: Wire m.\\y [7] is used but has no driver.\n");
        assert!(error.contains("in line 3 of mine.v, got `y[7]`;"), "{error}");
        assert!(!error.contains("Warning"), "{error}");
        let error = check("Warning: multiple conflicting drivers for m.\\u.y [0]:\n    port Y\n");
        assert!(error.contains("in line 3 of mine.v, got `u.y[0]`;"), "{error}");
        let error = check("Warning: multiple conflicting drivers for m.\\z:\n");
        assert!(error.contains("in mine.v, got `z`;"), "{error}");
    }
}
