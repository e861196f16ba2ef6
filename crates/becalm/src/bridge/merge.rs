//! Ring packing: up to n LWE ciphertexts under S as one ciphertext of degree n under S, with a phase for each coefficient.
//!
//! With both parts rounded to q' and multiplied by n^-1, an LWE ciphertext is a ciphertext of degree n whose constant coefficient is its phase. Ciphertexts
//! whose coefficients at the multiples of 2^(t+1) are right merge in pairs, e for even and o for odd places:
//!   (e + X^D·o) + σ(e − X^D·o),  D = 2^t,  σ: X → X^(n/2^t + 1),
//! is right at the multiples of 2^t, and twice as large: σ(X^D) = −X^D, and σ leaves the others of these coefficients as they are. After log2 n merges the
//! factor n is gone. σ brings a key switch from σ(S) to S. Its digits are those of the coefficients nearest zero, the most significant first,
//! and what is below the last is dropped.
//!
//! Error in units of q', by variance, with d the dimension of S, ℓ digits to the base B, and D_0 the value of the last digit:
//!   V_1 = (1 + d/2)/12/q'²                                             rounding to q'
//!   V_2 = (n² − 1)/3·(ℓ·n·(B² + 2)/12·(σ² + 1/12) + (D_0² − 1)/12·d/2)/q'²
//! because the merges of depth t come once into every coefficient, 2^t times as large: Σ 4^t = (n² − 1)/3.
//!
//! Source: Chen–Dai–Kim–Song 2020 (ia.cr/2020/015).

use super::switch::{limb_bytes, rounding, unpack_limb};
use crate::Result;
use crate::cipher::Integers;
use crate::math::Modulus;
use crate::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
use crate::math::rns::{First, Ring, Scratch, centred, inverse, mul, nearest};
use crate::math::sampling::rounded_gaussian;
use crate::math::simd::Level;
use crate::params::{NOISE_STD, TfheParams};
use crate::tfhe::noise::bootstrap_output;
use std::array::from_fn;
use zeroize::Zeroizing;

/// Bits of q', nearly as many as a word has: rounding to it and the least noise of a key are small.
const PRIME_LOG2: u32 = 49;
/// Most digits.
const MOST_DIGITS: usize = 8;
/// The first index of the masks of the rows: those of a ring switch come before.
const ROWS: u32 = 2;

/// The numbers of the merges for a set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    /// d, the dimension of S.
    dimension: usize,
    /// n.
    pub(super) degree: usize,
    /// q'.
    pub(super) prime: u64,
    /// σ.
    std: f64,
    /// ℓ.
    pub(super) digits: usize,
    /// log2 B.
    pub(super) base_log: u32,
}

impl Shape {
    /// The fewest digits that add at most a quarter of the variance that a bootstrap leaves, or the most that there are; none where noise
    /// fills q'.
    pub(super) fn of(params: &TfheParams) -> Option<Shape> {
        let dimension = params.big_dimension();
        let degree = dimension.next_power_of_two();
        let prime = nearest(f64::from(PRIME_LOG2).exp2(), 2 * degree as u64, &[])?;
        let noise = params.glwe_variance().sqrt();
        let std = (noise * prime as f64).max(NOISE_STD);
        // No number fails, too.
        if !(noise.is_finite() && std < prime as f64 / 8.0) {
            return None;
        }
        let best = |digits: usize| {
            let of = |base_log| Shape { dimension, degree, prime, std, digits, base_log };
            let all = (1..=PRIME_LOG2 / digits as u32).map(of);
            all.min_by(|a, b| a.noise_variance().total_cmp(&b.noise_variance()))
        };
        let most = bootstrap_output(params) / 4.0;
        let fits = |shape: &Shape| shape.noise_variance() <= most;
        (1..=MOST_DIGITS).filter_map(best).find(fits).or_else(|| best(MOST_DIGITS))
    }

    /// log2 n.
    fn depth(&self) -> usize {
        self.degree.ilog2() as usize
    }

    /// Rows of the key: a digit of an automorphism each.
    fn rows(&self) -> usize {
        self.depth() * self.digits
    }

    /// Bytes of the packed bodies of the rows.
    pub(super) fn body_bytes(&self) -> usize {
        self.rows() * limb_bytes(self.degree, self.prime)
    }

    /// The value of digit `i`, from the most significant down.
    fn unit(&self, i: usize) -> u64 {
        1 << (PRIME_LOG2 - self.base_log * (i as u32 + 1))
    }

    /// V_1 + V_2.
    pub(super) fn noise_variance(&self) -> f64 {
        let (n, d, q) = (self.degree as f64, self.dimension as f64, self.prime as f64);
        let digit = ((2 * self.base_log) as f64).exp2() + 2.0;
        let key = self.digits as f64 * n * digit / 12.0 * (self.std * self.std + 1.0 / 12.0);
        let dropped = (self.unit(self.digits - 1) as f64).powi(2) - 1.0;
        let merges = (n * n - 1.0) / 3.0;
        (rounding(d / 2.0) + merges * (key + dropped / 12.0 * d / 2.0)) / (q * q)
    }
}

