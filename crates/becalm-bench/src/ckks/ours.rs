//! becalm's half: `becalm-bench ckks-worker KIND --toy` answers the commands of [`super::child`] as the peers' workers do.

use super::child::{Answer, Ready};
use super::logistic::Regression;
use crate::rows::Clock;
use anyhow::{Context as _, Result, bail};
use becalm::UNWATCHED;
use becalm::backend::{Ckks, CkksSetup, Cpu, Evaluator, Prepared};
use becalm::bootstrap::ckks::{KEY_SIZES, Settings, Values, regular, sign, slots_first, sparse};
use becalm::cipher::{CkksSecretKey, Rlwe};
use becalm::ckks::Context;
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::rlwe::CkksProgram;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

/// A request to becalm: a name, the set and its toy, slots where they are few.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name: `"regular"`.
    pub name: &'static str,
    /// The set at full size, and a small one.
    pub sets: [&'static str; 2],
    /// The contents of the slots.
    pub values: Values,
    /// Baby steps.
    pub baby: usize,
    /// The message of the runs that are timed.
    pub message: &'static str,
    /// Bytes that it takes at full size at the most, as measured, for the decision whether it fits.
    pub memory: u64,
}

/// The kind that runs [`Regression`] instead of one bootstrap.
pub const REGRESSION: &str = "logistic_regression";

/// Every kind.
pub const KINDS: &[Kind] = {
    const REGULAR: [&str; 2] = ["ckks_regular", "ckks_toy_12"];
    const FIRST: [&str; 2] = ["ckks_slots_first", "ckks_toy_slots_first"];
    const ITERATED: [&str; 2] = ["ckks_iterated", "ckks_toy_iterated"];
    const fn kind(name: &'static str, sets: [&'static str; 2], values: Values) -> Kind {
        let [_, (_, baby), _] = KEY_SIZES;
        Kind { name, sets, values, baby, message: "ramp", memory: 8_000_000_000 }
    }
    &[
        kind("regular", REGULAR, Values::Complex),
        kind("real", REGULAR, Values::Real),
        Kind {
            baby: KEY_SIZES[0].1,
            memory: 5_000_000_000,
            ..kind("small", REGULAR, Values::Complex)
        },
        Kind {
            baby: KEY_SIZES[2].1,
            memory: 11_200_000_000,
            ..kind("large", REGULAR, Values::Complex)
        },
        Kind {
            memory: 11_000_000_000,
            ..kind("14", ["ckks_14_levels", "ckks_toy_14_levels"], Values::Complex)
        },
        Kind {
            memory: 13_500_000_000,
            ..kind("17", ["ckks_17_levels", "ckks_toy_17_levels"], Values::Complex)
        },
        kind("sparse1024", REGULAR, Values::Complex),
        Kind { memory: 6_600_000_000, ..kind("lossy", FIRST, Values::Real) },
        Kind { message: "signs", ..kind("sign", FIRST, Values::Real) },
        Kind { memory: 9_000_000_000, ..kind(REGRESSION, FIRST, Values::Real) },
        kind("iterations1", ITERATED, Values::Real),
        kind("iterations2", ITERATED, Values::Real),
        Kind {
            message: "signs",
            memory: 8_600_000_000,
            ..kind("precise", ["ckks_precise", "ckks_toy_precise"], Values::Complex)
        },
    ]
};

/// The kind of this name.
///
/// # Errors
/// The message that there is none.
pub fn kind(name: &str) -> Result<&'static Kind> {
    KINDS.iter().find(|k| k.name == name).with_context(|| format!("no kind {name}"))
}

/// The program of a kind.
fn program(kind: &Kind, params: &'static CkksParams, context: &Context) -> Result<CkksProgram> {
    let settings =
        Settings { values: kind.values, baby: kind.baby, stage_count: None, ..Settings::default() };
    Ok(match kind.name {
        "sparse1024" => sparse(context, 1024, &settings)?,
        "lossy" | "iterations1" => slots_first(context, params.slots(), &settings)?,
        "iterations2" => {
            let settings = Settings { iterations: 2, ..settings };
            slots_first(context, params.slots(), &settings)?
        }
        "sign" => sign(context, &settings)?,
        REGRESSION => Regression::new(params)?.program(params)?,
        _ => regular(context, &settings)?,
    })
}

/// Messages of every kind: of zero mean and of another, constant, sorted, tiled, sparse.
const ANY: [&str; 10] =
    ["ramp", "ones", "signs", "half", "zeros", "unit", "below", "tiles", "spikes", "steps"];

