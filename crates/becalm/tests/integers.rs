//! Encrypted integers against the integers of Rust: unencrypted runs of the circuits for every operation, many widths and all edge
//! values; the same programs encrypted for some.

mod full;

use becalm::apps::integer::{Clear, Expr, Formula, OPERATIONS, Operation, Recorded, Type, Word};
use becalm::apps::{Aim, Circuit};
use becalm::params::TfheParams;
use full::full;
use proptest::prelude::*;
use std::sync::Arc;

fn params() -> Arc<TfheParams> {
    Arc::new(TfheParams::named("tfhe_2_2").unwrap().clone())
}

/// Bits of a value, at most 64 of them, modulo 2^bits.
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

/// The operation on clear integers of up to 64 bits: the results, each with the bits of its own type.
fn model(name: &str, ty: Type, x: &[i128]) -> Vec<i128> {
    let (a, b) = (x[0], x.get(1).copied().unwrap_or(0));
    let bits = i128::from(ty.bits());
    let plain = a & ((1i128 << bits) - 1);
    let zeros = |v: i128| bits - i128::from(128 - v.leading_zeros());
    let flip = plain ^ ((1i128 << bits) - 1);
    let trailing = |v: i128| i128::from(v.trailing_zeros()).min(bits);
    let over = |v: i128| vec![wrap(ty, v), i128::from(wrap(ty, v) != v)];
    let (q, r) = match (b, a < 0) {
        (0, false) => (-1, a),
        (0, true) => (1, a),
        _ => (a / b, a % b),
    };
    let turn = b.rem_euclid(bits);
    let left = |by: i128| wrap(ty, plain << by | plain >> (bits - by));
    let count_bits = (32 - ty.bits().leading_zeros()).max(2);
    let one = match name {
        "add" => a + b,
        "sub" => a - b,
        "mul" => a.wrapping_mul(b),
        "div" => q,
        "rem" => r,
        "div_rem" => return vec![wrap(ty, q), wrap(ty, r)],
        "neg" => -a,
        "abs" => a.abs(),
        "and" => a & b,
        "or" => a | b,
        "xor" => a ^ b,
        "not" => !a,
        "refresh" => a,
        "shl" if b >= bits => 0,
        "shl" => a << b,
        "shr" => a >> b.min(127),
        "rotate_left" => left(turn),
        "rotate_right" => left((bits - turn) % bits),
        "eq" => return vec![i128::from(a == b)],
        "ne" => return vec![i128::from(a != b)],
        "gt" => return vec![i128::from(a > b)],
        "ge" => return vec![i128::from(a >= b)],
        "lt" => return vec![i128::from(a < b)],
        "le" => return vec![i128::from(a <= b)],
        "min" => a.min(b),
        "max" => a.max(b),
        "select" => return vec![if a == 1 { b } else { x[2] }],
        "overflowing_add" => return over(a + b),
        "overflowing_sub" => return over(a - b),
        "overflowing_mul" => return over(a.wrapping_mul(b)),
        "leading_zeros" => return vec![zeros(plain)],
        "leading_ones" => return vec![zeros(flip)],
        "trailing_zeros" => return vec![trailing(plain)],
        "trailing_ones" => return vec![trailing(flip)],
        "count_ones" => return vec![i128::from(plain.count_ones())],
        "ilog2" => return vec![(bits - 1 - zeros(plain)) & ((1 << count_bits) - 1)],
        other => panic!("no model of {other}"),
    };
    vec![wrap(ty, one)]
}

/// Operand types of an operation on `ty`.
fn operands(op: &Operation, ty: Type) -> Vec<Type> {
    match op.name {
        "select" => vec![Type::Bool, ty, ty],
        "shl" | "shr" | "rotate_left" | "rotate_right" => {
            vec![ty, Type::Uint(ty.bits().clamp(2, 8))]
        }
        _ => vec![ty; op.arity],
    }
}

/// Edge values of a type, and some others.
fn edges(ty: Type, seed: u64) -> Vec<i128> {
    let mut values =
        vec![0, 1, -1, 2, 3, i128::from(seed as i64), i128::from(seed.rotate_left(29) >> 7)];
    values.extend([1i128 << (ty.bits() - 1), (1i128 << (ty.bits() - 1)) - 1, 5]);
    let mut values: Vec<i128> = values.into_iter().map(|v| wrap(ty, v)).collect();
    values.sort();
    values.dedup();
    values
}

