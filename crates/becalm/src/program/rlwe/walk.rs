//! The waves of a CKKS program, and what is said of its results.

use super::CkksProgram;
use crate::cipher::Rlwe;
use crate::program::{Reg, Wave};

/// The waves of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct CkksWalk {
    /// The instructions in waves.
    pub waves: Vec<Wave>,
    /// For each wave, the registers that nobody reads after it.
    pub dead_after: Vec<Vec<Reg>>,
}

impl CkksProgram {
    /// Its waves.
    pub fn walk(&self) -> CkksWalk {
        let waves = self.waves();
        CkksWalk { dead_after: self.dead_after(&waves), waves }
    }

    /// A result that a machine computed of these arguments: a bootstrap returns as many slots as its arguments have, and knows what
    /// error it adds.
    pub(crate) fn result(&self, inputs: &[&Rlwe], made: Rlwe) -> Rlwe {
        let slots = inputs.first().map_or(1, |x| x.slots);
        match self.error_of(slots) {
            Some(added) => {
                let arrived: f64 = inputs.iter().map(|x| x.error).sum();
                Rlwe { slots, ..made.refreshed(added, arrived) }
            }
            None => made,
        }
    }
}
