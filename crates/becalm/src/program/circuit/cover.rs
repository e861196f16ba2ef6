//! Covering a circuit with lookups: which nodes are looked up, and from which others.
//!
//! Every node has cuts whose function has a form in the room. First the fewest bootstraps on the longest path, then under that
//! bound or a wider one as few rotations as possible: by area flow, then by counting exactly what a choice adds, where lookups
//! of the same leaves share rotations. Area flow shares the cost of a node among its readers, whose number a cover changes:
//! each cover is followed by one whose flow believes more of the uses before it, and the smallest is taken. Source: Mishchenko,
//! Cho, Chatterjee, Brayton 2007 ("Combinational and sequential mapping with priority cuts").

use super::cuts::{Cut, Forms, Kept, Leaves, WordMap, cone, merged};
use super::rotations::{Lookup, lookups};
use super::weights::MAX_INPUTS;
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
    /// Whether nodes may be put out with a weight in them, and lookups are counted by the rotations that they share.
    pub exact: bool,
}

/// The extra cost of a lookup with a scaled leaf: now and then it takes one more bootstrap.
const SCALED: f64 = 0.25;

/// Most lookups that are followed to see what a choice adds.
const REACH: usize = 64;

/// Functions of the same leaves, as many in a group as one rotation gives.
type Hosts = WordMap<Leaves, Vec<Vec<u64>>>;

pub(super) struct Mapper<'a> {
    pub circuit: &'a Circuit,
    pub forms: &'a Forms,
    pub effort: Effort,
    /// For each node its cuts; none for inputs, constants and digits.
    pub cuts: Vec<Vec<Cut>>,
    /// The divisor of a node's cost where another node shares its rotation, cut by cut.
    shares: Vec<Vec<f64>>,
    /// The chosen one.
    pub choice: Vec<usize>,
    pub arrival: Vec<u32>,
    pub required: Vec<u32>,
    flow: Vec<f64>,
    /// Readers of a node: gates at first, then what covers so far make likely.
    fanout: Vec<f64>,
    pub uses: Vec<u32>,
    /// The lookups of the cover.
    hosts: Hosts,
    /// The cover that the circuit came with.
    seeds: Vec<(usize, usize)>,
}

/// The circuit with its cuts, to be covered with several bounds.
impl<'a> Mapper<'a> {
    /// `tables`: nodes with the leaves that another tool has chosen for them.
    pub fn new(
        circuit: &'a Circuit,
        tables: &[(usize, Vec<usize>)],
        forms: &'a Forms,
        effort: Effort,
    ) -> Self {
        let size = circuit.nodes.len();
        let mut mapper = Mapper {
            circuit,
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
            hosts: Hosts::default(),
            seeds: vec![],
        };
        mapper.count_fanout();
        let mut given: WordMap<usize, &[usize]> = WordMap::default();
        given.extend(tables.iter().map(|t| (t.0, &t.1[..])));
        for node in 1..size {
            mapper.cut(node);
            if let Some(leaves) = given.get(&node) {
                mapper.seed(node, leaves);
            }
        }
        mapper.share();
        mapper
    }

