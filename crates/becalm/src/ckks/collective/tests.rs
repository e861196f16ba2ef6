//! Keys of summed messages satisfy their equations under the summed secret with the noise that accounts count, parts hide secrets, and what
//! does not fit is refused.

use super::*;
use crate::UNWATCHED;
use crate::cipher::file::{Draft, Trust};
use crate::cipher::{CkksKeys, CkksPublicKey, CkksSecretKey, Held, KeyForm, Rlwe};
use crate::ckks::threshold::words_of_shares;
use crate::ckks::{KeyShare, PartialDecryption};
use crate::math::complex::Complex;
use crate::math::rns::{inverse, mul};
use crate::params::{CkksParams, NOISE_STD};

const SEED: PublicSeed = PublicSeed([3; 32]);
const SIZES: [(usize, usize); 5] = [(2, 2), (3, 2), (3, 3), (8, 2), (8, 8)];

pub(super) fn toy() -> Context {
    Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap()
}

fn kind<T>(made: Result<T>) -> Option<&'static str> {
    made.err().map(|e| e.kind())
}

fn needs() -> Needs {
    Needs { conjugate: Some(2), ..Needs::default() }.rotate([1], 3)
}

/// All that the parties have at the end.
struct Made {
    parties: Vec<Party>,
    firsts: Vec<PartyMessage>,
    seconds: Vec<PartyMessage>,
    shares: Vec<KeyShare>,
    public: CkksPublicKey,
    keys: CkksKeys,
    secret: CkksSecretKey,
}

fn made(context: &Context, n: usize, t: usize) -> Made {
    let agreement = Agreement::new(context, n, t, SEED, &needs()).unwrap();
    let parties: Vec<Party> =
        (1..=n).map(|i| Party::new(context, &agreement, i).unwrap()).collect();
    let firsts: Vec<_> =
        parties.iter().map(|p| p.first_message(context, UNWATCHED).unwrap()).collect();
    let seconds: Vec<_> =
        parties.iter().map(|p| p.second_message(context, &firsts, UNWATCHED).unwrap()).collect();
    let mut dealt: Vec<Vec<KeyShare>> = parties.iter().map(|p| p.deal(context).unwrap()).collect();
    let mut share = |p: &Party| {
        let own = |(from, all): (usize, &mut Vec<KeyShare>)| {
            (from + 1 != p.party && !all.is_empty()).then(|| all.remove(0))
        };
        // Each takes the next of every list; its own is left out.
        let parts: Vec<KeyShare> = dealt.iter_mut().enumerate().filter_map(own).collect();
        if let Some(all) = dealt.get_mut(p.party - 1).filter(|all| !all.is_empty()) {
            drop(all.remove(0));
        }
        p.share(context, &firsts, &parts.iter().collect::<Vec<_>>()).unwrap()
    };
    let shares = parties.iter().map(&mut share).collect();
    let both = [firsts.clone(), seconds.clone()].concat();
    let (public, keys) =
        PartyMessage::aggregate(context, &both, KeyForm::Ready, UNWATCHED).unwrap();
    let secret = Party::summed_secret(context, &parties, public.id());
    Made { parties, firsts, seconds, shares, public, keys, secret }
}

/// The root of the mean square and the greatest coefficient of what is left of a body, b + a·to − P·from in the words of its digit,
/// which must be the same small numbers modulo all words.
fn left(
    context: &Context,
    words: &[usize],
    b: &[f64],
    a: &[f64],
    to: &[f64],
    hidden: Option<(Range<usize>, usize, Vec<f64>)>,
) -> (f64, f64) {
    let (ring, n) = (context.ring(), context.params().degree());
    let mut first: Option<Vec<f64>> = None;
    for (i, word) in words.iter().enumerate() {
        let mut x = b[i * n..][..n].to_vec();
        ring.mul_add(*word, &mut x, &a[i * n..][..n], &to[word * n..][..n]);
        if let Some((_, special, from)) = hidden.as_ref().filter(|(own, ..)| own.contains(&i)) {
            let p = centred(context.special_product(*special, *word), ring.word(*word).p);
            ring.scale_add(*word, &mut x, &from[word * n..][..n], -p);
        }
        ring.backward(*word, &mut x);
        ring.reduce(*word, &mut x);
        let p = ring.word(*word).p as f64;
        x.iter_mut().for_each(|x| *x -= p * (*x / p).round());
        assert!(first.get_or_insert_with(|| x.clone()) == &x, "word {word}");
    }
    let x = first.unwrap();
    let square = x.iter().map(|e| e * e).sum::<f64>() / n as f64;
    (square.sqrt(), x.iter().map(|e| e.abs()).fold(0.0, f64::max))
}

