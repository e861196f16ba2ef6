//! Secrets are wiped before their memory is freed. The tests search every block that is freed while a key is made, used or saved.
//!
//! The allocator of this process searches each block when it is freed, also those that a growing vector leaves behind. It looks for
//! known messages, phases and coefficients (eight numbers in a row, within the noise), known bits of keys (sixty-four in a row, as words
//! or doubles), and anything like noise or a ternary secret (sixty-four small integers of both signs in a row, as words or doubles).
//! The result of a call belongs to the caller and lives on until the search is over. The search finds planted leaks of every kind.

mod harness;

use becalm::apps::integer::{Clear, Integers, Type};
use becalm::bridge::{BridgeKey, PackingKey};
use becalm::cipher::file::Trust;
use becalm::cipher::{Encoding, KeyRole, Lwe, Rlwe, SecretKey};
use becalm::ckks::{Context, KeyShare, Needs};
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, TfheParams};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// The look of a secret in memory.
#[derive(Clone, Copy)]
enum Look {
    /// Eight words, each within a distance of its value.
    Words([u64; 8], u64),
    /// Eight doubles, each within a distance of its value.
    Doubles([f64; 8], f64),
    /// Sixty-four bits of a key, one a word.
    Bits([u64; 64]),
    /// Bits of a key as doubles.
    BitsAsDoubles([u64; 64]),
    /// The words of a seed.
    Seed([u64; 4]),
    /// Small integers of both signs as words: noise.
    Noise,
    /// Small integers as doubles: noise, or a ternary secret.
    NoiseAsDoubles,
}

/// From this absolute value on an integer is not small.
const SMALL: i64 = 1 << 22;
/// The length of a row, in the looks of bits and noise.
const ROW: usize = 64;

/// The number of negative ones in a row of noise: less than one row in 2^20 of a symmetric law has fewer, or more.
const NEGATIVE: std::ops::RangeInclusive<usize> = 8..=56;

impl Look {
    fn length(self) -> usize {
        match self {
            Look::Words(..) | Look::Doubles(..) => 8,
            Look::Seed(_) => 4,
            _ => ROW,
        }
    }

    /// Whether this many words, the length of the look, have this look.
    fn fits(self, words: &[u64]) -> bool {
        let double = |w: &u64| f64::from_bits(*w);
        let noise = |value: fn(u64) -> Option<i64>| {
            let mut negative = 0;
            words.iter().all(|w| {
                let x = value(*w);
                negative += usize::from(x.is_some_and(|x| x < 0));
                x.is_some_and(|x| x.abs() < SMALL)
            }) && NEGATIVE.contains(&negative)
        };
        match self {
            Look::Words(wanted, within) => words
                .iter()
                .zip(wanted)
                .all(|(w, x)| (w.wrapping_sub(x) as i64).unsigned_abs() <= within),
            Look::Doubles(wanted, within) => {
                words.iter().zip(wanted).all(|(w, x)| (double(w) - x).abs() <= within)
            }
            Look::Bits(bits) => words == bits,
            Look::Seed(seed) => words == seed,
            Look::BitsAsDoubles(bits) => words.iter().zip(bits).all(|(w, b)| double(w) == b as f64),
            Look::Noise => {
                noise(|w| Some((w as i64).saturating_abs().min(SMALL) * (w as i64).signum()))
            }
            Look::NoiseAsDoubles => noise(|w| {
                let x = f64::from_bits(w);
                (x.fract() == 0.0 && x.abs() < SMALL as f64).then_some(x as i64)
            }),
        }
    }
}

