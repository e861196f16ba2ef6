//! The result of a comparison: one [`Row`] per case, from two [`Timed`] sides run by turns.
//!
//! The ratio of a row is peer/ours of the medians, each per ciphertext: above 1 means that becalm is faster. The sides
//! alternate, and so does which goes first, so that a slow spell of the machine falls on both. Work of one thread is
//! timed by the processor time of the process: on a quiet machine that is the time on the wall, on a busy one it leaves
//! out what other processes took.

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// One side of a comparison, with its keys made and its inputs encrypted.
pub trait Timed {
    /// The work that is timed; outputs are kept for [`Timed::check`].
    fn run(&mut self);
    /// Decrypts what the last run left; an error says what is wrong.
    fn check(&self) -> Result<()>;
    /// How many ciphertexts (or gates, or keys) one run computes.
    fn units(&self) -> usize;
}

/// A side ready to run and what it is called.
pub struct Side {
    /// The work.
    pub timed: Box<dyn Timed>,
    /// Name of its parameter set.
    pub params: String,
    /// log2 of the failure probability that the set claims.
    pub log2_pfail: f64,
}

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// At most this many rounds.
    pub rounds: usize,
    /// No new round after this long, once there are three.
    pub limit: Duration,
}

impl Effort {
    /// Some seconds per case.
    pub const QUICK: Effort = Effort { rounds: 9, limit: Duration::from_secs(8) };
    /// As many rounds as a stable median asks for.
    pub const FULL: Effort = Effort { rounds: 41, limit: Duration::from_secs(60) };
}

/// Milliseconds per ciphertext over all rounds of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    /// The middle.
    pub median_ms: f64,
    /// The fastest.
    pub min_ms: f64,
    /// The slowest.
    pub max_ms: f64,
    /// How many.
    pub rounds: usize,
}

impl Times {
    /// The summary of `samples`, which must not be empty.
    pub(crate) fn of(mut samples: Vec<f64>) -> Times {
        samples.sort_by(f64::total_cmp);
        let n = samples.len();
        let median_ms = (samples[(n - 1) / 2] + samples[n / 2]) / 2.0;
        Times { median_ms, min_ms: samples[0], max_ms: samples[n - 1], rounds: n }
    }
}

/// The source of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Processor time of the process, all threads together: for work of one thread.
    Cpu,
    /// Time on the wall: for work of several threads or another device.
    Wall,
}

impl Clock {
    /// Seconds since some fixed moment.
    pub(crate) fn seconds(self) -> f64 {
        let now = clock_gettime(match self {
            Clock::Cpu => ClockId::ProcessCPUTime,
            Clock::Wall => ClockId::Monotonic,
        });
        now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
    }
}

/// Runs `sides` by turns: one run of each unmeasured, then rounds of one unmeasured run and one
/// measured and checked run each.
pub fn interleave(sides: &mut [Side], clock: Clock, effort: Effort) -> Result<Vec<Times>> {
    for side in sides.iter_mut() {
        side.timed.run();
        side.timed.check()?;
    }
    let begun = Instant::now();
    let mut samples = vec![Vec::new(); sides.len()];
    for round in 0..effort.rounds {
        if round >= 3 && begun.elapsed() > effort.limit {
            break;
        }
        for turn in 0..sides.len() {
            let i = (turn + round) % sides.len();
            // The other side has just filled the caches: the wanted time is that of one run after another.
            sides[i].timed.run();
            let start = clock.seconds();
            sides[i].timed.run();
            let ms = (clock.seconds() - start) * 1e3;
            samples[i].push(ms / sides[i].timed.units() as f64);
            sides[i].timed.check()?;
        }
    }
    Ok(samples.into_iter().map(Times::of).collect())
}

