//! Intervals of 99 % for what is measured: variances, means, proportions, shapes; and the tail of the normal law.
//!
//! Samples under one key are not independent: a balanced digit has mean −1/2, so every sample holds the same half of the
//! key's noise, and a key of more ones lets more rounding through. Samples therefore come in groups of one key, and an
//! interval is Student's over the groups, which are independent. One interval in a hundred misses by chance.
//! Source of the formulas: Abramowitz and Stegun, *Handbook of Mathematical Functions*.

use serde::Serialize;
use std::fmt;

/// Two-sided probability outside an interval.
pub const OUTSIDE: f64 = 0.01;

/// An interval that holds the true value with 99 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `x` lies in it, ends included.
    pub fn contains(self, x: f64) -> bool {
        (self.low..=self.high).contains(&x)
    }

    /// Both ends times `by`, a positive number.
    pub fn scale(self, by: f64) -> Self {
        Interval { low: self.low * by, high: self.high * by }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} … {:.3}", self.low, self.high)
    }
}

/// Mean and mean square of samples in groups of one key.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moments {
    /// How many.
    pub samples: usize,
    /// Mean.
    pub mean: f64,
    /// Interval of the mean.
    pub mean_interval: Interval,
    /// Mean square about the mean that was asked for.
    pub variance: f64,
    /// Interval of that.
    pub variance_interval: Interval,
}

impl Moments {
    /// Moments about `centre`, one group of equal size for each key.
    pub fn of(groups: &[Vec<f64>], centre: f64) -> Self {
        let per_key = |f: &dyn Fn(f64) -> f64| -> Vec<f64> {
            groups.iter().map(|g| average(g.iter().map(|x| f(*x)))).collect()
        };
        let (means, squares) = (per_key(&|x| x), per_key(&|x| (x - centre) * (x - centre)));
        Moments {
            samples: groups.iter().map(Vec::len).sum(),
            mean: average(means.iter().copied()),
            mean_interval: student_interval(&means),
            variance: average(squares.iter().copied()),
            variance_interval: student_interval(&squares),
        }
    }

    /// Moments of independent samples of mean 0: the interval of the variance is that of χ².
    pub fn independent(samples: &[f64]) -> Self {
        let count = samples.len() as f64;
        let mean = average(samples.iter().copied());
        let variance = average(samples.iter().map(|x| x * x));
        let half = normal_quantile(OUTSIDE / 2.0) * (variance / count).sqrt();
        Moments {
            samples: samples.len(),
            mean,
            mean_interval: Interval { low: mean - half, high: mean + half },
            variance,
            variance_interval: chi_square_interval(count).scale(variance),
        }
    }
}

