//! Numbers in slots as packed integers, and back: each in its place, with no larger errors than are claimed, and refused where they might be wrong.

use becalm::backend::{Ckks, CkksSetup, Cpu, Evaluator};
use becalm::bootstrap::ckks::{KeyPlan, Settings, Values, Wish, pack, tables, unpack};
use becalm::cipher::file::Trust;
use becalm::cipher::{CkksSecretKey, Rlwe};
use becalm::ckks::Context;
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::rlwe::{CkksProgram, Operator};
use becalm::{Error, Result};
use std::sync::{Arc, LazyLock};

/// The level that packing takes.
const LEVEL: usize = 3;

struct World {
    context: Arc<Context>,
    secret: CkksSecretKey,
    server: Evaluator<Ckks>,
}

static TOY: LazyLock<World> = LazyLock::new(|| World::new("ckks_toy_table_4"));

impl World {
    /// With the keys of tables alone: they serve the ways from and to slots.
    fn new(name: &str) -> World {
        let context = Arc::new(Context::new(CkksParams::named(name).unwrap(), true).unwrap());
        let secret = context.secret_key().unwrap();
        let plan = KeyPlan::new(context.params(), &Wish::default()).unwrap();
        let keys = Arc::new(context.keys(&secret, &plan.needs()).unwrap());
        let server =
            Evaluator::new(&Cpu::new(0).unwrap(), CkksSetup::new(&context, &keys)).unwrap();
        World { context, secret, server }
    }

    fn slots(&self) -> usize {
        self.context.params().slots()
    }

    fn encrypt(&self, values: &[Complex], level: usize) -> Rlwe {
        self.context.encrypt_within(values, 32.0, level, &self.secret).unwrap()
    }

    fn reals(&self, values: &[f64]) -> Rlwe {
        self.encrypt(&values.iter().copied().map(Complex::from).collect::<Vec<_>>(), LEVEL)
    }

    fn pack(&self, values: Values, bits: u32, near: f64, args: &[&Rlwe]) -> Result<Rlwe> {
        let settings = Settings { values, ..Settings::default() };
        let program = Arc::new(pack(&self.context, bits, args[0].slots(), near, &settings)?);
        Ok(self.server.run(&program, args)?.remove(0))
    }

    /// The results of one table after the other.
    fn unpack_many(&self, x: &Rlwe, all: &[&[f64]], clean: bool, halves: usize) -> Vec<Rlwe> {
        let (bits, settings) = (all[0].len().ilog2(), Settings::default());
        let all: Vec<Vec<f64>> = all.iter().map(|entries| entries.to_vec()).collect();
        let program = unpack(&self.context, bits, &all, clean, halves, &settings).unwrap();
        self.server.run(&Arc::new(program), &[x]).unwrap()
    }

    /// The first half of the places, by cleaned bits where they can be.
    fn unpack(&self, x: &Rlwe, entries: &[f64]) -> Rlwe {
        self.unpack_many(x, &[entries], true, 1).remove(0)
    }

    fn integers(&self, x: &Rlwe) -> Vec<u64> {
        self.context.decrypt_integers(x, &self.secret).unwrap()
    }

    /// The integers are these, and by the claims of the account no error is larger.
    fn require_integers(&self, what: &str, x: &Rlwe, wanted: &[u64]) {
        assert!(self.integers(x) == wanted, "{what}: other integers");
        let ((rms, worst), claim) = (self.context.integer_errors(x, &self.secret), x.account());
        let all = [rms, claim.error, worst, claim.worst].map(f64::log2);
        println!(
            "{what}: 2^{:.2} of 2^{:.2}, at most 2^{:.2} of 2^{:.2}",
            all[0], all[1], all[2], all[3]
        );
        // A sample of 4096 errors is off its mean by a hundredth.
        assert!(rms <= 1.05 * claim.error && worst <= claim.worst, "{what}");
    }

