//! Refusals of bits that have no value: constant indices out of range, paths and words without a value.
//!
//! The script makes a cell `$anyseq` of every `x`, before anything folds it away. Bits of these that reach an output after all
//! simplification are refused, and the others cannot matter. Where they come from is looked up in the lists of the script.

use super::arrays::{Arrays, Source};
use super::guards::{Site, WRITE_WIDTH};
use super::operands::{self, Operation, listed};
use super::source::at_line;
use super::{DEFINED, Folder, refused};
use crate::cipher::file::Limits;
use crate::{Error, Result};
use std::collections::HashMap;
use std::path::Path;

const WANTED: &str = "a value for every bit";

/// A text, and the lists that Yosys wrote about it.
pub(super) struct Elaborated<'a> {
    pub source: &'a Source<'a>,
    pub arrays: &'a Arrays<'a>,
    pub sites: &'a [Site],
    pub folder: &'a Folder,
    pub limits: Limits,
    pub path: &'a Path,
}

impl Elaborated<'_> {
    /// Refuses constant indices out of range: those that Yosys warns of in what it `said`, and writes whose condition never holds.
    ///
    /// # Errors
    /// [`Error::BadInput`] with the line, the signal, the index and its declaration.
    pub fn indices(&self, said: &str) -> Result<()> {
        if let Some(line) = said.lines().find(|line| line.contains("to undef")) {
            let place = line.split_once("input.sv:").and_then(|(_, rest)| number(rest));
            let name = line.split_once("signal `").and_then(|(_, rest)| rest.split('\'').next());
            let name = name.unwrap_or_default().trim_start_matches('\\');
            return Err(match place {
                Some(place) => self.outside(place, name),
                None => refused(WANTED, super::shown(line), self.path, DEFINED),
            });
        }
        if self.sites.is_empty() {
            return Ok(());
        }
        let writes = self.list("writes.txt")?;
        let mut lines = dropped(&writes).into_iter();
        if let Some(line) = lines.find(|line| self.site(*line, "").is_some()) {
            return Err(self.outside(line, ""));
        }
        let eq = self.list("parts.txt")?;
        if let Some(Operation { line, .. }) = operands::operations(&eq).first() {
            let got = self.site(*line, "").map_or("", |site| &site.text);
            let wanted = "a constant place for a part of an inner dimension that is written";
            let remedy = "write each bit with an index of its own";
            return Err(at_line(wanted, *line, self.path, got, remedy));
        }
        Ok(())
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
                return Err(self.nowhere(output));
            }
            open.extend(nets.into_iter().map(|net| (net, output)));
        }
        if free.is_empty() {
            return Ok(blif.into());
        }
        let lines = blif.lines().map(|line| match line.strip_prefix(".subckt $anyseq") {
            Some(pins) => {
                let nets = pins.split_whitespace().filter_map(|pin| pin.split_once('='));
                nets.map(|(_, net)| format!(".names {net}\n")).collect()
            }
            None => [line, "\n"].concat(),
        });
        Ok(lines.collect())
    }

    fn list(&self, name: &str) -> Result<String> {
        listed(self.folder, name, self.limits)
    }

    fn nowhere(&self, output: &str) -> Error {
        refused(WANTED, format!("an undefined bit in `{output}`"), self.path, DEFINED)
    }

    /// The error of a bit without a value that an output depends on.
    fn origin(&self, net: &str, output: &str) -> Result<Error> {
        let last = self.list("anyseq.txt")?;
        let base = net.rsplit_once('[').map_or(net, |(base, _)| base);
        let holds = |value: &str| {
            let mut words = value.split_whitespace().map(|word| word.trim_start_matches('\\'));
            words.any(|word| word == base || word == net)
        };
        let cells = operands::operations(&last);
        let cell = cells.iter().find(|cell| cell.operands.iter().any(|(_, value)| holds(value)));
        let name = cell.map_or("", |cell| cell.name);
        let name = name.rfind("$auto$").map_or(name, |at| &name[at..]);
        for list in ["undefined.txt", "holes.txt"] {
            let list = self.list(list)?;
            if let Some(used) = used(&list, name) {
                return Ok(self.report(&used, output));
            }
        }
        Ok(self.nowhere(output))
    }

    fn report(&self, used: &Used, output: &str) -> Error {
        let name = plain(&used.signal);
        let place = match used.line {
            0 if used.kept => self.named(&name),
            0 => self.assigned(&name).or_else(|| self.named(&name)),
            line => Some(line),
        };
        match place {
            Some(line) if !used.kept && self.site(line, "").is_some() => self.outside(line, ""),
            Some(line) => {
                let shown = if name.is_empty() { output } else { &name };
                at_line(WANTED, line, self.path, shown, DEFINED)
            }
            None => self.nowhere(if name.is_empty() { output } else { &name }),
        }
    }

    /// The error of an index out of range in a line.
    fn outside(&self, line: usize, name: &str) -> Error {
        let wanted = format!("{WANTED} in line {line} of {}", self.path.display());
        let (text, declared) = match self.site(line, name) {
            Some(site) => (site.text.clone(), site.declared.clone()),
            None => self.selected(line, name),
        };
        let of = if declared.is_empty() { String::new() } else { format!(" of `{declared}`") };
        let text: String = text.chars().take(60).collect();
        let got = format!("`{text}`, an index out of bounds{of}");
        Error::bad_input("circuit", wanted, got, "keep every index within its signal")
    }

    /// The index with a guard that stands in a line.
    fn site(&self, line: usize, name: &str) -> Option<&Site> {
        self.sites.iter().find(|site| site.line == line && site.text.starts_with(name))
    }

    /// A signal with its indices in a line, and its declaration.
    fn selected(&self, line: usize, name: &str) -> (String, String) {
        let source = self.source;
        let base = name.rsplit('.').next().unwrap_or(name);
        let mut places = (0..source.tokens.len()).filter(|i| source.tokens[*i].line == line);
        let place = places.find(|i| {
            let here = source.word(*i).trim_start_matches('\\') == base;
            here && source.word(i + 1) == "[" && !self.arrays.declares[*i]
        });
        let Some(at) = place else {
            return (name.to_string(), String::new());
        };
        let declared = self.arrays.of(at, source.word(at)).map(|d| d.text.clone());
        (source.joined(at, source.behind(at + 1)), declared.unwrap_or_default())
    }

    /// The line where a signal is assigned first.
    fn assigned(&self, name: &str) -> Option<usize> {
        let source = self.source;
        let all = 0..source.tokens.len();
        let mut places = all.filter(|i| source.word(*i).trim_start_matches('\\') == name);
        let assigned = |i: &usize| source.word(source.behind(i + 1)) == "=";
        places.find(assigned).map(|i| source.tokens[i].line)
    }

    /// The line where a name stands first.
    fn named(&self, name: &str) -> Option<usize> {
        let base = name.rsplit('.').next()?;
        let found = self.source.tokens.iter().find(|t| t.text.trim_start_matches('\\') == base);
        found.map(|token| token.line)
    }
}

