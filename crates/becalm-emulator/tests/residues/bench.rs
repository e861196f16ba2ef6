//! Primes, residues and an emulated device for the tests of the kernels of CKKS.

use super::{centred, is_prime, residue};
use becalm_cuda::launch::Launch;
use becalm_cuda::rns::Word;
use becalm_cuda::{Argument, Device, Kernels};
use becalm_emulator::Emulated;

/// The largest prime of each number of bits that is 1 modulo 2N and not among those before; or the smallest above if there is none.
pub fn primes(log2_n: u32, bits: &[f64]) -> Vec<u64> {
    let step = 2 << log2_n;
    let mut all: Vec<u64> = vec![];
    for bits in bits {
        let top = bits.exp2() as u64 / step;
        let candidates = (1..=top).rev().chain(top + 1..).map(|k| k * step + 1);
        let mut candidates = candidates.filter(|p| p >> 19 > 0);
        let found = candidates.find(|p| !all.contains(p) && is_prime(*p));
        all.push(found.expect("a prime"));
    }
    assert!(all.iter().all(|p| p >> 50 == 0));
    all
}

/// A word without twiddles.
pub fn word(p: u64) -> Word {
    let bits = 64 - p.leading_zeros() as i32;
    let terms = (52 - bits).clamp(2, 4);
    let magic = 1.5 * f64::from(2 * bits + terms + 1).exp2();
    Word { p: p as f64, inverse: 1.0 / p as f64, magic, ..Word::default() }
}

/// Numbers without a pattern.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Residues up to p in absolute value, among them many of the largest.
    pub fn residues(&mut self, p: u64, len: usize) -> Vec<f64> {
        let mut value = || match self.below(8) {
            0 => p as f64,
            1 => -(p as f64),
            2 => (p / 2) as f64,
            3 => -((p / 2) as f64),
            4 => 0.0,
            _ => self.below(2 * p + 1) as f64 - p as f64,
        };
        (0..len).map(|_| value()).collect()
    }

    /// Residues up to p/2, or all of them at ±p/2.
    pub fn centred(&mut self, p: u64, len: usize) -> Vec<f64> {
        let mut value = || match self.below(4) {
            0 => (p / 2) as f64,
            1 => -((p / 2) as f64),
            _ => centred(self.below(p), p),
        };
        (0..len).map(|_| value()).collect()
    }

    /// Limbs modulo each of the primes; the largest ones alone if `extreme`, which sums then add up.
    pub fn limbs(&mut self, primes: &[u64], n: usize, extreme: bool) -> Vec<f64> {
        let limb = |p: &u64| match extreme {
            true => vec![*p as f64; n],
            false => self.residues(*p, n),
        };
        primes.iter().flat_map(limb).collect()
    }
}

/// The odd e at which each value is taken, and for every odd e, at (e − 1)/2, which value that is.
pub struct Order {
    pub exponents: Vec<usize>,
    pub places: Vec<usize>,
}

impl Order {
    pub fn new(log2_n: u32) -> Order {
        let n = 1usize << log2_n;
        let leaf = |i: usize| (i & !63) | (i & 7) << 3 | (i >> 3 & 7);
        let exponents: Vec<usize> =
            (0..n).map(|i| 2 * (leaf(i).reverse_bits() >> (64 - log2_n)) + 1).collect();
        let mut places = vec![0; n];
        exponents.iter().enumerate().for_each(|(i, e)| places[e / 2] = i);
        Order { exponents, places }
    }

    /// The value of the polynomial that value `i` of the image under X → X^`power` equals.
    pub fn source(&self, i: usize, power: u64) -> usize {
        let e = self.exponents[i] as u128 * u128::from(power) % (2 * self.places.len() as u128);
        self.places[e as usize / 2]
    }
}

/// An emulated device with kernels of one size of polynomials.
pub struct Bench {
    device: Emulated,
    log2_n: u32,
}

impl Bench {
    pub fn new(log2_n: u32, seed: u64) -> Bench {
        Bench { device: Emulated::new(seed), log2_n }
    }

    /// Memory with these words.
    pub fn put(&self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let at = self.device.allocate(bytes.len().max(8) as u64).unwrap();
        // SAFETY: just allocated.
        unsafe { self.device.upload(at, &bytes) }.unwrap();
        at
    }

    pub fn doubles(&self, values: &[f64]) -> u64 {
        self.put(&values.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
    }

    /// Memory for values, none of which is a residue.
    pub fn clear(&self, len: usize) -> u64 {
        self.doubles(&vec![0.5; len])
    }

    pub fn launch(&self, launch: &Launch, arguments: &[Argument]) {
        let kernels = Kernels::Rns { log2_n: self.log2_n };
        // SAFETY: each test passes what its kernel takes.
        unsafe { self.device.launch(0, &kernels, launch, arguments) }.unwrap();
    }

    /// The values there, after all work.
    pub fn values(&self, at: u64, len: usize) -> Vec<f64> {
        let mut bytes = vec![0; 8 * len];
        // SAFETY: allocated for so many.
        unsafe { self.device.download(&mut [(at, &mut bytes)]) }.unwrap();
        let value = |b: &[u8]| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
        bytes.chunks(8).map(value).collect()
    }
}

/// Whether `x` is near zero and the residue that is wanted.
pub fn check(x: f64, p: u64, wanted: u64, what: impl FnOnce() -> String) {
    let good = x.abs() <= p as f64 / 2.0 + 1.0 && x.fract() == 0.0 && residue(x, p) == wanted % p;
    assert!(good, "{x} modulo {p}, wanted {wanted}: {}", what());
}
