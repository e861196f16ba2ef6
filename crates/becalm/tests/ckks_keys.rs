//! Keys of CKKS before any is made: the set and the keys for a need, their cost, and keys that would fit instead.
//! Files of keys that an older version wrote.

use becalm::backend::{CkksSetup, Cpu, Evaluator};
use becalm::bootstrap::ckks::{
    Fit, Instead, KEY_SIZES, KeyPlan, Kind, Offer, Settings, Values, Wish, regular, said,
    said_or_least, set_for,
};
use becalm::cipher::KeyForm;
use becalm::cipher::file::inspect;
use becalm::ckks::{Chebyshev, Context, Needs};
use becalm::params::{CkksParams, TfheParams};
use becalm::program::Reg;
use becalm::program::rlwe::CkksProgram;
use becalm::words::megabytes;
use becalm::{Error, Missing, MissingKey, MissingLevels, MissingPurpose, UNWATCHED};
use std::sync::Arc;

fn toy() -> &'static CkksParams {
    CkksParams::named("ckks_toy_12").unwrap()
}

fn plan(params: &'static CkksParams, wish: Wish) -> KeyPlan {
    KeyPlan::new(params, &wish).unwrap()
}

#[test]
fn a_need_finds_its_set() {
    let name = |kinds: &[Kind], levels| set_for(kinds, levels, 1).map(|set| set.name);
    assert_eq!(name(&[], None), Ok("ckks_slots_first"));
    assert_eq!(name(&[], Some(10)), Ok("ckks_regular"));
    assert_eq!(name(&[Kind::Regular], None), Ok("ckks_regular"));
    assert_eq!(name(&[Kind::Sparse], Some(14)), Ok("ckks_14_levels"));
    assert_eq!(name(&[], Some(4)), Ok("ckks_4_levels"));
    assert_eq!(name(&[], Some(17)), Ok("ckks_17_levels"));
    assert_eq!(name(&[Kind::Precise], None), Ok("ckks_precise"));
    assert_eq!(name(&[Kind::Regular, Kind::Sign], None), Ok("ckks_slots_first"));
    for (kinds, levels) in [
        (&[][..], Some(11)),
        (&[Kind::SlotsFirst], Some(14)),
        (&[Kind::Precise, Kind::SlotsFirst], None),
    ] {
        assert_eq!(name(kinds, levels).unwrap_err().kind(), "bad_input", "{kinds:?} {levels:?}");
    }
    let twice = |kinds: &[Kind], levels| set_for(kinds, levels, 2).map(|set| set.name);
    assert_eq!(twice(&[], None), Ok("ckks_iterated"));
    assert_eq!(twice(&[Kind::SlotsFirst], None), Ok("ckks_iterated"));
    for (kinds, levels) in [(&[Kind::Regular][..], None), (&[Kind::Sign], None), (&[], Some(10))] {
        assert_eq!(twice(kinds, levels).unwrap_err().kind(), "bad_input", "{kinds:?} {levels:?}");
    }
    for kind in Kind::all() {
        assert_eq!(Kind::named(kind.name()), Ok(kind));
    }
    assert!(Kind::named("other").unwrap_err().detail().wanted.contains("precise or table"));
}

#[test]
fn wishes_that_cannot_be_are_refused() {
    let refused = |name: &str, wish: Wish| {
        KeyPlan::new(CkksParams::named(name).unwrap(), &wish).err().map(|e| e.kind())
    };
    let of = |kind: Kind| Wish { kinds: vec![kind], ..Wish::default() };
    let (params, input) = (Some("wrong_params"), Some("bad_input"));
    assert_eq!(refused("ckks_n14", of(Kind::Regular)), params);
    assert_eq!(refused("ckks_n14", Wish { size: Some("small"), ..Wish::default() }), params);
    assert_eq!(refused("ckks_toy_12", of(Kind::Precise)), params);
    let twice = Wish { iterations: 2, ..Wish::default() };
    assert_eq!(refused("ckks_n14", twice.clone()), params);
    assert_eq!(refused("ckks_toy_slots_first", twice), params);
    for slots in [0, 1, 33, 4096] {
        let wish = Wish { slots: Some(slots), ..Wish::default() };
        assert_eq!(refused("ckks_toy_12", wish), input, "{slots} slots");
    }
    let all = Wish { slots: Some(2048), ..of(Kind::Sparse) };
    assert_eq!(refused("ckks_toy_12", all), input, "all slots");
    let stages = Wish { stage_count: Some(9), ..Wish::default() };
    assert_eq!(refused("ckks_toy_12", stages), input);
}

