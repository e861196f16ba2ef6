//! Which of several circuits of one function is compiled, and by which cover: all are covered quickly, the best for the goal and
//! the circuit as it came with care, and the best of everything is taken. So nothing is worse than the best of its parts.

use super::abc::{self, Budget, Rewriting};
use super::blif::Tables;
use super::cover::{Effort, Mapper};
use super::cuts::Forms;
use super::restructure::Chains;
use super::rotations::Lookup;
use super::weights::Room;
use super::{COUNTED, Circuit, LARGE, Wire};
use crate::math::parallel::*;
use crate::progress::Steps;
use crate::{Error, Progress, Result};
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
    fn limits(self) -> Vec<Option<u32>> {
        match self {
            Goal::Depth => vec![Some(0)],
            Goal::Within(most) => vec![Some(0), Some(most.min(u32::MAX - 2))],
            Goal::Bootstraps => vec![Some(0), None],
        }
    }
}

/// Every circuit is covered so.
const QUICK: Effort = Effort { kept: 10, covers: 2, rounds: 1, exact: true };
/// The best few are covered so.
const CAREFUL: Effort = Effort { kept: 32, covers: 8, rounds: 3, exact: true };
/// The circuit as it came is covered so too.
const PLAIN: Effort = Effort { kept: 32, covers: 8, rounds: 3, exact: false };
/// How many of the circuits are covered with care for each goal.
const FINALISTS: usize = 2;
/// Nodes of a circuit whose finalists are covered as the circuit that came is, too.
const PLAIN_TOO: usize = 400;
/// Gates of a large circuit for each that its counters leave or rotation that they take, from which on nothing else is tried.
const ABSORBED: usize = 64;
/// Words of 64 evaluations for one of more.
const WORDS: usize = 256;
/// Gates that a restructured circuit may have beside four times those of the circuit.
const BESIDE: usize = 2000;

/// A circuit of the same function.
pub(super) struct Candidate {
    pub circuit: Circuit,
    /// The tables that it was mapped to by ABC.
    pub tables: Tables,
    /// Whether ABC made it.
    pub foreign: bool,
    /// Whether it is far from the circuit as it came. Such ones take no place of nearer ones among the finalists.
    pub far: bool,
}

/// The candidates without those of ABC's that say the same as a nearer or an earlier one: scripts often agree.
fn distinct(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut all: Vec<_> = candidates.into_iter().enumerate().collect();
    all.sort_by_key(|(_, c)| (c.far, c.foreign));
    let mut seen = HashSet::new();
    all.retain(|(_, c)| {
        let Circuit { nodes, sums, outputs, .. } = &c.circuit;
        let outputs: Vec<Wire> = outputs.iter().flat_map(|p| p.wires.clone()).collect();
        // With the tables of another mapping it has other covers.
        seen.insert((nodes.clone(), sums.clone(), outputs, c.tables.clone())) || !c.foreign
    });
    // Of equally good ones the first is taken.
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, c)| c).collect()
}

/// A candidate, its cover, and the cover's cost.
pub(super) struct Covering {
    pub candidate: usize,
    pub lookups: Vec<Lookup>,
    pub bootstraps: usize,
    pub depth: u32,
    /// Whether the cover was bound to the shortest path.
    shortest: bool,
}

