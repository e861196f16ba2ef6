//! Sums, products with one relinearization, encoded values, maps of a band, polynomials: values, claims and refusals.

use super::*;
use crate::backend::cpu::rlwe::key_switch::{Decomposed, Raised};
use crate::backend::cpu::rlwe::linear::apply;
use crate::cipher::Purpose;
use crate::{Error, Result, UNWATCHED};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

fn refused<T>(kind: &str, words: &str, made: Result<T>) {
    let e = made.err().unwrap();
    assert!(e.kind() == kind && e.to_string().contains(words), "{e}");
}

/// The error in units of the claim.
fn part(x: &Rlwe, wanted: &[Complex]) -> f64 {
    let got = WORLD.context.decrypt(x, &WORLD.secret).unwrap();
    let squares = got.iter().zip(wanted).map(|(a, b)| (*a - *b).abs().powi(2)).sum::<f64>();
    let part = (squares / wanted.len() as f64).sqrt() / x.error();
    println!("{part:.3} of the claim, {:.1} bits", -x.error().log2());
    part
}

fn keys(rotations: impl IntoIterator<Item = i64>) -> Arc<CkksKeys> {
    let needs = Needs::default().rotate(rotations, 10);
    Arc::new(WORLD.context.keys(&WORLD.secret, &needs).unwrap())
}

/// A ciphertext and an encoded plaintext have the words of the ciphertext and the values, whatever their levels and scales are.
#[test]
fn what_is_encoded_once_serves_every_level_with_the_same_words() {
    let World { context, secret, .. } = &*WORLD;
    let (m, k) = (message(2048, 0.3), message(2048, 1.7));
    let plain = Plain::new(context, &k, 6).unwrap();
    assert_eq!((plain.level(), plain.slots(), plain.params()), (6, 2048, "ckks_toy_12"));
    assert_eq!(plain.scale(), context.scale(6).unwrap());
    assert_eq!(plain.bytes(), context.words(6) * 4096 * 8 + 2048 * 16);
    let back = plain.decode(context).unwrap();
    assert!(back.iter().zip(&k).all(|(a, b)| (*a - *b).abs() < 1e-9));
    let sums: Vec<Complex> = m.iter().zip(&k).map(|(a, b)| *a + *b).collect();
    let products: Vec<Complex> = m.iter().zip(&k).map(|(a, b)| *a * *b).collect();
    let bytes = |x: Rlwe| context.ciphertext_to_bytes(&x).unwrap();
    for level in [10, 6, 5, 1, 10] {
        let x = context.encrypt(&m, level, secret).unwrap();
        let odd = Rlwe { scale: x.scale * 1.25, ..x.clone() };
        let sum = plain::add(context, &x, &plain).unwrap();
        assert!(sum.level() == level && bits(&sum, &sums) > 27.0, "level {level}");
        let product = plain::multiply(context, &x, &plain).unwrap();
        assert!(product.level() == level - 1, "level {level}");
        let claimed = server(&WORLD.keys).multiply_plain(&x, &k).unwrap();
        assert!(part(&claimed, &products) < 1.2, "level {level}");
        assert!(bits(&product, &products) > -claimed.error().log2() - 4.0, "level {level}");
        let scale = context.scale(level - 1).unwrap();
        assert!((product.scale() / scale - 1.0).abs() < 1e-12, "level {level}");
        for x in [&x, &odd] {
            let met = [plain::add(context, x, &plain), plain::multiply(context, x, &plain)];
            let values = [plain::add(context, x, &k), plain::multiply(context, x, &k)];
            assert_eq!(met.map(|x| bytes(x.unwrap())), values.map(|x| bytes(x.unwrap())));
        }
        let both = context.words(6) + context.words(level);
        assert_eq!(plain.bytes(), both * 4096 * 8 + 2048 * 16, "level {level}");
    }
    let x = context.encrypt(&m, 0, secret).unwrap();
    assert!(bits(&plain::add(context, &x, &plain).unwrap(), &sums) > 24.0);
    refused("bad_input", "level 1 or above", plain::multiply(context, &x, &plain));
    // One value for all slots.
    let half = Plain::new(context, &[Complex::from(0.5)], 6).unwrap();
    let x = context.encrypt(&m, 6, secret).unwrap();
    let halves: Vec<Complex> = m.iter().map(|a| *a * 0.5).collect();
    assert!(bits(&plain::multiply(context, &x, &half).unwrap(), &halves) > 27.0);
    let few = Plain::new(context, &k[..4], 6).unwrap();
    refused("bad_input", "2048 values", plain::add(context, &x, &few));
    refused("bad_input", "a level from 0 to 10", Plain::new(context, &k, 11));
    refused("bad_input", "a power of two", Plain::new(context, &k[..3], 1));
    refused("bad_input", "values below", Plain::new(context, &[Complex::from(1e3)], 0));
    refused("bad_input", "NaN", Plain::new(context, &[Complex::from(f64::NAN)], 0));
    let large = Plain::new(context, &[Complex::from(1e3)], 1).unwrap();
    let x = context.encrypt(&m, 1, secret).unwrap();
    refused("bad_input", "values below", plain::multiply(context, &x, &large));
}