#[test]
fn the_usual_kind_is_that_of_the_set() {
    let kinds = |name: &str, slots| {
        plan(CkksParams::named(name).unwrap(), Wish { slots, ..Wish::default() })
            .wish()
            .kinds
            .clone()
    };
    assert_eq!(kinds("ckks_toy_12", None), [Kind::Regular]);
    assert_eq!(kinds("ckks_toy_12", Some(32)), [Kind::Sparse]);
    assert_eq!(kinds("ckks_toy_slots_first", None), [Kind::SlotsFirst]);
    assert_eq!(kinds("ckks_n14", None), []);
}

/// Slots that nobody asks for, and the stages of a bootstrap over few of them.
#[test]
fn slots_and_stages_have_usual_numbers() {
    let of = |name: &str, kind, slots, stage_count| {
        let wish = Wish { kinds: vec![kind], slots, stage_count, ..Wish::default() };
        let plan = plan(CkksParams::named(name).unwrap(), wish);
        (plan.slots(), plan.stage_count())
    };
    assert_eq!(of("ckks_toy_12", Kind::Sparse, None, None), (1024, Some(3)));
    assert_eq!(of("ckks_toy_12", Kind::Sparse, Some(4), None), (4, Some(2)));
    assert_eq!(of("ckks_toy_12", Kind::Sparse, Some(4), Some(1)), (4, Some(1)));
    assert_eq!(of("ckks_toy_12", Kind::Regular, Some(4), None), (4, Some(3)));
    assert_eq!(of("ckks_toy_slots_first", Kind::SlotsFirst, Some(64), None).0, 64);
    let arithmetic = plan(CkksParams::named("ckks_n14").unwrap(), Wish::default());
    assert_eq!((arithmetic.slots(), arithmetic.stage_count()), (8192, None));
}

#[test]
fn values_and_forms_of_keys_are_found_by_their_names() {
    for values in [Values::Complex, Values::Real, Values::Merged] {
        assert_eq!(Values::named(values.name()), Ok(values));
    }
    for form in [KeyForm::Ready, KeyForm::Packed, KeyForm::Seeded] {
        assert_eq!(KeyForm::named(form.name()), Ok(form));
    }
    let refused = [Values::named("both").map(|_| ()), KeyForm::named("both").map(|_| ())];
    for refused in refused.map(Result::unwrap_err) {
        assert_eq!((refused.kind(), &*refused.detail().got), ("bad_input", "both"));
    }
}

#[test]
fn a_price_is_that_of_the_keys() {
    let wish = Wish { rotations: vec![1, -3, 2048], conjugate: true, ..Wish::default() };
    let (plan, context) = (plan(toy(), wish), Context::new(toy(), true).unwrap());
    let keys = context.keys(&context.secret_key().unwrap(), &plan.needs()).unwrap();
    let price = plan.price().unwrap();
    assert_eq!((price.memory, price.stored), (keys.bytes(), context.stored_bytes(&keys)));
    assert!(price.peak() > price.memory + price.tables, "matrices, ciphertexts and work besides");
    // Rotations by all slots are none.
    assert!(
        !plan.needs().rotations.contains_key(&0) && !plan.needs().rotations.contains_key(&2048)
    );
    let plain = Wish { size: None, ..Wish::default() };
    let price = KeyPlan::new(toy(), &plain).unwrap().price().unwrap();
    assert_eq!(price.peak(), price.memory + price.tables, "arithmetic alone");
}

