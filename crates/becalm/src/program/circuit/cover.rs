//! Covering a circuit with lookups: which nodes are looked up, and from which others.
//!
//! Every node has cuts whose function has a form in the room. First the fewest bootstraps on the longest path, then under that
//! bound or a wider one as few rotations as possible: by area flow, then by counting exactly what a choice adds, where lookups
//! of the same leaves share rotations. Area flow shares the cost of a node among its readers, whose number a cover changes:
//! each cover is followed by one whose flow believes more of the uses before it, and the smallest is taken. Source: Mishchenko,
//! Cho, Chatterjee, Brayton 2007 ("Combinational and sequential mapping with priority cuts").

use super::cuts::{Cut, Forms, Leaves, WordMap, merged};
use super::rotations::{Lookup, lookups, pack};
use super::weights::Room;
use super::{Circuit, Node};

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Cuts kept for a node.
    pub kept: usize,
    /// Covers that are made.
    pub covers: usize,
    /// Rounds of counting exactly, for each of them.
    pub rounds: usize,
    /// Whether nodes may be put out with a weight in them.
    pub scale: bool,
}

impl Effort {
    /// For the last word.
    pub const FULL: Effort = Effort { kept: 32, covers: 8, rounds: 3, scale: true };
    /// For circuits of tens of thousands of gates.
    pub const LARGE: Effort = Effort { kept: 12, covers: 3, rounds: 2, scale: true };
    /// For comparing circuits.
    pub const QUICK: Effort = Effort { kept: 10, covers: 2, rounds: 2, scale: true };
}

/// What a lookup costs beside its own bootstrap if a leaf must come scaled, which now and then takes one more.
const SCALED: f64 = 0.25;

pub(super) struct Mapper<'a> {
    pub circuit: &'a Circuit,
    pub forms: Forms,
    room: Room,
    effort: Effort,
    /// For each node its cuts; none for inputs and constants.
    pub cuts: Vec<Vec<Cut>>,
    /// What the cost of a node is divided by because another shares its rotation, cut by cut.
    shares: Vec<Vec<f64>>,
    /// The chosen one.
    pub choice: Vec<usize>,
    pub arrival: Vec<u32>,
    pub required: Vec<u32>,
    flow: Vec<f64>,
    /// Readers of a node: gates at first, then what covers so far make likely.
    fanout: Vec<f64>,
    pub uses: Vec<u32>,
    /// Functions that the cover looks up, for each set of leaves.
    hosts: WordMap<Leaves, Vec<u64>>,
}

/// The circuit with its cuts, to be covered with several bounds.
impl<'a> Mapper<'a> {
    pub fn new(circuit: &'a Circuit, forms: Forms, effort: Effort) -> Self {
        let size = circuit.nodes.len();
        let mut mapper = Mapper {
            circuit,
            room: forms.room,
            forms,
            effort,
            cuts: vec![vec![]; size],
            shares: vec![],
            choice: vec![0; size],
            arrival: vec![0; size],
            required: vec![u32::MAX; size],
            flow: vec![0.0; size],
            fanout: vec![0.0; size],
            uses: vec![0; size],
            hosts: WordMap::default(),
        };
        mapper.count_fanout();
        for node in 1..size {
            mapper.cut(node);
        }
        mapper.share();
        mapper
    }

    /// The lookups that give every output of the circuit, in an order in which they can run: as few as go with `limit` of them
    /// one after another, or with as many as the shortest longest path has. Without `limit` only their number counts.
    pub fn cover(&mut self, limit: Option<u32>) -> Vec<Lookup> {
        self.count_fanout();
        self.required.fill(u32::MAX);
        self.choose(|m, node, cut| (f64::from(m.arrival_of(cut)), m.flow_of(node, cut, 1.0)));
        let shortest = self.roots().iter().map(|n| self.arrival[*n]).max().unwrap_or(0);
        let bound = limit.map_or(u32::MAX - 1, |limit| limit.max(shortest));
        self.require(bound);
        let mut least: Option<Vec<Lookup>> = None;
        for round in 0..self.effort.covers {
            // By turns with and without the hope that what can share a rotation does.
            let hope = round % 2 == 1;
            self.choose(|m, node, cut| {
                let at = m.cuts[node].iter().position(|c| c.leaves == cut.leaves).unwrap_or(0);
                let share = if hope { m.shares[node][at] } else { 1.0 };
                (m.late(node, cut), m.flow_of(node, cut, share))
            });
            self.require(bound);
            let uses = self.uses.clone();
            for _ in 0..self.effort.rounds {
                self.recover();
                self.require(bound);
            }
            let found = lookups(self);
            if least.as_ref().is_none_or(|least| found.len() < least.len()) {
                least = Some(found);
            }
            for (fanout, uses) in self.fanout.iter_mut().zip(uses) {
                *fanout = (2.0 * *fanout + f64::from(uses)) / 3.0;
            }
        }
        least.unwrap_or_default()
    }

