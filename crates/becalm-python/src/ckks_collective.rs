//! Collective keys of CKKS, for Python.

use crate::call::{raise, supervised};
use crate::ciphertext::trust;
use crate::ckks_evaluate::CkksKeys;
use crate::ckks_keys::CkksPublicKey;
use crate::ckks_machine::{CkksMachine, Shared, brief};
use crate::ckks_threshold::CkksKeyShare;
use crate::keys::CkksNeeds;
use becalm::cipher::KeyForm;
use becalm::cipher::file::hex;
use becalm::ckks::{Agreement, Context, KeyShare, Party, PartyMessage};
use becalm::math::random::PublicSeed;
use becalm::{Progress, Result};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;

fn all(messages: &[PyRef<'_, CkksPartyMessage>]) -> Vec<PartyMessage> {
    messages.iter().map(|message| message.1.clone()).collect()
}

/// Work of seconds on the threads of a machine, which is followed and can be stopped.
fn followed<T: Send>(
    py: Python<'_>,
    on: &Shared,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&Context, Progress) -> Result<T> + Send,
) -> PyResult<T> {
    supervised(py, progress, |watch| {
        on.cpu.install(|| work(&on.context, &|done, all| watch.step(done, all)))
    })
}

/// A party of a collective key.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksParty(Shared, Party);

#[pymethods]
impl CkksParty {
    /// A party of fresh secrets.
    #[new]
    fn new(
        py: Python<'_>,
        on: &CkksMachine,
        needs: &CkksNeeds,
        parties: usize,
        threshold: usize,
        seed: [u8; 32],
        party: usize,
    ) -> PyResult<Self> {
        let made = brief(py, &on.0, |c| {
            let agreement = Agreement::new(c, parties, threshold, PublicSeed(seed), &needs.0)?;
            Party::new(c, &agreement, party)
        })?;
        Ok(CkksParty(on.0.clone(), made))
    }

    /// Reads a party.
    #[staticmethod]
    fn load(py: Python<'_>, on: &CkksMachine, path: PathBuf) -> PyResult<Self> {
        let party = brief(py, &on.0, |c| Party::load(c, &path, trust(true, None)))?;
        Ok(CkksParty(on.0.clone(), party))
    }

    /// A party from the bytes of its file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, on: &CkksMachine, file: &[u8]) -> PyResult<Self> {
        let party = brief(py, &on.0, |c| Party::from_bytes(c, file, trust(true, None)))?;
        Ok(CkksParty(on.0.clone(), party))
    }

    /// Identity of what it agreed on, in hexadecimal digits.
    #[getter]
    fn agreement(&self) -> String {
        hex(&self.1.agreement().id())
    }

    /// Its number, from 1.
    #[getter]
    fn party(&self) -> usize {
        self.1.party()
    }

    /// How many parties there are.
    #[getter]
    fn parties(&self) -> usize {
        self.1.agreement().parties()
    }

    /// How many of them decrypt together.
    #[getter]
    fn threshold(&self) -> usize {
        self.1.agreement().threshold()
    }

    /// Its first message.
    fn first(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<CkksPartyMessage> {
        let message = followed(py, &self.0, progress, |c, p| self.1.first_message(c, p))?;
        Ok(CkksPartyMessage(self.0.clone(), message))
    }

    /// Its answer to the first messages of all.
    fn second(
        &self,
        py: Python<'_>,
        messages: Vec<PyRef<'_, CkksPartyMessage>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<CkksPartyMessage> {
        let firsts = all(&messages);
        let second = |c: &Context, p: Progress| self.1.second_message(c, &firsts, p);
        let message = followed(py, &self.0, progress, second)?;
        Ok(CkksPartyMessage(self.0.clone(), message))
    }

    /// The parts of its secret for all parties, where fewer than all decrypt.
    fn deal(&self, py: Python<'_>) -> PyResult<Vec<CkksKeyShare>> {
        let parts = brief(py, &self.0, |c| self.1.deal(c))?;
        Ok(parts.into_iter().map(|part| CkksKeyShare(self.0.clone(), part)).collect())
    }

    /// Its share of the key, of what the others dealt.
    fn share(
        &self,
        py: Python<'_>,
        messages: Vec<PyRef<'_, CkksPartyMessage>>,
        dealt: Vec<PyRef<'_, CkksKeyShare>>,
    ) -> PyResult<CkksKeyShare> {
        let firsts = all(&messages);
        let dealt: Vec<&KeyShare> = dealt.iter().map(|part| &part.1).collect();
        let share = brief(py, &self.0, |c| self.1.share(c, &firsts, &dealt))?;
        Ok(CkksKeyShare(self.0.clone(), share))
    }

    /// Writes a file that only its owner can read.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        brief(py, &self.0, |c| self.1.save(c, &path))
    }

    /// The bytes of its file. Python wipes no memory: the caller has to guard them.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &brief(py, &self.0, |c| self.1.to_bytes(c))?))
    }
}

/// A message of a party of a collective key.
#[pyclass(frozen, module = "becalm._native")]
pub struct CkksPartyMessage(Shared, PartyMessage);

#[pymethods]
impl CkksPartyMessage {
    /// Reads a message of at most `limit` bytes.
    #[staticmethod]
    fn load(py: Python<'_>, on: &CkksMachine, path: PathBuf, limit: Option<u64>) -> PyResult<Self> {
        let message = brief(py, &on.0, |c| PartyMessage::load(c, &path, trust(true, limit)))?;
        Ok(CkksPartyMessage(on.0.clone(), message))
    }

    /// A message from the bytes of its file.
    #[staticmethod]
    fn from_bytes(
        py: Python<'_>,
        on: &CkksMachine,
        file: &[u8],
        limit: Option<u64>,
    ) -> PyResult<Self> {
        let message = brief(py, &on.0, |c| PartyMessage::from_bytes(c, file, trust(true, limit)))?;
        Ok(CkksPartyMessage(on.0.clone(), message))
    }

    /// Name of the parameter set.
    #[getter]
    fn params(&self) -> &'static str {
        self.0.context.params().name
    }

    /// Identity of what its party agreed on, in hexadecimal digits.
    #[getter]
    fn agreement(&self) -> String {
        hex(&self.1.agreement().id())
    }

    /// Number of its party, from 1.
    #[getter]
    fn party(&self) -> usize {
        self.1.party()
    }

    /// How many parties there are.
    #[getter]
    fn parties(&self) -> usize {
        self.1.agreement().parties()
    }

    /// 1 or 2.
    #[getter]
    fn round(&self) -> usize {
        self.1.round()
    }

    /// Digest of all of it, in hexadecimal digits.
    #[getter]
    fn digest(&self) -> String {
        hex(&self.1.digest())
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        brief(py, &self.0, |c| self.1.save(c, &path))
    }

    /// The bytes of its file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &brief(py, &self.0, |c| self.1.to_bytes(c))?))
    }
}

/// The keys that the messages of both rounds add up to, in a form, for a context of the set.
#[pyfunction]
pub fn ckks_aggregate(
    py: Python<'_>,
    on: &CkksMachine,
    messages: Vec<PyRef<'_, CkksPartyMessage>>,
    form: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<(CkksPublicKey, CkksKeys)> {
    let (messages, form) = (all(&messages), KeyForm::named(form).map_err(raise)?);
    let aggregate = |c: &Context, p: Progress| PartyMessage::aggregate(c, &messages, form, p);
    let (public, keys) = followed(py, &on.0, progress, aggregate)?;
    let id = public.id().to_string();
    Ok((CkksPublicKey(on.0.clone(), public, id), CkksKeys(on.0.clone(), Arc::new(keys))))
}
