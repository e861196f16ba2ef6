//! Conformance of a program that came from outside: it is recorded again, and the recorder refuses all that it always refuses.

use super::{CkksOp, CkksProgram, Limits, RlweInfo};
use crate::Result;
use crate::program::Reg;
use crate::program::graph::{MAX_ITEMS, Recorded, unlike_recorded};

impl CkksProgram {
    /// The program, recorded again: the order of registers, levels, scales, and the shapes of matrices, polynomials and
    /// plaintexts are those of a program of this version.
    ///
    /// # Errors
    /// The errors of the recorder; `BadInput` if recording gives another program.
    pub(super) fn recorded_again(mut self) -> Result<CkksProgram> {
        let parts = [self.maps.len(), self.polynomials.len(), self.plaintexts.len()];
        if parts.into_iter().any(|count| count > MAX_ITEMS) {
            return Err(unlike_recorded("more than 2^24 matrices, polynomials or plaintexts"));
        }
        self.maps.iter().try_for_each(|map| map.matrix.validate(self.params().slots()))?;
        self.limits.validate()?;
        let given = std::mem::take(&mut self.graph);
        given.replay(|step| match step {
            Recorded::Input(reg) => {
                let info = given.known(reg)?;
                self.input_as(info).map(drop)
            }
            Recorded::Op(op) => self.record(op, given.known(op.result())?).map(drop),
        })?;
        given.outputs.iter().try_for_each(|r| self.output(*r))?;
        // The integers of results follow from those of the arguments.
        let infos = self.graph.regs.iter_mut().zip(&given.regs);
        let derived: Vec<_> = infos
            .map(|(own, given)| std::mem::replace(&mut own.integers, given.integers))
            .collect();
        let same = self.graph == given;
        self.graph.regs.iter_mut().zip(derived).for_each(|(own, bits)| own.integers = bits);
        match same {
            true => Ok(self),
            false => Err(unlike_recorded("other registers or instructions")),
        }
    }

    /// Records an instruction whose result is to be as `info` says.
    pub(super) fn record(&mut self, op: &CkksOp, info: RlweInfo) -> Result<Reg> {
        match op {
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
            CkksOp::Tabulate { src, from, contract, .. } => self.tabulate(*src, *from, **contract),
            CkksOp::WeightedSum { terms, .. } => self.weighted_sum(terms),
            CkksOp::Repeat { src, .. } => self.repeat(*src, info.slots),
            CkksOp::Refreshed { src, from, limits, .. } => self.refreshed(*src, from, **limits),
        }
    }
}

