//! Distributions drawn from [streams](super::random).
//!
//! Every sampler takes a fixed number of words per sample and has neither branches nor table look-ups that depend on
//! them, so its time tells nothing about secrets or noise. (The Gaussian divides and takes square roots in hardware.)
//! Noise is drawn as integers in units of the grid it is added to: the modulus 2^64, p, or 2^32.
//! Cost per sample with AES instructions: uniform 1.3 ns (modulo p 4 ns), binary 0.5, TUniform 1.7, Gaussian 13 ns.
//! Sources: TUniform as in TFHE-rs; Gaussian, Box and Muller 1958.

use super::Modulus;
use super::modulus::reduce128;
use super::random::{NoiseStream, Stream};
use super::round::nearest;
#[cfg(target_arch = "x86_64")]
use super::simd::Level;
use std::f64::consts::{LN_2, TAU};
use zeroize::Zeroize;

/// Samples drawn at a time, to keep words on the stack.
const CHUNK: usize = 128;

/// Elements uniform modulo `modulus`.
///
/// Modulo 2^64 one word each, exactly uniform. Modulo p the 128-bit number w_0 + 2^64·w_1 of two words is reduced:
/// statistical distance from uniform at most p/2^130 < 2^-66 an element.
pub fn uniform<K>(stream: &mut Stream<K>, modulus: Modulus, out: &mut [u64]) {
    match modulus {
        Modulus::Native => stream.fill_u64(out),
        Modulus::Goldilocks => {
            let mut words = [0; 2 * CHUNK];
            for chunk in out.chunks_mut(CHUNK) {
                let words = &mut words[..2 * chunk.len()];
                stream.fill_u64(words);
                for (x, w) in chunk.iter_mut().zip(words.chunks_exact(2)) {
                    *x = reduce128((w[1] as u128) << 64 | w[0] as u128);
                }
            }
            words.zeroize();
        }
    }
}

/// Elements uniform modulo 2^32 as torus elements: multiples of 2^32. The low half of a word first, then the high;
/// each call starts with a new word.
pub fn uniform_32<K>(stream: &mut Stream<K>, out: &mut [u64]) {
    let mut words = [0; CHUNK];
    for chunk in out.chunks_mut(2 * CHUNK) {
        let words = &mut words[..chunk.len().div_ceil(2)];
        stream.fill_u64(words);
        for (pair, w) in chunk.chunks_mut(2).zip(words) {
            pair[0] = *w << 32;
            if let Some(second) = pair.get_mut(1) {
                *second = *w & 0xFFFF_FFFF_0000_0000;
            }
        }
    }
    words.zeroize();
}

/// Uniform bits, as 0 or 1: a binary secret key. Sixty-four to a word, least significant first; each call starts with a
/// new word.
pub fn binary(stream: &mut NoiseStream, out: &mut [u64]) {
    let mut words = [0; CHUNK];
    for chunk in out.chunks_mut(64 * CHUNK) {
        let words = &mut words[..chunk.len().div_ceil(64)];
        stream.fill_u64(words);
        for (bits, w) in chunk.chunks_mut(64).zip(words) {
            for (i, bit) in bits.iter_mut().enumerate() {
                *bit = (*w >> i) & 1;
            }
        }
    }
    words.zeroize();
}

/// Blocks of `size` bits, as 0 or 1, of which at most one is 1: each block is one of its `size` + 1 values, all equally
/// likely to within 2^-122. Two words u a block: the value is ⌊u·(size + 1)/2^128⌋, its bits are found without branches.
pub fn blocks(stream: &mut NoiseStream, size: usize, out: &mut [u64]) {
    for block in out.chunks_mut(size) {
        let mut words = [0; 2];
        stream.fill_u64(&mut words);
        let values = size as u128 + 1;
        let low = (u128::from(words[0]) * values) >> 64;
        let value = ((u128::from(words[1]) * values + low) >> 64) as u64;
        for (t, bit) in (1u64..).zip(block) {
            // All bits of x − 1 are 1 when x is 0, and x is far below 2^63.
            *bit = (value ^ t).wrapping_sub(1) >> 63;
        }
        words.zeroize();
    }
}

