//! Every quorum decrypts, fewer parties miss a part of the key, the noise is as large as it says, and what does not fit is refused.

use super::*;
use crate::cipher::file::{Draft, Trust};
use crate::params::CkksParams;
use std::sync::Arc;

const SIZES: [(usize, usize); 4] = [(2, 2), (3, 2), (5, 3), (4, 4)];

fn toy() -> (Context, CkksSecretKey) {
    let context = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
    let secret = context.secret_key().unwrap();
    (context, secret)
}

fn kind<T>(made: Result<T>) -> Option<&'static str> {
    made.err().map(|e| e.kind())
}

fn message(slots: usize) -> Vec<Complex> {
    (0..slots).map(|j| Complex::new((j as f64).sin(), (j as f64 * 0.7).cos()) * 0.7).collect()
}

/// All sets of `size` of `parties`.
fn sets(parties: usize, size: usize) -> Vec<Vec<usize>> {
    let all = (0..1u32 << parties).filter(|set| set.count_ones() as usize == size);
    all.map(|set| members(set).collect()).collect()
}

/// The sets A whose r_A parties have between them.
fn known(shares: &[KeyShare], parties: &[usize]) -> Vec<Set> {
    let shares = || parties.iter().map(|p| &shares[p - 1]);
    let mut known: Vec<Set> = shares().flat_map(|s| s.seeds.iter().map(|(set, _)| *set)).collect();
    if let Some(share) = shares().find(|s| s.last.is_some()) {
        known.extend(super::parts(share.parties, share.threshold).unwrap().last());
    }
    known.sort_unstable();
    known.dedup();
    known
}

/// All parts of a decryption.
fn all_parts(
    context: &Context,
    x: &Rlwe,
    shares: &[KeyShare],
    quorum: &[usize],
    bits: f64,
) -> Vec<PartialDecryption> {
    let part = |p: &usize| shares[p - 1].decrypt_partially(context, x, quorum, bits, 1000).unwrap();
    quorum.iter().map(part).collect()
}

#[test]
fn parts_are_all_sets_of_one_party_fewer() {
    for (n, t, count) in [(2, 2, 2), (3, 2, 3), (5, 3, 10), (4, 4, 4), (32, 3, 496), (32, 32, 32)] {
        let all = super::parts(n, t).unwrap();
        assert_eq!(all.len(), count, "{n}, {t}");
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{n}, {t}");
        let fits = |set: &Set| set.count_ones() as usize == t - 1 && u64::from(*set) < 1 << n;
        assert!(all.iter().all(fits), "{n}, {t}");
    }
    for (n, t) in [(0, 0), (1, 1), (3, 1), (3, 0), (3, 4), (33, 2), (32, 4), (32, 16), (13, 7)] {
        assert_eq!(super::parts(n, t), None, "{n}, {t}");
    }
    let (context, secret) = toy();
    for (n, t) in [(1, 1), (3, 1), (2, 3), (33, 2), (32, 16), (usize::MAX, usize::MAX)] {
        assert_eq!(kind(KeyShare::split(&context, &secret, n, t)), Some("bad_input"), "{n}, {t}");
    }
}

