//! Which of several circuits of one function is compiled, and by which cover: all are covered quickly, the best and the circuit
//! as it came with care, and the best of everything is taken.

use super::abc;
use super::cover::{Effort, Mapper};
use super::cuts::Forms;
use super::restructure::Chains;
use super::rotations::Lookup;
use super::weights::Room;
use super::{Circuit, Goal};
use crate::math::parallel::*;
use crate::{Error, Result};

/// How many of the circuits are covered with care, beside the one that came.
const FINALISTS: usize = 2;
/// Gates of a circuit for which one is, and with less care.
const LARGE: usize = 12_000;
/// Input bits of a circuit that is compared at all of their values.
const ALL: usize = 14;
/// Gates that a restructured circuit may have beside four times those of the circuit.
const SOME: usize = 200;
/// Words of 64 evaluations for one of more.
const WORDS: usize = 256;

/// A circuit of the same function and its cover.
pub(super) struct Plan {
    pub circuit: usize,
    pub lookups: Vec<Lookup>,
    bootstraps: usize,
    depth: u32,
}

/// Circuits of the function of the first, and what is to be said of where they come from.
pub(super) struct Candidates {
    pub circuits: Vec<Circuit>,
    /// How many of them are restructured by becalm, the first among them.
    pub own: usize,
    pub rewriting: Rewriting,
}

/// What restructured a circuit before it was covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewriting {
    /// The command of ABC, if it was found.
    pub tool: Option<String>,
    /// What a user should know: how to install it, or that it failed.
    pub remark: Option<String>,
}

impl Circuit {
    /// The circuit itself, and others of its function.
    pub(super) fn candidates(&self) -> Candidates {
        let mut circuits = vec![self.clone()];
        let chains = [Chains::Keep, Chains::Balance, Chains::Duplicate];
        circuits.extend(chains.map(|chains| self.restructured(chains)));
        circuits.extend(circuits[1].counted().map(|c| c.restructured(Chains::Keep)));
        // Trees beside what they stand for can be many.
        let small = |c: &Circuit| c.nodes.len() < 4 * self.nodes.len() + SOME;
        // What is rewritten wrongly must not be computed: the circuit as it came stays, in the first place.
        let right = |c: &Circuit| small(c) && self.agrees(c);
        let rewritten = circuits.split_off(1);
        circuits.extend(rewritten.into_iter().filter(right));
        let own = circuits.len();
        let (found, mut rewriting) = abc::rewritten(circuits.get(1).unwrap_or(self));
        let compared = found.into_par_iter().map(|c| (self.agrees(&c), c));
        let (good, wrong): (Vec<_>, Vec<_>) =
            compared.collect::<Vec<_>>().into_iter().partition(|(agrees, _)| *agrees);
        if !wrong.is_empty() {
            let tool = rewriting.tool.as_deref().unwrap_or_default();
            let count = wrong.len();
            rewriting.remark = Some(format!(
                "{tool} gave {count} circuits that compute something else: they are not used"
            ));
        }
        for (_, circuit) in good {
            circuits.extend([circuit.restructured(Chains::Balance), circuit]);
        }
        Candidates { circuits, own, rewriting }
    }

    /// Whether another circuit gives the same, for all inputs if they are few, for random ones otherwise.
    pub(super) fn agrees(&self, other: &Circuit) -> bool {
        let bits: usize = self.inputs.iter().map(|p| p.width()).sum();
        let words = if bits <= ALL { 1 << bits.saturating_sub(6) } else { WORDS };
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut random = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            state.rotate_left(29) ^ state >> 7
        };
        (0..words).all(|word| {
            let counted = |bit: usize| match bit {
                // The lanes of a word count the first six bits, words the others.
                0..6 => (0..64u64).fold(0, |w, lane| w | (lane >> bit & 1) << lane),
                _ => ((word >> (bit - 6) & 1) as u64).wrapping_neg(),
            };
            let given = |bit| if bits <= ALL { counted(bit) } else { random() };
            let inputs: Vec<u64> = (0..bits).map(given).collect();
            matches!((self.evaluate(&inputs), other.evaluate(&inputs)), (Ok(a), Ok(b)) if a == b)
        })
    }

    /// Whether a candidate is known to compute what `first` does: of what is large and not our own, by ABC's word.
    pub(super) fn is_proved(&self, own: bool, first: &Circuit) -> bool {
        let bits = self.inputs.iter().map(|p| p.width()).sum::<usize>();
        own || bits <= ALL || abc::proved(first, self)
    }
}

