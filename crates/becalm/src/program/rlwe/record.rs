//! Recording a CKKS program: each call checks levels and scales, appends an instruction and returns its register.

use super::functions::Functions;
use super::{CkksOp, CkksProgram, Limits, MapSpec, RlweInfo};
use crate::cipher::{Integers, Rlwe};
use crate::ckks::{Chain, Chebyshev, Matrix, same_scale};
use crate::math::complex::Complex;
use crate::params::USUAL_CKKS;
use crate::program::{Graph, Operation, Reg};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn refuse<T>(
    op: &'static str,
    wanted: impl Into<String>,
    got: impl Into<String>,
) -> Result<T> {
    Err(Error::bad_input(op, wanted, got, "record the instruction for other registers"))
}

/// Where an item stands among the others: with its equal, or behind them.
pub(super) fn place<T: PartialEq>(items: &mut Vec<T>, item: T) -> u32 {
    let at = items.iter().position(|own| *own == item).unwrap_or(items.len());
    if at == items.len() {
        items.push(item);
    }
    at as u32
}

impl CkksProgram {
    /// An empty program for the set of a chain.
    pub fn new(chain: &Chain) -> CkksProgram {
        let limits =
            Limits { most: f64::INFINITY, near: None, real: false, slots: true, error: None };
        CkksProgram {
            chain: Arc::new(chain.clone()),
            graph: Graph::default(),
            maps: vec![],
            polynomials: vec![],
            plaintexts: vec![],
            limits,
            functions: Functions::default(),
        }
    }

    /// A new argument of at most `slots` values, at `level` and its scale.
    ///
    /// # Errors
    /// `BadInput` for a level above the user's or a number of slots that is not a power of two.
    pub fn input(&mut self, level: usize, slots: usize) -> Result<Reg> {
        let Some(scale) = self.chain.scales().get(level).copied() else {
            let wanted = format!("a level of at most {}", self.params().levels);
            return refuse("input", wanted, level.to_string());
        };
        self.input_as(RlweInfo { level, scale, slots, integers: None })
    }

    /// A new argument like a ciphertext that is at hand: of its level, scale and slots.
    ///
    /// # Errors
    /// `WrongParams` for a ciphertext of another set.
    pub fn input_like(&mut self, x: &Rlwe) -> Result<Reg> {
        self.chain.check_set("input", x.params())?;
        let integers = x.integers().map(|own| own.bits);
        self.input_as(RlweInfo { level: x.level(), scale: x.scale(), slots: x.slots(), integers })
    }

    /// [`CkksProgram::input`] of values in slots or integers, at any scale.
    ///
    /// # Errors
    /// As [`CkksProgram::input`]; `BadInput` for a scale that the level has no room for, and for integers that the set has no tables for.
    pub fn input_as(&mut self, info: RlweInfo) -> Result<Reg> {
        if info.level >= self.chain.scales().len() {
            let wanted = format!("a level of at most {}", self.params().levels);
            return refuse("input", wanted, info.level.to_string());
        }
        if let Some(bits) = info.integers {
            self.chain.check_integers("input", bits)?;
            if info.level != 0 || !same_scale(info.scale, self.chain.scale(0)?) {
                let got = format!("level {}", info.level);
                return refuse("input", "integers at level 0 and its scale", got);
            }
        }
        self.check_scale("input", info.scale)?;
        self.check_slots("input", info.slots)?;
        Ok(self.graph.input(info))
    }

    /// Registers at the lowest of their levels: those above it are brought down.
    ///
    /// # Errors
    /// As [`CkksProgram::level_down`].
    pub fn aligned(&mut self, regs: &[Reg]) -> Result<Vec<Reg>> {
        let levels =
            regs.iter().map(|r| Ok(self.content(*r)?.level)).collect::<Result<Vec<_>>>()?;
        let lowest = levels.iter().copied().min().unwrap_or(0);
        let mut lowered = BTreeMap::new();
        for (reg, level) in regs.iter().zip(&levels) {
            if *level > lowest && !lowered.contains_key(reg) {
                lowered.insert(*reg, self.level_down(*reg, lowest)?);
            }
        }
        Ok(regs.iter().map(|r| *lowered.get(r).unwrap_or(r)).collect())
    }

