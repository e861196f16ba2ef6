//! Polynomials of a ciphertext in the basis of Chebyshev, T_(a+b) = 2·T_a·T_b − T_|a−b|, in depth ⌈log2(degree + 1)⌉.
//!
//! p = q·T_k + r with k the largest power of two in p (Paterson–Stockmeyer), down to parts of degree at most three whose
//! T_i are there at the level needed. Scales are exact: what a part must be scaled to is known before it is made, and the
//! constants that multiply the T_i make it so. Every node is one [`Sum`]: one relinearization and one division.

use super::arithmetic::check_scale;
use super::instructions::Instructions;
use super::key_switch::KeyInUse;
use super::sum::Sum;
use crate::Result;
use crate::cipher::{Purpose, Rlwe};
use crate::ckks::{CHEBYSHEV_LEAF, Chebyshev, Context};
use crate::math::buffer::or_refused;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// T_1, T_2, T_3 and T_(2^i) of a ciphertext.
struct Basis<'a> {
    op: &'static str,
    instructions: &'a Instructions<'a>,
    context: &'a Context,
    /// The keys of multiplication, one for each tier that is passed.
    keys: BTreeMap<usize, KeyInUse>,
    powers: BTreeMap<usize, Rlwe>,
}

impl Basis<'_> {
    /// T_1 = x, for `depth` levels.
    fn new<'a>(
        op: &'static str,
        instructions: &'a Instructions<'a>,
        x: &Rlwe,
        depth: usize,
    ) -> Result<Basis<'a>> {
        let (context, mut keys) = (instructions.context(), BTreeMap::new());
        for level in (x.level + 1 - depth..=x.level).rev() {
            if let Entry::Vacant(place) = keys.entry(context.tier_at(level)) {
                place.insert(instructions.key(op, Purpose::Multiply, level)?);
            }
        }
        let powers = BTreeMap::from([(1, x.clone())]);
        Ok(Basis { op, instructions, context, keys, powers })
    }

    /// A sum relinearized and rescaled.
    fn finish(&self, sum: Sum) -> Result<Rlwe> {
        self.instructions.proceed(self.op)?;
        let tier = self.context.tier_at(sum.level());
        Ok(sum.finish(self.context, &self.keys[&tier], &self.powers[&1]))
    }

    /// Makes T_k of T_a and T_(k−a).
    fn extend(&mut self, k: usize) -> Result<()> {
        let a = if k.is_power_of_two() { k / 2 } else { 1 << k.ilog2() };
        let (x, y) = (&self.powers[&a], &self.powers[&(k - a)]);
        let mut sum = Sum::new(self.context, x, x.level.min(y.level), x.scale * y.scale);
        sum.add_product(self.context, x, y, true);
        match a - (k - a) {
            0 => sum.add_constant(self.context, -1.0),
            d => sum.add_multiple(self.context, &self.powers[&d], -1.0),
        }
        let made = self.finish(sum)?;
        self.powers.insert(k, made);
        Ok(())
    }

    /// p as a sum at `level` with the scale `scale`.
    fn sum(&self, p: &Chebyshev, level: usize, scale: f64) -> Result<Sum> {
        let (context, degree) = (self.context, p.degree());
        let one = &self.powers[&1];
        let there = |i: usize| self.powers.get(&i).is_some_and(|t| t.level >= level);
        if degree <= 1 || degree <= CHEBYSHEV_LEAF && (1..=degree).all(there) {
            let mut sum = Sum::new(context, one, level, scale);
            sum.add_constant(context, p.0[0]);
            for i in (1..=degree).filter(|i| p.0[*i] != 0.0) {
                sum.add_multiple(context, &self.powers[&i], p.0[i]);
            }
            return Ok(sum);
        }
        let k = 1 << degree.ilog2();
        let [quotient, remainder] = p.divided(k);
        let factor = &self.powers[&k];
        let mut sum = self.sum(&remainder, level, scale)?;
        if quotient.degree() == 0 {
            sum.add_multiple(context, factor, quotient.0[0]);
        } else {
            let inner = scale / factor.scale * context.step(level + 1);
            let inner = self.finish(self.sum(&quotient, level + 1, inner)?)?;
            sum.add_product(context, &inner, factor, false);
        }
        Ok(sum)
    }
}

/// p of every slot, for slots in [−1, 1]: `p.depth()` levels lower, at exactly `scale`, which for the user is that of the level
/// ([`Chain::scale`](crate::ckks::Chain::scale)). Outside of [−1, 1] it is the same polynomial, whose parts soon grow beyond any room.
///
/// # Errors
/// `BadInput` for a constant, for coefficients that are not finite and where levels or room for them or the scale are missing, `WrongKey` and
/// `WrongParams` for arguments of different sets, `Memory` where it runs out.
pub(super) fn evaluate(on: &Instructions, x: &Rlwe, p: &Chebyshev, scale: f64) -> Result<Rlwe> {
    let op = "evaluate a polynomial";
    on.check(op, x)?;
    p.check(op)?;
    let purpose = format!(" for degree {}", p.degree());
    on.context().require_level(op, p.depth(), x.level, &purpose)?;
    let (context, below) = (on.context(), x.level - p.depth());
    check_scale(context, op, below, scale)?;
    // Bootstraps know what their levels hold.
    if x.level > context.params().levels {
        return or_refused(op, || evaluated(on, op, x, p, scale));
    }
    context.check_room(op, p.largest(), below, scale)?;
    or_refused(op, || evaluated(on, op, x, p, scale))
}

fn evaluated(
    on: &Instructions,
    op: &'static str,
    x: &Rlwe,
    p: &Chebyshev,
    scale: f64,
) -> Result<Rlwe> {
    let mut basis = Basis::new(op, on, x, p.depth())?;
    let mut k = 2;
    while k <= p.degree() {
        basis.extend(k)?;
        if k == 2 && p.degree() > CHEBYSHEV_LEAF {
            basis.extend(3)?;
        }
        k *= 2;
    }
    let level = x.level + 1 - p.depth();
    let sum = basis.sum(p, level, scale * on.context().step(level))?;
    basis.finish(sum)
}

/// 2·x² − 1 in every slot, which is T_2: one level lower.
///
/// # Errors
/// `WrongKey` where the key of multiplication does not reach the level.
pub(super) fn double_angle(on: &Instructions, x: &Rlwe) -> Result<Rlwe> {
    let mut basis = Basis::new("double the angle", on, x, 1)?;
    basis.extend(2)?;
    Ok(basis.powers.remove(&2).unwrap_or_else(|| x.clone()))
}
