//! Functions of real numbers: their errors over their domains, the levels that they say, and what encrypted vectors make of them.

use becalm::apps::real::{self, Aim, Bootstraps, Function};
use becalm::backend::{CkksSetup, Cpu, Evaluator};
use becalm::bootstrap::ckks::{KeyPlan, Wish};
use becalm::ckks::{Chain, Context};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::rlwe::CkksProgram;
use becalm::{Error, Result};
use std::sync::Arc;

/// Points of a domain, at which the library does not measure.
fn points([a, b]: [f64; 2]) -> Vec<f64> {
    let mut points: Vec<f64> = (0..=9973).map(|i| a + (b - a) * f64::from(i) / 9973.0).collect();
    if a > 0.0 {
        points.extend((0..=997).map(|i| a * (b / a).powf(f64::from(i) / 997.0)));
    }
    points
}

/// The largest error of a function of one value on these.
fn worst(f: &Function, x: &[f64], truth: impl Fn(f64) -> f64) -> f64 {
    let y = f.clear(&[x.to_vec()]).remove(0);
    x.iter().zip(&y).map(|(x, y)| (y - truth(*x)).abs()).fold(0.0, f64::max)
}

/// Numbers from 0 to 1 without structure.
fn numbers(count: usize, seed: f64) -> Vec<f64> {
    (0..count).map(|i| ((i as f64 + 1.0) * seed).sin().mul_add(1e4, 0.0).rem_euclid(1.0)).collect()
}

type Case<'a> = (Result<Function>, &'a dyn Fn(f64) -> f64, f64, usize);

#[test]
fn functions_have_the_bits_that_they_say_over_their_domains() {
    let cases: [Case; 15] = [
        (real::sigmoid([-8.0, 8.0], 12.0), &|x| 1.0 / (1.0 + (-x).exp()), 12.0, 6),
        (real::tanh([-1.0, 1.0], 20.0), &f64::tanh, 20.0, 4),
        (real::exp([-4.0, 4.0], 10.0), &f64::exp, 10.0, 5),
        (real::inverse([0.5, 1.0], 20.0), &|x| 1.0 / x, 20.0, 5),
        (real::inverse([1e-4, 1.0], 10.0), &|x| 1.0 / x, 10.0, 12),
        (real::inverse([1e-6, 1.0], 4.0), &|x| 1.0 / x, 4.0, 18),
        (real::inverse([2.0, 50.0], 16.0), &|x| 1.0 / x, 16.0, 6),
        (real::sqrt([0.0, 1.0], 8.0), &f64::sqrt, 8.0, 8),
        (real::sqrt([0.0, 4.0], 14.0), &f64::sqrt, 14.0, 28),
        (real::sqrt([0.01, 1.0], 20.0), &f64::sqrt, 20.0, 7),
        (real::inverse_sqrt([0.1, 10.0], 16.0), &|x| 1.0 / x.sqrt(), 16.0, 7),
        (real::inverse_sqrt([1e-5, 1.0], 8.0), &|x| 1.0 / x.sqrt(), 8.0, 16),
        (real::absolute([-1.0, 1.0], 5.0), &f64::abs, 5.0, 5),
        (real::absolute([-3.0, 2.0], 12.0), &f64::abs, 12.0, 18),
        (real::absolute([-1.0, 1.0], 20.0), &f64::abs, 20.0, 24),
    ];
    for (f, truth, bits, levels) in cases {
        let f = f.unwrap();
        let (said, found) = (f.error(), worst(&f, &points(f.domain().unwrap()), truth));
        assert!(said <= (-bits).exp2(), "{}: {said}", f.name());
        assert!(found <= said * 1.02 + 1e-12, "{}: says {said}, has {found}", f.name());
        assert_eq!(f.levels(), levels, "{} {:?}", f.name(), f.domain());
    }
}

