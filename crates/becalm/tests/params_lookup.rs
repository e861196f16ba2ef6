//! Choosing, identifying, sizing and refusing parameter sets.

use becalm::Error;
use becalm::math::Modulus;
use becalm::params::{
    CkksParams, Gadget, Kind, ModulusSwitch, Need, Noise, Order, Rotation, TfheParams, find,
};
use becalm::tfhe::noise::{self, NoiseReport};
use proptest::prelude::*;
use std::borrow::Cow;
use std::collections::HashSet;

fn set(name: &str) -> &'static TfheParams {
    TfheParams::named(name).unwrap()
}

#[test]
fn names_and_ids_are_unique() {
    let names: HashSet<_> = TfheParams::all().iter().map(|p| &p.name).collect();
    let ids: HashSet<_> = TfheParams::all().iter().map(|p| p.id()).collect();
    assert_eq!(names.len(), TfheParams::all().len());
    assert_eq!(ids.len(), TfheParams::all().len());
    assert_eq!(TfheParams::all()[0].name, "tfhe_2_2");
}

#[test]
fn id_is_pinned_and_ignores_claims() {
    // Keys and ciphertexts on disk carry it: it must never change for the same arithmetic.
    assert_eq!(set("tfhe_2_2").id().to_string(), "d2cf898e013db0a72ffd51a50dd39d4f");
    let mut other = set("tfhe_2_2").clone();
    other.name = Cow::Borrowed("renamed");
    other.log2_pfail = -1.0;
    other.source = Cow::Borrowed("elsewhere");
    assert_eq!(other.id(), set("tfhe_2_2").id());
    other.ks.level += 1;
    assert_ne!(other.id(), set("tfhe_2_2").id());
}

#[test]
fn an_unknown_name_is_answered_with_near_ones() {
    let error = TfheParams::named("tfhe_22").unwrap_err();
    assert!(matches!(error, Error::WrongParams(_)));
    assert!(error.detail().remedy.contains("did you mean `tfhe_2_2`"), "{error}");
    // A name of the other scheme, or of none, is like no name of this one.
    for (name, says) in [("ckks_regular", "a set of CKKS"), ("none", "no name is similar")] {
        let refused = TfheParams::named(name).unwrap_err().to_string();
        assert!(refused.contains(says) && refused.contains("becalm params"), "{refused}");
    }
    let refused = CkksParams::named("nope").unwrap_err().to_string();
    assert!(refused.contains("a parameter set of CKKS, got `nope`"), "{refused}");
    assert!(refused.contains("`ckks_n14`") && !refused.contains("tfhe"), "{refused}");
    assert!(!refused.contains("toy"), "{refused}");
    let near = CkksParams::named("ckks_regula").unwrap_err().to_string();
    assert!(near.contains("did you mean `ckks_regular`? Or choose"), "{near}");
    let toys = CkksParams::named("toy").unwrap_err().to_string();
    assert!(toys.contains("`ckks_toy_12`") && !toys.contains("`ckks_n14`"), "{toys}");
    let long = TfheParams::named(&"é".repeat(1 << 20)).unwrap_err();
    assert!(long.to_string().len() < 1000);
}

#[test]
fn find_returns_the_cheapest_fitting_set() {
    let base = Need::default();
    let p = Modulus::Goldilocks;
    let small = Some(Order::PbsKs);
    let cases = [
        (base.clone(), "tfhe_2_2"),
        (Need { bits: 1, ..base.clone() }, "tfhe_boolean_ks_pbs"),
        (Need { bits: 1, order: small, ..base.clone() }, "tfhe_boolean"),
        (Need { bits: 1, log2_pfail: -64.0, ..base.clone() }, "tfhe_boolean_ks_pbs_2m64"),
        (Need { bits: 1, norm2: 2.5, ..base.clone() }, "tfhe_1_1"),
        (Need { bits: 1, norm2: 4.0, ..base.clone() }, "tfhe_2_2"),
        (Need { bits: 2, ..base.clone() }, "tfhe_1_1"),
        (Need { bits: 2, gaussian: true, ..base.clone() }, "tfhe_1_1_gaussian"),
        (Need { bits: 3, ..base.clone() }, "tfhe_2_2"),
        (Need { bits: 6, ..base.clone() }, "tfhe_3_3_extended"),
        (Need { bits: 8, ..base.clone() }, "tfhe_4_4_extended"),
        (Need { bits: 1, modulus: p, ..base.clone() }, "tfhe_boolean_ks_pbs_p"),
        (Need { bits: 2, modulus: p, ..base.clone() }, "tfhe_1_1_p"),
        (Need { bits: 4, modulus: p, ..base.clone() }, "tfhe_2_2_p"),
    ];
    for (need, name) in cases {
        assert_eq!(find(&need).unwrap().name, name, "{need:?}");
    }
    for need in [
        Need { bits: 10, ..base.clone() },
        Need { log2_pfail: -500.0, ..base.clone() },
        Need { order: small, ..base.clone() },
    ] {
        assert!(matches!(find(&need), Err(Error::WrongParams(_))), "{need:?}");
    }
}

