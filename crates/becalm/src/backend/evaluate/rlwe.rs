//! Ciphertexts of CKKS: keys, arguments and memory are checked before the first instruction runs. Level, scale, slots and account of the
//! results are those that the program knows.

use super::{Evaluate, Evaluator, Prepared};
use crate::backend::encoded::Encoded;
use crate::backend::{Backend, Ckks, CkksSetup, Loaded, Plain, Session};
use crate::cipher::{CkksKeys, Rlwe, Standing};
use crate::ckks::{Chain, Chebyshev, Matrix};
use crate::error::RUN;
use crate::math::complex::Complex;
use crate::program::rlwe::{CkksProgram, Operator};
use crate::program::{Reg, Walk};
use crate::{Progress, Result};
use std::ops::Range;
use std::sync::Arc;

impl Prepared {
    /// Prepares a program for a kind of machine and any keys, with encoded matrices of at most `bytes`.
    ///
    /// # Errors
    /// As [`Runs::prepare`](crate::backend::Runs::prepare).
    pub fn new(
        backend: &dyn Backend,
        chain: &Arc<Chain>,
        program: &Arc<CkksProgram>,
        bytes: usize,
        progress: Progress,
    ) -> Result<Prepared> {
        let constants = backend.runs::<Ckks>()?.prepare(chain, program, bytes, progress)?;
        let walk = Arc::new(program.walk().with_constants(constants));
        Ok(Prepared { program: program.clone(), walk: Some(walk) })
    }

    /// A program whose only plaintext is encoded already: at the level where it is used, or above.
    pub fn with_plain(program: &Arc<CkksProgram>, plain: &Arc<Plain>) -> Prepared {
        let constants = (program.plaintexts().len() == 1)
            .then(|| Encoded::of_plain(plain, program).constants());
        let walk = Arc::new(program.walk().with_constants(constants));
        Prepared { program: program.clone(), walk: Some(walk) }
    }

    /// Another program, with the constants of this one, where both have the same matrices and no plaintexts: two tables of as many bits, or
    /// a bootstrap of real values and one of complex ones.
    pub fn again(&self, program: &Arc<CkksProgram>) -> Option<Prepared> {
        let same = self.program.maps() == program.maps();
        let none = [&self.program, program].iter().all(|p| p.plaintexts().is_empty());
        let constants = self.walk.as_ref()?.constants.clone().filter(|_| same && none)?;
        let walk = program.walk().with_constants(Some(constants));
        Some(Prepared { program: program.clone(), walk: Some(Arc::new(walk)) })
    }

    /// The program.
    pub fn program(&self) -> &Arc<CkksProgram> {
        &self.program
    }

    /// Its waves, with the constants.
    pub fn walk(&self) -> Arc<Walk> {
        self.walk.clone().unwrap_or_else(|| Arc::new(self.program.walk()))
    }

    /// Bytes of the constants in memory.
    pub fn bytes(&self) -> usize {
        let constants = self.walk.as_ref().and_then(|walk| walk.constants.as_ref());
        constants.map_or(0, |constants| constants.bytes())
    }
}

impl Evaluate for Ckks {
    type Facts = CkksSetup;
    type Argument<'a> = &'a Rlwe;
    type Output = Rlwe;

    fn facts(setup: &CkksSetup) -> Result<CkksSetup> {
        setup.chain.check_set(RUN, setup.keys.params)?;
        Ok(setup.clone())
    }

    fn require(on: &CkksSetup, program: &CkksProgram) -> Result<()> {
        on.chain.check_set(program.op(), program.params().name)?;
        program.require(&on.keys)
    }

    fn check(on: &CkksSetup, program: &CkksProgram, inputs: &[&Rlwe]) -> Result<()> {
        on.chain.check_set(program.op(), program.params().name)?;
        program.require_inputs(on.keys.id, inputs)?;
        program.require(&on.keys)
    }

    fn run(
        on: &Evaluator<Ckks>,
        program: Prepared,
        inputs: &[&Rlwe],
        progress: Progress,
    ) -> Result<Vec<Rlwe>> {
        Ok(on.run_lanes(program, &[inputs], progress)?.remove(0))
    }

    fn recorded(
        on: &CkksSetup,
        inputs: &[&Rlwe],
        record: impl FnOnce(&mut CkksProgram, &[Reg]) -> Result<Vec<Reg>>,
    ) -> Result<Arc<CkksProgram>> {
        on.chain.check_keys(RUN, on.keys.id, inputs)?;
        CkksProgram::like(&on.chain, inputs, record)
    }

