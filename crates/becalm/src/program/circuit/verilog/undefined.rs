//! Refusals of bits that have no value: paths, words and constants without one.
//!
//! The script makes 0 of every `x` that stands for what lies past the end of a signal, and a cell `$anyseq`, which nothing simplifies,
//! of every other. Bits of these that reach an output after all simplification raise an error, and the others cannot matter.

use super::operands::{self, Operation, is_undefined, line_of, place_of};
use super::source::{Token, at_line};
use super::{DEFINED, Folder, SAID, drivers, refused};
use crate::cipher::file::Limits;
use crate::{Error, Result};
use std::collections::HashMap;
use std::path::Path;

const WANTED: &str = "a value for every bit";

/// A text, and the lists that Yosys wrote about it.
pub(super) struct Elaborated<'a> {
    pub tokens: &'a [Token<'a>],
    pub folder: &'a Folder,
    pub limits: Limits,
    pub path: &'a Path,
}

impl Elaborated<'_> {
    /// Refuses an `x` that the script takes for what lies past the end of a signal, but that is a constant of the text. Whether a
    /// table that is constant has such bits, or ends before its addresses do, cannot be seen: then the answer is yes.
    ///
    /// # Errors
    /// [`Error::BadInput`] with the line.
    pub fn indices(&self) -> Result<bool> {
        let list = operands::listed(self.folder, "indices.txt", self.limits)?;
        let cells = operands::operations(&list);
        let results = cells.iter().filter_map(|cell| Some((net(operand(cell, "\\Y")?), cell)));
        let sources: HashMap<&str, &Operation> = results.collect();
        let mut tables = false;
        for cell in &cells {
            for (port, value) in cell.operands.iter().filter(|(_, value)| is_undefined(value)) {
                let element = *port == "\\A" && matches!(cell.kind, "$bmux" | "$shiftx");
                tables |= element && !value.contains(['\\', '$']);
                if !element && !past(cell, port, &sources) {
                    return Err(cell.refused(WANTED, value, self.path, DEFINED));
                }
            }
        }
        Ok(tables)
    }

    /// Refuses a constant that has a bit without a value, as slang's words on the text say.
    ///
    /// # Errors
    /// [`Error::BadInput`] with the name and the line of the constant.
    pub fn constants(&self) -> Result<()> {
        let list = operands::listed(self.folder, SAID, self.limits)?;
        match constant(&list) {
            Some(name) => Err(self.report(name, "")),
            None => Ok(()),
        }
    }

    /// Refuses bits without a value that reach an output. The netlist without the cells that stand for them.
    ///
    /// # Errors
    /// [`Error::BadInput`] with the signal, and the line where one is known.
    pub fn outputs(&self, blif: &str) -> Result<String> {
        let (mut sources, mut open, mut free) = (HashMap::new(), vec![], HashMap::new());
        for line in blif.lines() {
            let mut nets: Vec<&str> = line.split_whitespace().collect();
            match (nets.first(), nets.len()) {
                (Some(&".outputs"), _) => open.extend(nets.drain(1..).map(|net| (net, net))),
                (Some(&".names"), 2..) => {
                    let result = nets.pop().unwrap_or_default();
                    sources.insert(result, nets.split_off(1));
                }
                (Some(&".subckt"), 3..) if nets[1] == "$anyseq" => {
                    let pins = nets[2..].iter().filter_map(|pin| pin.split_once('='));
                    free.extend(pins.map(|(_, net)| (net, ())));
                }
                _ => {}
            }
        }
        while let Some((net, output)) = open.pop() {
            if free.contains_key(net) {
                return Err(self.origin(net, output)?);
            }
            let nets = sources.remove(net).unwrap_or_default();
            if nets.contains(&"$undef") {
                return Err(self.report("", output));
            }
            open.extend(nets.into_iter().map(|net| (net, output)));
        }
        Ok(without(blif))
    }

    /// The error of a bit without a value that an output depends on.
    fn origin(&self, net: &str, output: &str) -> Result<Error> {
        // `$abc$106$auto$rtlil.cc:4097:Anyseq$6[0]`
        let Some(at) = net.rfind("$auto$") else { return Ok(self.report(&plain(net), output)) };
        let wire = net[at..].split('[').next().unwrap_or_default();
        let list = operands::listed(self.folder, "undefined.txt", self.limits)?;
        Ok(match used(&list, wire) {
            Some(("", Some(line))) => at_line(WANTED, line, self.path, output, DEFINED),
            Some((signal, _)) => self.report(&plain(signal), output),
            None => self.report("", output),
        })
    }

    /// The error of a signal without a value, or of an output that depends on one.
    fn report(&self, signal: &str, output: &str) -> Error {
        match drivers::line_of(signal, self.tokens) {
            Some(line) => at_line(WANTED, line, self.path, signal, DEFINED),
            None => {
                let name = if signal.is_empty() { output } else { signal };
                refused(WANTED, format!("an undefined bit in `{name}`"), self.path, DEFINED)
            }
        }
    }
}

