//! The bootstraps of a tile: modulus switch, tables, all steps of the rotation, extraction. `tiling.rs` says which kernels.

use super::layout::Step;
use super::state::{CudaSession, Running};
use super::tiling::{Ahead, Chunks, Ends, How, Tiling, ahead, bundle_bytes, ends, parts};
use super::{launch, no_kernel, refused};
use crate::Result;
use crate::backend::registers::not_loaded;
use crate::params::ModulusSwitch;
use becalm_cuda::Argument;
use becalm_cuda::launch::{Launch, TILES, UNIT_JOBS};

/// A part of a tile: its number, the number of its first ciphertext, and how many it has of the tile's `jobs`.
#[derive(Clone, Copy)]
struct Part {
    number: u32,
    first: u32,
    here: u32,
    jobs: u32,
}

/// Where a bootstrap's intermediate values lie.
pub(super) struct Scratch {
    exponents: u64,
    /// Exponents of 16 bits and flags, where bundles are made ahead.
    packed: u64,
    flags: u64,
    flag_count: u32,
    accumulators: u64,
    bundles: [u64; 2],
    pub end: u64,
}

impl CudaSession {
    /// Places in the scratch memory at an address.
    pub(super) fn scratch(&self, at: u64, tiling: &Tiling) -> Scratch {
        let p = &self.params;
        let place = |at: u64, bytes: usize| at + (bytes as u64).next_multiple_of(256);
        let tile = tiling.tile as usize;
        let packed = place(at, tile * (p.ggsw_count() + p.slots) * 4);
        let (first_bytes, second_bytes, flag_count) = self.room(tiling);
        let streamed = tiling.how == How::Ahead;
        // A unit that is not full reads on.
        let rows = if streamed { self.groups() * self.stride(tiling.tile) + UNIT_JOBS } else { 0 };
        let flags = place(packed, rows as usize * 32);
        let accumulators = place(flags, flag_count as usize * 4);
        let first = place(accumulators, self.ring.accumulator_bytes(tile as u64) as usize);
        let second = place(first, first_bytes);
        let end = place(second, second_bytes);
        let bundles = [first, second];
        Scratch { exponents: at, packed, flags, flag_count, accumulators, bundles, end }
    }

    /// Jobs from one step to the next in the exponents of 16 bits.
    fn stride(&self, jobs: u32) -> u32 {
        jobs.next_multiple_of(UNIT_JOBS)
    }

    /// Bytes of the two rooms for bundles of a tile, and how many flags it has.
    fn room(&self, tiling: &Tiling) -> (usize, usize, u32) {
        let bundle = bundle_bytes(&self.ring) as usize;
        let groups = self.groups();
        match tiling.how {
            How::Chunks(_) if self.ring.group_ggsws == 0 => (0, 0, 0),
            How::Chunks(Chunks { chunk, .. }) => {
                let bytes = (tiling.tile * chunk) as usize * bundle;
                (bytes, bytes, 0)
            }
            How::Ahead => {
                // A wave's last tile may be smaller, and a tile's last part, which is then rotated in another way.
                let most = ends(self.device.info(), &self.tuning).batch;
                let each = |jobs: u32| match ahead(self.device.info(), jobs, &self.tuning) {
                    Ahead::Batch { slots, .. } => (slots * UNIT_JOBS) as usize * bundle,
                    Ahead::Leaves { .. } => (jobs * groups) as usize * bundle,
                };
                let bytes = (1..=tiling.tile.min(most)).map(each).max().unwrap_or(0);
                (bytes, 0, tiling.tile.div_ceil(most) * self.part_flags())
            }
        }
    }

    /// Launches of a step of `jobs` bootstraps.
    pub(super) fn bootstrap_launches(&self, how: How, jobs: u32) -> u32 {
        match how {
            How::Ahead => {
                let of = |here: u32| match ahead(self.device.info(), here, &self.tuning) {
                    Ahead::Batch { .. } => 1,
                    Ahead::Leaves { .. } => 2,
                };
                let parts = parts(self.device.info(), jobs, &self.tuning).map(|(_, here)| of(here));
                2 + u32::from(self.has_batch(jobs)) + parts.sum::<u32>()
            }
            How::Chunks(_) if self.ring.group_ggsws == 0 => 4,
            How::Chunks(Chunks { chunk, .. }) => 3 + 2 * self.groups().div_ceil(chunk),
        }
    }

