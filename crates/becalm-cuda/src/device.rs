//! A GPU as a host needs it: memory, copies, launches, and an order between them. The backend of the library is written
//! against this alone, so that the driver and the emulator run the same code.
//!
//! Work is put on a device's *streams*: in order on each, in any order between them unless [`Device::follow`] says so.

use crate::gpu::DeviceInfo;
use crate::kernels::Kernels;
use crate::key_switch::KeySwitch;
use crate::launch::Launch;

/// A refusal by a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No memory for this number of bytes.
    Memory(u64),
    /// There is no code of some kernels for this device, or none that it takes.
    NoKernels {
        /// The name of the kernels.
        name: String,
        /// The state or value that it found.
        got: String,
        /// The remedy.
        remedy: String,
    },
    /// The device fell off, or a kernel went wrong: nothing more runs on it in this process.
    Lost(String),
    /// Any other failure, in the driver's words.
    Failed(String),
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// A place in the device's memory.
    Address(u64),
    /// A word of 32 bits.
    U32(u32),
    /// A word of 64 bits.
    U64(u64),
    /// A shape.
    KeySwitch(KeySwitch),
}

/// Streams of a device, numbered from 0. Where two of them want the same multiprocessor stream 0 goes before.
pub const STREAMS: usize = 2;

/// A GPU.
pub trait Device: Send + Sync {
    /// The properties of the device.
    fn info(&self) -> &DeviceInfo;

    /// Bytes that can still be allocated.
    ///
    /// # Errors
    /// If the device is lost.
    fn free_memory(&self) -> Result<u64, Fault>;

    /// Brings kernels onto the device; launches of them need it.
    ///
    /// # Errors
    /// [`Fault::NoKernels`] if there is no code for this device and none can be made.
    fn prepare(&self, kernels: &Kernels) -> Result<(), Fault>;

    /// Memory of `bytes`, aligned to 256, with anything in it.
    ///
    /// # Errors
    /// [`Fault::Memory`] if there is none.
    fn allocate(&self, bytes: u64) -> Result<u64, Fault>;

    /// Gives memory back, after all work that was put on the device.
    ///
    /// # Safety
    /// `at` came from [`Device::allocate`] of this device, and nothing uses it afterwards.
    unsafe fn release(&self, at: u64);

    /// Copies to the device in the order of stream 0. The source may be changed when the call returns, which may be before the
    /// device has the copy.
    ///
    /// # Errors
    /// If the device is lost.
    ///
    /// # Safety
    /// The place is allocated, and no work on another stream uses it meanwhile.
    unsafe fn upload(&self, to: u64, from: &[u8]) -> Result<(), Fault>;

    /// Copies from these places on the device, after what is on stream 0; waits for all of it at once.
    ///
    /// # Errors
    /// If the device is lost, or a kernel before went wrong.
    ///
    /// # Safety
    /// The places are allocated, and no work on another stream writes them meanwhile.
    unsafe fn download(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), Fault>;

    /// The steps that the device would not take, and why. They change times and no result.
    fn remark(&self) -> Option<String> {
        None
    }

    /// Puts a kernel on a stream.
    ///
    /// # Errors
    /// If the kernel does not exist, the launch asks for too much, or the device is lost.
    ///
    /// # Safety
    /// Arguments are the kernel's, in number and type; its addresses are allocated for what it reads and writes, and no work
    /// on another stream touches these meanwhile but to read what it reads.
    unsafe fn launch(
        &self,
        stream: usize,
        kernels: &Kernels,
        launch: &Launch,
        arguments: &[Argument],
    ) -> Result<(), Fault>;

    /// Work put on `stream` from now on waits for the work that is on `after` now.
    ///
    /// # Errors
    /// If the device is lost.
    fn follow(&self, stream: usize, after: usize) -> Result<(), Fault>;

    /// Waits for all work.
    ///
    /// # Errors
    /// If the device is lost, or a kernel went wrong.
    fn wait(&self) -> Result<(), Fault>;

    /// From now on launches and orders are not run but recorded, until [`Device::recorded`]; all streams begin behind stream 0
    /// and are joined to it at the end. Nothing else may be asked of the device meanwhile, from no thread: no memory,
    /// no copy, no wait. Kernels must have been launched before.
    ///
    /// # Errors
    /// If the device records already, or is lost.
    fn record(&self) -> Result<(), Fault>;

    /// Ends a recording, whatever has happened in it; a number for [`Device::replay`] and [`Device::forget`].
    ///
    /// # Errors
    /// If something was asked that cannot be recorded.
    fn recorded(&self) -> Result<u64, Fault>;

    /// Puts all that was recorded on stream 0, as one launch.
    ///
    /// # Errors
    /// If the device is lost.
    ///
    /// # Safety
    /// As for each of the launches that were recorded.
    unsafe fn replay(&self, recording: u64) -> Result<(), Fault>;

    /// Gives a recording up, after all work that was put on the device.
    ///
    /// # Safety
    /// It came from [`Device::recorded`] of this device, and is not used afterwards.
    unsafe fn forget(&self, recording: u64);
}