/// Uniform in {−1, 0, 1}: a ternary secret. One word each, its product with 3 divided by 2^64; bias below 2^-62.
pub fn ternary(stream: &mut NoiseStream, out: &mut [i64]) {
    let mut words = [0; CHUNK];
    for chunk in out.chunks_mut(CHUNK) {
        let words = &mut words[..chunk.len()];
        stream.fill_u64(words);
        for (x, w) in chunk.iter_mut().zip(words) {
            *x = ((u128::from(*w) * 3) >> 64) as i64 - 1;
        }
    }
    words.zeroize();
}

/// Uniform among the vectors of {−1, 0, 1} with exactly `weight` entries that are not 0: a sparse secret. Two words for
/// each of them; every place is looked at for each, so that time and addresses tell nothing. Bias below 2^-46.
pub fn sparse_ternary(stream: &mut NoiseStream, weight: usize, out: &mut [i64]) {
    assert!(weight <= out.len(), "as many places as entries");
    out.fill(0);
    for taken in 0..weight {
        let free = (out.len() - taken) as u128;
        let place = ((u128::from(stream.next_u64()) * free) >> 64) as u64;
        let value = 2 * (stream.next_u64() & 1) as i64 - 1;
        let mut passed = 0u64;
        for x in out.iter_mut() {
            let empty = u64::from(*x == 0);
            let here = empty & u64::from(passed == place);
            *x |= value & (here as i64).wrapping_neg();
            passed += empty;
        }
    }
}

/// TUniform(b): the integers −2^b ..= 2^b, all equally likely but the two ends, which have half the weight; variance
/// (2^(2b+1) + 1)/6. Takes b + 2 bits r of a word: (r >> 1) + (r & 1) − 2^b. `bound_log2` is at most 62.
pub fn t_uniform(stream: &mut NoiseStream, bound_log2: u32, out: &mut [i64]) {
    assert!(bound_log2 <= 62, "TUniform(b) needs b <= 62");
    let mut words = [0; CHUNK];
    for chunk in out.chunks_mut(CHUNK) {
        let words = &mut words[..chunk.len()];
        stream.fill_u64(words);
        for (x, w) in chunk.iter_mut().zip(words) {
            let r = *w >> (62 - bound_log2);
            // As a difference modulo 2^64: 2^b itself may be 2^62, the sum up to 2^63.
            *x = ((r >> 1) + (r & 1)).wrapping_sub(1 << bound_log2) as i64;
        }
    }
    words.zeroize();
}

/// Gaussian of standard deviation `std` grid units (at most 2^59), rounded to the nearest integer.
///
/// Tail: no sample beyond 9.42·`std`, where a Gaussian has probability 2^-67.7. Above 2^53 grid units the last bits are
/// those of an f64.
pub fn gaussian(stream: &mut NoiseStream, std: f64, out: &mut [i64]) {
    let mut x = [0.0; CHUNK];
    for chunk in out.chunks_mut(CHUNK) {
        let x = &mut x[..chunk.len()];
        rounded_gaussian(stream, std, x);
        chunk.iter_mut().zip(x).for_each(|(e, x)| *e = *x as i64);
    }
    x.zeroize();
}

/// [`gaussian`] as doubles.
pub fn rounded_gaussian(stream: &mut NoiseStream, std: f64, out: &mut [f64]) {
    assert!((0.0..=2f64.powi(59)).contains(&std), "the Gaussian needs 0 <= std <= 2^59");
    normal(stream, out);
    for x in out {
        *x = nearest(*x * std);
    }
}

/// Standard normal samples by Box and Muller: √(−2 ln u)·(cos 2πv, sin 2πv), u in (0, 1], two words to two samples.
/// Error of a sample below 1e-13.
pub fn normal(stream: &mut NoiseStream, out: &mut [f64]) {
    let (mut words, mut work) = ([0; CHUNK], Work::default());
    for chunk in out.chunks_mut(CHUNK) {
        stream.fill_u64(&mut words[..chunk.len().next_multiple_of(2)]);
        box_muller(&words, &mut work);
        for (pair, i) in chunk.chunks_mut(2).zip(0..) {
            pair[0] = work.radius[i] * work.cosines[i];
            if let Some(second) = pair.get_mut(1) {
                *second = work.radius[i] * work.sines[i];
            }
        }
    }
    words.zeroize();
    work.zeroize();
}