fn check(op: &Operation, recorded: &Recorded, ty: Type, x: &[i128]) {
    let given: Vec<Clear> = recorded.inputs().iter().zip(x).map(|(t, v)| clear(*t, *v)).collect();
    let results =
        recorded.run_unencrypted(&given).unwrap_or_else(|e| panic!("{} {ty} {x:?}: {e}", op.name));
    let results: Vec<i128> =
        recorded.outputs().iter().zip(results).map(|(t, r)| number(*t, r)).collect();
    assert_eq!(results, model(op.name, ty, x), "{} {ty} {x:?}", op.name);
}

fn supported(op: &Operation, ty: Type) -> bool {
    // The model computes in 128 bits.
    !(op.name == "overflowing_mul" && ty.bits() > 62)
}

fn types(full: bool) -> Vec<Type> {
    let widths: Vec<u32> = if full {
        (2..=20).chain([31, 32, 33, 63, 64]).collect()
    } else {
        vec![2, 3, 5, 8, 13, 32, 64]
    };
    widths.iter().flat_map(|w| [Type::Uint(*w), Type::Int(*w)]).collect()
}

#[test]
fn every_operation_agrees_with_rust_on_edge_values() {
    let full = full();
    for op in OPERATIONS {
        for ty in types(full).into_iter().filter(|t| supported(op, *t)) {
            for aim in [Aim::Work, Aim::Depth] {
                let recorded = op.circuit(params(), aim, &operands(op, ty)).unwrap();
                let ops = recorded.program().ops().len();
                let budget = if full { 60 } else { (60_000 / ops.max(1)).clamp(2, 60) };
                let values = edges(ty, 0x9e37_79b9_7f4a_7c15u64.rotate_left(ty.bits()));
                let n = values.len();
                for k in 0..budget {
                    // Pairs in an order that mixes all with all.
                    let (i, j) = (k % n, (k / n + 3 * k) % n);
                    let x: Vec<i128> = recorded
                        .inputs()
                        .iter()
                        .enumerate()
                        .map(|(at, t)| wrap(*t, values[[i, j, (i + j) % n][at]]))
                        .collect();
                    check(op, &recorded, ty, &x);
                }
            }
        }
    }
}

#[test]
fn noise_of_every_circuit_is_within_the_claim() {
    for op in OPERATIONS {
        for ty in [Type::Uint(64), Type::Int(13), Type::Uint(3)] {
            for aim in [Aim::Work, Aim::Depth] {
                let recorded = op.circuit(params(), aim, &operands(op, ty)).unwrap();
                let program = recorded.program();
                // Arguments as noisy as results of other circuits.
                let noise = becalm::tfhe::noise::bootstrap_output(&params());
                let found = program.follow(&vec![noise; program.inputs().len()]);
                let found = found.unwrap_or_else(|e| panic!("{} {ty} {aim:?}: {e}", op.name));
                assert!(found.log2_pfail < -100.0, "{}", op.name);
                // The same ciphertext for both operands, or ciphertexts from files.
                let related = vec![true; program.inputs().len()];
                let same = program.follow_related(&vec![noise; related.len()], &related);
                same.unwrap_or_else(|e| panic!("{} {ty} {aim:?}, related: {e}", op.name));
                let cost = program.cost();
                println!(
                    "{:16} {ty} {aim:?}: {} bootstraps, depth {}",
                    op.name, cost.bootstraps, cost.depth
                );
                let independent = found.independent.iter().all(|x| *x);
                // A result that only flips digits, or changes nothing, is related to its operand.
                let moved = op.name == "not" || op.name == "abs" && !ty.signed();
                assert!(independent || moved, "{} {ty}", op.name);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if full() { 400 } else { 24 }))]

    #[test]
    fn random_operands(pick in 0..OPERATIONS.len(), bits in 2u32..=33, signed: bool, deep: bool, x: [i64; 3]) {
        let op = &OPERATIONS[pick];
        let ty = if signed { Type::Int(bits) } else { Type::Uint(bits) };
        let aim = if deep { Aim::Depth } else { Aim::Work };
        let recorded = op.circuit(params(), aim, &operands(op, ty)).unwrap();
        let x: Vec<i128> =
            recorded.inputs().iter().zip(x).map(|(t, v)| wrap(*t, i128::from(v))).collect();
        check(op, &recorded, ty, &x);
    }

    #[test]
    fn clear_operands_cost_no_more(pick in 0..OPERATIONS.len(), bits in 2u32..=33, signed: bool, x: [i64; 3]) {
        let op = &OPERATIONS[pick];
        let ty = if signed { Type::Int(bits) } else { Type::Uint(bits) };
        let types = operands(op, ty);
        let x: Vec<i128> = types.iter().zip(x).map(|(t, v)| wrap(*t, i128::from(v))).collect();
        let mut circuit = Circuit::new(params(), Aim::Work).unwrap();
        let mut words = vec![circuit.input(types[0]).unwrap()];
        for (t, v) in types.iter().zip(&x).skip(1) {
            words.push(Word::clear(*t, clear(*t, *v)).unwrap());
        }
        let outputs = op.record(&mut circuit, &words).unwrap();
        let recorded = circuit.finish(&[&words[0]], &outputs.iter().collect::<Vec<_>>()).unwrap();
        let encrypted = op.circuit(params(), Aim::Work, &types).unwrap();
        let (less, more) = (recorded.program().cost(), encrypted.program().cost());
        prop_assert!(less.bootstraps <= more.bootstraps, "{} {ty}", op.name);
        let results = recorded.run_unencrypted(&[clear(types[0], x[0])]).unwrap();
        let results: Vec<i128> = recorded.outputs().iter().zip(results).map(|(t, r)| number(*t, r)).collect();
        prop_assert_eq!(results, model(op.name, ty, &x), "{} {} {:?}", op.name, ty, x);
    }
}

