//! The standard sets of every ring from N = 2^12 to 2^17, at their own size; N = 2^17 in `make test-full`, its chain in a small
//! ring otherwise. `--nocapture` prints what is measured.

use becalm::UNWATCHED;
use becalm::backend::{Ckks, CkksSetup, Cpu, Evaluator};
use becalm::bootstrap::ckks::{Settings, Values, regular, slots_first, sparse};
use becalm::cipher::{CkksKeys, CkksSecretKey, KeyForm, Rlwe};
use becalm::ckks::{Context, Needs};
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, Kind};
use becalm::program::rlwe::CkksProgram;
use std::sync::Arc;
use std::time::Instant;

/// Keys of two baby steps, the fewest.
const SMALL: Settings =
    Settings { stage_count: None, baby: 2, values: Values::Complex, iterations: 1 };

/// Numbers of pseudo-random appearance in −1 .. 1.
fn fraction(j: usize, k: f64) -> f64 {
    let x = (j as f64 + 1.0) * k;
    2.0 * (x - x.floor()) - 1.0
}

fn message(slots: usize) -> Vec<Complex> {
    let value = |j| Complex::new(fraction(j, 0.618_034), fraction(j, 0.414_214)) * 0.7;
    (0..slots).map(value).collect()
}

/// The square mean of the error, and the largest.
fn errors(got: &[Complex], wanted: &[Complex]) -> (f64, f64) {
    assert_eq!(got.len(), wanted.len());
    let all: Vec<f64> = got.iter().zip(wanted).map(|(a, b)| (*a - *b).abs()).collect();
    let mean = all.iter().map(|e| e * e).sum::<f64>() / all.len() as f64;
    (mean.sqrt(), all.iter().copied().fold(0.0, f64::max))
}

struct World {
    context: Arc<Context>,
    secret: CkksSecretKey,
    keys: Arc<CkksKeys>,
}

impl World {
    fn new(params: &'static CkksParams, needs: &Needs) -> World {
        let context = Arc::new(Context::new(params, params.kind == Kind::Toy).unwrap());
        let secret = context.secret_key().unwrap();
        let keys = context.keys(&secret, needs).unwrap();
        assert_eq!(keys.bytes(), context.key_bytes(needs), "the size is known before");
        World { context, secret, keys: Arc::new(keys) }
    }

    /// With encoded matrices of at most `bytes`.
    fn evaluator(&self, bytes: usize) -> Evaluator<Ckks> {
        let on = CkksSetup::new(&self.context, &self.keys).within(bytes);
        Evaluator::new(&Cpu::new(0).unwrap(), on).unwrap()
    }

    /// The error is within the claim of the ciphertext, not much below it, and leaves at least so many bits.
    fn check(&self, what: &str, x: &Rlwe, wanted: &[Complex], least: f64) {
        let mean = self.check_claim(what, x, wanted, least);
        assert!(x.error() < 64.0 * mean, "{what}: a claim of nothing");
    }

    /// The error is within the claim, and leaves at least so many bits.
    fn check_claim(&self, what: &str, x: &Rlwe, wanted: &[Complex], least: f64) -> f64 {
        let (mean, worst) = errors(&self.context.decrypt(x, &self.secret).unwrap(), wanted);
        let claimed = x.error();
        println!(
            "{} {what}, level {}: 2^{:.2} in the square mean, 2^{:.2} at the worst, 2^{:.2} claimed",
            self.context.params().name,
            x.level(),
            mean.log2(),
            worst.log2(),
            claimed.log2()
        );
        let bound = x.account().worst;
        assert!(mean < 1.06 * claimed && worst < bound, "{what}: a claim that does not hold");
        assert!(-mean.log2() > least, "{what}: fewer than {least} bits");
        mean
    }
}

fn named(name: &str) -> &'static CkksParams {
    CkksParams::named(name).unwrap()
}

#[test]
fn every_ring_has_a_standard_set() {
    for log2_degree in 12..=17 {
        let there = CkksParams::all().iter().filter(|p| p.log2_degree == log2_degree);
        assert!(there.clone().any(|p| p.kind == Kind::Standard), "N = 2^{log2_degree}");
    }
}