/// Of 4096 coefficients a deviation is measured to 1.1 %, the product of two polynomials to a few per cent more.
#[test]
fn keys_satisfy_their_equations_with_the_noise_that_is_counted() {
    let context = toy();
    let n = context.params().degree();
    let all: Vec<usize> = (0..context.all_words()).collect();
    for (parties, threshold) in SIZES {
        let Made { public, keys, secret, .. } = made(&context, parties, threshold);
        let s = context.secret_limbs(&secret.coefficients, &all);
        let square: Vec<f64> = {
            let mut x = vec![0.0; s.len()];
            for (i, x) in x.chunks_mut(n).enumerate() {
                context.ring().mul(i, x, &s[i * n..][..n], &s[i * n..][..n]);
            }
            x
        };
        let near = |what: &str, (std, worst): (f64, f64), wanted: f64, off: f64, reach: f64| {
            println!("{threshold} of {parties}, {what}: {std:.1} where {wanted:.1}, {worst:.0}");
            assert!((std / wanted - 1.0).abs() < off, "{what}: {std} where {wanted}");
            assert!(worst < reach * wanted, "{what}: {worst} where {wanted}");
        };
        let fresh = NOISE_STD.hypot(12f64.sqrt().recip()) * (parties as f64).sqrt();
        let words = context.words_of(context.params().levels, 0);
        let found = left(&context, &words, &public.parts[0], &public.parts[1], &s, None);
        near("public", found, fresh, 0.056, 6.5);
        assert_eq!(public.parties(), parties);
        assert_eq!(keys.switches.len(), 3);
        for ((purpose, _), held) in &keys.switches {
            let Held::Ready(key) = held else { panic!("a key that is ready") };
            let words = context.words_of(key.level, key.special);
            let row = words.len() * n;
            for (j, own) in context.digits(key.level).into_iter().enumerate() {
                let [b, a] = [&key.bodies, &key.masks].map(|x| &x[j * row..][..row]);
                let hidden = |from: &'_ [f64]| (own.clone(), key.special, from.to_vec());
                let what = format!("{purpose:?} {j}");
                match purpose {
                    Purpose::Galois(g) => {
                        let to = context.image(&s, *g as usize);
                        let found = left(&context, &words, b, a, &to, Some(hidden(&s)));
                        near(&what, found, fresh, 0.056, 6.5);
                    }
                    _ => {
                        let found = left(&context, &words, b, a, &s, Some(hidden(&square)));
                        near(&what, found, context.product_noise(parties), 0.12, 7.0);
                    }
                }
            }
        }
    }
}

fn parts_of(
    context: &Context,
    x: &Rlwe,
    shares: &[KeyShare],
    quorum: &[usize],
) -> (Vec<PartialDecryption>, f64) {
    let bits = shares[0].bits_to_decrypt_partially(context, x, 16).unwrap();
    let part = |p: &usize| shares[p - 1].decrypt_partially(context, x, quorum, bits, 16).unwrap();
    (quorum.iter().map(part).collect(), bits)
}

fn message(slots: usize) -> Vec<Complex> {
    (0..slots).map(|j| Complex::new((j as f64).sin(), (j as f64 * 0.7).cos()) * 0.7).collect()
}

