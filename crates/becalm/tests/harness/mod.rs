//! The checks of hostile bytes, which the tests and the fuzz targets share: bytes are loaded, and an object that loads must
//! survive every public call and be written back to an equal file. Also the tools of an attacker who knows the format: headers
//! are edited and sealed with a right checksum.
#![allow(dead_code)] // Each test file uses its part.

use becalm::Error;
use becalm::apps::integer::Integers;
use becalm::bridge::{BridgeKey, PackingKey};
use becalm::cipher::file::Trust;
use becalm::cipher::{Encoding, EvaluationKey, Glwe, KeyId, KeyRole, Lwe, SecretKey};
use becalm::ckks::{Chain, Chebyshev, Context, KeyShare, Matrix, PartialDecryption};
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, TfheParams};
use becalm::program::circuit::Circuit;
use becalm::program::rlwe::CkksProgram;
use becalm::program::{Program, isa};
use becalm::tfhe::Table;
use serde_json::Value;
use std::sync::OnceLock;

/// The smallest toy of the table.
pub const TOY: &str = "toy_boolean_ks_pbs";

/// A set of no table, whose evaluation key is small.
pub fn tiny() -> TfheParams {
    TfheParams {
        name: "tiny".into(),
        lwe_dimension: 4,
        source: "tests".into(),
        ..TfheParams::named(TOY).unwrap().clone()
    }
}

/// A secret key of the smallest toy.
pub fn toy_key() -> &'static SecretKey {
    static KEY: OnceLock<SecretKey> = OnceLock::new();
    KEY.get_or_init(|| SecretKey::generate(TfheParams::named(TOY).unwrap(), true).unwrap())
}

/// A program with every instruction on plain ciphertexts; behind a common mask, without an encrypted table.
pub fn program(params: &TfheParams) -> Program {
    let mut p = Program::new(std::sync::Arc::new(params.clone()));
    let e = Encoding::of(params);
    let (a, b) = (p.input(e), p.input(e));
    let glwe = (params.slots == 1).then(|| p.input_table(e, e.values as i64 - 1));
    let negate = Table::from_fn(params, |m| (1 - m % 2) % 2).unwrap();
    let c = p.lookup(a, &negate).unwrap();
    let sum = p.linear(&[(1, c), (-1, b)], 1).unwrap();
    let switch_first = p.resting_role() == KeyRole::Big;
    let small = if switch_first { p.key_switch(b).unwrap() } else { b };
    let wanted = negate.outputs().to_vec();
    let d = match glwe {
        Some(glwe) => p.bootstrap_encrypted(small, glwe, &wanted).unwrap(),
        None => p.bootstrap(small, &negate).unwrap(),
    };
    let e = p.key_switch(d[0]).unwrap();
    p.output(sum).unwrap();
    p.output(e).unwrap();
    p
}

/// A program of CKKS with a list of each kind: a matrix, a polynomial, one value for all slots and values for each.
pub fn ckks_program() -> CkksProgram {
    let chain = Chain::new(CkksParams::named("ckks_toy_12").unwrap()).unwrap();
    let mut p = CkksProgram::new(&chain);
    let x = p.input(6, 8).unwrap();
    let mut map = Matrix::zero(8);
    for k in [0, 1, 5] {
        let entries = map.diagonal(k).iter_mut().enumerate();
        entries.for_each(|(a, x)| *x = Complex::new(k as f64 / 8.0, a as f64 / -64.0));
    }
    let y = p.linear(x, map, 2, 1e9).unwrap();
    let scale = chain.scale(3).unwrap();
    let y = p.polynomial(y, Chebyshev(vec![0.0, 1.0, 0.5]), scale).unwrap();
    let y = p.add_plain(y, &[Complex::from(0.25)]).unwrap();
    let values: Vec<Complex> = (0..8).map(|j| Complex::new(f64::from(j) / 8.0, 0.5)).collect();
    let y = p.multiply_plain(y, &values).unwrap();
    p.output(y).unwrap();
    p
}

/// The JSON header and the tensors of a file.
pub fn split(file: &[u8]) -> Option<(Value, Vec<u8>)> {
    let n = u64::from_le_bytes(*file.first_chunk::<8>()?);
    let end = usize::try_from(n).ok()?.checked_add(8)?;
    let header = serde_json::from_slice(file.get(8..end)?).ok()?;
    Some((header, file[end..].to_vec()))
}

