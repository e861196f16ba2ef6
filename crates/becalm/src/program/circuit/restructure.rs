//! The same function with other gates: XORs that ANDs hide become gates, and chains of equal gates become trees, those that
//! are ready first at the bottom, as in Huffman's code. Or ANDs become chains, so that the carries of a number that is counted
//! up where a bit is 1 are those of adders: x ⊕ b·c, with b·c taken in.

use super::{Circuit, Node, Port, Wire};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most operands that are taken out of gates which others read too: their trees come beside the gates.
const MOST: usize = 48;

/// How chains are taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chains {
    /// Not at all.
    Keep,
    /// Where nothing else reads their middle: no gate more.
    Balance,
    /// Everywhere: shorter, and more gates.
    Duplicate,
    /// ANDs everywhere, and put together one operand after another, those that are ready first at the bottom. It takes out what an XOR
    /// and one of its operands, or a choice between them, leave.
    Carry,
}

/// Σ of a tree: its operands, and whether the parity is negated.
type Operands = (Vec<Wire>, bool);

struct Builder<'a> {
    from: &'a Circuit,
    chains: Chains,
    readers: Vec<u32>,
    to: Circuit,
    /// Where a node of the old circuit is in the new one.
    at: Vec<Wire>,
    /// Gates one after another, for each node of the new one.
    level: Vec<u32>,
}

impl Circuit {
    /// The circuit of what its outputs need, restructured.
    pub(super) fn restructured(&self, chains: Chains) -> Circuit {
        let readers = self.readers();
        let (to, at, level) = (Circuit::empty(), vec![Wire::ZERO; self.nodes.len()], vec![0]);
        let mut builder = Builder { from: self, chains, readers, to, at, level };
        for wire in self.inputs.iter().flat_map(|p| &p.wires) {
            builder.at[wire.node()] = builder.to.input();
        }
        // Only the tops of chains, and what is left of these.
        let mut wanted = vec![false; self.nodes.len()];
        self.outputs.iter().flat_map(|p| &p.wires).for_each(|w| wanted[w.node()] = true);
        for node in (0..self.nodes.len()).rev().filter(|n| self.is_gate(*n)) {
            if wanted[node] {
                builder.operands(node).0.iter().for_each(|w| wanted[w.node()] = true);
            }
        }
        for node in (0..self.nodes.len()).filter(|n| wanted[*n] && self.is_gate(*n)) {
            builder.gate(node);
        }
        builder.finish()
    }

    fn is_gate(&self, node: usize) -> bool {
        matches!(self.nodes[node], Node::And(..) | Node::Xor(..))
    }

    /// How many gates and outputs read each node; gates that nothing reads do not count.
    pub(super) fn readers(&self) -> Vec<u32> {
        let mut readers = vec![0; self.nodes.len()];
        self.outputs.iter().flat_map(|p| &p.wires).for_each(|w| readers[w.node()] += 1);
        for i in (0..self.nodes.len()).rev() {
            if let (1.., Node::And(a, b) | Node::Xor(a, b)) = (readers[i], self.nodes[i]) {
                readers[a.node()] += 1;
                readers[b.node()] += 1;
            }
        }
        readers
    }

    /// The circuit without gates that nothing reads.
    fn swept(&self) -> Circuit {
        let mut read = vec![false; self.nodes.len()];
        self.outputs.iter().flat_map(|p| &p.wires).for_each(|w| read[w.node()] = true);
        for i in (0..self.nodes.len()).rev() {
            if let (true, Node::And(a, b) | Node::Xor(a, b)) = (read[i], self.nodes[i]) {
                (read[a.node()], read[b.node()]) = (true, true);
            }
        }
        let (mut to, mut at) = (Circuit::empty(), vec![Wire::ZERO; self.nodes.len()]);
        for wire in self.inputs.iter().flat_map(|p| &p.wires) {
            at[wire.node()] = to.input();
        }
        for (i, node) in self.nodes.iter().enumerate().filter(|(i, _)| read[*i]) {
            match *node {
                Node::And(a, b) => at[i] = to.and(moved(&at, a), moved(&at, b)),
                Node::Xor(a, b) => at[i] = to.xor(moved(&at, a), moved(&at, b)),
                _ => {}
            }
        }
        to.inputs = ports(&self.inputs, &at);
        to.outputs = ports(&self.outputs, &at);
        to
    }
}

pub(super) fn moved(at: &[Wire], wire: Wire) -> Wire {
    let new = at[wire.node()];
    if wire.negated() { new.not() } else { new }
}

pub(super) fn ports(ports: &[Port], at: &[Wire]) -> Vec<Port> {
    let port = |p: &Port| Port {
        name: p.name.clone(),
        wires: p.wires.iter().map(|w| moved(at, *w)).collect(),
    };
    ports.iter().map(port).collect()
}