/// The looks to search for. Their number is fixed, because an allocator cannot allocate.
struct Search {
    looks: [Option<(&'static str, Look)>; 16],
    /// The first finds, each with the bytes of its block; `count` counts all of them.
    found: [Option<(&'static str, usize)>; 16],
    count: usize,
}

static SEARCH: RwLock<Search> =
    RwLock::new(Search { looks: [None; 16], found: [None; 16], count: 0 });
static ACTIVE: AtomicBool = AtomicBool::new(false);

struct Searching;

// SAFETY: every call is handed to the system's allocator as it came; a block is only read before it is freed.
unsafe impl GlobalAlloc for Searching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of the system's allocator. Zeroed, so that no word is read that was not written.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if ACTIVE.load(SeqCst) && at.addr().is_multiple_of(8) && layout.size() >= 64 {
            // SAFETY: the block is of this size and aligned to words; `alloc` has written all of it.
            let words = unsafe { std::slice::from_raw_parts(at.cast::<u64>(), layout.size() / 8) };
            search(words);
        }
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Searching = Searching;

fn search(words: &[u64]) {
    let found = {
        let search = SEARCH.read().unwrap_or_else(PoisonError::into_inner);
        let here = |look: Look| words.windows(look.length()).any(|row| look.fits(row));
        search.looks.iter().flatten().find(|(_, look)| here(*look)).map(|(what, _)| *what)
    };
    if let Some(what) = found {
        let mut search = SEARCH.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = search.found.iter_mut().find(|place| place.is_none()) {
            *place = Some((what, 8 * words.len()));
        }
        search.count += 1;
    }
}

/// One test at a time, from its beginning: blocks of any thread are searched, and tests have their own messages to free.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The finds in blocks that `work` frees, in a test that is [`alone`]. The result of `work` is kept until the search is over.
fn found<T>(
    looks: &[(&'static str, Look)],
    work: impl FnOnce() -> T,
) -> (T, Vec<(&'static str, usize)>) {
    {
        let mut search = SEARCH.write().unwrap();
        *search = Search { looks: [None; 16], found: [None; 16], count: 0 };
        assert!(looks.len() <= 16, "room for them");
        search.looks.iter_mut().zip(looks).for_each(|(place, look)| *place = Some(*look));
    }
    ACTIVE.store(true, SeqCst);
    let kept = work();
    ACTIVE.store(false, SeqCst);
    let found: Vec<_> = SEARCH.read().unwrap().found.iter().flatten().copied().collect();
    (kept, found)
}

/// Fails if a secret is left in a block that `work` frees.
#[track_caller]
fn clean<T>(what: &str, looks: &[(&'static str, Look)], work: impl FnOnce() -> T) -> T {
    let (kept, found) = found(looks, work);
    assert!(
        found.is_empty(),
        "{what}: left in freed memory, with the bytes of the block: {found:?}"
    );
    kept
}

/// Values that repeat nowhere.
fn values(count: usize, below: u64) -> Vec<u64> {
    (1..=count as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % below).collect()
}

fn eight<T: Copy, U>(all: &[T], from: usize, f: impl Fn(T) -> U) -> [U; 8] {
    std::array::from_fn(|i| f(all[from + i]))
}

/// Phases at three places of a batch, within an eighth of the distance of two messages, and the messages themselves.
fn messages(p: &TfheParams, encoding: Encoding, values: &[u64]) -> Vec<(&'static str, Look)> {
    let step = (1u64 << 63) / encoding.parts() * 2;
    let phases = |from| {
        let phase = |v: u64| encoding.encode(p.modulus, v as i64);
        ("phases", Look::Words(eight(values, from, phase), step / 8))
    };
    let clear = |from| ("messages", Look::Words(eight(values, from, |v| v), 0));
    let places = [0, values.len() / 2, values.len() - 8];
    places.iter().flat_map(|at| [phases(*at), clear(*at)]).collect()
}

/// The beginnings of both keys, and anything like noise.
fn of_key(secret: &SecretKey) -> Vec<(&'static str, Look)> {
    let bits = |role, from: usize| -> [u64; 64] {
        let key = secret.expose(role);
        std::array::from_fn(|i| key[from + i])
    };
    let mut looks = vec![("noise", Look::Noise), ("noise as doubles", Look::NoiseAsDoubles)];
    for bits in [bits(KeyRole::Small, 0), bits(KeyRole::Big, 0), bits(KeyRole::Big, 128)] {
        looks
            .extend([("a key", Look::Bits(bits)), ("a key as doubles", Look::BitsAsDoubles(bits))]);
    }
    looks
}

const SETS: [&str; 4] = ["toy_2_2", "toy_2_2_p", "toy_boolean", "toy_cm_1_1_w2"];

#[test]
fn messages_and_phases_of_tfhe_are_wiped() {
    let _alone = alone();
    for name in SETS {
        let p = TfheParams::named(name).unwrap();
        let secret = SecretKey::generate(p, true).unwrap();
        let encoding = Encoding::of(p);
        let values = values(999, encoding.values);
        let mut looks = messages(p, encoding, &values);
        let ct = {
            let mut looks = looks.clone();
            looks.extend(of_key(&secret));
            clean(name, &looks, || secret.encrypt(&values).unwrap())
        };
        clean(name, &looks, || secret.decrypt(&ct).unwrap());
        clean(name, &looks, || secret.phases(&ct).unwrap());
        looks.extend(of_key(&secret));
        let errors = clean(name, &looks, || secret.errors(&ct, &values).unwrap());
        assert!(errors.iter().all(|e| e.abs() < encoding.margin()));
    }
}

#[test]
fn keys_of_tfhe_are_wiped() {
    let _alone = alone();
    for name in SETS {
        let p = TfheParams::named(name).unwrap();
        // The bits of a fresh key are unknown to the test, so it searches for anything like noise.
        let noise = [("noise", Look::Noise), ("noise as doubles", Look::NoiseAsDoubles)];
        let secret = clean(name, &noise, || SecretKey::generate(p, true).unwrap());
        let looks = of_key(&secret);
        let (small, big) = (secret.expose(KeyRole::Small), secret.expose(KeyRole::Big));
        clean(name, &looks, || drop(SecretKey::from_bits(p, true, small, big).unwrap()));
        clean(name, &looks, || secret.evaluation_key().unwrap());
        let file = clean(name, &looks, || secret.to_bytes().unwrap());
        clean(name, &looks, || drop(SecretKey::from_bytes(&file, Trust::insecure()).unwrap()));
        clean(name, &looks, || drop(secret.to_bytes().unwrap()));
        let path =
            std::env::temp_dir().join(format!("becalm-wiping-{}-{name}", std::process::id()));
        clean(name, &looks, || secret.save(&path).unwrap());
        clean(name, &looks, || drop(SecretKey::load(&path, Trust::insecure()).unwrap()));
        std::fs::remove_file(&path).unwrap();
        if p.slots > 1 {
            clean(name, &looks, || secret.pack_key().unwrap());
            let map = vec![vec![1; p.slots]; p.slots];
            clean(name, &looks, || secret.slot_map_key(&map).unwrap());
        } else {
            let table = becalm::tfhe::Table::from_fn(p, |m| m).unwrap();
            clean(name, &looks, || secret.encrypt_table(&table).unwrap());
        }
        clean(name, &looks, || drop(secret));
    }
}

/// The digits of integers are as secret as the integers.
#[test]
fn integers_are_wiped() {
    let _alone = alone();
    let p = TfheParams::named("toy_2_2").unwrap();
    let secret = SecretKey::generate(p, true).unwrap();
    let ty: Type = "uint64".parse().unwrap();
    let words: Vec<u64> = (1..=24u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let clear: Vec<Clear> = words.iter().map(|w| Clear::from(*w)).collect();
    let digit = |at: usize, i: usize| words[at] >> (2 * i) & 3;
    // One digit of all integers, as it is encrypted, and all digits of one integer, as it is cut.
    let column: Vec<u64> = (0..24).map(|at| digit(at, 5)).collect();
    let row: Vec<u64> = (0..32).map(|i| digit(7, i)).collect();
    let encoding = Encoding { values: 16, padding: true };
    let mut looks = messages(p, encoding, &column);
    looks.truncate(4);
    looks.extend(messages(p, encoding, &row).into_iter().take(4));
    let x = clean("integers", &looks, || Integers::encrypt(&secret, ty, &clear).unwrap());
    let back = clean("integers", &looks, || x.decrypt(&secret).unwrap());
    assert_eq!(back[7].low() as u64, words[7]);
}

/// Coefficient j of the polynomial with these slots, by its definition: (2/N)·Re Σ_k v_k·ζ^(−5^k·j), times `scale`.
fn coefficient(values: &[Complex], degree: usize, scale: f64, j: usize) -> f64 {
    let mut power = 1;
    let sum = (0..degree / 2).map(|k| {
        let angle = std::f64::consts::PI * (power * j % (2 * degree)) as f64 / degree as f64;
        power = power * 5 % (2 * degree);
        let v = values[k % values.len()];
        v.re * angle.cos() + v.im * angle.sin()
    });
    sum.sum::<f64>() * 2.0 / degree as f64 * scale
}

#[test]
fn messages_and_keys_of_ckks_are_wiped() {
    let _alone = alone();
    let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
    let (degree, level) = (context.params().degree(), 1);
    let unit = |x: u64| (x >> 11) as f64 * 2f64.powi(-52) - 1.0;
    let draw = |i: u64| unit(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let values: Vec<Complex> =
        (1..=degree as u64 / 2).map(|i| Complex::new(draw(2 * i), draw(2 * i + 1))).collect();
    let scale = context.scale(level).unwrap();
    let flat: Vec<f64> = values.iter().flat_map(|v| [v.re, v.im]).collect();
    let slots = |from| ("values", Look::Doubles(eight(&flat, from, |x| x), 1e-4));
    let coefficients = |from: usize, scale: f64| {
        let x = std::array::from_fn(|i| coefficient(&values, degree, scale, from + i));
        Look::Doubles(x, scale * 1e-6)
    };
    let noise = [("noise", Look::Noise), ("noise or a ternary secret", Look::NoiseAsDoubles)];
    let mut looks = noise.to_vec();
    for from in [0, degree / 2 - 8, degree - 8] {
        looks.extend([slots(from), ("coefficients", coefficients(from, scale))]);
    }
    let secret = clean("a secret key", &noise, || context.secret_key().unwrap());
    clean("values of a key", &noise, || context.encrypt(&values, 0, &secret).unwrap());
    let x = clean("encryption", &looks, || context.encrypt(&values, level, &secret).unwrap());
    let public = clean("a public key", &noise, || context.public_key(&secret).unwrap());
    clean("public encryption", &looks, || context.encrypt_public(&values, level, &public).unwrap());
    let back = clean("decryption", &looks, || context.decrypt(&x, &secret).unwrap());
    assert!((back[3].re - values[3].re).abs() < 1e-4, "{:?} {:?}", back[3], values[3]);
    // Half of the slots are returned. The others are wiped too.
    let few = context.encrypt(&values[..degree / 8], level, &secret).unwrap();
    clean("decryption of few", &looks, || context.decrypt(&few, &secret).unwrap());
    clean("keys", &noise, || {
        context.keys(&secret, &Needs::default().rotate([1, 5], level)).unwrap()
    });
    let file = clean("a file", &noise, || context.secret_key_to_bytes(&secret).unwrap());
    clean("a file", &noise, || {
        drop(context.secret_key_from_bytes(&file, Trust::insecure()).unwrap())
    });
    clean("the key itself", &noise, || drop(secret));
}

/// The keys between the schemes are made of both secrets.
#[test]
fn keys_of_the_bridge_are_wiped() {
    let _alone = alone();
    let params = CkksParams::named("ckks_toy_table_4").unwrap();
    let context = Context::new(params, true).unwrap();
    let many = context.secret_key().unwrap();
    for name in ["toy_2_2", "toy_2_2_p"] {
        let one = SecretKey::generate(TfheParams::named(name).unwrap(), true).unwrap();
        let looks = of_key(&one);
        clean(name, &looks, || BridgeKey::new(&context, &many, &one).unwrap());
        clean(name, &looks, || PackingKey::new(&context, &one, &many).unwrap());
    }
}

/// The contents of the file of a share: the part that is not drawn, packed and as residues of the first word, and two seeds. `low` is at level 0. One
/// of two seeds in a row of pairs of 36 bytes begins at a word.
fn of_share(context: &Context, share: &KeyShare, low: &Rlwe) -> Vec<(&'static str, Look)> {
    let file = share.to_bytes(context).unwrap();
    let (header, data) = harness::split(&file).unwrap();
    let tensor = |name: &str| {
        let at = |i: usize| header[name]["data_offsets"][i].as_u64().map(|x| x as usize);
        data.get(at(0)?..at(1)?)
    };
    let words = |bytes: &[u8]| -> Vec<u64> {
        bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    };
    let mut looks = vec![];
    if let Some(last) = tensor("last") {
        // The modulus of level 0 is one word, and a value has a fourth of it.
        let p = (4.0 * context.largest(low) * low.scale()).round();
        assert_eq!(p % (2 * context.params().degree()) as f64, 1.0);
        let width = p.log2().ceil() as usize;
        let bit = |i: usize| u64::from(last[i / 8] >> (i % 8) & 1);
        let residue = |j: usize| (0..width).map(|k| bit(j * width + k) << k).sum::<u64>() as f64;
        let residues: [f64; 8] = std::array::from_fn(residue);
        assert!(residues.iter().all(|x| *x < p));
        let centred = residues.map(|x| if x > p / 2.0 { x - p } else { x });
        looks.extend([("residues", Look::Doubles(residues, 0.5))]);
        looks.extend([("centred residues", Look::Doubles(centred, 0.5))]);
        looks.extend([("packed residues", Look::Words(eight(&words(last), 0, |w| w), 0))]);
    }
    let seeds = words(tensor("seeds").unwrap_or_default());
    looks.extend(seeds.as_chunks().0.iter().take(2).map(|seed| ("a seed", Look::Seed(*seed))));
    looks
}

#[test]
fn shares_of_ckks_are_wiped() {
    let _alone = alone();
    let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
    let secret = context.secret_key().unwrap();
    let x = context.encrypt(&[Complex::from(0.5)], 0, &secret).unwrap();
    let noise = [("noise", Look::Noise), ("a ternary secret", Look::NoiseAsDoubles)];
    // The first of two parties has only the part that is not drawn, the first of five has seeds too.
    for parties in [2, 5] {
        let mut shares = clean("a splitting", &noise, || {
            KeyShare::split(&context, &secret, parties, 2).unwrap()
        });
        let mut looks = of_share(&context, &shares[0], &x);
        assert_eq!(looks.len(), if parties == 2 { 3 } else { 5 });
        let file = clean("a file", &looks, || shares[0].to_bytes(&context).unwrap());
        clean("a share that is read", &looks, || {
            drop(KeyShare::from_bytes(&context, &file, Trust::insecure()).unwrap())
        });
        let bits = shares[0].bits_to_decrypt_partially(&context, &x, 1).unwrap();
        let part = clean("a part", &looks, || {
            shares[0].decrypt_partially(&context, &x, &[1, 2], bits, 1).unwrap()
        });
        assert_eq!(part.party(), 1);
        looks.extend(noise);
        clean("the file itself", &looks, || drop(file));
        clean("the share itself", &looks, || drop(shares.remove(0)));
        clean("the other shares", &looks, || drop(shares));
    }
}

/// The search finds each look, in a block that is freed and in one that a growing vector leaves.
#[test]
fn planted_leaks_are_found() {
    let _alone = alone();
    let bits: [u64; 64] = std::array::from_fn(|i| (0x9E37_79B9_7F4A_7C15u64 >> i) & 1);
    let signed = |i: usize| (i as i64 * 37 % 101) - 50;
    let torus: [u64; 8] = std::array::from_fn(|i| (i as u64 + 3) << 60);
    let looks = [
        ("words", Look::Words(torus, 1 << 40)),
        ("doubles", Look::Doubles([0.25, -0.5, 0.75, 1.0, 0.125, -1.0, 0.5, 0.3], 1e-3)),
        ("bits", Look::Bits(bits)),
        ("bits as doubles", Look::BitsAsDoubles(bits)),
        ("noise", Look::Noise),
        ("noise as doubles", Look::NoiseAsDoubles),
        ("a seed", Look::Seed([torus[0] + 1, torus[1] + 2, torus[2] + 3, torus[3] + 4])),
    ];
    let one = |of: usize, f: &dyn Fn(usize) -> u64| {
        let only = [looks[of]];
        let leak = || drop(black_box((0..200).map(f).collect::<Vec<u64>>()));
        assert_eq!(found(&only, leak).1, [(only[0].0, 1600)], "{}", only[0].0);
        let grow = || {
            let mut kept = Vec::with_capacity(150);
            (0..200).for_each(|i| kept.push(f(i)));
            black_box(&mut kept).fill(0);
        };
        assert_eq!(found(&only, grow).1, [(only[0].0, 1200)], "{}", only[0].0);
        let wiped = || {
            let mut kept: Vec<u64> = (0..200).map(f).collect();
            black_box(&mut kept).fill(0);
            drop(black_box(kept));
        };
        assert_eq!(found(&only, wiped).1, [], "{}", only[0].0);
    };
    one(0, &|i| torus[i % 8] + (i as u64) - 9);
    let doubles: [f64; 8] = [0.25, -0.5, 0.75, 1.0, 0.125, -1.0, 0.5, 0.3];
    one(1, &|i| (doubles[i % 8] + 1e-4).to_bits());
    one(2, &|i| bits[i % 64]);
    one(3, &|i| (bits[i % 64] as f64).to_bits());
    one(4, &|i| signed(i) as u64);
    one(5, &|i| (signed(i) as f64).to_bits());
    one(6, &|i| torus[i % 4] + i as u64 % 4 + 1);
    // Zeros, indices and public words have none of these looks.
    let public = || {
        drop(black_box((0..500u64).collect::<Vec<_>>()));
        drop(black_box(vec![0u64; 500]));
        drop(black_box(values(500, u64::MAX)));
        drop(black_box((0..500).map(f64::from).collect::<Vec<_>>()));
    };
    assert_eq!(found(&looks, public).1, []);
    let secret = SecretKey::generate(TfheParams::named("toy_2_2").unwrap(), true).unwrap();
    let ct: Lwe = secret.encrypt(&values(64, 16)).unwrap();
    assert_eq!(found(&of_key(&secret), || drop(ct)).1, []);
}
