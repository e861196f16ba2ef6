//! Tables of packed integers: exact for every integer in every place, over many tables in a row, and refused where they might not be.

use becalm::backend::{Ckks, CkksSetup, Cpu, Evaluator, Prepared};
use becalm::bootstrap::ckks::{KeyPlan, Kind, Settings, Wish, tables};
use becalm::cipher::file::Trust;
use becalm::cipher::{CkksSecretKey, Rlwe};
use becalm::ckks::Context;
use becalm::math::statistics::normal_cdf;
use becalm::params::{CkksParams, NOISE_STD};
use becalm::program::rlwe::{CkksProgram, Operator};
use becalm::{Error, UNWATCHED};
use std::sync::{Arc, LazyLock};

struct World {
    context: Arc<Context>,
    secret: CkksSecretKey,
    server: Evaluator<Ckks>,
}

impl World {
    fn new(name: &str) -> World {
        let context = Arc::new(Context::new(CkksParams::named(name).unwrap(), true).unwrap());
        let secret = context.secret_key().unwrap();
        let plan = KeyPlan::new(context.params(), &Wish::default()).unwrap();
        assert_eq!(plan.wish().kinds, [Kind::Table]);
        let keys = Arc::new(context.keys(&secret, &plan.needs()).unwrap());
        let server =
            Evaluator::new(&Cpu::new(0).unwrap(), CkksSetup::new(&context, &keys)).unwrap();
        World { context, secret, server }
    }

    fn encrypt(&self, values: &[u64], bits: u32) -> Rlwe {
        self.context.encrypt_integers(values, bits, &self.secret).unwrap()
    }

    fn decrypt(&self, x: &Rlwe) -> Vec<u64> {
        self.context.decrypt_integers(x, &self.secret).unwrap()
    }

    fn program(&self, bits: u32, all: &[Vec<u64>]) -> Arc<CkksProgram> {
        Arc::new(tables(&self.context, bits, all, &Settings::default()).unwrap())
    }

    /// By the claims of an account, no error is larger.
    fn require_claim(&self, x: &Rlwe) {
        let ((rms, worst), claim) = (self.context.integer_errors(x, &self.secret), x.account());
        // A sample of 4096 errors is off its mean by a hundredth.
        assert!(rms <= 1.05 * claim.error, "2^{:.2} of 2^{:.2}", rms.log2(), claim.error.log2());
        assert!(worst <= claim.worst, "2^{:.2} of 2^{:.2}", worst.log2(), claim.worst.log2());
    }
}

static TOY: LazyLock<World> = LazyLock::new(|| World::new("ckks_toy_table_4"));

/// Numbers without structure.
fn random(count: usize, below: u64, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (0..count).map(|_| next()).collect()
}

/// Random tables, one of constants, and the identity, of every number of bits, on all integers in all kinds of places, five times in a row. The
/// errors stay within what is claimed.
fn every_table_is_exact(world: &World, rounds: u64) {
    let n = world.context.params().degree();
    for bits in 1..=4 {
        let p = 1u64 << bits;
        let all: Vec<Vec<u64>> = vec![
            random(p as usize, p, 7 + u64::from(bits)),
            vec![p - 1; p as usize],
            (0..p).collect(),
        ];
        let program = world.program(bits, &all);
        // Constant, alternating, sorted, sparse and random, each over a part of the ciphertext.
        let mut values = random(n, p, 3);
        values[..n / 8].fill(p - 1);
        (n / 8..n / 4).for_each(|i| values[i] = if i % 2 == 0 { 0 } else { p / 2 });
        (n / 4..n / 2).for_each(|i| values[i] = (i * p as usize / n) as u64);
        (n / 2..n * 5 / 8).for_each(|i| values[i] = if i % 97 == 0 { 1 } else { 0 });
        let mut x = world.encrypt(&values, bits);
        for round in 0..rounds {
            let made = world.server.run(&program, &[&x]).unwrap();
            for (y, table) in made.iter().zip(&all) {
                let wanted: Vec<u64> = values.iter().map(|v| table[*v as usize]).collect();
                assert!(world.decrypt(y) == wanted, "{bits} bits, round {round}");
                world.require_claim(y);
            }
            x = made[(round as usize) % 3 * 2 % 3].clone();
            values = world.decrypt(&x);
        }
    }
}

#[test]
fn every_table_is_exact_for_every_integer() {
    every_table_is_exact(&TOY, 5);
}

#[test]
#[ignore = "minutes and 8 GB: full size"]
fn full_size_tables_are_exact() {
    every_table_is_exact(&World::new("ckks_table_4"), 2);
}

