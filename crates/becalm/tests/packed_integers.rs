//! Whole integers on packed ones: every operation against numbers that are not encrypted, on all pairs of extremes and random ones.

use becalm::apps::integer::Type;
use becalm::apps::packed::{DIGIT_BITS, MOST_BITS, Operation, PACKED_BITS, digits_of, record};
use becalm::backend::{CkksEvaluator, Cpu};
use becalm::bootstrap::ckks::{KeyPlan, Wish};
use becalm::cipher::{CkksKeys, CkksSecretKey, Rlwe};
use becalm::ckks::Context;
use becalm::params::CkksParams;
use std::sync::{Arc, LazyLock};

struct World {
    plan: KeyPlan,
    context: Arc<Context>,
    secret: CkksSecretKey,
    server: CkksEvaluator,
}

/// A ring of 256 integers: programs and error bounds are those of a large one, but for the number of integers.
static WORLD: LazyLock<World> = LazyLock::new(|| {
    let toy = CkksParams::named("ckks_toy_table_5").unwrap().clone();
    let params: &'static CkksParams =
        Box::leak(Box::new(CkksParams { name: "small_table_5", log2_degree: 8, ..toy }));
    let plan = KeyPlan::new(params, &Wish::default()).unwrap();
    let context = Arc::new(Context::new(params, true).unwrap());
    let secret = context.secret_key().unwrap();
    let keys = Arc::new(context.keys(&secret, &plan.needs()).unwrap());
    let server = CkksEvaluator::new(&Cpu::new(0).unwrap(), &context, &keys).unwrap();
    World { plan, context, secret, server }
});

impl World {
    fn encrypt(&self, values: &[u64], of: Type) -> Vec<Rlwe> {
        let digit = |i: usize| -> Vec<u64> {
            values.iter().map(|v| v >> (DIGIT_BITS as usize * i) & 15).collect()
        };
        let encrypt =
            |i| self.context.encrypt_integers(&digit(i), PACKED_BITS, &self.secret).unwrap();
        (0..digits_of(of).unwrap()).map(encrypt).collect()
    }

    fn decrypt(&self, digits: &[Rlwe]) -> Vec<u64> {
        let all: Vec<Vec<u64>> = digits
            .iter()
            .map(|x| self.context.decrypt_integers(x, &self.secret).unwrap())
            .collect();
        assert!(all.iter().flatten().all(|digit| *digit < 16), "a digit is below 16");
        let value = |at: usize| all.iter().rev().fold(0, |v, digit| v << DIGIT_BITS | digit[at]);
        (0..all[0].len()).map(value).collect()
    }

    fn run(&self, operation: Operation, of: Type, inputs: &[&[Rlwe]]) -> Vec<Rlwe> {
        let program = Arc::new(record(&self.plan, operation, of).unwrap());
        let inputs: Vec<&Rlwe> = inputs.iter().copied().flatten().collect();
        self.server.run(&program, &inputs).unwrap()
    }
}

/// All pairs of extremes, then numbers without structure.
fn pairs(bits: u32, count: usize) -> (Vec<u64>, Vec<u64>) {
    let mask = u64::MAX >> (64 - bits);
    let ends = [0, 1, 15, 16, mask / 2, mask / 2 + 1, mask - 1, mask];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29) & mask
    };
    let both = ends.iter().flat_map(|a| ends.map(|b| (*a & mask, b & mask)));
    let mut all: Vec<(u64, u64)> = both.collect();
    all.resize_with(count, || {
        let a = random();
        (a, if a % 8 == 0 { a } else { random() })
    });
    all.into_iter().unzip()
}