    /// The same of numbers in slots.
    fn require_slots(&self, what: &str, x: &Rlwe, level: usize, wanted: &[f64]) {
        let (got, claim) = (self.context.decrypt(x, &self.secret).unwrap(), x.account());
        let errors = got.iter().zip(wanted).map(|(a, b)| (*a - Complex::from(*b)).abs());
        let errors: Vec<f64> = errors.collect();
        let rms = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
        let worst = errors.iter().copied().fold(0.0, f64::max);
        let all = [rms, claim.error, worst, claim.worst].map(f64::log2);
        println!(
            "{what}: 2^{:.2} of 2^{:.2}, at most 2^{:.2} of 2^{:.2}",
            all[0], all[1], all[2], all[3]
        );
        assert!(rms <= claim.error && worst <= claim.worst, "{what}");
        assert_eq!(x.level(), level, "{what}");
        let most = wanted.iter().map(|v| v.abs()).fold(0.0, f64::max);
        assert!(most <= claim.values, "{what}");
    }
}

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

/// Integers of all kinds: equal ones, the extremes, alternating, sorted, sparse and random.
fn kinds(count: usize, below: u64) -> Vec<(&'static str, Vec<u64>)> {
    let most = below - 1;
    let each = |f: &dyn Fn(usize) -> u64| (0..count).map(f).collect::<Vec<_>>();
    vec![
        ("all 0", vec![0; count]),
        ("all the largest", vec![most; count]),
        ("alternating", each(&|i| if i % 2 == 0 { 0 } else { most })),
        ("halves", each(&|i| if i < count / 2 { 0 } else { most })),
        ("sorted", each(&|i| (i * below as usize / count) as u64)),
        ("sparse", each(&|i| if i % 97 == 0 { most } else { 0 })),
        ("random", random(count, below, 11)),
    ]
}

fn real(values: &[u64]) -> Vec<f64> {
    values.iter().map(|v| *v as f64).collect()
}

/// Each kind of numbers, of each kind of values, arrives in its place with no larger error than is claimed.
fn every_number_is_packed(world: &World, bits: u32, kinds: &[(&str, Vec<u64>)]) {
    for (at, (what, values)) in kinds.iter().enumerate() {
        let other = &kinds[(at + 3) % kinds.len()].1;
        let all = [&values[..], other].concat();
        let pair = values.iter().zip(other).map(|(a, b)| Complex::new(*a as f64, *b as f64));
        let pair: Vec<Complex> = pair.collect();
        let [x, y] = [values, other].map(|v| world.reals(&real(v)));
        let z = world.encrypt(&pair, LEVEL);
        let made = world.pack(Values::Real, bits, 0.0, &[&x]).unwrap();
        world.require_integers(&format!("{what}, {bits} bits, real"), &made, values);
        let made = world.pack(Values::Merged, bits, 0.0, &[&x, &y]).unwrap();
        world.require_integers(&format!("{what}, {bits} bits, pair"), &made, &all);
        let made = world.pack(Values::Complex, bits, 0.0, &[&z]).unwrap();
        world.require_integers(&format!("{what}, {bits} bits, complex"), &made, &all);
    }
}

/// Each kind of integers is read into slots, by cleaned bits and without, for entries that are integers and for others.
fn every_integer_is_unpacked(world: &World, bits: u32, kinds: &[(&str, Vec<u64>)]) {
    let n = world.slots();
    let table = |f: fn(f64) -> f64| (0..1 << bits).map(|m| f(f64::from(m))).collect::<Vec<_>>();
    let (identity, shifted) = (table(|m| m), table(|m| 3.0 - 5.0 * m));
    let root = table(|m| (m + 0.5).sqrt());
    for (what, values) in kinds {
        let x = world.context.encrypt_integers(values, bits, &world.secret).unwrap();
        let cleaned = world.unpack_many(&x, &[&identity, &shifted, &root], true, 2);
        let raw = world.unpack_many(&x, &[&identity], false, 2);
        let all = [
            ("identity", &identity, 7 - bits),
            ("3 − 5m", &shifted, 7 - bits),
            ("√(m + ½)", &root, 9 - bits),
            ("identity without cleaning", &identity, 9 - bits),
        ];
        for ((name, entries, level), made) in all.iter().zip([cleaned, raw].concat().chunks(2)) {
            for (half, (y, values)) in made.iter().zip(values.chunks(n)).enumerate() {
                let wanted: Vec<f64> = values.iter().map(|m| entries[*m as usize]).collect();
                let what = format!("{name}, {what}, {bits} bits, half {half}");
                world.require_slots(&what, y, *level as usize, &wanted);
            }
        }
    }
}

