//! Multi-bit sets: g key bits a step, keys of (2^g − 1)/g times the size; the modulus switch is centred over groups.

use super::classic::{TFHE_1_1, TFHE_2_2, TOY_1_1, TOY_1_1_P};
use super::{Row, gauss, tu};
use crate::params::Rotation;

const fn multi(grouping: u32) -> Rotation {
    Rotation::MultiBit { grouping }
}

const OWN: &str = "becalm: n and gadgets for the modulus switch centred over groups";
const GPU: &str = "tfhe-rs 1.8, GPU multi-bit set; centred switch and, TUniform, modulo 2^32 ours";

const TFHE_2_2_MULTI_BIT_2: Row = Row {
    name: "tfhe_2_2_multi_bit_2",
    lwe: (908, tu(13)),
    rotation: multi(2),
    pbs: (23, 1),
    ks: (3, 6),
    security_bits: 131.7,
    log2_pfail: -128.468,
    source: OWN,
    ..TFHE_2_2
};
const TFHE_2_2_MULTI_BIT_3: Row = Row {
    name: "tfhe_2_2_multi_bit_3",
    lwe: (912, tu(13)),
    rotation: multi(3),
    pbs: (22, 1),
    ks: (3, 5),
    security_bits: 132.3,
    log2_pfail: -133.477,
    source: OWN,
    ..TFHE_2_2
};
const TFHE_2_2_MULTI_BIT_4: Row = Row {
    name: "tfhe_2_2_multi_bit_4",
    lwe: (920, tu(13)),
    rotation: multi(4),
    pbs: (22, 1),
    ks: (4, 4),
    security_bits: 133.3,
    log2_pfail: -139.650,
    source: GPU,
    ..TFHE_2_2
};
const TFHE_2_2_MULTI_BIT_5: Row = Row {
    name: "tfhe_2_2_multi_bit_5",
    lwe: (880, tu(14)),
    ks: (3, 5),
    rotation: multi(5),
    security_bits: 133.4,
    log2_pfail: -145.007,
    source: OWN,
    ..TFHE_2_2_MULTI_BIT_4
};
const TFHE_2_2_MULTI_BIT_4_GAUSSIAN: Row = Row {
    name: "tfhe_2_2_multi_bit_4_gaussian",
    lwe: (872, gauss(1.844927811696596e-06)),
    glwe: (1, 2048, gauss(2.845267479601915e-15)),
    ks: (3, 5),
    ks_modulus_log2: 64,
    security_bits: 130.7,
    log2_pfail: -142.457,
    ..TFHE_2_2_MULTI_BIT_4
};
const TFHE_1_1_MULTI_BIT_3: Row = Row {
    name: "tfhe_1_1_multi_bit_3",
    lwe: (801, tu(16)),
    glwe: (2, 1024, tu(17)),
    rotation: multi(3),
    pbs: (22, 1),
    ks: (4, 3),
    security_bits: 133.5,
    log2_pfail: -149.285,
    source: "tfhe-rs 1.8, CPU multi-bit set; centred switch and key switch modulo 2^32 ours",
    ..TFHE_1_1
};
const TFHE_1_1_MULTI_BIT_4: Row = Row {
    name: "tfhe_1_1_multi_bit_4",
    lwe: (760, tu(17)),
    glwe: (1, 2048, tu(17)),
    rotation: multi(4),
    pbs: (22, 1),
    ks: (3, 4),
    security_bits: 133.4,
    log2_pfail: -145.583,
    source: GPU,
    ..TFHE_1_1
};
const TFHE_1_1_MULTI_BIT_4_GAUSSIAN: Row = Row {
    name: "tfhe_1_1_multi_bit_4_gaussian",
    lwe: (736, gauss(1.9276917419403266e-05)),
    glwe: (1, 2048, gauss(2.845267479601915e-15)),
    ks_modulus_log2: 64,
    security_bits: 130.3,
    log2_pfail: -128.466,
    ..TFHE_1_1_MULTI_BIT_4
};

const TOY_MULTI_BIT_2: Row =
    Row { name: "toy_1_1_multi_bit_2", rotation: multi(2), log2_pfail: -495.735, ..TOY_1_1 };
const TOY_MULTI_BIT_3_P: Row = Row {
    name: "toy_1_1_multi_bit_3_p",
    lwe: (63, tu(40)),
    rotation: multi(3),
    log2_pfail: -554.238,
    ..TOY_1_1_P
};

pub(super) const ROWS: &[Row] = &[
    TFHE_2_2_MULTI_BIT_2,
    TFHE_2_2_MULTI_BIT_3,
    TFHE_2_2_MULTI_BIT_4,
    TFHE_2_2_MULTI_BIT_5,
    TFHE_2_2_MULTI_BIT_4_GAUSSIAN,
    TFHE_1_1_MULTI_BIT_3,
    TFHE_1_1_MULTI_BIT_4,
    TFHE_1_1_MULTI_BIT_4_GAUSSIAN,
    TOY_MULTI_BIT_2,
    TOY_MULTI_BIT_3_P,
];
