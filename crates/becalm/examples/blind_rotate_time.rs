//! Times blind rotations: `cargo run --release --example blind_rotate_time [set ...]`, one line per set and level of
//! instructions: milliseconds for one ciphertext, and per ciphertext for a tile that shares the key. The key is random
//! (time does not depend on it); the result of each level is compared with that of the portable one.

use becalm::bootstrap::tfhe::Shape;
use becalm::bootstrap::tfhe::blind_rotate::{FourierBootstrapKey, Job};
use becalm::math::simd::Level;
use becalm::params::Gadget;
use std::time::Instant;

/// Name, n, k, N, base_log, level.
const SETS: [(&str, usize, usize, usize, u32, u32); 10] = [
    ("2_2", 918, 1, 2048, 23, 1),
    ("1_1", 879, 4, 512, 23, 1),
    ("bool", 805, 3, 512, 10, 2),
    ("k1_512", 700, 1, 512, 18, 1),
    ("k2_1024", 800, 2, 1024, 23, 1),
    ("k1_1024_l2", 700, 1, 1024, 15, 2),
    ("k1_4096", 900, 1, 4096, 22, 1),
    ("3_3", 1077, 1, 8192, 15, 2),
    ("16384_l5", 100, 1, 16384, 7, 5),
    ("65536_l3", 60, 1, 65536, 11, 3),
];

fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut x = seed;
    move || {
        x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 27)
    }
}

/// Median and least milliseconds.
fn time(rounds: usize, mut f: impl FnMut()) -> (f64, f64) {
    let mut all: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    all.sort_by(f64::total_cmp);
    (all[rounds / 2], all[0])
}

fn main() -> becalm::Result<()> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let forced = std::env::var_os("BECALM_SIMD").is_some();
    for (name, n, k, size, base_log, level) in SETS {
        if !named.is_empty() && !named.iter().any(|x| x == name) {
            continue;
        }
        let gadget = Gadget { base_log, level };
        let shape =
            Shape { ggsw_count: n, glwe_dimension: k, bodies: 1, polynomial_size: size, gadget };
        for &simd in Level::available() {
            if forced && simd != Level::best() || !forced && simd == Level::Portable && size > 2048
            {
                continue;
            }
            let fill = |i: usize, out: &mut [u64]| out.fill_with(random(i as u64));
            let start = Instant::now();
            let key = FourierBootstrapKey::new(shape, simd, fill)?;
            let load = start.elapsed().as_secs_f64();
            let tile = key.best_tile();
            let mut scratch = key.scratch(tile)?;
            let mut next = random(1);
            let mut glwes: Vec<Vec<u64>> =
                (0..tile).map(|_| (0..shape.glwe_len()).map(|_| next()).collect()).collect();
            let exponents: Vec<Vec<u32>> = (0..tile)
                .map(|_| (0..=n).map(|_| next() as u32 % (2 * size as u32)).collect())
                .collect();
            let rounds = if size > 4096 { 3 } else { 15 };
            let single = time(rounds, || {
                key.rotate(
                    &mut [Job { glwe: &mut glwes[0], exponents: &exponents[0] }],
                    &mut scratch,
                )
                .unwrap()
            });
            let batch = time(rounds.div_ceil(2), || {
                let jobs = glwes.iter_mut().zip(&exponents);
                let mut jobs: Vec<Job> =
                    jobs.map(|(glwe, exponents)| Job { glwe, exponents }).collect();
                key.rotate(&mut jobs, &mut scratch).unwrap()
            });
            println!(
                "{name:>10} {:>8}: single {:7.3} (min {:7.3}) ms, tile of {tile} {:7.3} (min {:7.3}) ms each, key made in {load:.2} s",
                simd.name(),
                single.0,
                single.1,
                batch.0 / tile as f64,
                batch.1 / tile as f64,
            );
        }
    }
    Ok(())
}
