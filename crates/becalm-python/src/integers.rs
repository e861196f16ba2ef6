//! Encrypted integers and AES: recorded operations, encryption, decryption and files. Shapes and operators are Python's; a
//! clear integer travels as 32 bytes of two's complement, least significant first, encrypted ones as a batch for each digit.

use crate::call::{detached, guarded, raise, supervised};
use crate::ciphertext::{Lwe, ciphertext, drafted, flat, loaded, parsed, saved};
use crate::evaluate::Evaluator;
use crate::keys::{EvaluationKey, SecretKey};
use crate::params::Params;
use crate::program::Program;
use becalm::Progress;
use becalm::apps::aes::{self, Aes, BLOCK};
use becalm::apps::integer::{
    self, Clear, Forms, Integers, ListOperation, Operation, Recorded, Type, Word, fitting,
};
use becalm::apps::{Aim, Arguments, Circuit};
use becalm::cipher;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use zeroize::Zeroizing;

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

/// The largest number of elements of a type that an operation takes in one program.
#[pyfunction]
pub fn integer_most(operation: &str, ty: &str) -> PyResult<usize> {
    guarded(|| Ok(integer::most_elements(operation, ty.parse().map_err(raise)?)))
}

/// Bits and digits of a type (`uint64`), and whether it is signed.
#[pyfunction]
pub fn integer_type(name: &str) -> PyResult<(u32, usize, bool)> {
    guarded(|| {
        let ty: Type = name.parse().map_err(raise)?;
        Ok((ty.bits(), ty.digits(), ty.signed()))
    })
}

/// An operation on operands of these types, in all its forms. An operand with a value is clear.
#[pyclass(frozen, module = "becalm._native")]
pub struct IntegerForms(Forms);

#[pymethods]
impl IntegerForms {
    /// The operation of a name.
    #[new]
    fn new(params: &Params, operation: String, operands: Vec<(String, Option<Vec<u8>>)>) -> Self {
        let params = params.0.clone();
        IntegerForms(Forms::new(params, move |circuit| record(circuit, &operation, &operands)))
    }

    /// The program and the types of its results: on the shortest path, with the fewest bootstraps, or, where `deep` is `None`, the quickest
    /// of an evaluator's machine for a number of lanes. `inputs` are the arguments that it will have. Without them the program takes
    /// independent arguments, or any.
    #[pyo3(signature = (deep, independent, evaluator=None, lanes=1, inputs=None))]
    fn program(
        &self,
        py: Python<'_>,
        deep: Option<bool>,
        independent: bool,
        evaluator: Option<&Evaluator>,
        lanes: usize,
        inputs: Option<Vec<Bound<'_, PyAny>>>,
    ) -> PyResult<(Program, Vec<String>)> {
        let form = |arguments, progress: Progress| match (deep, evaluator) {
            (None, Some(evaluator)) => {
                self.0.quickest(&evaluator.0.info().pace, lanes, arguments, progress)
            }
            (Some(true), _) => self.0.of(Aim::Depth, arguments, progress),
            _ => self.0.of(Aim::Work, arguments, progress),
        };
        let first = if independent { Arguments::Independent } else { Arguments::Any };
        let mut recorded =
            supervised(py, None, |watch| form(first, &|done, all| watch.step(done, all)))?;
        if let (true, Some(evaluator), false) = (independent, evaluator, recorded.takes_any()) {
            let inputs = inputs.iter().flatten().map(ciphertext).collect::<PyResult<Vec<_>>>()?;
            recorded = supervised(py, None, |watch| {
                let progress = |done, all| watch.step(done, all);
                fitting(|arguments| form(arguments, &progress), |p| evaluator.0.takes(p, &inputs))
            })?;
        }
        let types = recorded.outputs().iter().map(Type::to_string).collect();
        Ok((Program::of(recorded.program().clone()), types))
    }
}

fn record(
    mut circuit: Circuit,
    operation: &str,
    operands: &[(String, Option<Vec<u8>>)],
) -> becalm::Result<Recorded> {
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
    let outputs = match (operation, operation.strip_prefix("cast ")) {
        (_, Some(ty)) => vec![circuit.cast(&words[0], ty.parse()?)?],
        // An index, then the clear entries.
        ("table", _) => {
            let ty: Type = operands.last().map_or("bool", |o| &o.0).parse()?;
            let entries =
                operands.iter().skip(1).flat_map(|o| clears(ty, o.1.as_deref().unwrap_or(&[])));
            let entries: Vec<Clear> = entries.collect();
            vec![circuit.table(words.first().unwrap_or(&none()?), ty, &entries)?]
        }
        _ => match ListOperation::named(operation) {
            Some(list) => list.record(&mut circuit, &words)?,
            None => Operation::named(operation)?.record(&mut circuit, &words)?,
        },
    };
    let inputs: Vec<&Word> = inputs.iter().collect();
    circuit.finish(&inputs, &outputs.iter().collect::<Vec<_>>())
}