    /// Whether the first part of `jobs` ciphertexts, which is the largest, is a batch: it wants its accumulators loaded.
    fn has_batch(&self, jobs: u32) -> bool {
        let Ends { together, .. } = ends(self.device.info(), &self.tuning);
        jobs > together
    }

    /// Flags of a part: two for each unit of a batch, or a quarter of the leaves each for the units of clusters.
    fn part_flags(&self) -> u32 {
        let Ends { together, batch, .. } = ends(self.device.info(), &self.tuning);
        (2 * batch.div_ceil(UNIT_JOBS)).max(4 * together.div_ceil(UNIT_JOBS)) * self.groups()
    }

    /// Modulus switch, tables, rotation, extraction of one tile.
    pub(super) fn tile(&self, running: &Running, step: &Step) -> Result<()> {
        let Step::Bootstrap { inputs, tables, extractions, count, jobs } = step else {
            return Ok(());
        };
        let (device, ring, p) = (self.device.as_ref(), &self.ring, &self.params);
        let scratch = self.scratch(running.scratch.at(), &running.tiling);
        let at = |byte: u64| Argument::Address(running.lists.at() + byte);
        let (exponents, acc) =
            (Argument::Address(scratch.exponents), Argument::Address(scratch.accumulators));
        let centered = u32::from(p.modulus_switch == ModulusSwitch::Centered);
        let (dimension, width) = (p.lwe_dimension as u32, (p.ggsw_count() + p.slots) as u32);
        let streamed = running.tiling.how == How::Ahead;
        // One ciphertext's bundles are made from the exponents as they are.
        let packs = streamed && *jobs > 1;
        let switch = [
            exponents,
            at(*inputs),
            Argument::U32(dimension),
            Argument::U32(centered),
            Argument::Address(scratch.packed),
            Argument::U32(if packs { self.stride(*jobs) } else { 0 }),
            Argument::Address(scratch.flags),
            Argument::U32(scratch.flag_count),
        ];
        let load = [acc, at(*tables), exponents, Argument::U32(width)];
        // SAFETY: `jobs` addresses of small ciphertexts and of columns of tables; scratch holds a tile.
        unsafe {
            launch("run", device, 0, ring, &Launch::modulus_switch(*jobs), &switch)?;
        }
        let begin = || {
            // SAFETY: as above.
            unsafe { launch("run", device, 0, ring, &Launch::load_table(*jobs), &load) }
        };
        match running.tiling.how {
            How::Chunks(chunks) => {
                begin()?;
                self.rotate(chunks, &scratch, *jobs)?;
            }
            How::Ahead => {
                if self.has_batch(*jobs) {
                    begin()?;
                }
                self.rotate_parts(&scratch, running.lists.at() + *tables, *jobs)?;
            }
        }
        let extract = Launch::sample_extract(*count);
        // SAFETY: `count` extractions of these accumulators into registers of this device.
        unsafe { launch("run", device, 0, ring, &extract, &[at(*extractions), acc]) }
    }

    /// All steps of a tile whose bundles are made ahead, a part after the other.
    fn rotate_parts(&self, scratch: &Scratch, tables: u64, jobs: u32) -> Result<()> {
        let info = self.device.info();
        for (number, (first, here)) in (0..).zip(parts(info, jobs, &self.tuning)) {
            let part = Part { number, first, here, jobs };
            match ahead(info, here, &self.tuning) {
                Ahead::Batch { makers, slots } => {
                    self.rotate_batch(scratch, part, makers, slots)?;
                }
                Ahead::Leaves { blocks } => self.rotate_leaves(scratch, tables, part, blocks)?,
            }
        }
        Ok(())
    }

    /// The place of a part's flags.
    fn flags(&self, scratch: &Scratch, part: Part) -> Argument {
        Argument::Address(scratch.flags + u64::from(part.number * self.part_flags()) * 4)
    }

