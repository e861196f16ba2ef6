//! Programmable bootstrapping: modulus switch, blind rotation of a table, sample extraction.
//!
//! With exponents ã_i = round(2N·a_i), b̃ = round(2N·b): acc = X^(−b̃)·T, then acc += ((X^(ã_i) − 1)·acc) ⊡ GGSW(s_i) for
//! each i. Behind a common mask body j starts as X^(−b̃_j)·T_j. Coefficient 0 of the result is the coefficient of T at
//! round(2N·phase). Multi-bit and block rotations take the key in groups, with an exponent e_v and a GGSW of [group = v]
//! for each value v other than 0 of a group: acc ← ⌊acc⌉ + ⌊acc⌉ ⊡ Σ_v (X^(e_v) − 1)·GGSW_v. Cost: an external product a
//! step, the key read once for a tile of ciphertexts. Noise: [`crate::tfhe::noise::blind_rotation`]. Source: Chillotti,
//! Gama, Georgieva, Izabachène 2020 (TFHE), Alg. 9; Chillotti, Joye, Paillier 2021; groups: Zhou et al. 2018, Joye and
//! Paillier 2022, Lee et al. 2023.

use super::blind_rotate::{self, FourierBootstrapKey, Job};
use super::ntt_rotate::{self, NttBootstrapKey};
use super::{Shape, extended};
use crate::cipher::EvaluationKey;
use crate::math::Modulus;
use crate::math::simd::Level;
use crate::params::{Rotation, TfheParams};
use crate::tfhe::modulus_switch::modulus_switch;
use crate::{Error, Result};

/// A bootstrapping key in the domain that its modulus computes in.
pub struct BootstrapKey {
    params: TfheParams,
    arithmetic: Arithmetic,
}

enum Arithmetic {
    /// Modulo 2^64, f64 FFT.
    Fourier(FourierBootstrapKey),
    /// Modulo p, exact.
    Ntt(NttBootstrapKey),
}

/// Memory to rotate in, for one thread.
pub enum Scratch {
    /// For [`Modulus::Native`].
    Fourier(blind_rotate::Scratch),
    /// For [`Modulus::Goldilocks`].
    Ntt(ntt_rotate::Scratch),
}

impl BootstrapKey {
    /// Brings an evaluation key into the domain of its modulus, in parallel.
    ///
    /// # Errors
    /// [`Error::Memory`] if it does not fit.
    pub fn new(keys: &EvaluationKey, level: Level) -> Result<Self> {
        BootstrapKey::from_fn(keys.params(), level, |i, out| keys.expand_ggsw(i, out))
    }

    /// The same from GGSW ciphertexts in coefficient form, `[ℓ][row][column][N]`: `fill(i, out)` writes the i-th.
    ///
    /// # Errors
    /// [`Error::Memory`] if it does not fit.
    pub fn from_fn(
        params: &TfheParams,
        level: Level,
        fill: impl Fn(usize, &mut [u64]) + Sync,
    ) -> Result<Self> {
        let shape = Shape::of(params);
        let group = match params.rotation {
            Rotation::MultiBit { .. } | Rotation::Block { .. } => {
                Some(params.rotation.group_ggsws())
            }
            _ => None,
        };
        use Arithmetic::{Fourier, Ntt};
        let arithmetic = match (params.modulus, group) {
            (Modulus::Native, None) => Fourier(FourierBootstrapKey::new(shape, level, fill)?),
            (Modulus::Native, Some(size)) => {
                Fourier(FourierBootstrapKey::grouped(shape, size, level, fill)?)
            }
            (Modulus::Goldilocks, None) => Ntt(NttBootstrapKey::new(shape, level, fill)?),
            (Modulus::Goldilocks, Some(size)) => {
                Ntt(NttBootstrapKey::grouped(shape, size, level, fill)?)
            }
        };
        Ok(BootstrapKey { params: params.clone(), arithmetic })
    }

    /// Bytes of the expanded key of a set.
    pub fn bytes(params: &TfheParams) -> usize {
        match params.modulus {
            Modulus::Native => FourierBootstrapKey::bytes(Shape::of(params)),
            Modulus::Goldilocks => NttBootstrapKey::bytes(&Shape::of(params)),
        }
    }

    /// How many ciphertexts to rotate together so that reading the key no longer costs. With several accumulators one
    /// reads a part of the key several times itself, in its own order.
    pub fn best_tile(&self) -> usize {
        if self.params.accumulators() > 1 {
            return 1;
        }
        match &self.arithmetic {
            Arithmetic::Fourier(key) => key.best_tile(),
            Arithmetic::Ntt(key) => key.best_tile(),
        }
    }

