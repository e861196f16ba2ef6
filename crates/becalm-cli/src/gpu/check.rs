//! Whether measured errors are what a noise formula says, and what is said where they are not.

use becalm::math::statistics::Moments;

/// A word of the torus as an error.
pub(super) fn error_of(word: u64) -> f64 {
    word as i64 as f64 / 2f64.powi(64)
}

/// Five standard deviations of a sum of squares, as a part of it.
pub(super) fn spread(noise: &Moments) -> f64 {
    5.0 * (2.0 / noise.samples.max(1) as f64).sqrt()
}

/// Whether the errors of one key are more than a variance explains, slot after slot of each ciphertext. Digits of a key switch have a mean
/// of half a digit below zero: their noise, up to half of the variance, has a part that is one number for a key, however many results there
/// are, and behind a common mask each slot has a key of its own. So the mean of a slot may be six of its standard deviations, and what
/// varies about it is held to the whole.
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

/// What is said of noise that is not that of the formula.
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

    /// 8192 errors with this mean and, a sum of four uniform ones, this variance; by xorshift.
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
