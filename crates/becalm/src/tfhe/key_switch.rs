//! Key switch: LWE ciphertexts under the big key (dimension k·N) to the small one (dimension n).
//!
//! (0, …, 0, b_1, …, b_w) − Σ_i Σ_l d_{i,l}·K_{i,l} (w = 1 body but for a common mask), with d_{i,·} the signed gadget digits of the mask element a_i and K_{i,l} an
//! encryption of S_i·q/B^l under the small key. A product of the batch's digits with the matrix K, exact in integers
//! for all moduli: 2^64, p, and 2^32 (a key of half the size, read at twice the speed; results are torus elements,
//! multiples of 2^32). Where the small key is the beginning of the big one the first n mask elements stay as they are, and
//! the sum runs over the others.
//! Cost: reading K from memory once per batch, and k·N·ℓ·(n + 1)/16 (2^32) or /8 multiply-adds of 512 bits a
//! ciphertext. 2048 → 918 with ℓ = 4 on a Zen 4 core: 0.7 ms alone, 0.15 ms in a batch (2^32); twice that for 2^64 and p.
//! Source: Chillotti, Gama, Georgieva, Izabachène 2020 (ia.cr/2018/421), Algorithm 2 for N = 1, with signed digits.

mod digits;
mod kernel;
mod layout;

use crate::math::Modulus;
use crate::math::buffer::Buffer;
use crate::math::gadget::Gadget;
use crate::math::parallel::*;
use crate::math::simd::Level;
use crate::params::TfheParams;
use crate::{Error, Result};
use digits::Digits;
use kernel::Path;
use layout::{GRAIN, Layout};
use std::ops::Range;

/// Ciphertexts per reading of the key: as many as keep their sums in the second-level cache.
const BATCH: usize = 36;

/// The dimensions that a key-switching key switches between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySwitchShape {
    /// k·N, the dimension of the inputs.
    pub input_dimension: usize,
    /// n, the dimension of the outputs.
    pub output_dimension: usize,
    /// w, the bodies of inputs and outputs.
    pub bodies: usize,
    /// How many coefficients at the beginning of the mask stay as they are, because the two keys share them: 0 or n. The
    /// key has no rows for them.
    pub shared: usize,
    /// Digits of the input's mask: `base_log` 1 to 9, `base_log·level` at most 64 (at most 32 modulo 2^32).
    pub gadget: Gadget,
    /// Modulus of the inputs, and of the outputs unless `modulus_log2` is 32.
    pub modulus: Modulus,
    /// 64: outputs modulo `modulus`. 32: outputs modulo 2^32.
    pub modulus_log2: u32,
}

impl KeySwitchShape {
    /// The shape of a parameter set's key: from the big key to the small one.
    pub fn of(params: &TfheParams) -> Self {
        KeySwitchShape {
            input_dimension: params.big_dimension(),
            output_dimension: params.lwe_dimension,
            bodies: params.slots,
            shared: params.shared_dimension(),
            gadget: params.ks,
            modulus: params.modulus,
            modulus_log2: params.ks_modulus_log2,
        }
    }

    /// Elements of an input: mask and bodies.
    fn input_len(self) -> usize {
        self.input_dimension + self.bodies
    }

    /// Mask elements that the key has rows for.
    fn switched(self) -> usize {
        self.input_dimension - self.shared
    }

    /// Fails with `WrongParams` when the kernels cannot take this shape.
    fn check(self) -> Result<Self> {
        let refuse = |wanted: &str, got: String| {
            Err(Error::wrong_params(
                "key switch",
                wanted,
                got,
                "choose a parameter set of the table",
            ))
        };
        let Gadget { base_log, level } = self.gadget;
        if !matches!(self.modulus_log2, 32 | 64) {
            return refuse("modulus_log2 32 or 64", self.modulus_log2.to_string());
        }
        if !(1..=9).contains(&base_log) || level == 0 || level > self.modulus_log2 / base_log {
            return refuse(
                "base_log 1 to 9 and base_log·level at most modulus_log2",
                format!("base_log {base_log}, level {level}"),
            );
        }
        if !(1..=1 << 24).contains(&self.input_dimension)
            || !(1..=1 << 24).contains(&self.output_dimension)
            || !(1..=1 << 10).contains(&self.bodies)
        {
            let got = format!(
                "{} to {} with {} bodies",
                self.input_dimension, self.output_dimension, self.bodies
            );
            return refuse("dimensions from 1 to 2^24 and 1 to 2^10 bodies", got);
        }
        if self.shared > self.output_dimension || self.shared >= self.input_dimension {
            return refuse("fewer shared coefficients than mask elements", self.shared.to_string());
        }
        Ok(self)
    }
}

