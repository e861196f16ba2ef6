//! A [`Sum`] gathers products and multiples of ciphertexts at one level and scale; it is relinearized, divided by P and
//! rescaled once, in one division, however many terms it has.

use super::key_switch::{Decomposed, KeyInUse};
use super::residues::{add_to_values, divide};
use crate::cipher::Rlwe;
use crate::ckks::Context;
use crate::ckks::encode::residue;
use crate::math::parallel::*;
use crate::math::rns::Scratch;
use std::borrow::Cow;
use std::sync::Arc;

/// Terms at one level and scale, before relinearization and rescaling.
pub(super) struct Sum {
    level: usize,
    scale: f64,
    slots: usize,
    /// Constant and linear part in the secret, and the quadratic one.
    pub(super) parts: [Scratch; 2],
    square: Option<Scratch>,
}

impl Sum {
    /// Nothing yet, at `level` and the scale `scale` of unrescaled products.
    pub(super) fn new(context: &Context, like: &Rlwe, level: usize, scale: f64) -> Sum {
        let len = context.words(level) * context.params().degree();
        let parts = [0, 1].map(|_| {
            let mut part = context.ring().scratch(len);
            part.fill(0.0);
            part
        });
        Sum { level, scale, slots: like.slots, parts, square: None }
    }

    /// Adds c·x, for x at this level or above.
    pub(super) fn add_multiple(&mut self, context: &Context, x: &Rlwe, c: f64) {
        let (x, words) = (lowered(context, x, self.level), context.words_of(self.level, 0));
        let (n, factor) = (context.params().degree(), (c * self.scale / x.scale).round());
        for (sum, x) in self.parts.iter_mut().zip(&x.parts) {
            sum.par_chunks_mut(n).zip(x.par_chunks(n)).enumerate().for_each(|(i, (sum, x))| {
                let i = words[i];
                let c = residue(factor, context.ring().word(i).p);
                context.ring().scale_add(i, sum, x, c);
            });
        }
    }

    /// Adds c to every slot.
    pub(super) fn add_constant(&mut self, context: &Context, c: f64) {
        add_to_values(context, &mut self.parts[0], self.level, c * self.scale);
    }

    /// Adds a·b, both at this level or above; the product of their scales is that of the sum. Twice if `twice`.
    pub(super) fn add_product(&mut self, context: &Context, a: &Rlwe, b: &Rlwe, twice: bool) {
        let [a, b] = [a, b].map(|x| lowered(context, x, self.level));
        let (ring, n, words) =
            (context.ring(), context.params().degree(), context.words_of(self.level, 0));
        let mut square = self.square.take().unwrap_or_else(|| {
            let mut fresh = ring.scratch(words.len() * n);
            fresh.fill(0.0);
            fresh
        });
        let factor = if twice { 2.0 } else { 1.0 };
        let [constant, linear] = &mut self.parts;
        let sums =
            constant.par_chunks_mut(n).zip(linear.par_chunks_mut(n)).zip(square.par_chunks_mut(n));
        sums.enumerate().for_each(|(i, ((c, l), s))| {
            let [a0, a1] = [0, 1].map(|k| &a.parts[k][i * n..][..n]);
            let [b0, b1] = [0, 1].map(|k| &b.parts[k][i * n..][..n]);
            ring.tensor(words[i], [c, l, s], [a0, a1], [b0, b1], factor);
        });
        self.square = Some(square);
    }

    /// The level of the terms.
    pub(super) fn level(&self) -> usize {
        self.level
    }

    /// The sum rescaled, if it has no products.
    pub(super) fn rescale(self, context: &Context, like: &Rlwe) -> Rlwe {
        let parts = [0, 1].map(|k| divide(context, &self.parts[k], self.level, self.level - 1, 0));
        self.stamped(context, like, parts)
    }

    /// The sum relinearized and rescaled.
    pub(super) fn finish(mut self, context: &Context, key: &KeyInUse, like: &Rlwe) -> Rlwe {
        let Some(square) = self.square.take() else { return self.rescale(context, like) };
        let (from, to) = (self.level, self.level - 1);
        let digits = Decomposed::new(context, &square, from, key.special());
        let raised = digits.product(key, [&self.parts[0], &self.parts[1]]);
        let parts = raised.divided(context, to, key.special());
        self.stamped(context, like, parts)
    }

    fn stamped(self, context: &Context, like: &Rlwe, parts: [Scratch; 2]) -> Rlwe {
        let (level, scale) = (self.level - 1, self.scale / context.step(self.level));
        Rlwe { slots: self.slots, ..ciphertext(like, level, scale, parts) }
    }
}

/// The polynomials as a ciphertext under the key of `like`.
pub(super) fn ciphertext(like: &Rlwe, level: usize, scale: f64, parts: [Scratch; 2]) -> Rlwe {
    Rlwe { level, scale, parts: parts.map(Arc::new), ..empty(like) }
}

/// The same values at `level`, which is not above that of `x`, at the same scale. In the tier of `x` these are its first
/// words; into the tier below a step is undone by an integer factor before.
pub(super) fn truncate(context: &Context, x: &Rlwe, level: usize) -> Rlwe {
    if level == x.level {
        return x.clone();
    }
    let lowest = context.tier_of(x.level).start.max(level);
    let len = context.words(lowest) * context.params().degree();
    let parts = [0, 1].map(|k| {
        let mut part = context.ring().scratch(len);
        part.copy_from_slice(&x.parts[k][..len]);
        Arc::new(part)
    });
    let x = Rlwe { level: lowest, parts, ..empty(x) };
    if lowest == level {
        return x;
    }
    let mut sum = Sum::new(context, &x, lowest, x.scale * context.step(lowest).round());
    sum.add_multiple(context, &x, 1.0);
    let scale = x.scale;
    let x = Rlwe { scale, ..sum.rescale(context, &x) };
    truncate(context, &x, level)
}

/// [`truncate`] where the level or the words are others.
pub(super) fn lowered<'a>(context: &Context, x: &'a Rlwe, level: usize) -> Cow<'a, Rlwe> {
    match context.tier_of(level).contains(&x.level) {
        true => Cow::Borrowed(x),
        false => Cow::Owned(truncate(context, x, level)),
    }
}

/// All of a ciphertext but the polynomials.
pub(super) fn empty(x: &Rlwe) -> Rlwe {
    let parts = [0, 1].map(|k| Arc::new(x.parts[k].nothing()));
    let Rlwe { params, key, level, scale, slots, account, integers, .. } = *x;
    Rlwe { params, key, level, scale, slots, account, integers, parts }
}
