//! Probabilities of the attacks, as base-2 logarithms: success of Babai's nearest plane (Wunderer 2016), of the
//! meet-in-the-middle step (Son–Cheon 2019), of a guess of given weight (hypergeometric), and repetitions.
use super::reduction::log2_sum;
use std::f64::consts::{LN_2, LOG2_E, PI};

/// Probability of success that every attack is repeated up to.
const TARGET: f64 = 0.99;

/// log2 of the number of independent trials that reach probability 0.99 when one succeeds with 2^`log2_p`:
/// ⌈ln 0.01 / ln(1 − p)⌉.
pub fn repetitions(log2_p: f64) -> f64 {
    let p = log2_p.exp2();
    if p > TARGET {
        0.0
    } else if log2_p > -48.0 {
        ((1.0 - TARGET).ln() / (-p).ln_1p()).ceil().log2()
    } else {
        (-(1.0 - TARGET).ln()).log2() - log2_p
    }
}

/// log2 of the number of samples that tell a distinguishing advantage of 2^`log2_advantage` from nothing with
/// probability 0.99: ⌈2 ln(2 − 2·0.99) / ln(1 − advantage²)⌉.
pub fn majority_samples(log2_advantage: f64) -> f64 {
    let advantage = log2_advantage.exp2();
    if advantage > TARGET {
        return 0.0;
    }
    let log_error = 2.0 * (2.0 - 2.0 * TARGET).ln();
    if log2_advantage > -24.0 {
        (log_error / (-advantage * advantage).ln_1p()).ceil().log2()
    } else {
        (-log_error).log2() - 2.0 * log2_advantage
    }
}

/// ln(Γ(b + ½)/Γ(b)) for b > 0: the asymptotic series, after shifting b beyond 20.
fn ln_half_gamma_ratio(mut b: f64) -> f64 {
    let mut shift = 0.0;
    while b < 20.0 {
        shift += (b / (b + 0.5)).ln();
        b += 1.0;
    }
    let r = 1.0 / b;
    shift + 0.5 * b.ln() - r / 8.0 + r.powi(3) / 192.0 - r.powi(5) / 640.0
        + 17.0 * r.powi(7) / 14336.0
}

/// Continued fraction of the regularised incomplete beta function I_x(a, b), by Lentz's method; converges fast for
/// x < (a + 1)/(a + b + 2).
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut sum = d;
    for m in 1..1000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        sum *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        sum *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    sum
}

/// I_y(½, b): probability that one coordinate of a random point on the sphere S^(2b) is at most √y in size.
fn half_beta(y: f64, b: f64, ln_inverse_beta: f64) -> f64 {
    let front = (0.5 * y.ln() + b * (-y).ln_1p() + ln_inverse_beta).exp();
    if y < 1.5 / (b + 2.5) {
        2.0 * front * beta_fraction(y, 0.5, b)
    } else {
        1.0 - front * beta_fraction(1.0 - y, b, 0.5) / b
    }
}

/// Shape of a reduced basis, relative to the noise: log2(‖b*_i‖²/σ²) = `first` − `slope`·i for i = 0..`len`.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    pub first: f64,
    pub slope: f64,
    pub len: u32,
}

impl Profile {
    fn log2_square(&self, i: u32) -> f64 {
        self.first - self.slope * f64::from(i)
    }

    /// log2 of the probability that nearest plane recovers a random vector of norm σ√len: the product over i of
    /// I_y(½, (len − 1)/2) with y = ‖b*_i‖²/(4·σ²·len) (Wunderer 2016).
    pub fn log2_nearest_plane(&self) -> f64 {
        if self.len <= 1 {
            return 0.0;
        }
        let (len, b) = (f64::from(self.len), 0.5 * (f64::from(self.len) - 1.0));
        let ln_inverse_beta = ln_half_gamma_ratio(b) - 0.5 * PI.ln();
        let mut sum = 0.0;
        for i in (0..self.len).rev() {
            let y = self.log2_square(i).exp2() / (4.0 * len);
            // The vectors only get longer towards the front: from here on every factor is 1 in double precision.
            if y >= 1.0 || b * (-y).ln_1p() < -40.0 {
                break;
            }
            sum += half_beta(y, b, ln_inverse_beta).log2();
        }
        // The reference multiplies doubles: below the least of them its product is zero.
        if sum < -1074.0 { f64::NEG_INFINITY } else { sum }
    }

