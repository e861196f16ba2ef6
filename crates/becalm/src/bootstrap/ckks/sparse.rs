//! The bootstrap of few slots: n of N/2, a power of two; the message is a polynomial in Y = X^(N/2n).
//!
//! The polynomial that the lift adds is not of this form. The trace, log2(N/2n) rotations by n, 2n, … added up, keeps the multiples of
//! N/2n among the coefficients, N/2n times, and nothing else. The transforms are then over n slots, their matrices of
//! 2^(1 + log2(n)/stages) diagonals and small; both halves of the 2n coefficients go through one EvalMod: the last matrix
//! of CoeffsToSlots has its rows times 1/2 in the first n slots and −i/2 in the next n, and the sum with its conjugate is
//! re ‖ im. SlotsToCoeffs takes them back with columns times 1 and i, and adds a rotation by n to what comes out, at
//! the lowest level. Source: Cheon et al. 2018 (sub-sum), Chen–Chillotti–Song 2019 (both halves at once).

use super::eval_mod::{Sine, bend, message_width};
use super::pipeline::{Pipeline, Settings, Terms, Values};
use crate::ckks::Chain;
use crate::math::complex::Complex;
use crate::program::rlwe::{CkksProgram, Limits};
use crate::{Error, Result};
use std::f64::consts::{SQRT_2, TAU};

/// The program that bootstraps ciphertexts of at most `slots` values, complex ones at no additional cost.
///
/// # Errors
/// `WrongParams` for a set without bootstrap, `BadInput` for a number of slots that is not a power of two in 2 ..= N/4 (those
/// of N/2 are for [`regular`](super::regular)), for a stage count or baby steps that cannot be, or for
/// [`Values::Merged`].
pub fn sparse(chain: &Chain, slots: usize, settings: &Settings) -> Result<CkksProgram> {
    let (op, all) = ("prepare a bootstrap", chain.params().slots());
    if !slots.is_power_of_two() || !(2..=all / 2).contains(&slots) {
        let wanted = format!("a power of two from 2 to {} as slots", all / 2);
        let remedy = "choose one of these; as many as there are take the regular bootstrap";
        return Err(Error::bad_input(op, wanted, slots.to_string(), remedy));
    }
    if settings.values == Values::Merged {
        let remedy =
            "bootstrap a + i·b in place of a and b: complex values take no longer with these keys";
        return Err(Error::bad_input(op, "one ciphertext", "two at once", remedy));
    }
    let mut line = Pipeline::new(chain, settings, slots, false)?;
    let sine = Sine::new(&line.b, &[0.0], message_width(chain));
    let ratio = chain.step(0) / chain.scale(0)?;
    let x = line.program.input(0, slots)?;
    let raised = line.raise(x)?;
    let sum = line.program.trace(raised, slots)?;
    let t = line.program.divide(sum, (all / slots) as f64)?;
    let half =
        move |a: usize, first: Complex, second: Complex| if a < slots { first } else { second };
    let (one, i) = (Complex::from(1.0), Complex::new(0.0, 1.0));
    let w = line.coeffs_to_slots(t, |m| m.repeated(2 * slots).with_rows(|a| half(a, one, -i)))?;
    let conjugate = line.program.conjugate(w)?;
    let u = line.real_part(w, conjugate)?;
    let y = line.eval_mod(u, &sine, None)?;
    let merge = |m: crate::ckks::Matrix| m.repeated(2 * slots).with_columns(|a| half(a, one, i));
    let parts = line.slots_to_coeffs(y, ratio, merge)?;
    let out = line.program.trace(parts, slots)?;
    line.program.output(out)?;
    let terms = Terms {
        spread: (2.0 * slots as f64).sqrt() * ratio / TAU,
        single: 2.0 * ratio / TAU,
        base: line.rounded_below(chain.scale(0)?),
        added: (line.added * SQRT_2).hypot(line.switched_at(out)),
        alone: true,
        bend: bend(&line.b, ratio),
    };
    let error = Some(line.error(&sine, &terms));
    line.program.limit(Limits { most: 1.25, near: None, real: false, slots: false, error });
    Ok(line.program)
}
