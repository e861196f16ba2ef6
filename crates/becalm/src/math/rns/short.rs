//! Kernels for words of 30 bits in place of 50, here only to measure their cost.
//!
//! Residues are u32 in [0, 4p) within a transform, p < 2^30: x·w mod p = x·w − ⌊x·w'/2^32⌋·p with w' = ⌊w·2^32/p⌋, below
//! 2p (Shoup). Sums of products are u64, up to 12 of them below 2^64, reduced by Montgomery. The same modulus takes 5/3 of
//! the words: transforms and products grow with that, conversions with its square.
//! `cargo test -p becalm --lib words_of_30_bits -- --ignored --nocapture`

use super::pointwise::First;
use super::{Converter, Ring, centred, prime};
use crate::math::simd::Level;
use std::time::Instant;

/// N of the measurement.
const SIZE: usize = 1 << 16;
/// The least distance of a layer that whole vectors are taken at.
const NARROW: usize = 16;
/// Residues of a block that stays in the first cache.
const BLOCK: usize = 4096;

/// Twiddles of a forward transform and their Shoup factors: node i of the layer with m nodes has entry m + i.
struct Short {
    p: u32,
    twiddles: Vec<[u32; 2]>,
    /// −1/p modulo 2^32.
    inverse: u32,
}

impl Short {
    fn new(p: u32, size: usize) -> Short {
        let root = prime::root_of_unity(2 * size as u64, p.into());
        let log = size.trailing_zeros();
        let twiddle = |i: usize| {
            let e = i.reverse_bits() >> (usize::BITS - log);
            let w = prime::pow(root, e as u64, p.into());
            [w as u32, ((w << 32) / u64::from(p)) as u32]
        };
        let inverse =
            (0..5).fold(1u32, |x, _| x.wrapping_mul(2u32.wrapping_sub(p.wrapping_mul(x))));
        Short { p, twiddles: (0..size).map(twiddle).collect(), inverse: inverse.wrapping_neg() }
    }
}

#[inline(always)]
fn butterfly(x: u32, y: u32, [w, s]: [u32; 2], p: u32) -> [u32; 2] {
    let u = x.min(x.wrapping_sub(2 * p));
    let q = ((u64::from(y) * u64::from(s)) >> 32) as u32;
    let t = y.wrapping_mul(w).wrapping_sub(q.wrapping_mul(p));
    [u.wrapping_add(t), u.wrapping_sub(t).wrapping_add(2 * p)]
}

/// Two layers of node `i` of the layer with `m` nodes, whose residues are `x`.
#[inline(always)]
fn pass(word: &Short, m: usize, i: usize, x: &mut [u32]) {
    let (p, quarter) = (word.p, x.len() / 4);
    let node = m + i;
    let [w1, w2, w3] = [node, 2 * node, 2 * node + 1].map(|k| word.twiddles[k]);
    let (low, high) = x.split_at_mut(2 * quarter);
    let ((a, b), (c, d)) = (low.split_at_mut(quarter), high.split_at_mut(quarter));
    for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
        let ([e, g], [f, h]) = (butterfly(*a, *c, w1, p), butterfly(*b, *d, w1, p));
        [*a, *b] = butterfly(e, f, w2, p);
        [*c, *d] = butterfly(g, h, w3, p);
    }
}

/// All layers of distance `narrow` and above, in pairs: over all residues, then block by block.
#[inline(always)]
fn forward_all(word: &Short, x: &mut [u32], narrow: usize) {
    let (n, block) = (x.len(), BLOCK.min(x.len()));
    let mut m = 1;
    while n / m > block {
        x.chunks_mut(n / m).enumerate().for_each(|(i, x)| pass(word, m, i, x));
        m *= 4;
    }
    let first = m;
    for (b, x) in x.chunks_mut(n / first).enumerate() {
        let mut m = first;
        while n / m >= 4 * narrow {
            let nodes = m / first;
            let each = x.len() / nodes;
            x.chunks_mut(each).enumerate().for_each(|(i, x)| pass(word, m, b * nodes + i, x));
            m *= 4;
        }
    }
}

/// x·2^-32 modulo p, below 4p for x < 12·p².
#[inline(always)]
fn reduced(x: u64, p: u32, inverse: u32) -> u32 {
    let m = (x as u32).wrapping_mul(inverse);
    (x.wrapping_add(u64::from(m) * u64::from(p)) >> 32) as u32
}

/// `out[k] ← Σ a·b[k]`, residues below p.
#[inline(always)]
fn dot_all(word: &Short, out: [&mut [u32]; 2], a: &[&[u32]], b: [&[&[u32]]; 2]) {
    let [x, y] = out;
    for (at, (x, y)) in x.chunks_exact_mut(16).zip(y.chunks_exact_mut(16)).enumerate() {
        let (mut s, mut t) = ([0u64; 16], [0u64; 16]);
        for (a, (b, c)) in a.iter().zip(b[0].iter().zip(b[1])) {
            let [a, b, c] = [a, b, c].map(|x| &x[at * 16..][..16]);
            for l in 0..16 {
                s[l] = s[l].wrapping_add(u64::from(a[l]) * u64::from(b[l]));
                t[l] = t[l].wrapping_add(u64::from(a[l]) * u64::from(c[l]));
            }
        }
        for l in 0..16 {
            x[l] = reduced(s[l], word.p, word.inverse);
            y[l] = reduced(t[l], word.p, word.inverse);
        }
    }
}

