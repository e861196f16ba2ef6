//! Tables of integers: every coefficient m of a ciphertext becomes f(m), for any number of tables f at once.
//!
//! An integer m of p = 2^b is the coefficient m·q_0/p.
//! 1. Lift, CoeffsToSlots: t = m/p + I in the slots, half of the coefficients in the real parts and half in the imaginary ones;
//! 2. EvalMod twice: cos 2πt and sin 2πt, in which I vanishes;
//! 3. cos 2πkt and sin 2πkt for k ≤ p/2, by products;
//! 4. each bit of each table as a trigonometric polynomial, which has the right values at multiples of 1/p;
//! 5. 3x² − 2x³, which squares the distance of a bit from 0 or 1;
//! 6. the sum of 2^i times bit i, and SlotsToCoeffs: integers in the coefficients again.
//!
//! Sources: the order of steps is that of Alexandru–Kim–Polyakov 2024 (ia.cr/2024/1623), with interpolation of values alone; the cleaning is that of
//! Drucker–Moshkowich–Pelleg–Shaul 2022 (ia.cr/2022/1298), on bits as in Bae–Kim–Stehlé–Suvanto 2024 (ia.cr/2024/1637).

use super::eval_mod::{Sine, greatest_slope, span};
use super::pipeline::{Pipeline, Settings};
use crate::cipher::{Account, PRODUCT_TAIL};
use crate::ckks::{Chain, Chebyshev};
use crate::program::Reg;
use crate::program::rlwe::{CkksProgram, Contract, Gives};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::f64::consts::{SQRT_2, TAU};

/// Around each integer, as far as EvalMod is fitted, where two are 1 apart: no bit that differs between two integers is cleaned beyond.
const WIDTH: f64 = 1.0 / 16.0;
/// Points between two integers at which a table's steepest place is looked for.
const POINTS: usize = 32;

/// A register, and by how much it is off.
#[derive(Clone, Copy)]
pub(super) struct Off {
    pub(super) reg: Reg,
    /// At most.
    pub(super) most: f64,
    /// The root of the mean square, at most.
    pub(super) mean: f64,
}

/// cos 2πkt and sin 2πkt of slots, for k up to p/2. No table needs the last sine, which is 0 at every integer.
pub(super) struct Waves {
    cosines: BTreeMap<usize, Off>,
    sines: BTreeMap<usize, Off>,
}

/// The coefficients of Σ c_k cos 2πkt + s_k sin 2πkt with given values at t = m/p.
pub(super) struct Series {
    cosines: Vec<f64>,
    sines: Vec<f64>,
}

impl Series {
    pub(super) fn of(values: &[f64]) -> Series {
        let p = values.len();
        let sum = |k: usize, wave: fn(f64) -> f64| {
            let angle = |m: usize| TAU * (k * m % p) as f64 / p as f64;
            let sum: f64 = values.iter().enumerate().map(|(m, v)| v * wave(angle(m))).sum();
            sum * if 2 * k == p || k == 0 { 1.0 } else { 2.0 } / p as f64
        };
        let cosines = (0..=p / 2).map(|k| sum(k, f64::cos)).collect();
        // The last is that of sin πm = 0.
        let sines = (0..p / 2).map(|k| sum(k, f64::sin)).collect();
        Series { cosines, sines }
    }

    /// Upper bound on the derivative in t.
    pub(super) fn slope(&self, p: usize) -> f64 {
        let at = |t: f64| {
            let term = |(k, c): (usize, &f64), wave: fn(f64) -> f64| {
                TAU * k as f64 * c * wave(TAU * k as f64 * t)
            };
            let down: f64 = self.cosines.iter().enumerate().map(|x| term(x, f64::sin)).sum();
            let up: f64 = self.sines.iter().enumerate().map(|x| term(x, f64::cos)).sum();
            (up - down).abs()
        };
        let all = POINTS * p;
        let most = (0..all).map(|i| at(i as f64 / all as f64)).fold(0.0, f64::max);
        // A trigonometric polynomial of degree d exceeds its values at n points by less than 1/cos(πd/n).
        most / (TAU / 4.0 / POINTS as f64).cos()
    }
}

