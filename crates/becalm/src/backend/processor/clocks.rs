//! The machine clock by clock: fetch, decoder, queues and the linear unit as in `rtl/processor`, register by register; the
//! big units by what a batch takes ([`units`](super::units)). Clocks in which nothing changes are skipped.

use super::units::{Sizes, bootstrap, key_switch};
use super::{Job, Machine, Report, Unit, require_bootstrap};
use crate::Result;
use crate::params::TfheParams;
use crate::program::isa::{Instruction, encode};
use std::collections::VecDeque;

/// `rtl/arith/fifo.sv`: the words stored, and whether one is at the exit.
#[derive(Default, Clone, PartialEq)]
struct Fifo {
    stored: u64,
    valid: bool,
}

impl Fifo {
    fn step(&mut self, push: bool, ready: bool) {
        let moves = (!self.valid || ready) && self.stored != 0;
        self.stored = self.stored + u64::from(push) - u64::from(moves);
        self.valid = moves || (self.valid && !ready);
    }

    fn used(&self) -> u64 {
        self.stored + u64::from(self.valid)
    }
}

/// Bursts: first clock, beats left.
#[derive(Default)]
struct Channel(VecDeque<(u64, u64)>);

impl Channel {
    fn give(&mut self, now: u64) -> bool {
        match self.0.front_mut() {
            Some((from, beats)) if *from <= now => {
                *beats -= 1;
                if *beats == 0 {
                    self.0.pop_front();
                }
                true
            }
            _ => false,
        }
    }
}

#[derive(Default)]
struct Fetch {
    left: u64,
    asked: u64,
    used: u64,
    request: Option<u64>,
    queue: Fifo,
    channel: Channel,
}

impl Fetch {
    /// A clock; whether anything changed.
    fn step(&mut self, now: u64, latency: u64, taken: bool) -> bool {
        let came = self.channel.give(now);
        let asks = self.left != 0 && self.request.is_none() && self.asked - self.used + 16 <= 64;
        let before = self.queue.clone();
        self.queue.step(came, taken);
        let asking = self.request.take();
        if let Some(beats) = asking {
            self.channel.0.push_back((now + latency, beats));
        }
        self.used += u64::from(taken);
        if asks {
            let beats = self.left.min(16);
            self.request = Some(beats);
            self.left -= beats;
            self.asked += beats;
        }
        came || asks
            || taken
            || asking.is_some()
            || before != self.queue
            || !self.channel.0.is_empty()
    }
}

/// One of the big units and its queue.
struct Worker {
    unit: Unit,
    /// Source, first and last destination of the operations in flight, oldest first.
    taken: VecDeque<(u16, u16, u16)>,
    open: u64,
    closed: VecDeque<u64>,
    /// When the batch in work ends its results.
    pops: VecDeque<u64>,
    /// Clocks until the first result leaves, for each size of a batch.
    times: Vec<Option<u64>>,
}

impl Worker {
    fn new(unit: Unit, batch: usize) -> Self {
        let (taken, closed, pops) = Default::default();
        Worker { unit, taken, open: 0, closed, pops, times: vec![None; batch + 1] }
    }

    /// Whether anything in flight is to be waited for, and whether anything of the open batch.
    fn hits(&self, src: Option<u16>, dst: Option<(u16, u16)>) -> (bool, bool) {
        let hit = |(s, first, last): &(u16, u16, u16)| {
            src.is_some_and(|src| (*first..=*last).contains(&src))
                || dst.is_some_and(|(from, to)| {
                    from <= *last && to >= *first || (from..=to).contains(s)
                })
        };
        let open = self.taken.len() - self.open as usize;
        (self.taken.iter().any(hit), self.taken.iter().skip(open).any(hit))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Head,
    /// Words of operands to take yet, then what follows.
    Operands(usize),
    Term,
    Send,
    Linear,
    Issue,
    Drain,
}

/// The work that the decoder gives to the units in a clock.
#[derive(Default)]
struct Act {
    term: bool,
    push: Option<(usize, (u16, u16, u16))>,
    over: bool,
}

struct Clocks<'a> {
    machine: &'a Machine,
    params: &'a TfheParams,
    sizes: Sizes,
    now: u64,
    fetch: Fetch,
    workers: [Worker; 2],
    state: State,
    code: &'a [Instruction],
    at: usize,
    sent: usize,
    /// The linear unit.
    request: bool,
    terms: Fifo,
    linear: Channel,
    rows: u64,
    sums: u64,
    linear_done: u64,
    /// When a sum began, its last term ended, and it began to wait for the next one.
    began: u64,
    ended: u64,
    waits: Option<u64>,
    report: Report,
}

