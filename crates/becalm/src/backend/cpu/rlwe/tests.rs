//! The scheme at N = 2^12 on toy keys against arithmetic on plaintext numbers.

use super::arithmetic::{
    add, level_down, multiply_constant, multiply_i, negate, rescale, subtract,
};
use super::instructions::Instructions;
use super::*;
use crate::backend::encoded::{LinearMap, Plain};
use crate::backend::{Ckks, CkksSetup, Cpu, Evaluator};
use crate::cipher::file::{Kind, inspect};
use crate::cipher::{CkksKeys, CkksSecretKey, KeyForm, Rlwe};
use crate::ckks::*;
use crate::math::complex::Complex;
use crate::params::CkksParams;
use crate::{Result, UNWATCHED};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

mod arithmetic;
mod collective;
mod flood;
mod threshold;

struct World {
    context: Arc<Context>,
    secret: CkksSecretKey,
    keys: Arc<CkksKeys>,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
    let secret = context.secret_key().unwrap();
    let needs = Needs { conjugate: Some(3), ..Needs::default() }.rotate([1, 3, 4, 12], 5);
    let keys = Arc::new(context.keys(&secret, &needs).unwrap());
    World { context: Arc::new(context), secret, keys }
});

/// Programs of one instruction, whose results have accounts.
fn server(keys: &Arc<CkksKeys>) -> Evaluator<Ckks> {
    Evaluator::new(&Cpu::new(0).unwrap(), CkksSetup::new(&WORLD.context, keys)).unwrap()
}

fn message(slots: usize, seed: f64) -> Vec<Complex> {
    let value = |j: usize| ((j as f64 * 0.37 + seed).sin(), (j as f64 * 1.3 - seed).cos());
    (0..slots).map(|j| Complex::new(value(j).0, value(j).1) * 0.7).collect()
}

fn bits(x: &Rlwe, wanted: &[Complex]) -> f64 {
    let got = WORLD.context.decrypt(x, &WORLD.secret).unwrap();
    assert_eq!(got.len(), wanted.len());
    let worst = got.iter().zip(wanted).map(|(a, b)| (*a - *b).abs()).fold(0.0, f64::max);
    let claimed = -x.error().log2();
    println!("{:.2} bits, about {claimed:.2} claimed", -worst.log2());
    -worst.log2()
}

#[test]
fn what_is_encrypted_is_decrypted() {
    let World { context, secret, .. } = &*WORLD;
    let public = context.public_key(secret).unwrap();
    for slots in [1, 4, 512, 2048] {
        let m = message(slots, 0.1);
        for level in [0, 1, 5, 10] {
            let x = context.encrypt(&m, level, secret).unwrap();
            assert!(bits(&x, &m) > 29.0, "{slots} slots, level {level}");
            let x = context.encrypt_public(&m, level, &public).unwrap();
            assert!(bits(&x, &m) > 23.0, "{slots} slots, level {level}, public key");
        }
    }
}

/// Errors that are the same in all terms add up, and `decrypt_to_share` relies on their claims.
#[test]
fn claims_hold_for_terms_that_are_the_same() {
    let World { context, secret, keys } = &*WORLD;
    let evaluator = server(keys);
    let signs: Vec<Complex> =
        (0..2048).map(|j| Complex::from(if j % 3 == 0 { -1.0 } else { 1.0 })).collect();
    let x = context.encrypt(&signs, 10, secret).unwrap();
    // In units of the claim, with the wanted value.
    let part = |y: &Rlwe, wanted: f64| {
        let got = context.decrypt(y, secret).unwrap();
        let errors = got.iter().zip(&signs).map(|(a, s)| (*a - *s * wanted).abs().powi(2));
        (errors.sum::<f64>() / 2048.0).sqrt() / y.error()
    };
    let mut sum = x.clone();
    for k in 1..=20 {
        sum = evaluator.add(&sum, &sum).unwrap();
        let part = part(&sum, 2f64.powi(k));
        assert!((0.3..1.2).contains(&part), "2^{k} times itself: {part} of the claim");
    }
    let mut power = x.clone();
    for k in 1..=8 {
        let one = evaluator.multiply(&power, &power).unwrap();
        power = evaluator.multiply(&one, &x).unwrap();
        if power.level() < 2 {
            break;
        }
        let part = part(&power, 1.0);
        assert!(part < 1.2, "power, step {k}: {part} of the claim");
    }
    // A ciphertext of one slot has the same error in all, so that a sum of eight slots has eight times of it.
    let mut eight = Matrix::zero(2048);
    (0..8).for_each(|k| eight.diagonal(k).fill(Complex::from(1.0)));
    assert!((eight.norm() - 8.0).abs() < 1e-12);
    let keys = context.keys(secret, &Needs::default().rotate(eight.keys(8), 10)).unwrap();
    let mut large = context.encrypt(&[Complex::from(0.0)], 10, secret).unwrap();
    // A value stands for an error, far above that of the map.
    let wrong = context.encrypt(&[Complex::from(0.5)], 10, secret).unwrap();
    large.account.error = 0.5;
    large.parts = wrong.parts;
    let y = server(&Arc::new(keys)).linear(&large, &Arc::new(eight), 8).unwrap();
    let found = context.decrypt(&y, secret).unwrap()[0].abs();
    assert!((0.9..1.01).contains(&(found / y.error())), "{found} of {}", y.error());
}

