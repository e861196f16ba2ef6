//! Attacks on decryptions that are published, and the account that their noise is computed from.

use super::*;
use crate::cipher::file::Trust;
use crate::cipher::{Account, Standing};
use crate::math::rns::{centred, inverse, mul};
use crate::program::rlwe::CkksProgram;

pub(super) fn toy() -> (Context, CkksSecretKey) {
    let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
    let secret = context.secret_key().unwrap();
    (context, secret)
}

pub(super) fn kind<T>(made: crate::Result<T>) -> Option<&'static str> {
    made.err().map(|e| e.kind())
}

pub(super) fn flat(values: &[Complex]) -> Vec<f64> {
    values.iter().flat_map(|v| [v.re, v.im]).collect()
}

/// The key-recovery attack of Li and Micciancio: (m + e − c_0)/c_1 modulo one prime, from a ciphertext and what its
/// owner published of it; the coefficients that are right.
pub(super) fn recovered(
    context: &Context,
    x: &Rlwe,
    published: &[Complex],
    secret: &CkksSecretKey,
) -> usize {
    let n = context.params().degree();
    let phase = context.limbs(&context.coefficients(published, x.scale), &[0]);
    let p = context.ring().word(0).p;
    let word = |v: f64| (v as i64).rem_euclid(p as i64) as u64;
    let mut guess: Vec<f64> = (0..n)
        .map(|i| {
            let numerator = word(phase[i] - x.parts[0][i]);
            centred(mul(numerator, inverse(word(x.parts[1][i]), p), p), p)
        })
        .collect();
    context.ring().backward(0, &mut guess);
    context.ring().reduce(0, &mut guess);
    guess.iter().zip(&secret.coefficients).filter(|(a, b)| a == b).count()
}

/// The attack finds the key in raw decryptions and nothing in shared ones.
#[test]
fn the_key_is_found_in_raw_decryptions_and_not_in_shared_ones() {
    let (context, secret) = toy();
    let n = context.params().degree();
    let m: Vec<Complex> =
        (0..n / 2).map(|j| Complex::new((j as f64).sin(), (j as f64).cos())).collect();
    let x = context.encrypt(&m, 3, &secret).unwrap();
    let raw = context.decrypt(&x, &secret).unwrap();
    assert_eq!(recovered(&context, &x, &raw, &secret), n, "the attack works");
    let most = context.bits_to_share(&x, 16).unwrap();
    println!("{most:.2} bits can be shared of 16 decryptions");
    assert!((most - 6.8).abs() < 0.05, "{most} where docs/security.md says 6.8");
    let shared = context.decrypt_to_share(&x, &secret, most, 16).unwrap();
    let right = recovered(&context, &x, &shared, &secret);
    println!("{right} of {n} coefficients from a shared decryption");
    assert!(right < n / 100, "{right} of {n} coefficients");
    // Nor in the mean of all that may be shared.
    let mut sum = flat(&shared);
    for _ in 1..16 {
        let next = context.decrypt_to_share(&x, &secret, most, 16).unwrap();
        sum.iter_mut().zip(flat(&next)).for_each(|(a, b)| *a += b);
    }
    let mean: Vec<Complex> =
        sum.chunks(2).map(|c| Complex::new(c[0], c[1]) * (1.0 / 16.0)).collect();
    let right = recovered(&context, &x, &mean, &secret);
    assert!(right < n / 100, "{right} of {n} coefficients from the mean of 16");
    // The error has the requested size, and its mean is 0.
    let errors: Vec<f64> = flat(&shared).iter().zip(flat(&m)).map(|(a, b)| a - b).collect();
    let count = errors.len() as f64;
    let variance = errors.iter().map(|e| e * e).sum::<f64>() / count * 2.0;
    let ratio = variance.sqrt() / (-most).exp2();
    assert!((ratio - 1.0).abs() < 0.06, "{ratio}: 5 standard deviations are 0.055");
    let mean = errors.iter().sum::<f64>() / count / (-most).exp2();
    assert!(mean.abs() < 0.06, "{mean}");
}

/// An attacker who knows one encryption of zeros, adds public vectors of his choice, and is told whether a result was refused.
struct Attacker<'a> {
    context: &'a Context,
    zeros: &'a Rlwe,
    /// Where the answer changes, for results without error.
    border: f64,
    state: u64,
}

