//! Operators of CKKS as instructions, and recordings: which instructions they choose, at which levels, and where they bootstrap.

use becalm::apps::real::{Recording, sigmoid};
use becalm::bootstrap::ckks::{KeyPlan, Kind, Values, Wish};
use becalm::ckks::Chain;
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::Reg;
use becalm::program::rlwe::{CkksOp, CkksProgram, Operator, Plaintext};

fn program() -> CkksProgram {
    CkksProgram::new(&Chain::new(CkksParams::named("ckks_toy_12").unwrap()).unwrap())
}

fn names(program: &CkksProgram) -> Vec<&'static str> {
    program.ops().iter().map(CkksOp::name).collect()
}

/// The names of the instructions of one operator on arguments at these levels.
fn recorded(operator: &Operator, levels: &[usize]) -> Vec<&'static str> {
    let mut p = program();
    let args: Vec<Reg> = levels.iter().map(|level| p.input(*level, 8).unwrap()).collect();
    operator.record(&mut p, &args).unwrap();
    names(&p)
}

#[test]
fn a_real_number_for_all_slots_is_a_constant() {
    let (one, i) = (Complex::from(1.0), Complex::new(0.0, 1.0));
    let encoded = |level| Plaintext { values: vec![one], level: Some(level) };
    for (plain, add, multiply) in [
        (Plaintext::from(1.0), vec!["add constant"], vec!["multiply by a constant"]),
        (vec![i].into(), vec!["add a plaintext"], vec!["multiply by a plaintext"]),
        (vec![one; 8].into(), vec!["add a plaintext"], vec!["multiply by a plaintext"]),
        (
            encoded(2),
            vec!["level down", "add constant"],
            vec!["level down", "multiply by a constant"],
        ),
        (encoded(9), vec!["add constant"], vec!["multiply by a constant"]),
    ] {
        assert_eq!(recorded(&Operator::AddPlain(plain.clone()), &[4]), add, "{plain:?}");
        assert_eq!(recorded(&Operator::MultiplyPlain(plain), &[4]), multiply);
    }
}

#[test]
fn operands_meet_at_the_lower_level() {
    assert_eq!(recorded(&Operator::Multiply, &[5, 3]), ["level down", "multiply"]);
    assert_eq!(recorded(&Operator::Add, &[3, 3]), ["add"]);
    assert_eq!(recorded(&Operator::Dot, &[3, 4, 3, 3]), ["level down", "dot product"]);
}

#[test]
fn rotations_by_powers_share_their_steps() {
    let mut p = program();
    let x = p.input(1, 16).unwrap();
    let made = Operator::RotateByPowers(vec![7, 3, 0, 7, 4]).record(&mut p, &[x]).unwrap();
    assert_eq!((made[2], made[0] == made[3], made.len()), (x, true, 5));
    let by: Vec<i64> = p
        .ops()
        .iter()
        .filter_map(|op| match op {
            CkksOp::Rotate { by, .. } => Some(*by),
            _ => None,
        })
        .collect();
    assert_eq!(by, [4, 2, 1, 4]);
    assert_eq!(p.ops().len(), p.ops().iter().filter(|op| op.name() == "rotate").count());
}

#[test]
fn another_number_of_vectors_is_refused_and_records_nothing() {
    let mut p = program();
    let x = p.input(2, 8).unwrap();
    for (operator, args) in [
        (Operator::Negate, vec![]),
        (Operator::Negate, vec![x, x]),
        (Operator::Multiply, vec![x]),
        (Operator::Dot, vec![x; 3]),
        (Operator::Dot, vec![]),
    ] {
        let refused = operator.record(&mut p, &args).unwrap_err();
        assert_eq!(refused.kind(), "bad_input", "{operator:?}");
    }
    assert!(p.ops().is_empty());
}

/// A recording of the toy, and the plan of its bootstraps.
fn recording(auto: bool) -> (Recording, KeyPlan) {
    let plan = KeyPlan::new(CkksParams::named("ckks_toy_12").unwrap(), &Wish::default()).unwrap();
    let mut recording = Recording::new(plan.chain());
    if auto {
        recording.bootstrap_by(&plan, true).unwrap();
    }
    (recording, plan)
}

/// Each operator bootstraps what lacks its levels, once for each vector; without bootstraps the refusal records nothing.
#[test]
fn a_recording_bootstraps_where_levels_run_out() {
    for (operator, bootstraps) in [
        (Operator::Add, 0),
        (Operator::Multiply, 2),
        (Operator::Dot, 2),
        (Operator::AddPlain(1.0.into()), 0),
        (Operator::MultiplyPlain(2.0.into()), 1),
        (Operator::Power(3), 1),
        (Operator::Sum(4), 0),
    ] {
        let [mut auto, mut none] = [true, false].map(|auto| recording(auto).0);
        for recording in [&mut auto, &mut none] {
            let args = [0, 0].map(|level| recording.input(level, 2048, true).unwrap());
            let two = matches!(operator, Operator::Add | Operator::Multiply | Operator::Dot);
            let args = &args[..1 + usize::from(two)];
            let made =
                recording.apply(&operator, args).and_then(|_| recording.apply(&operator, args));
            let count = recording.program().bootstraps();
            match (made, bootstraps, count) {
                (Ok(_), wanted, count) => assert_eq!(count, wanted, "{operator:?}"),
                (Err(e), 1.., 0) => {
                    assert_eq!(e.kind(), "bad_input", "{operator:?}");
                    assert!(recording.program().ops().is_empty());
                }
                (Err(e), ..) => panic!("{operator:?}: {e}"),
            }
        }
    }
}

/// Approximations and pairs take vectors that are known to be real; a refusal leaves the program as it was.
#[test]
fn a_recording_knows_which_vectors_are_real() {
    let (mut recording, plan) = recording(true);
    let (x, z) =
        (recording.input(6, 2048, true).unwrap(), recording.input(6, 2048, false).unwrap());
    let i = recording.apply(&Operator::MultiplyI, &[x]).unwrap()[0];
    let before = recording.program().ops().len();
    assert_eq!([x, z, i].map(|reg| recording.is_real(reg)), [true, false, false]);
    let function = sigmoid([-1.0, 1.0], 12.0).unwrap();
    let refused = recording.evaluate(&function, &[z], false).unwrap_err();
    assert_eq!((refused.kind(), &*refused.detail().op), ("bad_input", "sigmoid"));
    let pair = plan.record(Kind::Regular, None, Values::Merged, None).unwrap();
    let refused = recording.append(&pair, &[x, z]).unwrap_err();
    assert_eq!((refused.kind(), &*refused.detail().got), ("bad_input", "others"));
    assert_eq!(recording.program().ops().len(), before);
    let made = recording.append(&pair, &[x, x]).unwrap();
    assert!(made.iter().all(|reg| recording.is_real(*reg)));
    let made = recording.evaluate(&function, &[x], false).unwrap();
    assert!(recording.is_real(made[0]));
}
