//! Circuits of one function, each compared with the one that came, and what their covers cost.

use super::abc::{self, Budget, Rewriting};
use super::blif::Tables;
use super::restructure::Chains;
use super::rotations::Lookup;
use super::weights::Room;
use super::{Circuit, LARGE, Node, Sum, Wire};
use crate::Progress;
use crate::math::parallel::*;
use std::collections::{HashMap, HashSet};

/// The quantity that compilation minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Bootstraps one after another, then bootstraps: for machines that run many at once.
    Depth,
    /// Bootstraps, while at most this number come one after another.
    Within(u32),
    /// Bootstraps; where that costs none more, also those one after another.
    Bootstraps,
}

impl Goal {
    /// The bounds of the covers that it asks for; see [`Mapper::cover`].
    pub(super) fn limits(self) -> Vec<Option<u32>> {
        match self {
            Goal::Depth => vec![Some(0)],
            Goal::Within(most) => vec![Some(0), Some(most.min(u32::MAX - 2))],
            Goal::Bootstraps => vec![Some(0), None],
        }
    }
}

/// Gates of a large circuit for each that its counters leave or rotation that they take, from which on nothing else is tried.
const ABSORBED: usize = 64;
/// Gates that a restructured circuit may have beside four times those of the circuit.
const BESIDE: usize = 2000;

/// Where a circuit comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// The circuit as it came.
    Near,
    /// A script that leads far from it.
    Far,
    /// A further round for the shortest path.
    Short,
    /// A further round for the goal.
    Round,
    /// Further rounds of near candidates alone, for the shortest path and for the goal.
    NearShort,
    NearRound,
    /// The netlist after Yosys's ABC.
    Other,
    /// Further rounds for the shortest path and for the goal, of it and all before.
    OtherShort,
    OtherRound,
}

pub(super) const RANKS: [Rank; 9] = {
    use Rank::*;
    [Near, Far, Short, Round, NearShort, NearRound, Other, OtherShort, OtherRound]
};

/// A circuit of the same function.
pub(super) struct Candidate {
    pub circuit: Circuit,
    /// The tables that it was mapped to by ABC.
    pub tables: Tables,
    /// Whether ABC made it, or Yosys beside the file: it needs a proof.
    pub foreign: bool,
    pub rank: Rank,
    /// The first candidate of the same structure, if other rounds made that.
    pub copy_of: Option<usize>,
}

/// Gates, sums, outputs and tables: with the tables of another mapping a circuit has other covers.
pub(super) type Words = (Vec<Node>, Vec<Sum>, Vec<Wire>, Tables);

impl Candidate {
    /// Its structure in words. Candidates with the same words have the same covers.
    pub fn words(&self) -> Words {
        let Circuit { nodes, sums, outputs, .. } = &self.circuit;
        let outputs = outputs.iter().flat_map(|p| p.wires.clone()).collect();
        (nodes.clone(), sums.clone(), outputs, self.tables.clone())
    }
}

/// The candidates without those of ABC's that say the same as a nearer or an earlier one: scripts often agree.
fn distinct(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut all: Vec<_> = candidates.into_iter().enumerate().collect();
    all.sort_by_key(|(_, c)| (c.rank, c.foreign));
    let mut seen = HashSet::new();
    all.retain(|(_, c)| seen.insert(c.words()) || !c.foreign);
    // Of equally good ones the first is taken.
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, c)| c).collect()
}

/// The cost of a cover for a goal. Less is better.
pub(super) type Key = (u32, usize, u32);

/// Whether a candidate with such a quick cover hardly gets as good as the best.
pub(super) fn is_far_behind(own: Key, best: Key) -> bool {
    2 * own.0 > 3 * best.0 || own.0 <= best.0 && 2 * own.1 > 3 * best.1
}

/// A candidate, its cover, and the cover's cost.
#[derive(Clone)]
pub(super) struct Covering {
    pub candidate: usize,
    pub lookups: Vec<Lookup>,
    pub bootstraps: usize,
    pub depth: u32,
    /// Whether the cover was bound to the shortest path.
    pub shortest: bool,
}

impl Circuit {
    /// The circuit itself, first, and others of its function, each compared with it. One from Verilog has all that its netlist before
    /// Yosys's ABC would have as a file, with the ports of that, and then those of its other netlists.
    pub(super) fn candidates(
        &self,
        room: Room,
        budget: &Budget,
        progress: Progress,
    ) -> (Vec<Candidate>, Rewriting) {
        let Some(netlists) = &self.netlists else { return self.family(room, budget, progress) };
        let (mut all, mut rewriting) = netlists.file.family(room, budget, progress);
        let direct = netlists.direct.clone().map(|direct| (direct, true));
        let own = (self.nodes.len() < LARGE).then(|| (netlists.of_netlist(self), false));
        let others: Vec<_> = own.into_iter().chain(direct).collect();
        let clean: Vec<_> = others.iter().map(|o| o.0.restructured(Chains::Keep)).collect();
        let small = clean.iter().filter(|_| netlists.file.is_small()).collect::<Vec<_>>();
        let foreign = abc::again(&small, budget, progress).into_iter().flatten();
        let foreign: Vec<_> = foreign.map(|(c, tables, _)| (c, tables, true)).collect();
        let reshaped = others.iter().zip(clean).flat_map(|((other, foreign), clean)| {
            let found = other.reshaped(clean, room).0.into_iter();
            found.map(|circuit| (circuit, vec![], *foreign))
        });
        let found = reshaped.chain(foreign).map(|(circuit, tables, foreign)| Candidate {
            circuit,
            tables,
            foreign,
            rank: Rank::Other,
            copy_of: None,
        });
        all.extend(netlists.file.compared(found.collect(), &mut rewriting));
        (all, rewriting)
    }

