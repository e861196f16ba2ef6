//! From ciphertexts of CKKS to ciphertexts: checks, lanes, waves, and the error of the results.
//!
//! Keys, arguments and memory are checked before the first instruction runs. Level, scale, slots and account of the results are those
//! that the program knows. A single operation is a program of one instruction.

use super::opened::Opened;
use super::{Backend, CkksSetup, Fallback, Info, Loaded, Plain, Session};
use crate::cipher::{CkksKeys, Rlwe};
use crate::ckks::{Chain, Chebyshev, Matrix};
use crate::math::complex::Complex;
use crate::program::rlwe::{CkksProgram, CkksWalk};
use crate::program::{Ckks, Reg};
use crate::{Progress, Result, UNWATCHED};
use std::ops::Range;
use std::sync::Arc;

const OP: &str = "evaluate";

/// A program with its constants in the form of a machine: encoded matrices and plaintexts.
#[derive(Debug, Clone)]
pub struct Prepared {
    program: Arc<CkksProgram>,
    walk: Arc<CkksWalk>,
}

impl Prepared {
    /// Prepares a program for a kind of machine and any keys, with encoded matrices of at most `bytes`.
    ///
    /// # Errors
    /// As [`Backend::prepare_ckks`].
    pub fn new(
        backend: &dyn Backend,
        chain: &Arc<Chain>,
        program: &Arc<CkksProgram>,
        bytes: usize,
        progress: Progress,
    ) -> Result<Prepared> {
        let constants = backend.prepare_ckks(chain, program, bytes, progress)?;
        let walk = CkksWalk { constants, ..program.walk() };
        Ok(Prepared { program: program.clone(), walk: Arc::new(walk) })
    }

    /// A program whose only plaintext is encoded already: at the level where it is used, or above.
    pub fn with_plain(program: &Arc<CkksProgram>, plain: &Arc<Plain>) -> Prepared {
        let constants = (program.plaintexts().len() == 1).then(|| plain.constants(program));
        let walk = CkksWalk { constants, ..program.walk() };
        Prepared { program: program.clone(), walk: Arc::new(walk) }
    }

    /// The program.
    pub fn program(&self) -> &Arc<CkksProgram> {
        &self.program
    }

    /// Its waves: steps of progress on each part of the lanes that runs at once.
    pub fn waves(&self) -> usize {
        self.walk.waves.len()
    }

    /// Bytes of the constants in memory.
    pub fn bytes(&self) -> usize {
        self.walk.constants.as_ref().map_or(0, |c| c.bytes())
    }
}

/// The machine makes the constants when it loads the program, and keeps them until it loads another.
impl From<&Arc<CkksProgram>> for Prepared {
    fn from(program: &Arc<CkksProgram>) -> Prepared {
        Prepared { program: program.clone(), walk: Arc::new(program.walk()) }
    }
}

impl From<&Prepared> for Prepared {
    fn from(prepared: &Prepared) -> Prepared {
        prepared.clone()
    }
}

/// Evaluation keys of CKKS on a machine. It runs programs of CKKS.
///
/// ```
/// use becalm::backend::{CkksEvaluator, Cpu};
/// use becalm::ckks::Context;
/// use becalm::math::complex::Complex;
/// use becalm::params::CkksParams;
/// use becalm::program::rlwe::CkksProgram;
/// use std::sync::Arc;
///
/// # fn main() -> becalm::Result<()> {
/// // A toy set: `true` allows an insecure one.
/// let context = Arc::new(Context::new(CkksParams::named("ckks_toy_12")?, true)?);
/// let mut program = CkksProgram::new(&context);
/// let x = program.input(2, 4)?;
/// let square = program.multiply(x, x)?;
/// program.output(square)?;
/// let secret = context.secret_key()?;
/// let keys = Arc::new(context.keys(&secret, &program.needs())?);
/// let evaluator = CkksEvaluator::new(&Cpu::new(0)?, &context, &keys)?;
/// let x = context.encrypt(&[0.5, -0.5, 0.25, 1.0].map(Complex::from), 2, &secret)?;
/// let y = evaluator.run(&Arc::new(program), &[&x])?;
/// assert!((context.decrypt(&y[0], &secret)?[2].re - 0.0625).abs() < 1e-6);
/// // A single operation needs no recording.
/// let z = evaluator.multiply(&x, &x)?;
/// assert!((context.decrypt(&z, &secret)?[2].re - 0.0625).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
pub struct CkksEvaluator {
    on: CkksSetup,
    opened: Opened<Ckks>,
}