#[test]
fn an_approximation_has_the_least_degree_that_suffices() {
    let mut sine = |x: f64| Ok(x.sin());
    let bits = |degree| {
        let made = real::approximate("sin", &mut |x| Ok(x.sin()), [-2.0, 3.0], Aim::Degree(degree));
        -made.unwrap().error().log2()
    };
    let found = real::approximate("sin", &mut sine, [-2.0, 3.0], Aim::Bits(20.0)).unwrap();
    let degree = (1..40).find(|degree| bits(*degree) >= 20.0).unwrap();
    assert_eq!(-found.error().log2(), bits(degree));
    // One level for the domain; none for one of length 2, even where its middle is not 0.
    assert_eq!(found.levels(), 1 + (degree + 1).next_power_of_two().ilog2() as usize);
    let near = real::approximate("sin", &mut sine, [2.0, 4.0], Aim::Degree(7)).unwrap();
    assert_eq!(near.levels(), 3);
    // A line takes a level in all, wherever it is.
    let line = real::approximate("sin", &mut sine, [0.0, 0.1], Aim::Degree(1)).unwrap();
    assert_eq!(line.levels(), 1);
    assert!(worst(&line, &points([0.0, 0.1]), f64::sin) <= line.error() * 1.01);
}

#[test]
fn signs_are_right_beyond_their_gap_and_nowhere_beyond_1() {
    for (gap, bits, levels) in
        [(4, 12.0, 8), (8, 12.0, 12), (12, 12.0, 17), (16, 12.0, 22), (20, 12.0, 26), (8, 25.0, 14)]
    {
        let gap = (-f64::from(gap)).exp2();
        let f = real::sign([-1.0, 1.0], gap, bits).unwrap();
        let outside = points([gap, 1.0]);
        let said = f.error();
        assert!(said <= (-bits).exp2());
        assert_eq!((f.levels(), f.gap()), (levels, Some(gap)));
        assert!(worst(&f, &outside, |_| 1.0) <= said * 1.02 + 1e-12);
        let negative: Vec<f64> = outside.iter().map(|x| -x).collect();
        assert!(worst(&f, &negative, |_| -1.0) <= said * 1.02 + 1e-12);
        let inside = f.clear(&[points([-gap, gap])]).remove(0);
        assert!(inside.iter().all(|y| y.abs() <= 1.0 + said));
    }
}

#[test]
fn comparisons_and_maxima_of_two() {
    let (a, b) = (numbers(4096, 0.7), numbers(4096, 1.9));
    let both = [a.clone(), b.clone()];
    let domain = [-1.0, 2.0];
    let (compare, gap) = (real::compare(domain, 0.01, 10.0).unwrap(), 0.01);
    let said = compare.clear(&both).remove(0);
    for (i, y) in said.iter().enumerate().filter(|(i, _)| (a[*i] - b[*i]).abs() >= gap) {
        assert!((y - f64::from(a[i] > b[i])).abs() <= 2f64.powi(-10), "{} {} {y}", a[i], b[i]);
    }
    let equal = compare.clear(&[a.clone(), a.clone()]).remove(0);
    assert!(equal.iter().all(|y| (y - 0.5).abs() < 1e-12));
    let (largest, smallest) =
        (real::maximum(domain, 10.0).unwrap(), real::minimum(domain, 10.0).unwrap());
    let (top, bottom) = (largest.clear(&both).remove(0), smallest.clear(&both).remove(0));
    for i in 0..a.len() {
        assert!((top[i] - a[i].max(b[i])).abs() <= largest.error() * 1.02);
        assert!((bottom[i] - a[i].min(b[i])).abs() <= smallest.error() * 1.02);
    }
    assert!(largest.error() <= 2f64.powi(-10) && smallest.error() <= 2f64.powi(-10));
}