#[test]
fn an_index_past_the_end_gives_zero() {
    let ty = Type::Uint(4);
    let mut circuit = Circuit::new(params(), Aim::Work).unwrap();
    let array: Vec<Word> = (0..5).map(|_| circuit.input(ty).unwrap()).collect();
    let at = circuit.input(Type::Uint(8)).unwrap();
    let found = circuit.index(&array, &at).unwrap();
    let inputs: Vec<&Word> = array.iter().chain([&at]).collect();
    let recorded = circuit.finish(&inputs, &[&found]).unwrap();
    for (index, wanted) in [(0u128, 9), (2, 11), (4, 13), (5, 0), (16, 0), (18, 0), (255, 0)] {
        let values = (9u128..14).chain([index]).map(Clear::from);
        let got = recorded.run_unencrypted(&values.collect::<Vec<_>>()).unwrap();
        assert_eq!(got[0].low(), wanted, "{index}");
    }
}

#[test]
fn the_widest_types_divide() {
    let divide = OPERATIONS.iter().find(|op| op.name == "div_rem").unwrap();
    for bits in [65, 127, 128, 255, 256] {
        let ty = Type::Uint(bits);
        let recorded = divide.circuit(params(), Aim::Work, &[ty, ty]).unwrap();
        let (a, b) = (u128::from(u64::MAX) + 12_345, 678u128);
        let got = recorded.run_unencrypted(&[Clear::from(a), Clear::from(b)]).unwrap();
        assert_eq!((got[0].low(), got[1].low()), (a / b, a % b), "{bits} bits");
    }
}

