//! Encrypted integers of any width to 256 bits, circuits run unencrypted, against schoolbook arithmetic on lists of bits.

mod full;

use becalm::Error;
use becalm::apps::integer::{Clear, OPERATIONS, Operation, Type, Word};
use becalm::apps::{Aim, Circuit};
use becalm::params::TfheParams;
use full::full;
use std::sync::Arc;

fn params() -> Arc<TfheParams> {
    Arc::new(TfheParams::named("tfhe_2_2").unwrap().clone())
}

/// Bits, the lowest first; as many as the type has.
type Bits = Vec<bool>;

fn constant(bits: usize, value: u64) -> Bits {
    (0..bits).map(|i| i < 64 && value >> i & 1 == 1).collect()
}

fn sum(a: &[bool], b: &[bool], mut carry: bool) -> (Bits, bool) {
    let digit = |(x, y): (&bool, &bool)| {
        let total = u8::from(*x) + u8::from(*y) + u8::from(carry);
        carry = total > 1;
        total % 2 == 1
    };
    let bits = a.iter().zip(b).map(digit).collect();
    (bits, carry)
}

fn not(a: &[bool]) -> Bits {
    a.iter().map(|x| !x).collect()
}

fn neg_if(a: &[bool], when: bool) -> Bits {
    if when { sum(&not(a), &constant(a.len(), 1), false).0 } else { a.to_vec() }
}

fn difference(a: &[bool], b: &[bool]) -> (Bits, bool) {
    let (bits, carry) = sum(a, &not(b), true);
    (bits, !carry)
}

/// The bits after so many places are moved in from below, and cut to the width.
fn raised(a: &[bool], by: usize) -> Bits {
    std::iter::repeat_n(false, by.min(a.len())).chain(a.iter().copied()).take(a.len()).collect()
}

fn product(a: &[bool], b: &[bool]) -> Bits {
    (0..b.len())
        .filter(|i| b[*i])
        .fold(constant(a.len(), 0), |p, i| sum(&p, &raised(a, i), false).0)
}

fn quotient(a: &[bool], b: &[bool]) -> (Bits, Bits) {
    let (mut q, mut r) = (constant(a.len(), 0), constant(a.len() + 1, 0));
    let divisor = extended(b, b.len() + 1, false);
    for i in (0..a.len()).rev() {
        r = raised(&r, 1);
        r[0] = a[i];
        let (less, borrow) = difference(&r, &divisor);
        q[i] = !borrow;
        if !borrow {
            r = less;
        }
    }
    r.pop();
    // Nothing is smaller than 0: all of the quotient is ones, and all that is left is the dividend.
    (q, r)
}

fn extended(a: &[bool], bits: usize, signed: bool) -> Bits {
    let fill = signed && a[a.len() - 1];
    a.iter().copied().chain(std::iter::repeat(fill)).take(bits).collect()
}

fn greater(a: &[bool], b: &[bool], signed: bool) -> bool {
    let order = |x: &[bool]| {
        let mut x: Bits = x.iter().rev().copied().collect();
        x[0] ^= signed;
        x
    };
    order(a) > order(b)
}

fn number(a: &[bool]) -> usize {
    a.iter().rev().fold(0, |n, b| 2 * n + usize::from(*b))
}

/// Comparisons and counts of bits.
fn answer(name: &str, ty: Type, a: &Bits, b: &Bits) -> Option<Vec<Bits>> {
    let (n, signed) = (a.len(), ty.signed());
    let truth = |t: bool| vec![vec![t]];
    let count = |c: usize| vec![constant((usize::BITS - n.leading_zeros()) as usize, c as u64)];
    let run =
        |bits: &mut dyn Iterator<Item = &bool>, bit: bool| bits.take_while(|x| **x == bit).count();
    Some(match name {
        "eq" => truth(a == b),
        "ne" => truth(a != b),
        "gt" => truth(greater(a, b, signed)),
        "ge" => truth(!greater(b, a, signed)),
        "lt" => truth(greater(b, a, signed)),
        "le" => truth(!greater(a, b, signed)),
        "min" => vec![if greater(a, b, signed) { b.clone() } else { a.clone() }],
        "max" => vec![if greater(a, b, signed) { a.clone() } else { b.clone() }],
        "leading_zeros" => count(run(&mut a.iter().rev(), false)),
        "leading_ones" => count(run(&mut a.iter().rev(), true)),
        "trailing_zeros" => count(run(&mut a.iter(), false)),
        "trailing_ones" => count(run(&mut a.iter(), true)),
        "count_ones" => count(a.iter().filter(|x| **x).count()),
        "ilog2" => {
            let zeros = count(run(&mut a.iter().rev(), false)).remove(0);
            vec![difference(&constant(zeros.len(), n as u64 - 1), &zeros).0]
        }
        _ => return None,
    })
}