    /// [`Circuit::candidates`] of the circuit alone. A large one that its counters all but take in stands for these alone.
    fn family(
        &self,
        room: Room,
        budget: &Budget,
        progress: Progress,
    ) -> (Vec<Candidate>, Rewriting) {
        let made = |circuit, tables, foreign, rank| Candidate {
            circuit,
            tables,
            foreign,
            rank,
            copy_of: None,
        };
        let own = |circuit| made(circuit, vec![], false, Rank::Near);
        let clean = self.restructured(Chains::Keep);
        let (own_circuits, absorbed) = self.reshaped(clean.clone(), room);
        if absorbed {
            let agreed = own_circuits.iter().filter(|c| self.agrees(c));
            let agreed: Vec<Candidate> = agreed.cloned().map(own).collect();
            if !agreed.is_empty() {
                return (agreed, abc::unused());
            }
        }
        let (foreign, mut rewriting) =
            abc::rewritten(&clean, self.rows.as_deref(), budget, progress);
        let mut found: Vec<Candidate> = own_circuits.into_iter().map(own).collect();
        for (circuit, tables, far) in foreign {
            let rank = if far { Rank::Far } else { Rank::Near };
            let balanced = circuit.restructured(Chains::Balance);
            found.push(made(balanced, vec![], true, rank));
            found.push(made(circuit, tables, true, rank));
        }
        let mut all = vec![own(self.clone())];
        all.extend(self.compared(found, &mut rewriting));
        (all, rewriting)
    }

    /// The circuit in other forms: with counters, inputs refreshed, chains taken apart, and `clean`. Or with counters alone, and yes, if
    /// it is large and they all but take it in.
    fn reshaped(&self, clean: Circuit, room: Room) -> (Vec<Circuit>, bool) {
        let gates = |c: &Circuit| c.gates().0 + c.gates().1;
        let left = |c: &Circuit| gates(c) + c.rotations_of_sums(room);
        let mut found = clean.counted(room);
        let least = found.iter().map(left).min().unwrap_or(usize::MAX);
        // Twice: what the first leaves of XORs are operands of ANDs for the second.
        let carries = clean.restructured(Chains::Carry).restructured(Chains::Carry);
        let more = carries.counted(room);
        found.extend(more.into_iter().filter(|c| left(c) < least));
        let large = self.nodes.len() >= LARGE;
        if large && found.iter().any(|c| left(c) <= gates(&clean) / ABSORBED) {
            return (found, true);
        }
        if !large {
            found.extend(clean.refreshed(room));
            found.push(self.restructured(Chains::Duplicate));
        }
        found.push(self.restructured(Chains::Balance));
        found.push(clean);
        (found, false)
    }

    /// Those candidates that compute the same: a wrong rewriting must not be used.
    fn compared(&self, found: Vec<Candidate>, rewriting: &mut Rewriting) -> Vec<Candidate> {
        // There can be many trees beside the nodes that they stand for.
        let small = |c: &Circuit| c.nodes.len() < 4 * self.nodes.len() + BESIDE;
        let checked = distinct(found)
            .into_par_iter()
            .map(|c| (small(&c.circuit), self.agrees(&c.circuit), c));
        let mut all = vec![];
        for (small, agrees, candidate) in checked.collect::<Vec<_>>() {
            if !agrees {
                rewriting.wrong += usize::from(candidate.foreign);
            } else if small {
                all.push(candidate);
            }
        }
        all
    }
}

impl Covering {
    pub fn new(
        candidate: usize,
        circuit: &Circuit,
        lookups: Vec<Lookup>,
        shortest: bool,
    ) -> Covering {
        let mut at = HashMap::new();
        let mut bootstraps = 0;
        for lookup in &lookups {
            let own = u32::from(lookup.is_rotation());
            bootstraps += own as usize;
            let before = lookup.leaves.iter().filter_map(|(l, _)| at.get(l)).max();
            let depth = before.copied().unwrap_or(0) + own;
            at.extend(lookup.results.iter().map(|r| (r.0, depth)));
        }
        let wires = circuit.outputs.iter().flat_map(|p| &p.wires);
        let depth = wires.filter_map(|w| at.get(&(w.node(), 1))).max().copied().unwrap_or(0);
        Covering { candidate, lookups, bootstraps, depth, shortest }
    }

    /// Whether it is made for a goal: that of the shortest path has one cover.
    pub fn serves(&self, goal: Goal) -> bool {
        self.shortest || goal != Goal::Depth
    }

    /// Less is better.
    pub fn key(&self, goal: Goal) -> Key {
        match goal {
            Goal::Depth => (self.depth, self.bootstraps, 0),
            Goal::Within(most) => (self.depth.max(most), self.bootstraps, self.depth),
            Goal::Bootstraps => (0, self.bootstraps, self.depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A circuit with the tables of another mapping has other covers.
    #[test]
    fn only_circuits_that_say_the_same_twice_are_left_out() {
        let made = |tables: &[usize], foreign, far| {
            let tables = tables.iter().map(|leaf| (*leaf, vec![1])).collect();
            let rank = if far { Rank::Far } else { Rank::Near };
            Candidate { circuit: Circuit::empty(), tables, foreign, rank, copy_of: None }
        };
        let all = vec![
            made(&[], true, true),
            made(&[], false, false),
            made(&[2], true, true),
            made(&[2], true, false),
            made(&[3], true, false),
            made(&[], false, false),
        ];
        let kept = distinct(all);
        let kept: Vec<_> =
            kept.iter().map(|c| (c.tables.len(), c.foreign, c.rank > Rank::Near)).collect();
        let own = (0, false, false);
        assert_eq!(kept, [own, (1, true, false), (1, true, false), own]);
    }
}
