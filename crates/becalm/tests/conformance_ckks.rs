//! Every machine that runs CKKS against the reference: every instruction, at levels of every tier, at every level of vector
//! instructions, on one lane and on several. Words must be equal, but for linear maps: they take their key switches in another order,
//! and round elsewhere.

mod machines;

use becalm::Result;
use becalm::backend::{
    Backend, Ckks, CkksSetup, Cpu, Evaluator, Info, Loaded, Reference, Runs, Session,
};
use becalm::bootstrap::ckks::{Settings, regular};
use becalm::cipher::{CkksKeys, CkksSecretKey, KeyForm, Rlwe};
use becalm::ckks::{Chebyshev, Context, Matrix};
use becalm::math::complex::Complex;
use becalm::math::simd::Level;
use becalm::params::{CkksBootstrap, CkksParams, Kind, NOISE_STD};
use becalm::program::rlwe::{CkksOp, CkksProgram, CkksWalk};
use becalm::program::{Operation, Reg};
use becalm::{Progress, UNWATCHED};
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, LazyLock, Mutex};

/// N, as small as the transforms allow with a few tiles: the reference takes N² steps for a product.
const LOG2_DEGREE: u32 = 8;
const SLOTS: usize = 1 << (LOG2_DEGREE - 1);
const LANES: usize = 3;

/// Sets of few levels in a small ring: one with digits of several words, one of single words with a noisy ephemeral key, one
/// without bootstrap.
static SETS: LazyLock<Vec<&'static CkksParams>> = LazyLock::new(|| {
    let named = |name| CkksParams::named(name).unwrap().clone();
    let regular = CkksParams { levels: 4, special_bits: 150.0, ..named("ckks_toy_12") };
    let n15 = named("ckks_n15");
    let single = CkksParams { name: "small_n15", levels: 3, special_bits: 50.0, ..n15 };
    let levelled = CkksParams { name: "small_n13", ..named("ckks_n13") };
    let bootstrap = regular.bootstrap.map(|b| CkksBootstrap { stage_count: 2, ..b });
    let regular = CkksParams { name: "small_regular", bootstrap, ..regular };
    let small = |p| CkksParams { kind: Kind::Toy, log2_degree: LOG2_DEGREE, ..p };
    let leaked = |p| -> &'static CkksParams { Box::leak(Box::new(small(p))) };
    [regular, single, levelled].map(leaked).to_vec()
});

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

fn turned(x: &[Complex], by: i64) -> Vec<Complex> {
    let n = x.len() as i64;
    (0..n).map(|j| x[(j + by).rem_euclid(n) as usize]).collect()
}

/// A map of diagonals that take baby, middle and giant steps, some of a short period.
fn map() -> Matrix {
    let mut map = Matrix::zero(SLOTS);
    for k in [0, 1, 2, 5, 7, 8, 11] {
        let entries = map.diagonal(k).iter_mut().enumerate();
        let part = |a: usize| ((a % 16) as f64 + k as f64).cos() / 8.0;
        entries
            .for_each(|(a, x)| *x = Complex::new(part(a), if k == 5 { part(a + 3) } else { 0.0 }));
    }
    map
}

/// An instruction, where its result is, and the values that it stands for.
struct Case {
    name: String,
    reg: Reg,
    wanted: Option<Vec<Complex>>,
}

