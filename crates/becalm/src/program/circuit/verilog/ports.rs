//! The ports of a module, in the order of its text.

use super::operands;
use super::source;
use crate::Result;
use crate::program::circuit::Circuit;
use std::path::Path;

/// The ports of a module: Yosys may have them in another order.
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

    /// A netlist with its ports in the order of the text, in which the reader of Yosys has them, and slang may not.
    pub fn in_netlist(&self, blif: &str) -> String {
        let at = |name: &str| {
            let port = name.split_once('[').map_or(name, |(port, _)| port);
            self.names.iter().position(|n| n == port).unwrap_or(usize::MAX)
        };
        let lines = blif.lines().map(|line| {
            let mut words: Vec<&str> = line.split(' ').collect();
            if let [".inputs" | ".outputs", names @ ..] = &mut words[..] {
                names.sort_by_key(|name| at(name));
            }
            words.join(" ") + "\n"
        });
        lines.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The reader of Yosys has the order of the text: covers depend on it.
    #[test]
    fn a_netlist_has_its_ports_in_the_order_of_the_text() {
        let names = ["s", "b", "f", "o"].map(String::from).to_vec();
        let ports = Ports { names, rising: vec!["b".into()] };
        let rest = ".names b[0] s o\n11 1\n.names s f\n1 1\n.end\n";
        let given = format!(".model m\n.inputs b[1] b[0] s\n.outputs o f\n{rest}");
        let wanted = format!(".model m\n.inputs s b[1] b[0]\n.outputs f o\n{rest}");
        assert_eq!(ports.in_netlist(&given), wanted);
    }
}
