//! The waves of a CKKS program, its constants, and what is known of its results.

use super::CkksProgram;
use crate::cipher::{Account, Integers, Rlwe};
use crate::program::{Reg, Wave};
use std::any::Any;
use std::fmt::{Debug, Formatter};
use std::sync::Arc;

/// The waves of a program, and its constants where a machine has prepared them.
#[derive(Debug, Clone)]
pub struct CkksWalk {
    /// The instructions in waves.
    pub waves: Vec<Wave>,
    /// For each wave, the registers that are not read after it.
    pub dead_after: Vec<Vec<Reg>>,
    /// The constants in the form of a machine; any other machine, or none, makes its own.
    pub constants: Option<Constants>,
}

/// The matrices and plaintexts of a program in the form of one kind of machine. No key is needed for them.
#[derive(Clone)]
pub struct Constants {
    bytes: usize,
    held: Arc<dyn Any + Send + Sync>,
}

impl Constants {
    /// Constants of so many bytes.
    pub fn new(bytes: usize, held: Arc<dyn Any + Send + Sync>) -> Constants {
        Constants { bytes, held }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The constants, if they are of this type.
    pub fn held<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.held.clone().downcast().ok()
    }
}

impl Debug for Constants {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "Constants of {} bytes", self.bytes)
    }
}

impl CkksProgram {
    /// Its waves.
    pub fn walk(&self) -> CkksWalk {
        let waves = self.waves();
        CkksWalk { dead_after: self.dead_after(&waves), waves, constants: None }
    }

    /// The results that a machine computed of these arguments, with their accounts. A bootstrap returns as many slots as its arguments
    /// have.
    pub(crate) fn stamped(&self, inputs: &[&Rlwe], made: impl Iterator<Item = Rlwe>) -> Vec<Rlwe> {
        let each = inputs.iter().zip(&self.inputs);
        let given: Vec<Account> = each.map(|(x, reg)| self.arrived(x, *self.reg(*reg))).collect();
        let slots = self.limits.error.and(inputs.first().map(|x| x.slots));
        let accounts = self.accounts(&given).into_iter();
        let count = inputs.iter().filter_map(|x| x.integers).map(|own| own.count).max();
        let integers = |reg: &Reg| {
            let bits = self.reg(*reg).integers?;
            Some(Integers { bits, count: count.unwrap_or(self.params().degree()) })
        };
        let each = made.zip(accounts).zip(&self.outputs);
        each.map(|((x, account), reg)| Rlwe {
            account,
            slots: slots.unwrap_or(x.slots),
            integers: integers(reg),
            ..x
        })
        .collect()
    }
}