impl Waves {
    /// Makes those of k from those of about half of it: errors of a and b become 2(a + b), since cosines and sines are at most 1.
    fn extend(&mut self, line: &mut Pipeline, k: usize, sine: bool) -> Result<()> {
        let (a, b) = (k.div_ceil(2), k / 2);
        let given = [self.cosines[&a], self.sines[&a], self.cosines[&b], self.sines[&b]];
        let from = |of: fn(&Off) -> f64| {
            let worst = |i: usize, j: usize| of(&given[i]).max(of(&given[j]));
            let (x, y) = (worst(0, 1), worst(2, 3));
            2.0 * (x + y + x * y)
        };
        let (most, mean) = (from(|x| x.most), from(|x| x.mean));
        let program = &mut line.program;
        let regs = program.aligned(&given.map(|x| x.reg))?;
        let cosine = match a == b {
            true => program.double_angle(regs[0])?,
            false => {
                let minus = program.negate(regs[3])?;
                program.dot(&[(regs[0], regs[2]), (regs[1], minus)])?
            }
        };
        // A product is rounded, and so may be each of its factors, which were brought down.
        let rounded = 5.0 * line.switched_at(cosine);
        let (most, mean) = (most + PRODUCT_TAIL * rounded, mean + rounded);
        self.cosines.insert(k, Off { reg: cosine, most, mean });
        if sine {
            let made = match a == b {
                true => {
                    let half = line.program.multiply(regs[0], regs[1])?;
                    line.program.add(half, half)?
                }
                false => line.program.dot(&[(regs[1], regs[2]), (regs[0], regs[3])])?,
            };
            self.sines.insert(k, Off { reg: made, most, mean });
        }
        Ok(())
    }

    /// The series of these waves.
    pub(super) fn sum(&self, line: &mut Pipeline, series: &Series) -> Result<Off> {
        let cosines = self.cosines.iter().map(|(k, off)| (*off, series.cosines[*k]));
        let sines = self.sines.iter().map(|(k, off)| (*off, series.sines[*k]));
        let all: Vec<(Off, f64)> = cosines.chain(sines).collect();
        let terms: Vec<(Reg, f64)> = all.iter().map(|(x, c)| (x.reg, *c)).collect();
        let sum = line.program.weighted_sum(&terms)?;
        let reg = line.program.add_constant(sum, series.cosines[0])?;
        let from = |of: fn(&Off) -> f64| all.iter().map(|(x, c)| of(x) * c.abs()).sum::<f64>();
        let rounded = line.rounded(reg);
        let (most, mean) = (from(|x| x.most), from(|x| x.mean));
        Ok(Off { reg, most: most + PRODUCT_TAIL * rounded, mean: mean + rounded })
    }
}

/// The program that looks integers of `bits` bits up in tables of 2^`bits` entries each, which are below 2^`bits` too. It has one argument, and one
/// result of each table. Several tables share most of the work.
///
/// # Errors
/// `WrongParams` for a set without tables of integers; `BadInput` for other bits than the set takes, for no tables, tables of another length or entries
/// that are too large, and for a stage count or baby steps that cannot be.
///
/// ```
/// use becalm::backend::{CkksSetup, Cpu, Evaluator};
/// use becalm::bootstrap::ckks::{Settings, tables};
/// use becalm::ckks::Context;
/// use becalm::params::CkksParams;
/// use std::sync::Arc;
///
/// # fn main() -> becalm::Result<()> {
/// let context = Arc::new(Context::new(CkksParams::named("ckks_toy_table_4")?, true)?);
/// let square: Vec<u64> = (0..16).map(|m| m * m % 16).collect();
/// let program = Arc::new(tables(&context, 4, &[square], &Settings::default())?);
/// let secret = context.secret_key()?;
/// let keys = Arc::new(context.keys(&secret, &program.needs())?);
/// let evaluator = Evaluator::new(&Cpu::new(0)?, CkksSetup::new(&context, &keys))?;
/// let x = context.encrypt_integers(&[0, 1, 2, 3, 15], 4, &secret)?;
/// let y = evaluator.run(&program, &[&x])?;
/// assert_eq!(context.decrypt_integers(&y[0], &secret)?, [0, 1, 4, 9, 1]);
/// # Ok(())
/// # }
/// ```
pub fn tables(
    chain: &Chain,
    bits: u32,
    tables: &[Vec<u64>],
    settings: &Settings,
) -> Result<CkksProgram> {
    check(chain, bits, tables)?;
    let mut line = Pipeline::new(chain, settings, chain.params().slots(), true)?;
    let x = line.program.input_integers(bits)?;
    let halves = waves(&mut line, x, bits, 2)?;
    for table in tables {
        let y = looked_up(&mut line, x, &halves, (bits, table))?;
        line.program.output(y)?;
    }
    Ok(line.program)
}

