//! Whether the time of key generation, encryption and decryption tells of keys and messages, in both schemes: Welch's t of cycle
//! counts between a fixed secret and random ones.
//!
//! One run draws one of four classes before each measurement: the fixed secret, the fixed secret under another name, random ones, and
//! the fixed secret again, with a planted leak in what is timed. The first two are the control: they differ in nothing, so that
//! |t| ≥ 4.5 between them says that the machine, or this test, is at fault, and the run is repeated. The planted leak is a comparison
//! that ends early; a run that does not find it has too little power and is repeated too. The inputs of all classes go through one buffer,
//! which is filled without a branch on the class. t is taken of all measurements and of those below each of 100 percentiles.
//! Source: Reparaz, Balasch, Verbauwhede, "Dude, is my code constant time?" (DATE 2017).
//!
//! With BECALM_FULL=1 alone: `BECALM_FULL=1 cargo test --release -p becalm --test timing -- --nocapture --test-threads=1`. Beside t
//! it prints the difference that a run finds with 99 %. Without it the statistics alone are tested.

mod statistics;

use becalm::cipher::file::Trust;
use becalm::cipher::{CkksSecretKey, Lwe, SecretKey};
use becalm::ckks::Context;
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, TfheParams};
use statistics::sets::full;
use statistics::until_accepted;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

/// What |t| stays below where nothing leaks.
const BOUND: f64 = 4.5;
/// |t| of so much is exceeded, where the true t is 4.5 + this, with 99 %.
const SURE: f64 = 2.33;
/// Runs in which the machine was too noisy for the control or the planted leak, before the test gives up.
const NOISY: usize = 6;
/// Words that the planted comparison looks at.
const PLANTED: usize = 4096;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Class {
    Fixed,
    Control,
    Random,
    Planted,
}