impl Limits {
    /// Refuses numbers that no recorder writes: they would switch the checks of values off.
    pub(super) fn validate(&self) -> Result<()> {
        let again =
            self.error.iter().filter_map(|e| e.again).flat_map(|a| [a.times - 1.0, a.rounded]);
        let added = self.error.iter().flat_map(|e| [e.noise, e.rare, e.bend]).chain(again);
        let numbers = self.near.into_iter().chain(added);
        let fine = self.most > 0.0 && numbers.into_iter().all(|x| x.is_finite() && x >= 0.0);
        let powers = self.error.is_none_or(|e| (1..64).contains(&e.power));
        if fine && powers {
            Ok(())
        } else {
            Err(unlike_recorded("limits of values without a meaning"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Added, Again, Contract, Gives};
    use super::*;
    use crate::cipher::file::Trust;
    use crate::ckks::{Chain, Chebyshev, Matrix};
    use crate::math::complex::Complex;
    use crate::params::CkksParams;
    use std::sync::Arc;

    /// A program with a matrix, a polynomial, a plaintext and limits.
    fn recorded() -> CkksProgram {
        let chain = Chain::new(CkksParams::named("ckks_toy_12").unwrap()).unwrap();
        let mut p = CkksProgram::new(&chain);
        let mut map = Matrix::zero(8);
        map.diagonal(1).fill(Complex::from(0.5));
        let x = p.input(6, 8).unwrap();
        let y = p.linear(x, map, 1, 1e9).unwrap();
        let scale = chain.scale(3).unwrap();
        let y = p.polynomial(y, Chebyshev(vec![0.0, 1.0, 0.5]), scale).unwrap();
        let y = p.add_plain(y, &[Complex::from(0.25)]).unwrap();
        p.output(y).unwrap();
        p
    }

    type Forgery = fn(&mut CkksProgram);

    fn table(gives: Gives) -> Box<Contract> {
        let [values, slope, inside, noise] = [1.0, 1.0, 0.1, 0.1];
        Box::new(Contract { gives, values, slope, inside, mean: inside, cleaned: Some(1.0), noise })
    }

    /// Every part of a file that the recorder would not have written, behind a right checksum.
    const FORGERIES: [(&str, Forgery); 31] = [
        ("level of an argument", |p| p.graph.regs[0].level = 11),
        ("scale of an argument", |p| p.graph.regs[0].scale *= 2.0),
        ("slots of an argument", |p| p.graph.regs[0].slots = 3),
        ("level of a result", |p| p.graph.regs[1].level += 1),
        ("scale of a result", |p| p.graph.regs[1].scale = f64::NAN),
        ("slots of a result", |p| p.graph.regs[2].slots = 4),
        ("an argument twice", |p| p.graph.inputs.push(Reg(0))),
        ("an argument that is computed", |p| p.graph.inputs[0] = Reg(2)),
        ("an unknown result", |p| p.graph.outputs.push(Reg(99))),
        ("a register too many", |p| p.graph.regs.push(p.graph.regs[0])),
        ("an instruction twice", |p| p.graph.ops.push(p.graph.ops[0].clone())),
        ("instructions in another order", |p| p.graph.ops.swap(0, 1)),
        ("a source to come", |p| p.graph.ops[0] = CkksOp::Negate { dst: Reg(1), src: Reg(2) }),
        ("an unknown map", |p| {
            p.graph.ops[0] = CkksOp::Linear { dst: Reg(1), src: Reg(0), map: 7 }
        }),
        ("level of a map", |p| p.maps[0].level = 9),
        ("no baby steps", |p| p.maps[0].baby = 0),
        ("slots of a map", |p| p.maps[0].matrix = Matrix::stage(1 << 40, 0..40, false).into()),
        ("layers of a stage", |p| p.maps[0].matrix = Matrix::stage(8, 0..30, false).into()),
        ("an entry", |p| Arc::make_mut(&mut p.maps[0].matrix).diagonal(1)[0].re = f64::INFINITY),
        ("a coefficient", |p| p.polynomials[0].0[1] = f64::NAN),
        ("a plaintext", |p| p.plaintexts[0] = vec![Complex::default(); 3]),
        ("limits", |p| p.limits.most = f64::NAN),
        ("a second iteration", |p| {
            let again = Some(Again { times: 0.5, rounded: 0.0 });
            p.limits.error = Some(Added { noise: 0.0, rare: 0.0, bend: 0.0, power: 1, again })
        }),
        ("fewer slots by repeating", |p| {
            p.graph.regs[3].slots = 4;
            p.graph.ops[2] = CkksOp::Repeat { dst: Reg(3), src: Reg(2) }
        }),
        ("a sum of nothing", |p| {
            p.graph.ops[2] = CkksOp::WeightedSum { dst: Reg(3), terms: vec![] }
        }),
        ("a weight", |p| {
            p.graph.ops[2] = CkksOp::WeightedSum { dst: Reg(3), terms: vec![(Reg(2), f64::NAN)] }
        }),
        ("a table of values in slots", |p| {
            let contract = table(Gives::Integers(1));
            p.graph.ops[2] = CkksOp::Tabulate { dst: Reg(3), src: Reg(2), from: Reg(0), contract }
        }),
        ("slots without a table", |p| {
            let contract = table(Gives::Slots);
            p.graph.ops[2] = CkksOp::Tabulate { dst: Reg(3), src: Reg(2), from: Reg(0), contract }
        }),
        ("integers above level 0", |p| {
            let contract = table(Gives::Packed(1, 8));
            p.graph.ops[2] = CkksOp::Tabulate { dst: Reg(3), src: Reg(2), from: Reg(0), contract }
        }),
        ("a bootstrap of nothing", |p| {
            let limits = Box::new(p.limits);
            p.graph.ops[2] = CkksOp::Refreshed { dst: Reg(3), src: Reg(2), from: vec![], limits }
        }),
        ("a bootstrap without an error", |p| {
            let (limits, from) = (Box::new(p.limits), vec![Reg(0)]);
            p.graph.ops[2] = CkksOp::Refreshed { dst: Reg(3), src: Reg(2), from, limits }
        }),
    ];

    #[test]
    fn a_forged_program_is_refused() {
        let trust = Trust { allow_insecure: true, ..Trust::default() };
        let honest = recorded().to_bytes().unwrap();
        assert_eq!(CkksProgram::from_bytes(&honest, trust).unwrap(), recorded());
        for (what, forge) in FORGERIES {
            let mut forged = recorded();
            forge(&mut forged);
            let bytes = forged.to_bytes().unwrap();
            let e = CkksProgram::from_bytes(&bytes, trust).err();
            assert_eq!(e.as_ref().map(|e| e.kind()), Some("bad_file"), "{what}: {e:?}");
        }
    }
}
