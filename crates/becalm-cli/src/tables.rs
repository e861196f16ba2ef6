//! `becalm bench ckks --tables`: the tables of the DESILO document on CKKS bootstrapping, row by row, on this machine.
//!
//! Its figures stand in a separate column: one thread of an i7-10700K, the averages of ten runs, and its errors. They
//! are other parameters on another machine; `becalm-bench -- ckks` measures desilofhe itself. Messages are the document's:
//! numbers from −1 to 1, or signs; complex ones where a table is of complex values.

use crate::ckks::{self, Job};
use crate::report::{self, table};
use crate::signals;
use crate::status::usage;
use anyhow::{Result, bail};
use becalm::backend::{CkksSetup, Cpu, Evaluator};
use becalm::bootstrap::ckks::{KeyPlan, Price, Wish};
use becalm::cipher::KeyForm;
use becalm::ckks::Context;
use becalm::math::complex::Complex;
use becalm::math::memory::available_memory;
use becalm::params::CkksParams;
use becalm::words::megabytes;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Threads of the columns.
const THREADS: [usize; 2] = [1, 2];
/// Head of the column of the document's own figures.
const DOCUMENT: &str = "document (their machine)";

/// A table of the document: rows that differ in key size, stages and slots.
struct Table {
    title: &'static str,
    /// At full size, and the toy.
    sets: [&'static str; 2],
    kind: &'static str,
    of: &'static str,
    message: Message,
    /// Whether keys are packed in memory.
    compact: bool,
    /// Slots (0 for all), key size, stages, and the document's seconds on one thread.
    rows: &'static [(usize, &'static str, usize, f64)],
    /// The document's mean error.
    error: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Message {
    Ramp,
    Signs,
    Complex,
    ComplexSigns,
}

const REGULAR: [&str; 2] = ["ckks_regular", "ckks_toy_12"];
const TO_14: [&str; 2] = ["ckks_14_levels", "ckks_toy_14_levels"];
const FIRST: [&str; 2] = ["ckks_slots_first", "ckks_toy_slots_first"];
/// A table without seconds: one row.
const ONE: &[(usize, &str, usize, f64)] = &[(0, "medium", 3, 0.0)];
const FEW: &[(usize, &str, usize, f64)] = &[(1024, "medium", 3, 0.0)];

const fn times(
    title: &'static str,
    sets: [&'static str; 2],
    (kind, of): (&'static str, &'static str),
    message: Message,
    rows: &'static [(usize, &'static str, usize, f64)],
) -> Table {
    Table { title, sets, kind, of, message, compact: false, rows, error: None }
}

const fn errors(
    title: &'static str,
    sets: [&'static str; 2],
    (kind, of): (&'static str, &'static str),
    message: Message,
    rows: &'static [(usize, &'static str, usize, f64)],
    error: f64,
) -> Table {
    Table { title, sets, kind, of, message, compact: false, rows, error: Some(error) }
}

