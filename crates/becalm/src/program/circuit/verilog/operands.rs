//! Refusals of operations whose operands make bits undefined, with the line: a divisor of 0, and bits that a division by 0 left.
//!
//! They are found in Yosys's own list of the operations, in which names stand for their values.

use super::source::{DIVISOR, at_line};
use super::{DEFINED, Folder, refused};
use crate::cipher::file::Limits;
use crate::{Error, Result};
use std::path::Path;

/// An operation: its kind and name, the line of the text that it comes from, and its operands.
pub(super) struct Operation<'a> {
    pub kind: &'a str,
    pub name: &'a str,
    pub line: usize,
    pub operands: Vec<(&'a str, &'a str)>,
}

/// Refuses divisions by a constant 0, and operations on undefined bits, as a list of each names them.
///
/// # Errors
/// [`Error::BadInput`](crate::Error::BadInput) with the line of the file at `path`.
pub(super) fn check(folder: &Folder, limits: Limits, path: &Path) -> Result<()> {
    let divisions = listed(folder, "divisions.txt", limits)?;
    for Operation { kind, line, operands, .. } in operations(&divisions) {
        if operands.iter().any(|(port, value)| *port == "\\B" && is_zero(value)) {
            let (wanted, remedy) = DIVISOR;
            let sign = if kind.starts_with("$mod") { "%" } else { "/" };
            return Err(at_line(wanted, line, path, &format!("{sign} 0"), remedy));
        }
    }
    let cells = listed(folder, "cells.txt", limits)?;
    for Operation { kind, line, operands, .. } in operations(&cells) {
        // A table has no clock.
        let meant = kind.starts_with("$mem");
        let open = operands.iter().find(|(_, value)| !meant && is_undefined(value));
        if let Some((_, value)) = open {
            return Err(at_line("a value for every bit", line, path, value, DEFINED));
        }
    }
    Ok(())
}

/// The error of an operation that Yosys makes no gates of, such as `$pow`.
///
/// # Errors
/// When the list of the operations cannot be read.
pub(super) fn without_gates(
    folder: &Folder,
    kind: &str,
    limits: Limits,
    path: &Path,
) -> Result<Error> {
    let (wanted, remedy) = match kind {
        "$check" => ("a module without assertions", "take `assert` and the like out"),
        _ => ("operators that become gates", "write `**` and the like with other operators"),
    };
    let cells = listed(folder, "cells.txt", limits)?;
    let found = operations(&cells).into_iter().find(|operation| operation.kind == kind);
    Ok(match found {
        Some(Operation { line, .. }) => at_line(wanted, line, path, kind, remedy),
        None => refused(wanted, format!("`{kind}`"), path, remedy),
    })
}

/// A list that Yosys wrote, whole; nothing where it is empty.
pub(super) fn listed(folder: &Folder, name: &str, limits: Limits) -> Result<String> {
    let path = folder.path(name);
    let empty = std::fs::metadata(&path).is_ok_and(|found| found.len() == 0);
    if empty { Ok(String::new()) } else { limits.read_text(path) }
}

/// The operations of a list that Yosys wrote.
pub(super) fn operations(list: &str) -> Vec<Operation<'_>> {
    let (mut found, mut line, mut inside): (Vec<Operation>, _, _) = (vec![], 0, false);
    for text in list.lines().map(str::trim) {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            // `attribute \src "input.sv:5.21-5.24"`
            "attribute" => line = line_of(rest).unwrap_or(line),
            "cell" => {
                let (kind, name) = rest.split_once(' ').unwrap_or((rest, ""));
                found.push(Operation { kind, name, line, operands: vec![] });
                inside = true;
            }
            "end" => inside = false,
            "connect" if inside => {
                let operands = found.last_mut().map(|operation| &mut operation.operands);
                operands.into_iter().for_each(|all| all.extend(rest.split_once(' ')));
            }
            _ => {}
        }
    }
    found
}

/// The first line that an attribute names, if it says where something comes from.
pub(super) fn line_of(attribute: &str) -> Option<usize> {
    let place = attribute.strip_prefix("\\src \"input.sv:")?;
    place.split(['.', '-', '"']).next()?.parse().ok()
}

/// Whether a value is the constant 0: `4'0000`, or `0`.
fn is_zero(value: &str) -> bool {
    let digits = value.split_once('\'').map_or(value, |(_, digits)| digits.trim_start_matches('s'));
    !digits.is_empty() && digits.chars().all(|c| c == '0')
}

/// Whether a value has a constant with an undefined bit: `2'x`, `{ \a [1:0] 2'0x }`.
fn is_undefined(value: &str) -> bool {
    let constant = |word: &str| {
        let (width, bits) = word.split_once('\'')?;
        (width.parse::<usize>().is_ok() && bits.contains('x')).then_some(())
    };
    // Names begin with a backslash or a dollar sign.
    value.split_whitespace().any(|word| constant(word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_with_their_lines() {
        let list = "module \\m\n  attribute \\src \"input.sv:5.21-5.24\"\n  cell $div $div$input.sv:5$1\n    \
            parameter \\A_WIDTH 4\n    connect \\A \\a\n    connect \\B 4'0000\n  end\n  connect \\z 4'x\nend\n";
        let all = operations(list);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].kind, all[0].name, all[0].line), ("$div", "$div$input.sv:5$1", 5));
        assert_eq!(all[0].operands, [("\\A", "\\a"), ("\\B", "4'0000")]);
    }

    #[test]
    fn constants_are_read() {
        for value in ["4'0000", "0", "4's0000"] {
            assert!(is_zero(value), "{value}");
        }
        for value in ["4'0010", "\\z", "{ 2'00 \\a }", "4'00x0", ""] {
            assert!(!is_zero(value), "{value}");
        }
        for value in ["2'x", "2'1x", "{ \\a [1:0] 2'0x }", "32'xx"] {
            assert!(is_undefined(value), "{value}");
        }
        for value in ["\\x", "\\4'x", "2'10", "$x", "{ \\a 1'0 }"] {
            assert!(!is_undefined(value), "{value}");
        }
    }
}