/// Runs a program's clocks.
pub(super) fn run(machine: &Machine, params: &TfheParams, code: &[Instruction]) -> Result<Report> {
    let words = encode(code)?.len() as u64 / 8;
    let workers = [Unit::KeySwitch, Unit::Bootstrap].map(|u| Worker::new(u, machine.batch));
    let mut clocks = Clocks {
        machine,
        params,
        sizes: Sizes::of(machine, params),
        now: 1,
        fetch: Fetch { left: words, ..Fetch::default() },
        workers,
        // The first word is taken like an operand.
        state: State::Operands(1),
        code,
        at: 0,
        sent: 0,
        request: false,
        terms: Fifo::default(),
        linear: Channel::default(),
        rows: 0,
        sums: 0,
        linear_done: u64::MAX,
        began: 0,
        ended: 0,
        waits: None,
        report: Report::new(machine, params, words),
    };
    for instruction in code {
        if let Instruction::Bootstrap { encrypted, indices, .. } = instruction {
            require_bootstrap(indices.len(), *encrypted)?;
        }
    }
    let mut magic = true;
    while clocks.step(&mut magic) {}
    clocks.report.clocks = clocks.now;
    Ok(clocks.report)
}

impl Clocks<'_> {
    /// A clock; false in the one that ends the program.
    fn step(&mut self, magic: &mut bool) -> bool {
        let code = self.code;
        let here = (!*magic).then(|| &code[self.at]);
        let takes = matches!(self.state, State::Head | State::Operands(_) | State::Term);
        let taken = takes && self.fetch.queue.valid;
        let mut changed = self.fetch.step(self.now, self.machine.latency, taken);
        let looks = self.looks(here);
        let hits = self.workers.each_ref().map(|w| w.hits(looks.0, looks.1));
        let mut close = hits.map(|h| h.1 || self.state == State::Drain);
        let mut act = Act::default();
        let mut next = self.state;
        if taken {
            if (self.state, here) == (State::Head, Some(&Instruction::Flush)) {
                close = [true; 2];
                self.at += 1;
            }
            next = self.take(here);
            *magic = false;
        } else if let Some(instruction) = here {
            next = self.act(instruction, looks, hits[0].0 || hits[1].0, &mut act);
        }
        changed |= taken || act.term || act.push.is_some() || next != self.state;
        changed |= self.linear_step(act.term, self.small(here));
        changed |= self.workers_step(act.push, close);
        self.state = next;
        if act.over {
            return false;
        }
        self.now += 1;
        if !changed {
            // Nothing changes before the next result of a big unit, or the next beat of the linear one.
            let pops = self.workers.iter().filter_map(|w| w.pops.front().copied());
            let beats = self.linear.0.front().map(|b| b.0.max(self.now));
            let done = Some(self.linear_done).filter(|d| *d != u64::MAX);
            if let Some(event) = pops.chain(beats).chain(done).min() {
                self.now = self.now.max(event);
            }
        }
        true
    }

    /// The decoder takes a word: the state that follows.
    fn take(&mut self, here: Option<&Instruction>) -> State {
        match (self.state, here) {
            (State::Operands(left), Some(_)) if left > 1 => State::Operands(left - 1),
            (State::Operands(_), Some(Instruction::MulAdd { .. })) => State::Term,
            (State::Operands(_), Some(Instruction::Load { .. } | Instruction::Store { .. })) => {
                State::Send
            }
            (State::Operands(_), Some(_)) => State::Issue,
            (State::Term, _) => State::Send,
            (_, Some(instruction)) => {
                self.sent = 0;
                match instruction {
                    Instruction::Halt | Instruction::Sync => State::Drain,
                    Instruction::Flush => State::Head,
                    Instruction::Bootstrap { indices, .. } => State::Operands(2 + indices.len()),
                    _ => State::Operands(1),
                }
            }
            // The magic word.
            (_, None) => State::Head,
        }
    }

    /// The decoder without a word to take: the state that follows.
    fn act(
        &mut self,
        instruction: &Instruction,
        (src, dst): (Option<u16>, Option<(u16, u16)>),
        hit: bool,
        act: &mut Act,
    ) -> State {
        match self.state {
            State::Send if !hit && !self.request && self.terms.used() < 3 => {
                act.term = true;
                let count = match instruction {
                    Instruction::MulAdd { terms, .. } => terms.len(),
                    _ => 1,
                };
                self.begin_term();
                self.sent += 1;
                if self.sent == count { State::Linear } else { State::Term }
            }
            State::Send if hit => {
                self.waits.get_or_insert(self.now);
                State::Send
            }
            State::Linear if self.linear_done == self.now => {
                let job = match instruction {
                    Instruction::Load { .. } => Job::Load,
                    Instruction::Store { .. } => Job::Store,
                    _ => Job::Sum,
                };
                self.report.linear(job, self.began, self.now, self.sent);
                self.linear_done = u64::MAX;
                self.at += 1;
                State::Head
            }
            State::Issue if !hit => {
                let to = usize::from(matches!(instruction, Instruction::Bootstrap { .. }));
                if self.workers[to].taken.len() >= 2 * self.machine.batch {
                    return State::Issue;
                }
                let (first, last) = dst.unwrap_or_default();
                act.push = Some((to, (src.unwrap_or_default(), first, last)));
                self.at += 1;
                State::Head
            }
            State::Drain if self.workers.iter().all(|w| w.taken.is_empty()) => {
                act.over = *instruction == Instruction::Halt;
                self.at += 1;
                State::Head
            }
            same => same,
        }
    }

    /// A term goes to the linear unit: since when it had nothing to do though its instruction was there, and the beginning of
    /// a sum.
    fn begin_term(&mut self) {
        let waits = self.waits.take();
        let idle = match self.sent {
            0 => waits.unwrap_or(self.now),
            sent if self.sums == sent as u64 => self.ended + 1,
            _ => self.now,
        };
        if idle < self.now {
            self.report.linear(Job::Wait, idle, self.now - 1, self.sent);
        }
        if self.sent == 0 {
            self.began = self.now;
        }
    }

    /// The registers that the decoder compares with those in flight.
    fn looks(&self, here: Option<&Instruction>) -> (Option<u16>, Option<(u16, u16)>) {
        match (self.state, here) {
            (State::Send, Some(Instruction::Load { dst, .. })) => (None, Some((dst.0, dst.0))),
            (State::Send, Some(Instruction::Store { src, .. })) => (Some(src.0), None),
            (State::Send, Some(Instruction::MulAdd { dst, terms, .. })) => {
                (Some(terms[self.sent].1.0), Some((dst.0, dst.0)))
            }
            (State::Issue, Some(Instruction::KeySwitch { dst, src, .. })) => {
                (Some(src.0), Some((dst.0, dst.0)))
            }
            (State::Issue, Some(Instruction::Bootstrap { dst, src, indices, .. })) => {
                (Some(src.0), Some((dst.0, dst.0 + (indices.len() - 1) as u16)))
            }
            _ => (None, None),
        }
    }

    fn small(&self, here: Option<&Instruction>) -> bool {
        matches!(
            here,
            Some(
                Instruction::Load { small: true, .. }
                    | Instruction::Store { small: true, .. }
                    | Instruction::MulAdd { small: true, .. }
            )
        )
    }

    fn linear_step(&mut self, term: bool, small: bool) -> bool {
        let last = if small { self.sizes.small } else { self.sizes.big };
        let came = self.linear.give(self.now);
        let ends = came && self.rows + 1 == last;
        if came {
            self.rows = if ends { 0 } else { self.rows + 1 };
        }
        let before = self.terms.clone();
        self.terms.step(term, ends);
        if ends {
            (self.sums, self.ended) = (self.sums + 1, self.now);
            // Through multiplier and adder, out of the queue, and the memory's answer.
            if self.state == State::Linear && self.sums == self.sent as u64 {
                self.linear_done = self.now + 16 + self.machine.write_latency;
                self.sums = 0;
            }
        }
        let asking = self.request;
        if asking {
            self.linear.0.push_back((self.now + self.machine.latency, last));
            self.report.linear_rows(last);
        }
        self.request = term;
        came || asking || term || before != self.terms
    }

    fn workers_step(&mut self, push: Option<(usize, (u16, u16, u16))>, close: [bool; 2]) -> bool {
        let mut changed = false;
        let batch = self.machine.batch as u64;
        for (i, worker) in self.workers.iter_mut().enumerate() {
            let pushed = push.filter(|p| p.0 == i).map(|p| p.1);
            let idle = worker.pops.is_empty();
            let take = worker.closed.front().copied().filter(|_| idle);
            if worker.pops.front() == Some(&self.now) {
                worker.pops.pop_front();
                worker.taken.pop_front();
                changed = true;
            }
            if let Some(count) = take {
                worker.closed.pop_front();
                let (machine, params) = (self.machine, self.params);
                let first =
                    *worker.times[count as usize].get_or_insert_with(|| match worker.unit {
                        Unit::KeySwitch => key_switch(machine, params, count),
                        _ => bootstrap(machine, params, count),
                    });
                let rows = match worker.unit {
                    Unit::KeySwitch => self.sizes.small,
                    _ => self.sizes.big,
                };
                let mut results = 0;
                for (_, from, to) in worker.taken.iter().take(count as usize) {
                    results += u64::from(to - from + 1);
                    let last = first + results * rows - 1 + machine.write_latency;
                    worker.pops.push_back(self.now + last);
                }
                let end = worker.pops.back().copied().unwrap_or(self.now);
                self.report.batch(worker.unit, self.now + 1, end, count as usize);
                changed = true;
            }
            if let Some(entry) = pushed {
                worker.taken.push_back(entry);
                worker.open += 1;
                changed = true;
            }
            let fills = pushed.is_some() && worker.open == batch;
            if fills || (close[i] && worker.open > 0 && pushed.is_none()) {
                worker.closed.push_back(worker.open);
                worker.open = 0;
                changed = true;
            }
        }
        changed
    }
}
