//! Common-mask ciphertexts: every operation on every slot, against the clear and against the reference on every machine.

mod machines;

use becalm::Error;
use becalm::backend::{Backend, Cpu, Cuda, Evaluator, Reference, TfheSetup};
use becalm::cipher::{Encoding, EvaluationKey, KeyRole, Lwe, RowSums, SecretKey};
use becalm::math::Modulus;
use becalm::params::TfheParams;
use becalm::program::{Need, Program};
use becalm::tfhe::Table;
use std::collections::BTreeSet;
use std::sync::Arc;

const TOYS: [&str; 2] = ["toy_cm_1_1_w2", "toy_cm_1_1_w3_p"];

struct Keys {
    secret: SecretKey,
    evaluation: EvaluationKey,
}

/// Keys with a packing key, a map that turns the slots round, and one that subtracts the last slot from the others.
fn keys(name: &str) -> Keys {
    let secret = SecretKey::generate(TfheParams::named(name).unwrap(), true).unwrap();
    let evaluation = secret.evaluation_key().unwrap();
    let w = secret.params().slots;
    let entry = |j: usize, t: usize| i64::from(t == (j + 1) % w);
    let turn: Vec<Vec<i64>> = (0..w).map(|j| (0..w).map(|t| entry(j, t)).collect()).collect();
    let evaluation = evaluation
        .with_slot_key(secret.pack_key().unwrap())
        .unwrap()
        .with_slot_key(secret.slot_map_key(&turn).unwrap())
        .unwrap()
        .with_slot_key(secret.slot_map_key(&difference(w)).unwrap())
        .unwrap();
    Keys { secret, evaluation }
}

/// Slot j minus the last slot; the last slot stays.
fn difference(w: usize) -> Vec<Vec<i64>> {
    let entry = |j: usize, t: usize| i64::from(t == j) - i64::from(t == w - 1 && j < w - 1);
    (0..w).map(|j| (0..w).map(|t| entry(j, t)).collect()).collect()
}

/// A table for each slot j: m ↦ (m + j)² modulo p.
fn tables(p: &TfheParams) -> Vec<Table> {
    let values = p.plaintext_modulus();
    let table = |j: u64| Table::from_fn(p, move |m| (m + j) * (m + j) % values).unwrap();
    (0..p.slots as u64).map(table).collect()
}

/// Runs on every machine that runs the set: values equal to the reference's, and modulo p also the words.
fn agree(keys: &Keys, run: impl Fn(&Evaluator) -> Lwe) -> Vec<u64> {
    let p = keys.secret.params();
    let on = |b: &dyn Backend| run(&Evaluator::new(b, &keys.evaluation).unwrap());
    let wanted = on(&Reference);
    let values = keys.secret.decrypt(&wanted).unwrap();
    let mut kinds = BTreeSet::new();
    for (name, backend) in machines::backends() {
        if backend.tfhe().is_none_or(|runs| runs.accepts(p).is_err()) {
            continue;
        }
        kinds.insert(backend.info().name);
        let got = on(backend.as_ref());
        if p.modulus == Modulus::Goldilocks {
            assert!(got.words() == wanted.words(), "{} on {name}: not bit-exact", p.name);
        }
        assert_eq!(keys.secret.decrypt(&got).unwrap(), values, "{} on {name}", p.name);
    }
    assert!(kinds.contains("cpu") && kinds.contains("toy"), "{kinds:?}");
    assert_eq!(kinds.contains("cuda"), Cuda::runs(p).is_ok(), "{kinds:?}");
    values
}

