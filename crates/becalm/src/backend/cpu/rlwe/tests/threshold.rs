//! Threshold decryption of what was computed, and the attack on what a quorum publishes.

use super::flood::{flat, kind, recovered, toy};
use super::*;
use crate::bootstrap::ckks::{Settings, regular};
use crate::cipher::Standing;
use std::time::Instant;

/// The values that a quorum publishes, with the bits of the noise of one part.
fn published(
    context: &Context,
    x: &Rlwe,
    shares: &[KeyShare],
    quorum: &[usize],
    queries: u64,
) -> (Vec<Complex>, f64) {
    let most = shares[0].bits_to_decrypt_partially(context, x, queries).unwrap();
    let part =
        |p: &usize| shares[p - 1].decrypt_partially(context, x, quorum, most, queries).unwrap();
    let parts: Vec<PartialDecryption> = quorum.iter().map(part).collect();
    (PartialDecryption::combine(context, x, &parts).unwrap(), most)
}

/// The deviation of values from wanted ones over that of the noise of `parts` parts.
fn ratio(got: &[Complex], wanted: &[Complex], bits: f64, parts: f64) -> f64 {
    let errors = flat(got).into_iter().zip(flat(wanted)).map(|(a, b)| (a - b).powi(2));
    (errors.sum::<f64>() / got.len() as f64).sqrt() / (-bits).exp2() / parts.sqrt()
}

/// The attack of Li and Micciancio finds the key in a decryption, and nothing in what a quorum publishes: neither in the values nor,
/// for a party of it that subtracts its own noise, in those with the noise of the other part alone.
#[test]
fn the_key_is_not_found_in_what_a_quorum_publishes() {
    let (context, secret) = toy();
    let n = context.params().degree();
    let m = message(n / 2, 0.3);
    let x = context.encrypt(&m, 3, &secret).unwrap();
    let raw = context.decrypt(&x, &secret).unwrap();
    assert_eq!(recovered(&context, &x, &raw, &secret), n, "the attack works");
    let queries = 16;
    let shares = KeyShare::split(&context, &secret, 2, 2).unwrap();
    let mut sum = vec![0.0; n];
    for _ in 0..queries {
        let (values, most) = published(&context, &x, &shares, &[1, 2], queries);
        let right = recovered(&context, &x, &values, &secret);
        assert!(right < n / 100, "{right} of {n} coefficients at {most:.2} bits");
        sum.iter_mut().zip(flat(&values)).for_each(|(a, b)| *a += b);
    }
    let mean = |c: &[f64]| Complex::new(c[0], c[1]) * (1.0 / queries as f64);
    let mean: Vec<Complex> = sum.chunks(2).map(mean).collect();
    let right = recovered(&context, &x, &mean, &secret);
    assert!(right < n / 100, "{right} of {n} coefficients from the mean of {queries}");
    assert_eq!(shares.iter().map(KeyShare::spent).collect::<Vec<_>>(), [1.0, 1.0]);
    // Of the noise of both parts, as large as that of one: what a corrupt party is left with.
    let bits = shares[0].bits_to_decrypt_partially(&context, &x, queries).unwrap();
    let owner = context.decrypt_to_share(&x, &secret, bits, queries).unwrap();
    let right = recovered(&context, &x, &owner, &secret);
    assert!(right < n / 100, "{right} of {n} coefficients behind the noise of one part");
}

/// Sums and products have the noise that their account asks for.
#[test]
fn results_of_computations_are_decrypted_by_quorums() {
    let World { context, secret, keys } = &*WORLD;
    let server = server(keys);
    let shares = KeyShare::split(context, secret, 3, 2).unwrap();
    let (m, n) = (message(2048, 0.9), message(2048, 2.5));
    let [x, y] = [&m, &n].map(|v| context.encrypt(v, 5, secret).unwrap());
    let each = |f: &dyn Fn(Complex, Complex) -> Complex| -> Vec<Complex> {
        m.iter().zip(&n).map(|(a, b)| f(*a, *b)).collect()
    };
    let product = server.multiply(&x, &y).unwrap();
    let cases = [
        (server.add(&x, &y).unwrap(), each(&|a, b| a + b)),
        (server.multiply(&product, &product).unwrap(), each(&|a, b| a * b * (a * b))),
        (server.level_down(&product, 0).unwrap(), each(&|a, b| a * b)),
    ];
    for (i, (z, wanted)) in cases.iter().enumerate() {
        for quorum in [[1, 2], [1, 3], [2, 3]] {
            let (got, bits) = published(context, z, &shares, &quorum, 100);
            let ratio = ratio(&got, wanted, bits, 2.0);
            println!("case {i}: {bits:.2} bits a part, {ratio:.3} of its noise");
            assert!((ratio - 1.0).abs() < 0.055, "case {i}, {quorum:?}: {ratio}");
        }
    }
}

