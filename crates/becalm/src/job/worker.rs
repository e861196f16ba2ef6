//! How a worker works: its name, and the times that it keeps.

use super::manifest::is_name;
use crate::cipher::file::Trust;
use crate::{Error, Result};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How a worker works.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Its name, in claims and in the records of results.
    pub name: String,
    /// The time after which the claim of another worker is stale if it has not changed: by this worker's clock, and not before the
    /// time that the other worker asked for. It rewrites its own claims four times as often.
    pub lease: Duration,
    /// The time without a step, one or a few instructions, after which a computation counts as hanging: its chunk is given back.
    pub patience: Duration,
    /// Whether to end after one chunk.
    pub once: bool,
    /// The sets and sizes that are accepted.
    pub trust: Trust,
}

impl Worker {
    /// A worker with a lease of 60 seconds and a patience of ten minutes that works until every chunk is done.
    pub fn new(name: impl Into<String>) -> Worker {
        let (lease, patience) = (LEASE, PATIENCE);
        Worker { name: name.into(), lease, patience, once: false, trust: Trust::default() }
    }

    pub(super) fn check(&self) -> Result<()> {
        let plain = is_name(&self.name) && !self.name.contains(['"', '\\']);
        if !plain {
            let wanted = "a name of 1 to 64 printable characters without quotes";
            return Err(Error::bad_input(
                "work",
                wanted,
                self.name.escape_default().to_string(),
                "name the worker otherwise",
            ));
        }
        let times = Duration::from_millis(10)..=DAY;
        for (name, time) in [("lease", self.lease), ("patience", self.patience)] {
            if !times.contains(&time) {
                let wanted = format!("a {name} of 10 milliseconds to a day");
                let remedy = format!("choose another {name}");
                return Err(Error::bad_input("work", wanted, format!("{time:?}"), remedy));
            }
        }
        Ok(())
    }
}
