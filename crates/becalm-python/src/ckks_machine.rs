//! CKKS: the machine. Every call that computes on ciphertexts is a program, of one instruction or of many, and runs here; nothing
//! else of this crate knows what it runs on.

use crate::call::{Watch, supervised};
use crate::ckks::{CkksCiphertext, Machine, Shared, brief};
use becalm::backend::{CkksEvaluator, CkksMaps, CkksSession as Session, LinearMap};
use becalm::cipher::{CkksKeys, Rlwe};
use becalm::ckks::Context;
use becalm::math::buffer::or_refused;
use becalm::program::Reg;
use becalm::program::rlwe::CkksProgram as Program;
use becalm::{Error, Result};
use pyo3::prelude::*;
use std::sync::Arc;

pub(crate) use becalm::backend::{Plain, Shares};

/// A program with the matrices that are kept encoded.
pub(crate) struct Ready {
    pub(crate) program: Arc<Program>,
    maps: CkksMaps,
}

/// Told how much is done and how much there is; answers whether to go on.
type GoOn<'a> = &'a (dyn Fn(usize, usize) -> bool + Sync);

impl Ready {
    /// With no matrix encoded yet.
    fn of(program: Program) -> Ready {
        let maps = program.maps().iter().map(|_| None).collect();
        Ready { program: Arc::new(program), maps }
    }

    /// With matrices of at most so many bytes; checks that the keys suffice.
    pub(crate) fn within(
        on: &Machine,
        keys: &CkksKeys,
        program: Arc<Program>,
        bytes: usize,
        go_on: GoOn<'_>,
    ) -> Result<Ready> {
        let evaluator = CkksEvaluator::new(&on.context, keys)?;
        let maps = Session::within_with(evaluator, &program, bytes, go_on)?.maps();
        Ok(Ready { program, maps })
    }

    /// With all matrices, for any keys.
    pub(crate) fn encoded(on: &Machine, program: Program, go_on: GoOn<'_>) -> Result<Ready> {
        let each = program.maps().iter().map(|spec| {
            let (matrix, baby) = (&spec.matrix, spec.baby);
            LinearMap::new_with(&on.context, matrix, spec.level, baby, spec.scale, go_on).map(Some)
        });
        let maps = each.collect::<Result<_>>()?;
        Ok(Ready { program: Arc::new(program), maps })
    }

    /// Bytes of the encoded matrices.
    pub(crate) fn bytes(&self) -> usize {
        self.maps.iter().flatten().map(LinearMap::bytes).sum()
    }

    /// Runs the program on ciphertexts, with its first plaintext encoded already if `plain` is given.
    fn run(
        &self,
        on: &Machine,
        keys: &CkksKeys,
        plain: Option<&Plain>,
        inputs: &[&Rlwe],
        go_on: GoOn<'_>,
    ) -> Result<Vec<Rlwe>> {
        let (total, still) = (self.program.ops().len(), || go_on(0, 0));
        let evaluator = CkksEvaluator::new(&on.context, keys)?.asking(&still);
        let mut session = Session::resume(evaluator, &self.program, self.maps.clone())?;
        if let Some(plain) = plain {
            session = session.with_plain(0, plain);
        }
        session.run_with(inputs, |done, _| match go_on(done, total) {
            true => Ok(()),
            false => {
                let (wanted, got) = ("to go on", "a request to stop");
                Err(Error::interrupted(self.program.op(), wanted, got, "call it again"))
            }
        })
    }
}

/// What a call computes on and with.
pub(crate) struct Call<'a> {
    pub(crate) on: &'a Shared,
    /// None for instructions that need no key.
    pub(crate) keys: Option<&'a CkksKeys>,
    pub(crate) inputs: &'a [&'a CkksCiphertext],
    /// The first plaintext of the program, encoded.
    pub(crate) plain: Option<&'a Plain>,
    /// Whether the work takes so long that Ctrl-C is to stop it.
    pub(crate) long: bool,
}