#[test]
fn lists_are_searched_and_sorted_block_by_block() {
    let (size, count) = (64, 4);
    let x = numbers(size * count, 0.37);
    let domain = [0.0, 1.0];
    let sort = real::sort(size, domain, 5.0).unwrap();
    let largest = real::largest(size, domain, 8.0).unwrap();
    let smallest = real::smallest(size, domain, 8.0).unwrap();
    let argmax = real::argmax(size, domain, 1e-3, 4.0).unwrap();
    let sorted = sort.clear(std::slice::from_ref(&x)).remove(0);
    let [top, bottom] = [&largest, &smallest].map(|f| f.clear(std::slice::from_ref(&x)).remove(0));
    let found = argmax.clear(std::slice::from_ref(&x));
    for (b, block) in x.chunks_exact(size).enumerate() {
        let mut order = block.to_vec();
        order.sort_by(f64::total_cmp);
        let own = &sorted[b * size..][..size];
        assert!(own.iter().zip(&order).all(|(a, b)| (a - b).abs() <= sort.error()));
        assert!((top[b * size] - order[size - 1]).abs() <= largest.error());
        assert!((bottom[b * size] - order[0]).abs() <= smallest.error());
        assert!(order[size - 1] - order[size - 2] > 1e-3, "a block that does not test argmax");
        let place = block.iter().position(|v| *v == order[size - 1]).unwrap();
        assert!((found[0][b * size] - place as f64).abs() <= argmax.error());
        assert!((found[1][b * size] - order[size - 1]).abs() <= argmax.error());
    }
    assert!(sort.error() <= 2f64.powi(-5) && largest.error() <= 2f64.powi(-8));
    assert_eq!((sort.period(), sort.rotations(256).len()), (64, 12));
}

#[test]
fn sums_copies_and_slices() {
    let x = numbers(64, 1.3);
    let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
    let strided = real::sum(4, 8).unwrap();
    let wanted: Vec<f64> =
        (0..64).map(|i| (0..4).map(|k| x[(i + 8 * k) % 64]).sum::<f64>()).collect();
    assert!(close(&strided.clear(std::slice::from_ref(&x))[0], &wanted));
    assert_eq!((strided.rotations(64), strided.levels()), (vec![8, 16], 0));
    let mean = real::mean(64, 1).unwrap();
    let wanted = x.iter().sum::<f64>() / 64.0;
    assert!(close(&mean.clear(std::slice::from_ref(&x))[0], &[wanted; 64]));
    let copies = real::replicate(16, 3).unwrap();
    let wanted: Vec<f64> = (0..64).map(|i| x[i / 16 * 16 + 3]).collect();
    assert!(close(&copies.clear(std::slice::from_ref(&x))[0], &wanted));
    let slice = real::placed(64, 10, 5, 2).unwrap();
    let wanted: Vec<f64> =
        (0..64).map(|i| if (2..7).contains(&i) { x[i + 8] } else { 0.0 }).collect();
    assert!(close(&slice.clear(std::slice::from_ref(&x))[0], &wanted));
}

#[test]
fn products_of_matrices() {
    let d = 8;
    let (a, b) = (numbers(d * d, 0.9), numbers(d * d, 2.1));
    let entry = |i: usize, j: usize| (0..d).map(|k| a[i * d + k] * b[k * d + j]).sum::<f64>();
    let product = real::matrix_product(d).unwrap();
    // Two blocks that repeat the matrices.
    let twice = |x: &[f64]| [x, x].concat();
    let found = product.clear(&[twice(&a), twice(&b)]).remove(0);
    for (s, value) in found.iter().enumerate() {
        assert!((value - entry(s % 64 / d, s % d)).abs() < 1e-12);
    }
    assert_eq!(product.levels(), 3);
    let vector = real::matrix_vector(d).unwrap();
    let v: Vec<f64> = (0..64).map(|i| if i < d { b[i] } else { 0.0 }).collect();
    let found = vector.clear(&[a.clone(), v.clone()]).remove(0);
    for (i, value) in found.iter().enumerate() {
        let row = |i: usize| (0..d).map(|k| a[i * d + k] * v[k]).sum::<f64>();
        let wanted = if i < d { row(i) } else { 0.0 };
        assert!((value - wanted).abs() < 1e-12, "{i} {value} {wanted}");
    }
    assert_eq!(vector.levels(), 2);
}

