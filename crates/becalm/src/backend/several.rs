//! Several machines as one: the lanes of a program are divided among them, or the instructions of its waves where lanes are few.
//!
//! With at least as many lanes as machines each has lanes of its own and never hears of the others. With fewer, every machine holds all
//! registers and runs its part of each wide wave; then the host passes the results on. Linear instructions are cheaper than passing
//! their results on, so every machine runs all of them.

use super::registers::not_loaded;
use super::{Backend, Ckks, Fallback, Family, Info, Loaded, Runs, Session, Tfhe};
use crate::program::{Constants, Operation, Pace, Reg, Walk, Wave};
use crate::{Error, Progress, Result};
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

/// Some machines as one: each opens the keys, and the lanes of a program or its waves are divided among them.
///
/// ```
/// use becalm::backend::{Cpu, Evaluator, Several};
/// use becalm::{cipher::SecretKey, params::TfheParams, tfhe::Table};
///
/// # fn main() -> becalm::Result<()> {
/// // A toy set: `true` allows an insecure one.
/// let secret = SecretKey::generate(TfheParams::named("toy_2_2")?, true)?;
/// let machines = Several::new(vec![Box::new(Cpu::new(1)?), Box::new(Cpu::new(1)?)])?;
/// let server = Evaluator::new(&machines, &secret.evaluation_key()?)?;
/// let table = Table::from_fn(secret.params(), |m| (m + 1) % 16)?;
/// // Two ciphertexts for each machine.
/// let y = server.bootstrap(&secret.encrypt(&[0, 5, 10, 15])?, &table)?;
/// assert_eq!(secret.decrypt(&y)?, [1, 6, 11, 0]);
/// # Ok(())
/// # }
/// ```
pub struct Several(Vec<Box<dyn Backend>>);

impl Several {
    /// These machines.
    ///
    /// # Errors
    /// [`Error::BadInput`] for none.
    pub fn new(machines: Vec<Box<dyn Backend>>) -> Result<Several> {
        if machines.is_empty() {
            return Err(Error::bad_input("several", "at least one machine", "none", "name one"));
        }
        Ok(Several(machines))
    }
}

/// The facts of some machines as those of one.
fn together(all: impl Iterator<Item = Info>) -> Info {
    let all: Vec<Info> = all.collect();
    let names: BTreeSet<&str> = all.iter().map(|info| info.name).collect();
    let descriptions: Vec<&str> = all.iter().map(|info| info.description.as_str()).collect();
    Info {
        name: if let [one] = Vec::from_iter(names)[..] { one } else { "several" },
        description: descriptions.join(", "),
        memory: all.iter().map(|info| info.memory).min().unwrap_or(0),
        best_batch: all.iter().map(|info| info.best_batch).sum(),
        pace: all.first().map_or(Pace::default(), |info| info.pace.divided(all.len())),
    }
}

impl Backend for Several {
    fn info(&self) -> Info {
        together(self.0.iter().map(|machine| machine.info()))
    }

    fn tfhe(&self) -> Option<&dyn Runs<Tfhe>> {
        self.0.iter().all(|machine| machine.tfhe().is_some()).then_some(self as _)
    }

    fn ckks(&self) -> Option<&dyn Runs<Ckks>> {
        self.0.iter().all(|machine| machine.ckks().is_some()).then_some(self as _)
    }

    fn is_far(&self) -> bool {
        self.0.iter().all(|machine| machine.is_far())
    }
}

impl<F: Family> Runs<F> for Several {
    fn accepts(&self, params: &F::Params) -> Result<()> {
        self.0.iter().try_for_each(|machine| machine.runs::<F>()?.accepts(params))
    }

    fn supports(&self, op: &F::Op, params: &F::Params) -> bool {
        let supports = |m: &dyn Backend| F::on(m).is_some_and(|m| m.supports(op, params));
        self.0.iter().all(|machine| supports(machine.as_ref()))
    }

    /// For the first machine and all of its kind; the others make their own.
    fn prepare(
        &self,
        base: &F::Base,
        program: &F::Program,
        bytes: usize,
        progress: Progress,
    ) -> Result<Option<Constants>> {
        self.0[0].runs::<F>()?.prepare(base, program, bytes, progress)
    }

    fn open(&self, setup: F::Setup) -> Result<Box<dyn Session<F>>> {
        let machines = self.0.iter();
        let opened = machines.map(|m| Ok((m.runs::<F>()?.open(setup.clone())?, m.info())));
        Ok(joined(opened.collect::<Result<_>>()?))
    }
}

