//! Handles of the driver's objects, which are destroyed when the handle is dropped, after errors too.
//!
//! A handle is destroyed in its context, which its owner makes current before. A device that is lost refuses, which changes
//! nothing: it has freed all.

use cudarc::driver::result::{
    DriverError, ctx, event, free_host, graph, malloc_host, module, primary_ctx, stream,
};
use cudarc::driver::sys;
use std::collections::HashMap;
use std::ffi::c_void;

type Result<T> = std::result::Result<T, DriverError>;

/// The primary context of a device.
pub(super) struct PrimaryContext {
    device: sys::CUdevice,
    context: sys::CUcontext,
}

impl PrimaryContext {
    /// Retained, and made that of this thread.
    pub fn retain(device: sys::CUdevice) -> Result<Self> {
        // SAFETY: the device came from the driver; the context is released in `drop`.
        let context = PrimaryContext { device, context: unsafe { primary_ctx::retain(device)? } };
        context.enter()?;
        Ok(context)
    }

    /// Makes it that of this thread.
    pub fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as `self`.
        unsafe { ctx::set_current(self.context) }
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // SAFETY: retained in `retain`, released once.
        _ = unsafe { primary_ctx::release(self.device) };
    }
}

/// A stream of the current context that waits for no other unless it is told to.
pub(super) struct Stream(pub sys::CUstream);

impl Stream {
    pub fn new() -> Result<Self> {
        stream::create(stream::StreamKind::NonBlocking).map(Stream)
    }

    /// Two of them; where work of both could begin that of the first does.
    pub fn by_rank() -> Result<[Self; 2]> {
        let (least, greatest) = stream::get_priority_range()?;
        let of = |rank| stream::create_with_priority(stream::StreamKind::NonBlocking, rank);
        let first = Stream(of(greatest)?);
        Ok([first, Stream(of(least)?)])
    }

    /// Waits for all that was put on it.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { stream::synchronize(self.0) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        _ = unsafe { stream::destroy(self.0) };
    }
}

/// An event of the current context that measures no time.
pub(super) struct Event(pub sys::CUevent);

impl Event {
    pub fn new() -> Result<Self> {
        event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map(Event)
    }
}

impl Event {
    /// Waits until the work before its last record is done; returns at once if it was never recorded.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the event lives as long as `self`.
        unsafe { event::synchronize(self.0) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        _ = unsafe { event::destroy(self.0) };
    }
}

/// Memory of the host that the driver copies from and to while the host does something else.
pub(super) struct PageLocked {
    at: *mut u8,
    bytes: usize,
}

impl PageLocked {
    pub fn new(bytes: usize) -> Result<Self> {
        // SAFETY: given back in `drop`. The bytes are written below, before anybody reads them.
        let at = unsafe { malloc_host(bytes, 0)? }.cast::<u8>();
        // SAFETY: `bytes` were allocated.
        unsafe { at.write_bytes(0, bytes) };
        Ok(PageLocked { at, bytes })
    }

    /// Some of its bytes.
    pub fn part(&mut self, from: usize, count: usize) -> &mut [u8] {
        assert!(from + count <= self.bytes, "a copy past the end");
        // SAFETY: the part is inside of the allocation, which has no other owner; a device that writes it is waited for before it
        // is read.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(from), count) }
    }
}

impl Drop for PageLocked {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, given back once, when its owner has waited for what was copied.
        _ = unsafe { free_host(self.at.cast()) };
    }
}

/// A function of a module, and what it was told.
#[derive(Clone, Copy)]
pub(super) struct Function {
    pub function: sys::CUfunction,
    /// The bytes of shared memory that it may ask for.
    pub shared: u32,
    /// Whether its clusters may have more blocks than those of every GPU.
    pub large: bool,
}

/// Code in the current context, and functions of it that were looked up.
pub(super) struct Module {
    pub module: sys::CUmodule,
    pub functions: HashMap<&'static str, Function>,
}

impl Module {
    /// Loads a cubin, or PTX.
    ///
    /// # Safety
    /// The cubin is whole, or the PTX ends in 0: the driver reads as much as a cubin's head says, or up to the 0.
    pub unsafe fn load(code: &[u8]) -> Result<Self> {
        // SAFETY: promised by the caller.
        let module = unsafe { module::load_data(code.as_ptr().cast::<c_void>())? };
        Ok(Module { module, functions: HashMap::new() })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded in `load`, unloaded once, when nothing of it runs any more.
        _ = unsafe { module::unload(self.module) };
    }
}

/// Captured launches, and the graph made from them.
pub(super) struct Graph(sys::CUgraph);

impl Graph {
    /// Ends the capture of a stream and returns its graph.
    pub fn captured(stream: &Stream) -> Result<Self> {
        // SAFETY: the stream lives as long as its owner.
        unsafe { stream::end_capture(stream.0) }.map(Graph)
    }

    /// A graph that can be launched, on the device before it is. Its kernels have the priorities of the streams that they were
    /// captured on, where a graph as such has that of the stream that it is launched on.
    pub fn instantiate(&self, stream: &Stream) -> Result<Executable> {
        use sys::CUgraphInstantiate_flags as Flags;
        let flags = Flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
        // SAFETY: the graph lives as long as `self`.
        let executable = unsafe { Executable(graph::instantiate(self.0, flags)?) };
        // SAFETY: both were made by the driver and live.
        unsafe { graph::upload(executable.0, stream.0)? };
        Ok(executable)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by `captured`, destroyed once.
        _ = unsafe { graph::destroy(self.0) };
    }
}

/// A graph that can be launched.
pub(super) struct Executable(sys::CUgraphExec);

impl Executable {
    /// As a number, which whoever has it gives back to [`Executable::of`].
    pub fn into_number(self) -> u64 {
        let number = self.0 as u64;
        std::mem::forget(self);
        number
    }

    /// The graph of such a number.
    ///
    /// # Safety
    /// It came from [`Executable::into_number`], and is converted back only once.
    pub unsafe fn of(number: u64) -> Self {
        Executable(number as sys::CUgraphExec)
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: made by `instantiate`, destroyed once. The driver keeps what still runs.
        _ = unsafe { graph::exec_destroy(self.0) };
    }
}
