//! Every machine that runs CKKS against the reference: every instruction, at levels of every tier, at every level of vector
//! instructions, on one lane and on several. Words must be equal, but for linear maps: they take their key switches in another order,
//! and round elsewhere.

mod ckks_cases;
mod full;
mod machines;

use becalm::UNWATCHED;
use becalm::backend::{Backend, Ckks, CkksSetup, Cpu, Evaluator, Reference};
use becalm::cipher::{KeyForm, Rlwe};
use becalm::ckks::Context;
use becalm::math::simd::Level;
use becalm::params::CkksParams;
use becalm::program::rlwe::CkksProgram;
use ckks_cases::planted::{Planted, plant_in};
use ckks_cases::whole::{public_integers_are_added, wholes};
use ckks_cases::{
    Case, LANES, LARGER, SMALL, World, at_level, compare, every_name, few_steps, many_diagonals,
    programs, runs, sensible,
};
use full::full;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock, Mutex};

const LOG2_DEGREE: u32 = SMALL;
const SLOTS: usize = 1 << (LOG2_DEGREE - 1);

/// Sets of few levels in that ring.
static SETS: LazyLock<Vec<&'static CkksParams>> = LazyLock::new(|| ckks_cases::sets(LOG2_DEGREE));

/// The set made ready for every level of vector instructions.
fn contexts(params: &'static CkksParams) -> Vec<(&'static str, Arc<Context>)> {
    let context = |level| Arc::new(Context::with_instructions(params, true, level).unwrap());
    Level::available().iter().map(|level| (level.name(), context(*level))).collect()
}

/// A machine that refuses this small ring is compared with the CPU in a larger one, by `cuda_ckks.rs`. No machine is left out.
#[test]
fn every_machine_with_ckks_is_compared() {
    let larger = &ckks_cases::sets(LARGER);
    for (name, backend) in machines::backends() {
        let runs = |sets: &[&'static CkksParams]| sets.iter().all(|p| runs(backend.as_ref(), p));
        assert!(backend.ckks().is_none() || runs(&SETS) || runs(larger), "{name} is not compared");
    }
}

/// Every machine on a program, at every level of vector instructions. Returns the names of its instructions.
fn agrees(
    params: &'static CkksParams,
    contexts: &[(&str, Arc<Context>)],
    (program, cases): (CkksProgram, Vec<Case>),
) -> Vec<String> {
    let machines = machines::backends().into_iter();
    let machines: Vec<_> = machines.filter(|(_, b)| runs(b.as_ref(), SETS[0])).collect();
    let world = World::new(params, &program);
    let (inputs, program) = (world.inputs(&program), Arc::new(program));
    for (i, (level, context)) in contexts.iter().enumerate() {
        // How values become coefficients is shared, and rounds by the vector instructions. Several lanes on one level suffice.
        let several = if full() { LANES } else { 2 };
        let all = if i == 0 { several } else { 1 };
        let wanted = world.run(&Reference, context, &program, &inputs[..all]);
        sensible(&world, &cases, &wanted[0]);
        for (machine, backend) in &machines {
            for lanes in BTreeSet::from([1, all]) {
                let got = world.run(backend.as_ref(), context, &program, &inputs[..lanes]);
                for (got, wanted) in got.iter().zip(&wanted) {
                    let found = compare(&world, &program, &cases, [got, wanted]);
                    let what = format!("{} on {machine}, {level}, {lanes}", params.name);
                    assert_eq!(found, Ok(()), "{what}");
                }
            }
        }
    }
    cases.into_iter().map(|c| c.name).collect()
}

#[test]
fn every_instruction_agrees_with_the_reference() {
    let mut names = BTreeSet::new();
    // Side by side, as the reference takes one core.
    std::thread::scope(|scope| {
        let begin = |params: &&'static CkksParams| {
            let (params, contexts) = (*params, Arc::new(contexts(params)));
            let context = &contexts[0].1;
            let many = (params.name == SETS[2].name).then(|| many_diagonals(context, 2).unwrap());
            let all = programs(context).into_iter().chain(many);
            let all = all.map(|program| (contexts.clone(), program));
            let begun = all.map(|(c, program)| scope.spawn(move || agrees(params, &c, program)));
            begun.collect::<Vec<_>>()
        };
        let begun: Vec<_> = SETS.iter().flat_map(begin).collect();
        names.extend(begun.into_iter().flat_map(|work| work.join().expect("machines that agree")));
    });
    for whole in wholes(LOG2_DEGREE) {
        let world = whole.world();
        let reference = ("reference".to_string(), Box::new(Reference) as Box<dyn Backend>);
        let all = machines::backends().into_iter().chain([reference]);
        // A machine of this ring runs the sets of all families in it.
        for (machine, backend) in all.filter(|(_, b)| runs(b.as_ref(), SETS[0])) {
            let name = whole.params.name;
            assert!(runs(backend.as_ref(), whole.params), "{machine} leaves out {name}");
            assert_eq!(whole.check_on(backend.as_ref(), &world), Ok(()), "{machine}");
        }
        names.extend(whole.names());
    }
    assert_eq!(names, every_name(), "instructions and those that a program here ends in");
}