    /// Memory to rotate up to `tile` ciphertexts in.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is none.
    pub fn scratch(&self, tile: usize) -> Result<Scratch> {
        let tile = tile.max(self.params.accumulators());
        Ok(match &self.arithmetic {
            Arithmetic::Fourier(key) => Scratch::Fourier(key.scratch(tile)?),
            Arithmetic::Ntt(key) => Scratch::Ntt(key.scratch(tile)?),
        })
    }

    /// Rotates a tile of tables. `accs`: T tables of k+w polynomials (of 2^η times as many for an extended rotation, of which
    /// only those of accumulator 0 are then of use), rotated in place. `inputs`: T LWE ciphertexts of n+w words under the
    /// small key. Where w > 1 the masks of the tables must be 0: bodies turn apart, a mask cannot.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the lengths do not belong together; [`Error::WrongParams`] for another key's scratch.
    pub fn rotate(&self, accs: &mut [u64], inputs: &[&[u64]], scratch: &mut Scratch) -> Result<()> {
        let p = &self.params;
        let glwe = Shape::of(p).glwe_len() * p.accumulators();
        let width = p.lwe_dimension + p.slots;
        if accs.len() != inputs.len() * glwe || inputs.iter().any(|x| x.len() != width) {
            return Err(Error::bad_input(
                "bootstrap",
                format!("{} tables of {glwe} words", inputs.len()),
                accs.len().to_string(),
                "give one table and one ciphertext for each lane",
            ));
        }
        let width = p.ggsw_count() + p.slots;
        let mut exponents = vec![0u32; inputs.len() * width];
        for (input, out) in inputs.iter().zip(exponents.chunks_exact_mut(width)) {
            modulus_switch(
                (p.rotation, p.modulus_switch),
                p.modulus,
                p.table_size(),
                (p.lwe_dimension, p.slots),
                input,
                out,
            )?;
        }
        if p.accumulators() > 1 {
            let exponents = exponents.chunks_exact(width);
            return accs
                .chunks_exact_mut(glwe)
                .zip(exponents)
                .try_for_each(|(accs, exponents)| self.rotate_extended(accs, exponents, scratch));
        }
        match (&self.arithmetic, scratch) {
            (Arithmetic::Fourier(key), Scratch::Fourier(s)) => {
                let exponents = exponents.chunks_exact(width);
                let jobs = accs.chunks_exact_mut(glwe).zip(exponents);
                let mut tile: Vec<Job> =
                    jobs.map(|(glwe, exponents)| Job { glwe, exponents }).collect();
                key.rotate(&mut tile, s)?
            }
            (Arithmetic::Ntt(key), Scratch::Ntt(s)) => key.rotate(accs, &exponents, s)?,
            _ => return Err(other_scratch()),
        }
        Ok(())
    }

    /// One table in 2^η accumulators, by n mask exponents and that of the body.
    fn rotate_extended(
        &self,
        accs: &mut [u64],
        exponents: &[u32],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let p = &self.params;
        let (body, mask) = (exponents[p.lwe_dimension] as usize, &exponents[..p.lwe_dimension]);
        let moves = extended::moves(mask, p);
        // X^(−b̃) = X^(2MN − b̃).
        let back = 2 * p.table_size() - body;
        match (&self.arithmetic, scratch) {
            (Arithmetic::Fourier(key), Scratch::Fourier(s)) => {
                key.rotate_extended(accs, back, &moves, s)
            }
            (Arithmetic::Ntt(key), Scratch::Ntt(s)) => key.rotate_extended(accs, back, &moves, s),
            _ => Err(other_scratch()),
        }
    }
}

fn other_scratch() -> Error {
    Error::wrong_params(
        "bootstrap",
        "scratch of this key",
        "scratch of another",
        "make scratch with the same key",
    )
}

/// Coefficient `index` of a GLWE ciphertext as an LWE ciphertext under the big key: the phase's coefficient `index` is
/// B_index − Σ_j A_j·S_(index−j), with a sign where the index wraps. `out`: k·N + w words, which tell how many of the
/// polynomials are bodies.
pub fn sample_extract(q: Modulus, n: usize, glwe: &[u64], index: usize, out: &mut [u64]) {
    // k·N + w words of k + w polynomials, N > 1.
    let k = (out.len() - glwe.len() / n) / (n - 1);
    for (a, mask) in glwe.chunks_exact(n).zip(out.chunks_exact_mut(n)).take(k) {
        for (j, m) in mask.iter_mut().enumerate() {
            *m = if j <= index { a[index - j] } else { q.neg(a[n + index - j]) };
        }
    }
    for (body, polynomial) in out[k * n..].iter_mut().zip(glwe[k * n..].chunks_exact(n)) {
        *body = polynomial[index];
    }
}
