//! Computations by definition that the tests compare with.
#![allow(dead_code)] // each test file uses its part

use becalm::params::TfheParams;
use becalm_bench::peer_tfhe::{RawKeys, RawKsk};

/// SplitMix64: reproducible, good enough for tests.
struct SplitMix(u64);

impl SplitMix {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Masks from one stream, which a kept vector names by its seed, and noise from another.
pub struct Random {
    masks: SplitMix,
    noise: SplitMix,
}

impl Random {
    /// The streams of a seed.
    pub fn new(seed: u64) -> Random {
        Random { masks: SplitMix(seed), noise: SplitMix(!seed) }
    }
    /// 64 uniform bits.
    pub fn word(&mut self) -> u64 {
        self.masks.word()
    }
    /// Uniform bits, one a word.
    pub fn bits(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.word() & 1).collect()
    }
    /// Uniform in −2^20 .. 2^20.
    pub fn noise(&mut self) -> u64 {
        (self.noise.word() >> 43).wrapping_sub(1 << 20)
    }
}

/// Adds the negacyclic product of `a` and the bits `s` to `to`.
fn add_product(to: &mut [u64], a: &[u64], s: &[u64]) {
    let n = to.len();
    for (i, _) in s.iter().enumerate().filter(|(_, bit)| **bit == 1) {
        for (j, &term) in a.iter().enumerate() {
            let (at, term) =
                if i + j < n { (i + j, term) } else { (i + j - n, term.wrapping_neg()) };
            to[at] = to[at].wrapping_add(term);
        }
    }
}

/// B − Σ A_i S_i of a GLWE ciphertext of polynomials of `size` words.
pub fn glwe_phase(glwe: &[u64], secret: &[u64], size: usize) -> Vec<u64> {
    let (masks, body) = glwe.split_at(secret.len());
    let mut sum = vec![0; size];
    for (a, s) in masks.chunks(size).zip(secret.chunks(size)) {
        add_product(&mut sum, a, s);
    }
    body.iter().zip(&sum).map(|(b, s)| b.wrapping_sub(*s)).collect()
}

/// b − <a, s>.
pub fn lwe_phase(ct: &[u64], secret: &[u64]) -> u64 {
    ct[..secret.len()]
        .iter()
        .zip(secret)
        .fold(ct[secret.len()], |b, (a, s)| b.wrapping_sub(a.wrapping_mul(*s)))
}

/// An LWE encryption of `plain` in multiples of 2^(64 − `modulus_log2`).
pub fn lwe(random: &mut Random, secret: &[u64], plain: u64, modulus_log2: u32) -> Vec<u64> {
    let kept = u64::MAX << (64 - modulus_log2);
    let mut ct: Vec<u64> = secret.iter().map(|_| random.word() & kept).chain([0]).collect();
    let minus_dot = lwe_phase(&ct, secret);
    ct[secret.len()] = plain.wrapping_sub(minus_dot).wrapping_add(random.noise()) & kept;
    ct
}

/// Keys by the definitions of becalm's layout. `seeds`: of the secrets, of the bootstrapping key, of the key-switching key.
pub fn raw_keys(params: &TfheParams, seeds: [u64; 3]) -> RawKeys {
    let (n, k, size) = (params.lwe_dimension, params.glwe_dimension, params.polynomial_size);
    let [mut secrets, mut random, mut switching] = seeds.map(Random::new);
    let (lwe_secret, glwe_secret) = (secrets.bits(n), secrets.bits(k * size));
    let mut bsk = Vec::new();
    for &bit in &lwe_secret {
        for level in 1..=params.pbs.level {
            for row in 0..=k {
                let mut glwe: Vec<u64> = (0..k * size).map(|_| random.word()).collect();
                glwe.resize(glwe.len() + size, 0);
                let minus_mask = glwe_phase(&glwe, &glwe_secret, size);
                for (b, m) in glwe[k * size..].iter_mut().zip(minus_mask) {
                    *b = random.noise().wrapping_sub(m);
                }
                let at = row * size;
                glwe[at] = glwe[at].wrapping_add(bit << (64 - level * params.pbs.base_log));
                bsk.extend(glwe);
            }
        }
    }
    let rows = glwe_secret.iter().flat_map(|&s| (1..=params.ks.level).map(move |l| (s, l)));
    let words: Vec<u64> = rows
        .flat_map(|(s, l)| {
            let plain = s << (64 - l * params.ks.base_log);
            lwe(&mut switching, &lwe_secret, plain, params.ks_modulus_log2)
        })
        .collect();
    let ksk = match params.ks_modulus_log2 {
        32 => RawKsk::Words32(words.iter().map(|w| (w >> 32) as u32).collect()),
        _ => RawKsk::Words64(words),
    };
    RawKeys { lwe_secret, glwe_secret, bsk, ksk: Some(ksk) }
}
