//! The slow interpreter: the definition of every instruction, one ciphertext at a time, exact arithmetic, no tricks.
//!
//! Other backends must agree with it: bit for bit modulo p; modulo 2^64, where they use floating point, in phase within
//! the FFT term of the noise formula. It shares with them the gadget decomposition's definition, the exact
//! negacyclic product, and registers with the layout of a key switch's input.

use crate::backend::registers::{Registers, not_loaded};
use crate::backend::{Loaded, Session};
use crate::bootstrap::tfhe::Shape;
use crate::cipher::{EvaluationKey, SlotKey};
use crate::math::{Modulus, exact, gadget};
use crate::params::{ModulusSwitch, Rotation, TfheParams};
use crate::program::{Op, Operation, Program, Reg, TableRef, Walk};
use crate::tfhe::key_switch::KeySwitchShape;
use crate::{Progress, Result};
use std::ops::Range;
use std::sync::Arc;

/// TFHE as it is defined.
pub(super) struct LweSession {
    keys: EvaluationKey,
    registers: Option<Registers>,
}

impl LweSession {
    pub(super) fn new(keys: &EvaluationKey) -> LweSession {
        LweSession { keys: keys.clone(), registers: None }
    }
}

impl Session for LweSession {
    fn splits_waves(&self) -> bool {
        true
    }

