//! This processor as a machine of CKKS programs: registers of lanes, over the instructions of [`CkksSession`].

use super::evaluate::Expanded;
use super::session::Registers;
use super::{CkksEvaluator, CkksMaps, CkksSession};
use crate::backend::{CkksOn, Loaded, Session};
use crate::cipher::Rlwe;
use crate::math::buffer::or_refused;
use crate::math::threads::Threads;
use crate::program::rlwe::{CkksProgram, CkksWalk};
use crate::program::{Ckks, Reg};
use crate::{Error, Result};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Keys on the processor.
struct RlweSession {
    pool: Arc<Threads>,
    on: CkksOn,
    /// Keys that stay in their file are expanded once for all waves that need them.
    expanded: Expanded,
    running: Option<Running>,
}

/// A program in the machine.
struct Running {
    loaded: Loaded<Ckks>,
    maps: CkksMaps,
    /// For each lane the registers; those that are dead or not yet written are empty.
    files: Vec<Registers<'static>>,
}

/// A session for keys, on the threads of `pool`.
pub(in crate::backend::cpu) fn open(pool: &Arc<Threads>, on: CkksOn) -> Box<dyn Session<Ckks>> {
    let (pool, expanded) = (pool.clone(), Expanded::default());
    Box::new(RlweSession { pool, on, expanded, running: None })
}

fn not_loaded() -> Error {
    Error::bad_input("run", "a loaded program", "none", "call load first")
}

fn no_lane(at: Reg, lanes: &Range<usize>, there: usize) -> Error {
    let got = format!("{lanes:?} of register {}", at.0);
    let wanted = format!("lanes of a live register of {there}");
    Error::bad_input(
        "read",
        wanted,
        got,
        "write inputs before the first wave, and read outputs after the last",
    )
}

impl RlweSession {
    fn evaluator(&self) -> Result<CkksEvaluator<'_>> {
        Ok(CkksEvaluator::new(&self.on.context, &self.on.keys)?.sharing(&self.expanded))
    }

    /// The matrices of a program: those of the last one, if it is the same.
    fn maps(&self, program: &Arc<CkksProgram>) -> Result<CkksMaps> {
        let same = |r: &&Running| {
            Arc::ptr_eq(&r.loaded.program, program) || r.loaded.program.maps() == program.maps()
        };
        if let Some(running) = self.running.as_ref().filter(same) {
            return Ok(running.maps.clone());
        }
        let bytes = self.on.matrices;
        let encode = || Ok(CkksSession::within(self.evaluator()?, program, bytes)?.maps());
        self.pool.install(encode)
    }
}

impl Session<Ckks> for RlweSession {
    fn load(
        &mut self,
        program: Arc<CkksProgram>,
        walk: Arc<CkksWalk>,
        lanes: usize,
    ) -> Result<Loaded<Ckks>> {
        self.on.context.check_set("load", program.params().name)?;
        program.require(&self.on.keys)?;
        let maps = self.maps(&program)?;
        self.pool.install(|| {
            let session = CkksSession::stepping(self.evaluator()?, &program, maps.clone());
            session.require_work(lanes)
        })?;
        let empty = || (0..program.registers()).map(|_| None).collect();
        let files = (0..lanes).map(|_| empty()).collect();
        let loaded = Loaded { program, walk, lanes };
        self.running = Some(Running { loaded: loaded.clone(), maps, files });
        Ok(loaded)
    }

    fn write(&mut self, at: Reg, lane: usize, ct: &Rlwe) -> Result<()> {
        let Some(Running { loaded, maps, .. }) = &self.running else { return Err(not_loaded()) };
        if lane >= loaded.lanes || loaded.program.info(at).is_none() {
            return Err(no_lane(at, &(lane..lane + 1), loaded.lanes));
        }
        let evaluator = self.evaluator()?;
        let session = CkksSession::stepping(evaluator, &loaded.program, maps.clone());
        let x = self
            .pool
            .install(|| or_refused("write", || Ok(session.argument(ct, at)?.into_owned())))?;
        if let Some(running) = &mut self.running {
            running.files[lane][at.0 as usize] = Some(Cow::Owned(x));
        }
        Ok(())
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<Rlwe>> {
        let running = self.running.as_ref().ok_or_else(not_loaded)?;
        let refuse = || no_lane(at, &lanes, running.loaded.lanes);
        let files = running.files.get(lanes.clone()).ok_or_else(refuse)?;
        let one = |file: &Registers<'_>| {
            file.get(at.0 as usize).and_then(Option::as_deref).ok_or_else(refuse).cloned()
        };
        or_refused("read", || files.iter().map(one).collect())
    }

    fn run(&mut self, _loaded: &Loaded<Ckks>, waves: Range<usize>) -> Result<()> {
        let Some(mut running) = self.running.take() else { return Err(not_loaded()) };
        let Running { loaded, maps, files } = &mut running;
        let done = self.pool.install(|| {
            let session = CkksSession::stepping(self.evaluator()?, &loaded.program, maps.clone());
            or_refused("run", || {
                for w in waves {
                    for op in loaded.walk.waves[w].ops.iter().map(|i| &loaded.program.ops()[*i]) {
                        session.let_go(op);
                        for file in files.iter_mut() {
                            file[op.result().0 as usize] =
                                Some(Cow::Owned(session.made(op, file)?));
                        }
                    }
                    for file in files.iter_mut() {
                        loaded.walk.dead_after[w].iter().for_each(|r| file[r.0 as usize] = None);
                    }
                }
                Ok(())
            })
        });
        self.running = Some(running);
        done
    }
}