impl CkksEvaluator {
    /// Opens keys on a machine.
    ///
    /// # Errors
    /// As [`CkksEvaluator::open`].
    pub fn new(
        backend: &dyn Backend,
        chain: &Arc<Chain>,
        keys: &Arc<CkksKeys>,
    ) -> Result<CkksEvaluator> {
        CkksEvaluator::open(backend, CkksSetup::new(chain, keys))
    }

    /// Opens keys on a machine that is to use them as `on` says: within less memory.
    ///
    /// # Errors
    /// As [`Backend::open_ckks`]; `WrongParams` for keys of another set.
    pub fn open(backend: &dyn Backend, on: CkksSetup) -> Result<CkksEvaluator> {
        on.chain.check_set(OP, on.keys.params)?;
        let session = backend.open_ckks(on.clone())?;
        Ok(CkksEvaluator { on, opened: Opened::new(session, backend) })
    }

    /// The chain of the set.
    pub fn chain(&self) -> &Arc<Chain> {
        &self.on.chain
    }

    /// The keys.
    pub fn keys(&self) -> &Arc<CkksKeys> {
        &self.on.keys
    }

    /// The machine.
    pub fn info(&self) -> Info {
        self.opened.machine().0.clone()
    }

    /// Why the machine is not a GPU, where [`by_name`](super::by_name) was asked for `"auto"`.
    pub fn fallback(&self) -> Option<Fallback> {
        self.opened.machine().1.clone()
    }

    /// Runs a program on one ciphertext for each argument, at the levels of its inputs or above. A program that runs again keeps its
    /// matrices; one that is [`Prepared`] keeps them while others run.
    ///
    /// # Errors
    /// `WrongParams`, `WrongKey` and `BadInput` for arguments that do not fit together; `WrongKey` naming a key that is missing; `Memory`
    /// where there is too little; errors of the machine.
    pub fn run(&self, program: impl Into<Prepared>, inputs: &[&Rlwe]) -> Result<Vec<Rlwe>> {
        self.run_with(program, inputs, UNWATCHED)
    }

    /// [`CkksEvaluator::run`] that reports progress and can be stopped: between waves, rotations, steps of a linear map and products of a
    /// polynomial.
    ///
    /// # Errors
    /// As there; `Interrupted` when stopped.
    pub fn run_with(
        &self,
        program: impl Into<Prepared>,
        inputs: &[&Rlwe],
        progress: Progress,
    ) -> Result<Vec<Rlwe>> {
        Ok(self.run_lanes(program, &[inputs], progress)?.remove(0))
    }

    /// [`CkksEvaluator::run`] on several lanes: `lanes` has the arguments of each, and so has the result. It reports progress and can be
    /// stopped.
    ///
    /// # Errors
    /// As [`CkksEvaluator::run`]; `Interrupted` when stopped.
    pub fn run_lanes(
        &self,
        program: impl Into<Prepared>,
        lanes: &[&[&Rlwe]],
        progress: Progress,
    ) -> Result<Vec<Vec<Rlwe>>> {
        let program = program.into();
        lanes.iter().try_for_each(|inputs| self.check(program.program(), inputs))?;
        let mut results = Vec::with_capacity(lanes.len());
        let take = |lane: usize| Ok(lanes[lane].iter().map(|x| (*x).clone()).collect());
        let give = |_, made| {
            results.push(made);
            Ok(())
        };
        self.run_each(program, lanes.len(), take, give, progress)?;
        Ok(results)
    }

    /// [`CkksEvaluator::run_lanes`] for more lanes than memory: `take` returns the arguments of a lane when its turn comes, and `give`
    /// gets its results. As many lanes are in memory as the machine runs at once.
    ///
    /// # Errors
    /// As there; the errors of `take` and `give`.
    pub fn run_each(
        &self,
        program: impl Into<Prepared>,
        lanes: usize,
        mut take: impl FnMut(usize) -> Result<Vec<Rlwe>>,
        mut give: impl FnMut(usize, Vec<Rlwe>) -> Result<()>,
        progress: Progress,
    ) -> Result<()> {
        let Prepared { program, walk } = program.into();
        self.require(&program)?;
        let at_once = self.info().best_batch.clamp(1, lanes.max(1));
        let whole = Loaded { program: program.clone(), walk, lanes };
        let put = |session: &mut dyn Session<Ckks>, part: Range<usize>| {
            let mut inputs = Vec::with_capacity(part.len());
            for (at, lane) in part.enumerate() {
                let taken = take(lane)?;
                program.require_inputs(self.on.keys.id, &taken.iter().collect::<Vec<_>>())?;
                for (reg, x) in program.inputs().iter().zip(&taken) {
                    session.write(*reg, at, std::slice::from_ref(x))?;
                }
                inputs.push(taken);
            }
            Ok(inputs)
        };
        let stamp = |part: Range<usize>, inputs: Vec<Vec<Rlwe>>, made: Vec<Vec<Rlwe>>| {
            let mut made: Vec<_> = made.into_iter().map(Vec::into_iter).collect();
            for (lane, inputs) in part.zip(inputs) {
                let inputs: Vec<&Rlwe> = inputs.iter().collect();
                let each = made.iter_mut().filter_map(Iterator::next);
                give(lane, program.stamped(&inputs, each))?;
            }
            Ok(())
        };
        self.opened.run(program.op(), &whole, at_once, put, stamp, progress)
    }