/// The values that are encrypted; the peers' workers have those of the timed runs.
fn message(kind: &str, n: usize) -> Vec<Complex> {
    let ramp = |j: usize| 2.0 * j as f64 / (n - 1) as f64 - 1.0;
    let value = |j: usize| match kind {
        "ones" => Complex::from(1.0),
        "signs" => Complex::from((2 * (j % 2)) as f64 - 1.0),
        "half" => Complex::from(0.5),
        "zeros" => Complex::from(0.0),
        "unit" => Complex::from((j as f64 * 0.618_034).fract()),
        "below" => Complex::from(-(j as f64 * 0.618_034).fract()),
        "tiles" => Complex::from((j % 8) as f64 / 7.0),
        "spikes" => Complex::from(f64::from(j.is_multiple_of(97))),
        "steps" => Complex::from(if 2 * j < n { 1.0 } else { -1.0 }),
        "complex" => {
            let turn = Complex::root(j * 7 % n, n);
            Complex::new(ramp(j) * turn.re, ramp(j) * turn.im)
        }
        _ => Complex::from(ramp(j)),
    };
    (0..n).map(value).collect()
}

/// The keys and ciphertexts of the commands.
struct Ours {
    context: Arc<Context>,
    secret: CkksSecretKey,
    evaluator: Evaluator<Ckks>,
    ready: Prepared,
}

/// Seconds on the wall, and of the processor.
type Times = [f64; 2];

fn timed<T>(work: impl FnOnce() -> becalm::Result<T>) -> Result<(T, Times)> {
    let clocks = || [Clock::Wall, Clock::Cpu].map(Clock::seconds);
    let start = clocks();
    let made = work()?;
    let end = clocks();
    Ok((made, [end[0] - start[0], end[1] - start[1]]))
}

fn compared(
    [seconds, processor]: Times,
    got: &[Complex],
    wanted: &[Complex],
    level: usize,
) -> Answer {
    let errors = got.iter().zip(wanted).map(|(a, b)| (*a - *b).abs());
    let (sum, max) = errors.fold((0.0, 0.0), |(sum, max), e| (sum + e, f64::max(max, e)));
    Answer { seconds, processor, mean: sum / wanted.len() as f64, max, level }
}

impl Ours {
    fn checked(&self, seconds: Times, y: &Rlwe, wanted: &[Complex]) -> Result<Answer> {
        Ok(compared(seconds, &self.context.decrypt(y, &self.secret)?, wanted, y.level()))
    }

    fn bootstrap(&self, kind: &str) -> Result<Answer> {
        let program = self.ready.program();
        let input = program.inputs().first().and_then(|r| program.info(*r));
        let input = input.context("a bootstrap has an input")?;
        let m = message(kind, input.slots);
        let x = self.context.encrypt(&m, input.level, &self.secret)?;
        let (y, seconds) = timed(|| self.evaluator.run(&self.ready, &[&x]))?;
        self.checked(seconds, &y[0], &m)
    }

    /// The greatest errors over all kinds of message, and the mean of the times.
    fn any(&self) -> Result<Answer> {
        let all = ANY.iter().map(|kind| self.bootstrap(kind)).collect::<Result<Vec<_>>>()?;
        let (count, last) = (all.len() as f64, all.last().context("a message")?);
        let most = |of: fn(&Answer) -> f64| all.iter().map(of).fold(0.0, f64::max);
        Ok(Answer {
            seconds: all.iter().map(|a| a.seconds).sum::<f64>() / count,
            processor: all.iter().map(|a| a.processor).sum::<f64>() / count,
            mean: most(|a| a.mean),
            max: most(|a| a.max),
            level: last.level,
        })
    }

    fn regression(&self) -> Result<Answer> {
        let regression = Regression::new(self.context.params())?;
        let program = self.ready.program();
        let levels = program.inputs().iter().filter_map(|r| program.info(*r)).map(|i| i.level);
        let encrypt =
            |(m, level): (Vec<Complex>, usize)| self.context.encrypt(&m, level, &self.secret);
        let inputs = regression.inputs().into_iter().zip(levels).map(encrypt);
        let inputs = inputs.collect::<becalm::Result<Vec<_>>>()?;
        let inputs: Vec<&Rlwe> = inputs.iter().collect();
        let (y, seconds) = timed(|| self.evaluator.run(&self.ready, &inputs))?;
        let found = self.context.decrypt(&y[0], &self.secret)?;
        regression.require(&found.iter().map(|w| w.re).collect::<Vec<_>>())?;
        let wanted = regression.weights(false).into_iter().map(Complex::from).collect::<Vec<_>>();
        Ok(compared(seconds, &found, &wanted, y[0].level()))
    }

