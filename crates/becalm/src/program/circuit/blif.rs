//! BLIF, the combinational part: one `.model` of `.inputs`, `.outputs`, `.names` with a cover of products, and `.end`. Names
//! such as `a[3]` make port `a` with bit 3; the least bit that is named comes first, and none may be missing after it. Other
//! names are ports of one bit. Source: Berkeley Logic Interchange Format, 1992.

use super::covers::{self, Cover, Function, WORK};
use super::{Circuit, FORMATS, Port, Wire, looped, other, quoted, refused, refused_with};
use crate::{Error, Result};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Tables of one order of inputs.
const TOGETHER: usize = 32;
/// Fewest inputs whose order is searched: a function of fewer is one lookup.
const ORDERED: usize = 4;
/// Inputs that a table may have less than those whose order it takes.
const FEWER: usize = 4;

const FLATTEN: &str = "make one model of it first: \
    `yosys -p 'read_blif FILE; hierarchy -auto-top; flatten; write_blif FLAT'`";

/// A `.names` table.
struct Table<'a> {
    line: usize,
    inputs: Vec<&'a str>,
    /// The products, and whether they list where the function is 1.
    products: Vec<&'a str>,
    ones: bool,
}

/// A name, and the line that it stands in.
type Name<'a> = (&'a str, usize);

#[derive(Default)]
struct Model<'a> {
    inputs: Vec<Name<'a>>,
    outputs: Vec<Name<'a>>,
    tables: HashMap<&'a str, Table<'a>>,
}

impl Model<'_> {
    /// Whether no line has said anything of it: the text may be any file, with secrets in it.
    fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty() && self.tables.is_empty()
    }

    /// The tables as they are written, with the names that ABC gets, if one has several rows of more than two inputs: ABC
    /// factors such rows in its own way.
    fn rows(&self, wires: &Wires) -> Option<String> {
        let mut tables: Vec<_> =
            self.tables.iter().filter(|(name, _)| wires.contains_key(*name)).collect();
        tables.iter().find(|(_, t)| t.inputs.len() > 2 && t.products.len() > 1)?;
        tables.sort_unstable_by_key(|(_, t)| t.line);
        let (inputs, outputs) = (bits(&self.inputs, wires).1, bits(&self.outputs, wires).1);
        let mut names: HashMap<&str, String> = HashMap::new();
        names.extend(tables.iter().map(|(name, t)| (**name, format!("t{}", t.line))));
        names.extend(inputs.iter().enumerate().map(|(i, b)| (b.name.0, format!("i{i}"))));
        let list = |letter, count| (0..count).map(|i| format!(" {letter}{i}")).collect::<String>();
        let (ins, outs) = (list('i', inputs.len()), list('o', outputs.len()));
        let mut text = format!(".model m\n.inputs{ins}\n.outputs{outs}\n");
        for (name, table) in tables {
            let read = if table.products.is_empty() { &[][..] } else { &table.inputs };
            let read: String = read.iter().map(|name| names[name].clone() + " ").collect();
            text += &format!(".names {read}{}\n", names[name]);
            let value = if table.ones { "1" } else { "0" };
            let space = if table.inputs.is_empty() { "" } else { " " };
            table.products.iter().for_each(|p| text += &format!("{p}{space}{value}\n"));
        }
        for (i, bit) in outputs.iter().enumerate() {
            text += &format!(".names {} o{i}\n1 1\n", names[bit.name.0]);
        }
        Some(text + ".end\n")
    }
}

pub(super) fn parse(text: &str) -> Result<Circuit> {
    let model = read(text)?;
    let (mut circuit, wires) = built(&model, text, Build::Smallest)?;
    circuit.rows = model.rows(&wires).map(Into::into);
    Ok(circuit)
}

/// The node of each table, and those that it reads, in the order of the nodes: the structure that hashing gates loses.
pub(super) type Tables = Vec<(usize, Vec<usize>)>;

/// The gates that tables become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Build {
    /// The gates of their rows.
    Written,
    /// The fewest gates.
    Smallest,
}

/// [`parse`], and which tables there were.
pub(super) fn parse_mapped(text: &str, form: Build) -> Result<(Circuit, Tables)> {
    let model = read(text)?;
    let (circuit, wires) = built(&model, text, form)?;
    let node = |name: &&str| wires.get(name).map(|w: &Wire| w.node());
    let table = |(name, table): (&&str, &Table)| {
        Some((node(name)?, table.inputs.iter().map(node).collect::<Option<_>>()?))
    };
    let mut tables: Tables = model.tables.iter().filter_map(table).collect();
    tables.sort_unstable();
    tables.dedup_by_key(|t| t.0);
    Ok((circuit, tables))
}

/// The wire of each name that is an input or that an output needs.
type Wires<'a> = HashMap<&'a str, Wire>;

