//! The sets of the artifact of "Sharing the Mask" (Bergerat et al. 2025) as the peer's crate holds them, for both sides.
//!
//! Gaussian noise and a 64-bit key switch; the modulus switch is becalm's centred one.

use becalm::math::Modulus;
use becalm::params::{Gadget, Kind, ModulusSwitch, Noise, Order, Rotation, TfheParams};
use tfhe::core_crypto::experimental::prelude::*;
use tfhe::core_crypto::prelude::{DecompositionBaseLog, DecompositionLevelCount};
use tfhe::shortint::parameters::{ClassicPBSParameters, DynamicDistribution, v1_3};

/// 2^-64: a row for each width 2, 4, 6, 8, 10, of 2, 4, 6, 8 bits.
const MINUS_64: [CmApParams; 20] = [
    CM_PARAM_2_2_MINUS_64,
    CM_PARAM_2_4_MINUS_64,
    CM_PARAM_2_6_MINUS_64,
    CM_PARAM_2_8_MINUS_64,
    CM_PARAM_4_2_MINUS_64,
    CM_PARAM_4_4_MINUS_64,
    CM_PARAM_4_6_MINUS_64,
    CM_PARAM_4_8_MINUS_64,
    CM_PARAM_6_2_MINUS_64,
    CM_PARAM_6_4_MINUS_64,
    CM_PARAM_6_6_MINUS_64,
    CM_PARAM_6_8_MINUS_64,
    CM_PARAM_8_2_MINUS_64,
    CM_PARAM_8_4_MINUS_64,
    CM_PARAM_8_6_MINUS_64,
    CM_PARAM_8_8_MINUS_64,
    CM_PARAM_10_2_MINUS_64,
    CM_PARAM_10_4_MINUS_64,
    CM_PARAM_10_6_MINUS_64,
    CM_PARAM_10_8_MINUS_64,
];

/// 2^-128, the same.
const MINUS_128: [CmApParams; 20] = [
    CM_PARAM_2_2_MINUS_128,
    CM_PARAM_2_4_MINUS_128,
    CM_PARAM_2_6_MINUS_128,
    CM_PARAM_2_8_MINUS_128,
    CM_PARAM_4_2_MINUS_128,
    CM_PARAM_4_4_MINUS_128,
    CM_PARAM_4_6_MINUS_128,
    CM_PARAM_4_8_MINUS_128,
    CM_PARAM_6_2_MINUS_128,
    CM_PARAM_6_4_MINUS_128,
    CM_PARAM_6_6_MINUS_128,
    CM_PARAM_6_8_MINUS_128,
    CM_PARAM_8_2_MINUS_128,
    CM_PARAM_8_4_MINUS_128,
    CM_PARAM_8_6_MINUS_128,
    CM_PARAM_8_8_MINUS_128,
    CM_PARAM_10_2_MINUS_128,
    CM_PARAM_10_4_MINUS_128,
    CM_PARAM_10_6_MINUS_128,
    CM_PARAM_10_8_MINUS_128,
];

/// The classic sets of 1_1, 2_2, 3_3 and 4_4 at 2^-64, plain modulus switch.
const CLASSIC_MINUS_64: [ClassicPBSParameters; 4] = [
    v1_3::V1_3_PARAM_MESSAGE_1_CARRY_1_KS_PBS_GAUSSIAN_2M64,
    v1_3::V1_3_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M64,
    v1_3::V1_3_PARAM_MESSAGE_3_CARRY_3_KS_PBS_GAUSSIAN_2M64,
    v1_3::V1_3_PARAM_MESSAGE_4_CARRY_4_KS_PBS_GAUSSIAN_2M64,
];