/// The operation on bits: what comes out, each result with the bits of its type.
fn model(name: &str, ty: Type, x: &[Bits]) -> Vec<Bits> {
    let (a, b) = (&x[0], x.get(1).unwrap_or(&x[0]));
    let (n, signed) = (a.len(), ty.signed());
    if let Some(found) = answer(name, ty, a, b) {
        return found;
    }
    let sign = |x: &Bits| signed && x[n - 1];
    let zip = |f: fn(bool, bool) -> bool| vec![a.iter().zip(b).map(|(x, y)| f(*x, *y)).collect()];
    let turned = |by: usize| vec![(0..n).map(|i| a[(i + n - by % n) % n]).collect()];
    let divide = || {
        let (q, r) = quotient(&neg_if(a, sign(a)), &neg_if(b, sign(b)));
        vec![neg_if(&q, sign(a) != sign(b)), neg_if(&r, sign(a))]
    };
    let (plus, carry) = sum(a, b, false);
    let (minus, borrow) = difference(a, b);
    let left = |r: &Bits, differ: bool| (sign(a) != sign(b)) == differ && sign(r) != sign(a);
    match name {
        "add" => vec![plus],
        "sub" => vec![minus],
        "mul" => vec![product(a, b)],
        "div" => vec![divide().remove(0)],
        "rem" => vec![divide().remove(1)],
        "div_rem" => divide(),
        "neg" => vec![neg_if(a, true)],
        "abs" => vec![neg_if(a, sign(a))],
        "and" => zip(|x, y| x & y),
        "or" => zip(|x, y| x | y),
        "xor" => zip(|x, y| x ^ y),
        "not" => vec![not(a)],
        "refresh" => vec![a.clone()],
        "shl" => vec![raised(a, number(b))],
        "shr" => vec![(0..n).map(|i| *a.get(i + number(b)).unwrap_or(&sign(a))).collect()],
        "rotate_left" => turned(number(b)),
        "rotate_right" => turned(n - number(b) % n),
        "select" => vec![if a[0] { x[1].clone() } else { x[2].clone() }],
        "overflowing_add" if signed => vec![plus.clone(), vec![left(&plus, false)]],
        "overflowing_add" => vec![plus, vec![carry]],
        "overflowing_sub" if signed => vec![minus.clone(), vec![left(&minus, true)]],
        "overflowing_sub" => vec![minus, vec![borrow]],
        "overflowing_mul" => {
            let all = product(&extended(a, 2 * n, signed), &extended(b, 2 * n, signed));
            let low = all[..n].to_vec();
            let same = extended(&low, 2 * n, signed) == all;
            vec![low, vec![!same]]
        }
        other => panic!("no model of {other}"),
    }
}

fn clear(ty: Type, bits: &[bool]) -> Clear {
    let all = extended(bits, 256, ty.signed());
    let byte = |b: &[bool]| number(b) as u8;
    let bytes: Vec<u8> = all.chunks(8).map(byte).collect();
    Clear::from_bytes(bytes.try_into().unwrap(), ty.signed())
}

fn bits_of(ty: Type, value: Clear) -> Bits {
    let bytes = value.to_bytes();
    (0..ty.bits() as usize).map(|i| bytes[i / 8] >> (i % 8) & 1 == 1).collect()
}

/// 0, 1, −1, least, greatest, and two that look random, the second short.
fn edges(n: usize) -> Vec<Bits> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 63 == 1
    };
    let long: Bits = (0..n).map(&mut random).collect();
    let short = extended(&(0..n / 3).map(&mut random).collect::<Bits>(), n, false);
    let least = raised(&constant(n, 1), n - 1);
    let [zero, one] = [0, 1].map(|v| constant(n, v));
    vec![long, short, zero.clone(), not(&zero), not(&least), least, one]
}

fn types_of(op: &Operation, ty: Type) -> Vec<Type> {
    match op.name {
        "select" => vec![Type::Bool, ty, ty],
        "shl" | "shr" | "rotate_left" | "rotate_right" => vec![ty, Type::Uint(8)],
        _ => vec![ty; op.arity],
    }
}

