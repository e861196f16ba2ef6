//! Chebyshev series of functions: the coefficients of f on an interval, cut where the error suffices.
//!
//! A series of degree d is within a factor (4/π²)·ln d + 4 of the best polynomial of that degree (Trefethen, Approximation Theory
//! and Approximation Practice, theorem 16.1). Errors are measured on 8 points for each degree, 2048 at the least.

use super::formula::{Formula, interval, precision};
use crate::ckks::Chebyshev;
use crate::{Error, Result};
use std::f64::consts::PI;

/// A function that is approximated; it may fail.
pub type Sampled<'a> = &'a mut dyn FnMut(f64) -> Result<f64>;

/// The highest degree: ten levels.
const MOST: usize = 1023;

/// Points on which errors are measured.
const POINTS: usize = 8192;

/// The aim of an approximation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// The least degree whose error is at most 2^-bits.
    Bits(f64),
    /// This degree.
    Degree(usize),
}

/// A series on an interval and its largest absolute error there.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    pub(super) domain: [f64; 2],
    pub(super) series: Chebyshev,
    pub(super) error: f64,
}

/// The point of [a, b] at `t` in [−1, 1].
pub(super) fn at([a, b]: [f64; 2], t: f64) -> f64 {
    0.5 * ((a + b) + (b - a) * t)
}

/// Points of [a, b]: as dense near each end as Chebyshev's, and near 0, where roots and distances bend, as dense by ratio as anywhere.
pub(super) fn points([a, b]: [f64; 2]) -> Vec<f64> {
    let round = (0..=POINTS).map(|i| at([a, b], (PI * i as f64 / POINTS as f64).cos()));
    let size = a.abs().max(b.abs());
    let near = |sign: f64| {
        (0..=POINTS).map(move |i| sign * size * (-40.0 * i as f64 / POINTS as f64).exp2())
    };
    let near = near(1.0).chain(near(-1.0)).filter(|x| (a..=b).contains(x));
    let zero = (a <= 0.0 && b >= 0.0).then_some(0.0);
    round.chain(near).chain(zero).chain([a, b]).map(|x| x.clamp(a, b)).collect()
}

fn sampled(f: Sampled<'_>, x: f64) -> Result<f64> {
    let y = f(x)?;
    if y.is_finite() {
        return Ok(y);
    }
    let (wanted, remedy) = ("a function that is finite on its domain", "choose another domain");
    Err(Error::bad_input("approximate", wanted, format!("{y} at {x}"), remedy))
}

/// The coefficients c_0 … c_(n−1) of the interpolation at n points of the first kind.
pub(super) fn interpolated(f: Sampled<'_>, domain: [f64; 2], n: usize) -> Result<Vec<f64>> {
    let angle = |k: usize| PI * (k as f64 + 0.5) / n as f64;
    let values = (0..n).map(|k| sampled(f, at(domain, angle(k).cos())));
    let values = values.collect::<Result<Vec<f64>>>()?;
    let coefficient = |i: usize| {
        // The angles repeat: cos(π·i·(2k + 1)/2n) has period 4n in i·(2k + 1).
        let turn = |k: usize| (PI * (i * (2 * k + 1) % (4 * n)) as f64 / (2 * n) as f64).cos();
        let sum: f64 = values.iter().enumerate().map(|(k, y)| y * turn(k)).sum();
        sum * if i == 0 { 1.0 } else { 2.0 } / n as f64
    };
    Ok((0..n).map(coefficient).collect())
}

/// Points on which errors are measured, and the function there.
fn dense(f: Sampled<'_>, domain: [f64; 2], degree: usize) -> Result<Vec<(f64, f64)>> {
    let count = (8 * degree).max(2048);
    let point = |k: usize| (PI * k as f64 / count as f64).cos();
    (0..=count).map(|k| Ok((point(k), sampled(f, at(domain, point(k)))?))).collect()
}

fn error_of(p: &Chebyshev, points: &[(f64, f64)]) -> f64 {
    points.iter().map(|(t, y)| (p.value(*t) - y).abs()).fold(0.0, f64::max)
}

