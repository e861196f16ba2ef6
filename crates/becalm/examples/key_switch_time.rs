//! Time of a key switch 2048 → 918 with B = 2^4, ℓ = 4, in milliseconds a ciphertext: the median and the least of
//! rounds that visit all batch sizes in turn.
//! `cargo run --release --example key_switch_time [rounds]`

use becalm::math::Modulus;
use becalm::math::random::{Domain, MaskStream, PublicSeed};
use becalm::math::sampling::{uniform, uniform_32};
use becalm::math::simd::Level;
use becalm::params::Gadget;
use becalm::tfhe::key_switch::{KeySwitchKey, KeySwitchScratch, KeySwitchShape};
use std::time::Instant;

const BATCHES: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 36];

fn main() -> becalm::Result<()> {
    let rounds = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(30);
    println!("level     q         batch: median (least) ms/ct");
    for &level in Level::available() {
        for (modulus, modulus_log2) in
            [(Modulus::Native, 32), (Modulus::Native, 64), (Modulus::Goldilocks, 64)]
        {
            measure(level, modulus, modulus_log2, rounds)?;
        }
    }
    Ok(())
}

fn measure(level: Level, modulus: Modulus, modulus_log2: u32, rounds: usize) -> becalm::Result<()> {
    let shape = KeySwitchShape {
        input_dimension: 2048,
        output_dimension: 918,
        bodies: 1,
        shared: 0,
        gadget: Gadget { base_log: 4, level: 4 },
        modulus,
        modulus_log2,
    };
    let stream = |i| MaskStream::new(&PublicSeed([1; 32]), Domain::Test, i);
    let key = KeySwitchKey::new(shape, level, |i, rows| match modulus_log2 {
        32 => uniform_32(&mut stream(i as u32), rows),
        _ => uniform(&mut stream(i as u32), modulus, rows),
    })?;
    let mut inputs = vec![0; 36 * 2049];
    uniform(&mut stream(u32::MAX), modulus, &mut inputs);
    let (mut outputs, mut scratch) = (vec![0; 36 * 919], KeySwitchScratch::new());
    let mut times = BATCHES.map(|_| Vec::new());
    for _ in 0..rounds {
        for (batch, times) in BATCHES.iter().zip(&mut times) {
            let start = Instant::now();
            key.apply(&inputs[..batch * 2049], &mut outputs[..batch * 919], &mut scratch)?;
            times.push(start.elapsed().as_secs_f64() * 1e3 / *batch as f64);
        }
    }
    print!("{:8} {:>11}", level.name(), format!("{modulus:?}/{modulus_log2}"));
    for (batch, times) in BATCHES.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        print!("  {batch}: {:.3} ({:.3})", times[times.len() / 2], times[0]);
    }
    println!();
    Ok(())
}
