//! Operations on lists of encrypted integers (order, extremes, prefixes, membership), compared with those of Rust's slices.
//! Circuits run unencrypted. The noise of each stays within the claim of its set, with related arguments too.

mod full;

use becalm::apps::integer::{Clear, LIST_OPERATIONS, ListOperation, Recorded, Type, Word};
use becalm::apps::{Aim, Circuit};
use becalm::params::TfheParams;
use full::full;
use proptest::prelude::*;
use std::sync::Arc;

fn params() -> Arc<TfheParams> {
    Arc::new(TfheParams::named("tfhe_2_2").unwrap().clone())
}

fn wrap(ty: Type, value: i128) -> i128 {
    let bits = ty.bits();
    let low = value & ((1i128 << bits) - 1);
    if ty.signed() && low >> (bits - 1) & 1 == 1 { low - (1i128 << bits) } else { low }
}

fn clear(ty: Type, value: i128) -> Clear {
    if ty.signed() { Clear::from(value) } else { Clear::from(value as u128) }
}

fn number(ty: Type, value: Clear) -> i128 {
    if ty.signed() { value.low_signed() } else { value.low() as i128 }
}

/// Places in ascending order, equal values in the order of the list.
fn order(x: &[i128]) -> Vec<i128> {
    let mut places: Vec<usize> = (0..x.len()).collect();
    places.sort_by_key(|i| x[*i]);
    places.into_iter().map(|i| i as i128).collect()
}

fn prefixes(x: &[i128], f: impl Fn(i128, i128) -> i128) -> Vec<i128> {
    let mut all = x.to_vec();
    (1..all.len()).for_each(|i| all[i] = f(all[i - 1], all[i]));
    all
}

/// The operation on clear values of a type. Sums of booleans are counts, and their products are ANDs.
fn model(name: &str, ty: Type, x: &[i128]) -> Vec<i128> {
    let counted = |v: i128| if ty == Type::Bool { v } else { wrap(ty, v) };
    let truth = |b: bool| vec![i128::from(b)];
    let first = |of: i128| vec![x.iter().position(|v| *v == of).unwrap() as i128];
    let (least, greatest) = (*x.iter().min().unwrap(), *x.iter().max().unwrap());
    let dot = |a: &[i128], b: &[i128]| wrap(ty, a.iter().zip(b).map(|(a, b)| a * b).sum());
    match name {
        "sum" => vec![counted(x.iter().sum())],
        "parity" => vec![wrap(ty, x.iter().sum())],
        "any" => truth(x.iter().any(|v| *v != 0)),
        "all" => truth(x.iter().all(|v| *v != 0)),
        "min" => vec![least],
        "max" => vec![greatest],
        "prod" => vec![x.iter().fold(1, |a, b| wrap(ty, a * b))],
        "argmin" => first(least),
        "argmax" => first(greatest),
        "sort" => order(x).into_iter().map(|i| x[i as usize]).collect(),
        "argsort" => order(x),
        "cumsum" => prefixes(x, |a, b| counted(a + b)),
        "cumprod" => prefixes(x, |a, b| wrap(ty, a * b)),
        "cummin" => prefixes(x, i128::min),
        "cummax" => prefixes(x, i128::max),
        "dot" => vec![dot(&x[..x.len() / 2], &x[x.len() / 2..])],
        "isin" => truth(x[1..].contains(&x[0])),
        "clip" => vec![x[0].max(x[1]).min(x[2])],
        "sign" => vec![x[0].signum()],
        other => panic!("no model of {other}"),
    }
}

/// The operations whose operands are all of one type.
fn plain(op: &ListOperation) -> bool {
    !matches!(op.name, "index" | "matmul" | "pow")
}

/// The number of operands of an operation on a list of n; none if it takes no such type.
fn count(op: &ListOperation, ty: Type, n: usize) -> Option<usize> {
    let booleans = ty == Type::Bool;
    match op.name {
        "clip" => Some(3),
        "sign" => (!booleans).then_some(1),
        "dot" => (!booleans).then_some(2 * n),
        "cumprod" => (!booleans).then_some(n),
        _ => Some(n),
    }
}

fn recorded(op: &ListOperation, aim: Aim, types: &[Type]) -> Recorded {
    let mut circuit = Circuit::new(params(), aim).unwrap();
    let inputs: Vec<Word> = types.iter().map(|t| circuit.input(*t).unwrap()).collect();
    let outputs = op.record(&mut circuit, &inputs).unwrap();
    circuit.finish(&inputs.iter().collect::<Vec<_>>(), &outputs.iter().collect::<Vec<_>>()).unwrap()
}

