//! Checks of values: the limits of a bootstrap, integers that everybody knows, and whether results are real.

use super::{CkksOp, CkksProgram, Gives};
use crate::math::complex::Complex;
use crate::program::Operation;
use crate::{Error, Result};

impl CkksProgram {
    /// Refuses values that the approximations of the program are not made for, before they are encrypted: the server
    /// cannot see them. For programs with several arguments the values of each.
    ///
    /// # Errors
    /// `BadInput` with the value, the limit and the remedy.
    pub fn check_values(&self, values: &[Complex]) -> Result<()> {
        let (op, limits) = ("bootstrap", &self.limits);
        let refuse = |wanted: String, at: usize, remedy: &str| {
            let got = format!("{} + {}i at position {at}", values[at].re, values[at].im);
            Err(Error::bad_input(op, wanted, got, remedy))
        };
        if let Some(at) = values.iter().position(|v| !v.re.is_finite() || !v.im.is_finite()) {
            return refuse("finite values".into(), at, "remove NaN and infinities");
        }
        if limits.real
            && let Some(at) = values.iter().position(|v| v.im != 0.0)
        {
            return refuse("real values".into(), at, "use the variant for complex values");
        }
        if let Some(near) = limits.near {
            let off = |x: f64| (x.abs() - 1.0).abs();
            let beside = |v: &Complex| if limits.real { v.im.abs() } else { off(v.im) };
            let far = |v: &Complex| off(v.re).max(beside(v)) > near;
            if let Some(at) = values.iter().position(far) {
                let wanted = format!("values within {near} of -1 or 1");
                return refuse(wanted, at, "use the slots_first or the regular bootstrap");
            }
        }
        let sizes = values.iter().map(|v| match limits.slots {
            true => v.re.abs().max(v.im.abs()),
            false => v.abs(),
        });
        // A coefficient is at most the mean of the absolute values.
        let size = match limits.slots {
            true => sizes.fold(0.0, f64::max),
            false => sizes.sum::<f64>() / values.len().max(1) as f64,
        };
        if size > limits.most {
            let what = if limits.slots { "values" } else { "a mean absolute value" };
            let wanted = format!("{what} of at most {}", limits.most);
            let remedy = "scale the values down and the result up";
            return Err(Error::bad_input(op, wanted, format!("{size}"), remedy));
        }
        Ok(())
    }

    /// Refuses values that are no integers of so many bits, each with a sign, or more of them than a ciphertext has.
    pub(super) fn check_public(
        &self,
        op: &'static str,
        bits: u32,
        values: &[Complex],
    ) -> Result<()> {
        let (most, below) = (self.params().degree(), f64::from(1u32 << bits));
        let fits = |v: &Complex| v.im == 0.0 && v.re.fract() == 0.0 && v.re.abs() < below;
        let got = match values.iter().find(|v| !fits(v)) {
            Some(v) => format!("{} + {}i", v.re, v.im),
            None if (1..=most).contains(&values.len()) => return Ok(()),
            None => format!("{} of them", values.len()),
        };
        let wanted = format!("1 to {most} integers between -{below} and {below}");
        Err(Error::bad_input(op, wanted, got, "take integers modulo 2^bits"))
    }

    /// Whether each result is known to be real, where this is known of the arguments or not.
    ///
    /// # Errors
    /// `BadInput` for another number of arguments, and where a bootstrap of real values would meet others.
    pub fn real(&self, inputs: &[bool]) -> Result<Vec<bool>> {
        if self.limits.error.is_some() && inputs.len() == self.inputs.len() {
            let real = self.require_real(inputs.iter().all(|real| *real), self.limits.real)?;
            return Ok(vec![real; self.outputs.len()]);
        }
        let known = self.known_real(inputs)?;
        Ok(self.outputs.iter().map(|r| known[r.0 as usize]).collect())
    }

    /// [`CkksProgram::real`] where some arguments say nothing: these are taken at the word of the caller, and no result says anything then.
    ///
    /// # Errors
    /// As there.
    pub fn said_real(&self, inputs: &[Option<bool>]) -> Result<Vec<Option<bool>>> {
        let made =
            self.real(&inputs.iter().map(|real| *real != Some(false)).collect::<Vec<_>>())?;
        let known = inputs.iter().all(Option::is_some);
        Ok(made.into_iter().map(|real| known.then_some(real)).collect())
    }

    fn require_real(&self, real: bool, wanted: bool) -> Result<bool> {
        if real || !wanted {
            return Ok(real);
        }
        let remedy = "record the program for complex values, or read the ciphertext as real";
        Err(Error::bad_input(self.op(), "values known to be real", "others", remedy))
    }

    /// [`CkksProgram::real`] of every register, in order.
    ///
    /// # Errors
    /// As there.
    pub fn known_real(&self, inputs: &[bool]) -> Result<Vec<bool>> {
        if inputs.len() != self.inputs.len() {
            let (wanted, got) = (format!("{} ciphertexts", self.inputs.len()), inputs.len());
            let remedy = "pass one for each argument";
            return Err(Error::bad_input(self.op(), wanted, got.to_string(), remedy));
        }
        let mut known = vec![false; self.registers()];
        self.inputs.iter().zip(inputs).for_each(|(r, real)| known[r.0 as usize] = *real);
        for op in &self.ops {
            let sources = op.sources().iter().all(|r| known[r.0 as usize]);
            known[op.result().0 as usize] = match op {
                CkksOp::Linear { map, .. } => sources && self.maps[*map as usize].matrix.is_real(),
                CkksOp::AddPlain { plaintext, .. } | CkksOp::MultiplyPlain { plaintext, .. } => {
                    sources && self.plaintexts[*plaintext as usize].iter().all(|x| x.im == 0.0)
                }
                CkksOp::MultiplyI { .. } | CkksOp::RaiseModulus { .. } => false,
                CkksOp::Refreshed { from, limits, .. } => {
                    let real = from.iter().all(|r| known[r.0 as usize]);
                    self.require_real(real, limits.real)?
                }
                CkksOp::Polynomial { .. }
                | CkksOp::DoubleAngle { .. }
                | CkksOp::Trace { .. }
                | CkksOp::Multiply { .. }
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
                | CkksOp::WeightedSum { .. } => sources,
                // The halves of the coefficients, which CoeffsToSlots brings apart.
                CkksOp::Tabulate { contract, .. } if contract.gives == Gives::Slots => true,
                CkksOp::Tabulate { from, .. } => known[from.0 as usize],
            };
        }
        Ok(known)
    }
}