/// The first coefficients; zero behind the last that is not.
fn cut(all: &[f64], degree: usize) -> Chebyshev {
    Chebyshev(all[..=degree.min(all.len() - 1)].to_vec())
}

pub(super) fn fit(f: Sampled<'_>, domain: [f64; 2], aim: Aim, most: usize) -> Result<Fit> {
    let op = "approximate";
    interval(op, domain, f64::NEG_INFINITY)?;
    let made = match aim {
        Aim::Degree(degree) if (1..=most).contains(&degree) => {
            let all = interpolated(f, domain, (4 * (degree + 1)).max(64))?;
            let series = cut(&all, degree);
            let error = error_of(&series, &dense(f, domain, degree)?);
            Fit { domain, series, error }
        }
        Aim::Degree(degree) => {
            let wanted = format!("a degree from 1 to {most}");
            return Err(Error::bad_input(op, wanted, degree.to_string(), "choose one of these"));
        }
        Aim::Bits(bits) => least(f, domain, precision(op, bits)?, most)?,
    };
    let size = |c: &[f64]| c.iter().fold(0.0_f64, |most, c| most.max(c.abs()));
    if size(&made.series.0[1..]) > 1e-14 * size(&made.series.0) {
        return Ok(made);
    }
    let (wanted, got) = ("a function that is not constant to this precision", "a constant");
    Err(Error::bad_input(op, wanted, got, "add the constant itself"))
}

/// The least degree with at most this error.
fn least(f: Sampled<'_>, domain: [f64; 2], error: f64, most: usize) -> Result<Fit> {
    let mut n = 64;
    let all = loop {
        let all = interpolated(f, domain, n)?;
        let tail: f64 = all[n / 2..].iter().map(|c| c.abs()).sum();
        if tail < error / 8.0 || n >= 4 * (most + 1) {
            break all;
        }
        n *= 2;
    };
    let most = most.min(n - 1);
    let points = dense(f, domain, most.min(n / 2))?;
    let at = |degree: usize| error_of(&cut(&all, degree), &points);
    // Not below the degree where the mean square alone is too large.
    let mut squares = 0.0;
    let above = (1..n).rev().take_while(|i| {
        squares += all[*i] * all[*i];
        (squares / 2.0_f64).sqrt() <= error
    });
    let mut low = above.last().map_or(n - 1, |i| i - 1).clamp(1, most);
    let mut high = most;
    if at(high) > error {
        let bits = -at(high).log2();
        let wanted =
            format!("a function that degree {most} approximates to {:.1} bits", -error.log2());
        let remedy = "narrow the domain, or ask for fewer bits";
        return Err(Error::bad_input("approximate", wanted, format!("{bits:.1} bits"), remedy));
    }
    // Most often the first few suffice.
    let near = (low..high.min(low + 4)).find(|degree| at(*degree) <= error);
    if let Some(degree) = near {
        (low, high) = (degree, degree);
    }
    while low < high {
        let middle = (low + high) / 2;
        if at(middle) <= error { high = middle } else { low = middle + 1 }
    }
    let series = cut(&all, high);
    let error = error_of(&series, &points);
    Ok(Fit { domain, series, error })
}

impl Fit {
    /// A fit of at most degree 1023.
    pub(super) fn new(f: Sampled<'_>, domain: [f64; 2], aim: Aim) -> Result<Fit> {
        fit(f, domain, aim, MOST)
    }

    /// The formula that evaluates it.
    pub(super) fn formula(&self) -> Formula {
        let mut formula = Formula::default();
        let x = formula.argument();
        // A line needs no interval of its own.
        let y = if self.series.degree() == 1 {
            let [a, b] = self.domain;
            let slope = 2.0 * self.series.0[1] / (b - a);
            let scaled = formula.scale(x, slope);
            formula.shift(scaled, self.series.0[0] - slope * 0.5 * (a + b))
        } else {
            let t = formula.mapped(x, self.domain);
            formula.series(t, &self.series)
        };
        formula.results = vec![y];
        formula
    }
}
