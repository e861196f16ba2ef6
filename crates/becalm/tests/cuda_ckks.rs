//! CKKS on emulated GPUs against the CPU, which agrees with the reference (`conformance_ckks.rs`): the least ring that the kernels have is
//! too large for the reference.
#![cfg(feature = "cuda")]

mod ckks_cases;

use becalm::backend::{Backend, CkksSetup, Cpu, Cuda, Evaluator};
use becalm::bootstrap::ckks::{Settings, regular, tables};
use becalm::cipher::{KeyForm, Rlwe};
use becalm::ckks::Context;
use becalm::params::CkksParams;
use becalm::program::rlwe::CkksProgram;
use becalm_emulator::Emulated;
use ckks_cases::planted::{Planted, plant_in};
use ckks_cases::{World, at_level, both, compare, every_name, message, programs, sets};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

static SETS: LazyLock<Vec<&'static CkksParams>> = LazyLock::new(|| sets(12));

fn cuda(devices: Vec<Emulated>) -> Cuda {
    Cuda::with_devices(devices.into_iter().map(|d| Arc::new(d) as _).collect()).unwrap()
}

#[test]
fn every_instruction_agrees_with_the_cpu() {
    let mut names = BTreeSet::new();
    for (at, params) in SETS.iter().enumerate() {
        let context = Arc::new(Context::new(params, true).unwrap());
        for (i, (program, cases)) in programs(&context).into_iter().enumerate() {
            let world = World::new(params, &program);
            let (inputs, program) = (world.inputs(&program), Arc::new(program));
            names.extend(cases.iter().map(|case| case.name.clone()));
            // Several lanes, and several GPUs, of one program of each set.
            let lanes = if i == 0 { 2 } else { 1 };
            let cpu = Cpu::new(2).unwrap();
            let wanted = world.run(&cpu, &context, &program, &inputs[..lanes]);
            let mut machines = vec![("one GPU", cuda(vec![Emulated::new(at as u64)]))];
            if i == 0 {
                machines.push(("two GPUs", cuda(vec![Emulated::new(2), Emulated::new(3)])));
            }
            for (name, gpu) in machines {
                let got = world.run(&gpu, &context, &program, &inputs[..lanes]);
                for (got, wanted) in got.iter().zip(&wanted) {
                    // All that differ, not the first alone.
                    let each = |k: usize| {
                        let [got, wanted] = [got, wanted].map(|x| &x[k..=k]);
                        compare(&world, &program, &cases[k..=k], [got, wanted]).err()
                    };
                    let found: Vec<String> = (0..cases.len()).filter_map(each).collect();
                    assert!(found.is_empty(), "{}, {i}, {name}: {found:?}", params.name);
                }
            }
        }
    }
    // These are in the programs of the tests below.
    names.extend(["refreshed", "look up"].map(String::from));
    assert_eq!(names, every_name());
}

/// An error in the result of any instruction is seen, the least that there is; in that of a linear map, one of a sixteenth.
#[test]
fn an_error_in_any_instruction_is_seen() {
    let params = SETS[0];
    let context = Arc::new(Context::new(params, true).unwrap());
    for (program, cases) in programs(&context) {
        let world = World::new(params, &program);
        let (inputs, program) = (world.inputs(&program), Arc::new(program));
        let wanted = world.run(&Cpu::new(2).unwrap(), &context, &program, &inputs[..1]);
        let gpu = cuda(vec![Emulated::new(0)]);
        let planted = Planted { inner: &gpu, at: cases.iter().map(plant_in).collect() };
        let got = world.run(&planted, &context, &program, &inputs[..1]);
        for k in 0..cases.len() {
            let each = [&got[0][k..=k], &wanted[0][k..=k]];
            let found = compare(&world, &program, &cases[k..=k], each);
            let found = found.expect_err("an error that goes unseen");
            assert!(found.starts_with(&cases[k].name), "{found}, planted in {}", cases[k].name);
        }
    }
}