/// Of all quorums the first, the last, and some between.
fn quorums(n: usize, t: usize) -> Vec<Vec<usize>> {
    let all = (1..1u32 << n).filter(|set| set.count_ones() as usize == t);
    let all: Vec<Vec<usize>> =
        all.map(|set| (1..=n).filter(|p| set >> (p - 1) & 1 == 1).collect()).collect();
    let step = all.len().div_ceil(4);
    all.iter().step_by(step).chain(all.last()).cloned().collect()
}

/// Shares of secrets that were never together decrypt, with the noise of t parts: 2048 slots tell it to 1.1 %.
#[test]
fn quorums_decrypt_what_anyone_encrypted() {
    let context = toy();
    let slots = context.params().slots();
    let m = message(slots);
    for (n, t) in SIZES {
        let Made { shares, public, secret, .. } = made(&context, n, t);
        let x = context.encrypt_public(&m, 3, &public).unwrap();
        let square = |got: &[Complex]| {
            let each = got.iter().zip(&m).map(|(a, b)| (*a - *b).abs().powi(2));
            (each.sum::<f64>() / slots as f64).sqrt()
        };
        let error = square(&context.decrypt(&x, &secret).unwrap());
        assert!((0.8..1.0).contains(&(error / x.error())), "{error:e}, {:e}", x.error());
        for quorum in quorums(n, t) {
            let (parts, bits) = parts_of(&context, &x, &shares, &quorum);
            let got = square(&PartialDecryption::combine(&context, &x, &parts).unwrap());
            let ratio = got / (-bits).exp2() / (t as f64).sqrt();
            assert!((ratio - 1.0).abs() < 0.055, "{quorum:?}: {ratio}");
        }
    }
}

/// The coefficients of `wanted` that (published − c_0)/c_1 modulo one prime is right in.
fn right(context: &Context, x: &Rlwe, published: &[f64], wanted: &[f64]) -> usize {
    let p = context.ring().word(0).p;
    let word = |v: f64| (v as i64).rem_euclid(p as i64) as u64;
    let divided = |(a, b): (&f64, &f64)| {
        let quotient = mul(word(*a), inverse(word(*b), p), p);
        centred(quotient, p)
    };
    let mut guess: Vec<f64> = published.iter().zip(x.parts[1].iter()).map(divided).collect();
    context.ring().backward(0, &mut guess);
    context.ring().reduce(0, &mut guess);
    guess.iter().zip(wanted).filter(|(a, b)| a == b).count()
}

/// All other parties know the secrets of all but one, and divide what it publishes: of a part without noise they get its secret, and
/// nothing of what it gives.
#[test]
fn a_part_does_not_tell_the_secret_of_its_party() {
    let context = toy();
    let n = context.params().degree();
    for (parties, threshold) in [(3, 3), (3, 2)] {
        let Made { parties, shares, public, .. } = made(&context, parties, threshold);
        let x = context.encrypt_public(&message(8), 3, &public).unwrap();
        let words = words_of_shares(&context, "test", 3).unwrap();
        let quorum: Vec<usize> = (1..=threshold).collect();
        let share = &shares[threshold - 1];
        let set = quorum.iter().map(|p| 1 << (p - 1)).sum();
        let zeros = vec![0.0; words.len() * n];
        let exact = share.part_of(&context, &x, set, &zeros, &words);
        // A ciphertext (0, 1) gives the key of the part itself.
        let mut one = x.clone();
        let mut ones = context.ring().scratch(words.len() * n);
        ones.fill(1.0);
        one.parts[1] = Arc::new(ones);
        let own = share.part_of(&context, &one, set, &zeros, &words);
        let mut own = context.unpacked(&words, &own).unwrap()[..n].to_vec();
        context.ring().backward(0, &mut own);
        context.ring().reduce(0, &mut own);
        let p = context.ring().word(0).p as f64;
        own.iter_mut().for_each(|x| *x -= p * (*x / p).round());
        if parties.len() == threshold {
            let secret = Party::summed_secret(&context, &parties[threshold - 1..], public.id());
            assert!(own == secret.coefficients);
        } else {
            let large = own.iter().filter(|x| x.abs() > 2f64.powi(40)).count();
            assert!(large > n * 9 / 10, "what was dealt is no small secret: {large}");
        }
        let unpacked = |bytes: &[u8]| context.unpacked(&words, bytes).unwrap()[..n].to_vec();
        assert_eq!(right(&context, &x, &unpacked(&exact), &own), n, "the attack works");
        for _ in 0..4 {
            let (parts, _) = parts_of(&context, &x, &shares[..], &quorum);
            let published = unpacked(&parts[threshold - 1].residues);
            let found = right(&context, &x, &published, &own);
            assert!(found < n / 100, "{found} of {n} coefficients");
        }
    }
}

