//! Tests whether the time of key generation, encryption, decryption and the reading of secret keys depends on keys and messages, in both
//! schemes. The measure is Welch's t of cycle counts between a fixed secret and random ones.
//!
//! A run draws one of four classes before each measurement: the fixed secret, the fixed secret as a control, random ones, and the
//! fixed secret with a planted leak. The first two do not differ. So |t| ≥ 4.5 between them means that the machine or this test is at
//! fault, and the run is repeated. The planted leak is a comparison that ends early. A run that does not find it has too little power and
//! is repeated too. The inputs of all classes go through one buffer, which is filled without a branch on the class. t is computed for all
//! measurements and for those below each of 100 percentiles.
//! Source: Reparaz, Balasch, Verbauwhede, "Dude, is my code constant time?" (DATE 2017).
//!
//! `make test-full` measures times, and so does `cargo test --release -p becalm --test timing -- --ignored --nocapture
//! --test-threads=1`. Beside t it prints the difference that a run finds with 99 %. Otherwise only the statistics are tested.

mod dudect;
mod full;
mod statistics;

use becalm::cipher::file::Trust;
use becalm::cipher::{CkksSecretKey, Lwe, Rlwe, SecretKey};
use becalm::ckks::{Context, Needs};
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, TfheParams};
use dudect::*;
use std::cell::RefCell;
use std::hint::black_box;

/// The bytes of a file as words, the last one padded.
fn file_words(bytes: &[u8]) -> Vec<u64> {
    let word = |b: &[u8]| b.iter().rev().fold(0, |w, x| w << 8 | u64::from(*x));
    bytes.chunks(8).map(word).collect()
}