/// A file of this header and these tensors, without a right checksum.
pub fn join(header: &Value, data: &[u8]) -> Vec<u8> {
    let mut json = header.to_string().into_bytes();
    json.resize(json.len().next_multiple_of(8), b' ');
    [&(json.len() as u64).to_le_bytes(), &json[..], data].concat()
}

/// [`join`], with the checksum that belongs there.
pub fn seal(mut header: Value, data: &[u8]) -> Vec<u8> {
    let entry = |h: &mut Value, sum: String| {
        if let Some(m) = h.get_mut("__metadata__").and_then(Value::as_object_mut) {
            m.insert("checksum".into(), sum.into());
        }
    };
    entry(&mut header, "0".repeat(64));
    let sum = blake3::hash(&join(&header, data));
    entry(&mut header, sum.to_hex().to_string());
    join(&header, data)
}

/// The file with its header and tensors changed, and a right checksum.
pub fn edit(file: &[u8], change: impl FnOnce(&mut Value, &mut Vec<u8>)) -> Vec<u8> {
    let (mut header, mut data) = split(file).unwrap();
    change(&mut header, &mut data);
    seal(header, &data)
}

/// The file with one entry of its metadata changed.
pub fn with(file: &[u8], entry: &str, value: &str) -> Vec<u8> {
    edit(file, |h, _| h["__metadata__"][entry] = value.into())
}

/// The file with its parameter set changed.
pub fn with_params(file: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    edit(file, |h, _| {
        let entry = &mut h["__metadata__"]["params"];
        let mut row = serde_json::from_str(entry.as_str().unwrap()).unwrap();
        change(&mut row);
        *entry = Value::String(row.to_string());
    })
}

/// Bytes as they are, and, if they have a header, as they are with a right checksum. True if one of them loaded.
fn sealed(bytes: &[u8], mut each: impl FnMut(&[u8]) -> bool) -> bool {
    let loaded = each(bytes);
    let sealed = split(bytes).map(|(header, data)| seal(header, &data));
    sealed.is_some_and(|bytes| each(&bytes)) || loaded
}

/// Refusals are typed, and say what to do.
fn loaded<T>(result: Result<T, Error>) -> Option<T> {
    if let Err(e) = &result {
        let kinds = ["bad_file", "wrong_params", "insecure", "unsupported"];
        assert!(kinds.contains(&e.kind()), "{e}");
        assert!(!e.detail().remedy.is_empty() && e.to_string().len() < 2000);
    }
    result.ok()
}

/// The toy key, called as the file calls its own.
fn key_named(id: KeyId) -> SecretKey {
    let hex: String = id.0.iter().map(|b| format!("{b:02x}")).collect();
    let file = with(&toy_key().to_bytes().unwrap(), "key", &hex);
    SecretKey::from_bytes(&file, Trust::insecure()).unwrap()
}

/// Bytes that claim to be ciphertexts.
pub fn fuzz_ciphertext(bytes: &[u8]) -> bool {
    sealed(bytes, |bytes| {
        loaded(Lwe::from_bytes(bytes, Trust::default()));
        let lwe = loaded(Lwe::from_bytes(bytes, Trust::insecure()));
        let glwe = loaded(Glwe::from_bytes(bytes, Trust::insecure()));
        lwe.iter().for_each(use_lwe);
        glwe.iter().for_each(use_glwe);
        let integers = loaded(Integers::from_bytes(bytes, Trust::insecure()));
        integers.iter().for_each(use_integers);
        lwe.is_some() || glwe.is_some() || integers.is_some()
    })
}

fn use_integers(x: &Integers) {
    assert_eq!(x.digits().len(), x.ty().digits());
    let again = x.to_bytes(false).unwrap();
    let second = Integers::from_bytes(&again, Trust::insecure()).unwrap();
    assert_eq!(second.to_bytes(false).unwrap(), again);
}

fn use_glwe(c: &Glwe) {
    assert!(c.noise_variance().is_finite() && !format!("{c:?}").is_empty());
    assert!(c.input().padding && (0..c.input().values as i64).contains(&c.limit()));
    let n = c.params().polynomial_size;
    assert!((1..=n).contains(&c.outputs().len()) && c.outputs().iter().all(|o| o.index < n));
    let again = c.to_bytes().unwrap();
    let second = Glwe::from_bytes(&again, Trust::insecure()).unwrap();
    assert_eq!(second.to_bytes().unwrap(), again);
}

