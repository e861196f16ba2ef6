//! Recorded CKKS programs: every instruction computes what it says, files bring programs back or are refused, and what the
//! recorder refuses.

use becalm::backend::{Ckks, CkksSetup, Cpu, Evaluator};
use becalm::bootstrap::ckks::{Settings, Values, regular, sign, slots_first, sparse, tables};
use becalm::cipher::file::{Kind, Trust, inspect};
use becalm::cipher::{Account, CkksKeys, Rlwe, Standing};
use becalm::ckks::{Chain, Chebyshev, Context, Matrix};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::rlwe::{CkksOp, CkksProgram};
use becalm::program::{Operation, Reg};
use becalm::{Error, Result};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn toy() -> Arc<Context> {
    Arc::new(Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap())
}

fn evaluator(context: &Arc<Context>, keys: CkksKeys) -> Evaluator<Ckks> {
    Evaluator::new(&Cpu::new(0).unwrap(), CkksSetup::new(context, &Arc::new(keys))).unwrap()
}

const TOY: Trust = Trust { allow_insecure: true, limit: 1 << 30 };
const SLOTS: usize = 2048;

fn chain(name: &str) -> Chain {
    Chain::new(CkksParams::named(name).unwrap()).unwrap()
}

/// Values below 1 without structure.
fn message(k: f64) -> Vec<Complex> {
    let part = |j: usize, k: f64| ((j as f64 + 1.0) * k).sin() * 0.6;
    (0..SLOTS).map(|j| Complex::new(part(j, k), part(j, k + 0.7))).collect()
}

fn each(x: &[Complex], f: impl Fn(Complex) -> Complex) -> Vec<Complex> {
    x.iter().map(|x| f(*x)).collect()
}

fn both(a: &[Complex], b: &[Complex], f: impl Fn(Complex, Complex) -> Complex) -> Vec<Complex> {
    a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect()
}

fn turned(x: &[Complex], by: usize) -> Vec<Complex> {
    (0..x.len()).map(|j| x[(j + by) % x.len()]).collect()
}

fn bytes(context: &Context, x: &Rlwe) -> Vec<u8> {
    context.ciphertext_to_bytes(x).unwrap()
}

/// A map of three diagonals.
fn map() -> Matrix {
    let mut map = Matrix::zero(SLOTS);
    for (k, c) in [(0, 0.5), (1, -0.25), (5, 0.125)] {
        let entries = map.diagonal(k).iter_mut().enumerate();
        entries.for_each(|(a, x)| *x = Complex::new(c, c * (a as f64).cos()));
    }
    map
}

