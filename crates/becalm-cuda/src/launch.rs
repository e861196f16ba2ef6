//! The launches of the kernels: which grid, block, cluster and shared memory each wants. Arguments are in the kernels' order.

use crate::gpu::DeviceInfo;
use crate::key_switch::{KEY_SWITCH_WARPS, KeySwitch};
use crate::rings::Ring;

/// The shape of one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// The kernel's name in the module.
    pub kernel: &'static str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
    /// Blocks of a cluster, along the first dimension; 1 for none.
    pub cluster: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// Whether its blocks wait for each other: all must be on the device at once, or the driver refuses it.
    pub at_once: bool,
}

/// How a batch is rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// A cluster of blocks for each ciphertext: least latency.
    Cluster,
    /// A block for each ciphertext.
    Block,
    /// A block for two ciphertexts.
    Pair,
}

/// The operation of `kernels/linear.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinearOp {
    /// Address of the results.
    pub dst: u64,
    /// Address of a constant for each body; 0 for none.
    pub constants: u64,
    /// Position of the first term in the launch's list.
    pub first_term: u32,
    /// How many terms.
    pub terms: u32,
    /// Ciphertexts.
    pub rows: u32,
    /// Words of a ciphertext that are written.
    pub width: u32,
    /// The last words of these, which are bodies.
    pub bodies: u32,
    /// Words from one result to the next.
    pub dst_stride: u32,
    /// Words from one source to the next.
    pub src_stride: u32,
    /// Body j is read from body `body_shift` + j.
    pub body_shift: u32,
}

/// A term of a [`LinearOp`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearTerm {
    /// Address of the ciphertexts.
    pub src: u64,
    /// An integer modulo 2^64.
    pub factor: u64,
}

/// The part of an accumulator that `kernels/rotate.cuh` extracts, and where it goes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extraction {
    /// Address of the ciphertext.
    pub out: u64,
    /// Number of the ciphertext in the launch, from whose accumulator this is extracted.
    pub job: u32,
    /// Number of the coefficient.
    pub index: u32,
}

/// Blocks that a grid may have along each dimension.
pub const GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Threads that a block may have.
pub const THREADS: u32 = 1024;
/// Blocks of a cluster that every GPU with clusters can have.
pub const CLUSTER: u32 = 8;
/// Blocks of a cluster that a GPU with clusters may have, if the function was told to: an H100 has them.
pub const LARGE_CLUSTER: u32 = 16;
/// Bytes of shared memory of a block of [`Launch::rotate_batch`], as `BatchLayout` of `kernels/batch.cuh`: points of both polynomials,
/// two bundles, the twist, four mbarriers.
pub const BATCH_SHARED: u32 = 16 * (2 * 1024 + 2 * 4096 + 1024) + 8 * 4;
/// Ciphertexts of a product of tensor cores, which come and go together.
pub const UNIT_JOBS: u32 = 16;
/// Tiles of 8 leaves of a polynomial, of which a flag counts those that are there.
pub const TILES: u32 = 128;

/// Ciphertexts for which a block makes bundles by the tensor cores.
const TENSOR_JOBS: u32 = 64;
/// Leaves of a transform in a block that makes bundles.
const BUNDLE_POINTS: u32 = 32;

impl Launch {
    /// Refuses a launch that a driver would refuse for every kernel.
    ///
    /// # Errors
    /// The number that is too large, or zero.
    pub fn check(&self, info: &DeviceInfo) -> Result<(), String> {
        let no = |what: &str| Err(format!("{}: {what}: {self:?}", self.kernel));
        match () {
            _ if self.grid.iter().zip(GRID).any(|(n, most)| *n == 0 || *n > most) => {
                no(&format!("a grid of 1 to {GRID:?} blocks is wanted"))
            }
            _ if self.block == 0 || self.block > THREADS => no("a block has 1 to 1024 threads"),
            _ if self.cluster == 0 || self.cluster > LARGE_CLUSTER => {
                no("a cluster has 1 to 16 blocks")
            }
            _ if !self.grid[0].is_multiple_of(self.cluster) => no("clusters fill a grid"),
            _ if self.at_once && self.cluster > 1 => no("clusters do not wait for each other"),
            _ if self.at_once && self.grid.iter().product::<u32>() > info.multiprocessors => {
                no("more blocks than the device runs at once")
            }
            _ if self.cluster > 1 && !info.clusters() => no("the device has no clusters"),
            _ if self.shared > info.shared => no("shared memory that the device has not"),
            _ => Ok(()),
        }
    }

