//! Times of CKKS on this machine:
//! `cargo run --release -p becalm --example ckks_time -- [set] [baby steps] [runs] [kind] [stages] [slots] [signs] [FORM]`.
//! Kinds: regular, real, merged, sparse, slots_first, slots_first_real, sign. One thread with RAYON_NUM_THREADS=1. Prints sizes; the median
//! of the wall clock and of the processor time, and the best processor time, of each step over the runs; what each step
//! computes, in limbs of N values (transforms, products in conversions between words, other products); precision and peak
//! memory. FORM: `low`, keys stay in a file and matrices are encoded when they are used; `budget=G`, so many GB for both;
//! `packed` and `seeded`, keys in these forms; the peak is that of the server alone. Processor time changes less on a busy machine.

use becalm::UNWATCHED;
use becalm::backend::{CkksSetup, Cpu, Evaluator, MemoryBudget, Prepared};
use becalm::bootstrap::ckks::{Settings, Values, regular, sign, slots_first, sparse};
use becalm::cipher::{CkksKeys, CkksSecretKey, KeyForm, Rlwe};
use becalm::ckks::{Context, Needs, Work};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::Operation;
use becalm::program::rlwe::CkksProgram;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
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
struct Times(Vec<(String, Vec<[f64; 2]>, Work)>);

impl Times {
    fn add<T>(&mut self, context: &Context, name: &str, f: impl FnOnce() -> T) -> T {
        let start = Start::now(context);
        let out = f();
        self.since(context, name, start);
        out
    }

