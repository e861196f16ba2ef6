//! Functions of one real value: a Chebyshev series where its degree is at most 511, else a series that iterations refine.
//!
//! 1/x: e = T(l(x))/T(l(0)) is the least error 1 − x·y of a polynomial y of its degree less one, so y = (1 − e)/x is one too, and
//! y·Π(1 + e^(2^i)) follows with one level for each factor (Goldschmidt). 1/√x: y ← y·(3 − x·y²)/2 in two levels (Newton).

use super::Function;
use super::fit::{Aim, Fit, fit, interpolated, points};
use super::formula::{Formula, Value, interval, precision};
use super::sign::{Sign, odd_cubic, out_of_reach, require_gap};
use crate::ckks::Chebyshev;
use crate::{Error, Result};

/// The highest degree of a series that nothing refines: nine levels.
const DIRECT: usize = 511;
/// Most levels of the series that iterations begin with.
const FIRST: usize = 8;
/// Most iterations.
const ITERATIONS: usize = 40;
/// The largest error over the largest that is measured: peaks lie between the points.
pub(super) const MARGIN: f64 = 1.125;

/// The largest absolute error of a formula on a domain, with [`MARGIN`].
pub(super) fn error_of(formula: &Formula, domain: [f64; 2], f: impl Fn(f64) -> f64) -> f64 {
    let x = points(domain);
    let y = formula.of(&[&x]);
    let each = x.iter().zip(&y).map(|(x, y)| (y - f(*x)).abs());
    let worst: f64 = each.fold(0.0, |most, e| if e.is_nan() { f64::INFINITY } else { most.max(e) });
    MARGIN * worst
}

/// A function by its series.
fn series(
    name: &'static str,
    f: impl Fn(f64) -> f64,
    domain: [f64; 2],
    bits: f64,
) -> Result<Function> {
    precision(name, bits)?;
    interval(name, domain, f64::NEG_INFINITY)?;
    let fit = Fit::new(&mut |x| Ok(f(x)), domain, Aim::Bits(bits)).map_err(|e| e.of(name))?;
    Ok(Function::of_one(name, fit.formula(), domain, fit.error))
}

/// Any function by its series.
///
/// # Errors
/// `BadInput` for a domain that is no interval, a degree above 1023, bits that such a degree does not reach, and a function that is
/// constant; the errors of `f`.
///
/// ```
/// use becalm::apps::real::{Aim, approximate};
///
/// let cos = approximate("cos", &mut |x| Ok(x.cos()), [-3.0, 3.0], Aim::Bits(20.0))?;
/// assert!(cos.error() <= 2f64.powi(-20));
/// assert_eq!(cos.levels(), 5);
/// # Ok::<(), becalm::Error>(())
/// ```
pub fn approximate(
    name: &str,
    f: &mut dyn FnMut(f64) -> Result<f64>,
    domain: [f64; 2],
    aim: Aim,
) -> Result<Function> {
    let fit = Fit::new(f, domain, aim)?;
    Ok(Function::of_one(name, fit.formula(), domain, fit.error))
}

/// 1/(1 + e^−x).
///
/// # Errors
/// As [`approximate`].
pub fn sigmoid(domain: [f64; 2], bits: f64) -> Result<Function> {
    series("sigmoid", |x| 1.0 / (1.0 + (-x).exp()), domain, bits)
}

/// The hyperbolic tangent.
///
/// # Errors
/// As [`approximate`].
pub fn tanh(domain: [f64; 2], bits: f64) -> Result<Function> {
    series("tanh", f64::tanh, domain, bits)
}

/// e^x.
///
/// # Errors
/// As [`approximate`].
pub fn exp(domain: [f64; 2], bits: f64) -> Result<Function> {
    series("exp", f64::exp, domain, bits)
}