fn built<'a>(model: &Model<'a>, text: &str, form: Build) -> Result<(Circuit, Wires<'a>)> {
    let mut circuit = Circuit::empty();
    let mut wires = HashMap::new();
    for (name, line) in &model.inputs {
        let table = model.tables.get(name).map(|table| table.line);
        if wires.insert(*name, circuit.input()).is_some() || table.is_some() {
            return Err(refused(table.unwrap_or(*line), "one source for each name", name));
        }
    }
    let mut work = WORK;
    let orders = match form {
        Build::Written => HashMap::new(),
        Build::Smallest => orders(model, &mut work),
    };
    let mut gates = |circuit: &mut Circuit, wires: &Wires<'a>, name: &str| {
        if form == Build::Written {
            return model.tables[name].written(circuit, wires);
        }
        let order = orders.get(name).map(|order| &order[..]);
        model.tables[name].wire(circuit, wires, order, &mut work)
    };
    let mut seen = HashSet::new();
    for output in &model.outputs {
        if !seen.insert(output.0) {
            return Err(refused(output.1, "each output once", output.0));
        }
        build(&mut circuit, model, &mut wires, *output, &mut gates)?;
    }
    if seen.is_empty() {
        let line = text.lines().count().max(1);
        return Err(refused_with(
            line,
            "at least one output by the end",
            "none",
            "name it in `.outputs`",
        ));
    }
    circuit.inputs = ports(&model.inputs, &wires)?;
    circuit.outputs = ports(&model.outputs, &wires)?;
    Ok((circuit, wires))
}

fn read(text: &str) -> Result<Model<'_>> {
    let mut model = Model::default();
    let (mut begun, mut ended, mut current) = (false, false, None::<&str>);
    // A backslash at the end continues a line; only lists of names are that long.
    let mut list = "";
    // The names of a table, and the line that they begin in.
    let mut names = (vec![], 0);
    for (i, raw) in text.lines().enumerate() {
        let (at, line) = (i + 1, raw.split('#').next().unwrap_or("").trim());
        let goes_on = line.ends_with('\\');
        let mut words: Vec<&str> = line.trim_end_matches('\\').split_whitespace().collect();
        let continued = !list.is_empty();
        let key = if continued { list } else { words.first().copied().unwrap_or("") };
        if !continued && key.starts_with('.') {
            words.remove(0);
            current = None;
        }
        match key {
            "" => {}
            ".model" | ".end" if continued => {}
            ".model" if begun => {
                return Err(refused_with(at, "a single model", quoted(line), FLATTEN));
            }
            ".model" => begun = true,
            _ if ended => {
                let remedy = "end the file there, or take the `.end` out";
                return Err(refused_with(at, "nothing after `.end`", quoted(line), remedy));
            }
            ".end" => ended = true,
            ".inputs" => model.inputs.extend(words.iter().map(|name| (*name, at))),
            ".outputs" => model.outputs.extend(words.iter().map(|name| (*name, at))),
            ".names" => {
                if !continued {
                    names = (vec![], at);
                }
                names.0.append(&mut words);
                if !goes_on {
                    let (mut inputs, line_of) = std::mem::take(&mut names);
                    let none = || refused(line_of, "a name after `.names`", line);
                    let name = inputs.pop().ok_or_else(none)?;
                    let table = Table { line: line_of, inputs, products: vec![], ones: true };
                    if model.tables.insert(name, table).is_some() {
                        return Err(refused(line_of, "one table for each name", line));
                    }
                    current = Some(name);
                }
            }
            _ if !begun && model.is_empty() => return Err(other(at, "a line of BLIF")),
            _ if key.starts_with('.') => return Err(foreign(at, key, line)),
            _ => {
                let table = current.and_then(|name| model.tables.get_mut(name));
                table
                    .ok_or_else(|| refused(at, "`.names` before its products", line))?
                    .add(at, &words)?;
            }
        }
        list = if goes_on { key } else { "" };
    }
    Ok(model)
}

/// Why a line that other tools know is not read, and what to do about it.
fn foreign(at: usize, key: &str, line: &str) -> Error {
    let (wanted, remedy) = match key {
        ".latch" | ".mlatch" => (
            "a circuit without memory",
            "cut it at its registers: what they hold becomes inputs, what they will hold outputs, \
             and a run is one clock",
        ),
        ".subckt" | ".search" => ("one model without parts", FLATTEN),
        ".gate" => (
            "tables, not the cells of a library",
            "write the circuit as it was before it was mapped to the library",
        ),
        _ => ("`.inputs`, `.outputs` or `.names`", FORMATS),
    };
    refused_with(at, wanted, quoted(line), remedy)
}