/// The same party tells the same; another answer has other noise, and another agreement other secrets.
#[test]
fn messages_follow_from_the_party_and_what_it_answers() {
    let context = toy();
    let Made { parties, firsts, seconds, .. } = made(&context, 2, 2);
    assert!(parties[0].first_message(&context, UNWATCHED).unwrap() == firsts[0]);
    assert!(parties[0].second_message(&context, &firsts, UNWATCHED).unwrap() == seconds[0]);
    let reversed: Vec<_> = firsts.iter().rev().cloned().collect();
    assert!(parties[0].second_message(&context, &reversed, UNWATCHED).unwrap() == seconds[0]);
    let other = Party::new(&context, &parties[0].agreement, 2).unwrap();
    let others = [firsts[0].clone(), other.first_message(&context, UNWATCHED).unwrap()];
    let answer = parties[0].second_message(&context, &others, UNWATCHED).unwrap();
    let row = &parties[0].agreement.rows(&context, 2)[0];
    let [one, two] =
        [&seconds[0], &answer].map(|m| parties[0].noise(&context, row, &m.answers.unwrap()));
    assert!(*one != *two);
    let agreement = Agreement::new(&context, 2, 2, PublicSeed([4; 32]), &needs()).unwrap();
    let [a, b] = [&parties[0].agreement, &agreement].map(|agreement| Party {
        agreement: agreement.clone(),
        party: 1,
        seed: parties[0].seed.again(),
    });
    let [a, b] = [a, b].map(|party| Party::summed_secret(&context, &[party], KeyId([0; 16])));
    assert!(a.coefficients != b.coefficients);
    assert!(firsts[0].digest() != firsts[1].digest());
    let says = format!("{:?} {:?}", parties[0], firsts[0]);
    assert!(says.starts_with("Party(ckks_toy_12, party 1 of 2) PartyMessage("), "{says}");
}

#[test]
fn agreements_that_cannot_be_are_refused() {
    let context = toy();
    let agree = |n, t, needs: &Needs| kind(Agreement::new(&context, n, t, SEED, needs));
    for (n, t) in [(1, 1), (3, 1), (2, 3), (33, 2), (32, 16)] {
        assert_eq!(agree(n, t, &needs()), Some("bad_input"), "{n}, {t}");
    }
    let level = context.params().top_level();
    let bootstrap = Needs { bootstrap: Some(level), ..Needs::default() };
    assert_eq!(agree(2, 2, &bootstrap), Some("unsupported"));
    assert_eq!(agree(2, 2, &Needs::default().rotate([1], level)), Some("bad_input"));
    assert_eq!(agree(2, 2, &Needs::default().rotate(1..1026, 1)), Some("bad_input"));
    let agreement = Agreement::new(&context, 3, 2, SEED, &needs()).unwrap();
    assert_eq!(agreement, Agreement::new(&context, 3, 2, SEED, &needs()).unwrap());
    for other in [
        Agreement::new(&context, 3, 3, SEED, &needs()),
        Agreement::new(&context, 4, 2, SEED, &needs()),
        Agreement::new(&context, 3, 2, PublicSeed([4; 32]), &needs()),
        Agreement::new(&context, 3, 2, SEED, &Needs::default()),
    ] {
        assert_ne!(other.unwrap().id(), agreement.id());
    }
    for party in [0, 4, usize::MAX] {
        assert_eq!(kind(Party::new(&context, &agreement, party)), Some("bad_input"), "{party}");
    }
    let precise = Context::new(CkksParams::named("ckks_toy_precise").unwrap(), true).unwrap();
    assert_eq!(kind(Party::new(&precise, &agreement, 1)), Some("wrong_params"));
}