fn check(op: &Operation, ty: Type, pairs: usize) {
    let types = types_of(op, ty);
    let recorded = op.circuit(params(), Aim::Work, &types).unwrap();
    let values = edges(ty.bits() as usize);
    for k in 0..pairs {
        let pick = |(at, t): (usize, &Type)| {
            let i = [k, k / 7 * 3 + k + 1, k + 2][at] % values.len();
            values[i][..t.bits() as usize].to_vec()
        };
        let x: Vec<Bits> = types.iter().enumerate().map(pick).collect();
        let given: Vec<Clear> = types.iter().zip(&x).map(|(t, x)| clear(*t, x)).collect();
        let got = recorded.run_unencrypted(&given).unwrap();
        let got: Vec<Bits> =
            recorded.outputs().iter().zip(got).map(|(t, r)| bits_of(*t, r)).collect();
        assert_eq!(got, model(op.name, ty, &x), "{} {ty} {given:?}", op.name);
    }
}

#[test]
fn every_operation_is_right_at_the_widest() {
    let full = full();
    for op in OPERATIONS {
        for ty in [100, 128, 256].into_iter().flat_map(|n| [Type::Uint(n), Type::Int(n)]) {
            let long = ["div", "rem", "div_rem", "overflowing_mul"].contains(&op.name);
            if op.name == "overflowing_mul" && ty.bits() > 128 {
                let refused = op.circuit(params(), Aim::Work, &[ty, ty]);
                assert!(matches!(refused, Err(Error::BadInput(_))), "{refused:?}");
                continue;
            }
            // One of the three divisions is all of them.
            let rare = [Type::Uint(100), Type::Int(256)].contains(&ty);
            if long && !full && (op.name == "div" || op.name == "rem" || rare) {
                continue;
            }
            check(
                op,
                ty,
                if full {
                    42
                } else if long {
                    5
                } else {
                    14
                },
            );
        }
    }
}

/// Values beyond the bits of a type are refused, whatever the width.
#[test]
fn values_outside_their_type_are_refused_at_every_width() {
    for n in [2u32, 3, 8, 13, 64, 128, 255] {
        let mut circuit = Circuit::new(params(), Aim::Work).unwrap();
        let x = circuit.input(Type::Uint(n)).unwrap();
        let above = clear(Type::Uint(n + 1), &raised(&constant(n as usize + 1, 1), n as usize));
        let top = clear(Type::Uint(n), &raised(&constant(n as usize, 1), n as usize - 1));
        let word = |ty, value| becalm::apps::integer::Word::clear(ty, value);
        assert!(matches!(word(Type::Uint(n), above), Err(Error::BadInput(_))), "{n}");
        assert!(matches!(word(Type::Int(n), top), Err(Error::BadInput(_))), "{n}");
        let clear = word(Type::Uint(n), top).unwrap();
        assert!(circuit.and(&x, &clear).is_ok());
    }
}

/// A small generator: the cases are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    /// Operands that circuits fold: small numbers and their complements, powers of two, runs, patterns of digits, and any.
    fn operand(&mut self, ty: Type) -> Bits {
        let n = ty.bits() as usize;
        let (kind, at, few) = (self.below(8), self.below(n), self.below(4));
        let (period, word) = (1 + self.below(8), self.below(256));
        match kind {
            0 => constant(n, few as u64),
            1 => not(&constant(n, few as u64)),
            2 => raised(&constant(n, 1), at),
            3 => not(&raised(&constant(n, 1), at)),
            4 => (0..n).map(|i| i < at).collect(),
            5 => (0..n).map(|i| word >> (i % period) & 1 == 1).collect(),
            6 => (0..n).map(|i| i < at && self.below(2) == 1).collect(),
            _ => (0..n).map(|_| self.below(2) == 1).collect(),
        }
    }
}