    fn argument(x: &Rlwe) -> &Rlwe {
        x
    }
}

/// Lanes of CKKS, and operators: each is recorded on the spot.
impl Evaluator<Ckks> {
    /// The chain of the set.
    pub fn chain(&self) -> &Arc<Chain> {
        &self.facts.chain
    }

    /// The keys.
    pub fn keys(&self) -> &Arc<CkksKeys> {
        &self.facts.keys
    }

    /// [`Evaluator::run`] on several lanes: `lanes` has the arguments of each, and so has the result. It reports progress and can be
    /// stopped.
    ///
    /// # Errors
    /// As [`Evaluator::run`]; `Interrupted` when stopped.
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

    /// [`Evaluator::run_lanes`] for more lanes than memory: `take` returns the arguments of a lane when its turn comes, and `give`
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
        let walk = walk.unwrap_or_else(|| Arc::new(program.walk()));
        self.require(&program)?;
        let at_once = self.info().best_batch.clamp(1, lanes.max(1));
        let whole = Loaded { program: program.clone(), walk, lanes };
        let put = |session: &mut dyn Session<Ckks>, part: Range<usize>| {
            let mut inputs = Vec::with_capacity(part.len());
            for (at, lane) in part.enumerate() {
                let taken = take(lane)?;
                program.require_inputs(self.facts.keys.id, &taken.iter().collect::<Vec<_>>())?;
                for (reg, x) in program.inputs().iter().zip(&taken) {
                    session.write(*reg, at, std::slice::from_ref(x))?;
                }
                inputs.push(taken);
            }
            Ok(inputs)
        };
        let foreign = self.facts.keys.foreign && program.switches_keys();
        let stamp = |part: Range<usize>, inputs: Vec<Vec<Rlwe>>, made: Vec<Vec<Rlwe>>| {
            let mut made: Vec<_> = made.into_iter().map(Vec::into_iter).collect();
            for (lane, inputs) in part.zip(inputs) {
                let inputs: Vec<&Rlwe> = inputs.iter().collect();
                let each = made.iter_mut().filter_map(Iterator::next);
                let mut made = program.stamped(&inputs, each);
                if foreign {
                    made.iter_mut().for_each(|x| x.account = x.account.but(Standing::FOREIGN));
                }
                give(lane, made)?;
            }
            Ok(())
        };
        let ran = self.opened.run(program.op(), &whole, at_once, put, stamp, progress);
        ran.map_err(|e| program.error_of_run(e))
    }

    /// The program of an operator on arguments like `inputs`, of their levels and scales.
    ///
    /// # Errors
    /// `WrongKey` and `WrongParams` for inputs of other keys; as [`Operator::record`].
    pub fn record(&self, operator: &Operator, inputs: &[&Rlwe]) -> Result<Arc<CkksProgram>> {
        self.facts.chain.check_keys(operator.name(), self.facts.keys.id, inputs)?;
        CkksProgram::like(&self.facts.chain, inputs, |p, args| operator.record(p, args))
    }

    /// Records an operator and runs it: its results. The calls below are operators with one result.
    ///
    /// # Errors
    /// As [`Evaluator::record`] and [`Evaluator::run`].
    pub fn apply(&self, operator: &Operator, inputs: &[&Rlwe]) -> Result<Vec<Rlwe>> {
        self.run(&self.record(operator, inputs)?, inputs)
    }

    fn one(&self, operator: Operator, inputs: &[&Rlwe]) -> Result<Rlwe> {
        Ok(self.apply(&operator, inputs)?.remove(0))
    }

    /// `a·b`, relinearized and rescaled: one level below the lower of the two. The products must stay below
    /// [`Chain::largest`](crate::ckks::Chain::largest) of the result.
    ///
    /// # Errors
    /// `BadInput` at level 0 and for scales whose product the level below has no room for, `WrongKey` and `WrongParams` for what does
    /// not go together, `Memory` if memory runs out.
    pub fn multiply(&self, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
        self.one(Operator::Multiply, &[a, b])
    }

    /// `a·a`.
    ///
    /// # Errors
    /// As [`Evaluator::multiply`].
    pub fn square(&self, a: &Rlwe) -> Result<Rlwe> {
        self.power(a, 2)
    }

    /// `a + b`, at the lower of the two levels.
    ///
    /// # Errors
    /// `BadInput` for other slots or scales, `WrongKey` and `WrongParams` for what does not go together.
    pub fn add(&self, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
        self.one(Operator::Add, &[a, b])
    }

    /// `a − b`, at the lower of the two levels.
    ///
    /// # Errors
    /// As [`Evaluator::add`].
    pub fn subtract(&self, a: &Rlwe, b: &Rlwe) -> Result<Rlwe> {
        self.one(Operator::Subtract, &[a, b])
    }

    /// `x + values`, slot by slot; a single value stands for all slots.
    ///
    /// # Errors
    /// `BadInput` for another number of values, or values that are not finite or have no room.
    pub fn add_plain(&self, x: &Rlwe, values: &[Complex]) -> Result<Rlwe> {
        self.one(Operator::AddPlain(values.to_vec().into()), &[x])
    }

    /// `x·values`, slot by slot, rescaled: one level lower. A single value stands for all slots.
    ///
    /// # Errors
    /// As [`Evaluator::add_plain`]; `BadInput` at level 0.
    pub fn multiply_plain(&self, x: &Rlwe, values: &[Complex]) -> Result<Rlwe> {
        self.one(Operator::MultiplyPlain(values.to_vec().into()), &[x])
    }

    /// `x·c`, rescaled: one level lower.
    ///
    /// # Errors
    /// `BadInput` at level 0, and for a number that is not finite or has no room.
    pub fn multiply_constant(&self, x: &Rlwe, c: f64) -> Result<Rlwe> {
        self.one(Operator::MultiplyPlain(c.into()), &[x])
    }

    /// The same values at a lower level.
    ///
    /// # Errors
    /// `BadInput` for a level above that of the ciphertext.
    pub fn level_down(&self, x: &Rlwe, level: usize) -> Result<Rlwe> {
        self.one(Operator::LevelDown(level), &[x])
    }

    /// A matrix of the slots times the vector, one level lower, with `baby` baby steps.
    ///
    /// # Errors
    /// `BadInput` at level 0 and for a matrix of fewer slots; as [`Evaluator::rotate`].
    pub fn linear(&self, x: &Rlwe, matrix: &Arc<Matrix>, baby: usize) -> Result<Rlwe> {
        self.one(Operator::Linear { matrix: matrix.clone(), baby, by: 0 }, &[x])
    }

    /// a^exponent, by squares and products in one program: ⌈log2(exponent)⌉ levels.
    ///
    /// # Errors
    /// As [`Evaluator::multiply`]; `Unsupported` for the exponent 0.
    pub fn power(&self, a: &Rlwe, exponent: u64) -> Result<Rlwe> {
        self.one(Operator::Power(exponent), &[a])
    }

    /// Σ a·b over pairs, relinearized and rescaled once.
    ///
    /// # Errors
    /// As [`Evaluator::multiply`]; `BadInput` for no pairs.
    pub fn dot(&self, pairs: &[(&Rlwe, &Rlwe)]) -> Result<Rlwe> {
        let (a, b): (Vec<&Rlwe>, Vec<&Rlwe>) = pairs.iter().copied().unzip();
        self.one(Operator::Dot, &[a, b].concat())
    }

    /// The slots rotated to the left by `by`: slot j gets the value of slot j + `by`.
    ///
    /// # Errors
    /// `WrongKey` naming the missing key.
    pub fn rotate(&self, x: &Rlwe, by: i64) -> Result<Rlwe> {
        self.one(Operator::Rotate(vec![by]), &[x])
    }

    /// Rotations by each of these, from one decomposition.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn rotate_many(&self, x: &Rlwe, by: &[i64]) -> Result<Vec<Rlwe>> {
        self.apply(&Operator::Rotate(by.to_vec()), &[x])
    }

    /// The complex conjugate of every slot.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn conjugate(&self, x: &Rlwe) -> Result<Rlwe> {
        self.one(Operator::Conjugate, &[x])
    }

    /// In each slot the sum of `size` slots from it on.
    ///
    /// # Errors
    /// `BadInput` for a size that is not a power of two or exceeds the slots; as [`Evaluator::rotate`].
    pub fn sum(&self, x: &Rlwe, size: usize) -> Result<Rlwe> {
        self.one(Operator::Sum(size), &[x])
    }

    /// Σ c_i·T_i of the slots, at the scale of the level that is left.
    ///
    /// # Errors
    /// `BadInput` where levels are missing, for coefficients without room or not finite; as [`Evaluator::multiply`].
    pub fn polynomial(&self, x: &Rlwe, p: Chebyshev) -> Result<Rlwe> {
        self.one(Operator::Polynomial { p, factor: 1.0, offset: 0.0 }, &[x])
    }
}
