//! The definition of every instruction of CKKS, in exact integers: nothing is transformed, hoisted or put off.
//!
//! A level l has the modulus Q_l; x' = [x·Q_k/Q_l] is the rescale to level k, [·] the nearest integer: one rounding, wherever the
//! words of the levels are. A key switch of c cuts it into its residues d_j modulo the digits D_j, nearest zero; Σ_j d_j·(b_j, a_j)
//! is taken modulo Q_l·P and divided by P, and by Q_l/Q_k with the same rounding where a rescale follows (a product). Scales are
//! doubles: a multiple c·x that is to have the scale S takes the integer nearest c·S/s, computed in doubles, for x of scale s.
//! A machine has these words, but for [`CkksOp::Linear`], where it may round elsewhere: within the error of its key switches.
//! Shared with other machines: which primes, digits and keys there are, and how values become real coefficients.

use super::polynomial::{Limb, Polynomial, integer, product};
use crate::backend::registers::{Registers, not_loaded};
use crate::backend::{Ckks, CkksSetup, Loaded, Session};
use crate::cipher::{Account, Held, Integers, Purpose, Rlwe};
use crate::ckks::{
    CHEBYSHEV_LEAF, Chebyshev, Context, power_of_rotation, same_scale, sum_rotations,
};
use crate::math::complex::Complex;
use crate::math::simd::Level;
use crate::program::rlwe::{CkksOp, CkksProgram, RlweInfo};
use crate::program::{Operation, Reg, Walk};
use crate::{Error, Progress, Result};
use num_bigint::BigInt;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// A ciphertext at a level: c_0 + c_1·s is the message at its scale.
#[derive(Clone)]
struct Pair {
    level: usize,
    scale: f64,
    parts: [Polynomial; 2],
}

/// For each digit the pair (b_j, a_j), modulo the words of the key's level and its special ones.
struct Key {
    level: usize,
    special: usize,
    digits: Vec<[Polynomial; 2]>,
}

/// Terms at one level and scale, before relinearization and rescaling.
struct Terms {
    level: usize,
    scale: f64,
    /// The coefficients of 1, s and s².
    parts: [Polynomial; 3],
    square: bool,
}

/// CKKS as it is defined, for small rings: a product takes N² steps.
pub(super) struct RlweSession {
    /// Its tables unpack keys and encode values; its ring allocates ciphertexts.
    context: Context,
    on: CkksSetup,
    known: Mutex<BTreeMap<(Purpose, usize), Arc<Key>>>,
    registers: Option<File>,
}

type File = Registers<Ckks, Option<Pair>>;

const OP: &str = "run the reference";

impl Session<Ckks> for RlweSession {
    fn load(
        &mut self,
        program: Arc<CkksProgram>,
        walk: Arc<Walk>,
        lanes: usize,
        _progress: Progress,
    ) -> Result<Loaded<Ckks>> {
        self.context.check_set(OP, program.params().name)?;
        program.require(&self.on.keys)?;
        let loaded = Loaded { program, walk, lanes };
        self.registers = Some(Registers::new(loaded.clone()));
        Ok(loaded)
    }

    fn write(&mut self, at: Reg, lane: usize, words: &[Rlwe]) -> Result<()> {
        let loaded = self.registers.as_ref().ok_or_else(not_loaded)?.loaded();
        loaded.check_write(at, lane, words.len())?;
        let level = loaded.program.reg(at).level;
        let down = |x| Ok(Some(self.level_down(&self.taken(x), level)?));
        let taken = words.iter().map(down).collect::<Result<Vec<_>>>()?;
        self.registers.as_mut().ok_or_else(not_loaded)?.write(at, lane, &taken)
    }

    fn read(&self, at: Reg, lanes: Range<usize>) -> Result<Vec<Rlwe>> {
        let registers = self.registers.as_ref().ok_or_else(not_loaded)?;
        registers.read(at, lanes.clone())?;
        let slots = registers.loaded().program.reg(at).slots;
        lanes.map(|lane| Ok(self.given(registers.get(at, lane)?, slots))).collect()
    }

