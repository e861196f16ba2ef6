//! Extended sets: tables of 2^η·N coefficients in 2^η accumulators of N, found by
//! `becalm params --search --bits BITS --rotation extended:ETA` (2^-128, 132 bits by the usual search).

use super::classic::{TFHE_2_2, TOY_2_2, TOY_3_3};
use super::{Row, tu};
use crate::math::Modulus;
use crate::params::{ModulusSwitch, Order, Rotation};

const fn eta(factor_log2: u32) -> Rotation {
    Rotation::Extended { factor_log2 }
}

const fn companion(coarsest_log2: u32, weight: u32) -> ModulusSwitch {
    ModulusSwitch::Companion { coarsest_log2, weight }
}

const SEARCH: &str = "becalm params --search";

const TFHE_3_2_EXTENDED: Row = Row {
    name: "tfhe_3_2_extended",
    lwe: (901, tu(13)),
    ks: (2, 9),
    values: (8, 4),
    max_norm2: 4.0,
    modulus_switch: companion(1, 7),
    rotation: eta(1),
    security_bits: 130.7,
    log2_pfail: -129.782,
    source: SEARCH,
    ..TFHE_2_2
};
const TFHE_3_3_EXTENDED: Row = Row {
    name: "tfhe_3_3_extended",
    lwe: (941, tu(12)),
    pbs: (15, 2),
    ks: (2, 10),
    values: (8, 8),
    max_norm2: 9.0,
    modulus_switch: companion(2, 15),
    rotation: eta(2),
    security_bits: 130.8,
    log2_pfail: -128.059,
    ..TFHE_3_2_EXTENDED
};
const TFHE_3_3_EXTENDED_P: Row = Row {
    name: "tfhe_3_3_extended_p",
    modulus: Modulus::Goldilocks,
    lwe: (941, tu(44)),
    ks_modulus_log2: 64,
    source: "becalm: tfhe_3_3_extended modulo p",
    ..TFHE_3_3_EXTENDED
};
const TFHE_4_3_EXTENDED: Row = Row {
    name: "tfhe_4_3_extended",
    lwe: (980, tu(11)),
    values: (16, 8),
    max_norm2: 8.0,
    modulus_switch: companion(3, 48),
    rotation: eta(3),
    log2_pfail: -128.289,
    ..TFHE_3_3_EXTENDED
};
const TFHE_4_4_EXTENDED: Row = Row {
    name: "tfhe_4_4_extended",
    lwe: (1060, tu(9)),
    ks: (2, 11),
    values: (16, 16),
    max_norm2: 17.0,
    modulus_switch: companion(4, 93),
    rotation: eta(4),
    security_bits: 130.9,
    log2_pfail: -128.234,
    ..TFHE_3_3_EXTENDED
};
const TFHE_5_4_EXTENDED: Row = Row {
    name: "tfhe_5_4_extended",
    lwe: (1100, tu(8)),
    glwe: (1, 4096, tu(3)),
    values: (32, 16),
    max_norm2: 16.0,
    modulus_switch: companion(5, 23),
    rotation: eta(5),
    security_bits: 131.0,
    log2_pfail: -129.63,
    ..TFHE_4_4_EXTENDED
};

const TOY_3_3_EXTENDED: Row = Row {
    name: "toy_3_3_extended",
    glwe: (1, 512, tu(3)),
    rotation: eta(3),
    modulus_switch: companion(3, 40),
    log2_pfail: -528.158,
    ..TOY_3_3
};
const TOY_3_3_EXTENDED_P: Row = Row {
    name: "toy_3_3_extended_p",
    modulus: Modulus::Goldilocks,
    lwe: (64, tu(40)),
    ks_modulus_log2: 64,
    ..TOY_3_3_EXTENDED
};
const TOY_2_2_EXTENDED_PBS_KS_P: Row = Row {
    name: "toy_2_2_extended_pbs_ks_p",
    modulus: Modulus::Goldilocks,
    order: Order::PbsKs,
    lwe: (64, tu(40)),
    glwe: (2, 256, tu(3)),
    pbs: (15, 2),
    ks_modulus_log2: 64,
    rotation: eta(3),
    max_norm2: 2.0,
    log2_pfail: -1775.026,
    ..TOY_2_2
};

pub(super) const ROWS: &[Row] = &[
    TFHE_3_2_EXTENDED,
    TFHE_3_3_EXTENDED,
    TFHE_3_3_EXTENDED_P,
    TFHE_4_3_EXTENDED,
    TFHE_4_4_EXTENDED,
    TFHE_5_4_EXTENDED,
    TOY_3_3_EXTENDED,
    TOY_3_3_EXTENDED_P,
    TOY_2_2_EXTENDED_PBS_KS_P,
];