#[test]
fn slots_are_summed() {
    let World { context, secret, .. } = &*WORLD;
    assert_eq!(sum_rotations(8), [1, 2, 4]);
    assert!(sum_rotations(1).is_empty());
    let keys = keys(sum_rotations(2048));
    let evaluator = server(&keys);
    for (slots, size) in [(2048, 2048), (2048, 16), (8, 8), (8, 1)] {
        let m = message(slots, 0.8);
        let window = |i: usize| (i..i + size).map(|j| m[j % slots]);
        let wanted: Vec<Complex> =
            (0..slots).map(|i| window(i).fold(Complex::default(), |a, b| a + b)).collect();
        for level in [10, 1] {
            let x = context.encrypt(&m, level, secret).unwrap();
            let y = evaluator.sum(&x, size).unwrap();
            // Of few slots the mean is that of few errors.
            let most = if slots == 2048 { 1.2 } else { 3.0 };
            let part = part(&y, &wanted);
            assert!(y.level() == level && part < most, "{size} of {slots}, level {level}: {part}");
        }
    }
    let x = context.encrypt(&message(8, 0.8), 3, secret).unwrap();
    for size in [0, 3, 16] {
        refused("bad_input", "a power of two of at most 8", evaluator.sum(&x, size));
    }
    let few = Instructions::new(context, &WORLD.keys).unwrap();
    refused("wrong_key", "rotation by 2", few.sum(&x, 4));
}

#[test]
fn products_are_summed_with_one_relinearization() {
    let World { context, secret, keys } = &*WORLD;
    let evaluator = server(keys);
    let m: Vec<Vec<Complex>> = (0..12).map(|i| message(2048, i as f64)).collect();
    let x: Vec<Rlwe> =
        m.iter().enumerate().map(|(i, m)| context.encrypt(m, 4 + i % 3, secret).unwrap()).collect();
    let pairs: Vec<(&Rlwe, &Rlwe)> = (0..6).map(|i| (&x[i], &x[11 - i])).collect();
    let sum = |j: usize| (0..6).fold(Complex::default(), |sum, i| sum + m[i][j] * m[11 - i][j]);
    let wanted: Vec<Complex> = (0..2048).map(sum).collect();
    let y = evaluator.dot(&pairs).unwrap();
    assert!(y.level() == 3 && part(&y, &wanted) < 1.2);
    assert!((y.scale() / context.scale(3).unwrap() - 1.0).abs() < 1e-9);
    // A square is a dot product of one.
    let square = evaluator.dot(&[(&x[0], &x[0])]).unwrap();
    let bytes = |x: &Rlwe| context.ciphertext_to_bytes(x).unwrap();
    assert_eq!(bytes(&square), bytes(&evaluator.multiply(&x[0], &x[0]).unwrap()));
    // Terms that are the same have errors that add up.
    let same = evaluator.dot(&[(&x[0], &x[3]); 9]).unwrap();
    let wanted: Vec<Complex> = m[0].iter().zip(&m[3]).map(|(a, b)| *a * *b * 9.0).collect();
    assert!(part(&same, &wanted) < 1.2);
    // Key switches of one product, however many terms. A separate context counts for this alone.
    let own = Context::new(context.params(), true).unwrap();
    let evaluator = Instructions::new(&own, keys).unwrap();
    let transforms = |n: usize| {
        let context = &own;
        let before = context.work().transforms;
        evaluator.dot(&vec![(&x[0], &x[3]); n]).unwrap();
        context.work().transforms - before
    };
    assert_eq!(transforms(1), transforms(9));
    let evaluator = Instructions::new(context, keys).unwrap();
    refused("bad_input", "one pair", evaluator.dot(&[]));
    let low = context.encrypt(&m[0], 0, secret).unwrap();
    refused("bad_input", "level 1 or above", evaluator.dot(&[(&x[0], &x[1]), (&x[2], &low)]));
    let short = context.encrypt(&m[0][..4], 4, secret).unwrap();
    refused("bad_input", "2048 slots", evaluator.dot(&[(&x[0], &short)]));
    let other = context.encrypt(&m[0], 4, &context.secret_key().unwrap()).unwrap();
    refused("wrong_key", "evaluation keys", evaluator.dot(&[(&x[0], &other)]));
    let odd = rescale(context, &x[1]).unwrap();
    refused("bad_input", "scale", evaluator.dot(&[(&x[0], &x[3]), (&odd, &odd)]));
    assert!((odd.scale() * context.step(x[1].level()) / x[1].scale() - 1.0).abs() < 1e-12);
    refused("bad_input", "level 1 or above", rescale(context, &low));
}

