//! Mapped files: evaluation keys are read from the page cache, shared by all processes that use them.

use super::disk::open;
use crate::{Error, Result};
use memmap2::Mmap;
use std::path::Path;

/// Maps a file for reading.
///
/// Who changes a mapped file changes the words under the reader, and who shortens it kills the reader (`SIGBUS`).
/// becalm never does: it replaces files whole, and a map of the old one stays as it was. A key on a disk that others
/// may write to should be loaded with `from_bytes`.
pub(super) fn map(path: &Path) -> Result<Mmap> {
    let (file, _) = open(path)?;
    // SAFETY: the map is read-only, and every value of its bytes is a valid `u8` or `u64`, so no invariant of a type
    // depends on them. The documentation asks the user not to change the file while it is mapped; a
    // change could make results wrong, but no index or length is read from the map after its header was checked.
    unsafe { Mmap::map(&file) }.map_err(|e| Error::unreadable("load", path, &e))
}
