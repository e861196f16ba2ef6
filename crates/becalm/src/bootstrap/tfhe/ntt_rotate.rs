//! Blind rotation modulo p = 2^64 − 2^32 + 1, exact: acc ← X^(−b̃)·LUT (each body by its own b̃), then
//! acc ← acc + ((X^ã_i − 1)·acc) ⊡ GGSW_i for i = 1 ..= n, so that acc encrypts X^(−b̃ + Σ ã_i·s_i)·LUT.
//!
//! ⊡ is the external product: the k + w polynomials are decomposed into ℓ digits each, row (l, r) of the GGSW is
//! multiplied by digit l of polynomial r, and the rows are added. The key rests in the transformed domain. Every
//! integer is exact: results depend neither on the level of vector instructions nor on the tile nor on the machine.
//! With groups of m GGSW of which at most one encrypts 1, a step is acc ← ⌊acc⌉ + ⌊acc⌉ ⊡ Σ_j (X^e_j − 1)·GGSW_j, the
//! accumulator rounded to its digits: the transform of X^e at the point ψ^t is ψ^(te), read off a table of powers.
//! Cost of a step: (ℓ + 1)(k + w) transforms and ℓ(k + w)² products of N values; the key, n·ℓ(k + w)²·N words, is read
//! once per tile. Source: Chillotti et al. 2020, "TFHE", Alg. 3 with the CMUX of section 3.4.

use super::Shape;
use super::extended::{Move, Source, origin};
use crate::math::Modulus;
use crate::math::buffer::Buffer;
use crate::math::gadget::Gadget;
use crate::math::gadget::{round, take_digit};
use crate::math::ntt::NttPlan;
use crate::math::parallel::*;
use crate::math::simd::Level;
use crate::{Error, Result};
use std::collections::HashMap;

const P: Modulus = Modulus::Goldilocks;

/// The bootstrapping key: n GGSW ciphertexts, transformed.
pub struct NttBootstrapKey {
    shape: Shape,
    level: Level,
    plan: &'static NttPlan,
    groups: Option<Groups>,
    /// n × ℓ × (k + w) × (k + w) × N, each polynomial transformed.
    ggsw: Buffer<u64>,
}

/// Memory for [`NttBootstrapKey::rotate`]: the digits and the product of one step, transformed; for groups, their factors
/// and a sum.
pub struct Scratch {
    digits: Buffer<u64>,
    product: Buffer<u64>,
    /// The GLWE that a step of several accumulators puts by.
    kept: Buffer<u64>,
    factors: Buffer<u64>,
}

/// How groups of GGSW are multiplied by.
struct Groups {
    /// m.
    size: usize,
    /// ψ^x for x in 0..2N.
    powers: Vec<u64>,
    /// For each value of a transform the t in 0..2N with which it is taken at ψ^t.
    points: Vec<u32>,
}

impl Groups {
    fn new(plan: &NttPlan, level: Level, size: usize) -> Self {
        let cells = 2 * plan.size();
        let mut at = vec![0; plan.size()];
        at[1] = 1;
        plan.forward(level, &mut at);
        let powers: Vec<u64> =
            std::iter::successors(Some(1), |x| Some(P.mul(*x, at[0]))).take(cells).collect();
        let logs: HashMap<u64, u32> = powers.iter().copied().zip(0..).collect();
        let points = at.iter().map(|x| logs[x]).collect();
        Groups { size, powers, points }
    }

    /// X^e_j − 1, transformed, for every exponent of a group.
    fn factors(&self, exponents: &[u32], out: &mut [u64]) {
        let cells = self.powers.len();
        for (&e, out) in exponents.iter().zip(out.chunks_exact_mut(self.points.len())) {
            for (out, &t) in out.iter_mut().zip(&self.points) {
                *out = P.sub(self.powers[(e as usize * t as usize) & (cells - 1)], 1);
            }
        }
    }
}

impl NttBootstrapKey {
    /// The memory of a key of this shape: 8·n·ℓ·(k + w)²·N bytes (`usize::MAX` if that does not fit).
    pub fn bytes(shape: &Shape) -> usize {
        shape.ggsw_len().saturating_mul(shape.ggsw_count).saturating_mul(8)
    }