/// Every instruction that a user's levels allow, each on the two arguments; and what it should give.
fn every_instruction(p: &mut CkksProgram, [x, y]: [&[Complex]; 2]) -> Result<Vec<Vec<Complex>>> {
    let [a, b] = [p.input(6, SLOTS)?, p.input(6, SLOTS)?];
    let scale = p.info(a).map_or(0.0, |i| i.scale);
    let poly = Chebyshev(vec![0.1, 0.5, 0.0, -0.25]);
    let real = p.conjugate(a)?;
    let real = p.add(a, real)?;
    let real = p.multiply_constant(real, 0.5)?;
    let real_values = each(x, |x| Complex::from(x.re));
    let pairs = [(a, b), (b, b)];
    let low = p.level_down(a, 3)?;
    let squared = p.multiply(a, a)?;
    let half = p.trace(a, SLOTS / 2)?;
    let wide = p.divide(a, 2f64.powi(40))?;
    let made = [
        (p.linear(a, map(), 2, scale)?, map().apply(x)),
        (
            p.polynomial(real, poly.clone(), scale)?,
            each(&real_values, |x| Complex::from(poly.value(x.re))),
        ),
        (p.double_angle(a)?, each(x, |x| x * x * 2.0 - Complex::from(1.0))),
        (p.trace(a, SLOTS / 2)?, both(x, &turned(x, SLOTS / 2), |a, b| a + b)),
        (p.multiply(a, b)?, both(x, y, |a, b| a * b)),
        (p.multiply_i(a)?, each(x, |x| x * Complex::new(0.0, 1.0))),
        (p.conjugate(a)?, each(x, |x| x.conj())),
        (p.rotate(a, -3)?, turned(x, SLOTS - 3)),
        (p.add(a, b)?, both(x, y, |a, b| a + b)),
        (p.subtract(a, b)?, both(x, y, |a, b| a - b)),
        (p.add_constant(a, 0.75)?, each(x, |x| x + Complex::from(0.75))),
        (p.divide(a, 2.0)?, each(x, |x| x * 0.5)),
        (p.dot(&pairs)?, both(x, y, |a, b| a * b + b * b)),
        (p.negate(a)?, each(x, |x| -x)),
        (
            p.sum(a, 4)?,
            (0..SLOTS)
                .map(|j| turned(x, j)[..4].iter().fold(Complex::default(), |a, b| a + *b))
                .collect(),
        ),
        (p.multiply_constant(a, -0.3)?, each(x, |x| x * -0.3)),
        (p.weighted_sum(&[(a, 0.5), (b, -2.0)])?, both(x, y, |a, b| a * 0.5 - b * 2.0)),
        (p.add_plain(a, y)?, both(x, y, |a, b| a + b)),
        (p.add_plain(a, &[Complex::from(0.5)])?, each(x, |x| x + Complex::from(0.5))),
        (p.multiply_plain(a, y)?, both(x, y, |a, b| a * b)),
        (low, x.to_vec()),
        (p.level_down(squared, 4)?, each(x, |x| x * x)),
        (p.repeat(half, SLOTS)?, both(x, &turned(x, SLOTS / 2), |a, b| a + b)),
        (p.rescale(wide)?, each(x, |x| x * 2f64.powi(-40))),
    ];
    made.into_iter().map(|(reg, values)| p.output(reg).map(|()| values)).collect()
}

/// Values on the unit circle: as large as a bound of 1 allows, and not real.
fn circle() -> Vec<Complex> {
    (0..SLOTS).map(|k| Complex::new((k as f64).cos(), (k as f64).sin())).collect()
}

#[test]
fn every_instruction_computes_what_it_says() {
    let context = toy();
    let secret = context.secret_key().unwrap();
    for [x, y] in [[message(0.3), message(1.7)], [vec![Complex::new(0.0, 1.0); SLOTS], circle()]] {
        let mut program = CkksProgram::new(&context);
        let wanted = every_instruction(&mut program, [&x, &y]).unwrap();
        let program = CkksProgram::from_bytes(&program.to_bytes().unwrap(), TOY).unwrap();
        let keys = context.keys(&secret, &program.needs()).unwrap();
        let inputs = [x, y].map(|m| context.encrypt(&m, 6, &secret).unwrap());
        let (evaluator, program) = (evaluator(&context, keys), Arc::new(program));
        let results = evaluator.run(&program, &inputs.iter().collect::<Vec<&Rlwe>>()).unwrap();
        assert_eq!(results.len(), wanted.len());
        for (i, (x, wanted)) in results.iter().zip(&wanted).enumerate() {
            let info = program.info(program.outputs()[i]).unwrap();
            assert_eq!((x.level(), x.scale()), (info.level, info.scale), "result {i}");
            let got = context.decrypt(x, &secret).unwrap();
            let worst = got.iter().zip(wanted).map(|(a, b)| (*a - *b).abs()).fold(0.0, f64::max);
            assert!(worst < 2f64.powi(-20), "result {i}: off by 2^{:.1}", worst.log2());
            // Sharing relies on these bounds, for every message within the bound of its encryption.
            let (account, most) = (x.account(), wanted.iter().map(|v| v.abs()).fold(0.0, f64::max));
            if account.standing == Standing::BOUNDED {
                let within = most <= account.values * (1.0 + 1e-12) && worst <= account.worst;
                assert!(within, "result {i}: {most} and {worst:e} where {account:?}");
            }
        }
        names_are_complete(&program);
    }
}

