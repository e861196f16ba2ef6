//! The cost of a program on the machine: the work of each unit over time, bytes over each channel, and the timeline for viewers.

use super::Machine;
use super::units::Sizes;
use crate::params::TfheParams;
use serde::Serialize;

/// A part of the machine that works by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Loads, stores, linear combinations.
    Linear,
    /// Key switches.
    KeySwitch,
    /// Bootstraps.
    Bootstrap,
}

/// The work of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Job {
    /// A ciphertext from memory to a slot.
    Load,
    /// A ciphertext from a slot to memory.
    Store,
    /// A linear combination.
    Sum,
    /// A batch of key switches.
    KeySwitch,
    /// A batch of bootstraps.
    Bootstrap,
    /// Nothing: the linear unit waits for a result of another unit, or for the next word of its instruction.
    Wait,
}

/// The work of a unit in the clocks `begin..=end`, with `count` ciphertexts (terms, for the linear unit; of a wait, those that its
/// sum had before). A wait within a sum lies within the sum's own span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Which unit.
    pub unit: Unit,
    /// The kind of work.
    pub job: Job,
    /// First clock.
    pub begin: u64,
    /// Last clock.
    pub end: u64,
    /// How many ciphertexts or terms.
    pub count: usize,
}

/// The cost of a program on the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Clocks from start to the end of the last store.
    pub clocks: u64,
    /// The work of each unit in order of time; waits stand before the sum that they belong to.
    pub spans: Vec<Span>,
    /// Bytes over each memory channel.
    pub bytes: Vec<(&'static str, u64)>,
    /// The clock, MHz.
    pub megahertz: f64,
    #[serde(skip)]
    sizes: [u64; 8],
}

impl Report {
    pub(super) fn new(machine: &Machine, p: &TfheParams, words: u64) -> Self {
        let s = Sizes::of(machine, p);
        let (word, t) = (8u64, 8 * machine.lanes as u64);
        let switch_key = p.big_dimension() as u64 * s.small * u64::from(p.ks.level) * t;
        let bootstrap_key = s.n * s.level * (s.k + 1) * (s.k + 1) * s.rows * t;
        let sizes =
            [s.big * t, s.small * t, (s.n + 1) * word, s.rows * t, switch_key, bootstrap_key, t, 0];
        let names = [
            "program",
            "linear",
            "linear write",
            "switch",
            "switch key",
            "switch write",
            "table",
            "bootstrap",
            "bootstrap key",
            "bootstrap write",
        ];
        let mut bytes: Vec<(&'static str, u64)> = names.iter().map(|n| (*n, 0)).collect();
        bytes[0].1 = words * word;
        Report { clocks: 0, spans: vec![], bytes, megahertz: machine.megahertz, sizes }
    }

    /// A batch of one of the big units, with all of its traffic.
    pub(super) fn batch(&mut self, unit: Unit, begin: u64, end: u64, count: usize) {
        let (big, small, ct, table) = (self.sizes[0], self.sizes[1], self.sizes[2], self.sizes[3]);
        let many = count as u64;
        let job = if unit == Unit::KeySwitch {
            self.bytes[3].1 += many * big;
            self.bytes[4].1 += self.sizes[4];
            self.bytes[5].1 += many * small;
            Job::KeySwitch
        } else {
            self.bytes[6].1 += many * table;
            self.bytes[7].1 += many * ct;
            self.bytes[8].1 += self.sizes[5];
            self.bytes[9].1 += many * big;
            Job::Bootstrap
        };
        self.spans.push(Span { unit, job, begin, end, count });
    }

    /// A finished sum, with its destination, or a wait.
    pub(super) fn linear(&mut self, job: Job, begin: u64, end: u64, count: usize) {
        if job != Job::Wait {
            self.bytes[2].1 += self.sizes[0];
        }
        self.spans.push(Span { unit: Unit::Linear, job, begin, end, count });
    }

    pub(super) fn linear_rows(&mut self, rows: u64) {
        self.bytes[1].1 += rows * self.sizes[6];
    }

    /// Seconds at the machine's clock.
    pub fn seconds(&self) -> f64 {
        self.clocks as f64 / (self.megahertz * 1e6)
    }

    /// Clocks in which a unit works: from asking for its first operand to the answer of its last write, less those in which
    /// it waits.
    pub fn busy(&self, unit: Unit) -> u64 {
        let length = |s: &Span| s.end + 1 - s.begin;
        let all: u64 = self.jobs(unit).map(length).sum();
        // Work before the first term lies in no sum.
        all - self.waits(unit).filter(|s| s.count > 0).map(length).sum::<u64>()
    }

    /// Clocks in which a unit has an instruction and waits for a result of another one, or for the instruction's next word. A
    /// big unit never does: its batches begin when all is there.
    pub fn waiting(&self, unit: Unit) -> u64 {
        self.waits(unit).map(|s| s.end + 1 - s.begin).sum()
    }

    fn jobs(&self, unit: Unit) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(move |s| s.unit == unit && s.job != Job::Wait)
    }

    fn waits(&self, unit: Unit) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(move |s| s.unit == unit && s.job == Job::Wait)
    }

    /// Clocks in which two units are at work at once; the linear unit's waits within a sum count.
    pub fn both(&self, one: Unit, other: Unit) -> u64 {
        let (mut a, mut b, mut all) = (self.jobs(one).peekable(), self.jobs(other).peekable(), 0);
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            all += (x.end.min(y.end) + 1).saturating_sub(x.begin.max(y.begin));
            if x.end < y.end {
                a.next()
            } else {
                b.next()
            };
        }
        all
    }

    /// Ciphertexts (terms) of a unit, and batches (instructions).
    pub fn work(&self, unit: Unit) -> (usize, usize) {
        self.jobs(unit).fold((0, 0), |(all, batches), s| (all + s.count, batches + 1))
    }

    /// The timeline in Chrome's trace format (JSON), a microsecond of which is a clock: a row for each unit, with its name.
    pub fn trace(&self) -> String {
        let units = [
            (Unit::Linear, "linear unit"),
            (Unit::KeySwitch, "key switch unit"),
            (Unit::Bootstrap, "bootstrap unit"),
        ];
        let names = units.map(|(unit, name)| {
            let tid = unit as usize + 1;
            format!(
                r#"{{"name":"thread_name","ph":"M","pid":1,"tid":{tid},"args":{{"name":"{name}"}}}}"#
            )
        });
        let process = r#"{"name":"process_name","ph":"M","pid":1,"args":{"name":"processor"}}"#;
        let events = self.spans.iter().map(|s| {
            let name = match s.job {
                Job::Load => "load".to_string(),
                Job::Store => "store".to_string(),
                Job::Sum => format!("sum of {}", s.count),
                Job::KeySwitch => format!("key switch of {}", s.count),
                Job::Bootstrap => format!("bootstrap of {}", s.count),
                Job::Wait => "wait".to_string(),
            };
            let (tid, length) = (s.unit as usize + 1, s.end + 1 - s.begin);
            format!(
                r#"{{"name":"{name}","ph":"X","pid":1,"tid":{tid},"ts":{},"dur":{length}}}"#,
                s.begin
            )
        });
        let all: Vec<String> =
            [process.to_string()].into_iter().chain(names).chain(events).collect();
        format!("[{}]\n", all.join(",\n"))
    }
}
