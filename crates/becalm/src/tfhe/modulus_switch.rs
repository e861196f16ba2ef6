//! Modulus switch: an LWE ciphertext modulo q to exponents modulo 2N, for the blind rotation.
//!
//! In cells of q/2N, with â_i the integer nearest to a_i and e_i = â_i − a_i its rounding error:
//! * plain: b̂ is the integer nearest to b. The phase b̂ − Σ â_i s_i is that of the ciphertext with error of mean 0 and
//!   variance n/24 + 1/12 for uniform binary keys.
//! * centred: the error −Σ e_i s_i has mean −Σ e_i/2 over the key, and e_i is public: b̂ = ⌊b + Σ e_i/2⌋. What remains is
//!   −Σ e_i (s_i − ½), variance n/48. The body is rounded *down* because a table's box [m − w/2, m + w/2) of exponents
//!   is symmetric around m − ½: ⌊x⌋ lies in it exactly when x does, so rounding the body costs no noise at all.
//!   Measured as exponents, the error has mean −½ and variance n/48 + 1/12.
//!
//! * companion (for 2^η accumulators): centred, with â_i the multiple of some 2^t, t <= η, for which
//!   2^(η−t) + λ·e_i² is least; variance n·E[e²]/4 of [`crate::params::rounding_law`].
//!
//! Σ e_i is summed exactly in integers; behind a common mask it corrects every body alike. Source: the centred mean is in TFHE-rs 1.4 ff.;
//! it makes free the choice of Bernard, Joye, Smart and Walter (ia.cr/2024/1718).

use crate::math::Modulus;
use crate::params::ModulusSwitch;
use crate::{Error, Result};

/// Switches a batch of B ciphertexts of dimension n with w `bodies` to exponents.
///
/// * `inputs`: B × (n + w) elements modulo `modulus`, mask first. Ciphertexts modulo 2^32 are given as torus elements,
///   multiples of 2^32, with [`Modulus::Native`].
/// * `exponents`: B × (n + w), each in 0..2N, mask first; N = `polynomial_size`, a power of two up to 2^31.
///
/// Fails with `BadInput` when the shapes do not fit.
pub fn modulus_switch(
    kind: ModulusSwitch,
    modulus: Modulus,
    polynomial_size: usize,
    (dimension, bodies): (usize, usize),
    inputs: &[u64],
    exponents: &mut [u32],
) -> Result<()> {
    let size = dimension + bodies;
    if !polynomial_size.is_power_of_two() || polynomial_size > 1 << 31 {
        return Err(Error::bad_input(
            "modulus switch",
            "a polynomial size that is a power of two up to 2^31",
            polynomial_size.to_string(),
            "use the polynomial size of a parameter set",
        ));
    }
    if !inputs.len().is_multiple_of(size) || exponents.len() != inputs.len() {
        return Err(Error::bad_input(
            "modulus switch",
            format!("inputs and exponents of one length, a multiple of n + w = {size}"),
            format!("{} inputs and {} exponents", inputs.len(), exponents.len()),
            "pass whole ciphertexts of the key's dimension",
        ));
    }
    if let ModulusSwitch::Companion { coarsest_log2, weight } = kind
        && (coarsest_log2 > 6 || polynomial_size < 256 << coarsest_log2 || weight >= 4096)
    {
        return Err(Error::bad_input(
            "modulus switch",
            "at most 2^6 accumulators of 256 coefficients and more, a weight below 4096",
            format!("{kind:?} and {polynomial_size} coefficients"),
            "use a parameter set that validates",
        ));
    }
    let cells = Cells::new(polynomial_size);
    for (ct, out) in inputs.chunks_exact(size).zip(exponents.chunks_exact_mut(size)) {
        // One compiled copy per modulus: the lift is free of branches within each.
        match modulus {
            Modulus::Native => cells.switch(kind, Modulus::Native, dimension, ct, out),
            Modulus::Goldilocks => cells.switch(kind, Modulus::Goldilocks, dimension, ct, out),
        }
    }
    Ok(())
}

