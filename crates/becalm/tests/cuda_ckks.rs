//! CKKS on emulated GPUs, and on any other machine that refuses the ring of the reference, against the CPU, which agrees with the reference (`conformance_ckks.rs`): the least ring that the kernels have is
//! too large for the reference.
#![cfg(feature = "cuda")]

mod ckks_cases;
mod machines;

use becalm::backend::{Backend, CkksSetup, Cpu, Cuda, Evaluator};
use becalm::cipher::{KeyForm, Rlwe};
use becalm::ckks::Context;
use becalm::params::CkksParams;
use becalm::program::rlwe::CkksProgram;
use becalm_cuda::Device;
use becalm_emulator::Emulated;
use ckks_cases::planted::{Planted, plant_in};
use ckks_cases::whole::{public_integers_are_added, wholes};
use ckks_cases::{LARGER, SMALL, World, at_level, compare, every_name, programs, runs, sets};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

static SETS: LazyLock<Vec<&'static CkksParams>> = LazyLock::new(|| sets(LARGER));

/// The machines that refuse the ring of the reference, whatever they are.
fn others() -> Vec<(String, Box<dyn Backend>)> {
    let small = sets(SMALL)[0];
    let refuses = |b: &dyn Backend| b.ckks().is_some() && !runs(b, small);
    let all = machines::backends().into_iter();
    all.filter(|(_, backend)| refuses(backend.as_ref())).collect()
}

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
            // Several lanes of one program of each set.
            let lanes = if i == 0 { 2 } else { 1 };
            let cpu = Cpu::new(2).unwrap();
            let wanted = world.run(&cpu, &context, &program, &inputs[..lanes]);
            // All machines take the first program of each set, and in turn one of them each of the others.
            let all = others();
            assert!(!all.is_empty(), "GPUs refuse small rings");
            let turn = (at + i) % all.len();
            let meets = |k: usize| i == 0 || k == turn;
            for (_, (name, machine)) in all.into_iter().enumerate().filter(|(k, _)| meets(*k)) {
                let got = world.run(machine.as_ref(), &context, &program, &inputs[..lanes]);
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
    for (k, whole) in wholes(LARGER).into_iter().enumerate() {
        let all = others();
        let name = whole.params.name;
        for (machine, backend) in &all {
            assert!(runs(backend.as_ref(), whole.params), "{machine} leaves out {name}");
        }
        let (machine, backend) = &all[k % all.len()];
        assert_eq!(whole.check_on(backend.as_ref(), &whole.world()), Ok(()), "{name}, {machine}");
        names.extend(whole.names());
    }
    assert_eq!(names, every_name());
}

/// An error in the result of any instruction is seen, the least that there is; in that of a linear map, one of twice what is allowed.
#[test]
fn an_error_in_any_instruction_is_seen() {
    let params = SETS[0];
    let context = Arc::new(Context::new(params, true).unwrap());
    for (program, cases) in programs(&context) {
        let world = World::new(params, &program);
        let (inputs, program) = (world.inputs(&program), Arc::new(program));
        let wanted = world.run(&Cpu::new(2).unwrap(), &context, &program, &inputs[..1]);
        let gpu = cuda(vec![Emulated::new(0)]);
        let plants = cases.iter().zip(&wanted[0]);
        let at = plants.map(|(case, result)| plant_in(&world, &program, case, result)).collect();
        let planted = Planted { inner: &gpu, at };
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

#[test]
fn integers_that_everybody_knows_agree_with_the_cpu() {
    public_integers_are_added(LARGER, &[&Cpu::new(2).unwrap(), &cuda(vec![Emulated::new(0)])]);
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

/// Instructions of most kinds on few words.
fn small() -> Arc<CkksProgram> {
    let context = Context::new(SETS[0], true).unwrap();
    Arc::new(at_level(&context, 1).unwrap().0)
}

/// The words of the results, and how many launches they took: of all lanes by one call.
fn launched(
    (world, program, lanes): (&World, &Arc<CkksProgram>, &[Vec<Rlwe>]),
    devices: &[Arc<Emulated>],
) -> (Vec<[Vec<u8>; 2]>, u64) {
    let gpus = devices.iter().map(|device| device.clone() as Arc<dyn Device>).collect();
    let made = world.run(&Cuda::with_devices(gpus).unwrap(), &world.context, program, lanes);
    let launches = devices.iter().map(|device| device.work().0).sum();
    (made.iter().flatten().map(|x| world.words(x)).collect(), launches)
}

fn emulated(count: u64) -> Vec<Arc<Emulated>> {
    (0..count).map(|seed| Arc::new(Emulated::new(seed))).collect()
}

/// Lanes have the words that each has alone, and four take as many launches as one.
#[test]
fn lanes_go_together() {
    let bootstrap = wholes(LARGER).remove(0).program().clone();
    // Groups of four and of one, then of three and of two. Of the bootstrap's lanes two differ.
    for (program, differ, machines) in [(small(), 5, 1..=2), (bootstrap, 2, 1..=1)] {
        let world = World::new(SETS[0], &program);
        let inputs = world.inputs_of(&program, differ);
        let inputs: Vec<Vec<Rlwe>> = inputs.iter().cycle().take(5).cloned().collect();
        let run =
            |lanes: &[Vec<Rlwe>], devices| launched((&world, &program, lanes), &emulated(devices));
        let alone: Vec<_> = inputs[..differ].chunks(1).map(|lane| run(lane, 1)).collect();
        let words = alone.iter().cycle().take(5).flat_map(|(words, _)| words.clone());
        let words: Vec<_> = words.collect();
        for devices in machines {
            let (got, took) = run(&inputs, devices);
            assert!(got == words, "{devices} GPUs: other words");
            assert_eq!(took, 2 * alone[0].1, "{devices} GPUs");
        }
    }
}

/// Where there is no room for the work of four lanes, two go together, then one, with the same words.
#[test]
fn fewer_lanes_go_together_where_memory_is_short() {
    let program = small();
    let world = World::new(SETS[0], &program);
    let inputs = world.inputs_of(&program, 4);
    let used = |lanes: usize| {
        let device = Arc::new(Emulated::new(0));
        let gpu = Cuda::with_devices(vec![device.clone()]).unwrap();
        let server = Evaluator::new(&gpu, CkksSetup::new(&world.context, &world.keys)).unwrap();
        let lanes: Vec<Vec<&Rlwe>> =
            inputs[..lanes].iter().map(|lane| lane.iter().collect()).collect();
        let lanes: Vec<&[&Rlwe]> = lanes.iter().map(Vec::as_slice).collect();
        server.run_lanes(&program, &lanes, becalm::UNWATCHED).unwrap();
        device.info().memory - device.free_memory().unwrap()
    };
    let [one, four] = [used(1), used(4)];
    let all = (&world, &program, &inputs[..]);
    let (words, launches) = launched(all, &emulated(1));
    assert!(four > one);
    for (memory, times) in [(four, 1), (four - 256, 2), (one, 4)] {
        let device = Arc::new(Emulated::new(1).with(|info| info.memory = memory));
        let (got, took) = launched(all, &[device]);
        assert!(got == words, "{memory} bytes: other words");
        assert_eq!(took, times * launches, "{memory} bytes of {one} and {four}");
    }
}
