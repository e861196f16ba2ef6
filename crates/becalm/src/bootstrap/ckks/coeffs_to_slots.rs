//! The matrices between coefficients and slots, in factors: z = U·w, w_k = c_k + i·c_(k+n), n = N/2.
//!
//! U is log2 n layers of butterflies on a bit-reversed w: (u, v) → (u + ξv, u − ξv), ξ = e^(2πi·5^j/4L) in blocks of L.
//! Layers are multiplied into a few stages; m layers of least distance s give diagonals at multiples of s from
//! −(2^m − 1)s to (2^m − 1)s. Rotations go to the left only: each stage works on, or hands on, a vector that is rotated
//! by a multiple of the neighbour's distance, which costs nothing there, and the stage of the largest blocks wraps
//! around. Between the two transforms everything is slot by slot, so the reversed order does not matter.
//! Source: Cheon–Han–Hhan 2018, Han–Hhan–Cheon 2019; the rotated stages are own.

use crate::ckks::Matrix;

/// Stages as (product of their layers, distance from which the stage's diagonals come to lie at positive rotations): the layers from
/// the largest blocks down for the inverse, from the smallest up otherwise, in the order in which they are applied.
fn grouped(slots: usize, stages: usize, inverse: bool) -> Vec<(Matrix, i64)> {
    let layers = slots.ilog2();
    let bound = |i: usize| (layers as usize * i / stages) as u32;
    let stage = |i: usize| {
        let (from, to) = (bound(i), bound(i + 1));
        let halves = if inverse { layers - to..layers - from } else { from..to };
        // The widest block of the stage.
        let reach = 1 << halves.end;
        (Matrix::stage(slots, halves, inverse), reach)
    };
    (0..stages).map(stage).collect()
}

/// Stages from slots to coefficients over 2^(·) in bit-reversed order, the first to be applied first; `factor` is spread
/// evenly.
pub(super) fn coeffs_to_slots(slots: usize, stages: usize, factor: f64) -> Vec<Matrix> {
    let parts = grouped(slots, stages, true);
    let each = factor.powf(1.0 / stages as f64);
    let shift = |i: usize| if i == 0 { 0 } else { parts.get(i).map_or(0, |p| p.1) };
    let rotated = |(i, (m, _)): (usize, &(Matrix, i64))| {
        m.on_rotated(-shift(i)).then_rotated(-shift(i + 1)).scaled(each)
    };
    parts.iter().enumerate().map(rotated).collect()
}

/// Stages from coefficients in bit-reversed order to slots.
pub(super) fn slots_to_coeffs(slots: usize, stages: usize, factor: f64) -> Vec<Matrix> {
    let parts = grouped(slots, stages, false);
    let each = factor.powf(1.0 / stages as f64);
    let shift = |i: usize| if i + 1 == parts.len() { 0 } else { parts[i].1 };
    let rotated = |(i, (m, _)): (usize, &(Matrix, i64))| {
        let before = if i == 0 { 0 } else { shift(i - 1) };
        m.on_rotated(before).then_rotated(shift(i)).scaled(each)
    };
    parts.iter().enumerate().map(rotated).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::complex::Complex;
    use std::f64::consts::PI;

    /// The stages take coefficients to the values of their polynomial at ζ^(5^j), and the others take these back.
    #[test]
    fn stages_are_the_transform_of_the_slots() {
        let slots = 64;
        let value = |k: usize| Complex::new((k as f64 * 0.7).sin(), (k as f64 * 0.3).cos());
        let w: Vec<Complex> = (0..slots).map(value).collect();
        let reversed = |x: &[Complex]| -> Vec<Complex> {
            (0..slots).map(|i| x[i.reverse_bits() >> (usize::BITS - 6)]).collect()
        };
        let slot = |j: usize| {
            let power = (0..j).fold(1, |g, _| g * 5 % (4 * slots));
            let term = |(k, c): (usize, &Complex)| {
                let (sin, cos) = (PI * (power * k) as f64 / (2 * slots) as f64).sin_cos();
                *c * Complex::new(cos, sin)
            };
            w.iter().enumerate().map(term).fold(Complex::default(), |a, b| a + b)
        };
        let z: Vec<Complex> = (0..slots).map(slot).collect();
        let close = |a: &[Complex], b: &[Complex], factor: f64| {
            a.iter().zip(b).all(|(a, b)| (*a - *b * factor).abs() < 1e-11)
        };
        for stages in [1, 2, 3, 6] {
            let apply =
                |maps: Vec<Matrix>, x: &[Complex]| maps.iter().fold(x.to_vec(), |x, m| m.apply(&x));
            let up = apply(slots_to_coeffs(slots, stages, 3.0), &reversed(&w));
            assert!(close(&up, &z, 3.0), "{stages} stages");
            let down = apply(coeffs_to_slots(slots, stages, 0.5), &z);
            assert!(close(&down, &reversed(&w), 0.5), "{stages} stages back");
        }
    }

    /// No stage of the sizes used needs more rotations than twice its radix.
    #[test]
    fn rotations_are_few_and_to_the_left() {
        let maps = [coeffs_to_slots(512, 3, 1.0), slots_to_coeffs(512, 3, 1.0)].concat();
        let strides = [64, 8, 1, 1, 8, 64];
        for (map, stride) in maps.iter().zip(strides) {
            let most = if stride == 64 { 8 } else { 16 };
            assert!(map.rotations().all(|k| k % stride == 0 && k / stride < most));
        }
    }
}
