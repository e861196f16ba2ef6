//! The table of roots of unity that the kernels of a ring read: `kernels/transform.cuh` says in what order.
//!
//! ζ^x for x < 2N, ζ = e^(iπ/N) or ψ modulo p; the factors of the forward transform, pass by pass from the second; those of
//! the inverse transform, from its second pass; the twist ζ^(−j)/M. Complex roots are taken from one octant.

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

/// The exponents x of the powers ζ^x in a ring's table, ζ of order 2N, and those of the twist behind them.
fn exponents(ring: &Ring) -> (Vec<i64>, Vec<i64>) {
    let (n, m) = (i64::from(ring.n()), i64::from(ring.m()));
    let (log2_m, log2_points) = (ring.m().ilog2(), ring.points().ilog2());
    let passes = log2_m.div_ceil(log2_points);
    let factors = i64::from(ring.points()) / 2;
    let mut table: Vec<i64> = (0..2 * n).collect();
    // Node q of level s is X^L − ζ^e, e = (e_0 + 2N·rev(q))/2^s; its butterflies take ζ^(e/2). e_0 = N/2 for complex points,
    // whose root is i, and N for residues.
    let root = if ring.is_exact() { n } else { n / 2 };
    let node = |s: u32, q: i64| (root + 2 * n * reversed(q, s)) >> (s + 1);
    // The factors that a pass of `levels` levels from level s on takes for block q: of each level those of even nodes.
    let block = |s: u32, levels: u32, q: i64, out: &mut Vec<i64>| {
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
                // Factor 0 is of level 0, factor 2^(j−1) + ρ of level j: a root of order 2^(j+1)·stride to the u + stride·ρ.
                let j = if i == 0 { 0 } else { i.ilog2() + 1 };
                let rho = if i == 0 { 0 } else { i - (1 << i.ilog2()) };
                table.push(-(n / (stride << j)) * (u + stride * rho));
            }
        }
    }
    (table, (0..m).map(|j| -j).collect())
}

/// The table of a ring as it lies in memory: the bits of real and imaginary parts in turn, or residues modulo p.
pub fn table(ring: &Ring) -> Vec<u64> {
    let (powers, twist) = exponents(ring);
    if ring.is_exact() {
        let psi = power(ROOT, (1 << 31) / u64::from(ring.n()));
        let all: Vec<u64> = std::iter::successors(Some(1), |x| Some(multiply(*x, psi)))
            .take(2 * ring.n() as usize)
            .collect();
        let at = |x: &i64| all[x.rem_euclid(all.len() as i64) as usize];
        // 1/N = −2^(96 − log2 N).
        let inverse = P - power(2, 96 - u64::from(ring.log2_n));
        return powers
            .iter()
            .map(at)
            .chain(twist.iter().map(|x| multiply(at(x), inverse)))
            .collect();
    }
    let (n, m) = (i64::from(ring.n()), f64::from(ring.m()));
    let powers = powers.iter().map(|x| root(*x, n));
    let twist = twist.iter().map(|x| root(*x, n).map(|part| part / m));
    powers.chain(twist).flatten().map(f64::to_bits).collect()
}

/// p.
const P: u64 = 0xFFFF_FFFF_0000_0001;
/// A root of unity of order 2^32 modulo p whose 2^26-th power is 8, so that ψ^(N/32) = 8: the library's.
const ROOT: u64 = 0xE2AF_7063_5744_FD26;

fn multiply(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(P)) as u64
}

fn power(base: u64, exponent: u64) -> u64 {
    let bits = (0..64 - exponent.leading_zeros()).rev();
    bits.fold(1, |x, bit| {
        let square = multiply(x, x);
        if exponent >> bit & 1 == 1 { multiply(square, base) } else { square }
    })
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

    /// The kernels rely on this: factors of their first pass are powers of two.
    #[test]
    fn psi_is_a_root_of_eight() {
        for n in [256u64, 512, 1024, 2048, 4096, 8192, 16384] {
            let psi = power(ROOT, (1 << 31) / n);
            assert_eq!((power(psi, n / 32), power(psi, n)), (8, P - 1));
        }
        assert_eq!(multiply(P - power(2, 96 - 11), 2048), 1);
    }
}
