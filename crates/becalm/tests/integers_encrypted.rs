//! Encrypted integers run: every operation on ciphertexts, and long random sequences of operations.

mod full;

use becalm::apps::integer::{Clear, Forms, Integers, OPERATIONS, Operation, Type, Word, fitting};
use becalm::apps::{Aim, Arguments, Circuit};
use becalm::backend::{Cpu, Evaluator};
use becalm::cipher::file::Trust;
use becalm::cipher::{Lwe, SecretKey};
use becalm::params::TfheParams;
use becalm::{Error, UNWATCHED};
use full::full;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Keys of a toy set, whose bootstraps take a millisecond.
fn keys() -> &'static (SecretKey, Evaluator) {
    static KEYS: OnceLock<(SecretKey, Evaluator)> = OnceLock::new();
    KEYS.get_or_init(|| {
        let secret = SecretKey::generate(TfheParams::named("toy_2_2").unwrap(), true).unwrap();
        let server = Evaluator::new(&Cpu::new(0).unwrap(), &secret.evaluation_key().unwrap());
        (secret, server.unwrap())
    })
}

fn encrypt(ty: Type, values: &[u64]) -> Integers {
    let clear = |v: &u64| match ty {
        Type::Int(bits) => Clear::from((*v << (64 - bits)) as i64 >> (64 - bits)),
        _ => Clear::from(*v & ((1 << ty.bits()) - 1)),
    };
    let values: Vec<Clear> = values.iter().map(clear).collect();
    Integers::encrypt(&keys().0, ty, &values).unwrap()
}

/// A small generator: the sequence is the same in every run.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

#[test]
fn every_operation_gives_the_same_encrypted_and_unencrypted() {
    let (secret, server) = keys();
    for (i, op) in OPERATIONS.iter().enumerate() {
        let ty = if i % 2 == 0 { Type::Uint(8) } else { Type::Int(7) };
        let shifts = ["shl", "shr", "rotate_left", "rotate_right"].contains(&op.name);
        let types = match op.arity {
            3 => vec![Type::Bool, ty, ty],
            2 if shifts => vec![ty, Type::Uint(4)],
            n => vec![ty; n],
        };
        let recorded = op.circuit(secret.params().clone(), Aim::Work, &types).unwrap();
        // Two lanes: a batch is the unit.
        let given: Vec<Integers> =
            types.iter().zip([[1, 0], [77, 200], [200, 3]]).map(|(t, v)| encrypt(*t, &v)).collect();
        let arguments = recorded.arguments(&given.iter().collect::<Vec<_>>()).unwrap();
        let results = server.run(recorded.program(), &arguments).unwrap();
        let bound = becalm::tfhe::noise::bootstrap_output(secret.params());
        assert!(op.name == "not" || results.iter().all(|r| r.noise_variance() <= bound * 1.001));
        let results = recorded.results(results).unwrap();
        for lane in 0..2 {
            let clear: Vec<Clear> =
                given.iter().map(|x| x.decrypt(secret).unwrap()[lane]).collect();
            let wanted = recorded.run_unencrypted(&clear).unwrap();
            let got: Vec<Clear> =
                results.iter().map(|r| r.decrypt(secret).unwrap()[lane]).collect();
            assert_eq!(got, wanted, "{} lane {lane}", op.name);
        }
    }
}