    /// Refuses ciphertexts and keys that a program does not take: before its matrices are encoded, which takes time.
    ///
    /// # Errors
    /// As [`CkksEvaluator::run`] before it computes.
    pub fn check(&self, program: &CkksProgram, inputs: &[&Rlwe]) -> Result<()> {
        self.on.chain.check_set(program.op(), program.params().name)?;
        program.require_inputs(self.on.keys.id, inputs)?;
        program.require(&self.on.keys)
    }

    /// Refuses keys that do not suffice for a program: before its matrices are encoded, which takes time.
    ///
    /// # Errors
    /// `WrongKey` naming the missing key; `WrongParams` for a program of another set.
    pub fn require(&self, program: &CkksProgram) -> Result<()> {
        self.on.chain.check_set(program.op(), program.params().name)?;
        program.require(&self.on.keys)
    }

    /// Records a program of arguments like `inputs`, of their levels and scales. Errors about the keys of the inputs, which come before
    /// any other, call it `op`.
    ///
    /// # Errors
    /// `WrongKey` and `WrongParams` for inputs of other keys; the errors of `record`.
    pub fn record(
        &self,
        op: &'static str,
        inputs: &[&Rlwe],
        record: impl FnOnce(&mut CkksProgram, &[Reg]) -> Result<Vec<Reg>>,
    ) -> Result<Arc<CkksProgram>> {
        self.on.chain.check_keys(op, self.on.keys.id, inputs)?;
        CkksProgram::like(&self.on.chain, inputs, record)
    }

    /// Records a program as [`CkksEvaluator::record`], and runs it.
    ///
    /// # Errors
    /// As there and as [`CkksEvaluator::run`].
    pub fn call(
        &self,
        op: &'static str,
        inputs: &[&Rlwe],
        record: impl FnOnce(&mut CkksProgram, &[Reg]) -> Result<Vec<Reg>>,
    ) -> Result<Vec<Rlwe>> {
        self.run(&self.record(op, inputs, record)?, inputs)
    }

    fn one(
        &self,
        op: &'static str,
        inputs: &[&Rlwe],
        record: impl FnOnce(&mut CkksProgram, &[Reg]) -> Result<Reg>,
    ) -> Result<Rlwe> {
        Ok(self.call(op, inputs, |p, args| Ok(vec![record(p, args)?]))?.remove(0))
    }

    /// `a·b`, relinearized and rescaled: one level below the lower of the two. The products must stay below
    /// [`Context::largest`](crate::ckks::Context::largest) of the result.
    ///
    /// # Errors
    /// `BadInput` at level 0 and for scales whose product the level below has no room for, `WrongKey` and `WrongParams` for what does
    /// not go together, `Memory` if memory runs out.
    pub fn multiply(&self, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
        self.one("multiply", &[a, b], |p, args| {
            let both = p.aligned(args)?;
            p.multiply(both[0], both[1])
        })
    }

    /// `a·a`.
    ///
    /// # Errors
    /// As [`CkksEvaluator::multiply`].
    pub fn square(&self, a: &Rlwe) -> Result<Rlwe> {
        self.one("multiply", &[a], |p, args| p.multiply(args[0], args[0]))
    }

    /// `a + b`, at the lower of the two levels.
    ///
    /// # Errors
    /// `BadInput` for other slots or scales, `WrongKey` and `WrongParams` for what does not go together.
    pub fn add(&self, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
        self.one("add", &[a, b], |p, args| {
            let both = p.aligned(args)?;
            p.add(both[0], both[1])
        })
    }

    /// `a − b`, at the lower of the two levels.
    ///
    /// # Errors
    /// As [`CkksEvaluator::add`].
    pub fn subtract(&self, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
        self.one("subtract", &[a, b], |p, args| {
            let both = p.aligned(args)?;
            p.subtract(both[0], both[1])
        })
    }