#[test]
fn sums_and_products_are_those_of_the_slots() {
    let World { context, secret, keys } = &*WORLD;
    let evaluator = Instructions::new(context, keys).unwrap();
    let (m, k) = (message(2048, 0.1), message(2048, 2.2));
    let a = context.encrypt(&m, 10, secret).unwrap();
    let b = context.encrypt(&k, 9, secret).unwrap();
    let each = |f: fn(Complex, Complex) -> Complex| -> Vec<Complex> {
        m.iter().zip(&k).map(|(a, b)| f(*a, *b)).collect()
    };
    let sum = add(context, &a, &b).unwrap();
    assert!(sum.level() == 9 && bits(&sum, &each(|a, b| a + b)) > 27.0);
    assert!(bits(&subtract(context, &a, &b).unwrap(), &each(|a, b| a - b)) > 27.0);
    assert!(bits(&negate(&a), &each(|a, _| -a)) > 30.0);
    let product = evaluator.multiply(&a, &b).unwrap();
    assert!(product.level() == 8 && bits(&product, &each(|a, b| a * b)) > 27.0);
    assert!((product.scale() / context.scale(8).unwrap() - 1.0).abs() < 1e-9);
    assert!(bits(&evaluator.multiply(&a, &a).unwrap(), &each(|a, _| a * a)) > 27.0);
    assert!(bits(&plain::multiply(context, &a, &k).unwrap(), &each(|a, b| a * b)) > 27.0);
    assert!(bits(&plain::add(context, &a, &k).unwrap(), &each(|a, b| a + b)) > 30.0);
    assert!(bits(&multiply_constant(context, &a, -0.3).unwrap(), &each(|a, _| a * -0.3)) > 27.0);
    let turned: Vec<Complex> = m.iter().map(|a| Complex::new(-a.im, a.re)).collect();
    assert!(bits(&multiply_i(context, &a).unwrap(), &turned) > 30.0);
    // Down to level 0, where the scale is another.
    let mut x = a.clone();
    for _ in 0..10 {
        x = multiply_constant(context, &x, 1.0).unwrap();
    }
    assert!(x.level() == 0 && bits(&x, &m) > 23.0);
    assert!(bits(&level_down(context, &a, 0).unwrap(), &m) > 24.0);
}

#[test]
fn rotations_and_conjugation_move_the_slots() {
    let World { context, secret, keys } = &*WORLD;
    let evaluator = Instructions::new(context, keys).unwrap();
    for slots in [8, 2048] {
        let m = message(slots, 0.4);
        let a = context.encrypt(&m, 3, secret).unwrap();
        let turned: Vec<Complex> = (0..slots).map(|j| m[(j + 3) % slots]).collect();
        assert!(bits(&evaluator.rotate(&a, 3).unwrap(), &turned) > 28.0);
        let both = evaluator.rotate_many(&a, &[3, slots as i64]).unwrap();
        assert!(bits(&both[0], &turned) > 28.0 && bits(&both[1], &m) > 28.0);
        let conjugate: Vec<Complex> = m.iter().map(|v| v.conj()).collect();
        assert!(bits(&evaluator.conjugate(&a).unwrap(), &conjugate) > 28.0);
    }
}

