//! A formula: a straight line of steps on real vectors, written once and read three ways: on plain numbers, for the levels that it
//! takes, and into a program ([`record`](super::record)).
//!
//! Masks and matrices have a period. Vectors of a multiple of it are blocks that the formula treats alike.

use crate::ckks::{Chebyshev, Matrix};
use crate::math::complex::Complex;
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A value of a formula: an argument, or the result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value(pub(super) usize);

/// A step; its result is the value of its place.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// The next argument.
    Argument,
    /// x·c.
    Scale(Value, f64),
    /// x + c.
    Shift(Value, f64),
    /// Σ c_i·T_i(x).
    Series(Value, Chebyshev),
    /// x·y.
    Multiply(Value, Value),
    /// x + y.
    Add(Value, Value),
    /// x − y.
    Subtract(Value, Value),
    /// Σ x·y over pairs.
    Dot(Vec<(Value, Value)>),
    /// Slots moved to the left.
    Rotate(Value, i64),
    /// x times the values of a mask; one value stands for all slots.
    Mask(Value, Vec<f64>),
    /// x plus values.
    Offset(Value, Vec<f64>),
    /// A matrix times the slots.
    Linear(Value, Arc<Matrix>),
    /// In slot i the sum of so many slots from it on.
    Sum(Value, usize),
    /// The same value with so many levels, if there are bootstraps.
    Ready(Value, usize),
}

impl Step {
    pub(super) fn sources(&self) -> Vec<Value> {
        self.clone().sources_mut().into_iter().map(|v| *v).collect()
    }

    /// The values that it reads, to be exchanged.
    fn sources_mut(&mut self) -> Vec<&mut Value> {
        match self {
            Step::Argument => vec![],
            Step::Multiply(a, b) | Step::Add(a, b) | Step::Subtract(a, b) => vec![a, b],
            Step::Dot(pairs) => pairs.iter_mut().flat_map(|(a, b)| [a, b]).collect(),
            Step::Scale(x, _)
            | Step::Shift(x, _)
            | Step::Series(x, _)
            | Step::Rotate(x, _)
            | Step::Mask(x, _)
            | Step::Offset(x, _)
            | Step::Linear(x, _)
            | Step::Sum(x, _)
            | Step::Ready(x, _) => vec![x],
        }
    }

    /// Levels that it takes.
    pub(super) fn levels(&self) -> usize {
        match self {
            Step::Series(_, p) => p.depth(),
            Step::Scale(_, c) => usize::from(*c != -1.0),
            Step::Multiply(..) | Step::Dot(_) | Step::Mask(..) | Step::Linear(..) => 1,
            _ => 0,
        }
    }

    /// Products of two ciphertexts.
    fn products(&self) -> usize {
        match self {
            Step::Series(_, p) => p.products(),
            Step::Multiply(..) => 1,
            Step::Dot(pairs) => pairs.len(),
            _ => 0,
        }
    }
}

/// Steps, and which values are results.
#[derive(Debug, Clone, Default)]
pub(super) struct Formula {
    pub(super) steps: Vec<Step>,
    pub(super) results: Vec<Value>,
}

impl Formula {
    pub(super) fn push(&mut self, step: Step) -> Value {
        self.steps.push(step);
        Value(self.steps.len() - 1)
    }

    pub(super) fn argument(&mut self) -> Value {
        self.push(Step::Argument)
    }

    pub(super) fn scale(&mut self, x: Value, by: f64) -> Value {
        if by == 1.0 { x } else { self.push(Step::Scale(x, by)) }
    }

    pub(super) fn shift(&mut self, x: Value, by: f64) -> Value {
        if by == 0.0 { x } else { self.push(Step::Shift(x, by)) }
    }

    /// x with so many levels, if there are bootstraps.
    pub(super) fn ready(&mut self, x: Value, levels: usize) -> Value {
        self.push(Step::Ready(x, levels))
    }