/// The instructions that every level above 0 allows, on registers of values `x` and `y`.
fn anywhere(
    p: &mut CkksProgram,
    [a, b]: [Reg; 2],
    [x, y]: [&[Complex]; 2],
) -> Result<Vec<(Reg, Vec<Complex>)>> {
    let scale = p.info(a).map_or(0.0, |i| i.scale);
    let half = SLOTS / 2;
    let traced = both(x, &turned(x, half as i64), |a, b| a + b);
    let few = p.trace(a, half)?;
    let summed = |j: usize| turned(x, j as i64)[..4].iter().fold(Complex::default(), |a, b| a + *b);
    let i = Complex::new(0.0, 1.0);
    Ok(vec![
        (p.linear(a, map(), 2, 2f64.powi(40))?, map().apply(x)),
        (p.double_angle(a)?, each(x, |x| x * x * 2.0 - Complex::from(1.0))),
        (few, traced.clone()),
        (p.repeat(few, SLOTS)?, traced),
        (p.multiply(a, b)?, both(x, y, |a, b| a * b)),
        (p.multiply_i(a)?, each(x, |x| x * i)),
        (p.conjugate(a)?, each(x, |x| x.conj())),
        (p.rotate(a, -3)?, turned(x, -3)),
        (p.rotate(a, 1)?, turned(x, 1)),
        (p.add(a, b)?, both(x, y, |a, b| a + b)),
        (p.subtract(a, b)?, both(x, y, |a, b| a - b)),
        (p.add_constant(a, 0.75)?, each(x, |x| x + Complex::from(0.75))),
        (p.divide(a, 2.0)?, each(x, |x| x * 0.5)),
        (p.dot(&[(a, b), (b, b)])?, both(x, y, |a, b| a * b + b * b)),
        (p.negate(a)?, each(x, |x| -x)),
        (p.sum(a, 4)?, (0..SLOTS).map(summed).collect()),
        (p.add_plain(a, y)?, both(x, y, |a, b| a + b)),
        (p.add_plain(a, &[Complex::new(0.5, -0.25)])?, each(x, |x| x + Complex::new(0.5, -0.25))),
        (
            p.polynomial(a, Chebyshev(vec![0.1, 0.5]), scale)?,
            each(x, |x| x * 0.5 + Complex::from(0.1)),
        ),
    ])
}

/// Those that only levels of the user allow.
fn of_the_user(
    p: &mut CkksProgram,
    a: Reg,
    [x, y]: [&[Complex]; 2],
) -> Result<Vec<(Reg, Vec<Complex>)>> {
    let (info, same) = (*p.info(a).unwrap(), || x.to_vec());
    let mut made = vec![
        (p.multiply_constant(a, -0.3)?, each(x, |x| x * -0.3)),
        (p.multiply_plain(a, y)?, both(x, y, |a, b| a * b)),
        (p.level_down(a, info.level - 1)?, same()),
        (p.level_down(a, 0)?, same()),
        (p.weighted_sum(&[(a, 0.25)])?, each(x, |x| x * 0.25)),
    ];
    let wide = p.divide(a, 2f64.powi(25))?;
    let (narrow, half) = (each(x, |x| x * 2f64.powi(-25)), Complex::from(0.5));
    made.push((p.rescale(wide)?, narrow.clone()));
    // At a scale that is not that of the level.
    made.push((p.add_constant(wide, 0.5)?, each(&narrow, |x| x + half)));
    made.push((p.add_plain(wide, &[half])?, each(&narrow, |x| x + half)));
    made.push((p.multiply_constant(wide, 3.0)?, each(&narrow, |x| x * 3.0)));
    made.push((p.multiply_plain(wide, y)?, both(&narrow, y, |a, b| a * b)));
    if info.level > 1 {
        // Terms of several levels and scales.
        let lower = p.level_down(a, info.level - 1)?;
        let terms = [(lower, -0.5), (a, 0.375), (wide, 2f64.powi(24))];
        made.push((p.weighted_sum(&terms)?, each(x, |x| x * 0.375)));
    }
    if info.level > 2 {
        // In the scale of Chebyshev: degree 3 takes a leaf, 6 a quotient and a remainder.
        for degree in [3, 6] {
            let p_of = Chebyshev((0..=degree).map(|i| 0.4 / (1.0 + i as f64)).collect());
            let real = p.conjugate(a)?;
            let real = p.add(a, real)?;
            let real = p.divide(real, 2.0)?;
            if info.level >= p_of.depth() {
                let wanted = each(x, |x| Complex::from(p_of.value(x.re)));
                made.push((p.polynomial(real, p_of, info.scale)?, wanted));
            }
        }
    }
    Ok(made)
}

