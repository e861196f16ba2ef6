//! Plaintext tables at an encrypted index: right at every index, checked by unencrypted runs, and never dearer than the circuit compiler's
//! cover of the same table, beside the bootstraps that turn its digits to bits.

mod full;

use becalm::apps::Aim;
use becalm::apps::integer::{Clear, Formula, Recorded, Type};
use becalm::params::TfheParams;
use becalm::program::circuit::{Circuit, Goal};
use full::full;
use std::sync::Arc;

/// The entry of a table at an index.
type Entry<'a> = &'a dyn Fn(u64) -> u64;

fn params() -> Arc<TfheParams> {
    Arc::new(TfheParams::named("tfhe_2_2").unwrap().clone())
}

fn recorded(index: u32, ty: Type, entries: &[u64]) -> Recorded {
    let formula = Formula::new(params(), Aim::Work).unwrap();
    let x = formula.input(Type::Uint(index));
    let clear: Vec<Clear> = entries.iter().map(|e| Clear::from(*e)).collect();
    formula.finish(&[&x.table(ty, &clear)]).unwrap()
}

/// Checks every entry; the bootstraps and the depth.
fn cost(index: u32, bits: u32, f: impl Fn(u64) -> u64) -> (usize, usize) {
    let entries: Vec<u64> = (0..1 << index).map(|i| f(i) & ((1 << bits) - 1)).collect();
    let circuit = recorded(index, Type::Uint(bits), &entries);
    for (i, wanted) in entries.iter().enumerate() {
        let found = circuit.run_unencrypted(&[Clear::from(i as u64)]).unwrap();
        assert_eq!(found[0].low(), u128::from(*wanted), "{i} of {index} bits to {bits}");
    }
    let cost = circuit.program().cost();
    (cost.bootstraps, cost.depth)
}