/// The error that a key adds is claimed: at the highest levels, where a digit is nearly as large as P, more than the rounding.
#[test]
fn rotations_have_the_error_that_they_claim() {
    let World { context, secret, .. } = &*WORLD;
    let keys = keys([1, 7]);
    let evaluator = server(&keys);
    let m = message(2048, 0.5);
    for level in [10, 8, 6, 4, 2, 0] {
        let x = context.encrypt(&m, level, secret).unwrap();
        for (y, by) in evaluator.rotate_many(&x, &[1, 7]).unwrap().iter().zip([1, 7]) {
            let turned: Vec<Complex> = (0..2048).map(|j| m[(j + by) % 2048]).collect();
            let part = part(y, &turned);
            assert!((0.8..1.2).contains(&part), "level {level}: {part} of the claim");
        }
    }
}

fn random(slots: usize, diagonals: impl IntoIterator<Item = i64>) -> Matrix {
    let mut matrix = Matrix::zero(slots);
    for k in diagonals {
        matrix.diagonal(k).copy_from_slice(&message(slots, k as f64 * 1.1));
    }
    matrix
}

#[test]
fn bands_are_gathered_and_maps_are_within_their_claims() {
    let World { context, secret, .. } = &*WORLD;
    for (slots, diagonals, moved) in [
        (2048, vec![-1, 0, 1], 0i64),
        (2048, (-20..=11).collect(), -20),
        (2048, vec![5, 70, 133], 0),
        (2048, (1000..1064).map(|k| 2 * k).collect(), 2000),
        (2048, vec![0, 3, 64], 0),
        (128, (0..128).collect::<Vec<i64>>(), 0),
    ] {
        let matrix = random(slots, diagonals.iter().copied());
        let (gathered, by) = matrix.clone().gathered();
        assert_eq!(by, moved.rem_euclid(slots as i64), "{diagonals:?}");
        let baby = gathered.balanced();
        let rotations: Vec<i64> = gathered.keys(baby).into_iter().chain([by]).collect();
        assert!(rotations.len() <= 20, "{rotations:?}");
        let keys = keys(rotations);
        let evaluator = server(&keys);
        let gathered = Arc::new(gathered);
        let m = message(slots, 0.2);
        let x = context.encrypt(&m, 7, secret).unwrap();
        let y = evaluator.rotate(&evaluator.linear(&x, &gathered, baby).unwrap(), by).unwrap();
        let part = part(&y, &matrix.apply(&m));
        assert!(y.level() == 6 && part < 1.2, "{diagonals:?}: {part}");
        assert!((y.scale() / context.scale(6).unwrap() - 1.0).abs() < 1e-9);
    }
    assert_eq!((random(2048, [0]).balanced(), random(2048, [-1, 0, 1]).keys(2048).len()), (1, 2));
    let balanced: Vec<usize> = [4, 32, 256, 1024].map(|n| random(n, 0..n as i64).balanced()).into();
    assert!(balanced.is_sorted() && (4..=16).contains(&balanced[3]), "{balanced:?}");
}

