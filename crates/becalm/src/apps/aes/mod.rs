//! AES-128 on encrypted data: key expansion, ECB, and CTR for transciphering. Data that arrives encrypted by AES becomes
//! ciphertexts of becalm when the server, which holds the AES key encrypted, encrypts the counters and adds the data.
//!
//! A bit rests at 0 or half a torus, where addition is XOR and costs nothing, with room for thousands of terms: only the
//! S-boxes bootstrap (`sbox`), 26 times each. Source: FIPS 197; CTR of SP 800-38A.

mod file;
mod sbox;

pub use file::Content;

use super::circuit::{Circuit, ROOM, Sum, require_tables, xor};
use super::integer::{Integers, Type};
use super::{Aim, bits};
use crate::cipher::{Ciphertext, Encoding, Lwe, SecretKey};
use crate::params::TfheParams;
use crate::program::Program;
use crate::{Error, Result};
use ::aes::Aes128;
use ::aes::cipher::{Block, BlockCipherEncrypt, KeyInit};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Bytes of a block and of the key.
pub const BLOCK: usize = 16;
const ROUNDS: usize = 10;

/// Eight bits, the lowest first, each 0 or 16 units.
type Byte = [Sum; 8];

/// A recorded computation of AES-128: its first 128 arguments are the bits of the key.
#[derive(Debug, Clone)]
pub struct Aes {
    program: Arc<Program>,
    words: Option<Type>,
}

impl Aes {
    /// ECB: each of `blocks` encrypted blocks is encrypted under the encrypted key, which is expanded once.
    ///
    /// # Errors
    /// As [`Circuit::new`]; [`Error::BadInput`] for no block.
    pub fn ecb(params: Arc<TfheParams>, blocks: usize) -> Result<Self> {
        require_blocks(blocks)?;
        let mut c = Circuit::new(params, Aim::Work)?;
        let keys = round_keys(&mut c)?;
        let inputs: Vec<Vec<Byte>> = (0..blocks).map(|_| arguments(&mut c)).collect();
        for block in inputs {
            let state = encrypt(&mut c, block, &keys)?;
            outputs(&mut c, &state)?;
        }
        Ok(Aes { program: Arc::new(c.into_program()), words: None })
    }