    /// Makes a register a result of the program.
    ///
    /// # Errors
    /// `BadInput` if the program has no such register.
    pub fn output(&mut self, reg: Reg) -> Result<()> {
        self.graph.output(reg)
    }

    /// States the values for which the approximations hold, and their error.
    pub(crate) fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// A linear map of the slots, with `baby` baby steps and entries at `scale`.
    ///
    /// # Errors
    /// `BadInput` at level 0, for a map without diagonals, or for a map of fewer slots than its source.
    pub fn linear(
        &mut self,
        src: Reg,
        matrix: impl Into<Arc<Matrix>>,
        baby: usize,
        scale: f64,
    ) -> Result<Reg> {
        let (matrix, level) = (matrix.into(), self.known(src)?.level);
        self.wholly(|p| {
            let map = place(&mut p.maps, MapSpec { matrix, level, baby, scale });
            p.linear_by(src, map)
        })
    }

    /// [`CkksProgram::linear`] by a map of the program.
    pub(super) fn linear_by(&mut self, src: Reg, map: u32) -> Result<Reg> {
        let (op, from) = ("apply a linear map", self.known(src)?);
        let level = self.below(op, from, 1)?;
        let Some(spec) = self.maps.get(map as usize) else {
            return refuse(op, format!("one of {} maps", self.maps.len()), map.to_string());
        };
        let (matrix, slots) = (&spec.matrix, spec.matrix.slots());
        self.check_slots(op, slots)?;
        self.check_scale(op, spec.scale)?;
        if spec.baby == 0 || matrix.rotations().next().is_none() || slots < from.slots {
            let wanted = format!("a map of {} slots or more, one baby step or more", from.slots);
            return refuse(op, wanted, format!("{slots} slots, {} baby steps", spec.baby));
        }
        if spec.level != from.level {
            let got = format!("level {}", from.level);
            return refuse(op, format!("a source at level {}", spec.level), got);
        }
        let scale = from.scale * spec.scale / self.chain.step(from.level);
        let info = RlweInfo { level, scale, slots, integers: None };
        Ok(self.push(info, |dst| CkksOp::Linear { dst, src, map }))
    }

    /// A polynomial, at exactly `scale`.
    ///
    /// # Errors
    /// `BadInput` where levels are missing, or for a constant.
    pub fn polynomial(&mut self, src: Reg, p: Chebyshev, scale: f64) -> Result<Reg> {
        self.wholly(|own| {
            let polynomial = place(&mut own.polynomials, p);
            own.polynomial_by(src, polynomial, scale)
        })
    }

    /// [`CkksProgram::polynomial`] at the scale of the level that is left.
    ///
    /// # Errors
    /// As [`CkksProgram::polynomial`].
    pub fn polynomial_at_level(&mut self, src: Reg, p: Chebyshev) -> Result<Reg> {
        let level = self.below("polynomial", self.known(src)?, p.depth())?;
        let scale = self.chain.scale(level)?;
        self.polynomial(src, p, scale)
    }

    /// The scale of the level of a register: that of entries of a matrix with which products come back to the scale of the
    /// level below.
    ///
    /// # Errors
    /// `BadInput` for an unknown register or one above the levels of the user.
    pub fn scale_of(&self, reg: Reg) -> Result<f64> {
        self.chain.scale(self.known(reg)?.level)
    }

    /// [`CkksProgram::polynomial`] by a polynomial of the program.
    pub(super) fn polynomial_by(&mut self, src: Reg, polynomial: u32, scale: f64) -> Result<Reg> {
        let (op, from) = ("polynomial", self.known(src)?);
        self.check_scale(op, scale)?;
        let Some(p) = self.polynomials.get(polynomial as usize) else {
            let wanted = format!("one of {} polynomials", self.polynomials.len());
            return refuse(op, wanted, polynomial.to_string());
        };
        p.check(op)?;
        let level = self.below(op, from, p.depth())?;
        // Bootstraps know what their levels hold.
        let own = from.level > self.params().levels;
        let largest = if own { 0.0 } else { p.largest() };
        self.chain.check_polynomial(op, level, scale, largest)?;
        let info = RlweInfo { level, scale, ..from };
        Ok(self.push(info, |dst| CkksOp::Polynomial { dst, src, polynomial }))
    }

