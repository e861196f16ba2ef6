//! The sign by a composition of odd polynomials, each the best one on the interval that the last one leaves.
//!
//! p of degree 2n − 1 that is nearest to 1 on [a, 1] has |p − 1| = E at n + 1 points (Remez). Divided by 1 + E it maps [a, 1] into
//! [a', 1], a' = (1 − E)/(1 + E), and the next one goes on from there: no level goes to scaling. Degree 7 takes three levels and
//! degree 15 four; the chain with the fewest levels is found level by level, because a larger a' is better for all that follows.
//! Source: Lee–Lee–No–Kim 2021 (ia.cr/2020/834); the composition goes back to Cheon–Kim–Kim 2020 (ia.cr/2019/1234).

use super::fit::points;
use super::formula::{Formula, Value};
use crate::ckks::Chebyshev;
use crate::{Error, Result};
use std::f64::consts::PI;

/// Depths of the polynomials: degrees 3, 7 and 15.
const DEPTHS: [usize; 3] = [2, 3, 4];
/// Most levels of a chain.
const MOST: usize = 80;
/// Least gap: below it doubles lose the slope at 0.
const LEAST: f64 = 1.0 / (1u64 << 24) as f64;
/// Exchanges of points; a handful suffices.
const EXCHANGES: usize = 40;

/// Polynomials to be applied one after the other to values in [−1, −gap] and [gap, 1].
#[derive(Debug, Clone)]
pub(super) struct Sign {
    stages: Vec<Chebyshev>,
}

/// The point between a and 1 at s from 0 to 1: x² goes from a² to 1 as a cosine does.
fn place(a: f64, s: f64) -> f64 {
    let (sin, cos) = (s * PI / 2.0).sin_cos();
    (a * a * cos * cos + sin * sin).sqrt()
}

/// The odd polynomial of n terms nearest to 1 on [a, 1], divided by its maximum there; and a'.
fn best(n: usize, a: f64) -> (Chebyshev, f64) {
    let mut points: Vec<f64> = (0..=n).map(|i| place(a, i as f64 / n as f64)).collect();
    let mut p = levelled(&points);
    let mut values = vec![];
    for _ in 0..EXCHANGES {
        let next = extremes(a, n, &p);
        values = next.iter().map(|x| p.value(*x)).collect();
        let moved = next.iter().zip(&points).any(|(x, y)| (x / y - 1.0).abs() > 1e-9);
        if next.len() != points.len() || !moved {
            break;
        }
        points = next;
        p = levelled(&points);
    }
    let top = values.iter().copied().fold(0.0, f64::max);
    let bottom = values.iter().copied().fold(f64::INFINITY, f64::min);
    (Chebyshev(p.0.iter().map(|c| c / top).collect()), bottom / top)
}

/// c and d of the polynomial c·x + d·x³ that is nearest to a constant on [gap, 1], and the gap that it leaves: at most 1 there, or, for
/// the `last` one, around 1.
pub(super) fn odd_cubic(gap: f64, last: bool) -> ([f64; 2], f64) {
    // At a gap of 1 the points would coincide.
    let (p, next) = best(2, gap.min(1.0 - 1e-5));
    let by = if last { 2.0 / (1.0 + next) } else { 1.0 };
    // T_3 = 4x³ − 3x.
    ([by * (p.0[1] - 3.0 * p.0[3]), by * 4.0 * p.0[3]], next)
}

/// The odd polynomial whose distances from 1 at these points are equal, with signs that change.
fn levelled(points: &[f64]) -> Chebyshev {
    let n = points.len();
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(n);
    for (i, x) in points.iter().enumerate() {
        let angle = x.min(1.0).acos();
        // T_1, T_3, …, the distance, and 1 on the right.
        let mut row: Vec<f64> = (0..n - 1).map(|k| ((2 * k + 1) as f64 * angle).cos()).collect();
        row.push(if i % 2 == 0 { 1.0 } else { -1.0 });
        row.push(1.0);
        rows.push(row);
    }
    for k in 0..n {
        let size = |i: &usize| rows[*i][k].abs();
        let pivot = (k..n).max_by(|i, j| size(i).total_cmp(&size(j))).unwrap_or(k);
        rows.swap(k, pivot);
        let head = rows[k].clone();
        for row in rows.iter_mut().enumerate().filter(|(i, _)| *i != k).map(|(_, row)| row) {
            let factor = row[k] / head[k];
            row.iter_mut().zip(&head).for_each(|(x, y)| *x -= factor * y);
        }
    }
    let mut coefficients = vec![0.0; 2 * (n - 1)];
    (0..n - 1).for_each(|k| coefficients[2 * k + 1] = rows[k][n] / rows[k][k]);
    Chebyshev(coefficients)
}

