//! The slow interpreter: the definition of every instruction, one ciphertext at a time, exact arithmetic, no tricks.
//!
//! Other backends must agree with it: bit for bit modulo p; modulo 2^64, where they use floating point, in phase within
//! the FFT term of the noise formula. It shares with them only the gadget decomposition's definition and the exact
//! negacyclic product.

use super::registers::Registers;
use super::{Backend, Info, Loaded, Session};
use crate::cipher::{Ciphertext, EvaluationKey};
use crate::math::{Modulus, exact, gadget};
use crate::params::{ModulusSwitch, Rotation, TfheParams};
use crate::program::{Need, Op, Program, Reg, TableRef, Walk};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The definition, as a machine.
pub struct Reference;

impl Backend for Reference {
    fn info(&self) -> Info {
        let description = "exact, one ciphertext at a time".to_string();
        Info { name: "reference", description, memory: 0, best_batch: 1 }
    }

    fn supports(&self, op: &Op, _params: &TfheParams) -> bool {
        matches!(op, Op::MulAdd { .. } | Op::KeySwitch { .. } | Op::Bootstrap { .. })
    }

    fn open(&self, keys: &EvaluationKey, _needs: &BTreeSet<Need>) -> Result<Box<dyn Session>> {
        Ok(Box::new(ReferenceSession { keys: keys.clone(), registers: None }))
    }
}

struct ReferenceSession {
    keys: EvaluationKey,
    registers: Option<Registers>,
}

impl Session for ReferenceSession {
    fn load(&mut self, program: Arc<Program>, walk: Arc<Walk>, lanes: usize) -> Result<Loaded> {
        let loaded = Loaded { program, walk, lanes };
        self.registers = Some(Registers::new(loaded.clone()));
        Ok(loaded)
    }