fn check(chain: &Chain, bits: u32, tables: &[Vec<u64>]) -> Result<()> {
    let op = "look up";
    chain.check_integers(op, bits)?;
    let p = 1u64 << bits;
    if tables.is_empty() {
        return Err(Error::bad_input(op, "one table or more", "none", "pass a table"));
    }
    for table in tables {
        if table.len() as u64 != p {
            let (wanted, remedy) = (format!("{p} entries"), "state a result for each integer");
            return Err(Error::bad_input(op, wanted, table.len().to_string(), remedy));
        }
        if let Some(entry) = table.iter().find(|entry| **entry >= p) {
            let (wanted, remedy) = (format!("entries below {p}"), "take them modulo that");
            return Err(Error::bad_input(op, wanted, entry.to_string(), remedy));
        }
    }
    Ok(())
}

/// The waves of the coefficients: of the first half in the real parts, then of the other if both `halves` are wanted.
pub(super) fn waves(line: &mut Pipeline, x: Reg, bits: u32, halves: usize) -> Result<Vec<Waves>> {
    let p = 1usize << bits;
    let centers: Vec<f64> = (0..p).map(|m| m as f64 / p as f64 - 0.5).collect();
    let width = WIDTH / p as f64;
    let sine = Sine::new(&line.b, &centers, width);
    let raised = line.raise(x)?;
    let w = line.coeffs_to_slots(raised, |m| m)?;
    let conjugate = line.program.conjugate(w)?;
    let mut parts = vec![line.program.add(w, conjugate)?];
    if halves == 2 {
        let im = line.program.subtract(conjugate, w)?;
        parts.push(line.program.multiply_i(im)?);
    }
    let noise = line.sine_noise();
    let most = sine.everywhere(&line.b, &centers, width) + PRODUCT_TAIL * noise;
    let mean = sine.error + noise;
    parts
        .into_iter()
        .map(|part| {
            // sin 2πt of u = (t − 1/4)/span, and cos 2πt = sin 2π(t + 1/4).
            let cosines = BTreeMap::from([(1, Off { reg: wave(line, part, &sine)?, most, mean })]);
            let mut sines = BTreeMap::new();
            if p > 2 {
                let shifted = line.program.add_constant(part, -0.25 / span(&line.b))?;
                sines.insert(1, Off { reg: wave(line, shifted, &sine)?, most, mean });
            }
            let mut made = Waves { cosines, sines };
            (2..=p / 2).try_for_each(|k| made.extend(line, k, k < p / 2))?;
            Ok(made)
        })
        .collect()
}

/// EvalMod, at the scale of the user.
fn wave(line: &mut Pipeline, u: Reg, sine: &Sine) -> Result<Reg> {
    let end = line.program.reg(u).level - line.b.eval_mod_levels();
    let scale = line.chain.scale(end)?;
    line.eval_mod(u, sine, Some(scale))
}

/// The bits of the entries of a table, each as a series.
pub(super) struct Bits(Vec<Series>);

/// Sums of cleaned bits in slots.
pub(super) struct Cleaned {
    pub(super) sum: Reg,
    /// Most by which a bit was off before it was cleaned, but for the error of the integers.
    pub(super) inside: f64,
    /// The error that the cleaning of each bit adds, standard deviation.
    pub(super) added: f64,
}

