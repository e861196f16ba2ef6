//! Boolean circuits: read from Bristol Fashion, BLIF or Verilog, and compiled to programs.
//!
//! A circuit is a graph of AND and XOR gates of two inputs whose edges may negate, hashed so that equal gates are one and
//! constants vanish. [`Circuit::compile`] covers it with lookups: a lookup reads Σ w_i·x_i, so a function of several bits
//! costs one bootstrap as soon as small weights w_i tell apart what it must tell apart (`weights`).

mod abc;
mod adders;
mod blif;
mod bristol;
mod candidates;
mod choice;
mod columns;
mod compile;
mod counters;
mod cover;
mod covers;
mod cuts;
mod nets;
mod portfolio;
mod refresh;
mod restructure;
mod rotations;
mod rounds;
mod verilog;
mod weights;

pub use abc::Rewriting;
pub use candidates::Goal;
pub use compile::Compiled;
pub use verilog::use_python;

use crate::cipher::file::{Limits, readable};
use crate::math::memory::require_free;
use crate::progress::tell;
use crate::{Error, Progress, Result, UNWATCHED};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A wire: a node, and whether it is negated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wire(u32);

impl Wire {
    /// The constant 0.
    const ZERO: Wire = Wire(0);
    /// The constant 1.
    const ONE: Wire = Wire(1);

    fn new(node: usize) -> Self {
        Wire(2 * node as u32)
    }

    fn node(self) -> usize {
        self.0 as usize / 2
    }

    fn negated(self) -> bool {
        self.0 & 1 == 1
    }

    fn not(self) -> Self {
        Wire(self.0 ^ 1)
    }
}

/// The driver of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    /// The constant 0: node 0.
    Zero,
    /// An input bit.
    Input,
    /// Both; the first wire is the smaller.
    And(Wire, Wire),
    /// Exactly one; neither wire negated, the first is the smaller.
    Xor(Wire, Wire),
    /// A binary digit of a sum, counted from the lowest. Only circuits that the compiler makes have these.
    Digit(u32, u8),
    /// The next digit of the sum of the digit before it. A table gives both as one value, which sums alone read.
    Upper(u32, u8),
}

/// Σ weight·node + offset, a number from 0 on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sum {
    terms: Vec<(usize, i64)>,
    offset: i64,
    /// The greatest value, of digits that are not all 1 at once.
    limit: i64,
}

impl Sum {
    /// A binary digit of 64 sums at once.
    fn digit(&self, values: &[u64], place: u8) -> u64 {
        let mut digits = [0u64; 64];
        let negative: i64 = self.terms.iter().map(|t| t.1.min(0)).sum();
        let mut add = |bits: u64, weight: i64| {
            for i in (0..64).filter(|i| weight >> i & 1 == 1) {
                let mut carry = bits;
                for digit in &mut digits[i..] {
                    (*digit, carry) = (*digit ^ carry, *digit & carry);
                }
            }
        };
        // Σ w·x = Σ |w|·¬x + w where w is negative.
        add(u64::MAX, self.offset + negative);
        for (node, weight) in &self.terms {
            let bits = if *weight < 0 { !values[*node] } else { values[*node] };
            add(bits, weight.abs());
        }
        digits[usize::from(place)]
    }
}

/// Bits under one name: least significant first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name in the file.
    pub name: String,
    /// Its bits.
    wires: Vec<Wire>,
}

impl Port {
    /// Number of bits.
    pub fn width(&self) -> usize {
        self.wires.len()
    }
}

/// A boolean circuit without memory.
#[derive(Debug, Clone, Default)]
pub struct Circuit {
    /// Inputs of a gate stand before it.
    nodes: Vec<Node>,
    known: HashMap<Node, Wire>,
    /// The name of the number that the digits belong to.
    sums: Vec<Sum>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// The tables of its file as BLIF, inputs `i0`, `i1`, … and outputs `o0`, `o1`, …, where their rows are not gates.
    rows: Option<Arc<str>>,
    /// The same function as Yosys has it before its ABC, for a circuit from Verilog.
    netlists: Option<Arc<verilog::Netlists>>,
    /// Bytes of memory that compiling may take, for a circuit from a file.
    memory: Option<u64>,
}