/// Instructions on arguments at a level of the user.
fn at_level(context: &Context, level: usize) -> Result<(CkksProgram, Vec<Case>)> {
    let mut p = CkksProgram::new(context);
    let [a, b] = [p.input(level, SLOTS)?, p.input(level, SLOTS)?];
    let values = [message(0.3), message(1.7)];
    let values = [&values[0][..], &values[1][..]];
    let mut made = anywhere(&mut p, [a, b], values)?;
    made.extend(of_the_user(&mut p, a, values)?);
    let cases = made.into_iter().map(|(reg, wanted)| (reg, Some(wanted))).collect();
    finished(p, cases)
}

/// Instructions on what was raised to a level of a bootstrap, whose values were not chosen.
fn raised_to(context: &Context, level: usize) -> Result<(CkksProgram, Vec<Case>)> {
    let mut p = CkksProgram::new(context);
    let [a, b] = [p.input(0, SLOTS)?, p.input(0, SLOTS)?];
    // Values of a few multiples of q_0 over a larger number, so that products have room.
    let scale = 2f64.powi(45);
    let [a, b] = [p.raise_modulus(a, level, scale)?, p.raise_modulus(b, level, scale)?];
    let values = message(0.3);
    let mut made = anywhere(&mut p, [a, b], [&values, &values])?;
    let degree = Chebyshev(vec![0.25, 0.5, 0.0, -0.125, 0.0, 0.0625]);
    made.push((a, vec![]));
    made.push((p.polynomial(a, degree, scale)?, vec![]));
    let wide = p.divide(a, 2f64.powi(30))?;
    made.push((p.rescale(wide)?, vec![]));
    finished(p, made.into_iter().map(|(reg, _)| (reg, None)).collect())
}

fn finished(
    mut p: CkksProgram,
    made: Vec<(Reg, Option<Vec<Complex>>)>,
) -> Result<(CkksProgram, Vec<Case>)> {
    let name = |reg: Reg| {
        let op = p.ops().iter().find(|op| op.results().contains(&reg));
        op.map_or("input", CkksOp::name).to_string()
    };
    let cases: Vec<Case> =
        made.into_iter().map(|(reg, wanted)| Case { name: name(reg), reg, wanted }).collect();
    cases.iter().try_for_each(|case| p.output(case.reg))?;
    Ok((p, cases))
}

struct World {
    context: Arc<Context>,
    secret: CkksSecretKey,
    keys: Arc<CkksKeys>,
}

impl World {
    fn new(params: &'static CkksParams, program: &CkksProgram) -> World {
        World::of(params, program, KeyForm::Ready)
    }

    fn of(params: &'static CkksParams, program: &CkksProgram, form: KeyForm) -> World {
        let context = Arc::new(Context::new(params, true).unwrap());
        let secret = context.secret_key().unwrap();
        let needs = program.needs();
        let keys = context.keys_with(&secret, &needs, form, None, UNWATCHED).unwrap();
        World { context, secret, keys: Arc::new(keys) }
    }

    /// Arguments for the lanes of a program; those of the first are the messages 0.3, 1.7, …
    fn inputs(&self, program: &CkksProgram) -> Vec<Vec<Rlwe>> {
        let level = |r: &Reg| program.info(*r).unwrap().level;
        let encrypt = |lane: usize, i: usize, r: &Reg| {
            let message = message(0.3 + 1.4 * i as f64 + 0.37 * lane as f64);
            self.context.encrypt(&message, level(r), &self.secret).unwrap()
        };
        let inputs = || program.inputs().iter().enumerate();
        (0..LANES).map(|lane| inputs().map(|(i, r)| encrypt(lane, i, r)).collect()).collect()
    }

    /// The results of a machine on lanes, on the vector instructions of `context`.
    fn run(
        &self,
        backend: &dyn Backend,
        context: &Arc<Context>,
        program: &Arc<CkksProgram>,
        lanes: &[Vec<Rlwe>],
    ) -> Vec<Vec<Rlwe>> {
        let lanes: Vec<Vec<&Rlwe>> = lanes.iter().map(|inputs| inputs.iter().collect()).collect();
        let lanes: Vec<&[&Rlwe]> = lanes.iter().map(Vec::as_slice).collect();
        let server = Evaluator::new(backend, CkksSetup::new(context, &self.keys)).unwrap();
        server.run_lanes(program, &lanes, UNWATCHED).unwrap()
    }