    /// 2x² − 1.
    ///
    /// # Errors
    /// `BadInput` at level 0.
    pub fn double_angle(&mut self, src: Reg) -> Result<Reg> {
        let from = self.known(src)?;
        let level = self.below("double an angle", from, 1)?;
        let scale = from.scale * from.scale / self.chain.step(from.level);
        let info = RlweInfo { level, scale, ..from };
        Ok(self.push(info, |dst| CkksOp::DoubleAngle { dst, src }))
    }

    /// From level 0 to `level`; the scale becomes the multiple of q_0 nearest `scale`.
    ///
    /// # Errors
    /// `BadInput` for another level of the source or one above the top, `WrongParams` for a set without bootstrap.
    pub fn raise_modulus(&mut self, src: Reg, level: usize, scale: f64) -> Result<Reg> {
        let (op, from, top) = ("raise the modulus", self.content(src)?, self.params().top_level());
        if self.params().bootstrap.is_none() {
            let wanted = "a set with a bootstrap";
            let remedy = format!("use `{USUAL_CKKS}`");
            return Err(Error::wrong_params(op, wanted, self.params().name, remedy));
        }
        if from.level != 0 || level > top {
            let got = format!("from {} to {level}", from.level);
            return refuse(op, format!("from level 0 to at most {top}"), got);
        }
        self.check_scale(op, scale)?;
        let base = self.chain.step(0);
        let scale = (scale / base).round().max(1.0) * base;
        let info = RlweInfo { level, scale, slots: self.params().slots(), integers: None };
        Ok(self.push(info, |dst| CkksOp::RaiseModulus { dst, src }))
    }

    /// The sum of the rotations by multiples of `slots`: values of that period.
    ///
    /// # Errors
    /// `BadInput` for a number of slots that is not a power of two or above that of the source.
    pub fn trace(&mut self, src: Reg, slots: usize) -> Result<Reg> {
        let from = self.known(src)?;
        self.check_slots("trace", slots)?;
        if slots > from.slots {
            return refuse("trace", format!("at most {} slots", from.slots), slots.to_string());
        }
        Ok(self.push(RlweInfo { slots, ..from }, |dst| CkksOp::Trace { dst, src }))
    }

    /// a·b.
    ///
    /// # Errors
    /// `BadInput` at level 0 or for registers of different levels or slots.
    pub fn multiply(&mut self, a: Reg, b: Reg) -> Result<Reg> {
        let info = self.product("multiply", a, b)?;
        Ok(self.push(info, |dst| CkksOp::Multiply { dst, a, b }))
    }

    /// Σ a·b over pairs, relinearized and rescaled once.
    ///
    /// # Errors
    /// `BadInput` for no pairs, at level 0, or for registers of different levels, scales or slots.
    pub fn dot(&mut self, pairs: &[(Reg, Reg)]) -> Result<Reg> {
        let op = "dot product";
        let Some((a, b)) = pairs.first() else {
            let remedy = "pass two lists of as many vectors";
            return Err(Error::bad_input(op, "one pair of vectors or more", "none", remedy));
        };
        let info = self.product(op, *a, *b)?;
        for (a, b) in pairs {
            let other = self.product(op, *a, *b)?;
            self.require_alike(op, info, other)?;
        }
        let pairs = pairs.to_vec();
        Ok(self.push(info, |dst| CkksOp::Dot { dst, pairs }))
    }

    /// i·x.
    ///
    /// # Errors
    /// `BadInput` for an unknown register.
    pub fn multiply_i(&mut self, src: Reg) -> Result<Reg> {
        let info = self.known(src)?;
        Ok(self.push(info, |dst| CkksOp::MultiplyI { dst, src }))
    }

    /// −x.
    ///
    /// # Errors
    /// `BadInput` for an unknown register.
    pub fn negate(&mut self, src: Reg) -> Result<Reg> {
        let info = self.content(src)?;
        Ok(self.push(info, |dst| CkksOp::Negate { dst, src }))
    }