    fn run(&mut self, waves: Range<usize>, _progress: Progress) -> Result<()> {
        let mut registers = self.registers.take().ok_or_else(not_loaded)?;
        let done = self.run_waves(&mut registers, waves);
        self.registers = Some(registers);
        done
    }
}

impl RlweSession {
    pub(super) fn new(on: CkksSetup) -> Result<RlweSession> {
        let context = Context::of(&on.chain, Level::best())?;
        Ok(RlweSession { context, on, known: Mutex::default(), registers: None })
    }

    fn run_waves(&self, registers: &mut File, waves: Range<usize>) -> Result<()> {
        let loaded = registers.loaded().clone();
        loaded.check_waves(&waves)?;
        for w in waves {
            for op in loaded.walk.waves[w].ops.iter().map(|i| &loaded.program.ops()[*i]) {
                for lane in 0..loaded.lanes {
                    let made = self.made(&loaded.program, op, registers, lane)?;
                    registers.put(op.result(), lane, made);
                }
            }
            registers.retire(w);
        }
        Ok(())
    }

    /// The result of an instruction, at the level and the scale that the program recorded.
    fn made(
        &self,
        program: &CkksProgram,
        op: &CkksOp,
        registers: &File,
        lane: usize,
    ) -> Result<Pair> {
        let RlweInfo { level, scale, .. } = *program.reg(op.result());
        let made = self.step(program, op, registers, lane)?;
        if made.level == level && same_scale(made.scale, scale) {
            return Ok(Pair { scale, ..made });
        }
        let wanted = format!("{} at level {level} and scale {scale:e}", op.name());
        let got = format!("level {}, scale {:e}", made.level, made.scale);
        Err(Error::bad_input(OP, wanted, got, "record the program again"))
    }

    fn primes(&self, level: usize, special: usize) -> Vec<u64> {
        let primes = self.context.primes();
        self.context.words_of(level, special).iter().map(|i| primes[*i]).collect()
    }

    fn degree(&self) -> usize {
        self.context.params().degree()
    }

    /// A ciphertext by its coefficients.
    fn taken(&self, x: &Rlwe) -> Pair {
        let (primes, n) = (self.primes(x.level, 0), self.degree());
        let part = |part: &[f64]| {
            let limbs = primes.iter().zip(part.chunks(n));
            Polynomial(limbs.map(|(p, values)| Limb::of_values(*p, values)).collect())
        };
        let [a, b] = &x.parts;
        Pair { level: x.level, scale: x.scale, parts: [part(a), part(b)] }
    }

    /// And by its values.
    fn given(&self, x: &Pair, slots: usize) -> Rlwe {
        let parts = x.parts.each_ref().map(|part| {
            let values: Vec<f64> = part.0.iter().flat_map(Limb::values).collect();
            let mut out = self.context.ring().scratch(values.len());
            out.copy_from_slice(&values);
            Arc::new(out)
        });
        let (params, key) = (self.context.params().name, self.on.keys.id);
        let (level, scale, account) = (x.level, x.scale, Account::UNKNOWN);
        Rlwe { params, key, level, scale, slots, account, integers: None, parts }
    }

    /// The key for a purpose in the tier of a level.
    fn key(&self, purpose: Purpose, level: usize) -> Result<Arc<Key>> {
        let which = (purpose, self.context.tier_at(level));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = known.get(&which) {
            return Ok(key.clone());
        }
        let held = self.on.keys.switches.get(&which).ok_or_else(|| {
            let wanted = purpose.words(self.degree());
            let remedy = "make keys for what the program needs";
            Error::wrong_key(OP, format!("a key for {wanted}"), "none", remedy)
        })?;
        let ready = match held {
            Held::Ready(key) => key.clone(),
            Held::Stored(key) => Arc::new(self.context.expand(purpose, key, key.level, true)?),
        };
        let (primes, n) = (self.primes(ready.level, ready.special), self.degree());
        let row = |limbs: &[f64]| {
            let limbs = primes.iter().zip(limbs.chunks(n));
            Polynomial(limbs.map(|(p, values)| Limb::of_values(*p, values)).collect())
        };
        let size = primes.len() * n;
        let rows = ready.bodies.chunks(size).zip(ready.masks.chunks(size));
        let digits = rows.map(|(b, a)| [row(b), row(a)]).collect();
        let key = Arc::new(Key { level: ready.level, special: ready.special, digits });
        known.insert(which, key.clone());
        Ok(key)
    }

