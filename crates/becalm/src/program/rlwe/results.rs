//! Recording integers, sums with weights, ciphertexts that are read in another way, and the results of bootstraps and tables, whose accounts
//! follow from a contract.

use super::record::refuse;
use super::{CkksOp, CkksProgram, Contract, Gives, Limits, RlweInfo};
use crate::Result;
use crate::ckks::same_scale;
use crate::math::complex::Complex;
use crate::program::Reg;

impl CkksProgram {
    /// A new argument of integers of so many bits.
    ///
    /// # Errors
    /// `BadInput` for bits that the set has no tables for.
    pub fn input_integers(&mut self, bits: u32) -> Result<Reg> {
        let (scale, slots) = (self.chain.scale(0)?, self.params().slots());
        self.input_as(RlweInfo { level: 0, scale, slots, integers: Some(bits) })
    }

    /// Σ c·x of registers of any level and scale, rescaled once to the scale of the level below the lowest of them.
    ///
    /// # Errors
    /// `BadInput` for no terms, for registers of different slots, for a c that is not finite, at level 0 and above the levels of the user.
    pub fn weighted_sum(&mut self, terms: &[(Reg, f64)]) -> Result<Reg> {
        let op = "weighted sum";
        let mut known = vec![];
        for (reg, c) in terms {
            self.chain.check_values(op, &[Complex::from(*c)])?;
            known.push((self.known(*reg)?, *reg));
        }
        let Some((lowest, reg)) = known.iter().min_by_key(|(info, _)| info.level).copied() else {
            return refuse(op, "one term or more", "none");
        };
        for (info, _) in &known {
            self.require_together(op, lowest, RlweInfo { level: lowest.level, ..*info })?;
        }
        let info = self.one_below(op, reg)?;
        let terms = terms.to_vec();
        Ok(self.push(info, |dst| CkksOp::WeightedSum { dst, terms }))
    }

    /// A result of a bootstrap of these registers, whose slots and account of the error it gets.
    pub(super) fn refreshed(&mut self, src: Reg, from: &[Reg], limits: Limits) -> Result<Reg> {
        let (op, info) = ("bootstrap", self.known(src)?);
        let slots = from.iter().map(|r| Ok(self.known(*r)?.slots)).collect::<Result<Vec<_>>>()?;
        let first = slots.first().copied().unwrap_or(0);
        limits.validate()?;
        if limits.error.is_none() || first == 0 || first > info.slots {
            let got = format!("{first} slots");
            return refuse(op, format!("registers of at most {} slots", info.slots), got);
        }
        if let Some(other) = slots.iter().find(|other| **other != first) {
            return refuse(op, format!("{first} slots"), other.to_string());
        }
        let (from, limits) = (from.to_vec(), Box::new(limits));
        let info = RlweInfo { slots: first, ..info };
        Ok(self.push(info, |dst| CkksOp::Refreshed { dst, src, from, limits }))
    }

    /// Integers of a table or of slots, or slots of integers, by their contract.
    pub(crate) fn tabulate(&mut self, src: Reg, from: Reg, contract: Contract) -> Result<Reg> {
        let (op, info, looked) = ("look up", self.known(src)?, self.content(from)?);
        contract.validate()?;
        let packs = matches!(contract.gives, Gives::Packed(..));
        if looked.integers.is_none() != packs {
            let [wanted, got] = [!packs, packs].map(|integers| match integers {
                true => "integers to look up",
                false => "slots to pack",
            });
            return refuse(op, wanted, got);
        }
        if let Gives::Packed(_, count) = contract.gives
            && !(1..=self.params().degree()).contains(&count)
        {
            let wanted = format!("1 to {} integers", self.params().degree());
            return refuse(op, wanted, count.to_string());
        }
        let integers = contract.gives.bits();
        if let Some(bits) = integers {
            if info.level != 0 || !same_scale(info.scale, self.chain.scale(0)?) {
                return refuse(op, "a result at level 0", format!("level {}", info.level));
            }
            self.chain.check_integers(op, bits)?;
        }
        let info = RlweInfo { integers, ..info };
        let contract = Box::new(contract);
        Ok(self.push(info, |dst| CkksOp::Tabulate { dst, src, from, contract }))
    }

    /// c·x for an integer c, by sums: no level, and exact. It is meant for integers, whose products are taken modulo 2^bits.
    ///
    /// # Errors
    /// `BadInput` for 0 and for an unknown register.
    pub fn multiple(&mut self, src: Reg, c: i64) -> Result<Reg> {
        self.content(src)?;
        if c == 0 {
            return refuse("multiply", "a factor that is not 0", "0");
        }
        self.wholly(|p| {
            let mut sum = None;
            for bit in (0..64 - c.unsigned_abs().leading_zeros()).rev() {
                if let Some(half) = sum {
                    sum = Some(p.add(half, half)?);
                }
                if c.unsigned_abs() >> bit & 1 == 1 {
                    sum = Some(sum.map_or(Ok(src), |sum| p.add(sum, src))?);
                }
            }
            let product = sum.unwrap_or(src);
            if c < 0 { p.negate(product) } else { Ok(product) }
        })
    }

    /// The same ciphertext read at another scale: every value is divided by `by`.
    ///
    /// # Errors
    /// `BadInput` for a number that is not finite and positive.
    pub fn divide(&mut self, src: Reg, by: f64) -> Result<Reg> {
        let from = self.known(src)?;
        self.reinterpret(src, from.scale * by)
    }

    /// [`CkksProgram::divide`] by the scale that results.
    pub(super) fn reinterpret(&mut self, src: Reg, scale: f64) -> Result<Reg> {
        let from = self.known(src)?;
        self.check_scale("divide", scale)?;
        Ok(self.push(RlweInfo { scale, ..from }, |dst| CkksOp::Reinterpret { dst, src }))
    }

    /// The same values as a vector of more slots, in which they repeat.
    ///
    /// # Errors
    /// `BadInput` for a number of slots that is not a power of two or below that of the source.
    pub fn repeat(&mut self, src: Reg, slots: usize) -> Result<Reg> {
        let from = self.known(src)?;
        self.check_slots("repeat", slots)?;
        if slots < from.slots {
            return refuse("repeat", format!("{} slots or more", from.slots), slots.to_string());
        }
        Ok(self.push(RlweInfo { slots, ..from }, |dst| CkksOp::Repeat { dst, src }))
    }
}