#[test]
fn linear_maps_are_those_of_their_matrix() {
    let World { context, secret, keys } = &*WORLD;
    let evaluator = Instructions::new(context, keys).unwrap();
    let (n, mut matrix) = (2048, Matrix::zero(2048));
    for (k, diagonal) in [(0, 0.3), (1, -0.6), (3, 0.2), (4, 1.1), (6, 0.4), (13, 0.7)] {
        let entries = message(n, diagonal);
        matrix.diagonal(k).copy_from_slice(&entries);
    }
    // Of period 4: kept as tiles.
    for (i, x) in matrix.diagonal(5).iter_mut().enumerate() {
        *x = Complex::new((i % 4) as f64, 0.5);
    }
    let scale = context.step(5) * context.scale(4).unwrap() / context.scale(5).unwrap();
    let map = LinearMap::new(context, &matrix, 5, 4, scale, UNWATCHED).unwrap();
    let m = message(n, 0.9);
    let x = context.encrypt(&m, 5, secret).unwrap();
    let missing = linear::apply(&map, &x, &evaluator).err().map(|e| e.kind());
    assert_eq!(missing, Some("wrong_key"), "the key of the rotation by 2 was not made");
    let keys = context.keys(secret, &Needs::default().rotate(matrix.keys(4), 5)).unwrap();
    let evaluator = Instructions::new(context, &keys).unwrap();
    let y = linear::apply(&map, &x, &evaluator).unwrap();
    assert!(y.level() == 4 && bits(&y, &matrix.apply(&m)) > 23.0);
    let twice = matrix.after(&matrix);
    let direct = matrix.apply(&matrix.apply(&m));
    let close = |(a, b): (&Complex, &Complex)| (*a - *b).abs() < 1e-10;
    assert!(twice.apply(&m).iter().zip(&direct).all(close));
}

/// The small transform of a polynomial in X^8 gives the values of the large one.
#[test]
fn tiles_are_those_of_the_whole_transform() {
    let context = &WORLD.context;
    let (n, ring) = (context.params().degree(), context.ring());
    assert!(context.part(8).is_some());
    for slots in [1, 32, n / 64, n / 32, n / 16] {
        let m = message(slots, 0.6);
        let (count, special) = (7, context.special());
        // At a scale of 2^50 the rounding errors of the two FFTs reach a coefficient now and then, on some processors.
        let scale = 2f64.powi(30);
        let [whole, kept] = [
            context.plain(&m, scale, count, special),
            context.plain_tiled(&m, scale, count, special),
        ];
        assert_eq!(whole.len(), 8 * kept.len());
        for (i, (whole, kept)) in whole.chunks(n).zip(kept.chunks(n / 8)).enumerate() {
            let p = ring.word(context.word_of(i, count)).p as i64;
            let differ = |(a, b): (&f64, &f64)| (*a as i64 - *b as i64) % p != 0;
            for (tile, vector) in whole.chunks(64).zip(kept.chunks(8)) {
                let vectors = tile.chunks(8).flat_map(|x| x.iter().zip(vector));
                assert!(!vectors.into_iter().any(differ), "{slots} slots, limb {i}");
            }
        }
    }
}

#[test]
fn polynomials_are_those_of_their_coefficients() {
    let World { context, secret, keys } = &*WORLD;
    let evaluator = Instructions::new(context, keys).unwrap();
    let m: Vec<Complex> = (0..2048).map(|j| Complex::from((j as f64 / 1023.5) - 1.0)).collect();
    let x = context.encrypt(&m, 8, secret).unwrap();
    for degree in [1, 2, 3, 4, 6, 7, 15, 22, 31] {
        let p = Chebyshev((0..=degree).map(|i| ((i * i) as f64).cos() / (1 + i) as f64).collect());
        let wanted: Vec<Complex> = m.iter().map(|v| Complex::from(p.value(v.re))).collect();
        let y = polynomial::evaluate(&evaluator, &x, &p, 2f64.powi(44)).unwrap();
        assert_eq!(y.level(), 8 - p.depth());
        assert!((y.scale().log2() - 44.0).abs() < 1e-9);
        assert!(bits(&y, &wanted) > 22.0, "degree {degree}");
    }
    let powers = [0.5, -1.0, 0.25, 2.0, 1.0];
    let p = Chebyshev::from_powers(&powers);
    for x in [-1.0, -0.3, 0.0, 0.7, 1.0f64] {
        let wanted: f64 = powers.iter().rev().fold(0.0, |sum, c| sum * x + c);
        assert!((p.value(x) - wanted).abs() < 1e-14);
    }
}

