//! Extended sets: tables of 2^η·N coefficients in 2^η accumulators of N.

use super::Row;
use super::classic::{TOY_2_2, TOY_3_3};
use crate::math::Modulus;
use crate::params::{ModulusSwitch, Order, Rotation};

const fn eta(factor_log2: u32) -> Rotation {
    Rotation::Extended { factor_log2 }
}

const fn companion(coarsest_log2: u32, weight: u32) -> ModulusSwitch {
    ModulusSwitch::Companion { coarsest_log2, weight }
}

const TOY_3_3_EXTENDED: Row = Row {
    name: "toy_3_3_extended",
    glwe: (1, 512, super::tu(3)),
    rotation: eta(2),
    modulus_switch: companion(2, 6),
    log2_pfail: -100.0,
    ..TOY_3_3
};
const TOY_3_3_EXTENDED_P: Row = Row {
    name: "toy_3_3_extended_p",
    modulus: Modulus::Goldilocks,
    lwe: (64, super::tu(40)),
    ks_modulus_log2: 64,
    ..TOY_3_3_EXTENDED
};
const TOY_2_2_EXTENDED_PBS_KS_P: Row = Row {
    name: "toy_2_2_extended_pbs_ks_p",
    modulus: Modulus::Goldilocks,
    order: Order::PbsKs,
    lwe: (64, super::tu(40)),
    glwe: (2, 256, super::tu(3)),
    pbs: (15, 2),
    ks_modulus_log2: 64,
    rotation: eta(3),
    max_norm2: 2.0,
    log2_pfail: -100.0,
    ..TOY_2_2
};

pub(super) const ROWS: &[Row] = &[TOY_3_3_EXTENDED, TOY_3_3_EXTENDED_P, TOY_2_2_EXTENDED_PBS_KS_P];
