//! Residues and bits: limbs packed in w = ⌈log2 p⌉ bits for each residue 0 ≤ x < p, the least significant first; and
//! uniform residues of a stream, the low w bits of each of its words that are below p.
//!
//! Eight residues take w bytes, and a field stands at the same place of each such group: a permutation of 16-bit halves and
//! a shift bring eight of them to their lanes. Cost: a fraction of a nanosecond a residue either way with AVX-512.

use super::eight::{Eight, Fields, leveled};
use super::ntt::{Modulo, Word};
use super::{Ring, Scratch};
use crate::math::random::MaskStream;
use crate::math::simd::Level;
use zeroize::Zeroize;

/// Bits of a residue modulo p.
pub(crate) fn width(p: u64) -> u32 {
    u64::BITS - (p - 1).leading_zeros()
}

impl Ring {
    /// The residues of a limb of word `i`, packed. A multiple of eight of them.
    pub(crate) fn packed(&self, i: usize, limb: &[f64]) -> Vec<u8> {
        let word = &self.words[i];
        let bytes = limb.len() / 8 * width(word.p) as usize;
        let mut out = vec![0; bytes + SLACK];
        pack(self.level, word, limb, &mut out);
        out.truncate(bytes);
        out
    }

    /// The inverse of [`Ring::packed`], of as many bytes as the residues of `limb` take; whether all residues are below p.
    pub(crate) fn unpack(&self, i: usize, bytes: &[u8], limb: &mut [f64]) -> bool {
        let mut largest = 0.0;
        unpack(self.level, &self.words[i], bytes, limb, &mut largest);
        largest < self.words[i].prime
    }

    /// Uniform residues of word `i`, near zero, from words of a stream that `next` draws: the low bits of each, if below p.
    pub(crate) fn draw(&self, i: usize, mut next: impl FnMut(&mut [u64]), limb: &mut [f64]) {
        let (mut words, mut filled) = ([0; DRAWN], 0);
        while filled < limb.len() {
            next(&mut words);
            keep(self.level, &self.words[i], &words, limb, &mut filled);
        }
        words.zeroize();
        self.reduce(i, limb);
    }
}

/// The residues that [`Ring::draw`] gives, in 0 .. p, block by block.
pub(crate) struct Uniform {
    word: usize,
    stream: MaskStream,
    block: usize,
    /// A block, then those drawn already of the next.
    values: Scratch,
    filled: usize,
    begun: bool,
}

/// Bytes that are written behind the last group.
const SLACK: usize = 64;

/// Words of a stream that are drawn at a time.
const DRAWN: usize = 512;

impl Uniform {
    /// Residues of word `word`, in blocks of `block`, a multiple of eight.
    pub(crate) fn new(ring: &Ring, word: usize, stream: MaskStream, block: usize) -> Uniform {
        let values = ring.scratch(block + DRAWN + 8);
        Uniform { word, stream, block, values, filled: 0, begun: false }
    }

    /// The next block.
    pub(crate) fn next(&mut self, ring: &Ring) -> &[f64] {
        if self.begun {
            self.values.copy_within(self.block..self.filled, 0);
            self.filled -= self.block;
        }
        self.begun = true;
        let mut words = [0; DRAWN];
        while self.filled < self.block {
            self.stream.fill_u64(&mut words);
            keep(ring.level, &ring.words[self.word], &words, &mut self.values, &mut self.filled);
        }
        &self.values[..self.block]
    }
}

leveled! {
    /// Residues near zero to fields, and [`SLACK`] bytes of no meaning behind them.
    pack(word: &Word, limb: &[f64], out: &mut [u8]) = pack_all
}
leveled! {
    /// Fields to residues near zero; the largest field.
    unpack(word: &Word, bytes: &[u8], limb: &mut [f64], largest: &mut f64) = unpack_all
}
leveled! {
    /// Low bits of words, if below p, from number `filled` of the limb on until it is full.
    keep(word: &Word, words: &[u64], limb: &mut [f64], filled: &mut usize) = keep_all
}

#[inline(always)]
unsafe fn pack_all<V: Eight>(word: &Word, limb: &[f64], out: &mut [u8]) {
    let width = width(word.p) as usize;
    let (groups, fields) = (limb.chunks_exact(8), Fields::new(width));
    assert!(limb.len().is_multiple_of(8), "whole groups");
    assert!(out.len() >= groups.len() * width + SLACK, "room behind the last of them");
    for (group, eight) in groups.enumerate() {
        // SAFETY: the caller has the instructions; eight values are there, and 64 bytes from every group on.
        unsafe {
            V::pack(eight.as_ptr(), word.prime, out.as_mut_ptr().add(group * width), &fields)
        };
    }
}

