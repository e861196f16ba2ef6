//! Negacyclic transform modulo a prime p < 2^50 in doubles: the N values at the odd powers of ψ, ψ^N = −1.
//!
//! a·b mod p = fma(−q, p, h) + l with h = a·b rounded, l = fma(a, b, −h) and q an integer within 1/2 of h/p but for its
//! rounding: exact while |a·b| < 2^51·p, hence for |a| < 4p and |b| ≤ p/2. The result is below p/2 + |l| + |a|/16 where
//! |l| ≤ |a|/16 is half the last bit of h. Residues are signed and bounded by p between operations; sums grow by at most
//! that per layer and are reduced after four layers at most (`sums_stay_below_four_primes`).
//! Passes of radix 4 over what does not fit the first cache, then block by block; the last six layers are done in
//! tiles of 8×8 values that stay transposed: value 64t + 8c + r is that of leaf 64t + 8r + c of the binary tree.
//! Cost: N/2·log2 N butterflies of nine operations. Source: Longa–Naehrig 2016 (merged ψ), radix and layout own.

use super::eight::{Eight, leveled};
use super::prime;
use crate::math::simd::Level;

/// Values of a block that stays in the first cache: 32 KiB.
const BLOCK: usize = 4096;
/// Sums with it have no fraction.
const WHOLE: f64 = 1.5 * (1u64 << 52) as f64;
/// Doubles of a tile's record of twiddles: 1 + 2 + 4 scalars, one unused, then 1 + 2 + 4 vectors.
const RECORD: usize = 64;

/// A prime with the tables of its transform.
pub(crate) struct Word {
    pub(crate) p: u64,
    /// p and 1/p.
    pub(crate) prime: f64,
    pub(crate) inverse: f64,
    /// N.
    size: usize,
    /// √−1: the value of X^(N/2) at ψ.
    pub(crate) imaginary: u64,
    forward: Table,
    backward: Table,
    /// 1/N.
    scale: f64,
    /// Products in a lazy sum of factors bounded by p, and its magic number.
    pub(crate) terms: usize,
    magic: f64,
}

/// Twiddles of one direction.
struct Table {
    /// Node i of the layer with m nodes has entry m + i.
    head: Vec<f64>,
    tiles: Vec<f64>,
}

impl Table {
    fn new(p: u64, root: u64, size: usize) -> Table {
        let log = size.trailing_zeros();
        let mut powers = vec![0.0; size];
        let mut power = 1;
        for i in 0..size {
            powers[i.reverse_bits() >> (usize::BITS - log)] = centred(power, p);
            power = prime::mul(power, root, p);
        }
        let m = size / 64;
        let mut tiles = Vec::with_capacity(size);
        for t in 0..m {
            tiles.push(powers[m + t]);
            tiles.extend_from_slice(&powers[2 * m + 2 * t..][..2]);
            tiles.extend_from_slice(&powers[4 * m + 4 * t..][..4]);
            tiles.push(0.0);
            for layer in [1, 2, 4] {
                for b in 0..layer {
                    tiles.extend((0..8).map(|r| powers[8 * layer * m + layer * (8 * t + r) + b]));
                }
            }
        }
        // Not truncated: that would keep the memory of all of them.
        Table { head: powers[..m].to_vec(), tiles }
    }
}

/// The residue of `x` < p nearest to zero.
pub(crate) fn centred(x: u64, p: u64) -> f64 {
    if x > p / 2 { -((p - x) as f64) } else { x as f64 }
}

/// Bytes of the tables of `words` primes.
pub(crate) fn table_bytes(size: usize, words: usize) -> usize {
    words * 2 * (size + size / 64) * size_of::<f64>()
}

impl Word {
    /// `p` is a prime below 2^50 with p ≡ 1 (mod 2N); N is a power of two of 128 at least.
    pub(crate) fn new(p: u64, size: usize) -> Word {
        let root = prime::root_of_unity(2 * size as u64, p);
        let (terms, magic) = lazy_terms(p);
        Word {
            terms,
            magic,
            p,
            prime: p as f64,
            inverse: 1.0 / p as f64,
            size,
            imaginary: prime::pow(root, size as u64 / 2, p),
            forward: Table::new(p, root, size),
            backward: Table::new(p, prime::inverse(root, p), size),
            scale: centred(prime::inverse(size as u64, p), p),
        }
    }

