//! BLIF, the combinational part: `.model`, `.inputs`, `.outputs`, `.names` with a cover of products, `.end`. Names such as
//! `a[3]` make port `a` with bit 3; other names are ports of one bit. Source: Berkeley Logic Interchange Format, 1992.

use super::{Circuit, Port, Wire, refused};
use crate::Result;
use std::collections::{BTreeMap, HashMap};

/// A `.names` table.
struct Table<'a> {
    line: usize,
    inputs: Vec<&'a str>,
    /// The products, and whether they list where the function is 1.
    products: Vec<&'a str>,
    ones: bool,
}

#[derive(Default)]
struct Model<'a> {
    inputs: Vec<&'a str>,
    outputs: Vec<&'a str>,
    /// The line of the first of each output.
    wanted: HashMap<&'a str, usize>,
    tables: HashMap<&'a str, Table<'a>>,
}

pub(super) fn parse(text: &str) -> Result<Circuit> {
    let model = read(text)?;
    let mut circuit = Circuit::empty();
    let mut wires = HashMap::new();
    for name in &model.inputs {
        let table = model.tables.get(name).map(|table| table.line);
        if wires.insert(*name, circuit.input()).is_some() || table.is_some() {
            return Err(refused(table.unwrap_or(1), "one source for each name", name));
        }
    }
    for name in &model.outputs {
        build(&mut circuit, &model, &mut wires, name)?;
    }
    circuit.inputs = ports(&model.inputs, &wires);
    circuit.outputs = ports(&model.outputs, &wires);
    Ok(circuit)
}

fn read(text: &str) -> Result<Model<'_>> {
    let mut model = Model::default();
    let mut current: Option<&str> = None;
    // A backslash at the end continues a line; only lists of names are that long.
    let mut list = "";
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
            "" | ".model" | ".end" => {}
            ".inputs" => model.inputs.extend(words),
            ".outputs" => {
                words.iter().for_each(|name| _ = model.wanted.entry(name).or_insert(at));
                model.outputs.extend(words);
            }
            ".names" => {
                if goes_on || continued {
                    return Err(refused(at, "a table's names on one line", line));
                }
                let name = words.pop().ok_or_else(|| refused(at, "names", line))?;
                let table = Table { line: at, inputs: words, products: vec![], ones: true };
                if model.tables.insert(name, table).is_some() {
                    return Err(refused(at, "one table for each name", line));
                }
                current = Some(name);
            }
            _ if key.starts_with('.') => {
                return Err(refused(at, "a combinational circuit", line));
            }
            _ => {
                let table = current.and_then(|name| model.tables.get_mut(name));
                table
                    .ok_or_else(|| refused(at, "a product after .names", line))?
                    .add(at, &words)?;
            }
        }
        list = if goes_on { key } else { "" };
    }
    Ok(model)
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

    fn wire(&self, circuit: &mut Circuit, wires: &HashMap<&str, Wire>) -> Wire {
        if let (Some(equal), [a, b]) = (exclusive(&self.products), &self.inputs[..]) {
            // The one function of two inputs that products hide.
            let xor = circuit.xor(wires[a], wires[b]);
            return if equal == self.ones { xor.not() } else { xor };
        }
        let mut any = Wire::ZERO;
        for product in &self.products {
            let mut all = Wire::ONE;
            for (bit, name) in product.chars().zip(&self.inputs) {
                match bit {
                    '1' => all = circuit.and(all, wires[name]),
                    '0' => all = circuit.and(all, wires[name].not()),
                    _ => {}
                }
            }
            any = circuit.or(any, all);
        }
        if self.ones { any } else { any.not() }
    }
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
    wires: &mut HashMap<&'a str, Wire>,
    name: &'a str,
) -> Result<()> {
    // A name, whether its inputs are built, and the line that asks for it.
    let mut todo = vec![(name, false, model.wanted[name])];
    let mut open = std::collections::HashSet::new();
    while let Some((name, ready, line)) = todo.pop() {
        if wires.contains_key(name) {
            continue;
        }
        let Some(table) = model.tables.get(name) else {
            return Err(refused(
                line,
                format!("a table or an input for {name}, which is read"),
                "none",
            ));
        };
        if ready {
            wires.insert(name, table.wire(circuit, wires));
            continue;
        }
        if !open.insert(name) {
            return Err(refused(table.line, "no loop", name));
        }
        todo.push((name, true, line));
        let missing = table.inputs.iter().filter(|i| !wires.contains_key(*i));
        todo.extend(missing.map(|i| (*i, false, table.line)));
    }
    Ok(())
}

/// Names grouped into ports, in the order of their first bit.
fn ports(names: &[&str], wires: &HashMap<&str, Wire>) -> Vec<Port> {
    let mut order: Vec<&str> = vec![];
    let mut bits: HashMap<&str, BTreeMap<usize, Wire>> = HashMap::new();
    for name in names {
        let indexed = name.strip_suffix(']').and_then(|n| n.split_once('['));
        let (base, bit) = match indexed.map(|(base, bit)| (base, bit.parse())) {
            Some((base, Ok(bit))) => (base, bit),
            _ => (*name, 0),
        };
        let port = bits.entry(base).or_insert_with(|| {
            order.push(base);
            BTreeMap::new()
        });
        port.insert(bit, wires[name]);
    }
    let port =
        |base: &str| Port { name: base.to_string(), wires: bits[base].values().copied().collect() };
    order.into_iter().map(port).collect()
}
