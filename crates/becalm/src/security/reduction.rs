//! Cost and strength of lattice reduction, in base-2 logarithms so that no size of instance overflows.
//!
//! * root-Hermite factor of BKZ-β: δ = (β/2πe · (πβ)^(1/β))^(1/(2(β−1))) (Chen, PhD thesis 2013);
//! * geometric series assumption: ‖b*_i‖ = δ^(d−1−2i) · vol^(1/d) for i = 0..d;
//! * one sieve in dimension β: 2^(aβ' + b) gates, β' = β − β·ln(4/3)/ln(β/2πe) after "dimensions for free"
//!   (Ducas 2018), a and b the classical list-decoding fit of the MATZOV report (2022, "Report on the Security of
//!   LWE: Improved Dual Lattice Attack");
//! * progressive BKZ-β in dimension d: d³ + C²·(d − β) sieves, C = 1/(1 − 2^−a).
use std::f64::consts::{E, PI};
use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// Exponent of the sieve per dimension (MATZOV 2022, list decoding, classical gates).
const SIEVE_SLOPE: f64 = 0.29613500308205365;
/// Gates of the sieve in dimension 0, as a logarithm (same source).
const SIEVE_BIAS: f64 = 20.387885985467914;
/// A sieve of dimension β returns 2^(0.2075 β) = (4/3)^(β/2) short vectors.
const SIEVE_YIELD: f64 = 0.2075;
/// Measured root-Hermite factors below β = 40, where the asymptotic formula does not hold: (first β, δ).
const SMALL_DELTAS: [(u32, f64); 8] = [
    (40, 1.01295),
    (28, 1.01331),
    (25, 1.01342),
    (20, 1.01420),
    (15, 1.01485),
    (10, 1.01616),
    (5, 1.01862),
    (0, 1.02190),
];
/// Least block size of any search: below it the root-Hermite factor is only measured, not modelled.
pub const MIN_BLOCK: u32 = 40;
/// Block size beyond which every attack costs more than 2^512.
pub const MAX_BLOCK: u32 = 1754;

/// log2(2^a + 2^b).
pub fn log2_sum(a: f64, b: f64) -> f64 {
    let (high, low) = if a >= b { (a, b) } else { (b, a) };
    // Exact: the sum differs by less than half a unit in the last place. Not a number where both are infinite.
    let gap = high - low;
    if gap > 64.0 || gap.is_nan() {
        return high;
    }
    high + (low - high).exp2().ln_1p() * std::f64::consts::LOG2_E
}

/// log2 of the root-Hermite factor of BKZ-β, β ≤ 4096.
pub fn log2_delta(beta: u32) -> f64 {
    static TABLE: LazyLock<Vec<f64>> =
        LazyLock::new(|| (0..=4096).map(compute_log2_delta).collect());
    TABLE[beta as usize]
}

fn compute_log2_delta(beta: u32) -> f64 {
    if beta > MIN_BLOCK {
        let b = f64::from(beta);
        ((b / (2.0 * PI * E)).log2() + (PI * b).log2() / b) / (2.0 * (b - 1.0))
    } else {
        let row = SMALL_DELTAS.iter().find(|(first, _)| beta >= *first);
        row.map_or(0.0, |(_, delta)| delta.log2())
    }
}

/// Overhead of progressive sieving, Σ_i 2^(−a·i) = 1/(1 − 2^−a), as a logarithm.
fn log2_progressive() -> f64 {
    static VALUE: LazyLock<f64> = LazyLock::new(|| -(1.0 - (-SIEVE_SLOPE).exp2()).log2());
    *VALUE
}

/// Dimensions that lifting gives for free when solving SVP in dimension β.
fn dimensions_for_free(beta: u32) -> f64 {
    let b = f64::from(beta);
    (b * (4.0f64 / 3.0).ln() / (b / (2.0 * PI * E)).ln()).max(0.0)
}

/// log2 of the gates of BKZ-β on a basis of dimension `d` ≥ β.
pub fn bkz(beta: u32, d: u32) -> f64 {
    let lll = 3.0 * f64::from(d).log2();
    if beta < 20 {
        return log2_sum(lll, enumeration(beta, d));
    }
    let sieve = SIEVE_SLOPE * (f64::from(beta) - dimensions_for_free(beta)) + SIEVE_BIAS;
    let blocks = f64::from(d.saturating_sub(beta).max(1)).log2();
    log2_sum(lll, 2.0 * log2_progressive() + blocks + sieve)
}

