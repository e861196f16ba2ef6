//! The sets of the artifact of "Sharing the Mask" (Bergerat et al., TCHES 2025/4): common-mask sets, the classic sets that
//! they are compared with, and those of packing; dimensions only, for estimates and comparisons.
//!
//! All have Gaussian noise on the curve of the paper, σ² = 2^(5.31469 − 0.0497829·n) + 2^4/q² for a key of n bits, and 64-bit
//! moduli. One p_fail is that of a slot.

use crate::params::Noise;
use crate::security::{Instance, Secret};

/// A set of the artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactSet {
    /// `"common mask"`, `"classic"` or `"packing"`.
    pub family: &'static str,
    /// log2 of the failure probability of one slot.
    pub log2_pfail: i32,
    /// Bits of a message with its carry.
    pub bits: u32,
    /// w; 1 for classic sets.
    pub slots: usize,
    /// n.
    pub lwe_dimension: usize,
    /// k·N.
    pub big_dimension: usize,
}

const WIDTHS: [usize; 5] = [2, 4, 6, 8, 10];

/// (log2 p_fail, bits, k·N, n for each of [`WIDTHS`]); with 2 bits at 2^-64, k·N is 1536 up to w = 4.
const COMMON_MASK: [(i32, u32, usize, [usize; 5]); 8] = [
    (-64, 2, 2048, [762, 772, 723, 723, 696]),
    (-64, 4, 2048, [808, 783, 784, 784, 784]),
    (-64, 6, 8192, [936, 909, 909, 909, 909]),
    (-64, 8, 32768, [1077, 1060, 1069, 1075, 1083]),
    (-128, 2, 2048, [767, 767, 767, 737, 737]),
    (-128, 4, 2048, [867, 833, 834, 835, 836]),
    (-128, 6, 8192, [1007, 974, 974, 974, 974]),
    (-128, 8, 65536, [1098, 1070, 1071, 1071, 1071]),
];

/// (family, log2 p_fail, bits, n, k·N).
const OTHERS: [(&str, i32, u32, usize, usize); 12] = [
    ("classic", -64, 2, 790, 1536),
    ("classic", -64, 4, 807, 2048),
    ("classic", -64, 6, 936, 8192),
    ("classic", -64, 8, 1072, 32768),
    ("classic", -128, 2, 838, 2048),
    ("classic", -128, 4, 866, 2048),
    ("classic", -128, 6, 1007, 8192),
    ("classic", -128, 8, 1098, 65536),
    ("packing", -128, 2, 805, 2048),
    ("packing", -128, 4, 891, 2048),
    ("packing", -128, 6, 935, 2048),
    ("packing", -128, 8, 1058, 2048),
];

impl ArtifactSet {
    /// Every set: the forty of the common mask, then the others.
    pub fn all() -> Vec<ArtifactSet> {
        let wide = COMMON_MASK.iter().flat_map(|&(log2_pfail, bits, size, dimensions)| {
            WIDTHS.iter().zip(dimensions).map(move |(&slots, lwe_dimension)| {
                let small = log2_pfail == -64 && bits == 2 && slots <= 4;
                let big_dimension = if small { 1536 } else { size };
                let family = "common mask";
                ArtifactSet { family, log2_pfail, bits, slots, lwe_dimension, big_dimension }
            })
        });
        let others = OTHERS.iter().map(|&(family, log2_pfail, bits, n, big_dimension)| {
            ArtifactSet { family, log2_pfail, bits, slots: 1, lwe_dimension: n, big_dimension }
        });
        wide.chain(others).collect()
    }

    /// log2 of the failure probability of any slot: the union bound.
    pub fn log2_pfail_of_any_slot(&self) -> f64 {
        f64::from(self.log2_pfail) + (self.slots as f64).log2()
    }

    /// The problems of an attacker: the small key and the big one. Each slot is such a pair of its own.
    pub fn instances(&self) -> [Instance; 2] {
        [self.lwe_dimension, self.big_dimension].map(|n| Instance {
            n: n as u32,
            log2_q: 64.0,
            secret: Secret::Binary,
            noise_std: curve(n).variance(64).sqrt() * 64f64.exp2(),
            targets: 1,
        })
    }
}

/// The noise of a key of n bits.
fn curve(n: usize) -> Noise {
    let variance = (5.31469 - 0.0497829 * n as f64).exp2() + (4.0 - 128f64).exp2();
    Noise::Gaussian { std: variance.sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_are_those_of_the_artifact() {
        let all = ArtifactSet::all();
        assert_eq!(all.iter().filter(|s| s.slots > 1).count(), 40);
        // The sample output of the artifact: 140010787519455.5 for n = 790.
        let sample = all.iter().find(|s| s.lwe_dimension == 790).unwrap().instances()[0];
        assert!((sample.noise_std / 140010787519455.5 - 1.0).abs() < 1e-3);
        assert_eq!(all.iter().find(|s| s.slots == 8).unwrap().log2_pfail_of_any_slot(), -61.0);
    }
}
