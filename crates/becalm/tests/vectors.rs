//! A bootstrap with keys and ciphertexts of another library, kept as a file: key switch and blind rotation from raw keys
//! agree with what that library computed. The benchmark crate, which builds the other library, makes and checks the file.

use becalm::bootstrap::tfhe::classic::{BootstrapKey, sample_extract};
use becalm::cipher::Encoding;
use becalm::math::simd::Level;
use becalm::params::{Gadget, TfheParams};
use becalm::tfhe::Table;
use becalm::tfhe::key_switch::{KeySwitchKey, KeySwitchScratch, KeySwitchShape};
use becalm::tfhe::noise::NoiseReport;
use serde::Deserialize;

/// The file; it says itself how words are written and where masks come from.
#[derive(Deserialize)]
struct Vector {
    values: u64,
    lwe_dimension: usize,
    glwe_dimension: usize,
    polynomial_size: usize,
    pbs: [u32; 2],
    ks: [u32; 2],
    seeds: [u64; 3],
    lwe_secret: String,
    glwe_secret: String,
    bootstrap_bodies: String,
    key_switch_bodies: String,
    input_bodies: String,
    switched: String,
    output_phases: String,
}

/// SplitMix64.
struct Masks(u64);

impl Masks {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Rows of `mask` words of a stream, cut to `kept`, and `body` words each of `bodies`.
fn expand(seed: u64, mask: usize, kept: u64, bodies: &[u64], body: usize) -> Vec<u64> {
    let mut masks = Masks(seed);
    let row = |b: &[u64]| {
        let mask: Vec<u64> = (0..mask).map(|_| masks.word() & kept).collect();
        [mask, b.to_vec()].concat()
    };
    bodies.chunks_exact(body).flat_map(row).collect()
}

impl Vector {
    fn params(&self) -> TfheParams {
        let mut params = TfheParams::named("toy_2_2").unwrap().clone();
        params.lwe_dimension = self.lwe_dimension;
        params.glwe_dimension = self.glwe_dimension;
        params.polynomial_size = self.polynomial_size;
        params.pbs = Gadget { base_log: self.pbs[0], level: self.pbs[1] };
        params.ks = Gadget { base_log: self.ks[0], level: self.ks[1] };
        (params.message_modulus, params.carry_modulus) = (self.values, 1);
        params.validate().unwrap();
        params
    }

    fn bootstrap_key(&self, params: &TfheParams, level: Level) -> BootstrapKey {
        let (mask, body) = (params.big_dimension(), params.polynomial_size);
        let all = expand(self.seeds[0], mask, u64::MAX, &words(&self.bootstrap_bodies, 16), body);
        let size = all.len() / self.lwe_dimension;
        let fill = |i: usize, out: &mut [u64]| out.copy_from_slice(&all[i * size..(i + 1) * size]);
        BootstrapKey::from_fn(params, level, fill).unwrap()
    }

    fn key_switch_key(&self, params: &TfheParams, level: Level) -> KeySwitchKey {
        let shape = KeySwitchShape {
            input_dimension: params.big_dimension(),
            output_dimension: params.lwe_dimension,
            bodies: 1,
            shared: 0,
            gadget: params.ks,
            modulus: params.modulus,
            modulus_log2: 32,
        };
        let bodies = words(&self.key_switch_bodies, 8);
        let all = expand(self.seeds[1], params.lwe_dimension, u64::MAX << 32, &bodies, 1);
        let size = all.len() / params.big_dimension();
        let fill = |i: usize, out: &mut [u64]| out.copy_from_slice(&all[i * size..(i + 1) * size]);
        KeySwitchKey::new(shape, level, fill).unwrap()
    }

