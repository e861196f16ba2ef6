//! Adders in a network of gates: pairs of gates that add two or three bits, however they are spelled.
//!
//! A half adder is a ⊕ b beside a·b, a full adder a ⊕ b ⊕ c beside the majority; any operand and any result may be negated.
//! They are found by the functions of cuts of three leaves.

use super::cuts::united;
use super::{Circuit, Node, Wire};
use std::collections::BTreeMap;

/// Cuts kept for a node: those that are merged from the shallowest ones.
const KEPT: usize = 10;
/// Most gates between the results of an adder and its operands.
const CONE: usize = 24;

/// Where each of three variables is 1.
const VARIABLES: [u8; 3] = [0xAA, 0xCC, 0xF0];
/// The parity of three bits.
const PARITY: u8 = 0x96;

/// Σ operands = sum + 2·carry. A result that nothing reads, or that is not known to be needed, is missing.
#[derive(Debug, Clone)]
pub(super) struct Adder {
    pub operands: Vec<Wire>,
    pub sum: Option<Wire>,
    pub carry: Option<Wire>,
    /// How often the gates of the adder read each operand.
    pub reads: Vec<u32>,
    /// Whether the carry is 0, which is why it is missing.
    pub fits: bool,
}

/// The adders of a circuit.
#[derive(Default)]
pub(super) struct Found {
    /// Adders with both results, by the first of them.
    pub whole: Vec<Adder>,
    /// Majorities whose parity nothing reads.
    pub carries: Vec<Adder>,
    /// Nodes that are results of whole adders, or between these and their operands.
    pub owned: Vec<bool>,
}

/// At most three nodes in order, and a function of them.
#[derive(Clone, Copy)]
struct Cut {
    len: u8,
    leaves: [u32; 3],
    table: u8,
}

/// Nodes that are the parity of some leaves, each with whether it is negated, and those that are a carry, with the operands.
#[derive(Default)]
struct Pair {
    sums: Vec<Wire>,
    carries: Vec<(Wire, Vec<Wire>)>,
}

/// Leaves in order; those of a pair end with this.
type Leaves = [u32; 3];
const NONE: u32 = u32::MAX;

impl Adder {
    /// Its first result.
    pub fn first(&self) -> usize {
        [self.sum, self.carry].into_iter().flatten().map(Wire::node).min().unwrap_or(0)
    }

    /// The results that there are, with their exponents.
    pub fn results(&self) -> impl Iterator<Item = (i64, Wire)> + use<> {
        [self.sum.map(|w| (0, w)), self.carry.map(|w| (1, w))].into_iter().flatten()
    }
}

impl Cut {
    fn leaves(&self) -> &[u32] {
        &self.leaves[..usize::from(self.len)]
    }

    /// The cut of both, and the function of the one in it and of the other.
    fn union(&self, other: &Cut) -> Option<(Cut, u8, u8)> {
        let (leaves, len) = united(self.leaves(), other.leaves(), NONE)?;
        let cut = Cut { len, leaves, table: 0 };
        Some((cut, self.within(&cut), other.within(&cut)))
    }

    /// Its function of the leaves of a larger cut.
    fn within(&self, larger: &Cut) -> u8 {
        if self.len == larger.len {
            return self.table;
        }
        let place = |leaf: &u32| larger.leaves().iter().position(|l| l == leaf).unwrap_or(0);
        let places: Vec<usize> = self.leaves().iter().map(place).collect();
        (0..8).fold(0, |table, x: usize| {
            let at = places.iter().enumerate().fold(0, |at, (i, p)| at | (x >> p & 1) << i);
            table | (self.table >> at & 1) << x
        })
    }

    fn covers(&self, other: &Cut) -> bool {
        self.leaves().iter().all(|l| other.leaves().contains(l))
    }
}

impl Circuit {
    /// Its adders. `readers`: how often each node is read.
    pub(super) fn adders(&self, readers: &[u32]) -> Found {
        let mut pairs = self.pairs();
        // The one with the fewest negations is the carry beside the parity.
        let negated = |c: &(Wire, Vec<Wire>)| c.1.iter().filter(|w| w.negated()).count();
        pairs.values_mut().for_each(|p| p.carries.sort_by_key(negated));
        let (mut full, mut half) = (vec![], vec![]);
        for (leaves, pair) in &pairs {
            let to = if leaves[2] == NONE { &mut half } else { &mut full };
            for (i, (carry, operands)) in pair.carries.iter().enumerate() {
                // The parity of the operands is that of the leaves, negated for each operand that is.
                let odd = operands.iter().filter(|w| w.negated()).count() % 2 == 1;
                let sum = pair.sums.first().map(|s| if odd { s.not() } else { *s });
                let sum = sum.filter(|s| i == 0 && s.node() != carry.node());
                let (carry, operands) = (Some(*carry), operands.clone());
                to.push(Adder { operands, sum, carry, reads: vec![], fits: false });
            }
        }
        full.sort_by_key(|a| (a.sum.is_none(), a.first()));
        half.sort_by_key(Adder::first);
        let mut found = Found { owned: vec![false; self.nodes.len()], ..Found::default() };
        let mut carries = vec![];
        for mut adder in full {
            let Some((inside, reads)) = self.cone(&adder, readers) else { continue };
            let results = adder.results().map(|r| r.1.node());
            let nodes: Vec<usize> = results.chain(inside).collect();
            if nodes.iter().any(|n| found.owned[*n]) {
                continue;
            }
            adder.reads = reads;
            if adder.sum.is_none() {
                carries.push((adder, nodes));
                continue;
            }
            nodes.into_iter().for_each(|n| found.owned[n] = true);
            found.whole.push(adder);
        }
        for mut adder in half {
            let free = adder.results().all(|(_, w)| !found.owned[w.node()]);
            if let (true, Some(_), Some((_, reads))) = (free, adder.sum, self.cone(&adder, readers))
            {
                adder.results().for_each(|(_, w)| found.owned[w.node()] = true);
                adder.reads = reads;
                found.whole.push(adder);
            }
        }
        found.whole.sort_by_key(Adder::first);
        carries.retain(|(_, nodes): &(Adder, Vec<usize>)| nodes.iter().all(|n| !found.owned[*n]));
        found.carries = carries.into_iter().map(|c| c.0).collect();
        found
    }

