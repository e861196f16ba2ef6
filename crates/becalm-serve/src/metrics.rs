//! Figures for Prometheus.

use crate::board::Board;
use crate::routes::{ROUTES, Verb};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counters of a service.
#[derive(Default)]
pub(crate) struct Metrics {
    /// Requests by route and status.
    requests: Mutex<BTreeMap<(Option<Verb>, u16), u64>>,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl Metrics {
    pub(crate) fn count(&self, verb: Option<Verb>, status: u16, bytes_out: u64) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((verb, status)).or_insert(0) += 1;
        self.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self, board: &Board) -> String {
        let mut text = String::new();
        let head = |text: &mut String, name: &str, kind: &str, help: &str| {
            // A string takes all that is written.
            let _ = writeln!(text, "# HELP becalm_{name} {help}\n# TYPE becalm_{name} {kind}");
        };
        head(&mut text, "requests_total", "counter", "Requests by route and status.");
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for ((verb, status), count) in requests.iter() {
            let route = ROUTES.iter().find(|route| Some(route.verb) == *verb);
            let route = route.map_or("other".into(), |r| format!("{} {}", r.method, r.path));
            let _ = writeln!(
                text,
                "becalm_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}"
            );
        }
        let counters = [
            ("bytes_in_total", "Bytes of bodies received.", &self.bytes_in),
            ("bytes_out_total", "Bytes of bodies sent.", &self.bytes_out),
            (
                "chunks_finished_total",
                "Chunks that workers of this process finished.",
                &self.finished,
            ),
            ("chunks_failed_total", "Chunks that failed on workers of this process.", &self.failed),
        ];
        for (name, help, value) in counters {
            head(&mut text, name, "counter", help);
            let _ = writeln!(text, "becalm_{name} {}", value.load(Ordering::Relaxed));
        }
        let now = board.figures();
        let gauges = [
            ("connections", "Connections now.", self.connections.load(Ordering::Relaxed)),
            ("jobs_unfinished", "Jobs that are not finished.", now.unfinished),
            ("jobs_finished", "Jobs that are finished.", now.finished),
            (
                "jobs_stopped",
                "Unfinished jobs that workers of this process cannot work on.",
                now.stopped,
            ),
            ("workers_busy", "Workers of this process that have a job.", now.workers),
        ];
        for (name, help, value) in gauges {
            head(&mut text, name, "gauge", help);
            let _ = writeln!(text, "becalm_{name} {value}");
        }
        text
    }
}