fn plan(name: &str, slots: usize) -> KeyPlan {
    let wish = Wish { slots: Some(slots), ..Wish::default() };
    KeyPlan::new(CkksParams::named(name).unwrap(), &wish).unwrap()
}

/// The results of a function on encrypted vectors, bootstrapped where levels run out; and the number of bootstraps.
fn encrypted(f: &Function, level: usize, vectors: &[Vec<f64>]) -> (Vec<Vec<f64>>, usize) {
    let context = Arc::new(Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap());
    let slots = vectors[0].len();
    let mut bootstraps = Bootstraps::new(plan("ckks_toy_12", slots)).unwrap();
    let mut program = CkksProgram::new(&context);
    let arguments: Vec<_> = vectors.iter().map(|_| program.input(level, slots).unwrap()).collect();
    vectors.iter().for_each(|_| bootstraps.argument(true));
    let results = f.record(&mut program, Some(&mut bootstraps), &arguments).unwrap();
    results.iter().for_each(|reg| program.output(*reg).unwrap());
    let secret = context.secret_key().unwrap();
    let keys = Arc::new(context.keys(&secret, &program.needs()).unwrap());
    let evaluator = Evaluator::new(&Cpu::new(0).unwrap(), CkksSetup::new(&context, &keys)).unwrap();
    let values = |x: &Vec<f64>| x.iter().map(|x| Complex::from(*x)).collect::<Vec<_>>();
    let given: Vec<_> =
        vectors.iter().map(|x| context.encrypt(&values(x), level, &secret).unwrap()).collect();
    let count = program.bootstraps();
    let made = evaluator.run(&Arc::new(program), &given.iter().collect::<Vec<_>>()).unwrap();
    let opened = made.iter().map(|y| context.decrypt(y, &secret).unwrap());
    (opened.map(|y| y.iter().map(|y| y.re).collect()).collect(), count)
}

#[test]
fn encrypted_vectors_have_the_results_of_plain_ones() {
    let (a, b) = (numbers(64, 0.7), numbers(64, 1.9));
    let cases = [
        (
            real::inverse([0.5, 1.0], 14.0).unwrap(),
            vec![a.iter().map(|x| 0.5 + x / 2.0).collect()],
            5,
            0,
        ),
        (real::matrix_product(8).unwrap(), vec![a.clone(), b.clone()], 3, 0),
        (real::matrix_vector(8).unwrap(), vec![a.clone(), [&b[..8], &[0.0; 56]].concat()], 2, 0),
        (real::replicate(16, 3).unwrap(), vec![a.clone()], 1, 0),
        (real::maximum([0.0, 1.0], 7.0).unwrap(), vec![a.clone(), b.clone()], 3, 1),
    ];
    for (f, vectors, level, bootstraps) in cases {
        let (found, count) = encrypted(&f, level, &vectors);
        let wanted = f.clear(&vectors);
        assert_eq!((count, found.len()), (bootstraps, wanted.len()), "{}", f.name());
        for (found, wanted) in found.iter().zip(&wanted) {
            let far = found.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far < 2e-3, "{}: {far}", f.name());
        }
    }
}

fn refusal<T>(made: Result<T>) -> String {
    made.err().map_or_else(|| "nothing".into(), |e: Error| e.to_string())
}

