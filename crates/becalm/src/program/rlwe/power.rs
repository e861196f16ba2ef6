//! Powers of a register, with the fewest levels, and polynomials on an interval.

use super::{Chebyshev, CkksProgram};
use crate::program::Reg;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// The levels that a power takes: ⌈log2(exponent)⌉.
pub(crate) fn levels_of_power(exponent: u64) -> usize {
    (u64::BITS - exponent.saturating_sub(1).leading_zeros()) as usize
}

impl CkksProgram {
    /// x^exponent in every slot: ⌈log2(exponent)⌉ levels. Powers that several products share are computed once.
    ///
    /// # Errors
    /// `BadInput` for a register of another program or at too low a level, `Unsupported` for the exponent 0.
    pub fn power(&mut self, x: Reg, exponent: u64) -> Result<Reg> {
        let op = "power";
        if exponent == 0 {
            let wanted = "an exponent of 1 or above";
            return Err(Error::unsupported(op, wanted, "0", "encode the number 1"));
        }
        let Some(level) = self.info(x).map(|info| info.level) else {
            let (wanted, got) = ("a register of this program", x.0.to_string());
            return Err(Error::bad_input(op, wanted, got, "use registers of the program"));
        };
        let depth = levels_of_power(exponent);
        self.chain.require_level(op, depth, level, &format!(" for the power {exponent}"))?;
        self.raised(exponent, &mut BTreeMap::from([(1, x)]))
    }

    /// p(factor·x + offset) in every slot, at the scale of the level that is left. A factor other than 1 takes a level.
    ///
    /// # Errors
    /// As [`CkksProgram::polynomial`] and [`CkksProgram::multiply_constant`]; all levels are asked for at once.
    pub fn polynomial_of(&mut self, x: Reg, p: Chebyshev, factor: f64, offset: f64) -> Result<Reg> {
        let (level, mapped) = (self.known(x)?.level, factor != 1.0);
        let (depth, degree) = (p.depth() + usize::from(mapped), p.degree());
        self.chain.require_level("polynomial", depth, level, &format!(" for degree {degree}"))?;
        self.wholly(|own| {
            let x = if mapped { own.multiply_constant(x, factor)? } else { x };
            let x = if offset == 0.0 { x } else { own.add_constant(x, offset)? };
            own.polynomial_at_level(x, p)
        })
    }

    fn raised(&mut self, exponent: u64, made: &mut BTreeMap<u64, Reg>) -> Result<Reg> {
        if let Some(known) = made.get(&exponent) {
            return Ok(*known);
        }
        // The largest power of two below it is no deeper than all of it.
        let high = exponent.next_power_of_two() / 2;
        let factors = [self.raised(high, made)?, self.raised(exponent - high, made)?];
        let both = self.aligned(&factors)?;
        let product = self.multiply(both[0], both[1])?;
        made.insert(exponent, product);
        Ok(product)
    }
}
