//! Vectors for the test benches in `rtl/`: words of 64 bits, little endian, inputs and the library's results.
//!
//! `rtl_vectors DIR UNIT key=value …` writes DIR/vectors.bin; the record of each unit stands at the function that writes it.
//! Keys: n, N, T, k, level, base_log, count (records, or ciphertexts of a batch).

use becalm::backend::processor::{Machine, Unit};
use becalm::backend::{Cpu, Evaluator, by_name};
use becalm::bootstrap::tfhe::Shape;
use becalm::bootstrap::tfhe::classic::sample_extract;
use becalm::bootstrap::tfhe::ntt_rotate::NttBootstrapKey;
use becalm::cipher::{Ciphertext, Encoding, EvaluationKey, Lwe, SecretKey};
use becalm::math::Modulus;
use becalm::math::gadget::{Gadget, decompose};
use becalm::math::simd::Level;
use becalm::params::{ModulusSwitch, Rotation, TfheParams};
use becalm::program::circuit::{Circuit, Goal};
use becalm::program::isa::encode;
use becalm::program::{Layout, Program};
use becalm::tfhe::modulus_switch::modulus_switch;
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

const P: Modulus = Modulus::Goldilocks;
const PRIME: u64 = 0xFFFF_FFFF_0000_0001;
/// Of order 2^32; its 2^26-th power is 8.
const ROOT: u64 = 0xE2AF_7063_5744_FD26;

/// Words of splitmix64, every fourth one replaced by an edge.
struct Words(u64);

impl Words {
    fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn residue(&mut self) -> u64 {
        const EDGES: [u64; 10] = [
            0,
            1,
            0xFFFF_FFFF,
            1 << 32,
            (1 << 63) - 1,
            PRIME / 2,
            PRIME / 2 + 1,
            PRIME - 0xFFFF_FFFF,
            PRIME - 2,
            PRIME - 1,
        ];
        let z = self.any();
        if z >> 62 == 0 { EDGES[(z % 10) as usize] } else { P.reduce(self.any()) }
    }

    fn residues(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.residue()).collect()
    }
}

struct Sizes(HashMap<String, usize>);

impl Sizes {
    fn get(&self, key: &str, default: usize) -> usize {
        self.0.get(key).copied().unwrap_or(default)
    }

    fn gadget(&self) -> Gadget {
        Gadget { base_log: self.get("base_log", 10) as u32, level: self.get("level", 2) as u32 }
    }
}

fn power(base: u64, exponent: u64) -> u64 {
    (0..64).rev().fold(1, |x, i| {
        let square = P.mul(x, x);
        if (exponent >> i) & 1 == 1 { P.mul(square, base) } else { square }
    })
}

/// The values of a polynomial in the order of the tree: X^S − ψ^e splits into X^(S/2) − ψ^(e/2), then + ψ^(e/2).
fn transform(a: &mut [u64], psi: u64, e: u64, size: u64) {
    let half = a.len() / 2;
    if half == 0 {
        return;
    }
    let w = power(psi, e / 2);
    let (low, high) = a.split_at_mut(half);
    for (u, v) in low.iter_mut().zip(&mut *high) {
        let turned = P.mul(*v, w);
        (*u, *v) = (P.add(*u, turned), P.sub(*u, turned));
    }
    transform(low, psi, e / 2, size);
    transform(high, psi, e / 2 + size, size);
}

fn forward(a: &mut [u64]) {
    let size = a.len() as u64;
    transform(a, power(ROOT, (1 << 31) / size), size, size);
}

/// a, b, a + b, a − b, a·b.
fn arith(s: &Sizes, words: &mut Words) -> Vec<u64> {
    let record = |_| {
        let (a, b) = (words.residue(), words.residue());
        [a, b, P.add(a, b), P.sub(a, b), P.mul(a, b)]
    };
    (0..s.get("count", 1000)).flat_map(record).collect()
}

/// N coefficients, their N values.
fn ntt(s: &Sizes, words: &mut Words) -> Vec<u64> {
    let record = |_| {
        let a = words.residues(s.get("N", 256));
        let mut values = a.clone();
        forward(&mut values);
        [a, values].concat()
    };
    (0..s.get("count", 4)).flat_map(record).collect()
}

