//! Programs in the clear: every register holds the phase that an encryption without noise would have.

use super::{Op, Program, TableRef};
use crate::{Error, Result};

impl Program {
    /// What the program computes, on values instead of ciphertexts: one value for each argument, one for each result.
    ///
    /// # Errors
    /// [`Error::BadInput`] for another number of values, [`Error::Unsupported`] for an encrypted table.
    pub fn run_in_the_clear(&self, values: &[u64]) -> Result<Vec<u64>> {
        if values.len() != self.inputs.len() {
            return Err(Error::bad_input(
                "program",
                format!("{} values", self.inputs.len()),
                values.len().to_string(),
                "give one for each argument",
            ));
        }
        let q = self.params.modulus;
        let mut phases = vec![0u64; self.regs.len()];
        for (reg, value) in self.inputs.iter().zip(values) {
            phases[reg.0 as usize] = self.regs[reg.0 as usize].encoding.encode(q, *value as i64);
        }
        for op in &self.ops {
            match op {
                Op::MulAdd { dst, terms, constant } => {
                    let term =
                        |&(c, r): &(i64, super::Reg)| q.mul(q.from_signed(c), phases[r.0 as usize]);
                    let sum = terms.iter().map(term).fold(*constant, |sum, t| q.add(sum, t));
                    phases[dst.0 as usize] = sum;
                }
                Op::KeySwitch { dst, src } => phases[dst.0 as usize] = phases[src.0 as usize],
                Op::Bootstrap { table: TableRef::Encrypted(..), .. } => {
                    return Err(Error::unsupported(
                        "program",
                        "tables in the clear",
                        "an encrypted one",
                        "run the program with keys",
                    ));
                }
                Op::Bootstrap { dst, src, table: TableRef::Clear(t) } => {
                    let table = &self.tables[*t as usize];
                    let exponent = self.exponent(phases[src.0 as usize]);
                    for (dst, output) in dst.iter().zip(&table.outputs) {
                        phases[dst.0 as usize] =
                            self.entry(&table.polynomial, exponent + output.index);
                    }
                }
            }
        }
        let value =
            |r: &super::Reg| self.regs[r.0 as usize].encoding.decode(q, phases[r.0 as usize]);
        Ok(self.outputs.iter().map(value).collect())
    }

    /// round(2N·phase).
    fn exponent(&self, phase: u64) -> usize {
        let cells = 2 * self.params.polynomial_size as u128;
        let torus = self.params.modulus.to_torus(phase) as u128;
        ((torus * cells + (1 << 63)) >> 64) as usize
    }

    /// A coefficient of a polynomial that goes on with period 2N, the second half negated.
    fn entry(&self, polynomial: &[u64], at: usize) -> u64 {
        let n = polynomial.len();
        let value = polynomial[at % n];
        if at / n % 2 == 1 { self.params.modulus.neg(value) } else { value }
    }
}
