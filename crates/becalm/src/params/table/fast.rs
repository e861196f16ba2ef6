//! The fast family: a small key of blocks, at most one bit of each being 1, that is the beginning of the big key. Opt-in:
//! an assumption of its own, see docs/bootstrap/fast.md.

use super::classic::{TFHE_1_1, TFHE_2_2};
use super::{Row, tu};
use crate::params::Rotation;

const SOURCE: &str = "becalm: least n of whole blocks with 132 bits by the strict search, all six attacks";
const SECURITY: &str =
    "becalm estimate --strict: all six attacks on a sparse key of the blocks' entropy";

const FAST_2_2: Row = Row {
    name: "fast_2_2",
    lwe: (948, tu(13)),
    glwe: (1, 2048, tu(18)),
    rotation: Rotation::Block { size: 4 },
    shared_key: true,
    pbs: (22, 1),
    ks: (5, 3),
    security_source: SECURITY,
    log2_pfail: 0.0,
    source: SOURCE,
    ..TFHE_2_2
};
const FAST_1_1: Row = Row {
    name: "fast_1_1",
    lwe: (800, tu(17)),
    glwe: (2, 1024, tu(18)),
    rotation: Rotation::Block { size: 4 },
    shared_key: true,
    pbs: (22, 1),
    ks: (3, 4),
    security_source: SECURITY,
    log2_pfail: 0.0,
    source: SOURCE,
    ..TFHE_1_1
};

pub(super) const ROWS: &[Row] = &[FAST_2_2, FAST_1_1];