    fn write(&mut self, at: Reg, lane: usize, ct: &Ciphertext) -> Result<()> {
        self.registers.as_mut().ok_or_else(not_loaded)?.write(at, lane, ct)
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<u64>> {
        self.registers.as_ref().ok_or_else(not_loaded)?.read(at, lanes)
    }

    fn run(&mut self, loaded: &Loaded, waves: Range<usize>) -> Result<()> {
        let regs = self.registers.as_mut().ok_or_else(not_loaded)?;
        let q = self.keys.params().modulus;
        for w in waves {
            for &i in &loaded.walk.waves[w].ops {
                let op = &loaded.program.ops()[i];
                regs.require_alive(&op.sources())?;
                for lane in 0..loaded.lanes {
                    match op {
                        Op::MulAdd { dst, terms, constant } => {
                            let mut sum = vec![0; loaded.program.width(*dst)];
                            for (c, r) in terms {
                                for (s, x) in sum.iter_mut().zip(regs.lane(*r, lane)) {
                                    *s = q.add(*s, q.mul(q.from_signed(*c), *x));
                                }
                            }
                            if let Some(body) = sum.last_mut() {
                                *body = q.add(*body, *constant);
                            }
                            regs.lane_mut(*dst, lane).copy_from_slice(&sum);
                        }
                        Op::KeySwitch { dst, src } => {
                            let out = key_switch(&self.keys, regs.lane(*src, lane));
                            regs.lane_mut(*dst, lane).copy_from_slice(&out);
                        }
                        Op::Bootstrap { dst, src, table } => {
                            let acc = table_polynomials(&loaded.program, regs, table, lane);
                            let acc = blind_rotate(&self.keys, acc, regs.lane(*src, lane))?;
                            let outputs = loaded.program.outputs_of(table);
                            for (dst, o) in dst.iter().zip(outputs) {
                                let out = extract(self.keys.params(), &acc, o.index);
                                regs.lane_mut(*dst, lane).copy_from_slice(&out);
                            }
                        }
                    }
                }
            }
            regs.retire(w);
        }
        Ok(())
    }
}

fn not_loaded() -> Error {
    Error::bad_input("run", "a loaded program", "none", "call load first")
}

/// The table as k+1 polynomials.
fn table_polynomials(
    program: &Program,
    regs: &Registers,
    table: &TableRef,
    lane: usize,
) -> Vec<Vec<u64>> {
    let (n, k) = (program.params().polynomial_size, program.params().glwe_dimension);
    match table {
        TableRef::Clear(t) => {
            let mut acc = vec![vec![0; n]; k];
            acc.push(program.tables()[*t as usize].polynomial().to_vec());
            acc
        }
        TableRef::Encrypted(reg, _) => {
            regs.lane(*reg, lane).chunks(n).map(<[u64]>::to_vec).collect()
        }
    }
}

/// (0, b) − Σ_i Σ_l digit_l(a_i)·K_(i,l), for a shared key (a_1 … a_n, b) less the sum over the others; modulo q or modulo 2^32 (elements are multiples of 2^32 then).
pub(crate) fn key_switch(keys: &EvaluationKey, ct: &[u64]) -> Vec<u64> {
    let p = keys.params();
    let (q, width, levels) = (p.modulus, p.lwe_dimension + 1, p.ks.level as usize);
    let (shared, switched) = ct[..p.big_dimension()].split_at(p.shared_dimension());
    let kept = |word: u64| match p.ks_modulus_log2 {
        32 => (word.wrapping_add(1 << 31) >> 32) << 32,
        _ => word,
    };
    let mut sum = vec![0u64; width];
    sum.iter_mut().zip(shared).for_each(|(s, a)| *s = kept(*a));
    sum[width - 1] = kept(ct[p.big_dimension()]);
    let mut digits = vec![0i64; levels];
    let mut rows = vec![0u64; levels * width];
    for (i, a) in switched.iter().enumerate() {
        gadget::decompose(q, p.ks, *a, &mut digits);
        keys.expand_key_switch(i, &mut rows);
        for (digit, row) in digits.iter().zip(rows.chunks(width)) {
            for (s, k) in sum.iter_mut().zip(row) {
                *s = q.sub(*s, q.mul(*k, q.from_signed(*digit)));
            }
        }
    }
    sum
}

/// The mask elements that each value other than 0 of a group adds up: in a multi-bit group those that the bits of the
/// value name, in a block one.
fn group_values(rotation: Rotation) -> Vec<Vec<usize>> {
    let bits = rotation.group_bits();
    let named = |v: usize| (0..bits).filter(|t| v >> t & 1 == 1).collect();
    match rotation {
        Rotation::MultiBit { .. } => (1..1 << bits).map(named).collect(),
        _ => (0..bits).map(|t| vec![t]).collect(),
    }
}

/// Exponents round(2N·x) of the sums of mask elements that the values of every group stand for, and of the (compensated)
/// body.
pub(crate) fn modulus_switch(p: &TfheParams, ct: &[u64]) -> Vec<usize> {
    let log2_2n = p.polynomial_size.trailing_zeros() + 1;
    let cell = 1i128 << (64 - log2_2n);
    let round = |x: i128| (x + cell / 2).div_euclid(cell);
    let lifted: Vec<i128> = ct.iter().map(|a| p.modulus.to_torus(*a) as i128).collect();
    let (mask, body) = lifted.split_at(p.lwe_dimension);
    let values = group_values(p.rotation);
    let sums = mask.chunks(p.rotation.group_bits()).flat_map(|group| {
        values.iter().map(|named| named.iter().map(|t| group[*t]).sum()).collect::<Vec<i128>>()
    });
    let sums: Vec<i128> = sums.collect();
    let mut exponents: Vec<i128> = sums.iter().map(|x| round(*x)).collect();
    let body = match p.modulus_switch {
        ModulusSwitch::Plain => round(body[0]),
        // A group's rounding error is e_v for its value v, in the mean Σ_v e_v/M over the M values. A table's box is
        // centred on half a cell below its value, so what is left is rounded down.
        ModulusSwitch::Centered => {
            let m = values.len() as i128 + 1;
            let errors: i128 = exponents.iter().zip(&sums).map(|(r, x)| r * cell - x).sum();
            (m * body[0] + errors).div_euclid(m * cell)
        }
    };
    exponents.push(body);
    exponents.iter().map(|e| e.rem_euclid(2 * p.polynomial_size as i128) as usize).collect()
}

/// X^(−b̃)·T, then for every i acc += ((X^ã_i − 1)·acc) ⊡ GGSW_i; with groups acc becomes what its digits stand for, and
/// then acc += acc ⊡ Σ_v (X^e_v − 1)·GGSW_v.
pub(crate) fn blind_rotate(
    keys: &EvaluationKey,
    table: Vec<Vec<u64>>,
    ct: &[u64],
) -> Result<Vec<Vec<u64>>> {
    let p = keys.params();
    let (n, k, q) = (p.polynomial_size, p.glwe_dimension, p.modulus);
    let exponents = modulus_switch(p, ct);
    let (body, exponents) = exponents.split_last().ok_or_else(not_loaded)?;
    let mut acc: Vec<Vec<u64>> = table.iter().map(|t| rotate(q, t, 2 * n - body)).collect();
    let mut ggsw = vec![0u64; p.pbs.level as usize * (k + 1) * (k + 1) * n];
    let grouped = matches!(p.rotation, Rotation::MultiBit { .. } | Rotation::Block { .. });
    let size = p.rotation.group_ggsws();
    for (group, exponents) in exponents.chunks(size).enumerate() {
        let product = if grouped {
            let mut bundle = vec![0u64; ggsw.len()];
            for (j, e) in exponents.iter().enumerate() {
                keys.expand_ggsw(group * size + j, &mut ggsw);
                for (sum, key) in bundle.chunks_mut(n).zip(ggsw.chunks(n)) {
                    let turned = turned_less_itself(q, key, *e);
                    sum.iter_mut().zip(turned).for_each(|(s, x)| *s = q.add(*s, x));
                }
            }
            let product = external_product(p, &acc, &bundle)?;
            acc.iter_mut().flatten().for_each(|c| {
                let mut digits = vec![0i64; p.pbs.level as usize];
                gadget::decompose(q, p.pbs, *c, &mut digits);
                *c = gadget::recompose(q, p.pbs, &digits);
            });
            product
        } else {
            keys.expand_ggsw(group, &mut ggsw);
            let difference: Vec<Vec<u64>> =
                acc.iter().map(|c| turned_less_itself(q, c, exponents[0])).collect();
            external_product(p, &difference, &ggsw)?
        };
        for (c, d) in acc.iter_mut().zip(product) {
            c.iter_mut().zip(d).for_each(|(c, d)| *c = q.add(*c, d));
        }
    }
    Ok(acc)
}

/// (X^e − 1)·c.
fn turned_less_itself(q: Modulus, c: &[u64], e: usize) -> Vec<u64> {
    rotate(q, c, e).iter().zip(c).map(|(r, c)| q.sub(*r, *c)).collect()
}

/// Σ_l Σ_r digit_l(c_r)·row(l, r).
fn external_product(p: &TfheParams, glwe: &[Vec<u64>], ggsw: &[u64]) -> Result<Vec<Vec<u64>>> {
    let (n, k, q, levels) = (p.polynomial_size, p.glwe_dimension, p.modulus, p.pbs.level as usize);
    let mut out = vec![vec![0u64; n]; k + 1];
    for (r, c) in glwe.iter().enumerate() {
        let mut digits = vec![0i64; levels * n];
        gadget::decompose_slice(q, p.pbs, c, &mut digits);
        for (l, digits) in digits.chunks(n).enumerate() {
            let row = &ggsw[(l * (k + 1) + r) * (k + 1) * n..][..(k + 1) * n];
            for (out, row) in out.iter_mut().zip(row.chunks(n)) {
                exact::multiply_add(q, out, digits, row)?;
            }
        }
    }
    Ok(out)
}

/// X^e·c in Z_q[X]/(X^N + 1).
fn rotate(q: Modulus, c: &[u64], e: usize) -> Vec<u64> {
    let n = c.len();
    let mut out = vec![0; n];
    for (j, x) in c.iter().enumerate() {
        let at = (j + e) % (2 * n);
        out[at % n] = if at < n { *x } else { q.neg(*x) };
    }
    out
}

/// The LWE ciphertext of coefficient `index`: mask j of S_i is the coefficient index − j of A_i.
fn extract(p: &TfheParams, acc: &[Vec<u64>], index: usize) -> Vec<u64> {
    let n = p.polynomial_size;
    let mut out = Vec::with_capacity(p.big_dimension() + 1);
    for a in &acc[..p.glwe_dimension] {
        let turned = rotate(p.modulus, a, 2 * n - index);
        // X^(−index)·A brings coefficient `index` to the front; its other coefficients multiply S backwards.
        out.push(turned[0]);
        out.extend((1..n).map(|j| p.modulus.neg(turned[n - j])));
    }
    out.push(acc[p.glwe_dimension][index]);
    out
}