/// The normal numbers that pairs of words give.
#[derive(Zeroize)]
struct Work {
    radius: [f64; CHUNK / 2],
    sines: [f64; CHUNK / 2],
    cosines: [f64; CHUNK / 2],
}

impl Default for Work {
    fn default() -> Work {
        let zeros = [0.0; CHUNK / 2];
        Work { radius: zeros, sines: zeros, cosines: zeros }
    }
}

/// [`polar`], compiled for the best instructions of this processor. Nothing is contracted: the results are the same on all.
fn box_muller(words: &[u64; CHUNK], work: &mut Work) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn avx2(words: &[u64; CHUNK], work: &mut Work) {
            polar(words, work);
        }
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
        fn avx512(words: &[u64; CHUNK], work: &mut Work) {
            polar(words, work);
        }
        match Level::best() {
            // SAFETY: the best level is one of this processor.
            Level::Avx512 => return unsafe { avx512(words, work) },
            // SAFETY: as above.
            Level::Avx2 => return unsafe { avx2(words, work) },
            Level::Portable => (),
        }
    }
    polar(words, work);
}

/// The radius of each pair of words, and sine and cosine of its angle; a loop each, of which the compiler makes vectors.
#[inline(always)]
fn polar(words: &[u64; CHUNK], work: &mut Work) {
    for i in 0..CHUNK / 2 {
        work.radius[i] = (-2.0 * ln_fraction(words[2 * i])).sqrt();
    }
    for i in 0..CHUNK / 2 {
        (work.sines[i], work.cosines[i]) = sin_cos_turn(words[2 * i + 1]);
    }
}

/// ln((w + 1)/2^64), in −64 ln 2 ..= 0; relative error below 1e-14.
#[inline(always)]
fn ln_fraction(w: u64) -> f64 {
    // Two exact halves: a signed conversion is one instruction everywhere, an unsigned one is not.
    let x = (w >> 32) as i64 as f64 * 4_294_967_296.0 + ((w & 0xFFFF_FFFF) as i64 + 1) as f64;
    // x = 2^e·m with √½ <= m < √2, by an integer subtraction in the representation.
    const SQRT_HALF: u64 = 0x3FE6_A09E_667F_3BCD;
    let above = x.to_bits().wrapping_sub(SQRT_HALF);
    let e = (above as i64) >> 52;
    let m = f64::from_bits(x.to_bits().wrapping_sub((e as u64) << 52));
    // ln m = 2 artanh s = 2 Σ s^(2i+1)/(2i+1), |s| <= 0.1716.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut sum = 0.0;
    for i in (0..10).rev() {
        sum = sum * z + 1.0 / (2 * i + 1) as f64;
    }
    e.wrapping_sub(64) as f64 * LN_2 + 2.0 * s * sum
}

/// (sin 2πv, cos 2πv) for v = w/2^64, error below 1e-14.
#[inline(always)]
fn sin_cos_turn(w: u64) -> (f64, f64) {
    // v = quadrant/4 + r/2^64 with |r/2^64| <= 1/8.
    let quadrant = w.wrapping_add(1 << 61) >> 62;
    let r = w.wrapping_sub(quadrant << 62) as i64;
    let x = r as f64 * (TAU / 18_446_744_073_709_551_616.0);
    let z = x * x;
    // Taylor: Σ (−1)^i x^(2i+1)/(2i+1)! and Σ (−1)^i x^(2i)/(2i)!, |x| <= π/4.
    let (mut sin, mut cos) = (1.0, 1.0);
    for i in (1..9).rev() {
        let i = i as f64;
        sin = 1.0 - sin * z / (2.0 * i * (2.0 * i + 1.0));
        cos = 1.0 - cos * z / (2.0 * i * (2.0 * i - 1.0));
    }
    sin *= x;
    // Odd quadrants swap the two; the signs are the bits of the quadrant: sin < 0 in 2 and 3, cos < 0 in 1 and 2.
    let (s, c) = (sin.to_bits(), cos.to_bits());
    let exchanged = (s ^ c) & (quadrant & 1).wrapping_neg();
    let sign_s = (quadrant >> 1) << 63;
    let sign_c = ((quadrant ^ (quadrant >> 1)) & 1) << 63;
    (f64::from_bits(s ^ exchanged ^ sign_s), f64::from_bits(c ^ exchanged ^ sign_c))
}