/// Each offer fits, costs what its own plan says, and is the fastest that does.
#[test]
fn offers_fit_and_say_what_they_take() {
    let set = set_for(&[], Some(10), 1).unwrap();
    let wish = Wish { size: Some("large"), ..Wish::default() };
    let asked = plan(set, wish.clone());
    let peak =
        |offer: &Offer| plan(offer.set.unwrap_or(set), offer.wish(&wish)).price().unwrap().peak();
    let others = asked.others().unwrap();
    let ways: Vec<_> = others.iter().map(|o| (o.size, o.form)).collect();
    let seeded = Some(KeyForm::Seeded);
    let wanted = [
        (None, Some(KeyForm::Packed)),
        (Some("medium"), None),
        (Some("small"), None),
        (None, seeded),
        (Some("medium"), seeded),
        (Some("small"), seeded),
    ];
    assert_eq!(ways, wanted);
    for (i, offer) in others.iter().enumerate() {
        assert_eq!(offer.bytes, peak(offer), "{offer:?}");
        let faster = others[..i].iter().any(|o| o.bytes <= offer.bytes);
        let found = asked.offers(offer.bytes).unwrap();
        assert!(faster || found == [*offer], "{found:?}");
    }
    let least = others.iter().map(|o| o.bytes).min().unwrap();
    let found = asked.offers(least - 1).unwrap();
    let ring = found.iter().find(|o| o.set.is_some()).expect("a smaller ring");
    assert_eq!((ring.set.unwrap().name, ring.bytes), ("ckks_n15", peak(ring)));
    let stored = found.iter().find(|o| o.stored).expect("keys that stay in their file");
    assert_eq!(stored.bytes, asked.stored_bytes(stored.size.or(wish.size)).unwrap());
    assert_eq!(asked.offers(1 << 20).unwrap(), [], "nothing fits a megabyte");
}

/// Keys that an engine makes, against keys: without a bootstrap beside them, and less than those that were refused.
#[test]
fn fewer_keys_to_make_are_offered_against_what_is_made() {
    let wish = Wish { size: Some("medium"), ..Wish::default() };
    let (asked, context) = (plan(toy(), wish.clone()), Context::new(toy(), true).unwrap());
    let secret = context.secret_key().unwrap();
    let multiply = Needs { multiply: toy().product_level(), ..Needs::default() };
    let known = context.keys(&secret, &multiply).unwrap();
    let own = context.bytes_to_make(&asked.needs(), asked.form(), Some(&known));
    let made = context.keys_with(&secret, &asked.needs(), asked.form(), Some(&known), UNWATCHED);
    assert_eq!(own, made.unwrap().bytes() - known.bytes());
    let less = asked.less_to_make(Some(&known)).unwrap();
    let (small, packed) = (Some("small"), Some(KeyForm::Packed));
    let ways: Vec<_> = less.iter().map(|o| (o.size, o.form)).collect();
    assert_eq!(ways, [(None, packed), (small, None), (small, packed)]);
    for offer in &less {
        let other = plan(toy(), offer.wish(&wish));
        let bytes = context.bytes_to_make(&other.needs(), other.form(), Some(&known));
        assert!(offer.bytes == bytes && bytes < own, "{offer:?}");
    }
    let packed = Wish { form: packed, size: small, ..Wish::default() };
    assert_eq!(plan(toy(), packed).less_to_make(None).unwrap(), [], "the least there is");
}

