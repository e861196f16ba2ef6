//! The slow machine that defines the result of every instruction: exact arithmetic, one ciphertext at a time.

mod lwe;
mod polynomial;
mod rlwe;

use crate::Result;
use crate::backend::{Backend, CkksSetup, Info, Session};
use crate::cipher::EvaluationKey;
use crate::params::{CkksParams, TfheParams};
use crate::program::{Ckks, Need, Op};
use std::collections::BTreeSet;

/// The definition, as a machine.
pub struct Reference;

impl Backend for Reference {
    fn info(&self) -> Info {
        let description = "exact, one ciphertext at a time".to_string();
        Info { name: "reference", description, memory: 0, best_batch: 1 }
    }

    fn supports(&self, _op: &Op, _params: &TfheParams) -> bool {
        true
    }

    fn open(&self, keys: &EvaluationKey, _needs: &BTreeSet<Need>) -> Result<Box<dyn Session>> {
        Ok(Box::new(lwe::LweSession::new(keys)))
    }

    fn accepts_ckks(&self, _params: &CkksParams) -> Result<()> {
        Ok(())
    }

    fn open_ckks(&self, keys: CkksSetup) -> Result<Box<dyn Session<Ckks>>> {
        Ok(Box::new(rlwe::RlweSession::new(keys)?))
    }
}