    /// Σ_j d_j·(b_j, a_j) modulo Q·P, d_j the residues of `c` at `level` modulo the digits.
    fn switched(&self, c: &Polynomial, level: usize, key: &Key) -> [Polynomial; 2] {
        let all = self.primes(level, key.special);
        let (count, stored) = (self.context.words(level), self.context.words(key.level));
        let mut sums = [0, 1].map(|_| Polynomial::zero(&all, self.degree()));
        for (own, row) in self.context.digits(level).into_iter().zip(&key.digits) {
            let digit = Polynomial::of_integers(&c.of(own).integers(), &all);
            for (sum, part) in sums.iter_mut().zip(row) {
                let mut words = part.of(0..count);
                words.0.extend(part.of(stored..stored + key.special).0);
                *sum = sum.plus(&digit.times(&words));
            }
        }
        sums
    }

    /// `x` modulo Q times P, modulo Q·P.
    fn raised(&self, x: &Polynomial, level: usize, special: usize) -> Polynomial {
        let all = self.primes(level, special);
        let factor = product(&all[x.0.len()..]);
        let mut out = x.scaled(&factor);
        out.0.extend(Polynomial::zero(&all[x.0.len()..], self.degree()).0);
        out
    }

    /// (c_0 + …, …): an encryption of c_0 + c_1·s' under s, for a key from s' to s, at level `to`.
    fn relinearized(
        &self,
        parts: [&Polynomial; 3],
        from: usize,
        to: usize,
        key: &Key,
    ) -> [Polynomial; 2] {
        let [constant, linear, switched] = parts;
        let sums = self.switched(switched, from, key);
        let primes = self.primes(to, 0);
        let [a, b] = [(constant, &sums[0]), (linear, &sums[1])]
            .map(|(own, sum)| self.raised(own, from, key.special).plus(sum).rescaled(&primes));
        [a, b]
    }

    /// X → X^g, and back to the secret.
    fn image(&self, x: &Pair, purpose: Purpose, g: usize) -> Result<Pair> {
        let key = self.key(purpose, x.level)?;
        let none = Polynomial::zero(&x.parts[0].primes(), self.degree());
        let parts = self.relinearized([&x.parts[0], &none, &x.parts[1]], x.level, x.level, &key);
        Ok(Pair { parts: parts.map(|part| part.image(g)), ..*x })
    }

    fn rotated(&self, x: &Pair, by: i64) -> Result<Pair> {
        match power_of_rotation(by, self.degree()) {
            1 => Ok(x.clone()),
            g => self.image(x, Purpose::Galois(g as u32), g),
        }
    }

    /// The integer polynomial that has values in its slots at a scale, modulo the words of a level.
    fn encoded(&self, values: &[Complex], scale: f64, level: usize) -> Polynomial {
        let real = self.context.coefficients(values, scale);
        let integers: Vec<BigInt> = real.iter().map(|x| integer(x.round_ties_even())).collect();
        Polynomial::of_integers(&integers, &self.primes(level, 0))
    }

    /// The polynomial whose coefficients are integers m of so many bits, each m·q_0/2^bits: a single one in all places, others in the first.
    fn integers(&self, values: &[Complex], bits: u32) -> Polynomial {
        let (n, unit) = (self.degree(), self.context.step(0) / f64::from(1u32 << bits));
        let place = |i| if values.len() == 1 { 0 } else { Integers::coefficient(i, n) };
        let m = |i| integer((values.get(place(i)).map_or(0.0, |m| m.re) * unit).round_ties_even());
        Polynomial::of_integers(&(0..n).map(m).collect::<Vec<_>>(), &self.primes(0, 0))
    }

