//! Blind rotation modulo 2^64 by f64 FFT: `acc = X^(−b̃)·LUT` (each body by its own b̃), then for every i
//! `acc += ((X^(ã_i) − 1)·acc) ⊡ GGSW_i`, which leaves a GLWE of `X^(−b̃ + Σ ã_i s_i)·LUT`.
//!
//! The accumulator is held as doubles in [−1/2, 1/2] of the torus, so its resolution is 2^-54. Each step is fused into
//! three sweeps: rotate, subtract, decompose and first pass; per block of the transform the rest of the forward passes,
//! the products with the GGSW and the inverse passes; last pass and accumulation. The key is stored in the order in
//! which the second sweep reads it. Cost per step: (ℓ + 1)(k + w) transforms and ℓ(k + w)^2·N/2 complex products.
//! With groups of GGSW a step is `acc += acc ⊡ Σ_j (X^(e_j) − 1)·GGSW_j` instead (`bundle`).
//! Source: Chillotti–Gama–Georgieva–Izabachène 2020 (TFHE), Alg. 3 and 4. `docs/performance/blind_rotate.md` has the
//! floors and the measurements.

mod bundle;
mod kernel;
mod layout;
mod nodes;

use super::Shape;
use super::extended::{Move, Source, origin};
use crate::math::buffer::Buffer;
use crate::math::fft::FftPlan;
use crate::math::gadget::Gadget;
use crate::math::parallel::*;
use crate::math::simd::Level;
use crate::{Error, Result};
use bundle::Groups;
use layout::Layout;

/// One ciphertext of a tile.
pub struct Job<'a> {
    /// In: the lookup table, a GLWE of (k+w)·N u64 modulo 2^64, not yet rotated, whose masks are 0 if w > 1. Out: the
    /// rotated GLWE.
    pub glwe: &'a mut [u64],
    /// An exponent for each GGSW and then those of the w bodies, each in 0..2N.
    pub exponents: &'a [u32],
}

/// Working memory of [`FourierBootstrapKey::rotate`]: one arena, placed so that no two of its parts share cache sets by
/// accident.
pub struct Scratch {
    arena: Buffer<f64>,
    layout: Layout,
    tile: usize,
}

/// A bootstrapping key in the Fourier domain, in the order in which the rotation reads it (it depends on the level).
pub struct FourierBootstrapKey {
    shape: Shape,
    layout: Layout,
    groups: Option<Groups>,
    key: Buffer<f64>,
}

impl FourierBootstrapKey {
    /// Memory of a key in bytes: 8·ℓ·(k+w)^2·N for each GGSW.
    pub fn bytes(shape: Shape) -> usize {
        8 * shape.ggsw_count * shape.ggsw_len()
    }

    /// Transforms a key. `fill(i, out)` writes GGSW ciphertext `i` modulo 2^64 to `out`: ℓ·(k+w)^2·N u64, in the order
    /// level (most significant first), row, column, coefficient. It is called from many threads, and only as many GGSW as
    /// there are threads exist in coefficient form at once.
    pub fn new(
        shape: Shape,
        level: Level,
        fill: impl Fn(usize, &mut [u64]) + Sync,
    ) -> Result<Self> {
        check(&shape)?;
        let plan = FftPlan::get(shape.polynomial_size, level)?;
        let layout = Layout::new(plan, shape.columns(), shape.gadget);
        let mut key = Buffer::new(shape.ggsw_count * shape.ggsw_len())?;
        let work = || (vec![0; shape.ggsw_len()], vec![0.0; layout.plan.twofold_len()]);
        let ggsws = key.as_mut_slice().par_chunks_exact_mut(shape.ggsw_len());
        ggsws.enumerate().for_each_init(work, |(coefficients, polynomial), (i, out)| {
            fill(i, coefficients);
            layout.transform_ggsw(coefficients, polynomial, out);
        });
        Ok(FourierBootstrapKey { shape, layout, groups: None, key })
    }

