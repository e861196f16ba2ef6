//! Boolean gates as lookup tables.
//!
//! With two values below the padding bit (false at 0, true at 1/4) a gate is a linear combination and the sign table,
//! because its result sits at least 1/8 from both borders of the upper half (Chillotti, Gama, Georgieva, Izabachène
//! 2016, §5). With more room a gate is the table of 2a + b.

use super::{Program, Reg};
use crate::cipher::Encoding;
use crate::tfhe::Table;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A boolean function of two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Gate {
    /// Both.
    And,
    /// Not both.
    Nand,
    /// At least one.
    Or,
    /// None.
    Nor,
    /// Exactly one.
    Xor,
    /// Both or none.
    Xnor,
}

impl Gate {
    /// All two-input gates.
    pub const ALL: [Gate; 6] = [Gate::And, Gate::Nand, Gate::Or, Gate::Nor, Gate::Xor, Gate::Xnor];

    /// The gate's value on plaintext bits.
    pub fn eval(self, a: bool, b: bool) -> bool {
        match self {
            Gate::And => a & b,
            Gate::Nand => !(a & b),
            Gate::Or => a | b,
            Gate::Nor => !(a | b),
            Gate::Xor => a ^ b,
            Gate::Xnor => !(a ^ b),
        }
    }

    /// Factor of `a + b` and constant in eighths of the torus such that the sign is the gate's value.
    fn sign_form(self) -> (i64, i64) {
        match self {
            Gate::And => (1, -3),
            Gate::Nand => (-1, 3),
            Gate::Or => (1, -1),
            Gate::Nor => (-1, 1),
            Gate::Xor => (2, -2),
            Gate::Xnor => (-2, 2),
        }
    }
}

impl Program {
    /// One gate of two booleans (values 0 and 1 in the same encoding): one bootstrap.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the inputs may hold other values than 0 and 1.
    pub fn gate(&mut self, gate: Gate, a: Reg, b: Reg) -> Result<Reg> {
        let encoding = self.boolean(&[a, b])?;
        if encoding.values >= 4 {
            let packed = self.linear(&[(2, a), (1, b)], 0)?;
            let values: Vec<u64> =
                (0..4).map(|m| gate.eval(m & 2 != 0, m & 1 != 0) as u64).collect();
            let table = Table::with(&self.params, encoding, encoding, &values)?;
            return self.lookup(packed, &table);
        }
        let (factor, eighths) = gate.sign_form();
        let sign = self.sign(&[(factor, a), (factor, b)], eighths)?;
        self.rest(&[sign], 1, encoding)
    }

    /// The negation of a boolean: no bootstrap.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the input may hold other values than 0 and 1.
    pub fn not(&mut self, a: Reg) -> Result<Reg> {
        self.boolean(&[a])?;
        self.linear(&[(-1, a)], 1)
    }

    /// `if s { x } else { y }`: one bootstrap where three bits fit the encoding, else two.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the inputs may hold other values than 0 and 1.
    pub fn mux(&mut self, s: Reg, x: Reg, y: Reg) -> Result<Reg> {
        let encoding = self.boolean(&[s, x, y])?;
        if encoding.values >= 8 {
            let packed = self.linear(&[(4, s), (2, x), (1, y)], 0)?;
            let values: Vec<u64> =
                (0..8).map(|m| if m & 4 != 0 { (m >> 1) & 1 } else { m & 1 }).collect();
            let table = Table::with(&self.params, encoding, encoding, &values)?;
            return self.lookup(packed, &table);
        }
        if encoding.values >= 4 {
            let when_set = self.linear(&[(2, s), (1, x)], 0)?;
            let when_clear = self.linear(&[(2, s), (1, y)], 0)?;
            let set = self
                .lookup(when_set, &Table::with(&self.params, encoding, encoding, &[0, 0, 0, 1])?)?;
            let clear = self.lookup(
                when_clear,
                &Table::with(&self.params, encoding, encoding, &[0, 1, 0, 0])?,
            )?;
            let sum = self.linear(&[(1, set), (1, clear)], 0)?;
            self.graph.regs[sum.0 as usize].range = (0, 1); // never both
            return Ok(sum);
        }
        let set = self.sign(&[(1, s), (1, x)], -3)?;
        let clear = self.sign(&[(-1, s), (1, y)], -1)?;
        self.rest(&[set, clear], 2, encoding)
    }

    /// The sign of `Σ terms + eighths/8`, ±1/8, under the big key.
    fn sign(&mut self, terms: &[(i64, Reg)], eighths: i64) -> Result<Reg> {
        // A factor of two doubles the distance to the border as well: the sum is as good as one value of margin 1/4.
        let values = if terms.iter().all(|t| t.0.abs() == 2) { 1 } else { 2 };
        let encoding = Encoding { values, padding: true };
        let constant = self.params.modulus.fraction(eighths.rem_euclid(8) as u64, 8);
        let mut sum = self.linear_as(terms, constant, encoding, (0, 1))?;
        if self.params.order == crate::params::Order::KsPbs {
            sum = self.key_switch(sum)?;
        }
        let table = Table::sign(&self.params);
        Ok(self.bootstrap(sum, &table)?[0])
    }

    /// Signs ±1/8 summed, lifted by `eighths`/8 to the values 0 and 1, under the resting key.
    fn rest(&mut self, signs: &[Reg], eighths: u64, encoding: Encoding) -> Result<Reg> {
        let terms: Vec<(i64, Reg)> = signs.iter().map(|r| (1, *r)).collect();
        let constant = self.params.modulus.fraction(eighths, 8);
        let sum = self.linear_as(&terms, constant, encoding, (0, 1))?;
        match self.params.order {
            crate::params::Order::KsPbs => Ok(sum),
            crate::params::Order::PbsKs => self.key_switch(sum),
        }
    }

    /// The common encoding of booleans.
    fn boolean(&self, regs: &[Reg]) -> Result<Encoding> {
        let first = self.known(regs[0])?;
        for &r in regs {
            let info = self.known(r)?;
            let fits = info.encoding == first.encoding
                && info.encoding.padding
                && info.encoding.values >= 2
                && info.encoding.values != 3;
            if !fits || info.range.0 < 0 || info.range.1 > 1 {
                return Err(Error::bad_input(
                    "gate",
                    "booleans 0 and 1 in one padded encoding",
                    format!(
                        "values {} to {} of {}",
                        info.range.0, info.range.1, info.encoding.values
                    ),
                    "encrypt booleans, or bring the value to 0 and 1 by a table",
                ));
            }
        }
        Ok(first.encoding)
    }
}