/// An instruction missing here would go untested.
fn names_are_complete(program: &CkksProgram) {
    let mut names = BTreeSet::from_iter(program.ops().iter().map(CkksOp::name));
    // Parts of bootstraps, of which programs are run below, and in ckks_tables.rs.
    let (inner, table) = (with_bootstraps().unwrap(), chain("ckks_toy_table_4"));
    let table = tables(&table, 1, &[vec![1, 0]], &Settings::default()).unwrap();
    names.extend(inner.ops().iter().chain(table.ops()).map(CkksOp::name));
    assert_eq!(names, BTreeSet::from_iter(CkksOp::NAMES.iter().copied()));
}

fn bootstraps() -> Vec<CkksProgram> {
    let (toy, first) = (chain("ckks_toy_12"), chain("ckks_toy_slots_first"));
    let of = |values| Settings { values, ..Settings::default() };
    vec![
        regular(&toy, &of(Values::Complex)).unwrap(),
        regular(&toy, &of(Values::Merged)).unwrap(),
        sparse(&toy, 32, &Settings::default()).unwrap(),
        slots_first(&first, first.params().slots(), &of(Values::Real)).unwrap(),
        sign(&first, &of(Values::Real)).unwrap(),
    ]
}

#[test]
fn programs_come_back_from_their_files() {
    for program in bootstraps() {
        let bytes = program.to_bytes().unwrap();
        // Matrices of transforms are stored as formulas.
        assert!(bytes.len() < 1 << 18, "{} bytes", bytes.len());
        let again = CkksProgram::from_bytes(&bytes, TOY).unwrap();
        assert_eq!(again, program);
        assert_eq!(again.to_bytes().unwrap(), bytes);
        assert_eq!((again.needs(), again.cost()), (program.needs(), program.cost()));
        assert_eq!(again.error(), program.error());
    }
    let path = std::env::temp_dir().join(format!("becalm-program-{}", std::process::id()));
    let program = bootstraps().remove(0);
    program.save(&path).unwrap();
    let again = CkksProgram::load(&path, TOY);
    let described = inspect(&path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(again.unwrap(), program);
    let described = described.unwrap();
    assert_eq!((described.kind, described.key), (Kind::CkksProgram, None));
    assert_eq!((described.params.as_str(), described.in_table), ("ckks_toy_12", true));
}

#[test]
fn damaged_files_and_toys_are_refused() {
    let bytes = bootstraps().remove(0).to_bytes().unwrap();
    for at in (0..bytes.len()).step_by(37) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let e = CkksProgram::from_bytes(&damaged, TOY).unwrap_err();
        let kinds = ["bad_file", "wrong_params", "unsupported"];
        assert!(kinds.contains(&e.kind()), "byte {at}: {e}");
        let e = CkksProgram::from_bytes(&bytes[..at], TOY).unwrap_err();
        assert_eq!(e.kind(), "bad_file", "cut at {at}: {e}");
    }
    let e = CkksProgram::from_bytes(&bytes, Trust::default()).unwrap_err();
    assert_eq!(e.kind(), "insecure", "{e}");
    let e = CkksProgram::from_bytes(&bytes, Trust { limit: 1 << 10, ..TOY }).unwrap_err();
    assert_eq!(e.kind(), "bad_file", "{e}");
}

