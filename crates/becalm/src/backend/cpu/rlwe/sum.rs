//! A [`Sum`] gathers products and multiples of ciphertexts at one level and scale; it is relinearized, divided by P and
//! rescaled once, in one division, however many terms it has.

use super::key_switch::KeyInUse;
use crate::cipher::Rlwe;
use crate::ckks::Context;
use crate::ckks::encode::residue;
use crate::math::parallel::*;
use crate::math::rns::Scratch;

/// Terms at one level and scale, before relinearization and rescaling.
pub(crate) struct Sum {
    level: usize,
    scale: f64,
    slots: usize,
    /// Constant and linear part in the secret, and the quadratic one.
    pub(crate) parts: [Scratch; 2],
    square: Option<Scratch>,
}

impl Sum {
    /// Nothing yet, at `level` and the scale `scale` of unrescaled products.
    pub(crate) fn new(context: &Context, like: &Rlwe, level: usize, scale: f64) -> Sum {
        let len = context.words(level) * context.params().degree();
        let parts = [0, 1].map(|_| {
            let mut part = context.ring().scratch(len);
            part.fill(0.0);
            part
        });
        Sum { level, scale, slots: like.slots, parts, square: None }
    }

    /// Adds c·x, for x at this level or above.
    pub(crate) fn add_multiple(&mut self, context: &Context, x: &Rlwe, c: f64) {
        let (x, words) = (context.lowered(x, self.level), context.words_of(self.level, 0));
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
    pub(crate) fn add_constant(&mut self, context: &Context, c: f64) {
        context.add_to_values(&mut self.parts[0], self.level, c * self.scale);
    }

    /// Adds a·b, both at this level or above; the product of their scales is that of the sum. Twice if `twice`.
    pub(crate) fn add_product(&mut self, context: &Context, a: &Rlwe, b: &Rlwe, twice: bool) {
        let [a, b] = [a, b].map(|x| context.lowered(x, self.level));
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
    pub(crate) fn level(&self) -> usize {
        self.level
    }

    /// The sum rescaled, if it has no products.
    pub(crate) fn rescale(self, context: &Context, like: &Rlwe) -> Rlwe {
        let parts = [0, 1].map(|k| context.divide(&self.parts[k], self.level, self.level - 1, 0));
        self.stamped(context, like, parts)
    }

    /// The sum relinearized and rescaled.
    pub(crate) fn finish(mut self, context: &Context, key: &KeyInUse, like: &Rlwe) -> Rlwe {
        let Some(square) = self.square.take() else { return self.rescale(context, like) };
        let (from, to) = (self.level, self.level - 1);
        let digits = context.decompose(&square, from, key.special());
        let raised = context.inner_product(&digits, key, [&self.parts[0], &self.parts[1]]);
        let parts = [0, 1].map(|k| context.divide(&raised.parts[k], from, to, key.special()));
        self.stamped(context, like, parts)
    }

    fn stamped(self, context: &Context, like: &Rlwe, parts: [Scratch; 2]) -> Rlwe {
        let (level, scale) = (self.level - 1, self.scale / context.step(self.level));
        Rlwe { slots: self.slots, ..context.ciphertext(like, level, scale, parts) }
    }
}
