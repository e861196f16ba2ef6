//! Times of CKKS on this machine:
//! `cargo run --release -p becalm --example ckks_time -- [set] [baby steps] [runs] [kind] [stages] [slots] [signs]`.
//! Kinds: regular, real, merged, sparse, lossy, lossy_real, sign. One thread with RAYON_NUM_THREADS=1. Prints sizes, the
//! instructions of a bootstrap and its precision; beside the time the processor time of the process, where the system
//! tells (Linux), which a busy machine changes less.

use becalm::backend::CkksSession;
use becalm::bootstrap::ckks::{Settings, Values, lossy, regular, sign, sparse};
use becalm::ckks::{Context, Evaluator};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::ckks::CkksProgram;
use std::time::Instant;

/// Seconds of processor time so far: fields 14 and 15 of /proc/self/stat, hundredths.
fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The most memory that the process has had, GB (Linux).
fn peak() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0 / 1e9
}

fn timed<T>(name: &str, f: impl FnOnce() -> T) -> T {
    let (start, before) = (Instant::now(), processor());
    let out = f();
    let (wall, used) = (start.elapsed().as_secs_f64(), processor() - before);
    println!("{name:24} {wall:9.3} s, {used:7.2} s of processor");
    out
}

/// The program of a kind by name.
fn program(
    context: &Context,
    kind: &str,
    slots: usize,
    settings: Settings,
) -> becalm::Result<CkksProgram> {
    let of = |values| Settings { values, ..settings };
    match kind {
        "real" => regular(context, &of(Values::Real)),
        "merged" => regular(context, &of(Values::Merged)),
        "sparse" => sparse(context, slots, &settings),
        "lossy" => lossy(context, &settings),
        "lossy_real" => lossy(context, &of(Values::Real)),
        "sign" => sign(context, &of(Values::Real)),
        _ => regular(context, &settings),
    }
}

/// A message of a kind: signs, or from −1 to 1.
fn message(kind: &str, n: usize) -> Vec<Complex> {
    let ramp = |j: usize| 2.0 * j as f64 / n as f64 - 1.0;
    let sign = |j: usize| if j * 7 % 5 < 2 { -1.0 } else { 1.0 };
    let signs = kind == "sign" || std::env::args().nth(7).is_some_and(|a| a == "signs");
    let value = |j| if signs { sign(j) } else { ramp(j) };
    (0..n).map(|j| Complex::from(value(j))).collect()
}

fn bits(errors: &[f64]) -> (f64, f64) {
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    (-mean.log2(), -errors.iter().copied().fold(0.0, f64::max).log2())
}

fn bootstraps(
    context: &Context,
    program: &CkksProgram,
    kind: &str,
    runs: usize,
) -> becalm::Result<()> {
    let secret = context.secret_key()?;
    let (needs, cost) = (program.needs(), program.cost());
    println!(
        "{} rotations, keys {:.3} GB; at most {} key switches, about {} transforms",
        needs.rotations.len(),
        context.key_bytes(&needs) as f64 / 1e9,
        cost.key_switches,
        cost.transforms
    );
    let keys = timed("keys", || context.keys(&secret, &needs))?;
    let evaluator = Evaluator::new(context, &keys)?;
    let session =
        timed("encoded maps", || CkksSession::open(Evaluator::new(context, &keys)?, program))?;
    println!("maps {:.3} GB", session.bytes() as f64 / 1e9);
    let input = *program.info(program.inputs()[0]).expect("programs have their inputs");
    let (m, top) = (message(kind, input.slots), context.params().levels);
    let y = timed("encrypt", || context.encrypt(&m, top, &secret))?;
    timed("decrypt", || context.decrypt(&y, &secret))?;
    timed("multiply", || evaluator.multiply(&y, &y))?;
    let x = context.encrypt(&m, input.level, &secret)?;
    let inputs = vec![&x; program.inputs().len()];
    for _ in 0..runs {
        let mut before = processor();
        let mut steps: Vec<(&str, usize, f64)> = vec![];
        let outputs = timed("bootstrap", || {
            session.run_with(&inputs, |_, op| {
                let now = processor();
                if let Some(last) = steps.last_mut() {
                    last.2 = now - before;
                }
                before = now;
                let level = program.info(op.sources()[0]).map_or(0, |info| info.level);
                steps.push((op.name(), level, 0.0));
                Ok(())
            })
        })?;
        steps.iter().filter(|s| s.2 > 0.0).for_each(|(name, level, seconds)| {
            println!("  {name:14} at level {level:2} {seconds:7.2} s of processor");
        });
        for y in &outputs {
            let got = context.decrypt(y, &secret)?;
            let errors: Vec<f64> = got.iter().zip(&m).map(|(a, b)| (*a - *b).abs()).collect();
            let ((mean, worst), level) = (bits(&errors), y.level());
            println!(
                "precision                {mean:.2} bits in the mean, {worst:.2} at the worst, level {level}"
            );
        }
    }
    println!("peak of memory           {:.2} GB", peak());
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
    let kind = args.get(4).map_or("regular", String::as_str);
    let stage_count = args.get(5).and_then(|a| a.parse().ok());
    let settings = Settings { stage_count, baby: number(2, 4), ..Settings::default() };
    let program = timed("program", || program(&context, kind, number(6, 1024), settings))?;
    bootstraps(&context, &program, kind, number(3, 1))
}