/// Cycles of the processor's clock; nanoseconds where it has none.
fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__rdtscp, _mm_lfence};
        let mut core = 0;
        // SAFETY: every x86-64 processor has them that this library has kernels for; they touch no memory but `core`.
        unsafe {
            _mm_lfence();
            let time = __rdtscp(&mut core);
            _mm_lfence();
            time
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        BEGAN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// A generator of words (splitmix64): what it draws is no secret.
struct Draw(u64);

impl Draw {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// `out ← a` or `b`, by a mask and not by a branch.
fn select(out: &mut [u64], a: &[u64], b: &[u64], second: bool) {
    let mask = black_box(u64::from(second)).wrapping_neg();
    for ((x, a), b) in out.iter_mut().zip(a).zip(b) {
        *x = a ^ ((a ^ b) & mask);
    }
}

/// How far two samples are apart: Welch's t, the difference of their means, and its standard error.
#[derive(Clone, Copy, Debug)]
struct Welch {
    t: f64,
    difference: f64,
    error: f64,
}

fn welch(a: &[f64], b: &[f64]) -> Welch {
    let moments = |x: &[f64]| {
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        (mean, x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0) / n)
    };
    let ((ma, va), (mb, vb)) = (moments(a), moments(b));
    let (difference, error) = (ma - mb, (va + vb).sqrt());
    // Two constants that are equal do not differ.
    let t = if difference == 0.0 { 0.0 } else { difference / error };
    Welch { t, difference, error }
}

/// The largest |t| over all measurements and those below each percentile of both classes together, 1 − 2^(−i/10) of them. Crops that
/// leave too few say nothing.
fn largest(a: &[f64], b: &[f64]) -> Welch {
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    all.sort_by(f64::total_cmp);
    let crop = |limit: f64| {
        let below = |x: &[f64]| x.iter().copied().filter(|v| *v <= limit).collect::<Vec<f64>>();
        (below(a), below(b))
    };
    let limits = (1..=100).map(|i| {
        let share = 1.0 - 0.5f64.powf(f64::from(i) / 10.0);
        all[((all.len() as f64 * share) as usize).min(all.len() - 1)]
    });
    let crops = limits.chain([f64::INFINITY]).map(crop);
    let enough = crops.filter(|(a, b)| a.len().min(b.len()) >= 200);
    let found = enough.map(|(a, b)| welch(&a, &b));
    found.max_by(|x, y| x.t.abs().total_cmp(&y.t.abs())).expect("more than 200 measurements")
}

/// The least difference that is found with 99 %: that of the crop in which the error of a difference is least.
fn power(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    all.sort_by(f64::total_cmp);
    let errors = [0.5, 0.7, 0.9, 0.99].map(|share| {
        let limit = all[((all.len() as f64 * share) as usize).min(all.len() - 1)];
        let below = |x: &[f64]| x.iter().copied().filter(|v| *v <= limit).collect::<Vec<f64>>();
        welch(&below(a), &below(b)).error
    });
    (BOUND + SURE) * errors.into_iter().fold(f64::INFINITY, f64::min)
}

/// Measurements of the four classes.
struct Run {
    cycles: [Vec<f64>; 4],
}

impl Run {
    fn of(&self, class: Class) -> &[f64] {
        &self.cycles[class as usize]
    }

    fn median(&self) -> f64 {
        let mut all = self.of(Class::Fixed).to_vec();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }

    fn between(&self, a: Class, b: Class) -> Welch {
        largest(self.of(a), self.of(b))
    }
}

/// A comparison that ends at the first difference: what the test must find.
#[inline(never)]
fn early_exit(a: &[u64], b: &[u64]) -> bool {
    for (x, y) in a.iter().zip(b) {
        if black_box(x) != black_box(y) {
            return false;
        }
    }
    true
}

/// Measures: `prepare(random)` puts an input in its place, of the fixed secret or a random one, the same work for both; `timed` works
/// on it. Pairs of words are compared before the planted class's work.
fn run(samples: usize, mut prepare: impl FnMut(bool), mut timed: impl FnMut()) -> Run {
    let mut cycles = [const { Vec::new() }; 4];
    let mut draw = Draw(now());
    let (ones, zeros) = (vec![1u64; PLANTED], vec![0u64; PLANTED]);
    let (mut left, right) = (vec![0u64; PLANTED], vec![1u64; PLANTED]);
    for i in 0..samples + samples / 20 {
        let class =
            [Class::Fixed, Class::Control, Class::Random, Class::Planted][draw.word() as usize % 4];
        prepare(class == Class::Random);
        // Equal for the planted class alone: only there the comparison goes on to the end.
        select(&mut left, &zeros, &ones, class == Class::Planted);
        let began = now();
        black_box(early_exit(&left, &right));
        timed();
        let took = now() - began;
        // The first are not counted: caches and predictors are cold.
        if i >= samples / 20 {
            cycles[class as usize].push(took as f64);
        }
    }
    Run { cycles }
}

/// One at a time: what else runs is noise.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run whose control is quiet and whose planted leak is found.
fn sound(name: &str, mut measure: impl FnMut() -> Run) -> Run {
    for _ in 0..NOISY {
        let run = measure();
        let (control, planted) = (
            run.between(Class::Fixed, Class::Control).t.abs(),
            run.between(Class::Fixed, Class::Planted).t.abs(),
        );
        if control < BOUND && planted >= BOUND {
            return run;
        }
        println!("{name}: control |t| {control:.1}, planted leak |t| {planted:.1}: measured again");
    }
    panic!("{name}: this machine is too noisy, or the test is at fault: {NOISY} runs in vain");
}

/// Refuses an operation whose time tells of its secret.
fn check(name: &str, mut measure: impl FnMut() -> Run) {
    let _alone = alone();
    let accept = |run: &Run| {
        let real = run.between(Class::Fixed, Class::Random);
        let line = format!(
            "{name}: {:.0} cycles, |t| {:.2} ({:+.0} cycles); control {:.2}, planted {:.1}; found with 99 %: {:.0} cycles",
            run.median(),
            real.t.abs(),
            real.difference,
            run.between(Class::Fixed, Class::Control).t.abs(),
            run.between(Class::Fixed, Class::Planted).t.abs(),
            power(run.of(Class::Fixed), run.of(Class::Random)),
        );
        println!("{line}");
        if real.t.abs() < BOUND { Ok(()) } else { Err(line) }
    };
    until_accepted(|| sound(name, &mut measure), accept);
}

/// Whether to measure; says so where not.
fn measured() -> bool {
    if !full() {
        eprintln!("skipped: times are measured with BECALM_FULL=1");
    }
    full()
}

/// On one thread of a pool of one: no other thread of the library is woken, and none is waited for.
fn on_one_thread(work: impl FnOnce() + Send) {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work);
}

