//! Arithmetic on the residues of one prime, value by value: operands and results are bounded by p.

use super::eight::{Eight, Fields, leveled};
use super::ntt::{Modulo, Word};
use super::pack::{group_of, width};
use crate::math::simd::Level;

/// Values of a tile: a multiplier of [`dot_tiled`] has one vector of eight for each.
pub(crate) const TILE: usize = 64;

/// The first term of a sum of products.
#[derive(Clone, Copy)]
pub(crate) enum First<'a> {
    Zero,
    /// The value already in its place.
    Kept,
    Other(&'a [f64]),
}

impl<'a> First<'a> {
    /// The part of `len` values from `from` on.
    pub(crate) fn part(self, from: usize, len: usize) -> First<'a> {
        match self {
            First::Other(x) => First::Other(&x[from..from + len]),
            same => same,
        }
    }
}

impl First<'_> {
    /// # Safety
    /// The processor has the instructions; `out` and what is named have eight values from `j` on.
    #[inline(always)]
    unsafe fn load<V: Eight>(self, out: *const f64, j: usize) -> V {
        // SAFETY: promised by the caller.
        unsafe {
            match self {
                First::Zero => V::splat(0.0),
                First::Kept => V::load(out.add(j)),
                First::Other(x) => V::load(x.as_ptr().add(j)),
            }
        }
    }

    fn fits(self, len: usize) -> bool {
        !matches!(self, First::Other(x) if x.len() < len)
    }
}

leveled! {
    /// `a ← a + b`.
    add(word: &Word, a: &mut [f64], b: &[f64]) = add_all
}
leveled! {
    /// `a ← a − b`.
    sub(word: &Word, a: &mut [f64], b: &[f64]) = sub_all
}
leveled! {
    /// `out ← a + b`.
    sum(word: &Word, out: &mut [f64], a: &[f64], b: &[f64]) = sum_all
}
leveled! {
    /// `out ← a − b`.
    difference(word: &Word, out: &mut [f64], a: &[f64], b: &[f64]) = difference_all
}
leveled! {
    /// `out ← a·b`.
    mul(word: &Word, out: &mut [f64], a: &[f64], b: &[f64]) = mul_all
}
leveled! {
    /// `out ← out + a·b`.
    mul_add(word: &Word, out: &mut [f64], a: &[f64], b: &[f64]) = mul_add_all
}
leveled! {
    /// `out ← out − a·b`.
    mul_sub(word: &Word, out: &mut [f64], a: &[f64], b: &[f64]) = mul_sub_all
}
leveled! {
    /// `out ← a` rounded and brought near zero, from |a| < 2^70 and for p > 2^19: a quotient is below 2^51.
    round(word: &Word, out: &mut [f64], a: &[f64]) = round_all
}
leveled! {
    /// `out ← out + a`, a rounded, as in [`round`].
    add_rounded(word: &Word, out: &mut [f64], a: &[f64]) = add_rounded_all
}
leveled! {
    /// `a ← c·a`, |c| ≤ p/2.
    scale(word: &Word, a: &mut [f64], c: f64) = scale_all
}
leveled! {
    /// `out ← out + c·a`, |c| ≤ p/2.
    scale_add(word: &Word, out: &mut [f64], a: &[f64], c: f64) = scale_add_all
}
leveled! {
    /// `a ← c·(a − b)`, |c| ≤ p/2.
    sub_scale(word: &Word, a: &mut [f64], b: &[f64], c: f64) = sub_scale_all
}
leveled! {
    /// `out ← rest/unit` rounded to integers, `rest ← rest − unit·out`: a digit from the top, for a unit that is a power of two.
    digit(word: &Word, out: &mut [f64], rest: &mut [f64], unit: f64) = digit_all
}
leveled! {
    /// `a ← a` brought near zero, from |a| < 2^51.
    reduce(word: &Word, a: &mut [f64]) = reduce_all
}
leveled! {
    /// `out[k] ← first[k] + Σ_i a_i·b[k]_i` for both k.
    dot_pair(
        word: &Word,
        out: [&mut [f64]; 2],
        a: &[&[f64]],
        b: [&[&[f64]]; 2],
        first: [First; 2],
    ) = dot_pair_all
}
leveled! {
    /// [`dot_pair`] where the first of the factors are packed, each from its first byte on.
    dot_packed(
        word: &Word,
        out: [&mut [f64]; 2],
        a: &[&[f64]],
        packed: &[&[u8]],
        b: &[&[f64]],
        first: [First; 2],
    ) = dot_packed_all
}
leveled! {
    /// [`dot_pair`] where all of the factors are packed.
    dot_packed_pair(
        word: &Word,
        out: [&mut [f64]; 2],
        a: &[&[f64]],
        packed: [&[&[u8]]; 2],
        first: [First; 2],
    ) = dot_packed_pair_all
}
leveled! {
    /// `c + l·s + s²·q ← f·(a_0 + a_1·s)·(b_0 + b_1·s)`, added to what is there: `out` is c, l and q.
    tensor(word: &Word, out: [&mut [f64]; 3], a: [&[f64]; 2], b: [&[f64]; 2], f: f64) = tensor_all
}
leveled! {
    /// `a_i ← a_i + b_(places i)`, places modulo the length, a power of two.
    add_permuted(word: &Word, a: &mut [f64], b: &[f64], places: &[u32]) = permuted_all
}
leveled! {
    /// `out ← first + Σ_i a_i·b_i` where b_i repeats one vector of eight in each [`TILE`].
    dot_tiled(word: &Word, out: &mut [f64], a: &[&[f64]], b: &[&[f64]], first: First) = dot_tiled_all
}