    fn terms(&self, level: usize, scale: f64) -> Terms {
        let primes = self.primes(level, 0);
        let parts = [0, 1, 2].map(|_| Polynomial::zero(&primes, self.degree()));
        Terms { level, scale, parts, square: false }
    }

    /// At a lower level with the same scale: modulo fewer words, or, below the words that a level begins with, times the integer nearest
    /// q and rescaled by q.
    fn truncated(&self, x: &Pair, level: usize) -> Pair {
        let lowest = self.context.tier_of(x.level).start.max(level);
        let words = self.context.words(lowest);
        let parts = x.parts.each_ref().map(|part| part.of(0..words));
        let x = Pair { level: lowest, parts, ..*x };
        if lowest == level {
            return x;
        }
        let mut terms = self.terms(lowest, x.scale * self.context.step(lowest).round());
        self.add_multiple(&mut terms, &x, 1.0);
        let below = Pair { scale: x.scale, ..self.rescaled(&terms) };
        self.truncated(&below, level)
    }

    fn add_multiple(&self, terms: &mut Terms, x: &Pair, c: f64) {
        let (x, factor) = (self.truncated(x, terms.level), (c * terms.scale / x.scale).round());
        for (sum, part) in terms.parts.iter_mut().zip(&x.parts) {
            *sum = sum.plus(&part.scaled(&integer(factor)));
        }
    }

    fn add_constant(&self, terms: &mut Terms, c: f64) {
        terms.parts[0] = terms.parts[0].plus_constant(&integer((c * terms.scale).round()));
    }

    /// Adds `times`·a·b.
    fn add_product(&self, terms: &mut Terms, a: &Pair, b: &Pair, times: i64) {
        let [a, b] = [a, b].map(|x| self.truncated(x, terms.level).parts);
        let products =
            [a[0].times(&b[0]), a[0].times(&b[1]).plus(&a[1].times(&b[0])), a[1].times(&b[1])];
        for (sum, product) in terms.parts.iter_mut().zip(products) {
            *sum = sum.plus(&product.scaled(&BigInt::from(times)));
        }
        terms.square = true;
    }

    /// One level lower, without a term in s².
    fn rescaled(&self, terms: &Terms) -> Pair {
        let (level, scale) = (terms.level - 1, terms.scale / self.context.step(terms.level));
        let primes = self.primes(level, 0);
        let parts = [0, 1].map(|k| terms.parts[k].rescaled(&primes));
        Pair { level, scale, parts }
    }

    /// One level lower, the term in s² relinearized with the same rounding.
    fn finished(&self, terms: &Terms) -> Result<Pair> {
        if !terms.square {
            return Ok(self.rescaled(terms));
        }
        let (level, scale) = (terms.level - 1, terms.scale / self.context.step(terms.level));
        let key = self.key(Purpose::Multiply, terms.level)?;
        let parts = self.relinearized(terms.parts.each_ref(), terms.level, level, &key);
        Ok(Pair { level, scale, parts })
    }

    /// At the scale of a lower level of the user.
    fn level_down(&self, x: &Pair, level: usize) -> Result<Pair> {
        let scale = self.context.scale(level)?;
        if level >= x.level || same_scale(x.scale, scale) {
            return Ok(self.truncated(x, level));
        }
        let mut terms = self.terms(level + 1, scale * self.context.step(level + 1));
        self.add_multiple(&mut terms, &self.truncated(x, level + 1), 1.0);
        Ok(self.rescaled(&terms))
    }

