//! Common-mask sets: w messages behind one mask, each under its own key (Bergerat et al. 2025, TCHES 2025/4).
//!
//! Names: `cm_<message bits>_<carry bits>_w<slots>`. Failure probabilities are those of one slot; any of w slots fails at
//! most w times as often. Small keys: the least n with 132 bits by the usual search for each TUniform bound; gadgets and
//! dimensions: the least cost per message ([`TfheParams::cost`](crate::params::TfheParams::cost)) that meets p_fail. The
//! large ones need gigabytes: a 6-bit key of w = 8 takes 10 GB, an 8-bit one 140 GB.

use super::classic::TFHE_1_1;
use super::{Row, tu};
use crate::math::Modulus;
use crate::params::Kind;

const SEARCHED: &str = "becalm: least cost per message with 132 bits by the usual search";

const P2_2M128: Row = Row {
    lwe: (739, tu(17)),
    glwe: (4, 512, tu(17)),
    pbs: (23, 1),
    ks: (2, 7),
    security_bits: 129.9,
    source: SEARCHED,
    ..TFHE_1_1
};
const P2_2M64: Row = Row {
    lwe: (739, tu(17)),
    glwe: (3, 512, tu(29)),
    pbs: (17, 1),
    ks: (2, 6),
    security_bits: 129.9,
    ..P2_2M128
};
const P2_2M64_W10: Row = Row {
    lwe: (700, tu(18)),
    glwe: (4, 512, tu(17)),
    pbs: (23, 1),
    ks: (2, 6),
    security_bits: 129.9,
    ..P2_2M128
};
const P4_2M128: Row = Row {
    lwe: (860, tu(14)),
    glwe: (1, 2048, tu(17)),
    pbs: (23, 1),
    ks: (2, 8),
    values: (4, 4),
    max_norm2: 5.0,
    security_bits: 130.5,
    ..P2_2M128
};
const P4_2M64_W2: Row = Row {
    lwe: (821, tu(15)),
    glwe: (1, 2048, tu(17)),
    pbs: (23, 1),
    ks: (3, 5),
    security_bits: 130.5,
    ..P4_2M128
};
const P4_2M64: Row = Row {
    lwe: (780, tu(16)),
    glwe: (1, 2048, tu(17)),
    pbs: (23, 1),
    ks: (1, 14),
    security_bits: 130.2,
    ..P4_2M128
};
const P6_2M128: Row = Row {
    lwe: (980, tu(11)),
    glwe: (1, 8192, tu(3)),
    pbs: (15, 2),
    ks: (2, 10),
    values: (8, 8),
    max_norm2: 9.0,
    security_bits: 130.8,
    ..P2_2M128
};
const P6_2M64: Row = Row {
    lwe: (941, tu(12)),
    glwe: (1, 8192, tu(3)),
    pbs: (15, 2),
    ks: (3, 6),
    security_bits: 130.8,
    ..P6_2M128
};
const P8_2M128: Row = Row {
    lwe: (1100, tu(8)),
    glwe: (1, 65536, tu(3)),
    pbs: (11, 3),
    ks: (3, 7),
    values: (16, 16),
    max_norm2: 17.0,
    security_bits: 131.0,
    ..P2_2M128
};
const P8_2M64: Row = Row {
    lwe: (1060, tu(9)),
    glwe: (1, 32768, tu(3)),
    pbs: (15, 2),
    ks: (2, 11),
    security_bits: 130.9,
    ..P8_2M128
};
const P8_2M64_WIDE: Row = Row {
    lwe: (1100, tu(8)),
    glwe: (1, 32768, tu(3)),
    pbs: (14, 2),
    ks: (2, 11),
    security_bits: 131.0,
    ..P8_2M128
};

/// A row of the table with w slots and the failure probability of one of them.
const fn row(name: &'static str, slots: usize, log2_pfail: f64, base: Row) -> Row {
    Row { name, slots, log2_pfail, ..base }
}

