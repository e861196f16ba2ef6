//! The machine of CKKS programs: this processor, by [`CkksEvaluator`]; every instruction uses all threads.
//!
//! [`CkksSession::open`] checks the keys and encodes the matrices, most of a program's memory besides the keys; a session
//! runs any number of ciphertexts. A session [within](CkksSession::within) less memory encodes those that do not fit whenever
//! their turn comes, and so it expands keys that are packed or in their file: no more of either is in memory than what is
//! kept and what an instruction takes. A limb of a matrix takes a transform to make again, a limb of a key an unpacking or its
//! words of AES, which is less: [`Shares`] spends a budget on matrices first. Levels, scales and slots of the results are those that the program has recorded.

use super::work::Run;
use super::{CkksEvaluator, LinearMap, Plain};
use crate::cipher::{Account, CkksKeys, Purpose, Rlwe};
use crate::ckks::{Chain, SAME_SCALE};
use crate::math::buffer::or_refused;
use crate::math::complex::Complex;
use crate::math::memory::require_free;
use crate::math::threads;
use crate::program::rlwe::{CkksOp, CkksProgram, MapSpec, RlweInfo};
use crate::program::{Operation, Reg};
use crate::{Error, Result};
use std::borrow::Cow;
use std::sync::Arc;

/// The registers of a run. Arguments that need no change are not copied.
pub(super) type Registers<'b> = Vec<Option<Cow<'b, Rlwe>>>;

/// A call before each instruction, of its place and itself; its error stops the run.
trait Before: FnMut(usize, &CkksOp) -> Result<()> {}
impl<F: FnMut(usize, &CkksOp) -> Result<()>> Before for F {}

/// The matrices of a program that a session keeps encoded, in their order; none where it is encoded when its turn comes.
pub type CkksMaps = Arc<[Option<LinearMap>]>;

/// A program made ready for keys.
pub struct CkksSession<'a> {
    evaluator: CkksEvaluator<'a>,
    program: &'a CkksProgram,
    maps: CkksMaps,
    /// Plaintexts that somebody has encoded, by their numbers.
    plains: Vec<(u32, &'a Plain)>,
    /// For each instruction the registers that nobody reads after it.
    dead: Vec<Vec<Reg>>,
}

/// How memory for keys and matrices is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Bytes for encoded matrices that are kept: [`CkksSession::within`].
    pub matrices: usize,
    /// Bytes for keys that are kept ready: [`Context::ready_keys`](crate::ckks::Context::ready_keys).
    pub keys: usize,
}

const OP: &str = "bootstrap";
impl Shares {
    /// Spends `bytes` on the keys and matrices of a program: first on those of the largest instruction, which may have to
    /// be made when its turn comes, then on matrices to be kept, then on keys. What a run takes besides is its
    /// ciphertexts and work space.
    ///
    /// # Errors
    /// `Memory` where that is less than an instruction takes.
    pub fn of(
        chain: &Chain,
        program: &CkksProgram,
        keys: &CkksKeys,
        bytes: usize,
    ) -> Result<Shares> {
        let least = program.least_bytes(chain);
        let all = program.matrix_bytes(chain);
        if bytes >= all + chain.ready_bytes(keys) {
            return Ok(Shares { matrices: usize::MAX, keys: usize::MAX });
        }
        let Some(spare) = bytes.checked_sub(least) else {
            let gigabytes =
                |bytes: usize| format!("{:.2} GB for keys and matrices", bytes as f64 / 1e9);
            let remedy = "allow more memory, or make keys of fewer baby steps or for more stages";
            return Err(Error::memory(OP, gigabytes(least), gigabytes(bytes), remedy));
        };
        let matrices = spare.min(all);
        Ok(Shares { matrices, keys: spare - matrices })
    }
}

fn encoded_bytes(chain: &Chain, map: &MapSpec) -> usize {
    map.matrix.encoded_bytes(chain, map.level)
}