/// a, its digits as residues, least significant first.
fn digits(s: &Sizes, words: &mut Words) -> Vec<u64> {
    let gadget = s.gadget();
    let record = |_| {
        let a = words.residue();
        let mut digits = vec![0; gadget.level as usize];
        decompose(P, gadget, a, &mut digits);
        [a].into_iter().chain(digits.into_iter().rev().map(|d| P.from_signed(d)))
    };
    (0..s.get("count", 1000)).flat_map(record).collect()
}

/// n + 1 words, their exponents.
fn switch(s: &Sizes, words: &mut Words) -> Result<Vec<u64>, Box<dyn Error>> {
    let (n, size) = (s.get("n", 16), s.get("N", 256));
    let mut out = Vec::new();
    for _ in 0..s.get("count", 100) {
        let ct = words.residues(n + 1);
        out.extend_from_slice(&ct);
        out.extend(exponents(n, size, &ct)?.into_iter().map(u64::from));
    }
    Ok(out)
}

fn exponents(n: usize, size: usize, ct: &[u64]) -> Result<Vec<u32>, Box<dyn Error>> {
    let mut out = vec![0; n + 1];
    let kind = (Rotation::Classic, ModulusSwitch::Centered);
    modulus_switch(kind, P, size, (n, 1), ct, &mut out)?;
    Ok(out)
}

/// A GGSW ciphertext as the machine reads it.
fn machine_ggsw(mut ggsw: Vec<u64>, shape: &Shape, lanes: usize, out: &mut Vec<u64>) {
    let (size, columns) = (shape.polynomial_size, shape.glwe_dimension + 1);
    let (levels, rows) = (shape.gadget.level as usize, size / lanes);
    let scale = power(size as u64, PRIME - 2);
    ggsw.chunks_exact_mut(size).for_each(forward);
    for (r, t) in (0..columns).flat_map(|r| (0..rows).map(move |t| (r, t))) {
        for (l, c) in (0..levels).rev().flat_map(|l| (0..columns).map(move |c| (l, c))) {
            let row = &ggsw[((l * columns + r) * columns + c) * size..][..size];
            let at = |lane: usize| 2 * (lane / 2 * rows + t) + lane % 2;
            out.extend((0..lanes).map(|lane| P.mul(row[at(lane)], scale)));
        }
    }
}

/// The key as the machine reads it, for each step, polynomial and row the words [l][c][lane]; then for each ciphertext of the
/// batch n + 1 words, the extraction index, k + 1 table polynomials, and the k·N + 1 words of the result.
fn bootstrap(s: &Sizes, words: &mut Words) -> Result<Vec<u64>, Box<dyn Error>> {
    let (n, size, k, lanes) = (s.get("n", 16), s.get("N", 256), s.get("k", 1), s.get("T", 2));
    let gadget = s.gadget();
    let shape =
        Shape { ggsw_count: n, glwe_dimension: k, bodies: 1, polynomial_size: size, gadget };
    let key: Vec<Vec<u64>> = (0..n).map(|_| words.residues(shape.ggsw_len())).collect();
    let rotator =
        NttBootstrapKey::new(shape, Level::best(), |i, out| out.copy_from_slice(&key[i]))?;
    let mut out = Vec::new();
    key.into_iter().for_each(|ggsw| machine_ggsw(ggsw, &shape, lanes, &mut out));
    for i in 0..s.get("count", 3) {
        let (ct, index) = (words.residues(n + 1), (words.any() as usize) % size * (i % 2));
        let mut acc = words.residues(shape.glwe_len());
        out.extend_from_slice(&ct);
        out.push(index as u64);
        out.extend_from_slice(&acc);
        rotator.rotate(&mut acc, &exponents(n, size, &ct)?, &mut rotator.scratch(1)?)?;
        let mut result = vec![0; k * size + 1];
        sample_extract(P, size, &acc, index, &mut result);
        out.extend(result);
    }
    Ok(out)
}

/// The coefficient that the machine keeps at place `at` of the mask of a big ciphertext: rows of T, lane l of row t being
/// coefficient l·N/T + t.
fn coefficient(size: usize, lanes: usize, at: usize) -> usize {
    let (row, lane) = (at % size / lanes, at % lanes);
    at / size * size + lane * (size / lanes) + row
}

/// The rows of one mask word, [w][l][lane].
fn machine_rows(rows: &[Vec<u64>], lanes: usize, out: &mut Vec<u64>) {
    for w in 0..rows[0].len().div_ceil(lanes) {
        for (row, lane) in rows.iter().rev().flat_map(|row| (0..lanes).map(move |x| (row, x))) {
            out.push(row.get(w * lanes + lane).copied().unwrap_or(0));
        }
    }
}