    /// log2 of the probability that two halves of a guess meet in nearest plane: the product over i of
    /// erf(x) − (1 − e^(−x²))/(x√π) with x = ‖b*_i‖/(σ√2) (Son–Cheon 2019).
    pub fn log2_meeting(&self) -> f64 {
        let mut sum = 0.0;
        for i in (0..self.len).rev() {
            let x = (0.5 * (self.log2_square(i) - 1.0)).exp2();
            if x > 20.0 {
                return sum + self.log2_meeting_tail(i, x);
            }
            sum += (erf(x) + (-x * x).exp_m1() / (x * PI.sqrt())).log2();
        }
        sum
    }

    /// The factors i, i − 1, …, 0 of [`Self::log2_meeting`] where each is 1 − g, g = 1/(x√π), and g falls by the
    /// same ratio every time: Σ ln(1 − g_j) = −Σ_k (Σ_j g_j^k)/k, every inner sum geometric.
    fn log2_meeting_tail(&self, i: u32, x: f64) -> f64 {
        let (g, ratio) = (1.0 / (x * PI.sqrt()), (-0.5 * self.slope).exp2());
        let series = (1..12).map(|k| {
            let (power, base) = (g.powi(k), ratio.powi(k));
            power * (1.0 - base.powf(f64::from(i) + 1.0)) / ((1.0 - base) * f64::from(k))
        });
        -series.sum::<f64>() * LOG2_E
    }
}

/// Error function for x ≥ 0 to 1e-15: Taylor series below 3, continued fraction of erfc above.
fn erf(x: f64) -> f64 {
    if x < 3.0 {
        let (mut term, mut sum, mut k) = (x, x, 0.5);
        while term > 1e-17 * sum {
            k += 1.0;
            term *= x * x / k;
            sum += term;
        }
        2.0 / PI.sqrt() * (-x * x).exp() * sum
    } else {
        let fraction = (1..60).rev().fold(x, |tail, k| x + 0.5 * f64::from(k) / tail);
        1.0 - (-x * x).exp() / (PI.sqrt() * fraction)
    }
}

/// ln k!, by Stirling's series above 16.
fn ln_factorial(k: f64) -> f64 {
    if k < 16.0 {
        return (2..=k as u32).map(|j| f64::from(j).ln()).sum();
    }
    let r = 1.0 / k;
    k * k.ln() - k + 0.5 * (2.0 * PI * k).ln() + r / 12.0 - r.powi(3) / 360.0 + r.powi(5) / 1260.0
        - r.powi(7) / 1680.0
}

/// log2 of the binomial coefficient; minus infinity outside 0 ≤ k ≤ n.
pub(super) fn log2_binomial(n: f64, k: f64) -> f64 {
    if k < 0.0 || k > n {
        return f64::NEG_INFINITY;
    }
    (ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)) / LN_2
}

/// A set of guesses: every vector with at most some weight.
#[derive(Debug, Clone, Copy)]
pub struct GuessSet {
    /// Greatest weight in the set.
    pub weight: u32,
    /// log2 of its size.
    pub log2_size: f64,
    /// log2 of the probability that it holds the guessed part of the secret.
    pub log2_hit: f64,
}

