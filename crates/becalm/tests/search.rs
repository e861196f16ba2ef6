//! The parameter search: published sets come out when asked for under their constraints, what comes out holds, and goals that
//! no set reaches are refused.

use becalm::Error;
use becalm::UNWATCHED;
use becalm::params::{Noise, Rotation, TfheParams};
use becalm::security::Search;
use becalm::tfhe::noise::{self, NoiseReport};
use becalm::tfhe::search::{Goal, NoiseCurve, search};
use std::ops::ControlFlow;

/// The 2_2 sets of tfhe-rs, from its noise lines, its key switch modulo 2^64 and its bound on combinations.
#[test]
fn published_sets_come_out() {
    let goal = Goal { curve: NoiseCurve::Published132, ks_modulus_log2: 64, ..Goal::default() };
    for (gaussian, name) in [(false, "tfhe_2_2_ks64"), (true, "tfhe_2_2_gaussian")] {
        let found = search(&Goal { gaussian, ..goal.clone() }, UNWATCHED).unwrap();
        let known = TfheParams::named(name).unwrap();
        assert_eq!(found.lwe_dimension, known.lwe_dimension, "{name}");
        assert_eq!((found.pbs, found.ks), (known.pbs, known.ks), "{name}");
        assert_eq!(
            (found.glwe_dimension, found.polynomial_size, found.max_norm2),
            (known.glwe_dimension, known.polynomial_size, known.max_norm2),
            "{name}"
        );
        match (found.lwe_noise, known.lwe_noise) {
            (Noise::Gaussian { std: a }, Noise::Gaussian { std: b }) => {
                assert!((a / b - 1.0).abs() < 1e-9)
            }
            (a, b) => assert_eq!(a, b),
        }
        assert!((found.log2_pfail - known.log2_pfail).abs() < 0.01, "{name}: {}", found.log2_pfail);
    }
}

/// A row of the table comes out again, holds what it claims and is worth its accumulators.
#[test]
fn an_extended_set_comes_out_and_holds() {
    let rotation = Rotation::Extended { factor_log2: 2 };
    let goal = Goal { bits: 6, rotation, ..Goal::default() };
    let found = search(&goal, UNWATCHED).unwrap();
    let row = TfheParams::named("tfhe_3_3_extended").unwrap();
    assert_eq!(found.id(), row.id());
    assert_eq!((found.security_bits, found.log2_pfail), (row.security_bits, row.log2_pfail));
    found.validate().unwrap();
    found.require_secure(false).unwrap();
    noise::check_claim(&found).unwrap();
    assert!(NoiseReport::of(&found).log2_pfail <= -128.0);
    let classic = search(&Goal { rotation: Rotation::Classic, ..goal }, UNWATCHED).unwrap();
    assert!(found.cost() < 0.6 * classic.cost());
}

#[test]
fn strict_costs_no_less_than_usual() {
    let usual = search(&Goal::default(), UNWATCHED).unwrap();
    let strict = NoiseCurve::Estimated(Search::Strict);
    let strict = search(&Goal { curve: strict, ..Goal::default() }, UNWATCHED).unwrap();
    assert!(strict.security_bits >= 131.9 && strict.cost() >= usual.cost());
}

#[test]
fn goals_out_of_reach_are_refused() {
    let refused = |goal: Goal| {
        let error = search(&goal, UNWATCHED).unwrap_err();
        assert!(matches!(error, Error::BadInput(_) | Error::WrongParams(_)), "{error}");
        assert!(!error.detail().remedy.is_empty());
    };
    refused(Goal { bits: 0, ..Goal::default() });
    refused(Goal { bits: 11, ..Goal::default() });
    refused(Goal { security_bits: f64::NAN, ..Goal::default() });
    refused(Goal { rotation: Rotation::Extended { factor_log2: 9 }, ..Goal::default() });
    refused(Goal { rotation: Rotation::MultiBit { grouping: 0 }, ..Goal::default() });
    refused(Goal { rotation: Rotation::Block { size: 0 }, ..Goal::default() });
    refused(Goal { ks_modulus_log2: 33, ..Goal::default() });
    let published = NoiseCurve::Published132;
    refused(Goal { norm2: Some(1e6), curve: published, ..Goal::default() });
    let stopped = search(&Goal::default(), &|_, _| ControlFlow::Break(()));
    assert_eq!(stopped.unwrap_err().kind(), "interrupted");
}
