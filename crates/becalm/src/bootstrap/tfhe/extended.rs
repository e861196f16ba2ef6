//! Extended bootstrapping: a table T(Y) of M·N coefficients, M = 2^η, in M accumulators of N: T(Y) = Σ_j Y^j·acc_j(Y^M).
//!
//! Exponents are modulo 2MN. With a = M·w + r, 0 <= r < M, accumulator j of Y^a·T is `X^(w + [j < r])`·acc_((j − r) mod M), so a
//! step is a CMUX by the key of the small ring for each accumulator: acc_j += (X^(…)·acc_(j−r) − acc_j) ⊡ GGSW(s_i).
//! Steps commute in the exponent, so those of lesser 2-adic valuation go first: once all that remain are multiples of 2^t,
//! accumulators that are not never reach accumulator 0, from which alone is extracted, and are left alone. Cost for uniform
//! exponents: n·(M/2 + M/8 + …) external products, [`crate::params::rounding_law`]. The key has the size of the small ring's.
//! Noise: as a classic rotation over N; the modulus switch goes to 2MN cells. The order is part of the definition: modulo p
//! the result is that of the reference backend bit for bit. Source: Lee, Yoon 2023 (extended); Bergerat et al., Asiacrypt
//! 2025 (sorted).

use crate::params::TfheParams;

/// One CMUX: accumulator `target` += (X^shift·source − target) ⊡ GGSW_key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Which key bit.
    pub key: usize,
    /// The accumulator that changes.
    pub target: usize,
    /// The accumulator that comes in its place.
    pub source: Source,
    /// The power of X, in 0..2N.
    pub shift: usize,
    /// Whether this is the first of its key bit: the target is put by before it changes.
    pub first: bool,
}

/// Where the left factor of a [`Move`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In an accumulator that has not changed in this step.
    Accumulator(usize),
    /// Where the first target of the step was put by.
    Kept,
}

/// Accumulator and power of X that Y^`exponent` brings to accumulator `target`, of M = `parts` of degree `n`.
pub fn origin(exponent: usize, target: usize, parts: usize, n: usize) -> (usize, usize) {
    let (whole, part) = (exponent / parts, exponent % parts);
    let carry = usize::from(target < part);
    ((target + parts - part) % parts, (whole + carry) % (2 * n))
}

/// The moves of a rotation by the exponents of a mask, each in 0..2MN.
///
/// A step turns the accumulators in use in one cycle. From accumulator 0 backwards, each source is read before it changes,
/// but for the last, which is accumulator 0 again: it is put by.
pub fn moves(mask: &[u32], params: &TfheParams) -> Vec<Move> {
    let (parts, n) = (params.accumulators(), params.polynomial_size);
    let valuation = |a: u32| a.trailing_zeros().min(parts.trailing_zeros());
    // The mask is public, so a rotation by nothing may be left out.
    let mut order: Vec<usize> = (0..mask.len()).filter(|i| mask[*i] != 0).collect();
    order.sort_by_key(|i| valuation(mask[*i]));
    let mut all = Vec::new();
    for key in order {
        let exponent = mask[key] as usize;
        let mut target = 0;
        for turn in 0..parts >> valuation(mask[key]) {
            let (source, shift) = origin(exponent, target, parts, n);
            let kept = source == 0 && turn > 0;
            all.push(Move {
                key,
                target,
                source: if kept { Source::Kept } else { Source::Accumulator(source) },
                shift,
                first: turn == 0,
            });
            target = source;
        }
    }
    all
}

/// Writes a plaintext table where a rotation takes it: into body `slot` of M GLWE of (k+w)·N words, `out`.
pub fn load_table(params: &TfheParams, slot: usize, polynomial: &[u64], out: &mut [u64]) {
    let (n, parts) = (params.polynomial_size, params.accumulators());
    let (glwe, at) = (out.len() / parts, (params.glwe_dimension + slot) * n);
    for (j, glwe) in out.chunks_exact_mut(glwe).enumerate() {
        let body = &mut glwe[at..at + n];
        for (b, t) in body.iter_mut().zip(polynomial.iter().skip(j).step_by(parts)) {
            *b = *t;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Rotation;

    /// Polynomials of integers: the moves, with every key bit 1 and an exact product by it, rotate the whole table.
    #[test]
    fn moves_rotate_the_table() {
        for factor_log2 in 1..=4u32 {
            let toy = TfheParams::named("toy_2_2").unwrap().clone();
            let p = TfheParams {
                polynomial_size: 8,
                rotation: Rotation::Extended { factor_log2 },
                ..toy
            };
            let (parts, size) = (p.accumulators(), p.table_size());
            let coefficient = |table: &[i64], at: usize| {
                let (turn, at) = (at / size, at % size);
                if turn % 2 == 0 { table[at] } else { -table[at] }
            };
            let table: Vec<i64> = (1..=size as i64).collect();
            let mask: Vec<u32> =
                (0..40).map(|i| (i * i * 37 + i * 5) % (2 * size as u32)).collect();
            let mut accs: Vec<Vec<i64>> = (0..parts)
                .map(|j| table.iter().skip(j).step_by(parts).copied().collect())
                .collect();
            let turned = |a: &[i64], shift: usize| -> Vec<i64> {
                let n = a.len();
                let at = |i: usize| (i + 2 * n - shift) % (2 * n);
                (0..n).map(|i| if at(i) < n { a[at(i)] } else { -a[at(i) - n] }).collect()
            };
            let mut kept = vec![];
            for m in moves(&mask, &p) {
                if m.first {
                    kept = accs[m.target].clone();
                }
                let source = match m.source {
                    Source::Accumulator(j) => &accs[j],
                    Source::Kept => &kept,
                };
                accs[m.target] = turned(source, m.shift);
            }
            let total: usize = mask.iter().map(|a| *a as usize).sum();
            let wanted: Vec<i64> = (0..size)
                .step_by(parts)
                .map(|i| coefficient(&table, (i + 2 * size * mask.len() - total) % (2 * size)))
                .collect();
            assert_eq!(accs[0], wanted, "2^{factor_log2}");
        }
    }

    /// Work is skipped: the number of moves is that of the law.
    #[test]
    fn work_is_skipped() {
        let toy = TfheParams::named("toy_2_2").unwrap().clone();
        let p = TfheParams { rotation: Rotation::Extended { factor_log2: 3 }, ..toy };
        let mask: Vec<u32> = (1..2 * p.table_size() as u32).collect();
        let found = moves(&mask, &p).len() as f64 / mask.len() as f64;
        assert!((found / p.rounding().products - 1.0).abs() < 1e-2, "{found}");
    }
}
