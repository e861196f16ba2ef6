//! The steps that the bootstraps have in common, recorded one after another.
//!
//! Stages consume levels as they find them: with more stages than the chain was made for, CoeffsToSlots takes levels of
//! EvalMod, EvalMod those of SlotsToCoeffs, and that the user's; the scales follow from the steps. The factor by
//! which SlotsToCoeffs lowers the scale is spread over its matrices, and a further level is given up where their entries would
//! keep fewer than [`LEAST_BITS`].

use super::coeffs_to_slots::{coeffs_to_slots, slots_to_coeffs};
use super::eval_mod::{Sine, span};
use crate::ckks::{Chain, Chebyshev, Matrix};
use crate::math::complex::Complex;
use crate::params::{CkksBootstrap, USUAL_CKKS};
use crate::program::Reg;
use crate::program::rlwe::{Added, CkksOp, CkksProgram, RlweInfo};
use crate::{Error, Result};
use std::f64::consts::{SQRT_2, TAU};
use std::iter::repeat;

/// Least bits of the entries of a matrix of SlotsToCoeffs, unless the stages of a set have fewer.
const LEAST_BITS: f64 = 31.0;
/// Least bits of a scale within EvalMod.
const LEAST_SCALE: f64 = 56.0;
/// Most layers of butterflies in a stage: 2^(·+1) − 1 diagonals.
const MOST_LAYERS: usize = 6;
/// log2 of the most entries of a matrix that may have more layers, over few slots.
const MOST_ENTRIES: usize = 21;
/// Most stages.
pub(super) const MOST_STAGES: usize = 5;

/// The contents of the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Values {
    /// Complex numbers: two EvalMods.
    #[default]
    Complex,
    /// Real numbers only, which takes one EvalMod instead of two.
    Real,
    /// Two ciphertexts of real numbers in one bootstrap, which takes as long as a complex one.
    Merged,
}

/// The kinds of values by name.
const VALUES: [(&str, Values); 3] =
    [("complex", Values::Complex), ("real", Values::Real), ("merged", Values::Merged)];

impl Values {
    /// Its name: `"complex"`, `"real"` or `"merged"`.
    pub fn name(self) -> &'static str {
        VALUES.iter().find(|(_, values)| *values == self).map_or("", |(name, _)| name)
    }

    /// The kind of values of this name.
    ///
    /// # Errors
    /// `BadInput` with the names there are.
    pub fn named(name: &str) -> Result<Values> {
        VALUES.iter().find(|(own, _)| *own == name).map(|(_, values)| *values).ok_or_else(|| {
            let wanted = "complex, real or merged values";
            Error::bad_input("bootstrap", wanted, name, "choose one of these")
        })
    }
}

/// Sizes of keys by name, as baby steps. More of them take fewer transforms and more memory, which keys are read from: what that
/// comes to is measured in `docs/bootstrap/ckks_regular.md`.
pub const KEY_SIZES: [(&str, usize); 3] = [("small", 2), ("medium", 8), ("large", 16)];

/// The settings that a bootstrap is recorded with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Factors of each of the two Fourier transforms; none for those of the parameter set. More stages take less time and
    /// fewer keys, and leave fewer levels.
    pub stage_count: Option<usize>,
    /// Baby steps of a matrix, hoisted at a time: 2 needs the fewest keys and the most time; [`KEY_SIZES`] has names for some.
    pub baby: usize,
    /// The contents of the slots.
    pub values: Values,
    /// Bootstraps that a result takes: 1, or 2 with SlotsToCoeffs first, of which the second takes the error of the first out. It
    /// needs scales that hold what is left.
    pub iterations: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { stage_count: None, baby: KEY_SIZES[1].1, values: Values::Complex, iterations: 1 }
    }
}

/// Stages of each transform where none are asked for: over few slots there are no more than layers of butterflies.
pub(super) fn own_stages(b: &CkksBootstrap, slots: usize) -> usize {
    b.stage_count.min(slots.ilog2() as usize)
}

/// A bootstrap that is being recorded.
pub(super) struct Pipeline<'a> {
    pub(super) chain: &'a Chain,
    pub(super) b: CkksBootstrap,
    pub(super) program: CkksProgram,
    /// Values that the transforms are over.
    pub(super) slots: usize,
    stages: usize,
    baby: usize,
    /// Standard deviation of a slot behind the step that was recorded last, from raising on: of t, then of CoeffsToSlots' result.
    pub(super) placed: f64,
    /// The error that a conjugation of CoeffsToSlots' result adds to a slot.
    pub(super) turned: f64,
    /// The error that SlotsToCoeffs adds, standard deviation: to a slot of its result where it comes last, to a coefficient where it comes first.
    pub(super) added: f64,
}