/// The scale of a polynomial and its coefficients at it need room, whichever machine will run it.
#[test]
fn a_polynomial_beyond_its_level_is_refused() {
    let mut p = CkksProgram::new(&chain("ckks_toy_12"));
    let x = p.input(2, SLOTS).unwrap();
    let large = p.polynomial(x, Chebyshev(vec![0.0, 1.0]), 1e60).unwrap_err();
    let steep = p.polynomial_at_level(x, Chebyshev(vec![0.0, 1e60])).unwrap_err();
    for e in [large, steep] {
        assert!(e.kind() == "bad_input" && e.to_string().contains("coefficients below"), "{e}");
    }
}

#[test]
fn the_recorder_refuses_what_no_machine_could_run() {
    type Recording = fn(&mut CkksProgram, Reg) -> Result<Reg>;
    let refused: [(&str, Recording); 22] = [
        ("an unknown register", |p, _| p.multiply_i(Reg(99))),
        ("an unknown factor", |p, x| p.multiply(x, Reg(99))),
        ("other levels", |p, x| {
            let y = p.level_down(x, 1)?;
            p.add(x, y)
        }),
        ("other scales", |p, x| {
            let y = p.divide(x, 2.0)?;
            p.subtract(x, y)
        }),
        ("other slots", |p, x| {
            let y = p.trace(x, 4)?;
            p.add(x, y)
        }),
        ("a level too many", |p, x| p.level_down(x, 3)),
        ("a level too few", |p, x| {
            let y = p.level_down(x, 0)?;
            p.multiply(y, y)
        }),
        ("no pairs", |p, _| p.dot(&[])),
        ("mixed pairs", |p, x| {
            let y = p.level_down(x, 1)?;
            p.dot(&[(x, x), (y, y)])
        }),
        ("slots that are not a power of two", |p, x| p.trace(x, 3)),
        ("a sum of too many", |p, x| p.sum(x, 2 * SLOTS)),
        ("no number", |p, x| p.add_constant(x, f64::NAN)),
        ("an infinite factor", |p, x| p.multiply_constant(x, f64::INFINITY)),
        ("too few values", |p, x| p.add_plain(x, &[Complex::default(); 3])),
        ("no values", |p, x| p.multiply_plain(x, &[])),
        ("values that are none", |p, x| p.multiply_plain(x, &[Complex::new(0.0, f64::NAN)])),
        ("a constant polynomial", |p, x| p.polynomial(x, Chebyshev(vec![1.0]), 1e9)),
        ("no scale", |p, x| p.polynomial(x, Chebyshev(vec![0.0, 1.0]), f64::NAN)),
        ("a map without diagonals", |p, x| p.linear(x, Matrix::zero(SLOTS), 1, 1e9)),
        ("a raise from above", |p, x| p.raise_modulus(x, 5, 1e9)),
        ("a vector repeated in fewer slots", |p, x| p.repeat(x, SLOTS / 2)),
        ("a bootstrap of too many", |p, x| {
            let other = regular(&chain("ckks_toy_12"), &Settings::default())?;
            p.append(&other, &[x, x]).map(|made| made[0])
        }),
    ];
    for (what, record) in refused {
        let mut program = CkksProgram::new(&chain("ckks_toy_12"));
        let x = program.input(2, SLOTS).unwrap();
        match record(&mut program, x) {
            Err(Error::BadInput(_)) => {}
            other => panic!("{what}: {other:?}"),
        }
        // A refused instruction left nothing behind that a file would carry.
        assert!(program.plaintexts().is_empty() && program.maps().is_empty(), "{what}");
        assert!(program.polynomials().is_empty(), "{what}");
    }
}

#[test]
fn arguments_and_results_that_cannot_be_are_refused() {
    let mut program = CkksProgram::new(&chain("ckks_toy_12"));
    assert_eq!(program.output(Reg(99)).unwrap_err().kind(), "bad_input");
    assert_eq!(program.input(11, SLOTS).unwrap_err().kind(), "bad_input");
    assert_eq!(program.input(1, 3).unwrap_err().kind(), "bad_input");
}

