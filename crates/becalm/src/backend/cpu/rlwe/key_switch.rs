//! Hybrid key switching: from c·s to an encryption under s', by a key for each digit of the chain.
//!
//! c is cut into its residues modulo the digits D_j of the chain, each lifted to all primes and to the special ones;
//! Σ_j [c]_(D_j)·(b_j, a_j) is an encryption of P·c·s, and is divided by P = Π special primes, |D_j| ≤ P. The lift is to
//! the number nearest zero, so that the error is about √(digits·N/12)·σ·D/P, little beside that of the rounding.
//! Cost at ℓ words, α special, β digits: β(ℓ + α) + 2α + 3ℓ transforms, 2β(ℓ + α) products. A decomposition serves many
//! rotations (hoisting), and a division by P can take the next rescale with it. To another tier, where all words change,
//! a rescale is ℓ transforms more for each of the two parts, in all.
//! Source: Han–Ki 2019; Bossuat et al. 2021 (hoisting).

use super::residues::{GROUP, divide};
use crate::cipher::{Packed, StoredKey, SwitchKey};
use crate::ckks::Context;
use crate::math::parallel::*;
use crate::math::rns::{Converter, First, Prepared, Scratch, Uniform, centred};
use std::ops::Range;
use std::sync::Arc;

/// Values of each digit of a packed key that are expanded at a time: they stay in the second cache.
const BLOCK: usize = 2048;

/// A key as it is used: ready, or packed in memory, of which a block is expanded when its turn comes. Less is read from memory
/// then, which takes about as long as expanding it.
pub(super) enum KeyInUse {
    Ready(Arc<SwitchKey>),
    Packed(Arc<StoredKey>),
}

impl KeyInUse {
    /// Special words of the key.
    pub(super) fn special(&self) -> usize {
        match self {
            KeyInUse::Ready(key) => key.special,
            KeyInUse::Packed(key) => key.special,
        }
    }

    /// `out ← first + Σ_j rows_j·(b_j, a_j)` modulo limb `i` of polynomials at `level`, for each of `products`: block by
    /// block, so that all of them share one reading of the key from memory, which takes longer than the products.
    pub(super) fn products(
        &self,
        context: &Context,
        [i, level]: [usize; 2],
        products: &mut [KeyProduct],
    ) {
        let (word, count) = (context.word_of(level, i), context.words(level));
        let place = |whole: usize| if i < count { i } else { whole + i - count };
        match self {
            KeyInUse::Ready(key) => {
                ready_products(context, key, [place(key.count), word], products)
            }
            KeyInUse::Packed(key) => {
                let at = place(context.words(key.level));
                packed_products(context, key, [at, word], products);
            }
        }
    }

    /// [`Decomposed::product`] of integers so small that each digit of theirs is they themselves, known modulo the words of `level`
    /// and the special words: nothing is cut or lifted.
    pub(super) fn small_product(
        &self,
        context: &Context,
        limbs: &[f64],
        level: usize,
        add: [&[f64]; 2],
    ) -> Raised {
        let (n, special) = (context.params().degree(), self.special());
        let (mut out, digits) =
            (Raised::unset(context, level, special), context.digits(level).len());
        out.limbs(n).into_par_iter().enumerate().for_each(|(i, out)| {
            let rows = vec![&limbs[i * n..][..n]; digits];
            self.product_and_sum(context, [i, level, special], &rows, add, out);
        });
        out
    }

    /// Limb `i` of Σ_j rows_j·(b_j, a_j) + P·`add`.
    fn product_and_sum(
        &self,
        context: &Context,
        [i, level, special]: [usize; 3],
        rows: &[&[f64]],
        add: [&[f64]; 2],
        [x, y]: [&mut [f64]; 2],
    ) {
        let (ring, n, word) =
            (context.ring(), context.params().degree(), context.word_of(level, i));
        let (out, first) = ([&mut *x, &mut *y], [First::Zero; 2]);
        self.products(context, [i, level], &mut [KeyProduct { rows, out, first }]);
        for (x, add) in [x, y].into_iter().zip(add) {
            if i < context.words(level) && !add.is_empty() {
                let p = context.special_product(special, word);
                ring.scale_add(word, x, &add[i * n..][..n], centred(p, ring.word(word).p));
            }
        }
    }
}

/// The digits of a polynomial, ready to be lifted to all words of its level and the special words.
pub(super) struct Decomposed<'a> {
    context: &'a Context,
    level: usize,
    special: usize,
    /// The values of the polynomial: each digit is known in its own words.
    limbs: &'a [f64],
    /// For each digit the words of the level that are its own.
    digits: Vec<(Range<usize>, Arc<Converter>, Prepared)>,
}