/// The formula with the fewest levels, then products, of those whose error suffices.
fn cheapest(
    op: &'static str,
    formulas: impl IntoIterator<Item = Formula>,
    (domain, bits): ([f64; 2], f64),
    error: f64,
    f: impl Fn(f64) -> f64 + Copy,
) -> Result<Function> {
    let measured = formulas.into_iter().map(|formula| (error_of(&formula, domain, f), formula));
    let mut fitting: Vec<(f64, Formula)> = measured.filter(|(e, _)| *e <= error).collect();
    fitting.sort_by_key(|(_, formula)| (formula.levels(), formula.products()));
    let Some((measured, formula)) = fitting.into_iter().next() else {
        let wanted = format!("a domain and bits that {ITERATIONS} iterations reach");
        let [a, b] = domain;
        let got = format!("({a}, {b}) and {bits} bits");
        let remedy = "narrow the domain, or ask for fewer bits";
        return Err(Error::bad_input(op, wanted, got, remedy));
    };
    Ok(Function::of_one(op, formula, domain, measured))
}

/// The series alone, if its degree is not too high.
fn direct(f: impl Fn(f64) -> f64, domain: [f64; 2], bits: f64) -> Option<Formula> {
    fit(&mut |x| Ok(f(x)), domain, Aim::Bits(bits + MARGIN.log2()), DIRECT)
        .ok()
        .map(|fit| fit.formula())
}

/// The first number of iterations whose error suffices.
fn iterated(
    formula: impl Fn(usize) -> Formula,
    domain: [f64; 2],
    error: f64,
    f: impl Fn(f64) -> f64,
) -> Option<Formula> {
    let enough = |formula: &Formula| error_of(formula, domain, &f) <= error;
    (1..=ITERATIONS).map(formula).find(enough)
}

/// 1/x for positive x.
///
/// # Errors
/// `BadInput` for a domain that does not lie above 0, or that is too wide for the bits.
pub fn inverse(domain: [f64; 2], bits: f64) -> Result<Function> {
    let (op, f) = ("inverse", |x: f64| 1.0 / x);
    let error = precision(op, bits)?;
    interval(op, domain, f64::MIN_POSITIVE)?;
    let mut formulas = Vec::from_iter(direct(f, domain, bits));
    if formulas.is_empty() {
        for depth in 2..=FIRST {
            let parts = goldschmidt(domain, depth)?;
            formulas.extend(iterated(|n| refined(&parts, domain, n), domain, error, f));
        }
    }
    cheapest(op, formulas, (domain, bits), error, f)
}

/// The first approximation of a/x, and its error.
fn goldschmidt(domain: [f64; 2], depth: usize) -> Result<[Chebyshev; 2]> {
    let [a, b] = domain;
    let degree = (1 << depth) - 1;
    let mut error = vec![0.0; degree + 1];
    error[degree] = 1.0;
    // T at l(0), which lies outside of [−1, 1].
    let outside = Chebyshev(error.clone()).value(-(a + b) / (b - a));
    error[degree] = 1.0 / outside;
    let first = interpolated(&mut |x| Ok(a / x), domain, degree)?;
    Ok([Chebyshev(first), Chebyshev(error)])
}

fn refined(parts: &[Chebyshev; 2], domain: [f64; 2], iterations: usize) -> Formula {
    let mut formula = Formula::default();
    let x = formula.argument();
    let t = formula.mapped(x, domain);
    let mut y = formula.series(t, &parts[0]);
    let mut error = formula.series(t, &parts[1]);
    for i in 0..iterations {
        if i > 0 {
            error = formula.multiply(error, error);
        }
        let factor = formula.shift(error, 1.0);
        y = formula.multiply(y, factor);
    }
    let y = formula.scale(y, 1.0 / domain[0]);
    formula.results = vec![y];
    formula
}