    /// The complex conjugate.
    ///
    /// # Errors
    /// `BadInput` for an unknown register.
    pub fn conjugate(&mut self, src: Reg) -> Result<Reg> {
        let info = self.known(src)?;
        Ok(self.push(info, |dst| CkksOp::Conjugate { dst, src }))
    }

    /// Slots rotated to the left by `by`.
    ///
    /// # Errors
    /// `BadInput` for an unknown register.
    pub fn rotate(&mut self, src: Reg, by: i64) -> Result<Reg> {
        let info = self.known(src)?;
        Ok(self.push(info, |dst| CkksOp::Rotate { dst, src, by }))
    }

    /// In slot i the sum of slots i, i + 1, …, i + `size` − 1, counted around.
    ///
    /// # Errors
    /// `BadInput` for a size that is not a power of two or exceeds the slots.
    pub fn sum(&mut self, src: Reg, size: usize) -> Result<Reg> {
        let info = self.known(src)?;
        if !size.is_power_of_two() || size > info.slots {
            let wanted = format!("a power of two of at most {} slots to sum", info.slots);
            let remedy = "fill the vector with zeros to a power of two";
            return Err(Error::bad_input("sum", wanted, size.to_string(), remedy));
        }
        Ok(self.push(info, |dst| CkksOp::Sum { dst, src, size }))
    }

    /// a + b.
    ///
    /// # Errors
    /// `BadInput` for registers of different levels, scales or slots.
    pub fn add(&mut self, a: Reg, b: Reg) -> Result<Reg> {
        let info = self.alike("add", a, b)?;
        Ok(self.push(info, |dst| CkksOp::Add { dst, a, b }))
    }

    /// a − b.
    ///
    /// # Errors
    /// As [`CkksProgram::add`].
    pub fn subtract(&mut self, a: Reg, b: Reg) -> Result<Reg> {
        let info = self.alike("subtract", a, b)?;
        Ok(self.push(info, |dst| CkksOp::Subtract { dst, a, b }))
    }

    /// x + c.
    ///
    /// # Errors
    /// `BadInput` for a c that is not finite, or that the level has no room for.
    pub fn add_constant(&mut self, src: Reg, constant: f64) -> Result<Reg> {
        let info = self.known(src)?;
        self.check_fits("add", info, &[Complex::from(constant)])?;
        Ok(self.push(info, |dst| CkksOp::AddConstant { dst, src, constant }))
    }

    /// x·c for a real number, rescaled to the scale of the level below.
    ///
    /// # Errors
    /// `BadInput` at level 0, above the levels of the user, for a c that is not finite, or that the level has no room for.
    pub fn multiply_constant(&mut self, src: Reg, constant: f64) -> Result<Reg> {
        let op = "multiply";
        let info = self.one_below(op, src)?;
        self.check_fits(op, info, &[Complex::from(constant)])?;
        Ok(self.push(info, |dst| CkksOp::MultiplyConstant { dst, src, constant }))
    }

    /// x + values, slot by slot; of integers, integer by integer modulo 2^bits.
    ///
    /// # Errors
    /// `BadInput` for values that are not finite or too large for the level, or another number of them than slots (one serves all). Beside
    /// integers, for values that are not integers between ±2^bits, or more than N of them.
    pub fn add_plain(&mut self, src: Reg, values: &[Complex]) -> Result<Reg> {
        self.wholly(|p| {
            let plaintext = p.plaintext(values);
            p.add_plain_by(src, plaintext)
        })
    }

    /// [`CkksProgram::add_plain`] of a plaintext of the program.
    pub(super) fn add_plain_by(&mut self, src: Reg, plaintext: u32) -> Result<Reg> {
        let info = self.content(src)?;
        self.check_plaintext("add", info, plaintext)?;
        Ok(self.push(info, |dst| CkksOp::AddPlain { dst, src, plaintext }))
    }

    /// x·values, slot by slot, rescaled to the scale of the level below.
    ///
    /// # Errors
    /// As [`CkksProgram::add_plain`] and [`CkksProgram::multiply_constant`].
    pub fn multiply_plain(&mut self, src: Reg, values: &[Complex]) -> Result<Reg> {
        self.wholly(|p| {
            let plaintext = p.plaintext(values);
            p.multiply_plain_by(src, plaintext)
        })
    }