/// A key-switching key, laid out as the vector instructions read it.
pub struct KeySwitchKey {
    layout: Layout,
    memory: Buffer<i16>,
}

impl KeySwitchKey {
    /// The bytes that a key of this shape occupies (rows and columns are padded by a few percent at most). Fails with
    /// `WrongParams` when there is no such key.
    pub fn bytes(shape: KeySwitchShape) -> Result<usize> {
        let layout = Layout { shape: shape.check()?, path: Path::Portable };
        layout.len().and_then(|planes| planes.checked_mul(2)).ok_or_else(|| {
            let wanted = "a key smaller than the address space";
            Error::memory("key switch", wanted, format!("{shape:?}"), "choose smaller dimensions")
        })
    }

    /// Builds the key in parallel. `fill(i, rows)` writes the ℓ encryptions K_{i,1}, …, K_{i,ℓ} (most significant
    /// first) of n + w elements each, for input coefficient i after the shared ones; it is called once for every i, in no
    /// particular order.
    /// Modulo 2^32 elements are given as torus elements, multiples of 2^32.
    ///
    /// Fails with `WrongParams` for a shape out of range and with `Memory` when the key does not fit.
    pub fn new(
        shape: KeySwitchShape,
        level: Level,
        fill: impl Fn(usize, &mut [u64]) + Sync,
    ) -> Result<Self> {
        Self::on_path(shape, Path::of(level), fill)
    }

    fn on_path(
        shape: KeySwitchShape,
        path: Path,
        fill: impl Fn(usize, &mut [u64]) + Sync,
    ) -> Result<Self> {
        let mut memory = Buffer::new(Self::bytes(shape)? / size_of::<i16>())?;
        let layout = Layout { shape, path };
        let key = memory.as_mut_slice();
        let size = shape.gadget.level as usize * layout.columns();
        key.par_chunks_mut(layout.block_len()).enumerate().for_each_init(
            || vec![0; size],
            |rows, (block, key)| {
                for (position, i) in layout.block(block).0.enumerate() {
                    fill(i, rows);
                    layout.write(block, position, rows, key);
                }
            },
        );
        Ok(KeySwitchKey { layout, memory })
    }

    /// The dimensions that this key switches between.
    pub fn shape(&self) -> KeySwitchShape {
        self.layout.shape
    }

    /// Switches a batch of B ciphertexts: `inputs` B × (k·N + w), `outputs` B × (n + w), both mask first. The key is
    /// read once for every 36 ciphertexts. Fails with `BadInput` when the shapes do not fit.
    pub fn apply(
        &self,
        inputs: &[u64],
        outputs: &mut [u64],
        scratch: &mut KeySwitchScratch,
    ) -> Result<()> {
        self.apply_columns(0..self.layout.columns(), inputs, outputs, scratch)
    }

    /// The elements `columns` of the outputs alone, B × `columns.len()`: how threads share one key switch. `columns` must
    /// start at a multiple of 16 and end at one or at n + w. Fails with `BadInput` when the shapes do not fit.
    pub fn apply_columns(
        &self,
        columns: Range<usize>,
        inputs: &[u64],
        outputs: &mut [u64],
        scratch: &mut KeySwitchScratch,
    ) -> Result<()> {
        self.check(&columns, inputs.len(), outputs.len())?;
        if columns.is_empty() {
            return Ok(());
        }
        let input_len = BATCH * self.layout.shape.input_len();
        let output_len = BATCH * columns.len();
        for (inputs, outputs) in inputs.chunks(input_len).zip(outputs.chunks_mut(output_len)) {
            self.accumulate(&columns, inputs, scratch);
            self.finish(&columns, inputs, outputs, scratch);
        }
        Ok(())
    }

    fn check(&self, columns: &Range<usize>, inputs: usize, outputs: usize) -> Result<()> {
        let (size, all) = (self.layout.shape.input_len(), self.layout.columns());
        let end_fits = columns.end == all || columns.end.is_multiple_of(GRAIN);
        if columns.start > columns.end
            || columns.end > all
            || !columns.start.is_multiple_of(GRAIN)
            || !end_fits
        {
            return Err(Error::bad_input(
                "key switch",
                format!("columns within 0..{all} that start and end at multiples of 16"),
                format!("{columns:?}"),
                "divide the columns at multiples of 16",
            ));
        }
        if !inputs.is_multiple_of(size) || inputs / size * columns.len() != outputs {
            return Err(Error::bad_input(
                "key switch",
                format!("B × {size} input and B × {} output elements", columns.len()),
                format!("{inputs} and {outputs}"),
                "pass whole ciphertexts of the key's dimensions",
            ));
        }
        Ok(())
    }

