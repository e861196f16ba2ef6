//! How a batch is cut for a device: which kernel rotates, how many ciphertexts at once, how many steps a launch.
//!
//! In the ring of the multi-bit sets of 2048 coefficients, on GPUs with clusters, bundles are made *ahead*: one launch makes those of all
//! steps while another rotates ([`Ahead`]). Few ciphertexts take clusters of 16 or 4 blocks that split the leaves of the transform. More
//! go in parts, by one kernel whose blocks rotate a ciphertext each or make bundles; what is left over takes its own best way.
//!
//! Elsewhere few ciphertexts take a cluster of a block for each column, many a block for two. As many go at once as the device has room
//! for. The bundles of a multi-bit rotation are made in chunks of steps, two chunks in turn, which together stay in the second-level
//! cache.

use crate::{Error, Result};
use becalm_cuda::key_switch::{KEY_SWITCH_WARPS, KeySwitch};
use becalm_cuda::launch::{BATCH_SHARED, CLUSTER, Launch, Path, TILES, UNIT_JOBS};
use becalm_cuda::{DeviceInfo, Ring};

/// Settings that a first measurement chooses; `BECALM_CUDA_TUNE="chunk=8 tensor=0"` sets some of them for that measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tuning {
    /// Steps of a chunk at most: bundles of the next chunk are made beside the rotation of this one, so the first alone delays.
    pub chunk: u32,
    /// Ciphertexts at once from which bundles are made on tensor cores, where the ring has that kernel; 0 for never. A product
    /// takes eight; below a few of these the key's way into shared memory is not shared by enough.
    pub tensor: u32,
    /// Launches from which a wave that comes again is recorded and replayed as one.
    pub recorded: u32,
    /// Megabytes of page-locked memory that copies of a GPU go through; 0 for none.
    pub staging: u32,
    /// Whether the stream of the rotations goes before that of the bundles; 0 for streams of one priority.
    pub priorities: u32,
    /// Whether bundles are made ahead of the rotation, where the kernels for that are; 0 for chunks.
    pub ahead: u32,
    /// Ciphertexts up to which each takes a cluster of 16 blocks; 0 for as many as run at once.
    pub few: u32,
    /// Ciphertexts up to which each takes a cluster of 4 blocks; 0 for as many as run at once.
    pub together: u32,
    /// Ciphertexts of a batch at most; 0 for as many as there are blocks that do not make bundles, in whole units.
    pub batch: u32,
    /// Blocks of a key switch of few ciphertexts, a multiprocessor.
    pub slices: u32,
    /// Blocks that make the bundles of a batch; 0 for half of the leaves' tiles, or of the multiprocessors.
    pub makers: u32,
    /// Units of 16 bundles that the ring of a batch holds beside one for each unit of ciphertexts.
    pub spare: u32,
    /// Lanes of CKKS that go together in each launch, at most.
    pub group: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        let chunks = Tuning { chunk: 16, tensor: 32, recorded: 2, staging: 32, ..Tuning::none() };
        Tuning { priorities: 1, ahead: 1, slices: 4, spare: 16, group: 4, ..chunks }
    }
}

impl Tuning {
    /// Every number 0.
    const fn none() -> Self {
        Tuning {
            chunk: 0,
            tensor: 0,
            recorded: 0,
            staging: 0,
            priorities: 0,
            ahead: 0,
            few: 0,
            together: 0,
            batch: 0,
            slices: 0,
            makers: 0,
            spare: 0,
            group: 0,
        }
    }

    /// The settings of `$BECALM_CUDA_TUNE`, with defaults for the others.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another name, or no number.
    pub fn from_environment() -> Result<Self> {
        let text = std::env::var_os("BECALM_CUDA_TUNE").unwrap_or_default();
        // Text that is not Unicode is not such a word either; the error shows the characters that can be shown.
        Tuning::parse(&text.to_string_lossy())
    }