#[test]
fn messages_that_do_not_belong_together_are_refused() {
    let context = toy();
    let one = made(&context, 3, 2);
    let other = made(&context, 3, 2);
    let elsewhere = {
        let agreement = Agreement::new(&context, 3, 2, PublicSeed([9; 32]), &needs()).unwrap();
        Party::new(&context, &agreement, 2).unwrap().first_message(&context, UNWATCHED).unwrap()
    };
    let (f, s) = (&one.firsts, &one.seconds);
    let says = |made: Result<()>| made.err().map(|e| e.detail().got.clone()).unwrap_or_default();
    let answer = |list: &[&PartyMessage]| {
        let list: Vec<_> = list.iter().map(|m| (*m).clone()).collect();
        says(one.parties[0].second_message(&context, &list, UNWATCHED).map(drop))
    };
    assert_eq!(answer(&[&f[2], &f[0], &f[1]]), "");
    assert_eq!(answer(&[]), "none of [1, 2, 3]");
    assert_eq!(answer(&[&f[0], &f[2]]), "none of [2]");
    assert_eq!(answer(&[&f[0], &f[1], &f[1]]), "two of party 2");
    assert_eq!(answer(&[&f[0], &f[1], &s[2]]), "one of round 2, of party 3");
    assert_eq!(answer(&[&f[0], &elsewhere, &f[2]]), "one of another agreement, of party 2");
    assert_eq!(answer(&[&other.firsts[0], &f[1], &f[2]]), "one of other secrets");
    let sum = |list: &[&PartyMessage]| {
        let list: Vec<_> = list.iter().map(|m| (*m).clone()).collect();
        says(PartyMessage::aggregate(&context, &list, KeyForm::Ready, UNWATCHED).map(drop))
    };
    assert_eq!(sum(&[&s[2], &f[0], &f[1], &s[0], &f[2], &s[1]]), "");
    assert_eq!(sum(&[]), "none");
    assert_eq!(sum(&[&f[0], &f[1], &f[2], &s[0], &s[1]]), "none of [3]");
    assert_eq!(sum(&[&f[0], &f[1], &s[0], &s[1], &s[2]]), "none of [3]");
    assert_eq!(sum(&[&f[0], &f[1], &f[2], &s[0], &s[1], &s[1]]), "two of party 2");
    let mixed = [&f[0], &f[1], &f[2], &s[0], &s[1], &other.seconds[2]];
    assert_eq!(sum(&mixed), "one to others, of party 3");
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let context = toy();
    let one = made(&context, 3, 2);
    let f = &one.firsts;
    let says = |made: Result<()>| made.err().map(|e| e.detail().got.clone()).unwrap_or_default();
    let dealt: Vec<Vec<KeyShare>> = one.parties.iter().map(|p| p.deal(&context).unwrap()).collect();
    let share = |parts: &[&KeyShare]| {
        let again = |part: &&KeyShare| {
            let bytes = part.to_bytes(&context).unwrap();
            KeyShare::from_bytes(&context, &bytes, Trust::default()).unwrap()
        };
        let parts: Vec<KeyShare> = parts.iter().map(again).collect();
        let parts: Vec<&KeyShare> = parts.iter().collect();
        says(one.parties[0].share(&context, f, &parts).map(drop))
    };
    let part = |from: usize, to: usize| &dealt[from - 1][to - 1];
    assert_eq!(share(&[part(3, 1), part(2, 1)]), "");
    assert_eq!(share(&[part(1, 1), part(3, 1), part(2, 1)]), "", "the own one does no harm");
    assert_eq!(share(&[part(3, 1)]), "none from [2]");
    assert_eq!(share(&[part(3, 1), part(3, 1)]), "two from party 3");
    assert_eq!(share(&[part(3, 2), part(2, 1)]), "one for party 2 from party 3");
    assert_eq!(share(&[&one.shares[0], part(2, 1)]), "one of another agreement");
    let whole = made(&context, 2, 2);
    let got = whole.parties[0].share(&context, &whole.firsts, &[&dealt[0][0]]);
    assert_eq!(says(got.map(drop)), "1 of them");
    // What was dealt decrypts nothing by itself, nor does a share of a key that an owner made.
    let x = context.encrypt_public(&message(8), 1, &one.public).unwrap();
    let ask =
        |x: &Rlwe, share: &KeyShare| kind(share.decrypt_partially(&context, x, &[1, 2], -20.0, 9));
    assert_eq!(ask(&x, part(2, 1)), Some("wrong_key"));
    assert_eq!(ask(&x, &one.shares[0]), None);
    let mut lie = x.clone();
    lie.account.parties = 1;
    assert_eq!(ask(&lie, &one.shares[0]), Some("bad_input"), "an account of one party");
}