    /// Takes a cut of another tool's among those of the node, if it has a form.
    fn seed(&mut self, node: usize, leaves: &[usize]) {
        let Some(mut cut) = cone(self.circuit, node, leaves) else { return };
        let cuts = &mut self.cuts[node];
        if cuts.is_empty() || cuts.iter().any(|c| c.leaves.len() < 2) {
            return;
        }
        let at = cuts.iter().position(|c| c.leaves == cut.leaves);
        let at = at.unwrap_or_else(|| {
            if let Some(scaled) = self.forms.scaled(cut.function, &cut.leaves, |_| false) {
                cut.scaled = scaled;
                cuts.push(cut);
            }
            cuts.iter().position(|c| c.leaves == cut.leaves).unwrap_or(0)
        });
        self.seeds.push((node, at));
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
        let given = usize::from(!self.seeds.is_empty());
        for round in 0..self.effort.covers + given {
            // By turns with and without the hope that what can share a rotation does.
            let hope = self.effort.exact && round % 2 == 1;
            self.choose(|m, node, cut| {
                let at = m.cuts[node].iter().position(|c| c.leaves == cut.leaves).unwrap_or(0);
                let share = if hope { m.shares[node][at] } else { 1.0 };
                (m.late(node, cut), m.flow_of(node, cut, share))
            });
            if round == self.effort.covers {
                self.seeds.clone().into_iter().for_each(|(node, at)| self.choice[node] = at);
            }
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
        self.add_up(node);
        if !matches!(self.circuit.nodes[node], Node::And(..) | Node::Xor(..)) {
            return;
        }
        self.cuts[node] = self.best(node, merged(self.circuit, node, &self.cuts));
        let cuts = &self.cuts[node];
        let first = cuts.iter().map(|c| self.arrival_of(c)).min().unwrap_or(0);
        let cheapest = cuts.iter().map(|c| self.flow_of(node, c, 1.0));
        (self.arrival[node], self.flow[node]) = (first, cheapest.fold(f64::INFINITY, f64::min));
    }

    /// Whether a node is the result of a table, which an input, a constant and a copy are not.
    pub fn can_scale(&self, node: u32) -> bool {
        let cuts = &self.cuts[node as usize];
        self.effort.exact && !cuts.is_empty() && cuts.iter().all(|c| c.leaves.len() > 1)
    }

    /// The earliest half and the cheapest half of those that have a form. A constant is that and nothing else.
    fn best(&self, node: usize, cuts: Vec<Cut>) -> Vec<Cut> {
        if let Some(constant) = cuts.iter().find(|c| c.leaves.is_empty()) {
            return vec![*constant];
        }
        // Of equal ones wide cuts are good hosts of other functions, and narrow ones leave their leaves free.
        let width = |c: &Cut| match self.effort.exact {
            true => c.leaves.len(),
            false => MAX_INPUTS - c.leaves.len(),
        };
        let cost = |c: Cut| (self.arrival_of(&c), self.flow_of(node, &c, 1.0), width(&c), c);
        let mut cuts: Vec<_> = cuts.into_iter().map(cost).collect();
        let mut kept = Kept::default();
        cuts.sort_by(|x, y| x.0.cmp(&y.0).then(x.1.total_cmp(&y.1)).then(x.2.cmp(&y.2)));
        let mut left = cuts.into_iter();
        while kept.len() < self.effort.kept / 2
            && let Some((.., cut)) = left.next()
        {
            kept.add(cut, self.forms, |l| self.can_scale(l));
        }
        let mut rest: Vec<_> = left.collect();
        rest.sort_by(|x, y| x.1.total_cmp(&y.1).then(x.2.cmp(&y.2)));
        for (.., cut) in rest {
            if kept.len() == self.effort.kept {
                break;
            }
            kept.add(cut, self.forms, |l| self.can_scale(l));
        }
        kept.into_cuts()
    }

    /// Which cuts two nodes have in common, whose functions fit one rotation.
    fn share(&mut self) {
        if !self.effort.exact {
            return;
        }
        let mut all: WordMap<Leaves, Vec<u64>> = WordMap::default();
        for cut in self.cuts.iter().flatten().filter(|c| c.leaves.len() > 1) {
            all.entry(cut.leaves).or_default().push(cut.function);
        }
        let forms = self.forms;
        let share = |cut: &Cut| {
            let others = all.get(&cut.leaves).map_or(&[][..], |f| &f[..]);
            let fits = others
                .iter()
                .filter(|f| **f != cut.function)
                .take(4)
                .any(|f| forms.together(&[cut.function, *f], cut.leaves.len()).is_some());
            if fits { 0.5 } else { 1.0 }
        };
        self.shares = self.cuts.iter().map(|c| c.iter().map(share).collect()).collect();
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
            self.add_up(node);
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

    /// A digit comes after the bits of its sum.
    fn add_up(&mut self, node: usize) {
        if let Node::Digit(sum, _) = self.circuit.nodes[node] {
            let terms = self.circuit.sums[sum as usize].terms.iter();
            self.arrival[node] = 1 + terms.map(|t| self.arrival[t.0]).max().unwrap_or(0);
        }
    }

    /// When a node is there at the latest.
    pub fn ready(&self, node: usize) -> u32 {
        match self.circuit.nodes[node] {
            Node::Zero | Node::Input => 0,
            _ => self.required[node],
        }
    }

    /// The nodes that outputs and sums read.
    pub fn roots(&self) -> Vec<usize> {
        let wires = self.circuit.outputs.iter().flat_map(|p| &p.wires).map(|w| w.node());
        let terms = self.circuit.sums.iter().flat_map(|s| &s.terms).map(|t| t.0);
        let gate = |n: &usize| !matches!(self.circuit.nodes[*n], Node::Zero | Node::Input);
        wires.chain(terms).filter(gate).collect()
    }

    /// Arrival times, uses and required times of the chosen cover, none of whose paths is longer than `bound`.
    fn require(&mut self, bound: u32) {
        for node in 1..self.cuts.len() {
            self.add_up(node);
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
            if let Node::Digit(sum, _) = self.circuit.nodes[node] {
                let before = self.required[node].saturating_sub(1);
                for (leaf, _) in &self.circuit.sums[sum as usize].terms {
                    self.required[*leaf] = self.required[*leaf].min(before);
                }
            }
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
            self.rotate(&cut, true);
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
        let (mut area, mut todo, mut left) = (0.0, vec![node], REACH);
        while let Some(node) = todo.pop() {
            // Nodes farther away are not counted, so that a deep chain takes linear time; `require` counts all of them again.
            if left == 0 {
                break;
            }
            left -= 1;
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

    /// Rotations that a lookup takes beside those that are there, or frees.
    fn rotate(&mut self, cut: &Cut, add: bool) -> f64 {
        let Cut { leaves, function, scaled } = cut;
        let alone = 1.0 + SCALED * f64::from(*scaled);
        if leaves.len() < 2 || !self.effort.exact {
            return if leaves.len() < 2 { 0.0 } else { alone };
        }
        let (groups, forms) = (self.hosts.entry(*leaves).or_default(), self.forms);
        if add {
            for group in groups.iter_mut() {
                group.push(*function);
                if forms.together(group, leaves.len()).is_some() {
                    return alone - 1.0;
                }
                group.pop();
            }
            groups.push(vec![*function]);
            return alone;
        }
        let Some(at) = groups.iter().position(|g| g.contains(function)) else { return 0.0 };
        if groups[at].len() == 1 {
            groups.swap_remove(at);
            return alone;
        }
        groups[at].retain(|f| f != function);
        alone - 1.0
    }
}