    fn parse(text: &str) -> Result<Self> {
        let mut tuning = Tuning::default();
        for word in text.split_whitespace() {
            let place = match word.split_once('=').map_or(word, |(name, _)| name) {
                "chunk" => Some(&mut tuning.chunk),
                "tensor" => Some(&mut tuning.tensor),
                "recorded" => Some(&mut tuning.recorded),
                "staging" => Some(&mut tuning.staging),
                "priorities" => Some(&mut tuning.priorities),
                "ahead" => Some(&mut tuning.ahead),
                "few" => Some(&mut tuning.few),
                "together" => Some(&mut tuning.together),
                "batch" => Some(&mut tuning.batch),
                "slices" => Some(&mut tuning.slices),
                "makers" => Some(&mut tuning.makers),
                "spare" => Some(&mut tuning.spare),
                "group" => Some(&mut tuning.group),
                _ => None,
            };
            let value = word.split_once('=').and_then(|(_, value)| value.parse().ok());
            match (place, value) {
                (Some(place), Some(value)) if value > 0 || !word.starts_with("chunk") => {
                    *place = value
                }
                _ => {
                    let wanted = "chunk=N from 1 on, or N for tensor, recorded, staging, priorities, ahead, few, together, batch, slices, makers, spare or group";
                    let remedy = "write it so, or unset BECALM_CUDA_TUNE";
                    return Err(Error::bad_input("BECALM_CUDA_TUNE", wanted, word, remedy));
                }
            }
        }
        Ok(tuning)
    }
}

/// How bootstraps run on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tiling {
    /// Ciphertexts at once.
    pub tile: u32,
    pub how: How,
}

/// Where bundles come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// They are made ahead of the rotation, for all steps: [`Ahead`].
    Ahead,
    /// They are made in chunks of steps, or steps are classic.
    Chunks(Chunks),
}

/// Launches of some steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunks {
    pub path: Path,
    /// Steps of a launch.
    pub chunk: u32,
    /// Whether bundles are products of the tensor cores.
    pub tensor: bool,
}

/// How a number of ciphertexts is rotated whose bundles are made ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ahead {
    /// A cluster of so many blocks for each, which split the leaves of the transform.
    Leaves { blocks: u32 },
    /// A block for each and `makers` blocks that make bundles, and a ring of so many slots of 16.
    Batch { makers: u32, slots: u32 },
}

/// Multiprocessors from which there is always room for a block that makes bundles beside the clusters that wait for it.
const LEAST: u32 = 16;

/// Whether bundles of a ring are made ahead on a device.
pub(super) fn streams(info: &DeviceInfo, ring: &Ring, tuning: &Tuning) -> bool {
    let fits = info.clusters() && info.fast_doubles() && info.shared >= BATCH_SHARED;
    tuning.ahead > 0 && ring.is_streamed() && fits && info.multiprocessors >= LEAST
}

/// Clusters of so many blocks, one a multiprocessor, that run at once: a part of the multiprocessors of a group is left over. An
/// H100 of 132 has room for 7 of 16 and 30 of 4.
fn clusters_at_once(info: &DeviceInfo, blocks: u32) -> u32 {
    let usable =
        if blocks == 16 { info.multiprocessors * 8 / 9 } else { info.multiprocessors * 10 / 11 };
    (usable / blocks).max(1)
}

/// Numbers of ciphertexts at which a rotation changes its kernel whose bundles are made ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    /// Up to which each takes a cluster of 16 blocks.
    pub few: u32,
    /// Up to which each takes a cluster of 4; more are a batch.
    pub together: u32,
    /// Of a batch at most. More go in parts.
    pub batch: u32,
}