/// Four targets of a conversion: `out_t ← Σ_i y_i·f_ti`, of chunks of 256 residues with their rows one behind the other.
#[inline(always)]
fn convert_all(words: &[&Short; 4], out: &mut [u32], source: &[u32], factors: &[[u32; 4]]) {
    let (n, rows) = (out.len() / 4, factors.len());
    for (at, chunk) in source.chunks_exact(256 * rows).enumerate() {
        for j in (0..256).step_by(16) {
            let mut sums = [[0u64; 16]; 4];
            for (start, some) in factors.chunks(12).enumerate() {
                for (i, f) in some.iter().enumerate() {
                    let y = &chunk[(12 * start + i) * 256 + j..][..16];
                    for t in 0..4 {
                        for l in 0..16 {
                            let product = u64::from(y[l]) * u64::from(f[t]);
                            sums[t][l] = sums[t][l].wrapping_add(product);
                        }
                    }
                }
                for t in 0..4 {
                    for l in 0..16 {
                        sums[t][l] = reduced(sums[t][l], words[t].p, words[t].inverse).into();
                    }
                }
            }
            for t in 0..4 {
                let out = &mut out[t * n + at * 256 + j..][..16];
                (0..16).for_each(|l| out[l] = sums[t][l] as u32);
            }
        }
    }
}

