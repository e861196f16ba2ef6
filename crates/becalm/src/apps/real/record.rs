//! A formula recorded into a program.

use super::Bootstraps;
use super::formula::{Formula, Step, Value};
use crate::error::RUN;
use crate::math::complex::Complex;
use crate::program::Reg;
use crate::program::rlwe::CkksProgram;
use crate::{Error, Result};

/// Records the steps of a formula on registers, which it lifts where there are bootstraps.
struct Recorder<'a> {
    program: &'a mut CkksProgram,
    bootstraps: Option<&'a mut Bootstraps>,
    made: Vec<Reg>,
}

/// Refuses vectors that have no room for a block.
fn require_slots(slots: usize, least: usize) -> Result<()> {
    if slots >= least {
        return Ok(());
    }
    let (wanted, got) = (format!("vectors of {least} slots or more"), slots.to_string());
    Err(Error::bad_input(RUN, wanted, got, "make keys with as many slots"))
}

impl Formula {
    /// Records the formula, of an `exact` function or of an approximation, on these registers: its results.
    ///
    /// # Errors
    /// `BadInput` for another number of registers, and where levels are missing and there are no bootstraps.
    pub(super) fn record(
        &self,
        exact: bool,
        period: usize,
        program: &mut CkksProgram,
        bootstraps: Option<&mut Bootstraps>,
        arguments: &[Reg],
    ) -> Result<Vec<Reg>> {
        if arguments.len() != self.arguments() {
            let wanted = format!("{} vectors", self.arguments());
            let got = arguments.len().to_string();
            return Err(Error::bad_input(RUN, wanted, got, "pass one for each argument"));
        }
        let known = || arguments.iter().filter_map(|reg| program.info(*reg));
        let (levels, slots) =
            (known().map(|info| info.level), known().map(|info| info.slots).min());
        slots.map_or(Ok(()), |slots| require_slots(slots, period))?;
        let (lowest, needed) = (levels.min().unwrap_or(0), self.levels());
        if bootstraps.is_none() && lowest < needed {
            let remedy = match exact {
                true => program.remedy_of_level(),
                false => "bootstrap earlier, ask for fewer bits, or turn on auto, which bootstraps where levels run out".into(),
            };
            return Err(Error::too_low(RUN, needed, lowest, "", remedy));
        }
        let mut recorder = Recorder { program, bootstraps, made: vec![] };
        let mut given = arguments.iter();
        for step in &self.steps {
            let made = match step {
                Step::Argument => given.next().copied().unwrap_or(Reg(u32::MAX)),
                step => recorder.step(step)?,
            };
            recorder.made.push(made);
        }
        Ok(self.results.iter().map(|v| recorder.made[v.0]).collect())
    }
}

impl Recorder<'_> {
    /// Registers of values with so many levels, at the lowest level of them.
    fn ready(&mut self, values: &[Value], levels: usize) -> Result<Vec<Reg>> {
        let mut regs: Vec<Reg> = values.iter().map(|v| self.made[v.0]).collect();
        if let Some(bootstraps) = &mut self.bootstraps {
            for reg in &mut regs {
                *reg = bootstraps.lifted(self.program, *reg, levels)?;
            }
        }
        self.program.aligned(&regs)
    }

    fn slots(&self, reg: Reg) -> usize {
        self.program.info(reg).map_or(1, |info| info.slots)
    }

    /// Values of a period in all slots; one value stays alone.
    fn tiled(&self, reg: Reg, values: &[f64]) -> Result<Vec<Complex>> {
        let slots = self.slots(reg);
        let all = if values.len() == 1 { 1 } else { slots };
        require_slots(slots, values.len())?;
        Ok(values.iter().cycle().take(all).map(|x| Complex::from(*x)).collect())
    }

    fn step(&mut self, step: &Step) -> Result<Reg> {
        let levels = match step {
            Step::Ready(_, levels) => *levels,
            step => step.levels(),
        };
        let at = self.ready(&step.sources(), levels)?;
        match step {
            Step::Argument | Step::Ready(..) => Ok(at[0]),
            Step::Scale(_, c) if *c == -1.0 => self.program.negate(at[0]),
            Step::Scale(_, c) => self.program.multiply_constant(at[0], *c),
            Step::Shift(_, c) => self.program.add_constant(at[0], *c),
            Step::Series(_, p) => self.program.polynomial_at_level(at[0], p.clone()),
            Step::Multiply(..) => self.program.multiply(at[0], at[1]),
            Step::Add(..) => self.program.add(at[0], at[1]),
            Step::Subtract(..) => self.program.subtract(at[0], at[1]),
            Step::Dot(_) => {
                let pairs: Vec<(Reg, Reg)> = at.chunks_exact(2).map(|p| (p[0], p[1])).collect();
                self.program.dot(&pairs)
            }
            Step::Rotate(_, by) => self.program.rotate(at[0], *by),
            Step::Mask(_, values) => {
                let values = self.tiled(at[0], values)?;
                self.program.multiply_plain(at[0], &values)
            }
            Step::Offset(_, values) => {
                let values = self.tiled(at[0], values)?;
                self.program.add_plain(at[0], &values)
            }
            Step::Linear(_, matrix) => {
                let matrix = matrix.repeated(self.slots(at[0]).max(matrix.slots()));
                let (baby, scale) = (matrix.balanced(), self.program.scale_of(at[0])?);
                self.program.linear(at[0], matrix, baby, scale)
            }
            Step::Sum(_, size) => self.program.sum(at[0], *size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::real::{inverse, replicate};
    use crate::cipher::{CkksKeys, KeyId};
    use crate::ckks::Chain;
    use crate::params::CkksParams;

    fn program() -> CkksProgram {
        CkksProgram::new(&Chain::new(CkksParams::named("ckks_toy_12").unwrap()).unwrap())
    }

    /// Errors of recording, of keys and of arguments have the name of the function; an instruction beside it keeps its own.
    #[test]
    fn errors_name_the_function() {
        let mut low = program();
        let x = low.input(1, 8).unwrap();
        let said = inverse([0.25, 1.0], 20.0).unwrap().record(&mut low, None, &[x]).unwrap_err();
        assert_eq!(said.detail().op, "inverse");
        assert!(low.ops().is_empty());

        let mut program = program();
        let keys = CkksKeys::none(program.params().name, KeyId([1; 16]));
        let x = program.input(2, 8).unwrap();
        replicate(8, 3).unwrap().record(&mut program, None, &[x]).unwrap();
        assert_eq!(program.require(&keys).unwrap_err().detail().op, "replicate");
        let said = program.require_inputs(keys.key_id(), &[]).unwrap_err();
        assert_eq!(said.detail().op, "replicate");
        program.rotate(x, 1).unwrap();
        let said = program.require_inputs(keys.key_id(), &[]).unwrap_err();
        assert_eq!(said.detail().op, "run");
        let mut beside = self::program();
        let y = beside.input(2, 8).unwrap();
        beside.rotate(y, 1).unwrap();
        replicate(8, 3).unwrap().record(&mut beside, None, &[y]).unwrap();
        assert_eq!(beside.require(&keys).unwrap_err().detail().op, "rotate");
    }
}