/// Keys that are packed or drawn from seeds, and matrices that are encoded when they are brought.
#[test]
fn keys_and_matrices_of_every_form_agree_with_the_cpu() {
    let context = Arc::new(Context::new(SETS[0], true).unwrap());
    let (program, cases) = at_level(&context, SETS[0].levels).unwrap();
    let program = Arc::new(program);
    for form in [KeyForm::Packed, KeyForm::Seeded] {
        let world = World::of(SETS[0], &program, form);
        let inputs = world.inputs(&program);
        let wanted = world.run(&Cpu::new(2).unwrap(), &world.context, &program, &inputs[..1]);
        let lane: Vec<&Rlwe> = inputs[0].iter().collect();
        let gpu = cuda(vec![Emulated::new(0)]);
        let server = Evaluator::new(&gpu, CkksSetup::new(&context, &world.keys).within(0)).unwrap();
        // The second run records its waves, and the third replays them.
        for run in 0..3 {
            let got = server.run(&program, &lane).unwrap();
            let found = compare(&world, &program, &cases, [&got, &wanted[0]]);
            assert_eq!(found, Ok(()), "{form:?}, run {run}");
        }
    }
}

/// A bootstrap within a program keeps the values within its claim.
#[test]
fn a_bootstrap_keeps_the_values() {
    let params = CkksParams::named("ckks_toy_12").unwrap();
    let context = Arc::new(Context::new(params, true).unwrap());
    let bootstrap = regular(&context, &Settings::default()).unwrap();
    let mut program = CkksProgram::new(&context);
    let x = program.input(0, params.slots()).unwrap();
    let y = program.append(&bootstrap, &[x]).unwrap()[0];
    program.output(y).unwrap();
    assert!(program.ops().iter().any(|op| op.name() == "refreshed"));
    let world = World::new(params, &program);
    let (inputs, program) = (world.inputs(&program), Arc::new(program));
    let gpu = cuda(vec![Emulated::new(0)]);
    let y = world.run(&gpu, &context, &program, &inputs[..1]).remove(0);
    let got = context.decrypt(&y[0], &world.secret).unwrap();
    let worst = both(&got, &message(params.slots(), 0.3), |a, b| a - b);
    let worst = worst.iter().map(|x| x.abs()).fold(0.0, f64::max);
    let bound = y[0].account().worst;
    println!("worst slot 2^{:.1}, claimed 2^{:.1}", worst.log2(), bound.log2());
    assert!(worst < bound, "2^{:.1}, of 2^{:.1}", worst.log2(), bound.log2());
}

/// Integers are looked up exactly.
#[test]
fn tables_are_exact() {
    let params = CkksParams::named("ckks_toy_table_4").unwrap();
    let context = Arc::new(Context::new(params, true).unwrap());
    let all = [vec![1, 3, 0, 1], vec![2, 2, 1, 0]];
    let program = Arc::new(tables(&context, 2, &all, &Settings::default()).unwrap());
    assert!(program.ops().iter().any(|op| op.name() == "look up"));
    let world = World::new(params, &program);
    let values: Vec<u64> = (0..params.degree() as u64).map(|i| i * 7 % 11 % 4).collect();
    let x = context.encrypt_integers(&values, 2, &world.secret).unwrap();
    let gpu = cuda(vec![Emulated::new(0)]);
    let made = world.run(&gpu, &context, &program, &[vec![x]]).remove(0);
    for (y, table) in made.iter().zip(&all) {
        let wanted: Vec<u64> = values.iter().map(|v| table[*v as usize]).collect();
        assert_eq!(context.decrypt_integers(y, &world.secret).unwrap(), wanted);
    }
}

/// What does not fit is refused with its size, before anything is computed.
#[test]
fn keys_that_do_not_fit_are_refused() {
    let context = Arc::new(Context::new(SETS[0], true).unwrap());
    let (program, _) = at_level(&context, 1).unwrap();
    let world = World::new(SETS[0], &program);
    let inputs = world.inputs(&program);
    let lane: Vec<&Rlwe> = inputs[0].iter().collect();
    let gpu = cuda(vec![Emulated::new(0).with(|info| info.memory = 4 << 20)]);
    let server = Evaluator::new(&gpu, CkksSetup::new(&context, &world.keys)).unwrap();
    let e = server.run(&Arc::new(program), &lane).err().map(|e| e.kind());
    assert_eq!(e, Some("memory"));
    assert_eq!(gpu.info().name, "cuda");
}