impl Plan {
    fn new(circuit: usize, from: &Circuit, lookups: Vec<Lookup>) -> Plan {
        let mut at = std::collections::HashMap::new();
        let mut bootstraps = 0;
        for lookup in &lookups {
            let own = usize::from(lookup.leaves.len() > 1);
            bootstraps += own;
            let before = lookup.leaves.iter().filter_map(|l| at.get(l)).max();
            let depth = before.copied().unwrap_or(0) + own as u32;
            at.extend(lookup.results.iter().map(|r| (r.0, depth)));
        }
        let wires = from.outputs.iter().flat_map(|p| &p.wires);
        let depth = wires.filter_map(|w| at.get(&(w.node(), 1))).max().copied().unwrap_or(0);
        Plan { circuit, lookups, bootstraps, depth }
    }

    /// Less is better.
    fn key(&self, goal: Goal) -> (u32, usize, u32) {
        match goal {
            Goal::Depth => (self.depth, self.bootstraps, 0),
            Goal::Within(most) => (self.depth.max(most), self.bootstraps, self.depth),
            Goal::Bootstraps => (0, self.bootstraps, self.depth),
        }
    }
}

/// The covers of a circuit that a goal asks for.
fn plans(place: usize, circuit: &Circuit, room: Room, goal: Goal, effort: Effort) -> Vec<Plan> {
    // The shortest path too: covers without its bound are larger now and then.
    let limits = match goal {
        Goal::Depth => vec![Some(0)],
        Goal::Within(most) => vec![Some(0), Some(most.min(u32::MAX - 2))],
        Goal::Bootstraps => vec![Some(0), None],
    };
    let mut mapper = Mapper::new(circuit, Forms::new(room), effort);
    limits.into_iter().map(|limit| Plan::new(place, circuit, mapper.cover(limit))).collect()
}

/// The best plan for a goal. `proved` has the last word on a circuit that is not the first.
///
/// # Errors
/// [`Error::BadInput`] for a [`Goal::Within`] that is not reached, with the number that is.
pub(super) fn best(
    circuits: &[Circuit],
    room: Room,
    goal: Goal,
    proved: impl Fn(usize) -> bool,
) -> Result<Plan> {
    let large = circuits[0].nodes.len() > LARGE;
    let quick = if large { Effort::LARGE } else { Effort::QUICK };
    let all = |i: usize| plans(i, &circuits[i], room, goal, quick);
    let mut found: Vec<Plan> = (0..circuits.len()).into_par_iter().flat_map(all).collect();
    found.sort_by_key(|p| p.key(goal));
    if !large {
        let mut finalists = vec![0];
        for plan in &found {
            if !finalists.contains(&plan.circuit) && finalists.len() <= FINALISTS {
                finalists.push(plan.circuit);
            }
        }
        // Whether weights in what is put out help is not known before: the circuit as it came is covered without them too.
        let plain = Effort { scale: false, ..Effort::FULL };
        let mut tries: Vec<_> = finalists.iter().map(|i| (*i, Effort::FULL)).collect();
        tries.push((0, plain));
        let careful =
            tries.into_par_iter().flat_map(|(i, e)| plans(i, &circuits[i], room, goal, e));
        found.extend(careful.collect::<Vec<_>>());
        found.sort_by_key(|p| p.key(goal));
    }
    let best = found.into_iter().find(|p| p.circuit == 0 || proved(p.circuit));
    let Some(plan) = best else {
        return Err(Error::unsupported("circuit", "a cover", "none", "report the circuit"));
    };
    match goal {
        Goal::Within(most) if plan.depth > most => Err(Error::bad_input(
            "circuit",
            format!("at most {most} bootstraps one after another"),
            format!("{}, the fewest that are found for this circuit", plan.depth),
            format!("ask for {} or more, or for the goal `depth`", plan.depth),
        )),
        _ => Ok(plan),
    }
}