/// A secret key has one set: its keys are offered in no other ring, and neither are keys alone what they are with a bootstrap.
#[test]
fn another_ring_is_offered_where_it_serves_with_what_the_refusal_counts() {
    let set = CkksParams::named("ckks_n14").unwrap();
    let (asked, smaller) = (KeyPlan::new(set, &Wish::default()).unwrap(), "ckks_n13");
    let usual = |offer: &Offer| offer.size.is_none() && offer.form.is_none();
    let named = |offer: &Offer| offer.set.map(|set| format!("--params {}", set.name));
    let words = |offer: &Offer| named(offer).filter(|_| usual(offer));
    let alone = plan(CkksParams::named(smaller).unwrap(), Wish::default()).price().unwrap();
    assert!(asked.of_smaller_ring(alone.peak()).is_some());
    assert!(asked.clone().of_its_set().of_smaller_ring(alone.peak()).is_none());
    let require =
        |plan: &KeyPlan, free| plan.clone().alone().require("keygen", Some(free), words, "free it");
    assert!(require(&asked, asked.price().unwrap().memory).is_ok());
    let Err(Error::Memory(e)) = require(&asked, alone.memory) else { panic!("it does not fit") };
    let takes = megabytes(alone.memory);
    assert_eq!(e.remedy, format!("--params {smaller} takes {takes}; or free it"));
    let Err(Error::Memory(e)) = require(&asked.of_its_set(), alone.memory) else { panic!("fits") };
    assert_eq!(e.remedy, "free it");
}

/// Another number of stages is offered to those who asked for one, where it takes less.
#[test]
fn other_numbers_of_stages_are_offered() {
    let set = set_for(&[], Some(10), 1).unwrap();
    let wish = Wish { stage_count: Some(3), ..Wish::default() };
    let peak = |wish: &Wish| plan(set, wish.clone()).price().unwrap().peak();
    let four = peak(&Wish { stage_count: Some(4), ..wish.clone() });
    assert!(four < peak(&wish));
    let found = plan(set, wish.clone()).offers(four).unwrap();
    let offer = found.iter().find(|o| o.stages.is_some()).expect("another number of stages");
    assert_eq!((offer.stages, offer.bytes, peak(&offer.wish(&wish))), (Some(4), four, four));
    assert!(found.len() == 2 && found[0].stages.is_none(), "other keys for as many: {found:?}");
    let asked = plan(set, Wish::default()).offers(four).unwrap();
    assert!(asked.iter().all(|o| o.stages.is_none()), "nobody asked for a number: {asked:?}");
}

#[test]
fn keys_that_do_not_fit_are_refused_with_what_does() {
    let asked = plan(toy(), Wish::default());
    let words = |offer: &Offer| offer.form.map(|form| format!("{form:?}"));
    let require = |free| asked.require("keygen", free, words, "free memory");
    let (peak, packed) = (asked.price().unwrap().peak(), asked.others().unwrap()[0]);
    assert!(require(None).is_ok() && require(Some(peak)).is_ok());
    let Err(Error::Memory(refused)) = require(Some(peak - 1)) else { panic!("it does not fit") };
    assert_eq!(refused.remedy, format!("Packed takes {}", megabytes(packed.bytes)));
    assert!(refused.wanted.starts_with(&format!("{} for keys", megabytes(peak))));
    let Err(Error::Memory(refused)) = require(Some(0)) else { panic!("nothing fits") };
    assert_eq!((refused.got.as_str(), refused.remedy.as_str()), ("0.0 kB free", "free memory"));
    assert_eq!(said(&[], words, ""), "");
}

/// A machine with memory of its own needs no room here to work in, and is offered keys without it.
#[test]
fn keys_for_another_machine_need_no_room_to_work() {
    for wish in [Wish::default(), Wish { stage_count: Some(3), ..Wish::default() }] {
        let near = plan(toy(), wish);
        let far = near.clone().far();
        let (near, work) = (near.price().unwrap(), CkksProgram::work_bytes(toy()));
        assert_eq!(far.price().unwrap().peak() + work, near.peak());
        let require = |free| far.require("keygen", Some(free), |_| None, "free memory");
        require(near.peak() - work).unwrap();
        let refused = require(near.peak() - work - 1).unwrap_err();
        assert!(matches!(refused, Error::Memory(_)), "{refused}");
    }
    let set = set_for(&[], Some(10), 1).unwrap();
    let far = plan(set, Wish::default()).far();
    let ring = far.of_smaller_ring(usize::MAX).unwrap();
    let smaller = plan(ring.set.unwrap(), Wish::default()).far();
    assert_eq!(ring.bytes, smaller.price().unwrap().peak(), "other rings are for that machine too");
}