impl Attacker<'_> {
    /// −1/2 .. 1/2, the same in each run.
    fn dither(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 11) as f64 * 2f64.powi(-53) - 0.5
    }

    /// A ciphertext that is accepted if the error of `slot` is at most the second result, which lies between `low` and `high`. Other
    /// slots hold a dither, so that the added constants are rounded anew in each attempt.
    fn question(&mut self, slot: usize, low: f64, high: f64) -> (Rlwe, f64) {
        loop {
            let mut added: Vec<Complex> =
                (0..self.zeros.slots).map(|_| Complex::from(self.dither())).collect();
            added[slot] = Complex::from(self.border - (low + high) / 2.0);
            let plain = Plain::new(self.context, &added, self.zeros.level).unwrap();
            let at_most = self.border - plain.decode(self.context).unwrap()[slot].re;
            if low < at_most && at_most < high {
                let sum = plain::add(self.context, self.zeros, &plain).unwrap();
                let program = CkksProgram::like(self.context, &[self.zeros], |p, args| {
                    Ok(vec![p.add_plain(args[0], &added)?])
                });
                let sum = program.unwrap().stamped(&[self.zeros], std::iter::once(sum)).remove(0);
                return (sum, at_most);
            }
        }
    }

    /// The error of the real part of a slot to within `near`, by bisection.
    fn bisect(&mut self, slot: usize, near: f64, accepts: impl Fn(&Rlwe) -> bool) -> f64 {
        let far = 8.0 * self.zeros.error();
        self.between(slot, [-far, far], near, accepts)
    }

    /// The place between two where answers change, to within `near`. What is added is rounded, so that a round rarely halves the
    /// range exactly.
    fn between(
        &mut self,
        slot: usize,
        [mut low, mut high]: [f64; 2],
        near: f64,
        accepts: impl Fn(&Rlwe) -> bool,
    ) -> f64 {
        while high - low > near {
            let (x, at_most) = self.question(slot, low, high);
            if accepts(&x) { high = at_most } else { low = at_most }
        }
        (low + high) / 2.0
    }
}

/// A comparison of exact results with a bound, seen from outside, gives away the errors and so the key: this is why sharing
/// decides on results with their noise. The returned values are thrown away.
#[test]
fn refusals_tell_the_errors_where_exact_results_are_compared_and_nothing_where_shared_ones_are() {
    let (context, secret) = toy();
    let zeros = context.encrypt(&vec![Complex::default(); 2048], 3, &secret).unwrap();
    let errors = context.decrypt(&zeros, &secret).unwrap();
    let largest = |v: &[Complex]| v.iter().map(|v| v.abs()).fold(0.0, f64::max);
    let exact = |x: &Rlwe| largest(&context.decrypt(x, &secret).unwrap()) <= 1.0;
    let mut attacker = Attacker { context: &context, zeros: &zeros, border: 1.0, state: 1 };
    for slot in [0, 7, 1000, 2047] {
        let found = attacker.bisect(slot, zeros.error() * 2f64.powi(-7), exact);
        let missed = (found - errors[slot].re).abs() / zeros.error();
        assert!(missed < 2f64.powi(-6), "slot {slot}: {missed} of the noise is left");
    }
    // The account grows with each addition, so that results never come near the border: all answers are the same.
    let (queries, asked) = (4096, 1024);
    let shared = |x: &Rlwe, most| kind(context.decrypt_to_share(x, &secret, most, queries));
    for border in [0.5, 1.0, 2.0, 8.0] {
        attacker.border = border;
        for slot in 0..16 {
            let (x, _) = attacker.question(slot, -zeros.error(), zeros.error());
            assert_eq!(shared(&x, context.bits_to_share(&x, queries).unwrap()), None);
        }
    }
    // An owner who vouches wrongly refuses near a border. One answer each for 1024 slots is right by chance alone, within 5
    // standard deviations: an oracle that is right in 63 of 100 answers is 3 of its own beyond them. The old one always is.
    let most = context.bits_to_share(&zeros, queries).unwrap();
    let mut right = [0, 0];
    for slot in 0..asked {
        attacker.border = 1.0;
        let (x, at_most) = attacker.question(slot, -zeros.error(), zeros.error());
        right[0] += usize::from(exact(&x) == (errors[slot].re <= at_most));
        let error = zeros.account.worst;
        attacker.border = 1.0 + error + 7.0 * (-most).exp2();
        let (x, at_most) = attacker.question(slot, -zeros.error(), zeros.error());
        let x = x.vouched(1.0, error).unwrap();
        let answer = shared(&x, most);
        assert!(matches!(answer, None | Some("bad_input")), "{answer:?}");
        right[1] += usize::from(answer.is_none() == (errors[slot].re <= at_most));
    }
    println!("{right:?} of {asked} answers are right, of exact results and of shared ones");
    // A question that lies within the rounding of its own encoding has either answer.
    assert!(right[0] + 4 >= asked, "{} of {asked}", right[0]);
    assert!(right[1].abs_diff(asked / 2) < 80, "{} of {asked}", right[1]);
}