/// The mean of some values; NaN of none.
pub fn average(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// Interval of the mean of independent values of about normal law, by Student's t.
pub fn student_interval(values: &[f64]) -> Interval {
    let count = values.len() as f64;
    let mean = average(values.iter().copied());
    let spread = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = student_quantile(count - 1.0) * (spread / count).sqrt();
    Interval { low: mean - half, high: mean + half }
}

/// Interval of σ² as a multiple of the mean square of `count` (100 or more) samples of known mean. χ² by Wilson and
/// Hilferty: (χ²/ν)^(1/3) is normal of mean 1 − 2/9ν and variance 2/9ν, right to 4e-4 of χ² at ν = 100.
pub fn chi_square_interval(count: f64) -> Interval {
    let spread = 2.0 / (9.0 * count);
    let z = normal_quantile(OUTSIDE / 2.0);
    let ratio = |z: f64| (1.0 - spread + z * spread.sqrt()).powi(-3);
    Interval { low: ratio(z), high: ratio(-z) }
}

/// Interval of a probability of which `hits` of `trials` were seen (Clopper and Pearson): the probabilities at which no
/// more than 0.5 % lies beyond what was seen, on either side.
pub fn clopper_pearson(hits: usize, trials: usize) -> Interval {
    let (k, n) = (hits as f64, trials as f64);
    let at = |a: f64, b: f64, tail: f64| bisect(0.0, 1.0, |p| beta(a, b, p) < tail);
    Interval {
        low: if hits == 0 { 0.0 } else { at(k, n - k + 1.0, OUTSIDE / 2.0) },
        high: if hits == trials { 1.0 } else { at(k + 1.0, n - k, 1.0 - OUTSIDE / 2.0) },
    }
}

/// Probability that a standard normal variable is below z.
pub fn normal_cdf(z: f64) -> f64 {
    if z > 0.0 { 1.0 - normal_cdf(-z) } else { 0.5 * log2_erfc(-z / 2f64.sqrt()).exp2() }
}

/// z with probability `tail` above it, for tails of 1e-12 and more.
pub fn normal_quantile(tail: f64) -> f64 {
    bisect(0.0, 8.0, |z| normal_cdf(-z) > tail)
}

/// t with probability [`OUTSIDE`] outside ±t.
fn student_quantile(freedom: f64) -> f64 {
    let outside = |t: f64| beta(freedom / 2.0, 0.5, freedom / (freedom + t * t));
    bisect(0.0, 100.0, |t| outside(t) > OUTSIDE)
}

/// Largest distance between the law of integer samples and a continuous one, over the borders of the integers: `cdf(k)` is
/// the probability of a sample below k. Between borders the law of an integer says nothing.
pub fn kolmogorov(samples: &mut [i64], cdf: impl Fn(i64) -> f64) -> f64 {
    samples.sort_unstable();
    let (Some(&first), Some(&last)) = (samples.first(), samples.last()) else { return 0.0 };
    let distance = |k: i64| {
        let below = samples.partition_point(|x| *x < k) as f64 / samples.len() as f64;
        (below - cdf(k)).abs()
    };
    (first..=last + 1).map(distance).fold(0.0, f64::max)
}

/// The bound that [`kolmogorov`] exceeds with a probability of less than [`OUTSIDE`], for 100 samples and more.
pub fn kolmogorov_critical(count: usize) -> f64 {
    (-(OUTSIDE / 2.0).ln() / 2.0 / count as f64).sqrt()
}

/// Interval of the largest |z| of `count` independent standard normal samples.
pub fn largest_interval(count: usize) -> Interval {
    // P(all within ±z) = (1 − 2·tail)^count.
    let at = |p: f64| normal_quantile(-(p.ln() / count as f64).exp_m1() / 2.0);
    Interval { low: at(OUTSIDE / 2.0), high: at(1.0 - OUTSIDE / 2.0) }
}

/// Where `more` turns from true to false.
fn bisect(mut low: f64, mut high: f64, more: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if more(middle) { low = middle } else { high = middle }
    }
    low
}

/// The regularised incomplete beta function I_x(a, b), by its continued fraction (Abramowitz and Stegun 26.5.8) where
/// that converges fast and by I_x(a, b) = 1 − I_(1−x)(b, a) elsewhere.
pub fn beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(b, a, 1.0 - x);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln();
    let term = |i: u32| {
        let m = f64::from(i / 2);
        if i == 0 {
            1.0
        } else if i.is_multiple_of(2) {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        }
    };
    let fraction = (0..2000).rev().fold(1.0, |tail, i| 1.0 + term(i) / tail) - 1.0;
    // The fraction is 1/(1 + d_1/(1 + …)), the value of its zeroth term.
    front.exp() * fraction / a
}

/// ln Γ(x) for x > 0: Stirling's series, after moving x above 10.
fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let y = 1.0 / (x * x);
    let series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + (2.0 * std::f64::consts::PI).ln() / 2.0 + series
}

/// log2 erfc(x), to about 1e-13 relative of erfc, for any x: also where erfc itself is far below the least f64. Power
/// series of erf below 2, Laplace's continued fraction above.
pub fn log2_erfc(x: f64) -> f64 {
    if x < 2.0 {
        return (1.0 - erf_series(x)).log2();
    }
    // erfc(x) = e^(−x²)/√π / (x + (1/2)/(x + (2/2)/(x + (3/2)/…))), from the tail.
    let fraction = (1..=120).rev().fold(x, |tail, i| x + f64::from(i) / 2.0 / tail);
    -x * x * std::f64::consts::LOG2_E - (fraction * std::f64::consts::PI.sqrt()).log2()
}

