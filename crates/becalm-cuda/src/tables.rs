//! The table of roots of unity that the kernels of a ring read: `kernels/fft.cuh` says in what order.
//!
//! e^(iπx/N) for x < 2N; the factors of the forward transform, pass by pass from the second; those of the inverse transform,
//! from its second pass; the twist e^(−iπj/N)/M. All are powers of e^(iπ/N), taken from one octant.

use crate::rings::Ring;
use std::f64::consts::PI;

/// e^(iπx/n), n a power of two and at least 4, correct to the last bit or two.
fn root(x: i64, n: i64) -> [f64; 2] {
    let x = x.rem_euclid(2 * n);
    // Quarter turns are exact; an angle up to an eighth of a turn is in its quarter or mirrored.
    let (quarter, rest) = (x / (n / 2), x % (n / 2));
    let mirrored = rest > n / 4;
    let angle = if mirrored { n / 2 - rest } else { rest };
    let (sin, cos) = (PI * angle as f64 / n as f64).sin_cos();
    let (re, im) = if mirrored { (sin, cos) } else { (cos, sin) };
    match quarter {
        0 => [re, im],
        1 => [-im, re],
        2 => [-re, -im],
        _ => [im, -re],
    }
}

/// The lowest `bits` bits of x, reversed.
fn reversed(x: i64, bits: u32) -> i64 {
    (0..bits).map(|b| (x >> b & 1) << (bits - 1 - b)).sum()
}

/// The table of a ring, real and imaginary parts in turn.
pub fn table(ring: &Ring) -> Vec<[f64; 2]> {
    let (n, m) = (i64::from(ring.n()), i64::from(ring.m()));
    let (log2_m, log2_points) = (ring.log2_n - 1, ring.points().trailing_zeros());
    let passes = log2_m.div_ceil(log2_points);
    let factors = i64::from(ring.points()) / 2;
    let mut table: Vec<[f64; 2]> = (0..2 * n).map(|x| root(x, n)).collect();
    // Node q of level s is X^L − e^(iθ), θ = (π/2 + 2π·rev(q))/2^s; its butterflies take e^(iθ/2).
    let node = |s: u32, q: i64| root(n / (1 << (s + 2)) * (1 + 4 * reversed(q, s)), n);
    // The factors that a pass of `levels` levels from level s on takes for block q: of each level those of even nodes.
    let block = |s: u32, levels: u32, q: i64, out: &mut Vec<[f64; 2]>| {
        for j in 0..levels {
            out.extend((0..1i64 << j).step_by(2).map(|v| node(s + j, (q << j) + v)));
        }
    };
    for pass in 1..passes {
        let s = pass * log2_points;
        let levels = log2_points.min(log2_m - s);
        (0..1i64 << s).for_each(|q| block(s, levels, q, &mut table));
    }
    for pass in (0..passes - 1).rev() {
        let stride = m >> ((pass + 1) * log2_points);
        for u in 0..stride {
            for i in 0..factors {
                // Factor 0 is of level 0, factor 2^(j−1) + ρ of level j: e^(−iπ(u + stride·ρ)/(stride·2^j)).
                let j = if i == 0 { 0 } else { i.ilog2() + 1 };
                let rho = if i == 0 { 0 } else { i - (1 << i.ilog2()) };
                table.push(root(-(n / (stride << j)) * (u + stride * rho), n));
            }
        }
    }
    table.extend((0..m).map(|j| root(-j, n).map(|x| x / m as f64)));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_on_the_circle() {
        for x in -70..70 {
            let [re, im] = root(x, 16);
            let angle = PI * x as f64 / 16.0;
            assert!((re - angle.cos()).abs() < 1e-13 && (im - angle.sin()).abs() < 1e-13, "{x}");
            assert!((re.hypot(im) - 1.0).abs() < 3e-16, "{x}");
        }
        assert_eq!([root(0, 16), root(8, 16), root(-8, 16)], [[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]);
    }
}
