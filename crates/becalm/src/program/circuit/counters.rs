//! Counters: bits that are added one after another by half adders are added in a tree of full adders instead.
//!
//! A half adder is a ⊕ b beside a·b, and a + b = (a ⊕ b) + 2·a·b. Where nothing but the next half adder reads what one gives,
//! the two are one sum; so a connected set of them is Σ 2^i·inputs = Σ 2^j·outputs, and if no two outputs have one weight,
//! these are the digits of the sum, however they are computed. A carry that is missing has a weight above them all.

use super::restructure::{moved, ports};
use super::{Circuit, Node, Wire};
use std::collections::{BTreeMap, HashMap};

/// Fewer half adders than this are left as they are.
const FEWEST: usize = 4;

/// a + b = sum + 2·carry, all of them nodes.
struct HalfAdder {
    operands: [usize; 2],
    sum: usize,
    carry: Option<usize>,
}

/// A set of half adders: what is added and what comes out, by exponents.
#[derive(Default)]
struct Counter {
    inputs: Vec<(i64, usize)>,
    outputs: BTreeMap<i64, usize>,
}

impl Circuit {
    /// The circuit with its counters as trees; `None` if it has none.
    pub(super) fn counted(&self) -> Option<Circuit> {
        let adders = self.half_adders();
        let found = self.counters(&adders);
        if found.is_empty() {
            return None;
        }
        let mut of = HashMap::new();
        for (i, counter) in found.iter().enumerate() {
            of.extend(counter.outputs.values().map(|node| (*node, i)));
        }
        let mut to = Circuit::empty();
        let (mut at, mut done) =
            (vec![Wire::ZERO; self.nodes.len()], vec![false; self.nodes.len()]);
        done[0] = true;
        for wire in self.inputs.iter().flat_map(|p| &p.wires) {
            (at[wire.node()], done[wire.node()]) = (to.input(), true);
        }
        let mut todo: Vec<(usize, bool)> =
            self.outputs.iter().flat_map(|p| &p.wires).map(|w| (w.node(), false)).collect();
        let mut open = vec![false; self.nodes.len()];
        while let Some((node, ready)) = todo.pop() {
            if done[node] {
                continue;
            }
            let counter = of.get(&node).map(|i| &found[*i]);
            let needs: Vec<usize> = match (counter, self.nodes[node]) {
                (Some(counter), _) => counter.inputs.iter().map(|i| i.1).collect(),
                (None, Node::And(a, b) | Node::Xor(a, b)) => vec![a.node(), b.node()],
                _ => vec![],
            };
            if !ready {
                // What is added may not depend on the sum.
                if std::mem::replace(&mut open[node], true) {
                    return None;
                }
                todo.push((node, true));
                todo.extend(needs.into_iter().filter(|n| !done[*n]).map(|n| (n, false)));
                continue;
            }
            done[node] = true;
            match (counter, self.nodes[node]) {
                (Some(counter), _) => {
                    counter.build(&mut to, &mut at);
                    counter.outputs.values().for_each(|o| done[*o] = true);
                }
                (None, Node::And(a, b)) => at[node] = to.and(moved(&at, a), moved(&at, b)),
                (None, Node::Xor(a, b)) => at[node] = to.xor(moved(&at, a), moved(&at, b)),
                _ => {}
            }
        }
        (to.inputs, to.outputs) = (ports(&self.inputs, &at), ports(&self.outputs, &at));
        Some(to)
    }

    /// Every XOR, with the AND of the same nodes if there is one.
    fn half_adders(&self) -> Vec<HalfAdder> {
        let mut carries = HashMap::new();
        for (i, node) in self.nodes.iter().enumerate() {
            if let Node::And(a, b) = node
                && !a.negated()
                && !b.negated()
            {
                carries.insert((a.node(), b.node()), i);
            }
        }
        let adder = |(sum, node): (usize, &Node)| match node {
            Node::Xor(a, b) => {
                let carry = carries.get(&(a.node(), b.node())).copied();
                Some(HalfAdder { operands: [a.node(), b.node()], sum, carry })
            }
            _ => None,
        };
        self.nodes.iter().enumerate().filter_map(adder).collect()
    }