/// Products down to level 0, a rotation and a conjugation, at the set's own size.
#[test]
fn sets_without_a_bootstrap_compute() {
    for (name, levels, least) in
        [("ckks_n12", 1, 18.0), ("ckks_n13", 4, 19.0), ("ckks_n14", 8, 26.0)]
    {
        let params = named(name);
        assert!(params.bootstrap.is_none() && params.levels == levels);
        let needs = Needs { conjugate: Some(levels), ..Needs::default() }.rotate([1], levels);
        let world = World::new(params, &needs);
        let World { context, secret, .. } = &world;
        let (evaluator, m) = (world.evaluator(usize::MAX), message(params.slots()));
        let x = context.encrypt(&m, levels, secret).unwrap();
        world.check("encrypted", &x, &m, least);
        let public = context.public_key(secret).unwrap();
        world.check(
            "by anyone",
            &context.encrypt_public(&m, levels, &public).unwrap(),
            &m,
            least - 2.0,
        );
        let turned: Vec<Complex> = (0..m.len()).map(|j| m[(j + 1) % m.len()]).collect();
        let conjugate: Vec<Complex> = m.iter().map(|v| v.conj()).collect();
        for level in [levels, 0] {
            let x = evaluator.level_down(&x, level).unwrap();
            world.check("rotated", &evaluator.rotate(&x, 1).unwrap(), &turned, least - 1.0);
            world.check("conjugate", &evaluator.conjugate(&x).unwrap(), &conjugate, least - 1.0);
        }
        let (mut power, mut wanted) = (x.clone(), m.clone());
        for _ in 0..levels {
            power = evaluator.multiply(&power, &x).unwrap();
            wanted.iter_mut().zip(&m).for_each(|(w, m)| *w = *w * *m);
            world.check("power", &power, &wanted, least - 1.0);
        }
        assert_eq!(power.level(), 0);
        let e = evaluator.multiply(&power, &x).err().map(|e| e.kind());
        assert_eq!(e, Some("bad_input"), "no level is left");
        let says = regular(context, &SMALL).err().unwrap().to_string();
        assert!(says.contains(name) && says.contains("ckks_slots_first"), "{says}");
        let refused = context.keys(secret, &Needs { bootstrap: Some(0), ..Needs::default() });
        assert_eq!(refused.err().unwrap().kind(), "wrong_params");
    }
}

/// A bootstrap of all slots with matrices within `bytes`, and what can be computed after it.
fn bootstrapped(world: &World, program: CkksProgram, bytes: usize, least: f64) {
    let World { context, secret, .. } = world;
    let (evaluator, program) = (world.evaluator(bytes), Arc::new(program));
    let slots = program.info(program.inputs()[0]).unwrap().slots;
    let m = message(slots);
    let x = context.encrypt(&m, 0, secret).unwrap();
    let start = Instant::now();
    let y = evaluator.run(&program, &[&x]).unwrap().remove(0);
    println!("{:.1} s", start.elapsed().as_secs_f64());
    assert_eq!((y.level(), y.slots()), (context.params().levels, slots));
    let arrived = y.error() / program.error().unwrap();
    assert!((1.0..1.05).contains(&arrived), "what was said before, and the error of encryption");
    // The claim is for every message; this one has no structure, which the sine would bend more.
    world.check_claim("bootstrapped", &y, &m, least);
    let square = evaluator.square(&y).unwrap();
    let squares: Vec<Complex> = m.iter().map(|v| *v * *v).collect();
    world.check_claim("its square", &square, &squares, least - 1.0);
}

/// All slots of N = 2^15 and few of them: what is left, and what is claimed of it.
#[test]
fn the_bootstrap_of_n15_keeps_the_values() {
    let context = Context::new(named("ckks_n15"), false).unwrap();
    for (program, least) in [
        (regular(&context, &SMALL).unwrap(), 14.5),
        (sparse(&context, 1024, &SMALL).unwrap(), 15.0),
    ] {
        let world = World::new(named("ckks_n15"), &program.needs());
        bootstrapped(&world, program, usize::MAX, least);
    }
    // A fifth stage would leave the polynomial too small a scale.
    for (stages, level) in [(3, Some(5)), (4, Some(2)), (5, None)] {
        let made = regular(&context, &Settings { stage_count: Some(stages), ..SMALL });
        let found = made.as_ref().ok().map(|p| p.info(p.outputs()[0]).unwrap().level);
        assert_eq!(found, level, "{stages} stages");
        assert!(made.err().is_none_or(|e| e.to_string().contains("[3, 4]")));
    }
}