/// A sum of products with the digits of a key, modulo one word.
pub(super) struct KeyProduct<'a> {
    /// Values of the digits of the factor.
    pub(super) rows: &'a [&'a [f64]],
    /// Where the sum goes.
    pub(super) out: [&'a mut [f64]; 2],
    /// The initial values of `out`.
    pub(super) first: [First<'a>; 2],
}

impl KeyProduct<'_> {
    /// The slices for the `len` values from `from` on: out, rows and first.
    fn part(&mut self, from: usize, len: usize) -> ([&mut [f64]; 2], Vec<&[f64]>, [First<'_>; 2]) {
        let rows = self.rows.iter().map(|row| &row[from..][..len]).collect();
        let out = self.out.each_mut().map(|x| &mut x[from..][..len]);
        (out, rows, self.first.map(|first| first.part(from, len)))
    }
}

/// A pair of polynomials modulo the words of a level and special words, divided by P in the end.
#[derive(Clone)]
pub(super) struct Raised {
    pub(super) level: usize,
    pub(super) parts: [Scratch; 2],
}

impl Raised {
    /// Memory for a pair of polynomials at `level` with special words.
    pub(super) fn unset(context: &Context, level: usize, special: usize) -> Raised {
        let len = (context.words(level) + special) * context.params().degree();
        Raised { level, parts: [0, 1].map(|_| context.ring().scratch(len)) }
    }

    /// P·x modulo the words of `level` and the special words, where it is zero.
    pub(super) fn new(context: &Context, parts: &[Arc<Scratch>; 2], level: usize) -> Raised {
        let (ring, n, special) = (context.ring(), context.params().degree(), context.special());
        let count = context.words(level);
        let raise = |part: &Scratch| {
            let mut out = ring.scratch((count + special) * n);
            out.par_chunks_mut(n).enumerate().for_each(|(i, x)| {
                x.fill(0.0);
                if i < count {
                    let word = context.word_of(level, i);
                    let p = centred(context.special_product(special, word), ring.word(word).p);
                    ring.scale_add(word, x, &part[i * n..][..n], p);
                }
            });
            out
        };
        Raised { level, parts: [raise(&parts[0]), raise(&parts[1])] }
    }

    /// Both divided by the `special` words and by the steps down to level `to`, and rounded.
    pub(super) fn divided(&self, context: &Context, to: usize, special: usize) -> [Scratch; 2] {
        self.parts.each_ref().map(|part| divide(context, part, self.level, to, special))
    }

    /// For each word its limbs of both parts.
    pub(super) fn limbs(&mut self, n: usize) -> Vec<[&mut [f64]; 2]> {
        let [a, b] = &mut self.parts;
        a.chunks_mut(n).zip(b.chunks_mut(n)).map(|(a, b)| [a, b]).collect()
    }

    /// Limb `i` of both parts.
    pub(super) fn limb(&self, i: usize, n: usize) -> [&[f64]; 2] {
        self.parts.each_ref().map(|part| &part[i * n..][..n])
    }
}

impl<'a> Decomposed<'a> {
    /// Cuts a polynomial at `level` into digits, for a key with `special` special words.
    pub(super) fn new(
        context: &'a Context,
        limbs: &'a [f64],
        level: usize,
        special: usize,
    ) -> Decomposed<'a> {
        let (ring, n) = (context.ring(), context.params().degree());
        let (limbs, words) = (&limbs[..context.words(level) * n], context.words_of(level, special));
        let digits = context.digits(level).into_iter().map(|own| {
            let mut coefficients = ring.scratch(own.len() * n);
            let values = limbs[own.start * n..own.end * n].par_chunks(n);
            let own_words = &words[own.clone()];
            coefficients.par_chunks_mut(n).zip(values).zip(own_words).for_each(|((x, y), i)| {
                x.copy_from_slice(y);
                ring.backward(*i, x);
            });
            let converter = context.converter(own_words.to_vec(), words.clone());
            let prepared = converter.prepare(ring, &coefficients);
            (own, converter, prepared)
        });
        Decomposed { context, level, special, limbs, digits: digits.collect() }
    }

    /// How many digits there are.
    pub(super) fn count(&self) -> usize {
        self.digits.len()
    }

    /// For each limb i of the words of the level and the special words: `f(i, values of all digits there, out[i])`.
    pub(super) fn each_word<T: Send>(&self, out: Vec<T>, f: impl Fn(usize, &[&[f64]], T) + Sync) {
        let context = self.context;
        let (ring, n) = (context.ring(), context.params().degree());
        let mut rest = out.into_iter();
        let groups = std::iter::from_fn(|| Some(rest.by_ref().take(GROUP).collect::<Vec<T>>()));
        let groups: Vec<Vec<T>> = groups.take_while(|g| !g.is_empty()).collect();
        groups.into_par_iter().enumerate().for_each(|(g, items)| {
            let (first, len) = (g * GROUP, items.len());
            let mut lifted = ring.scratch(self.digits.len() * len * n);
            for (j, limbs) in lifted.chunks_mut(len * n).enumerate() {
                let (own, converter, prepared) = &self.digits[j];
                // Words before the digit's own, and words behind.
                for (start, end) in [(first, own.start), (own.end.max(first), first + len)] {
                    let end = end.min(first + len);
                    if start < end {
                        let limbs = &mut limbs[(start - first) * n..(end - first) * n];
                        converter.finish(ring, prepared, start, limbs);
                    }
                }
            }
            for (k, item) in items.into_iter().enumerate() {
                let i = first + k;
                let word = context.word_of(self.level, i);
                for (limbs, (own, _, _)) in lifted.chunks_mut(len * n).zip(&self.digits) {
                    if !own.contains(&i) {
                        ring.forward(word, &mut limbs[k * n..][..n]);
                    }
                }
                let rows: Vec<&[f64]> = lifted
                    .chunks(len * n)
                    .zip(&self.digits)
                    .map(|(limbs, (own, _, _))| match own.contains(&i) {
                        true => &self.limbs[i * n..][..n],
                        false => &limbs[k * n..][..n],
                    })
                    .collect();
                f(i, &rows, item);
            }
        });
    }

    /// Σ_j digit_j·(b_j, a_j) + P·(`add_0`, `add_1`), where they are not empty.
    pub(super) fn product(&self, key: &KeyInUse, add: [&[f64]; 2]) -> Raised {
        let (context, level, special) = (self.context, self.level, self.special);
        let mut out = Raised::unset(context, level, special);
        self.each_word(out.limbs(context.params().degree()), |i, rows, out| {
            key.product_and_sum(context, [i, level, special], rows, add, out);
        });
        out
    }
}

