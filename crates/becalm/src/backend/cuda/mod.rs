//! The backend for GPUs of NVIDIA. The kernels and the shapes of their launches are those of the crate `becalm-cuda`, and so
//! is [`Device`], which the driver ([`driver`]) and the emulator implement: everything here but the driver runs in tests.
//!
//! Keys are converted once and stay on the device, registers live there, a wave is a few launches. Arithmetic is that of the
//! CPU backend: modulo 2^64, f64 FFT. Each GPU has a session, and [several](super::several) share lanes or waves.

mod driver;
mod handles;
mod images;
mod keys;
mod layout;
mod memory;
mod micro;
mod nvrtc;
mod pace;
mod rlwe;
mod rotation;
mod session;
mod staging;
mod state;
mod tiling;

pub use becalm_cuda::images;
pub use driver::gpus;
pub use micro::{Figure, Micro};
pub use nvrtc::{look_for_nvrtc, nvrtc};

use super::several::joined;
use super::{Backend, Ckks, Info, Runs, Session, Tfhe, TfheSetup};
use crate::cipher::EvaluationKey;
use crate::ckks::Chain;
use crate::math::Modulus;
use crate::params::{Rotation, TfheParams};
use crate::program::{Need, Op, Pace};
use crate::{Error, Result};
use becalm_cuda::launch::Launch;
use becalm_cuda::{Argument, Arithmetic, Device, Fault, Kernels, Ring};
use state::{CudaSession, Turn, taken};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};

/// Bytes of a GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyMemory {
    /// Bytes of the opened parts of a key, as long as they are open.
    pub key: u64,
    /// Bytes of room to convert them, given back before anything runs.
    pub room: u64,
}

impl KeyMemory {
    /// Bytes that are free before, if all goes well.
    pub fn total(self) -> u64 {
        self.key + self.room
    }
}

/// One or more GPUs.
pub struct Cuda {
    devices: Vec<Arc<dyn Device>>,
    tuning: tiling::Tuning,
    /// One for each device.
    turns: Vec<Turn>,
    /// The tables of the chains of CKKS that are in use, on each device.
    tables: Mutex<Vec<(Weak<Chain>, Arc<rlwe::Tables>)>>,
}

impl Cuda {
    /// All GPUs of this machine that have kernels.
    ///
    /// # Errors
    /// [`Error::Device`] without a GPU or a driver of CUDA 13; [`Error::Unsupported`] if no GPU is of compute capability 8.0
    /// or later.
    pub fn new() -> Result<Self> {
        Cuda::with_devices(driver::open()?)
    }

    /// These devices.
    ///
    /// # Errors
    /// [`Error::Device`] for none; [`Error::BadInput`] if `$BECALM_CUDA_TUNE` is not understood.
    pub fn with_devices(devices: Vec<Arc<dyn Device>>) -> Result<Self> {
        if devices.is_empty() {
            let remedy = "compute on the CPU";
            return Err(Error::device("cuda", "at least one GPU", "none", remedy).or_cpu());
        }
        let tuning = tiling::Tuning::from_environment()?;
        let turns = devices.iter().map(|_| Turn::default()).collect();
        Ok(Cuda { devices, tuning, turns, tables: Mutex::default() })
    }

    /// Whether this machine has no driver, or a driver and no GPU.
    pub(super) fn absent() -> bool {
        driver::absent()
    }

    /// Whether the kernels run a parameter set.
    ///
    /// # Errors
    /// [`Error::WrongParams`] that says what they run.
    pub fn runs(params: &TfheParams) -> Result<()> {
        ring_of(params, true).map(drop)
    }

    /// Memory that opening parts of a key takes on each GPU.
    ///
    /// # Errors
    /// As [`Cuda::runs`], and for keys between slots that are not there.
    pub fn key_memory(keys: &EvaluationKey, needs: &BTreeSet<Need>) -> Result<KeyMemory> {
        // At most: exact arithmetic wants room to convert, and bundles in chunks less key.
        keys::memory(keys, needs, &ring_of(keys.params(), true)?)
    }

    /// The ring of a set on these devices.
    ///
    /// # Errors
    /// As [`Cuda::runs`].
    fn ring(&self, params: &TfheParams) -> Result<Ring> {
        ring_of(params, self.devices.iter().all(|d| d.info().fast_doubles()))
    }