    fn count_fanout(&mut self) {
        self.fanout.fill(0.0);
        for node in &self.circuit.nodes {
            if let Node::And(a, b) | Node::Xor(a, b) = node {
                self.fanout[a.node()] += 1.0;
                self.fanout[b.node()] += 1.0;
            }
        }
    }

    /// The cuts of a node, from those of its inputs and from the inputs themselves.
    fn cut(&mut self, node: usize) {
        if !matches!(self.circuit.nodes[node], Node::And(..) | Node::Xor(..)) {
            return;
        }
        let mut forms = std::mem::replace(&mut self.forms, Forms::new(self.room));
        let found = merged(self.circuit, node, &self.cuts, &mut forms, |l| self.can_scale(l));
        self.forms = forms;
        self.cuts[node] = self.best(node, found);
        let cuts = &self.cuts[node];
        let first = cuts.iter().map(|c| self.arrival_of(c)).min().unwrap_or(0);
        let cheapest = cuts.iter().map(|c| self.flow_of(node, c, 1.0));
        (self.arrival[node], self.flow[node]) = (first, cheapest.fold(f64::INFINITY, f64::min));
    }

    /// Whether a node is the result of a table, which an input and a copy are not.
    pub fn can_scale(&self, node: u32) -> bool {
        self.effort.scale && self.cuts[node as usize].first().is_some_and(|c| c.leaves.len() > 1)
    }

    /// The earliest half and the cheapest half. A constant or a copy is that and nothing else.
    fn best(&self, node: usize, mut cuts: Vec<Cut>) -> Vec<Cut> {
        if let Some(copy) = cuts.iter().find(|c| c.leaves.len() < 2) {
            return vec![*copy];
        }
        let kept = self.effort.kept;
        if cuts.len() <= kept {
            return cuts;
        }
        let cost = |c: &Cut| self.flow_of(node, c, 1.0);
        cuts.sort_by(|x, y| {
            let early = self.arrival_of(x).cmp(&self.arrival_of(y));
            early.then(cost(x).total_cmp(&cost(y))).then(x.leaves.len().cmp(&y.leaves.len()))
        });
        let mut rest = cuts.split_off(kept / 2);
        rest.sort_by(|x, y| cost(x).total_cmp(&cost(y)).then(x.leaves.len().cmp(&y.leaves.len())));
        cuts.extend(rest.into_iter().take(kept / 2));
        cuts
    }

    /// Which cuts two nodes have in common, whose functions fit one rotation.
    fn share(&mut self) {
        let mut all: WordMap<Leaves, Vec<u64>> = WordMap::default();
        for cut in self.cuts.iter().flatten().filter(|c| c.leaves.len() > 1) {
            all.entry(cut.leaves).or_default().push(cut.function);
        }
        let forms = &mut self.forms;
        let mut share = |cut: &Cut| {
            let others = all.get(&cut.leaves).map_or(&[][..], |f| &f[..]);
            let fits = others.iter().filter(|f| **f != cut.function).take(4).any(|f| {
                let pair = [cut.function.min(*f), cut.function.max(*f)];
                forms.together(&pair, cut.leaves.len()).is_some()
            });
            if fits { 0.5 } else { 1.0 }
        };
        self.shares = self.cuts.iter().map(|c| c.iter().map(&mut share).collect()).collect();
    }

    pub fn arrival_of(&self, cut: &Cut) -> u32 {
        // A copy costs nothing.
        let own = u32::from(cut.leaves.len() > 1);
        own + cut.leaves.iter().map(|l| self.arrival[*l as usize]).max().unwrap_or(0)
    }

