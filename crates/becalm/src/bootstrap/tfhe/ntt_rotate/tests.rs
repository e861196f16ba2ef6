//! The exact rotation against its definition.

use super::*;
use crate::math::exact::schoolbook_add;
use crate::math::gadget::{decompose, recompose};

fn words(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

fn ggsw(shape: &Shape, i: usize) -> Vec<u64> {
    let mut next = words(1000 + i as u64);
    (0..shape.ggsw_len()).map(|_| P.reduce(next())).collect()
}

/// X^e·a by the definition.
fn rotated(a: &[u64], e: usize) -> Vec<u64> {
    let size = a.len();
    let mut out = vec![0; size];
    for (i, &x) in a.iter().enumerate() {
        let to = (i + e) % (2 * size);
        if to < size { out[to] = x } else { out[to - size] = P.neg(x) }
    }
    out
}

/// The rotation by the definition, coefficient by coefficient.
fn reference(shape: &Shape, acc: &mut [u64], mask: &[u32]) {
    let (size, columns) = (shape.polynomial_size, shape.columns());
    let level = shape.gadget.level as usize;
    let (mask, bodies) = mask.split_at(shape.ggsw_count);
    for (c, a) in acc.chunks_exact_mut(size).enumerate() {
        let body = bodies[c.saturating_sub(shape.glwe_dimension)] as usize;
        a.copy_from_slice(&rotated(a, 2 * size - body));
    }
    for (i, &e) in mask.iter().enumerate() {
        let key = ggsw(shape, i);
        let before = acc.to_vec();
        for (r, a) in before.chunks_exact(size).enumerate() {
            let mut digits = vec![vec![0i64; size]; level];
            for (j, (&x, &a)) in rotated(a, e as usize).iter().zip(a).enumerate() {
                let mut d = vec![0; level];
                decompose(P, shape.gadget, P.sub(x, a), &mut d);
                d.iter().zip(&mut digits).for_each(|(&d, row)| row[j] = d);
            }
            for (l, digits) in digits.iter().enumerate() {
                for (c, sum) in acc.chunks_exact_mut(size).enumerate() {
                    let at = ((l * columns + r) * columns + c) * size;
                    schoolbook_add(P, sum, digits, &key[at..at + size]);
                }
            }
        }
    }
}

/// The rotation by groups of `group` by the definition.
fn grouped_reference(shape: &Shape, group: usize, acc: &mut [u64], mask: &[u32]) {
    let (size, columns) = (shape.polynomial_size, shape.columns());
    let (body, mask) = mask.split_last().unwrap();
    for a in acc.chunks_exact_mut(size) {
        a.copy_from_slice(&rotated(a, 2 * size - *body as usize));
    }
    for (i, exponents) in mask.chunks_exact(group).enumerate() {
        let mut bundle = vec![0; shape.ggsw_len()];
        for (j, &e) in exponents.iter().enumerate() {
            let key = ggsw(shape, i * group + j);
            for (sum, key) in bundle.chunks_exact_mut(size).zip(key.chunks_exact(size)) {
                for ((sum, x), y) in sum.iter_mut().zip(rotated(key, e as usize)).zip(key) {
                    *sum = P.add(*sum, P.sub(x, *y));
                }
            }
        }
        let level = shape.gadget.level as usize;
        let mut digits = vec![0; acc.len() * level];
        for (a, digits) in acc.iter_mut().zip(digits.chunks_exact_mut(level)) {
            decompose(P, shape.gadget, *a, digits);
            *a = recompose(P, shape.gadget, digits);
        }
        for (r, digits) in digits.chunks_exact(size * level).enumerate() {
            for l in 0..level {
                let digits: Vec<i64> = digits.iter().skip(l).step_by(level).copied().collect();
                for (c, sum) in acc.chunks_exact_mut(size).enumerate() {
                    let at = ((l * columns + r) * columns + c) * size;
                    schoolbook_add(P, sum, &digits, &bundle[at..at + size]);
                }
            }
        }
    }
}

#[test]
fn groups_are_exact() {
    let cases = [(1, 3, 2, 64, 1, 23), (2, 7, 2, 32, 2, 12), (1, 2, 4, 128, 3, 7)];
    for (k, group, steps, size, level, base_log) in cases {
        let gadget = Gadget { base_log, level };
        let shape = Shape {
            ggsw_count: group * steps,
            glwe_dimension: k,
            bodies: 1,
            polynomial_size: size,
            gadget,
        };
        let mut next = words(size as u64);
        let tile = 2;
        // Half a turn is rounded to the greatest digit; every sixteenth word.
        let word = |i: usize| if i.is_multiple_of(16) { 1 << 63 } else { P.reduce(next()) };
        let accs: Vec<u64> = (0..tile * shape.glwe_len()).map(word).collect();
        let mut masks: Vec<u32> = (0..tile * (group * steps + 1))
            .map(|i| (i * i * 7919 + 3 * i) as u32 % (2 * size as u32))
            .collect();
        masks[..group].fill(0);
        let mut expected = accs.clone();
        let pairs = expected.chunks_exact_mut(shape.glwe_len());
        for (acc, mask) in pairs.zip(masks.chunks_exact(group * steps + 1)) {
            grouped_reference(&shape, group, acc, mask);
        }
        for &simd in Level::available() {
            let fill = |i: usize, out: &mut [u64]| out.copy_from_slice(&ggsw(&shape, i));
            let key = NttBootstrapKey::grouped(shape, group, simd, fill).unwrap();
            let mut got = accs.clone();
            key.rotate(&mut got, &masks, &mut key.scratch(tile).unwrap()).unwrap();
            assert!(got == expected, "{shape:?} in groups of {group} {simd:?}");
            let other = NttBootstrapKey::grouped(shape, group + 1, simd, fill);
            assert_eq!(other.err().map(|e| e.kind()), Some("bad_input"));
        }
    }
}

fn check(n: usize, k: usize, size: usize, level: u32, base_log: u32, tile: usize) {
    let gadget = Gadget { base_log, level };
    let shape =
        Shape { ggsw_count: n, glwe_dimension: k, bodies: 1, polynomial_size: size, gadget };
    let mut next = words((n + 10 * k + size) as u64);
    let accs: Vec<u64> = (0..tile * shape.glwe_len()).map(|_| P.reduce(next())).collect();
    let mut masks: Vec<u32> =
        (0..tile * (n + 1)).map(|_| next() as u32 % (2 * size as u32)).collect();
    // Some exponents at the edges, also in the body.
    let edges = [0, size - 1, size, size + 1, 2 * size - 1];
    for (i, mask) in masks.iter_mut().enumerate().skip(level as usize % 2).step_by(2) {
        *mask = edges[(i / 2 + k) % 5] as u32;
    }
    let mut expected = accs.clone();
    for (acc, mask) in expected.chunks_exact_mut(shape.glwe_len()).zip(masks.chunks_exact(n + 1)) {
        reference(&shape, acc, mask);
    }
    for &simd in Level::available() {
        let key = NttBootstrapKey::new(shape, simd, |i, out| out.copy_from_slice(&ggsw(&shape, i)))
            .unwrap();
        assert_eq!(NttBootstrapKey::bytes(&shape), 8 * key.ggsw.as_slice().len());
        let mut scratch = key.scratch(tile).unwrap();
        let mut got = accs.clone();
        key.rotate(&mut got, &masks, &mut scratch).unwrap();
        assert!(got == expected, "{shape:?} {simd:?}");
    }
}

#[test]
fn exact_for_all_shapes() {
    for k in 1..=4 {
        for level in 1..=5 {
            for (n, size, tile) in [(1, 16, 2), (5, 32, 3), (3, 64, 1), (3, 128, 2), (2, 256, 1)] {
                check(n, k, size, level, 3 + 8 / level, tile);
            }
        }
    }
}

#[test]
fn exact_for_large_rings() {
    check(2, 1, 2048, 1, 23, 2);
    check(3, 2, 1024, 2, 15, 1);
    check(2, 4, 512, 1, 23, 1);
    check(1, 1, 2048, 5, 8, 1);
}

#[test]
fn exact_for_extreme_gadgets() {
    for (base_log, level) in [(63, 1), (1, 1), (1, 63), (31, 2), (21, 3), (12, 5)] {
        check(3, 1, 128, level, base_log, 2);
    }
}

#[test]
fn wrong_shapes_are_refused() {
    let gadget = Gadget { base_log: 23, level: 1 };
    let good = Shape { ggsw_count: 1, glwe_dimension: 1, bodies: 1, polynomial_size: 16, gadget };
    let refused = |shape: Shape, kind: &str| {
        let key = NttBootstrapKey::new(shape, Level::best(), |_, _| {});
        assert_eq!(key.err().map(|e| e.kind()), Some(kind), "{shape:?}");
    };
    refused(Shape { polynomial_size: 24, ..good }, "bad_input");
    refused(Shape { glwe_dimension: 0, ..good }, "bad_input");
    refused(Shape { gadget: Gadget { base_log: 16, level: 4 }, ..good }, "bad_input");
    refused(Shape { gadget: Gadget { base_log: 16, level: 0 }, ..good }, "bad_input");
    refused(Shape { ggsw_count: usize::MAX / 8, ..good }, "memory");
}