#[test]
fn every_number_is_packed_in_its_place() {
    for bits in [1, 3, 4] {
        every_number_is_packed(&TOY, bits, &kinds(TOY.slots(), 1 << bits));
    }
}

#[test]
fn every_integer_is_unpacked_in_its_slot() {
    for bits in [1, 2, 4] {
        every_integer_is_unpacked(&TOY, bits, &kinds(2 * TOY.slots(), 1 << bits));
    }
}

/// From real numbers to integers, through a table, and to real numbers again, at the level of packing: so that it can be done once more.
fn round_trip(world: &World) {
    let n = world.slots();
    let values = random(n, 8, 3);
    let x = world.encrypt(&real(&values).into_iter().map(Complex::from).collect::<Vec<_>>(), 9);
    // (2x)²/4 + 1 − x², by two products.
    let arithmetic = |p: &mut CkksProgram, r: &[becalm::program::Reg]| {
        let twice = p.add(r[0], r[0])?;
        let quarter = p.multiply_constant(twice, 0.5)?;
        Ok(vec![p.add_constant(quarter, 1.0)?])
    };
    let y = world.server.call_many(&[&x], arithmetic).unwrap().remove(0);
    let low = world.server.apply(&Operator::LevelDown(LEVEL), &[&y]).unwrap().remove(0);
    let mut packed = world.pack(Values::Real, 4, 0.0, &[&low]).unwrap();
    let mut wanted: Vec<u64> = values.iter().map(|v| v + 1).collect();
    world.require_integers("packed behind a product", &packed, &wanted);
    let square: Vec<u64> = (0..16).map(|m| m * m % 16).collect();
    let table = Arc::new(
        tables(&world.context, 4, std::slice::from_ref(&square), &Settings::default()).unwrap(),
    );
    let identity: Vec<f64> = (0..16).map(f64::from).collect();
    for round in 0..2 {
        packed = world.server.run(&table, &[&packed]).unwrap().remove(0);
        wanted.iter_mut().for_each(|v| *v = square[*v as usize]);
        let slots = world.unpack(&packed, &identity);
        world.require_slots(&format!("round {round}"), &slots, LEVEL, &real(&wanted));
        packed = world.pack(Values::Real, 4, 0.0, &[&slots]).unwrap();
        world.require_integers(&format!("round {round}"), &packed, &wanted);
    }
    // Half of each, squared, at the levels that are left.
    let half: Vec<f64> = (0..16).map(|m| f64::from(m) / 2.0).collect();
    let slots = world.unpack(&packed, &half);
    let product = world.server.multiply(&slots, &slots).unwrap();
    let squares: Vec<f64> = wanted.iter().map(|v| (*v as f64 / 2.0).powi(2)).collect();
    world.require_slots("a product behind", &product, 4, &squares);
}

#[test]
fn slots_and_integers_follow_each_other() {
    round_trip(&TOY);
}

