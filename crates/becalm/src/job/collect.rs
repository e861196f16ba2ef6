//! The results of a job in order.

use super::folder::Job;
use super::manifest::Scheme;
use crate::cipher::Lwe;
use crate::cipher::file::{Files, Part, Trust, write_error};
use crate::{Error, Result};
use std::cell::Cell;
use std::io::Write;
use std::path::PathBuf;

/// Missing chunks that an error names.
const NAMED: usize = 16;

impl Job {
    /// Files that [`Job::collect`] writes: one for each result, for CKKS one for each result of each lane.
    pub fn files(&self) -> usize {
        match self.scheme() {
            Scheme::Tfhe => self.results(),
            Scheme::Ckks => self.results().saturating_mul(self.lanes()),
        }
    }

    /// Writes the results in order, all files or none: the bytes that one machine would have written for all lanes at once. For CKKS the
    /// files of the first lane come first. The lanes of one result must fit memory.
    ///
    /// # Errors
    /// [`Error::BadInput`] naming the chunks that are missing, or for another number of files, or while checks are missing or workers do
    /// not agree; [`Error::BadFile`] naming a result that is damaged, which is moved away so that a worker computes it again; [`Error::Io`] and, without `overwrite`, for a file that exists.
    pub fn collect(&self, out: &[PathBuf], overwrite: bool, trust: Trust) -> Result<()> {
        if out.len() != self.files() {
            let wanted = format!("{} files for the results", self.files());
            return Err(Error::bad_input(
                "collect",
                wanted,
                out.len().to_string(),
                "name one for each result",
            ));
        }
        self.require_done()?;
        let reading = Cell::new(0);
        let collected = self.collect_into(out, overwrite, trust, &reading);
        if matches!(collected, Err(Error::BadFile(_) | Error::Io(_))) {
            self.mend(reading.get())?;
        }
        collected
    }

    fn collect_into(
        &self,
        out: &[PathBuf],
        overwrite: bool,
        trust: Trust,
        reading: &Cell<usize>,
    ) -> Result<()> {
        let mut files = Files::new(overwrite);
        match self.scheme() {
            Scheme::Tfhe => {
                for (i, path) in out.iter().enumerate() {
                    let part = |chunk| {
                        reading.set(chunk);
                        let bytes = self.result(&self.done(chunk)?, i, trust.limit)?;
                        Lwe::from_bytes(&bytes, trust)
                            .map_err(|e| e.at(&self.place.path(&self.out(chunk))))
                    };
                    let parts = (0..self.chunks()).map(part).collect::<Result<Vec<Lwe>>>()?;
                    let whole = Lwe::concat(&parts)?;
                    drop(parts);
                    files.write(whole.part(path)?)?;
                }
            }
            Scheme::Ckks => {
                let mut out = out.iter();
                for chunk in 0..self.chunks() {
                    reading.set(chunk);
                    let done = self.done(chunk)?;
                    for (i, path) in (0..done.results.len()).zip(&mut out) {
                        let bytes = self.result(&done, i, trust.limit)?;
                        files.write(Part::new(path, false, |file| {
                            file.write_all(&bytes).map_err(|e| write_error(path, &e))
                        }))?;
                    }
                }
            }
        }
        files.place()
    }

    fn require_done(&self) -> Result<()> {
        let done = self.finished()?;
        let missing: Vec<usize> =
            (0..self.chunks()).filter(|chunk| !done.contains(chunk)).collect();
        if missing.is_empty() {
            return self.require_checked();
        }
        let names: Vec<String> = missing.iter().take(NAMED).map(usize::to_string).collect();
        let more = if missing.len() > names.len() { ", …" } else { "" };
        let got = format!("{} missing: {}{more}", missing.len(), names.join(", "));
        let wanted = format!("the results of all {} chunks", self.chunks());
        Err(Error::bad_input("collect", wanted, got, "let workers finish the job first"))
    }

    /// Refuses results that too few workers have checked, or on which workers do not agree.
    fn require_checked(&self) -> Result<()> {
        let checks = self.checks()?;
        if checks.complete(self) {
            return Ok(());
        }
        let (wanted, disputed) = (self.manifest.checks, checks.disputed());
        let names: Vec<String> = disputed.iter().take(NAMED).map(usize::to_string).collect();
        let got = match names.is_empty() {
            true => format!("{} checks", checks.checked()),
            false => format!("results that differ, of chunks {}", names.join(", ")),
        };
        let remedy = "start a worker of another name, or run `becalm job verify --leave-out` on a machine that you trust";
        Err(Error::bad_input("collect", format!("{wanted} checks that agree"), got, remedy))
    }
}
