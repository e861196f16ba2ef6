//! A program run unencrypted: on exact phases without noise instead of ciphertexts, for tests and for examining circuits.
//!
//! A register holds one torus element, the phase that its ciphertext would have without noise. A bootstrap takes the
//! coefficient of its table that the rotation would bring to the front. Every phase is checked to be a value of the
//! register's encoding within its range: a circuit that only works by luck of the values is found.

use super::{Op, Program, Reg, RegType, TableRef};
use crate::{Error, Result};

impl Program {
    /// The values of the outputs for these values of the inputs, one each, as if there were no encryption.
    ///
    /// # Errors
    /// [`Error::BadInput`] for the wrong number of values, a value outside the range of its register, or a register whose
    /// phase is not a value within its declared range; [`Error::Unsupported`] for encrypted tables.
    pub fn run_unencrypted(&self, inputs: &[i64]) -> Result<Vec<i64>> {
        if inputs.len() != self.inputs.len() {
            return Err(Error::bad_input(
                "run unencrypted",
                format!("{} values", self.inputs.len()),
                inputs.len().to_string(),
                "give one for each input",
            ));
        }
        let q = self.params.modulus;
        let mut phases = vec![0u64; self.regs.len()];
        for (r, v) in self.inputs.iter().zip(inputs) {
            phases[r.0 as usize] = self.regs[r.0 as usize].encoding.encode(q, *v);
            self.value(*r, &phases)?;
        }
        for op in &self.ops {
            match op {
                Op::MulAdd { dst, terms, constant } => {
                    let add = |sum, (c, r): &(i64, Reg)| {
                        q.add(sum, q.mul(q.from_signed(*c), phases[r.0 as usize]))
                    };
                    phases[dst.0 as usize] = terms.iter().fold(*constant, add);
                    self.value(*dst, &phases)?;
                }
                Op::KeySwitch { dst, src } => phases[dst.0 as usize] = phases[src.0 as usize],
                Op::Bootstrap { dst, src, table } => self.rotate(dst, *src, table, &mut phases)?,
                Op::AddSlots { .. } | Op::Extract { .. } | Op::Pack { .. } | Op::SlotMap { .. } => {
                    return Err(Error::unsupported(
                        "run unencrypted",
                        "programs of plain ciphertexts",
                        "an instruction between the slots of a common mask",
                        "record the program for a set with one slot",
                    ));
                }
            }
        }
        self.outputs.iter().map(|r| self.value(*r, &phases)).collect()
    }

    /// The coefficients that are extracted after the rotation by a phase.
    fn rotate(&self, dst: &[Reg], src: Reg, table: &TableRef, phases: &mut [u64]) -> Result<()> {
        let TableRef::Clear(t) = table else {
            return Err(Error::unsupported(
                "run unencrypted",
                "plaintext tables",
                "an encrypted table, or one for each slot",
                "look up in a table of the program",
            ));
        };
        let (q, n) = (self.params.modulus, self.params.table_size());
        let table = &self.tables[*t as usize];
        let turn = (q.to_torus(phases[src.0 as usize]) as u128 * 2 * n as u128 + (1 << 63)) >> 64;
        for (d, o) in dst.iter().zip(&table.outputs) {
            let at = (turn as usize + o.index) % (2 * n);
            let word = table.polynomial[at % n];
            phases[d.0 as usize] = if at < n { word } else { q.neg(word) };
        }
        Ok(())
    }

    /// The value of a register; refused if its phase is none or lies outside the declared range.
    fn value(&self, reg: Reg, phases: &[u64]) -> Result<i64> {
        let (q, info) = (self.params.modulus, &self.regs[reg.0 as usize]);
        let phase = phases[reg.0 as usize];
        let (low, high) = info.range;
        // A range of more values than the torus has names some of them twice.
        let count = high.saturating_sub(low).min(2 * info.encoding.parts() as i64);
        let value = (0..=count).map(|v| low + v).find(|v| {
            let off = q.to_signed(q.sub(phase, info.encoding.encode(q, *v)));
            // Fractions of the torus are rounded, and sums of them by a little more.
            off.unsigned_abs() < 1 << 40
        });
        let fits = matches!(info.ty, RegType::Lwe(_));
        value.filter(|_| fits).ok_or_else(|| {
            Error::bad_input(
                "run unencrypted",
                format!(
                    "a value from {low} to {high} of {:?} in register {}",
                    info.encoding, reg.0
                ),
                format!("the phase {:.6}", q.to_torus(phase) as f64 * 2f64.powi(-64)),
                "declare the true range, or mend the circuit",
            )
        })
    }
}