fn use_lwe(c: &Lwe) {
    assert!(c.noise_variance().is_finite() && !format!("{c:?}").is_empty());
    let again = c.to_bytes().unwrap();
    let second = Lwe::from_bytes(&again, Trust::insecure()).unwrap();
    assert_eq!(second.to_bytes().unwrap(), again);
    assert_eq!(c.words(), second.words());
    let _ = (c.add(c), c.sub(c), c.negate(), c.scale(i64::MIN), c.scale(3));
    let _ = (c.add_constant(i64::MAX), Lwe::concat(&[c.clone(), second]));
    let _ = (c.slice(0..c.len()), c.slice(c.len()..usize::MAX));
    let _ = Lwe::trivial(c, &[0, 1]);
    if **c.params() == **toy_key().params() {
        match key_named(c.key_id()).decrypt(c) {
            Ok(values) => {
                let below = |v: &u64| *v < c.encoding().values;
                assert!(values.len() == c.len() && values.iter().all(below));
            }
            // The noise that a file claims may be too much to decrypt.
            Err(e) => assert!(matches!(e, Error::TooNoisy(_)), "{e}"),
        }
    }
}

/// Bytes that claim to be an evaluation key, a secret key, or a key of the bridge.
pub fn fuzz_evaluation_key(bytes: &[u8]) -> bool {
    sealed(bytes, |bytes| {
        loaded(EvaluationKey::from_bytes(bytes, Trust::default()));
        let evaluation = loaded(EvaluationKey::from_bytes(bytes, Trust::insecure()));
        let secret = loaded(SecretKey::from_bytes(bytes, Trust::insecure()));
        evaluation.iter().for_each(use_evaluation_key);
        secret.iter().for_each(use_secret_key);
        evaluation.is_some() || secret.is_some() || is_bridge(bytes)
    })
}

/// Whether bytes are a key of the bridge, which is written back to an equal file.
fn is_bridge(bytes: &[u8]) -> bool {
    let trust = Trust::insecure();
    let bridge = loaded(BridgeKey::from_bytes(bytes, trust)).map(|key| {
        let again = key.to_bytes().unwrap();
        assert_eq!(BridgeKey::from_bytes(&again, trust).unwrap().to_bytes().unwrap(), again);
    });
    let packing = loaded(PackingKey::from_bytes(bytes, trust)).map(|key| {
        let again = key.to_bytes().unwrap();
        assert_eq!(PackingKey::from_bytes(&again, trust).unwrap().to_bytes().unwrap(), again);
    });
    bridge.or(packing).is_some()
}

fn use_evaluation_key(key: &EvaluationKey) {
    let again = key.to_bytes().unwrap();
    let second = EvaluationKey::from_bytes(&again, Trust::insecure()).unwrap();
    assert_eq!(second.to_bytes().unwrap(), again);
    let p = key.params();
    if p.lwe_dimension * p.big_dimension() < 1 << 16 {
        let reduced = |words: Vec<u64>| words.iter().all(|w| p.modulus.is_reduced(*w));
        assert!(reduced(key.bootstrap_words()) && reduced(key.key_switch_words()));
    }
}

fn use_secret_key(key: &SecretKey) {
    if key.params().big_dimension() < 1 << 12 {
        let ct = key.encrypt(&[1, 0]).unwrap();
        assert_eq!(key.decrypt(&ct).unwrap().len(), 2);
    }
}

/// The context of the smallest toy of CKKS.
pub fn toy_context() -> &'static Context {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    let set = || CkksParams::named("ckks_toy_12").unwrap();
    CONTEXT.get_or_init(|| Context::new(set(), true).unwrap())
}

/// The files of both shares of a key among two parties, of a part of a decryption, and of its ciphertext.
pub fn threshold_files() -> [Vec<u8>; 4] {
    let context = toy_context();
    let secret = context.secret_key().unwrap();
    let shares = KeyShare::split(context, &secret, 2, 2).unwrap();
    let x = context.encrypt(&[0.5.into()], 1, &secret).unwrap();
    let bits = shares[0].bits_to_decrypt_partially(context, &x, 1).unwrap();
    let part = shares[0].decrypt_partially(context, &x, &[1, 2], bits, 1).unwrap();
    [
        shares[0].to_bytes(context).unwrap().to_vec(),
        shares[1].to_bytes(context).unwrap().to_vec(),
        part.to_bytes(context).unwrap(),
        context.ciphertext_to_bytes(&x).unwrap(),
    ]
}

