//! becalm and the peer `tfhe` understand each other's keys and ciphertexts, and agree on what a bootstrap computes.
//!
//! The smallest of these exchanges is kept in `crates/becalm/tests/vectors`, where becalm's own tests repeat it without
//! the peer. `BECALM_WRITE_VECTORS=1 cargo test --release -p becalm-bench` writes it anew.

mod common;

use becalm::bootstrap::tfhe::classic::{BootstrapKey, sample_extract};
use becalm::cipher::{Encoding, KeyRole, SecretKey};
use becalm::math::simd::Level;
use becalm::params::{Gadget, TfheParams};
use becalm::tfhe::Table;
use becalm::tfhe::key_switch::{KeySwitchKey, KeySwitchScratch};
use becalm::tfhe::noise::NoiseReport;
use becalm_bench::cases::lookup;
use becalm_bench::ours::key_switch_shape;
use becalm_bench::peer_tfhe::{Bootstraps, RawKeys, RawKsk, Secrets, Standard, VERSION};
use becalm_bench::rows::Timed;
use common::{Random, lwe, lwe_phase, raw_keys};
use serde_json::json;
use std::rc::Rc;

/// The toys that the peer can compute: several mask polynomials, several levels, both words of the key switch.
fn toys() -> Vec<TfheParams> {
    let names = ["toy_2_2", "toy_2_2_ks64", "toy_1_1", "toy_3_3", "toy_boolean_ks_pbs"];
    names.iter().map(|name| TfheParams::named(name).expect(name).clone()).collect()
}

/// becalm's evaluation key of `secret` as the peer takes it.
fn raw_of(secret: &SecretKey) -> RawKeys {
    let keys = secret.evaluation_key().expect("a key");
    let words = keys.key_switch_words();
    let ksk = match secret.params().ks_modulus_log2 {
        32 => RawKsk::Words32(words.iter().map(|w| (w >> 32) as u32).collect()),
        _ => RawKsk::Words64(words),
    };
    RawKeys {
        lwe_secret: secret.expose(KeyRole::Small).to_vec(),
        glwe_secret: secret.expose(KeyRole::Big).to_vec(),
        bsk: keys.bootstrap_words(),
        ksk: Some(ksk),
    }
}

/// The peer's results for ciphertexts under the big key: after the key switch, as torus elements, and in the end.
fn peer_bootstraps(params: &TfheParams, raw: &RawKeys, inputs: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let (secrets, standard) = Standard::import(params, raw).expect("lengths fit");
    let peer = Rc::new(standard.into_peer(secrets));
    let count = inputs.len() / (params.big_dimension() + 1);
    // The messages are only what the peer's own check would expect; it is not asked here.
    match params.ks_modulus_log2 {
        32 => {
            let mut work = Bootstraps::<u32>::new(peer, true, vec![0; count]);
            work.inputs().copy_from_slice(inputs);
            work.run();
            let switched = work.switched().iter().map(|&w| u64::from(w) << 32).collect();
            (switched, work.outputs().to_vec())
        }
        _ => {
            let mut work = Bootstraps::<u64>::new(peer, true, vec![0; count]);
            work.inputs().copy_from_slice(inputs);
            work.run();
            (work.switched().to_vec(), work.outputs().to_vec())
        }
    }
}

/// becalm's bootstrapping and key-switching keys from raw arrays.
fn our_keys(params: &TfheParams, raw: &RawKeys, level: Level) -> (BootstrapKey, KeySwitchKey) {
    let ggsw = raw.bsk.len() / params.lwe_dimension;
    let fill = |i: usize, out: &mut [u64]| out.copy_from_slice(&raw.bsk[i * ggsw..(i + 1) * ggsw]);
    let bootstrap = BootstrapKey::from_fn(params, level, fill).expect("memory");
    let rows = params.ks.level as usize * (params.lwe_dimension + 1);
    let fill = |i: usize, out: &mut [u64]| match raw.ksk.as_ref().expect("given") {
        RawKsk::Words64(words) => out.copy_from_slice(&words[i * rows..(i + 1) * rows]),
        RawKsk::Words32(words) => {
            let words = words[i * rows..(i + 1) * rows].iter();
            out.iter_mut().zip(words).for_each(|(out, &w)| *out = u64::from(w) << 32);
        }
    };
    let key_switch = KeySwitchKey::new(key_switch_shape(params), level, fill).expect("a shape");
    (bootstrap, key_switch)
}