macro_rules! loops {
    ($($name:ident($out:ident $(, $a:ident)*; $($c:ident),*) |$k:ident| $e:expr;)+) => {$(
        // Not every loop reads what it writes.
        #[allow(unused_variables)]
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
    sum_all(out, a, b;) |k| k.reduce(a.add(b));
    difference_all(out, a, b;) |k| k.reduce(a.sub(b));
    add_rounded_all(out, a;) |k| k.reduce(k.reduce(a.round()).add(out));
    mul_add_all(out, a, b;) |k| k.reduce(out.add(k.mul(a, b)));
    mul_sub_all(out, a, b;) |k| k.reduce(out.sub(k.mul(a, b)));
    scale_all(a; c) |k| k.mul(a, c);
    scale_add_all(out, a; c) |k| k.reduce(out.add(k.mul(a, c)));
    sub_scale_all(a, b; c) |k| k.mul(a.sub(b), c);
    reduce_all(a;) |k| k.reduce(a);
}

#[inline(always)]
unsafe fn round_all<V: Eight>(word: &Word, out: &mut [f64], a: &[f64]) {
    let n = out.len();
    assert!(n.is_multiple_of(8) && a.len() >= n, "whole vectors, equal lengths");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        let k = Modulo::<V>::new(word);
        for j in (0..n).step_by(8) {
            k.reduce(V::load(a.as_ptr().add(j)).round()).store(out.as_mut_ptr().add(j));
        }
    }
}

#[inline(always)]
unsafe fn digit_all<V: Eight>(_: &Word, out: &mut [f64], rest: &mut [f64], unit: f64) {
    let n = out.len();
    assert!(n.is_multiple_of(8) && rest.len() == n, "whole vectors, equal lengths");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        let (unit, inverse) = (V::splat(unit), V::splat(1.0 / unit));
        for j in (0..n).step_by(8) {
            let at = rest.as_mut_ptr().add(j);
            let x = V::load(at);
            let digit = x.mul(inverse).round();
            digit.store(out.as_mut_ptr().add(j));
            digit.neg_mul_add(unit, x).store(at);
        }
    }
}