fn file_bytes(words: &[u64], len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// Files of objects of two classes. Each preparation reads a fresh object from the bytes of one, with the same work for both.
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

/// Measures work on objects in one place: `read` makes them of the bytes of files.
fn by_file<T>(
    samples: usize,
    mut files: Files,
    read: impl Fn(&[u8]) -> becalm::Result<T>,
    work: impl Fn(&T),
) -> Run {
    let object = RefCell::new(None);
    run(
        samples,
        |other| {
            let bytes = files.pick(other);
            // The old one goes first, so that the new one takes its place.
            object.replace(None);
            object.replace(Some(read(&bytes).unwrap()));
        },
        || work(object.borrow().as_ref().unwrap()),
    )
}

/// Measures work on words in one place, which `put` takes there. `draw` draws random words in every preparation, of
/// whichever class.
fn by_words<T>(
    samples: usize,
    fixed: &[u64],
    mut draw: impl FnMut() -> u64,
    input: T,
    put: impl Fn(&[u64], &mut T),
    work: impl Fn(&T),
) -> Run {
    let (mut random, mut chosen) = (vec![0; fixed.len()], vec![0; fixed.len()]);
    let input = RefCell::new(input);
    run(
        samples,
        |other| {
            random.fill_with(&mut draw);
            select(&mut chosen, fixed, &random, other);
            put(&chosen, &mut input.borrow_mut());
        },
        || work(&input.borrow()),
    )
}

// TFHE.

/// Encryptions at a time.
const COUNT: usize = 32;

/// Small sets, modulo 2^64 and modulo p.
fn small_sets() -> [TfheParams; 2] {
    ["toy_2_2", "toy_2_2_p"].map(|name| TfheParams {
        name: "timed".into(),
        lwe_dimension: 16,
        ..TfheParams::named(name).unwrap().clone()
    })
}

/// Words below `below`.
fn draws(seed: u64, below: u64) -> impl FnMut() -> u64 {
    let mut draw = Draw(seed);
    move || draw.word() % below
}

fn key_of(p: &TfheParams, bits: &[u64]) -> SecretKey {
    let (small, big) = bits.split_at(p.lwe_dimension);
    SecretKey::from_bits(p, true, small, big).unwrap()
}

/// Bits of a key from outside, fixed to zeros or random.
fn tfhe_from_bits(p: &TfheParams, samples: usize) -> Run {
    let zeros = vec![0; p.lwe_dimension + p.big_dimension()];
    let put = |words: &[u64], bits: &mut Vec<u64>| bits.copy_from_slice(words);
    by_words(samples, &zeros, draws(1, 2), zeros.clone(), put, |bits| {
        drop(black_box(key_of(p, bits)));
    })
}

/// The evaluation key, or an encryption, by a fixed key or random ones.
fn tfhe_by_key(p: &TfheParams, samples: usize, work: impl Fn(&SecretKey)) -> Run {
    let zeros = vec![0; p.lwe_dimension + p.big_dimension()];
    let mut bit = draws(2, 2);
    let file = |bits: &[u64]| key_of(p, bits).to_bytes().unwrap().to_vec();
    let random = (0..64).map(|_| file(&zeros.iter().map(|_| bit()).collect::<Vec<_>>())).collect();
    let files = Files::new(vec![file(&zeros); 64], random);
    by_file(samples, files, |bytes| SecretKey::from_bytes(bytes, Trust::insecure()), work)
}

/// Encryption of zeros, or of random messages.
fn tfhe_encrypt(p: &TfheParams, samples: usize) -> Run {
    let key = SecretKey::generate(p, true).unwrap();
    let put = |words: &[u64], values: &mut Vec<u64>| values.copy_from_slice(words);
    by_words(samples, &[0; COUNT], draws(3, 16), vec![0; COUNT], put, |values| {
        drop(black_box(key.encrypt(values).unwrap()));
    })
}

/// Decryption of zeros, or of random messages.
fn tfhe_decrypt(p: &TfheParams, samples: usize, work: impl Fn(&SecretKey, &Lwe)) -> Run {
    let key = SecretKey::generate(p, true).unwrap();
    let file = |values: &[u64]| key.encrypt(values).unwrap().to_bytes().unwrap();
    let mut message = draws(4, 16);
    let random = (0..64).map(|_| file(&[0; COUNT].map(|_: u64| message()))).collect();
    let files = Files::new((0..64).map(|_| file(&[0; COUNT])).collect(), random);
    let read = |bytes: &[u8]| Lwe::from_bytes(bytes, Trust::insecure());
    by_file(samples, files, read, |ct| work(&key, ct))
}

#[test]
#[ignore = "minutes on a quiet machine: make test-full"]
fn full_size_keys_of_tfhe() {
    on_one_thread(|| {
        for p in small_sets() {
            let name = |what: &str| format!("TFHE, {what}, modulo {:?}", p.modulus);
            check(&name("a key from bits"), || tfhe_from_bits(&p, 40_000));
            check(&name("its evaluation key"), || {
                tfhe_by_key(&p, 8_000, |key| drop(black_box(key.evaluation_key().unwrap())))
            });
        }
    });
}

#[test]
#[ignore = "minutes on a quiet machine: make test-full"]
fn full_size_encryption_of_tfhe() {
    on_one_thread(|| {
        for p in small_sets() {
            let name = |what: &str| format!("TFHE, encryption by {what}, modulo {:?}", p.modulus);
            check(&name("message"), || tfhe_encrypt(&p, 100_000));
            let values = vec![1; COUNT];
            check(&name("key"), || {
                tfhe_by_key(&p, 40_000, |key| drop(black_box(key.encrypt(&values).unwrap())))
            });
        }
    });
}

#[test]
#[ignore = "minutes on a quiet machine: make test-full"]
fn full_size_decryption_of_tfhe() {
    on_one_thread(|| {
        for p in small_sets() {
            let name = |what: &str| format!("TFHE, {what} by message, modulo {:?}", p.modulus);
            check(&name("decryption"), || {
                tfhe_decrypt(&p, 60_000, |key, ct| drop(black_box(key.decrypt(ct).unwrap())))
            });
            check(&name("phases"), || {
                tfhe_decrypt(&p, 60_000, |key, ct| drop(black_box(key.phases(ct).unwrap())))
            });
        }
    });
}

// CKKS.

fn context() -> Context {
    Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap()
}

/// A fixed message of CKKS.
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
        let mut random = units(9);
        let value = |_| match self {
            Message::Zeros => 0f64.to_bits(),
            Message::Halves => 0.5f64.to_bits(),
            Message::Same => random(),
            Message::Subnormal => (f64::MIN_POSITIVE * 0.37).to_bits(),
        };
        (0..2 * count).map(value).collect()
    }
}

/// Doubles in −1 .. 1, as their bits.
fn units(seed: u64) -> impl FnMut() -> u64 {
    let mut draw = Draw(seed);
    move || ((draw.word() >> 11) as f64 * 2f64.powi(-52) - 1.0).to_bits()
}

fn complex(bits: &[u64], out: &mut [Complex]) {
    for (v, b) in out.iter_mut().zip(bits.chunks_exact(2)) {
        *v = Complex::new(f64::from_bits(b[0]), f64::from_bits(b[1]));
    }
}