#[test]
fn bootstraps_come_where_levels_run_out() {
    let chain = Chain::new(CkksParams::named("ckks_toy_12").unwrap()).unwrap();
    let mut bootstraps = Bootstraps::new(plan("ckks_toy_12", 2048)).unwrap();
    let mut program = CkksProgram::new(&chain);
    let [x, y] = [program.input(1, 2048).unwrap(), program.input(1, 2048).unwrap()];
    bootstraps.argument(true);
    bootstraps.argument(false);
    assert_eq!(bootstraps.lifted(&mut program, x, 1).unwrap(), x);
    let high = bootstraps.lifted(&mut program, x, 2).unwrap();
    assert_eq!(program.info(high).unwrap().level, 10);
    // Once for each register, in half the work where it is real.
    assert_eq!(bootstraps.lifted(&mut program, x, 3).unwrap(), high);
    assert_eq!(program.bootstraps(), 1);
    let real = program.ops().len();
    bootstraps.lifted(&mut program, y, 2).unwrap();
    assert!(program.ops().len() - real > real && program.bootstraps() == 2);
    let none = refusal(bootstraps.lifted(&mut program, x, 11));
    assert!(none.contains("at most 10 levels") && none.contains("11 levels"), "{none}");
    // A kind that starts above level 0 keeps the levels of its start.
    let mut slots_first = Bootstraps::new(plan("ckks_toy_slots_first", 2048)).unwrap();
    let chain = Chain::new(CkksParams::named("ckks_toy_slots_first").unwrap()).unwrap();
    let mut program = CkksProgram::new(&chain);
    let x = program.input(3, 2048).unwrap();
    slots_first.argument(true);
    let high = slots_first.lifted(&mut program, x, 1).unwrap();
    assert!(high != x && program.info(high).unwrap().level > 10);
}

#[test]
fn refusals_say_what_to_do() {
    let chain = Chain::new(CkksParams::named("ckks_toy_12").unwrap()).unwrap();
    let mut program = CkksProgram::new(&chain);
    let x = program.input(3, 64).unwrap();
    let sigmoid = real::sigmoid([-8.0, 8.0], 12.0).unwrap();
    let low = refusal(sigmoid.record(&mut program, None, &[x]));
    assert!(low.contains("level 6 or above") && low.contains("level 3"), "{low}");
    assert_eq!(program.ops().len(), 0);
    let two = refusal(sigmoid.record(&mut program, None, &[x, x]));
    assert!(two.contains("1 vector") && two.contains("got 2"), "{two}");
    let few = refusal(real::replicate(128, 0).unwrap().record(&mut program, None, &[x]));
    assert!(few.contains("128 slots or more"), "{few}");
    for (made, word) in [
        (real::inverse([-1.0, 1.0], 10.0), "domain"),
        (real::inverse([1.0, 1.0], 10.0), "a < b"),
        (real::sqrt([-1.0, 1.0], 10.0), "from 0"),
        (real::sigmoid([-1.0, 1.0], 60.0), "40 bits"),
        (real::sigmoid([-1.0, f64::NAN], 6.0), "domain"),
        (real::sign([-1.0, 1.0], 0.0, 10.0), "gap"),
        (real::sort(48, [0.0, 1.0], 5.0), "power of two"),
        (real::matrix_product(12), "power of two"),
        (real::placed(64, 60, 5, 0), "64 slots"),
        (real::approximate("x", &mut |x: f64| Ok(x.ln()), [-1.0, 1.0], Aim::Degree(5)), "finite"),
        (real::approximate("x", &mut |_| Ok(2.0), [-1.0, 1.0], Aim::Degree(5)), "constant"),
        (real::approximate("x", &mut |x: f64| Ok(x.abs()), [-1.0, 1.0], Aim::Bits(20.0)), "bits"),
    ] {
        let said = refusal(made);
        assert!(said.contains(word), "{said} should have {word}");
    }
    let wish = Wish { size: None, ..Wish::default() };
    let plan = KeyPlan::new(CkksParams::named("ckks_toy_12").unwrap(), &wish).unwrap();
    assert!(refusal(Bootstraps::new(plan)).contains("bootstrap"));
}
