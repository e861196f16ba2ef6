//! Ciphertexts, keys and their claims come back, and damaged files are refused.

use super::*;
use crate::math::complex::Complex;
use crate::params::CkksParams;

fn toy(name: &str) -> Context {
    Context::new(CkksParams::named(name).unwrap(), true).unwrap()
}

/// Ciphertexts and keys come back as they were, and the file is a fifth smaller than the object in memory.
#[test]
fn ciphertexts_and_secret_keys_come_back() {
    let context = toy("ckks_toy_12");
    let secret = context.secret_key().unwrap();
    let m: Vec<Complex> = (0..8).map(|j| Complex::new(j as f64 / 8.0, -0.5)).collect();
    let x = context.encrypt(&m, 4, &secret).unwrap();
    let bytes = context.ciphertext_to_bytes(&x).unwrap();
    assert!((bytes.len() as f64) < 0.8 * x.bytes() as f64, "{} of {}", bytes.len(), x.bytes());
    let y = context.ciphertext_from_bytes(&bytes, Trust::default()).unwrap();
    assert_eq!((y.level, y.scale, y.slots, y.error()), (x.level, x.scale, x.slots, x.error()));
    assert_eq!(context.ciphertext_to_bytes(&y).unwrap(), bytes, "equal contents, equal files");
    let key = context.secret_key_to_bytes(&secret).unwrap();
    let back = context.secret_key_from_bytes(&key, Trust::default()).unwrap();
    assert!(back.id == secret.id && back.coefficients == secret.coefficients);
    let [a, b] = [&secret, &back].map(|s| context.decrypt(&y, s).unwrap());
    assert_eq!(a, b);
    assert_eq!(context.decrypt(&x, &secret).unwrap(), a);
}

