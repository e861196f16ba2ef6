//! Zeroed memory for keys, tables and scratch: straight from the system, so that its alignment is known and a refusal
//! is an error and not an abort.
//!
//! Small buffers start on a page (so on a cache line); buffers of 2 MiB and more start on a 2 MiB boundary and ask for
//! huge pages, because kernels stream keys of tens of megabytes and 4 KiB pages cost a third of the bandwidth.

use super::memory::require_memory;
use crate::words::megabytes;
use crate::{Error, Result};
use bytemuck::Pod;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// From this size on a buffer is aligned to, and asks for, huge pages.
const HUGE_PAGE: usize = 2 << 20;
/// The alignment where the system maps nothing: a cache line.
const LINE: usize = 64;

#[cfg(not(target_family = "wasm"))]
use memmap2::MmapMut as Map;

/// A web page maps nothing, and has its memory from the allocator.
#[cfg(target_family = "wasm")]
type Map = Vec<u8>;

/// Zeroed bytes from the system.
fn map(bytes: usize) -> std::io::Result<Map> {
    #[cfg(not(target_family = "wasm"))]
    return Map::map_anon(bytes);
    #[cfg(target_family = "wasm")]
    {
        let mut map = Vec::new();
        map.try_reserve_exact(bytes).map_err(std::io::Error::other)?;
        map.resize(bytes, 0);
        Ok(map)
    }
}

/// The panic of [`refuse`]: the bytes that were wanted.
struct Refused(usize);

/// Gives up work that has no other way to fail, deep within its loops, because `bytes` more are not there. [`or_refused`] catches it.
pub(crate) fn refuse(bytes: usize) -> ! {
    resume_unwind(Box::new(Refused(bytes)))
}

/// Runs work in which memory may end, and turns that into an error. Other panics go on.
///
/// # Errors
/// As `work`; `Memory` where the system refused memory in the middle of it.
pub fn or_refused<T>(op: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    // Half-done work is dropped. Shared are only free pieces of memory and expanded keys, each of them whole.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done,
        Err(thrown) => match thrown.downcast::<Refused>() {
            Ok(refused) => Err(Error::memory(
                op,
                format!("{} of work space besides what is taken", megabytes(refused.0)),
                "a refusal of the system",
                "free memory, or use fewer threads, fewer slots or keys that stay in their file",
            )),
            Err(other) => resume_unwind(other),
        },
    }
}

/// `len` zero words on the heap, for what travels in vectors: a refusal is an error there too and not an abort.
///
/// # Errors
/// `Error::Memory` with the size wanted.
pub fn zeroed(op: &'static str, len: usize) -> Result<Vec<u64>> {
    let mut words = reserved(op, len)?;
    words.resize(len, 0);
    Ok(words)
}

/// An empty vector with room for `len` elements, as [`zeroed`]. No more are pushed: growing would abort where memory ends.
///
/// # Errors
/// `Error::Memory` with the size wanted.
pub fn reserved<T>(op: &'static str, len: usize) -> Result<Vec<T>> {
    let bytes = len.saturating_mul(size_of::<T>());
    require_memory(op, bytes)?;
    let mut room = Vec::new();
    room.try_reserve_exact(len).map_err(|_| {
        let remedy = "use a smaller batch or parameter set, or free memory";
        Error::memory(op, megabytes(bytes), "a refusal of the system", remedy)
    })?;
    Ok(room)
}

/// A fixed-length array of plain numbers, zero at first, aligned to 64 bytes at least.
pub struct Buffer<T> {
    map: Map,
    offset: usize,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    /// `len` zeros. `Error::Memory` when the system refuses.
    pub fn new(len: usize) -> Result<Self> {
        let refused = |why: String| {
            let wanted = format!("{len} elements of {} bytes", size_of::<T>());
            Error::memory(
                "allocate",
                wanted,
                why,
                "use a smaller batch or parameter set, or free memory",
            )
        };
        let bytes =
            len.checked_mul(size_of::<T>()).filter(|b| *b < isize::MAX as usize - HUGE_PAGE);
        let bytes = bytes.ok_or_else(|| refused("more than the address space".into()))?;
        require_memory("allocate", bytes)?;
        let slack = match bytes {
            _ if cfg!(target_family = "wasm") => LINE,
            HUGE_PAGE.. => HUGE_PAGE,
            _ => 0,
        };
        let map = map((bytes + slack).max(1)).map_err(|e| refused(e.to_string()))?;
        let offset = if slack == 0 { 0 } else { map.as_ptr().align_offset(slack) };
        #[cfg(target_os = "linux")]
        if slack != 0 {
            // Only a hint: kernels without huge pages refuse, and the memory is good all the same.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Ok(Buffer { map, offset, len, element: PhantomData })
    }

    /// The elements.
    pub fn as_slice(&self) -> &[T] {
        bytemuck::cast_slice(&self.map[self.offset..self.offset + self.len * size_of::<T>()])
    }

    /// The elements, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        let end = self.offset + self.len * size_of::<T>();
        bytemuck::cast_slice_mut(&mut self.map[self.offset..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zero_and_aligned() {
        for len in [0, 1, 1000, HUGE_PAGE / 8 - 1, HUGE_PAGE / 8, 3 * HUGE_PAGE / 8 + 5] {
            let mut b = Buffer::<u64>::new(len).unwrap();
            assert_eq!(b.as_slice().len(), len);
            assert!(b.as_slice().iter().all(|x| *x == 0));
            let boundary = if len * 8 >= HUGE_PAGE { HUGE_PAGE } else { 64 };
            assert_eq!(b.as_slice().as_ptr() as usize % boundary, 0);
            b.as_mut_slice().fill(u64::MAX);
            assert!(b.as_slice().iter().all(|x| *x == u64::MAX));
        }
    }

    #[test]
    fn what_is_given_up_for_want_of_memory_is_an_error_and_other_panics_are_not() {
        let found = or_refused("bootstrap", || -> Result<()> { refuse(3_000_000) }).unwrap_err();
        assert_eq!((found.kind(), &*found.detail().op), ("memory", "bootstrap"));
        assert!(found.detail().wanted.starts_with("3.0 MB"), "{found}");
        assert_eq!(or_refused("bootstrap", || Ok(7)).unwrap(), 7);
        let other = || or_refused("bootstrap", || -> Result<()> { resume_unwind(Box::new("no")) });
        let thrown = catch_unwind(other).unwrap_err();
        assert_eq!(thrown.downcast_ref::<&str>(), Some(&"no"));
        // From another thread too.
        let elsewhere = or_refused("x", || {
            rayon::join(|| refuse(8), || ());
            Ok(())
        });
        assert_eq!(elsewhere.err().map(|e| e.kind()), Some("memory"));
    }

    #[test]
    fn too_much_is_a_typed_error() {
        assert!(matches!(zeroed("keygen", usize::MAX), Err(Error::Memory(_))));
        for len in [usize::MAX, usize::MAX / 8, 1 << 57] {
            let error = Buffer::<f64>::new(len).err().expect("the system grants no such buffer");
            assert_eq!(error.kind(), "memory");
        }
    }
}