/// A big ciphertext as the machine keeps it.
fn machine_ciphertext(ct: &[u64], size: usize, lanes: usize) -> Vec<u64> {
    let mask = ct.len() - 1;
    (0..mask).map(|at| ct[coefficient(size, lanes, at)]).chain([ct[mask]]).collect()
}

/// The key, [i][w][l][lane] (level l least significant first, word w·T + lane of the row, padded with zeros); then for each
/// ciphertext k·N + 1 words and the n + 1 words of the result. Big ciphertexts and i in the machine's order.
fn key_switch(s: &Sizes, words: &mut Words) -> Vec<u64> {
    let (n, size, lanes) = (s.get("n", 16), s.get("N", 256), s.get("T", 2));
    let big = s.get("k", 1) * size;
    let gadget = s.gadget();
    let (levels, width) = (gadget.level as usize, n + 1);
    let key: Vec<Vec<u64>> = (0..big * levels).map(|_| words.residues(width)).collect();
    let mut out = Vec::new();
    for i in (0..big).map(|at| coefficient(size, lanes, at)) {
        machine_rows(&key[i * levels..(i + 1) * levels], lanes, &mut out);
    }
    for _ in 0..s.get("count", 3) {
        let ct = words.residues(big + 1);
        let mut sum = vec![0; width];
        sum[n] = ct[big];
        for (a, rows) in ct.iter().zip(key.chunks(levels)) {
            let mut digits = vec![0; levels];
            decompose(P, gadget, *a, &mut digits);
            for (d, row) in digits.iter().zip(rows) {
                for (x, y) in sum.iter_mut().zip(row) {
                    *x = P.sub(*x, P.mul(*y, P.from_signed(*d)));
                }
            }
        }
        out.extend(machine_ciphertext(&ct, size, lanes));
        out.extend(sum);
    }
    out
}

/// Number of terms, constant, coefficients, the terms' words, the sum's: ROWS rows of T words with
/// the body in lane 0 of the last; of every third, SMALL_ROWS rows and lane SMALL_LANE.
fn linear(s: &Sizes, words: &mut Words) -> Vec<u64> {
    let lanes = s.get("T", 2);
    let mut out = Vec::new();
    for i in 0..s.get("count", 10) {
        let (rows, lane) = match i % 3 {
            1 => (s.get("SMALL_ROWS", 4), s.get("SMALL_LANE", 0)),
            _ => (s.get("ROWS", 9), 0),
        };
        let terms = i % 5 + 1;
        let constant = words.residue();
        // Of 48 bits with their sign, small and large.
        let shift = if i % 2 == 0 { 16 } else { 58 };
        let coefficients: Vec<i64> = (0..terms).map(|_| words.any() as i64 >> shift).collect();
        let cts: Vec<Vec<u64>> = (0..terms).map(|_| words.residues(rows * lanes)).collect();
        let mut sum = vec![0; rows * lanes];
        sum[(rows - 1) * lanes + lane] = constant;
        for (c, ct) in coefficients.iter().zip(&cts) {
            for (x, y) in sum.iter_mut().zip(ct) {
                *x = P.add(*x, P.mul(*y, P.from_signed(*c)));
            }
        }
        out.extend([terms as u64, constant]);
        out.extend(coefficients.iter().map(|c| *c as u64));
        out.extend(cts.concat());
        out.extend(sum);
    }
    out
}

/// Places for words of the program.
const PROGRAM_WORDS: usize = 4096;