    fn words(&self, x: &Rlwe) -> [Vec<u8>; 2] {
        self.context.pack(x).unwrap().parts().map(<[u8]>::to_vec)
    }

    /// How far two slots may be apart after [`map`]: nine deviations of the errors of its key switches, of rounding its entries and of
    /// the last rescale, by two machines.
    fn apart(&self, level: usize, scale: f64, map_scale: f64, size: f64) -> f64 {
        let n = (2 * SLOTS) as f64;
        // A digit has at most 2^6 times P in CoeffsToSlots, and about P elsewhere; there are no more digits than words.
        let excess = if level > self.context.params().levels { 64.0 } else { 2.0 };
        let switched = NOISE_STD * n * excess * (64f64 / 12.0).sqrt();
        let rounded = (n / 12.0 * (1.0 + 2.0 * n / 3.0)).sqrt();
        // Diagonals below 1/4, each behind a baby step and no more than six others.
        let steps = 7.0 * map().rotations().count() as f64 / 4.0;
        let entries = 7.0 * n * 8.0 / map_scale * size;
        18.0 * (steps * (switched + rounded) / scale + entries + rounded / scale * 1024.0)
    }
}

/// Compares the results of a machine with the reference's.
fn compare(
    world: &World,
    program: &CkksProgram,
    cases: &[Case],
    [got, wanted]: [&[Rlwe]; 2],
) -> std::result::Result<(), String> {
    assert_eq!((got.len(), wanted.len()), (cases.len(), cases.len()));
    for ((case, got), wanted) in cases.iter().zip(got).zip(wanted) {
        let name = &case.name;
        if (got.level(), got.scale()) != (wanted.level(), wanted.scale()) {
            return Err(format!("{name}: level {}, scale {}", got.level(), got.scale()));
        }
        if name != "linear" {
            match world.words(got) == world.words(wanted) {
                true => continue,
                false => return Err(format!("{name}: other words")),
            }
        }
        let op = program.ops().iter().find(|op| op.results().contains(&case.reg)).unwrap();
        let source = program.info(op.sources()[0]).unwrap();
        let map_scale = program.maps()[0].scale;
        let values = [got, wanted].map(|x| world.context.decrypt(x, &world.secret).unwrap());
        let largest = |x: &[Complex]| x.iter().map(|x| x.abs()).fold(0.0, f64::max);
        let worst = largest(&both(&values[0], &values[1], |a, b| a - b));
        // The values of the source are at most four times those of the result.
        let size = 4.0 * largest(&values[1]).max(1.0);
        let bound = world.apart(source.level, source.scale, map_scale, size);
        if worst > bound {
            return Err(format!("{name}: 2^{:.1} apart of 2^{:.1}", worst.log2(), bound.log2()));
        }
    }
    Ok(())
}

/// Every program gives on the reference the values that its instructions define.
fn sensible(world: &World, cases: &[Case], results: &[Rlwe]) {
    for (case, x) in cases.iter().zip(results) {
        let Some(wanted) = &case.wanted else { continue };
        let got = world.context.decrypt(x, &world.secret).unwrap();
        let wanted = wanted.iter().cycle().take(got.len());
        let worst = got.iter().zip(wanted).map(|(a, b)| (*a - *b).abs()).fold(0.0, f64::max);
        assert!(worst < 2f64.powi(-12), "{}: off by 2^{:.1}", case.name, worst.log2());
    }
}

/// The programs for a set: at the highest level of the user, at one with few words, and at one of each tier above.
fn programs(context: &Context) -> Vec<(CkksProgram, Vec<Case>)> {
    let params = context.params();
    let mut all = vec![at_level(context, params.levels).unwrap(), at_level(context, 1).unwrap()];
    if params.bootstrap.is_some() {
        for tier in params.tiers() {
            let level = (tier.end - 1).max(params.levels + 1);
            all.push(raised_to(context, level).unwrap());
        }
    }
    all
}

fn every_name() -> BTreeSet<String> {
    CkksOp::NAMES.iter().map(|name| name.to_string()).collect()
}

