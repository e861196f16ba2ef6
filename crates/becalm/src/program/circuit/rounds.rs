//! Further rounds of ABC: the circuits whose quick covers are the best for a goal go through its careful mappings again, because a
//! structure that has proved good is a good start. The results join the candidates, and while that gains, the best of all go
//! again.

use super::abc::{self, Budget};
use super::candidates::{Candidate, Covering, Goal, Key, RANKS, Rank, Words, is_far_behind};
use crate::math::parallel::*;
use crate::{Progress, Result};
use std::collections::{HashMap, HashSet};

/// The candidates and their quick covers, to which rounds add.
pub(super) struct Rounds<'a> {
    pub candidates: &'a mut Vec<Candidate>,
    pub found: &'a mut Vec<Covering>,
    /// Circuits of ABC's that compute something else.
    pub wrong: &'a mut usize,
    pub budget: &'a Budget,
    pub progress: Progress<'a>,
}

/// Rounds for a goal: how many, among which ranks, and the rank of what comes back.
struct Course {
    aim: Goal,
    rounds: usize,
    among: &'static [Rank],
    /// Ranks whose best cover must not leave those behind.
    beside: &'static [Rank],
    rank: Rank,
}

/// Candidates that went through ABC. They do not go again for another course, which gets copies of what came.
struct Past {
    /// The first candidate of each structure.
    first: HashMap<Words, usize>,
    /// The candidates that ABC made of one of these.
    made: HashMap<usize, Vec<usize>>,
}

impl Course {
    /// Those of a compilation, in order. Each is the same whatever the others find that it does not go among, and those of a file are the
    /// same for Verilog that has the file as its netlist. So neither another goal nor the file is compiled better. Near candidates have
    /// rounds of their own too, in which no far one takes their place.
    fn all(goal: Goal) -> Vec<Course> {
        use Rank::*;
        let course = |aim, rounds, among, beside, rank| Course { aim, rounds, among, beside, rank };
        let of_all = |aim, rounds, among, rank| course(aim, rounds, among, among, rank);
        let short: &[Rank] = &[Near, Far, Short];
        let near: &[Rank] = &[Near, NearShort];
        // For bootstraps a path may be long.
        let beside = if goal == Goal::Bootstraps { near } else { short };
        let other: &[Rank] = &[Near, Far, Short, Other, OtherShort];
        let mut all = vec![
            of_all(Goal::Depth, abc::ROUNDS, short, Short),
            course(Goal::Depth, abc::ROUNDS, near, beside, NearShort),
            of_all(Goal::Depth, abc::MORE, other, OtherShort),
        ];
        if goal != Goal::Depth {
            let round: &[Rank] = &[Near, Far, Short, Round];
            let near: &[Rank] = &[Near, NearShort, NearRound];
            all.push(of_all(goal, abc::ROUNDS, round, Round));
            all.push(course(goal, abc::ROUNDS, near, round, NearRound));
            all.push(of_all(goal, abc::MORE, &RANKS, OtherRound));
        }
        all
    }

    /// The best cover among some ranks.
    fn least(&self, rounds: &Rounds, among: &[Rank]) -> Option<Key> {
        let served = |c: &&Covering| c.serves(self.aim) && rounds.is_of(c.candidate, among);
        rounds.found.iter().filter(served).map(|c| c.key(self.aim)).min()
    }

    /// The best candidates. ABC does not know sums.
    fn seeds(&self, rounds: &mut Rounds) -> Vec<usize> {
        rounds.found.sort_by_key(|c| (c.key(self.aim), c.candidate));
        let mut best: Vec<usize> = vec![];
        for covering in rounds.found.iter().filter(|c| c.serves(self.aim)) {
            let at = rounds.candidates[covering.candidate].copy_of.unwrap_or(covering.candidate);
            let fits = rounds.is_of(covering.candidate, self.among) && !best.contains(&at);
            let plain = rounds.candidates[at].circuit.sums.is_empty();
            if fits && plain && best.len() < abc::SEEDS {
                best.push(at);
            }
        }
        best
    }
}

