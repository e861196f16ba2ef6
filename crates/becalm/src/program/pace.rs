//! The pace of a machine, and programs arranged by it: how long a wave takes by the number of its bootstraps, and which bootstraps share
//! a wave.
//!
//! A CPU takes each by itself: only their number counts, and each runs as early as it can. A GPU takes 30 in little more time than one,
//! and 31 in twice that, so a bootstrap that others do not wait for may better come later.

use super::Reg;
use super::graph::{Graph, Operation, Walk, Wave};

/// The time of a wave by the number of its bootstraps, key switches included.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pace {
    /// Bootstraps and nanoseconds, ascending.
    points: Vec<(usize, u64)>,
}

/// The growth of the time by one more bootstrap, from which it is worth while to leave that one for later: a twelfth.
const JUMP: u64 = 12;

impl Default for Pace {
    fn default() -> Pace {
        Pace { points: vec![(1, 1)] }
    }
}

impl Pace {
    /// Times of some numbers of bootstraps; the last is the most that run at once. Without any, only their number counts.
    pub fn new(points: impl IntoIterator<Item = (usize, u64)>) -> Pace {
        let mut points: Vec<(usize, u64)> = points.into_iter().filter(|p| p.0 > 0).collect();
        points.sort_unstable();
        points.dedup_by_key(|p| p.0);
        if points.is_empty() { Pace::default() } else { Pace { points } }
    }

    /// Whether only the number of bootstraps counts.
    pub fn is_work(&self) -> bool {
        self.points.len() == 1
    }

    /// The pace of so many equal machines among which each wave is divided.
    pub fn divided(&self, machines: usize) -> Pace {
        match self.is_work() {
            true => self.clone(),
            false => Pace::new(self.points.iter().map(|(n, t)| (n * machines.max(1), *t))),
        }
    }

    /// Nanoseconds of a wave.
    pub fn time(&self, bootstraps: usize) -> u64 {
        let (most, whole) = self.points.last().copied().unwrap_or((1, 1));
        let (times, rest) = (bootstraps / most, bootstraps % most);
        let at = self.points.partition_point(|p| p.0 < rest);
        let (below, above) =
            (at.checked_sub(1).map(|i| self.points[i]), self.points.get(at).copied());
        let part = match (below, above) {
            _ if rest == 0 => 0,
            (Some((n0, t0)), Some((n1, t1))) => {
                let (over, grows) = ((rest - n0) as u64, t1.saturating_sub(t0));
                t0 + grows * over / (n1 - n0) as u64
            }
            (None, Some((_, t))) | (Some((_, t)), None) => t,
            (None, None) => whole,
        };
        times as u64 * whole + part
    }

    /// Numbers of bootstraps of which one more takes much longer.
    fn ends(&self) -> impl Iterator<Item = usize> {
        let jumps = |n: &usize| self.time(n + 1) > self.time(*n) + self.time(*n) / JUMP;
        self.points.iter().map(|p| p.0).filter(jumps)
    }
}

/// A schedule: for each instruction, the number of bootstraps' waves before it, of bootstraps alone.
struct Schedule {
    level: Vec<usize>,
    time: u64,
}

impl<O: Operation> Graph<O> {
    /// The waves that take the least time at a pace on so many lanes, and that time in nanoseconds. Where only the number of bootstraps
    /// counts these are [`Graph::waves`].
    pub fn waves_at(&self, pace: &Pace, lanes: usize) -> (Vec<Wave>, u64) {
        let lanes = lanes.max(1);
        let early = self.scheduled(pace, lanes, usize::MAX);
        let mut best = early;
        let all = self.ops.iter().filter(|op| op.deep()).count() * lanes;
        let most = pace.points.last().map_or(1, |p| p.0);
        // Waves that are full, most of them, leave nothing to gain.
        if !pace.is_work() && all < most * self.depth() {
            for end in pace.ends().filter(|end| *end >= lanes) {
                let found = self.scheduled(pace, lanes, end / lanes);
                best = if found.time < best.time { found } else { best };
            }
        }
        let Schedule { level, time } = best;
        (self.grouped(|i, _| level[i]), time)
    }

    /// A walk in the waves that take the least time at a pace on so many lanes.
    #[must_use]
    pub fn arranged(&self, walk: Walk, pace: &Pace, lanes: usize) -> Walk {
        match pace.is_work() {
            true => walk,
            false => self.along(self.waves_at(pace, lanes).0).with_constants(walk.constants),
        }
    }

    /// Bootstraps in turns, those first that most others wait for: as many as are ready, or `most` where that takes less time.
    fn scheduled(&self, pace: &Pace, lanes: usize, most: usize) -> Schedule {
        let height = self.heights();
        let mut readers: Vec<Vec<u32>> = vec![vec![]; self.regs.len()];
        let mut missing: Vec<u32> = vec![0; self.ops.len()];
        for (i, op) in self.ops.iter().enumerate() {
            for r in op.sources() {
                readers[r.0 as usize].push(i as u32);
                missing[i] += 1;
            }
        }
        let (mut level, mut time) = (vec![0; self.ops.len()], 0);
        let mut ready: Vec<u32> = vec![];
        let unread = (0..self.ops.len() as u32).filter(|i| missing[*i as usize] == 0);
        let mut known: Vec<Reg> = self.inputs.clone();
        known.extend(unread.flat_map(|i| self.ops[i as usize].results().to_vec()));
        for turn in 0.. {
            while let Some(reg) = known.pop() {
                for &i in &readers[reg.0 as usize] {
                    let op = &self.ops[i as usize];
                    missing[i as usize] -= 1;
                    match (missing[i as usize], op.deep()) {
                        (0, true) => ready.push(i),
                        (0, false) => known.extend(op.results()),
                        _ => {}
                    }
                }
            }
            if ready.is_empty() {
                break;
            }
            let parts = |n: usize| {
                let whole = (n / most) as u64 * pace.time(most.saturating_mul(lanes));
                whole + pace.time(n % most * lanes)
            };
            let count = ready.len();
            let whole = count <= most || pace.time(count * lanes) <= parts(count);
            let taken = if whole { count } else { most };
            // The order is that of the program among equals: plans do not depend on how they are found.
            ready.sort_unstable_by_key(|i| (std::cmp::Reverse(height[*i as usize]), *i));
            for i in ready.drain(..taken) {
                level[i as usize] = turn;
                known.extend(self.ops[i as usize].results());
            }
            time += pace.time(taken * lanes);
        }
        Schedule { level, time }
    }

    /// For each instruction, the bootstraps on the longest path from it on.
    fn heights(&self) -> Vec<u32> {
        let mut above = vec![0; self.regs.len()];
        let mut height = vec![0; self.ops.len()];
        for (i, op) in self.ops.iter().enumerate().rev() {
            let after = op.results().iter().map(|r| above[r.0 as usize]).max().unwrap_or(0);
            height[i] = after + u32::from(op.deep());
            for r in op.sources() {
                above[r.0 as usize] = height[i].max(above[r.0 as usize]);
            }
        }
        height
    }
}