/// The reader of a file asks for what it wants; the rest is as the note says.
#[test]
fn a_note_is_merged_with_what_its_reader_asks_for() {
    let note = Wish { slots: Some(64), size: Some("small"), ..Wish::default() };
    let note = Wish { kinds: vec![Kind::Sparse], stage_count: Some(2), ..note };
    let note = Wish::noted(&plan(toy(), note).note()).unwrap();
    let asked = |other| note.clone().instead(other);
    let same = asked(Instead::default());
    assert_eq!((same.slots, same.size, same.stage_count), (Some(64), Some("small"), Some(2)));
    assert_eq!((same.kinds, same.form), (vec![Kind::Sparse], Some(KeyForm::Ready)));
    let none = asked(Instead { size: Some(None), slots: Some(8), ..Instead::default() });
    assert_eq!((none.slots, none.size, none.kinds), (Some(8), None, vec![]));
    let kinds = vec![Kind::Regular];
    let other = Instead { kinds, stage_count: Some(3), ..Instead::default() };
    let other = asked(Instead { form: Some(KeyForm::Seeded), ..other });
    assert_eq!((other.kinds, other.stage_count), (vec![Kind::Regular], Some(3)));
    assert_eq!((other.slots, other.form), (Some(64), Some(KeyForm::Seeded)));
}

/// Whoever asks for no size takes the fastest keys that fit, whoever asks for one keeps it.
#[test]
fn the_fastest_keys_that_fit_are_taken() {
    let set = set_for(&[], Some(10), 1).unwrap();
    let asked = plan(set, Wish::default());
    let (peak, others) = (asked.price().unwrap().peak(), asked.others().unwrap());
    assert_eq!(asked.fit(None, true), Ok(Fit::AsAsked));
    assert_eq!(asked.fit(Some(peak), true), Ok(Fit::AsAsked));
    assert_eq!(asked.fit(Some(peak - 1), true), Ok(Fit::Instead(others[0])));
    let small = others.iter().find(|o| o.size == Some("small")).unwrap();
    assert_eq!(asked.fit(Some(small.bytes), true), Ok(Fit::Instead(*small)));
    let Ok(Fit::Instead(kept)) = asked.fit(Some(small.bytes), false) else { panic!("seeded fit") };
    assert_eq!((kept.size, kept.form, kept.set), (None, Some(KeyForm::Seeded), None));
    let least = others.iter().map(|o| o.bytes).min().unwrap();
    let Ok(Fit::Instead(ring)) = asked.fit(Some(least - 1), true) else { panic!("a ring fits") };
    assert_eq!(ring.set.map(|set| set.name), Some("ckks_n15"));
    let toy = CkksParams::named("ckks_toy_13").unwrap();
    assert_eq!(asked.fit(Some(1 << 20), true), Ok(Fit::Toy(toy)));
}

#[test]
fn what_memory_must_hold_is_named_in_each_refusal() {
    let asked = plan(toy(), Wish::default());
    let price = asked.price().unwrap();
    let wanted = |refused: becalm::Result<()>| refused.err().map(|e| e.detail().wanted.clone());
    // Keys for another machine need no room for bootstraps, but the context its tables.
    let alone = asked.clone().alone();
    let keys = |free| alone.require("keygen", Some(free), |_| None, "free memory");
    assert_eq!(wanted(keys(price.memory)), None);
    let said = format!("{} for keys", megabytes(price.memory));
    assert_eq!(wanted(keys(price.memory - 1)), Some(said));
    let tables = |free| asked.chain().require_tables("engine", free, "free memory");
    assert_eq!(wanted(tables(Some(price.tables))), None);
    let said = format!("{} for the tables of `ckks_toy_12`", megabytes(price.tables));
    assert_eq!(wanted(tables(Some(price.tables - 1))), Some(said));
    // Keys of TFHE are made beside the form that computes.
    let set = TfheParams::named("tfhe_2_2").unwrap();
    let made = set.seeded_bootstrap_key_bytes() + set.seeded_key_switch_key_bytes();
    let all = (made + set.bootstrap_key_bytes() + set.key_switch_key_bytes()) as usize;
    assert_eq!(wanted(set.require_keys("keygen", Some(all))), None);
    assert_eq!(wanted(set.require_keys("keygen", Some(all - 1))), Some(megabytes(all)));
    assert_eq!(wanted(set.require_keys("keygen", None)), None);
}

