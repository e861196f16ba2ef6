//! How a batch is cut for a device: which kernel rotates, how many ciphertexts at once, how many steps a launch.
//!
//! Few ciphertexts take a cluster of blocks each, many a block for two. As many go at once as the device has room for. The
//! bundles of a multi-bit rotation are made in chunks of steps, two chunks in turn, which together stay in the second-level
//! cache. The constants are guesses from the machine's sizes: none was measured.

use becalm_cuda::launch::{KeySwitch, Launch, Path};
use becalm_cuda::{DeviceInfo, Ring};

/// Steps of a chunk at most: bundles of the next chunk are made beside the rotation of this one, so the first alone delays.
const STEPS: u32 = 16;
/// Blocks of a cluster that every GPU with clusters can have.
const CLUSTER: u32 = 8;

/// How bootstraps run on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub path: Path,
    /// Ciphertexts at once.
    pub tile: u32,
    /// Steps of a launch.
    pub chunk: u32,
}

/// The plan for `jobs` ciphertexts and a rotation of `steps` steps; `None` if no kernel of the ring fits the device.
pub(super) fn plan(info: &DeviceInfo, ring: &Ring, jobs: u32, steps: u32) -> Option<Plan> {
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
            bundles.clamp(1, u64::from(STEPS)) as u32
        }
    };
    Some(Plan { path, tile, chunk: chunk.clamp(1, steps.max(1)) })
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

    fn h100() -> DeviceInfo {
        DeviceInfo {
            name: "H100".into(),
            capability: (9, 0),
            multiprocessors: 132,
            shared: 227 << 10,
            memory: 80 << 30,
            cache: 50 << 20,
        }
    }

    #[test]
    fn few_take_clusters_and_many_share_blocks() {
        let of = |jobs| plan(&h100(), &RINGS[1], jobs, 230).unwrap();
        assert_eq!(of(1), Plan { path: Path::Cluster, tile: 1, chunk: 16 });
        assert_eq!((of(66).path, of(66).tile), (Path::Cluster, 66));
        assert_eq!((of(67).path, of(67).tile), (Path::Pair, 67));
        // 264 bundles of 64 KiB are more than a quarter of the cache.
        assert_eq!(of(8192), Plan { path: Path::Pair, tile: 264, chunk: 1 });
        let classic = plan(&h100(), &RINGS[0], 8192, 918).unwrap();
        assert_eq!((classic.path, classic.chunk), (Path::Pair, 918));
    }

    #[test]
    fn what_a_device_lacks_is_not_planned() {
        // A100: no clusters, and a pair of N = 2048 needs more shared memory than it has.
        let a100 = DeviceInfo { capability: (8, 0), shared: 163 << 10, ..h100() };
        assert_eq!(plan(&a100, &RINGS[1], 1, 230).unwrap().path, Path::Block);
        assert_eq!(plan(&a100, &RINGS[1], 500, 230).unwrap().path, Path::Block);
        // cm_2_2_w4 has five columns of 2048 coefficients, which only a cluster holds.
        let last = RINGS.iter().find(|r| r.bodies == 4 && r.k == 1).unwrap();
        assert_eq!(plan(&h100(), last, 500, 900).unwrap().path, Path::Cluster);
        assert_eq!(plan(&a100, last, 500, 900), None);
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
        assert!(slices(&h100(), &shape, 1) > 20);
        assert_eq!(slices(&h100(), &shape, 8192), 1);
    }
}