#[test]
fn a_hundred_random_steps_decrypt_right_at_the_end() {
    let (secret, server) = keys();
    let steps = if full() { 400 } else { 100 };
    let names = [
        "add",
        "sub",
        "mul",
        "div",
        "rem",
        "abs",
        "refresh",
        "and",
        "or",
        "xor",
        "not",
        "min",
        "max",
        "neg",
        "shl",
        "rotate_right",
    ];
    let (ty, seed) = (Type::Uint(6), &mut 2026);
    let mut values: Vec<u64> = vec![1, 63, 0, 42];
    let mut words: Vec<Integers> = values.iter().map(|v| encrypt(ty, &[*v])).collect();
    // However long the sequence: a fresh encryption's noise, or that of one bootstrap.
    let fresh = words[0].digits()[0].noise_variance();
    let bound = becalm::tfhe::noise::bootstrap_output(secret.params()).max(fresh);
    let mut circuits = HashMap::new();
    for step in 0..steps {
        let op = Operation::named(names[random(seed) as usize % names.len()]).unwrap();
        let recorded = circuits.entry(op.name).or_insert_with(|| {
            op.circuit(secret.params().clone(), Aim::Work, &vec![ty; op.arity]).unwrap()
        });
        let picks: Vec<usize> = (0..op.arity).map(|_| random(seed) as usize % 4).collect();
        let given: Vec<&Integers> = picks.iter().map(|p| &words[*p]).collect();
        let results = server.run(recorded.program(), &recorded.arguments(&given).unwrap());
        let results = results.unwrap_or_else(|e| panic!("step {step}, {}: {e}", op.name));
        for r in &results {
            assert!(r.noise_variance() <= bound * 1.001, "step {step}, {}", op.name);
        }
        let word = recorded.results(results).unwrap().remove(0);
        let clear: Vec<Clear> = picks.iter().map(|p| Clear::from(values[*p])).collect();
        let place = step % 4;
        values[place] = recorded.run_unencrypted(&clear).unwrap()[0].low() as u64;
        words[place] = word;
    }
    for (word, value) in words.iter().zip(&values) {
        assert_eq!(word.decrypt(secret).unwrap()[0].low() as u64, *value);
        // The measured noise is within eight standard deviations of the tracked one.
        for digit in word.digits() {
            let exact = secret.decrypt(digit).unwrap();
            let error = secret.errors(digit, &exact).unwrap()[0];
            assert!(error * error < 64.0 * digit.noise_variance(), "{error}");
        }
    }
}

/// Sums of independent booleans take fewer bootstraps; negations of one another get the form for any arguments, and are right too.
#[test]
fn sums_of_related_booleans_take_another_form() {
    let (secret, server) = keys();
    let forms = Forms::new(secret.params().clone(), |mut c| {
        let x: Vec<Word> = (0..30).map(|_| c.input(Type::Bool)).collect::<Result<_, _>>()?;
        let sum = c.count(&x)?;
        c.finish(&x.iter().collect::<Vec<_>>(), &[&sum])
    });
    let run = |given: &[Integers]| {
        let form = |arguments| forms.of(Aim::Work, arguments, UNWATCHED);
        let given: Vec<&Integers> = given.iter().collect();
        let arguments = form(Arguments::Any).unwrap().arguments(&given).unwrap();
        let recorded = fitting(form, |program| server.takes(program, &arguments)).unwrap();
        let results = server.run(recorded.program(), &arguments).unwrap();
        let sum = recorded.results(results).unwrap().remove(0);
        (sum.decrypt(secret).unwrap()[0].low(), recorded.program().cost().bootstraps)
    };
    let fresh: Vec<Integers> = (0..30).map(|i| encrypt(Type::Bool, &[i % 3 / 2])).collect();
    // Copies of what bootstraps give: fresh ones have next to no noise.
    let mut c = Circuit::new(secret.params().clone(), Aim::Work).unwrap();
    let x: Vec<Word> = (0..5).map(|_| c.input(Type::Bool).unwrap()).collect();
    let refreshed: Vec<Word> = x.iter().map(|w| c.refresh(w).unwrap()).collect();
    let [x, refreshed] = [&x, &refreshed].map(|list| list.iter().collect::<Vec<_>>());
    let recorded = c.finish(&x, &refreshed).unwrap();
    let arguments = recorded.arguments(&fresh[..5].iter().collect::<Vec<_>>()).unwrap();
    let results = server.run(recorded.program(), &arguments).unwrap();
    let given = recorded.results(results).unwrap();
    let copies: Vec<Integers> = (0..30).map(|i| given[i % 5].clone()).collect();
    let ((few, least), (same, more)) = (run(&fresh), run(&copies));
    assert_eq!((few, same), (10, 6));
    assert!(least < more, "{least} and {more}");
}