    /// Values of a ciphertext's bundles, all steps of it.
    fn bundle_stride(&self) -> u64 {
        u64::from(self.groups()) * bundle_bytes(&self.ring) / u64::from(self.ring.point_bytes())
    }

    /// The bundles of a part of a tile for all steps, on stream 1, behind what is on stream 0.
    fn bundles_ahead(&self, scratch: &Scratch, part: Part) -> Result<()> {
        let (device, ring) = (self.device.as_ref(), &self.ring);
        device.follow(1, 0).map_err(|f| refused("run", device, f))?;
        let Part { first, here, jobs, .. } = part;
        let key = self.keys()?.bootstrap.as_ref().ok_or_else(not_loaded)?.at();
        let (bundles, flags) = (Argument::Address(scratch.bundles[0]), self.flags(scratch, part));
        let (key, roots) = (Argument::Address(key), Argument::Address(self.keys()?.roots.at()));
        let steps = Argument::U32(self.groups());
        let blocks = TILES.min(device.info().multiprocessors);
        if here == 1 {
            let width = (self.params.ggsw_count() + self.params.slots) as u64;
            let exponents = Argument::Address(scratch.exponents + u64::from(first) * width * 4);
            let arguments = [bundles, flags, key, exponents, steps, roots];
            let shape = Launch::bundle_stream(blocks);
            // SAFETY: the key of every step, exponents of one ciphertext, room for its bundles, flags of all steps.
            return unsafe { launch("run", device, 1, ring, &shape, &arguments) };
        }
        let arguments = [
            bundles,
            Argument::U64(self.bundle_stride()),
            flags,
            key,
            Argument::Address(scratch.packed + u64::from(first) * 32),
            Argument::U32(self.stride(jobs)),
            steps,
            Argument::U32(here),
            roots,
        ];
        // SAFETY: the same of `here` ciphertexts; a unit that is not full reads exponents of others, or behind them.
        unsafe { launch("run", device, 1, ring, &Launch::bundle_ahead(blocks), &arguments) }
    }

    /// All steps of a part by clusters that split leaves. A thread takes its points of the tables, whose addresses are at `tables`, by itself.
    fn rotate_leaves(&self, scratch: &Scratch, tables: u64, part: Part, blocks: u32) -> Result<()> {
        let (device, ring) = (self.device.as_ref(), &self.ring);
        let polynomials = u64::from(ring.columns() * ring.n() * 8);
        let width = (self.params.ggsw_count() + self.params.slots) as u64;
        self.bundles_ahead(scratch, part)?;
        let first = u64::from(part.first);
        let arguments = [
            Argument::Address(scratch.accumulators + first * polynomials),
            Argument::Address(tables + first * u64::from(ring.columns()) * 8),
            Argument::Address(scratch.exponents + first * width * 4),
            Argument::U32(width as u32),
            Argument::Address(scratch.bundles[0]),
            Argument::U64(self.bundle_stride()),
            self.flags(scratch, part),
            Argument::U32(self.groups()),
            Argument::Address(self.keys()?.roots.at()),
        ];
        let shape = Launch::rotate_leaves(part.here, blocks);
        // SAFETY: accumulators, tables and exponents of the part, and the bundles that stream 1 makes of them.
        unsafe { launch("run", device, 0, ring, &shape, &arguments)? };
        // What comes next may use the bundles' room again.
        device.follow(0, 1).map_err(|f| refused("run", device, f))
    }

    /// All steps of a part by one launch, whose blocks rotate or make bundles.
    fn rotate_batch(&self, scratch: &Scratch, part: Part, makers: u32, slots: u32) -> Result<()> {
        let key = self.keys()?.bootstrap.as_ref().ok_or_else(not_loaded)?.at();
        let polynomials = u64::from(self.ring.columns() * self.ring.n() * 8);
        let first = u64::from(part.first);
        let arguments = [
            Argument::Address(scratch.accumulators + first * polynomials),
            Argument::Address(scratch.bundles[0]),
            self.flags(scratch, part),
            Argument::Address(key),
            Argument::Address(scratch.packed + first * 32),
            Argument::U32(self.stride(part.jobs)),
            Argument::U32(self.groups()),
            Argument::U32(part.here),
            Argument::U32(slots),
            Argument::Address(self.keys()?.roots.at()),
        ];
        let shape = Launch::rotate_batch(part.here, makers);
        // SAFETY: accumulators and exponents of the part, the key of every step, a ring of `slots`, and two flags for each unit and step.
        unsafe { launch("run", self.device.as_ref(), 0, self.ring, &shape, &arguments) }
    }