/// Of many diagonals that repeat only the coefficients are kept, and the values are made when they are used: the products are the same
/// with one middle step, with pairs of them and with single ones.
#[test]
fn many_diagonals_are_kept_as_coefficients() {
    let World { context, secret, .. } = &*WORLD;
    let (scale, level) = (context.scale(5).unwrap(), 5);
    let limbs = (context.words(level) + context.special()) * context.params().degree();
    let (all, half) = ((128, 128 * 128 * 16, vec![2, 128]), (64, 64 * limbs, vec![4]));
    let slots = 128;
    for (count, bytes, babies) in [all, half] {
        let matrix = random(slots, 0..count);
        assert_eq!(matrix.encoded_bytes(context, level), bytes, "{count} diagonals");
        let m = message(slots, 0.4);
        let x = context.encrypt(&m, level, secret).unwrap();
        for baby in babies {
            let keys = keys(matrix.keys(baby));
            let map = LinearMap::new(context, &matrix, level, baby, scale, UNWATCHED).unwrap();
            assert_eq!(map.bytes(), bytes, "{count} diagonals");
            let made = server(&keys).linear(&x, &Arc::new(matrix.clone()), baby).unwrap();
            let part = part(&made, &matrix.apply(&m));
            assert!(part < 1.2, "{count} diagonals, {baby} baby steps: {part} of the claim");
        }
    }
}

/// The error of a permutation is not smaller than its norm says: every step's rounding is in the claim.
#[test]
fn permutations_have_the_error_that_they_claim() {
    let World { context, secret, .. } = &*WORLD;
    for (slots, level, baby) in [(128, 7, 1), (128, 3, 4), (512, 4, 8), (2048, 6, 16)] {
        let mut matrix = Matrix::zero(slots);
        for a in 0..slots {
            let to = (5 * a + 3) % slots;
            matrix.diagonal(to as i64 - a as i64)[a] = Complex::from(100.0);
        }
        let keys = keys(matrix.keys(baby));
        let (evaluator, matrix) = (server(&keys), Arc::new(matrix));
        let m = message(slots, 0.3);
        let x = context.encrypt(&m, level, secret).unwrap();
        let y = evaluator.linear(&x, &matrix, baby).unwrap();
        let part = part(&y, &matrix.apply(&m));
        assert!((0.6..1.2).contains(&part), "{slots}, {level}, {baby}: {part} of the claim");
    }
}

#[test]
fn maps_and_polynomials_without_room_are_refused() {
    let World { context, secret, keys, .. } = &*WORLD;
    let evaluator = Instructions::new(context, keys).unwrap();
    let mut matrix = Matrix::zero(2048);
    matrix.diagonal(0).fill(Complex::from(1e6));
    let scale = context.scale(1).unwrap();
    refused("bad_input", "values below", LinearMap::new(context, &matrix, 1, 1, scale, UNWATCHED));
    assert!(LinearMap::new(context, &matrix, 2, 1, context.scale(2).unwrap(), UNWATCHED).is_ok());
    let x = context.encrypt(&message(2048, 0.3), 1, secret).unwrap();
    let steep = Chebyshev(vec![0.0, 1e6]);
    let at = context.scale(0).unwrap();
    refused("bad_input", "values below", polynomial::evaluate(&evaluator, &x, &steep, at));
    let x = context.encrypt(&message(2048, 0.3), 5, secret).unwrap();
    let steep = Chebyshev(vec![0.0, 1e300, 1.0]);
    refused("bad_input", "values below", polynomial::evaluate(&evaluator, &x, &steep, scale));
}

type Compute<'a> = dyn Fn(&Instructions) -> Result<Rlwe> + 'a;