macro_rules! on_vectors {
    ($($name:ident = $all:ident($($arg:ident: $ty:ty),*);)+) => {$(
        fn $name(level: Level, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn full_width($($arg: $ty),*) {
                    $all($($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn half($($arg: $ty),*) {
                    $all($($arg),*)
                }
                let has = |name: &str| name == level.name() && Level::available().contains(&level);
                let full = is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl");
                if has("avx512") && full {
                    // SAFETY: the processor has what was just asked for, and the level AVX-512F.
                    return unsafe { full_width($($arg),*) };
                }
                if has("avx2") {
                    // SAFETY: the level is one that the processor has.
                    return unsafe { half($($arg),*) };
                }
            }
            let _ = level;
            $all($($arg),*)
        }
    )+};
}
on_vectors! {
    forward = forward_all(word: &Short, x: &mut [u32], narrow: usize);
    dot = dot_all(word: &Short, out: [&mut [u32]; 2], a: &[&[u32]], b: [&[&[u32]]; 2]);
    convert = convert_all(words: &[&Short; 4], out: &mut [u32], source: &[u32], factors: &[[u32; 4]]);
}

fn residues(p: u32, len: usize, from: usize) -> Vec<u32> {
    (from..from + len).map(|i| (i as u32).wrapping_mul(0x9E37_79B9) % p).collect()
}

/// The kernels are right at every level.
#[test]
fn kernels_of_30_bits_are_right() {
    let size = 256;
    let p = prime::nearest(30f64.exp2() - 1e6, 2 * size as u64, &[]).unwrap() as u32;
    let (word, wide) = (Short::new(p, size), u64::from(p));
    let root = prime::root_of_unity(2 * size as u64, wide);
    let shift = prime::inverse((1 << 32) % wide, wide);
    for &level in Level::available() {
        let x = residues(p, size, 5);
        let mut values = x.clone();
        forward(level, &word, &mut values, 1);
        for (i, value) in values.iter().enumerate() {
            let at = prime::pow(root, 2 * (i.reverse_bits() >> (usize::BITS - 8)) as u64 + 1, wide);
            let horner = |sum, c: &u32| (prime::mul(sum, at, wide) + u64::from(*c)) % wide;
            assert_eq!(u64::from(*value) % wide, x.iter().rev().fold(0, horner));
        }
        let rows: Vec<Vec<u32>> = (0..36).map(|i| residues(p, size, 7 * i)).collect();
        let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let (mut s, mut t) = (vec![0; size], vec![0; size]);
        dot(level, &word, [&mut s, &mut t], &rows[..12], [&rows[12..24], &rows[24..]]);
        let sum = |j: usize, k: usize| {
            let term = |i: usize| u64::from(rows[i][j]) * u64::from(rows[k + i][j]) % wide;
            prime::mul((0..12).map(term).sum::<u64>() % wide, shift, wide)
        };
        for j in 0..size {
            assert_eq!([s[j], t[j]].map(|x| u64::from(x) % wide), [sum(j, 12), sum(j, 24)]);
        }
        let factors: Vec<[u32; 4]> = (0..12).map(|i| [1, 2, 3, 4].map(|t| p - t - i)).collect();
        let mut out = vec![0; 4 * size];
        let source = rows[..12].concat();
        convert(level, &[&word; 4], &mut out, &source, &factors);
        for (j, x) in out.iter().enumerate() {
            let term =
                |i: usize| u64::from(rows[i][j % size]) * u64::from(factors[i][j / size]) % wide;
            let wanted = prime::mul((0..12).map(term).sum::<u64>() % wide, shift, wide);
            assert_eq!(u64::from(*x) % wide, wanted);
        }
    }
}

/// The median of the microseconds that `f` takes.
fn median(mut f: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..41)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[20]
}

/// Microseconds of a transform, of a product within a sum of three and of a product in a conversion from nine words.
fn long_words(level: Level) -> [f64; 3] {
    let mut primes: Vec<u64> = vec![];
    for _ in 0..13 {
        primes.push(prime::nearest(50f64.exp2(), 2 * SIZE as u64, &primes).unwrap());
    }
    let ring = Ring::new(SIZE, &primes, level).unwrap();
    let limb = |i: usize| -> Vec<f64> {
        let value = |j: usize| (j * 31 + i).wrapping_mul(0x9E37_79B9_7F4A_7C15) as u64 % primes[i];
        (0..SIZE).map(|j| centred(value(j), primes[i])).collect()
    };
    let limbs: Vec<Vec<f64>> = (0..9).map(limb).collect();
    let rows: Vec<&[f64]> = limbs.iter().map(Vec::as_slice).collect();
    let mut x = limbs[0].clone();
    let transform = median(|| ring.forward(0, &mut x));
    let mut y = limbs[1].clone();
    let product = median(|| {
        ring.dot_pair(0, [&mut x, &mut y], &rows[..3], [&rows[3..6], &rows[6..]], [First::Zero; 2])
    });
    let converter = Converter::new(&ring, (0..9).collect(), (9..13).collect());
    let prepared = converter.prepare(&ring, &limbs.concat());
    let mut out = vec![0.0; 4 * SIZE];
    let conversion = median(|| converter.finish(&ring, &prepared, 0, &mut out));
    [transform, product / 6.0, conversion / 36.0]
}

/// The same of words of 30 bits, 15 in a conversion. Of a transform 12 layers are measured and 16 counted: the last four,
/// within vectors, would take more.
fn short_words(level: Level) -> [f64; 3] {
    let mut primes: Vec<u64> = vec![];
    for _ in 0..4 {
        primes.push(prime::nearest(30f64.exp2() - 1e7, 2 * SIZE as u64, &primes).unwrap());
    }
    let words: Vec<Short> = primes.iter().map(|p| Short::new(*p as u32, SIZE)).collect();
    let limbs: Vec<Vec<u32>> = (0..15).map(|i| residues(primes[0] as u32, SIZE, i)).collect();
    let rows: Vec<&[u32]> = limbs.iter().map(Vec::as_slice).collect();
    let mut x = limbs[0].clone();
    let transform = median(|| forward(level, &words[0], &mut x, NARROW)) * 16.0 / 12.0;
    let mut y = limbs[1].clone();
    let product = median(|| {
        let keys = [&rows[3..6], &rows[6..9]];
        dot(level, &words[0], [&mut x, &mut y], &rows[..3], keys);
    });
    let factors: Vec<[u32; 4]> = (0..15).map(|i| [i + 5, i + 9, i + 77, i + 99]).collect();
    let (source, mut out) = (limbs.concat(), vec![0; 4 * SIZE]);
    let four = [&words[0], &words[1], &words[2], &words[3]];
    let conversion = median(|| convert(level, &four, &mut out, &source, &factors));
    [transform, product / 6.0, conversion / 60.0]
}

/// Prints the cost of the two kinds of words for the same modulus.
#[test]
#[ignore = "a measurement"]
fn words_of_30_bits() {
    // The regular bootstrap with eight baby steps in words of 50 bits: about the limbs of each kind of work.
    let counts = [6500.0, 33000.0, 40000.0];
    let ratio: f64 = 50.0 / 30.0;
    for &level in Level::available() {
        let (long, short) = (long_words(level), short_words(level));
        println!(
            "{}: microseconds of a transform, a product, a product in a conversion",
            level.name()
        );
        println!("  50 bits {long:6.2?}\n  30 bits {short:6.2?}");
        let per_bit = [0, 1].map(|i| short[i] * ratio / long[i]);
        let conversions = short[2] * ratio * ratio / long[2];
        println!("  for the same modulus {per_bit:.2?}, conversions {conversions:.2}");
        let long = long[0] * counts[0] + long[2] * counts[1] + long[1] * counts[2];
        let short = (short[0] * counts[0] + short[1] * counts[2]) * ratio
            + short[2] * counts[1] * ratio * ratio;
        println!("  a bootstrap {:.2} s, {:.2} s: {:.2}", long / 1e6, short / 1e6, short / long);
    }
}