/// Any t − 1 parties miss one r_A, which is uniform and independent of all that they have; any t have them all, and their sum is s.
#[test]
fn too_few_parties_miss_a_part_and_every_quorum_has_the_key() {
    let (context, secret) = toy();
    let n = context.params().degree();
    for (parties, threshold) in SIZES {
        let shares = KeyShare::split(&context, &secret, parties, threshold).unwrap();
        let all = super::parts(parties, threshold).unwrap();
        for few in sets(parties, threshold - 1) {
            let missing: Set = few.iter().map(|p| bit(*p)).sum();
            let found = known(&shares, &few);
            assert_eq!(found.len(), all.len() - 1, "{few:?}");
            assert!(!found.contains(&missing), "{few:?}");
        }
        // A ciphertext (0, 1): its parts without noise are those of the key.
        let words = all_words_of_shares(&context);
        let mut x = context.encrypt(&[Complex::default()], 3, &secret).unwrap();
        let mut ones = context.ring().scratch(words.len() * n);
        ones.fill(1.0);
        x.parts[1] = Arc::new(ones);
        let s = context.secret_values(&secret, 3);
        let zeros = vec![0.0; words.len() * n];
        for quorum in sets(parties, threshold) {
            assert_eq!(known(&shares, &quorum), all, "{quorum:?}");
            let set: Set = quorum.iter().map(|p| bit(*p)).sum();
            let mut sum = zeros.clone();
            for party in &quorum {
                let part = shares[party - 1].part_of(&context, &x, set, &zeros, &words);
                let part = context.unpacked(&words, &part).unwrap();
                for (k, word) in words.iter().enumerate() {
                    context.ring().add(*word, &mut sum[k * n..][..n], &part[k * n..][..n]);
                }
            }
            for (k, word) in words.iter().enumerate() {
                let packed = |x: &[f64]| context.ring().packed(*word, &x[k * n..][..n]);
                assert!(packed(&sum) == packed(&s), "{quorum:?}, word {word}");
            }
        }
        // The part that is not drawn from a seed is as uniform as the others, within 5 standard deviations.
        let last = shares.iter().find_map(|share| share.last.as_ref()).unwrap();
        for (limb, word) in last.chunks(n).zip(&words) {
            let p = context.ring().word(*word).prime;
            let unit = limb.iter().map(|x| x.rem_euclid(p) / p);
            let deviation = |power: i32, mean: f64, std: f64| {
                let sum: f64 = unit.clone().map(|x| (x - 0.5).powi(power) - mean).sum();
                (sum / std / (n as f64).sqrt()).abs()
            };
            assert!(deviation(1, 0.0, (1f64 / 12.0).sqrt()) < 5.0);
            assert!(deviation(2, 1.0 / 12.0, (1f64 / 180.0).sqrt()) < 5.0);
        }
    }
}

/// Values come back from every quorum with the noise of t parts. Of 4096 numbers the deviation is measured to 1.1 %; the border
/// is 5 times that, so that noise of one part more or fewer is found up to t = 4 (12 %) without fail.
#[test]
fn every_quorum_decrypts_with_the_noise_of_its_parts() {
    let (context, secret) = toy();
    let slots = context.params().slots();
    let m = message(slots);
    for (parties, threshold) in SIZES {
        let shares = KeyShare::split(&context, &secret, parties, threshold).unwrap();
        for (i, mut quorum) in sets(parties, threshold).into_iter().enumerate() {
            let level = [3, 0, 10, 1][i % 4];
            let x = context.encrypt(&m, level, &secret).unwrap();
            let most = shares[0].bits_to_decrypt_partially(&context, &x, 1000).unwrap();
            let parts = all_parts(&context, &x, &shares, &quorum, most);
            let got = PartialDecryption::combine(&context, &x, &parts).unwrap();
            let square = |(a, b): (&Complex, &Complex)| (*a - *b).abs().powi(2);
            let square = got.iter().zip(&m).map(square).sum::<f64>() / slots as f64;
            let ratio = square.sqrt() / (-most).exp2() / (threshold as f64).sqrt();
            assert!((ratio - 1.0).abs() < 0.055, "{quorum:?} at level {level}: {ratio}");
            // The order of parties and of parts does not matter.
            quorum.reverse();
            let again = all_parts(&context, &x, &shares, &quorum, most);
            assert_eq!(PartialDecryption::combine(&context, &x, &again).unwrap().len(), slots);
        }
    }
}

/// Few slots, too, and as many bits: the whole polynomial is shown.
#[test]
fn bits_do_not_depend_on_the_slots() {
    let (context, secret) = toy();
    let shares = KeyShare::split(&context, &secret, 3, 2).unwrap();
    let bits = |slots, share: &KeyShare, queries| {
        let x = context.encrypt(&message(slots), 3, &secret).unwrap();
        share.bits_to_decrypt_partially(&context, &x, queries).unwrap()
    };
    let few = bits(8, &shares[0], 1);
    assert!((few - bits(2048, &shares[0], 1)).abs() < 1e-3);
    let x = context.encrypt(&message(2048), 3, &secret).unwrap();
    let alone = context.bits_to_share(&x, 1).unwrap();
    println!("{few:.2} bits of a part of 2 of 3, {alone:.2} of a decryption by the owner");
    // Two parties may answer each query.
    assert!((alone - few - 0.5).abs() < 1e-3);
    assert!((few - bits(8, &shares[0], 16) - 2.0).abs() < 1e-9);
    let whole = &KeyShare::split(&context, &secret, 4, 4).unwrap()[0];
    assert!((alone - bits(2048, whole, 1)).abs() < 1e-9, "of n of n one may");
    let x = context.encrypt(&message(8), 3, &secret).unwrap();
    let quorum = [3, 1];
    let got =
        PartialDecryption::combine(&context, &x, &all_parts(&context, &x, &shares, &quorum, 2.0))
            .unwrap();
    let far = |(a, b): (&Complex, &Complex)| (*a - *b).abs() < 0.25 * 2f64.sqrt() * 7.0;
    assert!(got.len() == 8 && got.iter().zip(&message(8)).all(far));
    // A bound below one unit is taken as one.
    let tiny = x.clone().vouched(1.0, 2f64.powi(-200)).unwrap();
    let most = shares[0].bits_to_decrypt_partially(&context, &tiny, 1).unwrap();
    let std = noise_of_part(&context, "test", &tiny, 2, most).unwrap();
    assert!((17.5..18.5).contains(&std.log2()), "{}", std.log2());
}