    /// Coefficients to values, in place; both bounded by p.
    pub(crate) fn forward(&self, level: Level, data: &mut [f64]) {
        assert_eq!(data.len(), self.size, "one polynomial");
        forward(level, self, data);
    }

    /// Values to coefficients, in place; both bounded by p.
    pub(crate) fn backward(&self, level: Level, data: &mut [f64]) {
        assert_eq!(data.len(), self.size, "one polynomial");
        backward(level, self, data);
    }
}

/// For every value in storage order, the odd e such that it is taken at ψ^e.
pub(crate) fn exponents(size: usize) -> Vec<u32> {
    let log = size.trailing_zeros();
    let leaf = |i: usize| (i & !63) | (i & 7) << 3 | (i >> 3 & 7);
    let exponent = |i: usize| 2 * (leaf(i).reverse_bits() >> (usize::BITS - log)) as u32 + 1;
    (0..size).map(exponent).collect()
}

leveled! { forward(word: &Word, data: &mut [f64]) = forward_all }
leveled! { backward(word: &Word, data: &mut [f64]) = backward_all }

/// Reduction modulo p, in every lane.
#[derive(Clone, Copy)]
pub(crate) struct Modulo<V> {
    p: V,
    inverse: V,
    magic: V,
    whole: V,
}

/// A sum of products that is reduced once: `high − magic + low`. The magic number 3·2^(k−1) keeps the last bit of
/// `high` at 2^(k−52) while the sum is below 2^(k−1): what a product adds to it is exact, and so is the rest, which is
/// below 2^(k−53) and gathers in `low` without rounding while that is below 2^53.
#[derive(Clone, Copy)]
pub(crate) struct Lazy<V> {
    high: V,
    low: V,
}

/// The number of products of factors bounded by p that a [`Lazy`] sum takes, and its magic number.
fn lazy_terms(p: u64) -> (usize, f64) {
    let bits = 64 - p.leading_zeros() as i32;
    let terms = 1 << (52 - bits).clamp(2, 4);
    // Sums below 2^(2·bits)·terms = 2^(k−1); low parts below 2^(k−53)·terms + p < 2^53.
    (terms, 1.5 * f64::exp2(f64::from(2 * bits + terms.ilog2() as i32 + 1)))
}

/// The magic number of lazy sums modulo a prime, and √−1 as the value of X^(N/2) at ψ, for a machine that makes its own tables.
pub(crate) fn constants(p: u64, size: usize) -> (f64, f64) {
    let root = prime::root_of_unity(2 * size as u64, p);
    (lazy_terms(p).1, centred(prime::pow(root, size as u64 / 2, p), p))
}

impl<V: Eight> Modulo<V> {
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    pub(crate) unsafe fn new(word: &Word) -> Self {
        // SAFETY: promised by the caller.
        unsafe {
            let (p, inverse) = (V::splat(word.prime), V::splat(word.inverse));
            Modulo { p, inverse, magic: V::splat(word.magic), whole: V::splat(WHOLE) }
        }
    }
    /// The same with another magic number for lazy sums.
    #[inline(always)]
    pub(crate) fn with_magic(self, magic: V) -> Self {
        Modulo { magic, ..self }
    }
    /// `first`, bounded by p, and no products.
    #[inline(always)]
    pub(crate) fn lazy(self, first: V) -> Lazy<V> {
        Lazy { high: self.magic, low: first }
    }
    /// `sum + a·b`.
    #[inline(always)]
    pub(crate) fn gather(self, sum: Lazy<V>, a: V, b: V) -> Lazy<V> {
        let high = a.mul_add(b, sum.high);
        let low = sum.low.add(a.mul_sub(b, high.sub(sum.high)));
        Lazy { high, low }
    }
    /// A sum that was begun again, with no products since.
    #[inline(always)]
    pub(crate) fn settled(self, sum: Lazy<V>) -> V {
        sum.low
    }
    /// The sum, brought to p/2 in absolute value.
    #[inline(always)]
    pub(crate) fn settle(self, sum: Lazy<V>) -> V {
        let high = sum.high.sub(self.magic);
        // This quotient may have more than 51 bits.
        self.reduce(high.mul(self.inverse).round().neg_mul_add(self.p, high).add(sum.low))
    }
    /// The integer nearest to `a/p`, which is below 2^51: two operations, where an instruction that rounds is two by itself
    /// on some processors.
    #[inline(always)]
    fn quotient(self, a: V) -> V {
        a.mul_add(self.inverse, self.whole).sub(self.whole)
    }
    /// `a·b`, below 2^51·p, within p/2 + max(|a|, |b|)/8 where the other is at most p/2.
    #[inline(always)]
    pub(crate) fn mul(self, a: V, b: V) -> V {
        let high = a.mul(b);
        let low = a.mul_sub(b, high);
        self.quotient(high).neg_mul_add(self.p, high).add(low)
    }
    /// `a`, below 2^51·p, brought to p/2 + |a|/2^53 in absolute value.
    #[inline(always)]
    pub(crate) fn reduce(self, a: V) -> V {
        self.quotient(a).neg_mul_add(self.p, a)
    }
}

