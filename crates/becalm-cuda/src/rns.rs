//! Kernels of CKKS: the tables that they read, as these lie in memory, and their launches. `kernels/rns/` has the kernels.
//!
//! Residues are doubles. A limb is N of them modulo one prime, a word; a polynomial is limbs one after another.

use crate::launch::{Launch, two};

/// Residues of a block of a transform.
pub const BLOCK: u32 = 4096;
/// A [`KeyLimb`] whose word is no digit's own.
pub const NO_DIGIT: u32 = u32::MAX;
/// Giant steps of one launch of [`Launch::key_baby`] at most.
pub const GIANTS: usize = 8;
/// The flag of a [`Term`] that is negative in the upper half of the values.
pub const UPPER_NEGATIVE: u32 = 1;

/// The constants of a prime.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Word {
    /// p.
    pub p: f64,
    /// 1/p.
    pub inverse: f64,
    /// 3·2^(k−1), where 2^k bounds a sum of a few products of residues.
    pub magic: f64,
    /// √−1 modulo p: the value of X^(N/2) at ψ.
    pub imaginary: f64,
    /// Address of the twiddles `w[k]` = ψ^brv(k), centred: N/16 of them from `w[0]` on, then `w[N/2 + 8j]` for j < N/16.
    pub forward: u64,
    /// Address of the same of ψ^−1.
    pub backward: u64,
}

/// One limb of a transform.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Job {
    /// Its word.
    pub word: u32,
    /// The limb that is read.
    pub from: u32,
    /// The limb that is written, and that a conversion reads.
    pub to: u32,
    /// The limb that the values are subtracted from.
    pub other: u32,
    /// A factor of a conversion's source, or of the results of an [`Epilogue`]; at most p/2.
    pub factor: f64,
    /// Zero.
    pub unused: u64,
}

/// The last step of a forward transform, on the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epilogue {
    /// Nothing.
    None = 0,
    /// (x − y)·factor, where y is limb `other`.
    Difference = 1,
    /// x·factor.
    Product = 2,
}

/// Residues modulo some words, brought to others.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conversion {
    /// How many sources.
    pub sources: u32,
    /// The [`Job`] of the first of these.
    pub from: u32,
    /// How many targets.
    pub targets: u32,
    /// The first of these in the list of [`Target`].
    pub target: u32,
    /// Products after which a lazy sum is settled.
    pub terms: u32,
    /// The first constant: 1/d of each source, then of each target the factors of the sources and that of the quotient.
    pub constant: u32,
    /// Zero.
    pub unused: u64,
}

/// A target of a [`Conversion`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Target {
    /// Its word.
    pub word: u32,
    /// The limb that is written.
    pub to: u32,
}

/// A limb of a product with a key.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct KeyLimb {
    /// Its word.
    pub word: u32,
    /// 1 for a special word, which stands behind all words of a key's level.
    pub special: u32,
    /// The digit that has this word as one of its own.
    pub digit: u32,
    /// Zero.
    pub unused: u32,
    /// The factor of what is added.
    pub factor: f64,
    /// Zero.
    pub unused2: u64,
}

/// A ciphertext that is rotated: addresses of its parts, 0 for none, and of its digits.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turned {
    /// The body.
    pub own0: u64,
    /// The mask.
    pub own1: u64,
    /// The digits' residues modulo words that are not their own.
    pub lifted: u64,
    /// The values of the mask, which are the digits' modulo their own words.
    pub values: u64,
    /// Limbs of the parts; others count as zero.
    pub owned: u32,
    /// Zero.
    pub unused: u32,
    /// Zero.
    pub unused2: u64,
}

/// A baby step of a linear map.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Baby {
    /// Address of the key's bodies; 0 for no rotation.
    pub bodies: u64,
    /// Address of its masks.
    pub masks: u64,
    /// The power of X.
    pub power: u32,
    /// Limbs of a digit of the key.
    pub stored: u32,
    /// Zero.
    pub unused: u64,
}

/// A diagonal of a linear map.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Diagonal {
    /// Its address; 0 for none.
    pub at: u64,
    /// 1 if each limb has an eighth of the values.
    pub tiled: u32,
    /// Zero.
    pub unused: u32,
}

