//! Comparisons, and what they are good for: maxima, the place of the maximum, sorting.
//!
//! max(a, b) = (a + b)/2 + |a − b|/2. The error of an approximation of |x| holds for every x, so a tournament of r rounds has r times
//! the error of one, and a bitonic network of r stages too.

use super::Function;
use super::fit::points;
use super::formula::{Formula, Step, Value, interval, precision};
use super::functions::{MARGIN, distance, error_of};
use super::sign::{Sign, out_of_reach, require_gap};
use crate::{Error, Result};

/// The width of a domain, and the error asked for.
fn asked(op: &'static str, domain: [f64; 2], bits: f64) -> Result<(f64, f64)> {
    interval(op, domain, f64::NEG_INFINITY)?;
    Ok((domain[1] - domain[0], precision(op, bits)?))
}

fn blocks(op: &'static str, size: usize) -> Result<u32> {
    if size.is_power_of_two() && (2..=1 << 16).contains(&size) {
        return Ok(size.ilog2());
    }
    let remedy = match (2..=1 << 16).contains(&size) {
        true => "fill the vector to a power of two, with the least or the largest value",
        false => "choose a size in that range",
    };
    Err(Error::bad_input(op, "a power of two from 2 to 2^16 as size", size.to_string(), remedy))
}

/// 1 where a > b, 0 where a < b, and between them where they are closer than `gap`.
///
/// # Errors
/// As [`sign`](super::sign).
pub fn compare(domain: [f64; 2], gap: f64, bits: f64) -> Result<Function> {
    let op = "compare";
    let (width, error) = asked(op, domain, bits)?;
    require_gap(op, gap, width)?;
    let mut formula = Formula::default();
    let (a, b) = (formula.argument(), formula.argument());
    let difference = formula.subtract(a, b);
    let (_, step) = stepped(&mut formula, difference, width, gap, error)
        .ok_or_else(|| out_of_reach(op, Some(gap), bits))?;
    formula.results = vec![step];
    // The distance of the two is all that it sees.
    let apart = points([gap, width]);
    let made = formula.of(&[&apart, &vec![0.0; apart.len()]]);
    let worst = made.iter().map(|y| (y - 1.0).abs()).fold(0.0, f64::max);
    let measured = MARGIN * worst;
    if measured > error {
        return Err(out_of_reach(op, Some(gap), bits));
    }
    Ok(Function::of_one(op, formula, domain, measured).beyond(gap))
}

/// The step function of x, from 0 to 1, for |x| ≤ `width`.
fn stepped(
    formula: &mut Formula,
    x: Value,
    width: f64,
    gap: f64,
    error: f64,
) -> Option<(Value, Value)> {
    let chain = Sign::new(gap / width, 2.0 * error / MARGIN)?;
    if MARGIN * chain.error(gap / width) > 2.0 * error {
        return None;
    }
    let scaled = formula.scale(x, 1.0 / width);
    let half = chain.record(formula, scaled, 0.5);
    Some((half, formula.shift(half, 0.5)))
}

/// (a + b)/2 ± |a − b|/2, where `part` is the formula of |x|/2.
fn extreme(formula: &mut Formula, part: &Formula, a: Value, b: Value, sign: f64) -> Value {
    let (sum, difference) = (formula.add(a, b), formula.subtract(a, b));
    let middle = formula.scale(sum, 0.5);
    let apart = formula.inlined(part, difference);
    if sign > 0.0 { formula.add(middle, apart) } else { formula.subtract(middle, apart) }
}

fn of_two(op: &'static str, domain: [f64; 2], bits: f64, sign: f64) -> Result<Function> {
    let (width, error) = asked(op, domain, bits)?;
    let part = distance(width, 0.5, error).ok_or_else(|| out_of_reach(op, None, bits))?;
    let measured = error_of(&part, [-width, width], |x| x.abs() / 2.0);
    let mut formula = Formula::default();
    let (a, b) = (formula.argument(), formula.argument());
    let y = extreme(&mut formula, &part, a, b, sign);
    formula.results = vec![y];
    Ok(Function::of_one(op, formula, domain, measured))
}

