//! Arithmetic on the residues of one prime, value by value: operands and results are bounded by p.

use super::eight::{Eight, leveled};
use super::ntt::{Modulo, Word};
use crate::math::simd::Level;

/// Products that are summed between two reductions.
const TERMS: usize = 7;
/// Values of a tile: a multiplier of [`dot_tiled`] has one vector of eight for each.
pub(crate) const TILE: usize = 64;

leveled! {
    /// `a ← a + b`.
    fn add(word: &Word, a: &mut [f64], b: &[f64]) = add_all
}
leveled! {
    /// `a ← a − b`.
    fn sub(word: &Word, a: &mut [f64], b: &[f64]) = sub_all
}
leveled! {
    /// `out ← a·b`.
    fn mul(word: &Word, out: &mut [f64], a: &[f64], b: &[f64]) = mul_all
}
leveled! {
    /// `out ← out + a·b`.
    fn mul_add(word: &Word, out: &mut [f64], a: &[f64], b: &[f64]) = mul_add_all
}
leveled! {
    /// `a ← c·a`, |c| ≤ p/2.
    fn scale(word: &Word, a: &mut [f64], c: f64) = scale_all
}
leveled! {
    /// `out ← out + c·a`, |c| ≤ p/2.
    fn scale_add(word: &Word, out: &mut [f64], a: &[f64], c: f64) = scale_add_all
}
leveled! {
    /// `a ← c·(a − b)`, |c| ≤ p/2.
    fn sub_scale(word: &Word, a: &mut [f64], b: &[f64], c: f64) = sub_scale_all
}
leveled! {
    /// `a ← a` brought near zero, from |a| < 2^51.
    fn reduce(word: &Word, a: &mut [f64]) = reduce_all
}
leveled! {
    /// `out ← Σ_i a_i·b_i`.
    fn dot(word: &Word, out: &mut [f64], a: &[&[f64]], b: &[&[f64]]) = dot_all
}
leveled! {
    /// [`dot`] where b_i repeats one vector of eight in each [`TILE`].
    fn dot_tiled(word: &Word, out: &mut [f64], a: &[&[f64]], b: &[&[f64]]) = dot_tiled_all
}

macro_rules! loops {
    ($($name:ident($out:ident $(, $a:ident)*; $($c:ident),*) |$k:ident| $e:expr;)+) => {$(
        #[inline(always)]
        unsafe fn $name<V: Eight>(word: &Word, $out: &mut [f64] $(, $a: &[f64])* $(, $c: f64)*) {
            $(assert_eq!($out.len(), $a.len(), "equal lengths");)*
            assert_eq!($out.len() % 8, 0, "whole vectors");
            // SAFETY: the caller has the instructions, and all indices are within the lengths just compared.
            unsafe {
                let $k = Modulo::<V>::new(word);
                $(let $c = V::splat($c);)*
                for j in (0..$out.len()).step_by(8) {
                    let at = $out.as_mut_ptr().add(j);
                    let $out = V::load(at);
                    $(let $a = V::load($a.as_ptr().add(j));)*
                    $e.store(at);
                }
            }
        }
    )+};
}
loops! {
    add_all(a, b;) |k| k.reduce(a.add(b));
    sub_all(a, b;) |k| k.reduce(a.sub(b));
    mul_add_all(out, a, b;) |k| k.reduce(out.add(k.mul(a, b)));
    scale_all(a; c) |k| k.mul(a, c);
    scale_add_all(out, a; c) |k| k.reduce(out.add(k.mul(a, c)));
    sub_scale_all(a, b; c) |k| k.mul(a.sub(b), c);
    reduce_all(a;) |k| k.reduce(a);
}

#[inline(always)]
unsafe fn mul_all<V: Eight>(word: &Word, out: &mut [f64], a: &[f64], b: &[f64]) {
    // SAFETY: promised by the caller.
    unsafe { dot_all::<V>(word, out, &[a], &[b]) }
}

#[inline(always)]
unsafe fn dot_all<V: Eight>(word: &Word, out: &mut [f64], a: &[&[f64]], b: &[&[f64]]) {
    assert!(a.len() == b.len() && out.len().is_multiple_of(8), "pairs of whole vectors");
    assert!(a.iter().chain(b).all(|x| x.len() >= out.len()), "equal lengths");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        let k = Modulo::<V>::new(word);
        for j in (0..out.len()).step_by(8) {
            let mut sum = V::splat(0.0);
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                if i % TERMS == 0 {
                    sum = k.reduce(sum);
                }
                sum = sum.add(k.mul(V::load(a.as_ptr().add(j)), V::load(b.as_ptr().add(j))));
            }
            k.reduce(sum).store(out.as_mut_ptr().add(j));
        }
    }
}

#[inline(always)]
unsafe fn dot_tiled_all<V: Eight>(word: &Word, out: &mut [f64], a: &[&[f64]], b: &[&[f64]]) {
    assert!(a.len() == b.len() && out.len().is_multiple_of(TILE), "pairs of whole tiles");
    assert!(a.iter().all(|x| x.len() >= out.len()), "equal lengths");
    assert!(b.iter().all(|x| x.len() * 8 >= out.len()), "a vector for each tile");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        let k = Modulo::<V>::new(word);
        for tile in 0..out.len() / TILE {
            let mut sums = [V::splat(0.0); 8];
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                let b = V::load(b.as_ptr().add(8 * tile));
                for c in 0..8 {
                    let a = V::load(a.as_ptr().add(TILE * tile + 8 * c));
                    let sum = if i % TERMS == 0 { k.reduce(sums[c]) } else { sums[c] };
                    sums[c] = sum.add(k.mul(a, b));
                }
            }
            for c in 0..8 {
                k.reduce(sums[c]).store(out.as_mut_ptr().add(TILE * tile + 8 * c));
            }
        }
    }
}