/// The numbers of a device.
pub(super) fn ends(info: &DeviceInfo, tuning: &Tuning) -> Ends {
    let rotators = info.multiprocessors.saturating_sub(makers(info, tuning)).max(1);
    let units = if rotators >= UNIT_JOBS { rotators / UNIT_JOBS * UNIT_JOBS } else { rotators };
    let batch = or(tuning.batch.min(rotators), units);
    let together = or(tuning.together.min(MOST), clusters_at_once(info, 4));
    Ends { few: or(tuning.few, clusters_at_once(info, 16)), together, batch: batch.max(together) }
}

/// A number that is given, or that of a rule.
fn or(given: u32, rule: u32) -> u32 {
    if given == 0 { rule } else { given }
}

/// Blocks that make the bundles of a batch.
fn makers(info: &DeviceInfo, tuning: &Tuning) -> u32 {
    let half = (info.multiprocessors / 2).max(1);
    or(tuning.makers.min(info.multiprocessors - half), half.min(TILES / 2)).max(1)
}

/// How `jobs` ciphertexts, as many as a part has at most, are rotated whose bundles are made ahead.
pub(super) fn ahead(info: &DeviceInfo, jobs: u32, tuning: &Tuning) -> Ahead {
    let Ends { few, together, .. } = ends(info, tuning);
    if jobs <= together {
        return Ahead::Leaves { blocks: if jobs <= few { 16 } else { 4 } };
    }
    let units = jobs.div_ceil(UNIT_JOBS);
    Ahead::Batch {
        makers: makers(info, tuning),
        slots: units + tuning.spare.clamp(units + 6, MOST),
    }
}

/// The parts of a tile of `jobs` ciphertexts: the first of each and how many it has.
pub(super) fn parts(
    info: &DeviceInfo,
    jobs: u32,
    tuning: &Tuning,
) -> impl Iterator<Item = (u32, u32)> + use<> {
    let most = ends(info, tuning).batch;
    (0..jobs).step_by(most as usize).map(move |first| (first, most.min(jobs - first)))
}

/// The tiling for `jobs` ciphertexts and a rotation of `steps` steps; `None` if no kernel of the ring fits the device.
pub(super) fn tiling(
    info: &DeviceInfo,
    ring: &Ring,
    jobs: u32,
    steps: u32,
    tuning: &Tuning,
) -> Option<Tiling> {
    if streams(info, ring, tuning) {
        let tile = jobs.clamp(1, PARTS * ends(info, tuning).batch);
        return Some(Tiling { tile, how: How::Ahead });
    }
    let fits = |path: Path| {
        let launch = Launch::rotate(ring, path, 2)?;
        let cluster = launch.cluster == 1 || (info.clusters() && launch.cluster <= CLUSTER);
        (cluster && launch.shared <= info.shared).then_some(launch.shared)
    };
    let clusters = (info.multiprocessors / ring.columns()).max(1);
    let (path, room) = match (fits(Path::Cluster), fits(Path::Pair), fits(Path::Block)) {
        (Some(_), _, _) if jobs <= clusters => (Path::Cluster, clusters),
        (_, Some(bytes), _) if jobs > 1 => (Path::Pair, 2 * blocks(info, bytes)),
        (_, _, Some(bytes)) => (Path::Block, blocks(info, bytes)),
        (Some(_), _, _) => (Path::Cluster, clusters),
        _ => return None,
    };
    let tile = jobs.clamp(1, room);
    let chunk = match ring.group_ggsws {
        0 => steps,
        _ => {
            let bundles = info.cache / 4 / (u64::from(tile) * bundle_bytes(ring));
            bundles.clamp(1, u64::from(tuning.chunk)) as u32
        }
    };
    let fits = |launch: Launch| launch.shared <= info.shared;
    let tensor = (1..=tile).contains(&tuning.tensor)
        && Launch::bundle_tensor(ring, chunk, tile).is_some_and(fits);
    Some(Tiling {
        tile,
        how: How::Chunks(Chunks { path, chunk: chunk.clamp(1, steps.max(1)), tensor }),
    })
}

/// Parts of a tile at most, which share modulus switch, tables and extraction.
pub(super) const PARTS: u32 = 4;