#[cfg(test)]
mod tests {
    use super::super::modulus::GOLDILOCKS;
    use super::super::random::{Domain, MaskStream, PublicSeed, SecretSeed};
    use super::*;

    fn noise(index: u32) -> NoiseStream {
        NoiseStream::new(&SecretSeed::from_bytes(&mut [1; 32]), Domain::Test, index)
    }

    fn mask(index: u32) -> MaskStream {
        MaskStream::new(&PublicSeed([2; 32]), Domain::Test, index)
    }

    /// Pearson's statistic lies within 4.5 standard deviations of its mean (p < 1e-5 for these degrees of freedom).
    fn assert_chi_square(counts: &[usize], expected: impl Fn(usize) -> f64) {
        let term = |(i, &c): (usize, &usize)| (c as f64 - expected(i)).powi(2) / expected(i);
        let chi: f64 = counts.iter().enumerate().map(term).sum();
        let freedom = (counts.len() - 1) as f64;
        let deviation = (chi - freedom) / (2.0 * freedom).sqrt();
        assert!(deviation.abs() < 4.5, "chi-square {chi} with {freedom} degrees of freedom");
    }

    fn mean_and_variance(x: &[f64]) -> (f64, f64) {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        (mean, x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (x.len() - 1) as f64)
    }

    #[test]
    fn blocks_take_every_value_alike() {
        for size in [1, 2, 4, 7, 32] {
            let mut stream =
                NoiseStream::new(&SecretSeed::from_bytes(&mut [9; 32]), Domain::Test, 3);
            const BLOCKS: usize = 40_000;
            let mut bits = vec![2; BLOCKS * size];
            blocks(&mut stream, size, &mut bits);
            let mut counts = vec![0usize; size + 1];
            for block in bits.chunks(size) {
                assert!(block.iter().all(|&b| b <= 1) && block.iter().sum::<u64>() <= 1);
                counts[block.iter().position(|&b| b == 1).map_or(0, |t| t + 1)] += 1;
            }
            // χ² with `size` degrees of freedom: mean size, variance 2·size.
            let expected = BLOCKS as f64 / (size + 1) as f64;
            let chi: f64 = counts.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum();
            let (mean, off) = (size as f64, 4.0 * (2.0 * size as f64).sqrt());
            assert!((chi - mean).abs() < off.max(mean), "{size}: {counts:?}");
        }
    }

    #[test]
    fn masks_are_uniform() {
        let mut x = vec![0; 1 << 18];
        for modulus in [Modulus::Native, Modulus::Goldilocks] {
            uniform(&mut mask(0), modulus, &mut x);
            assert!(x.iter().all(|&a| modulus.is_reduced(a)));
            for shift in [0, 24, 56] {
                let mut counts = [0; 256];
                x.iter().for_each(|a| counts[(a >> shift) as usize % 256] += 1);
                assert_chi_square(&counts, |_| x.len() as f64 / 256.0);
            }
            // Neighbours are independent: the pairs of top nibbles are uniform too.
            let mut counts = [0; 256];
            x.windows(2).for_each(|a| counts[(a[0] >> 60 << 4 | a[1] >> 60) as usize] += 1);
            assert_chi_square(&counts, |_| (x.len() - 1) as f64 / 256.0);
        }
        uniform_32(&mut mask(0), &mut x);
        let mut counts = [0; 256];
        x.iter().for_each(|a| counts[(a >> 32) as usize % 256] += 1);
        assert_chi_square(&counts, |_| x.len() as f64 / 256.0);
        assert!(x.iter().all(|a| a % (1 << 32) == 0));
    }

