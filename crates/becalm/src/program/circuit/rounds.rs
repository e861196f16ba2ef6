//! Further rounds of ABC: the circuits whose quick covers are the best for a goal go through its careful mappings again, because a
//! structure that has proved good is a good start. The results join the candidates, and while that gains, the best of all go
//! again.

use super::Circuit;
use super::abc::{self, Budget};
use super::candidates::{Candidate, Covering, Goal, RANKS, Rank};
use crate::math::parallel::*;
use crate::{Progress, Result};
use std::collections::HashSet;

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
    rank: Rank,
}

impl Course {
    /// Those of a compilation, in order. Each is the same whatever comes after it, and those of a file are the same for Verilog that has
    /// the file as its netlist. So neither another goal nor the file is compiled better.
    fn all(goal: Goal) -> Vec<Course> {
        use Rank::{Far, Near, Other, OtherRound, OtherShort, Round, Short};
        let course = |aim, rounds, among, rank| Course { aim, rounds, among, rank };
        let mut all = vec![
            course(Goal::Depth, abc::ROUNDS, &[Near, Far, Short] as &[Rank], Short),
            course(Goal::Depth, abc::MORE, &[Near, Far, Short, Other, OtherShort], OtherShort),
        ];
        if goal != Goal::Depth {
            all.push(course(goal, abc::ROUNDS, &[Near, Far, Short, Round], Round));
            all.push(course(goal, abc::MORE, &RANKS, OtherRound));
        }
        all
    }

    /// The best cover that there is.
    fn least(&self, rounds: &Rounds) -> Option<(u32, usize, u32)> {
        let served = |c: &&Covering| c.serves(self.aim) && rounds.is_of(c.candidate, self.among);
        rounds.found.iter().filter(served).map(|c| c.key(self.aim)).min()
    }

    /// The best candidates, if they have not gone yet. ABC does not know sums.
    fn seeds(&self, rounds: &mut Rounds, gone: &mut HashSet<usize>) -> Vec<usize> {
        rounds.found.sort_by_key(|c| (c.key(self.aim), c.candidate));
        let mut best: Vec<usize> = vec![];
        for covering in rounds.found.iter().filter(|c| c.serves(self.aim)) {
            let at = covering.candidate;
            let fits = rounds.is_of(at, self.among) && !best.contains(&at);
            let plain = rounds.candidates[at].circuit.sums.is_empty();
            if fits && plain && best.len() < abc::SEEDS {
                best.push(at);
            }
        }
        best.retain(|at| gone.insert(*at));
        best
    }
}

impl Rounds<'_> {
    /// The rounds for a goal. `cover` gives the quick covers of the candidates from a place on.
    ///
    /// # Errors
    /// Those of `cover`.
    pub fn run(
        mut self,
        goal: Goal,
        cover: impl Fn(&[Candidate], usize) -> Result<Vec<Covering>>,
    ) -> Result<()> {
        // What went for Verilog alone is no reason to leave it out where a file would go.
        let (mut of_file, mut of_all) = (HashSet::new(), HashSet::new());
        for course in Course::all(goal) {
            let more = matches!(course.rank, Rank::OtherShort | Rank::OtherRound);
            if more && !self.candidates.iter().any(|c| c.rank == Rank::Other) {
                continue;
            }
            for _ in 0..course.rounds {
                let before = course.least(&self);
                let seeds = match more {
                    true => course.seeds(&mut self, &mut of_all),
                    false => course.seeds(&mut self, &mut of_file),
                };
                of_all.extend(&seeds);
                let from = self.candidates.len();
                self.grow(&seeds, &course);
                if self.candidates.len() == from {
                    break;
                }
                let covers = cover(self.candidates, from)?;
                self.found.extend(covers);
                if course.least(&self) >= before {
                    break;
                }
            }
        }
        Ok(())
    }

    fn is_of(&self, candidate: usize, ranks: &[Rank]) -> bool {
        ranks.contains(&self.candidates[candidate].rank)
    }

    /// Adds what ABC makes of some candidates, if it is new among those of the course, and computes the same.
    fn grow(&mut self, seeds: &[usize], course: &Course) {
        let known = self.candidates.iter().filter(|c| course.among.contains(&c.rank));
        let mut known: HashSet<_> = known.map(Candidate::words).collect();
        let own = &self.candidates[0].circuit;
        let seeds: Vec<&Circuit> = seeds.iter().map(|i| &self.candidates[*i].circuit).collect();
        let made = abc::again(&seeds, self.budget, self.progress).into_iter();
        let rank = course.rank;
        let made =
            made.map(|(circuit, tables, _)| Candidate { circuit, tables, foreign: true, rank });
        let new: Vec<_> = made.filter(|candidate| known.insert(candidate.words())).collect();
        let checked = new.into_par_iter().map(|c| (own.agrees(&c.circuit), c));
        let (same, other): (Vec<_>, Vec<_>) =
            checked.collect::<Vec<_>>().into_iter().partition(|(agrees, _)| *agrees);
        *self.wrong += other.len();
        self.candidates.extend(same.into_iter().map(|(_, c)| c));
    }
}
