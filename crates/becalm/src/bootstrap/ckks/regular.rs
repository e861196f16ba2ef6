//! The regular bootstrap: level 0 to the levels of the user, any complex slots.
//!
//! 1. key switch to an ephemeral secret of weight h, lift from q_0 to Q (what is encrypted becomes m + q_0·I with
//!    |I| ≤ h/2), key switch back;
//! 2. CoeffsToSlots: (m + q_0·I)/q_0 in the slots, real and imaginary parts apart by a conjugation;
//! 3. EvalMod: sin 2π((m + q_0·I)/q_0) = sin(2πm/q_0) ≈ 2πm/q_0, relative error (2πm/q_0)²/6, or
//!    3(2πm/q_0)⁴/40 for a set with the arcsine;
//! 4. SlotsToCoeffs, with the factor q_0/2πΔ.
//!
//! Source: Cheon et al. 2018; Bossuat et al. 2021 and 2022 (the ephemeral secret).

use super::coeffs_to_slots::{coeffs_to_slots, slots_to_coeffs};
use super::eval_mod::{cosine, eval_mod, span};
use crate::cipher::Rlwe;
use crate::ckks::{Chebyshev, Context, Evaluator, LinearMap, Matrix, Needs};
use crate::params::CkksBootstrap;
use crate::{Error, Result};
use std::f64::consts::TAU;

/// The encoded maps and the polynomial of one parameter set.
pub struct Regular {
    bootstrap: CkksBootstrap,
    down: Vec<LinearMap>,
    up: Vec<LinearMap>,
    cosine: Chebyshev,
}

/// Maps at the levels from `level` down: each keeps the scale but for `gain`, spread evenly.
fn encoded(
    context: &Context,
    maps: &[Matrix],
    level: usize,
    baby: usize,
    gain: f64,
) -> Result<Vec<LinearMap>> {
    let each = gain.powf(1.0 / maps.len() as f64);
    let encode = |(i, m): (usize, &Matrix)| {
        LinearMap::new(context, m, level - i, baby, context.step(level - i) * each)
    };
    maps.iter().enumerate().map(encode).collect()
}

impl Regular {
    /// Encodes the maps, with `baby` rotations hoisted at a time: 8 is a good choice; 4 needs fewer keys and more time,
    /// 16 more keys and less time.
    ///
    /// # Errors
    /// `WrongParams` for a set without bootstrap, `BadInput` for another number than 2, 4, 8, 16 or 32.
    pub fn new(context: &Context, baby: usize) -> Result<Regular> {
        let (op, params) = ("prepare a bootstrap", context.params());
        let bootstrap = params.bootstrap.ok_or_else(|| {
            Error::wrong_params(op, "a set with a bootstrap", params.name, "use `ckks_regular`")
        })?;
        if !matches!(baby, 2 | 4 | 8 | 16 | 32) {
            let wanted = "2, 4, 8, 16 or 32 baby steps";
            return Err(Error::bad_input(op, wanted, baby.to_string(), "8 is a good choice"));
        }
        let (b, stages) = (&bootstrap, bootstrap.stage_count);
        let top = params.top_level();
        let scale = b.eval_mod_bits.exp2();
        let maps = coeffs_to_slots(params.slots(), stages, 0.5 / span(b));
        let down = encoded(context, &maps, top, baby, scale / raised_scale(context, b))?;
        // The scale after EvalMod: that of a polynomial, squared and rescaled with each doubling that follows it.
        let end = params.levels + stages;
        let doublings = if b.arcsine { 0 } else { b.doublings };
        let after = (1..=doublings).rev().fold(scale, |s, i| s * s / context.step(end + i));
        let factor = context.step(0) / (TAU * context.scale(0)?);
        let maps = slots_to_coeffs(params.slots(), stages, factor);
        let up = encoded(context, &maps, end, baby, context.scale(params.levels)? / after)?;
        let width = 1.25 * (params.base_scale_bits - params.base_bits).exp2();
        Ok(Regular { bootstrap, down, up, cosine: cosine(b, width) })
    }

    /// The keys that it needs.
    pub fn needs(&self) -> Needs {
        let rotations = self.down.iter().chain(&self.up).flat_map(LinearMap::rotations).collect();
        Needs { rotations, conjugate: true, bootstrap: true }
    }

    /// Bytes of the encoded maps.
    pub fn bytes(&self) -> usize {
        self.down.iter().chain(&self.up).map(LinearMap::bytes).sum()
    }

    /// The same values at the highest level of the user.
    ///
    /// # Errors
    /// `WrongKey` and `WrongParams` for keys that do not belong to the ciphertext or do not suffice.
    pub fn run(&self, evaluator: &Evaluator, x: &Rlwe) -> Result<Rlwe> {
        let raised = self.raise(evaluator, x)?;
        let parts = self.coeffs_to_slots(evaluator, &raised)?;
        let [re, im] = [self.eval_mod(evaluator, &parts[0])?, self.eval_mod(evaluator, &parts[1])?];
        self.slots_to_coeffs(evaluator, &re, &im)
    }

    /// Step 1: at the top level, with (m + q_0·I)/q_0 as the coefficients.
    ///
    /// # Errors
    /// As [`Regular::run`].
    pub fn raise(&self, evaluator: &Evaluator, x: &Rlwe) -> Result<Rlwe> {
        let context = evaluator.context();
        evaluator.check("bootstrap", x)?;
        let x = evaluator.encapsulate(&context.level_down(x, 0)?, false)?;
        let factor = raised_scale(context, &self.bootstrap) / context.step(0);
        let lifted = context.lift(&x, context.params().top_level(), factor);
        evaluator.encapsulate(&lifted, true)
    }

    /// Step 2: u = (t − 1/4)/span of the coefficients t in the slots, those of the first half and those of the second.
    ///
    /// # Errors
    /// As [`Regular::run`].
    pub fn coeffs_to_slots(&self, evaluator: &Evaluator, x: &Rlwe) -> Result<[Rlwe; 2]> {
        let context = evaluator.context();
        let mut w = x.clone();
        for map in &self.down {
            w = evaluator.linear(&w, map)?;
        }
        let conjugate = evaluator.conjugate(&w)?;
        let mut re = context.add(&w, &conjugate)?;
        let mut im = context.multiply_i(&context.subtract(&conjugate, &w)?)?;
        for part in [&mut re, &mut im] {
            context.add_constant(part, -0.25 / span(&self.bootstrap));
        }
        Ok([re, im])
    }

    /// Step 3: sin(2πt) of u = (t − 1/4)/span.
    ///
    /// # Errors
    /// As [`Regular::run`].
    pub fn eval_mod(&self, evaluator: &Evaluator, u: &Rlwe) -> Result<Rlwe> {
        eval_mod(evaluator, u, &self.bootstrap, &self.cosine)
    }

    /// Step 4.
    ///
    /// # Errors
    /// As [`Regular::run`].
    pub fn slots_to_coeffs(&self, evaluator: &Evaluator, re: &Rlwe, im: &Rlwe) -> Result<Rlwe> {
        let context = evaluator.context();
        let mut w = context.add(re, &context.multiply_i(im)?)?;
        for map in &self.up {
            w = evaluator.linear(&w, map)?;
        }
        Ok(w)
    }
}

/// The scale of t after the lift: the multiple of q_0 nearest that of EvalMod.
fn raised_scale(context: &Context, b: &CkksBootstrap) -> f64 {
    (b.eval_mod_bits.exp2() / context.step(0)).round().max(1.0) * context.step(0)
}
