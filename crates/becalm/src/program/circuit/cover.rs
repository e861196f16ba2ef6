//! Covering a circuit with lookups: which nodes are looked up, and from which others.
//!
//! Every node gets cuts, sets of at most six nodes that determine it, merged from the cuts of its inputs; those are kept whose
//! function has a form in the room. First the fewest bootstraps on the longest path, then under that bound or a wider one as
//! few lookups as possible: by area flow, then by counting exactly what a choice adds. At last lookups of the same bits become
//! one rotation with several results. Area flow shares the cost of a node among its readers, whose number a cover changes: each
//! cover is followed by one whose flow believes more of the uses before it, and the smallest is taken. Source: Mishchenko, Cho, Chatterjee, Brayton 2007 ("Combinational and sequential mapping with
//! priority cuts").

use super::weights::{Form, MAX_INPUTS, Room, find};
use super::{Circuit, Node, Wire};
use std::collections::HashMap;

/// Cuts kept for a node.
const KEPT: usize = 32;
/// Covers that are tried.
const COVERS: usize = 8;
/// Rounds of counting exactly, for each of them.
const ROUNDS: usize = 3;

/// A set of nodes, and a node as a function of them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cut {
    leaves: Vec<u32>,
    function: u64,
}

/// Lookups of one linear form: the nodes that it gives, from the same leaves.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    pub leaves: Vec<usize>,
    /// Node and its function of the leaves.
    pub results: Vec<(usize, u64)>,
    pub form: Form,
}

struct Mapper<'a> {
    circuit: &'a Circuit,
    room: Room,
    /// How long the longest path may be, if it cannot be shorter; `None`: as long as it likes.
    limit: Option<u32>,
    /// For each node its cuts; none for inputs and constants.
    cuts: Vec<Vec<Cut>>,
    /// The chosen one.
    choice: Vec<usize>,
    arrival: Vec<u32>,
    required: Vec<u32>,
    flow: Vec<f64>,
    /// Readers of a node: gates at first, then what covers so far make likely.
    fanout: Vec<f64>,
    uses: Vec<u32>,
    forms: HashMap<(Vec<u64>, usize, i64), Option<Form>>,
}

/// The lookups that give every output of the circuit, in an order in which they can run: as few as go with `limit` of them
/// one after another, or with as many as the shortest longest path has. Without `limit` only their number counts.
pub(super) fn cover(circuit: &Circuit, room: Room, limit: Option<u32>) -> Vec<Lookup> {
    let size = circuit.nodes.len();
    let mut mapper = Mapper {
        circuit,
        room,
        limit,
        cuts: vec![vec![]; size],
        choice: vec![0; size],
        arrival: vec![0; size],
        required: vec![u32::MAX; size],
        flow: vec![0.0; size],
        fanout: vec![0.0; size],
        uses: vec![0; size],
        forms: HashMap::new(),
    };
    mapper.count_fanout();
    for node in 1..size {
        mapper.cut(node);
    }
    mapper.choose(|m, node, cut| (m.arrival_of(cut) as f64, m.flow_of(node, cut)));
    mapper.require();
    let mut least: Option<Vec<Lookup>> = None;
    for _ in 0..COVERS {
        mapper.choose(|m, node, cut| (m.late(node, cut), m.flow_of(node, cut)));
        mapper.require();
        let uses = mapper.uses.clone();
        for _ in 0..ROUNDS {
            mapper.recover();
            mapper.require();
        }
        let found = mapper.lookups();
        if least.as_ref().is_none_or(|least| found.len() < least.len()) {
            least = Some(found);
        }
        for (fanout, uses) in mapper.fanout.iter_mut().zip(uses) {
            *fanout = (2.0 * *fanout + f64::from(uses)) / 3.0;
        }
    }
    least.unwrap_or_default()
}

