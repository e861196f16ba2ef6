//! Files of strangers: cut, altered, or made to deceive. Each is a typed error, never a panic, and every loaded object is sound.

mod harness;

use becalm::apps::aes::{Content, encrypt_bytes};
use becalm::apps::integer::{Clear, Integers, Type};
use becalm::cipher::file::{self, Trust};
use becalm::cipher::{EvaluationKey, Glwe, Lwe, SecretKey};
use becalm::params::{Kind, TfheParams};
use becalm::program::Program;
use becalm::program::rlwe::CkksProgram;
use becalm::tfhe::Table;
use becalm::{Error, Result, UNWATCHED};
use harness::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// A load that drops its result.
type Load = fn(&[u8], Trust) -> Result<()>;
const LOADS: [(&str, Load); 9] = [
    ("secret key", |b, t| SecretKey::from_bytes(b, t).map(drop)),
    ("evaluation key", |b, t| EvaluationKey::from_bytes(b, t).map(drop)),
    ("lwe", |b, t| Lwe::from_bytes(b, t).map(drop)),
    ("glwe", |b, t| Glwe::from_bytes(b, t).map(drop)),
    ("program", |b, t| Program::from_bytes(b, t).map(drop)),
    ("seeded lwe", |b, t| Lwe::from_bytes(b, t).map(drop)),
    ("integers", |b, t| Integers::from_bytes(b, t).map(drop)),
    ("bits", |b, t| Content::from_bytes(b, t).map(drop)),
    ("program of CKKS", |b, t| CkksProgram::from_bytes(b, t).map(drop)),
];

/// One small file of each kind, in the order of [`LOADS`].
fn files() -> &'static [Vec<u8>; 9] {
    static FILES: OnceLock<[Vec<u8>; 9]> = OnceLock::new();
    FILES.get_or_init(|| {
        let key = SecretKey::generate(&tiny(), true).unwrap();
        let table = Table::from_fn(&tiny(), |m| 1 - m).unwrap();
        // Integers want tables of 16 values.
        let wide = SecretKey::generate(TfheParams::named("toy_2_2").unwrap(), true).unwrap();
        [
            key.to_bytes().unwrap().to_vec(),
            key.evaluation_key().unwrap().to_bytes().unwrap(),
            key.encrypt(&[1, 0, 1]).unwrap().to_bytes().unwrap(),
            key.encrypt_table(&table).unwrap().to_bytes().unwrap(),
            program(&tiny()).to_bytes().unwrap(),
            key.encrypt(&[1, 0, 1]).unwrap().to_bytes_seeded().unwrap(),
            integers(&wide).to_bytes(true).unwrap(),
            Content::Bytes.to_bytes(&encrypt_bytes(&wide, b"two").unwrap(), true).unwrap(),
            ckks_program().to_bytes().unwrap(),
        ]
    })
}

fn integers(key: &SecretKey) -> Integers {
    let values = [Clear::from(7u64), Clear::from(8u64)];
    Integers::encrypt(key, Type::Uint(5), &values).unwrap()
}

fn lwe() -> &'static [u8] {
    &files()[2]
}

fn lwe_error(bytes: &[u8]) -> Error {
    Lwe::from_bytes(bytes, Trust::insecure()).unwrap_err()
}

#[test]
fn a_file_cut_anywhere_or_with_anything_behind_is_refused() {
    for ((name, load), file) in LOADS.iter().zip(files()) {
        assert!(load(file, Trust::insecure()).is_ok(), "{name}");
        for end in 0..file.len() {
            let cut = load(&file[..end], Trust::insecure());
            assert!(matches!(cut, Err(Error::BadFile(_))), "{name} cut at {end}");
        }
        let longer = [&file[..], &[0; 8]].concat();
        assert!(matches!(load(&longer, Trust::insecure()), Err(Error::BadFile(_))));
    }
}

