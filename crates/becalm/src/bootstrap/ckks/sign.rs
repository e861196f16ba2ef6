//! The bootstrap of signs: values near −1 or 1 come back nearer to them.
//!
//! As [`slots_first`](super::slots_first()), but 1 becomes q_0/4: sin(2π(±1/4 + I)) = ±1 at the flat top of the sine, where an error ε
//! of the value becomes (π²/8)·ε². Source: Bae–Cheon–Kim–Stehlé 2024 (ia.cr/2024/767).

use super::eval_mod::Sine;
use super::pipeline::{Pipeline, Settings, Terms, Values};
use super::slots_first::Steps;
use crate::ckks::Chain;
use crate::program::rlwe::{CkksProgram, Limits};
use crate::{Error, Result};
use std::f64::consts::{PI, SQRT_2};

/// How far from ±1 values may be.
const NEAR: f64 = 1.0 / 16.0;

/// The program of the sign bootstrap, for ciphertexts of any number of slots at the level of `stage_count` or above. For
/// [`Values::Complex`] real and imaginary parts are signs.
///
/// # Errors
/// `WrongParams` for a set without bootstrap or one with the arcsine, which has no flat top; `BadInput` for a stage count or
/// baby steps that cannot be.
pub fn sign(chain: &Chain, settings: &Settings) -> Result<CkksProgram> {
    let params = chain.params();
    let mut line = Pipeline::new(chain, settings, params.slots(), true)?;
    if line.b.arcsine {
        let (wanted, remedy) = ("a set without the arcsine", "use `ckks_slots_first`");
        return Err(Error::wrong_params("prepare a bootstrap", wanted, params.name, remedy));
    }
    let sine = Sine::new(&line.b, &[-0.25, 0.25], NEAR / 4.0);
    let steps = Steps { values: settings.values, sine: &sine, ratio: 4.0, by: 1.0 };
    let x = steps.arguments(&mut line)?;
    let y = steps.record(&mut line, &x)?;
    let real = settings.values != Values::Complex;
    let terms = Terms {
        spread: if real { 1.0 } else { SQRT_2 },
        single: if real { 1.0 } else { SQRT_2 },
        // Rounding at level 0 is cleaned with the values.
        base: 0.0,
        added: line.rounded(y[0]),
        alone: real,
        // cos 2πε/4 ≈ 1 − (π²/8)·ε².
        bend: (PI * PI / 8.0 * if real { 1.0 } else { SQRT_2 }, 2),
    };
    let error = Some(line.error(&sine, &terms));
    y.into_iter().try_for_each(|y| line.program.output(y))?;
    line.program.limit(Limits { most: 1.0 + NEAR, near: Some(NEAR), real, slots: true, error });
    Ok(line.program)
}
