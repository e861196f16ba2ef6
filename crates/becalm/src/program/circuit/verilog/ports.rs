//! The ports of a module, in the order of its text.

use super::operands;
use super::source;
use crate::Result;
use crate::program::circuit::Circuit;
use std::path::Path;

/// The ports of a module: Yosys sorts them by their names.
#[derive(Debug)]
pub(super) struct Ports {
    names: Vec<String>,
    /// Those whose bit 0 is the most significant one, as of `input [0:3] a`. The netlist says nothing of it.
    rising: Vec<String>,
}

impl Ports {
    /// Ports of these names, in order, and Yosys's `list` of them.
    pub fn new(list: &str, names: Vec<&str>, path: &Path) -> Result<Self> {
        let (mut rising, mut place) = (vec![], "");
        for line in list.lines().map(str::trim) {
            // `wire width 4 upto input 1 \a`
            match line.split_once(' ') {
                Some(("attribute", rest)) => place = operands::place_of(rest).unwrap_or(place),
                Some(("wire", rest)) => {
                    let (kind, name) = rest.rsplit_once(" \\").unwrap_or_default();
                    if kind.contains("inout ") {
                        let line = operands::line_of(place).unwrap_or(0);
                        let remedy = "make an input and an output of it, with two names";
                        let wanted = "ports that are inputs or outputs";
                        return Err(source::at_line(
                            wanted,
                            line,
                            path,
                            &format!("inout {name}"),
                            remedy,
                        ));
                    }
                    rising.extend(kind.contains("upto ").then(|| name.to_string()));
                }
                _ => {}
            }
        }
        Ok(Ports { names: names.into_iter().map(String::from).collect(), rising })
    }

    /// The same with the names in another order.
    pub fn in_order(&self, names: Vec<String>) -> Self {
        Ports { names, rising: self.rising.clone() }
    }

    /// The circuit with its ports and their bits in order.
    pub fn ordered(&self, mut circuit: Circuit) -> Circuit {
        let at = |name: &str| self.names.iter().position(|n| *n == name).unwrap_or(usize::MAX);
        for ports in [&mut circuit.inputs, &mut circuit.outputs] {
            ports.sort_by_key(|port| at(&port.name));
            let rising = ports.iter_mut().filter(|port| self.rising.contains(&port.name));
            rising.for_each(|port| port.wires.reverse());
        }
        circuit
    }
}