#[test]
fn a_file_of_another_kind_is_refused_by_name() {
    for (i, file) in files().iter().enumerate() {
        // With a seed or without, a batch is a batch.
        let same = |j: usize| j == i || [2, 5] == [i.min(j), i.max(j)];
        for (j, (name, load)) in LOADS.iter().enumerate().filter(|(j, _)| !same(*j)) {
            let error = load(file, Trust::insecure()).unwrap_err();
            assert!(matches!(error, Error::BadFile(_)), "{name} from {i}, {j}");
            let words = file::Kind::ALL.map(|kind| format!("{}, of the set ", kind.words()));
            assert!(words.iter().any(|kind| error.detail().got.starts_with(kind)), "{error}");
            assert!(!error.to_string().contains("becalm."), "{error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_flipped_bit_anywhere_is_found(kind in 0usize..7, at: prop::sample::Index, bit in 0u32..8) {
        let mut file = files()[kind].clone();
        let at = at.index(file.len());
        file[at] ^= 1 << bit;
        let found = LOADS[kind].1(&file, Trust::insecure());
        let typed = matches!(found, Err(Error::BadFile(_) | Error::WrongParams(_) | Error::Insecure(_)));
        prop_assert!(typed, "byte {at}, bit {bit}: {found:?}");
    }

    #[test]
    fn noise_is_no_file(bytes: Vec<u8>) {
        for (name, load) in LOADS {
            let found = load(&bytes, Trust::insecure());
            prop_assert!(matches!(found, Err(Error::BadFile(_))), "{name}: {found:?}");
        }
    }
}

#[test]
fn headers_that_lie_about_lengths_are_refused() {
    let (header, data) = split(lwe()).unwrap();
    for n in [0, 8, 1, 7, 1 << 16, (1 << 16) + 8, 1 << 32, u64::MAX, u64::MAX - 7] {
        let file = [&u64::to_le_bytes(n)[..], &lwe()[8..]].concat();
        assert!(matches!(lwe_error(&file), Error::BadFile(_)), "{n}");
    }
    // A header that is too long, though it is there.
    let mut long = header.clone();
    long["__metadata__"]["noise"] = Value::String("0".repeat(1 << 16));
    assert!(lwe_error(&seal(long, &data)).to_string().contains("header of at most"));
    let tensor = |shape: Value, offsets: Value| {
        let t = json!({"dtype": "U64", "shape": shape, "data_offsets": offsets});
        lwe_error(&edit(lwe(), |h, _| h["words"] = t))
    };
    let big = 1u64 << 61;
    for (shape, offsets) in [
        (json!([u64::MAX, u64::MAX]), json!([0, data.len()])),
        (json!([big, 8]), json!([0, 0])),
        (json!([big, 257]), json!([0, big])),
        (json!([1, 257]), json!([8, 2064])),
        (json!([3, 257]), json!([6168, 0])),
        (json!([257, 3]), json!([0, 6168])),
        (json!([771]), json!([0, 6168])),
        (json!([3, 257, 1]), json!([0, 6168])),
        (json!([]), json!([0, 8])),
        (json!([-1, 257]), json!([0, 6168])),
        (json!([3.0, 257]), json!([0, 6168])),
    ] {
        assert!(matches!(tensor(shape.clone(), offsets), Error::BadFile(_)), "{shape}");
    }
}

#[test]
fn tensors_of_other_names_types_or_numbers_are_refused() {
    let other = |change: fn(&mut Value, &mut Vec<u8>)| {
        let e = lwe_error(&edit(lwe(), change));
        assert!(matches!(e, Error::BadFile(_)), "{e}");
    };
    other(|h, _| h["words"]["dtype"] = "U8".into());
    other(|h, _| h["words"]["dtype"] = "F64".into());
    other(|h, _| h["words"]["more"] = 1.into());
    other(|h, _| h["other"] = json!({"dtype": "U8", "shape": [0], "data_offsets": [6168, 6168]}));
    other(|h, _| h["a"] = json!({"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}));
    other(|h, d| {
        // Words that are not aligned.
        h["a"] = json!({"dtype": "U8", "shape": [4], "data_offsets": [0, 4]});
        h["words"]["data_offsets"] = json!([4, 6172]);
        d.splice(0..0, [0; 4]);
    });
    other(|h, d| {
        h.as_object_mut().unwrap().remove("words");
        d.clear();
    });
    other(|h, _| {
        h.as_object_mut().unwrap().remove("__metadata__");
    });
}

#[test]
fn the_header_has_one_spelling() {
    let (header, data) = split(lwe()).unwrap();
    let text = header.to_string();
    let respelt = |text: &str| {
        let mut json = text.as_bytes().to_vec();
        json.resize(json.len().next_multiple_of(8), b' ');
        let file = [&(json.len() as u64).to_le_bytes(), &json[..], &data].concat();
        let e = lwe_error(&file);
        assert!(e.to_string().contains("canonical") || e.to_string().contains("JSON"), "{e}");
    };
    respelt(&text.replacen(':', ": ", 1));
    respelt(&text.replacen("format", "\\u0066ormat", 1));
    respelt(&text.replacen("\"words\":", "\"words\":{},\"words\":", 1));
    respelt(&text.replacen("\"format\":", "\"format\":\"becalm.glwe\",\"format\":", 1));
    respelt(&format!("{text}        "));
    respelt(&format!("{text}\n"));
}

#[test]
fn claims_outside_their_limits_are_refused() {
    let refused = |entry: &str, value: &str| {
        let e = lwe_error(&with(lwe(), entry, value));
        assert!(matches!(e, Error::BadFile(_)), "{entry} = {value}: {e}");
    };
    for value in ["", "2", "01", "1.0", "-1"] {
        refused("version", value);
    }
    for value in ["", "becalm", "becalm.LWE", "safetensors"] {
        refused("format", value);
    }
    for value in ["", "middle", "Big", "small"] {
        refused("role", value); // "small" exists, but the words are of the other width
    }
    for value in ["", "NaN", "inf", "-1e-30", "1.5", "1e400", "-0x1p3", "1,5"] {
        refused("noise", value);
    }
    for value in
        ["", "[1,0]", "[0]", "[0,1,2]", "[0,4]", "[-100,-99]", "[0,9223372036854775808]", "{}"]
    {
        refused("range", value);
    }
    refused("range", "[-9223372036854775808,9223372036854775807]");
    for value in
        [r#"{"values":0,"padding":true}"#, r#"{"values":4294967297,"padding":true}"#, "{}", "2"]
    {
        refused("encoding", value);
    }
    for value in [
        "",
        "00",
        &"0".repeat(31),
        &"0".repeat(33),
        &"G".repeat(32),
        &"A".repeat(32),
        &"é".repeat(16),
    ] {
        refused("key", value);
    }
    refused("more", "");
    assert!(Lwe::from_bytes(&with(lwe(), "key", &"a".repeat(32)), Trust::insecure()).is_ok());
}

#[test]
fn shapes_that_no_array_has_are_refused() {
    // Three ciphertexts, and two integers of three digits.
    let (lwe, integers) = (lwe(), &files()[6]);
    let read = |text: &str| {
        let file = with(lwe, "shape", text);
        Lwe::array_from_bytes(&file, Trust::insecure(), UNWATCHED).map(|found| found.1)
    };
    let of_integers = |text: &str| {
        let file = with(integers, "shape", text);
        Integers::array_from_bytes(&file, Trust::insecure(), UNWATCHED).map(|found| found.1)
    };
    let deep = |axes: usize| format!("[3{}]", ",1".repeat(axes - 1));
    let (long, huge, round) = (deep(33), "[0,2147483648]", "[4294967296,4294967296,3]");
    for text in [
        "",
        "[]",
        "[3]",
        "[2,2]",
        "[6]",
        "[-1,3]",
        "[3,1.0]",
        "[3, 1]",
        "[03,1]",
        "[+3,1]",
        "3",
        "{}",
        "[[3,1]]",
        "[3,null]",
        "[3,18446744073709551616]",
        "[18446744073709551615,3]",
        round,
        huge,
        &long,
        "[0,3]",
        "[3,0]",
    ] {
        assert!(matches!(read(text), Err(Error::BadFile(_))), "{text}");
        let file = with(lwe, "shape", text);
        assert!(matches!(Lwe::from_bytes(&file, Trust::insecure()), Err(Error::BadFile(_))));
        assert!(matches!(of_integers(text), Err(Error::BadFile(_))), "{text}");
    }
    assert_eq!((read("[1,3]"), of_integers("[2,1]")), (Ok(vec![1, 3]), Ok(vec![2, 1])));
    assert_eq!(read(&deep(32)).map(|shape| shape.len()), Ok(32));
    // Other kinds have no shape.
    let table = Glwe::from_bytes(&with(&files()[3], "shape", "[1,1]"), Trust::insecure());
    assert!(matches!(table, Err(Error::BadFile(_))));
    let plain = Lwe::array_from_bytes(lwe, Trust::insecure(), UNWATCHED).unwrap();
    assert_eq!(plain.1, [3], "a file without a shape has one axis");
}

#[test]
fn tables_that_claim_what_no_table_has_are_refused() {
    let file = &files()[3];
    let refused = |what: &str, file: &[u8]| {
        let got = Glwe::from_bytes(file, Trust::insecure());
        assert!(matches!(got, Err(Error::BadFile(_))), "{what}: {got:?}");
    };
    let encoding = r#"{"values":2,"padding":false}"#;
    for (entry, value) in [
        ("encoding", encoding),
        ("encoding", r#"{"values":0,"padding":true}"#),
        ("encoding", r#"{"values":1,"padding":true}"#), // fewer values than the table has
        ("range", "[0,2]"),
        ("range", "[1,1]"),
        ("range", "[-1,1]"),
        ("range", "[0,9223372036854775807]"),
    ] {
        refused(entry, &with(file, entry, value));
    }
    // Index, values, padding, least and greatest value of the output.
    for (at, word) in [
        (0, 256),
        (0, u64::MAX),
        (1, 0),
        (1, 1),
        (1, 1 << 33),
        (2, 2),
        (3, 2),
        (3, u64::MAX),
        (4, 2),
        (4, 1 << 63),
    ] {
        let other = edit(file, |_, d| d[8 * at..][..8].copy_from_slice(&word.to_le_bytes()));
        refused(&format!("word {at} = {word}"), &other);
    }
    for count in [0, 257] {
        let other = edit(file, |h, d| {
            let (row, words) = (d[..40].to_vec(), d[40..].to_vec());
            *d = [row.repeat(count), words].concat();
            h["outputs"]["shape"] = json!([count, 5]);
            h["outputs"]["data_offsets"] = json!([0, 40 * count]);
            h["words"]["data_offsets"] = json!([40 * count, d.len()]);
        });
        refused(&format!("{count} outputs"), &other);
    }
}

#[test]
fn a_checksum_of_other_contents_is_refused() {
    let mut file = lwe().to_vec();
    *file.last_mut().unwrap() ^= 1;
    let e = lwe_error(&file);
    assert!(e.to_string().contains("checksum"), "{e}");
    let (mut header, data) = split(lwe()).unwrap();
    header["__metadata__"]["checksum"] = "0".repeat(64).into();
    assert!(lwe_error(&join(&header, &data)).to_string().contains("checksum"));
}

#[test]
fn insecure_and_unknown_sets_are_refused_unless_allowed() {
    for ((name, load), file) in LOADS.iter().zip(files()) {
        let unknown = load(file, Trust::default());
        assert!(matches!(unknown, Err(Error::Insecure(_))), "{name}");
    }
    let toy = toy_key().encrypt(&[1]).unwrap().to_bytes().unwrap();
    assert!(matches!(Lwe::from_bytes(&toy, Trust::default()), Err(Error::Insecure(_))));
    assert!(Lwe::from_bytes(&toy, Trust::insecure()).is_ok());
}

#[test]
fn a_toy_cannot_dress_up() {
    let toy = toy_key().encrypt(&[1]).unwrap().to_bytes().unwrap();
    let dressed = with_params(&toy, |row| {
        row["kind"] = "Standard".into();
        row["security_bits"] = 999.0.into();
        row["log2_pfail"] = (-999.0).into();
        row["security_source"] = "trust me".into();
    });
    assert!(matches!(Lwe::from_bytes(&dressed, Trust::default()), Err(Error::Insecure(_))));
    // Allowed, it is the toy that the table knows.
    let ct = Lwe::from_bytes(&dressed, Trust::insecure()).unwrap();
    assert_eq!(**ct.params(), *TfheParams::named(TOY).unwrap());
    assert_eq!(ct.params().kind, Kind::Toy);
    // Nor under the name of a standard set, nor under a new name.
    let stolen = with_params(&dressed, |row| row["name"] = "tfhe_2_2".into());
    for trust in [Trust::default(), Trust::insecure()] {
        assert!(matches!(Lwe::from_bytes(&stolen, trust), Err(Error::WrongParams(_))));
    }
    let renamed = with_params(&dressed, |row| row["name"] = "tfhe_9_9".into());
    assert!(matches!(Lwe::from_bytes(&renamed, Trust::default()), Err(Error::Insecure(_))));
}

#[test]
fn parameter_sets_that_are_none_are_refused() {
    for (field, value) in [
        ("polynomial_size", json!(17)),
        ("polynomial_size", json!(1u64 << 40)),
        ("polynomial_size", json!(-16)),
        ("lwe_dimension", json!(0)),
        ("lwe_dimension", json!(u64::MAX)),
        ("glwe_dimension", json!(u64::MAX / 16 + 1)),
        ("pbs", json!({"base_log": 64, "level": 1})),
        ("ks", json!({"base_log": 1, "level": 4_000_000_000u64})),
        ("modulus", json!("Other")),
        ("lwe_noise", json!({"Gaussian": {"std": 1e308}})),
        ("message_modulus", json!(0)),
        ("carry_modulus", json!(1u64 << 63)),
        ("name", json!("")),
        ("max_norm2", Value::Null),
        ("log2_pfail", json!("low")),
    ] {
        // Those are fields of TFHE.
        for ((name, load), file) in LOADS.iter().zip(files()).take(8) {
            let file = with_params(file, |row| row[field] = value.clone());
            let got = load(&file, Trust::insecure());
            let typed = matches!(got, Err(Error::BadFile(_) | Error::WrongParams(_)));
            assert!(typed, "{name}, {field} = {value}: {got:?}");
        }
    }
}

#[test]
fn a_valid_set_of_another_shape_does_not_fit_the_tensors() {
    for ((name, load), file) in LOADS.iter().zip(files()).take(4) {
        let file = with_params(file, |row| row["polynomial_size"] = 512.into());
        assert!(matches!(load(&file, Trust::insecure()), Err(Error::BadFile(_))), "{name}");
    }
}

#[test]
fn secret_words_other_than_bits_are_refused() {
    let spoilt = edit(&files()[0], |_, d| d[1] = 1);
    let e = SecretKey::from_bytes(&spoilt, Trust::insecure()).err().unwrap();
    assert!(matches!(e, Error::BadFile(_)) && !e.to_string().contains("256"), "{e}");
}

#[test]
fn words_that_are_no_elements_are_refused() {
    // Modulo p.
    let p = TfheParams {
        name: "tiny_p".into(),
        ks_modulus_log2: 64,
        modulus: becalm::math::Modulus::Goldilocks,
        ..tiny()
    };
    let key = SecretKey::generate(&p, true).unwrap();
    let top = |_: &mut Value, d: &mut Vec<u8>| d[..8].fill(0xff);
    let ct = edit(&key.encrypt(&[1]).unwrap().to_bytes().unwrap(), top);
    assert!(matches!(lwe_error(&ct), Error::BadFile(_)));
    let evaluation = edit(&key.evaluation_key().unwrap().to_bytes().unwrap(), top);
    let refused = EvaluationKey::from_bytes(&evaluation, Trust::insecure());
    assert!(matches!(refused, Err(Error::BadFile(_))));
    // Modulo 2^64 every word is an element, but the key-switching key lives on the multiples of 2^32.
    let file = &files()[1];
    assert!(EvaluationKey::from_bytes(&edit(file, top), Trust::insecure()).is_ok());
    let odd = edit(file, |h, d| {
        let at = h["key_switch"]["data_offsets"][0].as_u64().unwrap() as usize;
        d[at] ^= 1;
    });
    assert!(matches!(EvaluationKey::from_bytes(&odd, Trust::insecure()), Err(Error::BadFile(_))));
}

#[test]
fn more_than_the_limit_is_refused_before_it_is_read() {
    let small = Trust { limit: 100, ..Trust::insecure() };
    for (name, load) in &LOADS[2..] {
        let e = load(&[0; 101], small).unwrap_err();
        assert!(e.to_string().contains("at most"), "{name}: {e}");
    }
    let path = std::env::temp_dir().join(format!("becalm-{}-limit", std::process::id()));
    // A sparse file of a TiB: nothing of it may be read or allocated.
    let file = std::fs::File::create(&path).unwrap();
    if file.set_len(1 << 40).is_ok() {
        assert!(matches!(Lwe::load(&path, Trust::default()), Err(Error::BadFile(_))));
        assert!(matches!(SecretKey::load(&path, Trust::default()), Err(Error::BadFile(_))));
        assert!(matches!(EvaluationKey::load(&path, Trust::default()), Err(Error::BadFile(_))));
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn seeds_and_types_that_are_none_are_refused() {
    let file = &files()[6];
    let read = |bytes: &[u8], limit| {
        Integers::from_bytes(bytes, Trust { limit, ..Trust::insecure() }).map(|x| x.ty())
    };
    assert_eq!(read(file, 1 << 20).unwrap(), Type::Uint(5));
    for name in ["uint05", "uint7", "int1", "uint257", "float", "uint+5", ""] {
        let wrong = edit(file, |h, _| h["__metadata__"]["type"] = json!(name));
        assert!(matches!(read(&wrong, 1 << 20), Err(Error::BadFile(_))), "{name:?}");
    }
    // Three bytes are not a key.
    for name in ["aes128_key", "key", "Bytes", ""] {
        let wrong = edit(&files()[7], |h, _| h["__metadata__"]["content"] = json!(name));
        let found = Content::from_bytes(&wrong, Trust::insecure());
        assert!(matches!(found, Err(Error::BadFile(_))), "{name:?}");
    }
    // As many digits of fewer bits: the value may be outside, which is the writer's own loss.
    let narrow = edit(file, |h, _| h["__metadata__"]["type"] = json!("int6"));
    assert_eq!(read(&narrow, 1 << 20).unwrap(), Type::Int(6));
    // Six ciphertexts of the big key: the masks count, not the file.
    let wide = TfheParams::named("toy_2_2").unwrap();
    let whole = 6 * 8 * (wide.big_dimension() as u64 + 1);
    assert!(read(file, whole).is_ok());
    assert!(read(file, whole - 1).unwrap_err().to_string().contains("at most"));
    // Past the last ciphertext that a seed has.
    let late = edit(file, |h, d| {
        let at = h["seed"]["data_offsets"][1].as_u64().unwrap() as usize;
        d[at - 4..at].copy_from_slice(&(u32::MAX - 3).to_le_bytes());
    });
    assert!(matches!(read(&late, 1 << 20), Err(Error::BadFile(_))));
    let cut = edit(file, |h, d| {
        d.pop();
        let end = d.len();
        h["seed"]["data_offsets"][1] = json!(end);
        h["seed"]["shape"] = json!([35]);
    });
    assert!(matches!(read(&cut, 1 << 20), Err(Error::BadFile(_))));
}

/// Instructions written by hand, in postcard.
fn with_body(body: &[u8]) -> Result<Program> {
    let file = edit(&files()[4], |h, d| {
        *d = body.to_vec();
        h["program"] =
            json!({"dtype": "U8", "shape": [body.len()], "data_offsets": [0, body.len()]});
    });
    Program::from_bytes(&file, Trust::insecure())
}

#[test]
fn programs_that_the_recorder_would_not_write_are_refused() {
    assert!(with_body(&[0, 0, 0, 0, 0]).is_ok());
    for body in [
        &[][..],
        &[0, 0, 0, 0],
        &[0, 0, 0, 0, 0, 0],
        // 2^32 registers, tables or outputs that are not there.
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        &[0, 0, 0, 1, 0],
        &[0, 0, 0, 0, 1, 7],
        // An instruction that does not exist, one without terms, one that reads its own result.
        &[0, 1, 9, 0, 0, 0, 0],
        &[1, 0, 1, 2, 1, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 1, 2, 1, 0, 2, 1, 0, 0, 1, 2, 0, 0, 0, 0, 0],
    ] {
        let got = with_body(body);
        assert!(matches!(got, Err(Error::BadFile(_))), "{body:?}: {got:?}");
    }
}

/// Shares and parts that are altered at random. Their files are longer than those of TFHE, so there are fewer rounds.
#[test]
fn mutated_shares_and_parts_do_no_harm() {
    let files = threshold_files();
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut loaded = [0; 3];
    for round in 0..1500 {
        let kind = round % 3;
        loaded[kind] += fuzz_threshold(&mutate(&files[kind], &mut dice)) as usize;
    }
    eprintln!("loaded of 500 each: {loaded:?}");
    assert!(loaded.iter().all(|n| *n > 10));
    for file in &files[..3] {
        for end in (0..file.len()).step_by(997).chain(file.len() - 9..file.len()) {
            assert!(!fuzz_threshold(&file[..end]), "cut at {end}");
        }
    }
}

/// The fuzz targets on files that are altered at random, always the same ones. With a right checksum, which
/// [`mutate`] gives, a good part of them load.
#[test]
fn mutated_files_do_no_harm() {
    let fuzz: [fn(&[u8]) -> bool; 7] = [
        fuzz_evaluation_key,
        fuzz_evaluation_key,
        fuzz_ciphertext,
        fuzz_ciphertext,
        fuzz_program,
        fuzz_ciphertext,
        fuzz_ciphertext,
    ];
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut loaded = [0; 7];
    for round in 0..28_000 {
        let kind = round % 7;
        loaded[kind] += fuzz[kind](&mutate(&files()[kind], &mut dice)) as usize;
    }
    // These decrypt under the toy key, too.
    let seed = toy_key().encrypt(&[1, 0]).unwrap().to_bytes().unwrap();
    for _ in 0..2000 {
        fuzz_ciphertext(&mutate(&seed, &mut dice));
    }
    eprintln!("loaded of 4000 each: {loaded:?}");
    assert!(loaded.iter().all(|n| *n > 80));
}

/// The same with programs of CKKS, of which each takes longer: their chain of moduli is made anew.
#[test]
fn mutated_programs_of_ckks_do_no_harm() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let loaded = (0..1000).filter(|_| fuzz_program(&mutate(&files()[8], &mut dice))).count();
    eprintln!("loaded of 1000: {loaded}");
    assert!(loaded > 20);
}
