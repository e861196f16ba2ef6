//! The instructions of CKKS as launches.

use super::arithmetic::{Cipher, Factor, Sum};
use super::key_switch::Own;
use super::recorder::Recorder;
use super::tape::{Kind, Limbs};
use crate::cipher::Purpose;
use crate::ckks::{power_of_rotation, sum_rotations};
use crate::program::rlwe::CkksOp;
use crate::program::{Operation, Reg, Walk};
use crate::{Error, Result};
use std::sync::Arc;

impl Recorder<'_> {
    /// Records a wave: one instruction, or rotations of one register. Registers that are not read after it are given back.
    pub fn wave(&mut self, walk: &Walk, w: usize) -> Result<()> {
        let (ops, all) = (&walk.waves[w].ops, self.program.ops());
        if let [one] = &ops[..] {
            if !self.early.remove(one) {
                self.one(*one)?;
            }
        } else if let Some(first) = ops.first() {
            let powers = ops.iter().map(|i| self.power(&all[*i])).collect::<Result<Vec<_>>>()?;
            let x = self.get(all[*first].sources()[0])?;
            for (i, made) in ops.iter().zip(self.images(&x, &powers)?) {
                self.put(all[*i].result(), made);
            }
        }
        for reg in &walk.dead_after[w] {
            self.registers[reg.0 as usize] = None;
        }
        Ok(())
    }

    /// Records an instruction, and with it a later one that is alike and whose argument is there: the halves of a bootstrap go together.
    fn one(&mut self, at: usize) -> Result<()> {
        let op = &self.program.ops()[at];
        let Some(twin) = self.twin(at) else {
            let made = self.made(op)?;
            self.put(op.result(), made);
            return Ok(());
        };
        let other = &self.program.ops()[twin];
        let both = vec![self.get(op.sources()[0])?, self.get(other.sources()[0])?];
        let made = match op {
            CkksOp::Polynomial { polynomial, .. } => {
                let p = &self.program.polynomials()[*polynomial as usize];
                self.polynomials(both, p, self.program.reg(op.result()).scale)?
            }
            _ => self.doubled_angles(both)?, // The other kind that has twins.
        };
        for (op, made) in [op, other].into_iter().zip(made) {
            self.put(op.result(), made);
        }
        self.early.insert(twin);
        Ok(())
    }

    /// A later instruction like number `at`, of an argument of the same level and scale that is there. An argument of the program may
    /// be written later, so it has no twin.
    fn twin(&self, at: usize) -> Option<usize> {
        let all = self.program.ops();
        let alike = |a: &CkksOp, b: &CkksOp| match (a, b) {
            (CkksOp::DoubleAngle { .. }, CkksOp::DoubleAngle { .. }) => true,
            (
                CkksOp::Polynomial { polynomial: a, .. },
                CkksOp::Polynomial { polynomial: b, .. },
            ) => self.program.polynomials()[*a as usize] == self.program.polynomials()[*b as usize],
            _ => false,
        };
        let fits = |a: Reg, b: Reg| {
            let [a, b] = [a, b].map(|reg| self.program.reg(reg));
            (a.level, a.scale) == (b.level, b.scale)
        };
        let one = &all[at];
        let later = (at + 1..all.len()).filter(|i| !self.early.contains(i));
        later.into_iter().find(|i| {
            let other = &all[*i];
            alike(one, other)
                && self.registers[other.sources()[0].0 as usize].is_some()
                && !self.program.inputs().contains(&other.sources()[0])
                && fits(one.sources()[0], other.sources()[0])
                && fits(one.result(), other.result())
        })
    }

    fn power(&self, op: &CkksOp) -> Result<usize> {
        match op {
            CkksOp::Rotate { src, by, .. } => {
                let slots = self.program.reg(*src).slots as i64;
                Ok(power_of_rotation(by.rem_euclid(slots), self.tape.degree() as usize))
            }
            op => Err(Error::bad_input("run", "rotations", op.name(), "record the program again")),
        }
    }

    /// The images of `x` under X → X^g for each g of `powers`, from one decomposition.
    fn images(&mut self, x: &Cipher, powers: &[usize]) -> Result<Vec<Cipher>> {
        let (level, count) = (x.level, self.tape.context.words(x.level));
        let (special, lanes) = (self.tape.context.special(), self.tape.lanes);
        let mut digits = None;
        let mut images = vec![];
        for power in powers {
            if *power == 1 {
                images.push(x.clone());
                continue;
            }
            let key = self.key(Purpose::Galois(*power as u32), level)?;
            let part = x.parts.of_lanes(1);
            let digits =
                digits.get_or_insert_with(|| self.tape.decompose(&part, lanes, level, special));
            let own = Own { parts: [Some(x.parts.of_lanes(0)), None], count, raised: true };
            let raised = self.tape.key_product(digits, key, &own, *power, None);
            let steps = [level, level, special];
            let parts = self.tape.divide(&raised, 2 * lanes, steps, Kind::Ciphertext);
            images.push(Cipher { parts, ..x.clone() });
        }
        Ok(images)
    }

    fn rotated(&mut self, x: &Cipher, by: i64) -> Result<Cipher> {
        let power = power_of_rotation(by, self.tape.degree() as usize);
        Ok(self.images(x, &[power])?.remove(0))
    }

    /// x and its rotations, summed after each.
    fn folded(&mut self, x: Cipher, by: impl IntoIterator<Item = i64>) -> Result<Cipher> {
        by.into_iter().try_fold(x, |sum, by| {
            let moved = self.rotated(&sum, by)?;
            Ok(self.tape.add(&sum, &moved, 1.0))
        })
    }

    /// From level 0 to `level`, by way of the ephemeral secret.
    fn raise_modulus(&mut self, x: &Cipher, level: usize, factor: f64) -> Result<Cipher> {
        let context = self.tape.context;
        let key = self.key(Purpose::ToEphemeral, level)?;
        let lanes = self.tape.lanes;
        let digits = self.tape.decompose(&x.parts.of_lanes(1), lanes, 0, key.special);
        let count = context.words(0);
        let own = Own { parts: [Some(x.parts.of_lanes(0)), None], count, raised: true };
        let sparse = self.tape.key_product(&digits, key, &own, 1, None);
        let sparse = self.tape.divide(&sparse, 2 * lanes, [0, 0, key.special], Kind::Work);
        let key = self.key(Purpose::FromEphemeral, level)?;
        let lifted = self.tape.lift(&sparse, 2 * lanes, [level, key.special], factor);
        let (constant, linear) = (lifted.of_lanes(0), lifted.of_lanes(1));
        let digits = match context.is_every_digit(level, factor) {
            true => self.tape.small_digits(&linear, level, key.special),
            false => self.tape.decompose(&linear, lanes, level, key.special),
        };
        let count = context.words(level);
        let own = Own { parts: [Some(constant), None], count, raised: true };
        let raised = self.tape.key_product(&digits, key, &own, 1, None);
        let steps = [level, level, key.special];
        let parts = self.tape.divide(&raised, 2 * lanes, steps, Kind::Ciphertext);
        Ok(Cipher { level, scale: context.step(0) * factor, parts })
    }

    /// Σ a·b, relinearized and rescaled once.
    fn dot(&mut self, pairs: &[(Reg, Reg)]) -> Result<Cipher> {
        let mut all = vec![];
        for (a, b) in pairs {
            all.push((self.get(*a)?, self.get(*b)?));
        }
        let levels = all.iter().flat_map(|(a, b)| [a.level, b.level]);
        let level = levels.min().unwrap_or(0);
        let mut sum: Option<Sum> = None;
        for (a, b) in &all {
            let [a, b] = [a, b].map(|x| self.tape.down(x, level));
            let sum = sum.get_or_insert_with(|| Sum::new(level, a.scale * b.scale));
            sum.add_product(&mut self.tape, &a, &b, false);
        }
        let key = self.key(Purpose::Multiply, level)?;
        let sum = sum.unwrap_or_else(|| Sum::new(level, 1.0));
        Ok(sum.finish(&mut self.tape, key))
    }

    /// The address of the limbs of a plaintext, for integers of so many bits or for slots at a level and a scale.
    fn plaintext(&mut self, number: u32, integers: Option<u32>, at: (usize, f64)) -> Result<u64> {
        let (context, op) = (self.tape.context, self.program.op());
        let values = &self.program.plaintexts()[number as usize];
        self.plains.made((number, integers), at, || match (integers, &self.plain) {
            (Some(bits), _) => Ok(Arc::new(context.plain_integers(values, bits))),
            (None, Some(plain)) => plain.limbs(context, op, at),
            (None, None) => Ok(Arc::new(context.plain(values, at.1, at.0, 0))),
        })
    }

    fn add_plain(&mut self, x: &Cipher, number: u32, integers: Option<u32>) -> Result<Cipher> {
        let at = self.plaintext(number, integers, (x.level, x.scale))?;
        let mut sum = Sum::new(x.level, x.scale);
        sum.add(x, Factor::One);
        sum.add_values(Limbs::constant(at));
        Ok(sum.kept(&mut self.tape))
    }

    fn multiply_plain(&mut self, x: &Cipher, number: u32) -> Result<Cipher> {
        let context = self.tape.context;
        let scale = context.scale(x.level - 1)? * context.step(x.level);
        let at = self.plaintext(number, None, (x.level, scale / x.scale))?;
        let mut sum = Sum::new(x.level, scale);
        sum.add(x, Factor::Values(Limbs::constant(at)));
        Ok(sum.rescale(&mut self.tape))
    }

    /// The result of an instruction.
    fn made(&mut self, op: &CkksOp) -> Result<Cipher> {
        let (info, context) = (*self.program.reg(op.result()), self.tape.context);
        Ok(match op {
            CkksOp::Linear { src, map, .. } => {
                let (x, maps) = (self.get(*src)?, self.maps);
                self.linear(&x, &maps[*map as usize])?
            }
            CkksOp::Polynomial { src, polynomial, .. } => {
                let x = self.get(*src)?;
                let p = &self.program.polynomials()[*polynomial as usize];
                self.polynomials(vec![x], p, info.scale)?.remove(0)
            }
            CkksOp::DoubleAngle { src, .. } => {
                let x = self.get(*src)?;
                self.doubled_angles(vec![x])?.remove(0)
            }
            CkksOp::RaiseModulus { src, .. } => {
                let factor = (info.scale / context.step(0)).round();
                let x = self.get(*src)?;
                self.raise_modulus(&x, info.level, factor)?
            }
            CkksOp::Trace { src, dst } => {
                let x = self.get(*src)?;
                let by: Vec<i64> = self.program.traced(*dst, *src).map(|by| by as i64).collect();
                self.folded(x, by)?
            }
            CkksOp::Sum { src, size, .. } => {
                let x = self.get(*src)?;
                self.folded(x, sum_rotations(*size))?
            }
            CkksOp::Multiply { a, b, .. } => {
                let (a, b) = (self.get(*a)?, self.get(*b)?);
                let [a, b] = self.tape.aligned(&a, &b);
                let mut sum = Sum::new(a.level, a.scale * b.scale);
                sum.add_product(&mut self.tape, &a, &b, false);
                let key = self.key(Purpose::Multiply, a.level)?;
                sum.finish(&mut self.tape, key)
            }
            CkksOp::Dot { pairs, .. } => self.dot(pairs)?,
            CkksOp::Conjugate { src, .. } => {
                let x = self.get(*src)?;
                let power = 2 * self.tape.degree() as usize - 1;
                self.images(&x, &[power])?.remove(0)
            }
            CkksOp::Rotate { src, .. } => {
                let x = self.get(*src)?;
                let power = self.power(op)?;
                self.images(&x, &[power])?.remove(0)
            }
            CkksOp::AddPlain { src, plaintext, .. } => {
                let x = self.get(*src)?;
                self.add_plain(&x, *plaintext, info.integers)?
            }
            CkksOp::MultiplyPlain { src, plaintext, .. } => {
                let x = self.get(*src)?;
                self.multiply_plain(&x, *plaintext)?
            }
            _ => self.without_key(op)?,
        })
    }

    /// The result of an instruction that takes neither a key nor a plaintext.
    fn without_key(&mut self, op: &CkksOp) -> Result<Cipher> {
        let (info, context) = (*self.program.reg(op.result()), self.tape.context);
        let x = self.get(op.sources()[0])?;
        let tape = &mut self.tape;
        Ok(match op {
            CkksOp::MultiplyI { .. } => tape.times(&x, Factor::Imaginary),
            CkksOp::Negate { .. } => tape.times(&x, Factor::Integer(-1.0)),
            CkksOp::Add { b, .. } => {
                let b = self.get(*b)?;
                self.tape.add(&x, &b, 1.0)
            }
            CkksOp::Subtract { b, .. } => {
                let b = self.get(*b)?;
                self.tape.add(&x, &b, -1.0)
            }
            CkksOp::AddConstant { constant, .. } => {
                let mut sum = Sum::new(x.level, x.scale);
                sum.add(&x, Factor::One);
                sum.add_constant(*constant);
                sum.kept(tape)
            }
            CkksOp::MultiplyConstant { constant, .. } => {
                let scale = context.scale(x.level - 1)? * context.step(x.level);
                let mut sum = Sum::new(x.level, scale);
                sum.add_multiple(tape, &x, *constant);
                sum.rescale(tape)
            }
            CkksOp::WeightedSum { terms, .. } => {
                let (level, scale) = (info.level, context.scale(info.level)?);
                let mut sum = Sum::new(level + 1, scale * context.step(level + 1));
                for (reg, c) in terms {
                    let x = self.get(*reg)?;
                    sum.add_multiple(&mut self.tape, &x, *c);
                }
                sum.rescale(&mut self.tape)
            }
            CkksOp::LevelDown { .. } => tape.level_down(&x, info.level, context.scale(info.level)?),
            CkksOp::Rescale { .. } => tape.rescale(&x),
            // The same polynomials.
            CkksOp::Reinterpret { .. }
            | CkksOp::Repeat { .. }
            | CkksOp::Refreshed { .. }
            | CkksOp::Tabulate { .. } => x,
            CkksOp::Linear { .. }
            | CkksOp::Polynomial { .. }
            | CkksOp::DoubleAngle { .. }
            | CkksOp::RaiseModulus { .. }
            | CkksOp::Trace { .. }
            | CkksOp::Sum { .. }
            | CkksOp::Multiply { .. }
            | CkksOp::Dot { .. }
            | CkksOp::Conjugate { .. }
            | CkksOp::Rotate { .. }
            | CkksOp::AddPlain { .. }
            | CkksOp::MultiplyPlain { .. } => {
                let (wanted, remedy) = ("an instruction without a key", "write its definition");
                return Err(Error::unsupported("run", wanted, op.name(), remedy));
            }
        })
    }
}