/// Long work stops when the caller asks for it, and returns `Interrupted`.
#[test]
fn long_work_is_stopped() {
    let World { context, secret, .. } = &*WORLD;
    let keys = keys(sum_rotations(2048));
    let x = context.encrypt(&message(2048, 0.1), 9, secret).unwrap();
    let matrix = random(2048, 0..8);
    let map = LinearMap::new(context, &matrix, 9, 1, context.scale(9).unwrap(), UNWATCHED).unwrap();
    let p = Chebyshev((0..16).map(|i| 1.0 / (1 + i) as f64).collect());
    let works: [&Compute; 5] = [
        &|e| apply(&map, &x, e),
        &|e| polynomial::evaluate(e, &x, &p, 2f64.powi(43)),
        &|e| e.sum(&x, 64),
        &|e| e.dot(&[(&x, &x); 6]),
        &|e| Ok(e.rotate_many(&x, &[1, 2, 4, 8])?.remove(0)),
    ];
    for (i, work) in works.into_iter().enumerate() {
        let asked = AtomicUsize::new(0);
        let twice = |_, _| match asked.fetch_add(1, Ordering::Relaxed) < 2 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let evaluator = Instructions::new(context, &keys).unwrap().watched(&twice);
        refused("interrupted", "a request to stop", work(&evaluator));
        assert_eq!(asked.load(Ordering::Relaxed), 3, "work {i}");
        assert!(work(&Instructions::new(context, &keys).unwrap()).is_ok(), "work {i}");
    }
    let stopped = LinearMap::new(context, &matrix, 9, 4, 2f64.powi(43), &|done, _| match done {
        0..3 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    assert_eq!(stopped.err().map(|e: Error| e.kind()), Some("interrupted"));
}

#[test]
fn polynomials_that_cannot_be_are_refused() {
    let World { context, secret, keys } = &*WORLD;
    let evaluator = Instructions::new(context, keys).unwrap();
    let x = context.encrypt(&message(8, 0.1), 2, secret).unwrap();
    let scale = context.scale(0).unwrap();
    let p = |c: &[f64]| polynomial::evaluate(&evaluator, &x, &Chebyshev(c.to_vec()), scale);
    refused("bad_input", "a degree of 1 or more", p(&[0.5]));
    refused("bad_input", "a degree of 1 or more", p(&[]));
    refused("bad_input", "finite coefficients", p(&[0.5, f64::NAN]));
    refused("bad_input", "level 3 or above for degree 4, got level 2", p(&[1.0; 5]));
    let wide = polynomial::evaluate(&evaluator, &x, &Chebyshev(vec![1.0; 3]), 2f64.powi(60));
    refused("bad_input", "a scale below", wide);
    assert!(p(&[1.0; 4]).is_ok());
}

/// Right after the raise each digit is the polynomial itself: the sum over a key is word for word that of a decomposition.
#[test]
fn small_integers_need_no_decomposition() {
    let World { context, secret, .. } = &*WORLD;
    let (level, factor) = (24, 2f64.powi(14));
    let needs = Needs { bootstrap: Some(level), ..Needs::default() };
    let keys = context.keys(secret, &needs).unwrap();
    let own = Instructions::new(context, &keys).unwrap();
    let key = own.key("test", Purpose::FromEphemeral, level).unwrap();
    let special = key.special();
    assert!(
        context.is_every_digit(level, factor) && !context.is_every_digit(level, 2f64.powi(400))
    );
    let x = context.encrypt(&message(2048, 0.2), 0, secret).unwrap();
    let (n, words) = (context.params().degree(), context.words_of(level, special));
    let small = residues::lift(context, &x.parts[1], level, special, factor);
    let add = residues::lift(context, &x.parts[0], level, 0, factor);
    let got = key.small_product(context, &small, level, [&add, &[]]);
    let before = context.work().transforms;
    let digits = Decomposed::new(context, &small, level, special);
    let wanted = digits.product(&key, [&add, &[]]);
    assert!(context.work().transforms - before >= 80, "these are spared");
    for part in [0, 1] {
        for (i, word) in words.iter().enumerate() {
            let packed = |raised: &Raised| context.ring().packed(*word, raised.limb(i, n)[part]);
            assert!(packed(&got) == packed(&wanted), "part {part}, word {word}");
        }
    }
}
