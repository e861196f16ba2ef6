//! Every kind of CKKS bootstrap at reduced size, with its precision; at full size in `make test-full`.
//! `--nocapture` prints mean and worst bits of every case, keys, levels and processor time.

use becalm::Result;
use becalm::UNWATCHED;
use becalm::backend::{Ckks, CkksSetup, Cpu, Evaluator, MemoryBudget, Prepared};
use becalm::bootstrap::ckks::{Settings, Values, regular, sign, slots_first, sparse};
use becalm::cipher::{CkksKeys, KeyForm, Rlwe};
use becalm::ckks::{Context, Needs};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::rlwe::CkksProgram;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Mean and least bits of the absolute error.
fn bits(got: &[Complex], wanted: &[Complex]) -> (f64, f64) {
    let errors: Vec<f64> = got.iter().zip(wanted).map(|(a, b)| (*a - *b).abs()).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    (-mean.log2(), -errors.iter().copied().fold(0.0, f64::max).log2())
}

/// Numbers of pseudo-random appearance in −1 .. 1.
fn fraction(j: usize, k: f64) -> f64 {
    let x = (j as f64 + 1.0) * k;
    2.0 * (x - x.floor()) - 1.0
}

/// The message to bootstrap.
#[derive(Debug, Clone, Copy)]
enum Message {
    /// Complex values of pseudo-random appearance.
    Complex,
    /// Real values from −1 to 1.
    Ramp,
    /// 1 in every slot.
    One,
    /// −1 and 1.
    Signs,
    /// −1 and 1, each off by a part of this.
    NearSigns(f64),
}

impl Message {
    fn values(self, slots: usize) -> Vec<Complex> {
        let sign = |j: usize| if fraction(j, 0.414_214) < 0.0 { -1.0 } else { 1.0 };
        let value = |j: usize| match self {
            Message::Complex => Complex::new(fraction(j, 0.618_034), fraction(j, 0.414_214)) * 0.7,
            Message::Ramp => Complex::from(2.0 * j as f64 / slots as f64 - 1.0),
            Message::One => Complex::from(1.0),
            Message::Signs => Complex::from(sign(j)),
            Message::NearSigns(off) => Complex::from(sign(j) + off * fraction(j, 0.618_034)),
        };
        (0..slots).map(value).collect()
    }
}

/// A message of so many slots (0: all) at a level above that of the program, and the bits that it keeps.
struct Case {
    message: Message,
    slots: usize,
    above: usize,
    bits: (f64, f64),
}

fn case(message: Message, slots: usize, above: usize, bits: (f64, f64)) -> Case {
    Case { message, slots, above, bits }
}

fn evaluator(context: &Arc<Context>, keys: CkksKeys) -> Evaluator<Ckks> {
    Evaluator::new(&Cpu::new(0).unwrap(), CkksSetup::new(context, &Arc::new(keys))).unwrap()
}

