//! The parameter sets, one block each, one file for each kind of rotation.
//!
//! Names: `tfhe_<message bits>_<carry bits>`, then what differs from the default (key switch modulo 2^32, TUniform
//! noise, modulo 2^64): `_ks64` a 64-bit key-switching key, `_gaussian` Gaussian noise, `_p` modulo the Goldilocks
//! prime, `_multi_bit_<g>` g key bits a step, `_2m64` a failure probability of 2^-64 instead of 2^-128. TUniform bounds of the small key are in units of
//! 2^-`ks_modulus_log2`, those of the big key in units of 1/q.
//!
//! Security claims are the least of four attacks (of all eight for keys of blocks) over both keys by the strict search of [`crate::security`], rounded
//! down to a tenth of a bit; the usual search, which takes n samples for the dual hybrid, says 0.3 to 2 bits more.
//! `tests/security_of_sets.rs` estimates each again.

mod classic;
mod common_mask;
mod extended;
mod fast;
mod multi_bit;

use super::{Gadget, Kind, ModulusSwitch, Noise, Order, Rotation, TfheParams};
use crate::math::Modulus;
use std::borrow::Cow;
use std::sync::LazyLock;

/// A set as it is written down.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    kind: Kind,
    modulus: Modulus,
    order: Order,
    /// n and its noise.
    lwe: (usize, Noise),
    /// k, N and their noise.
    glwe: (usize, usize, Noise),
    /// (base_log, level).
    pbs: (u32, u32),
    /// (base_log, level).
    ks: (u32, u32),
    ks_modulus_log2: u32,
    /// (message, carry) modulus.
    values: (u64, u64),
    max_norm2: f64,
    modulus_switch: ModulusSwitch,
    rotation: Rotation,
    slots: usize,
    shared_key: bool,
    security_bits: f64,
    security_source: &'static str,
    log2_pfail: f64,
    source: &'static str,
}

const fn tu(bound_log2: u32) -> Noise {
    Noise::TUniform { bound_log2 }
}

const fn gauss(std: f64) -> Noise {
    Noise::Gaussian { std }
}

const FULL_SCAN: &str = "becalm estimate --strict: usvp, bdd, dual, dual hybrid";
const V1_4: &str = "tfhe-rs 1.4 to 1.8, 2^-128 sets";
const OURS: &str = "becalm: least n with 132 bits by the usual search";

fn set(r: &Row) -> TfheParams {
    let gadget = |(base_log, level)| Gadget { base_log, level };
    TfheParams {
        name: Cow::Borrowed(r.name),
        kind: r.kind,
        modulus: r.modulus,
        lwe_dimension: r.lwe.0,
        lwe_noise: r.lwe.1,
        glwe_dimension: r.glwe.0,
        polynomial_size: r.glwe.1,
        glwe_noise: r.glwe.2,
        pbs: gadget(r.pbs),
        ks: gadget(r.ks),
        ks_modulus_log2: r.ks_modulus_log2,
        message_modulus: r.values.0,
        carry_modulus: r.values.1,
        max_norm2: r.max_norm2,
        modulus_switch: r.modulus_switch,
        order: r.order,
        rotation: r.rotation,
        slots: r.slots,
        shared_key: r.shared_key,
        security_bits: r.security_bits,
        security_source: Cow::Borrowed(r.security_source),
        log2_pfail: r.log2_pfail,
        source: Cow::Borrowed(r.source),
    }
}

pub(super) static TABLE: LazyLock<Vec<TfheParams>> = LazyLock::new(|| {
    [classic::ROWS, multi_bit::ROWS, fast::ROWS, common_mask::ROWS, extended::ROWS]
        .concat()
        .iter()
        .map(set)
        .collect()
});
