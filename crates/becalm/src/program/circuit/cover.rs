//! Covering a circuit with lookups: which nodes are looked up, and from which others.
//!
//! Every node has cuts whose function has a form in the room. First the fewest bootstraps on the longest path, then under that
//! bound or a wider one as few rotations as possible: by area flow, then by counting exactly what a choice adds, where lookups
//! of the same leaves share rotations. Area flow shares the cost of a node among its readers, whose number a cover changes:
//! each cover is followed by one whose flow believes more of the uses before it, and the smallest is taken. Source: Mishchenko,
//! Cho, Chatterjee, Brayton 2007 ("Combinational and sequential mapping with priority cuts").

use super::choice::Choice;
use super::cuts::{Cut, Forms, Kept, Leaves, Scale, WordMap, cone, merged};
use super::rotations::{Lookup, lookups};
use super::weights::MAX_INPUTS;
use super::{Circuit, Node};
use crate::Result;
use crate::progress::Steps;

/// How many nodes get their cuts between two looks at whether the work is to stop.
const TELL: usize = 256;

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

impl Effort {
    /// Steps of a circuit of so many nodes under so many bounds: its nodes, for their cuts and for each cover.
    pub fn steps(&self, nodes: usize, bounds: usize) -> usize {
        nodes * (1 + bounds * self.covers)
    }
}

/// The extra cost of a lookup with a scaled leaf: now and then it takes one more bootstrap.
const SCALED: f64 = 0.25;

/// Most lookups that are followed to see what a choice adds.
const REACH: usize = 64;

/// Functions of the same leaves that are tried beside one, to see whether a rotation gives both.
const OTHERS: usize = 4;

/// Functions of the same leaves, as many in a group as one rotation gives.
type Hosts = WordMap<Leaves, Vec<Vec<u64>>>;

/// The circuit with its cuts, to be covered with several bounds.
pub(super) struct Mapper<'a> {
    choice: Choice<'a>,
    effort: Effort,
    /// The divisor of a node's cost where another node shares its rotation, cut by cut.
    shares: Vec<Vec<f64>>,
    flow: Vec<f64>,
    /// Readers of a node: gates at first, then what covers so far make likely.
    fanout: Vec<f64>,
    /// The lookups of the cover.
    hosts: Hosts,
    /// The cover that the circuit came with.
    seeds: Vec<(usize, usize)>,
    steps: &'a Steps<'a>,
}