fn check(op: &ListOperation, recorded: &Recorded, ty: Type, x: &[i128]) {
    let given: Vec<Clear> = x.iter().map(|v| clear(ty, *v)).collect();
    let results = recorded.run_unencrypted(&given);
    let results = results.unwrap_or_else(|e| panic!("{} {ty} {x:?}: {e}", op.name));
    let results: Vec<i128> =
        recorded.outputs().iter().zip(results).map(|(t, r)| number(*t, r)).collect();
    assert_eq!(results, model(op.name, ty, x), "{} {ty} {x:?}", op.name);
}

/// Values that often repeat, from a seed.
fn values(ty: Type, n: usize, seed: u64) -> Vec<i128> {
    let mut state = seed | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let v = i128::from(state >> 33);
        wrap(ty, if v % 3 == 0 { v % 4 - 2 } else { v })
    };
    (0..n).map(|_| next()).collect()
}

#[test]
fn every_list_operation_agrees_with_slices() {
    let types =
        [Type::Bool, Type::Uint(2), Type::Uint(5), Type::Int(8), Type::Int(3), Type::Uint(33)];
    for op in LIST_OPERATIONS.iter().filter(|op| plain(op)) {
        for ty in types {
            for n in [1, 2, 3, 5, 8, 11] {
                let Some(n) = count(op, ty, n) else { continue };
                for aim in [Aim::Work, Aim::Depth] {
                    let recorded = recorded(op, aim, &vec![ty; n]);
                    for seed in 0..6 {
                        check(op, &recorded, ty, &values(ty, n, 77 * seed + n as u64));
                    }
                    check(op, &recorded, ty, &vec![wrap(ty, -1); n]);
                    check(op, &recorded, ty, &vec![0; n]);
                }
            }
        }
    }
}

#[test]
fn noise_of_every_list_circuit_is_within_the_claim() {
    let noise = becalm::tfhe::noise::bootstrap_output(&params());
    for op in LIST_OPERATIONS.iter().filter(|op| plain(op)) {
        for ty in [Type::Bool, Type::Uint(16), Type::Int(13)] {
            let Some(n) = count(op, ty, 9) else { continue };
            for aim in [Aim::Work, Aim::Depth] {
                let recorded = recorded(op, aim, &vec![ty; n]);
                let program = recorded.program();
                let arguments = vec![noise; program.inputs().len()];
                let found = program.follow(&arguments);
                let found = found.unwrap_or_else(|e| panic!("{} {ty} {aim:?}: {e}", op.name));
                assert!(found.log2_pfail < -100.0, "{} {ty}", op.name);
                // Arguments may be related: ciphertexts from files, or one that stands in the list several times.
                let same = program.follow_related(&arguments, &vec![true; arguments.len()]);
                same.unwrap_or_else(|e| panic!("{} {ty} {aim:?}, related: {e}", op.name));
                let cost = program.cost();
                println!("{:8} {ty} {aim:?}: {}, depth {}", op.name, cost.bootstraps, cost.depth);
            }
        }
    }
}

#[test]
fn lists_cost_what_is_claimed() {
    let named = |name: &str| ListOperation::named(name).unwrap();
    let bootstraps = |name, n, ty, aim| {
        let cost = recorded(named(name), aim, &vec![ty; n]).program().cost();
        (cost.bootstraps, cost.depth)
    };
    let u8 = Type::Uint(8);
    let pair = bootstraps("min", 2, u8, Aim::Work).0;
    // A comparator takes a comparison and two bootstraps for each digit. 9 words take 26 comparators.
    let greater = becalm::apps::integer::Operation::named("gt").unwrap();
    let greater = greater.circuit(params(), Aim::Work, &[u8, u8]).unwrap().program().cost();
    let sort = bootstraps("sort", 9, u8, Aim::Work).0;
    assert!(sort <= 26 * (greater.bootstraps + 8) + 9 * 4, "{sort}");
    assert!(sort < 26 * (2 * pair - greater.bootstraps), "{sort}");
    // The minimum of n words costs less than n − 1 minima of two.
    for n in [3, 8, 16] {
        assert!(bootstraps("min", n, u8, Aim::Work).0 < (n - 1) * pair, "{n}");
    }
    let (work, deep) =
        (bootstraps("cumsum", 16, u8, Aim::Work), bootstraps("cumsum", 16, u8, Aim::Depth));
    assert!(work.0 <= 15 * 4 && deep.0 > work.0 && deep.1 < work.1, "{work:?} {deep:?}");
    // All words of a two-digit type are one table.
    let mut circuit = Circuit::new(params(), Aim::Work).unwrap();
    let x = circuit.input(Type::Int(4)).unwrap();
    let set: Vec<Word> =
        [-8, 3, 5].map(|v| Word::clear(Type::Int(4), clear(Type::Int(4), v)).unwrap()).to_vec();
    let found = circuit.is_in(&x, &set).unwrap();
    let recorded = circuit.finish(&[&x], &[&found]).unwrap();
    assert_eq!(recorded.program().cost().bootstraps, 1);
    for v in -8..8 {
        let got = recorded.run_unencrypted(&[clear(Type::Int(4), v)]).unwrap()[0].low();
        assert_eq!(got == 1, [-8, 3, 5].contains(&v), "{v}");
    }
}

