//! Integers on machines that take many bootstraps in the time of one: carries by parallel prefix, products in rounds, the choice between
//! forms, and waves that are arranged for the machine.

use becalm::apps::integer::{Clear, Forms, Integers, Operation, Recorded, Type};
use becalm::apps::{Aim, Arguments, Circuit};
use becalm::backend::{Backend, Cpu, Evaluator, Info, Runs, Session, Tfhe, TfheSetup};
use becalm::cipher::SecretKey;
use becalm::params::TfheParams;
use becalm::program::{Operation as _, Pace, Program, Reg, Wave, WaveKind};
use becalm::{Result, UNWATCHED, tfhe::noise};
use std::collections::HashSet;
use std::sync::Arc;

fn params(name: &str) -> Arc<TfheParams> {
    Arc::new(TfheParams::named(name).unwrap().clone())
}

/// Nanoseconds of a GPU that takes 30 at once, and batches of 256.
fn pace() -> Pace {
    let parts = [(1, 350), (30, 600), (31, 1040), (60, 1150), (61, 1600), (90, 1700)];
    Pace::new(parts.into_iter().chain([(121, 2600), (256, 3500)]).map(|(n, us)| (n, us * 1000)))
}

fn deep(name: &str, ty: Type) -> Recorded {
    let op = Operation::named(name).unwrap();
    let types = if op.arity == 3 { vec![Type::Bool, ty, ty] } else { vec![ty; op.arity] };
    op.circuit(params("tfhe_2_2"), Aim::Depth, &types).unwrap()
}

/// Bootstraps of each wave of them.
fn widths(waves: &[Wave]) -> Vec<usize> {
    waves.iter().filter(|w| w.kind == WaveKind::Bootstrap).map(|w| w.ops.len()).collect()
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 32) ^ state.rotate_left(17)
}

/// Values whose sums carry far: digits that pass a carry on, broken at some places.
fn long_carries(state: &mut u64) -> (u64, u64) {
    let (a, cut) = (random(state), random(state) & random(state) & random(state));
    let b = match random(state) % 4 {
        0 => !a,
        1 => (!a).wrapping_add(1),
        2 => !a ^ (1 << (random(state) % 64)),
        _ => !a ^ cut,
    };
    (a, b)
}

#[test]
fn sums_of_64_bits_are_those_of_rust() {
    let ty = Type::Uint(64);
    let all = ["add", "sub", "neg", "overflowing_add", "overflowing_sub", "mul"];
    let all = all.map(|name| (name, deep(name, ty)));
    let state = &mut 7;
    let mut pairs: Vec<(u64, u64)> = vec![(0, 0), (u64::MAX, 1), (u64::MAX, u64::MAX), (1, 0)];
    pairs.extend((0..64).map(|i| (u64::MAX << i, 1 << i)));
    pairs.extend((0..300).map(|i| match i % 3 {
        0 => (random(state), random(state)),
        _ => long_carries(state),
    }));
    for (a, b) in pairs {
        for (name, recorded) in &all {
            let (low, left) = match *name {
                "add" => (a.wrapping_add(b), None),
                "sub" => (a.wrapping_sub(b), None),
                "neg" => (a.wrapping_neg(), None),
                "mul" => (a.wrapping_mul(b), None),
                "overflowing_add" => (a.overflowing_add(b).0, Some(a.overflowing_add(b).1)),
                _ => (a.overflowing_sub(b).0, Some(a.overflowing_sub(b).1)),
            };
            let given = [Clear::from(a), Clear::from(b)];
            let found = recorded.run_unencrypted(&given[..recorded.inputs().len()]).unwrap();
            assert_eq!(found[0].low(), u128::from(low), "{name} {a:x} {b:x}");
            let flag = found.get(1).map(|f| f.low() == 1);
            assert_eq!(flag, left, "{name} {a:x} {b:x}");
        }
    }
}

