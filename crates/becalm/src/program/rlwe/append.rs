//! A program for ciphertexts at hand, the instructions of a function as one part, and a program as a part of another, recorded again on
//! registers of that one.

use super::record::place;
use super::{CkksOp, CkksProgram};
use crate::cipher::{Integers, Rlwe};
use crate::ckks::{Chain, same_scale};
use crate::program::Reg;
use crate::program::graph::Recorded;
use crate::{Error, Result};
use std::sync::Arc;

impl CkksProgram {
    /// A program of arguments like these ciphertexts; `record` makes its results from their registers.
    ///
    /// # Errors
    /// As [`CkksProgram::input_like`]; the errors of `record`.
    pub fn like(
        chain: &Chain,
        inputs: &[&Rlwe],
        record: impl FnOnce(&mut CkksProgram, &[Reg]) -> Result<Vec<Reg>>,
    ) -> Result<Arc<CkksProgram>> {
        let mut program = CkksProgram::new(chain);
        let args = inputs.iter().map(|x| program.input_like(x)).collect::<Result<Vec<_>>>()?;
        let results = record(&mut program, &args)?;
        results.into_iter().try_for_each(|reg| program.output(reg))?;
        Ok(Arc::new(program))
    }

    /// Records the instructions of a function, all or none. Errors about them, now and when they run, have its name.
    ///
    /// # Errors
    /// As `record`.
    pub fn function(
        &mut self,
        name: &str,
        record: impl FnOnce(&mut Self) -> Result<Vec<Reg>>,
    ) -> Result<Vec<Reg>> {
        let before = self.ops.len();
        let made = self.wholly(record).map_err(|e| e.of(name.to_owned()))?;
        let own = before..self.ops.len();
        self.functions.note(own, name);
        Ok(made)
    }

    /// Records the instructions of `other` on these registers, one for each of its arguments, and returns its results. Registers
    /// above the level of an argument are brought down, and vectors of fewer slots are repeated. The results of a bootstrap get the
    /// slots of its arguments and its account of the error.
    ///
    /// # Errors
    /// `WrongParams` for a program of another set; `BadInput` for another number of registers, or for one at too low a level or of
    /// too many slots. Then nothing is recorded.
    ///
    /// ```
    /// use becalm::bootstrap::ckks::{Settings, regular};
    /// use becalm::ckks::Chain;
    /// use becalm::params::CkksParams;
    /// use becalm::program::rlwe::CkksProgram;
    ///
    /// let chain = Chain::new(CkksParams::named("ckks_toy_12")?)?;
    /// let mut program = CkksProgram::new(&chain);
    /// let x = program.input(1, 2048)?;
    /// let square = program.multiply(x, x)?;
    /// let again = program.append(&regular(&chain, &Settings::default())?, &[square])?;
    /// program.output(again[0])?;
    /// assert_eq!(program.info(again[0]).map(|x| x.level), Some(10));
    /// # Ok::<(), becalm::Error>(())
    /// ```
    pub fn append(&mut self, other: &CkksProgram, registers: &[Reg]) -> Result<Vec<Reg>> {
        let op = other.op();
        self.chain.check_set(op, other.params().name)?;
        if registers.len() != other.inputs.len() {
            let (wanted, got) = (other.inputs.len(), registers.len());
            let remedy = "pass one for each argument";
            return Err(Error::bad_input(
                op,
                format!("{wanted} registers"),
                got.to_string(),
                remedy,
            ));
        }
        self.wholly(|own| {
            let given = registers.iter().zip(&other.inputs);
            let given = given.map(|(reg, argument)| own.taken(other, *reg, *argument));
            let (lowered, given): (Vec<_>, _) =
                given.collect::<Result<Vec<_>>>()?.into_iter().unzip();
            let results = own.replayed(other, given)?;
            match other.limits.error {
                None => Ok(results),
                Some(_) => {
                    let each = results.into_iter();
                    each.map(|reg| own.refreshed(reg, &lowered, other.limits)).collect()
                }
            }
        })
    }

    /// A register at the level of an argument of `other`, and with its slots.
    fn taken(&mut self, other: &CkksProgram, reg: Reg, argument: Reg) -> Result<(Reg, Reg)> {
        let (op, wanted) = (other.op(), *other.reg(argument));
        let have = self.content(reg)?;
        if have.integers != wanted.integers {
            let [wanted, got] = [wanted, have].map(|x| Integers::named(x.integers));
            return Err(Error::bad_input(op, wanted, got, "pass a register of the same kind"));
        }
        if have.level < wanted.level {
            let remedy = other.remedy_of_level();
            return Err(Error::too_low(op, wanted.level, have.level, "", remedy));
        }
        let reg = if have.level > wanted.level { self.level_down(reg, wanted.level)? } else { reg };
        let have = self.content(reg)?;
        if !same_scale(have.scale, wanted.scale) {
            let [wanted, got] = [wanted, have].map(|x| format!("scale 2^{:.6}", x.scale.log2()));
            return Err(Error::bad_input(op, wanted, got, "bring it to the scale of its level"));
        }
        match have.slots == wanted.slots {
            true => Ok((reg, reg)),
            false => Ok((reg, self.repeat(reg, wanted.slots)?)),
        }
    }