#[test]
fn sizes_are_the_published_ones() {
    let known = [
        ("tfhe_1_1_ks64", 90_009_600, 43_253_760),
        ("tfhe_2_2_ks64", 60_162_048, 60_227_584),
        ("tfhe_2_2", 60_162_048, 30_113_792),
        ("tfhe_1_1_gaussian", 85_708_800, 41_189_376),
        ("tfhe_2_2_gaussian", 56_754_176, 71_024_640),
        ("tfhe_3_3_ks64", 564_658_176, 353_239_040),
    ];
    for (name, bootstrap, key_switch) in known {
        assert_eq!(set(name).bootstrap_key_bytes(), bootstrap, "{name}");
        assert_eq!(set(name).key_switch_key_bytes(), key_switch, "{name}");
    }
    let p = set("tfhe_2_2_ks64");
    assert_eq!(p.seeded_bootstrap_key_bytes(), 30_081_024);
    assert_eq!(p.seeded_key_switch_key_bytes(), 65_536);
    assert_eq!(p.ciphertext_bytes(), 2049 * 8);
    assert_eq!(set("tfhe_boolean").ciphertext_bytes(), 744 * 8);
    assert_eq!(p.secret_key_bytes(), (918 + 2048) * 8);
    assert_eq!(set("tfhe_2_2").seeded_key_switch_key_bytes(), 65_536);
}

#[test]
fn insecure_sets_are_refused_by_name_and_by_noise() {
    let refuse = |p: &TfheParams| p.require_secure(false).unwrap_err();
    let error = refuse(set("toy_1_1"));
    assert!(matches!(error, Error::Insecure(_)));
    assert!(error.detail().remedy.contains("`tfhe_1_1`"), "{error}");
    assert!(refuse(set("paper_n500_p")).to_string().contains("100.6 bits"));
    // A toy that calls itself standard, and a standard set whose noise was turned down to almost nothing.
    let lying = TfheParams { kind: Kind::Standard, security_bits: 140.0, ..set("toy_2_2").clone() };
    refuse(&lying);
    for std in [0.0, 1e-9, f64::NAN] {
        let quiet = TfheParams { lwe_noise: Noise::Gaussian { std }, ..set("tfhe_2_2").clone() };
        refuse(&quiet);
    }
    refuse(&TfheParams { security_bits: f64::NAN, ..set("tfhe_2_2").clone() });
}

