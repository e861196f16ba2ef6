//! Claims hold behind every bootstrap for every message within the bound, not only for those of zero mean: twenty kinds of them. The usual
//! bootstrap also runs many times in a row, and a search looks for a worse message. With BECALM_FULL=1 all bootstraps meet all kinds, and
//! rows and searches are longer. `--nocapture` prints what is measured.

mod full;

use becalm::UNWATCHED;
use becalm::backend::{Ckks, CkksSetup, Cpu, Evaluator, Prepared};
use becalm::bootstrap::ckks::{Settings, Values, regular, sign, slots_first, sparse};
use becalm::cipher::file::Trust;
use becalm::cipher::{CkksSecretKey, Rlwe};
use becalm::ckks::{Chain, Context};
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, Kind};
use becalm::program::rlwe::CkksProgram;
use full::full;
use std::sync::Arc;

/// Numbers of pseudo-random appearance in 0 .. 1.
fn fraction(j: usize, k: f64) -> f64 {
    ((j as f64 + 1.0) * k).fract()
}

/// A kind of message: value j of n.
type Message = fn(usize, usize) -> f64;

/// Twenty kinds of real messages within ±1.
fn kinds() -> Vec<(&'static str, Message)> {
    vec![
        ("uniform in -1 .. 1", |j, _| 2.0 * fraction(j, 0.618_034) - 1.0),
        ("uniform in 0 .. 1", |j, _| fraction(j, 0.618_034)),
        ("uniform in -1 .. 0", |j, _| -fraction(j, 0.618_034)),
        ("all 1", |_, _| 1.0),
        ("all -1", |_, _| -1.0),
        ("all 1/2", |_, _| 0.5),
        ("all 0", |_, _| 0.0),
        ("alternating", |j, _| if j % 2 == 0 { 1.0 } else { -1.0 }),
        ("1 and 0 by turns", |j, _| if j % 2 == 0 { 1.0 } else { 0.0 }),
        ("tiles of 8", |j, _| (j % 8) as f64 / 7.0),
        ("tiles of 64", |j, _| 2.0 * ((j % 64) as f64 / 63.0) - 1.0),
        ("sorted", |j, n| 2.0 * j as f64 / n as f64 - 1.0),
        ("sorted down", |j, n| 1.0 - 2.0 * j as f64 / n as f64),
        ("two halves", |j, n| if 2 * j < n { 1.0 } else { -1.0 }),
        ("one spike", |j, _| if j == 5 { 1.0 } else { 0.0 }),
        ("spikes", |j, _| if j % 97 == 0 { 1.0 } else { 0.0 }),
        ("a spike under ones", |j, _| if j == 7 { -1.0 } else { 1.0 }),
        ("random signs", |j, _| if fraction(j, 0.414_214) < 0.5 { 1.0 } else { -1.0 }),
        ("a sine", |j, n| (std::f64::consts::TAU * j as f64 / n as f64).sin()),
        ("near 1", |j, _| 1.0 - 0.01 * fraction(j, 0.618_034)),
    ]
}

struct Bench {
    context: Arc<Context>,
    secret: CkksSecretKey,
    evaluator: Evaluator<Ckks>,
    ready: Prepared,
    slots: usize,
    level: usize,
    /// How many encryptions a mean is taken over.
    encryptions: usize,
    /// Whether a short run has every other kind of message alone.
    some: bool,
}

impl Bench {
    /// The bootstrap that begins with the slots, over so many of them, or all of the set.
    fn new(set: &str, slots: Option<usize>, values: Values) -> Bench {
        Bench::first(set, slots, Settings { values, ..Settings::default() })
    }

    /// Of two iterations.
    fn iterated(set: &str, values: Values) -> Bench {
        Bench::first(set, None, Settings { values, iterations: 2, ..Settings::default() })
    }

    fn first(set: &str, slots: Option<usize>, settings: Settings) -> Bench {
        let all = CkksParams::named(set).unwrap().slots();
        Bench::of(set, |context| slots_first(context, slots.unwrap_or(all), &settings))
    }