/// Sessions of the same keys, each with its machine, as one session.
pub(super) fn joined<F: Family>(mut all: Vec<(Box<dyn Session<F>>, Info)>) -> Box<dyn Session<F>> {
    match (all.len(), all.pop()) {
        (1, Some((one, _))) => one,
        (_, last) => {
            all.extend(last);
            let info = together(all.iter().map(|(s, info)| s.info().unwrap_or(info.clone())));
            let sessions = all.into_iter().map(|(session, _)| session).collect();
            Box::new(SeveralSession { sessions, info, running: None })
        }
    }
}

struct SeveralSession<F: Family> {
    sessions: Vec<Box<dyn Session<F>>>,
    info: Info,
    running: Option<Running<F>>,
}

/// A program on the first of the sessions.
struct Running<F: Family> {
    loaded: Loaded<F>,
    /// The lanes of each session that runs.
    seats: Vec<Range<usize>>,
    /// Which session runs which instruction of each wave, by its position; none where each has lanes of its own.
    owners: Option<Vec<Vec<usize>>>,
}

/// A session and its lanes: the sessions and what to do with them go through the same loops.
type Seated<'a, F> = (&'a mut Box<dyn Session<F>>, &'a Range<usize>);

/// Does something in all sessions at once: in the first on this thread, in each other on a thread of its own. Sessions wait for their
/// machines, which is no work for the threads of a pool.
fn at_once<T: Send, R: Send>(
    sessions: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let (mut sessions, work) = (sessions.into_iter(), &work);
    let Some(first) = sessions.next() else { return Ok(vec![]) };
    thread::scope(|scope| {
        let begin = |session| thread::Builder::new().spawn_scoped(scope, move || work(session));
        let others: Vec<_> = sessions.map(begin).collect();
        let first = work(first);
        let end = |other: std::io::Result<thread::ScopedJoinHandle<'_, Result<R>>>| match other {
            Ok(other) => other.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(e) => {
                let wanted = "a thread for each machine";
                Err(Error::memory("several", wanted, e.to_string(), "use fewer machines"))
            }
        };
        std::iter::once(first).chain(others.into_iter().map(end)).collect()
    })
}

/// The part of `lanes` that is within `own`, counted from there.
fn within(lanes: &Range<usize>, own: &Range<usize>) -> Range<usize> {
    let (from, to) = (lanes.start.max(own.start), lanes.end.min(own.end));
    from.saturating_sub(own.start)..to.saturating_sub(own.start)
}

impl<F: Family> SeveralSession<F> {
    /// Which session runs which instruction of each wave, where sharing waves gives more than one session something to do: as many
    /// sessions as the wave fills.
    fn owners(&self, waves: &[Wave], lanes: usize) -> Option<Vec<Vec<usize>>> {
        let count = self.sessions.len();
        if lanes >= count || !self.sessions.iter().all(|session| session.splits_waves()) {
            return None;
        }
        let room = (self.info.best_batch / count / 4).max(1);
        let of = |wave: &Wave| {
            let ops = wave.ops.len();
            let fills = (ops * lanes).div_ceil(room).clamp(1, count);
            let used = if wave.kind.divides() { fills.min(ops.max(1)) } else { 1 };
            (0..ops).map(|i| i * used / ops).collect()
        };
        let owners: Vec<Vec<usize>> = waves.iter().map(of).collect();
        owners.iter().flatten().any(|owner| *owner > 0).then_some(owners)
    }

    /// The sessions that have a seat.
    fn seated(&mut self) -> Result<Vec<Seated<'_, F>>> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        Ok(self.sessions.iter_mut().zip(&running.seats).collect())
    }

    /// Brings the results that one session has computed of a wave to the others, if anybody is to read them.
    fn pass_on(&mut self, w: usize) -> Result<()> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let Some(owners) = running.owners.as_ref().map(|owners| &owners[w]) else { return Ok(()) };
        let (loaded, lanes) = (&running.loaded, 0..running.loaded.lanes);
        let wave = &loaded.walk.waves[w];
        if !wave.kind.divides() {
            return Ok(());
        }
        let dead: BTreeSet<Reg> = loaded.walk.dead_after[w].iter().copied().collect();
        let mut made: Vec<Vec<Reg>> = vec![vec![]; self.sessions.len()];
        for (i, owner) in wave.ops.iter().zip(owners) {
            let results = loaded.program.ops()[*i].results().iter();
            made[*owner].extend(results.filter(|reg| !dead.contains(reg)));
        }
        let words = at_once(self.sessions.iter().zip(&made), |(session, regs)| {
            if regs.is_empty() { Ok(vec![]) } else { session.read_many(regs, lanes.clone()) }
        })?;
        at_once(self.sessions.iter_mut().enumerate(), |(s, session)| {
            let others = made.iter().zip(&words).enumerate().filter(|(owner, _)| *owner != s);
            others
                .flat_map(|(_, (regs, words))| regs.iter().zip(words))
                .try_for_each(|(reg, words)| session.write(*reg, 0, words))
        })?;
        Ok(())
    }
}

