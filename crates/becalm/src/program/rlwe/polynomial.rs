//! The error of a polynomial of a register: that of its argument times its slope, and what its own steps add.
//!
//! p is evaluated by T_1, T_2, T_3, T_4, T_8, … and a division by the largest of them at each step (`ckks/chebyshev.rs`). Each of these
//! products is rounded once. An error of a product reaches the result times the derivative of p by that product, which is computed at
//! points of the interval, backwards through the evaluation.

use super::RlweInfo;
use super::steps::Steps;
use crate::cipher::{Account, Standing};
use crate::ckks::{CHEBYSHEV_LEAF, Chebyshev};
use std::collections::BTreeMap;
use std::f64::consts::PI;

/// Points of the interval for each degree.
const POINTS: usize = 8;

/// A power T_k that the evaluation makes, or its argument.
#[derive(Clone, Copy)]
struct Power {
    level: usize,
    scale: f64,
    /// The error of its own product: its standard deviation, and its bound.
    own: (f64, f64),
}

/// A polynomial of a register at a level and a scale, as it is evaluated.
pub(super) struct Evaluated<'a> {
    steps: Steps<'a>,
    p: &'a Chebyshev,
    powers: BTreeMap<usize, Power>,
    /// The level and the scale of the sum that is rescaled last.
    sum: (usize, f64),
}

/// At one point: derivatives of p by the powers, and what the products add.
#[derive(Default)]
struct Back {
    by: BTreeMap<usize, f64>,
    square: f64,
    bound: f64,
}

impl Back {
    /// A product of an own error whose derivative is `slope`.
    fn add(&mut self, (error, bound): (f64, f64), slope: f64) {
        self.square += (error * slope).powi(2);
        self.bound += bound * slope.abs();
    }
}

impl<'a> Evaluated<'a> {
    /// Of a register like `from`, at exactly `scale`. Recording has checked that there are levels.
    pub(super) fn new(steps: Steps<'a>, p: &'a Chebyshev, from: RlweInfo, scale: f64) -> Self {
        let one = Power { level: from.level, scale: from.scale, own: (0.0, 0.0) };
        let level = (from.level + 1).saturating_sub(p.depth());
        let sum = (level, scale * steps.chain.step(level));
        let mut made = Evaluated { steps, p, powers: BTreeMap::from([(1, one)]), sum };
        let mut k = 2;
        while k <= p.degree() {
            made.extend(k);
            if k == 2 && p.degree() > CHEBYSHEV_LEAF {
                made.extend(3);
            }
            k *= 2;
        }
        made
    }

    fn extend(&mut self, k: usize) {
        let (a, b) = halves(k);
        let (x, y) = (self.powers[&a], self.powers[&b]);
        let (level, scale) = (x.level.min(y.level), x.scale * y.scale);
        let own = self.steps.relinearized(level, scale);
        let made = Power {
            level: level.saturating_sub(1),
            scale: scale / self.steps.chain.step(level),
            own,
        };
        self.powers.insert(k, made);
    }

    /// The account of the result: for slots in [−1, 1], or nearer 0 if their bound is smaller.
    pub(super) fn account(&self, x: Account) -> Account {
        let degree = self.p.degree();
        // Errors lead a little beyond.
        let most = x.values.min(1.0) + x.worst.min(1.0 / (degree * degree) as f64);
        let points = POINTS * degree + 1;
        let [mut values, mut slope, mut own, mut worst] = [0f64; 4];
        for i in 0..points {
            let at = most * (PI * i as f64 / (points - 1) as f64).cos();
            let (value, back) = self.at(at);
            values = values.max(value.abs());
            slope = slope.max(back.by.get(&1).copied().unwrap_or(0.0).abs());
            own = own.max(back.square);
            worst = worst.max(back.bound);
        }
        // Between the points, p and its slope are larger by less than 1/cos(π/2·POINTS).
        let between = (PI / (2.0 * POINTS as f64)).cos().recip();
        let (values, slope) = (values * between, slope * between);
        // Both the slots and what they should be are in the interval.
        let error = (slope * x.error).min(2.0 * values);
        let bound = (slope * x.worst).min(2.0 * values);
        let made = Account { values, error, worst: bound, ..x }.but(Standing::POLYNOMIAL);
        made.blurred((own.sqrt(), worst))
    }