/// Bytes that claim to be a share of a key, or a part of a decryption.
pub fn fuzz_threshold(bytes: &[u8]) -> bool {
    let context = toy_context();
    sealed(bytes, |bytes| {
        let share = loaded(KeyShare::from_bytes(context, bytes, Trust::insecure()));
        let part = loaded(PartialDecryption::from_bytes(context, bytes, Trust::insecure()));
        share.iter().for_each(use_share);
        part.iter().for_each(use_part);
        share.is_some() || part.is_some()
    })
}

fn use_share(share: &KeyShare) {
    let context = toy_context();
    assert!((1..=share.parties()).contains(&share.party()) && share.spent() == 0.0);
    assert!((2..=share.parties()).contains(&share.threshold()));
    let again = share.to_bytes(context).unwrap();
    let second = KeyShare::from_bytes(context, &again, Trust::insecure()).unwrap();
    assert_eq!(second.to_bytes(context).unwrap(), again);
}

fn use_part(part: &PartialDecryption) {
    let context = toy_context();
    assert!(part.quorum().contains(&part.party()) && !format!("{part:?}").is_empty());
    let again = part.to_bytes(context).unwrap();
    assert!(PartialDecryption::from_bytes(context, &again, Trust::insecure()).unwrap() == *part);
    // One part is no quorum, and this one may be of any ciphertext.
    static CIPHERTEXT: OnceLock<Vec<u8>> = OnceLock::new();
    let file = CIPHERTEXT.get_or_init(|| threshold_files()[3].clone());
    let x = context.ciphertext_from_bytes(file, Trust::insecure()).unwrap();
    let combined = PartialDecryption::combine(context, &x, std::slice::from_ref(part));
    assert!(combined.is_err_and(|e| ["wrong_key", "bad_input"].contains(&e.kind())));
}

/// Bytes that claim to be a program.
pub fn fuzz_program(bytes: &[u8]) -> bool {
    sealed(bytes, |bytes| {
        loaded(Program::from_bytes(bytes, Trust::default()));
        let program = loaded(Program::from_bytes(bytes, Trust::insecure()));
        program.iter().for_each(use_program);
        let ckks = loaded(CkksProgram::from_bytes(bytes, Trust::insecure()));
        ckks.iter().for_each(use_ckks_program);
        program.is_some() || ckks.is_some()
    })
}

fn use_ckks_program(p: &CkksProgram) {
    assert!(p.waves().len() <= p.ops().len());
    let (needs, _) = (p.needs(), p.cost());
    let again = CkksProgram::from_bytes(&p.to_bytes().unwrap(), Trust::insecure()).unwrap();
    assert!(again == *p && again.needs() == needs);
}

fn use_program(p: &Program) {
    p.validate().unwrap();
    assert!(p.cost().waves <= p.ops().len());
    for noise in [0.0, p.params().glwe_variance(), 1.0] {
        if let Ok(found) = p.follow(&vec![noise; p.inputs().len()]) {
            assert_eq!(found.noise.len(), p.registers());
        }
    }
    let again = Program::from_bytes(&p.to_bytes().unwrap(), Trust::insecure()).unwrap();
    assert!(again == *p);
}

/// Reads bytes as a circuit. True if they are one.
pub fn fuzz_circuit(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let circuit = match Circuit::parse(text) {
        Ok(circuit) => circuit,
        Err(e) => {
            assert!(e.kind() == "bad_input" && !e.detail().remedy.is_empty(), "{e}");
            assert!(e.to_string().len() < 1000, "{e}");
            return false;
        }
    };
    let bits = circuit.inputs().iter().map(|p| p.width()).sum();
    let wanted: usize = circuit.outputs().iter().map(|p| p.width()).sum();
    assert_eq!(circuit.evaluate(&vec![0; bits]).unwrap().len(), wanted);
    true
}

/// Reads bytes as instructions of the processor, text or binary. True if they are instructions.
pub fn fuzz_isa(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).ok();
    let programs = [isa::decode(bytes).ok(), text.and_then(|text| isa::assemble(text).ok())];
    for program in programs.iter().flatten() {
        assert_eq!(isa::assemble(&isa::disassemble(program)).as_ref(), Ok(program));
        if let Ok(binary) = isa::encode(program) {
            assert_eq!(isa::decode(&binary).as_ref(), Ok(program));
        }
    }
    programs.iter().any(Option::is_some)
}