/// The terms of [`Pipeline::error`].
pub(super) struct Terms {
    /// How many times as large an error of the sine is in a slot of the result.
    pub(super) spread: f64,
    /// How many times as large an error of the sine of one coefficient is at most in any slot of the result.
    pub(super) single: f64,
    /// The error at level 0, in a slot of the result, standard deviation.
    pub(super) base: f64,
    /// The error added behind EvalMod, standard deviation of a slot.
    pub(super) added: f64,
    /// Whether the real part of CoeffsToSlots' result stands alone. Where the imaginary part goes with it, w + w̄ and i(w̄ − w)
    /// have the error of w̄ both, and x + iy takes it out.
    pub(super) alone: bool,
    /// By how much the sine bends a message of size 1 at most, and the power of its size with which that grows.
    pub(super) bend: (f64, i32),
}

impl<'a> Pipeline<'a> {
    /// Nothing recorded yet, over `slots` values; SlotsToCoeffs comes `first` or last.
    pub(super) fn new(
        chain: &'a Chain,
        settings: &Settings,
        slots: usize,
        first: bool,
    ) -> Result<Self> {
        let (op, params) = ("prepare a bootstrap", chain.params());
        let b = params.bootstrap.ok_or_else(|| {
            let remedy = format!("use `{USUAL_CKKS}`");
            Error::wrong_params(op, "a set with a bootstrap", params.name, remedy)
        })?;
        if !slots.is_power_of_two() || !(2..=params.slots()).contains(&slots) {
            let wanted = format!("a power of two from 2 to {} as slots", params.slots());
            let remedy = "choose one of these";
            return Err(Error::bad_input(op, wanted, slots.to_string(), remedy));
        }
        let baby = settings.baby;
        if !matches!(baby, 2 | 4 | 8 | 16 | 32) {
            let wanted = "2, 4, 8, 16 or 32 baby steps";
            return Err(Error::bad_input(op, wanted, baby.to_string(), "8 is a good choice"));
        }
        if settings.iterations != 1 {
            let remedy = "leave iterations out, or use the kind slots_first, which has two";
            let got = settings.iterations.to_string();
            return Err(Error::bad_input(op, "1 iteration of this kind of bootstrap", got, remedy));
        }
        let program = CkksProgram::new(chain);
        let stages = settings.stage_count.unwrap_or_else(|| own_stages(&b, slots));
        let (placed, turned, added) = (0.0, 0.0, 0.0);
        let made = Pipeline { chain, b, program, slots, stages, baby, placed, turned, added };
        if made.stages_fit(stages, first) {
            return Ok(made);
        }
        let valid: Vec<_> = (1..=MOST_STAGES).filter(|k| made.stages_fit(*k, first)).collect();
        let wanted = format!("a stage count of {valid:?} for {slots} slots of `{}`", params.name);
        Err(Error::bad_input(op, wanted, stages.to_string(), "choose one of these"))
    }

    /// Whether so many stages have the levels they need and no matrix is too large.
    fn stages_fit(&self, stages: usize, first: bool) -> bool {
        let layers = self.slots.ilog2() as usize;
        if stages == 0 || stages > MOST_STAGES.min(layers) {
            return false;
        }
        let widest = layers.div_ceil(stages);
        if widest > MOST_LAYERS && layers + widest + 1 > MOST_ENTRIES {
            return false;
        }
        // The arcsine and the polynomial need the steps of EvalMod as they are; doublings, the last of it, can do with less.
        let spare = if self.b.arcsine { 0 } else { self.b.doublings };
        if stages > self.b.stage_count + spare {
            return false;
        }
        let Some(end) = self.raised_level(stages).checked_sub(stages + self.b.eval_mod_levels())
        else {
            return false;
        };
        match first {
            true => end >= 1 && stages <= self.chain.params().levels,
            false => self.landing(end, stages).is_some(),
        }
    }

    /// Where a ciphertext is raised to: the top, or lower where fewer stages than the set has need no more.
    fn raised_level(&self, stages: usize) -> usize {
        let unused = self.b.stage_count.saturating_sub(stages);
        self.chain.params().top_level() - unused
    }

    /// The number of stages.
    pub(super) fn stages(&self) -> usize {
        self.stages
    }