impl Rounds<'_> {
    /// The rounds for a goal. `cover` gives the quick covers of some candidates.
    ///
    /// # Errors
    /// Those of `cover`.
    pub fn run(
        mut self,
        goal: Goal,
        cover: impl Fn(&[Candidate], &[usize]) -> Result<Vec<Covering>>,
    ) -> Result<()> {
        let said = self.candidates.iter().enumerate().rev();
        let first = said.map(|(at, c)| (c.words(), at)).collect();
        let mut past = Past { first, made: HashMap::new() };
        for course in Course::all(goal) {
            let more = matches!(course.rank, Rank::OtherShort | Rank::OtherRound);
            if more && !self.candidates.iter().any(|c| c.rank == Rank::Other) {
                continue;
            }
            for _ in 0..course.rounds {
                let least = |rounds: &Self| course.least(rounds, course.among);
                let before = least(&self);
                let best = course.least(&self, course.beside);
                if before.zip(best).is_some_and(|(own, best)| is_far_behind(own, best)) {
                    break;
                }
                let seeds = course.seeds(&mut self);
                let from = self.candidates.len();
                self.grow(&seeds, &course, &mut past);
                let new: Vec<usize> = (from..self.candidates.len()).collect();
                if new.is_empty() {
                    break;
                }
                let (copies, new): (Vec<usize>, Vec<usize>) =
                    new.into_iter().partition(|at| self.candidates[*at].copy_of.is_some());
                let covers = cover(self.candidates, &new)?;
                self.found.extend(covers);
                copies.into_iter().for_each(|at| self.copy(at));
                if least(&self) >= before {
                    break;
                }
            }
        }
        Ok(())
    }

    fn is_of(&self, candidate: usize, ranks: &[Rank]) -> bool {
        ranks.contains(&self.candidates[candidate].rank)
    }

    /// Gives a copy the covers of the candidate that says the same.
    fn copy(&mut self, candidate: usize) {
        let of = |c: &&Covering| Some(c.candidate) == self.candidates[candidate].copy_of;
        let own = self.found.iter().filter(of).cloned();
        let own: Vec<_> = own.map(|c| Covering { candidate, ..c }).collect();
        self.found.extend(own);
    }

    /// Adds what ABC makes of some candidates, if it is new among those of the course, and computes the same.
    fn grow(&mut self, seeds: &[usize], course: &Course, past: &mut Past) {
        let among = self.candidates.iter().filter(|c| course.among.contains(&c.rank));
        let mut known: HashSet<usize> = among.map(|c| past.first[&c.words()]).collect();
        self.send(seeds, course.rank, past);
        for at in seeds.iter().flat_map(|seed| past.made[seed].clone()) {
            let Candidate { circuit, tables, foreign, rank, .. } = &self.candidates[at];
            if known.insert(at) && !course.among.contains(rank) {
                let (circuit, tables) = (circuit.clone(), tables.clone());
                let (foreign, rank, copy_of) = (*foreign, course.rank, Some(at));
                self.candidates.push(Candidate { circuit, tables, foreign, rank, copy_of });
            }
        }
    }

    /// Gives ABC those of some candidates that have not gone yet, and adds what is new.
    fn send(&mut self, seeds: &[usize], rank: Rank, past: &mut Past) {
        let fresh = seeds.iter().copied().filter(|at| !past.made.contains_key(at));
        let fresh: Vec<usize> = fresh.collect();
        let circuits: Vec<_> = fresh.iter().map(|at| &self.candidates[*at].circuit).collect();
        let made = abc::again(&circuits, self.budget, self.progress);
        let own = &self.candidates[0].circuit;
        let checked = fresh.into_par_iter().zip(made).map(|(seed, made)| {
            let made = made.into_iter().map(|(circuit, tables, _)| {
                let found = Candidate { circuit, tables, foreign: true, rank, copy_of: None };
                let words = found.words();
                let good = past.first.contains_key(&words) || own.agrees(&found.circuit);
                (found, words, good)
            });
            (seed, made.collect::<Vec<_>>())
        });
        for (seed, made) in checked.collect::<Vec<_>>() {
            let (good, wrong): (Vec<_>, Vec<_>) = made.into_iter().partition(|m| m.2);
            *self.wrong += wrong.len();
            let mut all = vec![];
            for (candidate, words, _) in good {
                let at = *past.first.entry(words).or_insert(self.candidates.len());
                if at == self.candidates.len() {
                    self.candidates.push(candidate);
                }
                all.push(at);
            }
            past.made.insert(seed, all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNWATCHED;
    use crate::program::circuit::Circuit;

    /// However good far candidates are, and whatever a goal or another netlist adds.
    #[test]
    fn near_candidates_go_through_abc_beside_far_ones() {
        let ranks = [Rank::Near, Rank::Near, Rank::Far, Rank::Far, Rank::Other, Rank::Near];
        let made = |rank| {
            let (circuit, tables) = (Circuit::empty(), vec![]);
            Candidate { circuit, tables, foreign: true, rank, copy_of: None }
        };
        // The later a candidate, the better, but for the last.
        let cover = |candidate: usize| {
            let (bootstraps, lookups) = (if candidate < 5 { 30 - candidate } else { 40 }, vec![]);
            Covering { candidate, lookups, bootstraps, depth: 5, shortest: true }
        };
        for goal in [Goal::Depth, Goal::Within(7), Goal::Bootstraps] {
            let mut candidates: Vec<Candidate> = ranks.into_iter().map(made).collect();
            let mut found: Vec<Covering> = (0..ranks.len()).map(cover).collect();
            let (mut wrong, budget) = (0, Budget::new());
            let (candidates, found, wrong) = (&mut candidates, &mut found, &mut wrong);
            let mut rounds =
                Rounds { candidates, found, wrong, budget: &budget, progress: UNWATCHED };
            for course in Course::all(goal) {
                let seeds = match course.rank {
                    Rank::NearShort | Rank::NearRound => [1, 0],
                    Rank::Short | Rank::Round => [3, 2],
                    _ => [4, 3],
                };
                assert_eq!(course.seeds(&mut rounds), seeds, "{goal:?} {:?}", course.rank);
            }
        }
    }

    /// A structure that two courses find goes once, and takes one place.
    #[test]
    fn a_copy_is_no_other_seed() {
        let made = |rank, copy_of| {
            let (circuit, tables) = (Circuit::empty(), vec![]);
            Candidate { circuit, tables, foreign: true, rank, copy_of }
        };
        let mut candidates = vec![
            made(Rank::Near, None),
            made(Rank::Short, None),
            made(Rank::NearShort, Some(1)),
            made(Rank::Far, None),
        ];
        let covering = |candidate, bootstraps| {
            let lookups = vec![];
            Covering { candidate, lookups, bootstraps, depth: 5, shortest: true }
        };
        let mut found = vec![covering(0, 30), covering(1, 20), covering(3, 25)];
        let (mut wrong, budget) = (0, Budget::new());
        let (candidates, found, wrong) = (&mut candidates, &mut found, &mut wrong);
        let mut rounds = Rounds { candidates, found, wrong, budget: &budget, progress: UNWATCHED };
        rounds.copy(2);
        let courses = Course::all(Goal::Bootstraps);
        let mut seeds =
            |rank| courses.iter().find(|c| c.rank == rank).map(|c| c.seeds(&mut rounds));
        assert_eq!(seeds(Rank::OtherRound), Some(vec![1, 3]));
        assert_eq!(seeds(Rank::NearRound), Some(vec![1, 0]));
    }
}