/// The set made ready for every level of vector instructions.
fn contexts(params: &'static CkksParams) -> Vec<(&'static str, Arc<Context>)> {
    let context = |level| Arc::new(Context::with_level(params, true, level).unwrap());
    Level::available().iter().map(|level| (level.name(), context(*level))).collect()
}

#[test]
fn every_instruction_agrees_with_the_reference() {
    let mut names = BTreeSet::new();
    for params in SETS.iter() {
        let contexts = contexts(params);
        let machines = machines::backends().into_iter();
        let machines: Vec<_> = machines.filter(|(_, b)| b.ckks().is_some()).collect();
        for (program, cases) in programs(&contexts[0].1) {
            let world = World::new(params, &program);
            let (inputs, program) = (world.inputs(&program), Arc::new(program));
            names.extend(cases.iter().map(|c| c.name.clone()));
            for (i, (level, context)) in contexts.iter().enumerate() {
                // How values become coefficients is shared, and rounds by the vector instructions. Several lanes on one level suffice.
                let all = if i == 0 { LANES } else { 1 };
                let wanted = world.run(&Reference, context, &program, &inputs[..all]);
                sensible(&world, &cases, &wanted[0]);
                for (machine, backend) in &machines {
                    for lanes in BTreeSet::from([1, all]) {
                        let got = world.run(backend.as_ref(), context, &program, &inputs[..lanes]);
                        for (got, wanted) in got.iter().zip(&wanted) {
                            let found = compare(&world, &program, &cases, [got, wanted]);
                            let what = format!("{} on {machine}, {level}, {lanes}", params.name);
                            assert_eq!(found, Ok(()), "{what}");
                        }
                    }
                }
            }
        }
    }
    // A bootstrap within a program ends in one of them, and a table as in ckks_tables.rs.
    names.extend(["refreshed", "look up"].map(String::from));
    assert_eq!(names, every_name());
}

/// Keys that are packed, or whose masks are drawn when they are used, and matrices that are encoded when their turn comes. The level
/// has several digits.
#[test]
fn keys_and_matrices_of_every_form_agree_with_the_reference() {
    let context = Arc::new(Context::new(SETS[0], true).unwrap());
    let (program, cases) = at_level(&context, SETS[0].levels).unwrap();
    let program = Arc::new(program);
    for form in [KeyForm::Packed, KeyForm::Seeded] {
        let world = World::of(SETS[0], &program, form);
        let inputs = world.inputs(&program);
        let wanted = world.run(&Reference, &world.context, &program, &inputs[..1]);
        let lane: Vec<&Rlwe> = inputs[0].iter().collect();
        let cpu = Cpu::new(2).unwrap();
        let server = Evaluator::new(&cpu, CkksSetup::new(&context, &world.keys).within(0)).unwrap();
        let got = server.run(&program, &lane).unwrap();
        assert_eq!(compare(&world, &program, &cases, [&got, &wanted[0]]), Ok(()), "{form:?}");
    }
}

/// The CPU with an error planted in the result of one instruction.
struct Planted {
    at: Reg,
    /// The program with the error, and the register that is wrong.
    plant: fn(&mut CkksProgram, Reg) -> Reg,
}

struct PlantedSession {
    inner: Box<dyn Session<Ckks>>,
    at: Reg,
    plant: fn(&mut CkksProgram, Reg) -> Reg,
    wrong: Reg,
    /// Waves of the program as it was given, and of the one that runs.
    waves: [usize; 2],
}

impl Backend for Planted {
    fn info(&self) -> Info {
        Cpu::new(1).unwrap().info()
    }

    fn ckks(&self) -> Option<&dyn Runs<Ckks>> {
        Some(self)
    }
}

impl Runs<Ckks> for Planted {
    fn open(&self, setup: CkksSetup) -> Result<Box<dyn Session<Ckks>>> {
        let (inner, Planted { at, plant }) = (Cpu::new(1)?.open(setup)?, self);
        let (at, plant) = (*at, *plant);
        Ok(Box::new(PlantedSession { inner, at, plant, wrong: at, waves: [0; 2] }))
    }
}