    /// [`CkksProgram::multiply_plain`] by a plaintext of the program.
    pub(super) fn multiply_plain_by(&mut self, src: Reg, plaintext: u32) -> Result<Reg> {
        let op = "multiply";
        let info = self.one_below(op, src)?;
        self.check_plaintext(op, info, plaintext)?;
        Ok(self.push(info, |dst| CkksOp::MultiplyPlain { dst, src, plaintext }))
    }

    /// The same values one level lower.
    ///
    /// # Errors
    /// `BadInput` at level 0 or where the scale would fall below 1.
    pub fn rescale(&mut self, src: Reg) -> Result<Reg> {
        let from = self.known(src)?;
        let level = self.below("rescale", from, 1)?;
        let scale = from.scale / self.chain.step(from.level);
        self.check_scale("rescale", scale)?;
        Ok(self.push(RlweInfo { level, scale, ..from }, |dst| CkksOp::Rescale { dst, src }))
    }

    /// The same values at a lower level of the user, at the scale of that level.
    ///
    /// # Errors
    /// `BadInput` for a level above that of the source or above the user's.
    pub fn level_down(&mut self, src: Reg, level: usize) -> Result<Reg> {
        let (op, from) = ("level down", self.content(src)?);
        let own = self.chain.scales().get(level).copied();
        let Some(own) = own.filter(|_| level <= from.level) else {
            let most = from.level.min(self.params().levels);
            return refuse(op, format!("a level of at most {most}"), level.to_string());
        };
        // A ciphertext that has the scale already loses words alone.
        let kept = level == from.level || same_scale(from.scale, own);
        let scale = if kept { from.scale } else { own };
        Ok(self.push(RlweInfo { level, scale, ..from }, |dst| CkksOp::LevelDown { dst, src }))
    }

    /// Records all that `record` does, or nothing of it where it fails.
    ///
    /// # Errors
    /// As `record`.
    pub fn wholly<T>(&mut self, record: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let graph = &self.graph;
        let [regs, ops] = [graph.regs.len(), graph.ops.len()];
        let [inputs, outputs] = [graph.inputs.len(), graph.outputs.len()];
        let [maps, polynomials] = [self.maps.len(), self.polynomials.len()];
        let plaintexts = self.plaintexts.len();
        let made = record(self);
        if made.is_err() {
            self.graph.regs.truncate(regs);
            self.graph.ops.truncate(ops);
            self.functions.truncate(ops);
            self.graph.inputs.truncate(inputs);
            self.graph.outputs.truncate(outputs);
            self.maps.truncate(maps);
            self.polynomials.truncate(polynomials);
            self.plaintexts.truncate(plaintexts);
        }
        made
    }

    /// Which plaintext these values are.
    fn plaintext(&mut self, values: &[Complex]) -> u32 {
        let found = self.plaintexts.iter().position(|own| own == values);
        found.map_or_else(|| place(&mut self.plaintexts, values.into()), |at| at as u32)
    }

    pub(super) fn push(&mut self, info: RlweInfo, op: impl FnOnce(Reg) -> CkksOp) -> Reg {
        let dst = self.graph.fresh(info);
        let op = op(dst);
        debug_assert_eq!(op.results(), [dst]);
        self.graph.ops.push(op);
        dst
    }

    /// The facts of a register of integers or of values.
    pub(super) fn content(&self, reg: Reg) -> Result<RlweInfo> {
        self.graph.known(reg)
    }

    /// The facts of a register whose slots hold values.
    pub(super) fn known(&self, reg: Reg) -> Result<RlweInfo> {
        let info = self.content(reg)?;
        let Some(bits) = info.integers else { return Ok(info) };
        let (wanted, got) = ("values in slots", format!("integers of {bits} bits"));
        let remedy =
            "look integers up in tables; add, subtract and negate them, or take small multiples";
        Err(Error::bad_input("record", wanted, got, remedy))
    }

    fn below(&self, op: &'static str, from: RlweInfo, by: usize) -> Result<usize> {
        self.chain.require_level(op, by, from.level, "")?;
        Ok(from.level - by)
    }