/// The ciphertexts of one ring: those of a batch whose coefficients are `first`, `first` + `stride` and so on, of `all`.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) words: &'a [u64],
    /// Words of each.
    pub(super) width: usize,
    pub(super) modulus: Modulus,
    /// Every word is multiplied by it.
    pub(super) factor: u64,
    pub(super) first: usize,
    pub(super) stride: usize,
    pub(super) all: usize,
}

impl Rows<'_> {
    /// That of coefficient `i` of the ring, if there is one.
    fn get(&self, i: usize) -> Option<&[u64]> {
        // The order of places reverses bits, and so it is its own inverse.
        let at = Integers::coefficient(self.first + i * self.stride, self.all) * self.width;
        self.words.get(at..at + self.width)
    }
}

/// The key of the merges.
pub(super) struct Merging {
    pub(super) shape: Shape,
    /// Of degree n, with the prime q'.
    ring: Ring,
    /// By depth t.
    steps: Vec<Step>,
}

/// The parts of the key that the merges of one depth take.
struct Step {
    /// The values of X^(2^t).
    shift: Scratch,
    /// Where σ takes values from.
    places: Vec<u32>,
    /// b = e + unit·σ(S) − a·S and a for each digit, as values.
    rows: [Scratch; 2],
}

impl Merging {
    /// The key of a seed, without its bodies.
    pub(super) fn masked(shape: Shape, seed: &PublicSeed) -> Result<Merging> {
        let (n, digits) = (shape.degree, shape.digits);
        let ring = Ring::new(n, &[shape.prime], Level::best())?;
        let step = |t: usize| {
            let mut shift = Scratch::apart(n)?;
            shift[1 << t] = 1.0;
            ring.forward(0, &mut shift);
            let mut rows = [Scratch::apart(digits * n)?, Scratch::apart(digits * n)?];
            for (a, row) in rows[1].chunks_mut(n).zip(t * digits..) {
                let mut mask = MaskStream::new(seed, Domain::Bridge, ROWS + row as u32);
                ring.draw(0, |words| mask.fill_u64(words), a);
            }
            Ok(Step { shift, places: ring.permutation((n >> t) + 1), rows })
        };
        let steps = (0..shape.depth()).map(step).collect::<Result<_>>()?;
        Ok(Merging { shape, ring, steps })
    }

    /// Fills the bodies of a new key of the bits of S.
    pub(super) fn encrypt(&mut self, bits: &[u64]) -> Result<()> {
        let (ring, n, shape) = (&self.ring, self.shape.degree, self.shape);
        let hidden = SecretSeed::from_system()?;
        let zeros = || Zeroizing::new(vec![0.0; n]);
        let (mut secret, mut image) = (zeros(), zeros());
        secret.iter_mut().zip(bits).for_each(|(x, bit)| *x = *bit as f64);
        ring.forward(0, &mut secret);
        for (t, step) in self.steps.iter_mut().enumerate() {
            image.fill(0.0);
            ring.add_permuted(0, &mut image, &secret, &step.places);
            let [b, a] = &mut step.rows;
            for (i, (b, a)) in b.chunks_mut(n).zip(a.chunks(n)).enumerate() {
                let row = (t * shape.digits + i) as u32;
                let mut noise = NoiseStream::new(&hidden, Domain::Bridge, ROWS + row);
                rounded_gaussian(&mut noise, shape.std, b);
                ring.reduce(0, b);
                ring.forward(0, b);
                ring.mul_sub(0, b, a, &secret);
                ring.scale_add(0, b, &image, centred(shape.unit(i) % shape.prime, shape.prime));
            }
        }
        Ok(())
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        let limbs = self.steps.iter().flat_map(|s| [&s.shift, &s.rows[0], &s.rows[1]]);
        let places = self.steps.len() * self.shape.degree * size_of::<u32>();
        limbs.map(|limb| limb.len() * 8).sum::<usize>() + places
    }

    /// Doubles that one thread works in: of a merge, then those of ciphertexts that wait, one at each depth.
    pub(super) fn work(&self) -> Scratch {
        self.ring.scratch(self.scratch() + self.shape.depth() * 2 * self.shape.degree)
    }

    /// Doubles of a merge: a ciphertext, a polynomial and its digits.
    fn scratch(&self) -> usize {
        (3 + self.shape.digits) * self.shape.degree
    }

    /// The ciphertexts of one ring as one: both parts, coefficients modulo q' near zero. `out` is 0.
    pub(super) fn packed(&self, rows: Rows, out: &mut [f64], work: &mut [f64]) {
        let (scratch, waiting) = work.split_at_mut(self.scratch());
        if self.tree((0, 0), rows, out, scratch, waiting) {
            for part in out.chunks_mut(self.shape.degree) {
                self.ring.backward(0, part);
                self.ring.reduce(0, part);
            }
        }
    }