#[test]
fn every_slot_has_a_table_of_its_own() {
    for keys in TOYS.map(keys) {
        let p = keys.secret.params();
        let values: Vec<u64> = (0..3 * p.slots as u64).map(|i| i * 7 % 4).collect();
        let x = keys.secret.encrypt(&values).unwrap();
        assert_eq!((x.len(), x.slots()), (3, p.slots));
        assert_eq!(x.width(), p.big_dimension() + p.slots);
        let got = agree(&keys, |e| e.bootstrap_slots(&x, &tables(p)).unwrap());
        let wanted = values.iter().enumerate().map(|(i, m)| {
            let j = (i % p.slots) as u64;
            (m + j) * (m + j) % 4
        });
        assert!(got.into_iter().eq(wanted));
        // And one for all.
        let square = Table::from_fn(p, |m| m * m % 4).unwrap();
        let got = agree(&keys, |e| e.bootstrap(&x, &square).unwrap());
        assert!(got.into_iter().eq(values.iter().map(|m| m * m % 4)));
    }
}

#[test]
fn slots_are_added_and_moved_apart() {
    for keys in TOYS.map(keys) {
        let w = keys.secret.params().slots;
        let ones: Vec<u64> = (0..2 * w as u64).map(|i| i % 2).collect();
        let x = keys.secret.encrypt_as(&ones, Encoding::padded(4).unwrap(), 2).unwrap();
        let constants: Vec<i64> = (0..w as i64).map(|j| j % 2).collect();
        let sum = x.add(&x).unwrap().add_constants(&constants).unwrap();
        let wanted: Vec<u64> =
            ones.iter().enumerate().map(|(i, m)| 2 * m + (i % w % 2) as u64).collect();
        assert_eq!(keys.secret.decrypt(&sum).unwrap(), wanted);
        let mut program = Program::new(keys.secret.params().clone());
        let a = program.input_like(&x);
        let twice = program.linear(&[(2, a)], 0).unwrap();
        let moved = program.add_slots(twice, &constants).unwrap();
        program.output(moved).unwrap();
        let program =
            Arc::new(Program::from_bytes(&program.to_bytes().unwrap(), insecure()).unwrap());
        let got = agree(&keys, |e| e.run(&program, &[x.clone().into()]).unwrap().remove(0));
        assert_eq!(got, wanted);
        let trivial = Lwe::trivial(&x, &wanted).unwrap();
        assert_eq!(keys.secret.decrypt(&trivial).unwrap(), wanted);
    }
}

fn insecure() -> becalm::cipher::file::Trust {
    becalm::cipher::file::Trust::insecure()
}

#[test]
fn a_batch_that_does_not_fill_its_last_ciphertext_is_filled_with_zeros() {
    let keys = keys(TOYS[0]);
    let x = keys.secret.encrypt(&[3, 2, 1]).unwrap();
    assert_eq!((x.len(), keys.secret.decrypt(&x).unwrap()), (2, vec![3, 2, 1, 0]));
    assert_eq!(keys.secret.errors(&x, &[3, 2, 1]).unwrap().len(), 3);
    assert_eq!(keys.secret.errors(&x, &[3, 2]).unwrap_err().kind(), "bad_input");
}

#[test]
fn slots_are_extracted_and_packed() {
    for keys in TOYS.map(keys) {
        let p = keys.secret.params();
        let w = p.slots;
        let values: Vec<u64> = (0..3 * w as u64).map(|i| i * 5 % 4).collect();
        let x = keys.secret.encrypt(&values).unwrap();
        for j in 0..w {
            let of_slot: Vec<u64> = values.iter().skip(j).step_by(w).copied().collect();
            let y = {
                let evaluator = Evaluator::new(&Cpu::new(1).unwrap(), &keys.evaluation).unwrap();
                evaluator.extract(&x, j as u32).unwrap()
            };
            assert_eq!((y.role(), y.width()), (KeyRole::Slot(j as u32), p.big_dimension() + 1));
            assert_eq!(keys.secret.decrypt(&y).unwrap(), of_slot);
            assert_eq!(agree(&keys, |e| e.extract(&x, j as u32).unwrap()), of_slot);
        }
        let plain: Vec<Lwe> = (0..w as u64)
            .map(|j| keys.secret.encrypt_slot(0, &[j % 4, (j + 2) % 4], 4).unwrap())
            .collect();
        let slots: Vec<&Lwe> = plain.iter().collect();
        let got = agree(&keys, |e| e.pack(&slots).unwrap());
        let wanted = (0..2).flat_map(|lane| (0..w as u64).map(move |j| (j + 2 * lane) % 4));
        assert!(got.into_iter().eq(wanted));
    }
}