/// The attacker need not know the bound that results are compared with. The answers show where it is, and exact results near it are
/// refused or accepted by their errors, whatever the bound.
#[test]
fn no_bound_tells_the_errors_to_those_who_search_for_it() {
    let (context, secret) = toy();
    let zeros = context.encrypt(&vec![Complex::default(); 2048], 3, &secret).unwrap();
    let errors = context.decrypt(&zeros, &secret).unwrap();
    let worst = zeros.account.worst;
    let (queries, asked) = (4096, 1024);
    let most = context.bits_to_share(&zeros, queries).unwrap();
    let exact = |x: &Rlwe| {
        let values = context.decrypt(x, &secret).unwrap();
        values.iter().all(|v| v.abs() <= 1.5)
    };
    let shared = |x: &Rlwe| {
        let x = x.clone().vouched(1.0, worst).unwrap();
        let answer = kind(context.decrypt_to_share(&x, &secret, most, queries));
        assert!(matches!(answer, None | Some("bad_input")), "{answer:?}");
        answer.is_none()
    };
    let owners: [&dyn Fn(&Rlwe) -> bool; 2] = [&exact, &shared];
    let right = owners.map(|accepts| {
        let mut attacker = Attacker { context: &context, zeros: &zeros, border: 0.0, state: 1 };
        // Each slot shows the bound less its own error. The mean of sixteen is closer.
        let shown = (asked..asked + 16)
            .map(|slot| -attacker.between(slot, [-8.0, 0.0], zeros.error() / 8.0, accepts));
        attacker.border = shown.sum::<f64>() / 16.0;
        let tells = |slot: &usize| {
            let (x, at_most) = attacker.question(*slot, -zeros.error(), zeros.error());
            accepts(&x) == (errors[*slot].re <= at_most)
        };
        (0..asked).filter(tells).count()
    });
    println!("{right:?} of {asked} answers are right, of exact results and of shared ones");
    assert!(right[0] > asked * 6 / 10, "the attack works");
    // By chance alone, within 5 standard deviations.
    assert!(right[1].abs_diff(asked / 2) < 80, "{} of {asked}", right[1]);
}

#[test]
fn too_many_bits_are_refused_on_public_facts() {
    let (context, secret) = toy();
    let x = context.encrypt(&[Complex::from(0.5); 8], 3, &secret).unwrap();
    let share = |bits, queries| kind(context.decrypt_to_share(&x, &secret, bits, queries));
    let most = context.bits_to_share(&x, 100).unwrap();
    assert_eq!(share(most, 100), None);
    assert_eq!(share(most, 200), Some("too_noisy"), "half a bit fewer for twice the queries");
    assert_eq!(share(most + 0.1, 100), Some("too_noisy"));
    for bits in [f64::NAN, f64::INFINITY, 61.0] {
        assert_eq!(share(bits, 100), Some("bad_input"), "{bits}");
    }
    let said = context.decrypt_to_share(&x, &secret, 1e308, 100).unwrap_err().to_string();
    assert!(said.contains(": decrypt_to_share: ") && said.contains("1e308 bits"), "{said}");
    assert_eq!(share(2.0, 0), Some("bad_input"));
    assert_eq!(kind(context.bits_to_share(&x, 0)), Some("bad_input"));
    let other = context.secret_key().unwrap();
    assert_eq!(kind(context.decrypt_to_share(&x, &other, 1.0, 100)), Some("wrong_key"));
    assert!((secret.spent() - 0.01).abs() < 1e-12, "what was public spends nothing");
    assert_eq!(other.spent(), 0.0);
}

