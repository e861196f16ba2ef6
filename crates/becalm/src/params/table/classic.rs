//! Classic sets: one key bit a step, one message a ciphertext.

use super::{FULL_SCAN, OURS, Row, V1_4, gauss, tu};
use crate::math::Modulus;
use crate::params::{Kind, ModulusSwitch, Order, Rotation};

pub(super) const TFHE_2_2: Row = Row {
    name: "tfhe_2_2",
    kind: Kind::Standard,
    modulus: Modulus::Native,
    order: Order::KsPbs,
    lwe: (918, tu(13)),
    glwe: (1, 2048, tu(17)),
    pbs: (23, 1),
    ks: (4, 4),
    ks_modulus_log2: 32,
    values: (4, 4),
    max_norm2: 5.0,
    modulus_switch: ModulusSwitch::Centered,
    rotation: Rotation::Classic,
    slots: 1,
    shared_key: false,
    security_bits: 133.1,
    security_source: FULL_SCAN,
    log2_pfail: -129.581,
    source: V1_4,
};
const TFHE_2_2_KS64: Row =
    Row { name: "tfhe_2_2_ks64", lwe: (918, tu(45)), ks_modulus_log2: 64, ..TFHE_2_2 };
const TFHE_2_2_GAUSSIAN: Row = Row {
    name: "tfhe_2_2_gaussian",
    lwe: (866, gauss(2.046151696979124e-06)),
    glwe: (1, 2048, gauss(2.845267479601915e-15)),
    ks: (3, 5),
    security_bits: 130.7,
    log2_pfail: -128.597,
    ..TFHE_2_2_KS64
};
const TFHE_2_2_P: Row = Row {
    name: "tfhe_2_2_p",
    modulus: Modulus::Goldilocks,
    log2_pfail: -130.158,
    source: "becalm: tfhe_2_2_ks64 modulo p",
    ..TFHE_2_2_KS64
};

pub(super) const TFHE_1_1: Row = Row {
    name: "tfhe_1_1",
    lwe: (879, tu(14)),
    glwe: (4, 512, tu(17)),
    ks: (5, 3),
    values: (2, 2),
    max_norm2: 3.0,
    security_bits: 133.2,
    log2_pfail: -144.322,
    source: "tfhe-rs 1.4 to 1.8, 2^-128 set; key switch modulo 2^32 ours",
    ..TFHE_2_2
};
const TFHE_1_1_KS64: Row = Row {
    name: "tfhe_1_1_ks64",
    lwe: (879, tu(46)),
    ks_modulus_log2: 64,
    source: V1_4,
    ..TFHE_1_1
};
const TFHE_1_1_GAUSSIAN: Row = Row {
    name: "tfhe_1_1_gaussian",
    lwe: (837, gauss(3.3747142481837397e-06)),
    glwe: (4, 512, gauss(2.845267479601915e-15)),
    security_bits: 130.7,
    log2_pfail: -128.186,
    ..TFHE_1_1_KS64
};
const TFHE_1_1_P: Row = Row {
    name: "tfhe_1_1_p",
    modulus: Modulus::Goldilocks,
    log2_pfail: -144.332,
    source: "becalm: tfhe_1_1_ks64 modulo p",
    ..TFHE_1_1_KS64
};

pub(super) const TFHE_3_3: Row = Row {
    name: "tfhe_3_3",
    lwe: (1077, tu(9)),
    glwe: (1, 8192, tu(3)),
    pbs: (15, 2),
    ks: (4, 5),
    values: (8, 8),
    max_norm2: 9.0,
    security_bits: 133.1,
    log2_pfail: -128.992,
    source: "tfhe-rs 1.4 to 1.8, 2^-128 set; key switch modulo 2^32 ours",
    ..TFHE_2_2
};
const TFHE_3_3_KS64: Row = Row {
    name: "tfhe_3_3_ks64",
    lwe: (1077, tu(41)),
    ks_modulus_log2: 64,
    source: V1_4,
    ..TFHE_3_3
};
const TFHE_3_3_GAUSSIAN: Row = Row {
    name: "tfhe_3_3_gaussian",
    lwe: (1006, gauss(1.8277101294215978e-07)),
    glwe: (1, 8192, gauss(2.168404344971009e-19)),
    ks: (3, 7),
    security_bits: 131.1,
    log2_pfail: -128.115,
    ..TFHE_3_3_KS64
};
const TFHE_3_3_P: Row = Row {
    name: "tfhe_3_3_p",
    modulus: Modulus::Goldilocks,
    log2_pfail: -129.015,
    source: "becalm: tfhe_3_3_ks64 modulo p",
    ..TFHE_3_3_KS64
};