#[test]
fn sums_tables_and_arrays() {
    let (secret, server) = keys();
    let mut c = Circuit::new(secret.params().clone(), Aim::Work).unwrap();
    let ty = Type::Uint(8);
    let x: Vec<Word> = (0..6).map(|_| c.input(ty).unwrap()).collect();
    let index = c.input(Type::Uint(3)).unwrap();
    let sum = c.sum(&x).unwrap();
    let dot = c.dot(&x[..2], &x[2..4]).unwrap();
    let entry = c.index(&x, &index).unwrap();
    let squares: Vec<Clear> = (0..8u64).map(|i| Clear::from(i * i)).collect();
    let square = c.table(&index, ty, &squares).unwrap();
    let long: Vec<Clear> = (0..40u64).map(|i| Clear::from(200 - i)).collect();
    let deep = c.table(&x[0], ty, &long).unwrap();
    let wide = c.cast(&x[0], Type::Int(13)).unwrap();
    let inputs: Vec<&Word> = x.iter().chain([&index]).collect();
    let recorded = c.finish(&inputs, &[&sum, &dot, &entry, &square, &deep, &wide]).unwrap();
    let values = [31, 200, 7, 99, 255, 128, 5];
    let types = recorded.inputs().to_vec();
    let given: Vec<Integers> = types.iter().zip(values).map(|(t, v)| encrypt(*t, &[v])).collect();
    let arguments = recorded.arguments(&given.iter().collect::<Vec<_>>()).unwrap();
    let results = recorded.results(server.run(recorded.program(), &arguments).unwrap()).unwrap();
    let got: Vec<u64> =
        results.iter().map(|r| r.decrypt(secret).unwrap()[0].low() as u64).collect();
    let total: u64 = values[..6].iter().sum::<u64>() % 256;
    assert_eq!(got, [total, (31 * 7 + 200 * 99) % 256, 128, 25, 169, 31]);
}

#[test]
fn integers_travel_as_one_batch() {
    let (secret, _) = keys();
    let x = encrypt(Type::Int(9), &[5, 300, 511]);
    let back = Integers::from_batch(Type::Int(9), &x.to_batch().unwrap()).unwrap();
    assert_eq!(back.decrypt(secret).unwrap(), x.decrypt(secret).unwrap());
    let wrong = Integers::from_batch(Type::Uint(64), &x.to_batch().unwrap());
    assert!(matches!(wrong, Err(Error::BadInput(_))));
}

#[test]
fn operands_may_be_the_same_or_come_from_files() {
    let (secret, server) = keys();
    let names = ["add", "mul", "overflowing_add", "overflowing_sub", "gt", "min", "rotate_left"];
    for (i, op) in OPERATIONS.iter().filter(|o| names.contains(&o.name)).enumerate() {
        let ty = if i % 2 == 0 && op.name != "rotate_left" { Type::Int(5) } else { Type::Uint(5) };
        let x = encrypt(ty, &[21, 31]);
        let recorded = op.circuit(secret.params().clone(), Aim::Work, &[ty; 2]).unwrap();
        let run = |x: &Integers, y: &Integers| {
            let results = server.run(recorded.program(), &recorded.arguments(&[x, y]).unwrap());
            let results = results.unwrap_or_else(|e| panic!("{}: {e}", op.name));
            recorded.results(results).unwrap().remove(0)
        };
        // A result, written and read again, beside itself.
        let once = run(&x, &x);
        let back = |x: &Integers| {
            Integers::from_bytes(&x.to_bytes(false).unwrap(), Trust::insecure()).unwrap()
        };
        let wanted: Vec<Clear> = x.decrypt(secret).unwrap();
        let twice = recorded.run_unencrypted(&[wanted[0]; 2]).unwrap()[0];
        assert_eq!(once.decrypt(secret).unwrap()[0], twice, "{}", op.name);
        if once.ty() == ty {
            let again = run(&back(&once), &back(&once)).decrypt(secret).unwrap()[0];
            assert_eq!(again, recorded.run_unencrypted(&[twice; 2]).unwrap()[0], "{}", op.name);
        }
    }
}

