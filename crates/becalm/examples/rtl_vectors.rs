//! Vectors for the test benches in `rtl/`: words of 64 bits, little endian, inputs and what the library makes of them.
//!
//! `rtl_vectors DIR UNIT key=value …` writes DIR/vectors.bin; the record of each unit stands at the function that writes it.
//! Keys: n, N, T, k, level, base_log, count (records, or ciphertexts of a batch).

use becalm::bootstrap::tfhe::Shape;
use becalm::bootstrap::tfhe::classic::sample_extract;
use becalm::bootstrap::tfhe::ntt_rotate::NttBootstrapKey;
use becalm::math::Modulus;
use becalm::math::gadget::{Gadget, decompose};
use becalm::math::simd::Level;
use becalm::params::{ModulusSwitch, Rotation};
use becalm::tfhe::modulus_switch::modulus_switch;
use std::collections::HashMap;
use std::error::Error;

const P: Modulus = Modulus::Goldilocks;
const PRIME: u64 = 0xFFFF_FFFF_0000_0001;
/// Of order 2^32; its 2^26-th power is 8.
const ROOT: u64 = 0xE2AF_7063_5744_FD26;

/// Words of splitmix64, every fourth one replaced by an edge.
struct Words(u64);

impl Words {
    fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn residue(&mut self) -> u64 {
        const EDGES: [u64; 10] = [
            0,
            1,
            0xFFFF_FFFF,
            1 << 32,
            (1 << 63) - 1,
            PRIME / 2,
            PRIME / 2 + 1,
            PRIME - 0xFFFF_FFFF,
            PRIME - 2,
            PRIME - 1,
        ];
        let z = self.any();
        if z >> 62 == 0 { EDGES[(z % 10) as usize] } else { P.reduce(self.any()) }
    }

    fn residues(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.residue()).collect()
    }
}

struct Sizes(HashMap<String, usize>);

impl Sizes {
    fn get(&self, key: &str, default: usize) -> usize {
        self.0.get(key).copied().unwrap_or(default)
    }

    fn gadget(&self) -> Gadget {
        Gadget { base_log: self.get("base_log", 10) as u32, level: self.get("level", 2) as u32 }
    }
}

fn power(base: u64, exponent: u64) -> u64 {
    (0..64).rev().fold(1, |x, i| {
        let square = P.mul(x, x);
        if (exponent >> i) & 1 == 1 { P.mul(square, base) } else { square }
    })
}

/// The values of a polynomial in the order of the tree: X^S − ψ^e splits into X^(S/2) − ψ^(e/2), then + ψ^(e/2).
fn transform(a: &mut [u64], psi: u64, e: u64, size: u64) {
    let half = a.len() / 2;
    if half == 0 {
        return;
    }
    let w = power(psi, e / 2);
    let (low, high) = a.split_at_mut(half);
    for (u, v) in low.iter_mut().zip(&mut *high) {
        let turned = P.mul(*v, w);
        (*u, *v) = (P.add(*u, turned), P.sub(*u, turned));
    }
    transform(low, psi, e / 2, size);
    transform(high, psi, e / 2 + size, size);
}

fn forward(a: &mut [u64]) {
    let size = a.len() as u64;
    transform(a, power(ROOT, (1 << 31) / size), size, size);
}

/// a, b, a + b, a − b, a·b.
fn arith(s: &Sizes, words: &mut Words) -> Vec<u64> {
    let record = |_| {
        let (a, b) = (words.residue(), words.residue());
        [a, b, P.add(a, b), P.sub(a, b), P.mul(a, b)]
    };
    (0..s.get("count", 1000)).flat_map(record).collect()
}

/// N coefficients, their N values.
fn ntt(s: &Sizes, words: &mut Words) -> Vec<u64> {
    let record = |_| {
        let a = words.residues(s.get("N", 256));
        let mut values = a.clone();
        forward(&mut values);
        [a, values].concat()
    };
    (0..s.get("count", 4)).flat_map(record).collect()
}

/// a, its digits as residues, least significant first.
fn digits(s: &Sizes, words: &mut Words) -> Vec<u64> {
    let gadget = s.gadget();
    let record = |_| {
        let a = words.residue();
        let mut digits = vec![0; gadget.level as usize];
        decompose(P, gadget, a, &mut digits);
        [a].into_iter().chain(digits.into_iter().rev().map(|d| P.from_signed(d)))
    };
    (0..s.get("count", 1000)).flat_map(record).collect()
}

/// n + 1 words, their exponents.
fn switch(s: &Sizes, words: &mut Words) -> Result<Vec<u64>, Box<dyn Error>> {
    let (n, size) = (s.get("n", 16), s.get("N", 256));
    let mut out = Vec::new();
    for _ in 0..s.get("count", 100) {
        let ct = words.residues(n + 1);
        out.extend_from_slice(&ct);
        out.extend(exponents(n, size, &ct)?.into_iter().map(u64::from));
    }
    Ok(out)
}

fn exponents(n: usize, size: usize, ct: &[u64]) -> Result<Vec<u32>, Box<dyn Error>> {
    let mut out = vec![0; n + 1];
    let kind = (Rotation::Classic, ModulusSwitch::Centered);
    modulus_switch(kind, P, size, (n, 1), ct, &mut out)?;
    Ok(out)
}