    /// Σ diagonal_k ⊙ (x rotated by k), rescaled once. A rotation by k is one by each of its steps, of which there are keys.
    fn linear(&self, x: &Pair, program: &CkksProgram, map: u32) -> Result<Pair> {
        let spec = &program.maps()[map as usize];
        let (steps, reader) = (spec.matrix.steps(spec.baby), spec.matrix.reader());
        let mut terms = self.terms(x.level, x.scale * spec.scale);
        let onward = |x: Pair, by: usize| self.rotated(&x, (by * steps.stride) as i64);
        let mut giant = x.clone();
        for j in 0..steps.giant {
            let mut middle = giant.clone();
            for l in 0..steps.middle {
                for i in 0..steps.baby {
                    let k = ((j * steps.middle + l) * steps.baby + i) * steps.stride;
                    if !spec.matrix.rotations().any(|there| there == k) {
                        continue;
                    }
                    let turned = onward(middle.clone(), i)?;
                    let diagonal = self.encoded(&reader.diagonal(k), spec.scale, x.level);
                    for (sum, part) in terms.parts.iter_mut().zip(&turned.parts) {
                        *sum = sum.plus(&part.times(&diagonal));
                    }
                }
                if l + 1 < steps.middle {
                    middle = onward(middle, steps.baby)?;
                }
            }
            if j + 1 < steps.giant {
                giant = onward(giant, steps.middle * steps.baby)?;
            }
        }
        self.finished(&terms)
    }

    /// Under the ephemeral secret at level 0, then the residues nearest zero at `level`, times an integer, and back.
    fn raise_modulus(&self, x: &Pair, level: usize, scale: f64) -> Result<Pair> {
        let none = Polynomial::zero(&self.primes(0, 0), self.degree());
        let key = self.key(Purpose::ToEphemeral, level)?;
        let sparse = self.relinearized([&x.parts[0], &none, &x.parts[1]], 0, 0, &key);
        let (primes, factor) = (self.primes(level, 0), (scale / self.context.step(0)).round());
        let lifted = sparse.map(|part| {
            Polynomial::of_integers(&part.integers(), &primes).scaled(&integer(factor))
        });
        let back = self.key(Purpose::FromEphemeral, level)?;
        let none = Polynomial::zero(&primes, self.degree());
        let parts = self.relinearized([&lifted[0], &none, &lifted[1]], level, level, &back);
        Ok(Pair { level, scale: self.context.step(0) * factor, parts })
    }

    /// p = q·T_k + r down to parts of degree at most [`CHEBYSHEV_LEAF`], k the largest power of two in p; each part at the scale that
    /// brings the whole to `scale`, rescaled once.
    fn polynomial(&self, x: &Pair, p: &Chebyshev, scale: f64) -> Result<Pair> {
        let mut powers = BTreeMap::from([(1, x.clone())]);
        let mut k = 2;
        while k <= p.degree() {
            self.extend(&mut powers, k)?;
            if k == 2 && p.degree() > CHEBYSHEV_LEAF {
                self.extend(&mut powers, 3)?;
            }
            k *= 2;
        }
        let level = x.level + 1 - p.depth();
        let scale = scale * self.context.step(level);
        self.finished(&self.parts_of(&powers, p, level, scale)?)
    }

    /// T_k = 2·T_a·T_b − T_(a−b), a + b = k.
    fn extend(&self, powers: &mut BTreeMap<usize, Pair>, k: usize) -> Result<()> {
        let a = if k.is_power_of_two() { k / 2 } else { 1 << k.ilog2() };
        let (x, y) = (&powers[&a], &powers[&(k - a)]);
        let mut terms = self.terms(x.level.min(y.level), x.scale * y.scale);
        self.add_product(&mut terms, x, y, 2);
        match 2 * a - k {
            0 => self.add_constant(&mut terms, -1.0),
            d => self.add_multiple(&mut terms, &powers[&d], -1.0),
        }
        let made = self.finished(&terms)?;
        powers.insert(k, made);
        Ok(())
    }