    fn of(set: &str, record: impl FnOnce(&Context) -> becalm::Result<CkksProgram>) -> Bench {
        let params = CkksParams::named(set).unwrap();
        let context = Arc::new(Context::new(params, params.kind == Kind::Toy).unwrap());
        let program = Arc::new(record(&context).unwrap());
        let slots = program.info(program.inputs()[0]).unwrap().slots;
        let level = program.info(program.inputs()[0]).unwrap().level;
        let secret = context.secret_key().unwrap();
        let keys = Arc::new(context.keys(&secret, &program.needs()).unwrap());
        let cpu = Cpu::new(0).unwrap();
        let ready = Prepared::new(&cpu, &context, &program, usize::MAX, UNWATCHED).unwrap();
        let evaluator = Evaluator::new(&cpu, CkksSetup::new(&context, &keys)).unwrap();
        Bench { context, secret, evaluator, ready, slots, level, encryptions: 1, some: false }
    }

    fn run(&self, x: &Rlwe) -> Rlwe {
        self.evaluator.run(&self.ready, &[x]).unwrap().remove(0)
    }

    /// The square mean and the greatest error behind one bootstrap of each of some encryptions, and a result.
    fn measured(&self, m: &[Complex]) -> (f64, f64, Rlwe) {
        let (mut square, mut greatest, mut last) = (0.0, 0f64, None);
        for _ in 0..self.encryptions {
            let x = self.context.encrypt_within(m, 1.0, self.level, &self.secret).unwrap();
            let y = self.run(&x);
            let (mean, worst) = self.errors(&y, m);
            square += mean * mean / self.encryptions as f64;
            greatest = greatest.max(worst);
            last = Some(y);
        }
        (square.sqrt(), greatest, last.unwrap())
    }

    fn errors(&self, y: &Rlwe, m: &[Complex]) -> (f64, f64) {
        let got = self.context.decrypt(y, &self.secret).unwrap();
        let all: Vec<f64> = got.iter().zip(m).map(|(a, b)| (*a - *b).abs()).collect();
        let mean = all.iter().map(|e| e * e).sum::<f64>() / all.len() as f64;
        (mean.sqrt(), all.iter().copied().fold(0.0, f64::max))
    }

    /// For a bootstrap whose steps another meets with every kind.
    fn of_some(self) -> Bench {
        Bench { some: true, ..self }
    }

    /// No kind of message errs by more than the claim, the claim is at most 30 times the worst of them, and all keep `least` bits.
    fn hold(&self, complex: bool, least: f64) {
        let mut greatest = (0.0f64, "");
        let mut claimed = 0.0;
        let step = if self.some && !full() { 2 } else { 1 };
        for (name, value) in kinds().into_iter().step_by(step) {
            let turn = if complex { Complex::new(0.6, 0.8) } else { Complex::from(1.0) };
            let m: Vec<_> = (0..self.slots).map(|j| turn * value(j, self.slots)).collect();
            let (mean, worst, y) = self.measured(&m);
            let account = y.account();
            println!(
                "{}, {} slots, {name}: 2^{:.2}, worst 2^{:.2}; claimed 2^{:.2}, 2^{:.2}",
                self.context.params().name,
                self.slots,
                mean.log2(),
                worst.log2(),
                y.error().log2(),
                account.worst.log2()
            );
            assert!(mean <= y.error() && worst <= account.worst, "{name}: beyond the claim");
            assert!(-mean.log2() >= least, "{name}: fewer than {least} bits");
            claimed = f64::max(claimed, y.error());
            greatest = if mean > greatest.0 { (mean, name) } else { greatest };
        }
        assert!(claimed <= 30.0 * greatest.0, "{claimed} claimed, {greatest:?} at most");
    }
}

#[test]
fn every_kind_of_message_keeps_its_bits() {
    Bench::new("ckks_toy_slots_first", None, Values::Real).hold(false, 25.0);
    Bench::new("ckks_toy_slots_first", None, Values::Complex).of_some().hold(true, 25.0);
}

/// Constants keep 13 bits behind the regular bootstrap, and 25 behind the precise one.
#[test]
fn claims_of_the_other_bootstraps_hold() {
    let real = Settings { values: Values::Real, ..Settings::default() };
    // One in ten ciphertexts of so small a ring has a coefficient with |I| = 7, and its error goes into all slots: a fifth of their mean square.
    // The claim is of the mean over I, which N = 2^16 coefficients are close to.
    let precise = Bench::of("ckks_toy_precise", |context| regular(context, &real));
    Bench { encryptions: 4, ..precise }.of_some().hold(false, 25.0);
    Bench::of("ckks_toy_12", |context| regular(context, &Settings::default())).hold(true, 13.0);
    Bench::of("ckks_toy_12", |context| sparse(context, 64, &real)).of_some().hold(false, 13.0);
}