    /// Transforms a key. `fill(i, out)` writes GGSW i, i in 0..n, as coefficients modulo p: levels (most significant
    /// first) × k + w rows × k + w columns × N. It is called once for each i, in parallel. `level` above what
    /// the processor has is lowered.
    ///
    /// # Errors
    /// `BadInput` for a shape without digits, ring or mask, `Memory` when [`bytes`](Self::bytes) cannot be allocated.
    pub fn new(
        shape: Shape,
        level: Level,
        fill: impl Fn(usize, &mut [u64]) + Sync,
    ) -> Result<Self> {
        Self::transform(shape, None, level, fill)
    }

    /// The same for a rotation by groups of `size` GGSW each, in the order of `fill`, of which at most one encrypts 1.
    ///
    /// # Errors
    /// As [`new`](Self::new), and `BadInput` for a size that does not divide the number of GGSW.
    pub fn grouped(
        shape: Shape,
        size: usize,
        level: Level,
        fill: impl Fn(usize, &mut [u64]) + Sync,
    ) -> Result<Self> {
        shape.check_groups(size)?;
        Self::transform(shape, Some(size), level, fill)
    }

    fn transform(
        shape: Shape,
        group: Option<usize>,
        level: Level,
        fill: impl Fn(usize, &mut [u64]) + Sync,
    ) -> Result<Self> {
        let plan = NttPlan::get(shape.polynomial_size)?;
        if !shape.gadget.is_valid() || shape.glwe_dimension == 0 || shape.bodies == 0 {
            return Err(Error::bad_input(
                "bootstrapping key",
                "k and w >= 1 and a gadget of 1 to 63 bits in all",
                format!("{shape:?}"),
                "check the parameter set",
            ));
        }
        let mut ggsw = Buffer::new(shape.ggsw_len().saturating_mul(shape.ggsw_count))?;
        let all = ggsw.as_mut_slice();
        all.par_chunks_exact_mut(shape.ggsw_len()).enumerate().for_each(|(i, out)| {
            fill(i, out);
            for polynomial in out.chunks_exact_mut(shape.polynomial_size) {
                plan.forward(level, polynomial);
            }
        });
        let groups = group.map(|size| Groups::new(plan, level, size));
        Ok(NttBootstrapKey { shape, level, plan, groups, ggsw })
    }

    /// How many ciphertexts share one pass over the key: transforms cost so much that two already hide it.
    pub fn best_tile(&self) -> usize {
        4
    }

    /// Memory to rotate tiles of any size, `max_tile` being the largest that will come.
    ///
    /// # Errors
    /// `Memory` when it cannot be allocated.
    pub fn scratch(&self, _max_tile: usize) -> Result<Scratch> {
        let digits = Buffer::new(self.shape.digits_len())?;
        let kept = Buffer::new(self.shape.glwe_len())?;
        let polynomials = self.groups.as_ref().map_or(0, |groups| groups.size + 1);
        let factors = Buffer::new(polynomials * self.shape.polynomial_size)?;
        Ok(Scratch { digits, product: Buffer::new(self.shape.polynomial_size)?, kept, factors })
    }

