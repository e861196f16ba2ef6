//! SlotsToCoeffs first: from the level of its stages, where it is nearly free, to all levels of the user.
//!
//! 1. SlotsToCoeffs at the lowest levels: the values are the coefficients now, at scale q_0/R; R is 2^14 in a set made for it, else 2^12;
//! 2. lift, CoeffsToSlots: value/R + I in the slots;
//! 3. EvalMod on the real parts, and on the imaginary ones for complex values: sin(2πv/R) ≈ 2πv/R, which is the result
//!    read at another scale.
//!
//! A second iteration bootstraps r = 2^k·(x − y), what the first result y lacks of x, and adds a 2^k-th of it (ia.cr/2022/1167): the error of y
//! goes with it, and that of r remains, divided by 2^k.
//!
//! No levels are spent after EvalMod, and real values take one EvalMod. The error of the sine, v³(2π/R)²/6, meets every
//! slot as it is, instead of spread over the coefficients: 2^-25.3 or 2^-21.3 at |v| = 1. Source: Chen–Han 2018 ("slim").

use super::eval_mod::{Sine, bend};
use super::pipeline::{Pipeline, Settings, Terms, Values};
use crate::ckks::Chain;
use crate::math::complex::DOUBLES;
use crate::params::{CkksBootstrap, Kind};
use crate::program::Reg;
use crate::program::rlwe::{Added, Again, CkksProgram, Limits};
use crate::{Error, Result};
use std::f64::consts::{SQRT_2, TAU};

/// q_0 in units of the scale of a value. A set made for this order has a sine that is precise enough for smaller messages, which it
/// bends less.
fn ratio(b: &CkksBootstrap) -> f64 {
    if b.slots_first { 16384.0 } else { 4096.0 }
}

/// Values up to this are approximated.
const MOST: f64 = 1.25;
/// Bits that two iterations claim at least, or the set has too small a scale for them.
const ITERATED_BITS: f64 = 40.0;

/// The program for ciphertexts of at most `slots` values at the level of `stage_count` or above: fewer slots take smaller matrices and
/// fewer keys. Real values: any imaginary part is dropped.
///
/// # Errors
/// `WrongParams` for a set without bootstrap, and for two iterations of a set whose scale cannot hold what they leave; `BadInput` for slots
/// that are not a power of two in 2 ..= N/2, or N/2 for two iterations, and for a stage count, baby steps or iterations that cannot be.
pub fn slots_first(chain: &Chain, slots: usize, settings: &Settings) -> Result<CkksProgram> {
    let (op, iterations) = ("prepare a bootstrap", settings.iterations);
    if !(1..=2).contains(&iterations) {
        let (wanted, remedy) = ("1 or 2 iterations", "choose one of these");
        return Err(Error::bad_input(op, wanted, iterations.to_string(), remedy));
    }
    let all = chain.params().slots();
    if iterations == 2 && slots < all {
        // Errors of few slots differ where these repeat: the trace takes out their mean alone.
        let wanted = format!("{all} slots for two iterations");
        let remedy = "make keys for all slots: shorter vectors repeat in them";
        return Err(Error::bad_input(op, wanted, slots.to_string(), remedy));
    }
    let once = Settings { iterations: 1, ..*settings };
    let mut line = Pipeline::new(chain, &once, slots, true)?;
    if line.b.arcsine {
        let wanted = "a set without the arcsine, which this order has no room for";
        let remedy = "use the kind precise, or the set `ckks_slots_first`";
        return Err(Error::wrong_params(op, wanted, chain.params().name, remedy));
    }
    let ratio = ratio(&line.b);
    let sine = Sine::new(&line.b, &[0.0], MOST / ratio);
    let steps = Steps { values: settings.values, sine: &sine, ratio, by: TAU / ratio };
    let x = steps.arguments(&mut line)?;
    let mut y = match iterations {
        1 => steps.record(&mut line, &x)?,
        _ => steps.record_real(&mut line, &x)?,
    };
    let mut limits = limits(&line, &steps, &y);
    if iterations == 2 {
        limits = iterated(&line, limits, &y)?;
        y = again(&mut line, &steps, &limits, &x, &y)?;
    }
    y.into_iter().try_for_each(|y| line.program.output(y))?;
    line.program.limit(limits);
    Ok(line.program)
}

/// The values that one iteration takes, and its error.
fn limits(line: &Pipeline, steps: &Steps, y: &[Reg]) -> Limits {
    let (real, spread) = (steps.values != Values::Complex, steps.ratio / TAU);
    let both = if real { 1.0 } else { SQRT_2 };
    let terms = Terms {
        spread: spread * both,
        single: spread * both,
        // Of one number, or of two.
        base: line.added * both,
        added: line.rounded(y[0]),
        alone: real,
        bend: bend(&line.b, steps.ratio),
    };
    let error = Some(line.error(steps.sine, &terms));
    Limits { most: MOST, near: None, real, slots: true, error }
}

