//! Companion rounding: which exponents an extended blind rotation is given.
//!
//! Of 2^η accumulators an exponent that is an odd multiple of 2^t moves 2^(η−t) (`bootstrap::tfhe::extended`), so an even
//! one is worth an error. A coefficient at x cells goes to the integer m that minimises 2^(η − v(m)) + λ·(x − m)²,
//! v(m) = min(η, valuation of m), the coarsest of equals: λ external products for a cell² of error. In one dimension the x
//! that go to m are an interval between borders where two parabolas meet, so that the mean work and the mean square error
//! of a uniform x are sums over 2^η intervals. λ = ∞ is rounding to nearest. Source of the idea: the companion modulus
//! switch of Bergerat et al. (Asiacrypt 2025), which rounds a chosen number of coefficients coarser.

/// The mean work and error of rounding a uniform coefficient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundingLaw {
    /// External products for each bit of the key.
    pub products: f64,
    /// Mean square error in cells: 1/12 for rounding to nearest.
    pub square: f64,
}

/// The law of companion rounding for 2^`coarsest_log2` accumulators and λ = `weight`; `None` for rounding to nearest.
pub fn rounding_law(coarsest_log2: u32, weight: Option<u32>) -> RoundingLaw {
    let period = 1i64 << coarsest_log2;
    let cost = |m: i64| f64::from(1u32 << (coarsest_log2 - m.trailing_zeros().min(coarsest_log2)));
    let lambda = weight.map_or(f64::INFINITY, f64::from);
    let border = |a: i64, b: i64| {
        (a + b) as f64 / 2.0 + (cost(b) - cost(a)) / (2.0 * lambda * (b - a) as f64)
    };
    // The lower envelope of the parabolas of three periods, from left to right: integers and where each begins.
    let mut envelope: Vec<(i64, f64)> = Vec::new();
    for m in -period..=2 * period {
        let mut begin = f64::NEG_INFINITY;
        while let Some(&(last, from)) = envelope.last() {
            begin = border(last, m);
            if begin > from {
                break;
            }
            envelope.pop();
        }
        envelope.push((m, begin));
    }
    let mut law = RoundingLaw { products: 0.0, square: 0.0 };
    for (i, &(m, from)) in envelope.iter().enumerate().filter(|(_, s)| (0..period).contains(&s.0)) {
        let to = envelope.get(i + 1).map_or(f64::INFINITY, |next| next.1);
        let cube = |x: f64| (x - m as f64).powi(3) / 3.0;
        law.products += cost(m) * (to - from) / period as f64;
        law.square += (cube(to) - cube(from)) / period as f64;
    }
    law
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_to_nearest_is_known() {
        for coarsest in 0..=6 {
            let law = rounding_law(coarsest, None);
            let m = f64::from(1u32 << coarsest);
            let sorted = 2.0 / 3.0 * m * (1.0 - 1.0 / (m * m)) + 1.0 / m;
            assert!((law.products - sorted).abs() < 1e-9, "{law:?}");
            assert!((law.square - 1.0 / 12.0).abs() < 1e-12, "{law:?}");
        }
    }

    #[test]
    fn sampled_positions_have_the_law() {
        for (coarsest, weight) in [(1, 2), (2, 8), (3, 5), (5, 32), (6, 1), (6, 4095)] {
            let (mut products, mut square) = (0.0, 0.0);
            let samples = 200_000 << coarsest.min(2);
            for i in 0..samples {
                let x = (f64::from(i) + 0.5) / f64::from(samples) * f64::from(1u32 << coarsest);
                let best = (0..=coarsest)
                    .map(|t| {
                        let step = f64::from(1u32 << t);
                        let e = (x / step).round() * step - x;
                        (f64::from(1u32 << (coarsest - t)), e * e)
                    })
                    .min_by(|a, b| {
                        let total = |c: &(f64, f64)| c.0 + f64::from(weight) * c.1;
                        total(a).total_cmp(&total(b))
                    })
                    .unwrap();
                products += best.0 / f64::from(samples);
                square += best.1 / f64::from(samples);
            }
            let law = rounding_law(coarsest, Some(weight));
            assert!((law.products / products - 1.0).abs() < 1e-4, "{law:?} {products}");
            assert!((law.square / square - 1.0).abs() < 1e-4, "{law:?} {square}");
        }
    }
}
