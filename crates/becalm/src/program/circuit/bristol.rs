//! Bristol Fashion: counts of gates and wires, widths of inputs and outputs, then one gate a line; the outputs are the last
//! wires. Source: <https://nigelsmart.github.io/MPC-Circuits/>. Bit 0 of a port is its first wire.
//!
//! Errors quote gates, and nothing of the lines before them: a text without a head may be any file, with secrets in it.

use super::{Circuit, FORMATS, Port, Wire, other, quoted, refused, refused_with};
use crate::cipher::file::payable;
use crate::{Error, Result};

/// Bytes of the shortest gate: `1 1 0 1 EQ` and the end of its line.
const GATE: usize = 11;

/// The gates, and how they are written.
const GATES: [(&str, &str); 6] = [
    ("AND", "2 1 A B OUT AND"),
    ("XOR", "2 1 A B OUT XOR"),
    ("INV", "1 1 A OUT INV"),
    ("NOT", "1 1 A OUT NOT"),
    ("EQW", "1 1 A OUT EQW"),
    ("EQ", "1 1 0 OUT EQ or 1 1 1 OUT EQ"),
];

/// Lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())).filter(|(_, l)| !l.is_empty())
}

/// Whole numbers; none where there is something else.
fn numbers(text: &str) -> Option<Vec<usize>> {
    text.split_whitespace().map(|word| word.parse().ok()).collect()
}

/// The numbers of a line of the head.
fn counts(line: usize, text: &str) -> Result<Vec<usize>> {
    numbers(text).ok_or_else(|| other(line, "whole numbers, 0 or more"))
}

/// A line of a count and that number of widths, none above `most`.
fn widths(line: Option<(usize, &str)>, what: &str, end: usize, most: usize) -> Result<Vec<usize>> {
    let wanted = format!("a number of {what} and their widths, 1 or more");
    let (at, text) =
        line.ok_or_else(|| refused_with(end, &*wanted, "the end of the file", FORMATS))?;
    let all = counts(at, text)?;
    match all.split_first() {
        Some((count, widths))
            if *count == widths.len() && widths.iter().all(|w| (1..=most).contains(w)) =>
        {
            Ok(widths.to_vec())
        }
        Some((_, widths)) if widths.iter().any(|w| *w > most) => Err(unpaid(at, most)),
        _ => Err(other(at, wanted)),
    }
}

/// More wires than a file of this length may announce.
fn unpaid(at: usize, most: usize) -> Error {
    let wanted = format!("at most {most} wires in a file as short as this,");
    let remedy = "check that the file is whole, and declare only wires that gates read or write";
    refused_with(at, wanted, "more", remedy)
}