#[test]
fn booleans_are_counted_and_formulas_sum_dot_and_look_up() {
    for n in [1usize, 3, 4, 16, 70] {
        let formula = Formula::new(params(), Aim::Work).unwrap();
        let flags: Vec<Expr> = (0..n).map(|_| formula.input(Type::Bool)).collect();
        let flags: Vec<&Expr> = flags.iter().collect();
        let (count, odd) = (formula.count(&flags), formula.sum(&flags));
        let wide = Type::Uint((usize::BITS - n.leading_zeros()).max(2));
        assert_eq!((count.ty(), odd.ty()), (wide, Type::Bool));
        let recorded = formula.finish(&[&count, &odd]).unwrap();
        for step in 1..4 {
            let given: Vec<Clear> = (0..n).map(|i| Clear::from(i % step == 0)).collect();
            let wanted = (0..n).filter(|i| i % step == 0).count() as u128;
            let found = recorded.run_unencrypted(&given).unwrap();
            assert_eq!([found[0].low(), found[1].low()], [wanted, wanted % 2]);
        }
    }
    let ty = Type::Int(9);
    let formula = Formula::new(params(), Aim::Depth).unwrap();
    let x: Vec<Expr> = (0..5).map(|_| formula.input(ty)).collect();
    let x: Vec<&Expr> = x.iter().collect();
    let at = formula.input(Type::Uint(5));
    let table: Vec<Clear> = (0..20).map(|i| clear(ty, 7 - i)).collect();
    let results = [
        formula.sum(&x),
        formula.dot(&x[..2], &x[2..4]),
        formula.index(&x, &at),
        at.table(ty, &table),
        -(&at.cast(ty) - x[0].clone()),
    ];
    let recorded = formula.finish(&results.each_ref()).unwrap();
    let values = [-200, 31, 2, -77, 255];
    let sum = wrap(ty, values.iter().sum());
    for at in [0usize, 3, 4, 5, 19, 20, 31] {
        let mut given: Vec<Clear> = values.iter().map(|v| clear(ty, *v)).collect();
        given.push(Clear::from(at as u64));
        let found = recorded.run_unencrypted(&given).unwrap();
        let entry = if at < 20 { 7 - at as i128 } else { 0 };
        let element = values.get(at).copied().unwrap_or(0);
        let dot = wrap(ty, -200 * 2 - 31 * 77);
        let wanted = [sum, dot, element, entry, wrap(ty, -(at as i128 + 200))];
        assert_eq!(found.iter().map(|f| number(ty, *f)).collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn a_formula_tells_what_was_refused() {
    let other = Formula::new(params(), Aim::Work).unwrap();
    let theirs = other.input(Type::Uint(8));
    let refused = |wanted: &str, make: &dyn Fn(&Formula)| {
        let formula = Formula::new(params(), Aim::Work).unwrap();
        make(&formula);
        let mine = formula.input(Type::Uint(8));
        let error = formula.finish(&[&mine]).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    };
    refused("one formula", &|f| drop(&f.input(Type::Uint(8)) + &theirs));
    refused("at least one", &|f| drop(f.count(&[])));
    refused("at least one", &|f| drop(f.index(&[], &f.input(Type::Uint(8)))));
    refused("a bool", &|f| drop(f.count(&[&f.input(Type::Uint(8))])));
    refused("unsigned index", &|f| {
        let at = f.input(Type::Int(3));
        drop((f.index(&[&f.input(Type::Uint(8))], &at), at.table(Type::Bool, &[true.into()])))
    });
    refused("2 to 256 bits", &|f| drop(f.input(Type::Uint(8)).cast(Type::Uint(300))));
    let formula = Formula::new(params(), Aim::Work).unwrap();
    formula.input(Type::Uint(8));
    let error = formula.finish(&[&theirs]).unwrap_err();
    assert!(error.kind() == "bad_input" && error.to_string().contains("this formula"), "{error}");
}

#[test]
fn any_and_all_of_words_of_any_types() {
    for aim in [Aim::Work, Aim::Depth] {
        for n in 1..8 {
            let mut circuit = Circuit::new(params(), aim).unwrap();
            let ty = |i: usize| [Type::Bool, Type::Uint(9), Type::Int(4)][i % 3];
            let words: Vec<Word> = (0..n).map(|i| circuit.input(ty(i)).unwrap()).collect();
            let (any, all) = (circuit.any(&words).unwrap(), circuit.all(&words).unwrap());
            let inputs: Vec<&Word> = words.iter().collect();
            let recorded = circuit.finish(&inputs, &[&any, &all]).unwrap();
            for mask in 0..1usize << n {
                let value = |i: usize| (mask >> i & 1) * [1, 256, 5][i % 3];
                let values: Vec<usize> = (0..n).map(value).collect();
                let given: Vec<Clear> = values.iter().map(|v| Clear::from(*v as u64)).collect();
                let found = recorded.run_unencrypted(&given).unwrap();
                let wanted = [values.iter().any(|v| *v != 0), values.iter().all(|v| *v != 0)];
                assert_eq!([found[0].low() == 1, found[1].low() == 1], wanted, "{values:?}");
            }
        }
    }
}