/// With a clear operand equal steps meet, and what is added may be the same register twice: nothing may be refused, whatever
/// the arguments have in common, what is told of the cost is what runs, and results are right.
#[test]
fn no_clear_operand_is_too_noisy() {
    let full = full();
    let (params, mut random) = (params(), Random(7));
    let noise = becalm::tfhe::noise::bootstrap_output(&params);
    let two: Vec<&Operation> = OPERATIONS.iter().filter(|op| op.arity > 1).collect();
    for case in 0..if full { 20_000 } else { 1500 } {
        let op = two[case % two.len()];
        let long = ["mul", "overflowing_mul", "div", "rem", "div_rem"].contains(&op.name);
        let most = match long {
            true if case % 50 == 0 && op.name != "overflowing_mul" => 256,
            true => 40,
            false => 256,
        };
        let bits = 2 + random.below(most - 1) as u32;
        let ty = if random.below(2) == 0 { Type::Uint(bits) } else { Type::Int(bits) };
        let aim = if random.below(2) == 0 { Aim::Work } else { Aim::Depth };
        // A list that can be in front: every operand may be the clear one.
        let (types, at) = (types_of(op, ty), random.below(op.arity));
        let x: Vec<Bits> = types.iter().map(|t| random.operand(*t)).collect();
        let told =
            || format!("{} {ty} {aim:?}, clear at {at}: {:?}", op.name, clear(types[at], &x[at]));
        let mut circuit = Circuit::new(params.clone(), aim).unwrap();
        let word = |(i, t): (usize, &Type)| match i == at {
            true => Word::clear(*t, clear(*t, &x[i])),
            false => circuit.input(*t),
        };
        let words = types.iter().enumerate().map(word).collect::<Result<Vec<_>, _>>().unwrap();
        let outputs = op.record(&mut circuit, &words).unwrap_or_else(|e| panic!("{}: {e}", told()));
        let inputs: Vec<&Word> = (0..op.arity).filter(|i| *i != at).map(|i| &words[i]).collect();
        let recorded = circuit.finish(&inputs, &outputs.iter().collect::<Vec<_>>()).unwrap();
        let program = recorded.program();
        let given = program.inputs().len();
        let found = program.follow_related(&vec![noise; given], &vec![true; given]);
        found.unwrap_or_else(|e| panic!("{}: {e}", told()));
        let given: Vec<Clear> =
            (0..op.arity).filter(|i| *i != at).map(|i| clear(types[i], &x[i])).collect();
        let got = recorded.run_unencrypted(&given).unwrap();
        let got: Vec<Bits> =
            recorded.outputs().iter().zip(got).map(|(t, r)| bits_of(*t, r)).collect();
        assert_eq!(got, model(op.name, ty, &x), "{} {given:?}", told());
    }
}

/// Amounts of any width move values of any width, those of the value's own type among them.
#[test]
fn amounts_may_be_as_wide_as_values() {
    let (params, mut random) = (params(), Random(11));
    let noise = becalm::tfhe::noise::bootstrap_output(&params);
    let moves = OPERATIONS
        .iter()
        .filter(|op| ["shl", "shr"].contains(&op.name) || op.name.starts_with("rotate"));
    let moves: Vec<&Operation> = moves.collect();
    let widths = [2u32, 3, 5, 8, 12, 13, 24, 25, 32, 33, 64, 100, 256];
    for case in 0..260 {
        let (op, n) = (moves[case % moves.len()], widths[random.below(widths.len())]);
        let wide = if case < 52 { widths[case / 4] } else { n };
        let ty = if random.below(2) == 0 { Type::Uint(n) } else { Type::Int(n) };
        let aim = if random.below(2) == 0 { Aim::Work } else { Aim::Depth };
        let types = [ty, Type::Uint(wide)];
        let recorded = op.circuit(params.clone(), aim, &types);
        let recorded = recorded.unwrap_or_else(|e| panic!("{} {types:?} {aim:?}: {e}", op.name));
        let program = recorded.program();
        let given = program.inputs().len();
        program.follow_related(&vec![noise; given], &vec![true; given]).unwrap();
        for _ in 0..3 {
            let [x, by] = types.map(|t| random.operand(t));
            // As an amount that a machine's number holds: a rest of turns, or more than any width.
            let rotates = op.name.starts_with("rotate");
            let fold = |v: usize, b: &bool| match 2 * v + usize::from(*b) {
                twice if rotates => twice % n as usize,
                twice => twice.min(1000),
            };
            let small = constant(10, by.iter().rev().fold(0, fold) as u64);
            let got = recorded.run_unencrypted(&[clear(ty, &x), clear(types[1], &by)]).unwrap();
            let wanted = model(op.name, ty, &[x.clone(), small]);
            assert_eq!(
                bits_of(ty, got[0]),
                wanted[0],
                "{} {types:?} {aim:?} {x:?} {by:?}",
                op.name
            );
        }
    }
}
