//! Linear maps of the slots: y = Σ_k diagonal_k ⊙ rotate(x, k).
//!
//! Rotations are k = ((j·m + l)·n_1 + i)·stride, i < n_1, l < m, j < n_2 (baby, middle, giant steps). One decomposition
//! of x rotated by l·n_1·stride serves n_1 baby steps, which stay modulo Q·P; that x comes from the one before with a
//! single key. Giant steps follow Horner's rule with a single key too, y = (…(u_(n_2−1)) rotated by m·n_1·stride +
//! u_(n_2−2))…, u_j = Σ diagonal ⊙ x_li; the last division by P takes the rescale with it.
//! Keys: n_1 − 1 baby rotations, a middle one and a giant one; decompositions: m + n_2 − 1; key products: n_1·m + n_2 − 2.
//! Reading a key from memory takes longer than its products: two middle steps share one ([`Steps::in_pairs`]).
//! Diagonals of period d in the slots are polynomials in X^(N/2d), whose values repeat: one vector of eight for each tile
//! of 64 is all that is kept of them if N/2d ≥ 8; of many, only the coefficients. Source: Halevi–Shoup 2018 (baby and giant steps), Bossuat et al. 2021
//! (double hoisting); the rule of Horner for the giant steps costs no more than a key for each.

use super::instructions::Instructions;
use super::key_switch::{Decomposed, KeyInUse, KeyProduct, Raised};
use super::residues::divide;
use super::sum::{ciphertext, lowered};
use crate::backend::encoded::{Diagonal, LinearMap};
use crate::cipher::{Purpose, Rlwe};
use crate::ckks::{Context, Short, Steps, power_of_rotation};
use crate::math::buffer::or_refused;
use crate::math::rns::{First, Scratch};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

const OP: &str = "apply a linear map";

/// Values that all giant steps are computed of while the baby steps there stay in the second cache.
const BLOCK: usize = 2048;

/// The values of a diagonal modulo one word.
enum Limb<'a> {
    Full(&'a [f64]),
    Tiled(&'a [f64]),
}

/// A map applied to the slots: one level lower, scale s·(scale of the map)/q.
///
/// # Errors
/// `BadInput` below the level of the map, `WrongParams` for a map of another set, `WrongKey` naming a missing rotation.
pub(super) fn apply(map: &LinearMap, x: &Rlwe, on: &Instructions) -> Result<Rlwe> {
    on.check(OP, x)?;
    on.context().check_set(OP, map.params)?;
    if x.level < map.level {
        let (wanted, got) = (format!("level {} or above", map.level), x.level.to_string());
        return Err(Error::bad_input(OP, wanted, got, "encode the map at a lower level"));
    }
    or_refused(OP, || Pass { map, on, context: on.context() }.run(x))
}

/// A rotated ciphertext and the diagonal that it is multiplied by, modulo one word.
type Term<'a> = ([&'a [f64]; 2], Limb<'a>);

/// The key and the permutation of a rotation.
struct Rotation {
    key: KeyInUse,
    permutation: Arc<Vec<u32>>,
}

/// Modulo one word, x rotated by a middle step.
#[derive(Clone, Copy)]
struct Turned<'a> {
    step: usize,
    /// Its digits.
    rows: &'a [&'a [f64]],
    /// Itself.
    own: [&'a [f64]; 2],
}

/// Modulo one word, the result of a middle step.
#[derive(Default)]
struct Outputs<'a> {
    /// All u_j.
    sums: Vec<[&'a mut [f64]; 2]>,
    /// x rotated by the next middle step.
    next: Option<[&'a mut [f64]; 2]>,
    /// Its digits, for later.
    lifted: Option<&'a mut [f64]>,
}

/// A map that is being applied with the keys of a server.
struct Pass<'a> {
    map: &'a LinearMap,
    on: &'a Instructions<'a>,
    context: &'a Context,
}

