//! SlotsToCoeffs first: from the level of its stages, where it is nearly free, to all levels of the user.
//!
//! 1. SlotsToCoeffs at the lowest levels: the values are the coefficients now, at scale q_0/R; R is 2^14 in a set made for it, else 2^12;
//! 2. lift, CoeffsToSlots: value/R + I in the slots;
//! 3. EvalMod on the real parts, and on the imaginary ones for complex values: sin(2πv/R) ≈ 2πv/R, which is the result
//!    read at another scale.
//!
//! No levels are spent after EvalMod, and real values take one EvalMod. The error of the sine, v³(2π/R)²/6, meets every
//! slot as it is, instead of spread over the coefficients: 2^-25.3 or 2^-21.3 at |v| = 1. Source: Chen–Han 2018 ("slim").

use super::eval_mod::{Sine, bend};
use super::pipeline::{Pipeline, Settings, Terms, Values};
use crate::Result;
use crate::ckks::Chain;
use crate::params::CkksBootstrap;
use crate::program::rlwe::{CkksProgram, Limits};
use std::f64::consts::{SQRT_2, TAU};

/// q_0 in units of the scale of a value. A set made for this order has a sine that is precise enough for smaller messages, which it
/// bends less.
fn ratio(b: &CkksBootstrap) -> f64 {
    if b.slots_first { 16384.0 } else { 4096.0 }
}

/// Values up to this are approximated.
const MOST: f64 = 1.25;

/// The program for ciphertexts of at most `slots` values at the level of `stage_count` or above: fewer slots take smaller matrices and
/// fewer keys. Real values: any imaginary part is dropped.
///
/// # Errors
/// `WrongParams` for a set without bootstrap, `BadInput` for slots that are not a power of two in 2 ..= N/2, for a stage count or baby steps that cannot be.
pub fn slots_first(chain: &Chain, slots: usize, settings: &Settings) -> Result<CkksProgram> {
    let mut line = Pipeline::new(chain, settings, slots, true)?;
    let ratio = ratio(&line.b);
    let sine = Sine::new(&line.b, &[0.0], MOST / ratio);
    record(&mut line, settings.values, &sine, ratio, TAU / ratio)?;
    let real = settings.values != Values::Complex;
    let terms = Terms {
        spread: ratio / TAU * if real { 1.0 } else { SQRT_2 },
        single: ratio / TAU * if real { 1.0 } else { SQRT_2 },
        // Of one number, or of two.
        base: line.added * if real { 1.0 } else { SQRT_2 },
        added: line.rounded(),
        alone: real,
        bend: bend(&line.b, ratio),
    };
    let error = Some(line.error(&sine, &terms));
    line.program.limit(Limits { most: MOST, near: None, real, slots: true, error });
    Ok(line.program)
}

/// The steps of the bootstraps with SlotsToCoeffs first, where 1 is q_0/`ratio` and the sine is divided by `by`.
pub(super) fn record(
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
    let coefficients = line.slots_to_coeffs_first(x, ratio)?;
    let mut raised = line.raise(coefficients)?;
    let all = line.chain.params().slots();
    if slots < all {
        // The lift adds coefficients of all powers of X: the trace keeps those of the message.
        raised = line.program.trace(raised, slots)?;
        raised = line.program.divide(raised, (all / slots) as f64)?;
    }
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
