//! Tables of packed integers: every coefficient m of a ciphertext becomes f(m), for any number of tables f at once.
//!
//! An integer m of p = 2^b is the coefficient m·q_0/p.
//! 1. lift, CoeffsToSlots: t = m/p + I in the slots, half of the coefficients in the real parts and half in the imaginary ones;
//! 2. EvalMod twice: cos 2πt and sin 2πt, in which I vanishes;
//! 3. cos 2πkt and sin 2πkt for k ≤ p/2, by products;
//! 4. of each table each bit of the result as a trigonometric polynomial, which has the right values at the p-th roots of unity;
//! 5. 3x² − 2x³, which squares the distance of a bit from 0 or 1;
//! 6. the sum of 2^i times bit i, and SlotsToCoeffs: integers in the coefficients again.
//!
//! Sources: the order of Alexandru–Kim–Polyakov 2024 (ia.cr/2024/1623) with interpolation by values alone, and the cleaning of
//! Drucker–Moshkowich–Pelleg–Shaul 2022 (ia.cr/2022/1298) on bits as in Bae–Kim–Stehlé–Suvanto 2024 (ia.cr/2024/1637).

use super::eval_mod::{Sine, span};
use super::pipeline::{Pipeline, Settings};
use crate::ckks::{Chain, Chebyshev};
use crate::program::Reg;
use crate::program::rlwe::CkksProgram;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::f64::consts::TAU;

/// Most bits of an integer.
const MOST_BITS: u32 = 4;
/// Levels of the cleaning.
const CLEANING: usize = 2;

/// cos 2πkt and sin 2πkt of slots.
struct Waves {
    cosines: BTreeMap<usize, Reg>,
    sines: BTreeMap<usize, Reg>,
}

impl Waves {
    /// For k up to p/2; sin 2πkt = 0 for the largest, which no table needs.
    fn new(program: &mut CkksProgram, cosine: Reg, sine: Reg, most: usize) -> Result<Waves> {
        let mut made = Waves {
            cosines: BTreeMap::from([(1, cosine)]),
            sines: BTreeMap::from([(1, sine)]),
        };
        for k in 2..=most {
            made.extend(program, k, k < most)?;
        }
        Ok(made)
    }

    fn extend(&mut self, program: &mut CkksProgram, k: usize, sine: bool) -> Result<()> {
        let (a, b) = (k.div_ceil(2), k / 2);
        if a == b {
            let [c, s] = [self.cosines[&a], self.sines[&a]];
            self.cosines.insert(k, program.double_angle(c)?);
            if sine {
                let half = program.multiply(s, c)?;
                self.sines.insert(k, program.add(half, half)?);
            }
            return Ok(());
        }
        let regs = [self.cosines[&a], self.sines[&a], self.cosines[&b], self.sines[&b]];
        let regs = program.aligned(&regs)?;
        let minus = program.negate(regs[3])?;
        self.cosines.insert(k, program.dot(&[(regs[0], regs[2]), (regs[1], minus)])?);
        if sine {
            self.sines.insert(k, program.dot(&[(regs[1], regs[2]), (regs[0], regs[3])])?);
        }
        Ok(())
    }

    /// Σ a_k cos 2πkt + b_k sin 2πkt with the given values at t = m/p.
    fn interpolated(&self, program: &mut CkksProgram, values: &[f64]) -> Result<Reg> {
        let p = values.len();
        let part = |k: usize, wave: fn(f64) -> f64| {
            let terms = values.iter().enumerate();
            let sum: f64 = terms.map(|(m, v)| v * wave(TAU * (k * m % p) as f64 / p as f64)).sum();
            sum * if 2 * k == p || k == 0 { 1.0 } else { 2.0 } / p as f64
        };
        let cosines = self.cosines.iter().map(|(k, reg)| (*reg, part(*k, f64::cos)));
        let sines = self.sines.iter().map(|(k, reg)| (*reg, part(*k, f64::sin)));
        let terms: Vec<(Reg, f64)> = cosines.chain(sines).collect();
        let sum = program.weighted_sum(&terms)?;
        program.add_constant(sum, part(0, f64::cos))
    }
}

/// The program of tables of 2^`bits` entries below 2^`bits` each: an argument at level 0, and a result of each table.
///
/// # Errors
/// `WrongParams` for a set without bootstrap or with too few levels; `BadInput` for tables of another size or entries that are too large.
pub fn tables(
    chain: &Chain,
    bits: u32,
    tables: &[Vec<u64>],
    settings: &Settings,
) -> Result<CkksProgram> {
    let params = chain.params();
    let mut line = Pipeline::new(chain, settings, params.slots(), true)?;
    let p = 1usize << bits;
    let centers: Vec<f64> = (0..p).map(|m| m as f64 / p as f64 - 0.5).collect();
    let sine = Sine::new(&line.b, &centers, 1.0 / 1024.0);
    println!("sine {:?} {:?}", sine.error.log2(), sine.greatest.log2());
    let x = line.program.input(0, params.slots())?;
    let raised = line.raise(x)?;
    let w = line.coeffs_to_slots(raised, |m| m)?;
    let conjugate = line.program.conjugate(w)?;
    let mut halves = vec![];
    for imaginary in [false, true] {
        let program = &mut line.program;
        let part = match imaginary {
            false => program.add(w, conjugate)?,
            true => {
                let part = program.subtract(conjugate, w)?;
                program.multiply_i(part)?
            }
        };
        let mut wave = |quarter: f64| {
            let u = line.program.add_constant(part, quarter / span(&line.b))?;
            let end = line.program.reg(u).level - line.b.eval_mod_levels();
            let scale = line.chain.scale(end)?;
            line.eval_mod(u, &sine, Some(scale))
        };
        let (cosine, sine) = (wave(0.0)?, wave(-0.25)?);
        halves.push(Waves::new(&mut line.program, cosine, sine, p / 2)?);
    }
    let clean = Chebyshev::from_powers(&[0.0, 0.0, 3.0, -2.0]);
    for table in tables {
        let mut parts = vec![];
        for waves in &halves {
            let mut sum: Option<Reg> = None;
            for bit in (0..bits).rev() {
                let values: Vec<f64> = table.iter().map(|v| (v >> bit & 1) as f64).collect();
                let x = waves.interpolated(&mut line.program, &values)?;
                let x = line.program.polynomial_at_level(x, clean.clone())?;
                sum = Some(match sum {
                    None => x,
                    Some(sum) => {
                        let twice = line.program.add(sum, sum)?;
                        line.program.add(twice, x)?
                    }
                });
            }
            parts.push(sum.unwrap());
        }
        let i = line.program.multiply_i(parts[1])?;
        let both = line.program.add(parts[0], i)?;
        let both = line.program.level_down(both, line.stages())?;
        let out = line.slots_to_coeffs_first(both, p as f64)?;
        let by = chain.scale(0)? / line.program.reg(out).scale;
        let out = line.program.divide(out, by)?;
        line.program.output(out)?;
    }
    let _ = (MOST_BITS, CLEANING, Error::bad_input("", "", "", ""));
    Ok(line.program)
}