    /// `x + values`, slot by slot; a single value stands for all slots.
    ///
    /// # Errors
    /// `BadInput` for another number of values, or values that are not finite or have no room.
    pub fn add_plain(&self, x: &Rlwe, values: &[Complex]) -> Result<Rlwe> {
        self.one("add", &[x], |p, args| p.add_plain(args[0], values))
    }

    /// `x·values`, slot by slot, rescaled: one level lower. A single value stands for all slots.
    ///
    /// # Errors
    /// As [`CkksEvaluator::add_plain`]; `BadInput` at level 0.
    pub fn multiply_plain(&self, x: &Rlwe, values: &[Complex]) -> Result<Rlwe> {
        self.one("multiply", &[x], |p, args| p.multiply_plain(args[0], values))
    }

    /// `x·c`, rescaled: one level lower.
    ///
    /// # Errors
    /// `BadInput` at level 0, and for a number that is not finite or has no room.
    pub fn multiply_constant(&self, x: &Rlwe, c: f64) -> Result<Rlwe> {
        self.one("multiply", &[x], |p, args| p.multiply_constant(args[0], c))
    }

    /// The same values at a lower level.
    ///
    /// # Errors
    /// `BadInput` for a level above that of the ciphertext.
    pub fn level_down(&self, x: &Rlwe, level: usize) -> Result<Rlwe> {
        self.one("level down", &[x], |p, args| p.level_down(args[0], level))
    }

    /// A matrix of the slots times the vector, one level lower, with `baby` baby steps.
    ///
    /// # Errors
    /// `BadInput` at level 0 and for a matrix of fewer slots; as [`CkksEvaluator::rotate`].
    pub fn linear(&self, x: &Rlwe, matrix: &Arc<Matrix>, baby: usize) -> Result<Rlwe> {
        self.one("matrix product", &[x], |p, args| {
            let scale = p.scale_of(args[0])?;
            p.linear(args[0], matrix.clone(), baby, scale)
        })
    }

    /// a^exponent, by squares and products in one program: ⌈log2(exponent)⌉ levels.
    ///
    /// # Errors
    /// As [`CkksEvaluator::multiply`]; `Unsupported` for the exponent 0.
    pub fn power(&self, a: &Rlwe, exponent: u64) -> Result<Rlwe> {
        self.one("power", &[a], |p, args| p.power(args[0], exponent))
    }

    /// Σ a·b over pairs, relinearized and rescaled once.
    ///
    /// # Errors
    /// As [`CkksEvaluator::multiply`]; `BadInput` for no pairs.
    pub fn dot(&self, pairs: &[(&Rlwe, &Rlwe)]) -> Result<Rlwe> {
        let inputs: Vec<&Rlwe> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
        self.one("dot", &inputs, |p, args| {
            let all = p.aligned(args)?;
            p.dot(&all.as_chunks::<2>().0.iter().map(|[a, b]| (*a, *b)).collect::<Vec<_>>())
        })
    }

    /// The slots rotated to the left by `by`: slot j gets the value of slot j + `by`.
    ///
    /// # Errors
    /// `WrongKey` naming the missing key.
    pub fn rotate(&self, x: &Rlwe, by: i64) -> Result<Rlwe> {
        self.one("rotate", &[x], |p, args| p.rotate(args[0], by))
    }

    /// Rotations by each of these, from one decomposition.
    ///
    /// # Errors
    /// As [`CkksEvaluator::rotate`].
    pub fn rotate_many(&self, x: &Rlwe, by: &[i64]) -> Result<Vec<Rlwe>> {
        self.call("rotate", &[x], |p, args| by.iter().map(|by| p.rotate(args[0], *by)).collect())
    }

    /// The complex conjugate of every slot.
    ///
    /// # Errors
    /// As [`CkksEvaluator::rotate`].
    pub fn conjugate(&self, x: &Rlwe) -> Result<Rlwe> {
        self.one("conjugate", &[x], |p, args| p.conjugate(args[0]))
    }

    /// In each slot the sum of `size` slots from it on.
    ///
    /// # Errors
    /// `BadInput` for a size that is not a power of two or exceeds the slots; as [`CkksEvaluator::rotate`].
    pub fn sum(&self, x: &Rlwe, size: usize) -> Result<Rlwe> {
        self.one("sum", &[x], |p, args| p.sum(args[0], size))
    }

    /// Σ c_i·T_i of the slots, at the scale of the level that is left.
    ///
    /// # Errors
    /// `BadInput` where levels are missing, for coefficients without room or not finite; as [`CkksEvaluator::multiply`].
    pub fn polynomial(&self, x: &Rlwe, p: Chebyshev) -> Result<Rlwe> {
        self.one("polynomial", &[x], |program, args| program.polynomial_at_level(args[0], p))
    }
}