impl<'a> Mapper<'a> {
    /// `tables`: nodes with the leaves that another tool has chosen for them.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn new(
        circuit: &'a Circuit,
        tables: &[(usize, Vec<usize>)],
        forms: &'a Forms,
        effort: Effort,
        steps: &'a Steps<'a>,
    ) -> Result<Self> {
        let size = circuit.nodes.len();
        let mut mapper = Mapper {
            choice: Choice::new(circuit, forms, effort.exact),
            effort,
            shares: vec![],
            flow: vec![0.0; size],
            fanout: vec![0.0; size],
            hosts: Hosts::default(),
            seeds: vec![],
            steps,
        };
        mapper.count_fanout();
        let mut given: WordMap<usize, &[usize]> = WordMap::default();
        given.extend(tables.iter().map(|t| (t.0, &t.1[..])));
        for node in 1..size {
            if node % TELL == 0 {
                steps.add(TELL)?;
            }
            mapper.cut(node);
            if let Some(leaves) = given.get(&node) {
                mapper.seed(node, leaves);
            }
        }
        mapper.share();
        Ok(mapper)
    }

    /// Takes a cut of another tool's among those of the node, if it has a form.
    fn seed(&mut self, node: usize, leaves: &[usize]) {
        let Some(mut cut) = cone(self.choice.circuit, node, leaves) else { return };
        let cuts = &mut self.choice.cuts[node];
        if cuts.is_empty() || cuts.iter().any(|c| c.leaves.len() < 2) {
            return;
        }
        let at = cuts.iter().position(|c| c.leaves == cut.leaves);
        let at = at.unwrap_or_else(|| {
            if let Some(scaled) = self.choice.forms.scaled(cut.function, &cut.leaves, |_| Scale::No)
            {
                cut.scaled = scaled;
                cuts.push(cut);
            }
            cuts.iter().position(|c| c.leaves == cut.leaves).unwrap_or(0)
        });
        self.seeds.push((node, at));
    }

    /// The lookups that give every output of the circuit, in an order in which they can run: as few as go with `limit` of them
    /// one after another, or with as many as the shortest longest path has. Without `limit` only their number counts.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn cover(&mut self, limit: Option<u32>) -> Result<Vec<Lookup>> {
        self.count_fanout();
        self.choice.required.fill(u32::MAX);
        self.choose(|m, node, cut| {
            (f64::from(m.choice.arrival_of(cut)), m.flow_of(node, cut, 1.0))
        });
        let shortest =
            self.choice.roots().iter().map(|n| self.choice.arrival[*n]).max().unwrap_or(0);
        let bound = limit.map_or(u32::MAX - 1, |limit| limit.max(shortest));
        self.require(bound);
        let mut least: Option<Vec<Lookup>> = None;
        let given = usize::from(!self.seeds.is_empty());
        for round in 0..self.effort.covers + given {
            // By turns with and without the hope that what can share a rotation does.
            let hope = self.choice.exact && round % 2 == 1;
            self.choose(|m, node, cut| {
                let at =
                    m.choice.cuts[node].iter().position(|c| c.leaves == cut.leaves).unwrap_or(0);
                let share = if hope { m.shares[node][at] } else { 1.0 };
                (m.late(node, cut), m.flow_of(node, cut, share))
            });
            if round == self.effort.covers {
                self.seeds.clone().into_iter().for_each(|(node, at)| self.choice.at[node] = at);
            }
            self.require(bound);
            let uses = self.choice.uses.clone();
            for _ in 0..self.effort.rounds {
                self.steps.add(0)?;
                self.recover();
                self.require(bound);
            }
            let found = lookups(&self.choice);
            if least.as_ref().is_none_or(|least| found.len() < least.len()) {
                least = Some(found);
            }
            for (fanout, uses) in self.fanout.iter_mut().zip(uses) {
                *fanout = (2.0 * *fanout + f64::from(uses)) / 3.0;
            }
            self.steps.add(self.fanout.len())?;
        }
        Ok(least.unwrap_or_default())
    }

    fn count_fanout(&mut self) {
        self.fanout.fill(0.0);
        for node in &self.choice.circuit.nodes {
            if let Node::And(a, b) | Node::Xor(a, b) = node {
                self.fanout[a.node()] += 1.0;
                self.fanout[b.node()] += 1.0;
            }
        }
    }

    /// The cuts of a node, from those of its inputs and from the inputs themselves.
    fn cut(&mut self, node: usize) {
        self.choice.add_up(node);
        if !matches!(self.choice.circuit.nodes[node], Node::And(..) | Node::Xor(..)) {
            return;
        }
        self.choice.cuts[node] =
            self.best(node, merged(self.choice.circuit, node, &self.choice.cuts));
        let cuts = &self.choice.cuts[node];
        let first = cuts.iter().map(|c| self.choice.arrival_of(c)).min().unwrap_or(0);
        let cheapest = cuts.iter().map(|c| self.flow_of(node, c, 1.0));
        (self.choice.arrival[node], self.flow[node]) =
            (first, cheapest.fold(f64::INFINITY, f64::min));
    }

    /// The earliest half and the cheapest half of those that have a form. A constant is that and nothing else.
    fn best(&self, node: usize, cuts: Vec<Cut>) -> Vec<Cut> {
        if let Some(constant) = cuts.iter().find(|c| c.leaves.is_empty()) {
            return vec![*constant];
        }
        // Of equal ones wide cuts are good hosts of other functions, and narrow ones leave their leaves free.
        let width = |c: &Cut| match self.choice.exact {
            true => c.leaves.len(),
            false => MAX_INPUTS - c.leaves.len(),
        };
        let cost = |c: Cut| (self.choice.arrival_of(&c), self.flow_of(node, &c, 1.0), width(&c), c);
        let mut cuts: Vec<_> = cuts.into_iter().map(cost).collect();
        let mut kept = Kept::default();
        cuts.sort_by(|x, y| x.0.cmp(&y.0).then(x.1.total_cmp(&y.1)).then(x.2.cmp(&y.2)));
        let mut left = cuts.into_iter();
        while kept.len() < self.effort.kept / 2
            && let Some((.., cut)) = left.next()
        {
            kept.add(cut, self.choice.forms, |l| self.choice.can_scale(l));
        }
        let mut rest: Vec<_> = left.collect();
        rest.sort_by(|x, y| x.1.total_cmp(&y.1).then(x.2.cmp(&y.2)));
        for (.., cut) in rest {
            if kept.len() == self.effort.kept {
                break;
            }
            kept.add(cut, self.choice.forms, |l| self.choice.can_scale(l));
        }
        kept.into_cuts()
    }

    /// Which cuts two nodes have in common, whose functions fit one rotation.
    fn share(&mut self) {
        if !self.choice.exact {
            return;
        }
        let mut all: WordMap<Leaves, Vec<u64>> = WordMap::default();
        for cut in self.choice.cuts.iter().flatten().filter(|c| c.leaves.len() > 1) {
            remember(all.entry(cut.leaves).or_default(), cut.function);
        }
        let forms = self.choice.forms;
        let share = |cut: &Cut| {
            let others = all.get(&cut.leaves).map_or(&[][..], |f| &f[..]);
            let fits = others
                .iter()
                .filter(|f| **f != cut.function)
                .take(OTHERS)
                .any(|f| forms.together(&[cut.function, *f], cut.leaves.len()).is_some());
            if fits { 0.5 } else { 1.0 }
        };
        self.shares = self.choice.cuts.iter().map(|c| c.iter().map(share).collect()).collect();
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
        f64::from(self.choice.arrival_of(cut).saturating_sub(self.choice.required[node]))
    }

    /// The cut of least cost for every node, in order.
    fn choose(&mut self, cost: impl Fn(&Self, usize, &Cut) -> (f64, f64)) {
        for node in 1..self.choice.cuts.len() {
            self.choice.add_up(node);
            let costs = self.choice.cuts[node].iter().map(|c| cost(self, node, c)).enumerate();
            let least =
                costs.min_by(|(_, x), (_, y)| x.0.total_cmp(&y.0).then(x.1.total_cmp(&y.1)));
            if let Some((at, (_, flow))) = least {
                self.choice.at[node] = at;
                self.choice.arrival[node] = self.choice.arrival_of(&self.choice.cuts[node][at]);
                self.flow[node] = flow;
            }
        }
    }

    fn update(&mut self, node: usize) {
        let cut = &self.choice.cuts[node][self.choice.at[node]];
        (self.choice.arrival[node], self.flow[node]) =
            (self.choice.arrival_of(cut), self.flow_of(node, cut, 1.0));
    }

    /// Arrival times, uses and required times of the chosen cover, none of whose paths is longer than `bound`.
    fn require(&mut self, bound: u32) {
        for node in 1..self.choice.cuts.len() {
            self.choice.add_up(node);
            if !self.choice.cuts[node].is_empty() {
                self.update(node);
            }
        }
        self.choice.required.fill(u32::MAX);
        self.choice.uses.fill(0);
        self.hosts.clear();
        for node in self.choice.roots() {
            self.choice.required[node] = bound;
            self.choice.uses[node] += 1;
        }
        for node in (1..self.choice.cuts.len()).rev() {
            if let Node::Digit(sum, _) | Node::Upper(sum, _) = self.choice.circuit.nodes[node] {
                let before = self.choice.required[node].saturating_sub(1);
                for (leaf, _) in &self.choice.circuit.sums[sum as usize].terms {
                    self.choice.required[*leaf] = self.choice.required[*leaf].min(before);
                }
            }
            if self.choice.uses[node] == 0 || self.choice.cuts[node].is_empty() {
                continue;
            }
            let cut = self.choice.cut(node);
            let own = u32::from(cut.leaves.len() > 1);
            let before = self.choice.required[node].saturating_sub(own);
            for leaf in cut.leaves.iter().map(|l| *l as usize) {
                self.choice.uses[leaf] += 1;
                self.choice.required[leaf] = self.choice.required[leaf].min(before);
            }
            self.rotate(&cut, true);
        }
    }

    /// Chooses again, counting what each cut really adds to the cover.
    fn recover(&mut self) {
        for node in 1..self.choice.cuts.len() {
            if self.choice.cuts[node].is_empty() {
                continue;
            }
            if self.choice.uses[node] == 0 || self.choice.cuts[node].len() == 1 {
                self.update(node);
                continue;
            }
            self.reference(node, false);
            let mut least = (f64::INFINITY, f64::INFINITY, self.choice.at[node]);
            for at in 0..self.choice.cuts[node].len() {
                let cut = &self.choice.cuts[node][at];
                if self.choice.arrival_of(cut) > self.choice.required[node] {
                    continue;
                }
                let flow = self.flow_of(node, cut, 1.0);
                self.choice.at[node] = at;
                let area = self.reference(node, true);
                self.reference(node, false);
                if (area, flow) < (least.0, least.1) {
                    least = (area, flow, at);
                }
            }
            self.choice.at[node] = least.2;
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
            let cut = self.choice.cut(node);
            area += self.rotate(&cut, add);
            for leaf in cut.leaves.iter().map(|l| *l as usize) {
                let before = self.choice.uses[leaf];
                self.choice.uses[leaf] = if add { before + 1 } else { before.saturating_sub(1) };
                let changes = if add { before == 0 } else { before == 1 };
                if changes && !self.choice.cuts[leaf].is_empty() {
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
        if leaves.len() < 2 || !self.choice.exact {
            return if leaves.len() < 2 { 0.0 } else { alone };
        }
        let (groups, forms) = (self.hosts.entry(*leaves).or_default(), self.choice.forms);
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

/// Keeps a function of some leaves if it can be among the first [`OTHERS`] that differ from any one: four of each function, and eight in
/// all. A long chain has as many functions of the same leaves as gates.
fn remember(functions: &mut Vec<u64>, function: u64) {
    let again = functions.iter().filter(|f| **f == function).count();
    if again < OTHERS && functions.len() < 2 * OTHERS {
        functions.push(function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_functions_stand_for_all() {
        let mut state = 1u64;
        for kinds in 1..9 {
            let all: Vec<u64> = (0..2000)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) % kinds
                })
                .collect();
            let mut kept = vec![];
            all.iter().for_each(|f| remember(&mut kept, *f));
            assert!(kept.len() <= 2 * OTHERS);
            let others = |of: &[u64], own| -> Vec<u64> {
                of.iter().copied().filter(|f| *f != own).take(OTHERS).collect()
            };
            for own in 0..kinds {
                assert_eq!(others(&kept, own), others(&all, own), "{kinds} kinds, {own}");
            }
        }
    }
}