/// becalm's key switch.
fn we_switch(params: &TfheParams, key: &KeySwitchKey, inputs: &[u64]) -> Vec<u64> {
    let count = inputs.len() / (params.big_dimension() + 1);
    let mut switched = vec![0; count * (params.lwe_dimension + 1)];
    key.apply(inputs, &mut switched, &mut KeySwitchScratch::new()).expect("shapes fit");
    switched
}

/// becalm's bootstrap of ciphertexts under the small key, with the table that the peer uses.
fn we_bootstrap(params: &TfheParams, key: &BootstrapKey, small: &[u64]) -> Vec<u64> {
    let inputs: Vec<&[u64]> = small.chunks_exact(params.lwe_dimension + 1).collect();
    let (n, k, p) = (params.polynomial_size, params.glwe_dimension, params.plaintext_modulus());
    let table = Table::from_fn(params, |x| lookup(x, p)).expect("a table");
    let one = [vec![0; k * n], table.polynomial().to_vec()].concat();
    let mut accs = one.repeat(inputs.len());
    let mut scratch = key.scratch(inputs.len()).expect("memory");
    key.rotate(&mut accs, &inputs, &mut scratch).expect("shapes fit");
    let mut out = vec![0; inputs.len() * (k * n + 1)];
    for (acc, out) in accs.chunks_exact(one.len()).zip(out.chunks_exact_mut(k * n + 1)) {
        sample_extract(params.modulus, n, acc, 0, out);
    }
    out
}

/// Phases of a batch.
fn phases(cts: &[u64], secret: &[u64]) -> Vec<u64> {
    cts.chunks_exact(secret.len() + 1).map(|ct| lwe_phase(ct, secret)).collect()
}

fn decode(params: &TfheParams, phases: &[u64]) -> Vec<u64> {
    let encoding = Encoding::of(params);
    phases.iter().map(|&x| encoding.decode(params.modulus, x)).collect()
}

/// The largest difference of two batches of phases.
fn distance(a: &[u64], b: &[u64]) -> f64 {
    let differences = a.iter().zip(b).map(|(a, b)| (a.wrapping_sub(*b) as i64).unsigned_abs());
    differences.max().expect("not empty") as f64
}

/// Seven standard deviations of what two bootstraps of one input by one key may differ by: the FFT error, and the gadget
/// rounding of both, since digits of ±B/2 may be written in two ways and what follows then has nothing in common.
fn bootstrap_tolerance(params: &TfheParams) -> f64 {
    let noise = NoiseReport::of(params).blind_rotation;
    7.0 * (2.0 * noise.total()).sqrt() * 2f64.powi(64) + 4.0
}

/// The same for two key switches, where the noise of the key counts as well.
fn switch_tolerance(params: &TfheParams) -> f64 {
    7.0 * (2.0 * NoiseReport::of(params).key_switch).sqrt() * 2f64.powi(64) + 4.0
}

fn messages(params: &TfheParams) -> Vec<u64> {
    (0..params.plaintext_modulus()).collect()
}

fn looked_up(params: &TfheParams) -> Vec<u64> {
    messages(params).iter().map(|&m| lookup(m, params.plaintext_modulus())).collect()
}