#[inline(always)]
unsafe fn unpack_all<V: Eight>(word: &Word, bytes: &[u8], limb: &mut [f64], largest: &mut f64) {
    let width = width(word.p) as usize;
    assert!(limb.len().is_multiple_of(8) && bytes.len() * 8 == limb.len() * width, "whole groups");
    let fields = Fields::new(width);
    // SAFETY: the caller has the instructions; 64 bytes are there or copied, and whole vectors of the limb.
    unsafe {
        let (k, mut most) = (Modulo::<V>::new(word), V::splat(0.0));
        for (group, out) in limb.chunks_exact_mut(8).enumerate() {
            let rest = &bytes[group * width..];
            let x = group_of::<V>(rest, &fields);
            most = most.max(x);
            k.reduce(x).store(out.as_mut_ptr());
        }
        let mut all = [0.0; 8];
        most.store(all.as_mut_ptr());
        *largest = all.into_iter().fold(0.0, f64::max);
    }
}

/// The eight fields at the beginning of `bytes`, which may be fewer than are read.
///
/// # Safety
/// The processor has the instructions.
#[inline(always)]
pub(super) unsafe fn group_of<V: Eight>(bytes: &[u8], fields: &Fields) -> V {
    let mut last = [0; 64];
    let from = if bytes.len() >= 64 {
        bytes.as_ptr()
    } else {
        last[..bytes.len()].copy_from_slice(bytes);
        last.as_ptr()
    };
    // SAFETY: the caller has the instructions; 64 bytes are there.
    unsafe { V::fields(from, fields) }
}

#[inline(always)]
unsafe fn keep_all<V: Eight>(word: &Word, words: &[u64], limb: &mut [f64], filled: &mut usize) {
    let mask = (1 << width(word.p)) - 1;
    for eight in words.chunks_exact(8) {
        if *filled + 8 <= limb.len() {
            // SAFETY: the caller has the instructions; eight words and eight places are there.
            *filled += unsafe {
                let out = limb.as_mut_ptr().add(*filled);
                V::keep_below(eight.as_ptr(), mask, word.prime, out)
            };
            continue;
        }
        for x in eight.iter().map(|x| x & mask).filter(|x| *x < word.p) {
            if *filled < limb.len() {
                limb[*filled] = x as f64;
                *filled += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::{Domain, MaskStream, PublicSeed};
    use crate::math::rns::{centred, nearest};

    const N: usize = 128;

    /// A ring for each level and size of prime: 2^-1 + ε of all words are below some of them, nearly all below others.
    fn on_all(test: impl Fn(&Ring, u64)) {
        for bits in [50.0, 49.0, 48.5, 47.0, 43.0, 41.3, 33.0, 32.0, 31.7, 28.0, 20.0, 17.0] {
            let p = nearest(f64::exp2(bits), 2 * N as u64, &[]).unwrap();
            for &level in Level::available() {
                test(&Ring::new(N, &[p], level).unwrap(), p);
            }
        }
    }

    fn words(count: usize) -> Vec<u64> {
        let mut words = vec![0; count];
        MaskStream::new(&PublicSeed([3; 32]), Domain::Test, 0).fill_u64(&mut words);
        words
    }

    #[test]
    fn packed_residues_come_back() {
        on_all(|ring, p| {
            let mut limb: Vec<f64> = words(N).iter().map(|x| centred(x % p, p)).collect();
            limb[..4].copy_from_slice(&[0.0, -1.0, (p / 2) as f64, -((p / 2) as f64)]);
            let bytes = ring.packed(0, &limb);
            assert_eq!(bytes.len(), N * width(p) as usize / 8);
            let mut back = vec![1.0; N];
            assert!(ring.unpack(0, &bytes, &mut back), "{p}");
            assert_eq!(back, limb, "{p} on {:?}", ring.level());
            for at in [0, 7, N / 2 + 3, N - 1] {
                // The residue at `at` becomes 2^w − 1, which is not below p.
                let mut full = bytes.clone();
                let span = at * width(p) as usize..(at + 1) * width(p) as usize;
                span.for_each(|bit| full[bit / 8] |= 1 << (bit % 8));
                assert!(!ring.unpack(0, &full, &mut back), "{at} of {p}");
            }
        });
    }

    #[test]
    fn drawn_residues_are_the_words_below_p() {
        on_all(|ring, p| {
            let mut stream = MaskStream::new(&PublicSeed([3; 32]), Domain::Test, 0);
            let mut limb = vec![0.5; N];
            ring.draw(0, |words| stream.fill_u64(words), &mut limb);
            let low = words(8 * N).into_iter().map(|x| x & ((1 << width(p)) - 1));
            let wanted: Vec<f64> = low.filter(|x| *x < p).map(|x| centred(x, p)).collect();
            assert_eq!(limb, wanted[..N], "{p} on {:?}", ring.level());
            // The same in blocks.
            let stream = MaskStream::new(&PublicSeed([3; 32]), Domain::Test, 0);
            let mut row = Uniform::new(ring, 0, stream, N / 8);
            for block in limb.chunks(N / 8) {
                let mut next = row.next(ring).to_vec();
                ring.reduce(0, &mut next);
                assert_eq!(next, block, "{p} on {:?}", ring.level());
            }
        });
    }
}