/// The limits of two iterations, of which the first has these. The second takes as large a multiple of its error as stays within them
/// whatever the message.
fn iterated(line: &Pipeline, limits: Limits, y: &[Reg]) -> Result<Limits> {
    let Some(added) = limits.error else { return Ok(limits) };
    let lowered =
        line.chain.rounding(line.chain.scale(line.stages())?).hypot(line.switched_at(y[0]));
    let rounded = line.rounded(y[0]).hypot(lowered) + MOST * DOUBLES;
    let (_, most) = limits.added(added, MOST * if limits.real { 1.0 } else { SQRT_2 });
    let times = (MOST / most).log2().floor().max(0.0).exp2();
    let error = Some(Added { again: Some(Again { times, rounded }), ..added });
    let limits = Limits { error, ..limits };
    require_room(line, &limits)?;
    Ok(limits)
}

/// The second iteration, for what `y` lacks of `x`.
fn again(
    line: &mut Pipeline,
    steps: &Steps,
    limits: &Limits,
    x: &[Reg],
    y: &[Reg],
) -> Result<Vec<Reg>> {
    let times = limits.error.and_then(|e| e.again).map_or(1.0, |again| again.times);
    let (level, program) = (line.stages(), &mut line.program);
    let mut missing = vec![];
    for (x, y) in x.iter().zip(y) {
        let low = program.level_down(*y, level)?;
        let r = program.subtract(*x, low)?;
        // An exact multiple takes no level.
        missing.push((0..times.log2() as u32).try_fold(r, |r, _| program.add(r, r))?);
    }
    let found = Steps { by: steps.by * times, ..*steps }.record(line, &missing)?;
    let add = |(y, r): (&Reg, Reg)| {
        let both = line.program.aligned(&[*y, r])?;
        line.program.add(both[0], both[1])
    };
    y.iter().zip(found).map(add).collect()
}

/// Refuses two iterations of a set that would claim too little of them.
fn require_room(line: &Pipeline, limits: &Limits) -> Result<()> {
    let (params, claimed) = (line.chain.params(), limits.error.map(|e| limits.added(e, 1.0).0));
    let bits = -claimed.unwrap_or(f64::INFINITY).log2();
    if bits >= ITERATED_BITS {
        return Ok(());
    }
    let wanted = format!("a set of which two iterations claim {ITERATED_BITS} bits or more");
    let got = format!("{:.1} of `{}`, at the scale 2^{}", bits, params.name, params.scale_bits);
    let remedy = match params.kind {
        Kind::Toy => "use `ckks_toy_iterated`, or one iteration",
        _ => "use `ckks_iterated`, or one iteration",
    };
    Err(Error::wrong_params("prepare a bootstrap", wanted, got, remedy))
}

/// The steps of the bootstraps with SlotsToCoeffs first, where 1 is q_0/`ratio` and the sine is divided by `by`.
#[derive(Clone, Copy)]
pub(super) struct Steps<'a> {
    pub(super) values: Values,
    pub(super) sine: &'a Sine,
    pub(super) ratio: f64,
    pub(super) by: f64,
}

impl Steps<'_> {
    /// The arguments of the program, at the level of its stages.
    pub(super) fn arguments(&self, line: &mut Pipeline) -> Result<Vec<Reg>> {
        let count = if self.values == Values::Merged { 2 } else { 1 };
        let (level, slots) = (line.stages(), line.slots);
        (0..count).map(|_| line.program.input(level, slots)).collect()
    }

    /// Records the steps on these registers, and returns as many results.
    pub(super) fn record(&self, line: &mut Pipeline, from: &[Reg]) -> Result<Vec<Reg>> {
        let mut x = from[0];
        if let Some(other) = from.get(1) {
            let other = line.program.multiply_i(*other)?;
            x = line.program.add(x, other)?;
        }
        let coefficients = line.slots_to_coeffs_first(x, 1.0, self.ratio)?;
        let mut raised = line.raise(coefficients)?;
        let (all, slots) = (line.chain.params().slots(), line.slots);
        if slots < all {
            // The lift adds coefficients of all powers of X: the trace keeps those of the message.
            raised = line.program.trace(raised, slots)?;
            raised = line.program.divide(raised, (all / slots) as f64)?;
        }
        let w = line.coeffs_to_slots(raised, |m| m)?;
        let conjugate = line.program.conjugate(w)?;
        let re = line.real_part(w, conjugate)?;
        let re = line.eval_mod_last(re, self.sine, self.by)?;
        if self.values == Values::Real {
            return Ok(vec![re]);
        }
        let im = line.imaginary_part(w, conjugate)?;
        let im = line.eval_mod_last(im, self.sine, self.by)?;
        if self.values == Values::Merged {
            return Ok(vec![re, im]);
        }
        let im = line.program.multiply_i(im)?;
        Ok(vec![line.program.add(re, im)?])
    }

    /// The same without the imaginary part of the error where values are real: another iteration would drop it, and leave it.
    fn record_real(&self, line: &mut Pipeline, from: &[Reg]) -> Result<Vec<Reg>> {
        if self.values == Values::Complex {
            return self.record(line, from);
        }
        let halves = Steps { by: 2.0 * self.by, ..*self }.record(line, from)?;
        let whole = |half: Reg| {
            let conjugate = line.program.conjugate(half)?;
            line.program.add(half, conjugate)
        };
        halves.into_iter().map(whole).collect()
    }
}