impl Pass<'_> {
    fn run(&self, x: &Rlwe) -> Result<Rlwe> {
        let (context, map) = (self.context, self.map);
        let x = lowered(context, x, map.level);
        let mut terms = self.giants(&x)?;
        // A map has one giant step at least.
        let Some(mut sum) = terms.pop() else { return Ok(x.into_owned()) };
        let by = map.steps.middle * map.steps.baby * map.steps.stride;
        while let Some(next) = terms.pop() {
            self.on.proceed(OP)?;
            sum = self.turned(sum, &self.rotation(by)?, next);
        }
        let parts = sum.divided(context, map.level - 1, context.special());
        let scale = x.scale * map.scale / context.step(map.level);
        Ok(ciphertext(&x, map.level - 1, scale, parts))
    }

    /// The key and the permutation of a rotation by `by` at the level of the map.
    fn rotation(&self, by: usize) -> Result<Rotation> {
        let power = power_of_rotation(by as i64, self.context.params().degree());
        let key = self.on.key(OP, Purpose::Galois(power as u32), self.map.level)?;
        Ok(Rotation { key, permutation: self.context.permutation(power) })
    }

    /// The keys of the baby steps, and that of a middle step, if it takes any.
    fn keys(&self) -> Result<(BTreeMap<usize, Rotation>, Option<Rotation>)> {
        let map = self.map;
        let Steps { stride, baby, middle, .. } = map.steps;
        let babies: BTreeSet<usize> = map.diagonals.keys().map(|(_, _, i)| *i).collect();
        let babies = babies.into_iter().filter(|i| *i > 0);
        let babies = babies.map(|i| Ok((i, self.rotation(i * stride)?)));
        let onward = (middle > 1).then(|| self.rotation(baby * stride)).transpose()?;
        Ok((babies.collect::<Result<_>>()?, onward))
    }

    /// u_j for every j, modulo Q·P: word by word, so that the rotated x stay in the cache.
    fn giants(&self, x: &Rlwe) -> Result<Vec<Raised>> {
        let (context, map) = (self.context, self.map);
        let (level, middle) = (map.level, map.steps.middle);
        let (n, special) = (context.params().degree(), context.special());
        let words = context.words(level) + special;
        let (babies, onward) = self.keys()?;
        let unset = || Raised::unset(context, level, special);
        let mut sums: Vec<Raised> = (0..map.steps.giant).map(|_| unset()).collect();
        let mut raised = Raised::new(context, &x.parts, level);
        let mut linear: Option<Scratch> = None;
        let mut waiting: Option<(Raised, Scratch)> = None;
        for l in 0..middle {
            self.on.proceed(OP)?;
            let of = linear.as_deref().unwrap_or(&x.parts[1]);
            let digits = Decomposed::new(context, of, level, special);
            let (last, each) = (l + 1 == middle, digits.count() * n);
            let waits = map.steps.in_pairs() && l % 2 == 0 && !last;
            let mut next = (!last).then(unset);
            let mut lifted = waits.then(|| context.ring().scratch(words * each));
            let mut out: Vec<Outputs> = (0..words).map(|_| Outputs::default()).collect();
            for sum in &mut sums {
                out.iter_mut().zip(sum.limbs(n)).for_each(|(out, x)| out.sums.push(x));
            }
            if let Some(next) = &mut next {
                out.iter_mut().zip(next.limbs(n)).for_each(|(out, x)| out.next = Some(x));
            }
            if let Some(lifted) = &mut lifted {
                let limbs = lifted.chunks_mut(each);
                out.iter_mut().zip(limbs).for_each(|(out, x)| out.lifted = Some(x));
            }
            digits.each_word(out, |i, rows, mut out| {
                let this = Turned { step: l, rows, own: raised.limb(i, n) };
                if let (Some(onward), Some(next)) = (&onward, out.next) {
                    self.rotated(i, &[this], onward, vec![next]);
                }
                match (out.lifted, &waiting) {
                    (Some(kept), _) => {
                        let kept = kept.chunks_mut(n).zip(rows);
                        kept.for_each(|(x, y)| x.copy_from_slice(y));
                    }
                    (None, Some((raised, lifted))) => {
                        let rows: Vec<&[f64]> = lifted[i * each..][..each].chunks(n).collect();
                        let first = Turned { step: l - 1, rows: &rows, own: raised.limb(i, n) };
                        self.babies(i, &[first, this], &babies, &mut out.sums);
                    }
                    (None, None) => self.babies(i, &[this], &babies, &mut out.sums),
                }
            });
            let Some(next) = next else { break };
            linear = Some(divide(context, &next.parts[1], level, level, special));
            let before = std::mem::replace(&mut raised, next);
            waiting = lifted.map(|lifted| (before, lifted));
        }
        Ok(sums)
    }

    /// Limb `i` of ciphertexts rotated alike.
    fn rotated(&self, i: usize, inputs: &[Turned], rotation: &Rotation, out: Vec<[&mut [f64]; 2]>) {
        let (context, n) = (self.context, self.context.params().degree());
        let mut sums: Vec<Scratch> = inputs.iter().map(|_| context.ring().scratch(2 * n)).collect();
        let products = sums.iter_mut().zip(inputs).map(|(sum, x)| {
            let first = [First::Other(x.own[0]), First::Zero];
            KeyProduct { rows: x.rows, out: sum.split_at_mut(n).into(), first }
        });
        let mut products: Vec<KeyProduct> = products.collect();
        rotation.key.products(context, [i, self.map.level], &mut products);
        for (out, sum) in out.into_iter().zip(&sums) {
            for (x, y) in out.into_iter().zip(sum.chunks(n)) {
                let places = rotation.permutation.iter();
                x.iter_mut().zip(places).for_each(|(x, i)| *x = y[*i as usize]);
            }
        }
    }

    /// The terms that one or two middle steps add to limb `i` of all u_j.
    fn babies(
        &self,
        i: usize,
        inputs: &[Turned],
        keys: &BTreeMap<usize, Rotation>,
        sums: &mut [[&mut [f64]; 2]],
    ) {
        let (ring, map) = (self.context.ring(), self.map);
        let n = self.context.params().degree();
        let mut turned: Vec<(usize, Vec<Scratch>)> = Vec::new();
        for (baby, rotation) in keys {
            let mut out: Vec<Scratch> = inputs.iter().map(|_| ring.scratch(2 * n)).collect();
            let parts = out.iter_mut().map(|x| x.split_at_mut(n).into()).collect();
            self.rotated(i, inputs, rotation, parts);
            turned.push((*baby, out));
        }
        let baby = |at: usize, i: usize| match i {
            0 => Some(inputs[at].own),
            _ => turned.iter().find(|(j, _)| *j == i).map(|(_, x)| [&x[at][..n], &x[at][n..]]),
        };
        let made = self.tiles(i, inputs);
        let mut made = made.iter().flat_map(|limbs| limbs.chunks(n / 8));
        let mut rows: Vec<Vec<Term>> = Vec::new();
        for j in 0..sums.len() {
            let mut row = Vec::new();
            for (at, l) in inputs.iter().map(|x| x.step).enumerate() {
                for ((_, _, step), diagonal) in map.diagonals.range((l, j, 0)..(l, j + 1, 0)) {
                    let limb = match diagonal {
                        Diagonal::Full(d) => Limb::Full(&d[i * n..][..n]),
                        Diagonal::Tiled(d) => Limb::Tiled(&d[i * n / 8..][..n / 8]),
                        Diagonal::Short(_) => Limb::Tiled(made.next().unwrap_or_default()),
                    };
                    row.extend(baby(at, *step).map(|x| (x, limb)));
                }
            }
            rows.push(row);
        }
        let (block, word) = (BLOCK.min(n), self.context.word_of(map.level, i));
        let kept = inputs.iter().all(|x| x.step > 0);
        for start in (0..n).step_by(block) {
            let span = start..start + block;
            for (row, [a, b]) in rows.iter().zip(sums.iter_mut()) {
                let out = [&mut a[span.clone()], &mut b[span.clone()]];
                self.weighted(word, &span, row, out, kept);
            }
        }
    }

    /// The values modulo limb `i` of the diagonals of some middle steps that are held as coefficients, in the order in which the rows
    /// of all giant steps have them.
    fn tiles(&self, i: usize, inputs: &[Turned]) -> Option<Scratch> {
        let (context, map) = (self.context, self.map);
        let n = context.params().degree();
        let word = context.word_of(map.level, i);
        let mut short: Vec<&Short> = Vec::new();
        for j in 0..map.steps.giant {
            for l in inputs.iter().map(|x| x.step) {
                let row = map.diagonals.range((l, j, 0)..(l, j + 1, 0));
                short.extend(row.filter_map(|(_, d)| match d {
                    Diagonal::Short(d) => Some(d),
                    _ => None,
                }));
            }
        }
        let mut made = (!short.is_empty()).then(|| context.ring().scratch(short.len() * n / 8))?;
        made.chunks_mut(n / 8).zip(short).for_each(|(kept, d)| d.tiles(word, kept));
        Some(made)
    }

    /// Σ diagonal ⊙ x modulo a word in the values of `span`, added to what is there if `kept`.
    fn weighted(
        &self,
        word: usize,
        span: &Range<usize>,
        row: &[Term],
        out: [&mut [f64]; 2],
        kept: bool,
    ) {
        let ring = self.context.ring();
        let first = if kept { First::Kept } else { First::Zero };
        let (mut full, mut tiled) = (vec![], vec![]);
        let (mut full_x, mut tiled_x) = ([vec![], vec![]], [vec![], vec![]]);
        for (x, diagonal) in row {
            let (values, into, xs) = match diagonal {
                Limb::Full(d) => (&d[span.clone()], &mut full, &mut full_x),
                Limb::Tiled(d) => (&d[span.start / 8..span.end / 8], &mut tiled, &mut tiled_x),
            };
            into.push(values);
            xs.iter_mut().zip(x).for_each(|(xs, x)| xs.push(&x[span.clone()]));
        }
        let [a, b] = out;
        let first = if tiled.is_empty() {
            first
        } else {
            ring.dot_tiled(word, a, &tiled_x[0], &tiled, first);
            ring.dot_tiled(word, b, &tiled_x[1], &tiled, first);
            First::Kept
        };
        if !full.is_empty() || tiled.is_empty() {
            ring.dot_pair(word, [a, b], &full, [&full_x[0], &full_x[1]], [first; 2]);
        }
    }

    /// A sum modulo Q·P rotated, and `next` added.
    fn turned(&self, sum: Raised, rotation: &Rotation, mut next: Raised) -> Raised {
        let (context, level) = (self.context, sum.level);
        let (ring, n) = (context.ring(), context.params().degree());
        let Rotation { key, permutation } = rotation;
        let linear = divide(context, &sum.parts[1], level, level, context.special());
        let digits = Decomposed::new(context, &linear, level, key.special());
        digits.each_word(next.limbs(n), |i, rows, out| {
            let word = context.word_of(level, i);
            let mut product = ring.scratch(2 * n);
            let (a, b) = product.split_at_mut(n);
            let first = [First::Other(&sum.parts[0][i * n..][..n]), First::Zero];
            key.products(context, [i, level], &mut [KeyProduct { rows, out: [a, b], first }]);
            for (x, y) in out.into_iter().zip(product.chunks(n)) {
                ring.add_permuted(word, x, y, permutation);
            }
        });
        next
    }
}
