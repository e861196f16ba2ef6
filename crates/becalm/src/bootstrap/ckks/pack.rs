//! Numbers in slots as packed integers, and packed integers as numbers in slots.
//!
//! [`pack`]: SlotsToCoeffs of numbers v near integers, to coefficients v·q_0/2^b at level 0. No step rounds: the distance of v from an integer is
//! an error of the integer, which the next table takes out if it is small enough.
//! [`unpack`]: the first steps of [`tables`](super::tables()), without SlotsToCoeffs. Entries of a table are real numbers, each a trigonometric
//! polynomial of the integer; or integers, whose bits are cleaned, which takes two levels more.
//!
//! Slot i is the integer of place i, and i times slot i that of place N/2 + i ([`Integers::coefficient`](crate::cipher::Integers::coefficient)).

use super::pipeline::{Pipeline, Settings, Values};
use super::table::{Bits, Off, Series, Waves, waves};
use crate::ckks::Chain;
use crate::program::Reg;
use crate::program::rlwe::{CkksProgram, Contract, Gives};
use crate::{Error, Result};

/// Integers among entries whose bits are cleaned span less than 2^(·).
const MOST_BITS: u32 = 8;

/// The program that packs numbers as integers of `bits` bits modulo 2^bits. The caller says that they are within `near` of integers, apart from
/// the error of their account. By `settings.values` it takes a vector of `slots` real numbers, which become as many integers, or a complex vector or
/// two real ones of N/2 slots, which become N integers: the real parts or the first vector come first.
///
/// # Errors
/// `WrongParams` for a set without tables of integers; `BadInput` for other bits than the set takes, for a distance that is not in 0 ..= 0.5, for
/// slots that cannot be, and for a stage count or baby steps that cannot be.
///
/// ```
/// use becalm::backend::{CkksSetup, Cpu, Evaluator};
/// use becalm::bootstrap::ckks::{Settings, Values, pack, unpack};
/// use becalm::ckks::Context;
/// use becalm::math::complex::Complex;
/// use becalm::params::CkksParams;
/// use std::sync::Arc;
///
/// # fn main() -> becalm::Result<()> {
/// let context = Arc::new(Context::new(CkksParams::named("ckks_toy_table_4")?, true)?);
/// let settings = Settings { values: Values::Real, ..Settings::default() };
/// let packed = Arc::new(pack(&context, 4, 4, 0.0, &settings)?);
/// // The square root of each integer, in slots.
/// let roots: Vec<f64> = (0..16).map(|m| f64::from(m).sqrt()).collect();
/// let root = Arc::new(unpack(&context, 4, &[roots], true, 1, &settings)?);
/// let secret = context.secret_key()?;
/// let keys = Arc::new(context.keys(&secret, &packed.needs().union(&root.needs()))?);
/// let evaluator = Evaluator::new(&Cpu::new(0)?, CkksSetup::new(&context, &keys))?;
/// let x = context.encrypt(&[3.0, 1.0, 4.0, 15.0].map(Complex::from), 3, &secret)?;
/// let y = evaluator.run(&packed, &[&x])?.remove(0);
/// assert_eq!(context.decrypt_integers(&y, &secret)?, [3, 1, 4, 15]);
/// let z = evaluator.run(&root, &[&y])?.remove(0);
/// assert!((context.decrypt(&z, &secret)?[2].re - 2.0).abs() < z.account().worst);
/// # Ok(())
/// # }
/// ```
pub fn pack(
    chain: &Chain,
    bits: u32,
    slots: usize,
    near: f64,
    settings: &Settings,
) -> Result<CkksProgram> {
    let (op, all) = ("pack", chain.params().slots());
    chain.check_integers(op, bits)?;
    if !(0.0..=0.5).contains(&near) {
        let (wanted, remedy) = ("a distance from 0 to 0.5", "state the largest one");
        return Err(Error::bad_input(op, wanted, near.to_string(), remedy));
    }
    let real = settings.values == Values::Real;
    if !real && slots != all {
        let wanted = format!("{all} slots where both halves of the integers are filled");
        let remedy = "pack each vector by itself, or encrypt longer ones";
        return Err(Error::bad_input(op, wanted, slots.to_string(), remedy));
    }
    let mut line = Pipeline::new(chain, settings, all, true)?;
    let level = line.stages();
    let mut x = line.program.input(level, slots)?;
    if settings.values == Values::Merged {
        let other = line.program.input(level, slots)?;
        let other = line.program.multiply_i(other)?;
        x = line.program.add(x, other)?;
    }
    let filled = if slots < all { line.program.repeat(x, all)? } else { x };
    let out = line.integers(filled, bits)?;
    let p = f64::from(1u32 << bits);
    let contract = Contract {
        gives: Gives::Packed(bits, if real { slots } else { 2 * slots }),
        values: 1.0,
        slope: p.recip(),
        inside: near / p,
        mean: near / p,
        cleaned: None,
        noise: line.added / p,
    };
    let y = line.program.tabulate(out, x, contract)?;
    line.program.output(y)?;
    Ok(line.program)
}

