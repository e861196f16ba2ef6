//! Files of CKKS programs that ask for much memory or time: the instructions in postcard, written by hand, and the numbers.

use crate::harness::{ckks_program, edit};
use crate::programs::varint;
use crate::texts::Bomb;
use becalm::ckks::{Chain, Matrix};
use becalm::math::complex::Complex;
use becalm::params::CkksParams;
use becalm::program::Reg;
use becalm::program::rlwe::CkksProgram;
use serde_json::json;

/// A file with this graph, as many numbers, and a right checksum.
fn file(graph: &[u8], numbers: usize) -> Vec<u8> {
    edit(&ckks_program().to_bytes().unwrap(), |h, d| {
        let from = 8 * numbers;
        *d = [&vec![0; from], graph].concat();
        h["data"] = json!({"dtype": "F64", "shape": [numbers], "data_offsets": [0, from]});
        h["graph"] =
            json!({"dtype": "U8", "shape": [graph.len()], "data_offsets": [from, d.len()]});
    })
}

/// A file whose graph is `before` and a length without the items.
fn announced(before: &[u8], count: u64) -> Vec<u8> {
    file(&[before, &varint(count)].concat(), 4)
}

/// Nothing but limits: of no values, and without a bootstrap.
fn limits() -> Vec<u8> {
    [&f64::INFINITY.to_le_bytes()[..], &[0, 0, 1, 0]].concat()
}

/// A file whose graph is `before`, `count` times `item`, `lists` empty lists and the limits.
fn repeated(before: &[u8], count: usize, item: &[u8], lists: usize) -> Vec<u8> {
    let items = [&varint(count as u64), &item.repeat(count)[..]].concat();
    file(&[before, &items, &vec![0; lists], &limits()].concat(), 0)
}

/// A matrix: so many slots, what follows, then level, baby steps and scale.
fn matrix(slots: u64, then: &[u8]) -> Vec<u8> {
    [&varint(slots), then, &[2, 1], &1e9f64.to_le_bytes()[..]].concat()
}

/// A file with this matrix alone, and as many numbers.
fn one_matrix(matrix: &[u8], numbers: usize) -> Vec<u8> {
    file(&[&[0, 0, 0, 0, 1], matrix, &[0, 0], &limits()].concat(), numbers)
}

/// A stage of a transform of 2^40 slots, with weights or without.
fn stage(weights: u8) -> Vec<u8> {
    let (size, factor) = (varint(1 << 40), 1f64.to_le_bytes());
    let list: &[u8] = if weights == 0 { &[0] } else { &[1, 0] };
    let stage = [&size[..], &[0, 40, 0, 0, 0], &factor, &size, list, list].concat();
    one_matrix(&matrix(1 << 40, &[&[0, 1], &stage[..]].concat()), 4)
}

/// An honest program of `count` instructions.
fn recorded(count: usize, grow: impl Fn(&mut CkksProgram, Reg) -> Reg) -> Vec<u8> {
    let chain = Chain::new(CkksParams::named("ckks_toy_12").unwrap()).unwrap();
    let mut p = CkksProgram::new(&chain);
    let mut last = p.input(6, 8).unwrap();
    (0..count).for_each(|_| last = grow(&mut p, last));
    p.output(last).unwrap();
    p.to_bytes().unwrap()
}

/// A register of level 2 and one slot, as it stands in a file.
const REG: [u8; 10] = [2, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 1];

/// Every file of a CKKS program.
pub const CKKS_PROGRAMS: &[Bomb] = &[
    ("registers that are not there", || announced(&[], u64::MAX)),
    ("2^24 registers", || announced(&[], 1 << 24)),
    ("instructions that are not there", || announced(&[0], u64::MAX)),
    ("2^24 instructions", || announced(&[0], 1 << 24)),
    ("arguments that are not there", || announced(&[0, 0], 1 << 40)),
    ("results that are not there", || announced(&[0, 0, 0], 1 << 40)),
    ("matrices that are not there", || announced(&[0, 0, 0, 0], u64::MAX)),
    ("2^24 matrices", || announced(&[0, 0, 0, 0], 1 << 24)),
    ("diagonals that are not there", || announced(&[0, 0, 0, 0, 1, 8], 1 << 50)),
    ("entries in the graph that are not there", || announced(&[0, 0, 0, 0, 1, 8, 1, 0], 1 << 50)),
    ("weights in the graph that are not there", || {
        let before = [0, 0, 0, 0, 1, 8, 0, 1, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 8];
        announced(&[&before[..], &[1]].concat(), 1 << 50)
    }),
    ("polynomials that are not there", || announced(&[0; 5], u64::MAX)),
    ("plaintexts that are not there", || announced(&[0; 6], 1 << 50)),
    ("2^24 plaintexts", || announced(&[0; 6], 1 << 24)),
    ("a polynomial of 2^50 numbers", || {
        file(&[&[0, 0, 0, 0, 0, 1], &varint(1 << 50)[..], &[0], &limits()].concat(), 4)
    }),
    ("a plaintext of 2^63 values", || {
        file(&[&[0, 0, 0, 0, 0, 0, 1], &varint(1 << 63)[..], &limits()].concat(), 4)
    }),
    ("a plaintext of 2^64 values", || {
        file(&[&[0, 0, 0, 0, 0, 0, 1], &varint(u64::MAX)[..], &limits()].concat(), 4)
    }),
    ("a matrix of 2^63 slots", || one_matrix(&matrix(1 << 63, &[1, 0, 0, 0]), 4)),
    ("a matrix of 2^40 slots without entries", || one_matrix(&matrix(1 << 40, &[0, 0]), 0)),
    ("a stage of 2^40 slots", || stage(0)),
    ("the weights of 2^40 slots", || stage(1)),
    ("terms that are not there", || announced(&[0, 1, 23, 0], 1 << 50)),
    ("pairs that are not there", || announced(&[0, 1, 12, 0], 1 << 50)),
    ("bootstraps of registers that are not there", || announced(&[0, 1, 22, 0, 0], 1 << 50)),
    ("registers", || repeated(&[], 450, &REG, 6)),
    ("products of nothing", || repeated(&[0], 1500, &[12, 0, 0], 5)),
    ("negations of one register", || repeated(&[0], 1500, &[13, 0, 0], 5)),
    ("arguments again", || repeated(&[0, 0], 4000, &[0], 4)),
    ("results again", || repeated(&[&[1], &REG[..], &[0, 1, 0]].concat(), 4000, &[0], 3)),
    ("matrices of nothing", || repeated(&[0; 4], 350, &matrix(8, &[0, 0]), 2)),
    ("polynomials of nothing", || repeated(&[0; 5], 4000, &[0], 1)),
    ("plaintexts of nothing", || repeated(&[0; 6], 4000, &[0], 0)),
    ("numbers of no list", || file(&[&[0; 7], &limits()[..]].concat(), 500)),
    ("a tensor of 2^64 bytes", || {
        edit(&ckks_program().to_bytes().unwrap(), |h, _| h["data"]["shape"] = json!([u64::MAX]))
    }),
    ("turns of turns", || recorded(180, |p, x| p.rotate(x, i64::MAX).unwrap())),
    ("sums with one plaintext", || {
        recorded(280, |p, x| p.add_plain(x, &[Complex::new(1e-3, 0.5); 8]).unwrap())
    }),
    ("a matrix of many slots", || {
        recorded(1, |p, x| {
            let mut map = Matrix::zero(8);
            (0..8).for_each(|k| map.diagonal(k).fill(Complex::from(0.5)));
            p.linear(x, map.repeated(32), 1, 1e9).unwrap()
        })
    }),
];