/// 1/√x for positive x.
///
/// # Errors
/// As [`inverse`].
pub fn inverse_sqrt(domain: [f64; 2], bits: f64) -> Result<Function> {
    let (op, f) = ("inverse_sqrt", |x: f64| 1.0 / x.sqrt());
    let error = precision(op, bits)?;
    interval(op, domain, f64::MIN_POSITIVE)?;
    let formulas = roots(f, domain, bits, error, |formula, _, y| y_of(formula, y, domain))?;
    cheapest(op, formulas, (domain, bits), error, f)
}

fn y_of(formula: &mut Formula, y: Value, domain: [f64; 2]) -> Value {
    formula.scale(y, 1.0 / domain[0].sqrt())
}

/// √x for x of 0 or above.
///
/// # Errors
/// As [`inverse`], but that the domain may begin at 0.
pub fn sqrt(domain: [f64; 2], bits: f64) -> Result<Function> {
    let (op, f) = ("sqrt", |x: f64| x.max(0.0).sqrt());
    let error = precision(op, bits)?;
    interval(op, domain, 0.0)?;
    // √x is small where x is: from there on the error of 0 suffices.
    let least = domain[0].max((error / 2.0).powi(2));
    let iterated = [least, domain[1]];
    let formulas = roots(f, domain, bits, error, |formula, x, y| {
        let y = y_of(formula, y, iterated);
        formula.multiply(x, y)
    })?;
    cheapest(op, formulas, (domain, bits), error, f)
}

/// The series of f alone, or formulas that make y = √a/√x by iterations, and the result of it and x.
fn roots(
    f: impl Fn(f64) -> f64 + Copy,
    domain: [f64; 2],
    bits: f64,
    error: f64,
    result: impl Fn(&mut Formula, Value, Value) -> Value,
) -> Result<Vec<Formula>> {
    let mut formulas = Vec::from_iter(direct(f, domain, bits));
    if !formulas.is_empty() {
        return Ok(formulas);
    }
    let least = domain[0].max((error / 2.0).powi(2));
    for depth in 2..=FIRST {
        let Some(root) = Root::new([least, domain[1]], depth)? else { continue };
        let formula = |n| {
            let mut formula = Formula::default();
            let x = formula.argument();
            let y = root.record(&mut formula, x, n);
            let y = result(&mut formula, x, y);
            formula.results = vec![y];
            formula
        };
        formulas.extend(iterated(formula, domain, error, f));
    }
    Ok(formulas)
}

/// √a/√x on [a, b]: a series of √a/√(x + s), which is positive, and steps y ← (c + d·x·y²)·y with c and d that are best for what is
/// left, as those of a [`Sign`] are for y·√x.
struct Root {
    domain: [f64; 2],
    first: Chebyshev,
    /// The least y·√x of the series, and the largest.
    range: [f64; 2],
}

impl Root {
    /// With a series of so many levels; none if these do not suffice for any s.
    fn new(domain: [f64; 2], depth: usize) -> Result<Option<Root>> {
        let [least, most] = domain;
        // Where errors are measured, an eighth of the points: the steps that follow forgive.
        let x: Vec<f64> = points(domain).into_iter().step_by(8).chain(domain).collect();
        let mut found = None;
        for shift in (0..40).map(|j| most / f64::from(j).exp2()) {
            let aim = Aim::Degree((1 << depth) - 1);
            let first = fit(&mut |x| Ok((least / (x + shift)).sqrt()), domain, aim, DIRECT)?.series;
            let value = |x: f64| first.value((2.0 * x - least - most) / (most - least));
            let ratio = |x: f64| value(x) * ((x + shift) / least).sqrt();
            if x.iter().any(|x| (ratio(*x) - 1.0).abs() > 0.3) {
                break;
            }
            let sizes = x.iter().map(|x| value(*x) * (x / least).sqrt());
            let grow = |[low, high]: [f64; 2], v: f64| [v.min(low), v.max(high)];
            let range = sizes.fold([f64::INFINITY, 0.0], grow);
            found = Some(Root { domain, first, range });
        }
        Ok(found)
    }