/// Keys come back from their bytes, in at most 45 % of their memory; altered and foreign bytes do not.
#[test]
fn keys_travel_as_seeds_and_bodies() {
    let World { context, secret, keys } = &*WORLD;
    let mut bytes = vec![];
    context.write_keys(keys, &mut bytes).unwrap();
    assert!(
        (bytes.len() as f64) < 0.45 * keys.bytes() as f64,
        "{} of {}",
        bytes.len(),
        keys.bytes()
    );
    let back = context.read_keys(&bytes[..]).unwrap();
    let m = message(2048, 0.3);
    let x = context.encrypt(&m, 2, secret).unwrap();
    let evaluator = Instructions::new(context, &back).unwrap();
    let turned: Vec<Complex> = (0..2048).map(|j| m[(j + 4) % 2048]).collect();
    assert!(bits(&evaluator.rotate(&x, 4).unwrap(), &turned) > 28.0);
    let squares: Vec<Complex> = m.iter().map(|v| *v * *v).collect();
    assert!(bits(&evaluator.multiply(&x, &x).unwrap(), &squares) > 27.0);
    let kind = |bytes: &[u8]| context.read_keys(bytes).err().map(|e| e.kind());
    assert_eq!(kind(&bytes[..bytes.len() - 1]), Some("bad_file"));
    for at in [0, 17, bytes.len() / 2, bytes.len() - 1] {
        bytes[at] ^= 1;
        assert_eq!(kind(&bytes), Some("bad_file"), "byte {at}");
        bytes[at] ^= 1;
    }
}

/// Keys that stay in their file do the same as those in memory and take none; a file that was altered is refused.
#[test]
fn keys_stay_in_their_file() {
    let World { context, secret, keys } = &*WORLD;
    let path = std::env::temp_dir().join(format!("becalm-test-keys-{}", std::process::id()));
    let mut bytes = vec![];
    context.write_keys(keys, &mut bytes).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let stored = context.open_keys(&path).unwrap();
    assert_eq!(stored.bytes(), 0);
    let m = message(2048, 0.2);
    for level in [5, 1] {
        let x = context.encrypt(&m, level, secret).unwrap();
        let run = |keys: &CkksKeys| {
            let evaluator = Instructions::new(context, keys).unwrap();
            // Twice: the second time the key is there, for a level that is lower.
            let once = evaluator.rotate(&x, 3).unwrap();
            let square = evaluator.multiply(&once, &once).unwrap();
            context.ciphertext_to_bytes(&evaluator.rotate(&square, 3).unwrap()).unwrap()
        };
        assert_eq!(run(keys), run(&stored), "level {level}");
    }
    let mut again = vec![];
    context.write_keys(&stored, &mut again).unwrap();
    assert!(again == bytes, "written as it was");
    // Written to since it was opened and checked: refused when it is used.
    std::fs::write(&path, &bytes).unwrap();
    let evaluator = Instructions::new(context, &stored).unwrap();
    let x = context.encrypt(&m, 5, secret).unwrap();
    let says = evaluator.rotate(&x, 3).err().unwrap().to_string();
    assert!(says.contains("changed since it was opened"), "{says}");
    assert_eq!(context.load_keys(&path).unwrap().bytes(), keys.bytes());
    let kind = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        context.open_keys(&path).err().map(|e| e.kind())
    };
    let end = bytes.len() - 1;
    assert_eq!(kind(&bytes[..end]), Some("bad_file"));
    for at in [3, 40, bytes.len() / 2, end] {
        bytes[at] ^= 1;
        assert_eq!(kind(&bytes), Some("bad_file"), "byte {at}");
        bytes[at] ^= 1;
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(context.open_keys(&path).err().map(|e| e.kind()), Some("io"));
}