/// Both sides bootstrap `inputs` under `raw`; their results decrypt right and agree.
fn both_agree(params: &TfheParams, raw: &RawKeys, inputs: &[u64]) {
    let (peer_switched, peer_out) = peer_bootstraps(params, raw, inputs);
    let peer_phases = phases(&peer_out, &raw.glwe_secret);
    assert_eq!(decode(params, &peer_phases), looked_up(params), "{}: the peer", params.name);
    for &level in Level::available() {
        let name = format!("{} {}", params.name, level.name());
        let (bootstrap, key_switch) = our_keys(params, raw, level);
        let switched = we_switch(params, &key_switch, inputs);
        let [a, b] = [&switched, &peer_switched].map(|x| phases(x, &raw.lwe_secret));
        assert_eq!(decode(params, &a), messages(params), "{name}: key switch");
        assert!(distance(&a, &b) <= switch_tolerance(params), "{name}: key switches differ");
        let ours = phases(&we_bootstrap(params, &bootstrap, &switched), &raw.glwe_secret);
        assert_eq!(decode(params, &ours), looked_up(params), "{name}: bootstrap");
        // From the peer's switched ciphertexts, so that both modulus switches see the same words.
        let ours = phases(&we_bootstrap(params, &bootstrap, &peer_switched), &raw.glwe_secret);
        let (got, allowed) = (distance(&ours, &peer_phases), bootstrap_tolerance(params));
        assert!(got <= allowed, "{name}: bootstraps differ by {got:e}, allowed {allowed:e}");
    }
}

#[test]
fn the_peer_bootstraps_our_ciphertexts_with_our_keys() {
    for params in toys() {
        let secret = SecretKey::generate(&params, true).expect("a key");
        let inputs = secret.encrypt(&messages(&params)).expect("messages fit");
        both_agree(&params, &raw_of(&secret), inputs.words());
    }
}

#[test]
fn we_bootstrap_the_peers_ciphertexts_with_the_peers_keys() {
    for params in toys() {
        let secrets = Secrets::generate(&params);
        let standard = Standard::generate(&secrets, true).expect("supported");
        let raw = standard.export(&secrets);
        let peer = Rc::new(standard.into_peer(secrets));
        let inputs = match params.ks_modulus_log2 {
            32 => Bootstraps::<u32>::new(peer, true, messages(&params)).inputs().to_vec(),
            _ => Bootstraps::<u64>::new(peer, true, messages(&params)).inputs().to_vec(),
        };
        both_agree(&params, &raw, &inputs);
    }
}

#[test]
fn we_encrypt_and_evaluate_under_the_peers_secret_key() {
    for params in toys() {
        let secrets = Secrets::generate(&params);
        let standard = Standard::generate(&secrets, true).expect("supported");
        let mut raw = standard.export(&secrets);
        let secret = SecretKey::from_bits(&params, true, &raw.lwe_secret, &raw.glwe_secret)
            .expect("the peer's keys are binary");
        let inputs = secret.encrypt(&messages(&params)).expect("messages fit");
        // The peer's keys on our ciphertexts, then ours made from the peer's secret.
        both_agree(&params, &raw, inputs.words());
        raw = raw_of(&secret);
        both_agree(&params, &raw, inputs.words());
    }
}

/// A set so small that an exchange is a few kilobytes: two levels, 32-bit key switch.
fn vector_params() -> TfheParams {
    let mut params = TfheParams::named("toy_2_2").expect("a set").clone();
    params.name = "vector".into();
    params.lwe_dimension = 2;
    params.polynomial_size = 256;
    params.pbs = Gadget { base_log: 10, level: 2 };
    params.ks = Gadget { base_log: 7, level: 2 };
    (params.message_modulus, params.carry_modulus) = (4, 1);
    params
}

/// Seeds of the secrets, of the masks of both keys and of the inputs.
const SEEDS: [u64; 4] = [1, 2, 3, 4];

const VECTOR: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../becalm/tests/vectors/tfhe_1_8_2.json");

/// The vector's keys and inputs.
fn vector_parts(params: &TfheParams) -> (RawKeys, Vec<u64>) {
    let raw = raw_keys(params, [SEEDS[0], SEEDS[1], SEEDS[2]]);
    let mut random = Random::new(SEEDS[3]);
    let shift = 63 - params.plaintext_modulus().ilog2();
    let encrypt = |m: u64| lwe(&mut random, &raw.glwe_secret, m << shift, 64);
    let inputs = messages(params).into_iter().flat_map(encrypt).collect();
    (raw, inputs)
}

