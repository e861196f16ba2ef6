//! Counters: bits that adders add one after another are added as many at once as a rotation takes instead.
//!
//! An adder says Σ operands = sum + 2·carry. Where nothing but the next adder reads what one gives, the two are one sum; so a
//! connected set of them is Σ 2^i·inputs = Σ 2^j·outputs, and if no two outputs have one weight, these are the digits of the
//! sum, however they are computed. A carry that is missing has a weight above them all, or is 0 because all bits that it comes
//! from add up to less. A negation between two adders turns one round: the negations of its operands and a constant add up to
//! the negations of its results.

use super::adders::Found;
use super::columns::{Columns, Style};
use super::nets::{Member, Mode, Net};
use super::restructure::{moved, ports};
use super::weights::Room;
use super::{Circuit, Node, Wire};
use std::collections::{BTreeMap, HashMap};

/// Bits of one weight that a counter has more than, and the fewest adders; others are left as they are.
const FEWEST: usize = 3;

/// Most bits that are added to the highest digit alone, and XORs one above the other by which they are.
const MOST_ADDED: usize = 64;

/// The modes one after another, each for what those before it leave: a sum of sums whose lower digits nothing reads is one
/// counter, and the sums that a comparison reads are two.
const MODES: [[Mode; 3]; 2] = {
    let whole = Mode { carries: false, shared: false };
    let (carries, shared) = (Mode { carries: true, ..whole }, Mode { shared: true, ..whole });
    [[carries, whole, shared], [whole, carries, shared]]
};

/// A set of adders: its addends, each once a column, and its outputs, by exponents.
#[derive(Default)]
struct Counter {
    inputs: Vec<(i64, Wire)>,
    outputs: BTreeMap<i64, Wire>,
    /// How many there are.
    adders: usize,
}

impl Circuit {
    /// The circuit with its counters, found and added up in several ways; none if it has no counters.
    pub(super) fn counted(&self, room: Room) -> Vec<Circuit> {
        let readers = self.readers();
        let adders = self.adders(&readers);
        let mut circuits: Vec<Circuit> = vec![];
        let kinds = [false, true].into_iter().flat_map(|sure| MODES.map(|modes| (modes, sure)));
        for (modes, sure) in kinds {
            let found = self.counters(&readers, &adders, modes, |c| match sure {
                true => c.pays(self, room),
                false => c.rotations(room) < c.adders,
            });
            let ready: Vec<&Counter> = found.iter().filter(|c| c.is_ready()).collect();
            let all: Vec<&Counter> = found.iter().collect();
            for style in [Style::Values, Style::Bits] {
                let with = |list: &[&Counter]| self.with(list, room, style);
                let same = |a: &Circuit, b: &Circuit| a.nodes == b.nodes && a.sums == b.sums;
                if let Some(circuit) = with(&all).or_else(|| with(&ready))
                    && !circuits.iter().any(|known| same(known, &circuit))
                {
                    circuits.push(circuit);
                }
            }
        }
        circuits
    }

    /// The circuit with these counters; `None` if there are none, or if a summand depends on its sum.
    fn with(&self, counters: &[&Counter], room: Room, style: Style) -> Option<Circuit> {
        if counters.is_empty() {
            return None;
        }
        let mut of = HashMap::new();
        for (i, counter) in counters.iter().enumerate() {
            of.extend(counter.outputs.values().map(|wire| (wire.node(), i)));
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
            let counter = of.get(&node).map(|i| counters[*i]);
            let needs: Vec<usize> = match (counter, self.nodes[node]) {
                (Some(counter), _) => counter.inputs.iter().map(|i| i.1.node()).collect(),
                (None, Node::And(a, b) | Node::Xor(a, b)) => vec![a.node(), b.node()],
                _ => vec![],
            };
            if !ready {
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
                    counter.build(&mut to, &mut at, room, style);
                    counter.outputs.values().for_each(|o| done[o.node()] = true);
                }
                (None, Node::And(a, b)) => at[node] = to.and(moved(&at, a), moved(&at, b)),
                (None, Node::Xor(a, b)) => at[node] = to.xor(moved(&at, a), moved(&at, b)),
                _ => {}
            }
        }
        (to.inputs, to.outputs) = (ports(&self.inputs, &at), ports(&self.outputs, &at));
        Some(to)
    }

    /// Connected adders whose outputs are the digits of the sum of their inputs.
    fn counters(
        &self,
        readers: &[u32],
        adders: &Found,
        modes: [Mode; 3],
        pays: impl Fn(&Counter) -> bool,
    ) -> Vec<Counter> {
        // The results of the adders of counters.
        let mut taken = vec![false; self.nodes.len()];
        let mut counters = vec![];
        for mode in modes {
            let net = Net::new(self, readers, adders, &taken, mode);
            let (mut seen, mut left) = (vec![false; net.adders.len()], false);
            for first in 0..net.adders.len() {
                if seen[first] {
                    continue;
                }
                let (set, good) = net.connected(first, &mut seen);
                if set.len() < FEWEST {
                    continue;
                }
                match if good { counter(&net, &set) } else { None } {
                    Some(counter) if pays(&counter) => {
                        let results = set.iter().flat_map(|m| net.adders[m.0].results());
                        results.for_each(|(_, w)| taken[w.node()] = true);
                        counters.push(counter);
                    }
                    Some(_) => {}
                    None => left = true,
                }
            }
            if !left && mode.carries {
                break;
            }
        }
        counters
    }
}