#[test]
fn errors_of_memory_get_the_offers_as_their_remedy() {
    let asked = plan(toy(), Wish { stage_count: Some(3), ..Wish::default() });
    let words = |offer: &Offer| offer.form.map(|form| format!("{form:?}"));
    let (full, packed) =
        (Error::memory("run", "2 GB", "1 GB free", "use less"), asked.others().unwrap()[0]);
    let told = asked.remedied(full, Some(packed.bytes), words, "free memory");
    assert_eq!((told.detail().wanted.as_str(), told.detail().got.as_str()), ("2 GB", "1 GB free"));
    let takes = format!("Packed takes {}", megabytes(packed.bytes));
    assert_eq!(told.detail().remedy, format!("{takes}; or free memory"));
    let other = Error::bad_input("run", "one", "two", "take one");
    assert_eq!(asked.remedied(other.clone(), Some(0), words, "free memory"), other);
    // Where nothing fits, the least is named; bytes beside keys are those of bootstraps alone.
    let least = said_or_least(&[packed], packed.bytes - 1, words, "free memory");
    assert!(least.starts_with("the least is Packed, which takes "), "{least}");
    for offer in asked.less_beside().unwrap() {
        let of =
            plan(toy(), Wish { stage_count: offer.stages, ..Wish::default() }).price().unwrap();
        assert_eq!(offer.bytes, of.beside);
        assert!(of.beside < asked.price().unwrap().beside, "{offer:?}");
    }
    let needs = asked.needs();
    let one = Offer::packed(asked.chain(), &needs, KeyForm::Ready, None).unwrap();
    assert_eq!(one.bytes, asked.chain().key_bytes_as(&needs, KeyForm::Packed));
    assert_eq!(Offer::packed(asked.chain(), &needs, KeyForm::Packed, None), None);
}

