//! Parties that make a key together, compute under it and decrypt: claims hold for every number of parties and kind of message.

use super::flood::recovered;
use super::*;
use crate::UNWATCHED;
use crate::math::random::PublicSeed;
use std::time::Instant;

/// The public key, the keys of the server and the shares that parties end with. Only tests have the sum of the secrets.
struct Simulation {
    context: Arc<Context>,
    shares: Vec<KeyShare>,
    public: crate::cipher::CkksPublicKey,
    server: Evaluator<Ckks>,
    secret: CkksSecretKey,
}

fn simulated(name: &str, (n, t): (usize, usize), form: KeyForm) -> Simulation {
    let context = Context::new(CkksParams::named(name).unwrap(), true).unwrap();
    let needs = Needs { conjugate: Some(4), ..Needs::default() }.rotate([1, 2, 4], 4);
    let seed = PublicSeed::from_system().unwrap();
    let agreement = Agreement::new(&context, n, t, seed, &needs).unwrap();
    let start = Instant::now();
    let parties: Vec<Party> =
        (1..=n).map(|i| Party::new(&context, &agreement, i).unwrap()).collect();
    let firsts: Vec<_> =
        parties.iter().map(|p| p.first_message(&context, UNWATCHED).unwrap()).collect();
    let bytes = |m: &PartyMessage| m.to_bytes(&context).unwrap().len() as f64 / 1e6;
    println!("first: {:.2} MB, {:.2} s for all", bytes(&firsts[0]), start.elapsed().as_secs_f64());
    let start = Instant::now();
    let second = |p: &Party| p.second_message(&context, &firsts, UNWATCHED).unwrap();
    let seconds: Vec<_> = parties.iter().map(second).collect();
    println!(
        "second: {:.2} MB, {:.2} s for all",
        bytes(&seconds[0]),
        start.elapsed().as_secs_f64()
    );
    let share = |p: &Party| {
        let others = parties.iter().filter(|from| from.party() != p.party());
        let dealt = others.filter_map(|from| {
            let mut all = from.deal(&context).unwrap();
            (!all.is_empty()).then(|| all.remove(p.party() - 1))
        });
        let dealt: Vec<KeyShare> = dealt.collect();
        p.share(&context, &firsts, &dealt.iter().collect::<Vec<_>>()).unwrap()
    };
    let shares = parties.iter().map(share).collect();
    let (public, keys) =
        PartyMessage::aggregate(&context, &[firsts.clone(), seconds].concat(), form, UNWATCHED)
            .unwrap();
    let secret = Party::summed_secret(&context, &parties, public.id());
    let context = Arc::new(context);
    let setup = CkksSetup::new(&context, &Arc::new(keys));
    let server = Evaluator::new(&Cpu::new(0).unwrap(), setup).unwrap();
    Simulation { context, shares, public, server, secret }
}

/// Kinds of messages within 1.
fn kinds(slots: usize) -> Vec<(&'static str, Vec<Complex>)> {
    let real = |f: &dyn Fn(usize) -> f64| (0..slots).map(|j| Complex::from(f(j))).collect();
    let signs = |j: usize| if (j.wrapping_mul(2654435761) >> 7) & 1 == 0 { 1.0 } else { -1.0 };
    vec![
        ("waves", message(slots, 0.2)),
        ("ones", real(&|_| 1.0)),
        ("alternating", real(&|j| 1.0 - 2.0 * (j % 2) as f64)),
        ("signs", real(&signs)),
        ("ramp", real(&|j| j as f64 / slots as f64)),
        ("spike", real(&|j| f64::from(j == 3))),
    ]
}

