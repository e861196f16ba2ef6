//! Which of several circuits of one function is compiled, and by which cover: all are covered quickly, the best for the goal and
//! the circuit as it came with care, and the best of everything is taken. So nothing is worse than the best of its parts.

use super::abc::{Budget, Rewriting};
use super::candidates::{Candidate, Covering, Goal, RANKS, Rank, is_far_behind};
use super::cover::{Effort, Mapper};
use super::cuts::Forms;
use super::rounds::Rounds;
use super::weights::Room;
use super::{COUNTED, LARGE};
use crate::math::parallel::*;
use crate::progress::Steps;
use crate::{Error, Progress, Result};
use std::collections::HashMap;

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
/// Ranks whose best are covered with care. None takes a place of those before it, or of those that another goal has: so what a circuit
/// makes better for one makes nothing worse for another.
const POOLS: [&[Rank]; 9] = {
    use Rank::*;
    [
        &[Near],
        &[Near, NearShort],
        &[Near, NearShort, NearRound],
        &[Near, Far],
        &[Near, Far, Short],
        &[Near, Far, Short, Round],
        &[Near, Far, Short, Other],
        &[Near, Far, Short, Other, OtherShort],
        &RANKS,
    ]
};

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

/// Which candidates are covered with care, and how. Those that another goal, a compiler without ABC, or one that makes no
/// circuits of later ranks would choose are among them, so that none of these finds better.
fn finalists(candidates: &[Candidate], found: &mut [Covering], goal: Goal) -> Vec<(usize, Effort)> {
    let size = candidates[0].circuit.nodes.len();
    let mut chosen: Vec<usize> =
        POOLS.iter().flat_map(|ranks| promising(candidates, found, goal, ranks)).collect();
    chosen.sort_unstable();
    chosen.dedup();
    let efforts = |i: &usize| {
        let plain = (*i == 0 || size < PLAIN_TOO).then_some((*i, PLAIN));
        let careful = (size < LARGE).then_some((*i, CAREFUL));
        [plain, careful].into_iter().flatten()
    };
    chosen.iter().flat_map(efforts).collect()
}

/// The best candidates for a goal, and for the shortest path, among those of some ranks.
fn promising(
    candidates: &[Candidate],
    found: &mut [Covering],
    goal: Goal,
    ranks: &[Rank],
) -> Vec<usize> {
    let among = |p: &Covering| ranks.contains(&candidates[p.candidate].rank);
    let mut chosen = vec![0];
    for goal in [Goal::Depth, goal] {
        found.sort_by_key(|p| (p.key(goal), p.candidate));
        for foreign in [false, true] {
            let fits = |p: &&Covering| {
                let comes_from = foreign || !candidates[p.candidate].foreign;
                among(p) && comes_from && p.serves(goal)
            };
            let mut best: Vec<usize> = vec![];
            for covering in found.iter().filter(fits) {
                let at = candidates[covering.candidate].copy_of.unwrap_or(covering.candidate);
                if !best.contains(&at) && best.len() < FINALISTS {
                    best.push(at);
                }
            }
            chosen.extend(best);
        }
    }
    // A candidate that is far behind stays there. A short path is no merit where only bootstraps count.
    let least = |of: &dyn Fn(&Covering) -> bool, goal: Goal| {
        let all = found.iter().filter(|p| of(p)).map(|p| p.key(goal));
        all.min().unwrap_or_default()
    };
    chosen.retain(|i| {
        let near = |goal| !is_far_behind(least(&|p| p.candidate == *i, goal), least(&among, goal));
        near(goal) || goal != Goal::Bootstraps && near(Goal::Depth)
    });
    chosen
}

