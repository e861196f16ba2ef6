//! This processor: [`Cpu`] runs programs of TFHE (`lwe`) and of CKKS (`rlwe`).

mod linear;
mod lwe;
pub(in crate::backend) mod rlwe;

pub use rlwe::MemoryBudget;

use crate::backend::encoded::Encoded;
use crate::backend::{Backend, Ckks, CkksSetup, Info, Runs, Session, Tfhe, TfheSetup};
use crate::ckks::{Chain, Context};
use crate::math::memory::available_memory;
use crate::math::simd::Level;
use crate::math::threads::Threads;
use crate::program::rlwe::CkksProgram;
use crate::program::{Constants, Pace};
use crate::{Error, Progress, Result};
use std::sync::Arc;

/// More threads than any machine has cores.
const MAX_THREADS: usize = 1024;

/// The processor that the program runs on.
#[derive(Clone)]
pub struct Cpu {
    /// Its description. To read the free memory takes as long as a sum of ciphertexts, so that is done once.
    info: Info,
    pool: Arc<Threads>,
    level: Level,
    /// Whether nobody named a number of threads.
    all: bool,
}

impl Cpu {
    /// A backend of `threads` threads; 0 means all.
    ///
    /// # Errors
    /// [`Error::BadInput`] for more than 1024 threads; [`Error::Memory`] if the system gives no threads.
    pub fn new(threads: usize) -> Result<Self> {
        Level::check_environment()?;
        Cpu::with_instructions(threads, Level::best())
    }

    /// A backend that uses the given vector instructions, for comparisons.
    ///
    /// # Errors
    /// As [`Cpu::new`]; [`Error::Unsupported`] if the processor lacks the instructions.
    pub fn with_instructions(threads: usize, level: Level) -> Result<Self> {
        if !Level::available().contains(&level) {
            return Err(Error::unsupported(
                "cpu",
                format!("{:?} instructions", Level::available()),
                level.name(),
                "choose a level that this processor has",
            ));
        }
        if threads > MAX_THREADS {
            let wanted = format!("at most {MAX_THREADS} threads");
            return Err(Error::bad_input("cpu", wanted, threads.to_string(), "0 means all cores"));
        }
        let pool = Arc::new(Threads::new(threads)?);
        let info = Info {
            name: "cpu",
            description: format!("{}, {} threads", level.name(), pool.count()),
            memory: available_memory().unwrap_or(0) as u64,
            best_batch: pool.count() * lwe::ROTATION_TILE,
            pace: Pace::default(),
        };
        Ok(Cpu { info, pool, level, all: threads == 0 })
    }

    /// Its number of threads.
    pub fn threads(&self) -> usize {
        self.pool.count()
    }

    /// Whether it has all threads, because nobody named a number.
    pub(super) fn has_all(&self) -> bool {
        self.all
    }

    /// Runs work, key generation for example, on this backend's threads instead of all.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }
}

impl Backend for Cpu {
    fn info(&self) -> Info {
        self.info.clone()
    }

    fn tfhe(&self) -> Option<&dyn Runs<Tfhe>> {
        Some(self)
    }

    fn ckks(&self) -> Option<&dyn Runs<Ckks>> {
        Some(self)
    }
}

impl Runs<Tfhe> for Cpu {
    fn open(&self, setup: TfheSetup) -> Result<Box<dyn Session>> {
        lwe::open(&self.pool, self.level, &setup.keys, &setup.needs)
    }
}

impl Runs<Ckks> for Cpu {
    fn prepare(
        &self,
        chain: &Arc<Chain>,
        program: &CkksProgram,
        bytes: usize,
        progress: Progress,
    ) -> Result<Option<Constants>> {
        self.pool.install(|| {
            let context = Context::of(chain, self.level)?;
            Ok(Some(Encoded::of(&context, program, bytes, progress)?.constants()))
        })
    }

    fn open(&self, setup: CkksSetup) -> Result<Box<dyn Session<Ckks>>> {
        let context = self.pool.install(|| Context::of(&setup.chain, self.level))?;
        Ok(rlwe::open(&self.pool, self.info(), context, setup))
    }
}
