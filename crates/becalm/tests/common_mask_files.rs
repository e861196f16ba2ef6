//! Files of common-mask keys, ciphertexts and programs: written files are read again, and forged ones are refused.

mod harness;

use becalm::Result;
use becalm::backend::{Cpu, Evaluator};
use becalm::cipher::file::Trust;
use becalm::cipher::{EvaluationKey, KeyRole, Lwe, SecretKey, SlotKey};
use becalm::params::TfheParams;
use becalm::program::Program;
use becalm::tfhe::Table;
use harness::{with, with_params};
use serde_json::json;

fn key() -> SecretKey {
    SecretKey::generate(TfheParams::named("toy_cm_1_1_w2").unwrap(), true).unwrap()
}

fn any() -> Trust {
    Trust::insecure()
}

#[test]
fn keys_and_ciphertexts_survive() {
    let key = key();
    let again = SecretKey::from_bytes(&key.to_bytes().unwrap(), any()).unwrap();
    for role in [KeyRole::Small, KeyRole::Big, KeyRole::Slot(0), KeyRole::Slot(1)] {
        assert_eq!(again.expose(role), key.expose(role));
        assert_eq!(
            again.expose(role).len(),
            role.bodies(key.params()) * role.dimension(key.params())
        );
    }
    let x = again.encrypt(&[1, 2, 3]).unwrap();
    let read = Lwe::from_bytes(&x.to_bytes().unwrap(), any()).unwrap();
    assert_eq!(key.decrypt(&read).unwrap(), [1, 2, 3, 0]);
    let plain = key.encrypt_slot(1, &[2, 1], 4).unwrap();
    let read = Lwe::from_bytes(&plain.to_bytes().unwrap(), any()).unwrap();
    assert_eq!((read.role(), key.decrypt(&read).unwrap()), (KeyRole::Slot(1), vec![2, 1]));
    let evaluation = key.evaluation_key().unwrap();
    let read = EvaluationKey::from_bytes(&evaluation.to_bytes().unwrap(), any()).unwrap();
    assert_eq!(read.key_switch_words(), evaluation.key_switch_words());
    assert_eq!(read.bootstrap_words(), evaluation.bootstrap_words());
}

#[test]
fn keys_between_slots_survive_and_work() {
    let key = key();
    let turn = key.slot_map_key(&[vec![0, 1], vec![1, 0]]).unwrap();
    let read = |k: &SlotKey| SlotKey::from_bytes(&k.to_bytes().unwrap(), any()).unwrap();
    let mut evaluation = key.evaluation_key().unwrap();
    for slot_key in [key.pack_key().unwrap(), turn] {
        let again = read(&slot_key);
        assert_eq!((again.kind(), again.key_id()), (slot_key.kind(), slot_key.key_id()));
        evaluation = evaluation.with_slot_key(again).unwrap();
    }
    let evaluator = Evaluator::new(&Cpu::new(1).unwrap(), &evaluation).unwrap();
    let plain = [key.encrypt_slot(0, &[3], 4).unwrap(), key.encrypt_slot(0, &[1], 4).unwrap()];
    let packed = evaluator.pack(&[&plain[0], &plain[1]]).unwrap();
    assert_eq!(key.decrypt(&packed).unwrap(), [3, 1]);
    let turned = evaluator.slot_map(&packed, 0).unwrap();
    assert_eq!(key.decrypt(&turned).unwrap(), [1, 3]);
}

/// The kind of error that a load of altered bytes returns.
fn refusal<T>(loaded: Result<T>) -> &'static str {
    loaded.map(|_| "nothing").unwrap_or_else(|e| e.kind())
}

#[test]
fn made_up_slots_are_refused() {
    let key = key();
    let x = key.encrypt(&[1, 2]).unwrap().to_bytes().unwrap();
    let secret = key.to_bytes().unwrap();
    let evaluation = key.evaluation_key().unwrap().to_bytes().unwrap();
    for slots in
        [json!(0), json!(1), json!(3), json!(17), json!(1u64 << 62), json!(u64::MAX), json!(-1)]
    {
        for (file, load) in [
            (&x[..], (|b| Lwe::from_bytes(b, any()).map(drop)) as fn(&[u8]) -> Result<()>),
            (&secret, |b| SecretKey::from_bytes(b, any()).map(drop)),
            (&evaluation, |b| EvaluationKey::from_bytes(b, any()).map(drop)),
        ] {
            let under_its_name = with_params(file, |row| row["slots"] = slots.clone());
            assert_ne!(refusal(load(&under_its_name)), "nothing", "{slots}");
            let renamed = with_params(&under_its_name, |row| row["name"] = json!("mine"));
            assert_ne!(refusal(load(&renamed)), "nothing", "{slots}, renamed");
        }
    }
    for role in
        ["slot 2", "slot 4294967295", "slot 4294967296", "slot -1", "slot 01", "slot +1", "slot"]
    {
        assert_eq!(refusal(Lwe::from_bytes(&with(&x, "role", role), any())), "bad_file", "{role}");
    }
    // A role that the set has, but other words.
    assert_eq!(refusal(Lwe::from_bytes(&with(&x, "role", "slot 0"), any())), "bad_file");
    let classic = SecretKey::generate(TfheParams::named("toy_1_1").unwrap(), true).unwrap();
    let classic = classic.encrypt(&[1]).unwrap().to_bytes().unwrap();
    assert_eq!(refusal(Lwe::from_bytes(&with(&classic, "role", "slot 0"), any())), "bad_file");
}

#[test]
fn made_up_keys_between_slots_are_refused() {
    let key = key();
    let map = key.slot_map_key(&[vec![1, -1], vec![0, 2]]).unwrap().to_bytes().unwrap();
    let load = |bytes: &[u8]| refusal(SlotKey::from_bytes(bytes, any()));
    assert_eq!(load(&map), "nothing");
    for text in [
        "pack",
        "map",
        "map 1",
        "map 1 1 1",
        "map 01 1",
        "map -1 1",
        "map 1048577 0",
        "",
        "map 99999999999999999999 1",
    ] {
        assert_eq!(load(&with(&map, "slots", text)), "bad_file", "{text}");
    }
    assert_eq!(load(&map[..map.len() - 8]), "bad_file");
    let classic = |row: &mut serde_json::Value| row["slots"] = json!(1);
    assert_ne!(load(&with_params(&map, classic)), "nothing");
}

#[test]
fn programs_over_slots_survive_and_hostile_ones_are_refused() {
    let key = key();
    let p = key.params().clone();
    let tables = [Table::from_fn(&p, |m| m).unwrap(), Table::from_fn(&p, |m| 3 - m).unwrap()];
    let mut program = Program::new(p.clone());
    let x = program.input_like(&key.encrypt(&[1, 2]).unwrap());
    let y = program.lookup_slots(x, &tables).unwrap()[0];
    let one = program.extract(y, 1).unwrap();
    let moved = program.add_slots(y, &[1, -1]).unwrap();
    [one, moved].into_iter().for_each(|r| program.output(r).unwrap());
    let bytes = program.to_bytes().unwrap();
    assert_eq!(Program::from_bytes(&bytes, any()).unwrap(), program);
    // The same instructions for a set of another width, or of one slot.
    for name in ["toy_cm_1_1_w3_p", "toy_1_1"] {
        let row = serde_json::to_value(TfheParams::named(name).unwrap()).unwrap();
        let moved = with_params(&bytes, |params| *params = row.clone());
        assert_eq!(refusal(Program::from_bytes(&moved, any())), "bad_file", "{name}");
    }
}