#[inline(always)]
unsafe fn mul_all<V: Eight>(word: &Word, out: &mut [f64], a: &[f64], b: &[f64]) {
    let n = out.len();
    assert!(n.is_multiple_of(8) && a.len() >= n && b.len() >= n, "whole vectors, equal lengths");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        let k = Modulo::<V>::new(word);
        let zero = k.lazy(V::splat(0.0));
        for j in (0..n).step_by(8) {
            let product = k.gather(zero, V::load(a.as_ptr().add(j)), V::load(b.as_ptr().add(j)));
            k.settle(product).store(out.as_mut_ptr().add(j));
        }
    }
}

/// Factors of a sum of products, as rows of doubles or packed.
trait Factors {
    /// Whether there are `count` of them with `len` values each.
    fn fit(&self, count: usize, len: usize) -> bool;

    /// How many values can be read without looking where memory ends: all but the last.
    fn inner(&self) -> usize {
        usize::MAX
    }

    /// Values j to j + 7 of factor i, `inner` where j is below [`Factors::inner`].
    ///
    /// # Safety
    /// The processor has the instructions; more than i factors with at least j + 8 values [fit](Factors::fit).
    unsafe fn load<V: Eight>(&self, i: usize, j: usize, inner: bool) -> V;
}

impl Factors for &[&[f64]] {
    fn fit(&self, count: usize, len: usize) -> bool {
        self.len() == count && self.iter().all(|x| x.len() >= len)
    }

    #[inline(always)]
    unsafe fn load<V: Eight>(&self, i: usize, j: usize, _: bool) -> V {
        // SAFETY: promised by the caller.
        unsafe { V::load(self.get_unchecked(i).as_ptr().add(j)) }
    }
}

struct Packed<'a> {
    rows: &'a [&'a [u8]],
    width: usize,
    fields: Fields,
}

impl<'a> Packed<'a> {
    fn new(word: &Word, rows: &'a [&'a [u8]]) -> Packed<'a> {
        let width = width(word.p) as usize;
        Packed { rows, width, fields: Fields::new(width) }
    }
}

impl Factors for Packed<'_> {
    fn fit(&self, count: usize, len: usize) -> bool {
        self.rows.len() == count && self.rows.iter().all(|x| x.len() >= len / 8 * self.width)
    }

    /// Number of values in the groups that have 64 bytes from their beginning on.
    fn inner(&self) -> usize {
        let bytes = self.rows.iter().map(|row| row.len()).min().unwrap_or(0);
        (bytes + self.width).saturating_sub(64) / self.width * 8
    }

    #[inline(always)]
    unsafe fn load<V: Eight>(&self, i: usize, j: usize, inner: bool) -> V {
        let from = j / 8 * self.width;
        // SAFETY: promised by the caller; 64 bytes are there, or what there is of the last group is asked for.
        unsafe {
            match inner {
                true => V::fields(self.rows.get_unchecked(i).as_ptr().add(from), &self.fields),
                false => group_of::<V>(&self.rows[i][from..], &self.fields),
            }
        }
    }
}

#[inline(always)]
unsafe fn dot_pair_all<V: Eight>(
    word: &Word,
    out: [&mut [f64]; 2],
    a: &[&[f64]],
    b: [&[&[f64]]; 2],
    first: [First; 2],
) {
    // SAFETY: the caller has the instructions.
    unsafe { sums_of_products::<V>(word, out, a, b[0], b[1], first) }
}

#[inline(always)]
unsafe fn dot_packed_all<V: Eight>(
    word: &Word,
    out: [&mut [f64]; 2],
    a: &[&[f64]],
    packed: &[&[u8]],
    b: &[&[f64]],
    first: [First; 2],
) {
    // SAFETY: the caller has the instructions.
    unsafe { sums_of_products::<V>(word, out, a, Packed::new(word, packed), b, first) }
}

#[inline(always)]
unsafe fn dot_packed_pair_all<V: Eight>(
    word: &Word,
    out: [&mut [f64]; 2],
    a: &[&[f64]],
    packed: [&[&[u8]]; 2],
    first: [First; 2],
) {
    let [b, c] = packed.map(|rows| Packed::new(word, rows));
    // SAFETY: the caller has the instructions.
    unsafe { sums_of_products::<V>(word, out, a, b, c, first) }
}

