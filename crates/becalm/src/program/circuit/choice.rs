//! A cut for every node of a circuit: what covering chooses, and what rotations are made of.

use super::cuts::{Cut, Forms, Scale};
use super::{Circuit, Node};

/// The cuts of all nodes, and which of them are chosen.
pub(super) struct Choice<'a> {
    pub circuit: &'a Circuit,
    pub forms: &'a Forms,
    /// Whether nodes may be put out with a weight in them, and lookups are counted by the rotations that they share.
    pub exact: bool,
    /// For each node its cuts; none for inputs, constants and digits.
    pub cuts: Vec<Vec<Cut>>,
    /// Where the chosen one stands among them.
    pub at: Vec<usize>,
    /// Bootstraps one after another up to a node.
    pub arrival: Vec<u32>,
    /// The greatest arrival that the bound on the longest path leaves a node.
    pub required: Vec<u32>,
    /// Chosen cuts, outputs and sums that read a node.
    pub uses: Vec<u32>,
}

impl<'a> Choice<'a> {
    /// The first cut of every node; there are no cuts yet.
    pub fn new(circuit: &'a Circuit, forms: &'a Forms, exact: bool) -> Self {
        let size = circuit.nodes.len();
        Choice {
            circuit,
            forms,
            exact,
            cuts: vec![vec![]; size],
            at: vec![0; size],
            arrival: vec![0; size],
            required: vec![u32::MAX; size],
            uses: vec![0; size],
        }
    }

    /// The chosen cut of a node.
    pub fn cut(&self, node: usize) -> Cut {
        self.cuts[node][self.at[node]]
    }

    /// Whether a node can be put out with a weight in it.
    pub fn can_scale(&self, node: u32) -> Scale {
        let cuts = &self.cuts[node as usize];
        match self.circuit.nodes[node as usize] {
            _ if !self.exact => Scale::No,
            Node::Digit(sum, _) if self.circuit.sums[sum as usize].limit == 1 => Scale::First,
            _ if !cuts.is_empty() && cuts.iter().all(|c| c.leaves.len() > 1) => Scale::Yes,
            _ => Scale::No,
        }
    }

    /// The bootstraps one after another up to the result of a cut.
    pub fn arrival_of(&self, cut: &Cut) -> u32 {
        // A copy costs nothing.
        let own = u32::from(cut.leaves.len() > 1);
        own + cut.leaves.iter().map(|l| self.arrival[*l as usize]).max().unwrap_or(0)
    }

    /// Sets the arrival of a digit: it comes after the bits of its sum.
    pub fn add_up(&mut self, node: usize) {
        if let Node::Digit(sum, _) | Node::Upper(sum, _) = self.circuit.nodes[node] {
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
}