/// Arguments, tables, keys and room for results, as the machine has them, behind what memory holds.
fn image(
    program: &Program,
    keys: &EvaluationKey,
    inputs: &[Ciphertext],
    lanes: usize,
    memory: &mut Vec<u64>,
) -> Result<Layout, Box<dyn Error>> {
    let params = program.params();
    let size = params.polynomial_size;
    let begin = |memory: &Vec<u64>| 8 * memory.len() as u64;
    let inputs_at = begin(memory);
    for ct in inputs {
        let Ciphertext::Lwe(ct) = ct else { return Err("a table".into()) };
        for one in ct.words().chunks(params.big_dimension() + 1) {
            memory.extend(machine_ciphertext(one, size, lanes));
        }
    }
    let tables = begin(memory);
    for table in program.tables() {
        memory.extend((0..size).map(|at| table.polynomial()[coefficient(size, lanes, at)]));
    }
    let key_switch = begin(memory);
    let (levels, width) = (params.ks.level as usize, params.lwe_dimension + 1);
    let rows: Vec<Vec<u64>> = keys.key_switch_words().chunks(width).map(<[u64]>::to_vec).collect();
    for i in (0..params.big_dimension()).map(|at| coefficient(size, lanes, at)) {
        machine_rows(&rows[i * levels..(i + 1) * levels], lanes, memory);
    }
    let bootstrap = begin(memory);
    let shape = Shape::of(params);
    for ggsw in keys.bootstrap_words().chunks(shape.ggsw_len()) {
        machine_ggsw(ggsw.to_vec(), &shape, lanes, memory);
    }
    let outputs = begin(memory);
    let side =
        inputs.first().map_or(0, |ct| if let Ciphertext::Lwe(ct) = ct { ct.len() } else { 0 });
    let results = side * program.outputs().len() * (params.big_dimension() + 1);
    memory.resize(memory.len() + results, 0);
    let spill = begin(memory);
    let slots = Layout::MOST_SLOTS;
    Ok(Layout { inputs: inputs_at, outputs, tables, key_switch, bootstrap, spill, slots })
}

/// Words of the program, the one that is changed and to what, status and offset. Instruction 0 loads: its words are 1 and 2.
fn damages(count: u64, magic: u64) -> [[u64; 5]; 10] {
    [
        [count, 0, 7, 1, 0],
        [count, 1, 9, 2, 1],
        [count, 1, 6 | 1 << 8, 3, 1],
        [count, 1, 1 | 1 << 40, 3, 1],
        [count, 1, 3, 4, 1],
        [count, 1, 3 | 4097 << 40, 4, 1],
        [count, 1, 5 | 0xFFFF << 8 | 2 << 40, 5, 1],
        [2, 0, magic, 6, 2],
        [count, 1, 0, 7, 2],
        [count, 1, 5 | 1 << 40 | 1 << 63, 8, 1],
    ]
}

/// The arguments of some additions, 200 + i and 100 − 7·i, and their results, which are checked.
fn additions(
    secret: &SecretKey,
    keys: &EvaluationKey,
    program: &Arc<Program>,
    side: usize,
    full: bool,
) -> Result<(Vec<Ciphertext>, Vec<Lwe>), Box<dyn Error>> {
    let pairs: Vec<u64> = (0..side as u64).map(|i| (200 + i) | (100 - 7 * i) << 8).collect();
    let encrypt = |i: usize| {
        let bits: Vec<u64> = pairs.iter().map(|pair| pair >> i & 1).collect();
        Ok(Ciphertext::Lwe(secret.encrypt_as(&bits, Encoding::of(secret.params()), 2)?))
    };
    let inputs = (0..16).map(encrypt).collect::<becalm::Result<Vec<_>>>()?;
    // Modulo p all backends agree bit for bit; the reference would take long for many.
    let many = full || side > 1;
    let backend = by_name(if many { "cpu" } else { "reference" }, &Cpu::new(0)?)?;
    let results = Evaluator::new(backend.as_ref(), keys)?.run(program, &inputs)?;
    let mut sums = vec![0; side];
    for (i, result) in results.iter().enumerate() {
        let bits = secret.decrypt(result)?;
        sums.iter_mut().zip(bits).for_each(|(sum, bit)| *sum |= bit << i);
    }
    if sums != pairs.iter().map(|pair| (pair & 255) + (pair >> 8)).collect::<Vec<u64>>() {
        return Err("the reference adds wrongly".into());
    }
    Ok((inputs, results))
}