    /// The nodes between the results of an adder and its operands, and how often its gates read each operand. `None` if one of
    /// the nodes is read elsewhere too.
    fn cone(&self, adder: &Adder, readers: &[u32]) -> Option<(Vec<usize>, Vec<u32>)> {
        let results: Vec<usize> = adder.results().map(|r| r.1.node()).collect();
        let operand = |n: usize| adder.operands.iter().position(|w| w.node() == n);
        let mut reads = vec![0; adder.operands.len()];
        let mut inside: BTreeMap<usize, u32> = BTreeMap::new();
        let mut todo = results.clone();
        while let Some(node) = todo.pop() {
            let (Node::And(a, b) | Node::Xor(a, b)) = self.nodes[node] else { return None };
            for n in [a.node(), b.node()] {
                if let Some(i) = operand(n) {
                    reads[i] += 1;
                } else if !results.contains(&n) {
                    let count = inside.entry(n).or_default();
                    *count += 1;
                    if *count == 1 {
                        todo.push(n);
                    }
                }
            }
            if inside.len() > CONE {
                return None;
            }
        }
        let alone = inside.iter().all(|(n, count)| readers[*n] == *count);
        alone.then(|| (inside.into_keys().collect(), reads))
    }

    /// Parities and carries of two and of three nodes.
    fn pairs(&self) -> BTreeMap<Leaves, Pair> {
        let mut pairs: BTreeMap<Leaves, Pair> = BTreeMap::new();
        let mut cuts: Vec<Vec<Cut>> = Vec::with_capacity(self.nodes.len());
        for (node, kind) in self.nodes.iter().enumerate() {
            let own = Cut { len: 1, leaves: [node as u32, NONE, NONE], table: VARIABLES[0] };
            let mut kept = vec![own];
            if let Node::And(a, b) | Node::Xor(a, b) = kind {
                let flip = |t: u8, w: &Wire| if w.negated() { !t } else { t };
                let (left, right) = (&cuts[a.node()], &cuts[b.node()]);
                let orders = (0..left.len() + right.len()).flat_map(|sum| {
                    (0..=sum).filter_map(move |i| Some((left.get(i)?, right.get(sum - i)?)))
                });
                for (x, y) in orders {
                    if kept.len() > KEPT {
                        break;
                    }
                    let Some((mut cut, f, g)) = x.union(y) else { continue };
                    if kept[1..].iter().any(|k| k.covers(&cut)) {
                        continue;
                    }
                    let (f, g) = (flip(f, a), flip(g, b));
                    cut.table = if matches!(kind, Node::And(..)) { f & g } else { f ^ g };
                    kept.push(cut);
                    note(&mut pairs, node, &cut);
                }
            }
            cuts.push(kept);
        }
        pairs
    }
}

/// Notes a node that is a parity or a carry of the leaves of a cut.
fn note(pairs: &mut BTreeMap<Leaves, Pair>, node: usize, cut: &Cut) {
    let own = Wire::new(node);
    let leaf = |i: usize| Wire::new(cut.leaves[i] as usize);
    let operands = |flips: usize| {
        let flipped = |i| if flips >> i & 1 == 1 { leaf(i).not() } else { leaf(i) };
        (0..usize::from(cut.len)).map(flipped).collect::<Vec<_>>()
    };
    let parity = match cut.len {
        2 => VARIABLES[0] ^ VARIABLES[1],
        3 => PARITY,
        _ => return,
    };
    if cut.table == parity || cut.table == !parity {
        let sum = if cut.table == parity { own } else { own.not() };
        pairs.entry(cut.leaves).or_default().sums.push(sum);
        return;
    }
    for flips in 0..1usize << cut.len {
        let flipped = |i: usize| VARIABLES[i] ^ if flips >> i & 1 == 1 { 0xFF } else { 0 };
        let carry = match cut.len {
            2 => flipped(0) & flipped(1),
            _ => {
                let [a, b, c] = [0, 1, 2].map(flipped);
                a & b | a & c | b & c
            }
        };
        if cut.table == carry || (cut.len == 2 && cut.table == !carry) {
            // ¬(a·b) as a result: the carry is its negation.
            let carry = if cut.table == carry { own } else { own.not() };
            pairs.entry(cut.leaves).or_default().carries.push((carry, operands(flips)));
            return;
        }
    }
}