/// Keys that were written come back packed, as they were made packed, and compute the same; residues that are not reduced are refused.
#[test]
fn keys_stay_packed_in_memory() {
    let World { context, secret, keys } = &*WORLD;
    let path = std::env::temp_dir().join(format!("becalm-test-packed-{}", std::process::id()));
    let mut bytes = vec![];
    context.write_keys(keys, &mut bytes).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let needs = Needs { conjugate: Some(3), ..Needs::default() }.rotate([1, 3, 4, 12], 5);
    let read = |form| context.load_keys_with(&path, form, UNWATCHED);
    let x = context.encrypt(&message(2048, 0.2), 4, secret).unwrap();
    let run = |keys: &CkksKeys| {
        let evaluator = Instructions::new(context, keys).unwrap();
        let turned = evaluator.rotate(&x, 3).unwrap();
        let y = evaluator.multiply(&turned, &turned).unwrap();
        context.ciphertext_to_bytes(&y).unwrap()
    };
    for (form, most) in [(KeyForm::Packed, 0.8), (KeyForm::Seeded, 0.75)] {
        let packed = read(form).unwrap();
        let made = context.keys_with(secret, &needs, form, None, UNWATCHED).unwrap();
        assert_eq!(made.bytes(), context.key_bytes_as(&needs, form), "known before");
        let part = packed.bytes() as f64 / keys.bytes() as f64;
        assert!(part < most, "{part} of the size {form:?}");
        assert_eq!(run(keys), run(&packed), "{form:?}");
        let mut again = vec![];
        context.write_keys(&packed, &mut again).unwrap();
        assert!(again == bytes, "written as it was");
    }
    std::fs::remove_file(&path).unwrap();
}

/// A residue of all ones is not below its prime. An attacker who writes it can write the digest too: every form refuses it, and
/// where keys stay in their file, before anything is computed with it.
#[test]
fn residues_that_are_not_reduced_are_refused_in_every_form() {
    let World { context, keys, .. } = &*WORLD;
    let path = std::env::temp_dir().join(format!("becalm-test-reduced-{}", std::process::id()));
    let mut bytes = vec![];
    context.write_keys(keys, &mut bytes).unwrap();
    let end = bytes.len() - 32;
    for eighth in 1..=8 {
        let mut bytes = bytes.clone();
        let at = end * eighth / 8;
        bytes[at - 16..at].fill(255);
        let digest = *blake3::hash(&bytes[..end]).as_bytes();
        bytes[end..].copy_from_slice(&digest);
        std::fs::write(&path, &bytes).unwrap();
        let forms = [KeyForm::Ready, KeyForm::Packed, KeyForm::Seeded];
        let read = forms.map(|form| context.load_keys_with(&path, form, UNWATCHED));
        let others = [context.open_keys(&path), context.read_keys(&bytes[..])];
        for (i, found) in read.into_iter().chain(others).enumerate() {
            let error =
                found.err().unwrap_or_else(|| panic!("eighth {eighth}: reader {i} took it"));
            assert_eq!(error.kind(), "bad_file");
            assert!(error.to_string().contains("not reduced"), "{error}");
        }
    }
    std::fs::remove_file(&path).unwrap();
}

/// A ciphertext at rest takes as much as its file, and comes back to the bit, with all that it is known by.
#[test]
fn ciphertexts_rest_packed() {
    let World { context, secret, .. } = &*WORLD;
    for level in [0, 4, context.params().levels] {
        let x = context.encrypt(&message(64, 0.3), level, secret).unwrap();
        let packed = context.pack(&x).unwrap();
        assert_eq!(packed.bytes(), context.stored_ciphertext_bytes(level));
        assert!(packed.bytes() * 5 <= x.bytes() * 4, "{} of {}", packed.bytes(), x.bytes());
        assert_eq!((packed.level(), packed.slots()), (level, 64));
        let [a, b] = [&x, &context.unpack_ciphertext(&packed).unwrap()]
            .map(|x| context.ciphertext_to_bytes(x).unwrap());
        assert!(a == b, "level {level}");
    }
    let other = Context::new(CkksParams::named("ckks_toy_13").unwrap(), true).unwrap();
    let x = context.encrypt(&message(64, 0.3), 1, secret).unwrap();
    assert_eq!(other.pack(&x).err().map(|e| e.kind()), Some("wrong_params"));
    let packed = context.pack(&x).unwrap();
    assert_eq!(other.unpack_ciphertext(&packed).err().map(|e| e.kind()), Some("wrong_params"));
}