#[test]
fn a_refusal_says_the_reason_that_applies() {
    let (context, secret) = toy();
    let fresh = |value| context.encrypt(&[Complex::from(value); 8], 3, &secret).unwrap();
    let mut wrapped = fresh(0.5);
    wrapped.account.values = 1e30;
    let stated = fresh(0.5).within(0.75).unwrap();
    let file = context.ciphertext_to_bytes(&fresh(0.5)).unwrap();
    let file = context.ciphertext_from_bytes(&file, Trust::default()).unwrap();
    let cases = [
        (stated, "`within`"),
        (fresh(3.0), "beyond the bound"),
        (file, "that a file states"),
        (wrapped, "has room for"),
    ];
    for (x, says) in &cases {
        let refused = context.bits_to_share(x, 10).unwrap_err().to_string();
        let found = cases.iter().filter(|(_, other)| refused.contains(other)).count();
        assert!(refused.contains(says) && found == 1, "{refused}");
        assert!(refused.contains("`vouched`"), "{refused}");
    }
}

/// The key counts its answers, refusals after decryption included, and then stops.
#[test]
fn the_key_counts_its_answers() {
    let (context, secret) = toy();
    let x = context.encrypt(&[Complex::from(0.75); 4], 3, &secret).unwrap();
    let worst = x.account.worst;
    let wrong = context.encrypt(&[Complex::from(37.125); 4], 3, &secret).unwrap();
    let wrong = wrong.vouched(1.0, worst).unwrap();
    let share = |x: &Rlwe, queries| context.decrypt_to_share(x, &secret, 2.0, queries);
    assert!((share(&x, 3).unwrap()[0].re - 0.75).abs() < 2.0);
    let refused = share(&wrong, 3).err().unwrap();
    let says = refused.to_string();
    assert!(refused.kind() == "bad_input" && says.contains("value 1 at most"), "{says}");
    assert!(!says.contains("37") && says.contains("vouched"), "{says}");
    assert!((secret.spent() - 2.0 / 3.0).abs() < 1e-12);
    // One that is worth less is still answered.
    assert_eq!((kind(share(&x, 2)), kind(share(&x, 4))), (Some("bad_input"), None));
    let says = share(&x, 3).err().unwrap().to_string();
    assert!(says.contains("92 %") && says.contains("queries"), "{says}");
}

/// s where σ is what is shared and the error is what it is: 2·log2(σ/(√(24·D·q)·error)).
fn measured(context: &Context, x: &Rlwe, most: f64, wanted: &[Complex]) -> f64 {
    let got = context.decrypt(x, &WORLD.secret).unwrap();
    let errors = flat(&got).into_iter().zip(flat(wanted)).map(|(a, b)| (a - b).abs());
    let flood = (24.0 * 2.0 * x.slots as f64 * 16.0).sqrt();
    2.0 * ((-most - 0.5).exp2() / flood / errors.fold(0.0, f64::max)).log2()
}

/// The rounding of a ciphertext is r₀ + r₁·s. The secret is fixed, and in its largest slots the error is far above its mean
/// square: there the bound of a Gaussian would fail once in some hundred ciphertexts.
#[test]
fn errors_times_the_secret_stay_within_their_bound() {
    let World { context, secret, .. } = &*WORLD;
    let n = context.params().degree();
    let roots: Vec<Complex> = (0..2 * n).map(|k| Complex::root(k, 2 * n)).collect();
    let slot = |j: usize| {
        let term = |(i, c): (usize, &f64)| roots[(2 * j + 1) * i % (2 * n)] * *c;
        secret.coefficients.iter().enumerate().map(term).fold(Complex::default(), |a, b| a + b)
    };
    let largest = (0..n / 2).map(|j| slot(j).abs()).fold(0.0, f64::max);
    let deviation = (n as f64 / 12.0).sqrt() * largest.hypot(1.0);
    // In that slot the error is Gaussian: e^(-t²) = 2^-24. One key of 400 000 has a slot that is too large for this.
    let most = (24.0 * std::f64::consts::LN_2).sqrt() * deviation;
    let mean = context.rounding(1.0);
    println!("{:.1} standard deviations of all slots in the largest", most / mean);
    assert!(most <= crate::cipher::product_bound(mean), "{}", most / mean);
    assert!(most > crate::cipher::fresh_bound(mean), "{}", most / mean);
}