/// The counter of a connected set; `None` if two of its outputs have one weight, or if its sum is below 0.
fn counter(net: &Net, set: &[Member]) -> Option<Counter> {
    let mut inputs: BTreeMap<i64, Vec<Wire>> = BTreeMap::new();
    let mut outputs: BTreeMap<i64, Vec<Option<Wire>>> = BTreeMap::new();
    let mut constants: BTreeMap<i64, i64> = BTreeMap::new();
    for (i, e, turned) in set {
        let (adder, e) = (&net.adders[*i], *e);
        let turn = |w: Wire| if *turned { w.not() } else { w };
        let outside = adder.operands.iter().filter(|w| !net.takes(*i, **w));
        inputs.entry(e).or_default().extend(outside.map(|w| turn(*w)));
        if *turned {
            let all = if adder.fits { 1 } else { 3 };
            *constants.entry(e).or_default() += all - adder.operands.len() as i64;
        }
        for (up, wire) in adder.results() {
            if !matches!(net.taker.get(&wire.node()), Some(Some(_))) {
                outputs.entry(e + up).or_default().push(Some(turn(wire)));
            }
        }
        if adder.sum.is_none() {
            outputs.entry(e).or_default().push(None);
        }
    }
    let (top, last) = outputs.last_key_value()?;
    let (top, dropped) = (*top, last.len() > 1);
    if dropped {
        let (last, added) = parity(net, last)?;
        outputs.insert(top, vec![Some(last)]);
        inputs.entry(top).or_default().extend(added);
    }
    if outputs.values().any(|list| list.len() > 1) {
        return None;
    }
    let end = dropped.then_some(top);
    let mut inputs = summands(inputs, constants, end)?;
    let mut outputs: BTreeMap<i64, Wire> =
        outputs.into_iter().filter_map(|(e, list)| Some((e, list[0]?))).collect();
    // y + 1 = ¬y + 2·y: where 2·y is added to a sum whose digit y is.
    for (e, wire) in &mut outputs {
        if let Some(at) = inputs.iter().position(|i| *i == (e + 1, *wire)) {
            inputs[at] = (*e, Wire::ONE);
            *wire = wire.not();
        }
    }
    let mut columns: BTreeMap<i64, Vec<Wire>> = BTreeMap::new();
    inputs.iter().for_each(|(e, wire)| columns.entry(*e).or_default().push(*wire));
    let inputs = summands(columns, BTreeMap::new(), end)?;
    Some(Counter { inputs, outputs, adders: set.len() })
}

/// The node that is the parity of all of these and of some other wires, by XORs that are no adder's, and these wires.
fn parity(net: &Net, of: &[Option<Wire>]) -> Option<(Wire, Vec<Wire>)> {
    let of = of.iter().copied().collect::<Option<Vec<Wire>>>()?;
    let alone = |node: usize| net.mode.shared || net.readers[node] == 1;
    let above = |node: &usize| match net.parities.get(node).map(|list| &list[..]) {
        Some([xor]) if alone(*node) => Some(*xor),
        _ => None,
    };
    // The XORs one above the other, as far as nothing else reads them.
    let path = |w: &Wire| std::iter::successors(above(&w.node()), above).take(MOST_ADDED);
    let mut paths = of.iter().map(|w| path(w).collect::<Vec<usize>>());
    let first = paths.next()?;
    let others: Vec<Vec<usize>> = paths.collect();
    let top = *first.iter().find(|xor| others.iter().all(|path| path.contains(xor)))?;
    let (mut todo, mut left, mut added, mut odd) = (vec![top], of, vec![], false);
    while let Some(node) = todo.pop() {
        let Node::Xor(a, b) = net.circuit.nodes[node] else { return None };
        for wire in [a, b] {
            let xor = matches!(net.circuit.nodes[wire.node()], Node::Xor(..));
            if let Some(i) = left.iter().position(|w| w.node() == wire.node()) {
                odd ^= left.swap_remove(i).negated();
            } else if xor && alone(wire.node()) && !net.gives(wire) {
                todo.push(wire.node());
            } else {
                added.push(wire);
            }
        }
        if added.len() > MOST_ADDED {
            return None;
        }
    }
    let sum = if odd { Wire::new(top).not() } else { Wire::new(top) };
    left.is_empty().then_some((sum, added))
}

