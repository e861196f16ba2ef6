//! Sums, copies and products of matrices between the slots of encrypted vectors.
//!
//! A matrix of d rows and columns stands row by row in d² slots, or in blocks of d² slots that repeat it. C = A·B by Jiang–Kim–
//! Lauter–Song 2018 (ia.cr/2018/1041): A with row i turned by i, B with column j turned by j, then Σ_k of A with its columns turned
//! by k times B with its rows turned by k. The turns go step by step, so that few keys serve any d.

use super::Function;
use super::formula::{Formula, Step, Value};
use crate::ckks::Matrix;
use crate::math::complex::Complex;
use crate::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

fn sized(op: &'static str, size: usize) -> Result<()> {
    if size.is_power_of_two() && size <= 1 << 16 {
        return Ok(());
    }
    let remedy = "fill the vector with zeros to a power of two";
    Err(Error::bad_input(op, "a power of two of slots", size.to_string(), remedy))
}

/// In slot i the sum of slots i, i + stride, …, of `size` slots, counted around.
///
/// # Errors
/// `BadInput` for a size that is not a power of two.
pub fn sum(size: usize, stride: usize) -> Result<Function> {
    let mut formula = Formula::default();
    strided("sum", size, stride)?;
    let x = formula.argument();
    let y = formula.sum(x, size, stride);
    formula.results = vec![y];
    Ok(Function::exact("sum", formula, 1))
}

fn strided(op: &'static str, size: usize, stride: usize) -> Result<()> {
    sized(op, size)?;
    if (1..=1 << 16).contains(&stride) {
        return Ok(());
    }
    let remedy = "1 sums neighbours";
    Err(Error::bad_input(op, "a stride from 1 to 2^16", stride.to_string(), remedy))
}

/// The mean of the slots that [`sum`] adds up.
///
/// # Errors
/// As [`sum`].
pub fn mean(size: usize, stride: usize) -> Result<Function> {
    let mut formula = Formula::default();
    strided("mean", size, stride)?;
    let x = formula.argument();
    let y = formula.sum(x, size, stride);
    let y = formula.scale(y, 1.0 / size as f64);
    formula.results = vec![y];
    Ok(Function::exact("mean", formula, 1))
}

/// Every block of `size` slots filled with the value of its slot `index`.
///
/// # Errors
/// `BadInput` for a size that is not a power of two, and an index beyond it.
pub fn replicate(size: usize, index: usize) -> Result<Function> {
    let op = "replicate";
    sized(op, size)?;
    if index >= size {
        let (wanted, got) = (format!("an index below {size}"), index.to_string());
        return Err(Error::bad_input(op, wanted, got, "slots are counted from 0"));
    }
    let mut formula = Formula::default();
    let x = formula.argument();
    let alone = formula.mask(x, (0..size).map(|i| f64::from(i == index)).collect());
    // Its sums look ahead: at the end of a block every slot of the block sees it.
    let last = formula.rotate(alone, index as i64 - (size as i64 - 1));
    let y = formula.sum(last, size, 1);
    formula.results = vec![y];
    Ok(Function::exact(op, formula, size))
}

/// The values of `count` slots from `from` on, moved to slot `to`; zeros elsewhere. Vectors have `slots` slots.
///
/// # Errors
/// `BadInput` for values that are not there or have no place.
pub fn placed(slots: usize, from: usize, count: usize, to: usize) -> Result<Function> {
    let op = "slice";
    sized(op, slots)?;
    let mut formula = Formula::default();
    let x = formula.argument();
    let y = place(op, &mut formula, x, slots, from..from.saturating_add(count), to)?;
    formula.results = vec![y];
    Ok(Function::exact(op, formula, slots))
}

/// The first values of several vectors of `slots` slots, as many of each as `counts` say, one after the other; zeros behind them.
///
/// # Errors
/// `BadInput` for no vectors, and for values that are not there or have no place.
pub fn concatenate(slots: usize, counts: &[usize]) -> Result<Function> {
    let op = "concatenate";
    sized(op, slots)?;
    let mut formula = Formula::default();
    let vectors: Vec<Value> = counts.iter().map(|_| formula.argument()).collect();
    let (mut at, mut joined) = (0usize, None);
    for (x, count) in vectors.into_iter().zip(counts) {
        let part = place(op, &mut formula, x, slots, 0..*count, at)?;
        joined = Some(joined.map_or(part, |sum| formula.add(sum, part)));
        at = at.saturating_add(*count);
    }
    let Some(joined) = joined else {
        return Err(Error::bad_input(op, "one vector or more", "none", "pass a list of them"));
    };
    formula.results = vec![joined];
    Ok(Function::exact(op, formula, slots))
}