/// erf(x) = 2/√π·Σ (−1)^i x^(2i+1)/(i!(2i+1)), for |x| at most about 2; −1 or 1 far outside.
fn erf_series(x: f64) -> f64 {
    if x < -6.0 {
        return -1.0;
    }
    let (mut power, mut sum) = (x, x);
    for i in 1..200 {
        power *= -x * x / f64::from(i);
        sum += power / f64::from(2 * i + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(found: f64, wanted: f64, tolerance: f64) {
        assert!((found / wanted - 1.0).abs() < tolerance, "{found} is not {wanted}");
    }

    #[test]
    fn special_functions() {
        near(ln_gamma(0.5), std::f64::consts::PI.ln() / 2.0, 1e-10);
        near(ln_gamma(100.0), 359.134_205_369_575_4, 1e-12);
        // I_x(2, 3) = 6x² − 8x³ + 3x⁴.
        near(beta(2.0, 3.0, 0.3), 0.54 - 0.216 + 0.0243, 1e-12);
        near(beta(2.0, 3.0, 0.7), 6.0 * 0.49 - 8.0 * 0.343 + 3.0 * 0.2401, 1e-12);
        near(normal_quantile(0.005), 2.575_829_303_548_901, 1e-9);
        near(normal_cdf(1.0), 0.841_344_746_068_542_9, 1e-12);
    }

    #[test]
    fn quantiles() {
        // Tables of Student's t and of χ².
        near(student_quantile(10.0), 3.169_27, 1e-5);
        near(student_quantile(63.0), 2.656_1, 1e-4);
        let chi = chi_square_interval(100.0);
        near(100.0 / chi.high, 67.3276, 5e-4);
        near(100.0 / chi.low, 140.1695, 5e-4);
        // No hit of n: 1 − (0.005)^(1/n) above.
        near(clopper_pearson(0, 50).high, 1.0 - 0.005f64.powf(0.02), 1e-9);
        let known = clopper_pearson(10, 100);
        near(known.low, 0.038_195_653_205, 1e-9);
        near(known.high, 0.201_953_520_781, 1e-9);
        near(kolmogorov_critical(10_000), 0.016_276, 1e-4);
    }

    #[test]
    fn distances() {
        let uniform = |k: i64| (k as f64 / 10.0).clamp(0.0, 1.0);
        let mut even: Vec<i64> = (0..1000).map(|i| i % 10).collect();
        assert!(kolmogorov(&mut even, uniform) < 1e-9);
        let mut low: Vec<i64> = (0..1000).map(|i| i % 5).collect();
        near(kolmogorov(&mut low, uniform), 0.5, 1e-9);
    }
    #[test]
    fn log2_erfc_known_values() {
        // Known answers to 17 digits; the last ones lie below the least f64.
        let known = [
            (-1.0, 1.842_700_792_949_715_f64.log2()),
            (0.0, 0.0),
            (0.5, 0.479_500_122_186_953_5_f64.log2()),
            (1.9, 0.007_209_570_764_742_533_f64.log2()),
            (2.0, 0.004_677_734_981_047_266_f64.log2()),
            (5.0, 1.537_459_794_428_035e-12_f64.log2()),
            (25.0, 8.300_172_571_196_522e-274_f64.log2()),
        ];
        for (x, log2) in known {
            assert!((log2_erfc(x) - log2).abs() < 1e-10, "{x}: {} is not {log2}", log2_erfc(x));
        }
        // Asymptotic series to the third term: its error is below 15·/(2x²)^4.
        for x in [30.0, 58.0, 100.0_f64] {
            let y = 1.0 / (2.0 * x * x);
            let series = -x * x - (x * std::f64::consts::PI.sqrt()).ln()
                + (1.0 - y + 3.0 * y * y - 15.0 * y.powi(3)).ln();
            assert!((log2_erfc(x) - series * std::f64::consts::LOG2_E).abs() < 1e-9, "{x}");
        }
        assert!(log2_erfc(58.9) < -5000.0);
    }
}