/// Where an undefined value goes.
#[derive(Debug, PartialEq)]
struct Used {
    signal: String,
    /// 0 where none is known.
    line: usize,
    /// Whether it is the value that a variable keeps, or a word of a memory.
    kept: bool,
}

/// The lines of writes that never happen, in a list of the processes: those that wait for a condition that is constant, and those of
/// which nothing is left.
fn dropped(list: &str) -> Vec<usize> {
    let never = format!("switch {WRITE_WIDTH}'");
    let (mut found, mut line, mut place, mut writes) = (vec![], 0, 0, false);
    for text in list.lines().map(str::trim) {
        match text.split_once(' ').unwrap_or((text, "")) {
            ("attribute", rest) => line = operands::line_of(rest).unwrap_or(line),
            ("process", _) => (place, writes) = (line, false),
            ("assign", "{ } { }") => writes = true,
            ("assign" | "update", _) => place = 0,
            ("switch", _) => {
                place = 0;
                let constant = text.strip_prefix(&*never);
                found.extend(constant.filter(|bits| !bits.starts_with('1')).map(|_| line));
            }
            ("end", _) => {
                found.extend((writes && place > 0).then_some(place));
                place = 0;
            }
            _ => {}
        }
    }
    found
}

/// The first use of what a cell `$anyseq` gives, in a list of everything.
fn used(list: &str, cell: &str) -> Option<Used> {
    let cells = operands::operations(list);
    let wire = cells.iter().find(|c| c.name == cell && c.kind == "$anyseq")?.operands.first()?.1;
    let (mut line, mut wires, mut inside) = (0, HashMap::new(), None);
    for text in list.lines() {
        let (indent, text) = (text.len() - text.trim_start().len(), text.trim());
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "attribute" => line = operands::line_of(rest).unwrap_or(line),
            "wire" => {
                wires.insert(rest.rsplit(' ').next().unwrap_or_default(), line);
                line = 0;
            }
            "cell" => inside = rest.split_once(' '),
            "end" if indent == 2 => (inside, line) = (None, 0),
            "update" | "assign" | "connect" | "switch" => {
                let whole = rest.split([' ', '{', '}']).any(|word| word == wire);
                if !whole || inside.is_some_and(|(kind, _)| kind == "$anyseq") {
                    continue;
                }
                let (left, right) = rest.split_once(' ').unwrap_or((rest, ""));
                let signal = match inside {
                    Some((_, name)) if name.contains("$memory\\") => name,
                    Some(_) => "",
                    None if left == wire && word == "connect" => right,
                    None => left,
                };
                let kept = word == "update" || signal.contains("$memory\\");
                let line = if kept { wires.get(signal).copied().unwrap_or(0) } else { line };
                return Some(Used { signal: signal.to_string(), line, kept });
            }
            _ => {}
        }
    }
    None
}