/// Runs the program on each case; its results are at `level`.
fn measure(
    set: &str,
    record: impl Fn(&Context) -> Result<CkksProgram>,
    level: usize,
    all: &[Case],
) {
    let context = Arc::new(Context::new(CkksParams::named(set).unwrap(), true).unwrap());
    let program = record(&context).unwrap();
    let secret = context.secret_key().unwrap();
    let keys = context.keys(&secret, &program.needs()).unwrap();
    let needs = program.needs();
    assert_eq!(keys.bytes(), context.key_bytes(&needs), "the size is known before");
    let (evaluator, program) = (evaluator(&context, keys), Arc::new(program));
    let cpu = Cpu::new(0).unwrap();
    let ready = Prepared::new(&cpu, &context, &program, usize::MAX, UNWATCHED).unwrap();
    let cost = program.cost();
    println!(
        "{set}: {} rotations, keys {:.3} GB, maps {:.3} GB, {} key switches, {} transforms, registers {:.3} GB",
        needs.rotations.len(),
        evaluator.keys().bytes() as f64 / 1e9,
        ready.bytes() as f64 / 1e9,
        cost.key_switches,
        cost.transforms,
        cost.bytes as f64 / 1e9
    );
    let least = program.info(program.inputs()[0]).unwrap().level;
    for Case { message, slots, above, bits: wanted } in all {
        let slots =
            if *slots == 0 { program.info(program.inputs()[0]).unwrap().slots } else { *slots };
        let m = message.values(slots);
        let other: Vec<Complex> = m.iter().rev().copied().collect();
        let encrypt = |m: &[Complex]| context.encrypt(m, least + above, &secret).unwrap();
        let inputs: Vec<Rlwe> =
            [&m, &other].iter().take(program.inputs().len()).map(|m| encrypt(m)).collect();
        let start = Instant::now();
        let outputs = evaluator.run(&ready, &inputs.iter().collect::<Vec<_>>()).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let cleaned = |v: &Complex| match message {
            Message::NearSigns(_) => Complex::from(v.re.signum()),
            _ => *v,
        };
        for (y, m) in outputs.iter().zip([&m, &other]) {
            assert_eq!((y.level(), y.slots()), (level, slots));
            assert!((y.scale() / context.scale(level).unwrap() - 1.0).abs() < 1e-9);
            let wished: Vec<Complex> = m.iter().map(cleaned).collect();
            let (mean, worst) = bits(&context.decrypt(y, &secret).unwrap(), &wished);
            let claimed = -y.error().log2(); // of a standard deviation, for values without structure
            println!(
                "{set}, {message:?} of {slots}: {mean:.2} bits in the mean, {worst:.2} at the worst, about {claimed:.1} claimed; {seconds:.1} s"
            );
            assert!(mean > wanted.0 && worst > wanted.1, "{set}, {message:?} of {slots}");
            assert!(!matches!(message, Message::Complex) || mean > claimed - 0.5, "{slots} slots");
        }
        // The result can be computed with.
        let square = evaluator.square(&outputs[0]).unwrap();
        let squares: Vec<Complex> = m.iter().map(cleaned).map(|v| v * v).collect();
        let (mean, _) = bits(&context.decrypt(&square, &secret).unwrap(), &squares);
        assert!(mean > wanted.0 - 2.0, "the square has {mean:.2} bits");
    }
}

const ONE_VALUE: (f64, f64) = (13.0, 13.0);

fn with(stage_count: usize, values: Values) -> Settings {
    Settings { stage_count: Some(stage_count), values, ..Settings::default() }
}

#[test]
fn a_regular_bootstrap_keeps_the_values() {
    let cases = [
        case(Message::Complex, 0, 0, (23.0, 21.0)),
        case(Message::Ramp, 0, 10, (23.0, 21.0)),
        case(Message::Complex, 64, 2, (20.0, 18.0)),
        case(Message::One, 1, 1, ONE_VALUE),
    ];
    measure("ckks_toy_12", |c| regular(c, &Settings::default()), 10, &cases);
}

#[test]
fn real_values_take_one_eval_mod() {
    let cases =
        [case(Message::Ramp, 0, 0, (23.0, 21.0)), case(Message::Signs, 64, 2, (18.0, 16.0))];
    measure("ckks_toy_12", |c| regular(c, &with(3, Values::Real)), 10, &cases);
}

#[test]
fn two_real_ciphertexts_are_bootstrapped_as_one() {
    let cases =
        [case(Message::Ramp, 0, 0, (23.0, 21.0)), case(Message::Ramp, 512, 2, (22.0, 20.0))];
    measure("ckks_toy_12", |c| regular(c, &with(3, Values::Merged)), 10, &cases);
}

/// More stages leave fewer levels.
#[test]
fn stages_can_be_more_than_the_set_has() {
    for (stages, level) in [(2, 10), (4, 8), (5, 5)] {
        let cases = [case(Message::Complex, 0, 0, (22.0, 20.0))];
        measure("ckks_toy_12", |c| regular(c, &with(stages, Values::Complex)), level, &cases);
    }
}