    /// `grid` blocks of `block` threads, `shared` bytes each, no clusters.
    pub(crate) fn of(kernel: &'static str, grid: [u32; 3], block: u32, shared: u32) -> Self {
        Launch { kernel, grid, block, cluster: 1, shared, at_once: false }
    }

    /// acc, tables, exponents, width.
    pub fn load_table(jobs: u32) -> Self {
        Launch::of("becalm_load_table", [jobs, 1, 1], 256, 0)
    }

    /// extractions, acc.
    pub fn sample_extract(extractions: u32) -> Self {
        // One ciphertext is waited for, and a block of 1024 has it in two rounds of reads.
        let threads = if extractions <= 128 { 1024 } else { 256 };
        Launch::of("becalm_sample_extract", [extractions, 1, 1], threads, 0)
    }

    /// acc, key, job stride, exponents, width, steps, jobs, table. `None` where the ring has no such kernel.
    pub fn rotate(ring: &Ring, path: Path, jobs: u32) -> Option<Self> {
        let (columns, threads) = (ring.columns(), ring.threads());
        let together = |kernel, here: u32| {
            let grid = [jobs.div_ceil(here), 1, 1];
            let shared = here * columns * ring.column_bytes(true);
            Launch::of(kernel, grid, here * columns * threads, shared)
        };
        match path {
            Path::Cluster => {
                let grid = [jobs * columns, 1, 1];
                let shared = ring.column_bytes(false);
                let one = Launch::of("becalm_rotate_cluster", grid, threads, shared);
                Some(Launch { cluster: columns, ..one })
            }
            Path::Block => (ring.jobs_of_block() >= 1).then(|| together("becalm_rotate_block", 1)),
            Path::Pair => (ring.jobs_of_block() >= 2).then(|| together("becalm_rotate_pair", 2)),
        }
    }

    /// acc, ring, flags, key, packed exponents, stride, steps, jobs, slots, table: a block for each ciphertext, and `makers` that make
    /// bundles.
    pub fn rotate_batch(jobs: u32, makers: u32) -> Self {
        let one = Launch::of("becalm_rotate_batch", [jobs + makers, 1, 1], 384, BATCH_SHARED);
        Launch { at_once: true, ..one }
    }

    /// bundles, job stride, flags, key, packed exponents, stride, steps, jobs, table.
    pub fn bundle_ahead(blocks: u32) -> Self {
        Launch::of("becalm_bundle_ahead", [blocks, 1, 1], 256, 139_408)
    }

    /// bundle, key, exponents, width, jobs, table.
    pub fn bundle(ring: &Ring, groups: u32, jobs: u32) -> Self {
        let most = match ring.columns() {
            ..=2 => 8,
            3..=4 => 4,
            5..=8 => 2,
            _ => 1,
        };
        let (kernel, here) =
            if jobs == 1 { ("becalm_bundle_one", 1) } else { ("becalm_bundle_many", most) };
        let grid = [ring.m() / BUNDLE_POINTS, groups, jobs.div_ceil(here)];
        let shared = here * ring.group_ggsws * BUNDLE_POINTS * ring.point_bytes();
        Launch::of(kernel, grid, BUNDLE_POINTS * ring.level * ring.columns(), shared)
    }