/// Tables of as many bits share encoded matrices, and others do not: the last matrices go to q_0 over their number of integers.
#[test]
fn tables_share_matrices() {
    let (world, cpu) = (&*TOY, Cpu::new(0).unwrap());
    let program = |bits: u32| world.program(bits, &[(0..1 << bits).rev().collect()]);
    let prepare =
        |bytes| Prepared::new(&cpu, &world.context, &program(3), bytes, UNWATCHED).unwrap();
    let (whole, half) = (prepare(usize::MAX), prepare(prepare(usize::MAX).bytes() / 2));
    let x = world.encrypt(&[0, 5, 7], 3);
    let double = world.program(3, &[(0..8).map(|m| 2 * m % 8).collect()]);
    for first in [whole, half] {
        let second = first.again(&double).unwrap();
        assert!(second.bytes() == first.bytes() && second.bytes() > 0);
        assert_eq!(world.decrypt(&world.server.run(&first, &[&x]).unwrap()[0]), [7, 2, 0]);
        assert_eq!(world.decrypt(&world.server.run(&second, &[&x]).unwrap()[0]), [0, 2, 6]);
        assert!(first.again(&program(2)).is_none());
    }
}

/// Sums, differences, multiples and public integers are taken modulo 2^bits, before a table and behind it.
#[test]
fn sums_are_exact() {
    let world = &*TOY;
    let (a, b) = (random(100, 16, 1), random(100, 16, 2));
    let [x, y] = [&a, &b].map(|v| world.encrypt(v, 4));
    let key = x.key_id();
    let public = world.context.public_integers(&b, 4, key).unwrap();
    let square: Vec<u64> = (0..16).map(|m| m * m % 16).collect();
    let record = |p: &mut CkksProgram, r: &[becalm::program::Reg]| {
        let sum = p.add(r[0], r[1])?;
        let difference = p.subtract(sum, r[2])?;
        let negative = p.negate(r[0])?;
        let thrice = p.multiple(r[0], -3)?;
        Ok(vec![sum, difference, negative, thrice])
    };
    let made = world.server.call_many(&[&x, &y, &public], record).unwrap();
    let zip = |f: fn(u64, u64) -> u64| -> Vec<u64> {
        a.iter().zip(&b).map(|(a, b)| f(*a, *b) % 16).collect()
    };
    assert_eq!(world.decrypt(&made[0]), zip(|a, b| a + b));
    assert_eq!(world.decrypt(&made[1]), a);
    assert_eq!(world.decrypt(&made[2]), zip(|a, _| 16 - a));
    assert_eq!(world.decrypt(&made[3]), zip(|a, _| 13 * a));
    for (operator, wanted) in [
        (Operator::AddPlain(7.0.into()), zip(|a, _| a + 7)),
        (Operator::SubtractPlain(9.0.into()), zip(|a, _| a + 7)),
        (Operator::SubtractFromPlain(3.0.into()), zip(|a, _| 19 - a)),
    ] {
        let sum = world.server.apply(&operator, &[&x]).unwrap().remove(0);
        assert_eq!(world.decrypt(&sum), wanted, "{operator:?}");
        world.require_claim(&sum);
    }
    for refused in [0.5, 16.0, f64::NAN] {
        let sum = world.server.apply(&Operator::AddPlain(refused.into()), &[&x]);
        assert_eq!(sum.err().map(|e| e.kind()), Some("bad_input"), "{refused}");
    }
    let looked = world.server.run(&world.program(4, &[square]), &[&made[0]]).unwrap();
    assert_eq!(world.decrypt(&looked[0]), zip(|a, b| (a + b) % 16 * ((a + b) % 16)));
    let public_key = world.context.public_key(&world.secret).unwrap();
    let z = world.context.encrypt_integers_public(&a, 4, &public_key).unwrap();
    assert_eq!(world.decrypt(&z), a);
    world.require_claim(&z);
}

/// A program of a table, and a ciphertext of integers, come back from their files.
#[test]
fn files_keep_integers() {
    let world = &*TOY;
    let trust = Trust { allow_insecure: true, ..Trust::default() };
    let values = random(10, 8, 5);
    let x = world.encrypt(&values, 3);
    let bytes = world.context.ciphertext_to_bytes(&x).unwrap();
    let back = world.context.ciphertext_from_bytes(&bytes, trust).unwrap();
    assert_eq!((back.integers(), back.account().worst), (x.integers(), x.account().worst));
    let program = world.program(3, &[(0..8).rev().collect()]);
    let read = CkksProgram::from_bytes(&program.to_bytes().unwrap(), trust).unwrap();
    assert_eq!(read, *program);
    let made = world.server.run(&Arc::new(read), &[&back]).unwrap();
    assert_eq!(world.decrypt(&made[0]), values.iter().map(|v| 7 - v).collect::<Vec<_>>());
}

