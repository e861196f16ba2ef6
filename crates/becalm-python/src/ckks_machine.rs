//! CKKS: the machine. Every call that computes on ciphertexts is a program, of one instruction or of many, and runs here; nothing
//! else of this crate knows what it runs on.

use crate::call::{Watch, supervised};
use crate::ckks::{CkksCiphertext, Shared, brief};
use becalm::backend::{CkksEvaluator, CkksOn, Prepared};
use becalm::cipher::{CkksKeys, Rlwe};
use becalm::math::buffer::or_refused;
use becalm::program::Reg;
use becalm::program::rlwe::CkksProgram as Program;
use becalm::{Error, Result};
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;

pub(crate) use becalm::backend::{Plain, Shares};

/// Keys on the machine, used until the watch asks to stop.
fn evaluator(
    on: &Shared,
    keys: &Arc<CkksKeys>,
    watch: Option<&Arc<Watch>>,
) -> Result<CkksEvaluator> {
    let opened = CkksOn::new(&on.context, keys);
    let opened = match watch.cloned() {
        Some(watch) => opened.asking(move || watch.wanted()),
        None => opened,
    };
    CkksEvaluator::open(&on.cpu, opened)
}

/// A program with encoded matrices of at most so many bytes, for any keys.
pub(crate) fn prepared(
    on: &Shared,
    program: &Arc<Program>,
    bytes: usize,
    watch: &Watch,
) -> Result<Prepared> {
    Prepared::new(&on.cpu, &on.context, program, bytes, &|done, all| watch.step(done, all))
}

/// Refuses keys that do not suffice for a program.
pub(crate) fn require(on: &Shared, keys: &Arc<CkksKeys>, program: &Program) -> Result<()> {
    evaluator(on, keys, None)?.require(program)
}

/// Refuses keys without these rotations up to `level`.
pub(crate) fn require_rotations(
    on: &Shared,
    keys: &Arc<CkksKeys>,
    by: &[i64],
    level: usize,
) -> Result<()> {
    let mut program = Program::new(&on.context);
    let x = program.input(level, on.context.params().slots())?;
    by.iter().try_for_each(|by| program.rotate(x, *by).map(|_| ()))?;
    require(on, keys, &program)
}

/// What a call computes on and with.
pub(crate) struct Call<'a> {
    pub(crate) on: &'a Shared,
    /// None for instructions that need no key.
    pub(crate) keys: Option<&'a Arc<CkksKeys>>,
    pub(crate) inputs: &'a [&'a CkksCiphertext],
    /// The first plaintext of the program, encoded.
    pub(crate) plain: Option<&'a Arc<Plain>>,
    /// Whether the work takes so long that Ctrl-C is to stop it.
    pub(crate) long: bool,
}

impl Call<'_> {
    /// Records a program of arguments like the inputs, and runs it on them. Errors about their keys call it `op`.
    pub(crate) fn all(
        self,
        py: Python<'_>,
        op: &'static str,
        record: impl FnOnce(&mut Program, &[Reg]) -> Result<Vec<Reg>> + Send,
    ) -> PyResult<Vec<CkksCiphertext>> {
        let plain = self.plain;
        let run = |on: &CkksEvaluator, given: &[&Rlwe]| match plain {
            Some(plain) => on.call_with(op, given, plain, record),
            None => on.call(op, given, record),
        };
        match self.long {
            true => watched(py, self.on, None, |watch| self.run(Some(watch), run)),
            false => brief(py, self.on, |_| self.run(None, run)),
        }
    }

    /// [`Call::all`] of a program with one result.
    pub(crate) fn one(
        self,
        py: Python<'_>,
        op: &'static str,
        record: impl FnOnce(&mut Program, &[Reg]) -> Result<Reg> + Send,
    ) -> PyResult<CkksCiphertext> {
        let mut made = self.all(py, op, |p, args| Ok(vec![record(p, args)?]))?;
        made.pop().ok_or_else(|| crate::call::raise(no_result()))
    }

    /// Runs a program that is prepared.
    pub(crate) fn ready(self, py: Python<'_>, ready: &Prepared) -> PyResult<Vec<CkksCiphertext>> {
        watched(py, self.on, None, |watch| self.run(Some(watch), |on, given| on.run(ready, given)))
    }

    fn run(
        &self,
        watch: Option<&Arc<Watch>>,
        work: impl FnOnce(&CkksEvaluator, &[&Rlwe]) -> Result<Vec<Rlwe>>,
    ) -> Result<Vec<CkksCiphertext>> {
        let opened = self.inputs.iter().map(|x| x.open()).collect::<Result<Vec<_>>>()?;
        let given: Vec<&Rlwe> = opened.iter().map(Arc::as_ref).collect();
        let none = || given.first().map(|x| Arc::new(CkksKeys::none(x.params(), x.key_id())));
        let keys = self.keys.cloned().or_else(none).ok_or_else(no_result)?;
        let made = work(&evaluator(self.on, &keys, watch)?, &given)?;
        made.into_iter().map(|x| CkksCiphertext::kept(self.on, x)).collect()
    }
}

/// Runs a program on every lane, one after the other; each lane has a ciphertext for each argument.
pub(crate) fn run_lanes(
    py: Python<'_>,
    on: &Shared,
    keys: &Arc<CkksKeys>,
    ready: &Prepared,
    lanes: &[Vec<&CkksCiphertext>],
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Vec<CkksCiphertext>>> {
    let all = lanes.len() * ready.waves();
    watched(py, on, progress, |watch| {
        let evaluator = evaluator(on, keys, Some(watch))?;
        let run = |(lane, inputs): (usize, &Vec<&CkksCiphertext>)| {
            let opened = inputs.iter().map(|x| x.open()).collect::<Result<Vec<_>>>()?;
            let given: Vec<&Rlwe> = opened.iter().map(Arc::as_ref).collect();
            let mut made = evaluator.run_lanes(ready, &[&given], &mut |done, _| match watch
                .step(lane * ready.waves() + done, all)
            {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })?;
            made.remove(0).into_iter().map(|x| CkksCiphertext::kept(on, x)).collect()
        };
        lanes.iter().enumerate().map(run).collect()
    })
}

/// Work on the threads of the machine that Ctrl-C stops, with progress.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    on: &Shared,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&Arc<Watch>) -> Result<T> + Send,
) -> PyResult<T> {
    supervised(py, progress, |watch| on.cpu.install(|| or_refused("becalm", || work(watch))))
}

fn no_result() -> Error {
    let remedy = "pass one ciphertext or more";
    Error::bad_input("run", "a program with arguments and results", "none", remedy)
}
