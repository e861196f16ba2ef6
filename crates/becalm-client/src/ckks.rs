//! CKKS: secret keys, the keys of a bootstrap, ciphertexts of real numbers, and the program of the bootstrap.
//!
//! The file of the keys is hundreds of megabytes. It leaves the module in pieces while it is written, so that it never lies in the
//! module's memory as a whole beside the keys themselves.

use crate::arguments::{floats, text};
use crate::objects::{self, Object, answer};
use crate::owner::Owner;
use crate::page;
use becalm::cipher::file::Trust;
use becalm::math::complex::Complex;
use serde_json::json;
use std::io::{self, Write};
use std::ops::ControlFlow;
use zeroize::Zeroizing;

/// Hands what is written to the page, and takes its digest.
struct Pieces(blake3::Hasher);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        page::take(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A fresh secret key of a set with a bootstrap of this kind.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn ckks_generate(name: u32, kind: u32) -> i32 {
    answer(|| Ok(Object::Ckks(Owner::new(&text(name)?, &text(kind)?)?.into())))
}

/// Facts of the set of a key, as JSON. None of them is secret.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn ckks_facts(key: u32) -> i32 {
    answer(|| {
        let owner = objects::ckks(key)?;
        let p = owner.context.params();
        let facts = json!({
            "set": p.name, "key": owner.secret.id().to_string(), "security": p.security_bits, "ring": p.degree(),
            "slots": p.slots(), "level": owner.level(), "levels": p.levels, "stored": owner.plan.price()?.stored,
            "bits": owner.program.error().map(|error| -error.log2()),
        });
        Ok(Object::text(&facts.to_string()))
    })
}

/// Makes the keys for the bootstrap and hands their file to the page in pieces. The result is the digest of the file.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn ckks_evaluation_keys(key: u32) -> i32 {
    answer(|| {
        let owner = objects::ckks(key)?;
        let progress = |done: usize, all: usize| {
            page::progress(done, all);
            ControlFlow::Continue(())
        };
        let (needs, form) = (owner.plan.needs(), owner.plan.form());
        let keys = owner.context.keys_with(&owner.secret, &needs, form, None, &progress)?;
        let mut pieces = Pieces(blake3::Hasher::new());
        owner.context.write_noted_keys(&keys, &owner.plan.note(), &mut pieces)?;
        Ok(Object::text(&pieces.0.finalize().to_hex()))
    })
}

/// The program of the bootstrap.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn ckks_program(key: u32) -> i32 {
    answer(|| Ok(objects::ckks(key)?.program.to_bytes()?.into()))
}

/// Encrypts real numbers of absolute value up to 1 at the level that the bootstrap takes.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn ckks_encrypt(key: u32, values: u32) -> i32 {
    answer(|| {
        let (owner, values) = (objects::ckks(key)?, floats(values)?);
        let all: Vec<Complex> = values.iter().map(|x| Complex { re: *x, im: 0.0 }).collect();
        let x = owner.context.encrypt_within(&all, 1.0, owner.level(), &owner.secret)?;
        Ok(owner.context.ciphertext_to_bytes(&x)?.into())
    })
}

/// The real parts of the values of a ciphertext.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn ckks_decrypt(key: u32, file: u32) -> i32 {
    answer(|| {
        let owner = objects::ckks(key)?;
        let x = owner.context.ciphertext_from_bytes(&objects::bytes(file)?, Trust::default())?;
        let values = owner.context.decrypt(&x, &owner.secret)?;
        Ok(Object::floats(&Zeroizing::new(values.iter().map(|x| x.re).collect::<Vec<_>>())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{bytes, give, said};

    #[test]
    fn a_vector_comes_back_and_a_set_without_a_bootstrap_is_none() {
        let key = |set: &str, kind: &str| {
            ckks_generate(give(Object::text(set)), give(Object::text(kind)))
        };
        assert_eq!(said(key("ckks_n14", "regular"))["kind"], "wrong_params");
        assert_eq!(said(key("ckks_toy_12", "regular"))["kind"], "insecure");
        assert_eq!(said(key("ckks_n15", "no such"))["kind"], "bad_input");
        let key = key("ckks_n15", "regular") as u32;
        let x = ckks_encrypt(key, give(Object::floats(&[0.5, -0.25])));
        let values = bytes(ckks_decrypt(key, x as u32) as u32).unwrap();
        let values: Vec<f64> =
            values.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().unwrap())).collect();
        assert!((values[0] - 0.5).abs() < 1e-4 && (values[1] + 0.25).abs() < 1e-4, "{values:?}");
        let facts: serde_json::Value =
            serde_json::from_slice(&bytes(ckks_facts(key) as u32).unwrap()).unwrap();
        assert_eq!((&facts["level"], &facts["levels"]), (&json!(0), &json!(5)));
        assert!(ckks_program(key) > 0);
    }
}
