//! Encrypted integers: recorded operations, encryption and decryption. Shapes and operators are Python's; a clear integer
//! travels as 32 bytes of two's complement, least significant first.

use crate::call::{detached, guarded, raise};
use crate::ciphertext::Lwe;
use crate::keys::SecretKey;
use crate::params::Params;
use crate::program::Program;
use becalm::apps::integer::{self, Clear, Integers, Operation, Type, Word};
use becalm::apps::{Aim, Circuit};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Clear integers of a type.
fn clears(ty: Type, data: &[u8]) -> Vec<Clear> {
    let (values, _) = data.as_chunks::<32>();
    values.iter().map(|v| Clear::from_bytes(*v, ty.signed())).collect()
}

/// Names of all operations, with the number of their operands.
#[pyfunction]
pub fn integer_operations() -> Vec<(&'static str, usize)> {
    integer::OPERATIONS.iter().map(|o| (o.name, o.arity)).collect()
}

/// Bits and digits of a type (`uint64`), and whether it is signed.
#[pyfunction]
pub fn integer_type(name: &str) -> PyResult<(u32, usize, bool)> {
    guarded(|| {
        let ty: Type = name.parse().map_err(raise)?;
        Ok((ty.bits(), ty.digits(), ty.signed()))
    })
}

/// The program of an operation on operands of these types, and the types of its results. An operand with a value is clear.
#[pyfunction]
pub fn record_integers(
    params: &Params,
    operation: &str,
    deep: bool,
    operands: Vec<(String, Option<Vec<u8>>)>,
) -> PyResult<(Program, Vec<String>)> {
    guarded(|| {
        let aim = if deep { Aim::Depth } else { Aim::Work };
        record(params, operation, aim, &operands).map_err(raise)
    })
}

fn record(
    params: &Params,
    operation: &str,
    aim: Aim,
    operands: &[(String, Option<Vec<u8>>)],
) -> becalm::Result<(Program, Vec<String>)> {
    let mut circuit = Circuit::new(params.0.clone(), aim)?;
    let (mut words, mut inputs) = (vec![], vec![]);
    for (name, value) in operands {
        let ty: Type = name.parse()?;
        let word = match value.as_ref().and_then(|v| clears(ty, v).first().copied()) {
            Some(clear) => Word::clear(ty, clear)?,
            None => {
                let word = circuit.input(ty)?;
                inputs.push(word.clone());
                word
            }
        };
        words.push(word);
    }
    let outputs = match operation.strip_prefix("cast ") {
        Some(ty) => vec![circuit.cast(&words[0], ty.parse()?)?],
        None => Operation::named(operation)?.record(&mut circuit, &words)?,
    };
    let inputs: Vec<&Word> = inputs.iter().collect();
    let recorded = circuit.finish(&inputs, &outputs.iter().collect::<Vec<_>>())?;
    let types = recorded.outputs().iter().map(Type::to_string).collect();
    Ok((Program::of(recorded.program().clone()), types))
}

/// Encrypts integers of a type: a batch for each digit.
#[pyfunction]
pub fn encrypt_integers(
    py: Python<'_>,
    secret: &SecretKey,
    name: &str,
    data: &[u8],
) -> PyResult<Vec<Lwe>> {
    let digits = detached(py, || {
        let ty: Type = name.parse()?;
        Ok(Integers::encrypt(&secret.0, ty, &clears(ty, data))?.digits().to_vec())
    })?;
    Ok(digits.into_iter().map(Lwe).collect())
}

/// Decrypts the digits of integers of a type.
#[pyfunction]
pub fn decrypt_integers<'py>(
    py: Python<'py>,
    secret: &SecretKey,
    name: &str,
    digits: Vec<Bound<'py, Lwe>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let digits: Vec<becalm::cipher::Lwe> = digits.iter().map(|d| d.get().0.clone()).collect();
    let values = detached(py, || Integers::new(name.parse()?, digits)?.decrypt(&secret.0))?;
    let bytes: Vec<u8> = values.into_iter().flat_map(Clear::to_bytes).collect();
    Ok(PyBytes::new(py, &bytes))
}