#[test]
fn notes_come_back() {
    for wish in [
        Wish::default(),
        Wish { size: None, ..Wish::default() },
        Wish {
            kinds: vec![Kind::Regular, Kind::SlotsFirst],
            form: Some(KeyForm::Seeded),
            ..Wish::default()
        },
        Wish {
            slots: Some(32),
            stage_count: Some(2),
            form: Some(KeyForm::Packed),
            ..Wish::default()
        },
    ] {
        let made = plan(toy(), wish);
        let read = Wish::noted(&made.note()).unwrap();
        assert_eq!(read, Wish { slots: Some(made.slots()), ..made.wish().clone() });
    }
    let iterated = CkksParams::named("ckks_toy_iterated").unwrap();
    let made = plan(iterated, Wish { iterations: 2, ..Wish::default() });
    assert!(made.programs().all(|(_, program)| program.bootstraps() == 2));
    assert_eq!(Wish::noted(&made.note()).unwrap().iterations, 2);
    // The form of earlier versions, with spaces and without the number of baby steps.
    let old = r#"{"slots": 32, "kinds": ["sparse"], "bootstrap": "small", "stage_count": null, "compact": false}"#;
    let read = Wish::noted(old).unwrap();
    assert_eq!((read.slots, read.size, read.kinds), (Some(32), Some("small"), vec![Kind::Sparse]));
    let other = r#"{"kinds": ["regular"], "bootstrap": "medium"}"#;
    assert_eq!(
        Wish::noted(other).unwrap_err().kind(),
        "bad_file",
        "4 baby steps then, now another"
    );
    for note in ["", "[]", "{", r#"{"kinds": 3}"#, r#"{"bootstrap": 7}"#, r#"{"compact": "other"}"#]
    {
        let read = Wish { form: None, ..Wish::noted(note).unwrap() };
        assert_eq!(read, Wish::default(), "{note}");
    }
    for note in [r#"{"kinds": ["other"]}"#, r#"{"bootstrap": "huge"}"#] {
        assert_eq!(Wish::noted(note).unwrap_err().kind(), "bad_input", "{note}");
    }
    assert_eq!(KEY_SIZES.map(|(name, _)| name), ["small", "medium", "large"]);
}

/// The error names the missing key as data: a program can make the key without reading the message.
#[test]
fn a_missing_key_is_named_in_data() {
    let context = Arc::new(Context::new(toy(), true).unwrap());
    let secret = context.secret_key().unwrap();
    let opened = |keys| {
        Evaluator::new(&Cpu::new(0).unwrap(), CkksSetup::new(&context, &Arc::new(keys))).unwrap()
    };
    let evaluator = opened(context.keys(&secret, &Needs::default().rotate([1], 2)).unwrap());
    let x = context.encrypt(&vec![0.5.into(); 2048], 3, &secret).unwrap();
    let missing = |error: Error| error.detail().missing;
    let key = |purpose| Some(Missing::Key(MissingKey { purpose, level: 3 }));
    let rotated = evaluator.rotate(&x, -5).err().and_then(missing);
    assert_eq!(rotated, key(MissingPurpose::Rotate(2048 - 5)));
    // There is one for this rotation, which does not reach so high.
    assert_eq!(evaluator.rotate(&x, 1).err().and_then(missing), key(MissingPurpose::Rotate(1)));
    assert_eq!(evaluator.conjugate(&x).err().and_then(missing), key(MissingPurpose::Conjugate));
    let program = regular(&context, &Settings::default()).unwrap();
    let bootstrap = evaluator.require(&program).err();
    let found = bootstrap.and_then(missing);
    let rotation = |key: MissingKey| matches!(key.purpose, MissingPurpose::Rotate(_));
    assert!(matches!(found, Some(Missing::Key(key)) if rotation(key)), "{found:?}");
    let other = context.keys(&context.secret_key().unwrap(), &Needs::default()).unwrap();
    let foreign = opened(other).rotate(&x, 1).err();
    assert_eq!(foreign.map(|e| (e.kind(), e.detail().missing)), Some(("wrong_key", None)));
}

/// An error for too few levels carries both levels as data.
#[test]
fn missing_levels_are_named_in_data() {
    let context = Arc::new(Context::new(toy(), true).unwrap());
    let mut program = CkksProgram::new(context.chain());
    let x = program.input(1, 8).unwrap();
    let squared = program.power(x, 2).unwrap();
    let levels = |needed, left| Some(Missing::Levels(MissingLevels { needed, left }));
    let refused = |made: becalm::Result<Reg>| made.unwrap_err().detail().missing;
    assert_eq!(refused(program.power(x, 5)), levels(3, 1));
    assert_eq!(refused(program.multiply(squared, squared)), levels(1, 0));
    let cubic = Chebyshev(vec![0.0, 0.0, 0.0, 1.0]);
    assert_eq!(refused(program.polynomial_of(x, cubic, 0.5, 0.0)), levels(3, 1));
}

/// Real values have their own matrices, which a plan for any values has room for.
#[test]
fn a_plan_for_any_values_has_room_for_real_ones() {
    let peak = |values| {
        plan(set_for(&[], Some(10), 1).unwrap(), Wish { values, ..Wish::default() })
            .price()
            .unwrap()
            .peak()
    };
    let (any, real, complex) = (peak(None), peak(Some(Values::Real)), peak(Some(Values::Complex)));
    assert_eq!(any, real.max(complex));
}

/// A file of evaluation keys: the magic line, the header with its length, all bodies, the digest.
fn key_file(magic: &[u8; 16], header: &[u8], bodies: &[u8]) -> Vec<u8> {
    let length = (header.len() as u32).to_le_bytes();
    let mut file = [&magic[..], &length, header, bodies].concat();
    file.extend(blake3::hash(&file).as_bytes());
    file
}

/// The header of a file of keys, the place of the row in it, and the bodies.
fn parts_of(file: &[u8]) -> (Vec<u8>, usize, Vec<u8>) {
    let length = u32::from_le_bytes(file[16..20].try_into().unwrap()) as usize;
    let (header, bodies) = file[20..file.len() - 32].split_at(length);
    let row = b"{\"name\"";
    let at = header.windows(row.len()).position(|w| w == row).expect("a row");
    (header.to_vec(), at, bodies.to_vec())
}

#[test]
fn files_of_keys_hold_the_numbers_of_their_set() {
    let context = Context::new(toy(), true).unwrap();
    let secret = context.secret_key().unwrap();
    let keys = context.keys(&secret, &Needs::default()).unwrap();
    let mut file = vec![];
    context.write_keys(&keys, &mut file).unwrap();
    let (header, at, bodies) = parts_of(&file);
    assert_eq!(file, key_file(b"becalm ckks 0003", &header, &bodies));
    // Before the row stand a byte that says it is there and its length, in two bytes.
    let older = &header[..at - 3];
    let read = |file: &[u8]| context.read_keys(file).map(|keys| keys.key_id());
    assert_eq!(read(&key_file(b"becalm ckks 0002", older, &bodies)), Ok(secret.id()));
    let other = String::from_utf8_lossy(&header[at..]).replacen("\"range\":", "\"range\":1", 1);
    assert_ne!(other.as_bytes(), &header[at..]);
    let length = [(other.len() & 127 | 128) as u8, (other.len() >> 7) as u8];
    let other = [&header[..at - 2], &length, other.as_bytes()].concat();
    let refused = read(&key_file(b"becalm ckks 0003", &other, &bodies)).unwrap_err();
    assert_eq!(refused.kind(), "wrong_params");
    assert!(refused.detail().remedy.contains("make the keys again"), "{refused}");
}

/// Keys of `ckks_n15` have had more noise to the ephemeral secret since files hold the row.
#[test]
fn older_keys_of_a_set_that_has_changed_are_refused() {
    let context = Context::new(toy(), true).unwrap();
    let secret = context.secret_key().unwrap();
    let keys = context.keys(&secret, &Needs::default()).unwrap();
    let mut file = vec![];
    context.write_keys(&keys, &mut file).unwrap();
    let (header, at, _) = parts_of(&file);
    let name = b"\x0bckks_toy_12";
    assert!(header.starts_with(name));
    let path = std::env::temp_dir().join(format!("becalm-test-older-{}", std::process::id()));
    for (set, known) in [("ckks_n15", false), ("ckks_n14", true)] {
        let named = [&[set.len() as u8], set.as_bytes(), &header[name.len()..at - 3]].concat();
        let older = key_file(b"becalm ckks 0002", &named, &[]);
        std::fs::write(&path, &older).unwrap();
        let said = inspect(&path).unwrap();
        assert_eq!((said.params.as_str(), said.in_table), (set, known));
    }
    std::fs::remove_file(&path).unwrap();
}

/// Where no standard set fits, a toy that has the kinds is left, and its keys can be planned for the same wish.
#[test]
fn a_toy_is_left_where_nothing_fits() {
    let mixed = vec![Kind::Regular, Kind::SlotsFirst];
    let alone = Kind::all().map(|kind| (vec![kind], 1));
    for (kinds, iterations) in alone.chain([(vec![], 1), (vec![], 2), (mixed, 1)]) {
        let slots = kinds.contains(&Kind::Sparse).then_some(1024);
        let wish = Wish { kinds, iterations, slots, ..Wish::default() };
        let set = set_for(&wish.kinds, None, iterations).unwrap();
        let plan = plan(set, wish.clone());
        assert_eq!(plan.fit(None, true), Ok(Fit::AsAsked));
        match plan.fit(Some(0), true).unwrap() {
            Fit::Toy(toy) => {
                assert_eq!(toy.kind, becalm::params::Kind::Toy);
                let left = KeyPlan::new(toy, &wish).unwrap();
                assert_eq!(left.wish().kinds, plan.wish().kinds, "{}", toy.name);
            }
            other => panic!("{}: {other:?}", set.name),
        }
    }
}