    /// As [`Launch::bundle`], by the tensor cores; `None` where values are residues or steps classic. Shared memory:
    /// a quarter of the roots, the key's values of 32 leaves and 4 polynomials, twice as many results of 8 jobs, exponents.
    pub fn bundle_tensor(ring: &Ring, groups: u32, jobs: u32) -> Option<Self> {
        if ring.group_ggsws == 0 || ring.is_exact() {
            return None;
        }
        let (pairs, stride) = (ring.group_ggsws.div_ceil(2), BUNDLE_POINTS + 1);
        let tiles = (ring.level * ring.columns() * ring.columns()).div_ceil(4);
        let values = ring.m() + (2 * pairs * 4 + 2 * 8 * 4) * stride;
        let shared = values * ring.point_bytes() + TENSOR_JOBS * (2 * pairs + 1) * 4;
        let grid = [ring.m() / BUNDLE_POINTS, groups * tiles, jobs.div_ceil(TENSOR_JOBS)];
        Some(Launch::of("becalm_bundle_tensor", grid, 256, shared))
    }

    /// acc, tables or 0, exponents, width, bundles, job stride, flags, steps, table: a cluster of 16 or 4 `blocks` for each ciphertext. As `LeavesLayout` of
    /// `kernels/leaves.cuh`: points of both polynomials three or four times, a ring of pieces of bundles, mbarriers.
    pub fn rotate_leaves(jobs: u32, blocks: u32) -> Self {
        let (kernel, threads, stages, exchanges) = match blocks {
            16 => ("becalm_rotate_leaves_16", 64, 8, 4),
            _ => ("becalm_rotate_leaves_4", 256, 3, 3),
        };
        let (points, piece) = (2 * 1024 / blocks, 4096 / blocks);
        let shared = 16 * (exchanges * points + stages * piece) + 8 * (2 + 2 * stages);
        let grid = [jobs * blocks, 1, 1];
        Launch { cluster: blocks, ..Launch::of(kernel, grid, threads, shared) }
    }

    /// bundles, flags, key, exponents, steps, table. In each of 8 warps: two tiles of the key, 16 factors at 8 leaves, two mbarriers.
    pub fn bundle_stream(blocks: u32) -> Self {
        let warp = 16 * (2 * 512 + 16 * 8) + 2 * 8;
        Launch::of("becalm_bundle_stream", [blocks, 1, 1], 256, 8 * warp)
    }

    /// out, sums, rounds, kind: `kernels/micro.cuh`, as all of these.
    pub fn micro_fp64(blocks: u32, threads: u32) -> Self {
        Launch::of("becalm_micro_fp64", [blocks, 1, 1], threads, 0)
    }

    /// out, sums, data, count, rounds.
    pub fn micro_read(blocks: u32, threads: u32) -> Self {
        Launch::of("becalm_micro_read", [blocks, 1, 1], threads, 0)
    }

    /// out, rounds: one cluster of `cluster` blocks.
    pub fn micro_barrier(cluster: u32, threads: u32) -> Self {
        Launch { cluster, ..Launch::of("becalm_micro_barrier", [cluster, 1, 1], threads, 0) }
    }

    /// out, last, rounds.
    pub fn micro_remote() -> Self {
        Launch { cluster: 2, ..Launch::of("becalm_micro_remote", [2, 1, 1], 128, 1024) }
    }

    /// outputs, inputs, room for [`KeySwitch::digit_bytes`], shape, jobs.
    pub fn key_switch_start(shape: &KeySwitch, jobs: u32) -> Self {
        let parts = shape.steps().div_ceil(8).clamp(1, 64);
        Launch::of("becalm_key_switch_start", [jobs.div_ceil(16), parts, 1], 256, 0)
    }

    /// outputs, digits, key, shape, jobs, slices; after [`Launch::key_switch_start`]. `slices`: [`KeySwitch::slices`].
    pub fn key_switch(shape: &KeySwitch, jobs: u32, slices: u32) -> Self {
        let kernel = if shape.word == 32 { "becalm_key_switch_32" } else { "becalm_key_switch_64" };
        let blocks = (shape.warps(jobs) * slices).div_ceil(KEY_SWITCH_WARPS);
        Launch::of(kernel, [blocks, 1, 1], 32 * KEY_SWITCH_WARPS, 0)
    }