    fn load(
        &mut self,
        program: Arc<Program>,
        walk: Arc<Walk>,
        lanes: usize,
        _progress: Progress,
    ) -> Result<Loaded> {
        let loaded = Loaded { program, walk, lanes };
        self.registers = Some(Registers::new(loaded.clone()));
        Ok(loaded)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[u64]) -> Result<()> {
        self.registers.as_mut().ok_or_else(not_loaded)?.write(at, lane, words)
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<u64>> {
        self.registers.as_ref().ok_or_else(not_loaded)?.read(at, lanes).map(<[u64]>::to_vec)
    }

    fn run(&mut self, waves: Range<usize>, _progress: Progress) -> Result<()> {
        let regs = self.registers.as_mut().ok_or_else(not_loaded)?;
        let loaded = regs.loaded().clone();
        loaded.check_waves(&waves)?;
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
                            let mask = sum.len() - regs.bodies(*dst);
                            sum[mask..].iter_mut().for_each(|b| *b = q.add(*b, *constant));
                            regs.lane_mut(*dst, lane).copy_from_slice(&sum);
                        }
                        Op::AddSlots { dst, src, constants } => {
                            let mut sum = regs.lane(*src, lane).to_vec();
                            let mask = sum.len() - constants.len();
                            for (body, c) in sum[mask..].iter_mut().zip(constants) {
                                *body = q.add(*body, *c);
                            }
                            regs.lane_mut(*dst, lane).copy_from_slice(&sum);
                        }
                        Op::Extract { dst, src, slot } => {
                            // The mask, then the body of the slot.
                            let mut out = regs.lane(*src, lane).to_vec();
                            let mask = out.len() - regs.bodies(*src);
                            out.swap(mask, mask + *slot as usize);
                            out.truncate(mask + 1);
                            regs.lane_mut(*dst, lane).copy_from_slice(&out);
                        }
                        Op::KeySwitch { dst, .. }
                        | Op::Pack { dst, .. }
                        | Op::SlotMap { dst, .. } => {
                            let out = key_switch(&self.keys, op, &regs.key_switch_input(op, lane))?;
                            regs.lane_mut(*dst, lane).copy_from_slice(&out);
                        }
                        Op::Bootstrap { dst, src, table } => {
                            let acc = table_polynomials(&loaded.program, regs, table, lane);
                            let acc = blind_rotate(&self.keys, acc, regs.lane(*src, lane))?;
                            let outputs = loaded.program.outputs_of(table);
                            for (dst, o) in dst.iter().zip(&*outputs) {
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

/// The table as k+w polynomials.
fn table_polynomials(
    program: &Program,
    regs: &Registers,
    table: &TableRef,
    lane: usize,
) -> Vec<Vec<u64>> {
    let p = program.params();
    let (n, k, parts) = (p.polynomial_size, p.glwe_dimension, p.accumulators());
    if let TableRef::Encrypted(reg, _) = table {
        // Polynomial c of accumulator j holds the coefficients j modulo 2^η of polynomial c of the whole.
        let words = regs.lane(*reg, lane);
        let at = |c: usize, i: usize| words[(i % parts * (k + 1) + c) * n + i / parts];
        return (0..=k).map(|c| (0..p.table_size()).map(|i| at(c, i)).collect()).collect();
    }
    let mut acc = vec![vec![0; p.table_size()]; p.glwe_dimension];
    acc.extend((0..p.slots).filter_map(|slot| Some(program.polynomial(table, slot)?.to_vec())));
    acc
}

/// (0, b_1, …, b_w) − Σ_i Σ_l digit_l(a_i)·K_(i,l), for a shared key (a_1 … a_n, b_1, …, b_w) less the sum over the
/// others; modulo q or modulo 2^32 (elements are multiples of 2^32 then).
pub(crate) fn key_switch(keys: &EvaluationKey, op: &Op, ct: &[u64]) -> Result<Vec<u64>> {
    let p = keys.params();
    let slot_key = op.need().map_or(Ok(None), |need| need.slot_key(keys))?;
    let shape = slot_key.map_or(KeySwitchShape::of(p), SlotKey::shape);
    let (q, gadget, levels) = (p.modulus, shape.gadget, shape.gadget.level as usize);
    let width = shape.output_dimension + p.slots;
    let mut sum = vec![0u64; width];
    let (mask, bodies) = ct.split_at(ct.len() - p.slots);
    let (shared, switched) = mask.split_at(shape.shared);
    let kept = |word: u64| match shape.modulus_log2 {
        32 => (word.wrapping_add(1 << 31) >> 32) << 32,
        _ => word,
    };
    sum.iter_mut().zip(shared).for_each(|(s, a)| *s = kept(*a));
    sum[shape.output_dimension..].iter_mut().zip(bodies).for_each(|(s, b)| *s = kept(*b));
    let mut digits = vec![0i64; levels];
    let mut rows = vec![0u64; levels * width];
    for (i, a) in switched.iter().enumerate() {
        gadget::decompose(q, gadget, *a, &mut digits);
        match slot_key {
            Some(key) => key.expand(i, &mut rows),
            None => keys.expand_key_switch(i, &mut rows),
        }
        for (digit, row) in digits.iter().zip(rows.chunks(width)) {
            for (s, k) in sum.iter_mut().zip(row) {
                *s = q.sub(*s, q.mul(*k, q.from_signed(*digit)));
            }
        }
    }
    Ok(sum)
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
/// bodies.
pub(crate) fn modulus_switch(p: &TfheParams, ct: &[u64]) -> Vec<usize> {
    let log2_2n = p.table_size().trailing_zeros() + 1;
    let cell = 1i128 << (64 - log2_2n);
    let round = |x: i128| (x + cell / 2).div_euclid(cell);
    // The multiple of a power of two that costs least, the coarsest of equals.
    let companion = |x: i128, coarsest: u32, weight: u32| {
        let cost = |r: &i128| {
            let work = 1i128 << (coarsest - r.trailing_zeros().min(coarsest));
            work * cell * cell + i128::from(weight) * (r * cell - x) * (r * cell - x)
        };
        let nearest = |t: u32| (x + (cell << t) / 2).div_euclid(cell << t) << t;
        (0..=coarsest).rev().map(nearest).min_by_key(cost).unwrap_or(0)
    };
    let lifted: Vec<i128> = ct.iter().map(|a| p.modulus.to_torus(*a) as i128).collect();
    let (mask, bodies) = lifted.split_at(p.lwe_dimension);
    let values = group_values(p.rotation);
    let sums = mask.chunks(p.rotation.group_bits()).flat_map(|group| {
        values.iter().map(|named| named.iter().map(|t| group[*t]).sum()).collect::<Vec<i128>>()
    });
    let sums: Vec<i128> = sums.collect();
    let exponent = |x: &i128| match p.modulus_switch {
        ModulusSwitch::Companion { coarsest_log2, weight } => companion(*x, coarsest_log2, weight),
        _ => round(*x),
    };
    let mut exponents: Vec<i128> = sums.iter().map(exponent).collect();
    let errors: i128 = exponents.iter().zip(&sums).map(|(r, x)| r * cell - x).sum();
    let m = values.len() as i128 + 1;
    exponents.extend(bodies.iter().map(|body| match p.modulus_switch {
        ModulusSwitch::Plain => round(*body),
        // A group's rounding error is e_v for its value v, in the mean Σ_v e_v/M over the M values. A table's box is
        // centred on half a cell below its value, so what is left is rounded down.
        _ => (m * body + errors).div_euclid(m * cell),
    }));
    exponents.iter().map(|e| e.rem_euclid(2 * p.table_size() as i128) as usize).collect()
}

/// X^(−b̃)·T, each body by its own b̃, then acc += ((X^ã_i − 1)·acc) ⊡ GGSW_i for every i, in the ring of the table, Y^(2^η)
/// being the key's X; with groups acc becomes what its digits stand for, and then acc += acc ⊡ Σ_v (X^e_v − 1)·GGSW_v.
/// The order is i = 0, 1, … but for an extended rotation, where exponents of lesser 2-adic valuation (of at most η) go
/// first.
pub(crate) fn blind_rotate(
    keys: &EvaluationKey,
    table: Vec<Vec<u64>>,
    ct: &[u64],
) -> Result<Vec<Vec<u64>>> {
    let p = keys.params();
    let (n, k, q) = (p.table_size(), p.glwe_dimension, p.modulus);
    let exponents = modulus_switch(p, ct);
    let count = p.ggsw_count();
    let body = |column: usize| exponents[count + column.saturating_sub(k)];
    let mut acc: Vec<Vec<u64>> =
        table.iter().enumerate().map(|(c, t)| rotate(q, t, 2 * n - body(c))).collect();
    let size = p.rotation.group_ggsws();
    let mut order: Vec<usize> = (0..count / size).collect();
    let valuation =
        |i: &usize| exponents[*i].trailing_zeros().min(p.accumulators().trailing_zeros());
    if size == 1 {
        order.sort_by_key(valuation);
    }
    let grouped = matches!(p.rotation, Rotation::MultiBit { .. } | Rotation::Block { .. });
    for i in order {
        let exponents = &exponents[i * size..(i + 1) * size];
        let product = if grouped {
            let product = external_product(p, &acc, &bundle(keys, i, exponents))?;
            acc.iter_mut().flatten().for_each(|c| {
                let mut digits = vec![0i64; p.pbs.level as usize];
                gadget::decompose(q, p.pbs, *c, &mut digits);
                *c = gadget::recompose(q, p.pbs, &digits);
            });
            product
        } else {
            let mut ggsw = vec![0u64; Shape::of(p).ggsw_len()];
            keys.expand_ggsw(i, &mut ggsw);
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

/// Σ_v (X^e_v − 1)·GGSW_v of a group.
fn bundle(keys: &EvaluationKey, group: usize, exponents: &[usize]) -> Vec<u64> {
    let p = keys.params();
    let mut bundle = vec![0u64; Shape::of(p).ggsw_len()];
    let mut ggsw = bundle.clone();
    for (j, e) in exponents.iter().enumerate() {
        keys.expand_ggsw(group * exponents.len() + j, &mut ggsw);
        let polynomials = ggsw.chunks(p.polynomial_size);
        for (sum, key) in bundle.chunks_mut(p.polynomial_size).zip(polynomials) {
            let turned = turned_less_itself(p.modulus, key, *e);
            sum.iter_mut().zip(turned).for_each(|(s, x)| *s = p.modulus.add(*s, x));
        }
    }
    bundle
}

/// (X^e − 1)·c.
fn turned_less_itself(q: Modulus, c: &[u64], e: usize) -> Vec<u64> {
    rotate(q, c, e).iter().zip(c).map(|(r, c)| q.sub(*r, *c)).collect()
}

/// Σ_l Σ_r digit_l(c_r)·row(l, r).
fn external_product(p: &TfheParams, glwe: &[Vec<u64>], ggsw: &[u64]) -> Result<Vec<Vec<u64>>> {
    let (n, q, levels) = (p.table_size(), p.modulus, p.pbs.level as usize);
    let columns = glwe.len();
    // The key's polynomials in the ring of the table.
    let mut spread = vec![0; ggsw.len() * p.accumulators()];
    spread.iter_mut().step_by(p.accumulators()).zip(ggsw).for_each(|(to, x)| *to = *x);
    let ggsw = spread;
    let mut out = vec![vec![0u64; n]; columns];
    for (r, c) in glwe.iter().enumerate() {
        let mut digits = vec![0i64; levels * n];
        gadget::decompose_slice(q, p.pbs, c, &mut digits);
        for (l, digits) in digits.chunks(n).enumerate() {
            let row = &ggsw[(l * columns + r) * columns * n..][..columns * n];
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

/// The LWE ciphertext of coefficient `index`, a multiple of 2^η: mask j of S_i is the coefficient index − 2^η·j of A_i.
fn extract(p: &TfheParams, acc: &[Vec<u64>], index: usize) -> Vec<u64> {
    let (n, step) = (p.table_size(), p.accumulators());
    let mut out = Vec::with_capacity(p.big_dimension() + p.slots);
    for a in &acc[..p.glwe_dimension] {
        let turned = rotate(p.modulus, a, 2 * n - index);
        // X^(−index)·A brings coefficient `index` to the front; its other coefficients multiply S backwards.
        out.push(turned[0]);
        out.extend((step..n).step_by(step).map(|j| p.modulus.neg(turned[n - j])));
    }
    out.extend(acc[p.glwe_dimension..].iter().map(|body| body[index]));
    out
}