const TABLES: &[Table] = &[
    times(
        "regular",
        REGULAR,
        ("regular", "complex"),
        Message::Ramp,
        &[
            (0, "small", 3, 106.136),
            (0, "small", 4, 70.108),
            (0, "small", 5, 67.757),
            (0, "medium", 3, 30.658),
            (0, "medium", 4, 24.997),
            (0, "medium", 5, 24.053),
            (0, "large", 3, 27.485),
            (0, "large", 4, 24.261),
            (0, "large", 5, 21.949),
        ],
    ),
    times(
        "to 14 levels",
        TO_14,
        ("regular", "complex"),
        Message::Ramp,
        &[(0, "small", 3, 132.612), (0, "medium", 3, 37.643), (0, "large", 3, 33.589)],
    ),
    Table {
        compact: true,
        ..times(
            "to 14 levels, compact",
            TO_14,
            ("regular", "complex"),
            Message::Ramp,
            &[(0, "small", 3, 100.532), (0, "medium", 3, 28.524), (0, "large", 3, 26.487)],
        )
    },
    times(
        "sparse",
        REGULAR,
        ("sparse", "complex"),
        Message::Ramp,
        &[
            (32, "small", 1, 43.041),
            (32, "small", 2, 32.841),
            (32, "medium", 1, 26.956),
            (32, "medium", 2, 25.111),
            (32, "large", 1, 26.721),
            (1024, "small", 2, 69.277),
            (1024, "small", 3, 47.774),
            (1024, "small", 4, 44.923),
            (1024, "medium", 2, 28.654),
            (1024, "medium", 3, 25.619),
            (1024, "medium", 4, 23.805),
            (1024, "large", 2, 27.633),
            (1024, "large", 3, 24.588),
        ],
    ),
    times(
        "lossy",
        FIRST,
        ("slots_first", "complex"),
        Message::Complex,
        &[
            (0, "small", 3, 82.872),
            (0, "small", 4, 56.457),
            (0, "small", 5, 55.914),
            (0, "medium", 3, 24.435),
            (0, "medium", 4, 20.767),
            (0, "medium", 5, 19.991),
            (0, "large", 3, 22.431),
            (0, "large", 4, 20.215),
            (0, "large", 5, 18.522),
        ],
    ),
    times(
        "lossy, real values",
        FIRST,
        ("slots_first", "real"),
        Message::Ramp,
        &[
            (0, "small", 3, 77.115),
            (0, "small", 4, 50.447),
            (0, "small", 5, 51.530),
            (0, "medium", 3, 18.235),
            (0, "medium", 4, 14.854),
            (0, "medium", 5, 14.666),
            (0, "large", 3, 16.315),
            (0, "large", 4, 14.336),
            (0, "large", 5, 12.853),
        ],
    ),
    times(
        "sign",
        FIRST,
        ("sign", "complex"),
        Message::ComplexSigns,
        &[
            (0, "small", 3, 81.748),
            (0, "small", 4, 56.784),
            (0, "small", 5, 57.305),
            (0, "medium", 3, 24.454),
            (0, "medium", 4, 20.629),
            (0, "medium", 5, 20.313),
            (0, "large", 3, 22.466),
            (0, "large", 4, 19.651),
            (0, "large", 5, 18.443),
        ],
    ),
    times(
        "sign, real values",
        FIRST,
        ("sign", "real"),
        Message::Signs,
        &[
            (0, "small", 3, 75.843),
            (0, "small", 4, 50.553),
            (0, "small", 5, 51.585),
            (0, "medium", 3, 18.263),
            (0, "medium", 4, 14.884),
            (0, "medium", 5, 14.933),
            (0, "large", 3, 16.277),
            (0, "large", 4, 14.262),
            (0, "large", 5, 13.117),
        ],
    ),
    errors(
        "error, signs: regular",
        REGULAR,
        ("regular", "complex"),
        Message::Signs,
        ONE,
        8.03008e-4,
    ),
    errors("error, signs: lossy", FIRST, ("slots_first", "real"), Message::Signs, ONE, 1.60562e-3),
    errors("error, signs: sign", FIRST, ("sign", "real"), Message::Signs, ONE, 1.98124e-8),
    errors("error: regular", REGULAR, ("regular", "complex"), Message::Ramp, ONE, 6.72878e-7),
    errors("error: to 14 levels", TO_14, ("regular", "complex"), Message::Ramp, ONE, 7.29874e-6),
    errors("error: sparse", REGULAR, ("sparse", "complex"), Message::Ramp, FEW, 2.59681e-7),
    errors("error: lossy", FIRST, ("slots_first", "real"), Message::Ramp, ONE, 4.01552e-4),
    errors("error: sign", FIRST, ("sign", "real"), Message::Signs, ONE, 1.98124e-8),
];

/// A row as measured, or why it was not.
#[derive(Serialize)]
struct Row {
    table: &'static str,
    params: &'static str,
    slots: usize,
    key_size: &'static str,
    stage_count: usize,
    /// On one thread, and on two.
    seconds: Option<[f64; 2]>,
    mean_error: Option<f64>,
    /// The claim of the program for values without structure, root of the square mean.
    claimed_error: Option<f64>,
    level: Option<usize>,
    key_bytes: Option<usize>,
    stored_key_bytes: Option<usize>,
    document_seconds: Option<f64>,
    document_mean_error: Option<f64>,
    left_out: Option<String>,
}

fn values(message: Message, n: usize) -> Vec<Complex> {
    let sign = |j: usize| (2 * (j % 2)) as f64 - 1.0;
    let ramp = |j: usize| 2.0 * j as f64 / (n - 1) as f64 - 1.0;
    let value = |j: usize| match message {
        Message::Ramp => Complex::from(ramp(j)),
        Message::Signs => Complex::from(sign(j)),
        Message::Complex => {
            let turn = Complex::root(j * 7 % n, n);
            Complex::new(ramp(j) * turn.re, ramp(j) * turn.im)
        }
        Message::ComplexSigns => Complex::new(sign(j), sign(j / 2)),
    };
    (0..n).map(value).collect()
}

/// The measurements of a row.
struct Measured {
    seconds: [f64; 2],
    bits: f64,
    claimed: Option<f64>,
    level: usize,
    key_bytes: usize,
    stored: usize,
}