impl Mapper<'_> {
    fn count_fanout(&mut self) {
        for node in &self.circuit.nodes {
            if let Node::And(a, b) | Node::Xor(a, b) = node {
                self.fanout[a.node()] += 1.0;
                self.fanout[b.node()] += 1.0;
            }
        }
    }

    fn form(&mut self, functions: &[u64], inputs: usize, values: i64) -> Option<Form> {
        let room = Room { values, ..self.room };
        let key = (functions.to_vec(), inputs, values);
        self.forms.entry(key).or_insert_with(|| find(functions, inputs, room)).clone()
    }

    /// The cuts of a node, from those of its inputs and from the inputs themselves.
    fn cut(&mut self, node: usize) {
        let (a, b) = match self.circuit.nodes[node] {
            Node::And(a, b) | Node::Xor(a, b) => (a, b),
            _ => return,
        };
        let and = matches!(self.circuit.nodes[node], Node::And(..));
        let alone = |w: Wire| Cut { leaves: vec![w.node() as u32], function: 0b10 };
        let mut found: Vec<Cut> = vec![];
        let of = |m: &Self, w: Wire| -> Vec<Cut> {
            m.cuts[w.node()].iter().cloned().chain([alone(w)]).collect()
        };
        let (from_a, from_b) = (of(self, a), of(self, b));
        for (x, y) in from_a.iter().flat_map(|x| from_b.iter().map(move |y| (x, y))) {
            let Some(leaves) = union(&x.leaves, &y.leaves) else { continue };
            let mask = ones(leaves.len());
            let operand = |cut: &Cut, wire: Wire| {
                let f = spread(cut, &leaves);
                if wire.negated() { !f & mask } else { f }
            };
            let (f, g) = (operand(x, a), operand(y, b));
            let cut = reduced(leaves, if and { f & g } else { f ^ g });
            if !found.contains(&cut) {
                found.push(cut);
            }
        }
        found.retain(|c| self.form(&[c.function], c.leaves.len(), self.room.values).is_some());
        let within = |x: &Cut, y: &Cut| {
            x.leaves.len() < y.leaves.len() && x.leaves.iter().all(|l| y.leaves.contains(l))
        };
        let kept = found.iter().filter(|y| !found.iter().any(|x| within(x, y))).cloned().collect();
        self.cuts[node] = self.best(node, kept);
        let first = self.cuts[node].iter().map(|c| self.arrival_of(c)).min().unwrap_or(0);
        self.arrival[node] = first;
        let cheapest = self.cuts[node].iter().map(|c| self.flow_of(node, c));
        self.flow[node] = cheapest.fold(f64::INFINITY, f64::min);
    }

    /// The earliest half and the cheapest half.
    fn best(&self, node: usize, mut cuts: Vec<Cut>) -> Vec<Cut> {
        if cuts.len() <= KEPT {
            return cuts;
        }
        let cost = |c: &Cut| self.flow_of(node, c);
        cuts.sort_by(|x, y| {
            let early = self.arrival_of(x).cmp(&self.arrival_of(y));
            early.then(cost(x).total_cmp(&cost(y))).then(x.leaves.len().cmp(&y.leaves.len()))
        });
        let mut rest = cuts.split_off(KEPT / 2);
        rest.sort_by(|x, y| cost(x).total_cmp(&cost(y)).then(x.leaves.len().cmp(&y.leaves.len())));
        cuts.extend(rest.into_iter().take(KEPT / 2));
        cuts
    }

    fn arrival_of(&self, cut: &Cut) -> u32 {
        1 + cut.leaves.iter().map(|l| self.arrival[*l as usize]).max().unwrap_or(0)
    }

    fn flow_of(&self, node: usize, cut: &Cut) -> f64 {
        let sum: f64 = cut.leaves.iter().map(|l| self.flow[*l as usize]).sum();
        (1.0 + sum) / self.fanout[node].max(1.0)
    }

    /// By how much a cut misses what is required of the node.
    fn late(&self, node: usize, cut: &Cut) -> f64 {
        f64::from(self.arrival_of(cut).saturating_sub(self.required[node]))
    }

    /// The cut of least cost for every node, in order.
    fn choose(&mut self, cost: impl Fn(&Self, usize, &Cut) -> (f64, f64)) {
        for node in 1..self.cuts.len() {
            let costs = self.cuts[node].iter().map(|c| cost(self, node, c)).enumerate();
            let least =
                costs.min_by(|(_, x), (_, y)| x.0.total_cmp(&y.0).then(x.1.total_cmp(&y.1)));
            if let Some((at, _)) = least {
                self.choice[node] = at;
                self.update(node);
            }
        }
    }

    fn update(&mut self, node: usize) {
        let cut = &self.cuts[node][self.choice[node]];
        (self.arrival[node], self.flow[node]) = (self.arrival_of(cut), self.flow_of(node, cut));
    }

    fn roots(&self) -> Vec<usize> {
        let wires = self.circuit.outputs.iter().flat_map(|p| &p.wires);
        wires.map(|w| w.node()).filter(|n| !self.cuts[*n].is_empty()).collect()
    }

    /// Arrival times, uses and required times of the chosen cover; the longest path stays.
    fn require(&mut self) {
        for node in 1..self.cuts.len() {
            if !self.cuts[node].is_empty() {
                self.update(node);
            }
        }
        let roots = self.roots();
        let longest = roots.iter().map(|n| self.arrival[*n]).max().unwrap_or(0);
        let goal = self.required.iter().filter(|r| **r != u32::MAX).max().copied();
        self.required.fill(u32::MAX);
        self.uses.fill(0);
        for node in roots {
            let bound = |limit: u32| goal.unwrap_or(longest).max(longest).max(limit);
            self.required[node] = self.limit.map_or(u32::MAX - 1, bound);
            self.uses[node] += 1;
        }
        for node in (1..self.cuts.len()).rev() {
            if self.uses[node] == 0 || self.cuts[node].is_empty() {
                continue;
            }
            let before = self.required[node].saturating_sub(1);
            for leaf in &self.cuts[node][self.choice[node]].leaves {
                let leaf = *leaf as usize;
                self.uses[leaf] += 1;
                self.required[leaf] = self.required[leaf].min(before);
            }
        }
    }

    /// Chooses again, counting what each cut really adds to the cover.
    fn recover(&mut self) {
        for node in 1..self.cuts.len() {
            if self.cuts[node].is_empty() {
                continue;
            }
            if self.uses[node] == 0 {
                self.update(node);
                continue;
            }
            self.reference(node, false);
            let mut least = (usize::MAX, f64::INFINITY, self.choice[node]);
            for at in 0..self.cuts[node].len() {
                let cut = &self.cuts[node][at];
                if self.arrival_of(cut) > self.required[node] {
                    continue;
                }
                let flow = self.flow_of(node, cut);
                self.choice[node] = at;
                let area = self.reference(node, true);
                self.reference(node, false);
                if (area, flow) < (least.0, least.1) {
                    least = (area, flow, at);
                }
            }
            self.choice[node] = least.2;
            self.reference(node, true);
            self.update(node);
        }
    }

    /// Adds the chosen cut of a node to the cover, or takes it away: how many lookups that adds or frees.
    fn reference(&mut self, node: usize, add: bool) -> usize {
        let (mut area, mut todo) = (0, vec![node]);
        while let Some(node) = todo.pop() {
            area += 1;
            for leaf in &self.cuts[node][self.choice[node]].leaves {
                let leaf = *leaf as usize;
                let before = self.uses[leaf];
                self.uses[leaf] = if add { before + 1 } else { before - 1 };
                let changes = if add { before == 0 } else { before == 1 };
                if changes && !self.cuts[leaf].is_empty() {
                    todo.push(leaf);
                }
            }
        }
        area
    }

    /// The chosen lookups, those of the same leaves together as far as their results fit one table.
    fn lookups(&mut self) -> Vec<Lookup> {
        let mut found: Vec<Lookup> = vec![];
        let mut hosts: HashMap<Vec<u32>, Vec<usize>> = HashMap::new();
        let mut used: Vec<usize> = (1..self.cuts.len())
            .filter(|n| self.uses[*n] > 0 && !self.cuts[*n].is_empty())
            .collect();
        // Wide lookups first: narrow ones can join them.
        used.sort_by_key(|n| {
            let cut = &self.cuts[*n][self.choice[*n]];
            (std::cmp::Reverse(cut.leaves.len()), *n)
        });
        for node in used {
            if self.uses[node] == 0 || self.join(node, &mut found, &hosts) {
                continue;
            }
            let cut = self.cuts[node][self.choice[node]].clone();
            let form = self.form(&[cut.function], cut.leaves.len(), self.room.values);
            hosts.entry(cut.leaves.clone()).or_default().push(found.len());
            let leaves = cut.leaves.iter().map(|l| *l as usize).collect();
            let form = form.unwrap_or(Form { weights: vec![], offset: 0 });
            found.push(Lookup { leaves, results: vec![(node, cut.function)], form });
        }
        found.sort_by_key(|l| l.results.iter().map(|r| r.0).min());
        found
    }

    /// Makes a node one more result of a lookup that is there, if one of its cuts allows.
    fn join(
        &mut self,
        node: usize,
        found: &mut [Lookup],
        hosts: &HashMap<Vec<u32>, Vec<usize>>,
    ) -> bool {
        for at in 0..self.cuts[node].len() {
            let cut = self.cuts[node][at].clone();
            if cut.leaves.len() < 2 || self.arrival_of(&cut) > self.required[node] {
                continue;
            }
            for host in hosts.get(&cut.leaves).into_iter().flatten() {
                let host = &mut found[*host];
                let mut functions: Vec<u64> = host.results.iter().map(|r| r.1).collect();
                functions.push(cut.function);
                let values = self.room.values / functions.len().next_power_of_two() as i64;
                if let Some(form) = self.form(&functions, cut.leaves.len(), values) {
                    host.results.push((node, cut.function));
                    host.form = form;
                    return true;
                }
            }
        }
        false
    }
}