/// Waves of CKKS are the instructions as they were recorded; a register lives until its last reader.
#[test]
fn liveness_is_that_of_the_recorded_order() {
    let mut p = CkksProgram::new(&chain("ckks_toy_12"));
    let x = p.input(6, SLOTS).unwrap();
    let mut sum = p.multiply(x, x).unwrap();
    for by in 1..20 {
        let turned = p.rotate(x, by).unwrap();
        let product = p.multiply(turned, x).unwrap();
        sum = p.add(sum, product).unwrap();
    }
    p.output(sum).unwrap();
    let waves = p.waves();
    assert!(waves.iter().enumerate().all(|(i, wave)| wave.ops == [i]));
    let dead = p.dead_after(&waves);
    assert_eq!(dead.iter().flatten().count(), p.registers() - 1, "all but the result");
    for (i, op) in p.ops().iter().enumerate() {
        for reg in op.sources() {
            let read_later = p.ops()[i + 1..].iter().any(|op| op.sources().contains(&reg));
            assert_eq!(dead[i].contains(&reg), !read_later, "instruction {i}");
        }
    }
    // At most at once: x, a rotation or the next sum, the sum and a product.
    let bytes = |level: usize| {
        let mut alone = CkksProgram::new(&chain("ckks_toy_12"));
        alone.input(level, SLOTS).unwrap();
        alone.cost().bytes
    };
    assert!(p.cost().bytes <= bytes(6) * 2 + bytes(5) * 2, "{} bytes", p.cost().bytes);
    assert_eq!(p.depth(), 0);
    assert_eq!(bootstraps()[0].depth(), 1);
}

/// A program that bootstraps twice, once a vector of half the slots, between products.
fn with_bootstraps() -> Result<CkksProgram> {
    let toy = chain("ckks_toy_12");
    let real = Settings { values: Values::Real, ..Settings::default() };
    let mut p = CkksProgram::new(&toy);
    let x = p.input(2, SLOTS / 2)?;
    let square = p.multiply(x, x)?;
    let fresh = p.append(&regular(&toy, &real)?, &[square])?[0];
    let third = p.aligned(&[fresh, x])?;
    let third = p.multiply(third[0], third[1])?;
    let again = p.append(&regular(&toy, &real)?, &[third])?[0];
    p.output(fresh)?;
    p.output(again)?;
    Ok(p)
}

#[test]
fn a_bootstrap_within_a_program_is_that_of_its_own() {
    let context = toy();
    let program = with_bootstraps().unwrap();
    let real = Settings { values: Values::Real, ..Settings::default() };
    let alone = regular(&context, &real).unwrap();
    // The matrices of both bootstraps stand in it once, and they need the keys of one.
    assert_eq!(program.maps().len(), alone.maps().len());
    assert_eq!(program.needs().rotations, alone.needs().rotations);
    assert_eq!(program.depth(), 2);
    let program = CkksProgram::from_bytes(&program.to_bytes().unwrap(), TOY).unwrap();
    assert_eq!(program, with_bootstraps().unwrap());
    let secret = context.secret_key().unwrap();
    let keys = context.keys(&secret, &program.needs()).unwrap();
    let m: Vec<Complex> = message(0.3)[..SLOTS / 2].iter().map(|x| Complex::from(x.re)).collect();
    let x = context.encrypt(&m, 2, &secret).unwrap();
    let evaluator = evaluator(&context, keys);
    let program = Arc::new(program);
    let made = evaluator.run(&program, &[&x]).unwrap();
    let square = evaluator.multiply(&x, &x).unwrap();
    let wanted = evaluator.run(&Arc::new(alone), &[&square]).unwrap();
    // The bootstrap is another instruction there.
    let account = |x: &Rlwe| Account { loss: None, ..x.account() };
    let facts = |x: &Rlwe| (x.level(), x.scale(), x.slots(), x.error(), account(x));
    assert_eq!(facts(&made[0]), facts(&wanted[0]));
    assert_eq!(bytes(&context, &made[0]), bytes(&context, &wanted[0]));
    let got = context.decrypt(&made[1], &secret).unwrap();
    let worst = got.iter().zip(&m).map(|(a, m)| (*a - *m * *m * *m).abs()).fold(0.0, f64::max);
    assert!(got.len() == SLOTS / 2 && worst < 2f64.powi(-12), "off by 2^{:.1}", worst.log2());
    // Known real values stay so; a bootstrap of real values takes no others.
    assert_eq!(program.real(&[true]).unwrap(), [true, true]);
    assert_eq!(program.real(&[false]).unwrap_err().kind(), "bad_input");
}

