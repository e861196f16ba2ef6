//! Inputs with a weight in them. A table of four inputs that must all be told apart has weights 8, 4, 2 and 1, more noise than most
//! sets have room for, and an input comes as it is. So one input of each such table goes through a bootstrap of its own first, which
//! gives 8·x: one bootstrap for all tables that read it.

use super::cuts::{Forms, Scale, cone};
use super::restructure::{moved, ports};
use super::weights::Room;
use super::{Circuit, Node, Sum, Wire};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Inputs of a table that is looked for.
const INPUTS: usize = 4;

/// At most four inputs, in order; `None` for more.
type Support = Option<Vec<usize>>;

impl Circuit {
    /// The circuit with an input of every table of four inputs refreshed that no form fits; `None` if there is no such table.
    pub(super) fn refreshed(&self, room: Room) -> Option<Circuit> {
        let chosen = hit(self.tables_of_inputs(room));
        if chosen.is_empty() {
            return None;
        }
        let (mut to, mut at) = (Circuit::empty(), vec![Wire::ZERO; self.nodes.len()]);
        for wire in self.inputs.iter().flat_map(|p| &p.wires) {
            at[wire.node()] = to.input();
        }
        to.inputs = ports(&self.inputs, &at);
        for input in chosen {
            to.sums.push(Sum { terms: vec![(at[input].node(), 1)], offset: 0, limit: 1 });
            at[input] = Wire::new(to.nodes.len());
            to.nodes.push(Node::Digit(to.sums.len() as u32 - 1, 0));
        }
        for (i, node) in self.nodes.iter().enumerate() {
            match *node {
                Node::And(a, b) => at[i] = to.and(moved(&at, a), moved(&at, b)),
                Node::Xor(a, b) => at[i] = to.xor(moved(&at, a), moved(&at, b)),
                _ => {}
            }
        }
        to.outputs = ports(&self.outputs, &at);
        Some(to)
    }

    /// The inputs of each node that is a function of four, too noisy to be looked up, and that outputs or functions of more read.
    fn tables_of_inputs(&self, room: Room) -> Vec<Vec<usize>> {
        let mut supports: Vec<Support> = Vec::with_capacity(self.nodes.len());
        let mut last = vec![false; self.nodes.len()];
        self.outputs.iter().flat_map(|p| &p.wires).for_each(|w| last[w.node()] = true);
        for (i, node) in self.nodes.iter().enumerate() {
            supports.push(match *node {
                Node::And(a, b) | Node::Xor(a, b) => {
                    let own = both(&supports[a.node()], &supports[b.node()]);
                    [a, b].iter().for_each(|w| last[w.node()] |= own.is_none());
                    own
                }
                Node::Input => Some(vec![i]),
                _ => Some(vec![]),
            });
        }
        let forms = Forms::new(room);
        let noisy = |(node, support): (usize, Support)| {
            let support = support.filter(|s| last[node] && s.len() == INPUTS)?;
            let cut = cone(self, node, &support)?;
            let fits = forms.scaled(cut.function, &cut.leaves, |_| Scale::No).is_some();
            (cut.leaves.len() == INPUTS && !fits).then_some(support)
        };
        supports.into_iter().enumerate().filter_map(noisy).collect()
    }
}

fn both(a: &Support, b: &Support) -> Support {
    let (a, b) = (a.as_ref()?, b.as_ref()?);
    let mut all = [&a[..], b].concat();
    all.sort_unstable();
    all.dedup();
    (all.len() <= INPUTS).then_some(all)
}

/// Inputs of which every table has one: those that the most tables have first.
fn hit(mut tables: Vec<Vec<usize>>) -> Vec<usize> {
    let mut chosen = vec![];
    while !tables.is_empty() {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        tables.iter().flatten().for_each(|input| *counts.entry(*input).or_default() += 1);
        let best = counts.into_iter().max_by_key(|(input, count)| (*count, Reverse(*input)));
        let Some((input, _)) = best else { break };
        tables.retain(|t| !t.contains(&input));
        chosen.push(input);
    }
    chosen.sort_unstable();
    chosen
}