impl Session<Ckks> for PlantedSession {
    fn load(
        &mut self,
        program: Arc<CkksProgram>,
        walk: Arc<CkksWalk>,
        lanes: usize,
        progress: Progress,
    ) -> Result<Loaded<Ckks>> {
        let mut planted = (*program).clone();
        self.wrong = (self.plant)(&mut planted, self.at);
        planted.output(self.wrong)?;
        let own = Arc::new(planted.walk());
        self.waves = [walk.waves.len(), own.waves.len()];
        self.inner.load(Arc::new(planted), own, lanes, progress)?;
        Ok(Loaded { program, walk, lanes })
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[Rlwe]) -> Result<()> {
        self.inner.write(at, lane, words)
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<Rlwe>> {
        self.inner.read(if at == self.at { self.wrong } else { at }, lanes)
    }

    fn run(&mut self, waves: Range<usize>, progress: Progress) -> Result<()> {
        let [given, own] = self.waves;
        let end = if waves.end == given { own } else { waves.end };
        self.inner.run(waves.start..end, progress)
    }
}

/// The least error that there is, one in one coefficient, is seen in the result of every instruction but linear maps; in theirs, one
/// of a sixteenth, where values are some thousands.
#[test]
fn a_planted_error_is_seen_wherever_it_is() {
    let params = SETS[0];
    let context = Context::new(params, true).unwrap();
    let mut seen = BTreeSet::new();
    for (program, cases) in programs(&context) {
        let world = World::new(params, &program);
        let (inputs, program) = (world.inputs(&program), Arc::new(program));
        let wanted = world.run(&Cpu::new(1).unwrap(), &world.context, &program, &inputs[..1]);
        for case in &cases {
            let plant: fn(&mut CkksProgram, Reg) -> Reg = match case.name.as_str() {
                "linear" => |p, reg| p.add_constant(reg, 0.0625).unwrap(),
                _ => |p, reg| {
                    let unit = 1.0 / p.info(reg).unwrap().scale;
                    p.add_constant(reg, unit).unwrap()
                },
            };
            let planted = Planted { at: case.reg, plant };
            let got = world.run(&planted, &world.context, &program, &inputs[..1]);
            let found = compare(&world, &program, &cases, [&got[0], &wanted[0]]);
            let found = found.expect_err("an error that goes unseen");
            assert!(found.starts_with(&case.name), "{found}, planted in {}", case.name);
            seen.insert(case.name.clone());
        }
    }
    seen.extend(["refreshed", "look up"].map(String::from));
    assert_eq!(seen, every_name());
}

/// Waves that the program does not have are refused; those that it has run afterwards.
#[test]
fn waves_out_of_range_are_refused() {
    let context = Arc::new(Context::new(SETS[2], true).unwrap());
    let mut p = CkksProgram::new(&context);
    let x = p.input(2, SLOTS).unwrap();
    let y = p.multiply(x, x).unwrap();
    p.output(y).unwrap();
    let world = World::new(SETS[2], &p);
    let (lanes, p, walk) = (world.inputs(&p), Arc::new(p.clone()), Arc::new(p.walk()));
    let waves = walk.waves.len();
    let reference: Box<dyn Backend> = Box::new(Reference);
    let all = machines::backends().into_iter().chain([("reference".to_string(), reference)]);
    for (name, backend) in all.filter(|(_, b)| b.ckks().is_some()) {
        let setup = CkksSetup::new(&context, &world.keys);
        let mut session = backend.ckks().unwrap().open(setup).unwrap();
        for count in [1, 2] {
            let words: Vec<Rlwe> = lanes[..count].iter().map(|lane| lane[0].clone()).collect();
            session.load(p.clone(), walk.clone(), count, UNWATCHED).unwrap();
            for asked in [0..waves + 1, waves + 1..waves + 2, waves..usize::MAX] {
                session.write(x, 0, &words).unwrap();
                let run = session.run(asked.clone(), UNWATCHED).and_then(|()| session.wait());
                assert_eq!(run.map_err(|e| e.kind()), Err("bad_input"), "{asked:?} on {name}");
            }
            session.write(x, 0, &words).unwrap();
            session.run(0..waves, UNWATCHED).unwrap();
            assert!(session.read(y, 0..count).is_ok(), "{name}");
        }
    }
}

/// A machine of TFHE alone says so before it is given keys.
#[test]
fn a_machine_without_ckks_refuses_its_keys() {
    let params = SETS[2];
    let context = Arc::new(Context::new(params, true).unwrap());
    let secret = context.secret_key().unwrap();
    let keys = Arc::new(context.keys(&secret, &Default::default()).unwrap());
    let mut refused = 0;
    for (name, backend) in machines::backends() {
        let opened = Evaluator::new(backend.as_ref(), CkksSetup::new(&context, &keys));
        match backend.runs::<Ckks>() {
            Ok(_) => assert!(opened.is_ok(), "{name}"),
            Err(e) => {
                assert_eq!(
                    (e.kind(), opened.err().map(|e| e.kind())),
                    ("unsupported", Some("unsupported"))
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "all machines run CKKS: this test has nothing to see");
}

/// Progress is told after every wave, and a request to stop ends the run; the same server runs again.
#[test]
fn a_run_can_be_stopped_and_repeated() {
    let context = Arc::new(Context::new(SETS[2], true).unwrap());
    let mut p = CkksProgram::new(&context);
    let x = p.input(2, SLOTS).unwrap();
    let y = p.multiply(x, x).unwrap();
    let y = p.negate(y).unwrap();
    p.output(y).unwrap();
    let world = World::new(SETS[2], &p);
    let (inputs, p) = (world.inputs(&p), Arc::new(p));
    let server =
        Evaluator::new(&Cpu::new(1).unwrap(), CkksSetup::new(&context, &world.keys)).unwrap();
    let lane: Vec<&Rlwe> = inputs[0].iter().collect();
    let told = Mutex::new(vec![]);
    let stopped = server.run_lanes(&p, &[&lane], &|done, all| {
        told.lock().unwrap().push((done, all));
        ControlFlow::Break(())
    });
    assert_eq!(stopped.err().map(|e| e.kind()), Some("interrupted"));
    assert_eq!(told.into_inner().unwrap(), [(1, 2)]);
    let [first, second] = [0, 1].map(|_| server.run(&p, &lane).unwrap());
    assert_eq!(world.words(&first[0]), world.words(&second[0]));
    let other = World::new(SETS[2], &p);
    let foreign = other.inputs(&p);
    let e = server.run(&p, &[&foreign[0][0]]).err().map(|e| e.kind());
    assert_eq!(e, Some("wrong_key"));
    let e = server.run(&p, &[]).err().map(|e| e.kind());
    assert_eq!(e, Some("bad_input"));
}

/// A bootstrap within a program keeps the values, in exact arithmetic and on every machine.
#[test]
fn a_bootstrap_within_a_program_keeps_the_values() {
    let context = Context::new(SETS[0], true).unwrap();
    let settings = Settings { stage_count: Some(2), ..Settings::default() };
    let bootstrap = regular(&context, &settings).unwrap();
    let mut program = CkksProgram::new(&context);
    let x = program.input(1, SLOTS).unwrap();
    let half = program.multiply_constant(x, 0.5).unwrap();
    let y = program.append(&bootstrap, &[half]).unwrap()[0];
    program.output(y).unwrap();
    assert!(program.ops().iter().any(|op| op.name() == "refreshed"));
    let world = World::new(SETS[0], &program);
    let (inputs, program) = (world.inputs(&program), Arc::new(program));
    let machines = machines::backends().into_iter();
    let noise = bootstrap.noise().unwrap();
    for (name, machine) in machines.filter(|(_, b)| b.ckks().is_some()) {
        let y = world.run(machine.as_ref(), &world.context, &program, &inputs[..1]).remove(0);
        assert!(y[0].level() > 1 && y[0].error() >= noise, "{name}");
        let got = world.context.decrypt(&y[0], &world.secret).unwrap();
        let worst = both(&got, &message(0.3), |a, b| a - b * 0.5);
        let worst = worst.iter().map(|x| x.abs()).fold(0.0, f64::max);
        let bound = y[0].account().worst;
        assert!(worst < bound, "{name}: 2^{:.1}, of 2^{:.1}", worst.log2(), bound.log2());
    }
}
