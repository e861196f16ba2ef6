//! Counters: bits that are added one after another by half adders are added as many at once as a rotation takes instead.
//!
//! A half adder is a ⊕ b beside a·b, and a + b = (a ⊕ b) + 2·a·b. Where nothing but the next half adder reads what one gives,
//! the two are one sum; so a connected set of them is Σ 2^i·inputs = Σ 2^j·outputs, and if no two outputs have one weight,
//! these are the digits of the sum, however they are computed. A carry that is missing has a weight above them all.

use super::restructure::{moved, ports};
use super::weights::Room;
use super::{Circuit, Node, Sum, Wire};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Bits of one weight that a counter has more than; others are left as they are.
const FEWEST: usize = 3;

/// a + b = sum + 2·carry, all of them nodes.
struct HalfAdder {
    operands: [usize; 2],
    sum: usize,
    carry: Option<usize>,
}

/// A set of half adders: its addends and its outputs, by exponents.
#[derive(Default)]
struct Counter {
    inputs: Vec<(i64, usize)>,
    outputs: BTreeMap<i64, usize>,
}

impl Circuit {
    /// The circuit with its counters as trees; `None` if it has none.
    pub(super) fn counted(&self, room: Room) -> Option<Circuit> {
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
                // A summand may not depend on the sum.
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
                    counter.build(&mut to, &mut at, room);
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

    /// Connected half adders whose outputs are the digits of the sum of their inputs.
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
        let mut counts: HashMap<i64, usize> = HashMap::new();
        counter.inputs.iter().for_each(|(e, _)| *counts.entry(*e).or_default() += 1);
        (dropped > top && counts.into_values().any(|c| c > FEWEST)).then_some(counter)
    }

    /// The digits of the sum, by sums of as many bits as a rotation takes, column by column.
    fn build(&self, to: &mut Circuit, at: &mut [Wire], room: Room) {
        let Some(top) = self.outputs.last_key_value().map(|o| *o.0) else { return };
        let mut columns: Columns = BTreeMap::new();
        for (e, node) in &self.inputs {
            columns.entry(*e).or_default().push_back(at[*node]);
        }
        while let Some(e) = columns.iter().find(|(e, c)| **e <= top && c.len() > 1).map(|c| *c.0) {
            // The most bits that go for a rotation, and of as many the widest sum.
            let widths = (0..).map(|t| room.values >> t).take_while(|v| *v > 3);
            let tries = widths
                .map(|values| Step::new(&columns, e, top, Room { values, ..room }, room.values));
            let Some(best) = tries.max_by(|a, b| {
                a.gain().total_cmp(&b.gain()).then(a.taken.len().cmp(&b.taken.len()))
            }) else {
                return;
            };
            best.apply(&mut columns, to, e);
        }
        for (e, node) in &self.outputs {
            // A digit that no carry reaches stays 0.
            at[*node] = columns.get_mut(e).and_then(VecDeque::pop_front).unwrap_or(Wire::ZERO);
        }
    }
}

/// Bits that are still to be added, by exponents.
type Columns = BTreeMap<i64, VecDeque<Wire>>;

/// A sum of bits of a few columns, the lowest exhausted before the next.
struct Step {
    /// How many of each column.
    counts: Vec<(i64, usize)>,
    taken: Vec<(Wire, i64)>,
    digits: u8,
    rotations: usize,
}

impl Step {
    fn new(columns: &Columns, e: i64, top: i64, room: Room, values: i64) -> Step {
        let (mut total, mut norm, mut weight) = (0, 0, 1);
        let (mut counts, mut taken) = (vec![], vec![]);
        for at in e..=top {
            let column = columns.get(&at);
            let left =
                ((room.values - 1 - total) / weight).min((room.norm - norm) / (weight * weight));
            let count = column.map_or(0, VecDeque::len).min(left.max(0) as usize);
            taken.extend(column.into_iter().flatten().take(count).map(|w| (*w, weight)));
            counts.push((at, count));
            (total, norm) = (total + weight * count as i64, norm + weight * weight * count as i64);
            if column.is_some_and(|c| c.len() > count) || weight > room.values {
                break;
            }
            weight *= 2;
        }
        let digits = (64 - total.leading_zeros() as i64).min(top + 1 - e).max(1) as u8;
        let results = 1usize << (values / (total + 1)).max(1).ilog2();
        Step { counts, taken, digits, rotations: usize::from(digits).div_ceil(results) }
    }

    /// Bits that become fewer, for each rotation.
    fn gain(&self) -> f64 {
        (self.taken.len() as f64 - f64::from(self.digits)) / self.rotations as f64
    }

    fn apply(self, columns: &mut Columns, to: &mut Circuit, e: i64) {
        for (at, count) in self.counts {
            columns.entry(at).or_default().drain(..count);
        }
        let mut terms: BTreeMap<usize, i64> = BTreeMap::new();
        let mut offset = 0;
        for (wire, weight) in self.taken {
            let sign = if wire.negated() { -1 } else { 1 };
            offset += if wire.negated() { weight } else { 0 };
            // The node 0 is the constant 0.
            *terms.entry(wire.node()).or_default() +=
                if wire.node() == 0 { 0 } else { sign * weight };
        }
        let terms = terms.into_iter().filter(|t| t.1 != 0).collect();
        to.sums.push(Sum { terms, offset });
        for place in 0..self.digits {
            to.nodes.push(Node::Digit(to.sums.len() as u32 - 1, place));
            let wire = Wire::new(to.nodes.len() - 1);
            columns.entry(e + i64::from(place)).or_default().push_back(wire);
        }
    }
}
