//! The peer's layout and becalm's, converted both ways.
//!
//! Needs no scheme of becalm's: keys made here by the definitions (schoolbook products), in becalm's layout, let the peer
//! bootstrap; and the peer's exported keys decrypt, row by row, to what becalm's layout says.

mod common;

use becalm::math::Modulus;
use becalm::params::{Gadget, Kind, ModulusSwitch, Noise, Order, Rotation, TfheParams};
use becalm_bench::cases::lookup;
use becalm_bench::peer_tfhe::{Bootstraps, Peer, RawKeys, RawKsk, Secrets, Standard, Word};
use becalm_bench::rows::Timed;
use common::{Random, glwe_phase, lwe, lwe_phase, raw_keys};
use std::rc::Rc;

/// A toy set with more than one level in both gadgets and more than one mask polynomial, so that every order shows.
fn toy(ks_modulus_log2: u32, modulus_switch: ModulusSwitch) -> TfheParams {
    TfheParams {
        name: "toy_interoperation".into(),
        kind: Kind::Toy,
        modulus: Modulus::Native,
        lwe_dimension: 12,
        lwe_noise: Noise::TUniform { bound_log2: ks_modulus_log2 - 24 },
        glwe_dimension: 2,
        polynomial_size: 128,
        glwe_noise: Noise::TUniform { bound_log2: 24 },
        pbs: Gadget { base_log: 8, level: 3 },
        ks: Gadget { base_log: 4, level: 3 },
        ks_modulus_log2,
        message_modulus: 4,
        carry_modulus: 1,
        max_norm2: 1.0,
        modulus_switch,
        order: Order::KsPbs,
        rotation: Rotation::Classic,
        slots: 1,
        shared_key: false,
        security_bits: 0.0,
        security_source: "none".into(),
        log2_pfail: -40.0,
        source: "this test".into(),
    }
}

/// Lets the peer bootstrap all messages under `raw` and decrypts here; returns the worst error of an output phase.
fn peer_bootstraps<S: Word>(params: &TfheParams) -> u64 {
    let raw = raw_keys(params, [1, 2, 3]);
    let mut random = Random::new(4);
    let (secrets, standard) = Standard::import(params, &raw).expect("lengths fit");
    let peer: Rc<Peer> = Rc::new(standard.into_peer(secrets));
    let p = params.plaintext_modulus();
    let shift = 63 - p.ilog2();
    let mut work = Bootstraps::<S>::new(peer, true, (0..p).collect());
    let inputs: Vec<u64> =
        (0..p).flat_map(|m| lwe(&mut random, &raw.glwe_secret, m << shift, 64)).collect();
    work.inputs().copy_from_slice(&inputs);
    work.run();
    work.check().expect("the peer decrypts its own output");
    let outputs = work.outputs().chunks(params.big_dimension() + 1);
    let error =
        |(m, ct)| lwe_phase(ct, &raw.glwe_secret).wrapping_sub(lookup(m, p) << shift) as i64;
    (0..p).zip(outputs).map(error).map(i64::unsigned_abs).max().expect("p > 0")
}

#[test]
fn the_peer_bootstraps_under_keys_of_the_definitions() {
    for modulus_switch in [ModulusSwitch::Plain, ModulusSwitch::Centered] {
        let errors = [
            peer_bootstraps::<u32>(&toy(32, modulus_switch)),
            peer_bootstraps::<u64>(&toy(64, modulus_switch)),
        ];
        // Noise 2^20, times digits of 2^7, summed over 12·3·3·128 products: 2^37; rounding at 2^40, over √(12·256/2): 2^45.
        assert!(errors.iter().all(|&e| e < 1 << 48), "{errors:?}");
    }
}

#[test]
fn the_peers_exported_keys_are_what_the_layout_says() {
    for ks_modulus_log2 in [32, 64] {
        let params = toy(ks_modulus_log2, ModulusSwitch::Plain);
        let secrets = Secrets::generate(&params);
        let standard = Standard::generate(&secrets, true).expect("supported");
        let raw = standard.export(&secrets);
        check_bsk(&params, &raw);
        check_ksk(&params, &raw);
        let (secrets, standard) = Standard::import(&params, &raw).expect("lengths fit");
        assert!(standard.export(&secrets) == raw, "export after import is not the identity");
    }
}

fn check_bsk(params: &TfheParams, raw: &RawKeys) {
    let (k, size) = (params.glwe_dimension, params.polynomial_size);
    let mut rows = raw.bsk.chunks((k + 1) * size);
    for &bit in &raw.lwe_secret {
        for level in 1..=params.pbs.level {
            let step = bit << (64 - level * params.pbs.base_log);
            for row in 0..=k {
                let phase = glwe_phase(rows.next().expect("enough rows"), &raw.glwe_secret, size);
                for (i, got) in phase.iter().enumerate() {
                    let wanted = if row < k {
                        raw.glwe_secret[row * size + i].wrapping_mul(step).wrapping_neg()
                    } else if i == 0 {
                        step
                    } else {
                        0
                    };
                    let error = (got.wrapping_sub(wanted) as i64).unsigned_abs();
                    assert!(
                        error <= 1 << 24,
                        "level {level}, row {row}, coefficient {i}: error {error}"
                    );
                }
            }
        }
    }
    assert!(rows.next().is_none());
}

fn check_ksk(params: &TfheParams, raw: &RawKeys) {
    // 32-bit words as the high halves of 64-bit ones: the same torus elements.
    let words = match raw.ksk.as_ref().expect("asked for") {
        RawKsk::Words32(words) => words.iter().map(|&w| (w as u64) << 32).collect(),
        RawKsk::Words64(words) => words.clone(),
    };
    let mut rows = words.chunks(params.lwe_dimension + 1);
    for (i, s) in raw.glwe_secret.iter().enumerate() {
        for level in 1..=params.ks.level {
            let wanted = s << (64 - level * params.ks.base_log);
            let phase = lwe_phase(rows.next().expect("enough rows"), &raw.lwe_secret);
            let error = (phase.wrapping_sub(wanted) as i64).unsigned_abs();
            assert!(error <= 1 << 40, "element {i}, level {level}: error {error}");
        }
    }
    assert!(rows.next().is_none());
}

#[test]
fn keys_of_wrong_length_are_refused() {
    let params = toy(64, ModulusSwitch::Plain);
    let refused = |raw: &RawKeys, wanted: &str| {
        let error = Standard::import(&params, raw).err().expect("keys of another length");
        assert!(error.to_string().contains(wanted), "{error}");
    };
    let mut raw = raw_keys(&params, [1, 2, 3]);
    raw.bsk.pop();
    refused(&raw, "bootstrapping key of");
    let mut raw = raw_keys(&params, [1, 2, 3]);
    raw.ksk = Some(RawKsk::Words32(vec![0; 4]));
    refused(&raw, "key-switching key that is not");
}