    /// Bits of all steps from above `to` up to `from`.
    fn bits(&self, to: usize, from: usize) -> f64 {
        (to + 1..=from).map(|i| self.chain.step(i).log2()).sum()
    }

    /// The scale of the sine at level `end` if every scale of EvalMod starts at that of the set.
    fn natural_scale(&self, end: usize) -> f64 {
        let bits = self.b.eval_mod_bits;
        let doublings = if self.b.arcsine { 0 } else { self.b.doublings };
        (1..=doublings).rev().fold(bits, |s, i| 2.0 * s - self.chain.step(end + i).log2())
    }

    /// Bits of the entries of `stages` matrices of SlotsToCoeffs from level `end` to `level`.
    fn entry_bits(&self, level: usize, end: usize, stages: usize) -> f64 {
        let scale = self.chain.scale(level).map_or(0.0, f64::log2);
        let over = self.natural_scale(end) - scale;
        (self.bits(level, end) - over) / stages as f64
    }

    /// The level of the result of SlotsToCoeffs from level `end`, the highest at which the matrices keep their bits.
    fn landing(&self, end: usize, stages: usize) -> Option<usize> {
        let (levels, own) = (self.chain.params().levels, self.b.stage_count);
        let least = LEAST_BITS.min(self.entry_bits(levels, levels + own, own));
        let highest = levels.min(end.checked_sub(stages)?);
        (1..=highest).rev().find(|level| self.entry_bits(*level, end, stages) >= least)
    }

    /// Multiplies `src` by the matrices, one level each, so that the result has the scale `scale`. The scales of the entries are
    /// proportional to `factors`, whose product is 1.
    fn maps(
        &mut self,
        src: Reg,
        maps: Vec<Matrix>,
        scale: f64,
        factors: impl IntoIterator<Item = f64>,
    ) -> Result<Reg> {
        let (from, baby) = (*self.program.reg(src), self.baby);
        let steps = self.bits_of_drops(from.level - maps.len(), from.level);
        let each = (scale * steps / from.scale).powf(1.0 / maps.len() as f64);
        maps.into_iter().zip(factors).try_fold(src, |src, (matrix, factor)| {
            let from = *self.program.reg(src);
            let matrix =
                if matrix.slots() < from.slots { matrix.repeated(from.slots) } else { matrix };
            self.program.linear(src, matrix, baby, each * factor)
        })
    }

    /// The factors of the scales of entries for which the rounding of every matrix leaves the same error in the result, if all values have the
    /// same size at first. A matrix of a few long vectors whose entries all differ needs more bits than one whose entries repeat.
    fn factors(&self, maps: &[Matrix]) -> Vec<f64> {
        let slots = self.chain.params().slots();
        let gains: Vec<f64> = maps.iter().map(Matrix::gain).collect();
        // Every gain but its own: of those before by the values, of those behind by the error.
        let left = |(m, gain): (&Matrix, &f64)| m.encoded(slots).sqrt() / gain;
        let left: Vec<f64> = maps.iter().zip(&gains).map(left).collect();
        let mean = left.iter().map(|x| x.ln()).sum::<f64>() / left.len() as f64;
        left.iter().map(|x| x / mean.exp()).collect()
    }

    /// From level 0 to (m + q_0·I)/q_0; a trace over few slots takes the scale up to that of EvalMod.
    pub(super) fn raise(&mut self, src: Reg) -> Result<Reg> {
        let times = (self.chain.params().slots() / self.slots) as f64;
        let scale = self.b.eval_mod_bits.exp2();
        let level = self.raised_level(self.stages);
        // A sum of so many rotations, divided by their number: each of its steps adds, and doubles what those before have added.
        self.placed = self.switched(level, scale) * times.sqrt();
        self.program.raise_modulus(src, level, scale / times)
    }

    /// The error that a key switch adds to a slot, standard deviation.
    fn switched(&self, level: usize, scale: f64) -> f64 {
        self.chain.switching(level, scale).hypot(self.chain.rounding(scale))
    }

    /// The coefficients t as slots, divided by 2·span; the last matrix after `last` has changed it.
    pub(super) fn coeffs_to_slots(
        &mut self,
        src: Reg,
        last: impl FnOnce(Matrix) -> Matrix,
    ) -> Result<Reg> {
        let mut maps = coeffs_to_slots(self.slots, self.stages, 0.5 / span(&self.b));
        let tail = maps.pop().map(last);
        maps.extend(tail);
        let before = self.program.ops().len();
        let factors = self.factors(&maps);
        let w = self.maps(src, maps, self.b.eval_mod_bits.exp2(), factors)?;
        // Coefficients of t have a variance of (h + 1)/12.
        let size = (self.slots as f64 * (self.b.ephemeral_weight + 1) as f64 / 6.0).sqrt();
        self.placed = self.walked(before, self.placed, size);
        self.turned = self.switched_at(w);
        Ok(w)
    }

