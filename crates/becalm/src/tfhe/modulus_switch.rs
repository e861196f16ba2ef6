//! Modulus switch: an LWE ciphertext modulo q to exponents modulo 2N, for the blind rotation.
//!
//! A step of the rotation takes a group of key bits, which has M possible values: one (classic, M = 2), g (multi-bit,
//! M = 2^g), or a block of b (M = b + 1). For every value v other than 0 the group's part of ⟨a, s⟩ is a sum x_v of mask
//! elements; in cells of q/2N its exponent is x̂_v, the integer nearest to x_v, with rounding error e_v = x̂_v − x_v.
//! * plain: b̂ is the integer nearest to b. Each group adds an error of mean 0 and variance (1 − 1/M)/12.
//! * centred: over the key a group's error −e_v has mean −Σ_v e_v/M, and e_v is public: b̂ = ⌊b + Σ_groups Σ_v e_v/M⌋. The
//!   e_v are pairwise independent, e_0 = 0: what is left has variance (1 − 1/M)²/12. The body is rounded *down* because
//!   a table's box [m − w/2, m + w/2) of exponents is symmetric around m − ½: ⌊x⌋ lies in it exactly when x does, so
//!   rounding the body costs no noise at all. Measured as exponents, the error has mean −½ and 1/12 more variance.
//!
//! * companion (for 2^η accumulators): centred, with x̂ the multiple of some 2^t, t <= η, for which 2^(η−t) + λ·e² is
//!   least; variance `n·E[e²]/4` of [`crate::params::rounding_law`].
//!
//! Behind a common mask every body gets the same correction: it depends on the mask alone.
//! Sums are exact in integers. Cost: below 0.4 µs for n = 918, classic. Source: the centred mean for M = 2 is in TFHE-rs
//! 1.4 ff.; it makes free the choice of Bernard, Joye, Smart and Walter (ia.cr/2024/1718). docs/bootstrap/multi_bit.md.

use crate::math::Modulus;
use crate::params::{ModulusSwitch, Rotation};
use crate::{Error, Result};