    fn basic(&self, operation: &str, level: Option<usize>) -> Result<Answer> {
        let params = self.context.params();
        let level = level.unwrap_or(params.levels);
        let m = message("ramp", params.slots());
        let (x, encrypting) = timed(|| self.context.encrypt(&m, level, &self.secret))?;
        match operation {
            "encrypt" => self.checked(encrypting, &x, &m),
            "decrypt" => {
                let (got, seconds) = timed(|| self.context.decrypt(&x, &self.secret))?;
                Ok(compared(seconds, &got, &m, level))
            }
            "rotate" => {
                let (y, seconds) = timed(|| self.evaluator.rotate(&x, 1))?;
                let mut wanted = m;
                wanted.rotate_left(1);
                self.checked(seconds, &y, &wanted)
            }
            _ => {
                let (y, seconds) = timed(|| self.evaluator.multiply(&x, &x))?;
                let wanted: Vec<Complex> = m.iter().map(|v| *v * *v).collect();
                self.checked(seconds, &y, &wanted)
            }
        }
    }

    fn answer(&self, words: &[&str]) -> Result<Answer> {
        match *words {
            ["bootstrap", "any"] => self.any(),
            [REGRESSION] => self.regression(),
            ["bootstrap", kind] => self.bootstrap(kind),
            // All threads work on one ciphertext: one after another is as many at once.
            ["together", _, kind] => self.bootstrap(kind),
            ["multiply" | "rotate" | "encrypt" | "decrypt"] => self.basic(words[0], None),
            ["multiply" | "rotate" | "encrypt" | "decrypt", level] => {
                self.basic(words[0], Some(level.parse()?))
            }
            _ => bail!("unknown command {words:?}"),
        }
    }
}

/// The facts of a set, without those of keys.
pub fn ready(params: &CkksParams) -> Ready {
    let bootstrap = params.bootstrap;
    Ready {
        name: "becalm".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        params: params.name.into(),
        log2_degree: params.log2_degree,
        slots: params.slots(),
        log2_modulus: params.log2_modulus(),
        weight: None,
        ephemeral_weight: bootstrap.map(|b| b.ephemeral_weight as u32),
        ephemeral_log2_modulus: bootstrap
            .map(|b| params.base_bits + 50.0 * b.ephemeral_words as f64),
        ephemeral_noise_std: bootstrap.map(|b| b.ephemeral_noise_std),
        // Integers never leave the range of EvalMod: see docs/bootstrap/ckks_regular.md.
        log2_pfail: None,
        levels: params.levels,
        top_level: None,
        key_bytes: 0,
        stored_key_bytes: 0,
        keygen_seconds: 0.0,
    }
}

/// Makes the keys of the kind on all threads, and answers until the input ends.
///
/// # Errors
/// The error of a message that cannot be sent to the other side.
pub fn serve(name: &str, toy: bool) -> Result<()> {
    let kind = kind(name)?;
    let context = Arc::new(Context::new(CkksParams::named(kind.sets[usize::from(toy)])?, true)?);
    let params = context.params();
    let program = Arc::new(program(kind, params, &context)?);
    let secret = context.secret_key()?;
    let needs = program.needs();
    let (key_bytes, stored) = (context.key_bytes(&needs), context.stored_key_bytes(&needs));
    let needs = needs.rotate([1], params.levels);
    let cpu = Cpu::new(0)?;
    let start = Instant::now();
    let keys = cpu.install(|| context.keys(&secret, &needs))?;
    let keygen_seconds = start.elapsed().as_secs_f64();
    let evaluator = Evaluator::new(&Cpu::new(1)?, CkksSetup::new(&context, &Arc::new(keys)))?;
    let ready_program = Prepared::new(&cpu, &context, &program, usize::MAX, UNWATCHED)?;
    drop(cpu);
    let slots = program.inputs().first().and_then(|r| program.info(*r)).map_or(0, |i| i.slots);
    let ready = Ready {
        slots,
        key_bytes: key_bytes as u64,
        stored_key_bytes: stored as u64,
        keygen_seconds,
        ..ready(params)
    };
    converse(Ours { context, secret, evaluator, ready: ready_program }, &ready)
}

fn converse(mut ours: Ours, ready: &Ready) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut say = |value: &Value| -> Result<()> {
        writeln!(out, "{value}")?;
        Ok(out.flush()?)
    };
    say(&serde_json::to_value(ready)?)?;
    let mut cpu = Cpu::new(1)?;
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match *words {
            ["threads", count] => match count.parse().map(Cpu::new) {
                Ok(Ok(made)) => {
                    cpu = made;
                    let keys = ours.evaluator.keys();
                    ours.evaluator = Evaluator::new(&cpu, CkksSetup::new(&ours.context, keys))?;
                    json!({})
                }
                _ => json!({"error": format!("no number of threads: {count}")}),
            },
            _ => match cpu.install(|| ours.answer(&words)) {
                Ok(answer) => serde_json::to_value(answer)?,
                Err(e) => json!({"error": format!("{e:#}")}),
            },
        };
        say(&answer)?;
    }
    Ok(())
}