/// Fewer levels for less: also with SlotsToCoeffs first, whose argument needs three of the four.
#[test]
fn a_bootstrap_to_4_levels_keeps_the_values() {
    let cases = [case(Message::Complex, 0, 0, (22.0, 20.0)), case(Message::One, 1, 1, ONE_VALUE)];
    measure("ckks_toy_4_levels", |c| regular(c, &Settings::default()), 4, &cases);
    let ramp = [case(Message::Ramp, 0, 1, (21.0, 19.0))];
    let first = |c: &Context| slots_first(c, c.params().slots(), &with(3, Values::Real));
    measure("ckks_toy_4_levels", first, 4, &ramp);
}

#[test]
fn a_bootstrap_to_14_levels_keeps_the_values() {
    let cases = [case(Message::Complex, 0, 0, (22.0, 20.0)), case(Message::One, 1, 1, ONE_VALUE)];
    measure("ckks_toy_14_levels", |c| regular(c, &Settings::default()), 14, &cases);
}

#[test]
fn a_bootstrap_to_17_levels_keeps_the_values() {
    let cases = [case(Message::Complex, 0, 0, (21.0, 19.0)), case(Message::One, 1, 1, ONE_VALUE)];
    measure("ckks_toy_17_levels", |c| regular(c, &Settings::default()), 17, &cases);
}

/// With the arcsine even one value in every slot keeps its bits.
#[test]
fn a_precise_bootstrap_keeps_structured_values() {
    let cases = [
        case(Message::Complex, 0, 0, (23.0, 21.0)),
        case(Message::Complex, 64, 2, (23.0, 21.0)),
        case(Message::One, 1, 1, (22.0, 22.0)),
        case(Message::Signs, 0, 1, (22.0, 20.0)),
    ];
    measure("ckks_toy_precise", |c| regular(c, &Settings::default()), 8, &cases);
}

#[test]
fn few_slots_are_bootstrapped_by_themselves() {
    for (slots, stages) in [(32, 1), (32, 2), (512, 3), (1024, 2)] {
        let cases = [
            case(Message::Complex, 0, 0, if slots == 32 { (18.5, 17.0) } else { (21.5, 20.0) }),
            case(Message::Ramp, slots / 2, 1, (18.0, 17.0)),
        ];
        measure("ckks_toy_12", |c| sparse(c, slots, &with(stages, Values::Complex)), 10, &cases);
    }
}

#[test]
fn slots_to_coeffs_first_leaves_more_levels() {
    let cases = [
        case(Message::Ramp, 0, 0, (22.0, 20.0)),
        case(Message::One, 1, 2, (20.0, 20.0)),
        case(Message::Ramp, 128, 1, (22.0, 20.0)),
    ];
    measure(
        "ckks_toy_slots_first",
        |c| slots_first(c, c.params().slots(), &with(3, Values::Real)),
        13,
        &cases,
    );
    let cases = [case(Message::Complex, 0, 0, (21.0, 19.0))];
    measure(
        "ckks_toy_slots_first",
        |c| slots_first(c, c.params().slots(), &with(3, Values::Complex)),
        13,
        &cases,
    );
    measure(
        "ckks_toy_12",
        |c| slots_first(c, c.params().slots(), &with(4, Values::Complex)),
        10,
        &cases,
    );
    let cases = [case(Message::Ramp, 0, 0, (22.0, 20.0))];
    measure(
        "ckks_toy_slots_first",
        |c| slots_first(c, c.params().slots(), &with(3, Values::Merged)),
        13,
        &cases,
    );
}