#[inline(always)]
unsafe fn forward_all<V: Eight>(word: &Word, data: &mut [f64]) {
    // SAFETY: the caller has the instructions; every index below is within `size` values and the tables of that size.
    unsafe {
        let (k, size, x) = (Modulo::<V>::new(word), word.size, data.as_mut_ptr());
        let odd = size.trailing_zeros() % 2 == 1;
        // Every second pass reduces, the first of them after three layers or four.
        let reduces = |pass: usize| pass > 0 && pass % 2 == usize::from(odd);
        let (mut m, mut pass) = (1, 0);
        if odd {
            let w = V::splat(word.forward.head[1]);
            for j in (0..size / 2).step_by(8) {
                let (p, q) = (x.add(j), x.add(j + size / 2));
                let (u, v) = (V::load(p), k.mul(V::load(q), w));
                u.add(v).store(p);
                u.sub(v).store(q);
            }
            m = 2;
        }
        while size / m > BLOCK {
            for node in 0..m {
                forward_pass(k, &word.forward, m, node, size, x, reduces(pass));
            }
            (m, pass) = (4 * m, pass + 1);
        }
        for block in 0..m {
            let (mut layer, mut pass) = (m, pass);
            while size / layer > 64 {
                let nodes = layer / m;
                for node in block * nodes..(block + 1) * nodes {
                    forward_pass(k, &word.forward, layer, node, size, x, reduces(pass));
                }
                (layer, pass) = (4 * layer, pass + 1);
            }
            let tiles = layer / m;
            for t in block * tiles..(block + 1) * tiles {
                forward_tile(k, word.forward.tiles.as_ptr().add(RECORD * t), x.add(64 * t));
            }
        }
    }
}

/// Two layers below node `node` of the layer of `m` nodes.
#[inline(always)]
unsafe fn forward_pass<V: Eight>(
    k: Modulo<V>,
    table: &Table,
    m: usize,
    node: usize,
    size: usize,
    x: *mut f64,
    reduce: bool,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let quarter = size / m / 4;
        let x = x.add(node * size / m);
        let w1 = V::splat(table.head[m + node]);
        let w2 = V::splat(table.head[2 * (m + node)]);
        let w3 = V::splat(table.head[2 * (m + node) + 1]);
        for j in (0..quarter).step_by(8) {
            let p = [0, 1, 2, 3].map(|i| x.add(j + i * quarter));
            let (mut a, mut b) = (V::load(p[0]), V::load(p[1]));
            if reduce {
                (a, b) = (k.reduce(a), k.reduce(b));
            }
            let (c, d) = (k.mul(V::load(p[2]), w1), k.mul(V::load(p[3]), w1));
            let (s, t) = (a.add(c), k.mul(b.add(d), w2));
            let (u, v) = (a.sub(c), k.mul(b.sub(d), w3));
            s.add(t).store(p[0]);
            s.sub(t).store(p[1]);
            u.add(v).store(p[2]);
            u.sub(v).store(p[3]);
        }
    }
}

/// One butterfly of each kind on x[i], x[j].
macro_rules! butterfly {
    (forward $k:ident $x:ident $i:expr, $j:expr, $w:expr) => {{
        let v = $k.mul($x[$j], $w);
        ($x[$i], $x[$j]) = ($x[$i].add(v), $x[$i].sub(v));
    }};
    (backward $k:ident $x:ident $i:expr, $j:expr, $w:expr, $reduce:expr) => {{
        let (sum, difference) = ($x[$i].add($x[$j]), $x[$i].sub($x[$j]));
        $x[$i] = if $reduce { $k.reduce(sum) } else { sum };
        $x[$j] = $k.mul(difference, $w);
    }};
}