    /// Connected half adders whose outputs are the digits of what they add.
    fn counters(&self, adders: &[HalfAdder]) -> Vec<Counter> {
        let readers = self.readers();
        // The adder that alone reads a node.
        let mut reader: HashMap<usize, usize> = HashMap::new();
        for (i, adder) in adders.iter().enumerate() {
            let own = 1 + u32::from(adder.carry.is_some());
            let alone = adder.operands.iter().filter(|o| readers[**o] == own);
            reader.extend(alone.map(|o| (*o, i)));
        }
        let giver: HashMap<usize, (usize, i64)> = adders
            .iter()
            .enumerate()
            .flat_map(|(i, a)| [Some((a.sum, (i, 0))), a.carry.map(|c| (c, (i, 1)))])
            .flatten()
            .collect();
        let mut exponent: Vec<Option<i64>> = vec![None; adders.len()];
        let mut found = vec![];
        for first in 0..adders.len() {
            if exponent[first].is_some() {
                continue;
            }
            let (mut members, mut todo, mut good) = (vec![], vec![(first, 0)], true);
            while let Some((i, e)) = todo.pop() {
                if let Some(known) = exponent[i] {
                    good &= known == e;
                    continue;
                }
                exponent[i] = Some(e);
                members.push(i);
                let adder = &adders[i];
                let below = adder.operands.iter().filter(|o| reader.get(*o) == Some(&i));
                todo.extend(below.filter_map(|o| giver.get(o)).map(|(g, up)| (*g, e - up)));
                todo.extend(reader.get(&adder.sum).map(|r| (*r, e)));
                let carry = adder.carry.and_then(|c| reader.get(&c));
                todo.extend(carry.map(|r| (*r, e + 1)));
            }
            if good && members.len() >= FEWEST {
                let one = |i: &usize| (&adders[*i], exponent[*i].unwrap_or(0), *i);
                let set: Vec<_> = members.iter().map(one).collect();
                found.extend(Counter::of(&set, &reader, &giver));
            }
        }
        found
    }
}

impl Counter {
    fn of(
        set: &[(&HalfAdder, i64, usize)],
        reader: &HashMap<usize, usize>,
        giver: &HashMap<usize, (usize, i64)>,
    ) -> Option<Counter> {
        let (mut counter, mut dropped) = (Counter::default(), i64::MAX);
        for (adder, e, i) in set {
            let outside = |o: &&usize| reader.get(*o) != Some(i) || !giver.contains_key(*o);
            counter.inputs.extend(adder.operands.iter().filter(outside).map(|o| (*e, *o)));
            for (given, e) in [(Some(adder.sum), *e), (adder.carry, e + 1)] {
                match given {
                    None => dropped = dropped.min(e),
                    Some(node) if reader.contains_key(&node) => {}
                    Some(node) => {
                        if counter.outputs.insert(e, node).is_some() {
                            return None;
                        }
                    }
                }
            }
        }
        let top = *counter.outputs.last_key_value()?.0;
        (dropped > top).then_some(counter)
    }

    /// Each column by full adders, in the order in which bits are ready, and a half adder at its end.
    fn build(&self, to: &mut Circuit, at: &mut [Wire]) {
        let Some(top) = self.outputs.last_key_value().map(|o| *o.0) else { return };
        let mut columns: BTreeMap<i64, std::collections::VecDeque<Wire>> = BTreeMap::new();
        for (e, node) in &self.inputs {
            columns.entry(*e).or_default().push_back(at[*node]);
        }
        while let Some((e, mut column)) = columns.pop_first() {
            while column.len() > 1 {
                let (a, b) = (column.pop_front(), column.pop_front());
                let (Some(a), Some(b)) = (a, b) else { break };
                let half = to.xor(a, b);
                let (sum, carry) = match column.pop_front() {
                    None => (half, to.and(a, b)),
                    Some(c) => {
                        let other = to.xor(a, c);
                        let both = to.and(half, other);
                        (to.xor(half, c), to.xor(a, both))
                    }
                };
                column.push_back(sum);
                if e < top {
                    columns.entry(e + 1).or_default().push_back(carry);
                }
            }
            if let (Some(node), Some(wire)) = (self.outputs.get(&e), column.pop_front()) {
                at[*node] = wire;
            }
        }
        // A digit that no carry reaches stays 0.
    }
}
