//! What the tests compute by definition.
#![allow(dead_code)] // each test file uses its part

/// SplitMix64: reproducible, good enough for tests.
pub struct Random(pub u64);

impl Random {
    /// 64 uniform bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// Uniform bits, one a word.
    pub fn bits(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.word() & 1).collect()
    }
    /// Uniform in −2^20 .. 2^20.
    pub fn noise(&mut self) -> u64 {
        (self.word() >> 43).wrapping_sub(1 << 20)
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

/// An LWE encryption of `plain`.
pub fn lwe(random: &mut Random, secret: &[u64], plain: u64) -> Vec<u64> {
    let mut ct: Vec<u64> = secret.iter().map(|_| random.word()).chain([0]).collect();
    let minus_dot = lwe_phase(&ct, secret);
    ct[secret.len()] = plain.wrapping_sub(minus_dot).wrapping_add(random.noise());
    ct
}