    /// Rotates a tile of T accumulators. `accs`: T × (k + w) × N words modulo p, lookup tables in (with masks of 0 if w > 1),
    /// rotated tables out. `masks`: T × (n + w) exponents in 0..2N, the n of the mask, then those of the bodies.
    ///
    /// # Errors
    /// `BadInput` for other lengths, larger exponents, or the scratch of another shape.
    pub fn rotate(&self, accs: &mut [u64], masks: &[u32], scratch: &mut Scratch) -> Result<()> {
        let Shape { ggsw_count: n, glwe_dimension: k, polynomial_size: size, .. } = self.shape;
        let width = n + self.shape.bodies;
        let glwe = self.shape.glwe_len();
        self.check(accs, masks, scratch)?;
        let Scratch { digits, product, factors, .. } = scratch;
        let (digits, product) = (digits.as_mut_slice(), product.as_mut_slice());
        for (acc, mask) in accs.chunks_exact_mut(glwe).zip(masks.chunks_exact(width)) {
            for (c, polynomial) in acc.chunks_exact_mut(size).enumerate() {
                rotate_back(polynomial, mask[n + c.saturating_sub(k)] as usize, product);
            }
        }
        if let Some(groups) = &self.groups {
            let len = groups.size * self.shape.ggsw_len();
            for (i, ggsws) in self.ggsw.as_slice().chunks_exact(len).enumerate() {
                for (acc, mask) in accs.chunks_exact_mut(glwe).zip(masks.chunks_exact(width)) {
                    let exponents = &mask[i * groups.size..][..groups.size];
                    let scratch = (&mut *digits, &mut *product, factors.as_mut_slice());
                    self.group_step(groups, acc, exponents, ggsws, scratch);
                }
            }
            return Ok(());
        }
        for (i, ggsw) in self.ggsw.as_slice().chunks_exact(self.shape.ggsw_len()).enumerate() {
            for (acc, mask) in accs.chunks_exact_mut(glwe).zip(masks.chunks_exact(width)) {
                // A step by X^0 adds the external product of zero.
                if mask[i] != 0 {
                    self.decompose(acc, acc, mask[i] as usize, digits);
                    self.accumulate(acc, ggsw, digits, product);
                }
            }
        }
        Ok(())
    }

    /// Rotates one table in several accumulators by X^`back` of the table's ring, then by `moves`. `accs`: the M GLWE of a
    /// table in, of which the first is rotated out.
    ///
    /// # Errors
    /// `BadInput` for accumulators, moves or scratch of another shape.
    pub fn rotate_extended(
        &self,
        accs: &mut [u64],
        back: usize,
        moves: &[Move],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Shape { ggsw_count: n, polynomial_size: size, .. } = self.shape;
        let glwe = self.shape.glwe_len();
        let parts = accs.len() / glwe;
        self.check(accs, &vec![0; parts * (n + 1)], scratch)?;
        let Scratch { digits, product, kept, .. } = scratch;
        let (digits, product) = (digits.as_mut_slice(), product.as_mut_slice());
        let kept = kept.as_mut_slice();
        let table = accs.to_vec();
        for (target, acc) in accs.chunks_exact_mut(glwe).enumerate() {
            let (source, shift) = origin(back, target, parts, size);
            acc.copy_from_slice(&table[source * glwe..][..glwe]);
            for polynomial in acc.chunks_exact_mut(size) {
                rotate_back(polynomial, (2 * size - shift) % (2 * size), product);
            }
        }
        for m in moves {
            let target = m.target * glwe..(m.target + 1) * glwe;
            if m.first {
                kept.copy_from_slice(&accs[target.clone()]);
            }
            let source = match m.source {
                Source::Accumulator(j) => &accs[j * glwe..][..glwe],
                Source::Kept => &*kept,
            };
            self.decompose(source, &accs[target.clone()], m.shift, digits);
            let ggsw = &self.ggsw.as_slice()[m.key * self.shape.ggsw_len()..];
            self.accumulate(&mut accs[target], &ggsw[..self.shape.ggsw_len()], digits, product);
        }
        Ok(())
    }

    fn check(&self, accs: &[u64], masks: &[u32], scratch: &Scratch) -> Result<()> {
        let size = self.shape.polynomial_size;
        let width = self.shape.ggsw_count + self.shape.bodies;
        let tile = masks.len() / width;
        let lengths = masks.len() == tile * width && accs.len() == tile * self.shape.glwe_len();
        let polynomials = self.groups.as_ref().map_or(0, |groups| groups.size + 1);
        let own = scratch.digits.as_slice().len() == self.shape.digits_len()
            && scratch.factors.as_slice().len() == polynomials * size;
        if lengths && own && masks.iter().all(|&m| (m as usize) < 2 * size) {
            return Ok(());
        }
        let wanted = format!(
            "T × {} words and T × {} exponents below {}",
            self.shape.glwe_len(),
            width,
            2 * size
        );
        let got = format!("{} words and {} exponents", accs.len(), masks.len());
        Err(Error::bad_input(
            "blind rotation",
            wanted,
            got,
            "pass a mask for each accumulator, and the key's own scratch",
        ))
    }

