//! Polynomials of ciphertexts in the basis of Chebyshev on a device: as `backend/cpu/rlwe/polynomial.rs`, of one ciphertext or of several that
//! are alike, such as the two halves of a bootstrap. These share launches and readings of the keys.

use super::arithmetic::{Cipher, Sum};
use super::recorder::Recorder;
use crate::Result;
use crate::cipher::Purpose;
use crate::ckks::{CHEBYSHEV_LEAF, Chebyshev};
use std::collections::BTreeMap;

/// T_1, T_2, T_3 and T_(2^i) of some ciphertexts of one level and scale.
struct Basis<'r, 'a> {
    on: &'r mut Recorder<'a>,
    powers: BTreeMap<usize, Vec<Cipher>>,
}

impl Basis<'_, '_> {
    /// Sums relinearized and rescaled.
    fn finish(&mut self, sums: Vec<Sum>) -> Result<Vec<Cipher>> {
        let key = self.on.key(Purpose::Multiply, sums.first().map_or(0, |sum| sum.level))?;
        Ok(Sum::finish_all(sums, &mut self.on.tape, key))
    }

    /// How many ciphertexts there are.
    fn count(&self) -> usize {
        self.powers[&1].len()
    }

    /// Makes T_k of T_a and T_(k−a).
    fn extend(&mut self, k: usize) -> Result<()> {
        let a = if k.is_power_of_two() { k / 2 } else { 1 << k.ilog2() };
        let mut sums = vec![];
        for i in 0..self.count() {
            let (x, y) = (self.powers[&a][i].clone(), self.powers[&(k - a)][i].clone());
            let mut sum = Sum::new(x.level.min(y.level), x.scale * y.scale);
            sum.add_product(&mut self.on.tape, &x, &y, true);
            match a - (k - a) {
                0 => sum.add_constant(-1.0),
                d => sum.add_multiple(&mut self.on.tape, &self.powers[&d][i], -1.0),
            }
            sums.push(sum);
        }
        let made = self.finish(sums)?;
        self.powers.insert(k, made);
        Ok(())
    }

    /// p as sums at `level` with the scale `scale`.
    fn sums(&mut self, p: &Chebyshev, level: usize, scale: f64) -> Result<Vec<Sum>> {
        let (degree, count) = (p.degree(), self.count());
        let there = |i: usize| self.powers.get(&i).is_some_and(|t| t[0].level >= level);
        if degree <= 1 || degree <= CHEBYSHEV_LEAF && (1..=degree).all(there) {
            let mut sums: Vec<Sum> = (0..count).map(|_| Sum::new(level, scale)).collect();
            for (at, sum) in sums.iter_mut().enumerate() {
                sum.add_constant(p.0[0]);
                for i in (1..=degree).filter(|i| p.0[*i] != 0.0) {
                    sum.add_multiple(&mut self.on.tape, &self.powers[&i][at], p.0[i]);
                }
            }
            return Ok(sums);
        }
        let k = 1 << degree.ilog2();
        let [quotient, remainder] = p.divided(k);
        let factors = self.powers[&k].clone();
        let mut sums = self.sums(&remainder, level, scale)?;
        if quotient.degree() == 0 {
            for (sum, factor) in sums.iter_mut().zip(&factors) {
                sum.add_multiple(&mut self.on.tape, factor, quotient.0[0]);
            }
            return Ok(sums);
        }
        let inner = scale / factors[0].scale * self.on.tape.context.step(level + 1);
        let inner = self.sums(&quotient, level + 1, inner)?;
        let inner = self.finish(inner)?;
        for ((sum, inner), factor) in sums.iter_mut().zip(&inner).zip(&factors) {
            sum.add_product(&mut self.on.tape, inner, factor, false);
        }
        Ok(sums)
    }
}

impl Recorder<'_> {
    /// p of every slot of each, at exactly `scale`.
    pub fn polynomials(
        &mut self,
        all: Vec<Cipher>,
        p: &Chebyshev,
        scale: f64,
    ) -> Result<Vec<Cipher>> {
        let level = all.first().map_or(0, |x| x.level + 1) - p.depth();
        let mut basis = Basis { on: self, powers: BTreeMap::from([(1, all)]) };
        let mut k = 2;
        while k <= p.degree() {
            basis.extend(k)?;
            if k == 2 && p.degree() > CHEBYSHEV_LEAF {
                basis.extend(3)?;
            }
            k *= 2;
        }
        let step = basis.on.tape.context.step(level);
        let sums = basis.sums(p, level, scale * step)?;
        basis.finish(sums)
    }

    /// 2·x² − 1 in every slot of each, which is T_2: one level lower.
    pub fn doubled_angles(&mut self, all: Vec<Cipher>) -> Result<Vec<Cipher>> {
        let mut basis = Basis { on: self, powers: BTreeMap::from([(1, all)]) };
        basis.extend(2)?;
        Ok(basis.powers.remove(&2).unwrap_or_default())
    }
}