/// At every number of digits the runs are cut elsewhere.
#[test]
fn sums_of_every_width_carry_from_every_place() {
    for bits in (8..=80).step_by(2).chain([127, 128, 129, 130, 254, 255, 256]) {
        let ty = Type::Uint(bits);
        let recorded = deep("overflowing_add", ty);
        let depth = recorded.program().depth();
        assert!(depth <= if bits <= 64 { 4 } else { 5 }, "{bits} bits: {depth}");
        let ones = |n: u32| -> [u8; 32] {
            std::array::from_fn(|i| (0..8).fold(0, |b, k| b | u8::from(8 * i as u32 + k < n) << k))
        };
        let bit = |at: u32| -> [u8; 32] {
            std::array::from_fn(|i| u8::from(i as u32 == at / 8) << (at % 8))
        };
        let clear = |bytes| Clear::from_bytes(bytes, false);
        for at in (0..bits).step_by(if bits > 80 { 7 } else { 1 }) {
            // All ones from `at` up to `end`, and one at `at`: a carry runs up to `end`.
            for end in [bits, bits - (bits - at) / 2] {
                let run: [u8; 32] = std::array::from_fn(|i| ones(end)[i] & !ones(at)[i]);
                let found = recorded.run_unencrypted(&[clear(run), clear(bit(at))]).unwrap();
                let left = end == bits;
                let wanted = if left { [0; 32] } else { bit(end) };
                assert_eq!(found[0].to_bytes(), wanted, "{bits} bits, {at} to {end}");
                assert_eq!(found[1].low() == 1, left, "{bits} bits, {at} to {end}");
            }
        }
    }
}

#[test]
fn waves_are_few_and_narrow_where_that_is_quicker() {
    let ty = Type::Uint(64);
    let arranged = |name: &str| {
        let recorded = deep(name, ty);
        let (waves, time) = recorded.program().waves_at(&pace(), 1);
        let early = widths(&recorded.program().waves()).iter().map(|n| pace().time(*n)).sum();
        assert!(time <= early, "{name}: {time} and {early} ns");
        let sum: u64 = widths(&waves).iter().map(|n| pace().time(*n)).sum();
        assert_eq!(sum, time, "{name}");
        sound(recorded.program(), &waves);
        println!("{name}: {:?}, {:.2} ms", widths(&waves), time as f64 / 1e6);
        widths(&waves)
    };
    assert_eq!(arranged("select"), [30, 30, 4]);
    let add = arranged("add");
    assert!(add.len() == 4 && add.iter().all(|n| *n <= 30), "{add:?}");
    assert!(arranged("mul").len() <= 24);
    for name in ["sub", "gt", "eq", "min", "shl", "div"] {
        arranged(name);
    }
    // A machine that takes each bootstrap by itself is not asked to wait.
    let recorded = deep("select", ty);
    let (waves, time) = recorded.program().waves_at(&Pace::default(), 3);
    assert_eq!((waves, time), (recorded.program().waves(), 3 * 64));
}

/// Every instruction is in one wave, after those whose results it reads; in a wave of bootstraps none waits for another.
fn sound(program: &Program, waves: &[Wave]) {
    let mut known: HashSet<_> = program.inputs().iter().copied().collect();
    let mut seen = HashSet::new();
    for wave in waves {
        let mut made: Vec<Reg> = vec![];
        for i in &wave.ops {
            let op = &program.ops()[*i];
            assert!(seen.insert(*i) && op.kind() == wave.kind);
            assert!(op.sources().iter().all(|r| known.contains(r)), "{op:?}");
            match wave.kind {
                WaveKind::Linear => known.extend(op.results()),
                _ => made.extend(op.results()),
            }
        }
        known.extend(made);
    }
    assert_eq!(seen.len(), program.ops().len());
}

#[test]
fn the_quickest_form_depends_on_machine_and_lanes() {
    let (add, ty) = (Operation::named("add").unwrap(), Type::Uint(64));
    let forms = Forms::new(params("tfhe_2_2"), move |circuit| add.on(circuit, &[ty, ty]));
    let depth = |pace: &Pace, lanes| {
        forms.quickest(pace, lanes, Arguments::Any, UNWATCHED).unwrap().program().depth()
    };
    assert_eq!((depth(&Pace::default(), 1), depth(&Pace::default(), 1000)), (32, 32));
    assert_eq!((depth(&pace(), 1), depth(&pace(), 5), depth(&pace(), 1000)), (4, 4, 32));
    // Two machines that share a wave take twice as many lanes.
    assert_eq!((depth(&pace(), 12), depth(&pace().divided(2), 12)), (32, 4));
    assert_eq!(forms.of(Aim::Depth, Arguments::Any, UNWATCHED).unwrap().program().depth(), 4);
    assert_eq!(forms.of(Aim::Work, Arguments::Any, UNWATCHED).unwrap().program().depth(), 32);
    let refusal = |_: Circuit| Err(becalm::Error::unsupported("test", "it", "nothing", "none"));
    let fails = Forms::new(params("tfhe_2_2"), refusal);
    let quickest = fails.quickest(&pace(), 1, Arguments::Any, UNWATCHED);
    for failed in [quickest, fails.of(Aim::Depth, Arguments::Any, UNWATCHED)] {
        assert_eq!(failed.err().map(|e| e.kind()), Some("unsupported"));
    }
}