    /// exponents, inputs, dimension, centered, packed exponents, their stride or 0 for none, flags, how many.
    pub fn modulus_switch(jobs: u32) -> Self {
        Launch::of("becalm_modulus_switch", [jobs, 1, 1], 256, 128)
    }

    /// ops, terms: `ops` of them, the largest of `words` words.
    pub fn linear(ops: u32, words: u64) -> Self {
        let blocks = words.div_ceil(256).clamp(1, 1024) as u32;
        Launch::of("becalm_linear", [blocks, ops, 1], 256, 0)
    }

    /// out, in, count, table: polynomials to the Fourier domain.
    pub fn to_fourier(ring: &Ring, count: u32) -> Self {
        Launch::convert("becalm_to_fourier", ring, count)
    }

    /// out, in, count, table: and back, which the emulator alone has, for tests.
    pub fn from_fourier(ring: &Ring, count: u32) -> Self {
        Launch::convert("becalm_from_fourier", ring, count)
    }

    fn convert(kernel: &'static str, ring: &Ring, count: u32) -> Self {
        let here = (128 / ring.threads()).max(1);
        let grid = [count.div_ceil(here), 1, 1];
        Launch::of(kernel, grid, here * ring.threads(), here * ring.m() * ring.point_bytes())
    }
}

/// Two words of 32 bits as they lie in one of 64.
pub(crate) fn two(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl LinearOp {
    /// As it lies in memory.
    pub fn words(&self) -> [u64; 6] {
        [
            self.dst,
            self.constants,
            two(self.first_term, self.terms),
            two(self.rows, self.width),
            two(self.bodies, self.dst_stride),
            two(self.src_stride, self.body_shift),
        ]
    }
}

impl LinearTerm {
    /// As it lies in memory.
    pub fn words(&self) -> [u64; 2] {
        [self.src, self.factor]
    }
}

impl Extraction {
    /// As it lies in memory.
    pub fn words(&self) -> [u64; 2] {
        [self.out, two(self.job, self.index)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_refuses_is_refused() {
        let shape = KeySwitch {
            input_dimension: 2048,
            output_dimension: 920,
            bodies: 1,
            shared: 0,
            base_log: 3,
            level: 5,
            parts: 1,
            word: 32,
        };
        let most = 1 << 20;
        assert_eq!(Launch::key_switch(&shape, most, 1).check(&DeviceInfo::h100()), Ok(()));
        assert_eq!(Launch::key_switch_start(&shape, most).check(&DeviceInfo::h100()), Ok(()));
        let good = Launch { cluster: 2, ..Launch::of("kernel", [GRID[0] - 1, 1, 1], 1024, 0) };
        assert_eq!(good.check(&DeviceInfo::h100()), Ok(()));
        let large = Launch { cluster: LARGE_CLUSTER, grid: [32, 1, 1], ..good };
        assert_eq!(large.check(&DeviceInfo::h100()), Ok(()));
        for (bad, why) in [
            (Launch { grid: [2, 65536, 1], ..good }, "65535"),
            (Launch { grid: [2, 1, 65536], ..good }, "65535"),
            (Launch { grid: [GRID[0] + 1, 1, 1], ..good }, "65535"),
            (Launch { grid: [2, 0, 1], ..good }, "65535"),
            (Launch { block: 1025, ..good }, "1024"),
            (Launch { block: 0, ..good }, "1024"),
            (Launch { cluster: 17, grid: [17, 1, 1], ..good }, "1 to 16"),
            (Launch { cluster: 0, ..good }, "1 to 16"),
            (Launch { grid: [3, 1, 1], ..good }, "fill"),
            (Launch { shared: (227 << 10) + 1, ..good }, "shared"),
        ] {
            assert!(bad.check(&DeviceInfo::h100()).is_err_and(|e| e.contains(why)), "{bad:?}");
        }
        let older = DeviceInfo { capability: (8, 6), ..DeviceInfo::h100() };
        for launch in [good, large] {
            assert!(launch.check(&older).is_err_and(|e| e.contains("no clusters")));
        }
    }
}
