//! The residues of one polynomial: division with rounding, lifts to other words, automorphisms.

use crate::ckks::Context;
use crate::ckks::encode::residue;
use crate::math::parallel::*;
use crate::math::rns::{Scratch, centred};

/// Words that are lifted together: their limbs stay in the last cache until they are used up.
pub(super) const GROUP: usize = 4;

/// Divides a polynomial at `level` with `special` special words by these and by the steps down to level `to`, and
/// rounds. Words of `to` that `level` has not, all of them in another tier, count as a factor before: there the number
/// is zero.
pub(super) fn divide(
    context: &Context,
    limbs: &[f64],
    level: usize,
    to: usize,
    special: usize,
) -> Scratch {
    let (ring, n) = (context.ring(), context.params().degree());
    let (words, into) = (context.words_of(level, special), context.words_of(to, 0));
    let keep = if context.tier_of(level).contains(&to) { into.len() } else { 0 };
    let from = words[keep..].to_vec();
    let mut source = ring.scratch(from.len() * n);
    let values = limbs[keep * n..words.len() * n].par_chunks(n);
    source.par_chunks_mut(n).zip(values).zip(&from).for_each(|((x, y), i)| {
        x.copy_from_slice(y);
        ring.backward(*i, x);
        if keep == 0 {
            ring.scale(*i, x, centred(context.product(&into, *i), ring.word(*i).p));
        }
    });
    let converter = context.converter(from.clone(), into.clone());
    let prepared = converter.prepare(ring, &source);
    let mut out = ring.scratch(into.len() * n);
    out.par_chunks_mut(GROUP * n).enumerate().for_each(|(g, x)| {
        converter.finish(ring, &prepared, g * GROUP, x);
        for (k, x) in x.chunks_mut(n).enumerate() {
            let (at, i) = (g * GROUP + k, into[g * GROUP + k]);
            ring.forward(i, x);
            // −1/P, for the lifted number less the limb.
            let factor = -centred(context.inverse_product(&from, i), ring.word(i).p);
            match keep {
                0 => ring.scale(i, x, factor),
                _ => ring.sub_scale(i, x, &limbs[at * n..][..n], factor),
            }
        }
    });
    out
}

/// A polynomial from level 0 to `level`: its residues modulo q_0 nearest zero as residues of all words and of so many
/// special ones, times the integer `factor`. The message gains a multiple of q_0; the scale becomes q_0·`factor`.
pub(super) fn lift(
    context: &Context,
    part: &[f64],
    level: usize,
    special: usize,
    factor: f64,
) -> Scratch {
    let (ring, n) = (context.ring(), context.params().degree());
    let mut base = ring.scratch(n);
    base.copy_from_slice(&part[..n]);
    ring.backward(0, &mut base);
    ring.reduce(0, &mut base);
    let words = context.words_of(level, special);
    let mut out = ring.scratch(words.len() * n);
    out.par_chunks_mut(n).zip(&words).for_each(|(limb, i)| {
        limb.copy_from_slice(&base);
        ring.reduce(*i, limb);
        ring.forward(*i, limb);
        ring.scale(*i, limb, residue(factor, ring.word(*i).p));
    });
    out
}

/// The image of a polynomial, limb by limb, under the permutation of an automorphism.
pub(in crate::backend) fn permute(
    context: &Context,
    limbs: &[f64],
    permutation: &[u32],
) -> Scratch {
    let n = context.params().degree();
    let mut out = context.ring().scratch(limbs.len());
    out.par_chunks_mut(n).zip(limbs.par_chunks(n)).for_each(|(x, y)| {
        for (x, i) in x.iter_mut().zip(permutation) {
            *x = y[*i as usize];
        }
    });
    out
}

/// Adds the integer nearest to c to all values of a polynomial at `level`.
pub(super) fn add_to_values(context: &Context, limbs: &mut [f64], level: usize, c: f64) {
    let (n, c, words) = (context.params().degree(), c.round(), context.words_of(level, 0));
    limbs.par_chunks_mut(n).enumerate().for_each(|(i, x)| {
        let i = words[i];
        let c = residue(c, context.ring().word(i).p);
        x.iter_mut().for_each(|x| *x += c);
        context.ring().reduce(i, x);
    });
}
