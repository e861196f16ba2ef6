//! Extended sets: what they refuse, and that many tables, encrypted tables and files need nothing special. Bit for bit
//! agreement with the definition is in `conformance.rs`, noise in `laboratory.rs`.

use becalm::Error;
use becalm::backend::{Cpu, Evaluator};
use becalm::cipher::file::Trust;
use becalm::cipher::{Encoding, Glwe, Lwe, SecretKey};
use becalm::params::{ModulusSwitch, Need, Rotation, TfheParams, find};
use becalm::program::Program;
use becalm::tfhe::Table;
use std::sync::Arc;

fn toy() -> TfheParams {
    TfheParams::named("toy_3_3_extended").unwrap().clone()
}

#[test]
fn shapes_that_do_not_belong_together_are_refused() {
    let refused = |edit: fn(&mut TfheParams), wanted: &str| {
        let mut p = toy();
        edit(&mut p);
        let error = p.validate().unwrap_err();
        assert!(matches!(error, Error::WrongParams(_)), "{error}");
        assert!(error.detail().wanted.contains(wanted), "{error}");
    };
    refused(|p| p.rotation = Rotation::Extended { factor_log2: 7 }, "accumulators");
    refused(|p| p.rotation = Rotation::Extended { factor_log2: 0 }, "accumulators");
    refused(|p| p.rotation = Rotation::Classic, "companion");
    let other = |p: &mut TfheParams| {
        p.modulus_switch = ModulusSwitch::Companion { coarsest_log2: 2, weight: 40 }
    };
    refused(other, "companion");
    let none = |p: &mut TfheParams| {
        p.modulus_switch = ModulusSwitch::Companion { coarsest_log2: 3, weight: 0 }
    };
    refused(none, "weight");
    refused(|p| p.carry_modulus = 512, "half the table");
    refused(|p| p.slots = 2, "slots");
}

#[test]
fn what_lies_in_other_accumulators_is_not_extracted() {
    let p = Arc::new(toy());
    let encoding = Encoding::of(&p);
    let table = |index| Table::from_fn(&p, |m| m).unwrap().extract(index, encoding).unwrap();
    let mut program = Program::new(p.clone());
    let x = program.input(encoding);
    assert!(program.lookup_many(x, &table(8)).is_ok());
    let error = program.lookup_many(x, &table(9)).unwrap_err();
    assert!(error.to_string().contains("multiple of 8"), "{error}");
    // A table for the small ring alone.
    let classic =
        TfheParams { polynomial_size: 512, ..TfheParams::named("toy_3_3").unwrap().clone() };
    let error = program.lookup(x, &Table::from_fn(&classic, |m| m).unwrap()).unwrap_err();
    assert!(
        matches!(error, Error::WrongParams(_)) && error.to_string().contains("4096"),
        "{error}"
    );
}

#[test]
fn tables_of_every_kind_and_files_work() {
    let p = toy();
    let secret = SecretKey::generate(&p, true).unwrap();
    let evaluator =
        Evaluator::new(&Cpu::new(1).unwrap(), &secret.evaluation_key().unwrap()).unwrap();
    let encoding = Encoding::of(&p);
    let half: Vec<u64> = (0..32).collect();
    let many = Table::many(&p, encoding, encoding, &[&half, &vec![7; 32]]).unwrap();
    let ct = secret.encrypt_as(&half, encoding, 32).unwrap();
    let mut program = Program::new(secret.params().clone());
    let x = program.input_like(&ct);
    for y in program.lookup_many(x, &many).unwrap() {
        program.output(y).unwrap();
    }
    let got = evaluator.run(&Arc::new(program), &[ct.clone().into()]).unwrap();
    assert_eq!(secret.decrypt(&got[0]).unwrap(), half);
    assert_eq!(secret.decrypt(&got[1]).unwrap(), vec![7; 32]);

    let next: Vec<u64> = (0..64).map(|m| (m + 1) % 64).collect();
    let hidden = secret.encrypt_table(&Table::new(&p, &next).unwrap()).unwrap();
    let hidden = Glwe::from_bytes(&hidden.to_bytes().unwrap(), Trust::insecure()).unwrap();
    let ct = Lwe::from_bytes(
        &secret.encrypt(&[0, 5, 63]).unwrap().to_bytes().unwrap(),
        Trust::insecure(),
    )
    .unwrap();
    let got = evaluator.bootstrap_encrypted(&ct, &hidden).unwrap();
    assert_eq!(secret.decrypt(&got[0]).unwrap(), [1, 6, 0]);
}

/// Whoever asks for large tables gets an extended set, and it is the cheaper.
#[test]
fn large_tables_are_found() {
    for bits in 5..=9 {
        let found = find(&Need { bits, ..Need::default() }).unwrap();
        assert!(matches!(found.rotation, Rotation::Extended { .. }), "{bits}: {}", found.name);
        assert_eq!(found.plaintext_modulus(), 1 << bits);
    }
}