/// Words of a file, of which those of the last few bytes are padded.
fn file_words(bytes: &[u8]) -> Vec<u64> {
    let word = |b: &[u8]| b.iter().rev().fold(0, |w, x| w << 8 | u64::from(*x));
    bytes.chunks(8).map(word).collect()
}

fn file_bytes(words: &[u64], len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// Objects of two classes in one place, through the bytes of their files: a fresh object each time, the same work for both.
struct Files {
    fixed: Vec<Vec<u64>>,
    random: Vec<Vec<u64>>,
    chosen: Vec<u64>,
    len: usize,
    draw: Draw,
}

impl Files {
    fn new(fixed: Vec<Vec<u8>>, random: Vec<Vec<u8>>) -> Files {
        let len = fixed[0].len();
        assert!(fixed.iter().chain(&random).all(|file| file.len() == len), "files of one length");
        let words = |files: Vec<Vec<u8>>| files.iter().map(|f| file_words(f)).collect::<Vec<_>>();
        let (fixed, random) = (words(fixed), words(random));
        Files { chosen: vec![0; fixed[0].len()], fixed, random, len, draw: Draw(7) }
    }

    fn pick(&mut self, random: bool) -> Vec<u8> {
        let at = self.draw.word() as usize;
        let (a, b) = (&self.fixed[at % self.fixed.len()], &self.random[at % self.random.len()]);
        select(&mut self.chosen, a, b, random);
        file_bytes(&self.chosen, self.len)
    }
}

/// Values drawn in every preparation, of whichever class.
fn words_of(draw: &mut Draw, out: &mut [u64], below: u64) {
    out.iter_mut().for_each(|x| *x = draw.word() % below);
}

// TFHE.

fn small_set() -> TfheParams {
    TfheParams {
        name: "timed".into(),
        lwe_dimension: 16,
        ..TfheParams::named("toy_2_2").unwrap().clone()
    }
}

fn small_exact_set() -> TfheParams {
    TfheParams {
        name: "timed".into(),
        lwe_dimension: 16,
        ..TfheParams::named("toy_2_2_p").unwrap().clone()
    }
}

/// Bits of a key from outside, fixed to zeros or random.
fn tfhe_from_bits(p: &TfheParams, samples: usize) -> Run {
    let (n, big) = (p.lwe_dimension, p.big_dimension());
    let mut draw = Draw(1);
    let (zeros, mut random, bits) =
        (vec![0; n + big], vec![0; n + big], std::cell::RefCell::new(vec![0; n + big]));
    run(
        samples,
        |other| {
            words_of(&mut draw, &mut random, 2);
            select(&mut bits.borrow_mut(), &zeros, &random, other);
        },
        || {
            let bits = bits.borrow();
            drop(black_box(SecretKey::from_bits(p, true, &bits[..n], &bits[n..]).unwrap()));
        },
    )
}

fn random_key(p: &TfheParams, draw: &mut Draw) -> SecretKey {
    let (n, big) = (p.lwe_dimension, p.big_dimension());
    let mut bits = vec![0; n + big];
    words_of(draw, &mut bits, 2);
    SecretKey::from_bits(p, true, &bits[..n], &bits[n..]).unwrap()
}

fn tfhe_keys(p: &TfheParams) -> Files {
    let (n, big) = (p.lwe_dimension, p.big_dimension());
    let zeros = SecretKey::from_bits(p, true, &vec![0; n], &vec![0; big]).unwrap();
    let mut draw = Draw(2);
    let random = (0..64).map(|_| random_key(p, &mut draw).to_bytes().unwrap().to_vec()).collect();
    Files::new(vec![zeros.to_bytes().unwrap().to_vec(); 64], random)
}

/// The evaluation key, or an encryption, by a fixed key or random ones.
fn tfhe_by_key(p: &TfheParams, samples: usize, work: impl Fn(&SecretKey)) -> Run {
    let mut files = tfhe_keys(p);
    let key = std::cell::RefCell::new(None);
    run(
        samples,
        |other| {
            let bytes = files.pick(other);
            key.replace(None);
            key.replace(Some(SecretKey::from_bytes(&bytes, Trust::insecure()).unwrap()));
        },
        || work(key.borrow().as_ref().unwrap()),
    )
}

/// Encryption of zeros, or of random messages.
fn tfhe_encrypt(p: &TfheParams, samples: usize) -> Run {
    const COUNT: usize = 32;
    let key = SecretKey::generate(p, true).unwrap();
    let (zeros, mut random, values) =
        (vec![0; COUNT], vec![0; COUNT], std::cell::RefCell::new(vec![0; COUNT]));
    let mut draw = Draw(3);
    run(
        samples,
        |other| {
            words_of(&mut draw, &mut random, 16);
            select(&mut values.borrow_mut(), &zeros, &random, other);
        },
        || drop(black_box(key.encrypt(&values.borrow()).unwrap())),
    )
}

/// Decryption of zeros, or of random messages.
fn tfhe_decrypt(p: &TfheParams, samples: usize, phases: bool) -> Run {
    const COUNT: usize = 32;
    let key = SecretKey::generate(p, true).unwrap();
    let mut draw = Draw(4);
    let mut file = |random: bool| {
        let mut values = vec![0; COUNT];
        if random {
            words_of(&mut draw, &mut values, 16);
        }
        key.encrypt(&values).unwrap().to_bytes().unwrap()
    };
    let mut files =
        Files::new((0..64).map(|_| file(false)).collect(), (0..64).map(|_| file(true)).collect());
    let ct = std::cell::RefCell::new(None);
    run(
        samples,
        |other| {
            let bytes = files.pick(other);
            ct.replace(None);
            ct.replace(Some(Lwe::from_bytes(&bytes, Trust::insecure()).unwrap()));
        },
        || {
            let ct = ct.borrow();
            let ct = ct.as_ref().unwrap();
            match phases {
                true => drop(black_box(key.phases(ct).unwrap())),
                false => drop(black_box(key.decrypt(ct).unwrap())),
            }
        },
    )
}

#[test]
fn keys_of_tfhe() {
    if measured() {
        on_one_thread(|| {
            for p in [small_set(), small_exact_set()] {
                let name = |what: &str| format!("TFHE, {what}, modulo {:?}", p.modulus);
                check(&name("a key from bits"), || tfhe_from_bits(&p, 40_000));
                check(&name("its evaluation key"), || {
                    tfhe_by_key(&p, 8_000, |key| drop(black_box(key.evaluation_key().unwrap())))
                });
            }
        });
    }
}

#[test]
fn encryption_of_tfhe() {
    if measured() {
        on_one_thread(|| {
            for p in [small_set(), small_exact_set()] {
                let name =
                    |what: &str| format!("TFHE, encryption by {what}, modulo {:?}", p.modulus);
                check(&name("message"), || tfhe_encrypt(&p, 100_000));
                let values = vec![1; 32];
                check(&name("key"), || {
                    tfhe_by_key(&p, 40_000, |key| drop(black_box(key.encrypt(&values).unwrap())))
                });
            }
        });
    }
}

#[test]
fn decryption_of_tfhe() {
    if measured() {
        on_one_thread(|| {
            for p in [small_set(), small_exact_set()] {
                let name = |what: &str| format!("TFHE, {what} by message, modulo {:?}", p.modulus);
                check(&name("decryption"), || tfhe_decrypt(&p, 60_000, false));
                check(&name("phases"), || tfhe_decrypt(&p, 60_000, true));
            }
        });
    }
}

// CKKS.

fn context() -> Context {
    Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap()
}

/// What a fixed message of CKKS is.
#[derive(Clone, Copy, Debug)]
enum Message {
    Zeros,
    Halves,
    /// One vector of random numbers, always the same.
    Same,
    /// Numbers so small that processors have another way for them.
    Subnormal,
}

impl Message {
    fn values(self, count: usize) -> Vec<u64> {
        let mut draw = Draw(9);
        let value = |_| match self {
            Message::Zeros => 0.0,
            Message::Halves => 0.5,
            Message::Same => unit(&mut draw),
            Message::Subnormal => f64::MIN_POSITIVE * 0.37,
        };
        (0..2 * count).map(value).map(f64::to_bits).collect()
    }
}

/// In −1 .. 1.
fn unit(draw: &mut Draw) -> f64 {
    (draw.word() >> 11) as f64 * 2f64.powi(-52) - 1.0
}

fn complex(bits: &[u64], out: &mut [Complex]) {
    for (v, b) in out.iter_mut().zip(bits.chunks_exact(2)) {
        *v = Complex::new(f64::from_bits(b[0]), f64::from_bits(b[1]));
    }
}

/// Work on a vector, a fixed one or random ones.
fn ckks_by_message(count: usize, fixed: Message, samples: usize, work: impl Fn(&[Complex])) -> Run {
    let (fixed, mut random, mut bits) =
        (fixed.values(count), vec![0; 2 * count], vec![0; 2 * count]);
    let values = std::cell::RefCell::new(vec![Complex::default(); count]);
    let mut draw = Draw(5);
    run(
        samples,
        |other| {
            random.iter_mut().for_each(|x| *x = unit(&mut draw).to_bits());
            select(&mut bits, &fixed, &random, other);
            complex(&bits, &mut values.borrow_mut());
        },
        || work(&values.borrow()),
    )
}

const MESSAGES: [Message; 4] = [Message::Zeros, Message::Halves, Message::Same, Message::Subnormal];

#[test]
fn encryption_of_ckks() {
    if measured() {
        on_one_thread(|| {
            let context = context();
            let secret = context.secret_key().unwrap();
            let public = context.public_key(&secret).unwrap();
            for fixed in MESSAGES {
                for count in [2048, 8] {
                    let name = format!("CKKS, encryption by message ({fixed:?}, {count})");
                    check(&name, || {
                        ckks_by_message(count, fixed, 60_000, |values| {
                            drop(black_box(context.encrypt(values, 0, &secret).unwrap()));
                        })
                    });
                }
            }
            check("CKKS, encryption by message with a public key", || {
                ckks_by_message(2048, Message::Zeros, 30_000, |values| {
                    drop(black_box(context.encrypt_public(values, 0, &public).unwrap()));
                })
            });
        });
    }
}

#[test]
fn decryption_of_ckks() {
    if measured() {
        on_one_thread(|| {
            let context = context();
            let secret = context.secret_key().unwrap();
            for fixed in [Message::Zeros, Message::Halves, Message::Same] {
                check(&format!("CKKS, decryption by message ({fixed:?})"), || {
                    let mut draw = Draw(6);
                    let mut file = |random: bool| {
                        let mut bits = fixed.values(2048);
                        if random {
                            bits.iter_mut().for_each(|x| *x = unit(&mut draw).to_bits());
                        }
                        let mut values = vec![Complex::default(); 2048];
                        complex(&bits, &mut values);
                        context
                            .ciphertext_to_bytes(&context.encrypt(&values, 0, &secret).unwrap())
                            .unwrap()
                    };
                    let mut files = Files::new(
                        (0..32).map(|_| file(false)).collect(),
                        (0..32).map(|_| file(true)).collect(),
                    );
                    let ct = std::cell::RefCell::new(None);
                    run(
                        20_000,
                        |other| {
                            let bytes = files.pick(other);
                            ct.replace(None);
                            ct.replace(Some(
                                context.ciphertext_from_bytes(&bytes, Trust::insecure()).unwrap(),
                            ));
                        },
                        || {
                            drop(black_box(
                                context.decrypt(ct.borrow().as_ref().unwrap(), &secret).unwrap(),
                            ))
                        },
                    )
                });
            }
        });
    }
}

#[test]
fn keys_of_ckks() {
    if measured() {
        on_one_thread(|| {
            let context = context();
            let one = context.secret_key().unwrap();
            let measure = |work: &dyn Fn(&CkksSecretKey), samples| {
                let file = |key: &CkksSecretKey| context.secret_key_to_bytes(key).unwrap().to_vec();
                let random = (0..64).map(|_| file(&context.secret_key().unwrap())).collect();
                let mut files = Files::new(vec![file(&one); 64], random);
                let key = std::cell::RefCell::new(None);
                run(
                    samples,
                    |other| {
                        let bytes = files.pick(other);
                        key.replace(None);
                        key.replace(Some(
                            context.secret_key_from_bytes(&bytes, Trust::insecure()).unwrap(),
                        ));
                    },
                    || work(key.borrow().as_ref().unwrap()),
                )
            };
            check("CKKS, a public key", || {
                measure(&|key| drop(black_box(context.public_key(key).unwrap())), 10_000)
            });
            check("CKKS, encryption by key", || {
                measure(
                    &|key| drop(black_box(context.encrypt(&[Complex::default()], 0, key).unwrap())),
                    20_000,
                )
            });
        });
    }
}

// The statistics, always.

/// Times as a quiet machine has them, and one in fifty far off.
fn synthetic(draw: &mut Draw, count: usize, shift: f64) -> Vec<f64> {
    (0..count)
        .map(|_| {
            let sum: f64 = (0..12).map(|_| (draw.word() >> 11) as f64 * 2f64.powi(-53)).sum();
            let far =
                if draw.word().is_multiple_of(50) { (draw.word() % 100_000) as f64 } else { 0.0 };
            176_000.0 + 1_000.0 * (sum - 6.0) + far + shift
        })
        .collect()
}

/// Equal laws stay below the bound; a difference of one and a half times what the power says is found.
#[test]
fn the_statistics_find_what_is_there_and_nothing_else() {
    let mut draw = Draw(11);
    for _ in 0..20 {
        let (a, b) = (synthetic(&mut draw, 20_000, 0.0), synthetic(&mut draw, 20_000, 0.0));
        assert!(largest(&a, &b).t.abs() < BOUND);
        let least = power(&a, &b);
        assert!((50.0..100.0).contains(&least), "{least}");
        let c = synthetic(&mut draw, 20_000, 1.5 * least);
        assert!(largest(&a, &c).t.abs() > BOUND, "{least}");
    }
    // A difference that shows only in the tail is found in what is not cropped.
    let tail: Vec<f64> = synthetic(&mut draw, 20_000, 0.0)
        .iter()
        .enumerate()
        .map(|(i, x)| if i % 20 == 0 { x + 50_000.0 } else { *x })
        .collect();
    assert!(largest(&synthetic(&mut draw, 20_000, 0.0), &tail).t.abs() > BOUND);
}

/// The harness itself finds a comparison that ends early, whatever else runs, and nothing between a secret and itself.
#[test]
fn a_planted_leak_is_found() {
    let _alone = alone();
    let mut x = 0u64;
    let measure =
        || run(8_000, |_| (), || (0..200).for_each(|i| x = black_box(x.wrapping_mul(3) + i)));
    sound("a planted leak", measure);
}
