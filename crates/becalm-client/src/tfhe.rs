//! TFHE: secret and evaluation keys, ciphertexts, integers, and programs for a server.

use crate::arguments::{clear, files, integers, set, small_type, text};
use crate::objects::{self, Object, answer};
use becalm::apps::integer::{Clear, Integers, Operation, Word};
use becalm::apps::{Aim, Circuit};
use becalm::cipher::file::Trust;
use becalm::cipher::{Encoding, Lwe, SecretKey};
use becalm::program::{Program, RegInfo, RegType};
use becalm::tfhe::{Table, noise};
use becalm::{Error, Result};
use serde_json::json;
use std::rc::Rc;
use zeroize::Zeroizing;

fn lwe(file: &[u8]) -> Result<Lwe> {
    Lwe::from_bytes(file, Trust::default())
}

/// A fresh secret key of a set.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_generate(name: u32) -> i32 {
    answer(|| Ok(Object::Tfhe(Rc::new(SecretKey::generate(&*set(name)?, false)?))))
}

/// The secret key of a file.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_read(file: u32) -> i32 {
    answer(|| {
        let key = SecretKey::from_bytes(&objects::bytes(file)?, Trust::default())?;
        Ok(Object::Tfhe(Rc::new(key)))
    })
}

/// The file of a secret key. It is secret.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_write(key: u32) -> i32 {
    answer(|| Ok(Object::Bytes(objects::tfhe(key)?.to_bytes()?)))
}

/// The file of the evaluation key, for a server.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_evaluation_key(key: u32) -> i32 {
    answer(|| Ok(objects::tfhe(key)?.evaluation_key()?.to_bytes()?.into()))
}

/// Facts of the set of a key, as JSON. None of them is secret.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_facts(key: u32) -> i32 {
    answer(|| {
        let key = objects::tfhe(key)?;
        let p = key.params();
        let std = |variance: f64| variance.sqrt();
        let facts = json!({
            "set": p.name, "key": key.id().to_string(), "security": p.security_bits, "values": p.plaintext_modulus(),
            "log2_pfail": p.log2_pfail, "dimension": p.lwe_dimension, "ring": p.polynomial_size,
            "norm": p.max_norm2, "margin": Encoding::of(p).margin(),
            "fresh": std(noise::fresh(key.resting_role().fresh_noise(p), 64)),
            "bootstrapped": std(noise::bootstrap_output(p)),
        });
        Ok(Object::text(&facts.to_string()))
    })
}

/// Encrypts values below a bound. `seeded` stores the seed of the masks in their place.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_encrypt(key: u32, values: u32, below: u32, seeded: u32) -> i32 {
    answer(|| {
        let (key, values) = (objects::tfhe(key)?, integers(values)?);
        let batch = key.encrypt_as(&values, Encoding::of(key.params()), u64::from(below))?;
        Ok(file_of(&batch, seeded)?.into())
    })
}

fn file_of(batch: &Lwe, seeded: u32) -> Result<Vec<u8>> {
    if seeded != 0 { batch.to_bytes_seeded() } else { batch.to_bytes() }
}

/// The values of a batch.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_decrypt(key: u32, file: u32) -> i32 {
    answer(|| {
        let batch = lwe(&objects::bytes(file)?)?;
        Ok(Object::integers(&Zeroizing::new(objects::tfhe(key)?.decrypt(&batch)?)))
    })
}

/// The noise of each ciphertext of a batch, beside the given values: a fraction of the torus. It is secret.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_errors(key: u32, file: u32, values: u32) -> i32 {
    answer(|| {
        let (batch, values) = (lwe(&objects::bytes(file)?)?, integers(values)?);
        let errors = objects::tfhe(key)?.errors(&batch, &values)?;
        Ok(Object::floats(&Zeroizing::new(errors)))
    })
}

/// Encrypts integers of a type: a file for each digit of base 4, in the order in which a program takes them.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_encrypt_integers(key: u32, ty: u32, values: u32, seeded: u32) -> i32 {
    answer(|| {
        let (key, ty, values) = (objects::tfhe(key)?, small_type(ty)?, integers(values)?);
        let all: Vec<Clear> = values.iter().map(|value| clear(ty, *value)).collect();
        let all = Integers::encrypt(&key, ty, &Zeroizing::new(all))?;
        let digits = all.digits().iter().map(|digit| file_of(digit, seeded));
        Ok(Object::files(&digits.collect::<Result<Vec<_>>>()?))
    })
}

/// The integers of such files, each as the low 64 bits of its two's complement.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_decrypt_integers(key: u32, ty: u32, digits: u32) -> i32 {
    answer(|| {
        let (key, ty) = (objects::tfhe(key)?, small_type(ty)?);
        let digits = files(digits)?.iter().map(|file| lwe(file)).collect::<Result<Vec<_>>>()?;
        let values = Zeroizing::new(Integers::new(ty, digits)?.decrypt(&key)?);
        let low = values.iter().map(|value| value.low() as u64);
        Ok(Object::integers(&Zeroizing::new(low.collect::<Vec<_>>())))
    })
}