#[test]
#[ignore = "N = 65536 takes 11 GB and minutes: make test-full"]
fn full_size_claims_of_the_other_bootstraps_hold() {
    let real = Settings { values: Values::Real, ..Settings::default() };
    for (set, least) in [
        ("ckks_precise", 25.0),
        ("ckks_regular", 13.0),
        ("ckks_4_levels", 13.0),
        ("ckks_14_levels", 13.0),
    ] {
        Bench::of(set, |context| regular(context, &real)).hold(false, least);
    }
}

#[test]
#[ignore = "N = 65536 takes 6 GB and minutes: make test-full"]
fn full_size_claims_of_few_slots_and_of_a_smaller_ring_hold() {
    let real = Settings { values: Values::Real, ..Settings::default() };
    Bench::of("ckks_regular", |context| sparse(context, 1024, &real)).hold(false, 13.0);
    Bench::of("ckks_n15", |context| regular(context, &real)).hold(false, 12.5);
}

/// Two iterations keep 45 bits of every kind.
#[test]
fn two_iterations_keep_the_bits_of_every_kind() {
    Bench::iterated("ckks_toy_iterated", Values::Real).hold(false, 45.0);
    Bench::iterated("ckks_toy_iterated", Values::Complex).of_some().hold(true, 45.0);
}

/// Errors of two iterations of larger values, where the first error leaves the limits of the second, and where it turns the
/// sine.
#[test]
fn larger_bounds_claim_larger_errors_of_two_iterations() {
    larger_bounds(&Bench::iterated("ckks_toy_iterated", Values::Real));
}

/// Values above 1, and above the limit: the claim grows with their bound, and covers them.
#[test]
fn larger_bounds_claim_larger_errors() {
    larger_bounds(&Bench::new("ckks_toy_slots_first", Some(64), Values::Real));
}

fn larger_bounds(bench: &Bench) {
    for bound in [1.25, 2.0, 4.0, 16.0, 100.0] {
        let m: Vec<Complex> = (0..bench.slots)
            .map(|j| Complex::from(bound * ((j % 64) as f64 / 31.5 - 1.0)))
            .collect();
        let x = bench.context.encrypt_within(&m, bound, bench.level, &bench.secret).unwrap();
        let y = bench.run(&x);
        let ((mean, worst), account) = (bench.errors(&y, &m), y.account());
        println!(
            "{bound}: 2^{:.2}, worst 2^{:.2}; claimed 2^{:.2}",
            mean.log2(),
            worst.log2(),
            account.error.log2()
        );
        assert!(
            mean <= account.error && worst <= account.worst && account.values >= bound,
            "{bound}"
        );
    }
    // Where the sine turns nothing is claimed.
    let m = vec![Complex::from(6000.0); bench.slots];
    let x = bench.context.encrypt_within(&m, 6000.0, bench.level, &bench.secret);
    assert!(x.map(|x| bench.run(&x)).unwrap().account().is_doubtful());
}

#[test]
fn few_slots_keep_the_same_bits() {
    Bench::new("ckks_toy_slots_first", Some(64), Values::Real).of_some().hold(false, 25.0);
    Bench::new("ckks_toy_slots_first", Some(16), Values::Complex).of_some().hold(true, 25.0);
}

#[test]
#[ignore = "N = 65536 takes 6 GB and minutes: make test-full"]
fn full_size_keeps_the_bits_of_every_kind() {
    Bench::new("ckks_slots_first", None, Values::Real).hold(false, 24.5);
    Bench::new("ckks_slots_first", Some(1024), Values::Real).hold(false, 24.5);
}

#[test]
#[ignore = "N = 65536 takes 7 GB and minutes: make test-full"]
fn full_size_two_iterations_keep_the_bits_of_every_kind() {
    Bench::iterated("ckks_iterated", Values::Real).hold(false, 45.0);
}