/// The values of some slots of x, moved to slot `to`; zeros elsewhere.
fn place(
    op: &'static str,
    formula: &mut Formula,
    x: Value,
    slots: usize,
    from: Range<usize>,
    to: usize,
) -> Result<Value> {
    let fits = from.end <= slots && to.checked_add(from.len()).is_some_and(|end| end <= slots);
    if !fits {
        let got = format!("{} from {} to {to}", from.len(), from.start);
        let wanted = format!("at most {slots} slots");
        return Err(Error::bad_input(op, wanted, got, "take fewer values"));
    }
    let alone = formula.mask(x, (0..slots).map(|i| f64::from(from.contains(&i))).collect());
    Ok(formula.rotate(alone, from.start as i64 - to as i64))
}

/// The largest matrices: 256 rows in 2^16 slots.
fn square(op: &'static str, size: usize) -> Result<()> {
    if size.is_power_of_two() && (2..=256).contains(&size) {
        return Ok(());
    }
    let remedy = "fill the matrix with zeros to a power of two";
    Err(Error::bad_input(op, "a power of two of rows from 2 to 256", size.to_string(), remedy))
}

/// The permutation in which slot a takes the value of slot `from(a)`, if it takes one.
fn permutation(slots: usize, from: impl Fn(usize) -> Option<usize>) -> Arc<Matrix> {
    let mut matrix = Matrix::zero(slots);
    for a in 0..slots {
        if let Some(b) = from(a) {
            matrix.diagonal(b as i64 - a as i64)[a] = Complex::from(1.0);
        }
    }
    Arc::new(matrix)
}

/// The product of two matrices of `size` rows and columns: three levels.
///
/// # Errors
/// `BadInput` for a size that is not a power of two from 2 to 256.
pub fn matrix_product(size: usize) -> Result<Function> {
    let (op, d) = ("matrix_product", size);
    square(op, size)?;
    let mut formula = Formula::default();
    let (a, b) = (formula.argument(), formula.argument());
    let rows = permutation(d * d, |s| Some(s / d * d + (s / d + s % d) % d));
    let columns = permutation(d * d, |s| Some((s / d + s % d) % d * d + s % d));
    let mut left = formula.push(Step::Linear(a, rows));
    let mut right = formula.push(Step::Linear(b, columns));
    let mut pairs = vec![];
    for k in 0..d {
        if k > 0 {
            (left, right) = (formula.rotate(left, 1), formula.rotate(right, d as i64));
        }
        // The columns that went around come from the row before.
        let mask = |keep: &dyn Fn(usize) -> bool| (0..d).map(|j| f64::from(keep(j))).collect();
        let mut turned = formula.mask(left, mask(&|j| j < d - k));
        if k > 0 {
            let around = formula.rotate(left, -(d as i64));
            let around = formula.mask(around, mask(&|j| j >= d - k));
            turned = formula.add(turned, around);
        }
        pairs.push((turned, right));
    }
    let product = formula.push(Step::Dot(pairs));
    formula.results = vec![product];
    Ok(Function::exact(op, formula, d * d))
}

/// A matrix of `size` rows and columns times a vector, which stands in the first slots of a block with zeros behind it, as the result
/// does: two levels.
///
/// # Errors
/// As [`matrix_product`].
pub fn matrix_vector(size: usize) -> Result<Function> {
    let (op, d) = ("matrix_vector", size);
    square(op, size)?;
    let mut formula = Formula::default();
    let (a, x) = (formula.argument(), formula.argument());
    // The vector in every row.
    let mut rows = x;
    for by in (0..d.ilog2()).map(|j| -((d << j) as i64)) {
        let turned = formula.rotate(rows, by);
        rows = formula.add(rows, turned);
    }
    let product = formula.multiply(a, rows);
    let sums = formula.sum(product, d, 1);
    let gathered = permutation(d * d, |s| (s < d).then_some(s * d));
    let y = formula.push(Step::Linear(sums, gathered));
    formula.results = vec![y];
    Ok(Function::exact(op, formula, d * d))
}