#[test]
fn private_maps_mix_slots() {
    for keys in TOYS.map(keys) {
        let p = keys.secret.params();
        let w = p.slots;
        let identity = vec![Table::from_fn(p, |m| m).unwrap(); w];
        let values: Vec<u64> = (0..3 * w as u64).map(|i| i * 7 % 4).collect();
        let x = keys.secret.encrypt(&values).unwrap();
        let got = agree(&keys, |e| e.slot_map(&x, 0).unwrap());
        let turned = values.chunks(w).flat_map(|c| (0..w).map(|j| c[(j + 1) % w]));
        assert!(got.into_iter().eq(turned), "turned");
        // Differences of descending values; the map's range is known, so a constant makes them fit a table.
        let values: Vec<u64> =
            (0..4 * w as u64).map(|i| u64::from((i % w as u64).is_multiple_of(2))).collect();
        let x = keys.secret.encrypt_as(&values, Encoding::padded(4).unwrap(), 2).unwrap();
        let mut program = Program::new(p.clone());
        let a = program.input_like(&x);
        let sums = RowSums::of(&difference(w));
        assert_eq!(sums, RowSums { positive: 1, negative: 1 });
        let mapped = program.slot_map(a, 1, sums).unwrap();
        assert_eq!(program.info(mapped).unwrap().range, (-1, 1));
        let lifted = program.linear(&[(1, mapped)], 1).unwrap();
        let y = program.lookup_slots(lifted, &identity).unwrap()[0];
        program.output(y).unwrap();
        assert_eq!(program.cost().key_switches, 2);
        let program = Arc::new(program);
        let got = agree(&keys, |e| e.run(&program, &[x.clone().into()]).unwrap().remove(0));
        let wanted = values
            .chunks(w)
            .flat_map(|c| (0..w).map(|j| 1 + c[j] - if j + 1 < w { c[w - 1] } else { 0 }));
        assert!(got.into_iter().eq(wanted), "differences");
    }
}

#[test]
fn a_map_of_larger_sums_than_recorded_is_refused() {
    let keys = keys(TOYS[0]);
    let x = keys.secret.encrypt(&[1, 1]).unwrap();
    let mut program = Program::new(keys.secret.params().clone());
    let a = program.input_like(&x);
    let y = program.slot_map(a, 1, RowSums { positive: 1, negative: 0 }).unwrap();
    program.output(y).unwrap();
    let evaluator = Evaluator::new(&Cpu::new(1).unwrap(), &keys.evaluation).unwrap();
    let refused = evaluator.run(&Arc::new(program), &[x.into()]).unwrap_err();
    assert_eq!(refused.kind(), "wrong_key");
}