/// A toy has the messages, the order, the modulus and the rotation of a standard set, which is offered instead.
#[test]
fn each_toy_offers_the_standard_set_of_its_kind() {
    let counterparts = [
        ("toy_2_2", "tfhe_2_2"),
        ("toy_2_2_ks64", "tfhe_2_2_ks64"),
        ("toy_2_2_p", "tfhe_2_2_p"),
        ("toy_1_1", "tfhe_1_1"),
        ("toy_1_1_p", "tfhe_1_1_p"),
        ("toy_3_3", "tfhe_3_3"),
        ("toy_boolean", "tfhe_boolean"),
        ("toy_boolean_p", "tfhe_boolean_p"),
        ("toy_boolean_ks_pbs", "tfhe_boolean_ks_pbs"),
        ("toy_cm_1_1_w2", "cm_1_1_w2"),
        // No standard set has a common mask, or an extension, and this modulus or this order.
        ("toy_cm_1_1_w3_p", "tfhe_1_1_p"),
        ("toy_2_2_extended_pbs_ks_p", "tfhe_2_2_p"),
        ("toy_3_3_extended", "tfhe_3_3_extended"),
        ("toy_3_3_extended_p", "tfhe_3_3_extended_p"),
        ("toy_1_1_fast", "fast_1_1"),
        ("toy_1_1_fast_p", "tfhe_1_1_p"),
        ("toy_1_1_multi_bit_2", "tfhe_1_1_multi_bit_3"),
        ("toy_1_1_multi_bit_3_p", "tfhe_1_1_p"),
    ];
    let toys: HashSet<&str> =
        TfheParams::all().iter().filter(|p| p.kind == Kind::Toy).map(|p| &*p.name).collect();
    assert_eq!(toys, counterparts.map(|(toy, _)| toy).into());
    for (toy, standard) in counterparts {
        let refused = set(toy).require_secure(false).unwrap_err();
        let remedy = &refused.detail().remedy;
        assert!(remedy.contains(&format!("use `{standard}`,")), "{toy}: {remedy}");
    }
}

/// The fast family is opt-in, and multi-bit sets go by name; a group that does not divide n is refused.
#[test]
fn variants_are_not_found_unless_asked_for() {
    for bits in 1..=4 {
        let standard = find(&Need { bits, ..Need::default() }).unwrap();
        assert_eq!((standard.rotation, standard.is_fast()), (Rotation::Classic, false));
        let fast = find(&Need { bits, fast: true, ..Need::default() }).unwrap();
        assert!(fast.is_fast() && fast.assumption().is_some() && fast.cost() < standard.cost());
    }
    let multi = set("tfhe_2_2_multi_bit_3");
    assert_eq!(multi.ggsw_count(), multi.lwe_dimension / 3 * 7);
    let fast = set("fast_2_2");
    assert_eq!(fast.switched_dimension(), 2048 - fast.lwe_dimension);
    for whole in [multi, fast] {
        let broken = TfheParams { lwe_dimension: whole.lwe_dimension + 1, ..whole.clone() };
        let error = broken.validate().unwrap_err();
        assert!(matches!(error, Error::WrongParams(_)) && error.to_string().contains("divide"));
    }
    // Blocks of twelve at the same n have less entropy and fewer bits than the row claims, and so are refused.
    let rotation = Rotation::Block { size: 12 };
    let weak = TfheParams { rotation, name: "weak".into(), ..fast.clone() };
    assert!(matches!(weak.require_secure(false), Err(Error::Insecure(_))));
}

#[test]
fn bound_and_probability_agree_with_the_report() {
    for p in TfheParams::all() {
        let report = NoiseReport::of(p);
        let at_bound = noise::pfail_at(p, noise::bound(p));
        assert!((at_bound - report.log2_pfail).abs() < 1e-9, "{}", p.name);
        // A single output is within the bound, and twice the noise is worse.
        assert!(noise::bootstrap_output(p) <= noise::bound(p));
        assert!(noise::pfail_at(p, 2.0 * noise::bound(p)) > at_bound);
        // The figures that a peer publishes of the default set's budget: 2^-29.65, 2^-22.03, 2^-19.74, together 2^-19.443.
        if p.name == "tfhe_2_2_ks64" {
            let r = report.blind_rotation;
            let found = [r.total(), report.key_switch, report.modulus_switch, report.total];
            for (variance, log2) in found.iter().zip([-29.65, -22.03, -19.74, -19.443]) {
                assert!((variance.log2() - log2).abs() < 0.006, "{}", variance.log2());
            }
        }
        if p.modulus == Modulus::Goldilocks {
            assert_eq!(report.blind_rotation.fft, 0.0);
        }
        assert!(report.to_string().contains("failure probability"));
    }
}

#[test]
fn a_better_claim_than_the_noise_allows_is_refused() {
    let mut p = set("tfhe_2_2").clone();
    p.log2_pfail -= 0.01;
    assert!(matches!(noise::check_claim(&p), Err(Error::WrongParams(_))));
}

