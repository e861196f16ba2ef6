//! The S-box of AES on encrypted bits, by the subfield of 16 elements: 26 bootstraps, 5 deep.
//!
//! With Y + Y¹⁶ = 1 every byte is x = hY + l, h and l in GF(16), and 1/x = (hY + h + l)/N with N = νh² + hl + l², ν = Y¹⁷.
//! Squares are linear. The products hl, h/N and l/N are sums of products of pairs of bits: four bits that are weighed 8, 4,
//! 2, 1 turn a constant polynomial, and every threshold v ≥ t is a coefficient of it, at half a torus; XORs of thresholds are
//! *all* Boolean functions of the four bits at once. So 8 bootstraps weigh h and l, 4 multiply, 4 weigh N, 2 invert, 8 multiply.
//! A circuit of ANDs (Boyar and Peralta: 32 of them) takes three bootstraps for each, tables for eight bits would need keys that
//! pack ciphertexts.

use super::Byte;
use crate::Result;
use crate::apps::circuit::{Circuit, ROOM, Sum, xor};
use std::sync::LazyLock;

/// Product in GF(2⁸) modulo x⁸ + x⁴ + x³ + x + 1.
fn product(a: u8, b: u8) -> u8 {
    (0..8).rev().fold(0u8, |p, i| {
        let twice = (p << 1) ^ ((p >> 7) * 0x1b);
        twice ^ ((b >> i & 1) * a)
    })
}

fn power(a: u8, n: usize) -> u8 {
    (0..n).fold(1, |p, _| product(p, a))
}

/// The linear part of the S-box: b ⊕ its rotations by 1 to 4.
fn affine(b: u8) -> u8 {
    (1..5).fold(b, |s, k| s ^ b.rotate_left(k))
}

/// The bytes as hY + l.
struct Field {
    /// Coordinates (l in bits 0 to 3, h in 4 to 7) of each byte.
    split: [u8; 256],
    /// The element of GF(16) of four coordinates.
    element: [u8; 16],
    y: u8,
}

static FIELD: LazyLock<Field> = LazyLock::new(|| {
    let in_subfield = |a: u8| power(a, 16) == a;
    let generates = |a: &u8| in_subfield(*a) && power(*a, 3) != 1 && power(*a, 5) != 1 && *a > 1;
    let w = (0..=255).find(generates).unwrap_or(1);
    let element: [u8; 16] =
        std::array::from_fn(|v| (0..4).filter(|i| v >> i & 1 == 1).fold(0, |s, i| s ^ power(w, i)));
    let y = (0..=255).find(|y| power(*y, 16) ^ y == 1).unwrap_or(1);
    let mut split = [0; 256];
    for v in 0..=255u8 {
        let x = product(element[v as usize >> 4], y) ^ element[v as usize & 15];
        split[x as usize] = v;
    }
    Field { split, element, y }
});

impl Field {
    /// Coordinates of an element of GF(16).
    fn coordinates(&self, a: u8) -> u8 {
        self.split[a as usize] & 15
    }
}

/// A bit at 0 or half a torus, as 0 or each of the weights: one bootstrap.
pub(super) fn weigh(c: &mut Circuit, bit: &Sum, weights: &[i64]) -> Result<Vec<Sum>> {
    let entries: Vec<i64> = weights.iter().map(|w| -w).collect();
    let output = |(s, w): (usize, &i64)| (s, *w, 0, *w);
    let outputs: Vec<_> = weights.iter().enumerate().map(output).collect();
    c.circle(bit, &entries, &outputs)
}

/// Boolean functions of a value 0 ..= 15, all from one bootstrap: bit i of `f` for each i < `count`.
fn booleans(c: &mut Circuit, v: &Sum, count: usize, f: impl Fn(u8) -> u8) -> Result<Vec<Sum>> {
    let outputs: Vec<_> = (1..ROOM).map(|t| ((ROOM - t) as usize, ROOM, 0, ROOM)).collect();
    let thresholds = c.circle(v, &[-ROOM; ROOM as usize], &outputs)?;
    let function = |i: usize| {
        let bit = |t: i64| f(t as u8) >> i & 1;
        let steps =
            (1..ROOM).filter(|t| bit(*t) != bit(t - 1)).map(|t| &thresholds[t as usize - 1]);
        let start = Sum::clear(ROOM * i64::from(bit(0)));
        xor(steps.chain([&start]))
    };
    Ok((0..count).map(function).collect())
}

