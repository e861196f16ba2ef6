//! Times the rotation and the key switch of sets of the table beside each other, interleaved, on one thread:
//! `cargo run --release --example rotation_time -- tfhe_2_2 tfhe_2_2_multi_bit_2 fast_2_2`. Keys are random (time does not
//! depend on them). Milliseconds, median and least of eleven rounds.

use becalm::bootstrap::tfhe::classic::BootstrapKey;
use becalm::math::simd::Level;
use becalm::params::TfheParams;
use becalm::tfhe::key_switch::{KeySwitchKey, KeySwitchScratch, KeySwitchShape};
use std::time::Instant;

const ROUNDS: usize = 11;
const TILE: usize = 4;

fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut x = seed;
    move || {
        x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 27)
    }
}

struct Case {
    params: &'static TfheParams,
    rotation: BootstrapKey,
    key_switch: KeySwitchKey,
    /// One ciphertext; each of a tile; the key switch.
    times: [Vec<f64>; 3],
}

impl Case {
    fn new(name: &str) -> becalm::Result<Self> {
        let params = TfheParams::named(name)?;
        let fill = |i: usize, out: &mut [u64]| out.fill_with(random(i as u64));
        let rotation = BootstrapKey::from_fn(params, Level::best(), fill)?;
        let key_switch = KeySwitchKey::new(KeySwitchShape::of(params), Level::best(), fill)?;
        Ok(Case { params, rotation, key_switch, times: Default::default() })
    }

    fn round(&mut self) -> becalm::Result<()> {
        let p = self.params;
        let mut next = random(7);
        let glwe = (p.glwe_dimension + 1) * p.polynomial_size;
        let mut accs: Vec<u64> = (0..TILE * glwe).map(|_| next()).collect();
        let inputs: Vec<Vec<u64>> =
            (0..TILE).map(|_| (0..=p.lwe_dimension).map(|_| next()).collect()).collect();
        let inputs: Vec<&[u64]> = inputs.iter().map(Vec::as_slice).collect();
        let big: Vec<u64> = (0..=p.big_dimension()).map(|_| next()).collect();
        let mut small = vec![0; p.lwe_dimension + 1];
        let mut scratch = self.rotation.scratch(TILE)?;
        let start = Instant::now();
        self.rotation.rotate(&mut accs[..glwe], &inputs[..1], &mut scratch)?;
        self.times[0].push(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        self.rotation.rotate(&mut accs, &inputs, &mut scratch)?;
        self.times[1].push(start.elapsed().as_secs_f64() * 1e3 / TILE as f64);
        let start = Instant::now();
        self.key_switch.apply(&big, &mut small, &mut KeySwitchScratch::new())?;
        self.times[2].push(start.elapsed().as_secs_f64() * 1e3);
        Ok(())
    }
}

fn main() -> becalm::Result<()> {
    let mut cases = std::env::args()
        .skip(1)
        .map(|name| Case::new(&name))
        .collect::<becalm::Result<Vec<_>>>()?;
    for _ in 0..ROUNDS {
        for case in &mut cases {
            case.round()?;
        }
    }
    for case in &mut cases {
        let [one, tile, key_switch] = case.times.each_mut().map(|all| {
            all.sort_by(f64::total_cmp);
            format!("{:7.2} (least {:6.2})", all[all.len() / 2], all[0])
        });
        let megabytes = case.params.bootstrap_key_bytes() as f64 / 1e6;
        println!(
            "{:28} rotation {one}, in a tile of {TILE} {tile}, key switch {key_switch}, key {megabytes:.0} MB",
            case.params.name
        );
    }
    Ok(())
}
