//! Times the exact transforms and the exact blind rotation, at every level of vector instructions.
use becalm::math::ntt::NttPlan;
use becalm::math::simd::Level;
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