/// A term of a linear combination: a ciphertext by a constant of each limb or by a plaintext.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Term {
    /// Address of the body; 0 for none.
    pub part0: u64,
    /// Address of the mask; 0 for none.
    pub part1: u64,
    /// Address of a constant for each limb; 0 for 1.
    pub constants: u64,
    /// Address of the values of a plaintext; 0 for none.
    pub values: u64,
    /// 1: negative in the upper half of the values.
    pub flags: u32,
    /// Zero.
    pub unused: u32,
    /// Zero.
    pub unused2: u64,
}

/// A product of two ciphertexts.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pair {
    /// Address of the first one's body.
    pub a0: u64,
    /// Address of its mask.
    pub a1: u64,
    /// Address of the second one's body.
    pub b0: u64,
    /// Address of its mask.
    pub b1: u64,
    /// 1 or 2.
    pub factor: f64,
    /// Zero.
    pub unused: u64,
}

const _: () = assert!(size_of::<Word>() == 48 && size_of::<Job>() == 32);
const _: () = assert!(size_of::<Conversion>() == 32 && size_of::<Target>() == 8);
const _: () = assert!(size_of::<KeyLimb>() == 32 && size_of::<Turned>() == 48);
const _: () = assert!(size_of::<Baby>() == 32 && size_of::<Diagonal>() == 16);
const _: () = assert!(size_of::<Term>() == 48 && size_of::<Pair>() == 48);

/// Gives a type `words`, from what each word holds.
macro_rules! words {
    ($type:ident, $count:literal, $of:ident => [$($word:expr),* $(,)?]) => {
        impl $type {
            /// As it lies in memory.
            pub fn words(&self) -> [u64; $count] {
                let $of = self;
                [$($word),*]
            }
        }
    };
}

words!(Word, 6, x => [
    x.p.to_bits(), x.inverse.to_bits(), x.magic.to_bits(), x.imaginary.to_bits(), x.forward, x.backward,
]);
words!(Job, 4, x => [two(x.word, x.from), two(x.to, x.other), x.factor.to_bits(), x.unused]);
words!(Conversion, 4, x => [
    two(x.sources, x.from), two(x.targets, x.target), two(x.terms, x.constant), x.unused,
]);
words!(Target, 1, x => [two(x.word, x.to)]);
words!(KeyLimb, 4, x => [
    two(x.word, x.special), two(x.digit, x.unused), x.factor.to_bits(), x.unused2,
]);
words!(Turned, 6, x => [
    x.own0, x.own1, x.lifted, x.values, two(x.owned, x.unused), x.unused2,
]);
words!(Baby, 4, x => [x.bodies, x.masks, two(x.power, x.stored), x.unused]);
words!(Diagonal, 2, x => [x.at, two(x.tiled, x.unused)]);
words!(Term, 6, x => [
    x.part0, x.part1, x.constants, x.values, two(x.flags, x.unused), x.unused2,
]);
words!(Pair, 6, x => [x.a0, x.a1, x.b0, x.b1, x.factor.to_bits(), x.unused]);

/// Blocks of a launch of conversions that keep a large GPU busy.
const CONVERT_BLOCKS: u32 = 264;
/// Bytes of shared memory of a block of rows: its residues, and 16 words more for each sixteenth of them.
const ROWS_SHARED: u32 = 8 * (BLOCK + 256);
/// Bytes of shared memory that a conversion of a ring takes at most: the chain of 2^17 coefficients has tiers of many words.
pub fn convert_shared(log2_n: u32) -> u32 {
    if log2_n > 16 { 160 << 10 } else { 80 << 10 }
}

impl Launch {
    /// A block for every [`BLOCK`] residues of each limb of each polynomial.
    fn rows(kernel: &'static str, log2_n: u32, jobs: u32, polynomials: u32) -> Self {
        let grid = [(1 << log2_n) / BLOCK, jobs, polynomials];
        Launch::of(kernel, grid, BLOCK / 16, ROWS_SHARED)
    }

    /// dst, y, jobs, words, dst stride, y stride, [`Epilogue`]: the last twelve layers, in place.
    pub fn ntt_rows(log2_n: u32, jobs: u32, polynomials: u32) -> Self {
        Launch::rows("becalm_ntt_rows", log2_n, jobs, polynomials)
    }