/// The key as the machine reads it, for each step, polynomial and row the words [l][c][lane]; then for each ciphertext of the
/// batch n + 1 words, the extraction index, k + 1 table polynomials, and the k·N + 1 words of the result.
fn bootstrap(s: &Sizes, words: &mut Words) -> Result<Vec<u64>, Box<dyn Error>> {
    let (n, size, k, lanes) = (s.get("n", 16), s.get("N", 256), s.get("k", 1), s.get("T", 2));
    let gadget = s.gadget();
    let (levels, columns, rows) = (gadget.level as usize, k + 1, size / lanes);
    let shape =
        Shape { ggsw_count: n, glwe_dimension: k, bodies: 1, polynomial_size: size, gadget };
    let key: Vec<Vec<u64>> = (0..n).map(|_| words.residues(shape.ggsw_len())).collect();
    let rotator =
        NttBootstrapKey::new(shape, Level::best(), |i, out| out.copy_from_slice(&key[i]))?;
    let scale = power(size as u64, PRIME - 2);
    let mut out = Vec::new();
    for mut ggsw in key {
        for polynomial in ggsw.chunks_exact_mut(size) {
            forward(polynomial);
        }
        for (r, t) in (0..columns).flat_map(|r| (0..rows).map(move |t| (r, t))) {
            for (l, c) in (0..levels).rev().flat_map(|l| (0..columns).map(move |c| (l, c))) {
                let row = &ggsw[((l * columns + r) * columns + c) * size..][..size];
                let at = |lane: usize| 2 * (lane / 2 * rows + t) + lane % 2;
                out.extend((0..lanes).map(|lane| P.mul(row[at(lane)], scale)));
            }
        }
    }
    for i in 0..s.get("count", 3) {
        let (ct, index) = (words.residues(n + 1), (words.any() as usize) % size * (i % 2));
        let mut acc = words.residues(shape.glwe_len());
        out.extend_from_slice(&ct);
        out.push(index as u64);
        out.extend_from_slice(&acc);
        rotator.rotate(&mut acc, &exponents(n, size, &ct)?, &mut rotator.scratch(1)?)?;
        let mut result = vec![0; k * size + 1];
        sample_extract(P, size, &acc, index, &mut result);
        out.extend(result);
    }
    Ok(out)
}

/// Per ciphertext-independent key, [i][w][l][lane] (level l least significant first, word w·T + lane of the row, padded with
/// zeros); then for each ciphertext k·N + 1 words and the n + 1 words of the result.
fn key_switch(s: &Sizes, words: &mut Words) -> Vec<u64> {
    let (n, big, lanes) = (s.get("n", 16), s.get("k", 1) * s.get("N", 256), s.get("T", 2));
    let gadget = s.gadget();
    let (levels, width) = (gadget.level as usize, n + 1);
    let key: Vec<Vec<u64>> = (0..big * levels).map(|_| words.residues(width)).collect();
    let mut out = Vec::new();
    for i in 0..big {
        for w in 0..width.div_ceil(lanes) {
            for (l, lane) in (0..levels).rev().flat_map(|l| (0..lanes).map(move |x| (l, x))) {
                out.push(key[i * levels + l].get(w * lanes + lane).copied().unwrap_or(0));
            }
        }
    }
    for _ in 0..s.get("count", 3) {
        let ct = words.residues(big + 1);
        let mut sum = vec![0; width];
        sum[n] = ct[big];
        for (a, rows) in ct.iter().zip(key.chunks(levels)) {
            let mut digits = vec![0; levels];
            decompose(P, gadget, *a, &mut digits);
            for (d, row) in digits.iter().zip(rows) {
                for (x, y) in sum.iter_mut().zip(row) {
                    *x = P.sub(*x, P.mul(*y, P.from_signed(*d)));
                }
            }
        }
        out.extend(ct);
        out.extend(sum);
    }
    out
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(directory), Some(unit)) = (args.next(), args.next()) else {
        return Err("rtl_vectors DIR UNIT key=value …".into());
    };
    let pairs = args.map(|a| {
        let (key, value) = a.split_once('=').ok_or("key=value")?;
        Ok::<_, Box<dyn Error>>((key.to_string(), value.parse()?))
    });
    let sizes = Sizes(pairs.collect::<Result<_, _>>()?);
    let mut words = Words(1);
    let vectors = match unit.as_str() {
        "arith" => arith(&sizes, &mut words),
        "ntt" => ntt(&sizes, &mut words),
        "decompose" => digits(&sizes, &mut words),
        "modulus_switch" => switch(&sizes, &mut words)?,
        "bootstrap" => bootstrap(&sizes, &mut words)?,
        "key_switch" => key_switch(&sizes, &mut words),
        other => return Err(format!("no vectors for {other}").into()),
    };
    let bytes: Vec<u8> = vectors.iter().flat_map(|w| w.to_le_bytes()).collect();
    std::fs::write(std::path::Path::new(&directory).join("vectors.bin"), bytes)?;
    Ok(())
}