    fn parts_of(
        &self,
        powers: &BTreeMap<usize, Pair>,
        p: &Chebyshev,
        level: usize,
        scale: f64,
    ) -> Result<Terms> {
        let there = |i: usize| powers.get(&i).is_some_and(|t| t.level >= level);
        if p.degree() <= 1 || p.degree() <= CHEBYSHEV_LEAF && (1..=p.degree()).all(there) {
            let mut terms = self.terms(level, scale);
            self.add_constant(&mut terms, p.0[0]);
            for i in (1..=p.degree()).filter(|i| p.0[*i] != 0.0) {
                self.add_multiple(&mut terms, &powers[&i], p.0[i]);
            }
            return Ok(terms);
        }
        let k = 1 << p.degree().ilog2();
        let [quotient, remainder] = p.divided(k);
        let mut terms = self.parts_of(powers, &remainder, level, scale)?;
        if quotient.degree() == 0 {
            self.add_multiple(&mut terms, &powers[&k], quotient.0[0]);
        } else {
            let inner = scale / powers[&k].scale * self.context.step(level + 1);
            let inner = self.finished(&self.parts_of(powers, &quotient, level + 1, inner)?)?;
            self.add_product(&mut terms, &inner, &powers[&k], 1);
        }
        Ok(terms)
    }

    fn step(
        &self,
        program: &CkksProgram,
        op: &CkksOp,
        registers: &File,
        lane: usize,
    ) -> Result<Pair> {
        let info = program.reg(op.result());
        let get = |reg: &Reg| registers.get(*reg, lane);
        Ok(match op {
            CkksOp::Linear { src, map, .. } => self.linear(get(src)?, program, *map)?,
            CkksOp::Polynomial { src, polynomial, .. } => {
                let p = &program.polynomials()[*polynomial as usize];
                self.polynomial(get(src)?, p, info.scale)?
            }
            CkksOp::DoubleAngle { src, .. } => self.polynomial_of_two(get(src)?)?,
            CkksOp::RaiseModulus { src, .. } => {
                self.raise_modulus(get(src)?, info.level, info.scale)?
            }
            CkksOp::Trace { src, dst } => self.summed(get(src)?, program.traced(*dst, *src))?,
            CkksOp::Sum { src, size, .. } => {
                self.summed(get(src)?, sum_rotations(*size).into_iter().map(|by| by as usize))?
            }
            CkksOp::Multiply { a, b, .. } => self.products(&[(get(a)?, get(b)?)])?,
            CkksOp::Dot { pairs, .. } => {
                let pairs = pairs.iter().map(|(a, b)| Ok((get(a)?, get(b)?)));
                self.products(&pairs.collect::<Result<Vec<_>>>()?)?
            }
            CkksOp::MultiplyI { src, .. } => {
                let half = self.degree() / 2;
                with_parts(get(src)?, |part| part.shifted(half))
            }
            CkksOp::Negate { src, .. } => {
                with_parts(get(src)?, |part| part.scaled(&BigInt::from(-1)))
            }
            CkksOp::Conjugate { src, .. } => {
                let g = 2 * self.degree() - 1;
                self.image(get(src)?, Purpose::Galois(g as u32), g)?
            }
            CkksOp::Rotate { src, by, .. } => {
                self.rotated(get(src)?, by.rem_euclid(program.reg(*src).slots as i64))?
            }
            CkksOp::Add { a, b, .. } => plus(get(a)?, get(b)?),
            CkksOp::Subtract { a, b, .. } => {
                let (a, b) = (get(a)?, get(b)?);
                Pair { parts: [0, 1].map(|k| a.parts[k].minus(&b.parts[k])), ..*a }
            }
            CkksOp::WeightedSum { terms, .. } => {
                let get = |(x, c): &(Reg, f64)| Ok((get(x)?, *c));
                self.weighted(&terms.iter().map(get).collect::<Result<Vec<_>>>()?, info.level)?
            }
            CkksOp::LevelDown { src, .. } => self.level_down(get(src)?, info.level)?,
            CkksOp::Reinterpret { src, .. } => Pair { scale: info.scale, ..get(src)?.clone() },
            CkksOp::Repeat { src, .. }
            | CkksOp::Refreshed { src, .. }
            | CkksOp::Tabulate { src, .. } => get(src)?.clone(),
            _ => self.step_with_public(program, op, get(&op.sources()[0])?)?,
        })
    }

