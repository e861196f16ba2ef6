//! The facts of a CKKS program that are known before it runs: its waves, which arguments fit, and what is said of results.

use super::{CkksProgram, RlweInfo};
use crate::cipher::{Account, KeyId, Rlwe};
use crate::program::{Reg, Wave};
use crate::{Error, Result};

/// The waves of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct CkksWalk {
    /// The instructions in waves.
    pub waves: Vec<Wave>,
    /// For each wave, the registers that nobody reads after it.
    pub dead_after: Vec<Vec<Reg>>,
}

const OP: &str = "bootstrap";

impl CkksProgram {
    /// Its waves.
    pub fn walk(&self) -> CkksWalk {
        let waves = self.waves();
        CkksWalk { dead_after: self.dead_after(&waves), waves }
    }

    /// Refuses arguments under another key than `key`, or that do not fit the program.
    pub(crate) fn check_arguments(&self, key: KeyId, inputs: &[&Rlwe]) -> Result<()> {
        if inputs.len() != self.inputs().len() {
            let (wanted, got) =
                (format!("{} ciphertexts", self.inputs().len()), inputs.len().to_string());
            return Err(Error::bad_input(OP, wanted, got, "pass one for each argument"));
        }
        for (x, reg) in inputs.iter().zip(self.inputs()) {
            self.chain.check_set(OP, x.params)?;
            if x.key != key {
                let (wanted, got) = (format!("key {key}"), x.key.to_string());
                let remedy = "use the evaluation keys of the ciphertext's key";
                return Err(Error::wrong_key(OP, wanted, got, remedy));
            }
            let info = self.reg(*reg);
            if x.level < info.level {
                let wanted = format!("a ciphertext at level {} or above", info.level);
                let remedy =
                    "use a kind of bootstrap that starts at level 0, or encrypt at a higher level";
                return Err(Error::bad_input(OP, wanted, format!("level {}", x.level), remedy));
            }
            if x.slots > info.slots || x.slots != inputs[0].slots {
                let most = info.slots.min(inputs[0].slots);
                let wanted = format!("ciphertexts of at most {most} slots, as many in each");
                let remedy = "record the program for as many slots";
                return Err(Error::bad_input(OP, wanted, format!("{} slots", x.slots), remedy));
            }
        }
        Ok(())
    }

    /// The result in a register that a machine computed of these arguments: level and scale are those of the program, and the slots
    /// those of the arguments.
    pub(crate) fn result(&self, inputs: &[&Rlwe], reg: Reg, made: Rlwe) -> Rlwe {
        let slots = inputs.first().map_or(1, |x| x.slots);
        let arrived: f64 = inputs.iter().map(|x| x.error).sum();
        let added = self.error_of(slots);
        let error = added.map_or(made.error, |own| own.hypot(arrived));
        // The formula of a bootstrap is for values without structure, and no upper bound.
        let account = if added.is_some() { Account::UNKNOWN } else { made.account };
        let RlweInfo { level, scale, .. } = *self.reg(reg);
        Rlwe { level, scale, slots, error, account, ..made }
    }
}