const TOY_CM_1_1_W2: Row = Row {
    name: "toy_cm_1_1_w2",
    kind: Kind::Toy,
    lwe: (64, tu(8)),
    glwe: (2, 256, tu(17)),
    max_norm2: 30.0,
    slots: 2,
    security_bits: 0.0,
    security_source: "none: a toy",
    log2_pfail: -555.286,
    source: "becalm: for tests",
    ..TFHE_1_1
};
const TOY_CM_1_1_W3_P: Row = Row {
    name: "toy_cm_1_1_w3_p",
    modulus: Modulus::Goldilocks,
    lwe: (64, tu(40)),
    ks_modulus_log2: 64,
    slots: 3,
    log2_pfail: -555.209,
    ..TOY_CM_1_1_W2
};

pub(super) const ROWS: &[Row] = &[
    row("cm_1_1_w2", 2, -134.029, P2_2M128),
    row("cm_1_1_w4", 4, -134.022, P2_2M128),
    row("cm_1_1_w6", 6, -134.015, P2_2M128),
    row("cm_1_1_w8", 8, -134.008, P2_2M128),
    row("cm_1_1_w10", 10, -134.001, P2_2M128),
    row("cm_1_1_w2_2m64", 2, -70.578, P2_2M64),
    row("cm_1_1_w4_2m64", 4, -66.420, P2_2M64),
    row("cm_1_1_w6_2m64", 6, -66.574, Row { ks: (2, 7), ..P2_2M64 }),
    row("cm_1_1_w8_2m64", 8, -64.425, Row { ks: (1, 13), ..P2_2M64 }),
    row("cm_1_1_w10_2m64", 10, -70.872, P2_2M64_W10),
    row("cm_2_2_w2", 2, -145.925, P4_2M128),
    row("cm_2_2_w4", 4, -144.241, P4_2M128),
    row("cm_2_2_w6", 6, -142.591, P4_2M128),
    row("cm_2_2_w8", 8, -142.154, Row { pbs: (22, 1), ..P4_2M128 }),
    row("cm_2_2_w10", 10, -141.748, Row { pbs: (22, 1), ..P4_2M128 }),
    row("cm_2_2_w2_2m64", 2, -82.870, P4_2M64_W2),
    row("cm_2_2_w4_2m64", 4, -75.707, P4_2M64),
    row("cm_2_2_w6_2m64", 6, -75.307, P4_2M64),
    row("cm_2_2_w8_2m64", 8, -75.200, Row { pbs: (22, 1), ..P4_2M64 }),
    row("cm_2_2_w10_2m64", 10, -75.101, Row { pbs: (22, 1), ..P4_2M64 }),
    row("cm_3_3_w2", 2, -132.483, P6_2M128),
    row("cm_3_3_w4", 4, -132.460, P6_2M128),
    row("cm_3_3_w6", 6, -132.437, P6_2M128),
    row("cm_3_3_w8", 8, -132.414, P6_2M128),
    row("cm_3_3_w10", 10, -132.390, P6_2M128),
    row("cm_3_3_w2_2m64", 2, -72.427, P6_2M64),
    row("cm_3_3_w4_2m64", 4, -72.420, P6_2M64),
    row("cm_3_3_w6_2m64", 6, -72.414, P6_2M64),
    row("cm_3_3_w8_2m64", 8, -72.407, P6_2M64),
    row("cm_3_3_w10_2m64", 10, -72.401, P6_2M64),
    row("cm_4_4_w2", 2, -141.646, P8_2M128),
    row("cm_4_4_w4", 4, -140.645, P8_2M128),
    row("cm_4_4_w6", 6, -139.650, P8_2M128),
    row("cm_4_4_w8", 8, -138.665, P8_2M128),
    row("cm_4_4_w10", 10, -137.689, P8_2M128),
    row("cm_4_4_w2_2m64", 2, -67.464, Row { ks: (2, 10), ..P8_2M64 }),
    row("cm_4_4_w4_2m64", 4, -65.443, P8_2M64),
    row("cm_4_4_w6_2m64", 6, -64.396, Row { ks: (3, 7), ..P8_2M64_WIDE }),
    row("cm_4_4_w8_2m64", 8, -68.771, P8_2M64_WIDE),
    row("cm_4_4_w10_2m64", 10, -66.729, P8_2M64_WIDE),
    TOY_CM_1_1_W2,
    TOY_CM_1_1_W3_P,
];
