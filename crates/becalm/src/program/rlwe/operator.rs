//! Operators: what users call on vectors of any levels, as instructions on registers.
//!
//! An instruction takes registers of one level; an operator brings them there. It chooses the cheapest instruction: a real number for all
//! slots is a constant, which needs no transform, any other plaintext is encoded.

use super::CkksProgram;
use crate::ckks::{Chebyshev, Matrix};
use crate::math::complex::Complex;
use crate::program::Reg;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An operator on vectors.
#[derive(Debug, Clone, PartialEq)]
pub enum Operator {
    /// a + b.
    Add,
    /// a − b.
    Subtract,
    /// −x.
    Negate,
    /// a·b.
    Multiply,
    /// Σ a·b over the pairs of a first and a second half of the arguments, relinearized and rescaled once.
    Dot,
    /// i·x.
    MultiplyI,
    /// The complex conjugate.
    Conjugate,
    /// x to this power.
    Power(u64),
    /// Slots rotated to the left by each of these: as many results.
    Rotate(Vec<i64>),
    /// The same by keys for powers of two alone.
    RotateByPowers(Vec<u32>),
    /// In each slot the sum of so many slots from it on.
    Sum(usize),
    /// x + values.
    AddPlain(Plaintext),
    /// x − values.
    SubtractPlain(Plaintext),
    /// values − x.
    SubtractFromPlain(Plaintext),
    /// x·values, one level lower.
    MultiplyPlain(Plaintext),
    /// The sum of a·b over all slots, in every slot.
    Inner,
    /// The sum of x·values over all slots, in every slot.
    InnerPlain(Plaintext),
    /// c·x for an integer c, by sums. Of integers modulo 2^bits it takes the factor next to 0, which adds least to the error.
    Multiple(i64),
    /// A matrix times the slots, one level lower, then a rotation.
    Linear {
        /// The matrix.
        matrix: Arc<Matrix>,
        /// Its baby steps.
        baby: usize,
        /// The rotation of the result, in slots to the left.
        by: i64,
    },
    /// p(factor·x + offset) in every slot. A factor other than 1 takes a level.
    Polynomial {
        /// p.
        p: Chebyshev,
        /// The factor.
        factor: f64,
        /// The offset.
        offset: f64,
    },
    /// The same values at a lower level.
    LevelDown(usize),
}

/// Values beside a vector: one for each slot, or one for all; beside integers, integers.
#[derive(Debug, Clone, PartialEq)]
pub struct Plaintext {
    /// The values.
    pub values: Vec<Complex>,
    /// The level that they are encoded at, where they are already: vectors above come down to it.
    pub level: Option<usize>,
}

impl From<Vec<Complex>> for Plaintext {
    fn from(values: Vec<Complex>) -> Plaintext {
        Plaintext { values, level: None }
    }
}

impl From<f64> for Plaintext {
    fn from(value: f64) -> Plaintext {
        vec![Complex::from(value)].into()
    }
}

impl Plaintext {
    /// The real number that it has in all slots, if it is one.
    fn constant(&self) -> Option<f64> {
        match self.values[..] {
            [Complex { re, im: 0.0 }] => Some(re),
            _ => None,
        }
    }

    /// A register at the level of the plaintext or below.
    fn lowered(&self, program: &mut CkksProgram, x: Reg) -> Result<Reg> {
        let above = |level: &usize| program.info(x).is_some_and(|info| info.level > *level);
        self.level.filter(above).map_or(Ok(x), |level| program.level_down(x, level))
    }

    /// x + values.
    fn plus(&self, program: &mut CkksProgram, x: Reg) -> Result<Reg> {
        let x = self.lowered(program, x)?;
        let integers = program.info(x).is_some_and(|info| info.integers.is_some());
        match self.constant() {
            Some(constant) if !integers => program.add_constant(x, constant),
            _ => program.add_plain(x, &self.values),
        }
    }

    /// x − values.
    fn subtracted(&self, program: &mut CkksProgram, x: Reg) -> Result<Reg> {
        if self.level.is_none() || self.constant().is_some() {
            let values = self.values.iter().map(|v| -*v).collect();
            return Plaintext { values, level: self.level }.plus(program, x);
        }
        // What is encoded is taken as it is.
        let negative = program.negate(x)?;
        let sum = self.plus(program, negative)?;
        program.negate(sum)
    }