/// Some 8-bit additions side by side, one program compiled. Byte address and words of the program, address of the slots;
/// clocks that the model of the machine says, of the whole, of its two big units, and of both at once; a count and the words
/// of memory; a count and damages of the program (its words, the changed one and to what, the status and offset that are to
/// be given), none for several additions; then results: address, count, words.
fn processor(s: &Sizes) -> Result<Vec<u64>, Box<dyn Error>> {
    let name = if s.get("FULL", 0) == 1 { "tfhe_2_2_p" } else { "toy_2_2_p" };
    let params = TfheParams::named(name)?;
    let secret = SecretKey::generate(params, true)?;
    let keys = secret.evaluation_key()?;
    let params = Arc::new(params.clone());
    let circuit = Circuit::parse(include_str!("../circuits/adder8.txt"))?;
    let program = Arc::new(circuit.compile(&params, Goal::Depth)?.program);
    let (side, full) = (s.get("lanes", 1), s.get("FULL", 0) == 1);
    let (inputs, results) = additions(&secret, &keys, &program, side, full)?;
    let (size, lanes) = (params.polynomial_size, s.get("T", 2));
    let machine = Machine { lanes, batch: s.get("batch", 4), ..Machine::default() };
    let mut memory = vec![0; PROGRAM_WORDS];
    let layout = image(&program, &keys, &inputs, lanes, &mut memory)?;
    let layout = Layout { slots: s.get("slots", layout.slots), ..layout };
    let lowered = program.lower(&layout, side, machine.batch)?;
    let binary = encode(&lowered.code)?;
    let words = binary
        .chunks(8)
        .map(|b| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]));
    let words: Vec<u64> = words.collect();
    if words.len() > PROGRAM_WORDS {
        return Err("the program is longer than its place".into());
    }
    memory[..words.len()].copy_from_slice(&words);
    memory.resize(memory.len() + lowered.spilled as usize / 8, 0);
    let slots_at = 8 * memory.len() as u64;
    let stride = machine.stride(&params);
    memory.resize(memory.len() + lowered.slots * stride as usize / 8, 0);
    let report = machine.simulate(&params, &lowered.code)?;
    let [switch, bootstrap] = [Unit::KeySwitch, Unit::Bootstrap];
    let (busy, both) = (|unit| report.busy(unit), report.both(switch, bootstrap));

    let count = words.len() as u64;
    let mut out = vec![0, count, slots_at, report.clocks, busy(switch), busy(bootstrap), both];
    out.push(memory.len() as u64);
    out.extend(memory);
    let damages = if side == 1 { &damages(count, words[0])[..] } else { &[] };
    out.push(damages.len() as u64);
    out.extend(damages.iter().flatten());
    let mut address = layout.outputs;
    for result in &results {
        for one in result.words().chunks(params.big_dimension() + 1) {
            let ct = machine_ciphertext(one, size, lanes);
            out.extend([address, ct.len() as u64]);
            address += 8 * ct.len() as u64;
            out.extend(ct);
        }
    }
    Ok(out)
}

/// Clocks of a batch of bootstraps and of one of key switches, then of each of many, for the set of the paper's table 4 (5).
fn clocks(s: &Sizes) -> Result<Vec<u64>, Box<dyn Error>> {
    let (lanes, batch) = (s.get("T", 2), s.get("batch", 4));
    let machine = Machine { lanes, batch, ..Machine::default() };
    let name = if s.get("LARGE", 0) == 1 { "paper_n800_p" } else { "paper_n500_p" };
    let p = TfheParams::named(name)?;
    let (bootstraps, key_switches) = machine.batch_clocks(p)?;
    let each = p.lwe_dimension * (p.glwe_dimension + 1) * p.polynomial_size / lanes;
    let switch = p.big_dimension() * (p.lwe_dimension + 1).div_ceil(lanes);
    Ok(vec![bootstraps, key_switches, each as u64, switch as u64])
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(directory), Some(unit)) = (args.next(), args.next()) else {
        return Err("rtl_vectors DIR UNIT key=value …".into());
    };
    let pairs = args.map(|a| {
        let (key, value) = a.split_once('=').ok_or("key=value")?;
        Ok::<_, Box<dyn Error>>((key.to_string(), value.parse()?))
    });
    let sizes = Sizes(pairs.collect::<Result<_, _>>()?);
    let mut words = Words(1);
    let vectors = match unit.as_str() {
        "arith" => arith(&sizes, &mut words),
        "ntt" => ntt(&sizes, &mut words),
        "decompose" => digits(&sizes, &mut words),
        "modulus_switch" => switch(&sizes, &mut words)?,
        "bootstrap" => bootstrap(&sizes, &mut words)?,
        "key_switch" => key_switch(&sizes, &mut words),
        "linear" => linear(&sizes, &mut words),
        "processor" => processor(&sizes)?,
        "clocks" => clocks(&sizes)?,
        other => return Err(format!("no vectors for {other}").into()),
    };
    let bytes: Vec<u8> = vectors.iter().flat_map(|w| w.to_le_bytes()).collect();
    std::fs::write(std::path::Path::new(&directory).join("vectors.bin"), bytes)?;
    Ok(())
}