/// `out[0] ← first[0] + Σ_i a_i·b_i`, `out[1] ← first[1] + Σ_i a_i·c_i`.
#[inline(always)]
unsafe fn sums_of_products<V: Eight>(
    word: &Word,
    out: [&mut [f64]; 2],
    a: &[&[f64]],
    b: impl Factors,
    c: impl Factors,
    first: [First; 2],
) {
    let n = out[0].len();
    assert!(n.is_multiple_of(8) && out[1].len() == n, "whole vectors");
    assert!(first[0].fits(n) && first[1].fits(n), "as much to begin with");
    assert!(a.iter().all(|x| x.len() >= n), "equal lengths");
    assert!(b.fit(a.len(), n) && c.fit(a.len(), n), "a factor for each, as long");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        let k = Modulo::<V>::new(word);
        let inner = b.inner().min(c.inner());
        for j in (0..n).step_by(8) {
            let mut sums = [k.lazy(V::splat(0.0)); 2];
            for part in 0..2 {
                sums[part] = k.lazy(first[part].load(out[part].as_ptr(), j));
            }
            let mut left = word.terms;
            for (i, a) in a.iter().enumerate() {
                if left == 0 {
                    sums = [k.lazy(k.settle(sums[0])), k.lazy(k.settle(sums[1]))];
                    left = word.terms;
                }
                left -= 1;
                let a = V::load(a.as_ptr().add(j));
                sums[0] = k.gather(sums[0], a, b.load(i, j, j < inner));
                sums[1] = k.gather(sums[1], a, c.load(i, j, j < inner));
            }
            k.settle(sums[0]).store(out[0].as_mut_ptr().add(j));
            k.settle(sums[1]).store(out[1].as_mut_ptr().add(j));
        }
    }
}

#[inline(always)]
unsafe fn tensor_all<V: Eight>(
    word: &Word,
    out: [&mut [f64]; 3],
    a: [&[f64]; 2],
    b: [&[f64]; 2],
    f: f64,
) {
    let n = out[0].len();
    assert!(n.is_multiple_of(8) && out.iter().all(|x| x.len() == n), "whole vectors");
    assert!(a.iter().chain(&b).all(|x| x.len() >= n), "equal lengths");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        let (k, f) = (Modulo::<V>::new(word), V::splat(f));
        let [c, l, q] = out.map(|x| x.as_mut_ptr());
        for j in (0..n).step_by(8) {
            let a0 = k.reduce(f.mul(V::load(a[0].as_ptr().add(j))));
            let a1 = k.reduce(f.mul(V::load(a[1].as_ptr().add(j))));
            let (b0, b1) = (V::load(b[0].as_ptr().add(j)), V::load(b[1].as_ptr().add(j)));
            let (c, l, q) = (c.add(j), l.add(j), q.add(j));
            k.settle(k.gather(k.lazy(V::load(c)), a0, b0)).store(c);
            k.settle(k.gather(k.gather(k.lazy(V::load(l)), a0, b1), a1, b0)).store(l);
            k.settle(k.gather(k.lazy(V::load(q)), a1, b1)).store(q);
        }
    }
}

#[inline(always)]
unsafe fn permuted_all<V: Eight>(word: &Word, a: &mut [f64], b: &[f64], places: &[u32]) {
    let n = a.len();
    assert!(n.is_multiple_of(8) && n.is_power_of_two(), "whole vectors");
    assert!(b.len() == n && places.len() == n, "equal lengths");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        let k = Modulo::<V>::new(word);
        for j in (0..n).step_by(8) {
            let mut x = [0.0; 8];
            for i in 0..8 {
                x[i] = b[places[j + i] as usize & (n - 1)];
            }
            let at = a.as_mut_ptr().add(j);
            k.reduce(V::load(at).add(V::load(x.as_ptr()))).store(at);
        }
    }
}

