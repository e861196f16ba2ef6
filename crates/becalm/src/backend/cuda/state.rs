//! The state of a session on its device: the keys, and the program that is loaded.

use super::keys::DeviceKeys;
use super::layout::{Places, Step};
use super::memory::{Block, Recording};
use super::tiling::{Tiling, Tuning};
use crate::backend::registers::not_loaded;
use crate::backend::{Info, Loaded};
use crate::params::TfheParams;
use crate::program::Reg;
use crate::{Error, Result};
use becalm_cuda::{Device, Ring};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sessions of one device have the same streams, and the launches that one records must be its own: they ask the device by turns.
pub(super) type Turn = Arc<Mutex<()>>;

/// Waits until no other session asks.
pub(super) fn taken(turn: &Turn) -> MutexGuard<'_, ()> {
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keys on a device, and a program.
pub(super) struct CudaSession {
    pub info: Info,
    pub device: Arc<dyn Device>,
    /// Until it is dropped.
    pub keys: Option<DeviceKeys>,
    pub params: Arc<TfheParams>,
    pub ring: Ring,
    pub tuning: Tuning,
    pub turn: Turn,
    pub running: Option<Running>,
    /// Why a wave was not recorded or replayed, the first time.
    pub unrecorded: Option<String>,
}

/// How a wave was put on a device so far. Kernels are loaded as they are launched for the first time, and most programs run
/// once: a wave that comes again is recorded, and then replayed.
pub(super) enum Wave {
    New,
    Known,
    Recorded(Recording),
    /// A wave that could not be recorded or replayed is launched from then on, and not recorded again.
    Plain,
}

/// A loaded program.
pub(super) struct Running {
    // Before the memory that they know.
    pub waves: Vec<Wave>,
    pub loaded: Loaded,
    pub alive: Vec<bool>,
    pub tiling: Tiling,
    pub places: Places,
    pub space: Block,
    pub lists: Block,
    pub scratch: Block,
    pub steps: Vec<Vec<Step>>,
}

impl Running {
    /// The byte of a lane of a register in the space of registers.
    pub fn place(&self, at: Reg, lane: usize) -> u64 {
        let width = self.loaded.program.width(at);
        self.places.registers[at.0 as usize] + (8 * lane * width) as u64
    }

    pub fn require_alive(&self, regs: &[Reg]) -> Result<()> {
        match regs.iter().find(|r| !self.alive[r.0 as usize]) {
            None => Ok(()),
            Some(r) => Err(Error::bad_input(
                "run",
                "every input written and waves run in order",
                format!("register {} empty", r.0),
                "write the inputs, then run the waves from the first",
            )),
        }
    }
}

impl CudaSession {
    pub(super) fn keys(&self) -> Result<&DeviceKeys> {
        self.keys.as_ref().ok_or_else(not_loaded)
    }

    /// Steps of a rotation.
    pub(super) fn groups(&self) -> u32 {
        (self.params.lwe_dimension / self.params.rotation.group_bits()) as u32
    }
}
