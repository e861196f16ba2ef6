//! Programs of every instruction of CKKS, keys and arguments for them, and the comparison of two machines: shared by the tests of machines.
#![allow(dead_code)] // No test uses all of it.

pub mod planted;
pub mod whole;

use becalm::backend::{Backend, CkksSetup, Evaluator};
use becalm::cipher::{CkksKeys, CkksSecretKey, KeyForm, Rlwe};
use becalm::ckks::{Chebyshev, Context, Matrix};
use becalm::math::complex::Complex;
use becalm::params::{CkksBootstrap, CkksParams, Kind, NOISE_STD};
use becalm::program::rlwe::{CkksOp, CkksProgram, MapSpec};
use becalm::program::{Operation, Reg};
use becalm::{Result, UNWATCHED};
use std::collections::BTreeSet;
use std::sync::Arc;

pub const LANES: usize = 3;

/// The names of all instructions.
pub fn every_name() -> BTreeSet<String> {
    CkksOp::NAMES.iter().map(|name| name.to_string()).collect()
}

/// Sets of few levels in a small ring of 2^`log2_degree` coefficients: one with digits of several words, one of single words with a noisy ephemeral key, one
/// without bootstrap.
pub fn sets(log2_degree: u32) -> Vec<&'static CkksParams> {
    let named = |name| CkksParams::named(name).unwrap().clone();
    let regular = CkksParams { levels: 4, special_bits: 150.0, ..named("ckks_toy_12") };
    let n15 = named("ckks_n15");
    let single = CkksParams { name: "small_n15", levels: 3, special_bits: 50.0, ..n15 };
    let levelled = CkksParams { name: "small_n13", ..named("ckks_n13") };
    let bootstrap = regular.bootstrap.map(|b| CkksBootstrap { stage_count: 2, ..b });
    let regular = CkksParams { name: "small_regular", bootstrap, ..regular };
    let small = |p| CkksParams { kind: Kind::Toy, log2_degree, ..p };
    let leaked = |p| -> &'static CkksParams { Box::leak(Box::new(small(p))) };
    [regular, single, levelled].map(leaked).to_vec()
}

/// N, as small as the transforms allow with a few tiles: the reference takes N² steps for a product.
pub const SMALL: u32 = 8;
/// N for machines that refuse this ring: the least that the kernels of GPUs have.
pub const LARGER: u32 = 12;

/// Whether a machine runs a set.
pub fn runs(machine: &dyn Backend, params: &CkksParams) -> bool {
    machine.ckks().is_some_and(|machine| machine.accepts(params).is_ok())
}

/// Values below 1 without structure.
pub fn message(slots: usize, k: f64) -> Vec<Complex> {
    let part = |j: usize, k: f64| ((j as f64 + 1.0) * k).sin() * 0.6;
    (0..slots).map(|j| Complex::new(part(j, k), part(j, k + 0.7))).collect()
}

fn each(x: &[Complex], f: impl Fn(Complex) -> Complex) -> Vec<Complex> {
    x.iter().map(|x| f(*x)).collect()
}

pub fn both(a: &[Complex], b: &[Complex], f: impl Fn(Complex, Complex) -> Complex) -> Vec<Complex> {
    a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect()
}

fn turned(x: &[Complex], by: i64) -> Vec<Complex> {
    let n = x.len() as i64;
    (0..n).map(|j| x[(j + by).rem_euclid(n) as usize]).collect()
}

/// A map of diagonals that take baby, middle and giant steps, some of a short period.
fn map(slots: usize) -> Matrix {
    let mut map = Matrix::zero(slots);
    for k in [0, 1, 2, 5, 7, 8, 11] {
        let entries = map.diagonal(k).iter_mut().enumerate();
        let part = |a: usize| ((a % 16) as f64 + k as f64).cos() / 8.0;
        entries
            .for_each(|(a, x)| *x = Complex::new(part(a), if k == 5 { part(a + 3) } else { 0.0 }));
    }
    map
}