#[test]
fn a_seed_stands_for_all_masks() {
    let (secret, _) = keys();
    let ty = Type::Int(9);
    let x = encrypt(ty, &[5, 300, 511]);
    let (long, short) = (x.to_bytes(false).unwrap(), x.to_bytes(true).unwrap());
    // Five digits of three: fifteen words, a seed and a header of some 1.5 KiB.
    assert!(short.len() < 2500 && long.len() > 15 * 8 * 500, "{} {}", short.len(), long.len());
    let back = Integers::from_bytes(&short, Trust::insecure()).unwrap();
    assert_eq!((back.ty(), back.to_bytes(false).unwrap()), (ty, long.clone()));
    assert_eq!(back.to_bytes(true).unwrap(), short);
    assert_eq!(back.decrypt(secret).unwrap(), x.decrypt(secret).unwrap());
    // A seeded file takes the memory of its masks when it is read.
    let limit = Trust { limit: long.len() as u64 / 2, ..Trust::insecure() };
    assert!(matches!(
        Integers::from_bytes(&short, limit),
        Err(Error::BadInput(_) | Error::BadFile(_))
    ));
    let results =
        Integers::from_batch(Type::Int(8), &Lwe::concat(&vec![x.digits()[0].clone(); 4]).unwrap())
            .unwrap();
    assert!(matches!(results.to_bytes(true), Err(Error::Unsupported(_))));
    let moved = x.digits()[0].scale(2).unwrap();
    assert!(matches!(moved.to_bytes_seeded(), Err(Error::Unsupported(_))));
    // A part of an encryption begins where it begins.
    let part = x.to_batch().unwrap().slice(4..7).unwrap();
    let read = Lwe::from_bytes(&part.to_bytes_seeded().unwrap(), Trust::insecure()).unwrap();
    assert_eq!(read.words(), part.words());
    assert!(matches!(Lwe::from_bytes(&short, Trust::insecure()), Err(Error::BadFile(_))));
}

#[test]
fn clear_values_in_the_form_of_encrypted_ones() {
    let (secret, server) = keys();
    let ty = Type::Int(7);
    let values = [Clear::from(-64i64), Clear::from(63i64)];
    let x = Integers::trivial(secret.params(), secret.id(), ty, &values).unwrap();
    assert_eq!(x.decrypt(secret).unwrap(), values);
    let add = Operation::named("add").unwrap();
    let recorded = add.circuit(secret.params().clone(), Aim::Work, &[ty; 2]).unwrap();
    let y = encrypt(ty, &[1, 2]);
    let results = server.run(recorded.program(), &recorded.arguments(&[&x, &y]).unwrap());
    let sum = recorded.results(results.unwrap()).unwrap()[0].decrypt(secret).unwrap();
    assert_eq!(sum, [Clear::from(-63i64), Clear::from(-63i64)]);
    let wide = Integers::trivial(secret.params(), secret.id(), ty, &[Clear::from(64i64)]);
    assert!(matches!(wide, Err(Error::BadInput(_))));
}

#[test]
fn what_does_not_fit_is_refused() {
    let (secret, _) = keys();
    let refused = |r: becalm::Result<()>| assert!(matches!(r, Err(Error::BadInput(_))), "{r:?}");
    for (ty, v) in [(Type::Uint(8), Clear::from(256u64)), (Type::Uint(8), Clear::from(-1i64))] {
        refused(Integers::encrypt(secret, ty, &[v]).map(drop));
    }
    refused(Integers::encrypt(secret, Type::Int(8), &[Clear::from(128u64)]).map(drop));
    refused(Type::Uint(257).checked().map(drop));
    refused(Type::Int(1).checked().map(drop));
    let mut c = Circuit::new(secret.params().clone(), Aim::Work).unwrap();
    let (a, b) = (c.input(Type::Uint(8)).unwrap(), c.input(Type::Uint(9)).unwrap());
    refused(c.add(&a, &b).map(drop));
    refused(c.select(&a, &a, &a).map(drop));
    refused(c.finish(&[&a], &[&b]).map(drop));
    let small = std::sync::Arc::new(TfheParams::named("tfhe_1_1").unwrap().clone());
    assert!(matches!(Circuit::new(small, Aim::Work), Err(Error::WrongParams(_))));
}