    /// The ciphertexts of the places `place` + 2^`depth`·i as one, as values; false where there are none.
    fn tree(
        &self,
        (depth, place): (usize, usize),
        rows: Rows,
        out: &mut [f64],
        scratch: &mut [f64],
        waiting: &mut [f64],
    ) -> bool {
        let Some(step) = self.steps.get(depth) else {
            return rows.get(place).is_some_and(|row| self.enter(row, rows, out));
        };
        // Where there is no even place there is no odd one.
        if !self.tree((depth + 1, place), rows, out, scratch, waiting) {
            return false;
        }
        let (odd, waiting) = waiting.split_at_mut(2 * self.shape.degree);
        let second = (depth + 1, place + (1 << depth));
        let both = self.tree(second, rows, odd, scratch, waiting);
        self.merge(step, out, both.then_some(&*odd), scratch);
        true
    }

    /// An LWE ciphertext as one of degree n with its phase as the constant coefficient, over n.
    fn enter(&self, row: &[u64], rows: Rows, out: &mut [f64]) -> bool {
        let (n, q, modulus) = (self.shape.degree, self.shape.prime, rows.modulus);
        let switched = |word: u64| {
            let torus = modulus.to_torus(modulus.mul(word, rows.factor));
            ((u128::from(torus) * u128::from(q) + (1 << 63)) >> 64) as u64
        };
        let share = inverse(n as u64, q);
        let (mask, body) = row.split_at(row.len() - 1);
        let (c0, c1) = out.split_at_mut(n);
        // A constant has the same value everywhere.
        c0.fill(centred(mul(switched(body[0]) % q, share, q), q));
        // The constant coefficient of c_1·S is −⟨mask, S⟩.
        c1.fill(0.0);
        c1[0] = -(switched(mask[0]) as f64);
        c1.iter_mut().rev().zip(&mask[1..]).for_each(|(c, a)| *c = switched(*a) as f64);
        self.ring.scale(0, c1, centred(share, q));
        self.ring.forward(0, c1);
        true
    }

    /// `even` ← (e + X^D·o) + σ(e − X^D·o), where o may be 0. It allocates nothing.
    fn merge(&self, step: &Step, even: &mut [f64], odd: Option<&[f64]>, scratch: &mut [f64]) {
        let (ring, n, digits) = (&self.ring, self.shape.degree, self.shape.digits);
        let (difference, scratch) = scratch.split_at_mut(2 * n);
        difference.copy_from_slice(even);
        if let Some(odd) = odd {
            let parts = even.chunks_mut(n).zip(difference.chunks_mut(n));
            for ((even, difference), odd) in parts.zip(odd.chunks(n)) {
                ring.mul_sub(0, difference, odd, &step.shift);
                ring.mul_add(0, even, odd, &step.shift);
            }
        }
        let ((c0, c1), (d0, d1)) = (even.split_at_mut(n), difference.split_at(n));
        ring.add_permuted(0, c0, d0, &step.places);
        let (rest, own) = scratch.split_at_mut(n);
        rest.fill(0.0);
        ring.add_permuted(0, rest, d1, &step.places);
        ring.backward(0, rest);
        ring.reduce(0, rest);
        for (i, digit) in own.chunks_mut(n).enumerate() {
            ring.digit(0, digit, rest, self.shape.unit(i) as f64);
            ring.forward(0, digit);
        }
        let [own, b, a] = [&*own, &step.rows[0], &step.rows[1]].map(|limbs| by_digit(limbs, n));
        let key = [&b[..digits], &a[..digits]];
        ring.dot_pair(0, [c0, c1], &own[..digits], key, [First::Kept; 2]);
    }

    /// The bodies, packed.
    pub(super) fn bodies(&self) -> Vec<u8> {
        let limbs = self.steps.iter().flat_map(|step| step.rows[0].chunks(self.shape.degree));
        limbs.flat_map(|limb| self.ring.packed(0, limb)).collect()
    }

    /// Fills the bodies from as many bytes as [`Shape::body_bytes`] says.
    pub(super) fn unpack(&mut self, bytes: &[u8]) -> Result<()> {
        let n = self.shape.degree;
        let limbs = self.steps.iter_mut().flat_map(|step| step.rows[0].chunks_mut(n));
        let mut packed = bytes.chunks(limb_bytes(n, self.shape.prime));
        limbs.zip(&mut packed).try_for_each(|(limb, own)| unpack_limb(&self.ring, 0, own, limb))
    }
}

/// The limbs of the digits.
fn by_digit(limbs: &[f64], n: usize) -> [&[f64]; MOST_DIGITS] {
    from_fn(|i| limbs.get(i * n..(i + 1) * n).unwrap_or(&[]))
}