/// The torus in 2N cells of 2^`shift` units.
#[derive(Clone, Copy)]
struct Cells {
    polynomial_size: usize,
    shift: u32,
}

impl Cells {
    fn new(polynomial_size: usize) -> Self {
        Cells { polynomial_size, shift: 63 - polynomial_size.trailing_zeros() }
    }

    /// The nearest cell, halves up; the addition wraps from the last cell to the first.
    #[inline(always)]
    fn nearest(self, a: u64) -> u32 {
        (a.wrapping_add(1 << (self.shift - 1)) >> self.shift) as u32
    }

    /// `nearest(a) − a` in units, in (−half a cell, half a cell].
    #[inline(always)]
    fn rounding_error(self, a: u64) -> i64 {
        let half = 1u64 << (self.shift - 1);
        half as i64 - (a.wrapping_add(half) & (2 * half - 1)) as i64
    }

    #[inline(always)]
    fn switch(
        self,
        kind: ModulusSwitch,
        modulus: Modulus,
        dimension: usize,
        ct: &[u64],
        out: &mut [u32],
    ) {
        let (mask, bodies) = ct.split_at(dimension);
        for (x, a) in out.iter_mut().zip(mask) {
            *x = self.nearest(modulus.to_torus(*a));
        }
        // N errors of at most half a cell, a quarter of 2^64/N, cannot overflow 64 bits.
        let sum_of = |part: &[u64]| -> i64 {
            part.iter().map(|a| self.rounding_error(modulus.to_torus(*a))).sum()
        };
        let sum: i128 = match kind {
            ModulusSwitch::Plain => 0,
            ModulusSwitch::Centered => {
                mask.chunks(self.polynomial_size).map(|p| sum_of(p) as i128).sum()
            }
            ModulusSwitch::Companion { coarsest_log2, weight } => {
                let round = |(x, a): (&mut u32, &u64)| {
                    let best = self.companion(modulus.to_torus(*a), coarsest_log2, weight);
                    *x = best.0;
                    i128::from(best.1)
                };
                out.iter_mut().zip(mask).map(round).sum()
            }
        };
        for (x, body) in out[dimension..].iter_mut().zip(bodies) {
            let body = modulus.to_torus(*body);
            *x = match kind {
                ModulusSwitch::Plain => self.nearest(body),
                ModulusSwitch::Centered | ModulusSwitch::Companion { .. } => self.below(body, sum),
            };
        }
    }

    /// ⌊body + sum/2⌋ in cells.
    #[inline(always)]
    fn below(self, body: u64, sum: i128) -> u32 {
        // In half units, so that no bit is lost to the half.
        let doubled = 2 * i128::from(body) + sum;
        (doubled >> (self.shift + 1)) as u32 & (2 * self.polynomial_size as u64 - 1) as u32
    }

