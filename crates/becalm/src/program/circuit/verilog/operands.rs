//! The operations of a module as Yosys lists them, and refusals of those that make no gates or that have undefined bits.
//!
//! They are found in Yosys's own list of the operations, in which names stand for their values.

use super::source::at_line;
use super::{DEFINED, Folder, refused};
use crate::cipher::file::Limits;
use crate::{Error, Result};
use std::path::Path;

/// An operation: its kind, where in the text it comes from, and its operands.
pub(super) struct Operation<'a> {
    pub kind: &'a str,
    /// As `input.sv:5.21-5.24`; nothing where it comes from no single place.
    pub place: &'a str,
    pub operands: Vec<(&'a str, &'a str)>,
}

impl Operation<'_> {
    /// A refusal of it, with the line that it comes from where one is known.
    pub fn refused(&self, wanted: &str, got: &str, path: &Path, remedy: &str) -> Error {
        match line_of(self.place) {
            Some(line) => at_line(wanted, line, path, got, remedy),
            None => refused(wanted, format!("`{got}`"), path, remedy),
        }
    }
}

/// Refuses operations on undefined bits, which a division by 0 leaves.
///
/// # Errors
/// [`Error::BadInput`](crate::Error::BadInput) with the line of the file at `path`.
pub(super) fn check(folder: &Folder, limits: Limits, path: &Path) -> Result<()> {
    let cells = listed(folder, "cells.txt", limits)?;
    for cell in operations(&cells) {
        // A table has no clock.
        let meant = cell.kind.starts_with("$mem");
        let open = cell.operands.iter().find(|(_, value)| !meant && is_undefined(value));
        if let Some((_, value)) = open {
            return Err(cell.refused("a value for every bit", value, path, DEFINED));
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
        Some(found) => found.refused(wanted, kind, path, remedy),
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
    let (mut found, mut place, mut inside): (Vec<Operation>, _, _) = (vec![], "", false);
    for text in list.lines().map(str::trim) {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            // `attribute \src "input.sv:5.21-5.24"`
            "attribute" => place = place_of(rest).unwrap_or(place),
            "cell" => {
                let kind = rest.split(' ').next().unwrap_or_default();
                found.push(Operation { kind, place, operands: vec![] });
                (inside, place) = (true, "");
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

/// The place that an attribute names, if it says where something comes from.
pub(super) fn place_of(attribute: &str) -> Option<&str> {
    attribute.strip_prefix("\\src \"")?.strip_suffix('"')
}

/// The first line of a place such as `input.sv:5.21-5.24`.
pub(super) fn line_of(place: &str) -> Option<usize> {
    place.strip_prefix("input.sv:")?.split(['.', '-', '|']).next()?.parse().ok()
}

/// Whether a value has a constant with an undefined bit: `2'x`, `{ \a [1:0] 2'0x }`.
pub(super) fn is_undefined(value: &str) -> bool {
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
        assert_eq!((all[0].kind, all[0].place), ("$div", "input.sv:5.21-5.24"));
        assert_eq!(all[0].operands, [("\\A", "\\a"), ("\\B", "4'0000")]);
    }

    #[test]
    fn constants_are_read() {
        for value in ["2'x", "2'1x", "{ \\a [1:0] 2'0x }", "32'xx"] {
            assert!(is_undefined(value), "{value}");
        }
        for value in ["\\x", "\\4'x", "2'10", "$x", "{ \\a 1'0 }"] {
            assert!(!is_undefined(value), "{value}");
        }
    }
}