/// Errors of the values go away in their square: (π²/8)·E[ε²].
#[test]
fn a_sign_bootstrap_cleans_the_values() {
    let cases = [
        case(Message::Signs, 0, 0, (28.0, 24.0)),
        case(Message::Signs, 4, 5, (28.0, 24.0)),
        case(Message::NearSigns(2f64.powi(-6)), 0, 0, (13.2, 11.6)),
        case(Message::NearSigns(2f64.powi(-10)), 0, 0, (21.2, 19.6)),
    ];
    measure("ckks_toy_slots_first", |c| sign(c, &with(3, Values::Real)), 13, &cases);
    measure("ckks_toy_12", |c| sign(c, &with(3, Values::Real)), 10, &cases[..1]);
    measure("ckks_toy_slots_first", |c| sign(c, &with(3, Values::Merged)), 13, &cases[..1]);
}

/// Every kind at N = 2^16; a minute of processor time and up to 6 GB each.
#[test]
#[ignore = "N = 65536 takes 6 GB and minutes: make test-full"]
fn full_size_keeps_the_values() {
    let settings = Settings::default();
    let cases = |message, mean, worst| [case(message, 0, 0, (mean, worst))];
    let complex =
        [case(Message::Complex, 0, 0, (23.0, 20.0)), case(Message::Ramp, 0, 0, (23.0, 20.0))];
    measure("ckks_regular", |c| regular(c, &settings), 10, &complex);
    for (stages, level) in [(4, 8), (5, 5)] {
        let record = |c: &Context| regular(c, &with(stages, Values::Complex));
        measure("ckks_regular", record, level, &cases(Message::Complex, 22.0, 19.0));
    }
    let ramp = cases(Message::Ramp, 23.0, 20.0);
    measure("ckks_regular", |c| regular(c, &with(3, Values::Real)), 10, &ramp);
    measure(
        "ckks_regular",
        |c| regular(c, &with(3, Values::Merged)),
        10,
        &cases(Message::Ramp, 22.0, 19.0),
    );
    measure("ckks_4_levels", |c| regular(c, &settings), 4, &cases(Message::Complex, 22.0, 19.0));
    measure("ckks_14_levels", |c| regular(c, &settings), 14, &cases(Message::Complex, 22.0, 19.0));
    measure("ckks_17_levels", |c| regular(c, &settings), 17, &cases(Message::Complex, 21.0, 18.0));
    let ones = [case(Message::Signs, 0, 0, (20.0, 18.0)), case(Message::One, 0, 0, (20.0, 20.0))];
    measure("ckks_precise", |c| regular(c, &settings), 8, &ones);
    for (slots, stages) in [(32, 1), (32, 2), (1024, 2), (1024, 3), (1024, 4)] {
        let record = |c: &Context| sparse(c, slots, &with(stages, Values::Complex));
        let wanted = if slots == 32 { (18.5, 17.0) } else { (22.0, 20.0) };
        let level = if stages == 4 { 8 } else { 10 };
        measure("ckks_regular", record, level, &[case(Message::Ramp, 0, 0, wanted)]);
    }
    let ramp = cases(Message::Ramp, 21.0, 19.0);
    measure(
        "ckks_slots_first",
        |c| slots_first(c, c.params().slots(), &with(3, Values::Real)),
        13,
        &ramp,
    );
    measure(
        "ckks_slots_first",
        |c| slots_first(c, c.params().slots(), &settings),
        13,
        &cases(Message::Complex, 21.0, 18.0),
    );
    let signs = cases(Message::Signs, 28.0, 24.0);
    measure("ckks_slots_first", |c| sign(c, &with(3, Values::Real)), 13, &signs);
}

fn toy() -> Arc<Context> {
    Arc::new(Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap())
}

/// The text of a refusal, `kind: wanted, got; remedy`.
fn refusal<T>(result: Result<T>) -> String {
    let error = result.err().expect("a refusal");
    let detail = error.detail();
    format!("{}: {}, got {}; {}", error.kind(), detail.wanted, detail.got, detail.remedy)
}