impl Circuit {
    /// Reads a circuit from a file: Verilog or SystemVerilog if the name ends in `.v` or `.sv`, else as [`Circuit::parse`].
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::BadFile`] for a file that cannot be read, is empty, longer than `limits` allow, or not text;
    /// [`Error::BadInput`] for what it says, with the path and the line, and for Verilog that Yosys does not read within the
    /// limits, or several modules that no other contains; [`Error::Unsupported`] if it is Verilog and no Yosys is installed.
    pub fn load(path: impl AsRef<Path>, limits: Limits) -> Result<Self> {
        Circuit::load_with(path, None, limits, UNWATCHED)
    }

    /// [`Circuit::load`] of the module `top` of a Verilog file; `None` takes the only one that no other contains. `progress` can
    /// stop it.
    ///
    /// # Errors
    /// As [`Circuit::load`]; [`Error::BadInput`] for a `top` that the file does not have, or for a file that is not Verilog;
    /// [`Error::Interrupted`].
    pub fn load_with(
        path: impl AsRef<Path>,
        top: Option<&str>,
        limits: Limits,
        progress: Progress,
    ) -> Result<Self> {
        let mut circuit = Circuit::read(path.as_ref(), top, limits, progress)?;
        circuit.memory = Some(limits.memory);
        Ok(circuit)
    }

    fn read(path: &Path, top: Option<&str>, limits: Limits, progress: Progress) -> Result<Self> {
        let text = limits.read_text(path)?;
        if path.extension().is_some_and(|e| e == "v" || e == "sv") {
            return verilog::parse(&text, path, top, limits, progress);
        }
        if top.is_some() {
            let wanted = "a Verilog file (*.v, *.sv), where a top module is named";
            let remedy = "leave the top module out: other formats have one circuit a file";
            return Err(Error::bad_input("circuit", wanted, path.display().to_string(), remedy));
        }
        tell("circuit", progress, 0, 1)?;
        Circuit::parse(&text).map_err(|e| match e {
            Error::BadInput(mut detail) => {
                detail.wanted = format!("{} of {}", detail.wanted, path.display());
                Error::BadInput(detail)
            }
            other => other,
        })
    }

    /// Reads a circuit: Bristol Fashion, or BLIF if a line begins with `.model`, `.inputs` or `.names`. Takes at most 64 bytes of
    /// memory for each byte of the text, and 4 MiB.
    ///
    /// # Errors
    /// [`Error::BadInput`] with the line and the expected form; [`Error::Memory`] where so much is not free.
    pub fn parse(text: &str) -> Result<Self> {
        require_free("circuit", readable(text.len()), ROOM)?;
        let keys = [".model", ".inputs", ".names"];
        let blif = text.lines().any(|l| keys.iter().any(|k| l.trim_start().starts_with(k)));
        if blif { blif::parse(text) } else { bristol::parse(text) }
    }

    fn empty() -> Self {
        Circuit { nodes: vec![Node::Zero], ..Circuit::default() }
    }

    /// The input ports, in the order of the file.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// The output ports, in the order of the file.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// AND and XOR gates.
    pub fn gates(&self) -> (usize, usize) {
        let count = |f: fn(&Node) -> bool| self.nodes.iter().filter(|n| f(n)).count();
        (count(|n| matches!(n, Node::And(..))), count(|n| matches!(n, Node::Xor(..))))
    }

    fn input(&mut self) -> Wire {
        self.nodes.push(Node::Input);
        Wire::new(self.nodes.len() - 1)
    }

    fn gate(&mut self, node: Node) -> Wire {
        if let Some(wire) = self.known.get(&node) {
            return *wire;
        }
        self.nodes.push(node);
        let wire = Wire::new(self.nodes.len() - 1);
        self.known.insert(node, wire);
        wire
    }

    fn and(&mut self, a: Wire, b: Wire) -> Wire {
        let (a, b) = (a.min(b), a.max(b));
        match (a, b) {
            (Wire::ZERO, _) => Wire::ZERO,
            (Wire::ONE, _) => b,
            _ if a == b => a,
            _ if a == b.not() => Wire::ZERO,
            _ => self.gate(Node::And(a, b)),
        }
    }

    fn or(&mut self, a: Wire, b: Wire) -> Wire {
        self.and(a.not(), b.not()).not()
    }

    fn xor(&mut self, a: Wire, b: Wire) -> Wire {
        let flip = a.negated() != b.negated();
        let (a, b) = (Wire::new(a.node()), Wire::new(b.node()));
        let (a, b) = (a.min(b), a.max(b));
        let plain = match (a, b) {
            (Wire::ZERO, _) => b,
            _ if a == b => Wire::ZERO,
            _ => self.gate(Node::Xor(a, b)),
        };
        if flip { plain.not() } else { plain }
    }

    /// The outputs for given inputs, a bit of each of 64 evaluations in every word: one word a bit, least significant bit
    /// of a port first, ports in order.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another number of words than the inputs have bits.
    pub fn evaluate(&self, inputs: &[u64]) -> Result<Vec<u64>> {
        let bits: usize = self.inputs.iter().map(Port::width).sum();
        if inputs.len() != bits {
            return Err(Error::bad_input(
                "circuit",
                format!("{bits} words, one a bit"),
                inputs.len().to_string(),
                "give every input bit",
            ));
        }
        let mut values = vec![0u64; self.nodes.len()];
        let wires = self.inputs.iter().flat_map(|p| &p.wires);
        for (wire, value) in wires.zip(inputs) {
            values[wire.node()] = *value;
        }
        let at = |values: &[u64], w: Wire| values[w.node()] ^ (w.negated() as u64).wrapping_neg();
        for i in 0..self.nodes.len() {
            match self.nodes[i] {
                Node::Zero | Node::Input => {}
                Node::And(a, b) => values[i] = at(&values, a) & at(&values, b),
                Node::Xor(a, b) => values[i] = at(&values, a) ^ at(&values, b),
                Node::Digit(sum, place) | Node::Upper(sum, place) => {
                    values[i] = self.sums[sum as usize].digit(&values, place);
                }
            }
        }
        Ok(self.outputs.iter().flat_map(|p| &p.wires).map(|w| at(&values, *w)).collect())
    }

    /// Whether another circuit gives the same, for all inputs if they are few, for random ones otherwise.
    fn agrees(&self, other: &Circuit) -> bool {
        let bits: usize = self.inputs.iter().map(|p| p.width()).sum();
        let words = if bits <= COUNTED { 1 << bits.saturating_sub(6) } else { WORDS };
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut random = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            state.rotate_left(29) ^ state >> 7
        };
        (0..words).all(|word| {
            let counted = |bit: usize| match bit {
                // The lanes of a word count the first six bits, words the others.
                0..6 => (0..64u64).fold(0, |w, lane| w | (lane >> bit & 1) << lane),
                _ => ((word >> (bit - 6) & 1) as u64).wrapping_neg(),
            };
            let given = |bit| if bits <= COUNTED { counted(bit) } else { random() };
            let inputs: Vec<u64> = (0..bits).map(given).collect();
            matches!((self.evaluate(&inputs), other.evaluate(&inputs)), (Ok(a), Ok(b)) if a == b)
        })
    }
}

/// Nodes of a circuit whose chains are not taken apart twice, which is covered with care as it came alone, and has one netlist.
const LARGE: usize = 3000;
/// Words of 64 evaluations for one of more.
const WORDS: usize = 256;
/// Input bits of a circuit that is compared at all of their values.
const COUNTED: usize = 14;
/// The remedy where memory does not do.
const ROOM: &str = "split the circuit, or free memory";
/// The remedy for a text that is not a circuit.
const FORMATS: &str =
    "give a combinational circuit in Bristol Fashion, BLIF or Verilog (a file *.v or *.sv)";

/// The error of a reader for a bad line, counted from 1, which it quotes.
fn refused(line: usize, wanted: impl Into<String>, got: &str) -> Error {
    refused_with(line, wanted, quoted(got), FORMATS)
}

/// [`refused`] of a line that may belong to any file, which nobody may read: not quoted.
fn other(line: usize, wanted: impl Into<String>) -> Error {
    refused_with(line, wanted, "another line", FORMATS)
}

/// [`refused`] with its own words for the input, and another remedy.
fn refused_with(
    line: usize,
    wanted: impl Into<String>,
    got: impl Into<String>,
    remedy: &str,
) -> Error {
    Error::bad_input("circuit", format!("{} in line {line}", wanted.into()), got, remedy)
}

/// The names of a loop, for a message.
fn looped(names: &[&str]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| quoted(name)).collect();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match names {
        [] => "a signal that depends on itself".into(),
        [_] => format!("{}, which depends on itself", shown.concat()),
        _ => format!("{}{more}, which depend on each other", shown.join(", ")),
    }
}

/// The first characters of a file, for a message.
fn quoted(text: &str) -> String {
    let text: String = text.chars().take(60).collect();
    format!("`{text}`")
}
