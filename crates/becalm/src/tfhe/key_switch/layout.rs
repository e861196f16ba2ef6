//! Where the elements of a key-switching key lie: blocks of about 128 rows, each a sequence of panels (see the kernel).
//!
//! A block is the ℓ digits of E mask elements, row l·E + position. Both words of the same columns are neighbours, so that
//! a range of columns is one piece of a block. Columns are padded to 16 and elements to 8, with zeros.

use super::KeySwitchShape;
use super::kernel::Path;
use crate::math::Modulus;
use crate::math::modulus::GOLDILOCKS;
use std::ops::Range;

/// Ranges of columns may be cut at multiples of this, on every path.
pub(super) const GRAIN: usize = 16;

/// The places of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) shape: KeySwitchShape,
    pub(super) path: Path,
}

impl Layout {
    /// Elements of an output: n + w.
    pub(super) fn columns(self) -> usize {
        self.shape.output_dimension + self.shape.bodies
    }

    /// 32-bit words of an element.
    pub(super) fn words(self) -> usize {
        self.shape.modulus_log2 as usize / 32
    }

    /// Mask elements per block, a multiple of 8: about 128 rows, so that the sums of a block fit 32 bits
    /// (rows·B/2 < 2^16) and its panels the first-level cache.
    fn block_elements(self) -> usize {
        (128 / self.shape.gadget.level as usize / 8 * 8).max(8)
    }

    pub(super) fn blocks(self) -> usize {
        self.shape.switched().div_ceil(self.block_elements())
    }

    /// The mask elements of a block, and its rows.
    pub(super) fn block(self, block: usize) -> (Range<usize>, usize) {
        let first = block * self.block_elements();
        let elements = first..self.shape.switched().min(first + self.block_elements());
        let rows = elements.len().next_multiple_of(8) * self.shape.gadget.level as usize;
        (elements, rows)
    }

    /// 16-bit planes of a row.
    fn row_len(self) -> usize {
        self.columns().next_multiple_of(GRAIN) * self.words() * 2
    }

    /// 16-bit planes of a whole block.
    pub(super) fn block_len(self) -> usize {
        self.block(0).1 * self.row_len()
    }

    /// 16-bit planes of the key, or `None` when they are too many to count.
    pub(super) fn len(self) -> Option<usize> {
        let last = self.blocks() - 1;
        last.checked_mul(self.block_len())?.checked_add(self.block(last).1 * self.row_len())
    }

    /// The panels of a range of columns cut at multiples of [`GRAIN`].
    pub(super) fn panels(self, columns: &Range<usize>) -> Range<usize> {
        let at = |column: usize| column / self.path.columns() * self.words();
        at(columns.start)..at(columns.end.next_multiple_of(GRAIN))
    }

    /// The planes of some panels of a block of the key.
    pub(super) fn panels_of<'k>(
        self,
        key: &'k [i16],
        block: usize,
        panels: &Range<usize>,
    ) -> &'k [i16] {
        let panel_len = self.block(block).1 * 2 * self.path.columns();
        let start = block * self.block_len();
        &key[start + panels.start * panel_len..start + panels.end * panel_len]
    }

    /// Writes the ℓ rows of the mask element at `position` of a block into the planes of that block.
    pub(super) fn write(self, block: usize, position: usize, rows: &[u64], key: &mut [i16]) {
        let block_rows = self.block(block).1;
        let padded = block_rows / self.shape.gadget.level as usize;
        let width = self.path.columns();
        for (l, encryption) in rows.chunks_exact(self.columns()).enumerate() {
            let row = l * padded + position;
            for (c, &a) in encryption.iter().enumerate() {
                let planes = self.planes(a);
                for word in 0..self.words() {
                    let panel = c / width * self.words() + word;
                    let pair = (panel * block_rows + row / 2 * 2) * 2 * width;
                    let at = pair + c % width * 2 + row % 2;
                    key[at] = planes[2 * word];
                    key[at + 2 * width] = planes[2 * word + 1];
                }
            }
        }
    }

    /// The planes of an element; modulo 2^32 the first two.
    fn planes(self, a: u64) -> [i16; 4] {
        match (self.shape.modulus_log2, self.shape.modulus) {
            (32, _) => signed_planes(a >> 32),
            // a − p, as a word of two's complement.
            (_, Modulus::Goldilocks) if a > LARGEST => signed_planes(a.wrapping_sub(GOLDILOCKS)),
            _ => signed_planes(a),
        }
    }
}

/// The largest integer of four signed planes: 32767·(1 + 2^16 + 2^32 + 2^48).
const LARGEST: u64 = 0x7FFF_7FFF_7FFF_7FFF;

/// x as Σ plane_i·2^(16 i) with signed planes, modulo 2^64; the integer itself when x is the two's complement of an
/// integer up to [`LARGEST`] and not below −2^63 − 2^47.
fn signed_planes(mut x: u64) -> [i16; 4] {
    let mut planes = [0; 4];
    for plane in &mut planes {
        *plane = x as i16;
        // Exact division: what is left is the plane above, with the borrow of this one.
        x = (x.wrapping_sub(*plane as u64) as i64 >> 16) as u64;
    }
    planes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_are_the_integer() {
        for x in
            [0, 1, LARGEST, 0x7FFF_FFFF_FFFF_FFFF, 1 << 63, u64::MAX, 0x8000, 0x8000_8000_8000_8000]
        {
            let planes = signed_planes(x);
            let sum: i128 = planes.iter().enumerate().map(|(i, &p)| (p as i128) << (16 * i)).sum();
            assert_eq!(sum as u64, x);
            assert_eq!(sum == x as i128, x <= LARGEST);
        }
    }
}