#[inline(always)]
unsafe fn dot_tiled_all<V: Eight>(
    word: &Word,
    out: &mut [f64],
    a: &[&[f64]],
    b: &[&[f64]],
    first: First,
) {
    assert!(a.len() == b.len() && out.len().is_multiple_of(TILE), "pairs of whole tiles");
    assert!(a.iter().all(|x| x.len() >= out.len()), "equal lengths");
    assert!(first.fits(out.len()), "as much to begin with");
    assert!(b.iter().all(|x| x.len() * 8 >= out.len()), "a vector for each tile");
    // SAFETY: the caller has the instructions; the lengths were compared.
    unsafe {
        let k = Modulo::<V>::new(word);
        for half in 0..out.len() / TILE * 2 {
            let mut sums = [k.lazy(V::splat(0.0)); 4];
            for c in 0..4 {
                sums[c] = k.lazy(first.load(out.as_ptr(), TILE / 2 * half + 8 * c));
            }
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                if i % word.terms == 0 && i > 0 {
                    for c in 0..4 {
                        sums[c] = k.lazy(k.settle(sums[c]));
                    }
                }
                let b = V::load(b.as_ptr().add(half / 2 * 8));
                for c in 0..4 {
                    let a = V::load(a.as_ptr().add(TILE / 2 * half + 8 * c));
                    sums[c] = k.gather(sums[c], a, b);
                }
            }
            for c in 0..4 {
                k.settle(sums[c]).store(out.as_mut_ptr().add(TILE / 2 * half + 8 * c));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rns::{Ring, prime};

    const N: usize = 128;

    fn residue(x: f64, p: u64) -> u64 {
        (x as i64).rem_euclid(p as i64) as u64
    }

    /// Values up to ±p: the largest there are in places, others as they come.
    fn values(p: u64, len: usize, from: u64) -> Vec<f64> {
        let value = |i: u64| match i % 5 {
            0 => p as f64,
            1 => -(p as f64),
            _ => ((i + from).wrapping_mul(0x9E37_79B9_7F4A_7C15) % (2 * p)) as f64 - p as f64,
        };
        (from..from + len as u64).map(value).collect()
    }

    /// At every level, for primes of all sizes and every number of terms up to where sums are reduced in between twice.
    fn on_all(test: impl Fn(&Ring, u64, usize)) {
        for bits in [50.0, 48.9, 43.0, 28.0, 20.0] {
            let p = prime::nearest(f64::exp2(bits), 2 * N as u64, &[]).unwrap();
            for &level in Level::available() {
                let ring = Ring::new(N, &[p], level).unwrap();
                (0..=12).chain([31, 32, 33]).for_each(|terms| test(&ring, p, terms));
            }
        }
    }

    fn check(out: &[f64], p: u64, wanted: impl Fn(usize) -> u64) {
        for (j, x) in out.iter().enumerate() {
            assert!(x.abs() <= p as f64 / 2.0 + 1.0 && x.fract() == 0.0, "{x} modulo {p}");
            assert_eq!(residue(*x, p), wanted(j) % p, "value {j} modulo {p}");
        }
    }

    fn dot_of(a: &[&[f64]], b: &[&[f64]], p: u64, at: impl Fn(usize) -> [usize; 2]) -> u64 {
        let term = |sum, (i, a): (usize, &&[f64])| {
            let [j, k] = at(i);
            (sum + prime::mul(residue(a[j], p), residue(b[i][k], p), p)) % p
        };
        a.iter().enumerate().fold(0, term)
    }

    #[test]
    fn sums_of_products_are_exact() {
        on_all(|ring, p, terms| {
            let all = values(p, (3 * terms + 3) * N, 7);
            let limbs: Vec<&[f64]> = all.chunks(N).collect();
            let (a, rest) = limbs.split_at(terms);
            let (b, rest) = rest.split_at(terms);
            let (c, rest) = rest.split_at(terms);
            let mut out = [rest[1].to_vec(), rest[2].to_vec()];
            ring.mul(0, &mut out[0], rest[0], rest[1]);
            check(&out[0], p, |j| prime::mul(residue(rest[0][j], p), residue(rest[1][j], p), p));
            out[0].fill(0.5);
            let [x, y] = &mut out;
            ring.dot_pair(0, [x, y], a, [b, c], [First::Other(rest[0]), First::Kept]);
            check(&out[0], p, |j| dot_of(a, b, p, |_| [j, j]) + residue(rest[0][j], p));
            check(&out[1], p, |j| dot_of(a, c, p, |_| [j, j]) + residue(rest[2][j], p));
            let reduced: Vec<Vec<f64>> =
                b.iter().map(|b| b.iter().map(|x| residue(*x, p) as f64).collect()).collect();
            let packed: Vec<Vec<u8>> = reduced.iter().map(|b| ring.packed(0, b)).collect();
            let packed: Vec<&[u8]> = packed.iter().map(|b| &b[..]).collect();
            let mut same = [rest[1].to_vec(), rest[2].to_vec()];
            let [x, y] = &mut same;
            let first = [First::Other(rest[0]), First::Kept];
            ring.dot_packed(0, [x, y], a, &packed, c, first);
            assert_eq!(same, out, "{terms} terms modulo {p}");
            let mut both = [rest[1].to_vec(), rest[2].to_vec()];
            let [x, y] = &mut both;
            ring.dot_packed_pair(0, [x, y], a, [&packed, &packed], first);
            assert_eq!(both[0], out[0], "{terms} packed terms modulo {p}");
            check(&both[1], p, |j| dot_of(a, b, p, |_| [j, j]) + residue(rest[2][j], p));
            let short: Vec<&[f64]> = b.iter().map(|b| &b[..N / 8]).collect();
            let repeated = |j: usize| [j, j / TILE * 8 + j % 8];
            for (first, with) in
                [(First::Zero, 0.0), (First::Kept, 1.0), (First::Other(rest[0]), 0.0)]
            {
                let mut out = rest[1].to_vec();
                ring.dot_tiled(0, &mut out, a, &short, first);
                let begin = |j: usize| match first {
                    First::Other(x) => residue(x[j], p),
                    _ => residue(with * rest[1][j], p),
                };
                check(&out, p, |j| dot_of(a, &short, p, |_| repeated(j)) + begin(j));
            }
        });
    }

    #[test]
    fn sums_and_differences_are_exact_whatever_lay_there() {
        on_all(|ring, p, _| {
            let (a, b, mut out) = (values(p, N, 3), values(p, N, 5), vec![f64::NAN; N]);
            ring.sum(0, &mut out, &a, &b);
            check(&out, p, |j| (residue(a[j], p) + residue(b[j], p)) % p);
            out.fill(f64::NAN);
            ring.difference(0, &mut out, &a, &b);
            check(&out, p, |j| (residue(a[j], p) + p - residue(b[j], p)) % p);
        });
    }

    #[test]
    fn products_of_pairs_are_exact() {
        on_all(|ring, p, terms| {
            let (all, factor) = (values(p, 7 * N, terms as u64), 1 + terms as u64 % 2);
            let x: Vec<&[f64]> = all.chunks(N).collect();
            let mut out = [4, 5, 6].map(|k| x[k].to_vec());
            let [c, l, q] = &mut out;
            ring.tensor(0, [c, l, q], [x[0], x[1]], [x[2], x[3]], factor as f64);
            let product = |a: usize, b: usize, j| dot_of(&[x[a]], &[x[b]], p, |_| [j, j]);
            let sums = [vec![(0, 2)], vec![(0, 3), (1, 2)], vec![(1, 3)]];
            for (k, pairs) in sums.iter().enumerate() {
                check(&out[k], p, |j| {
                    let sum: u64 = pairs.iter().map(|(a, b)| product(*a, *b, j)).sum();
                    factor * sum + residue(x[4 + k][j], p)
                });
            }
            let places = ring.permutation(2 * terms + 1);
            let mut turned = x[0].to_vec();
            ring.add_permuted(0, &mut turned, x[1], &places);
            let sum = |j: usize| residue(x[0][j], p) + residue(x[1][places[j] as usize], p);
            check(&turned, p, sum);
        });
    }
}