/// Work on a vector, a fixed one or random ones.
fn ckks_by_message(count: usize, fixed: Message, samples: usize, work: impl Fn(&[Complex])) -> Run {
    let values = vec![Complex::default(); count];
    let put = |bits: &[u64], out: &mut Vec<Complex>| complex(bits, out);
    by_words(samples, &fixed.values(count), units(5), values, put, |values| work(values))
}

/// Work on an encryption of a fixed message or random ones.
fn ckks_by_ciphertext(
    context: &Context,
    secret: &CkksSecretKey,
    fixed: Message,
    work: impl Fn(&Rlwe),
) -> Run {
    let mut values = vec![Complex::default(); 2048];
    let mut file = |bits: &[u64]| {
        complex(bits, &mut values);
        context.ciphertext_to_bytes(&context.encrypt(&values, 0, secret).unwrap()).unwrap()
    };
    let (zeros, mut unit) = (fixed.values(2048), units(6));
    let fixed = (0..32).map(|_| file(&zeros)).collect();
    let random = (0..32).map(|_| file(&zeros.iter().map(|_| unit()).collect::<Vec<_>>())).collect();
    let read = |bytes: &[u8]| context.ciphertext_from_bytes(bytes, Trust::insecure());
    by_file(20_000, Files::new(fixed, random), read, work)
}

/// Work with a fixed key or random ones.
fn ckks_by_key(
    context: &Context,
    one: &CkksSecretKey,
    samples: usize,
    work: impl Fn(&CkksSecretKey),
) -> Run {
    let file = |key: &CkksSecretKey| context.secret_key_to_bytes(key).unwrap().to_vec();
    let random = (0..64).map(|_| file(&context.secret_key().unwrap())).collect();
    let files = Files::new(vec![file(one); 64], random);
    let read = |bytes: &[u8]| context.secret_key_from_bytes(bytes, Trust::insecure());
    by_file(samples, files, read, work)
}

const MESSAGES: [Message; 4] = [Message::Zeros, Message::Halves, Message::Same, Message::Subnormal];