#[test]
fn what_cannot_be_recorded_is_refused_with_what_can() {
    let c = toy();
    let settings = |stages| with(stages, Values::Complex);
    for stages in [0, 1, 6, 99] {
        let says = refusal(regular(&c, &settings(stages)));
        assert!(says.starts_with("bad_input") && says.contains("[2, 3, 4, 5]"), "{says}");
    }
    let says = refusal(sparse(&c, 32, &settings(6)));
    assert!(says.contains("[1, 2, 3, 4, 5] for 32 slots"), "{says}");
    let precise = Context::new(CkksParams::named("ckks_toy_precise").unwrap(), true).unwrap();
    let says = refusal(regular(&precise, &settings(4)));
    assert!(says.contains("[2, 3]"), "{says}");
    for slots in [0, 1, 3, 1000, 2048, 4096] {
        let says = refusal(sparse(&c, slots, &Settings::default()));
        assert!(says.starts_with("bad_input") && says.contains(&slots.to_string()), "{says}");
    }
    let says = refusal(regular(&c, &Settings { baby: 3, ..Settings::default() }));
    assert!(says.contains("2, 4, 8, 16 or 32"), "{says}");
    let says = refusal(sign(&precise, &Settings::default()));
    assert!(says.starts_with("wrong_params"), "{says}");
    let mut program = CkksProgram::new(&c);
    let x = program.input(0, 2048).unwrap();
    assert!(refusal(program.double_angle(x)).contains("level 1 or above"));
    assert!(refusal(program.input(11, 2048)).contains("at most 10"));
    let y = program.input(3, 2048).unwrap();
    assert!(refusal(program.add(x, y)).starts_with("bad_input"));
    assert!(refusal(program.raise_modulus(y, 20, 2f64.powi(64))).contains("from level 0"));
    assert!(refusal(program.add_constant(x, f64::NAN)).contains("finite"));
}

