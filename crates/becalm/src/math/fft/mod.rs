//! The negacyclic FFT in doubles: products in `R[X]/(X^N + 1)` for N a power of two.
//!
//! A real polynomial is folded to `a_j + i·a_(j+N/2)` in `C[X]/(X^M − i)`, M = N/2, and split recursively into residues
//! modulo `X^L − e^(iθ)` down to the M values at the roots `e^(iπ(4u+1)/N)`: the usual "twist" is inside the twiddles,
//! and nothing is bit-reversed, for the values stay in the order in which they arise (it depends on the level:
//! transformed data are never stored in files). Cost: about 3.5·M·log2 M floating-point instructions over the number
//! of lanes. Error: each value within a few 2^-53 of the largest, times √log M (twiddles are correctly rounded to
//! within 0.51 units).

pub(crate) mod butterfly;
pub(crate) mod passes;
pub(crate) mod twofold;
pub(crate) mod vector;

use super::buffer::Buffer;
use super::simd::Level;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use twofold::{OFFSET, series};
use zeroize::Zeroizing;

/// A full turn in the fixed-point unit of angles; small enough that `angle + t·TURN` fits for every radix.
const TURN: u64 = 1 << 58;

/// The plan of a transform of one size on one level: the radices of its passes, and their twiddles.
pub struct FftPlan {
    size: usize,
    level: Level,
    lanes: usize,
    /// Radices of the passes from the root down; the leaves of `lanes²` points come below.
    radices: Vec<usize>,
    /// Where each pass's twiddles start in `twiddles`, node after node, then where those of the leaves start.
    starts: Vec<usize>,
    /// High parts, then, `OFFSET` later, low parts.
    twiddles: Buffer<f64>,
    /// For every value in storage order, u such that the value is taken at `e^(iπ(4u+1)/N)`.
    exponents: Vec<u32>,
}

impl FftPlan {
    /// The plan for polynomials of `size` = N coefficients on `level`, made once and shared. N is a power of two in
    /// 256..=131072; the processor must have the level.
    pub fn get(size: usize, level: Level) -> Result<Arc<FftPlan>> {
        static PLANS: Mutex<BTreeMap<(usize, Level), Arc<FftPlan>>> = Mutex::new(BTreeMap::new());
        if !size.is_power_of_two() || !(256..=131072).contains(&size) {
            let wanted = "a power of two in 256..=131072 coefficients";
            return Err(Error::bad_input(
                "fft",
                wanted,
                size.to_string(),
                "choose a supported polynomial size",
            ));
        }
        if !Level::available().contains(&level) {
            let remedy = "use a level of Level::available()";
            return Err(Error::unsupported(
                "fft",
                "instructions of this processor",
                level.name(),
                remedy,
            ));
        }
        let mut plans = PLANS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(&(size, level)) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(FftPlan::new(size, level)?);
        plans.insert((size, level), plan.clone());
        Ok(plan)
    }

    fn new(size: usize, level: Level) -> Result<FftPlan> {
        let (lanes, copies) = match level {
            Level::Portable => (4, 1),
            Level::Avx2 => (4, 4),
            Level::Avx512 => (8, 1),
        };
        let radices = radices(size / 2 / (lanes * lanes));
        let mut table = Vec::new();
        let mut starts = Vec::new();
        let mut nodes = vec![TURN / 4];
        for &radix in &radices {
            starts.push(table.len());
            for &node in &nodes {
                for angle in node_twiddles(node, radix) {
                    push(&mut table, &[angle], copies);
                }
            }
            table.resize(table.len().next_multiple_of(8), (0.0, 0.0));
            nodes = nodes.iter().flat_map(|&node| children(node, radix)).collect();
        }
        starts.push(table.len());
        let mut exponents = Vec::with_capacity(size / 2);
        for &leaf in &nodes {
            leaf_twiddles(&mut table, leaf, lanes, copies);
            for w in 0..lanes {
                for lane in 0..lanes {
                    let angle = child(child(leaf, lanes, lane), lanes, w);
                    exponents.push((angle / (TURN / (2 * size as u64)) / 4) as u32);
                }
            }
        }
        let mut twiddles = Buffer::new(OFFSET + table.len())?;
        for (i, (high, low)) in table.into_iter().enumerate() {
            twiddles.as_mut_slice()[i] = high;
            twiddles.as_mut_slice()[OFFSET + i] = low;
        }
        Ok(FftPlan { size, level, lanes, radices, starts, twiddles, exponents })
    }

