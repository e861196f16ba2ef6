//! Adders that hang together: one takes a result of another, which nothing else reads.

use super::adders::{Adder, Found};
use super::{Circuit, Node, Wire};
use std::collections::{HashMap, HashSet, VecDeque};

/// Adders that are walked in all to find which carries are 0.
const WALKED: usize = 1 << 24;
/// The weight of the operands of an adder whose carry is looked at.
const UNIT: i64 = 1 << 40;

/// Which adders are taken, and which of their results go on to others.
#[derive(Clone, Copy)]
pub(super) struct Mode {
    /// Carries too whose sum nothing reads.
    pub carries: bool,
    /// Also results that gates outside the adder read. Those gates keep reading them from the old gates.
    pub shared: bool,
}

/// The adders of one mode, and how they hang together.
pub(super) struct Net<'a> {
    pub circuit: &'a Circuit,
    pub readers: &'a [u32],
    pub mode: Mode,
    pub adders: Vec<Adder>,
    /// The adder that gives a node, the exponent of the result, and its wire.
    giver: HashMap<usize, (usize, i64, Wire)>,
    /// The adder that takes a node, and its operand; `None` if there are several.
    pub taker: HashMap<usize, Option<(usize, Wire)>>,
    /// XORs that are no adder's, by their operands.
    pub parities: HashMap<usize, Vec<usize>>,
    /// The parent of each adder in its tree, with the exponent and the sign as seen from the parent; the first of a tree has none.
    parents: Vec<Option<Member>>,
    /// How many hang together with it.
    sizes: Vec<usize>,
    walked: usize,
}

/// An adder of a set: its number, its exponent, and whether it is turned round.
pub(super) type Member = (usize, i64, bool);