/// A file may say whether all values are real; one that does not is read as before, and another word is damage.
#[test]
fn files_say_whether_values_are_real() {
    let context = toy("ckks_toy_12");
    let secret = context.secret_key().unwrap();
    let x = context.encrypt(&[Complex::from(0.5)], 0, &secret).unwrap();
    let path = std::env::temp_dir().join(format!("becalm-values-{}", std::process::id()));
    for real in [None, Some(false), Some(true)] {
        let bytes = context.noted_ciphertext_to_bytes(&x, real).unwrap();
        let read = context.noted_ciphertext_from_bytes(&bytes, Trust::default()).unwrap();
        assert_eq!(read.1, real);
        assert_eq!(context.decrypt(&read.0, &secret), context.decrypt(&x, &secret));
        context.save_noted_ciphertext(&x, real, &path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert_eq!(context.load_noted_ciphertext(&path, Trust::default()).unwrap().1, real);
        assert_eq!(real.is_none(), bytes == context.ciphertext_to_bytes(&x).unwrap());
    }
    std::fs::remove_file(&path).unwrap();
    let parts = context.packed_pair(x.params, [&x.parts[0], &x.parts[1]], 0).unwrap();
    for word in ["", "Real", "real ", "imaginary"] {
        let draft = context.ciphertext_draft(&x, None, &parts).unwrap().note("values", word);
        let bytes = draft.to_bytes().unwrap();
        let found = context.ciphertext_from_bytes(&bytes, Trust::default()).err();
        assert_eq!(found.map(|e| e.kind()), Some("bad_file"), "{word:?}");
    }
    let draft = context.ciphertext_draft(&x, None, &parts).unwrap().note("other", "real");
    let found = context.ciphertext_from_bytes(&draft.to_bytes().unwrap(), Trust::default());
    assert_eq!(found.err().map(|e| e.kind()), Some("bad_file"), "an unknown entry");
}

#[test]
fn public_keys_come_back() {
    let context = toy("ckks_toy_12");
    let secret = context.secret_key().unwrap();
    let key = context.public_key(&secret).unwrap();
    let mut bytes = context.public_key_to_bytes(&key).unwrap();
    let back = context.public_key_from_bytes(&bytes, Trust::default()).unwrap();
    assert_eq!(context.public_key_to_bytes(&back).unwrap(), bytes);
    let m = [Complex::new(0.5, -0.25), Complex::from(1.0)];
    for level in [0, 7, 10] {
        let x = context.encrypt_public(&m, level, &back).unwrap();
        assert_eq!(x.key_id(), secret.id());
        let got = context.decrypt(&x, &secret).unwrap();
        assert!(got.iter().zip(m).all(|(a, b)| (*a - b).abs() < 1e-5), "{got:?}");
    }
    let kind = |bytes: &[u8]| {
        context.public_key_from_bytes(bytes, Trust::default()).err().map(|e| e.kind())
    };
    for at in (0..bytes.len()).step_by(997) {
        bytes[at] ^= 4;
        assert!(matches!(kind(&bytes), Some("bad_file" | "wrong_params")), "byte {at}");
        bytes[at] ^= 4;
    }
    let x = context.encrypt(&m, 10, &secret).unwrap();
    let other = context.ciphertext_to_bytes(&x).unwrap();
    assert_eq!(kind(&other), Some("bad_file"), "a ciphertext is not a key");
    let foreign = toy("ckks_toy_precise").public_key_from_bytes(&bytes, Trust::default()).err();
    assert_eq!(foreign.map(|e| e.kind()), Some("wrong_params"));
}

/// Every altered byte is found, and so are files of another kind, set or length.
#[test]
fn damaged_and_foreign_files_are_refused() {
    let context = toy("ckks_toy_12");
    let secret = context.secret_key().unwrap();
    let x = context.encrypt(&[Complex::from(0.5)], 0, &secret).unwrap();
    let mut bytes = context.ciphertext_to_bytes(&x).unwrap();
    let key = context.secret_key_to_bytes(&secret).unwrap();
    let kind = |bytes: &[u8]| {
        context.ciphertext_from_bytes(bytes, Trust::default()).err().map(|e| e.kind())
    };
    for at in (0..bytes.len()).step_by(97) {
        bytes[at] ^= 4;
        let found = kind(&bytes);
        assert!(matches!(found, Some("bad_file" | "wrong_params")), "byte {at}: {found:?}");
        bytes[at] ^= 4;
    }
    for length in [0, 7, 8, 100, bytes.len() - 1] {
        assert_eq!(kind(&bytes[..length]), Some("bad_file"), "{length} bytes");
    }
    assert_eq!(kind(&key), Some("bad_file"), "a secret key is not a ciphertext");
    let small = Trust { limit: 1000, ..Trust::default() };
    let long = context.ciphertext_from_bytes(&bytes, small).err().map(|e| e.kind());
    assert_eq!(long, Some("bad_file"), "the limit");
    let other = toy("ckks_toy_precise");
    let foreign = other.ciphertext_from_bytes(&bytes, Trust::default()).err();
    assert_eq!(foreign.map(|e| e.kind()), Some("wrong_params"));
    let foreign = other.secret_key_from_bytes(&key, Trust::default()).err();
    assert_eq!(foreign.map(|e| e.kind()), Some("wrong_params"));
    assert_eq!(kind(&bytes), None);
}

/// A forged file may have a right checksum; its claims are checked all the same.
#[test]
fn claims_are_checked_against_the_set() {
    let context = toy("ckks_toy_12");
    let secret = context.secret_key().unwrap();
    let x = context.encrypt(&[Complex::from(0.5)], 0, &secret).unwrap();
    let forged = |change: &dyn Fn(&mut Rlwe)| {
        let mut y = x.clone();
        change(&mut y);
        let bytes = context.ciphertext_to_bytes(&y).unwrap();
        context.ciphertext_from_bytes(&bytes, Trust::default())
    };
    let changes: [&dyn Fn(&mut Rlwe); 8] = [
        &|y| y.level = 1,
        &|y| y.level = 99,
        &|y| y.slots = 3,
        &|y| y.slots = 4096,
        &|y| y.scale = 0.0,
        &|y| y.scale = f64::INFINITY,
        &|y| y.scale = 1.01 * context.room(0),
        &|y| y.account.error = f64::NAN,
    ];
    for (i, change) in changes.iter().enumerate() {
        assert_eq!(forged(change).err().map(|e| e.kind()), Some("bad_file"), "change {i}");
    }
    let modest = forged(&|y| y.account.error = 0.0).unwrap();
    // All of it but what doubles lose of the message.
    assert!(modest.error() > 0.99 * x.error(), "the error of a fresh encryption at the least");
}

/// Residues that are not reduced are damage of the file that they stand in, which is named for what it is.
#[test]
fn residues_that_are_not_reduced_are_damage_of_their_own_kind() {
    let context = toy("ckks_toy_12");
    let secret = context.secret_key().unwrap();
    let x = context.encrypt(&[Complex::from(0.5)], 2, &secret).unwrap();
    let key = context.public_key(&secret).unwrap();
    let ones = |level| [0, 1].map(|_| vec![255; context.part_bytes(level)]);
    let (a, b) = (ones(2), ones(context.params().levels));
    let forged = [
        context.ciphertext_draft(&x, None, &a).unwrap().to_bytes().unwrap(),
        context.public_draft(&key, &b).unwrap().to_bytes().unwrap(),
    ];
    let refused = [
        context.ciphertext_from_bytes(&forged[0], Trust::default()).err(),
        context.public_key_from_bytes(&forged[1], Trust::default()).err(),
    ];
    for (error, kind) in refused.into_iter().zip(["a ciphertext of CKKS", "a public key of CKKS"]) {
        let error = error.expect("it is not reduced");
        assert_eq!(error.kind(), "bad_file");
        assert!(error.to_string().contains(&format!("wanted {kind}, whole")), "{error}");
        assert!(!error.to_string().contains("evaluation keys"), "{error}");
    }
}

/// A file that ends early is refused in plain words.
#[test]
fn keys_that_end_early_say_so() {
    let context = toy("ckks_toy_12");
    for length in [0, 7, 19] {
        let cut = &b"becalm ckks 0003\x40\0\0\0"[..length];
        let error = context.read_keys(cut).err().expect("it ends");
        let said = error.to_string();
        assert!(said.contains("the end of the file") && !said.contains("buffer"), "{said}");
    }
}