impl Circuit {
    /// The circuit itself, first, and others of its function, each compared with it. A large one that its counters all but
    /// take in stands for these alone.
    pub(super) fn candidates(
        &self,
        room: Room,
        budget: &Budget,
        progress: Progress,
    ) -> (Vec<Candidate>, Rewriting) {
        let made = |circuit, far| Candidate { circuit, tables: vec![], foreign: false, far };
        let own = |circuit| made(circuit, false);
        let clean = self.restructured(Chains::Keep);
        let gates = |c: &Circuit| c.gates().0 + c.gates().1;
        let left = |c: &Circuit| gates(c) + c.rotations_of_sums(room);
        let mut counted = clean.counted(room);
        let least = counted.iter().map(left).min().unwrap_or(usize::MAX);
        // Twice: what the first leaves of XORs are operands of ANDs for the second.
        let carries = clean.restructured(Chains::Carry).restructured(Chains::Carry);
        let more = carries.counted(room);
        counted.extend(more.into_iter().filter(|c| left(c) < least));
        if self.nodes.len() >= LARGE && counted.iter().any(|c| left(c) <= gates(&clean) / ABSORBED)
        {
            let agreed = counted.iter().filter(|c| self.agrees(c));
            let agreed: Vec<Candidate> = agreed.cloned().map(own).collect();
            if !agreed.is_empty() {
                return (agreed, abc::unused());
            }
        }
        let mut found: Vec<Candidate> = counted.into_iter().map(own).collect();
        if self.nodes.len() < LARGE {
            found.extend(clean.refreshed(room).map(own));
        }
        found.extend(self.chained().map(own));
        let twin = self.twin.as_ref().map(|twin| {
            let clean = twin.restructured(Chains::Keep);
            let all = twin.chained().chain(clean.counted(room));
            found.extend(all.map(|c| made(c, true)));
            let text = clean.blif();
            found.push(made(clean, true));
            text
        });
        let rows = self.rows.as_deref().map(|rows| (rows, false));
        let other = twin.as_deref().map(|twin| (twin, true)).or(rows);
        let (foreign, mut rewriting) = abc::rewritten(&clean, other, budget, progress);
        found.push(own(clean));
        for (circuit, tables, far) in foreign {
            let balanced = circuit.restructured(Chains::Balance);
            found.push(Candidate { circuit: balanced, tables: vec![], foreign: true, far });
            found.push(Candidate { circuit, tables, foreign: true, far });
        }
        (self.compared(found, &mut rewriting), rewriting)
    }

    /// The circuit with its chains taken apart.
    fn chained(&self) -> impl Iterator<Item = Circuit> {
        let everywhere = (self.nodes.len() < LARGE).then_some(Chains::Duplicate);
        everywhere.into_iter().chain([Chains::Balance]).map(|chains| self.restructured(chains))
    }

    /// The circuit itself, and those candidates that compute the same: a wrong rewriting must not be used.
    fn compared(&self, found: Vec<Candidate>, rewriting: &mut Rewriting) -> Vec<Candidate> {
        // There can be many trees beside the nodes that they stand for.
        let small = |c: &Circuit| c.nodes.len() < 4 * self.nodes.len() + BESIDE;
        let checked = distinct(found)
            .into_par_iter()
            .map(|c| (small(&c.circuit), self.agrees(&c.circuit), c));
        let (circuit, tables) = (self.clone(), vec![]);
        let mut all = vec![Candidate { circuit, tables, foreign: false, far: false }];
        for (small, agrees, candidate) in checked.collect::<Vec<_>>() {
            if !agrees {
                rewriting.wrong += usize::from(candidate.foreign);
            } else if small {
                all.push(candidate);
            }
        }
        all
    }

    /// Whether another circuit gives the same, for all inputs if they are few, for random ones otherwise.
    fn agrees(&self, other: &Circuit) -> bool {
        let bits: usize = self.inputs.iter().map(|p| p.width()).sum();
        let words = if bits <= COUNTED { 1 << bits.saturating_sub(6) } else { WORDS };
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
            let given = |bit| if bits <= COUNTED { counted(bit) } else { random() };
            let inputs: Vec<u64> = (0..bits).map(given).collect();
            matches!((self.evaluate(&inputs), other.evaluate(&inputs)), (Ok(a), Ok(b)) if a == b)
        })
    }
}

