//! Limits of a service: sizes, numbers, and requests a second.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Limits of a service. Those of files, jobs and requests are for each name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Bytes of the longest file.
    pub file: u64,
    /// Bytes of all files that no job has taken, and of keys and programs.
    pub files: u64,
    /// Jobs that are not finished.
    pub queue: usize,
    /// Jobs, finished or not.
    pub jobs: usize,
    /// Requests a second; twice as many may come at once.
    pub rate: f64,
    /// Connections at once, of all clients. Further ones wait.
    pub connections: usize,
    /// The time without a byte after which a connection is closed.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            file: 16 << 30,
            files: 64 << 30,
            queue: 64,
            jobs: 4096,
            rate: 100.0,
            connections: 256,
            idle: Duration::from_secs(30),
        }
    }
}

/// The requests that each name may still send: a bucket that fills at the rate.
#[derive(Default)]
pub(crate) struct Buckets(Mutex<HashMap<String, (f64, Instant)>>);

impl Buckets {
    /// Takes one request, or tells the seconds until there is one.
    pub(crate) fn take(&self, name: &str, rate: f64, now: Instant) -> Result<(), f64> {
        let most = (2.0 * rate).max(1.0);
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, since) = buckets.entry(name.into()).or_insert((most, now));
        *left = (*left + rate * now.duration_since(*since).as_secs_f64()).min(most);
        *since = now;
        if *left < 1.0 {
            return Err((1.0 - *left) / rate);
        }
        *left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_at_its_rate() {
        let (buckets, now) = (Buckets::default(), Instant::now());
        let take = |name: &str, at: f64| buckets.take(name, 2.0, now + Duration::from_secs_f64(at));
        assert!((0..4).all(|_| take("a", 0.0).is_ok()));
        assert_eq!(take("a", 0.0), Err(0.5));
        assert!(take("b", 0.0).is_ok());
        assert_eq!((take("a", 0.5), take("a", 0.5)), (Ok(()), Err(0.5)));
        // However long it waited, it holds no more than at first.
        assert_eq!((0..9).filter(|_| take("a", 100.0).is_ok()).count(), 4);
    }
}