    /// x·values.
    fn times(&self, program: &mut CkksProgram, x: Reg) -> Result<Reg> {
        let x = self.lowered(program, x)?;
        match self.constant() {
            Some(constant) => program.multiply_constant(x, constant),
            None => program.multiply_plain(x, &self.values),
        }
    }
}

impl Operator {
    /// The levels that it takes of its arguments.
    pub fn levels(&self) -> usize {
        match self {
            Operator::Multiply
            | Operator::Dot
            | Operator::MultiplyPlain(_)
            | Operator::Inner
            | Operator::InnerPlain(_)
            | Operator::Linear { .. } => 1,
            Operator::Power(exponent) => super::levels_of_power(*exponent),
            Operator::Polynomial { p, factor, .. } => p.depth() + usize::from(*factor != 1.0),
            Operator::Add
            | Operator::Subtract
            | Operator::Negate
            | Operator::MultiplyI
            | Operator::Conjugate
            | Operator::Rotate(_)
            | Operator::RotateByPowers(_)
            | Operator::Sum(_)
            | Operator::AddPlain(_)
            | Operator::SubtractPlain(_)
            | Operator::SubtractFromPlain(_)
            | Operator::Multiple(_)
            | Operator::LevelDown(_) => 0,
        }
    }

    /// The name of the user's call, which errors have: `x + 1` is `"add"`, whichever instruction it takes.
    pub fn name(&self) -> &'static str {
        match self {
            Operator::Add | Operator::AddPlain(_) => "add",
            Operator::Subtract | Operator::SubtractPlain(_) | Operator::SubtractFromPlain(_) => {
                "subtract"
            }
            Operator::Negate => "negate",
            Operator::Multiply
            | Operator::MultiplyPlain(_)
            | Operator::MultiplyI
            | Operator::Multiple(_) => "multiply",
            Operator::Dot | Operator::Inner | Operator::InnerPlain(_) => "dot",
            Operator::Conjugate => "conjugate",
            Operator::Power(_) => "power",
            Operator::Rotate(_) | Operator::RotateByPowers(_) => "rotate",
            Operator::Sum(_) => "sum",
            Operator::Linear { .. } => "matrix product",
            Operator::Polynomial { .. } => "polynomial",
            Operator::LevelDown(_) => "level_down",
        }
    }

    /// Records it on these registers, all of it or nothing: its results.
    ///
    /// # Errors
    /// In its [name](Operator::name): `BadInput` for another number of registers than it takes; as its instructions.
    ///
    /// ```
    /// use becalm::ckks::Chain;
    /// use becalm::params::CkksParams;
    /// use becalm::program::rlwe::{CkksProgram, Operator};
    ///
    /// let mut program = CkksProgram::new(&Chain::new(CkksParams::named("ckks_toy_12")?)?);
    /// let (x, y) = (program.input(5, 2048)?, program.input(3, 2048)?);
    /// let product = Operator::Multiply.record(&mut program, &[x, y])?[0];
    /// let sum = Operator::AddPlain(1.0.into()).record(&mut program, &[product])?[0];
    /// assert_eq!(program.info(sum).map(|x| x.level), Some(2));
    /// # Ok::<(), becalm::Error>(())
    /// ```
    pub fn record(&self, program: &mut CkksProgram, args: &[Reg]) -> Result<Vec<Reg>> {
        let recorded = program.wholly(|program| match self {
            Operator::Dot => self.dot(program, args).map(|y| vec![y]),
            Operator::Add | Operator::Subtract | Operator::Multiply | Operator::Inner => {
                let [a, b] = self.taken(&program.aligned(args)?)?;
                let made = match self {
                    Operator::Add => program.add(a, b),
                    Operator::Subtract => program.subtract(a, b),
                    Operator::Inner => program.multiply(a, b).and_then(|y| program.sum_of_all(y)),
                    _ => program.multiply(a, b),
                };
                made.map(|y| vec![y])
            }
            _ => {
                let [x] = self.taken(args)?;
                self.of_one(program, x)
            }
        });
        recorded.map_err(|e| e.of(self.name()))
    }

    /// As many registers as it takes.
    fn taken<const N: usize>(&self, args: &[Reg]) -> Result<[Reg; N]> {
        args.try_into().map_err(|_| {
            let (wanted, got) = (format!("{N} vectors"), args.len().to_string());
            Error::bad_input(self.name(), wanted, got, "pass one for each argument of the operator")
        })
    }

    fn dot(&self, program: &mut CkksProgram, args: &[Reg]) -> Result<Reg> {
        if !args.len().is_multiple_of(2) {
            let (wanted, got) = ("two lists of as many vectors", args.len().to_string());
            let remedy = "pass one list for each factor";
            return Err(Error::bad_input(self.name(), wanted, got, remedy));
        }
        let all = program.aligned(args)?;
        let (a, b) = all.split_at(all.len() / 2);
        program.dot(&a.iter().copied().zip(b.iter().copied()).collect::<Vec<_>>())
    }

    fn of_one(&self, program: &mut CkksProgram, x: Reg) -> Result<Vec<Reg>> {
        let made = match self {
            Operator::Rotate(by) => return by.iter().map(|by| program.rotate(x, *by)).collect(),
            Operator::RotateByPowers(by) => return by_powers(program, x, by),
            Operator::Negate => program.negate(x)?,
            Operator::MultiplyI => program.multiply_i(x)?,
            Operator::Conjugate => program.conjugate(x)?,
            Operator::Power(exponent) => program.power(x, *exponent)?,
            Operator::Sum(size) => program.sum(x, *size)?,
            Operator::LevelDown(level) => program.level_down(x, *level)?,
            Operator::AddPlain(plain) => plain.plus(program, x)?,
            Operator::SubtractPlain(plain) => plain.subtracted(program, x)?,
            Operator::SubtractFromPlain(plain) => {
                let negative = program.negate(x)?;
                plain.plus(program, negative)?
            }
            Operator::MultiplyPlain(plain) => plain.times(program, x)?,
            Operator::InnerPlain(plain) => {
                let product = plain.times(program, x)?;
                program.sum_of_all(product)?
            }
            Operator::Multiple(factor) => match program.nearest_factor(x, *factor)? {
                0 => program.subtract(x, x)?,
                factor => program.multiple(x, factor)?,
            },
            Operator::Linear { matrix, baby, by } => {
                let scale = program.scale_of(x)?;
                let y = program.linear(x, matrix.clone(), *baby, scale)?;
                if *by == 0 { y } else { program.rotate(y, *by)? }
            }
            Operator::Polynomial { p, factor, offset } => {
                program.polynomial_of(x, p.clone(), *factor, *offset)?
            }
            // Of several vectors.
            Operator::Add
            | Operator::Subtract
            | Operator::Multiply
            | Operator::Inner
            | Operator::Dot => {
                let (wanted, got) = ("two vectors or more", "1");
                return Err(Error::bad_input("record", wanted, got, "pass both factors"));
            }
        };
        Ok(vec![made])
    }
}