    /// Every step of a tile. While a chunk rotates on stream 0 the bundles of the next are made on stream 1.
    fn rotate(&self, tiling: Chunks, scratch: &Scratch, jobs: u32) -> Result<()> {
        let (device, ring) = (self.device.as_ref(), &self.ring);
        let key = self.keys()?.bootstrap.as_ref().ok_or_else(not_loaded)?.at();
        let fail = |f| refused("run", device, f);
        let roots = Argument::Address(self.keys()?.roots.at());
        let width = (self.params.ggsw_count() + self.params.slots) as u32;
        let (groups, chunk) = (self.groups(), tiling.chunk);
        let steps = |first: u32| chunk.min(groups - first);
        let grouped = ring.group_ggsws > 0;
        let shape = Launch::rotate(ring, tiling.path, jobs)
            .ok_or_else(|| no_kernel("run", device, ring))?;
        if grouped {
            device.follow(1, 0).map_err(fail)?;
            self.bundles(tiling, scratch, jobs, 0)?;
        }
        for c in 0..groups.div_ceil(chunk) {
            let first = c * chunk;
            let (at, stride) = match grouped {
                true => (
                    scratch.bundles[c as usize % 2],
                    u64::from(steps(first)) * bundle_bytes(ring) / u64::from(ring.point_bytes()),
                ),
                false => (key + u64::from(first) * bundle_bytes(ring), 0),
            };
            if grouped {
                // Stream 1 waits for the rotation before this one, whose bundles it will overwrite, not for this one.
                device.follow(1, 0).map_err(fail)?;
                device.follow(0, 1).map_err(fail)?;
            }
            let arguments = [
                Argument::Address(scratch.accumulators),
                Argument::Address(at),
                Argument::U64(stride),
                self.exponents(scratch, first),
                Argument::U32(width),
                Argument::U32(steps(first)),
                Argument::U32(jobs),
                roots,
            ];
            // SAFETY: accumulators and exponents of `jobs`, the GGSW or bundles of these steps.
            unsafe { launch("run", device, 0, ring, &shape, &arguments)? };
            if grouped && (c + 1) * chunk < groups {
                self.bundles(tiling, scratch, jobs, c + 1)?;
            }
        }
        Ok(())
    }

    /// Where the exponents of a group are.
    fn exponents(&self, scratch: &Scratch, group: u32) -> Argument {
        let values = group * self.ring.group_ggsws.max(1);
        Argument::Address(scratch.exponents + u64::from(values) * 4)
    }

    /// The bundles of chunk `c`, on stream 1.
    fn bundles(&self, tiling: Chunks, scratch: &Scratch, jobs: u32, c: u32) -> Result<()> {
        let (device, ring) = (self.device.as_ref(), &self.ring);
        let (first, slot) = (c * tiling.chunk, scratch.bundles[c as usize % 2]);
        let key = self.keys()?.bootstrap.as_ref().ok_or_else(not_loaded)?.at();
        let key = key + u64::from(first * ring.group_ggsws) * bundle_bytes(ring);
        let arguments = [
            Argument::Address(slot),
            Argument::Address(key),
            self.exponents(scratch, first),
            Argument::U32((self.params.ggsw_count() + self.params.slots) as u32),
            Argument::U32(jobs),
            Argument::Address(self.keys()?.roots.at()),
        ];
        let groups = tiling.chunk.min(self.groups() - first);
        let tensor = tiling.tensor.then(|| Launch::bundle_tensor(ring, groups, jobs)).flatten();
        let shape = tensor.unwrap_or_else(|| Launch::bundle(ring, groups, jobs));
        // SAFETY: the GGSW of these groups, and room for a bundle of each job and group; stream 1 follows stream 0.
        unsafe { launch("run", device, 1, ring, &shape, &arguments) }
    }
}