/// The capacity of a level follows from public numbers alone: a scale or an error that does not fit is refused for all values.
#[test]
fn what_has_no_room_is_refused() {
    let World { context, secret, keys } = &*WORLD;
    let evaluator = Instructions::new(context, keys).unwrap();
    let x = context.encrypt(&message(8, 0.0), 2, secret).unwrap();
    // Up to the bound results are right, and at four times it they are not.
    let low = context.encrypt(&[Complex::from(0.5); 8], 1, secret).unwrap();
    let largest = context.largest(&level_down(context, &low, 0).unwrap());
    assert!((63.0..66.0).contains(&largest), "2^50/4 at the scale 2^42: {largest}");
    for (size, right) in [(0.9 * largest, true), (4.1 * largest, false)] {
        let held = context.encrypt(&[Complex::from(size); 8], 1, secret).unwrap();
        let two = context.encrypt(&[Complex::from(1.0); 8], 1, secret).unwrap();
        let z = evaluator.multiply(&held, &two).unwrap();
        let got = context.decrypt(&z, secret).unwrap()[0].re;
        assert_eq!((got / size - 1.0).abs() < 1e-3, right, "{got} of {size}");
    }
    // A scale without room, as a file might claim it.
    let wide = Rlwe { scale: 0.5 * context.room(2), ..x.clone() };
    let e = evaluator.multiply(&wide, &wide).err().unwrap();
    assert!(e.kind() == "bad_input" && e.to_string().contains("a scale below"), "{e}");
}

#[test]
fn a_note_that_no_writer_writes_is_refused() {
    let World { context, keys, .. } = &*WORLD;
    let path = std::env::temp_dir().join(format!("becalm-test-note-{}", std::process::id()));
    let mut noted = vec![];
    context.write_noted_keys(keys, "12345", &mut noted).unwrap();
    let at = noted.windows(5).position(|w| w == b"12345").unwrap();
    noted.splice(at..at + 5, vec![b'x'; 5000]);
    let length = u32::from_le_bytes(noted[16..20].try_into().unwrap()) + 4995;
    noted[16..20].copy_from_slice(&length.to_le_bytes());
    std::fs::write(&path, &noted).unwrap();
    for error in [inspect(&path).err(), context.load_keys(&path).err()] {
        assert!(error.unwrap().to_string().contains("a note of 5000 bytes"));
    }
    std::fs::remove_file(&path).unwrap();
}