#[test]
fn what_does_not_fit_the_slots_is_refused() {
    let keys = keys(TOYS[0]);
    let p = keys.secret.params().clone();
    let x = keys.secret.encrypt(&[1, 2]).unwrap();
    let evaluator = Evaluator::new(&Cpu::new(1).unwrap(), &keys.evaluation).unwrap();
    let kind = |r: Result<Lwe, Error>| r.map(|_| "nothing").unwrap_or_else(|e| e.kind());
    assert_eq!(kind(evaluator.bootstrap_slots(&x, &tables(&p)[..1])), "bad_input");
    assert_eq!(kind(x.add_constants(&[1, 2, 3])), "bad_input");
    assert_eq!(kind(evaluator.extract(&x, 2)), "bad_input");
    assert_eq!(kind(keys.secret.encrypt_slot(2, &[1], 4)), "bad_input");
    assert_eq!(kind(evaluator.pack(&[&x, &x])), "bad_input");
    assert_eq!(kind(evaluator.slot_map(&x, 2)), "wrong_key");
    // Another width: an input of three slots to a program of two.
    let other = SecretKey::generate(TfheParams::named(TOYS[1]).unwrap(), true).unwrap();
    let y = other.encrypt(&[1, 2, 3]).unwrap();
    assert_eq!(kind(x.add(&y)), "wrong_params");
    assert_eq!(kind(evaluator.bootstrap_slots(&y, &tables(&p))), "wrong_params");
    // Tables that put out other encodings.
    let narrow = Table::with(&p, Encoding::of(&p), Encoding::padded(2).unwrap(), &[0, 1, 0, 1]);
    let mixed = [tables(&p)[0].clone(), narrow.unwrap()];
    assert_eq!(kind(evaluator.bootstrap_slots(&x, &mixed)), "bad_input");
    // An encrypted table would have to be turned by two exponents at once.
    let table = &tables(&p)[0];
    assert_eq!(keys.secret.encrypt_table(table).unwrap_err().kind(), "unsupported");
    // No map of another size, none that is huge, and no key of another user.
    assert_eq!(keys.secret.slot_map_key(&[vec![1, 0]]).unwrap_err().kind(), "bad_input");
    let huge = vec![vec![i64::MIN, 0], vec![0, 1]];
    assert_eq!(keys.secret.slot_map_key(&huge).unwrap_err().kind(), "bad_input");
    let stranger = SecretKey::generate(&p, true).unwrap().pack_key().unwrap();
    let refused = keys.evaluation.clone().with_slot_key(stranger).unwrap_err();
    assert_eq!(refused.kind(), "wrong_key");
    let classic = SecretKey::generate(TfheParams::named("toy_1_1").unwrap(), true).unwrap();
    assert_eq!(classic.pack_key().unwrap_err().kind(), "wrong_params");
    // A part that was not opened.
    let bare = keys.secret.evaluation_key().unwrap();
    let without =
        Evaluator::new(&Cpu::new(1).unwrap(), TfheSetup::new(&bare, &[Need::Pack].into()));
    assert_eq!(without.err().map(|e| e.kind()), Some("wrong_key"));
}

/// Related noise adds as standard deviations: a map of two equal slots doubles it.
#[test]
fn maps_and_packing_are_counted_as_noise() {
    let keys = keys(TOYS[0]);
    let x = keys.secret.encrypt(&[1, 1]).unwrap();
    let noise = |sums: RowSums| {
        let mut program = Program::new(keys.secret.params().clone());
        let a = program.input_like(&x);
        let y = program.slot_map(a, 0, sums).unwrap();
        program.output(y).unwrap();
        let found = program.follow(&[1e-12]).unwrap();
        assert!(!found.independent[0]);
        found.noise[y.0 as usize]
    };
    let one = noise(RowSums { positive: 1, negative: 0 });
    let two = noise(RowSums { positive: 1, negative: 1 });
    let added = becalm::tfhe::noise::slot_map(keys.secret.params(), 1.0);
    assert!((one - 1e-12 - added).abs() < 1e-20 && two > 4.0 * 1e-12);
}

/// A whole set: every slot of two ciphertexts, each with its own table, twice in a row.
#[test]
fn a_full_set_bootstraps_every_slot() {
    let p = TfheParams::named("cm_1_1_w4").unwrap();
    let secret = SecretKey::generate(p, false).unwrap();
    let evaluator =
        Evaluator::new(&Cpu::new(0).unwrap(), &secret.evaluation_key().unwrap()).unwrap();
    let values = [0, 1, 2, 3, 3, 2, 1, 0];
    let x = secret.encrypt(&values).unwrap();
    let y = evaluator.bootstrap_slots(&x, &tables(p)).unwrap();
    let once = |(i, m): (usize, &u64)| (m + i as u64 % 4).pow(2) % 4;
    let first: Vec<u64> = values.iter().enumerate().map(once).collect();
    assert_eq!(secret.decrypt(&y).unwrap(), first);
    let z = evaluator.bootstrap_slots(&y, &tables(p)).unwrap();
    assert!(secret.decrypt(&z).unwrap().into_iter().eq(first.iter().enumerate().map(once)));
}