impl<'a> Table<'a> {
    fn add(&mut self, at: usize, words: &[&'a str]) -> Result<()> {
        let (product, value) = match (words, self.inputs.len()) {
            ([value], 0) => ("", *value),
            ([product, value], n) if product.len() == n => (*product, *value),
            _ => return Err(refused(at, "a product and a value", &words.join(" "))),
        };
        let ones = match value {
            "1" => true,
            "0" => false,
            _ => return Err(refused(at, "the value 0 or 1", value)),
        };
        if !product.chars().all(|c| "01-".contains(c)) {
            return Err(refused(at, "a product of 0, 1 and -", product));
        }
        if !self.products.is_empty() && ones != self.ones {
            return Err(refused(at, "one value for all products of a table", value));
        }
        self.ones = ones;
        self.products.push(product);
        Ok(())
    }

    /// Its rows as products of variables, which its inputs are in this order.
    fn cover(&self, order: &[&str]) -> Cover {
        let mut place: HashMap<&str, usize> = HashMap::new();
        place.extend(order.iter().enumerate().map(|(i, name)| (*name, i)));
        let places: Vec<usize> = self.inputs.iter().map(|name| place[name]).collect();
        let literal = |(bit, at): (char, &usize)| (bit != '-').then_some((*at, bit == '0'));
        let product = |p: &&str| p.chars().zip(&places).filter_map(literal).collect();
        let products = self.products.iter().map(product).collect();
        Cover { inputs: order.len(), products, ones: self.ones }
    }

    /// Its inputs, each once.
    fn names(&self) -> Vec<&'a str> {
        let mut seen = HashSet::new();
        self.inputs.iter().copied().filter(|name| seen.insert(*name)).collect()
    }

    /// The one function of two inputs that products hide.
    fn exclusive(&self, circuit: &mut Circuit, wires: &Wires) -> Option<Wire> {
        let (equal, [a, b]) = (exclusive(&self.products)?, &self.inputs[..]) else { return None };
        let xor = circuit.xor(wires[a], wires[b]);
        Some(if equal == self.ones { xor.not() } else { xor })
    }

    /// The gates of its rows.
    fn written(&self, circuit: &mut Circuit, wires: &Wires) -> Wire {
        if let Some(wire) = self.exclusive(circuit, wires) {
            return wire;
        }
        let names = self.names();
        let inputs: Vec<Wire> = names.iter().map(|name| wires[name]).collect();
        self.cover(&names).written(circuit, &inputs)
    }

    fn wire(
        &self,
        circuit: &mut Circuit,
        wires: &Wires,
        order: Option<&[&'a str]>,
        work: &mut usize,
    ) -> Wire {
        if let Some(wire) = self.exclusive(circuit, wires) {
            return wire;
        }
        let mut names = self.names();
        if let Some(order) = order {
            names.sort_by_key(|name| order.iter().position(|n| n == name));
        }
        let inputs: Vec<Wire> = names.iter().map(|name| wires[name]).collect();
        self.cover(&names).build(circuit, &inputs, work)
    }
}

/// Tables of the same inputs, or of some of them: parts of their functions are one where the inputs have one order.
struct Group<'a> {
    inputs: Vec<&'a str>,
    tables: Vec<&'a str>,
}

/// The order of the inputs of tables of many rows, for each table. `work` is what may be spent on the search, and is.
fn orders<'a>(model: &Model<'a>, work: &mut usize) -> HashMap<&'a str, Rc<[&'a str]>> {
    let dense = |t: &Table| t.inputs.len() >= ORDERED && t.cover(&t.names()).is_dense();
    let mut tables: Vec<_> = model.tables.iter().filter(|(_, t)| dense(t)).collect();
    // The widest first, which others join.
    tables.sort_unstable_by_key(|(_, t)| (Reverse(t.inputs.len()), t.line));
    let mut groups: Vec<Group> = vec![];
    // The last groups of each input.
    let mut of: HashMap<&str, Vec<usize>> = HashMap::new();
    for (name, table) in tables {
        let names = table.names();
        let fits = |g: &Group| {
            g.tables.len() < TOGETHER
                && g.inputs.len() <= names.len() + FEWER
                && names.iter().all(|n| g.inputs.contains(n))
        };
        let known = of.get(names[0]).into_iter().flatten().rev().take(FEWER);
        if let Some(at) = known.copied().find(|at| fits(&groups[*at])) {
            groups[at].tables.push(name);
            continue;
        }
        names.iter().for_each(|n| of.entry(n).or_default().push(groups.len()));
        groups.push(Group { inputs: names, tables: vec![name] });
    }
    let mut orders = HashMap::new();
    for group in groups {
        let function = |name: &&str| model.tables[name].cover(&group.inputs).function();
        let mut functions: Vec<Function> = group.tables.iter().map(function).collect();
        let order = covers::ordered(&mut functions, work);
        let order: Rc<[&str]> = order.into_iter().map(|i| group.inputs[i]).collect();
        orders.extend(group.tables.into_iter().map(|name| (name, order.clone())));
    }
    orders
}