/// Two results of one run, each as precise as alone.
#[test]
fn two_iterations_keep_a_pair() {
    let bench = Bench::iterated("ckks_toy_iterated", Values::Merged);
    let (m, k): (Vec<_>, Vec<_>) = (0..bench.slots)
        .map(|j| (fraction(j, 0.618_034), 1.0 - 2.0 * fraction(j, 0.414_214)))
        .map(|(a, b)| (Complex::from(a), Complex::from(b)))
        .unzip();
    let encrypted =
        |m: &[Complex]| bench.context.encrypt_within(m, 1.0, bench.level, &bench.secret).unwrap();
    let y = bench.evaluator.run(&bench.ready, &[&encrypted(&m), &encrypted(&k)]).unwrap();
    for (y, m) in y.iter().zip([&m, &k]) {
        let (mean, worst) = bench.errors(y, m);
        println!(
            "2^{:.2}, worst 2^{:.2}; claimed 2^{:.2}",
            mean.log2(),
            worst.log2(),
            y.error().log2()
        );
        assert!(mean <= y.error() && worst <= y.account().worst && mean < 2f64.powi(-45));
    }
}

/// The arcsine of a set asks for scales that are not there when the slots come first.
#[test]
fn slots_first_of_a_set_with_the_arcsine_is_refused() {
    let chain = Chain::new(CkksParams::named("ckks_toy_precise").unwrap()).unwrap();
    let refused = slots_first(&chain, chain.params().slots(), &Settings::default()).unwrap_err();
    assert!(refused.kind() == "wrong_params" && refused.detail().remedy.contains("precise"));
}

/// Kinds, sets and numbers that have no two iterations say what to take instead.
#[test]
fn iterations_that_cannot_be_are_refused() {
    let chain = |name| Chain::new(CkksParams::named(name).unwrap()).unwrap();
    let twice = Settings { iterations: 2, ..Settings::default() };
    let refused = |made: becalm::Result<CkksProgram>, kind: &str, word: &str| {
        let e = made.err().unwrap();
        assert!(e.kind() == kind && e.to_string().contains(word), "{e}");
    };
    for (set, remedy) in
        [("ckks_slots_first", "`ckks_iterated`"), ("ckks_toy_12", "`ckks_toy_iterated`")]
    {
        refused(
            slots_first(&chain(set), chain(set).params().slots(), &twice),
            "wrong_params",
            remedy,
        );
    }
    let toy = chain("ckks_toy_iterated");
    for iterations in [0, 3] {
        let settings = Settings { iterations, ..twice };
        refused(slots_first(&toy, 2048, &settings), "bad_input", "1 or 2 iterations");
    }
    refused(slots_first(&toy, 64, &twice), "bad_input", "all slots");
    refused(regular(&toy, &twice), "bad_input", "slots_first");
    refused(sparse(&toy, 64, &twice), "bad_input", "slots_first");
    refused(sign(&toy, &twice), "bad_input", "slots_first");
    let stages = |n| Settings { stage_count: Some(n), ..twice };
    let left = |n| {
        let p = slots_first(&toy, 2048, &stages(n)).unwrap();
        (p.info(p.inputs()[0]).unwrap().level, p.info(p.outputs()[0]).unwrap().level)
    };
    assert_eq!((left(3), left(4), left(5)), ((3, 8), (4, 7), (5, 6)));
}

/// A bootstrap within another program has the claim of two iterations, and so has the program from its file.
#[test]
fn two_iterations_within_a_program_keep_their_claim() {
    let chain = Chain::new(CkksParams::named("ckks_toy_iterated").unwrap()).unwrap();
    let twice = Settings { iterations: 2, values: Values::Real, ..Settings::default() };
    let bootstrap = slots_first(&chain, 2048, &twice).unwrap();
    let mut program = CkksProgram::new(&chain);
    let x = program.input(4, 64).unwrap();
    let square = program.multiply(x, x).unwrap();
    let y = program.append(&bootstrap, &[square]).unwrap();
    program.output(y[0]).unwrap();
    assert_eq!(program.bootstraps(), 2);
    let trust = Trust { allow_insecure: true, ..Trust::default() };
    let program = CkksProgram::from_bytes(&program.to_bytes().unwrap(), trust).unwrap();
    let context = Arc::new(Context::new(chain.params(), true).unwrap());
    let secret = context.secret_key().unwrap();
    let keys = Arc::new(context.keys(&secret, &program.needs()).unwrap());
    let evaluator = Evaluator::new(&Cpu::new(0).unwrap(), CkksSetup::new(&context, &keys)).unwrap();
    let m: Vec<_> = (0..64).map(|j| Complex::from(fraction(j, 0.618_034))).collect();
    let x = context.encrypt_within(&m, 1.0, 4, &secret).unwrap();
    let y = evaluator.run(&Arc::new(program), &[&x]).unwrap().remove(0);
    let got = context.decrypt(&y, &secret).unwrap();
    let worst = got.iter().zip(&m).map(|(a, m)| (*a - *m * *m).abs()).fold(0.0, f64::max);
    assert!(worst <= y.account().worst && y.account().worst < 2f64.powi(-43), "{worst}");
}