    /// One level lower, at the scale of that level.
    pub(super) fn one_below(&self, op: &'static str, src: Reg) -> Result<RlweInfo> {
        let from = self.known(src)?;
        let level = self.below(op, from, 1)?;
        match self.chain.scales().get(level) {
            Some(scale) => Ok(RlweInfo { level, scale: *scale, ..from }),
            None => {
                let wanted = format!("a level of at most {}", self.params().levels + 1);
                refuse(op, wanted, from.level.to_string())
            }
        }
    }

    fn product(&self, op: &'static str, a: Reg, b: Reg) -> Result<RlweInfo> {
        let [x, y] = [self.known(a)?, self.known(b)?];
        self.require_together(op, x, y)?;
        let level = self.below(op, x, 1)?;
        Ok(RlweInfo { level, scale: x.scale * y.scale / self.chain.step(x.level), ..x })
    }

    fn alike(&self, op: &'static str, a: Reg, b: Reg) -> Result<RlweInfo> {
        let [x, y] = [self.content(a)?, self.content(b)?];
        self.require_alike(op, x, y)?;
        Ok(x)
    }

    fn require_alike(&self, op: &'static str, x: RlweInfo, y: RlweInfo) -> Result<()> {
        self.require_together(op, x, y)?;
        if x.integers != y.integers {
            let [wanted, got] = [x, y].map(|x| Integers::named(x.integers));
            let remedy =
                "encrypt both with one number of bits, or look one up in a table of the other's";
            return Err(Error::bad_input(op, wanted, got, remedy));
        }
        if same_scale(x.scale, y.scale) {
            return Ok(());
        }
        let [wanted, got] = [x, y].map(|x| format!("scale 2^{:.6}", x.scale.log2()));
        Err(Error::bad_input(op, wanted, got, "bring both to the scale of their level"))
    }

    pub(super) fn require_together(
        &self,
        op: &'static str,
        x: RlweInfo,
        y: RlweInfo,
    ) -> Result<()> {
        if x.slots != y.slots {
            let (wanted, got) = (format!("{} slots", x.slots), y.slots.to_string());
            return Err(Error::bad_input(op, wanted, got, "encrypt vectors of one length"));
        }
        if x.level != y.level {
            let [wanted, got] = [x, y].map(|x| format!("level {}", x.level));
            return Err(Error::bad_input(op, wanted, got, "bring both to one level"));
        }
        Ok(())
    }

    pub(super) fn check_scale(&self, op: &'static str, scale: f64) -> Result<()> {
        if scale.is_finite() && scale >= 1.0 {
            return Ok(());
        }
        refuse(op, "a finite scale of 1 or more", scale.to_string())
    }

    pub(super) fn check_slots(&self, op: &'static str, slots: usize) -> Result<()> {
        if slots.is_power_of_two() && slots <= self.params().slots() {
            return Ok(());
        }
        let wanted = format!("a power of two of at most {} slots", self.params().slots());
        refuse(op, wanted, slots.to_string())
    }

    fn check_plaintext(&self, op: &'static str, info: RlweInfo, plaintext: u32) -> Result<()> {
        let Some(values) = self.plaintexts.get(plaintext as usize) else {
            let wanted = format!("one of {} plaintexts", self.plaintexts.len());
            return refuse(op, wanted, plaintext.to_string());
        };
        if let Some(bits) = info.integers {
            return self.check_public(op, bits, values);
        }
        if values.len() != info.slots && values.len() != 1 {
            let wanted = format!("{} values, or one for all slots", info.slots);
            let remedy = "pad the values to the slots";
            return Err(Error::bad_input(op, wanted, values.len().to_string(), remedy));
        }
        self.check_fits(op, info, values)
    }

    /// Refuses values that are not finite, or too large for a level and its scale.
    fn check_fits(&self, op: &'static str, at: RlweInfo, values: &[Complex]) -> Result<()> {
        self.chain.check_values(op, values)?;
        let largest = values.iter().map(|v| v.abs()).fold(0.0, f64::max);
        self.chain.check_room(op, largest, at.level, at.scale)
    }
}