impl Builder<'_> {
    fn finish(mut self) -> Circuit {
        self.to.inputs = ports(&self.from.inputs, &self.at);
        self.to.outputs = ports(&self.from.outputs, &self.at);
        self.to.swept()
    }

    fn gate(&mut self, node: usize) {
        let (operands, negated) = self.operands(node);
        let moved = operands.into_iter().map(|w| moved(&self.at, w)).collect();
        let tree = self.tree(moved, matches!(self.from.nodes[node], Node::And(..)));
        self.at[node] = if negated { tree.not() } else { tree };
    }

    /// The leaves of a gate together with the gates of its kind under it that may be taken apart.
    fn operands(&self, node: usize) -> Operands {
        let and = matches!(self.from.nodes[node], Node::And(..));
        let (mut open, mut found, mut negated) = (vec![Wire::new(node)], vec![], false);
        while let Some(wire) = open.pop() {
            let below = wire.node();
            let may = below == node
                || match self.chains {
                    Chains::Keep => false,
                    Chains::Balance => self.readers[below] == 1,
                    Chains::Carry if !and => false,
                    Chains::Duplicate | Chains::Carry => open.len() + found.len() < MOST,
                };
            match self.from.nodes[below] {
                Node::And(a, b) if and && may && !wire.negated() => open.extend([a, b]),
                Node::Xor(a, b) if !and && may => {
                    negated ^= wire.negated();
                    open.extend([a, b]);
                }
                _ => found.push(wire),
            }
        }
        (found, negated)
    }

    fn tree(&mut self, operands: Vec<Wire>, and: bool) -> Wire {
        let level = |b: &Self, w: Wire| b.level.get(w.node()).copied().unwrap_or(0);
        if self.chains == Chains::Carry && and {
            let mut sorted: Vec<(u32, Wire)> =
                operands.iter().map(|w| (level(self, *w), *w)).collect();
            sorted.sort_unstable();
            sorted.dedup();
            return sorted.into_iter().fold(Wire::ONE, |chain, (at, wire)| {
                let at = 1 + at.max(level(self, chain));
                let chain = self.and(chain, wire);
                self.level.resize(self.to.nodes.len(), at);
                chain
            });
        }
        let mut heap: BinaryHeap<Reverse<(u32, Wire)>> =
            operands.into_iter().map(|w| Reverse((level(self, w), w))).collect();
        let mut root = Wire::ZERO;
        while let Some(Reverse((i, x))) = heap.pop() {
            root = x;
            let Some(Reverse((j, y))) = heap.pop() else { break };
            let wire = if and { self.and(x, y) } else { self.xor(x, y) };
            self.level.resize(self.to.nodes.len(), 1 + i.max(j));
            heap.push(Reverse((level(self, wire), wire)));
        }
        root
    }

    /// Both, as an XOR where that is what two gates below say: ¬(p·q)·¬(¬p·¬q), or as a part of one, ¬(c·p)·¬(¬c·q), where p and q
    /// are a bit and its XOR with another. Of an XOR with one of its operands only the other is left.
    fn and(&mut self, a: Wire, b: Wire) -> Wire {
        if let (true, true, Node::And(p, q), Node::And(r, s)) =
            (a.negated(), b.negated(), self.to.nodes[a.node()], self.to.nodes[b.node()])
        {
            let (p_, q_) = (p.not(), q.not());
            if (p_, q_) == (r, s) || (p_, q_) == (s, r) {
                return self.to.xor(p, q);
            }
            for (c, p, r, q) in [(p, q, r, s), (p, q, s, r), (q, p, r, s), (q, p, s, r)] {
                if self.chains == Chains::Carry
                    && c == r.not()
                    && let Some(other) = self.rest(p, q).or_else(|| self.rest(q, p))
                {
                    // The choice is q ⊕ c·(p ⊕ q).
                    let change = self.and(c, other);
                    return self.xor(q, change).not();
                }
            }
        }
        for (x, y) in [(a, b), (b, a)] {
            if let Some(other) = self.rest(x, y) {
                // Where x is 1, y is the negation of that.
                return self.to.and(x, other.not());
            }
        }
        self.to.and(a, b)
    }

    /// The XOR of `x` and `y`, where `y` is an XOR that has `x` as an operand: its other operand.
    fn rest(&self, x: Wire, y: Wire) -> Option<Wire> {
        let Node::Xor(p, q) = self.to.nodes[y.node()] else { return None };
        let other = match x.node() {
            n if n == p.node() => q,
            n if n == q.node() => p,
            _ => return None,
        };
        Some(if x.negated() != y.negated() { other.not() } else { other })
    }

    /// Exactly one. Of an AND and one of its operands, x ⊕ x·q = x·¬q.
    fn xor(&mut self, a: Wire, b: Wire) -> Wire {
        for (x, y) in [(a, b), (b, a)] {
            if let (Chains::Carry, Some(other)) = (self.chains, self.rest(x, y)) {
                return other;
            }
            if let Node::And(p, q) = self.to.nodes[y.node()] {
                let (p, q) = match x.node() {
                    n if n == p.node() => (p, q),
                    n if n == q.node() => (q, p),
                    _ => continue,
                };
                let rest = self.to.and(p, q.not());
                return if (x != p) != y.negated() { rest.not() } else { rest };
            }
        }
        self.to.xor(a, b)
    }
}
