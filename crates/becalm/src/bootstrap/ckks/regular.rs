//! The regular bootstrap: level 0 to the levels of the user, any complex slots.
//!
//! 1. key switch to an ephemeral secret of weight h, lift from q_0 to Q (what is encrypted becomes m + q_0·I with
//!    |I| ≤ h/2), key switch back;
//! 2. CoeffsToSlots: (m + q_0·I)/q_0 in the slots, real and imaginary parts apart by a conjugation;
//! 3. EvalMod: sin 2π((m + q_0·I)/q_0) = sin(2πm/q_0) ≈ 2πm/q_0, relative error (2πm/q_0)²/6, or
//!    3(2πm/q_0)⁴/40 for a set with the arcsine;
//! 4. SlotsToCoeffs, with the factor q_0/2πΔ.
//!
//! Real slots: c_(N−k) = −c_k, so the real parts t_k, k < n, say all: m = m' + conj(m'), m' = c_0/2 + Σ_(0<k<n) c_k·X^k.
//! Merged: a + i·b, taken apart at the end. Source: Cheon et al. 2018; Bossuat et al. 2021 and 2022 (the ephemeral secret).

use super::eval_mod::{Sine, bend, message_width};
use super::pipeline::{Pipeline, Settings, Terms, Values, halve_first};
use crate::Result;
use crate::ckks::Chain;
use crate::program::Reg;
use crate::program::rlwe::{CkksProgram, Limits};
use std::f64::consts::{SQRT_2, TAU};

/// The program of the regular bootstrap, for ciphertexts of any number of slots at any level.
///
/// Arguments: one, or two for [`Values::Merged`]; as many results.
///
/// # Errors
/// `WrongParams` for a set without bootstrap, `BadInput` for a stage count or baby steps that cannot be.
pub fn regular(chain: &Chain, settings: &Settings) -> Result<CkksProgram> {
    let slots = chain.params().slots();
    let mut line = Pipeline::new(chain, settings, slots, false)?;
    let sine = Sine::new(&line.b, &[0.0], message_width(chain));
    let ratio = chain.step(0) / chain.scale(0)?;
    let mut x = line.program.input(0, slots)?;
    if settings.values == Values::Merged {
        let other = line.program.input(0, slots)?;
        let other = line.program.multiply_i(other)?;
        x = line.program.add(x, other)?;
    }
    let raised = line.raise(x)?;
    let w = line.coeffs_to_slots(raised, |m| m)?;
    let conjugate = line.program.conjugate(w)?;
    let re = line.real_part(w, conjugate)?;
    match settings.values {
        Values::Real => {
            let y = line.eval_mod(re, &sine, None)?;
            let half = line.slots_to_coeffs(y, ratio, |m| m.with_columns(halve_first))?;
            let conjugate = line.program.conjugate(half)?;
            let sum = line.program.add(half, conjugate)?;
            line.program.output(sum)?;
        }
        values => {
            let im = line.imaginary_part(w, conjugate)?;
            let re = line.eval_mod(re, &sine, None)?;
            let im = line.eval_mod(im, &sine, None)?;
            let im = line.program.multiply_i(im)?;
            let both = line.program.add(re, im)?;
            let share = if values == Values::Merged { ratio / 2.0 } else { ratio };
            let out = line.slots_to_coeffs(both, share, |m| m)?;
            outputs(&mut line.program, out, values)?;
        }
    }
    let error = Some(line.error(&sine, &terms(&line, settings.values, ratio)?));
    let limits = Limits {
        most: 1.25,
        near: None,
        real: settings.values != Values::Complex,
        slots: false,
        error,
    };
    line.program.limit(limits);
    Ok(line.program)
}

/// The parts of the error. A sum with the conjugate doubles real parts and adds a key switch; a merged message is divided by 2
/// before, and is √2 as large as each of both.
fn terms(line: &Pipeline, values: Values, ratio: f64) -> Result<Terms> {
    let (chain, slots) = (line.chain, line.slots);
    let turned = line.program.outputs().first().map_or(0.0, |y| line.switched_at(*y));
    let doubled = (line.added * SQRT_2).hypot(turned);
    let (share, added, times) = match values {
        Values::Complex => (1.0, line.added, 1.0),
        Values::Real => (1.0, doubled, 1.0),
        Values::Merged => (SQRT_2.recip(), doubled, SQRT_2),
    };
    let (most, power) = bend(&line.b, ratio);
    Ok(Terms {
        spread: (2.0 * slots as f64).sqrt() * ratio / TAU * share,
        single: 2.0 * ratio / TAU,
        base: line.rounded_below(chain.scale(0)?) * share,
        added,
        alone: values == Values::Real,
        bend: (most * f64::powi(times, power), power),
    })
}

/// The result, or its real and imaginary part, which stand doubled in its sum with the conjugate.
fn outputs(program: &mut CkksProgram, y: Reg, values: Values) -> Result<()> {
    if values != Values::Merged {
        program.output(y)?;
        return Ok(());
    }
    let conjugate = program.conjugate(y)?;
    let re = program.add(y, conjugate)?;
    let im = program.subtract(conjugate, y)?;
    let im = program.multiply_i(im)?;
    program.output(re)?;
    program.output(im)?;
    Ok(())
}