/// The program that gives for each integer m of `bits` bits entry m of each of these tables of real numbers, in slots: N/2 of them, or twice as many
/// in two results for each table, by the number of `halves`. Tables share the steps before them. Where all entries of a table are integers that span
/// less than 2^8 and `clean` is set, their bits are cleaned: the error is smaller, and two levels fewer are left.
///
/// # Errors
/// `WrongParams` for a set without tables of integers; `BadInput` for other bits than the set takes, for no tables, another number of entries, and
/// entries that are not finite or too large for the level, for other halves than 1 or 2, and for a stage count or baby steps that cannot be.
pub fn unpack(
    chain: &Chain,
    bits: u32,
    tables: &[Vec<f64>],
    clean: bool,
    halves: usize,
    settings: &Settings,
) -> Result<CkksProgram> {
    check(chain, bits, tables, halves)?;
    let mut line = Pipeline::new(chain, settings, chain.params().slots(), true)?;
    let x = line.program.input_integers(bits)?;
    let waves = waves(&mut line, x, bits, halves)?;
    for entries in tables {
        let digits = if clean { digits(entries) } else { None };
        for waves in &waves {
            let (y, contract) = match &digits {
                Some(digits) => cleaned(&mut line, waves, entries, digits)?,
                None => summed(&mut line, waves, entries)?,
            };
            let info = line.program.reg(y);
            line.chain.check_room("unpack", contract.values, info.level, info.scale)?;
            let y = line.program.tabulate(y, x, contract)?;
            line.program.output(y)?;
        }
    }
    Ok(line.program)
}

fn check(chain: &Chain, bits: u32, tables: &[Vec<f64>], halves: usize) -> Result<()> {
    let op = "unpack";
    chain.check_integers(op, bits)?;
    let p = 1usize << bits;
    if tables.is_empty() {
        return Err(Error::bad_input(op, "one table or more", "none", "pass a table"));
    }
    if let Some(table) = tables.iter().find(|table| table.len() != p) {
        let (wanted, remedy) = (format!("{p} entries"), "state a number for each integer");
        return Err(Error::bad_input(op, wanted, table.len().to_string(), remedy));
    }
    if let Some(entry) = tables.iter().flatten().find(|entry| !entry.is_finite()) {
        let remedy = "remove NaN and infinities";
        return Err(Error::bad_input(op, "finite entries", entry.to_string(), remedy));
    }
    if !(1..=2).contains(&halves) {
        let (wanted, remedy) = ("1 or 2 halves of the places", "choose one of these");
        return Err(Error::bad_input(op, wanted, halves.to_string(), remedy));
    }
    Ok(())
}

/// Entries that are integers, by cleaned bits.
fn cleaned(
    line: &mut Pipeline,
    waves: &Waves,
    entries: &[f64],
    (bits, least): &(Bits, f64),
) -> Result<(Reg, Contract)> {
    let made = bits.cleaned(line, waves)?;
    let y = line.program.add_constant(made.sum, *least)?;
    let contract = Contract {
        slope: bits.slope(entries.len()),
        inside: made.inside,
        mean: made.inside,
        cleaned: Some(bits.weight()),
        noise: (made.added * bits.weight()).hypot(line.rounded(y)),
        ..of_slots(entries)
    };
    Ok((y, contract))
}

/// Entries as they are.
fn summed(line: &mut Pipeline, waves: &Waves, entries: &[f64]) -> Result<(Reg, Contract)> {
    let series = Series::of(entries);
    let Off { reg, most: inside, mean } = waves.sum(line, &series)?;
    let slope = series.slope(entries.len()).max(f64::MIN_POSITIVE);
    let noise = line.rounded(reg);
    Ok((reg, Contract { slope, inside, mean, noise, ..of_slots(entries) }))
}

/// A contract of numbers in slots, without its errors.
fn of_slots(entries: &[f64]) -> Contract {
    let values = entries.iter().map(|x| x.abs()).fold(f64::MIN_POSITIVE, f64::max);
    let [slope, inside, mean, noise] = [0.0; 4];
    Contract { gives: Gives::Slots, values, slope, inside, mean, cleaned: None, noise }
}

/// The bits of entries above the least, and the least, if all are integers that span little.
fn digits(entries: &[f64]) -> Option<(Bits, f64)> {
    let least = entries.iter().copied().fold(f64::INFINITY, f64::min);
    let above: Vec<f64> = entries.iter().map(|entry| entry - least).collect();
    let most = above.iter().copied().fold(1.0, f64::max);
    let whole = least.fract() == 0.0 && above.iter().all(|x| x.fract() == 0.0);
    if !whole || most >= f64::from(1u32 << MOST_BITS) {
        return None;
    }
    let above: Vec<u64> = above.into_iter().map(|x| x as u64).collect();
    Some((Bits::of(&above, most.log2() as u32 + 1), least))
}
