//! Times of CKKS on this machine: `cargo run --release -p becalm --example ckks_time -- [set] [baby steps] [runs]`.
//! One thread with RAYON_NUM_THREADS=1. Prints sizes, the steps of a bootstrap and its precision; beside the time the
//! processor time of the process, where the system tells (Linux), which a busy machine changes less.

use becalm::bootstrap::ckks::Regular;
use becalm::ckks::{Context, Evaluator};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use std::time::Instant;

/// Seconds of processor time so far: fields 14 and 15 of /proc/self/stat, hundredths.
fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn timed<T>(name: &str, f: impl FnOnce() -> T) -> T {
    let (start, before) = (Instant::now(), processor());
    let out = f();
    let (wall, used) = (start.elapsed().as_secs_f64(), processor() - before);
    println!("{name:24} {wall:9.3} s, {used:7.2} s of processor");
    out
}

fn bootstraps(context: &Context, regular: &Regular, runs: usize) -> becalm::Result<()> {
    let secret = context.secret_key()?;
    let needs = regular.needs();
    println!(
        "{} rotations, keys {:.2} GB",
        needs.rotations.len(),
        context.key_bytes(&needs) as f64 / 1e9
    );
    let keys = timed("keys", || context.keys(&secret, &needs))?;
    let evaluator = Evaluator::new(context, &keys)?;
    let n = context.params().slots();
    let m: Vec<Complex> =
        (0..n).map(|j| Complex::new(2.0 * j as f64 / n as f64 - 1.0, 0.0)).collect();
    let top = context.params().levels;
    let y = timed("encrypt", || context.encrypt(&m, top, &secret))?;
    timed("decrypt", || context.decrypt(&y, &secret))?;
    timed("multiply", || evaluator.multiply(&y, &y))?;
    let x = context.encrypt(&m, 0, &secret)?;
    for _ in 0..runs {
        let y = timed("bootstrap", || -> becalm::Result<_> {
            let raised = timed("  raise", || regular.raise(&evaluator, &x))?;
            let [re, im] =
                timed("  coeffs to slots", || regular.coeffs_to_slots(&evaluator, &raised))?;
            drop(raised);
            let re = timed("  eval mod, real", || regular.eval_mod(&evaluator, &re))?;
            let im = timed("  eval mod, imaginary", || regular.eval_mod(&evaluator, &im))?;
            timed("  slots to coeffs", || regular.slots_to_coeffs(&evaluator, &re, &im))
        })?;
        let got = context.decrypt(&y, &secret)?;
        let errors: Vec<f64> = got.iter().zip(&m).map(|(a, b)| (*a - *b).abs()).collect();
        let mean = errors.iter().sum::<f64>() / n as f64;
        let worst = errors.iter().copied().fold(0.0, f64::max);
        println!(
            "precision                {:.2} bits in the mean, {:.2} at the worst",
            -mean.log2(),
            -worst.log2()
        );
    }
    Ok(())
}

fn main() -> becalm::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let set = CkksParams::named(args.get(1).map_or("ckks_toy_13", String::as_str))?;
    let number = |i: usize, default| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    println!(
        "{}: log QP {:.0} bits, {} threads",
        set.name,
        set.log2_modulus(),
        rayon::current_num_threads()
    );
    let context = timed("context", || Context::new(set, true))?;
    let regular = timed("encoded maps", || Regular::new(&context, number(2, 8)))?;
    println!("maps {:.2} GB", regular.bytes() as f64 / 1e9);
    bootstraps(&context, &regular, number(3, 1))
}