/// Switches a batch of B ciphertexts of dimension n with w `bodies` to exponents: for every group of g key bits one for each
/// of the m values other than 0 that it may have, then the bodies'. In a multi-bit group bit t of v says whether mask
/// element t is in the sum of value v; in a block value v is mask element v − 1 alone; else groups have one bit.
///
/// * `inputs`: B × (n + w) elements modulo `modulus`, mask first. Ciphertexts modulo 2^32 are given as torus elements,
///   multiples of 2^32, with [`Modulus::Native`].
/// * `exponents`: B × (n/g·m + w), each in 0..2N, groups first; N = `polynomial_size`, a power of two up to 2^31.
///
/// Fails with `BadInput` when the shapes do not fit, and for groups that do not divide n.
pub fn modulus_switch(
    (rotation, kind): (Rotation, ModulusSwitch),
    modulus: Modulus,
    polynomial_size: usize,
    (dimension, bodies): (usize, usize),
    inputs: &[u64],
    exponents: &mut [u32],
) -> Result<()> {
    if !polynomial_size.is_power_of_two() || polynomial_size > 1 << 31 {
        return Err(Error::bad_input(
            "modulus switch",
            "a polynomial size that is a power of two up to 2^31",
            polynomial_size.to_string(),
            "use the polynomial size of a parameter set",
        ));
    }
    let (bits, values) = (rotation.group_bits(), rotation.group_ggsws());
    let (size, out_size) = (dimension + bodies, dimension / bits * values + bodies);
    let batch = inputs.len() / size;
    let lengths = inputs.len() == batch * size && exponents.len() == batch * out_size;
    let groups = values == bits || bits <= MAX_GROUPING;
    // Fewer values than cells, so that their errors add up in 64 bits.
    if !lengths || !groups || !dimension.is_multiple_of(bits) || values >= 2 * polynomial_size {
        return Err(Error::bad_input(
            "modulus switch",
            format!("B × {size} inputs and B × {out_size} exponents, in whole groups of {bits}"),
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
    for (ct, out) in inputs.chunks_exact(size).zip(exponents.chunks_exact_mut(out_size)) {
        // One compiled copy per modulus: the lift is free of branches within each.
        match modulus {
            Modulus::Native => cells.switch((rotation, kind), Modulus::Native, dimension, ct, out),
            Modulus::Goldilocks => {
                cells.switch((rotation, kind), Modulus::Goldilocks, dimension, ct, out)
            }
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
        (rotation, kind): (Rotation, ModulusSwitch),
        modulus: Modulus,
        dimension: usize,
        ct: &[u64],
        out: &mut [u32],
    ) {
        let (mask, bodies) = ct.split_at(dimension);
        let (bits, values) = (rotation.group_bits(), rotation.group_ggsws());
        let (exponents, out_bodies) = out.split_at_mut(out.len() - bodies.len());
        let coarsest = match kind {
            ModulusSwitch::Companion { coarsest_log2, .. } => coarsest_log2,
            _ => 0,
        };
        let round = |sum: u64| match kind {
            ModulusSwitch::Companion { coarsest_log2, weight } => {
                self.companion(sum, coarsest_log2, weight)
            }
            _ => (self.nearest(sum), self.rounding_error(sum)),
        };
        let mut sums = [0u64; 1 << MAX_GROUPING];
        // Rounding errors are at most half a (coarsest) cell: that many of them cannot overflow 64 bits.
        let limit = self.polynomial_size >> coarsest;
        let (mut errors, mut recent, mut count) = (0i128, 0i64, 0);
        for (group, out) in mask.chunks_exact(bits).zip(exponents.chunks_exact_mut(values)) {
            for (v, out) in out.iter_mut().enumerate() {
                let sum = if bits == values {
                    modulus.to_torus(group[v])
                } else {
                    // The sum of value v + 1 is that without its lowest bit, and one mask element.
                    let (value, lowest) = (v + 1, (v + 1).trailing_zeros() as usize);
                    sums[value] = sums[value & v].wrapping_add(modulus.to_torus(group[lowest]));
                    sums[value]
                };
                let (exponent, error) = round(sum);
                *out = exponent;
                recent += error;
            }
            count += values;
            if count + values > limit {
                errors += recent as i128;
                (recent, count) = (0, 0);
            }
        }
        errors += recent as i128;
        for (x, body) in out_bodies.iter_mut().zip(bodies) {
            let body = modulus.to_torus(*body);
            *x = match kind {
                ModulusSwitch::Plain => self.nearest(body),
                _ => self.below(body, errors, values as i128 + 1),
            };
        }
    }

    /// ⌊body + errors/m⌋ in cells.
    #[inline(always)]
    fn below(self, body: u64, errors: i128, m: i128) -> u32 {
        // In units of 1/m, so that no bit is lost to the division.
        let cell = (m * i128::from(body) + errors).div_euclid(m << self.shift);
        cell as u32 & (2 * self.polynomial_size as u64 - 1) as u32
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

/// Largest g of a multi-bit rotation.
const MAX_GROUPING: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
    use crate::math::sampling::{binary, blocks, uniform};
    use crate::tfhe::noise;
    use proptest::prelude::*;

    const COMPANION: ModulusSwitch = ModulusSwitch::Companion { coarsest_log2: 2, weight: 6 };
    const KINDS: [ModulusSwitch; 3] = [ModulusSwitch::Plain, ModulusSwitch::Centered, COMPANION];
    const ROTATIONS: [Rotation; 6] = [
        Rotation::Classic,
        Rotation::Extended { factor_log2: 2 },
        Rotation::MultiBit { grouping: 2 },
        Rotation::MultiBit { grouping: 5 },
        Rotation::Block { size: 3 },
        Rotation::Block { size: 8 },
    ];
    const MODULI: [Modulus; 2] = [Modulus::Native, Modulus::Goldilocks];

    /// Phase b − <a, s>, as a signed torus element.
    fn phase(modulus: Modulus, ct: &[u64], key: &[u64]) -> i64 {
        let dot = ct.iter().zip(key).fold(0, |sum, (&a, &s)| modulus.add(sum, a * s));
        modulus.to_torus(modulus.sub(ct[key.len()], dot)) as i64
    }

    /// The value of every group of a fresh key, and its bits.
    fn draw(rotation: Rotation, stream: &mut NoiseStream, key: &mut [u64]) -> Vec<usize> {
        match rotation {
            Rotation::Block { size } => blocks(stream, size as usize, key),
            _ => binary(stream, key),
        }
        let value = |group: &[u64]| match rotation {
            Rotation::Block { .. } => group.iter().position(|&s| s == 1).map_or(0, |t| t + 1),
            _ => group.iter().enumerate().map(|(t, &s)| (s as usize) << t).sum(),
        };
        key.chunks_exact(rotation.group_bits()).map(value).collect()
    }

    /// Errors in cells of exponents against phases, for fresh keys and ciphertexts uniform modulo `modulus`; of phase 0
    /// if `zero`.
    fn errors(
        (rotation, kind): (Rotation, ModulusSwitch),
        modulus: Modulus,
        (n, degree): (usize, usize),
        zero: bool,
    ) -> Vec<f64> {
        const SAMPLES: usize = 20_000;
        let values = rotation.group_ggsws();
        let mut mask = MaskStream::new(&PublicSeed([5; 32]), Domain::Test, 0);
        let mut secret = NoiseStream::new(&SecretSeed::from_bytes(&mut [6; 32]), Domain::Test, 0);
        let (mut ct, mut key) = (vec![0; n + 1], vec![0; n]);
        let mut exponents = vec![0; n / rotation.group_bits() * values + 1];
        let cell = 2f64.powi(63) / degree as f64;
        let sample = |_| {
            uniform(&mut mask, modulus, &mut ct);
            let chosen = draw(rotation, &mut secret, &mut key);
            if zero {
                ct[n] = 0;
                ct[n] = modulus.neg(phase(modulus, &ct, &key) as u64);
            }
            let all = (rotation, kind);
            modulus_switch(all, modulus, degree, (n, 1), &ct, &mut exponents).unwrap();
            assert!(exponents.iter().all(|&x| (x as usize) < 2 * degree));
            let (body, groups) = exponents.split_last().unwrap();
            let groups = groups.chunks_exact(values).zip(chosen);
            let dot: u32 = groups.filter(|(_, v)| *v > 0).map(|(x, v)| x[v - 1]).sum();
            let switched = (body.wrapping_sub(dot) as u64).wrapping_mul(cell as u64);
            switched.wrapping_sub(phase(modulus, &ct, &key) as u64) as i64 as f64 / cell
        };
        (0..SAMPLES).map(sample).collect()
    }

    /// The mean over a group's values, subtracted, leaves (1 − 1/M)² of a cell's twelfth for each group.
    #[test]
    fn errors_have_the_mean_and_variance_of_the_formulas() {
        let coarse = crate::params::rounding_law(2, Some(6)).square;
        let multi = |grouping| Rotation::MultiBit { grouping };
        let block = |size| Rotation::Block { size };
        for (n, degree, rotation) in [
            (918, 2048, Rotation::Classic),
            (300, 1024, Rotation::Classic),
            (300, 512, multi(2)),
            (300, 1024, multi(3)),
            (240, 512, multi(4)),
            (200, 512, multi(5)),
            (300, 512, block(2)),
            (300, 512, block(4)),
            (300, 1024, block(12)),
        ] {
            let (groups, m) = (n / rotation.group_bits(), rotation.group_ggsws() as f64 + 1.0);
            let left = groups as f64 * (1.0 - 1.0 / m) / 12.0;
            let mut kinds = vec![
                (ModulusSwitch::Plain, 0.0, left + 1.0 / 12.0),
                (ModulusSwitch::Centered, -0.5, left * (1.0 - 1.0 / m) + 1.0 / 12.0),
            ];
            if rotation == Rotation::Classic {
                kinds.push((COMPANION, -0.5, n as f64 * coarse / 4.0 + 1.0 / 12.0));
            }
            for (kind, mean, variance) in kinds {
                let what = format!("{rotation:?} {kind:?} n {n}");
                for modulus in MODULI {
                    let e = errors((rotation, kind), modulus, (n, degree), false);
                    let samples = e.len() as f64;
                    let got = e.iter().sum::<f64>() / samples;
                    let off = 4.0 * (variance / samples).sqrt();
                    assert!((got - mean).abs() < off, "{what} {modulus:?}: mean {got}");
                    let got = e.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / samples;
                    let off = 4.0 * (2.0 / samples).sqrt();
                    let ratio = got / variance;
                    assert!((ratio - 1.0).abs() < off, "{what} {modulus:?}: ratio {ratio}");
                    let formula = noise::modulus_switch(n, degree, (rotation, kind), Modulus::LOG2);
                    let own = match kind {
                        ModulusSwitch::Plain => variance,
                        _ => variance - 1.0 / 12.0,
                    };
                    let cells = formula * (2.0 * degree as f64).powi(2);
                    assert!((cells / own - 1.0).abs() < 1e-9, "{what}: formula {cells}, {own}");
                }
            }
        }
    }

    /// The half cell: a message in the middle of its box fails as often on one side as on the other.
    #[test]
    fn centred_errors_leave_the_box_on_both_sides_alike() {
        let all = (Rotation::Classic, ModulusSwitch::Centered);
        let e = errors(all, Modulus::Native, (918, 2048), true);
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
        let mut refused = |kind, degree: usize, n: usize, from: usize| {
            let all = (Rotation::Classic, kind);
            let result =
                modulus_switch(all, Modulus::Native, degree, (n, 1), &ct, &mut out[from..]);
            result.err().map(|e| e.kind())
        };
        for kind in KINDS {
            assert_eq!(refused(kind, 1000, 4, 0), Some("bad_input"));
            assert_eq!(refused(kind, 0, 4, 0), Some("bad_input"));
            assert_eq!(refused(kind, 1024, 5, 0), Some("bad_input"));
            assert_eq!(refused(kind, 1024, 4, 1), Some("bad_input"));
            assert_eq!(refused(kind, 1024, 4, 0), None);
        }
        assert_eq!(refused(COMPANION, 512, 4, 0), Some("bad_input"));
    }

    /// Every value of a group, as the mask elements that it adds up.
    fn subsets(rotation: Rotation) -> Vec<Vec<usize>> {
        let bits = rotation.group_bits();
        match rotation {
            Rotation::MultiBit { .. } => (1usize..1 << bits)
                .map(|v| (0..bits).filter(|t| v >> t & 1 == 1).collect())
                .collect(),
            _ => (0..bits).map(|t| vec![t]).collect(),
        }
    }

    /// The definition in 128-bit integers.
    fn reference(
        (rotation, kind): (Rotation, ModulusSwitch),
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
        let rounded = |a: i128| match kind {
            ModulusSwitch::Companion { coarsest_log2, weight } => {
                companion(a, coarsest_log2, weight)
            }
            _ => nearest(a),
        };
        let (mut out, mut sum) = (vec![], 0);
        for group in mask.chunks(rotation.group_bits()) {
            for subset in subsets(rotation) {
                // Sums are torus elements.
                let x = subset.iter().map(|&t| group[t]).sum::<i128>().rem_euclid(1 << 64);
                out.push(rounded(x));
                sum += rounded(x) * cell - x;
            }
        }
        let m = subsets(rotation).len() as i128 + 1;
        out.extend(bodies.iter().map(|body| match kind {
            ModulusSwitch::Plain => nearest(*body),
            _ => (m * body + sum).div_euclid(m * cell),
        }));
        out.iter().map(|x| x.rem_euclid(cells) as u32).collect()
    }

    #[test]
    fn groups_that_do_not_fit_are_refused() {
        let (ct, mut out) = ([0; 13], [0; 100]);
        let refused = |rotation: Rotation, len: usize, out: &mut [u32]| {
            let all = (rotation, ModulusSwitch::Centered);
            let result = modulus_switch(all, Modulus::Native, 512, (12, 1), &ct, &mut out[..len]);
            result.err().map(|e| e.kind())
        };
        let multi = |grouping| Rotation::MultiBit { grouping };
        assert_eq!(refused(multi(3), 4 * 7 + 1, &mut out), None);
        assert_eq!(refused(multi(3), 4 * 7, &mut out), Some("bad_input"));
        assert_eq!(refused(multi(5), 2 * 31 + 1, &mut out), Some("bad_input"));
        assert_eq!(refused(multi(6), 100, &mut out), Some("bad_input"));
        assert_eq!(refused(Rotation::Block { size: 6 }, 13, &mut out), None);
        assert_eq!(refused(Rotation::Block { size: 5 }, 13, &mut out), Some("bad_input"));
    }

    proptest! {
        #[test]
        fn equals_the_definition(
            log2_degree in 0u32..20,
            groups in 1usize..14,
            bodies in 1usize..4,
            rotation in prop::sample::select(&ROTATIONS[..]),
            kind in prop::sample::select(&KINDS[..]),
            modulus in prop::sample::select(&MODULI[..]),
            seed in any::<u8>(),
            extreme in any::<bool>(),
        ) {
            // Companion rounding is for rotations that take one bit a step.
            let kind = if rotation.group_bits() > 1 && kind == COMPANION { ModulusSwitch::Centered } else { kind };
            let least = match (rotation, kind) {
                (_, COMPANION) => 10,
                (Rotation::Classic, _) => 0,
                _ => 5,
            };
            let log2_degree = log2_degree.max(least);
            let degree = 1 << log2_degree;
            let n = groups * rotation.group_bits();
            let mut cts = vec![0; 3 * (n + bodies)];
            uniform(&mut MaskStream::new(&PublicSeed([seed; 32]), Domain::Test, 0), modulus, &mut cts);
            if extreme {
                // Ties, and the ends of the range.
                for (i, a) in cts.iter_mut().enumerate() {
                    let half = ((1u64 << 62) / degree as u64).wrapping_mul(a.wrapping_mul(2) | 1);
                    *a = modulus.reduce([half, half - 1, half.wrapping_neg(), u64::MAX][i % 4 * (n % 2)]);
                }
            }
            let mut got = vec![u32::MAX; 3 * (groups * rotation.group_ggsws() + bodies)];
            let all = (rotation, kind);
            modulus_switch(all, modulus, degree, (n, bodies), &cts, &mut got).unwrap();
            let wanted: Vec<u32> =
                cts.chunks(n + bodies).flat_map(|ct| reference(all, modulus, degree, n, ct)).collect();
            prop_assert_eq!(got, wanted);
        }
    }
}