#[inline(always)]
unsafe fn forward_tile<V: Eight>(k: Modulo<V>, w: *const f64, p: *mut f64) {
    // SAFETY: promised by the caller: a record and a tile.
    unsafe {
        let mut x = [V::splat(0.0); 8];
        for i in 0..8 {
            x[i] = k.reduce(V::load(p.add(8 * i)));
        }
        for vectors in [false, true] {
            for layer in [1, 2, 4] {
                let half = 4 / layer;
                for b in 0..layer {
                    let at = layer - 1 + b;
                    let w = if vectors { V::load(w.add(8 + 8 * at)) } else { V::splat(*w.add(at)) };
                    for i in 0..half {
                        butterfly!(forward k x 2 * b * half + i, 2 * b * half + half + i, w);
                    }
                }
            }
            if !vectors {
                x = V::transpose(x);
            }
        }
        for i in 0..8 {
            k.reduce(x[i]).store(p.add(8 * i));
        }
    }
}

#[inline(always)]
unsafe fn backward_tile<V: Eight>(k: Modulo<V>, w: *const f64, p: *mut f64) {
    // SAFETY: promised by the caller: a record and a tile.
    unsafe {
        let mut x = [V::splat(0.0); 8];
        for i in 0..8 {
            x[i] = V::load(p.add(8 * i));
        }
        // Sums double in each layer: reduced in the second, fourth and sixth.
        let mut reduce = false;
        for vectors in [true, false] {
            for layer in [4, 2, 1] {
                let half = 4 / layer;
                for b in 0..layer {
                    let at = layer - 1 + b;
                    let w = if vectors { V::load(w.add(8 + 8 * at)) } else { V::splat(*w.add(at)) };
                    for i in 0..half {
                        butterfly!(backward k x 2 * b * half + i, 2 * b * half + half + i, w, reduce);
                    }
                }
                reduce = !reduce;
            }
            if vectors {
                x = V::transpose(x);
            }
        }
        for i in 0..8 {
            x[i].store(p.add(8 * i));
        }
    }
}

#[inline(always)]
unsafe fn backward_all<V: Eight>(word: &Word, data: &mut [f64]) {
    // SAFETY: as in `forward_all`.
    unsafe {
        let (k, size, x) = (Modulo::<V>::new(word), word.size, data.as_mut_ptr());
        let odd = size.trailing_zeros() % 2 == 1;
        // The first layer of blocks that fit the cache.
        let mut m = if odd { 2 } else { 1 };
        while size / m > BLOCK {
            m *= 4;
        }
        for block in 0..m {
            let mut layer = size / 64;
            let tiles = layer / m;
            for t in block * tiles..(block + 1) * tiles {
                backward_tile(k, word.backward.tiles.as_ptr().add(RECORD * t), x.add(64 * t));
            }
            while layer > m {
                layer /= 4;
                let nodes = layer / m;
                for node in block * nodes..(block + 1) * nodes {
                    backward_pass(k, word, layer, node, x);
                }
            }
        }
        while m > 2 {
            m /= 4;
            for node in 0..m {
                backward_pass(k, word, m, node, x);
            }
        }
        if odd {
            let scale = V::splat(word.scale);
            let w = k.mul(V::splat(word.backward.head[1]), scale);
            for j in (0..size / 2).step_by(8) {
                let (p, q) = (x.add(j), x.add(j + size / 2));
                let (u, v) = (V::load(p), V::load(q));
                k.mul(u.add(v), scale).store(p);
                k.mul(u.sub(v), w).store(q);
            }
        }
    }
}