/// The larger of two values.
///
/// # Errors
/// As [`absolute`](super::absolute).
pub fn maximum(domain: [f64; 2], bits: f64) -> Result<Function> {
    of_two("maximum", domain, bits, 1.0)
}

/// The smaller of two values.
///
/// # Errors
/// As [`absolute`](super::absolute).
pub fn minimum(domain: [f64; 2], bits: f64) -> Result<Function> {
    of_two("minimum", domain, bits, -1.0)
}

/// A domain that has room for the errors of all rounds.
fn widened(width: f64, error: f64) -> f64 {
    width + 4.0 * error
}

fn of_list(
    op: &'static str,
    size: usize,
    domain: [f64; 2],
    bits: f64,
    sign: f64,
) -> Result<Function> {
    let (rounds, (width, error)) = (blocks(op, size)?, asked(op, domain, bits)?);
    let width = widened(width, error);
    let part = distance(width, 0.5, error / f64::from(rounds))
        .ok_or_else(|| out_of_reach(op, None, bits))?;
    let each = error_of(&part, [-width, width], |x| x.abs() / 2.0);
    let mut formula = Formula::default();
    let mut best = formula.argument();
    for round in (0..rounds).rev() {
        let other = formula.rotate(best, 1 << round);
        best = extreme(&mut formula, &part, best, other, sign);
    }
    formula.results = vec![best];
    Ok(Function::of_one(op, formula, domain, each * f64::from(rounds)).of_blocks(size))
}

/// In slot i the largest of slots i to i + size − 1, counted around: over all slots the maximum everywhere.
///
/// # Errors
/// As [`absolute`](super::absolute); `BadInput` for a size that is not a power of two.
pub fn largest(size: usize, domain: [f64; 2], bits: f64) -> Result<Function> {
    of_list("largest", size, domain, bits, 1.0)
}

/// In slot i the smallest of slots i to i + size − 1, counted around.
///
/// # Errors
/// As [`largest`].
pub fn smallest(size: usize, domain: [f64; 2], bits: f64) -> Result<Function> {
    of_list("smallest", size, domain, bits, -1.0)
}

/// The place of the largest value of each block, from 0 to size − 1, in the first slot of the block; the second result is the value.
/// Values that are closer than `gap` may be taken for each other.
///
/// # Errors
/// As [`largest`] and [`compare`].
pub fn argmax(size: usize, domain: [f64; 2], gap: f64, bits: f64) -> Result<Function> {
    let op = "argmax";
    let (rounds, (width, error)) = (blocks(op, size)?, asked(op, domain, bits)?);
    require_gap(op, gap, width)?;
    // A round is wrong by the error of the step, in the units of places and of values.
    let own = error / (2.0 * f64::from(rounds) * (size as f64).max(width));
    let width = widened(width, error);
    let mut formula = Formula::default();
    let mut best = formula.argument();
    // Places as fractions of the block, as small as a bootstrap takes.
    let fraction = |i: usize| i as f64 / size as f64;
    let mut place: Option<Value> = None;
    for round in (0..rounds).rev() {
        let by = 1usize << round;
        let other = formula.rotate(best, by as i64);
        let difference = formula.subtract(best, other);
        let (_, step) = stepped(&mut formula, difference, width, gap, own)
            .ok_or_else(|| out_of_reach(op, Some(gap), bits))?;
        // other + (best − other)·step, for values and for places.
        let chosen = formula.multiply(difference, step);
        best = formula.add(other, chosen);
        place = Some(match place {
            None => {
                let here: Vec<f64> = (0..size).map(fraction).collect();
                let there: Vec<f64> = (0..size).map(|i| fraction((i + by) % size)).collect();
                let apart = here.iter().zip(&there).map(|(a, b)| a - b).collect();
                let chosen = formula.mask(step, apart);
                formula.push(Step::Offset(chosen, there))
            }
            Some(place) => {
                let other = formula.rotate(place, by as i64);
                let apart = formula.subtract(place, other);
                let chosen = formula.multiply(apart, step);
                formula.add(other, chosen)
            }
        });
    }
    let place = place.map(|place| formula.scale(place, size as f64)).unwrap_or(best);
    formula.results = vec![place, best];
    Ok(Function::of_one(op, formula, domain, error).of_blocks(size).beyond(gap))
}