fn measure(t: &Table, job: &Job, quick: bool) -> Result<Measured> {
    let form = if t.compact { KeyForm::Packed } else { KeyForm::Ready };
    let plan = ckks::plan(CkksParams::named(t.sets[usize::from(quick)])?, job)?;
    let wish = Wish { form: Some(form), ..plan.wish().clone() };
    let plan = KeyPlan::new(plan.chain().params(), &wish)?;
    plan.require("bench", available_memory(), |_| None, "free memory")?;
    let context = Arc::new(Context::new(plan.chain().params(), true)?);
    let program = Arc::new(ckks::bootstrap_of(&plan)?.clone());
    let needs = plan.needs();
    let Price { stored, memory: key_bytes, .. } = plan.price()?;
    let secret = context.secret_key()?;
    let all = Cpu::new(0)?;
    let keys = Arc::new(all.install(|| ckks::keys(&context, &secret, &needs, form))?);
    let ready = ckks::prepared(&all, &context, &program)?;
    let slots = program.inputs().first().and_then(|r| program.info(*r)).map_or(1, |i| i.slots);
    let m = values(t.message, slots);
    let (mut seconds, mut last) = ([0.0; 2], None);
    for (seconds, threads) in seconds.iter_mut().zip(THREADS) {
        let runs = if quick { 1 } else { 3 };
        let cpu = Cpu::new(threads)?;
        let evaluator = Evaluator::new(&cpu, CkksSetup::new(&context, &keys))?;
        let made =
            cpu.install(|| ckks::measured(&context, &secret, &evaluator, &ready, &m, runs))?;
        *seconds = made.bootstrap;
        last = Some(made);
    }
    let Some(last) = last else { bail!("nothing was run") };
    // Signs have a structure that the regular bootstrap's claim does not cover.
    let structured = t.kind == "regular" && t.message == Message::Signs;
    let claimed = program.error().filter(|_| !structured);
    Ok(Measured { seconds, bits: last.after.0, claimed, level: last.levels[1], key_bytes, stored })
}

fn row(
    t: &Table,
    (slots, size, stages, document): (usize, &'static str, usize, f64),
    quick: bool,
) -> Row {
    let job = Job::of(t.kind, size, (slots > 0).then_some(slots), Some(stages), t.of);
    let (made, left_out) = match measure(t, &job, quick) {
        Ok(made) => (Some(made), None),
        Err(e) => (None, Some(format!("{e:#}"))),
    };
    let m = made.as_ref();
    Row {
        table: t.title,
        params: t.sets[usize::from(quick)],
        slots,
        key_size: size,
        stage_count: stages,
        seconds: m.map(|m| m.seconds),
        mean_error: m.map(|m| (-m.bits).exp2()),
        claimed_error: m.and_then(|m| m.claimed),
        level: m.map(|m| m.level),
        key_bytes: m.map(|m| m.key_bytes),
        stored_key_bytes: m.map(|m| m.stored),
        document_seconds: (document > 0.0).then_some(document),
        document_mean_error: t.error,
        left_out,
    }
}

/// The tables whose titles contain `wanted`; `quick` on toys.
///
/// # Errors
/// For an unknown table, and for Ctrl-C.
pub fn run(wanted: &str, quick: bool, json: Option<&Path>) -> Result<()> {
    let chosen: Vec<&Table> = TABLES.iter().filter(|t| t.title.contains(wanted)).collect();
    if chosen.is_empty() {
        let titles: Vec<&str> = TABLES.iter().map(|t| t.title).collect();
        usage!("no table `{wanted}`; there are {}", titles.join("; "));
    }
    let to_stdout = json.is_some_and(|path| path.as_os_str() == "-");
    let mut rows = vec![];
    for t in chosen {
        let begin = rows.len();
        for given in t.rows {
            rows.push(row(t, *given, quick));
            if signals::stopped() {
                let remedy = "the rows so far are printed or written";
                return Err(
                    becalm::Error::interrupted("bench", "every row", "a signal", remedy).into()
                );
            }
            // Written after every row, so that an interrupted run leaves what it measured.
            if let Some(path) = json.filter(|_| !to_stdout) {
                crate::output::write(path, serde_json::to_string_pretty(&rows)?.as_bytes())?;
            }
        }
        if !to_stdout {
            print(t, &rows[begin..])?;
        }
    }
    if to_stdout { report::json(&rows) } else { Ok(()) }
}

fn print(t: &Table, rows: &[Row]) -> Result<()> {
    let text = |x: Option<f64>, f: fn(f64) -> String| x.map_or(String::new(), f);
    let seconds = |x: f64| format!("{x:.3}");
    let error = |x: f64| format!("{x:.3e} ({:.1} bits)", -x.log2());
    let cells = |r: &Row| {
        let document = match r.document_mean_error {
            Some(e) => error(e),
            None => text(r.document_seconds, seconds),
        };
        vec![
            if r.slots == 0 { "all".into() } else { r.slots.to_string() },
            r.key_size.to_string(),
            r.stage_count.to_string(),
            text(r.seconds.map(|s| s[0]), seconds),
            text(r.seconds.map(|s| s[1]), seconds),
            text(r.mean_error, error),
            text(r.claimed_error, |x| format!("{:.1}", -x.log2())),
            r.level.map_or(String::new(), |l| l.to_string()),
            r.stored_key_bytes.map_or(String::new(), megabytes),
            document,
            r.left_out.clone().unwrap_or_default(),
        ]
    };
    let head = [
        "slots",
        "keys",
        "stages",
        "s, 1 thread",
        "2 threads",
        "mean error",
        "bits claimed",
        "level",
        "stored",
        DOCUMENT,
        "",
    ];
    let body = table(&head, &rows.iter().map(cells).collect::<Vec<_>>());
    report::print(&format!("{} ({})\n{body}\n", t.title, rows[0].params))
}