    /// N, the number of coefficients.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The level that the plan is for.
    pub fn level(&self) -> Level {
        self.level
    }

    /// For each of the N/2 values of a transform in storage order, u such that it is taken at `e^(iπ(4u+1)/N)`.
    pub fn exponents(&self) -> &[u32] {
        &self.exponents
    }

    /// Where in a transform value number `i` stands: (index of its real part, index of its imaginary part).
    pub fn position(&self, i: usize) -> (usize, usize) {
        let at = i / self.lanes * 2 * self.lanes + i % self.lanes;
        (at, at + self.lanes)
    }

    /// Transforms N real coefficients, in place: N/2 complex values in storage order.
    ///
    /// # Panics
    /// If `data` does not hold N doubles.
    pub fn forward(&self, data: &mut [f64]) {
        assert_eq!(data.len(), self.size, "one polynomial of the plan's size");
        self.fold(data);
        // SAFETY: the plan exists only for a level of this processor, and `data` has its length.
        unsafe { passes::forward_all(self.level, self, data.as_mut_ptr()) }
    }

    /// [`forward`](Self::forward) of N integers modulo 2^64 times 2^-64 (so in [−1/2, 1/2]), every value rounded once
    /// only. `work` is for [`twofold_len`](Self::twofold_len) doubles; the result is its first N.
    ///
    /// # Panics
    /// If the lengths are not these.
    pub fn forward_twofold(&self, input: &[u64], work: &mut [f64]) {
        assert!(
            input.len() == self.size && work.len() == self.twofold_len(),
            "one polynomial and its work space"
        );
        const UNIT: f64 = 1.0 / (1u128 << 64) as f64;
        for (i, &x) in input.iter().enumerate() {
            let (value, part) = (i % (self.size / 2), i / (self.size / 2));
            let at = self.position(value).0 + part * self.lanes;
            let high = x as i64 as f64;
            work[at] = high * UNIT;
            work[OFFSET + at] = (x as i64).wrapping_sub(high as i64) as f64 * UNIT;
        }
        // SAFETY: as in `forward`, and the low parts are in place.
        unsafe { passes::forward_twofold(self.level, self, work.as_mut_ptr()) }
    }

    /// Length of the work space of [`forward_twofold`](Self::forward_twofold).
    pub fn twofold_len(&self) -> usize {
        OFFSET + self.size
    }

    /// The inverse of [`forward`](Self::forward) times N/2, in place: N/2 complex values to N real coefficients.
    ///
    /// # Panics
    /// If `data` does not hold N doubles.
    pub fn inverse(&self, data: &mut [f64]) {
        assert_eq!(data.len(), self.size, "one polynomial of the plan's size");
        // SAFETY: as in `forward`.
        unsafe { passes::inverse_all(self.level, self, data.as_mut_ptr()) }
        self.unfold(data);
    }

    /// `acc += a·b`, value by value, on three transforms.
    ///
    /// # Panics
    /// If a slice does not hold N doubles.
    pub fn multiply_accumulate(&self, acc: &mut [f64], a: &[f64], b: &[f64]) {
        assert!([acc.len(), a.len(), b.len()] == [self.size; 3], "transforms of the plan's size");
        // SAFETY: as in `forward`.
        unsafe {
            passes::multiply_accumulate(
                self.level,
                self.size,
                acc.as_mut_ptr(),
                a.as_ptr(),
                b.as_ptr(),
            )
        }
    }

    /// Coefficients to the blocked layout of the passes: `LANES` real parts, then `LANES` imaginary parts.
    fn fold(&self, data: &mut [f64]) {
        let source = Zeroizing::new(data.to_vec());
        let (re, im) = source.split_at(self.size / 2);
        let blocks = data.chunks_exact_mut(2 * self.lanes);
        for ((block, re), im) in
            blocks.zip(re.chunks_exact(self.lanes)).zip(im.chunks_exact(self.lanes))
        {
            block[..self.lanes].copy_from_slice(re);
            block[self.lanes..].copy_from_slice(im);
        }
    }