/// Nobody vouches for a bootstrap but the owner of the key and the parties.
#[test]
fn a_bootstrapped_ciphertext_is_decrypted_by_a_quorum_that_vouches_for_it() {
    let context = &WORLD.context;
    let secret = context.secret_key().unwrap();
    let program = Arc::new(regular(context, &Settings::default()).unwrap());
    let keys = Arc::new(context.keys(&secret, &program.needs()).unwrap());
    let server = server(&keys);
    let least = program.info(program.inputs()[0]).unwrap().level;
    let m = message(2048, 0.4);
    let x = context.encrypt(&m, least, &secret).unwrap();
    let cpu = Cpu::new(0).unwrap();
    let ready =
        crate::backend::Prepared::new(&cpu, context, &program, usize::MAX, crate::UNWATCHED)
            .unwrap();
    let x = server.run(&ready, &[&x]).unwrap().remove(0);
    let shares = KeyShare::split(context, &secret, 3, 2).unwrap();
    assert_eq!(x.account().standing, Standing::REFRESHED);
    let refused = shares[0].decrypt_partially(context, &x, &[1, 2], -20.0, 9);
    assert_eq!(kind(refused), Some("bad_input"));
    assert_eq!(shares[0].spent(), 0.0);
    let x = x.vouched(1.0, 2f64.powi(-17)).unwrap();
    let (got, bits) = published(context, &x, &shares, &[1, 3], 4);
    let ratio = ratio(&got, &m, bits, 2.0);
    println!("{bits:.2} bits a part behind a bootstrap");
    assert!((ratio - 1.0).abs() < 0.055, "{ratio}");
}

/// The figures of docs/ckks.md.
#[test]
#[ignore = "the ring of N = 2^16: make test-full"]
fn full_size_figures_of_threshold_decryption() {
    let context = Context::new(CkksParams::named("ckks_regular").unwrap(), false).unwrap();
    let secret = context.secret_key().unwrap();
    let timed = |what: &str, f: &mut dyn FnMut()| {
        f();
        let start = Instant::now();
        (0..5).for_each(|_| f());
        println!("{what}: {:.1} ms", start.elapsed().as_secs_f64() * 200.0);
    };
    for slots in [8, 32768] {
        let m = message(slots, 0.1);
        let x = context.encrypt(&m, 10, &secret).unwrap();
        timed("decrypt", &mut || drop(context.decrypt(&x, &secret).unwrap()));
        for (parties, threshold, says) in [(2, 2, 4.8), (3, 2, 4.3), (5, 3, 4.0), (12, 6, 3.4)] {
            let shares = KeyShare::split(&context, &secret, parties, threshold).unwrap();
            let bits = shares[0].bits_to_decrypt_partially(&context, &x, 1).unwrap();
            let quorum: Vec<usize> = (1..=threshold).collect();
            let part = |p: &usize| {
                shares[p - 1].decrypt_partially(&context, &x, &quorum, -4.0, 1000).unwrap()
            };
            timed("a part", &mut || drop(part(&1)));
            let parts: Vec<PartialDecryption> = quorum.iter().map(part).collect();
            timed("combine", &mut || {
                drop(PartialDecryption::combine(&context, &x, &parts).unwrap())
            });
            let got = PartialDecryption::combine(&context, &x, &parts).unwrap();
            let ratio = ratio(&got, &m, -4.0, threshold as f64);
            println!(
                "{threshold} of {parties}, {slots} slots: {bits:.2} bits; {ratio:.3} of the noise"
            );
            assert!((bits - says).abs() < 0.05, "{bits} where docs/ckks.md says {says}");
            assert!(slots == 8 || (ratio - 1.0).abs() < 0.02, "{ratio}");
        }
    }
}