/// Splitmix64.
fn random(i: u64) -> u64 {
    let mut z = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The table as BLIF, a `.names` for each bit of the result.
fn compiled(index: u32, bits: u32, f: impl Fn(u64) -> u64) -> usize {
    let names = |letter: char, count: u32| -> String {
        (0..count).map(|i| format!(" {letter}[{i}]")).collect()
    };
    let (ins, outs) = (names('x', index), names('y', bits));
    let mut text = format!(".model t\n.inputs{ins}\n.outputs{outs}\n");
    for bit in 0..bits {
        text += &format!(".names{ins} y[{bit}]\n");
        for x in (0..1u64 << index).filter(|x| f(*x) >> bit & 1 == 1) {
            let product = (0..index).map(|i| if x >> i & 1 == 1 { '1' } else { '0' });
            text += &format!("{} 1\n", product.collect::<String>());
        }
    }
    let circuit = Circuit::parse(&(text + ".end\n")).unwrap();
    circuit.compile(&params(), Goal::Bootstraps).unwrap().program.cost().bootstraps
}

#[test]
fn tables_of_every_width_are_right() {
    for index in 2..=8 {
        for bits in [2, 3, 5, 8] {
            let (bootstraps, depth) = cost(index, bits, random);
            println!("random {index} to {bits}: {bootstraps} bootstraps, depth {depth}");
            // 17 for two digits, one more for each digit, and two for all.
            let digits = bits.div_ceil(2) as usize;
            assert!(bootstraps <= 17 * digits.div_ceil(2) + digits + 2 && depth <= 4);
        }
    }
}

#[test]
fn tables_of_structure_cost_less() {
    let popcount = |x: u64| u64::from(x.count_ones());
    let all: [(&str, u32, Entry, usize); 7] = [
        ("identity", 8, &|x| x, 0),
        ("constant", 8, &|_| 77, 0),
        ("popcount", 4, &popcount, 4),
        ("shift", 8, &|x| x >> 1, 4),
        ("parity", 2, &|x| popcount(x) & 1, 3),
        ("square", 16, &|x| x * x, 80),
        ("reversed", 8, &|x| u64::from((x as u8).reverse_bits()), 4),
    ];
    for (name, bits, f, most) in all {
        let (bootstraps, depth) = cost(8, bits, f);
        println!("{name}: {bootstraps} bootstraps, depth {depth}");
        assert!(bootstraps <= most, "{name}: {bootstraps}");
    }
}

/// Missing entries are 0, as past the end of an array.
#[test]
fn a_short_table_ends_in_zeros() {
    let entries: Vec<u64> = (0..37).map(|i| random(i) & 255).collect();
    let circuit = recorded(7, Type::Uint(8), &entries);
    for i in 0..128usize {
        let found = circuit.run_unencrypted(&[Clear::from(i as u64)]).unwrap();
        assert_eq!(found[0].low(), u128::from(entries.get(i).copied().unwrap_or(0)));
    }
}

/// Functions of some structure, with numbers that a seed chooses: their name, the bits of the index and of the result.
fn structured(seed: u64) -> (String, u32, u32, Box<dyn Fn(u64) -> u64>) {
    let drawn = |i: u64, below: u64| random(64 * seed + i) % below;
    let (index, bits) = (5 + drawn(0, 4) as u32, 2 + drawn(1, 7) as u32);
    let (c, m, s) = (1 + drawn(2, (1 << index) - 1), 2 + drawn(3, 30), 1 + drawn(4, 3));
    let found: (&str, Box<dyn Fn(u64) -> u64>) = match seed % 20 {
        0 => ("above", Box::new(move |k| u64::from(k > c))),
        1 => ("remainder", Box::new(move |k| k % m)),
        2 => ("quotient", Box::new(move |k| k / m)),
        3 => ("product of parts", Box::new(move |k| (k & ((2 << s) - 1)) * (k >> (s + 1)))),
        4 => ("bit length", Box::new(|k| u64::from(64 - k.leading_zeros()))),
        5 => ("count of ones", Box::new(|k| u64::from(k.count_ones()))),
        6 => ("reversal", Box::new(move |k| k.reverse_bits() >> (64 - index))),
        7 => ("least", Box::new(move |k| k.min(c))),
        8 => ("distance", Box::new(move |k| k.abs_diff(c))),
        9 => ("gray code", Box::new(|k| k ^ k >> 1)),
        10 => ("root", Box::new(|k| k.isqrt())),
        11 => ("square", Box::new(|k| k * k)),
        12 => ("multiple", Box::new(move |k| k * c)),
        13 => ("equal", Box::new(move |k| u64::from(k == c))),
        14 => ("within", Box::new(move |k| u64::from((c / 2..c).contains(&k)))),
        15 => ("lowest one", Box::new(|k| k & k.wrapping_neg())),
        16 => ("sum of parts", Box::new(move |k| (k & 7) + (k >> 3))),
        17 => ("order of parts", Box::new(move |k| u64::from(k & 7 < k >> 3))),
        18 => ("mask", Box::new(move |k| k & c)),
        _ => ("turned", Box::new(move |k| k << s | k >> (u64::from(index) - s))),
    };
    (format!("{} ({c}, {m}, {s})", found.0), index, bits, found.1)
}

/// The compiler's inputs are bits: one bootstrap turns a digit of the index to its two.
fn never_dearer(name: &str, index: u32, bits: u32, f: &dyn Fn(u64) -> u64) {
    let (ours, _) = cost(index, bits.max(2), |x| f(x) & ((1 << bits) - 1));
    let (theirs, split) = (compiled(index, bits, f), index.div_ceil(2) as usize);
    println!("{name} {index} to {bits}: {ours} bootstraps, by the circuit compiler {theirs}");
    assert!(ours <= theirs + split, "{name}: {ours}, {theirs} and {split} for the digits");
}

#[test]
fn a_table_is_never_dearer_than_its_circuit() {
    let square = |x: u64| (x * x) & 63;
    let all: [(&str, u32, u32, Entry); 10] = [
        ("square", 8, 4, &square),
        ("order", 8, 1, &|x| u64::from(x & 15 < x >> 4)),
        ("random", 5, 4, &random),
        ("square", 5, 6, &square),
        ("order", 6, 1, &|x| u64::from(x & 7 < x >> 3)),
        ("bit length", 8, 8, &|x| u64::from(64 - x.leading_zeros())),
        ("product of parts", 5, 4, &|x| (x & 7) * (x >> 3)),
        ("above", 7, 4, &|x| u64::from(x > 37)),
        ("remainder", 5, 4, &|x| x % 3),
        ("reversal", 7, 7, &|x| x.reverse_bits() >> 57),
    ];
    for (name, index, bits, f) in all {
        never_dearer(name, index, bits, f);
    }
    for seed in (0..if full() { 400 } else { 20 }).step_by(if full() { 1 } else { 2 }) {
        let (name, index, bits, f) = structured(seed);
        // The compiler takes seconds for more bits.
        let index = if full() { index } else { index.min(6) };
        never_dearer(&name, index, bits, &f);
    }
}

/// Digits are added as they are: what depends on a sum of them, or of few looked up values, costs little.
#[test]
fn tables_of_arithmetic_cost_a_few_bootstraps() {
    let all: [(&str, u32, u32, usize, Entry); 7] = [
        ("bit length", 8, 8, 5, &|x| u64::from(64 - x.leading_zeros())),
        ("product of parts", 5, 4, 4, &|x| (x & 7) * (x >> 3)),
        ("above", 7, 4, 2, &|x| u64::from(x > 37)),
        ("above", 8, 4, 2, &|x| u64::from(x > 37)),
        ("remainder", 5, 4, 1, &|x| x % 3),
        ("remainder", 7, 3, 2, &|x| x % 5),
        ("quotient", 8, 8, 6, &|x| x / 10),
    ];
    for (name, index, bits, most, f) in all {
        let (bootstraps, _) = cost(index, bits, f);
        println!("{name} {index} to {bits}: {bootstraps} bootstraps");
        assert!(bootstraps <= most, "{name}: {bootstraps}");
    }
}