    #[test]
    fn elements_modulo_p_are_pairs_of_words_reduced() {
        let (mut x, mut words) = ([0; 301], [0; 602]);
        uniform(&mut mask(1), Modulus::Goldilocks, &mut x);
        mask(1).fill_u64(&mut words);
        for (x, w) in x.iter().zip(words.chunks(2)) {
            let wide = (w[1] as u128) << 64 | w[0] as u128;
            assert_eq!(*x, (wide % GOLDILOCKS as u128) as u64);
        }
    }

    #[test]
    fn halves_of_words_are_elements_modulo_2_32() {
        let (mut x, mut words) = ([0; 601], [0; 301]);
        uniform_32(&mut mask(2), &mut x);
        mask(2).fill_u64(&mut words);
        for (i, x) in x.iter().enumerate() {
            assert_eq!(x >> 32, words[i / 2] >> (32 * (i % 2)) & 0xFFFF_FFFF);
        }
    }

    #[test]
    fn secrets_are_fair_bits() {
        let mut bits = vec![2; 1 << 18 | 5];
        binary(&mut noise(0), &mut bits);
        assert!(bits.iter().all(|&b| b <= 1));
        let mut counts = [0; 16];
        bits.chunks_exact(4)
            .for_each(|b| counts[(b[0] | b[1] << 1 | b[2] << 2 | b[3] << 3) as usize] += 1);
        assert_chi_square(&counts, |_| (bits.len() / 4) as f64 / 16.0);
    }

    #[test]
    fn ternary_secrets_are_uniform_and_sparse_ones_have_their_weight() {
        let mut x = vec![9; 1 << 18];
        ternary(&mut noise(6), &mut x);
        let mut counts = [0; 9];
        x.chunks_exact(2).for_each(|p| counts[(3 * (p[0] + 1) + p[1] + 1) as usize] += 1);
        assert_chi_square(&counts, |_| x.len() as f64 / 18.0);
        let (mut stream, mut places, mut positive) = (noise(7), [0; 16], 0);
        for _ in 0..2000 {
            let mut x = [5; 16];
            sparse_ternary(&mut stream, 5, &mut x);
            assert_eq!(x.iter().map(|v| v * v).sum::<i64>(), 5);
            x.iter().zip(&mut places).for_each(|(v, c)| *c += v.unsigned_abs() as usize);
            positive += x.iter().filter(|v| **v > 0).count();
        }
        assert_chi_square(&places, |_| 2000.0 * 5.0 / 16.0);
        assert!((positive as f64 - 5000.0).abs() < 4.0 * 50.0, "{positive} of 10000 positive");
    }

    #[test]
    fn t_uniform_has_its_exact_distribution() {
        let mut x = vec![0; 1 << 18];
        t_uniform(&mut noise(1), 3, &mut x);
        let mut counts = [0; 17];
        x.iter().for_each(|e| counts[(e + 8) as usize] += 1);
        assert_chi_square(&counts, |i| x.len() as f64 / if i % 16 == 0 { 32.0 } else { 16.0 });
        for b in [0, 1, 17, 45, 62] {
            t_uniform(&mut noise(2), b, &mut x);
            assert!(x.iter().all(|e| e.unsigned_abs() <= 1 << b));
            let scaled: Vec<f64> = x.iter().map(|&e| e as f64 / 2f64.powi(b as i32)).collect();
            let (mean, variance) = mean_and_variance(&scaled);
            let wanted = (2.0 + 4f64.powi(-(b as i32))) / 6.0;
            let samples = x.len() as f64;
            assert!(mean.abs() < 4.0 * (wanted / samples).sqrt(), "b {b} mean {mean}");
            assert!((variance / wanted - 1.0).abs() < 0.01, "b {b} variance {variance}");
        }
    }