    fn unfold(&self, data: &mut [f64]) {
        let source = Zeroizing::new(data.to_vec());
        let (re, im) = data.split_at_mut(self.size / 2);
        let parts = re.chunks_exact_mut(self.lanes).zip(im.chunks_exact_mut(self.lanes));
        for (block, (re, im)) in source.chunks_exact(2 * self.lanes).zip(parts) {
            re.copy_from_slice(&block[..self.lanes]);
            im.copy_from_slice(&block[self.lanes..]);
        }
    }

    /// Radices of the passes from the root down.
    #[inline(always)]
    pub(crate) fn radices(&self) -> &[usize] {
        &self.radices
    }

    /// Number of leaves.
    #[inline(always)]
    pub(crate) fn leaves(&self) -> usize {
        self.size / 2 / (self.lanes * self.lanes)
    }

    /// Twiddles of the passes at `depth` (the leaves' for `depth == radices().len()`), node after node.
    #[inline(always)]
    pub(crate) fn twiddles(&self, depth: usize) -> &[f64] {
        &self.twiddles.as_slice()[self.starts[depth]..]
    }
}

/// The radices for a transform of `leaves` leaves: 4 at the root, whose pass does the most besides and must not spill
/// registers; 4 below it, and one 8 or 2 for an odd power of two.
fn radices(leaves: usize) -> Vec<usize> {
    let log2 = leaves.trailing_zeros() as usize;
    let mut radices = vec![4; log2 / 2];
    match radices.last_mut() {
        Some(last) if log2 % 2 == 1 && log2 > 3 => *last = 8,
        _ if log2 % 2 == 1 => radices.push(2),
        _ => (),
    }
    radices
}

fn child(node: u64, radix: usize, t: usize) -> u64 {
    (node + t as u64 * TURN) / radix as u64
}

fn children(node: u64, radix: usize) -> impl Iterator<Item = u64> {
    (0..radix).map(move |t| child(node, radix, t))
}

/// Angles of a node's twiddles: m·θ/r for m = 1..r.
fn node_twiddles(node: u64, radix: usize) -> impl Iterator<Item = u64> {
    (1..radix as u64).map(move |m| m * (node / radix as u64))
}

/// Twiddles of a leaf: of its first butterfly, one per vector; of its second, one per vector and lane.
fn leaf_twiddles(table: &mut Vec<(f64, f64)>, leaf: u64, lanes: usize, copies: usize) {
    let start = table.len();
    for angle in node_twiddles(leaf, lanes) {
        push(table, &[angle], copies);
    }
    table.resize(start + butterfly::leaf_head(lanes, copies), (0.0, 0.0));
    for m in 1..lanes as u64 {
        let angles: Vec<u64> =
            (0..lanes).map(|t| m * (child(leaf, lanes, t) / lanes as u64)).collect();
        push(table, &angles, 1);
    }
    table.resize(table.len().next_multiple_of(8), (0.0, 0.0));
}

/// Real parts, then imaginary parts, each `copies` times.
fn push(table: &mut Vec<(f64, f64)>, angles: &[u64], copies: usize) {
    for quarters in [0, 3] {
        for &angle in angles {
            table.extend(std::iter::repeat_n(cosine(angle + quarters * (TURN / 4)), copies));
        }
    }
}

/// e^(iπx/N) for x in 0..2N, correctly rounded to within 0.51 units: real part, imaginary part.
pub(crate) fn roots(size: usize) -> Vec<f64> {
    let step = TURN / (2 * size as u64);
    let root = |x: u64| [cosine(x * step).0, cosine(x * step + 3 * (TURN / 4)).0];
    (0..2 * size as u64).flat_map(root).collect()
}

/// Cosine of an exact angle in twice the precision, reduced exactly to the first octant.
fn cosine(angle: u64) -> (f64, f64) {
    let angle = angle % TURN;
    let half = angle.min(TURN - angle); // cos is even: 0..=TURN/2
    let (quarter, sign) = if half > TURN / 4 { (TURN / 2 - half, -1.0) } else { (half, 1.0) };
    let turns = |x: u64| x as f64 / TURN as f64;
    let (high, low) = if quarter <= TURN / 8 {
        series(turns(quarter), false)
    } else {
        series(turns(TURN / 4 - quarter), true)
    };
    (sign * high, sign * low)
}

#[cfg(test)]
mod tests;
