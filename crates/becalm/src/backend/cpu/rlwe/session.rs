//! Keys on this processor: registers of lanes, and the effect of each instruction on them.
//!
//! Matrices dominate the memory: their diagonals are encoded with the special primes, N doubles for each word. [`CkksSetup::within`]
//! keeps those that fit and encodes the others again whenever their turn comes; [`MemoryBudget`](super::MemoryBudget) spends a budget on both
//! matrices and keys.

use super::arithmetic::{self, down};
use super::instructions::{Expanded, Instructions};
use super::linear;
use super::plain::{self, Operand};
use super::polynomial;
use super::work::Run;
use crate::backend::encoded::{Encoded, encoded};
use crate::backend::registers::{Registers, not_loaded};
use crate::backend::{Ckks, CkksSetup, Info, Loaded, Others, Session};
use crate::cipher::{Purpose, Rlwe};
use crate::ckks::{Context, same_scale};
use crate::math::buffer::or_refused;
use crate::math::memory::require_free;
use crate::math::threads::{self, Threads};
use crate::program::rlwe::{CkksOp, CkksProgram, RlweInfo};
use crate::program::{Operation, Reg, Walk};
use crate::{Error, Progress, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

/// Keys on the processor.
pub(super) struct RlweSession {
    pool: Arc<Threads>,
    /// The facts of the processor.
    info: Info,
    context: Arc<Context>,
    on: CkksSetup,
    /// Keys that stay in their file are expanded once for all waves that need them.
    expanded: Expanded,
    /// The matrices of the last program that were not prepared before.
    last: Option<Arc<Encoded>>,
    running: Option<Running>,
}

/// A program in the machine.
struct Running {
    encoded: Arc<Encoded>,
    registers: File,
}

type File = Registers<Ckks, Option<Rlwe>>;

/// The inputs of one instruction of a program.
struct Step<'a> {
    instructions: Instructions<'a>,
    program: &'a CkksProgram,
    encoded: &'a Encoded,
}

impl RlweSession {
    /// On the threads of `pool`.
    pub(super) fn new(
        pool: &Arc<Threads>,
        info: Info,
        context: &Arc<Context>,
        on: CkksSetup,
    ) -> RlweSession {
        let (pool, context, expanded) = (pool.clone(), context.clone(), Expanded::default());
        RlweSession { pool, info, context, on, expanded, last: None, running: None }
    }

    fn step<'a>(
        &'a self,
        program: &'a CkksProgram,
        encoded: &'a Encoded,
        progress: Progress<'a>,
    ) -> Result<Step<'a>> {
        let own = Instructions::new(&self.context, &self.on.keys)?.sharing(&self.expanded);
        Ok(Step { instructions: own.watched(progress), program, encoded })
    }

    /// The constants of a program: those that it was prepared with, those of the last program if its matrices are the same, or new ones,
    /// which take the place of the last. A program without matrices leaves them.
    fn encoded(
        &mut self,
        program: &Arc<CkksProgram>,
        walk: &Walk,
        progress: Progress,
    ) -> Result<Arc<Encoded>> {
        let last = || self.last.clone().filter(|own| own.serves(program));
        if let Some(known) = Encoded::carried(walk, program).or_else(last) {
            return Ok(known);
        }
        let keeps = !program.maps().is_empty();
        if keeps {
            self.last = None;
        }
        let (context, bytes) = (&self.context, self.on.matrices);
        let encode = || Encoded::of(context, program, bytes, progress);
        let encoded = Arc::new(self.pool.install(encode)?);
        if keeps {
            self.last = Some(encoded.clone());
        }
        Ok(encoded)
    }
}

impl Session<Ckks> for RlweSession {
    /// One instruction fills the processor.
    fn info(&self) -> Option<Info> {
        Some(Info { best_batch: 1, ..self.info.clone() })
    }

    fn others(&self) -> Option<Others<Ckks>> {
        let (pool, info, on) = (self.pool.clone(), self.info.clone(), self.on.clone());
        let context = self.context.clone();
        let open = move || RlweSession::new(&pool, info.clone(), &context, on.clone());
        Some(Box::new(move || Box::new(open())))
    }

