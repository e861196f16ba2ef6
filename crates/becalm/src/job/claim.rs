//! Claims of chunks: a file that one worker alone can make, and that it rewrites while it works.
//!
//! A claim is stale when its bytes have not changed for a lease, by the clock of the worker that looks. So the clocks of workers need
//! not agree, and it does not matter which bytes they are. Claims save work and decide nothing: the rename of results does. Two workers
//! with one chunk cost time, and never a result.

use super::disk;
use super::folder::{Job, chunk_name};
use crate::cipher::file::write_error;
use crate::{Error, Result};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of a claim that are read.
const MAX_CLAIM: u64 = 4096;
/// The longest lease that a claim may ask others for.
const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);

/// A claim of this worker; it is given back when dropped.
pub(super) struct Claim {
    path: PathBuf,
    file: File,
    worker: String,
    nonce: String,
    lease: Duration,
    counter: u64,
}

impl Claim {
    /// Claims a chunk; none if somebody else has.
    pub(super) fn new(
        job: &Job,
        chunk: usize,
        worker: &str,
        lease: Duration,
    ) -> Result<Option<Claim>> {
        let (path, nonce) = (job.claim(chunk), disk::nonce()?);
        let refused = |e: io::Error| write_error(&path, &e);
        let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(None),
            Err(e) => return Err(refused(e)),
        };
        let mut claim =
            Claim { path: path.clone(), file, worker: worker.into(), nonce, lease, counter: 0 };
        claim.renew().map_err(refused)?;
        disk::keep_names(&job.folder.join("claims"));
        Ok(Some(claim))
    }

    /// Writes the next counter. It goes to the file that was made, so a claim that was taken over stays the other worker's.
    fn renew(&mut self) -> io::Result<()> {
        let Claim { worker, nonce, counter, .. } = self;
        let milliseconds = self.lease.as_millis();
        // As long as the one before, so that no part of that one stays.
        let text = format!(
            "{{\"nonce\":\"{nonce}\",\"lease_ms\":{milliseconds},\"counter\":\"{counter:020}\",\"worker\":\"{worker}\"}}\n"
        );
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        self.counter += 1;
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let own = disk::read(&self.path, MAX_CLAIM)
            .is_ok_and(|bytes| nonce_of(&bytes) == Some(&self.nonce));
        if own {
            // If it cannot be removed, it becomes stale.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A claim that a thread renews: an instruction may take longer than a lease. A worker that makes no step for too long hangs, and its
/// chunk is given back.
pub(super) struct Kept {
    steps: Arc<AtomicU64>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Kept {
    pub(super) fn new(claim: Claim, patience: Duration) -> Result<Kept> {
        let ((ended, end), steps) = (channel(), Arc::new(AtomicU64::new(0)));
        let seen = steps.clone();
        let name = thread::Builder::new().name("becalm-claim".into());
        let thread = name.spawn(move || keep(claim, patience, &seen, &end));
        let thread = thread.map_err(|e| {
            let remedy = "end other programs, or allow more threads";
            Error::io("work", "a thread that renews a claim", e.to_string(), remedy)
        })?;
        Ok(Kept { steps, end: Some(ended), thread: Some(thread) })
    }

    /// Notes that the work goes on.
    pub(super) fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            // It cannot panic. If it did, the claim is stale after its lease.
            let _ = thread.join();
        }
    }
}

fn keep(mut claim: Claim, patience: Duration, steps: &AtomicU64, end: &Receiver<()>) {
    let (mut last, mut since) = (0, Instant::now());
    while end.recv_timeout(claim.lease / 4) == Err(RecvTimeoutError::Timeout) {
        let now = steps.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() >= patience {
            return;
        }
        // A renewal that fails is tried again. If it never succeeds another worker takes the chunk, and no result is lost.
        let _ = claim.renew();
    }
}

fn field<'a>(bytes: &'a [u8], before: &str, after: char) -> Option<&'a str> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

fn nonce_of(bytes: &[u8]) -> Option<&str> {
    field(bytes, "{\"nonce\":\"", '"')
}

/// The time for which a claim wants to be left alone.
fn lease_of(bytes: &[u8]) -> Duration {
    let asked = field(bytes, "\"lease_ms\":", ',').and_then(|text| text.parse().ok());
    Duration::from_millis(asked.unwrap_or(0)).min(MAX_LEASE)
}

/// The name of the worker in a claim, for people.
pub(super) fn worker_of(path: &Path) -> Option<String> {
    let bytes = disk::read(path, MAX_CLAIM).ok()?;
    let name = field(&bytes, "\"worker\":\"", '"')?;
    super::manifest::is_name(name).then(|| name.to_string())
}

/// The claims of others, as this worker sees them.
#[derive(Default)]
pub(super) struct Watch {
    /// The bytes of a claim, and since when they are the same.
    seen: HashMap<usize, (Vec<u8>, Instant)>,
}

impl Watch {
    /// Looks at a claim, and moves it away if it is stale; whether the chunk is free now.
    pub(super) fn look(&mut self, job: &Job, chunk: usize, lease: Duration) -> Result<bool> {
        let path = job.claim(chunk);
        let bytes = match fs::metadata(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                self.seen.remove(&chunk);
                return Ok(true);
            }
            // A claim that cannot be read does not change either.
            _ => disk::read(&path, MAX_CLAIM).unwrap_or_default(),
        };
        let now = Instant::now();
        let (same, since) = self.seen.entry(chunk).or_insert_with(|| (bytes.clone(), now));
        if *same != bytes {
            (*same, *since) = (bytes, now);
            return Ok(false);
        }
        if since.elapsed() < lease.max(lease_of(&bytes)) {
            return Ok(false);
        }
        self.seen.remove(&chunk);
        take_over(job, chunk, &bytes)
    }
}

/// Moves a stale claim away. Another worker may have done so and made a new one since: that one is put back.
fn take_over(job: &Job, chunk: usize, stale: &[u8]) -> Result<bool> {
    let path = job.claim(chunk);
    let aside = path.with_file_name(format!(".stale-{}-{}", chunk_name(chunk), disk::nonce()?));
    match fs::rename(&path, &aside) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(true),
        Err(e) => return Err(write_error(&path, &e)),
        Ok(()) => {}
    }
    let moved = disk::read(&aside, MAX_CLAIM).unwrap_or_default();
    let wrong = moved != stale;
    if wrong {
        // A link does not replace a claim that was made in the meantime.
        let _ = fs::hard_link(&aside, &path);
    }
    let _ = fs::remove_file(&aside);
    Ok(!wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_says_its_lease_and_worker() {
        let text =
            br#"{"nonce":"ab","lease_ms":1500,"counter":"00000000000000000001","worker":"w"}"#;
        assert_eq!((nonce_of(text), lease_of(text)), (Some("ab"), Duration::from_millis(1500)));
        assert_eq!((nonce_of(b""), lease_of(b"\xff{")), (None, Duration::ZERO));
    }
}