/// Results of a server with what they should be.
fn results(world: &Simulation, m: &[Complex]) -> Vec<(&'static str, Rlwe, Vec<Complex>)> {
    let Simulation { context, public, server, .. } = world;
    let n = m.len();
    let each = |f: &dyn Fn(usize) -> Complex| (0..n).map(f).collect::<Vec<Complex>>();
    let x = context.encrypt_public(m, 4, public).unwrap();
    let square = server.multiply(&x, &x).unwrap();
    let p = Chebyshev(vec![0.1, 0.5, -0.2, 0.15]);
    let curve =
        |v: f64| 0.1 + 0.5 * v - 0.2 * (2.0 * v * v - 1.0) + 0.15 * (4.0 * v * v * v - 3.0 * v);
    let mut made = vec![
        ("rotation", server.rotate(&x, 1).unwrap(), each(&|j| m[(j + 1) % n])),
        ("conjugate", server.conjugate(&x).unwrap(), each(&|j| m[j].conj())),
        ("sum of 8", server.sum(&x, 8).unwrap(), {
            each(&|j| (0..8).map(|k| m[(j + k) % n]).fold(Complex::default(), |a, b| a + b))
        }),
        ("fourth power", server.multiply(&square, &square).unwrap(), {
            each(&|j| m[j] * m[j] * (m[j] * m[j]))
        }),
        ("square", square, each(&|j| m[j] * m[j])),
        ("fresh", x.clone(), m.to_vec()),
    ];
    if m.iter().all(|v| v.im == 0.0) {
        let y = server.polynomial(&x, p).unwrap();
        made.push(("polynomial", y, each(&|j| Complex::from(curve(m[j].re)))));
    }
    made
}

/// No error is above its claim, nor far below it.
fn claims_hold(world: &Simulation, parties: usize) {
    let Simulation { context, secret, .. } = world;
    for (kind, m) in kinds(context.params().slots()) {
        for (what, y, wanted) in results(world, &m) {
            assert_eq!(y.account().parties, parties);
            let got = context.decrypt(&y, secret).unwrap();
            let errors: Vec<f64> = got.iter().zip(&wanted).map(|(a, b)| (*a - *b).abs()).collect();
            let square = errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64;
            let worst = errors.iter().copied().fold(0.0, f64::max);
            let (rms, claim) = (square.sqrt(), y.account());
            println!(
                "{parties} parties, {kind}, {what}: {:.2} bits, {:.3} of the claim, {:.3} of the bound",
                -rms.log2(),
                rms / claim.error,
                worst / claim.worst
            );
            assert!(rms < claim.error, "{kind}, {what}: {rms:e} above {:e}", claim.error);
            // Powers of a spike have errors in one slot alone.
            let least = if kind == "spike" { 0.0 } else { claim.error / 30.0 };
            assert!(rms > least, "{kind}, {what}: {rms:e} far below {:e}", claim.error);
            assert!(worst < claim.worst, "{kind}, {what}: {worst:e} above {:e}", claim.worst);
        }
    }
}

/// A quorum's values have the noise of its parts.
fn decrypted(world: &Simulation, y: &Rlwe, wanted: &[Complex], quorum: &[usize]) -> f64 {
    let Simulation { context, shares, .. } = world;
    let bits = shares[0].bits_to_decrypt_partially(context, y, 100).unwrap();
    let part = |p: &usize| shares[p - 1].decrypt_partially(context, y, quorum, bits, 100).unwrap();
    let parts: Vec<_> = quorum.iter().map(part).collect();
    let got = PartialDecryption::combine(context, y, &parts).unwrap();
    let square = got.iter().zip(wanted).map(|(a, b)| (*a - *b).abs().powi(2)).sum::<f64>();
    let noise = (-bits).exp2() * (quorum.len() as f64).sqrt();
    let ratio = (square / got.len() as f64).sqrt() / noise;
    assert!((ratio - 1.0).abs() < 0.055, "{quorum:?}: {ratio}");
    bits
}