#[test]
fn out_of_range_fields_are_named() {
    type Edit = fn(&mut TfheParams);
    let edits: [(&str, Edit); 14] = [
        ("n in", |p| p.lwe_dimension = 0),
        ("n in", |p| p.lwe_dimension = usize::MAX),
        ("k in", |p| p.glwe_dimension = 17),
        ("N a power", |p| p.polynomial_size = 1000),
        ("k·N", |p| (p.glwe_dimension, p.polynomial_size) = (16, 65536)),
        ("key switch", |p| p.ks_modulus_log2 = 33),
        ("key switch", |p| p.modulus = Modulus::Goldilocks),
        ("pbs gadget", |p| p.pbs.level = 3),
        ("ks gadget", |p| p.ks.level = 0),
        ("small key", |p| p.lwe_noise = Noise::Gaussian { std: f64::NAN }),
        ("big key", |p| p.glwe_noise = Noise::TUniform { bound_log2: 63 }),
        ("moduli", |p| p.carry_modulus = 3),
        ("half the table", |p| p.carry_modulus = 1 << 63),
        ("max_norm2", |p| p.max_norm2 = f64::INFINITY),
    ];
    for (wanted, edit) in edits {
        let mut p = set("tfhe_2_2").clone();
        edit(&mut p);
        let error = p.validate().unwrap_err();
        assert!(error.detail().wanted.contains(wanted), "{error}");
    }
}

fn any_noise() -> impl Strategy<Value = Noise> {
    prop_oneof![
        any::<f64>().prop_map(|std| Noise::Gaussian { std }),
        prop_oneof![0u32..70, any::<u32>()].prop_map(|bound_log2| Noise::TUniform { bound_log2 }),
    ]
}

fn any_gadget() -> impl Strategy<Value = Gadget> {
    prop_oneof![(1u32..32, 1u32..8), (any::<u32>(), any::<u32>())]
        .prop_map(|(base_log, level)| Gadget { base_log, level })
}

fn any_size() -> impl Strategy<Value = usize> {
    prop_oneof![(0u32..18).prop_map(|log2| 1 << log2), 0usize..3000, any::<usize>()]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn hostile_sets_never_panic(
        dims in [any_size(), any_size(), any_size()],
        noises in [any_noise(), any_noise()],
        gadgets in [any_gadget(), any_gadget()],
        values in [any_size(), any_size()],
        norm in any::<f64>(),
        claims in any::<[f64; 2]>(),
        word in prop_oneof![Just(32u32), Just(64), any::<u32>()],
        switches in any::<[bool; 4]>(),
    ) {
        let mut p = set("tfhe_2_2").clone();
        [p.lwe_dimension, p.glwe_dimension, p.polynomial_size] = dims;
        [p.lwe_noise, p.glwe_noise] = noises;
        [p.pbs, p.ks] = gadgets;
        [p.message_modulus, p.carry_modulus] = values.map(|v| v as u64);
        p.max_norm2 = norm;
        [p.security_bits, p.log2_pfail] = claims;
        p.ks_modulus_log2 = word;
        if switches[0] { p.modulus = Modulus::Goldilocks }
        if switches[1] { p.order = Order::PbsKs }
        if switches[2] { p.modulus_switch = ModulusSwitch::Plain }
        if switches[3] { p.kind = Kind::Toy }
        let _ = (p.validate(), p.require_secure(false), p.cost(), p.id());
        let sizes = [p.bootstrap_key_bytes(), p.key_switch_key_bytes(), p.ciphertext_bytes(), p.secret_key_bytes()];
        let report = NoiseReport::of(&p);
        let _ = (noise::check_claim(&p), report.to_string());
        if p.validate().is_ok() {
            prop_assert!(sizes.iter().all(|s| *s > 0 && *s < 1 << 50));
            prop_assert!(report.total.is_finite() && report.total >= 0.0);
            prop_assert!(!report.log2_pfail.is_nan() && report.log2_pfail <= 0.0);
        }
        let mut renamed = p.clone();
        renamed.security_bits = 1.0;
        prop_assert_eq!(p.id(), renamed.id());
    }

    #[test]
    fn a_set_survives_serialisation(i in 0..TfheParams::all().len()) {
        let p = &TfheParams::all()[i];
        let bytes = postcard::to_stdvec(p).unwrap();
        let back: TfheParams = postcard::from_bytes(&bytes).unwrap();
        prop_assert_eq!(back.id(), p.id());
        prop_assert_eq!(&back, p);
    }
}