    /// u = (t − 1/4)/span of twice the real part.
    pub(super) fn real_part(&mut self, w: Reg, conjugate: Reg) -> Result<Reg> {
        let part = self.program.add(w, conjugate)?;
        self.program.add_constant(part, -0.25 / span(&self.b))
    }

    /// u = (t − 1/4)/span of twice the imaginary part.
    pub(super) fn imaginary_part(&mut self, w: Reg, conjugate: Reg) -> Result<Reg> {
        let part = self.program.subtract(conjugate, w)?;
        let part = self.program.multiply_i(part)?;
        self.program.add_constant(part, -0.25 / span(&self.b))
    }

    /// sin(2πt), or nearly 2π(t − I) with the arcsine, of u = (t − 1/4)/span; at `scale` if one is wanted.
    pub(super) fn eval_mod(&mut self, u: Reg, sine: &Sine, scale: Option<f64>) -> Result<Reg> {
        let (b, natural) = (self.b, self.b.eval_mod_bits.exp2());
        let end = self.program.reg(u).level - b.eval_mod_levels();
        let mut start = natural;
        if let (Some(scale), false) = (scale, b.arcsine) {
            let before = |s: f64, i| (s * self.chain.step(end + i)).sqrt();
            start = (1..=b.doublings).fold(scale, before);
        }
        let v = self.program.double_angle(u)?;
        let mut y = self.program.polynomial(v, sine.cosine.clone(), start)?;
        for _ in 0..b.doublings {
            y = self.program.double_angle(y)?;
        }
        if b.arcsine {
            let arcsine = Chebyshev::from_powers(&[0.0, 1.0, 0.0, 1.0 / 6.0]);
            y = self.program.polynomial(y, arcsine, scale.unwrap_or(natural))?;
        }
        Ok(y)
    }

    /// Slots y = 2πm/`ratio` as coefficients m of the result, at a level of the user; the first matrix after `first` has
    /// changed it.
    pub(super) fn slots_to_coeffs(
        &mut self,
        y: Reg,
        ratio: f64,
        first: impl FnOnce(Matrix) -> Matrix,
    ) -> Result<Reg> {
        let end = self.program.reg(y).level;
        // `new` has found one.
        let level = self.landing(end, self.stages).unwrap_or(0);
        let mut maps = slots_to_coeffs(self.slots, self.stages, ratio / TAU);
        let head = first(maps.remove(0));
        maps.insert(0, head);
        let scale = self.chain.scale(level)? * self.bits_of_drops(level, end - self.stages);
        let before = self.program.ops().len();
        let mut out = self.maps(y, maps, scale, repeat(1.0))?;
        while self.program.reg(out).level > level {
            out = self.program.rescale(out)?;
        }
        // Values of size 1 are coefficients of 1/√(2·slots).
        let size = TAU / ratio / (2.0 * self.slots as f64).sqrt();
        self.added = self.walked(before, 0.0, size);
        Ok(out)
    }

    /// The error of a slot behind the instructions from number `before` on, matrices and rescales, where it was `error` and values of
    /// `size`: a matrix lengthens what its source has and what its key switches and middle steps add, its entries are rounded,
    /// and so is every result.
    fn walked(&self, before: usize, mut error: f64, mut size: f64) -> f64 {
        let (chain, degree) = (self.chain, self.chain.params().degree() as f64);
        for op in &self.program.ops()[before..] {
            if let CkksOp::Linear { src, map, .. } = op {
                let (from, spec) = (self.program.reg(*src), &self.program.maps()[*map as usize]);
                let middle = spec.matrix.steps(spec.baby).middle as f64;
                let switched = chain.switching(from.level, from.scale) * middle.sqrt();
                let within = switched.hypot(chain.rounding(from.scale) * (middle - 1.0).sqrt());
                let rounded = degree / 12.0 * spec.matrix.encoded(chain.params().slots());
                let gain = spec.matrix.gain();
                error = (error.hypot(within) * gain).hypot(size * rounded.sqrt() / spec.scale);
                size *= gain;
            }
            error = error.hypot(chain.rounding(self.program.reg(op.result()).scale));
        }
        error
    }