    fn clear(&mut self) {
        self.running = None;
        self.expanded.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn load(
        &mut self,
        program: Arc<CkksProgram>,
        walk: Arc<Walk>,
        lanes: usize,
        progress: Progress,
    ) -> Result<Loaded<Ckks>> {
        self.context.check_set(program.op(), program.params().name)?;
        program.require(&self.on.keys)?;
        self.running = None;
        let encoded = self.encoded(&program, &walk, progress)?;
        self.pool.install(|| self.step(&program, &encoded, progress)?.require_work(lanes))?;
        let loaded = Loaded { program, walk, lanes };
        self.running = Some(Running { encoded, registers: Registers::new(loaded.clone()) });
        Ok(loaded)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[Rlwe]) -> Result<()> {
        let Running { registers, .. } = self.running.as_mut().ok_or_else(not_loaded)?;
        let loaded = registers.loaded();
        let lanes = loaded.check_write(at, lane, words.len())?;
        let RlweInfo { level, slots, .. } = *loaded.program.reg(at);
        for (lane, ct) in lanes.zip(words) {
            let down = || Ok(down(&self.context, ct, level)?.into_owned());
            let x = self.pool.install(|| or_refused("write", down))?;
            registers.put(at, lane, Rlwe { slots, ..x });
        }
        Ok(())
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<Rlwe>> {
        let Running { registers, .. } = self.running.as_ref().ok_or_else(not_loaded)?;
        registers.read(at, lanes.clone())?;
        lanes.map(|lane| registers.get(at, lane).cloned()).collect()
    }

    fn run(&mut self, waves: Range<usize>, progress: Progress) -> Result<()> {
        let Some(mut running) = self.running.take() else { return Err(not_loaded()) };
        let Running { encoded, registers } = &mut running;
        let loaded = registers.loaded().clone();
        let program = &loaded.program;
        let done = self.pool.install(|| {
            let (done, all) = (AtomicUsize::new(0), waves.len());
            let within = |_, _| progress(done.load(Ordering::Relaxed), all);
            let step = self.step(program, encoded, &within)?;
            or_refused(program.op(), || {
                loaded.check_waves(&waves)?;
                for w in waves {
                    step.wave(&loaded.walk.waves[w].ops, registers)?;
                    registers.retire(w);
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        });
        self.running = Some(running);
        done
    }
}

impl Step<'_> {
    /// Bytes that a run of several lanes takes on the threads that there are here, at the most: beside the keys, the matrices that are
    /// kept and the arguments.
    fn work_bytes(&self, lanes: usize) -> usize {
        let (context, keys) = (self.instructions.context(), self.instructions.keys());
        let encoded = self.encoded.later(context);
        let (program, threads) = (self.program, threads::current());
        Run { chain: context, program, keys, encoded: &encoded, threads, lanes }.bytes()
    }

    /// Refuses a run that would not fit the free memory. The last run's work space is used again.
    fn require_work(&self, lanes: usize) -> Result<()> {
        let kept = self.instructions.context().ring().kept();
        let more = self.work_bytes(lanes).saturating_sub(kept);
        if more == 0 {
            return Ok(());
        }
        let mut remedy = "free memory, or use fewer threads, slots or lanes".to_string();
        if self.encoded.bytes() > 0 {
            remedy += ", or keep matrices within less memory";
        }
        if self.instructions.keys().bytes() > 0 {
            remedy += ", or leave keys in their file";
        }
        require_free(self.program.op(), more, &remedy)
    }

    /// Runs the instructions of a wave on every lane: one, or rotations of one source.
    fn wave(&self, ops: &[usize], registers: &mut File) -> Result<()> {
        let all = self.program.ops();
        if let [one] = ops {
            let op = &all[*one];
            self.let_go(op);
            for lane in 0..registers.lanes() {
                let made = self.made(op, registers, lane)?;
                self.put(op, made, registers, lane);
            }
            return Ok(());
        }
        for lane in 0..registers.lanes() {
            let made = self.rotated(ops, registers, lane)?;
            for (i, made) in ops.iter().zip(made) {
                self.put(&all[*i], made, registers, lane);
            }
        }
        Ok(())
    }

    /// The results of rotations of one source, from one decomposition.
    fn rotated(&self, ops: &[usize], registers: &File, lane: usize) -> Result<Vec<Rlwe>> {
        let all = self.program.ops();
        let by = |i: &usize| match &all[*i] {
            CkksOp::Rotate { by, .. } => Ok(*by),
            op => Err(Error::bad_input("run", "rotations", op.name(), "record the program again")),
        };
        let rotations = ops.iter().map(by).collect::<Result<Vec<_>>>()?;
        let x = registers.get(all[ops[0]].sources()[0], lane)?;
        self.instructions.rotate_with(x, &rotations, |i| {
            self.let_go(&all[ops[i]]);
            Ok(())
        })
    }

    /// A result, at the level and the scale that the program recorded.
    fn put(&self, op: &CkksOp, made: Rlwe, registers: &mut File, lane: usize) {
        let RlweInfo { level, scale, slots, .. } = *self.program.reg(op.result());
        debug_assert!(made.level == level, "level {} instead of {level}", made.level);
        debug_assert!(same_scale(made.scale, scale), "{} for {scale}", made.scale);
        registers.put(op.result(), lane, Rlwe { level, scale, slots, ..made });
    }

    /// Drops the expanded keys that the instruction does not need.
    fn let_go(&self, op: &CkksOp) {
        let needs = self.program.needs_of(op);
        let keys = self.instructions.context().keys_for(&needs);
        let idle = |p: Purpose| p == Purpose::Multiply && needs.multiply == 0;
        self.instructions.keep(|which| keys.contains_key(which) && !idle(which.0));
    }

    /// A matrix times a ciphertext; a matrix that is not kept is encoded first.
    fn mapped(&self, x: &Rlwe, map: usize) -> Result<Rlwe> {
        if let Some(map) = &self.encoded.maps[map] {
            return linear::apply(map, x, &self.instructions);
        }
        let (context, progress) = (self.instructions.context(), self.instructions.progress());
        let map = encoded(context, &self.program.maps()[map], progress)?;
        linear::apply(&map, x, &self.instructions)
    }

    /// A plaintext of the program, with its encodings where it was encoded before.
    fn operand(&self, plaintext: u32) -> Operand<'_> {
        match &self.encoded.plain {
            Some(plain) => plain.as_ref().into(),
            None => (&self.program.plaintexts()[plaintext as usize]).into(),
        }
    }

    /// A ciphertext and a plaintext: of values in slots, or of integers of so many bits.
    fn plus(&self, x: &Rlwe, plaintext: u32, integers: Option<u32>) -> Result<Rlwe> {
        let context = self.instructions.context();
        let Some(bits) = integers else {
            return plain::add(context, x, self.operand(plaintext));
        };
        let values = &self.program.plaintexts()[plaintext as usize];
        Ok(plain::add_integers(context, x, values, bits))
    }

    fn made(&self, op: &CkksOp, registers: &File, lane: usize) -> Result<Rlwe> {
        let (keyed, context) = (&self.instructions, self.instructions.context());
        let get = |reg: &Reg| registers.get(*reg, lane);
        let info = self.program.reg(op.result());
        match op {
            CkksOp::Linear { src, map, .. } => self.mapped(get(src)?, *map as usize),
            CkksOp::Polynomial { src, polynomial, .. } => {
                let p = &self.program.polynomials()[*polynomial as usize];
                polynomial::evaluate(keyed, get(src)?, p, info.scale)
            }
            CkksOp::DoubleAngle { src, .. } => polynomial::double_angle(keyed, get(src)?),
            CkksOp::RaiseModulus { src, .. } => {
                let factor = (info.scale / context.step(0)).round();
                keyed.raise_modulus(get(src)?, info.level, factor)
            }
            CkksOp::Trace { src, dst } => {
                self.program.traced(*dst, *src).try_fold(get(src)?.clone(), |sum, by| {
                    arithmetic::add(context, &sum, &keyed.rotate(&sum, by as i64)?)
                })
            }
            CkksOp::Multiply { a, b, .. } => keyed.multiply(get(a)?, get(b)?),
            CkksOp::MultiplyI { src, .. } => arithmetic::multiply_i(context, get(src)?),
            CkksOp::Conjugate { src, .. } => keyed.conjugate(get(src)?),
            CkksOp::Rotate { src, by, .. } => keyed.rotate(get(src)?, *by),
            CkksOp::Add { a, b, .. } => arithmetic::add(context, get(a)?, get(b)?),
            CkksOp::Subtract { a, b, .. } => arithmetic::subtract(context, get(a)?, get(b)?),
            CkksOp::AddConstant { src, constant, .. } => {
                let mut x = get(src)?.clone();
                arithmetic::add_constant(context, &mut x, *constant);
                Ok(x)
            }
            CkksOp::Dot { pairs, .. } => {
                let get = |(a, b): &(Reg, Reg)| Ok((get(a)?, get(b)?));
                keyed.dot(&pairs.iter().map(get).collect::<Result<Vec<_>>>()?)
            }
            CkksOp::Negate { src, .. } => Ok(arithmetic::negate(get(src)?)),
            CkksOp::Sum { src, size, .. } => keyed.sum(get(src)?, *size),
            CkksOp::MultiplyConstant { src, constant, .. } => {
                arithmetic::multiply_constant(context, get(src)?, *constant)
            }
            CkksOp::WeightedSum { terms, .. } => {
                let get = |(x, c): &(Reg, f64)| Ok((get(x)?, *c));
                let terms = terms.iter().map(get).collect::<Result<Vec<_>>>()?;
                arithmetic::weighted_sum(context, &terms, info.level)
            }
            CkksOp::AddPlain { src, plaintext, .. } => {
                self.plus(get(src)?, *plaintext, info.integers)
            }
            CkksOp::MultiplyPlain { src, plaintext, .. } => {
                plain::multiply(context, get(src)?, self.operand(*plaintext))
            }
            CkksOp::LevelDown { src, .. } => arithmetic::level_down(context, get(src)?, info.level),
            CkksOp::Rescale { src, .. } => arithmetic::rescale(context, get(src)?),
            CkksOp::Reinterpret { src, .. } => Ok(Rlwe { scale: info.scale, ..get(src)?.clone() }),
            CkksOp::Repeat { src, .. } => Ok(get(src)?.clone()),
            CkksOp::Refreshed { src, .. } | CkksOp::Tabulate { src, .. } => Ok(get(src)?.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Ckks, CkksSetup, Cpu, Evaluator};
    use crate::ckks::{Context, Needs};
    use crate::math::complex::Complex;
    use crate::params::CkksParams;
    use std::time::Instant;

    type Direct = fn(&Instructions<'_>, &Rlwe, &Rlwe) -> Result<Rlwe>;
    type Recorded = fn(&Evaluator<Ckks>, &Rlwe, &Rlwe) -> Result<Rlwe>;

    /// Recording a program of one instruction and running it takes no longer than the instruction does.
    #[test]
    #[ignore = "it measures times, alone on a machine: -- --ignored --nocapture"]
    fn a_program_of_one_instruction_takes_no_longer() {
        let cases: [(&str, Direct, Recorded); 2] = [
            ("multiply", |e, a, b| e.multiply(a, b), |e, a, b| e.multiply(a, b)),
            ("rotate", |e, a, _| e.rotate(a, 1), |e, a, _| e.rotate(a, 1)),
        ];
        let cpu = Cpu::new(0).unwrap();
        let same = |x: &Rlwe, y: &Rlwe| x.parts.iter().zip(&y.parts).all(|(a, b)| a[..] == b[..]);
        for (set, rounds) in [("ckks_n14", 120), ("ckks_regular", 30)] {
            let params = CkksParams::named(set).unwrap();
            let context = Arc::new(Context::new(params, false).unwrap());
            let secret = context.secret_key().unwrap();
            let needs = Needs::default().rotate([1], params.levels);
            let keys = Arc::new(context.keys(&secret, &needs).unwrap());
            let of = |v| context.encrypt(&[Complex::from(v); 64], params.levels, &secret).unwrap();
            let [x, y] = [of(0.3), of(0.7)];
            for (name, direct, recorded) in cases {
                let alone = || {
                    let own = Instructions::new(&context, &keys)?;
                    cpu.install(|| direct(&own, &x, &y))
                };
                let call =
                    || recorded(&Evaluator::new(&cpu, CkksSetup::new(&context, &keys))?, &x, &y);
                let timed = |work: &dyn Fn() -> Result<Rlwe>| {
                    let began = Instant::now();
                    let made = work().unwrap();
                    (began.elapsed().as_secs_f64(), made)
                };
                let mut times = [vec![], vec![]];
                for _ in 0..rounds {
                    let [(a, x), (b, y)] = [timed(&alone), timed(&call)];
                    assert!(same(&x, &y), "{set} {name}: another result");
                    times[0].push(a);
                    times[1].push(b);
                }
                let [a, b] = times.map(|mut t| {
                    t.sort_by(f64::total_cmp);
                    1e3 * t[t.len() / 2]
                });
                println!("{set} {name}: {a:.3} ms alone, {b:.3} as a program, {:.3}", b / a);
                assert!(b < 1.05 * a, "{set} {name}: {:.3} times as long", b / a);
            }
        }
    }
}