/// The name in the text that a signal of Yosys comes from: `f` of `\f$func$input.sv:3$2.$result`, `rom` of `$memory\rom$rdmux[0]`.
fn plain(signal: &str) -> String {
    let (_, name) = signal.split_once('\\').unwrap_or(("", ""));
    let name = name.rsplit('\\').next().unwrap_or(name);
    let end = name.find(['$', ' ', '[']).unwrap_or(name.len());
    let (first, rest) = name.split_at(end);
    // A variable of a function or of a task.
    let call = rest.starts_with("$func$") || rest.starts_with("$task$");
    match rest.rsplit_once('.').filter(|_| call) {
        Some((_, inner)) if !inner.starts_with('$') && inner != first => format!("{first}.{inner}"),
        _ => first.to_string(),
    }
}

/// The number that a text begins with.
fn number(text: &str) -> Option<usize> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefined_bits_are_traced_to_the_text() {
        let list = "module \\m\n  attribute \\src \"input.sv:2.11-2.11\"\n  wire \\f$func$input.sv:3$2.$result\n\n  \
            wire $any$11\n  cell $anyseq $auto$setundef.cc:5:execute$10\n    parameter \\WIDTH 1\n    \
            connect \\Y $any$11\n  end\n\n  attribute \\src \"input.sv:3.12-3.13\"\n  process $proc$input.sv:3$3\n    \
            sync always\n      update \\f$func$input.sv:3$2.$result $any$11\n  end\nend\n";
        let found = used(list, "$auto$setundef.cc:5:execute$10").unwrap();
        assert_eq!((found.line, &*plain(&found.signal), found.kept), (2, "f", true));
        for (signal, name) in [
            ("$memory\\rom$rdmux[0][2][1]$a$30", "rom"),
            ("\\y", "y"),
            ("$0\\y[1:0]$5", "y"),
            ("\\f$func$input.sv:3$2.t", "f.t"),
            ("$x", ""),
        ] {
            assert_eq!(plain(signal), name, "{signal}");
        }
    }
}
