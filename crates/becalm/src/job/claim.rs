//! Claims of chunks: a file that one worker alone can make, and that it rewrites while it works.
//!
//! A claim is stale when its bytes have not changed for a lease, by the clock of the worker that looks. So the clocks of workers need
//! not agree, and it does not matter which bytes they are. Claims save work and decide nothing: the rename of results does. Two workers
//! with one chunk cost time, and never a result.

use super::disk;
use super::folder::Job;
use super::place::{Held, MAX_CLAIM};
use crate::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The longest lease that a claim may ask others for.
const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);

/// A claim of this worker; it is given back when dropped.
pub(super) struct Claim {
    held: Box<dyn Held>,
    said: Said,
    lease: Duration,
}

/// The record of a claim.
struct Said {
    worker: String,
    nonce: String,
    milliseconds: u128,
    counter: u64,
}

impl Said {
    /// The next bytes: as long as those before, so that no part of these stays.
    fn next(&mut self) -> Vec<u8> {
        let Said { worker, nonce, milliseconds, counter } = self;
        let text = format!(
            "{{\"nonce\":\"{nonce}\",\"lease_ms\":{milliseconds},\"counter\":\"{counter:020}\",\"worker\":\"{worker}\"}}\n"
        );
        *counter += 1;
        text.into_bytes()
    }
}

impl Claim {
    /// Claims a chunk; none if somebody else has.
    pub(super) fn new(
        job: &Job,
        chunk: usize,
        worker: &str,
        lease: Duration,
    ) -> Result<Option<Claim>> {
        let (worker, nonce, milliseconds) = (worker.into(), disk::nonce()?, lease.as_millis());
        let mut said = Said { worker, nonce, milliseconds, counter: 0 };
        let held = job.place.claim(&job.claim(chunk), &said.next())?;
        Ok(held.map(|held| Claim { held, said, lease }))
    }

    /// Writes the next counter.
    fn renew(&mut self) -> Result<()> {
        self.held.renew(&self.said.next())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.held.release();
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

/// The time for which a claim wants to be left alone.
fn lease_of(bytes: &[u8]) -> Duration {
    let asked = field(bytes, "\"lease_ms\":", ',').and_then(|text| text.parse().ok());
    Duration::from_millis(asked.unwrap_or(0)).min(MAX_LEASE)
}

/// The name of the worker who has claimed a chunk, for people.
pub(super) fn worker_of(job: &Job, chunk: usize) -> Option<String> {
    let bytes = job.place.read(&job.claim(chunk), MAX_CLAIM).ok()??;
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
        let name = job.claim(chunk);
        let bytes = match job.place.read(&name, MAX_CLAIM) {
            Ok(None) => {
                self.seen.remove(&chunk);
                return Ok(true);
            }
            Ok(Some(bytes)) => bytes,
            // A claim that cannot be read does not change either.
            Err(_) => vec![],
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
        job.place.free(&name, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_says_its_lease_and_worker() {
        let text =
            br#"{"nonce":"ab","lease_ms":1500,"counter":"00000000000000000001","worker":"w"}"#;
        let mut said =
            Said { worker: "w".into(), nonce: "ab".into(), milliseconds: 1500, counter: 1 };
        assert_eq!(said.next().strip_suffix(b"\n"), Some(&text[..]));
        assert_eq!((lease_of(text), said.counter), (Duration::from_millis(1500), 2));
        assert_eq!((lease_of(b""), lease_of(b"\xff{")), (Duration::ZERO, Duration::ZERO));
    }
}