/// Bits of a linear map of eight bits, `image` of each unit.
fn linear(bits: &[Sum], count: usize, image: impl Fn(u8) -> u8) -> Vec<Sum> {
    let row = |i: usize| {
        xor(bits.iter().enumerate().filter(|(k, _)| image(1 << k) >> i & 1 == 1).map(|b| b.1))
    };
    (0..count).map(row).collect()
}

/// Two weighed bits as one value.
fn halves(bits: &[Sum]) -> [Sum; 2] {
    [Sum::of(&bits[..2]), Sum::of(&bits[2..])]
}

/// The S-box of a byte.
pub(super) fn sub(c: &mut Circuit, byte: &Byte) -> Result<Byte> {
    let field = &*FIELD;
    let coordinates = linear(byte, 8, |b| field.split[b as usize]);
    let (mut l_high, mut l_low, mut h_high) = (vec![], vec![], vec![]);
    for i in 0..4 {
        let weight = 1 << (i % 2);
        let mut both = weigh(c, &coordinates[i], &[4 * weight, weight])?;
        l_low.push(both.remove(1));
        l_high.push(both.remove(0));
        h_high.push(weigh(c, &coordinates[4 + i], &[4 * weight])?.remove(0));
    }
    let (h, l, l_low) = (halves(&h_high), halves(&l_high), halves(&l_low));
    let norm = norm(c, byte, &h, &l_low)?;
    let inverse = |v: i64| {
        let a = power(field.element[v as usize], 14);
        i64::from(field.coordinates(a))
    };
    let inverse = [c.map(&norm, |v| inverse(v) & 3)?, c.map(&norm, |v| inverse(v) >> 2)?];
    let mut sums = vec![];
    for (p, (part, scale)) in h.iter().zip([1u8, 1]).chain(l.iter().zip([0, 0])).enumerate() {
        for (q, other) in inverse.iter().enumerate() {
            let f = |v: u8| {
                let a = field.element[(v as usize >> 2) << (2 * (p % 2))];
                let b = field.element[(v as usize & 3) << (2 * q)];
                let ab = product(a, b);
                affine(if scale == 1 { product(ab, field.y) ^ ab } else { ab })
            };
            sums.push(booleans(c, &(part + other), 8, f)?);
        }
    }
    let mut result: Byte = std::array::from_fn(|i| Sum::clear(ROOM * (0x63 >> i & 1)));
    for (i, bit) in result.iter_mut().enumerate() {
        let sum = xor(sums.iter().map(|s| &s[i]).chain([&*bit]));
        *bit = c.settle(&sum, crate::cipher::Encoding { values: 2, padding: false }, ROOM)?;
    }
    Ok(result)
}

/// N = νh² + hl + l² as a value 0 ..= 15.
fn norm(c: &mut Circuit, byte: &Byte, h: &[Sum; 2], l: &[Sum; 2]) -> Result<Sum> {
    let field = &*FIELD;
    let nu = power(field.y, 17);
    let squares = linear(byte, 4, |b| {
        let v = field.split[b as usize] as usize;
        let (h, l) = (field.element[v >> 4], field.element[v & 15]);
        field.coordinates(product(nu, product(h, h)) ^ product(l, l))
    });
    let mut sums = vec![squares];
    for (p, h) in h.iter().enumerate() {
        for (q, l) in l.iter().enumerate() {
            let f = |v: u8| {
                let a = field.element[(v as usize >> 2) << (2 * p)];
                let b = field.element[(v as usize & 3) << (2 * q)];
                field.coordinates(product(a, b))
            };
            sums.push(booleans(c, &(h + l), 4, f)?);
        }
    }
    let mut norm = Sum::clear(0);
    for i in 0..4 {
        let bit = xor(sums.iter().map(|s| &s[i]));
        norm = &norm + &weigh(c, &bit, &[1 << i])?[0];
    }
    Ok(norm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_splits_and_inverts() {
        let f = &*FIELD;
        let mut seen = f.split.to_vec();
        seen.sort();
        assert!(seen.iter().enumerate().all(|(i, v)| i == *v as usize), "not one to one");
        assert_eq!(power(f.y, 16) ^ f.y, 1);
        // FIPS 197: S(0x53) = 0xed.
        assert_eq!(affine(power(0x53, 254)) ^ 0x63, 0xed);
    }
}
