//! The slow machine that defines the result of every instruction: exact arithmetic, one ciphertext at a time.

mod lwe;
mod polynomial;
mod rlwe;

use crate::Result;
use crate::backend::{Backend, Ckks, CkksSetup, Info, Runs, Session, Tfhe, TfheSetup};
use crate::program::Pace;

/// The definition, as a machine.
pub struct Reference;

impl Backend for Reference {
    fn info(&self) -> Info {
        let description = "exact, one ciphertext at a time".to_string();
        Info { name: "reference", description, memory: 0, best_batch: 1, pace: Pace::default() }
    }

    fn tfhe(&self) -> Option<&dyn Runs<Tfhe>> {
        Some(self)
    }

    fn ckks(&self) -> Option<&dyn Runs<Ckks>> {
        Some(self)
    }
}

impl Runs<Tfhe> for Reference {
    fn open(&self, setup: TfheSetup) -> Result<Box<dyn Session>> {
        Ok(Box::new(lwe::LweSession::new(&setup.keys)))
    }
}

impl Runs<Ckks> for Reference {
    fn open(&self, setup: CkksSetup) -> Result<Box<dyn Session<Ckks>>> {
        Ok(Box::new(rlwe::RlweSession::new(setup)?))
    }
}