    /// The work done since `start`.
    fn since(&mut self, context: &Context, name: &str, start: Start) {
        let time = [start.clock.elapsed().as_secs_f64(), processor() - start.processor];
        let after = context.work();
        let work = Work {
            transforms: after.transforms - start.work.transforms,
            conversions: after.conversions - start.work.conversions,
            products: after.products - start.work.products,
        };
        match self.0.iter_mut().find(|(n, _, _)| *n == name) {
            Some((_, times, _)) => times.push(time),
            None => self.0.push((name.into(), vec![time], work)),
        }
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

/// Where a step began.
struct Start {
    clock: Instant,
    processor: f64,
    work: Work,
}

impl Start {
    fn now(context: &Context) -> Start {
        Start { clock: Instant::now(), processor: processor(), work: context.work() }
    }
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
        "slots_first" => slots_first(context, context.params().slots(), &settings),
        "slots_first_real" => slots_first(context, context.params().slots(), &of(Values::Real)),
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

/// The keys in the form asked for, and how memory is shared.
fn made(
    context: &Context,
    program: &CkksProgram,
    secret: &CkksSecretKey,
    needs: &Needs,
    times: &mut Times,
) -> becalm::Result<(CkksKeys, MemoryBudget)> {
    let all = MemoryBudget { matrices: usize::MAX, keys: usize::MAX };
    let named =
        |a: &String| ["low", "packed", "seeded"].contains(&a.as_str()) || a.starts_with("budget=");
    let form = std::env::args().find(named).unwrap_or_default();
    for (name, packed) in [("packed", KeyForm::Packed), ("seeded", KeyForm::Seeded)] {
        if form == name {
            let make = || context.keys_with(secret, needs, packed, None, UNWATCHED);
            return Ok((times.add(context, "keys", make)?, all));
        }
    }
    let keys = times.add(context, "keys", || context.keys(secret, needs))?;
    if form.is_empty() {
        return Ok((keys, all));
    }
    let keys = times.add(context, "stored", || stored(context, keys))?;
    let gigabytes: f64 = form.trim_start_matches("budget=").parse().unwrap_or(0.0);
    let shares = match form.as_str() {
        "low" => MemoryBudget { matrices: 0, keys: 0 },
        _ => MemoryBudget::of(context, program, &keys, (gigabytes * 1e9) as usize)?,
    };
    Ok((context.ready_keys(&keys, shares.keys)?, shares))
}

/// Runs it, and every operation of the user.
fn bootstraps(
    context: &Arc<Context>,
    program: &Arc<CkksProgram>,
    kind: &str,
    runs: usize,
) -> becalm::Result<()> {
    let secret = context.secret_key()?;
    let (mut needs, cost) = (program.needs(), program.cost());
    let (rotations, gigabytes) = (needs.rotations.len(), context.key_bytes(&needs) as f64 / 1e9);
    println!("{rotations} rotations, keys {gigabytes:.3} GB; {cost:?}");
    needs = needs.rotate([1], context.params().levels);
    let mut times = Times::default();
    let (keys, shares) = made(context, program, &secret, &needs, &mut times)?;
    println!("keys {:.3} GB in memory", keys.bytes() as f64 / 1e9);
    let cpu = Cpu::new(0)?;
    let ready = times.add(context, "encoded maps", || {
        Prepared::new(&cpu, context, program, shares.matrices, UNWATCHED)
    })?;
    let on = CkksSetup::new(context, &Arc::new(keys)).within(shares.matrices);
    let evaluator = Evaluator::new(&cpu, on)?;
    // The first instruction of each wave stands for it.
    let waves = program.waves();
    count_peak_from_here();
    println!("maps {:.3} GB", ready.bytes() as f64 / 1e9);
    let input = *program.info(program.inputs()[0]).expect("programs have their inputs");
    let (m, top) = (message(kind, input.slots), context.params().levels);
    let x = context.encrypt(&m, input.level, &secret)?;
    let inputs = vec![&x; program.inputs().len()];
    for _ in 0..runs {
        let y = times.add(context, "encrypt", || context.encrypt(&m, top, &secret))?;
        times.add(context, "decrypt", || context.decrypt(&y, &secret))?;
        times.add(context, "multiply", || evaluator.multiply(&y, &y))?;
        times.add(context, "rotate", || evaluator.rotate(&y, 1))?;
        let followed = Mutex::new((1, Start::now(context), &mut times));
        let whole = Start::now(context);
        let outputs = evaluator.run_lanes(&ready, &[&inputs], &|done, _| {
            let mut followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
            let (next, began, times) = &mut *followed;
            // Long instructions tell several times.
            if done < *next {
                return ControlFlow::Continue(());
            }
            *next = done + 1;
            let op = &program.ops()[waves[done - 1].ops[0]];
            let level = program.info(op.sources()[0]).map_or(0, |info| info.level);
            let start = std::mem::replace(began, Start::now(context));
            times.since(context, &format!("  {} at {level}", op.name()), start);
            ControlFlow::Continue(())
        })?;
        times.since(context, "bootstrap", whole);
        outputs[0].iter().try_for_each(|y| precision(context, &secret, y, &m))?;
    }
    times.print();
    if let Some(peak) = peak_memory() {
        println!("peak memory {peak:.2} GB");
    }
    Ok(())
}

/// Prints the precision of a result.
fn precision(
    context: &Context,
    secret: &CkksSecretKey,
    y: &Rlwe,
    m: &[Complex],
) -> becalm::Result<()> {
    let got = context.decrypt(y, secret)?;
    let errors: Vec<f64> = got.iter().zip(m).map(|(a, b)| (*a - *b).abs()).collect();
    let ((mean, worst), level) = (bits(&errors), y.level());
    println!("precision {mean:.2} bits in the mean, {worst:.2} at the worst, level {level}");
    Ok(())
}

/// The peak of memory is counted from here on (Linux).
fn count_peak_from_here() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The same keys, in a file.
fn stored(context: &Context, keys: CkksKeys) -> becalm::Result<CkksKeys> {
    let path = std::env::temp_dir().join(format!("becalm-keys-{}", std::process::id()));
    let failed = |e: std::io::Error| becalm::Error::io("store keys", "to write", e.to_string(), "");
    let file = std::fs::File::create(&path).map_err(failed)?;
    context.write_keys(&keys, std::io::BufWriter::new(file))?;
    drop(keys);
    let keys = context.open_keys(&path);
    // It stays as long as it is open.
    let _ = std::fs::remove_file(&path);
    keys
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
    let context = Arc::new(Context::new(set, true)?);
    let kind = args.get(4).map_or("regular", String::as_str);
    let stage_count = args.get(5).and_then(|a| a.parse().ok());
    let settings = Settings { stage_count, baby: number(2, 8), ..Settings::default() };
    let program = Arc::new(program(&context, kind, number(6, 1024), settings)?);
    bootstraps(&context, &program, kind, number(3, 1))
}
