//! Operators of CKKS as instructions, and recordings: which instructions they choose, at which levels, and where they bootstrap.

use becalm::apps::real::{Recording, concatenate, sigmoid};
use becalm::bootstrap::ckks::{KeyPlan, Kind, Values, Wish};
use becalm::ckks::{Chain, Matrix};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::Reg;
use becalm::program::rlwe::{CkksOp, CkksProgram, Operator, Plaintext};
use std::sync::Arc;

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
        (
            Plaintext { values: vec![i; 8], level: Some(4) },
            vec!["add a plaintext"],
            vec!["multiply by a plaintext"],
        ),
    ] {
        assert_eq!(recorded(&Operator::AddPlain(plain.clone()), &[4]), add, "{plain:?}");
        assert_eq!(recorded(&Operator::MultiplyPlain(plain.clone()), &[4]), multiply);
        let summed = [multiply, vec!["sum"]].concat();
        assert_eq!(recorded(&Operator::InnerPlain(plain.clone()), &[4]), summed);
        let from = [vec!["negate"], add.clone()].concat();
        assert_eq!(recorded(&Operator::SubtractFromPlain(plain.clone()), &[4]), from);
        // A plaintext that is encoded already is added as it is.
        let less = match plain.level.is_some() && add.contains(&"add a plaintext") {
            true => [from, vec!["negate"]].concat(),
            false => add,
        };
        assert_eq!(recorded(&Operator::SubtractPlain(plain.clone()), &[4]), less, "{plain:?}");
    }
}

#[test]
fn operands_meet_at_the_lower_level() {
    assert_eq!(recorded(&Operator::Multiply, &[5, 3]), ["level down", "multiply"]);
    assert_eq!(recorded(&Operator::Add, &[3, 3]), ["add"]);
    assert_eq!(recorded(&Operator::Dot, &[3, 4, 3, 3]), ["level down", "dot product"]);
}

/// Products over all slots are one operator; whole multiples are sums, of packed integers by the factor that is nearest to 0.
#[test]
fn inner_products_and_multiples_are_single_operators() {
    assert_eq!(recorded(&Operator::Inner, &[5, 3]), ["level down", "multiply", "sum"]);
    assert_eq!(recorded(&Operator::Multiple(-6), &[2]), ["add", "add", "add", "negate"]);
    assert_eq!(recorded(&Operator::Multiple(0), &[2]), ["subtract"]);
    let chain = Chain::new(CkksParams::named("ckks_toy_table_4").unwrap()).unwrap();
    for (factor, nearest) in
        [(15, vec!["negate"]), (17, vec![]), (-16, vec!["subtract"]), (i64::MAX, vec!["negate"])]
    {
        let mut p = CkksProgram::new(&chain);
        let x = p.input_integers(4).unwrap();
        Operator::Multiple(factor).record(&mut p, &[x]).unwrap();
        assert_eq!(names(&p), nearest, "{factor}");
    }
}

/// Vectors that are joined take one level together, and places that are not there are refused.
#[test]
fn vectors_are_joined_by_one_function() {
    let joined = concatenate(8, &[3, 1, 2]).unwrap();
    let args = [1.0, 2.0, 3.0].map(|c| (0..8).map(|i| 10.0 * c + f64::from(i)).collect());
    assert_eq!(joined.clear(&args), [[10.0, 11.0, 12.0, 20.0, 30.0, 31.0, 0.0, 0.0]]);
    assert_eq!((joined.levels(), joined.arguments()), (1, 3));
    assert_eq!(joined.rotations(8), [4, 5]);
    for counts in [&[5, 4][..], &[], &[usize::MAX, 2], &[9]] {
        assert_eq!(concatenate(8, counts).unwrap_err().detail().op, "concatenate", "{counts:?}");
    }
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
        (Operator::Inner, 2),
        (Operator::InnerPlain(2.0.into()), 1),
        (Operator::SubtractPlain(1.0.into()), 0),
        (Operator::SubtractFromPlain(1.0.into()), 0),
        (Operator::Multiple(3), 0),
        (Operator::AddPlain(1.0.into()), 0),
        (Operator::MultiplyPlain(2.0.into()), 1),
        (Operator::Power(3), 1),
        (Operator::Sum(4), 0),
    ] {
        let [mut auto, mut none] = [true, false].map(|auto| recording(auto).0);
        for recording in [&mut auto, &mut none] {
            let args = [0, 0].map(|level| recording.input(level, 2048, true).unwrap());
            let two = matches!(
                operator,
                Operator::Add | Operator::Multiply | Operator::Dot | Operator::Inner
            );
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

/// An error names the call of the user, whichever instruction refuses.
#[test]
fn errors_name_the_call_of_the_user() {
    let nan = || Plaintext::from(f64::NAN);
    let matrix = Arc::new(Matrix::zero(8));
    for (operator, level, call) in [
        (Operator::AddPlain(nan()), 3, "add"),
        (Operator::SubtractPlain(nan()), 3, "subtract"),
        (Operator::MultiplyPlain(1.0.into()), 0, "multiply"),
        (Operator::InnerPlain(1.0.into()), 0, "dot"),
        (Operator::Linear { matrix, baby: 2, by: 0 }, 0, "matrix product"),
        (Operator::LevelDown(4), 3, "level_down"),
    ] {
        let mut p = program();
        let x = p.input(level, 8).unwrap();
        let refused = operator.record(&mut p, &[x]).unwrap_err();
        assert_eq!(refused.detail().op, call, "{refused}");
    }
}