/// The counts of gates and wires, and the widths of inputs and outputs.
struct Head {
    gates: usize,
    total: usize,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

/// Reads the three lines of the head, and refuses numbers that the length of the text does not allow.
fn head<'a>(
    text: &str,
    (at, first): (usize, &str),
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<Head> {
    let (end, most) = (text.lines().count().max(1), payable(text.len()));
    let &[gates, total] = &counts(at, first)?[..] else {
        return Err(other(at, "a number of gates and a number of wires"));
    };
    let inputs = widths(lines.next(), "inputs", end, most)?;
    let line = lines.next();
    let outputs = widths(line, "outputs", end, most)?;
    if let ([], Some((at, _))) = (&outputs[..], line) {
        return Err(refused_with(at, "one output or more", "none", FORMATS));
    }
    let (width_in, width_out) = (inputs.iter().sum::<usize>(), outputs.iter().sum::<usize>());
    if total > most {
        return Err(unpaid(at, most));
    }
    if width_in > total || width_out > total {
        let got = format!("{total} wires");
        return Err(refused_with(at, "enough wires for inputs and outputs", got, FORMATS));
    }
    if gates > text.len() / GATE + 1 {
        let wanted = format!("gates that fit a file of {} bytes", text.len());
        let remedy = "check that the file is whole: each gate has its own line";
        return Err(refused_with(at, wanted, format!("{gates} gates"), remedy));
    }
    Ok(Head { gates, total, inputs, outputs })
}

pub(super) fn parse(text: &str) -> Result<Circuit> {
    let mut lines = lines(text);
    let first = lines
        .next()
        .ok_or_else(|| refused_with(1, "the numbers of gates and wires", "nothing", FORMATS))?;
    let Head { gates, total, inputs, outputs } = head(text, first, &mut lines)?;
    let (at, head) = first;
    let mut circuit = Circuit::empty();
    let mut wires: Vec<Option<Wire>> = Vec::with_capacity(total);
    for (i, width) in inputs.iter().enumerate() {
        let port: Vec<Wire> = (0..*width).map(|_| circuit.input()).collect();
        wires.extend(port.iter().map(|w| Some(*w)));
        circuit.inputs.push(Port { name: format!("in{i}"), wires: port });
    }
    wires.resize(total, None);
    let mut read = 0;
    for (at, line) in lines {
        gate(&mut circuit, &mut wires, at, line)?;
        read += 1;
    }
    if read != gates {
        return Err(refused(
            1,
            format!("{read} as the number of gates, which has one line for each"),
            head,
        ));
    }
    let mut next = total - outputs.iter().sum::<usize>();
    for (i, width) in outputs.iter().enumerate() {
        let bits = wires[next..next + width].iter().copied().collect::<Option<Vec<Wire>>>();
        let bits = bits.ok_or_else(|| refused(at, "a gate that writes every output", head))?;
        circuit.outputs.push(Port { name: format!("out{i}"), wires: bits });
        next += width;
    }
    Ok(circuit)
}

fn gate(circuit: &mut Circuit, wires: &mut [Option<Wire>], at: usize, line: &str) -> Result<()> {
    let (counts, kind) =
        line.rsplit_once(char::is_whitespace).ok_or_else(|| refused(at, "a gate", line))?;
    let counts = numbers(counts).ok_or_else(|| refused(at, "whole numbers, 0 or more", line))?;
    let known = |w: &usize| {
        let wire = wires.get(*w).copied().flatten();
        wire.ok_or_else(|| {
            refused(at, format!("a gate or an input that writes wire {w} before it is read"), line)
        })
    };
    let (result, to) = match (kind, &counts[..]) {
        ("AND", [2, 1, a, b, to]) => (circuit.and(known(a)?, known(b)?), *to),
        ("XOR", [2, 1, a, b, to]) => (circuit.xor(known(a)?, known(b)?), *to),
        ("INV" | "NOT", [1, 1, a, to]) => (known(a)?.not(), *to),
        ("EQW", [1, 1, a, to]) => (known(a)?, *to),
        ("EQ", [1, 1, 0, to]) => (Wire::ZERO, *to),
        ("EQ", [1, 1, 1, to]) => (Wire::ONE, *to),
        _ => return Err(no_gate(at, kind, line)),
    };
    match wires.get_mut(to) {
        Some(slot @ None) => *slot = Some(result),
        _ => {
            return Err(refused(
                at,
                format!("a result on a wire that exists and that nothing else writes, not {to},"),
                line,
            ));
        }
    }
    Ok(())
}

/// Why a line is not a gate: an unknown kind, or numbers that its kind does not have.
fn no_gate(at: usize, kind: &str, line: &str) -> Error {
    match GATES.iter().find(|(name, _)| *name == kind) {
        Some((_, form)) => refused(at, format!("a gate written {form}"), line),
        None => {
            let names: Vec<&str> = GATES.iter().map(|(name, _)| *name).collect();
            let wanted = format!("one of the gates {}", names.join(", "));
            let remedy = "write other gates with these: a OR b is INV of AND of INV a and INV b";
            let word = kind.len() <= 16 && kind.bytes().all(|b| b.is_ascii_alphanumeric());
            let got = if word { quoted(kind) } else { "another word".into() };
            refused_with(at, wanted, got, remedy)
        }
    }
}
