//! Ring switching: a ciphertext modulo q under one secret of degree N becomes one under another, by a key modulo q·P.
//!
//! The key is b = e + P·from − a·to and a, so that c_0 + c_1·from = (c_0 + c_1·b/P) + (c_1·a/P)·to but for the error c_1·e/P and the rounding of both
//! quotients. In units of q its variance is N·(σ² + 1/12)/(12·P²) + (1 + w)/(12·q²), with w the mean square of the second secret, summed over
//! its coefficients.
//!
//! Source: Gentry–Halevi–Peikert–Smart 2012 (ia.cr/2012/240).

use crate::Result;
use crate::cipher::file::bad;
use crate::math::random::{Domain, MaskStream, NoiseStream, PublicSeed, SecretSeed};
use crate::math::rns::{Ring, Scratch, centred, inverse, width};
use crate::math::sampling::rounded_gaussian;
use crate::math::simd::Level;
use zeroize::Zeroizing;

/// The words of the ring: q and P; others may follow.
pub(super) const MODULUS: usize = 0;
const SPECIAL: usize = 1;

/// The key from one secret of degree N to another.
pub(super) struct RingSwitch {
    pub(super) ring: Ring,
    /// The masks follow from it.
    pub(super) seed: PublicSeed,
    /// b and a, as values modulo q and P.
    parts: [Scratch; 2],
}

impl RingSwitch {
    /// The key of a seed, without its bodies. The first primes are q and P.
    pub(super) fn masked(degree: usize, primes: &[u64], seed: PublicSeed) -> Result<RingSwitch> {
        let ring = Ring::new(degree, primes, Level::best())?;
        let mut parts = [Scratch::apart(2 * degree)?, Scratch::apart(2 * degree)?];
        for (a, word) in parts[1].chunks_mut(degree).zip([MODULUS, SPECIAL]) {
            let mut mask = MaskStream::new(&seed, Domain::Bridge, word as u32);
            ring.draw(word, |words| mask.fill_u64(words), a);
        }
        Ok(RingSwitch { ring, seed, parts })
    }

    /// Fills the bodies of a new key, with noise of this standard deviation.
    pub(super) fn encrypt(&mut self, from: &[f64], to: &[f64], std: f64) -> Result<()> {
        let (ring, n, special) = (&self.ring, self.ring.size(), self.special());
        let hidden = SecretSeed::from_system()?;
        let mut noise = Zeroizing::new(vec![0.0; n]);
        rounded_gaussian(&mut NoiseStream::new(&hidden, Domain::Bridge, 0), std, &mut noise);
        let mut secret = Zeroizing::new(vec![0.0; n]);
        let [b, a] = &mut self.parts;
        for ((b, a), word) in b.chunks_mut(n).zip(a.chunks(n)).zip([MODULUS, SPECIAL]) {
            b.copy_from_slice(&noise);
            ring.reduce(word, b);
            ring.forward(word, b);
            secret.copy_from_slice(to);
            ring.forward(word, &mut secret);
            ring.mul_sub(word, b, a, &secret);
            if word == MODULUS {
                secret.copy_from_slice(from);
                ring.forward(word, &mut secret);
                ring.scale_add(word, b, &secret, special);
            }
        }
        Ok(())
    }

    /// P modulo q.
    fn special(&self) -> f64 {
        let [q, p] = self.primes();
        centred(p % q, q)
    }

    /// q and P.
    pub(super) fn primes(&self) -> [u64; 2] {
        [MODULUS, SPECIAL].map(|i| self.ring.word(i).p)
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().map(|p| p.len() * 8).sum()
    }

    /// The variance of the error that it adds, in units of q, for a key with noise of this standard deviation to a secret of this weight.
    pub(super) fn noise_variance(&self, std: f64, weight: f64) -> f64 {
        let (n, [q, p]) = (self.ring.size() as f64, self.primes().map(|p| p as f64));
        n * (std * std + 1.0 / 12.0) / (12.0 * p * p) + rounding(weight) / (q * q)
    }

    /// A ciphertext under the second secret: coefficients modulo q, near zero, as those that come.
    pub(super) fn apply(&self, kept: &[f64], moved: &[f64]) -> [Vec<f64>; 2] {
        let (ring, n) = (&self.ring, self.ring.size());
        let limbs = [MODULUS, SPECIAL].map(|word| {
            let mut limb = moved.to_vec();
            ring.reduce(word, &mut limb);
            ring.forward(word, &mut limb);
            limb
        });
        let [q, p] = self.primes();
        let inverse = centred(inverse(p % q, q), q);
        [0, 1].map(|part| {
            let [mut out, mut rest] = [MODULUS, SPECIAL].map(|word| {
                let mut product = vec![0.0; n];
                let key = &self.parts[part][word * n..(word + 1) * n];
                ring.mul(word, &mut product, &limbs[word], key);
                ring.backward(word, &mut product);
                ring.reduce(word, &mut product);
                product
            });
            // (x − x mod P)/P.
            ring.reduce(SPECIAL, &mut rest);
            ring.reduce(MODULUS, &mut rest);
            ring.sub_scale(MODULUS, &mut out, &rest, inverse);
            if part == 0 {
                ring.add(MODULUS, &mut out, kept);
            }
            ring.reduce(MODULUS, &mut out);
            out
        })
    }

    /// The bodies, packed.
    pub(super) fn packed(&self) -> Vec<u8> {
        let limbs = self.parts[0].chunks(self.ring.size()).zip([MODULUS, SPECIAL]);
        limbs.flat_map(|(limb, word)| self.ring.packed(word, limb)).collect()
    }

    /// Fills the bodies from as many bytes as [`body_bytes`] says.
    pub(super) fn unpack(&mut self, mut bytes: &[u8]) -> Result<()> {
        let n = self.ring.size();
        for (limb, word) in self.parts[0].chunks_mut(n).zip([MODULUS, SPECIAL]) {
            let (own, rest) = bytes.split_at(limb_bytes(n, self.ring.word(word).p));
            unpack_limb(&self.ring, word, own, limb)?;
            bytes = rest;
        }
        Ok(())
    }
}

/// Fills a limb from its bytes.
pub(super) fn unpack_limb(ring: &Ring, word: usize, bytes: &[u8], limb: &mut [f64]) -> Result<()> {
    match ring.unpack(word, bytes, limb) {
        true => Ok(()),
        false => Err(bad("residues below their primes", "a residue that is not reduced")),
    }
}

/// The variance of rounding both parts of a ciphertext, under a secret of this weight.
pub(super) fn rounding(weight: f64) -> f64 {
    (1.0 + weight) / 12.0
}

/// Bytes of the packed bodies of a key modulo q and P.
pub(super) fn body_bytes(degree: usize, primes: [u64; 2]) -> usize {
    primes.iter().map(|p| limb_bytes(degree, *p)).sum()
}

/// Bytes of the packed residues of a limb.
pub(super) fn limb_bytes(degree: usize, prime: u64) -> usize {
    degree / 8 * width(prime) as usize
}