/// A number of a measurement at most, of ciphertexts or units.
const MOST: u32 = 4096;

/// Ciphertexts for which a device is best used: two a multiprocessor, in whole tiles of a batch.
pub(super) fn best_batch(multiprocessors: u32) -> u32 {
    let two = 2 * multiprocessors;
    if two >= 2 * UNIT_JOBS { two / (2 * UNIT_JOBS) * (2 * UNIT_JOBS) } else { two }
}

/// Blocks of so much shared memory that run at once.
fn blocks(info: &DeviceInfo, bytes: u32) -> u32 {
    (info.multiprocessors * (info.shared / (bytes + 1024)).max(1)).max(1)
}

/// Bytes of a GGSW, or of a bundle, transformed.
pub(super) fn bundle_bytes(ring: &Ring) -> u64 {
    u64::from(ring.level * ring.columns() * ring.columns())
        * u64::from(ring.m() * ring.point_bytes())
}

/// Into how many pieces the rows of a key switch are cut so that its warps fill the device.
pub(super) fn slices(info: &DeviceInfo, shape: &KeySwitch, jobs: u32, tuning: &Tuning) -> u32 {
    shape.slices(jobs, KEY_SWITCH_WARPS * tuning.slices.max(1) * info.multiprocessors)
}

/// Key switches of one launch: as many as fit 32 MB with their digits, but 64 at least.
pub(super) fn switches_at_once(shape: &KeySwitch) -> u32 {
    const DIGITS: u64 = 32 << 20;
    let each = shape.digit_bytes(64).max(1);
    64 * (DIGITS / each).clamp(1, 1 << 10) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use becalm_cuda::RINGS;

    fn chunks(tiling: Option<Tiling>) -> (u32, Chunks) {
        match tiling {
            Some(Tiling { tile, how: How::Chunks(chunks) }) => (tile, chunks),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn few_take_clusters_and_many_share_blocks() {
        let tuning = Tuning { ahead: 0, ..Tuning::default() };
        let of = |jobs| chunks(tiling(&DeviceInfo::h100(), &RINGS[1], jobs, 230, &tuning));
        assert_eq!(of(1), (1, Chunks { path: Path::Cluster, chunk: 16, tensor: false }));
        assert_eq!((of(66).1.path, of(66).0), (Path::Cluster, 66));
        assert_eq!((of(67).1.path, of(67).0), (Path::Pair, 67));
        // 264 bundles of 64 KiB are more than a quarter of the cache.
        assert_eq!(of(8192), (264, Chunks { path: Path::Pair, chunk: 1, tensor: true }));
        assert!(!of(tuning.tensor - 1).1.tensor && of(tuning.tensor).1.tensor);
        let (_, classic) = chunks(tiling(&DeviceInfo::h100(), &RINGS[0], 8192, 918, &tuning));
        assert_eq!((classic.path, classic.chunk, classic.tensor), (Path::Pair, 918, false));
    }

    #[test]
    fn bundles_are_made_ahead_where_the_kernels_are() {
        let (h100, tuning) = (DeviceInfo::h100(), Tuning::default());
        let tile = |jobs| tiling(&h100, &RINGS[1], jobs, 230, &tuning).unwrap();
        assert_eq!(tile(1), Tiling { tile: 1, how: How::Ahead });
        assert_eq!((tile(31).tile, tile(256).tile, tile(8192).tile), (31, 256, 256));
        assert_eq!(ahead(&h100, 7, &tuning), Ahead::Leaves { blocks: 16 });
        assert_eq!(ahead(&h100, 30, &tuning), Ahead::Leaves { blocks: 4 });
        assert_eq!(ahead(&h100, 31, &tuning), Ahead::Batch { makers: 64, slots: 18 });
        assert_eq!(ahead(&h100, 64, &tuning), Ahead::Batch { makers: 64, slots: 20 });
        let tight = Tuning { spare: 0, ..tuning };
        assert_eq!(ahead(&h100, 64, &tight), Ahead::Batch { makers: 64, slots: 14 });
        let cut = |jobs| parts(&h100, jobs, &tuning).collect::<Vec<_>>();
        assert_eq!(cut(64), [(0, 64)]);
        assert_eq!(cut(150), [(0, 64), (64, 64), (128, 22)]);
        // All blocks of a batch are on the device at once, whatever its size.
        for multiprocessors in [16, 20, 46, 78, 114, 132, 148] {
            let info = DeviceInfo { multiprocessors, ..DeviceInfo::h100() };
            let Ends { few, together, batch } = ends(&info, &tuning);
            assert!(few <= together && together <= batch, "{multiprocessors}");
            for jobs in together + 1..=batch {
                let Ahead::Batch { makers, slots } = ahead(&info, jobs, &tuning) else { panic!() };
                assert!(jobs + makers <= multiprocessors, "{multiprocessors}: {jobs}");
                assert!(slots >= 2 * jobs.div_ceil(UNIT_JOBS) + 6);
            }
        }
        let a100 = DeviceInfo { capability: (8, 0), shared: 163 << 10, ..DeviceInfo::h100() };
        assert!(!streams(&a100, &RINGS[1], &tuning) && !streams(&h100, &RINGS[0], &tuning));
        let slice = DeviceInfo { multiprocessors: 14, ..DeviceInfo::h100() };
        assert!(!streams(&slice, &RINGS[1], &tuning));
        assert_eq!((best_batch(132), best_batch(114), best_batch(4)), (256, 224, 8));
    }

    #[test]
    fn measurements_may_set_it() {
        let of = Tuning::parse;
        assert_eq!(of("").unwrap(), Tuning::default());
        let other = Tuning { chunk: 4, tensor: 0, ..Tuning::default() };
        assert_eq!(of("tensor=0  chunk=4").unwrap(), other);
        let chunked = Tuning { ahead: 0, ..other };
        assert!(!chunks(tiling(&DeviceInfo::h100(), &RINGS[1], 8192, 230, &chunked)).1.tensor);
        for wrong in
            ["chunk", "chunk=", "chunk=x", "chunk=0", "chunk=-1", "tile=3", "tensor=99999999999"]
        {
            assert!(of(wrong).unwrap_err().to_string().contains("chunk=N"), "{wrong}");
        }
    }

    #[test]
    fn what_a_device_lacks_is_not_planned() {
        // A100: no clusters, and a pair of N = 2048 needs more shared memory than it has.
        let a100 = DeviceInfo { capability: (8, 0), shared: 163 << 10, ..DeviceInfo::h100() };
        let tuning = Tuning::default();
        let tiling =
            |info: &DeviceInfo, ring: &Ring, jobs, steps| tiling(info, ring, jobs, steps, &tuning);
        assert_eq!(chunks(tiling(&a100, &RINGS[1], 1, 230)).1.path, Path::Block);
        assert_eq!(chunks(tiling(&a100, &RINGS[1], 500, 230)).1.path, Path::Block);
        // cm_2_2_w4 has five columns of 2048 coefficients, which only a cluster holds.
        let last = RINGS.iter().find(|r| r.bodies == 4 && r.k == 1).unwrap();
        assert_eq!(chunks(tiling(&DeviceInfo::h100(), last, 500, 900)).1.path, Path::Cluster);
        assert_eq!(tiling(&a100, last, 500, 900), None);
    }

    #[test]
    fn slices_fill_the_device() {
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
        let slices = |jobs| slices(&DeviceInfo::h100(), &shape, jobs, &Tuning::default());
        // 116 warps have the columns of one ciphertext.
        assert_eq!((slices(1), slices(64), slices(8192)), (19, 19, 1));
        assert_eq!(switches_at_once(&shape), 3264);
        assert!(shape.digit_bytes(3264) < 32 << 20);
    }
}