    pub(super) fn multiply(&mut self, a: Value, b: Value) -> Value {
        self.push(Step::Multiply(a, b))
    }

    pub(super) fn add(&mut self, a: Value, b: Value) -> Value {
        self.push(Step::Add(a, b))
    }

    pub(super) fn subtract(&mut self, a: Value, b: Value) -> Value {
        self.push(Step::Subtract(a, b))
    }

    pub(super) fn rotate(&mut self, x: Value, by: i64) -> Value {
        if by == 0 { x } else { self.push(Step::Rotate(x, by)) }
    }

    pub(super) fn mask(&mut self, x: Value, values: Vec<f64>) -> Value {
        self.push(Step::Mask(x, values))
    }

    pub(super) fn series(&mut self, x: Value, p: &Chebyshev) -> Value {
        self.push(Step::Series(x, p.clone()))
    }

    /// x mapped from an interval to [−1, 1]: one level, unless the interval has length 2.
    pub(super) fn mapped(&mut self, x: Value, [a, b]: [f64; 2]) -> Value {
        let scaled = self.scale(x, 2.0 / (b - a));
        self.shift(scaled, -(a + b) / (b - a))
    }

    /// The result of a formula of one argument, in the place of its steps here.
    pub(super) fn inlined(&mut self, part: &Formula, x: Value) -> Value {
        let mut own: Vec<Value> = Vec::with_capacity(part.steps.len());
        for step in &part.steps {
            let made = match step {
                Step::Argument => x,
                step => {
                    let mut moved = step.clone();
                    moved.sources_mut().into_iter().for_each(|v| *v = own[v.0]);
                    self.push(moved)
                }
            };
            own.push(made);
        }
        part.results.first().map_or(x, |v| own[v.0])
    }

    /// In slot i the sum of `size` slots from it on, `stride` apart: rotations by stride·2^j.
    pub(super) fn sum(&mut self, x: Value, size: usize, stride: usize) -> Value {
        if stride == 1 {
            return if size == 1 { x } else { self.push(Step::Sum(x, size)) };
        }
        let turns = (0..size.ilog2()).map(|j| (stride << j) as i64);
        turns.fold(x, |sum, by| {
            let turned = self.rotate(sum, by);
            self.add(sum, turned)
        })
    }