fn in_a_row(bench: &Bench, rounds: usize, least: f64) {
    let m: Vec<Complex> = (0..bench.slots).map(|j| Complex::from(fraction(j, 0.618_034))).collect();
    let context = &bench.context;
    let mut x = context.encrypt_within(&m, 1.0, bench.level, &bench.secret).unwrap();
    for round in 1..=rounds {
        x = bench.run(&x);
        let (mean, worst) = bench.errors(&x, &m);
        println!(
            "{round}: 2^{:.2}, worst 2^{:.2}; claimed 2^{:.2}",
            mean.log2(),
            worst.log2(),
            x.error().log2()
        );
        assert!(mean <= x.error() && worst <= x.account().worst, "round {round}");
        x = x.within(1.0).unwrap();
    }
    assert!(-bench.errors(&x, &m).0.log2() >= least);
}

/// Twenty bootstraps of 0 … 1, one after another; eight of two iterations in a short run.
#[test]
fn errors_in_a_row_stay_small() {
    in_a_row(&Bench::new("ckks_toy_slots_first", None, Values::Real), 20, 19.0);
    let rounds = if full() { 20 } else { 8 };
    in_a_row(&Bench::iterated("ckks_toy_iterated", Values::Real), rounds, 45.0);
}

#[test]
#[ignore = "N = 65536 takes 6 GB and minutes: make test-full"]
fn full_size_errors_in_a_row_stay_small() {
    in_a_row(&Bench::new("ckks_slots_first", None, Values::Real), 20, 19.0);
}

/// A search that climbs: it changes the message where the error was largest, and keeps what is worse. No message that it meets is
/// beyond the claim.
fn search(bench: &Bench, steps: usize) {
    let mut m: Vec<Complex> =
        (0..bench.slots).map(|j| Complex::from(2.0 * fraction(j, 0.618_034) - 1.0)).collect();
    let (mut most, mut ratio) = (0.0, 0.0f64);
    for step in 0..steps {
        let mut tried = m.clone();
        let (from, size) = (step * 7919 % bench.slots, 1 + (bench.slots >> (step % 6)));
        let to = match step % 5 {
            0 => 1.0,
            1 => -1.0,
            2 => 0.0,
            3 => 2.0 * fraction(step, 0.755) - 1.0,
            _ => -m[from].re,
        };
        (0..size).for_each(|j| tried[(from + j) % bench.slots] = Complex::from(to));
        let (mean, worst, y) = bench.measured(&tried);
        ratio = ratio.max(mean / y.error()).max(worst / y.account().worst);
        if mean > most {
            (most, m) = (mean, tried);
        }
    }
    println!("{steps} messages: at most {ratio:.3} of the claim, 2^{:.2}", most.log2());
    assert!(ratio <= 1.0, "{ratio} times the claim");
}

#[test]
fn a_search_finds_no_message_beyond_the_claim() {
    let (few, iterated) = if full() { (100, 30) } else { (50, 10) };
    search(&Bench::new("ckks_toy_slots_first", Some(64), Values::Real), few);
    search(&Bench::iterated("ckks_toy_iterated", Values::Real), iterated);
}

#[test]
#[ignore = "500 bootstraps: make test-full"]
fn full_size_search_finds_no_message_beyond_the_claim() {
    search(&Bench::new("ckks_toy_slots_first", None, Values::Real), 500);
}