/// Where 2^k meets 2^-k the error of one is multiplied by the other: the noise covers it, or sharing is refused.
#[test]
fn large_factors_get_the_statistical_bits_or_a_refusal() {
    let World { context, secret, keys } = &*WORLD;
    let evaluator = server(keys);
    let (m, n) = (message(2048, 0.3), message(2048, 1.9));
    let times = |v: &[Complex], by: f64| v.iter().map(|v| *v * by).collect::<Vec<_>>();
    let products: Vec<Complex> = m.iter().zip(&n).map(|(a, b)| *a * *b).collect();
    let [x, y] = [&m, &n].map(|v| context.encrypt(v, 5, secret).unwrap());
    for k in [6, 12, 18] {
        let (up, down) = (2f64.powi(k), 2f64.powi(-k));
        let small = context.encrypt(&times(&n, down), 5, secret).unwrap();
        let large = context.encrypt(&times(&m, up), 5, secret).unwrap();
        let undeclared = evaluator.multiply(&large, &small).unwrap();
        assert_eq!(kind(context.bits_to_share(&undeclared, 16)), Some("bad_input"), "{k}");
        // The noise that the claim for values of at most 1 would have given.
        let flood = (24.0 * 4096.0 * 16f64).sqrt() * 2f64.powi(15);
        let trap = -(flood * 6.8 * undeclared.error() * std::f64::consts::SQRT_2).log2();
        let trap = measured(context, &undeclared, trap, &products);
        let worst = large.account.worst;
        let large = large.vouched(up, worst).unwrap();
        let declared = evaluator.multiply(&large, &small).unwrap();
        let sum = evaluator.add_plain(&x, &[Complex::from(up)]).unwrap();
        let scaled = evaluator.multiply_constant(&y, down).unwrap();
        let added = evaluator.multiply(&sum, &scaled).unwrap();
        let sums: Vec<Complex> =
            m.iter().zip(&n).map(|(a, b)| (*a + Complex::from(up)) * *b * down).collect();
        let factors = evaluator.multiply_constant(&x, up).unwrap();
        let factors = evaluator.multiply(&factors, &scaled).unwrap();
        let cases = [(declared, &products), (added, &sums), (factors, &products)];
        let bits = cases.map(|(x, wanted)| {
            let most = context.bits_to_share(&x, 16).unwrap();
            measured(context, &x, most, wanted)
        });
        println!("k = {k}: {bits:.1?} statistical bits; {trap:.1} by the claim for values up to 1");
        assert!(bits.iter().all(|s| (30.0..50.0).contains(s)), "k = {k}: {bits:?}");
        assert!(k == 6 || trap < 20.0, "the claim for values up to 1 does not suffice: {trap}");
    }
}