#[test]
fn parties_messages_shares_and_keys_come_back_from_files() {
    let context = toy();
    let Made { parties, firsts, seconds, shares, public, .. } = made(&context, 3, 2);
    let trust = Trust::default();
    let bytes = parties[1].to_bytes(&context).unwrap();
    let party = Party::from_bytes(&context, &bytes, trust).unwrap();
    assert_eq!(*party.to_bytes(&context).unwrap(), *bytes);
    let read = |message: &PartyMessage| {
        let bytes = message.to_bytes(&context).unwrap();
        let back = PartyMessage::from_bytes(&context, &bytes, trust).unwrap();
        assert!(back == *message && back.digest() == message.digest());
        back
    };
    let firsts: Vec<_> = firsts.iter().map(read).collect();
    assert!(party.second_message(&context, &firsts, UNWATCHED).unwrap() == read(&seconds[1]));
    let path = |name: &str| {
        std::env::temp_dir().join(format!("becalm-collective-{name}-{}", std::process::id()))
    };
    let (at, told) = (path("party"), path("message"));
    party.save(&context, &at).unwrap();
    firsts[0].save(&context, &told).unwrap();
    assert_eq!(Party::load(&context, &at, trust).unwrap().party(), 2);
    assert!(PartyMessage::load(&context, &told, trust).unwrap() == firsts[0]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&at).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(kind(firsts[0].save(&context, &at)), Some("io"), "a secret is there");
    [at, told].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let share = shares[0].to_bytes(&context).unwrap();
    let back = KeyShare::from_bytes(&context, &share, trust).unwrap();
    assert_eq!(*back.to_bytes(&context).unwrap(), *share);
    let key = context.public_key_to_bytes(&public).unwrap();
    let key = context.public_key_from_bytes(&key, trust).unwrap();
    let x = context.encrypt_public(&message(8), 1, &key).unwrap();
    let x = context.ciphertext_to_bytes(&x).unwrap();
    let x = context.ciphertext_from_bytes(&x, trust).unwrap();
    assert_eq!((key.parties(), x.account.parties), (3, 3));
    let x = x.vouched(1.0, 2f64.powi(-30)).unwrap();
    let bits = back.bits_to_decrypt_partially(&context, &x, 9).unwrap();
    let parts = [&back, &shares[2]]
        .map(|share| share.decrypt_partially(&context, &x, &[1, 3], bits, 9).unwrap());
    let got = PartialDecryption::combine(&context, &x, &parts).unwrap();
    let most = 7.0 * 2f64.sqrt() * (-bits).exp2();
    let near = |(a, b): (&Complex, Complex)| (*a - b).abs() < most;
    assert!(got.iter().zip(message(8)).all(near), "{got:?}");
}