/// A small generator (xorshift64*), so that every run tries the same.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % sides.max(1)
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}

/// A file with something changed: raw bytes, an entry of the header, or the tensors with their lengths kept right.
pub fn mutate(file: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for _ in 0..=dice.roll(3) {
        bytes = match dice.roll(4) {
            0 => raw(bytes, dice),
            1 => edited(&bytes, dice, spoil_header),
            _ => edited(&bytes, dice, spoil_data),
        };
    }
    bytes
}

/// [`mutate`] in the buffer of a fuzzer; the new length.
pub fn mutate_within(buffer: &mut [u8], length: usize, seed: u32) -> usize {
    let altered = mutate(&buffer[..length], &mut Dice(u64::from(seed) << 1 | 1));
    let length = altered.len().min(buffer.len());
    buffer[..length].copy_from_slice(&altered[..length]);
    length
}

fn edited(file: &[u8], dice: &mut Dice, spoil: fn(&mut Value, &mut Vec<u8>, &mut Dice)) -> Vec<u8> {
    match split(file) {
        Some((mut header, mut data)) => {
            spoil(&mut header, &mut data, dice);
            seal(header, &data)
        }
        None => file.to_vec(),
    }
}

fn raw(mut bytes: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let at = dice.roll(bytes.len());
    match dice.roll(3) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, dice.roll(256) as u8),
        _ => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << dice.roll(8)),
    }
    bytes
}

const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "16",
    "255",
    "4096",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1e-30",
    "1e308",
    "0.5",
];
const TEXTS: [&str; 12] = [
    "",
    "1",
    "2",
    "0",
    "big",
    "small",
    "[0,1]",
    "[-9223372036854775808,9223372036854775807]",
    "NaN",
    "inf",
    "becalm.lwe",
    "{\"values\":4294967296,\"padding\":false}",
];

fn spoil_header(header: &mut Value, _: &mut Vec<u8>, dice: &mut Dice) {
    let number =
        || -> Vec<Value> { NUMBERS.iter().map(|n| serde_json::from_str(n).unwrap()).collect() };
    if let (0, Some(text)) = (dice.roll(2), header["__metadata__"]["params"].as_str()) {
        if let Ok(Value::Object(mut row)) = serde_json::from_str(text) {
            let names: Vec<String> = row.keys().cloned().collect();
            let name = dice.pick(&names).clone();
            row.insert(name, dice.pick(&number()).clone());
            header["__metadata__"]["params"] = Value::String(Value::Object(row).to_string());
        }
        return;
    }
    let part = dice.roll(2);
    let Some(map) = header.as_object_mut() else {
        return;
    };
    let names: Vec<String> = map.keys().cloned().collect();
    if names.is_empty() {
        return;
    }
    let name = dice.pick(&names).clone();
    match map.get_mut(&name).and_then(Value::as_object_mut) {
        Some(inner) if !inner.is_empty() => {
            let names: Vec<String> = inner.keys().cloned().collect();
            let value = match (part, name.as_str()) {
                (_, "__metadata__") => Value::from(*dice.pick(&TEXTS)),
                (0, _) => dice.pick(&number()).clone(),
                _ => vec![dice.pick(&number()).clone(), dice.pick(&number()).clone()].into(),
            };
            inner.insert(dice.pick(&names).clone(), value);
        }
        _ => {
            map.remove(&name);
        }
    }
}

fn spoil_data(header: &mut Value, data: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.roll(data.len());
    match dice.roll(8) {
        0 => data.truncate(at),
        1 => data.insert(at, *dice.pick(&[0, 1, 2, 127, 128, 255])),
        2..6 => data.iter_mut().skip(at / 8 * 8).take(1).for_each(|b| *b ^= 1 << dice.roll(3)),
        _ => {
            data.iter_mut().skip(at).take(1 + dice.roll(8)).for_each(|b| *b = dice.roll(256) as u8)
        }
    }
    // The last tensor takes what there is.
    let length = data.len();
    let Some(map) = header.as_object_mut() else {
        return;
    };
    let last = map.iter_mut().rfind(|(name, _)| *name != "__metadata__");
    if let Some((_, tensor)) = last
        && let Some(from) = tensor["data_offsets"][0].as_u64()
    {
        tensor["data_offsets"] = vec![from, length as u64].into();
        if tensor["dtype"] == "U8" {
            tensor["shape"] = vec![length.saturating_sub(from as usize)].into();
        }
    }
}