/// Whether two products of two inputs are an exclusive or (false) or an equality (true).
fn exclusive(products: &[&str]) -> Option<bool> {
    let mut sorted = products.to_vec();
    sorted.sort_unstable();
    match sorted[..] {
        ["01", "10"] => Some(false),
        ["00", "11"] => Some(true),
        _ => None,
    }
}

/// Builds a name and all that it needs, without recursion: circuits are deep.
fn build<'a>(
    circuit: &mut Circuit,
    model: &Model<'a>,
    wires: &mut Wires<'a>,
    (name, line): Name<'a>,
    gates: &mut impl FnMut(&mut Circuit, &Wires<'a>, &'a str) -> Wire,
) -> Result<()> {
    // A name, whether its inputs are built, and the line that asks for it.
    let mut todo = vec![(name, false, line)];
    let mut open = HashSet::new();
    while let Some((name, ready, line)) = todo.pop() {
        if wires.contains_key(name) {
            continue;
        }
        let Some(table) = model.tables.get(name) else {
            let wanted = format!("a table or an input for {}, which is read", quoted(name));
            let remedy = "add `.names` for it, or name it in `.inputs`";
            return Err(refused_with(line, wanted, "neither", remedy));
        };
        if ready {
            let wire = gates(circuit, wires, name);
            wires.insert(name, wire);
            continue;
        }
        if !open.insert(name) {
            // Those whose inputs are being built, from this name on.
            let path = todo.iter().filter(|(_, ready, _)| *ready).map(|(name, ..)| *name);
            let names: Vec<&str> = path.skip_while(|before| *before != name).collect();
            let remedy = "take out a table that reads its own result";
            let (wanted, got) = ("a circuit without a loop", looped(&names));
            return Err(refused_with(table.line, wanted, got, remedy));
        }
        todo.push((name, true, line));
        let missing = table.inputs.iter().filter(|i| !wires.contains_key(*i));
        todo.extend(missing.map(|i| (*i, false, table.line)));
    }
    Ok(())
}

/// One bit of a port.
struct Bit<'a> {
    /// Which port, counted from 0 in the order of first bits.
    port: usize,
    index: i64,
    wire: Wire,
    name: Name<'a>,
}

/// Names grouped into ports, in the order of their first bit.
fn ports(names: &[Name], wires: &Wires) -> Result<Vec<Port>> {
    let (bases, bits) = bits(names, wires);
    bits.chunk_by(|a, b| a.port == b.port).map(|bits| port(bases[bits[0].port], bits)).collect()
}

/// The names of the ports, and their bits, port by port.
fn bits<'a>(names: &[Name<'a>], wires: &Wires) -> (Vec<&'a str>, Vec<Bit<'a>>) {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut bases: Vec<&str> = vec![];
    let mut bits: Vec<Bit> = Vec::with_capacity(names.len());
    for name in names {
        let (base, index) = indexed(name.0).unwrap_or((name.0, 0));
        let port = *places.entry(base).or_insert_with(|| {
            bases.push(base);
            bases.len() - 1
        });
        bits.push(Bit { port, index, wire: wires[name.0], name: *name });
    }
    bits.sort_by_key(|b| (b.port, b.index));
    (bases, bits)
}

/// `a[3]` as `a` and 3. The places of Verilog may be below 0. One that is too large for a place leaves a hole before it.
fn indexed(name: &str) -> Option<(&str, i64)> {
    let (base, bit) = name.strip_suffix(']')?.split_once('[')?;
    let digits = bit.strip_prefix('-').unwrap_or(bit);
    let number = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    let edge = if bit == digits { i64::MAX } else { i64::MIN };
    number.then(|| (base, bit.parse().unwrap_or(edge)))
}

/// A port without holes: what comes after one would move to another place.
fn port(base: &str, bits: &[Bit]) -> Result<Port> {
    for pair in bits.windows(2) {
        let (low, high, (name, line)) = (pair[0].index, pair[1].index, pair[1].name);
        if low == high {
            let wanted = format!("one name for bit {high} of port {}", quoted(base));
            let remedy = "give ports names that differ before the brackets";
            return Err(refused_with(line, wanted, quoted(name), remedy));
        }
        if low.checked_add(1) != Some(high) {
            let missing = quoted(&format!("{base}[{}]", low.saturating_add(1)));
            let wanted = format!("{missing} beside {}", quoted(name));
            let remedy = "name every bit of a port, or name bits without brackets";
            return Err(refused_with(line, wanted, "none", remedy));
        }
    }
    Ok(Port { name: base.to_string(), wires: bits.iter().map(|bit| bit.wire).collect() })
}