/// Bits and digits are added up as far as one table goes: 5 arguments in one bootstrap, and 4 with 9 results of others.
#[test]
fn many_conditions_are_counted_together() {
    for (n, most) in [(1, 1), (5, 1), (15, 4), (60, 13), (200, 41)] {
        for name in ["all", "any"] {
            let op = ListOperation::named(name).unwrap();
            for (aim, deepest) in [(Aim::Work, 4), (Aim::Depth, 3)] {
                let recorded = recorded(op, aim, &vec![Type::Bool; n]);
                let cost = recorded.program().cost();
                let most = if aim == Aim::Work { most } else { most + 2 };
                assert!(cost.bootstraps <= most && cost.depth <= deepest, "{name} {n}: {cost:?}");
                // Every bit counts, and no other one.
                for odd in 0..=n.min(63) {
                    let bits = (0..n).map(|i| i128::from((i == odd) == (name == "any")));
                    check(op, &recorded, Type::Bool, &bits.collect::<Vec<_>>());
                }
            }
        }
    }
}

/// The bootstraps of an operation with a clear second operand, of which every result is checked, by aim.
fn with_clear(name: &str, ty: Type, value: u64, f: impl Fn(u64) -> u64) -> [(usize, usize); 2] {
    [Aim::Work, Aim::Depth].map(|aim| {
        let mut circuit = Circuit::new(params(), aim).unwrap();
        let words = [circuit.input(ty).unwrap(), Word::clear(ty, value.into()).unwrap()];
        let op = becalm::apps::integer::Operation::named(name).unwrap();
        let found = op.record(&mut circuit, &words).unwrap();
        let recorded = circuit.finish(&[&words[0]], &[&found[0]]).unwrap();
        let tried: Vec<u64> = match ty.bits() {
            bits @ ..=8 => (0..1 << bits).collect(),
            bits => (0..bits).map(|i| value ^ 1 << i).chain([value]).collect(),
        };
        for x in tried {
            let got = recorded.run_unencrypted(&[x.into()]).unwrap()[0].low();
            assert_eq!(got, u128::from(f(x)), "{name} {ty}, {x} and {value}");
        }
        let cost = recorded.program().cost();
        println!("{name} {ty} {value} {aim:?}: {}, depth {}", cost.bootstraps, cost.depth);
        (cost.bootstraps, cost.depth)
    })
}

#[test]
fn clear_operands_cost_as_little_as_tables() {
    let (u8, u32) = (Type::Uint(8), Type::Uint(32));
    assert!(with_clear("eq", u32, 0, |x| u64::from(x == 0))[0].0 <= 4);
    for value in [1, 0x0011_ABCD, 0x9999_9999, u64::from(u32::MAX)] {
        let [work, deep] = with_clear("eq", u32, value, |x| u64::from(x == value));
        assert!(work.0 <= 10 && deep.1 <= 3, "{value}: {work:?} {deep:?}");
    }
    assert!(with_clear("div", u8, 10, |x| x / 10)[0].0 <= 6);
    assert!(with_clear("gt", u8, 37, |x| u64::from(x > 37))[0].0 <= 2);
    assert!(with_clear("min", u8, 37, |x| x.min(37))[0].0 <= 8);
    let refreshed = becalm::apps::integer::Operation::named("refresh").unwrap();
    let refreshed = refreshed.circuit(params(), Aim::Work, &[u8]).unwrap();
    assert_eq!(refreshed.program().cost().bootstraps, 4);
}