/// The points between changes of sign of p − 1 where it is largest, to the precision of a double.
fn extremes(a: f64, n: usize, p: &Chebyshev) -> Vec<f64> {
    let count = 64 * n;
    let error = |s: f64| p.value(place(a, s)) - 1.0;
    let mut found: Vec<(f64, f64)> = vec![];
    for s in (0..=count).map(|i| i as f64 / count as f64) {
        let e = error(s);
        match found.last_mut() {
            Some(last) if (last.1 > 0.0) == (e > 0.0) => {
                if e.abs() > last.1.abs() {
                    *last = (s, e);
                }
            }
            _ => found.push((s, e)),
        }
    }
    let refined = |(s, e): (f64, f64)| {
        let step = 1.0 / count as f64;
        let [mut low, mut high] = [(s - step).max(0.0), (s + step).min(1.0)];
        // An end stays where it is: the slope there does not vanish.
        while s > 0.0 && s < 1.0 && high - low > 1e-9 {
            let [left, right] = [low + (high - low) / 3.0, high - (high - low) / 3.0];
            let inward = error(left).abs() < error(right).abs();
            if inward { low = left } else { high = right }
        }
        let middle = (low + high) / 2.0;
        place(a, if s > 0.0 && s < 1.0 && error(middle).abs() >= e.abs() { middle } else { s })
    };
    found.into_iter().map(refined).collect()
}

/// Refuses a gap that no sign of values up to `width` tells apart.
///
/// # Errors
/// `BadInput` in the name of the function.
pub(super) fn require_gap(op: &'static str, gap: f64, width: f64) -> Result<()> {
    if (LEAST..1.0).contains(&(gap / width)) {
        return Ok(());
    }
    let wanted = format!("a gap of at least {:.1e} and below {width}", LEAST * width);
    let remedy = "the gap is the least distance at which values are told apart";
    Err(Error::bad_input(op, wanted, gap.to_string(), remedy))
}

/// The refusal of bits, and of a gap if one was asked for, that no chain of polynomials reaches.
pub(super) fn out_of_reach(op: &'static str, gap: Option<f64>, bits: f64) -> Error {
    let (wanted, got, remedy) = match gap {
        Some(gap) => {
            let remedy = "ask for a wider gap, or for fewer bits";
            ("a gap and bits", format!("a gap of {gap} and {bits} bits"), remedy)
        }
        None => ("bits", format!("{bits} bits"), "ask for fewer bits"),
    };
    Error::bad_input(op, format!("{wanted} that a chain of polynomials reaches"), got, remedy)
}

impl Sign {
    /// Within `error` of the sign for values from `gap` to 1 and from −1 to −`gap`; none where no chain reaches it.
    pub(super) fn new(gap: f64, error: f64) -> Option<Sign> {
        if !(LEAST..1.0).contains(&gap) {
            return None;
        }
        let enough = (1.0 - error) / (1.0 + error);
        // The best gap with so many levels, and the last polynomial of its chain.
        let mut reached: Vec<Option<(f64, usize, Chebyshev)>> = vec![None; MOST + 1];
        for levels in 0..=MOST {
            let from = if levels == 0 { Some(gap) } else { reached[levels].as_ref().map(|r| r.0) };
            let Some(from) = from else { continue };
            if from >= enough {
                return Some(Sign { stages: chain(&reached, levels, error) });
            }
            for depth in DEPTHS.into_iter().filter(|depth| levels + depth <= MOST) {
                let (p, next) = best(1 << (depth - 1), from);
                let place = &mut reached[levels + depth];
                if place.as_ref().is_none_or(|own| own.0 < next) {
                    *place = Some((next, depth, p));
                }
            }
        }
        None
    }

    /// The largest error for values from `gap` to 1, in doubles: where the slope at 0 is steep, they lose bits that the polynomials have.
    pub(super) fn error(&self, gap: f64) -> f64 {
        let sign = |x: f64| self.stages.iter().fold(x, |x, p| p.value(x));
        points([gap, 1.0]).into_iter().map(|x| (sign(x) - 1.0).abs()).fold(0.0, f64::max)
    }

    /// `factor` times the sign of x, which is at most 1.
    pub(super) fn record(&self, formula: &mut Formula, x: Value, factor: f64) -> Value {
        let last = self.stages.len() - 1;
        let mut y = x;
        for (i, p) in self.stages.iter().enumerate() {
            let by = if i == last { factor } else { 1.0 };
            y = formula.series(y, &Chebyshev(p.0.iter().map(|c| c * by).collect()));
        }
        y
    }
}

/// The polynomials of the chain of so many levels, first to last; the last one has values around 1.
fn chain(
    reached: &[Option<(f64, usize, Chebyshev)>],
    mut levels: usize,
    error: f64,
) -> Vec<Chebyshev> {
    let mut stages = vec![];
    while let Some((next, depth, p)) = reached[levels].as_ref().filter(|_| levels > 0) {
        let centre = if stages.is_empty() { 2.0 / (1.0 + next) } else { 1.0 };
        stages.push(Chebyshev(p.0.iter().map(|c| c * centre).collect()));
        levels -= depth;
    }
    stages.reverse();
    // A gap that is near enough to 1 already.
    if stages.is_empty() {
        stages.push(best(2, 1.0 - error).0);
    }
    stages
}
