//! Times the exact transforms and the exact blind rotation, at every level of vector instructions.
use becalm::bootstrap::tfhe::Shape;
use becalm::bootstrap::tfhe::ntt_rotate::NttBootstrapKey;
use becalm::math::ntt::NttPlan;
use becalm::math::simd::Level;
use becalm::math::{Modulus, exact};
use becalm::params::Gadget;
use std::time::Instant;

/// The least time of one call in microseconds: robust on a busy machine.
fn time(calls: usize, mut call: impl FnMut()) -> f64 {
    let one = |_| {
        let start = Instant::now();
        call();
        start.elapsed().as_secs_f64() * 1e6
    };
    (0..calls).map(one).fold(f64::INFINITY, f64::min)
}

fn main() -> becalm::Result<()> {
    transforms()?;
    products()?;
    println!("milliseconds per blind rotation, one thread, uniformly random key");
    let (two_bits, wide) = (Gadget { base_log: 23, level: 1 }, Gadget { base_log: 8, level: 5 });
    rotations("tfhe_2_2", 918, 2048, two_bits, &[1, 8])?;
    rotations("N = 16384, 5 digits, 16 steps", 16, 16384, wide, &[1, 4])
}

/// A word that looks random.
fn word(i: usize) -> u64 {
    Modulus::Goldilocks.reduce((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn products() -> becalm::Result<()> {
    let (mut sum, a): (Vec<u64>, Vec<u64>) = (vec![0; 2048], (0..2048).map(word).collect());
    let small: Vec<i64> = a.iter().map(|&x| x as i64 >> 33).collect();
    for modulus in [Modulus::Native, Modulus::Goldilocks] {
        let fast =
            time(200, || exact::multiply_add(modulus, &mut sum, &small, &a).expect("small digits"));
        println!("exact product, N =  2048, {modulus:?}: {fast:.1} microseconds");
    }
    Ok(())
}

fn rotations(
    name: &str,
    n: usize,
    size: usize,
    gadget: Gadget,
    tiles: &[usize],
) -> becalm::Result<()> {
    let shape =
        Shape { ggsw_count: n, glwe_dimension: 1, bodies: 1, polynomial_size: size, gadget };
    for &level in Level::available() {
        let fill =
            |i: usize, out: &mut [u64]| (0..).zip(out).for_each(|(j, x)| *x = word(i + 3 * j));
        let key = NttBootstrapKey::new(shape, level, fill)?;
        for &tile in tiles {
            let mut scratch = key.scratch(tile)?;
            let mut accs: Vec<u64> = (0..tile * 2 * size).map(word).collect();
            let masks: Vec<u32> =
                (0..tile * (n + 1)).map(|i| (word(i) >> 40) as u32 % (2 * size as u32)).collect();
            let best =
                time(10, || key.rotate(&mut accs, &masks, &mut scratch).expect("own scratch"))
                    / 1e3
                    / tile as f64;
            println!("{name}, {:8}, tile of {tile}: {best:.2}", level.name());
        }
    }
    Ok(())
}

fn transforms() -> becalm::Result<()> {
    println!("microseconds, one thread       forward   inverse   dot of 2 rows");
    for size in [512, 1024, 2048, 4096, 8192, 16384, 65536] {
        let plan = NttPlan::get(size)?;
        for &level in Level::available() {
            let mut a: Vec<u64> =
                (0..2 * size as u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1).collect();
            let (mut out, calls) = (vec![0; size], 4_000_000 / size);
            let forward = time(calls, || plan.forward(level, &mut a[..size]));
            let inverse = time(calls, || plan.inverse(level, &mut a[..size]));
            let dot = time(calls, || plan.dot(level, &mut out, &a, &a, size));
            println!("N = {size:5}  {:8}  {forward:12.2} {inverse:9.2} {dot:9.2}", level.name());
        }
    }
    Ok(())
}
