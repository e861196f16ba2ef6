//! Times of CKKS on this machine: `cargo run --release -p becalm --example ckks_time -- [set] [baby steps] [runs]`.
//! One thread with RAYON_NUM_THREADS=1. Prints sizes; the median of the wall clock and of the processor time, and the best
//! processor time, of each step over the runs; what each step computes, in limbs of N values (transforms, products in
//! conversions between words, other products); precision and peak memory. Processor time changes less on a busy machine.

use becalm::bootstrap::ckks::Regular;
use becalm::ckks::{Context, Evaluator, Work};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use std::time::Instant;

/// Seconds of processor time so far: what the threads of the process have run, where the system tells.
fn processor() -> f64 {
    let run = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(run).sum::<f64>() / 1e9
}

/// The best and the median of what was measured under each name, in the order of the names' first use.
#[derive(Default)]
struct Times(Vec<(&'static str, Vec<[f64; 2]>, Work)>);

impl Times {
    fn add<T>(&mut self, context: &Context, name: &'static str, f: impl FnOnce() -> T) -> T {
        let (start, before, work) = (Instant::now(), processor(), context.work());
        let out = f();
        let time = [start.elapsed().as_secs_f64(), processor() - before];
        let after = context.work();
        let work = Work {
            transforms: after.transforms - work.transforms,
            conversions: after.conversions - work.conversions,
            products: after.products - work.products,
        };
        match self.0.iter_mut().find(|(n, _, _)| *n == name) {
            Some((_, times, _)) => times.push(time),
            None => self.0.push((name, vec![time], work)),
        }
        out
    }

    fn print(mut self) {
        println!(
            "{:20} {:>8} {:>8} {:>8} {:>10} {:>11} {:>9}",
            "seconds", "wall", "cpu", "best", "transforms", "conversions", "products"
        );
        for (name, times, work) in &mut self.0 {
            let mut sorted = |k: usize| {
                times.sort_by(|a, b| a[k].total_cmp(&b[k]));
                (times[times.len() / 2][k], times[0][k])
            };
            let ((wall, _), (cpu, best)) = (sorted(0), sorted(1));
            let Work { transforms, conversions, products } = *work;
            println!(
                "{name:20} {wall:8.3} {cpu:8.3} {best:8.3} {transforms:10} {conversions:11} {products:9}"
            );
        }
    }
}

fn bootstraps(context: &Context, regular: &Regular, runs: usize) -> becalm::Result<()> {
    let secret = context.secret_key()?;
    let mut needs = regular.needs();
    needs.rotations.insert(1);
    println!(
        "{} rotations, keys {:.2} GB",
        needs.rotations.len(),
        context.key_bytes(&needs) as f64 / 1e9
    );
    let mut times = Times::default();
    let keys = times.add(context, "keys", || context.keys(&secret, &needs))?;
    let evaluator = Evaluator::new(context, &keys)?;
    let n = context.params().slots();
    let m: Vec<Complex> =
        (0..n).map(|j| Complex::new(2.0 * j as f64 / n as f64 - 1.0, 0.0)).collect();
    let top = context.params().levels;
    let x = context.encrypt(&m, 0, &secret)?;
    let mut precision = (0.0, 0.0);
    for _ in 0..runs {
        let y = times.add(context, "encrypt", || context.encrypt(&m, top, &secret))?;
        times.add(context, "decrypt", || context.decrypt(&y, &secret))?;
        times.add(context, "multiply", || evaluator.multiply(&y, &y))?;
        times.add(context, "rotate", || evaluator.rotate(&y, 1))?;
        let raised = times.add(context, "raise", || regular.raise(&evaluator, &x))?;
        let [re, im] = times
            .add(context, "coeffs to slots", || regular.coeffs_to_slots(&evaluator, &raised))?;
        drop(raised);
        let re = times.add(context, "eval mod", || regular.eval_mod(&evaluator, &re))?;
        let im = times.add(context, "eval mod", || regular.eval_mod(&evaluator, &im))?;
        let y = times
            .add(context, "slots to coeffs", || regular.slots_to_coeffs(&evaluator, &re, &im))?;
        drop((re, im));
        times.add(context, "bootstrap", || regular.run(&evaluator, &x))?;
        let got = context.decrypt(&y, &secret)?;
        let errors: Vec<f64> = got.iter().zip(&m).map(|(a, b)| (*a - *b).abs()).collect();
        let mean = errors.iter().sum::<f64>() / n as f64;
        precision = (-mean.log2(), -errors.iter().copied().fold(0.0, f64::max).log2());
    }
    times.print();
    println!("precision {:.2} bits in the mean, {:.2} at the worst", precision.0, precision.1);
    if let Some(peak) = peak_memory() {
        println!("peak memory {peak:.2} GB");
    }
    Ok(())
}

/// The most memory that the process has had, GB, where the system tells (Linux).
fn peak_memory() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|l| l.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1024.0 / 1e9)
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
    let context = Context::new(set, true)?;
    let regular = Regular::new(&context, number(2, 8))?;
    println!("maps {:.2} GB", regular.bytes() as f64 / 1e9);
    bootstraps(&context, &regular, number(3, 1))
}