/// The guess sets for `zeta` of `n` coordinates of which `weight` are non-zero with `values` possible values each,
/// in order of growing size; none whose size is infinite.
pub fn guess_sets(n: u32, weight: u32, zeta: u32, values: f64) -> impl Iterator<Item = GuessSet> {
    let least = (zeta + weight).saturating_sub(n);
    let [n, h, z] = [n, weight, zeta].map(f64::from);
    let log2_support = log2_binomial(n, h);
    let (mut size, mut hit) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    (least..=zeta.min(weight)).map_while(move |weight| {
        let k = f64::from(weight);
        let count = log2_binomial(z, k);
        size = log2_sum(size, if weight == 0 { count } else { count + k * values.log2() });
        hit = log2_sum(hit, count + log2_binomial(n - z, h - k) - log2_support).min(0.0);
        size.is_finite().then_some(GuessSet { weight, log2_size: size, log2_hit: hit })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_function() {
        for (x, want) in
            [(0.5, 0.5204998778130465), (1.0, 0.8427007929497149), (2.9, 0.9999589021219005)]
        {
            assert!((erf(x) - want).abs() < 1e-15);
        }
        assert!((erf(3.0) - 0.9999779095030014).abs() < 1e-15);
        assert!((erf(2.9999999) - erf(3.0)).abs() < 1e-9);
    }

    #[test]
    fn incomplete_beta_matches_closed_forms() {
        let value = |y: f64, b: f64| half_beta(y, b, ln_half_gamma_ratio(b) - 0.5 * PI.ln());
        for y in [0.001, 0.1, 0.4, 0.9f64] {
            // b = ½: (2/π)·asin√y; b = 1: √y; b = 3/2: (2/π)(asin√y + √(y(1−y))).
            let asin = y.sqrt().asin();
            assert!((value(y, 0.5) - 2.0 / PI * asin).abs() < 1e-13);
            assert!((value(y, 1.0) - y.sqrt()).abs() < 1e-13);
            assert!((value(y, 1.5) - 2.0 / PI * (asin + (y * (1.0 - y)).sqrt())).abs() < 1e-13);
        }
        // In high dimension a coordinate of the unit sphere is Gaussian of variance 1/len.
        assert!((value(1.0 / 100_000.0, 49_999.5) - erf(0.5f64.sqrt())).abs() < 1e-5);
    }

    #[test]
    fn hypergeometric_tables_are_complete() {
        let sets = guess_sets(60, 20, 30, 2.0).collect::<Vec<_>>();
        let last = sets.last().unwrap();
        assert!(last.weight == 20 && last.log2_hit.abs() < 1e-12);
        assert!((sets[1].log2_size - 61f64.log2()).abs() < 1e-12);
        let none = (0..20).map(|i| (30.0 - f64::from(i)) / (60.0 - f64::from(i))).product::<f64>();
        assert!((sets[0].log2_hit - none.log2()).abs() < 1e-11);
        assert_eq!(guess_sets(10, 8, 5, 1.0).next().unwrap().weight, 3);
    }

    #[test]
    fn meeting_probability_tail_equals_the_product() {
        let profile = Profile { first: 40.0, slope: 0.012, len: 3300 };
        let direct: f64 = (0..profile.len)
            .map(|i| {
                let x = (0.5 * (profile.log2_square(i) - 1.0)).exp2();
                (erf(x) + (-x * x).exp_m1() / (x * PI.sqrt())).log2()
            })
            .sum();
        assert!((profile.log2_meeting() - direct).abs() < 1e-9 * direct.abs());
    }

    #[test]
    fn repetitions_meet_the_target() {
        assert_eq!(repetitions(0.0), 0.0);
        assert_eq!(repetitions(0.98f64.log2()), 1.0);
        assert_eq!(repetitions(0.5f64.log2()), 7f64.log2());
        assert!((repetitions(-60.0) - (60.0 + 4.605170186f64.log2())).abs() < 1e-9);
        assert_eq!(repetitions(f64::NEG_INFINITY), f64::INFINITY);
    }
}
