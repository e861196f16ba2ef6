//! Recording a CKKS program: each call checks levels and scales, appends an instruction and returns its register.

use super::{CkksOp, CkksProgram, Limits, MapSpec, RlweInfo};
use crate::ckks::{Chain, Chebyshev, Matrix};
use crate::program::Reg;
use crate::{Error, Result};

/// Relative difference of two scales that counts as none.
const SAME_SCALE: f64 = 1e-9;

fn refuse<T>(op: &'static str, wanted: impl Into<String>, got: impl Into<String>) -> Result<T> {
    Err(Error::bad_input(op, wanted, got, "record the instruction for other registers"))
}

impl CkksProgram {
    /// An empty program for the set of a chain.
    pub fn new(chain: &Chain) -> CkksProgram {
        let params = chain.params();
        let levels = 0..=params.top_level();
        let limits =
            Limits { most: f64::INFINITY, near: None, real: false, slots: true, error: None };
        CkksProgram {
            params,
            steps: levels.clone().map(|i| chain.step(i)).collect(),
            scales: chain.scales().to_vec(),
            counts: levels.clone().map(|i| chain.words(i)).collect(),
            special: chain.special(),
            digits: levels.map(|i| chain.digits(i).len()).collect(),
            regs: vec![],
            ops: vec![],
            maps: vec![],
            polynomials: vec![],
            inputs: vec![],
            outputs: vec![],
            limits,
        }
    }

    /// A new argument of at most `slots` values, at `level` and its scale.
    ///
    /// # Errors
    /// `BadInput` for a level above the user's or a number of slots that is no power of two.
    pub fn input(&mut self, level: usize, slots: usize) -> Result<Reg> {
        let Some(scale) = self.scales.get(level).copied() else {
            let wanted = format!("a level of at most {}", self.params.levels);
            return refuse("input", wanted, level.to_string());
        };
        self.check_slots("input", slots)?;
        let reg = self.fresh(RlweInfo { level, scale, slots });
        self.inputs.push(reg);
        Ok(reg)
    }

    /// Makes a register a result of the program.
    pub fn output(&mut self, reg: Reg) {
        self.outputs.push(reg);
    }

    /// States for what values the approximations hold, and what they cost.
    pub(crate) fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// q_`level`.
    pub(crate) fn step(&self, level: usize) -> f64 {
        self.steps[level]
    }

    /// A linear map with `baby` baby steps and entries at `scale`.
    ///
    /// # Errors
    /// `BadInput` at level 0, for no baby steps, a map of no diagonals, or one of fewer slots than its source.
    pub fn linear(&mut self, src: Reg, matrix: Matrix, baby: usize, scale: f64) -> Result<Reg> {
        let (op, from) = ("apply a linear map", *self.reg(src));
        let level = self.below(op, from, 1)?;
        self.check_slots(op, matrix.slots())?;
        self.check_scale(op, scale)?;
        if baby == 0 || matrix.rotations().next().is_none() || matrix.slots() < from.slots {
            let wanted = format!("a map of {} slots or more, one baby step or more", from.slots);
            let got = format!("{} slots, {baby} baby steps", matrix.slots());
            return refuse(op, wanted, got);
        }
        let slots = matrix.slots();
        let after = from.scale * scale / self.steps[from.level];
        self.maps.push(MapSpec { matrix, level: from.level, baby, scale });
        let map = self.maps.len() as u32 - 1;
        let dst = self.fresh(RlweInfo { level, scale: after, slots });
        Ok(self.push(CkksOp::Linear { dst, src, map }))
    }

    /// A polynomial, at exactly `scale`.
    ///
    /// # Errors
    /// `BadInput` where levels are missing, or for a constant.
    pub fn polynomial(&mut self, src: Reg, p: Chebyshev, scale: f64) -> Result<Reg> {
        let (op, from) = ("evaluate a polynomial", *self.reg(src));
        self.check_scale(op, scale)?;
        if p.degree() == 0 || !p.0.iter().all(|c| c.is_finite()) {
            return refuse(op, "finite coefficients, degree 1 or more", format!("{:?}", p.0));
        }
        let level = self.below(op, from, p.depth())?;
        self.polynomials.push(p);
        let polynomial = self.polynomials.len() as u32 - 1;
        let dst = self.fresh(RlweInfo { level, scale, ..from });
        Ok(self.push(CkksOp::Polynomial { dst, src, polynomial }))
    }

    /// 2x² − 1.
    ///
    /// # Errors
    /// `BadInput` at level 0.
    pub fn double_angle(&mut self, src: Reg) -> Result<Reg> {
        let from = *self.reg(src);
        let level = self.below("double an angle", from, 1)?;
        let scale = from.scale * from.scale / self.steps[from.level];
        let dst = self.fresh(RlweInfo { level, scale, ..from });
        Ok(self.push(CkksOp::DoubleAngle { dst, src }))
    }

    /// From level 0 to `level`; the scale becomes the multiple of q_0 nearest `scale`.
    ///
    /// # Errors
    /// `BadInput` for another level of the source or one above the top, `WrongParams` for a set without bootstrap.
    pub fn raise_modulus(&mut self, src: Reg, level: usize, scale: f64) -> Result<Reg> {
        let (op, from, top) = ("raise the modulus", *self.reg(src), self.params.top_level());
        if self.params.bootstrap.is_none() {
            let wanted = "a set with a bootstrap";
            return Err(Error::wrong_params(op, wanted, self.params.name, "use `ckks_regular`"));
        }
        if from.level != 0 || level > top {
            let got = format!("from {} to {level}", from.level);
            return refuse(op, format!("from level 0 to at most {top}"), got);
        }
        let scale = (scale / self.steps[0]).round().max(1.0) * self.steps[0];
        let dst = self.fresh(RlweInfo { level, scale, slots: self.params.slots() });
        Ok(self.push(CkksOp::RaiseModulus { dst, src }))
    }