/// Two layers up to node `node` of the layer of `m` nodes; at the root of the tree, divided by N.
#[inline(always)]
unsafe fn backward_pass<V: Eight>(k: Modulo<V>, word: &Word, m: usize, node: usize, x: *mut f64) {
    // SAFETY: promised by the caller.
    unsafe {
        let (size, table) = (word.size, &word.backward);
        let quarter = size / m / 4;
        let x = x.add(node * size / m);
        let mut w1 = V::splat(table.head[m + node]);
        let w2 = V::splat(table.head[2 * (m + node)]);
        let w3 = V::splat(table.head[2 * (m + node) + 1]);
        let scale = V::splat(word.scale);
        if m == 1 {
            w1 = k.mul(w1, scale);
        }
        for j in (0..quarter).step_by(8) {
            let p = [0, 1, 2, 3].map(|i| x.add(j + i * quarter));
            let (a, b, c, d) = (V::load(p[0]), V::load(p[1]), V::load(p[2]), V::load(p[3]));
            let (s, t) = (a.add(b), k.mul(a.sub(b), w2));
            let (u, v) = (c.add(d), k.mul(c.sub(d), w3));
            let (y, z) = (s.add(u), t.add(v));
            if m == 1 {
                k.mul(y, scale).store(p[0]);
                k.mul(z, scale).store(p[1]);
            } else {
                k.reduce(y).store(p[0]);
                k.reduce(z).store(p[1]);
            }
            k.mul(s.sub(u), w1).store(p[2]);
            k.mul(t.sub(v), w1).store(p[3]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::{Domain, MaskStream, PublicSeed};

    fn random(p: u64, size: usize, index: u32) -> Vec<f64> {
        let mut words = vec![0; size];
        MaskStream::new(&PublicSeed([3; 32]), Domain::Test, index).fill_u64(&mut words);
        words.iter().map(|w| centred(w % p, p)).collect()
    }

    fn residue(x: f64, p: u64) -> u64 {
        (x as i64).rem_euclid(p as i64) as u64
    }

    /// Every value is that of the polynomial at the power of ψ which `exponents` names.
    #[test]
    fn values_are_those_of_the_polynomial() {
        for size in [128, 256, 512] {
            let p = prime::nearest(50f64.exp2(), 2 * size as u64, &[]).unwrap();
            let (word, x) = (Word::new(p, size), random(p, size, 0));
            let psi = prime::root_of_unity(2 * size as u64, p);
            for &level in Level::available() {
                let mut values = x.clone();
                word.forward(level, &mut values);
                for (value, e) in values.iter().zip(exponents(size)) {
                    let at = prime::pow(psi, e.into(), p);
                    let horner = |sum, c: &f64| (prime::mul(sum, at, p) + residue(*c, p)) % p;
                    assert_eq!(residue(*value, p), x.iter().rev().fold(0, horner));
                }
            }
        }
    }

    /// The operands of a product are below 4p, by the recurrence of the head of this file, for the largest primes: from p before the first
    /// pass and from p/2 in a tile, over as many layers as are not reduced.
    #[test]
    fn sums_stay_below_four_primes() {
        let grown = |x: f64, scale: f64| {
            // h < x/2·p²: its last bit is 2^-52 of the power of two below that.
            let below = (x / 2.0 * scale * scale).log2().ceil() - 1.0;
            x + 0.5 + f64::exp2(below - 3.0) / scale + x / 16.0
        };
        let after =
            |first: f64, layers: usize, scale: f64| (0..layers).fold(first, |x, _| grown(x, scale));
        for scale in (900..=1000).map(|i| f64::from(i) / 1000.0) {
            // p = scale·2^50, and |a|·p/2 < 2^51·p.
            let most = 4.0 / scale;
            let start = after(1.0, 4, scale);
            assert!(start < most && after(1.0, 5, scale) > 4.0);
            // The halves that a reducing pass multiplies are not reduced.
            let first = 0.5 + (grown(start, scale) - start);
            assert!(after(first, 3, scale) < most);
            assert!(after(0.5, 5, scale) < most, "the sixth product of a tile");
        }
    }

    /// Random and extreme residues come back, at every level, with all values within p.
    #[test]
    fn backward_inverts_forward() {
        let sizes = [
            (128, 27.0),
            (4096, 50.0),
            (8192, 50.0),
            (32768, 49.0),
            (65536, 50.0),
            (1 << 17, 50.0),
        ];
        for (size, bits) in sizes {
            let p = prime::nearest(f64::exp2(bits), 2 * size as u64, &[]).unwrap();
            let word = Word::new(p, size);
            let largest = vec![p as f64; size];
            for (mut wanted, levels) in [(random(p, size, 1), 0), (largest, 1)] {
                for &level in &Level::available()[levels.min(Level::available().len() - 1)..] {
                    let mut data = wanted.clone();
                    word.forward(level, &mut data);
                    assert!(data.iter().all(|x| x.abs() <= p as f64));
                    word.backward(level, &mut data);
                    assert!(data.iter().all(|x| x.abs() <= p as f64));
                    let equal = |(a, b): (&f64, &f64)| residue(*a, p) == residue(*b, p);
                    assert!(data.iter().zip(&wanted).all(equal), "N = {size}, {level:?}");
                }
                wanted.clear();
            }
        }
    }
}