#[test]
fn parties_compute_under_the_key_that_they_made() {
    for (n, t, form) in [
        (2, 2, KeyForm::Ready),
        (3, 2, KeyForm::Seeded),
        (4, 3, KeyForm::Packed),
        (4, 4, KeyForm::Ready),
    ] {
        let world = simulated("ckks_toy_12", (n, t), form);
        claims_hold(&world, n);
        let m = message(2048, 0.9);
        for (what, y, wanted) in results(&world, &m) {
            let first: Vec<usize> = (1..=t).collect();
            let last: Vec<usize> = (n + 1 - t..=n).rev().collect();
            decrypted(&world, &y, &wanted, &first);
            let bits = decrypted(&world, &y, &wanted, &last);
            println!("{t} of {n}, {what}: {bits:.2} bits a part");
        }
    }
}

/// The attack of Li and Micciancio finds the sum of the secrets in an exact decryption, and nothing in what a quorum publishes.
#[test]
fn the_secret_is_not_found_in_what_parties_publish() {
    let world = simulated("ckks_toy_12", (3, 2), KeyForm::Ready);
    let Simulation { context, shares, public, secret, .. } = &world;
    let n = context.params().degree();
    let x = context.encrypt_public(&message(n / 2, 0.3), 3, public).unwrap();
    let raw = context.decrypt(&x, secret).unwrap();
    assert_eq!(recovered(context, &x, &raw, secret), n, "the attack works");
    let bits = shares[0].bits_to_decrypt_partially(context, &x, 16).unwrap();
    let mut sum = vec![Complex::default(); n / 2];
    for _ in 0..16 {
        let part =
            |p: usize| shares[p - 1].decrypt_partially(context, &x, &[1, 3], bits, 16).unwrap();
        let values = PartialDecryption::combine(context, &x, &[part(1), part(3)]).unwrap();
        let right = recovered(context, &x, &values, secret);
        assert!(right < n / 100, "{right} of {n} coefficients");
        sum.iter_mut().zip(&values).for_each(|(a, b)| *a = *a + *b);
    }
    let mean: Vec<Complex> = sum.iter().map(|v| *v * (1.0 / 16.0)).collect();
    let right = recovered(context, &x, &mean, secret);
    assert!(right < n / 100, "{right} of {n} coefficients from the mean");
}

/// Keys that parties made are those of a program too, and have none of a bootstrap.
#[test]
fn a_bootstrap_under_a_collective_key_lacks_its_keys() {
    use crate::bootstrap::ckks::{Settings, regular};
    let world = simulated("ckks_toy_12", (2, 2), KeyForm::Ready);
    let program = Arc::new(regular(&world.context, &Settings::default()).unwrap());
    let x = world.context.encrypt_public(&message(2048, 0.1), 0, &world.public).unwrap();
    let refused = world.server.run(&program, &[&x]).map(drop).unwrap_err();
    assert_eq!(refused.kind(), "wrong_key", "{refused}");
    let agreed = Agreement::new(&world.context, 2, 2, PublicSeed([1; 32]), &program.needs());
    assert_eq!(agreed.unwrap_err().kind(), "unsupported");
}

/// The figures of docs/collective.md.
#[test]
#[ignore = "rings of N = 2^14 and 2^16: make test-full"]
fn full_size_collective_keys_keep_their_claims() {
    for (name, n, t, says) in [
        ("ckks_n14", 2, 2, -7.8),
        ("ckks_n14", 3, 2, -8.6),
        ("ckks_n14", 8, 8, -8.8),
        ("ckks_iterated", 2, 2, 12.1),
    ] {
        let world = simulated(name, (n, t), KeyForm::Ready);
        claims_hold(&world, n);
        let m = message(world.context.params().slots(), 0.9);
        for (what, y, wanted) in results(&world, &m) {
            let quorum: Vec<usize> = (1..=t).collect();
            let bits = decrypted(&world, &y, &wanted, &quorum);
            println!("{name}, {t} of {n}, {what}: {bits:.2} bits a part of 100");
            let off = if what == "fresh" { bits - says } else { 0.0 };
            assert!(off.abs() < 0.06, "{bits} where docs/collective.md says {says}");
        }
    }
}