    #[test]
    fn elementary_functions_are_accurate() {
        let mut words = vec![0; 10_000];
        mask(3).fill_u64(&mut words);
        words.extend([
            0,
            1,
            u64::MAX,
            u64::MAX - 1,
            u64::MAX - (1 << 11),
            1 << 61,
            1 << 62,
            1 << 63,
        ]);
        words.extend((0..64).flat_map(|i| [1 << i, (1 << i) - 1, u64::MAX << i]));
        for w in words {
            let u = (w as f64 + 1.0) / 2f64.powi(64);
            // Near 1 the quotient above loses what the function keeps: compare by the complement there.
            let wanted =
                if w >> 54 == 1023 { (-((!w) as f64) / 2f64.powi(64)).ln_1p() } else { u.ln() };
            let got = ln_fraction(w);
            assert!(
                got <= 0.0 && (got - wanted).abs() <= 1e-13 * wanted.abs() + 2e-16,
                "{w}: {got} {wanted}"
            );
            let v = w as f64 / 2f64.powi(64) * TAU;
            let (sin, cos) = sin_cos_turn(w);
            assert!(
                (sin - v.sin()).abs() < 5e-15 && (cos - v.cos()).abs() < 5e-15,
                "{w}: {sin} {cos}"
            );
        }
    }

    #[test]
    fn normal_samples_pass_kolmogorov_and_smirnov() {
        let mut x = vec![0.0; 200_001];
        normal(&mut noise(3), &mut x);
        let samples = x.len() as f64;
        let (mean, variance) = mean_and_variance(&x);
        assert!(mean.abs() < 2.576 / samples.sqrt(), "mean {mean}");
        assert!((variance - 1.0).abs() < 2.576 * (2.0 / samples).sqrt(), "variance {variance}");
        let kurtosis = x.iter().map(|v| v.powi(4)).sum::<f64>() / samples;
        assert!((kurtosis - 3.0).abs() < 2.576 * (96.0 / samples).sqrt(), "kurtosis {kurtosis}");
        let products: f64 = x.windows(2).map(|v| v[0] * v[1]).sum::<f64>() / samples;
        assert!(products.abs() < 2.576 / samples.sqrt(), "neighbours correlate by {products}");
        x.sort_by(f64::total_cmp);
        let distance =
            x.iter().enumerate().map(|(i, &v)| ((i as f64 + 0.5) / samples - cdf(v)).abs());
        // 99 % point of the Kolmogorov distribution.
        assert!(distance.fold(0.0, f64::max) < 1.628 / samples.sqrt());
    }

    /// The normal distribution function, by the series of erf (|x| < 7).
    fn cdf(x: f64) -> f64 {
        let (mut term, mut sum, mut i) = (x, x, 0.0);
        while term.abs() > 1e-17 {
            i += 1.0;
            term *= x * x / (2.0 * i + 1.0);
            sum += term;
        }
        0.5 + sum * (-x * x / 2.0).exp() / TAU.sqrt()
    }

    #[test]
    fn gaussian_noise_is_rounded_to_the_grid() {
        let (mut e, mut x) = (vec![0; 100_001], vec![0.0; 100_001]);
        for std in [0.0, 0.3, 3.19, 1e6, 2f64.powi(45)] {
            gaussian(&mut noise(4), std, &mut e);
            normal(&mut noise(4), &mut x);
            for (e, x) in e.iter().zip(&x) {
                assert!((*e as f64 - x * std).abs() <= 0.5 + 1e-2);
            }
        }
        gaussian(&mut noise(5), 3.19, &mut e);
        let real: Vec<f64> = e.iter().map(|&e| e as f64).collect();
        let (mean, variance) = mean_and_variance(&real);
        // Rounding to the grid adds its own variance of 1/12.
        let wanted = 3.19f64.powi(2) + 1.0 / 12.0;
        assert!(mean.abs() < 2.576 * (wanted / 1e5).sqrt(), "mean {mean}");
        assert!((variance / wanted - 1.0).abs() < 2.576 * (2.0 / 1e5f64).sqrt(), "{variance}");
    }
}