/// [`KeyInUse::products`] with limb `at` of a key that is ready, modulo word `word`.
fn ready_products(
    context: &Context,
    key: &SwitchKey,
    [at, word]: [usize; 2],
    products: &mut [KeyProduct],
) {
    let (n, stored) = (context.params().degree(), key.count + key.special);
    let block = if products.len() > 1 { BLOCK.min(n) } else { n };
    let digits = products.first().map_or(0, |p| p.rows.len());
    for start in (0..n).step_by(block) {
        let [bodies, masks]: [Vec<&[f64]>; 2] = [&key.bodies, &key.masks].map(|all| {
            (0..digits).map(|j| &all[(j * stored + at) * n + start..][..block]).collect()
        });
        for product in products.iter_mut() {
            let (out, rows, first) = product.part(start, block);
            context.ring().dot_pair(word, out, &rows, [&bodies, &masks], first);
        }
    }
}

/// [`KeyInUse::products`] with limb `at` of a packed key, modulo word `word`: masks that are drawn are drawn once for all.
fn packed_products(
    context: &Context,
    key: &StoredKey,
    [at, word]: [usize; 2],
    products: &mut [KeyProduct],
) {
    let (ring, n) = (context.ring(), context.params().degree());
    let (block, each) = (BLOCK.min(n), context.limb_bytes(word) / (n / BLOCK.min(n)));
    let digits = products.first().map_or(0, |p| p.rows.len());
    let Packed::Memory(bodies) = &key.bodies else { return };
    let rows = |bytes| -> Vec<&[u8]> {
        (0..digits).map(|j| context.packed_limb(key, bytes, [j, at])).collect()
    };
    let bytes = rows(bodies);
    if let Some(masks) = &key.masks {
        let masks = rows(masks);
        let (block, each) = match products.len() {
            1 => (n, context.limb_bytes(word)),
            _ => (block, each),
        };
        for start in (0..n).step_by(block) {
            let [bodies, masks]: [Vec<&[u8]>; 2] = [&bytes, &masks]
                .map(|all| all.iter().map(|bytes| &bytes[start / block * each..]).collect());
            for product in products.iter_mut() {
                let (out, rows, first) = product.part(start, block);
                ring.dot_packed_pair(word, out, &rows, [&bodies, &masks], first);
            }
        }
        return;
    }
    let mut masks: Vec<Uniform> =
        (0..digits).map(|j| context.mask_row(&key.seed, j, word, block)).collect();
    for start in (0..n).step_by(block) {
        let bodies: Vec<&[u8]> = bytes.iter().map(|bytes| &bytes[start / block * each..]).collect();
        let masks: Vec<&[f64]> = masks.iter_mut().map(|m| m.next(ring)).collect();
        for product in products.iter_mut() {
            let (out, rows, first) = product.part(start, block);
            ring.dot_packed(word, out, &rows, &bodies, &masks, first);
        }
    }
}