#[test]
#[ignore = "minutes on a quiet machine: make test-full"]
fn full_size_encryption_of_ckks() {
    on_one_thread(|| {
        let context = context();
        let secret = context.secret_key().unwrap();
        let public = context.public_key(&secret).unwrap();
        for fixed in MESSAGES {
            for count in [2048, 8] {
                check(&format!("CKKS, encryption by message ({fixed:?}, {count})"), || {
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

#[test]
#[ignore = "minutes on a quiet machine: make test-full"]
fn full_size_decryption_of_ckks() {
    on_one_thread(|| {
        let context = context();
        let secret = context.secret_key().unwrap();
        for fixed in [Message::Zeros, Message::Halves, Message::Same] {
            check(&format!("CKKS, decryption by message ({fixed:?})"), || {
                ckks_by_ciphertext(&context, &secret, fixed, |ct| {
                    drop(black_box(context.decrypt(ct, &secret).unwrap()));
                })
            });
        }
    });
}

#[test]
#[ignore = "minutes on a quiet machine: make test-full"]
fn full_size_keys_of_ckks() {
    on_one_thread(|| {
        let context = context();
        let one = context.secret_key().unwrap();
        check("CKKS, a public key", || {
            ckks_by_key(&context, &one, 10_000, |key| {
                drop(black_box(context.public_key(key).unwrap()));
            })
        });
        let needs = Needs { multiply: 1, ..Needs::default() }.rotate([1], 1);
        check("CKKS, evaluation keys", || {
            ckks_by_key(&context, &one, 4_000, |key| {
                drop(black_box(context.keys(key, &needs).unwrap()));
            })
        });
        check("CKKS, encryption by key", || {
            ckks_by_key(&context, &one, 20_000, |key| {
                drop(black_box(context.encrypt(&[Complex::default()], 0, key).unwrap()));
            })
        });
    });
}

// Files of secret keys.

/// The tensors of a file as words, and the file that they stand in.
struct Sealed {
    file: Vec<u8>,
    id: usize,
    checksum: usize,
    data: usize,
}

impl Sealed {
    fn new(file: Vec<u8>) -> Sealed {
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let text = std::str::from_utf8(&file[8..8 + header]).unwrap();
        let place = |entry: &str| 8 + text.find(entry).unwrap() + entry.len();
        let (id, checksum) = (place(r#""key":""#), place(r#""checksum":""#));
        Sealed { id, checksum, data: 8 + header, file }
    }

    fn words(&self) -> Vec<u64> {
        file_words(&self.file[self.data..])
    }

    /// Puts in words and the identity of a key, and the checksum of the whole.
    fn seal(&mut self, words: &[u64], id: [u64; 2]) {
        for (to, word) in self.file[self.data..].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let id = format!("{:016x}{:016x}", id[0], id[1]);
        self.file[self.id..][..32].copy_from_slice(id.as_bytes());
        self.file[self.checksum..][..64].fill(b'0');
        let checksum = blake3::hash(&self.file).to_hex();
        self.file[self.checksum..][..64].copy_from_slice(checksum.as_bytes());
    }
}

/// Reading of a file of a fixed secret or of random ones. Every file has an identity of its own, in all classes: it and the checksum
/// are text, and the time to read text depends on it. A fixed secret in one file always would have one text, and |t| of 8 to 17.
fn by_sealed<T>(
    samples: usize,
    fixed: &[u64],
    draw: impl FnMut() -> u64,
    file: Vec<u8>,
    read: impl Fn(&[u8]) -> becalm::Result<T>,
) -> Run {
    let id = RefCell::new(Draw(now()));
    let put = |words: &[u64], file: &mut Sealed| {
        let mut id = id.borrow_mut();
        file.seal(words, [id.word(), id.word()]);
    };
    by_words(samples, fixed, draw, Sealed::new(file), put, |file| {
        drop(black_box(read(&file.file).unwrap()));
    })
}

/// Words of 32 digits of 0, 1 or 2.
fn ternary(seed: u64) -> impl FnMut() -> u64 {
    let mut digit = draws(seed, 3);
    move || (0..32).fold(0, |word, _| word << 2 | digit())
}

#[test]
#[ignore = "minutes on a quiet machine: make test-full"]
fn full_size_files_of_secret_keys() {
    on_one_thread(|| {
        for p in small_sets() {
            let key = SecretKey::generate(&p, true).unwrap();
            let file = key.to_bytes().unwrap().to_vec();
            let own = Sealed::new(file.clone()).words();
            for (what, fixed) in [("zeros", vec![0; own.len()]), ("one key", own)] {
                check(&format!("TFHE, reading a key ({what}), modulo {:?}", p.modulus), || {
                    let read = |bytes: &[u8]| SecretKey::from_bytes(bytes, Trust::insecure());
                    by_sealed(60_000, &fixed, draws(8, 2), file.clone(), read)
                });
            }
        }
        let context = context();
        let key = context.secret_key().unwrap();
        let file = context.secret_key_to_bytes(&key).unwrap().to_vec();
        let own = Sealed::new(file.clone()).words();
        // A digit is a coefficient plus one.
        let zeros = vec![0x5555_5555_5555_5555; own.len()];
        for (what, fixed) in [("zeros", zeros), ("one key", own)] {
            check(&format!("CKKS, reading a key ({what})"), || {
                let read = |bytes: &[u8]| context.secret_key_from_bytes(bytes, Trust::insecure());
                by_sealed(60_000, &fixed, ternary(9), file.clone(), read)
            });
        }
    });
}

// The statistics, always.

/// Times of a quiet machine, with one outlier in fifty.
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

/// Equal laws stay below the bound. A difference of one and a half times the stated power is found.
#[test]
fn the_statistics_find_a_difference_and_invent_none() {
    let mut draw = Draw(11);
    for _ in 0..20 {
        let (a, b) = (synthetic(&mut draw, 20_000, 0.0), synthetic(&mut draw, 20_000, 0.0));
        assert!(largest(&a, &b).t.abs() < BOUND);
        let least = power(&a, &b);
        assert!((50.0..100.0).contains(&least), "{least}");
        let c = synthetic(&mut draw, 20_000, 1.5 * least);
        assert!(largest(&a, &c).t.abs() > BOUND, "{least}");
    }
    // A difference in the tail alone is found where nothing is cropped.
    let tail: Vec<f64> = synthetic(&mut draw, 20_000, 0.0)
        .iter()
        .enumerate()
        .map(|(i, x)| if i % 20 == 0 { x + 50_000.0 } else { *x })
        .collect();
    assert!(largest(&synthetic(&mut draw, 20_000, 0.0), &tail).t.abs() > BOUND);
}

/// The harness finds a comparison that ends early, whatever else runs, and no difference between a secret and itself.
#[test]
fn a_planted_leak_is_found() {
    let _alone = alone();
    let mut x = 0u64;
    let measure =
        || run(8_000, |_| (), || (0..200).for_each(|i| x = black_box(x.wrapping_mul(3) + i)));
    sound("a planted leak", measure);
}
