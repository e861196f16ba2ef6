//! Files of evaluation keys of CKKS: written whole or not at all, and no longer than anyone waits for them.

use crate::call::Watch;
use becalm::{Error, Result};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes until it is to stop.
pub struct Watched<'a>(pub &'a mut dyn Write, pub &'a Watch);

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.1.step(0, 0) {
            true => self.0.write(bytes),
            // `Interrupted` is tried again.
            false => Err(std::io::Error::other("a request to stop")),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Writes by way of a file beside it, so that nothing half-written takes the name.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let failed = |e: std::io::Error| {
        Error::io("save", "to write", e.to_string(), "free space, or choose another place")
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    let mut out = BufWriter::new(std::fs::File::create(&beside).map_err(failed)?);
    let written = write(&mut out).and_then(|()| {
        out.flush().map_err(failed)?;
        std::fs::rename(&beside, path).map_err(failed)
    });
    if written.is_err() {
        // The error that counts is the first.
        let _ = std::fs::remove_file(&beside);
    }
    written
}