impl<'a> Net<'a> {
    pub(super) fn new(
        circuit: &'a Circuit,
        readers: &'a [u32],
        found: &Found,
        taken: &[bool],
        mode: Mode,
    ) -> Net<'a> {
        let mut net = Net {
            circuit,
            readers,
            mode,
            adders: vec![],
            giver: HashMap::new(),
            taker: HashMap::new(),
            parities: HashMap::new(),
            parents: vec![],
            sizes: vec![],
            walked: 0,
        };
        let free = |a: &&Adder| a.results().all(|(_, w)| !taken[w.node()]);
        found.whole.iter().filter(free).for_each(|a| net.add(a.clone()));
        for adder in found.carries.iter().filter(free).filter(|_| mode.carries) {
            let mut all = adder.operands.iter().zip(&adder.reads);
            if all.all(|(w, reads)| readers[w.node()] == *reads) {
                net.add(adder.clone());
            }
        }
        if net.adders.is_empty() {
            return net;
        }
        for (node, kind) in circuit.nodes.iter().enumerate() {
            let free = !found.owned[node] && !taken[node] && readers[node] > 0;
            if free && !net.giver.contains_key(&node) {
                net.lone(node, *kind);
            }
        }
        net
    }

    /// Whether two results are of one exponent and sign, as far as adders hang together.
    fn agree(&self, [a, b]: [Wire; 2]) -> bool {
        let place = |w: Wire| {
            let (adder, up, wire) = self.giver[&w.node()];
            let (root, e, turned) = self.root(adder);
            (root, e + up, turned ^ (wire != w))
        };
        let (a, b) = (place(a), place(b));
        a.0 != b.0 || a == b
    }

    /// The first of the adders that hang together with one, and the exponent and the sign as seen from it.
    fn root(&self, mut adder: usize) -> Member {
        let (mut e, mut turned) = (0, false);
        while let Some((next, up, turn)) = self.parents[adder] {
            (adder, e, turned) = (next, e + up, turned ^ turn);
        }
        (adder, e, turned)
    }

    fn add(&mut self, adder: Adder) {
        let i = self.adders.len();
        self.giver.extend(adder.results().map(|(e, w)| (w.node(), (i, e, w))));
        for (wire, reads) in adder.operands.iter().zip(&adder.reads) {
            if self.mode.shared || self.readers[wire.node()] == *reads {
                let taker = self.taker.entry(wire.node());
                taker.and_modify(|t| *t = None).or_insert(Some((i, *wire)));
            }
        }
        self.parents.push(None);
        self.sizes.push(1);
        for wire in adder.operands.iter().filter(|w| self.takes(i, **w)).collect::<Vec<_>>() {
            self.hang(i, *wire);
        }
        self.adders.push(adder);
    }

    /// Hangs an adder together with the one that gives it an operand.
    fn hang(&mut self, adder: usize, operand: Wire) {
        let (giver, up, given) = self.giver[&operand.node()];
        let (a, b) = (self.root(adder), self.root(giver));
        if a.0 == b.0 {
            return;
        }
        // The root of the giver as seen from that of the adder: both see the operand at one exponent.
        let (e, turned) = (a.1 - up - b.1, a.2 ^ b.2 ^ (given != operand));
        let (small, large, e) = match self.sizes[a.0] < self.sizes[b.0] {
            true => (a.0, b.0, -e),
            false => (b.0, a.0, e),
        };
        self.parents[small] = Some((large, e, turned));
        self.sizes[large] += self.sizes[small];
    }

    /// Adds a gate that is an adder alone: an XOR or an OR whose carry is 0, or a carry whose sum nothing reads.
    fn lone(&mut self, node: usize, kind: Node) {
        let own = Wire::new(node);
        let (operands, sum) = match kind {
            Node::Xor(a, b) => ([a, b], own),
            Node::And(a, b) => ([a.not(), b.not()], own.not()),
            _ => return,
        };
        let known = operands.iter().filter(|w| self.giver.contains_key(&w.node())).count();
        let alone = operands.iter().all(|w| self.readers[w.node()] == 1);
        let given = operands.iter().filter(|w| self.circuit.nodes[w.node()] == Node::Input).count();
        let agree = (known, given) == (1, 1) || (known == 2 && self.agree(operands));
        if agree && (self.fits(&operands, false) || self.fits(&operands, true)) {
            let operands = operands.to_vec();
            self.add(Adder {
                operands,
                sum: Some(sum),
                carry: None,
                reads: vec![1, 1],
                fits: true,
            });
        } else if self.mode.carries && alone && agree && matches!(kind, Node::And(..)) {
            let operands = operands.map(Wire::not).to_vec();
            self.add(Adder {
                operands,
                sum: None,
                carry: Some(own),
                reads: vec![1, 1],
                fits: false,
            });
        } else if let Node::Xor(a, b) = kind {
            for wire in [a, b] {
                self.parities.entry(wire.node()).or_default().push(node);
            }
        }
    }

    /// Whether at most one of two bits is 1, because the bits that they come from add up to less than twice their weight: the
    /// operands of the adders that give them, or of all adders below.
    fn fits(&mut self, operands: &[Wire], deep: bool) -> bool {
        // Each with the places that it is below the two.
        let mut todo: VecDeque<(Wire, u32)> = operands.iter().map(|w| (*w, 0)).collect();
        let mut near = operands.len();
        let (mut seen, mut used) = (HashMap::<usize, (u32, bool)>::new(), HashSet::new());
        let (mut total, weight) = (0, |below: u32| UNIT.checked_shr(below).unwrap_or(0).max(1));
        while let Some((wire, below)) = todo.pop_front() {
            let given = self.giver.get(&wire.node());
            let given = given.filter(|(i, ..)| deep || near > 0 || seen.contains_key(i));
            near = near.saturating_sub(1);
            // A bit that counts twice comes from outside the second time.
            let giver = given.filter(|_| used.insert(wire.node()));
            if let Some((i, e, given)) = giver {
                let (below, turned) = (below + *e as u32, *given != wire);
                match seen.insert(*i, (below, turned)) {
                    Some(known) if known == (below, turned) => continue,
                    Some(_) => return false,
                    None => self.walked += 1,
                }
                let adder = &self.adders[*i];
                if turned && adder.operands.len() == 2 && !adder.fits {
                    total += weight(below);
                }
                let turn = |w: &Wire| if turned { w.not() } else { *w };
                todo.extend(adder.operands.iter().map(|w| (turn(w), below)));
            } else {
                total += weight(below);
            }
            if total >= 2 * UNIT || self.walked > WALKED {
                return false;
            }
        }
        true
    }

    /// Whether a wire is a result of an adder.
    pub(super) fn gives(&self, wire: Wire) -> bool {
        self.giver.contains_key(&wire.node())
    }

    /// Whether an operand comes from an adder that gives it to this one.
    pub(super) fn takes(&self, adder: usize, operand: Wire) -> bool {
        let taker = self.taker.get(&operand.node()).copied().flatten();
        taker.is_some_and(|t| t.0 == adder) && self.gives(operand)
    }

    /// The adders that hang together with one, and whether their exponents and signs agree.
    pub(super) fn connected(&self, first: usize, seen: &mut [bool]) -> (Vec<Member>, bool) {
        let (mut members, mut good) = (vec![], true);
        let mut known: HashMap<usize, (i64, bool)> = HashMap::new();
        let mut todo = vec![(first, 0, false)];
        while let Some((i, e, turned)) = todo.pop() {
            if let Some(known) = known.get(&i) {
                good &= *known == (e, turned);
                continue;
            }
            known.insert(i, (e, turned));
            seen[i] = true;
            members.push((i, e, turned));
            for operand in self.adders[i].operands.iter().filter(|w| self.takes(i, **w)) {
                let (giver, up, wire) = self.giver[&operand.node()];
                todo.push((giver, e - up, turned ^ (wire != *operand)));
            }
            for (up, wire) in self.adders[i].results() {
                if let Some(Some((taker, operand))) = self.taker.get(&wire.node()) {
                    todo.push((*taker, e + up, turned ^ (wire != *operand)));
                }
            }
        }
        // The side with fewer constants.
        let halves = || members.iter().filter(|m| self.adders[m.0].operands.len() == 2);
        if 2 * halves().filter(|m| m.2).count() > halves().count() {
            members.iter_mut().for_each(|m| m.2 = !m.2);
        }
        (members, good)
    }
}