/// A multiple of an encryption of zeros has as large an error as one wants. Then as many integers come out wrong as the normal distribution
/// says, and neither the server nor the owner computes with such an error unless the owner vouches for it.
#[test]
fn failures_come_as_predicted_and_are_refused() {
    let world = &*TOY;
    let (n, bits) = (world.context.params().degree(), 4);
    let zeros = world.encrypt(&vec![0; n], bits);
    let identity = world.program(bits, &[(0..16).collect()]);
    let inflated = |log2: u32| {
        // A multiple of 16, so that it is one of zero whatever the integers.
        let record = |p: &mut CkksProgram, r: &[becalm::program::Reg]| {
            Ok(vec![p.multiple(r[0], 1 << log2)?])
        };
        Ok::<_, Error>(world.server.call_many(&[&zeros], record)?.remove(0))
    };
    assert!(inflated(20).is_ok());
    assert_eq!(inflated(33).err().map(|e| e.kind()), Some("too_noisy"));
    // Of 2^27 the owner decrypts, but no table cleans twice of it.
    let wide = inflated(27).unwrap();
    assert_eq!(world.decrypt(&wide), vec![0; n]);
    let refused = world.server.run(&identity, &[&wide]).err();
    assert_eq!(refused.map(|e| e.kind()), Some("too_noisy"));
    // The owner's word replaces the account. The noise is an integer e; 2^33·|e| is beyond q_0/32 from 5 on.
    let forged = |x: Rlwe| x.vouched(1.0, 2f64.powi(-30)).unwrap();
    let mut sum = forged(inflated(27).unwrap());
    for _ in 0..6 {
        let twice = world.server.add(&sum, &sum).unwrap();
        sum = forged(twice);
    }
    let predicted = 2.0 * normal_cdf(-4.5 / NOISE_STD);
    let wrong = |x: &Rlwe| world.decrypt(x).iter().filter(|v| **v != 0).count() as f64;
    let interval = 5.0 * (n as f64 * predicted * (1.0 - predicted)).sqrt();
    let found = wrong(&sum);
    println!("{found} of {n} wrong, {:.0} predicted", predicted * n as f64);
    assert!((found - predicted * n as f64).abs() < interval, "{found}");
    // Beside the place where all bits of the identity change, a table takes a quarter of the distance between two integers: from |e| = 2 on
    // the highest bit, which counts eight, is too far off to be cleaned.
    let looked = forged(world.server.run(&identity, &[&sum]).unwrap().remove(0));
    let predicted = 2.0 * normal_cdf(-1.5 / NOISE_STD);
    let interval = 5.0 * (n as f64 * predicted * (1.0 - predicted)).sqrt();
    let found = wrong(&looked);
    println!("{found} of {n} wrong behind a table, {:.0} predicted", predicted * n as f64);
    assert!((found - predicted * n as f64).abs() < interval, "{found}");
}

/// Wrong calls are errors before any work, and say why.
#[test]
fn wrong_calls_are_refused() {
    let world = &*TOY;
    let kind = |e: Option<Error>| e.map(|e| e.kind());
    let encrypt = |values: &[u64], bits| {
        kind(world.context.encrypt_integers(values, bits, &world.secret).err())
    };
    assert_eq!(encrypt(&[], 4), Some("bad_input"));
    assert_eq!(encrypt(&[16], 4), Some("bad_input"));
    assert_eq!(encrypt(&[1], 0), Some("bad_input"));
    assert_eq!(encrypt(&[1], 5), Some("bad_input"));
    assert_eq!(encrypt(&vec![0; 4097], 4), Some("bad_input"));
    let table = |bits, all: &[Vec<u64>]| {
        kind(tables(&world.context, bits, all, &Settings::default()).err())
    };
    assert_eq!(table(4, &[]), Some("bad_input"));
    assert_eq!(table(4, &[vec![0; 15]]), Some("bad_input"));
    assert_eq!(table(4, &[vec![16; 16]]), Some("bad_input"));
    assert_eq!(table(5, &[vec![0; 32]]), Some("bad_input"));
    let x = world.encrypt(&[1, 2], 4);
    let y = world.encrypt(&[1, 2], 3);
    assert_eq!(kind(world.server.add(&x, &y).err()), Some("bad_input"));
    assert_eq!(kind(world.server.multiply(&x, &x).err()), Some("bad_input"));
    assert_eq!(kind(world.server.rotate(&x, 1).err()), Some("bad_input"));
    let three = world.program(3, &[vec![0; 8]]);
    assert_eq!(kind(world.server.run(&three, &[&x]).err()), Some("bad_input"));
    let slots = world.context.encrypt(&[1.0.into(); 2], 0, &world.secret).unwrap();
    assert_eq!(kind(world.server.run(&three, &[&slots]).err()), Some("bad_input"));
    assert_eq!(
        kind(world.context.decrypt_integers(&slots, &world.secret).err()),
        Some("bad_input")
    );
    let other = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
    let secret = other.secret_key().unwrap();
    assert_eq!(kind(other.encrypt_integers(&[1], 4, &secret).err()), Some("wrong_params"));
    // Integers are no values in slots.
    assert_eq!(kind(world.context.decrypt(&x, &world.secret).err()), Some("bad_input"));
    let shared = world.context.decrypt_to_share(&x, &world.secret, 5.0, 10);
    assert_eq!(kind(shared.err()), Some("bad_input"));
    let plan = |kinds: Vec<Kind>, name| {
        let wish = Wish { kinds, ..Wish::default() };
        kind(KeyPlan::new(CkksParams::named(name).unwrap(), &wish).err())
    };
    assert_eq!(plan(vec![Kind::Table], "ckks_toy_12"), Some("wrong_params"));
    assert_eq!(plan(vec![Kind::Regular], "ckks_toy_table_4"), Some("wrong_params"));
}