/// The formulas of the pages, where no term of the message's own hides the others: complex values, real ones, two ciphertexts of real ones,
/// and the bootstrap with SlotsToCoeffs first. A term that is left out shows: without the key switch of the conjugation real values had 1.35 times what was claimed.
#[test]
fn the_claim_of_a_bootstrap_is_what_it_has() {
    let context = Context::new(named("ckks_n15"), false).unwrap();
    let kinds = [Values::Complex, Values::Real, Values::Merged];
    let of = |values| Settings { values, ..SMALL };
    let last = kinds.map(|v| (v, regular(&context, &of(v)).unwrap()));
    let first = [kinds[0], kinds[1]]
        .map(|v| (v, slots_first(&context, context.params().slots(), &of(v)).unwrap()));
    let programs: Vec<_> = last.into_iter().chain(first).collect();
    let needs = programs.iter().fold(Needs::default(), |n, (_, p)| n.union(&p.needs()));
    let world = World::new(named("ckks_n15"), &needs);
    let World { context, secret, .. } = &world;
    let evaluator = world.evaluator(usize::MAX);
    for (values, program) in &programs {
        let mut m = message(context.params().slots());
        if *values != Values::Complex {
            m.iter_mut().for_each(|v| *v = Complex::from(v.re));
        }
        let level = program.info(program.inputs()[0]).unwrap().level;
        let x = context.encrypt(&m, level, secret).unwrap();
        let inputs = vec![&x; program.inputs().len()];
        for y in evaluator.run(&Arc::new(program.clone()), &inputs).unwrap() {
            let (found, _) = errors(&context.decrypt(&y, secret).unwrap(), &m);
            let part = found / program.noise().unwrap();
            println!("{values:?} from level {level}: 2^{:.2}, {part:.3} of it", found.log2());
            // Values smaller than the 1 of a claim have less of the rounding of SlotsToCoeffs' entries, which comes first there.
            let least = if level == 0 { 0.8 } else { 0.7 };
            assert!((least..1.06).contains(&part), "{values:?} from {level}: {part:.3} of it");
        }
    }
}

/// The chain of N = 2^17 in a ring that is small and insecure.
#[test]
fn the_bootstrap_of_n17_keeps_the_values_in_a_small_ring() {
    let toy = CkksParams { kind: Kind::Toy, log2_degree: 12, ..named("ckks_n17").clone() };
    let toy: &'static CkksParams = Box::leak(Box::new(toy));
    let program = regular(&Context::new(toy, true).unwrap(), &SMALL).unwrap();
    let world = World::new(toy, &program.needs());
    bootstrapped(&world, program, usize::MAX, 24.0);
}

/// N = 2^17, with keys packed in memory and matrices encoded when they are used.
#[test]
#[ignore = "N = 131072 takes minutes and many gigabytes: make test-full"]
fn full_size_bootstrap_of_n17_keeps_the_values() {
    let context = Arc::new(Context::new(named("ckks_n17"), false).unwrap());
    let program = regular(&context, &SMALL).unwrap();
    let secret = context.secret_key().unwrap();
    let start = Instant::now();
    let keys =
        context.keys_with(&secret, &program.needs(), KeyForm::Seeded, None, UNWATCHED).unwrap();
    let (made, full) =
        (keys.bytes() as f64 / 1e9, context.key_bytes(&program.needs()) as f64 / 1e9);
    println!("keys {made:.2} GB of {full:.2} in {:.1} s", start.elapsed().as_secs_f64());
    let world = World { context, secret, keys: Arc::new(keys) };
    bootstrapped(&world, program, 0, 23.0);
    let peak = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", peak.lines().find(|l| l.starts_with("VmHWM")).unwrap_or_default());
}
