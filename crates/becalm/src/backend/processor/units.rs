//! When the first result of a batch leaves, in clocks from the one in which its unit takes it: the two big units, each with channels of its
//! own, so that a batch of a size always takes the same time. Rows of results follow each other, one a clock.
//!
//! Every number is that of a register or delay in `rtl/`; `rtl/run.py processor` compares the whole to the clock.
//! Bootstrap: step i of ciphertext j begins when the pipeline is free ((k + 1)·N/T clocks a step), polynomial 0 of its
//! step i − 1 is written, and GGSW i has come. Key switch: a row of the key meets one ciphertext a clock.

use super::Machine;
use crate::params::TfheParams;

/// Sizes that both units share.
pub(super) struct Sizes {
    /// N/T.
    pub rows: u64,
    pub k: u64,
    pub n: u64,
    pub log_n: u64,
    pub level: u64,
    /// Rows of a big ciphertext.
    pub big: u64,
    /// Rows of a small ciphertext.
    pub small: u64,
}

impl Sizes {
    pub fn of(machine: &Machine, p: &TfheParams) -> Self {
        let lanes = machine.lanes as u64;
        let (k, n) = (p.glwe_dimension as u64, p.lwe_dimension as u64);
        let rows = p.polynomial_size as u64 / lanes;
        Sizes {
            rows,
            k,
            n,
            log_n: u64::from(p.polynomial_size.trailing_zeros()),
            level: u64::from(p.pbs.level),
            big: k * rows + 1,
            small: (n + lanes) / lanes,
        }
    }

    /// Clocks of a transform from first word in to first word out.
    pub fn transform(&self) -> u64 {
        self.rows - 1 + 7 * self.log_n + 13 * self.log_n.saturating_sub(5).div_ceil(6)
    }
}

/// Bursts on a channel, one beat a clock, in order.
struct Channel {
    latency: u64,
    free: u64,
}

impl Channel {
    /// The clock of the last beat of a burst that is asked for.
    fn ask(&mut self, now: u64, beats: u64) -> u64 {
        self.free = (now + self.latency).max(self.free) + beats;
        self.free - 1
    }
}

/// Clocks of a batch of bootstraps.
pub(super) fn bootstrap(machine: &Machine, p: &TfheParams, count: u64) -> u64 {
    let s = Sizes::of(machine, p);
    let (job, latency) = ((s.k + 1) * s.rows, machine.latency);
    // Table, then ciphertext, one after the other.
    let loaded = 1 + count * (2 * latency + s.rows + s.n + 1);
    // The tables are turned; seven clocks settle the pipeline before and after each phase.
    let turned = loaded + 8 + count * job + 8;
    let deep = 32 - (s.level as u32 - 1).leading_zeros();
    let added = 13 + 2 * u64::from(deep);
    let mut channel = Channel { latency, free: 0 };
    let beats = job * machine.bootstrap_beats as u64;
    // Of each step: when its key is there, and when the key is no longer read.
    let mut asked: u64 = 1;
    let mut there = vec![];
    let mut unread: Vec<u64> = vec![];
    let mut written: Vec<u64> = vec![];
    let (mut begin, mut end) = (turned + 8, 0);
    for step in 0..s.n as usize {
        if step >= 1 {
            asked += 2;
        }
        if step >= 2 {
            asked = asked.max(unread[step - 2]);
        }
        there.push(channel.ask(asked + 1, beats) + 3);
        for j in 0..count as usize {
            let index = step * count as usize + j;
            if index > 0 {
                begin += job;
            }
            begin = begin.max(there[step]);
            if step > 0 {
                begin = begin.max(written[index - count as usize] + 1);
            }
            let last_poly = begin + 9 + s.k * s.rows + s.transform();
            let product = last_poly + added + 2 + s.transform();
            written.push(product + s.rows - 1 + 3);
            end = product + job - 1 + 3;
            if j as u64 + 1 == count {
                unread.push(last_poly + s.rows);
            }
        }
    }
    let drained = (begin + job + 8).max(end + 1);
    drained + 8 + 6
}

/// Clocks of a batch of key switches.
pub(super) fn key_switch(machine: &Machine, p: &TfheParams, count: u64) -> u64 {
    const BURST: u64 = 16;
    const HELD: u64 = 256;
    let s = Sizes::of(machine, p);
    let rows = p.big_dimension() as u64 * s.small;
    let mut begin = 1 + machine.latency + count * s.big;
    let mut channel = Channel { latency: machine.latency, free: 0 };
    let beats = machine.switch_beats as u64;
    // When the last beat of the first row of a burst comes; the others follow.
    let mut burst_at = 0;
    let mut asked: u64 = 1;
    let mut popped = std::collections::VecDeque::new();
    let mut last = 0;
    for row in 0..rows {
        if row % BURST == 0 {
            if row > 0 {
                asked += 2;
            }
            if row + BURST > HELD {
                // The row whose place the last row of the burst takes must have gone.
                let gone = row + BURST - HELD;
                while popped.len() as u64 > HELD {
                    popped.pop_front();
                }
                let index = popped.len() as u64 - (row - (gone - 1));
                asked = asked.max(popped[index as usize] + 1);
            }
            burst_at = channel.ask(asked + 1, BURST * beats) + 1 - BURST * beats;
        }
        let arrived = burst_at + (row % BURST + 1) * beats - 1;
        begin = begin.max(arrived + 2);
        last = begin + count - 1;
        popped.push_back(last + 4);
        begin = last + 1;
    }
    last + 20
}