    /// The product of the steps from above `to` up to `from`.
    fn bits_of_drops(&self, to: usize, from: usize) -> f64 {
        (to + 1..=from).map(|i| self.chain.step(i)).product()
    }

    /// SlotsToCoeffs before anything else, of values of `size`, from the level of its stages to level 0, where 1 becomes q_0/`ratio`.
    pub(super) fn slots_to_coeffs_first(&mut self, src: Reg, size: f64, ratio: f64) -> Result<Reg> {
        let maps = slots_to_coeffs(self.slots, self.stages, 1.0);
        let (before, scale) = (self.program.ops().len(), self.chain.step(0) / ratio);
        let out = self.maps(src, maps, scale, repeat(1.0))?;
        // Of N coefficients, which are the values' two numbers now.
        let slot = self.walked(before, 0.0, size).hypot(self.rounded_below(scale));
        self.added = slot / (self.chain.params().degree() as f64).sqrt();
        Ok(out)
    }

    /// EvalMod where nothing follows: the sine divided by `by`, at the highest level and scale of the user that keep the
    /// scales within large enough.
    pub(super) fn eval_mod_last(&mut self, u: Reg, sine: &Sine, by: f64) -> Result<Reg> {
        let end = self.program.reg(u).level - self.b.eval_mod_levels();
        let mut level = self.chain.params().levels.min(end);
        let wanted = |level: usize| -> Result<f64> {
            Ok(self.chain.scale(level)? * self.bits_of_drops(level, end) / by)
        };
        let least = |scale: f64| {
            let steps = (1..=self.b.doublings).map(|i| self.chain.step(end + i).log2());
            let scales = steps.scan(scale.log2(), |s, q| {
                *s = (*s + q) / 2.0;
                Some(*s)
            });
            scales.fold(f64::INFINITY, f64::min)
        };
        while level > 1 && !self.b.arcsine && least(wanted(level)?) < LEAST_SCALE {
            level -= 1;
        }
        let scale = wanted(level)?;
        let y = self.eval_mod(u, sine, Some(scale))?;
        let mut out = self.program.divide(y, by)?;
        while self.program.reg(out).level > level {
            out = self.program.rescale(out)?;
        }
        Ok(out)
    }

    /// The error that the bootstrap adds to a slot of the message, standard deviation: the approximation of the sine, the rounding of
    /// 2u² − 1 and of the polynomial's powers at the scale of EvalMod, and what u had, times `spread`; the error at level 0; what is
    /// added behind EvalMod; and the sine itself.
    pub(super) fn error(&self, sine: &Sine, terms: &Terms) -> Added {
        let rounding = |scale: f64| self.chain.rounding(scale);
        // T_2, T_4, … of v = 2u² − 1 near −1 change by 4, 16, … times what v does: 1 + 1/16 + 1/256 + …
        let powers = rounding(self.b.eval_mod_bits.exp2()) * sine.slope * (16.0f64 / 15.0).sqrt();
        // u is twice a real part, of complex errors.
        let alone = if terms.alone { self.turned } else { 0.0 };
        let placed = (self.placed * SQRT_2).hypot(alone) * sine.tangent;
        let inside = sine.error.hypot(powers).hypot(placed) * terms.spread;
        let noise = inside.hypot(terms.base).hypot(terms.added);
        let (bend, power) = terms.bend;
        Added { noise, rare: sine.greatest * terms.single, bend, power, again: None }
    }

    /// The error that a message at level 0, where 1 is `scale`, gets in a slot: the rounding of the two switches and a rescale, and
    /// the noise of the key to the ephemeral secret.
    pub(super) fn rounded_below(&self, scale: f64) -> f64 {
        (2.0 * self.chain.rounding(scale)).hypot(self.chain.encapsulating(&self.b, scale))
    }

    /// The rounding of a few operations at the scale of the result.
    pub(super) fn rounded(&self, result: Reg) -> f64 {
        2.0 * self.chain.rounding(self.program.reg(result).scale)
    }

    /// The error that a key switch of `reg` adds to a slot, standard deviation.
    pub(super) fn switched_at(&self, reg: Reg) -> f64 {
        let RlweInfo { level, scale, .. } = *self.program.reg(reg);
        self.switched(level, scale)
    }
}

/// Every slot but the first, which is halved: c_0 stands once in a real polynomial, every other coefficient twice.
pub(super) fn halve_first(slot: usize) -> Complex {
    Complex::from(if slot == 0 { 0.5 } else { 1.0 })
}