/// The result of one case.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The name of the measurement: `"pbs/2_2/latency"`.
    pub case: String,
    /// The machine that becalm ran on: `"cpu"`.
    pub backend: String,
    /// becalm's median, milliseconds per ciphertext.
    pub ours_ms: Option<f64>,
    /// The peer's name.
    pub peer: String,
    /// The peer's version.
    pub peer_version: String,
    /// The peer's median, milliseconds per ciphertext.
    pub peer_ms: Option<f64>,
    /// peer/ours.
    pub ratio: Option<f64>,
    /// Name of becalm's parameter set; its numbers are the peer's too unless `peer_params` is another set.
    pub params: String,
    /// The security that the set claims, bits.
    pub security_bits: f64,
    /// The failure probability that the set claims, log2.
    pub log2_pfail: f64,
    /// Name of the peer's set where it has to be another one.
    pub peer_params: Option<String>,
    /// Failure probability of the peer's set where it is another one.
    pub peer_log2_pfail: Option<f64>,
    /// Ciphertexts per run.
    pub batch: usize,
    /// Threads of each side.
    pub threads: usize,
    /// The source of the times.
    pub clock: Clock,
    /// Vector instructions: becalm's level.
    pub simd: String,
    /// Vector instructions that the peer was built with.
    pub peer_simd: String,
    /// Whether malloc of the whole process asks for huge pages.
    pub huge_pages: bool,
    /// Bootstraps of becalm, where the work is more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstraps: Option<u64>,
    /// Bootstraps of the peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_bootstraps: Option<u64>,
    /// All of becalm's times.
    pub ours: Option<Times>,
    /// All of the peer's times.
    pub peer_times: Option<Times>,
}

/// Writes the rows as a JSON array.
pub fn write_json(rows: &[impl Serialize], path: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(rows)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
}

/// The rows as a table to read.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<22} {:>10} {:>10} {:>7}  {:<28} {:>5} {:>8}\n",
        "case", "ours ms", "peer ms", "ratio", "params", "bits", "log2 p"
    );
    let number = |x: Option<f64>, digits: usize| x.map_or("-".into(), |x| format!("{x:.digits$}"));
    for r in rows {
        let _ = writeln!(
            text,
            "{:<22} {:>10} {:>10} {:>7}  {:<28} {:>5.0} {:>8.1}{}{}",
            r.case,
            number(r.ours_ms, 3),
            number(r.peer_ms, 3),
            number(r.ratio, 2),
            r.params,
            r.security_bits,
            r.log2_pfail,
            match (&r.peer_params, r.peer_log2_pfail) {
                (Some(name), Some(pfail)) => format!("  (peer: {name}, 2^{pfail:.0})"),
                _ => String::new(),
            },
            match (r.bootstraps, r.peer_bootstraps) {
                (Some(ours), Some(peer)) => format!("  {ours} bootstraps, peer {peer}"),
                (Some(ours), None) => format!("  {ours} bootstraps"),
                _ => String::new(),
            }
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sleep(u64, std::cell::Cell<usize>);
    impl Timed for Sleep {
        fn run(&mut self) {
            std::thread::sleep(Duration::from_millis(self.0));
        }
        fn check(&self) -> Result<()> {
            self.1.set(self.1.get() + 1);
            anyhow::ensure!(self.1.get() < 100, "too many");
            Ok(())
        }
        fn units(&self) -> usize {
            2
        }
    }

    fn side(ms: u64, checks: usize) -> Side {
        Side { timed: Box::new(Sleep(ms, checks.into())), params: "x".into(), log2_pfail: 0.0 }
    }

    #[test]
    fn medians_are_per_unit_and_rounds_are_counted() {
        let effort = Effort { rounds: 5, limit: Duration::from_secs(9) };
        let times = interleave(&mut [side(2, 0), side(8, 0)], Clock::Wall, effort).unwrap();
        assert!(times[0].median_ms >= 1.0 && times[1].median_ms >= 4.0);
        assert!(times[0].median_ms < times[1].median_ms);
        assert_eq!(times[0].rounds, 5);
    }

    #[test]
    fn a_wrong_output_fails_the_case() {
        let effort = Effort { rounds: 5, limit: Duration::from_secs(9) };
        let wrong = interleave(&mut [side(0, 97)], Clock::Wall, effort).unwrap_err();
        assert_eq!(wrong.to_string(), "too many");
    }

    #[test]
    fn median_of_even_and_odd() {
        assert_eq!(Times::of(vec![3.0, 1.0, 2.0]).median_ms, 2.0);
        assert_eq!(Times::of(vec![4.0, 1.0, 2.0, 3.0]).median_ms, 2.5);
    }
}
