//! Common-mask sets: w messages behind one mask, each under a key of its own (Bergerat et al. 2025, TCHES 2025/4).
//!
//! Names: `cm_<message bits>_<carry bits>_w<slots>`. Failure probabilities are those of one slot; any of w slots fails at
//! most w times as often.

use super::classic::TFHE_1_1;
use super::{Row, tu};
use crate::math::Modulus;
use crate::params::Kind;

const TOY_CM_1_1_W2: Row = Row {
    name: "toy_cm_1_1_w2",
    kind: Kind::Toy,
    lwe: (64, tu(8)),
    glwe: (2, 256, tu(17)),
    slots: 2,
    security_bits: 0.0,
    security_source: "none: a toy",
    log2_pfail: -1.0,
    source: "becalm: for tests",
    ..TFHE_1_1
};
const TOY_CM_1_1_W3_P: Row = Row {
    name: "toy_cm_1_1_w3_p",
    modulus: Modulus::Goldilocks,
    lwe: (64, tu(40)),
    ks_modulus_log2: 64,
    slots: 3,
    log2_pfail: -1.0,
    ..TOY_CM_1_1_W2
};

pub(super) const ROWS: &[Row] = &[TOY_CM_1_1_W2, TOY_CM_1_1_W3_P];