/// The values of each block of `size` slots in rising order: size·(log size)·(log size + 1)/4 comparisons, all of a stage at once.
///
/// # Errors
/// As [`largest`].
pub fn sort(size: usize, domain: [f64; 2], bits: f64) -> Result<Function> {
    let op = "sort";
    let (log, (width, error)) = (blocks(op, size)?, asked(op, domain, bits)?);
    let stages = f64::from(log * (log + 1) / 2);
    let (width, own) = (widened(width, error), error / stages);
    // Half of |x| for |x| ≤ 1, in the units of the width.
    let (gap, least) = (4.0 * own / width, 2.0 * own / width);
    let chain = Sign::new(gap, least / MARGIN).ok_or_else(|| out_of_reach(op, None, bits))?;
    let mut formula = Formula::default();
    let mut x = formula.argument();
    for run in (1..=log).map(|k| 1usize << k) {
        let mut by = run / 2;
        while by > 0 {
            x = exchanged(&mut formula, &chain, x, [size, run, by], width);
            by /= 2;
        }
    }
    formula.results = vec![x];
    let measured = stages * stage_error(&chain, width);
    if measured > error {
        return Err(out_of_reach(op, None, bits));
    }
    Ok(Function::of_one(op, formula, domain, measured).of_blocks(size))
}

/// The largest error of |x|/2 in a stage.
fn stage_error(chain: &Sign, width: f64) -> f64 {
    let mut formula = Formula::default();
    let x = formula.argument();
    let scaled = formula.scale(x, 1.0 / width);
    let sign = chain.record(&mut formula, scaled, 0.5);
    let y = formula.multiply(x, sign);
    formula.results = vec![y];
    error_of(&formula, [-width, width], |x| x.abs() / 2.0)
}

/// A stage of the network: slots i and i ± `by` in order, rising or falling by the run that they are in.
fn exchanged(
    formula: &mut Formula,
    chain: &Sign,
    x: Value,
    [size, run, by]: [usize; 3],
    width: f64,
) -> Value {
    let (ahead, behind) = (formula.rotate(x, by as i64), formula.rotate(x, -(by as i64)));
    let first = |i: usize| i & by == 0;
    let smaller = |i: usize| first(i) == (i & run == 0);
    // a·x + b·partner, whose masks make one level.
    let mut combined = |a: &dyn Fn(usize) -> f64, b: &dyn Fn(usize) -> f64| {
        let values = |keep: &dyn Fn(usize) -> bool, f: &dyn Fn(usize) -> f64| {
            (0..size).map(|i| if keep(i) { f(i) } else { 0.0 }).collect::<Vec<f64>>()
        };
        let own = formula.mask(x, values(&|_| true, a));
        let ahead = formula.mask(ahead, values(&first, b));
        let behind = formula.mask(behind, values(&|i| !first(i), b));
        let other = formula.add(ahead, behind);
        formula.add(own, other)
    };
    let half = |i: usize| if smaller(i) { -0.5 } else { 0.5 };
    let middle = combined(&|_| 0.5, &|_| 0.5);
    let scaled = combined(&|_| 1.0 / width, &|_| -1.0 / width);
    let apart = combined(&half, &|i| -half(i));
    let sign = chain.record(formula, scaled, 1.0);
    let apart = formula.multiply(apart, sign);
    formula.add(middle, apart)
}