#[test]
#[ignore = "minutes and 8 GB: full size"]
fn full_size_slots_and_integers() {
    let world = World::new("ckks_table_4");
    round_trip(&world);
    let n = world.slots();
    every_number_is_packed(&world, 4, &kinds(n, 16));
    // The extremes and random ones.
    let few = |kinds: Vec<(&'static str, Vec<u64>)>| [kinds[1].clone(), kinds[6].clone()];
    every_integer_is_unpacked(&world, 4, &few(kinds(2 * n, 16)));
}

/// Vectors of few values repeat along the slots, and as many integers come out.
#[test]
fn few_values_are_few_integers() {
    let world = &*TOY;
    let x = world.reals(&[3.0, 1.0, 4.0, 15.0]);
    let packed = world.pack(Values::Real, 4, 0.0, &[&x]).unwrap();
    assert_eq!(world.integers(&packed), [3, 1, 4, 15]);
    let back = world.unpack(&packed, &(0..16).map(f64::from).collect::<Vec<_>>());
    let again: Vec<f64> = [3.0, 1.0, 4.0, 15.0].repeat(world.slots() / 4);
    world.require_slots("few", &back, LEVEL, &again);
    // Values are taken modulo 2^bits.
    let y = world.reals(&[-1.0, 16.0, 17.0, -16.0]);
    let packed = world.pack(Values::Real, 4, 0.0, &[&y]).unwrap();
    assert_eq!(world.integers(&packed), [15, 0, 1, 0]);
}

/// Numbers as far from integers as a table cleans come out exact, and further ones are refused before any work.
#[test]
fn a_table_rounds_what_is_near_integers() {
    let world = &*TOY;
    let n = world.slots();
    let at_least: Vec<u64> = (0..16).map(|m| u64::from(m >= 5)).collect();
    // The largest distances, to a thousandth.
    for (what, table, most) in [
        ("identity", (0..16).collect(), 0.039),
        ("at least 5", at_least, 0.052),
        ("random", random(16, 16, 5), 0.033),
    ] {
        let program = Arc::new(
            tables(&world.context, 4, std::slice::from_ref(&table), &Settings::default()).unwrap(),
        );
        let looked = |near: f64| -> Result<(Rlwe, Vec<u64>)> {
            let integers = random(n, 16, 7);
            let away = |i: usize| near * [1.0, -1.0, 0.5, 0.0][i % 4];
            let values: Vec<f64> =
                integers.iter().enumerate().map(|(i, m)| *m as f64 + away(i)).collect();
            let packed = world.pack(Values::Real, 4, near, &[&world.reals(&values)])?;
            let (_, worst) = world.context.integer_errors(&packed, &world.secret);
            assert!(
                worst <= packed.account().worst
                    && packed.account().worst < 1.01 * near / 16.0 + 1e-4
            );
            Ok((world.server.run(&program, &[&packed])?.remove(0), integers))
        };
        let refused = |near: f64| looked(near).err().map(|e| e.kind()) == Some("too_noisy");
        for near in [most, 0.001] {
            let (made, integers) = looked(near).unwrap();
            let wanted: Vec<u64> = integers.iter().map(|m| table[*m as usize]).collect();
            assert!(world.integers(&made) == wanted, "{what}, {near}");
            let (_, worst) = world.context.integer_errors(&made, &world.secret);
            println!(
                "{what}, {near}: 2^{:.2} of 2^{:.2}",
                worst.log2(),
                made.account().worst.log2()
            );
            assert!(worst <= made.account().worst, "{what}, {near}");
        }
        assert!(refused(most + 0.001), "{what}");
    }
}

/// As many tables in a row as the page says: errors of numbers within 0.008 of integers fall from table to table.
#[test]
fn tables_in_a_row_take_nearer_numbers() {
    let world = &*TOY;
    let identity = tables(&world.context, 4, &[(0..16).collect()], &Settings::default()).unwrap();
    let (identity, integers) = (Arc::new(identity), random(world.slots(), 16, 9));
    for (near, rounds) in [(0.008, 4), (0.018, 2)] {
        let values: Vec<f64> = integers.iter().map(|m| *m as f64 + near).collect();
        let mut x = world.pack(Values::Real, 4, near, &[&world.reals(&values)]).unwrap();
        for _ in 0..rounds {
            x = world.server.run(&identity, &[&x]).unwrap().remove(0);
            world.require_integers(&format!("within {near}"), &x, &integers);
        }
        let again = world.server.run(&identity, &[&x]);
        assert_eq!(again.is_ok(), near < 0.01);
    }
}

/// Where the promise about the distance is broken, a table has the entry of the nearest integer as far as the page says, and no further.
#[test]
fn a_table_between_integers_is_what_the_page_says() {
    let world = &*TOY;
    let n = world.slots();
    let values: Vec<f64> = (0..n).map(|i| (i as f64 + 0.5) * 16.0 / n as f64).collect();
    let packed = world.pack(Values::Real, 4, 0.0, &[&world.reals(&values)]).unwrap();
    let all = [(0..16).map(|m| u64::from(m >= 5)).collect(), (0..16).collect::<Vec<u64>>()];
    let program = Arc::new(tables(&world.context, 4, &all, &Settings::default()).unwrap());
    let made = world.server.run(&program, &[&packed]).unwrap();
    let wrong = |at: usize| -> Vec<f64> {
        let got = world.integers(&made[at]);
        let each = values.iter().zip(&got);
        let others = each.filter(|(v, m)| all[at][v.round() as usize % 16] != **m);
        others.map(|(v, _)| *v).collect()
    };
    // A step is right but beside its middle, and there wrong for some.
    let step = wrong(0);
    let beside = |v: &f64| (v - 4.5).abs().min((v - 15.5).abs()) < 0.03;
    assert!(!step.is_empty() && step.iter().all(beside), "{step:?}");
    // The identity is right near integers alone.
    let identity = wrong(1);
    println!("identity: {} of {n} wrong", identity.len());
    assert!(identity.len() > n / 10 && identity.iter().all(|v| (v - v.round()).abs() > 0.13));
}

/// A program from slots to integers and back comes from its file, and so does a ciphertext; it says its keys, cost and levels.
#[test]
fn programs_keep_slots_and_integers() {
    let world = &*TOY;
    let (context, trust) = (&world.context, Trust { allow_insecure: true, ..Trust::default() });
    let settings = Settings { values: Values::Real, ..Settings::default() };
    let mut p = CkksProgram::new(context);
    let x = p.input(5, 8).unwrap();
    let packed = p.append(&pack(context, 4, 8, 0.001, &settings).unwrap(), &[x]).unwrap()[0];
    let sum = p.add(packed, packed).unwrap();
    let table = tables(context, 4, &[(0..16).rev().collect()], &settings).unwrap();
    let looked = p.append(&table, &[sum]).unwrap()[0];
    let entries: Vec<f64> = (0..16).map(f64::from).collect();
    let slots = p.append(&unpack(context, 4, &[entries], true, 1, &settings).unwrap(), &[looked]);
    p.output(looked).unwrap();
    p.output(slots.unwrap()[0]).unwrap();
    let read = CkksProgram::from_bytes(&p.to_bytes().unwrap(), trust).unwrap();
    assert_eq!(read, p);
    assert_eq!((read.bootstraps(), read.real(&[true]).unwrap()[1]), (2, true));
    // The keys of tables suffice.
    let usual = KeyPlan::new(context.params(), &Wish::default()).unwrap().needs();
    assert_eq!(usual.clone().union(&read.needs()), usual);
    assert!(read.cost().diagonals > 0);
    let values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    let x = world.encrypt(&values.map(Complex::from), 5);
    let made = world.server.run(&Arc::new(read), &[&x]).unwrap();
    assert_eq!(world.integers(&made[0]), [15, 13, 11, 9, 7, 5, 3, 1]);
    world.require_slots(
        "a program",
        &made[1],
        LEVEL,
        &values.map(|v| 15.0 - 2.0 * v).repeat(world.slots() / 8),
    );
    let bytes = context.ciphertext_to_bytes(&made[0]).unwrap();
    let back = context.ciphertext_from_bytes(&bytes, trust).unwrap();
    assert_eq!(
        (back.integers(), world.integers(&back)),
        (made[0].integers(), world.integers(&made[0]))
    );
}

/// Wrong calls are errors before any work, and say why.
#[test]
fn wrong_calls_are_refused() {
    let world = &*TOY;
    let said =
        |e: Option<Error>| e.map(|e| (e.kind(), e.to_string())).unwrap_or(("none", String::new()));
    let (context, n) = (&world.context, world.slots());
    let refused = |e: Option<Error>, kind: &str, text: &str| {
        let (found, message) = said(e);
        assert!(found == kind && message.contains(text), "{found}: {message}");
    };
    let of = |values| Settings { values, ..Settings::default() };
    let packs = |bits, slots, near, values| pack(context, bits, slots, near, &of(values)).err();
    refused(packs(0, n, 0.0, Values::Real), "bad_input", "1 to 4 bits");
    refused(packs(5, n, 0.0, Values::Real), "bad_input", "1 to 4 bits");
    refused(packs(4, 3, 0.0, Values::Real), "bad_input", "power of two");
    refused(packs(4, n, f64::NAN, Values::Real), "bad_input", "from 0 to 0.5");
    refused(packs(4, n, -0.1, Values::Real), "bad_input", "from 0 to 0.5");
    refused(packs(4, n / 2, 0.0, Values::Merged), "bad_input", "both halves");
    let reads = |entries: &[f64], halves| {
        unpack(context, 4, &[entries.to_vec()], true, halves, &Settings::default()).err()
    };
    refused(reads(&[0.0; 15], 1), "bad_input", "16 entries");
    refused(reads(&[f64::INFINITY; 16], 1), "bad_input", "finite");
    refused(reads(&[1e30; 16], 1), "bad_input", "values below");
    refused(reads(&[0.0; 16], 3), "bad_input", "halves");
    let none = unpack(context, 4, &[], true, 1, &Settings::default()).err();
    refused(none, "bad_input", "one table or more");
    let other = Context::new(CkksParams::named("ckks_toy_12").unwrap(), true).unwrap();
    refused(pack(&other, 4, 8, 0.0, &of(Values::Real)).err(), "wrong_params", "ckks_table_4");
    let entries = [vec![0.0; 16]];
    refused(
        unpack(&other, 4, &entries, true, 1, &of(Values::Real)).err(),
        "wrong_params",
        "ckks_table_4",
    );
    // Too low a level, integers for slots and slots for integers.
    let x = world.encrypt(&vec![1.0.into(); n], LEVEL - 1);
    refused(world.pack(Values::Real, 4, 0.0, &[&x]).err(), "bad_input", "level 3 or above");
    let y = context.encrypt_integers(&[1, 2], 4, &world.secret).unwrap();
    let packing = Arc::new(pack(context, 4, n, 0.0, &of(Values::Real)).unwrap());
    refused(world.server.run(&packing, &[&y]).err(), "bad_input", "slots first");
    let identity = [(0..16).map(f64::from).collect()];
    let reading = Arc::new(unpack(context, 4, &identity, true, 1, &of(Values::Real)).unwrap());
    let slots = world.encrypt(&vec![1.0.into(); n], 0);
    refused(world.server.run(&reading, &[&slots]).err(), "bad_input", "integers of 4 bits");
    // Numbers that may become other integers, and integers that may not be cleaned.
    let x = world.encrypt(&vec![1.0.into(); n], LEVEL);
    refused(world.pack(Values::Real, 4, 0.5, &[&x]).err(), "too_noisy", "0.5 away");
    let noisy = x.clone().vouched(1.0, 0.6).unwrap();
    refused(world.server.run(&packing, &[&noisy]).err(), "too_noisy", "0.5 away");
    let wide = world.pack(Values::Real, 4, 0.3, &[&x]).unwrap();
    refused(world.server.run(&reading, &[&wide]).err(), "too_noisy", "look up sooner");
}