impl<'a> CkksSession<'a> {
    /// Checks that the keys suffice and encodes the matrices.
    ///
    /// # Errors
    /// `WrongParams` for a program of another set, `WrongKey` naming what is missing, `Memory` where the matrices do not fit.
    pub fn open(evaluator: CkksEvaluator<'a>, program: &'a CkksProgram) -> Result<CkksSession<'a>> {
        CkksSession::within(evaluator, program, usize::MAX)
    }

    /// A session that takes less memory and more time: it keeps encoded matrices of at most `bytes` together, the largest
    /// first, and encodes the others when their turn comes.
    ///
    /// # Errors
    /// As [`CkksSession::open`].
    pub fn within(
        evaluator: CkksEvaluator<'a>,
        program: &'a CkksProgram,
        bytes: usize,
    ) -> Result<CkksSession<'a>> {
        CkksSession::within_with(evaluator, program, bytes, |_, _| true)
    }

    /// [`CkksSession::within`]. `go_on` is told how many matrices are done and how many there are; its `false` stops the work.
    ///
    /// # Errors
    /// As [`CkksSession::within`]; `Interrupted` when stopped.
    pub fn within_with(
        evaluator: CkksEvaluator<'a>,
        program: &'a CkksProgram,
        bytes: usize,
        go_on: impl FnMut(usize, usize) -> bool,
    ) -> Result<CkksSession<'a>> {
        or_refused(program.op(), || CkksSession::encode(evaluator, program, bytes, go_on))
    }

    fn encode(
        evaluator: CkksEvaluator<'a>,
        program: &'a CkksProgram,
        bytes: usize,
        mut go_on: impl FnMut(usize, usize) -> bool,
    ) -> Result<CkksSession<'a>> {
        let maps = program.maps().iter().map(|_| None).collect();
        let session = CkksSession::resume(evaluator, program, maps)?;
        let context = session.evaluator.context();
        let size =
            |map: &MapSpec| if bytes == usize::MAX { 0 } else { encoded_bytes(context, map) };
        let mut sizes: Vec<(usize, usize)> =
            program.maps().iter().map(size).enumerate().map(|(i, s)| (s, i)).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let (mut left, mut kept) = (bytes, vec![false; sizes.len()]);
        for (size, i) in sizes {
            if size <= left {
                left -= size;
                kept[i] = true;
            }
        }
        let encode = |(i, (map, kept)): (usize, (&MapSpec, bool))| {
            if !go_on(i, program.maps().len()) {
                let (wanted, got) = ("to encode all matrices", "a request to stop");
                return Err(Error::interrupted(program.op(), wanted, got, "call it again"));
            }
            kept.then(|| session.encoded(map)).transpose()
        };
        let maps = program.maps().iter().zip(kept).enumerate().map(encode);
        let maps = maps.collect::<Result<_>>()?;
        Ok(CkksSession { maps, ..session })
    }

    /// A session with the matrices that another session of an equal program has encoded ([`CkksSession::maps`]).
    ///
    /// # Errors
    /// As [`CkksSession::open`]; `BadInput` where the matrices are not those of the program, as far as their number tells.
    pub fn resume(
        evaluator: CkksEvaluator<'a>,
        program: &'a CkksProgram,
        maps: CkksMaps,
    ) -> Result<CkksSession<'a>> {
        evaluator.context().check_set(program.op(), program.params().name)?;
        program.require(evaluator.keys())?;
        if maps.len() != program.maps().len() {
            let (wanted, got) = (program.maps().len().to_string(), maps.len().to_string());
            let remedy = "take them from a session of the same program";
            let op = program.op();
            return Err(Error::bad_input(op, format!("{wanted} matrices"), got, remedy));
        }
        let dead = program.dead_after(&program.waves());
        Ok(CkksSession { evaluator, program, maps, plains: vec![], dead })
    }

    /// The session with a plaintext of the program that is encoded already: at the level where it is used or above.
    pub fn with_plain(mut self, plaintext: u32, plain: &'a Plain) -> CkksSession<'a> {
        self.plains.push((plaintext, plain));
        self
    }

    /// For the instructions of a program that was checked already, which somebody else walks.
    pub(super) fn stepping(
        evaluator: CkksEvaluator<'a>,
        program: &'a CkksProgram,
        maps: CkksMaps,
    ) -> CkksSession<'a> {
        CkksSession { evaluator, program, maps, plains: vec![], dead: vec![] }
    }

    fn encoded(&self, map: &MapSpec) -> Result<LinearMap> {
        let context = self.evaluator.context();
        LinearMap::new(context, &map.matrix, map.level, map.baby, map.scale)
    }

    /// The encoded matrices, shared.
    pub fn maps(&self) -> CkksMaps {
        self.maps.clone()
    }

    /// Bytes of the encoded matrices.
    pub fn bytes(&self) -> usize {
        self.maps.iter().flatten().map(LinearMap::bytes).sum()
    }

    /// Bytes that a run takes on so many threads as there are here, at the most: beside the keys, the matrices that are kept and the
    /// arguments.
    pub fn work_bytes(&self) -> usize {
        self.work_bytes_of(1)
    }

    /// [`CkksSession::work_bytes`] on several lanes.
    fn work_bytes_of(&self, lanes: usize) -> usize {
        let (context, keys) = (self.evaluator.context(), self.evaluator.keys());
        let size = |(map, kept): (&MapSpec, &Option<LinearMap>)| match kept {
            Some(_) => 0,
            None => encoded_bytes(context, map),
        };
        let encoded: Vec<usize> =
            self.program.maps().iter().zip(self.maps.iter()).map(size).collect();
        let (program, threads) = (self.program, threads::current());
        Run { context, program, keys, encoded: &encoded, threads, lanes }.bytes()
    }

    /// Refuses a run that would not fit the memory there is. What the last run has left is used again.
    pub(super) fn require_work(&self, lanes: usize) -> Result<()> {
        let kept = self.evaluator.context().ring().kept();
        let remedy = "free memory, use fewer threads or slots, or keep fewer keys and matrices in memory: keys in their file, a session within less";
        match self.work_bytes_of(lanes).saturating_sub(kept) {
            0 => Ok(()),
            more => require_free(self.program.op(), more, remedy),
        }
    }

    /// Runs the program on ciphertexts at the levels of its inputs or above.
    ///
    /// # Errors
    /// `BadInput` for another number of arguments, or one at too low a level or of too many slots; `WrongKey` and
    /// `WrongParams` for what does not go together; `Memory`, before anything is computed, where
    /// [`CkksSession::work_bytes`] are more than there are, and later where another program has taken them meanwhile.
    pub fn run(&self, inputs: &[&Rlwe]) -> Result<Vec<Rlwe>> {
        self.run_with(inputs, |_, _| Ok(()))
    }

    /// [`CkksSession::run`], with a call before each instruction, of its place and itself, for progress; an error of the
    /// call stops the run.
    ///
    /// # Errors
    /// As [`CkksSession::run`], and what `before` returns.
    pub fn run_with(
        &self,
        inputs: &[&Rlwe],
        before: impl FnMut(usize, &CkksOp) -> Result<()>,
    ) -> Result<Vec<Rlwe>> {
        self.require_work(1)?;
        or_refused(self.program.op(), || self.steps(inputs, before))
    }

    fn steps(&self, inputs: &[&Rlwe], mut before: impl Before) -> Result<Vec<Rlwe>> {
        let mut file: Registers<'_> = (0..self.program.registers()).map(|_| None).collect();
        self.write(inputs, &mut file)?;
        let ops = self.program.ops();
        let mut next = 0;
        while let Some(op) = ops.get(next) {
            let made = match self.hoisted(next) {
                Some(rotations) => self.rotated(next, &rotations, &file, &mut before)?,
                None => {
                    before(next, op)?;
                    self.let_go(op);
                    vec![self.step(op, &file)?]
                }
            };
            for made in made {
                let dst = ops[next].result();
                file[dst.0 as usize] = Some(Cow::Owned(self.recorded(dst, made)));
                for reg in &self.dead[next] {
                    file[reg.0 as usize] = None;
                }
                next += 1;
            }
        }
        self.results(inputs, file)
    }

    fn results(&self, inputs: &[&Rlwe], mut file: Registers<'_>) -> Result<Vec<Rlwe>> {
        let regs = self.program.outputs();
        let outputs = regs.iter().enumerate().map(|(i, reg)| {
            let x = match regs[i + 1..].contains(reg) {
                true => file[reg.0 as usize].clone(),
                false => file[reg.0 as usize].take(),
            };
            let x = x.ok_or_else(|| self.unassigned(*reg))?.into_owned();
            Ok(self.program.result(inputs, x))
        });
        outputs.collect()
    }

    /// The result of an instruction, at the level and the scale that the program recorded.
    pub(super) fn made(&self, op: &CkksOp, file: &Registers<'_>) -> Result<Rlwe> {
        Ok(self.recorded(op.result(), self.step(op, file)?))
    }

    fn recorded(&self, dst: Reg, made: Rlwe) -> Rlwe {
        let RlweInfo { level, scale, slots } = *self.program.reg(dst);
        debug_assert!(made.level == level, "level {} instead of {level}", made.level);
        debug_assert!((made.scale / scale - 1.0).abs() < 1e-9, "{} for {scale}", made.scale);
        Rlwe { level, scale, slots, ..made }
    }

    /// The rotations of one source that begin at an instruction, if there are several: they share a decomposition.
    fn hoisted(&self, first: usize) -> Option<Vec<i64>> {
        let CkksOp::Rotate { src: shared, .. } = &self.program.ops()[first] else { return None };
        let alike = |op: &CkksOp| match op {
            CkksOp::Rotate { src, by, .. } if src == shared => Some(*by),
            _ => None,
        };
        let rotations: Vec<i64> = self.program.ops()[first..].iter().map_while(alike).collect();
        (rotations.len() > 1).then_some(rotations)
    }

    /// The results of rotations of one source, from one decomposition.
    fn rotated(
        &self,
        first: usize,
        rotations: &[i64],
        file: &Registers<'_>,
        before: &mut impl Before,
    ) -> Result<Vec<Rlwe>> {
        let ops = &self.program.ops()[first..];
        let x = self.read(file, ops[0].sources()[0])?;
        self.evaluator.rotate_with(x, rotations, |i| {
            before(first + i, &ops[i])?;
            self.let_go(&ops[i]);
            Ok(())
        })
    }

    /// Drops the expanded keys that the instruction does not need.
    pub(super) fn let_go(&self, op: &CkksOp) {
        let needs = self.program.needs_of(op);
        let plan = self.evaluator.context().key_plan(&needs);
        let idle = |p: Purpose| p == Purpose::Multiply && needs.multiply == 0;
        self.evaluator.keep(|which| plan.contains_key(which) && !idle(which.0));
    }

    fn write<'b>(&self, inputs: &[&'b Rlwe], file: &mut Registers<'b>) -> Result<()> {
        self.program.require_inputs(self.evaluator.keys().key_id(), inputs)?;
        for (x, reg) in inputs.iter().copied().zip(self.program.inputs()) {
            file[reg.0 as usize] = Some(self.argument(x, *reg)?);
        }
        Ok(())
    }

    /// An argument at the level of its register.
    pub(super) fn argument<'b>(&self, x: &'b Rlwe, reg: Reg) -> Result<Cow<'b, Rlwe>> {
        let info = self.program.reg(reg);
        let mut x = self.evaluator.context().down(x, info.level)?;
        if x.slots != info.slots {
            x.to_mut().slots = info.slots;
        }
        Ok(x)
    }

    fn read<'b>(&self, file: &'b Registers<'_>, reg: Reg) -> Result<&'b Rlwe> {
        file.get(reg.0 as usize).and_then(Option::as_deref).ok_or_else(|| self.unassigned(reg))
    }

    fn unassigned(&self, reg: Reg) -> Error {
        let (wanted, got) = ("registers assigned before they are read", reg.0.to_string());
        Error::bad_input(self.program.op(), wanted, got, "record the program again")
    }

    /// A matrix times a ciphertext; a matrix that is not kept is encoded first.
    fn mapped(&self, x: &Rlwe, map: usize) -> Result<Rlwe> {
        match &self.maps[map] {
            Some(map) => self.evaluator.linear(x, map),
            None => self.evaluator.linear(x, &self.encoded(&self.program.maps()[map])?),
        }
    }

    /// A plaintext that is encoded already, or its values.
    fn plain(&self, plaintext: u32) -> std::result::Result<&Plain, &[Complex]> {
        let at = plaintext as usize;
        let encoded = self.plains.iter().find(|(which, _)| *which == plaintext);
        encoded.map(|(_, plain)| *plain).ok_or(&self.program.plaintexts()[at])
    }

    /// A product with a plaintext.
    fn times(&self, x: &Rlwe, plaintext: u32) -> Result<Rlwe> {
        let context = self.evaluator.context();
        // Encoded at the scale of its level, it gives the recorded scale only with a ciphertext that has that too.
        let own = (x.scale / context.scale(x.level)? - 1.0).abs() <= SAME_SCALE;
        match self.plain(plaintext) {
            Ok(plain) if own => context.multiply_encoded(x, plain),
            _ => context.multiply_plain(x, &self.program.plaintexts()[plaintext as usize]),
        }
    }

    fn step(&self, op: &CkksOp, file: &Registers<'_>) -> Result<Rlwe> {
        let (evaluator, context) = (&self.evaluator, self.evaluator.context());
        let get = |reg: &Reg| self.read(file, *reg);
        let info = self.program.reg(op.result());
        match op {
            CkksOp::Linear { src, map, .. } => self.mapped(get(src)?, *map as usize),
            CkksOp::Polynomial { src, polynomial, .. } => {
                let p = &self.program.polynomials()[*polynomial as usize];
                evaluator.polynomial(get(src)?, p, info.scale)
            }
            CkksOp::DoubleAngle { src, .. } => evaluator.doubled_angle(get(src)?),
            CkksOp::RaiseModulus { src, .. } => {
                let sparse = evaluator.encapsulate(get(src)?, info.level)?;
                let factor = (info.scale / context.step(0)).round();
                evaluator.encapsulate(&context.lift(&sparse, info.level, factor), info.level)
            }
            CkksOp::Trace { src, dst } => {
                self.program.traced(*dst, *src).try_fold(get(src)?.clone(), |sum, by| {
                    context.add(&sum, &evaluator.rotate(&sum, by as i64)?)
                })
            }
            CkksOp::Multiply { a, b, .. } => evaluator.multiply(get(a)?, get(b)?),
            CkksOp::MultiplyI { src, .. } => context.multiply_i(get(src)?),
            CkksOp::Conjugate { src, .. } => evaluator.conjugate(get(src)?),
            CkksOp::Rotate { src, by, .. } => evaluator.rotate(get(src)?, *by),
            CkksOp::Add { a, b, .. } => context.add(get(a)?, get(b)?),
            CkksOp::Subtract { a, b, .. } => context.subtract(get(a)?, get(b)?),
            CkksOp::AddConstant { src, constant, .. } => {
                let mut x = get(src)?.clone();
                context.add_constant(&mut x, *constant);
                Ok(x)
            }
            CkksOp::Dot { pairs, .. } => {
                let get = |(a, b): &(Reg, Reg)| Ok((get(a)?, get(b)?));
                evaluator.dot(&pairs.iter().map(get).collect::<Result<Vec<_>>>()?)
            }
            CkksOp::Negate { src, .. } => Ok(context.negate(get(src)?)),
            CkksOp::Sum { src, size, .. } => evaluator.sum(get(src)?, *size),
            CkksOp::MultiplyConstant { src, constant, .. } => {
                context.multiply_constant(get(src)?, *constant)
            }
            CkksOp::AddPlain { src, plaintext, .. } => match self.plain(*plaintext) {
                Ok(plain) => context.add_encoded(get(src)?, plain),
                Err(values) => context.add_plain(get(src)?, values),
            },
            CkksOp::MultiplyPlain { src, plaintext, .. } => self.times(get(src)?, *plaintext),
            CkksOp::LevelDown { src, .. } => context.level_down(get(src)?, info.level),
            CkksOp::Rescale { src, .. } => context.rescale(get(src)?),
            CkksOp::Reinterpret { src, .. } => Ok(reread(get(src)?.clone(), info.scale)),
            CkksOp::Repeat { src, .. } => Ok(get(src)?.clone()),
            CkksOp::Refreshed { src, from, limits, .. } => {
                let arrived = from.iter().map(|r| Ok(get(r)?.error)).sum::<Result<f64>>()?;
                let added = limits.error_of(info.slots).unwrap_or(0.0);
                Ok(get(src)?.clone().refreshed(added, arrived))
            }
        }
    }
}

/// The same ciphertext read at another scale.
fn reread(x: Rlwe, scale: f64) -> Rlwe {
    let (by, Account { values, error }) = (x.scale / scale, x.account);
    Rlwe {
        scale,
        error: by * x.error,
        account: Account { values: by * values, error: by * error },
        ..x
    }
}