/// A map of more than 64 diagonals that repeat in no period, and a few that do, entries below 1/4.
fn many(slots: usize) -> Matrix {
    let mut many = Matrix::zero(slots);
    for k in 0..80 {
        let period = if k % 8 == 0 { 16 } else { slots };
        let part = |a: usize| (((a % period) * (k + 1)) as f64).cos() / 8.0;
        let entries = many.diagonal(k as i64).iter_mut().enumerate();
        entries.for_each(|(a, x)| *x = Complex::new(part(a), part(a + 3)));
    }
    many
}

/// A map whose middle steps go by twos, in few steps.
fn paired(slots: usize) -> Matrix {
    let mut paired = Matrix::zero(slots);
    for k in [1, 2, 6, 13] {
        let period = if k == 2 { 16 } else { slots };
        let part = |a: usize| ((a % period) as f64 + k as f64).cos() / 8.0;
        let entries = paired.diagonal(k).iter_mut().enumerate();
        entries.for_each(|(a, x)| *x = Complex::new(part(a), part(a + 3)));
    }
    paired
}

/// An instruction, where its result is, and the values that it stands for.
pub struct Case {
    pub name: String,
    pub reg: Reg,
    pub wanted: Option<Vec<Complex>>,
}

/// The instructions that every level above 0 allows, on registers of values `x` and `y`.
fn anywhere(
    p: &mut CkksProgram,
    [a, b]: [Reg; 2],
    [x, y]: [&[Complex]; 2],
) -> Result<Vec<(Reg, Vec<Complex>)>> {
    let (scale, slots) = p.info(a).map_or((0.0, 0), |i| (i.scale, i.slots));
    let half = slots / 2;
    let traced = both(x, &turned(x, half as i64), |a, b| a + b);
    let few = p.trace(a, half)?;
    let summed = |j: usize| turned(x, j as i64)[..4].iter().fold(Complex::default(), |a, b| a + *b);
    let i = Complex::new(0.0, 1.0);
    Ok(vec![
        (p.linear(a, map(slots), 2, 2f64.powi(40))?, map(slots).apply(x)),
        (p.double_angle(a)?, each(x, |x| x * x * 2.0 - Complex::from(1.0))),
        (few, traced.clone()),
        (p.repeat(few, slots)?, traced),
        (p.multiply(a, b)?, both(x, y, |a, b| a * b)),
        (p.multiply_i(a)?, each(x, |x| x * i)),
        (p.conjugate(a)?, each(x, |x| x.conj())),
        (p.rotate(a, -3)?, turned(x, -3)),
        (p.rotate(a, 1)?, turned(x, 1)),
        // Alone in its wave.
        (p.rotate(b, 2)?, turned(y, 2)),
        (p.add(a, b)?, both(x, y, |a, b| a + b)),
        (p.subtract(a, b)?, both(x, y, |a, b| a - b)),
        (p.add_constant(a, 0.75)?, each(x, |x| x + Complex::from(0.75))),
        (p.divide(a, 2.0)?, each(x, |x| x * 0.5)),
        (p.dot(&[(a, b), (b, b)])?, both(x, y, |a, b| a * b + b * b)),
        (p.negate(a)?, each(x, |x| -x)),
        (p.sum(a, 4)?, (0..slots).map(summed).collect()),
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
        // In the scale of Chebyshev: degree 3 takes a leaf, 6 a quotient and a remainder, 15 several of both.
        for degree in [3, 6, 15] {
            let coefficient = |i: u32| 0.4 / f64::from((1 + i) * (1 + i));
            let p_of = Chebyshev((0..=degree).map(coefficient).collect());
            let real = p.conjugate(a)?;
            let real = p.add(a, real)?;
            let real = p.divide(real, 2.0)?;
            // A scale of few bits leaves too few of the higher degree to compare values.
            let bits = if degree > 6 { 36.0 } else { 0.0 };
            if info.level >= p_of.depth() && info.scale.log2() > bits {
                let wanted = each(x, |x| Complex::from(p_of.value(x.re)));
                made.push((p.polynomial(real, p_of, info.scale)?, wanted));
            }
        }
    }
    Ok(made)
}

/// Instructions on arguments at a level of the user.
pub fn at_level(context: &Context, level: usize) -> Result<(CkksProgram, Vec<Case>)> {
    let (mut p, slots) = (CkksProgram::new(context), context.params().slots());
    let [a, b] = [p.input(level, slots)?, p.input(level, slots)?];
    let values = [message(slots, 0.3), message(slots, 1.7)];
    let values = [&values[0][..], &values[1][..]];
    let mut made = anywhere(&mut p, [a, b], values)?;
    made.extend(of_the_user(&mut p, a, values)?);
    let cases = made.into_iter().map(|(reg, wanted)| (reg, Some(wanted))).collect();
    finished(p, cases)
}

/// Maps of many diagonals on an argument at a level of the user: in baby, middle and giant steps, and in baby steps alone.
pub fn many_diagonals(context: &Context, level: usize) -> Result<(CkksProgram, Vec<Case>)> {
    let (mut p, slots) = (CkksProgram::new(context), context.params().slots());
    let (a, map) = (p.input(level, slots)?, many(slots));
    let wanted = map.apply(&message(slots, 0.3));
    let made = [8, slots].map(|baby| p.linear(a, map.clone(), baby, 2f64.powi(40)));
    let made = made.into_iter().map(|reg| Ok((reg?, Some(wanted.clone()))));
    let made = made.collect::<Result<_>>()?;
    finished(p, made)
}

/// A map and what needs a key for itself, at a level of few words: for rings whose products of keys go block by block.
pub fn few_steps(context: &Context) -> Result<(CkksProgram, Vec<Case>)> {
    let (mut p, slots) = (CkksProgram::new(context), context.params().slots());
    let (a, map, x) = (p.input(1, slots)?, paired(slots), message(slots, 0.3));
    let made = vec![
        (p.linear(a, map.clone(), 4, 2f64.powi(40))?, Some(map.apply(&x))),
        (p.rotate(a, 1)?, Some(turned(&x, 1))),
        (p.multiply(a, a)?, Some(each(&x, |x| x * x))),
    ];
    finished(p, made)
}

/// Instructions on what was raised to a level of a bootstrap, whose values were not chosen.
pub fn raised_to(context: &Context, level: usize) -> Result<(CkksProgram, Vec<Case>)> {
    let (mut p, slots) = (CkksProgram::new(context), context.params().slots());
    let [a, b] = [p.input(0, slots)?, p.input(0, slots)?];
    // Values of a few multiples of q_0 over a larger number, so that products have room.
    let scale = 2f64.powi(45);
    let [a, b] = [p.raise_modulus(a, level, scale)?, p.raise_modulus(b, level, scale)?];
    let values = message(slots, 0.3);
    let mut made = anywhere(&mut p, [a, b], [&values, &values])?;
    let degree = Chebyshev(vec![0.25, 0.5, 0.0, -0.125, 0.0, 0.0625]);
    made.push((a, vec![]));
    made.push((p.polynomial(a, degree, scale)?, vec![]));
    if level > 5 {
        let long = Chebyshev((0..16).map(|i| 0.25 / (1.0 + f64::from(i))).collect());
        made.push((p.polynomial(a, long, scale)?, vec![]));
    }
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

pub struct World {
    pub context: Arc<Context>,
    pub secret: CkksSecretKey,
    pub keys: Arc<CkksKeys>,
}

impl World {
    pub fn new(params: &'static CkksParams, program: &CkksProgram) -> World {
        World::of(params, program, KeyForm::Ready)
    }

    pub fn of(params: &'static CkksParams, program: &CkksProgram, form: KeyForm) -> World {
        let context = Arc::new(Context::new(params, true).unwrap());
        let secret = context.secret_key().unwrap();
        let needs = program.needs();
        let keys = context.keys_with(&secret, &needs, form, None, UNWATCHED).unwrap();
        World { context, secret, keys: Arc::new(keys) }
    }

    /// Arguments for the lanes of a program; those of the first are the messages 0.3, 1.7, …
    pub fn inputs(&self, program: &CkksProgram) -> Vec<Vec<Rlwe>> {
        self.inputs_of(program, LANES)
    }

    /// The same for so many lanes.
    pub fn inputs_of(&self, program: &CkksProgram, lanes: usize) -> Vec<Vec<Rlwe>> {
        let level = |r: &Reg| program.info(*r).unwrap().level;
        let encrypt = |lane: usize, i: usize, r: &Reg| {
            let slots = self.context.params().slots();
            let message = message(slots, 0.3 + 1.4 * i as f64 + 0.37 * lane as f64);
            self.context.encrypt(&message, level(r), &self.secret).unwrap()
        };
        let inputs = || program.inputs().iter().enumerate();
        (0..lanes).map(|lane| inputs().map(|(i, r)| encrypt(lane, i, r)).collect()).collect()
    }

    /// The results of a machine on lanes, on the vector instructions of `context`.
    pub fn run(
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

    pub fn words(&self, x: &Rlwe) -> [Vec<u8>; 2] {
        self.context.pack(x).unwrap().parts().map(<[u8]>::to_vec)
    }

    /// How far two slots may be apart after a map of entries below 1/4: nine deviations of the errors of its key switches, of rounding its
    /// entries and of the last rescale, by two machines.
    fn apart(&self, level: usize, scale: f64, map: &MapSpec, size: f64) -> f64 {
        let (n, count) = (self.context.params().degree() as f64, map.matrix.rotations().count());
        // A digit has at most 2^6 times P in CoeffsToSlots, and about P elsewhere; there are no more digits than words.
        let excess = if level > self.context.params().levels { 64.0 } else { 2.0 };
        let switched = NOISE_STD * n * excess * (64f64 / 12.0).sqrt();
        let rounded = (n / 12.0 * (1.0 + 2.0 * n / 3.0)).sqrt();
        // Each diagonal is behind a baby step, and no more than all middle and giant ones.
        let steps = map.matrix.steps(map.baby);
        let steps = (1 + steps.middle + steps.giant) as f64 * count as f64 / 4.0;
        let entries = count as f64 * n * 8.0 / map.scale * size;
        18.0 * (steps * (switched + rounded) / scale + entries + rounded / scale * 1024.0)
    }

    /// How far two results of a linear map may be apart in a slot.
    fn allowed(&self, program: &CkksProgram, case: &Case, wanted: &Rlwe) -> f64 {
        let op = program.ops().iter().find(|op| op.results().contains(&case.reg)).unwrap();
        let source = program.info(op.sources()[0]).unwrap();
        let values = self.context.decrypt(wanted, &self.secret).unwrap();
        let CkksOp::Linear { map, .. } = op else { panic!("{} is no linear map", case.name) };
        // The values of the source are at most four times those of the result.
        let size = 4.0 * largest(&values).max(1.0);
        self.apart(source.level, source.scale, &program.maps()[*map as usize], size)
    }
}

fn largest(values: &[Complex]) -> f64 {
    values.iter().map(|x| x.abs()).fold(0.0, f64::max)
}

/// Compares the results of a machine with the reference's.
pub fn compare(
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
        let values = [got, wanted].map(|x| world.context.decrypt(x, &world.secret).unwrap());
        let worst = largest(&both(&values[0], &values[1], |a, b| a - b));
        let bound = world.allowed(program, case, wanted);
        if worst > bound {
            return Err(format!("{name}: 2^{:.1} apart of 2^{:.1}", worst.log2(), bound.log2()));
        }
    }
    Ok(())
}

/// Every program gives on the reference the values that its instructions define.
pub fn sensible(world: &World, cases: &[Case], results: &[Rlwe]) {
    for (case, x) in cases.iter().zip(results) {
        let Some(wanted) = &case.wanted else { continue };
        let got = world.context.decrypt(x, &world.secret).unwrap();
        let wanted = wanted.iter().cycle().take(got.len());
        let worst = got.iter().zip(wanted).map(|(a, b)| (*a - *b).abs()).fold(0.0, f64::max);
        assert!(worst < 2f64.powi(-12), "{}: off by 2^{:.1}", case.name, worst.log2());
    }
}

/// The programs for a set: at the highest level of the user, at one with few words, and at one of each tier above.
pub fn programs(context: &Context) -> Vec<(CkksProgram, Vec<Case>)> {
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
