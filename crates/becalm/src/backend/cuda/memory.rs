//! Memory on a device, given back when dropped, and lists that hold addresses of themselves.

use super::refused;
use crate::Result;
use becalm_cuda::Device;
use std::sync::Arc;

/// Bytes on a device.
pub(super) struct Block {
    device: Arc<dyn Device>,
    at: u64,
    bytes: u64,
}

impl Block {
    /// Memory with anything in it.
    ///
    /// # Errors
    /// `Error::Memory` if there is none.
    pub fn new(device: &Arc<dyn Device>, op: &'static str, bytes: u64) -> Result<Self> {
        let at = device.allocate(bytes).map_err(|f| refused(op, device.as_ref(), f))?;
        Ok(Block { device: device.clone(), at, bytes })
    }

    /// The same with these bytes in it.
    ///
    /// # Errors
    /// As [`Block::new`], and if the device is lost.
    pub fn of(device: &Arc<dyn Device>, op: &'static str, bytes: &[u8]) -> Result<Self> {
        let block = Block::new(device, op, bytes.len() as u64)?;
        block.upload(op, 0, bytes)?;
        Ok(block)
    }

    /// Its address.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Copies to it, from a byte on, in the order of stream 0; who waits for that stream waits for it.
    ///
    /// # Errors
    /// If the device is lost.
    pub fn upload(&self, op: &'static str, from: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: the place is inside this allocation; other streams are ordered behind stream 0 before they use it.
        unsafe { self.device.upload(self.place(from, bytes.len()), bytes) }
            .map_err(|f| refused(op, self.device.as_ref(), f))
    }

    /// Copies from it, as many bytes from a byte on as each piece has; waits for stream 0, once.
    ///
    /// # Errors
    /// If the device is lost or a kernel went wrong.
    pub fn download(&self, op: &'static str, pieces: &mut [(u64, &mut [u8])]) -> Result<()> {
        for (at, bytes) in &mut *pieces {
            *at = self.place(*at, bytes.len());
        }
        // SAFETY: the places are inside this allocation; the work that writes them is on stream 0, or stream 0 waits for it.
        unsafe { self.device.download(pieces) }.map_err(|f| refused(op, self.device.as_ref(), f))
    }

    /// The address of byte `from`, which `count` bytes follow.
    fn place(&self, from: u64, count: usize) -> u64 {
        assert!(from + count as u64 <= self.bytes, "a copy past the end");
        self.at + from
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it came from `allocate` of this device and its owner is going.
        unsafe { self.device.release(self.at) };
    }
}

/// Launches of a device as one, given up when dropped. It holds addresses: it goes before the memory that they are in.
pub(super) struct Recording {
    device: Arc<dyn Device>,
    number: u64,
}

impl Recording {
    /// Records the work that `put` puts on a device.
    ///
    /// # Errors
    /// As `put`; if the device is lost.
    pub fn of(
        device: &Arc<dyn Device>,
        op: &'static str,
        put: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let fail = |f| refused(op, device.as_ref(), f);
        device.record().map_err(fail)?;
        let done = put();
        // A recording that failed ends too, and is given up.
        let recorded = device.recorded().map_err(fail);
        let recording = recorded.map(|number| Recording { device: device.clone(), number });
        done?;
        recording
    }

    /// Puts it on stream 0.
    ///
    /// # Errors
    /// If the device is lost.
    pub fn replay(&self, op: &'static str) -> Result<()> {
        // SAFETY: what its launches read and write is owned by what owns it.
        unsafe { self.device.replay(self.number) }.map_err(|f| refused(op, self.device.as_ref(), f))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // SAFETY: it came from `recorded` of this device and its owner is going.
        unsafe { self.device.forget(self.number) };
    }
}

/// Words that go to a device at once; some are addresses of others of them or in the space of registers, both known when
/// these have a place: so the size of all is known before anything is allocated.
#[derive(Default)]
pub(super) struct Lists {
    words: Vec<u64>,
    local: Vec<usize>,
    registers: Vec<usize>,
}

impl Lists {
    /// Appends words; the byte where they begin.
    pub fn push(&mut self, words: impl IntoIterator<Item = u64>) -> u64 {
        let at = self.words.len() as u64 * 8;
        self.words.extend(words);
        at
    }

    /// Makes the word at a byte, which is a byte of this list, an address.
    pub fn relocate(&mut self, byte: u64) {
        self.local.push(byte as usize / 8);
    }

    /// Turns offsets within the space of registers into addresses: `count` words, every `stride`-th from a byte on.
    pub fn relocate_registers(&mut self, byte: u64, stride: usize, count: usize) {
        let first = byte as usize / 8;
        self.registers.extend((0..count).map(|i| first + i * stride));
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> u64 {
        (self.words.len() as u64 * 8).max(8)
    }

    /// Onto a device where the registers are at `registers`.
    ///
    /// # Errors
    /// As [`Block::of`].
    pub fn place(
        mut self,
        device: &Arc<dyn Device>,
        op: &'static str,
        registers: u64,
    ) -> Result<Block> {
        let block = Block::new(device, op, self.bytes())?;
        self.local.iter().for_each(|i| self.words[*i] += block.at());
        self.registers.iter().for_each(|i| self.words[*i] += registers);
        block.upload(op, 0, bytemuck::cast_slice(&self.words))?;
        Ok(block)
    }
}

/// A space of bytes in which places are taken and given back before it exists: first fit, in units of 256.
#[derive(Default)]
pub(super) struct Space {
    free: Vec<(u64, u64)>,
    end: u64,
}

impl Space {
    /// The first byte of a free place.
    pub fn take(&mut self, bytes: u64) -> u64 {
        let size = bytes.next_multiple_of(256);
        if let Some(i) = self.free.iter().position(|(_, free)| *free >= size) {
            let (at, free) = self.free[i];
            self.free[i] = (at + size, free - size);
            return at;
        }
        let at = self.end;
        self.end += size;
        at
    }

    /// Gives a place back.
    pub fn give(&mut self, at: u64, bytes: u64) {
        self.free.push((at, bytes.next_multiple_of(256)));
        self.free.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(self.free.len());
        for (at, size) in self.free.drain(..).filter(|f| f.1 > 0) {
            match merged.last_mut() {
                Some((from, before)) if *from + *before == at => *before += size,
                _ => merged.push((at, size)),
            }
        }
        self.free = merged;
    }

    /// Bytes that all places together ever took.
    pub fn peak(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_never_twice() {
        let mut space = Space::default();
        let (a, b, c) = (space.take(1000), space.take(256), space.take(1));
        assert_eq!((a, b, c, space.peak()), (0, 1024, 1280, 1536));
        space.give(a, 1000);
        space.give(b, 256);
        // The two are one place now.
        assert_eq!(space.take(1200), 0);
        assert_eq!((space.take(256), space.peak()), (1536, 1792));
        space.give(c, 1);
        assert_eq!((space.take(100), space.peak()), (1280, 1792));
    }
}