    /// dst, src, jobs, words, dst stride, src stride: the first twelve layers back.
    pub fn intt_rows(log2_n: u32, jobs: u32, polynomials: u32) -> Self {
        Launch::rows("becalm_intt_rows", log2_n, jobs, polynomials)
    }

    /// dst, src, jobs of the sources, conversions, constants, targets, words, dst stride, src stride, how many conversions: the rest of the
    /// transforms back, the conversions, and the first layers of the transforms forward, of 256 residues of each limb a block. Sources and
    /// constants are in shared memory, as `kernels/rns/convert.cuh` has them.
    pub fn convert_words(log2_n: u32, conversions: &[Conversion], polynomials: u32) -> Self {
        let (tiles, count) = ((1 << log2_n) / 256, conversions.len() as u32 * polynomials);
        let targets = conversions.iter().map(|c| c.targets).max().unwrap_or(1);
        let twiddles = (1 << log2_n) / BLOCK;
        let shared = |parts: u32| {
            let bytes = |c: &Conversion| {
                let part = c.targets.div_ceil(2 * parts) * 2;
                8 * (256 * (c.sources + 1) + (c.sources + 3 + twiddles.max(8)) * part)
            };
            conversions.iter().map(bytes).max().unwrap_or(0)
        };
        // Every part does its sources anew: no more parts than a GPU needs to be busy, or constants need to fit.
        let least = CONVERT_BLOCKS.div_ceil(tiles * count).clamp(1, (targets / 8).max(1));
        let fits = |parts: &u32| shared(*parts) <= convert_shared(log2_n);
        // Every set has such a number: the backend's tests say so.
        let parts = (least..=targets.div_ceil(2)).find(fits).unwrap_or(least);
        Launch::of("becalm_convert", [tiles, parts, count], 128, shared(parts))
    }

    /// out, base, two own parts, owned, lifted, values, limbs, words, bodies, masks, stored, digits, limbs from one digit to the next, count,
    /// power, how many polynomials, strides of their own parts, of values and of lifted: two neighbouring values of a polynomial a thread.
    pub fn key_product(log2_n: u32, count: u32, polynomials: u32) -> Self {
        Launch::of("becalm_key_product", [polynomials * (1 << log2_n) / 512, count, 1], 256, 0)
    }

    /// out, inputs, babies, diagonals, limbs, words, how many babies and inputs of a lane, giants, the first giant, giants of all, digits,
    /// count, kept, lanes: up to 8 `giants` and 2 inputs, a value of a lane a thread of 128 and a warp that copies. Shared memory: `BabyRing`
    /// of `kernels/rns/baby.cuh`.
    pub fn key_baby(log2_n: u32, count: u32, giants: u32, lanes: u32) -> Self {
        let kernel = if giants <= 4 { "becalm_key_baby" } else { "becalm_key_baby_8" };
        // Stages of four rows, each with a note and two barriers; 32 rows; the word and the factor.
        let shared = 12 * (4 * 128 * 8 + 8 + 16) + 32 * 16 + 64;
        Launch::of(kernel, [lanes * (1 << log2_n) / 128, count, 1], 160, shared)
    }

    /// out0, out1, out2, terms, how many, pairs, how many, constants, words, first word, stride of the results: `sums` of one shape, whose
    /// terms and pairs follow each other.
    pub fn sum_values(log2_n: u32, count: u32, sums: u32) -> Self {
        Launch::of("becalm_sum", [(1 << log2_n) / 512, count, sums], 256, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words are what lies in memory.
    #[test]
    fn words_are_those_of_memory() {
        let job = Job { word: 1, from: 2, to: 3, other: 4, factor: 5.0, unused: 6 };
        // SAFETY: as many bytes, all of which are set.
        let there = unsafe { std::mem::transmute::<Job, [u64; 4]>(job) };
        assert_eq!(job.words(), there);
        let term =
            Term { part0: 1, part1: 2, constants: 3, values: 4, flags: 5, unused: 0, unused2: 0 };
        // SAFETY: as above.
        let there = unsafe { std::mem::transmute::<Term, [u64; 6]>(term) };
        assert_eq!(term.words(), there);
    }
}