    /// Sums of digits times key, panels × B × columns of a panel, into `scratch.sums`.
    fn accumulate(&self, columns: &Range<usize>, inputs: &[u64], scratch: &mut KeySwitchScratch) {
        let Layout { shape, path } = self.layout;
        let batch = inputs.len() / shape.input_len();
        let panels = self.layout.panels(columns);
        let gadget = Digits::new(shape.gadget, shape.modulus);
        let KeySwitchScratch { digits, sums } = scratch;
        sums.clear();
        sums.resize(panels.len() * batch * path.columns(), 0);
        digits.resize(batch * self.layout.block(0).1, 0);
        for block in 0..self.layout.blocks() {
            let (elements, rows) = self.layout.block(block);
            let digits = &mut digits[..batch * rows];
            let cts = inputs.chunks_exact(shape.input_len());
            for (ct, digits) in cts.zip(digits.chunks_exact_mut(rows)) {
                gadget.decompose(path, &ct[shape.shared..][elements.clone()], digits);
            }
            let key = self.layout.panels_of(self.memory.as_slice(), block, &panels);
            kernel::multiply(path, rows, key, digits, sums);
        }
    }

    /// (0, …, 0, b_1, …, b_w), or (a_1, …, a_n, b_1, …, b_w) where they are shared, minus the sums, reduced.
    fn finish(
        &self,
        columns: &Range<usize>,
        inputs: &[u64],
        outputs: &mut [u64],
        scratch: &KeySwitchScratch,
    ) {
        let Layout { shape, path } = self.layout;
        let (width, words) = (path.columns(), self.layout.words());
        let cts = inputs.chunks_exact(shape.input_len());
        let batch = cts.len();
        for (i, (ct, out)) in cts.zip(outputs.chunks_exact_mut(columns.len())).enumerate() {
            for (group, out) in out.chunks_mut(width).enumerate() {
                let sums = |word| &scratch.sums[((group * words + word) * batch + i) * width..];
                for (c, out) in out.iter_mut().enumerate() {
                    let column = columns.start + group * width + c;
                    let kept = match column.checked_sub(shape.output_dimension) {
                        Some(slot) => ct[shape.input_dimension + slot],
                        None if column < shape.shared => ct[column],
                        None => 0,
                    };
                    *out = match (shape.modulus_log2, shape.modulus) {
                        (32, modulus) => {
                            let rounded = modulus.to_torus(kept).wrapping_add(1 << 31) >> 32;
                            rounded.wrapping_sub(sums(0)[c] as u64) << 32
                        }
                        (_, modulus) => {
                            let low = modulus.from_signed(sums(0)[c]);
                            let high = modulus.mul(modulus.from_signed(sums(1)[c]), 1 << 32);
                            modulus.sub(kept, modulus.add(low, high))
                        }
                    };
                }
            }
        }
    }
}

/// Buffers of a key switch, kept between calls so that nothing is allocated; one for each thread.
#[derive(Default)]
pub struct KeySwitchScratch {
    digits: Vec<i16>,
    sums: Vec<i64>,
}

impl KeySwitchScratch {
    /// Empty buffers; the first call makes them as large as needed.
    pub fn new() -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::modulus::GOLDILOCKS;
    use crate::math::random::{Domain, MaskStream, PublicSeed};
    use crate::math::sampling::{uniform, uniform_32};
    use proptest::prelude::*;

    const MODULI: [Modulus; 2] = [Modulus::Native, Modulus::Goldilocks];

    /// The digits by their definition, in 128-bit integers.
    fn digits(shape: KeySwitchShape, a: u64) -> Vec<i64> {
        let Gadget { base_log, level } = shape.gadget;
        let base = 1i128 << base_log;
        let unit = 1i128 << (64 - base_log * level);
        let mut r = (2 * shape.modulus.to_signed(a) as i128 + unit).div_euclid(2 * unit);
        let mut digits = vec![0; level as usize];
        for l in (0..level as usize).rev() {
            let low = (r + base / 2).rem_euclid(base) - base / 2;
            let d = if l == 0 { r } else { low };
            digits[l] = d as i64;
            r = (r - d) / base;
        }
        digits
    }

