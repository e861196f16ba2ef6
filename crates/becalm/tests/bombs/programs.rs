//! Files of programs that ask for much memory or time. The bodies are written by hand in postcard: a length, then the items.

use crate::harness::{edit, join, program, split, tiny, with_params};
use crate::texts::Bomb;
use becalm::program::{Program, Reg};
use serde_json::json;

/// A file with this body and a right checksum.
fn file(body: &[u8]) -> Vec<u8> {
    edit(&program(&tiny()).to_bytes().unwrap(), |h, d| {
        *d = body.to_vec();
        h["program"] =
            json!({"dtype": "U8", "shape": [body.len()], "data_offsets": [0, body.len()]});
    })
}

/// An integer of variable length.
pub fn varint(mut n: u64) -> Vec<u8> {
    let mut bytes = vec![];
    while n > 127 {
        bytes.push(n as u8 | 128);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

/// A file whose body is `before`, `count`, then `count` times `item`, and `after`.
fn repeated(before: &[u8], count: usize, item: &[u8], after: &[u8]) -> Vec<u8> {
    file(&[before, &varint(count as u64), &item.repeat(count), after].concat())
}

/// A file whose body is `before` and a length without the items.
fn announced(before: &[u8], count: u64) -> Vec<u8> {
    file(&[before, &varint(count)].concat())
}

/// A file with an honest body and another header.
fn header(change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    edit(&program(&tiny()).to_bytes().unwrap(), |h, _| change(h))
}

fn params(name: &'static str, value: serde_json::Value) -> Vec<u8> {
    with_params(&program(&tiny()).to_bytes().unwrap(), |row| row[name] = value)
}

/// An honest program of `count` instructions.
fn recorded(count: usize, grow: impl Fn(&mut Program, &mut Vec<Reg>)) -> Vec<u8> {
    let params = std::sync::Arc::new(tiny());
    let mut p = Program::new(params.clone());
    let first = p.input(becalm::cipher::Encoding::of(&params));
    let mut regs = vec![first];
    (0..count).for_each(|_| grow(&mut p, &mut regs));
    p.output(*regs.last().unwrap()).unwrap();
    p.to_bytes().unwrap()
}

/// A register of the set's own encoding, as it stands in a file.
const REG: [u8; 6] = [0, 1, 2, 1, 0, 0];

/// Every file of a program.
pub const PROGRAMS: &[Bomb] = &[
    ("registers that are not there", || announced(&[], u64::MAX)),
    ("2^32 registers", || announced(&[], 1 << 32)),
    ("2^24 registers", || announced(&[], 1 << 24)),
    ("instructions that are not there", || announced(&[0], u64::MAX)),
    ("2^24 instructions", || announced(&[0], 1 << 24)),
    ("tables that are not there", || announced(&[0, 0], u64::MAX)),
    ("inputs that are not there", || announced(&[0, 0, 0], 1 << 40)),
    ("outputs that are not there", || announced(&[0, 0, 0, 0], 1 << 40)),
    ("terms that are not there", || announced(&[0, 1, 0, 0], 1 << 50)),
    ("results that are not there", || announced(&[0, 1, 2], 1 << 50)),
    ("tables of slots that are not there", || announced(&[0, 1, 2, 0, 0, 2], 1 << 50)),
    ("constants that are not there", || announced(&[0, 1, 3, 0, 0], 1 << 50)),
    ("sources that are not there", || announced(&[0, 1, 5, 0], 1 << 50)),
    ("coefficients that are not there", || announced(&[0, 0, 1], 1 << 50)),
    ("a length of 11 bytes", || file(&[255; 11])),
    ("lengths without end", || file(&[255; 4000])),
    ("registers", || repeated(&[], 600, &REG, &[0, 0, 0, 0])),
    ("linear combinations of nothing", || repeated(&[0], 900, &[0, 0, 0, 0], &[0, 0, 0])),
    ("key switches of one register", || repeated(&[0], 1200, &[1, 0, 0], &[0, 0, 0])),
    ("bootstraps of nothing", || repeated(&[0], 700, &[2, 0, 0, 0, 0], &[0, 0, 0])),
    ("tables of nothing", || repeated(&[0, 0], 700, &[0, 2, 1, 0, 0], &[0, 0])),
    ("inputs again", || repeated(&[0, 0, 0], 3500, &[0], &[0])),
    ("outputs again", || repeated(&[&[1], &REG[..], &[0, 0, 1, 0]].concat(), 3500, &[0], &[])),
    ("terms again", || repeated(&[0, 1, 0, 0], 1800, &[0, 0], &[0, 0, 0, 0])),
    ("slots of one table", || repeated(&[0, 1, 2, 0, 0, 2], 3500, &[0], &[0, 0, 0])),
    ("sums of sums", || {
        recorded(60, |p, regs| {
            let last = regs[regs.len() - 1];
            let terms: Vec<(i64, Reg)> = regs.iter().rev().take(4).map(|r| (1, *r)).collect();
            let next =
                if terms.len() == 1 { p.linear(&[(2, last)], 0) } else { p.linear(&terms, 0) };
            regs.push(next.unwrap());
        })
    }),
    ("doubles", || {
        recorded(90, |p, regs| {
            let next = p.linear(&[(2, regs[regs.len() - 1])], 0).unwrap();
            regs.push(next);
        })
    }),
    ("the largest factors", || {
        recorded(60, |p, regs| {
            let next = p.linear(&[(i64::MIN, regs[regs.len() - 1])], i64::MAX).unwrap();
            regs.push(next);
        })
    }),
    ("a large set", || params("polynomial_size", 65536.into())),
    ("a set of 2^40 coefficients", || params("polynomial_size", (1u64 << 40).into())),
    ("a set of a large dimension", || params("lwe_dimension", u64::MAX.into())),
    ("a set of many slots", || params("slots", 65536.into())),
    ("a set in many accumulators", || params("extension_log", 60.into())),
    ("a tensor of 2^64 bytes", || header(|h| h["program"]["shape"] = json!([u64::MAX]))),
    ("a tensor whose shape is too large", || {
        header(|h| h["program"]["shape"] = json!([1u64 << 33, 1u64 << 33]))
    }),
    ("offsets that run backwards", || {
        header(|h| h["program"]["data_offsets"] = json!([u64::MAX, 0]))
    }),
    ("a header of nested lists", || {
        let mut bytes = 4096u64.to_le_bytes().to_vec();
        bytes.extend([b'['; 4096]);
        bytes
    }),
    ("parameters of nested lists", || {
        header(|h| h["__metadata__"]["params"] = "[".repeat(3000).into())
    }),
    ("a header of 2^63 bytes", || {
        let (header, data) = split(&program(&tiny()).to_bytes().unwrap()).unwrap();
        let mut bytes = join(&header, &data);
        bytes[..8].copy_from_slice(&(1u64 << 63).to_le_bytes());
        bytes
    }),
];