/// Values and errors stay within the account, whatever is computed.
#[test]
fn the_account_bounds_values_and_errors() {
    let World { context, secret, keys } = &*WORLD;
    let evaluator = server(keys);
    let (m, n) = (message(2048, 0.9), message(2048, 2.5));
    let [x, y] = [&m, &n].map(|v| context.encrypt(v, 5, secret).unwrap());
    let public = context.encrypt_public(&m, 5, &context.public_key(secret).unwrap()).unwrap();
    let each = |f: &dyn Fn(Complex, Complex) -> Complex| -> Vec<Complex> {
        m.iter().zip(&n).map(|(a, b)| f(*a, *b)).collect()
    };
    let turned: Vec<Complex> = (0..2048).map(|j| m[(j + 3) % 2048]).collect();
    let mut band = Matrix::zero(2048);
    for k in [0, 1, 3, 4] {
        band.diagonal(k).fill(Complex::new(-3.0, 0.5));
    }
    let band = Arc::new(band);
    let reals: Vec<Complex> = m.iter().map(|v| Complex::from(v.re)).collect();
    let real = context.encrypt(&reals, 5, secret).unwrap();
    let p = Chebyshev(vec![0.5, -2.0, 0.0, 3.0, 0.25, 1.0]);
    let product = evaluator.multiply(&x, &y).unwrap();
    let cases = [
        (public, m.clone()),
        (evaluator.add(&x, &y).unwrap(), each(&|a, b| a + b)),
        (evaluator.subtract(&x, &product).unwrap(), each(&|a, b| a - a * b)),
        (evaluator.multiply(&product, &product).unwrap(), each(&|a, b| a * b * (a * b))),
        (evaluator.add_plain(&x, &n).unwrap(), each(&|a, b| a + b)),
        (evaluator.multiply_plain(&x, &n).unwrap(), each(&|a, b| a * b)),
        (evaluator.multiply_constant(&x, -1e6).unwrap(), each(&|a, _| a * -1e6)),
        (evaluator.rotate(&x, 3).unwrap(), turned),
        (evaluator.dot(&[(&x, &y), (&x, &x)]).unwrap(), each(&|a, b| a * b + a * a)),
        (evaluator.level_down(&product, 0).unwrap(), each(&|a, b| a * b)),
        (evaluator.linear(&x, &band, 8).unwrap(), band.apply(&m)),
        (
            evaluator.polynomial(&real, p.clone()).unwrap(),
            each(&|a, _| Complex::from(p.value(a.re))),
        ),
    ];
    for (i, (x, wanted)) in cases.iter().enumerate() {
        let got = context.decrypt(x, secret).unwrap();
        let error = got.iter().zip(wanted).map(|(a, b)| (*a - *b).abs()).fold(0.0, f64::max);
        let values = wanted.iter().map(|v| v.abs()).fold(0.0, f64::max);
        let Account { values: most, worst: bound, .. } = x.account;
        println!("case {i}: values {values:.3e} of {most:.3e}, error {error:.3e} of {bound:.3e}");
        assert!(values <= most && error <= bound, "case {i}");
        assert!(bound < 1e4 * error, "case {i}: a bound that says something");
    }
}

/// The error stated in a file is only for showing precision; sharing does not rely on it.
#[test]
fn what_a_file_states_is_not_believed() {
    let World { context, keys, .. } = &*WORLD;
    let server = server(keys);
    // A key of its own counts what is shared.
    let secret = context
        .secret_key_from_bytes(
            &context.secret_key_to_bytes(&WORLD.secret).unwrap(),
            Trust::default(),
        )
        .unwrap();
    let x = context.encrypt(&[Complex::from(0.5); 8], 3, &secret).unwrap();
    let read = |x: &Rlwe| {
        let bytes = context.ciphertext_to_bytes(x).unwrap();
        context.ciphertext_from_bytes(&bytes, Trust::default()).unwrap()
    };
    let mut forged = x.clone();
    forged.account.error = 0.0;
    for y in [read(&x), read(&forged)] {
        assert_eq!(y.account().standing, Standing::CLAIMED);
        assert_eq!(kind(context.bits_to_share(&y, 1)), Some("bad_input"));
        let refused = context.decrypt_to_share(&y, &secret, -10.0, 1).err().unwrap();
        let says = refused.to_string();
        assert!(refused.kind() == "bad_input" && says.contains("`vouched`"), "{says}");
        // Nor does it become known on the way.
        let sum = server.add(&x, &y).unwrap();
        let none = server.multiply_constant(&sum, 0.0).unwrap();
        for y in [sum, none] {
            assert_eq!(kind(context.decrypt_to_share(&y, &secret, -10.0, 1)), Some("bad_input"));
        }
    }
    assert_eq!(secret.spent(), 0.0);
    // The owner ran the same computation, which is none here, on zeros.
    let dry = context.encrypt(&[Complex::default(); 8], 3, &secret).unwrap();
    let own = read(&x).vouched(1.0, dry.account().worst).unwrap();
    assert_eq!(context.bits_to_share(&own, 16).ok(), context.bits_to_share(&x, 16).ok());
    assert!((context.decrypt_to_share(&own, &secret, 8.0, 1).unwrap()[0].re - 0.5).abs() < 0.1);
    let like = read(&x).vouched_like(&dry).unwrap();
    assert!(like.account() == dry.account() && like.scale() == x.scale());
    // A scale, too, is what a file states: noise is as large as it says. The owner knows it from the computation.
    let lower = server.level_down(&dry, 2).unwrap();
    for forge in [
        |x: &mut Rlwe| x.scale /= (1u64 << 20) as f64,
        |x: &mut Rlwe| x.scale *= 2.0,
        |x: &mut Rlwe| x.slots = 4,
    ] {
        let mut forged = x.clone();
        forge(&mut forged);
        assert_eq!(kind(read(&forged).vouched_like(&dry)), Some("bad_input"));
    }
    assert_eq!(kind(read(&x).vouched_like(&lower)), Some("bad_input"));
    assert_eq!(kind(read(&x).vouched_like(&read(&dry))), Some("bad_input"));
}

