//! Searches over the parameters of an attack. [`local_minimum`], [`early_abort`] and [`bounded_minimum`] walk the
//! same points as the public lattice estimator does, because its figures depend on where its walk gets stuck; the
//! strict searches of the attacks scan whole ranges instead.
use super::Candidate;

/// The next step of the walk of [`local_minimum`].
#[derive(Clone, Copy, PartialEq)]
enum Stride {
    StepDown,
    StepUp,
    JumpDown,
    JumpUp,
}

/// Finds a local minimum of `cost` on the multiples of `grid` in [`start`, `stop`), then tries every point within
/// one grid step of it. The walk starts at the top, tests a neighbour to learn the direction and bisects that way.
/// `cost` is given the least cost so far and may return any larger value in place of the exact one.
pub fn local_minimum(
    (start, stop): (u32, u32),
    grid: u32,
    mut cost: impl FnMut(u32, f64) -> Candidate,
) -> Option<Candidate> {
    let lowest = i64::from(start.div_ceil(grid));
    let highest = i64::from(stop / grid) - 1;
    let (mut low, mut high) = (lowest, highest);
    let (mut x, mut stride) = (highest, Stride::StepDown);
    let mut seen = Vec::new();
    let mut best: Option<(i64, Candidate)> = None;
    while (lowest..=highest).contains(&x) && !seen.contains(&x) {
        seen.push(x);
        let limit = best.map_or(f64::INFINITY, |(_, c)| c.bits);
        let found = cost(x as u32 * grid, limit);
        if best.is_none() || found.bits <= limit {
            best = Some((x, found));
            (stride, x) = match stride {
                Stride::JumpDown | Stride::JumpUp => (Stride::StepDown, x - 1),
                Stride::StepDown => {
                    high = x;
                    (Stride::JumpDown, middle_up(low, high))
                }
                Stride::StepUp => {
                    low = x;
                    (Stride::JumpUp, (low + high).div_euclid(2))
                }
            };
        } else {
            (stride, x) = match stride {
                Stride::StepDown => (Stride::StepUp, x + 2),
                Stride::StepUp => break,
                Stride::JumpDown => {
                    low = x;
                    (stride, middle_up(low, high))
                }
                Stride::JumpUp => {
                    high = x;
                    (stride, (low + high).div_euclid(2))
                }
            };
        }
    }
    let (at, mut best) = best?;
    if grid > 1 {
        let centre = at as u32 * grid;
        for x in start.max(centre.saturating_sub(grid))..stop.min(centre + grid) {
            let found = cost(x, best.bits);
            if found.bits <= best.bits {
                best = found;
            }
        }
    }
    Some(best)
}

fn middle_up(low: i64, high: i64) -> i64 {
    low + (high - low + 1).div_euclid(2)
}

/// Walks `range` upwards in steps of `step` and stops at the first point that is worse than the best before it.
pub fn early_abort(
    range: std::ops::Range<u32>,
    step: u32,
    mut cost: impl FnMut(u32) -> Option<Candidate>,
) -> Option<Candidate> {
    let mut best: Option<Candidate> = None;
    for x in range.step_by(step as usize) {
        let Some(found) = cost(x) else { break };
        match best {
            Some(b) if found.bits > b.bits => break,
            _ => best = Some(found),
        }
    }
    best
}

/// The best of `best` and of 64 evenly spaced numbers of guesses in 0..n, then of numbers around the best of these at
/// ever smaller distances. `scan` takes a number of guesses and the best so far, and returns the better.
pub fn refine(
    n: u32,
    mut best: Candidate,
    mut scan: impl FnMut(u32, Candidate) -> Candidate,
) -> Candidate {
    let mut step = n / 64 + 1;
    for zeta in (0..n).step_by(step as usize) {
        best = scan(zeta, best);
    }
    while step > 1 {
        let centre = best.zeta;
        let range = centre.saturating_sub(2 * step)..(centre + 2 * step + 1).min(n);
        step = step.div_ceil(4);
        for zeta in range.step_by(step as usize) {
            best = scan(zeta, best);
        }
    }
    best
}

/// For a condition that fails up to some point of [`low`, `high`] and holds from there on, `high` included: a point
/// where it fails and one where it holds, at most `width` apart. `low` twice over if it holds already.
pub fn bisect(
    (mut low, mut high): (u32, u32),
    width: u32,
    mut holds: impl FnMut(u32) -> bool,
) -> (u32, u32) {
    if low >= high || holds(low) {
        return (low, low);
    }
    while high - low > width.max(1) {
        let middle = low.midpoint(high);
        if holds(middle) { high = middle } else { low = middle }
    }
    (low, high)
}