/// The common-mask set of `bits` and `slots` at 2^`log2_pfail` (-64 or -128).
pub fn common_mask(log2_pfail: i32, bits: u32, slots: usize) -> Option<TfheParams> {
    let sets = if log2_pfail == -64 { &MINUS_64 } else { &MINUS_128 };
    let set = sets.iter().find(|p| p.precision == bits as usize && p.cm_dimension.0 == slots)?;
    Some(TfheParams {
        name: format!("artifact_p{bits}_w{slots}_2m{}", -log2_pfail).into(),
        lwe_dimension: set.lwe_dimension.0,
        lwe_noise: gaussian(set.lwe_noise_distribution),
        glwe_dimension: set.glwe_dimension.0,
        polynomial_size: set.polynomial_size.0,
        glwe_noise: gaussian(set.glwe_noise_distribution),
        pbs: gadget(set.base_log_bs, set.level_bs),
        ks: gadget(set.base_log_ks, set.level_ks),
        max_norm2: set.nu as f64,
        slots,
        log2_pfail: set.p_fail.log2(),
        ..base(bits)
    })
}

/// The classic set of `bits` at 2^-64.
pub fn classic_2m64(bits: u32) -> Option<TfheParams> {
    let set = CLASSIC_MINUS_64.get(bits as usize / 2 - 1)?;
    Some(TfheParams {
        name: format!("tfhe_{0}_{0}_gaussian_2m64", bits / 2).into(),
        lwe_dimension: set.lwe_dimension.0,
        lwe_noise: gaussian(set.lwe_noise_distribution),
        glwe_dimension: set.glwe_dimension.0,
        polynomial_size: set.polynomial_size.0,
        glwe_noise: gaussian(set.glwe_noise_distribution),
        pbs: gadget(set.pbs_base_log, set.pbs_level),
        ks: gadget(set.ks_base_log, set.ks_level),
        max_norm2: set.max_noise_level.get() as f64,
        modulus_switch: ModulusSwitch::Plain,
        log2_pfail: set.log2_p_fail,
        ..base(bits)
    })
}

/// The fields that all of them have in common. Claims of security are not copied: rows compute it.
fn base(bits: u32) -> TfheParams {
    TfheParams {
        name: "".into(),
        kind: Kind::Comparison,
        modulus: Modulus::Native,
        lwe_dimension: 0,
        lwe_noise: Noise::Gaussian { std: 0.0 },
        glwe_dimension: 0,
        polynomial_size: 0,
        glwe_noise: Noise::Gaussian { std: 0.0 },
        pbs: Gadget { base_log: 1, level: 1 },
        ks: Gadget { base_log: 1, level: 1 },
        ks_modulus_log2: 64,
        message_modulus: 1 << (bits / 2),
        carry_modulus: 1 << (bits / 2),
        max_norm2: 1.0,
        modulus_switch: ModulusSwitch::Centered,
        order: Order::KsPbs,
        rotation: Rotation::Classic,
        slots: 1,
        shared_key: false,
        security_bits: 0.0,
        security_source: "none: computed where it is used".into(),
        log2_pfail: 0.0,
        source: "the crate tfhe 1.8.2".into(),
    }
}

fn gaussian(noise: DynamicDistribution<u64>) -> Noise {
    Noise::Gaussian { std: noise.gaussian_std_dev().0 }
}

fn gadget(base_log: DecompositionBaseLog, level: DecompositionLevelCount) -> Gadget {
    Gadget { base_log: base_log.0 as u32, level: level.0 as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becalm::tfhe::noise::NoiseReport;

    /// With the centred switch every set keeps the failure probability that it claims with the artifact's search.
    #[test]
    fn sets_are_whole_and_keep_their_failure_probability() {
        for (log2_pfail, bits, slots) in [(-128, 2, 4), (-128, 2, 8), (-64, 4, 2), (-64, 8, 10)] {
            let set = common_mask(log2_pfail, bits, slots).unwrap();
            set.validate().unwrap();
            assert_eq!(set.plaintext_modulus(), 1 << bits);
            let got = NoiseReport::of(&set).log2_pfail;
            assert!((got - f64::from(log2_pfail)).abs() < 12.0, "{}: {got}", set.name);
        }
        assert_eq!(common_mask(-128, 2, 8).unwrap().lwe_dimension, 737);
        assert!(common_mask(-128, 3, 8).is_none());
        for bits in [2, 4, 6, 8] {
            let set = classic_2m64(bits).unwrap();
            set.validate().unwrap();
            let got = NoiseReport::of(&set).log2_pfail;
            assert!((got + 64.0).abs() < 12.0, "{}: {got}", set.name);
        }
    }
}
