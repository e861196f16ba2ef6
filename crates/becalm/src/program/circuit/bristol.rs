//! Bristol Fashion: counts of gates and wires, widths of inputs and outputs, then one gate a line; the outputs are the last
//! wires. Source: <https://nigelsmart.github.io/MPC-Circuits/>. Bit 0 of a port is its first wire.

use super::{Circuit, Port, Wire, refused};
use crate::Result;

/// Most wires that a file may declare.
const MAX_WIRES: usize = 1 << 22;

/// Lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())).filter(|(_, l)| !l.is_empty())
}

fn numbers(line: usize, text: &str) -> Result<Vec<usize>> {
    let number = |w: &str| w.parse().map_err(|_| refused(line, "numbers", text));
    text.split_whitespace().map(number).collect()
}

/// A line of a count and so many widths.
fn widths(line: Option<(usize, &str)>, what: &str) -> Result<Vec<usize>> {
    let (at, text) = line.ok_or_else(|| refused(0, what, "the end of the file"))?;
    let all = numbers(at, text)?;
    match all.split_first() {
        Some((count, widths))
            if *count == widths.len() && widths.iter().all(|w| *w <= MAX_WIRES) =>
        {
            Ok(widths.to_vec())
        }
        _ => Err(refused(at, what, text)),
    }
}

pub(super) fn parse(text: &str) -> Result<Circuit> {
    let mut lines = lines(text);
    let (at, head) = lines.next().ok_or_else(|| refused(1, "counts", "nothing"))?;
    let &[gates, total] = &numbers(at, head)?[..] else {
        return Err(refused(at, "a number of gates and a number of wires", head));
    };
    let inputs = widths(lines.next(), "a number of inputs and their widths")?;
    let outputs = widths(lines.next(), "a number of outputs and their widths")?;
    let (width_in, width_out) = (inputs.iter().sum::<usize>(), outputs.iter().sum::<usize>());
    if total > MAX_WIRES || width_in > total || width_out > total {
        return Err(refused(at, "enough wires for inputs and outputs, at most 2^26", head));
    }
    let mut circuit = Circuit::empty();
    let mut wires: Vec<Option<Wire>> = Vec::new();
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
        return Err(refused(1, format!("as many gates as lines, {read}"), head));
    }
    let mut next = total - width_out;
    for (i, width) in outputs.iter().enumerate() {
        let bits = wires[next..next + width].iter().copied().collect::<Option<Vec<Wire>>>();
        let bits = bits.ok_or_else(|| refused(at, "a gate for every output", head))?;
        circuit.outputs.push(Port { name: format!("out{i}"), wires: bits });
        next += width;
    }
    Ok(circuit)
}

fn gate(circuit: &mut Circuit, wires: &mut [Option<Wire>], at: usize, line: &str) -> Result<()> {
    let (counts, kind) =
        line.rsplit_once(char::is_whitespace).ok_or_else(|| refused(at, "a gate", line))?;
    let counts = numbers(at, counts)?;
    let known = |w: &usize| {
        let wire = wires.get(*w).copied().flatten();
        wire.ok_or_else(|| refused(at, format!("a value on wire {w} before it is read"), line))
    };
    let (result, to) = match (kind, &counts[..]) {
        ("AND", [2, 1, a, b, to]) => (circuit.and(known(a)?, known(b)?), *to),
        ("XOR", [2, 1, a, b, to]) => (circuit.xor(known(a)?, known(b)?), *to),
        ("INV" | "NOT", [1, 1, a, to]) => (known(a)?.not(), *to),
        ("EQW", [1, 1, a, to]) => (known(a)?, *to),
        ("EQ", [1, 1, 0, to]) => (Wire::ZERO, *to),
        ("EQ", [1, 1, 1, to]) => (Wire::ONE, *to),
        _ => return Err(refused(at, "AND, XOR, INV, EQW or EQ with its wires", line)),
    };
    match wires.get_mut(to) {
        Some(slot @ None) => *slot = Some(result),
        _ => return Err(refused(at, format!("wire {to} to exist and be free"), line)),
    }
    Ok(())
}