#[test]
fn integers_that_everybody_knows_agree_with_the_reference() {
    let machines = machines::backends().into_iter().map(|(_, machine)| machine);
    let machines: Vec<_> = machines.filter(|b| runs(b.as_ref(), SETS[0])).collect();
    let reference: &dyn Backend = &Reference;
    let all = std::iter::once(reference).chain(machines.iter().map(|b| b.as_ref()));
    public_integers_are_added(LOG2_DEGREE, &all.collect::<Vec<_>>());
}

/// Keys that are packed, or whose masks are drawn when they are used, and matrices that are encoded when their turn comes. The level
/// has several digits.
#[test]
fn keys_and_matrices_of_every_form_agree_with_the_reference() {
    let context = Arc::new(Context::new(SETS[0], true).unwrap());
    let (program, cases) = at_level(&context, SETS[0].levels).unwrap();
    let program = Arc::new(program);
    for form in [KeyForm::Packed, KeyForm::Seeded] {
        let world = World::of(SETS[0], &program, form);
        let inputs = world.inputs(&program);
        let wanted = world.run(&Reference, &world.context, &program, &inputs[..1]);
        // Both machines unpack keys by the same code, so equal words say nothing of it.
        sensible(&world, &cases, &wanted[0]);
        let lane: Vec<&Rlwe> = inputs[0].iter().collect();
        let cpu = Cpu::new(2).unwrap();
        let server = Evaluator::new(&cpu, CkksSetup::new(&context, &world.keys).within(0)).unwrap();
        let got = server.run(&program, &lane).unwrap();
        assert_eq!(compare(&world, &program, &cases, [&got, &wanted[0]]), Ok(()), "{form:?}");
    }
}

/// A ring of two blocks of 2048 values, in which products of keys and diagonals go block by block, and keys of every form for one secret: a full
/// run takes every instruction. The reference takes 4096² steps for a product, so the level has few words.
#[test]
fn two_blocks_agree_with_the_reference() {
    let params = ckks_cases::sets(12)[2];
    let context = Context::new(params, true).unwrap();
    let (program, cases) = match full() {
        true => at_level(&context, 1).unwrap(),
        false => few_steps(&context).unwrap(),
    };
    let program = Arc::new(program);
    let mut world = World::new(params, &program);
    let inputs = &world.inputs_of(&program, 1);
    let wanted = world.run(&Reference, &world.context, &program, inputs);
    sensible(&world, &cases, &wanted[0]);
    let path = std::env::temp_dir().join(format!("becalm-two-blocks-{}", std::process::id()));
    world.context.write_keys(&world.keys, std::fs::File::create(&path).unwrap()).unwrap();
    for form in [KeyForm::Ready, KeyForm::Packed, KeyForm::Seeded] {
        let keys = world.context.load_keys_with(&path, form, UNWATCHED).unwrap();
        world.keys = Arc::new(keys);
        for level in Level::available() {
            let context = Arc::new(Context::with_instructions(params, true, *level).unwrap());
            let cpu = Cpu::with_instructions(2, *level).unwrap();
            let got = world.run(&cpu, &context, &program, inputs);
            let found = compare(&world, &program, &cases, [&got[0], &wanted[0]]);
            assert_eq!(found, Ok(()), "{form:?}, {}", level.name());
        }
    }
    std::fs::remove_file(path).unwrap();
}

/// The least error that there is, one in one coefficient, is seen in the result of every instruction but linear maps; in theirs, one
/// of twice what the comparison allows.
#[test]
fn a_planted_error_is_seen_wherever_it_is() {
    let params = SETS[0];
    let context = Context::new(params, true).unwrap();
    let mut seen = BTreeSet::new();
    for (program, cases) in programs(&context) {
        let world = World::new(params, &program);
        let (inputs, program) = (world.inputs(&program), Arc::new(program));
        let wanted = world.run(&Cpu::new(1).unwrap(), &world.context, &program, &inputs[..1]);
        for (case, result) in cases.iter().zip(&wanted[0]) {
            let at = vec![plant_in(&world, &program, case, result)];
            let planted = Planted { inner: &Cpu::new(1).unwrap(), at };
            let got = world.run(&planted, &world.context, &program, &inputs[..1]);
            let found = compare(&world, &program, &cases, [&got[0], &wanted[0]]);
            let found = found.expect_err("an error that goes unseen");
            assert!(found.starts_with(&case.name), "{found}, planted in {}", case.name);
            seen.insert(case.name.clone());
        }
    }
    for whole in wholes(LOG2_DEGREE) {
        let planted = Planted { inner: &Cpu::new(1).unwrap(), at: whole.plants() };
        let found = whole.check_on(&planted, &whole.world());
        let found = found.expect_err("an error that goes unseen");
        assert!(found.starts_with(&whole.names()[0]), "{found}");
        seen.extend(whole.names());
    }
    assert_eq!(seen, every_name());
}