    /// The digits of X^exponent·source − minus, transformed.
    fn decompose(&self, source: &[u64], minus: &[u64], exponent: usize, digits: &mut [u64]) {
        let (size, glwe) = (self.shape.polynomial_size, self.shape.glwe_len());
        let pairs = source.chunks_exact(size).zip(minus.chunks_exact(size));
        for (r, (source, minus)) in pairs.enumerate() {
            let rows = &mut digits[r * size..];
            entry::digits(self.level, self.shape.gadget, source, minus, exponent, rows, glwe);
        }
        for row in digits.chunks_exact_mut(size) {
            self.plan.forward(self.level, row);
        }
    }

    /// acc ← acc + Σ digits·ggsw.
    fn accumulate(&self, acc: &mut [u64], ggsw: &[u64], digits: &[u64], product: &mut [u64]) {
        let (size, glwe) = (self.shape.polynomial_size, self.shape.glwe_len());
        for (c, polynomial) in acc.chunks_exact_mut(size).enumerate() {
            self.plan.dot(self.level, product, digits, &ggsw[c * size..], glwe);
            self.plan.inverse(self.level, product);
            entry::add(self.level, polynomial, product);
        }
    }

    /// acc ← ⌊acc⌉ + ⌊acc⌉ ⊡ Σ_j (X^e_j − 1)·ggsw_j.
    fn group_step(
        &self,
        groups: &Groups,
        acc: &mut [u64],
        exponents: &[u32],
        ggsws: &[u64],
        (digits, product, factors): (&mut [u64], &mut [u64], &mut [u64]),
    ) {
        let (size, glwe) = (self.shape.polynomial_size, self.shape.glwe_len());
        let (sum, factors) = factors.split_at_mut(size);
        groups.factors(exponents, factors);
        for (r, polynomial) in acc.chunks_exact_mut(size).enumerate() {
            let rows = &mut digits[r * size..];
            entry::rounded_digits(self.level, self.shape.gadget, polynomial, rows, glwe);
        }
        for row in digits.chunks_exact_mut(size) {
            self.plan.forward(self.level, row);
        }
        for (c, polynomial) in acc.chunks_exact_mut(size).enumerate() {
            sum.fill(0);
            let ggsws = ggsws.chunks_exact(self.shape.ggsw_len());
            for (ggsw, factor) in ggsws.zip(factors.chunks_exact(size)) {
                self.plan.dot(self.level, product, digits, &ggsw[c * size..], glwe);
                self.plan.multiply_add(self.level, sum, product, factor);
            }
            self.plan.inverse(self.level, sum);
            entry::add(self.level, polynomial, sum);
        }
    }
}

/// a ← X^−exponent·a, exponent in 0..2N.
fn rotate_back(a: &mut [u64], exponent: usize, copy: &mut [u64]) {
    let size = a.len();
    copy.copy_from_slice(a);
    // X^−e = X^(2N − e), and X^N = −1.
    let (shift, negate) = ((2 * size - exponent) % size, exponent != 0 && exponent <= size);
    let (wrapped, straight) = a.split_at_mut(shift);
    let turn = |out: &mut [u64], from: &[u64], negate: bool| {
        for (out, &x) in out.iter_mut().zip(from) {
            *out = if negate { P.neg(x) } else { x };
        }
    };
    turn(straight, &copy[..size - shift], negate);
    turn(wrapped, &copy[size - shift..], !negate);
}