    fn flow_of(&self, node: usize, cut: &Cut, share: f64) -> f64 {
        let own = match cut.leaves.len() {
            0 | 1 => 0.0,
            _ => share + SCALED * f64::from(cut.scaled),
        };
        let sum: f64 = cut.leaves.iter().map(|l| self.flow[*l as usize]).sum();
        (own + sum) / self.fanout[node].max(1.0)
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
            if let Some((at, (_, flow))) = least {
                self.choice[node] = at;
                self.arrival[node] = self.arrival_of(&self.cuts[node][at]);
                self.flow[node] = flow;
            }
        }
    }

    fn update(&mut self, node: usize) {
        let cut = &self.cuts[node][self.choice[node]];
        (self.arrival[node], self.flow[node]) =
            (self.arrival_of(cut), self.flow_of(node, cut, 1.0));
    }

    pub fn chosen(&self, node: usize) -> Cut {
        self.cuts[node][self.choice[node]]
    }

    pub fn roots(&self) -> Vec<usize> {
        let wires = self.circuit.outputs.iter().flat_map(|p| &p.wires);
        wires.map(|w| w.node()).filter(|n| !self.cuts[*n].is_empty()).collect()
    }

    /// Arrival times, uses and required times of the chosen cover, none of whose paths is longer than `bound`.
    fn require(&mut self, bound: u32) {
        for node in 1..self.cuts.len() {
            if !self.cuts[node].is_empty() {
                self.update(node);
            }
        }
        self.required.fill(u32::MAX);
        self.uses.fill(0);
        self.hosts.clear();
        for node in self.roots() {
            self.required[node] = bound;
            self.uses[node] += 1;
        }
        for node in (1..self.cuts.len()).rev() {
            if self.uses[node] == 0 || self.cuts[node].is_empty() {
                continue;
            }
            let cut = self.chosen(node);
            let own = u32::from(cut.leaves.len() > 1);
            let before = self.required[node].saturating_sub(own);
            for leaf in cut.leaves.iter().map(|l| *l as usize) {
                self.uses[leaf] += 1;
                self.required[leaf] = self.required[leaf].min(before);
            }
            if own == 1 {
                self.hosts.entry(cut.leaves).or_default().push(cut.function);
            }
        }
    }

    /// Chooses again, counting what each cut really adds to the cover.
    fn recover(&mut self) {
        for node in 1..self.cuts.len() {
            if self.cuts[node].is_empty() {
                continue;
            }
            if self.uses[node] == 0 || self.cuts[node].len() == 1 {
                self.update(node);
                continue;
            }
            self.reference(node, false);
            let mut least = (f64::INFINITY, f64::INFINITY, self.choice[node]);
            for at in 0..self.cuts[node].len() {
                let cut = &self.cuts[node][at];
                if self.arrival_of(cut) > self.required[node] {
                    continue;
                }
                let flow = self.flow_of(node, cut, 1.0);
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

    /// Adds the chosen cut of a node to the cover, or takes it away: what that adds or frees.
    fn reference(&mut self, node: usize, add: bool) -> f64 {
        let (mut area, mut todo) = (0.0, vec![node]);
        while let Some(node) = todo.pop() {
            let cut = self.chosen(node);
            area += self.rotate(&cut, add);
            for leaf in cut.leaves.iter().map(|l| *l as usize) {
                let before = self.uses[leaf];
                self.uses[leaf] = if add { before + 1 } else { before.saturating_sub(1) };
                let changes = if add { before == 0 } else { before == 1 };
                if changes && !self.cuts[leaf].is_empty() {
                    todo.push(leaf);
                }
            }
        }
        area
    }

    /// Rotations that a lookup takes beside those that are there.
    fn rotate(&mut self, cut: &Cut, add: bool) -> f64 {
        if cut.leaves.len() < 2 {
            return 0.0;
        }
        let host = self.hosts.entry(cut.leaves).or_default();
        let extra = SCALED * f64::from(cut.scaled);
        match (&host[..], add) {
            ([], _) => {
                host.push(cut.function);
                return 1.0 + extra;
            }
            ([one], false) if *one == cut.function => {
                host.clear();
                return 1.0 + extra;
            }
            _ => {}
        }
        let without = |host: &mut Vec<u64>| {
            let at = host.iter().position(|f| *f == cut.function);
            at.map(|at| host.swap_remove(at));
        };
        if !add {
            without(host);
        }
        let before = pack(&mut self.forms, host, cut.leaves.len()).len();
        host.push(cut.function);
        let after = pack(&mut self.forms, host, cut.leaves.len()).len();
        if !add {
            without(host);
        }
        after as f64 - before as f64 + extra
    }
}