    /// Whether every device can rotate a set, gets its kernels, and has room for a key.
    fn ready(
        &self,
        op: &'static str,
        params: &TfheParams,
        ring: &Ring,
        memory: KeyMemory,
    ) -> Result<()> {
        for device in &self.devices {
            let steps = params.lwe_dimension as u32;
            if tiling::tiling(device.info(), ring, 1, steps, &self.tuning).is_none() {
                return Err(no_kernel(op, device.as_ref(), ring));
            }
            device.prepare(&ring.into()).map_err(|f| refused(op, device.as_ref(), f))?;
            keys::require(op, device.as_ref(), memory.total())?;
        }
        Ok(())
    }
}

/// Some devices as one machine.
fn information<'a>(devices: impl IntoIterator<Item = &'a Arc<dyn Device>>) -> Info {
    let devices: Vec<&Arc<dyn Device>> = devices.into_iter().collect();
    let names = devices.iter().map(|d| d.info().name.clone());
    let free = devices.iter().map(|d| d.free_memory().unwrap_or(0)).min();
    let multiprocessors: u32 = devices.iter().map(|d| d.info().multiprocessors).sum();
    Info {
        name: "cuda",
        description: names.collect::<Vec<_>>().join(", "),
        memory: free.unwrap_or(0),
        best_batch: tiling::best_batch(multiprocessors) as usize,
        pace: Pace::default(),
    }
}

impl Backend for Cuda {
    fn info(&self) -> Info {
        information(&self.devices)
    }

    fn tfhe(&self) -> Option<&dyn Runs<Tfhe>> {
        Some(self)
    }

    fn ckks(&self) -> Option<&dyn Runs<Ckks>> {
        Some(self)
    }

    fn is_far(&self) -> bool {
        true
    }

    fn keep_open(&self) {
        driver::keep(self.devices.clone());
    }
}

impl Runs<Tfhe> for Cuda {
    fn supports(&self, _op: &Op, params: &TfheParams) -> bool {
        self.ring(params).is_ok_and(|ring| {
            let steps = params.lwe_dimension as u32;
            let tiling =
                |d: &Arc<dyn Device>| tiling::tiling(d.info(), &ring, 1, steps, &self.tuning);
            self.devices.iter().all(|d| tiling(d).is_some())
        })
    }

    /// Also whether there are kernels for the set, and room for its key.
    ///
    /// # Errors
    /// [`Error::WrongParams`], [`Error::Unsupported`], [`Error::Memory`].
    fn accepts(&self, params: &TfheParams) -> Result<()> {
        let ring = self.ring(params)?;
        let _turns: Vec<_> = self.turns.iter().map(taken).collect();
        self.ready("cuda", params, &ring, keys::memory_of(params, &ring))
    }

    fn open(&self, TfheSetup { keys, needs }: TfheSetup) -> Result<Box<dyn Session>> {
        let (keys, needs) = (&keys, &needs);
        let (params, ring) = (keys.params(), self.ring(keys.params())?);
        let memory = keys::memory(keys, needs, &ring)?;
        let _turns: Vec<_> = self.turns.iter().map(taken).collect();
        self.ready("open", params, &ring, memory)?;
        // One key layout for all: devices that make bundles ahead beside others that cannot make them in chunks too.
        let together = self.devices.iter().all(|d| tiling::streams(d.info(), &ring, &self.tuning));
        let ahead = u32::from(together);
        let tuning = tiling::Tuning { ahead, ..self.tuning };
        let opened = keys::open(&self.devices, keys, needs, &ring, together)?;
        let all = self.devices.iter().zip(&self.turns).zip(opened);
        let session = |((device, turn), keys): ((&Arc<dyn Device>, &Turn), _)| {
            let steps = (params.lwe_dimension / params.rotation.group_bits()) as u32;
            let pace = pace::pace(device.info(), &ring, steps, &tuning);
            let info = Info { pace, ..information([device]) };
            let session = CudaSession {
                info: info.clone(),
                device: device.clone(),
                keys: Some(keys),
                params: params.clone(),
                ring,
                tuning,
                turn: turn.clone(),
                running: None,
                unrecorded: None,
            };
            (Box::new(session) as Box<dyn Session>, info)
        };
        Ok(joined(all.map(session).collect()))
    }
}

