//! How a batch is cut for a device: which kernel rotates, how many ciphertexts at once, how many steps a launch.
//!
//! Few ciphertexts take a cluster of blocks each, many a block for two. As many go at once as the device has room for. The
//! bundles of a multi-bit rotation are made in chunks of steps, two chunks in turn, which together stay in the second-level
//! cache. The numbers of [`Tuning`] are guesses from the machine's sizes: none was measured.

use crate::{Error, Result};
use becalm_cuda::launch::{CLUSTER, KeySwitch, Launch, Path};
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
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning { chunk: 16, tensor: 32, recorded: 8, staging: 32, priorities: 1 }
    }
}

impl Tuning {
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
                _ => None,
            };
            let value = word.split_once('=').and_then(|(_, value)| value.parse().ok());
            match (place, value) {
                (Some(place), Some(value)) if value > 0 || !word.starts_with("chunk") => {
                    *place = value
                }
                _ => {
                    let wanted =
                        "chunk=N from 1 on, tensor=N, recorded=N, staging=N or priorities=N";
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
    pub path: Path,
    /// Ciphertexts at once.
    pub tile: u32,
    /// Steps of a launch.
    pub chunk: u32,
    /// Whether bundles are products of the tensor cores.
    pub tensor: bool,
}

/// The tiling for `jobs` ciphertexts and a rotation of `steps` steps; `None` if no kernel of the ring fits the device.
pub(super) fn tiling(
    info: &DeviceInfo,
    ring: &Ring,
    jobs: u32,
    steps: u32,
    tuning: &Tuning,
) -> Option<Tiling> {
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
    Some(Tiling { path, tile, chunk: chunk.clamp(1, steps.max(1)), tensor })
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

/// Into how many pieces the rows of a key switch are cut so that its blocks fill the device.
pub(super) fn slices(info: &DeviceInfo, shape: &KeySwitch, jobs: u32) -> u32 {
    let whole = Launch::key_switch(shape, jobs, 1).grid;
    let rows = shape.input_dimension - shape.shared;
    (4 * info.multiprocessors).div_ceil(whole[0] * whole[1]).clamp(1, rows.div_ceil(64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use becalm_cuda::RINGS;

    #[test]
    fn few_take_clusters_and_many_share_blocks() {
        let tuning = Tuning::default();
        let of = |jobs| tiling(&DeviceInfo::h100(), &RINGS[1], jobs, 230, &tuning).unwrap();
        assert_eq!(of(1), Tiling { path: Path::Cluster, tile: 1, chunk: 16, tensor: false });
        assert_eq!((of(66).path, of(66).tile), (Path::Cluster, 66));
        assert_eq!((of(67).path, of(67).tile), (Path::Pair, 67));
        // 264 bundles of 64 KiB are more than a quarter of the cache.
        assert_eq!(of(8192), Tiling { path: Path::Pair, tile: 264, chunk: 1, tensor: true });
        assert!(!of(tuning.tensor - 1).tensor && of(tuning.tensor).tensor);
        let classic = tiling(&DeviceInfo::h100(), &RINGS[0], 8192, 918, &tuning).unwrap();
        assert_eq!((classic.path, classic.chunk, classic.tensor), (Path::Pair, 918, false));
    }

    #[test]
    fn measurements_may_set_it() {
        let of = Tuning::parse;
        assert_eq!(of("").unwrap(), Tuning::default());
        let other = Tuning { chunk: 4, tensor: 0, ..Tuning::default() };
        assert_eq!(of("tensor=0  chunk=4").unwrap(), other);
        assert!(!tiling(&DeviceInfo::h100(), &RINGS[1], 8192, 230, &other).unwrap().tensor);
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
        assert_eq!(tiling(&a100, &RINGS[1], 1, 230).unwrap().path, Path::Block);
        assert_eq!(tiling(&a100, &RINGS[1], 500, 230).unwrap().path, Path::Block);
        // cm_2_2_w4 has five columns of 2048 coefficients, which only a cluster holds.
        let last = RINGS.iter().find(|r| r.bodies == 4 && r.k == 1).unwrap();
        assert_eq!(tiling(&DeviceInfo::h100(), last, 500, 900).unwrap().path, Path::Cluster);
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
            stride: 924,
            word: 32,
        };
        assert!(slices(&DeviceInfo::h100(), &shape, 1) > 20);
        assert_eq!(slices(&DeviceInfo::h100(), &shape, 8192), 1);
    }
}