    /// Records the instructions of `other`, whose arguments are these registers.
    fn replayed(&mut self, other: &CkksProgram, given: Vec<Reg>) -> Result<Vec<Reg>> {
        let maps: Vec<u32> = other.maps.iter().map(|m| place(&mut self.maps, m.clone())).collect();
        let each = other.polynomials.iter();
        let polynomials: Vec<u32> = each.map(|p| place(&mut self.polynomials, p.clone())).collect();
        let each = other.plaintexts.iter();
        let plaintexts: Vec<u32> = each.map(|p| place(&mut self.plaintexts, p.clone())).collect();
        let mut own: Vec<Option<Reg>> = vec![None; other.registers()];
        let mut given = given.into_iter();
        other.graph.replay(|step| {
            match step {
                Recorded::Input(reg) => own[reg.0 as usize] = given.next(),
                Recorded::Op(op) => {
                    let mut moved = op.clone();
                    moved.sources_mut().into_iter().for_each(|r| {
                        *r = own[r.0 as usize].unwrap_or(Reg(u32::MAX));
                    });
                    if let Some((list, at)) = moved.item_mut() {
                        let places = match list {
                            List::Maps => &maps,
                            List::Polynomials => &polynomials,
                            List::Plaintexts => &plaintexts,
                        };
                        *at = places[*at as usize];
                    }
                    own[op.result().0 as usize] =
                        Some(self.record(&moved, *other.reg(op.result()))?);
                }
            }
            Ok(())
        })?;
        Ok(other.outputs.iter().map(|r| own[r.0 as usize].unwrap_or(Reg(u32::MAX))).collect())
    }
}

/// A list of a program, of which an instruction names an item.
enum List {
    Maps,
    Polynomials,
    Plaintexts,
}

impl CkksOp {
    /// The item that the instruction names, to be exchanged.
    fn item_mut(&mut self) -> Option<(List, &mut u32)> {
        match self {
            CkksOp::Linear { map, .. } => Some((List::Maps, map)),
            CkksOp::Polynomial { polynomial, .. } => Some((List::Polynomials, polynomial)),
            CkksOp::AddPlain { plaintext, .. } | CkksOp::MultiplyPlain { plaintext, .. } => {
                Some((List::Plaintexts, plaintext))
            }
            CkksOp::DoubleAngle { .. }
            | CkksOp::RaiseModulus { .. }
            | CkksOp::Trace { .. }
            | CkksOp::Multiply { .. }
            | CkksOp::MultiplyI { .. }
            | CkksOp::Conjugate { .. }
            | CkksOp::Rotate { .. }
            | CkksOp::Add { .. }
            | CkksOp::Subtract { .. }
            | CkksOp::AddConstant { .. }
            | CkksOp::Dot { .. }
            | CkksOp::Negate { .. }
            | CkksOp::Sum { .. }
            | CkksOp::MultiplyConstant { .. }
            | CkksOp::LevelDown { .. }
            | CkksOp::Rescale { .. }
            | CkksOp::Reinterpret { .. }
            | CkksOp::Repeat { .. }
            | CkksOp::Refreshed { .. }
            | CkksOp::WeightedSum { .. }
            | CkksOp::Tabulate { .. } => None,
        }
    }

    /// The registers that the instruction reads, to be exchanged.
    fn sources_mut(&mut self) -> Vec<&mut Reg> {
        match self {
            CkksOp::Multiply { a, b, .. }
            | CkksOp::Add { a, b, .. }
            | CkksOp::Subtract { a, b, .. } => vec![a, b],
            CkksOp::Dot { pairs, .. } => pairs.iter_mut().flat_map(|(a, b)| [a, b]).collect(),
            CkksOp::Tabulate { src, from, .. } => vec![src, from],
            CkksOp::WeightedSum { terms, .. } => terms.iter_mut().map(|(x, _)| x).collect(),
            CkksOp::Refreshed { src, from, .. } => std::iter::once(src).chain(from).collect(),
            CkksOp::Linear { src, .. }
            | CkksOp::Polynomial { src, .. }
            | CkksOp::DoubleAngle { src, .. }
            | CkksOp::RaiseModulus { src, .. }
            | CkksOp::Trace { src, .. }
            | CkksOp::MultiplyI { src, .. }
            | CkksOp::Conjugate { src, .. }
            | CkksOp::Rotate { src, .. }
            | CkksOp::AddConstant { src, .. }
            | CkksOp::Rescale { src, .. }
            | CkksOp::Reinterpret { src, .. }
            | CkksOp::Negate { src, .. }
            | CkksOp::Sum { src, .. }
            | CkksOp::MultiplyConstant { src, .. }
            | CkksOp::AddPlain { src, .. }
            | CkksOp::MultiplyPlain { src, .. }
            | CkksOp::Repeat { src, .. }
            | CkksOp::LevelDown { src, .. } => vec![src],
        }
    }
}