/// Enumeration in blocks too small for the sieve's fit (Chen–Nguyen 2012, Table 4: nodes, at 100 cycles each).
fn enumeration(beta: u32, d: u32) -> f64 {
    let b = f64::from(beta);
    let nodes = 0.270188776350190 * b * b.ln() - 1.0192050451318417 * b + 16.10253135200765;
    let calls = if beta < d { 8.0 * f64::from(d) } else { 1.0 };
    nodes + 100f64.log2() + calls.log2()
}

/// Dimension of a sieve on the first vectors of a BKZ-β reduced basis that costs as much as the reduction itself
/// (Guo–Johansson 2021).
pub fn sieve_dimension(beta: u32, d: u32) -> u32 {
    let base = beta - dimensions_for_free(beta).floor() as u32;
    if beta >= d {
        return base;
    }
    let gain = (f64::from(d - beta).log2() + log2_progressive()) / SIEVE_SLOPE;
    d.min((f64::from(base) + gain).floor() as u32)
}

/// log2 of how much longer the vectors of that sieve are than the shortest one BKZ-β finds.
pub fn log2_sieve_stretch(beta: u32, sieve_dim: u32) -> f64 {
    0.5 * (4.0f64 / 3.0).log2()
        + (f64::from(sieve_dim) - 1.0) * (log2_delta(sieve_dim) - log2_delta(beta))
}

/// log2 of the gates of sampling 2^`log2_count` short vectors: reduction and sieve, repeated as often as needed.
/// Infinite beyond 2^1000 repetitions.
pub fn short_vectors(beta: u32, d: u32, log2_count: f64) -> f64 {
    short_vectors_at_least(beta, d..=d, log2_count)
}

/// A lower bound of [`short_vectors`] over a range of dimensions: the cost of the least, the yield of the greatest.
pub fn short_vectors_at_least(beta: u32, d: RangeInclusive<u32>, log2_count: f64) -> f64 {
    let sieve_dim = sieve_dimension(beta, *d.start());
    let sieve = SIEVE_SLOPE * f64::from(sieve_dim) + SIEVE_BIAS + log2_progressive();
    let greatest = if d.end() > d.start() { sieve_dimension(beta, *d.end()) } else { sieve_dim };
    let runs = log2_count - log2_floor(SIEVE_YIELD * f64::from(greatest));
    if runs > 1000.0 {
        return f64::INFINITY;
    }
    log2_ceil(runs) + log2_sum(bkz(beta, *d.start()), sieve)
}

/// log2⌊2^x⌋; the floor vanishes in the precision of a double from x = 52 on.
fn log2_floor(x: f64) -> f64 {
    if x < 52.0 { x.exp2().floor().log2() } else { x }
}

/// log2⌈2^x⌉.
pub fn log2_ceil(x: f64) -> f64 {
    if x < 52.0 { x.exp2().ceil().log2() } else { x }
}

/// log2 of the volume of the unit ball of `dim` ≤ [`MAX_PROJECTION`] + 1 dimensions: V_k = V_{k−2}·2π/k.
pub fn log2_ball(dim: u32) -> f64 {
    static TABLE: LazyLock<Vec<f64>> = LazyLock::new(|| {
        let mut table = vec![0.0, 1.0];
        for k in 2..=MAX_PROJECTION as usize + 1 {
            table.push(table[k - 2] + (2.0 * PI / k as f64).log2());
        }
        table
    });
    TABLE[dim as usize]
}

/// Largest lattice in which a closest-vector call is considered.
pub const MAX_PROJECTION: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_hermite_factor_matches_published_values() {
        assert!((log2_delta(406).exp2() - 1.003941).abs() < 5e-7);
        assert!((log2_delta(100).exp2() - 1.0093).abs() < 5e-5);
        assert_eq!(log2_delta(40).exp2(), 1.01295);
        assert!((log2_delta(30).exp2() - 1.01331).abs() < 1e-15);
    }

    #[test]
    fn sums_and_volumes() {
        assert!((log2_sum(3.0, 3.0) - 4.0).abs() < 1e-15);
        assert_eq!(log2_sum(f64::NEG_INFINITY, 7.0), 7.0);
        assert!((log2_sum(5.0, 1000.0) - 1000.0).abs() < 1e-12);
        assert!((log2_ball(2) - PI.log2()).abs() < 1e-15);
        assert!((log2_ball(3) - (4.0 * PI / 3.0).log2()).abs() < 1e-14);
    }

    #[test]
    fn reduction_grows_with_block_and_dimension() {
        for beta in MIN_BLOCK..MAX_BLOCK {
            assert!(bkz(beta, 2000) < bkz(beta + 1, 2000));
            assert!(bkz(beta, 2000) < bkz(beta, 2001));
        }
    }
}
