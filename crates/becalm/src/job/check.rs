//! Checks: results of a second worker, compared with those of the first. Workers that are alone with their results are left out.

use super::digest::Digest;
use super::folder::{Job, chunk_name};
use super::manifest::{Done, LeftOut, sealed};
use super::place::RECORD;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The end of the name of a check whose results differ.
const DIFFERS: &str = "-differs";

/// How names of files tell a worker.
pub(super) fn voter(worker: &str) -> String {
    Digest::of(worker.as_bytes()).to_string()[..16].to_string()
}

fn note_on(worker: &str) -> String {
    format!("left-out/{}", voter(worker))
}

/// The checks of a job, from the names of their records.
pub(super) struct Checks(BTreeMap<usize, Vec<String>>);

impl Checks {
    /// Chunks that were checked.
    pub(super) fn checked(&self) -> usize {
        self.0.len()
    }

    pub(super) fn has(&self, chunk: usize) -> bool {
        self.0.contains_key(&chunk)
    }

    /// Whether a worker has checked a chunk.
    pub(super) fn by(&self, chunk: usize, voter: &str) -> bool {
        self.0.get(&chunk).is_some_and(|names| names.iter().any(|name| name.contains(voter)))
    }

    /// Chunks with results that differ.
    pub(super) fn disputed(&self) -> Vec<usize> {
        let differs = |names: &[String]| names.iter().any(|name| name.ends_with(DIFFERS));
        self.0.iter().filter(|(_, names)| differs(names)).map(|(chunk, _)| *chunk).collect()
    }

    /// Whether there are as many as the job wants, and all agree.
    pub(super) fn complete(&self, job: &Job) -> bool {
        self.checked() >= job.manifest.checks && self.disputed().is_empty()
    }
}

impl Job {
    pub(super) fn checks(&self) -> Result<Checks> {
        Ok(Checks(self.notes_in("checks")?))
    }

    /// Whether a worker returned wrong results.
    pub(super) fn left_out(&self, worker: &str) -> Result<bool> {
        self.place.exists(&note_on(worker))
    }

    /// Refuses a worker that returned wrong results.
    pub(super) fn require_honest(&self, worker: &str) -> Result<()> {
        if !self.left_out(worker)? {
            return Ok(());
        }
        let got = format!("{worker}, which returned wrong results of this job");
        let remedy = "test the memory and the processor of that machine, and work with another";
        Err(Error::bad_input("work", "a worker whose results are right", got, remedy))
    }

    /// Whether the results of a chunk count: they are in place, and if the job wants every chunk checked, a second worker agrees.
    ///
    /// # Errors
    /// [`Error::Io`] for a folder that cannot be read.
    pub fn is_settled(&self, chunk: usize) -> Result<bool> {
        let done = self.is_done(chunk)?;
        if !done || self.manifest.checks < self.chunks() {
            return Ok(done);
        }
        let checks = self.checks()?;
        Ok(checks.has(chunk) && !checks.disputed().contains(&chunk))
    }

    /// Compares the results of a second worker with those that are in place; whether they differ.
    pub(super) fn vote(&self, there: &Done, vote: &Done) -> Result<bool> {
        let differs = there.results != vote.results;
        let end = if differs { DIFFERS } else { "" };
        let name = format!("checks/{}-{}{end}", chunk_name(vote.chunk), voter(&vote.worker));
        self.place.put(&name, &sealed(vote)?)?;
        self.settle(vote.chunk)?;
        Ok(differs)
    }

    /// The records of all who computed a chunk in the class of the results that are in place, these first.
    fn votes(&self, chunk: usize) -> Result<Vec<Done>> {
        let mut votes = vec![self.done(chunk)?];
        for name in self.notes_in("checks")?.remove(&chunk).unwrap_or_default() {
            // A record that was cut counts for nothing.
            if let Ok(vote) = self.record(&format!("checks/{name}"), chunk)
                && vote.class == votes[0].class
                && !self.left_out(&vote.worker)?
            {
                votes.push(vote);
            }
        }
        Ok(votes)
    }

    /// Leaves out the workers that most others contradict. Two workers that contradict each other wait for a third.
    fn settle(&self, chunk: usize) -> Result<()> {
        let votes = self.votes(chunk)?;
        let mut groups = BTreeMap::<Vec<[u8; 32]>, BTreeSet<&str>>::new();
        let results = |vote: &Done| vote.results.iter().map(|digest| digest.0).collect::<Vec<_>>();
        for vote in &votes {
            groups.entry(results(vote)).or_default().insert(&vote.worker);
        }
        let most = groups.values().map(BTreeSet::len).max().unwrap_or(0);
        let mut largest = groups.iter().filter(|(_, workers)| workers.len() == most);
        if let (Some((right, _)), None, 2..) = (largest.next(), largest.next(), most) {
            for vote in votes.iter().filter(|vote| results(vote) != *right) {
                self.leave_out(&vote.worker, chunk)?;
            }
        }
        Ok(())
    }

    /// Leaves out a worker that returned wrong results of a chunk: it gets no chunk of this job again, and all of its results are
    /// computed by others.
    ///
    /// # Errors
    /// [`Error::Io`] for errors of the operating system.
    pub fn leave_out(&self, worker: &str, chunk: usize) -> Result<()> {
        let note = LeftOut { worker: worker.into(), chunk };
        self.place.put(&note_on(worker), &sealed(&note)?)?;
        let checks = self.checks()?.0;
        for name in checks.values().flatten().filter(|name| name.contains(&voter(worker))) {
            // Another worker may remove it at the same time.
            let _ = self.place.remove(&format!("checks/{name}"));
        }
        for chunk in self.finished()? {
            let made = |folder: &str| {
                let record = self.record(&format!("{folder}/{RECORD}"), chunk);
                record.is_ok_and(|done| done.worker == worker)
            };
            if made(&self.out(chunk)) {
                self.set_aside(chunk, &|folder| !made(folder))?;
            }
        }
        Ok(())
    }

    /// Settles a chunk by results that are certainly right; the workers that returned others, and which of their results differ.
    pub(super) fn contradicted(
        &self,
        chunk: usize,
        right: &[Digest],
    ) -> Result<Vec<(String, Vec<usize>)>> {
        let wrong = |vote: Done| {
            let pairs = right.iter().zip(&vote.results).enumerate();
            let results: Vec<usize> = pairs.filter(|(_, (a, b))| a != b).map(|(i, _)| i).collect();
            (!results.is_empty()).then_some((vote.worker, results))
        };
        Ok(self.votes(chunk)?.into_iter().filter_map(wrong).collect())
    }
}