    /// The same for a rotation by groups of `size` GGSW each, in the order of `fill`, of which at most one encrypts 1. A step
    /// rounds the accumulator to its digits and turns it by the exponent of that one.
    pub fn grouped(
        shape: Shape,
        size: usize,
        level: Level,
        fill: impl Fn(usize, &mut [u64]) + Sync,
    ) -> Result<Self> {
        check(&shape)?;
        shape.check_groups(size)?;
        let plan = FftPlan::get(shape.polynomial_size, level)?;
        let layout = Layout::new(plan, shape.columns(), shape.gadget);
        let groups = Groups::new(&layout, size);
        let mut key = Buffer::new(shape.ggsw_count * shape.ggsw_len())?;
        let work = || (vec![0; shape.ggsw_len()], vec![0.0; layout.plan.twofold_len()]);
        let steps = key.as_mut_slice().par_chunks_exact_mut(size * shape.ggsw_len());
        steps.enumerate().for_each_init(work, |(coefficients, polynomial), (i, out)| {
            let fill = |j: usize, ggsw: &mut [u64]| fill(i * size + j, ggsw);
            groups.transform(&layout, fill, coefficients, polynomial, out);
        });
        Ok(FourierBootstrapKey { shape, layout, groups: Some(groups), key })
    }

    /// The dimensions.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many ciphertexts of a tile pay: more of them would push each other's accumulators out of the second-level
    /// cache while a GGSW is shared.
    pub fn best_tile(&self) -> usize {
        const CACHE: usize = 256 << 10;
        (CACHE / (8 * self.layout.accumulator_len())).clamp(1, 8)
    }

    /// Working memory for tiles of up to `max_tile` ciphertexts.
    pub fn scratch(&self, max_tile: usize) -> Result<Scratch> {
        // The external product needs a second accumulator.
        let tile = max_tile.max(2);
        let arena = Buffer::new(self.arena_len(tile))?;
        Ok(Scratch { arena, layout: self.layout.clone(), tile })
    }

    fn arena_len(&self, tile: usize) -> usize {
        let extra = self.groups.as_ref().map_or(0, |groups| groups.extra_len(&self.layout, tile));
        self.layout.arena_len(tile) + extra
    }

    /// Rotates a tile of ciphertexts; the key is read once for all of them.
    pub fn rotate(&self, tile: &mut [Job], scratch: &mut Scratch) -> Result<()> {
        self.check_scratch(tile.len(), scratch)?;
        for job in tile.iter() {
            self.check_job(job)?;
        }
        let layout = &self.layout;
        let arena = scratch.arena.as_mut_slice();
        for (c, job) in tile.iter().enumerate() {
            let bodies = &job.exponents[self.shape.ggsw_count..];
            layout.load(job.glwe, bodies, &mut arena[layout.accumulator(c)]);
        }
        let masks: Vec<&[u32]> =
            tile.iter().map(|job| &job.exponents[..self.shape.ggsw_count]).collect();
        let key = self.key.as_slice();
        let arena_start = arena.as_mut_ptr();
        // SAFETY: the plan was made for a level of this processor; the key holds one GGSW per exponent, the arena (of this
        // layout, and for these groups) an accumulator per mask, and every exponent is below 2N.
        unsafe {
            match &self.groups {
                None => kernel::rotate(layout, key.as_ptr(), &masks, arena_start),
                Some(groups) => {
                    let arena = (arena_start, scratch.tile);
                    bundle::rotate(groups, layout, key.as_ptr(), &masks, arena)
                }
            }
        }
        for (c, job) in tile.iter_mut().enumerate() {
            layout.store(&arena[layout.accumulator(c)], job.glwe);
        }
        Ok(())
    }

    /// Rotates one table in several accumulators by X^`back` of the table's ring, then by `moves`. `accs`: the M GLWE of a
    /// table in, of which the first is rotated out.
    pub fn rotate_extended(
        &self,
        accs: &mut [u64],
        back: usize,
        moves: &[Move],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (glwe, size) = (self.shape.glwe_len(), self.shape.polynomial_size);
        let parts = accs.len() / glwe;
        self.check_scratch(parts, scratch)?;
        let inside = |m: &Move| {
            let source = match m.source {
                Source::Accumulator(j) => j,
                Source::Kept => 0,
            };
            m.key < self.shape.ggsw_count && m.target.max(source) < parts && m.shift < 2 * size
        };
        if parts * glwe != accs.len() || !moves.iter().all(inside) {
            return Err(Error::bad_input(
                "blind rotation",
                format!("moves of the key's bits among GLWE of {glwe} words"),
                format!("{} words and {} moves", accs.len(), moves.len()),
                "pass the moves of this parameter set",
            ));
        }
        let layout = &self.layout;
        let arena = scratch.arena.as_mut_slice();
        for target in 0..parts {
            let (source, shift) = origin(back, target, parts, size);
            let from = &accs[source * glwe..(source + 1) * glwe];
            let exponent = ((2 * size - shift) % (2 * size)) as u32;
            layout.load(from, &[exponent], &mut arena[layout.accumulator(target)]);
        }
        // SAFETY: the plan was made for a level of this processor; keys, accumulators and shifts were checked above.
        unsafe { kernel::walk(layout, self.key.as_slice().as_ptr(), moves, arena.as_mut_ptr()) };
        layout.store(&arena[layout.accumulator(0)], &mut accs[..glwe]);
        Ok(())
    }

