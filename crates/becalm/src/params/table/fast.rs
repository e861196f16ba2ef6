//! The fast family: a small key of blocks, at most one bit of each being 1, that is the beginning of the big key. Opt-in:
//! a separate assumption, see docs/bootstrap/fast.md.

use super::classic::{TFHE_1_1, TFHE_2_2, TOY_1_1, TOY_1_1_P};
use super::{Row, tu};
use crate::params::Rotation;

const SOURCE: &str = "becalm: blocks of four; 128 bits by the strict search on a sparser key";
const SECURITY: &str =
    "becalm estimate --strict: all attacks on a sparse key of the blocks' entropy";

const FAST_2_2: Row = Row {
    name: "fast_2_2",
    lwe: (948, tu(13)),
    glwe: (1, 2048, tu(19)),
    rotation: Rotation::Block { size: 4 },
    shared_key: true,
    pbs: (22, 1),
    ks: (5, 3),
    security_source: SECURITY,
    security_bits: 128.3,
    log2_pfail: -146.151,
    source: SOURCE,
    ..TFHE_2_2
};
const FAST_1_1: Row = Row {
    name: "fast_1_1",
    lwe: (808, tu(17)),
    glwe: (2, 1024, tu(19)),
    rotation: Rotation::Block { size: 4 },
    shared_key: true,
    pbs: (22, 1),
    ks: (3, 4),
    security_source: SECURITY,
    security_bits: 128.8,
    log2_pfail: -203.630,
    source: SOURCE,
    ..TFHE_1_1
};

const TOY_FAST: Row = Row {
    name: "toy_1_1_fast",
    rotation: Rotation::Block { size: 4 },
    shared_key: true,
    log2_pfail: -866.382,
    ..TOY_1_1
};
const TOY_FAST_P: Row = Row {
    name: "toy_1_1_fast_p",
    lwe: (63, tu(40)),
    rotation: Rotation::Block { size: 3 },
    shared_key: true,
    log2_pfail: -752.199,
    ..TOY_1_1_P
};

pub(super) const ROWS: &[Row] = &[FAST_2_2, FAST_1_1, TOY_FAST, TOY_FAST_P];
