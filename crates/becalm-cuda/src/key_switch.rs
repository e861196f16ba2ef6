//! The key of a key switch as the kernels read it: `kernels/key_switch.cuh` has the layout.

/// Rows of a step, columns of a warp, and ciphertexts that digits lie together for.
const ROWS: u32 = 32;
const COLUMNS: u32 = 8;
const JOBS: u32 = 16;
/// Bits of a digit that is one row.
const DIGIT: u32 = 7;
/// Steps whose sums fit 32 bits: 32 rows of digits up to 2^6 times bytes.
const MOST_STEPS: u32 = 1 << 12;
/// Warps of a block.
pub const KEY_SWITCH_WARPS: u32 = 4;

/// The shape of `kernels/key_switch.cuh`, as it lies in memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySwitch {
    /// k·N, mask elements of the inputs.
    pub input_dimension: u32,
    /// n, mask elements of the outputs.
    pub output_dimension: u32,
    /// w, bodies of both.
    pub bodies: u32,
    /// Elements at the beginning of the mask that stay as they are.
    pub shared: u32,
    /// log2 of the gadget's base.
    pub base_log: u32,
    /// The gadget's levels.
    pub level: u32,
    /// Rows of a digit: [`KeySwitch::parts`].
    pub parts: u32,
    /// Bits of a word of the key: 32, the upper half of a torus element, or 64.
    pub word: u32,
}

impl KeySwitch {
    /// Rows of a digit of `base_log` bits. Row i of a digit is the key's row times 2^(7i).
    pub const fn parts(base_log: u32) -> u32 {
        base_log.div_ceil(DIGIT)
    }

    /// Bits from one row of a digit to the next.
    pub const PART_BITS: u32 = DIGIT;

    /// Columns of the key.
    pub fn columns(&self) -> u32 {
        self.output_dimension + self.bodies
    }

    /// Steps of 32 rows.
    pub fn steps(&self) -> u32 {
        let elements = self.input_dimension - self.shared;
        (elements * self.level * self.parts).div_ceil(ROWS)
    }

    /// Bytes of the key of 32 rows.
    pub fn step_bytes(&self) -> usize {
        (self.columns().div_ceil(COLUMNS) * COLUMNS * ROWS * self.word / 8) as usize
    }

    /// Bytes of the digits of `jobs` ciphertexts.
    pub fn digit_bytes(&self, jobs: u32) -> u64 {
        u64::from(jobs.next_multiple_of(JOBS)) * u64::from(self.steps() * ROWS)
    }

    /// Warps of a launch for each slice.
    pub(crate) fn warps(&self, jobs: u32) -> u32 {
        // A warp's sums are as many for words of 32 bits as for those of 64.
        let together = if self.word == 32 { 4 * JOBS } else { 2 * JOBS };
        jobs.div_ceil(together) * self.columns().div_ceil(COLUMNS)
    }

    /// Into how many slices the rows are cut so that a launch has `warps` warps, if it can have as many.
    pub fn slices(&self, jobs: u32, warps: u32) -> u32 {
        let (steps, each) = (self.steps().max(1), self.warps(jobs).max(1));
        // A slice of fewer steps takes longer to begin and to end than to compute.
        let most = steps.div_ceil(4);
        warps.div_ceil(each).min(most).max(steps.div_ceil(MOST_STEPS))
    }

    /// Puts row `row` of the key, of which the words are torus elements or residues, into the bytes of the steps.
    ///
    /// # Panics
    /// If `steps` ends before the row, or there are not as many words as columns.
    pub fn place(&self, row: usize, words: &[u64], steps: &mut [u8]) {
        assert_eq!(words.len(), self.columns() as usize, "a word for each column");
        let (bytes, planes) = (self.step_bytes(), self.word as usize / 8);
        let step = &mut steps[row / 32 * bytes..][..bytes];
        let (q, j) = (row % 32 / 8, row % 8);
        for (c, word) in words.iter().enumerate() {
            let at = (c / 8 * planes / 2 * 32 + c % 8 * 4 + q) * 16 + j;
            let word = &word.to_le_bytes()[8 - planes..];
            for (pair, two) in word.chunks_exact(2).enumerate() {
                step[at + pair * 512] = two[0];
                step[at + pair * 512 + 8] = two[1];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key switch of `tfhe_2_2_multi_bit_4_gaussian`.
    const SHAPE: KeySwitch = KeySwitch {
        input_dimension: 2048,
        output_dimension: 872,
        bodies: 1,
        shared: 0,
        base_log: 4,
        level: 5,
        parts: 1,
        word: 64,
    };

    #[test]
    fn sums_of_a_slice_fit_and_few_ciphertexts_have_many_slices() {
        assert_eq!((SHAPE.steps(), SHAPE.columns()), (320, 873));
        assert_eq!((SHAPE.warps(1), SHAPE.warps(33)), (110, 220));
        assert_eq!((SHAPE.slices(1, 2112), SHAPE.slices(8192, 2112)), (20, 1));
        let large = KeySwitch { input_dimension: 1 << 20, base_log: 7, ..SHAPE };
        let rows = large.steps().div_ceil(large.slices(8192, 1)) * 32;
        assert!(i64::from(rows) * 64 * 255 < 1 << 31);
        assert_eq!([1, 7, 8, 14, 15].map(KeySwitch::parts), [1, 1, 2, 2, 3]);
    }

    /// Every byte of every word has a place of its own, and the rest are zeros.
    #[test]
    fn bytes_of_a_key_have_places_of_their_own() {
        for word in [32, 64] {
            let shape = KeySwitch { input_dimension: 13, output_dimension: 8, word, ..SHAPE };
            let mut steps = vec![0; shape.steps() as usize * shape.step_bytes()];
            let (rows, columns) = (13 * 5, 9);
            for row in 0..rows {
                shape.place(row, &vec![u64::MAX; columns], &mut steps);
            }
            let there = steps.iter().filter(|b| **b == 255).count();
            assert_eq!(there, rows * columns * word as usize / 8);
            assert_eq!(steps.iter().filter(|b| **b == 0).count(), steps.len() - there);
        }
    }
}
