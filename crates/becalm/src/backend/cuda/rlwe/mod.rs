//! CKKS on GPUs: residues of 50 bits in doubles, as on the CPU, so that keys, files and results are the same.
//!
//! [`session`] brings keys and matrices onto a device and records a program as launches, [`instructions`] says which, [`tape`] keeps them
//! and plans their memory; the other files are the arithmetic.

mod arithmetic;
mod instructions;
mod key_switch;
mod keys;
mod linear;
mod polynomial;
mod recorder;
mod session;
mod tables;
mod tape;

use super::keys::require;
use super::state::taken;
use super::{Cuda, information, refused};
use crate::backend::several::joined;
use crate::backend::{Ckks, CkksSetup, Cpu, Runs, Session};
use crate::ckks::{Chain, Context};
use crate::math::simd::Level;
use crate::math::threads::Threads;
use crate::params::CkksParams;
use crate::program::Constants;
use crate::program::rlwe::CkksProgram;
use crate::{Error, Progress, Result};
use becalm_cuda::rns::convert_shared;
use becalm_cuda::{Device, Kernels};
use session::{CudaRlweSession, Kept};
use std::ops::RangeInclusive;
use std::sync::{Arc, PoisonError, Weak};
pub(super) use tables::Tables;

/// log2 N of the rings that the kernels run.
const LOG2_DEGREES: RangeInclusive<u32> = 12..=17;

impl Cuda {
    /// The tables of a chain on a device, made once.
    fn tables(&self, device: &Arc<dyn Device>, chain: &Arc<Chain>) -> Result<Arc<Tables>> {
        let mut made = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        made.retain(|(of, _)| of.strong_count() > 0);
        let same = |(of, tables): &&(Weak<Chain>, Arc<Tables>)| {
            of.upgrade().is_some_and(|of| Arc::ptr_eq(&of, chain)) && tables.is_on(device)
        };
        if let Some((_, tables)) = made.iter().find(same) {
            return Ok(tables.clone());
        }
        require("open", device.as_ref(), Tables::bytes(chain))?;
        let tables = Arc::new(Tables::new(device, chain)?);
        made.push((Arc::downgrade(chain), tables.clone()));
        Ok(tables)
    }
}

impl Runs<Ckks> for Cuda {
    /// Also whether there are kernels for the ring.
    ///
    /// # Errors
    /// [`Error::WrongParams`], [`Error::Unsupported`].
    fn accepts(&self, params: &CkksParams) -> Result<()> {
        let log2_n = params.log2_degree;
        if !LOG2_DEGREES.contains(&log2_n) {
            let wanted = "a set of 4096 to 131072 coefficients";
            let got = format!("{} with {}", params.name, params.degree());
            let remedy = "choose such a set (`becalm params`), or compute on the CPU";
            return Err(Error::wrong_params("cuda", wanted, got, remedy).or_cpu());
        }
        if let Some(small) = self.devices.iter().find(|d| d.info().shared < convert_shared(log2_n))
        {
            let (wanted, info) = (convert_shared(log2_n) >> 10, small.info());
            let got = format!("{} with {}", info.name, info.shared >> 10);
            let wanted =
                format!("a GPU of {wanted} KiB of shared memory a block for {}", params.name);
            let remedy = "choose a set of a smaller ring, or compute on the CPU";
            return Err(Error::unsupported("cuda", wanted, got, remedy).or_cpu());
        }
        let _turns: Vec<_> = self.turns.iter().map(taken).collect();
        let prepare = |device: &Arc<dyn Device>| {
            let prepared = device.prepare(&Kernels::Rns { log2_n });
            prepared.map_err(|f| refused("cuda", device.as_ref(), f))
        };
        self.devices.iter().try_for_each(prepare)
    }

    /// Encoded by the processor; a session brings them onto its device.
    fn prepare(
        &self,
        chain: &Arc<Chain>,
        program: &CkksProgram,
        bytes: usize,
        progress: Progress,
    ) -> Result<Option<Constants>> {
        Runs::<Ckks>::prepare(&Cpu::new(0)?, chain, program, bytes, progress)
    }

    fn open(&self, setup: CkksSetup) -> Result<Box<dyn Session<Ckks>>> {
        Runs::<Ckks>::accepts(self, setup.chain.params())?;
        let context = Arc::new(Context::of(&setup.chain, Level::best())?);
        let pool = Arc::new(Threads::new(0)?);
        let mut sessions: Vec<(Box<dyn Session<Ckks>>, _)> = vec![];
        for (device, turn) in self.devices.iter().zip(&self.turns) {
            let _turn = taken(turn);
            let tables = self.tables(device, &setup.chain)?;
            let keys = keys::Keys::new(device);
            let group = self.tuning.group.max(1) as usize;
            let info = crate::backend::Info { best_batch: group, ..information([device]) };
            let session = CudaRlweSession {
                info: info.clone(),
                device: device.clone(),
                group,
                turn: turn.clone(),
                pool: pool.clone(),
                context: context.clone(),
                on: setup.clone(),
                kept: Some(Kept { tables, keys, maps: (vec![], vec![]) }),
                running: None,
                waiting: None,
                unrecorded: None,
            };
            sessions.push((Box::new(session), info));
        }
        Ok(joined(sessions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becalm_cuda::launch::Launch;
    use becalm_cuda::rns::Conversion;

    /// A rescale to the tier below converts all words of a level and the special ones, to as many as any level has.
    #[test]
    fn conversions_of_every_set_fit_the_shared_memory_that_a_gpu_is_asked_for() {
        for params in CkksParams::all() {
            let chain = Chain::new(params).unwrap();
            let words = |level: usize| (chain.words(level) + chain.special()) as u32;
            let most = (0..=params.top_level()).map(words).max().unwrap();
            let whole = Conversion { sources: most, targets: most, ..Conversion::default() };
            let log2_n = params.log2_degree;
            let launch = Launch::convert_words(log2_n, &[whole], 2);
            let (name, limit) = (params.name, convert_shared(log2_n));
            assert!(launch.shared <= limit, "{name}: {} of {limit} bytes", launch.shared);
        }
    }
}