    fn inputs(&self) -> Vec<u64> {
        let mask = self.glwe_dimension * self.polynomial_size;
        expand(self.seeds[2], mask, u64::MAX, &words(&self.input_bodies, 16), 1)
    }
}

/// Words of 16 digits, or the high halves of words in 8.
fn words(text: &str, digits: usize) -> Vec<u64> {
    let word = |d| u64::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap();
    text.as_bytes().chunks_exact(digits).map(|d| word(d) << (64 - 4 * digits)).collect()
}

fn bits(text: &str) -> Vec<u64> {
    text.bytes().map(|bit| u64::from(bit == b'1')).collect()
}

/// b − ⟨a, s⟩ of each ciphertext.
fn phases(cts: &[u64], secret: &[u64]) -> Vec<u64> {
    let phase = |ct: &[u64]| {
        ct.iter().zip(secret).fold(ct[secret.len()], |b, (a, s)| b.wrapping_sub(a.wrapping_mul(*s)))
    };
    cts.chunks_exact(secret.len() + 1).map(phase).collect()
}

fn decode(params: &TfheParams, phases: &[u64]) -> Vec<u64> {
    let encoding = Encoding::of(params);
    phases.iter().map(|&x| encoding.decode(params.modulus, x)).collect()
}

/// The largest difference of two batches of phases, torus units.
fn distance(a: &[u64], b: &[u64]) -> f64 {
    let differences = a.iter().zip(b).map(|(a, b)| (a.wrapping_sub(*b) as i64).unsigned_abs());
    differences.max().unwrap() as f64 * 2f64.powi(-64)
}

/// The other library's table.
fn lookup(params: &TfheParams, x: u64) -> u64 {
    (3 * x + 1) % params.plaintext_modulus()
}

#[test]
fn a_foreign_key_switch_is_repeated() {
    let vector = load();
    let params = vector.params();
    let secret = bits(&vector.lwe_secret);
    let wanted = phases(&words(&vector.switched, 8), &secret);
    let messages: Vec<u64> = (0..vector.values).collect();
    // Digits of ±B/2 may be written in two ways, so both make their own noise.
    let allowed = 7.0 * (2.0 * NoiseReport::of(&params).key_switch).sqrt();
    for &level in Level::available() {
        let key = vector.key_switch_key(&params, level);
        let mut out = vec![0; messages.len() * (params.lwe_dimension + 1)];
        key.apply(&vector.inputs(), &mut out, &mut KeySwitchScratch::new()).unwrap();
        let got = phases(&out, &secret);
        assert_eq!(decode(&params, &got), messages, "{level:?}");
        let far = distance(&got, &wanted);
        assert!(far <= allowed, "{level:?}: phases differ by {far:e}, allowed {allowed:e}");
    }
}

#[test]
fn a_foreign_bootstrap_is_repeated() {
    let vector = load();
    let params = vector.params();
    let secret = bits(&vector.glwe_secret);
    let wanted = words(&vector.output_phases, 16);
    let looked_up: Vec<u64> = (0..vector.values).map(|m| lookup(&params, m)).collect();
    // The same in the gadget of the bootstrap; the roundings of the steps that follow then have nothing in common.
    let noise = NoiseReport::of(&params).blind_rotation;
    let allowed = 7.0 * (2.0 * (noise.fft + noise.decomposition)).sqrt();
    for &level in Level::available() {
        let key = vector.bootstrap_key(&params, level);
        let got = phases(&bootstrap(&params, &key, &words(&vector.switched, 8)), &secret);
        assert_eq!(decode(&params, &got), looked_up, "{level:?}");
        let far = distance(&got, &wanted);
        assert!(far <= allowed, "{level:?}: phases differ by {far:e}, allowed {allowed:e}");
    }
}

fn bootstrap(params: &TfheParams, key: &BootstrapKey, small: &[u64]) -> Vec<u64> {
    let inputs: Vec<&[u64]> = small.chunks_exact(params.lwe_dimension + 1).collect();
    let (n, k) = (params.polynomial_size, params.glwe_dimension);
    let table = Table::from_fn(params, |x| lookup(params, x)).unwrap();
    let one = [vec![0; k * n], table.polynomial().to_vec()].concat();
    let mut accs = one.repeat(inputs.len());
    key.rotate(&mut accs, &inputs, &mut key.scratch(inputs.len()).unwrap()).unwrap();
    let mut out = vec![0; inputs.len() * (k * n + 1)];
    for (acc, out) in accs.chunks_exact(one.len()).zip(out.chunks_exact_mut(k * n + 1)) {
        sample_extract(params.modulus, n, acc, 0, out);
    }
    out
}

fn load() -> Vector {
    serde_json::from_str(include_str!("vectors/tfhe_1_8_2.json")).unwrap()
}