/// The addends and the constant by their exponents: of an addend that occurs several times at most one is left for each. From
/// the exponent after `top` on nothing counts, if there is one. `None` for a sum below 0.
fn summands(
    mut columns: BTreeMap<i64, Vec<Wire>>,
    mut constants: BTreeMap<i64, i64>,
    top: Option<i64>,
) -> Option<Vec<(i64, Wire)>> {
    let first = |e: Option<&i64>| e.copied().unwrap_or(i64::MAX);
    let (mut found, mut carry) = (vec![], 0i64);
    let mut e = first(columns.keys().next()).min(first(constants.keys().next()));
    while top.is_none_or(|top| e <= top) {
        let (column, constant) = (columns.remove(&e), constants.remove(&e));
        if columns.is_empty() && constants.is_empty() && column.is_none() && constant.is_none() {
            match carry {
                0 => break,
                ..0 => return None,
                _ => {}
            }
        }
        let mut counts: BTreeMap<usize, [usize; 2]> = BTreeMap::new();
        for wire in column.into_iter().flatten() {
            counts.entry(wire.node()).or_default()[usize::from(wire.negated())] += 1;
        }
        carry += constant.unwrap_or(0);
        // The node 0 is the constant 0.
        carry += counts.remove(&0).map_or(0, |c| c[1] as i64);
        for (node, [plain, negated]) in counts {
            // x + ¬x = 1.
            let same = plain.min(negated);
            carry += same as i64;
            let (wire, count) = match plain > negated {
                true => (Wire::new(node), plain - same),
                false => (Wire::new(node).not(), negated - same),
            };
            found.extend((count % 2 == 1).then_some((e, wire)));
            if count > 1 {
                columns.entry(e + 1).or_default().extend(vec![wire; count / 2]);
            }
        }
        found.extend((carry.rem_euclid(2) == 1).then_some((e, Wire::ONE)));
        carry = carry.div_euclid(2);
        e += 1;
    }
    Some(found)
}

impl Counter {
    /// Whether every addend stands before every output, so that none can depend on one.
    fn is_ready(&self) -> bool {
        let last = self.inputs.iter().map(|i| i.1.node()).max();
        last < self.outputs.values().map(|w| w.node()).min()
    }

    /// Whether it has bits enough of one weight, and these alone or so many adders that it is worth their gates.
    fn pays(&self, circuit: &Circuit, room: Room) -> bool {
        let mut columns: BTreeMap<i64, usize> = BTreeMap::new();
        self.inputs.iter().for_each(|i| *columns.entry(i.0).or_default() += 1);
        if columns.values().all(|c| *c <= FEWEST) {
            return false;
        }
        if columns.len() == 1 {
            return true;
        }
        let mut nodes: Vec<usize> = self.inputs.iter().map(|i| i.1.node()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let gate = |n: &usize| matches!(circuit.nodes[*n], Node::And(..) | Node::Xor(..));
        let gates = nodes.iter().filter(|n| gate(n)).count();
        2 * self.rotations(room) + gates < self.adders
    }

    fn rotations(&self, room: Room) -> usize {
        let Some(top) = self.outputs.last_key_value().map(|o| *o.0) else { return 0 };
        let (mut trial, mut columns) = (Circuit::empty(), Columns::default());
        for (e, wire) in &self.inputs {
            columns.push(*e, if wire.node() == 0 { *wire } else { trial.input() });
        }
        columns.digits(&mut trial, top, room, Style::Values);
        trial.rotations_of_sums(room)
    }

    /// The digits of the sum.
    fn build(&self, to: &mut Circuit, at: &mut [Wire], room: Room, style: Style) {
        let Some(top) = self.outputs.last_key_value().map(|o| *o.0) else { return };
        let mut columns = Columns::default();
        self.inputs.iter().for_each(|(e, wire)| columns.push(*e, moved(at, *wire)));
        let digits = columns.digits(to, top, room, style);
        for (e, wire) in &self.outputs {
            // A digit that no carry reaches stays 0.
            let digit = digits.get(e).copied().unwrap_or(Wire::ZERO);
            at[wire.node()] = if wire.negated() { digit.not() } else { digit };
        }
    }
}

#[cfg(test)]
mod tests;