    /// The definition, one ciphertext at a time.
    fn reference(shape: KeySwitchShape, rows: &[Vec<u64>], ct: &[u64]) -> Vec<u64> {
        let (mask, bodies) = ct.split_at(shape.input_dimension);
        let (shared, mask) = mask.split_at(shape.shared);
        let modulus = if shape.modulus_log2 == 32 { Modulus::Native } else { shape.modulus };
        let mut out = vec![0; shape.output_dimension + shape.bodies];
        let kept = |word: u64| match shape.modulus_log2 {
            32 => shape.modulus.to_torus(word).wrapping_add(1 << 31) & 0xFFFF_FFFF_0000_0000,
            _ => word,
        };
        out.iter_mut().zip(shared).for_each(|(out, a)| *out = kept(*a));
        let slots = &mut out[shape.output_dimension..];
        slots.iter_mut().zip(bodies).for_each(|(out, b)| *out = kept(*b));
        for (&a, rows) in mask.iter().zip(rows) {
            for (d, row) in
                digits(shape, a).into_iter().zip(rows.chunks(shape.output_dimension + shape.bodies))
            {
                for (out, k) in out.iter_mut().zip(row) {
                    *out = modulus.sub(*out, modulus.mul(modulus.from_signed(d), *k));
                }
            }
        }
        out
    }

    fn paths() -> Vec<Path> {
        let mut paths: Vec<Path> = Level::available().iter().map(|&l| Path::of(l)).collect();
        #[cfg(target_arch = "x86_64")]
        if paths.contains(&Path::Vnni) {
            paths.push(Path::Avx512);
        }
        paths
    }

    /// Random rows of a key and a batch of inputs; some elements at the ends of their range.
    fn random(shape: KeySwitchShape, batch: usize, seed: u8) -> (Vec<Vec<u64>>, Vec<u64>) {
        let stream = |i| MaskStream::new(&PublicSeed([seed; 32]), Domain::Test, i);
        let rows = |i: usize| {
            let mut rows =
                vec![0; shape.gadget.level as usize * (shape.output_dimension + shape.bodies)];
            let mut stream = stream(i as u32 + 1);
            match shape.modulus_log2 {
                32 => uniform_32(&mut stream, &mut rows),
                _ => uniform(&mut stream, shape.modulus, &mut rows),
            }
            for (j, a) in rows.iter_mut().enumerate().filter(|(j, _)| (i + j).is_multiple_of(3)) {
                *a = [0x8000_8000_8000_8000, 0x7FFF_7FFF_7FFF_7FFF, GOLDILOCKS - 1, 1 << 63][j % 4];
                *a &= if shape.modulus_log2 == 32 { u64::MAX << 32 } else { u64::MAX };
            }
            rows
        };
        let mut inputs = vec![0; batch * (shape.input_len())];
        uniform(&mut stream(0), shape.modulus, &mut inputs);
        for (j, a) in inputs.iter_mut().enumerate().filter(|(j, _)| j % 5 == 0) {
            *a = [1 << 63, (1 << 63) - 1, GOLDILOCKS / 2, GOLDILOCKS - 1, 1 << 63 | 1][j / 5 % 5];
        }
        ((0..shape.switched()).map(rows).collect(), inputs)
    }