/// The ring that the kernels of a set are compiled for; without `fast_doubles` its transforms are exact.
///
/// # Errors
/// [`Error::WrongParams`] for a set that they cannot run.
fn ring_of(p: &TfheParams, fast_doubles: bool) -> Result<Ring> {
    let arithmetic = match p.modulus {
        Modulus::Native if fast_doubles => Arithmetic::Double,
        Modulus::Native => Arithmetic::Exact,
        Modulus::Goldilocks => Arithmetic::Prime,
    };
    let grouped = matches!(p.rotation, Rotation::MultiBit { .. } | Rotation::Block { .. });
    let columns = p.glwe_dimension.saturating_add(p.slots);
    let refusal = match () {
        _ if p.modulus == Modulus::Goldilocks && p.ks_modulus_log2 != 64 => {
            Some(format!("a key switch modulo 2^{} of words modulo p", p.ks_modulus_log2))
        }
        _ if matches!(p.rotation, Rotation::Extended { .. }) => {
            Some("an extended rotation".to_string())
        }
        _ if !(256..=16384).contains(&p.polynomial_size) => {
            Some(format!("polynomials of {} coefficients", p.polynomial_size))
        }
        _ if columns > 8 || p.pbs.level as usize * columns > 32 => {
            Some(format!("{columns} polynomials, {} levels", p.pbs.level))
        }
        _ if p.pbs.base_log * p.pbs.level > 48 || p.rotation.group_bits() > 5 => {
            Some(format!("{:?} and {:?}", p.pbs, p.rotation))
        }
        _ if !p.lwe_dimension.is_multiple_of(p.rotation.group_bits()) => {
            Some(format!("{} key bits for {:?}", p.lwe_dimension, p.rotation))
        }
        _ => None,
    };
    if let Some(got) = refusal {
        return Err(Error::wrong_params(
            "cuda",
            "a set of 256 to 16384 coefficients, at most 8 polynomials, with a classic, multi-bit or block rotation",
            format!("{} with {got}", p.name),
            "choose such a set (`becalm params`), or compute on the CPU",
        )
        .or_cpu());
    }
    Ok(Ring {
        log2_n: p.polynomial_size.ilog2(),
        k: p.glwe_dimension as u32,
        bodies: p.slots as u32,
        base_log: p.pbs.base_log,
        level: p.pbs.level,
        group_bits: p.rotation.group_bits() as u32,
        group_ggsws: if grouped { p.rotation.group_ggsws() as u32 } else { 0 },
        arithmetic,
    })
}

/// A device's refusal as an error.
fn refused(op: &'static str, device: &dyn Device, fault: Fault) -> Error {
    let name = &device.info().name;
    let refusal = match fault {
        Fault::Memory(bytes) => {
            let free = device.free_memory().unwrap_or(0);
            Error::memory(
                op,
                format!("{:.3} GB on {name}", bytes as f64 / 1e9),
                format!("{:.3} GB free", free as f64 / 1e9),
                "use a smaller batch, free the GPU's memory, or compute on the CPU",
            )
        }
        Fault::NoKernels { name: kernels, got, remedy } => {
            let (major, minor) = device.info().capability;
            let wanted = format!("kernels of {kernels} for compute capability {major}.{minor}");
            Error::unsupported(op, wanted, got, remedy)
        }
        Fault::Lost(why) => Error::device(
            op,
            format!("an answer of {name}"),
            why,
            "look at nvidia-smi and the system's log if it comes back; start the program again, or compute on the CPU",
        ),
        Fault::Failed(why) => Error::device(
            op,
            format!("{name} to work"),
            why,
            "report this with the output of `becalm doctor`; meanwhile compute on the CPU",
        ),
    };
    refusal.or_cpu()
}

/// The refusal of a device that has too little shared memory, or no clusters, for a ring.
fn no_kernel(op: &'static str, device: &dyn Device, ring: &Ring) -> Error {
    let info = device.info();
    Error::unsupported(
        op,
        format!("a GPU that rotates {} (clusters, or more shared memory)", ring.name()),
        format!("{} of compute capability {}.{}", info.name, info.capability.0, info.capability.1),
        "use a GPU of compute capability 9.0 or 10.0, a smaller set, or the CPU",
    )
    .or_cpu()
}

/// Puts a kernel on a stream.
///
/// # Errors
/// Errors of the device.
///
/// # Safety
/// As [`Device::launch`].
unsafe fn launch(
    op: &'static str,
    device: &dyn Device,
    stream: usize,
    kernels: impl Into<Kernels>,
    shape: &Launch,
    arguments: &[Argument],
) -> Result<()> {
    // SAFETY: promised by the caller.
    unsafe { device.launch(stream, &kernels.into(), shape, arguments) }
        .map_err(|fault| refused(op, device, fault))
}