    /// Instructions with a number or a plaintext, and the rescale.
    fn step_with_public(&self, program: &CkksProgram, op: &CkksOp, x: &Pair) -> Result<Pair> {
        // Where the result is to have the scale of the level below.
        let before = || Ok(self.context.scale(x.level - 1)? * self.context.step(x.level));
        let values = |which: &u32| &program.plaintexts()[*which as usize];
        let mut out = x.clone();
        match op {
            CkksOp::AddConstant { constant, .. } => {
                let c = integer((constant * x.scale).round());
                out.parts[0] = out.parts[0].plus_constant(&c);
            }
            CkksOp::AddPlain { plaintext, .. } => {
                let plain = match program.reg(op.result()).integers {
                    Some(bits) => self.integers(values(plaintext), bits),
                    None => self.encoded(values(plaintext), x.scale, x.level),
                };
                out.parts[0] = out.parts[0].plus(&plain);
            }
            CkksOp::MultiplyConstant { constant, .. } => {
                let mut terms = self.terms(x.level, before()?);
                self.add_multiple(&mut terms, x, *constant);
                out = self.rescaled(&terms);
            }
            CkksOp::MultiplyPlain { plaintext, .. } => {
                let mut terms = self.terms(x.level, before()?);
                let plain = self.encoded(values(plaintext), terms.scale / x.scale, x.level);
                for (sum, part) in terms.parts.iter_mut().zip(&x.parts) {
                    *sum = part.times(&plain);
                }
                out = self.rescaled(&terms);
            }
            CkksOp::Rescale { .. } => {
                let mut terms = self.terms(x.level, x.scale);
                self.add_multiple(&mut terms, x, 1.0);
                out = self.rescaled(&terms);
            }
            other => {
                let remedy = "write its definition here";
                return Err(Error::unsupported(OP, "a known instruction", other.name(), remedy));
            }
        }
        Ok(out)
    }

    /// x + (x rotated), once for each rotation, of what is summed so far.
    fn summed(&self, x: &Pair, by: impl Iterator<Item = usize>) -> Result<Pair> {
        let mut sum = x.clone();
        for by in by {
            sum = plus(&sum, &self.rotated(&sum, by as i64)?);
        }
        Ok(sum)
    }

    /// Σ a·b, relinearized and rescaled once.
    fn products(&self, pairs: &[(&Pair, &Pair)]) -> Result<Pair> {
        let (a, b) = pairs[0];
        let mut terms = self.terms(a.level, a.scale * b.scale);
        pairs.iter().for_each(|(a, b)| self.add_product(&mut terms, a, b, 1));
        self.finished(&terms)
    }

    /// Σ c·x, rescaled to `level`.
    fn weighted(&self, terms: &[(&Pair, f64)], level: usize) -> Result<Pair> {
        let before = self.context.scale(level)? * self.context.step(level + 1);
        let mut sum = self.terms(level + 1, before);
        terms.iter().for_each(|(x, c)| self.add_multiple(&mut sum, x, *c));
        Ok(self.rescaled(&sum))
    }

    /// 2x² − 1.
    fn polynomial_of_two(&self, x: &Pair) -> Result<Pair> {
        let mut powers = BTreeMap::from([(1, x.clone())]);
        self.extend(&mut powers, 2)?;
        Ok(powers.remove(&2).unwrap_or_else(|| x.clone()))
    }
}

fn plus(a: &Pair, b: &Pair) -> Pair {
    Pair { parts: [0, 1].map(|k| a.parts[k].plus(&b.parts[k])), ..*a }
}

fn with_parts(x: &Pair, f: impl Fn(&Polynomial) -> Polynomial) -> Pair {
    Pair { parts: x.parts.each_ref().map(f), ..*x }
}