/// Files describe their contents without a context.
#[test]
fn files_are_described() {
    let World { context, secret, keys } = &*WORLD;
    let path = std::env::temp_dir().join(format!("becalm-test-inspect-{}", std::process::id()));
    let x = context.encrypt(&message(8, 0.0), 3, secret).unwrap();
    context.save_ciphertext(&x, &path).unwrap();
    let d = inspect(&path).unwrap();
    assert_eq!((d.kind, d.params.as_str(), d.in_table), (Kind::Rlwe, "ckks_toy_12", true));
    assert_eq!((d.key, d.level, d.slots), (Some(secret.id()), Some(3), Some(8)));
    assert_eq!((d.scale, d.error), (Some(x.scale()), Some(x.error())));
    assert_eq!(d.bytes, std::fs::metadata(&path).unwrap().len());
    context.save_secret_key(secret, &path).unwrap();
    let d = inspect(&path).unwrap();
    assert_eq!((d.kind, d.key, d.level), (Kind::CkksSecretKey, Some(secret.id()), None));
    context.write_keys(keys, std::fs::File::create(&path).unwrap()).unwrap();
    let d = inspect(&path).unwrap();
    assert_eq!((d.kind, d.in_table), (Kind::CkksEvaluationKeys, true));
    let wanted =
        [("products", 10), ("rotation by 1", 5), ("rotation by 12", 5), ("conjugation", 3)];
    for (name, level) in wanted {
        assert!(d.switches().contains(&(name.to_string(), level)), "{name}: {:?}", d.switches());
    }
    assert_eq!(d.switches().len(), 6);
    assert_eq!(d.note, "");
    let file = || std::fs::File::create(&path).unwrap();
    context.write_noted_keys(keys, "for tests", file()).unwrap();
    let d = inspect(&path).unwrap();
    assert_eq!((d.note.as_str(), whole_bytes(&d)), ("for tests", Some(d.bytes)));
    // Cut, it still gives its kind and its length.
    let all = std::fs::read(&path).unwrap();
    std::fs::write(&path, &all[..all.len() - 100]).unwrap();
    let cut = inspect(&path).unwrap();
    assert_eq!((cut.note.as_str(), cut.bytes + 100), ("for tests", d.bytes));
    assert_eq!(whole_bytes(&cut), Some(d.bytes));
    let seeded = context.load_keys_with(&path, KeyForm::Seeded, UNWATCHED);
    for found in [context.load_keys(&path), context.open_keys(&path), seeded] {
        let e = found.err().unwrap();
        let (wanted, got) = (format!("{} bytes", d.bytes), format!("{} bytes", cut.bytes));
        assert!(e.kind() == "bad_file" && e.detail().wanted.ends_with(&wanted), "{e}");
        assert_eq!(e.detail().got, got);
    }
    std::fs::write(&path, &all).unwrap();
    assert_eq!(context.load_keys(&path).unwrap().bytes(), keys.bytes());
    let long = context.write_noted_keys(keys, &"x".repeat(5000), file());
    assert_eq!(long.err().map(|e| e.kind()), Some("bad_input"));
    context.write_keys(keys, file()).unwrap();
    std::fs::write(&path, &std::fs::read(&path).unwrap()[..30]).unwrap();
    assert_eq!(inspect(&path).err().map(|e| e.kind()), Some("bad_file"));
    std::fs::write(&path, "nothing").unwrap();
    assert_eq!(inspect(&path).err().map(|e| e.kind()), Some("bad_file"));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(inspect(&path).err().map(|e| e.kind()), Some("io"));
}