/// A netlist with 0 for each cell that stands for bits without a value.
pub(super) fn without(blif: &str) -> String {
    let lines = blif.lines().map(|line| match line.strip_prefix(".subckt $anyseq") {
        Some(pins) => {
            let nets = pins.split_whitespace().filter_map(|pin| pin.split_once('='));
            nets.map(|(_, net)| format!(".names {net}\n")).collect()
        }
        None => [line, "\n"].concat(),
    });
    lines.collect()
}

/// The signal that a port of an operation is connected to.
fn operand<'a>(cell: &Operation<'a>, port: &str) -> Option<&'a str> {
    cell.operands.iter().find(|(name, _)| *name == port).map(|(_, value)| *value)
}

/// The signal that a value is a part of: `$9y` of `$9y [3]`.
fn net(value: &str) -> &str {
    value.split(' ').next().unwrap_or_default()
}

/// Whether an operand is what slang puts past the end of a signal: the choice beside it, or its condition, comes from the same index.
fn past(cell: &Operation, port: &str, sources: &HashMap<&str, &Operation>) -> bool {
    let others = cell.operands.iter().filter(|(other, _)| *other != port && *other != "\\Y");
    let mut sources = others.filter_map(|(_, value)| sources.get(net(value)));
    cell.kind == "$mux"
        && matches!(port, "\\A" | "\\B")
        && !cell.place.is_empty()
        && sources.any(|source| source.place == cell.place)
}

/// The constant that has a bit without a value, in what slang says of a text.
fn constant(list: &str) -> Option<&str> {
    let (mut name, mut open) = ("", false);
    for line in list.lines().map(str::trim) {
        let Some((key, value)) = line.trim_end_matches(',').split_once(": ") else { continue };
        let value = value.trim_matches('"');
        match key.trim_matches('"') {
            "name" => (name, open) = (value, false),
            "kind" if value == "Parameter" => open = true,
            // `8'bxx00`, `'{8'd1,8'bxx00}`
            "value"
                if open && !value.starts_with('\\') && value.split('\'').skip(1).any(unknown) =>
            {
                return Some(name);
            }
            _ => {}
        }
    }
    None
}

/// Whether digits with their base have one that is unknown: `bxx00`.
fn unknown(digits: &str) -> bool {
    let digits = digits.split([',', '}']).next().unwrap_or_default();
    digits.contains(['x', 'z'])
}

/// The first use of a wire, in a list of operations and processes: the signal that it is assigned to, or the line of the operation.
fn used<'a>(list: &'a str, wire: &str) -> Option<(&'a str, Option<usize>)> {
    let (mut place, mut inside) = ("", "");
    for text in list.lines().map(str::trim) {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "attribute" => place = place_of(rest).unwrap_or(place),
            "cell" => inside = rest,
            "end" => (inside, place) = ("", ""),
            "assign" | "connect" if rest.split([' ', '{', '}']).any(|word| word == wire) => {
                if inside.starts_with("$anyseq") {
                    continue;
                }
                let signal = if word == "assign" { net(rest) } else { "" };
                return Some((signal, line_of(place)));
            }
            _ => {}
        }
    }
    None
}

/// The name in the text that a signal of Yosys comes from: `u.f` of `$u.f.f$1`, which is the result of a function, `rom` of `rom[4]`.
fn plain(signal: &str) -> String {
    let name = signal.trim_start_matches(['\\', '$']).split(['$', '[']).next().unwrap_or_default();
    match name.rsplit_once('.') {
        Some((routine, result)) if routine.rsplit('.').next() == Some(result) => routine.into(),
        // A number that Yosys gives.
        _ if name.starts_with(|c: char| c.is_ascii_digit()) => String::new(),
        _ => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefined_bits_are_traced_to_the_text() {
        let list = "module \\m\n  attribute \\src \"input.sv:3.27-3.29\"\n  cell $not $0\n    connect \\A $any$6\n  end\n  \
            cell $anyseq $auto$10\n    connect \\Y $any$7\n  end\n  attribute \\src \"input.sv:4.1\"\n  process $2\n    \
            switch { }\n      case \n        assign $f.f$1 $any$7\n    end\n  end\nend\n";
        assert_eq!(used(list, "$any$6"), Some(("", Some(3))));
        assert_eq!(used(list, "$any$7").map(|u| u.0), Some("$f.f$1"));
        assert_eq!(used(list, "$any$8"), None);
        for (signal, name) in
            [("$f.f$1", "f"), ("$u.f.f$2", "u.f"), ("\\f.t", "f.t"), ("rom[4]", "rom"), ("$3", "")]
        {
            assert_eq!(plain(signal), name, "{signal}");
        }
    }

    #[test]
    fn constants_without_a_value_are_found() {
        let list = "\"name\": \"T\",\n\"kind\": \"Parameter\",\n\"initializer\": {\n\"kind\": \"IntegerLiteral\",\n\
            \"value\": \"'{8'd1,8'hVV}\",\n}\n\"name\": \"e\",\n\"value\": \"2'bx1\"";
        assert_eq!(constant(&list.replace("VV", "0f")), None);
        assert_eq!(constant(&list.replace("hVV", "bxxxxxxxx")), Some("T"));
    }
}