    /// The exponent of companion rounding and its error in units. Squares fit: errors are at most 2^54 for N of 256 and
    /// more, weights below 2^12.
    fn companion(self, a: u64, coarsest_log2: u32, weight: u32) -> (u32, i64) {
        let candidate = |t: u32| {
            let coarse = Cells { shift: self.shift + t, ..self };
            let error = coarse.rounding_error(a);
            let work = 1u128 << (2 * self.shift + coarsest_log2 - t);
            let cost = work + u128::from(weight) * u128::from(error.unsigned_abs()).pow(2);
            (cost, coarse.nearest(a) << t, error)
        };
        let mut best = candidate(0);
        for t in 1..=coarsest_log2 {
            let other = candidate(t);
            if other.0 <= best.0 {
                best = other;
            }
        }
        (best.1, best.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
    use crate::math::sampling::{binary, uniform};
    use proptest::prelude::*;

    const COMPANION: ModulusSwitch = ModulusSwitch::Companion { coarsest_log2: 2, weight: 6 };
    const KINDS: [ModulusSwitch; 3] = [ModulusSwitch::Plain, ModulusSwitch::Centered, COMPANION];
    const MODULI: [Modulus; 2] = [Modulus::Native, Modulus::Goldilocks];

    /// Phase b − <a, s>, as a signed torus element.
    fn phase(modulus: Modulus, ct: &[u64], key: &[u64]) -> i64 {
        let dot = ct.iter().zip(key).fold(0, |sum, (&a, &s)| modulus.add(sum, a * s));
        modulus.to_torus(modulus.sub(ct[key.len()], dot)) as i64
    }

    /// Errors in cells of exponents against phases, for fresh keys and ciphertexts uniform modulo `modulus`; of phase 0
    /// if `zero`.
    fn errors(
        kind: ModulusSwitch,
        modulus: Modulus,
        (n, degree): (usize, usize),
        zero: bool,
    ) -> Vec<f64> {
        const SAMPLES: usize = 20_000;
        let mut mask = MaskStream::new(&PublicSeed([5; 32]), Domain::Test, 0);
        let mut secret = NoiseStream::new(&SecretSeed::from_bytes(&mut [6; 32]), Domain::Test, 0);
        let (mut ct, mut key, mut exponents) = (vec![0; n + 1], vec![0; n], vec![0; n + 1]);
        let cell = 2f64.powi(63) / degree as f64;
        let sample = |_| {
            uniform(&mut mask, modulus, &mut ct);
            binary(&mut secret, &mut key);
            if zero {
                ct[n] = 0;
                ct[n] = modulus.neg(phase(modulus, &ct, &key) as u64);
            }
            modulus_switch(kind, modulus, degree, (n, 1), &ct, &mut exponents).unwrap();
            assert!(exponents.iter().all(|&x| (x as usize) < 2 * degree));
            let dot: u32 = exponents.iter().zip(&key).map(|(&x, &s)| x * s as u32).sum();
            let switched = (exponents[n].wrapping_sub(dot) as u64).wrapping_mul(cell as u64);
            switched.wrapping_sub(phase(modulus, &ct, &key) as u64) as i64 as f64 / cell
        };
        (0..SAMPLES).map(sample).collect()
    }

    #[test]
    fn errors_have_the_mean_and_variance_of_the_formulas() {
        for (n, degree) in [(918, 2048), (300, 1024)] {
            let coarse = crate::params::rounding_law(2, Some(6)).square;
            for (kind, mean, variance) in [
                (COMPANION, -0.5, n as f64 * coarse / 4.0 + 1.0 / 12.0),
                (ModulusSwitch::Plain, 0.0, n as f64 / 24.0 + 1.0 / 12.0),
                (ModulusSwitch::Centered, -0.5, n as f64 / 48.0 + 1.0 / 12.0),
            ] {
                for modulus in MODULI {
                    let e = errors(kind, modulus, (n, degree), false);
                    let samples = e.len() as f64;
                    let got = e.iter().sum::<f64>() / samples;
                    let off = 2.576 * (variance / samples).sqrt();
                    assert!((got - mean).abs() < off, "{kind:?} {modulus:?} n {n}: mean {got}");
                    let got = e.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / samples;
                    let off = 2.576 * (2.0 / samples).sqrt();
                    assert!(
                        (got / variance - 1.0).abs() < off,
                        "{kind:?} {modulus:?} n {n}: variance {got}"
                    );
                }
            }
        }
    }

    /// The half cell: a message in the middle of its box fails as often on one side as on the other.
    #[test]
    fn centred_errors_leave_the_box_on_both_sides_alike() {
        let e = errors(ModulusSwitch::Centered, Modulus::Native, (918, 2048), true);
        // The box of 10 cells around 0: exponents −5 ..= 4.
        let below = e.iter().filter(|&&e| e < -5.0).count() as f64;
        let above = e.iter().filter(|&&e| e > 4.0).count() as f64;
        assert!(
            below > 1000.0 && (below - above).abs() < 2.576 * (below + above).sqrt(),
            "{below} {above}"
        );
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let (ct, mut out) = ([0; 10], [0; 10]);
        for kind in KINDS {
            assert!(modulus_switch(kind, Modulus::Native, 1000, (4, 1), &ct, &mut out).is_err());
            assert!(modulus_switch(kind, Modulus::Native, 0, (4, 1), &ct, &mut out).is_err());
            assert!(modulus_switch(kind, Modulus::Native, 1024, (5, 1), &ct, &mut out).is_err());
            assert!(
                modulus_switch(kind, Modulus::Native, 1024, (4, 1), &ct, &mut out[1..]).is_err()
            );
            assert!(modulus_switch(kind, Modulus::Native, 1024, (4, 1), &ct, &mut out).is_ok());
        }
        assert!(modulus_switch(COMPANION, Modulus::Native, 512, (4, 1), &ct, &mut out).is_err());
    }

    /// The definition in 128-bit integers.
    fn reference(
        kind: ModulusSwitch,
        modulus: Modulus,
        degree: usize,
        n: usize,
        ct: &[u64],
    ) -> Vec<u32> {
        let (cells, cell) = (2 * degree as i128, (1i128 << 63) / degree as i128);
        let lifted: Vec<i128> = ct.iter().map(|&a| modulus.to_torus(a) as i128).collect();
        let nearest = |a: i128| (a + cell / 2).div_euclid(cell);
        let (mask, bodies) = lifted.split_at(n);
        // Every integer within two periods, at the cost of its valuation.
        let companion = |a: i128, coarsest: u32, weight: u32| {
            let cost = |m: &i128| {
                let work = 1i128 << (coarsest - m.trailing_zeros().min(coarsest));
                (
                    work * cell * cell + i128::from(weight) * (m * cell - a).pow(2),
                    -m.trailing_zeros().min(coarsest).cast_signed(),
                    -m,
                )
            };
            (nearest(a) - 8..=nearest(a) + 8).min_by_key(cost).unwrap()
        };
        let rounded = |&a: &i128| match kind {
            ModulusSwitch::Companion { coarsest_log2, weight } => {
                companion(a, coarsest_log2, weight)
            }
            _ => nearest(a),
        };
        let mut out: Vec<i128> = mask.iter().map(rounded).collect();
        let sum: i128 = mask.iter().zip(&out).map(|(a, m)| m * cell - a).sum();
        out.extend(bodies.iter().map(|body| match kind {
            ModulusSwitch::Plain => nearest(*body),
            _ => (2 * body + sum).div_euclid(2 * cell),
        }));
        out.iter().map(|x| x.rem_euclid(cells) as u32).collect()
    }

    proptest! {
        #[test]
        fn equals_the_definition(
            log2_degree in 0u32..20,
            n in 1usize..70,
            bodies in 1usize..4,
            kind in prop::sample::select(&KINDS[..]),
            modulus in prop::sample::select(&MODULI[..]),
            seed in any::<u8>(),
            extreme in any::<bool>(),
        ) {
            let least = if kind == COMPANION { 10 } else { 0 };
            let degree = 1 << log2_degree.max(least);
            let mut cts = vec![0; 3 * (n + bodies)];
            uniform(&mut MaskStream::new(&PublicSeed([seed; 32]), Domain::Test, 0), modulus, &mut cts);
            if extreme {
                // Ties, and the ends of the range.
                for (i, a) in cts.iter_mut().enumerate() {
                    let half = (1u64 << (62 - log2_degree.max(least))).wrapping_mul(a.wrapping_mul(2) | 1);
                    *a = modulus.reduce([half, half - 1, half.wrapping_neg(), u64::MAX][i % 4 * (n % 2)]);
                }
            }
            let mut got = vec![u32::MAX; cts.len()];
            modulus_switch(kind, modulus, degree, (n, bodies), &cts, &mut got).unwrap();
            let wanted: Vec<u32> =
                cts.chunks(n + bodies).flat_map(|ct| reference(kind, modulus, degree, n, ct)).collect();
            prop_assert_eq!(got, wanted);
        }
    }
}
