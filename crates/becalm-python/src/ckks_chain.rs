//! CKKS before anything is made: the chain of a set, the bootstraps that it records, and the sizes of keys.

use crate::call::{guarded, raise};
use crate::ckks::form_named;
use crate::ckks_session::{CkksProgram, CkksSession};
use crate::keys::CkksNeeds;
use becalm::backend::Shares;
use becalm::bootstrap::ckks::{Settings, Values, lossy, regular, sign, sparse};
use becalm::ckks::Chain;
use becalm::params::CkksParams;
use becalm::{Error, Result};
use pyo3::prelude::*;
use std::sync::Arc;

/// The chain of moduli of a parameter set: kilobytes, and enough to plan.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksChain(Chain);

#[pymethods]
impl CkksChain {
    /// The chain of the set of a name, whatever its security.
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        guarded(|| {
            let made = CkksParams::named(name).and_then(Chain::new);
            Ok(CkksChain(made.map_err(raise)?))
        })
    }

    /// Bytes, about, of the tables of a context of this set.
    #[getter]
    fn table_bytes(&self) -> usize {
        self.0.table_bytes()
    }

    /// Bytes that a bootstrap takes beside its keys and matrices, about.
    #[getter]
    fn work_bytes(&self) -> usize {
        Shares::work(self.0.params())
    }

    /// The level that a bootstrap raises to.
    #[getter]
    fn top_level(&self) -> usize {
        self.0.params().top_level()
    }

    /// The highest level of each tier. Keys of a tier serve no other.
    #[getter]
    fn tier_tops(&self) -> Vec<usize> {
        self.0.params().tiers().into_iter().map(|levels| levels.end - 1).collect()
    }

    /// Least bytes of keys and matrices with which a bootstrap runs.
    fn least_bytes(&self, program: &CkksProgram) -> PyResult<usize> {
        guarded(|| Ok(Shares::least(&self.0, &program.0)))
    }

    /// Bytes of the matrices of a bootstrap, encoded.
    fn matrix_bytes(&self, program: &CkksProgram) -> PyResult<usize> {
        guarded(|| Ok(CkksSession::matrix_bytes(&self.0, program)))
    }

    /// Bytes of keys in a file.
    fn stored_key_bytes(&self, needs: &CkksNeeds) -> PyResult<usize> {
        guarded(|| Ok(self.0.stored_key_bytes(&needs.0)))
    }

    /// Bytes in memory of keys in a form.
    fn key_bytes(&self, needs: &CkksNeeds, form: &str) -> PyResult<usize> {
        let form = form_named(form)?;
        guarded(|| Ok(self.0.key_bytes_as(&needs.0, form)))
    }

    /// Records a bootstrap: `kind` is regular, sparse, lossy or sign, `values` complex, real or merged.
    fn program(
        &self,
        kind: &str,
        slots: usize,
        stage_count: Option<usize>,
        baby: usize,
        values: &str,
    ) -> PyResult<CkksProgram> {
        guarded(|| {
            let values = values_named(values).map_err(raise)?;
            let settings = Settings { stage_count, baby, values };
            let program = match kind {
                "regular" => regular(&self.0, &settings),
                "sparse" => sparse(&self.0, slots, &settings),
                "lossy" => lossy(&self.0, &settings),
                "sign" => sign(&self.0, &settings),
                other => {
                    let wanted = "regular, sparse, lossy or sign as kind";
                    Err(Error::bad_input("bootstrap", wanted, other, "choose one of these"))
                }
            };
            Ok(CkksProgram(Arc::new(program.map_err(raise)?)))
        })
    }
}

fn values_named(name: &str) -> Result<Values> {
    match name {
        "complex" => Ok(Values::Complex),
        "real" => Ok(Values::Real),
        "merged" => Ok(Values::Merged),
        other => {
            let wanted = "complex, real or merged values";
            Err(Error::bad_input("bootstrap", wanted, other, "choose one of these"))
        }
    }
}