/// Noise of all sizes has the deviation asked for (to 5 · 1.1 %), and is even as often as odd: doubles as large have no odd numbers.
#[test]
fn noise_is_as_large_as_asked_for_and_exact_to_the_unit() {
    let (context, _) = toy();
    let (n, words) = (context.params().degree(), all_words_of_shares(&context));
    let p: Vec<i128> = words.iter().map(|i| i128::from(context.ring().word(*i).p)).collect();
    for log in [18.0, 29.9, 30.5, 45.0, 59.0] {
        let std = 2f64.powf(log);
        let seed = SecretSeed::from_system().unwrap();
        let mut limbs = noise_limbs(&context, &seed, std, &words);
        for (limb, word) in limbs.chunks_mut(n).zip(&words) {
            context.ring().backward(*word, limb);
            context.ring().reduce(*word, limb);
        }
        // Modulo the first two primes, as whole numbers.
        let (a, b) = (p[0], p[1]);
        let inverse = i128::from(crate::math::rns::inverse((a % b) as u64, b as u64));
        let value = |j: usize| {
            let (x, y) = (limbs[j] as i128, limbs[n + j] as i128);
            let x = x + a * ((y - x).rem_euclid(b) * inverse % b);
            if x > a * b / 2 { x - a * b } else { x }
        };
        let values: Vec<i128> = (0..n).map(value).collect();
        let square = values.iter().map(|x| (*x as f64 / std).powi(2)).sum::<f64>() / n as f64;
        assert!((square.sqrt() - 1.0).abs() < 0.056, "2^{log}: {}", square.sqrt());
        let odd = values.iter().filter(|x| x.rem_euclid(2) == 1).count();
        assert!(odd.abs_diff(n / 2) < 5 * 32, "2^{log}: {odd} of {n} are odd");
    }
}

