//! Page-locked memory that copies go through, so that the host does not wait for a copy to the device.
//!
//! It is two halves in turn. Bytes for the device are appended to a half and copied from there in the order
//! of a stream, with an event behind it; a half that is full is begun anew when its event has come. Bytes from the device go
//! through both in the same way. A copy of which anything failed may be under way: then the stream is waited for first.

use super::handles::{Event, PageLocked, Stream};
use cudarc::driver::result::{self, DriverError, event};

type Result<T> = std::result::Result<T, DriverError>;

/// Where copies begin in a half.
const ALIGNMENT: usize = 64;

/// Page-locked memory of one device, for one of its streams.
pub(super) struct Staging {
    memory: PageLocked,
    /// Bytes of a half.
    size: usize,
    /// Behind the last copy of each half.
    events: [Event; 2],
    /// The half that is being filled, and bytes of it that are taken.
    half: usize,
    used: usize,
    /// Whether a copy may be under way behind which there is no event.
    unsettled: bool,
}

/// Where bytes are in the staging memory that a half has brought, and where they go.
type Arrivals<'a> = Vec<(usize, &'a mut [u8])>;

impl Staging {
    /// Staging memory of a number of bytes.
    ///
    /// # Errors
    /// Errors of the driver: above all, too little page-locked memory.
    pub fn new(bytes: usize) -> Result<Self> {
        let size = (bytes / 2).next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        let memory = PageLocked::new(2 * size)?;
        let events = [Event::new()?, Event::new()?];
        Ok(Staging { memory, size, events, half: 0, used: 0, unsettled: false })
    }

    /// Copies to the device, in the order of the stream. The source is read when this returns.
    ///
    /// # Errors
    /// If the device is lost.
    ///
    /// # Safety
    /// The place on the device is allocated; the stream is always the same.
    pub unsafe fn upload(&mut self, stream: &Stream, mut to: u64, mut from: &[u8]) -> Result<()> {
        self.settle(stream)?;
        while !from.is_empty() {
            let (at, count) = self.room(from.len(), |half| half.wait())?;
            let (now, later) = from.split_at(count);
            let staged = self.memory.part(at, count);
            staged.copy_from_slice(now);
            // SAFETY: promised by the caller. The staged bytes stay as they are until the event behind the copy has come.
            let copied = unsafe { result::memcpy_htod_async(to, staged, stream.0) };
            self.put(stream, copied)?;
            (to, from) = (to + count as u64, later);
        }
        Ok(())
    }

    /// Copies from places on the device, and waits: once, if a half has room for all.
    ///
    /// # Errors
    /// If the device is lost, or a kernel before went wrong.
    ///
    /// # Safety
    /// The places are allocated; the stream is always the same.
    pub unsafe fn download(
        &mut self,
        stream: &Stream,
        pieces: &mut [(u64, &mut [u8])],
    ) -> Result<()> {
        if pieces.iter().all(|(_, to)| to.is_empty()) {
            return Ok(());
        }
        self.settle(stream)?;
        // In the order of the stream, bytes staged for the device are read before anything is written over them.
        (self.half, self.used) = (0, 0);
        let mut coming: [Arrivals; 2] = Default::default();
        for (from, to) in pieces {
            let (mut from, mut to): (u64, &mut [u8]) = (*from, to);
            while !to.is_empty() {
                if self.used == self.size {
                    self.arrive(1 - self.half, &mut coming)?;
                }
                let (at, count) = self.room(to.len(), |_| Ok(()))?;
                let (now, later) = std::mem::take(&mut to).split_at_mut(count);
                // SAFETY: promised by the caller. The staged bytes are not used until the event behind the copy has come.
                let copied = unsafe {
                    result::memcpy_dtoh_async(self.memory.part(at, count), from, stream.0)
                };
                self.put(stream, copied)?;
                coming[self.half].push((at, now));
                (from, to) = (from + count as u64, later);
            }
        }
        self.arrive(1 - self.half, &mut coming)?;
        self.arrive(self.half, &mut coming)
    }

    /// Waits for the copies through a half, and moves the bytes to their destination.
    fn arrive(&mut self, half: usize, coming: &mut [Arrivals; 2]) -> Result<()> {
        if coming[half].is_empty() {
            return Ok(());
        }
        self.unsettled = true;
        self.events[half].wait()?;
        self.unsettled = false;
        for (at, to) in coming[half].drain(..) {
            to.copy_from_slice(self.memory.part(at, to.len()));
        }
        Ok(())
    }

    /// Takes room for up to `wanted` bytes; where, and for how many. `turn` is asked for a half that is begun anew.
    fn room(
        &mut self,
        wanted: usize,
        turn: impl FnOnce(&Event) -> Result<()>,
    ) -> Result<(usize, usize)> {
        if self.used == self.size {
            turn(&self.events[1 - self.half])?;
            (self.half, self.used) = (1 - self.half, 0);
        }
        let (at, count) = (self.half * self.size + self.used, wanted.min(self.size - self.used));
        self.used = (self.used + count).next_multiple_of(ALIGNMENT).min(self.size);
        Ok((at, count))
    }

    /// An event behind a copy that was put on the stream.
    fn put(&mut self, stream: &Stream, copied: Result<()>) -> Result<()> {
        self.unsettled = true;
        copied?;
        // SAFETY: event and stream are of this context and live.
        unsafe { event::record(self.events[self.half].0, stream.0)? };
        self.unsettled = false;
        Ok(())
    }

    /// Waits for the stream if a copy may be under way of which no event tells.
    fn settle(&mut self, stream: &Stream) -> Result<()> {
        if self.unsettled {
            stream.wait()?;
            self.unsettled = false;
        }
        Ok(())
    }
}
