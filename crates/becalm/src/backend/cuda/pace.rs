//! The pace of a GPU: the time of a wave by the number of its ciphertexts, for the choice between programs and for their arrangement.
//!
//! Times are those of one H100 (`docs/performance/cuda.md`), for each step of the rotation. The numbers of ciphertexts at which they
//! jump are this GPU's. Another GPU is faster or slower by a factor, which changes no choice.

use super::tiling::{self, Ends, Tuning};
use crate::program::Pace;
use becalm_cuda::{DeviceInfo, Ring};

/// Nanoseconds of key switch, exponents and extraction: of a wave, and of each ciphertext more.
const AROUND: u64 = 40_000;
const EACH: u64 = 700;

/// Nanoseconds of a step by clusters of 16: of one ciphertext, and of as many as run at once.
const FEW: [u64; 2] = [1340, 1830];
/// By clusters of 4: of one ciphertext, and of as many as run at once.
const CLUSTERS: [u64; 2] = [1890, 2350];
/// Of a batch: of as few as make one, and of a full one. Batches follow each other.
const BATCH: [u64; 2] = [2700, 3300];
/// With bundles in chunks: of one ciphertext, of one on every cluster, and of a full tile.
const CHUNKS: [u64; 3] = [3260, 10_700, 32_400];
/// Of a classic rotation, likewise.
const CLASSIC: [u64; 3] = [4300, 4400, 10_400];

/// The pace of a device that rotates `steps` steps.
pub(super) fn pace(info: &DeviceInfo, ring: &Ring, steps: u32, tuning: &Tuning) -> Pace {
    let point = |(count, step): (u32, u64)| {
        let time = AROUND + EACH * u64::from(count) + step * u64::from(steps);
        (count as usize, time)
    };
    if !tiling::streams(info, ring, tuning) {
        let tile = tiling::tiling(info, ring, u32::MAX, steps, tuning).map_or(1, |t| t.tile);
        let one = (info.multiprocessors / ring.columns()).clamp(1, tile);
        let each = if ring.group_ggsws == 0 { CLASSIC } else { CHUNKS };
        return Pace::new([1, one, tile].into_iter().zip(each).map(point));
    }
    let Ends { few, together, batch } = tiling::ends(info, tuning);
    let mut points = vec![];
    for part in 0..tiling::PARTS {
        let kinds = [(1, few, FEW), (few + 1, together, CLUSTERS), (together + 1, batch, BATCH)];
        for (from, to, [first, last]) in kinds.into_iter().filter(|(from, to, _)| from <= to) {
            let before = u64::from(part) * BATCH[1];
            points.extend([
                (part * batch + from, before + first),
                (part * batch + to, before + last),
            ]);
        }
    }
    Pace::new(points.into_iter().map(point))
}

#[cfg(test)]
mod tests {
    use super::*;
    use becalm_cuda::RINGS;

    /// Beside the measured times with key switch, in microseconds.
    #[test]
    fn an_h100_has_the_pace_that_was_measured() {
        let pace = pace(&DeviceInfo::h100(), &RINGS[1], 230, &Tuning::default());
        let measured =
            [(1, 350), (8, 475), (16, 480), (32, 685), (64, 890), (128, 1524), (256, 3312)];
        for (count, wanted) in measured {
            let (got, wanted) = (pace.time(count) as f64 / 1e3, f64::from(wanted));
            assert!((got / wanted - 1.0).abs() < 0.1, "{count}: {got} and {wanted} µs");
        }
        // No number of ciphertexts is a cliff until a batch is full.
        assert!((1..64).all(|n| pace.time(n + 1) < pace.time(n) + 150_000));
        assert_eq!(pace.time(2560), 10 * pace.time(256));
        let small = DeviceInfo { multiprocessors: 16, ..DeviceInfo::h100() };
        for (device, ring) in [(&small, &RINGS[1]), (&DeviceInfo::h100(), &RINGS[0])] {
            let pace = super::pace(device, ring, 230, &Tuning::default());
            assert!((1..600).all(|n| pace.time(n) <= pace.time(n + 1)), "{pace:?}");
        }
    }
}