/// Brent's minimisation without derivatives on [a, b] (Brent 1973, chapter 5; the `fmin` of Forsythe, Malcolm and
/// Moler 1977): golden sections, replaced by the vertex of a parabola through the three best points where that
/// vertex is trustworthy. Returns the abscissa.
pub fn bounded_minimum(mut a: f64, mut b: f64, mut f: impl FnMut(f64) -> f64) -> f64 {
    const GOLDEN: f64 = 0.381_966_011_250_105_1;
    const TOLERANCE: f64 = 1e-5;
    const MAX_EVALUATIONS: usize = 500;
    let tolerance = |x: f64| 2.2e-16f64.sqrt() * x.abs() + TOLERANCE / 3.0;
    let start = a + GOLDEN * (b - a);
    let value = f(start);
    // The best, second best and previous second best points with their values.
    let (mut x, mut w, mut v) = ((start, value), (start, value), (start, value));
    let (mut step, mut before) = (0.0f64, 0.0f64);
    for _ in 1..MAX_EVALUATIONS {
        let (middle, tol) = (0.5 * (a + b), tolerance(x.0));
        if (x.0 - middle).abs() <= 2.0 * tol - 0.5 * (b - a) {
            break;
        }
        let toward = if middle >= x.0 { 1.0 } else { -1.0 };
        let vertex = (before.abs() > tol).then(|| parabola_step(x, w, v));
        let two_ago = std::mem::replace(&mut before, step);
        match vertex {
            Some((p, q))
                if p.abs() < (0.5 * q * two_ago).abs()
                    && p > q * (a - x.0)
                    && p < q * (b - x.0) =>
            {
                step = p / q;
                let u = x.0 + step;
                if u - a < 2.0 * tol || b - u < 2.0 * tol {
                    step = tol * toward;
                }
            }
            _ => {
                before = if x.0 >= middle { a - x.0 } else { b - x.0 };
                step = GOLDEN * before;
            }
        }
        let at = x.0 + step.abs().max(tol).copysign(step);
        let u = (at, f(at));
        if u.1 <= x.1 {
            if u.0 >= x.0 {
                a = x.0
            } else {
                b = x.0
            }
            (v, w, x) = (w, x, u);
        } else {
            if u.0 < x.0 {
                a = u.0
            } else {
                b = u.0
            }
            if u.1 <= w.1 || w.0 == x.0 {
                (v, w) = (w, u);
            } else if u.1 <= v.1 || v.0 == x.0 || v.0 == w.0 {
                v = u;
            }
        }
    }
    x.0
}

/// Numerator and (positive) denominator of the step from `x` to the vertex of the parabola through three points;
/// not a number where a value is infinite, which no comparison accepts.
fn parabola_step(x: (f64, f64), w: (f64, f64), v: (f64, f64)) -> (f64, f64) {
    let r = (x.0 - w.0) * (x.1 - v.1);
    let q = (x.0 - v.0) * (x.1 - w.1);
    let p = (x.0 - v.0) * q - (x.0 - w.0) * r;
    let q = 2.0 * (q - r);
    (if q > 0.0 { -p } else { p }, q.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bits: f64, x: u32) -> Candidate {
        Candidate { bits, beta: x, ..Candidate::default() }
    }

    #[test]
    fn local_minimum_finds_the_bottom_of_a_convex_curve() {
        for bottom in [40, 41, 44, 45, 333, 1000, 1740] {
            for grid in [1, 2, 5, 8] {
                let mut tried = 0;
                let found = local_minimum((40, 1754), grid, |x, _| {
                    tried += 1;
                    at(f64::from(x.abs_diff(bottom)), x)
                });
                assert_eq!(found.unwrap().beta, bottom, "grid {grid}");
                assert!(tried < 60);
            }
        }
        assert!(local_minimum((10, 10), 1, |x, _| at(0.0, x)).is_none());
    }

    #[test]
    fn early_abort_stops_at_the_first_rise() {
        let found = early_abort(0..100, 10, |x| {
            Some(at(if x == 40 { 0.0 } else { f64::from(x.abs_diff(15)) }, x))
        });
        assert_eq!(found.unwrap().beta, 20);
    }

    #[test]
    fn bounded_minimum_converges_and_survives_infinities() {
        let x = bounded_minimum(-3.0, 10.0, |x| (x - 1.25).powi(2));
        assert!((x - 1.25).abs() < 1e-4);
        let x = bounded_minimum(0.0, 100.0, |x| if x < 50.0 { f64::INFINITY } else { x });
        assert!(x.is_finite());
    }
}