/// The truth table of the constant 1.
fn ones(inputs: usize) -> u64 {
    if inputs >= 6 { u64::MAX } else { (1 << (1u32 << inputs)) - 1 }
}

/// Both sets, sorted, if they are small enough.
fn union(a: &[u32], b: &[u32]) -> Option<Vec<u32>> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    (all.len() <= MAX_INPUTS).then_some(all)
}

/// The function of a cut as a function of more leaves.
fn spread(cut: &Cut, leaves: &[u32]) -> u64 {
    let place = |l: &u32| leaves.iter().position(|x| x == l).unwrap_or(0);
    let places: Vec<usize> = cut.leaves.iter().map(place).collect();
    (0..1usize << leaves.len()).fold(0, |f, x| {
        let at = places.iter().enumerate().fold(0, |at, (i, p)| at | ((x >> p) & 1) << i);
        f | ((cut.function >> at) & 1) << x
    })
}

/// The cut without leaves that do not matter.
fn reduced(mut leaves: Vec<u32>, mut function: u64) -> Cut {
    for i in (0..leaves.len()).rev() {
        let half = |value: usize, inputs: usize| {
            (0..1usize << (inputs - 1)).fold(0, |f, x| {
                let at = (x >> i) << (i + 1) | value << i | (x & ((1 << i) - 1));
                f | ((function >> at) & 1) << x
            })
        };
        let (low, high): (u64, u64) = (half(0, leaves.len()), half(1, leaves.len()));
        if low == high {
            leaves.remove(i);
            function = low;
        }
    }
    Cut { leaves, function }
}