    /// `acc += glwe ⊡ GGSW_i`, both GLWE of (k+w)·N u64 modulo 2^64 (to within the 2^-54 of the torus that doubles hold).
    pub fn external_product_add(
        &self,
        acc: &mut [u64],
        glwe: &[u64],
        i: usize,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.check_scratch(1, scratch)?;
        let lengths = [acc.len(), glwe.len()] == [self.shape.glwe_len(); 2];
        if i >= self.shape.ggsw_count || !lengths || self.groups.is_some() {
            let wanted = format!(
                "a key without groups, two GLWE of {} and an index below {}",
                self.shape.glwe_len(),
                self.shape.ggsw_count
            );
            let got = format!("{}, {} and {i}", acc.len(), glwe.len());
            return Err(Error::bad_input(
                "external product",
                wanted,
                got,
                "pass ciphertexts of the key's shape",
            ));
        }
        let layout = &self.layout;
        let arena = scratch.arena.as_mut_slice();
        let still = vec![0; self.shape.bodies];
        layout.load(glwe, &still, &mut arena[layout.operand()]);
        layout.load(acc, &still, &mut arena[layout.accumulator(0)]);
        arena[layout.accumulator(1)].fill(0.0);
        let ggsw = self.key.as_slice()[i * self.shape.ggsw_len()..].as_ptr();
        // SAFETY: as in `rotate`; the arena holds the operand, and two accumulators of which the second is zero.
        unsafe { kernel::external_product(layout, ggsw, arena.as_mut_ptr()) };
        layout.store(&arena[layout.accumulator(0)], acc);
        Ok(())
    }

    fn check_scratch(&self, tile: usize, scratch: &Scratch) -> Result<()> {
        let enough = scratch.arena.as_slice().len() >= self.arena_len(scratch.tile);
        if scratch.tile >= tile && scratch.layout == self.layout && enough {
            return Ok(());
        }
        let wanted = format!("scratch for {tile} ciphertexts of {:?}", self.shape);
        let got = format!("scratch for {} of another shape", scratch.tile);
        Err(Error::bad_input(
            "blind rotation",
            wanted,
            got,
            "make it with this key's scratch(max_tile)",
        ))
    }

    fn check_job(&self, job: &Job) -> Result<()> {
        let (n, size) = (self.shape.ggsw_count, self.shape.polynomial_size);
        let (bodies, below) =
            (self.shape.bodies, job.exponents.iter().all(|&e| (e as usize) < 2 * size));
        if job.exponents.len() == n + bodies && job.glwe.len() == self.shape.glwe_len() && below {
            return Ok(());
        }
        let wanted = format!(
            "a GLWE of {} and {} exponents below {}",
            self.shape.glwe_len(),
            n + bodies,
            2 * size
        );
        let largest = job.exponents.iter().max().copied().unwrap_or(0);
        let got = format!(
            "{} and {} exponents, the largest {largest}",
            job.glwe.len(),
            job.exponents.len()
        );
        Err(Error::bad_input(
            "blind rotation",
            wanted,
            got,
            "pass ciphertexts of the key's shape, switched to 2N",
        ))
    }
}

/// Refuses shapes that the kernel has no layout for.
fn check(shape: &Shape) -> Result<()> {
    let Gadget { base_log, level } = shape.gadget;
    let bits = base_log.checked_mul(level);
    let gadget = base_log >= 1 && level >= 1 && bits.is_some_and(|bits| bits <= 52);
    let columns = shape.glwe_dimension >= 1 && shape.bodies >= 1 && shape.columns() <= 32;
    if gadget && shape.ggsw_count >= 1 && columns {
        return Ok(());
    }
    let wanted = "n, k, w >= 1, k + w <= 32, base_log·level in 1..=52";
    Err(Error::bad_input(
        "blind rotation",
        wanted,
        format!("{shape:?}"),
        "choose a supported parameter set",
    ))
}

#[cfg(test)]
mod tests;
