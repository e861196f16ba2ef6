//! SlotsToCoeffs first: from the level of its stages, where it is nearly free, to all levels of the user.
//!
//! 1. SlotsToCoeffs at the lowest levels: the values are the coefficients now, at scale q_0/2^12;
//! 2. lift, CoeffsToSlots: value/2^12 + I in the slots;
//! 3. EvalMod on the real parts, and on the imaginary ones for complex values: sin(2πv/2^12) ≈ 2πv/2^12, which is the result
//!    read at another scale.
//!
//! No levels are spent after EvalMod, and real values take one EvalMod. The error of the sine, v³(2π/2^12)²/6, meets every
//! slot as it is, instead of spread over the coefficients: 2^-21.3 at |v| = 1. Source: Chen–Han 2018 ("slim").

use super::eval_mod::{Sine, bend};
use super::pipeline::{Pipeline, Settings, Terms, Values};
use crate::Result;
use crate::ckks::Chain;
use crate::program::rlwe::{CkksProgram, Limits};
use std::f64::consts::{SQRT_2, TAU};

/// q_0 in units of the scale of a value.
const RATIO: f64 = 4096.0;
/// Values up to this are approximated.
const MOST: f64 = 1.25;

/// The program of the lossy bootstrap, for ciphertexts of any number of slots at the level of `stage_count` or above. Real
/// values: any imaginary part is dropped.
///
/// # Errors
/// `WrongParams` for a set without bootstrap, `BadInput` for a stage count or baby steps that cannot be.
pub fn lossy(chain: &Chain, settings: &Settings) -> Result<CkksProgram> {
    let mut line = Pipeline::new(chain, settings, chain.params().slots(), true)?;
    let sine = Sine::new(&line.b, &[0.0], MOST / RATIO);
    slots_first(&mut line, settings.values, &sine, RATIO, TAU / RATIO)?;
    let real = settings.values != Values::Complex;
    let terms = Terms {
        spread: RATIO / TAU * if real { 1.0 } else { SQRT_2 },
        // Of one number, or of two.
        base: line.added * if real { 1.0 } else { SQRT_2 },
        added: line.rounded(),
        alone: real,
        bend: bend(&line.b, RATIO),
    };
    let error = Some(line.error(&sine, &terms));
    line.program.limit(Limits { most: MOST, near: None, real, slots: true, error });
    Ok(line.program)
}

/// The steps of the bootstraps with SlotsToCoeffs first, where 1 is q_0/`ratio` and the sine is divided by `by`.
pub(super) fn slots_first(
    line: &mut Pipeline,
    values: Values,
    sine: &Sine,
    ratio: f64,
    by: f64,
) -> Result<()> {
    let (level, slots) = (line.stages(), line.slots);
    let mut x = line.program.input(level, slots)?;
    if values == Values::Merged {
        let other = line.program.input(level, slots)?;
        let other = line.program.multiply_i(other)?;
        x = line.program.add(x, other)?;
    }
    let coefficients = line.slots_first(x, ratio)?;
    let raised = line.raise(coefficients)?;
    let w = line.coeffs_to_slots(raised, |m| m)?;
    let conjugate = line.program.conjugate(w)?;
    let re = line.real_part(w, conjugate)?;
    let re = line.eval_mod_last(re, sine, by)?;
    if values == Values::Real {
        line.program.output(re)?;
        return Ok(());
    }
    let im = line.imaginary_part(w, conjugate)?;
    let im = line.eval_mod_last(im, sine, by)?;
    if values == Values::Merged {
        line.program.output(re)?;
        line.program.output(im)?;
        return Ok(());
    }
    let im = line.program.multiply_i(im)?;
    let both = line.program.add(re, im)?;
    line.program.output(both)?;
    Ok(())
}