impl Bits {
    /// The lowest `count` bits of each entry.
    pub(super) fn of(entries: &[u64], count: u32) -> Bits {
        let bit = |i: u32| entries.iter().map(|v| (v >> i & 1) as f64).collect::<Vec<_>>();
        Bits((0..count).map(|i| Series::of(&bit(i))).collect())
    }

    /// The steepest slope of a bit, for tables of p entries.
    pub(super) fn slope(&self, p: usize) -> f64 {
        self.0.iter().map(|s| s.slope(p)).fold(f64::MIN_POSITIVE, f64::max)
    }

    /// The sum of the weights of the bits: every bit has an error of its own, and the largest counts half of it.
    pub(super) fn weight(&self) -> f64 {
        (self.0.len() as f64).exp2() - 1.0
    }

    /// Σ 2^i times bit i, cleaned.
    pub(super) fn cleaned(&self, line: &mut Pipeline, waves: &Waves) -> Result<Cleaned> {
        let clean = Chebyshev::from_powers(&[0.0, 0.0, 3.0, -2.0]);
        let mut made: Option<Cleaned> = None;
        for series in self.0.iter().rev() {
            let Off { reg, most: off, .. } = waves.sum(line, series)?;
            let y = line.program.polynomial_at_level(reg, clean.clone())?;
            let added = line.polynomial_error(reg, &clean, y, 1.0 + off);
            made = Some(match made {
                None => Cleaned { sum: y, inside: off, added },
                Some(Cleaned { sum, inside, .. }) => {
                    let twice = line.program.add(sum, sum)?;
                    let sum = line.program.add(twice, y)?;
                    Cleaned { sum, inside: inside.max(off), added }
                }
            });
        }
        made.ok_or_else(|| {
            Error::bad_input("look up", "one bit or more", "none", "pass larger entries")
        })
    }
}

/// One table.
fn looked_up(
    line: &mut Pipeline,
    x: Reg,
    halves: &[Waves],
    (bits, table): (u32, &[u64]),
) -> Result<Reg> {
    let own = Bits::of(table, bits);
    let [first, second] = [own.cleaned(line, &halves[0])?, own.cleaned(line, &halves[1])?];
    let i = line.program.multiply_i(second.sum)?;
    let both = line.program.add(first.sum, i)?;
    let both = line.program.level_down(both, line.stages())?;
    let lowered = line.rounded(both);
    let p = table.len() as f64;
    let out = line.integers(both, bits)?;
    // Both parts of a slot are coefficients now.
    let noise = (second.added * own.weight()).hypot(lowered).hypot(line.added) / p;
    let (slope, inside) = (own.slope(table.len()), first.inside.max(second.inside));
    let (gives, cleaned) = (Gives::Integers(bits), Some(own.weight() / p));
    let contract = Contract { gives, values: 1.0, slope, inside, mean: inside, cleaned, noise };
    line.program.tabulate(out, x, contract)
}

impl Pipeline<'_> {
    /// Integers of slots as coefficients m·q_0/2^`bits`, at the scale of level 0.
    pub(super) fn integers(&mut self, slots: Reg, bits: u32) -> Result<Reg> {
        let p = f64::from(1u32 << bits);
        // Both numbers of a slot may be as large.
        let out = self.slots_to_coeffs_first(slots, (p - 1.0) * SQRT_2, p)?;
        let by = self.chain.scale(0)? / self.program.reg(out).scale;
        self.program.divide(out, by)
    }

    /// The noise of the sine of any slot, standard deviation: as in [`Pipeline::error`], at the steepest place.
    fn sine_noise(&self) -> f64 {
        let rounding = self.chain.rounding(self.b.eval_mod_bits.exp2());
        let powers = rounding * greatest_slope(&self.b) * (16.0f64 / 15.0).sqrt();
        let placed = (self.placed * SQRT_2).hypot(self.turned) * TAU * span(&self.b);
        powers.hypot(placed)
    }

    /// The error that a polynomial adds to a slot of at most `most`, standard deviation.
    fn polynomial_error(&self, from: Reg, p: &Chebyshev, to: Reg, most: f64) -> f64 {
        let exact = Account::public(most, 0.0, 0.0);
        self.program.polynomial_account(from, p, to, exact).error
    }
}