    /// The value at a point, and the derivatives there.
    fn at(&self, x: f64) -> (f64, Back) {
        let mut powers = BTreeMap::from([(1, x)]);
        for k in self.powers.keys().filter(|k| **k > 1) {
            let (a, b) = halves(*k);
            let less = if a == b { 1.0 } else { powers[&(a - b)] };
            powers.insert(*k, 2.0 * powers[&a] * powers[&b] - less);
        }
        let mut back = Back::default();
        let (level, scale) = self.sum;
        let value = self.sum(self.p, (level, scale), 1.0, &powers, &mut back);
        back.add(self.steps.relinearized(level, scale), 1.0);
        for (k, power) in self.powers.iter().rev().filter(|(k, _)| **k > 1) {
            let Some(slope) = back.by.get(k).copied() else { continue };
            back.add(power.own, slope);
            let (a, b) = halves(*k);
            *back.by.entry(a).or_default() += 2.0 * powers[&b] * slope;
            *back.by.entry(b).or_default() += 2.0 * powers[&a] * slope;
            if a != b {
                *back.by.entry(a - b).or_default() -= slope;
            }
        }
        (value, back)
    }

    /// p as a sum at a level and a scale, its derivative in the result being `slope`; its value.
    fn sum(
        &self,
        p: &Chebyshev,
        (level, scale): (usize, f64),
        slope: f64,
        powers: &BTreeMap<usize, f64>,
        back: &mut Back,
    ) -> f64 {
        let degree = p.degree();
        let there = |i: usize| self.powers.get(&i).is_some_and(|t| t.level >= level);
        if degree <= 1 || degree <= CHEBYSHEV_LEAF && (1..=degree).all(there) {
            let terms = (1..=degree).filter(|i| p.0[*i] != 0.0);
            return terms.fold(p.0[0], |sum, i| {
                self.multiple(i, p.0[i], scale, slope, powers, back);
                sum + p.0[i] * powers[&i]
            });
        }
        let k = 1 << degree.ilog2();
        let [quotient, remainder] = p.divided(k);
        let rest = self.sum(&remainder, (level, scale), slope, powers, back);
        if quotient.degree() == 0 {
            self.multiple(k, quotient.0[0], scale, slope, powers, back);
            return rest + quotient.0[0] * powers[&k];
        }
        let inner = scale / self.powers[&k].scale * self.steps.chain.step(level + 1);
        let value = self.sum(&quotient, (level + 1, inner), slope * powers[&k], powers, back);
        back.add(self.steps.relinearized(level + 1, inner), slope * powers[&k]);
        *back.by.entry(k).or_default() += slope * value;
        rest + value * powers[&k]
    }

    /// c·T_k in a sum of a scale, c rounded to an integer of the quotient of both.
    fn multiple(
        &self,
        k: usize,
        c: f64,
        scale: f64,
        slope: f64,
        powers: &BTreeMap<usize, f64>,
        back: &mut Back,
    ) {
        *back.by.entry(k).or_default() += slope * c;
        let off = 0.5 * self.powers[&k].scale / scale + c.abs() * f64::EPSILON;
        let off = off * (slope * powers[&k]).abs();
        back.square += off * off;
        back.bound += off;
    }
}

/// T_k is made of T_a and T_b.
fn halves(k: usize) -> (usize, usize) {
    let a = if k.is_power_of_two() { k / 2 } else { 1 << k.ilog2() };
    (a, k - a)
}