/// Every reason is told, and a vouching mends no other than it speaks of: with values of 2^40 under a bound of 1 the noise of sharing is
/// far too small, whoever made the keys.
#[test]
fn no_reason_hides_another() {
    let World { context, secret, keys } = &*WORLD;
    let mut file = vec![];
    context.write_keys(keys, &mut file).unwrap();
    let read = Arc::new(context.read_keys(&file[..]).unwrap());
    let server = server(&read);
    let large = context.encrypt(&[Complex::from(40f64.exp2()); 8], 3, secret).unwrap();
    let zeros = context.encrypt(&[Complex::from(0.0); 8], 3, secret).unwrap();
    let y = server.multiply(&large, &zeros).unwrap();
    let says = context.bits_to_share(&y, 1).err().unwrap().to_string();
    for reason in ["keys from a file", "beyond the bound", "error follows from"] {
        assert!(says.contains(reason), "{reason}: {says}");
    }
    let most = Some(40f64.exp2());
    for (values, worst) in [(None, None), (most, None), (None, Some(0.5)), (most, Some(1e6))] {
        let vouched = y.clone().vouched(values, worst).unwrap();
        assert_eq!(kind(context.bits_to_share(&vouched, 1)), Some("bad_input"));
    }
    let own = y.vouched(most, 1e6).unwrap().vouched(None, None).unwrap();
    assert_eq!(own.account().standing, Standing::BOUNDED);
    // A bound that is right from the beginning needs no other.
    let large = large.vouched(40f64.exp2(), None).unwrap();
    let y = server.multiply(&large, &zeros).unwrap();
    assert_eq!(y.account().standing, Standing::FOREIGN);
    assert!(context.bits_to_share(&y.vouched(None, None).unwrap(), 1).is_ok());
}

/// With a public key of (0, ε) a phase is ε·v·s, for a v that its maker sees in the ciphertext: one shared decryption gave the secret key.
/// Evaluation keys of others do the same.
#[test]
fn keys_from_files_are_no_ground_to_share_on() {
    let World { context, secret, keys } = &*WORLD;
    let m = [Complex::from(0.5); 8];
    let own = context.public_key(secret).unwrap();
    let file = context.public_key_to_bytes(&own).unwrap();
    let read = context.public_key_from_bytes(&file, Trust::default()).unwrap();
    let fine = |x: &Rlwe| context.bits_to_share(x, 1).is_ok();
    let standing = |x: Result<Rlwe>| x.unwrap().account().standing;
    assert!(fine(&context.encrypt_public(&m, 3, &own).unwrap()));
    assert!(fine(&context.encrypt_public_within(&m, 2.0, 3, &own).unwrap()));
    assert_eq!(standing(context.encrypt_public(&m, 3, &read)), Standing::FOREIGN);
    let x = context.encrypt_public_within(&m, 2.0, 3, &read).unwrap();
    assert_eq!(x.account().standing, Standing::FOREIGN);
    let says = context.decrypt_to_share(&x, secret, -10.0, 1).err().unwrap().to_string();
    assert!(says.contains("keys from a file") && says.contains("vouch"), "{says}");
    // Bounds say nothing of the keys.
    for (values, worst) in [(Some(2.0), None), (None, Some(0.25)), (Some(2.0), Some(0.25))] {
        let vouched = x.clone().vouched(values, worst).unwrap();
        assert_eq!(vouched.account().standing, Standing::FOREIGN);
    }
    assert!(fine(&x.vouched(None, None).unwrap()));
    let mut file = vec![];
    context.write_keys(keys, &mut file).unwrap();
    let read = Arc::new(context.read_keys(&file[..]).unwrap());
    let x = context.encrypt(&m, 3, secret).unwrap();
    // No call makes own ones of them.
    let united = [keys.union(&read), read.union(keys)].map(|k| Arc::new(k.unwrap()));
    let more = context.keys_with(secret, &Needs::default(), KeyForm::Ready, Some(&read), UNWATCHED);
    let more = Arc::new(more.unwrap());
    let foreign = united.iter().chain([&more, &read]).map(|keys| (keys, Standing::FOREIGN));
    for (keys, wanted) in [(keys, Standing::BOUNDED)].into_iter().chain(foreign) {
        let server = server(keys);
        assert_eq!(standing(server.rotate(&x, 1)), wanted);
        assert_eq!(standing(server.multiply(&x, &x)), wanted);
        // Sums need no key.
        assert_eq!(standing(server.add(&x, &x)), Standing::BOUNDED);
    }
}