pub(super) const TFHE_4_4: Row = Row {
    name: "tfhe_4_4",
    lwe: (1117, tu(8)),
    glwe: (1, 65536, tu(3)),
    pbs: (11, 3),
    ks: (3, 7),
    values: (16, 16),
    max_norm2: 17.0,
    security_bits: 133.1,
    log2_pfail: -141.559,
    ..TFHE_3_3
};
const TFHE_4_4_KS64: Row = Row {
    name: "tfhe_4_4_ks64",
    lwe: (1117, tu(40)),
    ks_modulus_log2: 64,
    source: V1_4,
    ..TFHE_4_4
};
const TFHE_4_4_GAUSSIAN: Row = Row {
    name: "tfhe_4_4_gaussian",
    lwe: (1098, gauss(3.73718341270979e-08)),
    glwe: (1, 65536, gauss(2.168404344971009e-19)),
    security_bits: 131.4,
    log2_pfail: -128.731,
    ..TFHE_4_4_KS64
};
const TFHE_4_4_P: Row = Row {
    name: "tfhe_4_4_p",
    modulus: Modulus::Goldilocks,
    log2_pfail: -142.559,
    source: "becalm: tfhe_4_4_ks64 modulo p",
    ..TFHE_4_4_KS64
};

// Booleans are 0 and 1/4 of the torus (message 2, carry 1, a padding bit) and a gate is a table of signs:
// AND = sign(a + b − 3/8) keeps a distance of 1/8 from the signs' changes, 1/(4·2), for a variance of 2 outputs;
// XOR = sign(2(a + b) − 1/4) keeps 1/4 for a variance of 8, the same quotient. The output of a multiplexer is the sum of
// two bootstrap outputs, so a gate of two of them sees 4 = ν².
const TFHE_BOOLEAN: Row = Row {
    name: "tfhe_boolean",
    order: Order::PbsKs,
    lwe: (743, tu(49)),
    glwe: (3, 512, tu(30)),
    pbs: (17, 1),
    ks: (3, 4),
    ks_modulus_log2: 64,
    values: (2, 1),
    max_norm2: 2.0,
    security_bits: 130.6,
    log2_pfail: -133.083,
    source: OURS,
    ..TFHE_2_2
};
const TFHE_BOOLEAN_P: Row = Row {
    name: "tfhe_boolean_p",
    modulus: Modulus::Goldilocks,
    log2_pfail: -133.083,
    ..TFHE_BOOLEAN
};
const TFHE_BOOLEAN_KS_PBS: Row = Row {
    name: "tfhe_boolean_ks_pbs",
    order: Order::KsPbs,
    lwe: (704, tu(18)),
    ks: (3, 4),
    ks_modulus_log2: 32,
    security_bits: 130.6,
    log2_pfail: -155.804,
    ..TFHE_BOOLEAN
};
const TFHE_BOOLEAN_KS_PBS_2M64: Row = Row {
    name: "tfhe_boolean_ks_pbs_2m64",
    lwe: (665, tu(19)),
    ks: (2, 5),
    security_bits: 130.7,
    log2_pfail: -81.318,
    ..TFHE_BOOLEAN_KS_PBS
};
const TFHE_BOOLEAN_KS_PBS_P: Row = Row {
    name: "tfhe_boolean_ks_pbs_p",
    modulus: Modulus::Goldilocks,
    lwe: (704, tu(50)),
    ks_modulus_log2: 64,
    ..TFHE_BOOLEAN_KS_PBS
};

// Published dimensions and bootstrapping gadgets; noise and key switch are ours, for 2^-64.
const PAPER_N500: Row = Row {
    name: "paper_n500",
    kind: Kind::Comparison,
    lwe: (500, tu(19)),
    glwe: (1, 1024, tu(35)),
    pbs: (10, 2),
    ks: (1, 12),
    values: (2, 2),
    max_norm2: 3.0,
    security_bits: 100.6,
    log2_pfail: -78.842,
    source: "n = 500 of the hardware literature (FPT, YKP, \"A TFHE processor\", table 4); noise and key switch ours",
    ..TFHE_2_2
};
const PAPER_N500_P: Row = Row {
    name: "paper_n500_p",
    modulus: Modulus::Goldilocks,
    lwe: (500, tu(51)),
    ks_modulus_log2: 64,
    ..PAPER_N500
};
const PAPER_N800: Row = Row {
    name: "paper_n800",
    kind: Kind::Comparison,
    lwe: (800, tu(14)),
    glwe: (1, 16384, tu(3)),
    pbs: (6, 5),
    ks: (3, 6),
    security_bits: 121.6,
    log2_pfail: -70.11,
    source: "n = 800 of Ohba et al. (\"A TFHE processor\", table 5); noise and key switch ours",
    ..TFHE_2_2
};
const PAPER_N800_P: Row = Row {
    name: "paper_n800_p",
    modulus: Modulus::Goldilocks,
    lwe: (800, tu(46)),
    ks_modulus_log2: 64,
    ..PAPER_N800
};