/// The stand-in for an operand that was left out.
fn none() -> becalm::Result<Word> {
    Word::clear(Type::Bool, Clear::from(false))
}

/// Encrypts integers of a type: a batch for each digit.
#[pyfunction]
pub fn encrypt_integers(
    py: Python<'_>,
    secret: &SecretKey,
    name: &str,
    data: &[u8],
) -> PyResult<Vec<Lwe>> {
    let digits = supervised(py, None, |watch| {
        let ty: Type = name.parse()?;
        let values = Zeroizing::new(clears(ty, data));
        let progress = |done, all| watch.step(done, all);
        Ok(Integers::encrypt_with(&secret.0, ty, &values, &progress)?.into_digits())
    })?;
    Ok(digits.into_iter().map(Lwe).collect())
}

/// Clear integers of a type in the form of encrypted ones, for the key of a server.
#[pyfunction]
pub fn trivial_integers(
    py: Python<'_>,
    key: &EvaluationKey,
    name: &str,
    data: &[u8],
) -> PyResult<Vec<Lwe>> {
    let made = detached(py, || {
        let ty: Type = name.parse()?;
        Integers::trivial(key.0.params(), key.0.key_id(), ty, &clears(ty, data))
    });
    made.map(parts)
}

fn parts(integers: Integers) -> Vec<Lwe> {
    integers.into_digits().into_iter().map(Lwe).collect()
}

/// The digits themselves, without a copy, and their bytes.
fn held<'a>(digits: &'a [Bound<'_, Lwe>]) -> (Vec<&'a cipher::Lwe>, usize) {
    let digits: Vec<_> = digits.iter().map(|d| &d.get().0).collect();
    let bytes = digits.iter().map(|d| d.bytes()).sum();
    (digits, bytes)
}

/// Writes an array of integers to a file.
#[pyfunction]
pub fn save_integers(
    py: Python<'_>,
    name: &str,
    digits: Vec<Bound<'_, Lwe>>,
    path: PathBuf,
    shape: Vec<usize>,
    seeded: bool,
) -> PyResult<()> {
    let (digits, bytes) = held(&digits);
    saved(py, &path, bytes, |progress| {
        Integers::file(name.parse()?, &digits, seeded, progress)?.shaped(&shape)
    })
}

/// The file of integers in memory.
#[pyfunction]
pub fn integers_to_bytes<'py>(
    py: Python<'py>,
    name: &str,
    digits: Vec<Bound<'py, Lwe>>,
    shape: Vec<usize>,
    seeded: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let (digits, bytes) = held(&digits);
    drafted(py, bytes, |progress| {
        Integers::file(name.parse()?, &digits, seeded, progress)?.shaped(&shape)
    })
}

/// The type, the digits and the shape of an array.
type Array = (String, Vec<Lwe>, Vec<usize>);

fn array((found, shape): (Integers, Vec<usize>)) -> Array {
    (found.ty().to_string(), parts(found), shape)
}

/// Reads an array of integers from a file.
#[pyfunction]
pub fn load_integers(
    py: Python<'_>,
    path: PathBuf,
    allow_insecure: bool,
    limit: Option<u64>,
) -> PyResult<Array> {
    let load = |trust, progress: Progress| Integers::load_array(&path, trust, progress);
    loaded(py, &path, allow_insecure, limit, load).map(array)
}

/// An array of integers from a file in memory.
#[pyfunction]
pub fn integers_from_bytes(
    py: Python<'_>,
    file: &[u8],
    allow_insecure: bool,
    limit: Option<u64>,
) -> PyResult<Array> {
    parsed(py, file, allow_insecure, limit, Integers::array_from_bytes).map(array)
}

/// Encrypts bytes as bits, each byte's lowest first.
#[pyfunction]
pub fn encrypt_bits(py: Python<'_>, secret: &SecretKey, data: &[u8]) -> PyResult<Lwe> {
    detached(py, || aes::encrypt_bytes(&secret.0, data)).map(Lwe)
}

/// Decrypts bits to bytes.
#[pyfunction]
pub fn decrypt_bits<'py>(
    py: Python<'py>,
    secret: &SecretKey,
    bits: &Lwe,
) -> PyResult<Bound<'py, PyBytes>> {
    let found = Zeroizing::new(detached(py, || aes::decrypt_bytes(&secret.0, &bits.0))?);
    Ok(PyBytes::new(py, &found))
}