/// Every operation on two integers of a width.
fn operations_are_right(bits: u32, all: &[Operation]) {
    let (world, of, mask) = (&*WORLD, Type::Uint(bits), u64::MAX >> (64 - bits));
    let (a, b) = pairs(bits, 256);
    let [x, y] = [&a, &b].map(|v| world.encrypt(v, of));
    for operation in all {
        let f = |a: u64, b: u64| match operation {
            Operation::Add => a.wrapping_add(b),
            Operation::Sub => a.wrapping_sub(b),
            Operation::Mul => a.wrapping_mul(b),
            Operation::Lt => u64::from(a < b),
            Operation::Le => u64::from(a <= b),
            Operation::Gt => u64::from(a > b),
            Operation::Ge => u64::from(a >= b),
            Operation::Eq => u64::from(a == b),
            Operation::Ne => u64::from(a != b),
            Operation::Min => a.min(b),
            Operation::Max => a.max(b),
            Operation::And => a & b,
            Operation::Or => a | b,
            Operation::Xor => a ^ b,
            other => unreachable!("{other:?} does not take two integers"),
        };
        let made = world.run(*operation, of, &[&x, &y]);
        assert_eq!(made.len(), digits_of(operation.result(of)).unwrap(), "{operation:?}");
        let wanted: Vec<u64> = a.iter().zip(&b).map(|(a, b)| f(*a, *b) & mask).collect();
        assert!(world.decrypt(&made) == wanted, "{operation:?} of {bits} bits");
    }
}

const ORDER: [Operation; 6] =
    [Operation::Lt, Operation::Le, Operation::Gt, Operation::Ge, Operation::Eq, Operation::Ne];

#[test]
fn operations_of_eight_bits_are_right() {
    use Operation::*;
    operations_are_right(8, &ORDER);
    operations_are_right(8, &[Add, Sub, Mul, Min, Max, And, Or, Xor]);
}

#[test]
fn operations_of_other_widths_are_right() {
    use Operation::*;
    operations_are_right(4, &[Add, Sub, Mul, Lt, Ge, Eq, Ne, Max]);
    operations_are_right(16, &[Mul, Xor]);
    operations_are_right(64, &[Add, Sub, Lt, Le, Eq]);
}

#[test]
fn operations_on_one_or_three_are_right() {
    let (world, of) = (&*WORLD, Type::Uint(12));
    let (a, b) = pairs(12, 256);
    let [x, y] = [&a, &b].map(|v| world.encrypt(v, of));
    let negative: Vec<u64> = a.iter().map(|a| a.wrapping_neg() & 0xfff).collect();
    assert!(world.decrypt(&world.run(Operation::Neg, of, &[&x])) == negative);
    for k in [0, 1, 3, 4, 6, 11] {
        let left: Vec<u64> = a.iter().map(|a| a << k & 0xfff).collect();
        let right: Vec<u64> = a.iter().map(|a| a >> k).collect();
        assert!(world.decrypt(&world.run(Operation::Shl(k), of, &[&x])) == left, "{k}");
        assert!(world.decrypt(&world.run(Operation::Shr(k), of, &[&x])) == right, "{k}");
    }
    let less = world.run(Operation::Lt, of, &[&x, &y]);
    let lesser: Vec<u64> = a.iter().zip(&b).map(|(a, b)| *a.min(b)).collect();
    assert!(world.decrypt(&world.run(Operation::Select, of, &[&less, &x, &y])) == lesser);
    let five = [&x[..], &y, &x, &y, &y];
    let sum: Vec<u64> = a.iter().zip(&b).map(|(a, b)| (2 * a + 3 * b) & 0xfff).collect();
    assert!(world.decrypt(&world.run(Operation::Sum(5), of, &five)) == sum);
}

#[test]
fn booleans_are_combined() {
    let world = &*WORLD;
    let (a, b) = (vec![0, 0, 1, 1], vec![0, 1, 0, 1]);
    let [x, y] = [&a, &b].map(|v| world.encrypt(v, Type::Bool));
    for (operation, wanted) in [
        (Operation::And, [0, 0, 0, 1]),
        (Operation::Or, [0, 1, 1, 1]),
        (Operation::Xor, [0, 1, 1, 0]),
        (Operation::Ne, [0, 1, 1, 0]),
        (Operation::Eq, [1, 0, 0, 1]),
    ] {
        assert_eq!(world.decrypt(&world.run(operation, Type::Bool, &[&x, &y])), wanted);
    }
    let chosen = world.run(Operation::Select, Type::Bool, &[&x, &y, &x]);
    assert_eq!(world.decrypt(&chosen), [0, 0, 0, 1]);
}