/// A program that looks values up in a table, which the server sees. The table has an entry for each value below the bound of the
/// encryption.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_program_table(name: u32, table: u32) -> i32 {
    answer(|| {
        let (params, values) = (set(name)?, integers(table)?);
        let mut program = Program::new(params.clone());
        let src = program.input_as(RegInfo {
            ty: RegType::Lwe(program.resting_role()),
            encoding: Encoding::of(&params),
            range: (0, values.len() as i64 - 1),
        });
        let dst = program.lookup(src, &Table::new(&params, &values)?)?;
        program.output(dst)?;
        Ok(program.to_bytes()?.into())
    })
}

/// A program for an operation, such as `ge`, on encrypted integers and one that the server sees.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_program_operation(name: u32, op: u32, ty: u32, operand: u32) -> i32 {
    answer(|| {
        let (params, op, ty) = (set(name)?, text(op)?, small_type(ty)?);
        let operand = integers(operand)?;
        let operand = operand.iter().map(|x| Word::clear(ty, clear(ty, *x)));
        let mut circuit = Circuit::new(params, Aim::Work)?;
        let x = circuit.input(ty)?;
        let mut words = vec![x.clone()];
        words.extend(operand.collect::<Result<Vec<_>>>()?);
        let made = Operation::named(&op)?.record(&mut circuit, &words)?;
        let recorded = circuit.finish(&[&x], &made.iter().collect::<Vec<_>>())?;
        Ok(recorded.program().to_bytes()?.into())
    })
}

/// A program that shows noise: values are bootstrapped, multiplied by `factor`, and bootstrapped again. The three results are the
/// values with the noise of a bootstrap, their multiples with noise that grew as much, and these with the noise of a bootstrap.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn tfhe_program_stretch(name: u32, factor: u32) -> i32 {
    answer(|| {
        let params = set(name)?;
        let values = params.plaintext_modulus();
        if factor == 0 || u64::from(factor) >= values {
            let (wanted, got) = (format!("a factor from 1 to {}", values - 1), factor.to_string());
            return Err(Error::bad_input("client", wanted, got, "choose one of these"));
        }
        let most = (values - 1) / u64::from(factor);
        let mut program = Program::new(params.clone());
        let src = program.input_as(RegInfo {
            ty: RegType::Lwe(program.resting_role()),
            encoding: Encoding::of(&params),
            range: (0, most as i64),
        });
        let same = Table::from_fn(&params, |x| x)?;
        let first = Table::new(&params, &(0..=most).collect::<Vec<_>>())?;
        let fresh = program.lookup(src, &first)?;
        let stretched = program.linear(&[(i64::from(factor), fresh)], 0)?;
        let calm = program.lookup(stretched, &same)?;
        [fresh, stretched, calm].into_iter().try_for_each(|reg| program.output(reg))?;
        Ok(program.to_bytes()?.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{bytes, give, said};

    fn words(all: &[u64]) -> u32 {
        give(Object::integers(all))
    }

    fn numbers(number: i32) -> Vec<u64> {
        let bytes = bytes(number as u32).unwrap();
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn values_and_integers_come_back() {
        let key = tfhe_generate(give(Object::text("tfhe_1_1"))) as u32;
        for seeded in [0, 1] {
            let x = tfhe_encrypt(key, words(&[3, 0, 2]), 4, seeded);
            assert_eq!(numbers(tfhe_decrypt(key, x as u32)), [3, 0, 2]);
        }
        // This set has no integers of several digits.
        let none = tfhe_encrypt_integers(key, give(Object::text("uint8")), words(&[200]), 1);
        assert_eq!(said(none)["kind"], "wrong_params");
        let key = tfhe_generate(give(Object::text("tfhe_2_2"))) as u32;
        let ty = || give(Object::text("int8"));
        let x = tfhe_encrypt_integers(key, ty(), words(&[-100i64 as u64, 100]), 1);
        assert_eq!(numbers(tfhe_decrypt_integers(key, ty(), x as u32)), [-100i64 as u64, 100]);
    }

    #[test]
    fn a_key_is_read_again_and_another_is_no_key() {
        let key = tfhe_generate(give(Object::text("tfhe_1_1"))) as u32;
        let again = tfhe_read(tfhe_write(key) as u32) as u32;
        let x = tfhe_encrypt(key, words(&[1]), 4, 1);
        assert_eq!(numbers(tfhe_decrypt(again, x as u32)), [1]);
        assert_eq!(said(tfhe_read(give(Object::text("no key"))))["kind"], "bad_file");
        assert_eq!(said(tfhe_generate(give(Object::text("toy_1_1"))))["kind"], "insecure");
    }

    #[test]
    fn programs_say_what_they_cannot_do() {
        let set = || give(Object::text("tfhe_2_2"));
        assert!(
            tfhe_program_stretch(set(), 5) > 0 && tfhe_program_table(set(), words(&[1, 2])) > 0
        );
        assert_eq!(said(tfhe_program_stretch(set(), 0))["kind"], "bad_input");
        assert_eq!(said(tfhe_program_table(set(), words(&[16])))["kind"], "bad_input");
    }
}