/// Every altered byte is found, and so are files of another kind, set or length.
#[test]
fn damaged_and_foreign_files_are_refused() {
    let context = toy();
    let Made { parties, firsts, seconds, .. } = made(&context, 2, 2);
    let (trust, small) = (Trust::default(), Trust { limit: 100, ..Trust::default() });
    let other = Context::new(CkksParams::named("ckks_toy_precise").unwrap(), true).unwrap();
    let mut bytes = [
        parties[0].to_bytes(&context).unwrap().to_vec(),
        firsts[0].to_bytes(&context).unwrap(),
        seconds[0].to_bytes(&context).unwrap(),
    ];
    let read = |context: &Context, i: usize, bytes: &[u8], trust| match i {
        0 => kind(Party::from_bytes(context, bytes, trust)),
        _ => kind(PartyMessage::from_bytes(context, bytes, trust)),
    };
    for (i, bytes) in bytes.iter_mut().enumerate() {
        assert_eq!(read(&context, i, bytes, trust), None);
        assert_eq!(read(&context, i, bytes, small), Some("bad_file"), "the limit");
        assert_eq!(read(&context, 1 - i.min(1), bytes, trust), Some("bad_file"), "another kind");
        assert_eq!(read(&other, i, bytes, trust), Some("wrong_params"));
        let step = (bytes.len() / 40).max(7);
        for at in (0..bytes.len()).step_by(step).chain(0..bytes.len().min(64)) {
            bytes[at] ^= 4;
            let found = read(&context, i, bytes, trust);
            assert!(matches!(found, Some("bad_file" | "wrong_params")), "byte {at}: {found:?}");
            bytes[at] ^= 4;
        }
        for length in [0, 8, 100, bytes.len() - 1] {
            assert_eq!(read(&context, i, &bytes[..length], trust), Some("bad_file"), "{length}");
        }
    }
}

#[test]
fn forged_claims_of_messages_are_refused() {
    let context = toy();
    let Made { firsts, seconds, .. } = made(&context, 2, 2);
    let trust = Trust::default();
    let forged = |change: &dyn Fn(Draft<'_>) -> Vec<u8>| {
        kind(PartyMessage::from_bytes(&context, &change(firsts[0].draft(&context).unwrap()), trust))
    };
    let top = context.params().levels;
    for (name, value) in [
        ("party", "0".to_string()),
        ("party", "3".into()),
        ("party", "01".into()),
        ("parties", "1".into()),
        ("parties", "33".into()),
        ("threshold", "1".into()),
        ("threshold", "3".into()),
        ("round", "0".into()),
        ("round", "2".into()),
        ("round", "3".into()),
        ("seed", "00".into()),
        ("answers", "00".into()),
        ("answers", "00".repeat(32)),
        ("keys", "[]".into()),
        ("keys", "x".into()),
        ("keys", format!("[[\"Multiply\",{top}]]")),
        ("keys", format!("[[\"Multiply\",{}]]", top + 1)),
        ("keys", format!("[[\"Multiply\",{top}],[{{\"Galois\":4}},1]]")),
        ("keys", format!("[[\"Multiply\",{top}],[\"FromEphemeral\",1]]")),
        ("keys", format!("[[\"Multiply\", {top}]]")),
        ("other", "1".into()),
    ] {
        let found = forged(&|draft| draft.note(name, value.clone()).to_bytes().unwrap());
        assert_eq!(found, Some("bad_file"), "{name} {value}");
    }
    let mut message = seconds[0].clone();
    message.residues = Arc::new(vec![0xFF; message.residues.len()]);
    let found =
        kind(PartyMessage::from_bytes(&context, &message.to_bytes(&context).unwrap(), trust));
    assert_eq!(found, Some("bad_file"), "a residue that is not below its prime");
}

/// Each of the three works that take long ends where it is told to, with a typed error.
#[test]
fn messages_and_their_sum_can_be_stopped() {
    let context = toy();
    let Made { parties, firsts, seconds, .. } = made(&context, 2, 2);
    let stop: crate::Progress = &|_, _| std::ops::ControlFlow::Break(());
    let both = [firsts.clone(), seconds].concat();
    let kinds = [
        parties[0].first_message(&context, stop).map(drop),
        parties[0].second_message(&context, &firsts, stop).map(drop),
        PartyMessage::aggregate(&context, &both, KeyForm::Ready, stop).map(drop),
    ];
    let kinds = kinds.map(|stopped| stopped.map_err(|e| e.kind()));
    assert_eq!(kinds, [Err("interrupted"); 3]);
}