/// The waves as session `s` runs them.
fn part(waves: &[Wave], owners: &[Vec<usize>], s: usize) -> Vec<Wave> {
    let of = |(wave, owners): (&Wave, &Vec<usize>)| {
        if !wave.kind.divides() {
            return wave.clone();
        }
        let all = || wave.ops.iter().zip(owners);
        let own = all().filter(|(_, owner)| **owner == s).map(|(i, _)| *i).collect();
        let elsewhere = all().filter(|(_, owner)| **owner != s).map(|(i, _)| *i).collect();
        Wave { kind: wave.kind, ops: own, elsewhere }
    };
    waves.iter().zip(owners).map(of).collect()
}

impl<F: Family> Session<F> for SeveralSession<F> {
    fn info(&self) -> Option<Info> {
        Some(self.info.clone())
    }

    fn fallback(&self) -> Option<Fallback> {
        self.sessions.iter().find_map(|session| session.fallback())
    }

    fn remark(&self) -> Option<String> {
        let mut all: Vec<String> = self.sessions.iter().filter_map(|s| s.remark()).collect();
        all.dedup();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn survives_fork(&self) -> bool {
        self.sessions.iter().all(|session| session.survives_fork())
    }

    fn clear(&mut self) {
        self.sessions.iter_mut().for_each(|session| session.clear());
    }

    fn load(
        &mut self,
        program: Arc<F::Program>,
        walk: Arc<Walk>,
        lanes: usize,
        progress: Progress,
    ) -> Result<Loaded<F>> {
        self.running = None;
        let count = self.sessions.len();
        let owners = self.owners(&walk.waves, lanes);
        let seats: Vec<(Range<usize>, Arc<Walk>)> = match &owners {
            Some(owners) => {
                let own = |s| walk.with_waves(part(&walk.waves, owners, s));
                (0..count).map(|s| (0..lanes, Arc::new(own(s)))).collect()
            }
            None => {
                let used = count.min(lanes.max(1));
                let own = |s: usize| lanes * s / used..lanes * (s + 1) / used;
                (0..used).map(|s| (own(s), walk.clone())).collect()
            }
        };
        let load = |(session, (lanes, walk)): (&mut Box<dyn Session<F>>, (Range<usize>, _))| {
            session.load(program.clone(), walk, lanes.len(), progress)?;
            Ok(lanes)
        };
        let seats = at_once(self.sessions.iter_mut().zip(seats), load)?;
        let loaded = Loaded { program, walk, lanes };
        self.running = Some(Running { loaded: loaded.clone(), seats, owners });
        Ok(loaded)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[F::Word]) -> Result<()> {
        let loaded = &self.running.as_ref().ok_or_else(not_loaded)?.loaded;
        let lanes = loaded.check_write(at, lane, words.len())?;
        let width = words.len() / lanes.len().max(1);
        at_once(self.seated()?, |(session, seat)| {
            let here = within(&lanes, seat);
            if here.is_empty() {
                return Ok(());
            }
            let from = (here.start + seat.start - lanes.start) * width;
            session.write(at, here.start, &words[from..from + here.len() * width])
        })?;
        Ok(())
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<F::Word>> {
        Ok(self.read_many(&[at], lanes)?.remove(0))
    }

    fn read_many(&self, at: &[Reg], lanes: Range<usize>) -> Result<Vec<Vec<F::Word>>> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        at.iter().try_for_each(|reg| running.loaded.check_read(*reg, true, &lanes))?;
        // Sessions have lanes in their order; without lanes of its own the first has all.
        let used = if running.owners.is_some() { 1 } else { running.seats.len() };
        let seats = self.sessions.iter().zip(&running.seats).take(used);
        let parts = at_once(seats, |(session, seat)| {
            let here = within(&lanes, seat);
            if here.is_empty() && !lanes.is_empty() {
                return Ok(vec![vec![]; at.len()]);
            }
            session.read_many(at, here)
        })?;
        let mut parts = parts.into_iter();
        let mut words = parts.next().ok_or_else(not_loaded)?;
        for part in parts {
            words.iter_mut().zip(part).for_each(|(words, more)| words.extend(more));
        }
        Ok(words)
    }

    fn run(&mut self, waves: Range<usize>, progress: Progress) -> Result<()> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        running.loaded.check_waves(&waves)?;
        let divided = running.owners.is_some();
        // Results of a divided wave are passed on before the next begins.
        let steps = if divided { waves.map(|w| w..w + 1).collect() } else { vec![waves] };
        for waves in steps {
            at_once(self.seated()?, |(session, _)| session.run(waves.clone(), progress))?;
            if divided {
                self.pass_on(waves.start)?;
            }
        }
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        self.sessions.iter().try_for_each(|session| session.wait())
    }
}