    fn check(shape: KeySwitchShape, batch: usize, seed: u8) {
        let (rows, inputs) = random(shape, batch, seed);
        let cts = inputs.chunks(shape.input_len());
        let wanted: Vec<u64> = cts.flat_map(|ct| reference(shape, &rows, ct)).collect();
        let mut scratch = KeySwitchScratch::new();
        for path in paths() {
            let key =
                KeySwitchKey::on_path(shape, path, |i, out| out.copy_from_slice(&rows[i])).unwrap();
            let mut out = vec![u64::MAX; batch * (shape.output_dimension + shape.bodies)];
            key.apply(&inputs, &mut out, &mut scratch).unwrap();
            assert!(out == wanted, "{path:?} {shape:?} batch {batch}");
            let cut = shape.output_dimension / 2 / GRAIN * GRAIN;
            for part in [0..cut, cut..(shape.output_dimension + shape.bodies)] {
                let mut out = vec![u64::MAX; batch * part.len()];
                key.apply_columns(part.clone(), &inputs, &mut out, &mut scratch).unwrap();
                let wanted = wanted
                    .chunks(shape.output_dimension + shape.bodies)
                    .flat_map(|ct| &ct[part.clone()]);
                assert!(out.iter().eq(wanted), "{path:?} {shape:?} columns {part:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn equals_the_definition(
            input_dimension in 1usize..300,
            output_dimension in 1usize..70,
            bodies in 1usize..=5,
            is_shared in any::<bool>(),
            base_log in 1u32..=9,
            level in 1u32..=9,
            modulus in prop::sample::select(&MODULI[..]),
            modulus_log2 in prop::sample::select(&[32u32, 64][..]),
            batch in 1usize..=9,
            seed in any::<u8>(),
        ) {
            let gadget = Gadget { base_log, level: level.min(modulus_log2 / base_log) };
            let shared = if is_shared { output_dimension.min(input_dimension - 1) } else { 0 };
            let shape = KeySwitchShape {
                input_dimension, output_dimension, bodies, shared, gadget, modulus, modulus_log2,
            };
            check(shape, batch, seed);
        }
    }

    /// All digits of the largest size times all planes of the largest size, in blocks of the most rows.
    #[test]
    fn no_sum_overflows() {
        for (base_log, level) in [(9, 7), (8, 8), (9, 1), (8, 1), (1, 64), (4, 4)] {
            for modulus in MODULI {
                let gadget = Gadget { base_log, level };
                let shape = KeySwitchShape {
                    input_dimension: 300,
                    output_dimension: 3,
                    bodies: 1,
                    shared: 0,
                    gadget,
                    modulus,
                    modulus_log2: 64,
                };
                for element in [0x8000_8000_8000_8000, 0x7FFF_7FFF_7FFF_7FFF, 0x7FFF_7FFF_7FFF_8000]
                {
                    // Every digit −B/2.
                    let digit = (1..=level)
                        .fold(0u64, |a, l| a.wrapping_sub(1 << (63 + base_log - base_log * l)));
                    for digit in [digit, 1 << 63, (1 << 63) - 1] {
                        let rows = vec![vec![element; level as usize * 4]; 300];
                        let key = KeySwitchKey::new(shape, Level::best(), |i, out| {
                            out.copy_from_slice(&rows[i])
                        })
                        .unwrap();
                        let (ct, mut out) = (vec![modulus.reduce(digit); 301], vec![0; 4]);
                        key.apply(&ct, &mut out, &mut KeySwitchScratch::new()).unwrap();
                        assert_eq!(out, reference(shape, &rows, &ct));
                    }
                }
            }
        }
    }

    #[test]
    fn batches_beyond_one_reading_are_switched() {
        let gadget = Gadget { base_log: 4, level: 4 };
        let shape = KeySwitchShape {
            input_dimension: 40,
            output_dimension: 17,
            bodies: 1,
            shared: 0,
            gadget,
            modulus: Modulus::Native,
            modulus_log2: 32,
        };
        for batch in [0, 10, 13, BATCH, BATCH + 1, 2 * BATCH + 7] {
            check(shape, batch, 1);
        }
    }

    #[test]
    fn wrong_shapes_are_refused() {
        let gadget = Gadget { base_log: 4, level: 4 };
        let good = KeySwitchShape {
            input_dimension: 40,
            output_dimension: 17,
            bodies: 1,
            shared: 0,
            gadget,
            modulus: Modulus::Native,
            modulus_log2: 64,
        };
        let gadget =
            |base_log, level| KeySwitchShape { gadget: Gadget { base_log, level }, ..good };
        for bad in [
            gadget(0, 1),
            gadget(10, 1),
            gadget(4, 0),
            gadget(4, 17),
            KeySwitchShape { modulus_log2: 48, ..good },
            KeySwitchShape { input_dimension: 0, ..good },
            KeySwitchShape { output_dimension: usize::MAX, ..good },
            KeySwitchShape { bodies: 0, ..good },
            KeySwitchShape { modulus_log2: 32, ..gadget(8, 5) },
        ] {
            assert_eq!(KeySwitchKey::bytes(bad).unwrap_err().kind(), "wrong_params");
            let key = KeySwitchKey::new(bad, Level::best(), |_, _| ());
            assert_eq!(key.err().map(|e| e.kind()), Some("wrong_params"));
        }
        let key = KeySwitchKey::new(good, Level::best(), |_, _| ()).unwrap();
        let mut scratch = KeySwitchScratch::new();
        let (input, mut out) = (vec![0; 82], vec![0; 36]);
        assert!(key.apply(&input, &mut out, &mut scratch).is_ok());
        let short = key.apply(&input[1..], &mut out, &mut scratch);
        assert_eq!(short.unwrap_err().kind(), "bad_input");
        let short = key.apply(&input, &mut out[1..], &mut scratch);
        assert_eq!(short.unwrap_err().kind(), "bad_input");
        for (columns, len) in [(1..18, 34), (0..19, 38), (0..5, 10)] {
            let out = &mut out[..len.min(36)];
            let refused = key.apply_columns(columns, &input, out, &mut scratch);
            assert_eq!(refused.unwrap_err().kind(), "bad_input");
        }
        assert!(key.apply_columns(16..18, &input, &mut out[..4], &mut scratch).is_ok());
        assert!(key.apply_columns(0..0, &input, &mut [], &mut scratch).is_ok());
    }
}