/// The digits of X^exponent·source − a as residues: digit l to `rows[(l − 1)·stride..][..N]`, exponent in 0..2N.
#[inline(always)]
fn digits(
    gadget: Gadget,
    source: &[u64],
    a: &[u64],
    exponent: usize,
    rows: &mut [u64],
    stride: usize,
) {
    let size = a.len();
    let (shift, negate) = (exponent % size, exponent >= size);
    let (wrapped, straight) = rows[..size].split_at_mut(shift);
    let (low, high) = source.split_at(size - shift);
    round_difference(gadget, straight, low, &a[shift..], negate);
    round_difference(gadget, wrapped, high, &a[..shift], !negate);
    split_digits(gadget, rows, stride, size);
}

/// The digits of `a` as [`digits`] writes them; `a` loses what they do not hold.
#[inline(always)]
fn rounded_digits(gadget: Gadget, a: &mut [u64], rows: &mut [u64], stride: usize) {
    let unit = gadget.scale(gadget.level);
    for (a, rest) in a.iter_mut().zip(&mut *rows) {
        let rounded = round(P, gadget, *a);
        *rest = rounded as u64;
        *a = P.mul(P.from_signed(rounded), unit);
    }
    split_digits(gadget, rows, stride, a.len());
}

/// The first row, N rounded values in two's complement, to digits.
#[inline(always)]
fn split_digits(gadget: Gadget, rows: &mut [u64], stride: usize, size: usize) {
    let (top, others) = rows.split_at_mut(size);
    // The row of the most significant digit holds what remains.
    for l in (1..gadget.level as usize).rev() {
        for (digit, rest) in others[l * stride - size..][..size].iter_mut().zip(&mut *top) {
            let mut remains = *rest as i64;
            *digit = residue(take_digit(&mut remains, gadget.base_log));
            *rest = remains as u64;
        }
    }
    for rest in top {
        *rest = residue(*rest as i64);
    }
}

/// ±turned − a, rounded to the gadget, as two's complement.
#[inline(always)]
fn round_difference(gadget: Gadget, out: &mut [u64], turned: &[u64], a: &[u64], negate: bool) {
    let pairs = out.iter_mut().zip(turned.iter().zip(a));
    if negate {
        for (out, (&x, &a)) in pairs {
            *out = round(P, gadget, P.neg(P.add(x, a))) as u64;
        }
    } else {
        for (out, (&x, &a)) in pairs {
            *out = round(P, gadget, P.sub(x, a)) as u64;
        }
    }
}

/// The residue of a digit, |digit| <= 2^62.
#[inline(always)]
fn residue(digit: i64) -> u64 {
    // digit + p where it is negative, p = 1 − 2^32 modulo 2^64.
    (digit as u64).wrapping_sub((digit >> 63) as u64 & 0xFFFF_FFFF)
}

/// a ← a + b.
#[inline(always)]
fn add(a: &mut [u64], b: &[u64]) {
    for (a, &b) in a.iter_mut().zip(b) {
        *a = P.add(*a, b);
    }
}

/// The loops above, compiled for each level.
mod entry {
    use super::{Gadget, Level};

    macro_rules! entries {
        ($($name:ident($($arg:ident: $type:ty),*);)*) => {$(
            pub(super) fn $name(level: Level, $($arg: $type),*) {
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx2,fma")]
                    fn avx2($($arg: $type),*) {
                        super::$name($($arg),*)
                    }
                    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
                    fn avx512($($arg: $type),*) {
                        super::$name($($arg),*)
                    }
                    if Level::available().contains(&level) {
                        match level {
                            Level::Portable => {}
                            // SAFETY: the processor has the instructions of an available level.
                            Level::Avx2 => return unsafe { avx2($($arg),*) },
                            // SAFETY: the processor has the instructions of an available level.
                            Level::Avx512 => return unsafe { avx512($($arg),*) },
                        }
                    }
                }
                #[cfg(not(target_arch = "x86_64"))]
                let _ = level;
                super::$name($($arg),*)
            }
        )*};
    }
    entries! {
        digits(gadget: Gadget, source: &[u64], a: &[u64], exponent: usize, rows: &mut [u64], stride: usize);
        rounded_digits(gadget: Gadget, a: &mut [u64], rows: &mut [u64], stride: usize);
        add(a: &mut [u64], b: &[u64]);
    }
}

#[cfg(test)]
mod tests;
