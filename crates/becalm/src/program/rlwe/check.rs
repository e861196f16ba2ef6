//! Conformance of a program that came from outside: it is recorded again, so whatever the recorder refuses is refused.

use super::{CkksOp, CkksProgram, Limits, RlweInfo};
use crate::Result;
use crate::program::graph::{MAX_ITEMS, Recorded, unlike_recorded};

impl CkksProgram {
    /// The program, recorded again: the order of registers, levels, scales, and the shapes of matrices, polynomials and
    /// plaintexts are those of a program of this version.
    ///
    /// # Errors
    /// Whatever the recorder refuses; `BadInput` if recording gives another program.
    pub(super) fn recorded_again(mut self) -> Result<CkksProgram> {
        let parts = [self.maps.len(), self.polynomials.len(), self.plaintexts.len()];
        if parts.into_iter().any(|count| count > MAX_ITEMS) {
            return Err(unlike_recorded("more than 2^24 matrices, polynomials or plaintexts"));
        }
        self.maps.iter().try_for_each(|map| map.matrix.validate())?;
        self.limits.validate()?;
        let given = std::mem::take(&mut self.graph);
        given.replay(|step| match step {
            Recorded::Input(reg) => {
                let info = given.known(reg)?;
                self.input(info.level, info.slots).map(drop)
            }
            Recorded::Op(op) => self.record(op, given.known(op.result())?),
        })?;
        given.outputs.iter().try_for_each(|r| self.output(*r))?;
        match self.graph == given {
            true => Ok(self),
            false => Err(unlike_recorded("other registers or instructions")),
        }
    }

    /// Records an instruction whose result is to be as `info` says.
    fn record(&mut self, op: &CkksOp, info: RlweInfo) -> Result<()> {
        let made = match op {
            CkksOp::Linear { src, map, .. } => self.linear_by(*src, *map),
            CkksOp::Polynomial { src, polynomial, .. } => {
                self.polynomial_by(*src, *polynomial, info.scale)
            }
            CkksOp::DoubleAngle { src, .. } => self.double_angle(*src),
            CkksOp::RaiseModulus { src, .. } => self.raise_modulus(*src, info.level, info.scale),
            CkksOp::Trace { src, .. } => self.trace(*src, info.slots),
            CkksOp::Multiply { a, b, .. } => self.multiply(*a, *b),
            CkksOp::MultiplyI { src, .. } => self.multiply_i(*src),
            CkksOp::Conjugate { src, .. } => self.conjugate(*src),
            CkksOp::Rotate { src, by, .. } => self.rotate(*src, *by),
            CkksOp::Add { a, b, .. } => self.add(*a, *b),
            CkksOp::Subtract { a, b, .. } => self.subtract(*a, *b),
            CkksOp::AddConstant { src, constant, .. } => self.add_constant(*src, *constant),
            CkksOp::Rescale { src, .. } => self.rescale(*src),
            CkksOp::Reinterpret { src, .. } => self.reinterpret(*src, info.scale),
            CkksOp::Dot { pairs, .. } => self.dot(pairs),
            CkksOp::Negate { src, .. } => self.negate(*src),
            CkksOp::Sum { src, size, .. } => self.sum(*src, *size),
            CkksOp::MultiplyConstant { src, constant, .. } => {
                self.multiply_constant(*src, *constant)
            }
            CkksOp::AddPlain { src, plaintext, .. } => self.add_plain_by(*src, *plaintext),
            CkksOp::MultiplyPlain { src, plaintext, .. } => {
                self.multiply_plain_by(*src, *plaintext)
            }
            CkksOp::LevelDown { src, .. } => self.level_down(*src, info.level),
        };
        made.map(drop)
    }
}

impl Limits {
    /// Refuses numbers that no recorder writes: they would switch the checks of values off.
    fn validate(&self) -> Result<()> {
        let added = self.error.iter().flat_map(|e| [e.fixed, e.bend]);
        let numbers = self.near.into_iter().chain(added);
        let fine = self.most > 0.0 && numbers.into_iter().all(|x| x.is_finite() && x >= 0.0);
        let slots = self.error.is_none_or(|e| e.slots.is_power_of_two() && e.power.abs() < 64);
        if fine && slots { Ok(()) } else { Err(unlike_recorded("limits of values without a meaning")) }
    }
}