#[test]
fn a_pace_grows_and_repeats() {
    let pace = pace();
    assert!((0..2000).all(|n| pace.time(n) <= pace.time(n + 1)));
    assert_eq!((pace.time(0), pace.time(1), pace.time(30)), (0, 350_000, 600_000));
    assert_eq!(pace.time(512 + 30), 2 * pace.time(256) + pace.time(30));
    assert_eq!(Pace::new([]), Pace::default());
    assert_eq!((Pace::default().time(17), pace.divided(4).time(120)), (17, pace.time(30)));
}

/// A CPU that says it has the pace of a GPU.
struct Wide(Cpu);

impl Backend for Wide {
    fn info(&self) -> Info {
        Info { name: "wide", pace: pace(), ..self.0.info() }
    }

    fn tfhe(&self) -> Option<&dyn Runs<Tfhe>> {
        Some(self)
    }
}

impl Runs<Tfhe> for Wide {
    fn open(&self, setup: TfheSetup) -> Result<Box<dyn Session>> {
        self.0.open(setup)
    }
}

/// Runs operations in the form that is quickest for one value on a machine.
fn run_on(machine: &dyn Backend, secret: &SecretKey, ty: Type, names: &[&str]) {
    let server = Evaluator::new(machine, &secret.evaluation_key().unwrap()).unwrap();
    let pace = server.info().pace;
    assert!(!pace.is_work());
    let bound = noise::bootstrap_output(secret.params()) * 1.001;
    let most = u64::MAX >> (64 - ty.bits());
    let (x, y) = (0x00ff_ffff_ffff_0001_u64 & most, 0xff00_0000_0000_ffff_u64 & most);
    for name in names {
        let op = Operation::named(name).unwrap();
        let types = if op.arity == 3 { vec![Type::Bool, ty, ty] } else { vec![ty, ty] };
        let (set, kinds) = (secret.params().clone(), types.clone());
        let forms = Forms::new(set, move |circuit| op.on(circuit, &kinds));
        let recorded = forms.quickest(&pace, 1, Arguments::Any, UNWATCHED).unwrap();
        let values = [1, x, y].into_iter().skip(3 - types.len());
        let given: Vec<Integers> = types
            .iter()
            .zip(values)
            .map(|(t, v)| Integers::encrypt(secret, *t, &[Clear::from(v)]).unwrap())
            .collect();
        let wanted = match *name {
            "add" => x.wrapping_add(y),
            "mul" => x.wrapping_mul(y),
            _ => x,
        };
        let arguments = recorded.arguments(&given.iter().collect::<Vec<_>>()).unwrap();
        // The second run takes the walk of the first.
        for _ in 0..2 {
            let results = server.run(recorded.program(), &arguments).unwrap();
            assert!(results.iter().all(|r| r.noise_variance() <= bound), "{name}");
            let found = recorded.results(results).unwrap()[0].decrypt(secret).unwrap();
            assert_eq!(found[0].low(), u128::from(wanted & most), "{name}");
        }
    }
}

fn toy() -> SecretKey {
    SecretKey::generate(TfheParams::named("toy_2_2").unwrap(), true).unwrap()
}

#[test]
fn arranged_programs_decrypt_right() {
    let wide = Wide(Cpu::new(0).unwrap());
    assert_eq!(wide.info().pace, pace());
    run_on(&wide, &toy(), Type::Uint(64), &["add", "select", "mul"]);
}

/// A GPU says its pace itself.
#[cfg(feature = "cuda")]
#[test]
fn a_gpu_takes_the_quickest_form() {
    let gpu = Arc::new(becalm_emulator::Emulated::new(5));
    let cuda = becalm::backend::Cuda::with_devices(vec![gpu]).unwrap();
    run_on(&cuda, &toy(), Type::Uint(32), &["add", "select"]);
}