// Toys: the gadgets of the standard sets at dimensions that break in a moment and run in less.
pub(super) const TOY_2_2: Row = Row {
    name: "toy_2_2",
    kind: Kind::Toy,
    lwe: (64, tu(8)),
    glwe: (1, 512, tu(17)),
    security_bits: 0.0,
    security_source: "none: a toy",
    log2_pfail: -142.031,
    source: "becalm: for tests",
    ..TFHE_2_2
};
const TOY_2_2_KS64: Row =
    Row { name: "toy_2_2_ks64", lwe: (64, tu(40)), ks_modulus_log2: 64, ..TOY_2_2 };
const TOY_2_2_P: Row =
    Row { name: "toy_2_2_p", modulus: Modulus::Goldilocks, log2_pfail: -142.033, ..TOY_2_2_KS64 };
pub(super) const TOY_1_1: Row = Row {
    name: "toy_1_1",
    glwe: (2, 256, tu(17)),
    ks: (5, 3),
    values: (2, 2),
    max_norm2: 3.0,
    log2_pfail: -556.925,
    ..TOY_2_2
};
pub(super) const TOY_1_1_P: Row = Row {
    name: "toy_1_1_p",
    modulus: Modulus::Goldilocks,
    lwe: (64, tu(40)),
    ks_modulus_log2: 64,
    log2_pfail: -556.926,
    ..TOY_1_1
};
pub(super) const TOY_3_3: Row = Row {
    name: "toy_3_3",
    glwe: (1, 2048, tu(3)),
    pbs: (15, 2),
    ks: (4, 5),
    values: (8, 8),
    max_norm2: 9.0,
    log2_pfail: -142.034,
    ..TOY_2_2
};
const TOY_BOOLEAN: Row = Row {
    name: "toy_boolean",
    order: Order::PbsKs,
    lwe: (64, tu(40)),
    glwe: (1, 256, tu(17)),
    pbs: (17, 1),
    ks: (3, 4),
    ks_modulus_log2: 64,
    values: (2, 1),
    max_norm2: 2.0,
    log2_pfail: -1467.786,
    ..TOY_2_2
};
const TOY_BOOLEAN_P: Row =
    Row { name: "toy_boolean_p", modulus: Modulus::Goldilocks, ..TOY_BOOLEAN };
const TOY_BOOLEAN_KS_PBS: Row = Row {
    name: "toy_boolean_ks_pbs",
    order: Order::KsPbs,
    lwe: (64, tu(8)),
    ks_modulus_log2: 32,
    log2_pfail: -1948.590,
    ..TOY_BOOLEAN
};

pub(super) const ROWS: &[Row] = &[
    TFHE_2_2,
    TFHE_2_2_KS64,
    TFHE_2_2_GAUSSIAN,
    TFHE_2_2_P,
    TFHE_1_1,
    TFHE_1_1_KS64,
    TFHE_1_1_GAUSSIAN,
    TFHE_1_1_P,
    TFHE_3_3,
    TFHE_3_3_KS64,
    TFHE_3_3_GAUSSIAN,
    TFHE_3_3_P,
    TFHE_4_4,
    TFHE_4_4_KS64,
    TFHE_4_4_GAUSSIAN,
    TFHE_4_4_P,
    TFHE_BOOLEAN,
    TFHE_BOOLEAN_P,
    TFHE_BOOLEAN_KS_PBS,
    TFHE_BOOLEAN_KS_PBS_2M64,
    TFHE_BOOLEAN_KS_PBS_P,
    PAPER_N500,
    PAPER_N500_P,
    PAPER_N800,
    PAPER_N800_P,
    TOY_2_2,
    TOY_2_2_KS64,
    TOY_2_2_P,
    TOY_1_1,
    TOY_1_1_P,
    TOY_3_3,
    TOY_BOOLEAN,
    TOY_BOOLEAN_P,
    TOY_BOOLEAN_KS_PBS,
];