/// A key serves its level and those below, costs no more than they need, and is made again for a higher one alone.
#[test]
fn keys_reach_to_their_level() {
    let World { context, secret, keys } = &*WORLD;
    let evaluator = Instructions::new(context, keys).unwrap();
    let m = message(2048, 0.7);
    let at = |level| context.encrypt(&m, level, secret).unwrap();
    let turned: Vec<Complex> = (0..2048).map(|j| m[(j + 3) % 2048]).collect();
    for level in [5, 4, 0] {
        assert!(bits(&evaluator.rotate(&at(level), 3).unwrap(), &turned) > 24.0, "level {level}");
    }
    let says = evaluator.rotate(&at(6), 3).err().unwrap().to_string();
    assert!(says.contains("up to level 6, got one up to level 5"), "{says}");
    assert_eq!(evaluator.conjugate(&at(4)).err().map(|e| e.kind()), Some("wrong_key"));
    let (low, high) = (Needs::default().rotate([3, 4], 5), Needs::default().rotate([3], 10));
    let sizes = [&low, &low.clone().union(&high)].map(|n| context.key_bytes(n));
    assert!(sizes[0] < sizes[1], "{sizes:?}");
    let made = AtomicUsize::new(0);
    let both = context.keys_with(secret, &high, KeyForm::Ready, Some(keys), &|_, all| {
        made.store(all, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    let both = both.unwrap();
    assert_eq!(made.into_inner(), 1, "all else is there");
    assert_eq!(both.bytes() - keys.bytes(), sizes[1] - sizes[0]);
    for united in [keys.union(&both).unwrap(), both.union(keys).unwrap()] {
        assert_eq!(united.bytes(), both.bytes(), "the higher of two");
        let evaluator = Instructions::new(context, &united).unwrap();
        assert!(bits(&evaluator.rotate(&at(10), 3).unwrap(), &turned) > 28.0);
    }
}

/// Into another tier all words change, and values stay the same; a key of one tier does not serve another.
#[test]
fn values_pass_from_tier_to_tier() {
    let World { context, secret, keys } = &*WORLD;
    let tiers = context.params().tiers();
    assert_eq!(tiers, [0..14, 14..22, 22..25]);
    let x = context.encrypt(&message(2048, 0.2), 0, secret).unwrap();
    let parts = [0, 1].map(|k| residues::lift(context, &x.parts[k], 24, 0, 2f64.powi(14)));
    let raised = sum::ciphertext(&x, 24, context.step(0) * 2f64.powi(14), parts);
    let wanted = context.decrypt(&raised, secret).unwrap();
    for level in [23, 22, 21, 18, 14, 13, 9] {
        let low = sum::truncate(context, &raised, level);
        assert_eq!((low.level(), low.scale()), (level, raised.scale()));
        assert!(bits(&low, &wanted) > 35.0, "level {level}");
    }
    let rescaled = rescale(context, &sum::truncate(context, &raised, 22)).unwrap();
    assert!(rescaled.level() == 21 && rescaled.scale() < 1.0, "a step of 68 bits");
    let evaluator = Instructions::new(context, keys).unwrap();
    let missing = evaluator.rotate(&sum::truncate(context, &raised, 14), 3).err().map(|e| e.kind());
    assert_eq!(missing, Some("wrong_key"), "the keys there are of the tier below");
    let needs = Needs::default().rotate([3], 5).rotate([3], 14).rotate([4], 5);
    let two = context.keys_with(secret, &needs, KeyForm::Ready, Some(keys), UNWATCHED).unwrap();
    let evaluator = Instructions::new(context, &two).unwrap();
    let turned: Vec<Complex> = (0..2048).map(|j| wanted[(j + 3) % 2048]).collect();
    for level in [14, 5] {
        let y = evaluator.rotate(&sum::truncate(context, &raised, level), 3).unwrap();
        assert!(bits(&y, &turned) > 35.0, "level {level}");
    }
    let mut bytes = vec![];
    context.write_keys(&two, &mut bytes).unwrap();
    assert_eq!(context.read_keys(&bytes[..]).unwrap().bytes(), two.bytes());
    let stored = context.stored_key_bytes(&needs);
    assert!(stored < bytes.len() && bytes.len() < 3 * stored, "{stored} of {}", bytes.len());
}

#[test]
fn bad_input_is_refused() {
    let World { context, secret, keys } = &*WORLD;
    let evaluator = Instructions::new(context, keys).unwrap();
    let m = message(8, 0.0);
    let kind = |r: crate::Result<Rlwe>| r.err().map(|e| e.kind());
    for bad in [f64::NAN, f64::INFINITY, 1e300] {
        let values = vec![Complex::from(bad); 4];
        assert_eq!(kind(context.encrypt(&values, 3, secret)), Some("bad_input"), "{bad}");
    }
    assert_eq!(kind(context.encrypt(&m[..3], 3, secret)), Some("bad_input"));
    assert_eq!(kind(context.encrypt(&message(4096, 0.0), 3, secret)), Some("bad_input"));
    assert_eq!(kind(context.encrypt(&m, 11, secret)), Some("bad_input"));
    let x = context.encrypt(&m, 0, secret).unwrap();
    assert_eq!(kind(evaluator.multiply(&x, &x)), Some("bad_input"));
    assert_eq!(kind(level_down(context, &x, 1)), Some("bad_input"));
    assert_eq!(kind(evaluator.rotate(&x, 2)), Some("wrong_key"));
    let other = context.secret_key().unwrap();
    assert_eq!(context.decrypt(&x, &other).err().map(|e| e.kind()), Some("wrong_key"));
    let y = context.encrypt(&m, 0, &other).unwrap();
    assert_eq!(kind(add(context, &x, &y)), Some("wrong_key"));
    let z = context.encrypt(&message(4, 0.0), 0, secret).unwrap();
    assert_eq!(kind(add(context, &x, &z)), Some("bad_input"));
    let toy = CkksParams::named("ckks_toy_12").unwrap();
    assert_eq!(Context::new(toy, false).err().map(|e| e.kind()), Some("insecure"));
}