/// Waves that the program does not have are refused; those that it has run afterwards.
#[test]
fn waves_out_of_range_are_refused() {
    let context = Arc::new(Context::new(SETS[2], true).unwrap());
    let mut p = CkksProgram::new(&context);
    let x = p.input(2, SLOTS).unwrap();
    let y = p.multiply(x, x).unwrap();
    p.output(y).unwrap();
    let world = World::new(SETS[2], &p);
    let (lanes, p, walk) = (world.inputs(&p), Arc::new(p.clone()), Arc::new(p.walk()));
    let waves = walk.waves.len();
    let reference: Box<dyn Backend> = Box::new(Reference);
    let all = machines::backends().into_iter().chain([("reference".to_string(), reference)]);
    for (name, backend) in all.filter(|(_, b)| runs(b.as_ref(), SETS[0])) {
        let setup = CkksSetup::new(&context, &world.keys);
        let mut session = backend.ckks().unwrap().open(setup).unwrap();
        for count in [1, 2] {
            let words: Vec<Rlwe> = lanes[..count].iter().map(|lane| lane[0].clone()).collect();
            session.load(p.clone(), walk.clone(), count, UNWATCHED).unwrap();
            for asked in [0..waves + 1, waves + 1..waves + 2, waves..usize::MAX] {
                session.write(x, 0, &words).unwrap();
                let run = session.run(asked.clone(), UNWATCHED).and_then(|()| session.wait());
                assert_eq!(run.map_err(|e| e.kind()), Err("bad_input"), "{asked:?} on {name}");
            }
            session.write(x, 0, &words).unwrap();
            session.run(0..waves, UNWATCHED).unwrap();
            assert!(session.read(y, 0..count).is_ok(), "{name}");
        }
    }
}

/// A machine of TFHE alone says so before it is given keys.
#[test]
fn a_machine_without_ckks_refuses_its_keys() {
    let params = SETS[2];
    let context = Arc::new(Context::new(params, true).unwrap());
    let secret = context.secret_key().unwrap();
    let keys = Arc::new(context.keys(&secret, &Default::default()).unwrap());
    let mut refused = 0;
    for (name, backend) in machines::backends() {
        let opened = Evaluator::new(backend.as_ref(), CkksSetup::new(&context, &keys));
        match backend.runs::<Ckks>() {
            Ok(machine) => assert_eq!(opened.is_ok(), machine.accepts(params).is_ok(), "{name}"),
            Err(e) => {
                assert_eq!(
                    (e.kind(), opened.err().map(|e| e.kind())),
                    ("unsupported", Some("unsupported"))
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "all machines run CKKS: this test has nothing to see");
}

/// Progress is told after every wave, and a request to stop ends the run; the same server runs again.
#[test]
fn a_run_can_be_stopped_and_repeated() {
    let context = Arc::new(Context::new(SETS[2], true).unwrap());
    let mut p = CkksProgram::new(&context);
    let x = p.input(2, SLOTS).unwrap();
    let y = p.multiply(x, x).unwrap();
    let y = p.negate(y).unwrap();
    p.output(y).unwrap();
    let world = World::new(SETS[2], &p);
    let (inputs, p) = (world.inputs(&p), Arc::new(p));
    let server =
        Evaluator::new(&Cpu::new(1).unwrap(), CkksSetup::new(&context, &world.keys)).unwrap();
    let lane: Vec<&Rlwe> = inputs[0].iter().collect();
    let told = Mutex::new(vec![]);
    let stopped = server.run_lanes(&p, &[&lane], &|done, all| {
        told.lock().unwrap().push((done, all));
        ControlFlow::Break(())
    });
    assert_eq!(stopped.err().map(|e| e.kind()), Some("interrupted"));
    assert_eq!(told.into_inner().unwrap(), [(1, 2)]);
    let [first, second] = [0, 1].map(|_| server.run(&p, &lane).unwrap());
    assert_eq!(world.words(&first[0]), world.words(&second[0]));
    let other = World::new(SETS[2], &p);
    let foreign = other.inputs(&p);
    let e = server.run(&p, &[&foreign[0][0]]).err().map(|e| e.kind());
    assert_eq!(e, Some("wrong_key"));
    let e = server.run(&p, &[]).err().map(|e| e.kind());
    assert_eq!(e, Some("bad_input"));
}