    /// The sum of the rotations by multiples of `slots`: values of that period.
    ///
    /// # Errors
    /// `BadInput` for a number of slots that is no power of two or above that of the source.
    pub fn trace(&mut self, src: Reg, slots: usize) -> Result<Reg> {
        let from = *self.reg(src);
        self.check_slots("trace", slots)?;
        if slots > from.slots {
            return refuse("trace", format!("at most {} slots", from.slots), slots.to_string());
        }
        let dst = self.fresh(RlweInfo { slots, ..from });
        Ok(self.push(CkksOp::Trace { dst, src }))
    }

    /// a·b.
    ///
    /// # Errors
    /// `BadInput` at level 0 or for registers of different levels or slots.
    pub fn multiply(&mut self, a: Reg, b: Reg) -> Result<Reg> {
        let [x, y] = [*self.reg(a), *self.reg(b)];
        if (x.level, x.slots) != (y.level, y.slots) {
            return refuse("multiply", format!("{x:?}"), format!("{y:?}"));
        }
        let level = self.below("multiply", x, 1)?;
        let scale = x.scale * y.scale / self.steps[x.level];
        let dst = self.fresh(RlweInfo { level, scale, ..x });
        Ok(self.push(CkksOp::Multiply { dst, a, b }))
    }

    /// i·x.
    pub fn multiply_i(&mut self, src: Reg) -> Reg {
        let dst = self.fresh(*self.reg(src));
        self.push(CkksOp::MultiplyI { dst, src })
    }

    /// The complex conjugate.
    pub fn conjugate(&mut self, src: Reg) -> Reg {
        let dst = self.fresh(*self.reg(src));
        self.push(CkksOp::Conjugate { dst, src })
    }

    /// Slots rotated to the left by `by`.
    pub fn rotate(&mut self, src: Reg, by: i64) -> Reg {
        let dst = self.fresh(*self.reg(src));
        self.push(CkksOp::Rotate { dst, src, by })
    }

    /// a + b.
    ///
    /// # Errors
    /// `BadInput` for registers of different levels, scales or slots.
    pub fn add(&mut self, a: Reg, b: Reg) -> Result<Reg> {
        let dst = self.aligned("add", a, b)?;
        Ok(self.push(CkksOp::Add { dst, a, b }))
    }

    /// a − b.
    ///
    /// # Errors
    /// As [`CkksProgram::add`].
    pub fn subtract(&mut self, a: Reg, b: Reg) -> Result<Reg> {
        let dst = self.aligned("subtract", a, b)?;
        Ok(self.push(CkksOp::Subtract { dst, a, b }))
    }

    /// x + c.
    ///
    /// # Errors
    /// `BadInput` for a c that is not finite.
    pub fn add_constant(&mut self, src: Reg, constant: f64) -> Result<Reg> {
        if !constant.is_finite() {
            return refuse("add a constant", "a finite number", constant.to_string());
        }
        let dst = self.fresh(*self.reg(src));
        Ok(self.push(CkksOp::AddConstant { dst, src, constant }))
    }

    /// The same values one level lower.
    ///
    /// # Errors
    /// `BadInput` at level 0 or where the scale would fall below 1.
    pub fn rescale(&mut self, src: Reg) -> Result<Reg> {
        let from = *self.reg(src);
        let level = self.below("rescale", from, 1)?;
        let scale = from.scale / self.steps[from.level];
        self.check_scale("rescale", scale)?;
        let dst = self.fresh(RlweInfo { level, scale, ..from });
        Ok(self.push(CkksOp::Rescale { dst, src }))
    }

    /// The same ciphertext read at another scale: every value is divided by `by`.
    ///
    /// # Errors
    /// `BadInput` for what is not finite and positive.
    pub fn divide(&mut self, src: Reg, by: f64) -> Result<Reg> {
        let from = *self.reg(src);
        self.check_scale("divide", from.scale * by)?;
        let dst = self.fresh(RlweInfo { scale: from.scale * by, ..from });
        Ok(self.push(CkksOp::Reinterpret { dst, src }))
    }

    fn fresh(&mut self, info: RlweInfo) -> Reg {
        self.regs.push(info);
        Reg(self.regs.len() as u32 - 1)
    }

    fn push(&mut self, op: CkksOp) -> Reg {
        self.ops.push(op);
        op.result()
    }

    fn below(&self, op: &'static str, from: RlweInfo, by: usize) -> Result<usize> {
        match from.level.checked_sub(by) {
            Some(level) => Ok(level),
            None => refuse(op, format!("level {by} or above"), format!("level {}", from.level)),
        }
    }

    fn aligned(&mut self, op: &'static str, a: Reg, b: Reg) -> Result<Reg> {
        let [x, y] = [*self.reg(a), *self.reg(b)];
        let same = (x.scale / y.scale - 1.0).abs() < SAME_SCALE;
        if (x.level, x.slots) != (y.level, y.slots) || !same {
            return refuse(op, format!("{x:?}"), format!("{y:?}"));
        }
        Ok(self.fresh(x))
    }

    fn check_scale(&self, op: &'static str, scale: f64) -> Result<()> {
        if scale.is_finite() && scale >= 1.0 {
            return Ok(());
        }
        refuse(op, "a finite scale of 1 or more", scale.to_string())
    }

    fn check_slots(&self, op: &'static str, slots: usize) -> Result<()> {
        if slots.is_power_of_two() && slots <= self.params.slots() {
            return Ok(());
        }
        let wanted = format!("a power of two of at most {} slots", self.params.slots());
        refuse(op, wanted, slots.to_string())
    }
}
