//! Compares measured errors with a noise formula, and words the remark where they differ.

use becalm::math::statistics::Moments;

/// The error that a word of the torus stands for.
pub(super) fn error_of(word: u64) -> f64 {
    word as i64 as f64 / 2f64.powi(64)
}

/// Five standard deviations of a sum of squares, relative to the sum.
pub(super) fn spread(noise: &Moments) -> f64 {
    5.0 * (2.0 / noise.samples.max(1) as f64).sqrt()
}

/// Whether the errors of one key are larger than a variance explains, slot by slot. The digits of a key switch have a mean of half a digit
/// below zero. So up to half of the variance is one constant for each key, however many results there are, and behind a common mask each
/// slot has its own key. The mean of a slot may therefore be six of its standard deviations. The variation about the mean must stay
/// within the whole variance.
pub(super) fn exceeds(errors: &[f64], slots: usize, formula: f64) -> bool {
    let of_slot = |slot: usize| {
        let errors: Vec<f64> = errors.iter().skip(slot).step_by(slots).copied().collect();
        Moments::independent(&errors)
    };
    (0..slots.min(errors.len())).map(of_slot).any(|noise| {
        let mean = noise.mean.powi(2);
        mean > 36.0 * formula / 2.0 || noise.variance - mean > formula * (1.0 + spread(&noise))
    })
}

/// The remark on noise that differs from the formula.
pub(super) fn apart(what: &str, noise_log2: f64, formula_log2: f64) -> String {
    let ratio = f64::exp2(2.0 * (noise_log2 - formula_log2));
    format!(
        "{what}: noise 2^{noise_log2:.3} where the formula has 2^{formula_log2:.3}, {ratio:.2} of its variance; every result is right"
    )
}

#[cfg(test)]
mod tests {
    use super::exceeds;
    use becalm::math::statistics::Moments;

    /// 8192 errors with this mean and this variance: sums of four uniform numbers, drawn by xorshift.
    fn noise(mean: f64, variance: f64) -> Vec<f64> {
        let mut x = 88172645463325252u64;
        let mut uniform = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as f64 / 2f64.powi(64) - 0.5
        };
        let mut error = || mean + (0..4).map(|_| uniform()).sum::<f64>() * (3.0 * variance).sqrt();
        (0..8192).map(|_| error()).collect()
    }

    #[test]
    fn a_part_of_the_noise_is_common_to_a_key() {
        let formula = 2f64.powi(-40);
        // Half of the variance is one number: two and a half of its standard deviations off, the square is 3.6 times the formula.
        let unlucky = noise(2.5 * (formula / 2.0).sqrt(), formula / 2.0);
        assert!(Moments::independent(&unlucky).variance > 3.0 * formula);
        assert!(!exceeds(&unlucky, 1, formula));
        assert!(!exceeds(&noise(0.0, formula), 1, formula));
        assert!(exceeds(&noise(0.0, 1.2 * formula), 1, formula));
        assert!(exceeds(&noise(6.5 * (formula / 2.0).sqrt(), formula / 2.0), 1, formula));
        // Behind a common mask that is one number for each slot: taken together they are more than the formula.
        let part = (formula / 2.0).sqrt();
        let mut slots = noise(0.0, formula / 2.0);
        for (i, e) in slots.iter_mut().enumerate() {
            *e += [2.0, -1.5, 0.5, -2.5][i % 4] * part;
        }
        assert!(exceeds(&slots, 1, formula) && !exceeds(&slots, 4, formula));
        slots.iter_mut().step_by(4).for_each(|e| *e *= 1.8);
        assert!(exceeds(&slots, 4, formula));
    }
}