impl CkksProgram {
    /// The sum of all slots, in every slot.
    fn sum_of_all(&mut self, x: Reg) -> Result<Reg> {
        let slots = self.content(x)?.slots;
        self.sum(x, slots)
    }

    /// The factor next to 0 of those that give the same multiple of a register: of integers of b bits, factors 2^b apart.
    fn nearest_factor(&self, x: Reg, factor: i64) -> Result<i64> {
        let Some(bits) = self.content(x)?.integers else { return Ok(factor) };
        let (half, least) = (1 << (bits - 1), factor.rem_euclid(1 << bits));
        Ok(if least < half { least } else { least - 2 * half })
    }
}

/// The register rotated by each of these numbers, by keys for powers of two. Each goes on from the rotation before it that shares most of
/// its powers.
fn by_powers(program: &mut CkksProgram, x: Reg, by: &[u32]) -> Result<Vec<Reg>> {
    let mut order = by.to_vec();
    order.sort_by_key(|k| (k.count_ones(), *k));
    let mut made = BTreeMap::from([(0, x)]);
    for wanted in order {
        let shared = made.iter().filter(|(k, _)| *k & wanted == **k);
        let nearest = shared.max_by_key(|(k, _)| k.count_ones()).map(|(k, reg)| (*k, *reg));
        let (mut at, mut reg) = nearest.unwrap_or((0, x));
        while at != wanted {
            let power = 1 << (wanted ^ at).ilog2();
            reg = program.rotate(reg, power)?;
            at |= power as u32;
            made.insert(at, reg);
        }
    }
    Ok(by.iter().map(|k| made[k]).collect())
}