/// Powers of two shift, and a rest keeps no more digits than a clear divisor.
#[test]
fn clear_factors_and_divisors_cost_what_they_need() {
    let (u16, u64) = (Type::Uint(16), Type::Uint(64));
    for places in [0, 1, 2, 9, 62, 63] {
        let (value, odd) = (1 << places, places % 2);
        let bootstraps = [
            with_clear("div", u64, value, |x| x >> places)[0].0,
            with_clear("rem", u64, value, |x| x & (value - 1))[0].0,
            with_clear("mul", u64, value, |x| x << places)[0].0,
        ];
        assert!(bootstraps.iter().all(|b| *b <= 33 * odd), "{places}: {bootstraps:?}");
    }
    for (value, most) in [(3, 90), (10, 110), (100, 150), (60_000, 170)] {
        let [div, deep] = with_clear("div", u16, value, |x| x / value);
        let [rem, _] = with_clear("rem", u16, value, |x| x % value);
        assert!(div.0.max(rem.0) <= most && deep.0 <= 3 * most, "{value}: {div:?} {rem:?}");
    }
    assert!(with_clear("div", u64, 10, |x| x / 10)[0].0 <= 480);
    // Signed ones are divided towards zero.
    let ty = Type::Int(12);
    for value in [1i128, 2, 8, 1024, -1, -4, -2048, 3, 10, -7] {
        let mut circuit = Circuit::new(params(), Aim::Work).unwrap();
        let words = [circuit.input(ty).unwrap(), Word::clear(ty, clear(ty, value)).unwrap()];
        let (q, r) = circuit.div_rem(&words[0], &words[1]).unwrap();
        let recorded = circuit.finish(&[&words[0]], &[&q, &r]).unwrap();
        for x in (-2048..2048).step_by(37).chain([-2047, -1, 0, 1, 2047]) {
            let got = recorded.run_unencrypted(&[clear(ty, x)]).unwrap();
            let wanted = [wrap(ty, x / value), x % value];
            assert_eq!([0, 1].map(|i| number(ty, got[i])), wanted, "{x} by {value}");
        }
    }
}

#[test]
fn powers_and_matrices_with_clear_operands() {
    let ty = Type::Uint(16);
    for e in [0u64, 1, 2, 3, 6, 13] {
        let mut circuit = Circuit::new(params(), Aim::Work).unwrap();
        let x = circuit.input(ty).unwrap();
        let power = circuit.pow(&x, e).unwrap();
        let recorded = circuit.finish(&[&x], &[&power]).unwrap();
        for v in [0u64, 1, 7, 999] {
            let wanted = (0..e).fold(1u64, |a, _| a * v % 65536);
            let got = recorded.run_unencrypted(&[v.into()]).unwrap()[0].low();
            assert_eq!(got, u128::from(wanted), "{v}^{e}");
        }
    }
    let rows = [[1u64, 2, 3], [300, 0, 7]];
    let mut circuit = Circuit::new(params(), Aim::Work).unwrap();
    let x: Vec<Word> = (0..3).map(|_| circuit.input(ty).unwrap()).collect();
    let factors = rows.iter().flatten().map(|v| Word::clear(ty, (*v).into()).unwrap());
    let words: Vec<Word> = x.iter().cloned().chain(factors).collect();
    let found = ListOperation::named("matmul").unwrap().record(&mut circuit, &words).unwrap();
    let (inputs, outputs) = (x.iter().collect::<Vec<_>>(), found.iter().collect::<Vec<_>>());
    let recorded = circuit.finish(&inputs, &outputs).unwrap();
    let given = [500u64, 9, 40_000];
    let got = recorded.run_unencrypted(&given.map(Clear::from)).unwrap();
    for (row, got) in rows.iter().zip(got) {
        let wanted = row.iter().zip(given).map(|(a, b)| a * b).sum::<u64>() % 65536;
        assert_eq!(got.low(), u128::from(wanted));
    }
}

#[test]
fn too_few_words_and_other_types_are_refused() {
    for op in LIST_OPERATIONS {
        let mut circuit = Circuit::new(params(), Aim::Work).unwrap();
        let none = op.record(&mut circuit, &[]);
        assert_eq!(none.err().map(|e| e.kind()), Some("bad_input"), "{}", op.name);
        let mixed = [circuit.input(Type::Uint(8)).unwrap(), circuit.input(Type::Int(8)).unwrap()];
        let fine = matches!(op.name, "any" | "all");
        let found = op.record(&mut circuit, &mixed).err().map(|e| e.kind());
        assert_eq!(found, (!fine).then_some("bad_input"), "{}", op.name);
    }
    assert!(ListOperation::named("median").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if full() { 400 } else { 24 }))]

    #[test]
    fn random_lists(pick in 0..LIST_OPERATIONS.len(), bits in 2u32..=20, signed: bool, deep: bool, n in 1usize..=9, seed: u64) {
        let op = &LIST_OPERATIONS[pick];
        let ty = if signed { Type::Int(bits) } else { Type::Uint(bits) };
        if let Some(n) = count(op, ty, n).filter(|_| plain(op)) {
            let aim = if deep { Aim::Depth } else { Aim::Work };
            check(op, &recorded(op, aim, &vec![ty; n]), ty, &values(ty, n, seed));
        }
    }
}