    /// y after so many steps.
    fn record(&self, formula: &mut Formula, x: Value, steps: usize) -> Value {
        let ([least, _], [low, high]) = (self.domain, self.range);
        let t = formula.mapped(x, self.domain);
        let first = Chebyshev(self.first.0.iter().map(|c| c / high).collect());
        let mut y = formula.series(t, &first);
        let mut gap = low / high;
        for step in 1..=steps {
            let (odd, next) = odd_cubic(gap, step == steps);
            gap = next;
            let (x, below) = (formula.ready(x, 3), formula.ready(y, 2));
            let part = formula.scale(x, odd[1] / least);
            let (part, square) = (formula.multiply(part, below), formula.multiply(below, below));
            let (part, more) = (formula.multiply(part, square), formula.scale(below, odd[0]));
            y = formula.add(more, part);
        }
        y
    }
}

/// The sign: −1 or 1, or between them for |x| below `gap`.
///
/// # Errors
/// `BadInput` for a gap that is not between 2^-24 and 1, and bits that no chain of 80 levels reaches.
pub fn sign(domain: [f64; 2], gap: f64, bits: f64) -> Result<Function> {
    let op = "sign";
    let error = precision(op, bits)?;
    interval(op, domain, f64::NEG_INFINITY)?;
    let width = domain[0].abs().max(domain[1].abs());
    require_gap(op, gap, width)?;
    let chain =
        Sign::new(gap / width, error / MARGIN).ok_or_else(|| out_of_reach(op, Some(gap), bits))?;
    let mut formula = Formula::default();
    let x = formula.argument();
    let x = formula.scale(x, 1.0 / width);
    let y = chain.record(&mut formula, x, 1.0);
    formula.results = vec![y];
    let measured = error_of(&formula, [gap, width], |_| 1.0);
    if measured > error {
        return Err(out_of_reach(op, Some(gap), bits));
    }
    Ok(Function::of_one(op, formula, domain, measured).beyond(gap))
}

/// |x|·`factor` for |x| of at most `width`, to `error`: a series or x·sign(x), whichever takes fewer levels; none where neither reaches
/// it.
pub(super) fn distance(width: f64, factor: f64, error: f64) -> Option<Formula> {
    let f = |x: f64| factor * x.abs();
    let domain = [-width, width];
    let own = error / (factor * width);
    let bits = MARGIN.log2() - error.log2();
    let mut formulas = Vec::from_iter(
        fit(&mut |x| Ok(f(x)), domain, Aim::Bits(bits), 127).ok().map(|fit| fit.formula()),
    );
    for wider in [8.0, 4.0, 2.0, 1.0] {
        let gap = own * wider;
        if gap >= 0.5 {
            continue;
        }
        let Some(chain) = Sign::new(gap, own / MARGIN) else { continue };
        let mut formula = Formula::default();
        let x = formula.argument();
        let scaled = formula.scale(x, 1.0 / width);
        let sign = chain.record(&mut formula, scaled, factor);
        let y = formula.multiply(x, sign);
        formula.results = vec![y];
        formulas.push(formula);
    }
    let measured = formulas.into_iter().map(|formula| (error_of(&formula, domain, f), formula));
    let fitting = measured.filter(|(e, _)| *e <= error);
    let found = fitting.min_by_key(|(_, formula)| (formula.levels(), formula.products()));
    found.map(|(_, formula)| formula)
}

/// |x|.
///
/// # Errors
/// `BadInput` for bits that no chain of polynomials reaches.
pub fn absolute(domain: [f64; 2], bits: f64) -> Result<Function> {
    let op = "absolute";
    let error = precision(op, bits)?;
    interval(op, domain, f64::NEG_INFINITY)?;
    let width = domain[0].abs().max(domain[1].abs());
    let formula = distance(width, 1.0, error).ok_or_else(|| out_of_reach(op, None, bits))?;
    let measured = error_of(&formula, domain, f64::abs);
    Ok(Function::of_one(op, formula, domain, measured))
}