    /// CTR: the keystream of counters, added to data; both are arguments, in the order of [`ctr_blocks`]. If the data is what
    /// AES-CTR made of a message under the same key and counter, the results are the message, encrypted under becalm's key: as
    /// bits, or as integers of `words` (least significant byte first, of whole bytes) at one and a half bootstraps a bit more.
    ///
    /// # Errors
    /// As [`Circuit::new`]; [`Error::BadInput`] for no data, or integers that do not divide a block.
    pub fn ctr(params: Arc<TfheParams>, blocks: usize, words: Option<Type>) -> Result<Self> {
        require_blocks(blocks)?;
        if let Some(ty) = words {
            let bits = ty.checked()?.bits() as usize;
            if !bits.is_multiple_of(8) || !(8 * BLOCK).is_multiple_of(bits) {
                return Err(Error::bad_input(
                    "ctr",
                    "integers of 8, 16, 32, 64 or 128 bits",
                    ty.to_string(),
                    "take bits, or a width that divides a block",
                ));
            }
        }
        let mut c = Circuit::new(params, Aim::Work)?;
        let keys = round_keys(&mut c)?;
        let inputs: Vec<[Vec<Byte>; 2]> =
            (0..blocks).map(|_| [arguments(&mut c), arguments(&mut c)]).collect();
        for [counter, data] in inputs {
            let state = encrypt(&mut c, counter, &keys)?;
            let state: Vec<Byte> = state.iter().zip(&data).map(|(x, y)| add(x, y)).collect();
            match words {
                None => outputs(&mut c, &state)?,
                Some(_) => digits(&mut c, &state)?,
            }
        }
        Ok(Aes { program: Arc::new(c.into_program()), words })
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The program's arguments: the key's bits and those of the blocks, as [`encrypt_bytes`] or [`clear_bytes`] makes them.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another number of bits than the program takes.
    pub fn arguments(&self, key: &Lwe, blocks: &[&Lwe]) -> Result<Vec<Ciphertext>> {
        let mut arguments = vec![];
        for batch in std::iter::once(&key).chain(blocks) {
            for bit in 0..batch.len() {
                arguments.push(batch.slice(bit..bit + 1)?.into());
            }
        }
        let wanted = self.program.inputs().len();
        if key.len() != 8 * BLOCK || arguments.len() != wanted {
            return Err(Error::bad_input(
                "aes",
                format!("a key of 128 bits and {} bits of blocks", wanted - 128),
                format!("{} and {} bits", key.len(), arguments.len() - key.len()),
                "encrypt the key and each block with encrypt_bytes",
            ));
        }
        Ok(arguments)
    }

    /// The program's results as one batch of bits, for [`decrypt_bytes`].
    ///
    /// # Errors
    /// [`Error::BadInput`] if the results are integers.
    pub fn bits(&self, results: &[Lwe]) -> Result<Lwe> {
        match self.words {
            None => Lwe::concat(results),
            Some(ty) => {
                let got = ty.to_string();
                Err(Error::bad_input("aes", "results that are bits", got, "ask for the integers"))
            }
        }
    }

    /// The program's results as integers, one batch of all of them.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the results are bits.
    pub fn integers(&self, results: &[Lwe]) -> Result<Integers> {
        let Some(ty) = self.words else {
            let remedy = "record the circuit with a type of words";
            return Err(Error::bad_input("aes", "results that are integers", "bits", remedy));
        };
        let n = ty.digits();
        let digit =
            |i: usize| Lwe::concat(&results.iter().skip(i).step_by(n).collect::<Vec<&Lwe>>());
        Integers::new(ty, (0..n).map(digit).collect::<Result<_>>()?)
    }

    /// The results for an unencrypted key and unencrypted blocks: see [`Program::run_unencrypted`].
    ///
    /// # Errors
    /// As there.
    pub fn run_unencrypted(&self, key: &[u8; BLOCK], blocks: &[[u8; BLOCK]]) -> Result<Vec<u64>> {
        let bytes = std::iter::once(key).chain(blocks).flatten();
        let inputs: Vec<i64> = bytes.flat_map(|b| bits(*b)).map(|b| b as i64).collect();
        Ok(self.program.run_unencrypted(&inputs)?.into_iter().map(|v| v as u64).collect())
    }
}

/// Encrypts bytes as bits at 0 and half a torus, the lowest bit of each byte first.
///
/// # Errors
/// As [`SecretKey::encrypt_as`].
pub fn encrypt_bytes(secret: &SecretKey, bytes: &[u8]) -> Result<Lwe> {
    require_tables("aes", secret.params())?;
    let bits: Zeroizing<Vec<u64>> = Zeroizing::new(bytes.iter().flat_map(|b| bits(*b)).collect());
    secret.encrypt_as(&bits, bit_encoding(), 2)
}

/// Clear bytes in the form of encrypted ones, for the key of `like`: anyone can read them. Counters and data are such arguments,
/// so that one program serves all.
///
/// # Errors
/// [`Error::BadInput`] for a batch that is not of bits.
pub fn clear_bytes(like: &Lwe, bytes: &[u8]) -> Result<Lwe> {
    let values: Vec<u64> = bytes.iter().flat_map(|b| bits(*b)).collect();
    Lwe::trivial(Content::Bytes.checked(like)?, &values)
}

/// The blocks that [`Aes::ctr`] takes: each counter, and the data that its keystream is added to.
pub fn ctr_blocks(counter: [u8; BLOCK], data: &[[u8; BLOCK]]) -> Vec<[u8; BLOCK]> {
    let first = u128::from_be_bytes(counter);
    let pair =
        |(i, block): (usize, &[u8; BLOCK])| [first.wrapping_add(i as u128).to_be_bytes(), *block];
    data.iter().enumerate().flat_map(pair).collect()
}

/// A bit at 0 or half a torus.
fn bit_encoding() -> Encoding {
    Encoding { values: 2, padding: false }
}

/// Ordinary AES-128 in counter mode, without any ciphertext of becalm: a client encrypts data of any length with it, for
/// [`Aes::ctr`] to turn into ciphertexts; applied again it decrypts. The counter is one number of 128 bits, most significant
/// byte first (SP 800-38A); none may be used for two blocks under one key.
pub fn ctr_unencrypted(key: &[u8; BLOCK], counter: &[u8; BLOCK], data: &mut [u8]) {
    let (cipher, mut counter) = (Aes128::new(key.into()), u128::from_be_bytes(*counter));
    for chunk in data.chunks_mut(BLOCK) {
        let mut block = Block::<Aes128>::from(counter.to_be_bytes());
        cipher.encrypt_block(&mut block);
        chunk.iter_mut().zip(block).for_each(|(x, k)| *x ^= k);
        counter = counter.wrapping_add(1);
    }
}

/// Decrypts the results of [`encrypt_bytes`] or [`Aes::bits`].
///
/// # Errors
/// As [`SecretKey::decrypt`], and [`Error::BadInput`] for another encoding.
pub fn decrypt_bytes(secret: &SecretKey, batch: &Lwe) -> Result<Vec<u8>> {
    if batch.encoding() != bit_encoding() {
        let got = format!("{:?}", batch.encoding());
        return Err(Error::bad_input("aes", "bits at 0 and half a torus", got, "pass such bits"));
    }
    let bits = Zeroizing::new(secret.decrypt(batch)?);
    Ok(bits.chunks(8).map(|b| b.iter().rev().fold(0, |x, bit| x << 1 | *bit as u8)).collect())
}

fn require_blocks(blocks: usize) -> Result<()> {
    match blocks {
        1..=1024 => Ok(()),
        _ => Err(Error::bad_input("aes", "1 to 1024 blocks", blocks.to_string(), "split them")),
    }
}

fn clear(bytes: &[u8]) -> Vec<Byte> {
    let byte = |b: &u8| bits(*b).map(|bit| Sum::clear(ROOM * bit as i64));
    bytes.iter().map(byte).collect()
}

fn add(a: &Byte, b: &Byte) -> Byte {
    std::array::from_fn(|i| xor([&a[i], &b[i]]))
}

fn arguments(c: &mut Circuit) -> Vec<Byte> {
    let mut bit = |_| {
        let bit = c.argument(bit_encoding(), 1);
        bit.within(0, ROOM)
    };
    (0..BLOCK).map(|_| std::array::from_fn(&mut bit)).collect()
}

fn outputs(c: &mut Circuit, state: &[Byte]) -> Result<()> {
    state.iter().flatten().try_for_each(|b| c.result(b, bit_encoding(), ROOM))
}

/// Bits to digits of base 4, fresh.
fn digits(c: &mut Circuit, state: &[Byte]) -> Result<()> {
    for pair in state.iter().flat_map(|byte| byte.chunks_exact(2)) {
        let low = sbox::weigh(c, &pair[0], &[1])?.remove(0);
        let high = sbox::weigh(c, &pair[1], &[2])?.remove(0);
        let digit = c.map(&(&low + &high), |v| v)?;
        c.result(&digit, Circuit::encoding(), 1)?;
    }
    Ok(())
}

/// The eleven round keys of the key that the circuit takes as its first arguments. FIPS 197, §5.2.
fn round_keys(c: &mut Circuit) -> Result<Vec<Vec<Byte>>> {
    let mut words: Vec<Vec<Byte>> = arguments(c).chunks(4).map(<[Byte]>::to_vec).collect();
    let mut constant = 1u8;
    for i in 4..4 * (ROUNDS + 1) {
        let mut word = words[i - 1].clone();
        if i % 4 == 0 {
            word.rotate_left(1);
            word = word.iter().map(|b| sbox::sub(c, b)).collect::<Result<_>>()?;
            word[0] = add(&word[0], &clear(&[constant])[0]);
            constant = (constant << 1) ^ ((constant >> 7) * 0x1b);
        }
        words.push(word.iter().zip(&words[i - 4]).map(|(x, y)| add(x, y)).collect());
    }
    Ok(words.chunks(4).map(<[_]>::concat).collect())
}

fn encrypt(c: &mut Circuit, block: Vec<Byte>, keys: &[Vec<Byte>]) -> Result<Vec<Byte>> {
    let mut state: Vec<Byte> = block.iter().zip(&keys[0]).map(|(x, k)| add(x, k)).collect();
    for (round, key) in keys.iter().enumerate().skip(1) {
        let bytes: Vec<Byte> = state.iter().map(|b| sbox::sub(c, b)).collect::<Result<_>>()?;
        // ShiftRows: row r of column j comes from column j + r.
        let shifted: Vec<Byte> =
            (0..BLOCK).map(|i| bytes[(i + 4 * (i % 4)) % BLOCK].clone()).collect();
        let mixed = if round < ROUNDS { mix_columns(&shifted) } else { shifted };
        state = mixed.iter().zip(key).map(|(x, k)| add(x, k)).collect();
    }
    Ok(state)
}

/// Multiplication by x in the field of AES.
fn double(a: &Byte) -> Byte {
    std::array::from_fn(|i| match i {
        0 => a[7].clone(),
        1 | 3 | 4 => xor([&a[i - 1], &a[7]]),
        _ => a[i - 1].clone(),
    })
}

fn mix_columns(state: &[Byte]) -> Vec<Byte> {
    let mut mixed = vec![];
    for column in state.chunks(4) {
        for r in 0..4 {
            let [a, b, d, e] = std::array::from_fn(|k| &column[(r + k) % 4]);
            let (twice, thrice) = (double(a), double(b));
            mixed.push(std::array::from_fn(|i| xor([&twice[i], &thrice[i], &b[i], &d[i], &e[i]])));
        }
    }
    mixed
}