/// The content of a file of bits: encrypted bytes, or a key of AES.
fn content(key: bool) -> aes::Content {
    if key { aes::Content::Key } else { aes::Content::Bytes }
}

/// Refuses bits that are not whole bytes, or not a key of AES.
#[pyfunction]
pub fn check_bits(bits: &Lwe, key: bool) -> PyResult<()> {
    guarded(|| content(key).checked(&bits.0).map(drop).map_err(raise))
}

/// Writes bits to a file.
#[pyfunction]
pub fn save_bits(
    py: Python<'_>,
    bits: &Lwe,
    key: bool,
    path: PathBuf,
    seeded: bool,
) -> PyResult<()> {
    saved(py, &path, bits.0.bytes(), |progress| content(key).file(&bits.0, seeded, progress))
}

/// The file of bits in memory.
#[pyfunction]
pub fn bits_to_bytes<'py>(
    py: Python<'py>,
    bits: &Lwe,
    key: bool,
    seeded: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    drafted(py, bits.0.bytes(), |progress| content(key).file(&bits.0, seeded, progress))
}

/// Reads bits from a file: whether they are a key of AES, and the bits.
#[pyfunction]
pub fn load_bits(
    py: Python<'_>,
    path: PathBuf,
    allow_insecure: bool,
    limit: Option<u64>,
) -> PyResult<(bool, Lwe)> {
    let load = |trust, progress: Progress| aes::Content::load_with(&path, trust, progress);
    let found = loaded(py, &path, allow_insecure, limit, load)?;
    Ok((found.0 == aes::Content::Key, Lwe(found.1)))
}

/// Bits from a file in memory.
#[pyfunction]
pub fn bits_from_bytes(
    py: Python<'_>,
    file: &[u8],
    allow_insecure: bool,
    limit: Option<u64>,
) -> PyResult<(bool, Lwe)> {
    let found = parsed(py, file, allow_insecure, limit, aes::Content::from_bytes_with)?;
    Ok((found.0 == aes::Content::Key, Lwe(found.1)))
}

/// Unencrypted AES-128 in counter mode, on data of any length.
#[pyfunction]
pub fn aes_ctr<'py>(
    py: Python<'py>,
    key: [u8; BLOCK],
    counter: [u8; BLOCK],
    data: &[u8],
) -> Bound<'py, PyBytes> {
    let mut data = Zeroizing::new(data.to_vec());
    aes::ctr_unencrypted(&key, &counter, &mut data);
    PyBytes::new(py, &data)
}

/// The program of AES-128 in ECB: the bits of a key, then those of the blocks, to the bits of encrypted blocks.
#[pyfunction]
pub fn record_aes_ecb(py: Python<'_>, params: &Params, blocks: usize) -> PyResult<Program> {
    let aes = detached(py, || Aes::ecb(params.0.clone(), blocks))?;
    Ok(Program::of(aes.program().clone()))
}

/// The program of AES-128 in CTR: the bits of a key and those of [`aes_ctr_blocks`] to bits, or to the digits of integers of a type.
#[pyfunction]
pub fn record_aes_ctr(
    py: Python<'_>,
    params: &Params,
    blocks: usize,
    name: Option<&str>,
) -> PyResult<Program> {
    let aes =
        detached(py, || Aes::ctr(params.0.clone(), blocks, name.map(str::parse).transpose()?))?;
    Ok(Program::of(aes.program().clone()))
}

/// Counters and whole blocks of data as arguments of AES in CTR, for the key of `like`; anyone can read them.
#[pyfunction]
pub fn aes_ctr_blocks(
    py: Python<'_>,
    like: &Lwe,
    counter: [u8; BLOCK],
    data: &[u8],
) -> PyResult<Lwe> {
    let (blocks, _) = data.as_chunks::<BLOCK>();
    let bytes = aes::ctr_blocks(counter, blocks).concat();
    detached(py, || aes::clear_bytes(&like.0, &bytes)).map(Lwe)
}

/// Decrypts the digits of integers of a type.
#[pyfunction]
pub fn decrypt_integers<'py>(
    py: Python<'py>,
    secret: &SecretKey,
    name: &str,
    digits: Vec<Bound<'py, Lwe>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (digits, _) = held(&digits);
    let decrypt = || Integers::decrypt_digits(&secret.0, name.parse()?, &digits);
    let values = Zeroizing::new(detached(py, decrypt)?);
    flat(py, values.iter().map(|v| v.to_bytes()))
}