#[test]
fn values_outside_the_range_are_refused_before_they_are_encrypted() {
    let c = toy();
    let real = |x: f64| vec![Complex::from(x); 4];
    let programs = [
        regular(&c, &Settings::default()).unwrap(),
        slots_first(&c, c.params().slots(), &with(3, Values::Real)).unwrap(),
        sign(&c, &with(3, Values::Real)).unwrap(),
    ];
    for program in &programs {
        program.check_values(&real(1.0)).unwrap();
        for bad in [f64::NAN, f64::INFINITY, 1.5, -2.0, 1e30] {
            let says = refusal(program.check_values(&real(bad)));
            assert!(says.starts_with("bad_input"), "{says}");
        }
    }
    let says = refusal(programs[1].check_values(&[Complex::new(0.5, 0.5)]));
    assert!(says.contains("0.5 + 0.5i at position 0"), "{says}");
    let says = refusal(programs[2].check_values(&[Complex::from(1.0), Complex::from(0.9)]));
    assert!(says.contains("0.9 + 0i at position 1") && says.contains("0.0625"), "{says}");
    // One large value among many small ones is spread over the coefficients.
    let mut values = real(0.0);
    values[0] = Complex::from(3.0);
    programs[0].check_values(&values).unwrap();
    assert!(refusal(programs[1].check_values(&values)).starts_with("bad_input"));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let c = toy();
    let program = slots_first(&c, c.params().slots(), &with(3, Values::Real)).unwrap();
    let (secret, other) = (c.secret_key().unwrap(), c.secret_key().unwrap());
    let mut needs = program.needs();
    let (missing, mut levels) = needs.rotations.pop_first().unwrap();
    let open = |needs: &Needs| {
        let evaluator = evaluator(&c, c.keys(&secret, needs).unwrap());
        refusal(evaluator.require(&program))
    };
    let says = open(&needs);
    assert!(says.starts_with("wrong_key") && says.contains(&format!("[{missing}]")), "{says}");
    let all = levels.clone();
    let level = levels.pop_last().unwrap();
    levels.insert(level - 1);
    needs.rotations.insert(missing, levels);
    let says = open(&needs);
    assert!(says.contains(&format!("[{missing}] up to level {level}")), "{says}");
    needs.rotations.insert(missing, all);
    let conjugate = needs.conjugate.take();
    assert!(open(&needs).contains("conjugation"));
    needs.conjugate = conjugate.map(|level| level - 1);
    assert!(open(&needs).contains("got one for lower levels"));
    needs.conjugate = conjugate;
    needs.multiply -= 1;
    assert!(open(&needs).contains("multiplication"));
    needs.multiply += 1;
    needs.bootstrap = None;
    assert!(open(&needs).contains("ephemeral"));
    needs.bootstrap = Some(c.params().top_level() + 1);
    assert!(refusal(c.keys(&secret, &needs)).starts_with("bad_input"));
    let keys = c.keys(&secret, &program.needs()).unwrap();
    let (evaluator, program) = (evaluator(&c, keys), Arc::new(program));
    let run = |inputs: &[&Rlwe]| evaluator.run(&program, inputs);
    let m = [Complex::from(0.5); 4];
    let low = c.encrypt(&m, 2, &secret).unwrap();
    let says = refusal(run(&[&low]));
    assert!(says.contains("level 3 or above, got level 2"), "{says}");
    let foreign = c.encrypt(&m, 3, &other).unwrap();
    assert!(refusal(run(&[&foreign])).starts_with("wrong_key"));
    let fine = c.encrypt(&m, 3, &secret).unwrap();
    assert!(refusal(run(&[])).contains("1 ciphertexts"));
    assert!(refusal(run(&[&fine, &fine])).contains("1 ciphertexts"));
    let steps = AtomicUsize::new(0);
    let stopped = evaluator.run_lanes(&program, &[&[&fine]], &|done, _| {
        steps.store(done, Ordering::Relaxed);
        if done == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(refusal(stopped).starts_with("interrupted") && steps.into_inner() == 2);
}

/// A bootstrap of few slots refuses a ciphertext of more, and one of another set any key.
#[test]
fn other_slots_and_sets_are_refused() {
    let c = toy();
    let secret = c.secret_key().unwrap();
    let program = sparse(&c, 32, &Settings::default()).unwrap();
    let keys = c.keys(&secret, &program.needs()).unwrap();
    let evaluator = evaluator(&c, keys);
    let wide = c.encrypt(&[Complex::from(0.1); 64], 0, &secret).unwrap();
    assert!(refusal(evaluator.run(&Arc::new(program), &[&wide])).contains("at most 32 slots"));
    let precise = Context::new(CkksParams::named("ckks_toy_precise").unwrap(), true).unwrap();
    let program = regular(&precise, &Settings::default()).unwrap();
    assert!(refusal(evaluator.require(&program)).starts_with("wrong_params"));
}

/// Keys in their file or packed, matrices encoded one by one or some of them: the same ciphertext, to the bit.
#[test]
fn less_memory_computes_the_same() {
    let c = toy();
    let program = sparse(&c, 32, &Settings::default()).unwrap();
    let secret = c.secret_key().unwrap();
    let compact = c.keys_with(&secret, &program.needs(), KeyForm::Seeded, None, UNWATCHED).unwrap();
    let path = std::env::temp_dir().join(format!("becalm-test-stream-{}", std::process::id()));
    c.write_keys(&compact, std::fs::File::create(&path).unwrap()).unwrap();
    let stored = c.open_keys(&path).unwrap();
    let keys = c.ready_keys(&compact, usize::MAX).unwrap();
    let packed = c.load_keys_with(&path, KeyForm::Packed, UNWATCHED).unwrap();
    let (ready, half) = (keys.bytes(), c.ready_keys(&stored, keys.bytes() / 2).unwrap());
    assert_eq!((ready, stored.bytes()), (c.ready_bytes(&compact), 0));
    assert!(ready / 4 < half.bytes() && half.bytes() <= ready / 2, "{} of {ready}", half.bytes());
    assert_eq!(c.stored_bytes(&compact), c.stored_key_bytes(&program.needs()));
    assert!(compact.bytes() < ready * 2 / 5, "{} of {ready}", compact.bytes());
    let (cpu, program) = (Cpu::new(0).unwrap(), Arc::new(program));
    let [keys, stored, compact, half, packed] = [keys, stored, compact, half, packed].map(Arc::new);
    let bytes_within = |bytes| Prepared::new(&cpu, &c, &program, bytes, UNWATCHED).unwrap().bytes();
    let matrices = bytes_within(usize::MAX);
    let half_of_them = bytes_within(matrices / 2);
    assert!(bytes_within(0) == 0 && (1..=matrices / 2).contains(&half_of_them));
    let x = c.encrypt(&Message::Ramp.values(32), 0, &secret).unwrap();
    let run = |keys: &Arc<CkksKeys>, bytes| {
        let on = CkksSetup::new(&c, keys).within(bytes);
        let made = Evaluator::new(&cpu, on).unwrap().run(&program, &[&x]).unwrap();
        c.ciphertext_to_bytes(&made[0]).unwrap()
    };
    let all = run(&keys, usize::MAX);
    for (keys, bytes) in [(&stored, 0), (&compact, 0), (&half, matrices / 2), (&packed, 0)] {
        assert!(run(keys, bytes) == all, "another result");
    }
    let other = evaluator(&c, c.keys(&secret, &Needs::default()).unwrap());
    assert!(refusal(other.run(&program, &[&x])).starts_with("wrong_key"));
    // A budget is spent on matrices first, then on keys; the error for less than an instruction takes gives its size.
    let share = |bytes| MemoryBudget::of(&c, &program, &stored, bytes);
    let whole = MemoryBudget { matrices: usize::MAX, keys: usize::MAX };
    assert_eq!(share(ready + matrices).unwrap(), whole);
    let least = program.least_bytes(&c);
    assert!(share(least).is_ok(), "{least} bytes are the least");
    assert!(refusal(share(least - 1)).starts_with("memory"), "{least} bytes are the least");
    for (form, bytes) in [(KeyForm::Packed, packed.bytes()), (KeyForm::Seeded, compact.bytes())] {
        assert_eq!(c.bytes_as(&stored, form), bytes, "known before they are read");
    }
    let refused = refusal(share(ready / 100));
    assert!(refused.starts_with("memory") && refused.contains("B for keys and matrices"));
    let some = share(ready * 3 / 4).unwrap();
    assert!(some.matrices <= matrices && some.matrices + some.keys < ready * 3 / 4, "{some:?}");
    assert!(some.matrices == matrices || some.keys == 0, "{some:?}");
    std::fs::remove_file(&path).unwrap();
}

/// A key that two programs need is made once.
#[test]
fn needs_are_united() {
    let c = toy();
    let (a, b) = (
        regular(&c, &Settings::default()).unwrap().needs(),
        slots_first(&c, c.params().slots(), &Settings::default()).unwrap().needs(),
    );
    let both = a.clone().union(&b);
    for (by, levels) in a.rotations.iter().chain(&b.rotations) {
        assert!(both.rotations[by].is_superset(levels));
    }
    assert!(a.rotations.keys().eq(b.rotations.keys()), "the stages of both are the same");
    let united = [both.conjugate, Some(both.multiply), both.bootstrap];
    assert_eq!(
        united,
        [a.conjugate.max(b.conjugate), Some(a.multiply.max(b.multiply)), a.bootstrap]
    );
    let few = sparse(&c, 32, &Settings::default()).unwrap().needs();
    println!("{} rotations for 32 slots: {:?}", few.rotations.len(), few.rotations);
}