impl Call<'_> {
    /// Records a program of arguments like the inputs, and runs it on them.
    pub(crate) fn all(
        self,
        py: Python<'_>,
        record: impl FnOnce(&mut Program, &[Reg]) -> Result<Vec<Reg>> + Send,
    ) -> PyResult<Vec<CkksCiphertext>> {
        let work = |go_on: GoOn<'_>| {
            let opened = self.inputs.iter().map(|x| x.open()).collect::<Result<Vec<_>>>()?;
            let given: Vec<&Rlwe> = opened.iter().map(Arc::as_ref).collect();
            let mut program = Program::new(&self.on.context);
            let args = given.iter().map(|x| program.input_like(x)).collect::<Result<Vec<_>>>()?;
            let results = record(&mut program, &args)?;
            results.into_iter().try_for_each(|reg| program.output(reg))?;
            self.finish(&Ready::of(program), &given, go_on)
        };
        match self.long {
            true => watched(py, self.on, None, work),
            false => brief(py, self.on, |_| work(&|_, _| true)),
        }
    }

    /// [`Call::all`] of a program with one result.
    pub(crate) fn one(
        self,
        py: Python<'_>,
        record: impl FnOnce(&mut Program, &[Reg]) -> Result<Reg> + Send,
    ) -> PyResult<CkksCiphertext> {
        let mut made = self.all(py, |p, args| Ok(vec![record(p, args)?]))?;
        made.pop().ok_or_else(|| crate::call::raise(no_result()))
    }

    /// Runs a program that is ready.
    pub(crate) fn ready(self, py: Python<'_>, ready: &Ready) -> PyResult<Vec<CkksCiphertext>> {
        watched(py, self.on, None, |go_on| {
            let opened = self.inputs.iter().map(|x| x.open()).collect::<Result<Vec<_>>>()?;
            let given: Vec<&Rlwe> = opened.iter().map(Arc::as_ref).collect();
            self.finish(ready, &given, go_on)
        })
    }

    fn finish(
        &self,
        ready: &Ready,
        given: &[&Rlwe],
        go_on: GoOn<'_>,
    ) -> Result<Vec<CkksCiphertext>> {
        let none = given.first().map(|x| CkksKeys::none(x.params(), x.key_id()));
        let keys = self.keys.or(none.as_ref()).ok_or_else(no_result)?;
        let made = ready.run(self.on, keys, self.plain, given, go_on)?;
        made.into_iter().map(|x| CkksCiphertext::kept(self.on, x)).collect()
    }
}

/// Runs a program on every lane, one after the other; each lane has a ciphertext for each argument.
pub(crate) fn run_lanes(
    py: Python<'_>,
    on: &Shared,
    keys: &CkksKeys,
    ready: &Ready,
    lanes: &[Vec<&CkksCiphertext>],
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Vec<CkksCiphertext>>> {
    let all = lanes.len() * ready.program.ops().len();
    watched(py, on, progress, |go_on| {
        let run = |(lane, inputs): (usize, &Vec<&CkksCiphertext>)| {
            let before = lane * ready.program.ops().len();
            let opened = inputs.iter().map(|x| x.open()).collect::<Result<Vec<_>>>()?;
            let given: Vec<&Rlwe> = opened.iter().map(Arc::as_ref).collect();
            let made = ready.run(on, keys, None, &given, &|done, _| go_on(before + done, all))?;
            made.into_iter().map(|x| CkksCiphertext::kept(on, x)).collect()
        };
        lanes.iter().enumerate().map(run).collect()
    })
}

/// Refuses keys without these rotations up to `level`.
pub(crate) fn require_rotations(
    context: &Context,
    keys: &CkksKeys,
    by: Vec<i64>,
    level: usize,
) -> Result<()> {
    CkksEvaluator::new(context, keys)?.require_rotations(by, level)
}

/// Work on the threads of the machine that Ctrl-C stops, with progress.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    on: &Shared,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(GoOn<'_>) -> Result<T> + Send,
) -> PyResult<T> {
    supervised(py, progress, |watch: &Watch| {
        on.cpu.install(|| or_refused("becalm", || work(&|done, all| watch.step(done, all))))
    })
}

fn no_result() -> Error {
    let remedy = "pass one ciphertext or more";
    Error::bad_input("run", "a program with arguments and results", "none", remedy)
}