impl Covering {
    fn new(candidate: usize, circuit: &Circuit, lookups: Vec<Lookup>, shortest: bool) -> Covering {
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

    /// Less is better.
    fn key(&self, goal: Goal) -> (u32, usize, u32) {
        match goal {
            Goal::Depth => (self.depth, self.bootstraps, 0),
            Goal::Within(most) => (self.depth.max(most), self.bootstraps, self.depth),
            Goal::Bootstraps => (0, self.bootstraps, self.depth),
        }
    }
}

/// The covers of a candidate that a goal asks for.
fn coverings(
    place: usize,
    candidate: &Candidate,
    forms: &Forms,
    goal: Goal,
    effort: Effort,
    steps: &Steps,
) -> Result<Vec<Covering>> {
    let Candidate { circuit, tables, .. } = candidate;
    // The shortest path too: covers without its bound are larger now and then.
    let limits = goal.limits();
    let mut mapper = Mapper::new(circuit, tables, forms, effort, steps)?;
    let covering =
        |limit| Ok(Covering::new(place, circuit, mapper.cover(limit)?, limit == Some(0)));
    limits.into_iter().map(covering).collect()
}

/// Which candidates are covered with care, and how. Those that another goal, a compiler without ABC, or one that makes no far
/// circuits would choose are among them, so that none of these finds better.
fn finalists(candidates: &[Candidate], found: &mut [Covering], goal: Goal) -> Vec<(usize, Effort)> {
    let size = candidates[0].circuit.nodes.len();
    let mut chosen = promising(candidates, found, goal, false);
    chosen.extend(promising(candidates, found, goal, true));
    chosen.sort_unstable();
    chosen.dedup();
    let efforts = |i: &usize| {
        let plain = (*i == 0 || size < PLAIN_TOO).then_some((*i, PLAIN));
        let careful = (size < LARGE).then_some((*i, CAREFUL));
        [plain, careful].into_iter().flatten()
    };
    chosen.iter().flat_map(efforts).collect()
}

/// The best candidates for a goal, and for the shortest path, among those that are not far or among all.
fn promising(
    candidates: &[Candidate],
    found: &mut [Covering],
    goal: Goal,
    far: bool,
) -> Vec<usize> {
    let among = |p: &Covering| far || !candidates[p.candidate].far;
    let mut chosen = vec![0];
    for goal in [Goal::Depth, goal] {
        found.sort_by_key(|p| p.key(goal));
        for foreign in [false, true] {
            let fits = |p: &&Covering| {
                let comes_from = foreign || !candidates[p.candidate].foreign;
                among(p) && comes_from && (p.shortest || goal != Goal::Depth)
            };
            let mut best: Vec<usize> = vec![];
            for covering in found.iter().filter(fits) {
                if !best.contains(&covering.candidate) && best.len() < FINALISTS {
                    best.push(covering.candidate);
                }
            }
            chosen.extend(best);
        }
    }
    // A candidate that is far behind stays there.
    let least = |of: &dyn Fn(&Covering) -> bool, goal: Goal| {
        let all = found.iter().filter(|p| of(p)).map(|p| p.key(goal));
        all.min().map_or((0, 0), |k| (k.0, k.1))
    };
    chosen.retain(|i| {
        let near = |goal| {
            let (own, best) = (least(&|p| p.candidate == *i, goal), least(&among, goal));
            2 * own.0 <= 3 * best.0 && (own.0 > best.0 || 2 * own.1 <= 3 * best.1)
        };
        near(Goal::Depth) || near(goal)
    });
    chosen
}

/// The best covering for a goal. ABC proves a candidate that it made and takes, if its inputs are too many to try all.
///
/// # Errors
/// [`Error::BadInput`] for a [`Goal::Within`] that is not reached, with the number that is.
pub(super) fn best(
    candidates: &[Candidate],
    room: Room,
    goal: Goal,
    rewriting: &mut Rewriting,
    budget: &mut Budget,
    progress: Progress,
) -> Result<Covering> {
    let forms = Forms::new(room);
    let work = |tries: &[(usize, Effort)]| {
        let one = |(i, effort): &(usize, Effort)| {
            effort.steps(candidates[*i].circuit.nodes.len(), goal.limits().len())
        };
        tries.iter().map(one).sum::<usize>()
    };
    let quick: Vec<(usize, Effort)> = (0..candidates.len()).map(|i| (i, QUICK)).collect();
    // As much again and more is expected, until the finalists are known.
    let steps = Steps::new("circuit", progress, 4 * work(&quick));
    let cover = |(i, effort)| coverings(i, &candidates[i], &forms, goal, effort, &steps);
    let all = |tries: Vec<(usize, Effort)>| {
        tries.into_par_iter().map(cover).collect::<Result<Vec<Vec<Covering>>>>()
    };
    let expected = work(&quick);
    let mut found: Vec<Covering> = all(quick)?.into_iter().flatten().collect();
    let tries = finalists(candidates, &mut found, goal);
    steps.expect(expected + work(&tries));
    found.extend(all(tries)?.into_iter().flatten());
    found.sort_by_key(|p| p.key(goal));
    // A candidate has several covers.
    let mut known: HashMap<usize, bool> = HashMap::new();
    let mut proved = |covering: &Covering| {
        *known.entry(covering.candidate).or_insert_with(|| {
            let Candidate { circuit, foreign, far, .. } = &candidates[covering.candidate];
            let bits = circuit.inputs.iter().map(|p| p.width()).sum::<usize>();
            let good = !foreign
                || bits <= COUNTED
                || budget.proved(&candidates[0].circuit, circuit, *far, &|_, _| steps.now());
            rewriting.wrong += usize::from(!good);
            good
        })
    };
    let best = found.into_iter().find(&mut proved);
    // Whoever stops this stops a proof too, which then counts as none.
    steps.add(0)?;
    let Some(covering) = best else {
        return Err(Error::unsupported("circuit", "a cover", "none", "report the circuit"));
    };
    match goal {
        Goal::Within(most) if covering.depth > most => Err(Error::bad_input(
            "circuit",
            format!("bootstraps one after another: at most {most}"),
            format!("{}, the fewest that are found for this circuit", covering.depth),
            format!("ask for {} or more, or for the goal `depth`", covering.depth),
        )),
        _ => Ok(covering),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However good a far circuit's quick cover is, those that were covered with care without it still are.
    #[test]
    fn far_circuits_take_no_place_of_others() {
        let made = |(foreign, far)| {
            let circuit = Circuit::empty();
            Candidate { circuit, tables: vec![], foreign, far }
        };
        let kinds = [(false, false), (false, false), (true, false), (true, true), (true, true)];
        let candidates: Vec<Candidate> = kinds.into_iter().map(made).collect();
        let cover = |candidate, bootstraps, depth| {
            let lookups = vec![];
            Covering { candidate, lookups, bootstraps, depth, shortest: true }
        };
        let near = || vec![cover(0, 30, 6), cover(1, 24, 5), cover(2, 22, 6)];
        for goal in [Goal::Depth, Goal::Within(7), Goal::Bootstraps] {
            let before = finalists(&candidates, &mut near(), goal);
            let mut all = near();
            all.extend([cover(3, 11, 3), cover(4, 12, 3)]);
            let after = finalists(&candidates, &mut all, goal);
            assert!(before.iter().all(|b| after.iter().any(|a| a.0 == b.0)), "{goal:?}");
            assert!([3, 4].iter().all(|far| after.iter().any(|a| a.0 == *far)), "{goal:?}");
        }
    }

    /// A circuit with the tables of another mapping has other covers.
    #[test]
    fn only_circuits_that_say_the_same_twice_are_left_out() {
        let made = |tables: &[usize], foreign, far| {
            let tables = tables.iter().map(|leaf| (*leaf, vec![1])).collect();
            Candidate { circuit: Circuit::empty(), tables, foreign, far }
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
        let kept: Vec<_> = kept.iter().map(|c| (c.tables.len(), c.foreign, c.far)).collect();
        let own = (0, false, false);
        assert_eq!(kept, [own, (1, true, false), (1, true, false), own]);
    }
}
