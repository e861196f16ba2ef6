//! The time that a job takes: estimated from its program, and measured once a chunk is done.

use super::folder::{Job, PROGRAM};
use crate::Result;
use crate::cipher::file::{Kind, Trust, kind_of};
use crate::program::{Cost, Program};
use serde::Serialize;

/// Multiply-adds a second of a core, as the costs of parameter sets count them. Cores differ by a factor of two or three.
const RATE: f64 = 4e9;

/// The time and work of all chunks of a job together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobTime {
    /// Seconds of one worker, or as an estimate those of one core.
    pub seconds: f64,
    /// Whether chunks were measured, or the cost of the program says it.
    pub measured: bool,
}

/// Seconds of a core for one lane of a program on a set of this cost.
pub(super) fn lane_seconds(cost: &Cost, set: f64) -> f64 {
    cost.bootstraps.max(cost.key_switches) as f64 * set / RATE
}

/// Seconds of a core for a program, in its file, on so many lanes. None for a program of CKKS: only a measurement tells.
///
/// # Errors
/// As the readers of programs.
pub fn expected_seconds(program: &[u8], lanes: usize, trust: Trust) -> Result<Option<f64>> {
    if kind_of(program)?.0 != Kind::Program {
        return Ok(None);
    }
    let program = Program::from_bytes(program, trust)?;
    Ok(Some(lanes as f64 * lane_seconds(&program.cost(), program.params().cost())))
}

impl Job {
    /// The time and work of all chunks together: the mean time of those that are done, or what their program says. None for a job of CKKS
    /// without a finished chunk.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) and [`Error::BadFile`](crate::Error::BadFile) for a job that cannot be read.
    pub fn time(&self, trust: Trust) -> Result<Option<JobTime>> {
        if let Some(each) = self.status()?.seconds_per_chunk {
            return Ok(Some(JobTime { seconds: each * self.chunks() as f64, measured: true }));
        }
        let program = self.checked(PROGRAM, self.manifest.program)?;
        let bytes = super::disk::read(&program, trust.limit)?;
        let seconds = expected_seconds(&bytes, self.lanes(), trust)?;
        Ok(seconds.map(|seconds| JobTime { seconds, measured: false }))
    }
}
