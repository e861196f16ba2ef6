//! The strength of a key of blocks: a sparse ternary key of no more entropy is estimated in its place.
//!
//! A block of b bits, at most one of which is 1, has b + 1 values, all alike: its coefficients have log2(b + 1)/b bits of
//! entropy each and variance 1/(b + 1) − 1/(b + 1)². A ternary key of density d has entropy H(d) + d and variance d. With d
//! such that the entropies are equal, d is below the variance of the blocks for every b >= 2 (a test), so the sparse key
//! has no more to guess and is no longer than the key of blocks.

/// The largest weight of a ternary key of `n` coefficients whose entropy, a coefficient, is at most that of blocks of `b`.
pub(super) fn proxy_weight(n: usize, b: u32) -> u32 {
    (n as f64 * density(b)).max(1.0) as u32
}

/// d with H(d) + d = log2(b + 1)/b, by bisection: the left side grows with d up to 2/3.
fn density(b: u32) -> f64 {
    let entropy = (f64::from(b) + 1.0).log2() / f64::from(b.max(1));
    let (mut low, mut high) = (0.0, 2.0 / 3.0);
    for _ in 0..60 {
        let d: f64 = (low + high) / 2.0;
        let binary = -d * d.log2() - (1.0 - d) * (1.0 - d).log2();
        if binary + d < entropy { low = d } else { high = d }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_has_no_more_entropy_and_is_no_longer() {
        for b in 2..=32 {
            let (d, one) = (density(b), 1.0 / (f64::from(b) + 1.0));
            assert!(d < one - one * one, "b = {b}: density {d}");
            let entropy = -d * d.log2() - (1.0 - d) * (1.0 - d).log2() + d;
            assert!((entropy - (f64::from(b) + 1.0).log2() / f64::from(b)).abs() < 1e-9);
            // A twentieth more would have more.
            let e = d * 1.05;
            assert!(-e * e.log2() - (1.0 - e) * (1.0 - e).log2() + e > entropy);
            assert_eq!(proxy_weight(1000, b), (1000.0 * d) as u32);
        }
    }
}