/// The best covering for a goal, with candidates of further rounds. ABC proves a candidate that it made and takes, if its inputs are too
/// many to try all.
///
/// # Errors
/// [`Error::BadInput`] for a [`Goal::Within`] that is not reached, with the number that is.
pub(super) fn best(
    candidates: &mut Vec<Candidate>,
    room: Room,
    goal: Goal,
    rewriting: &mut Rewriting,
    budget: &mut Budget,
    progress: Progress,
) -> Result<Covering> {
    let forms = Forms::new(room);
    let work = |candidates: &[Candidate], tries: &[(usize, Effort)]| {
        let one = |(i, effort): &(usize, Effort)| {
            effort.steps(candidates[*i].circuit.nodes.len(), goal.limits().len())
        };
        tries.iter().map(one).sum::<usize>()
    };
    let first: Vec<_> = (0..candidates.len()).map(|i| (i, QUICK)).collect();
    // As much again and more is expected, until the finalists are known.
    let steps = Steps::new("circuit", progress, 4 * work(candidates, &first));
    let all = |candidates: &[Candidate], tries: Vec<(usize, Effort)>| {
        let cover = |(i, effort)| coverings(i, &candidates[i], &forms, goal, effort, &steps);
        let covers = tries.into_par_iter().map(cover).collect::<Result<Vec<Vec<Covering>>>>();
        covers.map(|covers| covers.into_iter().flatten().collect::<Vec<_>>())
    };
    let mut found = all(candidates, first)?;
    if candidates[0].circuit.is_small() {
        let wrong = &mut rewriting.wrong;
        let (watched, found) = (|_, _| steps.now(), &mut found);
        let rounds = Rounds { candidates, found, wrong, budget, progress: &watched };
        rounds.run(goal, |candidates, new| {
            let tries: Vec<_> = new.iter().map(|i| (*i, QUICK)).collect();
            steps.expect_more(4 * work(candidates, &tries));
            all(candidates, tries)
        })?;
    }
    let candidates = &candidates[..];
    let tries = finalists(candidates, &mut found, goal);
    steps.expect_more(work(candidates, &tries));
    found.extend(all(candidates, tries)?);
    found.sort_by_key(|p| p.key(goal));
    let best = proved(candidates, found, rewriting, budget, &|_, _| steps.now());
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

/// The first cover whose circuit ABC did not make, that was tried at all inputs, or that ABC proves.
fn proved(
    candidates: &[Candidate],
    found: Vec<Covering>,
    rewriting: &mut Rewriting,
    budget: &mut Budget,
    progress: Progress,
) -> Option<Covering> {
    // A candidate has several covers.
    let mut known: HashMap<usize, bool> = HashMap::new();
    let mut proved = |covering: &Covering| {
        *known.entry(covering.candidate).or_insert_with(|| {
            let Candidate { circuit, foreign, rank, .. } = &candidates[covering.candidate];
            let far = *rank > Rank::Near;
            let bits = circuit.inputs.iter().map(|p| p.width()).sum::<usize>();
            let good = !foreign
                || bits <= COUNTED
                || budget.proved(&candidates[0].circuit, circuit, far, progress);
            rewriting.wrong += usize::from(!good);
            good
        })
    };
    found.into_iter().find(&mut proved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::circuit::Circuit;
    use std::collections::HashSet;

    /// However good the quick cover of a circuit of a later rank is, those that were covered with care without it still are.
    #[test]
    fn later_ranks_take_no_place_of_others() {
        let made = |(foreign, rank)| {
            let circuit = Circuit::empty();
            Candidate { circuit, tables: vec![], foreign, rank, copy_of: None }
        };
        let cover = |candidate, bootstraps, depth| {
            let lookups = vec![];
            Covering { candidate, lookups, bootstraps, depth, shortest: true }
        };
        let near = || vec![cover(0, 30, 6), cover(1, 24, 5), cover(2, 22, 6)];
        for rank in &RANKS[1..] {
            let kinds = [(false, Rank::Near), (false, Rank::Near), (true, Rank::Near)];
            let kinds = kinds.into_iter().chain([(true, *rank), (true, *rank)]);
            let candidates: Vec<Candidate> = kinds.map(made).collect();
            for goal in [Goal::Depth, Goal::Within(7), Goal::Bootstraps] {
                let before = finalists(&candidates, &mut near(), goal);
                let mut all = near();
                all.extend([cover(3, 11, 3), cover(4, 12, 3)]);
                let after = finalists(&candidates, &mut all, goal);
                assert!(before.iter().all(|b| after.iter().any(|a| a.0 == b.0)), "{goal:?}");
                assert!([3, 4].iter().all(|far| after.iter().any(|a| a.0 == *far)), "{goal:?}");
            }
        }
    }

    /// Candidates of a file that are covered with care, for the shortest path too, still are where Verilog and the goal add others.
    #[test]
    fn a_goal_and_verilog_only_add_finalists() {
        let made = |rank| {
            let circuit = Circuit::empty();
            Candidate { circuit, tables: vec![], foreign: true, rank, copy_of: None }
        };
        let candidates: Vec<Candidate> = RANKS.into_iter().map(made).collect();
        // The later a rank, the better.
        let cover = |candidate: usize| {
            let (bootstraps, depth, lookups) = (30 - candidate, 9 - candidate as u32 / 2, vec![]);
            Covering { candidate, lookups, bootstraps, depth, shortest: true }
        };
        let chosen = |ranks: &[Rank], goal| {
            let of = |i: &usize| ranks.contains(&RANKS[*i]);
            let mut found: Vec<Covering> = (0..RANKS.len()).filter(of).map(cover).collect();
            finalists(&candidates, &mut found, goal)
                .into_iter()
                .map(|f| f.0)
                .collect::<HashSet<_>>()
        };
        use Rank::*;
        let file = [Near, Far, Short, Round, NearShort, NearRound];
        let shortest = [Near, Far, Short, NearShort, Other, OtherShort];
        for goal in [Goal::Within(7), Goal::Bootstraps] {
            let all = chosen(&RANKS, goal);
            assert!(chosen(&file, goal).is_subset(&all), "{goal:?}");
            assert!(chosen(&shortest, Goal::Depth).is_subset(&all), "{goal:?}");
        }
    }
}
