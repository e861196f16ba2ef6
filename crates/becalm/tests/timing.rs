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

mod dudect;
mod statistics;

use becalm::cipher::file::Trust;
use becalm::cipher::{CkksSecretKey, Lwe, SecretKey};
use becalm::ckks::Context;
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, TfheParams};
use dudect::*;
use std::hint::black_box;

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