/// Bodies of the bootstrapping key with masks that are the plain stream: what the message adds to mask column r is moved
/// into the body, times −S_r.
fn seeded_bodies(params: &TfheParams, raw: &RawKeys) -> Vec<u64> {
    let (k, size) = (params.glwe_dimension, params.polynomial_size);
    let rows = raw.bsk.chunks_exact((k + 1) * size).enumerate();
    rows.flat_map(|(i, glwe)| {
        let (row, level) = (i % (k + 1), i / (k + 1) % params.pbs.level as usize + 1);
        let bit = raw.lwe_secret[i / ((k + 1) * params.pbs.level as usize)];
        let step = bit << (64 - level as u32 * params.pbs.base_log);
        let column = (row < k).then(|| &raw.glwe_secret[row * size..(row + 1) * size]);
        let moved = move |j| column.map_or(0, |s| s[j] * step);
        glwe[k * size..].iter().enumerate().map(move |(j, b)| b.wrapping_sub(moved(j)))
    })
    .collect()
}

/// The vector as it is kept.
fn vector(params: &TfheParams) -> serde_json::Value {
    let (raw, inputs) = vector_parts(params);
    let (switched, outputs) = peer_bootstraps(params, &raw, &inputs);
    let hex = |words: &[u64], digits: usize| -> String {
        words.iter().map(|w| format!("{:0digits$x}", w >> (64 - 4 * digits))).collect()
    };
    let bits = |key: &[u64]| key.iter().map(u64::to_string).collect::<String>();
    let Some(RawKsk::Words32(ksk)) = &raw.ksk else { panic!("the set switches to 32 bits") };
    let row = params.lwe_dimension + 1;
    let ksk_bodies: Vec<u64> = ksk.chunks_exact(row).map(|r| u64::from(r[row - 1]) << 32).collect();
    let input_bodies: Vec<u64> =
        inputs.chunks_exact(params.big_dimension() + 1).map(|ct| ct[ct.len() - 1]).collect();
    json!({
        "about": [
            "One lookup m -> (3m + 1) mod values of every m by another library: phases of its results in decrypted form.",
            "Words are hexadecimal, 16 digits modulo 2^64, 8 digits modulo 2^32, in becalm's layouts.",
            "Masks are not kept: they are SplitMix64 of the seeds (of bootstrapping key, key-switching key, inputs),",
            "the high 32 bits of each word for the key-switching key.",
        ],
        "peer": format!("tfhe {VERSION}"),
        "values": params.plaintext_modulus(),
        "lwe_dimension": params.lwe_dimension,
        "glwe_dimension": params.glwe_dimension,
        "polynomial_size": params.polynomial_size,
        "pbs": [params.pbs.base_log, params.pbs.level],
        "ks": [params.ks.base_log, params.ks.level],
        "seeds": SEEDS[1..],
        "lwe_secret": bits(&raw.lwe_secret),
        "glwe_secret": bits(&raw.glwe_secret),
        "bootstrap_bodies": hex(&seeded_bodies(params, &raw), 16),
        "key_switch_bodies": hex(&ksk_bodies, 8),
        "input_bodies": hex(&input_bodies, 16),
        "switched": hex(&switched, 8),
        "output_phases": hex(&phases(&outputs, &raw.glwe_secret), 16),
    })
}

/// The vector in the repository is what this version of the peer computes.
#[test]
fn the_kept_vector_is_the_peers() {
    let params = vector_params();
    let mut got = vector(&params);
    if std::env::var_os("BECALM_WRITE_VECTORS").is_some() {
        let text = serde_json::to_string_pretty(&got).expect("plain values");
        std::fs::write(VECTOR, text + "\n").expect("the repository can be written");
    }
    let text = std::fs::read_to_string(VECTOR).expect("the vector is in the repository");
    let mut kept: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    // The peer's FFT rounds differently with other vector instructions.
    let [a, b] = [&mut got, &mut kept].map(|v| {
        let taken = v["output_phases"].take();
        let digits = taken.as_str().expect("a string").as_bytes().chunks_exact(16);
        let word = |d| u64::from_str_radix(std::str::from_utf8(d).expect("ASCII"), 16);
        digits.map(|d| word(d).expect("hexadecimal")).collect::<Vec<_>>()
    });
    assert_eq!(got, kept);
    assert_eq!(decode(&params, &b), looked_up(&params));
    assert!(distance(&a, &b) <= bootstrap_tolerance(&params));
    let (raw, inputs) = vector_parts(&params);
    both_agree(&params, &raw, &inputs);
}