/// Rotations of one source, one after the other, share a decomposition and give what each gives alone.
#[test]
fn rotations_of_one_source_are_hoisted_and_the_same() {
    let context = toy();
    let mut program = CkksProgram::new(&context);
    let x = program.input(3, SLOTS).unwrap();
    let turns = [1, 5, 0, 1];
    for by in turns {
        let turned = program.rotate(x, by).unwrap();
        program.output(turned).unwrap();
    }
    let secret = context.secret_key().unwrap();
    let keys = context.keys(&secret, &program.needs()).unwrap();
    let x = context.encrypt(&message(0.3), 3, &secret).unwrap();
    let evaluator = evaluator(&context, keys);
    assert_eq!(program.waves().len(), 1, "rotations of one source are one wave");
    let made = evaluator.run(&Arc::new(program), &[&x]).unwrap();
    for (made, by) in made.iter().zip(turns) {
        let alone = evaluator.rotate(&x, by).unwrap();
        assert_eq!(bytes(&context, made), bytes(&context, &alone), "rotation by {by}");
    }
}

/// A ciphertext that is not as the program was recorded for is refused, and never read at another scale.
#[test]
fn ciphertexts_of_another_shape_are_refused() {
    let context = toy();
    let mut program = CkksProgram::new(&context);
    let x = program.input(2, SLOTS).unwrap();
    let y = program.rotate(x, 1).unwrap();
    program.output(y).unwrap();
    let secret = context.secret_key().unwrap();
    let keys = context.keys(&secret, &program.needs()).unwrap();
    let (server, program) = (evaluator(&context, keys), Arc::new(program));
    let run = |inputs: &[&Rlwe]| server.run(&program, inputs);
    let of = |slots: usize, level| context.encrypt(&message(0.3)[..slots], level, &secret).unwrap();
    let squared = {
        // At level 2 and the scale of no level.
        let mut other = CkksProgram::new(&context);
        let x = other.input(2, SLOTS).unwrap();
        let y = other.divide(x, 2.0).unwrap();
        other.output(y).unwrap();
        server.run(&Arc::new(other), &[&of(SLOTS, 2)]).unwrap().remove(0)
    };
    for (what, x) in [("level", of(SLOTS, 1)), ("slots", of(SLOTS / 2, 2)), ("scale", squared)] {
        match run(&[&x]) {
            Err(Error::BadInput(e)) => {
                assert!(e.op == "rotate" && e.wanted.contains(what), "{what}: {e:?}")
            }
            other => panic!("{what}: {:?}", other.map(|made| made.len())),
        }
    }
    assert_eq!(run(&[]).err().map(|e| e.kind()), Some("bad_input"));
    assert!(run(&[&of(SLOTS, 5)]).is_ok(), "a ciphertext above is brought down");
    let none = context.keys(&secret, &Default::default()).unwrap();
    match evaluator(&context, none).run(&program, &[&of(SLOTS, 2)]) {
        Err(Error::WrongKey(e)) => assert!(e.op == "rotate" && e.missing.is_some(), "{e:?}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

/// Threads of a pool use one evaluator at once: none waits for itself, and none for another.
#[test]
fn an_evaluator_serves_a_parallel_loop() {
    let context = toy();
    let secret = context.secret_key().unwrap();
    let cpu = Cpu::new(2).unwrap();
    let keys = Arc::new(context.keys(&secret, &Default::default()).unwrap());
    let evaluator = Evaluator::new(&cpu, CkksSetup::new(&context, &keys)).unwrap();
    let x = context.encrypt(&message(0.3), 3, &secret).unwrap();
    let alone = bytes(&context, &evaluator.square(&x).unwrap());
    let squares = || (0..32).into_par_iter().map(|_| evaluator.square(&x).unwrap());
    // A pool of the caller's, and the machine's own.
    let own = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    for all in [own.install(|| squares().collect::<Vec<_>>()), cpu.install(|| squares().collect())]
    {
        assert!(all.iter().all(|y| bytes(&context, y) == alone));
    }
}

/// A run stops between the parts of one instruction wherever it is told to, and the next run computes as if nothing had been.
#[test]
fn a_run_stops_within_an_instruction() {
    let context = toy();
    let mut program = CkksProgram::new(&context);
    let x = program.input(4, SLOTS).unwrap();
    let p = Chebyshev((0..12).map(|i| 0.1 / f64::from(i + 1)).collect());
    let y = program.polynomial_at_level(x, p).unwrap();
    let scale = program.info(x).unwrap().scale;
    let z = program.linear(x, map(), 2, scale).unwrap();
    program.output(y).unwrap();
    program.output(z).unwrap();
    let secret = context.secret_key().unwrap();
    let keys = Arc::new(context.keys(&secret, &program.needs()).unwrap());
    let x = context.encrypt(&message(0.3), 4, &secret).unwrap();
    let program = Arc::new(program);
    let waves = program.waves().len();
    let wanted = evaluator(&context, (*keys).clone()).run(&program, &[&x]).unwrap();
    let mut stops = 0;
    for at in 0.. {
        let asked = AtomicUsize::new(0);
        let evaluator =
            Evaluator::new(&Cpu::new(0).unwrap(), CkksSetup::new(&context, &keys)).unwrap();
        let stop = |_, _| match asked.fetch_add(1, Ordering::Relaxed) {
            asked if asked == at => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        match evaluator.run_lanes(&program, &[&[&x]], &stop) {
            Err(e) => {
                assert_eq!(e.kind(), "interrupted", "{e}");
                stops += 1;
            }
            Ok(_) => break,
        }
        let again = evaluator.run(&program, &[&x]).unwrap();
        for (again, wanted) in again.iter().zip(&wanted) {
            assert!(bytes(&context, again) == bytes(&context, wanted), "after stop {at}");
        }
    }
    assert!(stops > 2 * waves, "{stops} stops in {waves} waves");
}

/// Powers take the fewest levels, and products that they share are computed once.
#[test]
fn powers_are_squares_and_products() {
    for (exponent, products) in [(1, 0), (2, 1), (3, 2), (4, 2), (7, 4), (15, 6), (64, 6)] {
        let mut p = CkksProgram::new(&chain("ckks_toy_12"));
        let x = p.input(6, SLOTS).unwrap();
        let y = p.power(x, exponent).unwrap();
        let taken = 6 - p.info(y).unwrap().level;
        assert_eq!(taken, exponent.next_power_of_two().ilog2() as usize, "x^{exponent}");
        let made = p.ops().iter().filter(|op| op.name() == "multiply").count();
        assert_eq!(made, products, "x^{exponent}");
    }
    let mut p = CkksProgram::new(&chain("ckks_toy_12"));
    let x = p.input(6, SLOTS).unwrap();
    let kinds = [0, 65, u64::MAX].map(|e| p.power(x, e).unwrap_err().kind());
    assert_eq!(kinds, ["unsupported", "bad_input", "bad_input"]);
    assert_eq!(p.power(Reg(9), 2).unwrap_err().kind(), "bad_input");
}