/// Bounds that cannot be, and values that their level has no room for.
#[test]
fn bounds_that_say_nothing_are_refused() {
    let World { context, secret, keys } = &*WORLD;
    let (server, x) = (server(keys), context.encrypt(&[Complex::from(0.5); 8], 3, secret).unwrap());
    let vouched = |values, error| kind(x.clone().vouched(values, error));
    for (values, error) in [(0.0, 0.1), (f64::NAN, 0.1), (1.0, 0.0), (1.0, -1.0), (1.0, f64::NAN)] {
        assert_eq!(vouched(values, error), Some("bad_input"), "{values}, {error}");
    }
    assert_eq!(vouched(f64::INFINITY, f64::INFINITY), Some("bad_input"));
    // Values too large for a level may wrap.
    let wide = x.vouched(2f64.powi(59), 1.0).unwrap();
    let low = server.level_down(&wide, 0).unwrap();
    assert_eq!(kind(context.bits_to_share(&low, 1)), Some("bad_input"));
}

/// The public parts of a ciphertext, and whether its owner can decrypt it, are the same for all messages.
#[test]
fn what_is_public_is_the_same_for_all_messages() {
    let World { context, secret, .. } = &*WORLD;
    let seen = |v: f64| {
        let x = context.encrypt(&[Complex::from(v); 8], 3, secret).unwrap();
        let length = context.ciphertext_to_bytes(&x).unwrap().len();
        let bits = context.bits_to_share(&x, 16).unwrap();
        format!("{x:?} {:?} {:e} {bits:e} {length}", x.account(), x.error())
    };
    for v in [0.5, -1.0, 1e-200] {
        assert_eq!(seen(v), seen(0.0), "{v}");
    }
    // Every ciphertext has an answer, even one that was never encrypted.
    let mut x = context.encrypt(&[Complex::from(0.5); 8], 3, secret).unwrap();
    x.parts.swap(0, 1);
    assert_eq!(context.decrypt(&x, secret).unwrap().len(), 8);
}

/// The figures of docs/ckks.md.
#[test]
#[ignore = "the ring of N = 2^16: make test-full"]
fn full_size_figures_of_the_page() {
    let context = Context::new(CkksParams::named("ckks_regular").unwrap(), false).unwrap();
    let secret = context.secret_key().unwrap();
    let x = context.encrypt(&vec![Complex::default(); 32768], 10, &secret).unwrap();
    // As a product is accounted for, without its key.
    let rounding = context.rounding(context.scale(9).unwrap());
    let account = x.account.times(x.account).blurred((rounding, 6.8 * rounding));
    let product = x.clone().vouched(account.values, account.worst).unwrap();
    for (x, queries, says) in [(&x, 1, 4.8), (&x, 100, 1.4), (&product, 1, 0.4)] {
        let bits = context.bits_to_share(x, queries).unwrap();
        assert!((bits - says).abs() < 0.05, "{bits} where docs/ckks.md says {says}");
    }
}