/// A part less its exact value is noise of the stated deviation, within 5 standard deviations of the measurement.
#[test]
fn the_noise_of_each_part_has_the_stated_deviation() {
    let (context, secret) = toy();
    let n = context.params().degree();
    let shares = KeyShare::split(&context, &secret, 3, 2).unwrap();
    let x = context.encrypt(&message(2048), 3, &secret).unwrap();
    let words = words_of_shares(&context, "test", 3).unwrap();
    for (quorum, bits) in [([1, 2], 2.0), ([1, 3], 0.0), ([2, 3], -20.0)] {
        for part in all_parts(&context, &x, &shares, &quorum, bits) {
            let zeros = vec![0.0; words.len() * n];
            let share = &shares[part.party - 1];
            let exact = share.part_of(&context, &x, part.quorum, &zeros, &words);
            let exact = context.unpacked(&words, &exact).unwrap();
            let mut noise = context.unpacked(&words, &part.residues).unwrap();
            for (k, word) in words.iter().enumerate() {
                context.ring().sub(*word, &mut noise[k * n..][..n], &exact[k * n..][..n]);
            }
            let noise = context.integers(&noise, 3);
            let square = noise.iter().map(|e| e * e).sum::<f64>() / n as f64;
            let stated = (-bits).exp2() * x.scale / (n as f64).sqrt();
            let ratio = square.sqrt() / stated;
            assert!((ratio - 1.0).abs() < 0.056, "party {} of {quorum:?}: {ratio}", part.party);
            let slots = context.values(noise, x.scale);
            let square = slots.iter().map(|v| v.abs().powi(2)).sum::<f64>() / slots.len() as f64;
            assert!((square.sqrt() / (-bits).exp2() - 1.0).abs() < 0.08, "of a slot");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (context, secret) = toy();
    let shares = KeyShare::split(&context, &secret, 3, 2).unwrap();
    let x = context.encrypt(&message(8), 3, &secret).unwrap();
    let ask = |x: &Rlwe, share: &KeyShare, quorum: &[usize], bits: f64, queries| {
        kind(share.decrypt_partially(&context, x, quorum, bits, queries))
    };
    for quorum in [&[][..], &[1], &[1, 1], &[2, 3], &[1, 2, 3], &[0, 1], &[1, 4], &[1, usize::MAX]]
    {
        assert_eq!(ask(&x, &shares[0], quorum, 2.0, 9), Some("bad_input"), "{quorum:?}");
    }
    let most = shares[0].bits_to_decrypt_partially(&context, &x, 9).unwrap();
    assert_eq!(ask(&x, &shares[0], &[1, 2], most + 0.1, 9), Some("too_noisy"));
    for bits in [f64::NAN, f64::INFINITY, 61.0, -60.0] {
        assert_eq!(ask(&x, &shares[0], &[1, 2], bits, 9), Some("bad_input"), "{bits}");
    }
    assert_eq!(ask(&x, &shares[0], &[1, 2], 2.0, 0), Some("bad_input"));
    let other = context.secret_key().unwrap();
    let foreign = context.encrypt(&message(8), 3, &other).unwrap();
    assert_eq!(ask(&foreign, &shares[0], &[1, 2], 2.0, 9), Some("wrong_key"));
    let precise = Context::new(CkksParams::named("ckks_toy_precise").unwrap(), true).unwrap();
    let refused = shares[0].decrypt_partially(&precise, &x, &[1, 2], 2.0, 9);
    assert_eq!(kind(refused), Some("wrong_params"));
    assert_eq!(kind(KeyShare::split(&precise, &secret, 3, 2)), Some("wrong_params"));
    let mut high = x.clone();
    high.level = context.params().top_level();
    assert_eq!(ask(&high, &shares[0], &[1, 2], 2.0, 9), Some("bad_input"));
    let bytes = context.ciphertext_to_bytes(&x).unwrap();
    let read = context.ciphertext_from_bytes(&bytes, Trust::default()).unwrap();
    assert_eq!(ask(&read, &shares[0], &[1, 2], 2.0, 9), Some("bad_input"), "no account");
    assert_eq!(shares[0].spent(), 0.0, "what was public spends nothing");
    // The share counts its own answers.
    assert_eq!(ask(&x, &shares[0], &[1, 2], 2.0, 2), None);
    assert_eq!(ask(&x, &shares[0], &[1, 3], 2.0, 2), None);
    assert_eq!(ask(&x, &shares[0], &[1, 3], 2.0, 2), Some("bad_input"), "spent");
    assert_eq!((shares[0].spent(), shares[1].spent()), (1.0, 0.0));
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let (context, secret) = toy();
    let [shares, others] = [0, 1].map(|_| KeyShare::split(&context, &secret, 3, 2).unwrap());
    let key = context.secret_key().unwrap();
    let foreign = KeyShare::split(&context, &key, 3, 2).unwrap();
    let x = context.encrypt(&message(8), 3, &secret).unwrap();
    let y = context.encrypt(&message(8), 3, &secret).unwrap();
    let z = context.encrypt(&message(8), 3, &key).unwrap();
    let part = |x: &Rlwe, shares: &[KeyShare], party: usize, quorum: &[usize]| {
        shares[party - 1].decrypt_partially(&context, x, quorum, 2.0, 99).unwrap()
    };
    let [a, b] = [1, 2].map(|p| part(&x, &shares, p, &[1, 2]));
    let combine = |parts: &[&PartialDecryption]| {
        let parts: Vec<_> = parts.iter().map(|part| (*part).clone()).collect();
        kind(PartialDecryption::combine(&context, &x, &parts))
    };
    assert_eq!(combine(&[&a, &b]), None);
    assert_eq!(combine(&[&b, &a]), None);
    assert_eq!(combine(&[]), Some("bad_input"));
    assert_eq!(combine(&[&a]), Some("bad_input"), "one is missing");
    assert_eq!(combine(&[&a, &a]), Some("bad_input"), "one is twice there");
    assert_eq!(combine(&[&a, &b, &b]), Some("bad_input"), "one is twice there");
    let c = part(&x, &shares, 3, &[1, 3]);
    assert_eq!(combine(&[&a, &c]), Some("bad_input"), "another quorum");
    assert_eq!(combine(&[&a, &part(&y, &shares, 2, &[1, 2])]), Some("bad_input"), "ciphertext");
    assert_eq!(combine(&[&a, &part(&x, &others, 2, &[1, 2])]), Some("bad_input"), "splitting");
    assert_eq!(combine(&[&a, &part(&z, &foreign, 2, &[1, 2])]), Some("wrong_key"));
    let mut lower = x.clone();
    lower.level = 1;
    let refused = PartialDecryption::combine(&context, &lower, &[a.clone(), b.clone()]);
    assert_eq!(kind(refused), Some("bad_input"), "the same polynomials at another level");
    let mut scaled = x.clone();
    scaled.scale *= 2.0;
    assert_eq!(
        kind(PartialDecryption::combine(&context, &scaled, &[a.clone(), b])),
        Some("bad_input")
    );
    let says = format!("{a:?}");
    assert!(says.contains("party 1 of [1, 2]") && !says.contains("residues"), "{says}");
    assert_eq!((a.party(), a.quorum(), a.key_id()), (1, vec![1, 2], secret.id()));
}

#[test]
fn shares_and_parts_come_back_from_files() {
    let (context, secret) = toy();
    let x = context.encrypt(&message(8), 0, &secret).unwrap();
    for (parties, threshold) in SIZES {
        let shares = KeyShare::split(&context, &secret, parties, threshold).unwrap();
        let back: Vec<KeyShare> = shares
            .iter()
            .map(|share| {
                let bytes = share.to_bytes(&context).unwrap();
                let back = KeyShare::from_bytes(&context, &bytes, Trust::default()).unwrap();
                assert_eq!(*back.to_bytes(&context).unwrap(), *bytes);
                assert_eq!((back.party(), back.parties()), (share.party(), parties));
                assert_eq!((back.threshold(), back.key_id()), (threshold, secret.id()));
                back
            })
            .collect();
        let quorum: Vec<usize> = (1 + parties - threshold..=parties).collect();
        // One of the quorum has the share as it was made.
        let mixed = |p: &usize| {
            let share = if *p == parties { &shares[p - 1] } else { &back[p - 1] };
            let part = share.decrypt_partially(&context, &x, &quorum, 2.0, 9).unwrap();
            let bytes = part.to_bytes(&context).unwrap();
            let read = PartialDecryption::from_bytes(&context, &bytes, Trust::default()).unwrap();
            assert!(read == part);
            read
        };
        let parts: Vec<_> = quorum.iter().map(mixed).collect();
        let got = PartialDecryption::combine(&context, &x, &parts).unwrap();
        let most = 7.0 * 0.25 * (threshold as f64).sqrt();
        assert!(got.iter().zip(message(8)).all(|(a, b)| (*a - b).abs() < most), "{got:?}");
    }
    let share = KeyShare::split(&context, &secret, 3, 2).unwrap().remove(0);
    let path = std::env::temp_dir().join(format!("becalm-share-{}", std::process::id()));
    share.save(&context, &path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), *share.to_bytes(&context).unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(KeyShare::load(&context, &path, Trust::default()).unwrap().party(), 1);
    let part = share.decrypt_partially(&context, &x, &[1, 2], 2.0, 9).unwrap();
    // A share is replaced by force alone.
    assert_eq!(kind(part.save(&context, &path)), Some("io"));
    std::fs::remove_file(&path).unwrap();
    part.save(&context, &path).unwrap();
    assert!(PartialDecryption::load(&context, &path, Trust::default()).unwrap() == part);
    assert_eq!(kind(KeyShare::load(&context, &path, Trust::default())), Some("bad_file"));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(kind(PartialDecryption::load(&context, &path, Trust::default())), Some("io"));
}

/// Every altered byte is found, and so are files of another kind, set or length.
#[test]
fn damaged_and_foreign_files_are_refused() {
    let (context, secret) = toy();
    let shares = KeyShare::split(&context, &secret, 3, 2).unwrap();
    let x = context.encrypt(&message(8), 0, &secret).unwrap();
    let part = shares[0].decrypt_partially(&context, &x, &[1, 2], 2.0, 9).unwrap();
    let other = Context::new(CkksParams::named("ckks_toy_precise").unwrap(), true).unwrap();
    let small = Trust { limit: 1000, ..Trust::default() };
    let mut share = shares[0].to_bytes(&context).unwrap().to_vec();
    let mut part = part.to_bytes(&context).unwrap();
    let read = [
        &|bytes: &[u8], trust| kind(KeyShare::from_bytes(&context, bytes, trust)),
        &|bytes: &[u8], trust| kind(PartialDecryption::from_bytes(&context, bytes, trust)),
    ] as [&dyn Fn(&[u8], Trust) -> Option<&'static str>; 2];
    let foreign = [
        kind(KeyShare::from_bytes(&other, &share, Trust::default())),
        kind(PartialDecryption::from_bytes(&other, &part, Trust::default())),
    ];
    assert_eq!(foreign, [Some("wrong_params"); 2]);
    assert_eq!(read[0](&part, Trust::default()), Some("bad_file"), "another kind");
    assert_eq!(read[1](&share, Trust::default()), Some("bad_file"), "another kind");
    for (read, bytes) in read.iter().zip([&mut share, &mut part]) {
        assert_eq!(read(bytes, Trust::default()), None);
        assert_eq!(read(bytes, small), Some("bad_file"), "the limit");
        for at in (0..bytes.len()).step_by(97) {
            bytes[at] ^= 4;
            let found = read(bytes, Trust::default());
            assert!(matches!(found, Some("bad_file" | "wrong_params")), "byte {at}: {found:?}");
            bytes[at] ^= 4;
        }
        for length in [0, 7, 8, 100, bytes.len() - 1] {
            assert_eq!(read(&bytes[..length], Trust::default()), Some("bad_file"), "{length}");
        }
    }
}

/// A forged file may have a right checksum; its claims are checked all the same, before anything is allocated for them.
#[test]
fn forged_claims_of_shares_are_refused() {
    let (context, secret) = toy();
    let share = KeyShare::split(&context, &secret, 3, 2).unwrap().remove(0);
    let [seeds, last] = share.tensors(&context).unwrap();
    let (n, l) = (seeds.len(), last.len());
    let draft = |n: usize, l: usize| share.draft(&context, &seeds[..n], &last[..l]).unwrap();
    let read = |draft: Draft<'_>| {
        kind(KeyShare::from_bytes(&context, &draft.to_bytes().unwrap(), Trust::default()))
    };
    assert_eq!(read(draft(n, l)), None);
    for (name, value) in [
        ("parties", "33"),
        ("parties", "4"),
        ("parties", "03"),
        ("parties", "-3"),
        ("parties", "18446744073709551616"),
        ("threshold", "0"),
        ("threshold", "1"),
        ("threshold", "3"),
        ("threshold", "4"),
        ("party", "0"),
        ("party", "3"),
        ("party", "4"),
        ("party", ""),
        ("split", "00"),
        ("key", "xyz"),
        ("version", "2"),
        ("other", "1"),
    ] {
        let forged = draft(n, l).note(name, value);
        assert_eq!(read(forged), Some("bad_file"), "{name} {value}");
    }
    for (n, l) in [(n - 1, l), (n - 32, l), (0, l), (n, l - 1), (n, 0)] {
        assert_eq!(read(draft(n, l)), Some("bad_file"), "{n} and {l} bytes");
    }
    let ones = vec![0xFF; l];
    assert_eq!(
        read(share.draft(&context, &seeds, &ones).unwrap()),
        Some("bad_file"),
        "a residue that is not reduced"
    );
}

#[test]
fn forged_claims_of_parts_are_refused() {
    let (context, secret) = toy();
    let share = KeyShare::split(&context, &secret, 3, 2).unwrap().remove(0);
    let x = context.encrypt(&message(8), 0, &secret).unwrap();
    let mut part = share.decrypt_partially(&context, &x, &[1, 2], 2.0, 9).unwrap();
    let read =
        |bytes: &[u8]| kind(PartialDecryption::from_bytes(&context, bytes, Trust::default()));
    for (name, value) in [
        ("quorum", ""),
        ("quorum", "1"),
        ("quorum", "2 1"),
        ("quorum", "1 1 2"),
        ("quorum", "01 2"),
        ("quorum", "1  2"),
        ("quorum", "0 1"),
        ("quorum", "1 33"),
        ("quorum", "2 3"),
        ("party", "0"),
        ("party", "3"),
        ("party", "33"),
        ("level", "1"),
        ("level", "99"),
        ("level", "-1"),
        ("ciphertext", "00"),
        ("split", ""),
    ] {
        let forged = part.draft(&context).unwrap().note(name, value).to_bytes().unwrap();
        assert_eq!(read(&forged), Some("bad_file"), "{name} {value}");
    }
    part.residues.fill(0xFF);
    let unreduced = part.to_bytes(&context).unwrap();
    assert_eq!(read(&unreduced), Some("bad_file"), "a residue that is not below its prime");
}