    /// Number of arguments.
    pub(super) fn arguments(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Argument)).count()
    }

    /// Levels from an argument to each value.
    fn depths(&self) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let before = step.sources().iter().map(|v| depths[v.0]).max().unwrap_or(0);
            depths.push(before + step.levels());
        }
        depths
    }

    /// Levels that it takes from its arguments to its results.
    pub(super) fn levels(&self) -> usize {
        let depths = self.depths();
        self.results.iter().map(|v| depths[v.0]).max().unwrap_or(0)
    }

    /// Products of two ciphertexts.
    pub(super) fn products(&self) -> usize {
        self.steps.iter().map(Step::products).sum()
    }

    /// The rotations that it needs keys for, in vectors of so many slots.
    pub(super) fn rotations(&self, slots: usize) -> Vec<i64> {
        let mut found = BTreeSet::new();
        for step in &self.steps {
            match step {
                Step::Rotate(_, by) => {
                    found.insert(by.rem_euclid(slots as i64));
                }
                Step::Sum(_, size) => found.extend((0..size.ilog2()).map(|j| 1 << j)),
                Step::Linear(_, matrix) => {
                    let matrix = matrix.repeated(slots.max(matrix.slots()));
                    found.extend(matrix.keys(matrix.balanced()));
                }
                _ => {}
            }
        }
        found.remove(&0);
        found.into_iter().collect()
    }

    /// The results for plain numbers, all vectors of one length, which is a multiple of every period.
    pub(super) fn clear(&self, arguments: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut given = arguments.iter();
        let mut made: Vec<Vec<f64>> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let of = |v: &Value| &made[v.0];
            let each = |v: &Value, f: &dyn Fn(f64) -> f64| of(v).iter().map(|x| f(*x)).collect();
            let both = |a: &Value, b: &Value, f: &dyn Fn(f64, f64) -> f64| {
                of(a).iter().zip(of(b)).map(|(x, y)| f(*x, *y)).collect()
            };
            let next: Vec<f64> = match step {
                Step::Argument => given.next().cloned().unwrap_or_default(),
                Step::Scale(x, c) => each(x, &|x| x * c),
                Step::Shift(x, c) => each(x, &|x| x + c),
                Step::Series(x, p) => each(x, &|x| p.value(x)),
                Step::Multiply(a, b) => both(a, b, &|x, y| x * y),
                Step::Add(a, b) => both(a, b, &|x, y| x + y),
                Step::Subtract(a, b) => both(a, b, &|x, y| x - y),
                Step::Ready(x, _) => of(x).clone(),
                Step::Rotate(x, by) => turned(of(x), *by),
                Step::Mask(x, m) => {
                    of(x).iter().zip(m.iter().cycle()).map(|(x, m)| x * m).collect()
                }
                Step::Offset(x, m) => {
                    of(x).iter().zip(m.iter().cycle()).map(|(x, m)| x + m).collect()
                }
                Step::Sum(x, size) => {
                    let add = |mut sum: Vec<f64>, by: i64| {
                        turned(of(x), by).iter().zip(&mut sum).for_each(|(x, s)| *s += x);
                        sum
                    };
                    (1..*size as i64).fold(of(x).clone(), add)
                }
                Step::Dot(pairs) => pairs.iter().fold(vec![], |sum: Vec<f64>, (a, b)| {
                    let product = both(a, b, &|x, y| x * y);
                    if sum.is_empty() {
                        product
                    } else {
                        sum.iter().zip(&product).map(|(a, b)| a + b).collect()
                    }
                }),
                Step::Linear(x, matrix) => {
                    let x: Vec<Complex> = of(x).iter().map(|x| Complex::from(*x)).collect();
                    matrix.repeated(x.len()).apply(&x).iter().map(|x| x.re).collect()
                }
            };
            made.push(next);
        }
        self.results.iter().map(|v| made[v.0].clone()).collect()
    }

    /// The results for single numbers, each of one argument.
    pub(super) fn of(&self, arguments: &[&[f64]]) -> Vec<f64> {
        let vectors: Vec<Vec<f64>> = arguments.iter().map(|x| x.to_vec()).collect();
        self.clear(&vectors).into_iter().next().unwrap_or_default()
    }
}

/// Slots moved to the left.
fn turned(x: &[f64], by: i64) -> Vec<f64> {
    let mut out = x.to_vec();
    out.rotate_left(by.rem_euclid(x.len().max(1) as i64) as usize);
    out
}

/// An interval of finite numbers that is not empty.
pub(super) fn interval(op: &'static str, domain: [f64; 2], least: f64) -> Result<()> {
    let [a, b] = domain;
    if a.is_finite() && b.is_finite() && a < b && a >= least {
        return Ok(());
    }
    let above = match least {
        f64::NEG_INFINITY => "",
        0.0 => ", from 0 up",
        _ => ", above 0",
    };
    let (wanted, got) = (format!("a domain of two ends a < b{above}"), format!("({a}, {b})"));
    Err(Error::bad_input(
        op,
        wanted,
        got,
        "name the least value and the largest, such as 0.1 and 1",
    ))
}

/// Bits of the error that may be asked for.
pub(super) fn precision(op: &'static str, bits: f64) -> Result<f64> {
    if bits.is_finite() && (1.0..=40.0).contains(&bits) {
        return Ok((-bits).exp2());
    }
    let remedy = "bits are -log2 of the largest absolute error";
    Err(Error::bad_input(op, "from 1 to 40 bits", bits.to_string(), remedy))
}