/// An addition looks each digit up once, in two tables; a comparison in one.
#[test]
fn programs_are_as_short_as_the_page_says() {
    let lookups = |operation, bits: u32| {
        let program = record(&WORLD.plan, operation, Type::Uint(bits)).unwrap();
        program.bootstraps()
    };
    for (operation, bits, wanted) in [
        (Operation::Add, 64, 16),
        (Operation::Sub, 64, 16),
        (Operation::Lt, 64, 16),
        (Operation::Eq, 64, 17),
        (Operation::Min, 64, 48),
        (Operation::And, 64, 64),
        (Operation::Shl(4), 64, 0),
        (Operation::Shl(1), 64, 16),
        (Operation::Mul, 16, 42),
    ] {
        assert_eq!(lookups(operation, bits), wanted, "{operation:?} of {bits} bits");
    }
}

/// At full size every step of every operation has an error that tables clean. A server without keys says so first, and that keys are missing
/// next.
#[test]
fn errors_stay_within_tables_at_full_size() {
    let plan = KeyPlan::new(CkksParams::named("ckks_table_5").unwrap(), &Wish::default()).unwrap();
    let context = Arc::new(Context::new(plan.chain().params(), false).unwrap());
    let key = context.secret_key().unwrap().id();
    let keys = Arc::new(CkksKeys::none("ckks_table_5", key));
    let server = CkksEvaluator::new(&Cpu::new(0).unwrap(), &context, &keys).unwrap();
    let digit = context.public_integers(&[1], PACKED_BITS, key).unwrap();
    use Operation::*;
    let all = [Add, Sub, Neg, Mul, Lt, Ge, Eq, Ne, Min, Max, And, Or, Xor, Select, Shl(1), Shr(3)];
    for operation in all {
        let bits = if operation == Mul { 16 } else { 64 };
        let program = record(&plan, operation, Type::Uint(bits)).unwrap();
        let inputs = vec![&digit; program.inputs().len()];
        let found = server.check(&program, &inputs).err().map(|e| e.kind());
        assert_eq!(found, Some("wrong_key"), "{operation:?}");
    }
}

#[test]
fn wrong_calls_are_refused() {
    let kind = |operation, of| record(&WORLD.plan, operation, of).err().map(|e| e.kind());
    assert_eq!(kind(Operation::Add, Type::Uint(10)), Some("bad_input"));
    assert_eq!(kind(Operation::Add, Type::Uint(MOST_BITS + 4)), Some("bad_input"));
    assert_eq!(kind(Operation::Add, Type::Int(8)), Some("unsupported"));
    assert_eq!(kind(Operation::Add, Type::Bool), Some("unsupported"));
    assert_eq!(kind(Operation::Shl(8), Type::Uint(8)), Some("bad_input"));
    assert_eq!(kind(Operation::Sum(0), Type::Uint(8)), Some("bad_input"));
    let named = |name, number| Operation::named(name, number).map_err(|e| e.kind());
    assert_eq!(named("add", None), Ok(Operation::Add));
    assert_eq!(named("shl", Some(3)), Ok(Operation::Shl(3)));
    assert_eq!(named("shl", None), Err("bad_input"));
    assert_eq!(named("add", Some(3)), Err("bad_input"));
    let toy = CkksParams::named("ckks_toy_table_4").unwrap();
    let plan = KeyPlan::new(toy, &Wish::default()).unwrap();
    let four = record(&plan, Operation::Add, Type::Uint(8)).err().map(|e| e.kind());
    assert_eq!(four, Some("wrong_params"));
}
